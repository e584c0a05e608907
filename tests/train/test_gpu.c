// test_gpu.c: what only a real GPU shows: its memory and copies, NCCL with a group of one, and the
// aborting of what real NCCL waits for. Skipped, with the reason, where there is none.
// label: gpu
// label: alone
// timeout: 300
#include "gpu.h"
#include "team.h"

#include <runtime/base/clock.h>
#include <runtime/device/cuda.h>
#include <train/nccl.h>
#include <troupe/device.h>

enum { MEBI = 1 << 20 };

static const char *said(void)
{
    return troupe_last_error()->text;
}

// What a rank says is for people, beside the figures of other machines.
#define TELL(...)                                                                                  \
    do {                                                                                           \
        printf("    " __VA_ARGS__);                                                                \
        fflush(stdout);                                                                            \
    } while (0)

static double gigabytes_per_s(size_t bytes, int64_t ns)
{
    return (double)bytes / (double)(ns > 0 ? ns : 1);
}

// ---- the device

static void look_at_it(trp_member *group)
{
    int count = 0, version = 0;
    troupe_device_info info;
    CHECK(troupe_device_count(&count) == TROUPE_OK && count >= 1);
    for (int device = 0; device < count; device++) {
        CHECK(troupe_device_use(device) == TROUPE_OK);
        CHECK(troupe_device_info_get(&info, sizeof info) == TROUPE_OK && info.device == device);
        CHECK(info.name[0] != '\0' && info.free_bytes <= info.memory_bytes);
        TELL("device %d: %s, %zu MiB, of which %zu are free\n", device, info.name,
             info.memory_bytes / MEBI, info.free_bytes / MEBI);
    }
    CHECK(troupe_device_use(count) == TROUPE_INVALID);
    if (trp_nccl_load("test") == TROUPE_OK && trp_nccl.version(&version) == 0)
        TELL("NCCL has version number %d\n", version);
    else
        TELL("NCCL cannot be used: %s\n", said());
}

static void test_what_there_is(void **state)
{
    (void)state;
    play(1, look_at_it);
}

static void tell_kinds(trp_member *group)
{
    void *device, *pinned, *plain = calloc(1, MEBI);
    CHECK(plain && !troupe_device_has(plain)); // Before CUDA is begun, too.
    CHECK(troupe_device_alloc(MEBI, &device) == TROUPE_OK);
    CHECK(troupe_device_host_alloc(MEBI, &pinned) == TROUPE_OK);
    CHECK(troupe_device_has(device) && troupe_device_has((char *)device + MEBI - 1));
    CHECK(!troupe_device_has(pinned) && !troupe_device_has(plain) && !troupe_device_has(&device));
    int ordinal = -1;
    CHECK(trp_cuda_device_of("test", device, &ordinal) == TROUPE_OK && ordinal == 0);
    const void *gone = device;
    troupe_device_free(&device);
    CHECK(!troupe_device_has(gone));
    troupe_device_host_free(&pinned);
    int64_t before = trp_clock_ns();
    for (int i = 0; i < 100000; i++)
        CHECK(!trp_cuda_holds(plain));
    TELL("whose an address is takes %d ns\n", (int)((trp_clock_ns() - before) / 100000));
    free(plain);
}

static void test_whose_an_address_is(void **state)
{
    (void)state;
    play(1, tell_kinds);
}

