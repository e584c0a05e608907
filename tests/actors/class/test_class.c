// test_class.c: which classes are taken, and the layer that names classes and methods by text.
#include <places.h>
#include <support.h>

#include <runtime/codec/msgpack.h>
#include <stdio.h>
#include <string.h>
#include <troupe/life.h>

TROUPE_STRUCT(order, (troupe_text, item), (int32_t, count));

typedef struct desk {
    int64_t orders;
} desk;

static troupe_status desk_open(desk *self, const int64_t *start)
{
    self->orders = *start;
    return TROUPE_OK;
}
static void desk_close(desk *self)
{
    self->orders = 0;
}
static troupe_status desk_take(desk *self, const order *in, int64_t *total)
{
    if (in->count < 0)
        return troupe_fail(TROUPE_INVALID, "%d of '%s'", in->count, in->item);
    *total = self->orders += in->count;
    return TROUPE_OK;
}
static troupe_status desk_name(desk *self, const troupe_none *nothing, troupe_text *name)
{
    (void)self, (void)nothing;
    *name = "desk";
    return TROUPE_OK;
}
static troupe_status desk_point(desk *self, const troupe_ref *in, troupe_none *out)
{
    (void)self, (void)in, (void)out;
    return TROUPE_OK;
}
TROUPE_ACTOR_INIT(desk, (desk_open, int64_t), desk_close, (desk_take, order, int64_t),
                  (desk_name, troupe_none, troupe_text), (desk_point, troupe_ref, troupe_none));

static troupe_status stool_open(desk *self, const order *first)
{
    self->orders = first->count;
    return TROUPE_OK;
}
typedef desk stool;
static troupe_status stool_take(stool *self, const order *in, int64_t *total)
{
    return desk_take(self, in, total);
}
TROUPE_ACTOR_INIT(stool, (stool_open, order), NULL, (stool_take, order, int64_t));

static int set_up(void **state)
{
    (void)state;
    return troupe_start(0, NULL, .workers = 1, .threads = 2) == TROUPE_OK ? 0 : -1;
}

static troupe_bytes packed(const troupe_type *type, const void *value)
{
    size_t size;
    void *out = troupe_arena_alloc(256);
    troupe_must(troupe_pack_as(type, value, out, 256, &size));
    return (troupe_bytes){out, size};
}

static void test_registering(void **state)
{
    (void)state;
    troupe_class copy = troupe_class_desk;
    assert_int_equal(troupe_class_register(&troupe_class_desk), TROUPE_OK);
    copy.abi = 99;
    assert_int_equal(troupe_class_register(&copy), TROUPE_VERSION);
    copy = troupe_class_desk;
    copy.name = NULL;
    assert_int_equal(troupe_class_register(&copy), TROUPE_INVALID);
    copy = troupe_class_desk;
    copy.method_count = 65;
    assert_int_equal(troupe_class_register(&copy), TROUPE_INVALID);
    copy = troupe_class_desk;
    copy.method_count = 1;
    assert_int_equal(troupe_class_register(&copy), TROUPE_EXISTS);
    assert_int_equal(troupe_class_register(NULL), TROUPE_INVALID);
    troupe_type old = troupe_type_int;
    old.abi = 0;
    troupe_method method = troupe_methods_desk[0];
    method.args = &old;
    copy.methods = &method;
    assert_int_equal(troupe_class_register(&copy), TROUPE_VERSION);
    // The same class from another file is the same class.
    static troupe_class twin;
    twin = troupe_class_desk;
    assert_int_equal(troupe_class_register(&twin), TROUPE_OK);
    desk_actor actor = troupe_spawn(desk, .place = TROUPE_PLACE_WORKER);
    order one = {"pen", 1};
    int64_t total;
    troupe_must(troupe_get(int64_t, troupe_call_as(actor.address, &twin, 0, &one), &total));
    assert_int_equal(total, 1);
    troupe_actor_kill(actor);
}

// An init without a deinit, and arguments that are literals.
static void test_no_deinit(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        order first = {"pen", 2};
        stool_actor actor = troupe_spawn_from(stool, &first, .place = places[p]);
        int64_t total;
        troupe_tell_from(actor, stool_take, &(order){"pen", 3});
        troupe_ref ref = troupe_call_from(actor, stool_take, &(order){"ink", 4});
        troupe_must(troupe_get(int64_t, ref, &total));
        assert_int_equal(total, 9);
        assert_int_equal(troupe_actor_stop(actor, 10000), TROUPE_OK);
    }
    order out;
    troupe_must(troupe_get(order, troupe_put(order, &(order){"ink", 5}), &out));
    assert_int_equal(out.count, 5);
}

static void test_bad_calls(void **state)
{
    (void)state;
    desk_actor actor = troupe_spawn(desk, .place = TROUPE_PLACE_HERE);
    order one = {"pen", 1};
    int64_t total;
    troupe_ref ref = troupe_call_as(actor.address, &troupe_class_desk, 3, &one);
    assert_int_equal(troupe_get(int64_t, ref, &total), TROUPE_INVALID);
    ref = troupe_call_as(actor.address, &troupe_class_desk, 0, NULL);
    assert_int_equal(troupe_get(int64_t, ref, &total), TROUPE_INVALID);
    ref = troupe_call_as(actor.address, NULL, 0, &one);
    assert_int_equal(troupe_get(int64_t, ref, &total), TROUPE_INVALID);
    assert_int_equal(troupe_tell_as(actor.address, &troupe_class_desk, 3, &one), TROUPE_INVALID);
    troupe_actor_kill(actor);
}

