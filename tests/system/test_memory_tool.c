// test_memory_tool.c: `troupe memory` without PID, and of a node of another version: in a namespace
// where no processes are but the test's own.
#include <support.h>

#include <fcntl.h>
#include <runtime/shm/layout.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <troupe.h>
#include <unistd.h>

enum { STORE = 16 << 20 };

static bool alone;
static char output[1 << 14];

static void run_tool(const char *arguments, int expected)
{
    char command[512];
    snprintf(command, sizeof command, "'%s' memory %s 2>&1", support_setting("TROUPE_TOOL"),
             arguments);
    int status = support_run(command, output, sizeof output);
    if (status != expected)
        fail_msg("'%s' ended with %d, not %d:\n%s", command, status, expected, output);
}

static void expect_output(const char *format, int number)
{
    char text[128];
    snprintf(text, sizeof text, format, number);
    if (strstr(output, text) == NULL)
        fail_msg("expected '%s' in:\n%s", text, output);
}

// A process that has done that and stays until it is stopped.
static pid_t another(void (*begin)(void), void (*end)(void))
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        sigset_t wanted;
        int number;
        sigemptyset(&wanted);
        sigaddset(&wanted, SIGUSR1);
        sigprocmask(SIG_BLOCK, &wanted, NULL);
        begin();
        if (write(ready[1], "r", 1) != 1 || sigwait(&wanted, &number) != 0)
            _exit(1);
        end();
        _exit(0);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void stop_another(pid_t pid)
{
    int status;
    assert_int_equal(kill(pid, SIGUSR1), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void begin_node(void)
{
    troupe_must(troupe_start(0, NULL, .workers = 1, .store_bytes_max = STORE));
}

static void end_node(void)
{
    if (troupe_stop() != 0)
        _exit(1);
}

static void begin_other_version(void)
{
    troupe_must(trp_segment_create(STORE));
    trp_segment.header->version++;
}

static void test_no_node(void **state)
{
    (void)state;
    if (!alone)
        skip(); // The system does not allow it.
    run_tool("", 1);
    expect_output("no node of yours runs on this machine", 0);
}

static void test_one_node(void **state)
{
    (void)state;
    if (!alone)
        skip();
    begin_node();
    run_tool("", 0);
    expect_output("node of driver %d: 0 objects", (int)getpid());
    run_tool("--json", 0);
    expect_output("{\"driver_pid\": %d, \"objects\": 0,", (int)getpid());
    assert_int_equal(troupe_stop(), 0);
}

static void test_two_nodes(void **state)
{
    (void)state;
    char arguments[32];
    if (!alone)
        skip();
    pid_t other = another(begin_node, end_node);
    begin_node();
    run_tool("", 2);
    expect_output("%d nodes run here; say which one by its driver:", 2);
    expect_output(" %d", (int)getpid());
    expect_output(" %d", (int)other);
    snprintf(arguments, sizeof arguments, "%d", (int)other);
    run_tool(arguments, 0);
    expect_output("node of driver %d: 0 objects", (int)other);
    assert_int_equal(troupe_stop(), 0);
    stop_another(other);
}

static void test_another_version(void **state)
{
    (void)state;
    char arguments[32];
    if (!alone)
        skip();
    pid_t other = another(begin_other_version, trp_segment_close);
    snprintf(arguments, sizeof arguments, "%d", (int)other);
    run_tool(arguments, 1);
    expect_output("this library knows", 0);
    run_tool("", 1);
    expect_output("process %d belongs to a node of another version of Troupe", (int)other);
    expect_output("this library knows", 0);
    begin_node(); // One that can be looked at.
    run_tool("", 0);
    expect_output("node of driver %d: 0 objects", (int)getpid());
    assert_int_equal(troupe_stop(), 0);
    stop_another(other);
}

static void begin_as_nobody(void)
{
    if (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0)
        _exit(1);
    // As after an exec: else what it has open is root's alone to see.
    troupe_must(prctl(PR_SET_DUMPABLE, 1) == 0 ? TROUPE_OK : TROUPE_FAILED);
    troupe_must(trp_segment_create(STORE));
}

// Who has the right to look at everybody's memory need not do so.
static void test_the_node_of_another_user(void **state)
{
    (void)state;
    if (!alone || geteuid() != 0)
        skip();
    pid_t other = another(begin_as_nobody, trp_segment_close);
    run_tool("", 1);
    expect_output("no node of yours runs on this machine (-a looks for those of others too)", 0);
    run_tool("-a", 0);
    expect_output("node of driver %d: 0 objects", 0); // It says that it has none.
    stop_another(other);
}

static const char pipe_path[] = "/memfd:troupe";

static void begin_with_a_pipe(void)
{
    if (mkfifo(pipe_path, 0600) != 0 || open(pipe_path, O_RDONLY | O_NONBLOCK) < 0 ||
        unlink(pipe_path) != 0)
        _exit(1);
}

static void end_with_a_pipe(void)
{
}

// What is named as a segment need not be one: to open a pipe waits for who writes it.
static void test_a_pipe_in_place_of_a_segment(void **state)
{
    (void)state;
    char arguments[32];
    if (!alone || geteuid() != 0)
        skip();
    pid_t other = another(begin_with_a_pipe, end_with_a_pipe);
    snprintf(arguments, sizeof arguments, "%d", (int)other);
    run_tool(arguments, 1);
    expect_output("process %d belongs to no node that can be seen", (int)other);
    stop_another(other);
}

static int run_all(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_node),
        cmocka_unit_test(test_one_node),
        cmocka_unit_test(test_two_nodes),
        cmocka_unit_test(test_another_version),
        cmocka_unit_test(test_the_node_of_another_user),
        cmocka_unit_test(test_a_pipe_in_place_of_a_segment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// The first process of the namespace starts the tests and reaps what they leave.
static int run_as_first(void)
{
    alone = mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
            mount("proc", "/proc", "proc", 0, NULL) == 0;
    pid_t tests = fork(), ended;
    if (tests < 0)
        return EXIT_FAILURE;
    if (tests == 0)
        exit(run_all());
    int status;
    while ((ended = wait(&status)) > 0)
        if (ended == tests)
            return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
    return EXIT_FAILURE;
}

int main(void)
{
    support_allow_mounts();
    if (geteuid() != 0 || unshare(CLONE_NEWNS | CLONE_NEWPID) != 0)
        return run_all();
    pid_t first = fork();
    int status;
    if (first == 0)
        exit(run_as_first());
    bool ended = first > 0 && waitpid(first, &status, 0) == first && WIFEXITED(status);
    // At once: the namespace has ended, so a leak checker could start nothing in it any more.
    _exit(ended ? WEXITSTATUS(status) : EXIT_FAILURE);
}
