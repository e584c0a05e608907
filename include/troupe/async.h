// async.h: cancelled calls, deferred answers, streams, timers and continuations.
//
// Nothing here needs a thread of the program's own, and methods are written like those of actor.h:
// a method that cannot answer yet defers its answer and returns, and its actor runs the next
// message.
#ifndef TROUPE_ASYNC_H
#define TROUPE_ASYNC_H

#include <troupe/actor.h>

TROUPE_BEGIN_C

// ---- cancelling a call

typedef struct troupe_cancel_options {
    size_t size;
    // If the method is running already, its process is killed: for methods that do not check
    // troupe_cancelled. Only for isolated actors; other calls to the process end as with any death
    // of a process. Nothing is killed if the call was still waiting in the mailbox. The cancelled
    // call ends with its process: if the actor is restarted, calls made after that go to its next
    // start.
    bool force;
    int unused_;
} troupe_cancel_options;

// Cancels a call. It ends as TROUPE_CANCELLED: at once if its actor lives in this process, else
// when that process has received the request; troupe_error.executed says whether its method had
// begun (TROUPE_EXECUTED_MAYBE) or will never run (TROUPE_EXECUTED_NO). A running method is not
// interrupted, but its result is discarded, and troupe_cancelled() is true in it from then on. The
// caller still owns the reference: troupe_get or troupe_ref_drop consumes it. With a reference of
// troupe_ref_join, each call that has not ended is cancelled.
//
// TROUPE_OK: the call has been cancelled, or the request has been sent; the call can still end
// otherwise if its answer is already under way. Harmless, nothing changes: TROUPE_NOT_FOUND: the
// call had ended; TROUPE_INVALID: the reference is empty, stale, or an object's.
// TROUPE_UNSUPPORTED: `force` for an actor that shares its process (the call continues), or the
// call was made by another process.
TROUPE_API troupe_status troupe_cancel_with(troupe_ref ref, const troupe_cancel_options *how);
#define troupe_cancel(...) TROUPE_CANCEL_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_CANCEL_(ref, ...)                                                                   \
    troupe_cancel_with(                                                                            \
        (ref), &(troupe_cancel_options){.size = sizeof(troupe_cancel_options), __VA_ARGS__})

// Whether the result of the running method is no longer wanted: its call was cancelled, or the
// call's deadline has passed. False outside methods. Cheap enough for a loop.
TROUPE_API bool troupe_cancelled(void);

// ---- deferred answers

// The obligation to answer one call. A plain value, valid in the process of the actor that made it.
typedef struct troupe_deferred {
    uint64_t id_; // 0: none.
} troupe_deferred;

// In a method: the call will be answered later, by troupe_deferred_fulfil or
// troupe_deferred_refuse, from any thread of this process or any method. The method then returns
// TROUPE_OK, and *result is ignored; if it returns another status, the call ends with that, and the
// deferred answer is void. Arguments are borrowed until the method returns: copy what is needed
// longer. If the actor ends first, the call ends as TROUPE_MAYBE_EXECUTED. Returns an empty value,
// with the last error set, on failure: TROUPE_INVALID: not in a method, in a streaming one or a
// task (whose answer is what it returns), or called twice; TROUPE_NO_MEMORY.
TROUPE_API TROUPE_MUST_USE troupe_deferred troupe_defer(void);

// Answers with a value of the method's result type, which is copied; references in it are given
// away, as in a result. Consumes the deferred answer on every status but TROUPE_WRONG_TYPE.
// TROUPE_INVALID: it is empty or was used before; TROUPE_CANCELLED: the call was cancelled (the
// value is discarded); TROUPE_NOT_EXECUTED: the actor, or the caller's process, has ended.
TROUPE_API troupe_status troupe_deferred_fulfil_as(const troupe_type *type, troupe_deferred *later,
                                                   const void *value);
#define troupe_deferred_fulfil(T, later, ...)                                                      \
    troupe_deferred_fulfil_as(&troupe_type_##T, (later), TROUPE_POINTER(const T, (__VA_ARGS__)))

// Answers with a failure: the caller gets `status` and the error text. Errors as
// troupe_deferred_fulfil.
TROUPE_API troupe_status troupe_deferred_refuse(troupe_deferred *later, troupe_status status,
                                                const char *format, ...) TROUPE_PRINTF(3, 4);

// ---- streams

// A method whose row says `.options = TROUPE_METHOD_STREAM` yields values of its result type one by
// one; its own *result is not used. The reader gets them in order while the method runs:
//
//     troupe_stream lines = troupe_stream_open(actor, file_lines, path);
//     while ((status = troupe_next(line, lines, &next)) == TROUPE_OK)
//         ...
//     // TROUPE_END, or why it failed
//
// A plain value, valid in the process that opened it.
typedef struct troupe_stream {
    uint64_t id_; // 0: none.
} troupe_stream;

// Calls a streaming method; troupe_next returns the failure to do so. With troupe_with(actor,
// .window = n) the method may be n values ahead of the reader. The stream must be read to its end,
// or dropped. Empty, with the last error set: TROUPE_NO_MEMORY.
TROUPE_API TROUPE_MUST_USE troupe_stream troupe_stream_open_as(troupe_actor actor,
                                                               const troupe_class *class_,
                                                               size_t method, const void *args);
#define troupe_stream_open(actor, ...) TROUPE_STREAM_OPEN_(actor, __VA_ARGS__, )
#define TROUPE_STREAM_OPEN_(actor, m, ...)                                                         \
    troupe_stream_open_as(TROUPE_TARGET_(m, actor), TROUPE_METHOD_(m),                             \
                          __extension__ &(TROUPE_METHOD_ARGUMENTS_(m)){__VA_ARGS__})

// Waits for the next value and copies it to *value; texts and arrays are in the thread's arena.
// `timeout_ms` as for troupe_get. Statuses after which the stream is still open: TROUPE_TIMED_OUT:
// no value came in time; TROUPE_WRONG_TYPE: the values are of another type, and this one is lost;
// TROUPE_DEADLOCK, TROUPE_BUSY: as troupe_get. Every other status ends the stream: TROUPE_END: the
// method returned TROUPE_OK; TROUPE_INVALID: it had ended before; else the failure of its call,
// after all values that it yielded. Several threads may read one stream.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_next_as(const troupe_type *type,
                                                        troupe_stream stream, void *value,
                                                        int timeout_ms);
