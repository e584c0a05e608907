// test_sweep.c: sweeps whose trials are a real train server's: on the same order of reports they
// decide as those of a program of its own, while tuners and servers are killed.
// timeout: 240
// cost: 20
#include "real_server.h"

#include <math.h>
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <troupe/tune.h>
#include <unistd.h>

enum { TRIALS = 6, EPOCHS = 20, LIMIT = 16 };

static char *top, *storage; // Both are found in the environment by what is started.

TROUPE_STRUCT(settings, (double, rate), (int, trial), (int, together), (troupe_text, folder));

// ---- the trainer

// Curves that cross: trials are ended at all rungs.
static double loss_of(const settings *config, int epoch)
{
    return fabs(sin(7 * config->rate - 4 * config->trial / 3.0 + epoch / 3.0));
}

static bool is_put(const settings *config, int trial, int epoch)
{
    char path[600], end[600];
    snprintf(path, sizeof path, "%s/%d_%d", config->folder, trial, epoch);
    snprintf(end, sizeof end, "%s/%d_end", config->folder, trial);
    return epoch < 1 || support_exists(path) || support_exists(end);
}

static void put(const settings *config, const char *what)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%d_%s", config->folder, config->trial, what);
    FILE *file = fopen(path, "ae");
    assert_non_null(file);
    fprintf(file, "%d\n", (int)getpid());
    fclose(file);
}

// Whether the test has them wait: no epoch begins while this file is there.
static bool is_held(const settings *config)
{
    char path[600];
    snprintf(path, sizeof path, "%s/held", config->folder);
    return support_exists(path);
}

// Waits for its turn: epoch by epoch, in each trial by trial. A report at which it may be ended
// returns once that is decided, so this is the order of decisions.
static void await_turn(const settings *config, int epoch)
{
    while (is_held(config))
        usleep(1000);
    for (int other = 0; other < config->together; other++)
        while (!is_put(config, other, other < config->trial ? epoch : epoch - 1))
            usleep(1000);
}

static troupe_status descend(troupe_rank *me, const settings *config)
{
    troupe_status status = TROUPE_OK;
    put(config, "starts");
    for (int epoch = 1; epoch <= EPOCHS && status == TROUPE_OK; epoch++) {
        char text[16];
        await_turn(config, epoch);
        status = troupe_report(me, {"loss", loss_of(config, epoch)});
        snprintf(text, sizeof text, "%d", epoch);
        put(config, text);
    }
    put(config, "end");
    return status;
}
TROUPE_TRAINER(descend, settings);

// ---- sweeps

typedef struct trying {
    const char *name;
    bool together; // All trials at once, by turns; else one after the other, drawn at random.
    uint64_t seed;
    troupe_server_choice server;
    troupe_open open;
} trying;

static char *folder_of(const trying *of)
{
    char name[64];
    snprintf(name, sizeof name, "%s_turns", of->name);
    return support_path(top, name);
}

static troupe_status tune(const trying *of, troupe_sweep **sweep)
{
    char *folder = folder_of(of);
    (void)mkdir(folder, 0700);
    const troupe_param by_turns[] = {
        TROUPE_FIXED(settings, rate, 0.5), TROUPE_INTEGER(settings, trial, 0, TRIALS - 1),
        TROUPE_FIXED(settings, together, TRIALS), TROUPE_FIXED_TEXT(settings, folder, folder)};
    const troupe_param drawn[] = {
        TROUPE_UNIFORM(settings, rate, 0, 1), TROUPE_FIXED(settings, trial, 0),
        TROUPE_FIXED(settings, together, 0), TROUPE_FIXED_TEXT(settings, folder, folder)};
    const troupe_tune_options how = {
        .size = sizeof how,
        .metric = "loss",
        .goal = TROUPE_MINIMIZE,
        .seed = of->seed,
        .search = of->together ? TROUPE_SEARCH_GRID : TROUPE_SEARCH_RANDOM,
        .trials = TRIALS,
        .concurrent = of->together ? TRIALS : 1,
        .name = of->name,
        .scheduler = troupe_asha(.grace = 1, .reduction = 2, .limit = LIMIT),
        .server = of->server,
        .open = of->open,
        .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage, .cpus_per_rank = 0.25,
                                .keep = TROUPE_NONE),
    };
    troupe_status status = troupe_tune_as(&troupe_trainer_descend, of->together ? by_turns : drawn,
                                          sizeof drawn / sizeof *drawn, sweep, &how);
    free(folder);
    return status;
}

