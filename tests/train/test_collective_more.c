// test_collective_more.c: reduce-scatter, all-gather, memory that all ranks reach, and operations
// that go on beside the loop, in groups of forked ranks.
#include "team.h"

#include <inttypes.h>

// Where a rank's values lie.
typedef enum where { PRIVATE, SHARED, MIXED, WHERES } where;

// Small whole numbers, whose sums are exact in every type.
static int number(int rank, size_t i)
{
    return (int)((i * 7 + (size_t)rank * 5) % 11);
}

// Memory for `size` bytes: of every second rank it is private where it is mixed.
static void *memory(trp_member *group, size_t size, where kind)
{
    void *data = NULL;
    if (kind != PRIVATE)
        CHECK(trp_shared_alloc(group, size, &data) == TROUPE_OK);
    if (kind == PRIVATE || (kind == MIXED && group->rank % 2))
        data = malloc(size + 1);
    CHECK(data);
    return data;
}

static void forget(trp_member *group, void *data, where kind)
{
    if (kind == PRIVATE || (kind == MIXED && group->rank % 2))
        free(data);
}

static void put(troupe_dtype element, void *values, size_t i, int value)
{
    float wide = (float)value;
    uint32_t bits;
    switch (element) {
    case TROUPE_FLOAT64:
        ((double *)values)[i] = value;
        break;
    case TROUPE_FLOAT32:
        ((float *)values)[i] = wide;
        break;
    case TROUPE_BFLOAT16:
        memcpy(&bits, &wide, sizeof bits);
        ((uint16_t *)values)[i] = (uint16_t)(bits >> 16);
        break;
    case TROUPE_FLOAT16: // Of 1 to 2047: no fraction is lost.
        memcpy(&bits, &wide, sizeof bits);
        ((uint16_t *)values)[i] =
            value ? (uint16_t)((((bits >> 23) - 112) << 10) | (bits >> 13 & 0x3FF)) : 0;
        break;
    default:
        for (size_t k = 0; k < troupe_dtype_size(element); k++)
            ((unsigned char *)values)[i * troupe_dtype_size(element) + k] =
                k == 0 ? (unsigned char)value : 0;
    }
}

static int expected(int world, size_t i, troupe_reduction how)
{
    int value = number(0, i);
    for (int rank = 1; rank < world; rank++) {
        int other = number(rank, i);
        value = how == TROUPE_MIN   ? (other < value ? other : value)
                : how == TROUPE_MAX ? (other > value ? other : value)
                                    : value + other;
    }
    return value;
}

static void check_values(const trp_member *group, troupe_dtype element, troupe_reduction how,
                         const void *values, size_t count, size_t first)
{
    unsigned char one[8];
    size_t width = troupe_dtype_size(element);
    for (size_t i = 0; i < count; i++) {
        put(element, one, 0, expected(group->world, first + i, how));
        CHECK(memcmp(one, (const unsigned char *)values + i * width, width) == 0);
    }
}

static const size_t counts[] = {0, 1, 17, 1000, TRP_SHM_SLOT / 8 + 3, TRP_SHM_SLOT / 2 + 129};
enum { COUNTS = sizeof counts / sizeof *counts };

static void reduce_types(trp_member *group)
{
    for (int kind = 0; kind < WHERES; kind++) {
        unsigned char *values = (unsigned char *)memory(group, counts[COUNTS - 1] * 8 + 64, kind);
        for (int element = TROUPE_INT8; element <= TROUPE_FLOAT64; element++)
            for (size_t c = 0; c < COUNTS; c++) {
                troupe_reduction how = c % 3 == 0   ? TROUPE_SUM
                                       : c % 3 == 1 ? TROUPE_MIN
                                                    : TROUPE_MAX;
                if (counts[c] > 3000 && ((size_t)(element + kind) + c) % 3)
                    continue;                    // Of the large ones, a third.
                void *at = values + (c % 2) * 8; // In shared memory too, not all at one place.
                for (size_t i = 0; i < counts[c]; i++)
                    put((troupe_dtype)element, at, i, number(group->rank, i));
                CHECK(trp_allreduce(group, at, counts[c], (troupe_dtype)element, how) == TROUPE_OK);
                check_values(group, (troupe_dtype)element, how, at, counts[c], 0);
            }
        forget(group, values, kind);
    }
}

