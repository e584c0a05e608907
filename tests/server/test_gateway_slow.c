// test_gateway_slow.c: what takes the gateway long: clients, services and disks that are slow, and
// what it costs when it idles.
// timeout: 300
// label: slow
#include "gateway_site.h"

#include <dirent.h>
#include <errno.h>
#include <sys/ptrace.h>
#include <time.h>

static void test_a_slow_client_is_shut_down(void **context)
{
    (void)context;
    static const char half[] = "GET /healthz HTTP/1.1\r\nHost: ";
    int fd = connect_to_it();
    int64_t began = support_now_ms();
    send_all(fd, half, sizeof half - 1);
    for (bool closed = false; !closed;) {
        struct pollfd it = {fd, POLLIN, 0};
        char byte;
        assert_code((asked){.method = "GET", .path = "/healthz", .token = admin}, 200, NULL);
        closed = poll(&it, 1, 500) == 1 && recv(fd, &byte, 1, 0) <= 0;
        assert_true(support_now_ms() < began + 10000 + SOON);
    }
    assert_true(support_now_ms() >= began + 9000);
    (void)close(fd);
}

static long switches(void)
{
    char command[200], said[4000];
    long all = 0;
    (void)snprintf(command, sizeof command,
                   "cat /proc/%d/task/*/status | awk '/^voluntary/ {n += $2} END {print n}'",
                   (int)gateway);
    assert_int_equal(support_run(command, said, sizeof said), 0);
    assert_int_equal(sscanf(said, "%ld", &all), 1);
    return all;
}

static void test_it_idles(void **context)
{
    (void)context;
    char path[100], text[100];
    serve_doubled();
    assert_code(predict(1, text), 200, NULL);
    assert_code((asked){.method = "GET", .path = "/api/v1/jobs", .token = admin}, 200, NULL);
    (void)usleep(1500000);
    long before = switches();
    (void)usleep(5000000);
    assert_true(switches() - before <= 5);
    (void)snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)gateway);
    FILE *file = fopen(path, "r");
    if (file) { // Root's alone.
        char line[200];
        long pss = 0;
        while (fgets(line, sizeof line, file) && sscanf(line, "Pss: %ld", &pss) != 1)
            continue;
        (void)fclose(file);
        print_message("PSS of the idle gateway: %ld kB\n", pss);
        if (SUPPORT_SLOWER == 1)
            assert_true(pss > 0 && pss < 8000);
    }
}

// A service that hangs is waited for twice as long as it says, and 5 s.
static void test_a_deadline_that_a_service_says(void **context)
{
    (void)context;
    char text[100], note[600], path[4200];
    serve_doubled();
    (void)snprintf(note, sizeof note,
                   "{\"route\": \"/doubled\", \"socket\": \"doubled.sock\", \"input\": {\"dtype\": "
                   "\"float32\"}, \"deadline_ms\": 500}");
    (void)snprintf(path, sizeof path, "%s/routes/zdoubled.json", state);
    troupe_must(trp_file_replace(path, note, strlen(note)));
    const asked about = {.method = "GET", .path = "/doubled", .token = routes_token};
    for (bool taken = false; !taken;) {
        reply got = ask(about);
        taken = strstr(got.text, "deadline_ms") != NULL;
        reply_free(&got);
    }
    int fd = connect_to_it();
    int64_t began = support_now_ms();
    ask_on(fd, predict(ROW_WAITS, text));
    reply got = read_reply(fd);
    assert_int_equal(got.code, 504);
    assert_non_null(strstr(got.text, "may have been computed"));
    assert_true(support_now_ms() - began >= 6000);
    assert_true(support_now_ms() - began < 6000 + SOON);
    reply_free(&got);
    (void)close(fd);
}

static int find_threads(pid_t process, const char *name, pid_t *found, int most)
{
    char path[300], said[32];
    int count = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)process);
    DIR *tasks = opendir(path);
    assert_non_null(tasks);
    for (struct dirent *it; (it = readdir(tasks)) != NULL;) {
        (void)snprintf(path, sizeof path, "/proc/%d/task/%s/comm", (int)process, it->d_name);
        FILE *file = fopen(path, "re");
        if (file && fgets(said, sizeof said, file) && strncmp(said, name, strlen(name)) == 0 &&
            count < most)
            found[count++] = (pid_t)atoi(it->d_name);
        if (file)
            (void)fclose(file);
    }
    (void)closedir(tasks);
    return count;
}

