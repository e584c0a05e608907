// test_desk.c: the connection that a program has to a real train server: how long, and which.
// timeout: 60
#include "real_server.h"

#include <dirent.h>
#include <pthread.h>
#include <runtime/base/fault.h>
#include <runtime/node/at_stop.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <train/desk.h>
#include <unistd.h>

static char *top, *storage; // Both are found in the environment by what is started.

TROUPE_STRUCT(plan, (int, reports));

static troupe_status do_nothing(troupe_rank *me, const plan *config)
{
    (void)me, (void)config;
    return TROUPE_OK;
}
TROUPE_TRAINER(do_nothing, plan);

static bool has_no_thread(void *name)
{
    return support_find_thread((const char *)name) == 0;
}

static int64_t left_ms; // When the last handle was let go.

// The thread of the connection that the job was submitted by.
static int submit_and_leave(void)
{
    troupe_job *job;
    plan config = {.reports = 0};
    troupe_must(troupe_submit(do_nothing, &config, NULL, &job, .storage = storage, .name = "none",
                              .console = TROUPE_CONSOLE_OFF, .server = TROUPE_SERVER_AUTO));
    assert_true(troupe_job_number(job) > 0);
    int thread = support_find_thread("troupe-link");
    left_ms = support_now_ms();
    troupe_must(troupe_job_leave(&job));
    return thread;
}

// A connection, two threads and a watch of files for each job would take it longer than the job.
static void test_one_connection_serves_jobs_in_turn(void **state)
{
    (void)state;
    enum { JOBS = 10, LINGERS_MS = 1000 };
    int last = submit_and_leave();
    assert_true(last > 0);
    for (int i = 1; i < JOBS; i++) {
        int64_t before_ms = left_ms;
        int next = submit_and_leave();
        // One that nobody has wanted for so long goes, and so does one whose server is as slow.
        assert_true(next == last || left_ms - before_ms >= LINGERS_MS);
        last = next;
    }
}

static void test_it_goes_when_nobody_wants_it(void **state)
{
    (void)state;
    assert_true(submit_and_leave() > 0);
    assert_true(support_wait_until(has_no_thread, "troupe-link", SUPPORT_SOON_MS));
    assert_true(support_wait_until(has_no_thread, "troupe-desk", SUPPORT_SOON_MS));
    assert_true(submit_and_leave() > 0);
}

// Its sockets are closed with its last thread, of which a sanitizer may have one more.
static bool has_one_thread(void *pid)
{
    char path[64];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)*(pid_t *)pid);
    DIR *threads = opendir(path);
    for (struct dirent *it; threads != NULL && (it = readdir(threads)) != NULL;)
        count += it->d_name[0] != '.';
    if (threads != NULL)
        closedir(threads);
    return count <= 1;
}

// One that lingers is none of a server that has gone.
static void test_another_server_has_another_connection(void **state)
{
    (void)state;
    troupe_job *job;
    pid_t server = server_status().pid;
    int first = submit_and_leave();
    kill_server();
    assert_true(support_wait_until(has_one_thread, &server, SUPPORT_SOON_MS));
    assert_int_equal(troupe_job_find("none", &job), TROUPE_NOT_FOUND);
    assert_true(has_no_thread("troupe-link"));
    int second = submit_and_leave(); // It starts a server.
    assert_true(second > 0 && second != first);
    setenv("TROUPE_SERVER", "/nowhere", 1);
    assert_int_equal(troupe_job_find("none", &job), TROUPE_NOT_FOUND);
    unsetenv("TROUPE_SERVER");
    assert_true(submit_and_leave() > 0);
}

static void test_few_changes_are_read_at_once(void **state)
{
    (void)state;
    enum { US = 1000, MS = 1000 * US };
    int soon = 0;
    for (int i = 0; i < 8; i++)
        assert_false(trp_desk_gathers(50 * US, &soon));
    for (int i = 0; i < 8; i++)
        assert_true(trp_desk_gathers(50 * US, &soon));
    assert_false(trp_desk_gathers(MS, &soon));
    assert_false(trp_desk_gathers(50 * US, &soon));
}

#ifdef TROUPE_FAULTS
// ---- other threads, while one is opened or goes

static sem_t there, further;

