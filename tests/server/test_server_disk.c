// test_server_disk.c: the train server on a full disk: nothing is acknowledged that is not stored,
// what jobs did is stored once there is space, and jobs that run go on.
#include "site.h"
#include <errno.h>
#include <sched.h>
#include <sys/mount.h>

static bool may_mount;

// Mounts that no other process sees.
static void be_private(void)
{
    support_allow_mounts();
    may_mount = unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
    if (!may_mount)
        print_message("no file system can be mounted here: %s\n", strerror(errno));
}

// Whether the server has emptied the log of its books, which it does once after its start, and then
// when jobs have ended. What that gives back would be free behind the filling of the disk.
static bool is_wiped(void *folder)
{
    struct stat about;
    char *log = support_path((const char *)folder, "books.db-wal");
    bool wiped = stat(log, &about) == 0 && about.st_size == 0;
    free(log);
    return wiped;
}

// A site whose state folder is a disk of 1 MiB. False: that is not allowed here.
static bool open_small(site *it, double cpus)
{
    if (!may_mount)
        return false;
    site_open(it, cpus);
    site_stop(it);
    assert_int_equal(mount("tmpfs", it->folder, "tmpfs", 0, "size=1m,mode=0700"), 0);
    site_start(it);
    assert_true(support_wait_until(is_wiped, it->folder, SUPPORT_SOON_MS));
    return true;
}

static void close_small(site *it)
{
    site_stop(it);
    assert_int_equal(umount(it->folder), 0);
    support_directory_remove(it->folder);
    support_directory_remove(it->storage);
}

static char *filler_of(const site *it)
{
    return support_path(it->folder, "filler");
}

static void fill(const site *it)
{
    char *path = filler_of(it);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    while (write(fd, path, 1) == 1)
        continue;
    assert_int_equal(errno, ENOSPC);
    close(fd);
    free(path);
}

static void make_space(const site *it)
{
    char *path = filler_of(it);
    assert_int_equal(unlink(path), 0);
    free(path);
}

// Wishes priorities until one is refused, since the books have no room; the last one that was not.
static int wish_until_full(trp_server_link *link, int64_t job, trp_arena *arena)
{
    enum { MOST = 1000 };
    for (int i = 1; i <= MOST; i++) {
        troupe_status status = site_wish(link, job, TRP_WISH_PRIORITY, i, arena);
        if (status == TROUPE_NO_SPACE)
            return i - 1;
        assert_int_equal(status, TROUPE_OK);
    }
    fail_msg("the disk of 1 MiB is not full after %d wishes", MOST);
    return 0;
}

static bool has_end(void *folder)
{
    char *path = support_path((const char *)folder, "end");
    bool there = support_exists(path);
    free(path);
    return there;
}

static bool is_there(void *path)
{
    return support_exists((const char *)path);
}

static troupe_status submit(const site *it, trp_server_link *link, const char *name, int reports,
                            trp_arena *arena, trp_wire_job *job)
{
    return site_submit(it, link, arena, job, .submission = name, .key = name, .reports = reports,
                       .each_ms = 1);
}

// F14.
static void test_a_full_disk_refuses_and_loses_nothing(void **state)
{
    site it;
    trp_arena arena = {0};
    trp_wire_job first, second, job;
    (void)state;
    if (!open_small(&it, 1))
        skip();
    trp_server_link *link = site_connect(&it, NULL);
    assert_int_equal(submit(&it, link, "a", 1000000, &arena, &first), TROUPE_OK);
    site_await(link, first.job, TRP_JOB_RUNNING, &arena, &first);
    assert_true(first.runner > 0);
    assert_int_equal(kill(first.runner, SIGSTOP), 0);
    assert_int_equal(submit(&it, link, "b", 3, &arena, &second), TROUPE_OK);
    fill(&it);
    for (int i = 0; i < 5; i++)
        assert_int_equal(submit(&it, link, "c", 1, &arena, &job), TROUPE_NO_SPACE);
    (void)wish_until_full(link, second.job, &arena);
    // It ends, in blocks of its own; the next one has to wait for its grant to be stored.
    assert_int_equal(kill(first.runner, SIGUSR2), 0);
    assert_int_equal(kill(first.runner, SIGCONT), 0);
    assert_true(support_wait_until(has_end, (void *)first.folder, SUPPORT_SOON_MS));
    assert_true(support_processes_end(&(pid_t){first.runner}, 1, SUPPORT_SOON_MS));
    assert_int_equal(submit(&it, link, "c", 1, &arena, &job), TROUPE_NO_SPACE);
    assert_int_equal(site_count_runs(&it, "b"), 0);
    make_space(&it);
    site_await(link, first.job, TRP_JOB_ENDED, &arena, &job);
    assert_int_equal(job.status, TROUPE_OK);
    site_await(link, second.job, TRP_JOB_ENDED, &arena, &job);
    assert_int_equal(submit(&it, link, "c", 1, &arena, &job), TROUPE_OK);
    site_await(link, job.job, TRP_JOB_ENDED, &arena, &job);
    site_kill(&it);
    site_start(&it);
    for (int64_t id = first.job; id <= second.job; id++) {
        assert_int_equal(site_find(link, id, &arena, &job), TROUPE_OK);
        assert_int_equal(job.state, TRP_JOB_ENDED);
        assert_int_equal(job.status, TROUPE_OK);
    }
    assert_int_equal(site_count_runs(&it, "a"), 1);
    assert_int_equal(site_count_runs(&it, "b"), 1);
    trp_server_link_close(&link);
    trp_arena_clear(&arena);
    close_small(&it);
}

