// test_model.c: models outside a run: their declaration, config, hooks and instances.
#include "line_model.h"

#include <support.h>

#include <stdio.h>
#include <string.h>

// ---- a model with everything

TROUPE_STRUCT(net_layer, (int64_t, width), (troupe_text, name));
TROUPE_STRUCT(net_config, (double, rate), (int64_t, hidden), (net_layer, first), (bool, fails),
              (troupe_fitting, fitting));
TROUPE_STRUCT(net_state, (troupe_tensor, weights));
typedef struct net {
    size_t hidden;
    float *weights;
    troupe_purpose purpose;
    int rank, world;
} net;

static char trace[400]; // The hooks, in the order of their calls.

static void note(const char *hook)
{
    size_t used = strlen(trace);
    (void)snprintf(trace + used, sizeof trace - used, "%s ", hook);
}

static troupe_status net_before_setup(net *self, const net_config *config, troupe_use *use)
{
    (void)self, (void)config, (void)use;
    note("before_setup");
    return TROUPE_OK;
}

static troupe_status net_setup(net *self, const net_config *config, troupe_use *use)
{
    note("setup");
    if (config->fails)
        return troupe_fail(TROUPE_UNSUPPORTED, "no such layer");
    self->purpose = use->purpose;
    self->rank = use->rank;
    self->world = use->world;
    self->hidden = (size_t)config->hidden;
    self->weights = troupe_use_alloc(use, 4 * self->hidden * sizeof *self->weights);
    return self->weights ? TROUPE_OK : TROUPE_NO_MEMORY;
}

// Each does something of its own to the first element.
static troupe_status change(const troupe_tensor *x, float factor, float more, troupe_tensor *y)
{
    size_t count = troupe_tensor_count(x);
    float *out = troupe_arena_alloc((count + 1) * sizeof *out);
    if (!out)
        return TROUPE_NO_MEMORY;
    for (size_t i = 0; i < count; i++)
        out[i] = factor * ((const float *)x->data)[i] + more;
    *y = *x;
    y->data = out;
    return TROUPE_OK;
}

static troupe_status net_preprocess(net *self, const troupe_tensor *x, troupe_tensor *y)
{
    (void)self;
    note("preprocess");
    return change(x, 1, 1, y);
}

static troupe_status net_forward(net *self, const troupe_tensor *x, troupe_tensor *y)
{
    (void)self;
    note("forward");
    return change(x, 10, 0, y);
}

static troupe_status net_postprocess(net *self, const troupe_tensor *x, troupe_tensor *y)
{
    (void)self;
    note("postprocess");
    return change(x, 1, 2, y);
}

static troupe_status net_save(net *self, net_state *state)
{
    note("save");
    state->weights = troupe_tensor_of(TROUPE_FLOAT32, self->weights, 4, self->hidden);
    return TROUPE_OK;
}

static troupe_status net_load(net *self, const net_state *state)
{
    note("load");
    memcpy(self->weights, state->weights.data, 4 * self->hidden * sizeof *self->weights);
    return TROUPE_OK;
}

static void net_deinit(net *self)
{
    (void)self;
    note("deinit");
}

TROUPE_MODEL(net, net_config, net_state, net_setup, net_forward,
             .defaults = {.rate = 0.1,
                          .hidden = 8,
                          .first = {.width = 3, .name = "first"},
                          .fitting = {.epochs = 10, .batch = 32, .seed = 1}},
             .input = {TROUPE_FLOAT32, 2, {4, 0}}, .before_setup = net_before_setup,
             .preprocess = net_preprocess, .postprocess = net_postprocess, .save = net_save,
             .load = net_load, .deinit = net_deinit);

static void assert_said(troupe_status status, troupe_status expected, const char *text)
{
    assert_int_equal(status, expected);
    if (!strstr(troupe_last_error()->text, text))
        fail_msg("expected '%s' in: %s", text, troupe_last_error()->text);
}

// ---- the config

// G04: what a user says comes before the defaults, by name, also within a record.
static void test_settings_come_before_defaults(void **state)
{
    (void)state;
    net_config config = {0}, defaults = troupe_defaults(net);
    troupe_must(troupe_model_config(net, NULL, &config));
    assert_memory_equal(&config, &defaults, sizeof config);
    troupe_must(troupe_model_config(
        net, "{\"hidden\": 64, \"fitting\": {\"epochs\": 2}, \"first\": {\"name\": \"x\"}}",
        &config));
    assert_true(config.rate == 0.1);
    assert_int_equal(config.hidden, 64);
    assert_int_equal(config.fitting.epochs, 2);
    assert_int_equal(config.fitting.batch, 32);
    assert_int_equal(config.first.width, 3);
    assert_string_equal(config.first.name, "x");
    assert_int_equal(troupe_defaults(net).hidden, 8);
    troupe_arena_reset();
}

