// options.h: checking the options of troupe_start and filling in their defaults.
#ifndef TRP_NODE_OPTIONS_H
#define TRP_NODE_OPTIONS_H

#include <runtime/base/options_take.h>
#include <runtime/node/limits.h>
#include <troupe/runtime.h>

// Copies `given` (NULL: all defaults) to *full, with every default filled in, some of them by the
// limits of this process (NULL: they are read if need be). TROUPE_INVALID names the option that is
// out of range, what it was and what is allowed.
troupe_status trp_options_complete(const troupe_options *given, const trp_limits *limits,
                                   troupe_options *full);

// Turns .listen, if there is one, into numbers, which are kept until the next call. INVALID,
// NOT_FOUND, DEADLINE_EXCEEDED as the sentence says.
troupe_status trp_options_listen(troupe_options *full);

#endif
