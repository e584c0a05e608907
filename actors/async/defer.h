// defer.h: answers that a method has promised to give later.
#ifndef TRP_ASYNC_DEFER_H
#define TRP_ASYNC_DEFER_H

#include <actors/async/async.h>

// Whether the actor owes that caller an answer: then it is void from now on. With the lock held.
bool trp_deferral_cancel(trp_async *async, const trp_caller *caller);

// Whether the actor owes that caller an answer.
bool trp_deferral_is(trp_actor *actor, const trp_caller *caller);

// The method that deferred its answer has failed, and says so itself.
void trp_deferral_void(trp_running *here);

// A copy in the arena of a value that is not a method's own, whose references are given away.
troupe_status trp_value_give(const trp_shape *shape, const void *value, trp_arena *arena,
                             void **copy);

// The actor with that id has ended: who waits gets a failure.
void trp_deferrals_end(trp_async *async, uint64_t id);

#endif
