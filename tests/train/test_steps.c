// test_steps.c: trainers that give their steps, and leave the loop to the library.
#include "await.h"

#include <support.h>

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

enum { POINTS = 60 };

// What goes wrong, in rank `victim` at that epoch and batch, in that hook.
enum { NOTHING, FAILS, FAILS_QUIETLY, DIES, PLANS_NEGATIVE, PLANS_TOO_FAR, IS_DONE };
enum { ALL_RANKS = -1 };
enum { IN_BEFORE_EPOCH, IN_BEFORE_BATCH, IN_STEP, IN_AFTER_BATCH, IN_AFTER_EPOCH };

TROUPE_STRUCT(step_settings, (double, rate), (int, epochs), (int, batches), (bool, saves_batches),
              (int, trouble), (int, victim), (int, where), (int64_t, epoch), (int64_t, batch),
              (int, checkpoint),      // The one to wait for before it dies.
              (troupe_text, folder)); // Where each rank leaves a log; NULL: none.
TROUPE_STRUCT(step_model, (double, slope), (double, offset), (double, loss), (int64_t, epoch),
              (int64_t, batch), (troupe_text, note));

static char *storage;

// What a rank keeps in me->user.
typedef struct fitting {
    step_model model;
    FILE *log;
} fitting;

static void note(troupe_rank *me, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(troupe_rank *me, const char *format, ...)
{
    FILE *log = ((fitting *)me->user)->log;
    va_list more;
    va_start(more, format);
    if (log)
        vfprintf(log, format, more);
    va_end(more);
}

static troupe_status trouble(troupe_rank *me, const step_settings *config, int where)
{
    if (me->attempt > 0 || me->rank != config->victim || where != config->where ||
        me->epoch != config->epoch || me->batch != config->batch)
        return TROUPE_OK;
    if (config->trouble == DIES) {
        TROUPE_TRY(await_checkpoint(me, config->checkpoint));
        kill(getpid(), SIGKILL);
    }
    if (config->trouble == FAILS_QUIETLY)
        return TROUPE_IO;
    return config->trouble == FAILS ? troupe_fail(TROUPE_FAILED, "the loss has no bound")
                                    : TROUPE_OK;
}

static troupe_status line_setup(troupe_rank *me, const step_settings *config)
{
    fitting *now = calloc(1, sizeof *now);
    if (!now)
        return TROUPE_NO_MEMORY;
    me->user = now;
    if (config->folder) {
        char name[32];
        snprintf(name, sizeof name, "log_%d_%d", me->rank, me->attempt);
        char *path = support_path(config->folder, name);
        now->log = fopen(path, "w");
        free(path);
    }
    note(me, "setup\n");
    return TROUPE_OK;
}

static troupe_status line_teardown(troupe_rank *me, const step_settings *config)
{
    fitting *now = me->user;
    (void)config;
    note(me, "teardown at %lld.%lld\n", (long long)me->epoch, (long long)me->batch);
    if (now->log)
        fclose(now->log);
    free(now);
    return TROUPE_OK;
}

static troupe_status line_plan(troupe_rank *me, const step_settings *config, troupe_plan *plan)
{
    fitting *now = me->user;
    now->model.note = "made";
    TROUPE_TRY(troupe_restore(step_model, me, &now->model));
    *plan = (troupe_plan){.epochs = config->epochs,
                          .batches = config->batches,
                          .epoch = now->model.epoch,
                          .batch = now->model.batch};
    if (config->trouble == PLANS_NEGATIVE)
        plan->epochs = -1;
    if (config->trouble == PLANS_TOO_FAR)
        plan->batch = config->batches + 1;
    note(me, "plan\n");
    return TROUPE_OK;
}

static troupe_status line_before_epoch(troupe_rank *me, const step_settings *config)
{
    fitting *now = me->user;
    note(me, "before epoch %lld from %lld\n", (long long)me->epoch, (long long)me->batch);
    now->model.note = strcmp(now->model.note, "made") == 0 || strcmp(now->model.note, "kept") == 0
                          ? "kept" // What plan has restored is there still.
                          : "lost";
    return trouble(me, config, IN_BEFORE_EPOCH);
}

static troupe_status line_before_batch(troupe_rank *me, const step_settings *config)
{
    note(me, "before batch %lld.%lld\n", (long long)me->epoch, (long long)me->batch);
    return trouble(me, config, IN_BEFORE_BATCH);
}

static troupe_status line_step(troupe_rank *me, const step_settings *config)
{
    step_model *model = &((fitting *)me->user)->model;
    double sums[3] = {0};
    note(me, "step %lld.%lld\n", (long long)me->epoch, (long long)me->batch);
    for (int64_t i = me->batch * me->world + me->rank; i < POINTS;
         i += config->batches * me->world) {
        double x = (double)i / POINTS, error = model->slope * x + model->offset - (3 * x + 2);
        sums[0] += error * x / POINTS;
        sums[1] += error / POINTS;
        sums[2] += error * error / POINTS;
    }
    TROUPE_TRY(trouble(me, config, IN_STEP));
    TROUPE_TRY(troupe_allreduce(me, sums, 3, TROUPE_SUM));
    model->slope -= config->rate * sums[0];
    model->offset -= config->rate * sums[1];
    model->loss = sums[2];
    return TROUPE_OK;
}

static troupe_status publish(troupe_rank *me, int64_t epoch, int64_t batch)
{
    step_model *model = &((fitting *)me->user)->model;
    model->epoch = epoch;
    model->batch = batch;
    TROUPE_TRY(troupe_save(step_model, me, model));
    return troupe_report(me, {"loss", model->loss});
}

static troupe_status line_after_batch(troupe_rank *me, const step_settings *config)
{
    note(me, "after batch %lld.%lld\n", (long long)me->epoch, (long long)me->batch);
    int64_t batch = me->batch;
    TROUPE_TRY(trouble(me, config, IN_AFTER_BATCH));
    me->batch = 99; // It is the library's.
    return config->saves_batches ? publish(me, me->epoch, batch + 1) : TROUPE_OK;
}

static troupe_status line_after_epoch(troupe_rank *me, const step_settings *config)
{
    note(me, "after epoch %lld of %lld\n", (long long)me->epoch, (long long)me->batch);
    TROUPE_TRY(trouble(me, config, IN_AFTER_EPOCH));
    TROUPE_TRY(publish(me, me->epoch + 1, 0));
    bool done = config->trouble == IS_DONE && me->epoch == config->epoch &&
                (config->victim == ALL_RANKS || config->victim == me->rank);
    return done ? TROUPE_STOPPED : TROUPE_OK;
}

TROUPE_STEPS(line, step_settings, .plan = line_plan, .before_epoch = line_before_epoch,
             .before_batch = line_before_batch, .step = line_step, .after_batch = line_after_batch,
             .after_epoch = line_after_epoch, .rank_setup = line_setup,
             .rank_teardown = line_teardown);

static step_settings plain(int epochs, int batches)
{
    return (step_settings){.rate = 0.5, .epochs = epochs, .batches = batches};
}

static troupe_status run(const step_settings *config, int restarts, troupe_result **result)
{
    return troupe_train(line, config, result, .ranks = 2, .storage = storage, .restarts = restarts);
}

static step_model model_of(const troupe_result *result, int rank)
{
    step_model model = {0};
    troupe_must(troupe_checkpoint_load(step_model, troupe_result_checkpoint(result), rank, &model));
    return model;
}

// ---- the order

// Each hook, its epoch and its batch, in each rank.
static void test_hooks_come_in_their_order(void **state)
{
    (void)state;
    step_settings config = plain(2, 2);
    troupe_result *result;
    config.folder = support_directory_make();
    troupe_must(run(&config, 0, &result));
    assert_int_equal(troupe_result_reports(result), 2);
    const char *expected = "setup\nplan\n"
                           "before epoch 0 from 0\n"
                           "before batch 0.0\nstep 0.0\nafter batch 0.0\n"
                           "before batch 0.1\nstep 0.1\nafter batch 0.1\n"
                           "after epoch 0 of 2\n"
                           "before epoch 1 from 0\n"
                           "before batch 1.0\nstep 1.0\nafter batch 1.0\n"
                           "before batch 1.1\nstep 1.1\nafter batch 1.1\n"
                           "after epoch 1 of 2\n"
                           "teardown at 2.0\n";
    support_assert_file(config.folder, "log_0_0", expected);
    support_assert_file(config.folder, "log_1_0", expected);
    assert_string_equal(model_of(result, 1).note, "kept");
    troupe_result_free(&result);
    support_directory_remove((char *)(uintptr_t)config.folder);
    troupe_arena_reset();
}

// Only what is needed; nothing to do; epochs without batches.
static troupe_status count_plan(troupe_rank *me, const step_settings *config, troupe_plan *plan)
{
    (void)me;
    plan->epochs = config->epochs;
    plan->batches = config->batches;
    plan->epoch = config->epoch;
    return TROUPE_OK;
}

static troupe_status count_step(troupe_rank *me, const step_settings *config)
{
    return troupe_report(me, {"at", (double)(me->epoch * config->batches + me->batch)});
}
TROUPE_STEPS(count, step_settings, .plan = count_plan, .step = count_step);

static void test_hooks_may_be_left_out(void **state)
{
    (void)state;
    const struct {
        step_settings config;
        int reports;
    } rows[] = {
        {{.epochs = 3, .batches = 4}, 12},
        {{.epochs = 3, .batches = 4, .epoch = 2}, 4},
        {{.epochs = 3, .batches = 4, .epoch = 3}, 0},
        {{.epochs = 3, .batches = 4, .epoch = 7}, 0},
        {{.epochs = 0, .batches = 4}, 0},
        {{.epochs = 3, .batches = 0}, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        troupe_result *result;
        troupe_must(troupe_train(count, &rows[i].config, &result, .storage = storage));
        assert_int_equal(troupe_result_reports(result), rows[i].reports);
        if (rows[i].reports > 0)
            assert_true(troupe_result_metric(result, "at") == 11);
        troupe_result_free(&result);
    }
}

// ---- failures

static void assert_failure(const step_settings *config, troupe_status expected, const char *text)
{
    troupe_result *result;
    assert_int_equal(run(config, 0, &result), expected);
    if (!strstr(troupe_result_error(result), text))
        fail_msg("expected '%s' in: %s", text, troupe_result_error(result));
    troupe_result_free(&result);
}

static void test_a_hook_that_fails_names_itself(void **state)
{
    (void)state;
    step_settings config = plain(3, 4);
    config.trouble = FAILS;
    config.victim = 1;
    config.epoch = 1;
    config.batch = 2;
    config.where = IN_BEFORE_BATCH;
    assert_failure(&config, TROUPE_FAILED,
                   "failed: before_batch of epoch 1, batch 2: the loss has no bound");
    config.where = IN_STEP;
    assert_failure(&config, TROUPE_FAILED, "failed: step of epoch 1, batch 2: the loss has");
    config.where = IN_AFTER_BATCH;
    assert_failure(&config, TROUPE_FAILED, "failed: after_batch of epoch 1, batch 2: the loss has");
    config.where = IN_AFTER_EPOCH;
    config.batch = 4;
    assert_failure(&config, TROUPE_FAILED, "failed: after_epoch of epoch 1: the loss has");
    config.where = IN_BEFORE_EPOCH;
    config.batch = 0;
    config.trouble = FAILS_QUIETLY;
    assert_failure(&config, TROUPE_IO, "failed: before_epoch of epoch 1: ");
    config.trouble = PLANS_NEGATIVE;
    assert_failure(&config, TROUPE_INVALID, "failed: plan: -1 epochs of 4 batches");
    config.trouble = PLANS_TOO_FAR;
    assert_failure(&config, TROUPE_INVALID, "failed: plan: it begins with epoch 0, batch 5: ");
}

static troupe_status loop(troupe_rank *me, const step_settings *config)
{
    (void)me, (void)config;
    return TROUPE_OK;
}
TROUPE_TRAINER(loop, step_settings, .before_batch = count_step);
TROUPE_STEPS(endless, step_settings, .step = count_step);
TROUPE_STEPS(idle, step_settings, .plan = count_plan, .before_epoch = count_step);

// A01: a trainer has a loop function, or what the library's loop needs.
static void test_a_trainer_without_a_hook_is_refused(void **state)
{
    (void)state;
    assert_int_equal(troupe_trainer_register(&troupe_trainer_idle), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text,
                           "trainer 'idle' has no loop: its hook 'run' is missing, or 'step'"));
    assert_int_equal(troupe_trainer_register(&troupe_trainer_endless), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "its hook 'plan' is missing"));
    assert_int_equal(troupe_trainer_register(&troupe_trainer_loop), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "never calls its hook 'before_batch'"));
    troupe_job *job;
    step_settings config = plain(1, 1);
    assert_int_equal(troupe_submit(endless, &config, NULL, &job, .storage = storage),
                     TROUPE_INVALID);
    troupe_trainer other = troupe_trainer_line;
    troupe_stages stages = *other.stages;
    other.stages = &stages;
    assert_int_equal(troupe_trainer_register(&other), TROUPE_OK);
    stages.step = stages.before_batch;
    assert_int_equal(troupe_trainer_register(&other), TROUPE_EXISTS);
}

