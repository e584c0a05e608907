// test_server_start.c: `troupe server` and the commands that ask it: many that start it at once get
// one, a pipe does not hang on it, and jobs are shown with it and without.
// again: full slow 900 200
#include "site.h"

enum { STARTERS = 16 };
static int rounds = 5;
static char output[8192];

// Runs `troupe` with these arguments, in the state folder that the environment names.
__attribute__((format(printf, 1, 2))) static int troupe(const char *format, ...)
{
    char command[600];
    va_list list;
    int size = snprintf(command, sizeof command, "'%s' ", support_setting("TROUPE_TOOL"));
    va_start(list, format);
    vsnprintf(command + size, sizeof command - (size_t)size, format, list);
    va_end(list);
    return support_run(command, output, sizeof output);
}

static void assert_says(const char *text)
{
    if (strstr(output, text) == NULL)
        fail_msg("\"%s\" is not in:\n%s", text, output);
}

static char *use_new_folder(void)
{
    char *folder = support_directory_make();
    assert_int_equal(chmod(folder, 0700), 0);
    setenv("TROUPE_STATE", folder, 1);
    return folder;
}

static int status_pid(void)
{
    int pid = 0;
    assert_int_equal(troupe("server status --json"), 0);
    const char *at = strstr(output, "\"pid\": ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "\"pid\": %d", &pid), 1);
    return pid;
}

// F01.
static void test_sixteen_starters_get_one_server(void **state)
{
    (void)state;
    for (int round = 0; round < rounds; round++) {
        char *folder = use_new_folder();
        int barrier[2], status;
        pid_t starters[STARTERS];
        assert_int_equal(pipe(barrier), 0);
        for (int i = 0; i < STARTERS; i++) {
            starters[i] = fork();
            if (starters[i] != 0)
                continue;
            char byte;
            close(barrier[1]);
            (void)!read(barrier[0], &byte, 1); // Until all are there.
            int null = open("/dev/null", O_WRONLY);
            dup2(null, 1);
            execl(support_setting("TROUPE_TOOL"), "troupe", "server", "start", "--auto", NULL);
            _exit(127);
        }
        close(barrier[0]);
        close(barrier[1]);
        for (int i = 0; i < STARTERS; i++) {
            assert_int_equal(waitpid(starters[i], &status, 0), starters[i]);
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        }
        assert_true(status_pid() > 0);
        char *log = support_path(folder, "server.log"), *text = support_read_file(log);
        int served = 0;
        for (const char *at = text; (at = strstr(at, " serves ")) != NULL; at++)
            served++;
        assert_int_equal(served, 1);
        assert_int_equal(troupe("server stop"), 0);
        free(text);
        free(log);
        support_directory_remove(folder);
    }
}

static void test_a_pipe_does_not_hang_on_it(void **state)
{
    char *folder = use_new_folder();
    (void)state;
    // support_run reads to the end of the pipe.
    assert_int_equal(troupe("server start --cpus 3"), 0);
    assert_says("was started");
    int pid = status_pid();
    assert_int_equal(troupe("server start"), 0);
    assert_says("runs already");
    assert_null(strstr(output, "was not used"));
    assert_int_equal(troupe("server start --cpus 8 --json"), 0);
    assert_says("it runs as it was started, and --cpus was not used");
    assert_says(", \"started\": false}");
    assert_int_equal(troupe("server start --foreground"), 1);
    assert_says("has");
    assert_int_equal(troupe("server status"), 0);
    assert_says("3 of 3 free");
    assert_int_equal(troupe("jobs"), 0);
    assert_says("no jobs wait or run");
    assert_int_equal(troupe("jobs -a"), 0);
    assert_says("no jobs\n");
    assert_int_equal(troupe("server gc --keep 3"), 0);
    assert_says("0 ended jobs removed");
    assert_int_equal(troupe("stop night"), 1);
    assert_says("no job with the key \"night\"");
    assert_int_equal(troupe("modify 7 priority=high"), 2);
    assert_int_equal(troupe("server stop --json"), 0);
    assert_says("\"stopped\": true}");
    assert_true(support_processes_end(&(pid_t){pid}, 1, SUPPORT_SOON_MS)); // Behind its lock's end.
    assert_int_equal(troupe("server status"), 1);
    assert_says("no train server runs");
    assert_int_equal(troupe("server stop"), 0); // There is none: that is what was asked for.
    support_directory_remove(folder);
}