static troupe_sweep *local(const char *name, bool together)
{
    troupe_sweep *sweep;
    troupe_must(tune(&(trying){.name = name, .together = together, .seed = 7}, &sweep));
    return sweep;
}

// What was decided, and when: exactly one report behind the rung.
static void compare(troupe_sweep *one, troupe_sweep *other)
{
    size_t stopped = 0;
    assert_int_equal(troupe_sweep_count(one), TRIALS);
    assert_int_equal(troupe_sweep_count(other), TRIALS);
    for (size_t i = 0; i < TRIALS; i++) {
        const troupe_trial *a = troupe_sweep_trial(one, i), *b = troupe_sweep_trial(other, i);
        assert_string_equal(a->error, "");
        assert_string_equal(b->error, "");
        assert_int_equal(a->state, b->state);
        assert_true(a->best_metric == b->best_metric);
        assert_int_equal(a->reports, b->reports);
        int rung = a->reports - 1;
        assert_true(rung == LIMIT || (rung < LIMIT && (rung & (rung - 1)) == 0));
        assert_int_equal(a->state, rung == LIMIT ? TROUPE_TRIAL_TERMINATED : TROUPE_TRIAL_STOPPED);
        assert_int_equal(troupe_result_reports(b->result), b->reports);
        stopped += a->state == TROUPE_TRIAL_STOPPED;
    }
    assert_true(stopped > 0 && stopped < TRIALS);
    troupe_sweep_free(&one);
    troupe_sweep_free(&other);
}

// F07, G10.
static void test_it_decides_as_one_of_a_program(void **state)
{
    (void)state;
    for (int together = 0; together < 2; together++) {
        const char *here = together ? "here_by_turns" : "here",
                   *there = together ? "there_by_turns" : "there";
        trying of = {there, together == 1, 7, TROUPE_SERVER_AUTO, TROUPE_OPEN_NEW};
        troupe_sweep *sweep;
        troupe_must(tune(&of, &sweep));
        compare(local(here, of.together), sweep);
    }
    // They are trials of the server, by their names.
    char command[600], output[8000];
    snprintf(command, sizeof command, "%s jobs --all", support_setting("TROUPE_TOOL"));
    assert_int_equal(support_run(command, output, sizeof output), 0);
    assert_non_null(strstr(output, "descend_"));
    assert_non_null(strstr(output, "_00005"));
}

// ---- what is killed

static int count_in(const char *text, const char *what)
{
    int count = 0;
    for (; (text = strstr(text, what)) != NULL; text += strlen(what))
        count++;
    return count;
}

// So many trials have come to that.
typedef struct turn {
    const char *word;
    int count;
    const trying *of;
} turn;

static bool has_come(void *user)
{
    const turn *it = user;
    char *folder = folder_of(it->of), *path = support_path(folder, it->word);
    char *text = support_read_file(path);
    bool has = text != NULL && count_in(text, "\n") >= it->count;
    free(text);
    free(path);
    free(folder);
    return has;
}

static void await_turn_of(const trying *of, turn it)
{
    it.of = of;
    if (!support_wait_until(has_come, &it, SUPPORT_SLOWER * SUPPORT_SOON_MS))
        fail_msg("%s has not come to %s", of->name, it.word);
}

static void *kill_servers(void *user)
{
    static const char *const turns[] = {"1_1", "3_3", "1_8"};
    for (int i = 0; i < 3; i++) {
        await_turn_of(user, (turn){.word = turns[i], .count = 1});
        kill_server();
        run_tool("server start --cpus 4");
    }
    return NULL;
}

// F07.
static void test_a_server_that_is_killed_changes_no_decision(void **state)
{
    (void)state;
    trying of = {"shot", true, 7, TROUPE_SERVER_AUTO, TROUPE_OPEN_NEW};
    troupe_sweep *sweep;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, kill_servers, &of), 0);
    troupe_must(tune(&of, &sweep));
    pthread_join(thread, NULL);
    compare(local("not_shot", true), sweep);
}

