// test_space.c: which rows are refused and why, and that draws fill every kind of field within its
// range.
#include <float.h>
#include <math.h>
#include <runtime/base/memory.h>
#include <string.h>
#include <support.h>
#include <tune/space/dims.h>
#include <tune/space/fields.h>
#include <tune/space/space.h>

TROUPE_STRUCT(schedule, (double, start), (int, steps));
TROUPE_STRUCT(settings, (double, rate), (float, decay), (int, hidden), (int8_t, tiny),
              (uint8_t, byte), (int32_t, whole), (uint64_t, large), (int64_t, negative),
              (bool, nesterov), (troupe_text, optimizer), (double, weights, 3), (schedule, plan),
              (troupe_array_double, list));

static troupe_status open_one(troupe_space **space, troupe_param param)
{
    return troupe_space_open_as(&troupe_type_settings, &param, 1, NULL, space);
}

static void refused(troupe_param param, const char *words)
{
    troupe_space *space;
    assert_int_equal(open_one(&space, param), TROUPE_INVALID);
    const char *text = troupe_last_error()->text;
    if (strstr(text, words) == NULL)
        fail_msg("the sentence \"%s\" does not say \"%s\"", text, words);
    if (strncmp(text, "space[0]", 8) != 0)
        fail_msg("the sentence \"%s\" does not name the row", text);
}

static void allowed(troupe_param param)
{
    troupe_space *space;
    if (open_one(&space, param) != TROUPE_OK)
        fail_msg("refused: %s", troupe_last_error()->text);
    troupe_space_free(&space);
}

#define PARAM(...) ((troupe_param)__VA_ARGS__)

static void test_ranges_are_checked(void **state)
{
    (void)state;
    allowed(PARAM(TROUPE_UNIFORM(settings, rate, -1, 1)));
    refused(PARAM(TROUPE_UNIFORM(settings, rate, 1, 1)), "low below high");
    refused(PARAM(TROUPE_UNIFORM(settings, rate, 2, 1)), "(rate): low is 2 and high is 1");
    refused(PARAM(TROUPE_UNIFORM(settings, rate, (double)NAN, 1)), "finite");
    refused(PARAM(TROUPE_UNIFORM(settings, rate, 0, (double)INFINITY)), "finite");
    refused(PARAM(TROUPE_LOG_UNIFORM(settings, rate, 0, 1)), "low is 0, must be positive");
    refused(PARAM(TROUPE_LOG_UNIFORM(settings, rate, -1, 1)), "must be positive");
    allowed(PARAM(TROUPE_LOG_UNIFORM(settings, rate, 1e-300, 1e300)));
    refused(PARAM(TROUPE_UNIFORM(settings, hidden, 1, 8)), "use TROUPE_INTEGER");
    refused(PARAM(TROUPE_UNIFORM(settings, decay, 0.1, 0.1 + 1e-12)), "no float lies between");
    refused(PARAM(TROUPE_UNIFORM(settings, decay, 0, 1e39)), "no float");
    allowed(PARAM(TROUPE_UNIFORM(settings, decay, 0.1, 0.1 + 1e-6)));
}

static void test_integers_are_checked(void **state)
{
    (void)state;
    allowed(PARAM(TROUPE_INTEGER(settings, tiny, -128, 127)));
    refused(PARAM(TROUPE_INTEGER(settings, tiny, -129, 127)), "int8_t does not hold");
    refused(PARAM(TROUPE_INTEGER(settings, tiny, -128, 128)), "int8_t does not hold");
    refused(PARAM(TROUPE_INTEGER(settings, byte, -1, 3)), "uint8_t does not hold");
    refused(PARAM(TROUPE_INTEGER(settings, byte, 0, 256)), "uint8_t does not hold");
    refused(PARAM(TROUPE_INTEGER(settings, hidden, 1.5, 3)), "whole");
    refused(PARAM(TROUPE_INTEGER(settings, hidden, 4, 3)), "low not above high");
    refused(PARAM(TROUPE_INTEGER(settings, large, 0, 1e17)), "does not hold");
    allowed(PARAM(TROUPE_INTEGER(settings, large, 0, 0x1p53)));
    refused(PARAM(TROUPE_INTEGER(settings, decay, 0, 0x1p25)), "float does not hold");
    allowed(PARAM(TROUPE_INTEGER(settings, decay, 0, 0x1p24)));
    allowed(PARAM(TROUPE_INTEGER(settings, hidden, 3, 3)));
    allowed(PARAM(TROUPE_INTEGER(settings, nesterov, 0, 1)));
    refused(PARAM(TROUPE_INTEGER(settings, nesterov, 0, 2)), "bool does not hold");
}

