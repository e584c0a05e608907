// msgpack.h: MessagePack, written through msgpack-c into a trp_buffer and read by a bounded pull
// parser of our own, and the walks over a type's table.
//
// The reader never builds an object tree, never allocates, never reads past its end; a container's
// count above the bytes left, and nesting deeper than TRP_DEPTH_MAX, are refused.
#ifndef TRP_CODEC_MSGPACK_H
#define TRP_CODEC_MSGPACK_H

#include <runtime/base/arena.h>
#include <runtime/base/buffer.h>
#include <string.h>
#include <troupe/wire.h>

enum {
    TRP_DEPTH_MAX = 16,
    TRP_GROWTH_MAX = 64, // Memory for each byte of a message, at most (see trp_unpack).
};

// ---- writing: appends to the buffer; failure is the buffer's `failed`
void trp_write_nil(trp_buffer *out);
void trp_write_bool(trp_buffer *out, bool value);
void trp_write_int(trp_buffer *out, int64_t value);
void trp_write_uint(trp_buffer *out, uint64_t value);
void trp_write_float(trp_buffer *out, float value);
void trp_write_double(trp_buffer *out, double value);
void trp_write_text(trp_buffer *out, const char *text); // NULL as nil
// As trp_write_text, but only as far as it is UTF-8: what was cut to fit may end within a
// character, and a program's own sentence may have any bytes. A reader would refuse the whole for
// it.
void trp_write_line(trp_buffer *out, const char *text);
void trp_write_bytes(trp_buffer *out, const void *data, size_t size);
void trp_write_array(trp_buffer *out, uint32_t count); // Its items follow.

// ---- reading
typedef struct trp_reader {
    const unsigned char *at, *end;
    int depth;
    const unsigned char *start; // Sentences name bytes by their distance from here.
} trp_reader;
static inline trp_reader trp_reader_of(const void *data, size_t size)
{
    const unsigned char *bytes = (const unsigned char *)data;
    // NULL + 0 is undefined in C.
    return (trp_reader){bytes, size ? bytes + size : bytes, 0, bytes};
}
// Each returns TROUPE_OK, or TROUPE_MALFORMED with the sentence set; outputs only on success. Texts
// and bytes point into what is read (a text is not terminated).
troupe_status trp_read_bool(trp_reader *in, bool *value);
troupe_status trp_read_int(trp_reader *in, int64_t *value);
troupe_status trp_read_uint(trp_reader *in, uint64_t *value);
troupe_status trp_read_double(trp_reader *in, double *value); // float32 or float64
troupe_status trp_read_float(trp_reader *in, float *value);   // float32, bit by bit
troupe_status trp_read_nil(trp_reader *in);
troupe_status trp_read_text(trp_reader *in, const char **text, size_t *size); // nil: NULL, 0
troupe_status trp_read_bytes(trp_reader *in, const void **data, size_t *size);
troupe_status trp_read_array(trp_reader *in, uint32_t *count); // count <= bytes left
troupe_status trp_read_skip(trp_reader *in);                   // One value of any kind.
troupe_status trp_read_end(const trp_reader *in);              // Refuses trailing bytes.

// How many of `size` bytes are, from the start, UTF-8 without a NUL.
size_t trp_text_good(const char *text, size_t size);

// ---- values by their type's table
// Any troupe_array_T, whatever its T: copied out, since as an lvalue it would break aliasing rules.
typedef struct trp_counted {
    const void *items;
    size_t count;
} trp_counted;
static inline trp_counted trp_counted_of(const void *array)
{
    trp_counted counted;
    memcpy(&counted, array, sizeof(counted));
    return counted;
}

#endif