static void test_what_was_acknowledged_outlives_a_full_disk(void **state)
{
    site it;
    trp_arena arena = {0};
    trp_wire_job job;
    (void)state;
    if (!open_small(&it, 1))
        skip();
    trp_server_link *link = site_connect(&it, NULL);
    assert_int_equal(submit(&it, link, "a", 1000000, &arena, &job), TROUPE_OK);
    assert_int_equal(submit(&it, link, "b", 1, &arena, &job), TROUPE_OK);
    fill(&it);
    int stored = wish_until_full(link, job.job, &arena);
    site_kill(&it);
    make_space(&it);
    site_start(&it);
    assert_int_equal(site_find(link, job.job, &arena, &job), TROUPE_OK);
    assert_int_equal(job.need.priority, stored);
    assert_int_equal(site_wish(link, 1, TRP_WISH_STOP, 0, &arena), TROUPE_OK);
    site_await(link, job.job, TRP_JOB_ENDED, &arena, &job);
    trp_server_link_close(&link);
    trp_arena_clear(&arena);
    close_small(&it);
}

// Nor is a runner told what is not stored, also if it says hello anew.
static void test_a_runner_is_told_what_is_stored(void **state)
{
    site it;
    trp_arena arena = {0};
    trp_wire_job job;
    (void)state;
    if (!open_small(&it, 1))
        skip();
    trp_server_link *link = site_connect(&it, NULL);
    assert_int_equal(submit(&it, link, "a", 1000000, &arena, &job), TROUPE_OK);
    site_await(link, job.job, TRP_JOB_RUNNING, &arena, &job);
    pid_t runner = job.runner;
    fill(&it);
    assert_int_equal(submit(&it, link, "b", 1, &arena, &job), TROUPE_NO_SPACE);
    troupe_status status;
    do // Until the books have no room.
        status = site_wish(link, 1, TRP_WISH_RANKS, 1, &arena);
    while (status == TROUPE_OK);
    assert_int_equal(status, TROUPE_NO_SPACE);
    assert_int_equal(site_wish(link, 1, TRP_WISH_STOP, 0, &arena), TROUPE_NO_SPACE);
    assert_int_equal(kill(runner, SIGUSR1), 0);
    char *again = support_path(it.storage, "a/again");
    assert_true(support_wait_until(is_there, again, SUPPORT_SOON_MS));
    free(again);
    assert_int_equal(site_find(link, 1, &arena, &job), TROUPE_OK);
    int before = job.reports;
    while (job.reports < before + 20) {
        assert_int_equal(site_find(link, 1, &arena, &job), TROUPE_OK);
        assert_int_equal(job.state, TRP_JOB_RUNNING);
    }
    make_space(&it);
    site_await(link, 1, TRP_JOB_ENDED, &arena, &job);
    assert_true(job.stopped);
    trp_server_link_close(&link);
    trp_arena_clear(&arena);
    close_small(&it);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "nap") == 0)
        return nap_main(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_full_disk_refuses_and_loses_nothing),
        cmocka_unit_test(test_what_was_acknowledged_outlives_a_full_disk),
        cmocka_unit_test(test_a_runner_is_told_what_is_stored),
    };
    be_private();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
