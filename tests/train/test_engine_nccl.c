// test_engine_nccl.c: groups of forked ranks whose arrays lie on devices, with a library that
// stands in for CUDA and NCCL (tests/standin): results, the order of calls, and an end to every
// wait, whatever NCCL does.
#include "team.h"

#include <troupe/device.h>

static char *folder; // Of the test, with the log of all calls.

static char *log_path(void)
{
    return support_path(folder, "calls");
}

// How often the stand-in was called by that rank.
static int count_calls(const char *function, int rank)
{
    char line[80], *path = log_path(), *log = support_read_file(path), *rest = NULL;
    int count = 0;
    snprintf(line, sizeof line, "%s %d", function, rank);
    for (char *at = log ? strtok_r(log, "\n", &rest) : NULL; at; at = strtok_r(NULL, "\n", &rest))
        count += strcmp(at, line) == 0;
    free(log);
    free(path);
    return count;
}

static int set_up(void **state)
{
    (void)state;
    folder = support_directory_make();
    char *path = log_path();
    setenv("STANDIN_LOG", path, 1);
    free(path);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    support_directory_remove(folder);
    return 0;
}

// Leaves as a loop does, so that the engine is closed.
static void leave(trp_member *group)
{
    trp_member_leave(group, TROUPE_OK, "");
}

static const char *said(void)
{
    return troupe_last_error()->text;
}

static void *on_device(trp_member *group, const void *data, size_t size)
{
    void *memory;
    CHECK(troupe_device_alloc(size, &memory) == TROUPE_OK);
    CHECK(troupe_device_copy_bytes(memory, data, size, NULL) == TROUPE_OK);
    return memory;
}

static void take_back(trp_member *group, void *data, void *device, size_t size)
{
    CHECK(troupe_device_copy_bytes(data, device, size, NULL) == TROUPE_OK);
    troupe_device_free(&device);
}

// One more sum, which has to come out right.
static void sum_once(trp_member *group)
{
    float values[5], expected = 0;
    for (int rank = 0; rank < group->world; rank++)
        expected += (float)(rank + 1);
    for (int i = 0; i < 5; i++)
        values[i] = (float)(group->rank + 1);
    void *device = on_device(group, values, sizeof values);
    CHECK(trp_allreduce(group, device, 5, TROUPE_FLOAT32, TROUPE_SUM) == TROUPE_OK);
    take_back(group, values, device, sizeof values);
    CHECK(values[0] == expected && values[4] == expected);
}

// ---- results

static const troupe_dtype types[] = {TROUPE_INT8,  TROUPE_UINT8,  TROUPE_INT32,   TROUPE_UINT32,
                                     TROUPE_INT64, TROUPE_UINT64, TROUPE_FLOAT32, TROUPE_FLOAT64};

// Numbers that differ by rank and place, the same in all types.
static void fill(void *values, size_t count, troupe_dtype element, int rank)
{
    for (size_t i = 0; i < count; i++) {
        int number = (int)((i * 7 + (size_t)rank * 13) % 31);
        if (element == TROUPE_FLOAT32)
            ((float *)values)[i] = (float)number / 7;
        else if (element == TROUPE_FLOAT64)
            ((double *)values)[i] = (double)number / 7;
        else // Little-endian: the first bytes.
            memcpy((char *)values + i * troupe_dtype_size(element), &(int64_t){number},
                   troupe_dtype_size(element));
    }
}

