// observe.h: which actors there are, where they live, what they do and how long it takes, and what
// uses the node's memory.
#ifndef TROUPE_OBSERVE_H
#define TROUPE_OBSERVE_H

#include <troupe/actor.h>

TROUPE_BEGIN_C

typedef enum troupe_actor_state {
    TROUPE_ACTOR_RESTING, // It has nothing to do.
    TROUPE_ACTOR_BUSY,    // A method runs, or is about to.
    TROUPE_ACTOR_WAITING, // Its method waits: `waits_for` says for what.
    TROUPE_ACTOR_ENDING,  // It has been killed or ended, and its last method still runs.
    // It failed, or its process died, and it restarts after `restart_in_s`.
    TROUPE_ACTOR_RESTARTING,
} troupe_actor_state;

TROUPE_STRUCT(troupe_actor_info, (troupe_actor, address), // To call, kill or end it.
              (troupe_text, label),                       // "counter#3", "counter 'tally'"
              (troupe_text, class_name), (int32_t, pid),  // Its process; 0: it has none yet.
              (bool, busy),                               // It runs a method, or is about to.
              (uint32_t, waiting),                        // Messages in its mailbox.
              (uint64_t, calls), // Messages that it has run since it was spawned,
              (double, cpu_s),   // and the CPU time they took, estimated from samples.
              (int32_t, state),  // A troupe_actor_state.
              // Restarts so far, in this process and in others; 65,535 or more are 65,535.
              (uint32_t, restarts),
              // What its method waits for, as text: "counter_add of counter#3", "room in the
              // mailbox of clock#5". NULL: nothing, or the wait has just begun or ended.
              (troupe_text, waits_for),
              // In TROUPE_ACTOR_RESTARTING: what is left of the pause before the restart.
              (double, restart_in_s));

typedef struct troupe_actor_list {
    troupe_array_troupe_actor_info actors; // In the calling thread's arena.
    size_t total;                          // All that exist, also those beyond `most`.
    size_t silent; // Processes that did not answer within 2 s: their actors are missing.
} troupe_actor_list;

// Lists the actors of all processes of the node, executors of tasks included, at most `most` (0:
// 10,000) of each process. Each process answers from its own threads, so the list is not an atomic
// snapshot. Errors: TROUPE_NOT_STARTED, TROUPE_RUNTIME_LOST, TROUPE_NO_MEMORY.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_actors_list(size_t most,
                                                                     troupe_actor_list *list,
                                                                     size_t size);
#define troupe_actors_list(most, list) troupe_actors_list((most), (list), sizeof(troupe_actor_list))

typedef struct troupe_actors_list_options {
    size_t size; // Set by the caller: sizeof(troupe_actors_list_options).
    size_t most; // Actors listed of each process; 0: 10,000.
    int pid;     // Any process of another node of this machine and user; 0: this node.
} troupe_actors_list_options;

// The same for another node on this machine. It need not be joined, and this process needs no node
// of its own: the other node's driver is asked, which answers only its own user and root. The
// addresses in the list are that node's, and can be called from there only. Further errors:
// TROUPE_NOT_FOUND (`pid` belongs to no node, or access is denied), TROUPE_VERSION (the node has
// another version of the library), TROUPE_DEADLINE_EXCEEDED (its driver has not answered within 10
// s), TROUPE_UNSUPPORTED (a node in one process, TROUPE_LOCAL=1), TROUPE_IO.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_actors_list_with(
    troupe_actor_list *list, size_t size, const troupe_actors_list_options *how);

// ---- how long methods take: measured with .measure = true of troupe_start, or the variable
// TROUPE_MEASURE=1

// Percentiles are at most 1/16 too high, and never above max_s, which is exact. Values above 18
// minutes count as the highest.
TROUPE_STRUCT(troupe_latency, (double, p50_s), (double, p99_s), (double, p999_s), (double, max_s));

TROUPE_STRUCT(troupe_method_info, (troupe_text, class_name), (troupe_text, method),
              (uint64_t, count), // How often it has run since the runtime was started.
              // From the message's arrival in the mailbox until it was taken out.
              (troupe_latency, waited),
              // The method itself, its waits and the sending of its result included. For a
              // streaming method: until the last value.
              (troupe_latency, ran));

typedef struct troupe_method_list {
    troupe_array_troupe_method_info methods; // In the calling thread's arena, unordered.
    size_t silent; // Processes that did not answer within 2 s: their methods are missing.
} troupe_method_list;

// Lists each method of each class that has run, tasks included (their class and method have one
// name), summed over all living processes of the node: processes that have ended are not included.
// A call may have been answered a moment before it is counted. Errors: TROUPE_UNSUPPORTED (nothing
// is measured), TROUPE_NOT_STARTED, TROUPE_RUNTIME_LOST, TROUPE_NO_MEMORY.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_methods_list(troupe_method_list *list,
                                                                      size_t size);
#define troupe_methods_list(list) troupe_methods_list((list), sizeof(troupe_method_list))

// ---- what the node's store holds: what the command `troupe memory` shows

