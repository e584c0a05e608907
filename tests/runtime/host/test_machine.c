// test_machine.c: the machine's memory, as the kernel tells it.
#include <runtime/host/machine.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>

static void test_memory_is_read(void **state)
{
    (void)state;
    double used, total;
    char *folder = support_directory_make(), *path = support_path(folder, "meminfo");
    static const char text[] = "MemTotal:       94371840 kB\nMemFree: 1 kB\n"
                               "MemAvailable:   61341696 kB\n";
    support_write_file(path, text, strlen(text));
    trp_machine_memory(path, &used, &total);
    assert_true(total == 90.0 * (1 << 30) && used == 31.5 * (1 << 30));
    trp_machine_memory("/no/such/file", &used, &total);
    assert_true(total == 0);
    trp_machine_memory(NULL, &used, &total);
    assert_true(used > 0 && used < total);
    free(path);
    support_directory_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
