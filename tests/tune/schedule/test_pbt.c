// test_pbt.c: populations: who clones whom against a sort, in both forms, and what stalls nothing.
#include "simulate.h"

#include <stdio.h>
#include <tune/space/dims.h>

typedef struct watched {
    int interval, first;
    double quantile;
    bool synchronous;
    double last[SIMULATE_TRIALS]; // Score at the last interval; INFINITY: NaN; -1: none.
    bool worst[SIMULATE_TRIALS], best[SIMULATE_TRIALS]; // When it paused, or at the barrier.
    int clones, ready; // Ready: paused trials that the barrier has let go.
    bool others;       // One that does not clone has gone on since.
} watched;

static bool is_due(const watched *of, int report)
{
    return report >= of->first && (report - of->first) % of->interval == 0;
}

static bool lives(const simulation *self, int trial)
{
    return self->all[trial].state == SIMULATED_RUNNING ||
           self->all[trial].state == SIMULATED_PAUSED;
}

// Trials that live and were judged, and how many of them are strictly before that one.
static int place_of(const simulation *self, const watched *of, int trial, int *count)
{
    int before = 0;
    *count = 0;
    for (int i = 0; i < self->count; i++) {
        if (!lives(self, i) || of->last[i] < 0)
            continue;
        ++*count;
        before += of->last[i] < of->last[trial] || (of->last[i] == of->last[trial] && i < trial);
    }
    return before;
}

static int quantile_of(const watched *of, int count)
{
    int size = (int)ceil(count * of->quantile);
    return size > count / 2 ? count / 2 : size;
}

static bool is_worst(const simulation *self, const watched *of, int trial)
{
    int count, place = place_of(self, of, trial, &count), size = quantile_of(of, count);
    return size > 0 && (place >= count - size || isinf(of->last[trial]));
}

static int numbers_of(const simulation *self, const watched *of)
{
    int numbers = 0;
    for (int i = 0; i < self->count; i++)
        numbers += lives(self, i) && of->last[i] >= 0 && !isinf(of->last[i]);
    return numbers;
}

static void assert_clone(const simulation *self, watched *of, const simulated_call *call)
{
    int source = call->verdict.source, count;
    assert_in_range(source, 0, self->count - 1);
    int place = place_of(self, of, source, &count);
    assert_true(place < quantile_of(of, count));
    assert_false(isinf(of->last[source]));
    for (int d = 0; d < SIMULATE_DIMS; d++) {
        double moved = call->chosen[d];
        assert_true(trp_dim_snap(&simulate_dims[d], moved) == moved);
    }
    of->clones++;
}

// Asynchronous: each verdict as the rule says at that moment.
static void watch_asynchronous(simulation *self, const simulated_call *call)
{
    watched *of = self->user;
    if (call->kind == CALL_ADDED)
        of->last[call->trial] = -1;
    if (call->kind == CALL_DECIDE) {
        int report = call->progress.report;
        double score = call->progress.score;
        if (!is_due(of, report)) {
            assert_int_equal(call->verdict.act, TROUPE_ACT_GO_ON);
            return;
        }
        of->last[call->trial] = isnan(score) ? (double)INFINITY : score;
        bool worst = is_worst(self, of, call->trial), others = numbers_of(self, of) > 0;
        of->worst[call->trial] = worst;
        if (call->verdict.act == TROUPE_ACT_PAUSE)
            return; // What becomes of it is said when it goes on.
        assert_int_equal(call->verdict.act, worst && others ? TROUPE_ACT_CLONE : TROUPE_ACT_GO_ON);
    }
    if (call->kind == CALL_NEXT && of->worst[call->trial]) {
        // It clones one of those that are the best now, which may be itself, or nobody.
        int count, place = place_of(self, of, call->trial, &count), size = quantile_of(of, count);
        assert_true(call->verdict.act == TROUPE_ACT_CLONE || place < size || size == 0 ||
                    numbers_of(self, of) == 0);
    } else if (call->kind == CALL_NEXT) {
        assert_int_equal(call->verdict.act, TROUPE_ACT_GO_ON);
    }
    if (call->verdict.act == TROUPE_ACT_CLONE)
        assert_clone(self, of, call);
}

