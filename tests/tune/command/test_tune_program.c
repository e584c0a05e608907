// test_tune_program.c: sweeps over programs that know nothing of Troupe: shell scripts that print
// lines of JSON.
// timeout: 120
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <troupe.h>
#include <unistd.h>

static char *storage;

static char *text_of(const char *folder, const char *name)
{
    char *path = support_path(folder, name), *text = support_read_file(path);
    if (text == NULL)
        fail_msg("there is no %s", path);
    free(path);
    return text;
}

static const char square[] =
    "{\"space\": {\"x\": {\"uniform\": [0, 8]}, \"epochs\": 3, \"kind\": {\"choice\": [\"a b\", "
    "\"c\\\"d\"]}, \"depth\": {\"integer\": [1, 3], \"when\": {\"kind\": [\"a b\"]}}},"
    " \"metric\": \"loss\", \"goal\": \"minimize\", \"trials\": 6, \"seed\": 5}";

// What a trial is given comes as it was drawn, and the best is the best.
static void test_a_program_is_tuned(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    const char *const arguments[] = {"sh",
                                     "-c",
                                     "echo \"$1|$2|$3|$TROUPE_TRIAL|$TROUPE_CONFIG\" "
                                     ">\"$4/args_$TROUPE_TRIAL\"; i=0; echo hello\n"
                                     "while [ $i -lt {epochs} ]; do i=$((i + 1))\n"
                                     "echo '{\"epoch\": '$i', \"loss\": '$1'}'; done",
                                     "sh",
                                     "{x}",
                                     "{kind}",
                                     "-{depth}-",
                                     storage};
    troupe_must(troupe_tune_program(
        square, arguments, 8, &sweep, .name = "square",
        .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage, .cpus_per_rank = 0.5)));
    troupe_must(troupe_sweep_wait(sweep, TROUPE_FOREVER));
    assert_int_equal(troupe_sweep_count(sweep), 6);
    double least = (double)INFINITY;
    for (size_t i = 0; i < 6; i++) {
        const troupe_trial *trial = troupe_sweep_trial(sweep, i);
        assert_int_equal(trial->state, TROUPE_TRIAL_TERMINATED);
        assert_int_equal(trial->reports, 3);
        char name[32];
        snprintf(name, sizeof name, "args_%zu", i);
        char *given = text_of(storage, name), *rest;
        double x = strtod(given, &rest);
        assert_true(x == trial->best_metric);
        char trial_part[16];
        snprintf(trial_part, sizeof trial_part, "|%zu|{", i);
        assert_non_null(strstr(rest, trial_part));
        bool first = strstr(rest, "|a b|-") == rest;
        assert_true(first || strstr(rest, "|c\"d|--|") == rest); // It does not count there.
        least = fmin(least, x);
        free(given);
    }
    assert_true(troupe_sweep_best(sweep)->best_metric == least);
    assert_non_null(strstr(troupe_sweep_best_json(sweep), "\"epochs\": 3"));
    assert_non_null(strstr(troupe_sweep_best(sweep)->name, "sh_"));
    char *folder = support_path(storage, "square");
    char *record = text_of(folder, "trials.jsonl");
    assert_non_null(strstr(record, "\"command\": [\"sh\", \"-c\", "));
    free(record);
    free(folder);
    troupe_sweep_free(&sweep);
}

// One that goes on for ever is stopped by the scheduler at the report that it decides on, whether
// or not it heeds SIGTERM.
static void test_a_scheduler_stops_programs(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    static const char file[] =
        "{\"space\": {\"x\": {\"grid\": [1, 2, 3]}}, \"metric\": \"loss\", \"goal\": \"min\", "
        "\"concurrent\": 1, \"scheduler\": {\"asha\": {\"grace\": 1, \"reduction\": 2, "
        "\"limit\": 4}}, \"resources\": {\"cpus\": 0.5}}";
    static const char *const arguments[] = {"sh", "-c",
                                            "[ {x} -lt 3 ] || trap '' TERM\n"
                                            "while :; do echo '{\"loss\": {x}}'; sleep 0.02; done"};
    troupe_must(
        troupe_tune_program(file, arguments, 3, &sweep, .name = "forever",
                            .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage)));
    troupe_must(troupe_sweep_wait(sweep, TROUPE_FOREVER));
    assert_int_equal(troupe_sweep_count(sweep), 3);
    assert_int_equal(troupe_sweep_trial(sweep, 0)->state, TROUPE_TRIAL_TERMINATED);
    assert_int_equal(troupe_sweep_trial(sweep, 0)->reports, 4);
    for (size_t i = 1; i < 3; i++) {
        assert_int_equal(troupe_sweep_trial(sweep, i)->state, TROUPE_TRIAL_STOPPED);
        assert_int_equal(troupe_sweep_trial(sweep, i)->reports, 1);
    }
    troupe_sweep_free(&sweep);
}