// ---- going on

// After a rank that was killed, in the middle of an epoch too, the same numbers come out.
static void test_steps_go_on_where_they_were(void **state)
{
    (void)state;
    step_settings config = plain(4, 3);
    troupe_result *whole, *broken;
    for (int batches = 0; batches < 2; batches++) {
        config = plain(4, 3);
        config.saves_batches = batches;
        troupe_must(run(&config, 0, &whole));
        config.trouble = DIES;
        config.victim = 1;
        config.epoch = 2;
        config.batch = batches ? 2 : 0;
        config.where = IN_BEFORE_BATCH;
        config.checkpoint = batches ? 9 : 1;
        config.folder = support_directory_make();
        troupe_must(run(&config, 1, &broken));
        assert_int_equal(troupe_result_restarts(broken), 1);
        assert_int_equal(troupe_result_reports(broken), batches ? 16 : 4);
        step_model a = model_of(whole, 1), b = model_of(broken, 1);
        assert_memory_equal(&a.slope, &b.slope, sizeof a.slope);
        assert_memory_equal(&a.offset, &b.offset, sizeof a.offset);
        assert_int_equal(b.epoch, 4);
        assert_string_equal(b.note, "kept");
        char *path = support_path(config.folder, "log_0_1"), *text = support_read_file(path);
        assert_non_null(strstr(text, batches ? "plan\nbefore epoch 2 from 2\nbefore batch 2.2\n"
                                             : "plan\nbefore epoch 2 from 0\nbefore batch 2.0\n"));
        free(text);
        free(path);
        support_directory_remove((char *)(uintptr_t)config.folder);
        troupe_result_free(&whole);
        troupe_result_free(&broken);
        troupe_arena_reset();
    }
}

