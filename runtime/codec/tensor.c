// tensor.c: what a tensor is, and its forms as bytes (see tensor.h). What other processes wrote is
// believed only after it was checked: the number of dimensions, product of the shape, size of the
// elements.
#include <runtime/codec/tensor.h>

#include <runtime/base/error.h>
#include <runtime/base/require.h>
#include <stdio.h>
#include <string.h>

// ---- element types

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [TROUPE_DTYPE_NONE] = {"none", 0}, [TROUPE_BOOL] = {"bool", 1},
    [TROUPE_INT8] = {"int8", 1},       [TROUPE_INT16] = {"int16", 2},
    [TROUPE_INT32] = {"int32", 4},     [TROUPE_INT64] = {"int64", 8},
    [TROUPE_UINT8] = {"uint8", 1},     [TROUPE_UINT16] = {"uint16", 2},
    [TROUPE_UINT32] = {"uint32", 4},   [TROUPE_UINT64] = {"uint64", 8},
    [TROUPE_FLOAT16] = {"float16", 2}, [TROUPE_BFLOAT16] = {"bfloat16", 2},
    [TROUPE_FLOAT32] = {"float32", 4}, [TROUPE_FLOAT64] = {"float64", 8},
};
enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };

static bool is_known(troupe_dtype dtype)
{
    return (unsigned)dtype < DTYPES;
}

size_t troupe_dtype_size(troupe_dtype dtype)
{
    return is_known(dtype) ? dtypes[dtype].size : 0;
}

const char *troupe_dtype_text(troupe_dtype dtype)
{
    return dtypes[is_known(dtype) ? dtype : TROUPE_DTYPE_NONE].name;
}

// TROUPE_DTYPE_NONE: there is none of that name.
static troupe_dtype dtype_named(const char *name, size_t size)
{
    for (int i = TROUPE_DTYPE_NONE + 1; i < DTYPES; i++)
        if (strlen(dtypes[i].name) == size && memcmp(dtypes[i].name, name, size) == 0)
            return (troupe_dtype)i;
    return TROUPE_DTYPE_NONE;
}

// ---- shapes

// A type and a shape in words: `shape` NULL is one that may be any.
static const char *describe(troupe_dtype dtype, int ndim, const size_t *shape,
                            char out[TRP_TENSOR_TEXT])
{
    const char *name = dtype == TROUPE_DTYPE_NONE && shape == NULL ? "any"
                       : is_known(dtype)                           ? dtypes[dtype].name
                                                                   : "unknown";
    int used = snprintf(out, TRP_TENSOR_TEXT, "%s[", name);
    if (ndim < 0 || ndim > TROUPE_DIMS_MAX)
        used += snprintf(out + used, (size_t)(TRP_TENSOR_TEXT - used), "...");
    for (int i = 0; i < ndim && ndim <= TROUPE_DIMS_MAX; i++) {
        const char *comma = i > 0 ? "," : "";
        size_t left = (size_t)(TRP_TENSOR_TEXT - used);
        used += shape != NULL ? snprintf(out + used, left, "%s%zu", comma, shape[i])
                              : snprintf(out + used, left, "%s?", comma);
    }
    (void)snprintf(out + used, (size_t)(TRP_TENSOR_TEXT - used), "]");
    return out;
}

const char *trp_tensor_text(const troupe_tensor *tensor, char out[TRP_TENSOR_TEXT])
{
    int ndim = tensor->ndim <= TROUPE_DIMS_MAX ? (int)tensor->ndim : TROUPE_DIMS_ANY;
    return describe(tensor->dtype, ndim, tensor->shape, out);
}

// False: more than memory can hold. Dimensions of 0 do not count, since strides must be right, too.
static bool measure(const troupe_tensor *tensor, size_t *size)
{
    size_t most = dtypes[tensor->dtype].size;
    bool empty = false;
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        if (tensor->shape[i] == 0)
            empty = true;
        else if (__builtin_mul_overflow(most, tensor->shape[i], &most))
            return false;
    }
    *size = empty ? 0 : most;
    return most <= PTRDIFF_MAX / 2;
}

static troupe_status size_of(const troupe_tensor *tensor, troupe_status status, size_t *size)
{
    char text[TRP_TENSOR_TEXT];
    if (!is_known(tensor->dtype))
        return troupe_fail(status, "a tensor's element type is %u, which is not known",
                           (unsigned)tensor->dtype);
    if (tensor->ndim > TROUPE_DIMS_MAX)
        return troupe_fail(status, "a tensor has %u dimensions, more than %d", tensor->ndim,
                           TROUPE_DIMS_MAX);
    if (tensor->dtype == TROUPE_DTYPE_NONE && tensor->ndim > 0)
        return troupe_fail(status, "a tensor has %u dimensions, but no element type", tensor->ndim);
    if (!measure(tensor, size))
        return troupe_fail(status, "%s has more elements than memory can hold",
                           trp_tensor_text(tensor, text));
    return TROUPE_OK;
}

