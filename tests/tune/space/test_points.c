// test_points.c: points as configs, as JSON, and back; by hand and for spaces of all kinds of rows
// at random.
#include <math.h>
#include <runtime/base/memory.h>
#include <stdio.h>
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

// ---- what is no point

static void no_point(troupe_space *space, const settings *config, const char *words)
{
    double x[DIMS_MAX];
    assert_int_equal(trp_space_point(space, config, x), TROUPE_INVALID);
    if (strstr(troupe_last_error()->text, words) == NULL)
        fail_msg("the sentence \"%s\" does not say \"%s\"", troupe_last_error()->text, words);
}

static settings right(void)
{
    return (settings){.rate = 0.1,
                      .decay = 0.1f,
                      .width = 64,
                      .optimizer = "sgd",
                      .momentum = 0.1 + 0.2, // Not 0.3 by its last digit.
                      .form = SQUARE,
                      .place = "here",
                      .weights = {7, 0, 0.5},
                      .plan = {.steps = 10},
                      .data = {2, 7},
                      .list = {few, 2},
                      .epochs = 20,
                      .byte = 100};
}

static void test_a_config_that_cannot_be_drawn_is_refused(void **state)
{
    (void)state;
    troupe_space *space = opened(NULL);
    double x[DIMS_MAX];
    settings config = right();
    assert_int_equal(trp_space_point(space, &config, x), TROUPE_OK);
    assert_true(x[dim_of(space, "momentum")] == 0.1 * 3);
    assert_true(isnan(x[dim_of(space, "ranks")]));
    config.rate = 1;
    no_point(space, &config, "rate is 1, and the space has it from");
    no_point(space, &config, "to below 1");
    config = right();
    config.decay = 0.7001f;
    no_point(space, &config, "decay is 0.7001");
    config = right();
    config.momentum = 0.25;
    no_point(space, &config, "momentum is 0.25, and the space has it from 0 to 1 in steps of 0.1");
    config.optimizer = "adam"; // It does not count any more.
    assert_int_equal(trp_space_point(space, &config, x), TROUPE_OK);
    assert_true(isnan(x[dim_of(space, "momentum")]));
    config.optimizer = "other";
    no_point(space, &config, "optimizer is none of its choices: {\"value\": \"other\"}");
    config = right();
    config.epochs = 25;
    no_point(space, &config, "epochs is 25, and the space has it from 10 to 50 in steps of 10");
    config = right();
    config.list.count = 1;
    no_point(space, &config, "list is none of its choices");
    config = right();
    config.plan.steps = 1001;
    no_point(space, &config, "plan.steps is 1001, and the space has it from 1 to 1000");
    config = right();
    config.rate = (double)NAN;
    no_point(space, &config, "rate is nan");
    troupe_space_free(&space);
}

static troupe_status read(const troupe_space *space, const char *json, bool lenient, double *x)
{
    trp_json value;
    assert_int_equal(trp_json_parse(json, strlen(json), &value), TROUPE_OK);
    return trp_space_read_point(space, value, lenient, x);
}

static void test_parts_of_a_point_are_read(void **state)
{
    (void)state;
    troupe_space *space = opened(NULL);
    static const struct {
        const char *json, *words;
    } wrong[] = {
        {"[]", "a point is an object of JSON"},
        {"{\"speed\": 1}", "the space has no row \"speed\""},
        {"{\"rate\": 2}", "rate is 2, and the space has it"},
        {"{\"rate\": \"fast\"}", "rate is \"fast\": expected a number"},
        {"{\"rate\": \"NaN\"}", "rate is \"NaN\": expected a number"},
        {"{\"plan.steps\": 1.5}", "plan.steps is 1.5, and the space has it from 1 to 1000"},
        {"{\"optimizer\": \"sgdx\"}", "optimizer is none of its choices: \"sgdx\""},
        {"{\"width\": 65}", "width is none of its choices: 65"},
    };
    double x[DIMS_MAX];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(read(space, wrong[i].json, false, x), TROUPE_INVALID);
        if (strstr(troupe_last_error()->text, wrong[i].words) == NULL)
            fail_msg("the sentence \"%s\" does not say \"%s\"", troupe_last_error()->text,
                     wrong[i].words);
        if (i == 0)
            continue;
        assert_int_equal(read(space, wrong[i].json, true, x), TROUPE_OK);
        for (size_t k = 0; k < space->dim_count; k++)
            assert_true(isnan(x[k]));
    }
    // Momentum may yet count, and its value stays; place does not count with that form.
    assert_int_equal(read(space,
                          "{\"momentum\": 0.5, \"form\": 0, \"place\": \"there\", \"noise\": 9, "
                          "\"ranks\": 4, \"width\": 64.0}",
                          false, x),
                     TROUPE_OK);
    assert_true(x[dim_of(space, "momentum")] == 0.5 && isnan(x[dim_of(space, "optimizer")]));
    assert_true(x[dim_of(space, "form")] == 0 && isnan(x[dim_of(space, "place")]));
    assert_true(x[dim_of(space, "ranks")] == 2 && x[dim_of(space, "width")] == 1);
    trp_random random;
    int kept = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        double y[DIMS_MAX];
        memcpy(y, x, sizeof y);
        trp_random_seed(&random, seed, 0);
        trp_space_complete(space, &random, y);
        bool counts = y[dim_of(space, "optimizer")] != 1;
        kept += counts;
        assert_true(counts ? y[dim_of(space, "momentum")] == 0.5
                           : isnan(y[dim_of(space, "momentum")]));
        assert_true(y[dim_of(space, "form")] == 0 && isnan(y[dim_of(space, "place")]));
        for (size_t i = 0; i < space->dim_count; i++)
            assert_int_equal(isnan(y[i]), !trp_dim_counts(space->dims, i, y));
    }
    assert_in_range(kept, 100, 170); // 2 of 3.
    troupe_space_free(&space);
}

