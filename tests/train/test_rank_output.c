// test_rank_output.c: what the ranks of a run print: who said it, said by all of them, and what the
// library says of the group. Each case is a driver process whose output is read here.
// timeout: 120
#include <support.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <troupe/train.h>
#include <unistd.h>

enum { RANKS = 4 };

TROUPE_STRUCT(chat, (int, killed)); // The rank that is killed at first; -1: none.

static troupe_status talk(troupe_rank *me, const chat *config)
{
    printf("ready\n");
    printf("hello of %d in attempt %d\n", me->rank, me->attempt);
    fprintf(stderr, "an error of %d\n", me->rank);
    fflush(stdout);
    TROUPE_TRY(troupe_report(me, {"epoch", 1}));
    if (me->rank == config->killed && me->attempt == 0)
        (void)raise(SIGKILL);
    return troupe_barrier(me);
}
TROUPE_TRAINER(talk, chat);

static char *folder;
static char out_text[65536], error_text[65536];

// Runs it in a process of its own, whose standard output and errors become out_text and error_text.
static void run_driver(int (*drive)(void))
{
    char *out = support_path(folder, "out"), *errors = support_path(folder, "errors");
    pid_t driver = fork();
    assert_true(driver >= 0);
    if (driver == 0) {
        if (freopen(out, "w", stdout) == NULL || freopen(errors, "w", stderr) == NULL)
            _exit(3);
        exit(drive());
    }
    int status;
    assert_int_equal(waitpid(driver, &status, 0), driver);
    char *text = support_read_file(out);
    snprintf(out_text, sizeof out_text, "%s", text);
    free(text);
    text = support_read_file(errors);
    snprintf(error_text, sizeof error_text, "%s", text);
    free(text);
    free(out);
    free(errors);
    if (status != 0)
        support_fail_output(error_text, "the driver ended with %x", (unsigned)status);
}

static int count(const char *text, const char *wanted)
{
    int found = 0;
    for (const char *at = text; (at = strstr(at, wanted)) != NULL; at += strlen(wanted))
        found++;
    return found;
}

static int drive(int killed)
{
    troupe_result *result;
    chat config = {killed};
    troupe_must(troupe_start(0, NULL, .cpus = RANKS));
    troupe_must(troupe_train(talk, &config, &result, .ranks = RANKS, .storage = folder,
                             .name = "talk", .restarts = 1, .keep = TROUPE_NONE));
    printf("run %s\n", troupe_result_path(result));
    troupe_result_free(&result);
    troupe_must(troupe_stop());
    return 0;
}

static int drive_plain(void)
{
    return drive(-1);
}

static int drive_killed(void)
{
    return drive(2);
}

// E03, E05.
static void test_lines_carry_the_rank_and_those_of_all_are_counted(void **state)
{
    (void)state;
    run_driver(drive_plain);
    for (int rank = 0; rank < RANKS; rank++) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "(talk rank=%d pid=", rank);
        const char *at = strstr(out_text, wanted);
        assert_non_null(at);
        assert_true(atoi(at + strlen(wanted)) > 1);
        snprintf(wanted, sizeof wanted, ") hello of %d in attempt 0\n", rank);
        assert_int_equal(count(out_text, wanted), 1);
        snprintf(wanted, sizeof wanted, ") an error of %d\n", rank);
        assert_int_equal(count(error_text, wanted), 1);
    }
    assert_int_equal(count(out_text, ") ready"), 2);
    assert_int_equal(count(out_text, ") ready [repeated 3x across ranks]"), 1);
    assert_null(strstr(out_text, "trp_worker"));

    setenv("TROUPE_LOG_FOLD", "0", 1);
    run_driver(drive_plain);
    unsetenv("TROUPE_LOG_FOLD");
    assert_int_equal(count(out_text, ") ready\n"), RANKS);
    assert_null(strstr(out_text, "repeated"));
}

// D20, E04.
static void test_each_rank_logs_its_group(void **state)
{
    (void)state;
    setenv("TROUPE_LOG", "info", 1);
    setenv("TROUPE_LOG_FOLD", "0", 1); // The library's own lines count as alike otherwise.
    run_driver(drive_plain);
    unsetenv("TROUPE_LOG");
    unsetenv("TROUPE_LOG_FOLD");
    const char *at = strstr(error_text, "Started distributed worker processes:");
    assert_non_null(at);
    for (int rank = 0; rank < RANKS; rank++) {
        char wanted[128];
        snprintf(wanted, sizeof wanted,
                 "Setting up process group for: env:// [rank=%d, world_size=4]", rank);
        assert_int_equal(count(error_text, wanted), 1);
        snprintf(wanted, sizeof wanted, ") world_rank=%d, local_rank=%d, node_rank=0", rank, rank);
        at = strstr(at, wanted); // In the order of ranks.
        assert_non_null(at);
    }
}

static void test_a_killed_rank_is_named_in_the_log(void **state)
{
    (void)state;
    run_driver(drive_killed);
    assert_int_equal(count(error_text, " (talk rank=2, pid "), 1);
    assert_int_equal(count(error_text, ": the group is restarted (restart 1)"), 1);
    for (int attempt = 0; attempt < 2; attempt++) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, ") hello of 2 in attempt %d\n", attempt);
        assert_int_equal(count(out_text, wanted), 1);
    }
}

static int make_folder(void **state)
{
    (void)state;
    folder = support_directory_make();
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    support_directory_remove(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_carry_the_rank_and_those_of_all_are_counted),
        cmocka_unit_test(test_each_rank_logs_its_group),
        cmocka_unit_test(test_a_killed_rank_is_named_in_the_log),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
