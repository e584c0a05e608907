// test_sweep_larger.c: sweeps that go on in a larger space, over a Train that a thread plays.
#include "fake_train.h"

static const troupe_param larger[] = {
    TROUPE_UNIFORM(fake_settings, rate, 0, 4),
    TROUPE_CHOICE(fake_settings, hidden, 32, 64, 128, 256),
    TROUPE_CHOICE(fake_settings, epochs, 5, 9),
    TROUPE_CHOICE(troupe_train_options, keep, 0, 1),
};

static troupe_status go_on(troupe_sweep **sweep, const troupe_param *rows, size_t count, int trials)
{
    const troupe_tune_options how = {.size = sizeof how,
                                     .metric = "loss",
                                     .goal = TROUPE_MINIMIZE,
                                     .trials = trials,
                                     .name = "larger",
                                     .search = TROUPE_SEARCH_RANDOM,
                                     .server = TROUPE_SERVER_AUTO,
                                     .open = TROUPE_OPEN_RESUME_OR_NEW,
                                     .train =
                                         TROUPE_OPTIONS(troupe_train_options, .storage = storage)};
    return trp_sweep_run(&fake_port, &fit, rows, count, sweep, &how);
}

// Trials that were submitted are found, with the configs that they have; new ones are drawn from
// the larger space.
static void test_a_sweep_goes_on_in_a_larger_space(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    fake_settings before[4];
    int beyond = 0;
    fake_open(2);
    ok(go_on(&sweep, space, ROWS, 4));
    for (size_t i = 0; i < 4; i++)
        before[i] = *(const fake_settings *)troupe_sweep_trial(sweep, i)->config;
    troupe_sweep_free(&sweep);
    fake_shut();
    fake_open(2);
    // An option of the run, of which nobody knows what it was.
    assert_int_equal(go_on(&sweep, larger, 4, 24), TROUPE_EXISTS);
    assert_non_null(strstr(troupe_last_error()->text, "keep counts now in trials"));
    ok(go_on(&sweep, larger, 3, 24));
    assert_int_equal(fake.submitted, 20);
    for (size_t i = 0; i < 24; i++) {
        const fake_settings *config = troupe_sweep_trial(sweep, i)->config;
        if (i < 4)
            assert_memory_equal(config, &before[i], sizeof *config);
        beyond += config->rate >= 1;
    }
    assert_in_range(beyond, 8, 20);
    troupe_sweep_free(&sweep);
    fake_shut();
    fake_open(2);
    assert_int_equal(go_on(&sweep, space, ROWS, 24), TROUPE_EXISTS);
    ok(go_on(&sweep, larger, 3, 24));
    assert_int_equal(fake.submitted, 0);
    troupe_sweep_free(&sweep);
    fake_shut();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_sweep_goes_on_in_a_larger_space)};
    return cmocka_run_group_tests(tests, make_storage, remove_storage);
}
