// ask.h: waiting for the library's own calls, which have a time limit.
#ifndef TRP_ASYNC_ASK_H
#define TRP_ASYNC_ASK_H

#include <troupe/object.h>

// Waits for the answer to a call of the library's own, at most `limit_ms`. TROUPE_OK:
// troupe_get is next. TROUPE_DEADLINE_EXCEEDED, TROUPE_BUSY: `late` is called when the call has
// ended, as by trp_ref_when: it must take or drop the reference. The call is not cancelled then,
// since a value that its method is just giving would be lost. Without `late` it is cancelled and
// dropped. `what` is who was asked, in the sentence.
troupe_status trp_ask_within(troupe_ref ref, const char *what, int limit_ms,
                             void (*late)(void *user, troupe_ref ref), void *user);

// As trp_ask_within, 1 s longer than the actor was told to wait, where that is not for ever
// (`timeout_ms` negative).
troupe_status trp_ask_await(troupe_ref ref, const char *what, int timeout_ms,
                            void (*late)(void *user, troupe_ref ref), void *user);

#endif
