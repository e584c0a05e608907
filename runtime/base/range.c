// range.c: see range.h.
#include <runtime/base/range.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { NUMBER_MAX = 32 };

// A value as it can be compared.
typedef struct given {
    double real; // Of a double,
    int64_t whole;
    uint64_t wide; // and of an unsigned number of 64 bits.
} given;

static given take(const trp_range *range, const void *options)
{
    const char *at = (const char *)options + range->offset;
    given value = {0};
    unsigned plain;
    int number;
    switch (range->kind) {
    case TRP_NUMBER_DOUBLE:
        memcpy(&value.real, at, sizeof value.real);
        break;
    case TRP_NUMBER_INT:
        memcpy(&number, at, sizeof number);
        value.whole = number;
        break;
    case TRP_NUMBER_UINT:
        memcpy(&plain, at, sizeof plain);
        value.whole = plain;
        break;
    case TRP_NUMBER_INT64:
        memcpy(&value.whole, at, sizeof value.whole);
        break;
    default:
        memcpy(&value.wide, at, sizeof value.wide);
        value.whole = value.wide > INT64_MAX ? INT64_MAX : (int64_t)value.wide;
    }
    return value;
}

static const char *show(const trp_range *range, const given *value, char text[NUMBER_MAX])
{
    if (range->kind == TRP_NUMBER_DOUBLE)
        snprintf(text, NUMBER_MAX, "%g", value->real);
    else if (range->kind == TRP_NUMBER_UINT64)
        snprintf(text, NUMBER_MAX, "%llu", (unsigned long long)value->wide);
    else
        snprintf(text, NUMBER_MAX, "%lld", (long long)value->whole);
    return text;
}

// Numbers of bytes are said as people say them.
static const char *say(const trp_range *range, int64_t number, char text[NUMBER_MAX])
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
    int unit = -1;
    while (strstr(range->name, "bytes") != NULL && number > 0 && number % 1024 == 0 && unit < 4) {
        number /= 1024;
        unit++;
    }
    snprintf(text, NUMBER_MAX, "%lld%s%s", (long long)number, unit >= 0 ? " " : "",
             unit >= 0 ? units[unit] : "");
    return text;
}

// Written so that a NaN is outside.
static bool is_within(const trp_range *range, const given *value)
{
    if (range->kind == TRP_NUMBER_DOUBLE)
        return value->real == 0 ||
               (value->real >= (double)range->low && value->real <= (double)range->high);
    if (range->special_name != NULL && value->whole == range->special)
        return true;
    return value->wide <= INT64_MAX &&
           (value->whole == 0 || (value->whole >= range->low && value->whole <= range->high));
}

troupe_status trp_ranges_check(const char *of, const trp_range *ranges, size_t count,
                               const void *options)
{
    for (const trp_range *range = ranges; range < ranges + count; range++) {
        given value = take(range, options);
        if (is_within(range, &value))
            continue;
        char text[NUMBER_MAX], low[NUMBER_MAX], high[NUMBER_MAX];
        return troupe_fail(TROUPE_INVALID, ".%s of %s is %s: expected %s to %s%s%s%s", range->name,
                           of, show(range, &value, text), say(range, range->low, low),
                           say(range, range->high, high),
                           range->low <= 0               ? ""
                           : range->special_name == NULL ? ", or 0 (default)"
                                                         : ", 0 (default)",
                           range->special_name != NULL ? " or " : "",
                           range->special_name != NULL ? range->special_name : "");
    }
    return TROUPE_OK;
}
