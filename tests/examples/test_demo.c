// test_demo.c: what ./dev demo does with what was built: on a terminal it ends with a link to a
// dashboard that shows what it trained, and leaves what it says, and how to stop that; else
// nothing.
// timeout: 120
// cost: 10
#include <support.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OUTPUT_MAX = 1 << 20, WAIT_MS = 60000 };

static char *folder, *state;
static char output[OUTPUT_MAX];
static size_t used;

static int begin(void **unused)
{
    (void)unused;
    folder = support_directory_make();
    state = support_path(folder, "runs/server");
    used = 0;
    output[0] = '\0';
    return 0;
}

// Whatever the test has left is stopped.
static int end(void **unused)
{
    (void)unused;
    char command[9000];
    snprintf(command, sizeof command,
             "TROUPE_STATE='%s' '%s' server stop >/dev/null 2>&1; rm -rf '%s'", state,
             support_setting("TROUPE_TOOL"), folder);
    free(state);
    free(folder);
    return system(command) == 0 ? 0 : -1;
}

// ---- the program

static _Noreturn void be_demo(const char *epochs)
{
    char script[4096], build[4096], storage[4096];
    snprintf(script, sizeof script, "%s/examples/digits/demo.sh", support_setting("TROUPE_SOURCE"));
    snprintf(build, sizeof build, "%s/..", support_setting("TROUPE_EXAMPLES"));
    snprintf(storage, sizeof storage, "%s/runs", folder);
    (void)execlp("sh", "sh", script, build, "--data", support_setting("TROUPE_DIGITS_CSV"),
                 "--trials", "2", "--epochs", epochs, "--network", "perceptron", "--storage",
                 storage, (char *)NULL);
    _exit(126);
}

// Reads what it writes until `what` is there, or to its end (NULL).
static void read_until(int fd, const char *what)
{
    int64_t until_ms = support_now_ms() + WAIT_MS * SUPPORT_SLOWER;
    while (what == NULL || strstr(output, what) == NULL) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (poll(&ready, 1, (int)(until_ms - support_now_ms())) <= 0)
            support_fail_output(output, "it did not say '%s' in time", what != NULL ? what : "");
        ssize_t got = read(fd, output + used, sizeof output - 1 - used);
        if (got <= 0 && what != NULL)
            support_fail_output(output, "it ended before it said '%s'", what);
        if (got <= 0)
            return;
        used += (size_t)got;
        output[used] = '\0';
    }
}

static void expect_said(const char *what)
{
    if (strstr(output, what) == NULL)
        support_fail_output(output, "it did not say '%s'", what);
}

static int exit_of(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int troupe_server(const char *command)
{
    char line[9000];
    snprintf(line, sizeof line, "TROUPE_STATE='%s' '%s' server %s >/dev/null 2>&1", state,
             support_setting("TROUPE_TOOL"), command);
    int status = system(line);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// ---- the dashboard

static int port_of_link(void)
{
    int port = 0;
    const char *link = strstr(output, "http://127.0.0.1:");
    if (link == NULL || sscanf(link, "http://127.0.0.1:%d/login#", &port) != 1)
        support_fail_output(output, "there is no link");
    return port;
}

static int connect_to(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (const struct sockaddr *)&at, sizeof at) == 0)
        return fd;
    close(fd);
    return -1;
}

typedef struct asked {
    int port;
    const char *path, *wanted;
    char reply[65536];
} asked;

static bool is_answered(void *user)
{
    asked *it = user;
    char *path = support_path(state, "token"), *token = support_read_file(path);
    size_t size = 0;
    int fd = connect_to(it->port);
    assert_non_null(token);
    assert_true(fd >= 0);
    dprintf(fd,
            "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %.*s\r\n"
            "Connection: close\r\n\r\n",
            it->path, it->port, (int)strcspn(token, "\n"), token);
    for (ssize_t got = 1; got > 0 && size<sizeof it->reply - 1; size += got> 0 ? (size_t)got : 0)
        got = read(fd, it->reply + size, sizeof it->reply - 1 - size);
    it->reply[size] = '\0';
    close(fd);
    free(token);
    free(path);
    return strstr(it->reply, it->wanted) != NULL;
}

static void expect_shown(int port, const char *path, const char *wanted)
{
    asked it = {.port = port, .path = path, .wanted = wanted};
    if (!support_wait_until(is_answered, &it, SUPPORT_SOON_MS))
        fail_msg("%s does not show %s: %.2000s", path, wanted, it.reply);
}

static bool nobody_listens(void *port)
{
    int fd = connect_to(*(int *)port);
    if (fd >= 0)
        close(fd);
    return fd < 0;
}

// ---- tests

static void test_a_terminal_gets_a_link(void **unused)
{
    (void)unused;
    int terminal;
    pid_t pid = forkpty(&terminal, NULL, NULL, NULL);
    if (pid == 0)
        be_demo("3");
    assert_true(pid > 0);
    read_until(terminal, "you can ask for the first one");
    read_until(terminal, "curl.json");
    // While it serves: what is trained, kept and served is in the dashboard.
    int port = port_of_link();
    expect_shown(port, "/api/v1/sweeps", "\"name\":\"digits\"");
    expect_shown(port, "/api/v1/models", "{\"digits\":[1]}");
    expect_shown(port, "/api/v1/routes", "\"route\":\"/digits\"");
    assert_int_equal(write(terminal, "\n", 1), 1);
    read_until(terminal, NULL);
    assert_int_equal(exit_of(pid), 0);
    close(terminal);
    expect_said("Asked over HTTP for the test images: accuracy ");
    expect_said("  curl -H \"@");
    const char *last = strstr(output, "See what it trained");
    assert_non_null(last);
    assert_non_null(strstr(last, "/login#"));
    // The line that it ends with stops all that stayed.
    assert_int_equal(troupe_server("status"), 0);
    char command[9000];
    const char *line = strstr(last, "TROUPE_STATE=");
    assert_non_null(line);
    snprintf(command, sizeof command, "%.*s", (int)strcspn(line, "\r\n"), line);
    assert_int_equal(system(command), 0);
    assert_int_not_equal(troupe_server("status"), 0);
    assert_true(support_wait_until(nobody_listens, &port, SUPPORT_SOON_MS));
}

static void test_a_failure_leaves_nothing(void **unused)
{
    (void)unused;
    int terminal;
    pid_t pid = forkpty(&terminal, NULL, NULL, NULL);
    if (pid == 0)
        be_demo("none");
    assert_true(pid > 0);
    read_until(terminal, NULL);
    assert_int_equal(exit_of(pid), 1);
    close(terminal);
    expect_said("--epochs is 'none'");
    int port = port_of_link();
    assert_int_not_equal(troupe_server("status"), 0);
    assert_true(support_wait_until(nobody_listens, &port, SUPPORT_SOON_MS));
}

static void test_without_a_terminal_nothing_stays(void **unused)
{
    (void)unused;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        be_demo("3");
    }
    close(ends[1]);
    read_until(ends[0], NULL);
    close(ends[0]);
    assert_int_equal(exit_of(pid), 0);
    expect_said("Asked over HTTP for the test images: accuracy ");
    assert_null(strstr(output, "/login#"));
    assert_false(support_exists(state));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_terminal_gets_a_link, begin, end),
        cmocka_unit_test_setup_teardown(test_a_failure_leaves_nothing, begin, end),
        cmocka_unit_test_setup_teardown(test_without_a_terminal_nothing_stays, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
