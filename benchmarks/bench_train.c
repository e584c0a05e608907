// bench_train.c: what do reports, restarts and checkpoints of a training run cost?
//
//     bench_train [quick] [ROW...]
//
// Each row is one run or several, of two ranks but for the checkpoints, which have one; not pinned.
// The peer is Ray Train, whose rows (compare/peer_ray_train.py) take turns with ours, but for those
// of commits in memory, data and sums, which it does not have. The notes of rows that have a floor
// say whether it holds.
//
// train.first_report: from the submission until the follower is called with the first report.
// train.reports: reports a second of ranks that do nothing else, with a follower that only looks.
// train.reports.slow_subscriber: the same with a follower that sleeps 200 ms a report.
// train.follow: from a report's making until the follower is called with it; a step computes for
// 1 ms and ends at a barrier.
// train.kill_to_report: from kill -9 of a rank to the first report of the group that takes over;
// each report has a checkpoint of a few bytes.
// train.kill_to_report.memory: the same where each report has a commit in memory.
// train.commit: the share of the time that a commit in memory of a few bytes and its report take,
// 1,000 of them a second: a step computes for 1 ms and ends with an all-reduce.
// train.overhead: the share of the time that steps of 20 ms, a report each, spend in that report.
// train.checkpoint.<bytes>: the time of a save and its report, as a share of what write and fsync
// of as many bytes take in the same process; between two saves it computes for twice that long.
// train.data.<source>: how fast shuffled batches are made of a source, by one thread, in its own
// time on a CPU; the peer gathers the same rows in an order that it knows before. .windows,
// .unaligned: batches in the order of the set that are copied, beside memcpy of as many bytes.
// train.allreduce.<staged|inplace>.<bytes>: a sum of floats over two ranks, in private memory or in
// that of troupe_shared_alloc, beside Open MPI and Gloo. limit.allreduce.inplace.<bytes>: what two
// processes do with one mapping, the widest vectors and a spinning barrier.
// train.overlap: a step whose gradients are averaged beside its backward pass, as a share of the
// same with averaging after it; .alone, .after, .beside: the times of such steps.
#include "harness_rows.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

enum {
    ROUNDS = 3,
    SECONDS_MAX = 900,      // For all rounds of both sides; Ray takes minutes for one.
    PEER_SECONDS_MAX = 400, // For one round of Ray.
    WAIT_MS = 60000,        // For the end of a run.
    SLOW_US = 200000,
    FOLLOW_US = 1000,
    STEP_US = 20000,
    KILL_AFTER = 3, // So many reports.
    SAVES_MAX = 64,
    OUT_MAX = 4096,
};

// ---- The loops

typedef enum kind {
    ONCE,
    OFTEN,
    NOW_AND_THEN,
    STEPS,
    COMMITS,
    UNTIL_KILLED,
    UNTIL_KILLED_IN_MEMORY,
    SAVES
} kind;

TROUPE_STRUCT(plan, (int, kind), (int, count), (int64_t, bytes), (troupe_text, folder));
TROUPE_STRUCT(state, (int, step), (troupe_array_float, weights));

static void compute(int us)
{
    int64_t end = bench_now_ns() + (int64_t)us * 1000;
    while (bench_now_ns() < end) {
    }
}

// A report says when it was made and by which group; `value` is what the loop measured.
static troupe_status say(troupe_rank *me, double value)
{
    return troupe_report(me, {"made", (double)bench_now_ns()}, {"attempt", me->attempt},
                         {"value", value});
}

static troupe_status report_often(troupe_rank *me)
{
    for (;;)
        TROUPE_TRY(say(me, 0)); // Until it is stopped.
}

static troupe_status report_now_and_then(troupe_rank *me, int count)
{
    for (int i = 0; i < count; i++) {
        compute(FOLLOW_US);
        TROUPE_TRY(troupe_barrier(me));
        TROUPE_TRY(say(me, 0));
    }
    return TROUPE_OK;
}

