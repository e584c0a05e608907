// require.c: see require.h.
#include <runtime/base/require.h>

troupe_status trp_require_null(const char *function, const char *argument)
{
    return troupe_fail(TROUPE_INVALID, "%s: '%s' is NULL", function, argument);
}

troupe_status trp_require_count(const char *function, const char *argument, size_t count)
{
    return troupe_fail(TROUPE_INVALID, "%s: '%s' is %zu, more than memory can hold", function,
                       argument, count);
}
