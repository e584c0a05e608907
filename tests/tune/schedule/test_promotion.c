// test_promotion.c: ASHA that promotes, and its brackets, against the paper's algorithm by sorting.
#include "simulate.h"

// ---- algorithm 2, as it is written down

typedef struct entry {
    int trial;
    double score;
    bool promoted, here; // Promoted from here already; waits here.
} entry;

typedef struct reference {
    int grace, reduction, limit;
    entry rungs[16][SIMULATE_TRIALS];
    size_t counts[16];
    int promotions;
} reference;

static int by_score(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? -1 : 1;
    return x->trial - y->trial;
}

static int level(const reference *of, int rung)
{
    int at = of->grace;
    for (int i = 0; i < rung; i++)
        at *= of->reduction;
    return at;
}

// The trial that get_job promotes; -1: none. *rung: from which.
static int get_job(reference *of, int *rung)
{
    for (*rung = 15; *rung >= 0; (*rung)--) {
        size_t count = of->counts[*rung];
        entry *entries = of->rungs[*rung];
        qsort(entries, count, sizeof *entries, by_score);
        for (size_t i = 0; i < count / (size_t)of->reduction; i++) {
            if (!entries[i].promoted && entries[i].here)
                return entries[i].trial;
        }
    }
    return -1;
}

static entry *entry_of(reference *of, int rung, int trial)
{
    for (size_t i = 0; i < of->counts[rung]; i++) {
        if (of->rungs[rung][i].trial == trial)
            return &of->rungs[rung][i];
    }
    fail();
    return NULL;
}

static void promote(reference *of, int rung, int trial)
{
    entry *at = entry_of(of, rung, trial);
    assert_true(at->here && !at->promoted);
    at->promoted = true;
    at->here = false;
    of->promotions++;
}

static void compare(simulation *self, const simulated_call *call)
{
    reference *of = self->user;
    int rung;
    if (call->kind == CALL_NEXT) {
        int expected = get_job(of, &rung);
        if (expected >= 0) {
            assert_int_equal(call->status, TROUPE_OK);
            assert_int_equal(call->trial, expected);
            promote(of, rung, expected);
        } else { // What waits is given up only when nothing else can happen.
            assert_int_equal(call->status, TROUPE_STOPPED);
            assert_false(call->fresh);
            assert_int_equal(self->running, 0);
        }
    }
    if (call->kind == CALL_ADDED)
        assert_int_equal(get_job(of, &rung), -1);
    if (call->kind != CALL_DECIDE)
        return;
    int report = call->progress.report;
    troupe_act expected = report >= of->limit ? TROUPE_ACT_END : TROUPE_ACT_GO_ON;
    for (int i = 0; i < 15 && expected == TROUPE_ACT_GO_ON && level(of, i) < of->limit; i++) {
        if (level(of, i) != report)
            continue;
        bool number = !isnan(call->progress.score);
        double score = number ? call->progress.score : (double)INFINITY;
        of->rungs[i][of->counts[i]++] = (entry){call->trial, score, false, number};
        int job = get_job(of, &rung);
        if (!number) {
            expected = TROUPE_ACT_STOP;
        } else if (job == call->trial && rung == i) {
            promote(of, i, job); // The worker that it leaves would be given it at once.
            break;
        } else {
            expected = TROUPE_ACT_PAUSE;
        }
    }
    assert_int_equal(call->verdict.act, expected);
}

static void test_it_promotes_as_the_paper(void **state)
{
    (void)state;
    static reference of;
    int promotions = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        trp_random random;
        trp_random_seed(&random, seed, 7);
        of = (reference){.grace = 1 + (int)trp_random_below(&random, 3),
                         .reduction = 2 + (int)trp_random_below(&random, 3)};
        of.limit = of.grace + (int)trp_random_below(&random, 30);
        simulation *self = simulation_new(seed);
        self->workers = 1 + (int)trp_random_below(&random, 9);
        self->trials = 1 + (int)trp_random_below(&random, seed % 8 == 0 ? 400 : 50);
        self->epochs = trp_random_below(&random, 4) == 0 ? 11 : 0;
        self->ties = 0.3;
        self->nans = seed % 3 == 0 ? 0.1 : 0;
        self->starved = seed % 5 == 0;
        self->watch = compare;
        self->user = &of;
        self->scheduler = troupe_asha(.grace = of.grace, .reduction = of.reduction,
                                      .limit = of.limit, .promote = true);
        simulate(self);
        troupe_scheduler_free(&self->scheduler);
        troupe_scheduler *other = troupe_asha(.grace = of.grace, .reduction = of.reduction,
                                              .limit = of.limit, .promote = true);
        simulate_again(self, other);
        troupe_scheduler_free(&other);
        promotions += of.promotions;
        simulate_free(self);
    }
    assert_true(promotions > 1000); // It was about something.
}