static troupe_status report_steps(troupe_rank *me, int count)
{
    float gradient[16] = {1};
    int64_t inside = 0, start = bench_now_ns();
    for (int i = 0; i < count; i++) {
        compute(STEP_US);
        TROUPE_TRY(troupe_allreduce(me, gradient, 16, TROUPE_MEAN));
        int64_t before = bench_now_ns();
        TROUPE_TRY(say(me, 0));
        inside += bench_now_ns() - before;
    }
    return say(me, 100 * (double)inside / (double)(bench_now_ns() - start));
}

static troupe_status commit_steps(troupe_rank *me, int count)
{
    float gradient[16] = {1};
    state now = {0};
    int64_t inside = 0, start = bench_now_ns();
    for (now.step = 1; now.step <= count; now.step++) {
        compute(FOLLOW_US);
        TROUPE_TRY(troupe_allreduce(me, gradient, 16, TROUPE_MEAN));
        int64_t before = bench_now_ns();
        TROUPE_TRY(troupe_commit(state, me, &now));
        TROUPE_TRY(say(me, 0));
        inside += bench_now_ns() - before;
    }
    return say(me, 100 * (double)inside / (double)(bench_now_ns() - start));
}

static troupe_status report_until_killed(troupe_rank *me, bool in_memory)
{
    state now = {0};
    TROUPE_TRY(troupe_restore(state, me, &now));
    for (;;) {
        now.step++;
        compute(FOLLOW_US);
        TROUPE_TRY(troupe_barrier(me));
        if (me->attempt == 0 && in_memory)
            TROUPE_TRY(troupe_commit(state, me, &now));
        else if (me->attempt == 0)
            TROUPE_TRY(troupe_save(state, me, &now));
        TROUPE_TRY(say(me, 0));
    }
}

static troupe_status write_plainly(const char *path, const void *data, size_t size, int64_t *ns)
{
    int64_t start = bench_now_ns();
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    size_t at = 0;
    for (ssize_t put = 1; fd >= 0 && at < size && put > 0; at += put > 0 ? (size_t)put : 0)
        put = write(fd, (const char *)data + at, size - at);
    bool good = fd >= 0 && at == size && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    *ns = bench_now_ns() - start;
    unlink(path);
    return good ? TROUPE_OK : troupe_fail(TROUPE_IO, "cannot write %zu bytes to %s", size, path);
}

static troupe_status save_once(troupe_rank *me, const char *path, const state *weights,
                               double *share)
{
    int64_t plain;
    TROUPE_TRY(write_plainly(path, weights->weights.items,
                             weights->weights.count * sizeof *weights->weights.items, &plain));
    int64_t start = bench_now_ns();
    TROUPE_TRY(troupe_save(state, me, weights));
    TROUPE_TRY(say(me, 0));
    *share = 100 * (double)(bench_now_ns() - start) / (double)plain;
    compute((int)(2 * plain / 1000)); // What is still being written is not to disturb the next.
    return TROUPE_OK;
}

static troupe_status save_often(troupe_rank *me, const plan *config)
{
    char path[1024];
    float *weights = (float *)bench_written((size_t)config->bytes);
    state now = {.weights = {weights, (size_t)config->bytes / sizeof *weights}};
    bench_samples shares;
    bench_samples_open(&shares, (size_t)config->count);
    snprintf(path, sizeof path, "%s/plain", config->folder);
    troupe_status status = TROUPE_OK;
    for (int i = -1; i < config->count && status == TROUPE_OK; i++) {
        double share = NAN;
        status = save_once(me, path, &now, &share);
        if (i >= 0)
            bench_samples_add(&shares, share);
    }
    double value = bench_round_of(&shares).value;
    bench_samples_close(&shares);
    return status == TROUPE_OK ? say(me, value) : status;
}

static troupe_status measured(troupe_rank *me, const plan *config)
{
    switch ((kind)config->kind) {
    case ONCE:
        return say(me, 0);
    case OFTEN:
        return report_often(me);
    case NOW_AND_THEN:
        return report_now_and_then(me, config->count);
    case STEPS:
        return report_steps(me, config->count);
    case COMMITS:
        return commit_steps(me, config->count);
    case UNTIL_KILLED:
    case UNTIL_KILLED_IN_MEMORY:
        return report_until_killed(me, config->kind == UNTIL_KILLED_IN_MEMORY);
    case SAVES:
        return save_often(me, config);
    }
    return troupe_fail(TROUPE_INVALID, "there is no loop %d", config->kind);
}

