// harness_allreduce.c: sums over two ranks beside Open MPI, Gloo and plain shared memory (see
// harness_rows.h).
#include "harness_rows.h"

#include <stdlib.h>
#include <string.h>

enum { SIZES = 5, KINDS = 2, ROUNDS = 9, SECONDS_MAX = 300, ONE_MAX = 60, LARGE = 1 << 20 };
static const size_t sizes[SIZES] = {1 << 10, 64 << 10, 1 << 20, 25 << 20, 100 << 20};
static const char *const limit_repetitions[SIZES] = {"2000", "500", "100", "12", "5"};
static const char *const kinds[KINDS] = {"staged", "inplace"};

// What each side came to, by sizes.
static struct {
    bench_rounds ours[KINDS][SIZES], mpi[SIZES], gloo[SIZES], limit[SIZES], overlap[4];
} all;

// Large ones in GB/s, small ones in us with their percentiles.
static void add_row(const char *row, size_t which, const char *out, const char *reason,
                    bench_rounds *rounds)
{
    size_t before = rounds->count;
    if (rounds->missing[0])
        return;
    bench_rows_read(row, out, reason, rounds);
    if (rounds->count > before && sizes[which] >= LARGE)
        rounds->rounds[before] =
            bench_round_plain((double)sizes[which] / rounds->rounds[before].value / 1e3);
}

// One program measures all sizes: rows are called "<prefix><bytes>".
static void add_rows(const char *const *program, const char *prefix, bench_rounds *rounds)
{
    char out[4096] = "", reason[BENCH_REASON] = "it printed no such row", row[48];
    bench_run(program, ONE_MAX, out, sizeof out, reason);
    for (size_t i = 0; i < SIZES; i++) {
        snprintf(row, sizeof row, "%s%zu", prefix, sizes[i]);
        add_row(row, i, out, reason, &rounds[i]);
    }
}

static void add_ours(const char *share)
{
    char out[4096] = "", reason[BENCH_REASON] = "it printed no such row", row[48];
    bench_run((const char *const[]){"measure/allreduce", share, NULL}, ONE_MAX, out, sizeof out,
              reason);
    for (size_t i = 0; i < KINDS * SIZES; i++) {
        snprintf(row, sizeof row, "%s.%zu", kinds[i / SIZES], sizes[i % SIZES]);
        add_row(row, i % SIZES, out, reason, &all.ours[i / SIZES][i % SIZES]);
    }
}

static void add_limit(void)
{
    for (size_t i = 0; i < SIZES; i++) {
        char bytes[24], out[256] = "", line[320], reason[BENCH_REASON] = "it printed no round";
        snprintf(bytes, sizeof bytes, "%zu", sizes[i]);
        const char *program[] = {"compare/peer_shm",   "allreduce", "inplace", "spin", bytes,
                                 limit_repetitions[i], NULL};
        bench_run(program, ONE_MAX, out, sizeof out, reason);
        snprintf(line, sizeof line, "limit %s", out);
        add_row("limit", i, line, reason, &all.limit[i]);
    }
}

static void print_one(size_t kind, size_t i)
{
    char name[64], note[160] = "floor: as fast as Open MPI";
    bool large = sizes[i] >= LARGE;
    double ours = bench_rounds_value(&all.ours[kind][i]);
    snprintf(name, sizeof name, "train.allreduce.%s.%zu", kinds[kind], sizes[i]);
    if (kind == 1 && large)
        snprintf(note, sizeof note,
                 "floor: 3 times Open MPI, or 0.8 of the limit where that is less; %.2g of the "
                 "limit",
                 ours / bench_rounds_value(&all.limit[i]));
    if (bench_rows_wanted(name))
        bench_rows_print(&(bench_line){.name = name,
                                       .unit = large ? "GB/s" : "us",
                                       .placement = "two CPUs: rank r on CPU r",
                                       .better = large ? BENCH_HIGHER : BENCH_LOWER,
                                       .ours = &all.ours[kind][i],
                                       .peer = bench_rows_quick() ? NULL : "Open MPI",
                                       .peers = &all.mpi[i],
                                       .other = bench_rows_quick() ? NULL : "Gloo",
                                       .others = &all.gloo[i],
                                       .note = note});
}

static void print_limit(size_t i)
{
    char name[64];
    bool large = sizes[i] >= LARGE;
    snprintf(name, sizeof name, "limit.allreduce.inplace.%zu", sizes[i]);
    bench_rows_print(&(bench_line){.name = name,
                                   .unit = large ? "GB/s" : "us",
                                   .placement = "two CPUs: rank r on CPU r",
                                   .better = large ? BENCH_HIGHER : BENCH_LOWER,
                                   .ours = &all.limit[i]});
}

static void overlap(void)
{
    static const char *const rows[] = {"overlap", "alone", "after", "beside"};
    static const char *const names[] = {"train.overlap", "train.overlap.alone",
                                        "train.overlap.after", "train.overlap.beside"};
    bool quick = bench_rows_quick();
    for (int k = 0; k < (quick ? 1 : 3); k++) {
        char out[512] = "", reason[BENCH_REASON] = "it printed no such row";
        bench_run((const char *const[]){"measure/overlap", quick ? "3" : "30", NULL}, ONE_MAX, out,
                  sizeof out, reason);
        for (int i = 0; i < 4; i++)
            if (!all.overlap[i].missing[0])
                bench_rows_read(rows[i], out, reason, &all.overlap[i]);
    }
    for (int i = 0; i < 4; i++)
        bench_rows_print(&(bench_line){.name = names[i],
                                       .unit = i == 0 ? "%" : "ms",
                                       .placement = "not pinned",
                                       .better = BENCH_LOWER,
                                       .ours = &all.overlap[i]});
}

void bench_allreduce(void)
{
    bool quick = bench_rows_quick(), wanted = false;
    for (size_t i = 0; i < KINDS * SIZES; i++) {
        char name[64];
        snprintf(name, sizeof name, "train.allreduce.%s.%zu", kinds[i / SIZES], sizes[i % SIZES]);
        wanted |= bench_rows_wanted(name);
    }
    if (wanted && !bench_has_cpus(2))
        bench_rounds_fail(&all.ours[0][0], "needs two CPUs");
    const char *mpi[] = {"compare/peer_mpirun", NULL}, *gloo[] = {"compare/peer_gloo", NULL};
    for (int k = 0; wanted && bench_goes_on(k, quick ? 1 : ROUNDS, SECONDS_MAX); k++) {
        add_ours(quick ? "20" : "1");
        if (quick)
            continue;
        add_rows(mpi, "", all.mpi);
        add_limit();
        add_rows(gloo, "", all.gloo);
    }
    for (size_t i = 0; wanted && i < KINDS * SIZES; i++)
        print_one(i / SIZES, i % SIZES);
    for (size_t i = 0; wanted && !quick && i < SIZES; i++)
        print_limit(i);
    if (bench_rows_wanted("train.overlap"))
        overlap();
}
