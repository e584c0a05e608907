// test_supervise_refs.c: children whose init arguments hold references: what those refer to lasts
// as long as they may be started again.
#include "children.h"
#include <places.h>
#include <support.h>

#include <string.h>
#include <troupe.h>

TROUPE_STRUCT(estate, (troupe_ref, house), (troupe_array_troupe_ref, goods));

// Has what it is started with, by reference.
typedef struct owner {
    int64_t worth;
} owner;

static troupe_status owner_init(owner *self, const estate *given)
{
    int64_t value;
    TROUPE_TRY(troupe_get(int64_t, troupe_ref_keep(given->house), &self->worth));
    for (size_t i = 0; i < given->goods.count; i++) {
        TROUPE_TRY(troupe_get(int64_t, troupe_ref_keep(given->goods.items[i]), &value));
        self->worth += value;
    }
    return TROUPE_OK;
}

static troupe_status owner_worth(owner *self, const troupe_none *nothing, int64_t *worth)
{
    (void)nothing;
    *worth = self->worth;
    return TROUPE_OK;
}

static troupe_status owner_fail(owner *self, const troupe_none *nothing, troupe_none *out)
{
    (void)self, (void)nothing, (void)out;
    return troupe_actor_fail(TROUPE_IO, "an owner fell");
}

static void owner_deinit(owner *self)
{
    (void)self;
}

TROUPE_ACTOR_INIT(owner, (owner_init, estate), owner_deinit, (owner_worth, troupe_none, int64_t),
                  (owner_fail, troupe_none, troupe_none));

typedef struct trader {
    char unused;
} trader;

static troupe_status trader_double(trader *self, const int64_t *value, int64_t *twice)
{
    (void)self;
    *twice = 2 * *value;
    return TROUPE_OK;
}

TROUPE_ACTOR(trader, (trader_double, int64_t, int64_t));

static int set_up(void **state)
{
    (void)state;
    return troupe_start(0, NULL, .workers = 2, .threads = 2) == TROUPE_OK ? 0 : -1;
}

static uint64_t count_objects(void)
{
    troupe_store_usage usage;
    troupe_must(troupe_store_usage_get(&usage));
    return usage.objects;
}

static bool are_so_many(void *user)
{
    return count_objects() == *(uint64_t *)user;
}

static void await_objects(uint64_t count)
{
    if (!support_wait_until(are_so_many, &count, SUPPORT_SOON_MS))
        fail_msg("%d objects are held, expected %d", (int)count_objects(), (int)count);
}

// An object, the same once more, and a call's answer, or less: worth 3, 3 and 14.
typedef struct things {
    troupe_ref goods[2];
    estate given;
} things;

static troupe_child heir_of(things *all, trader_actor other, troupe_child_restart restart,
                            troupe_place place)
{
    int64_t three = 3;
    all->goods[0] = troupe_put(int64_t, &three);
    all->goods[1] = troupe_call(other, trader_double, 7);
    all->given = (estate){all->goods[0], {all->goods, 2}};
    return (troupe_child)TROUPE_CHILD(owner, .init_args = &all->given, .restart = restart,
                                      .place = place);
}

static void drop_things(const things *all)
{
    troupe_ref_drop(all->goods[0]);
    troupe_ref_drop(all->goods[1]);
}

static owner_actor look_owner(troupe_supervisor_actor top, size_t index)
{
    return (owner_actor){look_at_child(top, index, NULL)};
}

static void expect_worth(troupe_supervisor_actor top, size_t index)
{
    int64_t worth;
    troupe_must(troupe_get(int64_t, troupe_call(look_owner(top, index), owner_worth), &worth));
    assert_int_equal(worth, 20);
}

static void fail_owner(troupe_supervisor_actor top, size_t index)
{
    troupe_none none;
    troupe_ref fails = troupe_call(look_owner(top, index), owner_fail);
    assert_int_equal(troupe_get(troupe_none, fails, &none), TROUPE_IO);
}

