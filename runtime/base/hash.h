// hash.h: uthash's hash tables, with memory from memory.c. Its users include this.
#ifndef TRP_BASE_HASH_H
#define TRP_BASE_HASH_H

#include <runtime/base/memory.h>

#define uthash_malloc(size) trp_alloc(size)
#define uthash_free(block, size) trp_free(block)
#define HASH_NONFATAL_OOM 1 // Else it ends the process.
#include <uthash.h>

// As HASH_ADD. Only the first of a table may not be added, for want of memory: see TRP_HASH_HAS. A
// table that cannot grow takes what is added all the same.
#define TRP_HASH_ADD(hh, head, field, size, it)                                                    \
    do {                                                                                           \
        HASH_ADD(hh, head, field, size, it);                                                       \
        if ((it)->hh.tbl == NULL && (head) != NULL) {                                              \
            unsigned trp_hash_kept = (head)->hh.tbl->noexpand;                                     \
            (head)->hh.tbl->noexpand = 1;                                                          \
            HASH_ADD(hh, head, field, size, it);                                                   \
            (head)->hh.tbl->noexpand = trp_hash_kept;                                              \
        }                                                                                          \
    } while (0)
// Whether what was given to TRP_HASH_ADD is in the table.
#define TRP_HASH_HAS(hh, it) ((it)->hh.tbl != NULL)

#endif