static void reduce_both(trp_member *group, troupe_dtype element, troupe_reduction how, size_t count)
{
    size_t parts = (size_t)group->world, size = count * parts * troupe_dtype_size(element);
    unsigned char *host = malloc(size), *again = malloc(size), *part = malloc(size);
    CHECK(host && again && part);
    fill(host, count * parts, element, group->rank);
    void *device = on_device(group, host, size), *other = on_device(group, host, size);
    void *scattered = on_device(group, host, size / parts);
    CHECK(trp_reduce_scatter(group, host, count, part, element, how) == TROUPE_OK);
    CHECK(trp_reduce_scatter(group, other, count, scattered, element, how) == TROUPE_OK);
    take_back(group, again, scattered, size / parts);
    CHECK(memcmp(part, again, size / parts) == 0);
    take_back(group, again, other, size);
    CHECK(memcmp(host, again, size) == 0); // Only read.
    CHECK(trp_allreduce(group, host, count * parts, element, how) == TROUPE_OK);
    CHECK(trp_allreduce(group, device, count * parts, element, how) == TROUPE_OK);
    take_back(group, again, device, size);
    CHECK(memcmp(host, again, size) == 0);
    free(host);
    free(again);
    free(part);
}

static void reduce_all(trp_member *group)
{
    static const size_t counts[] = {1, 3, 1000};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (troupe_reduction how = TROUPE_SUM; how <= TROUPE_MAX; how++)
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                if (how != TROUPE_MEAN || types[t] >= TROUPE_FLOAT32)
                    reduce_both(group, types[t], how, counts[c]);
    leave(group);
}

static void test_reductions_are_those_of_memory_of_the_host(void **state)
{
    (void)state;
    for (int world = 1; world <= 3; world++)
        play(world, reduce_all);
}

static void exchange(trp_member *group)
{
    enum { SIZE = 1001 };
    size_t world = (size_t)group->world;
    unsigned char *mine = malloc(SIZE), *all = malloc(SIZE * world);
    CHECK(mine && all);
    support_fill(mine, SIZE, (uint64_t)group->rank + 1);
    memset(all, 0, SIZE * world);
    void *from = on_device(group, mine, SIZE), *to = on_device(group, all, SIZE * world);
    CHECK(trp_all_gather(group, from, SIZE, to) == TROUPE_OK);
    for (int root = 0; root < group->world; root++) {
        void *sent = on_device(group, mine, SIZE);
        CHECK(trp_broadcast(group, sent, SIZE, root) == TROUPE_OK);
        take_back(group, all, sent, SIZE);
        CHECK(support_is_filled(all, SIZE, (uint64_t)root + 1));
    }
    take_back(group, all, to, SIZE * world);
    for (size_t rank = 0; rank < world; rank++)
        CHECK(support_is_filled(all + rank * SIZE, SIZE, rank + 1));
    troupe_device_free(&from);
    // No values are nobody's memory, and need no device.
    CHECK(trp_allreduce(group, NULL, 0, TROUPE_FLOAT32, TROUPE_SUM) == TROUPE_OK);
    free(mine);
    free(all);
    leave(group);
}

static void test_exchanges_come_where_they_belong(void **state)
{
    (void)state;
    for (int world = 1; world <= 3; world++)
        play(world, exchange);
}

static void start_some(trp_member *group)
{
    enum { STARTED = 4, COUNT = 300 };
    float values[COUNT];
    void *devices[STARTED];
    uint64_t numbers[STARTED];
    for (int s = 0; s < STARTED; s++) {
        for (int i = 0; i < COUNT; i++)
            values[i] = (float)(s + i + group->rank);
        devices[s] = on_device(group, values, sizeof values);
        trp_request request = {.operation = TRP_ALLREDUCE,
                               .to = devices[s],
                               .count = COUNT,
                               .element = TROUPE_FLOAT32,
                               .how = TROUPE_SUM};
        CHECK(trp_collective_start(group, &request, &numbers[s]) == TROUPE_OK);
    }
    sum_once(group);
    for (int s = STARTED - 1; s >= 0; s--) {
        CHECK(trp_collective_wait(group, numbers[s]) == TROUPE_OK);
        take_back(group, values, devices[s], sizeof values);
        for (int i = 0; i < COUNT; i++)
            CHECK(values[i] == (float)(2 * (s + i) + 1));
    }
    leave(group);
}

static void test_what_is_started_is_done_in_order(void **state)
{
    (void)state;
    play(2, start_some);
}

// ---- the order of calls

static void two_sums(trp_member *group)
{
    sum_once(group);
    sum_once(group);
    leave(group);
}

