// test_resizing.c: ranks that are shared evenly, by hand and simulated.
#include "simulate.h"

typedef struct watched {
    int cpus, most;
    long resized;
} watched;

// The sum of what trials that run hold never exceeds what there is, as far as each has its one.
static void within_cpus(simulation *self, const simulated_call *call)
{
    watched *of = self->user;
    if (call->verdict.act != TROUPE_ACT_RESIZE)
        return;
    int held = call->verdict.ranks, live = self->trials;
    for (int i = 0; i < self->count; i++) {
        if (i != call->trial && self->all[i].state == SIMULATED_RUNNING)
            held += self->all[i].ranks;
        live -= self->all[i].state >= SIMULATED_COMPLETE;
    }
    assert_true(held <= of->cpus || call->verdict.ranks == 1);
    int share = (of->cpus + live - 1) / live;
    share = of->most > 0 && share > of->most ? of->most : share;
    assert_true(call->verdict.ranks >= 1 && call->verdict.ranks <= (share < 1 ? 1 : share));
    assert_int_not_equal(call->verdict.ranks, self->all[call->trial].ranks);
    of->resized++;
}

static void test_simulated_shares(void **state)
{
    (void)state;
    long resized = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        watched of = {.cpus = 1 + (int)(seed % 16), .most = seed % 5 == 0 ? 3 : 0};
        simulation *self = simulation_new(seed);
        self->workers = 1 + (int)(seed % (uint64_t)of.cpus);
        self->trials = 1 + (int)(seed % 30);
        self->fails = seed % 2 == 0 ? 0.05 : 0;
        self->epochs = 14;
        self->starved = seed % 3 == 0;
        self->watch = within_cpus;
        self->user = &of;
        troupe_scheduler *made[2];
        for (int i = 0; i < 2; i++) {
            troupe_scheduler *inner = seed % 3 == 0   ? NULL
                                      : seed % 3 == 1 ? troupe_hyperband(.limit = 9)
                                                      : troupe_asha(.reduction = 2, .limit = 12);
            made[i] = troupe_resizing(inner, .cpus = of.cpus, .max_ranks = of.most);
        }
        self->scheduler = made[0];
        simulate(self);
        simulate_again(self, made[1]);
        troupe_scheduler_free(&made[0]);
        troupe_scheduler_free(&made[1]);
        simulate_free(self);
        resized += of.resized;
    }
    assert_true(resized > 500);
}

static int ranks_after(troupe_scheduler *scheduler, int trial, int report, int ranks)
{
    troupe_progress progress = {
        .size = sizeof progress, .trial = trial, .report = report, .ranks = ranks};
    troupe_verdict verdict = {.size = sizeof verdict, .ranks = ranks};
    assert_int_equal(scheduler->decide(scheduler, &progress, &verdict), TROUPE_OK);
    assert_int_equal(verdict.act, verdict.ranks == ranks ? TROUPE_ACT_GO_ON : TROUPE_ACT_RESIZE);
    return verdict.ranks;
}

static void test_by_hand(void **state)
{
    (void)state;
    const double x[1] = {0};
    troupe_scheduler *shares = troupe_resizing(NULL, .cpus = 10);
    assert_string_equal(shares->describe, "FIFO, resizing (cpus 10)");
    for (int i = 0; i < 4; i++)
        assert_int_equal(shares->added(shares, i, x), TROUPE_OK);
    // Four began with two each: 10 / 4 is 3 for two of them.
    assert_int_equal(ranks_after(shares, 0, 1, 2), 3);
    assert_int_equal(ranks_after(shares, 1, 1, 2), 3);
    assert_int_equal(ranks_after(shares, 2, 1, 2), 2);
    assert_int_equal(ranks_after(shares, 0, 2, 3), 3);
    assert_int_equal(shares->ended(shares, 1, TROUPE_ENDING_COMPLETE), TROUPE_OK);
    assert_int_equal(ranks_after(shares, 2, 2, 2), 4); // 10 / 3 is 4 for one of them.
    assert_int_equal(ranks_after(shares, 0, 3, 3), 4); // One was free still.
    assert_int_equal(ranks_after(shares, 3, 1, 2), 2);
    for (int i = 4; i < 7; i++)
        assert_int_equal(shares->added(shares, i, x), TROUPE_OK);
    assert_int_equal(ranks_after(shares, 0, 4, 4), 2); // Six of them: they give back.
    troupe_scheduler_free(&shares);
}

static void test_what_is_wrong_is_refused(void **state)
{
    (void)state;
    assert_refused(troupe_resizing(troupe_asha(.grace = 1), .max_ranks = 3), TROUPE_INVALID,
                   "resizing: cpus is 0, must be at least 1");
    assert_refused(troupe_resizing(NULL, .cpus = 3, .max_ranks = -1), TROUPE_INVALID,
                   "resizing: max_ranks is -1, must be at least 0");
    assert_refused(troupe_resizing(troupe_median(.grace = -1), .cpus = 1), TROUPE_INVALID,
                   "median: grace is -1, must be at least 1");
    assert_refused(troupe_resizing_with(NULL, NULL), TROUPE_INVALID,
                   "resizing: cpus is 0, must be at least 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_simulated_shares),
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_what_is_wrong_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
