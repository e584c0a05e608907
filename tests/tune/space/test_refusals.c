// test_refusals.c: which rows of a type are refused, and in which words.
#include <math.h>
#include <string.h>
#include <support.h>
#include <tune/space/space.h>

typedef enum shape { ROUND, SQUARE, FLAT } shape;
TROUPE_ENUM(shape);
TROUPE_STRUCT(plan, (double, start), (int, steps));
TROUPE_STRUCT(settings, (double, rate), (float, decay), (int, width), (troupe_text, optimizer),
              (double, momentum), (shape, form), (char, place, 8), (double, weights, 3),
              (plan, plan), (plan, plans, 2), (troupe_ref, data), (int, ranks), (bool, flag));

static void refused_as(const troupe_param *rows, size_t count, const char *words)
{
    troupe_space *space = (troupe_space *)&space;
    troupe_status status = troupe_space_open_as(&troupe_type_settings, rows, count, NULL, &space);
    const char *text = troupe_last_error()->text;
    if (status != TROUPE_INVALID || strstr(text, words) == NULL)
        fail_msg("%s: \"%s\", not \"%s\"", troupe_status_name(status), text, words);
    assert_null(space);
}

#define REFUSED(words, ...)                                                                        \
    do {                                                                                           \
        const troupe_param rows_[] = {__VA_ARGS__};                                                \
        refused_as(rows_, sizeof rows_ / sizeof *rows_, words);                                    \
    } while (0)
#define ALLOWED(...)                                                                               \
    do {                                                                                           \
        const troupe_param rows_[] = {__VA_ARGS__};                                                \
        troupe_space *space_ = NULL;                                                               \
        if (troupe_space_open(settings, rows_, &space_) != TROUPE_OK)                              \
            fail_msg("%s", troupe_last_error()->text);                                             \
        troupe_space_free(&space_);                                                                \
    } while (0)

static void test_texts_and_numbers_stay_apart(void **state)
{
    (void)state;
    REFUSED("space[0] (rate): it has a text, but the field is of type double",
            TROUPE_CHOICE_TEXT(settings, rate, "a", "b"));
    REFUSED("it has a text, but the field is of type double, an array",
            TROUPE_CHOICE_TEXT(settings, weights, "a", "b"));
    REFUSED("(width): it has a text", TROUPE_FIXED_TEXT(settings, width, "a"));
    REFUSED("(optimizer): the field is a text; use TROUPE_CHOICE_TEXT with texts",
            TROUPE_CHOICE(settings, optimizer, 1, 2));
    REFUSED("(place): the field is a text; use TROUPE_FIXED_TEXT",
            TROUPE_FIXED(settings, place, 1));
    REFUSED("(optimizer): the field is of type troupe_text, no number",
            TROUPE_UNIFORM(settings, optimizer, 0, 1));
    REFUSED("(data): the field is of type troupe_ref, no number",
            TROUPE_INTEGER(settings, data, 0, 1));
    REFUSED("(data): the field is of type troupe_ref, no number; use TROUPE_CHOICE_OF",
            TROUPE_CHOICE(settings, data, 0, 1));
    REFUSED("(plan): the field is of type plan, no number; use TROUPE_FIXED_OF",
            TROUPE_FIXED(settings, plan, 0));
    REFUSED("(place): 'too long' has 8 bytes, and the field holds 7",
            TROUPE_CHOICE_TEXT(settings, place, "short", "too long"));
    REFUSED("(optimizer): text 1 is NULL", TROUPE_CHOICE_TEXT(settings, optimizer, "a", NULL));
    REFUSED("it has a text or values, but draws a number",
            TROUPE_UNIFORM(settings, rate, 0, 1, .text = "a"));
    troupe_param second = TROUPE_CHOICE_TEXT(settings, optimizer, "a", "b");
    second.text = "c";
    refused_as(&second, 1, "its text is in the wrong place");
    const double values[] = {1, 2};
    REFUSED("it has a text or values, but draws a number",
            TROUPE_UNIFORM(settings, rate, 0, 1, .values = values));
    troupe_param both = TROUPE_CHOICE_TEXT(settings, optimizer, "a", "b");
    both.values = values;
    refused_as(&both, 1, "it has texts, and values beside them");
    troupe_param astray = TROUPE_CHOICE_TEXT(settings, optimizer, "a", "b");
    astray.draw = TROUPE_DRAW_FIXED;
    refused_as(&astray, 1, "its text is in the wrong place");
    ALLOWED(TROUPE_CHOICE_TEXT(settings, place, "short", "long en"));
    ALLOWED(TROUPE_CHOICE(settings, form, ROUND, FLAT));
}

