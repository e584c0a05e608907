// test_collective.c: groups of forked ranks: the same bits on all of them, and an end to every
// wait.
// timeout: 120
#include "team.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

// A value of some rank and place that is different for each and not exact in binary.
static double number(int rank, size_t i)
{
    uint64_t mixed = (uint64_t)(rank + 1) * 0x9E3779B97F4A7C15u + i * 0xBF58476D1CE4E5B9u;
    mixed ^= mixed >> 29;
    return ((double)(mixed >> 20) / 1e9 - 8000.0) / 7.0;
}

#define REDUCE_TYPE(T, ELEMENT)                                                                    \
    static void reduce_##T(trp_member *group, size_t count, troupe_reduction how)                  \
    {                                                                                              \
        T *values = malloc((count + 1) * sizeof(T));                                               \
        CHECK(values);                                                                             \
        for (size_t i = 0; i < count; i++)                                                         \
            values[i] = (T)number(group->rank, i);                                                 \
        values[count] = (T)77;                                                                     \
        CHECK(trp_allreduce(group, values, count, ELEMENT, how) == TROUPE_OK);                     \
        for (size_t i = 0; i < count; i++) {                                                       \
            T expected = (T)number(0, i);                                                          \
            for (int rank = 1; rank < group->world; rank++) {                                      \
                T other = (T)number(rank, i);                                                      \
                if (how == TROUPE_MIN)                                                             \
                    expected = other < expected ? other : expected;                                \
                else if (how == TROUPE_MAX)                                                        \
                    expected = other > expected ? other : expected;                                \
                else                                                                               \
                    expected = expected + other;                                                   \
            }                                                                                      \
            if (how == TROUPE_MEAN)                                                                \
                expected /= (T)group->world;                                                       \
            CHECK(memcmp(&values[i], &expected, sizeof(T)) == 0);                                  \
        }                                                                                          \
        CHECK(values[count] == (T)77);                                                             \
        free(values);                                                                              \
    }
REDUCE_TYPE(float, TROUPE_FLOAT32)
REDUCE_TYPE(double, TROUPE_FLOAT64)
REDUCE_TYPE(int64_t, TROUPE_INT64)

static void reduce_everything(trp_member *group)
{
    const size_t slot = TRP_SHM_SLOT;
    const size_t counts[] = {0,
                             1,
                             2,
                             3,
                             63,
                             255,
                             256,
                             257,
                             1024,
                             1025,
                             2049,
                             slot / 8 - 1,
                             slot / 8,
                             slot / 8 + 1,
                             slot / 4 - 1,
                             slot / 4,
                             slot / 4 + 1,
                             slot / 2 + 5};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        for (troupe_reduction how = TROUPE_SUM; how <= TROUPE_MAX; how++) {
            if (counts[i] > 3000 && (size_t)how != i % 4)
                continue; // Of the large ones, one each.
            reduce_float(group, counts[i], how);
            reduce_double(group, counts[i], how);
            reduce_int64_t(group, counts[i], how);
        }
    }
}

static void test_all_elements_reductions_and_sizes(void **state)
{
    (void)state;
    for (int world = 1; world <= 4; world++)
        play(world, reduce_everything);
}

static void reduce_special_values(trp_member *group)
{
    // Rank 0 has the first of each pair, the others the second.
    const double mine[2][4] = {{NAN, 1.0, -0.0, INFINITY}, {1.0, NAN, 0.0, -INFINITY}};
    double low[4], high[4], sum[4];
    memcpy(low, mine[group->rank != 0], sizeof low);
    memcpy(high, low, sizeof high);
    memcpy(sum, low, sizeof sum);
    CHECK(trp_allreduce(group, low, 4, TROUPE_FLOAT64, TROUPE_MIN) == TROUPE_OK);
    CHECK(trp_allreduce(group, high, 4, TROUPE_FLOAT64, TROUPE_MAX) == TROUPE_OK);
    CHECK(trp_allreduce(group, sum, 4, TROUPE_FLOAT64, TROUPE_SUM) == TROUPE_OK);
    CHECK(isnan(low[0]) && isnan(low[1]) && isnan(high[0]) && isnan(high[1]) && isnan(sum[3]));
    CHECK(low[3] == -INFINITY && high[3] == INFINITY);
    CHECK(signbit(low[2]) && signbit(high[2]) && !signbit(sum[2])); // Equal: the first rank's.

    int64_t whole[2] = {INT64_MAX, group->rank == 0 ? -7 : 0};
    int64_t mean[2] = {1, group->rank == 0 ? -7 : 0};
    CHECK(trp_allreduce(group, whole, 2, TROUPE_INT64, TROUPE_SUM) == TROUPE_OK);
    CHECK(trp_allreduce(group, mean, 2, TROUPE_INT64, TROUPE_MEAN) == TROUPE_OK);
    CHECK(whole[0] == -2 && whole[1] == -7); // Wraps around.
    CHECK(mean[0] == 1 && mean[1] == -3);    // Truncates.
}

