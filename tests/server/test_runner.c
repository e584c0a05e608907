// test_runner.c: jobs of the train server in processes of their own: this program, started again
// by the launcher, beside a stand-in of the server.
// timeout: 120
// cost: 8
#include "stand_in.h"

#include <fcntl.h>
#include <poll.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <server/fence.h>
#include <server/launcher.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <train/config.h>
#include <train/run_file.h>
#include <train/spec.h>

enum { NO_END = 75, STEPS = 60, RANKS = 2 };
#define SUBMISSION "0123456789abcdef"

// ---- the program of the job

TROUPE_STRUCT(walk_settings, (int, steps), (int, hold_at), (int, wait_at), (double, rate),
              (troupe_text, folder));
TROUPE_STRUCT(walk_state, (int, step), (double, sum));

static bool is_there(const char *folder, const char *name)
{
    char *path = support_path(folder, name);
    bool there = support_exists(path);
    free(path);
    return there;
}

static void put_file(const char *folder, const char *name)
{
    char *path = support_path(folder, name);
    support_write_file(path, "", 0);
    free(path);
}

// From the step `hold_at` on it goes on slowly, and where it is to wait, from `wait_at` on not
// before there is a file `on`; with a file `go` it goes on as it can.
static void hold(const walk_settings *config, int step)
{
    bool waits = config->wait_at > 0 && step >= config->wait_at;
    while (waits && !is_there(config->folder, "on") && !is_there(config->folder, "go"))
        usleep(1000);
    if (step >= config->hold_at && !is_there(config->folder, "go"))
        usleep(waits ? 20000 : 5000);
}

