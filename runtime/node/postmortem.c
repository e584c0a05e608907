// postmortem.c: what can be said of a process that a signal ended (see postmortem.h).
#include <runtime/node/postmortem.h>

#include <runtime/node/limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATTERN_MAX = 256 };

static bool makes_core(int signal)
{
    static const int makers[] = {SIGQUIT, SIGILL,  SIGTRAP, SIGABRT, SIGBUS,
                                 SIGFPE,  SIGSEGV, SIGSYS,  SIGXCPU, SIGXFSZ};
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
        if (makers[i] == signal)
            return true;
    return false;
}

static void read_line(const char *root, const char *path, char *line, size_t capacity)
{
    char whole[512];
    line[0] = '\0';
    snprintf(whole, sizeof whole, "%s%s", root, path);
    FILE *file = fopen(whole, "re");
    if (file == NULL)
        return;
    if (fgets(line, (int)capacity, file) == NULL)
        line[0] = '\0';
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
}

// Fills in what the kernel fills in; '*' stands for what cannot be known any more.
static void expand(const char *pattern, int pid, const char *name, int signal, char *path,
                   size_t capacity)
{
    size_t used = 0;
    path[0] = '\0';
    for (const char *at = pattern; *at != '\0' && used + 1 < capacity; at++) {
        char piece[64] = {*at};
        if (*at == '%' && at[1] != '\0') {
            at++;
            if (*at == 'p' || *at == 'P')
                snprintf(piece, sizeof piece, "%d", pid);
            else if (*at == 's')
                snprintf(piece, sizeof piece, "%d", signal);
            else if (*at == 'u')
                snprintf(piece, sizeof piece, "%u", (unsigned)getuid());
            else if (*at == 'e')
                snprintf(piece, sizeof piece, "%.15s", name);
            else
                snprintf(piece, sizeof piece, "%s", *at == '%' ? "%" : "*");
        }
        used += (size_t)snprintf(path + used, capacity - used, "%s", piece);
    }
}

void trp_postmortem_core(const char *root, int pid, const char *name, int status, char *text,
                         size_t capacity)
{
    char pattern[PATTERN_MAX], uses_pid[16], path[2 * PATTERN_MAX];
    struct rlimit limit;
    text[0] = '\0';
    if (!WIFSIGNALED(status) || !makes_core(WTERMSIG(status)))
        return;
    read_line(root, "/proc/sys/kernel/core_pattern", pattern, sizeof pattern);
    if (!WCOREDUMP(status)) {
        bool off = getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur == 0;
        snprintf(text, capacity, "%s",
                 off ? "no core file: ulimit -c is 0" : "no core file was written");
        return;
    }
    if (pattern[0] == '|') {
        snprintf(text, capacity, "core file: given to %.*s", (int)strcspn(pattern + 1, " "),
                 pattern + 1);
        return;
    }
    expand(pattern, pid, name, WTERMSIG(status), path, sizeof path);
    read_line(root, "/proc/sys/kernel/core_uses_pid", uses_pid, sizeof uses_pid);
    bool numbered = uses_pid[0] == '1' && strstr(pattern, "%p") == NULL;
    char number[16] = "";
    if (numbered)
        snprintf(number, sizeof number, ".%d", pid);
    snprintf(text, capacity, "core file: %s%s%s", path, number,
             path[0] == '/' ? "" : " in its working folder");
}

// ---- the memory limit

static void count_kills(const char *folder, void *total)
{
    static const char *const names[] = {"memory.events", "memory.oom_control"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[1200], line[128];
        unsigned long long count;
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        FILE *file = fopen(path, "re");
        if (file == NULL)
            continue;
        while (fgets(line, sizeof line, file) != NULL)
            if (sscanf(line, "oom_kill %llu", &count) == 1)
                *(uint64_t *)total += count;
        fclose(file);
    }
}

uint64_t trp_postmortem_memory_kills(const char *root)
{
    uint64_t total = 0;
    trp_limits_each_group(root, count_kills, &total);
    return total;
}
