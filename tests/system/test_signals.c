// test_signals.c: SIGINT and SIGTERM in a driver that asked for .handle_signals: the first lets
// methods finish, the second does not, and nothing is left either way.
// timeout: 120
#include <support.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <troupe/actor.h>
#include <unistd.h>

enum { LONG_MS = 20000, SHORT_MS = 300 };

typedef struct napper {
    int unused;
} napper;

static troupe_status nap(napper *self, const int *milliseconds, int *pid)
{
    (void)self;
    *pid = getpid();
    (void)!write(STDOUT_FILENO, "b", 1);
    usleep((unsigned)*milliseconds * 1000);
    (void)!write(STDOUT_FILENO, "e", 1);
    return TROUPE_OK;
}

static troupe_status pid_of(napper *self, const troupe_none *none, int *pid)
{
    (void)self;
    (void)none;
    *pid = getpid();
    return TROUPE_OK;
}

TROUPE_ACTOR(napper, (nap, int, int), (pid_of, troupe_none, int));

typedef struct facts {
    pid_t driver, worker;
    int from;
} facts;

// What main does while the worker is in its method.
typedef enum main_kind {
    WAITS_FOR_SIGNALS,
    WAITS_FOR_A_CALL, // It ends as a failure when the runtime stops, and main ends by troupe_must.
} main_kind;

static _Noreturn void drive(int milliseconds, bool handle, main_kind kind)
{
    int pid;
    (void)alarm(60);
    (void)signal(SIGINT, SIG_DFL); // A shell's background jobs ignore it.
    (void)signal(SIGTERM, SIG_DFL);
    troupe_must(troupe_start(0, NULL, .workers = 1, .handle_signals = handle,
                             .worker_output = TROUPE_OUTPUT_DIRECT,
                             .stop_timeout_ms = 2 * LONG_MS));
    napper_actor actor = troupe_spawn(napper, .place = TROUPE_PLACE_WORKER);
    troupe_must(troupe_get(int, troupe_call(actor, pid_of), &pid));
    if (write(STDOUT_FILENO, &pid, sizeof pid) != (ssize_t)sizeof pid)
        _exit(3);
    troupe_tell(actor, nap, milliseconds);
    if (kind == WAITS_FOR_A_CALL)
        troupe_must(troupe_get(int, troupe_call(actor, nap, LONG_MS), &pid));
    for (;;)
        pause();
}

// A driver whose worker is inside a method now.
static facts begin_with(int milliseconds, bool handle, main_kind kind)
{
    facts about = {0};
    int ends[2], pid;
    char mark = 0;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    about.driver = fork();
    assert_true(about.driver >= 0);
    if (about.driver == 0) {
        close(ends[0]);
        (void)dup2(ends[1], STDOUT_FILENO); // Where drivers and workers tell how far they are.
        close(ends[1]);
        drive(milliseconds, handle, kind);
    }
    close(ends[1]);
    about.from = ends[0];
    assert_int_equal(read(about.from, &pid, sizeof pid), sizeof pid);
    about.worker = pid;
    assert_int_equal(read(about.from, &mark, 1), 1);
    assert_int_equal(mark, 'b');
    return about;
}

static facts begin(int milliseconds, bool handle)
{
    return begin_with(milliseconds, handle, WAITS_FOR_SIGNALS);
}

// Waits for its end by that signal; whether its method was let finish.
static bool end(const facts *about, int signal)
{
    int status;
    char mark = 0;
    assert_int_equal(waitpid(about->driver, &status, 0), about->driver);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != signal)
        print_error("the driver's status is %x\n", (unsigned)status);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == signal);
    assert_true(support_processes_end(&about->worker, 1, 2000));
    bool finished = read(about->from, &mark, 1) == 1 && mark == 'e';
    close(about->from);
    return finished;
}

static void test_the_first_lets_methods_finish(void **state)
{
    (void)state;
    facts about = begin(SHORT_MS, true);
    assert_int_equal(kill(about.driver, SIGINT), 0);
    assert_true(end(&about, SIGINT));
    about = begin(SHORT_MS, true);
    assert_int_equal(kill(about.driver, SIGTERM), 0);
    assert_true(end(&about, SIGTERM));
}

static void test_a_main_that_fails_by_the_stop_ends_by_the_signal(void **state)
{
    (void)state;
    facts about = begin_with(SHORT_MS, true, WAITS_FOR_A_CALL);
    assert_int_equal(kill(about.driver, SIGINT), 0);
    assert_true(end(&about, SIGINT));
}

static bool has_taken_its_signal(void *context)
{
    // The second signal must not come before the first was taken: two of the same would be one.
    facts *about = context;
    char path[64], line[256];
    unsigned long long pending = ~0ull;
    snprintf(path, sizeof path, "/proc/%d/status", about->driver);
    FILE *status = fopen(path, "re");
    if (status == NULL)
        return true;
    while (fgets(line, sizeof line, status) != NULL)
        (void)sscanf(line, "ShdPnd: %llx", &pending);
    fclose(status);
    return pending == 0;
}

static void test_the_second_stops_them_now(void **state)
{
    (void)state;
    facts about = begin(LONG_MS, true);
    int64_t before = support_now_ms();
    assert_int_equal(kill(about.driver, SIGINT), 0);
    assert_true(support_wait_until(has_taken_its_signal, &about, SUPPORT_SOON_MS));
    assert_true(support_process_lives(about.driver));
    assert_int_equal(kill(about.driver, SIGINT), 0);
    assert_false(end(&about, SIGINT));
    assert_in_range(support_now_ms() - before, 0, LONG_MS / 2);
}

static void test_without_handlers(void **state)
{
    (void)state;
    facts about = begin(LONG_MS, false);
    assert_int_equal(kill(about.driver, SIGINT), 0);
    assert_false(end(&about, SIGINT));
}

static void own_handler(int number)
{
    (void)number;
}

static void test_handlers_are_put_back(void **state)
{
    (void)state;
    struct sigaction now;
    (void)signal(SIGINT, own_handler);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(troupe_start(0, NULL, .workers = 1, .handle_signals = true), TROUPE_OK);
        assert_int_equal(sigaction(SIGINT, NULL, &now), 0);
        assert_true(now.sa_handler != own_handler);
        assert_int_equal(troupe_stop(), 0);
        assert_int_equal(sigaction(SIGINT, NULL, &now), 0);
        assert_true(now.sa_handler == own_handler);
    }
    (void)signal(SIGINT, SIG_IGN); // As below nohup.
    assert_int_equal(troupe_start(0, NULL, .workers = 1, .handle_signals = true), TROUPE_OK);
    assert_int_equal(sigaction(SIGINT, NULL, &now), 0);
    assert_true(now.sa_handler == SIG_IGN);
    assert_int_equal(troupe_stop(), 0);
    (void)signal(SIGINT, SIG_DFL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_lets_methods_finish),
        cmocka_unit_test(test_a_main_that_fails_by_the_stop_ends_by_the_signal),
        cmocka_unit_test(test_the_second_stops_them_now),
        cmocka_unit_test(test_without_handlers),
        cmocka_unit_test(test_handlers_are_put_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
