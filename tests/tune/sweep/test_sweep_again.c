// test_sweep_again.c: sweeps of a train server that go on, over a Train that a thread plays.
#include "fake_train.h"

#include <runtime/base/memory.h>
#include <stdatomic.h>
#include <unistd.h>

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

static void test_what_is_not_there_does_not_go_on(void **state)
{
    (void)state;
    static const char *const names[] = {"nowhere", "empty"};
    char *path = journal_of("empty");
    fake_open(2);
    for (size_t i = 0; i < 2; i++) {
        troupe_sweep *sweep = NULL;
        assert_int_equal(SWEEP(&sweep, .trials = 1, .name = names[i], .open = TROUPE_OPEN_RESUME),
                         TROUPE_NOT_FOUND);
        const char *text = troupe_last_error()->text;
        assert_non_null(strstr(text, "there is no sweep of that name to go on with: "));
        assert_non_null(strstr(text, names[i]));
        assert_null(sweep);
    }
    fake_shut();
    free(path);
}

// ---- what an earlier life has put down

static troupe_status again_in(troupe_sweep **sweep, const char *where, const char *name, int count,
                              int concurrent)
{
    return SWEEP(sweep, .trials = count, .concurrent = concurrent, .name = name,
                 .server = TROUPE_SERVER_AUTO, .open = TROUPE_OPEN_RESUME_OR_NEW,
                 .train = TROUPE_OPTIONS(troupe_train_options, .storage = where));
}

// What a sweep of that name puts down, up to the first line that has `last`. The caller frees it.
static char *learn(const char *name, int count, const char *last)
{
    char *other = support_directory_make(), path[600];
    troupe_sweep *sweep;
    fake_open(2);
    ok(again_in(&sweep, other, name, count, 1));
    snprintf(path, sizeof path, "%s/%s/trials.jsonl", other, name);
    char *text = support_read_file(path), *end = strstr(text, last);
    assert_non_null(end);
    strchr(end, '\n')[1] = '\0';
    troupe_sweep_free(&sweep);
    fake_shut();
    support_directory_remove(other);
    return text;
}

// Replaces the first `what` in a text of the caller's.
static char *changed(char *text, const char *what, const char *with)
{
    char *at = strstr(text, what), *made = malloc(strlen(text) + strlen(with) + 1);
    assert_non_null(at);
    sprintf(made, "%.*s%s%s", (int)(at - text), text, with, at + strlen(what));
    free(text);
    return made;
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
    return again_in(sweep, storage, name, count, 0);
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
    char *path = journal_of("gone"), *text = learn("gone", 2, "\"number\": 1,");
    troupe_sweep *sweep;
    write_text(path, text);
    fake_open(2);
    ok(again(&sweep, "gone", 2));
    assert_int_equal(fake.submitted, 1);
    const troupe_trial *trial = troupe_sweep_trial(sweep, 0);
    assert_int_equal(trial->state, TROUPE_TRIAL_ERROR);
    assert_int_equal(trial->reports, 1);
    assert_non_null(strstr(trial->error, "does not know its job any more"));
    assert_true(trial->best_metric == fake_quadratic(trial->config, 1));
    assert_int_equal(troupe_sweep_trial(sweep, 1)->state, TROUPE_TRIAL_TERMINATED);
    troupe_sweep_free(&sweep);
    fake_shut();
    char *now = support_read_file(path);
    assert_int_equal(strncmp(now, text, strlen(text)), 0);
    assert_int_equal(strncmp(now + strlen(text), "{\"event\": \"end\", \"trial\": 0,", 28), 0);
    assert_non_null(strstr(now + strlen(text), "\"state\": \"ERROR\", \"reports\": 1,"));
    free(now);
    free(text);
    free(path);
}

// It was killed between what the study had put down and the submission's line.
static void test_a_trial_that_was_not_submitted_is_so_now(void **state)
{
    (void)state;
    char *path = journal_of("early"), *text = learn("early", 2, "\"suggest\"");
    troupe_sweep *sweep;
    write_text(path, text);
    fake_open(2);
    ok(again(&sweep, "early", 2));
    assert_int_equal(fake.submitted, 2);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(troupe_sweep_trial(sweep, i)->state, TROUPE_TRIAL_TERMINATED);
    troupe_sweep_free(&sweep);
    fake_shut();
    free(text);
    free(path);
}

static void test_a_sweep_goes_on_with_more_trials(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    fake_open(2);
    ok(again(&sweep, "more", 2));
    troupe_sweep_free(&sweep);
    fake_shut();
    fake_open(2);
    ok(again(&sweep, "more", 5));
    assert_int_equal(fake.submitted, 3);
    assert_int_equal(troupe_sweep_count(sweep), 5);
    troupe_sweep_free(&sweep);
    fake_shut();
    fake_open(2);
    assert_int_equal(again(&sweep, "more", 4), TROUPE_INVALID); // There are five.
    assert_null(sweep);
    fake_shut();
}

static void test_a_reopening_that_is_refused_changes_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *what, *with;
        troupe_status finding, status;
        const char *said;
    } cases[] = {
        {"", "", TROUPE_TIMED_OUT, TROUPE_TIMED_OUT, "cannot be looked for"},
        {"", "", TROUPE_NO_MEMORY, TROUPE_NO_MEMORY, "cannot be looked for"},
        {"\"config\": {\"rate\": ", "\"config\": {\"rate\": 2", TROUPE_OK, TROUPE_EXISTS,
         "submitted with the config {\"rate\": 2"},
        {"/state/of/fake", "/state/else", TROUPE_OK, TROUPE_EXISTS, "/state/else"},
        {"\"epochs\": 9", "\"epochs\": 8", TROUPE_OK, TROUPE_EXISTS, "epochs"},
        {"\"event\": \"suggest\"", "\"event\": \"proposed\"", TROUPE_OK, TROUPE_CORRUPT,
         "none that says that it has begun"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *path = journal_of("refused"), *text = learn("refused", 1, "\"submitted\"");
        troupe_sweep *sweep;
        if (cases[i].what[0] != '\0')
            text = changed(text, cases[i].what, cases[i].with);
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
        free(text);
        free(path);
    }
}

