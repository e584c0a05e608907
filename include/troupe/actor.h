// actor.h: classes, actors, calls.
//
// An actor is private state and a mailbox, and runs one message at a time. A method is a plain C
// function, testable without any runtime:
//
//     typedef struct counter { int64_t total; } counter;
//     static troupe_status counter_add(counter *self, const int64_t *amount, int64_t *total);
//     TROUPE_ACTOR(counter, (counter_add, int64_t, int64_t));
//
//     counter_actor tally = troupe_spawn(counter, .name = "tally");
//     troupe_tell(tally, counter_add, 5);                    // send and forget
//     troupe_ref sum = troupe_call(tally, counter_add, 10);  // keep a reference to the answer
//     int64_t total;
//     troupe_must(troupe_get(int64_t, sum, &total));         // wait, copy out, release
//
// TROUPE_ACTOR_INIT makes a class whose actors start with arguments. TROUPE_ACTOR_STATIC makes one
// whose methods call each other; it stands before them (detail/class.h has both):
//
//     static troupe_status counter_open(counter *self, const int64_t *start);
//     TROUPE_ACTOR_INIT(counter, (counter_open, int64_t), NULL, (counter_add, int64_t, int64_t));
//     counter_actor tally = troupe_spawn_from(counter, &start);
//
// Messages from one sender to one actor run in the order of sending, unless the actor or the method
// says otherwise (.concurrency, TROUPE_METHOD_URGENT). A call runs at most once, unless it may be
// sent again (.retries), and ends in exactly one way. Every function here may be called from any
// thread of the driver, and in workers from methods and from threads that they made.
// docs/threads.md has the whole table.
#ifndef TROUPE_ACTOR_H
#define TROUPE_ACTOR_H

#include <troupe/object.h>
#include <troupe/runtime.h>

TROUPE_BEGIN_C

// One method of a class: static, made by TROUPE_ACTOR.
typedef struct troupe_method {
    const char *name;
    troupe_status (*run)(void *self, const void *args, void *result);
    const troupe_type *args, *result;
    uint32_t options; // TROUPE_METHOD_*
    uint32_t unused_;
    const char *group; // Methods of a group share a limit, see .groups of troupe_spawn; NULL: none.
} troupe_method;

// Options of a method: (patient_wait, int, int, .options = TROUPE_METHOD_STREAM).
enum {
    TROUPE_METHOD_REPEATABLE = 1u << 8, // It may run twice: calls may have .retries.
    TROUPE_METHOD_STREAM = 1u << 0,     // It returns many values: see troupe_stream in async.h.
    // It runs at once, on a thread of its own, even while another method of the actor is running:
    // to ask a busy actor for its progress, or to tell it to stop. It may read and write what is
    // atomic in the state, and read what never changes after init. It overtakes all messages that
    // wait, earlier calls of the same caller included.
    TROUPE_METHOD_URGENT = 1u << 1,
};

// A class: static, made by TROUPE_ACTOR. Found in other processes by name and schema hash.
typedef struct troupe_class {
    uint32_t abi; // TROUPE_ABI
    const char *name;
    size_t size; // sizeof the state
    const troupe_method *methods;
    size_t method_count;
    const troupe_type *init_args;
    troupe_status (*init)(void *self, const void *args); // NULL: the state starts as zeros.
    void (*deinit)(void *self);                          // NULL: nothing to undo.
    const void *reserved_[4];
} troupe_class;

// Registers a class under its name. TROUPE_ACTOR does it before main; call it yourself for classes
// in object files of a static library that nothing references. `class_` must stay valid for ever.
// TROUPE_EXISTS: another class with this name and other methods is registered; TROUPE_VERSION: made
// for another generation of the library; TROUPE_INVALID: no name, or more than 64 methods.
TROUPE_API troupe_status troupe_class_register(const troupe_class *class_);

// Where an actor lives.
typedef enum troupe_place {
    TROUPE_PLACE_ANY,      // The pool worker with the fewest actors; without a pool, this process.
    TROUPE_PLACE_HERE,     // The process that spawns it.
    TROUPE_PLACE_WORKER,   // A pool worker.
    TROUPE_PLACE_ISOLATED, // A process of its own, where it runs on the main thread.
} troupe_place;

