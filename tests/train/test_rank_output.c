// test_rank_output.c: what the ranks of a run print: who said it, said by all of them, and what the
// library says of the group. Each case is a driver process whose output is read here.
// timeout: 120
#include <support.h>

#include <runtime/base/fault.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <troupe/train.h>
#include <unistd.h>

enum { RANKS = 4 };

enum { LOG_WORKS, LOG_IS_A_FILE, LOG_HANGS };
TROUPE_STRUCT(chat, (int, killed), // The rank that is killed at first; -1: none.
              (int, log), (int, flood), (troupe_text, folder),
              (bool, commits), // In memory: the other ranks keep their processes.
              (bool, late));   // The killed rank leaves a child behind that prints later.
TROUPE_STRUCT(nothing_much, (int, number));

// Before anything is printed: puts something else where the log of rank 0 goes.
static void spoil_log(const chat *config)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/talk/log", config->folder);
    if (config->log == LOG_IS_A_FILE) {
        support_write_file(path, "", 0);
    } else if (config->log == LOG_HANGS) { // Who opens it to write waits for a reader.
        assert_int_equal(mkdir(path, 0700), 0);
        strcat(path, "/rank_00000.log");
        assert_int_equal(mkfifo(path, 0600), 0);
    }
}

static troupe_status talk(troupe_rank *me, const chat *config)
{
    char late[4096];
    snprintf(late, sizeof late, "%s/late", config->folder);
    if (me->rank == 0 && me->attempt == 0)
        spoil_log(config);
    TROUPE_TRY(troupe_barrier(me));
    for (int i = 0; i < config->flood; i++)
        printf("line %d of a flood of rank %d, which is long enough to fill a log\n", i, me->rank);
    printf("ready\n");
    printf("hello of %d in attempt %d\n", me->rank, me->attempt);
    fprintf(stderr, "an error of %d\n", me->rank);
    fflush(stdout);
    if (config->commits)
        TROUPE_TRY(troupe_commit(nothing_much, me, &(nothing_much){1}));
    TROUPE_TRY(troupe_report(me, {"epoch", 1}));
    if (config->commits && me->attempt == 0) // Then each knows that its state was taken.
        TROUPE_TRY(troupe_report(me, {"epoch", 2}));
    TROUPE_TRY(troupe_barrier(me)); // All have printed.
    if (me->rank == config->killed && me->attempt == 0 && config->late && fork() == 0) {
        (void)usleep(300000);
        (void)!write(STDOUT_FILENO, "late\n", 5);
        support_write_file(late, "", 0);
        _exit(0);
    }
    while (config->late && me->attempt == 1 && !support_exists(late))
        (void)usleep(1000);
    if (me->rank == config->killed && me->attempt == 0)
        (void)raise(SIGKILL);
    return troupe_barrier(me);
}
TROUPE_TRAINER(talk, chat);

static char *folder;
static char *out_text, *error_text;

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
    free(out_text);
    free(error_text);
    out_text = support_read_file(out);
    error_text = support_read_file(errors);
    free(out);
    free(errors);
    if (status != 0)
        support_fail_output(error_text, "the driver ended with %x", (unsigned)status);
}

static int count(const char *text, const char *wanted)
{
    // Under a sanitizer strstr and memmem look at all the rest of the text each time.
    size_t size = strlen(wanted);
    int found = 0;
    for (const char *at = text; (at = strchrnul(at, wanted[0]))[0] != '\0'; at++)
        found += strncmp(at, wanted, size) == 0;
    return found;
}

static int drive(chat config)
{
    troupe_result *result;
    config.folder = folder;
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
    return drive((chat){.killed = -1});
}

static int drive_killed(void)
{
    return drive((chat){.killed = 2});
}

static int drive_late(void)
{
    return drive((chat){.killed = 2, .late = true});
}

