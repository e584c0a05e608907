// points.h: comes before everything else where the protocols of shared memory are compiled for the
// explorer (explore.h). What the threads there do with shared words, and how they wait, goes
// through the explorer, which runs one of them at a time: a plain access is atomic then.
#ifndef TROUPE_TEST_POINTS_H
#define TROUPE_TEST_POINTS_H

#include <errno.h>
#include <pthread.h>
#include <runtime/base/clock.h>
#include <runtime/base/fault.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/link/park.h>
#include <runtime/shm/layout.h>
#include <runtime/shm/process_table.h>
#include <runtime/shm/segment_guard.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <interleave/explore.h>

// ---- shared words

#define POINT_TEXT_OF(line) #line
#define POINT_TEXT(line) POINT_TEXT_OF(line)
#define POINT_HERE __FILE__ ":" POINT_TEXT(__LINE__)
#define POINT_TYPE(lvalue) __typeof__((void)0, lvalue)
#define POINT_REACH(p) explore_reach((const volatile void *)(p), sizeof *(p), POINT_HERE)
#define POINT_WRITE(p) explore_write((volatile void *)(p), sizeof *(p))

#undef atomic_load_explicit
#undef atomic_load
#define atomic_load_explicit(p, order)                                                             \
    __extension__({                                                                                \
        __auto_type p_ = (p);                                                                      \
        POINT_REACH(p_);                                                                           \
        POINT_TYPE(*p_) now_ = *p_;                                                                \
        explore_forward((const volatile void *)p_, sizeof now_, &now_);                            \
        now_;                                                                                      \
    })
#define atomic_load(p) atomic_load_explicit(p, memory_order_seq_cst)

#undef atomic_store_explicit
#undef atomic_store
#define atomic_store_explicit(p, value, order)                                                     \
    __extension__({                                                                                \
        __auto_type p_ = (p);                                                                      \
        POINT_TYPE(*p_) value_ = (value);                                                          \
        if ((order) == memory_order_seq_cst)                                                       \
            explore_drain();                                                                       \
        if ((order) == memory_order_seq_cst ||                                                     \
            !explore_delay((volatile void *)p_, sizeof value_, &value_)) {                         \
            POINT_REACH(p_);                                                                       \
            POINT_WRITE(p_);                                                                       \
            *p_ = value_;                                                                          \
        }                                                                                          \
        (void)0;                                                                                   \
    })
#define atomic_store(p, value) atomic_store_explicit(p, value, memory_order_seq_cst)

#define __atomic_load_n(p, order) (explore_point(), *(p)) // Of what is written as bytes.

// The next value is an expression of the one that is there, was_, and of value_.
#define POINT_CHANGE(p, value, next)                                                               \
    __extension__({                                                                                \
        __auto_type p_ = (p);                                                                      \
        POINT_TYPE(*p_) value_ = (value);                                                          \
        explore_drain();                                                                           \
        POINT_REACH(p_);                                                                           \
        POINT_TYPE(*p_) was_ = *p_;                                                                \
        POINT_WRITE(p_);                                                                           \
        *p_ = (next);                                                                              \
        was_;                                                                                      \
    })
#undef atomic_exchange_explicit
#undef atomic_exchange
#undef atomic_fetch_add_explicit
#undef atomic_fetch_add
#undef atomic_fetch_sub_explicit
#undef atomic_fetch_sub
#undef atomic_fetch_or_explicit
#undef atomic_fetch_or
#undef atomic_fetch_and_explicit
#undef atomic_fetch_and
#define atomic_exchange_explicit(p, value, order) POINT_CHANGE(p, value, value_)
#define atomic_exchange(p, value) POINT_CHANGE(p, value, value_)
#define atomic_fetch_add_explicit(p, value, order) POINT_CHANGE(p, value, was_ + value_)
#define atomic_fetch_add(p, value) POINT_CHANGE(p, value, was_ + value_)
#define atomic_fetch_sub_explicit(p, value, order) POINT_CHANGE(p, value, was_ - value_)
#define atomic_fetch_sub(p, value) POINT_CHANGE(p, value, was_ - value_)
#define atomic_fetch_or_explicit(p, value, order) POINT_CHANGE(p, value, was_ | value_)
#define atomic_fetch_or(p, value) POINT_CHANGE(p, value, was_ | value_)
#define atomic_fetch_and_explicit(p, value, order) POINT_CHANGE(p, value, was_ &value_)
#define atomic_fetch_and(p, value) POINT_CHANGE(p, value, was_ &value_)

