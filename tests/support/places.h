// places.h: what tests of actors share: the places where they do the same, and the end of a group.
#ifndef TROUPE_TEST_PLACES_H
#define TROUPE_TEST_PLACES_H

#include <troupe/actor.h>

TROUPE_UNUSED static const troupe_place places[] = {TROUPE_PLACE_HERE, TROUPE_PLACE_WORKER,
                                                    TROUPE_PLACE_ISOLATED};
enum { PLACES = sizeof places / sizeof places[0], LIGHT_PLACES = 2 }; // The first two.

// For cmocka: after a test or a group.
static inline int stop_runtime(void **state)
{
    (void)state;
    return troupe_stop();
}

#endif
