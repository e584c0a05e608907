// sessionless.h: what is sent outside of sessions (see remote/remote_carrier.h).
#ifndef TRP_REMOTE_SESSIONLESS_H
#define TRP_REMOTE_SESSIONLESS_H

#include <runtime/remote/remote_carrier.h>

// Sends one message of no session. Where there is no room it is refused and counted, and what
// `answers` somebody else sooner than what this node begins.
void trp_far_send_loose(const char *address, trp_frame *frame, bool answers);
int trp_far_tick_loose(void); // Does what is due; ms until the next, -1: nothing is.
void trp_far_close_loose(void);

#endif
