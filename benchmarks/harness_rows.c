// harness_rows.c: see harness_rows.h.
#include "harness_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct {
    bool quick;
    const char *const *only;
    int only_count;
    int printed;
    bool failed;
} run;

void bench_rows_open(int argc, char **argv)
{
    int first = 1;
    if (argc > 1 && (strcmp(argv[1], "quick") == 0 || strcmp(argv[1], "--quick") == 0)) {
        run.quick = true;
        first = 2;
    }
    run.only = (const char *const *)argv + first;
    run.only_count = argc - first;
    bench_print_machine(run.quick ? "quick" : "full");
}

bool bench_rows_quick(void)
{
    return run.quick;
}

bool bench_rows_wanted(const char *name)
{
    for (int i = 0; i < run.only_count; i++) {
        if (strncmp(name, run.only[i], strlen(run.only[i])) == 0)
            return true;
    }
    return run.only_count == 0;
}

void bench_rows_round(const char *const *program, int cpus, bench_rounds *rounds)
{
    if (!program[0])
        return;
    if (cpus > 0)
        bench_pin_first(0, cpus);
    bench_peer_round(program, rounds);
    if (cpus > 0)
        bench_pin(0, BENCH_ANY_CPU);
}

void bench_rows_read(const char *row, const char *out, const char *reason, bench_rounds *rounds)
{
    size_t length = strlen(row);
    for (const char *line = out; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        bench_round round = {NAN, NAN, NAN, NAN};
        if (strncmp(line, row, length) == 0 && line[length] == ' ' &&
            sscanf(line + length, "%lf %lf %lf %lf", &round.value, &round.p50, &round.p99,
                   &round.p999) >= 1) {
            bench_rounds_add(rounds, round);
            return;
        }
    }
    bench_rounds_fail(rounds, "%s", reason);
}

void bench_rows_print(const bench_line *line)
{
    run.printed++;
    if (!bench_print(line) && line->ours->missing[0])
        run.failed = true;
}

int bench_rows_close(void)
{
    if (run.printed == 0)
        bench_die("no figure's name begins like that");
    return run.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