static void test_choices_are_checked(void **state)
{
    (void)state;
    allowed(PARAM(TROUPE_CHOICE(settings, rate, 0.1)));
    allowed(PARAM(TROUPE_CHOICE(settings, nesterov, true, false)));
    troupe_param none = TROUPE_CHOICE(settings, rate, 1);
    none.choice_count = 0;
    refused(none, "0 choices, must have 1 to 32");
    none.choice_count = 33;
    refused(none, "33 choices");
    refused(PARAM(TROUPE_CHOICE(settings, byte, 1, 255, 256)), "choice 2 is 256");
    refused(PARAM(TROUPE_CHOICE(settings, whole, 2147483647.0, 2147483648.0)), "choice 1");
    refused(PARAM(TROUPE_CHOICE(settings, hidden, 1, 0.5)), "choice 1 is 0.5");
    refused(PARAM(TROUPE_CHOICE(settings, rate, (double)NAN)), "choice 0 is nan");
    refused(PARAM(TROUPE_CHOICE(settings, nesterov, 0, 2)), "bool does not hold");
}

static void test_fixed_values_are_checked(void **state)
{
    (void)state;
    allowed(PARAM(TROUPE_FIXED(settings, rate, (double)INFINITY)));
    allowed(PARAM(TROUPE_FIXED(settings, large, 0x1p63)));
    refused(PARAM(TROUPE_FIXED(settings, large, 0x1p64)), "uint64_t");
    refused(PARAM(TROUPE_FIXED(settings, negative, 0x1p63)), "int64_t");
    allowed(PARAM(TROUPE_FIXED(settings, negative, -0x1p63)));
    refused(PARAM(TROUPE_FIXED(settings, decay, 1e39)), "does not fit");
    refused(PARAM(TROUPE_FIXED(settings, optimizer, 1)), "use TROUPE_FIXED_TEXT");
    allowed(PARAM(TROUPE_FIXED_TEXT(settings, optimizer, "adam")));
    refused(PARAM(TROUPE_FIXED_TEXT(settings, negative, "adam")), "has a text");
    troupe_param drawn = TROUPE_CHOICE(settings, optimizer, 1, 2);
    refused(drawn, "the field is a text");
}

static void test_fields_are_found_by_offset_and_size(void **state)
{
    (void)state;
    allowed(PARAM(TROUPE_FIXED(settings, weights[2], 1)));
    allowed(PARAM(TROUPE_FIXED(settings, plan.steps, 1)));
    refused(PARAM(TROUPE_FIXED(settings, weights, 1)),
            "array of 3; a row of numbers fills one element");
    refused(PARAM(TROUPE_FIXED(settings, plan, 1)), "(plan)");
    refused(PARAM(TROUPE_FIXED(settings, list, 1)), "troupe_array_double");
    troupe_param wrong = TROUPE_FIXED(settings, rate, 1);
    wrong.field_size = 4;
    refused(wrong, "settings has no field of that name and 4 bytes at offset 0");
    wrong.field_size = 8;
    wrong.offset = 4;
    refused(wrong, "no field of that name");
    wrong.offset = sizeof(settings);
    refused(wrong, "no field of that name");
    wrong.offset = 0;
    wrong.name = NULL;
    refused(wrong, "no name");
    wrong.name = "rate";
    wrong.draw = (troupe_draw)9;
    refused(wrong, "9 is not a kind of draw");
    // Another struct's row, whose field happens to have the same place and size.
    refused(PARAM(TROUPE_UNIFORM(schedule, start, 0, 1)), "made for another struct");
}

