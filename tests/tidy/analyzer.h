// analyzer.h: put in front of each source by ./dev check, for clang's analyzer alone. It sees one
// file at a time, so it must be told that what reports a failure never returns TROUPE_OK.
#ifndef TROUPE_TIDY_ANALYZER_H
#define TROUPE_TIDY_ANALYZER_H

#include <runtime/error.h>
#include <stdlib.h>
#include <troupe/status.h>

static inline troupe_status analyzer_failed(troupe_status status)
{
    if (status == TROUPE_OK)
        abort();
    return status;
}

#define troupe_fail(...) analyzer_failed(troupe_fail(__VA_ARGS__))
#define trp_fail_errno(...) analyzer_failed(trp_fail_errno(__VA_ARGS__))
#define trp_error_prefix(...) analyzer_failed(trp_error_prefix(__VA_ARGS__))

#endif
