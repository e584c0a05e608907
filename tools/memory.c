// memory.c: `troupe memory`: totals of a node's object store, by kind, by process, and its largest
// objects. The store's tables are mapped and read: a node that hangs is shown like any other.
#include "troupe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <troupe.h>
#include <unistd.h>

enum { MOST_DEFAULT = 20, NODES_MAX = 64, HOLDERS_SHOWN = 3 };

typedef struct settings {
    size_t most;
    int pid; // 0: the one node that there is.
    bool json, inner, all;
} settings;

static void usage(FILE *out)
{
    fprintf(out,
            "usage: troupe memory [OPTION...] [PID]\n\n"
            "Shows what the object store of a node holds. PID is any of the node's processes; it\n"
            "may be left out where this machine has one node of yours.\n\n"
            "  -a, --all      looks for nodes of other users too, where PID is left out\n"
            "  -n, --most N   lists the N largest objects (default %d)\n"
            "  --inner        lists the runtime's own objects too\n"
            "  --json         prints all of it as one JSON object\n",
            MOST_DEFAULT);
}

// ---- which node

// Root may look at anybody's memory, but nobody else's is looked at for being there.
static bool is_own(DIR *processes, const char *pid)
{
    struct stat about;
    return fstatat(dirfd(processes), pid, &about, AT_SYMLINK_NOFOLLOW) == 0 &&
           about.st_uid == geteuid();
}

// The drivers of the nodes that can be looked at, of this user or of all; how many. `stranger`:
// what is wrong with a node of another version, if there is one.
static int find_nodes(int pids[NODES_MAX], bool all, char *stranger, size_t size)
{
    DIR *processes = opendir("/proc");
    int count = 0;
    if (processes == NULL)
        return 0;
    for (struct dirent *it; (it = readdir(processes)) != NULL;) {
        troupe_memory memory;
        int pid = (int)strtol(it->d_name, NULL, 10), known = 0;
        bool wanted = pid > 0 && (all || is_own(processes, it->d_name));
        troupe_status status =
            wanted ? troupe_memory_get(&memory, .pid = pid, .most = 1) : TROUPE_NOT_FOUND;
        if (status == TROUPE_VERSION)
            snprintf(stranger, size,
                     "process %d belongs to a node of another version of Troupe: %.300s", pid,
                     troupe_last_error()->text);
        if (status == TROUPE_OK) {
            int driver = memory.driver_pid > 0 ? memory.driver_pid : pid; // As it says.
            while (known < count && pids[known] != driver)
                known++;
            if (known == count && count < NODES_MAX)
                pids[count++] = driver;
        }
        troupe_arena_reset();
    }
    closedir(processes);
    return count;
}

static int choose_node(int *pid, bool all)
{
    int pids[NODES_MAX];
    char stranger[512];
    if (*pid != 0)
        return TOOL_DONE;
    snprintf(stranger, sizeof stranger, "no node%s runs on this machine%s", all ? "" : " of yours",
             all || geteuid() != 0 ? "" : " (-a looks for those of others too)");
    int count = find_nodes(pids, all, stranger, sizeof stranger);
    if (count == 1) {
        *pid = pids[0];
        return TOOL_DONE;
    }
    if (count == 0) {
        fprintf(stderr, "troupe memory: %s\n", stranger);
        return TOOL_FAILED;
    }
    fprintf(stderr, "troupe memory: %d nodes run here; say which one by its driver:", count);
    for (int i = 0; i < count; i++)
        fprintf(stderr, " %d", pids[i]);
    fprintf(stderr, "\n");
    return TOOL_MISUSED;
}

// ---- for people

typedef struct text {
    char text[32];
} text;

static text bytes_text(uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    text out;
    double scaled = (double)bytes;
    size_t unit = 0;
    while (scaled >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        scaled /= 1024;
        unit++;
    }
    snprintf(out.text, sizeof out.text, unit == 0 ? "%.0f %s" : "%.1f %s", scaled, units[unit]);
    return out;
}

static text time_text(double seconds)
{
    text out;
    if (seconds < 100)
        snprintf(out.text, sizeof out.text, "%.1f s", seconds);
    else if (seconds < 6000)
        snprintf(out.text, sizeof out.text, "%.0f min", seconds / 60);
    else
        snprintf(out.text, sizeof out.text, "%.1f h", seconds / 3600);
    return out;
}

