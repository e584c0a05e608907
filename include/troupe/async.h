// async.h: calls that are given up, answered later, answered in many values, or continued; timers;
// methods that run beside others.
//
// Nothing here needs a thread of the user's, and no method has to be written in another way than
// those of actor.h: a method that cannot answer yet says so and returns, and its actor goes on.
#ifndef TROUPE_ASYNC_H
#define TROUPE_ASYNC_H

#include <troupe/actor.h>

TROUPE_BEGIN_C

// ---- giving a call up

typedef struct troupe_cancel_options {
    size_t size;
    // If the method is running already, its process is killed: for methods that do not look at
    // troupe_cancelled. Only for actors that have a process of their own (TROUPE_PLACE_ISOLATED);
    // whatever else was called there ends as with any death of a process. Should the call have been
    // waiting in the mailbox, nothing is killed.
    bool force;
    int unused_;
} troupe_cancel_options;

// Gives a call up. It ends as TROUPE_CANCELLED: at once if its actor lives in this process, else
// when that process has seen the request; troupe_error.executed says whether its method had begun
// (TROUPE_EXECUTED_MAYBE) or will never run (TROUPE_EXECUTED_NO). A running method is not
// interrupted, but its result is thrown away, and troupe_cancelled() is true in it from then on.
// The reference stays the caller's: troupe_get or troupe_ref_drop ends it as ever. Of a
// troupe_ref_join's each call is given up that has not ended.
//
// TROUPE_OK: the call has been cancelled, or the request is on its way; the call can still end
// otherwise if its answer is on its way too. Harmless, and nothing changes: TROUPE_NOT_FOUND: the
// call has ended before; TROUPE_INVALID: the reference is empty, stale, or an object's.
// TROUPE_UNSUPPORTED: `force` for an actor that shares its process (the call goes on), or the
// reference stands for a call that another process has made.
TROUPE_API troupe_status troupe_cancel_with(troupe_ref ref, const troupe_cancel_options *how);
#define troupe_cancel(...) TROUPE_CANCEL_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_CANCEL_(ref, ...)                                                                   \
    troupe_cancel_with(                                                                            \
        (ref), &(troupe_cancel_options){.size = sizeof(troupe_cancel_options), __VA_ARGS__})

// Whether nobody waits for what the running method works at: its call was cancelled, or the call's
// deadline has passed. False outside methods. Cheap enough to be asked in a loop.
TROUPE_API bool troupe_cancelled(void);

// ---- answering later

// The right, and the duty, to answer one call. A plain value; it means something in the process of
// the actor that made it.
typedef struct troupe_deferred {
    uint64_t id_; // 0: none.
} troupe_deferred;

// In a method: the call will be answered later, by troupe_deferred_fulfil or
// troupe_deferred_refuse, from any thread of this process or any method. The method then returns
// TROUPE_OK, and what it has left in *result is ignored; if it returns another status the call ends
// with that, and the deferred answer is void. Arguments are borrowed until the method returns: copy
// what is needed longer. If the actor ends first, the call ends as TROUPE_MAYBE_EXECUTED. Empty,
// with the last error set: TROUPE_INVALID: not in a method, in a streaming one or a task (whose
// answer is what it returns), or asked twice; TROUPE_NO_MEMORY.
TROUPE_API TROUPE_MUST_USE troupe_deferred troupe_defer(void);

// Answers with a value of the method's result type, which is copied; references in it are given
// away, as in a result. Consumes the deferred answer on every status but TROUPE_WRONG_TYPE.
// TROUPE_INVALID: it is empty, or was used before; TROUPE_CANCELLED: nobody waits any more (the
// value is thrown away); TROUPE_NOT_EXECUTED: the actor, or the caller's process, has ended.
TROUPE_API troupe_status troupe_deferred_fulfil_as(const troupe_type *type, troupe_deferred *later,
                                                   const void *value);
