// test_screen.c: lines at the foot of a terminal stay below what others print.
#include <support.h>

#include <fcntl.h>
#include <poll.h>
#include <runtime/base/log.h>
#include <runtime/base/screen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

// Runs it in a process whose standard output and errors are a terminal; returns what that got.
static char *on_terminal(void (*act)(void))
{
    static char text[65536];
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(master >= 0);
    assert_int_equal(grantpt(master), 0);
    assert_int_equal(unlockpt(master), 0);
    int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_true(terminal >= 0);
    struct termios plain;
    assert_int_equal(tcgetattr(terminal, &plain), 0);
    plain.c_oflag &= ~(tcflag_t)OPOST;
    assert_int_equal(tcsetattr(terminal, TCSANOW, &plain), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(terminal, STDOUT_FILENO);
        dup2(terminal, STDERR_FILENO);
        act();
        _exit(0);
    }
    int status;
    size_t got = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    while (poll(&(struct pollfd){.fd = master, .events = POLLIN}, 1, 100) == 1) {
        ssize_t piece = read(master, text + got, sizeof text - 1 - got);
        assert_true(piece > 0);
        got += (size_t)piece;
    }
    text[got] = '\0';
    close(terminal);
    close(master);
    return text;
}

static void foot(const char *lines)
{
    trp_screen_foot(lines, strlen(lines));
}

static void print_above(void)
{
    trp_screen_print(STDOUT_FILENO, "first\n", 6);
    foot("one\ntwo\n");
    trp_screen_print(STDERR_FILENO, "above\n", 6);
    foot("three\n");
    foot("");
    trp_screen_print(STDOUT_FILENO, "last\n", 5);
}

static void test_lines_are_printed_above_the_foot(void **state)
{
    (void)state;
    assert_string_equal(on_terminal(print_above), "first\none\ntwo\n"
                                                  "\033[2A\r\033[Jabove\none\ntwo\n"
                                                  "\033[2A\r\033[Jthree\n"
                                                  "\033[1A\r\033[Jlast\n");
}

static void log_above(void)
{
    foot("status\n");
    trp_log(TRP_WARN, "careful");
}

static void test_the_log_is_printed_above_it(void **state)
{
    (void)state;
    char *text = on_terminal(log_above);
    assert_int_equal(strncmp(text, "status\n\033[1A\r\033[Jtroupe: warn: careful", 34), 0);
    assert_string_equal(text + strlen(text) - 8, "\nstatus\n");
}

static void print_in_a_child(void)
{
    foot("status\n");
    pid_t child = fork();
    if (child == 0) {
        trp_screen_print(STDOUT_FILENO, "of a child\n", 11);
        _exit(0);
    }
    (void)waitpid(child, NULL, 0);
}

static void test_a_child_has_no_foot(void **state)
{
    (void)state;
    assert_string_equal(on_terminal(print_in_a_child), "status\nof a child\n");
}

static void print_in_a_sharing_child(void)
{
    _Atomic int *lines = support_share(sizeof *lines);
    trp_screen_share(lines);
    foot("one\ntwo\n");
    pid_t child = fork();
    if (child == 0) {
        trp_screen_print(STDERR_FILENO, "of a child\n", 11);
        trp_screen_print(STDERR_FILENO, "again\n", 6);
        _exit(0);
    }
    (void)waitpid(child, NULL, 0);
    trp_screen_print(STDERR_FILENO, "mine\n", 5); // The foot has gone already.
    trp_screen_share(NULL);
    foot("three\n");
}

static void test_another_process_takes_a_shared_foot_away(void **state)
{
    (void)state;
    assert_string_equal(on_terminal(print_in_a_sharing_child),
                        "one\ntwo\n\033[2A\r\033[Jof a child\nagain\nmine\none\ntwo\n"
                        "\033[2A\r\033[Jthree\n");
}

static void keep(void)
{
    foot("table\n");
    trp_screen_keep();
    trp_screen_print(STDOUT_FILENO, "next\n", 5);
    foot("other\n");
}

static void test_a_foot_that_is_kept_is_not_drawn_over(void **state)
{
    (void)state;
    assert_string_equal(on_terminal(keep), "table\nnext\nother\n");
}

static void test_other_descriptors_are_left_alone(void **state)
{
    (void)state;
    int ends[2];
    char text[16] = "";
    assert_int_equal(pipe(ends), 0);
    trp_screen_print(ends[1], "a line\n", 7);
    assert_int_equal(read(ends[0], text, sizeof text - 1), 7);
    assert_string_equal(text, "a line\n");
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_are_printed_above_the_foot),
        cmocka_unit_test(test_the_log_is_printed_above_it),
        cmocka_unit_test(test_a_child_has_no_foot),
        cmocka_unit_test(test_another_process_takes_a_shared_foot_away),
        cmocka_unit_test(test_a_foot_that_is_kept_is_not_drawn_over),
        cmocka_unit_test(test_other_descriptors_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
