// test_reduce.c: the kernels of each set of instructions that this processor has give the bits of
// plain loops, and numbers of 16 bits are rounded as IEEE 754 says.
#include "support.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <train/reduce.h>

enum { SOURCES = 5, COUNT = 1500, WIDTH = 8 };

static unsigned char sources[SOURCES][COUNT * WIDTH + 64], made[2][COUNT * WIDTH + 64];

static uint64_t seed = 1;

static uint64_t next(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

static void fill(void)
{
    for (int i = 0; i < SOURCES; i++)
        for (size_t k = 0; k + 8 <= sizeof sources[i]; k += 8)
            memcpy(&sources[i][k], (uint64_t[]){next()}, 8);
}

// ---- numbers of 16 bits, by the book

static float wide_of(troupe_dtype element, uint16_t half)
{
    float wide;
    if (element == TROUPE_BFLOAT16) {
        memcpy(&wide, (uint32_t[]){(uint32_t)half << 16}, sizeof wide);
        return wide;
    }
    int exponent = half >> 10 & 31, mantissa = half & 0x3FF;
    wide = exponent == 31  ? (mantissa ? NAN : INFINITY)
           : exponent == 0 ? ldexpf((float)mantissa, -24)
                           : ldexpf((float)(mantissa + 1024), exponent - 25);
    return half & 0x8000 ? -wide : wide;
}

static bool half_is_nan(troupe_dtype element, uint16_t half)
{
    return element == TROUPE_BFLOAT16 ? (half & 0x7FFF) > 0x7F80 : (half & 0x7FFF) > 0x7C00;
}

// Whether `half` is what `wide` is rounded to: no other is nearer, and of two the even one.
static bool is_rounded(troupe_dtype element, float wide, uint16_t half)
{
    if (isnan(wide) || half_is_nan(element, half))
        return isnan(wide) && half_is_nan(element, half);
    uint16_t infinite = element == TROUPE_BFLOAT16 ? 0x7F80 : 0x7C00;
    uint16_t magnitude = half & 0x7FFF;
    if (!!(half & 0x8000) != !!signbit(wide))
        return false;
    double exact = fabs((double)wide);
    // As if exponents had no end: what is above the largest by half a step is infinite.
    double largest = wide_of(element, (uint16_t)(infinite - 1));
    double step = largest - (double)wide_of(element, (uint16_t)(infinite - 2));
    double value = magnitude == infinite ? largest + step : (double)wide_of(element, magnitude);
    double below = magnitude ? (double)wide_of(element, (uint16_t)(magnitude - 1)) : -1;
    double above = magnitude + 1 >= infinite ? (magnitude == infinite ? INFINITY : largest + step)
                                             : (double)wide_of(element, (uint16_t)(magnitude + 1));
    double off = fabs(exact - value);
    if (magnitude == infinite && exact > value)
        return true;
    if (off > fabs(exact - below) || off > fabs(exact - above))
        return false;
    bool tie = off == fabs(exact - below) || off == fabs(exact - above);
    return off == 0 || !tie || !(magnitude & 1);
}

// ---- plain loops

#define LOOP(T, WIDE)                                                                              \
    do {                                                                                           \
        for (size_t k = 0; k < count; k++) {                                                       \
            T a, b;                                                                                \
            memcpy(&a, from[0] + k * sizeof(T), sizeof(T));                                        \
            for (int i = 1; i < number; i++) {                                                     \
                memcpy(&b, from[i] + k * sizeof(T), sizeof(T));                                    \
                if (how == TROUPE_MIN)                                                             \
                    a = b < a || b != b ? b : a;                                                   \
                else if (how == TROUPE_MAX)                                                        \
                    a = b > a || b != b ? b : a;                                                   \
                else                                                                               \
                    a = (T)((WIDE)a + (WIDE)b);                                                    \
            }                                                                                      \
            if (how == TROUPE_MEAN)                                                                \
                a /= (T)number;                                                                    \
            memcpy(out + k * sizeof(T), &a, sizeof(T));                                            \
        }                                                                                          \
    } while (0)

static void expect(troupe_dtype element, troupe_reduction how, const unsigned char *const *from,
                   int number, size_t count, unsigned char *out)
{
    switch (element) {
    case TROUPE_FLOAT32:
        LOOP(float, float);
        break;
    case TROUPE_FLOAT64:
        LOOP(double, double);
        break;
    case TROUPE_INT8:
        LOOP(int8_t, uint8_t);
        break;
    case TROUPE_INT16:
        LOOP(int16_t, uint16_t);
        break;
    case TROUPE_INT32:
        LOOP(int32_t, uint32_t);
        break;
    case TROUPE_INT64:
        LOOP(int64_t, uint64_t);
        break;
    case TROUPE_UINT8:
        LOOP(uint8_t, uint8_t);
        break;
    case TROUPE_UINT16:
        LOOP(uint16_t, uint16_t);
        break;
    case TROUPE_UINT32:
        LOOP(uint32_t, uint32_t);
        break;
    case TROUPE_UINT64:
        LOOP(uint64_t, uint64_t);
        break;
    default:
        fail();
    }
}

static bool is_half(troupe_dtype element)
{
    return element == TROUPE_FLOAT16 || element == TROUPE_BFLOAT16;
}

static void check_halves(troupe_dtype element, troupe_reduction how,
                         const unsigned char *const *from, int number, size_t count,
                         const unsigned char *out)
{
    for (size_t k = 0; k < count; k++) {
        uint16_t half;
        float a = 0;
        for (int i = 0; i < number; i++) {
            memcpy(&half, from[i] + 2 * k, 2);
            float b = wide_of(element, half);
            if (i == 0)
                a = b;
            else if (how == TROUPE_MIN)
                a = b < a || isnan(b) ? b : a;
            else if (how == TROUPE_MAX)
                a = b > a || isnan(b) ? b : a;
            else
                a += b;
        }
        if (how == TROUPE_MEAN)
            a /= (float)number;
        memcpy(&half, out + 2 * k, 2);
        if (!is_rounded(element, a, half))
            fail_msg("%s %d of %d at %zu: %a became %04x", troupe_dtype_text(element), (int)how,
                     number, k, (double)a, half);
    }
}

// NaNs are NaNs, whatever their bits.
static bool alike(troupe_dtype element, const unsigned char *a, const unsigned char *b)
{
    size_t width = troupe_dtype_size(element);
    double x = 0, y = 0;
    float p, q;
    if (memcmp(a, b, width) == 0)
        return true;
    if (element == TROUPE_FLOAT64) {
        memcpy(&x, a, 8);
        memcpy(&y, b, 8);
    } else if (element == TROUPE_FLOAT32) {
        memcpy(&p, a, 4);
        memcpy(&q, b, 4);
        x = (double)p;
        y = (double)q;
    }
    return isnan(x) && isnan(y);
}

static void check(trp_reducer by, const char *name, troupe_dtype element, troupe_reduction how,
                  int number, size_t count, size_t shift)
{
    static unsigned char expected[COUNT * WIDTH];
    size_t width = troupe_dtype_size(element), size = count * width;
    const unsigned char *from[SOURCES];
    for (int i = 0; i < number; i++)
        from[i] = sources[i] + (size_t)i * shift;
    memset(made, 0xA5, sizeof made);
    void *to[] = {made[0] + shift, made[1] + 3 * shift};
    by(&(trp_reduction){(const void *const *)from, number, to, 2, count, 0});
    assert_memory_equal(to[0], to[1], size);
    assert_int_equal(((unsigned char *)to[0])[size], 0xA5);
    assert_int_equal(((unsigned char *)to[1])[size], 0xA5);
    if (is_half(element)) {
        check_halves(element, how, from, number, count, to[0]);
        return;
    }
    expect(element, how, from, number, count, expected);
    for (size_t k = 0; k < count; k++)
        if (!alike(element, (unsigned char *)to[0] + k * width, expected + k * width))
            fail_msg("%s: %s, reduction %d, %d sources, element %zu of %zu differs", name,
                     troupe_dtype_text(element), (int)how, number, k, count);
}

static void test_all_kernels_do_what_plain_loops_do(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 3, 15, 16, 63, 64, 65, 255, 256, 257, 1023, COUNT};
    fill();
    for (size_t set = 0; trp_reducers_at(set); set++) {
        const trp_reducers *all = trp_reducers_at(set);
        print_message("%s\n", all->name);
        for (int element = TROUPE_INT8; element < TRP_DTYPES; element++)
            for (troupe_reduction how = TROUPE_SUM; how <= TROUPE_MAX; how++)
                for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                    if (all->of[element][how])
                        check(all->of[element][how], all->name, (troupe_dtype)element, how,
                              1 + (int)(c % SOURCES), counts[c], c % 3 * 3);
    }
    assert_null(trp_reducer_of(TROUPE_BOOL, TROUPE_SUM));
    assert_null(trp_reducer_of(TROUPE_DTYPE_NONE, TROUPE_SUM));
    assert_null(trp_reducer_of((troupe_dtype)99, TROUPE_SUM));
    assert_null(trp_reducer_of(TROUPE_INT8, (troupe_reduction)4));
}