static void copy_by(trp_member *group, unsigned char *from, unsigned char *to, const char *kind)
{
    enum { SIZE = 64 * MEBI };
    void *first, *second;
    CHECK(troupe_device_alloc(SIZE, &first) == TROUPE_OK);
    CHECK(troupe_device_alloc(SIZE, &second) == TROUPE_OK);
    support_fill(from, SIZE, 3);
    memset(to, 0, SIZE);
    int64_t best[3] = {INT64_MAX, INT64_MAX, INT64_MAX};
    for (int round = 0; round < 5; round++) {
        int64_t at[4] = {trp_clock_ns()};
        CHECK(troupe_device_copy_bytes(first, from, SIZE, NULL) == TROUPE_OK);
        at[1] = trp_clock_ns();
        CHECK(troupe_device_copy_bytes(second, first, SIZE, NULL) == TROUPE_OK);
        at[2] = trp_clock_ns();
        CHECK(troupe_device_copy_bytes(to, second, SIZE, NULL) == TROUPE_OK);
        at[3] = trp_clock_ns();
        for (int i = 0; i < 3; i++)
            best[i] = at[i + 1] - at[i] < best[i] ? at[i + 1] - at[i] : best[i];
    }
    CHECK(memcmp(from, to, SIZE) == 0);
    TELL("%s memory: %.1f GB/s to the device, %.1f there, %.1f back\n", kind,
         gigabytes_per_s(SIZE, best[0]), gigabytes_per_s(SIZE, best[1]),
         gigabytes_per_s(SIZE, best[2]));
    troupe_device_free(&first);
    troupe_device_free(&second);
}

static void copy_both(trp_member *group)
{
    enum { SIZE = 64 * MEBI };
    void *pinned, *plain = malloc(2 * SIZE);
    CHECK(plain && troupe_device_host_alloc(2 * SIZE, &pinned) == TROUPE_OK);
    copy_by(group, plain, (unsigned char *)plain + SIZE, "ordinary");
    copy_by(group, pinned, (unsigned char *)pinned + SIZE, "pinned");
    troupe_device_stream *stream;
    void *device;
    CHECK(troupe_device_alloc(SIZE, &device) == TROUPE_OK);
    CHECK(troupe_device_stream_open(&stream) == TROUPE_OK);
    memset((unsigned char *)pinned + SIZE, 0, SIZE);
    int64_t before = trp_clock_ns();
    CHECK(troupe_device_copy_bytes(device, pinned, SIZE, stream) == TROUPE_OK);
    CHECK(troupe_device_copy_bytes((char *)pinned + SIZE, device, SIZE, stream) == TROUPE_OK);
    int64_t put = trp_clock_ns();
    troupe_status at_once = troupe_device_stream_wait(stream, TROUPE_POLL);
    CHECK(at_once == TROUPE_OK || at_once == TROUPE_TIMED_OUT);
    CHECK(troupe_device_stream_wait(stream, 60000) == TROUPE_OK);
    TELL("two copies on a stream: put there in %d us, done after %d us%s\n",
         (int)((put - before) / 1000), (int)((trp_clock_ns() - before) / 1000),
         at_once == TROUPE_OK ? ", at once" : "");
    CHECK(memcmp(pinned, (char *)pinned + SIZE, SIZE) == 0);
    troupe_device_stream_close(&stream);
    troupe_device_free(&device);
    troupe_device_host_free(&pinned);
    free(plain);
}

static void test_copies(void **state)
{
    (void)state;
    play(1, copy_both);
}

static void ask_too_much(trp_member *group)
{
    troupe_device_info info;
    void *memory = NULL;
    CHECK(troupe_device_info_get(&info, sizeof info) == TROUPE_OK);
    CHECK(troupe_device_alloc(info.memory_bytes * 2, &memory) == TROUPE_NO_MEMORY);
    TELL("%s\n", said());
    CHECK(memory == NULL && strstr(said(), "CUDA_ERROR_OUT_OF_MEMORY"));
    CHECK(troupe_device_alloc(MEBI, &memory) == TROUPE_OK);
    troupe_device_free(&memory);
}

static void test_errors_have_cudas_text(void **state)
{
    (void)state;
    play(1, ask_too_much);
}

// ---- NCCL, in a group of one

static void need_nccl(void)
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(trp_nccl_load("NCCL") != TROUPE_OK);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status != 0) {
        print_message("NCCL CANNOT BE USED HERE (TROUPE_NCCL names it): nothing of it is tested\n");
        skip();
    }
}

// Small whole numbers, or of floating point those from 1 on.
static void fill(unsigned char *values, size_t count, troupe_dtype type)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t small = i % 16;
        float single = 1 + (float)small;
        double twice = 1 + (double)small;
        uint64_t half = (type == TROUPE_FLOAT16 ? 0x3C00 : 0x3F80) + small;
        const void *number = type == TROUPE_FLOAT32                              ? (void *)&single
                             : type == TROUPE_FLOAT64                            ? (void *)&twice
                             : type == TROUPE_FLOAT16 || type == TROUPE_BFLOAT16 ? (void *)&half
                                                                                 : (void *)&small;
        memcpy(values + i * troupe_dtype_size(type), number, troupe_dtype_size(type));
    }
}

