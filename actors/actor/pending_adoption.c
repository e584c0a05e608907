// pending_adoption.c: see actor/pending_adoption.h. They are few, and soon taken out: a list.
#include <actors/actor/pending_adoption.h>

#include <runtime/base/clock.h>
#include <runtime/base/memory.h>

// An end of which no adoption came within that time was of an actor that nobody adopts.
enum { WAITED_MS = 60000 };

typedef struct early {
    struct early *next;
    troupe_actor address;
    int64_t since_ms;
    trp_early news;
} early;

static early *list;

static void drop(early **at)
{
    early *it = *at;
    *at = it->next;
    trp_kept_drop(&it->news.image);
    trp_free(it);
}

static early **find(troupe_actor address)
{
    early **at = &list;
    while (*at != NULL &&
           ((*at)->address.id != address.id || (*at)->address.incarnation != address.incarnation))
        at = &(*at)->next;
    return at;
}

static early *find_or_make(troupe_actor address)
{
    early *it = *find(address);
    if (it != NULL || (it = trp_alloc(sizeof *it)) == NULL)
        return it;
    it->next = list;
    it->address = address;
    list = it;
    return it;
}

trp_early trp_early_take(troupe_actor address)
{
    early **at = find(address);
    if (*at == NULL)
        return (trp_early){0};
    trp_early news = (*at)->news;
    (*at)->news.image = (trp_kept){0};
    drop(at);
    return news;
}

bool trp_early_image(troupe_actor address, trp_kept *image)
{
    early *it = find_or_make(address);
    if (it == NULL)
        return false;
    if (it->news.ended)
        return true;
    trp_kept before = it->news.image;
    it->news.image = *image;
    *image = before;
    return true;
}

void trp_early_end(troupe_actor address, const trp_down *down)
{
    int64_t now_ms = trp_clock_ms();
    for (early **at = &list; *at != NULL;)
        if ((*at)->news.ended && now_ms - (*at)->since_ms > WAITED_MS)
            drop(at);
        else
            at = &(*at)->next;
    early *it = find_or_make(address);
    if (it == NULL || it->news.ended)
        return;
    trp_kept_drop(&it->news.image);
    it->news.ended = true;
    it->news.end = *down;
    it->since_ms = now_ms;
}

void trp_early_death(uint64_t incarnation)
{
    for (early **at = &list; *at != NULL;)
        if (!(*at)->news.ended && (*at)->address.incarnation == incarnation)
            drop(at);
        else
            at = &(*at)->next;
}

void trp_early_clear(void)
{
    while (list != NULL)
        drop(&list);
}
