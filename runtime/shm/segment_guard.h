// segment_guard.h: which threads of this process use the segment's memory at this moment, so that
// troupe_stop takes it away from under none of them.
//
// A thread writes in a record of its own that it is inside, and then looks whether the segment is
// open; the thread that closes it writes that, and then waits until each record was seen empty. Of
// the two fences which that takes, the first is nearly free (fence.h).
#ifndef TRP_SHM_SEGMENT_GUARD_H
#define TRP_SHM_SEGMENT_GUARD_H

#include <runtime/base/attributes.h>
#include <runtime/base/fence.h>
#include <stddef.h>
#include <stdint.h>
#include <troupe/status.h>

// A thread's. Its memory is another's once the thread has ended, and never freed.
typedef struct trp_use {
    _Atomic uint32_t depth; // How often the thread is inside.
    bool taken;             // By a thread that lives.
    struct trp_use *next;
    char apart[112]; // Each in lines of its own.
} trp_use;

extern _Thread_local trp_use *trp_use_mine;
extern _Atomic bool trp_use_open; // There is a segment, and it stays.

bool trp_use_begin_slowly(void);
void trp_use_end_slowly(void);

// The frequent side of the two fences, as trp_fence_store.
TRP_HOT void trp_use_count(_Atomic uint32_t *depth, uint32_t value)
{
    if (trp_fence_asymmetric) {
        atomic_store_explicit(depth, value, memory_order_release);
        atomic_signal_fence(memory_order_seq_cst);
    } else {
        (void)atomic_exchange(depth, value);
    }
}

// False: the segment is being closed, or there is none. They nest: who is inside gets in. Not in
// signal handlers.
TRP_HOT bool trp_use_begin(void)
{
    trp_use *mine = trp_use_mine;
    if (__builtin_expect(mine == NULL, 0))
        return trp_use_begin_slowly();
    uint32_t depth = atomic_load_explicit(&mine->depth, memory_order_relaxed);
    trp_use_count(&mine->depth, depth + 1);
    if (__builtin_expect(depth > 0 || atomic_load_explicit(&trp_use_open, memory_order_acquire), 1))
        return true;
    atomic_store_explicit(&mine->depth, depth, memory_order_release);
    return false;
}

TRP_HOT void trp_use_end(void)
{
    trp_use *mine = trp_use_mine;
    uint32_t depth = mine != NULL ? atomic_load_explicit(&mine->depth, memory_order_relaxed) : 0;
    if (__builtin_expect(depth > 0, 1)) // Release: pairs with who waits for it.
        atomic_store_explicit(&mine->depth, depth - 1, memory_order_release);
    else
        trp_use_end_slowly();
}

TRP_HOT void trp_use_ended(const bool *begun)
{
    if (*begun)
        trp_use_end();
}

// The rest of the block uses the segment. Where it is closed the function returns `otherwise`
// (nothing, where it returns nothing).
#define TRP_USE_SEGMENT(otherwise)                                                                 \
    __attribute__((cleanup(trp_use_ended))) const bool trp_used_ = trp_use_begin();                \
    if (__builtin_expect(!trp_used_, 0))                                                           \
    return otherwise

// The same where what follows does without it if need be: `used` says whether it is open.
#define TRP_USE_SEGMENT_IF_OPEN(used)                                                              \
    __attribute__((cleanup(trp_use_ended), unused)) const bool used = trp_use_begin()

// "Troupe has been stopped in this process": TROUPE_NOT_STARTED.
troupe_status trp_use_refused(void);

// There is a segment; there will be none: from now on nobody gets in who is not inside.
void trp_use_allow(bool open);
// Waits until all other threads have been seen outside.
void trp_use_await(void);

#endif
