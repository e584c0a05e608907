// test_contain.c: objects that hold references: what is inside lives as long as the object does,
// whoever made it, read it, dropped it or died.
// label: local
#include <places.h>
#include <support.h>

#include <stdlib.h>
#include <string.h>
#include <troupe/actor.h>
#include <unistd.h>

TROUPE_STRUCT(node, (int64_t, number), (troupe_ref, next));
TROUPE_STRUCT(album, (troupe_text, title), (troupe_ref, cover), (troupe_array_troupe_ref, pages));

typedef struct keeper {
    troupe_ref kept;
} keeper;

static bool store_is_empty(void *user)
{
    troupe_store_usage usage;
    (void)user;
    return troupe_store_usage_get(&usage) == TROUPE_OK && usage.objects == 0;
}

static void assert_store_empty(void)
{
    assert_true(support_wait_until(store_is_empty, NULL, SUPPORT_SOON_MS));
}

static troupe_ref put_number(double value)
{
    return troupe_put(double, &value);
}

// An album of `count` pages, which are the album's alone.
static troupe_ref put_album(double cover, size_t count)
{
    troupe_ref *pages = calloc(count + 1, sizeof *pages);
    assert_non_null(pages);
    for (size_t i = 0; i < count; i++)
        pages[i] = put_number((double)i);
    album value = {.title = "leaves", .cover = put_number(cover), .pages = {pages, count}};
    troupe_ref ref = troupe_put(album, &value);
    troupe_drop(value.cover);
    for (size_t i = 0; i < count; i++)
        troupe_drop(pages[i]);
    free(pages);
    return ref;
}

// Takes the album apart; false: it is not as put_album made it.
static bool read_album(troupe_ref ref, double cover, size_t count)
{
    album value;
    double number;
    if (troupe_get(album, ref, &value) != TROUPE_OK || value.pages.count != count ||
        strcmp(value.title, "leaves") != 0 ||
        troupe_get(double, value.cover, &number) != TROUPE_OK || number != cover)
        return false;
    bool right = true;
    for (size_t i = 0; i < count; i++)
        right = troupe_get(double, value.pages.items[i], &number) == TROUPE_OK &&
                number == (double)i && right;
    return right;
}

static troupe_status keeper_make(keeper *self, const int *count, troupe_ref *out)
{
    (void)self;
    *out = put_album(0.5, (size_t)*count);
    return TROUPE_OK;
}

// The reference is borrowed: what was read from it is the method's own.
static troupe_status keeper_read(keeper *self, const troupe_ref *ref, bool *right)
{
    (void)self;
    *right = read_album(*ref, 0.5, 10) && read_album(*ref, 0.5, 10);
    return TROUPE_OK;
}

static troupe_status keeper_keep(keeper *self, const troupe_ref *ref, bool *kept)
{
    self->kept = troupe_keep(*ref);
    *kept = self->kept.id != 0;
    return TROUPE_OK;
}

static troupe_status keeper_drop(keeper *self, const troupe_none *none, troupe_none *out)
{
    (void)none, (void)out;
    troupe_drop(self->kept);
    return TROUPE_OK;
}

static troupe_status keeper_late(keeper *self, const int *ms, double *out)
{
    (void)self;
    usleep((unsigned)*ms * 1000);
    *out = 7;
    return TROUPE_OK;
}

TROUPE_ACTOR(keeper, (keeper_make, int, troupe_ref), (keeper_read, troupe_ref, bool),
             (keeper_keep, troupe_ref, bool), (keeper_drop, troupe_none, troupe_none),
             (keeper_late, int, double));

static int set_up(void **state)
{
    (void)state;
    return troupe_start(0, NULL, .workers = 2, .threads = 2) == TROUPE_OK ? 0 : -1;
}

static void test_put_and_get(void **state)
{
    (void)state;
    troupe_ref ref = put_album(0.5, 10);
    troupe_store_usage usage;
    troupe_must(troupe_store_usage_get(&usage));
    assert_int_equal(usage.objects, 12); // Nothing of it is gone, though all but the album was
                                         // dropped.
    assert_true(read_album(ref, 0.5, 10));
    assert_store_empty();
    troupe_drop(put_album(0.5, 10)); // Unread.
    assert_store_empty();
    assert_true(read_album(put_album(2, 0), 2, 0));

    // References that are given stay the giver's; an empty one is none.
    album value = {.title = "one", .cover = put_number(3)};
    ref = troupe_put(album, &value);
    double number;
    troupe_must(troupe_get(double, value.cover, &number));
    album read;
    troupe_must(troupe_get(album, ref, &read));
    troupe_must(troupe_get(double, read.cover, &number));
    assert_true(number == 3 && read.pages.count == 0);
    assert_store_empty();
}

