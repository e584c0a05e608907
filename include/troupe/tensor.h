// tensor.h: typed arrays of numbers with a shape, as values and as objects of the store, where
// their elements are aligned to 64 bytes for vector code and every process reads them without a
// copy.
//
//     float *rows = ...;                                          // 1000 rows of 64
//     troupe_tensor table = troupe_tensor_of(TROUPE_FLOAT32, rows, 1000, 64);
//     troupe_ref ref = troupe_put(troupe_tensor, &table);         // one copy, into the store
//
//     troupe_tensor seen;                                         // in any process of the node:
//     troupe_view view;
//     troupe_must(troupe_view_tensor(ref, TROUPE_FLOAT32, 2, &seen, &view, -1));
//     const float *row_7 = (const float *)seen.data + 7 * troupe_tensor_stride(&seen, 0);
//     troupe_view_end(&view);
//
// A tensor is a value like any other: an argument, a result, a field of a TROUPE_STRUCT, an item of
// a troupe_array_troupe_tensor. Elements are contiguous in C order (the last dimension varies
// fastest). A method reads large arguments, and large fields of them, in place in shared memory.
// troupe_get copies into the thread's arena as it does for bytes; troupe_view_tensor never copies a
// large tensor. Elements that the library returns are always aligned to 64 bytes.
#ifndef TROUPE_TENSOR_H
#define TROUPE_TENSOR_H

#include <troupe/object.h>

TROUPE_BEGIN_C

// The type of a tensor's elements.
typedef enum troupe_dtype {
    TROUPE_DTYPE_NONE, // No tensor, as in a struct of zeros.
    TROUPE_BOOL,       // One byte, 0 or 1.
    TROUPE_INT8,
    TROUPE_INT16,
    TROUPE_INT32,
    TROUPE_INT64,
    TROUPE_UINT8,
    TROUPE_UINT16,
    TROUPE_UINT32,
    TROUPE_UINT64,
    TROUPE_FLOAT16,  // IEEE 754 half precision: two bytes that the library only moves.
    TROUPE_BFLOAT16, // The upper half of a float32: two bytes that the library only moves.
    TROUPE_FLOAT32,
    TROUPE_FLOAT64,
} troupe_dtype;

enum {
    TROUPE_DIMS_MAX = 8,  // The most dimensions of a tensor.
    TROUPE_DIMS_ANY = -1, // As `ndim` of a check: any number.
};

// A plain value that owns nothing: the elements are borrowed, like the pointers in all values.
typedef struct troupe_tensor {
    const void *data; // May be NULL only if there are no elements.
    troupe_dtype dtype;
    uint32_t ndim; // Number of dimensions; 0: a single element.
    size_t shape[TROUPE_DIMS_MAX];
} troupe_tensor;
TROUPE_PRIMITIVE_(troupe_tensor);

// clang-format off
// The tensor of `data` with the given dimensions (1 to 8; each may be 0):
// troupe_tensor_of(TROUPE_FLOAT64, numbers, 3, 4). Fill the struct yourself for none, or if their
// number is only known at run time.
#define troupe_tensor_of(dtype_, data_, ...)                                                       \
    (troupe_tensor){.data = (data_), .dtype = (dtype_), .ndim = TROUPE_COUNT(__VA_ARGS__),         \
                    .shape = {__VA_ARGS__}}
// clang-format on

// The size of an element in bytes; 0 for an unknown type.
TROUPE_API size_t troupe_dtype_size(troupe_dtype dtype);

// The type's name as in NumPy ("float32"); "none" for an unknown type.
TROUPE_API const char *troupe_dtype_text(troupe_dtype dtype);

// The number of elements: the product of the shape. Also 0 for a tensor that troupe_tensor_check
// would refuse.
TROUPE_API size_t troupe_tensor_count(const troupe_tensor *tensor);

// The distance between neighbours along a dimension, in elements; 0 if there is no such dimension.
TROUPE_API size_t troupe_tensor_stride(const troupe_tensor *tensor, uint32_t dimension);

// Checks that a tensor is valid, of the type `dtype` (TROUPE_DTYPE_NONE: any) and has `ndim`
// dimensions (TROUPE_DIMS_ANY: any number). TROUPE_WRONG_TYPE: the text has both: "float32[3,4]
// where float64[?] was expected". TROUPE_INVALID: not a valid tensor: an unknown type, more than
// TROUPE_DIMS_MAX dimensions, more elements than memory can hold, or no data although it has
// elements.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_tensor_check(const troupe_tensor *tensor,
                                                             troupe_dtype dtype, int ndim);

// Creates a tensor in the store to be filled in place, with the type and shape of `like`, whose
// data is ignored. The elements are at buffer->data, 64-byte aligned and undefined;
// troupe_buffer_seal makes it readable and returns the reference (to a troupe_tensor),
// troupe_buffer_discard frees it. Statuses as troupe_buffer_create, and TROUPE_INVALID as
// troupe_tensor_check.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_tensor_create(const troupe_tensor *like,
                                                              troupe_buffer *buffer);

// Lends the tensor that a reference stands for: an object (troupe_put, troupe_tensor_create) or a
// call's result. `tensor` and `view` have the same elements, read-only in shared memory, until
// troupe_view_end(view), even if the reference is dropped or the creator dies. The reference is not
// consumed. The cost does not depend on the size, except for results up to 64 KiB, which are
// copied. Type and dimensions are checked as by troupe_tensor_check; waits and other statuses as
// troupe_view_bytes.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_view_tensor(troupe_ref ref, troupe_dtype dtype,
                                                            int ndim, troupe_tensor *tensor,
                                                            troupe_view *view, int timeout_ms);

TROUPE_END_C

#endif