TROUPE_TRAINER(measured, plan);

// ---- Following a run

typedef struct watcher {
    _Atomic int pause_us;      // Of each call.
    _Atomic int64_t first_ns;  // 0: no report yet.
    _Atomic int64_t second_ns; // The first one of the second group; 0: none yet.
    _Atomic int seen;
    bench_samples follow; // From making to seeing, in us.
} watcher;

static void see(void *user, troupe_job *job, const troupe_report_event *event)
{
    (void)job;
    watcher *it = (watcher *)user;
    int64_t now = bench_now_ns(), none = 0;
    atomic_compare_exchange_strong(&it->first_ns, &none, now);
    none = 0;
    if (event->metrics[1].value > 0)
        atomic_compare_exchange_strong(&it->second_ns, &none, now);
    bench_samples_add(&it->follow, ((double)now - event->metrics[0].value) / 1e3);
    atomic_store(&it->seen, event->number);
    bench_pause(atomic_load(&it->pause_us));
}

static char folder[1024];

static troupe_status submit(const plan *config, watcher *it, troupe_job **job)
{
    troupe_follower follower = {.size = sizeof follower, .report = see, .user = it};
    return troupe_submit(measured, config, &follower, job, .name = "bench", .storage = folder,
                         .ranks = config->kind == SAVES ? 1 : 2, .keep = 1,
                         .restarts = config->kind == UNTIL_KILLED ||
                                     config->kind == UNTIL_KILLED_IN_MEMORY);
}

static troupe_status await_end(troupe_job **job, double *value)
{
    troupe_result *result = NULL;
    troupe_status status = troupe_job_wait(*job, WAIT_MS, &result);
    if (status == TROUPE_OK && troupe_result_status(result) != TROUPE_OK)
        status = troupe_fail(troupe_result_status(result), "%s", troupe_result_error(result));
    if (status == TROUPE_OK)
        *value = troupe_result_metric(result, "value");
    char path[1024];
    snprintf(path, sizeof path, "%s", troupe_job_path(*job));
    troupe_result_free(&result);
    troupe_job_close(job);
    bench_remove(path);
    return status;
}

static troupe_status run(const plan *config, watcher *it, double *value)
{
    troupe_job *job;
    TROUPE_TRY(submit(config, it, &job));
    return await_end(&job, value);
}

// Waits until the follower has seen a report with that number, or one of the second group.
static troupe_status await(watcher *it, int number, bool second)
{
    int64_t end = bench_now_ns() + (int64_t)WAIT_MS * 1000000;
    while (second ? !atomic_load(&it->second_ns) : atomic_load(&it->seen) < number) {
        if (bench_now_ns() > end)
            return troupe_fail(TROUPE_TIMED_OUT, "no report came in %d ms", WAIT_MS);
        bench_pause(100);
    }
    return TROUPE_OK;
}

// ---- The rows

typedef struct row {
    const char *name, *unit;
    double floor;
    bool at_least; // The floor is a lower bound, and more is better.
    plan plan;
    int slow_us, quick_count;
    troupe_status (*measure)(const struct row *row, bench_round *round);
} row;

static int count_of(const row *what)
{
    return bench_rows_quick() ? what->quick_count : what->plan.count;
}

static plan plan_of(const row *what)
{
    plan config = what->plan;
    config.count = count_of(what);
    config.folder = folder;
    return config;
}

static troupe_status measure_first(const row *what, bench_round *round)
{
    bench_samples times;
    plan config = plan_of(what);
    bench_samples_open(&times, (size_t)config.count);
    troupe_status status = TROUPE_OK;
    for (int i = 0; i <= config.count && status == TROUPE_OK; i++) {
        watcher it = {0};
        double value;
        int64_t start = bench_now_ns();
        status = run(&config, &it, &value);
        if (i > 0)
            bench_samples_add(&times, (double)(atomic_load(&it.first_ns) - start) / 1e6);
    }
    *round = bench_round_of(&times);
    bench_samples_close(&times);
    return status;
}