static pid_t start_tuner(const char *name, const char *how)
{
    pid_t pid;
    char *argv[] = {(char[]){"test_sweep"}, strdup(name), strdup(how), NULL};
    assert_int_equal(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ), 0);
    free(argv[1]);
    free(argv[2]);
    return pid;
}

static trying resumed(const char *name, bool together)
{
    return (trying){name, together, 7, TROUPE_SERVER_AUTO, TROUPE_OPEN_RESUME_OR_NEW};
}

static int act_tune(const char *name, const char *how)
{
    troupe_sweep *sweep;
    trying of = resumed(name, strcmp(how, "together") == 0);
    troupe_must(tune(&of, &sweep));
    troupe_sweep_free(&sweep);
    return troupe_stop();
}

// Each trial was done once, and put down whole: nothing twice, nothing left out.
static void assert_done_once(const trying *of, troupe_sweep *sweep)
{
    char *folder = support_path(storage, of->name), *path = support_path(folder, "trials.jsonl");
    char *text = support_read_file(path), *turns = folder_of(of);
    for (size_t i = 0; i < TRIALS; i++) {
        const troupe_trial *trial = troupe_sweep_trial(sweep, i);
        char what[200], starts[32];
        for (int number = 0; number <= trial->reports; number++) {
            snprintf(what, sizeof what, "{\"event\": \"report\", \"trial\": %zu, \"number\": %d,",
                     i, number);
            int count = count_in(text, what); // Or the one behind the decision to end it.
            snprintf(what, sizeof what,
                     "{\"event\": \"reported\", \"trial\": \"%s\", \"number\": %d,", trial->name,
                     number);
            assert_int_equal(count + count_in(text, what), number > 0);
        }
        snprintf(what, sizeof what, "{\"event\": \"submitted\", \"trial\": \"%s\"", trial->name);
        assert_int_equal(count_in(text, what), 1);
        snprintf(what, sizeof what, "{\"event\": \"end\", \"trial\": %zu,", i);
        assert_int_equal(count_in(text, what), 1);
        snprintf(starts, sizeof starts, "%zu_starts", i);
        char *witness = support_path(turns, of->together ? starts : "0_starts");
        char *lines = support_read_file(witness);
        assert_int_equal(count_in(lines, "\n"), of->together ? 1 : TRIALS);
        free(lines);
        free(witness);
    }
    free(turns);
    free(text);
    free(path);
    free(folder);
}

// F07, G13.
static void test_a_tuner_that_is_killed_goes_on(void **state)
{
    (void)state;
    static const struct {
        const char *name, *how;
        turn turns[3];
    } cases[] = {
        {"early", "together", {{"0_1", 1, NULL}, {"3_2", 1, NULL}, {"1_5", 1, NULL}}},
        {"late", "together", {{"3_4", 1, NULL}, {"1_8", 1, NULL}, {"0_16", 1, NULL}}},
        {"alone", "drawn", {{"0_2", 1, NULL}, {"0_starts", 3, NULL}, {"0_1", 5, NULL}}},
    };
    for (int i = 0; i < 3; i++) {
        trying of = resumed(cases[i].name, strcmp(cases[i].how, "together") == 0);
        troupe_sweep *sweep, *again;
        for (int kills = 0; kills < 3; kills++) {
            pid_t pid = start_tuner(of.name, cases[i].how);
            await_turn_of(&of, cases[i].turns[kills]);
            assert_int_equal(kill(pid, SIGKILL), 0);
            assert_int_equal(waitpid(pid, NULL, 0), pid);
        }
        troupe_must(tune(&of, &sweep));
        assert_done_once(&of, sweep);
        // One that has ended says the same once more.
        of.open = TROUPE_OPEN_RESUME;
        troupe_must(tune(&of, &again));
        assert_done_once(&of, again);
        char name[32];
        snprintf(name, sizeof name, "%s_here", of.name);
        compare(local(name, of.together), again);
        troupe_sweep_free(&sweep);
    }
}

