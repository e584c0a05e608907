// test_study.c: ask and tell: what a study gives out, knows, and remembers over its lives.
#include "study_tests.h"

#include <tune/study/study.h>

static void assert_in_space(const troupe_asked *asked)
{
    const study_config *config = asked->config;
    assert_true(config->x >= -5 && config->x < 10 && config->y >= 0 && config->y < 15);
    assert_true(config->width % 16 == 0 && config->width >= 16 && config->width <= 64);
    assert_true(strcmp(config->kind, "plain") == 0 || strcmp(config->kind, "tall") == 0);
    assert_true(config->x == asked->x[0] && config->y == asked->x[1]);
}

static void test_ask_and_tell(void **state)
{
    (void)state;
    troupe_study *study;
    troupe_asked asked;
    double best = INFINITY;
    int count = 0, best_number = -1;
    ok(troupe_study_open(space, &study, .trials = 50));
    assert_null(troupe_study_best(study));
    troupe_status status;
    while ((status = troupe_study_ask(study, &asked)) == TROUPE_OK) {
        assert_int_equal(asked.number, count++);
        assert_false(asked.again);
        assert_in_space(&asked);
        double loss = loss_of(asked.config);
        if (loss < best) {
            best = loss;
            best_number = asked.number;
        }
        ok(troupe_study_tell(study, asked.number, loss));
        assert_int_equal(troupe_study_best(study)->number, best_number);
    }
    assert_int_equal(status, TROUPE_END);
    assert_int_equal(count, 50);
    assert_int_equal(troupe_study_count(study), 50);
    assert_true(troupe_study_best(study)->best == best);
    assert_int_equal(troupe_study_best(study)->state, TROUPE_STUDY_COMPLETE);
    assert_null(troupe_study_trial_at(study, 50));
    assert_true(isnan(troupe_study_trial_at(study, 3)->violation) == 0);
    troupe_study_free(&study);
    assert_null(study);
    troupe_study_free(&study);
}

static void test_goals_and_failures(void **state)
{
    (void)state;
    troupe_study *study;
    troupe_asked asked;
    ok(troupe_study_open(space, &study, .goal = TROUPE_MAXIMIZE));
    for (int i = 0; i < 6; i++)
        ok(troupe_study_ask(study, &asked));
    ok(troupe_study_tell(study, 0, 1));
    ok(troupe_study_tell(study, 1, 3));
    ok(troupe_study_tell(study, 2, NAN));
    ok(troupe_study_tell(study, 3, INFINITY));
    ok(troupe_study_tell_failed(study, 4, "the disk is full"));
    ok(troupe_study_tell_values(study, 5, (double[]){9}, 0.5));
    assert_int_equal(troupe_study_best(study)->number, 1);
    troupe_act act;
    ok(troupe_study_ask(study, &asked));
    ok(troupe_study_report(study, 6, INFINITY, &act)); // It may come back from there.
    ok(troupe_study_report(study, 6, NAN, &act));
    assert_int_equal(act, TROUPE_ACT_GO_ON);
    assert_true(isnan(troupe_study_trial_at(study, 6)->best));
    assert_int_equal(troupe_study_best(study)->number, 1);
    ok(troupe_study_report(study, 6, 4, &act));
    assert_int_equal(troupe_study_best(study)->number, 6);
    ok(troupe_study_tell_values(study, 6, (double[]){5}, 2)); // What it has shown is not allowed.
    assert_int_equal(troupe_study_best(study)->number, 1);
    ok(troupe_study_ask(study, &asked));
    ok(troupe_study_report(study, 7, 4, &act));
    assert_int_equal(troupe_study_best(study)->number, 7);
    ok(troupe_study_tell_failed(study, 7, "it fell"));
    assert_int_equal(troupe_study_best(study)->number, 1);
    assert_string_equal(troupe_study_trial_at(study, 2)->error, "its value is nan");
    assert_string_equal(troupe_study_trial_at(study, 3)->error, "its value is inf");
    assert_string_equal(troupe_study_trial_at(study, 4)->error, "the disk is full");
    assert_int_equal(troupe_study_trial_at(study, 4)->state, TROUPE_STUDY_FAILED);
    assert_true(isnan(troupe_study_trial_at(study, 4)->values[0]));
    assert_true(troupe_study_trial_at(study, 5)->violation == 0.5);
    troupe_study_free(&study);
}