static void test_a_wrong_setting_is_named(void **state)
{
    (void)state;
    net_config config = {.hidden = 5};
    assert_said(troupe_model_config(net, "{\"hiden\": 64}", &config), TROUPE_NOT_FOUND,
                "the settings of model 'net' have \"hiden\", which is no member of net_config: its "
                "members are rate, hidden, first, fails, fitting");
    assert_said(troupe_model_config(net, "{\"fitting\": {\"epoch\": 64}}", &config),
                TROUPE_NOT_FOUND,
                "have \"epoch\" in fitting, which is no member of troupe_fitting");
    assert_said(troupe_model_config(net, "{\"hidden\": \"many\"}", &config), TROUPE_WRONG_TYPE,
                "the settings of model 'net': ");
    assert_non_null(strstr(troupe_last_error()->text, "hidden"));
    assert_said(troupe_model_config(net, "{\"hidden\": ", &config), TROUPE_MALFORMED,
                "the settings of model 'net': ");
    assert_said(troupe_model_config(net, "[1]", &config), TROUPE_WRONG_TYPE, "an object");
    assert_int_equal(config.hidden, 5);
}

// ---- instances

// G03: forward is post(net(pre(x))), or without the last.
static void test_forward_lies_between_preprocess_and_postprocess(void **state)
{
    (void)state;
    float in[8] = {3};
    troupe_tensor x = troupe_tensor_of(TROUPE_FLOAT32, in, 1, 4, 2), y = {0};
    troupe_instance *instance;
    trace[0] = '\0';
    troupe_must(troupe_model_open(net, NULL, NULL, &instance));
    troupe_must(troupe_model_forward(instance, &x, &y));
    assert_true(((const float *)y.data)[0] == (3 + 1) * 10 + 2);
    assert_int_equal(y.shape[2], 2);
    troupe_must(troupe_model_forward(instance, &x, &y, .no_postprocess = true));
    assert_true(((const float *)y.data)[0] == (3 + 1) * 10);
    troupe_model_close(&instance);
    assert_null(instance);
    assert_string_equal(trace, "before_setup setup preprocess forward postprocess preprocess "
                               "forward deinit ");
    troupe_arena_reset();
}

static void test_an_instance_is_what_its_config_says(void **state)
{
    (void)state;
    troupe_instance *instance;
    troupe_must(troupe_model_open(net, NULL, "{\"hidden\": 100, \"first\": {\"name\": \"one\"}}",
                                  &instance));
    const net_config *config = troupe_model_config_of(net, instance);
    net *self = troupe_model_self(net, instance);
    assert_int_equal(config->hidden, 100);
    assert_string_equal(config->first.name, "one");
    assert_int_equal(self->hidden, 100);
    assert_int_equal(self->purpose, TROUPE_FOR_INFERENCE);
    assert_int_equal(self->rank, 0);
    assert_int_equal(self->world, 1);
    assert_int_equal((uintptr_t)self->weights % 64, 0);
    for (size_t i = 0; i < 400; i++)
        assert_true(self->weights[i] == 0);
    assert_null(troupe_model_self(line, instance));
    assert_said(troupe_last_error()->status, TROUPE_WRONG_TYPE,
                "the instance is of model 'net', not of 'line'");
    assert_null(troupe_model_config_of(line, instance));
    troupe_model_close(&instance);
    troupe_model_close(&instance);
}

static void test_an_input_of_another_shape_is_told(void **state)
{
    (void)state;
    double in[8] = {3};
    troupe_tensor y = {0};
    const troupe_tensor wrong[] = {troupe_tensor_of(TROUPE_FLOAT64, in, 1, 4, 2),
                                   troupe_tensor_of(TROUPE_FLOAT32, in, 1, 4),
                                   troupe_tensor_of(TROUPE_FLOAT32, in, 1, 5, 2),
                                   {.dtype = TROUPE_FLOAT32, .ndim = 99}};
    troupe_instance *instance;
    troupe_must(troupe_model_open(net, NULL, NULL, &instance));
    for (size_t i = 0; i < 3; i++)
        assert_said(troupe_model_forward(instance, &wrong[i], &y), TROUPE_WRONG_TYPE,
                    "where float32[?,4,?] was expected");
    assert_said(troupe_model_forward(instance, &wrong[2], &y), TROUPE_WRONG_TYPE,
                "the input of model 'net' is float32[1,5,2]");
    assert_int_equal(troupe_model_forward(instance, &wrong[3], &y), TROUPE_INVALID);
    assert_null(y.data);
    troupe_model_close(&instance);
}