// How long an actor lives, unless it is ended.
typedef enum troupe_lifetime {
    TROUPE_DETACHED, // As long as its process.
    // Until the actor whose method spawned it has ended, for whatever reason. It then ends too,
    // after the method that it is running, with its deinit. Spawned outside methods: as
    // TROUPE_DETACHED.
    TROUPE_OWNED,
} troupe_lifetime;

typedef struct troupe_spawn_options {
    size_t size;
    const char *name; // For troupe_lookup: 1 to 128 of [A-Za-z0-9._/-]. Copied.
    troupe_place place;
    uint32_t mailbox_max; // Messages that may wait in its mailbox; default 65536.
    // With a name: if an actor of this class has that name, its address is returned, and the
    // arguments and other options are ignored. TROUPE_WRONG_TYPE: an actor of another class has the
    // name.
    bool get_if_exists;
    // What the actor holds of its node's resources (troupe_start) as long as it lives; default:
    // nothing. The spawn waits for what is not free; more than the node has fails it with
    // TROUPE_TOO_LARGE. Amounts are exact to 0.0001; above 1, GPUs are whole numbers.
    double cpus;
    // An actor that asks for GPUs is isolated; its process has CUDA_VISIBLE_DEVICES set to the GPUs
    // that it was given before any code runs there.
    double gpus;
    size_t memory_bytes;
    const char *resources; // "license=1,accelerator=0.5".
    // How long the spawn waits for resources before it fails with TROUPE_DEADLINE_EXCEEDED; 0: no
    // limit.
    uint32_t resources_wait_ms;
    // Environment of the process ("KEY=VALUE" lines, which override .worker_env of troupe_start)
    // and its working folder. Isolated actors only: with either, PLACE_ANY means ISOLATED.
    const char *env;
    const char *folder;
    // How often the actor is restarted, with the same init arguments (their references are kept
    // until it has ended for good), when its process crashes, a method calls troupe_actor_fail, or
    // troupe_actor_restart is called; a number, TROUPE_FOREVER, or TROUPE_NONE (the default). Its
    // address stays valid; during a restart, senders wait as for a full mailbox. A failure of the
    // first init is not repeated. A crash that another actor of the same process caused does not
    // count. The state starts anew, unless the class has TROUPE_STATE (life.h).
    int restarts;
    // The time within which `restarts` are counted (`restarts` is then at most 64); 0: all count.
    uint32_t restart_window_ms;
    // The pause before the second restart in a row; it doubles with each further one, up to
    // `backoff_max_ms`; default 10. The first restart is immediate, and so is the next one after
    // the actor has lived for `backoff_reset_ms`. Each restart is logged as a warning with its
    // number, pause and reason, and troupe_actors_list shows the actors that wait for one.
    uint32_t backoff_ms;
    troupe_lifetime lifetime;
    // The actor ends, after the messages in its mailbox, when no process retains it any more. The
    // spawner retains it once: see troupe_actor_release in life.h.
    bool counted;
    int unused_;
    // How many of the actor's methods may run at a time, each on a thread of its own; default 1, at
    // most 1024. The state must be protected (locks, atomics), and messages have no order any more,
    // not even those of one sender. A restart in place waits for the methods that run.
    uint32_t concurrency;
    // "io=2,disk=1": methods whose row says .group = "io" have a limit of their own, separate from
    // the one of all others. TROUPE_INVALID: no method of the class has that group. A group without
    // a limit here counts with the other methods.
    const char *groups;
    // With .restarts, for a class with TROUPE_STATE: the state is saved after every `save_every`
    // messages (urgent ones are not counted), before the last of them is answered. 0: only when a
    // method calls troupe_actor_save. TROUPE_INVALID without .restarts or TROUPE_STATE, or with
    // .concurrency or .groups.
    uint32_t save_every;
    // For `backoff_ms`: the longest pause, default 30,000, and how long the actor must have lived
    // for the pauses to start over, default 60,000. Both 1 ms to a day.
    uint32_t backoff_max_ms;
    uint32_t backoff_reset_ms;
    // How long this spawn may take, in milliseconds: waiting for resources, starting the process
    // and init together. Then it fails with TROUPE_DEADLINE_EXCEEDED, and the error text says what
    // it was waiting for. If init returns later, the actor is ended then; the process of an
    // isolated actor is ended at once. 0: no limit, as for a call: the spawn waits as long as init
    // runs, but fails if the process has been stopped (by a signal) for .request_timeout_ms of
    // troupe_start. The limit covers neither an init in the calling process, which runs on the
    // calling thread, nor restarts.
    uint32_t deadline_ms;
} troupe_spawn_options;

