// test_jobs_wishes.c: wishes that follow each other: the newest counts.
#include "shop.h"

// The newest counts, also of wishes that wait for a grant; a stop stays one.
static void test_a_later_wish_for_fewer_ranks_counts(void **state)
{
    shop it;
    trp_entry *job, *other;
    trp_arena arena = {0};
    trp_wire_wishes wishes;
    (void)state;
    shop_open(&it, 3);
    assert_int_equal(shop_submit(&it, &job, .submission = "a", .ranks = 2), TROUPE_OK);
    assert_int_equal(shop_submit(&it, &other, .submission = "b"), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(shop_greet(&it, job), TROUPE_OK);
    assert_int_equal(shop_wish(&it, job, TRP_WISH_RANKS, 3), TROUPE_OK); // There is no room for it.
    shop_turn(&it);
    assert_int_equal(shop_wish(&it, job, TRP_WISH_STOP, 0), TROUPE_OK);
    assert_int_equal(shop_wish(&it, job, TRP_WISH_RANKS, 1), TROUPE_OK);
    shop_turn(&it);
    shop_end(&it, other, TROUPE_OK, 1); // Now there would be.
    shop_turn(&it);
    shop_turn(&it);
    assert_int_equal(job->row.granted_ranks, 2);
    assert_int_equal(trp_jobs_wishes(job, &arena, &wishes), TROUPE_OK);
    assert_int_equal(wishes.ranks, 1);
    assert_true(wishes.stop);
    shop_die(&it, job); // It has not heard of it.
    shop_turn(&it);
    assert_int_equal(job->row.state, TRP_JOB_ENDED);
    assert_true(job->row.stopped);
    trp_arena_clear(&arena);
    shop_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_later_wish_for_fewer_ranks_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