#define troupe_deferred_fulfil(T, later, value)                                                    \
    troupe_deferred_fulfil_as(&troupe_type_##T, (later), TROUPE_POINTER(const T, value))

// Answers with a failure: the caller gets `status` and the sentence. Errors as
// troupe_deferred_fulfil.
TROUPE_API troupe_status troupe_deferred_refuse(troupe_deferred *later, troupe_status status,
                                                const char *format, ...) TROUPE_PRINTF(3, 4);

// ---- answering in many values

// A method whose row says `.options = TROUPE_METHOD_STREAM` makes values of its result type one by
// one; its own *result is not used. The stream is read in order while the method runs:
//
//     troupe_stream lines = troupe_stream_open(actor, file_lines, path);
//     while ((status = troupe_next(line, lines, &next)) == TROUPE_OK)
//         ...
//     // TROUPE_END, or why it failed
//
// A plain value; it means something in the process that opened it.
typedef struct troupe_stream {
    uint64_t id_; // 0: none.
} troupe_stream;

// Calls a streaming method; a failure to do so comes out of troupe_next. With
// troupe_with(actor, .window = n) the method may be n values ahead of the reader. The stream must
// be read to its end, or dropped. Empty, with the last error set: TROUPE_NO_MEMORY.
TROUPE_API TROUPE_MUST_USE troupe_stream troupe_stream_open_as(troupe_actor actor,
                                                               const troupe_class *class_,
                                                               size_t method, const void *args);
#define troupe_stream_open(actor, ...) TROUPE_STREAM_OPEN_(actor, __VA_ARGS__, )
#define TROUPE_STREAM_OPEN_(actor, m, ...)                                                         \
    troupe_stream_open_as(TROUPE_TARGET_(m, actor), troupe_home_##m(), troupe_index_##m,           \
                          __extension__ &(troupe_args_##m){__VA_ARGS__})

// Waits for the next value and copies it to *value; texts and arrays are in the thread's arena.
// `timeout_ms` as for troupe_get: TROUPE_TIMED_OUT: none came in that time, and the stream stays.
// TROUPE_WRONG_TYPE: the values are of another type; this one is lost. Every other status is the
// end of the stream, which is gone then: TROUPE_END: the method returned TROUPE_OK; else how its
// call failed, after all values that it made before. TROUPE_INVALID: it was gone already.
// TROUPE_DEADLOCK, TROUPE_BUSY as troupe_get: it stays. Several threads may read one stream.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_next_as(const troupe_type *type,
                                                        troupe_stream stream, void *value,
                                                        int timeout_ms);
// troupe_next(line, lines, &next) or troupe_next(line, lines, &next, 100)
#define troupe_next(...) TROUPE_NEXT_(__VA_ARGS__, )
#define TROUPE_NEXT_(T, stream, value, ...)                                                        \
    troupe_next_as(&troupe_type_##T, (stream), TROUPE_POINTER(T, value),                           \
                   TROUPE_TIMEOUT_(__VA_ARGS__))

// Gives a stream up: its call is cancelled. Harmless on one that is empty or gone.
TROUPE_API void troupe_stream_drop(troupe_stream stream);

// In a streaming method: makes a value, which is copied; references in it are given away, as in a
// result. Waits while the reader has as many values as it has room for; other actors go on
// meanwhile. TROUPE_CANCELLED: nobody reads any more, the method should return; TROUPE_BUSY as
// troupe_get; TROUPE_WRONG_TYPE: not of the method's result type; TROUPE_INVALID: not in such a
// method; TROUPE_NO_MEMORY, TROUPE_TOO_LARGE: the value was not sent.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_yield_as(const troupe_type *type,
                                                         const void *value);
#define troupe_yield(T, value) troupe_yield_as(&troupe_type_##T, TROUPE_POINTER(const T, value))

// ---- timers of an actor

typedef struct troupe_timer {
    uint64_t id_; // 0: none.
} troupe_timer;

// In a method or init: sends the actor itself a message after `ms`, once or, if it `repeats`, each
// `ms`. Of a repeating timer at most one message waits in the mailbox: a slow actor misses beats
// instead of collecting them, and later beats stay on the timer's own grid. The arguments are
// copied. The timer ends when it is stopped or its actor ends, one that does not repeat also when
// its message is run. Empty, with the last error set: TROUPE_INVALID: not in an actor, a method of
// another class, or a period of 0; TROUPE_NO_MEMORY.
TROUPE_API troupe_timer troupe_timer_start_as(const troupe_class *class_, size_t method,
                                              const void *args, uint32_t ms, bool repeats);
// troupe_timer_after(method, delay_ms, argument...) and troupe_timer_every(method, period_ms,
// argument...)
#define troupe_timer_after(...) TROUPE_TIMER_(false, __VA_ARGS__, )
#define troupe_timer_every(...) TROUPE_TIMER_(true, __VA_ARGS__, )
#define TROUPE_TIMER_(repeats, m, ms, ...)                                                         \
    troupe_timer_start_as(troupe_home_##m(), troupe_index_##m,                                     \
                          __extension__ &(troupe_args_##m){__VA_ARGS__}, (ms), (repeats))

// Ends a timer: a message of its that waits in the mailbox is not run either. From any thread of
// the process. TROUPE_NOT_FOUND, harmless: it has ended before.
TROUPE_API troupe_status troupe_timer_stop(troupe_timer timer);

// ---- continuations

typedef struct troupe_then_options {
    size_t size;
    uint64_t tag; // For troupe_continuation_tag: tells apart what waits for the same method.
    int unused_;
} troupe_then_options;

// In a method or init: when the reference is ready its value is sent to the actor itself, as the
// arguments of `method`, whose argument type is the value's. Consumes the reference at once. If the
// call has failed the method is run all the same, with zeroed arguments: it asks
// troupe_continuation_status() first. One method has so both ends of a call in hand, and nothing is
// lost by forgetting a second one. If the actor ends first, the value is dropped.
// TROUPE_INVALID: not in an actor, a method of another class, or a stale reference;
// TROUPE_WRONG_TYPE: the value is known to be of another type; TROUPE_NO_MEMORY.
TROUPE_API troupe_status troupe_then_as(troupe_ref ref, const troupe_class *class_, size_t method,
                                        const troupe_then_options *how);
// troupe_then(reference, method) or troupe_then(reference, method, .tag = 7)
#define troupe_then(...) TROUPE_THEN_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_THEN_(ref, m, ...)                                                                  \
    troupe_then_as((ref), troupe_home_##m(), troupe_index_##m,                                     \
                   &(troupe_then_options){.size = sizeof(troupe_then_options), __VA_ARGS__})

// In a method: the failure of what it continues, which becomes the thread's last error; TROUPE_OK
// if the arguments are the value, and in a method that was called in the ordinary way.
TROUPE_API troupe_status troupe_continuation_status(void);
TROUPE_API uint64_t troupe_continuation_tag(void); // Of the troupe_then; 0 otherwise.

TROUPE_END_C

#endif