// Starts an actor of `class_` with typed init arguments (NULL: zeros) and returns its address. If
// that failed (init returned a status, the name is taken, the process could not be made), every
// call to the returned address ends with that status and error text, and troupe_actor_status
// returns them. The actor lives until it is killed or stopped, its process ends, or the driver
// ends.
TROUPE_API troupe_actor troupe_spawn_as(const troupe_class *class_, const void *init_args,
                                        const troupe_spawn_options *how);

// Starts `count` actors at once, which takes a fraction of the time of starting them one by one if
// they have processes of their own, and returns when each has started or failed. `init_args` is an
// array of `count` arguments (NULL: zeros for each); `addresses` gets the addresses in the same
// order, each as from troupe_spawn_as: a failed one holds the reason, and the others live. `how`
// applies to each, so the first gets the name and the others fail (TROUPE_EXISTS). Returns the
// status of the first that failed, with the last error set; TROUPE_OK if there is none.
TROUPE_API troupe_status troupe_spawn_many_as(const troupe_class *class_, const void *init_args,
                                              size_t count, troupe_actor *addresses,
                                              const troupe_spawn_options *how);

// The status of the spawn that returned this address: TROUPE_OK, or why it failed (with the last
// error set).
TROUPE_API troupe_status troupe_actor_status(troupe_actor actor);

// Finds a named actor of this node or, if none has that name, of a joined node (see node.h).
// TROUPE_NOT_FOUND: no actor has that name now; TROUPE_NOT_EXECUTED: unknown, because the session
// with a joined node ended before it answered; TROUPE_WRONG_TYPE: the actor is of another class
// (`class_` may be NULL: any class).
TROUPE_API TROUPE_MUST_USE troupe_status troupe_lookup_as(const troupe_class *class_,
                                                          const char *name, troupe_actor *actor);

// Ends an actor at once. Calls that wait in its mailbox end as TROUPE_NOT_EXECUTED. An isolated
// actor's process is killed, and the call that it was running ends as TROUPE_MAYBE_EXECUTED (with
// TROUPE_LOCAL the call ends the same way, but the method runs on). A light actor's running method
// finishes, and its result is delivered. Killing a dead actor is harmless. Messages that the same
// thread sends afterwards find the actor dead. Waits up to 1 s for the actor's process to confirm;
// a process that cannot (stopped by SIGSTOP) acts on the request when it continues.
TROUPE_API troupe_status troupe_actor_kill(troupe_actor actor);

// Ends an actor after the messages that are in its mailbox now; its deinit runs.
TROUPE_API troupe_status troupe_actor_end(troupe_actor actor);

// The address of the actor whose method runs on this thread; `id` is 0 outside methods.
TROUPE_API troupe_actor troupe_self(void);

// Calls `wait(user)`, which may wait for what the library knows nothing of: a lock, a file, another
// program. Returns what that returns. Where this is a method, its actor waits with it, and another
// thread runs the process's other actors at once; elsewhere it is a plain call. `wait` may use the
// library, and wait in it. TROUPE_BUSY: as troupe_get; `wait` was not called.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_blocking_call(troupe_status (*wait)(void *user),
                                                              void *user);

// Sends a call; `args` is copied before it returns. The returned reference stands for the result.
TROUPE_API TROUPE_MUST_USE troupe_ref troupe_call_as(troupe_actor actor, const troupe_class *class_,
                                                     size_t method, const void *args);

// Sends a message without an answer. Returns what is known at once: TROUPE_OK if it was sent,
// TROUPE_NOT_EXECUTED if the actor is known to be dead, TROUPE_TOO_LARGE, or TROUPE_BUSY if its
// mailbox or the queue to its process is full. In that case the sender waits as long as it takes;
// but BUSY is returned at once where the address says TROUPE_CALL_NO_WAIT, in callbacks, and if the
// mailbox is the sender's own; and in other methods after 10 s, or if too many of them wait
// already. The status that the method returns is lost.
TROUPE_API troupe_status troupe_tell_as(troupe_actor actor, const troupe_class *class_,
                                        size_t method, const void *args);