static void test_the_worst_clone_the_best(void **state)
{
    (void)state;
    static watched of;
    int clones = 0, pauses = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        trp_random random;
        trp_random_seed(&random, seed, 2);
        of = (watched){.interval = 1 + (int)trp_random_below(&random, 4), .quantile = 0.25};
        int burn_in = (int)trp_random_below(&random, 6);
        of.first = burn_in > of.interval ? burn_in : of.interval;
        of.quantile = seed % 3 == 0 ? 0.5 : seed % 3 == 1 ? 0.25 : 0.1;
        simulation *self = simulation_new(seed);
        self->trials = 1 + (int)trp_random_below(&random, 24);
        self->workers = seed % 2 == 0 ? self->trials : 1 + (int)trp_random_below(&random, 6);
        self->unknown = seed % 7 == 0;
        self->epochs = 15;
        self->fails = seed % 4 == 0 ? 0.02 : 0;
        self->nans = seed % 5 == 0 ? 0.1 : 0;
        self->ties = 0.3;
        self->starved = seed % 3 == 0;
        self->watch = watch_asynchronous;
        self->user = &of;
        troupe_scheduler *made[2];
        for (int i = 0; i < 2; i++)
            made[i] =
                troupe_pbt(.interval = of.interval, .burn_in = burn_in, .quantile = of.quantile);
        self->scheduler = made[0];
        simulate(self);
        clones += of.clones;
        for (int i = 0; i < self->count; i++)
            pauses += self->all[i].pauses;
        if (self->workers == self->trials && self->unknown)
            for (int i = 0; i < self->count; i++)
                assert_int_equal(self->all[i].pauses, 0);
        simulate_again(self, made[1]);
        troupe_scheduler_free(&made[0]);
        troupe_scheduler_free(&made[1]);
        simulate_free(self);
    }
    assert_true(clones > 2000 && pauses > 2000);
}

// Where there are more trials than workers, all take turns: none is far ahead.
static void test_a_population_shares_its_workers(void **state)
{
    (void)state;
    simulation *self = simulation_new(5);
    self->trials = 12;
    self->workers = 3;
    self->scheduler = troupe_pbt(.interval = 2, .limit = 20);
    assert_int_equal(self->scheduler->limit, 20);
    simulate(self);
    int most[SIMULATE_TRIALS] = {0}, count = 0;
    for (size_t i = 0; i < self->call_count; i++) {
        const simulated_call *call = &self->calls[i];
        count += call->kind == CALL_ADDED;
        if (call->kind != CALL_DECIDE)
            continue;
        most[call->trial] = call->progress.report;
        for (int k = 0; k < 12; k++)
            assert_true(call->progress.report <= 2 || count == 12);
        for (int k = 0; k < 12; k++)
            assert_true(most[call->trial] <= most[k] + 4);
    }
    for (int i = 0; i < 12; i++)
        assert_int_equal(self->all[i].reports, 20);
    troupe_scheduler_free(&self->scheduler);
    simulate_free(self);
}

