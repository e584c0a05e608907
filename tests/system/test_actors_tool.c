// test_actors_tool.c: `troupe actors` looks at this process's node from outside; which users may,
// and what happens if the driver does not answer. Also `troupe --version` and `--help`.
#include <support.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <runtime/shm/process_table.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <troupe.h>
#include <unistd.h>

enum { NOBODY = 65534 };

static char output[1 << 15];

typedef struct sleeper {
    int unused;
} sleeper;

static troupe_status sleeper_rest(sleeper *self, const troupe_none *none, troupe_none *done)
{
    (void)self;
    (void)none;
    (void)done;
    return TROUPE_OK;
}

// Holds its thread until the file is there.
static troupe_status sleeper_hold(sleeper *self, const troupe_text *path, troupe_none *done)
{
    (void)self;
    (void)done;
    while (!support_exists(*path))
        usleep(1000);
    return TROUPE_OK;
}

static troupe_status sleeper_ask(sleeper *self, const troupe_text *name, troupe_none *done);

TROUPE_ACTOR(sleeper, (sleeper_rest, troupe_none, troupe_none),
             (sleeper_hold, troupe_text, troupe_none), (sleeper_ask, troupe_text, troupe_none));

static troupe_status sleeper_ask(sleeper *self, const troupe_text *name, troupe_none *done)
{
    (void)self;
    sleeper_actor other;
    TROUPE_TRY(troupe_lookup(sleeper, *name, &other));
    return troupe_get(troupe_none, troupe_call(other, sleeper_rest), done);
}

static int run(const char *arguments)
{
    char command[512];
    snprintf(command, sizeof command, "'%s' %s 2>&1", support_setting("TROUPE_TOOL"), arguments);
    return support_run(command, output, sizeof output);
}

static void expect_run(int expected, const char *wanted, const char *format, int pid)
{
    char arguments[256];
    snprintf(arguments, sizeof arguments, format, pid);
    int status = run(arguments);
    if (status != expected || strstr(output, wanted) == NULL)
        fail_msg("troupe %s ended with %d, not %d, or does not say '%s':\n%s", arguments, status,
                 expected, wanted, output);
}

static int start_node(void **state)
{
    (void)state;
    troupe_must(troupe_start(0, NULL, .workers = 1, .store_bytes_max = 16 << 20));
    return 0;
}

static int stop_node(void **state)
{
    (void)state;
    return troupe_stop();
}

static void test_version_and_help(void **state)
{
    (void)state;
    expect_run(0, "troupe " TROUPE_VERSION_TEXT "\n", "--version", 0);
    static const char *const commands[] = {"actors", "keys", "memory", "worker"};
    expect_run(0, "usage: troupe COMMAND", "--help", 0);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        assert_non_null(strstr(output, commands[i]));
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char arguments[64], usage[64];
        snprintf(arguments, sizeof arguments, "%s --help", commands[i]);
        snprintf(usage, sizeof usage, "usage: troupe %s", commands[i]);
        expect_run(0, usage, arguments, 0);
    }
    expect_run(2, "troupe: there is no command \"actor\": `troupe --help` lists them\n", "actor",
               0);
    expect_run(2, "usage: troupe actors", "actors --nothing", 0);
    expect_run(2, "\"0\" is not a number", "actors -n 0", 0);
    expect_run(2, "not by hand", "worker --load libnothing.so", 0);
}

static bool one_waits(void *context)
{
    (void)context;
    expect_run(0, ": 2 actors", "actors %d", getpid());
    return strstr(output, " waiting ") != NULL;
}

static void test_actors_are_listed(void **state)
{
    (void)state;
    int pid = getpid();
    char *folder = support_directory_make(), *gate = support_path(folder, "gate");
    sleeper_actor here = troupe_spawn(sleeper, .place = TROUPE_PLACE_HERE, .name = "holds");
    sleeper_actor there = troupe_spawn(sleeper, .place = TROUPE_PLACE_ISOLATED, .name = "asks");
    troupe_must(troupe_get(troupe_none, troupe_call(here, sleeper_rest), &(troupe_none){0}));
    troupe_must(troupe_tell(here, sleeper_hold, gate));
    troupe_ref answer = troupe_call(there, sleeper_ask, "holds");
    // A wait is noted a moment after it has begun.
    assert_true(support_wait_until(one_waits, NULL, 2 * SUPPORT_SOON_MS));
    assert_non_null(strstr(output, "sleeper 'holds'"));
    assert_non_null(strstr(output, " busy "));
    assert_non_null(strstr(output, "sleeper_rest of sleeper#"));
    expect_run(0, "\"label\": \"sleeper 'asks'\", \"class\": \"sleeper\"", "actors --json %d", pid);
    assert_non_null(strstr(output, "\"total\": 2, \"silent\": 0"));
    assert_non_null(strstr(output, "\"state\": \"waiting\""));
    // Any process of the node will do: here that of the isolated actor.
    const char *at = strstr(strstr(output, "'asks'"), "\"pid\": ");
    assert_non_null(at);
    int worker = (int)strtol(at + strlen("\"pid\": "), NULL, 10);
    assert_true(worker > 0 && worker != pid);
    expect_run(0, ": 2 actors", "actors %d", worker);
    support_write_file(gate, "", 0);
    troupe_must(troupe_get(troupe_none, answer, &(troupe_none){0}));
    troupe_must(troupe_actor_kill(here));
    troupe_must(troupe_actor_kill(there));
    free(gate);
    support_directory_remove(folder);
}

