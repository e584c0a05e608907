// test_decimal.c: doubles as decimal text and back, beside the C library.
#include "support.h"

#include <float.h>
#include <math.h>
#include <runtime/codec/decimal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 300000 };

static uint64_t state_of_random = 88172645463325252u;

static uint64_t next_bits(void)
{
    state_of_random ^= state_of_random << 13;
    state_of_random ^= state_of_random >> 7;
    return state_of_random ^= state_of_random << 17;
}

// As the C library has it, with the first precision from `least` on that reads back.
static const char *expected_text(double value, int least)
{
    static char text[64];
    for (int digits = least; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    return text;
}

static const char *written(double value)
{
    static char text[TRP_DECIMAL_MAX + 1];
    size_t size = trp_decimal_write(value, false, text);
    assert_in_range(size, 1, TRP_DECIMAL_MAX);
    text[size] = '\0';
    return text;
}

static void check(double value)
{
    const char *text = written(value);
    double back = 0, again;
    if (strcmp(text, expected_text(value, 15)) != 0)
        fail_msg("%.17g is written as %s, expected %s", value, text, expected_text(value, 15));
    again = strtod(text, NULL);
    assert_memory_equal(&again, &value, sizeof value);
    if (trp_decimal_read(text, strlen(text), &back))
        assert_memory_equal(&back, &value, sizeof value);
}

static void test_all_sizes_are_written_as_by_the_c_library(void **state)
{
    (void)state;
    static const double edges[] = {0.0,    -0.0,     DBL_MAX,    DBL_MIN,      0x1p-1074,
                                   1e22,   1e23,     0.1,        1 / 3.,       0x1p53,
                                   1e15,   1e16,     1e17,       123456.75,    1e-4,
                                   1e-5,   1e-14,    1e-15,      9.5e-5,       0.5,
                                   5e-324, 1e15 + 1, 0x1p53 - 1, 0x1p53 - 0.5, 999999999999999.9};
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        check(edges[i]);
        check(-edges[i]);
    }
    for (int i = 0; i < MANY / 10; i++) {
        uint64_t bits = next_bits();
        double value;
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value))
            check(value);
    }
}

static void test_usual_sizes_are_written_as_by_the_c_library(void **state)
{
    (void)state;
    for (int i = 0; i < MANY; i++) {
        double fraction = (double)(next_bits() >> 11) * 0x1p-53;
        double ten = pow(10, (double)(next_bits() % 30) - 14);
        check(fraction);
        check(fraction * ten);
        check(rint(fraction * 1e6) / 1e6);
        check(rint(fraction * 1e3) * ten);
    }
}

// Their neighbours below are half as far away as those above.
static void test_powers_of_2_read_back(void **state)
{
    (void)state;
    for (int power = -60; power <= 60; power++) {
        double value = ldexp(1, power);
        const double values[] = {value, nextafter(value, 0), nextafter(value, INFINITY)};
        for (int i = 0; i < 3; i++) {
            const char *text = written(values[i]);
            assert_true(strtod(text, NULL) == values[i]);
            assert_true(strlen(text) <= strlen(expected_text(values[i], 15)));
        }
    }
}

static void test_texts_are_read_as_by_the_c_library(void **state)
{
    (void)state;
    char text[80];
    int taken = 0;
    for (int i = 0; i < MANY; i++) {
        double back;
        int digits = 1 + (int)(next_bits() % 19), power = (int)(next_bits() % 60) - 30;
        uint64_t amount = next_bits() >> (next_bits() % 50);
        char all[40];
        (void)snprintf(all, sizeof all, "%llu", (unsigned long long)amount);
        int size = snprintf(text, sizeof text, "%.*s", digits, all);
        if (i % 2 == 0)
            size += snprintf(text + size, 20, "e%d", power);
        else
            size = snprintf(text, sizeof text, "%.*f", digits, (double)amount * 0x1p-60);
        if (!trp_decimal_read(text, (size_t)size, &back))
            continue;
        taken++;
        double expected = strtod(text, NULL);
        if (memcmp(&back, &expected, sizeof back) != 0)
            fail_msg("%s is read as %.17g, expected %.17g", text, back, expected);
    }
    assert_in_range(taken, MANY / 2, MANY);
}

// Halves between two doubles go to the even one; a digit more decides.
static void test_ties_go_to_the_even_one(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "9007199254740993",    "9007199254740995",     "9007199254740993.1",
        "4503599627370496.5",  "4503599627370497.5",   "4503599627370497.51",
        "0.50000000000000005", "1125899906842624.125", "1125899906842624.375"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        double back = 0;
        assert_true(trp_decimal_read(texts[i], strlen(texts[i]), &back));
        assert_true(back == strtod(texts[i], NULL));
    }
}

static void test_what_is_no_number_is_not_read(void **state)
{
    (void)state;
    static const char *const texts[] = {"",     "-",   "e5",      "1e",  "1e+", "1.2.3",
                                        "0x10", "nan", "1e99999", "12a", "+1",  " 1"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        double back = 7;
        bool read = trp_decimal_read(texts[i], strlen(texts[i]), &back);
        if (read)
            fail_msg("'%s' is read as %g", texts[i], back);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_sizes_are_written_as_by_the_c_library),
        cmocka_unit_test(test_usual_sizes_are_written_as_by_the_c_library),
        cmocka_unit_test(test_powers_of_2_read_back),
        cmocka_unit_test(test_texts_are_read_as_by_the_c_library),
        cmocka_unit_test(test_ties_go_to_the_even_one),
        cmocka_unit_test(test_what_is_no_number_is_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
