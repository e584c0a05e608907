// counter.c: see counter.h.
#include <actors/sched/scheduler.h>
#include <actors/sched/wait_notes.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/futex.h>
#include <sched.h>
#include <train/counter.h>

enum {
    SPIN_NS = 50000, // More than a wake-up of a sleeping process costs, and less than a time slice.
    SLICE_MS = 1000, // A sleeper looks around this often, should a wake-up ever be lost.
};

void trp_counter_init(trp_counter *counter, uint32_t count)
{
    atomic_init(&counter->word, 2 * count);
}

void trp_counter_raise(trp_counter *counter)
{
    atomic_fetch_add(&counter->word, 2);
    if (atomic_load(&counter->sleepers))
        trp_wake(&counter->word);
}

void trp_counter_close(trp_counter *counter)
{
    atomic_fetch_or(&counter->word, 1);
    trp_wake(&counter->word);
}

bool trp_counter_is_closed(const trp_counter *counter)
{
    return atomic_load(&counter->word) & 1;
}

int64_t trp_counter_spin_ns(int processes)
{
    cpu_set_t cpus;
    // Without a CPU for each, looking keeps away the one that is looked for.
    if (sched_getaffinity(0, sizeof(cpus), &cpus) || CPU_COUNT(&cpus) < processes)
        return 0;
    return SPIN_NS;
}

static bool reached(uint32_t word, uint32_t target)
{
    return (int32_t)((word & ~1u) - 2 * target) >= 0; // Right also after the count has wrapped.
}

bool trp_counter_reached(const trp_counter *counter, uint32_t target)
{
    return reached(atomic_load_explicit(&counter->word, memory_order_acquire), target);
}

bool trp_counter_glance(const trp_counter *counter, uint32_t target)
{
    for (int i = 0; i < 32; i++) {
        uint32_t seen = atomic_load_explicit(&counter->word, memory_order_acquire);
        if (reached(seen, target) || seen & 1)
            return reached(seen, target);
        trp_relax();
    }
    return false;
}

// Looks at the word for a while before anyone sleeps.
static bool spin(const trp_counter *counter, uint32_t target, int64_t spin_ns)
{
    if (trp_counter_glance(counter, target))
        return true;
    int64_t until = spin_ns ? trp_clock_ns() + spin_ns : 0;
    while (until && !trp_counter_is_closed(counter) && trp_clock_ns() < until)
        if (trp_counter_glance(counter, target))
            return true;
    return false;
}

// Gives this thread's turn to others, where it runs methods.
static bool block(void)
{
    troupe_error said;
    trp_error_hold(&said);
    trp_wait_for(TRP_WAIT_OTHER, 0, 0);
    bool blocked = trp_scheduler_block() == TROUPE_OK;
    trp_error_restore(&said);
    return blocked;
}

bool trp_counter_await(trp_counter *counter, uint32_t target, int64_t spin_ns, int64_t until_ms)
{
    if (spin(counter, target, spin_ns))
        return true;
    bool done = false;
    // Where ranks share a process, others run meanwhile. With too many that wait it sleeps as it
    // is.
    bool blocked = block();
    atomic_fetch_add(&counter->sleepers, 1);
    for (;;) {
        uint32_t seen = atomic_load(&counter->word);
        done = reached(seen, target);
        int64_t left_ms = until_ms - trp_clock_ms();
        if (done || seen & 1 || left_ms <= 0)
            break;
        int64_t slice = left_ms < SLICE_MS ? left_ms : SLICE_MS;
        trp_wait(&counter->word, seen, slice * 1000000);
    }
    atomic_fetch_sub(&counter->sleepers, 1);
    if (blocked)
        trp_scheduler_unblock();
    return done;
}
