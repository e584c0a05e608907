// group.h: references that are joined.
#ifndef TRP_LIB_GROUP_H
#define TRP_LIB_GROUP_H

#include <troupe/async.h>

// Gives up what a troupe_ref_join's row stands for. False: the row is another's.
bool trp_join_cancel(uint64_t call, const troupe_cancel_options *how, troupe_status *status);

#endif
