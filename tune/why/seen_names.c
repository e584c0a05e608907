// seen_names.c: see seen_names.h.
#include <tune/why/seen_names.h>

#include <string.h>

bool trp_seen_names_find(trp_seen_names *names, const char *name, size_t *number)
{
    for (size_t i = 0, at = names->next; i < names->count; i++, at++) {
        at = at < names->count ? at : 0;
        if (strcmp(names->names[at], name) != 0)
            continue;
        names->next = at + 1;
        *number = at;
        return true;
    }
    return false;
}

bool trp_seen_names_add(trp_seen_names *names, const char *name, trp_arena *arena, size_t *number)
{
    if (trp_seen_names_find(names, name, number))
        return true;
    if (names->count == names->room) {
        size_t room = names->room > 0 ? 2 * names->room : 32;
        const char **larger = trp_arena_alloc(arena, room * sizeof *larger);
        if (larger == NULL)
            return false;
        if (names->count > 0)
            memcpy(larger, names->names, names->count * sizeof *larger);
        names->names = larger;
        names->room = room;
    }
    size_t size = strlen(name) + 1;
    char *copy = trp_arena_alloc(arena, size);
    if (copy == NULL)
        return false;
    names->names[names->count] = memcpy(copy, name, size);
    *number = names->count++;
    names->next = names->count;
    return true;
}
