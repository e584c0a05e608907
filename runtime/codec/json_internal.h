// json_internal.h: what the parts of the JSON reader share. Texts are those that were checked;
// every access stays within their bounds all the same.
#ifndef TRP_CODEC_JSON_INTERNAL_H
#define TRP_CODEC_JSON_INTERNAL_H

#include <runtime/codec/json.h>

static inline bool trp_json_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline const char *trp_json_end(trp_json value)
{
    return value.at + value.size;
}

static inline bool trp_json_begins(trp_json value, char c)
{
    return value.size > 0 && value.at[0] == c;
}

// The next code point of a text, its escapes resolved; -1 at the closing quote. *at is behind it
// then.
long trp_json_code_point(const char **at, const char *end);
// As UTF-8; returns its length.
size_t trp_json_encode(long point, char out[4]);
// In the order of UTF-16's code units, as RFC 8785 sorts. Both begin behind their opening quotes.
int trp_json_compare(const char *a, const char *a_end, const char *b, const char *b_end);
// The number that the text is; false: it is none, or none that a double can be.
bool trp_json_real(trp_json text, double *value);
// Sign and amount; false: no integer of 64 bits and a sign.
bool trp_json_integer(trp_json text, bool *negative, uint64_t *amount);

#endif
