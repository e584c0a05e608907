// test_resource.c: the accounting of CPUs: exact fractions, whole gangs, first come first served.
#include "support.h"

#include <math.h>
#include <runtime/node/resource_ledger.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void begin(trp_resources *books, int64_t cpus)
{
    trp_resources_init(books, cpus, 0, 0);
}

static troupe_status claim_cpus(trp_resources *books, trp_claim *claim, int64_t each, int members)
{
    claim->amounts.of[TRP_CPUS] = each * members;
    return trp_resources_claim(books, claim);
}

static void test_counts_fractions_exactly(void **state)
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

static void test_tenths_fill_a_cpu(void **state)
{
    (void)state;
    trp_resources books;
    begin(&books, TRP_CPU);
    trp_claim claims[11] = {0};
    int64_t tenth = 0;
    assert_int_equal(trp_cpus_count(0.1, &tenth), TROUPE_OK);
    for (int i = 0; i < 11; i++)
        assert_int_equal(claim_cpus(&books, &claims[i], tenth, 1), TROUPE_OK);
    for (int i = 0; i < 10; i++)
        assert_ptr_equal(trp_resources_admit(&books, 0), &claims[i]);
    assert_null(trp_resources_admit(&books, 0));
    assert_int_equal(books.free.of[TRP_CPUS], 0);
    trp_resources_release(&books, &claims[3]);
    assert_ptr_equal(trp_resources_admit(&books, 0), &claims[10]);
}

static void test_refuses_what_can_never_fit(void **state)
{
    (void)state;
    trp_resources books;
    begin(&books, 4 * TRP_CPU);
    trp_claim claim = {0};
    assert_int_equal(claim_cpus(&books, &claim, TRP_CPU, 5), TROUPE_TOO_LARGE);
    assert_non_null(strstr(troupe_last_error()->text, "5 CPUs were asked for, and there are 4"));
    assert_int_equal(claim_cpus(&books, &claim, INT64_MAX, 1), TROUPE_TOO_LARGE);
    assert_int_equal(claim_cpus(&books, &claim, -1, 1), TROUPE_INVALID);
    assert_int_equal(claim_cpus(&books, &claim, 0, 1), TROUPE_INVALID);
    assert_int_equal(claim.state, TRP_CLAIM_NONE);
    assert_null(trp_resources_admit(&books, 0));
    assert_int_equal(claim_cpus(&books, &claim, TRP_CPU, 4), TROUPE_OK);
    assert_ptr_equal(trp_resources_admit(&books, 0), &claim);
}

static void test_a_large_gang_is_not_overtaken(void **state)
{
    (void)state;
    trp_resources books;
    begin(&books, 4 * TRP_CPU);
    trp_claim running = {0}, large = {0}, small = {0};
    assert_int_equal(claim_cpus(&books, &running, TRP_CPU, 2), TROUPE_OK);
    assert_int_equal(claim_cpus(&books, &large, TRP_CPU, 4), TROUPE_OK);
    assert_int_equal(claim_cpus(&books, &small, TRP_CPU, 1), TROUPE_OK);
    assert_ptr_equal(trp_resources_admit(&books, 0), &running);
    assert_null(trp_resources_admit(&books, 0)); // `small` would fit, but came later.
    trp_resources_release(&books, &running);
    assert_ptr_equal(trp_resources_admit(&books, 0), &large);
    assert_null(trp_resources_admit(&books, 0));
    trp_resources_release(&books, &large);
    trp_resources_release(&books, &large); // Harmless.
    assert_ptr_equal(trp_resources_admit(&books, 0), &small);
    assert_int_equal(books.free.of[TRP_CPUS], 3 * TRP_CPU);
}

static void test_a_waiting_claim_can_leave_from_anywhere(void **state)
{
    (void)state;
    for (int leaver = 0; leaver < 3; leaver++) {
        trp_resources books;
        begin(&books, TRP_CPU);
        trp_claim claims[3] = {0}, late = {0};
        for (int i = 0; i < 3; i++)
            assert_int_equal(claim_cpus(&books, &claims[i], TRP_CPU, 1), TROUPE_OK);
        trp_resources_release(&books, &claims[leaver]);
        assert_int_equal(claim_cpus(&books, &late, TRP_CPU, 1), TROUPE_OK);
        for (int i = 0; i < 3; i++) {
            if (i == leaver)
                continue;
            assert_ptr_equal(trp_resources_admit(&books, 0), &claims[i]);
            assert_null(trp_resources_admit(&books, 0));
            trp_resources_release(&books, &claims[i]);
        }
        assert_ptr_equal(trp_resources_admit(&books, 0), &late);
    }
}

