// test_gpu_usage.c: what GPUs do, asked of a library that stands in for NVML (tests/standin): which
// GPUs a job has, what is told of them, and drivers that know less, are slow, or lose a GPU.
#include "support.h"

#include <runtime/base/buffer.h>
#include <runtime/codec/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <train/gpu_usage.h>
#include <train/usage.h>
#include <unistd.h>

#define TWO                                                                                        \
    "GPU-1a2b bus=7 busy=87 total=1000 used=self:300,1:9 name=Standin 1\n"                         \
    "GPU-1a99 bus=3 busy=5 total=2000 name=Standin 1\n"

// Of a test that runs in a process of its own, since a library stays loaded.
static char *folder, *gpus, *log_path;

static void set_gpus(const char *text)
{
    char *draft = support_path(folder, "draft"); // It is read while it is written.
    support_write_file(draft, text, strlen(text));
    assert_int_equal(rename(draft, gpus), 0);
    free(draft);
}

static int begin_each(void **state)
{
    (void)state;
    folder = support_directory_make();
    gpus = support_path(folder, "gpus");
    log_path = support_path(folder, "log");
    setenv("TROUPE_NVML", support_setting("TROUPE_STANDIN"), 1);
    setenv("STANDIN_NVML", gpus, 1);
    set_gpus(TWO);
    return 0;
}

static int end_each(void **state)
{
    (void)state;
    support_directory_remove(folder);
    free(gpus);
    free(log_path);
    return 0;
}

// Runs in a process of its own, whose log is kept.
static void alone(void (*body)(void))
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        if (freopen(log_path, "a", stderr) == NULL)
            _exit(2);
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0)
        support_fail_output(support_read_file(log_path), "it ended with status %x", status);
}

// A check in such a process.
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition);                        \
            _exit(3);                                                                              \
        }                                                                                          \
    } while (0)

static bool has_said(void *text)
{
    char *said = support_read_file(log_path);
    bool has = said != NULL && strstr(said, text) != NULL;
    free(said);
    return has;
}

static int lines_said(void)
{
    char *said = support_read_file(log_path);
    int count = 0;
    for (char *at = said; at != NULL && (at = strchr(at, '\n')) != NULL; at++)
        count++;
    free(said);
    return count;
}

typedef struct ticker {
    trp_gpu_usage *usage;
    int pids[2];
    trp_buffer lines;
    const char *wanted; // In the lines.
} ticker;

// One second, which need not pass here.
static bool ticks_until(void *user)
{
    ticker *it = user;
    it->lines.size = 0;
    trp_gpu_usage_tick(it->usage, it->pids, 2, &it->lines);
    trp_buffer_append(&it->lines, "", 1);
    return strstr((char *)it->lines.data, it->wanted) != NULL;
}

static ticker begin(const char *ids)
{
    return (ticker){.usage = trp_gpu_usage_begin(ids), .pids = {getpid()}};
}

static const char *await_lines(ticker *it, const char *wanted)
{
    it->wanted = wanted;
    CHECK(support_wait_until(ticks_until, it, SUPPORT_SOON_MS));
    return (char *)it->lines.data;
}

// ---- which GPUs

static void tell_of_numbers(void)
{
    ticker it = begin("1,0");
    // Numbers go by the bus, whatever the library's own are.
    const char *lines = await_lines(&it, "\"gpu\": \"0\"");
    CHECK(strstr(lines, "\"gpu\": \"1\", \"name\": \"Standin 1\", \"busy\": 0.87, \"used_bytes\": "
                        "300, \"total_bytes\": 1000}\n{\"t\": ") != NULL);
    CHECK(strstr(lines, "\"gpu\": \"0\", \"name\": \"Standin 1\", \"busy\": 0.05, \"used_bytes\": "
                        "0, \"total_bytes\": 2000}\n") != NULL);
    CHECK(lines_said() == 0);
}

// F16: by numbers and by how their UUIDs begin.
static void test_values_of_each_gpu(void **state)
{
    (void)state;
    alone(tell_of_numbers);
}