// What is stopped from outside is stopped at once, though its next report may be far away.
static void test_a_sweep_stops_programs(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    static const char file[] = "{\"space\": {\"x\": {\"grid\": [1, 2]}}, \"metric\": \"loss\", "
                               "\"goal\": \"min\", \"resources\": {\"cpus\": 0.5}}";
    static const char *const arguments[] = {"sh", "-c",
                                            "[ {x} -lt 2 ] || trap '' TERM\n"
                                            "echo '{\"loss\": {x}}'; sleep 600; sleep 600"};
    troupe_must(
        troupe_tune_program(file, arguments, 3, &sweep, .name = "silent",
                            .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage)));
    while (troupe_sweep_count(sweep) < 2 || troupe_sweep_trial(sweep, 0)->reports < 1 ||
           troupe_sweep_trial(sweep, 1)->reports < 1)
        assert_int_equal(troupe_sweep_wait(sweep, 10), TROUPE_TIMED_OUT);
    troupe_sweep_stop(sweep);
    troupe_must(troupe_sweep_wait(sweep, 60000));
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(troupe_sweep_trial(sweep, i)->state, TROUPE_TRIAL_STOPPED);
        assert_int_equal(troupe_sweep_trial(sweep, i)->reports, 1);
    }
    troupe_sweep_free(&sweep);
}

// The points that a population's best had, once more.
static void test_a_population_is_replayed(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    static const char *const arguments[] = {"sh", "-c",
                                            "for i in 1 2 3 4; do echo '{\"loss\": {x}}'; done"};
    static const char file[] =
        "{\"space\": {\"x\": {\"uniform\": [0, 1]}}, \"metric\": \"loss\", \"goal\": \"min\", "
        "\"resources\": {\"cpus\": 0.5}, \"name\": \"%s\", \"trials\": %d, \"scheduler\": {\"%s\": "
        "{\"log\": \"%s/pbt.log\"%s}}%s}";
    char text[sizeof file + 600];
    const struct {
        const char *scheduler, *more, *first;
        int trials;
    } lives[] = {{"pbt", ", \"interval\": 2, \"synchronous\": true", "", 4},
                 {"pbt_replay", ", \"trial\": 0", ", \"first\": [{\"x\": 0.25}]", 1}};
    for (size_t i = 0; i < 2; i++) {
        snprintf(text, sizeof text, file, lives[i].scheduler, lives[i].trials, lives[i].scheduler,
                 storage, lives[i].more, lives[i].first);
        troupe_must(
            troupe_tune_program(text, arguments, 3, &sweep,
                                .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage)));
        troupe_must(troupe_sweep_wait(sweep, TROUPE_FOREVER));
        assert_int_equal(troupe_sweep_count(sweep), lives[i].trials);
        for (size_t j = 0; j < troupe_sweep_count(sweep); j++)
            assert_int_equal(troupe_sweep_trial(sweep, j)->state, TROUPE_TRIAL_TERMINATED);
        troupe_sweep_free(&sweep);
    }
}

