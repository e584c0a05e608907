// allreduce.c: sums of floats over two ranks of a training run, rank r on CPU r.
//
//     allreduce <share>
//
// One in `share` of the repetitions is made. Each rank rewrites its buffer before every call, as a
// backward pass does; that is not timed, and a barrier, not timed either, follows it. Staged:
// buffers of the process; inplace: buffers of troupe_shared_alloc. Prints rows of microseconds.
#include <harness.h>

#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

enum { SIZES = 5, KINDS = 2, PARTS = 3, ROWS = SIZES * KINDS };
static const size_t sizes[SIZES] = {1 << 10, 64 << 10, 1 << 20, 25 << 20, 100 << 20};
static const size_t repetitions[SIZES] = {2000, 500, 100, 12, 5};
static const char *const kinds[KINDS] = {"staged", "inplace"};

TROUPE_STRUCT(settings, (int64_t, share));

static troupe_status time_one(troupe_rank *me, float *values, size_t size, size_t count,
                              bench_round *round)
{
    size_t items = size / sizeof(float), warm_up = count / 5 + 2;
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
    return status;
}

static troupe_status measured(troupe_rank *me, const settings *config)
{
    // The CPUs of both are counted first: with one, waits do not spin.
    float *buffers[KINDS] = {(float *)bench_written(sizes[SIZES - 1]),
                             (float *)troupe_shared_alloc(me, sizes[SIZES - 1])};
    if (!buffers[1])
        return troupe_last_error()->status;
    bench_pin(0, me->rank);
    troupe_metric metrics[ROWS * PARTS];
    char names[ROWS * PARTS][16];
    for (size_t i = 0; i < ROWS; i++) {
        bench_round round;
        size_t which = i % SIZES, count = repetitions[which] / (size_t)config->share;
        TROUPE_TRY(time_one(me, buffers[i / SIZES], sizes[which], count < 3 ? 3 : count, &round));
        double parts[PARTS] = {round.p50, round.p99, round.p999};
        for (size_t k = 0; k < PARTS; k++) {
            snprintf(names[PARTS * i + k], sizeof *names, "%zu.%zu", i, k);
            metrics[PARTS * i + k] = (troupe_metric){names[PARTS * i + k], parts[k]};
        }
    }
    return troupe_report_metrics(me, metrics, ROWS * PARTS);
}
TROUPE_TRAINER(measured, settings);

int main(int argc, char **argv)
{
    char storage[] = "/tmp/bench-allreduce-XXXXXX";
    troupe_result *result = NULL;
    settings config = {argc > 1 && atoi(argv[1]) > 0 ? atoi(argv[1]) : 1};
    troupe_must(troupe_start(argc, argv, .workers = TROUPE_NONE, .cpus = 2,
                             .store_bytes_max = (size_t)512 << 20));
    if (!mkdtemp(storage))
        bench_die("allreduce: cannot make a folder in /tmp");
    troupe_must(troupe_train(measured, &config, &result, .ranks = 2, .storage = storage,
                             .keep = TROUPE_NONE, .collective_timeout_ms = 60000));
    for (size_t i = 0; i < ROWS; i++) {
        double parts[PARTS];
        for (size_t k = 0; k < PARTS; k++) {
            char name[16];
            snprintf(name, sizeof name, "%zu.%zu", i, k);
            parts[k] = troupe_result_metric(result, name);
        }
        printf("%s.%zu %.9g %.9g %.9g %.9g\n", kinds[i / SIZES], sizes[i % SIZES], parts[0],
               parts[0], parts[1], parts[2]);
    }
    troupe_result_free(&result);
    bench_remove(storage);
    return troupe_stop();
}
