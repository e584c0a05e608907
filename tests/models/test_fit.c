// test_fit.c: models in runs: the order of their hooks, what is reported, and going on.
#include "curve_model.h"
#include "line_model.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static char *storage;

static curve_config plain(int64_t epochs, int64_t batch)
{
    return (curve_config){
        .rate = 0.1, .width = 2, .fitting = {.epochs = epochs, .batch = batch, .seed = 7}};
}

// Reads what rank 0's instance was at the end.
static void weights_of(const char *checkpoint, int64_t width, double *weights)
{
    troupe_instance *instance;
    troupe_must(troupe_model_open(curve, checkpoint, NULL, &instance));
    memcpy(weights, troupe_model_self(curve, instance)->weights, (size_t)width * sizeof *weights);
    troupe_model_close(&instance);
}

// ---- the order

// F20, G02, G09: each hook with epoch, batch and rows; the second rank has fewer rows, and saves
// nothing.
static void test_hooks_come_in_their_order(void **state)
{
    (void)state;
    curve_config config = plain(2, 4);
    const points_source source = {.rows = 7, .valid = 3};
    troupe_result *result;
    config.folder = support_directory_make();
    config.fitting.validate_every = 2;
    troupe_must(troupe_train(curve, &config, &result, .ranks = 2, .storage = storage,
                             .data = troupe_data_with(points, &source)));
    assert_int_equal(troupe_result_reports(result), 2);
    // A rank has 2 rows of each batch, and the second one 3 rows in all.
    support_assert_file(config.folder, "log_0_0",
                        "before_setup\nsetup\n"
                        "before_epoch 0\n"
                        "before_batch 0.0: 2\ntrain_step 0.0: 2\nafter_batch 0.0: 2\n"
                        "before_batch 0.1: 2\ntrain_step 0.1: 2\nafter_batch 0.1: 2\n"
                        "after_epoch 0\nsave\n"
                        "before_epoch 1\n"
                        "before_batch 1.0: 2\ntrain_step 1.0: 2\nafter_batch 1.0: 2\n"
                        "before_batch 1.1: 2\ntrain_step 1.1: 2\nafter_batch 1.1: 2\n"
                        "validate_step 1.0: 2\nvalidate_step 1.1: 1\n"
                        "after_epoch 1\nsave\n"
                        "deinit\n");
    support_assert_file(config.folder, "log_1_0",
                        "before_setup\nsetup\n"
                        "before_epoch 0\n"
                        "before_batch 0.0: 2\ntrain_step 0.0: 2\nafter_batch 0.0: 2\n"
                        "before_batch 0.1: 1\ntrain_step 0.1: 1\nafter_batch 0.1: 1\n"
                        "after_epoch 0\n"
                        "before_epoch 1\n"
                        "before_batch 1.0: 2\ntrain_step 1.0: 2\nafter_batch 1.0: 2\n"
                        "before_batch 1.1: 1\ntrain_step 1.1: 1\nafter_batch 1.1: 1\n"
                        "validate_step 1.0: 2\nvalidate_step 1.1: 1\n"
                        "after_epoch 1\n"
                        "deinit\n");
    troupe_result_free(&result);
    support_directory_remove((char *)(uintptr_t)config.folder);
}

// ---- what is reported

typedef struct heard {
    int count;
    char sources[8][64];
    double loss[8], val_loss[8], epoch[8], wait[8];
} heard;

static double metric(const troupe_report_event *event, const char *name)
{
    for (size_t i = 0; i < event->count; i++)
        if (strcmp(event->metrics[i].name, name) == 0)
            return event->metrics[i].value;
    return NAN;
}

static void hear(void *user, troupe_job *job, const troupe_report_event *event)
{
    heard *all = user;
    (void)job;
    if (all->count >= 8)
        return;
    int i = all->count++;
    (void)snprintf(all->sources[i], sizeof all->sources[i], "%s", event->source);
    all->loss[i] = metric(event, "loss");
    all->val_loss[i] = metric(event, "val_loss");
    all->epoch[i] = metric(event, "epoch");
    all->wait[i] = metric(event, "data_wait_s");
}

