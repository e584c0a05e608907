// test_process_kills.c: programs that train while they, their guards and their workers are killed
// at random moments: the numbers of an undisturbed run, and nothing left.
// label: slow
// timeout: 300
#include <support.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

enum { RANKS = 2, ROUNDS = 12, KILLS = 8, HIDDEN_MAX = 4096 };

static char *storage;

// A sum that depends on each step; and a child that hides from the program's group.
static const char learner[] =
    "step=0; sum=0; [ -z \"$TROUPE_RESTORE_DIR\" ] || . \"$TROUPE_RESTORE_DIR/state_$RANK\"\n"
    "setsid sleep 1000 >&- 2>&- & echo $! >>$1/hidden\n"
    "while [ $step -lt 40 ]; do\n"
    "    step=$((step + 1)); sum=$(((sum * 31 + step * 7 + RANK) % 1000003))\n"
    "    printf 'step=%d\\nsum=%d\\n' $step $sum >$TROUPE_CHECKPOINT_DIR/state_$RANK\n"
    "    echo '{\"metrics\": {\"sum\": '$sum'}, \"checkpoint\": \"'$TROUPE_CHECKPOINT_DIR'\"}' "
    ">&3\n"
    "    read -r answer <&3; sleep 0.01\n"
    "done\n";

// The first child of a process; 0: it has none.
static pid_t child_of(pid_t parent)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, (int)parent);
    char *list = parent > 0 ? support_read_file(path) : NULL;
    pid_t child = list ? (pid_t)atoi(list) : 0;
    free(list);
    return child;
}

// Kills the worker of a rank, its guard or its program, whichever the dice say.
static void kill_some(troupe_job *job)
{
    troupe_job_status status;
    troupe_job_status_get(job, &status);
    pid_t victim = status.pids[rand() % RANKS];
    for (int down = rand() % 3; down > 0; down--)
        victim = child_of(victim);
    if (victim > 0)
        (void)kill(victim, SIGKILL);
}

static char *train(int kills, double *sum)
{
    const troupe_text arguments[] = {"sh", "-c", learner, "learner", storage};
    troupe_process_config config = {.arguments = {arguments, 5}};
    troupe_result *result;
    troupe_job *job;
    troupe_must(troupe_submit(troupe_process, &config, NULL, &job, .ranks = RANKS,
                              .storage = storage, .name = "kills", .restarts = TROUPE_FOREVER,
                              .keep = 2));
    while (troupe_job_wait(job, rand() % 100, &result) == TROUPE_TIMED_OUT)
        if (kills-- > 0)
            kill_some(job);
    if (troupe_result_status(result) != TROUPE_OK)
        fail_msg("%s", troupe_result_error(result));
    assert_int_equal(troupe_result_reports(result), 40);
    *sum = troupe_result_metric(result, "sum");
    char *path = support_path(troupe_result_checkpoint(result), "state_1");
    char *text = support_read_file(path);
    assert_non_null(text);
    free(path);
    troupe_result_free(&result);
    troupe_job_close(&job);
    return text;
}

// D19.
static void test_kills_at_random_change_no_number(void **state)
{
    (void)state;
    double sum, other;
    srand(20);
    char *wanted = train(0, &sum);
    for (int round = 0; round < ROUNDS; round++) {
        char *got = train(KILLS, &other);
        assert_string_equal(got, wanted);
        assert_true(other == sum);
        free(got);
    }
    free(wanted);
    (void)troupe_stop();
    char *path = support_path(storage, "hidden"), *list = support_read_file(path), *at = list;
    pid_t hidden[HIDDEN_MAX];
    size_t count = 0;
    for (long pid = strtol(at, &at, 10); pid > 0 && count < HIDDEN_MAX; pid = strtol(at, &at, 10))
        hidden[count++] = (pid_t)pid;
    assert_true(count >= (size_t)RANKS * (ROUNDS + 1));
    assert_true(support_processes_end(hidden, count, SUPPORT_SOON_MS));
    free(list);
    free(path);
}

static int begin(void **state)
{
    (void)state;
    storage = support_directory_make();
    troupe_must(troupe_start(0, NULL, .cpus = RANKS, .store_bytes_max = 16 << 20));
    return 0;
}

static int end(void **state)
{
    (void)state;
    support_directory_remove(storage);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kills_at_random_change_no_number)};
    return cmocka_run_group_tests(tests, begin, end);
}
