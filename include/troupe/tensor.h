// tensor.h: typed arrays of numbers with a shape, as values and as objects of the store, where
// their elements lie at 64 bytes for vector code and are read by every process without a copy.
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
// a troupe_array_troupe_tensor. Elements are contiguous in C order (the last dimension's are
// neighbours). A method reads large arguments where they lie in shared memory, fields too;
// troupe_get copies into the thread's arena as it does for bytes, troupe_view_tensor never copies
// what is large. Wherever the library hands elements out they are at multiples of 64 bytes.
#ifndef TROUPE_TENSOR_H
#define TROUPE_TENSOR_H

#include <troupe/object.h>

TROUPE_BEGIN_C

// The type of a tensor's elements.
typedef enum troupe_dtype {
    TROUPE_DTYPE_NONE, // Of a tensor that is none, as one of zeros is.
    TROUPE_BOOL,       // A byte each, 0 or 1.
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
    TROUPE_DIMS_MAX = 8,  // Dimensions that a tensor can have.
    TROUPE_DIMS_ANY = -1, // Where one is asked for: however many.
};

// A plain value that owns nothing: the elements are borrowed, as the pointers of all values are.
typedef struct troupe_tensor {
    const void *data; // May be NULL only if there are no elements.
    troupe_dtype dtype;
    uint32_t ndim; // How many dimensions; 0: a single element.
    size_t shape[TROUPE_DIMS_MAX];
} troupe_tensor;
TROUPE_PRIMITIVE_(troupe_tensor);

// clang-format off
// The tensor of `data` with the dimensions given (1 to 8; each may be 0): troupe_tensor_of(
// TROUPE_FLOAT64, numbers, 3, 4). For another number of dimensions, or one that is only known at run time, fill the
// struct.
#define troupe_tensor_of(dtype_, data_, ...)                                                       \
    (troupe_tensor){.data = (data_), .dtype = (dtype_), .ndim = TROUPE_COUNT(__VA_ARGS__),         \
                    .shape = {__VA_ARGS__}}
// clang-format on

// The bytes of an element; 0 where the type is not known.
TROUPE_API size_t troupe_dtype_size(troupe_dtype dtype);

// The type's name as NumPy has it ("float32"); "none" where it is not known.
TROUPE_API const char *troupe_dtype_text(troupe_dtype dtype);

// How many elements a tensor has: the product of its shape. 0 for one that troupe_tensor_check
// would refuse, too.
TROUPE_API size_t troupe_tensor_count(const troupe_tensor *tensor);

// How many elements lie between neighbours along a dimension; 0 if there is no such dimension.
TROUPE_API size_t troupe_tensor_stride(const troupe_tensor *tensor, uint32_t dimension);

// Whether a tensor is what is asked for: of that type (TROUPE_DTYPE_NONE: any) and with
// so many dimensions (TROUPE_DIMS_ANY: any). TROUPE_WRONG_TYPE says both: "float32[3,4] where
// float64[?] was asked". TROUPE_INVALID: it is none at all: an unknown type, more than
// TROUPE_DIMS_MAX dimensions, more elements than memory can hold, or no data where there should be
// some.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_tensor_check(const troupe_tensor *tensor,
                                                             troupe_dtype dtype, int ndim);

// Creates a tensor in the store to be filled in place: of the type and shape of `like`, whose data
// is not looked at. The elements are at buffer->data, 64-byte aligned and undefined;
// troupe_buffer_seal makes it readable and gives the reference (to a troupe_tensor),
// troupe_buffer_discard gives it up. Statuses as troupe_buffer_create, and TROUPE_INVALID as
// troupe_tensor_check.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_tensor_create(const troupe_tensor *like,
                                                              troupe_buffer *buffer);

// Lends the tensor behind a reference: an object (troupe_put, troupe_tensor_create) or a call's
// result. `tensor` and `view` have the same elements, in shared memory, read only, until
// troupe_view_end(view), even if the reference is dropped or the creator dies. The reference is not
// consumed. What it costs does not depend on the size, but for results up to 64 KiB, which are
// copied. Type and dimensions are refused as by troupe_tensor_check; waits and other statuses as
// troupe_view_bytes.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_view_tensor(troupe_ref ref, troupe_dtype dtype,
                                                            int ndim, troupe_tensor *tensor,
                                                            troupe_view *view, int timeout_ms);

TROUPE_END_C

#endif