static void test_a_communicator_is_made_once_and_ended_in_order(void **state)
{
    (void)state;
    play(2, two_sums);
    char *path = log_path(), *log = support_read_file(path), *rest = NULL, seen[2][400] = {"", ""};
    assert_non_null(log);
    for (char *at = strtok_r(log, "\n", &rest); at; at = strtok_r(NULL, "\n", &rest)) {
        int rank = at[strlen(at) - 1] - '0';
        if (strncmp(at, "nccl", 4) == 0 && !strstr(at, " -1")) {
            at[strlen(at) - 1] = '\0';
            strcat(seen[rank], at);
        }
    }
    for (int rank = 0; rank < 2; rank++)
        assert_string_equal(seen[rank], "ncclCommInitRankConfig ncclAllReduce ncclAllReduce "
                                        "ncclCommFinalize ncclCommDestroy ");
    assert_int_equal(count_calls("ncclGetUniqueId", -1), 1); // Before it has a rank.
    assert_int_equal(count_calls("ncclGetVersion", -1), 2);
    free(log);
    free(path);
}

static void host_only(trp_member *group)
{
    double value = 1;
    CHECK(trp_allreduce(group, &value, 1, TROUPE_FLOAT64, TROUPE_SUM) == TROUPE_OK);
    leave(group);
}

static void test_memory_of_the_host_does_not_load_anything(void **state)
{
    (void)state;
    play(2, host_only);
    char *path = log_path();
    assert_false(support_exists(path));
    free(path);
}

// ---- mistakes

static void differ_in_all_ways(trp_member *group)
{
    float values[8] = {0};
    int16_t small[8] = {0};
    int me = group->rank;
    void *device = on_device(group, values, sizeof values);
    CHECK(trp_allreduce(group, device, me == 1 ? 3 : 4, TROUPE_FLOAT32, TROUPE_SUM) ==
          TROUPE_INVALID);
    CHECK(strstr(said(), "troupe_allreduce on devices: rank") && strstr(said(), " 3 of type") &&
          strstr(said(), " 4 of type"));
    CHECK(trp_broadcast(group, device, 8, me) == TROUPE_INVALID && strstr(said(), "root 1"));
    CHECK((me == 0
               ? trp_broadcast(group, device, 8, 0)
               : trp_allreduce(group, device, 2, TROUPE_FLOAT32, TROUPE_SUM)) == TROUPE_INVALID);
    CHECK(strstr(said(), "troupe_broadcast on devices"));
    // One has the values on its device, the other on the host.
    CHECK(trp_allreduce(group, me == 0 ? (float *)device : values, 8, TROUPE_FLOAT32, TROUPE_SUM) ==
          TROUPE_INVALID);
    CHECK(strstr(said(), "called troupe_allreduce while") ||
          strstr(said(), "called troupe_allreduce on devices while"));
    // All are told what one alone can see.
    CHECK(trp_all_gather(group, me == 0 ? (void *)values : device, 4, device) == TROUPE_INVALID);
    CHECK(strstr(said(), "is not one of a device's memory"));
    CHECK((strncmp(said(), "rank 0: ", 8) == 0) == (me == 1));
    CHECK(trp_allreduce(group, device, 2, TROUPE_INT16, TROUPE_SUM) == TROUPE_UNSUPPORTED);
    CHECK(strstr(said(), "int16"));
    CHECK(trp_allreduce(group, device, 2, TROUPE_INT32, TROUPE_MEAN) == TROUPE_UNSUPPORTED);
    CHECK(trp_allreduce(group, small, 8, TROUPE_INT16, TROUPE_SUM) == TROUPE_OK);
    sum_once(group);
    CHECK(troupe_device_use(1) == TROUPE_OK);
    void *elsewhere = on_device(group, values, sizeof values);
    CHECK(trp_allreduce(group, elsewhere, 8, TROUPE_FLOAT32, TROUPE_SUM) == TROUPE_INVALID);
    CHECK(strstr(said(), "memory of device 1"));
    CHECK(trp_barrier(group) == TROUPE_OK);
    leave(group);
}

