// then.h: values of references that an actor has sent to its own methods.
#ifndef TRP_ASYNC_THEN_H
#define TRP_ASYNC_THEN_H

#include <actors/async/async.h>

// Frees the message's extra.
void trp_extra_free(trp_message *message);

// Reads the value into the arguments, or the failure.
troupe_status trp_continuation_fill(trp_message *message);

#endif