// Synchronous: at each barrier, which is when nothing runs, all are judged by the same scores.
static void watch_synchronous(simulation *self, const simulated_call *call)
{
    watched *of = self->user;
    if (call->kind == CALL_ADDED)
        of->last[call->trial] = -1;
    if (call->kind == CALL_DECIDE) {
        bool due = is_due(of, call->progress.report);
        assert_int_equal(call->verdict.act, due ? TROUPE_ACT_PAUSE : TROUPE_ACT_GO_ON);
        double score = call->progress.score;
        if (due)
            of->last[call->trial] = isnan(score) ? (double)INFINITY : score;
    }
    if (call->kind != CALL_NEXT)
        return;
    if (of->ready == 0) { // The first to go on: everybody is here.
        assert_int_equal(self->running, 0);
        of->others = false;
        for (int i = 0; i < self->count; i++) {
            int count, place = place_of(self, of, i, &count), size = quantile_of(of, count);
            int numbers = numbers_of(self, of);
            of->best[i] = lives(self, i) && place < size && !isinf(of->last[i]);
            of->worst[i] = lives(self, i) && is_worst(self, of, i) && size > 0 && numbers > 0;
            of->ready += lives(self, i);
        }
    }
    of->ready--;
    bool clones = call->verdict.act == TROUPE_ACT_CLONE;
    assert_true(clones || call->verdict.act == TROUPE_ACT_GO_ON);
    assert_int_equal(clones, of->worst[call->trial]);
    if (!clones) {
        of->others = true;
        return;
    }
    assert_true(of->best[call->verdict.source]);
    assert_false(of->others); // Before what they clone goes on.
    of->clones++;
}

static void test_a_synchronous_population_waits_for_all(void **state)
{
    (void)state;
    static watched of;
    int clones = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        trp_random random;
        trp_random_seed(&random, seed, 2);
        of = (watched){.interval = 1 + (int)trp_random_below(&random, 4), .quantile = 0.25};
        of.first = of.interval;
        simulation *self = simulation_new(seed);
        self->trials = 1 + (int)trp_random_below(&random, 24);
        self->workers = 1 + (int)trp_random_below(&random, 30);
        self->epochs = 14;
        self->unknown = seed % 7 == 0 && self->workers >= self->trials;
        self->fails = seed % 4 == 0 ? 0.02 : 0;
        self->nans = seed % 5 == 0 ? 0.1 : 0;
        self->starved = seed % 3 == 0;
        self->watch = watch_synchronous;
        self->user = &of;
        troupe_scheduler *made[2];
        for (int i = 0; i < 2; i++)
            made[i] = troupe_pbt(.interval = of.interval, .synchronous = true);
        self->scheduler = made[0];
        simulate(self);
        clones += of.clones;
        simulate_again(self, made[1]);
        troupe_scheduler_free(&made[0]);
        troupe_scheduler_free(&made[1]);
        simulate_free(self);
    }
    assert_true(clones > 1000);
}

// The searcher has no more points than were hoped for.
static void test_fewer_trials_than_were_told(void **state)
{
    (void)state;
    for (int synchronous = 0; synchronous < 2; synchronous++) {
        troupe_scheduler *pbt =
            troupe_pbt(.interval = 1, .limit = 3, .synchronous = synchronous == 1);
        troupe_problem problem = {.size = sizeof problem,
                                  .dims = simulate_dims,
                                  .dim_count = SIMULATE_DIMS,
                                  .objectives = 1,
                                  .trials = 10};
        const double x[SIMULATE_DIMS] = {0.1, 5, 2};
        double room[SIMULATE_DIMS];
        int trial;
        troupe_verdict verdict = {.size = sizeof verdict, .x = room};
        assert_int_equal(pbt->begin(pbt, &problem), TROUPE_OK);
        for (int i = 0; i < 3; i++)
            assert_int_equal(pbt->added(pbt, i, x), TROUPE_OK);
        for (int report = 1; report < 3; report++) {
            for (int i = 0; i < 3; i++) {
                troupe_progress progress = {
                    .size = sizeof progress, .trial = i, .report = report, .score = i, .x = x};
                verdict.act = TROUPE_ACT_GO_ON;
                assert_int_equal(pbt->decide(pbt, &progress, &verdict), TROUPE_OK);
                if (report == 1)
                    assert_int_equal(verdict.act, TROUPE_ACT_PAUSE);
            }
            for (int i = 0; i < 3 && (report == 1 || synchronous == 1); i++) {
                if (report == 1 && i == 0) {
                    assert_int_equal(pbt->next(pbt, true, &trial, &verdict), TROUPE_OK);
                    assert_int_equal(trial, -1);
                }
                assert_int_equal(pbt->next(pbt, false, &trial, &verdict), TROUPE_OK);
                assert_in_range(trial, 0, 2);
            }
            assert_int_equal(pbt->next(pbt, false, &trial, &verdict), TROUPE_BUSY);
        }
        troupe_scheduler_free(&pbt);
    }
}

