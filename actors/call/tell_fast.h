// tell_fast.h: the way of most messages, in one piece.
#ifndef TRP_CALL_TELL_FAST_H
#define TRP_CALL_TELL_FAST_H

#include <actors/call/call.h>

// Most tells: of a plain method, without options, to an actor of this process that has room. False:
// nothing has happened, and the general way does it or says why not.
bool trp_tell_at_once(const troupe_actor *to, const troupe_class *row, size_t method,
                      const void *args);

#endif
