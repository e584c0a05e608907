// registry.h: tables that are known by a name: filled by constructors before main, or by hand.
#ifndef TRP_REGISTRY_H
#define TRP_REGISTRY_H

#include <pthread.h>
#include <runtime/base/buffer.h>
#include <troupe/status.h>

// Rows are never removed.
typedef struct trp_named_list {
    pthread_mutex_t lock; // Of the list.
    struct trp_named *first;
} trp_named_list;
#define TRP_NAMED_LIST_INIT                                                                        \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER                                                          \
    }

// Adds a table whose name lives as long; *there is the one that has the name now. TROUPE_NO_MEMORY.
troupe_status trp_named_add(trp_named_list *list, const char *name, const void *table,
                            const void **there);
// NULL: there is none.
const void *trp_named_find(trp_named_list *list, const char *name);
// Appends the names, "a, b, c", or "none".
void trp_named_write(trp_named_list *list, trp_buffer *out);

#endif
