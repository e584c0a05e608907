// test_xgboost.c: examples/xgboost, as it was built: folds that learn digits, each one's trees in
// the checkpoint, and the accuracy of an undisturbed run where a rank is killed.
// label: slow
// label: nosan
#include "support.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char *folder;

static bool is_there(void *path)
{
    return support_exists((const char *)path);
}

// Starts the example with three folds; what it prints goes to the file `out`.
static pid_t start(const char *storage, const char *out, const char *epochs)
{
    char *program = support_path(support_setting("TROUPE_EXAMPLES"), "xgboost");
    if (!support_exists(program))
        fail_msg("examples/xgboost was not built (apt-get install libxgboost-dev)");
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        (void)dup2(fd, STDOUT_FILENO);
        (void)dup2(fd, STDERR_FILENO);
        execl(program, "xgboost", support_setting("TROUPE_DIGITS_CSV"), "3", epochs, storage, NULL);
        _exit(99);
    }
    free(program);
    return pid;
}

// What it says at its end: accuracy, reports and restarts.
static void await_end(pid_t pid, const char *out, double *accuracy, int *reports, int *restarts)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    char *text = support_read_file(out), *end = text ? strstr(text, "\naccuracy ") : NULL;
    if (status != 0 || end == NULL ||
        sscanf(end, " accuracy %lf after %d reports and %d restarts", accuracy, reports,
               restarts) != 3)
        support_fail_output(text ? text : "", "it ended with %x", (unsigned)status);
    free(text);
}

// The process of a rank, as the console has said.
static pid_t pid_of_rank(const char *out, int rank)
{
    char wanted[32], *text = support_read_file(out);
    snprintf(wanted, sizeof wanted, ") world_rank=%d,", rank);
    char *at = strstr(text, wanted);
    while (at != NULL && at > text && *at != '=')
        at--;
    pid_t pid = at ? (pid_t)atoi(at + 1) : 0;
    free(text);
    return pid;
}

// G05: another library behind the table of a trainer.
static void test_folds_learn_and_recover(void **state)
{
    (void)state;
    double undisturbed, accuracy;
    int reports, restarts;
    char *out = support_path(folder, "out"), *one = support_path(folder, "one"),
         *other = support_path(folder, "other");
    await_end(start(one, out, "12"), out, &undisturbed, &reports, &restarts);
    assert_true(undisturbed > 0.93 && undisturbed < 1);
    assert_true(reports == 12 && restarts == 0);
    char *trees = support_path(one, "xgboost/checkpoints/checkpoint_000011/fold_00002.ubj");
    assert_true(support_exists(trees));
    free(trees);

    pid_t pid = start(other, out, "12");
    char *checkpoint = support_path(other, "xgboost/checkpoints/checkpoint_000001");
    assert_true(support_wait_until(is_there, checkpoint, SUPPORT_SOON_MS));
    pid_t victim = pid_of_rank(out, 1);
    assert_true(victim > 0 && kill(victim, SIGKILL) == 0);
    await_end(pid, out, &accuracy, &reports, &restarts);
    assert_true(accuracy == undisturbed);
    assert_int_equal(reports, 12);
    assert_int_equal(restarts, 1);
    free(checkpoint);
    free(out);
    free(one);
    free(other);
}

static int begin(void **state)
{
    (void)state;
    folder = support_directory_make();
    return 0;
}

static int end(void **state)
{
    (void)state;
    support_directory_remove(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_folds_learn_and_recover)};
    return cmocka_run_group_tests(tests, begin, end);
}
