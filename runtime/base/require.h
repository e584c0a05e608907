// require.h: what public functions refuse before they look at anything: NULL where a pointer is
// expected, and counts of more than memory can hold. A comparison each where nothing is wrong.
#ifndef TRP_BASE_REQUIRE_H
#define TRP_BASE_REQUIRE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <troupe/status.h>

// TROUPE_INVALID, with the names of the function and of the argument.
troupe_status trp_require_null(const char *function, const char *argument);
troupe_status trp_require_count(const char *function, const char *argument, size_t count);

#define TRP_IS_NULL(pointer) __builtin_expect((pointer) == NULL, 0)
// The status of a NULL, with the last error set: for functions that return something else.
#define TRP_NULL(pointer) trp_require_null(__func__, #pointer)

// Returns from a function that returns a status. (Never TROUPE_OK: see troupe_failed_.)
#define TRP_REQUIRE(pointer)                                                                       \
    do {                                                                                           \
        if (TRP_IS_NULL(pointer))                                                                  \
            return troupe_failed_(TRP_NULL(pointer));                                              \
    } while (0)

// That many items of `size` bytes (at least 1) cannot be anywhere.
#define TRP_IS_ABSURD(count, size)                                                                 \
    __builtin_expect((count) > (size_t)PTRDIFF_MAX / ((size) > 0 ? (size) : 1), 0)
#define TRP_ABSURD(count) trp_require_count(__func__, #count, count)
#define TRP_REQUIRE_COUNT(count, size)                                                             \
    do {                                                                                           \
        if (TRP_IS_ABSURD(count, size))                                                            \
            return troupe_failed_(TRP_ABSURD(count));                                              \
    } while (0)

// Writes a struct to the memory of a program, which may be compiled with other headers: at most
// `their_size` bytes, zeros for what this library does not know.
static inline void trp_output_give(void *theirs, size_t their_size, const void *ours, size_t size)
{
    memset(theirs, 0, their_size);
    memcpy(theirs, ours, their_size < size ? their_size : size);
}

#endif
