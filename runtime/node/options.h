// options.h: checking the options of troupe_start and filling in their defaults; taking options
// structs of programs that were compiled with older headers.
#ifndef TRP_NODE_OPTIONS_H
#define TRP_NODE_OPTIONS_H

#include <string.h>
#include <troupe/runtime.h>

// Copies `given` (NULL: all defaults) to *full, with every default filled in. TROUPE_INVALID names
// the option that is out of range, what it was and what is allowed.
troupe_status trp_options_complete(const troupe_options *given, troupe_options *full);

// Turns .listen, if there is one, into numbers, which are kept until the next call. INVALID,
// NOT_FOUND, TIMED_OUT as the sentence says.
troupe_status trp_options_listen(troupe_options *full);

// Copies an options struct (NULL: all defaults). Options structs grow at their end: a program with
// older headers gives a shorter one, whose missing fields are defaults.
static inline void trp_options_take(void *ours, size_t size, const void *theirs, size_t their_size)
{
    memset(ours, 0, size);
    if (theirs != NULL)
        memcpy(ours, theirs, their_size < size ? their_size : size);
}

#endif