static heard listen(const curve_config *config, const points_source *source, int ranks)
{
    heard all = {0};
    troupe_job *job;
    troupe_result *result;
    const troupe_follower *follower = TROUPE_OPTIONS(troupe_follower, .report = hear, .user = &all);
    troupe_must(troupe_submit(curve, config, follower, &job, .ranks = ranks, .storage = storage,
                              .data = troupe_data_with(points, source)));
    troupe_must(troupe_job_wait(job, TROUPE_FOREVER, &result));
    assert_int_equal(troupe_result_status(result), TROUPE_OK);
    troupe_job_close(&job);
    troupe_result_free(&result);
    return all;
}

// G07, G08, G09: a source, a mean over all rows, and validation as often as asked.
static void test_reports_have_their_source_and_means(void **state)
{
    (void)state;
    curve_config config = plain(5, 100);
    const points_source source = {.rows = 7, .valid = 4};
    config.fitting.validate_every = 2;
    double expected = 0;
    for (int i = 0; i < 7; i++)
        expected += points_y(i) * points_y(i) / 7; // All weights are 0 at first.
    for (int ranks = 1; ranks <= 3; ranks += 2) {
        heard all = listen(&config, &source, ranks);
        assert_int_equal(all.count, 5);
        assert_true(fabs(all.loss[0] - expected) < 1e-12);
        for (int i = 0; i < 5; i++) {
            bool validated = i == 1 || i == 3 || i == 4;
            assert_string_equal(all.sources[i], validated ? "validate_step" : "train_step");
            assert_true(isnan(all.val_loss[i]) != validated);
            assert_true(all.epoch[i] == i + 1);
            assert_true(all.wait[i] >= 0);
            assert_true(i == 0 || all.loss[i] < all.loss[i - 1]);
        }
    }
}

static void test_reports_come_within_an_epoch_where_asked(void **state)
{
    (void)state;
    curve_config config = plain(1, 2);
    const points_source source = {.rows = 10};
    config.fitting.report_every = 2;
    heard all = listen(&config, &source, 1);
    assert_int_equal(all.count, 3);
    assert_true(all.epoch[0] == 0.4 && all.epoch[1] == 0.8 && all.epoch[2] == 1);
    assert_true(isnan(all.val_loss[2])); // There is no such set.
}

// Early stopping: the report that is the last one says so on all ranks, and has a checkpoint.
static void test_a_model_may_end_its_training(void **state)
{
    (void)state;
    curve_config config = plain(1000, 8);
    const points_source source = {.rows = 8, .valid = 5};
    troupe_result *result;
    config.enough = 0.3;
    troupe_must(troupe_train(curve, &config, &result, .ranks = 2, .storage = storage,
                             .checkpoint_every = 1000, .data = troupe_data_with(points, &source)));
    assert_in_range(troupe_result_reports(result), 2, 999);
    assert_true(troupe_result_metric(result, "val_loss") < config.enough);
    assert_non_null(troupe_result_checkpoint(result));
    troupe_result_free(&result);
    assert_int_equal(troupe_train(curve, &config, &result, .ranks = 2, .storage = storage,
                                  .data = troupe_data_with(points, &(points_source){.rows = 8})),
                     TROUPE_NOT_FOUND);
    assert_non_null(strstr(troupe_result_error(result), "no rank has noted 'val_loss'"));
    troupe_result_free(&result);
}

static void test_the_seed_is_that_of_the_rows_order(void **state)
{
    (void)state;
    const points_source source = {.rows = 9};
    double ends[3][2];
    for (int i = 0; i < 3; i++) {
        curve_config config = plain(2, 3);
        troupe_result *result;
        config.fitting.seed = i < 2 ? 7 : 8;
        troupe_must(troupe_train(curve, &config, &result, .storage = storage,
                                 .data = troupe_data_with(points, &source)));
        weights_of(troupe_result_checkpoint(result), 2, ends[i]);
        troupe_result_free(&result);
    }
    assert_memory_equal(ends[0], ends[1], sizeof ends[0]);
    assert_memory_not_equal(ends[0], ends[2], sizeof ends[0]);
}