static void tell_of_uuids(void)
{
    ticker it = begin("GPU-1a2b,GPU-1a,GPU-1a99");
    const char *lines = await_lines(&it, "\"gpu\": \"GPU-1a2b\"");
    CHECK(strstr(lines, "\"busy\": 0.87") != NULL);
    CHECK(has_said("what GPU GPU-1a does is not measured: there are several whose UUIDs begin so"));
    CHECK(strstr(lines, "GPU-1a99") == NULL); // As CUDA, it stops at the first that is none.
}

static void test_uuids(void **state)
{
    (void)state;
    alone(tell_of_uuids);
}

static void tell_of_none(void)
{
    static const struct {
        const char *ids, *said;
    } rows[] = {
        {"2", "what GPU 2 does is not measured: there is no such GPU"},
        {"GPU-77", "what GPU GPU-77 does is not measured: there is no such GPU"},
        {"-1,0", "what GPU -1 does is not measured: expected a number or an UUID"},
        {"MIG-3", "what GPU MIG-3 does is not measured: it is a part of a GPU (MIG), which"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ticker it = begin(rows[i].ids);
        CHECK(support_wait_until(has_said, (void *)rows[i].said, SUPPORT_SOON_MS));
        it.wanted = "gpu";
        CHECK(!ticks_until(&it));
    }
    set_gpus("GPU-1 bus=1 mig=1 busy=1 total=1 name=A\nGPU-2 bus=2 busy=50 total=1 name=A\n");
    ticker it = begin("0,1");
    const char *lines = await_lines(&it, "\"gpu\": \"1\"");
    CHECK(strstr(lines, "\"gpu\": \"0\"") == NULL);
    CHECK(has_said("what GPU 0 does is not measured: it is divided into parts (MIG)"));
    set_gpus("GPU-1 bus=1 busy=1 total=1 name=A\nGPU-2 bus=2 busy=50 total=1 name=B\n");
    (void)begin("0");
    CHECK(support_wait_until(has_said, "or set CUDA_DEVICE_ORDER=PCI_BUS_ID", SUPPORT_SOON_MS));
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
    it = begin("1");
    await_lines(&it, "\"name\": \"B\"");
}

static void test_gpus_that_are_none_or_divided(void **state)
{
    (void)state;
    alone(tell_of_none);
}

// ---- whose memory

static void tell_of_children(void)
{
    char text[256];
    int ends[2];
    if (pipe(ends) != 0)
        _exit(2);
    pid_t child = fork();
    if (child == 0) { // Until its parent has ended.
        close(ends[1]);
        _exit(read(ends[0], text, 1) != 0);
    }
    snprintf(text, sizeof text, "GPU-1 bus=1 busy=1 total=900 used=%d:40,%d:2,1:500 name=A\n",
             (int)child, (int)getpid());
    set_gpus(text);
    ticker it = begin("0");
    await_lines(&it, "\"used_bytes\": 42,");
    CHECK(trp_usage_parent(child) == getpid());
    it.pids[0] = child;
    await_lines(&it, "\"used_bytes\": 40,");
    CHECK(trp_usage_parent(0x3fffffff) == 0);
}

static void test_memory_is_of_the_jobs_processes(void **state)
{
    (void)state;
    alone(tell_of_children);
}

// ---- drivers

static void find_no_library(void)
{
    setenv("TROUPE_NVML", "/nowhere/libnvidia-ml.so.1", 1);
    ticker it = begin("0,1");
    CHECK(support_wait_until(has_said, "what GPUs do is not measured: /nowhere/libnvidia-ml.so.1",
                             SUPPORT_SOON_MS));
    it.wanted = "gpu";
    for (int i = 0; i < 3; i++)
        CHECK(!ticks_until(&it));
    setenv("TROUPE_NVML", "libm.so.6", 1);
    (void)begin("0");
    CHECK(support_wait_until(has_said, "nvmlInit_v2", SUPPORT_SOON_MS));
    setenv("TROUPE_NVML", support_setting("TROUPE_STANDIN"), 1);
    setenv("STANDIN_NVML_INIT", "9", 1);
    (void)begin("0");
    CHECK(support_wait_until(has_said, "not measured: nvmlInit: stand-in error 9 (9)",
                             SUPPORT_SOON_MS));
    CHECK(lines_said() == 3);
}

static void test_without_the_library(void **state)
{
    (void)state;
    alone(find_no_library);
}

static void ask_an_old_one(void)
{
    char path[4096];
    const char *standin = support_setting("TROUPE_STANDIN"), *dot = strrchr(standin, '.');
    snprintf(path, sizeof path, "%.*s_old%s", (int)(dot - standin), standin, dot);
    setenv("TROUPE_NVML", path, 1);
    ticker it = begin("1");
    await_lines(&it, "\"busy\": 0.87, \"used_bytes\": 300, ");
    CHECK(lines_said() == 0);
}

static void test_an_older_driver(void **state)
{
    (void)state;
    alone(ask_an_old_one);
}

static void fail_in_part(void)
{
    set_gpus("GPU-1 bus=1 busy=1 total=900 used=self:none "
             "fail=nvmlDeviceGetUtilizationRates:3 name=A \"quoted\"\n");
    ticker it = begin("0");
    const char *lines = await_lines(&it, "\"total_bytes\": 900}");
    CHECK(strstr(lines, "\"name\": \"A \\\"quoted\\\"\", \"total_bytes\"") != NULL);
    await_lines(&it, "\"total_bytes\": 900}");
    CHECK(has_said("the use of GPU 0 is not measured: stand-in error 3 (3)"));
    CHECK(lines_said() == 1);
    set_gpus("GPU-1 bus=1 busy=200 total=900 used=self:7 name=A\n");
    await_lines(&it, "\"busy\": 1.00, \"used_bytes\": 7");
}

static void test_what_is_not_told_is_left_out(void **state)
{
    (void)state;
    alone(fail_in_part);
}

static void lose_a_gpu(void)
{
    ticker it = begin("0,1");
    await_lines(&it, "\"gpu\": \"1\"");
    set_gpus("GPU-1a2b bus=7 busy=87 total=1000 fail=nvmlDeviceGetMemoryInfo:15 name=S\n"
             "GPU-1a99 bus=3 busy=44 total=2000 name=S\n");
    const char *lines = await_lines(&it, "\"busy\": 0.44");
    CHECK(support_wait_until(has_said,
                             "the memory of GPU 1 is not measured any more: stand-in error 15 (15)",
                             SUPPORT_SOON_MS));
    set_gpus(TWO);
    lines = await_lines(&it, "\"busy\": 0.05");
    CHECK(strstr(lines, "\"gpu\": \"1\"") == NULL); // It is not asked again.
    CHECK(lines_said() == 1);
}

static void test_a_lost_gpu_is_said_once(void **state)
{
    (void)state;
    alone(lose_a_gpu);
}

static void be_slow(void)
{
    set_gpus("GPU-1 bus=1 busy=1 total=900 hang=1 name=A\n");
    ticker it = begin("0");
    it.wanted = "gpu";
    for (int i = 0; i < 20; i++) // None of these waits.
        CHECK(!ticks_until(&it));
    set_gpus("GPU-1 bus=1 busy=2 total=900 name=A\n");
    await_lines(&it, "\"busy\": 0.0");
}

static void test_a_slow_driver_holds_up_nobody(void **state)
{
    (void)state;
    alone(be_slow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_values_of_each_gpu, begin_each, end_each),
        cmocka_unit_test_setup_teardown(test_uuids, begin_each, end_each),
        cmocka_unit_test_setup_teardown(test_gpus_that_are_none_or_divided, begin_each, end_each),
        cmocka_unit_test_setup_teardown(test_memory_is_of_the_jobs_processes, begin_each, end_each),
        cmocka_unit_test_setup_teardown(test_without_the_library, begin_each, end_each),
        cmocka_unit_test_setup_teardown(test_an_older_driver, begin_each, end_each),
        cmocka_unit_test_setup_teardown(test_what_is_not_told_is_left_out, begin_each, end_each),
        cmocka_unit_test_setup_teardown(test_a_lost_gpu_is_said_once, begin_each, end_each),
        cmocka_unit_test_setup_teardown(test_a_slow_driver_holds_up_nobody, begin_each, end_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
