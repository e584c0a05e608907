// csv.h: fields of CSV (RFC 4180). Who writes a row puts the commas and the line's end.
#ifndef TRP_CODEC_CSV_H
#define TRP_CODEC_CSV_H

#include <runtime/base/buffer.h>

// In quotes where it has a comma, a quote or a line's end, and where it is empty, so that it is not
// what is missing.
void trp_csv_text(trp_buffer *out, const char *text);
// As pandas and NumPy read it: "nan", "inf" and "-inf" too.
void trp_csv_number(trp_buffer *out, double value);

#endif
