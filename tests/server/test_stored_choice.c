// test_stored_choice.c: whose the job of a stored program is: the train server's that who asks has
// chosen, whatever the environment and main of that program say; and a program that hangs.
// timeout: 120
// cost: 10
#include "pushed.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

// Files: while they are there the program chooses for itself, and waits.
static char *alone, *waits;

static int start(void **state)
{
    (void)state;
    (void)pushed_begin();
    alone = support_path(top, "alone");
    waits = support_path(top, "waits");
    setenv("STORED_ALONE", alone, 1);
    setenv("STORED_WAITS", waits, 1);
    unsetenv("TROUPE_SERVER");
    // The server and its gateway are started by a job.
    setenv("TROUPE_IN_JOB", "7", 1);
    serve_jobs(4);
    unsetenv("TROUPE_IN_JOB");
    troupe_must(troupe_start(0, NULL));
    return 0;
}

static int stop(void **state)
{
    (void)state;
    (void)tool("server stop --jobs", output, sizeof output);
    (void)troupe_stop();
    free(alone), free(waits);
    pushed_end();
    return 0;
}

static int choose_again(void **state)
{
    (void)state;
    (void)unlink(alone);
    (void)unlink(waits);
    unsetenv("TROUPE_IN_JOB");
    return 0;
}

static const troupe_train_options *by_server(const char *name)
{
    static troupe_train_options options;
    options = (troupe_train_options){.size = sizeof options,
                                     .storage = storage,
                                     .name = name,
                                     .key = name,
                                     .console = TROUPE_CONSOLE_OFF,
                                     .server = TROUPE_SERVER_AUTO};
    return &options;
}

static void await_success(troupe_job **job)
{
    troupe_result *result;
    troupe_must(troupe_job_wait(*job, SUPPORT_SOON_MS, &result));
    assert_string_equal(troupe_result_error(result), "");
    troupe_result_free(&result);
    troupe_must(troupe_job_leave(job));
}

// F21.
static void test_a_gateway_that_a_job_started_submits(void **state)
{
    (void)state;
    troupe_job *job;
    int code = post_job("{\"model\": \"slope\", \"key\": \"web\"}", output, sizeof output);
    if (code != 202 || strstr(output, "\"job\":0,"))
        support_fail_output(output, "expected 202 and the number of a job, got %d", code);
    troupe_must(troupe_job_find("web", &job));
    await_success(&job);
}

static void test_a_job_submits_to_the_server_that_it_asks_for(void **state)
{
    (void)state;
    troupe_job *job, *found;
    setenv("TROUPE_IN_JOB", "7", 1);
    troupe_must(troupe_submit_stored("slope", NULL, NULL, &job, .train = by_server("below")));
    assert_true(troupe_job_number(job) > 0);
    unsetenv("TROUPE_IN_JOB");
    troupe_must(troupe_job_find("below", &found));
    assert_int_equal(troupe_job_number(found), troupe_job_number(job));
    troupe_must(troupe_job_leave(&found));
    await_success(&job);
}

// Nor is a job said to be there that is nowhere.
static void test_a_program_that_chooses_for_itself_is_refused(void **state)
{
    (void)state;
    troupe_job *job = NULL;
    support_write_file(alone, "", 0);
    said(troupe_submit_stored("slope", NULL, NULL, &job, .train = by_server("alone")),
         TROUPE_UNSUPPORTED,
         "the program of slope@1 has not submitted its job to the train server of ");
    assert_null(job);
    int code = post_job("{\"model\": \"slope\", \"name\": \"other\"}", output, sizeof output);
    if (code != 501 || !strstr(output, "has not submitted its job to the train server of "))
        support_fail_output(output, "expected 501 and why, got %d", code);
}

// ---- a program that hangs

static atomic_int begun, answered;

static void *post(void *user)
{
    char text[1000];
    atomic_fetch_add(&begun, 1);
    *(int *)user = post_job("{\"model\": \"slope\"}", text, sizeof text);
    atomic_fetch_add(&answered, 1);
    return NULL;
}

static bool is_there(void *path)
{
    return support_exists(path);
}

static bool both_begun(void *unused)
{
    (void)unused;
    return atomic_load(&begun) == 2;
}

// However many submissions wait for programs: the page, REST and stop go on.
static void test_a_program_that_hangs_keeps_nobody_else(void **state)
{
    (void)state;
    enum { ASKED = 50 };
    char *said_so = support_path(top, "waits.waits");
    int codes[2];
    pthread_t threads[2];
    support_write_file(waits, "", 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, post, &codes[i]), 0);
    assert_true(support_wait_until(is_there, said_so, SUPPORT_SOON_MS));
    assert_true(support_wait_until(both_begun, NULL, SUPPORT_SOON_MS));
    for (int i = 0; i < ASKED; i++) {
        reply got = ask((asked){"GET", "/api/v1/server", NULL, NULL, NULL, token});
        assert_int_equal(got.code, 200);
        reply_free(&got);
    }
    assert_int_equal(atomic_load(&answered), 0);
    assert_int_equal(unlink(waits), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(codes[i], 202);
    }
    free(said_so);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_gateway_that_a_job_started_submits),
        cmocka_unit_test_teardown(test_a_job_submits_to_the_server_that_it_asks_for, choose_again),
        cmocka_unit_test_teardown(test_a_program_that_chooses_for_itself_is_refused, choose_again),
        cmocka_unit_test_teardown(test_a_program_that_hangs_keeps_nobody_else, choose_again),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