// ---- what wins, by brute force

static bool beats(const double *a, const double *b, int objectives)
{
    bool better = false;
    for (int i = 0; i < objectives; i++) {
        double x = i == 1 ? -a[i] : a[i], y = i == 1 ? -b[i] : b[i]; // The second is maximised.
        if (x > y)
            return false;
        better = better || x < y;
    }
    return better;
}

static void test_paretos_front(void **state)
{
    (void)state;
    enum { TRIALS = 200, OBJECTIVES = 3 };
    static const troupe_goal goals[] = {TROUPE_MINIMIZE, TROUPE_MAXIMIZE, TROUPE_MINIMIZE};
    static double values[TRIALS][OBJECTIVES];
    troupe_study *study;
    troupe_asked asked;
    size_t count;
    srand(5);
    ok(troupe_study_open(space, &study, .goals = goals, .goal_count = OBJECTIVES));
    assert_null(troupe_study_front(study, &count));
    for (int i = 0; i < TRIALS; i++) {
        ok(troupe_study_ask(study, &asked));
        for (int k = 0; k < OBJECTIVES; k++)
            values[i][k] = rand() % 20; // With many alike.
        ok(i % 10 == 9 ? troupe_study_tell_failed(study, i, NULL)
                       : troupe_study_tell_values(study, i, values[i], i % 10 == 8));
    }
    const int *front = troupe_study_front(study, &count);
    size_t found = 0;
    for (int i = 0; i < TRIALS; i++) {
        bool is = i % 10 < 8;
        for (int k = 0; k < TRIALS && is; k++)
            is = k % 10 >= 8 || !beats(values[k], values[i], OBJECTIVES);
        if (is)
            assert_int_equal(front[found++], i);
    }
    assert_int_equal(found, count);
    assert_true(count > 3);
    refused(troupe_study_tell(study, 0, 1), TROUPE_INVALID, "troupe_study_tell_values");
    troupe_study_free(&study);
}

// ---- schedulers

static void test_a_scheduler_stops_trials(void **state)
{
    (void)state;
    troupe_study *study;
    troupe_asked asked;
    int stopped = 0, complete = 0;
    ok(troupe_study_open(space, &study, .trials = 40,
                         .scheduler = troupe_asha(.grace = 1, .reduction = 2, .limit = 8)));
    while (troupe_study_ask(study, &asked) == TROUPE_OK) {
        troupe_act act = TROUPE_ACT_GO_ON;
        double loss = loss_of(asked.config);
        int reports = 0;
        while (act == TROUPE_ACT_GO_ON) {
            ok(troupe_study_report(study, asked.number, loss + 8.0 / ++reports, &act));
            assert_true(reports <= 8);
        }
        const troupe_study_trial *trial = troupe_study_trial_at(study, (size_t)asked.number);
        assert_int_equal(trial->reports, reports);
        assert_true(trial->best == loss + 8.0 / reports && trial->values[0] == trial->best);
        assert_int_equal(trial->state,
                         act == TROUPE_ACT_STOP ? TROUPE_STUDY_STOPPED : TROUPE_STUDY_COMPLETE);
        stopped += act == TROUPE_ACT_STOP;
        complete += act == TROUPE_ACT_END;
        refused(troupe_study_report(study, asked.number, 0, &act), TROUPE_INVALID,
                act == TROUPE_ACT_STOP ? "was stopped" : "is complete");
        refused(troupe_study_tell(study, asked.number, 0), TROUPE_INVALID,
                "expected one that runs");
    }
    assert_true(stopped > 10 && complete > 2 && stopped + complete == 40);
    troupe_study_free(&study);
}

