// test_adoption.c: a server that is started again takes on the runners that it finds, and no
// process that has the number of one by now.
// label: faults
#include "site.h"

#include <linux/sched.h>
#include <pthread.h>
#include <sys/syscall.h>

typedef struct shared {
    _Atomic pid_t runner, stranger; // Of the same number.
} shared;

static shared *both;

// Orphans are this process's own, which has to reap them.
static void *reap_runner(void *unused)
{
    (void)unused;
    (void)waitpid(both->runner, NULL, 0);
    return NULL;
}

// In the server, which has just seen who has the lock: the runner ends, and another process has its
// number.
static void give_number_away(void)
{
    pid_t number = both->runner;
    (void)kill(number, SIGKILL);
    while (kill(number, 0) == 0)
        nap_ms(1);
    struct clone_args how = {
        .exit_signal = SIGCHLD, .set_tid = (uint64_t)(uintptr_t)&number, .set_tid_size = 1};
    long pid = syscall(SYS_clone3, &how, sizeof how);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    both->stranger = (pid_t)pid;
}

static void test_a_stranger_with_a_runners_number_is_let_alone(void **state)
{
    (void)state;
    site it;
    trp_arena arena = {0};
    trp_wire_job job;
    pthread_t reaper;
    site_open(&it, 1);
    trp_server_link *link = site_connect(&it, NULL);
    assert_int_equal(
        site_submit(&it, link, &arena, &job, .submission = "a", .reports = 100000, .each_ms = 5),
        TROUPE_OK);
    site_await(link, job.job, TRP_JOB_RUNNING, &arena, &job);
    assert_true(job.runner > 0);
    both->runner = job.runner;
    trp_server_link_close(&link);
    site_kill(&it);
    assert_int_equal(pthread_create(&reaper, NULL, reap_runner, NULL), 0);
    trp_fault_call_at("before watch", 1, give_number_away); // Of the server, which is a child.
    site_start(&it);
    trp_fault_call_at("before watch", 0, NULL);
    pthread_join(reaper, NULL);
    if (both->stranger <= 0) {
        print_message("no process can be given a number here\n");
        site_close(&it);
        skip();
    }
    assert_int_equal(both->stranger, both->runner);
    link = site_connect(&it, NULL);
    (void)site_wish(link, job.job, TRP_WISH_KILL, TROUPE_CANCELLED, &arena); // Or it is over.
    site_await(link, job.job, TRP_JOB_ENDED, &arena, &job);
    assert_int_not_equal(job.status, TROUPE_OK);
    assert_true(support_process_lives(both->stranger));
    trp_server_link_close(&link);
    trp_arena_clear(&arena);
    site_close(&it);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "nap") == 0)
        return nap_main(argv);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    both = (shared *)support_share(sizeof *both);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stranger_with_a_runners_number_is_let_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