static void assert_close(const double a[2], const double b[2])
{
    for (int i = 0; i < 2; i++)
        if (a[i] == 0 || fabs(a[i] - b[i]) > 1e-6 * fabs(a[i]))
            fail_msg("weight %d is %.17g, and %.17g", i, a[i], b[i]);
}

// Equal parts or not, more ranks than rows, a batch that is larger than the set, or that the ranks
// do not divide: the same steps.
static void test_the_number_of_ranks_does_not_change_what_is_learned(void **state)
{
    (void)state;
    static const int sizes[][2] = {{2, 100}, {23, 8}}; // Rows, and those of a step.
    for (int i = 0; i < 2; i++) {
        curve_config config = plain(3, sizes[i][1]);
        const points_source source = {.rows = sizes[i][0]};
        double one[2], three[2];
        for (int ranks = 1; ranks <= 3; ranks += 2) {
            troupe_result *result;
            troupe_must(troupe_train(curve, &config, &result, .ranks = ranks, .storage = storage,
                                     .data = troupe_data_with(points, &source)));
            weights_of(troupe_result_checkpoint(result), 2, ranks == 1 ? one : three);
            troupe_result_free(&result);
        }
        assert_close(one, three);
    }
}

// G06: and it learns.
static void test_a_minimal_model_learns(void **state)
{
    (void)state;
    line_config config = {.rate = 0.2, .fitting = {.epochs = 30, .batch = 8}};
    const points_source source = {.rows = 21, .through_origin = true};
    troupe_result *result;
    troupe_instance *instance;
    troupe_must(troupe_train(line, &config, &result, .ranks = 2, .storage = storage,
                             .data = troupe_data_with(points, &source)));
    assert_true(troupe_result_metric(result, "loss") < 1e-6);
    troupe_must(troupe_model_open(line, troupe_result_checkpoint(result), NULL, &instance));
    assert_true(fabs(troupe_model_self(line, instance)->slope - POINTS_SLOPE) < 1e-3);
    troupe_model_close(&instance);
    troupe_result_free(&result);
}

// ---- going on

// A kill between two checkpoints, in the middle of an epoch: the same bits as without.
static void test_a_killed_rank_costs_nothing(void **state)
{
    (void)state;
    const points_source source = {.rows = 12, .valid = 3};
    for (int together = 1; together <= 2; together++) {
        double undisturbed[2], killed[2];
        for (int kills = 0; kills <= 1; kills++) {
            curve_config config = plain(3, 4);
            troupe_result *result;
            config.fitting.report_every = 2;
            config.trouble = kills ? CURVE_DIES : CURVE_FINE;
            config.victim = 1;
            config.epoch = 1;
            config.batch = 2;
            config.checkpoint = 2; // That of the report after the second batch of this epoch.
            troupe_must(troupe_train(curve, &config, &result, .ranks = 2, .storage = storage,
                                     .restarts = 1, .ranks_per_process = together,
                                     .data = troupe_data_with(points, &source)));
            assert_int_equal(troupe_result_restarts(result), kills);
            weights_of(troupe_result_checkpoint(result), 2, kills ? killed : undisturbed);
            troupe_result_free(&result);
        }
        assert_memory_equal(undisturbed, killed, sizeof killed);
    }
}

static troupe_gate_answer grow(void *user, troupe_job *job, const troupe_report_event *event,
                               int *ranks)
{
    int *had = user;
    (void)job;
    if (event->number == 7)
        *had = *ranks;
    *ranks = event->number == 2 ? 3 : 1;
    return TROUPE_GATE_RESIZE;
}

// One rank, then three from the middle of an epoch on, then one: each goes on from the weights of
// the one before, with the next rows.
static void test_a_resized_run_learns_the_same(void **state)
{
    (void)state;
    const points_source source = {.rows = 23};
    double ends[2][2];
    for (int resized = 0; resized <= 1; resized++) {
        curve_config config = plain(4, 8);
        troupe_result *result;
        int had = 0;
        config.fitting.report_every = 1;
        const troupe_gate *gate =
            TROUPE_OPTIONS(troupe_gate, .first = 2, .every = 5, .decide = grow, .user = &had,
                           .timeout_ms = SUPPORT_SOON_MS);
        troupe_must(troupe_train(curve, &config, &result, .storage = storage,
                                 .gate = resized ? gate : NULL,
                                 .data = troupe_data_with(points, &source)));
        assert_int_equal(troupe_result_reports(result), 12);
        assert_int_equal(had, resized ? 3 : 0);
        weights_of(troupe_result_checkpoint(result), 2, ends[resized]);
        troupe_result_free(&result);
    }
    assert_close(ends[0], ends[1]);
}