// At any moment at most the best 1/reduction of a rung's arrivals go on from it.
static void within_the_best(simulation *self, const simulated_call *call)
{
    bool goes_on = call->verdict.act == TROUPE_ACT_GO_ON;
    int report = self->all[call->trial].reports;
    if (call->kind == CALL_NEXT && call->status == TROUPE_STOPPED)
        return;
    if (call->kind == CALL_ADDED || call->kind == CALL_ENDED || !goes_on)
        return;
    if (report != 1 && report != 3 && report != 9)
        return;
    double score = self->all[call->trial].scores[report];
    int arrived = 0, better = 0;
    for (int i = 0; i < self->count; i++) {
        arrived += self->all[i].reports >= report;
        better += self->all[i].reports >= report && self->all[i].scores[report] < score;
    }
    assert_true(better < arrived / 3);
}

static void test_failures_hold_up_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        simulation *self = simulation_new(seed);
        self->workers = 1 + (int)(seed % 8);
        self->trials = (int)(seed % 40) + 1;
        self->fails = (double)(seed % 5) * 0.1;
        self->watch = within_the_best;
        self->scheduler = troupe_asha(.grace = 1, .reduction = 3, .limit = 27, .promote = true);
        simulate(self);
        troupe_scheduler_free(&self->scheduler);
        simulate_free(self);
    }
}

static void test_a_paused_one_may_end(void **state)
{
    (void)state;
    troupe_scheduler *asha = troupe_asha(.reduction = 2, .limit = 8, .promote = true);
    const double x[1] = {0};
    troupe_verdict verdict = {.size = sizeof verdict};
    for (int i = 0; i < 3; i++) {
        troupe_progress progress = {.size = sizeof progress, .trial = i, .report = 1, .score = i};
        assert_int_equal(asha->added(asha, i, x), TROUPE_OK);
        verdict.act = TROUPE_ACT_GO_ON;
        assert_int_equal(asha->decide(asha, &progress, &verdict), TROUPE_OK);
        assert_int_equal(verdict.act, TROUPE_ACT_PAUSE);
        if (i == 0) // It is given up from without; its score stays where it is.
            assert_int_equal(asha->ended(asha, 0, TROUPE_ENDING_FAILED), TROUPE_OK);
    }
    int trial;
    assert_int_equal(asha->next(asha, true, &trial, &verdict), TROUPE_OK);
    assert_int_equal(trial, -1); // The best of three is gone, and there is one place.
    assert_int_equal(asha->next(asha, false, &trial, &verdict), TROUPE_STOPPED);
    assert_int_equal(trial, 2);
    assert_int_equal(asha->next(asha, false, &trial, &verdict), TROUPE_STOPPED);
    assert_int_equal(trial, 1);
    assert_int_equal(asha->next(asha, false, &trial, &verdict), TROUPE_END);
    troupe_scheduler_free(&asha);
}

