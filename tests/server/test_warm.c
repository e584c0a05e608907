// test_warm.c: warm runners: jobs of one kind are run by copies of a process whose program has come
// to troupe_start once, and nothing is lost when any of them dies.
// timeout: 120
// label: notsan
// cost: 10
#include "real_server.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <runtime/base/fault.h>
#include <server/fence.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <train/server_link.h>
#include <train/state_folder.h>
#include <troupe.h>
#include <unistd.h>

static char *top, *storage, *witness, *mark, *elsewhere,
    *waits; // Found in the environment by what is started.

TROUPE_STRUCT(plan, (int, reports), (int, step_us), (int, number));

static troupe_status step(troupe_rank *me, const plan *config)
{
    printf("job %s does number %d\n", getenv("TROUPE_IN_JOB"), config->number);
    for (int i = 0; i < config->reports; i++) {
        if (config->step_us > 0)
            usleep((useconds_t)config->step_us);
        TROUPE_TRY(troupe_report(me, {"number", config->number}));
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(step, plan);

enum { FIRST_TO_GO = 1000 };

static int score_of(const char *process)
{
    char path[300], score[16] = "";
    snprintf(path, sizeof path, "/proc/%s/oom_score_adj", process);
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        (void)!fgets(score, sizeof score, file);
        (void)fclose(file);
    }
    return atoi(score);
}

// ---- the program, before its start

// A copy, which the kernel is to end first, makes no process with the setting.
pid_t fork(void)
{
    static pid_t (*next)(void);
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "fork");
    if (getenv("WARM_NO_FORKS") == NULL || score_of("self") != FIRST_TO_GO)
        return next();
    errno = EAGAIN;
    return -1;
}

#ifdef TROUPE_FAULTS
// The first runner that is made of a copy, and no other.
static bool is_first(void)
{
    int fd = open(mark, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static struct rlimit full;

static void end_limit(void)
{
    (void)setrlimit(RLIMIT_FSIZE, &full);
}

// Until the output is set nothing can be written, as where a disk is full.
static void set_limit(void)
{
    if (!is_first())
        return;
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)getrlimit(RLIMIT_FSIZE, &full);
    (void)setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, full.rlim_max});
    trp_fault_call_at("after warm output", 1, end_limit);
}

static void have_no_descriptor(void)
{
    struct rlimit files;
    if (is_first() && getrlimit(RLIMIT_NOFILE, &files) == 0)
        (void)setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, files.rlim_max});
}

static void set_fault(void)
{
    if (getenv("WARM_FULL") != NULL)
        trp_fault_call_at("before warm output", 1, set_limit);
    if (getenv("WARM_NO_LOG") != NULL)
        trp_fault_call_at("before warm output", 1, have_no_descriptor);
}
#endif

static void say_elsewhere(void)
{
    FILE *file = freopen(elsewhere, "a", stdout);
    if (file == NULL || dup2(STDOUT_FILENO, STDERR_FILENO) < 0)
        exit(EXIT_FAILURE);
}

// A line for each time that main was run for a job, and a descriptor or a thing to see in the log.
static void be_main(void)
{
    if (getenv("TROUPE_IN_JOB") == NULL)
        return;
    FILE *file = fopen(witness, "ae");
    if (file != NULL) {
        fprintf(file, "%d\n", (int)getpid());
        (void)fclose(file);
    }
    while (getenv("WARM_WAITS") != NULL && access(waits, F_OK) == 0)
        usleep(1000);
    if (getenv("WARM_ELSEWHERE") != NULL)
        say_elsewhere();
    else
        printf("main has begun\n");
    if (getenv("WARM_READS") != NULL && freopen(witness, "r", stdin) == NULL)
        exit(EXIT_FAILURE);
    if (getenv("WARM_HOLDS") != NULL)
        (void)open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (getenv("WARM_IGNORES") != NULL)
        (void)signal(SIGCHLD, SIG_IGN);
#ifdef TROUPE_FAULTS
    set_fault();
#endif
}

static int mains(void)
{
    char *text = support_read_file(witness);
    int count = 0;
    for (const char *at = text; at != NULL && *at != '\0'; at++)
        count += *at == '\n';
    free(text);
    return count;
}

// ---- processes

static bool is_of_program(const char *process)
{
    char own[4096], path[300], exe[4096];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    own[length > 0 ? length : 0] = '\0';
    snprintf(path, sizeof path, "/proc/%s/exe", process);
    length = readlink(path, exe, sizeof exe - 1);
    exe[length > 0 ? length : 0] = '\0';
    return strcmp(own, exe) == 0;
}