// In a process of two ranks, each of whose steps is over when a message says so.
static void test_steps_may_answer_later(void **state)
{
    (void)state;
    const points_source source = {.rows = 9};
    double ends[2][2];
    for (int later = 0; later <= 1; later++) {
        curve_config config = plain(2, 4);
        troupe_result *result;
        config.later = later;
        troupe_must(troupe_train(curve, &config, &result, .ranks = 2, .storage = storage,
                                 .ranks_per_process = 2,
                                 .data = troupe_data_with(points, &source)));
        weights_of(troupe_result_checkpoint(result), 2, ends[later]);
        troupe_result_free(&result);
    }
    assert_memory_equal(ends[0], ends[1], sizeof ends[0]);
}

// The log is written beside the run, and may come after its result.
static bool says_that_nothing_is_left(void *log)
{
    char *text = support_read_file((const char *)log);
    bool says = text != NULL && strstr(text, "nothing is left to train of model 'curve': 5 of 5 "
                                             "epochs are done") != NULL;
    free(text);
    return says;
}

// Another opening goes on; checkpoints come as often as asked, and with the last report.
static void test_a_run_goes_on_after_its_end(void **state)
{
    (void)state;
    const points_source source = {.rows = 8};
    curve_config config = plain(5, 4), longer = plain(8, 4);
    double whole[2], parts[2];
    troupe_result *result;
    troupe_must(troupe_train(curve, &longer, &result, .storage = storage,
                             .data = troupe_data_with(points, &source)));
    weights_of(troupe_result_checkpoint(result), 2, whole);
    troupe_result_free(&result);
    troupe_must(troupe_train(curve, &config, &result, .storage = storage, .checkpoint_every = 2,
                             .data = troupe_data_with(points, &source)));
    assert_non_null(strstr(troupe_result_checkpoint(result), "checkpoint_000002"));
    char from[4096];
    (void)snprintf(from, sizeof from, "%s", troupe_result_checkpoint(result));
    troupe_result_free(&result);
    troupe_must(troupe_train(curve, &longer, &result, .storage = storage, .from = from,
                             .data = troupe_data_with(points, &source)));
    assert_int_equal(troupe_result_reports(result), 3);
    weights_of(troupe_result_checkpoint(result), 2, parts);
    assert_memory_equal(whole, parts, sizeof whole);
    troupe_result_free(&result);

    // With the epochs that the checkpoint has done nothing is left, which the run says.
    troupe_must(troupe_train(curve, &config, &result, .storage = storage, .from = from,
                             .name = "nothing_left", .data = troupe_data_with(points, &source)));
    assert_int_equal(troupe_result_reports(result), 0);
    troupe_result_free(&result);
    char *log = support_path(storage, "nothing_left/log/rank_00000.log");
    if (!support_wait_until(says_that_nothing_is_left, log, SUPPORT_SOON_MS))
        fail_msg("%s does not say that nothing is left", log);
    free(log);
}

static void test_a_run_in_memory_goes_on(void **state)
{
    (void)state;
    const points_source source = {.rows = 8};
    curve_config config = plain(4, 4);
    troupe_result *result;
    config.trouble = CURVE_FAILS;
    config.epoch = 2;
    config.batch = 1;
    troupe_must(troupe_train(curve, &config, &result, .ranks = 2, .storage = storage, .restarts = 1,
                             .keep = TROUPE_NONE, .data = troupe_data_with(points, &source)));
    assert_int_equal(troupe_result_reports(result), 4);
    assert_int_equal(troupe_result_restarts(result), 1);
    assert_null(troupe_result_checkpoint(result));
    troupe_result_free(&result);
}

