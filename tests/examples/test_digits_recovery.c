// test_digits_recovery.c: a training run whose workers are killed ends with the weights, to the
// bit, of a run that nothing disturbed, whichever rank it was and whenever it happened.
#include "support.h"

#include <digits/data.h>
#include <digits/model.h>
#include <digits/sets.h>

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

// The weights and the velocity with which a run ended, in memory of its own.
typedef struct outcome {
    size_t count;
    float *weights, *velocity;
    double loss, accuracy;
    int reports, restarts;
} outcome;

static float *copy(const float *values, size_t count)
{
    float *mine = reallocarray(NULL, count, sizeof *mine);
    assert_non_null(mine);
    return memcpy(mine, values, count * sizeof *mine);
}

static void outcome_free(outcome *o)
{
    free(o->weights);
    free(o->velocity);
}

static bool same_state(const outcome *a, const outcome *b)
{
    return a->count == b->count && memcmp(a->weights, b->weights, a->count * sizeof(float)) == 0 &&
           memcmp(a->velocity, b->velocity, a->count * sizeof(float)) == 0;
}

static digits_sets sets;

// Trains under `name`, with the plan's blows, and reads the last checkpoint.
static outcome train(const char *name, plan *p)
{
    reader_config config = troupe_defaults(reader);
    config.rate = 0.15;
    config.fitting = (troupe_fitting){.epochs = EPOCHS, .batch = 32, .seed = 11};
    const troupe_gate gate = {
        .size = sizeof gate, .decide = strike, .user = p, .timeout_ms = SUPPORT_SOON_MS};
    troupe_job *job = NULL;
    troupe_result *result = NULL;
    troupe_must(troupe_submit(reader, &config, NULL, &job, .gate = &gate, .ranks = WORLD,
                              .cpus_per_rank = 0.5, .storage = folder, .name = name, .keep = 2,
                              .restarts = 4, .data = troupe_data_with(digits_data, &sets)));
    troupe_must(troupe_job_wait(job, -1, &result));
    troupe_job_close(&job);
    if (troupe_result_status(result) != TROUPE_OK)
        fail_msg("%s: %s", name, troupe_result_error(result));

    outcome o = {
        .loss = troupe_result_metric(result, "loss"),
        .accuracy = troupe_result_metric(result, READER_METRIC),
        .reports = troupe_result_reports(result),
        .restarts = troupe_result_restarts(result),
    };
    const char *checkpoint = troupe_result_checkpoint(result);
    troupe_instance *instance;
    assert_non_null(checkpoint);
    troupe_must(troupe_model_open(reader, checkpoint, NULL, &instance));
    const reader *end = troupe_model_self(reader, instance);
    o.count = end->net.count;
    o.weights = copy(end->net.weights, o.count);
    o.velocity = copy(end->velocity, o.count);
    troupe_model_close(&instance);
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
    if (!same_state(&o, &undisturbed))
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
    digits data;
    plan calm = {0};
    troupe_must(digits_load(support_setting("TROUPE_DIGITS_CSV"), 11, &data));
    troupe_must(digits_sets_put(&data, &sets));
    digits_free(&data);
    undisturbed = train("undisturbed", &calm);

    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_run_can_be_repeated_to_the_bit),
        cmocka_unit_test(test_a_killed_rank_0_changes_nothing),
        cmocka_unit_test(test_a_killed_rank_1_changes_nothing),
        cmocka_unit_test(test_two_blows_change_nothing),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    outcome_free(&undisturbed);
    digits_sets_drop(&sets);
    support_directory_remove(folder);
    return troupe_stop() + failed;
}
