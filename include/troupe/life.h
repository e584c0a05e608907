// life.h: how actors end, which actors are notified, and how they are restarted.
//
// An actor ends once, for one reason; every actor that monitors it is told that reason:
//
//     static troupe_status boss_lost(boss *self, const troupe_down *down, troupe_none *out);
//     ...
//     troupe_monitor_start(worker, boss_lost);           // in a method of boss: a message
//     troupe_actor_await_end(worker.address, 1000, &down);  // anywhere: waits for the end
//
// An actor spawned with .restarts is restarted when it crashes, under the same address.
#ifndef TROUPE_LIFE_H
#define TROUPE_LIFE_H

#include <troupe/actor.h>

TROUPE_BEGIN_C

// Why an actor ended.
typedef enum troupe_down_reason {
    // It was asked to end, or did so itself (troupe_actor_end, troupe_actor_exit).
    TROUPE_DOWN_NORMAL = 1,
    TROUPE_DOWN_ERROR,     // troupe_actor_fail, or its init failed.
    TROUPE_DOWN_KILLED,    // troupe_actor_kill, or force at the deadline of troupe_actor_stop.
    TROUPE_DOWN_CRASHED,   // Its process was killed by a signal (.signal), or exited.
    TROUPE_DOWN_NO_MEMORY, // Its process was killed at the memory limit.
    TROUPE_DOWN_NEIGHBOUR, // Another actor of its process crashed the process.
    TROUPE_DOWN_NO_ACTOR,  // It never existed, or ended too long ago to be remembered.
    TROUPE_DOWN_RUNTIME,   // The runtime was stopped or lost.
    TROUPE_DOWN_NODE,      // The session with its node has ended (node.h); it may live on.
} troupe_down_reason;

// What is reported of an actor's end.
TROUPE_STRUCT(troupe_down, (troupe_actor, actor), // Its address, as it was given to be monitored.
              (uint64_t, monitor),                // What troupe_monitor_start returned; 0: none.
              (int32_t, reason),                  // troupe_down_reason
              (int32_t, signal),                  // For CRASHED; 0: none.
              (troupe_text, text));               // "was killed by signal 11 (...)".

// The name of a reason as it is written in C: a static string, never NULL.
TROUPE_API const char *troupe_down_reason_name(int reason);

// ---- notification

// From inside a method: when `actor` ends, method number `method` of `class_`, which must be the
// calling actor's own class and take a troupe_down, is called once, even if its mailbox is full. If
// the actor has ended already it is called at once; if there never was one, with
// TROUPE_DOWN_NO_ACTOR. An actor with a restart policy has ended only when it is not restarted.
// Returns the monitor's number; 0 with the last error set: TROUPE_INVALID (not inside a method, or
// of another class), TROUPE_WRONG_TYPE (the method takes something else), TROUPE_NO_MEMORY. The
// monitor ends with the calling actor.
TROUPE_API uint64_t troupe_monitor_start_as(troupe_actor actor, const troupe_class *class_,
                                            size_t method);