static void test_steps_and_priors_are_checked(void **state)
{
    (void)state;
    REFUSED("step is 2, and the range from 0 to 1 is only 1",
            TROUPE_UNIFORM(settings, rate, 0, 1, .step = 2));
    REFUSED("step is nan", TROUPE_UNIFORM(settings, rate, 0, 1, .step = (double)NAN));
    REFUSED("step is 1e-09, which is lost beside 1 in a field of type float",
            TROUPE_UNIFORM(settings, decay, 0, 1, .step = 1e-9));
    REFUSED("step is 1.5, must be whole", TROUPE_INTEGER(settings, width, 0, 9, .step = 1.5));
    REFUSED("it has .log, which is for an integer",
            TROUPE_UNIFORM(settings, rate, 1, 2, .log = true));
    REFUSED("low is 0, must be positive", TROUPE_INTEGER(settings, width, 0, 9, .log = true));
    REFUSED("it has .step or .log", TROUPE_INTEGER(settings, flag, 0, 1, .log = true));
    REFUSED("the deviation positive", TROUPE_NORMAL(settings, rate, 0, 0));
    REFUSED("the deviation positive", TROUPE_NORMAL(settings, rate, 0, -1));
    REFUSED("mean is nan", TROUPE_NORMAL(settings, rate, (double)NAN, 1));
    REFUSED("low is 2 and high is 1", TROUPE_NORMAL(settings, rate, 0, 1, .low = 2, .high = 1));
    REFUSED("nothing that a normal draw of mean 0 and deviation 1 has lies",
            TROUPE_NORMAL(settings, rate, 0, 1, .low = 6, .high = 7));
    REFUSED("step is 0.5, must be whole", TROUPE_NORMAL(settings, width, 0, 3, .step = 0.5));
    REFUSED("does not hold all of", TROUPE_NORMAL(settings, width, 0, 1e9));
    REFUSED("does not hold all of", TROUPE_NORMAL(settings, decay, 0, 1e38));
    REFUSED("does not hold all of", TROUPE_NORMAL(settings, rate, 0, 1e308));
    ALLOWED(TROUPE_NORMAL(settings, width, 0, 1e9, .low = -100, .high = 100));
    ALLOWED(TROUPE_UNIFORM(settings, rate, 0, 1, .step = 1));
}