// A choice that is there twice is drawn twice as often, and is one choice all the same.
static void test_a_choice_may_be_there_twice(void **state)
{
    (void)state;
    const troupe_param twice[] = {
        TROUPE_CHOICE(settings, width, 1, 2, 1),
        TROUPE_UNIFORM(settings, rate, 0, 1),
        TROUPE_ONLY_WHEN(settings, rate, width, 1),
    };
    troupe_space *space;
    troupe_must(troupe_space_open(settings, twice, &space));
    double x[2] = {2, 0.5}, back[2];
    settings config;
    assert_true(trp_dim_counts(space->dims, 1, x));
    trp_space_settle(space, x);
    assert_true(x[0] == 0 && x[1] == 0.5);
    troupe_space_config(space, x, &config);
    assert_int_equal(trp_space_point(space, &config, back), TROUPE_OK);
    assert_true(back[0] == 0 && back[1] == 0.5);
    troupe_space_free(&space);
}

// G12: texts, lists and whole structs as uniformly as numbers are (test_space).
static void test_choices_are_drawn_uniformly(void **state)
{
    (void)state;
    troupe_space *space = opened(NULL);
    enum { DRAWS = 20000 };
    const size_t columns[] = {dim_of(space, "width"), dim_of(space, "optimizer"),
                              dim_of(space, "list"), dim_of(space, "ranks")};
    int seen[4][3] = {0};
    trp_random random;
    trp_random_seed(&random, 3, 0);
    for (int i = 0; i < DRAWS; i++) {
        double x[DIMS_MAX];
        settings config;
        troupe_train_options options = {0};
        trp_dims_draw(space->dims, space->dim_count, &random, x);
        trp_space_settle(space, x);
        troupe_space_config(space, x, &config);
        trp_space_options(space, x, &options);
        seen[0][config.width == 32 ? 0 : config.width == 64 ? 1 : 2]++;
        seen[1][config.optimizer[0] == 's' ? 0 : config.optimizer[0] == 'a' ? 1 : 2]++;
        seen[2][config.list.count == 3 ? 0 : config.list.count == 2 ? 1 : 2]++;
        seen[3][options.ranks == 1 ? 0 : options.ranks == 2 ? 1 : 2]++;
    }
    for (size_t k = 0; k < 4; k++) {
        double chi = 0;
        assert_int_equal(space->dims[columns[k]].choices, 3);
        for (int i = 0; i < 3; i++)
            chi += pow(seen[k][i] - DRAWS / 3.0, 2) / (DRAWS / 3.0);
        assert_true(chi < 13.8); // One in a thousand.
    }
    troupe_space_free(&space);
}

// ---- spaces at random

