// pool.h: many actors of one class used as one: pools (the next call goes to the least loaded
// member), maps (one call for each item of an array) and groups (one call to every actor).
//
// Every function here may be called from any thread of the driver and from inside methods; a map is
// used by one thread at a time. Pools and maps exist only in the process that made them; other
// processes can be sent the addresses of actors.
#ifndef TROUPE_POOL_H
#define TROUPE_POOL_H

#include <troupe/actor.h>
#include <troupe/task.h>

TROUPE_BEGIN_C

// ---- pools

typedef struct troupe_pool troupe_pool;

typedef struct troupe_pool_options {
    size_t size;
    // How many actors the pool makes; default: one for each worker process (1 without workers).
    size_t count;
    // Options for the actors that it makes (NULL: the defaults); a name is refused. Copied.
    const troupe_spawn_options *spawn;
    // Actors that exist already. If there are any, the pool makes none.
    const troupe_actor *actors;
    size_t actor_count;
    int unused_;
} troupe_pool_options;

// Makes a pool of actors of `class_`; `init_args` (NULL: zeros) are copied, for all actors that it
// makes, now and later. The caller closes it. TROUPE_INVALID: no actors, or an invalid option; else
// why an actor could not be started (then all are ended).
TROUPE_API TROUPE_MUST_USE troupe_status troupe_pool_open_as(const troupe_class *class_,
                                                             const void *init_args,
                                                             const troupe_pool_options *how,
                                                             troupe_pool **pool);
// Ends the actors that the pool made, after the calls that they have; actors that it was given stay
// as they are. References of calls stay valid. No other thread may be using the pool, and no map of
// it may be open. NULL does nothing.
TROUPE_API void troupe_pool_close(troupe_pool *pool);

// The members that are not known to be dead.
TROUPE_API size_t troupe_pool_count(troupe_pool *pool);

// Sends a call to the member with the fewest unfinished calls of this pool. The pool takes a member
// for dead when a call to it ends as NOT_EXECUTED, or as MAYBE_EXECUTED if the pool made it without
// restarts: it gets no more calls, and the pool replaces it at the next call if it had made it. The
// lost call itself is not sent again. Without a living member the reference fails as
// TROUPE_NOT_EXECUTED.
TROUPE_API TROUPE_MUST_USE troupe_ref troupe_pool_call_as(troupe_pool *pool,
                                                          const troupe_class *class_, size_t method,
                                                          const void *args);

// troupe_must(troupe_pool_open(counter, &pool, .count = 4));
#define troupe_pool_open(...) TROUPE_POOL_OPEN_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_POOL_OPEN_(C, pool, ...)                                                            \
    troupe_pool_open_as(&troupe_class_##C, NULL,                                                   \
                        &(troupe_pool_options){.size = sizeof(troupe_pool_options), __VA_ARGS__},  \
                        (pool))
// The same with init arguments: troupe_pool_open_from(counter, &start, &pool, .count = 4).
#define troupe_pool_open_from(...) TROUPE_POOL_OPEN_FROM_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_POOL_OPEN_FROM_(C, args, pool, ...)                                                 \
    troupe_pool_open_as(&troupe_class_##C, TROUPE_POINTER(const troupe_init_args_##C, args),       \
                        &(troupe_pool_options){.size = sizeof(troupe_pool_options), __VA_ARGS__},  \
                        (pool))

// troupe_ref r = troupe_pool_call(pool, counter_add, 5);
#define troupe_pool_call(pool, ...) TROUPE_POOL_CALL_(pool, __VA_ARGS__, )
#define TROUPE_POOL_CALL_(pool, m, ...)                                                            \
    troupe_pool_call_as((pool), TROUPE_METHOD_(m),                                                 \
                        __extension__ &(TROUPE_METHOD_ARGUMENTS_(m)){__VA_ARGS__})

// With a pointer to the whole argument: troupe_pool_call_from(pool, counter_add, &amount).
#define troupe_pool_call_from(pool, m, ...)                                                        \
    troupe_pool_call_as((pool), TROUPE_METHOD_(m),                                                 \
                        TROUPE_POINTER(TROUPE_METHOD_ARGUMENTS_(m), (__VA_ARGS__)))

// ---- maps

typedef struct troupe_map troupe_map;

typedef struct troupe_map_options {
    size_t size;
    bool unordered; // Results in the order in which they are ready; else in that of the arguments.
    // The most calls that are unanswered at a time; default: 16 for each member of a pool, 1024 for
    // tasks.
    size_t in_flight;
    int unused_;
} troupe_map_options;

// Begins to call a method of a pool's members once for each of `count` arguments of its type, which
// must stay valid until the map is closed. The caller closes it. NULL, with the last error set: out
// of memory, or the class is not the pool's.
TROUPE_API TROUPE_MUST_USE troupe_map *troupe_pool_map_as(troupe_pool *pool,
                                                          const troupe_class *class_, size_t method,
                                                          const void *args, size_t count,
                                                          const troupe_map_options *how);
// The same for a task.
TROUPE_API TROUPE_MUST_USE troupe_map *troupe_run_map_as(const troupe_class *task, const void *args,
                                                         size_t count,
                                                         const troupe_map_options *how);

// Waits for the next result, and meanwhile sends further calls. TROUPE_END: every argument has had
// its result; TROUPE_TIMED_OUT: not ready in time; TROUPE_VERSION: `type` was compiled for another
// generation, and nothing was fetched; any other status is the failure of that one call (*index
// says which), and the map continues.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_map_next_as(const troupe_type *type,
                                                            troupe_map *map, void *value,
                                                            size_t *index, int timeout_ms);