// Whether it began as a job's, as runners, their ranks and copies did.
static bool is_of_job(const char *process)
{
    static const char variable[] = "TROUPE_IN_JOB=";
    static char text[1 << 16];
    char path[300];
    snprintf(path, sizeof path, "/proc/%s/environ", process);
    FILE *file = fopen(path, "re");
    size_t size = file != NULL ? fread(text, 1, sizeof text, file) : 0;
    if (file != NULL)
        (void)fclose(file);
    return memmem(text, size, variable, sizeof variable - 1) != NULL;
}

// The copy that waits, by what it has said of itself to the kernel; 0: none.
static pid_t find_copy(void)
{
    pid_t found = 0;
    DIR *all = opendir("/proc");
    for (struct dirent *it; found == 0 && (it = readdir(all)) != NULL;)
        if (is_of_program(it->d_name) && score_of(it->d_name) == FIRST_TO_GO)
            found = (pid_t)atoi(it->d_name);
    closedir(all);
    return found;
}

// Whether nothing of this program's jobs is left, nor a copy that nobody has heard of yet: it would
// come to the next test's server.
static bool is_alone(void *user)
{
    bool alone = true;
    DIR *all = opendir("/proc");
    (void)user;
    for (struct dirent *it; alone && (it = readdir(all)) != NULL;)
        alone = !is_of_program(it->d_name) || !is_of_job(it->d_name);
    closedir(all);
    return alone;
}

static bool is_there(void *user)
{
    (void)user;
    return find_copy() != 0;
}

static bool has_no_copy(void *user)
{
    return !is_there(user);
}

// A copy says so to the kernel once it has written to the server, and that has read it by the time
// that it answers somebody else: the next job is handed over.
static pid_t await_copy(void)
{
    assert_true(support_wait_until(is_there, NULL, SUPPORT_SOON_MS));
    assert_true(server_status().pid > 0);
    pid_t copy = find_copy();
    assert_true(copy > 0); // To be killed, perhaps.
    return copy;
}

static int begin(void **state)
{
    (void)state;
    run_tool("server start --cpus 4 --warm 60 --no-gateway");
    return 0;
}

static int clear(void **state)
{
    (void)state;
    static const char *const settings[] = {"WARM_HOLDS",  "WARM_IGNORES",  "WARM_ELSEWHERE",
                                           "WARM_READS",  "WARM_NO_FORKS", "WARM_FULL",
                                           "WARM_NO_LOG", "WARM_WAITS"};
    char command[600], output[400];
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        unsetenv(settings[i]);
    run_tool("server stop --jobs");
    assert_true(support_wait_until(is_alone, NULL, SUPPORT_SOON_MS));
    snprintf(command, sizeof command, "rm -rf %s/state %s %s %s %s", top, witness, mark, elsewhere,
             waits);
    assert_int_equal(support_run(command, output, sizeof output), 0);
    return 0;
}

// ---- jobs

static troupe_job *submit(int number, int reports, int step_us)
{
    troupe_job *job;
    plan config = {.reports = reports, .step_us = step_us, .number = number};
    troupe_must(troupe_submit(step, &config, NULL, &job, .ranks = 2, .storage = storage,
                              .cpus_per_rank = 0.5, .console = TROUPE_CONSOLE_OFF));
    return job;
}

static void assert_ends(troupe_job *job, int reports)
{
    troupe_result *result;
    troupe_must(troupe_job_wait(job, 60000, &result));
    assert_int_equal(troupe_result_status(result), TROUPE_OK);
    assert_int_equal(troupe_result_reports(result), reports);
    troupe_result_free(&result);
    troupe_job_close(&job);
}

static bool has_reported(void *user)
{
    troupe_job_status status;
    troupe_job_status_get((troupe_job *)user, &status);
    return status.reports > 0;
}

static void do_job(int number)
{
    assert_ends(submit(number, 2, 0), 2);
}

static int count_in(const char *text, const char *what)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at += strlen(what))
        count++;
    return count;
}