static void test_conditions_are_checked(void **state)
{
    (void)state;
    const troupe_param optimizer = TROUPE_CHOICE_TEXT(settings, optimizer, "sgd", "adam");
    const troupe_param momentum = TROUPE_UNIFORM(settings, momentum, 0, 1);
    const troupe_param when = TROUPE_ONLY_WHEN_TEXT(settings, momentum, optimizer, "sgd");
    ALLOWED(optimizer, momentum, when);
    ALLOWED(when, optimizer, momentum);
    REFUSED("space[2] (momentum): its condition is on optimizer, which has no row before it",
            momentum, TROUPE_FIXED(settings, rate, 1), when);
    REFUSED("its condition is on optimizer, whose row comes later", momentum, optimizer, when);
    REFUSED("space[3] (momentum): it has a condition already: one a field", optimizer, momentum,
            when, TROUPE_ONLY_WHEN_TEXT(settings, momentum, optimizer, "adam"));
    REFUSED("space[1] (momentum): it has a condition, but no row", optimizer, when);
    REFUSED("its condition is on 'sgdx', which is no choice of optimizer", optimizer, momentum,
            TROUPE_ONLY_WHEN_TEXT(settings, momentum, optimizer, "sgdx"));
    REFUSED("its condition is on 3, which is no choice of form",
            TROUPE_CHOICE(settings, form, ROUND, FLAT), momentum,
            TROUPE_ONLY_WHEN(settings, momentum, form, 3));
    REFUSED("its condition on optimizer: the field is a text", optimizer, momentum,
            TROUPE_ONLY_WHEN(settings, momentum, optimizer, 1));
    REFUSED("its condition on form: it has a text", TROUPE_CHOICE(settings, form, ROUND, FLAT),
            momentum, TROUPE_ONLY_WHEN_TEXT(settings, momentum, form, "ROUND"));
    REFUSED("its condition on form: choice 0 is 0.5, which a field of type shape does not hold",
            TROUPE_CHOICE(settings, form, ROUND, FLAT), momentum,
            TROUPE_ONLY_WHEN(settings, momentum, form, 0.5));
    REFUSED("its condition is on rate, which is not a choice", TROUPE_UNIFORM(settings, rate, 0, 1),
            momentum, TROUPE_ONLY_WHEN(settings, momentum, rate, 1));
    REFUSED("its condition is on rate, which is not a choice", TROUPE_FIXED(settings, rate, 1),
            momentum, TROUPE_ONLY_WHEN(settings, momentum, rate, 1));
    REFUSED("its condition is on itself", TROUPE_CHOICE(settings, rate, 0, 1),
            TROUPE_ONLY_WHEN(settings, rate, rate, 1));
    REFUSED("its condition is on form, whose row comes later", // A cycle.
            TROUPE_CHOICE(settings, rate, 0, 1), TROUPE_CHOICE(settings, form, ROUND, FLAT),
            TROUPE_ONLY_WHEN(settings, rate, form, 0), TROUPE_ONLY_WHEN(settings, form, rate, 0));
    troupe_param none = when;
    none.choice_count = 0;
    REFUSED("its condition has no choices of optimizer", optimizer, momentum, none);
    none.choice_count = 33;
    REFUSED("its condition has 33 choices, must have 1 to 32", optimizer, momentum, none);
    none.when = NULL;
    REFUSED("its condition does not say on what", optimizer, momentum, none);
    // Of the other struct: a row of that name does not count.
    REFUSED("its condition is on ranks, which has no row before it",
            TROUPE_CHOICE(troupe_train_options, ranks, 1, 2), momentum,
            TROUPE_ONLY_WHEN(settings, momentum, ranks, 1));
}

// One that hangs on a choice of one hangs on what that hangs on.
static void test_conditions_pass_through_fixed_choices(void **state)
{
    (void)state;
    const troupe_param rows[] = {
        TROUPE_CHOICE_TEXT(settings, optimizer, "sgd", "adam"),
        TROUPE_CHOICE(settings, form, FLAT),
        TROUPE_UNIFORM(settings, momentum, 0, 1),
        TROUPE_ONLY_WHEN(settings, momentum, form, FLAT),
        TROUPE_ONLY_WHEN_TEXT(settings, form, optimizer, "adam"),
    };
    troupe_space *space;
    troupe_must(troupe_space_open(settings, rows, &space));
    assert_int_equal(space->dim_count, 2);
    assert_int_equal(space->dims[1].parent, 0);
    assert_int_equal(space->dims[1].when, 2);
    const double x[] = {0, (double)NAN}, y[] = {1, 0.5};
    settings config;
    troupe_space_config(space, x, &config);
    assert_true(config.form == ROUND && config.momentum == 0);
    troupe_space_config(space, y, &config);
    assert_true(config.form == FLAT && config.momentum == 0.5);
    troupe_space_free(&space);
}

static void test_fields_are_filled_once(void **state)
{
    (void)state;
    REFUSED("space[1] (rate): the row of rate fills this field already",
            TROUPE_UNIFORM(settings, rate, 0, 1), TROUPE_FIXED(settings, rate, 1));
    REFUSED("space[1] (plan.steps): the row of plan fills this field already",
            TROUPE_CHOICE_OF(settings, plan, {1, 2}, {3, 4}),
            TROUPE_FIXED(settings, plan.steps, 1));
    REFUSED("space[1] (weights): the row of weights[2] fills",
            TROUPE_UNIFORM(settings, weights[2], 0, 1),
            TROUPE_CHOICE_OF(settings, weights, {1, 2, 3}, {3, 4, 5}));
    REFUSED("space[1] (ranks): there is a row of that name already",
            TROUPE_INTEGER(settings, ranks, 1, 4),
            TROUPE_CHOICE(troupe_train_options, ranks, 1, 2));
    ALLOWED(TROUPE_UNIFORM(settings, plans[1].start, 0, 1),
            TROUPE_FIXED_OF(settings, plans[0], {1, 2}), TROUPE_FIXED(settings, weights[1], 1),
            TROUPE_FIXED(settings, weights[2], 1));
}

