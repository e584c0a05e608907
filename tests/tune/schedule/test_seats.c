// test_seats.c: an array that grows, and what is refused.
#include <runtime/base/memory.h>
#include <support.h>
#include <tune/schedule/seats.h>

static void test_items_stay_what_they_are(void **state)
{
    (void)state;
    trp_seats seats = {.item = sizeof(long)};
    long *item;
    assert_null(trp_seats_at(&seats, 0));
    for (int i = 0; i < 1000; i += 3) {
        assert_int_equal(trp_seats_make(&seats, i, &item), TROUPE_OK);
        assert_int_equal(*item, 0);
        *item = i + 1;
    }
    for (int i = 0; i < 999; i++)
        assert_int_equal(*(long *)trp_seats_at(&seats, i), i % 3 == 0 ? i + 1 : 0);
    assert_null(trp_seats_at(&seats, -1));
    assert_null(trp_seats_at(&seats, 100000));
    trp_seats_free(&seats);
    assert_null(trp_seats_at(&seats, 0));
}

static void test_what_cannot_be_is_refused(void **state)
{
    (void)state;
    trp_seats seats = {.item = sizeof(long)};
    long *item;
    assert_int_equal(trp_seats_make(&seats, -2, &item), TROUPE_INVALID);
    assert_string_equal(troupe_last_error()->text, "trial -2: numbers are 0 or more");
    trp_memory_fail_after(0);
    assert_int_equal(trp_seats_make(&seats, 5, &item), TROUPE_NO_MEMORY);
    trp_memory_fail_after(-1);
    assert_null(trp_seats_at(&seats, 0));
    assert_int_equal(trp_seats_make(&seats, 5, &item), TROUPE_OK);
    trp_seats_free(&seats);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_items_stay_what_they_are),
        cmocka_unit_test(test_what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
