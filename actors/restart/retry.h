// retry.h: calls that are sent again when their actor has died.
#ifndef TRP_RESTART_RETRY_H
#define TRP_RESTART_RETRY_H

#include <actors/class/class.h>

// Makes such a call (see trp_repeat_wanted).
troupe_ref trp_repeat_call(troupe_actor actor, const trp_class *class_, size_t method,
                           const void *args);

#endif