#define POINT_SWAP(p, expected, value)                                                             \
    __extension__({                                                                                \
        __auto_type p_ = (p);                                                                      \
        __auto_type expected_ = (expected);                                                        \
        POINT_TYPE(*p_) value_ = (value);                                                          \
        explore_drain();                                                                           \
        POINT_REACH(p_);                                                                           \
        POINT_TYPE(*p_) was_ = *p_;                                                                \
        bool same_ = was_ == *expected_;                                                           \
        if (same_) {                                                                               \
            POINT_WRITE(p_);                                                                       \
            *p_ = value_;                                                                          \
        } else {                                                                                   \
            *expected_ = was_;                                                                     \
        }                                                                                          \
        same_;                                                                                     \
    })
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_weak_explicit
#undef atomic_compare_exchange_weak
#define atomic_compare_exchange_strong_explicit(p, e, v, done, not_done) POINT_SWAP(p, e, v)
#define atomic_compare_exchange_strong(p, e, v) POINT_SWAP(p, e, v)
#define atomic_compare_exchange_weak_explicit(p, e, v, done, not_done) POINT_SWAP(p, e, v)
#define atomic_compare_exchange_weak(p, e, v) POINT_SWAP(p, e, v)

// ---- files: what is between two steps of theirs is a point too

#undef TRP_FAULT
#ifdef POINT_FILES
#define TRP_FAULT(name) explore_point()
#else
#define TRP_FAULT(name) ((void)0)
#endif

// ---- waiting

#define syscall(...) explore_syscall(__VA_ARGS__)
#define trp_wait(word, seen, timeout_ns) explore_wait(word, seen, true)
#define trp_wake(word) explore_wake(word, INT32_MAX)
#define trp_spin_on(habit, word, seen) ((void)(habit), (void)(seen), false)
#define sched_yield() explore_yield()
#define pthread_mutex_lock(mutex) explore_lock(mutex)
#define pthread_mutex_trylock(mutex) explore_try_lock(mutex)
#define pthread_mutex_unlock(mutex) explore_unlock(mutex)
#define trp_process_try_enter() true
#define trp_process_leave() ((void)0)
#undef TRP_USE_SEGMENT
#define TRP_USE_SEGMENT(otherwise) ((void)0)
#define trp_clock_ns() explore_now_ns()
#define clock_gettime(clock, now) explore_clock(now)

// ---- the system's memory

troupe_status scene_back(uint64_t at, uint64_t size);
bool scene_unback(uint64_t at, uint64_t size);
#define trp_segment_back(at, size) scene_back(at, size)
#define trp_segment_unback(at, size) scene_unback(at, size)

// ---- nothing is damaged here: who says so has found what the protocol should not have left

#define trp_log(level, ...) ((level) == TRP_ERROR ? explore_fail(__VA_ARGS__) : (void)0)

// ---- private memory

#define trp_alloc(size) explore_alloc(size)
#define trp_realloc(block, size) explore_realloc(block, size)
#define trp_free(block) explore_free(block)

// ---- what belongs to a thread, and what to a process: see explore_module

#define _Thread_local __attribute__((section("thread_state")))
#undef TRP_VAST
#define TRP_VAST __attribute__((section("vast_state")))

#endif