static void stop_at_3(void *user, troupe_job *job, const troupe_report_event *event)
{
    (void)user;
    if (event->number == 3)
        troupe_job_stop(job);
}

static void test_a_stop_ends_the_loop_between_its_hooks(void **state)
{
    (void)state;
    step_settings config = plain(1000000, 1);
    troupe_job *job;
    troupe_result *result;
    config.folder = support_directory_make();
    troupe_follower told = {.size = sizeof told, .report = stop_at_3};
    troupe_must(troupe_submit(line, &config, &told, &job, .ranks = 2, .storage = storage));
    troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &result));
    assert_int_equal(troupe_result_status(result), TROUPE_OK);
    assert_true(troupe_result_stopped(result));
    int reports = troupe_result_reports(result);
    char expected[64];
    snprintf(expected, sizeof expected, "\nteardown at %d.1\n", reports - 1);
    for (int rank = 0; rank < 2; rank++) {
        char *path = support_path(config.folder, rank ? "log_1_0" : "log_0_0");
        char *text = support_read_file(path);
        assert_non_null(strstr(text, expected));
        free(text);
        free(path);
    }
    assert_int_equal(model_of(result, 0).epoch, reports);
    support_directory_remove((char *)(uintptr_t)config.folder);
    troupe_result_free(&result);
    troupe_job_close(&job);
    troupe_arena_reset();
}