static void wait_for(sem_t *sem)
{
    while (sem_wait(sem) != 0) // Interrupted.
        continue;
}

static void tell_and_wait(void)
{
    sem_post(&there);
    wait_for(&further);
}

static void *open_one(void *desk)
{
    trp_path folder;
    troupe_must(trp_state_folder_find(&folder));
    troupe_must(trp_desk_open(folder.text, desk));
    return NULL;
}

// A server that does not answer is waited for by who opens the connection alone.
static void test_nobody_waits_for_another_that_opens_one(void **state)
{
    (void)state;
    pthread_t thread;
    trp_desk *desk = NULL;
    trp_at_stop_run();
    trp_fault_call_at("desk opens", 1, tell_and_wait);
    assert_int_equal(pthread_create(&thread, NULL, open_one, &desk), 0);
    wait_for(&there);
    trp_at_stop_run();
    assert_null(trp_desk_now());
    sem_post(&further);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_non_null(desk);
    trp_desk_release(&desk);
}

static int child_status;

static void fork_and_open(void)
{
    pid_t child = fork();
    trp_desk *desk = NULL;
    assert_true(child >= 0);
    if (child == 0) {
        (void)alarm(30);
        (void)open_one(&desk);
        trp_desk_release(&desk);
        _exit(7);
    }
    assert_int_equal(waitpid(child, &child_status, 0), child);
}

static void test_a_child_has_a_connection_of_its_own(void **state)
{
    (void)state;
    trp_desk *desk = NULL;
    trp_at_stop_run();
    trp_fault_call_at("desk opens", 1, fork_and_open);
    (void)open_one(&desk);
    assert_true(WIFEXITED(child_status) && WEXITSTATUS(child_status) == 7);
    trp_desk_release(&desk);
}

static bool has_thread(void *name)
{
    return !has_no_thread(name);
}

// A thread names itself.
static void open_and_release(void)
{
    trp_desk *desk = NULL;
    (void)open_one(&desk);
    assert_true(support_wait_until(has_thread, "troupe-desk", SUPPORT_SOON_MS));
    trp_desk_release(&desk);
}

static void await_none(void)
{
    assert_true(support_wait_until(has_no_thread, "troupe-desk", SUPPORT_SOON_MS));
}

// Its thread is waited for before the next one may go as well.
static void test_one_goes_while_another_is_wanted(void **state)
{
    (void)state;
    trp_at_stop_run();
    open_and_release();
    trp_fault_call_at("desk is wanted", 1, await_none);
    open_and_release();
    await_none();
}

static atomic_bool has_left;

static void leave_slowly(void)
{
    sem_post(&there);
    (void)usleep(100000);
    atomic_store(&has_left, true);
}

static void test_a_stop_waits_for_one_that_goes_by_itself(void **state)
{
    (void)state;
    trp_desk *desk = NULL;
    trp_fault_call_at("desk leaves", 1, leave_slowly);
    (void)open_one(&desk);
    trp_desk_release(&desk);
    wait_for(&there); // A second later.
    trp_at_stop_run();
    assert_true(atomic_load(&has_left));
}
#endif

static int end(void **state)
{
    (void)state;
    assert_true(submit_and_leave() > 0);
    (void)troupe_stop();
    assert_true(has_no_thread("troupe-link") && has_no_thread("troupe-desk"));
    run_tool("server stop --jobs");
    support_directory_remove(top);
    return 0;
}

int main(int argc, char **argv)
{
    top = real_server_folder("TEST_DESK_TOP");
    storage = support_path(top, "runs");
    troupe_must(troupe_start(argc, argv, .cpus = 1)); // Does not return in a job.
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_connection_serves_jobs_in_turn),
        cmocka_unit_test(test_it_goes_when_nobody_wants_it),
        cmocka_unit_test(test_another_server_has_another_connection),
        cmocka_unit_test(test_few_changes_are_read_at_once),
#ifdef TROUPE_FAULTS
        cmocka_unit_test(test_nobody_waits_for_another_that_opens_one),
        cmocka_unit_test(test_a_child_has_a_connection_of_its_own),
        cmocka_unit_test(test_one_goes_while_another_is_wanted),
        cmocka_unit_test(test_a_stop_waits_for_one_that_goes_by_itself),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, end);
}
