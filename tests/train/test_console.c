// test_console.c: a run on a terminal, in a file, and not shown; that a terminal which takes
// nothing delays no run. Each case is a driver process whose output is read here.
// timeout: 120
#include "line.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <train/console.h>
#include <troupe.h>
#include <unistd.h>

// Where it is to be shown in lines, its last report waits until that file has one.
TROUPE_STRUCT(plan, (int, reports), (int, pause_ms), (int, killed_at), (bool, fails),
              (troupe_text, shown));
TROUPE_STRUCT(place, (int, report));

static bool is_shown(void *config)
{
    char *text = support_read_file(((const plan *)config)->shown);
    bool shown = text != NULL && strstr(text, ": RUNNING, ") != NULL;
    free(text);
    return shown;
}

static troupe_status fit(troupe_rank *me, const plan *config)
{
    place at = {0};
    TROUPE_TRY(troupe_restore(place, me, &at));
    while (at.report < config->reports) {
        at.report++;
        if (me->rank == 1 && me->attempt == 0 && at.report == config->killed_at) {
            TROUPE_TRY(await_checkpoint(me, (config->killed_at - 1) / 2 - 1));
            (void)raise(SIGKILL);
        }
        if (at.report % 2 == 0)
            TROUPE_TRY(troupe_save(place, me, &at));
        printf("report %d of %d\n", at.report, me->rank);
        usleep((useconds_t)config->pause_ms * 1000);
        plan shown = *config;
        if (config->shown != NULL && at.report == config->reports &&
            !support_wait_until(is_shown, &shown, SUPPORT_SOON_MS))
            return troupe_fail(TROUPE_FAILED, "no line is shown");
        TROUPE_TRY(troupe_report(me, {"loss", 1.0 / at.report}, {"epoch", at.report}));
        TROUPE_TRY(troupe_barrier(me));
    }
    return config->fails ? troupe_fail(TROUPE_FAILED, "there is no more data") : TROUPE_OK;
}
TROUPE_TRAINER(fit, plan);

static char *folder;

static int drive(plan config, troupe_console console)
{
    troupe_result *result;
    if (troupe_start(0, NULL, .cpus = 4, .gpus = TROUPE_NONE) != TROUPE_OK)
        return 2;
    troupe_status status =
        troupe_train(fit, &config, &result, .ranks = 2, .storage = folder, .name = "tour",
                     .restarts = 1, .console = console, .expected_reports = config.reports);
    printf("It has %d reports.\n", troupe_result_reports(result));
    troupe_result_free(&result);
    troupe_must(troupe_stop());
    return (status == TROUPE_OK) == !config.fails ? 0 : 1;
}

// ---- a terminal

// What is on a terminal, whose top is never left: the sequences that are drawn with, and no others.
typedef struct screen {
    char lines[4096][256];
    size_t line, column;
} screen;

static void put(screen *at, const char *text)
{
    for (; *text != '\0'; text++) {
        char *row = at->lines[at->line];
        int up, used = 0;
        if (sscanf(text, "\033[%dA%n", &up, &used) == 1 && used > 0) {
            assert_true((size_t)up <= at->line);
            at->line -= (size_t)up;
            text += used - 1;
        } else if (strncmp(text, "\033[J", 3) == 0) {
            row[at->column] = '\0';
            for (size_t i = at->line + 1; i < 4096; i++)
                at->lines[i][0] = '\0';
            text += 2;
        } else if (*text == '\033') { // A colour.
            assert_int_equal(text[1], '[');
            text += strcspn(text, "m");
        } else if (*text == '\r') {
            at->column = 0;
        } else if (*text == '\n') {
            at->line++;
            at->column = 0;
            assert_true(at->line < 4096);
        } else {
            assert_true(at->column < 255);
            if (row[at->column] == '\0')
                row[at->column + 1] = '\0';
            row[at->column++] = *text;
        }
    }
}

typedef struct terminal {
    int master, slave;
} terminal;

