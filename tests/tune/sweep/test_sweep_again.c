// test_sweep_again.c: sweeps of a train server that go on, over a Train that a thread plays.
#include "fake_train.h"

#include <runtime/base/memory.h>

static const char first[] =
    "{\"event\": \"sweep\", \"trainer\": \"fit\", \"metric\": \"loss\", \"goal\": \"minimize\", "
    "\"trials\": 1, \"seed\": 1, \"scheduler\": \"FIFO\", \"id\": \"0123\"}\n";

static char *journal_of(const char *name)
{
    char *folder = support_path(storage, name), *path = support_path(folder, "trials.jsonl");
    (void)mkdir(folder, 0777);
    free(folder);
    return path;
}

static void test_no_failing_allocation_takes_the_journal_away(void **state)
{
    (void)state;
    char *path = journal_of("scarce"), *text = NULL;
    troupe_status status;
    int failures = 0;
    support_write_file(path, first, strlen(first));
    do {
        troupe_sweep *sweep = NULL;
        fake_open(2);
        trp_memory_fail_after(failures);
        status = SWEEP(&sweep, .trials = 1, .name = "scarce", .server = TROUPE_SERVER_AUTO,
                       .open = TROUPE_OPEN_RESUME);
        trp_memory_fail_after(-1);
        if (status != TROUPE_OK) // A server's job goes on.
            assert_int_equal(fake.left, fake.submitted);
        free(text);
        text = support_read_file(path);
        assert_non_null(text);
        assert_int_equal(strncmp(text, first, strlen(first)), 0);
        troupe_sweep_free(&sweep);
        fake_shut();
    } while (strcmp(text, first) == 0 && ++failures < 1000);
    assert_in_range(failures, 10, 999);
    free(text);
    free(path);
}

// ---- what an earlier life has put down

static const char submitted[] =
    "{\"event\": \"submitted\", \"trial\": \"%s_00000\", \"config\": %s}\n";
static const char report[] =
    "{\"event\": \"report\", \"trial\": \"%s_00000\", \"number\": %d, \"elapsed_s\": 1, "
    "\"metrics\": {\"%s\": 0.5}}\n";

// Names of trials begin so; *config becomes trial 0's, as JSON. From a sweep of the same name.
static void learn(const char *name, char trials[64], char config[400])
{
    char *other = support_directory_make(), path[600];
    troupe_sweep *sweep;
    fake_open(2);
    ok(SWEEP(&sweep, .trials = 1, .name = name,
             .train = TROUPE_OPTIONS(troupe_train_options, .storage = other)));
    snprintf(trials, 64, "%s", troupe_sweep_trial(sweep, 0)->name);
    *strrchr(trials, '_') = '\0';
    snprintf(path, sizeof path, "%s/%s/%s_00000/params.json", other, name, trials);
    char *text = support_read_file(path);
    snprintf(config, 400, "%.*s", (int)strcspn(text, "\n"), text);
    free(text);
    troupe_sweep_free(&sweep);
    fake_shut();
    support_directory_remove(other);
}

static void write_text(const char *path, const char *text)
{
    support_write_file(path, text, strlen(text));
}

static void assert_is(const char *path, const char *expected)
{
    char *text = support_read_file(path);
    assert_string_equal(text, expected);
    free(text);
}

static troupe_status again(troupe_sweep **sweep, const char *name, int count)
{
    return SWEEP(sweep, .trials = count, .name = name, .server = TROUPE_SERVER_AUTO,
                 .open = TROUPE_OPEN_RESUME_OR_NEW);
}

static void test_what_has_ended_is_not_done_again(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    char *path = journal_of("ended");
    fake_open(2);
    ok(again(&sweep, "ended", 3));
    assert_int_equal(fake.submitted, 3);
    troupe_sweep_free(&sweep);
    fake_shut();
    char *text = support_read_file(path);
    assert_non_null(strstr(text, "\"server\": \"/state/of/fake\""));
    fake_open(2); // One that has forgotten all of them.
    ok(again(&sweep, "ended", 3));
    assert_int_equal(fake.submitted, 0);
    for (size_t i = 0; i < 3; i++) {
        const troupe_trial *trial = troupe_sweep_trial(sweep, i);
        assert_int_equal(trial->state, TROUPE_TRIAL_TERMINATED);
        assert_int_equal(trial->reports, 9);
        assert_null(trial->result);
    }
    troupe_sweep_free(&sweep);
    fake_shut();
    assert_is(path, text);
    free(text);
    free(path);
}

static void test_a_trial_that_its_server_does_not_know_is_an_error(void **state)
{
    (void)state;
    char trials[64], config[400], text[2000], end[200], *path = journal_of("gone");
    troupe_sweep *sweep;
    learn("gone", trials, config);
    snprintf(text, sizeof text, "%.*s2%s", (int)(strstr(first, "1, \"seed\"") - first), first,
             strstr(first, ", \"seed\""));
    snprintf(text + strlen(text), sizeof text - strlen(text), submitted, trials, config);
    snprintf(text + strlen(text), sizeof text - strlen(text), report, trials, 1, "loss");
    write_text(path, text);
    fake_open(2);
    ok(again(&sweep, "gone", 2));
    assert_int_equal(fake.submitted, 1);
    const troupe_trial *trial = troupe_sweep_trial(sweep, 0);
    assert_int_equal(trial->state, TROUPE_TRIAL_ERROR);
    assert_non_null(strstr(trial->error, "does not know its job any more"));
    assert_true(trial->best_metric == 0.5);
    assert_int_equal(troupe_sweep_trial(sweep, 1)->state, TROUPE_TRIAL_TERMINATED);
    troupe_sweep_free(&sweep);
    fake_shut();
    char *now = support_read_file(path);
    snprintf(end, sizeof end,
             "{\"event\": \"end\", \"trial\": \"%s_00000\", \"state\": \"ERROR\", "
             "\"reports\": 1,",
             trials);
    assert_int_equal(strncmp(now, text, strlen(text)), 0);
    assert_non_null(strstr(now, end));
    free(now);
    free(path);
}

