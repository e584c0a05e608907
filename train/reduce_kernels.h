// reduce_kernels.h: the kernels of reduce.c, for one set of instructions: included by a source that
// defines REDUCE_BYTES (of a vector), REDUCE_TARGET (an attribute of each function) and REDUCE_NAME
// (of the table).
//
// A kernel takes four vectors of each source at a time, in the order of sources, and then writes
// them to each target: so each byte is read once and written once a target, whatever the numbers of
// both. Vectors are those of GCC and Clang, which choose the instructions.
#include <stdint.h>
#include <string.h>
#include <train/reduce.h>

#define INLINE static inline __attribute__((always_inline)) REDUCE_TARGET
#define VECTOR(name, T, bytes)                                                                     \
    typedef T name __attribute__((vector_size(bytes), aligned(1), may_alias))

VECTOR(float_vector, float, REDUCE_BYTES);
VECTOR(double_vector, double, REDUCE_BYTES);
VECTOR(int8_vector, int8_t, REDUCE_BYTES);
VECTOR(int16_vector, int16_t, REDUCE_BYTES);
VECTOR(int32_vector, int32_t, REDUCE_BYTES);
VECTOR(int64_vector, int64_t, REDUCE_BYTES);
VECTOR(uint8_vector, uint8_t, REDUCE_BYTES);
VECTOR(uint16_vector, uint16_t, REDUCE_BYTES);
VECTOR(uint32_vector, uint32_t, REDUCE_BYTES);
VECTOR(uint64_vector, uint64_t, REDUCE_BYTES);
VECTOR(half_vector, uint16_t, REDUCE_BYTES / 2);

// `mask` says which elements of `a` are taken, all bits of each; the others are those of `b`.
#define SELECT(V, M, mask, a, b) ((V)(((M)(mask) & (M)(a)) | (~(M)(mask) & (M)(b))))
#define ADD(V, M, a, b) ((a) + (b))
#define LESSER(V, M, a, b) SELECT(V, M, (b) < (a), b, a)
#define GREATER(V, M, a, b) SELECT(V, M, (b) > (a), b, a)
// A NaN is not what it is compared with: `a` stays if it is one.
#define LESSER_FLOAT(V, M, a, b) SELECT(V, M, ((b) < (a)) | ((b) != (b)), b, a)
#define GREATER_FLOAT(V, M, a, b) SELECT(V, M, ((b) > (a)) | ((b) != (b)), b, a)
#define AS_IS(V, a) (a)
#define LOAD(V, from) (*(const V *)(from))
#define STORE(V, to, a) (*(V *)(to) = (a))

// A kernel of elements of type T, which are in memory as vectors of type V.
#define KERNEL(name, T, V, M, OP, IS_MEAN)                                                         \
    REDUCE_TARGET static void name(const trp_reduction *what)                                      \
    {                                                                                              \
        enum { LANES = sizeof(V) / sizeof(T) };                                                    \
        const T number = what->divisor > 0 ? (T)what->divisor : (T)what->sources;                  \
        size_t at = 0;                                                                             \
        for (; what->count - at >= 4 * LANES; at += 4 * LANES) {                                   \
            const T *from = (const T *)what->from[0] + at;                                         \
            V a = LOAD(V, from), b = LOAD(V, from + LANES);                                        \
            V c = LOAD(V, from + 2 * LANES), d = LOAD(V, from + 3 * LANES);                        \
            for (int i = 1; i < what->sources; i++) {                                              \
                from = (const T *)what->from[i] + at;                                              \
                V other = LOAD(V, from);                                                           \
                a = OP(V, M, a, other);                                                            \
                other = LOAD(V, from + LANES);                                                     \
                b = OP(V, M, b, other);                                                            \
                other = LOAD(V, from + 2 * LANES);                                                 \
                c = OP(V, M, c, other);                                                            \
                other = LOAD(V, from + 3 * LANES);                                                 \
                d = OP(V, M, d, other);                                                            \
            }                                                                                      \
            if (IS_MEAN)                                                                           \
                a /= number, b /= number, c /= number, d /= number;                                \
            for (int i = 0; i < what->targets; i++) {                                              \
                T *to = (T *)what->to[i] + at;                                                     \
                STORE(V, to, a);                                                                   \
                STORE(V, to + LANES, b);                                                           \
                STORE(V, to + 2 * LANES, c);                                                       \
                STORE(V, to + 3 * LANES, d);                                                       \
            }                                                                                      \
        }                                                                                          \
        while (at < what->count) {                                                                 \
            size_t left = what->count - at, taken = left < LANES ? left : LANES;                   \
            V a = {0}, other = {0};                                                                \
            memcpy(&a, (const T *)what->from[0] + at, taken * sizeof(T));                          \
            for (int i = 1; i < what->sources; i++) {                                              \
                memcpy(&other, (const T *)what->from[i] + at, taken * sizeof(T));                  \
                a = OP(V, M, a, other);                                                            \
            }                                                                                      \
            if (IS_MEAN)                                                                           \
                a /= number;                                                                       \
            for (int i = 0; i < what->targets; i++)                                                \
                memcpy((T *)what->to[i] + at, &a, taken * sizeof(T));                              \
            at += taken;                                                                           \
        }                                                                                          \
    }