static void test_a_kind_of_jobs_runs_main_once(void **state)
{
    enum { JOBS = 4 };
    (void)state;
    for (int i = 1; i <= JOBS; i++) {
        do_job(i);
        (void)await_copy();
    }
    assert_int_equal(mains(), 1);
    // Each has a log of its own, with what main has said and nothing of another job.
    for (int i = 1; i <= JOBS; i++) {
        char path[300], line[64];
        snprintf(path, sizeof path, "%s/state/jobs/%08d/log", top, i);
        char *log = support_read_file(path);
        if (count_in(log, "main has begun\n") != 1)
            fail_msg("the log of job %d is: %s", i, log);
        free(log);
        snprintf(path, sizeof path, "%s/step%s%.0d/log/rank_00001.log", storage, i > 1 ? "_" : "",
                 i - 1);
        log = support_read_file(path);
        snprintf(line, sizeof line, "job %d does number %d\n", i, i);
        assert_int_equal(count_in(log, line), 1);
        assert_int_equal(count_in(log, " does number "), 1);
        free(log);
    }
}

static void test_several_at_a_time(void **state)
{
    enum { JOBS = 6 };
    troupe_job *jobs[JOBS];
    (void)state;
    do_job(0);
    (void)await_copy();
    for (int i = 0; i < JOBS; i++)
        jobs[i] = submit(i + 1, 3, 2000);
    for (int i = 0; i < JOBS; i++)
        assert_ends(jobs[i], 3);
    assert_int_equal(mains(), 1);
}

static void test_another_environment_is_another_kind(void **state)
{
    (void)state;
    do_job(1);
    (void)await_copy();
    setenv("WARM_OTHER", "1", 1);
    do_job(2);
    unsetenv("WARM_OTHER");
    assert_int_equal(mains(), 2);
    do_job(3);
    assert_int_equal(mains(), 2);
}

static void assert_no_copy(const char *setting)
{
    setenv(setting, "1", 1);
    do_job(1);
    do_job(2);
    assert_int_equal(mains(), 2);
    assert_int_equal(find_copy(), 0);
}

// A descriptor of main's would be shared by all of them.
static void test_a_program_that_holds_something_is_not_copied(void **state)
{
    (void)state;
    assert_no_copy("WARM_HOLDS");
}

static void test_a_program_with_output_of_its_own_is_not_copied(void **state)
{
    (void)state;
    assert_no_copy("WARM_ELSEWHERE");
}

static void test_a_program_with_input_of_its_own_is_not_copied(void **state)
{
    (void)state;
    assert_no_copy("WARM_READS");
}

// The launcher is asked next, and nothing is counted.
static void test_a_copy_that_cannot_fork(void **state)
{
    (void)state;
    setenv("WARM_NO_FORKS", "1", 1);
    do_job(1);
    (void)await_copy();
    do_job(2);
    assert_int_equal(mains(), 2);
}

#ifdef TROUPE_FAULTS
// What main had said is missing there, and no more.
static void test_a_full_disk_ends_no_job(void **state)
{
    char path[300];
    (void)state;
    setenv("WARM_FULL", "1", 1);
    do_job(1);
    (void)await_copy();
    do_job(2);
    assert_int_equal(mains(), 1);
    snprintf(path, sizeof path, "%s/state/jobs/%08d/log", top, 2);
    char *log = support_read_file(path);
    assert_int_equal(count_in(log, "main has begun"), 0);
    free(log);
}

static void test_a_log_that_cannot_be_opened_ends_no_job(void **state)
{
    (void)state;
    setenv("WARM_NO_LOG", "1", 1);
    do_job(1);
    (void)await_copy();
    do_job(2);
    assert_int_equal(access(mark, F_OK), 0);
}
#endif

static void test_a_program_that_ignores_its_children(void **state)
{
    (void)state;
    setenv("WARM_IGNORES", "1", 1);
    for (int i = 0; i < 3; i++) {
        do_job(i);
        (void)await_copy();
    }
    assert_int_equal(mains(), 1);
}

// F17.
static void test_a_dead_copy_is_followed_by_another(void **state)
{
    (void)state;
    do_job(1);
    pid_t first = await_copy();
    assert_int_equal(kill(first, SIGKILL), 0);
    assert_true(support_wait_until(has_no_copy, NULL, SUPPORT_SOON_MS));
    do_job(2);
    pid_t second = await_copy();
    assert_int_equal(mains(), 2);
    // It is killed as it makes a runner: whether it has one then or not, the job is done once.
    for (int i = 3; i < 9; i++) {
        troupe_job *job = submit(i, 2, 1000);
        usleep((useconds_t)(i * 300));
        (void)kill(second, SIGKILL);
        assert_ends(job, 2);
        do_job(100 + i);
        second = await_copy();
    }
}

static pid_t find_runner(void)
{
    char folder[300];
    trp_fence found;
    snprintf(folder, sizeof folder, "%s/state/jobs/%08d", top, 2);
    troupe_must(trp_fence_look(folder, &found));
    return found.runner;
}

