// backfill.h: which waiting claim may be admitted before its turn (EASY back-filling): one that
// says for how long at most it is held, and is back before any claim that waits before it could be
// granted. Pure, as the ledger is.
#ifndef TRP_NODE_BACKFILL_H
#define TRP_NODE_BACKFILL_H

#include <runtime/node/resource_ledger.h>

enum { TRP_BACKFILL_DEPTH = 128 }; // Of the queue: what is behind is not looked at.

// The oldest waiting claim that fits now and is given back, by its limit, before any older one that
// wants some of the same can be granted, by the limits of what is held. Where something that such
// an older one wants is held without a limit, nothing passes it. NULL: there is none. Of a ledger
// where nothing can be admitted in its turn.
trp_claim *trp_backfill_next(const trp_resources *resources, int64_t now_ms);

#endif
