// options_take.h: taking options structs of programs that were compiled with older headers.
#ifndef TRP_BASE_OPTIONS_TAKE_H
#define TRP_BASE_OPTIONS_TAKE_H

#include <stddef.h>
#include <string.h>

// Copies an options struct (NULL: all defaults). Options structs grow at their end: a program with
// older headers gives a shorter one, whose missing fields are defaults.
static inline void trp_options_take(void *ours, size_t size, const void *theirs, size_t their_size)
{
    memset(ours, 0, size);
    if (theirs != NULL)
        memcpy(ours, theirs, their_size < size ? their_size : size);
}

#endif