// As one that was killed while not all of it has gone: it has lock and socket, and answers nobody.
static pid_t go_slowly(const char *folder)
{
    int ready[2], lock;
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct sockaddr_un address;
        int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (trp_server_lock(folder, &lock) != TROUPE_OK ||
            trp_state_folder_socket(folder, &address) != TROUPE_OK ||
            bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
            listen(listener, 16) != 0 || write(ready[1], "", 1) != 1)
            _exit(1);
        nap_ms(500);
        _exit(0);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void test_one_that_is_going_is_waited_for(void **state)
{
    char *folder = use_new_folder();
    (void)state;
    pid_t going = go_slowly(folder);
    assert_int_equal(troupe("server start"), 0);
    assert_says("was started");
    assert_int_equal(waitpid(going, NULL, 0), going);
    assert_true(status_pid() > 0);
    assert_int_equal(troupe("server stop"), 0);
    support_directory_remove(folder);
}

// It is not said to run, and is not replaced while it has the lock.
static void test_one_that_is_stopped_does_not_answer(void **state)
{
    char *folder = use_new_folder();
    (void)state;
    assert_int_equal(troupe("server start"), 0);
    pid_t pid = status_pid();
    assert_true(pid > 0);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    assert_int_equal(troupe("server start"), 1);
    assert_says("it does not answer within 5 s");
    assert_int_equal(kill(pid, SIGCONT), 0);
    assert_int_equal(troupe("server start"), 0);
    assert_says("runs already");
    assert_int_equal(status_pid(), pid);
    assert_int_equal(troupe("server stop"), 0);
    support_directory_remove(folder);
}

// A sentence says what is wrong, and one how the command is used.
static void test_command_lines_that_are_wrong(void **state)
{
    static const char *const all[][2] = {
        {"server begin",
         "troupe server: there is no command \"begin\"\nusage: troupe server start"},
        {"server", "troupe server: expected a command"},
        {"server start now", "troupe server: expected one command, found also \"now\""},
        {"server start --nope", "troupe server: unrecognized option '--nope'\nusage: "},
        {"server stop --keep 3", "troupe server: stop has no option --keep"},
        {"server gc --jobs", "troupe server: gc has no option --jobs"},
        {"server link --cpus 3", "troupe server: link has no option --cpus"},
        {"server start --cpus many", "--cpus is \"many\", expected a number of 0.0001 or more"},
        {"server start --gpus 1.5", "--gpus is \"1.5\", expected a whole number"},
        {"server gc --keep -1", "--keep is \"-1\", expected a number of 0 or more"},
        {"jobs -n few",
         "troupe jobs: -n is \"few\", expected a whole number of 1 or more\nusage: "},
        {"jobs 1 2", "troupe jobs: expected one job, found also \"2\""},
        {"jobs --nope", "troupe jobs: unrecognized option '--nope'"},
        {"logs", "troupe logs: expected one job, found 0\nusage: troupe logs"},
        {"stop", "troupe stop: no job is named\nusage: troupe stop"},
        {"modify 3", "troupe modify: expected a job and NAME=VALUE\nusage: troupe modify"},
        {"modify 3 =1", "troupe modify: \"=1\" is not NAME=VALUE"},
        {"modify 3 pause=maybe", "pause is \"maybe\", expected true or false"},
        {"modify 3 key=other", "a job cannot get another key"},
        {"routes /x", "troupe routes: expected options alone, found \"/x\""},
    };
    char *folder = use_new_folder();
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_int_equal(troupe("%s", all[i][0]), 2);
        assert_says(all[i][1]);
        assert_true(strlen(output) < 400); // Not all that --help says.
    }
    support_directory_remove(folder);
}

static void test_a_path_that_is_too_long_is_said(void **state)
{
    char *folder = support_directory_make(), path[600];
    (void)state;
    snprintf(path, sizeof path, "%s/%0100d", folder, 7);
    setenv("TROUPE_STATE", path, 1);
    assert_int_equal(troupe("server start"), 1);
    assert_says("TROUPE_STATE");
    support_directory_remove(folder);
}

static void test_a_server_that_cannot_start_says_why(void **state)
{
    char *folder = use_new_folder(), *books = support_path(folder, "books.db");
    (void)state;
    assert_int_equal(mkdir(books, 0700), 0);
    assert_int_equal(troupe("server start"), 1);
    assert_says("books.db");
    free(books);
    support_directory_remove(folder);
}

