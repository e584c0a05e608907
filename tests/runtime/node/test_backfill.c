// test_backfill.c: claims admitted before their turn, on a simulated clock: examples, and random
// histories against a model that knows no shortcuts.
// timeout: 120
#include "support.h"

#include <runtime/node/backfill.h>
#include <stdlib.h>
#include <string.h>

enum { KINDS = TRP_CUSTOM + 2, MOST = 14, HISTORIES = 10000, NEVER = 1 << 30, BESIDE = -1 };

static trp_resources books;

static trp_claim *claim_of(double cpus, int64_t limit_ms)
{
    trp_claim *claim = (trp_claim *)calloc(1, sizeof *claim);
    assert_non_null(claim);
    claim->amounts.of[TRP_CPUS] = (int64_t)(cpus * TRP_CPU);
    claim->limit_ms = limit_ms;
    assert_int_equal(trp_resources_claim(&books, claim), TROUPE_OK);
    return claim;
}

static void give_back(trp_claim *claim)
{
    trp_resources_release(&books, claim);
    free(claim);
}

static void test_a_short_claim_passes_the_head_that_it_does_not_delay(void **state)
{
    (void)state;
    trp_resources_init(&books, 4 * TRP_CPU, 0, 0);
    trp_claim *running = claim_of(3, 100);
    assert_ptr_equal(trp_resources_admit(&books, 1000), running);
    trp_claim *head = claim_of(4, 0), *late = claim_of(1, 41), *early = claim_of(1, 40);
    assert_ptr_equal(trp_resources_admit(&books, 1060), early); // Back at 1100, as `running` is.
    assert_null(trp_resources_admit(&books, 1060));
    give_back(running);
    assert_null(trp_resources_admit(&books, 1070)); // `late` fits, and would be back after `early`.
    give_back(early);
    assert_ptr_equal(trp_resources_admit(&books, 1080), head);
    give_back(head);
    assert_ptr_equal(trp_resources_admit(&books, 1080), late);
    give_back(late);
}

static void test_nothing_passes_where_a_limit_is_missing(void **state)
{
    (void)state;
    // Of what runs, all of it or a part; or of the one that would pass.
    const int64_t limits[][3] = {{0, 100, 10}, {100, 0, 10}, {100, 100, 0}};
    for (int i = 0; i < 3; i++) {
        trp_resources_init(&books, 4 * TRP_CPU, 0, 0);
        trp_claim *first = claim_of(2, limits[i][0]), *second = claim_of(1, limits[i][1]);
        assert_ptr_equal(trp_resources_admit(&books, 0), first);
        assert_ptr_equal(trp_resources_admit(&books, 0), second);
        trp_claim *head = claim_of(2, 0), *small = claim_of(1, limits[i][2]);
        assert_null(trp_resources_admit(&books, 0));
        give_back(second);
        assert_ptr_equal(trp_resources_admit(&books, 5), head);
        give_back(first);
        assert_ptr_equal(trp_resources_admit(&books, 5), small);
        give_back(head);
        give_back(small);
    }
}

// One that should have been given back may be at any moment.
static void test_nothing_passes_while_a_limit_is_exceeded(void **state)
{
    (void)state;
    trp_resources_init(&books, 4 * TRP_CPU, 0, 0);
    trp_claim *running = claim_of(3, 100);
    assert_ptr_equal(trp_resources_admit(&books, 0), running);
    trp_claim *head = claim_of(4, 100), *small = claim_of(1, 1);
    assert_null(trp_resources_admit(&books, 100));
    assert_null(trp_resources_admit(&books, 200));
    give_back(head);
    assert_ptr_equal(trp_resources_admit(&books, 200), small);
    give_back(small);
    give_back(running);
}

// A GPU in use is one piece: a half that is free does not start a claim for a whole one.
static void test_pieces_of_gpus_count(void **state)
{
    (void)state;
    trp_resources_init(&books, 8 * TRP_CPU, 2, 0);
    trp_claim halves[2] = {{.limit_ms = 50}, {.limit_ms = 90}}, head = {0},
              small = {.limit_ms = 50};
    for (int i = 0; i < 2; i++) {
        halves[i].amounts.of[TRP_GPUS] = (i == 0 ? 6 : 7) * TRP_CPU / 10;
        assert_int_equal(trp_resources_claim(&books, &halves[i]), TROUPE_OK);
        assert_ptr_equal(trp_resources_admit(&books, 0), &halves[i]);
    }
    head.amounts.of[TRP_GPUS] = 2 * TRP_CPU;
    small.amounts.of[TRP_GPUS] = TRP_CPU / 10 * 4;
    assert_int_equal(trp_resources_claim(&books, &head), TROUPE_OK);
    assert_int_equal(trp_resources_claim(&books, &small), TROUPE_OK);
    assert_ptr_equal(trp_resources_admit(&books, 40), &small); // Back at 90 as well.
    assert_true(small.gpus == halves[0].gpus);
    trp_resources_release(&books, &halves[0]);
    trp_resources_release(&books, &halves[1]);
    assert_null(trp_resources_admit(&books, 45));
    trp_resources_release(&books, &small);
    assert_ptr_equal(trp_resources_admit(&books, 46), &head);
    trp_resources_release(&books, &head);
}

