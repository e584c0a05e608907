// options.h: checking the options of troupe_start and filling in their defaults.
#ifndef TRP_NODE_OPTIONS_H
#define TRP_NODE_OPTIONS_H

#include <runtime/base/options_take.h>
#include <troupe/runtime.h>

// Copies `given` (NULL: all defaults) to *full, with every default filled in. TROUPE_INVALID names
// the option that is out of range, what it was and what is allowed.
troupe_status trp_options_complete(const troupe_options *given, troupe_options *full);

// Turns .listen, if there is one, into numbers, which are kept until the next call. INVALID,
// NOT_FOUND, DEADLINE_EXCEEDED as the sentence says.
troupe_status trp_options_listen(troupe_options *full);

#endif