// The copy says how, whether that or the end of the process is seen first.
static void test_how_a_runner_died_is_said(void **state)
{
    troupe_result *result;
    (void)state;
    do_job(1);
    (void)await_copy();
    troupe_job *job = submit(2, 1000, 10000);
    assert_true(support_wait_until(has_reported, job, SUPPORT_SOON_MS));
    pid_t runner = find_runner();
    assert_true(runner > 0);
    assert_int_equal(kill(runner, SIGKILL), 0);
    troupe_must(troupe_job_wait(job, 60000, &result));
    assert_int_equal(troupe_result_status(result), TROUPE_PEER_LOST);
    if (strstr(troupe_result_error(result), "was ended by signal 9") == NULL)
        fail_msg("it is said: %s", troupe_result_error(result));
    troupe_result_free(&result);
    troupe_job_close(&job);
    assert_int_equal(mains(), 1);
}

// One that does not answer is not waited for, and what it does late is no other run.
static void test_a_copy_that_hangs(void **state)
{
    (void)state;
    do_job(1);
    pid_t copy = await_copy();
    assert_int_equal(kill(copy, SIGSTOP), 0);
    do_job(2);
    assert_int_equal(mains(), 2);
    assert_int_equal(kill(copy, SIGCONT), 0);
    do_job(3);
}

static void test_jobs_of_a_copy_outlive_it_and_the_server(void **state)
{
    (void)state;
    do_job(1);
    pid_t copy = await_copy();
    troupe_job *job = submit(2, 40, 10000);
    assert_true(support_wait_until(has_reported, job, SUPPORT_SOON_MS));
    assert_int_equal(kill(copy, SIGKILL), 0);
    kill_server();
    run_tool("server start --cpus 4 --warm 1 --no-gateway");
    assert_ends(job, 40);
    assert_int_equal(mains(), 1);
}

static bool has_begun(void *user)
{
    (void)user;
    return mains() == 1;
}

// It is seen while the server, which counts its time, stands still.
static void test_the_time_of_a_copy_is_over_at_last(void **state)
{
    (void)state;
    run_tool("server stop");
    run_tool("server start --cpus 4 --warm 1 --no-gateway");
    support_write_file(waits, "", 0);
    setenv("WARM_WAITS", "1", 1);
    troupe_job *job = submit(1, 2, 0);
    assert_true(support_wait_until(has_begun, NULL, SUPPORT_SOON_MS));
    pid_t server = server_status().pid;
    assert_true(server > 0);
    assert_int_equal(kill(server, SIGSTOP), 0);
    assert_int_equal(unlink(waits), 0);
    assert_true(support_wait_until(is_there, NULL, SUPPORT_SOON_MS));
    assert_int_equal(kill(server, SIGCONT), 0);
    assert_ends(job, 2);
    assert_true(support_wait_until(has_no_copy, NULL, SUPPORT_SOON_MS));
}

static int end(void **state)
{
    (void)state;
    support_directory_remove(top);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, clear)

int main(int argc, char **argv)
{
    top = real_server_folder("TEST_WARM_TOP");
    storage = support_path(top, "runs");
    witness = support_path(top, "witness");
    mark = support_path(top, "mark");
    elsewhere = support_path(top, "elsewhere");
    waits = support_path(top, "waits");
    be_main();
    troupe_must(troupe_start(argc, argv, .cpus = 2)); // Does not return in a job.
    const struct CMUnitTest tests[] = {
        TEST(test_a_kind_of_jobs_runs_main_once),
        TEST(test_several_at_a_time),
        TEST(test_another_environment_is_another_kind),
        TEST(test_a_program_that_holds_something_is_not_copied),
        TEST(test_a_program_with_output_of_its_own_is_not_copied),
        TEST(test_a_program_with_input_of_its_own_is_not_copied),
        TEST(test_a_copy_that_cannot_fork),
#ifdef TROUPE_FAULTS
        TEST(test_a_full_disk_ends_no_job),
        TEST(test_a_log_that_cannot_be_opened_ends_no_job),
#endif
        TEST(test_a_program_that_ignores_its_children),
        TEST(test_a_dead_copy_is_followed_by_another),
        TEST(test_how_a_runner_died_is_said),
        TEST(test_a_copy_that_hangs),
        TEST(test_jobs_of_a_copy_outlive_it_and_the_server),
        TEST(test_the_time_of_a_copy_is_over_at_last),
    };
    return cmocka_run_group_tests(tests, NULL, end);
}