static void test_all_types_wherever_values_lie(void **state)
{
    (void)state;
    for (int world = 1; world <= 3; world++)
        play(world, reduce_types);
}

static void scatter_and_gather(trp_member *group)
{
    size_t world = (size_t)group->world, most = counts[COUNTS - 1];
    for (int kind = 0; kind < WHERES; kind++) {
        float *values = (float *)memory(group, (world * most + 1) * sizeof *values, kind);
        float *own = (float *)memory(group, (most + 1) * sizeof *own, kind);
        for (size_t c = 0; c < COUNTS; c++) {
            size_t count = counts[c];
            for (int in_place = 0; in_place < 2; in_place++) {
                float *part = in_place ? values + (size_t)group->rank * count : own;
                for (size_t i = 0; i < world * count; i++)
                    values[i] = (float)number(group->rank, i);
                CHECK(trp_reduce_scatter(group, values, count, part, TROUPE_FLOAT32, TROUPE_SUM) ==
                      TROUPE_OK);
                check_values(group, TROUPE_FLOAT32, TROUPE_SUM, part, count,
                             (size_t)group->rank * count);
                // What others reduced of it has not been touched.
                size_t other = (size_t)(group->rank + 1) % world;
                for (size_t i = 0; i < count && other != (size_t)group->rank; i++)
                    CHECK(values[other * count + i] ==
                          (float)number(group->rank, other * count + i));
                CHECK(trp_all_gather(group, part, count * sizeof *part, values) == TROUPE_OK);
                check_values(group, TROUPE_FLOAT32, TROUPE_SUM, values, world * count, 0);
            }
        }
        forget(group, values, kind);
        forget(group, own, kind);
    }
}

static void test_reduce_scatter_and_all_gather(void **state)
{
    (void)state;
    for (int world = 1; world <= 4; world++)
        play(world, scatter_and_gather);
}

static void broadcast_from_shared_memory(trp_member *group)
{
    size_t size = 3 * TRP_SHM_SLOT + 5;
    unsigned char *data = (unsigned char *)memory(group, size, MIXED);
    for (int root = 0; root < group->world; root++) {
        memset(data, group->rank == root ? 10 + root : 0, size);
        CHECK(trp_broadcast(group, data, size, root) == TROUPE_OK);
        for (size_t i = 0; i < size; i++)
            CHECK(data[i] == 10 + root);
    }
    forget(group, data, MIXED);
}

static void test_broadcast_from_shared_memory(void **state)
{
    (void)state;
    play(3, broadcast_from_shared_memory);
}

// 1e16 + 1 - 1e16 is 0 in the order of ranks alone; so are the bits of any cut.
static void same_bits(trp_member *group)
{
    enum { COUNT = 50001 };
    double *shared = (double *)memory(group, COUNT * sizeof *shared, SHARED);
    double *private = (double *)memory(group, COUNT * sizeof *private, PRIVATE);
    for (size_t i = 0; i < COUNT; i++)
    private[i] = shared[i] = (number(group->rank, i) - 5) * (i % 2 ? 1e16 : 0.1) / 3;
    double single = private[COUNT - 1];
    CHECK(trp_allreduce(group, shared, COUNT, TROUPE_FLOAT64, TROUPE_MEAN) == TROUPE_OK);
    CHECK(trp_allreduce(group, private, COUNT, TROUPE_FLOAT64, TROUPE_MEAN) == TROUPE_OK);
    CHECK(trp_allreduce(group, &single, 1, TROUPE_FLOAT64, TROUPE_MEAN) == TROUPE_OK);
    CHECK(memcmp(shared, private, COUNT * sizeof *shared) == 0);
    CHECK(memcmp(&single, &private[COUNT - 1], sizeof single) == 0);
    forget(group, private, PRIVATE);
}