// The training is done before its last epoch; not where a rank goes on.
static void test_the_training_may_be_done_at_the_end_of_an_epoch(void **state)
{
    (void)state;
    step_settings config = plain(1000000, 2);
    troupe_result *result;
    config.trouble = IS_DONE;
    config.epoch = 4;
    config.victim = ALL_RANKS;
    for (int again = 0; again < 2; again++) { // It has ended, as any that has.
        troupe_must(troupe_train(line, &config, &result, .ranks = 2, .storage = storage,
                                 .name = "done", .open = TROUPE_OPEN_RESUME_OR_NEW));
        assert_false(troupe_result_stopped(result));
        assert_int_equal(troupe_result_reports(result), 5);
        assert_int_equal(model_of(result, 0).epoch, 5);
        troupe_result_free(&result);
    }
    config.victim = 1;
    assert_int_equal(run(&config, 0, &result), TROUPE_PEER_LOST);
    assert_non_null(strstr(troupe_result_error(result),
                           "rank 1 has left its loop, which had ended well: all ranks must end "
                           "with the same epoch or report"));
    troupe_result_free(&result);
    troupe_arena_reset();
}

// ---- memory

static long resident_kib(void)
{
    char *text = support_read_file("/proc/self/status");
    const char *at = text ? strstr(text, "VmRSS:") : NULL;
    long kib = at ? strtol(at + 6, NULL, 10) : -1;
    free(text);
    return kib;
}