// troupe_next(line, lines, &next) or troupe_next(line, lines, &next, 100)
#define troupe_next(...) TROUPE_NEXT_(__VA_ARGS__, )
#define TROUPE_NEXT_(T, stream, value, ...)                                                        \
    troupe_next_as(&troupe_type_##T, (stream), TROUPE_POINTER(T, value),                           \
                   TROUPE_TIMEOUT_(__VA_ARGS__))

// Closes a stream before its end: its call is cancelled. Harmless on one that is empty or has
// ended.
TROUPE_API void troupe_stream_drop(troupe_stream stream);

// In a streaming method: sends a value, which is copied; references in it are given away, as in a
// result. Waits while the reader's window is full; other actors run meanwhile. TROUPE_CANCELLED:
// the stream is not read any more, the method should return; TROUPE_BUSY as troupe_get;
// TROUPE_WRONG_TYPE: not of the method's result type; TROUPE_INVALID: not in such a method;
// TROUPE_NO_MEMORY, TROUPE_TOO_LARGE: the value was not sent.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_yield_as(const troupe_type *type,
                                                         const void *value);
#define troupe_yield(T, ...)                                                                       \
    troupe_yield_as(&troupe_type_##T, TROUPE_POINTER(const T, (__VA_ARGS__)))

// ---- timers of an actor

typedef struct troupe_timer {
    uint64_t id_; // 0: none.
} troupe_timer;

// In a method or init: sends the actor itself a message after `ms`, once or, if it `repeats`, every
// `ms`. At most one message of a repeating timer waits in the mailbox: a slow actor skips ticks
// instead of collecting them, and later ticks keep to the timer's period. The arguments are copied.
// The timer ends when it is stopped or its actor ends; one that does not repeat also when its
// message is run. Empty, with the last error set: TROUPE_INVALID: not in an actor, a method of
// another class, or a period of 0; TROUPE_NO_MEMORY.
TROUPE_API troupe_timer troupe_timer_start_as(const troupe_class *class_, size_t method,
                                              const void *args, uint32_t ms, bool repeats);
// troupe_timer_after(method, delay_ms, argument...) and troupe_timer_every(method, period_ms,
// argument...)
#define troupe_timer_after(...) TROUPE_TIMER_(false, __VA_ARGS__, )
#define troupe_timer_every(...) TROUPE_TIMER_(true, __VA_ARGS__, )
#define TROUPE_TIMER_(repeats, m, ms, ...)                                                         \
    troupe_timer_start_as(TROUPE_METHOD_(m),                                                       \
                          __extension__ &(TROUPE_METHOD_ARGUMENTS_(m)){__VA_ARGS__}, (ms),         \
                          (repeats))

// Ends a timer; if a message of it waits in the mailbox, that is not run either. From any thread of
// the process. TROUPE_NOT_FOUND, harmless: the timer had ended.
TROUPE_API troupe_status troupe_timer_stop(troupe_timer timer);

// ---- continuations

typedef struct troupe_then_options {
    size_t size;
    uint64_t tag; // For troupe_continuation_tag: tells continuations by the same method apart.
    int unused_;
} troupe_then_options;

// In a method or init: when the reference is ready, its value is sent to the actor itself, as the
// arguments of `method`, whose argument type is the value's. Consumes the reference at once. If the
// call failed, the method runs all the same, with zeroed arguments: it calls
// troupe_continuation_status() first, so that one method handles success and failure. If the actor
// ends first, the value is dropped. TROUPE_INVALID: not in an actor, a method of another class, or
// a stale reference; TROUPE_WRONG_TYPE: the value is known to be of another type; TROUPE_NO_MEMORY.
TROUPE_API troupe_status troupe_then_as(troupe_ref ref, const troupe_class *class_, size_t method,
                                        const troupe_then_options *how);
// troupe_then(reference, method) or troupe_then(reference, method, .tag = 7)
#define troupe_then(...) TROUPE_THEN_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_THEN_(ref, m, ...)                                                                  \
    troupe_then_as((ref), TROUPE_METHOD_(m),                                                       \
                   &(troupe_then_options){.size = sizeof(troupe_then_options), __VA_ARGS__})

// In a method: the failure of the call that it continues, which becomes the thread's last error;
// TROUPE_OK if the arguments are the value, and in a method that was called in the ordinary way.
TROUPE_API troupe_status troupe_continuation_status(void);
TROUPE_API uint64_t troupe_continuation_tag(void); // .tag of the troupe_then; else 0.

TROUPE_END_C

#endif
