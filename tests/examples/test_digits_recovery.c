// test_digits_recovery.c: a training run whose workers are killed ends with the weights, to the
// bit, of a run that nothing disturbed, whichever rank it was and whenever it happened.
#include "support.h"

#include <digits/trainer.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EPOCHS = 16, WORLD = 2 };

static char *folder;

// What happens to a run: up to two ranks are killed, each when a report arrives.
typedef struct blow {
    int rank, at; // `at` 0: none
} blow;

typedef struct plan {
    blow blows[2];
    atomic_int struck; // Blows so far; written by the gate's thread, read when the job is over.
} plan;

static troupe_gate_answer strike(void *user, troupe_job *job, const troupe_report_event *event,
                                 int *ranks)
{
    (void)ranks;
    plan *p = user;
    int next = atomic_load(&p->struck); // One thread at a time calls this: no pairing is needed.
    if (next == 2 || p->blows[next].at == 0 || event->number < p->blows[next].at)
        return TROUPE_GATE_GO_ON;
    troupe_job_status status;
    troupe_job_status_get(job, &status);
    pid_t pid = status.pids[p->blows[next].rank];
    if (status.state == TROUPE_JOB_RUNNING && pid > 0 && kill(pid, SIGKILL) == 0)
        atomic_store(&p->struck, next + 1);
    return TROUPE_GATE_GO_ON;
}

// The state in which a run ended, in memory of its own.
typedef struct outcome {
    digits_state state;
    double loss, accuracy;
    int reports, restarts;
} outcome;

static troupe_array_float copy(troupe_array_float values)
{
    float *mine = reallocarray(NULL, values.count, sizeof *mine);
    assert_non_null(mine);
    memcpy(mine, values.items, values.count * sizeof *mine);
    return (troupe_array_float){mine, values.count};
}

static void outcome_free(outcome *o)
{
    free((void *)o->state.weights.items);
    free((void *)o->state.velocity.items);
}

static bool same_state(const digits_state *a, const digits_state *b)
{
    return a->inputs == b->inputs && a->hidden == b->hidden && a->epoch == b->epoch &&
           a->random == b->random && a->weights.count == b->weights.count &&
           memcmp(a->weights.items, b->weights.items, a->weights.count * sizeof(float)) == 0 &&
           a->velocity.count == b->velocity.count &&
           memcmp(a->velocity.items, b->velocity.items, a->velocity.count * sizeof(float)) == 0;
}

// Trains under `name`, with the plan's blows, and reads the last checkpoint.
static outcome train(const char *name, plan *p)
{
    const digits_config config = {
        .data = support_setting("TROUPE_DIGITS_CSV"),
        .rate = 0.15,
        .hidden = 64,
        .batch = 32,
        .epochs = EPOCHS,
        .momentum = 0.9,
        .weight_decay = 1e-4,
        .seed = 11,
    };
    const troupe_gate gate = {.size = sizeof gate, .decide = strike, .user = p};
    troupe_job *job = NULL;
    troupe_result *result = NULL;
    troupe_must(troupe_submit(fit_digits, &config, NULL, &job, .gate = &gate, .ranks = WORLD,
                              .cpus_per_rank = 0.5, .storage = folder, .name = name, .keep = 2,
                              .restarts = 4));
    troupe_must(troupe_job_wait(job, -1, &result));
    troupe_job_close(&job);
    if (troupe_result_status(result) != TROUPE_OK)
        fail_msg("%s: %s", name, troupe_result_error(result));

    outcome o = {
        .loss = troupe_result_metric(result, "loss"),
        .accuracy = troupe_result_metric(result, DIGITS_METRIC),
        .reports = troupe_result_reports(result),
        .restarts = troupe_result_restarts(result),
    };
    digits_state second;
    const char *checkpoint = troupe_result_checkpoint(result);
    assert_non_null(checkpoint);
    troupe_must(troupe_checkpoint_load(digits_state, checkpoint, 0, &o.state));
    troupe_must(troupe_checkpoint_load(digits_state, checkpoint, 1, &second));
    assert_true(same_state(&o.state, &second)); // The ranks have not drifted apart.
    assert_true(o.state.weights.count > 0);
    o.state.weights = copy(o.state.weights);
    o.state.velocity = copy(o.state.velocity);
    troupe_arena_reset();
    troupe_result_free(&result);
    return o;
}

static outcome undisturbed; // What every other run is compared to.

static void expect_the_same_end(const char *name, blow first, blow second)
{
    plan p = {.blows = {first, second}};
    outcome o = train(name, &p);
    int blows = (first.at != 0) + (second.at != 0);
    if (atomic_load(&p.struck) != blows || o.restarts != blows)
        fail_msg("%s: %d blows struck and %d restarts, expected %d of both", name,
                 atomic_load(&p.struck), o.restarts, blows);
    assert_int_equal(o.reports, EPOCHS);
    assert_int_equal(o.state.epoch, EPOCHS);
    if (!same_state(&o.state, &undisturbed.state))
        fail_msg("%s: the weights differ from those of an undisturbed run", name);
    assert_true(o.loss == undisturbed.loss);
    assert_true(o.accuracy == undisturbed.accuracy);
    outcome_free(&o);
}

static const blow none;

static void test_a_run_can_be_repeated_to_the_bit(void **state)
{
    (void)state;
    assert_int_equal(undisturbed.reports, EPOCHS);
    assert_int_equal(undisturbed.restarts, 0);
    assert_true(undisturbed.accuracy > 0.9); // It has learnt, so that equal weights mean something.
    expect_the_same_end("again", none, none);
}

static void test_a_killed_rank_0_changes_nothing(void **state)
{
    (void)state;
    expect_the_same_end("first-1", (blow){0, 1}, none);
    expect_the_same_end("first-6", (blow){0, 6}, none);
}

static void test_a_killed_rank_1_changes_nothing(void **state)
{
    (void)state;
    expect_the_same_end("second-2", (blow){1, 2}, none);
    expect_the_same_end("second-5", (blow){1, 5}, none);
}

static void test_two_blows_change_nothing(void **state)
{
    (void)state;
    expect_the_same_end("both", (blow){1, 2}, (blow){0, 6});
    expect_the_same_end("twice", (blow){0, 3}, (blow){0, 4});
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv));
    folder = support_directory_make();
    plan calm = {0};
    undisturbed = train("undisturbed", &calm);

    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_run_can_be_repeated_to_the_bit),
        cmocka_unit_test(test_a_killed_rank_0_changes_nothing),
        cmocka_unit_test(test_a_killed_rank_1_changes_nothing),
        cmocka_unit_test(test_two_blows_change_nothing),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    outcome_free(&undisturbed);
    support_directory_remove(folder);
    return troupe_stop() + failed;
}