static void test_differing_calls_are_named_and_do_no_harm(void **state)
{
    (void)state;
    setenv("STANDIN_DEVICES", "2", 1);
    play(2, differ_in_all_ways);
    unsetenv("STANDIN_DEVICES");
}

// What goes wrong on rank 1 before NCCL is given anything: all are told, and go on without devices.
static const char *broken_variable, *broken_value, *broken_text;
static void one_cannot(trp_member *group)
{
    float values[4] = {1, 1, 1, 1};
    void *device = on_device(group, values, sizeof values);
    if (group->rank == 1)
        setenv(broken_variable, broken_value, 1);
    troupe_status status = trp_allreduce(group, device, 4, TROUPE_FLOAT32, TROUPE_SUM);
    CHECK(status == TROUPE_UNSUPPORTED || status == TROUPE_FAILED);
    CHECK(strstr(said(), broken_text));
    CHECK((strncmp(said(), "rank 1: ", 8) == 0) == (group->rank != 1));
    CHECK(trp_allreduce(group, values, 4, TROUPE_FLOAT32, TROUPE_SUM) == TROUPE_OK);
    CHECK(values[3] == 3);
    leave(group);
}

static void test_a_rank_without_nccl_tells_all(void **state)
{
    (void)state;
    static const char *const broken[][3] = {
        {"TROUPE_NCCL", "/nowhere/libnccl.so.2", "needs NCCL: /nowhere/libnccl.so.2"},
        {"TROUPE_NCCL", "libm.so.6", "ncclGetVersion"},
        {"STANDIN_NCCL_VERSION", "21205", "version number 21205, expected 21400"},
        {"STANDIN_FAIL", "ncclGetVersion:1:3", "ncclGetVersion: stand-in error (3)"},
        {"STANDIN_FAIL", "cuStreamCreate:1:700", "cuStreamCreate: STANDIN_ERROR_700"},
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        broken_variable = broken[i][0];
        broken_value = broken[i][1];
        broken_text = broken[i][2];
        play(3, one_cannot);
    }
}

// What goes wrong on rank 1 inside NCCL: it has the text, the others its number.
static void one_fails(trp_member *group)
{
    float values[4] = {1, 1, 1, 1};
    void *device = on_device(group, values, sizeof values);
    if (group->rank == 1)
        setenv(broken_variable, broken_value, 1);
    troupe_status status = TROUPE_OK;
    for (int round = 0; round < 3 && status == TROUPE_OK; round++)
        status = trp_allreduce(group, device, 4, TROUPE_FLOAT32, TROUPE_SUM);
    if (group->rank == 1) {
        CHECK(status == TROUPE_FAILED && strstr(said(), broken_text));
        CHECK(strstr(said(), "troupe_allreduce on devices: "));
    } else {
        CHECK(status == TROUPE_PEER_LOST);
        CHECK(strstr(said(), "troupe_allreduce on devices: rank 1 says that it failed"));
    }
    CHECK(trp_barrier(group) == TROUPE_PEER_LOST); // For good.
    leave(group);
}

static void test_an_error_of_nccl_ends_the_group(void **state)
{
    (void)state;
    static const char *const broken[][3] = {
        {"STANDIN_FAIL", "ncclCommInitRankConfig:1:5", "ncclCommInitRankConfig: stand-in error"},
        {"STANDIN_FAIL", "ncclAllReduce:2:1", "ncclAllReduce: stand-in error (1): the last error"},
        {"STANDIN_ASYNC", "2:3", "stand-in error (3)"},
        {"STANDIN_FAIL", "cuStreamQuery:2:719", "the stream: STANDIN_ERROR_719"},
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        broken_variable = broken[i][0];
        broken_value = broken[i][1];
        broken_text = broken[i][2];
        play(3, one_fails);
        char *path = log_path();
        // Where the communicator was not made on all ranks, it may not have been on some.
        for (int rank = 0; rank < 3 && i > 0; rank++)
            assert_int_equal(count_calls("ncclCommAbort", rank), 1);
        unlink(path);
        free(path);
    }
}

