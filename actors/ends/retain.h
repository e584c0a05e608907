// retain.h: actors that end with the last handle that is retained.
#ifndef TRP_ENDS_RETAIN_H
#define TRP_ENDS_RETAIN_H

#include <runtime/link/frame.h>
#include <troupe/life.h>

// In the `method` of a COUNT frame, below the place of the actor's process; the frame's `schema` is
// that one's incarnation.
enum { TRP_COUNT_BEGIN, TRP_COUNT_RETAIN, TRP_COUNT_RELEASE, TRP_COUNT_BITS = 8 };

// A new actor is counted, and retained once by this process. `restarted`: it may be started again.
troupe_status trp_count_begin(troupe_actor actor, bool restarted);
void trp_count_serve(const trp_frame *frame);
// What that process held is given back.
void trp_count_death(uint64_t incarnation);
void trp_count_clear(void);

#endif
