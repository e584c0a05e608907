// range.h: what the numbers in a struct of options may be, as a table that is checked at both ends.
//
//     static const trp_range ranges[] = {
//         TRP_RANGE(troupe_options, threads, 1, THREADS_MAX),
//         TRP_RANGE_OR(troupe_options, workers, 1, WORKERS_MAX, TROUPE_NONE),
//     };
//     TROUPE_TRY(trp_ranges_check("troupe_start", ranges, sizeof ranges / sizeof *ranges, &how));
//
// 0 is the default everywhere and always allowed.
#ifndef TRP_BASE_RANGE_H
#define TRP_BASE_RANGE_H

#include <stddef.h>
#include <stdint.h>
#include <troupe/status.h>

typedef enum trp_number {
    TRP_NUMBER_INT,
    TRP_NUMBER_UINT, // So are enumerations whose values are not negative.
    TRP_NUMBER_INT64,
    TRP_NUMBER_UINT64,
    TRP_NUMBER_DOUBLE,
} trp_number;

typedef struct trp_range {
    const char *name;
    size_t offset;
    trp_number kind;
    int64_t low, high;
    int64_t special;          // One more value below `low`,
    const char *special_name; // and what it is called; NULL: there is none.
} trp_range;

#define TRP_NUMBER_OF(value)                                                                       \
    _Generic((value), int                                                                          \
             : TRP_NUMBER_INT, unsigned                                                            \
             : TRP_NUMBER_UINT, long                                                               \
             : TRP_NUMBER_INT64, unsigned long                                                     \
             : TRP_NUMBER_UINT64, double                                                           \
             : TRP_NUMBER_DOUBLE)
#define TRP_RANGE(S, field, low, high)                                                             \
    {                                                                                              \
#field, offsetof(S, field), TRP_NUMBER_OF(((S *)0)->field), low, high, 0, NULL             \
    }
#define TRP_RANGE_OR(S, field, low, high, special)                                                 \
    {                                                                                              \
#field, offsetof(S, field), TRP_NUMBER_OF(((S *)0)->field), low, high, special, #special   \
    }

// TROUPE_INVALID names the first option outside its range, what it is and what is expected.
troupe_status trp_ranges_check(const char *of, const trp_range *ranges, size_t count,
                               const void *options);

#endif