static terminal open_terminal(void)
{
    terminal made = {.master = posix_openpt(O_RDWR | O_NOCTTY)};
    assert_true(made.master >= 0);
    assert_int_equal(grantpt(made.master), 0);
    assert_int_equal(unlockpt(made.master), 0);
    made.slave = open(ptsname(made.master), O_RDWR | O_NOCTTY);
    assert_true(made.slave >= 0);
    struct winsize size = {.ws_row = 40, .ws_col = 120};
    assert_int_equal(ioctl(made.slave, TIOCSWINSZ, &size), 0);
    return made;
}

static pid_t run_on(int fd, plan config, troupe_console console)
{
    pid_t driver = fork();
    assert_true(driver >= 0);
    if (driver == 0) {
        dup2(fd, STDOUT_FILENO);
        dup2(fd, STDERR_FILENO);
        exit(drive(config, console));
    }
    return driver;
}

static void await_driver(pid_t driver)
{
    int status;
    assert_int_equal(waitpid(driver, &status, 0), driver);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

// All that a driver writes to a terminal, to be freed.
static char *watch(plan config, troupe_console console)
{
    enum { MOST = 1 << 20 };
    char *text = malloc(MOST);
    size_t got = 0;
    terminal on = open_terminal();
    pid_t driver = run_on(on.slave, config, console);
    close(on.slave); // Reading ends with the driver.
    for (ssize_t piece; (piece = read(on.master, text + got, MOST - 1 - got)) > 0;)
        got += (size_t)piece;
    text[got] = '\0';
    close(on.master);
    await_driver(driver);
    return text;
}

static int count(const char *text, const char *wanted)
{
    int found = 0;
    for (const char *at = text; (at = strstr(at, wanted)) != NULL; at += strlen(wanted))
        found++;
    return found;
}

// How often a text is on the screen.
static int on_screen(const screen *at, const char *wanted)
{
    int found = 0;
    for (size_t i = 0; i < 4096; i++)
        found += count(at->lines[i], wanted);
    return found;
}

// Returns how many seconds it took.
static double check_total(const char *text)
{
    double total, loop, written;
    const char *at = strstr(text, "Total run time: ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "Total run time: %lf seconds (%lf seconds for the training loop).",
                            &total, &loop),
                     2);
    assert_true(loop > 0 && loop <= total && total < 100);
    at = strstr(text, "Wrote the latest version of all result files to '");
    assert_non_null(at);
    assert_non_null(at = strstr(at, "' in "));
    assert_int_equal(sscanf(at, "' in %lfs.", &written), 1);
    assert_true(written >= 0 && written < total);
    return total;
}

// C19, E01, E02, E04, E06.
static void test_a_run_on_a_terminal(void **state)
{
    (void)state;
    char *text = watch((plan){.reports = 8, .pause_ms = 150, .killed_at = 5}, TROUPE_CONSOLE_AUTO);
    assert_true(count(text, "\033[J") >= 4); // It was drawn over.
    assert_true(count(text, "\033[32mRUNNING\033[0m") >= 2);
    assert_true(count(text, " of 8 reports, ") >= 1 && count(text, "/s, ") >= 1);
    assert_true(count(text, " s left\r\n") >= 1);

    screen *at = calloc(1, sizeof *at);
    put(at, text);
    assert_int_equal(on_screen(at, "Train Status"), 1);
    assert_int_equal(on_screen(at, "Current time: "), 1);
    assert_int_equal(on_screen(at, "Memory: "), 1);
    assert_int_equal(on_screen(at, "Logical resource usage: 0.0/4 CPUs"), 1);
    assert_int_equal(on_screen(at, "RUNNING"), 0);
    assert_int_equal(on_screen(at, "tour     | TERMINATED | 127.0.0.1:"), 1);
    assert_int_equal(on_screen(at, "Started distributed worker processes:"), 2);
    assert_int_equal(on_screen(at, ") world_rank=1, local_rank=1, node_rank=0"), 2);
    assert_int_equal(on_screen(at, "Checkpoint successfully created at: Checkpoint(filesystem="
                                   "local, path="),
                     4);
    assert_int_equal(on_screen(at, ") was killed by signal 9 (Killed) after report 4: the group is "
                                   "restarted (restart 1) from checkpoint_000001"),
                     1);
    for (int report = 1; report <= 8; report++) { // Lines of ranks are not drawn over.
        char line[64];
        snprintf(line, sizeof line, ") report %d of 0", report);
        assert_in_range(on_screen(at, line), 1, report == 5 ? 2 : 1);
    }
    assert_int_equal(on_screen(at, "It has 8 reports."), 1);
    check_total(text);
    free(at);
    free(text);
}