static void test_misuse(void **state)
{
    (void)state;
    double number;
    album value = {.cover = put_number(1)}, read;
    troupe_ref pages[2] = {put_number(2), value.cover};
    troupe_drop(value.cover);
    value.cover = pages[0];
    value.pages = (troupe_array_troupe_ref){pages, 2};
    assert_int_equal(troupe_get(album, troupe_put(album, &value), &read), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "stale"));
    troupe_drop(pages[0]);
    assert_store_empty();

    troupe_ref ref = put_album(0.5, 3);
    assert_int_equal(troupe_get(double, troupe_keep(ref), &number), TROUPE_WRONG_TYPE);
    troupe_bytes packed;
    assert_int_equal(troupe_get_packed(troupe_keep(ref), &packed, NULL), TROUPE_UNSUPPORTED);
    assert_non_null(strstr(troupe_last_error()->text, "holds references"));
    troupe_view view;
    assert_int_equal(troupe_view_bytes(ref, &view, 0), TROUPE_WRONG_TYPE);
    assert_true(read_album(ref, 0.5, 3));
    assert_store_empty();
}

// However deep they lie in each other: freeing the outermost frees all, on a stack of any size.
static void test_deep(void **state)
{
    (void)state;
    enum { DEPTH = 20000 };
    troupe_ref ref = {0};
    for (int i = 0; i < DEPTH; i++) {
        node value = {.number = i, .next = ref};
        troupe_ref outer = troupe_put(node, &value);
        troupe_drop(ref);
        ref = outer;
    }
    troupe_store_usage usage;
    troupe_must(troupe_store_usage_get(&usage));
    assert_int_equal(usage.objects, DEPTH);
    node value;
    troupe_must(troupe_get(node, ref, &value));
    assert_int_equal(value.number, DEPTH - 1);
    troupe_must(troupe_store_usage_get(&usage));
    assert_int_equal(usage.objects, DEPTH - 1);
    troupe_drop(value.next);
    assert_store_empty();
}

static void test_calls_inside(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        keeper_actor actor = troupe_spawn(keeper, .place = places[p]);
        album value = {.title = "later", .cover = troupe_call(actor, keeper_late, 20)}, read;
        troupe_ref ref = troupe_put(album, &value);
        double number;
        troupe_must(troupe_get(double, value.cover, &number)); // It is still its owner's.
        assert_true(number == 7);
        troupe_must(troupe_get(album, ref, &read));
        troupe_must(troupe_get(double, read.cover, &number));
        assert_true(number == 7);
        troupe_kill(actor);
    }
    assert_store_empty();
}

static void test_passed_on(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        keeper_actor actor = troupe_spawn(keeper, .place = places[p]);
        bool right = false;
        troupe_none none;
        troupe_ref ref = put_album(0.5, 10);
        troupe_must(troupe_get(bool, troupe_call_from(actor, keeper_read, &ref), &right));
        assert_true(right);
        // The last one to drop it is another than its maker.
        troupe_must(troupe_get(bool, troupe_call_from(actor, keeper_keep, &ref), &right));
        troupe_drop(ref);
        troupe_must(troupe_get(troupe_none, troupe_call(actor, keeper_drop), &none));
        assert_store_empty();
        // And the other way about.
        troupe_must(troupe_get(troupe_ref, troupe_call(actor, keeper_make, 100), &ref));
        assert_true(read_album(ref, 0.5, 100));
        assert_store_empty();
        troupe_kill(actor);
    }
}

static void test_makers_die(void **state)
{
    (void)state;
    for (int round = 0; round < 5; round++) {
        keeper_actor maker = troupe_spawn(keeper, .place = TROUPE_PLACE_ISOLATED);
        keeper_actor heir = troupe_spawn(keeper, .place = TROUPE_PLACE_WORKER);
        troupe_ref ref, outer;
        bool kept;
        troupe_must(troupe_get(troupe_ref, troupe_call(maker, keeper_make, 10), &ref));
        album value = {.title = "of two makers", .cover = ref};
        outer = troupe_put(album, &value);
        troupe_must(troupe_get(bool, troupe_call_from(heir, keeper_keep, &ref), &kept));
        assert_true(kept);
        troupe_drop(ref);
        troupe_kill(maker);
        troupe_none none;
        troupe_must(troupe_get(troupe_none, troupe_call(heir, keeper_drop), &none));
        troupe_must(troupe_get(album, outer, &value));
        assert_true(read_album(value.cover, 0.5, 10));
        assert_store_empty();
        troupe_kill(heir);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put_and_get), cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_deep),        cmocka_unit_test(test_calls_inside),
        cmocka_unit_test(test_passed_on),   cmocka_unit_test(test_makers_die),
    };
    return cmocka_run_group_tests(tests, set_up, stop_runtime);
}