// Random claims and releases against a model that recounts everything each time.
static void test_the_accounts_balance(void **state)
{
    (void)state;
    enum { CLAIMS = 32, STEPS = 20000 };
    uint64_t seed = 7;
    trp_resources books;
    begin(&books, 8 * TRP_CPU);
    trp_claim claims[CLAIMS] = {0};
    uint64_t order[CLAIMS] = {0}, next_order = 1, last_admitted = 0;
    for (int step = 0; step < STEPS; step++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        int i = (int)(seed >> 40) % CLAIMS;
        if (claims[i].state == TRP_CLAIM_NONE) {
            int64_t each = 1 + (int64_t)(seed >> 33) % (2 * TRP_CPU);
            int members = 1 + (int)(seed >> 60) % 4;
            assert_int_equal(claim_cpus(&books, &claims[i], each, members), TROUPE_OK);
            order[i] = next_order++;
        } else {
            trp_resources_release(&books, &claims[i]);
        }
        for (trp_claim *claim; (claim = trp_resources_admit(&books, 0));) {
            assert_true(order[claim - claims] > last_admitted);
            last_admitted = order[claim - claims];
        }
        int64_t held = 0;
        uint64_t oldest = UINT64_MAX;
        for (int k = 0; k < CLAIMS; k++) {
            if (claims[k].state == TRP_CLAIM_HELD)
                held += claims[k].amounts.of[TRP_CPUS];
            if (claims[k].state == TRP_CLAIM_WAITING && order[k] < oldest)
                oldest = order[k];
        }
        assert_int_equal(held + books.free.of[TRP_CPUS], books.total.of[TRP_CPUS]);
        assert_true(books.free.of[TRP_CPUS] >= 0);
        for (int k = 0; k < CLAIMS; k++)
            if (claims[k].state == TRP_CLAIM_WAITING && order[k] == oldest)
                assert_true(claims[k].amounts.of[TRP_CPUS] > books.free.of[TRP_CPUS]);
    }
}

// ---- more than CPUs

static trp_claim claim_of(const trp_resources *books, double gpus, const char *custom)
{
    trp_claim claim = {0};
    assert_int_equal(trp_amount_count("gpus", gpus, &claim.amounts.of[TRP_GPUS]), TROUPE_OK);
    assert_int_equal(trp_resources_read(books, custom, &claim.amounts), TROUPE_OK);
    return claim;
}

static void test_gpus_are_given_by_number(void **state)
{
    (void)state;
    trp_resources books;
    trp_resources_init(&books, 4 * TRP_CPU, 3, 0);
    trp_claim quarter[5], two = claim_of(&books, 2, ""), most = claim_of(&books, 0.9, "");
    for (int i = 0; i < 4; i++) { // All on one, so that two stay whole.
        quarter[i] = claim_of(&books, 0.25, "");
        assert_int_equal(trp_resources_claim(&books, &quarter[i]), TROUPE_OK);
        assert_ptr_equal(trp_resources_admit(&books, 0), &quarter[i]);
        assert_int_equal(quarter[i].gpus, 1);
    }
    assert_int_equal(trp_resources_claim(&books, &two), TROUPE_OK);
    assert_ptr_equal(trp_resources_admit(&books, 0), &two);
    assert_int_equal(two.gpus, 6);
    trp_resources_release(&books, &quarter[1]);
    trp_resources_release(&books, &quarter[2]);
    assert_int_equal(trp_resources_claim(&books, &most), TROUPE_OK);
    assert_null(trp_resources_admit(&books, 0)); // Half of one is free.
    trp_resources_release(&books, &two);
    assert_ptr_equal(trp_resources_admit(&books, 0), &most);
    assert_int_equal(most.gpus, 2);
    // 0.6 are free on two GPUs together, and none has so much.
    trp_claim third = claim_of(&books, 1, ""), split = claim_of(&books, 0.6, "");
    assert_int_equal(trp_resources_claim(&books, &third), TROUPE_OK);
    assert_ptr_equal(trp_resources_admit(&books, 0), &third);
    assert_int_equal(trp_resources_claim(&books, &split), TROUPE_OK);
    assert_null(trp_resources_admit(&books, 0));
    assert_int_equal(books.free.of[TRP_GPUS], 6000);
    trp_claim wrong = claim_of(&books, 1.5, "");
    assert_int_equal(trp_resources_claim(&books, &wrong), TROUPE_INVALID);
    wrong = claim_of(&books, 4, "");
    assert_int_equal(trp_resources_claim(&books, &wrong), TROUPE_TOO_LARGE);
    assert_non_null(strstr(troupe_last_error()->text, "4 GPUs were asked for, and there are 3"));
}