static const char *draw_row(trp_random *random, int index, char *row, size_t size)
{
    double low = trp_random_unit(random) * 4 - 2, width = 0.5 + trp_random_unit(random) * 9;
    int whole = (int)trp_random_below(random, 20) - 5, wide = 1 + (int)trp_random_below(random, 40);
    switch (trp_random_below(random, 9)) {
    case 0:
        snprintf(row, size, "\"r%d\": {\"uniform\": [%.17g, %.17g]}", index, low, low + width);
        break;
    case 1:
        snprintf(row, size, "\"r%d\": {\"uniform\": [%.17g, %.17g], \"step\": %.17g}", index, low,
                 low + width, width / (1 + (double)trp_random_below(random, 12)) * 0.99);
        break;
    case 2:
        snprintf(row, size, "\"r%d\": {\"log_uniform\": [%.17g, %.17g]}", index, width / 99, width);
        break;
    case 3:
        snprintf(row, size, "\"r%d\": {\"integer\": [%d, %d]}", index, whole, whole + wide);
        break;
    case 4:
        snprintf(row, size, "\"r%d\": {\"integer\": [%d, %d], \"log\": true, \"step\": %d}", index,
                 wide, 4 * wide, 1 + wide / 2);
        break;
    case 5:
        snprintf(row, size, "\"r%d\": {\"normal\": [%.17g, %.17g], \"step\": 0.1}", index, low,
                 width);
        break;
    case 6:
        snprintf(row, size,
                 "\"r%d\": {\"normal\": [%d, %d], \"whole\": true, \"low\": -7, \"high\": 50}",
                 index, whole, wide);
        break;
    case 7:
        snprintf(row, size, "\"r%d\": {\"ordered\": [1, \"a\", null, [true], {\"b\": %.17g}]}",
                 index, low);
        break;
    default: // Hangs on the first.
        snprintf(row, size, "\"r%d\": {\"choice\": [0, 1, 2], \"when\": {\"first\": [%d]}}", index,
                 wide % 2);
    }
    return row;
}

static void test_random_spaces_map_back(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        char json[4096] = "{\"first\": {\"choice\": [0, 1]}", row[256];
        trp_random random;
        trp_random_seed(&random, seed, 0);
        int count = 1 + (int)trp_random_below(&random, 12);
        for (int i = 0; i < count; i++) {
            strcat(json, ", ");
            strcat(json, draw_row(&random, i, row, sizeof row));
        }
        strcat(json, "}");
        troupe_space *space = NULL;
        if (troupe_space_parse(json, &space) != TROUPE_OK)
            fail_msg("%s: %s", json, troupe_last_error()->text);
        for (int i = 0; i < 20; i++) {
            double x[DIMS_MAX], back[DIMS_MAX];
            trp_dims_draw(space->dims, space->dim_count, &random, x);
            const char *point = troupe_space_json(space, x);
            if (read(space, point, false, back) != TROUPE_OK)
                fail_msg("%s: %s: %s", json, point, troupe_last_error()->text);
            if (!same_points(x, back, space->dim_count))
                fail_msg("%s: %s is another point", json, point);
            trp_space_settle(space, back);
            assert_true(same_points(x, back, space->dim_count));
        }
        troupe_arena_reset();
        troupe_space_free(&space);
    }
}

// ---- short memory

static void test_short_memory_is_told(void **state)
{
    (void)state;
    troupe_space *space = NULL;
    troupe_status status = TROUPE_NO_MEMORY;
    const settings base = {.optimizer = "sgd"}, config = right();
    int failures = 0;
    for (; status != TROUPE_OK && failures < 2000; failures++) {
        trp_memory_fail_after(failures);
        status = troupe_space_open_as(&troupe_type_settings, rows, ROWS, &base, &space);
        trp_memory_fail_after(-1);
        assert_true(status == TROUPE_OK || (status == TROUPE_NO_MEMORY && space == NULL));
    }
    assert_in_range(failures, 20, 1999);
    double x[DIMS_MAX];
    for (failures = 0, status = TROUPE_NO_MEMORY; status != TROUPE_OK; failures++) {
        trp_memory_fail_after(failures);
        status = trp_space_point(space, &config, x);
        trp_memory_fail_after(-1);
        assert_true(status == TROUPE_OK || status == TROUPE_NO_MEMORY);
    }
    assert_in_range(failures, 2, 100);
    for (failures = 0, status = TROUPE_NO_MEMORY; status != TROUPE_OK; failures++) {
        trp_memory_fail_after(failures);
        status = read(space, "{\"optimizer\": \"sgd\", \"width\": 64}", failures % 2 == 0, x);
        trp_memory_fail_after(-1);
        assert_true(status == TROUPE_OK || status == TROUPE_NO_MEMORY);
    }
    assert_in_range(failures, 2, 100);
    troupe_space_free(&space);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_points_map_back),
        cmocka_unit_test(test_a_config_by_hand),
        cmocka_unit_test(test_a_config_that_cannot_be_drawn_is_refused),
        cmocka_unit_test(test_parts_of_a_point_are_read),
        cmocka_unit_test(test_a_choice_may_be_there_twice),
        cmocka_unit_test(test_choices_are_drawn_uniformly),
        cmocka_unit_test(test_random_spaces_map_back),
        cmocka_unit_test(test_short_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