// ---- random histories

// One claim as the model sees it: amounts in whole units, no parts of GPUs.
typedef struct one {
    trp_claim claim;
    int wants[KINDS]; // By resource; as the ledger numbers them.
    int arrives, takes, limit, starts, ends;
} one;

static struct {
    int totals[KINDS];
    one all[MOST];
    int count, order[MOST], started;
} now;

static bool model_shares(const one *a, const one *b)
{
    for (int i = 0; i < KINDS; i++)
        if (a->wants[i] > 0 && b->wants[i] > 0)
            return true;
    return false;
}

static bool is_held(const one *it)
{
    return it->claim.state == TRP_CLAIM_HELD;
}

// Whether there is room beside all that is held, or at a time to come if each is given back at its
// limit.
static bool model_fits(const one *it, int then_ms)
{
    for (int i = 0; i < KINDS; i++) {
        int used = 0;
        for (int k = 0; k < now.count; k++)
            if (is_held(&now.all[k]) &&
                (then_ms == BESIDE || now.all[k].starts + now.all[k].limit > then_ms))
                used += now.all[k].wants[i];
        if (it->wants[i] > 0 && used + it->wants[i] > now.totals[i])
            return false;
    }
    return true;
}

static bool model_knows(const one *it)
{
    for (int k = 0; k < now.count; k++)
        if (is_held(&now.all[k]) && model_shares(&now.all[k], it) && now.all[k].limit == 0)
            return false;
    return true;
}

// The first moment at which a waiting claim could be granted in its turn: each millisecond is
// tried.
static int model_due(int index, int now_ms)
{
    const one *it = &now.all[index];
    int due = now_ms;
    for (int k = 0; k < index; k++)
        if (now.all[k].claim.state == TRP_CLAIM_WAITING && model_shares(&now.all[k], it)) {
            int before = model_due(k, now_ms);
            due = before > due ? before : due;
        }
    if (model_knows(it))
        while (!model_fits(it, due))
            due++;
    return due;
}

// Who is granted next: -1: nobody.
static int model_next(int now_ms, bool backfill)
{
    for (int pass = 0; pass < (backfill ? 2 : 1); pass++)
        for (int k = 0; k < now.count; k++) {
            const one *it = &now.all[k];
            int first = NEVER;
            if (it->claim.state != TRP_CLAIM_WAITING || !model_fits(it, BESIDE))
                continue;
            for (int older = 0; older < k; older++)
                if (now.all[older].claim.state == TRP_CLAIM_WAITING &&
                    model_shares(&now.all[older], it)) {
                    int due = pass == 0 ? now_ms : model_due(older, now_ms);
                    first = due < first ? due : first;
                }
            if (pass == 0 ? first == NEVER : it->limit > 0 && now_ms + it->limit <= first)
                return k;
        }
    return -1;
}

static void make_history(unsigned *seed, bool exact, bool all_limited)
{
    trp_resources_init(&books, 0, 0, 0);
    memset(&now, 0, sizeof now);
    assert_int_equal(trp_resources_add(&books, "a=0,b=0"), TROUPE_OK);
    int kinds = 1 + rand_r(seed) % KINDS, at = 0;
    for (int i = 0; i < KINDS; i++) {
        now.totals[i] = i < kinds ? 1 + rand_r(seed) % 6 : 0;
        books.total.of[i] = books.free.of[i] = (int64_t)now.totals[i] * TRP_CPU;
        for (int k = 0; i == TRP_GPUS && k < now.totals[i]; k++)
            books.gpu_free[k] = TRP_CPU;
    }
    now.count = 2 + rand_r(seed) % (MOST - 1);
    for (int k = 0; k < now.count; k++) {
        one *it = &now.all[k];
        at += rand_r(seed) % 6;
        it->arrives = at;
        it->takes = 1 + rand_r(seed) % 20;
        it->limit = exact ? it->takes : it->takes + rand_r(seed) % 12 - (all_limited ? 0 : 2);
        if (it->limit < 1 || (!all_limited && rand_r(seed) % 8 == 0))
            it->limit = all_limited ? it->takes : 0;
        int wanted = rand_r(seed) % kinds;
        it->wants[wanted] = 1 + rand_r(seed) % now.totals[wanted];
        for (int i = 0; i < kinds; i++)
            if (rand_r(seed) % 3 == 0)
                it->wants[i] = 1 + rand_r(seed) % now.totals[i];
        for (int i = 0; i < KINDS; i++)
            it->claim.amounts.of[i] = (int64_t)it->wants[i] * TRP_CPU;
        it->claim.limit_ms = it->limit;
        it->starts = it->ends = NEVER;
    }
}