// Those that the barrier has let go may end by other hands before there is room.
static void test_ready_ones_may_end(void **state)
{
    (void)state;
    troupe_scheduler *pbt = troupe_pbt(.interval = 1, .synchronous = true);
    troupe_problem problem = {.size = sizeof problem,
                              .dims = simulate_dims,
                              .dim_count = SIMULATE_DIMS,
                              .objectives = 1,
                              .trials = 4};
    const double x[SIMULATE_DIMS] = {0.1, 5, 2};
    double room[SIMULATE_DIMS];
    int trial;
    troupe_verdict verdict = {.size = sizeof verdict, .x = room};
    assert_int_equal(pbt->begin(pbt, &problem), TROUPE_OK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pbt->added(pbt, i, x), TROUPE_OK);
    for (int i = 0; i < 4; i++) {
        troupe_progress progress = {
            .size = sizeof progress, .trial = i, .report = 1, .score = i, .x = x};
        assert_int_equal(pbt->decide(pbt, &progress, &verdict), TROUPE_OK);
    }
    verdict.act = TROUPE_ACT_GO_ON;
    assert_int_equal(pbt->next(pbt, false, &trial, &verdict), TROUPE_OK);
    assert_int_equal(trial, 3);
    assert_int_equal(verdict.act, TROUPE_ACT_CLONE);
    assert_int_equal(verdict.source, 0);
    assert_int_equal(pbt->ended(pbt, 1, TROUPE_ENDING_FAILED), TROUPE_OK);
    assert_int_equal(pbt->ended(pbt, 0, TROUPE_ENDING_FAILED), TROUPE_OK);
    verdict.act = TROUPE_ACT_GO_ON;
    assert_int_equal(pbt->next(pbt, false, &trial, &verdict), TROUPE_OK);
    assert_int_equal(trial, 2);
    assert_int_equal(verdict.act, TROUPE_ACT_GO_ON);
    assert_int_equal(pbt->next(pbt, false, &trial, &verdict), TROUPE_BUSY);
    assert_int_equal(pbt->ended(pbt, 2, TROUPE_ENDING_COMPLETE), TROUPE_OK);
    assert_int_equal(pbt->ended(pbt, 3, TROUPE_ENDING_COMPLETE), TROUPE_OK);
    assert_int_equal(pbt->next(pbt, false, &trial, &verdict), TROUPE_END);
    troupe_scheduler_free(&pbt);
}

// Each of the best quantile is cloned about as often as any other.
static void test_sources_are_drawn_alike(void **state)
{
    (void)state;
    troupe_problem problem = {.size = sizeof problem,
                              .dims = simulate_dims,
                              .dim_count = SIMULATE_DIMS,
                              .objectives = 1,
                              .seed = 3};
    troupe_scheduler *pbt = troupe_pbt(.interval = 1);
    assert_int_equal(pbt->begin(pbt, &problem), TROUPE_OK);
    const double x[SIMULATE_DIMS] = {0.1, 5, 2};
    double room[SIMULATE_DIMS];
    enum { TRIALS = 16, ROUNDS = 5000 };
    int counts[TRIALS] = {0}, total = 0;
    for (int i = 0; i < TRIALS; i++)
        assert_int_equal(pbt->added(pbt, i, x), TROUPE_OK);
    for (int report = 1; report <= ROUNDS; report++) {
        for (int i = 0; i < TRIALS; i++) {
            troupe_progress progress = {
                .size = sizeof progress, .trial = i, .report = report, .score = i, .x = x};
            troupe_verdict verdict = {.size = sizeof verdict, .x = room};
            assert_int_equal(pbt->decide(pbt, &progress, &verdict), TROUPE_OK);
            if (verdict.act != TROUPE_ACT_CLONE || report == 1)
                continue; // In the first round not all have a score.
            assert_in_range(i, 12, 15);
            counts[verdict.source]++;
            total++;
        }
    }
    assert_int_equal(total, (ROUNDS - 1) * 4);
    for (int i = 0; i < TRIALS; i++) {
        double expected = i < 4 ? total / 4.0 : 0;
        assert_true(fabs(counts[i] - expected) <= 5 * sqrt(total * 0.25 * 0.75));
        assert_true(i < 4 || counts[i] == 0);
    }
    troupe_scheduler_free(&pbt);
}