static void test_most_actors(void **state)
{
    (void)state;
    sleeper_actor actors[3];
    for (int i = 0; i < 3; i++) {
        actors[i] = troupe_spawn(sleeper, .place = TROUPE_PLACE_HERE);
        troupe_must(
            troupe_get(troupe_none, troupe_call(actors[i], sleeper_rest), &(troupe_none){0}));
    }
    expect_run(0, "of 3; -n lists more)", "actors -n 1 %d", getpid());
    for (int i = 0; i < 3; i++)
        troupe_must(troupe_actor_kill(actors[i]));
}

// The same by the public function.
static void test_a_program_asks(void **state)
{
    (void)state;
    troupe_actor_list list;
    troupe_actors_list_options how = {.size = sizeof how, .pid = getpid()};
    assert_int_equal(troupe_actors_list_with(&list, sizeof list, &how), TROUPE_OK);
    assert_int_equal(list.silent, 0);
    how.pid = 1;
    assert_int_equal(troupe_actors_list_with(&list, sizeof list, &how), TROUPE_NOT_FOUND);
    assert_non_null(strstr(troupe_last_error()->text, "process 1 belongs to no node"));
    how.pid = 0;
    assert_int_equal(troupe_actors_list_with(&list, sizeof list, &how), TROUPE_OK);
    troupe_arena_reset();
}

static int connect_to_driver(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "%s/query", trp_self.folder);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (connect(fd, (struct sockaddr *)&name, sizeof name) == 0)
        return fd;
    close(fd);
    return -1;
}

static void become_nobody(void)
{
    if (setresgid(NOBODY, NOBODY, NOBODY) != 0 || setresuid(NOBODY, NOBODY, NOBODY) != 0)
        _exit(9);
}

static int in_another_user(int (*body)(void))
{
    int status = -1;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        become_nobody();
        _exit(body());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int connects(void)
{
    return connect_to_driver() >= 0 ? 1 : errno == EACCES ? 0 : 2;
}

// Asks as another user who got as far as the socket: 0: the driver hung up.
static int is_answered(void)
{
    uint64_t most = 10;
    char byte;
    int fd = connect_to_driver();
    if (fd < 0)
        return 2;
    (void)!send(fd, &most, sizeof most, MSG_NOSIGNAL);
    return recv(fd, &byte, 1, 0) > 0;
}

static void test_other_users_are_not_answered(void **state)
{
    (void)state;
    char path[128];
    if (geteuid() != 0)
        skip();
    assert_int_equal(in_another_user(connects), 0); // The folder is ours alone.
    snprintf(path, sizeof path, "%s/query", trp_self.folder);
    assert_int_equal(chmod(trp_self.folder, 0755), 0);
    assert_int_equal(chmod(path, 0777), 0);
    assert_int_equal(in_another_user(is_answered), 0);
    assert_int_equal(chmod(trp_self.folder, 0700), 0);
    expect_run(0, "node of process", "actors %d", getpid());
}

// Whether the other end has read what was sent.
static bool is_read(void *fd)
{
    int left = -1;
    return ioctl(*(int *)fd, SIOCOUTQ, &left) == 0 && left == 0;
}

// Who connects and says nothing holds others up for 2 s at most, and the end of the node not at
// all.
static void test_a_silent_asker(void **state)
{
    (void)state;
    int silent = connect_to_driver();
    assert_true(silent >= 0);
    expect_run(0, "node of process", "actors %d", getpid());
    int second = connect_to_driver();
    assert_true(second >= 0);
    char byte;
    assert_int_equal(recv(silent, &byte, 1, 0), 0); // Its time is over.
    // The second one's question has begun, so that it is waited for; else the driver might end
    // before it has come to that one.
    assert_int_equal(send(second, "q", 1, MSG_NOSIGNAL), 1);
    assert_true(support_wait_until(is_read, &second, SUPPORT_SOON_MS));
    assert_int_equal(troupe_stop(), 0); // However long the second one might have been silent.
    assert_int_equal(recv(second, &byte, 1, 0), 0);
    close(silent);
    close(second);
    troupe_must(troupe_start(0, NULL, .workers = 1, .store_bytes_max = 16 << 20));
}

// Another program with a node of its own.
static pid_t start_other(const char *local)
{
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char *const arguments[] = {(char *)"test_actors_tool", (char *)"node", NULL};
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)setenv("TROUPE_LOCAL", local, 1);
        execv("/proc/self/exe", arguments);
        _exit(9);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    return pid;
}

static void test_a_stopped_driver(void **state)
{
    (void)state;
    pid_t pid = start_other("0");
    expect_run(0, ": 0 actors", "actors %d", pid);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
    expect_run(1, "is stopped and cannot answer", "actors %d", pid);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    expect_run(1, "belongs to no node that can be seen", "actors %d", pid);
}

static void test_a_node_in_one_process(void **state)
{
    (void)state;
    pid_t pid = start_other("1");
    expect_run(1, "TROUPE_LOCAL=1", "actors %d", pid);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static int be_a_node(void)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    troupe_must(troupe_start(0, NULL, .workers = 1, .store_bytes_max = 16 << 20));
    if (write(STDOUT_FILENO, "r", 1) != 1)
        return 1;
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "node") == 0)
        return be_a_node();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_version_and_help),
        cmocka_unit_test(test_actors_are_listed),
        cmocka_unit_test(test_most_actors),
        cmocka_unit_test(test_a_program_asks),
        cmocka_unit_test(test_other_users_are_not_answered),
        cmocka_unit_test(test_a_silent_asker),
        cmocka_unit_test(test_a_stopped_driver),
        cmocka_unit_test(test_a_node_in_one_process),
    };
    return cmocka_run_group_tests(tests, start_node, stop_node);
}