static void test_the_bits_do_not_depend_on_the_way(void **state)
{
    (void)state;
    play(4, same_bits);
}

// ---- beside the loop

static uint64_t start(trp_member *group, void *values, size_t count)
{
    uint64_t number = 0;
    CHECK(trp_collective_start(group,
                               &(trp_request){.operation = TRP_ALLREDUCE,
                                              .to = values,
                                              .count = count,
                                              .element = TROUPE_INT64},
                               &number) == TROUPE_OK);
    return number;
}

static void start_and_call(trp_member *group)
{
    enum { HANDLES = 20, COUNT = 20000 };
    static int64_t values[HANDLES][COUNT];
    uint64_t started[HANDLES];
    int64_t ranks = group->world, weight = ranks * (ranks + 1) / 2;
    for (int round = 0; round < 20; round++) {
        for (int k = 0; k < HANDLES; k++) {
            for (size_t i = 0; i < COUNT; i++)
                values[k][i] = (int64_t)i * (group->rank + 1) + k;
            started[k] = start(group, values[k], k % 3 ? COUNT : 3);
            if (k % 7 == 3) { // What is called comes after what was started.
                int64_t one = 1;
                CHECK(trp_allreduce(group, &one, 1, TROUPE_INT64, TROUPE_SUM) == TROUPE_OK);
                CHECK(one == ranks);
                CHECK(trp_collective_ended(group, started[k]));
            }
        }
        for (int k = HANDLES - 1; k >= 0; k--) {
            if (k != 5)
                CHECK(trp_collective_wait(group, started[k]) == TROUPE_OK);
            CHECK(trp_collective_ended(group, started[k]));
            for (size_t i = 0; i < (k % 3 ? COUNT : 3); i++)
                CHECK(values[k][i] == (int64_t)i * weight + k * ranks);
        }
        CHECK(trp_collective_wait(group, started[0]) == TROUPE_INVALID); // Once.
    }
    CHECK(trp_collective_wait(group, 0) == TROUPE_INVALID);
    CHECK(trp_collective_wait(group, 1 << 20) == TROUPE_INVALID);
    trp_member_leave(group, TROUPE_OK, "");
}

static void test_what_is_started_ends_in_order(void **state)
{
    (void)state;
    for (int i = 0; i < ENGINES; i++)
        for (int world = 1; world <= 3; world++)
            play_on(engines[i], world, start_and_call);
}

static void other_starts(trp_member *group)
{
    int64_t values[4] = {1, 2, 3, 4};
    uint64_t first = start(group, values, group->rank ? 3 : 4), second = start(group, values, 2);
    CHECK(trp_collective_wait(group, second) == TROUPE_OK); // Those that agree do.
    CHECK(trp_collective_wait(group, first) == TROUPE_INVALID);
    CHECK(strstr(troupe_last_error()->text, "troupe_allreduce: rank"));
    CHECK(strstr(troupe_last_error()->text, "passed"));
}

static void test_starts_that_differ_are_named_by_the_wait(void **state)
{
    (void)state;
    play(2, other_starts);
}

static void start_for_ever(trp_member *group)
{
    static int64_t values[2][100000];
    troupe_status status = TROUPE_OK;
    while (status == TROUPE_OK) {
        uint64_t first = start(group, values[0], 100000), second = start(group, values[1], 1000);
        status = trp_collective_wait(group, second);
        troupe_status earlier = trp_collective_wait(group, first);
        status = status == TROUPE_OK ? earlier : status;
    }
    CHECK(status == TROUPE_PEER_LOST);
    CHECK(strstr(troupe_last_error()->text, "troupe_allreduce: rank 1 is lost"));
    trp_member_leave(group, status, "");
}

