// test_misuse.c: invalid arguments and options are refused, each with an error text that names it,
// and nothing else comes of them.
#include <places.h>
#include <support.h>

#include <stdlib.h>
#include <string.h>
#include <troupe.h>

TROUPE_STRUCT(letter, (int, number), (troupe_ref, enclosed));
TROUPE_STRUCT(scale, (troupe_array_double, marks));

typedef struct other {
    int unused;
} other;

static troupe_status other_open(other *self, const letter *in)
{
    self->unused = in->number;
    return TROUPE_OK;
}

static void other_close(other *self)
{
    self->unused = 0;
}

static troupe_status other_do(other *self, const int *in, int *out)
{
    (void)self;
    *out = *in;
    return TROUPE_OK;
}

TROUPE_ACTOR_INIT(other, (other_open, letter), other_close, (other_do, int, int));

typedef struct odd {
    int unused;
} odd;

static troupe_status odd_plain(odd *self, const int *in, int *out)
{
    (void)self;
    *out = *in;
    return TROUPE_OK;
}

static troupe_status odd_measure(odd *self, const scale *in, size_t *count)
{
    (void)self;
    *count = in->marks.count;
    return TROUPE_OK;
}

static troupe_status odd_inside(odd *self, const int *mistake, int *out);

TROUPE_ACTOR(odd, (odd_plain, int, int), (odd_measure, scale, size_t), (odd_inside, int, int));

enum { FOREIGN_MONITOR, DEAF_MONITOR, UNKNOWN_TIMER, FOREIGN_TIMER, MISTAKES };

// Makes a mistake that only a method can make, and fails with what came of it.
static troupe_status odd_inside(odd *self, const int *mistake, int *out)
{
    int args = 0;
    bool refused = false;
    (void)self, (void)out;
    switch (*mistake) {
    case FOREIGN_MONITOR:
        refused = troupe_monitor_start_as(troupe_self(), &troupe_class_other, 0) == 0;
        break;
    case DEAF_MONITOR:
        refused = troupe_monitor_start_as(troupe_self(), &troupe_class_odd, 0) == 0;
        break;
    case UNKNOWN_TIMER:
        refused = troupe_timer_start_as(&troupe_class_odd, 99, &args, 1000, false).id_ == 0;
        break;
    default:
        refused = troupe_timer_start_as(&troupe_class_other, 0, &args, 1000, false).id_ == 0;
        break;
    }
    return refused ? troupe_last_error()->status : TROUPE_OK;
}

static troupe_status twice(const int *in, int *out)
{
    *out = 2 * *in;
    return TROUPE_OK;
}
TROUPE_TASK(twice, int, int);

static void expect(troupe_status status, troupe_status wanted, const char *words)
{
    if (status != wanted || strstr(troupe_last_error()->text, words) == NULL)
        fail_msg("%s, expected %s with '%s': %s", troupe_status_name(status),
                 troupe_status_name(wanted), words, troupe_last_error()->text);
}

static int set_up(void **state)
{
    (void)state;
    return troupe_start(0, NULL, .workers = 1, .threads = 1) == TROUPE_OK ? 0 : -1;
}

static void test_at_the_start(void **state)
{
    (void)state;
    expect(troupe_start(0, NULL, .node_timeout_ms = -1), TROUPE_INVALID, ".node_timeout_ms");
    expect(troupe_keys_make(NULL), TROUPE_INVALID, "'path' is NULL");
    expect(troupe_keys_make(""), TROUPE_INVALID, "no path");
    assert_int_equal(setenv("TROUPE_LOCAL", "1", 1), 0);
    expect(troupe_start(0, NULL, .listen = "127.0.0.1:0", .keys = "none"), TROUPE_UNSUPPORTED,
           ".listen");
    assert_int_equal(unsetenv("TROUPE_LOCAL"), 0);
    assert_int_equal(set_up(NULL), 0);
    assert_int_equal(troupe_stop(), 0);
}

static void test_classes_and_types(void **state)
{
    (void)state;
    int values[3];
    troupe_ref refs[3] = {{0}};
    troupe_method method = troupe_class_odd.methods[0];
    troupe_class half = troupe_class_odd;
    half.name = "half";
    half.methods = &method;
    half.method_count = 1;
    method.run = NULL;
    expect(troupe_class_register(&half), TROUPE_INVALID, "method 0 of class 'half' has no name");
    method = troupe_class_odd.methods[0];
    method.name = NULL;
    expect(troupe_class_register(&half), TROUPE_INVALID, "method 0 of class 'half' has no name");
    method = troupe_class_odd.methods[0];
    method.args = NULL;
    expect(troupe_class_register(&half), TROUPE_INVALID, "no type was given");
    expect(troupe_task_register(&troupe_class_odd), TROUPE_INVALID, "not made by TROUPE_TASK");
    expect(troupe_get_all_as(NULL, refs, 3, values, TROUPE_POLL), TROUPE_INVALID, "'type' is NULL");
    expect(troupe_get_all_as(&troupe_type_int, NULL, 3, values, TROUPE_POLL), TROUPE_INVALID,
           "'refs'");
    expect(troupe_get_all_as(&troupe_type_int, refs, 3, NULL, TROUPE_POLL), TROUPE_INVALID,
           "'values'");
}

