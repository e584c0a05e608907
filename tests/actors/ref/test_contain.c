// test_contain.c: objects that hold references: what is inside lives as long as the object does,
// whichever process made it, read it, dropped it or died.
// label: local
#include <places.h>
#include <support.h>

#include <runtime/base/memory.h>
#include <stdlib.h>
#include <string.h>
#include <troupe/actor.h>
#include <troupe/async.h>
#include <unistd.h>

TROUPE_STRUCT(node, (int64_t, number), (troupe_ref, next));
TROUPE_STRUCT(album, (troupe_text, title), (troupe_ref, cover), (troupe_array_troupe_ref, pages));

TROUPE_STRUCT(errand, (troupe_actor, maker), (troupe_actor, heir), (int, count));

typedef struct keeper {
    troupe_ref kept;
    troupe_deferred later;
} keeper;

// Then nobody's process ends but the driver's.
static bool is_local(void)
{
    return getenv("TROUPE_LOCAL") != NULL;
}

static troupe_ref put_number(double value)
{
    return troupe_put(double, &value);
}

static album make_album(double cover, troupe_ref *pages, size_t count)
{
    for (size_t i = 0; i < count; i++)
        pages[i] = put_number((double)i);
    return (album){.title = "leaves", .cover = put_number(cover), .pages = {pages, count}};
}

// An album of `count` pages, which are the album's alone.
static troupe_ref put_album(double cover, size_t count)
{
    troupe_ref *pages = calloc(count + 1, sizeof *pages);
    assert_non_null(pages);
    album value = make_album(cover, pages, count);
    troupe_ref ref = troupe_put(album, &value);
    troupe_ref_drop(value.cover);
    for (size_t i = 0; i < count; i++)
        troupe_ref_drop(pages[i]);
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

static bool drop_album(const album *value)
{
    troupe_ref_drop(value->cover);
    for (size_t i = 0; i < value->pages.count; i++)
        troupe_ref_drop(value->pages.items[i]);
    return true;
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
    self->kept = troupe_ref_keep(*ref);
    *kept = self->kept.id != 0;
    return TROUPE_OK;
}

static troupe_status keeper_read_kept(keeper *self, const troupe_none *none, bool *right)
{
    (void)none;
    *right = read_album(troupe_ref_keep(self->kept), 0.5, 10);
    return TROUPE_OK;
}

static troupe_status keeper_drop(keeper *self, const troupe_none *none, troupe_none *out)
{
    (void)none, (void)out;
    troupe_ref_drop(self->kept);
    return TROUPE_OK;
}

static troupe_status keeper_late(keeper *self, const int *ms, double *out)
{
    (void)self;
    usleep((unsigned)*ms * 1000);
    *out = 7;
    return TROUPE_OK;
}

// An album as the result itself, not behind a reference. A negative count: after a while.
static troupe_status keeper_compose(keeper *self, const int *count, album *out)
{
    (void)self;
    size_t pages = (size_t)abs(*count);
    if (*count < 0)
        usleep(20000);
    troupe_ref *refs = troupe_arena_alloc((pages + 1) * sizeof *refs);
    if (refs == NULL)
        return TROUPE_NO_MEMORY;
    *out = make_album(0.5, refs, pages);
    return TROUPE_OK;
}

static troupe_status keeper_defer(keeper *self, const troupe_none *none, album *out)
{
    (void)none, (void)out;
    self->later = troupe_defer();
    return TROUPE_OK;
}

// Answers that with an album whose cover is what it is given.
static troupe_status keeper_answer(keeper *self, const troupe_ref *ref, troupe_none *out)
{
    (void)out;
    album value = {.title = "of its own", .cover = troupe_ref_keep(*ref)};
    return troupe_deferred_fulfil(album, &self->later, &value);
}

static troupe_status keeper_delegate(keeper *self, const errand *what, bool *kept);

TROUPE_ACTOR(keeper, (keeper_make, int, troupe_ref), (keeper_read, troupe_ref, bool),
             (keeper_keep, troupe_ref, bool), (keeper_drop, troupe_none, troupe_none),
             (keeper_late, int, double), (keeper_compose, int, album),
             (keeper_defer, troupe_none, album), (keeper_answer, troupe_ref, troupe_none),
             (keeper_delegate, errand, bool), (keeper_read_kept, troupe_none, bool));

// Has an album composed, and its result kept by a third, before it is there.
static troupe_status keeper_delegate(keeper *self, const errand *what, bool *kept)
{
    keeper_actor maker = {what->maker}, heir = {what->heir};
    troupe_ref ref = troupe_call(maker, keeper_compose, what->count);
    troupe_status status = troupe_get(bool, troupe_call_from(heir, keeper_keep, &ref), kept);
    self->kept = ref; // Until this process dies.
    return status;
}

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
    troupe_ref_drop(put_album(0.5, 10)); // Unread.
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
    troupe_ref_drop(value.cover);
    value.cover = pages[0];
    value.pages = (troupe_array_troupe_ref){pages, 2};
    assert_int_equal(troupe_get(album, troupe_put(album, &value), &read), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "stale"));
    troupe_ref_drop(pages[0]);
    assert_store_empty();

    troupe_ref ref = put_album(0.5, 3);
    assert_int_equal(troupe_get(double, troupe_ref_keep(ref), &number), TROUPE_WRONG_TYPE);
    troupe_view view;
    assert_int_equal(troupe_view_bytes(ref, &view, 0), TROUPE_WRONG_TYPE);
    assert_true(read_album(ref, 0.5, 3));
    assert_store_empty();
}