// What the file says beside a space: the points to try first, each as often as it is repeated, and
// when it is enough; another sweep learns from its record.
static void test_a_file_says_how_it_is_searched(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    static const char *const arguments[] = {"sh", "-c", "echo '{\"loss\": {x}}'"};
    static const char file[] =
        "{\"space\": {\"x\": {\"uniform\": [0, 1]}}, \"metric\": \"loss\", \"goal\": \"min\", "
        "\"concurrent\": 1, \"trials\": 9, \"first\": [{\"x\": 0.75}, {\"x\": 0}], "
        "\"searcher\": {\"random\": {}, \"repeats\": 2}, \"target\": 0.0%s}";
    char text[sizeof file + 600];
    for (int life = 0; life < 2; life++) {
        char warm[600] = "";
        if (life == 1)
            snprintf(warm, sizeof warm, ", \"warm\": [\"%s/first_0/trials.jsonl\"]", storage);
        snprintf(text, sizeof text, file, warm);
        char name[24];
        snprintf(name, sizeof name, "first_%d", life);
        troupe_must(
            troupe_tune_program(text, arguments, 3, &sweep, .name = name,
                                .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage)));
        troupe_must(troupe_sweep_wait(sweep, TROUPE_FOREVER));
        assert_true(troupe_sweep_trial(sweep, 0)->best_metric == 0.75);
        assert_true(troupe_sweep_best(sweep)->best_metric == 0);
        assert_in_range(troupe_sweep_count(sweep), 2, 5);
        troupe_sweep_free(&sweep);
    }
    char *folder = support_path(storage, "first_1"), *record = text_of(folder, "trials.jsonl");
    assert_non_null(strstr(record, "\"event\": \"warm\""));
    free(record);
    free(folder);
}

static void test_constraints_hold(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    static const char *const arguments[] = {"sh", "-c", "echo '{\"loss\": {x}}'"};
    static const char file[] =
        "{\"space\": {\"x\": {\"uniform\": [0, 1]}, \"y\": {\"uniform\": [0, 1]}}, \"metric\": "
        "\"loss\", \"goal\": \"min\", \"trials\": 8, \"constraints\": [\"x > y\", \"x > 0.5\"]}";
    troupe_must(
        troupe_tune_program(file, arguments, 3, &sweep, .name = "constrained",
                            .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage)));
    troupe_must(troupe_sweep_wait(sweep, TROUPE_FOREVER));
    assert_int_equal(troupe_sweep_count(sweep), 8);
    for (size_t i = 0; i < 8; i++)
        assert_true(troupe_sweep_trial(sweep, i)->best_metric > 0.5);
    troupe_sweep_free(&sweep);
}

// Sweeps over scripts are told apart by these.
static void test_a_script_gives_its_name(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    static const char file[] = "{\"space\": {\"x\": {\"uniform\": [0, 1]}}, \"metric\": \"loss\", "
                               "\"goal\": \"min\", \"trials\": 1}",
                      text[] = "echo '{\"loss\": 1}'\n";
    char *script = support_path(storage, "learn.it.sh");
    support_write_file(script, text, sizeof text - 1);
    const char *const arguments[] = {"sh", script, "{x}"};
    troupe_must(
        troupe_tune_program(file, arguments, 3, &sweep,
                            .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage)));
    troupe_must(troupe_sweep_wait(sweep, TROUPE_FOREVER));
    assert_int_equal(strncmp(troupe_sweep_trial(sweep, 0)->name, "learn_it_", 9), 0);
    troupe_sweep_free(&sweep);
    char *folder = support_path(storage, "learn_it");
    assert_true(support_exists(folder));
    free(folder);
    free(script);
}

static void test_programs_that_are_no_use(void **state)
{
    (void)state;
    static const struct {
        const char *script, *wanted;
    } rows[] = {
        {"echo oops >&2; exit 3", "oops"},
        {"kill -9 $$", ""},
        {"printf '\\377\\000{\\200\\n\\001}'; head -c 70000 /dev/zero; echo; echo '{\"loss\"'", ""},
        {"exit 0", "it has ended without a report"},
        {"echo '{\"other\": 1}'", "lacks the sweep's metric loss"},
        {"echo '{\"loss\": \"low\"}'", "it has ended without a report"},
        {"printf '{'; for i in $(seq 40); do printf '\"m%d\": 1, ' $i; done; echo '\"loss\": 1}'",
         "lacks the sweep's metric loss; it has m1, m2"},
        {"printf '{'; for i in $(seq 40); do printf '\"m%d\": 1, ' $i; done; echo '\"loss\": 1}'",
         ", and no more numbers of a line are taken"},
        {"echo '{\"loss\": NaN}'", "was NaN in all of its 1 reports"},
    };
    static const char file[] = "{\"space\": {\"x\": {\"uniform\": [0, 1]}}, \"metric\": \"loss\", "
                               "\"goal\": \"min\", \"trials\": 1}";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        troupe_sweep *sweep;
        const char *const arguments[] = {"sh", "-c", rows[i].script};
        troupe_must(
            troupe_tune_program(file, arguments, 3, &sweep, .name = "useless",
                                .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage)));
        troupe_status status = troupe_sweep_wait(sweep, TROUPE_FOREVER);
        const troupe_trial *trial = troupe_sweep_trial(sweep, 0);
        assert_true(isnan(trial->best_metric));
        assert_null(troupe_sweep_best(sweep));
        if (strstr(trial->error, rows[i].wanted) == NULL)
            fail_msg("%s: %s", rows[i].script, trial->error);
        assert_int_equal(trial->state, TROUPE_TRIAL_ERROR);
        assert_int_equal(status, TROUPE_FAILED); // All have.
        troupe_sweep_free(&sweep);
    }
}