static void modify_the_second(void)
{
    assert_int_equal(troupe("modify 2 priority=5 rate=0.5 ranks=1"), 0);
    assert_says("job 2 has priority 5\njob 2 is told, for its next report: rate=0.5\n"
                "job 2 is to have 1 rank\n");
    assert_int_equal(troupe("modify --json 2 priority=5 key= config.ranks=3"), 1); // Each is asked.
    assert_says("[{\"given\": \"priority=5\", \"job\": 2, \"status\": \"TROUPE_OK\", \"text\": "
                "\"has priority 5\", \"revision\": ");
    assert_says("{\"given\": \"key=\", \"job\": 0, \"status\": \"TROUPE_");
    assert_says("{\"given\": \"config.ranks=3\", \"job\": 2, \"status\": \"TROUPE_OK\"");
    assert_int_equal(troupe("jobs 2"), 0);
    assert_says("priority   5");
}

static void test_jobs_are_shown_with_and_without_it(void **state)
{
    site it;
    trp_arena arena = {0};
    trp_wire_job job;
    (void)state;
    site_open(&it, 1);
    setenv("TROUPE_STATE", it.folder, 1);
    trp_server_link *link = site_connect(&it, NULL);
    assert_int_equal(site_submit(&it, link, &arena, &job, .submission = "a", .key = "night",
                                 .reports = 1000000, .each_ms = 1),
                     TROUPE_OK);
    assert_int_equal(
        site_submit(&it, link, &arena, &job, .submission = "b", .key = "77", .reports = 1),
        TROUPE_OK);
    site_await(link, 1, TRP_JOB_RUNNING, &arena, &job);
    assert_int_equal(troupe("jobs"), 0);
    assert_says("running");
    assert_says("queued");
    modify_the_second();
    assert_int_equal(troupe("jobs 77"), 0); // A key, since no job has that number.
    assert_says("job        2\n");
    assert_int_equal(troupe("logs 77"), 0);
    assert_int_equal(troupe("jobs 78"), 1);
    assert_says("there is no job 78");
    assert_int_equal(troupe("jobs night --json"), 0);
    assert_says("\"key\": \"night\"");
    assert_says("\"state\": \"RUNNING\", \"outcome\": null, \"status\": null");
    assert_int_equal(troupe("logs --json night"), 0);
    site_stop(&it);
    assert_int_equal(troupe("jobs"), 0);
    assert_says("no train server runs");
    assert_says("running");
    assert_int_equal(troupe("stop night"), 1);
    assert_int_equal(troupe("jobs 77"), 0);
    assert_says("job        2\n");
    assert_int_equal(troupe("jobs nobody"), 1);
    assert_says("there is no job nobody");
    site_start(&it);
    assert_int_equal(troupe("stop 2 nobody night"), 1); // One that is not there keeps no other.
    assert_says("there is no job with the key \"nobody\"");
    assert_says("job 2 ");
    site_await(link, 1, TRP_JOB_ENDED, &arena, &job);
    assert_int_equal(troupe("jobs --all"), 0);
    assert_says("stopped");
    assert_int_equal(troupe("jobs 1"), 0);
    assert_says("stopped after ");
    assert_int_equal(troupe("stop night"), 0);
    assert_says("job 1 has ended");
    assert_int_equal(troupe("stop --json night"), 0);
    assert_says("[{\"given\": \"night\", \"job\": 1, \"status\": \"TROUPE_OK\", \"text\": \"has "
                "ended\", ");
    assert_int_equal(troupe("modify night key="), 0);
    assert_int_equal(troupe("jobs night"), 1);
    assert_int_equal(troupe("server gc --keep 1"), 0);
    assert_says("1 ended job removed");
    assert_int_equal(troupe("jobs -a -n 5 --json"), 0);
    assert_says("\"state\": \"ENDED\", \"outcome\": ");
    assert_int_equal(troupe("server gc --keep 0 --json"), 0);
    assert_says("{\"text\": \"1 ended job removed, ");
    trp_server_link_close(&link);
    trp_arena_clear(&arena);
    site_close(&it);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "nap") == 0)
        return nap_main(argv);
    if (argc > 1)
        rounds = atoi(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sixteen_starters_get_one_server),
        cmocka_unit_test(test_a_pipe_does_not_hang_on_it),
        cmocka_unit_test(test_one_that_is_going_is_waited_for),
        cmocka_unit_test(test_one_that_is_stopped_does_not_answer),
        cmocka_unit_test(test_command_lines_that_are_wrong),
        cmocka_unit_test(test_a_path_that_is_too_long_is_said),
        cmocka_unit_test(test_a_server_that_cannot_start_says_why),
        cmocka_unit_test(test_jobs_are_shown_with_and_without_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
