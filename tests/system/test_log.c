// test_log.c: troupe_log: level, actor and process in one line, inside methods and without a
// runtime.
#include <support.h>

#include <errno.h>
#include <runtime/base/log.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <troupe/actor.h>
#include <troupe/log.h>
#include <troupe/supervise.h>
#include <unistd.h>

typedef struct logger {
    int unused;
} logger;

static troupe_status say(logger *self, const troupe_text *text, int *pid)
{
    (void)self;
    errno = 77;
    troupe_log(TROUPE_LOG_WARN, "it says %s", *text);
    troupe_log(TROUPE_LOG_DEBUG, "this is not asked for");
    *pid = getpid();
    return errno == 77 ? TROUPE_OK : troupe_fail(TROUPE_FAILED, "errno was changed");
}

static troupe_status refuse(logger *self, const troupe_text *text, int *unused)
{
    (void)self;
    (void)unused;
    return troupe_fail(TROUPE_FAILED, "it is %s", *text);
}

static troupe_status give_up(logger *self, const troupe_text *text, int *unused)
{
    (void)self, (void)unused;
    return troupe_actor_fail(TROUPE_IO, "%s", *text);
}

static troupe_status leave(logger *self, const troupe_none *none, int *unused)
{
    (void)self, (void)none, (void)unused;
    exit(3);
}

TROUPE_ACTOR(logger, (say, troupe_text, int), (refuse, troupe_text, int),
             (give_up, troupe_text, int), (leave, troupe_none, int));

static char output[65536];

// Runs `drive` in a process of its own; what that and its workers wrote to stderr is in `output`.
static void run(int (*drive)(void))
{
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)alarm(60);
        (void)dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        exit(drive());
    }
    close(ends[1]);
    size_t used = 0;
    for (ssize_t got; (got = read(ends[0], output + used, sizeof output - 1 - used)) > 0;)
        used += (size_t)got;
    output[used] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        print_error("%s", output);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int drive_methods(void)
{
    int pid;
    troupe_must(troupe_start(0, NULL, .workers = 1));
    logger_actor here = troupe_spawn(logger, .place = TROUPE_PLACE_HERE, .name = "here");
    logger_actor away = troupe_spawn(logger, .place = TROUPE_PLACE_ISOLATED, .name = "away");
    troupe_must(troupe_get(int, troupe_call(here, say, "one"), &pid));
    if (pid != getpid())
        return 2;
    troupe_must(troupe_get(int, troupe_call(away, say, "two"), &pid));
    fprintf(stderr, "told %d\n", pid);
    return troupe_stop();
}

static void test_methods(void **state)
{
    (void)state;
    int pid, hour, minute;
    double second;
    char wanted[128], rest[128];
    run(drive_methods);
    const char *first = strstr(output, " warn logger 'here': it says one (pid=");
    assert_non_null(first);
    while (first > output && first[-1] != '\n')
        first--;
    assert_int_equal(sscanf(first, "%d:%d:%lf %127s", &hour, &minute, &second, rest), 4);
    assert_true(hour < 24 && minute < 60 && second < 61 && strcmp(rest, "warn") == 0);
    const char *told = strstr(output, "told ");
    assert_non_null(told);
    assert_int_equal(sscanf(told, "told %d", &pid), 1);
    snprintf(wanted, sizeof wanted, " warn logger 'away': it says two (pid=%d)\n", pid);
    assert_non_null(strstr(output, wanted));
    snprintf(wanted, sizeof wanted, "(away pid=%d) ", pid);
    assert_non_null(strstr(output, wanted));
    assert_null(strstr(output, "not asked for"));
}

static int drive_wildly(void)
{
    static const char wild[] = "x\x1b]0;owned\a\n00:00:00.000 error forged (pid=1)";
    int pid;
    troupe_must(troupe_start(0, NULL, .workers = 1));
    logger_actor away = troupe_spawn(logger, .place = TROUPE_PLACE_ISOLATED, .name = "away");
    troupe_must(troupe_get(int, troupe_call(away, say, wild), &pid));
    if (troupe_get(int, troupe_call(away, refuse, wild), &pid) != TROUPE_FAILED)
        return 2;
    fprintf(stderr, "%s %s\n", troupe_last_error()->text, troupe_last_error()->actor);
    troupe_log(TROUPE_LOG_INFO, "with its end\n");
    trp_log(TRP_ERROR, "of another: %s", wild);
    return troupe_stop();
}

