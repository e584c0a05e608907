// ref.h: references, for the layers above.
//
// A reference is an object of the store (bit 63 of its id is set: the id is the trp_object) or a
// row of this process's table: a call's future, or an alias of either. The references in a method's
// arguments are aliases that end when the method returns; troupe_ref_keep makes one that lasts.
#ifndef TRP_REF_H
#define TRP_REF_H

#include <runtime/store/store.h>
#include <troupe/object.h>

// Calls `done` exactly once when the reference is ready (its troupe_get will not wait): at once on
// the calling thread, or later on the thread that finds out. It must not block; it may call
// troupe_tell (which then never waits). The reference is not consumed, and may be dropped
// meanwhile.
void trp_ref_when(troupe_ref ref, void (*done)(void *user, troupe_ref ref), void *user);

// troupe_ref_keep, for what the library keeps and gives up itself. TROUPE_INVALID: it is empty or
// stale; then, as on every failure, *kept is empty.
troupe_status trp_ref_keep(troupe_ref ref, troupe_ref *kept);

// The object behind a reference, through an alias too; 0 if it is a call's future or stale. The
// reference keeps its hold.
trp_object trp_ref_object(troupe_ref ref);

#endif