static void test_a_setup_that_fails_leaves_nothing(void **state)
{
    (void)state;
    troupe_instance *instance = NULL;
    trace[0] = '\0';
    assert_said(troupe_model_open(net, NULL, "{\"fails\": true}", &instance), TROUPE_UNSUPPORTED,
                "setup: no such layer");
    assert_null(instance);
    assert_string_equal(trace, "before_setup setup "); // No deinit of what was not set up.
    assert_said(troupe_model_open(net, NULL, "{\"hidden\": -3}", &instance), TROUPE_NO_MEMORY,
                "setup: no memory for 18446744073709551568 bytes of a model");
    assert_null(instance);
    assert_int_equal(troupe_model_open(net, "/no/such", NULL, &instance), TROUPE_NOT_FOUND);
    assert_null(instance);
}

// G06: setup and forward, and a step to learn by.
static void test_a_minimal_model_is_short(void **state)
{
    (void)state;
    assert_in_range(LINE_MODEL_LINES, 1, 30);
    double in[2] = {1, 2};
    troupe_tensor x = troupe_tensor_of(TROUPE_FLOAT64, in, 2), y = {0};
    troupe_instance *instance;
    troupe_must(troupe_model_open(line, NULL, NULL, &instance));
    troupe_model_self(line, instance)->slope = 3;
    troupe_must(troupe_model_forward(instance, &x, &y));
    assert_true(((const double *)y.data)[1] == 6);
    troupe_model_close(&instance);
    troupe_arena_reset();
}

// ---- declarations

// G26.
static void test_a_model_is_found_by_its_name(void **state)
{
    (void)state;
    troupe_instance *instance;
    assert_ptr_equal(troupe_model_find("net"), &troupe_model_net);
    troupe_must(troupe_model_open_as(troupe_model_find("line"), NULL, NULL, &instance));
    troupe_model_close(&instance);
    assert_null(troupe_model_find("nets"));
    assert_said(troupe_last_error()->status, TROUPE_NOT_FOUND, "there is no model 'nets'");
    assert_non_null(strstr(troupe_last_error()->text, "line"));
    assert_non_null(strstr(troupe_last_error()->text, "net"));
}

static uint32_t no_forward(void)
{
    return 1u << TROUPE_HOOK_SETUP;
}

static uint32_t no_load(void)
{
    return 1u << TROUPE_HOOK_SETUP | 1u << TROUPE_HOOK_FORWARD | 1u << TROUPE_HOOK_SAVE;
}

TROUPE_STRUCT(taken_state, (double, troupe));

static void test_a_model_that_is_none_is_refused(void **state)
{
    (void)state;
    troupe_model model = troupe_model_net;
    model.name = "other";
    model.hooks = no_forward;
    assert_said(troupe_model_register(&model), TROUPE_INVALID,
                "model 'other' has no hook 'forward'");
    model.hooks = no_load;
    assert_said(troupe_model_register(&model), TROUPE_INVALID,
                "model 'other' has no hook 'load': expected both 'save' and 'load', or that the "
                "struct is its own state");
    model.state = &troupe_type_taken_state;
    assert_said(troupe_model_register(&model), TROUPE_INVALID, "a member 'troupe'");
    model = troupe_model_line;
    model.name = "net";
    assert_said(troupe_model_register(&model), TROUPE_EXISTS, "another model has the name 'net'");
    model.abi = 1;
    assert_int_equal(troupe_model_register(&model), TROUPE_VERSION);
    model = troupe_model_net;
    const troupe_input input = {TROUPE_FLOAT32, 8, {0}};
    model.input = &input;
    assert_said(troupe_model_register(&model), TROUPE_INVALID, "has 8 dimensions: expected at");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings_come_before_defaults),
        cmocka_unit_test(test_a_wrong_setting_is_named),
        cmocka_unit_test(test_forward_lies_between_preprocess_and_postprocess),
        cmocka_unit_test(test_an_instance_is_what_its_config_says),
        cmocka_unit_test(test_an_input_of_another_shape_is_told),
        cmocka_unit_test(test_a_setup_that_fails_leaves_nothing),
        cmocka_unit_test(test_a_minimal_model_is_short),
        cmocka_unit_test(test_a_model_is_found_by_its_name),
        cmocka_unit_test(test_a_model_that_is_none_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
