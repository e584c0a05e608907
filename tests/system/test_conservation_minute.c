// test_conservation_minute.c: a minute of conservation.h.
// label: slow
// timeout: 240
#include "conservation.h"

static void nothing_is_lost_and_nothing_is_run_twice(void **state)
{
    (void)state;
    conserve(60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_lost_and_nothing_is_run_twice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
