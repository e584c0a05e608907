// test_resource.c: the books of CPUs: exact fractions, whole gangs, first come first served.
#include "support.h"

#include <math.h>
#include <runtime/resource.h>
#include <stdlib.h>
#include <string.h>

static void counts_fractions_exactly(void **state)
{
    (void)state;
    int64_t amount = 0;
    assert_int_equal(trp_cpus_count(1.0, &amount), TROUPE_OK);
    assert_int_equal(amount, TRP_CPU);
    assert_int_equal(trp_cpus_count(0.1, &amount), TROUPE_OK);
    assert_int_equal(amount, TRP_CPU / 10);
    assert_int_equal(trp_cpus_count(0.0001, &amount), TROUPE_OK);
    assert_int_equal(amount, 1);
    const double wrong[] = {0, -1, 0.00001, NAN, INFINITY, -INFINITY, 1e9};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(trp_cpus_count(wrong[i], &amount), TROUPE_INVALID);
    assert_int_equal(amount, 1);
}

static void tenths_fill_a_cpu(void **state)
{
    (void)state;
    trp_resources books;
    trp_resources_init(&books, TRP_CPU);
    trp_claim claims[11] = {0};
    int64_t tenth = 0;
    assert_int_equal(trp_cpus_count(0.1, &tenth), TROUPE_OK);
    for (int i = 0; i < 11; i++)
        assert_int_equal(trp_resources_claim(&books, &claims[i], tenth, 1), TROUPE_OK);
    for (int i = 0; i < 10; i++)
        assert_ptr_equal(trp_resources_admit(&books), &claims[i]);
    assert_null(trp_resources_admit(&books));
    assert_int_equal(books.free, 0);
    trp_resources_release(&books, &claims[3]);
    assert_ptr_equal(trp_resources_admit(&books), &claims[10]);
}

static void refuses_what_can_never_fit(void **state)
{
    (void)state;
    trp_resources books;
    trp_resources_init(&books, 4 * TRP_CPU);
    trp_claim claim = {0};
    assert_int_equal(trp_resources_claim(&books, &claim, TRP_CPU, 5), TROUPE_TOO_LARGE);
    assert_non_null(strstr(troupe_last_error()->text, "need 5 CPUs, and there are 4"));
    assert_int_equal(trp_resources_claim(&books, &claim, INT64_MAX, 2147483647), TROUPE_TOO_LARGE);
    assert_int_equal(trp_resources_claim(&books, &claim, TRP_CPU, 0), TROUPE_INVALID);
    assert_int_equal(trp_resources_claim(&books, &claim, 0, 1), TROUPE_INVALID);
    assert_int_equal(claim.state, TRP_CLAIM_NONE);
    assert_null(trp_resources_admit(&books));
    assert_int_equal(trp_resources_claim(&books, &claim, TRP_CPU, 4), TROUPE_OK);
    assert_ptr_equal(trp_resources_admit(&books), &claim);
}

static void a_large_gang_is_not_overtaken(void **state)
{
    (void)state;
    trp_resources books;
    trp_resources_init(&books, 4 * TRP_CPU);
    trp_claim running = {0}, large = {0}, small = {0};
    assert_int_equal(trp_resources_claim(&books, &running, TRP_CPU, 2), TROUPE_OK);
    assert_int_equal(trp_resources_claim(&books, &large, TRP_CPU, 4), TROUPE_OK);
    assert_int_equal(trp_resources_claim(&books, &small, TRP_CPU, 1), TROUPE_OK);
    assert_ptr_equal(trp_resources_admit(&books), &running);
    assert_null(trp_resources_admit(&books)); // `small` would fit, but came later.
    trp_resources_release(&books, &running);
    assert_ptr_equal(trp_resources_admit(&books), &large);
    assert_null(trp_resources_admit(&books));
    trp_resources_release(&books, &large);
    trp_resources_release(&books, &large); // Harmless.
    assert_ptr_equal(trp_resources_admit(&books), &small);
    assert_int_equal(books.free, 3 * TRP_CPU);
}

static void a_waiting_claim_can_leave_from_anywhere(void **state)
{
    (void)state;
    for (int leaver = 0; leaver < 3; leaver++) {
        trp_resources books;
        trp_resources_init(&books, TRP_CPU);
        trp_claim claims[3] = {0}, late = {0};
        for (int i = 0; i < 3; i++)
            assert_int_equal(trp_resources_claim(&books, &claims[i], TRP_CPU, 1), TROUPE_OK);
        trp_resources_release(&books, &claims[leaver]);
        assert_int_equal(trp_resources_claim(&books, &late, TRP_CPU, 1), TROUPE_OK);
        for (int i = 0; i < 3; i++) {
            if (i == leaver)
                continue;
            assert_ptr_equal(trp_resources_admit(&books), &claims[i]);
            assert_null(trp_resources_admit(&books));
            trp_resources_release(&books, &claims[i]);
        }
        assert_ptr_equal(trp_resources_admit(&books), &late);
    }
}

// Random claims and releases against a model that recounts everything each time.
static void the_books_balance(void **state)
{
    (void)state;
    enum { CLAIMS = 32, STEPS = 20000 };
    uint64_t seed = 7;
    trp_resources books;
    trp_resources_init(&books, 8 * TRP_CPU);
    trp_claim claims[CLAIMS] = {0};
    uint64_t order[CLAIMS] = {0}, next_order = 1, last_admitted = 0;
    for (int step = 0; step < STEPS; step++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        int i = (int)(seed >> 40) % CLAIMS;
        if (claims[i].state == TRP_CLAIM_NONE) {
            int64_t each = 1 + (int64_t)(seed >> 33) % (2 * TRP_CPU);
            int members = 1 + (int)(seed >> 60) % 4;
            assert_int_equal(trp_resources_claim(&books, &claims[i], each, members), TROUPE_OK);
            order[i] = next_order++;
        } else {
            trp_resources_release(&books, &claims[i]);
        }
        for (trp_claim *claim; (claim = trp_resources_admit(&books));) {
            assert_true(order[claim - claims] > last_admitted);
            last_admitted = order[claim - claims];
        }
        int64_t held = 0;
        uint64_t oldest = UINT64_MAX;
        for (int k = 0; k < CLAIMS; k++) {
            if (claims[k].state == TRP_CLAIM_HELD)
                held += claims[k].amount;
            if (claims[k].state == TRP_CLAIM_WAITING && order[k] < oldest)
                oldest = order[k];
        }
        assert_int_equal(held + books.free, books.total);
        assert_true(books.free >= 0);
        for (int k = 0; k < CLAIMS; k++)
            if (claims[k].state == TRP_CLAIM_WAITING && order[k] == oldest)
                assert_true(claims[k].amount > books.free);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_fractions_exactly),
        cmocka_unit_test(tenths_fill_a_cpu),
        cmocka_unit_test(refuses_what_can_never_fit),
        cmocka_unit_test(a_large_gang_is_not_overtaken),
        cmocka_unit_test(a_waiting_claim_can_leave_from_anywhere),
        cmocka_unit_test(the_books_balance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
