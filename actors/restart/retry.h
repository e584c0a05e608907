// retry.h: calls that are sent again when their actor has died.
#ifndef TRP_RESTART_RETRY_H
#define TRP_RESTART_RETRY_H

#include <actors/class/class.h>

// A call whose address says how often it may be repeated.
static inline bool trp_repeat_wanted(troupe_actor actor)
{
    return (actor.flags >> TROUPE_CALL_RETRIES_SHIFT & TROUPE_CALL_RETRIES_MAX) != 0;
}
troupe_ref trp_repeat_call(troupe_actor actor, const trp_class *class_, size_t method,
                           const void *args);

#endif