static troupe_status walk(troupe_rank *me, const walk_settings *config)
{
    walk_state now = {0};
    TROUPE_TRY(troupe_restore(walk_state, me, &now));
    if (me->rank == 0)
        printf("TROUPE_JOB %s, in job %s\n", getenv("TROUPE_JOB") != NULL ? "set" : "unset",
               getenv("TROUPE_IN_JOB"));
    while (now.step < config->steps) {
        double part = troupe_live(walk_settings, me)->rate * (now.step + 1) / (me->rank + 3);
        hold(config, now.step);
        TROUPE_TRY(troupe_allreduce(me, &part, 1, TROUPE_SUM));
        now.sum = now.sum * 0.9 + part;
        now.step++;
        TROUPE_TRY(troupe_save(walk_state, me, &now));
        TROUPE_TRY(troupe_report(me, {"sum", now.sum}, {"step", now.step},
                                 {"rate", troupe_live(walk_settings, me)->rate}));
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(walk, walk_settings, .live = "rate, steps");

static void say_at_exit(void)
{
    printf("at exit\n");
}

static int be_program(int argc, char **argv)
{
    printf("before the start\n");
    atexit(say_at_exit);
    if (strcmp(argv[1], "forks") == 0) {
        fflush(stdout);
        pid_t child = fork();
        if (child != 0)
            return waitpid(child, NULL, 0) != child;
    }
    if (strcmp(argv[1], "closes") == 0)
        (void)close_range(3, ~0U, 0);
    troupe_status status = strcmp(argv[1], "misled") == 0
                               ? troupe_start(argc, argv, .store_wait_ms = -7)
                               : troupe_start(argc, argv, .cpus = 1, .workers = 1, .threads = 7);
    printf("after the start: %s\n", troupe_last_error()->text);
    return status != TROUPE_OK;
}

// ---- the job

typedef struct fixture {
    char *state, *storage, *work;
    trp_path folder, run; // Of the job; of its run.
    char self[4096];
    const char *arguments[2];
    walk_settings config;
    trp_wire_launch launch;
    trp_wire_order order;
    const char *program; // In the spec; NULL: this one.
    int restarts;        // In the spec,
    double time_limit_s; // too.
    pid_t pid;
    int pidfd;
    stand_in server;
} fixture;

static int set_up(void **state)
{
    static const char *const environment[] = {"ASAN_OPTIONS=detect_leaks=0",
                                              "TSAN_OPTIONS=die_after_fork=0"};
    fixture *f = calloc(1, sizeof *f);
    f->state = support_directory_make();
    f->storage = support_directory_make();
    f->work = support_directory_make();
    troupe_must(trp_state_folder_job(f->state, 1, &f->folder));
    troupe_must(trp_folder_make(f->folder.text));
    troupe_must(trp_path_make(&f->run, "%s/walk_3", f->storage));
    troupe_must(trp_folder_make(f->run.text)); // As the client does.
    assert_true(readlink("/proc/self/exe", f->self, sizeof f->self - 1) > 0);
    f->arguments[0] = f->self;
    f->arguments[1] = "job";
    f->config = (walk_settings){.steps = STEPS, .hold_at = STEPS, .rate = 1, .folder = f->work};
    f->launch = (trp_wire_launch){.program = f->self,
                                  .arguments = {f->arguments, 2},
                                  .environment = {environment, 2},
                                  .folder = f->work,
                                  .umask = 022};
    f->order = (trp_wire_order){.job = 1,
                                .attempt = 1,
                                .submission = SUBMISSION,
                                .run = f->run.text,
                                .ranks = RANKS,
                                .cpus = RANKS,
                                .gpu_ids = ""};
    f->pidfd = -1;
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    if (f->pid > 0) // The test has failed.
        (void)kill(f->pid, SIGKILL);
    if (f->pidfd >= 0)
        close(f->pidfd);
    support_directory_remove(f->state);
    support_directory_remove(f->storage);
    support_directory_remove(f->work);
    free(f);
    return 0;
}

static void write_spec(const fixture *f)
{
    trp_packed config;
    trp_arena arena = {0};
    trp_buffer packed = {0};
    trp_job_spec spec;
    troupe_train_options options = {.size = sizeof options,
                                    .ranks = RANKS,
                                    .storage = "/nowhere",
                                    .name = "walk",
                                    .keep = 3,
                                    .restarts = f->restarts,
                                    .time_limit_s = f->time_limit_s};
    char *path = support_path(f->folder.text, "spec");
    troupe_must(trp_packed_take(&config, &troupe_type_walk_settings, "the config", &f->config));
    troupe_must(trp_spec_make(&troupe_trainer_walk, &config, &options, &arena, &spec));
    if (f->program != NULL)
        spec.program = f->program;
    troupe_must(trp_spec_pack(&spec, &packed));
    support_write_file(path, packed.data, packed.size);
    trp_buffer_free(&packed);
    trp_packed_free(&config);
    trp_arena_clear(&arena);
    free(path);
}

static void start(fixture *f)
{
    if (f->pidfd >= 0)
        close(f->pidfd);
    write_spec(f);
    troupe_must(trp_fence_set(f->folder.text, f->order.attempt));
    troupe_must(trp_launcher_start(&f->launch, &f->order, f->folder.text, &f->pid, &f->pidfd));
}

static bool is_over(void *user)
{
    trp_fence fence;
    troupe_must(trp_fence_look(((fixture *)user)->folder.text, &fence));
    return fence.runner == 0 && fence.keeper == 0;
}

// Waits until the process, and all below it, have ended. Its exit status; -1: a signal has.
static int await_end(fixture *f)
{
    int status;
    struct pollfd end = {.fd = f->pidfd, .events = POLLIN};
    assert_int_equal(poll(&end, 1, SUPPORT_SLOWER * SUPPORT_SOON_MS), 1);
    assert_int_equal(waitpid(f->pid, &status, 0), f->pid);
    f->pid = 0;
    assert_true(support_wait_until(is_over, f, SUPPORT_SOON_MS));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void start_next(fixture *f)
{
    f->order.attempt++;
    start(f);
}

static trp_job_end end_of(const fixture *f, trp_arena *arena)
{
    trp_job_end end;
    troupe_must(trp_job_end_read(f->folder.text, arena, &end));
    return end;
}

static void assert_no_end(const fixture *f)
{
    assert_false(is_there(f->folder.text, "end"));
}

static void assert_ended_well(const fixture *f, int reports)
{
    trp_arena arena = {0};
    trp_job_end end = end_of(f, &arena);
    assert_string_equal(end.error, "");
    assert_int_equal(end.status, TROUPE_OK);
    assert_int_equal(end.attempt, f->order.attempt);
    assert_int_equal(end.reports, reports);
    assert_false(end.stopped);
    assert_true(end.ended_at > 1e9);
    trp_arena_clear(&arena);
}

static char *log_of(const fixture *f)
{
    char *path = support_path(f->folder.text, "log"), *text = support_read_file(path);
    free(path);
    assert_non_null(text);
    return text;
}

static void assert_logged(const fixture *f, const char *what)
{
    char *text = log_of(f);
    if (strstr(text, what) == NULL)
        support_fail_output(text, "the log lacks '%s'", what);
    free(text);
}

static int count_in(const char *text, const char *what)
{
    int count = 0;
    for (; (text = strstr(text, what)) != NULL; text += strlen(what))
        count++;
    return count;
}

// Reports that the run has, and the last one's sum.
static int reports_of(const fixture *f, double *sum)
{
    char *path = support_path(f->run.text, "journal.jsonl"), *text = support_read_file(path);
    char *end = text != NULL ? strrchr(text, '\n') : NULL; // What follows is being written.
    int reports = 0;
    if (text != NULL)
        *(end != NULL ? end : text) = '\0';
    for (char *at = text; at != NULL && (at = strstr(at, "\"event\": \"report\"")) != NULL; at++) {
        char *found = strstr(at, "\"sum\": ");
        assert_non_null(found);
        *sum = strtod(found + strlen("\"sum\": "), NULL);
        reports++;
    }
    free(text);
    free(path);
    return reports;
}

static bool has_reports(void *user)
{
    double sum;
    return reports_of(user, &sum) >= STEPS / 4;
}

static void await_reports(fixture *f)
{
    assert_true(support_wait_until(has_reports, f, SUPPORT_SLOWER * SUPPORT_SOON_MS));
}

// It waits once it has made these, so that what follows finds it on its way.
static void wait_behind_reports(fixture *f)
{
    f->config.hold_at = STEPS / 8;
    f->config.wait_at = STEPS / 4;
}

// Wishes, and has it go on when the runner has carried that out: its ranks find it at their next
// report.
static void wish_on_its_way(fixture *f, trp_wire_wishes wishes)
{
    stand_in_wish(&f->server, wishes);
    assert_true(support_wait_until(stand_in_is_echoed, &f->server, SUPPORT_SOON_MS));
    put_file(f->work, "on");
}

// As walk computes it.
static double undisturbed(int steps)
{
    double sum = 0;
    for (int step = 1; step <= steps; step++)
        sum = sum * 0.9 + ((double)step / 3 + (double)step / 4);
    return sum;
}

static bool has_one_rank(void *user)
{
    stand_in *self = user;
    pthread_mutex_lock(&self->lock);
    bool has = self->progress.state == TRP_JOB_RUNNING && self->progress.ranks == 1;
    pthread_mutex_unlock(&self->lock);
    return has;
}

// ---- tests

static void test_a_job_runs_without_a_server(void **state)
{
    fixture *f = *state;
    double sum;
    trp_arena arena = {0};
    trp_end_file run_end;
    start(f);
    assert_int_equal(await_end(f), 0);
    assert_ended_well(f, STEPS);
    assert_int_equal(reports_of(f, &sum), STEPS);
    assert_true(sum == undisturbed(STEPS));
    troupe_must(trp_end_file_read(f->run.text, &arena, &run_end));
    assert_string_equal(run_end.job, SUBMISSION);
    trp_arena_clear(&arena);
    char *text = log_of(f);
    assert_int_equal(count_in(text, "before the start\n"), 1);
    assert_null(strstr(text, "after the start"));
    assert_null(strstr(text, "at exit"));
    free(text);
    // What a rank prints is in its own file alone.
    char *path = support_path(f->run.text, "log/rank_00000.log");
    text = support_read_file(path);
    assert_non_null(strstr(text, "TROUPE_JOB unset, in job 1\n"));
    free(text);
    free(path);
}

// What is asked for stays in run.json, whatever is left of it for an attempt.
static void test_a_later_attempt_says_what_was_asked_for(void **state)
{
    fixture *f = *state;
    f->restarts = 3;
    f->time_limit_s = 3600;
    f->order.attempt = 2;
    f->order.restarts_left = 1;
    f->order.restarts_before = 2;
    f->order.elapsed_s = 40;
    start(f);
    assert_int_equal(await_end(f), 0);
    assert_ended_well(f, STEPS);
    char *path = support_path(f->run.text, "run.json"), *text = support_read_file(path);
    if (strstr(text, "\"restarts\": 3") == NULL || strstr(text, "\"time_limit_s\": 3600") == NULL)
        support_fail_output(text, "other options than those that were asked for");
    free(text);
    free(path);
}

static bool has_usage(void *user)
{
    char *path = support_path(((fixture *)user)->run.text, "usage.jsonl");
    char *text = support_read_file(path);
    bool has = text != NULL && strstr(text, "\"rank\": -1, \"pid\": ") != NULL &&
               strstr(text, "\"rank\": 0, ") != NULL && strstr(text, "\"rank\": 1, ") != NULL &&
               strstr(text, "\"rss_bytes\": ") != NULL;
    free(text);
    free(path);
    return has;
}

static bool usage_has(const fixture *f, const char *what)
{
    char *path = support_path(f->run.text, "usage.jsonl");
    char *text = support_read_file(path);
    bool has = text != NULL && strstr(text, what) != NULL;
    free(text);
    free(path);
    return has;
}

static bool has_gpu_of_runner(void *user)
{
    return usage_has(user, "\"gpu\": \"3\", \"name\": \"Standin 1\", \"busy\": 0.87, "
                           "\"used_bytes\": 300, \"total_bytes\": 1000}\n");
}

static bool has_gpu_of_rank(void *user)
{
    return usage_has(user, "\"used_bytes\": 77, \"total_bytes\": 1000}\n");
}

// F16: GPUs of the grant, of a library that stands in for NVML, of which the job has one.
static void test_what_gpus_do_is_told(void **state)
{
    fixture *f = *state;
    char script[256], variable[2][4200];
    int pid = 0;
    char *gpus = support_path(f->work, "gpus"), *draft = support_path(f->work, "draft");
    char *usage = support_path(f->run.text, "usage.jsonl"), *text;
    snprintf(script, sizeof script,
             "GPU-0 bus=1 name=A\nGPU-1 bus=2 name=A\nGPU-2 bus=3 name=A\n%s",
             "GPU-3 bus=4 busy=87 total=1000 used=self:300 name=Standin 1\n");
    support_write_file(gpus, script, strlen(script));
    snprintf(variable[0], sizeof variable[0], "TROUPE_NVML=%s", support_setting("TROUPE_STANDIN"));
    snprintf(variable[1], sizeof variable[1], "STANDIN_NVML=%s", gpus);
    const char *environment[] = {"ASAN_OPTIONS=detect_leaks=0", "TSAN_OPTIONS=die_after_fork=0",
                                 "CUDA_DEVICE_ORDER=PCI_BUS_ID", variable[0], variable[1]};
    f->launch.environment = (troupe_array_troupe_text){environment, 5};
    f->order.gpus = 1;
    f->order.gpu_ids = "3";
    f->config.hold_at = 0;
    f->config.steps = 100000;
    stand_in_start(&f->server, f->state);
    start(f);
    assert_true(support_wait_until(has_gpu_of_runner, f, SUPPORT_SOON_MS));
    assert_true(support_wait_until(has_usage, f, SUPPORT_SLOWER * SUPPORT_SOON_MS));
    // Memory of a rank's process is the job's.
    text = support_read_file(usage);
    const char *rank = strstr(text, "\"rank\": 1, \"pid\": ");
    assert_non_null(rank);
    assert_int_equal(sscanf(rank, "\"rank\": 1, \"pid\": %d", &pid), 1);
    free(text);
    snprintf(strstr(script, "self:300"), 64, "%d:77 name=Standin 1\n", pid);
    support_write_file(draft, script, strlen(script));
    assert_int_equal(rename(draft, gpus), 0);
    assert_true(support_wait_until(has_gpu_of_rank, f, SUPPORT_SOON_MS));
    stand_in_wish(&f->server, (trp_wire_wishes){.stop = true});
    assert_int_equal(await_end(f), 0);
    stand_in_stop(&f->server);
    assert_false(usage_has(f, "\"gpu\": \"0\""));
    free(gpus);
    free(draft);
    free(usage);
}

static void test_a_server_is_told_where_the_run_is(void **state)
{
    fixture *f = *state;
    trp_arena arena = {0};
    f->config.hold_at = 0;
    f->config.steps = 100000;
    stand_in_start(&f->server, f->state);
    start(f);
    assert_true(support_wait_until(stand_in_has_runner, &f->server, SUPPORT_SOON_MS));
    assert_true(support_wait_until(has_usage, f, SUPPORT_SOON_MS));
    pid_t runner = f->pid;
    stand_in_wish(&f->server, (trp_wire_wishes){.stop = true});
    assert_int_equal(await_end(f), 0);
    pthread_mutex_lock(&f->server.lock);
    assert_int_equal(f->server.peer, runner);
    assert_int_equal(f->server.runner.job, 1);
    assert_int_equal(f->server.runner.attempt, 1);
    assert_string_equal(f->server.submission, SUBMISSION);
    assert_int_equal(f->server.progress.ranks, RANKS);
    pthread_mutex_unlock(&f->server.lock);
    stand_in_stop(&f->server);
    assert_true(end_of(f, &arena).stopped);
    trp_arena_clear(&arena);
}

static void test_a_stop_reaches_a_runner_whose_server_was_away(void **state)
{
    fixture *f = *state;
    trp_arena arena = {0};
    f->config = (walk_settings){.steps = 100000, .rate = 1, .folder = f->work};
    stand_in_start(&f->server, f->state);
    start(f);
    assert_true(support_wait_until(stand_in_has_runner, &f->server, SUPPORT_SOON_MS));
    stand_in_stop(&f->server);
    await_reports(f); // It goes on.
    f->server.wishes.revision++;
    f->server.wishes.stop = true;
    stand_in_start(&f->server, f->state);
    assert_int_equal(await_end(f), 0);
    stand_in_stop(&f->server); // Its thread has ended: nothing of it changes any more.
    assert_int_equal(f->server.hellos, 1);
    trp_job_end end = end_of(f, &arena);
    assert_int_equal(end.status, TROUPE_OK);
    assert_true(end.stopped);
    trp_arena_clear(&arena);
}

// A stop that was told stays one, whatever is told later.
static void test_fewer_ranks_after_a_stop_change_nothing(void **state)
{
    fixture *f = *state;
    trp_arena arena = {0};
    f->config = (walk_settings){.steps = 100000, .rate = 1, .folder = f->work};
    stand_in_start(&f->server, f->state);
    start(f);
    assert_true(support_wait_until(stand_in_has_runner, &f->server, SUPPORT_SOON_MS));
    await_reports(f);
    stand_in_wish(&f->server, (trp_wire_wishes){.stop = true});
    stand_in_wish(&f->server, (trp_wire_wishes){.stop = true, .ranks = RANKS - 1, .resizes = 1});
    assert_int_equal(await_end(f), 0);
    stand_in_stop(&f->server);
    trp_job_end end = end_of(f, &arena);
    assert_string_equal(end.error, "");
    assert_int_equal(end.status, TROUPE_OK);
    assert_true(end.stopped);
    assert_int_equal(end.restarts, 0);
    trp_arena_clear(&arena);
}

static void test_a_kill_says_why(void **state)
{
    fixture *f = *state;
    trp_arena arena = {0};
    f->config.hold_at = 0;
    f->config.steps = 100000;
    stand_in_start(&f->server, f->state);
    start(f);
    assert_true(support_wait_until(stand_in_has_runner, &f->server, SUPPORT_SOON_MS));
    stand_in_wish(&f->server,
                  (trp_wire_wishes){.kill = TROUPE_DEADLINE_EXCEEDED, .why = "it was too dear"});
    assert_int_equal(await_end(f), 0);
    stand_in_stop(&f->server);
    trp_job_end end = end_of(f, &arena);
    assert_int_equal(end.status, TROUPE_DEADLINE_EXCEEDED);
    assert_non_null(strstr(end.error, "it was too dear"));
    trp_arena_clear(&arena);
}

static void test_an_order_to_leave_leaves_no_end(void **state)
{
    fixture *f = *state;
    f->config.hold_at = 0;
    f->config.steps = 100000;
    f->server.wishes.leave = true;
    stand_in_start(&f->server, f->state);
    start(f);
    assert_int_equal(await_end(f), NO_END);
    stand_in_stop(&f->server);
    assert_no_end(f);
    assert_logged(f, "the server has another attempt of this job");
}

// A wish of the server comes once, also where each attempt is told of it again.
static void test_live_values_and_a_pause(void **state)
{
    fixture *f = *state;
    double sum;
    const trp_wire_live rates[] = {{1, "rate", "0.5"}, {2, "steps", "70"}, {3, "rate", "0.25"}};
    wait_behind_reports(f);
    f->config.steps = 100000;
    f->order.wishes = (trp_wire_wishes){.revision = 1, .live = {rates, 1}};
    f->server.wishes = f->order.wishes;
    stand_in_start(&f->server, f->state);
    start(f);
    assert_true(support_wait_until(stand_in_has_runner, &f->server, SUPPORT_SOON_MS));
    await_reports(f);
    trp_wire_wishes wishes = {.live = {rates, 3}};
    for (int i = 0; i < 2; i++) { // Its revision is 3 then.
        stand_in_wish(&f->server, wishes);
        assert_true(support_wait_until(stand_in_is_echoed, &f->server, SUPPORT_SOON_MS));
    }
    const trp_wire_live wrong = {4, "rate", "\"fast\""};
    wishes.live = (troupe_array_trp_wire_live){&wrong, 1};
    stand_in_wish(&f->server, wishes);
    assert_true(support_wait_until(stand_in_is_echoed, &f->server, SUPPORT_SOON_MS));
    assert_true(stand_in_was_told_why(&f->server, "rate"));
    stand_in_wish(&f->server, wishes);
    assert_true(support_wait_until(stand_in_is_echoed, &f->server, SUPPORT_SOON_MS));
    assert_true(stand_in_was_told_why(&f->server, "rate"));
    char *log = log_of(f);
    assert_int_equal(count_in(log, "a live value that was wished is not set"), 1);
    free(log);
    wishes.live = (troupe_array_trp_wire_live){rates, 3};
    wishes.ranks = RANKS + 1; // As no server does.
    wishes.resizes = 1;
    stand_in_wish(&f->server, wishes);
    assert_true(support_wait_until(stand_in_is_echoed, &f->server, SUPPORT_SOON_MS));
    assert_true(stand_in_was_told_why(&f->server, "pause it, change its ranks"));
    wish_on_its_way(f, (trp_wire_wishes){.pause = true, .live = {rates, 3}});
    assert_int_equal(await_end(f), NO_END);
    trp_fence found; // One that had not heard of the pause would take it for lost.
    troupe_must(trp_fence_look(f->folder.text, &found));
    assert_true(found.left);
    assert_true(support_wait_until(stand_in_is_paused, &f->server, SUPPORT_SOON_MS));
    assert_no_end(f);
    put_file(f->work, "go");
    wishes = (trp_wire_wishes){.live = {rates, 3}};
    stand_in_wish(&f->server, wishes);
    f->order.wishes = f->server.wishes;
    start_next(f);
    assert_int_equal(await_end(f), 0);
    stand_in_stop(&f->server);
    assert_ended_well(f, 70);
    assert_int_equal(reports_of(f, &sum), 70);
    char *path = support_path(f->run.text, "journal.jsonl"), *text = support_read_file(path);
    assert_int_equal(count_in(text, "\"event\": \"modify\""), 3);
    assert_null(strstr(text, "\"rate\": 1,")); // It was wished before the first step.
    assert_null(strstr(text, "\"rate\": 1}"));
    free(text);
    free(path);
}

// The next attempt has a grant of more ranks, for which this one ends.
static void test_more_ranks_are_the_next_attempts(void **state)
{
    fixture *f = *state;
    double sum;
    wait_behind_reports(f);
    stand_in_start(&f->server, f->state);
    start(f);
    assert_true(support_wait_until(stand_in_has_runner, &f->server, SUPPORT_SOON_MS));
    await_reports(f);
    wish_on_its_way(f, (trp_wire_wishes){.ranks = RANKS + 1, .grown = true});
    assert_int_equal(await_end(f), NO_END);
    assert_no_end(f);
    int before = reports_of(f, &sum);
    put_file(f->work, "go");
    stand_in_wish(&f->server, (trp_wire_wishes){0});
    f->order.ranks = RANKS + 1;
    f->order.cpus = RANKS + 1;
    f->order.wishes = f->server.wishes;
    start_next(f);
    assert_int_equal(await_end(f), 0);
    stand_in_stop(&f->server);
    assert_ended_well(f, STEPS);
    assert_int_equal(reports_of(f, &sum), STEPS); // None was made twice.
    assert_true(before < STEPS);
    assert_int_equal(f->server.progress.ranks, RANKS + 1);
}

// Wished after the grant, and before it began.
static void test_fewer_ranks_than_are_granted(void **state)
{
    fixture *f = *state;
    f->config.hold_at = 0;
    f->config.steps = 100000;
    f->order.wishes = (trp_wire_wishes){.revision = 1, .ranks = 1, .resizes = 1};
    f->server.wishes = f->order.wishes;
    stand_in_start(&f->server, f->state);
    start(f);
    assert_true(support_wait_until(has_one_rank, &f->server, SUPPORT_SOON_MS));
    stand_in_wish(&f->server, (trp_wire_wishes){.ranks = 1, .resizes = 1, .stop = true});
    assert_int_equal(await_end(f), 0);
    stand_in_stop(&f->server);
}

static void test_a_killed_runner_goes_on_to_the_same_bits(void **state)
{
    fixture *f = *state;
    double sum;
    wait_behind_reports(f);
    start(f);
    await_reports(f);
    assert_int_equal(kill(f->pid, SIGKILL), 0);
    assert_int_equal(await_end(f), -1);
    assert_no_end(f);
    put_file(f->work, "go");
    start_next(f);
    assert_int_equal(await_end(f), 0);
    assert_ended_well(f, STEPS);
    (void)reports_of(f, &sum);
    assert_true(sum == undisturbed(STEPS));
}

static void test_a_lost_node_ends_the_runner_and_not_the_job(void **state)
{
    fixture *f = *state;
    trp_fence fence;
    wait_behind_reports(f);
    start(f);
    await_reports(f);
    troupe_must(trp_fence_look(f->folder.text, &fence));
    assert_int_equal(fence.runner, f->pid);
    assert_true(fence.keeper > 0);
    assert_int_equal(kill(fence.keeper, SIGKILL), 0);
    assert_int_equal(await_end(f), NO_END);
    assert_no_end(f);
    put_file(f->work, "go");
    start_next(f);
    assert_int_equal(await_end(f), 0);
    assert_ended_well(f, STEPS);
}

static bool has_said_that_it_leaves(void *user)
{
    trp_fence found;
    troupe_must(trp_fence_look(((fixture *)user)->folder.text, &found));
    return found.left;
}

static void test_a_terminated_runner_saves_and_leaves_the_job(void **state)
{
    fixture *f = *state;
    double sum;
    wait_behind_reports(f);
    start(f);
    await_reports(f);
    trp_fence found;
    assert_int_equal(kill(f->pid, SIGTERM), 0);
    assert_true(support_wait_until(has_said_that_it_leaves, f, SUPPORT_SOON_MS));
    put_file(f->work, "on");
    assert_int_equal(await_end(f), NO_END);
    assert_no_end(f);
    troupe_must(trp_fence_look(f->folder.text, &found)); // A server that was away learns why.
    assert_int_equal(found.attempt, 1);
    assert_true(found.left);
    put_file(f->work, "go");
    start_next(f);
    assert_int_equal(await_end(f), 0);
    assert_ended_well(f, STEPS);
    assert_int_equal(reports_of(f, &sum), STEPS); // None was lost.
    assert_true(sum == undisturbed(STEPS));
}

// Its runner was killed between the run's end and the job's.
static void test_the_end_of_the_run_is_the_jobs(void **state)
{
    fixture *f = *state;
    double sum;
    trp_arena arena = {0};
    char *path = support_path(f->folder.text, "end");
    f->config.hold_at = 0;
    f->config.steps = 100000;
    stand_in_start(&f->server, f->state);
    start(f);
    await_reports(f);
    stand_in_wish(&f->server, (trp_wire_wishes){.stop = true});
    assert_int_equal(await_end(f), 0);
    stand_in_stop(&f->server);
    int reports = reports_of(f, &sum);
    assert_int_equal(unlink(path), 0);
    // The server knows of its restarts, and of that of the attempt.
    trp_end_file run_end;
    troupe_must(trp_end_file_read(f->run.text, &arena, &run_end));
    run_end.restarts = 2;
    troupe_must(trp_end_file_write(f->run.text, &run_end, true));
    f->order.restarts_before = 3;
    start_next(f);
    assert_int_equal(await_end(f), 0);
    trp_job_end end = end_of(f, &arena);
    assert_int_equal(end.restarts, 3);
    assert_int_equal(end.attempt, 2);
    assert_int_equal(end.status, TROUPE_OK);
    assert_true(end.stopped);
    assert_int_equal(end.reports, reports);
    assert_int_equal(reports_of(f, &sum), reports);
    // To another job it is the end of an earlier one, after which the run goes on.
    assert_int_equal(unlink(path), 0);
    f->order.submission = "another";
    f->config.steps = reports + 3;
    put_file(f->work, "go");
    start_next(f);
    assert_int_equal(await_end(f), 0);
    assert_ended_well(f, reports + 3);
    trp_arena_clear(&arena);
    free(path);
}

static void assert_failed(fixture *f, troupe_status status, const char *why)
{
    trp_arena arena = {0};
    start(f);
    assert_int_equal(await_end(f), 0);
    trp_job_end end = end_of(f, &arena);
    if (strstr(end.error, why) == NULL)
        fail_msg("'%s' lacks '%s'", end.error, why);
    assert_int_equal(end.status, status);
    char *path = support_path(f->folder.text, "end");
    unlink(path);
    free(path);
    trp_arena_clear(&arena);
}

static void test_what_cannot_run_ends_the_job(void **state)
{
    fixture *f = *state;
    f->program = "/opt/another";
    assert_failed(f, TROUPE_UNSUPPORTED, "one of the program /opt/another");
    f->program = NULL;
    f->arguments[1] = "misled";
    assert_failed(f, TROUPE_INVALID, "store_wait_ms");
}

static void test_a_program_that_gives_its_lock_away_runs_nothing(void **state)
{
    fixture *f = *state;
    f->arguments[1] = "closes";
    start(f);
    assert_int_equal(await_end(f), NO_END);
    assert_no_end(f);
    assert_logged(f, "the program has closed the descriptor of its job's lock");
}

static void test_a_program_that_forks_is_told_so(void **state)
{
    fixture *f = *state;
    f->arguments[1] = "forks";
    start(f);
    assert_int_equal(await_end(f), 0);
    assert_no_end(f);
    assert_logged(f, "expected no fork before troupe_start");
    assert_false(is_there(f->run.text, "run.json"));
}

static void test_a_busy_run_leaves_the_job(void **state)
{
    fixture *f = *state;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    char *path = support_path(f->run.text, "alive");
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(fcntl(fd, F_SETLK, &lock), 0);
    start(f);
    assert_int_equal(await_end(f), NO_END);
    assert_no_end(f);
    assert_logged(f, "is being run by process");
    close(fd);
    start_next(f);
    assert_int_equal(await_end(f), 0);
    assert_ended_well(f, STEPS);
    free(path);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv)
{
    if (argc > 1)
        return be_program(argc, argv);
    setenv("TROUPE_COMMAND", support_setting("TROUPE_TOOL"), 1);
    const struct CMUnitTest tests[] = {
        TEST(test_a_job_runs_without_a_server),
        TEST(test_a_later_attempt_says_what_was_asked_for),
        TEST(test_what_gpus_do_is_told),
        TEST(test_a_server_is_told_where_the_run_is),
        TEST(test_a_stop_reaches_a_runner_whose_server_was_away),
        TEST(test_fewer_ranks_after_a_stop_change_nothing),
        TEST(test_a_kill_says_why),
        TEST(test_an_order_to_leave_leaves_no_end),
        TEST(test_live_values_and_a_pause),
        TEST(test_more_ranks_are_the_next_attempts),
        TEST(test_fewer_ranks_than_are_granted),
        TEST(test_a_killed_runner_goes_on_to_the_same_bits),
        TEST(test_a_lost_node_ends_the_runner_and_not_the_job),
        TEST(test_a_terminated_runner_saves_and_leaves_the_job),
        TEST(test_the_end_of_the_run_is_the_jobs),
        TEST(test_what_cannot_run_ends_the_job),
        TEST(test_a_program_that_gives_its_lock_away_runs_nothing),
        TEST(test_a_program_that_forks_is_told_so),
        TEST(test_a_busy_run_leaves_the_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