// Whatever names, arguments and failures are made of, no escape sequence gets through, and no line
// begins that is none.
static void test_wild_texts(void **state)
{
    (void)state;
    run(drive_wildly);
    assert_non_null(strstr(output, "it says x\\x1b]0;owned\\x07\\n00:00"));
    assert_non_null(strstr(output, "it is x\\x1b]0;"));
    assert_non_null(strstr(output, "of another: x\\x1b]0;"));
    assert_non_null(strstr(output, "with its end (pid="));
    assert_null(strchr(output, '\x1b'));
    assert_null(strchr(output, '\a'));
    assert_null(strstr(output, "\n00:00:00.000"));
}

static int drive_plainly(void)
{
    char *text = malloc(10000);
    if (text == NULL)
        return 2;
    memset(text, 27, 2000); // Each becomes four.
    text[2000] = '\0';
    troupe_log(TROUPE_LOG_ERROR, "%s", text);
    memset(text, 'x', 9999);
    text[9999] = '\0';
    troupe_log(TROUPE_LOG_INFO, "%d and %s", 5, "six");
    troupe_log(TROUPE_LOG_ERROR, "%s", text);
    troupe_log(TROUPE_LOG_DEBUG, "details");
    free(text);
    return 0;
}

static void test_without_a_runtime(void **state)
{
    (void)state;
    run(drive_plainly);
    assert_non_null(strstr(output, " info 5 and six (pid="));
    assert_non_null(strstr(output, "xxx [cut] (pid="));
    assert_non_null(strstr(output, "\\x1b [cut] (pid="));
    assert_null(strstr(output, "details"));
    setenv("TROUPE_LOG", "debug", 1);
    run(drive_plainly);
    assert_non_null(strstr(output, " debug details (pid="));
    setenv("TROUPE_LOG", "error", 1);
    run(drive_plainly);
    unsetenv("TROUPE_LOG");
    assert_null(strstr(output, "six"));
    assert_non_null(strstr(output, " error xxx"));
}

// Restarts are told: in place, in another process, those that fail, and a supervisor's.
static int drive_restarts(void)
{
    int out;
    troupe_must(troupe_start(0, NULL, .workers = 1));
    logger_actor here =
        troupe_spawn(logger, .place = TROUPE_PLACE_HERE, .restarts = 5, .backoff_ms = 3);
    for (int i = 0; i < 3; i++)
        if (troupe_get(int, troupe_call(here, give_up, "the disk is gone"), &out) != TROUPE_IO)
            return 2;
    troupe_must(troupe_get(int, troupe_call(here, say, "here"), &out));
    logger_actor away = troupe_spawn(logger, .place = TROUPE_PLACE_ISOLATED, .name = "away",
                                     .restarts = TROUPE_FOREVER);
    if (troupe_get(int, troupe_call(away, leave), &out) != TROUPE_MAYBE_EXECUTED)
        return 3;
    troupe_must(troupe_get(int, troupe_call(away, say, "away"), &out));
    troupe_child child = TROUPE_CHILD(logger);
    troupe_child_state now;
    troupe_supervisor_actor top = troupe_supervisor_start(&child, 1, .name = "top", .restarts = 1);
    troupe_must(troupe_supervisor_child(top, 0, &now));
    logger_actor below = {now.address};
    if (troupe_get(int, troupe_call(below, give_up, "no light"), &out) != TROUPE_IO)
        return 4;
    while (now.starts < 2)
        troupe_must(troupe_supervisor_child(top, 0, &now));
    return troupe_stop();
}

static void test_restarts(void **state)
{
    (void)state;
    run(drive_restarts);
    static const char *const expected[] = {
        " is restarted at once (restart 1 of 5): the disk is gone",
        " is restarted in 3 ms (restart 2 of 5): the disk is gone",
        " is restarted in 6 ms (restart 3 of 5): the disk is gone",
        "troupe: warn: actor logger#",
        "troupe: warn: actor logger 'away' is restarted in another process at once (restart "
        "1): "
        "its process ",
        " exited with status 3",
        " restarts children at once (restart 1, of 1 within 5000 ms): child 0 (logger): no light",
        "'top'",
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        if (strstr(output, expected[i]) == NULL)
            support_fail_output(output, "nothing says: %s", expected[i]);
    const char *end = strstr(output, "'away' is restarted");
    assert_null(strstr(end + 1, "'away' is restarted"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_methods),
        cmocka_unit_test(test_wild_texts),
        cmocka_unit_test(test_without_a_runtime),
        cmocka_unit_test(test_restarts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