static void test_mistakes_are_named(void **state)
{
    (void)state;
    static const char good[] = "{\"space\": {\"x\": {\"uniform\": [0, 1]}}, \"metric\": \"loss\", "
                               "\"goal\": \"min\"}";
    static const char *const within[] = {"sh", "{x.uniform}"};
    static const char *const lacks[] = {"sh", "--rate={rate}"}, *const none[] = {"no-such-program"},
                             *const path[] = {"/etc/passwd"}, *const fine[] = {"true"},
                             *const empty[] = {""};
    const struct {
        const char *file;
        const char *const *arguments;
        size_t count;
        troupe_status status;
        const char *wanted;
    } rows[] = {
        {good, lacks, 2, TROUPE_INVALID, "has {rate}, which the space has not"},
        {good, within, 2, TROUPE_INVALID, "has {x.uniform}, which the space has not"},
        {"{\"space\": {\"trial\": 1}, \"metric\": \"a\", \"goal\": \"min\"}", fine, 1,
         TROUPE_INVALID, "a parameter of the space is called \"trial\""},
        {good, none, 1, TROUPE_NOT_FOUND, "there is no program 'no-such-program'"},
        {good, path, 1, TROUPE_NOT_FOUND, "/etc/passwd"},
        {good, empty, 1, TROUPE_INVALID, "argument 0 is empty"},
        {good, fine, 0, TROUPE_INVALID, "there are 0 arguments"},
        {good, NULL, 1, TROUPE_INVALID, "arguments"},
        {"{", fine, 1, TROUPE_MALFORMED, ""},
        {"{\"space\": {\"x\": {\"uniform\": [1, 0]}}, \"metric\": \"a\", \"goal\": \"min\"}", fine,
         1, TROUPE_INVALID, "x"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        troupe_sweep *sweep = (troupe_sweep *)&sweep;
        troupe_status status = troupe_tune_program(rows[i].file, rows[i].arguments, rows[i].count,
                                                   &sweep, .scheduler = troupe_asha(.limit = 3));
        if (status != rows[i].status || strstr(troupe_last_error()->text, rows[i].wanted) == NULL)
            fail_msg("row %zu: %s, %s", i, troupe_status_name(status), troupe_last_error()->text);
        assert_null(sweep);
    }
    troupe_sweep *sweep;
    assert_int_equal(troupe_tune_program(good, fine, 1, &sweep, .metric = "acc"), TROUPE_INVALID);
    assert_int_equal(troupe_tune_program(NULL, fine, 1, &sweep), TROUPE_INVALID);
    assert_int_equal(troupe_tune_program(good, fine, 1, NULL), TROUPE_INVALID);
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv));
    storage = support_directory_make();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_program_is_tuned),
        cmocka_unit_test(test_a_scheduler_stops_programs),
        cmocka_unit_test(test_a_sweep_stops_programs),
        cmocka_unit_test(test_a_population_is_replayed),
        cmocka_unit_test(test_a_file_says_how_it_is_searched),
        cmocka_unit_test(test_constraints_hold),
        cmocka_unit_test(test_a_script_gives_its_name),
        cmocka_unit_test(test_programs_that_are_no_use),
        cmocka_unit_test(test_mistakes_are_named),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    support_directory_remove(storage);
    troupe_status status = troupe_stop();
    return failed != 0 ? failed : (int)status;
}
