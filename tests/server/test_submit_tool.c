// test_submit_tool.c: `troupe submit` and `troupe logs`: a program of any kind as a job of the
// train server, from the shell.
// timeout: 120
#include "shell_tool.h"

static int start(void **state)
{
    (void)state;
    open_folder();
    return 0;
}

static void test_before_the_first_server_there_are_no_jobs(void **state)
{
    (void)state;
    expect(0, "$T jobs --all", "no jobs");
    expect(1, "$T jobs 4711", "there is no job 4711 in ");
}

// F02, F07, F13.
static void test_a_program_is_done_and_its_output_kept(void **state)
{
    (void)state;
    expect(0,
           "$T submit --follow --json --key night --name night --storage runs -n 2 -- "
           "sh -c 'echo hello of $RANK from $(pwd); echo an error >&2; echo last; printf end'",
           "{\"job\": 1, \"key\": \"night\", \"run\": \"");
    assert_non_null(strstr(output, "/runs/night\"}"));
    // Again it is the same job, which has ended.
    expect(0,
           "$T submit --follow --key night --name night --storage runs -n 2 -- "
           "sh -c 'echo hello of $RANK from $(pwd); echo an error >&2; echo last; printf end'",
           "job 1, key night: /");
    expect(1, "$T submit --key night --name night --storage runs -n 1 -- sh -c true", "differs in");
    expect(0, "$T server stop", "");
    expect(0, "$T logs night", "(rank 1) hello of 1 from /"); // Without a server.
    assert_non_null(strstr(output, "(rank 0) hello of 0 from /"));
    assert_non_null(strstr(output, "(rank 0) an error"));
    assert_non_null(strstr(output, "(rank 1) last"));
    expect(0, "$T logs -f --rank 1 1", "(rank 1) hello of 1");
    assert_null(strstr(output, "(rank 0)"));
    expect(1, "$T logs --rank 7 night", "rank 7 has no log in /");
    expect(0, "$T logs --json --rank 1 night", "\n{\"rank\": 1, \"text\": \"hello of 1 from /");
    expect(0, "$T logs --runner night", ""); // What ranks print is in their files alone.
    assert_null(strstr(output, "hello of"));
    assert_null(strstr(output, "an error"));
}

static void test_a_failure_is_told(void **state)
{
    (void)state;
    expect(1, "$T submit --follow --name fails --storage runs -- sh -c 'echo oh no; exit 3'",
           "troupe submit: ");
    assert_non_null(strstr(output, "the run is at "));
    // In the words of who has typed it.
    expect(0, "$T jobs --all", "it was not restarted: --restarts N allows N restarts from");
    assert_non_null(strstr(output, "; to go on with it: troupe submit --resume --storage '/"));
    assert_non_null(strstr(output, "/runs' --name 'fails', with"));
    assert_null(strstr(output, "troupe_train"));
    expect(2, "$T submit -n 2 --min-ranks 4 --storage runs -- true",
           "--min-ranks is 4: expected at most 2, the --ranks");
}

static void test_what_is_wrong_is_said(void **state)
{
    (void)state;
    expect(2, "$T submit", "there is no program");
    expect(2, "$T submit --priority high -- true", "--priority is \"high\"");
    expect(2, "$T submit --start-at later -- true", "--start-at is \"later\"");
    expect(2, "$T train --key k -- true", "unrecognized option");
    expect(0, "$T submit --help", "--start-at TIME");
    assert_non_null(strstr(output, "Ends with 0: the job was taken"));
    expect(1, "$T logs noon", "there is no job with the key 'noon'");
    expect(1, "$T logs 4711", "there is no job 4711");
    expect(2, "$T logs", "usage: troupe logs");
    expect(2, "$T logs --rank x 1", "--rank is \"x\"");
    expect(2, "$T logs --rank 1024 1", "expected a number from 0 to 1023");
}

static void test_a_program_that_is_missing(void **state)
{
    (void)state;
    expect(1, "$T submit --name none --storage runs -- ./is_not_there", "is_not_there");
    assert_null(strstr(output, "job "));
    expect(1, "$T submit --name none --storage runs -- is_not_there_either", "is_not_there_either");
    expect(1, "$T submit --name none --storage runs --folder nowhere -- true", "nowhere");
    char *run = support_path(top, "runs/none");
    assert_false(support_exists(run)); // Nothing is left of them.
    free(run);
}

// What is followed ends where the server has put the folder aside.
static void test_logs_of_a_job_that_is_lost(void **state)
{
    (void)state;
    char script[9000];
    expect(0, "$T submit --start-at +1h --name lost --storage runs --key lost -- true", "job ");
    int job = atoi(strstr(output, "job ") + 4);
    expect(0, "$T server stop", "");
    snprintf(script, sizeof script,
             "cd %s/state/jobs && echo begun >%08d/log && { %s logs -f lost >../said 2>&1 & } && "
             "until grep -q begun ../said; do sleep 0.02; done && mv %08d %08d.lost && "
             "{ wait $!; ended=$?; cat ../said; mv %08d.lost %08d; exit $ended; }",
             top, job, support_setting("TROUPE_TOOL"), job, job, job, job);
    assert_int_equal(support_run(script, output, sizeof output), 1);
    assert_non_null(strstr(output, "the job is gone: its folder /"));
    assert_non_null(strstr(output, ".lost"));
}

static void test_a_job_waits_for_its_time(void **state)
{
    (void)state;
    expect(0, "$T submit --start-at +1h --name later --storage runs --key later -- true", "job ");
    expect(0, "$T logs later", ""); // Nothing yet.
    assert_string_equal(output, "");
    expect(0,
           "{ $T logs -f later >waits 2>&1 & } && until grep -q . waits; do sleep 0.02; done && "
           "kill $! && cat waits",
           "troupe logs: the job has not begun: `troupe jobs later` says why\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_before_the_first_server_there_are_no_jobs),
        cmocka_unit_test(test_a_program_is_done_and_its_output_kept),
        cmocka_unit_test(test_a_failure_is_told),
        cmocka_unit_test(test_what_is_wrong_is_said),
        cmocka_unit_test(test_a_program_that_is_missing),
        cmocka_unit_test(test_logs_of_a_job_that_is_lost),
        cmocka_unit_test(test_a_job_waits_for_its_time),
    };
    return cmocka_run_group_tests(tests, start, close_folder);
}
