// overlap.c: what averaging gradients costs a step of two ranks, with and without overlap.
//
//     overlap <steps>
//
// A backward pass of LAYERS layers computes for about MS each, in its cache, and leaves a gradient
// of 1 MiB each. Alone: it computes only; after: all are averaged when it has ended; beside: each
// is said to be ready as soon as its layer has been computed. The three take turns, step by step.
// Prints rows of milliseconds a step (medians of rank 0) and "overlap": beside as a share of after,
// in %.
#include <harness.h>

#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

enum { LAYERS = 16, COUNT = 1 << 18, WORK = 4096, TURNS = 600, WAYS = 3 };
typedef enum way { ALONE, AFTER, BESIDE } way;
static const char *const ways[WAYS] = {"alone", "after", "beside"};

TROUPE_STRUCT(settings, (int64_t, steps));

static float values[LAYERS][COUNT], gradients[LAYERS][COUNT];

// Some milliseconds of work that stays in the first cache.
static float compute(int layer)
{
    static float work[WORK];
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < WORK; i++)
            work[i] = work[i] * 0.999F + (float)(layer + 1);
    return work[0];
}

static troupe_status step(troupe_gradients *all, way how)
{
    if (how != ALONE)
        TROUPE_TRY(troupe_gradients_begin(all, 8));
    for (int layer = LAYERS - 1; layer >= 0; layer--) {
        gradients[layer][0] = compute(layer);
        if (how == BESIDE)
            TROUPE_TRY(troupe_gradients_ready(all, gradients[layer]));
    }
    return how == ALONE ? TROUPE_OK : troupe_gradients_average(all);
}

static troupe_status measured(troupe_rank *me, const settings *config)
{
    troupe_gradients *all = troupe_gradients_open(me);
    bench_samples times[WAYS];
    double medians[WAYS];
    if (!all)
        return troupe_last_error()->status;
    for (int layer = 0; layer < LAYERS; layer++) {
        char name[16];
        snprintf(name, sizeof name, "layer%d", layer);
        memset(gradients[layer], 0, sizeof gradients[layer]);
        TROUPE_TRY(troupe_gradients_add(all, name, values[layer], gradients[layer], COUNT));
    }
    for (int i = 0; i < WAYS; i++)
        bench_samples_open(&times[i], (size_t)config->steps);
    for (int64_t i = -3; i < config->steps * WAYS; i++) {
        way how = (way)((i + 3) % WAYS);
        TROUPE_TRY(troupe_barrier(me));
        int64_t start = bench_now_ns();
        TROUPE_TRY(step(all, how));
        if (i >= 0)
            bench_samples_add(&times[how], (double)(bench_now_ns() - start) / 1e6);
    }
    for (int i = 0; i < WAYS; i++) {
        medians[i] = bench_round_of(&times[i]).value;
        bench_samples_close(&times[i]);
    }
    return troupe_report(me, {ways[0], medians[0]}, {ways[1], medians[1]}, {ways[2], medians[2]});
}
TROUPE_TRAINER(measured, settings);

int main(int argc, char **argv)
{
    char storage[] = "/tmp/bench-overlap-XXXXXX";
    troupe_result *result = NULL;
    settings config = {argc > 1 && atoi(argv[1]) > 0 ? atoi(argv[1]) : 30};
    troupe_must(troupe_start(argc, argv, .workers = TROUPE_NONE, .cpus = 2));
    if (!mkdtemp(storage))
        bench_die("overlap: cannot make a folder in /tmp");
    troupe_must(troupe_train(measured, &config, &result, .ranks = 2, .storage = storage,
                             .keep = TROUPE_NONE));
    for (int i = 0; i < WAYS; i++)
        printf("%s %.9g\n", ways[i], troupe_result_metric(result, ways[i]));
    printf("overlap %.9g\n",
           100 * troupe_result_metric(result, "beside") / troupe_result_metric(result, "after"));
    troupe_result_free(&result);
    bench_remove(storage);
    return troupe_stop();
}
