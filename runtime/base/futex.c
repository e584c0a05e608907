// futex.c: see futex.h.
#include <runtime/base/futex.h>

#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Atomic bool spin_allowed; // This process may run on more than one CPU.

void trp_wake(_Atomic uint32_t *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void trp_wait(_Atomic uint32_t *word, uint32_t seen, int64_t timeout_ns)
{
    struct timespec wait = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    (void)syscall(SYS_futex, word, FUTEX_WAIT, seen, &wait, NULL, 0);
}

void trp_nap(_Atomic uint32_t *word, uint32_t seen, int64_t deadline_ns)
{
    struct timespec until = {deadline_ns / 1000000000, deadline_ns % 1000000000};
    (void)syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, seen, deadline_ns < 0 ? NULL : &until,
                  NULL, FUTEX_BITSET_MATCH_ANY);
}

void trp_rouse(_Atomic uint32_t *word, int count)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

void trp_spin_start(void)
{
    cpu_set_t cpus;
    spin_allowed = sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) > 1;
}

bool trp_spin_pays(trp_habit *habit)
{
    int every = atomic_load_explicit(&habit->every, memory_order_relaxed);
    return atomic_load_explicit(&spin_allowed, memory_order_relaxed) &&
           (every == 1 ||
            atomic_fetch_add_explicit(&habit->waits, 1, memory_order_relaxed) % every == 0);
}

void trp_habit_learn(trp_habit *habit, bool success, int every_max)
{
    int every = atomic_load_explicit(&habit->every, memory_order_relaxed);
    int next = success ? every / 4 : every * 2;
    next = next < 1 ? 1 : next > every_max ? every_max : next;
    if (next != every)
        atomic_store_explicit(&habit->every, next, memory_order_relaxed);
}

bool trp_spin_on(trp_habit *habit, _Atomic uint32_t *word, uint32_t seen)
{
    return trp_spin_until(habit, word, seen, NULL);
}