// Where several may be promoted, since there was no room for a while: the highest rung's first.
static void test_the_highest_rung_comes_first(void **state)
{
    (void)state;
    troupe_scheduler *asha = troupe_asha(.reduction = 2, .limit = 8, .promote = true);
    static const struct {
        int trial, report; // Report 0: there is room, and the trial goes on.
        double score;
        troupe_act act;
    } steps[] = {
        {0, 1, 5, TROUPE_ACT_PAUSE}, {1, 1, 1, TROUPE_ACT_GO_ON}, {2, 1, 6, TROUPE_ACT_PAUSE},
        {3, 1, 7, TROUPE_ACT_PAUSE}, {1, 2, 1, TROUPE_ACT_PAUSE}, {0, 0, 0, TROUPE_ACT_GO_ON},
        {4, 1, 8, TROUPE_ACT_PAUSE}, {5, 1, 9, TROUPE_ACT_PAUSE}, // 2 may go on from the first,
        {0, 2, 3, TROUPE_ACT_PAUSE},                              // and 1 from the second.
        {1, 0, 0, TROUPE_ACT_GO_ON}, {2, 0, 0, TROUPE_ACT_GO_ON},
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        troupe_verdict verdict = {.size = sizeof verdict};
        troupe_progress progress = {.size = sizeof progress,
                                    .trial = steps[i].trial,
                                    .report = steps[i].report,
                                    .score = steps[i].score};
        int trial = steps[i].trial;
        if (steps[i].report == 0)
            assert_int_equal(asha->next(asha, true, &trial, &verdict), TROUPE_OK);
        else
            assert_int_equal(asha->decide(asha, &progress, &verdict), TROUPE_OK);
        assert_int_equal(trial, steps[i].trial);
        assert_int_equal(verdict.act, steps[i].act);
    }
    troupe_scheduler_free(&asha);
}

// ---- brackets

static void test_brackets_have_later_rungs(void **state)
{
    (void)state;
    // HyperBand's brackets of 27 with reduction 3 begin with 27, 12, 6 and 4 trials.
    troupe_scheduler *asha = troupe_asha(.grace = 1, .reduction = 3, .limit = 27, .brackets = 4);
    assert_string_equal(asha->describe, "ASHA (grace 1, reduction 3, limit 27, brackets 4)");
    int counts[28] = {0};
    const double x[1] = {0};
    for (int trial = 0; trial < 490; trial++) {
        assert_int_equal(asha->added(asha, trial, x), TROUPE_OK);
        counts[asha->decides_at(asha, trial, 0)]++;
        if (trial % 49 == 48) { // In turns: never far from their shares.
            int rounds = trial / 49 + 1;
            assert_int_equal(counts[1], 27 * rounds);
            assert_int_equal(counts[3], 12 * rounds);
            assert_int_equal(counts[9], 6 * rounds);
            assert_int_equal(counts[27], 4 * rounds);
        }
    }
    troupe_scheduler_free(&asha);
}

static void test_brackets_go_by_themselves(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        for (int promote = 0; promote < 2; promote++) {
            simulation *self = simulation_new(seed);
            self->workers = 1 + (int)(seed % 6);
            self->trials = 1 + (int)(seed % 90);
            self->fails = seed % 2 == 0 ? 0.05 : 0;
            self->scheduler = troupe_asha(.grace = 1, .reduction = 3, .limit = 27, .brackets = 3,
                                          .promote = promote == 1);
            simulate(self);
            troupe_scheduler_free(&self->scheduler);
            troupe_scheduler *other = troupe_asha(.grace = 1, .reduction = 3, .limit = 27,
                                                  .brackets = 3, .promote = promote == 1);
            simulate_again(self, other);
            troupe_scheduler_free(&other);
            simulate_free(self);
        }
    }
}

static void test_options_that_contradict_are_refused(void **state)
{
    (void)state;
    assert_refused(troupe_asha(.grace = 1, .reduction = 3, .limit = 27, .brackets = 5),
                   TROUPE_INVALID,
                   "asha: brackets is 5, must be 1 to 4, since rungs are at 1 * 3^k reports, below "
                   "27");
    assert_refused(troupe_asha(.brackets = -1), TROUPE_INVALID,
                   "asha: brackets is -1, must be 1 to 5, since rungs are at 1 * 4^k reports, "
                   "below 100");
    assert_refused(troupe_asha(.promote = true, .as_ray = true), TROUPE_INVALID,
                   "asha: promote and as_ray exclude each other: Ray's ASHAScheduler promotes no "
                   "trial");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_promotes_as_the_paper),
        cmocka_unit_test(test_failures_hold_up_nothing),
        cmocka_unit_test(test_a_paused_one_may_end),
        cmocka_unit_test(test_the_highest_rung_comes_first),
        cmocka_unit_test(test_brackets_have_later_rungs),
        cmocka_unit_test(test_brackets_go_by_themselves),
        cmocka_unit_test(test_options_that_contradict_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