static void reduce_types(trp_member *group)
{
    static const troupe_dtype types[] = {
        TROUPE_INT8,   TROUPE_UINT8,   TROUPE_INT32,    TROUPE_UINT32,  TROUPE_INT64,
        TROUPE_UINT64, TROUPE_FLOAT16, TROUPE_BFLOAT16, TROUPE_FLOAT32, TROUPE_FLOAT64};
    enum { COUNT = 1000, SIZE = COUNT * 8 };
    static unsigned char values[SIZE], again[SIZE];
    void *device, *other;
    CHECK(troupe_device_alloc(SIZE, &device) == TROUPE_OK);
    CHECK(troupe_device_alloc(SIZE, &other) == TROUPE_OK);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        for (troupe_reduction how = TROUPE_SUM; how <= TROUPE_MAX; how++) {
            if (how == TROUPE_MEAN && types[t] < TROUPE_FLOAT16)
                continue;
            fill(values, COUNT, types[t]);
            CHECK(troupe_device_copy_bytes(device, values, SIZE, NULL) == TROUPE_OK);
            CHECK(trp_allreduce(group, device, COUNT, types[t], how) == TROUPE_OK);
            CHECK(trp_reduce_scatter(group, device, COUNT, other, types[t], how) == TROUPE_OK);
            CHECK(troupe_device_copy_bytes(again, other, SIZE, NULL) == TROUPE_OK);
            CHECK(memcmp(values, again, COUNT * troupe_dtype_size(types[t])) == 0);
        }
    }
    CHECK(trp_all_gather(group, device, SIZE, other) == TROUPE_OK);
    CHECK(trp_broadcast(group, other, SIZE, 0) == TROUPE_OK);
    CHECK(troupe_device_copy_bytes(again, other, SIZE, NULL) == TROUPE_OK);
    CHECK(memcmp(values, again, SIZE) == 0);
    int64_t before = trp_clock_ns();
    trp_member_leave(group, TROUPE_OK, "");
    TELL("the communicator ended in %d ms\n", (int)((trp_clock_ns() - before) / 1000000));
}

static void test_all_operations_of_one_rank(void **state)
{
    (void)state;
    need_nccl();
    play(1, reduce_types);
}

static void measure(trp_member *group)
{
    static const size_t counts[] = {1, 256, MEBI / 4, 25 * MEBI};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        void *device;
        CHECK(troupe_device_alloc(counts[c] * sizeof(float), &device) == TROUPE_OK);
        int64_t first = trp_clock_ns(), best = INT64_MAX;
        CHECK(trp_allreduce(group, device, counts[c], TROUPE_FLOAT32, TROUPE_SUM) == TROUPE_OK);
        first = trp_clock_ns() - first;
        for (int round = 0; round < 20; round++) {
            int64_t before = trp_clock_ns();
            CHECK(trp_allreduce(group, device, counts[c], TROUPE_FLOAT32, TROUPE_SUM) == TROUPE_OK);
            int64_t passed = trp_clock_ns() - before;
            best = passed < best ? passed : best;
        }
        TELL("a sum of %zu floats: %d us at best, %d ms the first time\n", counts[c],
             (int)(best / 1000), (int)(first / 1000000));
        troupe_device_free(&device);
    }
    trp_member_leave(group, TROUPE_OK, "");
}

static void test_how_long_it_takes(void **state)
{
    (void)state;
    need_nccl();
    play(1, measure);
}

