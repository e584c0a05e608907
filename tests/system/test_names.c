// test_names.c: types whose names the macros' own parameters might have, and what fields may be:
// fixed texts, enums, long and the like. Methods that name their own class.
#include <support.h>

#include <string.h>
#include <troupe.h>

typedef enum result { LOST = -1, DRAWN, WON } result;
TROUPE_ENUM(result);
typedef enum color { RED = 1, GREEN = 7 } color;
TROUPE_ENUM(color);

TROUPE_STRUCT(args, (char, name, 8), (long, wide), (short, narrow), (unsigned, plain),
              (color, colors, 2), (char, letter));
TROUPE_STRUCT(config, (result, result), (args, args), (troupe_array_result, results));

typedef struct self {
    args args;
} self;

static troupe_status self_init(self *me, const args *first)
{
    me->args = *first;
    return TROUPE_OK;
}

static void self_deinit(self *me)
{
    me->args.wide = 0;
}

static troupe_status self_take(self *me, const config *from, args *to)
{
    *to = me->args;
    me->args = from->args;
    return from->results.count == 2 && from->results.items[1] == LOST ? TROUPE_OK : TROUPE_FAILED;
}

static troupe_status self_judge(const self *me, const result *from, result *to)
{
    (void)me;
    *to = *from == WON ? LOST : WON;
    return TROUPE_OK;
}

TROUPE_ACTOR_INIT(self, (self_init, args), self_deinit, (self_take, config, args),
                  (self_judge, result, result));

static troupe_status executor(const args *from, config *to)
{
    to->args = *from;
    to->result = WON;
    return TROUPE_OK;
}
TROUPE_TASK(executor, args, config);

// An actor that calls others of its class, and has one as its argument.
typedef struct actor {
    int count;
} actor;

TROUPE_ACTOR_STATIC(actor, (actor_ask, actor_actor, int), (actor_count, int, int));

static troupe_status actor_ask(actor *me, const actor_actor *other, int *count)
{
    (void)me;
    return troupe_get(int, troupe_call(*other, actor_count, 5), count);
}

static troupe_status actor_count(actor *me, const int *by, int *count)
{
    *count = me->count += *by;
    return TROUPE_OK;
}

static troupe_status me_loop(troupe_rank *me, const config *with)
{
    (void)with;
    return troupe_report(me, {"loss", 1});
}
TROUPE_TRAINER(me_loop, config);

static const args first = {.name = "seven",
                           .wide = -1 - (long)INT32_MAX,
                           .narrow = -3,
                           .plain = 4000000000,
                           .colors = {RED, GREEN},
                           .letter = 'x'};

static bool is_first(const args *given)
{
    return strcmp(given->name, "seven") == 0 && given->wide == first.wide && given->narrow == -3 &&
           given->plain == 4000000000 && given->colors[0] == RED && given->colors[1] == GREEN &&
           given->letter == 'x';
}

static void test_actors(void **state)
{
    (void)state;
    static const result results[] = {WON, LOST};
    config given = {.result = DRAWN, .args = {.name = ""}, .results = {results, 2}};
    args back;
    result judged = DRAWN;
    self_actor it = troupe_spawn_from(self, &first, .place = TROUPE_PLACE_WORKER);
    troupe_must(troupe_get(args, troupe_call_from(it, self_take, &given), &back));
    assert_true(is_first(&back));
    troupe_must(troupe_get(args, troupe_call_from(it, self_take, &given), &back));
    assert_string_equal(back.name, "");
    troupe_must(troupe_get(result, troupe_call(it, self_judge, WON), &judged));
    assert_int_equal(judged, LOST);
}

static void test_a_task(void **state)
{
    (void)state;
    config out;
    troupe_must(troupe_get(config, troupe_run_from(executor, &first), &out));
    assert_true(is_first(&out.args));
    assert_int_equal(out.result, WON);
}

static void test_methods_of_the_own_class(void **state)
{
    (void)state;
    int count = 0;
    actor_actor one = troupe_spawn(actor), other = troupe_spawn(actor);
    troupe_must(troupe_get(int, troupe_call_from(one, actor_ask, &other), &count));
    assert_int_equal(count, 5);
}

static void test_a_training_run(void **state)
{
    (void)state;
    config given = {.result = WON, .args = first};
    troupe_result *run = NULL;
    troupe_must(troupe_train(me_loop, &given, &run, .ranks = 1));
    troupe_result_free(&run);
}

TROUPE_STRUCT(longer, (char, name, 64));
TROUPE_STRUCT(shorter, (char, name, 4));
TROUPE_STRUCT(pointer, (troupe_text, name));

static void test_fixed_texts(void **state)
{
    (void)state;
    unsigned char packed[128];
    char printed[64];
    size_t size, pointer_size;
    longer given = {.name = "vier"}, back = {.name = "xxxxxxxxxxxx"};
    shorter small = {.name = "abc"};
    // It travels as a text of any length does.
    troupe_must(troupe_pack(longer, &given, packed, sizeof packed, &size));
    pointer text = {0};
    troupe_must(troupe_unpack(pointer, packed, size, &text));
    assert_string_equal(text.name, "vier");
    troupe_must(troupe_pack(pointer, &text, packed, sizeof packed, &pointer_size));
    assert_int_equal(pointer_size, size);
    troupe_must(troupe_unpack(longer, packed, size, &back));
    assert_memory_equal(&back, &given, sizeof given); // What is behind the text is zeros.
    (void)troupe_print(longer, &given, printed, sizeof printed);
    assert_string_equal(printed, "{\"name\": \"vier\"}");
    assert_true(troupe_type_hash(&troupe_type_longer) != troupe_type_hash(&troupe_type_shorter));

    assert_int_equal(troupe_unpack(shorter, packed, size, &small), TROUPE_MALFORMED);
    assert_non_null(
        strstr(troupe_last_error()->text, "shorter.name: expected a text of at most 3"));
    assert_string_equal(small.name, "abc");
    text.name = NULL;
    troupe_must(troupe_pack(pointer, &text, packed, sizeof packed, &size));
    assert_int_equal(troupe_unpack(shorter, packed, size, &small), TROUPE_MALFORMED);

    memcpy(small.name, "abcd", 4); // No NUL.
    assert_int_equal(troupe_pack(shorter, &small, packed, sizeof packed, &size), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "ends within its 4 bytes"));
    memcpy(small.name, "\xff", 2);
    assert_int_equal(troupe_pack(shorter, &small, packed, sizeof packed, &size), TROUPE_INVALID);
    troupe_arena_reset();
}

static void test_enums_have_their_sign(void **state)
{
    (void)state;
    assert_int_equal(troupe_type_result.kind, TROUPE_KIND_INT);
    assert_int_equal(troupe_type_color.kind, TROUPE_KIND_UINT);
    assert_int_equal(troupe_type_color.size, sizeof(color));
}

static int start(void **state)
{
    (void)state;
    return troupe_start(0, NULL, .workers = 2) == TROUPE_OK ? 0 : -1;
}

static int stop(void **state)
{
    (void)state;
    return troupe_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_actors),
        cmocka_unit_test(test_a_task),
        cmocka_unit_test(test_methods_of_the_own_class),
        cmocka_unit_test(test_a_training_run),
        cmocka_unit_test(test_fixed_texts),
        cmocka_unit_test(test_enums_have_their_sign),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
