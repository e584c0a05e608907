// test_digits.c: numbers as text, without printf.
#include <support.h>

#include <inttypes.h>
#include <runtime/base/buffer.h>
#include <stdio.h>
#include <string.h>

static void test_each_number_of_digits(void **state)
{
    (void)state;
    static const uint32_t numbers[] = {0, 7, 9, 10, 99, 100, 2047, 65536, 999999999, UINT32_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char text[16], expected[16];
        memset(text, '!', sizeof text);
        char *end = trp_digits(text, numbers[i]);
        assert_int_equal(*end, '!'); // It is the caller's to end it.
        *end = '\0';
        snprintf(expected, sizeof expected, "%" PRIu32, numbers[i]);
        assert_string_equal(text, expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_number_of_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
