// test_train_tool.c: `troupe train` runs a program on each rank from the shell: what it is given,
// how it ends, and how it is stopped.
#include <support.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char *folder;
static char output[1 << 16];

static void expect_run(int expected, const char *wanted, const char *arguments)
{
    char command[4096];
    snprintf(command, sizeof command, "cd '%s' && '%s' train --storage '%s' %s 2>&1", folder,
             support_setting("TROUPE_TOOL"), folder, arguments);
    int status = support_run(command, output, sizeof output);
    if (status != expected || strstr(output, wanted) == NULL)
        support_fail_output(output, "troupe train %s ended with %d, not %d, or does not say '%s'",
                            arguments, status, expected, wanted);
}

// How a run that was made by expect_run goes on.
static const char *way_on(const char *name)
{
    static char text[4096];
    snprintf(text, sizeof text, "it goes on with --resume --name %s --storage %s\n", name, folder);
    return text;
}

static char *read_file(const char *name)
{
    char *path = support_path(folder, name), *text = support_read_file(path);
    if (text == NULL)
        fail_msg("%s is not there", path);
    free(path);
    return text;
}

// D19.
static void test_a_program_is_run_from_the_shell(void **state)
{
    (void)state;
    expect_run(
        0, "loss",
        "-n 2 --name two --restarts 1 --cpus 0.5 --config '{\"rate\": 1}' --env A=b --keep 1 "
        "--best loss:min -- sh -c '"
        "echo \"rank $RANK of $WORLD_SIZE has $TROUPE_CONFIG and $A\"; "
        "for i in 2 1 3; do echo $i >$TROUPE_CHECKPOINT_DIR/at; "
        "echo \"{\\\"metrics\\\": {\\\"loss\\\": $i}, \\\"checkpoint\\\": "
        "\\\"$TROUPE_CHECKPOINT_DIR\\\"}\" >&3; read -r answer <&3; done'");
    char *log = read_file("two/log/rank_00001.log");
    assert_non_null(strstr(log, "rank 1 of 2 has {\"rate\": 1} and b\n"));
    free(log);
    char *best = read_file("two/checkpoints/checkpoint_000001/at");
    assert_string_equal(best, "1\n");
    free(best);
    char *gone = support_path(folder, "two/checkpoints/checkpoint_000000");
    assert_false(support_exists(gone));
    free(gone);
}

static void test_the_end_is_told_by_the_status(void **state)
{
    (void)state;
    expect_run(1, "troupe train: rank 0 (pid ", "--quiet sh -c 'echo because >&2; exit 4'");
    assert_non_null(
        strstr(output, "sh exited with status 4, and last wrote to its errors: because"));
    assert_non_null(strstr(output, way_on("sh")));
    assert_null(strstr(output, "troupe_train("));
    expect_run(1, "there is no program 'no-such' in PATH", "-q no-such");
    expect_run(3, way_on("limited"),
               "-q --name limited --time-limit 0.2 -- sh -c "
               "'while true; do echo \"{}\" >&3; read -r a <&3; case $a in *true,*) exit;; esac; "
               "sleep 0.01; done'");
    expect_run(0, "", "-q --resume --name limited true");
    expect_run(0, "", "-q --resume --name limited false"); // It has ended well.
}

static void test_a_wrong_command_line_is_refused(void **state)
{
    (void)state;
    expect_run(0, "usage: troupe train", "--help");
    expect_run(2, "there is no program", "-n 2");
    expect_run(2, "--ranks is \"0\", expected a whole number of 1 or more", "-n 0 true");
    expect_run(2, "--time-limit is \"soon\", expected a time", "--time-limit soon true");
    expect_run(2, "--best is \"loss\", expected a metric with its goal", "--best loss true");
    expect_run(2, "--env is \"A\", expected KEY=VALUE", "--env A true");
    expect_run(2, "unrecognized option", "--bogus true");
    expect_run(1, ".json of troupe_process", "-q --config '{' true");
    expect_run(1, "name", "-q --name a/b true");
}

