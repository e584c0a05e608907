// test_collective_run.c: collectives as the loops of a run call and start them.
#include "support.h"

#include <signal.h>
#include <troupe.h>
#include <unistd.h>

enum { COUNT = 100000 };

TROUPE_STRUCT(ways, (int, trouble));

static double value_of(int rank, size_t i)
{
    return (double)((i * 7 + (size_t)rank * 5) % 11);
}

// All operations on memory that the ranks share and on memory that they do not.
static troupe_status all_ways(troupe_rank *me, double *values, double *parts)
{
    size_t each = COUNT / (size_t)me->world;
    for (size_t i = 0; i < COUNT; i++)
        values[i] = value_of(me->rank, i);
    TROUPE_TRY(troupe_reduce_scatter(me, values, each, parts, TROUPE_SUM));
    TROUPE_TRY(troupe_all_gather(me, parts, each * sizeof *parts, values));
    troupe_collective first = troupe_broadcast_start(me, parts, 8, 0);
    troupe_collective second = troupe_allreduce_start(me, values, each, TROUPE_MAX);
    TROUPE_TRY(troupe_collective_wait(me, second));
    TROUPE_TRY(troupe_collective_wait(me, first));
    if (!troupe_collective_ended(me, second))
        return troupe_fail(TROUPE_FAILED, "it has ended and is said not to have");
    TROUPE_TRY(troupe_barrier(me));
    for (size_t i = 0; i < each * (size_t)me->world; i++) {
        double sum = 0;
        for (int rank = 0; rank < me->world; rank++)
            sum += value_of(rank, i);
        if (values[i] != sum)
            return troupe_fail(TROUPE_FAILED, "value %zu is %g, not %g", i, values[i], sum);
    }
    double first_sum = values[0];
    return parts[0] == first_sum ? TROUPE_OK : troupe_fail(TROUPE_FAILED, "not rank 0's");
}

static troupe_status try_ways(troupe_rank *me)
{
    static double values[COUNT], parts[COUNT];
    double *shared = (double *)troupe_shared_alloc(me, COUNT * sizeof *shared);
    double *more = (double *)troupe_shared_alloc(me, COUNT * sizeof *more);
    if (!shared || !more)
        return troupe_last_error()->status;
    for (size_t i = 0; i < COUNT; i++)
        if (shared[i] != 0)
            return troupe_fail(TROUPE_FAILED, "it is not zeroed");
    TROUPE_TRY(troupe_barrier(me));
    TROUPE_TRY(all_ways(me, values, parts));
    TROUPE_TRY(all_ways(me, shared, more));
    TROUPE_TRY(all_ways(me, shared, parts));
    int8_t small[3] = {1, 2, 3};
    uint16_t halves[2] = {0x3F80, 0x4000}; // 1 and 2 as bfloat16.
    TROUPE_TRY(troupe_allreduce(me, small, 3, TROUPE_SUM));
    TROUPE_TRY(troupe_allreduce_as(me, halves, 2, TROUPE_BFLOAT16, TROUPE_MEAN));
    if (small[2] != 3 * me->world || halves[0] != 0x3F80 || halves[1] != 0x4000)
        return troupe_fail(TROUPE_FAILED, "small values are not what they were");
    if (troupe_barrier_start(me).number_ == 0) // Waited for by the end.
        return troupe_last_error()->status;
    return TROUPE_OK;
}

static troupe_status run_ways(troupe_rank *me, const ways *config)
{
    static int64_t values[COUNT];
    TROUPE_TRY(try_ways(me));
    if (config->trouble && me->rank == 1 && me->attempt == 0) {
        usleep(2000);
        kill(getpid(), SIGKILL);
    }
    troupe_collective started = troupe_allreduce_start(me, values, COUNT, TROUPE_SUM);
    TROUPE_TRY(troupe_collective_wait(me, started));
    return troupe_report(me, {"attempt", me->attempt});
}
TROUPE_TRAINER(run_ways, ways);

static troupe_status plan_ways(troupe_rank *me, const ways *config, troupe_plan *plan)
{
    (void)me, (void)config;
    *plan = (troupe_plan){.epochs = 1, .batches = 2};
    return TROUPE_OK;
}

static troupe_status step_ways(troupe_rank *me, const ways *config)
{
    static _Thread_local int64_t sum;
    (void)config;
    int64_t *values = (int64_t *)troupe_shared_alloc(me, COUNT * sizeof *values);
    if (!values)
        return troupe_last_error()->status;
    for (size_t i = 0; i < COUNT; i++)
        values[i] = (int64_t)i + me->rank;
    troupe_collective started = troupe_allreduce_start(me, values, COUNT, TROUPE_SUM);
    TROUPE_TRY(troupe_collective_wait(me, started));
    sum = values[COUNT - 1];
    int64_t expected = (int64_t)me->world * (COUNT - 1) + (int64_t)me->world * (me->world - 1) / 2;
    return sum == expected ? TROUPE_OK : troupe_fail(TROUPE_FAILED, "the sum is %ld", (long)sum);
}
TROUPE_STEPS(steps_of_ways, ways, .plan = plan_ways, .step = step_ways);

static char *folder;

static void test_all_operations_in_a_run(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 3; ranks++) {
        troupe_result *result = NULL;
        troupe_must(troupe_train(run_ways, &(ways){0}, &result, .ranks = ranks, .storage = folder));
        assert_int_equal(troupe_result_restarts(result), 0);
        troupe_result_free(&result);
    }
}

static void test_a_rank_killed_while_others_wait_for_a_start(void **state)
{
    (void)state;
    troupe_result *result = NULL;
    troupe_must(
        troupe_train(run_ways, &(ways){1}, &result, .ranks = 3, .storage = folder, .restarts = 1));
    assert_int_equal(troupe_result_restarts(result), 1);
    assert_true(troupe_result_metric(result, "attempt") == 1);
    troupe_result_free(&result);
}

static void test_ranks_that_share_a_process(void **state)
{
    (void)state;
    troupe_result *result = NULL;
    troupe_must(troupe_train(steps_of_ways, &(ways){0}, &result, .ranks = 4, .ranks_per_process = 2,
                             .storage = folder));
    troupe_result_free(&result);
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .cpus = 4));
    folder = support_directory_make();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_operations_in_a_run),
        cmocka_unit_test(test_a_rank_killed_while_others_wait_for_a_start),
        cmocka_unit_test(test_ranks_that_share_a_process),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    support_directory_remove(folder);
    return troupe_stop() || failed;
}
