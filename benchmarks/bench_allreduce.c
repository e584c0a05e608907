// bench_allreduce.c: what does an allreduce between two ranks of a training run cost?
//
// Each round is a whole training run whose loop times troupe_allreduce on private buffers of
// floats, rank r on CPU r; rounds of plain shared memory (compare/peer_shm.c) take turns with it.
// Every rank rewrites its buffer before a call and then waits at a barrier, both untimed, on either
// side.
//
//     bench_allreduce [--quick]
//
// allreduce.<bytes>: the peer does the same through private buffers and a shared staging area,
// spinning: the best that plain shared memory does for buffers that are not shared.
// limit.allreduce.<kind>: further ways of plain shared memory, for information.
#include "harness.h"

#include <ftw.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

enum { SIZES = 4 };
static const size_t sizes[SIZES] = {1 << 10, 64 << 10, 1 << 20, 25 << 20};
static const size_t repetitions[SIZES] = {1000, 300, 60, 8};
enum { QUICK_SHARE = 10, ROUNDS = 9, SECONDS_MAX = 30 };

TROUPE_STRUCT(settings, (int64_t, share)); // Of the repetitions, one in so many is made.

static size_t repetitions_of(size_t which, int64_t share)
{
    size_t count = repetitions[which] / (size_t)share;
    return count < 3 ? 3 : count;
}

static troupe_status time_one(troupe_rank *me, size_t which, size_t count, bench_round *round)
{
    size_t items = sizes[which] / sizeof(float), warm_up = count / 5 + 2;
    float *values = aligned_alloc(64, sizes[which]);
    if (!values)
        return troupe_fail(TROUPE_NO_MEMORY, "no %zu bytes for the values", sizes[which]);
    bench_samples samples;
    bench_samples_open(&samples, count);
    troupe_status status = TROUPE_OK;
    for (size_t i = 0; i < warm_up + count && status == TROUPE_OK; i++) {
        for (size_t k = 0; k < items; k++)
            values[k] = (float)(i % 16 + (size_t)me->rank);
        status = troupe_barrier(me);
        int64_t start = bench_now_ns();
        if (status == TROUPE_OK)
            status = troupe_allreduce(me, values, items, TROUPE_SUM);
        if (i >= warm_up)
            bench_samples_add(&samples, (double)(bench_now_ns() - start) / 1e3);
        float expected = (float)(2 * (i % 16) + 1);
        if (status == TROUPE_OK && (values[0] != expected || values[items - 1] != expected))
            status = troupe_fail(TROUPE_FAILED, "the sum is %g, not %g", (double)values[0],
                                 (double)expected);
    }
    *round = bench_round_of(&samples);
    bench_samples_close(&samples);
    free(values);
    return status;
}

static troupe_status measured(troupe_rank *me, const settings *config)
{
    bench_pin(0, me->rank);
    troupe_metric metrics[3 * SIZES];
    char names[3 * SIZES][16];
    for (size_t i = 0; i < SIZES; i++) {
        bench_round round;
        TROUPE_TRY(time_one(me, i, repetitions_of(i, config->share), &round));
        double parts[] = {round.p50, round.p99, round.p999};
        for (size_t k = 0; k < 3; k++) {
            snprintf(names[3 * i + k], sizeof *names, "%zu.%zu", i, k);
            metrics[3 * i + k] = (troupe_metric){names[3 * i + k], parts[k]};
        }
    }
    return troupe_report_metrics(me, metrics, 3 * SIZES);
}

TROUPE_TRAINER(measured, settings);

static double in_unit(double us, size_t which)
{
    return sizes[which] < (1 << 20) ? us : (double)sizes[which] / us / 1e3;
}

// Small sizes in us with their percentiles, large ones in GB/s.
static bench_round round_in_unit(bench_round round, size_t which)
{
    return sizes[which] < (1 << 20) ? round : bench_round_plain(in_unit(round.value, which));
}

