// actor_list.h: asking every process of the node for what only it sees, by a task of the library's
// own.
#ifndef TRP_OBSERVE_ACTOR_LIST_H
#define TRP_OBSERVE_ACTOR_LIST_H

#include <troupe/actor.h>

// Runs the task in each process that there is, with an answer expected within 2 s; how many were
// asked. `refs` has room for TRP_PROCESSES_MAX.
size_t trp_observe_ask(const troupe_class *task, const void *args, troupe_ref *refs);

#endif
