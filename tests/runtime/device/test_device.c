// test_device.c: memory, copies, streams and errors of devices, with a library that stands in for
// CUDA's (tests/standin): whoever reads a device's memory as the host's crashes there.
#include "support.h"

#include <pthread.h>
#include <runtime/device/cuda.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <troupe/device.h>
#include <unistd.h>

static const char *said(void)
{
    return troupe_last_error()->text;
}

// Plays in a process of its own, in which nothing is loaded yet.
static void play(void (*what)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        what();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

// There, without the test framework.
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s (last error: %s)\n", __FILE__, __LINE__, #condition,        \
                    said());                                                                       \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static void stand_in(void)
{
    setenv("TROUPE_CUDA", getenv("TROUPE_STANDIN"), 1);
}

static void copy_there_and_back(void)
{
    enum { ROWS = 100, COLUMNS = 33 };
    static float numbers[ROWS][COLUMNS], again[ROWS][COLUMNS];
    support_fill(numbers, sizeof numbers, 1);
    stand_in();
    troupe_tensor here = troupe_tensor_of(TROUPE_FLOAT32, numbers, ROWS, COLUMNS);
    troupe_tensor back = troupe_tensor_of(TROUPE_FLOAT32, again, ROWS, COLUMNS);
    troupe_tensor first, second;
    CHECK(!troupe_device_has(numbers));
    CHECK(troupe_device_tensor_create(&here, &first) == TROUPE_OK);
    CHECK(troupe_device_tensor_create(&here, &second) == TROUPE_OK);
    CHECK(first.dtype == TROUPE_FLOAT32 && first.ndim == 2 && first.shape[1] == COLUMNS);
    CHECK(troupe_device_has(first.data) && troupe_device_has((const char *)second.data + 5));
    CHECK(!troupe_device_has(numbers) && !troupe_device_has(NULL));
    CHECK(troupe_device_copy(&first, &here, NULL) == TROUPE_OK);
    CHECK(troupe_device_copy(&second, &first, NULL) == TROUPE_OK);
    CHECK(troupe_device_copy(&back, &second, NULL) == TROUPE_OK);
    CHECK(memcmp(numbers, again, sizeof numbers) == 0);

    troupe_tensor other = back;
    other.shape[1]--;
    CHECK(troupe_device_copy(&other, &first, NULL) == TROUPE_WRONG_TYPE);
    CHECK(strstr(said(), "dimension 1 is 33") && strstr(said(), "32"));
    other.dtype = TROUPE_INT32;
    CHECK(troupe_device_copy(&other, &first, NULL) == TROUPE_WRONG_TYPE);

    const void *gone = first.data;
    troupe_device_tensor_free(&first);
    troupe_device_tensor_free(&second);
    troupe_device_tensor_free(&second);
    CHECK(first.data == NULL && first.ndim == 0 && !troupe_device_has(gone));
    troupe_tensor none = troupe_tensor_of(TROUPE_FLOAT64, NULL, 0, 7);
    CHECK(troupe_device_tensor_create(&none, &first) == TROUPE_OK && first.data == NULL);
    CHECK(troupe_device_copy(&none, &first, NULL) == TROUPE_OK);
}

static void test_tensors_are_copied_to_a_device_and_back(void **state)
{
    (void)state;
    play(copy_there_and_back);
}

static void copy_on_a_stream(void)
{
    stand_in();
    enum { SIZE = 5000 };
    void *host, *device;
    troupe_device_stream *stream;
    CHECK(troupe_device_host_alloc(2 * SIZE, &host) == TROUPE_OK);
    CHECK(troupe_device_alloc(SIZE, &device) == TROUPE_OK);
    CHECK(!troupe_device_has(host) && troupe_device_has(device));
    CHECK(troupe_device_stream_open(&stream) == TROUPE_OK);
    CHECK(troupe_device_stream_handle(stream) != NULL);
    CHECK(troupe_device_stream_handle(NULL) == NULL);
    unsigned char *from = host, *to = from + SIZE;
    support_fill(from, SIZE, 2);
    CHECK(troupe_device_copy_bytes(device, from, SIZE, stream) == TROUPE_OK);
    CHECK(troupe_device_copy_bytes(to, device, SIZE, stream) == TROUPE_OK);
    CHECK(memcmp(from, to, SIZE) != 0); // Only put there: a device is as late.
    CHECK(troupe_device_stream_wait(stream, TROUPE_FOREVER) == TROUPE_OK);
    CHECK(memcmp(from, to, SIZE) == 0);
    troupe_device_stream_close(&stream);
    troupe_device_stream_close(&stream);
    troupe_device_host_free(&host);
    troupe_device_free(&device);
    CHECK(stream == NULL && host == NULL && device == NULL);
    CHECK(troupe_device_alloc(0, &device) == TROUPE_OK && device == NULL);
}

static void test_copies_on_a_stream_are_waited_for(void **state)
{
    (void)state;
    play(copy_on_a_stream);
}

static void run_out(void)
{
    stand_in();
    setenv("STANDIN_MEMORY", "1000000", 1);
    setenv("STANDIN_DEVICES", "2", 1);
    int count = 0;
    troupe_device_info info;
    void *some = NULL, *more = &count;
    CHECK(troupe_device_count(&count) == TROUPE_OK && count == 2);
    CHECK(troupe_device_alloc(700000, &some) == TROUPE_OK);
    CHECK(troupe_device_alloc(700000, &more) == TROUPE_NO_MEMORY && more == &count);
    CHECK(strstr(said(),
                 "troupe_device_alloc: cuMemAlloc of 700000 bytes: CUDA_ERROR_OUT_OF_MEMORY (2): "
                 "out of memory"));
    CHECK(troupe_device_info_get(&info, sizeof info) == TROUPE_OK);
    CHECK(info.device == 0 && info.memory_bytes == 1000000 && info.free_bytes < 300000);
    CHECK(strcmp(info.name, "Stand-in 0") == 0);
    troupe_device_free(&some);
    CHECK(troupe_device_alloc(700000, &some) == TROUPE_OK);
    CHECK(troupe_device_use(1) == TROUPE_OK);
    CHECK(troupe_device_info_get(&info, sizeof info) == TROUPE_OK && info.device == 1);
    CHECK(troupe_device_use(2) == TROUPE_INVALID && troupe_device_use(-1) == TROUPE_INVALID);
    CHECK(strstr(said(), "no device -1: this process sees 2"));
    CHECK(troupe_device_info_get(&info, sizeof info) == TROUPE_OK && info.device == 1);
}

static void test_a_device_that_is_full_says_so(void **state)
{
    (void)state;
    play(run_out);
}

static void *look(void *unused)
{
    troupe_device_info info = {.device = -1};
    CHECK(troupe_device_info_get(&info, sizeof info) == TROUPE_OK);
    CHECK(info.device == 0);
    return unused;
}

static void choose_in_threads(void)
{
    stand_in();
    setenv("STANDIN_DEVICES", "2", 1);
    troupe_device_info info;
    pthread_t thread;
    CHECK(troupe_device_use(1) == TROUPE_OK);
    CHECK(pthread_create(&thread, NULL, look, NULL) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(troupe_device_info_get(&info, sizeof info) == TROUPE_OK && info.device == 1);
}

static void test_each_thread_has_a_device(void **state)
{
    (void)state;
    play(choose_in_threads);
}

// The function of CUDA's that fails, once: a status and a text with its name, nothing is lost, and
// the next try succeeds.
static const char *failing;

static void fail_once(void)
{
    char text[4] = "abc", back[4] = "";
    void *device = NULL;
    troupe_device_stream *stream = NULL;
    int failures = 0;
    troupe_status status, expected = strstr(failing, ":100") ? TROUPE_UNSUPPORTED : TROUPE_FAILED;
    stand_in();
    setenv("STANDIN_FAIL", failing, 1);
#define AGAIN(call)                                                                                \
    while ((status = (call)) != TROUPE_OK) {                                                       \
        CHECK(status == expected && failures++ == 0);                                              \
        CHECK(strstr(said(), "STANDIN_ERROR_") && strncmp(said(), #call, 13) == 0);                \
    }
    AGAIN(troupe_device_alloc(sizeof text, &device));
    AGAIN(troupe_device_stream_open(&stream));
    AGAIN(troupe_device_copy_bytes(device, text, sizeof text, stream));
    AGAIN(troupe_device_copy_bytes(back, device, sizeof text, stream));
    AGAIN(troupe_device_stream_wait(stream, TROUPE_FOREVER));
    AGAIN(troupe_device_copy_bytes(device, text, sizeof text, NULL));
#undef AGAIN
    CHECK(failures == 1 && strcmp(back, text) == 0);
    troupe_device_stream_close(&stream);
    troupe_device_free(&device);
}

static void test_each_error_of_cuda_is_told(void **state)
{
    (void)state;
    static const char *const functions[] = {
        "cuInit:1:999",          "cuDeviceGetCount:1:100",
        "cuDeviceGet:1:101",     "cuDevicePrimaryCtxRetain:1:700",
        "cuCtxSetCurrent:1:201", "cuMemAlloc_v2:1:700",
        "cuStreamCreate:1:700",  "cuMemcpyAsync:1:700",
        "cuStreamQuery:1:700",   "cuStreamSynchronize:1:700",
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        failing = functions[i];
        play(fail_once);
    }
}

static void miss_the_library(void)
{
    void *device;
    setenv("TROUPE_CUDA", "/nowhere/libcuda.so.1", 1);
    CHECK(troupe_device_alloc(10, &device) == TROUPE_UNSUPPORTED);
    CHECK(strstr(said(), "troupe_device_alloc: needs CUDA's driver library") &&
          strstr(said(), "/nowhere/libcuda.so.1"));
    setenv("TROUPE_CUDA", "libm.so.6", 1);
    CHECK(troupe_device_alloc(10, &device) == TROUPE_UNSUPPORTED && strstr(said(), "cuInit"));
    CHECK(!troupe_device_has(&device));
    stand_in(); // Nothing of that is left.
    setenv("STANDIN_DEVICES", "0", 1);
    CHECK(troupe_device_alloc(10, &device) == TROUPE_UNSUPPORTED);
    CHECK(strstr(said(), "sees no device"));
}

static void test_what_is_missing_is_named(void **state)
{
    (void)state;
    play(miss_the_library);
}

static void child_of_a_user(void)
{
    void *device;
    setenv("STANDIN_FAIL", "cuInit:2:3", 1); // As CUDA does.
    CHECK(troupe_device_alloc(10, &device) == TROUPE_UNSUPPORTED);
    CHECK(strstr(said(), "forked from one that had used CUDA"));
}

static void fork_a_user(void)
{
    int count;
    stand_in();
    CHECK(troupe_device_count(&count) == TROUPE_OK);
    pid_t pid = fork();
    if (pid == 0) {
        child_of_a_user();
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void test_a_fork_of_a_process_that_used_cuda_is_told(void **state)
{
    (void)state;
    play(fork_a_user);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensors_are_copied_to_a_device_and_back),
        cmocka_unit_test(test_copies_on_a_stream_are_waited_for),
        cmocka_unit_test(test_a_device_that_is_full_says_so),
        cmocka_unit_test(test_each_thread_has_a_device),
        cmocka_unit_test(test_each_error_of_cuda_is_told),
        cmocka_unit_test(test_what_is_missing_is_named),
        cmocka_unit_test(test_a_fork_of_a_process_that_used_cuda_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
