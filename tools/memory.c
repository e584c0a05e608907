// memory.c: `troupe memory`: totals of a node's object store, by kind, by process, and its largest
// objects. The store's tables are mapped and read: a node that hangs is shown like any other.
#include "troupe.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <troupe.h>

enum { MOST_DEFAULT = 20, HOLDERS_SHOWN = 3 };

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
            "  -a, --all      also looks at nodes of other users, if PID is left out\n"
            "  -n, --most N   lists the N largest objects (default %d)\n"
            "  --inner        lists the runtime's own objects too\n"
            "  --json         prints all of it as one JSON object\n",
            MOST_DEFAULT);
}

// ---- for people

static void print_totals(const troupe_memory *it)
{
    printf("node of driver %d: %" PRIu64 " object%s, %s of %s; free %s, in one piece %s\n",
           it->driver_pid, it->objects, it->objects == 1 ? "" : "s",
           tool_bytes(it->bytes_used).text, tool_bytes(it->bytes_max).text,
           tool_bytes(it->bytes_free).text, tool_bytes(it->bytes_free_longest).text);
    printf("backed by the system: %s; the runtime's own: %s\n", tool_bytes(it->bytes_backed).text,
           tool_bytes(it->bytes_inner).text);
    if (it->objects_on_disk > 0)
        printf("on disk: %" PRIu64 " object%s, %s\n", it->objects_on_disk,
               it->objects_on_disk == 1 ? "" : "s", tool_bytes(it->bytes_on_disk).text);
}

static void print_kinds(const troupe_memory *it)
{
    printf("\n%-10s %8s %11s\n", "kind", "objects", "bytes");
    for (int kind = 0; kind < TROUPE_OBJECT_KINDS; kind++)
        if (it->kinds[kind].objects > 0)
            printf("%-10s %8" PRIu64 " %11s\n", troupe_object_kind_name(kind),
                   it->kinds[kind].objects, tool_bytes(it->kinds[kind].bytes_used).text);
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
               of->objects, tool_bytes(of->bytes_used).text, of->pinned,
               tool_bytes(of->bytes_pinned).text);
    }
    printf("(an object that several hold counts in full for each)\n");
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
               tool_bytes(object->bytes).text, tool_bytes(object->bytes_used).text,
               tool_time(object->age_s).text, tool_time(object->idle_s).text,
               troupe_object_state_name(object->state), troupe_object_kind_name(object->kind),
               object->type_name != NULL ? object->type_name : "?", object->maker_label);
        print_holders(object);
    }
}

// ---- for programs

static void print_process_json(const troupe_memory_process *it)
{
    printf("{\"process\": %u, \"pid\": %d, ", it->process, it->pid);
    tool_print_quoted("label", it->label);
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
    tool_print_quoted("type", it->type_name);
    printf(", \"maker\": {\"process\": %u, \"pid\": %d, ", it->maker, it->maker_pid);
    tool_print_quoted("label", it->maker_label);
    printf("}, \"holders\": [");
    for (size_t i = 0; i < it->holders.count; i++) {
        const troupe_object_holder *holder = &it->holders.items[i];
        printf("%s{\"process\": %u, \"pid\": %d, ", i > 0 ? ", " : "", holder->process,
               holder->pid);
        tool_print_quoted("label", holder->label);
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
            if (!tool_read_number("memory", optarg, 1, &number))
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
        if (!tool_read_number("memory", argv[optind], 1, &number))
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
    status = tool_choose_node("memory", &given.pid, given.all);
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
