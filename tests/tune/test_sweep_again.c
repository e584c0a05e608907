// test_sweep_again.c: sweeps of a train server that go on, over a Train that a thread plays.
#include "fake_train.h"

#include <runtime/base/memory.h>

static const char first[] =
    "{\"event\": \"sweep\", \"trainer\": \"fit\", \"metric\": \"loss\", \"goal\": \"minimize\", "
    "\"trials\": 1, \"seed\": 1, \"scheduler\": \"FIFO\", \"id\": \"0123\"}\n";

static char *journal_of(const char *name)
{
    char *folder = support_path(storage, name), *path = support_path(folder, "trials.jsonl");
    (void)mkdir(folder, 0777);
    free(folder);
    return path;
}

static void test_no_failing_allocation_takes_the_journal_away(void **state)
{
    (void)state;
    char *path = journal_of("scarce"), *text = NULL;
    troupe_status status;
    int failures = 0;
    support_write_file(path, first, strlen(first));
    do {
        troupe_sweep *sweep = NULL;
        fake_open(2);
        trp_memory_fail_after(failures);
        status = SWEEP(&sweep, .trials = 1, .name = "scarce", .server = TROUPE_SERVER_AUTO,
                       .open = TROUPE_OPEN_RESUME);
        trp_memory_fail_after(-1);
        if (status != TROUPE_OK) // A server's job goes on.
            assert_int_equal(fake.left, fake.submitted);
        free(text);
        text = support_read_file(path);
        assert_non_null(text);
        assert_int_equal(strncmp(text, first, strlen(first)), 0);
        troupe_sweep_free(&sweep);
        fake_shut();
    } while (strcmp(text, first) == 0 && ++failures < 1000);
    assert_in_range(failures, 10, 999);
    free(text);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_failing_allocation_takes_the_journal_away),
    };
    return cmocka_run_group_tests(tests, make_storage, remove_storage);
}
