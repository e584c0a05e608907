// test_library_trainer.c: a trainer that a library offers and a program completes (sgd.h), and
// checkpoints at the frequency that a run is asked for.
#include "sgd.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <support.h>
#include <unistd.h>

enum { POINTS = 100, EPOCHS = 12 };

TROUPE_STRUCT(line_config, (double, rate), (int, epochs), (int, dies_at));

static char *storage;

static double line_part(const troupe_rank *me, const line_config *config, const double *weights,
                        double *gradient)
{
    static int epoch;
    double loss = 0;
    if (++epoch == config->dies_at && me->rank == 1 && me->attempt == 0)
        kill(getpid(), SIGKILL);
    gradient[0] = gradient[1] = 0;
    for (int i = me->rank; i < POINTS; i += me->world) {
        double x = (double)i / POINTS, error = weights[0] * x + weights[1] - (3 * x + 2);
        gradient[0] += error * x / POINTS;
        gradient[1] += error / POINTS;
        loss += error * error / POINTS;
    }
    return loss;
}
SGD_TRAINER(line, line_config, 2, line_part);

// One that saves as it likes.
static troupe_status whimsical(troupe_rank *me, const line_config *config)
{
    return config->epochs > 0 ? troupe_report(me, {"loss", 1}) : TROUPE_OK;
}
TROUPE_TRAINER(whimsical, line_config);

static double weights_of(const troupe_result *result, int rank, double weights[2])
{
    sgd_state state = {0};
    assert_int_equal(
        troupe_checkpoint_load(sgd_state, troupe_result_checkpoint(result), rank, &state),
        TROUPE_OK);
    assert_int_equal(state.weights.count, 2);
    memcpy(weights, state.weights.items, 2 * sizeof *weights);
    return (double)state.epoch;
}

// D11: the library's loop gives a program's trainer all that runs have: ranks that share the work,
// checkpoints, restarts with the same numbers, and another number of ranks.
static void test_a_trainer_of_a_library_is_a_trainer(void **state)
{
    (void)state;
    line_config config = {0.9, EPOCHS, 0};
    double first[2], second[2];
    troupe_result *result;
    troupe_must(troupe_train(line, &config, &result, .ranks = 2, .storage = storage));
    assert_int_equal(troupe_result_reports(result), EPOCHS);
    double loss = troupe_result_metric(result, "loss");
    assert_true(weights_of(result, 0, first) == EPOCHS && loss < 0.1);
    config.epochs = 300;
    troupe_result *longer;
    troupe_must(troupe_train(line, &config, &longer, .ranks = 3, .storage = storage,
                             .from = troupe_result_checkpoint(result)));
    assert_int_equal(troupe_result_reports(longer), 300 - EPOCHS);
    assert_true(weights_of(longer, 2, second) == 300);
    assert_true(fabs(second[0] - 3) < 0.2 && fabs(second[1] - 2) < 0.1);
    troupe_result_free(&longer);
    troupe_result_free(&result);
    config = (line_config){0.9, EPOCHS, 5};
    troupe_must(
        troupe_train(line, &config, &result, .ranks = 2, .storage = storage, .restarts = 1));
    assert_int_equal(troupe_result_restarts(result), 1);
    assert_true(weights_of(result, 1, second) == EPOCHS);
    assert_memory_equal(first, second, sizeof first);
    assert_true(troupe_result_metric(result, "loss") == loss);
    troupe_result_free(&result);
    troupe_arena_reset();
}

static int checkpoints_of(const troupe_result *result)
{
    char *path = support_path(troupe_result_path(result), "checkpoints"), command[512], answer[32];
    snprintf(command, sizeof command, "ls %s | grep -c '^checkpoint_'", path);
    (void)support_run(command, answer, sizeof answer); // grep fails where it counts 0.
    free(path);
    return atoi(answer);
}

// A15: checkpoints come as often as the run is asked for, and a trainer that has not said that it
// can do that is not asked.
static void test_checkpoints_come_as_often_as_asked(void **state)
{
    (void)state;
    line_config config = {0.9, EPOCHS, 0};
    troupe_result *result = NULL;
    double weights[2];
    struct {
        int every, expected, last;
    } rows[] = {{0, EPOCHS, EPOCHS}, {1, EPOCHS, EPOCHS}, {4, 3, 12}, {5, 2, 10}, {100, 0, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        troupe_must(troupe_train(line, &config, &result, .ranks = 2, .storage = storage,
                                 .checkpoint_every = rows[i].every));
        assert_int_equal(checkpoints_of(result), rows[i].expected);
        if (rows[i].expected)
            assert_true(weights_of(result, 0, weights) == rows[i].last);
        troupe_result_free(&result);
    }
    assert_int_equal(
        troupe_train(whimsical, &config, &result, .storage = storage, .checkpoint_every = 2),
        TROUPE_UNSUPPORTED);
    assert_non_null(strstr(troupe_last_error()->text, "option .checkpoint_every is 2, and trainer "
                                                      "'whimsical' saves as it likes"));
    assert_null(result);
    // What a run was made with holds when it goes on.
    config.dies_at = 6;
    assert_int_equal(troupe_train(line, &config, &result, .ranks = 2, .storage = storage,
                                  .name = "again", .checkpoint_every = 5),
                     TROUPE_PEER_LOST);
    troupe_result_free(&result);
    troupe_must(troupe_train(line, &config, &result, .storage = storage, .name = "again",
                             .open = TROUPE_OPEN_RESUME));
    assert_int_equal(troupe_result_reports(result), EPOCHS);
    assert_int_equal(checkpoints_of(result), 2);
    troupe_result_free(&result);
    troupe_arena_reset();
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .cpus = 4));
    storage = support_directory_make();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_trainer_of_a_library_is_a_trainer),
        cmocka_unit_test(test_checkpoints_come_as_often_as_asked),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    support_directory_remove(storage);
    return troupe_stop() || failed;
}