// Calls by name, for tools and other languages: class and method are strings, arguments are
// MessagePack (nil where a method or an init takes none). troupe_get returns the failure of a wrong
// name or wrong arguments.
TROUPE_API troupe_actor troupe_spawn_named(const char *class_name, troupe_bytes init_args,
                                           const troupe_spawn_options *how);
TROUPE_API TROUPE_MUST_USE troupe_ref troupe_call_named(troupe_actor actor, const char *method,
                                                        troupe_bytes args);
TROUPE_API troupe_status troupe_tell_named(troupe_actor actor, const char *method,
                                           troupe_bytes args);

enum {
    TROUPE_CALL_NO_WAIT = 1u << 0, // A full queue gives TROUPE_BUSY at once instead of waiting.
    TROUPE_CALL_FORCE_AT_DEADLINE = 1u << 1, // See .force_at_deadline.
    TROUPE_CALL_RETRY_ERRORS = 1u << 7,      // See .retry_errors.
    TROUPE_CALL_RETRIES_SHIFT = 8,           // Eight bits hold .retries.
    TROUPE_CALL_RETRIES_MAX = 255,
    TROUPE_CALL_WINDOW_SHIFT = 16, // The upper half holds .window.
};

typedef struct troupe_call_options {
    size_t size;
    // The call ends as TROUPE_DEADLINE_EXCEEDED if it is not answered within this time; 0: no
    // deadline.
    uint32_t deadline_ms;
    uint32_t flags; // TROUPE_CALL_NO_WAIT or 0; the others have fields of their own.
    int unused_;
    // When the deadline passes while the method runs, its process is killed, as by troupe_cancel
    // with `.force`; the call fails with TROUPE_UNSUPPORTED unless the actor is isolated. The call
    // ends at its deadline, a moment before the process: calls made in between are lost.
    bool force_at_deadline;
    // For a stream: how many values the method may produce ahead of the reader; default 16, at most
    // 16383.
    uint32_t window;
    // How often a call of a method with TROUPE_METHOD_REPEATABLE (else TROUPE_INVALID) is sent
    // again, within its deadline, when it ended because its actor died or could not be reached. It
    // goes to the same address, so this is for actors that are restarted. The first pause is 5 ms,
    // then it doubles up to 1 s. At most 255. Such calls are not kept in the order of sending. For
    // troupe_call only.
    uint32_t retries;
    bool retry_errors; // Sends it again also when the method itself failed.
} troupe_call_options;

TROUPE_API troupe_actor troupe_actor_with(troupe_actor actor, const troupe_call_options *how);

// A copy of a typed address; the options apply to the calls through this copy:
//     troupe_call(troupe_with(a, .deadline_ms = 50), m)
#define troupe_with(...) TROUPE_WITH_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_WITH_(actor, ...)                                                                   \
    ((__typeof__(actor)){troupe_actor_with(                                                        \
        (actor).address,                                                                           \
        &(troupe_call_options){.size = sizeof(troupe_call_options), __VA_ARGS__})})

// counter_actor a = troupe_spawn(counter, .name = "tally", .place = TROUPE_PLACE_ISOLATED);
#define troupe_spawn(...) TROUPE_SPAWN_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_SPAWN_(C, ...)                                                                      \
    ((C##_actor){troupe_spawn_as(                                                                  \
        &troupe_class_##C, NULL,                                                                   \
        &(troupe_spawn_options){.size = sizeof(troupe_spawn_options), __VA_ARGS__})})

// The same with init arguments: troupe_spawn_from(counter, &start, .name = "tally"). `start` is a
// named variable: a compound literal with a comma in it cannot be an argument of a macro.
#define troupe_spawn_from(...) TROUPE_SPAWN_FROM_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_SPAWN_FROM_(C, args, ...)                                                           \
    ((C##_actor){troupe_spawn_as(                                                                  \
        &troupe_class_##C, TROUPE_POINTER(const troupe_init_args_##C, args),                       \
        &(troupe_spawn_options){.size = sizeof(troupe_spawn_options), __VA_ARGS__})})

