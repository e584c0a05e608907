// reclaim.c: memory of unused pages goes back to the system (see
// docs/internals/runtime/memory-reclaim.md).
//
// What is free becomes COLD; what is COLD still when this thread comes by again, has not been used
// in between. Of that all but a keep becomes GIVING, the system is told, and it is a HOLE. The keep
// is at the low end, where searches begin.
#include <runtime/shm/reclaim.h>

#include <runtime/base/clock.h>
#include <runtime/base/fault.h>
#include <runtime/shm/pages.h>
#include <runtime/shm/pages_internal.h>

enum {
    TICK_MS = 1000, // From one look to the next.
    KEEP_SHARE = 8, // Of what is in use one part of so many stays in reserve.
};

typedef struct look {
    uint32_t used, spare; // Pages in use, and others that have memory.
    bool cooling;         // Some of these may be COLD at the next look.
} look;

static look count_pages(void)
{
    look now = {0};
    uint32_t backed = trp_pages_backed();
    for (uint32_t page = 0; page < backed; page++) {
        uint32_t owner = atomic_load(trp_page_owner(page));
        bool spare = owner == 0 || owner == TRP_OWNER_COLD ||
                     (trp_owner_kind_of(owner) == TRP_OWNER_SLAB &&
                      trp_slab_is_empty(page, trp_owner_class(owner)));
        now.spare += spare;
        now.used += !spare && owner != TRP_OWNER_HOLE;
    }
    return now;
}

// Makes COLD pages from `page` on GIVING, as many as follow each other.
static uint32_t take_cold(uint32_t page, uint32_t to, uint32_t process)
{
    uint32_t first = page;
    for (; page < to; page++) {
        uint32_t cold = TRP_OWNER_COLD;
        if (!atomic_compare_exchange_strong(trp_page_owner(page), &cold,
                                            trp_owner(TRP_OWNER_IDLE, TRP_IDLE_GIVING, process)))
            break;
        TRP_FAULT("store");
    }
    return page - first;
}

// A page that the system does not take back is a hole all the same: it is reserved again as it is.
static void give(uint32_t first, uint32_t count)
{
    (void)trp_pages_unback(first, count);
    TRP_FAULT("store");
    (void)atomic_fetch_add(&trp_segment.header->given, 1);
    for (uint32_t page = first; page < first + count; page++) {
        // Release: pairs with the claim, who then sees `given`.
        atomic_store_explicit(trp_page_owner(page), TRP_OWNER_HOLE, memory_order_release);
        TRP_FAULT("store");
    }
}

// As take_cold, but all of them or none: what is one page of the system goes as a whole, with the
// holes in it, which have memory as long as the rest. Returns how many were COLD.
static uint32_t take_whole(uint32_t first, uint32_t to, uint32_t process)
{
    uint32_t giving = trp_owner(TRP_OWNER_IDLE, TRP_IDLE_GIVING, process), cold = 0, page;
    uint32_t was[TRP_STRETCH];
    for (page = first; page < to; page++) {
        uint32_t *owner = &was[page - first];
        *owner = atomic_load(trp_page_owner(page));
        if ((*owner != TRP_OWNER_COLD && *owner != TRP_OWNER_HOLE) ||
            !atomic_compare_exchange_strong(trp_page_owner(page), owner, giving))
            break;
        cold += *owner == TRP_OWNER_COLD;
        TRP_FAULT("store");
    }
    if (page == to && cold > 0)
        return cold;
    while (page-- > first) {
        atomic_store_explicit(trp_page_owner(page), was[page - first], memory_order_release);
        TRP_FAULT("store");
    }
    return 0;
}

// Gives at most `most` of the pages, and lets the others cool. Returns how many it gave.
static uint32_t tend_stretch(uint32_t first, uint32_t to, uint32_t most, uint32_t process,
                             bool *cooling)
{
    uint32_t given = 0;
    if (atomic_load(&trp_segment.header->huge) != 0) {
        given = most >= to - first ? take_whole(first, to, process) : 0;
        if (given > 0) {
            give(first, to - first);
            return given;
        }
        most = 0; // They only cool.
    }
    for (uint32_t page = first; page < to;) {
        uint32_t left = most - given, end = to - page < left ? to : page + left;
        uint32_t count = take_cold(page, end, process), none = 0;
        if (count > 0) {
            give(page, count);
            given += count;
            page += count;
            continue;
        }
        if (atomic_compare_exchange_strong(trp_page_owner(page), &none, TRP_OWNER_COLD)) {
            TRP_FAULT("store");
            *cooling = true;
        }
        page++;
    }
    return given;
}

bool trp_pages_give(uint32_t process, uint32_t keep)
{
    look now = count_pages();
    if (atomic_load(&trp_segment.header->huge) != 0) // In whole pages of the system.
        keep = (keep + TRP_STRETCH - 1) / TRP_STRETCH * TRP_STRETCH;
    if (keep < now.used / KEEP_SHARE)
        keep = now.used / KEEP_SHARE;
    uint32_t most = now.spare > keep ? now.spare - keep : 0;
    if (most == 0)
        return false;
    (void)trp_slab_reclaim(process);
    for (uint32_t to = trp_pages_backed(); to > 0 && most > 0;) {
        uint32_t first = (to - 1) / TRP_STRETCH * TRP_STRETCH;
        most -= tend_stretch(first, to, most, process, &now.cooling);
        to = first;
    }
    return most > 0 && now.cooling;
}

int trp_pages_tend(void)
{
    static int64_t due_ms; // Of the next look; 0: it sleeps.
    int64_t now_ms = trp_clock_ms();
    if (due_ms == 0)
        due_ms = now_ms + TICK_MS; // It was rung.
    if (now_ms < due_ms)
        return (int)(due_ms - now_ms);
    // First: who frees something that this look does not find any more, rings.
    (void)atomic_fetch_or(&trp_segment.header->awaited, TRP_AWAITED_IDLE);
    if (!trp_pages_give(trp_pages_self(), TRP_PAGES_KEEP)) {
        due_ms = 0;
        return -1;
    }
    (void)atomic_fetch_and(&trp_segment.header->awaited, ~(uint32_t)TRP_AWAITED_IDLE);
    due_ms = trp_clock_ms() + TICK_MS;
    return TICK_MS;
}
