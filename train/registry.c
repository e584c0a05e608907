// registry.c: see registry.h.
#include <runtime/base/memory.h>
#include <string.h>
#include <train/registry.h>

typedef struct trp_named {
    struct trp_named *next;
    const char *name;
    const void *table;
} trp_named;

static const void *find(const trp_named_list *list, const char *name)
{
    for (const trp_named *at = list->first; at; at = at->next)
        if (strcmp(at->name, name) == 0)
            return at->table;
    return NULL;
}

troupe_status trp_named_add(trp_named_list *list, const char *name, const void *table,
                            const void **there)
{
    trp_named *row = (trp_named *)trp_alloc(sizeof *row);
    if (!row)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to register '%s'", name);
    pthread_mutex_lock(&list->lock);
    *there = find(list, name);
    if (!*there) {
        *row = (trp_named){list->first, name, table};
        list->first = row;
        *there = table;
        row = NULL;
    }
    pthread_mutex_unlock(&list->lock);
    trp_free(row);
    return TROUPE_OK;
}

const void *trp_named_find(trp_named_list *list, const char *name)
{
    pthread_mutex_lock(&list->lock);
    const void *found = find(list, name);
    pthread_mutex_unlock(&list->lock);
    return found;
}

void trp_named_write(trp_named_list *list, trp_buffer *out)
{
    pthread_mutex_lock(&list->lock);
    for (const trp_named *at = list->first; at; at = at->next)
        trp_buffer_printf(out, "%s%s", at == list->first ? "" : ", ", at->name);
    if (!list->first)
        trp_buffer_printf(out, "none");
    pthread_mutex_unlock(&list->lock);
}
