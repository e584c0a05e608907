// test_postmortem.c: what is said of processes that a signal ended: core files by the kernel's
// pattern, and the memory limit's counters, on folders that look like a system's.
#include <support.h>

#include <runtime/node/postmortem.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { DUMPED = 0x80 }; // In a wait status.

static char *root, text[256];

static int set_up(void **state)
{
    (void)state;
    root = support_directory_make();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    support_directory_remove(root);
    return 0;
}

static void put(const char *path, const char *what)
{
    char command[1024];
    snprintf(command, sizeof command, "mkdir -p \"$(dirname '%s/%s')\"", root, path);
    assert_int_equal(system(command), 0);
    char *whole = support_path(root, path);
    support_write_file(whole, what, strlen(what));
    free(whole);
}

static const char *core_of(const char *pattern, int status)
{
    put("proc/sys/kernel/core_pattern", pattern);
    trp_postmortem_core(root, 123, "troupe-7", status, text, sizeof text);
    return text;
}

static void test_core_files(void **state)
{
    (void)state;
    put("proc/sys/kernel/core_uses_pid", "0\n");
    assert_string_equal(core_of("/cores/%e.%p.%s%%\n", SIGSEGV | DUMPED),
                        "core file: /cores/troupe-7.123.11%");
    assert_string_equal(core_of("core\n", SIGABRT | DUMPED),
                        "core file: core in its working folder");
    assert_string_equal(core_of("/c/%t.%p\n", SIGABRT | DUMPED), "core file: /c/*.123");
    put("proc/sys/kernel/core_uses_pid", "1\n");
    assert_string_equal(core_of("core\n", SIGABRT | DUMPED),
                        "core file: core.123 in its working folder");
    assert_string_equal(core_of("/c/x.%p\n", SIGABRT | DUMPED), "core file: /c/x.123");
    assert_string_equal(core_of("|/usr/lib/handler %P %u\n", SIGBUS | DUMPED),
                        "core file: given to /usr/lib/handler");
    assert_string_equal(core_of("core\n", SIGKILL), "");
    assert_string_equal(core_of("core\n", 1 << 8), ""); // It exited.
}

static void test_no_core_file(void **state)
{
    (void)state;
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_CORE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_CORE, &none), 0);
    assert_string_equal(core_of("core\n", SIGSEGV), "no core file: ulimit -c is 0");
    if (before.rlim_max > 0) {
        none.rlim_cur = 1;
        assert_int_equal(setrlimit(RLIMIT_CORE, &none), 0);
        assert_string_equal(core_of("core\n", SIGSEGV), "no core file was written");
    }
    assert_int_equal(setrlimit(RLIMIT_CORE, &before), 0);
}

static void test_memory_kills(void **state)
{
    (void)state;
    assert_int_equal(trp_postmortem_memory_kills(root), 0);
    put("proc/self/cgroup", "0::/a/b\n");
    put("sys/fs/cgroup/a/b/memory.events", "low 0\noom 3\noom_kill 2\noom_group_kill 9\n");
    put("sys/fs/cgroup/a/memory.events", "oom_kill 5\n");
    assert_int_equal(trp_postmortem_memory_kills(root), 7);
    put("proc/self/cgroup", "4:memory:/m\n");
    put("sys/fs/cgroup/memory/m/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n");
    assert_int_equal(trp_postmortem_memory_kills(root), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_core_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_core_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_memory_kills, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
