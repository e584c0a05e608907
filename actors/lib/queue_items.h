// queue_items.h: packed values in a row, for the bounded queue.
#ifndef TRP_LIB_QUEUE_ITEMS_H
#define TRP_LIB_QUEUE_ITEMS_H

#include <stddef.h>
#include <stdint.h>
#include <troupe/wire.h>

typedef struct trp_item {
    struct trp_item *next;
    size_t size;
    unsigned char data[];
} trp_item;

typedef struct trp_items {
    trp_item *first, **last; // `last` is set before the first use: to &first.
    uint64_t count, bytes;
} trp_items;

// A copy; NULL with the last error set.
trp_item *trp_item_copy(const troupe_bytes *value);
void trp_items_push(trp_items *to, trp_item *it);
trp_item *trp_items_pop(trp_items *from);
// Frees the first `count`.
void trp_items_drop(trp_items *from, uint64_t count);
// Puts all of `back`, which is empty then, before the first one.
void trp_items_push_back(trp_items *to, trp_items *back);

#endif
