// test_points.c: points as configs, as JSON, and back; by hand and for spaces of all kinds of rows
// at random.
#include <math.h>
#include <runtime/base/memory.h>
#include <string.h>
#include <support.h>
#include <tune/space/dims.h>
#include <tune/space/space.h>

typedef enum shape { ROUND, SQUARE, FLAT } shape;
TROUPE_ENUM(shape);
TROUPE_STRUCT(plan, (double, start), (int, steps));
TROUPE_STRUCT(settings, (double, rate), (float, decay), (int, width), (bool, nesterov),
              (troupe_text, optimizer), (double, momentum), (shape, form), (char, place, 8),
              (double, weights, 3), (plan, plan), (troupe_ref, data), (troupe_array_double, list),
              (int64_t, epochs), (double, noise), (uint8_t, byte));

static const double few[] = {1, 2, 3};
static const int widths[] = {32, 64, 128};

static const troupe_param rows[] = {
    TROUPE_LOG_UNIFORM(settings, rate, 1e-4, 1.0),
    TROUPE_UNIFORM(settings, decay, 0.1, 0.7),
    TROUPE_CHOICE_LIST(settings, width, widths),
    TROUPE_INTEGER(settings, nesterov, 0, 1),
    TROUPE_CHOICE_TEXT(settings, optimizer, "sgd", "adam", "none"),
    TROUPE_UNIFORM(settings, momentum, 0, 1, .step = 0.1),
    TROUPE_ONLY_WHEN_TEXT(settings, momentum, optimizer, "sgd", "none"),
    TROUPE_ORDERED(settings, form, ROUND, SQUARE, FLAT),
    TROUPE_CHOICE_TEXT(settings, place, "here", "there"),
    TROUPE_ONLY_WHEN(settings, place, form, SQUARE),
    TROUPE_NORMAL(settings, weights[1], 0, 2),
    TROUPE_NORMAL(settings, weights[2], 1, 2, .step = 0.5, .low = 0, .high = 3),
    TROUPE_INTEGER(settings, plan.steps, 1, 1000, .log = true),
    TROUPE_CHOICE_OF(settings, data, {1, 7}, {2, 7}),
    TROUPE_CHOICE_OF(settings, list, {few, 3}, {few, 2}, {NULL, 0}),
    TROUPE_INTEGER(settings, epochs, 10, 50, .step = 10),
    TROUPE_FIXED(settings, noise, 0.5),
    TROUPE_NORMAL(settings, byte, 100, 16),
    TROUPE_GRID(troupe_train_options, ranks, 1, 2, 4),
    TROUPE_UNIFORM(troupe_train_options, cpus_per_rank, 0.5, 2),
};
enum { ROWS = sizeof rows / sizeof *rows, DIMS_MAX = 32 };

static troupe_space *opened(const settings *base)
{
    troupe_space *space = NULL;
    if (troupe_space_open_as(&troupe_type_settings, rows, ROWS, base, &space) != TROUPE_OK)
        fail_msg("%s", troupe_last_error()->text);
    return space;
}

