// parallel_copy.c: see shm/parallel_copy.h.
//
// What is larger than the caches is written past them: an ordinary store first reads the line that
// it is about to write, which halves the rate.
//
// One thread's copies do not fill the memory's bandwidth either. A helper, made when the first
// large copy is asked for, takes parts of it from a counter, as its owner does: so each that has a
// CPU copies, and if the helper gets none the owner does everything and waits for a part at most.
// There is one helper, and one copy that is helped at a time: a thread that finds it taken copies
// by itself, since the CPUs are in use then.
//
//     gate:  open (top bit) | helpers inside
//
// A helper enters where the gate is open; the owner closes it once no part is left, and waits until
// the helper has left.
#include <runtime/shm/parallel_copy.h>

#include <pthread.h>
#include <runtime/base/error.h>
#include <runtime/base/futex.h>
#include <runtime/base/thread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum {
    LARGE = 8 << 20, // Below it caches help, and a wake-up costs what it brings; measured.
    PART = 256 << 10,
};
#define OPEN (1u << 31)

typedef enum helper_state { UNTRIED, RUNNING, MISSING } helper_state;

static struct {
    _Atomic bool taken; // By an owner.
    char *to;
    const char *from;
    size_t size;
    _Atomic size_t next; // Where the next part begins.
    _Atomic uint32_t gate;
    _Atomic uint32_t turn; // Counts copies: what the helper sleeps on.
    _Atomic bool stopping;
    pthread_t helper;
    helper_state state; // Written by owners.
} crew;

#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__) // Which does not see such stores.
static void copy_past_caches(char *to, const char *from, size_t size)
{
    enum { STORE = 16, LINE = 64 };
    size_t head = (LINE - (uintptr_t)to % LINE) % LINE;
    head = head < size ? head : size;
    memcpy(to, from, head);
    size_t at = head;
    for (; at + LINE <= size; at += LINE) {
        __m128i words[LINE / STORE];
        for (int i = 0; i < LINE / STORE; i++)
            words[i] = _mm_loadu_si128((const __m128i *)(const void *)(from + at) + i);
        for (int i = 0; i < LINE / STORE; i++)
            _mm_stream_si128((__m128i *)(void *)(to + at) + i, words[i]);
    }
    memcpy(to + at, from + at, size - at);
    _mm_sfence(); // These stores are in no order with what says that the copy is there.
}
#else
static void copy_past_caches(char *to, const char *from, size_t size)
{
    memcpy(to, from, size);
}
#endif

static void copy_parts(void)
{
    size_t size = crew.size;
    for (;;) {
        size_t at = atomic_fetch_add_explicit(&crew.next, PART, memory_order_relaxed);
        if (at >= size)
            return;
        copy_past_caches(crew.to + at, crew.from + at, size - at < PART ? size - at : PART);
    }
}

static bool enter(void)
{
    uint32_t gate = atomic_load_explicit(&crew.gate, memory_order_relaxed);
    // Acquire: pairs with the store that opened it, after the copy was described.
    while ((gate & OPEN) != 0)
        if (atomic_compare_exchange_weak_explicit(&crew.gate, &gate, gate + 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return true;
    return false;
}

static void *help(void *unused)
{
    (void)unused;
    uint32_t seen = 0; // A copy from before this thread began is over, and its gate closed.
    while (!atomic_load(&crew.stopping)) {
        uint32_t turn = atomic_load(&crew.turn);
        if (turn == seen) {
            trp_nap(&crew.turn, seen, -1);
            continue;
        }
        seen = turn;
        if (!enter())
            continue;
        copy_parts();
        // Pairs with the owner's close: when it sees nobody inside, it sees what was copied.
        if (atomic_fetch_sub(&crew.gate, 1) == 1)
            trp_rouse(&crew.gate, 1);
    }
    return NULL;
}

static bool has_second_cpu(void)
{
    cpu_set_t cpus;
    return sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) > 1;
}

// As the owner. Without a helper a copy is what it was before: that is no failure of the caller's.
static bool has_helper(void)
{
    if (crew.state == UNTRIED) {
        troupe_error before = *troupe_last_error();
        bool started = trp_thread_start(&crew.helper, "troupe-copy", help, NULL) == TROUPE_OK;
        crew.state = started ? RUNNING : MISSING;
        if (!started)
            (void)trp_error_set(&before);
    }
    return crew.state == RUNNING;
}

// Waits until the helper is out: for the rest of a part at most, unless it has lost its CPU.
static void close_gate(void)
{
    enum { SPINS = 2000 };
    uint32_t gate = atomic_fetch_and(&crew.gate, ~OPEN) & ~OPEN;
    for (int i = 0; gate != 0; i++) {
        if (i >= SPINS)
            trp_nap(&crew.gate, gate, -1);
        else
            trp_relax();
        gate = atomic_load(&crew.gate);
    }
}

void trp_copy(void *to, const void *from, size_t size)
{
    if (size < LARGE) {
        memcpy(to, from, size);
        return;
    }
    if (!has_second_cpu() || atomic_exchange(&crew.taken, true)) {
        copy_past_caches(to, from, size);
        return;
    }
    if (has_helper()) {
        crew.to = to;
        crew.from = from;
        crew.size = size;
        atomic_store_explicit(&crew.next, 0, memory_order_relaxed);
        atomic_store_explicit(&crew.gate, OPEN, memory_order_release);
        (void)atomic_fetch_add(&crew.turn, 1);
        trp_rouse(&crew.turn, 1);
        copy_parts();
        close_gate();
    } else {
        copy_past_caches(to, from, size);
    }
    atomic_store(&crew.taken, false);
}

void trp_copy_stop(void)
{
    if (crew.state == RUNNING) {
        atomic_store(&crew.stopping, true);
        (void)atomic_fetch_add(&crew.turn, 1);
        trp_rouse(&crew.turn, 1);
        (void)pthread_join(crew.helper, NULL);
        atomic_store(&crew.stopping, false);
    }
    crew.state = UNTRIED;
}