// ---- weights alone

// G01, G27: the checkpoint has all that makes the model; a setting that asks for another is named.
static void test_a_checkpoint_makes_the_model(void **state)
{
    (void)state;
    const points_source source = {.rows = 9};
    curve_config config = plain(3, 4);
    troupe_result *result;
    troupe_instance *instance = NULL;
    config.width = 3;
    troupe_must(troupe_train(curve, &config, &result, .storage = storage,
                             .data = troupe_data_with(points, &source)));
    const char *checkpoint = troupe_result_checkpoint(result);
    troupe_must(troupe_model_open(curve, checkpoint, "{\"rate\": 9}", &instance));
    assert_int_equal(troupe_model_config_of(curve, instance)->width, 3);
    assert_true(troupe_model_config_of(curve, instance)->rate == 9);
    double in[2] = {0, 1}, *w = troupe_model_self(curve, instance)->weights;
    troupe_tensor x = troupe_tensor_of(TROUPE_FLOAT64, in, 2), y;
    troupe_must(troupe_model_forward(instance, &x, &y));
    assert_true(w[0] != 0 && ((const double *)y.data)[0] == w[0]);
    assert_true(fabs(((const double *)y.data)[1] - (w[0] + w[1] + w[2])) < 1e-12);
    troupe_model_close(&instance);

    assert_int_equal(troupe_model_open(curve, checkpoint, "{\"width\": 5}", &instance),
                     TROUPE_WRONG_TYPE);
    const char *text = troupe_last_error()->text;
    assert_non_null(strstr(text, "'weights' is float64[3] there, and model 'curve' expects "
                                 "float64[5]: width is 3 in the checkpoint's config and 5 in "
                                 "this one"));
    assert_int_equal(troupe_model_open(line, checkpoint, NULL, &instance), TROUPE_WRONG_TYPE);
    assert_non_null(strstr(text, "is of 'curve', not of model 'line'"));
    assert_null(instance);
    troupe_result_free(&result);
    troupe_arena_reset();
}

// ---- what takes a trainer takes a model

// G01.
static void test_a_sweep_takes_a_model(void **state)
{
    (void)state;
    static const points_source source = {.rows = 8, .valid = 4};
    const troupe_param space[] = {
        TROUPE_CHOICE(curve_config, rate, 0.001, 0.1),
        TROUPE_FIXED(curve_config, fitting.epochs, 3),
    };
    troupe_sweep *sweep;
    troupe_must(troupe_tune(curve, space, &sweep, .search = TROUPE_SEARCH_GRID,
                            .metric = "val_loss", .goal = TROUPE_MINIMIZE,
                            .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage,
                                                    .data = troupe_data_with(points, &source))));
    const curve_config *best = troupe_best(curve, sweep);
    assert_true(best->rate == 0.1);
    assert_int_equal(best->fitting.epochs, 3);
    assert_int_equal(best->fitting.batch, 4); // A default.
    troupe_sweep_free(&sweep);
}

TROUPE_STRUCT(unrelated, (double, size));
TROUPE_SPACE(curve, TROUPE_CHOICE(curve_config, rate, 0.001, 0.1),
             TROUPE_FIXED(curve_config, fitting.epochs, 3), TROUPE_UNIFORM(unrelated, size, 0, 1));

// G14.
static void test_a_model_brings_its_space(void **state)
{
    (void)state;
    static const points_source source = {.rows = 8, .valid = 4};
    troupe_sweep *sweep;
    troupe_must(troupe_tune_own(
        curve, &sweep, .search = TROUPE_SEARCH_GRID, .metric = "val_loss", .goal = TROUPE_MINIMIZE,
        .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage,
                                .data = troupe_data_with(points, &source))));
    assert_int_equal(troupe_sweep_count(sweep), 2);
    const curve_config *best = troupe_best(curve, sweep);
    assert_true(best->rate == 0.1);
    assert_int_equal(best->fitting.epochs, 3);
    troupe_sweep_free(&sweep);
}

static void slow_down(void *user, troupe_job *job, const troupe_report_event *event)
{
    (void)user;
    if (event->number == 1)
        troupe_must(troupe_job_modify(curve, job, rate, 0));
}