// The rate between the first and the last change of the count that is seen in `ms`.
static double rate_of(troupe_job *job, int ms)
{
    troupe_job_status status;
    int first = 0, last = 0;
    int64_t first_ns = 0, last_ns = 0, end = bench_now_ns() + (int64_t)ms * 1000000;
    for (int64_t now; (now = bench_now_ns()) < end; bench_pause(2000)) {
        troupe_job_status_get(job, &status);
        if (status.reports == last)
            continue;
        last = status.reports;
        last_ns = now;
        if (first == 0) {
            first = last;
            first_ns = now;
        }
    }
    return last > first ? (last - first) / ((double)(last_ns - first_ns) / 1e9) : NAN;
}

static troupe_status measure_rate(const row *what, bench_round *round)
{
    watcher it = {.pause_us = what->slow_us};
    plan config = plan_of(what);
    troupe_job *job;
    double value;
    TROUPE_TRY(submit(&config, &it, &job));
    troupe_status status = await(&it, 1, false);
    *round = bench_round_plain(rate_of(job, config.count));
    atomic_store(&it.pause_us, 0); // It hears of the rest before the job is closed.
    troupe_job_stop(job);
    TROUPE_TRY(await_end(&job, &value));
    return status;
}

static troupe_status measure_follow(const row *what, bench_round *round)
{
    watcher it = {0};
    plan config = plan_of(what);
    double value;
    bench_samples_open(&it.follow, (size_t)config.count);
    troupe_status status = run(&config, &it, &value);
    *round = bench_round_of(&it.follow);
    bench_samples_close(&it.follow);
    return status;
}

static troupe_status kill_once(const plan *config, double *ms)
{
    watcher it = {0};
    troupe_job *job;
    troupe_job_status now;
    double value;
    TROUPE_TRY(submit(config, &it, &job));
    troupe_status status = await(&it, KILL_AFTER, false);
    troupe_job_status_get(job, &now);
    if (status == TROUPE_OK && (now.pids[1] <= 0 || kill(now.pids[1], 0) != 0))
        status = troupe_fail(TROUPE_FAILED, "rank 1 is not there");
    int64_t start = bench_now_ns();
    if (status == TROUPE_OK)
        kill(now.pids[1], SIGKILL);
    if (status == TROUPE_OK)
        status = await(&it, 0, true);
    *ms = (double)(atomic_load(&it.second_ns) - start) / 1e6;
    troupe_job_stop(job);
    troupe_status ended = await_end(&job, &value);
    return status == TROUPE_OK ? ended : status;
}

static troupe_status measure_kill(const row *what, bench_round *round)
{
    bench_samples times;
    plan config = plan_of(what);
    bench_samples_open(&times, (size_t)config.count);
    troupe_status status = TROUPE_OK;
    for (int i = 0; i < config.count && status == TROUPE_OK; i++) {
        double ms = NAN;
        status = kill_once(&config, &ms);
        bench_samples_add(&times, ms);
    }
    *round = bench_round_of(&times);
    bench_samples_close(&times);
    return status;
}

// What the loop itself has measured.
static troupe_status measure_inside(const row *what, bench_round *round)
{
    watcher it = {0};
    plan config = plan_of(what);
    double value = NAN;
    troupe_status status = run(&config, &it, &value);
    *round = bench_round_plain(value);
    return status;
}

static const row rows[] = {
    {"train.first_report", "ms", 5, false, {ONCE, 20, 0, NULL}, 0, 2, measure_first},
    {"train.reports", "1/s", 50000, true, {OFTEN, 2000, 0, NULL}, 0, 200, measure_rate},
    {"train.reports.slow_subscriber",
     "1/s",
     50000,
     true,
     {OFTEN, 2000, 0, NULL},
     SLOW_US,
     700,
     measure_rate},
    {"train.follow", "us", 100, false, {NOW_AND_THEN, 2000, 0, NULL}, 0, 20, measure_follow},
    {"train.kill_to_report", "ms", 15, false, {UNTIL_KILLED, 20, 0, NULL}, 0, 2, measure_kill},
    {"train.kill_to_report.memory",
     "ms",
     15,
     false,
     {UNTIL_KILLED_IN_MEMORY, 20, 0, NULL},
     0,
     2,
     measure_kill},
    {"train.commit", "%", 5, false, {COMMITS, 2000, 0, NULL}, 0, 20, measure_inside},
    {"train.overhead", "%", 0.5, false, {STEPS, 200, 0, NULL}, 0, 10, measure_inside},
    {"train.checkpoint.1048576", "%", 0, false, {SAVES, 20, 1 << 20, NULL}, 0, 2, measure_inside},
    {"train.checkpoint.104857600",
     "%",
     10,
     false,
     {SAVES, 6, 100 << 20, NULL},
     0,
     1,
     measure_inside},
};
enum { ROWS = sizeof rows / sizeof *rows };

