// test_options.c: what is left out of the options of troupe_start follows from the limits of the
// process, and what is given is kept.
#include <support.h>

#include <runtime/node/options.h>

static const double memory_bytes = 1 << 30;

static void test_what_is_left_out_follows_from_the_limits(void **state)
{
    (void)state;
    const trp_limits limits = {.cpus = 2.5, .memory_bytes = memory_bytes, .gpus = 3};
    troupe_options full;
    assert_int_equal(trp_options_complete(NULL, &limits, &full), TROUPE_OK);
    assert_int_equal(full.workers, 3);
    assert_int_equal(full.threads, 3);
    assert_true(full.cpus == 3);
    assert_int_equal(full.gpus, 3);
    assert_int_equal(full.memory_bytes, (size_t)(memory_bytes * 0.7));
    assert_int_equal(full.store_bytes_max, (size_t)(memory_bytes * 0.3));
}

static void test_what_is_given_stays(void **state)
{
    (void)state;
    const trp_limits limits = {.cpus = 2.5, .memory_bytes = memory_bytes, .gpus = 3};
    const troupe_options given = {.size = sizeof given,
                                  .workers = TROUPE_NONE,
                                  .threads = 5,
                                  .cpus = 6,
                                  .gpus = TROUPE_NONE,
                                  .memory_bytes = 7 << 20,
                                  .store_bytes_max = 8 << 20};
    troupe_options full;
    assert_int_equal(trp_options_complete(&given, &limits, &full), TROUPE_OK);
    assert_int_equal(full.workers, TROUPE_NONE);
    assert_int_equal(full.threads, 5);
    assert_true(full.cpus == 6);
    assert_int_equal(full.gpus, TROUPE_NONE);
    assert_int_equal(full.memory_bytes, 7 << 20);
    assert_int_equal(full.store_bytes_max, 8 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_left_out_follows_from_the_limits),
        cmocka_unit_test(test_what_is_given_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
