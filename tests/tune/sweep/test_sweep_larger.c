// test_sweep_larger.c: sweeps that go on in a larger space, over a Train that a thread plays.
#include "fake_train.h"

static const troupe_param larger[] = {
    TROUPE_UNIFORM(fake_settings, rate, 0, 4),
    TROUPE_CHOICE(fake_settings, hidden, 32, 64, 128, 256),
    TROUPE_CHOICE(fake_settings, epochs, 5, 9),
    TROUPE_CHOICE(troupe_train_options, keep, 0, 1),
};

static const char *name;

static troupe_status go_on_over(const fake_settings *base, troupe_sweep **sweep,
                                const troupe_param *rows, size_t count, int trials)
{
    const troupe_tune_options how = {.size = sizeof how,
                                     .metric = "loss",
                                     .goal = TROUPE_MINIMIZE,
                                     .trials = trials,
                                     .name = name,
                                     .base = base,
                                     .search = TROUPE_SEARCH_RANDOM,
                                     .server = TROUPE_SERVER_AUTO,
                                     .open = TROUPE_OPEN_RESUME_OR_NEW,
                                     .train =
                                         TROUPE_OPTIONS(troupe_train_options, .storage = storage)};
    return trp_sweep_run(&fake_port, &fit, rows, count, sweep, &how);
}

static troupe_status go_on(troupe_sweep **sweep, const troupe_param *rows, size_t count, int trials)
{
    return go_on_over(NULL, sweep, rows, count, trials);
}

// Trials that were submitted are found, with the configs that they have; new ones are drawn from
// the larger space.
static void test_a_sweep_goes_on_in_a_larger_space(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    fake_settings before[4];
    int beyond = 0;
    name = "larger";
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

// Whatever refuses it, the sweep is what it was, and its program goes on.
static void test_a_refused_sweep_has_not_become_larger(void **state)
{
    (void)state;
    const fake_settings base = {.fail_at = 99};
    troupe_sweep *sweep;
    name = "refused";
    fake_open(2);
    ok(go_on(&sweep, space, ROWS, 4));
    char *file = support_path(storage, "refused/trials.jsonl");
    troupe_sweep_free(&sweep);
    fake_shut();
    char *before = support_read_file(file);
    for (int i = 0; i < 2; i++) {
        fake_open(2);
        fake.finding = i == 0 ? TROUPE_OK : TROUPE_TIMED_OUT;
        troupe_status status = go_on_over(i == 0 ? &base : NULL, &sweep, larger, 3, 8);
        assert_int_equal(status, i == 0 ? TROUPE_EXISTS : TROUPE_TIMED_OUT);
        assert_non_null(strstr(troupe_last_error()->text,
                               i == 0 ? "was submitted with the config" : "cannot be looked for"));
        char *after = support_read_file(file);
        assert_string_equal(after, before);
        free(after);
        fake.finding = TROUPE_OK;
        ok(go_on(&sweep, space, ROWS, 4));
        assert_int_equal(fake.submitted, 0);
        troupe_sweep_free(&sweep);
        fake_shut();
    }
    free(before);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_sweep_goes_on_in_a_larger_space),
        cmocka_unit_test(test_a_refused_sweep_has_not_become_larger),
    };
    return cmocka_run_group_tests(tests, make_storage, remove_storage);
}
