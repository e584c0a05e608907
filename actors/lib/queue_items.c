// queue_items.c: see queue_items.h.
#include <actors/lib/queue_items.h>

#include <runtime/base/memory.h>
#include <string.h>

trp_item *trp_item_copy(const troupe_bytes *value)
{
    trp_item *it = trp_alloc(sizeof *it + value->size);
    if (it == NULL) {
        (void)troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu bytes in a queue", value->size);
        return NULL;
    }
    it->size = value->size;
    memcpy(it->data, value->data, value->size);
    return it;
}

void trp_items_push(trp_items *to, trp_item *it)
{
    it->next = NULL;
    *to->last = it;
    to->last = &it->next;
    to->count++;
    to->bytes += it->size;
}

trp_item *trp_items_pop(trp_items *from)
{
    trp_item *it = from->first;
    from->first = it->next;
    if (from->first == NULL)
        from->last = &from->first;
    from->count--;
    from->bytes -= it->size;
    return it;
}

void trp_items_drop(trp_items *from, uint64_t count)
{
    for (; count > 0; count--)
        trp_free(trp_items_pop(from));
}

void trp_items_push_back(trp_items *to, trp_items *back)
{
    if (back->first == NULL)
        return;
    *back->last = to->first;
    if (to->first == NULL)
        to->last = back->last;
    to->first = back->first;
    to->count += back->count;
    to->bytes += back->bytes;
    *back = (trp_items){.last = &back->first};
}