// Closes a map; results that were not fetched are dropped, calls that were sent run all the same.
// NULL does nothing.
TROUPE_API void troupe_map_close(troupe_map *map);

// troupe_map *map = troupe_pool_map(pool, counter_add, amounts, 100, .unordered = true);
#define troupe_pool_map(...) TROUPE_POOL_MAP_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_POOL_MAP_(pool, m, args, count, ...)                                                \
    troupe_pool_map_as((pool), TROUPE_METHOD_(m),                                                  \
                       TROUPE_POINTER(TROUPE_METHOD_ARGUMENTS_(m), args), (count),                 \
                       &(troupe_map_options){.size = sizeof(troupe_map_options), __VA_ARGS__})
// troupe_map *map = troupe_run_map(square, numbers, 1000);
#define troupe_run_map(...) TROUPE_RUN_MAP_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_RUN_MAP_(f, args, count, ...)                                                       \
    troupe_run_map_as(&troupe_task_##f, TROUPE_POINTER(const troupe_task_args_##f, args), (count), \
                      &(troupe_map_options){.size = sizeof(troupe_map_options), __VA_ARGS__})
// while (troupe_map_next(int64_t, map, &value, &i) != TROUPE_END) ...
// With a time-out: troupe_map_next(int64_t, map, &value, NULL, 20).
#define troupe_map_next(...) TROUPE_MAP_NEXT_(__VA_ARGS__, )
#define TROUPE_MAP_NEXT_(T, map, value, index, ...)                                                \
    troupe_map_next_as(&troupe_type_##T, (map), TROUPE_POINTER(T, value), (index),                 \
                       TROUPE_TIMEOUT_(__VA_ARGS__))

// ---- groups: an array of addresses, which the caller owns

// Sends a message without an answer to each of `count` actors, also to those after one that fails.
// Returns the first failure, in their order; its error text begins with the actor's index.
TROUPE_API troupe_status troupe_group_tell_as(const troupe_actor *actors, size_t count,
                                              const troupe_class *class_, size_t method,
                                              const void *args);
// Sends one call to each of `count` actors: refs[i] is the answer of actor i. `stride` 0: all get
// *args; sizeof the arguments: actor i gets args[i]. troupe_get_all reads all the answers.
TROUPE_API void troupe_group_call_as(const troupe_actor *actors, size_t count,
                                     const troupe_class *class_, size_t method, const void *args,
                                     size_t stride, troupe_ref *refs);

// One reference to the values of `count` references, as an array (`array_type`) of their type:
// ready when all of them are. Consumes them. It fails as the first of them, in their order, that
// failed.
TROUPE_API TROUPE_MUST_USE troupe_ref troupe_ref_join_as(const troupe_type *array_type,
                                                         const troupe_ref *refs, size_t count);

// troupe_group_tell(counters, 8, counter_add, 5);
#define troupe_group_tell(actors, count, ...) TROUPE_GROUP_TELL_(actors, count, __VA_ARGS__, )
#define TROUPE_GROUP_TELL_(actors, count, m, ...)                                                  \
    troupe_group_tell_as(TROUPE_GROUP_(m, actors), (count), TROUPE_METHOD_(m),                     \
                         __extension__ &(TROUPE_METHOD_ARGUMENTS_(m)){__VA_ARGS__})
// troupe_group_call(counters, 8, refs, counter_add, 5);
#define troupe_group_call(actors, count, refs, ...)                                                \
    TROUPE_GROUP_CALL_(actors, count, refs, __VA_ARGS__, )
#define TROUPE_GROUP_CALL_(actors, count, refs, m, ...)                                            \
    troupe_group_call_as(TROUPE_GROUP_(m, actors), (count), TROUPE_METHOD_(m),                     \
                         __extension__ &(TROUPE_METHOD_ARGUMENTS_(m)){__VA_ARGS__}, 0, (refs))
// With a pointer to the whole argument, the same for all.
#define troupe_group_tell_from(actors, count, m, ...)                                              \
    troupe_group_tell_as(TROUPE_GROUP_(m, actors), (count), TROUPE_METHOD_(m),                     \
                         TROUPE_POINTER(TROUPE_METHOD_ARGUMENTS_(m), (__VA_ARGS__)))
#define troupe_group_call_from(actors, count, refs, m, ...)                                        \
    troupe_group_call_as(TROUPE_GROUP_(m, actors), (count), TROUPE_METHOD_(m),                     \
                         TROUPE_POINTER(TROUPE_METHOD_ARGUMENTS_(m), (__VA_ARGS__)), 0, (refs))
// troupe_group_scatter(counters, 8, refs, counter_add, amounts): amounts[i] to actor i.
#define troupe_group_scatter(actors, count, refs, m, args)                                         \
    troupe_group_call_as(TROUPE_GROUP_(m, actors), (count), TROUPE_METHOD_(m),                     \
                         TROUPE_POINTER(TROUPE_METHOD_ARGUMENTS_(m), args),                        \
                         sizeof(TROUPE_METHOD_ARGUMENTS_(m)), (refs))
// The addresses in an array of typed handles, whose type must be that of the method's class.
#define TROUPE_GROUP_(m, actors) (&TROUPE_POINTER(TROUPE_METHOD_HANDLE_(m), actors)->address)

// troupe_ref all = troupe_ref_join(int64_t, refs, 8); its type is troupe_array_int64_t
#define troupe_ref_join(T, refs, count)                                                            \
    troupe_ref_join_as(&troupe_type_troupe_array_##T, (refs), (count))

TROUPE_END_C

#endif
