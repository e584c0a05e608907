// park.c: see park.h.
#include <runtime/link/park.h>

#include <linux/futex.h>
#include <runtime/base/clock.h>
#include <runtime/link/ring_poller.h>
#include <runtime/link/zmq_carrier.h>
#include <runtime/shm/process_table.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    SPIN_NS = 25000, // About what a wake-up across CPUs costs.
    EVERY_MAX = 32,  // Kept short: two that wait for each other must spin at once for it to pay.
    YIELDS = 8,      // In a row, before a thread sleeps.
    YIELD_USUAL_MAX = 256,
    YIELD_EVERY_MAX = 8192, // Where somebody else takes the CPU for long:
    LATE_NS = 2000000,      // longer than those who send to each other do.
};

// Spinning pays where answers come within a wake-up's time and the CPU has nothing better to do;
// yielding where who answers, or sends more, has the same CPU. Whether that is so is learnt: each
// failure halves how often it is tried, each success makes it four times as often. Races between
// threads cost accuracy alone.
static trp_habit spins = {.every = 1}, yields = {.every = 1};
static _Atomic bool yields_late;
static _Atomic bool spin_allowed; // This process may run on more than one CPU.

static bool spin_pays(trp_habit *habit)
{
    int every = atomic_load_explicit(&habit->every, memory_order_relaxed);
    return atomic_load_explicit(&spin_allowed, memory_order_relaxed) &&
           (every == 1 ||
            atomic_fetch_add_explicit(&habit->waits, 1, memory_order_relaxed) % every == 0);
}

static void learn(trp_habit *of, bool success, int every_max)
{
    int every = atomic_load_explicit(&of->every, memory_order_relaxed);
    int next = success ? every / 4 : every * 2;
    next = next < 1 ? 1 : next > every_max ? every_max : next;
    if (next != every)
        atomic_store_explicit(&of->every, next, memory_order_relaxed);
}

// `reading`: there may also be something to read.
static bool spin_on(trp_habit *habit, _Atomic uint32_t *word, uint32_t seen, bool reading)
{
    if (!spin_pays(habit))
        return false;
    int64_t give_up = 0; // What comes within the first looks is not worth one at the clock.
    bool came = false, in_time = true;
    while (!came && in_time) {
        for (int i = 0; i < 32; i++) {
            came = atomic_load_explicit(word, memory_order_acquire) != seen ||
                   (reading && trp_reader_pending());
            if (came)
                break;
            trp_relax();
        }
        if (give_up != 0) // What came late did because who was to answer needed this CPU.
            in_time = trp_clock_ns() < give_up;
        else if (!came)
            give_up = trp_clock_ns() + SPIN_NS;
    }
    learn(habit, came && in_time, EVERY_MAX);
    return came;
}

// As the reader: gives the CPU to whoever else wants it, which may be who is to answer. Two that
// share a CPU and hand it to each other so need no sleep and no wake-up; and who sends much to one
// that shares its CPU is not interrupted for each message, as by one that sleeps and is woken.
static bool yield_on(_Atomic uint32_t *word, uint32_t seen)
{
    int every = atomic_load_explicit(&yields.every, memory_order_relaxed);
    if (every > 1 && atomic_fetch_add_explicit(&yields.waits, 1, memory_order_relaxed) % every != 0)
        return false;
    int64_t begin = trp_clock_ns();
    bool came = false;
    for (int i = 0; i < YIELDS && !came; i++) {
        (void)sched_yield();
        came = atomic_load_explicit(word, memory_order_acquire) != seen || trp_reader_pending();
    }
    bool late = trp_clock_ns() - begin > LATE_NS;
    // Somebody with much to compute has the CPU if that is so twice: who sleeps gets it back
    // sooner.
    if (late && atomic_exchange_explicit(&yields_late, true, memory_order_relaxed))
        atomic_store_explicit(&yields.every, YIELD_EVERY_MAX, memory_order_relaxed);
    else if (!late) {
        atomic_store_explicit(&yields_late, false, memory_order_relaxed);
        learn(&yields, came, every > YIELD_USUAL_MAX ? every : YIELD_USUAL_MAX);
    }
    return came;
}

void trp_spin(_Atomic uint32_t *word, uint32_t seen)
{
    if (trp_over_rings() ? !trp_reader_free() : !trp_sockets_unread())
        (void)spin_on(&spins, word, seen, false);
}

bool trp_spin_on(trp_habit *habit, _Atomic uint32_t *word, uint32_t seen)
{
    return spin_on(habit, word, seen, false);
}

void trp_park_start(void)
{
    cpu_set_t cpus;
    spin_allowed = sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) > 1;
}

void trp_park_crowded(void)
{
    enum { FIRST_WAITS = 16 };
    spins.every = yields.every = FIRST_WAITS;
    spins.waits = yields.waits = 1; // Not the very first either.
}

static void wait_private(_Atomic uint32_t *word, uint32_t seen, int64_t deadline_ns)
{
    struct timespec until = {deadline_ns / 1000000000, deadline_ns % 1000000000};
    (void)syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, seen, deadline_ns < 0 ? NULL : &until,
                  NULL, FUTEX_BITSET_MATCH_ANY);
}

// The word that this thread is parked on as the reader.
static _Thread_local _Atomic uint32_t *own;

// As the reader.
static void read_until(_Atomic uint32_t *word, uint32_t seen, int64_t deadline_ns)
{
    own = word;
    trp_reader_waits_for(word);
    for (;;) {
        trp_reader_drain(word, seen);
        if (atomic_load(word) != seen || trp_reader_closing() ||
            (deadline_ns >= 0 && trp_clock_ns() >= deadline_ns))
            break;
        if (!spin_on(&spins, word, seen, true) && !yield_on(word, seen))
            trp_reader_sleep(word, seen, deadline_ns);
    }
    trp_reader_waits_for(NULL);
    own = NULL;
}

void trp_park(_Atomic uint32_t *word, uint32_t seen, int64_t deadline_ns)
{
    if (!trp_reader_enter()) {
        own = word;
        bool read = !trp_over_rings() && trp_sockets_park(word, seen, deadline_ns);
        own = NULL;
        if (!read)
            wait_private(word, seen, deadline_ns);
        return;
    }
    read_until(word, seen, deadline_ns);
    trp_reader_leave();
}

void trp_nap(_Atomic uint32_t *word, uint32_t seen, int64_t deadline_ns)
{
    wait_private(word, seen, deadline_ns);
}

void trp_unpark(_Atomic uint32_t *word, int count)
{
    if (own == word || trp_reader_wake(word) ||
        trp_sockets_wake(word)) // Else a system call for a thread that is awake.
        count--;
    if (count > 0)
        (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}