static void test_infinities_nan_and_overflow(void **state)
{
    (void)state;
    play(2, reduce_special_values);
}

static void broadcast_sizes(trp_member *group)
{
    const size_t sizes[] = {
        0, 1, 7, 4096, TRP_SHM_SLOT - 1, TRP_SHM_SLOT, TRP_SHM_SLOT + 1, 3 * TRP_SHM_SLOT + 11};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (int root = 0; root < group->world; root++) {
            unsigned char *data = malloc(sizes[s] + 1);
            CHECK(data);
            for (size_t i = 0; i <= sizes[s]; i++)
                data[i] = (unsigned char)(group->rank == root ? i * 31 + (size_t)root : 0xEE);
            unsigned char guard = data[sizes[s]];
            CHECK(trp_broadcast(group, data, sizes[s], root) == TROUPE_OK);
            for (size_t i = 0; i < sizes[s]; i++)
                CHECK(data[i] == (unsigned char)(i * 31 + (size_t)root));
            CHECK(data[sizes[s]] == guard);
            free(data);
        }
    }
}

static void test_broadcast_reaches_all(void **state)
{
    (void)state;
    for (int i = 0; i < ENGINES; i++)
        for (int world = 1; world <= 4; world++)
            play_on(engines[i], world, broadcast_sizes);
}

// Many operations of changing size and kind, without a pause, so that slots are reused at once.
static void mixed_operations(trp_member *group)
{
    uint64_t seed = 11;
    for (int round = 0; round < 1000; round++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t count = (seed >> 40) % (round % 50 == 0 ? 70000 : 900);
        int root = (int)(seed >> 20) % group->world;
        if (root < 0)
            root = -root;
        if (round % 3 == 0) {
            int64_t value = group->rank == root ? round : -1;
            CHECK(trp_broadcast(group, &value, sizeof value, root) == TROUPE_OK);
            CHECK(value == round);
        } else if (round % 7 == 1) {
            CHECK(trp_barrier(group) == TROUPE_OK);
        } else {
            int64_t *values = malloc((count + 1) * sizeof *values);
            CHECK(values);
            for (size_t i = 0; i < count; i++)
                values[i] = (int64_t)i * (group->rank + 1) + round;
            CHECK(trp_allreduce(group, values, count, TROUPE_INT64, TROUPE_SUM) == TROUPE_OK);
            int64_t ranks = group->world, weight = ranks * (ranks + 1) / 2;
            for (size_t i = 0; i < count; i++)
                CHECK(values[i] == (int64_t)i * weight + round * ranks);
            free(values);
        }
    }
}

static void test_operations_follow_each_other(void **state)
{
    (void)state;
    for (int i = 0; i < ENGINES; i++)
        for (int world = 2; world <= 4; world++)
            play_on(engines[i], world, mixed_operations);
}

// The order of ranks decides, not who comes first: 1e16 + 1 - 1e16 is 0 in this order only.
static void late_ranks(trp_member *group)
{
    const double mine[3] = {1e16, 1.0, -1e16};
    for (int round = 0; round < 60; round++) {
        if (group->rank == round % group->world)
            usleep(500);
        double values[2000];
        size_t count = round % 2 ? 2000 : 1;
        for (size_t i = 0; i < count; i++)
            values[i] = mine[group->rank];
        CHECK(trp_allreduce(group, values, count, TROUPE_FLOAT64, TROUPE_SUM) == TROUPE_OK);
        for (size_t i = 0; i < count; i++)
            CHECK(values[i] == 0.0);
    }
}

