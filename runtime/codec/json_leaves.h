// json_leaves.h: an object of objects as one list of names and values, for tables that have a
// column for each.
#ifndef TRP_CODEC_JSON_LEAVES_H
#define TRP_CODEC_JSON_LEAVES_H

#include <runtime/codec/json.h>

// Is told a leaf; false: it wants no more, since there was no memory.
typedef bool trp_json_leaf(void *user, const char *name, trp_json value);

// Tells of all that is no object itself, or an empty one, in the order of the text. Names of nested
// ones are joined by slashes: "fitting/rate". False: `take` said so, or there was no memory.
bool trp_json_leaves(trp_json object, trp_json_leaf *take, void *user);

// The value as it stands in a table: a text without its quotes, nothing for null, else as in JSON.
void trp_json_plain(trp_json value, trp_buffer *out);

#endif