static void test_a_rank_killed_ends_what_was_started(void **state)
{
    (void)state;
    for (int round = 0; round < 6; round++) {
        team all = team_make(engines[round % ENGINES], 3);
        team_start(&all, start_for_ever, 60000);
        usleep(2000 + round * 777);
        assert_int_equal(kill(all.pids[1], SIGKILL), 0);
        assert_int_equal(WTERMSIG(team_wait(&all, 1)), SIGKILL);
        int64_t before = support_now_ms();
        assert_true(trp_control_end(all.control, all.engine, TRP_END_DIED, 1));
        team_end(&all, 1);
        assert_true(support_now_ms() - before < 5000);
    }
}

enum { HANG_MS = 100, LONG_MS = 60000 };

// Rank 0 alone gives it up: it waits for rank 1 before it does for rank 2, which may be late.
static void one_hangs(trp_member *group)
{
    int64_t values[3] = {0};
    char wanted[80];
    if (group->rank == 1)
        for (;;)
            pause();
    group->timeout_ms = group->rank == 0 ? HANG_MS : LONG_MS;
    snprintf(wanted, sizeof wanted, "troupe_allreduce: rank 1 did not come within %d ms",
             group->timeout_ms);
    uint64_t started = start(group, values, 1);
    CHECK(trp_collective_wait(group, started) == TROUPE_PEER_LOST);
    CHECK(strstr(troupe_last_error()->text, wanted));
    CHECK(trp_reduce_scatter(group, values, 1, values, TROUPE_INT64, TROUPE_SUM) ==
          TROUPE_PEER_LOST);
    CHECK(trp_all_gather(group, values, 8, values) == TROUPE_PEER_LOST);
    void *data;
    CHECK(trp_shared_alloc(group, 64, &data) == TROUPE_PEER_LOST);
    CHECK(strstr(troupe_last_error()->text, "troupe_shared_alloc: rank 1 did not come"));
}

static void test_a_rank_that_hangs_is_named(void **state)
{
    (void)state;
    team all = team_make(&trp_engine_shm, 3);
    team_start(&all, one_hangs, HANG_MS);
    assert_int_equal(team_wait(&all, 0), 0);
    assert_int_equal(team_wait(&all, 2), 0);
    assert_int_equal(kill(all.pids[1], SIGKILL), 0);
    assert_int_equal(WTERMSIG(team_wait(&all, 1)), SIGKILL);
    team_forget(&all);
}

// A loop that fails does not wait for what it has started; one that ends well does.
static void leave_early(trp_member *group)
{
    static int64_t values[1000];
    bool fails = group->timeout_ms == LONG_MS;
    CHECK(trp_barrier(group) == TROUPE_OK);
    if (group->rank == 0) {
        (void)start(group, values, 1000);
        trp_member_leave(group, fails ? TROUPE_FAILED : TROUPE_OK, "the reason");
        return;
    }
    if (fails) {
        while (trp_member_is_whole(group)) // A moment after it has said that it left.
            usleep(500);
        CHECK(trp_barrier(group) == TROUPE_PEER_LOST);
        CHECK(strstr(troupe_last_error()->text, "rank 0 has left its loop"));
    } else {
        usleep(20000);
        CHECK(trp_allreduce(group, values, 1000, TROUPE_INT64, TROUPE_SUM) == TROUPE_OK);
    }
    trp_member_leave(group, TROUPE_OK, "");
}

static void test_leaving_with_something_started(void **state)
{
    (void)state;
    for (int fails = 0; fails < 2; fails++) {
        team all = team_make(&trp_engine_shm, 2);
        int64_t before = support_now_ms();
        team_start(&all, leave_early, fails ? LONG_MS : TIMEOUT_MS);
        team_end(&all, -1);
        assert_true(support_now_ms() - before < 30000);
    }
}

// ---- misuse

