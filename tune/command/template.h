// template.h: the arguments of a trial's program, from a template with names in braces.
#ifndef TRP_COMMAND_TEMPLATE_H
#define TRP_COMMAND_TEMPLATE_H

#include <runtime/base/buffer.h>
#include <runtime/codec/json.h>

// Writes `text` with each "{name}" replaced by that member of the object `params`: a text as it is,
// all else as JSON; "{params}" by the whole object, "{trial}" by the trial's number; "{{" is a
// brace. What is in braces and no name (1 to 63 letters, digits, ".", "_", "-") stays as it is, so
// that an argument may be JSON. A name that the object lacks is TROUPE_INVALID, or, if `optional`,
// replaced by nothing.
troupe_status trp_template_fill(const char *text, trp_json params, int trial, bool optional,
                                trp_buffer *out);

#endif
