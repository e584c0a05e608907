// makers.h: searchers and schedulers from JSON: a name, or {"name": {its options}}.
#ifndef TRP_MAKERS_H
#define TRP_MAKERS_H

#include <runtime/base/arena.h>
#include <runtime/codec/json.h>
#include <troupe/schedule.h>

// TROUPE_INVALID names what is not known or out of range; nothing is made then. "repeats" beside
// the name is that of troupe_search_repeat: {"tpe": {}, "repeats": 3}.
troupe_status trp_make_searcher(trp_json how, trp_arena *arena, troupe_searcher **searcher);
// {"asha": ..}, {"hyperband": ..}, {"median": ..}, {"pbt": ..}, "fifo"; "stop" beside the name has
// the fields of troupe_stop_when: {"asha": {}, "stop": {"patience": 5}}; alone, beside "fifo".
troupe_status trp_make_scheduler(trp_json how, trp_arena *arena, troupe_scheduler **scheduler);

// Refuses an object's member that the type and the other names (NULL: none; NULL ends them) lack.
troupe_status trp_sweep_members_known(trp_json object, const troupe_type *type,
                                      const char *const *others, const char *where);

#endif
