// options_take.h: taking options structs of programs that were compiled with older headers.
#ifndef TRP_BASE_OPTIONS_TAKE_H
#define TRP_BASE_OPTIONS_TAKE_H

#include <stddef.h>
#include <string.h>
#include <troupe/status.h>

// Copies an options struct (NULL: all defaults). Options structs grow at their end: a program with
// older headers gives a shorter one, whose missing fields are defaults. TROUPE_VERSION: a longer
// one, of newer headers, of which something would be lost; TROUPE_INVALID: its size was not set.
// `of` says whose it is.
static inline troupe_status trp_options_take(const char *of, void *ours, size_t size,
                                             const void *theirs, size_t their_size)
{
    memset(ours, 0, size);
    if (their_size > size)
        return troupe_fail(TROUPE_VERSION,
                           "the options of %s have %zu bytes in the program and %zu in the "
                           "library, which is older: compile the program with this library's "
                           "headers",
                           of, their_size, size);
    if (their_size < sizeof(size_t))
        return troupe_fail(TROUPE_INVALID,
                           "the options of %s say that they have %zu bytes: set their .size, as "
                           "TROUPE_OPTIONS does",
                           of, their_size);
    if (theirs != NULL)
        memcpy(ours, theirs, their_size);
    return TROUPE_OK;
}

// Row `index` of an array of structs that begin with their size, which is that of the first row.
static inline const void *trp_row_at(const void *rows, size_t index)
{
    return (const char *)rows + index * *(const size_t *)rows;
}

#define TRP_OPTIONS_TAKE(of, ours, theirs)                                                         \
    trp_options_take((of), &(ours), sizeof(ours), (theirs),                                        \
                     (theirs) != NULL ? (theirs)->size : sizeof(ours))

#endif