// However deep they lie in each other: freeing the outermost frees all, on a stack of any size.
static void test_deep_nesting(void **state)
{
    (void)state;
    enum { DEPTH = 20000 };
    troupe_ref ref = {0};
    for (int i = 0; i < DEPTH; i++) {
        node value = {.number = i, .next = ref};
        troupe_ref outer = troupe_put(node, &value);
        troupe_ref_drop(ref);
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
    troupe_ref_drop(value.next);
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
        troupe_actor_kill(actor);
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
        troupe_ref_drop(ref);
        troupe_must(troupe_get(troupe_none, troupe_call(actor, keeper_drop), &none));
        assert_store_empty();
        // And the other way about.
        troupe_must(troupe_get(troupe_ref, troupe_call(actor, keeper_make, 100), &ref));
        assert_true(read_album(ref, 0.5, 100));
        assert_store_empty();
        troupe_actor_kill(actor);
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
        troupe_ref_drop(ref);
        troupe_actor_kill(maker);
        troupe_none none;
        troupe_must(troupe_get(troupe_none, troupe_call(heir, keeper_drop), &none));
        troupe_must(troupe_get(album, outer, &value));
        assert_true(read_album(value.cover, 0.5, 10));
        assert_store_empty();
        troupe_actor_kill(heir);
    }
}

// ---- results that hold references, passed on as references

static void test_promised(void **state)
{
    (void)state;
    static const int counts[] = {10, -10};
    for (int p = 0; p < PLACES * PLACES * 2; p++) {
        keeper_actor maker = troupe_spawn(keeper, .place = places[p % PLACES]);
        keeper_actor reader = troupe_spawn(keeper, .place = places[p / PLACES % PLACES]);
        bool right = false;
        int count = counts[p / PLACES / PLACES];
        troupe_ref ref = troupe_call(maker, keeper_compose, count);
        if (count > 0) // It has ended before it is passed on.
            troupe_must(troupe_wait(&ref, 1, 1, -1, &right, NULL));
        troupe_must(troupe_get(bool, troupe_call_from(reader, keeper_read, &ref), &right));
        assert_true(right);
        troupe_must(troupe_get(bool, troupe_call_from(reader, keeper_keep, &ref), &right));
        assert_true(read_album(ref, 0.5, 10)); // Its owner reads it as ever.
        troupe_none none;
        troupe_must(troupe_get(troupe_none, troupe_call(reader, keeper_drop), &none));
        assert_store_empty();
        troupe_actor_kill(maker);
        troupe_actor_kill(reader);
    }
}

static void test_promised_inside(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        keeper_actor actor = troupe_spawn(keeper, .place = places[p]);
        album value = {.title = "outer", .cover = troupe_call(actor, keeper_compose, -10)}, read;
        troupe_ref ref = troupe_put(album, &value); // Before the cover is there.
        assert_true(read_album(value.cover, 0.5, 10));
        troupe_must(troupe_get(album, ref, &read));
        assert_true(read_album(read.cover, 0.5, 10));
        assert_store_empty();
        troupe_actor_kill(actor);
    }
}

static void test_promisers_die(void **state)
{
    (void)state;
    for (int round = 0; round < 5 && !is_local(); round++) {
        keeper_actor maker = troupe_spawn(keeper, .place = TROUPE_PLACE_ISOLATED);
        keeper_actor agent = troupe_spawn(keeper, .place = TROUPE_PLACE_ISOLATED);
        keeper_actor heir = troupe_spawn(keeper);
        bool right;
        troupe_none none;
        troupe_must(troupe_get(bool,
                               troupe_call(agent, keeper_delegate, maker.address, heir.address,
                                           round % 2 == 0 ? 10 : -10),
                               &right));
        troupe_must(troupe_get(bool, troupe_call(agent, keeper_read_kept), &right));
        assert_true(right);
        troupe_must(troupe_get(bool, troupe_call(heir, keeper_read_kept), &right)); // It is there.
        assert_true(right);
        troupe_actor_kill(maker);
        troupe_actor_kill(agent);
        troupe_must(troupe_get(bool, troupe_call(heir, keeper_read_kept), &right));
        assert_true(right);
        troupe_must(troupe_get(troupe_none, troupe_call(heir, keeper_drop), &none));
        assert_store_empty();
        troupe_actor_kill(heir);
    }
}

static troupe_ref put_box(troupe_ref ref)
{
    album value = {.title = "box", .cover = ref};
    return troupe_put(album, &value);
}

