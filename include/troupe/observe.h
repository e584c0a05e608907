// observe.h: which actors there are, where they live, and what they do.
#ifndef TROUPE_OBSERVE_H
#define TROUPE_OBSERVE_H

#include <troupe/actor.h>

TROUPE_BEGIN_C

TROUPE_STRUCT(troupe_actor_info, (troupe_actor, address), // To call, kill or end it.
              (troupe_text, label),                       // "counter#3", "counter 'tally'"
              (troupe_text, class_name), (int32_t, pid),  // Of its process.
              (bool, busy),                               // It runs a method, or is about to.
              (uint32_t, waiting),                        // Messages in its mailbox.
              (uint64_t, calls), // Messages that it has run, since it was spawned,
              (double, cpu_s));  // and about how much CPU time they took, from samples.

typedef struct troupe_actor_list {
    troupe_array_troupe_actor_info actors; // In the calling thread's arena.
    size_t total;                          // All that there were: more, if `most` was reached.
    size_t silent; // Processes that did not answer within 2 s: their actors are missing.
} troupe_actor_list;

// Lists the actors of all processes of the node, executors of tasks included, at most `most` (0:
// 10,000) of each process. Each process is asked on its own threads, so that the list is no picture
// of one moment. Errors: TROUPE_NOT_STARTED, TROUPE_RUNTIME_LOST, TROUPE_NO_MEMORY.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_actors_list(size_t most, troupe_actor_list *list);

TROUPE_END_C

#endif