static void test_the_result_does_not_depend_on_timing(void **state)
{
    (void)state;
    for (int i = 0; i < ENGINES; i++)
        play_on(engines[i], 3, late_ranks);
}

static void different_arguments(trp_member *group)
{
    double values[8] = {0};
    int me = group->rank;
    size_t count = me == 1 ? 3 : 4;
    CHECK(trp_allreduce(group, values, count, TROUPE_FLOAT64, TROUPE_SUM) == TROUPE_INVALID);
    const char *text = troupe_last_error()->text;
    CHECK(strstr(text, me == 1 ? "rank 1 passed 3 values and rank 0 4" : "and rank 1 3"));

    troupe_dtype element = me == 1 ? TROUPE_FLOAT32 : TROUPE_FLOAT64;
    CHECK(trp_allreduce(group, values, 4, element, TROUPE_SUM) == TROUPE_INVALID);
    CHECK(strstr(text, "float32") && strstr(text, "float64"));
    CHECK(trp_allreduce(group, values, 4, TROUPE_BOOL, TROUPE_SUM) == TROUPE_INVALID);
    CHECK(strstr(text, "bool"));

    troupe_reduction how = me == 0 ? TROUPE_MIN : TROUPE_MAX;
    CHECK(trp_allreduce(group, values, 4, TROUPE_FLOAT64, how) == TROUPE_INVALID);
    CHECK(strstr(text, "TROUPE_MIN") && strstr(text, "TROUPE_MAX"));

    CHECK(trp_broadcast(group, values, 8, me == 0) == TROUPE_INVALID);
    CHECK(strstr(text, "root 0") && strstr(text, "root 1"));
    CHECK(trp_broadcast(group, values, me == 2 ? 16 : 8, 0) == TROUPE_INVALID);
    CHECK(strstr(text, "16") && strstr(text, "8"));

    troupe_status mixed =
        me == 0 ? trp_barrier(group) : trp_allreduce(group, values, 8, TROUPE_FLOAT64, TROUPE_SUM);
    CHECK(mixed == TROUPE_INVALID);
    CHECK(strstr(text, "troupe_barrier") && strstr(text, "troupe_allreduce"));

    // What only this rank can see needs nobody else, and leaves the group in step.
    CHECK(trp_allreduce(group, NULL, 1, TROUPE_FLOAT64, TROUPE_SUM) == TROUPE_INVALID);
    CHECK(trp_broadcast(group, values, 8, 3) == TROUPE_INVALID);
    CHECK(trp_broadcast(group, values, 8, -1) == TROUPE_INVALID);
    mixed_operations(group);
}

static void test_differing_calls_are_named_and_do_no_harm(void **state)
{
    (void)state;
    play(3, different_arguments);
}

static void reduce_for_ever(trp_member *group)
{
    static double values[150000];
    troupe_status status = TROUPE_OK;
    while (status == TROUPE_OK)
        status = trp_allreduce(group, values, 150000, TROUPE_FLOAT64, TROUPE_SUM);
    CHECK(status == TROUPE_PEER_LOST);
    CHECK(strstr(troupe_last_error()->text, "troupe_allreduce: rank 1 is lost"));
}

static void test_a_rank_killed_in_a_collective_ends_it(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++) {
        team all = team_make(engines[round % ENGINES], 3);
        team_start(&all, reduce_for_ever, 60000);
        usleep(2000 + round * 777);
        assert_int_equal(kill(all.pids[1], SIGKILL), 0);
        assert_int_equal(WTERMSIG(team_wait(&all, 1)), SIGKILL);
        int64_t before = support_now_ms();
        assert_true(trp_control_end(all.control, all.engine, TRP_END_DIED, 1));
        assert_false(trp_control_end(all.control, all.engine, TRP_END_OVER, 0));
        team_end(&all, 1);
        assert_true(support_now_ms() - before < 5000);
    }
}