static int drive_kept(void)
{
    return drive((chat){.killed = 2, .commits = true});
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

// ---- log files

static char *read_log(int rank)
{
    char name[64];
    snprintf(name, sizeof name, "talk/log/rank_%05d.log", rank);
    char *path = support_path(folder, name), *text = support_read_file(path);
    free(path);
    return text;
}

// `kept`: ranks that are not killed have one process for both attempts.
static void check_logs(bool kept)
{
    for (int rank = 0; rank < RANKS; rank++) {
        char *text = read_log(rank);
        assert_non_null(text);
        const char *at = text;
        int pids[2] = {0};
        for (int attempt = 0; attempt < 2; attempt++) {
            char begin[64], hello[64], error[64];
            snprintf(begin, sizeof begin, "---- attempt %d, rank %d of 4, pid ", attempt, rank);
            snprintf(hello, sizeof hello, "\nhello of %d in attempt %d\n", rank, attempt);
            snprintf(error, sizeof error, "\nan error of %d\n", rank);
            assert_int_equal(strncmp(at, begin, strlen(begin)), 0);
            pids[attempt] = atoi(at + strlen(begin));
            assert_non_null(strstr(at, hello));
            assert_non_null(strstr(at, error));
            assert_int_equal(count(text, hello), 1);
            at = attempt == 0 ? strstr(at, "\n---- attempt 1") + 1 : at;
        }
        assert_int_equal(count(text, "\nready\n"), 2); // Not folded.
        assert_int_equal(count(text, "----\n"), 2);
        assert_int_equal(pids[0] == pids[1], kept && rank != 2);
        free(text);
    }
}

static void test_each_rank_has_a_log_file_that_goes_on_after_a_restart(void **state)
{
    (void)state;
    run_driver(drive_killed);
    check_logs(false);
}

static void test_what_an_attempt_prints_last_stands_before_the_next(void **state)
{
    (void)state;
    run_driver(drive_late);
    check_logs(false);
    char *text = read_log(2), *late = strstr(text, "\nlate\n");
    assert_non_null(late);
    assert_true(late < strstr(text, "\n---- attempt 1"));
    free(text);
}

static void test_a_process_that_is_kept_has_a_line_for_each_attempt(void **state)
{
    (void)state;
    run_driver(drive_kept);
    check_logs(true);
}

#ifdef TROUPE_FAULTS
static sem_t next_attempt_begins;

static void let_read(void)
{
    sem_post(&next_attempt_begins);
}

// In the thread that reads the output of all.
static void read_nothing_yet(void)
{
    trp_fault_call_at("rank logs go on", 1, let_read);
    while (sem_wait(&next_attempt_begins) != 0) // Interrupted.
        continue;
    (void)usleep(50000); // For who does not wait for this thread.
}

static int drive_read_late(void)
{
    sem_init(&next_attempt_begins, 0, 0);
    trp_fault_call_at("read output", 1, read_nothing_yet);
    return drive((chat){.killed = 2, .commits = true});
}

static void test_lines_read_late_stand_in_the_attempt_that_printed_them(void **state)
{
    (void)state;
    run_driver(drive_read_late);
    check_logs(true);
}
#endif

static int drive_without_log(void)
{
    return drive((chat){.killed = -1, .log = LOG_IS_A_FILE});
}

static void test_what_cannot_be_written_is_warned_of_once(void **state)
{
    (void)state;
    run_driver(drive_without_log);
    assert_int_equal(count(error_text, "lines of ranks are not in their log files: "), 1);
    assert_int_equal(count(out_text, ") ready [repeated 3x across ranks]"), 1);
}

static int drive_hanging_log(void)
{
    return drive((chat){.killed = -1, .log = LOG_HANGS, .flood = 40000});
}

static void test_a_disk_that_hangs_holds_up_no_rank(void **state)
{
    (void)state;
    run_driver(drive_hanging_log);
    assert_int_equal(count(error_text, "are not in their log files: writing hangs"), 1);
    assert_int_equal(count(out_text, " of a flood of rank 0,"), 40000);
    assert_int_equal(count(out_text, "\nrun /"), 1);
}

static int drive_flood(void)
{
    return drive((chat){.killed = -1, .flood = 40000});
}

static void test_each_line_is_in_the_log_or_counted(void **state)
{
    (void)state;
    run_driver(drive_flood);
    for (int rank = 0; rank < RANKS; rank++) {
        char *text = read_log(rank);
        long lost = 0;
        for (const char *at = text; (at = strstr(at, "\n---- ")) != NULL; at++)
            lost += strtol(at + strlen("\n---- "), NULL, 10);
        assert_int_equal(count(text, " of a flood of rank ") + (lost < 40000 ? lost : 0), 40000);
        free(text);
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
        cmocka_unit_test_setup_teardown(test_lines_carry_the_rank_and_those_of_all_are_counted,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_each_rank_logs_its_group, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_a_killed_rank_is_named_in_the_log, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_what_an_attempt_prints_last_stands_before_the_next,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_a_process_that_is_kept_has_a_line_for_each_attempt,
                                        make_folder, remove_folder),
#ifdef TROUPE_FAULTS
        cmocka_unit_test_setup_teardown(test_lines_read_late_stand_in_the_attempt_that_printed_them,
                                        make_folder, remove_folder),
#endif
        cmocka_unit_test_setup_teardown(test_each_rank_has_a_log_file_that_goes_on_after_a_restart,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_what_cannot_be_written_is_warned_of_once, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_a_disk_that_hangs_holds_up_no_rank, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_each_line_is_in_the_log_or_counted, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
