// parallel_copy.h: copying much memory with more than one thread.
#ifndef TRP_SHM_PARALLEL_COPY_H
#define TRP_SHM_PARALLEL_COPY_H

#include <stddef.h>

// As memcpy. Large memory is copied by a helper thread as well, where this process may use more
// than one CPU; the call returns when all of it is copied. From any thread.
void trp_copy(void *to, const void *from, size_t size);
// Ends the helper; the next large copy makes another. No copy may be under way.
void trp_copy_stop(void);

#endif
