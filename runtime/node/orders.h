// orders.h: what the node process tells the keeper to do. Orders that the keeper, which may be
// stopped, has no room for wait here: the node process never waits for it.
//
// None of this locks: with the node process's lock held.
#ifndef TRP_NODE_ORDERS_H
#define TRP_NODE_ORDERS_H

#include <runtime/node/keeper.h>

// To where they go.
void trp_orders_open(int keeper);
// Sees to it that the next START, with that environment and folder, can be ordered. TROUPE_BUSY:
// too many orders wait; the sentence says for whom. TROUPE_NO_MEMORY.
troupe_status trp_order_reserve(const char *env, const char *folder);
// Orders a worker with the environment and folder of all workers, and its own ones over them.
void trp_order_start(uint32_t slot, uint64_t incarnation, bool isolated, const char *env,
                     const char *folder);
// Another order. To kill a process is ordered once, however often it is asked for.
void trp_order_give(trp_order_kind kind, uint32_t slot, uint64_t incarnation);
// Sends what there is room for. False: some wait still.
bool trp_orders_flush(void);
// Sends all, and waits for room.
void trp_orders_finish(void);

#endif