// All numbers of 16 bits through a sum with nothing, and all that lie between two of them.
static void test_all_halves_are_rounded_to_the_nearest_even(void **state)
{
    (void)state;
    static uint16_t halves[1 << 16], out[1 << 16], one[1 << 16];
    for (int i = 0; i < 1 << 16; i++)
        halves[i] = (uint16_t)i;
    for (size_t set = 0; trp_reducers_at(set); set++)
        for (troupe_dtype element = TROUPE_FLOAT16; element <= TROUPE_BFLOAT16; element++) {
            trp_reducer sum = trp_reducers_at(set)->of[element][TROUPE_SUM];
            const void *from[] = {halves, one};
            void *to[] = {out};
            sum(&(trp_reduction){from, 1, to, 1, 1 << 16, 0});
            for (int i = 0; i < 1 << 16; i++)
                assert_true(half_is_nan(element, halves[i]) ? half_is_nan(element, out[i])
                                                            : out[i] == halves[i]);
            for (int i = 0; i < 1 << 16; i++)
                one[i] = (uint16_t)((unsigned)i * 40503 + 977);
            sum(&(trp_reduction){from, 2, to, 1, 1 << 16, 0});
            check_halves(element, TROUPE_SUM, (const unsigned char *const *)from, 2, 1 << 16,
                         (const unsigned char *)out);
            memset(one, 0, sizeof one);
        }
}

static void test_means_of_small_integers_do_not_wrap_around(void **state)
{
    (void)state;
    const uint8_t bytes[2] = {200, 100};
    const int8_t small[2] = {-128, -127};
    uint8_t mean;
    int8_t low;
    trp_reducer_of(TROUPE_UINT8, TROUPE_MEAN)(&(trp_reduction){
        (const void *const[]){&bytes[0], &bytes[1]}, 2, (void *const[]){&mean}, 1, 1, 0});
    trp_reducer_of(TROUPE_INT8, TROUPE_MEAN)(&(trp_reduction){
        (const void *const[]){&small[0], &small[1]}, 2, (void *const[]){&low}, 1, 1, 0});
    assert_int_equal(mean, 150);
    assert_int_equal(low, -127); // Truncated.
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_kernels_do_what_plain_loops_do),
        cmocka_unit_test(test_all_halves_are_rounded_to_the_nearest_even),
        cmocka_unit_test(test_means_of_small_integers_do_not_wrap_around),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
