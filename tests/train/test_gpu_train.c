// test_gpu_train.c: a run whose rank computes on a real GPU, is killed there, and goes on. Skipped,
// with the reason, where there is none.
// label: gpu
// label: alone
// timeout: 300
#include "gpu.h"
#include "support.h"

#include <signal.h>
#include <troupe.h>

enum { COUNT = 1 << 20, REPORTS = 4 };

TROUPE_STRUCT(none_of_it, (int, unused));

static troupe_status fit(troupe_rank *me, const none_of_it *config)
{
    static float values[COUNT];
    troupe_tensor here = troupe_tensor_of(TROUPE_FLOAT32, values, COUNT), there;
    (void)config;
    TROUPE_TRY(troupe_device_tensor_create(&here, &there));
    for (int report = 0; report < REPORTS; report++) {
        for (int i = 0; i < COUNT; i++)
            values[i] = (float)(i % 1000 + report);
        TROUPE_TRY(troupe_device_copy(&there, &here, NULL));
        troupe_status status = troupe_allreduce_as(me, (void *)(uintptr_t)there.data, COUNT,
                                                   TROUPE_FLOAT32, TROUPE_SUM);
        if (status == TROUPE_UNSUPPORTED)
            printf("NCCL CANNOT BE USED HERE: %s\n", troupe_last_error()->text);
        else
            TROUPE_TRY(status);
        values[COUNT - 1] = 0;
        TROUPE_TRY(troupe_device_copy(&here, &there, NULL));
        if (values[COUNT - 1] != (float)((COUNT - 1) % 1000 + report))
            return troupe_fail(TROUPE_FAILED, "it is %g", (double)values[COUNT - 1]);
        if (me->attempt == 0 && report == 2)
            kill(getpid(), SIGKILL);
        TROUPE_TRY(troupe_report(me, {"attempt", me->attempt}));
    }
    troupe_device_tensor_free(&there);
    return TROUPE_OK;
}
TROUPE_TRAINER(fit, none_of_it);

static char *folder;

static void test_a_rank_killed_on_its_gpu_is_started_again(void **state)
{
    (void)state;
    troupe_result *result = NULL;
    troupe_must(troupe_train(fit, &(none_of_it){0}, &result, .ranks = 1, .gpus_per_rank = 1,
                             .storage = folder, .restarts = 1));
    assert_int_equal(troupe_result_restarts(result), 1);
    assert_true(troupe_result_metric(result, "attempt") == 1);
    troupe_result_free(&result);
}

int main(int argc, char **argv)
{
    if (!gpu_is_there())
        return GPU_SKIPPED;
    troupe_must(troupe_start(argc, argv, .cpus = 2));
    folder = support_directory_make();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rank_killed_on_its_gpu_is_started_again),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    support_directory_remove(folder);
    return troupe_stop() || failed;
}
