// test_output.c: what workers write arrives at the driver as whole lines with their writer's name,
// the last line of a killed one included; a flood delays no worker that prints nothing. Each case
// is a real driver process whose output is read here.
// timeout: 120
#include <support.h>

#include <dirent.h>
#include <runtime/node/keeper.h>
#include <runtime/shm/process_table.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <troupe/actor.h>
#include <unistd.h>

enum { FLOOD_LINES = 20000 };

typedef struct talker {
    int said;
} talker;

static troupe_status say_out(talker *self, const troupe_text *text, troupe_none *none)
{
    (void)none;
    self->said++;
    printf("%s", *text);
    return TROUPE_OK;
}

static troupe_status say_error(talker *self, const troupe_text *text, troupe_none *none)
{
    (void)none;
    self->said++;
    fprintf(stderr, "%s", *text);
    return TROUPE_OK;
}

static troupe_status die(talker *self, const troupe_text *text, troupe_none *none)
{
    (void)self;
    (void)none;
    fprintf(stderr, "%s", *text); // The end of its line never comes.
    (void)raise(SIGKILL);
    return TROUPE_OK;
}

static troupe_status flood(talker *self, const int *lines, int *pid)
{
    (void)self;
    for (int i = 0; i < *lines; i++)
        printf("line %d of a flood\n", i);
    *pid = getpid();
    return TROUPE_OK;
}

static troupe_status parent_of(talker *self, const troupe_none *none, int *pid)
{
    (void)self;
    (void)none;
    *pid = getppid();
    return TROUPE_OK;
}

TROUPE_ACTOR(talker, (say_out, troupe_text, troupe_none), (say_error, troupe_text, troupe_none),
             (die, troupe_text, troupe_none), (flood, int, int), (parent_of, troupe_none, int));

static char out_text[1 << 20], error_text[1 << 20];

static void read_file(const char *folder, const char *name, char *text, size_t capacity)
{
    char *path = support_path(folder, name), *whole = support_read_file(path);
    assert_non_null(whole);
    assert_true(strlen(whole) < capacity);
    strcpy(text, whole);
    free(whole);
    free(path);
}

