// json.h: writes JSON for the files of a sweep. Numbers read back as the same bits; what JSON
// cannot say (NaN, infinities, references) is null.
#ifndef TRP_TUNE_JSON_H
#define TRP_TUNE_JSON_H

#include <runtime/base/buffer.h>
#include <troupe/wire.h>

void trp_json_text(trp_buffer *out, const char *text); // With its quotes; NULL is null.
void trp_json_number(trp_buffer *out, double value);
// A value by its type's table: records are objects, bytes are null.
void trp_json_value(trp_buffer *out, const troupe_type *type, const void *value);

#endif