troupe_status trp_tensor_size(const troupe_tensor *tensor, size_t *size)
{
    return size_of(tensor, TROUPE_INVALID, size);
}

troupe_status trp_tensor_good(const troupe_tensor *tensor, size_t *size)
{
    char text[TRP_TENSOR_TEXT];
    TROUPE_TRY(trp_tensor_size(tensor, size));
    if (*size > 0 && tensor->data == NULL)
        return troupe_fail(TROUPE_INVALID, "expected the %zu bytes of %s, found a null pointer",
                           *size, trp_tensor_text(tensor, text));
    return TROUPE_OK;
}

static bool is_measurable(const troupe_tensor *tensor, size_t *size)
{
    return tensor != NULL && is_known(tensor->dtype) && tensor->dtype != TROUPE_DTYPE_NONE &&
           tensor->ndim <= TROUPE_DIMS_MAX && measure(tensor, size);
}

size_t troupe_tensor_count(const troupe_tensor *tensor)
{
    size_t size = 0;
    return is_measurable(tensor, &size) ? size / dtypes[tensor->dtype].size : 0;
}

size_t troupe_tensor_stride(const troupe_tensor *tensor, uint32_t dimension)
{
    size_t size = 0, stride = 1;
    if (!is_measurable(tensor, &size) || dimension >= tensor->ndim)
        return 0;
    for (uint32_t i = dimension + 1; i < tensor->ndim; i++)
        stride *= tensor->shape[i];
    return stride;
}

troupe_status troupe_tensor_check(const troupe_tensor *tensor, troupe_dtype dtype, int ndim)
{
    TRP_REQUIRE(tensor);
    char found[TRP_TENSOR_TEXT], asked[TRP_TENSOR_TEXT];
    size_t size = 0;
    TROUPE_TRY(trp_tensor_good(tensor, &size));
    if ((dtype == TROUPE_DTYPE_NONE || dtype == tensor->dtype) &&
        (ndim == TROUPE_DIMS_ANY || ndim == (int)tensor->ndim))
        return TROUPE_OK;
    return troupe_fail(TROUPE_WRONG_TYPE, "%s where %s was expected",
                       trp_tensor_text(tensor, found), describe(dtype, ndim, NULL, asked));
}

// ---- copies

troupe_status trp_tensor_own(troupe_tensor *tensor, trp_arena *arena)
{
    size_t size = 0;
    TROUPE_TRY(trp_tensor_good(tensor, &size));
    const void *from = tensor->data;
    tensor->data = NULL;
    if (size == 0)
        return TROUPE_OK;
    void *block = trp_arena_alloc(arena, size + TRP_TENSOR_SLACK);
    if (block == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the %zu bytes of a tensor", size);
    tensor->data = memcpy(trp_tensor_aligned(block), from, size);
    return TROUPE_OK;
}

// ---- MessagePack

// How many bytes the head of a bin takes.
static size_t bin_head(size_t size)
{
    return size <= UINT8_MAX ? 2 : size <= UINT16_MAX ? 3 : 5;
}

troupe_status trp_tensor_pack(const troupe_tensor *tensor, trp_buffer *out)
{
    static const unsigned char zeros[TRP_TENSOR_ALIGN];
    char text[TRP_TENSOR_TEXT];
    size_t size = 0, padding = 0;
    TROUPE_TRY(trp_tensor_good(tensor, &size));
    if (size > UINT32_MAX)
        return troupe_fail(TROUPE_TOO_LARGE,
                           "%s takes %zu bytes, more than the 2^32 - 1 that can be packed: put it "
                           "in the store by itself",
                           trp_tensor_text(tensor, text), size);
    trp_write_array(out, 4);
    if (tensor->dtype == TROUPE_DTYPE_NONE)
        trp_write_nil(out);
    else
        trp_write_text(out, dtypes[tensor->dtype].name);
    trp_write_array(out, tensor->ndim);
    for (uint32_t i = 0; i < tensor->ndim; i++)
        trp_write_uint(out, tensor->shape[i]);
    if (size >= TRP_TENSOR_PADDED_MIN) {
        size_t begin = out->size + bin_head(0) + bin_head(size);
        padding = -begin & (TRP_TENSOR_ALIGN - 1);
    }
    trp_write_bytes(out, zeros, padding);
    trp_write_bytes(out, tensor->data, size);
    return TROUPE_OK;
}

static troupe_status read_dtype(trp_reader *in, troupe_dtype *dtype)
{
    const char *name = NULL;
    size_t size = 0, at = (size_t)(in->at - in->start);
    TROUPE_TRY(trp_read_text(in, &name, &size));
    *dtype = name != NULL ? dtype_named(name, size) : TROUPE_DTYPE_NONE;
    if (name != NULL && *dtype == TROUPE_DTYPE_NONE)
        return troupe_fail(TROUPE_MALFORMED,
                           "expected a tensor's element type, found '%.*s' at byte %zu",
                           size < 32 ? (int)size : 32, name, at);
    return TROUPE_OK;
}

static troupe_status read_shape(trp_reader *in, troupe_tensor *tensor)
{
    size_t at = (size_t)(in->at - in->start);
    TROUPE_TRY(trp_read_array(in, &tensor->ndim));
    if (tensor->ndim > TROUPE_DIMS_MAX)
        return troupe_fail(TROUPE_MALFORMED,
                           "found a tensor of %u dimensions at byte %zu, more than %d",
                           tensor->ndim, at, TROUPE_DIMS_MAX);
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        uint64_t extent = 0;
        TROUPE_TRY(trp_read_uint(in, &extent));
        tensor->shape[i] = extent;
    }
    return TROUPE_OK;
}

