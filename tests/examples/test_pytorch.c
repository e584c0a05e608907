// test_pytorch.c: examples/pytorch trains under the library, which it does not link: reports,
// checkpoints, and the numbers of an undisturbed run whatever is killed.
// label: slow
// label: nosan
// timeout: 300
#include "support.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

enum { RANKS = 2, EPOCHS = 8 };

static char *storage, *script, *digits;

// Debian's interpreter, for which Debian's package is made.
static const char python[] = "/usr/bin/python3";

typedef enum victim { NOBODY, PROGRAM, WORKER } victim;

typedef struct plan {
    victim victim;
    int report, rank; // Who is killed, after which report.
    int killed;       // How many were.
    double last;      // Loss of the last report.
    int reports;
} plan;

// The first child of a process; 0: it has none.
static pid_t child_of(pid_t parent)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, (int)parent);
    char *list = support_read_file(path);
    pid_t child = list ? (pid_t)atoi(list) : 0;
    free(list);
    return child;
}

static void kill_at_report(void *user, troupe_job *job, const troupe_report_event *event)
{
    plan *it = (plan *)user;
    it->reports++;
    it->last = event->metrics[0].value;
    if (it->victim == NOBODY || event->number != it->report || it->killed > 0)
        return;
    troupe_job_status status;
    troupe_job_status_get(job, &status);
    pid_t pid = status.pids[it->rank]; // Of its worker, whose child is the guard.
    if (it->victim == PROGRAM)
        pid = child_of(child_of(pid));
    it->killed = pid > 0 && kill(pid, SIGKILL) == 0;
}

static void train(plan *it)
{
    const troupe_text arguments[] = {python, script, digits};
    troupe_process_config config = {.arguments = {arguments, 3}};
    troupe_result *result;
    troupe_job *job;
    char json[32];
    snprintf(json, sizeof json, "{\"epochs\": %d}", EPOCHS);
    config.json = json;
    troupe_must(troupe_submit(troupe_process, &config,
                              TROUPE_OPTIONS(troupe_follower, .report = kill_at_report, .user = it),
                              &job, .ranks = RANKS, .storage = storage, .name = "digits",
                              .restarts = it->victim != NOBODY, .keep = 2));
    troupe_must(troupe_job_wait(job, TROUPE_FOREVER, &result));
    if (troupe_result_status(result) != TROUPE_OK)
        fail_msg("%s", troupe_result_error(result));
    assert_int_equal(troupe_result_reports(result), EPOCHS);
    assert_int_equal(troupe_result_restarts(result), it->victim != NOBODY);
    assert_true(troupe_result_metric(result, "accuracy") > 0.85);
    char *state = support_path(troupe_result_checkpoint(result), "state.pt");
    assert_true(support_exists(state));
    free(state);
    troupe_result_free(&result);
    troupe_job_close(&job);
}

// D19: two ranks of a script under DistributedDataParallel.
static void test_a_script_trains_and_recovers_with_the_same_numbers(void **state)
{
    (void)state;
    plan undisturbed = {NOBODY, 0, 0, 0, 0, 0}, program = {PROGRAM, 3, 1, 0, 0, 0},
         worker = {WORKER, 5, 0, 0, 0, 0};
    train(&undisturbed);
    assert_int_equal(undisturbed.reports, EPOCHS);
    train(&program);
    assert_int_equal(program.killed, 1);
    assert_true(program.last == undisturbed.last);
    train(&worker);
    assert_int_equal(worker.killed, 1);
    assert_true(worker.last == undisturbed.last);
}

static void test_a_script_that_raises_is_named(void **state)
{
    (void)state;
    const troupe_text arguments[] = {python, script, "/no/such/digits"};
    troupe_process_config config = {.arguments = {arguments, 3}};
    troupe_result *result;
    assert_int_equal(
        troupe_train(troupe_process, &config, &result, .ranks = RANKS, .storage = storage),
        TROUPE_FAILED);
    assert_non_null(strstr(troupe_last_error()->text, "FileNotFoundError"));
    troupe_result_free(&result);
}

static int begin(void **state)
{
    (void)state;
    char output[4096];
    if (support_run(
            "/usr/bin/python3 -c 'import torch.distributed as d; assert d.is_gloo_available()'",
            output, sizeof output) != 0) {
        printf("PyTorch is not there (apt-get install python3-torch):\n%s\n", output);
        return 1;
    }
    storage = support_directory_make();
    script = support_path(support_setting("TROUPE_SOURCE"), "examples/pytorch/digits.py");
    digits = strdup(support_setting("TROUPE_DIGITS_CSV"));
    troupe_must(troupe_start(0, NULL, .cpus = RANKS, .worker_env = "PYTHONDONTWRITEBYTECODE=1"));
    return 0;
}

static int end(void **state)
{
    (void)state;
    (void)troupe_stop();
    support_directory_remove(storage);
    free(script);
    free(digits);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_script_trains_and_recovers_with_the_same_numbers),
        cmocka_unit_test(test_a_script_that_raises_is_named),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
