// test_bohb.c: HyperBand with a searcher that learns from budgets, in a study: it finds more with
// the same reports than HyperBand with random draws, and decides the same over many lives.
#include <math.h>
#include <runtime/base/buffer.h>
#include <stdio.h>
#include <stdlib.h>
#include <support.h>
#include <troupe/study.h>
#include <tune/space/random.h>

enum { LIMIT = 27, TRIALS = 147, SEEDS = 61 }; // Three bands of 27 + 12 + 6 + 4 trials.

// Branin's function (its least value is 0.397887), which a trial comes down to.
static double loss(const double *x, int report)
{
    double a = x[1] - 5.1 / (4 * M_PI * M_PI) * x[0] * x[0] + 5 / M_PI * x[0] - 6;
    double end = a * a + 10 * (1 - 1 / (8 * M_PI)) * cos(x[0]) + 10;
    return end + 40 * exp(-report / 6.0) * (1 + 0.3 * sin(x[0] + x[1]));
}

static troupe_space *branin_space(void)
{
    troupe_space *space;
    assert_int_equal(troupe_space_parse("{\"x\": {\"uniform\": [-5, 10]}, \"y\": {\"uniform\": "
                                        "[0, 15]}}",
                                        &space),
                     TROUPE_OK);
    return space;
}

// The least loss of a trial that had all reports; *reports: of all trials.
static double best_of(const troupe_space *space, uint64_t seed, troupe_searcher *searcher,
                      int *reports)
{
    troupe_study *study;
    int made[TRIALS] = {0}, paused = 0;
    assert_int_equal(troupe_study_open(space, &study, .searcher = searcher, .trials = TRIALS,
                                       .scheduler = troupe_hyperband(.limit = LIMIT), .seed = seed),
                     TROUPE_OK);
    double best = (double)INFINITY;
    troupe_asked asked;
    troupe_status status;
    while ((status = troupe_study_ask(study, &asked)) == TROUPE_OK) {
        assert_true(asked.again == (made[asked.number] > 0));
        troupe_act act = TROUPE_ACT_GO_ON;
        while (act == TROUPE_ACT_GO_ON) {
            double value = loss(asked.x, ++made[asked.number]);
            assert_int_equal(troupe_study_report(study, asked.number, value, &act), TROUPE_OK);
            if (made[asked.number] == LIMIT)
                best = fmin(best, value);
            ++*reports;
        }
        paused += act == TROUPE_ACT_PAUSE;
    }
    assert_int_equal(status, TROUPE_END);
    assert_int_equal(troupe_study_count(study), TRIALS);
    for (size_t i = 0; i < TRIALS; i++) {
        troupe_study_state state = troupe_study_trial_at(study, i)->state;
        assert_true(state == TROUPE_STUDY_COMPLETE || state == TROUPE_STUDY_STOPPED);
        assert_true(made[i] == LIMIT || state == TROUPE_STUDY_STOPPED);
    }
    assert_true(paused > TRIALS / 2);
    troupe_study_free(&study);
    return best;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void test_it_finds_more_than_random_draws(void **state)
{
    (void)state;
    troupe_space *space = branin_space();
    double random[SEEDS], bohb[SEEDS];
    int better = 0;
    for (int i = 0; i < SEEDS; i++) {
        int spent[2] = {0};
        uint64_t seed = 100 + (uint64_t)i;
        random[i] = best_of(space, seed, troupe_search_random(), &spent[0]);
        bohb[i] = best_of(space, seed, troupe_search_tpe(.budgets = true), &spent[1]);
        assert_int_equal(spent[0], spent[1]);
        better += bohb[i] < random[i];
    }
    qsort(random, SEEDS, sizeof *random, by_value);
    qsort(bohb, SEEDS, sizeof *bohb, by_value);
    print_message("median of the best: %.3f at random, %.3f with BOHB, better for %d of %d seeds\n",
                  random[SEEDS / 2], bohb[SEEDS / 2], better, SEEDS);
    assert_true(bohb[SEEDS / 2] < random[SEEDS / 2]);
    assert_true(better > SEEDS / 2);
    troupe_space_free(&space);
}

static troupe_study *opened(const troupe_space *space, const char *file, bool promotes)
{
    troupe_study *study;
    assert_int_equal(
        troupe_study_open(space, &study, .file = file, .trials = 60, .seed = 5,
                          .open = file == NULL ? TROUPE_OPEN_NEW : TROUPE_OPEN_RESUME_OR_NEW,
                          .searcher = troupe_search_tpe(.budgets = true),
                          .scheduler = promotes ? troupe_asha(.limit = LIMIT, .reduction = 3,
                                                              .promote = true, .brackets = 2)
                                                : troupe_hyperband(.limit = LIMIT)),
        TROUPE_OK);
    return study;
}

// Runs a study, which is closed and opened again after every so many trials that were asked for (0:
// never). Which trials those were, and what became of each, is put in *text.
static void trace(const troupe_space *space, const char *file, bool promotes, int every,
                  trp_buffer *text)
{
    troupe_study *study = opened(space, file, promotes);
    int made[60] = {0};
    troupe_asked asked;
    for (int i = 1; troupe_study_ask(study, &asked) == TROUPE_OK; i++) {
        troupe_act act = TROUPE_ACT_GO_ON;
        while (act == TROUPE_ACT_GO_ON)
            assert_int_equal(
                troupe_study_report(study, asked.number, loss(asked.x, ++made[asked.number]), &act),
                TROUPE_OK);
        trp_buffer_printf(text, "%d %d %d %a %a\n", asked.number, made[asked.number], act,
                          asked.x[0], asked.x[1]);
        if (every == 0 || i % every != 0)
            continue;
        troupe_study_free(&study);
        study = opened(space, file, promotes);
    }
    for (size_t i = 0; i < 60; i++)
        trp_buffer_printf(text, "%d ", troupe_study_trial_at(study, i)->state);
    trp_buffer_append(text, "", 1);
    assert_false(text->failed);
    troupe_study_free(&study);
}

static void test_many_lives_decide_as_one(void **state)
{
    (void)state;
    char *folder = support_directory_make();
    troupe_space *space = branin_space();
    for (int i = 0; i < 4; i++) {
        trp_buffer once = {0}, often = {0};
        char *path = support_path(folder, "study.jsonl");
        trace(space, NULL, i % 2 == 1, 0, &once);
        trace(space, path, i % 2 == 1, 5 + 6 * i, &often);
        assert_string_equal((char *)often.data, (char *)once.data);
        assert_int_equal(remove(path), 0);
        trp_buffer_free(&once);
        trp_buffer_free(&often);
        free(path);
    }
    troupe_space_free(&space);
    support_directory_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_finds_more_than_random_draws),
        cmocka_unit_test(test_many_lives_decide_as_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
