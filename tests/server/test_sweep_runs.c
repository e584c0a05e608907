// test_sweep_runs.c: trials of a train server that pause, and that clone each other, while their
// tuner is killed with -9: no run is made twice, no report is lost or looked at twice.
// timeout: 240
// cost: 20
#include "real_server.h"

#include <math.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <troupe/tune.h>
#include <unistd.h>

enum { EPOCHS = 12, KILLS = 4 };

static char *top, *storage; // Both are found in the environment by what is started.

TROUPE_STRUCT(settings, (double, rate), (int, pace_ms));
TROUPE_STRUCT(state, (int, epoch), (double, rates, 64));

static troupe_status train(troupe_rank *me, const settings *config)
{
    state at = {0};
    TROUPE_TRY(troupe_restore(state, me, &at));
    while (at.epoch < EPOCHS) {
        at.rates[at.epoch++] = config->rate;
        double loss = 20;
        for (int i = 0; i < at.epoch; i++)
            loss -= at.rates[i];
        usleep((useconds_t)config->pace_ms * 1000);
        TROUPE_TRY(troupe_save(state, me, &at));
        TROUPE_TRY(troupe_report(me, {"loss", loss}, {"epoch", at.epoch}));
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(train, settings);

static troupe_scheduler *scheduler_of(const char *name)
{
    if (strncmp(name, "population", 10) == 0)
        return troupe_pbt(.interval = 2, .limit = 30);
    return troupe_asha(.grace = 2, .reduction = 2, .limit = EPOCHS, .promote = true);
}

static troupe_status tune(const char *name, troupe_sweep **sweep)
{
    const troupe_param space[] = {TROUPE_UNIFORM(settings, rate, 0, 1),
                                  TROUPE_FIXED(settings, pace_ms, 30)};
    const int trials = strncmp(name, "population", 10) == 0 ? 4 : 8;
    return troupe_tune(
        train, space, sweep, .metric = "loss", .goal = TROUPE_MINIMIZE, .trials = trials,
        .concurrent = 4, .name = name, .search = TROUPE_SEARCH_RANDOM,
        .scheduler = scheduler_of(name), .server = TROUPE_SERVER_AUTO,
        .open = TROUPE_OPEN_RESUME_OR_NEW,
        .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage, .cpus_per_rank = 0.25));
}

static int act_tune(const char *name)
{
    troupe_sweep *sweep;
    troupe_must(tune(name, &sweep));
    troupe_sweep_free(&sweep);
    return troupe_stop();
}

static pid_t start_tuner(const char *name)
{
    pid_t pid;
    char *argv[] = {(char[]){"test_sweep_runs"}, strdup(name), NULL};
    assert_int_equal(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ), 0);
    free(argv[1]);
    return pid;
}

static int count_in(const char *text, const char *what)
{
    int count = 0;
    for (; text != NULL && (text = strstr(text, what)) != NULL; text += strlen(what))
        count++;
    return count;
}

static char *record_of(const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s/trials.jsonl", storage, name);
    return support_read_file(path);
}

typedef struct lines {
    const char *name;
    int count;
} lines;

static bool has_lines(void *user)
{
    const lines *it = user;
    char *text = record_of(it->name);
    bool has = count_in(text, "\n") >= it->count;
    free(text);
    return has;
}

