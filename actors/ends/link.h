// link.h: actors that end together.
#ifndef TRP_ENDS_LINK_H
#define TRP_ENDS_LINK_H

#include <actors/actor/lifecycle.h>

void trp_link_serve(const trp_frame *frame);
// From inside a method: the child ends when the running actor does, but not the other way round.
void trp_link_child(troupe_actor child);
// The same for an end of whatever reason; outside methods nothing happens.
troupe_status trp_link_owned(troupe_actor child);
// An actor of this process ends with its owner, wherever that is.
troupe_status trp_link_owner(uint64_t child, troupe_actor owner);

#endif