// The group ends between two operations: the communicator is aborted, and the device still works.
static void end_between(trp_member *group)
{
    void *device;
    float value = 1;
    CHECK(troupe_device_alloc(sizeof value, &device) == TROUPE_OK);
    CHECK(trp_allreduce(group, device, 1, TROUPE_FLOAT32, TROUPE_SUM) == TROUPE_OK);
    CHECK(trp_control_end(group->control, group->engine, TRP_END_DIED, 0));
    CHECK(trp_allreduce(group, device, 1, TROUPE_FLOAT32, TROUPE_SUM) == TROUPE_PEER_LOST);
    int64_t before = trp_clock_ns();
    trp_member_leave(group, TROUPE_OK, "");
    TELL("the communicator was aborted in %d ms\n", (int)((trp_clock_ns() - before) / 1000000));
    CHECK(trp_clock_ns() - before < (int64_t)20 * 1000000000);
    CHECK(troupe_device_copy_bytes(device, &value, sizeof value, NULL) == TROUPE_OK);
    value = 0;
    CHECK(troupe_device_copy_bytes(&value, device, sizeof value, NULL) == TROUPE_OK);
    CHECK(value == 1);
}

static void test_a_group_that_ends_is_aborted(void **state)
{
    (void)state;
    need_nccl();
    play(1, end_between);
}

// Rank 1 comes to the agreement, and never to NCCL: its own stands in, and hangs. So rank 0's waits
// in the making of the communicator, as for a rank whose process stands still.
static void wait_for_nobody(trp_member *group)
{
    void *device;
    if (group->rank == 1) {
        setenv("TROUPE_CUDA", support_setting("TROUPE_STANDIN"), 1);
        setenv("TROUPE_NCCL", support_setting("TROUPE_STANDIN"), 1);
        setenv("STANDIN_HANG", "ncclCommInitRankConfig:1", 1);
    }
    CHECK(troupe_device_alloc(16, &device) == TROUPE_OK);
    int64_t before = trp_clock_ns();
    CHECK(trp_allreduce(group, device, 4, TROUPE_FLOAT32, TROUPE_SUM) == TROUPE_PEER_LOST);
    if (group->rank == 0)
        TELL("%s (after %d ms)\n", said(), (int)((trp_clock_ns() - before) / 1000000));
    CHECK(strstr(said(), "rank 1 did not come within 3000 ms"));
    CHECK(trp_clock_ns() - before < (int64_t)30 * 1000000000);
    if (group->rank == 0) {
        char back[16];
        CHECK(troupe_device_copy_bytes(back, device, 16, NULL) == TROUPE_OK);
    }
    trp_member_leave(group, TROUPE_OK, "");
}

static void test_a_rank_that_never_comes_to_nccl(void **state)
{
    (void)state;
    need_nccl();
    team all = team_make(&trp_engine_shm, 2);
    team_start(&all, wait_for_nobody, 3000);
    team_end(&all, -1);
}

// Two ranks on one device: NCCL refuses that, or does it; nobody hangs.
static void share_a_device(trp_member *group)
{
    void *device;
    float value = 1;
    CHECK(troupe_device_alloc(sizeof value, &device) == TROUPE_OK);
    CHECK(troupe_device_copy_bytes(device, &value, sizeof value, NULL) == TROUPE_OK);
    troupe_status status = trp_allreduce(group, device, 1, TROUPE_FLOAT32, TROUPE_SUM);
    TELL("rank %d: %s\n", group->rank, status == TROUPE_OK ? "they share the device" : said());
    CHECK(troupe_device_copy_bytes(&value, device, sizeof value, NULL) == TROUPE_OK);
    CHECK(status == TROUPE_FAILED || status == TROUPE_PEER_LOST ||
          (status == TROUPE_OK && value == 2));
    trp_member_leave(group, status, "");
}

static void test_two_ranks_on_one_device(void **state)
{
    (void)state;
    need_nccl();
    team all = team_make(&trp_engine_shm, 2);
    team_start(&all, share_a_device, 30000);
    team_end(&all, -1);
}

int main(void)
{
    if (!gpu_is_there())
        return GPU_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_there_is),
        cmocka_unit_test(test_whose_an_address_is),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_errors_have_cudas_text),
        cmocka_unit_test(test_all_operations_of_one_rank),
        cmocka_unit_test(test_how_long_it_takes),
        cmocka_unit_test(test_a_group_that_ends_is_aborted),
        cmocka_unit_test(test_a_rank_that_never_comes_to_nccl),
        cmocka_unit_test(test_two_ranks_on_one_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