// The first one's trials come to no end before the second has asked.
static void test_two_tuners_do_not_run_one_sweep(void **state)
{
    (void)state;
    trying of = resumed("busy", true);
    troupe_sweep *sweep;
    char *folder = folder_of(&of), *held = support_path(folder, "held");
    assert_int_equal(mkdir(folder, 0700), 0);
    support_write_file(held, "", 0);
    pid_t pid = start_tuner("busy", "together");
    await_turn_of(&of, (turn){.word = "0_starts", .count = 1});
    assert_int_equal(tune(&of, &sweep), TROUPE_BUSY);
    assert_null(sweep);
    assert_int_equal(unlink(held), 0);
    free(held);
    free(folder);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    troupe_must(tune(&of, &sweep));
    assert_done_once(&of, sweep);
    troupe_sweep_free(&sweep);
    of.seed = 8;
    assert_int_equal(tune(&of, &sweep), TROUPE_EXISTS);
    assert_non_null(strstr(troupe_last_error()->text, "it differs in seed"));
    of = (trying){"none", true, 7, TROUPE_SERVER_AUTO, TROUPE_OPEN_RESUME};
    assert_int_equal(tune(&of, &sweep), TROUPE_NOT_FOUND);
    of = (trying){"here", false, 7, TROUPE_SERVER_NONE, TROUPE_OPEN_RESUME};
    assert_int_equal(tune(&of, &sweep), TROUPE_OK); // It has ended, and is what it was.
    troupe_sweep_free(&sweep);
    of = (trying){"busy", true, 7, TROUPE_SERVER_NONE, TROUPE_OPEN_RESUME};
    assert_int_equal(tune(&of, &sweep), TROUPE_EXISTS);
    assert_non_null(strstr(troupe_last_error()->text, "its trials are a train server's"));
}

// The server may hear later than the tuner that a job has ended, and keeps it until then.
static bool one_is_kept(void *unused)
{
    char command[600], output[8000];
    (void)unused;
    run_tool("server gc --keep 1 --keys");
    snprintf(command, sizeof command, "%s jobs --all", support_setting("TROUPE_TOOL"));
    assert_int_equal(support_run(command, output, sizeof output), 0);
    return count_in(output, "descend_") == 1;
}

// Where the server has forgotten the keys too, nothing is trained once more.
static void test_a_sweep_that_is_forgotten_is_what_it_has_put_down(void **state)
{
    (void)state;
    trying of = resumed("forgotten", true);
    troupe_sweep *sweep, *again;
    int known = 0;
    troupe_must(tune(&of, &sweep));
    assert_done_once(&of, sweep);
    assert_true(support_wait_until(one_is_kept, NULL, SUPPORT_SOON_MS));
    troupe_must(tune(&of, &again));
    assert_done_once(&of, again);
    for (size_t i = 0; i < TRIALS; i++) {
        assert_int_equal(troupe_sweep_trial(again, i)->state, troupe_sweep_trial(sweep, i)->state);
        known += troupe_sweep_trial(again, i)->result != NULL;
    }
    assert_int_equal(known, 1);
    troupe_sweep_free(&again);
    troupe_sweep_free(&sweep);
}

static int clear(void **state)
{
    (void)state;
    real_server_end(top);
    return 0;
}

int main(int argc, char **argv)
{
    top = real_server_folder("TEST_SWEEP_TOP");
    storage = support_path(top, "runs");
    troupe_must(troupe_start(argc, argv, .cpus = 4)); // Does not return in a job.
    if (argc == 3)
        return act_tune(argv[1], argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_it_decides_as_one_of_a_program, real_server_begin),
        cmocka_unit_test_setup(test_a_server_that_is_killed_changes_no_decision, real_server_begin),
        cmocka_unit_test_setup(test_a_tuner_that_is_killed_goes_on, real_server_begin),
        cmocka_unit_test_setup(test_two_tuners_do_not_run_one_sweep, real_server_begin),
        cmocka_unit_test_setup(test_a_sweep_that_is_forgotten_is_what_it_has_put_down,
                               real_server_begin),
    };
    return cmocka_run_group_tests(tests, NULL, clear);
}