static void print_totals(const troupe_memory *it)
{
    printf("node of driver %d: %" PRIu64 " object%s, %s of %s; free %s, in one piece %s\n",
           it->driver_pid, it->objects, it->objects == 1 ? "" : "s",
           bytes_text(it->bytes_used).text, bytes_text(it->bytes_max).text,
           bytes_text(it->bytes_free).text, bytes_text(it->bytes_free_longest).text);
    printf("backed by the system: %s; the runtime's own: %s\n", bytes_text(it->bytes_backed).text,
           bytes_text(it->bytes_inner).text);
    if (it->objects_on_disk > 0)
        printf("on disk: %" PRIu64 " object%s, %s\n", it->objects_on_disk,
               it->objects_on_disk == 1 ? "" : "s", bytes_text(it->bytes_on_disk).text);
}

static void print_kinds(const troupe_memory *it)
{
    printf("\n%-10s %8s %11s\n", "kind", "objects", "bytes");
    for (int kind = 0; kind < TROUPE_OBJECT_KINDS; kind++)
        if (it->kinds[kind].objects > 0)
            printf("%-10s %8" PRIu64 " %11s\n", troupe_object_kind_name(kind),
                   it->kinds[kind].objects, bytes_text(it->kinds[kind].bytes_used).text);
}

static void print_processes(const troupe_memory *it)
{
    if (it->processes.count == 0)
        return;
    printf("\n%-24s %8s %8s %11s %8s %11s\n", "process", "pid", "objects", "bytes", "pinned",
           "bytes");
    for (size_t i = 0; i < it->processes.count; i++) {
        const troupe_memory_process *of = &it->processes.items[i];
        printf("%-24.24s %8d %8" PRIu64 " %11s %8" PRIu64 " %11s\n", of->label, of->pid,
               of->objects, bytes_text(of->bytes_used).text, of->pinned,
               bytes_text(of->bytes_pinned).text);
    }
    printf("(what several hold counts whole for each)\n");
}

static void print_holders(const troupe_object_info *object)
{
    const troupe_array_troupe_object_holder *holders = &object->holders;
    for (size_t i = 0; i < holders->count && i < HOLDERS_SHOWN; i++) {
        const troupe_object_holder *it = &holders->items[i];
        printf("%s%s (%d)", i > 0 ? ", " : "", it->label, it->pid);
        if (it->holds > 1)
            printf(" x%u", it->holds);
        if (it->pins > 0)
            printf(" pinned");
    }
    if (holders->count > HOLDERS_SHOWN)
        printf(", and %zu more", holders->count - HOLDERS_SHOWN);
    printf("\n");
}

static void print_objects(const troupe_memory *it)
{
    if (it->items.count == 0)
        return;
    printf("\n%-16s %11s %11s %8s %8s %-8s %-8s %-16s %-16s %s\n", "object", "size", "bytes", "age",
           "idle", "state", "kind", "type", "made by", "held by");
    for (size_t i = 0; i < it->items.count; i++) {
        const troupe_object_info *object = &it->items.items[i];
        printf("%016" PRIx64 " %11s %11s %8s %8s %-8s %-8s %-16.24s %-16.24s ", object->id,
               bytes_text(object->bytes).text, bytes_text(object->bytes_used).text,
               time_text(object->age_s).text, time_text(object->idle_s).text,
               troupe_object_state_name(object->state), troupe_object_kind_name(object->kind),
               object->type_name != NULL ? object->type_name : "?", object->maker_label);
        print_holders(object);
    }
}

// ---- for programs