#define troupe_monitor_start(actor, m)                                                             \
    troupe_monitor_start_as(TROUPE_ADDRESS_(actor), troupe_method_##m.class_, TROUPE_DOWN_INDEX_(m))
// The method's number; does not compile unless the method takes a troupe_down.
#define TROUPE_DOWN_INDEX_(m)                                                                      \
    (troupe_method_##m.index +                                                                     \
     0 * sizeof(struct {                                                                           \
         _Static_assert(__builtin_types_compatible_p(TROUPE_METHOD_ARGUMENTS_(m), troupe_down),    \
                        "a method that is told of ends takes a troupe_down, and " #m " does not"); \
         char unused;                                                                              \
     }))

// Ends a monitor of the calling actor. False: it has none with that number any more: the monitor's
// message has been sent, and may wait in the mailbox.
TROUPE_API bool troupe_monitor_stop(uint64_t monitor);

// Waits until `actor` has ended, at most `timeout_ms`, and sets *down (may be NULL; its text is in
// the thread's arena). TROUPE_TIMED_OUT: it still lives; TROUPE_DEADLOCK: an actor waits for its
// own end; TROUPE_BUSY: as troupe_get.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_actor_await_end(troupe_actor actor, int timeout_ms,
                                                                troupe_down *down);
#define troupe_actor_await_end(actor, timeout_ms, down)                                            \
    troupe_actor_await_end(TROUPE_ADDRESS_(actor), (timeout_ms), (down))

// From inside a method: links the calling actor and `other`. When one of them ends for another
// reason than TROUPE_DOWN_NORMAL, the other one ends too, with that reason, after the method that
// it is running; its deinit runs. An `other` that has ended already ends the caller, unless it
// ended normally. TROUPE_INVALID: not inside a method, or a link to itself.
TROUPE_API troupe_status troupe_actor_link(troupe_actor other);
#define troupe_actor_link(actor) troupe_actor_link(TROUPE_ADDRESS_(actor))
// Removes the link.
TROUPE_API troupe_status troupe_actor_unlink(troupe_actor other);
#define troupe_actor_unlink(actor) troupe_actor_unlink(TROUPE_ADDRESS_(actor))

// From inside a method: from now on, the end of a linked actor, a normal one included, is reported
// to this method of the calling actor instead of ending it. Errors as troupe_monitor_start.
TROUPE_API troupe_status troupe_actor_trap_ends_as(const troupe_class *class_, size_t method);
#define troupe_actor_trap_ends(m)                                                                  \
    troupe_actor_trap_ends_as(troupe_method_##m.class_, TROUPE_DOWN_INDEX_(m))

// ---- ending

typedef struct troupe_actor_exit_options {
    size_t size;
    bool drain;       // Messages that are in the mailbox now are run first.
    const char *text; // The reason in words, for monitors and links. Copied.
    int unused_;
} troupe_actor_exit_options;

// From inside a method: the actor ends, normally, when this call has been answered; messages after
// it end as TROUPE_NOT_EXECUTED; deinit runs. TROUPE_INVALID: not inside a method.
TROUPE_API troupe_status troupe_actor_exit_with(const troupe_actor_exit_options *how);
#define troupe_actor_exit(...)                                                                     \
    troupe_actor_exit_with(&(troupe_actor_exit_options){                                           \
        .size = sizeof(troupe_actor_exit_options), .unused_ = 0, __VA_ARGS__})

// From inside a method, "let it crash": when this method has returned, the actor ends with
// TROUPE_DOWN_ERROR and this text, or is restarted if its policy allows it. Its deinit runs.
// Returns `status`, so that a method can end with `return troupe_actor_fail(status, "...")`; the
// call itself fails with that error text.
TROUPE_API troupe_status troupe_actor_fail(troupe_status status, const char *format, ...)
    TROUPE_PRINTF(2, 3);

// Ends an actor and waits until it is gone: the messages in its mailbox run, then its deinit. After
// `force_after_ms` (TROUPE_FOREVER: never; 0: at once) it is killed, 50 ms later at most. An
// isolated actor's process is killed. A light actor's mailbox is closed at once: calls that wait in
// it end as TROUPE_NOT_EXECUTED, the call that it is running as TROUPE_MAYBE_EXECUTED, and the
// actor is gone after that method. The actor is not restarted. TROUPE_OK: it has ended;
// TROUPE_DEADLINE_EXCEEDED: it was killed; TROUPE_DEADLOCK: called from inside the actor itself.
TROUPE_API troupe_status troupe_actor_stop(troupe_actor actor, int force_after_ms);
// troupe_actor_stop(actor): never by force; troupe_actor_stop(actor, 500)
#define troupe_actor_stop(...) TROUPE_ACTOR_STOP_(__VA_ARGS__, )
#define TROUPE_ACTOR_STOP_(actor, ...)                                                             \
    troupe_actor_stop(TROUPE_ADDRESS_(actor), TROUPE_TIMEOUT_(__VA_ARGS__))

// ---- reference counting

// An actor spawned with .counted lives until the last of its retains is released; those of a
// process that died are released. Copying an address retains nothing: a sender that passes one on
// keeps its own retain until the receiver has made one. The first retain of a process asks the
// actor's process; others only count. TROUPE_NOT_EXECUTED: the actor has ended, or is not counted;
// TROUPE_DEADLINE_EXCEEDED: its process has not answered within .request_timeout_ms of
// troupe_start.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_actor_retain(troupe_actor actor);
// Releases one retain. TROUPE_INVALID: this process has none.
TROUPE_API troupe_status troupe_actor_release(troupe_actor actor);
#define troupe_actor_retain(actor) troupe_actor_retain(TROUPE_ADDRESS_(actor))
#define troupe_actor_release(actor) troupe_actor_release(TROUPE_ADDRESS_(actor))

// ---- restarts

typedef struct troupe_actor_restart_options {
    size_t size;
    // The state is not saved before, even if the class can, and an isolated actor's process is
    // killed whatever it is doing.
    bool at_once;
    int unused_;
} troupe_actor_restart_options;

// Ends an actor and restarts it by its policy (.restarts of its spawn). A light one restarts in
// place, after the method that it is running. An isolated one's process is killed, and the calls
// that it was running or had in its mailbox end as TROUPE_MAYBE_EXECUTED. If the class has
// TROUPE_STATE, the state is saved first, after the method that is running, so that the restarted
// actor has it. Waits only for the actor's process to accept the request. TROUPE_NOT_EXECUTED: the
// actor has ended; TROUPE_UNSUPPORTED: it has no policy; TROUPE_DEADLINE_EXCEEDED (its process has
// not answered within .request_timeout_ms of troupe_start: it may be stopped) and TROUPE_BUSY (as
// troupe_get): it may be restarted all the same.
TROUPE_API troupe_status troupe_actor_restart_with(troupe_actor actor,
                                                   const troupe_actor_restart_options *how);
#define troupe_actor_restart(...) TROUPE_ACTOR_RESTART_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_ACTOR_RESTART_(actor, ...)                                                          \
    troupe_actor_restart_with(TROUPE_ADDRESS_(actor),                                              \
                              &(troupe_actor_restart_options){                                     \
                                  .size = sizeof(troupe_actor_restart_options), __VA_ARGS__})

// Inside init or a method: how often the actor has been restarted; 0: never, or called outside.
TROUPE_API uint32_t troupe_actor_restarts(void);

// ---- the state that a restart keeps
//
// A restarted actor begins with its init and none of its former state. The class says what is
// carried over:
//
//     TROUPE_STRUCT(tally_image, (int64_t, total));
//     static troupe_status tally_save(tally *self, tally_image *image);
//     static troupe_status tally_restore(tally *self, const tally_image *image);
//     TROUPE_ACTOR(tally, (tally_add, int64_t, int64_t));
//     TROUPE_STATE(tally, tally_image, tally_save, tally_restore);
//
//     tally_actor one = troupe_spawn(tally, .restarts = 3, .save_every = 1);
//
// `save` fills an image, which begins as zeros and may point into the state and the thread's arena;
// it is packed and kept outside the actor's process at once. It is called when a method calls
// troupe_actor_save, after every `.save_every` messages, and before troupe_actor_restart restarts
// the actor; not after troupe_actor_fail or a crash, since that state is what failed. On the next
// start, wherever that is, `restore` gets the last image, after init; if nothing was saved, only
// init runs. What the image points to is borrowed until `restore` returns; references in it are
// held with the image, so a state that is to go on using one keeps it (troupe_ref_keep). A
// `restore` that fails makes the start fail. Neither is called for an actor that was spawned
// without .restarts.

// A class's state hooks: static, made by TROUPE_STATE.
typedef struct troupe_state {
    uint32_t abi; // TROUPE_ABI
    const troupe_type *image;
    troupe_status (*save)(void *self, void *image);
    troupe_status (*restore)(void *self, const void *image);
    const void *reserved_[4];
} troupe_state;

// Registers the state hooks of a class. TROUPE_STATE does it before main; as troupe_class_register.
// Both pointers must stay valid for ever. TROUPE_EXISTS: the class has other hooks, with an image
// of another type; TROUPE_VERSION, TROUPE_INVALID: as there.
TROUPE_API troupe_status troupe_state_register(const troupe_class *class_,
                                               const troupe_state *state);

// Saves the state of the actor whose method or init runs on this thread, which takes a round trip
// to another process. After TROUPE_OK the image outlives the actor's process. An image saved by
// init counts once init has succeeded, and only if there is none of a former life, which would be
// restored instead. On failure the previous image stays: the status of `save`; TROUPE_UNSUPPORTED:
// the actor has no .restarts, or its class no hooks; TROUPE_TOO_LARGE: outside the driver, image
// and init arguments, packed, plus 8 KiB exceed .message_bytes_max, in which they would travel to
// the next start; TROUPE_NO_MEMORY; TROUPE_INVALID: not inside a method, or inside `save`;
// TROUPE_BUSY: as troupe_get, and the image may have been kept.
TROUPE_API troupe_status troupe_actor_save(void);

#define TROUPE_STATE(C, image, save, restore)                                                      \
    static troupe_status troupe_save_##C(void *troupe_self_, void *troupe_out_)                    \
    {                                                                                              \
        return save((C *)troupe_self_, (image *)troupe_out_);                                      \
    }                                                                                              \
    static troupe_status troupe_restore_##C(void *troupe_self_, const void *troupe_from_)          \
    {                                                                                              \
        return restore((C *)troupe_self_, (const image *)troupe_from_);                            \
    }                                                                                              \
    static const troupe_state troupe_state_##C = {                                                 \
        TROUPE_ABI, &troupe_type_##image, troupe_save_##C, troupe_restore_##C, {NULL}};            \
    __attribute__((constructor)) static void troupe_register_state_##C(void)                       \
    {                                                                                              \
        (void)troupe_state_register(&troupe_class_##C, &troupe_state_##C);                         \
    }                                                                                              \
    _Static_assert(sizeof(C) > 0, #C)

TROUPE_END_C

#endif
