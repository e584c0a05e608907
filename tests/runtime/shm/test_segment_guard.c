// test_segment_guard.c: a process may end while threads of it begin to use the segment and the
// pools, whose keys are deleted then: without a crash, and without a race, which the thread
// sanitizer sees.
// timeout: 60
#include <support.h>

#include <pthread.h>
#include <runtime/base/cell_pool.h>
#include <runtime/shm/segment_guard.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ENDS = 3, THREADS_BEFORE = 50 };

static _Atomic int begun;

static void *use_once(void *unused)
{
    (void)unused;
    void *cell = trp_pool_take(TRP_POOL_SMALLEST);
    if (cell)
        trp_pool_give(cell, TRP_POOL_SMALLEST);
    if (trp_use_begin())
        trp_use_end();
    atomic_fetch_add(&begun, 1);
    return NULL;
}

static void *use_on_and_on(void *unused)
{
    pthread_t thread;
    pthread_attr_t detached;
    (void)pthread_attr_init(&detached);
    (void)pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    for (int made = 1;; made++) {
        if (pthread_create(&thread, &detached, use_once, NULL) != 0)
            _exit(3);
        while (atomic_load_explicit(&begun, memory_order_relaxed) < made)
            sched_yield();
    }
    return unused;
}

static void end_meanwhile(void)
{
    pthread_t thread;
    trp_use_allow(true);
    if (pthread_create(&thread, NULL, use_on_and_on, NULL) != 0)
        _exit(2);
    while (atomic_load_explicit(&begun, memory_order_relaxed) < THREADS_BEFORE)
        usleep(100);
    exit(0);
}

static void test_a_process_ends_while_threads_begin(void **state)
{
    (void)state;
    for (int i = 0; i < ENDS; i++) {
        int status;
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            end_meanwhile();
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_process_ends_while_threads_begin)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
