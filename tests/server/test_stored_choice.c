// test_stored_choice.c: whose the job of a stored program is: the train server's that who asks has
// chosen, whatever the environment and main of that program say.
// timeout: 120
// cost: 10
#include "pushed.h"

#include <sys/stat.h>

static char *alone; // A file: while it is there the program chooses for itself.

static int start(void **state)
{
    (void)state;
    (void)pushed_begin();
    alone = support_path(top, "alone");
    setenv("STORED_ALONE", alone, 1);
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
    free(alone);
    pushed_end();
    return 0;
}

static int choose_again(void **state)
{
    (void)state;
    (void)unlink(alone);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_gateway_that_a_job_started_submits),
        cmocka_unit_test_teardown(test_a_job_submits_to_the_server_that_it_asks_for, choose_again),
        cmocka_unit_test_teardown(test_a_program_that_chooses_for_itself_is_refused, choose_again),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
