// test_gpu_run.c: runs whose ranks have GPUs and sum gradients there, with a library that stands in
// for CUDA and NCCL (tests/standin).
#include "support.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

enum { COUNT = 5000, REPORTS = 4 };

TROUPE_STRUCT(on_gpus, (int, killed), (int, own));

// Memory of a device as a program's own CUDA code has it: the library is not asked for any.
static troupe_status take_by_cuda(void **memory)
{
    void *cuda = dlopen(getenv("TROUPE_STANDIN"), RTLD_NOW | RTLD_LOCAL), *context = NULL;
    int (*init)(unsigned), (*retain)(void **, int), (*set)(void *),
        (*alloc)(unsigned long long *, size_t);
    unsigned long long address = 0;
    if (cuda == NULL)
        return troupe_fail(TROUPE_FAILED, "%s", dlerror());
    *(void **)&init = dlsym(cuda, "cuInit");
    *(void **)&retain = dlsym(cuda, "cuDevicePrimaryCtxRetain");
    *(void **)&set = dlsym(cuda, "cuCtxSetCurrent");
    *(void **)&alloc = dlsym(cuda, "cuMemAlloc_v2");
    if (init(0) || retain(&context, 0) || set(context) || alloc(&address, COUNT * sizeof(float)))
        return troupe_fail(TROUPE_FAILED, "the stand-in fails");
    *memory = (void *)(uintptr_t)address;
    return TROUPE_OK;
}

static troupe_status sum_on_gpus(troupe_rank *me, float *values, void *device, int report)
{
    for (int i = 0; i < COUNT; i++)
        values[i] = (float)(i + me->rank + report);
    TROUPE_TRY(troupe_device_copy_bytes(device, values, COUNT * sizeof *values, NULL));
    TROUPE_TRY(troupe_allreduce_as(me, device, COUNT, TROUPE_FLOAT32, TROUPE_MEAN));
    TROUPE_TRY(troupe_device_copy_bytes(values, device, COUNT * sizeof *values, NULL));
    for (int i = 0; i < COUNT; i++)
        if (values[i] != (float)(i + report) + (float)(me->world - 1) / 2)
            return troupe_fail(TROUPE_FAILED, "value %d is %g", i, (double)values[i]);
    return TROUPE_OK;
}

static troupe_status fit(troupe_rank *me, const on_gpus *config)
{
    static float values[COUNT];
    troupe_device_info info;
    void *device;
    if (config->own)
        TROUPE_TRY(take_by_cuda(&device));
    else
        TROUPE_TRY(troupe_device_alloc(sizeof values, &device));
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (visible == NULL || atoi(visible) != 4 + me->rank)
        return troupe_fail(TROUPE_FAILED, "it sees the GPUs %s", visible ? visible : "of all");
    for (int report = 0; report < REPORTS; report++) {
        if (config->killed && me->rank == 1 && me->attempt == 0 && report == 2)
            kill(getpid(), SIGKILL);
        TROUPE_TRY(sum_on_gpus(me, values, device, report));
        TROUPE_TRY(troupe_report(me, {"attempt", me->attempt}));
    }
    TROUPE_TRY(troupe_device_info_get(&info, sizeof info));
    troupe_device_free(&device);
    return info.device == 0 ? TROUPE_OK : troupe_fail(TROUPE_FAILED, "device %d", info.device);
}
TROUPE_TRAINER(fit, on_gpus);

// What lies on a device is refused by its name; the step goes on with the others.
static troupe_status average(troupe_rank *me)
{
    float value = 0, gradient = (float)me->rank;
    void *device;
    TROUPE_TRY(troupe_device_alloc(sizeof(float), &device));
    troupe_gradients *all = troupe_gradients_open(me);
    TROUPE_TRY(troupe_gradients_add(all, "host", &value, &gradient, 1));
    for (int which = 0; which < 2; which++) {
        troupe_status status = troupe_gradients_add(all, "there", which ? (float *)device : &value,
                                                    which ? &value : (float *)device, 1);
        if (status != TROUPE_UNSUPPORTED ||
            !strstr(troupe_last_error()->text,
                    "troupe_gradients_add: 'there' lies in memory of a GPU: expected memory of the "
                    "host"))
            return troupe_fail(TROUPE_FAILED, "status %d: %s", (int)status,
                               troupe_last_error()->text);
    }
    troupe_device_free(&device);
    TROUPE_TRY(troupe_gradients_begin(all, 1));
    TROUPE_TRY(troupe_gradients_average(all));
    return gradient == (float)(me->world - 1) / 2
               ? TROUPE_OK
               : troupe_fail(TROUPE_FAILED, "the mean is %g", (double)gradient);
}
TROUPE_TRAINER(average);

static char *folder;

static void train(on_gpus config, int restarts)
{
    troupe_result *result = NULL;
    troupe_must(troupe_train(fit, &config, &result, .ranks = 3, .gpus_per_rank = 1,
                             .storage = folder, .restarts = 1));
    assert_int_equal(troupe_result_restarts(result), restarts);
    assert_true(troupe_result_metric(result, "attempt") == restarts);
    troupe_result_free(&result);
}

static void test_gradients_are_averaged_on_gpus(void **state)
{
    (void)state;
    train((on_gpus){0}, 0);
}

static void test_memory_of_the_programs_own_cuda_is_known(void **state)
{
    (void)state;
    train((on_gpus){.own = 1}, 0);
}

static void test_a_rank_killed_on_gpus_is_started_again(void **state)
{
    (void)state;
    train((on_gpus){.killed = 1}, 1);
}

static void test_gradients_on_gpus_are_refused_by_name(void **state)
{
    (void)state;
    troupe_result *result = NULL;
    troupe_must(
        troupe_train(average, NULL, &result, .ranks = 3, .gpus_per_rank = 1, .storage = folder));
    troupe_result_free(&result);
}

int main(int argc, char **argv)
{
    setenv("TROUPE_CUDA", support_setting("TROUPE_STANDIN"), 1);
    setenv("TROUPE_NCCL", support_setting("TROUPE_STANDIN"), 1);
    setenv("CUDA_VISIBLE_DEVICES", "4,5,6", 1); // The stand-in does not look.
    troupe_must(troupe_start(argc, argv, .cpus = 4));
    folder = support_directory_make();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_are_averaged_on_gpus),
        cmocka_unit_test(test_memory_of_the_programs_own_cuda_is_known),
        cmocka_unit_test(test_a_rank_killed_on_gpus_is_started_again),
        cmocka_unit_test(test_gradients_on_gpus_are_refused_by_name),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    support_directory_remove(folder);
    return troupe_stop() || failed;
}