// The tuner is killed each time that the record has grown by `step` lines.
static void kill_tuners(const char *name, int step)
{
    for (int i = 1; i <= KILLS; i++) {
        lines until = {name, i * step};
        pid_t pid = start_tuner(name);
        if (!support_wait_until(has_lines, &until, SUPPORT_SLOWER * SUPPORT_SOON_MS)) {
            char *text = record_of(name);
            fail_msg("%d lines of %d: %s", count_in(text, "\n"), until.count, text);
        }
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
}

// Each report was decided on once, in its order, and each run was submitted once.
static void assert_done_once(const char *name, troupe_sweep *sweep)
{
    char *text = record_of(name), what[300];
    for (size_t i = 0; i < troupe_sweep_count(sweep); i++) {
        const troupe_trial *trial = troupe_sweep_trial(sweep, i);
        const char *log = strstr(trial->error, "in /");
        if (log != NULL) {
            char *said = support_read_file(log + 3);
            fail_msg("%s: %s", trial->error, said);
        }
        assert_string_equal(trial->error, "");
        for (int number = 1; number <= trial->reports; number++) {
            snprintf(what, sizeof what, "\"event\": \"report\", \"trial\": %zu, \"number\": %d,", i,
                     number);
            int count = count_in(text, what);
            snprintf(what, sizeof what,
                     "\"event\": \"reported\", \"trial\": \"%s\", \"number\": %d,", trial->name,
                     number);
            count += count_in(text, what);
            if (count > 1 || (count == 0 && trial->state == TROUPE_TRIAL_TERMINATED))
                fail_msg("report %d of %s is there %d times", number, trial->name, count);
        }
        snprintf(what, sizeof what, "\"event\": \"run\", \"trial\": \"%s\"", trial->name);
        int runs = 1 + count_in(text, what);
        snprintf(what, sizeof what, "\"event\": \"submitted\", \"trial\": \"%s\"", trial->name);
        assert_in_range(count_in(text, what), runs - 1, runs); // Or killed between.
    }
    free(text);
}

static void test_a_population_survives_its_tuners(void **unused)
{
    (void)unused;
    troupe_sweep *sweep;
    kill_tuners("population", 20);
    troupe_must(tune("population", &sweep));
    assert_done_once("population", sweep);
    char *text = record_of("population");
    assert_true(count_in(text, "\"act\": \"clone\"") > 0);
    assert_true(count_in(text, "\"event\": \"run\"") > 0);
    free(text);
    for (size_t i = 0; i < 4; i++) {
        const troupe_trial *trial = troupe_sweep_trial(sweep, i);
        state at = {0};
        assert_int_equal(trial->state, TROUPE_TRIAL_TERMINATED);
        assert_non_null(trial->result);
        if (troupe_result_reports(trial->result) == 0) // It cloned one that was at its end.
            continue;
        troupe_must(troupe_checkpoint_load(state, troupe_result_checkpoint(trial->result), 0, &at));
        assert_int_equal(at.epoch, EPOCHS);
        assert_true(at.rates[EPOCHS - 1] == ((const settings *)trial->config)->rate);
    }
    troupe_sweep_free(&sweep);
}

static void test_paused_trials_survive_their_tuners(void **unused)
{
    (void)unused;
    troupe_sweep *sweep;
    kill_tuners("promoted", 20);
    troupe_must(tune("promoted", &sweep));
    assert_done_once("promoted", sweep);
    char *text = record_of("promoted");
    int again = count_in(text, "\"event\": \"again\"");
    assert_true(again > 0);
    assert_true(count_in(text, "\"act\": \"pause\"") >= again);
    free(text);
    size_t ended = 0;
    for (size_t i = 0; i < 8; i++)
        ended += troupe_sweep_trial(sweep, i)->state == TROUPE_TRIAL_TERMINATED;
    assert_true(ended > 0 && ended < 8);
    troupe_sweep_free(&sweep);
}

static int clear(void **unused)
{
    (void)unused;
    real_server_end(top);
    return 0;
}

int main(int argc, char **argv)
{
    top = real_server_folder("TEST_SWEEP_TOP");
    storage = support_path(top, "runs");
    troupe_must(troupe_start(argc, argv, .cpus = 4)); // Does not return in a job.
    if (argc == 2)
        return act_tune(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_population_survives_its_tuners, real_server_begin),
        cmocka_unit_test_setup(test_paused_trials_survive_their_tuners, real_server_begin),
    };
    return cmocka_run_group_tests(tests, NULL, clear);
}
