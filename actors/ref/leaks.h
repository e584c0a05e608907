// leaks.h: references, views and buffers that user code made and never gave up: where it made them,
// while that is watched (TROUPE_LEAKS=1; every build but release, unless TROUPE_LEAKS=0).
//
// A row of the reference table says itself whether its owner has given it up, so that only its
// place in the source is noted. Of objects the references have no rows: they are counted.
#ifndef TRP_REF_LEAKS_H
#define TRP_REF_LEAKS_H

#include <runtime/store/store.h>
#include <stdatomic.h>
#include <troupe/wire.h>

// Read once, when the runtime starts.
extern _Atomic bool trp_leaks_watched;

static inline bool trp_leaks_on(void)
{
    return atomic_load_explicit(&trp_leaks_watched, memory_order_relaxed);
}

// In a public function: notes that its caller got this reference. `by` is the function's name.
#define TRP_LEAKS_MADE(ref, by)                                                                    \
    (trp_leaks_on() ? trp_leaks_made((ref), (by), __builtin_return_address(0)) : (void)0)

// `site`: where in the program; NULL: in the library, which gives it up itself.
void trp_leaks_made(troupe_ref ref, const char *by, const void *site);
// What was noted before is now another function's, at another place: a buffer has become the
// reference to it, say.
#define TRP_LEAKS_MOVED(ref, by)                                                                   \
    (trp_leaks_on() ? trp_leaks_moved((ref), (by), __builtin_return_address(0)) : (void)0)
void trp_leaks_moved(troupe_ref ref, const char *by, const void *site);
// One reference to the object was given up.
void trp_leaks_gone(trp_object object);
#define TRP_LEAKS_VIEW(object, by)                                                                 \
    (trp_leaks_on() ? trp_leaks_view((object), (by), __builtin_return_address(0)) : (void)0)
void trp_leaks_view(trp_object object, const char *by, const void *site);
void trp_leaks_view_end(trp_object object);

void trp_leaks_start(void);
// Says in the log what was not given up, and forgets it. Before rows are cleared.
void trp_leaks_report(void);

#endif
