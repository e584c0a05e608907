// named.h: rows of a space whose config's type nobody here has: they name its members by text.
#ifndef TRP_NAMED_H
#define TRP_NAMED_H

#include <runtime/base/buffer.h>
#include <troupe/space.h>

// Writes the rows as troupe_space_parse reads a space. TROUPE_INVALID names the row and what is
// wrong with it; what it draws is looked at when the space is parsed.
troupe_status trp_space_named(const troupe_param *rows, size_t count, trp_buffer *out);

#endif