// ---- over several lives

// Does a part of a study: asks `asks` times and tells of most.
static void live(troupe_study *study, int asks)
{
    troupe_asked asked;
    troupe_act act;
    for (int i = 0; i < asks; i++) {
        ok(troupe_study_ask(study, &asked));
        double loss = loss_of(asked.config);
        act = TROUPE_ACT_GO_ON;
        for (int k = 1; k <= asked.number % 4 && act == TROUPE_ACT_GO_ON; k++)
            ok(troupe_study_report(study, asked.number, loss + 3.0 / k, &act));
        if (act != TROUPE_ACT_GO_ON)
            continue;
        if (asked.number % 7 == 3)
            ok(troupe_study_tell_failed(study, asked.number, "a \"quoted\"\nreason"));
        else
            ok(troupe_study_tell(study, asked.number, loss));
    }
}

static troupe_searcher *cmaes(void)
{
    return troupe_search_cmaes(.population = 6);
}

static troupe_searcher *tpe(void)
{
    return troupe_search_tpe(.startup = 5);
}

static troupe_searcher *tpe_of_budgets(void)
{
    return troupe_search_tpe(.startup = 5, .budgets = true);
}

static troupe_searcher *repeats(void)
{
    return troupe_search_repeat(troupe_search_tpe(.startup = 3), 3);
}

static troupe_searcher *nsga2(void)
{
    return troupe_search_nsga2(.population = 8);
}

static void test_a_study_goes_on_as_if_it_had_never_ended(void **state)
{
    (void)state;
    troupe_searcher *(*const searchers[])(void) = {troupe_search_random,
                                                   troupe_search_sobol,
                                                   troupe_search_auto,
                                                   cmaes,
                                                   nsga2,
                                                   tpe,
                                                   tpe_of_budgets,
                                                   repeats};
    for (size_t i = 0; i < sizeof searchers / sizeof *searchers; i++) {
        troupe_study *whole, *parts = NULL;
        unlink(path);
        ok(troupe_study_open(space, &whole, .searcher = searchers[i](), .seed = 7,
                             .scheduler = troupe_asha(.grace = 1, .limit = 9, .reduction = 2)));
        live(whole, 60);
        for (int life = 0; life < 6; life++) {
            ok(troupe_study_open(space, &parts, .searcher = searchers[i](), .seed = 7, .file = path,
                                 .open = TROUPE_OPEN_RESUME_OR_NEW,
                                 .scheduler = troupe_asha(.grace = 1, .limit = 9, .reduction = 2)));
            assert_int_equal(troupe_study_count(parts), 10 * life);
            live(parts, 10);
            if (life < 5)
                troupe_study_free(&parts);
        }
        assert_same_trials(whole, parts);
        troupe_study_free(&parts);
        troupe_study_free(&whole);
    }
}