static void test_no_color_and_off(void **state)
{
    (void)state;
    setenv("NO_COLOR", "1", 1);
    char *text = watch((plan){.reports = 4, .pause_ms = 200}, TROUPE_CONSOLE_AUTO);
    unsetenv("NO_COLOR");
    assert_true(count(text, "RUNNING") >= 1);
    assert_int_equal(count(text, "\033[32m") + count(text, "\033[36m"), 0);
    free(text);

    text = watch((plan){.reports = 4}, TROUPE_CONSOLE_OFF);
    assert_null(strchr(text, '\033'));
    assert_null(strstr(text, "Started"));
    assert_null(strstr(text, "Total run time"));
    free(text);
}

static void test_a_run_that_fails_says_why(void **state)
{
    (void)state;
    char *text = watch((plan){.reports = 2, .pause_ms = 20, .fails = true}, TROUPE_CONSOLE_AUTO);
    screen *at = calloc(1, sizeof *at);
    put(at, text);
    assert_int_equal(on_screen(at, "tour     | ERROR"), 1);
    assert_int_equal(on_screen(at, "1 run failed:"), 1);
    check_total(text);
    free(at);
    free(text);
}

// ---- elsewhere

static char *read_in_file(plan config, troupe_console console)
{
    char *path = support_path(folder, "out");
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    assert_true(fd >= 0);
    await_driver(run_on(fd, config, console));
    close(fd);
    char *text = support_read_file(path);
    free(path);
    return text;
}

static void test_a_file_has_lines_where_that_is_wanted(void **state)
{
    (void)state;
    char *text = read_in_file((plan){.reports = 4}, TROUPE_CONSOLE_AUTO);
    assert_null(strstr(text, "Started"));
    assert_null(strstr(text, "Train Status"));
    free(text);

    // Longer than the time between two lines.
    enum { LINE_MS = 250 };
    assert_int_equal(trp_console_line_ms, 5000);
    trp_console_line_ms = LINE_MS;
    char *shown = support_path(folder, "out");
    text = read_in_file((plan){.reports = 30, .pause_ms = 20, .shown = shown}, TROUPE_CONSOLE_ON);
    trp_console_line_ms = 5000;
    free(shown);
    assert_null(strchr(text, '\033'));
    assert_int_equal(count(text, "Started distributed worker processes:\n"), 1);
    assert_int_equal(count(text, "(filesystem=local, path="), 15);
    assert_in_range(count(text, ": RUNNING, "), 1, (uintmax_t)(check_total(text) * 1000 / LINE_MS));
    assert_int_equal(count(text, "Train Status\n"), 1);
    assert_non_null(strstr(text, " |      loss | epoch\n"));
    free(text);
}

// While nobody reads it, the run goes on to its end.
static void test_a_terminal_that_takes_nothing_delays_no_run(void **state)
{
    (void)state;
    terminal on = open_terminal();
    char *path = support_path(folder, "tour/end");
    assert_int_equal(tcflow(on.slave, TCOOFF), 0);
    pid_t driver = run_on(on.slave, (plan){.reports = 100}, TROUPE_CONSOLE_AUTO);
    bool ended = false;
    for (int64_t from = support_now_ms(); !ended && support_now_ms() < from + SUPPORT_SOON_MS;
         usleep(1000))
        ended = support_exists(path);
    assert_true(ended);
    assert_int_equal(tcflow(on.slave, TCOON), 0);
    close(on.slave);
    char text[4096];
    while (read(on.master, text, sizeof text) > 0)
        continue;
    close(on.master);
    await_driver(driver);
    free(path);
}

static int make_folder(void **state)
{
    (void)state;
    folder = support_directory_make();
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    support_directory_remove(folder);
    return 0;
}

int main(void)
{
    setenv("TERM", "xterm", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_run_on_a_terminal, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_no_color_and_off, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_a_run_that_fails_says_why, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_a_file_has_lines_where_that_is_wanted, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_a_terminal_that_takes_nothing_delays_no_run,
                                        make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
