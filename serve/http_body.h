// http_body.h: tensors as JSON and as raw bytes, as they come and go over HTTP.
#ifndef TRP_SERVE_HTTP_BODY_H
#define TRP_SERVE_HTTP_BODY_H

#include <runtime/base/buffer.h>
#include <troupe/tensor.h>

enum {
    TRP_BODY_JSON_MAX = 1 << 20,
    TRP_BODY_RAW_MAX = 64 << 20,
    TRP_BODY_JSON_DEPTH_MAX = 16,
};

// The tensor of {"instances": [...]}: numbers, nested as its shape, read as that type of elements
// (none: float64). Its elements are *memory, to be freed. TROUPE_MALFORMED, TROUPE_WRONG_TYPE: the
// text says what is wrong and where; TROUPE_UNSUPPORTED: elements that JSON cannot have.
troupe_status trp_body_read_json(const char *text, size_t size, troupe_dtype dtype,
                                 troupe_tensor *x, void **memory);
// {"predictions": [...]}. TROUPE_UNSUPPORTED: as above.
troupe_status trp_body_write_json(const troupe_tensor *y, trp_buffer *out);

// The type and shape of raw elements from the texts of their headers, as "float32" and "8,64".
// TROUPE_MALFORMED: the text says which.
troupe_status trp_body_read_shape(const char *dtype, const char *shape, troupe_tensor *x);
// "8,64".
void trp_body_write_shape(const troupe_tensor *y, char *out, size_t capacity);

#endif