// Runs `drive` as a driver of its own, and brings what it and its workers have printed.
static void run_driver(int (*drive)(troupe_launch launch), troupe_launch launch)
{
    char *folder = support_directory_make();
    fflush(NULL);
    pid_t driver = fork();
    assert_true(driver >= 0);
    if (driver == 0) {
        char *out = support_path(folder, "out"), *errors = support_path(folder, "errors");
        (void)alarm(60);
        (void)signal(SIGSEGV, SIG_DFL); // cmocka's handler would run the other tests here.
        if (freopen(out, "w", stdout) == NULL || freopen(errors, "w", stderr) == NULL)
            _exit(1);
        free(out);
        free(errors);
        free(folder);
        exit(drive(launch));
    }
    int status;
    assert_int_equal(waitpid(driver, &status, 0), driver);
    read_file(folder, "out", out_text, sizeof out_text);
    read_file(folder, "errors", error_text, sizeof error_text);
    support_directory_remove(folder);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        print_error("driver: %x, it said: %s\n", (unsigned)status, error_text);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int count(const char *text, const char *wanted)
{
    int found = 0;
    for (const char *at = text; (at = strstr(at, wanted)) != NULL; at += strlen(wanted))
        found++;
    return found;
}

static void tell(talker_actor actor, const char *text)
{
    troupe_none none;
    troupe_must(troupe_get(troupe_none, troupe_call(actor, say_out, text), &none));
}

// ---- names and whole lines

static int drive_names(troupe_launch launch)
{
    troupe_must(troupe_start(0, NULL, .workers = 1, .launch = launch));
    talker_actor named = troupe_spawn(talker, .name = "mary", .place = TROUPE_PLACE_ISOLATED);
    talker_actor plain = troupe_spawn(talker, .place = TROUPE_PLACE_ISOLATED);
    talker_actor pooled = troupe_spawn(talker, .name = "light", .place = TROUPE_PLACE_WORKER);
    int pids[3];
    troupe_must(troupe_get(int, troupe_call(named, flood, 0), &pids[0]));
    troupe_must(troupe_get(int, troupe_call(plain, flood, 0), &pids[1]));
    troupe_must(troupe_get(int, troupe_call(pooled, flood, 0), &pids[2]));
    tell(named, "one ");
    tell(named, "line\nand another\n");
    tell(plain, "of a class\n");
    tell(pooled, "of the pool\n");
    troupe_none none;
    troupe_must(troupe_get(troupe_none, troupe_call(named, say_error, "an error\n"), &none));
    tell(plain, "without an end");
    printf("pids %d %d %d\n", pids[0], pids[1], pids[2]);
    return troupe_stop();
}

static void check_names(troupe_launch launch)
{
    int pids[3];
    char wanted[128];
    run_driver(drive_names, launch);
    const char *told = strstr(out_text, "pids ");
    assert_non_null(told);
    assert_int_equal(sscanf(told, "pids %d %d %d", &pids[0], &pids[1], &pids[2]), 3);
    snprintf(wanted, sizeof wanted, "(mary pid=%d) one line\n(mary pid=%d) and another\n", pids[0],
             pids[0]);
    assert_non_null(strstr(out_text, wanted));
    snprintf(wanted, sizeof wanted, "(talker pid=%d) of a class\n", pids[1]);
    assert_non_null(strstr(out_text, wanted));
    snprintf(wanted, sizeof wanted, "(talker pid=%d) without an end\n", pids[1]);
    assert_non_null(strstr(out_text, wanted));
    snprintf(wanted, sizeof wanted, " pid=%d) of the pool\n", pids[2]);
    assert_non_null(strstr(out_text, wanted));
    assert_int_equal(count(out_text, "(worker "), 1);
    snprintf(wanted, sizeof wanted, "(mary pid=%d) an error\n", pids[0]);
    assert_non_null(strstr(error_text, wanted));
}

static void test_names_and_whole_lines(void **state)
{
    (void)state;
    check_names(TROUPE_LAUNCH_FORK);
    check_names(TROUPE_LAUNCH_EXEC);
}

// ---- the last line of a killed process

static int drive_death(troupe_launch launch)
{
    troupe_must(troupe_start(0, NULL, .workers = TROUPE_NONE, .launch = launch));
    talker_actor actor = troupe_spawn(talker, .name = "victim", .place = TROUPE_PLACE_ISOLATED);
    troupe_none none;
    troupe_status status =
        troupe_get(troupe_none, troupe_call(actor, die, "first\nlast words"), &none);
    troupe_stop();
    return status == TROUPE_MAYBE_EXECUTED ? 0 : 2;
}

static void test_last_words(void **state)
{
    (void)state;
    run_driver(drive_death, TROUPE_LAUNCH_FORK);
    assert_int_equal(count(error_text, "(victim pid="), 2);
    assert_non_null(strstr(error_text, ") first\n"));
    assert_non_null(strstr(error_text, ") last words\n"));
}

static int drive_exit(troupe_launch launch)
{
    troupe_must(troupe_start(0, NULL, .workers = TROUPE_NONE, .launch = launch));
    talker_actor actor = troupe_spawn(talker, .place = TROUPE_PLACE_ISOLATED);
    tell(actor, "before the driver's exit\n");
    return 0; // Without troupe_stop.
}

static void test_exit_without_stop(void **state)
{
    (void)state;
    run_driver(drive_exit, TROUPE_LAUNCH_FORK);
    assert_int_equal(count(out_text, ") before the driver's exit\n"), 1);
}

// ---- folding, and how to turn things off

static int drive_repetition(troupe_launch launch)
{
    troupe_must(troupe_start(0, NULL, .workers = TROUPE_NONE, .launch = launch));
    for (int i = 0; i < 4; i++) {
        char line[64];
        talker_actor actor = troupe_spawn(talker, .place = TROUPE_PLACE_ISOLATED);
        snprintf(line, sizeof line, "rank %d is ready\n", i);
        tell(actor, line);
        tell(actor, "all are ready\n");
    }
    return troupe_stop();
}

static void test_repeated_lines(void **state)
{
    (void)state;
    run_driver(drive_repetition, TROUPE_LAUNCH_FORK);
    assert_int_equal(count(out_text, " is ready\n"), 4);
    assert_int_equal(count(out_text, ") all are ready"), 2);
    assert_int_equal(count(out_text, ") all are ready [repeated 3x across workers]"), 1);
    assert_int_equal(count(out_text, "(talker pid="), 6);
    setenv("TROUPE_LOG_FOLD", "numbers", 1);
    run_driver(drive_repetition, TROUPE_LAUNCH_FORK);
    assert_int_equal(count(out_text, " is ready"), 2);
    assert_int_equal(count(out_text, " is ready [repeated 3x across workers]"), 1);
    setenv("TROUPE_LOG_FOLD", "0", 1);
    setenv("TROUPE_LOG_PREFIX", "0", 1);
    run_driver(drive_repetition, TROUPE_LAUNCH_FORK);
    unsetenv("TROUPE_LOG_FOLD");
    unsetenv("TROUPE_LOG_PREFIX");
    assert_int_equal(count(out_text, " is ready\n"), 4);
    assert_int_equal(count(out_text, "all are ready\n"), 4);
    assert_int_equal(count(out_text, "pid="), 0);
}

static int drive_plainly(troupe_launch launch)
{
    troupe_must(troupe_start(0, NULL, .workers = TROUPE_NONE, .launch = launch,
                             .worker_output = TROUPE_OUTPUT_PLAIN, .worker_output_unfolded = true));
    for (int i = 0; i < 3; i++)
        tell(troupe_spawn(talker, .place = TROUPE_PLACE_ISOLATED), "plain\n");
    troupe_stop();
    troupe_must(troupe_start(0, NULL, .workers = TROUPE_NONE, .launch = launch,
                             .worker_output = TROUPE_OUTPUT_DIRECT));
    for (int i = 0; i < 3; i++)
        tell(troupe_spawn(talker, .place = TROUPE_PLACE_ISOLATED), "direct\n");
    return troupe_stop();
}

static void test_options(void **state)
{
    (void)state;
    run_driver(drive_plainly, TROUPE_LAUNCH_FORK);
    assert_int_equal(count(out_text, "plain\n"), 3);
    assert_int_equal(count(out_text, "direct\n"), 3);
    assert_int_equal(count(out_text, "("), 0);
    assert_int_equal(troupe_start(0, NULL, .worker_output = (troupe_output)7), TROUPE_INVALID);
}

// ---- a flood

// The driver's output is a pipe that nobody reads: the writer waits, and the node does not.
static int drive_flood(int to_test)
{
    troupe_must(troupe_start(0, NULL, .workers = TROUPE_NONE));
    talker_actor loud = troupe_spawn(talker, .name = "loud", .place = TROUPE_PLACE_ISOLATED);
    talker_actor quiet = troupe_spawn(talker, .name = "quiet", .place = TROUPE_PLACE_ISOLATED);
    troupe_ref answer = troupe_call(loud, flood, FLOOD_LINES);
    int pid;
    for (int i = 0; i < 50; i++)
        troupe_must(troupe_get(int, troupe_call(quiet, flood, 0), &pid));
    if (write(to_test, "ok", 2) != 2)
        return 3;
    troupe_must(troupe_get(int, answer, &pid));
    return troupe_stop();
}

static void test_flood(void **state)
{
    (void)state;
    int out[2], ready[2];
    char answer[2];
    assert_int_equal(pipe(out), 0);
    assert_int_equal(pipe(ready), 0);
    fflush(NULL);
    pid_t driver = fork();
    assert_true(driver >= 0);
    if (driver == 0) {
        (void)alarm(60);
        (void)dup2(out[1], STDOUT_FILENO);
        close(out[0]);
        close(out[1]);
        close(ready[0]);
        exit(drive_flood(ready[1]));
    }
    close(out[1]);
    close(ready[1]);
    assert_int_equal(read(ready[0], answer, sizeof answer), 2);
    FILE *lines = fdopen(out[0], "r");
    assert_non_null(lines);
    char line[256];
    int expected = 0;
    while (fgets(line, sizeof line, lines) != NULL) {
        int number = -1;
        const char *at = strstr(line, ") line ");
        assert_non_null(at);
        assert_true(strncmp(line, "(loud pid=", 10) == 0);
        assert_int_equal(sscanf(at, ") line %d of a flood", &number), 1);
        assert_int_equal(number, expected++);
    }
    assert_int_equal(expected, FLOOD_LINES);
    fclose(lines);
    close(ready[0]);
    int status;
    assert_int_equal(waitpid(driver, &status, 0), driver);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// ---- descriptors

// This process has room for `free` descriptors more. Returns how many it has taken for that.
static int take_descriptors(int *taken, int capacity, int free)
{
    struct rlimit limit;
    int count = 0;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        _exit(4);
    limit.rlim_cur = (rlim_t)capacity;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        _exit(4);
    while (count < capacity && (taken[count] = dup(STDIN_FILENO)) >= 0)
        count++;
    for (; free > 0 && count > 0; free--)
        close(taken[--count]);
    return count;
}

static bool has_printed(void *unused)
{
    struct stat now;
    (void)unused;
    return fstat(STDOUT_FILENO, &now) == 0 && now.st_size > 0;
}

// There is no room for both ends of a worker's pipes: it ends where it writes, instead of waiting
// for somebody to read, and nothing is left here.
static int drive_without_room(int room)
{
    enum { CAPACITY = 256 };
    int taken[CAPACITY], pid;
    struct rlimit limit;
    troupe_must(troupe_start(0, NULL, .workers = TROUPE_NONE));
    tell(troupe_spawn(talker, .place = TROUPE_PLACE_ISOLATED), "heard\n");
    if (!support_wait_until(has_printed, NULL, SUPPORT_SOON_MS)) // Its pipes have come, then.
        return 5;
    int before = support_count_descriptors();
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        _exit(4);
    int count = take_descriptors(taken, CAPACITY, room);
    talker_actor unheard = troupe_spawn(talker, .place = TROUPE_PLACE_ISOLATED);
    troupe_status status =
        troupe_get(int, troupe_call(unheard, flood, FLOOD_LINES), &pid, SUPPORT_SOON_MS);
    while (count > 0)
        close(taken[--count]);
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        _exit(4);
    int after = support_count_descriptors();
    troupe_stop();
    return status != TROUPE_MAYBE_EXECUTED ? 2 : after != before ? 3 : 0;
}

static int drive_with_one(troupe_launch launch)
{
    (void)launch;
    return drive_without_room(1);
}

static int drive_with_none(troupe_launch launch)
{
    (void)launch;
    return drive_without_room(0);
}

static void test_too_many_descriptors(void **state)
{
    (void)state;
    int (*const drives[])(troupe_launch) = {drive_with_one, drive_with_none};
    for (int i = 0; i < 2; i++) {
        run_driver(drives[i], TROUPE_LAUNCH_FORK);
        assert_int_equal(count(out_text, "heard"), 1);
        assert_int_equal(count(out_text, "of a flood"), 0);
        assert_int_equal(count(error_text, "this process has too many descriptors open"), 1);
        assert_non_null(strstr(error_text, "writing it may end it (SIGPIPE)"));
    }
}

// Whether the thread that reads the output sleeps.
static bool output_sleeps(void *unused)
{
    (void)unused;
    char path[300], line[256], state = '?';
    DIR *tasks = opendir("/proc/self/task");
    if (tasks == NULL)
        return false;
    for (struct dirent *it; (it = readdir(tasks)) != NULL;) {
        snprintf(path, sizeof path, "/proc/self/task/%s/stat", it->d_name);
        FILE *file = fopen(path, "re");
        if (file == NULL)
            continue;
        if (fgets(line, sizeof line, file) != NULL && strstr(line, "(troupe-output)") != NULL)
            (void)sscanf(strchr(line, ')'), ") %c", &state);
        fclose(file);
    }
    closedir(tasks);
    return state == 'S';
}

// The keeper is killed while a child of user code has all descriptors of the driver: the thread
// that reads the output must not go round for ever.
static int drive_lost_keeper(troupe_launch launch)
{
    int worker, keeper;
    troupe_must(troupe_start(0, NULL, .workers = TROUPE_NONE, .launch = launch));
    talker_actor actor = troupe_spawn(talker, .place = TROUPE_PLACE_ISOLATED);
    troupe_must(troupe_get(int, troupe_call(actor, flood, 0), &worker));
    troupe_must(troupe_get(int, troupe_call(actor, parent_of), &keeper));
    pid_t child = fork();
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    // These have the other end of the socket.
    pid_t ended[] = {keeper, trp_process_pid(TRP_PROCESS_NODE), worker};
    bool slept = kill(keeper, SIGKILL) == 0 && support_processes_end(ended, 3, SUPPORT_SOON_MS) &&
                 support_wait_until(output_sleeps, NULL, 2000);
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    troupe_stop();
    return slept ? 0 : 2;
}

static void test_lost_keeper(void **state)
{
    (void)state;
    run_driver(drive_lost_keeper, TROUPE_LAUNCH_FORK);
}

int main(int argc, char **argv)
{
    if (getenv(TRP_WORKER_VARIABLE) != NULL) // An executed worker: does not return.
        troupe_must(troupe_start(argc, argv, .workers = 1, .launch = TROUPE_LAUNCH_EXEC));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_whole_lines),
        cmocka_unit_test(test_last_words),
        cmocka_unit_test(test_exit_without_stop),
        cmocka_unit_test(test_repeated_lines),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_flood),
        cmocka_unit_test(test_too_many_descriptors),
        cmocka_unit_test(test_lost_keeper),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