// Asks until each of the two threads that read files was started.
static void await_threads(const asked *what, pid_t threads[2])
{
    while (find_threads(gateway, "trp-web", threads, 2) < 2) {
        int fds[] = {connect_to_it(), connect_to_it()};
        for (int i = 0; i < 2; i++)
            ask_on(fds[i], *what);
        for (int i = 0; i < 2; i++) {
            reply got = read_reply(fds[i]);
            reply_free(&got);
            (void)close(fds[i]);
        }
    }
}

// Threads that are held stand for such that a disk lets wait: the end does not wait for them.
static void test_an_end_does_not_wait_for_a_disk(void **context)
{
    (void)context;
    const asked jobs = {.method = "GET", .path = "/api/v1/jobs", .token = admin};
    pid_t threads[2];
    int status;
    await_threads(&jobs, threads);
    for (int i = 0; i < 2; i++) {
        if (ptrace(PTRACE_SEIZE, threads[i], NULL, NULL) != 0) {
            print_message("threads of the gateway cannot be held here: %s\n", strerror(errno));
            return;
        }
        assert_int_equal(ptrace(PTRACE_INTERRUPT, threads[i], NULL, NULL), 0);
        assert_int_equal(waitpid(threads[i], &status, __WALL), threads[i]);
        assert_true(WIFSTOPPED(status));
    }
    int64_t began = support_now_ms();
    int fd = connect_to_it();
    ask_on(fd, jobs);
    assert_code((asked){.method = "GET", .path = "/healthz", .token = admin}, 200, NULL);
    troupe_must(trp_gateway_stop(state));
    for (int i = 0; i < 2; i++) { // They go with their process.
        assert_int_equal(waitpid(threads[i], &status, __WALL), threads[i]);
        assert_true(WIFSIGNALED(status) || WIFEXITED(status));
    }
    reap_gateway(0);
    assert_true(support_now_ms() - began < 11000 + SOON);
    reply got = read_reply(fd);
    assert_int_equal(got.code, 0);
    reply_free(&got);
    (void)close(fd);
    start_gateway(); // The port and the lock are free.
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

// Sends a request at once, and reads its reply as whole as it comes: what a client does by itself
// is not to be measured.
static void ask_quickly(int fd, const char *request, size_t size)
{
    char text[4096];
    size_t got = 0;
    const char *body = NULL;
    send_all(fd, request, size);
    while (!body || !strchr(body + 4, '\n')) {
        ssize_t now = recv(fd, text + got, sizeof text - 1 - got, 0);
        assert_true(now > 0);
        got += (size_t)now;
        text[got] = '\0';
        body = strstr(text, "\r\n\r\n");
    }
    assert_memory_equal(text, "HTTP/1.1 200", 12);
}

// End to end, on one connection: client, gateway and service are three processes.
static void test_latency(void **context)
{
    (void)context;
    enum { TIMES = 3000 };
    static double us[TIMES];
    static const char body[] = "{\"instances\": [[1, 2, 3]]}";
    char request[500];
    serve_doubled();
    int fd = connect_to_it();
    int size = snprintf(request, sizeof request,
                        "POST /doubled HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer "
                        "%s\r\n" JSON "Content-Length: %zu\r\n\r\n%s",
                        port, routes_token, sizeof body - 1, body);
    for (int i = 0; i < TIMES; i++) {
        double began = now_us();
        ask_quickly(fd, request, (size_t)size);
        us[i] = now_us() - began;
    }
    (void)close(fd);
    qsort(us, TIMES, sizeof *us, compare);
    print_message("a prediction through the gateway: p50 %.0f us, p99 %.0f us\n", us[TIMES / 2],
                  us[TIMES * 99 / 100]);
    assert_true(us[TIMES / 2] < 20000 * SUPPORT_SLOWER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_slow_client_is_shut_down, begin, end),
        cmocka_unit_test_setup_teardown(test_a_deadline_that_a_service_says, begin, end),
        cmocka_unit_test_setup_teardown(test_an_end_does_not_wait_for_a_disk, begin, end),
        cmocka_unit_test_setup_teardown(test_it_idles, begin, end),
        cmocka_unit_test_setup_teardown(test_latency, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
