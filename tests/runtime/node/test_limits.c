// test_limits.c: what a process may use, read from folders that look like a system with cgroups of
// version 2, of version 1, inside a container, and with GPUs.
#include <support.h>

#include <runtime/node/limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *root;

static int set_up(void **state)
{
    (void)state;
    root = support_directory_make();
    unsetenv("CUDA_VISIBLE_DEVICES");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    support_directory_remove(root);
    return 0;
}

// Writes a file below the root, with the folders that it needs.
static void put(const char *path, const char *text)
{
    char command[1024];
    snprintf(command, sizeof command, "mkdir -p \"$(dirname '%s/%s')\"", root, path);
    assert_int_equal(system(command), 0);
    char *whole = support_path(root, path);
    support_write_file(whole, text, strlen(text));
    free(whole);
}

static void test_without_limits(void **state)
{
    (void)state;
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    put("proc/self/cgroup", "0::/\n");
    put("sys/fs/cgroup/cpu.max", "max 100000\n");
    put("sys/fs/cgroup/memory.max", "max\n");
    trp_limits limits = trp_limits_read(root);
    assert_true(limits.cpus == CPU_COUNT(&set));
    assert_true(limits.memory_bytes > 1 << 20);
    assert_int_equal(limits.gpus, 0);
    assert_true(trp_limits_read("/nowhere").cpus == CPU_COUNT(&set));
}

static void test_version_2(void **state)
{
    (void)state;
    put("proc/self/cgroup", "0::/user.slice/job\n");
    put("sys/fs/cgroup/user.slice/job/cpu.max", "50000 100000\n");
    put("sys/fs/cgroup/user.slice/job/memory.max", "max\n");
    put("sys/fs/cgroup/user.slice/cpu.max", "75000 100000\n");
    put("sys/fs/cgroup/user.slice/memory.max", "1048576\n"); // The one above limits as well.
    trp_limits limits = trp_limits_read(root);
    assert_true(limits.cpus == 0.5);
    assert_true(limits.memory_bytes == 1048576);
}

static void test_version_1(void **state)
{
    (void)state;
    put("proc/self/cgroup", "5:memory:/job\n3:cpu,cpuacct:/job\n2:cpuset:/\n");
    put("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "25000\n");
    put("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
    put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"); // None.
    put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "2097152\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    trp_limits limits = trp_limits_read(root);
    assert_true(limits.cpus == 0.25);
    assert_true(limits.memory_bytes == 2097152);
}

// The path is the host's, and the mount shows the container's own group as its top.
static void test_inside_a_container(void **state)
{
    (void)state;
    put("proc/self/cgroup", "0::/docker/0123456789\n");
    put("sys/fs/cgroup/cpu.max", "30000 100000\n");
    put("sys/fs/cgroup/memory.max", "4194304\n");
    trp_limits limits = trp_limits_read(root);
    assert_true(limits.cpus == 0.3);
    assert_true(limits.memory_bytes == 4194304);
}

static void test_gpus(void **state)
{
    (void)state;
    char id[TRP_GPU_ID_MAX];
    put("dev/nvidia0", "");
    put("dev/nvidia1", "");
    put("dev/nvidiactl", "");
    assert_int_equal(trp_limits_read(root).gpus, 2);
    trp_gpu_id(1, id);
    assert_string_equal(id, "1");
    setenv("CUDA_VISIBLE_DEVICES", "7,GPU-abc,9", 1);
    assert_int_equal(trp_limits_read(root).gpus, 3);
    trp_gpu_id(1, id);
    assert_string_equal(id, "GPU-abc");
    trp_gpu_id(2, id);
    assert_string_equal(id, "9");
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    assert_int_equal(trp_limits_read(root).gpus, 0);
    setenv("CUDA_VISIBLE_DEVICES", "3,-1,5", 1);
    assert_int_equal(trp_limits_read(root).gpus, 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_without_limits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_version_2, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_version_1, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_inside_a_container, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gpus, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