static bool has_peer(const row *what)
{
    return what->plan.kind != COMMITS && what->plan.kind != UNTIL_KILLED_IN_MEMORY;
}

static void add_ours(const row *what, bench_rounds *rounds)
{
    bench_round round = bench_round_plain(NAN);
    if (rounds->missing[0])
        return;
    if (what->measure(what, &round) != TROUPE_OK)
        bench_rounds_fail(rounds, "%s", troupe_last_error()->text);
    else
        bench_rounds_add(rounds, round);
}

// ---- Ray Train

static char peer_name[64] = "Ray Train";

// One program measures all its rows, since starting Ray takes seconds.
static void add_peers(const bool *wanted, bench_rounds *rounds)
{
    static char out[OUT_MAX];
    char reason[BENCH_REASON] = "it printed no such row";
    const char *command[ROWS + 4] = {"compare/peer_ray_train", folder, "1"};
    size_t used = 3;
    for (size_t i = 0; i < ROWS; i++)
        if (wanted[i] && has_peer(&rows[i]))
            command[used++] = rows[i].name;
    if (used == 3) // That would be all of them.
        return;
    // What it printed before it failed counts.
    bench_run(command, PEER_SECONDS_MAX, out, sizeof out, reason);
    (void)sscanf(out, "peer %63[^\n]", peer_name);
    for (size_t i = 0; i < ROWS; i++)
        if (wanted[i] && has_peer(&rows[i]))
            bench_rows_read(rows[i].name, out, reason, &rounds[i]);
}

static void print(const row *what, const bench_rounds *ours, const bench_rounds *theirs)
{
    char note[128];
    double value = bench_rounds_value(ours);
    bool holds = what->at_least ? value >= what->floor : value <= what->floor;
    snprintf(note, sizeof note, "floor: at %s %g %s, which %s", what->at_least ? "least" : "most",
             what->floor, what->unit, holds ? "holds" : "does not hold");
    if (what->floor == 0)
        snprintf(note, sizeof note, "no floor");
    bench_rows_print(&(bench_line){.name = what->name,
                                   .unit = what->unit,
                                   .placement = "not pinned",
                                   .better = what->at_least ? BENCH_HIGHER : BENCH_LOWER,
                                   .ours = ours,
                                   .peer = bench_rows_quick() || !has_peer(what) ? NULL : peer_name,
                                   .peers = theirs,
                                   .note = note});
}

int main(int argc, char **argv)
{
    static bench_rounds ours[ROWS], theirs[ROWS];
    bool wanted[ROWS];
    troupe_must(troupe_start(argc, argv, .workers = TROUPE_NONE, .cpus = 2));
    bench_rows_open(argc, argv); // A rank does not come here.
    // Beside the program and not in /tmp, which may lie in memory.
    if (!bench_path("train-XXXXXX", folder, sizeof folder) || !mkdtemp(folder))
        bench_die("bench_train: cannot make a folder beside the program");
    for (size_t i = 0; i < ROWS; i++)
        wanted[i] = bench_rows_wanted(rows[i].name);
    for (int k = 0; bench_goes_on(k, bench_rows_quick() ? 1 : ROUNDS, SECONDS_MAX); k++) {
        for (size_t i = 0; i < ROWS; i++)
            if (wanted[i])
                add_ours(&rows[i], &ours[i]);
        if (!bench_rows_quick())
            add_peers(wanted, theirs);
    }
    for (size_t i = 0; i < ROWS; i++)
        if (wanted[i])
            print(&rows[i], &ours[i], &theirs[i]);
    troupe_stop();
    bench_data(folder);
    bench_allreduce();
    bench_remove(folder);
    return bench_rows_close();
}