static void differ_in_more(trp_member *group)
{
    static float values[64];
    void *data = NULL;
    int me = group->rank;
    const char *text = troupe_last_error()->text;
    CHECK(trp_reduce_scatter(group, values, me ? 4 : 5, values, TROUPE_FLOAT32, TROUPE_SUM) ==
          TROUPE_INVALID);
    CHECK(strstr(text, "troupe_reduce_scatter: rank") && strstr(text, " values and rank "));
    CHECK(trp_all_gather(group, values, me ? 4 : 5, values) == TROUPE_INVALID);
    CHECK(strstr(text, "troupe_all_gather: rank") && strstr(text, " bytes and rank "));
    CHECK((me ? trp_all_gather(group, values, 4, values)
              : trp_reduce_scatter(group, values, 4, values, TROUPE_FLOAT32, TROUPE_SUM)) ==
          TROUPE_INVALID);
    CHECK(strstr(text, "called troupe_reduce_scatter") && strstr(text, "called troupe_all_gather"));
    CHECK(trp_shared_alloc(group, me ? 100 : 200, &data) == TROUPE_INVALID);
    CHECK(strstr(text, "troupe_shared_alloc: rank") && strstr(text, "200"));
    CHECK((me ? trp_barrier(group) : trp_shared_alloc(group, 8, &data)) == TROUPE_INVALID);
    CHECK(strstr(text, "troupe_shared_alloc") && strstr(text, "troupe_barrier"));
    CHECK(trp_shared_alloc(group, TEAM_BYTES, &data) == TROUPE_NO_MEMORY);
    CHECK(strstr(text, "troupe_shared_alloc: 67108864 bytes for each of 2 ranks: "));
    CHECK(!data && trp_shared_alloc(group, SIZE_MAX, &data) == TROUPE_TOO_LARGE);

    // What only this rank can see.
    CHECK(trp_reduce_scatter(group, NULL, 1, values, TROUPE_FLOAT32, TROUPE_SUM) == TROUPE_INVALID);
    CHECK(trp_reduce_scatter(group, values, SIZE_MAX / 4, values, TROUPE_FLOAT32, TROUPE_SUM) ==
          TROUPE_INVALID);
    CHECK(trp_all_gather(group, values, 1, NULL) == TROUPE_INVALID);
    CHECK(trp_allreduce(group, values, 1, TROUPE_FLOAT32, (troupe_reduction)4) == TROUPE_INVALID);
    CHECK(trp_allreduce(group, values, 1, (troupe_dtype)77, TROUPE_SUM) == TROUPE_INVALID);
    scatter_and_gather(group); // In step still.
}

static void test_more_calls_that_differ(void **state)
{
    (void)state;
    play(2, differ_in_more);
}

static void ask_the_other_engine(trp_member *group)
{
    int64_t values[2] = {0};
    void *data;
    const char *text = troupe_last_error()->text;
    CHECK(trp_reduce_scatter(group, values, 1, values, TROUPE_INT64, TROUPE_SUM) ==
          TROUPE_UNSUPPORTED);
    CHECK(strstr(text, "troupe_reduce_scatter: the engine 'socket' does not have it"));
    CHECK(trp_all_gather(group, values, 8, values) == TROUPE_UNSUPPORTED);
    CHECK(strstr(text, "troupe_all_gather: the engine 'socket'"));
    CHECK(trp_shared_alloc(group, 8, &data) == TROUPE_UNSUPPORTED);
    CHECK(strstr(text, "troupe_shared_alloc: the engine 'socket'"));
    CHECK(trp_barrier(group) == TROUPE_OK);
}

static void test_what_an_engine_leaves_out_is_unsupported(void **state)
{
    (void)state;
    play_on(&engine_socket, 2, ask_the_other_engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_types_wherever_values_lie),
        cmocka_unit_test(test_reduce_scatter_and_all_gather),
        cmocka_unit_test(test_broadcast_from_shared_memory),
        cmocka_unit_test(test_the_bits_do_not_depend_on_the_way),
        cmocka_unit_test(test_what_is_started_ends_in_order),
        cmocka_unit_test(test_starts_that_differ_are_named_by_the_wait),
        cmocka_unit_test(test_a_rank_killed_ends_what_was_started),
        cmocka_unit_test(test_a_rank_that_hangs_is_named),
        cmocka_unit_test(test_leaving_with_something_started),
        cmocka_unit_test(test_more_calls_that_differ),
        cmocka_unit_test(test_what_an_engine_leaves_out_is_unsupported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