// counter_actor all[100];
// troupe_must(troupe_spawn_many(counter, 100, all, .place = TROUPE_PLACE_ISOLATED));
#define troupe_spawn_many(...) TROUPE_SPAWN_MANY_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_SPAWN_MANY_(C, count, addresses, ...)                                               \
    troupe_spawn_many_as(                                                                          \
        &troupe_class_##C, NULL, (count), &TROUPE_POINTER(C##_actor, addresses)->address,          \
        &(troupe_spawn_options){.size = sizeof(troupe_spawn_options), __VA_ARGS__})

// The same with init arguments, an array of `count`:
// troupe_must(troupe_spawn_many_from(counter, starts, 100, all));
#define troupe_spawn_many_from(...) TROUPE_SPAWN_MANY_FROM_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_SPAWN_MANY_FROM_(C, args, count, addresses, ...)                                    \
    troupe_spawn_many_as(                                                                          \
        &troupe_class_##C, TROUPE_POINTER(const troupe_init_args_##C, args), (count),              \
        &TROUPE_POINTER(C##_actor, addresses)->address,                                            \
        &(troupe_spawn_options){.size = sizeof(troupe_spawn_options), __VA_ARGS__})

// troupe_must(troupe_lookup(counter, "tally", &tally));
#define troupe_lookup(C, name, actor)                                                              \
    troupe_lookup_as(&troupe_class_##C, (name), &TROUPE_POINTER(C##_actor, actor)->address)

// The address behind a handle, which must be one of the method's class.
#define TROUPE_TARGET_(m, actor)                                                                   \
    __extension__({                                                                                \
        TROUPE_METHOD_HANDLE_(m) troupe_target_;                                                   \
        troupe_target_ = (actor);                                                                  \
        troupe_target_.address;                                                                    \
    })

// troupe_call(actor, method, argument...): the arguments initialise one value of the method's type.
// Where fields are named, others may be left out: troupe_call(canvas, canvas_draw, .x = 1).
#define troupe_call(actor, ...) TROUPE_CALL_(actor, __VA_ARGS__, )
#define TROUPE_CALL_(actor, m, ...)                                                                \
    troupe_call_as(TROUPE_TARGET_(m, actor), TROUPE_METHOD_(m),                                    \
                   __extension__ &(TROUPE_METHOD_ARGUMENTS_(m)){__VA_ARGS__})
#define troupe_tell(actor, ...) TROUPE_TELL_(actor, __VA_ARGS__, )
#define TROUPE_TELL_(actor, m, ...)                                                                \
    troupe_tell_as(TROUPE_TARGET_(m, actor), TROUPE_METHOD_(m),                                    \
                   __extension__ &(TROUPE_METHOD_ARGUMENTS_(m)){__VA_ARGS__})

// With a pointer to the whole argument: for a struct that exists already, a troupe_ref or a
// troupe_tensor among them, and for literals:
//     troupe_call_from(canvas, canvas_draw, &corner);
//     troupe_call_from(canvas, canvas_draw, &(point){1, 2});
#define troupe_call_from(actor, m, ...)                                                            \
    troupe_call_as(TROUPE_TARGET_(m, actor), TROUPE_METHOD_(m),                                    \
                   TROUPE_POINTER(TROUPE_METHOD_ARGUMENTS_(m), (__VA_ARGS__)))
#define troupe_tell_from(actor, m, ...)                                                            \
    troupe_tell_as(TROUPE_TARGET_(m, actor), TROUPE_METHOD_(m),                                    \
                   TROUPE_POINTER(TROUPE_METHOD_ARGUMENTS_(m), (__VA_ARGS__)))

// The functions about an actor of any class, troupe_actor_..., take a typed handle or its address.
#define TROUPE_ADDRESS_(actor)                                                                     \
    __extension__({                                                                                \
        __typeof__(actor) troupe_of_ = (actor);                                                    \
        TROUPE_STATIC_ASSERT_(sizeof troupe_of_ == sizeof(troupe_actor), "an actor is expected");  \
        *(const troupe_actor *)&troupe_of_;                                                        \
    })
#define troupe_actor_status(actor) troupe_actor_status(TROUPE_ADDRESS_(actor))
#define troupe_actor_kill(actor) troupe_actor_kill(TROUPE_ADDRESS_(actor))
#define troupe_actor_end(actor) troupe_actor_end(TROUPE_ADDRESS_(actor))

TROUPE_END_C

#include <troupe/detail/class.h>

#endif
