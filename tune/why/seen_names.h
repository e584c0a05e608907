// seen_names.h: names that come again and again, most often in the same order, each with a number.
#ifndef TRP_SEEN_NAMES_H
#define TRP_SEEN_NAMES_H

#include <runtime/base/arena.h>
#include <stdbool.h>

typedef struct trp_seen_names {
    const char **names; // The arena's, as the texts.
    size_t count, room;
    size_t next; // Behind the last one that was asked for: where it is looked for first.
} trp_seen_names;

// The number of a name, which is added if it is new. False: no memory.
bool trp_seen_names_add(trp_seen_names *names, const char *name, trp_arena *arena, size_t *number);
// False: there is none of that name.
bool trp_seen_names_find(trp_seen_names *names, const char *name, size_t *number);

#endif