static void add_run(const settings *config, const char *storage, bench_rounds rounds[SIZES])
{
    troupe_result *result = NULL;
    troupe_status status = troupe_train(measured, config, &result, .ranks = 2, .storage = storage,
                                        .keep = TROUPE_NONE, .collective_timeout_ms = 10000);
    for (size_t i = 0; i < SIZES; i++) {
        double parts[3] = {NAN, NAN, NAN};
        for (size_t k = 0; k < 3 && status == TROUPE_OK; k++) {
            char name[16];
            snprintf(name, sizeof name, "%zu.%zu", i, k);
            parts[k] = troupe_result_metric(result, name);
        }
        bench_round round = {parts[0], parts[0], parts[1], parts[2]};
        if (status != TROUPE_OK)
            bench_rounds_fail(&rounds[i], "%s", troupe_last_error()->text);
        else
            bench_rounds_add(&rounds[i], round_in_unit(round, i));
    }
    troupe_result_free(&result);
}

typedef struct plain {
    const char *buffers, *wait, *text;
} plain;

enum { PLAINS = 4 };
// The first is the peer.
static const plain plains[PLAINS] = {
    {"staged", "spin", "plain shared memory, staged, spinning"},
    {"staged", "futex", "plain shared memory, staged, futex"},
    {"inplace", "spin", "plain shared memory, in place, spinning"},
    {"inplace", "futex", "plain shared memory, in place, futex"},
};

static void add_plain(const plain *how, int64_t share, bench_rounds rounds[SIZES])
{
    for (size_t i = 0; i < SIZES; i++) {
        char bytes[24], count[24];
        snprintf(bytes, sizeof bytes, "%zu", sizes[i]);
        snprintf(count, sizeof count, "%zu", repetitions_of(i, share));
        const char *arguments[] = {
            "compare/peer_shm", "allreduce", how->buffers, how->wait, bytes, count, NULL};
        size_t before = rounds[i].count;
        bench_peer_round(arguments, &rounds[i]);
        if (rounds[i].count > before)
            rounds[i].rounds[before] = round_in_unit(rounds[i].rounds[before], i);
    }
}

static bool print_one(const char *name, size_t which, const bench_rounds *ours, const char *peer,
                      const bench_rounds *peers)
{
    bool small = sizes[which] < (1 << 20);
    return bench_print(&(bench_line){.name = name,
                                     .unit = small ? "us" : "GB/s",
                                     .placement = "two CPUs: rank r on CPU r",
                                     .better = small ? BENCH_LOWER : BENCH_HIGHER,
                                     .ours = ours,
                                     .peer = peer,
                                     .peers = peers});
}

static bool print_all(bench_rounds ours[SIZES], bench_rounds peers[PLAINS][SIZES])
{
    bool good = true;
    char name[64];
    for (size_t i = 0; i < SIZES; i++) {
        snprintf(name, sizeof name, "allreduce.%zu", sizes[i]);
        good &= print_one(name, i, &ours[i], plains[0].text, &peers[0][i]);
    }
    for (size_t p = 1; p < PLAINS; p++) {
        for (size_t i = 0; i < SIZES; i++) {
            snprintf(name, sizeof name, "limit.allreduce.%s.%s.%zu", plains[p].buffers,
                     plains[p].wait, sizes[i]);
            good &= print_one(name, i, &peers[p][i], NULL, NULL);
        }
    }
    return good;
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)status;
    (void)kind;
    (void)walk;
    return remove(path);
}

int main(int argc, char **argv)
{
    static bench_rounds ours[SIZES], peers[PLAINS][SIZES];
    troupe_must(troupe_start(argc, argv, .workers = TROUPE_NONE, .cpus = 2));
    bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    settings config = {.share = quick ? QUICK_SHARE : 1};
    char storage[] = "/tmp/bench-allreduce-XXXXXX";
    if (!mkdtemp(storage))
        bench_die("bench_allreduce: cannot make a folder in /tmp");
    if (!bench_has_cpus(2))
        bench_rounds_fail(&ours[0], "needs two CPUs");
    int rounds = quick ? 1 : ROUNDS;
    for (int i = 0; bench_goes_on(i, rounds, SECONDS_MAX) && !ours[0].missing[0]; i++) {
        add_run(&config, storage, ours);
        for (size_t p = 0; p < PLAINS; p++)
            add_plain(&plains[p], config.share, peers[p]);
    }
    bool good = print_all(ours, peers);
    troupe_stop();
    nftw(storage, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