// Any other byte in a bool is undefined behaviour for its reader.
static troupe_status check_bools(const troupe_tensor *tensor, size_t size, size_t at)
{
    const unsigned char *bytes = (const unsigned char *)tensor->data;
    for (size_t i = 0; tensor->dtype == TROUPE_BOOL && i < size; i++)
        if (bytes[i] > 1)
            return troupe_fail(TROUPE_MALFORMED,
                               "expected a bool (0 or 1), found %u as element %zu of a tensor at "
                               "byte %zu",
                               bytes[i], i, at);
    return TROUPE_OK;
}

troupe_status trp_tensor_unpack(trp_reader *in, troupe_tensor *tensor, size_t *size)
{
    char text[TRP_TENSOR_TEXT];
    troupe_tensor read = {0};
    size_t at = (size_t)(in->at - in->start), padding = 0, expected = 0, found = 0;
    uint32_t parts = 0;
    const void *ignored = NULL;
    TROUPE_TRY(trp_read_array(in, &parts));
    if (parts != 4)
        return troupe_fail(TROUPE_MALFORMED,
                           "expected a tensor as an array of 4, found %u at byte %zu", parts, at);
    TROUPE_TRY(read_dtype(in, &read.dtype));
    TROUPE_TRY(read_shape(in, &read));
    TROUPE_TRY(size_of(&read, TROUPE_MALFORMED, &expected));
    TROUPE_TRY(trp_read_bytes(in, &ignored, &padding));
    at = (size_t)(in->at - in->start);
    TROUPE_TRY(trp_read_bytes(in, &read.data, &found));
    if (padding >= TRP_TENSOR_ALIGN || found != expected)
        return troupe_fail(TROUPE_MALFORMED,
                           "expected the %zu bytes of %s, found %zu (and %zu of padding) at byte "
                           "%zu",
                           expected, trp_tensor_text(&read, text), found, padding, at);
    TROUPE_TRY(check_bools(&read, found, at));
    *tensor = read;
    *size = found;
    return TROUPE_OK;
}

// ---- objects of the store

typedef struct head {
    uint32_t dtype, ndim;
    uint64_t shape[TROUPE_DIMS_MAX];
} head;
_Static_assert(sizeof(head) <= TRP_TENSOR_HEAD && TRP_TENSOR_HEAD % TRP_TENSOR_ALIGN == 0,
               "the elements behind the head are aligned as the object is");

void trp_tensor_head(const troupe_tensor *tensor, void *object)
{
    head written = {.dtype = (uint32_t)tensor->dtype, .ndim = tensor->ndim};
    for (uint32_t i = 0; i < tensor->ndim; i++)
        written.shape[i] = tensor->shape[i];
    memset(object, 0, TRP_TENSOR_HEAD);
    memcpy(object, &written, sizeof written);
}

troupe_status trp_tensor_open(const void *object, size_t size, troupe_tensor *tensor)
{
    char text[TRP_TENSOR_TEXT];
    head read;
    size_t expected = 0;
    if (size < TRP_TENSOR_HEAD)
        return troupe_fail(TROUPE_MALFORMED, "an object of %zu bytes is not a tensor", size);
    memcpy(&read, object, sizeof read);
    troupe_tensor found = {.dtype = (troupe_dtype)read.dtype, .ndim = read.ndim};
    for (int i = 0; i < TROUPE_DIMS_MAX; i++)
        found.shape[i] = read.shape[i];
    TROUPE_TRY(size_of(&found, TROUPE_MALFORMED, &expected));
    if (expected != size - TRP_TENSOR_HEAD)
        return troupe_fail(TROUPE_MALFORMED, "expected the %zu bytes of %s in an object, found %zu",
                           expected, trp_tensor_text(&found, text), size - TRP_TENSOR_HEAD);
    if (expected > 0)
        found.data = (const unsigned char *)object + TRP_TENSOR_HEAD;
    *tensor = found;
    return TROUPE_OK;
}