static void test_a_field_is_filled_once(void **state)
{
    (void)state;
    troupe_space *space;
    const troupe_param rows[] = {TROUPE_FIXED(settings, rate, 1), TROUPE_FIXED(settings, hidden, 1),
                                 TROUPE_UNIFORM(settings, rate, 0, 1)};
    assert_int_equal(troupe_space_open_as(&troupe_type_settings, rows, 3, NULL, &space),
                     TROUPE_INVALID);
    assert_string_equal(troupe_last_error()->text,
                        "space[2] (rate): the row of rate fills this field already");
    assert_int_equal(troupe_space_open_as(&troupe_type_settings, NULL, 2, NULL, &space),
                     TROUPE_INVALID);
    assert_int_equal(troupe_space_open_as(&troupe_type_double, rows, 1, NULL, &space),
                     TROUPE_INVALID);
    assert_int_equal(troupe_space_open_as(&troupe_type_settings, NULL, 0, NULL, &space), TROUPE_OK);
    troupe_space_free(&space);
}

// ---- draws

static void opened(troupe_space **space, const troupe_param *rows, size_t count)
{
    if (troupe_space_open_as(&troupe_type_settings, rows, count, NULL, space) != TROUPE_OK)
        fail_msg("%s", troupe_last_error()->text);
}

static void draw(const troupe_space *space, trp_random *random, settings *config)
{
    double x[16];
    assert_true(space->dim_count <= 16);
    trp_dims_draw(space->dims, space->dim_count, random, x);
    trp_space_settle(space, x);
    troupe_space_config(space, x, config);
}

static void test_every_kind_of_field_is_filled(void **state)
{
    (void)state;
    char optimizer[] = "adam";
    const troupe_param rows[] = {
        TROUPE_FIXED(settings, rate, 0.1),       TROUPE_FIXED(settings, decay, 0.1),
        TROUPE_FIXED(settings, hidden, -5),      TROUPE_FIXED(settings, tiny, -128),
        TROUPE_FIXED(settings, byte, 255),       TROUPE_FIXED(settings, whole, -2147483648.0),
        TROUPE_FIXED(settings, large, 0x1p63),   TROUPE_FIXED(settings, negative, -0x1p63),
        TROUPE_FIXED(settings, nesterov, true),  TROUPE_FIXED_TEXT(settings, optimizer, optimizer),
        TROUPE_FIXED(settings, weights[1], 2.5), TROUPE_FIXED(settings, plan.steps, 9),
    };
    size_t count = sizeof rows / sizeof *rows;
    troupe_space *space;
    opened(&space, rows, count);
    memset(optimizer, 'x', 4); // The space has its own copy.

    settings config;
    memset(&config, 0xff, sizeof config);
    trp_random random;
    trp_random_seed(&random, 1, 0);
    draw(space, &random, &config);
    assert_true(config.rate == 0.1 && config.decay == 0.1f);
    assert_int_equal(config.hidden, -5);
    assert_int_equal(config.tiny, -128);
    assert_int_equal(config.byte, 255);
    assert_int_equal(config.whole, INT32_MIN);
    assert_int_equal(config.large, (uint64_t)1 << 63);
    assert_int_equal(config.negative, INT64_MIN);
    assert_true(config.nesterov);
    assert_string_equal(config.optimizer, "adam");
    assert_true(config.weights[0] == 0 && config.weights[1] == 2.5 && config.weights[2] == 0);
    assert_true(config.plan.start == 0 && config.plan.steps == 9);
    assert_true(config.list.items == NULL && config.list.count == 0);

    static const double values[] = {0.1,    (double)0.1f, -5, -128, 255, -2147483648.0,
                                    0x1p63, -0x1p63,      1,  0,    2.5, 9};
    for (size_t i = 0; i < count; i++) {
        const trp_space_row *row = &space->rows[i];
        const char *field = (const char *)&config + row->offset;
        assert_true(row->type->kind == TROUPE_KIND_TEXT ||
                    trp_field_load(row->type, field) == values[i]);
        assert_int_equal(row->dim, -1);
    }
    troupe_space_free(&space);
}

