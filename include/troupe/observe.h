// observe.h: which actors there are, where they live, what they do, and how long it takes.
#ifndef TROUPE_OBSERVE_H
#define TROUPE_OBSERVE_H

#include <troupe/actor.h>

TROUPE_BEGIN_C

typedef enum troupe_actor_state {
    TROUPE_ACTOR_RESTING, // Nothing is there to be done.
    TROUPE_ACTOR_BUSY,    // A method runs, or is about to.
    TROUPE_ACTOR_WAITING, // Its method waits: `waits_for` says for what.
    TROUPE_ACTOR_ENDING,  // It has been killed or ended, and what still runs is its last.
} troupe_actor_state;

TROUPE_STRUCT(troupe_actor_info, (troupe_actor, address), // To call, kill or end it.
              (troupe_text, label),                       // "counter#3", "counter 'tally'"
              (troupe_text, class_name), (int32_t, pid),  // Of its process.
              (bool, busy),                               // It runs a method, or is about to.
              (uint32_t, waiting),                        // Messages in its mailbox.
              (uint64_t, calls), // Messages that it has run, since it was spawned,
              (double, cpu_s),   // and about how much CPU time they took, from samples.
              (int32_t, state),  // A troupe_actor_state.
              (uint32_t,
               restarts), // So far, in this process and in others; 65,535 stands for more.
              // What its method waits for, in words for people: "counter_add of counter#3", "room
              // in the mailbox of clock#5". NULL: nothing, or it has just begun or ended to.
              (troupe_text, waits_for));

typedef struct troupe_actor_list {
    troupe_array_troupe_actor_info actors; // In the calling thread's arena.
    size_t total;                          // All that there were: more, if `most` was reached.
    size_t silent; // Processes that did not answer within 2 s: their actors are missing.
} troupe_actor_list;

// Lists the actors of all processes of the node, executors of tasks included, at most `most` (0:
// 10,000) of each process. Each process is asked on its own threads, so that the list is no picture
// of one moment. Errors: TROUPE_NOT_STARTED, TROUPE_RUNTIME_LOST, TROUPE_NO_MEMORY.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_actors_list(size_t most, troupe_actor_list *list);

// ---- how long methods take: measured if troupe_start was given .measure = true, or the variable
// TROUPE_MEASURE is 1

// Percentiles are at most 1/16 too long, and never above max_s, which is exact. What took longer
// than 18 minutes counts as the longest.
TROUPE_STRUCT(troupe_latency, (double, p50_s), (double, p99_s), (double, p999_s), (double, max_s));

TROUPE_STRUCT(troupe_method_info, (troupe_text, class_name), (troupe_text, method),
              (uint64_t, count), // How often it has run, since the runtime was started.
              // From when the message was in the mailbox, in the actor's process, until it was
              // taken out.
              (troupe_latency, waited),
              // The method itself, with what it waited for and with the handing over of its
              // answer. Of a streaming method: until the last value.
              (troupe_latency, ran));

typedef struct troupe_method_list {
    troupe_array_troupe_method_info methods; // In the calling thread's arena, in no order.
    size_t silent; // Processes that did not answer within 2 s: what ran there is missing.
} troupe_method_list;

// Lists each method of each class that has run, tasks included (their class and method have one
// name), added up over all processes of the node that live: what ran in a process that has ended is
// not in it. A call may have been answered a moment before it is counted. Errors:
// TROUPE_UNSUPPORTED (nothing is measured), TROUPE_NOT_STARTED, TROUPE_RUNTIME_LOST,
// TROUPE_NO_MEMORY.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_methods_list(troupe_method_list *list);

TROUPE_END_C

#endif
