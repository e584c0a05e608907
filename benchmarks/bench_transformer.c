// bench_transformer.c: what does training the example's transformer cost under Troupe?
//
//     bench_transformer [quick] [ROW...]
//
// train.transformer: steps a second of examples/transformer as it is, two ranks, reports included.
// As there, weights are saved every 50 steps: not while it is measured, as nothing is by the peers.
// These are the same network under Open MPI's mpirun, its ranks bound to a core each or not
// bound, whose gradient goes through MPI_Allreduce (compare/mpi_transformer.c). Runs take turns,
// and the note has the interval in which the median of the ratios lies with 95 %. Neither side
// counts its start and its first steps.
#include "bench_transformer.h"
#include "harness_rows.h"

#include <cblas.h>
#include <digits/random.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <transformer/model.h>
#include <unistd.h>

enum {
    PAIRS = 24,
    SECONDS_MAX = 300,
    WARM_UP = 5,
    STEPS = 25,
    QUICK_STEPS = 3,
    REPORT_EVERY = 5,
    SAVE_EVERY = 50
};

static char folder[1024], text_path[1100];
static int steps;

// The reports that bound what is measured: when they came, and which part of the epoch was done.
typedef struct watcher {
    double first_s, first_part, last_s, last_part, loss;
} watcher;

static void see(void *user, troupe_job *job, const troupe_report_event *event)
{
    (void)job;
    watcher *it = user;
    double part = 0;
    for (size_t i = 0; i < event->count; i++) {
        if (strcmp(event->metrics[i].name, "loss") == 0)
            it->loss = event->metrics[i].value;
        else if (strcmp(event->metrics[i].name, "epoch") == 0)
            part = event->metrics[i].value;
    }
    if (part == 1) // The last report comes with a checkpoint.
        return;
    it->last_s = event->elapsed_s;
    it->last_part = part;
    if (event->number == 1) {
        it->first_s = it->last_s;
        it->first_part = it->last_part;
    }
}

static int report_every(void)
{
    return bench_rows_quick() ? 1 : REPORT_EVERY;
}

static troupe_status train(watcher *it)
{
    transformer_config config = troupe_defaults(transformer);
    config.context = BENCH_CONTEXT;
    config.width = BENCH_WIDTH;
    config.heads = BENCH_HEADS;
    config.layers = BENCH_LAYERS;
    config.rate = (double)BENCH_RATE;
    config.fitting.batch = BENCH_BATCH;
    config.fitting.epochs = 1;
    config.fitting.report_every = report_every();
    const corpus_source source = {text_path, BENCH_CONTEXT};
    const troupe_follower follower = {.size = sizeof follower, .report = see, .user = it};
    troupe_job *job = NULL;
    troupe_result *result = NULL;
    TROUPE_TRY(troupe_submit(transformer, &config, &follower, &job, .ranks = 2,
                             .data = troupe_data_with(corpus, &source), .storage = folder,
                             .keep = TROUPE_NONE, .checkpoint_every = SAVE_EVERY / report_every()));
    troupe_status status = troupe_job_wait(job, TROUPE_FOREVER, &result);
    troupe_job_close(&job);
    TROUPE_TRY(status);
    if (troupe_result_status(result) != TROUPE_OK)
        status = troupe_fail(troupe_result_status(result), "%s", troupe_result_error(result));
    else
        bench_remove(troupe_result_path(result));
    troupe_result_free(&result);
    return status;
}

static void add_ours(bench_rounds *rounds)
{
    watcher it = {0};
    if (rounds->missing[0])
        return;
    if (train(&it) != TROUPE_OK)
        bench_rounds_fail(rounds, "%s", troupe_last_error()->text);
    else if (!(it.loss < BENCH_LOSS_MAX))
        bench_rounds_fail(rounds, "the loss is %g", it.loss);
    else
        bench_rounds_add(rounds, bench_round_plain((it.last_part - it.first_part) *
                                                   (WARM_UP + steps) / (it.last_s - it.first_s)));
}

static void add_peer(const char *bind, bench_rounds *rounds)
{
    char warm_up[16], measured[16];
    snprintf(warm_up, sizeof warm_up, "%d", WARM_UP);
    snprintf(measured, sizeof measured, "%d", steps);
    const char *command[] = {
        "compare/peer_mpi_transformer", bind, text_path, warm_up, measured, NULL};
    bench_peer_round(command, rounds);
}

