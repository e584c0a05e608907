// test_folders.c: the folder of a run, in .directory of troupe_start: what killed runs left there
// is removed by the next, and nothing else is.
#include <support.h>

#include <fcntl.h>
#include <runtime/base/run_folder.h>
#include <runtime/node/keeper.h>
#include <runtime/shm/process_table.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <troupe.h>
#include <unistd.h>

// The number of a process that has ended.
static pid_t dead_pid(void)
{
    pid_t dead = fork();
    assert_true(dead >= 0);
    if (dead == 0)
        _exit(0);
    assert_int_equal(waitpid(dead, NULL, 0), dead);
    return dead;
}

static void test_stale_folders_are_swept(void **state)
{
    (void)state;
    pid_t dead = dead_pid();
    char *base = support_directory_make();
    char stale[300], held[300], lock[320];
    snprintf(stale, sizeof stale, "%s/troupe-%u-%d-1", base, (unsigned)getuid(), (int)dead);
    snprintf(held, sizeof held, "%s/troupe-%u-%d-2", base, (unsigned)getuid(), (int)dead);
    assert_int_equal(mkdir(stale, 0700), 0);
    assert_int_equal(mkdir(held, 0700), 0);
    snprintf(lock, sizeof lock, "%s/lock", stale);
    support_write_file(lock, "", 0);
    snprintf(lock, sizeof lock, "%s/lock", held);
    support_write_file(lock, "", 0);
    int holder = open(lock, O_RDWR);
    assert_true(holder >= 0 && flock(holder, LOCK_EX | LOCK_NB) == 0);

    assert_int_equal(troupe_start(0, NULL, .workers = 2, .directory = base), TROUPE_OK);
    assert_false(support_exists(stale));
    assert_true(support_exists(held));
    assert_int_equal(strncmp(trp_self.folder, base, strlen(base)), 0);
    struct stat about;
    assert_int_equal(stat(trp_self.folder, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0700);
    assert_int_equal(troupe_stop(), 0);
    close(holder);
    support_directory_remove(base);
}

// One that is being made has no lock yet, and another name; it is left when that was long ago.
static void test_folders_that_are_being_made(void **state)
{
    (void)state;
    pid_t dead = dead_pid();
    char *base = support_directory_make();
    char young[300], old[300];
    struct timespec long_ago[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    snprintf(young, sizeof young, "%s/troupe-new-%u-%d-1", base, (unsigned)getuid(), (int)dead);
    snprintf(old, sizeof old, "%s/troupe-new-%u-%d-2", base, (unsigned)getuid(), (int)dead);
    assert_int_equal(mkdir(young, 0700), 0);
    assert_int_equal(mkdir(old, 0700), 0);
    assert_int_equal(utimensat(AT_FDCWD, old, long_ago, 0), 0);
    trp_folder_sweep(base);
    assert_true(support_exists(young));
    assert_false(support_exists(old));
    support_directory_remove(base);
}

// Where a container shares the directory, and does not know our process numbers. Returns its first
// process, which sweeps until it is killed; 0: this process may not make one.
static pid_t sweep_in_container(const char *base)
{
    int ready[2];
    char word = 0;
    assert_int_equal(pipe(ready), 0);
    pid_t outer = fork();
    assert_true(outer >= 0);
    if (outer == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (unshare(CLONE_NEWPID) != 0)
            _exit(0);
        pid_t first = fork();
        if (first == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;) {
                trp_folder_sweep(base);
                (void)!write(ready[1], &word, word == 0 ? 1 : 0);
                word = 1;
            }
        }
        close(ready[1]);
        (void)waitpid(first, NULL, 0);
        _exit(0);
    }
    close(ready[1]);
    bool sweeps = read(ready[0], &word, 1) == 1;
    close(ready[0]);
    if (!sweeps)
        assert_int_equal(waitpid(outer, NULL, 0), outer);
    return sweeps ? outer : 0;
}

static void test_a_start_beside_a_sweep(void **state)
{
    (void)state;
    enum { STARTS = 40 };
    char *base = support_directory_make();
    pid_t sweeper = sweep_in_container(base);
    if (sweeper == 0) {
        print_message("not tested: this user may not make a namespace of processes\n");
        support_directory_remove(base);
        skip();
    }
    for (int i = 0; i < STARTS; i++) {
        troupe_must(troupe_start(0, NULL, .workers = TROUPE_NONE, .directory = base));
        assert_int_equal(troupe_stop(), 0);
    }
    assert_int_equal(kill(sweeper, SIGKILL), 0);
    assert_int_equal(waitpid(sweeper, NULL, 0), sweeper);
    support_directory_remove(base);
}

// Starts a runtime in a process that is killed where it has come to the `count`th entry to, or
// return from, the kernel. False: it was through before.
static bool start_and_die(const char *base, int count)
{
    int status = 0;
    pid_t driver = fork();
    assert_true(driver >= 0);
    if (driver == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(2);
        (void)raise(SIGSTOP);
        _exit(troupe_start(0, NULL, .workers = TROUPE_NONE, .directory = base) != TROUPE_OK);
    }
    assert_int_equal(waitpid(driver, &status, 0), driver);
    for (int i = 0; i < count && WIFSTOPPED(status); i++) {
        int sent = i > 0 && WSTOPSIG(status) != SIGTRAP ? WSTOPSIG(status) : 0;
        assert_int_equal(ptrace(PTRACE_SYSCALL, driver, NULL, (void *)(uintptr_t)sent), 0);
        assert_int_equal(waitpid(driver, &status, 0), driver);
    }
    bool stopped = WIFSTOPPED(status);
    if (stopped) {
        assert_int_equal(kill(driver, SIGKILL), 0);
        assert_int_equal(waitpid(driver, &status, 0), driver);
    } else {
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    return stopped;
}

static bool is_swept(void *base)
{
    trp_folder_sweep(base);
    return support_count_files(base) == 0;
}

// As the next start sweeps, once the keeper is gone too.
static void test_a_driver_killed_as_it_starts_leaves_nothing(void **state)
{
    (void)state;
    enum { GONE_MS = 20000, EACH = 300, MORE = 20 };
    char *base = support_directory_make();
    for (int count = 1; start_and_die(base, count); count += count < EACH ? 1 : MORE)
        continue;
    assert_true(support_wait_until(is_swept, base, GONE_MS));
    support_directory_remove(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stale_folders_are_swept),
        cmocka_unit_test(test_folders_that_are_being_made),
        cmocka_unit_test(test_a_start_beside_a_sweep),
        cmocka_unit_test(test_a_driver_killed_as_it_starts_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