static void test_tasks(void **state)
{
    (void)state;
    int out, five = 5;
    expect(troupe_get(int, troupe_run_as(&troupe_task_twice, NULL, NULL), &out), TROUPE_INVALID,
           "'twice' was run with no arguments");
    expect(troupe_get(int, troupe_run_from(twice, &five, .memory_bytes = SIZE_MAX), &out),
           TROUPE_INVALID, ".memory_bytes of a task");
    assert_null(troupe_run_map_as(&troupe_task_twice, NULL, 5, NULL));
    expect(troupe_last_error()->status, TROUPE_INVALID, "a map over class 'twice'");
    troupe_must(troupe_get(int, troupe_run(twice, five), &out));
    assert_int_equal(out, 10);
}

static void test_actors(void **state)
{
    (void)state;
    enum { LONG = 1 << 20 };
    char *env = malloc(LONG);
    assert_non_null(env);
    memset(env, 'x', LONG - 1);
    env[0] = 'K', env[1] = '=', env[LONG - 1] = '\0';
    expect(troupe_actor_status(troupe_spawn(odd, .env = env).address), TROUPE_INVALID,
           "is longer than");
    free(env);
    expect(troupe_actor_status(troupe_spawn(odd, .memory_bytes = SIZE_MAX).address), TROUPE_INVALID,
           ".memory_bytes of an actor");
    troupe_pool *pool = NULL;
    expect(troupe_pool_open(odd, &pool, .count = (size_t)1 << 33), TROUPE_INVALID, "is too large");
    assert_null(pool);
    for (int i = 0; i < PLACES; i++) {
        other_actor found;
        odd_actor actor = troupe_spawn(odd, .name = "odd-one", .place = places[i]);
        expect(troupe_lookup(other, "odd-one", &found), TROUPE_WRONG_TYPE, "is of class 'odd'");
        assert_int_equal(troupe_actor_kill(actor), TROUPE_OK);
        assert_int_equal(troupe_actor_await_end(actor.address, SUPPORT_SOON_MS, NULL), TROUPE_OK);
    }
}

static void test_addresses(void **state)
{
    (void)state;
    int out;
    odd_actor nowhere = {{.id = 1, .incarnation = 4711, .process = 100000}};
    odd_actor far = {{.id = 1, .incarnation = 4711, .process = 100000, .node = 7}};
    assert_int_not_equal(troupe_get(int, troupe_call(nowhere, odd_plain, 1), &out), TROUPE_OK);
    expect(troupe_get(int, troupe_call(far, odd_plain, 1), &out), TROUPE_INVALID,
           "process 100000, which no node has");
}

static void test_calls(void **state)
{
    (void)state;
    int in = 1, out;
    size_t count;
    double mark = 1;
    scale endless = {{&mark, SIZE_MAX / 4}};
    static const struct {
        int mistake;
        troupe_status status;
        const char *words;
    } inside[] = {
        {FOREIGN_MONITOR, TROUPE_INVALID, "a method of class 'other' cannot be called"},
        {DEAF_MONITOR, TROUPE_WRONG_TYPE, "takes int, expected troupe_down"},
        {UNKNOWN_TIMER, TROUPE_INVALID, "number 99 was named"},
        {FOREIGN_TIMER, TROUPE_INVALID, "of another class than 'other'"},
    };
    for (int i = 0; i < PLACES; i++) {
        odd_actor actor = troupe_spawn(odd, .place = places[i]);
        troupe_must(troupe_actor_status(actor.address));
        for (size_t k = 0; k < sizeof inside / sizeof inside[0]; k++)
            expect(troupe_get(int, troupe_call(actor, odd_inside, inside[k].mistake), &out),
                   inside[k].status, inside[k].words);
        troupe_stream stream = troupe_stream_open_as(actor.address, &troupe_class_odd, 0, &in);
        expect(troupe_next(int, stream, &out), TROUPE_INVALID,
               "odd_plain is not a streaming method");
        assert_int_not_equal(
            troupe_get(size_t, troupe_call_from(actor, odd_measure, &endless), &count), TROUPE_OK);
        troupe_ref part = {0}, *parts[] = {&part};
        troupe_ref_split_as(&troupe_type_int, troupe_call(actor, odd_plain, 1), parts, 1);
        expect(troupe_get(int, part, &out), TROUPE_INVALID, "not a TROUPE_STRUCT");
        troupe_must(troupe_get(int, troupe_call(actor, odd_plain, 7), &out));
        assert_int_equal(out, 7);
        troupe_actor_kill(actor);
    }
}

static void test_supervisors(void **state)
{
    (void)state;
    enum { DEEP = 100 };
    troupe_class stranger = {.name = "stranger"};
    troupe_child unknown = {.size = sizeof unknown, .class_ = &stranger};
    expect(troupe_actor_status(troupe_supervisor_start(&unknown, 1).address), TROUPE_VERSION,
           "compiled for generation 0");
    static troupe_child tower[DEEP];
    tower[DEEP - 1].class_ = &troupe_class_odd;
    for (int i = DEEP - 2; i >= 0; i--)
        tower[i] = (troupe_child)TROUPE_CHILD_SUPERVISOR(&tower[i + 1], 1);
    expect(troupe_actor_status(troupe_supervisor_start(tower, 1).address), TROUPE_INVALID,
           "is deeper than");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_at_the_start),
        cmocka_unit_test_setup_teardown(test_classes_and_types, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_tasks, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_actors, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_addresses, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_calls, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_supervisors, set_up, stop_runtime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