typedef enum troupe_object_state {
    TROUPE_OBJECT_FILLING,  // Made by troupe_buffer_create, or being written.
    TROUPE_OBJECT_PROMISED, // The result of a call that has not ended.
    TROUPE_OBJECT_SEALED,
    TROUPE_OBJECT_FAILED,  // The result of a call that failed.
    TROUPE_OBJECT_SHARED,  // Writable by all its holders.
    TROUPE_OBJECT_ON_DISK, // Sealed; moved to disk because the store was full.
    TROUPE_OBJECT_LOST,    // The same, but its file is gone or damaged.
} troupe_object_state;

typedef enum troupe_object_kind {
    TROUPE_OBJECT_VALUE,    // Made by troupe_put.
    TROUPE_OBJECT_BUFFER,   // Made by troupe_buffer_create.
    TROUPE_OBJECT_RESULT,   // The result of a call.
    TROUPE_OBJECT_ARGUMENT, // Arguments of a call that are too large for a message.
    TROUPE_OBJECT_REGION,   // Memory that processes share.
    TROUPE_OBJECT_CHANNEL,
    // The runtime's own: rings between processes, lists of the references in large objects. They
    // count for no process in what follows.
    TROUPE_OBJECT_INNER,
    TROUPE_OBJECT_KINDS,
} troupe_object_kind;

// "sealed", "value": static strings, also for numbers out of range.
TROUPE_EXPERIMENTAL const char *troupe_object_state_name(int state);
TROUPE_EXPERIMENTAL const char *troupe_object_kind_name(int kind);

TROUPE_STRUCT(troupe_object_holder, (uint32_t, process), (int32_t, pid),
              (troupe_text, label), // "driver", "worker 3", the name of an isolated actor.
              (uint32_t, holds), (uint32_t, pins)); // `holds` counts the pins too: views, readers.

TROUPE_STRUCT(troupe_object_info, (uint64_t, id),        // As in its references.
              (uint64_t, bytes), (uint64_t, bytes_used), // Its size, and as allocated.
              (double, age_s),                           // Since it was made,
              (double, idle_s),                          // and since a reader last came or went.
              (int32_t, state), (int32_t, kind),         // troupe_object_state, troupe_object_kind
              (troupe_text, type_name),                  // NULL: not known.
              (uint32_t, maker), (int32_t, maker_pid),   // The process that made it. It may be
              (troupe_text, maker_label),                // gone, and its number have been reused.
              (troupe_array_troupe_object_holder, holders));

// An object that several processes hold counts in full for each of them.
TROUPE_STRUCT(troupe_memory_process, (uint32_t, process), (int32_t, pid), (troupe_text, label),
              (uint64_t, objects), (uint64_t, bytes_used),   // What it holds,
              (uint64_t, pinned), (uint64_t, bytes_pinned)); // and what it is reading now.

TROUPE_STRUCT(troupe_memory_kind, (uint64_t, objects), (uint64_t, bytes_used));

typedef struct troupe_memory {
    uint64_t objects, bytes_used; // As troupe_store_usage: without the runtime's own.
    uint64_t bytes_inner;         // The runtime's own.
    uint64_t objects_on_disk;     // Objects that are on disk because the store was full,
    uint64_t bytes_on_disk;       // and their sizes.
    uint64_t bytes_backed;        // Memory that the store has taken from the system.
    uint64_t bytes_max;           // The limit of that.
    uint64_t bytes_free;          // What is left below the limit, in whole pages of 64 KiB,
    uint64_t bytes_free_longest;  // and the longest run of such pages.
    int driver_pid;
    troupe_memory_kind kinds[TROUPE_OBJECT_KINDS];
    troupe_array_troupe_memory_process processes; // All that hold objects, the largest first.
    troupe_array_troupe_object_info items; // The largest first, in the calling thread's arena.
} troupe_memory;

typedef struct troupe_memory_options {
    size_t size;
    size_t most; // Objects that are listed; 0: 10,000.
    int pid;     // Any process of another node of this machine and user; 0: this node.
    bool inner;  // Lists the runtime's own too.
    int unused_;
} troupe_memory_options;

// Looks at each object once, in time that grows with their number, without a lock and without
// asking other processes: it works while processes hang, and delays none. The result is therefore
// not an atomic snapshot; an object that is made or freed meanwhile may be missing. Errors:
// TROUPE_NOT_STARTED, TROUPE_NOT_FOUND (`pid` belongs to no node, or access is denied),
// TROUPE_VERSION (the node has another version of the library), TROUPE_NO_MEMORY.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_memory_get_with(troupe_memory *memory, size_t size, const troupe_memory_options *how);
#define troupe_memory_get(...) TROUPE_MEMORY_GET_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_MEMORY_GET_(memory, ...)                                                            \
    troupe_memory_get_with(                                                                        \
        (memory), sizeof(troupe_memory),                                                           \
        &(troupe_memory_options){.size = sizeof(troupe_memory_options), __VA_ARGS__})

TROUPE_END_C

#endif