static bool same_points(const double *a, const double *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (a[i] != b[i] && !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

static void test_points_map_back(void **state)
{
    (void)state;
    troupe_space *space = opened(NULL);
    size_t count;
    const troupe_dim *dims = troupe_space_dims(space, &count);
    assert_true(count <= DIMS_MAX);
    trp_random random;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        double x[DIMS_MAX], back[DIMS_MAX], read[DIMS_MAX];
        settings config;
        trp_random_seed(&random, seed, 0);
        trp_dims_draw(dims, count, &random, x);
        trp_space_settle(space, x);
        memset(&config, 0xff, sizeof config);
        troupe_space_config(space, x, &config);
        if (trp_space_point(space, &config, back) != TROUPE_OK)
            fail_msg("seed %d: %s", (int)seed, troupe_last_error()->text);
        const char *json = troupe_space_json(space, x);
        trp_json value;
        assert_int_equal(trp_json_parse(json, strlen(json), &value), TROUPE_OK);
        if (trp_space_read_point(space, value, false, read) != TROUPE_OK)
            fail_msg("seed %d: %s: %s", (int)seed, json, troupe_last_error()->text);
        for (size_t i = 0; i < count; i++) {
            const trp_space_row *row = space->drawn[i];
            if (row->option)
                assert_true(isnan(back[i]));
            else
                assert_true(back[i] == x[i] || (isnan(back[i]) && isnan(x[i])));
            if (strcmp(row->name, "data") == 0) // References are null in JSON.
                read[i] = x[i];
        }
        if (!same_points(x, read, count))
            fail_msg("seed %d: %s is another point", (int)seed, json);
        troupe_arena_reset();
    }
    troupe_space_free(&space);
    assert_null(space);
    troupe_space_free(&space);
}

static size_t dim_of(const troupe_space *space, const char *name)
{
    for (size_t i = 0; i < space->dim_count; i++)
        if (strcmp(space->dims[i].name, name) == 0)
            return i;
    fail_msg("no dimension %s", name);
    return 0;
}

static void test_a_config_by_hand(void **state)
{
    (void)state;
    const settings base = {.momentum = 0.25, .place = "base", .plan = {.start = 3}};
    troupe_space *space = opened(&base);
    double x[DIMS_MAX];
    for (size_t i = 0; i < space->dim_count; i++)
        x[i] = space->dims[i].low;
    x[dim_of(space, "optimizer")] = 1;
    x[dim_of(space, "form")] = SQUARE;
    x[dim_of(space, "momentum")] = (double)NAN;
    x[dim_of(space, "place")] = 1;
    x[dim_of(space, "data")] = 1;
    x[dim_of(space, "list")] = 1;
    x[dim_of(space, "weights[1]")] = -1.5;
    x[dim_of(space, "ranks")] = 2;
    settings config;
    troupe_space_config(space, x, &config);
    assert_true(config.rate == 1e-4 && config.decay >= 0.1f && config.width == 32);
    assert_string_equal(config.optimizer, "adam");
    assert_true(config.momentum == 0.25); // It does not count: the base's.
    assert_int_equal(config.form, SQUARE);
    assert_string_equal(config.place, "there");
    assert_true(config.weights[0] == 0 && config.weights[1] == -1.5 && config.weights[2] == 0);
    assert_true(config.plan.start == 3 && config.plan.steps == 1);
    assert_int_equal(config.data.id, 2);
    assert_true(config.list.count == 2 && config.list.items[1] == 2 && config.list.items != few);
    assert_true(config.noise == 0.5);

    troupe_train_options options = {.size = sizeof options, .ranks = 9, .keep = 3};
    trp_space_options(space, x, &options);
    assert_true(options.ranks == 4 && options.keep == 3 && options.cpus_per_rank == 0.5);
    assert_true(trp_space_has_options(space));

    x[dim_of(space, "form")] = FLAT;
    x[dim_of(space, "place")] = (double)NAN;
    troupe_space_config(space, x, &config);
    assert_string_equal(config.place, "base");
    assert_string_equal(troupe_space_json(space, x),
                        "{\"rate\": 0.0001, \"decay\": 0.1, \"width\": 32, \"nesterov\": false, "
                        "\"optimizer\": \"adam\", \"form\": 2, \"weights[1]\": -1.5, "
                        "\"weights[2]\": 0, \"plan.steps\": 1, \"data\": null, \"list\": [1,2], "
                        "\"epochs\": 10, \"noise\": 0.5, \"byte\": 4, \"ranks\": 4, "
                        "\"cpus_per_rank\": 0.5}");
    troupe_arena_reset();
    troupe_space_free(&space);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_points_map_back),
        cmocka_unit_test(test_a_config_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
