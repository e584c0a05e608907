// queue.h: a bounded queue that any process of the node can put values into and take them out of.
//
//     troupe_queue jobs = troupe_queue_open(job, .capacity = 100);
//     troupe_must(troupe_queue_put(job, jobs, &mine));                      // waits for room
//     status = troupe_queue_get(job, jobs, &next, 1000);      // waits for a value
//
// A queue is an actor of the library. Its handle is a plain value that owns nothing: it can be
// copied, be a field of a TROUPE_STRUCT (as troupe_queue), be sent in messages, and be looked up by
// name. Values are copied in and out, first in, first out; waiting calls are served in the order of
// their arrival. A wait blocks its own thread or method only, never the queue.
// troupe_actor_end(queue) and troupe_actor_kill(queue) end it, and its values are lost, as with any
// actor.
#ifndef TROUPE_QUEUE_H
#define TROUPE_QUEUE_H

#include <troupe/actor.h>

TROUPE_BEGIN_C

typedef struct troupe_queue {
    troupe_actor address;
} troupe_queue;
TROUPE_ARRAY_DECLARE_(troupe_queue);
TROUPE_UNUSED static uint64_t troupe_hash_troupe_queue[2];
TROUPE_UNUSED static const troupe_type troupe_type_troupe_queue = {
    TROUPE_ABI,     TROUPE_KIND_ACTOR,
    "troupe_queue", sizeof(troupe_queue),
    NULL,           0,
    NULL,           &troupe_hash_troupe_queue[0],
    {NULL}};
TROUPE_UNUSED static const troupe_type troupe_type_troupe_array_troupe_queue = {
    TROUPE_ABI,
    TROUPE_KIND_ARRAY,
    "troupe_array_troupe_queue",
    sizeof(troupe_array_troupe_queue),
    NULL,
    0,
    &troupe_type_troupe_queue,
    &troupe_hash_troupe_queue[1],
    {NULL}};

typedef struct troupe_queue_options {
    size_t size;
    uint32_t capacity; // The most values that it holds; default 1024.
    // Their largest total size, packed; default 64 MiB. An empty queue takes a larger value.
    size_t bytes_max;
    const char *name;   // For troupe_queue_lookup; as an actor's.
    troupe_place place; // Where it lives; as an actor's.
    int unused_;
} troupe_queue_options;

// Makes a queue of values of one type, which must not contain references to calls or objects. If
// that fails, every use of the queue returns the failure, as with troupe_spawn_as.
TROUPE_API troupe_queue troupe_queue_open_as(const troupe_type *type,
                                             const troupe_queue_options *how);
// Finds a queue by its name. TROUPE_NOT_FOUND; TROUPE_WRONG_TYPE: another actor has the name. The
// type of its values is checked when it is used.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_queue_lookup(const char *name, troupe_queue *queue);

// Puts `count` values in, in their order and with no others between them, and waits for room at
// most `timeout_ms`. *put (may be NULL) is set to how many were put. TROUPE_TIMED_OUT: there was no
// room for all of them in time; TROUPE_DEADLINE_EXCEEDED: the queue has not answered 1 s after that
// time (its process may be stopped): they may still be put; TROUPE_STOPPED: the queue was closed;
// TROUPE_WRONG_TYPE: its values are of another type; TROUPE_UNSUPPORTED: values of that type
// contain references; else the failure of the call to its actor.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_queue_put_as(const troupe_type *type,
                                                             troupe_queue queue, const void *values,
                                                             size_t count, size_t *put,
                                                             int timeout_ms);
// Takes out 1 to `max` values, as many as there are, and waits for the first. *count is set to how
// many. TROUPE_TIMED_OUT: none came in time, or the queue has not answered 1 s after that time:
// values that it sends later return to its front. TROUPE_STOPPED: the queue was closed and is
// empty; else as above. Texts and arrays in the values are in the thread's arena.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_queue_get_as(const troupe_type *type,
                                                             troupe_queue queue, void *values,
                                                             size_t max, size_t *count,
                                                             int timeout_ms);

// Closes the queue: nothing more can be put in; what is in it can be taken out. Calls that wait for
// room or, if it is empty, for a value, end as TROUPE_STOPPED. Closing a closed queue is harmless.
TROUPE_API troupe_status troupe_queue_close(troupe_queue queue);

typedef struct troupe_queue_state {
    uint64_t count;    // Values in it,
    uint64_t bytes;    // and their size, packed.
    uint64_t capacity; // As it was opened.
    uint64_t getters;  // Calls that wait for a value,
    uint64_t putters;  // and for room.
    bool closed;
} troupe_queue_state;
TROUPE_API troupe_status troupe_queue_state_get(troupe_queue queue, troupe_queue_state *state,
                                                size_t size);
#define troupe_queue_state_get(queue, state)                                                       \
    troupe_queue_state_get((queue), (state), sizeof(troupe_queue_state))

#define troupe_queue_open(...) TROUPE_QUEUE_OPEN_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_QUEUE_OPEN_(T, ...)                                                                 \
    troupe_queue_open_as(&troupe_type_##T, &(troupe_queue_options){                                \
                                               .size = sizeof(troupe_queue_options), __VA_ARGS__})

// troupe_queue_put(job, jobs, &mine, 100)
#define troupe_queue_put(...) TROUPE_QUEUE_PUT_(__VA_ARGS__, )
#define TROUPE_QUEUE_PUT_(T, queue, value, ...)                                                    \
    troupe_queue_put_as(&troupe_type_##T, (queue), TROUPE_POINTER(const T, value), 1, NULL,        \
                        TROUPE_TIMEOUT_(__VA_ARGS__))
// troupe_queue_put_many(job, jobs, all, 50, &put)
#define troupe_queue_put_many(...) TROUPE_QUEUE_PUT_MANY_(__VA_ARGS__, )
#define TROUPE_QUEUE_PUT_MANY_(T, queue, values, n, put, ...)                                      \
    troupe_queue_put_as(&troupe_type_##T, (queue), TROUPE_POINTER(const T, values), (n), (put),    \
                        TROUPE_TIMEOUT_(__VA_ARGS__))
// troupe_queue_get(job, jobs, &next, 100)
#define troupe_queue_get(...) TROUPE_QUEUE_GET_(__VA_ARGS__, )
#define TROUPE_QUEUE_GET_(T, queue, value, ...)                                                    \
    troupe_queue_get_as(&troupe_type_##T, (queue), TROUPE_POINTER(T, value), 1, NULL,              \
                        TROUPE_TIMEOUT_(__VA_ARGS__))
// troupe_queue_get_many(job, jobs, some, 50, &got)
#define troupe_queue_get_many(...) TROUPE_QUEUE_GET_MANY_(__VA_ARGS__, )
#define TROUPE_QUEUE_GET_MANY_(T, queue, values, max, got, ...)                                    \
    troupe_queue_get_as(&troupe_type_##T, (queue), TROUPE_POINTER(T, values), (max), (got),        \
                        TROUPE_TIMEOUT_(__VA_ARGS__))
// Without waiting: TROUPE_TIMED_OUT where there is no room, or no value.
#define troupe_queue_try_put(T, queue, value) troupe_queue_put(T, queue, value, TROUPE_POLL)
#define troupe_queue_try_get(T, queue, value) troupe_queue_get(T, queue, value, TROUPE_POLL)

TROUPE_END_C

#endif
