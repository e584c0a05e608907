// park.c: see park.h.
#include <runtime/park.h>

#include <linux/futex.h>
#include <runtime/clock.h>
#include <runtime/reader.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    SPIN_NS = 25000, // About what a wake-up across CPUs costs.
    SPIN_TRIES = 32,
};

// Spinning pays where answers come within a wake-up's time and the CPU has nothing better to do.
// Whether that is so is learnt: each success counts up, each failure down, and below 0 it is only
// tried now and then. Races between threads cost accuracy alone.
static struct {
    _Atomic bool allowed; // This process may run on more than one CPU.
    _Atomic int trust, skipped;
} spin;

static bool spin_pays(void)
{
    if (!atomic_load_explicit(&spin.allowed, memory_order_relaxed))
        return false;
    return atomic_load_explicit(&spin.trust, memory_order_relaxed) >= 0 ||
           atomic_fetch_add_explicit(&spin.skipped, 1, memory_order_relaxed) % SPIN_TRIES == 0;
}

static void learn(int change)
{
    int trust = atomic_load_explicit(&spin.trust, memory_order_relaxed) + change;
    if (trust >= -SPIN_TRIES && trust <= SPIN_TRIES)
        atomic_store_explicit(&spin.trust, trust, memory_order_relaxed);
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// `reading`: there may also be something to read.
static bool spin_on(_Atomic uint32_t *word, uint32_t seen, bool reading)
{
    if (!spin_pays())
        return false;
    int64_t give_up = trp_clock_ns() + SPIN_NS;
    do {
        for (int i = 0; i < 32; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != seen ||
                (reading && trp_reader_pending())) {
                learn(+1);
                return true;
            }
            relax();
        }
    } while (trp_clock_ns() < give_up);
    learn(-1);
    return false;
}

void trp_spin(_Atomic uint32_t *word, uint32_t seen)
{
    if (!trp_reader_free())
        (void)spin_on(word, seen, false);
}

void trp_park_start(void)
{
    cpu_set_t cpus;
    spin.allowed = sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) > 1;
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
        if (!spin_on(word, seen, true))
            trp_reader_sleep(word, seen, deadline_ns);
    }
    trp_reader_waits_for(NULL);
    own = NULL;
}

void trp_park(_Atomic uint32_t *word, uint32_t seen, int64_t deadline_ns)
{
    if (!trp_reader_enter()) {
        wait_private(word, seen, deadline_ns);
        return;
    }
    read_until(word, seen, deadline_ns);
    trp_reader_leave();
}

void trp_unpark(_Atomic uint32_t *word, int count)
{
    if (own == word || trp_reader_wake(word)) // Else a system call for a thread that is awake.
        count--;
    if (count > 0)
        (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

void trp_poll(void)
{
    if (!trp_reader_awaited() || !trp_reader_enter())
        return;
    trp_reader_drain(NULL, 0);
    trp_reader_leave();
}