static void print_quoted(const char *name, const char *value)
{
    printf("\"%s\": \"", name);
    for (const char *at = value; *at != '\0'; at++) {
        unsigned char c = (unsigned char)*at;
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 0x20)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

static void print_process_json(const troupe_memory_process *it)
{
    printf("{\"process\": %u, \"pid\": %d, ", it->process, it->pid);
    print_quoted("label", it->label);
    printf(", \"objects\": %" PRIu64 ", \"bytes_used\": %" PRIu64 ", \"pinned\": %" PRIu64
           ", \"bytes_pinned\": %" PRIu64 "}",
           it->objects, it->bytes_used, it->pinned, it->bytes_pinned);
}

static void print_object_json(const troupe_object_info *it)
{
    printf("{\"id\": \"%016" PRIx64 "\", \"bytes\": %" PRIu64 ", \"bytes_used\": %" PRIu64
           ", \"age_s\": %.3f, \"idle_s\": %.3f, \"state\": \"%s\", \"kind\": \"%s\", ",
           it->id, it->bytes, it->bytes_used, it->age_s, it->idle_s,
           troupe_object_state_name(it->state), troupe_object_kind_name(it->kind));
    if (it->type_name != NULL)
        print_quoted("type", it->type_name);
    else
        printf("\"type\": null");
    printf(", \"maker\": {\"process\": %u, \"pid\": %d, ", it->maker, it->maker_pid);
    print_quoted("label", it->maker_label);
    printf("}, \"holders\": [");
    for (size_t i = 0; i < it->holders.count; i++) {
        const troupe_object_holder *holder = &it->holders.items[i];
        printf("%s{\"process\": %u, \"pid\": %d, ", i > 0 ? ", " : "", holder->process,
               holder->pid);
        print_quoted("label", holder->label);
        printf(", \"holds\": %u, \"pins\": %u}", holder->holds, holder->pins);
    }
    printf("]}");
}

static void print_json(const troupe_memory *it)
{
    printf("{\"driver_pid\": %d, \"objects\": %" PRIu64 ", \"bytes_used\": %" PRIu64
           ", \"bytes_inner\": %" PRIu64 ", \"bytes_backed\": %" PRIu64 ", \"bytes_max\": %" PRIu64
           ", \"bytes_free\": %" PRIu64 ", \"bytes_free_longest\": %" PRIu64
           ", \"objects_on_disk\": %" PRIu64 ", \"bytes_on_disk\": %" PRIu64 ",\n \"kinds\": {",
           it->driver_pid, it->objects, it->bytes_used, it->bytes_inner, it->bytes_backed,
           it->bytes_max, it->bytes_free, it->bytes_free_longest, it->objects_on_disk,
           it->bytes_on_disk);
    for (int kind = 0; kind < TROUPE_OBJECT_KINDS; kind++)
        printf("%s\"%s\": {\"objects\": %" PRIu64 ", \"bytes_used\": %" PRIu64 "}",
               kind > 0 ? ", " : "", troupe_object_kind_name(kind), it->kinds[kind].objects,
               it->kinds[kind].bytes_used);
    printf("},\n \"processes\": [");
    for (size_t i = 0; i < it->processes.count; i++) {
        printf("%s\n  ", i > 0 ? "," : "");
        print_process_json(&it->processes.items[i]);
    }
    printf("],\n \"items\": [");
    for (size_t i = 0; i < it->items.count; i++) {
        printf("%s\n  ", i > 0 ? "," : "");
        print_object_json(&it->items.items[i]);
    }
    printf("]}\n");
}

// ---- the command

static bool read_number(const char *given, long least, long *number)
{
    char *end;
    errno = 0;
    *number = strtol(given, &end, 10);
    if (errno == 0 && end != given && *end == '\0' && *number >= least && *number <= INT32_MAX)
        return true;
    fprintf(stderr, "troupe memory: \"%s\" is not a number of %ld or more\n", given, least);
    return false;
}

// False: it ends with *status.
static bool read_settings(int argc, char **argv, settings *given, int *status)
{
    enum { JSON = 256, INNER };
    static const struct option options[] = {
        {"most", required_argument, NULL, 'n'}, {"all", no_argument, NULL, 'a'},
        {"json", no_argument, NULL, JSON},      {"inner", no_argument, NULL, INNER},
        {"help", no_argument, NULL, 'h'},       {0}};
    long number;
    *status = TOOL_MISUSED;
    for (int option; (option = getopt_long(argc, argv, "an:h", options, NULL)) != -1;) {
        if (option == 'n') {
            if (!read_number(optarg, 1, &number))
                return false;
            given->most = (size_t)number;
        } else if (option == 'h') {
            usage(stdout);
            *status = TOOL_DONE;
            return false;
        } else if (option == JSON || option == INNER || option == 'a') {
            given->all = given->all || option == 'a';
            given->json = given->json || option == JSON;
            given->inner = given->inner || option == INNER;
        } else {
            usage(stderr);
            return false;
        }
    }
    if (optind < argc) {
        if (!read_number(argv[optind], 1, &number))
            return false;
        given->pid = (int)number;
    }
    if (optind + 1 < argc) {
        usage(stderr);
        return false;
    }
    return true;
}

int tool_memory(int argc, char **argv)
{
    settings given = {.most = MOST_DEFAULT};
    troupe_memory memory;
    int status;
    if (!read_settings(argc, argv, &given, &status))
        return status;
    status = choose_node(&given.pid, given.all);
    if (status != TOOL_DONE)
        return status;
    if (troupe_memory_get(&memory, .pid = given.pid, .most = given.most, .inner = given.inner) !=
        TROUPE_OK) {
        fprintf(stderr, "troupe memory: %s\n", troupe_last_error()->text);
        return TOOL_FAILED;
    }
    if (given.json) {
        print_json(&memory);
    } else {
        print_totals(&memory);
        print_kinds(&memory);
        print_processes(&memory);
        print_objects(&memory);
    }
    troupe_arena_reset();
    return TOOL_DONE;
}