static void test_what_is_wrong_is_refused(void **state)
{
    (void)state;
    assert_refused(troupe_pbt(.interval = -1), TROUPE_INVALID,
                   "pbt: interval is -1, must be at least 1");
    assert_refused(troupe_pbt(.burn_in = -1), TROUPE_INVALID,
                   "pbt: burn_in is -1, must be at least 0");
    assert_refused(troupe_pbt(.quantile = 0.6), TROUPE_INVALID,
                   "pbt: quantile is 0.6, must be above 0 and at most 0.5");
    assert_refused(troupe_pbt(.resample = 2), TROUPE_INVALID,
                   "pbt: resample is 2, must be above 0 and at most 1");
    assert_refused(troupe_pbt(.up = 0.9), TROUPE_INVALID, "pbt: up is 0.9, must be above 1");
    assert_refused(troupe_pbt(.down = 1.5), TROUPE_INVALID,
                   "pbt: down is 1.5, must be above 0 and below 1");
    assert_refused(troupe_pbt(.limit = -1), TROUPE_INVALID, "pbt: limit is -1, must be at least 1");

    troupe_problem problem = {
        .size = sizeof problem, .dims = simulate_dims, .dim_count = SIMULATE_DIMS, .objectives = 1};
    troupe_scheduler *pbt = troupe_pbt(.mutate = "rate, depth");
    assert_string_equal(pbt->describe, "PBT (interval 1, quantile 0.25, resample 0.25, up 1.2, "
                                       "down 0.8, of rate, depth)");
    troupe_progress progress = {.size = sizeof progress, .report = 1};
    troupe_verdict verdict = {.size = sizeof verdict};
    assert_int_equal(pbt->decide(pbt, &progress, &verdict), TROUPE_INVALID);
    assert_string_equal(troupe_last_error()->text, "pbt: it was not told what is searched (begin)");
    assert_int_equal(pbt->begin(pbt, &problem), TROUPE_INVALID);
    assert_string_equal(troupe_last_error()->text,
                        "pbt: mutate names \"depth\", which the space lacks");
    troupe_scheduler_free(&pbt);
    pbt = troupe_pbt(.mutate = "rate");
    problem.dim_count = 0;
    assert_int_equal(pbt->begin(pbt, &problem), TROUPE_INVALID);
    assert_string_equal(troupe_last_error()->text, "pbt: the space has no row that varies");
    troupe_scheduler_free(&pbt);
    for (int left = 0; left < 5; left++) {
        trp_memory_fail_after(left);
        pbt = troupe_pbt(.mutate = "rate", .log = "/tmp/log");
        trp_memory_fail_after(-1);
        assert_int_equal(pbt->refusal, left < 4 ? TROUPE_NO_MEMORY : TROUPE_OK);
        troupe_scheduler_free(&pbt);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_worst_clone_the_best),
        cmocka_unit_test(test_a_population_shares_its_workers),
        cmocka_unit_test(test_a_synchronous_population_waits_for_all),
        cmocka_unit_test(test_fewer_trials_than_were_told),
        cmocka_unit_test(test_ready_ones_may_end),
        cmocka_unit_test(test_sources_are_drawn_alike),
        cmocka_unit_test(test_what_is_wrong_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