static void test_a_reopening_that_is_refused_changes_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *member, *config;
        troupe_status finding, status;
        const char *said;
    } cases[] = {
        {"", NULL, TROUPE_TIMED_OUT, TROUPE_TIMED_OUT, "cannot be looked for"},
        {"", NULL, TROUPE_NO_MEMORY, TROUPE_NO_MEMORY, "cannot be looked for"},
        {"", "{\"rate\": 2}", TROUPE_OK, TROUPE_EXISTS, "submitted with the config {\"rate\": 2}"},
        {", \"server\": \"/state/else\"", NULL, TROUPE_OK, TROUPE_EXISTS, "/state/else"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char trials[64], config[400], text[2000], *path = journal_of("refused");
        troupe_sweep *sweep;
        learn("refused", trials, config);
        snprintf(text, sizeof text, "%.*s%s}\n", (int)(strchr(first, '}') - first), first,
                 cases[i].member);
        snprintf(text + strlen(text), sizeof text - strlen(text), submitted, trials,
                 cases[i].config != NULL ? cases[i].config : config);
        write_text(path, text);
        fake_open(2);
        fake.finding = cases[i].finding;
        assert_int_equal(again(&sweep, "refused", 1), cases[i].status);
        if (strstr(troupe_last_error()->text, cases[i].said) == NULL)
            fail_msg("%s", troupe_last_error()->text);
        assert_null(sweep);
        assert_int_equal(fake.submitted, 0);
        fake_shut();
        assert_is(path, text);
        free(path);
    }
}

static void test_a_trial_that_is_gone_is_decided_on_as_before(void **state)
{
    (void)state;
    char trials[64], config[400], text[2000], *path = journal_of("lacks");
    troupe_sweep *sweep;
    bool freed;
    learn("lacks", trials, config);
    snprintf(text, sizeof text, "%s", first);
    memcpy(strstr(text, "FIFO"), "turn", 4);
    snprintf(text + strlen(text), sizeof text - strlen(text), submitted, trials, config);
    snprintf(text + strlen(text), sizeof text - strlen(text), report, trials, 1, "other");
    snprintf(text + strlen(text), sizeof text - strlen(text), report, trials, 2, "loss");
    write_text(path, text);
    fake_open(2);
    troupe_scheduler *scheduler =
        script(0, 0, TROUPE_ACT_STOP, &freed); // Not to be asked about it.
    scheduler->describe = "turn";
    assert_int_equal(SWEEP(&sweep, .trials = 1, .name = "lacks", .server = TROUPE_SERVER_AUTO,
                           .open = TROUPE_OPEN_RESUME, .scheduler = scheduler),
                     TROUPE_FAILED);
    assert_true(freed);
    troupe_sweep_free(&sweep);
    fake_shut();
    free(path);
}

// ---- what a train server refuses

static void test_what_passes_is_waited_for(void **state)
{
    (void)state;
    static const troupe_status moments[] = {TROUPE_TIMED_OUT, TROUPE_NO_SPACE, TROUPE_STOPPED,
                                            TROUPE_PEER_LOST};
    for (int i = 0; i < 8; i++) {
        char name[32], *path, *text;
        troupe_sweep *sweep;
        snprintf(name, sizeof name, "later%d", i);
        fake_open(2);
        fake.refuse_from = i < 4 ? 0 : 2;
        fake.refuse_until = fake.refuse_from + 2;
        fake.refusal = moments[i % 4];
        ok(again(&sweep, name, 4));
        assert_int_equal(fake.submitted, 6);
        for (size_t trial = 0; trial < 4; trial++) {
            assert_int_equal(troupe_sweep_trial(sweep, trial)->state, TROUPE_TRIAL_TERMINATED);
            assert_int_equal(troupe_sweep_trial(sweep, trial)->reports, 9);
        }
        troupe_sweep_free(&sweep);
        fake_shut();
        path = journal_of(name);
        text = support_read_file(path);
        assert_null(strstr(text, "\"state\": \"ERROR\""));
        free(text);
        free(path);
    }
}

static void test_another_job_with_a_trials_key_ends_the_sweep_and_leaves_its_jobs(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    char *path = journal_of("other"), *text;
    fake_open(2);
    fake.refuse_from = 1;
    fake.refuse_until = 2;
    fake.refusal = TROUPE_EXISTS;
    assert_int_equal(again(&sweep, "other", 4), TROUPE_EXISTS);
    assert_null(sweep);
    assert_int_equal(fake.left, 1);
    fake_shut();
    text = support_read_file(path);
    assert_null(strstr(text, "\"event\": \"end\""));
    free(text);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_failing_allocation_takes_the_journal_away),
        cmocka_unit_test(test_what_has_ended_is_not_done_again),
        cmocka_unit_test(test_a_trial_that_its_server_does_not_know_is_an_error),
        cmocka_unit_test(test_a_reopening_that_is_refused_changes_nothing),
        cmocka_unit_test(test_a_trial_that_is_gone_is_decided_on_as_before),
        cmocka_unit_test(test_what_passes_is_waited_for),
        cmocka_unit_test(test_another_job_with_a_trials_key_ends_the_sweep_and_leaves_its_jobs),
    };
    return cmocka_run_group_tests(tests, make_storage, remove_storage);
}
