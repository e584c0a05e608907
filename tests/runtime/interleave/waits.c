// waits.c: how threads under the explorer wait: futexes, locks, and time, which passes only where
// no thread can go on otherwise (see explore.h).
#include <interleave/inner.h>

#include <interleave/memory.h>

#include <errno.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

enum { LOCKS = 16, PASSES_MAX = 100, SLICE_NS = 100000000 };

#define BEGINNING_NS INT64_C(1000000000)

void (*explore_bury)(uint32_t process);

// ---- waking

static void make_ready(explore_inner_thread *it)
{
    it->life = EXPLORE_READY;
    it->awaits = NULL;
}

static void block_on(const volatile void *word, bool timed, bool changes)
{
    explore_inner_thread *self = &threads[run.current];
    self->awaits = word;
    self->timed = timed;
    self->timed_out = false;
    self->changes = changes;
    explore_block();
}

void explore_wake_awaiting(const volatile void *word)
{
    for (int i = 0; i < thread_count; i++)
        if (threads[i].life == EXPLORE_BLOCKED && threads[i].changes && threads[i].awaits == word)
            make_ready(&threads[i]);
}

void explore_tell_death(void)
{
    for (int i = 0; i < thread_count; i++)
        if (threads[i].life == EXPLORE_BLOCKED && threads[i].changes)
            make_ready(&threads[i]);
    make_ready(&threads[EXPLORE_NODE]);
}

bool explore_await(const volatile uint64_t *word, uint32_t from)
{
    for (;;) {
        explore_drain();
        explore_reach(word, sizeof *word, "the awaited word");
        if (*word != 0)
            return true;
        if (run.deaths > 0 && run.died == from)
            return false;
        block_on(word, false, true);
    }
}

bool explore_died(uint32_t process)
{
    return run.died == process;
}

bool explore_any_died(void)
{
    return run.deaths > 0;
}

// ---- time

static bool is_waiting(const explore_inner_thread *it)
{
    return it->life == EXPLORE_BLOCKED && !it->daemon;
}

bool explore_pass_time(void)
{
    bool any = false;
    for (int i = 0; i < thread_count; i++)
        any |= is_waiting(&threads[i]) && threads[i].timed;
    if (!any)
        return false;
    if (run.deaths == 0)
        explore_fail("only time ends a wait: a wake-up was lost");
    if (++run.passes > PASSES_MAX)
        explore_fail("what is waited for does not come");
    run.passed_ns += SLICE_NS;
    for (int i = 0; i < thread_count; i++)
        if (threads[i].life == EXPLORE_BLOCKED && threads[i].timed) {
            threads[i].timed_out = true;
            make_ready(&threads[i]);
        }
    return true;
}

int64_t explore_now_ns(void)
{
    return BEGINNING_NS + run.passed_ns;
}

int explore_clock(struct timespec *now)
{
    *now = (struct timespec){explore_now_ns() / 1000000000, explore_now_ns() % 1000000000};
    return 0;
}

void explore_expect_all_ended(void)
{
    for (int i = 0; i < thread_count; i++)
        if (is_waiting(&threads[i]))
            explore_fail("thread %c waits for ever", explore_letter(i));
}

// ---- futexes

static bool wait_on(const volatile void *word, uint32_t seen, bool timed)
{
    explore_drain();
    explore_reach(word, sizeof seen, "the futex");
    if (!run.exploring)
        explore_fail("the check waits");
    if (*(const volatile uint32_t *)word != seen)
        return true;
    block_on(word, timed, false);
    return !threads[run.current].timed_out;
}

void explore_wait(const volatile void *word, uint32_t seen, bool timed)
{
    (void)wait_on(word, seen, timed);
}

void explore_wake(const volatile void *word, int count)
{
    if (!run.exploring)
        return;
    explore_drain();
    // What it is ordered with are the waits on the word.
    (void)memory_note(run.current, word, sizeof(uint32_t), true);
    explore_reach(word, sizeof(uint32_t), "the wake-up");
    for (int i = 0; i < thread_count && count > 0; i++)
        if (threads[i].life == EXPLORE_BLOCKED && !threads[i].changes &&
            threads[i].awaits == word) {
            make_ready(&threads[i]);
            count--;
        }
}

long explore_syscall(long number, ...)
{
    va_list arguments;
    va_start(arguments, number);
    const volatile void *word = va_arg(arguments, const volatile void *);
    int what = va_arg(arguments, int);
    uint32_t value = va_arg(arguments, uint32_t);
    const struct timespec *limit = NULL;
    if (number == SYS_futex && what != FUTEX_WAKE)
        limit = va_arg(arguments, const struct timespec *);
    va_end(arguments);
    if (number != SYS_futex)
        explore_fail("an unexpected call of the system: %ld", number);
    if (what == FUTEX_WAKE) {
        explore_wake(word, (int)value);
        return 0;
    }
    bool woken = wait_on(word, value, limit != NULL);
    errno = ETIMEDOUT;
    return woken ? 0 : -1;
}

// ---- locks: within a process

static struct lock {
    const void *mutex;
    uint32_t process;
    int holder; // -1: none.
} locks[LOCKS];
static int lock_count;

void explore_begin_waits(void)
{
    lock_count = 0;
}

static struct lock *lock_of(const void *mutex)
{
    uint32_t process = threads[run.current].process;
    for (int i = 0; i < lock_count; i++)
        if (locks[i].mutex == mutex && locks[i].process == process)
            return &locks[i];
    if (lock_count == LOCKS)
        explore_fail("more than %d locks", LOCKS);
    locks[lock_count] = (struct lock){mutex, process, -1};
    return &locks[lock_count++];
}

// Whether the current thread's process has others.
static bool is_shared_process(void)
{
    for (int i = 0; i < thread_count; i++)
        if (i != run.current && threads[i].process == threads[run.current].process)
            return true;
    return false;
}

int explore_try_lock(void *mutex)
{
    if (!run.exploring)
        return 0;
    explore_drain();
    if (is_shared_process())
        explore_point();
    struct lock *lock = lock_of(mutex);
    if (lock->holder >= 0)
        return EBUSY;
    lock->holder = run.current;
    return 0;
}

int explore_lock(void *mutex)
{
    while (explore_try_lock(mutex) != 0)
        block_on(mutex, false, false);
    return 0;
}

int explore_unlock(void *mutex)
{
    if (!run.exploring)
        return 0;
    explore_drain();
    lock_of(mutex)->holder = -1;
    for (int i = 0; i < thread_count; i++)
        if (threads[i].life == EXPLORE_BLOCKED && threads[i].awaits == mutex &&
            threads[i].process == threads[run.current].process)
            make_ready(&threads[i]);
    return 0;
}

// ---- the node process

void explore_begin_node(void)
{
    threads[EXPLORE_NODE].life = EXPLORE_BLOCKED;
    threads[EXPLORE_NODE].awaits = &run.deaths;
    threads[EXPLORE_NODE].timed = threads[EXPLORE_NODE].changes = false;
}

void explore_run_node(void)
{
    explore_bury(run.died);
}