static void test_options_of_the_run_are_numbers(void **state)
{
    (void)state;
    ALLOWED(TROUPE_CHOICE(troupe_train_options, ranks, 1, 2),
            TROUPE_UNIFORM(troupe_train_options, gpus_per_rank, 0.25, 1, .step = 0.25),
            TROUPE_INTEGER(troupe_train_options, memory_per_rank_bytes, 1, 0x1p40, .log = true),
            TROUPE_FIXED(troupe_train_options, restarts, 2));
    REFUSED("space[0] (storage): this option of a run cannot be drawn: all trials of a sweep are "
            "stored in one place",
            TROUPE_CHOICE_TEXT(troupe_train_options, storage, "a", "b"));
    REFUSED("(name): this option of a run cannot be drawn",
            TROUPE_FIXED_TEXT(troupe_train_options, name, "a"));
    REFUSED("(key): this option", TROUPE_FIXED_TEXT(troupe_train_options, key, "a"));
    REFUSED("(env): this option", TROUPE_CHOICE_TEXT(troupe_train_options, env, "A=1", "A=2"));
    REFUSED("(open): this option", TROUPE_CHOICE(troupe_train_options, open, 0, 1));
    REFUSED("(force): this option", TROUPE_CHOICE(troupe_train_options, force, false, true));
    REFUSED("(server): this option", TROUPE_CHOICE(troupe_train_options, server, 0, 1));
    REFUSED("(gate): this option", TROUPE_FIXED(troupe_train_options, gate, 0));
    REFUSED("(metadata): this option", TROUPE_FIXED_TEXT(troupe_train_options, metadata, "{}"));
    REFUSED("(size): no option of a run that can be drawn",
            TROUPE_FIXED(troupe_train_options, size, 8));
    REFUSED("(ranks): choice 1 is 1.5", TROUPE_CHOICE(troupe_train_options, ranks, 1, 1.5));
    troupe_param astray = TROUPE_CHOICE(troupe_train_options, ranks, 1, 2);
    astray.name = "keep";
    refused_as(&astray, 1, "no field of that name");
}

TROUPE_STRUCT(long_inner,
              (double, nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn));
TROUPE_STRUCT(long_names,
              (long_inner, nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn));

static void test_what_is_no_space_is_refused(void **state)
{
    (void)state;
    troupe_space *space;
    const troupe_param row = TROUPE_UNIFORM(settings, rate, 0, 1);
    assert_int_equal(troupe_space_open_as(&troupe_type_double, &row, 1, NULL, &space),
                     TROUPE_INVALID);
    assert_int_equal(troupe_space_open_as(&troupe_type_settings, &row, SIZE_MAX, NULL, &space),
                     TROUPE_INVALID);
    assert_int_equal(troupe_space_open_as(&troupe_type_settings, &row, 4097, NULL, &space),
                     TROUPE_INVALID);
    troupe_type later = troupe_type_settings;
    later.abi++;
    assert_int_equal(troupe_space_open_as(&later, &row, 1, NULL, &space), TROUPE_VERSION);
    struct {
        troupe_param row;
        char more[8];
    } longer = {.row = row};
    longer.row.size = sizeof longer;
    assert_int_equal(troupe_space_open_as(&troupe_type_settings, &longer.row, 1, NULL, &space),
                     TROUPE_VERSION);
    assert_null(space);
    const troupe_param of_long =
        TROUPE_UNIFORM(long_names,
                       nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn
                           .nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn,
                       0, 1);
    assert_int_equal(troupe_space_open_as(&troupe_type_long_names, &of_long, 1, NULL, &space),
                     TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "the name has more than 127 bytes"));
    char name[200] = "rate";
    memset(name + 4, ' ', 195);
    troupe_param spaced = row; // Spaces are no part of it.
    spaced.name = name;
    assert_int_equal(troupe_space_open_as(&troupe_type_settings, &spaced, 1, NULL, &space),
                     TROUPE_OK);
    assert_string_equal(space->dims[0].name, "rate");
    troupe_space_free(&space);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_and_numbers_stay_apart),
        cmocka_unit_test(test_steps_and_priors_are_checked),
        cmocka_unit_test(test_conditions_are_checked),
        cmocka_unit_test(test_conditions_pass_through_fixed_choices),
        cmocka_unit_test(test_fields_are_filled_once),
        cmocka_unit_test(test_options_of_the_run_are_numbers),
        cmocka_unit_test(test_what_is_no_space_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
