// reclaim.h: memory of unused pages goes back to the system (see
// docs/internals/runtime/memory-reclaim.md).
#ifndef TRP_SHM_RECLAIM_H
#define TRP_SHM_RECLAIM_H

#include <runtime/shm/pages.h>

// Gives pages back to the system that have been free since the last call, but for some, as they
// will be wanted soon: an eighth of what is in use, and at least `keep`. Whether another call, in a
// while, might give more.
bool trp_pages_give(uint32_t process, uint32_t keep);

// The same when it is time, with TRP_PAGES_KEEP, for a thread of the node process that waits:
// returns for how many ms; negative: until it is rung (TRP_AWAITED_IDLE).
int trp_pages_tend(void);

#endif
