// park.c: see park.h.
#include <runtime/park.h>

#include <linux/futex.h>
#include <runtime/clock.h>
#include <runtime/identity.h>
#include <runtime/reader.h>
#include <runtime/sockets.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    SPIN_NS = 25000, // About what a wake-up across CPUs costs.
    EVERY_MAX = 256,
};

// Spinning pays where answers come within a wake-up's time and the CPU has nothing better to do.
// Whether that is so is learnt: each failure halves how often it is tried, each success makes it
// four times as often. Races between threads cost accuracy alone.
static struct {
    _Atomic bool allowed; // This process may run on more than one CPU.
    _Atomic int every, waits;
} spin = {.every = 1};

static bool spin_pays(void)
{
    int every = atomic_load_explicit(&spin.every, memory_order_relaxed);
    return atomic_load_explicit(&spin.allowed, memory_order_relaxed) &&
           (every == 1 ||
            atomic_fetch_add_explicit(&spin.waits, 1, memory_order_relaxed) % every == 0);
}

static void learn(bool success)
{
    int every = atomic_load_explicit(&spin.every, memory_order_relaxed);
    int next = success ? every / 4 : every * 2;
    next = next < 1 ? 1 : next > EVERY_MAX ? EVERY_MAX : next;
    if (next != every)
        atomic_store_explicit(&spin.every, next, memory_order_relaxed);
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
    bool came = false;
    do
        for (int i = 0; i < 32 && !came; i++) {
            came = atomic_load_explicit(word, memory_order_acquire) != seen ||
                   (reading && trp_reader_pending());
            relax();
        }
    while (!came && trp_clock_ns() < give_up);
    // What came late came because this thread did not run: who was to answer needed its CPU.
    learn(came && trp_clock_ns() < give_up);
    return came;
}

void trp_spin(_Atomic uint32_t *word, uint32_t seen)
{
    if (trp_over_rings() ? !trp_reader_free() : !trp_sockets_unread())
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

void trp_unpark(_Atomic uint32_t *word, int count)
{
    if (own == word || trp_reader_wake(word) ||
        trp_sockets_wake(word)) // Else a system call for a thread that is awake.
        count--;
    if (count > 0)
        (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}