// ---- ranks that are lost, late or stand still

static void stand_still(trp_member *group)
{
    float values[4] = {0};
    sum_once(group);
    void *device = on_device(group, values, sizeof values);
    CHECK(trp_allreduce(group, device, 4, TROUPE_FLOAT32, TROUPE_SUM) == TROUPE_PEER_LOST);
    CHECK(strstr(said(), "troupe_allreduce on devices: rank 1 is lost"));
    leave(group);
}

static bool have_put(void *unused)
{
    (void)unused;
    return count_calls("ncclAllReduce", 0) == 2 && count_calls("ncclAllReduce", 2) == 2;
}

static void test_a_killed_rank_ends_what_is_on_the_devices(void **state)
{
    (void)state;
    setenv("STANDIN_STUCK", "2", 1);
    team all = team_make(&trp_engine_shm, 3);
    team_start(&all, stand_still, 60000);
    assert_true(support_wait_until(have_put, NULL, 30000));
    assert_int_equal(kill(all.pids[1], SIGKILL), 0);
    assert_int_equal(WTERMSIG(team_wait(&all, 1)), SIGKILL);
    int64_t before = support_now_ms();
    assert_true(trp_control_end(all.control, all.engine, TRP_END_DIED, 1));
    team_end(&all, 1);
    assert_true(support_now_ms() - before < 10000);
    assert_int_equal(count_calls("ncclCommAbort", 0), 1);
    assert_int_equal(count_calls("ncclCommAbort", 2), 1);
    assert_int_equal(count_calls("ncclCommFinalize", 0), 0);
    unsetenv("STANDIN_STUCK");
}

enum { AWAY_MS = 1000 };

// After all have begun, which may take a while: from here on none waits longer.
static void hurry(trp_member *group)
{
    CHECK(trp_barrier(group) == TROUPE_OK);
    group->timeout_ms = AWAY_MS;
}

static void one_stays_away(trp_member *group)
{
    float values[4] = {0};
    sum_once(group);
    hurry(group);
    void *device = on_device(group, values, sizeof values);
    if (group->rank == 2) // Until the others have given it up.
        while (trp_member_is_whole(group))
            usleep(1000);
    CHECK(trp_allreduce(group, device, 4, TROUPE_FLOAT32, TROUPE_SUM) == TROUPE_PEER_LOST);
    CHECK(strstr(said(), "troupe_allreduce on devices: rank 2 did not come within 1000 ms"));
    leave(group);
}

static void devices_stand_still(trp_member *group)
{
    float values[4] = {0};
    setenv("STANDIN_STUCK", "2", 1);
    hurry(group);
    void *device = on_device(group, values, sizeof values);
    troupe_status status = TROUPE_OK;
    for (int round = 0; round < 3 && status == TROUPE_OK; round++)
        status = trp_allreduce(group, device, 4, TROUPE_FLOAT32, TROUPE_SUM);
    CHECK(status == TROUPE_PEER_LOST);
    CHECK(strstr(said(), "failed on the devices, or did not end within 1000 ms"));
    leave(group);
}

// A call into NCCL that does not return costs its thread. Rank 1's is the one, but for the unique
// id, which rank 0 makes.
static const char *hanging;
static int hanging_rank;
static void one_hangs(trp_member *group)
{
    float values[4] = {0};
    char expected[80];
    void *device = on_device(group, values, sizeof values);
    if (group->rank == hanging_rank)
        setenv("STANDIN_HANG", hanging, 1);
    hurry(group);
    troupe_status status = TROUPE_OK;
    for (int round = 0; round < 3 && status == TROUPE_OK; round++)
        status = trp_allreduce(group, device, 4, TROUPE_FLOAT32, TROUPE_SUM);
    CHECK(status == TROUPE_PEER_LOST);
    snprintf(expected, sizeof expected, "troupe_allreduce on devices: rank %d did not come",
             hanging_rank);
    CHECK(strstr(said(), expected));
    CHECK(trp_allreduce(group, device, 4, TROUPE_FLOAT32, TROUPE_SUM) == TROUPE_PEER_LOST);
    leave(group);
}