// A result that leads back to itself: who has the reference as another process sees it is told.
static void test_rings_are_refused(void **state)
{
    (void)state;
    for (int p = 1; p < PLACES; p++) {
        for (int boxed = is_local(); boxed < 2; boxed++) {
            keeper_actor actor = troupe_spawn(keeper, .place = places[p]);
            troupe_ref ref = troupe_call(actor, keeper_defer), given = ref;
            troupe_none none;
            album value, inner;
            if (boxed != 0)
                given = put_box(ref);
            troupe_must(
                troupe_get(troupe_none, troupe_call_from(actor, keeper_answer, &given), &none));
            if (boxed != 0)
                troupe_ref_drop(given);
            troupe_must(troupe_get(album, ref, &value)); // Its owner has it.
            if (boxed != 0) {
                troupe_must(troupe_get(album, value.cover, &inner));
                value.cover = inner.cover;
            }
            assert_int_equal(troupe_get(album, value.cover, &inner), TROUPE_INVALID);
            assert_non_null(strstr(troupe_last_error()->text, "refers back to the reference"));
            assert_store_empty();
            troupe_actor_kill(actor);
        }
    }
}

// Results in this process's memory, each of which names the one before: to show the last one to
// another process takes a stack of any size.
static void test_long_chains(void **state)
{
    (void)state;
    enum { LENGTH = 20000 };
    keeper_actor here = troupe_spawn(keeper, .place = TROUPE_PLACE_HERE);
    troupe_ref ref = put_number(1);
    troupe_none none;
    for (int i = 0; i < LENGTH; i++) {
        troupe_ref next = troupe_call(here, keeper_defer);
        troupe_must(troupe_get(troupe_none, troupe_call_from(here, keeper_answer, &ref), &none));
        troupe_ref_drop(ref);
        ref = next;
        troupe_arena_reset();
    }
    troupe_ref outer = put_box(ref);
    troupe_ref_drop(ref);
    album value = {.cover = outer};
    for (int i = 0; i <= LENGTH; i++) {
        troupe_must(troupe_get(album, value.cover, &value));
        troupe_arena_reset();
    }
    double number;
    troupe_must(troupe_get(double, value.cover, &number));
    assert_true(number == 1);
    troupe_actor_kill(here);
    assert_store_empty();
}

// ---- packed

static bool read_packed(troupe_ref ref)
{
    troupe_bytes packed;
    album value;
    if (troupe_get_packed(ref, &packed) != TROUPE_OK ||
        troupe_unpack(album, packed.data, packed.size, &value) != TROUPE_OK)
        return false;
    return read_album(troupe_put(album, &value), 0.5, 10) && drop_album(&value);
}

static void test_packed(void **state)
{
    (void)state;
    troupe_ref ref = put_album(0.5, 10);
    assert_true(read_packed(troupe_ref_keep(ref))); // While others have it,
    assert_true(read_packed(ref));                  // and by the last.
    assert_store_empty();
    for (int p = 0; p < PLACES; p++) {
        keeper_actor actor = troupe_spawn(keeper, .place = places[p]);
        ref = troupe_call(actor, keeper_compose, 10);
        assert_true(read_packed(troupe_ref_keep(ref)));
        assert_true(read_packed(ref));
        assert_store_empty();
        troupe_actor_kill(actor);
    }
}

// However far it comes, nothing is left of it.
static void pack_short_of_memory(troupe_ref ref)
{
    troupe_status status = TROUPE_NO_MEMORY;
    int failures = 0;
    troupe_must(troupe_wait(&ref, 1, 1, SUPPORT_SOON_MS, NULL, NULL));
    for (long allowed = 0; status != TROUPE_OK; allowed++) {
        troupe_bytes packed;
        troupe_ref kept = troupe_ref_keep(ref);
        troupe_arena_reset();
        trp_memory_fail_after(allowed);
        status = troupe_get_packed(kept, &packed);
        trp_memory_fail_after(-1);
        album value;
        if (status == TROUPE_OK) {
            troupe_must(troupe_unpack(album, packed.data, packed.size, &value));
            assert_true(drop_album(&value));
        } else {
            assert_int_equal(status, TROUPE_NO_MEMORY);
            failures++;
        }
    }
    assert_true(failures > 0);
    troupe_ref_drop(ref);
    assert_store_empty();
}

static void test_packed_short_of_memory(void **state)
{
    (void)state;
    pack_short_of_memory(put_album(0.5, 200));
    for (int p = 0; p < PLACES; p++) {
        keeper_actor actor = troupe_spawn(keeper, .place = places[p]);
        pack_short_of_memory(troupe_call(actor, keeper_compose, 200));
        troupe_actor_kill(actor);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put_and_get),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_deep_nesting),
        cmocka_unit_test(test_calls_inside),
        cmocka_unit_test(test_passed_on),
        cmocka_unit_test(test_makers_die),
        cmocka_unit_test(test_promised),
        cmocka_unit_test(test_promised_inside),
        cmocka_unit_test(test_promisers_die),
        cmocka_unit_test(test_rings_are_refused),
        cmocka_unit_test(test_long_chains),
        cmocka_unit_test(test_packed),
        cmocka_unit_test(test_packed_short_of_memory),
    };
    return cmocka_run_group_tests(tests, set_up, stop_runtime);
}
