// common.c: what subcommands share: which node is meant, and how figures and texts are shown.
#include "troupe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <troupe.h>
#include <unistd.h>

// ---- which node

enum { NODES_MAX = 64 };

// Root may look at any user's memory, but without a PID only nodes of its own are looked for.
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

int tool_choose_node(const char *command, int *pid, bool all)
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
        fprintf(stderr, "troupe %s: %s\n", command, stranger);
        return TOOL_FAILED;
    }
    fprintf(stderr, "troupe %s: %d nodes run here; say which one by its driver:", command, count);
    for (int i = 0; i < count; i++)
        fprintf(stderr, " %d", pids[i]);
    fprintf(stderr, "\n");
    return TOOL_MISUSED;
}

// ---- what is given and shown

// The first lines of what --help prints: how the command is used.
static void print_synopsis(tool_usage *usage)
{
    char text[8192] = "";
    FILE *whole = fmemopen(text, sizeof text, "w");
    if (whole == NULL)
        return;
    usage(whole);
    (void)fclose(whole);
    const char *end = strstr(text, "\n\n");
    fprintf(stderr, "%.*s\n", end != NULL ? (int)(end - text) : 0, text);
}

int tool_misused(const char *command, tool_usage *usage, const char *format, ...)
{
    if (format != NULL) {
        va_list list;
        fprintf(stderr, "troupe %s: ", command);
        va_start(list, format);
        vfprintf(stderr, format, list);
        va_end(list);
        fprintf(stderr, "\n");
    }
    print_synopsis(usage);
    fprintf(stderr, "(troupe %s --help says more)\n", command);
    return TOOL_MISUSED;
}

bool tool_read_number(const char *command, const char *given, long least, long *number)
{
    char *end;
    errno = 0;
    *number = strtol(given, &end, 10);
    if (errno == 0 && end != given && *end == '\0' && *number >= least && *number <= INT32_MAX)
        return true;
    fprintf(stderr, "troupe %s: \"%s\" is not a number of %ld or more\n", command, given, least);
    return false;
}

tool_text tool_bytes(uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    tool_text out;
    double scaled = (double)bytes;
    size_t unit = 0;
    while (scaled >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        scaled /= 1024;
        unit++;
    }
    snprintf(out.text, sizeof out.text, unit == 0 ? "%.0f %s" : "%.1f %s", scaled, units[unit]);
    return out;
}

tool_text tool_time(double seconds)
{
    tool_text out;
    if (seconds < 100)
        snprintf(out.text, sizeof out.text, "%.1f s", seconds);
    else if (seconds < 6000)
        snprintf(out.text, sizeof out.text, "%.0f min", seconds / 60);
    else
        snprintf(out.text, sizeof out.text, "%.1f h", seconds / 3600);
    return out;
}

void tool_print_text(const char *text)
{
    if (text == NULL) {
        printf("null");
        return;
    }
    putchar('"');
    for (const char *at = text; *at != '\0'; at++) {
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

void tool_print_quoted(const char *name, const char *value)
{
    printf("\"%s\": ", name);
    tool_print_text(value);
}