enum { DRAWS = 20000, BINS = 10 };

// Pearson's statistic of counts that should be equal.
static double chi_square(const int *seen, int bins, int draws)
{
    double expected = (double)draws / bins, chi = 0;
    for (int i = 0; i < bins; i++)
        chi += (seen[i] - expected) * (seen[i] - expected) / expected;
    return chi;
}

static void test_ranges_are_drawn_uniformly(void **state)
{
    (void)state;
    const troupe_param rows[] = {TROUPE_UNIFORM(settings, rate, -2, 3),
                                 TROUPE_LOG_UNIFORM(settings, weights[0], 1e-4, 1.0),
                                 TROUPE_UNIFORM(settings, decay, 0, 1)};
    troupe_space *space;
    opened(&space, rows, 3);
    trp_random random;
    trp_random_seed(&random, 1, 0);
    int plain[BINS] = {0}, logarithmic[BINS] = {0}, single[BINS] = {0};
    for (int i = 0; i < DRAWS; i++) {
        settings config;
        draw(space, &random, &config);
        assert_true(config.rate >= -2 && config.rate < 3);
        assert_true(config.weights[0] >= 1e-4 && config.weights[0] < 1.0);
        assert_true(config.decay >= 0 && config.decay < 1);
        plain[(int)((config.rate + 2) / 5 * BINS)]++;
        logarithmic[(int)((log10(config.weights[0]) + 4) / 4 * BINS)]++;
        single[(int)(config.decay * BINS)]++;
    }
    // 9 degrees of freedom: one in a thousand is above 27.9.
    assert_true(chi_square(plain, BINS, DRAWS) < 27.9);
    assert_true(chi_square(logarithmic, BINS, DRAWS) < 27.9);
    assert_true(chi_square(single, BINS, DRAWS) < 27.9);
    troupe_space_free(&space);
}

static void test_choices_and_integers_are_drawn_uniformly(void **state)
{
    (void)state;
    const troupe_param rows[] = {TROUPE_CHOICE(settings, hidden, 32, 256, 1024),
                                 TROUPE_INTEGER(settings, tiny, -2, 2),
                                 TROUPE_CHOICE(settings, nesterov, false, true)};
    troupe_space *space;
    opened(&space, rows, 3);
    trp_random random;
    trp_random_seed(&random, 1, 0);
    int choices[3] = {0}, integers[5] = {0}, bools[2] = {0};
    for (int i = 0; i < DRAWS; i++) {
        settings config;
        draw(space, &random, &config);
        int at = config.hidden == 32 ? 0 : config.hidden == 256 ? 1 : 2;
        assert_true(at != 2 || config.hidden == 1024);
        assert_in_range(config.tiny + 2, 0, 4);
        choices[at]++;
        integers[config.tiny + 2]++;
        bools[config.nesterov]++;
    }
    assert_true(chi_square(choices, 3, DRAWS) < 13.8);  // One in a thousand, 2 degrees of freedom,
    assert_true(chi_square(integers, 5, DRAWS) < 18.5); // 4,
    assert_true(chi_square(bools, 2, DRAWS) < 10.8);    // and 1.
    troupe_space_free(&space);
}

