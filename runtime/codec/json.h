// json.h: values as JSON (RFC 8259), for files that people and other programs read too.
//
// Numbers read back as the same bits; NaN and the infinities are the texts "NaN", "Infinity" and
// "-Infinity", which are read as numbers. Bytes are base64 text (RFC 4648, with padding), NULL
// texts, references, actors and tensors are null.
#ifndef TRP_CODEC_JSON_H
#define TRP_CODEC_JSON_H

#include <runtime/base/arena.h>
#include <runtime/base/buffer.h>
#include <troupe/wire.h>

enum {
    TRP_JSON_DEPTH_MAX = 64,
    TRP_JSON_NUMBER_MAX = 1000, // Characters of a number.
};

// With its quotes; NULL is null. A byte that is not UTF-8 becomes U+FFFD.
void trp_json_text(trp_buffer *out, const char *text);
void trp_json_number(trp_buffer *out, double value);
// A value by its type's table: records are objects.
void trp_json_value(trp_buffer *out, const troupe_type *type, const void *value);

// One value within a JSON text that trp_json_parse has checked: borrowed from that text.
typedef struct trp_json {
    const char *at;
    size_t size;
} trp_json;

// Checks that the text is one JSON value and nothing else: valid UTF-8 without a NUL (an escaped
// one included) and without half surrogate pairs, nested at most TRP_JSON_DEPTH_MAX deep, no member
// twice in an object. TROUPE_MALFORMED says what was expected, in which line and column.
troupe_status trp_json_parse(const char *text, size_t size, trp_json *value);

bool trp_json_is_object(trp_json value);
bool trp_json_is_array(trp_json value);
bool trp_json_is_text(trp_json value);
bool trp_json_is_null(trp_json value);
// Whether it is the text that `text` is once its escapes are resolved.
bool trp_json_equals(trp_json value, const char *text);

// The member of that name; false: it has none, or is no object.
bool trp_json_member(trp_json object, const char *name, trp_json *value);
// The next member of an object, in the order of the text. *at keeps the place and begins as {0};
// false after the last one, and of what is no object.
bool trp_json_next_member(trp_json object, trp_json *at, trp_json *name, trp_json *value);
// The next item of an array: *item is it, keeps the place and begins as {0}.
bool trp_json_next_item(trp_json array, trp_json *item);

// Reads a value by its type's table. Members that the type lacks are ignored; fields that the text
// lacks keep what *value has, so that a file of another version stays readable; null leaves a field
// as it is too, but a text becomes NULL. Pointers go to `arena`. A number of an integer may be
// written as 5.0 or 5e0. TROUPE_WRONG_TYPE says which member is what and what was expected: wrong
// kinds, integers and reals out of range, fractions for integers, texts and arrays of another size
// than the field's; TROUPE_NO_MEMORY. *value is set only on success.
troupe_status trp_json_read(const troupe_type *type, trp_json text, trp_arena *arena, void *value);

// The canonical form, which is the same for all texts of the same value: that of RFC 8785 (no white
// space, members sorted by name, shortest numbers), but integers of up to 64 bits keep every digit.
// TROUPE_MALFORMED: a number that no double can be.
troupe_status trp_json_canonical(trp_json value, trp_buffer *out);

// Whether both have the same canonical form; false where there is no memory to compare them.
bool trp_json_is_same(trp_json one, trp_json other);

#endif