static void test_others_pass_who_waits_for_something_else(void **state)
{
    (void)state;
    trp_resources books;
    char why[128];
    trp_resources_init(&books, 4 * TRP_CPU, 1, 1000);
    assert_int_equal(trp_resources_add(&books, "license=1, slot.a=2.5"), TROUPE_OK);
    trp_claim first = claim_of(&books, 0, "license=1"), second = claim_of(&books, 0, "license=0.5");
    trp_claim gpu = claim_of(&books, 1, ""), both = claim_of(&books, 0, "slot.a=1,license=0.1");
    trp_claim last = claim_of(&books, 0, "slot.a=2");
    trp_claim *all[] = {&first, &second, &gpu, &both, &last};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_int_equal(trp_resources_claim(&books, all[i]), TROUPE_OK);
    assert_ptr_equal(trp_resources_admit(&books, 0), &first);
    assert_ptr_equal(trp_resources_admit(&books, 0), &gpu);
    assert_null(
        trp_resources_admit(&books, 0)); // `last` would fit, but `both` waits for slots too.
    trp_resources_why(&books, &second, why, sizeof why);
    assert_string_equal(why, "0.5 license (0 of 1 are free)");
    trp_resources_why(&books, &last, why, sizeof why);
    assert_string_equal(why, "its turn behind an older claim");
    trp_resources_release(&books, &both);
    assert_ptr_equal(trp_resources_admit(&books, 0), &last);
    trp_resources_release(&books, &first);
    assert_ptr_equal(trp_resources_admit(&books, 0), &second);
}

static void test_texts_are_checked(void **state)
{
    (void)state;
    trp_resources books;
    trp_amounts amounts = {0};
    trp_resources_init(&books, TRP_CPU, 0, 0);
    const char *wrong[] = {"license",  "=1",      "a=",
                           "a=x",      "a=1;b=2", "a=-1",
                           "a=1,,b=1", "a b=1",   "0123456789012345678901234567890123=1",
                           "a=nan"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(trp_resources_add(&books, wrong[i]), TROUPE_INVALID);
    assert_int_equal(trp_resources_add(&books, "twice=1,twice=1"), TROUPE_INVALID);
    assert_int_equal(trp_resources_add(&books, NULL), TROUPE_OK);
    assert_int_equal(trp_resources_add(&books, ""), TROUPE_OK);
    assert_int_equal(trp_resources_read(&books, "unknown=1", &amounts), TROUPE_TOO_LARGE);
    assert_int_equal(trp_resources_read(&books, "unknown=0", &amounts), TROUPE_OK);
    for (int i = 0; i < 14; i++) {
        char text[16];
        snprintf(text, sizeof text, "r%d=1", i);
        assert_int_equal(trp_resources_add(&books, text), TROUPE_OK);
    }
    assert_int_equal(trp_resources_add(&books, "one.more=1"), TROUPE_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_fractions_exactly),
        cmocka_unit_test(test_tenths_fill_a_cpu),
        cmocka_unit_test(test_refuses_what_can_never_fit),
        cmocka_unit_test(test_a_large_gang_is_not_overtaken),
        cmocka_unit_test(test_a_waiting_claim_can_leave_from_anywhere),
        cmocka_unit_test(test_the_accounts_balance),
        cmocka_unit_test(test_gpus_are_given_by_number),
        cmocka_unit_test(test_others_pass_who_waits_for_something_else),
        cmocka_unit_test(test_texts_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
