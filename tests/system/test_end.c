// test_end.c: however the driver ends, nothing is left of its node: no process, no shared memory,
// no folder with sockets. Each case is a real driver process with pool workers, an isolated worker,
// an object in the store, and an orphan that user code left behind in every worker.
// timeout: 120
#include <support.h>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <runtime/node/keeper.h>
#include <runtime/node/node_client.h>
#include <runtime/node/prefork.h>
#include <runtime/shm/process_table.h>
#include <runtime/shm/segment.h>
#include <runtime/store/store.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GONE_MS = 2000 }; // "Gone within 2 s" is what docs/guarantees.md says.

typedef enum ending { BY_STOP, BY_RETURN, BY_EXIT, BY_SIGINT, BY_SIGKILL, BY_ABORT } ending;

// What a driver tells about itself once everything runs.
typedef struct facts {
    unsigned long long inode; // Of the segment: who maps it belongs to the node.
    char folder[TRP_FOLDER_MAX];
    int processes; // That the node has in the end.
} facts;

// Runs in each worker: user code that leaves a child of its own behind.
static void leave_orphan(void)
{
    if (fork() == 0) {
        if (fork() == 0)
            for (;;)
                pause();
        _exit(0);
    }
}

static troupe_status start(int argc, char **argv, troupe_launch launch)
{
    return troupe_start(argc, argv, .workers = 2, .launch = launch, .worker_init = leave_orphan);
}

// A driver from its start to its end; its return is the process's return from main.
static int drive(int ready, ending how, troupe_launch launch)
{
    troupe_must(start(0, NULL, launch));
    for (int i = 0; i < 3; i++) {
        uint32_t process;
        uint64_t incarnation;
        troupe_must(trp_node_worker(i == 2, &process, &incarnation));
    }
    trp_object object;
    void *data;
    troupe_must(trp_store_create(1 << 20, 1, TRP_ENCODING_BYTES, &object, &data));
    memset(data, 1, 1 << 20);
    troupe_must(trp_store_seal(object));

    struct stat segment;
    facts mine = {0};
    if (fstat(trp_segment_fd(), &segment) != 0)
        return 1;
    mine.inode = segment.st_ino;
    strcpy(mine.folder, trp_self.folder);
    // Driver, keeper, node, three workers, three orphans; and those forked ahead.
    mine.processes = 9 + (launch == TROUPE_LAUNCH_FORK ? TRP_SPARES_MIN : 0);
    if (write(ready, &mine, sizeof mine) != (ssize_t)sizeof mine)
        return 1;
    switch (how) {
    case BY_STOP:
        return troupe_stop();
    case BY_RETURN:
        return 0;
    case BY_EXIT:
        exit(0);
    case BY_ABORT:
        (void)signal(SIGABRT, SIG_DFL);
        abort();
    default: // Ended from outside.
        for (;;)
            pause();
    }
}

// Processes that have the segment mapped.
static int count_holders(unsigned long long inode)
{
    int count = 0;
    DIR *processes = opendir("/proc");
    assert_non_null(processes);
    for (struct dirent *entry; (entry = readdir(processes)) != NULL;) {
        char path[300], line[512], wanted[32];
        snprintf(path, sizeof path, "/proc/%s/maps", entry->d_name);
        FILE *maps = entry->d_name[0] >= '0' && entry->d_name[0] <= '9' ? fopen(path, "re") : NULL;
        if (maps == NULL)
            continue;
        snprintf(wanted, sizeof wanted, " %llu ", inode);
        bool holds = false;
        while (fgets(line, sizeof line, maps) != NULL)
            holds = holds || (strstr(line, wanted) != NULL && strstr(line, "/memfd:") != NULL);
        count += holds;
        fclose(maps);
    }
    closedir(processes);
    return count;
}

static bool is_gone(void *context)
{
    const facts *driver = context;
    return count_holders(driver->inode) == 0 && !support_exists(driver->folder);
}

static bool is_complete(void *context)
{
    const facts *driver = context;
    return count_holders(driver->inode) == driver->processes;
}

static void check_end(ending how, troupe_launch launch)
{
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t driver = fork();
    assert_true(driver >= 0);
    if (driver == 0) {
        close(ready[0]);
        (void)signal(SIGINT, SIG_DFL); // A shell's background jobs ignore it.
        (void)alarm(30);               // Else it would outlive a failed test.
        int status = drive(ready[1], how, launch);
        exit(status);
    }
    close(ready[1]);
    facts about;
    assert_int_equal(read(ready[0], &about, sizeof about), sizeof about);
    close(ready[0]);
    if (how == BY_SIGINT || how == BY_SIGKILL) {
        // The workers do not wait for their orphans, which may still be on their way.
        bool all = support_wait_until(is_complete, &about, SUPPORT_SOON_MS);
        if (!all)
            (void)kill(driver, SIGKILL);
        assert_true(all);
        assert_true(support_exists(about.folder));
        assert_int_equal(kill(driver, how == BY_SIGINT ? SIGINT : SIGKILL), 0);
    }
    int status;
    assert_int_equal(waitpid(driver, &status, 0), driver);
    bool gone = support_wait_until(is_gone, &about, GONE_MS);
    if (!gone)
        print_error("%d processes are left, folder %s %s\n", count_holders(about.inode),
                    about.folder, support_exists(about.folder) ? "is left" : "is gone");
    assert_true(gone);
    if (how == BY_STOP || how == BY_RETURN || how == BY_EXIT)
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_stop(void **state)
{
    (void)state;
    check_end(BY_STOP, TROUPE_LAUNCH_FORK);
}

static void test_return(void **state)
{
    (void)state;
    check_end(BY_RETURN, TROUPE_LAUNCH_FORK);
}

static void test_exit(void **state)
{
    (void)state;
    check_end(BY_EXIT, TROUPE_LAUNCH_FORK);
}

static void test_interrupt(void **state)
{
    (void)state;
    check_end(BY_SIGINT, TROUPE_LAUNCH_FORK);
}

static void test_kill(void **state)
{
    (void)state;
    check_end(BY_SIGKILL, TROUPE_LAUNCH_FORK);
}

static void test_abort(void **state)
{
    (void)state;
    check_end(BY_ABORT, TROUPE_LAUNCH_FORK);
}

static void test_executed_workers(void **state)
{
    (void)state;
    check_end(BY_STOP, TROUPE_LAUNCH_EXEC);
    check_end(BY_SIGKILL, TROUPE_LAUNCH_EXEC);
}

int main(int argc, char **argv)
{
    if (getenv(TRP_WORKER_VARIABLE) != NULL) // An executed worker: does not return.
        troupe_must(start(argc, argv, TROUPE_LAUNCH_EXEC));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_return),
        cmocka_unit_test(test_exit),
        cmocka_unit_test(test_interrupt),
        cmocka_unit_test(test_kill),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_executed_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