static void check_sums(void)
{
    for (int i = 0; i < KINDS; i++) {
        int used = 0;
        for (int k = 0; k < now.count; k++)
            used += is_held(&now.all[k]) ? now.all[k].wants[i] : 0;
        assert_true(used <= now.totals[i]);
        assert_true(books.free.of[i] == (int64_t)(now.totals[i] - used) * TRP_CPU);
    }
}

// Who is granted what at this moment, by the ledger or (without back-filling) by the model alone.
static void grant_all(int now_ms, bool backfill)
{
    for (;;) {
        int expected = model_next(now_ms, backfill);
        trp_claim *granted = NULL;
        if (backfill)
            granted = trp_resources_admit(&books, now_ms);
        else if (expected >= 0)
            granted = &now.all[expected].claim, granted->state = TRP_CLAIM_HELD;
        assert_ptr_equal(granted, expected < 0 ? NULL : &now.all[expected].claim);
        if (granted == NULL)
            return;
        now.all[expected].starts = now_ms;
        now.all[expected].ends = now_ms + now.all[expected].takes;
        now.started++;
    }
}

// Runs the history to its end. `promises`: when the head of the queue could start at the latest,
// by the limits, as computed when it became the head; NULL: of no interest.
static void run_history(bool backfill, bool promises)
{
    int promised[MOST];
    memset(promised, 0, sizeof promised);
    for (int at = 0; now.started < now.count || at < 1; at++) {
        assert_true(at < 10000);
        for (int k = 0; k < now.count; k++)
            if (is_held(&now.all[k]) && now.all[k].ends == at) {
                if (backfill)
                    trp_resources_release(&books, &now.all[k].claim);
                now.all[k].claim.state = TRP_CLAIM_NONE;
            }
        for (int k = 0; k < now.count; k++)
            if (now.all[k].arrives == at) {
                if (backfill)
                    assert_int_equal(trp_resources_claim(&books, &now.all[k].claim), TROUPE_OK);
                now.all[k].claim.state = TRP_CLAIM_WAITING;
            }
        grant_all(at, backfill);
        if (backfill)
            check_sums();
        int head = 0;
        while (head < now.count && now.all[head].claim.state != TRP_CLAIM_WAITING)
            head++;
        if (promises && head < now.count && promised[head] == 0)
            promised[head] = model_due(head, at);
    }
    for (int k = 0; promises && k < now.count; k++)
        if (promised[k] > 0 && now.all[k].starts > promised[k])
            fail_msg("claim %d began at %d and could have begun at %d", k, now.all[k].starts,
                     promised[k]);
}

static int backfilled(void)
{
    int count = 0;
    for (int k = 0; k < now.count; k++)
        for (int older = 0; older < k; older++)
            if (model_shares(&now.all[older], &now.all[k]) &&
                now.all[k].starts < now.all[older].starts) {
                count++;
                break;
            }
    return count;
}

// With limits missing and exceeded, too: exactly those are granted that the model says.
static void test_the_ledger_grants_what_the_model_says(void **state)
{
    (void)state;
    unsigned seed = 20261124;
    int passed = 0;
    print_message("seed %u\n", seed);
    for (int i = 0; i < HISTORIES; i++) {
        make_history(&seed, false, i % 2 == 0);
        run_history(true, i % 2 == 0); // The head has what it was promised, where limits are kept.
        passed += backfilled();
    }
    print_message("%d were admitted before their turn\n", passed);
    assert_true(passed > HISTORIES / 4); // Else nothing was tested.
}

// Where each claim is held exactly as long as it says, none at all begins later than it would
// without back-filling.
static void test_nobody_is_delayed(void **state)
{
    (void)state;
    unsigned seed = 14092026;
    int passed = 0, sooner = 0;
    print_message("seed %u\n", seed);
    for (int i = 0; i < HISTORIES; i++) {
        unsigned same = seed;
        int starts[MOST];
        make_history(&seed, true, true);
        run_history(false, false);
        for (int k = 0; k < now.count; k++)
            starts[k] = now.all[k].starts;
        make_history(&same, true, true);
        run_history(true, true);
        for (int k = 0; k < now.count; k++) {
            sooner += now.all[k].starts < starts[k];
            if (now.all[k].starts > starts[k])
                fail_msg("history %d: claim %d began at %d instead of %d", i, k, now.all[k].starts,
                         starts[k]);
        }
        passed += backfilled();
    }
    print_message("%d were admitted before their turn, %d began sooner\n", passed, sooner);
    assert_true(passed > HISTORIES / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_short_claim_passes_the_head_that_it_does_not_delay),
        cmocka_unit_test(test_nothing_passes_where_a_limit_is_missing),
        cmocka_unit_test(test_nothing_passes_while_a_limit_is_exceeded),
        cmocka_unit_test(test_pieces_of_gpus_count),
        cmocka_unit_test(test_the_ledger_grants_what_the_model_says),
        cmocka_unit_test(test_nobody_is_delayed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