// More trials are put down once all jobs are found, and not before.
static void test_a_new_number_is_put_down_when_all_are_found(void **state)
{
    (void)state;
    char *path = journal_of("number"), *text = learn("number", 2, "\"submitted\"");
    troupe_sweep *sweep;
    write_text(path, text);
    fake_open(2);
    fake.finding = TROUPE_TIMED_OUT;
    assert_int_equal(again(&sweep, "number", 5), TROUPE_TIMED_OUT);
    fake_shut();
    assert_is(path, text);
    fake_open(2);
    ok(again(&sweep, "number", 5));
    assert_int_equal(troupe_sweep_count(sweep), 5);
    troupe_sweep_free(&sweep);
    fake_shut();
    char *now = support_read_file(path);
    assert_int_equal(strncmp(now, text, strlen(text)), 0);
    assert_non_null(strstr(now, "{\"event\": \"extend\", \"trials\": 5}"));
    free(now);
    free(text);
    free(path);
}

// It was given up at its first report, and stays so, whatever the second one had.
static void test_a_trial_that_was_given_up_stays_so(void **state)
{
    (void)state;
    static const char reports[] =
        "{\"event\": \"reported\", \"trial\": \"%s\", \"number\": 1, \"elapsed_s\": 1, "
        "\"metrics\": {\"other\": 0.5}}\n"
        "{\"event\": \"reported\", \"trial\": \"%s\", \"number\": 2, \"elapsed_s\": 1, "
        "\"metrics\": {\"loss\": 0.5}}\n";
    char lines[600], trial[64], *path = journal_of("lacks");
    char *text = learn("lacks", 1, "\"submitted\"");
    troupe_sweep *sweep;
    assert_int_equal(sscanf(strstr(text, "\"trial\": \"") + 10, "%63[^\"]", trial), 1);
    snprintf(lines, sizeof lines, reports, trial, trial);
    text = changed(text, strrchr(text, '}'), "}\n");
    char *whole = malloc(strlen(text) + sizeof lines);
    sprintf(whole, "%s%s", text, lines);
    write_text(path, whole);
    fake_open(2);
    assert_int_equal(again(&sweep, "lacks", 1), TROUPE_FAILED);
    assert_non_null(strstr(troupe_last_error()->text, "report 1 lacks the sweep's metric loss"));
    assert_int_equal(troupe_sweep_trial(sweep, 0)->reports, 2);
    troupe_sweep_free(&sweep);
    fake_shut();
    free(whole);
    free(text);
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

static atomic_int looks;

static void counting_status(troupe_job *job, troupe_job_status *status)
{
    atomic_fetch_add(&looks, 1);
    fake_status(job, status);
}

static bool is_refused(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&fake.lock);
    bool refused = fake.submitted > 1;
    pthread_mutex_unlock(&fake.lock);
    return refused;
}

// A trial is to be submitted again, and nothing is begun: the controller sleeps meanwhile.
static void test_what_may_not_begin_is_not_waited_for(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    trp_sweep_port port = fake_port;
    port.status = counting_status;
    fake_open(1);
    fake.lockstep = true; // The first one makes a report, and has no answer.
    fake.refuse_from = 1;
    fake.refuse_until = FAKE_JOBS_MAX;
    fake.refusal = TROUPE_TIMED_OUT;
    ok(trp_sweep_begin(
        &port, &fit, space, ROWS, &sweep,
        &(troupe_tune_options){.size = sizeof(troupe_tune_options),
                               .metric = "loss",
                               .goal = TROUPE_MINIMIZE,
                               .trials = 2,
                               .concurrent = 2,
                               .search = TROUPE_SEARCH_RANDOM,
                               .server = TROUPE_SERVER_AUTO,
                               .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage)}));
    assert_true(support_wait_until(is_refused, NULL, SUPPORT_SOON_MS));
    troupe_sweep_pause(sweep);
    usleep(500000); // It would have been submitted again in the first tenth of this or so.
    int before = atomic_load(&looks);
    usleep(200000);
    assert_in_range(atomic_load(&looks) - before, 0, 50);
    troupe_sweep_stop(sweep);
    ok(troupe_sweep_wait(sweep, SUPPORT_SOON_MS));
    troupe_sweep_free(&sweep);
    fake_shut();
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
        cmocka_unit_test(test_what_is_not_there_does_not_go_on),
        cmocka_unit_test(test_what_has_ended_is_not_done_again),
        cmocka_unit_test(test_a_trial_that_its_server_does_not_know_is_an_error),
        cmocka_unit_test(test_a_reopening_that_is_refused_changes_nothing),
        cmocka_unit_test(test_a_trial_that_was_not_submitted_is_so_now),
        cmocka_unit_test(test_a_sweep_goes_on_with_more_trials),
        cmocka_unit_test(test_a_new_number_is_put_down_when_all_are_found),
        cmocka_unit_test(test_a_trial_that_was_given_up_stays_so),
        cmocka_unit_test(test_what_passes_is_waited_for),
        cmocka_unit_test(test_what_may_not_begin_is_not_waited_for),
        cmocka_unit_test(test_another_job_with_a_trials_key_ends_the_sweep_and_leaves_its_jobs),
    };
    return cmocka_run_group_tests(tests, make_storage, remove_storage);
}