enum { AWAY_MS = 1000 };

// They have met before, so that those which come do so at about the same time.
static void one_stays_away(trp_member *group)
{
    CHECK(trp_barrier(group) == TROUPE_OK);
    group->timeout_ms = AWAY_MS;
    if (group->rank == 2) // Until the others have given it up.
        while (trp_member_is_whole(group))
            usleep(1000);
    CHECK(trp_barrier(group) == TROUPE_PEER_LOST);
    CHECK(strstr(troupe_last_error()->text, "troupe_barrier: rank 2 did not come within 1000 ms"));
    CHECK(trp_barrier(group) == TROUPE_PEER_LOST); // For good.
}

static void test_a_rank_that_does_not_come_is_named(void **state)
{
    (void)state;
    for (int i = 0; i < ENGINES; i++) {
        team all = team_make(engines[i], 3);
        team_start(&all, one_stays_away, 60000);
        for (int rank = 0; rank < 3; rank++)
            assert_int_equal(team_wait(&all, rank), 0);
        int rank = -1;
        assert_int_equal(trp_control_ended(all.control, &rank), TRP_END_LATE);
        assert_int_equal(rank, 2);
        team_forget(&all);
    }
}

static void one_leaves(trp_member *group)
{
    CHECK(trp_barrier(group) == TROUPE_OK);
    if (group->rank == 1) {
        trp_member_leave(group, TROUPE_INVALID, "the reason");
        return;
    }
    CHECK(trp_barrier(group) == TROUPE_PEER_LOST);
    CHECK(strstr(troupe_last_error()->text, "rank 1 has left its loop"));
}

static void test_a_rank_that_leaves_is_not_waited_for(void **state)
{
    (void)state;
    for (int i = 0; i < ENGINES; i++) {
        team all = team_make(engines[i], 3);
        int64_t before = support_now_ms();
        team_start(&all, one_leaves, 60000);
        for (int rank = 0; rank < 3; rank++)
            assert_int_equal(team_wait(&all, rank), 0);
        assert_true(support_now_ms() - before < 10000);
        troupe_status status = TROUPE_OK;
        const char *text = NULL;
        assert_true(trp_control_left(all.control, 1, &status, &text));
        assert_int_equal(status, TROUPE_INVALID);
        assert_string_equal(text, "the reason");
        assert_false(trp_control_left(all.control, 0, &status, &text));
        team_forget(&all);
    }
}

static void test_wrong_memory_is_refused(void **state)
{
    (void)state;
    const trp_engine *engine = &trp_engine_shm;
    team all = team_make(engine, 2);
    trp_member group;
    assert_int_equal(trp_member_open(&group, all.control, all.size, engine, 0, 3, 1, 0),
                     TROUPE_CORRUPT);
    assert_int_equal(trp_member_open(&group, all.control, all.size - 1, engine, 0, 2, 1, 0),
                     TROUPE_CORRUPT);
    assert_int_equal(trp_member_open(&group, all.control, all.size, engine, 2, 2, 1, 0),
                     TROUPE_CORRUPT);
    assert_int_equal(trp_member_open(&group, all.control, all.size, engine, -1, 2, 1, 0),
                     TROUPE_CORRUPT);
    all.control->magic++;
    assert_int_equal(trp_member_open(&group, all.control, all.size, engine, 0, 2, 1, 0),
                     TROUPE_CORRUPT);
    team_forget(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_elements_reductions_and_sizes),
        cmocka_unit_test(test_infinities_nan_and_overflow),
        cmocka_unit_test(test_broadcast_reaches_all),
        cmocka_unit_test(test_operations_follow_each_other),
        cmocka_unit_test(test_the_result_does_not_depend_on_timing),
        cmocka_unit_test(test_differing_calls_are_named_and_do_no_harm),
        cmocka_unit_test(test_a_rank_killed_in_a_collective_ends_it),
        cmocka_unit_test(test_a_rank_that_does_not_come_is_named),
        cmocka_unit_test(test_a_rank_that_leaves_is_not_waited_for),
        cmocka_unit_test(test_wrong_memory_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