static bool is_there(void *path)
{
    return support_exists((const char *)path);
}

// Starts the command with a program that writes its number to the file `up`, and waits for it.
static pid_t start(const char *script, const char *name, pid_t *program)
{
    char *up = support_path(folder, "up");
    (void)unlink(up);
    pid_t tool = fork();
    if (tool == 0) {
        int null = open("/dev/null", O_RDWR);
        for (int fd = 0; fd < 3; fd++)
            (void)dup2(null, fd);
        if (chdir(folder) == 0)
            execl(support_setting("TROUPE_TOOL"), "troupe", "train", "--storage", folder, "-q",
                  "--name", name, "sh", "-c", script, NULL);
        _exit(99);
    }
    if (!support_wait_until(is_there, up, SUPPORT_SOON_MS))
        fail_msg("the program does not start");
    char *text = support_read_file(up);
    *program = (pid_t)atoi(text);
    free(text);
    free(up);
    return tool;
}

static void expect_ended_by(pid_t tool, int signal)
{
    int status;
    assert_int_equal(waitpid(tool, &status, 0), tool);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != signal)
        fail_msg("it ended with %x, not by signal %d", (unsigned)status, signal);
}

static void test_signals_stop_a_run(void **state)
{
    (void)state;
    pid_t program;
    pid_t tool = start("while true; do echo '{}' >&3; read -r a <&3; "
                       "[ -e up ] || { echo $$ >up.new; mv up.new up; }; " // Once it has reported.
                       "case $a in *true,*) echo in order >ended; exit;; esac; done",
                       "signals", &program);
    assert_int_equal(kill(tool, SIGINT), 0);
    expect_ended_by(tool, SIGINT);
    assert_false(support_process_lives(program));
    char *text = read_file("ended");
    assert_string_equal(text, "in order\n");
    free(text);
    // One that does not care: a second signal ends it.
    tool = start("trap '' TERM; echo $$ >up.new; mv up.new up; while true; do sleep 1000; done",
                 "signals", &program);
    assert_int_equal(kill(tool, SIGTERM), 0);
    int status;
    while (waitpid(tool, &status, WNOHANG) == 0) {
        (void)kill(tool, SIGTERM); // It is said once that it was heard.
        usleep(20000);
    }
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    assert_false(support_process_lives(program));
}

// The same command goes on with a run whose driver was killed.
static void test_a_killed_command_is_given_again(void **state)
{
    (void)state;
    pid_t program;
    pid_t tool = start("echo 7 >$TROUPE_CHECKPOINT_DIR/step; echo '{\"checkpoint\": "
                       "\"'$TROUPE_CHECKPOINT_DIR'\"}' >&3; read -r a <&3; "
                       "until [ -e last/checkpoints/checkpoint_000000 ]; do sleep 0.01; done; "
                       "echo $$ >up.new; mv up.new up; sleep 1000",
                       "last", &program);
    assert_int_equal(kill(tool, SIGKILL), 0);
    expect_ended_by(tool, SIGKILL);
    expect_run(0, "", "-q --resume --name last sh -c 'cat $TROUPE_RESTORE_DIR/step >went_on'");
    assert_false(support_process_lives(program)); // It is not begun beside what is left.
    char *text = read_file("went_on");
    assert_string_equal(text, "7\n");
    free(text);
}

static int begin(void **state)
{
    (void)state;
    folder = support_directory_make();
    return 0;
}

static int end(void **state)
{
    (void)state;
    support_directory_remove(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_program_is_run_from_the_shell),
        cmocka_unit_test(test_the_end_is_told_by_the_status),
        cmocka_unit_test(test_a_wrong_command_line_is_refused),
        cmocka_unit_test(test_signals_stop_a_run),
        cmocka_unit_test(test_a_killed_command_is_given_again),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
