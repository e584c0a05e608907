// worker_load.h: the pool's workers as this process sees them: which it knows, and how many of its
// unfinished tasks each has.
#ifndef TRP_TASK_WORKER_LOAD_H
#define TRP_TASK_WORKER_LOAD_H

#include <stdbool.h>
#include <stdint.h>
#include <troupe/status.h>

typedef struct trp_crew_member {
    uint32_t process;
    uint64_t incarnation; // 0: nobody.
    uint32_t load;
} trp_crew_member;

// The living worker with the least load, which gets one more; another one than `not_this`, if
// there is one (0: any). Asks the node for workers that are not known yet, unless `may_wait` is
// false: TROUPE_BUSY then, if none is known.
troupe_status trp_crew_take(bool may_wait, uint64_t not_this, trp_crew_member *member);
// What was taken is done (0: nothing was). Returns a worker that has more than it can run at a
// time, if another one has less; else 0.
uint64_t trp_crew_give(uint64_t incarnation);

#endif