#define KERNELS_OF_FLOATS(name, T, V, M)                                                           \
    KERNEL(sum_##name, T, V, M, ADD, false)                                                        \
    KERNEL(mean_##name, T, V, M, ADD, true)                                                        \
    KERNEL(min_##name, T, V, M, LESSER_FLOAT, false)                                               \
    KERNEL(max_##name, T, V, M, GREATER_FLOAT, false)
#define KERNELS_OF_INTEGERS(name, T, V, M)                                                         \
    KERNEL(min_##name, T, V, M, LESSER, false)                                                     \
    KERNEL(max_##name, T, V, M, GREATER, false)

KERNELS_OF_FLOATS(float, float, float_vector, int32_vector)
KERNELS_OF_FLOATS(double, double, double_vector, int64_vector)
KERNELS_OF_INTEGERS(int8, int8_t, int8_vector, int8_vector)
KERNELS_OF_INTEGERS(int16, int16_t, int16_vector, int16_vector)
KERNELS_OF_INTEGERS(int32, int32_t, int32_vector, int32_vector)
KERNELS_OF_INTEGERS(int64, int64_t, int64_vector, int64_vector)
KERNELS_OF_INTEGERS(uint8, uint8_t, uint8_vector, int8_vector)
KERNELS_OF_INTEGERS(uint16, uint16_t, uint16_vector, int16_vector)
KERNELS_OF_INTEGERS(uint32, uint32_t, uint32_vector, int32_vector)
KERNELS_OF_INTEGERS(uint64, uint64_t, uint64_vector, int64_vector)
// Without a sign sums wrap around; with one their bits are the same.
KERNEL(sum_8, uint8_t, uint8_vector, int8_vector, ADD, false)
KERNEL(sum_16, uint16_t, uint16_vector, int16_vector, ADD, false)
KERNEL(sum_32, uint32_t, uint32_vector, int32_vector, ADD, false)
KERNEL(sum_64, uint64_t, uint64_vector, int64_vector, ADD, false)

// ---- numbers of 16 bits

static const uint32_t INFINITE = 0x7F800000, SIGN = 0x80000000;

INLINE float_vector wide_of_bfloat16(half_vector half)
{
    return (float_vector)(__builtin_convertvector(half, uint32_vector) << 16);
}

INLINE half_vector bfloat16_of(float_vector wide)
{
    uint32_vector bits = (uint32_vector)wide;
    uint32_vector rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    uint32_vector quiet = (bits >> 16) | 0x40;
    rounded = SELECT(uint32_vector, uint32_vector, (bits & ~SIGN) > INFINITE, quiet, rounded);
    return __builtin_convertvector(rounded, half_vector);
}

// Half precision has 5 bits of exponent, biased by 15, and 10 of mantissa. No step may take or make
// a float32 below the normal ones, which some programs have their processor take for 0.
INLINE float_vector wide_of_float16(half_vector half)
{
    const uint32_t rebias = (127 - 15) << 23, least = (127 - 14) << 23; // 2^-14
    uint32_vector bits = __builtin_convertvector(half, uint32_vector);
    uint32_vector magnitude = (bits & 0x7FFF) << 13, sign = (bits & 0x8000) << 16;
    uint32_vector normal = magnitude + rebias;
    // Below 2^-14: the mantissa as a fraction of 2^-14, without the one before it.
    float_vector one = (float_vector)(uint32_vector)((magnitude & 0x7FFFFF) + least);
    uint32_vector small = (uint32_vector)(one - (float_vector)((magnitude & 0) + least));
    // An infinity or a NaN.
    uint32_vector large = magnitude | INFINITE;
    normal = SELECT(uint32_vector, uint32_vector, magnitude < (1u << 23), small, normal);
    normal = SELECT(uint32_vector, uint32_vector, magnitude >= (31u << 23), large, normal);
    return (float_vector)(normal | sign);
}

INLINE half_vector float16_of(float_vector wide)
{
    const uint32_t least = (127 - 14) << 23, half_bits = 0x3F000000; // 2^-14, 0.5
    const uint32_t rebias = (127u - 15) << 23, infinite = 0x7C00;
    uint32_vector bits = (uint32_vector)wide;
    uint32_vector sign = (bits & SIGN) >> 16, magnitude = bits & ~SIGN;
    uint32_vector normal = (magnitude - rebias + 0xFFF + ((magnitude >> 13) & 1)) >> 13;
    // The last bit of 0.5 is 2^-24, that of the smallest halves: the addition rounds to it.
    float_vector offset = (float_vector)((magnitude & 0) + half_bits);
    uint32_vector small = (uint32_vector)((float_vector)magnitude + offset) - half_bits;
    uint32_vector nan = ((magnitude >> 13) & 0x3FF) | 0x7E00;
    normal = SELECT(uint32_vector, uint32_vector, magnitude < least, small, normal);
    // From 65520 on, which is half a step above the largest, it is infinite.
    normal = SELECT(uint32_vector, uint32_vector, magnitude >= 0x477FF000, (bits & 0) + infinite,
                    normal);
    normal = SELECT(uint32_vector, uint32_vector, magnitude > INFINITE, nan, normal);
    return __builtin_convertvector(normal | sign, half_vector);
}

#define KERNEL_OF_HALVES(name, WIDE, NARROW, OP, IS_MEAN)                                          \
    REDUCE_TARGET static void name(const trp_reduction *what)                                      \
    {                                                                                              \
        enum { LANES = REDUCE_BYTES / 4 };                                                         \
        const float number = (float)what->sources;                                                 \
        for (size_t at = 0; at < what->count; at += LANES) {                                       \
            size_t left = what->count - at, taken = left < LANES ? left : LANES;                   \
            half_vector half = {0};                                                                \
            float_vector a = {0}, other;                                                           \
            for (int i = 0; i < what->sources; i++) {                                              \
                const uint16_t *from = (const uint16_t *)what->from[i] + at;                       \
                if (taken == LANES)                                                                \
                    half = LOAD(half_vector, from);                                                \
                else                                                                               \
                    memcpy(&half, from, taken * sizeof *from);                                     \
                other = WIDE(half);                                                                \
                if (i == 0)                                                                        \
                    a = other;                                                                     \
                else                                                                               \
                    a = OP(float_vector, int32_vector, a, other);                                  \
            }                                                                                      \
            if (IS_MEAN)                                                                           \
                a /= number;                                                                       \
            half = NARROW(a);                                                                      \
            for (int i = 0; i < what->targets; i++) {                                              \
                uint16_t *to = (uint16_t *)what->to[i] + at;                                       \
                if (taken == LANES)                                                                \
                    STORE(half_vector, to, half);                                                  \
                else                                                                               \
                    memcpy(to, &half, taken * sizeof *to);                                         \
            }                                                                                      \
        }                                                                                          \
    }
#define KERNELS_OF_HALVES(name, WIDE, NARROW)                                                      \
    KERNEL_OF_HALVES(sum_##name, WIDE, NARROW, ADD, false)                                         \
    KERNEL_OF_HALVES(mean_##name, WIDE, NARROW, ADD, true)                                         \
    KERNEL_OF_HALVES(min_##name, WIDE, NARROW, LESSER_FLOAT, false)                                \
    KERNEL_OF_HALVES(max_##name, WIDE, NARROW, GREATER_FLOAT, false)
KERNELS_OF_HALVES(bfloat16, wide_of_bfloat16, bfloat16_of)
KERNELS_OF_HALVES(float16, wide_of_float16, float16_of)

#define FLOATS(name)                                                                               \
    {                                                                                              \
        sum_##name, mean_##name, min_##name, max_##name                                            \
    }
#define INTEGERS(name, bits)                                                                       \
    {                                                                                              \
        sum_##bits, NULL, min_##name, max_##name                                                   \
    }
const trp_reducers REDUCE_NAME = {
    .name = REDUCE_TEXT,
    .of =
        {
            [TROUPE_INT8] = INTEGERS(int8, 8),
            [TROUPE_INT16] = INTEGERS(int16, 16),
            [TROUPE_INT32] = INTEGERS(int32, 32),
            [TROUPE_INT64] = INTEGERS(int64, 64),
            [TROUPE_UINT8] = INTEGERS(uint8, 8),
            [TROUPE_UINT16] = INTEGERS(uint16, 16),
            [TROUPE_UINT32] = INTEGERS(uint32, 32),
            [TROUPE_UINT64] = INTEGERS(uint64, 64),
            [TROUPE_FLOAT16] = FLOATS(float16),
            [TROUPE_BFLOAT16] = FLOATS(bfloat16),
            [TROUPE_FLOAT32] = FLOATS(float),
            [TROUPE_FLOAT64] = FLOATS(double),
        },
};
