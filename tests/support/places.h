// places.h: what tests of actors share: the places where they do the same, the end of a group, and
// whether anything is left in the store.
#ifndef TROUPE_TEST_PLACES_H
#define TROUPE_TEST_PLACES_H

#include <support.h>
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

// For support_wait_until.
static inline bool store_is_empty(void *unused)
{
    troupe_store_usage usage;
    (void)unused;
    return troupe_store_usage_get(&usage) == TROUPE_OK && usage.objects == 0;
}

// What others hold is given back by them, a moment later.
static inline void assert_store_empty(void)
{
    assert_true(support_wait_until(store_is_empty, NULL, SUPPORT_SOON_MS));
}

#endif
