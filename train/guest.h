// guest.h: what a layer above holds for a loop, and has to go with it however that ends.
#ifndef TRP_GUEST_H
#define TRP_GUEST_H

#include <stddef.h>

typedef struct trp_guest {
    void (*leave)(struct trp_guest *guest); // Ends it. It is on no list any more.
    struct trp_guest *next, **link;         // `link` NULL: on no list.
} trp_guest;

static inline void trp_guest_enter(trp_guest **list, trp_guest *guest)
{
    guest->next = *list;
    guest->link = list;
    if (guest->next)
        guest->next->link = &guest->next;
    *list = guest;
}

// Harmless on one that is on no list.
static inline void trp_guest_leave(trp_guest *guest)
{
    if (!guest->link)
        return;
    *guest->link = guest->next;
    if (guest->next)
        guest->next->link = guest->link;
    guest->link = NULL;
}

static inline void trp_guests_end(trp_guest **list)
{
    while (*list) {
        trp_guest *guest = *list;
        trp_guest_leave(guest);
        guest->leave(guest);
    }
}

#endif