static void abort_hangs(trp_member *group)
{
    if (group->rank == 0)
        setenv("STANDIN_HANG", "ncclCommAbort:1", 1);
    devices_stand_still(group);
}

static void finalize_hangs(trp_member *group)
{
    if (group->rank == 0)
        setenv("STANDIN_HANG", "ncclCommFinalize:1", 1);
    sum_once(group);
    leave(group);
    CHECK(trp_member_is_whole(group)); // It has ended well.
}

// Ranks that stay away, devices that do not end, and calls that do not return: the group ends when
// the time is over, by the rank that is missing, and no rank's loop waits longer.
static void test_what_does_not_end_is_ended_in_time(void **state)
{
    (void)state;
    static const struct {
        void (*play)(trp_member *group);
        const char *hangs;
        int rank, world;
    } parts[] = {
        {one_stays_away, NULL, 0, 3},           {devices_stand_still, NULL, 0, 2},
        {one_hangs, "ncclGetUniqueId:1", 0, 2}, {one_hangs, "ncclCommInitRankConfig:1", 1, 2},
        {one_hangs, "ncclAllReduce:2", 1, 2},   {abort_hangs, NULL, 0, 2},
        {finalize_hangs, NULL, 0, 2},
    };
    enum { PARTS = sizeof parts / sizeof *parts, DEVICES = 1 };
    team teams[PARTS]; // All at once, since each waits for a while.
    for (int i = 0; i < PARTS; i++) {
        char *path = log_path();
        hanging = parts[i].hangs;
        hanging_rank = parts[i].rank;
        if (i != DEVICES)
            unsetenv("STANDIN_LOG");
        else
            setenv("STANDIN_LOG", path, 1);
        free(path);
        teams[i] = team_make(&trp_engine_shm, parts[i].world);
        team_start(&teams[i], parts[i].play, TIMEOUT_MS);
    }
    for (int i = 0; i < PARTS; i++)
        team_end(&teams[i], -1);
    assert_int_equal(count_calls("ncclCommAbort", 0), 1);
    assert_int_equal(count_calls("ncclCommAbort", 1), 1);
    assert_int_equal(count_calls("ncclCommFinalize", 0), 0);
}

static void one_leaves(trp_member *group)
{
    float values[4] = {0};
    sum_once(group);
    if (group->rank != 1) {
        void *device = on_device(group, values, sizeof values);
        CHECK(trp_allreduce(group, device, 4, TROUPE_FLOAT32, TROUPE_SUM) == TROUPE_PEER_LOST);
        CHECK(strstr(said(), "troupe_allreduce on devices: rank 1 has left its loop"));
    }
    leave(group);
}

static void test_a_rank_that_leaves_is_not_waited_for(void **state)
{
    (void)state;
    play(3, one_leaves);
}

// Each test has a folder of its own.
#define ROW(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    setenv("TROUPE_CUDA", support_setting("TROUPE_STANDIN"), 1);
    setenv("TROUPE_NCCL", support_setting("TROUPE_STANDIN"), 1);
    const struct CMUnitTest tests[] = {
        ROW(test_reductions_are_those_of_memory_of_the_host),
        ROW(test_exchanges_come_where_they_belong),
        ROW(test_what_is_started_is_done_in_order),
        ROW(test_a_communicator_is_made_once_and_ended_in_order),
        ROW(test_memory_of_the_host_does_not_load_anything),
        ROW(test_differing_calls_are_named_and_do_no_harm),
        ROW(test_a_rank_without_nccl_tells_all),
        ROW(test_an_error_of_nccl_ends_the_group),
        ROW(test_a_killed_rank_ends_what_is_on_the_devices),
        ROW(test_what_does_not_end_is_ended_in_time),
        ROW(test_a_rank_that_leaves_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