// As many sequences as all steps need, in a file that both sides read: random text, which takes as
// long as any other.
static troupe_status write_text(void)
{
    uint64_t random = 1;
    FILE *file = fopen(text_path, "wb");
    size_t size = (size_t)(WARM_UP + steps) * BENCH_BATCH * BENCH_CONTEXT + 1;
    for (size_t i = 0; file && i < size; i++)
        fputc((int)(random_next(&random) % CORPUS_CHARACTERS), file);
    return file && fclose(file) == 0 ? TROUPE_OK
                                     : troupe_fail(TROUPE_IO, "cannot write %s", text_path);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// How many of the lowest (and of the highest) of so many values are left out, so that the median
// they were drawn with lies between the rest with 95 %: of a fair coin's throws, no more than that
// many show heads with 2.5 %.
static size_t left_out(size_t count)
{
    double chance = pow(0.5, (double)count), sum = chance;
    size_t out = 0;
    for (; sum <= 0.025 && out < count / 2; out++) {
        chance *= (double)(count - out) / (double)(out + 1);
        sum += chance;
    }
    return out > 0 ? out - 1 : 0;
}

// The interval of ours by theirs, as a text.
static void print_interval(const bench_rounds *ours, const bench_rounds *theirs, const char *peer,
                           char *text, size_t capacity)
{
    double ratios[BENCH_ROUNDS_MAX];
    size_t count = ours->count < theirs->count ? ours->count : theirs->count;
    for (size_t i = 0; i < count; i++)
        ratios[i] = ours->rounds[i].value / theirs->rounds[i].value;
    qsort(ratios, count, sizeof *ratios, by_value);
    size_t out = left_out(count);
    if (count < 6) // There is none of 95 %.
        snprintf(text, capacity, "%s: too few pairs", peer);
    else
        snprintf(text, capacity, "%s: %.3f to %.3f", peer, ratios[out], ratios[count - 1 - out]);
}

static void print(const bench_rounds *ours, const bench_rounds *bound, const bench_rounds *loose)
{
    char first[64], second[64], note[256];
    print_interval(ours, bound, "bound", first, sizeof first);
    print_interval(ours, loose, "not bound", second, sizeof second);
    snprintf(note, sizeof note, "95 %% interval of the median ratio of %zu pairs; %s; %s",
             ours->count, first, second);
    bench_rows_print(&(bench_line){.name = "train.transformer",
                                   .unit = "steps/s",
                                   .placement = "two CPUs, not pinned",
                                   .better = BENCH_HIGHER,
                                   .ours = ours,
                                   .peer = "Open MPI, bound",
                                   .peers = bound,
                                   .other = "Open MPI, not bound",
                                   .others = loose,
                                   .note = note});
}

// OpenBLAS takes its oldest kernels on a CPU that is newer than itself. Both sides then have those
// that the CPU can run: the library reads the variable when it is loaded, so it is loaded again.
static void choose_kernels(char **argv)
{
#ifdef __x86_64__
    static const char choice[] = "OPENBLAS_CORETYPE";
    if (getenv(choice) || strcmp(openblas_get_corename(), "Prescott") != 0)
        return;
    const char *core = __builtin_cpu_supports("avx512f") ? "SKYLAKEX"
                       : __builtin_cpu_supports("avx2")  ? "HASWELL"
                                                         : NULL;
    if (core && setenv(choice, core, 1) == 0)
        execv("/proc/self/exe", argv);
#else
    (void)argv;
#endif
}

int main(int argc, char **argv)
{
    static bench_rounds ours, bound, loose;
    choose_kernels(argv);
    troupe_must(troupe_start(argc, argv, .workers = TROUPE_NONE, .cpus = 2));
    bench_rows_open(argc, argv); // A rank does not come here.
    steps = bench_rows_quick() ? QUICK_STEPS : STEPS;
    if (!bench_path("transformer-XXXXXX", folder, sizeof folder) || !mkdtemp(folder))
        bench_die("bench_transformer: cannot make a folder beside the program");
    snprintf(text_path, sizeof text_path, "%s/text", folder);
    troupe_must(write_text());
    int pairs = bench_rows_quick() ? 1 : PAIRS;
    for (int k = 0; bench_rows_wanted("train.transformer") && bench_goes_on(k, pairs, SECONDS_MAX);
         k++) {
        add_ours(&ours);
        add_peer("core", &bound);
        add_peer("none", &loose);
    }
    if (ours.count > 0 || ours.missing[0])
        print(&ours, &bound, &loose);
    troupe_stop();
    bench_remove(folder);
    return bench_rows_close();
}