// They last through restarts, when nobody else has them any more, and end with the last one.
static void test_references(void **state)
{
    (void)state;
    trader_actor other = troupe_spawn(trader, .place = TROUPE_PLACE_WORKER);
    troupe_must(troupe_actor_status(other.address));
    uint64_t before = count_objects();
    for (int p = 0; p < PLACES; p++)
        for (int s = 0; s < PLACES; s++) {
            things all, more;
            troupe_child child = heir_of(&all, other, TROUPE_PERMANENT, places[p]);
            troupe_supervisor_actor top = troupe_supervisor_start(&child, 1, .place = places[s]);
            troupe_must(troupe_actor_status(top.address));
            drop_things(&all);
            expect_worth(top, 0);
            for (uint32_t starts = 2; starts < 4; starts++) {
                fail_owner(top, 0);
                await_starts(top, 0, starts);
                expect_worth(top, 0);
            }
            troupe_actor added;
            child = heir_of(&more, other, TROUPE_TEMPORARY, places[p]);
            troupe_must(troupe_supervisor_add(top, &child, &added));
            drop_things(&more);
            expect_worth(top, 1);
            await_objects(before + 4);
            fail_owner(top, 1); // It is not started again, and needs nothing.
            await_objects(before + 2);
            assert_int_equal(troupe_actor_stop(top), TROUPE_OK);
            await_objects(before);
        }
    assert_int_equal(troupe_actor_kill(other), TROUPE_OK);
}

// Through a supervisor under the supervisor; and a supervisor that is killed holds nothing.
static void test_references_further_down(void **state)
{
    (void)state;
    trader_actor other = troupe_spawn(trader, .place = TROUPE_PLACE_HERE);
    uint64_t before = count_objects();
    for (int s = 0; s < PLACES; s++) {
        things all;
        troupe_child child = heir_of(&all, other, TROUPE_PERMANENT, TROUPE_PLACE_WORKER);
        troupe_child inner = TROUPE_CHILD_SUPERVISOR(&child, 1, .place = places[s]);
        troupe_supervisor_actor top = troupe_supervisor_start(&inner, 1);
        troupe_must(troupe_actor_status(top.address));
        drop_things(&all);
        troupe_child_state state_of;
        troupe_must(troupe_supervisor_child(top, 0, &state_of));
        troupe_supervisor_actor middle = {state_of.address};
        expect_worth(middle, 0);
        fail_owner(middle, 0);
        await_starts(middle, 0, 2);
        assert_int_equal(troupe_actor_kill(middle),
                         TROUPE_OK); // Started again, with all that it had.
        await_starts(top, 0, 2);
        middle.address = look_at_child(top, 0, NULL);
        expect_worth(middle, 0);
        assert_int_equal(troupe_actor_kill(top), TROUPE_OK);
        await_objects(before);
    }
    assert_int_equal(troupe_actor_kill(other), TROUPE_OK);
}

static void test_stale_references(void **state)
{
    (void)state;
    trader_actor other = troupe_spawn(trader, .place = TROUPE_PLACE_HERE);
    uint64_t before = count_objects();
    for (int s = 0; s < PLACES; s++) {
        things all;
        troupe_child child = heir_of(&all, other, TROUPE_PERMANENT, TROUPE_PLACE_HERE);
        troupe_ref_drop(all.goods[0]);
        troupe_supervisor_actor top = troupe_supervisor_start(&child, 1, .place = places[s]);
        assert_int_equal(troupe_actor_status(top.address), TROUPE_INVALID);
        assert_non_null(strstr(troupe_last_error()->text, "stale"));
        troupe_ref_drop(all.goods[1]);
        await_objects(before);
    }
    assert_int_equal(troupe_actor_kill(other), TROUPE_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_references),
        cmocka_unit_test(test_references_further_down),
        cmocka_unit_test(test_stale_references),
    };
    return cmocka_run_group_tests(tests, set_up, stop_runtime);
}