// A rate of 0 leaves the weights alone: then the loss stays as it is. There are more epochs than
// are made until it has come.
static void test_live_values_reach_the_hooks(void **state)
{
    (void)state;
    const points_source source = {.rows = 8};
    curve_config config = plain(INT32_MAX, 8);
    const troupe_follower *follower = TROUPE_OPTIONS(troupe_follower, .report = slow_down);
    troupe_job *job;
    troupe_result *result;
    config.stops_when_still = true;
    troupe_must(troupe_submit(curve, &config, follower, &job, .storage = storage, .ranks = 2,
                              .keep = TROUPE_NONE, .data = troupe_data_with(points, &source)));
    troupe_must(troupe_job_wait(job, TROUPE_FOREVER, &result));
    assert_int_equal(troupe_result_status(result), TROUPE_FAILED);
    assert_non_null(strstr(troupe_result_error(result), "the rate is 0"));
    troupe_job_close(&job);
    troupe_result_free(&result);
}

// ---- mistakes

static void assert_failure(const curve_config *config, const points_source *source, int ranks,
                           troupe_status expected, const char *text)
{
    troupe_result *result;
    troupe_status status =
        source ? troupe_train(curve, config, &result, .ranks = ranks, .storage = storage,
                              .data = troupe_data_with(points, source))
               : troupe_train(curve, config, &result, .ranks = ranks, .storage = storage);
    assert_int_equal(status, expected);
    if (!strstr(troupe_result_error(result), text))
        fail_msg("expected '%s' in: %s", text, troupe_result_error(result));
    troupe_result_free(&result);
}

static void test_a_hook_that_fails_is_named(void **state)
{
    (void)state;
    const points_source source = {.rows = 8, .valid = 2};
    curve_config config = plain(2, 4);
    config.trouble = CURVE_FAILS;
    config.victim = 1;
    config.epoch = 1;
    config.batch = 1;
    assert_failure(&config, &source, 2, TROUPE_FAILED,
                   "step of epoch 1, batch 1: train_step: the curve is steep");
    config.trouble = CURVE_IS_NAN;
    assert_failure(&config, &source, 2, TROUPE_FAILED,
                   "step of epoch 1, batch 1: train_step: the metric 'loss' is nan: expected a "
                   "finite number");
    config.trouble = CURVE_NOTES_ALONE;
    assert_failure(&config, &source, 2, TROUPE_INVALID,
                   "rank 1 has noted 'odd', which rank 0 has not");
    config.trouble = CURVE_FAILS_TO_VALIDATE;
    assert_failure(&config, &source, 2, TROUPE_FAILED,
                   "after_epoch of epoch 1: validate_step: the curve is steep");
    config.trouble = CURVE_FAILS_TO_START;
    assert_failure(&config, &source, 2, TROUPE_FAILED, "no paper for 2 ranks");
    config.trouble = CURVE_WRONG_COLUMN;
    assert_failure(&config, &source, 2, TROUPE_NOT_FOUND,
                   "train_step: a batch has no column 'points': it has point");
}

static void test_a_fitting_out_of_range_is_named(void **state)
{
    (void)state;
    const points_source source = {.rows = 8};
    curve_config config = plain(0, 4);
    assert_failure(&config, &source, 1, TROUPE_INVALID,
                   "fitting.epochs of model 'curve' is 0: expected 1 or more");
    config = plain(1, 0);
    assert_failure(&config, &source, 1, TROUPE_INVALID, "fitting.batch of model 'curve' is 0");
    config = plain(1, 1);
    config.fitting.validate_every = -3;
    assert_failure(&config, &source, 1, TROUPE_INVALID, "fitting.validate_every of model 'curve'");
    config.fitting.validate_every = 1;
    assert_failure(&config, &source, 1, TROUPE_NOT_FOUND, "valid");
    config.fitting.validate_every = 0;
    config.fitting.report_every = -1;
    assert_failure(&config, &source, 1, TROUPE_INVALID, "fitting.report_every of model 'curve'");
}

