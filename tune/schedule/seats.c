// seats.c: see tune/schedule/seats.h.
#include <tune/schedule/seats.h>

#include <runtime/base/memory.h>
#include <string.h>

troupe_status trp_seats_make(trp_seats *seats, int trial, void *item)
{
    if (trial < 0)
        return troupe_fail(TROUPE_INVALID, "trial %d: numbers are 0 or more", trial);
    if ((size_t)trial >= seats->count) {
        size_t count = seats->count < 8 ? 8 : seats->count * 2;
        if (count <= (size_t)trial)
            count = (size_t)trial + 1;
        char *items = trp_realloc(seats->items, count * seats->item);
        if (items == NULL)
            return troupe_fail(TROUPE_NO_MEMORY, "no memory for what is known of %zu trials",
                               count);
        memset(items + seats->count * seats->item, 0, (count - seats->count) * seats->item);
        seats->items = items;
        seats->count = count;
    }
    void *found = (char *)seats->items + (size_t)trial * seats->item;
    memcpy(item, &found, sizeof found); // The caller's pointer is to its own type.
    return TROUPE_OK;
}

void *trp_seats_at(const trp_seats *seats, int trial)
{
    if (trial < 0 || (size_t)trial >= seats->count)
        return NULL;
    return (char *)seats->items + (size_t)trial * seats->item;
}

void trp_seats_free(trp_seats *seats)
{
    trp_free(seats->items);
    seats->items = NULL;
    seats->count = 0;
}