static void test_the_statistic_can_fail(void **state)
{
    (void)state;
    // The same test over draws of which one value comes a tenth too often.
    int biased[3] = {DRAWS / 3, DRAWS / 3, DRAWS / 3};
    biased[0] += DRAWS / 30;
    biased[1] -= DRAWS / 30;
    assert_true(chi_square(biased, 3, DRAWS) > 13.8);
}

static void test_the_narrowest_ranges_stay_inside(void **state)
{
    (void)state;
    // Both ends are neighbours in the field's precision, so that rounding would leave the range.
    double low = 1, high = nextafter(1, 2);
    float single_low = 0.1f, single_high = nextafterf(0.1f, 1);
    const troupe_param rows[] = {
        TROUPE_UNIFORM(settings, rate, low, high),
        TROUPE_UNIFORM(settings, decay, (double)single_low, (double)single_high),
        TROUPE_LOG_UNIFORM(settings, weights[0], low, high),
        TROUPE_UNIFORM(settings, weights[1], -DBL_MAX, DBL_MAX)};
    troupe_space *space;
    opened(&space, rows, 4);
    trp_random random;
    trp_random_seed(&random, 1, 0);
    for (int i = 0; i < 1000; i++) {
        settings config;
        draw(space, &random, &config);
        assert_true(config.rate == low);
        assert_true(config.decay == single_low);
        assert_true(config.weights[0] == low);
        assert_true(isfinite(config.weights[1]));
    }
    troupe_space_free(&space);
}

static void test_short_memory_is_told(void **state)
{
    (void)state;
    const troupe_param rows[] = {TROUPE_FIXED(settings, rate, 1),
                                 TROUPE_FIXED_TEXT(settings, optimizer, "adam")};
    troupe_space *space;
    int failures = 0;
    troupe_status status;
    do {
        trp_memory_fail_after(failures);
        status = troupe_space_open_as(&troupe_type_settings, rows, 2, NULL, &space);
        trp_memory_fail_after(-1);
        assert_true(status == TROUPE_OK || status == TROUPE_NO_MEMORY);
    } while (status != TROUPE_OK && ++failures < 100);
    assert_true(failures > 4);
    troupe_space_free(&space);
}

// Of a program that was compiled with older headers: each row lacks what came later.
static void test_shorter_rows_are_read(void **state)
{
    (void)state;
    enum { SIZE = offsetof(troupe_param, text) };
    const troupe_param rows[] = {TROUPE_UNIFORM(settings, rate, 0, 1),
                                 TROUPE_FIXED(settings, hidden, 7)};
    _Alignas(troupe_param) char older[2 * SIZE];
    for (size_t i = 0; i < 2; i++) {
        troupe_param row = rows[i];
        row.size = SIZE;
        memcpy(older + i * SIZE, &row, SIZE);
    }
    troupe_space *space;
    settings config;
    trp_random random;
    trp_random_seed(&random, 1, 0);
    assert_int_equal(
        troupe_space_open_as(&troupe_type_settings, (const void *)older, 2, NULL, &space),
        TROUPE_OK);
    draw(space, &random, &config);
    assert_true(config.rate > 0 && config.rate < 1);
    assert_int_equal(config.hidden, 7);
    troupe_space_free(&space);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges_are_checked),
        cmocka_unit_test(test_shorter_rows_are_read),
        cmocka_unit_test(test_integers_are_checked),
        cmocka_unit_test(test_choices_are_checked),
        cmocka_unit_test(test_fixed_values_are_checked),
        cmocka_unit_test(test_fields_are_found_by_offset_and_size),
        cmocka_unit_test(test_a_field_is_filled_once),
        cmocka_unit_test(test_every_kind_of_field_is_filled),
        cmocka_unit_test(test_ranges_are_drawn_uniformly),
        cmocka_unit_test(test_choices_and_integers_are_drawn_uniformly),
        cmocka_unit_test(test_the_statistic_can_fail),
        cmocka_unit_test(test_the_narrowest_ranges_stay_inside),
        cmocka_unit_test(test_short_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