static void test_by_name(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        troupe_spawn_options how = {.size = sizeof how, .place = places[p]};
        int64_t start = 10, total;
        troupe_bytes init = packed(&troupe_type_int64_t, &start), bytes;
        troupe_actor actor = troupe_spawn_named("desk", init, &how);
        assert_int_equal(troupe_actor_status(actor), TROUPE_OK);
        order three = {"pen", 3}, wrong = {"pen", -3};
        troupe_bytes args = packed(&troupe_type_order, &three);
        troupe_must(troupe_tell_named(actor, "desk_take", args));
        troupe_must(troupe_get_packed(troupe_call_named(actor, "desk_take", args), &bytes));
        troupe_must(troupe_unpack(int64_t, bytes.data, bytes.size, &total));
        assert_int_equal(total, 16);
        // Typed reading of a named call, and the other way round.
        troupe_must(troupe_get(int64_t, troupe_call_named(actor, "desk_take", args), &total));
        assert_int_equal(total, 19);
        assert_int_equal(troupe_get(int, troupe_call_named(actor, "desk_take", args), &(int){0}),
                         TROUPE_WRONG_TYPE);
        desk_actor typed = {actor};
        troupe_must(troupe_get_packed(troupe_call(typed, desk_name), &bytes));
        troupe_text name;
        troupe_must(troupe_unpack(troupe_text, bytes.data, bytes.size, &name));
        assert_string_equal(name, "desk");
        args = packed(&troupe_type_order, &wrong);
        assert_int_equal(troupe_get_packed(troupe_call_named(actor, "desk_take", args), &bytes),
                         TROUPE_INVALID);
        assert_string_equal(troupe_last_error()->text, "-3 of 'pen'");
        troupe_actor_kill(actor);
        troupe_arena_reset();
    }
    int64_t number = 77;
    troupe_bytes bytes;
    troupe_must(troupe_get_packed(troupe_put(int64_t, &number), &bytes));
    troupe_must(troupe_unpack(int64_t, bytes.data, bytes.size, &number));
    assert_int_equal(number, 77);
    troupe_must(troupe_get_packed(troupe_put_bytes("raw", 3), &bytes));
    assert_int_equal(bytes.size, 5); // A bin of three.
}

static void test_wrong_names(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        int64_t start = 0;
        troupe_bytes init = packed(&troupe_type_int64_t, &start), bytes;
        troupe_spawn_options how = {.size = sizeof how, .place = places[p]};
        troupe_actor actor = troupe_spawn_named("dusk", init, &how);
        assert_int_equal(troupe_actor_status(actor), TROUPE_NOT_FOUND);
        assert_non_null(strstr(troupe_last_error()->text, "'dusk'"));
        assert_non_null(strstr(troupe_last_error()->text, "desk"));
        actor = troupe_spawn_named("desk", (troupe_bytes){"\xc1", 1}, &how);
        assert_int_equal(troupe_actor_status(actor), TROUPE_MALFORMED);
        actor = troupe_spawn_named(NULL, init, &how);
        assert_int_equal(troupe_actor_status(actor), TROUPE_INVALID);

        actor = troupe_spawn_named("desk", init, &how);
        assert_int_equal(troupe_get_packed(troupe_call_named(actor, "desk_give", init), &bytes),
                         TROUPE_NOT_FOUND);
        assert_non_null(strstr(troupe_last_error()->text, "desk_take"));
        assert_int_equal(troupe_last_error()->outcome, TROUPE_OUTCOME_NOT_EXECUTED);
        assert_int_equal(troupe_get_packed(troupe_call_named(actor, "desk_take", init), &bytes),
                         TROUPE_MALFORMED);
        assert_int_equal(troupe_last_error()->outcome, TROUPE_OUTCOME_NOT_EXECUTED);
        assert_non_null(strstr(troupe_last_error()->text, "at byte 0")); // Of what was given.
        assert_int_equal(troupe_get_packed(troupe_call_named(actor, NULL, init), &bytes),
                         TROUPE_INVALID);
        assert_int_equal(
            troupe_get_packed(troupe_call_named(actor, "desk_take", (troupe_bytes){NULL, 5}),
                              &bytes),
            TROUPE_INVALID);
        // Bytes cannot carry a hold of an object to another process.
        int number = 1;
        troupe_ref ref = troupe_put(int, &number);
        troupe_bytes args = packed(&troupe_type_troupe_ref, &ref);
        assert_int_equal(troupe_get_packed(troupe_call_named(actor, "desk_point", args), &bytes),
                         places[p] == TROUPE_PLACE_HERE ? TROUPE_OK : TROUPE_MALFORMED);
        troupe_must(troupe_get(int, ref, &number));
        troupe_actor_kill(actor);
        troupe_arena_reset();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_registering), cmocka_unit_test(test_no_deinit),
        cmocka_unit_test(test_bad_calls),   cmocka_unit_test(test_by_name),
        cmocka_unit_test(test_wrong_names),
    };
    return cmocka_run_group_tests(tests, set_up, stop_runtime);
}
