// test_thread.c: the library's own threads: their names, the signals that they leave to the user's
// threads, many that begin at once, one that cannot be had, and conditions.
#include <support.h>

#include <pthread.h>
#include <runtime/base/clock.h>
#include <runtime/base/thread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <troupe/status.h>
#include <unistd.h>

enum { THREADS = 40, STARTERS = 4 };

typedef struct seen {
    char name[16];
    sigset_t blocked;
    int runs;
} seen;

static void *look(void *user)
{
    seen *mine = user;
    (void)prctl(PR_GET_NAME, mine->name);
    (void)pthread_sigmask(SIG_SETMASK, NULL, &mine->blocked);
    mine->runs++;
    return mine;
}

static void test_names_and_signals(void **state)
{
    (void)state;
    pthread_t thread;
    seen here = {0}, there = {0};
    (void)look(&here);
    assert_int_equal(trp_thread_start(&thread, "troupe-name-15c", look, &there), TROUPE_OK);
    void *result;
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, &there);
    assert_string_equal(there.name, "troupe-name-15c");
    assert_true(sigismember(&there.blocked, SIGTERM) && sigismember(&there.blocked, SIGUSR1));
    assert_false(sigismember(&there.blocked, SIGSEGV) || sigismember(&there.blocked, SIGABRT));
    seen after = {0};
    (void)look(&after);
    assert_memory_equal(&after.blocked, &here.blocked, sizeof after.blocked);
}

// Its slice is short where the kernel has that (Linux 6.12), and nothing else of it changes.
static void *be_prompt(void *user)
{
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } before = {0}, after = {0};
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 7);
    bool got = syscall(SYS_sched_getattr, 0, &before, sizeof before, 0) == 0;
    trp_thread_be_prompt(true);
    trp_thread_be_prompt(true);
    got = got && syscall(SYS_sched_getattr, 0, &after, sizeof after, 0) == 0;
    *(bool *)user = got && after.nice == 7 && after.policy == before.policy &&
                    (before.runtime == 0 || after.runtime == 100000);
    return NULL;
}

static void test_a_prompt_thread_keeps_its_priority(void **state)
{
    (void)state;
    pthread_t thread;
    bool good = false;
    assert_int_equal(trp_thread_start(&thread, "troupe-prompt", be_prompt, &good), TROUPE_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(good);
}

static void *start_many(void *name)
{
    pthread_t threads[THREADS];
    seen all[THREADS];
    memset(all, 0, sizeof all);
    for (int i = 0; i < THREADS; i++)
        if (trp_thread_start(&threads[i], name, look, &all[i]) != TROUPE_OK)
            return (void *)1;
    for (int i = 0; i < THREADS; i++)
        if (pthread_join(threads[i], NULL) != 0 || all[i].runs != 1)
            return (void *)2;
    return NULL;
}

// More than there are places for what they are told. (Those without one get their names from
// whoever starts them, perhaps after they have looked.)
static void test_many_at_once(void **state)
{
    (void)state;
    static char names[STARTERS][16] = {"troupe-a", "troupe-b", "troupe-c", "troupe-d"};
    pthread_t starters[STARTERS];
    for (int i = 0; i < STARTERS; i++)
        assert_int_equal(pthread_create(&starters[i], NULL, start_many, names[i]), 0);
    for (int i = 0; i < STARTERS; i++) {
        void *wrong;
        pthread_join(starters[i], &wrong);
        assert_null(wrong);
    }
}

static void test_none_to_be_had(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); // They make threads in their own way.
#else
    pthread_attr_t before, vast;
    pthread_t thread;
    seen there = {0};
    assert_int_equal(pthread_getattr_default_np(&before), 0);
    assert_int_equal(pthread_attr_init(&vast), 0);
    assert_int_equal(pthread_attr_setstacksize(&vast, (size_t)1 << 50), 0);
    assert_int_equal(pthread_setattr_default_np(&vast), 0);
    for (int i = 0; i < THREADS; i++) { // What each was to be told is given up again.
        assert_int_equal(trp_thread_start(&thread, "troupe-none", look, &there), TROUPE_NO_MEMORY);
        assert_non_null(strstr(troupe_last_error()->text, "the thread troupe-none "));
    }
    assert_int_equal(pthread_setattr_default_np(&before), 0);
    assert_int_equal(there.runs, 0);
    assert_int_equal(trp_thread_start(&thread, "troupe-one", look, &there), TROUPE_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(there.name, "troupe-one");
    (void)pthread_attr_destroy(&vast);
    (void)pthread_attr_destroy(&before);
#endif
}

// By the time of day a time of the monotonic clock would have passed long ago.
static void test_timed_waits_are_of_the_monotonic_clock(void **state)
{
    (void)state;
    enum { WAIT_NS = 20000000 };
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition;
    trp_cond_open(&condition);
    int64_t until_ns = trp_clock_ns() + WAIT_NS;
    const struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
    pthread_mutex_lock(&lock);
    while (pthread_cond_timedwait(&condition, &lock, &until) == 0)
        continue;
    pthread_mutex_unlock(&lock);
    assert_true(trp_clock_ns() >= until_ns);
    pthread_cond_destroy(&condition);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_signals),
        cmocka_unit_test(test_a_prompt_thread_keeps_its_priority),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_none_to_be_had),
        cmocka_unit_test(test_timed_waits_are_of_the_monotonic_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
