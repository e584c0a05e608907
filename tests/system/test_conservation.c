// test_conservation.c: a few seconds of conservation.h, or as many as are asked for.
// timeout: 90
// again: minute slow 240 60
#include "conservation.h"

static int seconds = 4;

static void test_nothing_is_lost_and_nothing_is_run_twice(void **state)
{
    (void)state;
    conserve(seconds);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_lost_and_nothing_is_run_twice)};
    if (argc > 1)
        seconds = atoi(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
