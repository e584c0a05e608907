// futex.h: sleeping until a word changes, and reading it for a moment before.
//
// What waits inside its own process for something that other processes may send waits in
// link/park.h instead, where it reads meanwhile.
#ifndef TRP_BASE_FUTEX_H
#define TRP_BASE_FUTEX_H

#include <runtime/base/clock.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A moment's rest inside a loop that reads a word again and again.
static inline void trp_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// ---- sleeping

// In all processes: wakes every thread that waits for the word to change; waits while it is `seen`,
// at most so long.
void trp_wake(_Atomic uint32_t *word);
void trp_wait(_Atomic uint32_t *word, uint32_t seen, int64_t timeout_ns);
// In this process: sleeps while the word is `seen`, until the monotonic time `deadline_ns`
// (negative: none). May return early.
void trp_nap(_Atomic uint32_t *word, uint32_t seen, int64_t deadline_ns);
// Wakes up to `count` of those. Only the address is used: the word's owner may be gone.
void trp_rouse(_Atomic uint32_t *word, int count);

// ---- spinning
//
// It pays where answers come within a wake-up's time and the CPU has nothing better to do. Whether
// that is so is learnt: each failure halves how often it is tried, each success makes it four times
// as often. Races between threads cost accuracy alone.

// How often looking has paid in one kind of wait; .every is 1 at first.
typedef struct trp_habit {
    _Atomic int every, waits;
} trp_habit;

enum {
    TRP_SPIN_NS = 25000,     // About what a wake-up across CPUs costs.
    TRP_SPIN_EVERY_MAX = 32, // Kept short: two that wait for each other must spin at once.
};

// Finds out whether spinning can pay in this process: it may run on more than one CPU. Once a
// start.
void trp_spin_start(void);
bool trp_spin_pays(trp_habit *habit);
void trp_habit_learn(trp_habit *habit, bool success, int every_max);

// Reads *word for as long as it is `seen` and nothing is pending (NULL: nothing else is looked at),
// at most about as long as a wake-up across CPUs would take. True: one of them has come. Inlined,
// so that no look is a call through a pointer.
__attribute__((always_inline)) static inline bool
trp_spin_until(trp_habit *habit, _Atomic uint32_t *word, uint32_t seen, bool (*pending)(void))
{
    if (!trp_spin_pays(habit))
        return false;
    int64_t give_up = 0; // What comes within the first looks is not worth one at the clock.
    bool came = false, in_time = true;
    while (!came && in_time) {
        for (int i = 0; i < 32; i++) {
            came = atomic_load_explicit(word, memory_order_acquire) != seen ||
                   (pending != NULL && pending());
            if (came)
                break;
            trp_relax();
        }
        if (give_up != 0) // What came late did because who was to answer needed this CPU.
            in_time = trp_clock_ns() < give_up;
        else if (!came)
            give_up = trp_clock_ns() + TRP_SPIN_NS;
    }
    trp_habit_learn(habit, came && in_time, TRP_SPIN_EVERY_MAX);
    return came;
}

// The same for a word alone. True: it has changed.
bool trp_spin_on(trp_habit *habit, _Atomic uint32_t *word, uint32_t seen);

#endif