static void test_data_that_are_missing_are_named(void **state)
{
    (void)state;
    const points_source empty = {.rows = 0}, other = {.rows = 4, .other_name = true};
    curve_config config = plain(1, 4);
    assert_failure(&config, NULL, 1, TROUPE_NOT_FOUND, "train");
    assert_failure(&config, &other, 1, TROUPE_NOT_FOUND, "teach");
    assert_failure(&config, &empty, 1, TROUPE_INVALID, "train");
}

static void test_a_checkpoint_of_another_config_is_named(void **state)
{
    (void)state;
    const points_source source = {.rows = 8};
    curve_config config = plain(1, 4);
    troupe_result *result, *failed;
    troupe_must(troupe_train(curve, &config, &result, .storage = storage,
                             .data = troupe_data_with(points, &source)));
    config.width = 4;
    assert_int_equal(troupe_train(curve, &config, &failed, .storage = storage,
                                  .from = troupe_result_checkpoint(result),
                                  .data = troupe_data_with(points, &source)),
                     TROUPE_WRONG_TYPE);
    assert_non_null(strstr(troupe_result_error(failed),
                           "'weights' is float64[2] there, and model 'curve' expects float64[4]: "
                           "width is 2 in the checkpoint's config and 4 in this one"));
    troupe_result_free(&result);
    troupe_result_free(&failed);
}

typedef line mute, bare; // The names of two more models.
TROUPE_MODEL(mute, line_config, line, line_setup, line_forward);
TROUPE_STRUCT(bare_config, (double, rate));
static troupe_status bare_setup(line *self, const bare_config *config, troupe_use *use)
{
    self->rate = config->rate * use->world;
    return TROUPE_OK;
}
TROUPE_MODEL(bare, bare_config, line, bare_setup, line_forward, .train_step = line_train_step);

static void test_a_model_that_cannot_be_trained_says_why(void **state)
{
    (void)state;
    line_config config = troupe_defaults(mute);
    bare_config other = troupe_defaults(bare);
    troupe_result *result;
    assert_int_equal(troupe_train(mute, &config, &result, .storage = storage), TROUPE_UNSUPPORTED);
    assert_non_null(strstr(troupe_result_error(result), "'mute' cannot be trained: it has no hook "
                                                        "train_step"));
    troupe_result_free(&result);
    assert_int_equal(troupe_train(bare, &other, &result, .storage = storage), TROUPE_UNSUPPORTED);
    assert_non_null(strstr(troupe_result_error(result), "no member of type troupe_fitting"));
    troupe_result_free(&result);
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .cpus = 4));
    storage = support_directory_make();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hooks_come_in_their_order),
        cmocka_unit_test(test_reports_have_their_source_and_means),
        cmocka_unit_test(test_reports_come_within_an_epoch_where_asked),
        cmocka_unit_test(test_a_model_may_end_its_training),
        cmocka_unit_test(test_the_seed_is_that_of_the_rows_order),
        cmocka_unit_test(test_the_number_of_ranks_does_not_change_what_is_learned),
        cmocka_unit_test(test_a_minimal_model_learns),
        cmocka_unit_test(test_a_killed_rank_costs_nothing),
        cmocka_unit_test(test_a_resized_run_learns_the_same),
        cmocka_unit_test(test_steps_may_answer_later),
        cmocka_unit_test(test_a_run_goes_on_after_its_end),
        cmocka_unit_test(test_a_run_in_memory_goes_on),
        cmocka_unit_test(test_a_checkpoint_makes_the_model),
        cmocka_unit_test(test_a_sweep_takes_a_model),
        cmocka_unit_test(test_a_model_brings_its_space),
        cmocka_unit_test(test_live_values_reach_the_hooks),
        cmocka_unit_test(test_a_hook_that_fails_is_named),
        cmocka_unit_test(test_a_fitting_out_of_range_is_named),
        cmocka_unit_test(test_data_that_are_missing_are_named),
        cmocka_unit_test(test_a_checkpoint_of_another_config_is_named),
        cmocka_unit_test(test_a_model_that_cannot_be_trained_says_why),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    support_directory_remove(storage);
    return failed ? failed : troupe_stop();
}
