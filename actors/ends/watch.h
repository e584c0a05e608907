// watch.h: the watches of this process: what here waits for the end of which actor.
#ifndef TRP_ENDS_WATCH_H
#define TRP_ENDS_WATCH_H

#include <actors/actor/lifecycle.h>

// Calls `told` once, on a thread that must not wait, when the actor ends; at once if it has.
// Returns the watch's number; 0 with the last error set. `owner` (0: none) is the actor whose end
// ends it.
typedef void trp_watch_told(void *user, uint64_t owner, uint64_t number, const trp_down *down);
uint64_t trp_watch(troupe_actor actor, uint64_t owner, trp_watch_told *told, void *user);
// True: `told` has not been called and never will; `user` is the caller's again. `owner` 0: any.
bool trp_watch_drop(uint64_t number, uint64_t owner, void **user);
// The same without a `user`, unless the owner has such a watch.
troupe_status trp_watch_once(troupe_actor actor, uint64_t owner, trp_watch_told *told);
// The number of such a watch; 0: there is none.
uint64_t trp_watch_find(uint64_t owner, troupe_actor target, trp_watch_told *told);
// Ends those of an actor that has ended; `user` is freed by trp_free.
void trp_watch_drop_all(uint64_t owner);
// Tells a watch of whatever process.
void trp_watch_tell(const trp_watcher *watcher, const trp_down *down);
// A process has died; NULL: the runtime ends.
void trp_watch_death(const uint64_t *incarnation);
void trp_watch_serve(const trp_frame *frame);

#endif