static troupe_status greedy_step(troupe_rank *me, const step_settings *config)
{
    enum { SIZE = 1 << 20, MOST_KIB = 512 << 10 }; // Sanitizers keep 256 MiB that were freed.
    char *memory = troupe_arena_alloc(SIZE);
    if (!memory)
        return TROUPE_NO_MEMORY;
    memset(memory, 1, SIZE);
    if (me->batch + 1 < config->batches)
        return TROUPE_OK;
    return resident_kib() < MOST_KIB ? TROUPE_OK
                                     : troupe_fail(TROUPE_FAILED, "it has %ld KiB", resident_kib());
}
TROUPE_STEPS(greedy, step_settings, .plan = count_plan, .step = greedy_step);

static void test_what_a_step_allocates_goes_with_it(void **state)
{
    (void)state;
    step_settings config = plain(1, 1024);
    troupe_result *result;
    troupe_status status = troupe_train(greedy, &config, &result, .storage = storage);
    assert_string_equal(troupe_result_error(result), "");
    assert_int_equal(status, TROUPE_OK);
    troupe_result_free(&result);
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .cpus = 4));
    storage = support_directory_make();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hooks_come_in_their_order),
        cmocka_unit_test(test_hooks_may_be_left_out),
        cmocka_unit_test(test_a_hook_that_fails_names_itself),
        cmocka_unit_test(test_a_trainer_without_a_hook_is_refused),
        cmocka_unit_test(test_steps_go_on_where_they_were),
        cmocka_unit_test(test_a_stop_ends_the_loop_between_its_hooks),
        cmocka_unit_test(test_the_training_may_be_done_at_the_end_of_an_epoch),
        cmocka_unit_test(test_what_a_step_allocates_goes_with_it),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    support_directory_remove(storage);
    return troupe_stop() || failed;
}