// A trial that was asked for and never told of is given out again; what it had reported is passed
// over.
static void test_trials_that_ran_are_given_again(void **state)
{
    (void)state;
    troupe_study *study;
    troupe_asked asked, first[3];
    troupe_act act;
    unlink(path);
    ok(troupe_study_open(space, &study, .file = path));
    for (int i = 0; i < 3; i++) {
        ok(troupe_study_ask(study, &first[i]));
        first[i].x = memcpy(malloc(4 * sizeof(double)), first[i].x, 4 * sizeof(double));
    }
    ok(troupe_study_tell(study, 1, 4));
    for (int k = 0; k < 3; k++)
        ok(troupe_study_report(study, 2, 10 - k, &act));
    troupe_study_free(&study);

    ok(troupe_study_open(space, &study, .file = path, .open = TROUPE_OPEN_RESUME));
    refused(troupe_study_tell(study, 0, 1), TROUPE_INVALID, "has not been asked for");
    refused(troupe_study_report(study, 2, 1, &act), TROUPE_INVALID, "has not been asked for");
    for (int i = 0; i < 3; i += 2) {
        ok(troupe_study_ask(study, &asked));
        assert_int_equal(asked.number, i);
        assert_false(asked.again);
        assert_int_equal(asked.reports, 0);
        assert_memory_equal(asked.x, first[i].x, 4 * sizeof(double));
    }
    ok(troupe_study_ask(study, &asked));
    assert_int_equal(asked.number, 3);
    for (int k = 0; k < 5; k++) {
        ok(troupe_study_report(study, 2, 10 - k, &act));
        assert_int_equal(troupe_study_trial_at(study, 2)->reports, k < 3 ? 3 : k + 1);
    }
    assert_true(troupe_study_trial_at(study, 2)->best == 6);
    ok(troupe_study_tell(study, 2, 5));
    assert_true(troupe_study_trial_at(study, 2)->best == 5);
    troupe_study_free(&study);
    for (int i = 0; i < 3; i++)
        free((void *)first[i].x);
}

static void test_the_number_of_trials_may_change(void **state)
{
    (void)state;
    troupe_study *study;
    troupe_asked asked;
    unlink(path);
    ok(troupe_study_open(space, &study, .file = path, .trials = 10));
    live(study, 10);
    assert_int_equal(troupe_study_ask(study, &asked), TROUPE_END);
    troupe_study_free(&study);
    ok(troupe_study_open(space, &study, .file = path, .trials = 15, .open = TROUPE_OPEN_RESUME));
    live(study, 5);
    assert_int_equal(troupe_study_ask(study, &asked), TROUPE_END);
    refused(trp_study_extend(study, 14), TROUPE_INVALID, "14 trials are fewer than the 15");
    ok(trp_study_extend(study, 16));
    live(study, 1);
    troupe_study_free(&study);
    refused(
        troupe_study_open(space, &study, .file = path, .trials = 15, .open = TROUPE_OPEN_RESUME),
        TROUPE_INVALID, "15 trials are fewer than the 16");
    ok(troupe_study_open(space, &study, .file = path, .open = TROUPE_OPEN_RESUME)); // No limit.
    live(study, 9);
    troupe_study_free(&study);
    ok(troupe_study_open(space, &study, .file = path, .trials = 25, .open = TROUPE_OPEN_RESUME));
    assert_int_equal(trp_study_trials(study), 25);
    assert_int_equal(troupe_study_ask(study, &asked), TROUPE_END);
    troupe_study_free(&study);
}

static void test_sync_and_one_process(void **state)
{
    (void)state;
    troupe_study *study, *other;
    unlink(path);
    ok(troupe_study_open(space, &study, .file = path, .sync = true));
    live(study, 5);
    ok(troupe_study_sync(study));
    trp_tune_record *record = trp_study_record(study);
    assert_int_equal(trp_tune_record_lasts(record), trp_tune_record_added(record));
    refused(troupe_study_open(space, &other, .file = path, .open = TROUPE_OPEN_RESUME), TROUPE_BUSY,
            "open in another process");
    assert_null(other);
    troupe_study_free(&study);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ask_and_tell),
        cmocka_unit_test(test_goals_and_failures),
        cmocka_unit_test(test_paretos_front),
        cmocka_unit_test(test_a_scheduler_stops_trials),
        cmocka_unit_test(test_a_study_goes_on_as_if_it_had_never_ended),
        cmocka_unit_test(test_trials_that_ran_are_given_again),
        cmocka_unit_test(test_the_number_of_trials_may_change),
        cmocka_unit_test(test_sync_and_one_process),
    };
    return cmocka_run_group_tests(tests, open_study_tests, close_study_tests);
}
