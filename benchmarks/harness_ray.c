// harness_ray.c: Ray's rows (see harness_rows.h). A program of each side measures all of them,
// since starting Ray takes seconds.
#include "harness_rows.h"

#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 3, SECONDS_MAX = 400, ROWS_MAX = 32 };

// In GB/s; the others are operations a second.
static bool is_bandwidth(const char *row)
{
    return strstr(row, "gigabytes") != NULL || strncmp(row, "put.", 4) == 0;
}

// The rows where each call waits for the last one: ours run on one CPU.
static bool is_sync(const char *row)
{
    return strstr(row, "_sync") != NULL;
}

// Measures those of the rows that wait, or do not, with a program; NULL: all of them.
static void add_rows(const char *program, const char *seconds, const bool *sync,
                     const char *const *rows, size_t count, bench_rounds *rounds)
{
    static char out[65536];
    char reason[BENCH_REASON] = "it printed no such row";
    const char *command[ROWS_MAX + 3] = {program, seconds};
    size_t used = 2;
    for (size_t i = 0; i < count; i++)
        if (!sync || is_sync(rows[i]) == *sync)
            command[used++] = rows[i];
    if (used == 2)
        return;
    // What a program printed before it failed counts.
    bench_run(command, SECONDS_MAX, out, sizeof out, reason);
    for (size_t i = 0; i < count; i++)
        if (!sync || is_sync(rows[i]) == *sync)
            bench_rows_read(rows[i], out, reason, &rounds[i]);
}

void bench_ray(const char *const *rows, size_t count, const char *seconds)
{
    static const bool yes = true, no = false;
    static bench_rounds ours[ROWS_MAX], theirs[ROWS_MAX];
    const char *wanted[ROWS_MAX];
    size_t wanted_count = 0;
    for (size_t i = 0; i < count && wanted_count < ROWS_MAX; i++) {
        char name[64];
        snprintf(name, sizeof name, "ray.%s", rows[i]);
        if (bench_rows_wanted(name))
            wanted[wanted_count++] = rows[i];
    }
    if (bench_rows_quick())
        seconds = "0.05";
    for (int i = 0; i < (bench_rows_quick() ? 1 : ROUNDS) && wanted_count > 0; i++) {
        add_rows("measure/ray", seconds, &no, wanted, wanted_count, ours);
        bench_pin_first(0, 1);
        add_rows("measure/ray", seconds, &yes, wanted, wanted_count, ours);
        bench_pin(0, BENCH_ANY_CPU);
        if (!bench_rows_quick())
            add_rows("compare/peer_ray", seconds, NULL, wanted, wanted_count, theirs);
    }
    for (size_t i = 0; i < wanted_count; i++) {
        char name[64];
        snprintf(name, sizeof name, "ray.%s", wanted[i]);
        bench_rows_print(&(bench_line){.name = name,
                                       .unit = is_bandwidth(wanted[i]) ? "GB/s" : "1/s",
                                       .placement = is_sync(name) ? "ours on CPU 0, Ray not pinned"
                                                                  : "not pinned",
                                       .better = BENCH_HIGHER,
                                       .ours = &ours[i],
                                       .peer = bench_rows_quick() ? NULL : "Ray",
                                       .peers = &theirs[i]});
    }
}
