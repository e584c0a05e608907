// test_repeat.c: points that are tried several times: what the other searcher is told of them.
#include <points.h>
#include <runtime/base/memory.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What a searcher was told that notes each call.
static char told[4000];

static void note(const char *format, ...)
{
    va_list list;
    size_t used = strlen(told);
    va_start(list, format);
    vsnprintf(told + used, sizeof told - used, format, list);
    va_end(list);
}

static void expect(const char *text)
{
    assert_string_equal(told, text);
    told[0] = '\0';
}

static troupe_status note_begin(troupe_searcher *self, const troupe_problem *problem)
{
    (void)self;
    note("begin %d;", problem->trials);
    return TROUPE_OK;
}

static troupe_status note_suggest(troupe_searcher *self, int number, double *x)
{
    (void)self;
    if (number == 5)
        return troupe_fail(TROUPE_END, "no more");
    x[0] = number + 0.5;
    return TROUPE_OK;
}

static troupe_status note_given(troupe_searcher *self, int number, const double *x)
{
    (void)self;
    note("given %d %g;", number, x[0]);
    return TROUPE_OK;
}

static troupe_status note_report(troupe_searcher *self, int number, int report, double score)
{
    (void)self;
    note("report %d %d %g;", number, report, score);
    return TROUPE_OK;
}

static troupe_status note_observe(troupe_searcher *self, const troupe_observation *seen)
{
    (void)self;
    note("observe %d %g %d %g %d %g;", seen->number, seen->x[0], seen->ending, seen->scores[0],
         seen->reports, seen->violation);
    return TROUPE_OK;
}

static void note_destroy(troupe_searcher *self)
{
    note("destroy;");
    free(self);
}

static troupe_searcher *noted(void)
{
    troupe_searcher *made = calloc(1, sizeof *made);
    assert_non_null(made);
    *made = (troupe_searcher){.abi = TROUPE_ABI,
                              .name = "noted",
                              .begin = note_begin,
                              .suggest = note_suggest,
                              .given = note_given,
                              .report = note_report,
                              .observe = note_observe,
                              .destroy = note_destroy};
    told[0] = '\0';
    return made;
}

static const troupe_dim line[] = {REAL(0, 10)};

static void suggests(troupe_searcher *searcher, int number, double expected)
{
    for (int again = 0; again < 2; again++) {
        double x = -1;
        assert_int_equal(searcher->suggest(searcher, number, &x), TROUPE_OK);
        assert_true(x == expected);
    }
}

static void observe(troupe_searcher *searcher, int number, double x, troupe_ending ending,
                    double score, int reports, double violation)
{
    troupe_observation seen = {.size = sizeof seen,
                               .number = number,
                               .ending = ending,
                               .x = &x,
                               .scores = &score,
                               .reports = reports,
                               .violation = violation};
    assert_int_equal(searcher->observe(searcher, &seen), TROUPE_OK);
}

static void test_each_point_comes_several_times(void **state)
{
    (void)state;
    troupe_problem problem = PROBLEM(line);
    problem.trials = 10;
    troupe_searcher *repeat = points_begun(troupe_search_repeat(noted(), 3), &problem);
    assert_string_equal(repeat->name, "3 times each of noted");
    expect("begin 4;");
    for (int i = 0; i < 6; i++) {
        double x = i < 3 ? 0.5 : 1.5;
        suggests(repeat, i, x);
        points_given(repeat, i, &x);
    }
    expect("given 0 0.5;given 1 1.5;");
    observe(repeat, 3, 1.5, TROUPE_ENDING_COMPLETE, 10, 4, 0);
    observe(repeat, 0, 0.5, TROUPE_ENDING_COMPLETE, 1, 9, 0);
    observe(repeat, 1, 0.5, TROUPE_ENDING_FAILED, (double)NAN, 0, 7);
    expect("");
    observe(repeat, 2, 0.5, TROUPE_ENDING_COMPLETE, 2, 8, 0.5);
    expect("observe 0 0.5 0 1.5 8 0.25;");
    observe(repeat, 4, 1.5, TROUPE_ENDING_STOPPED, 20, 2, 0);
    observe(repeat, 5, 1.5, TROUPE_ENDING_COMPLETE, 30, 3, 0);
    expect("observe 1 1.5 1 20 2 0;");
    suggests(repeat, 6, 2.5);
    troupe_searcher_free(&repeat);
    expect("destroy;");
}

static void test_points_of_others_are_repeated_too(void **state)
{
    (void)state;
    troupe_problem problem = PROBLEM(line);
    troupe_searcher *repeat = points_begun(troupe_search_repeat(noted(), 2), &problem);
    expect("begin 0;");
    const double first[] = {7, 8};
    points_given(repeat, 0, &first[0]);
    points_given(repeat, 1, &first[1]);
    expect("given 0 7;given 1 8;");
    suggests(repeat, 2, 7);
    points_given(repeat, 2, &first[0]);
    suggests(repeat, 3, 8);
    points_given(repeat, 3, &first[1]);
    suggests(repeat, 4, 2.5);
    expect("");
    // Of an earlier study.
    double x = 3;
    points_given(repeat, -1, &x);
    observe(repeat, -1, 3, TROUPE_ENDING_COMPLETE, 5, 1, 0);
    expect("given -1 3;observe -1 3 0 5 1 0;");
    for (int i = 0; i < 4; i += 2)
        observe(repeat, i, 7, TROUPE_ENDING_FAILED, (double)NAN, 0, 0);
    assert_non_null(strstr(told, "observe 0 7 2"));
    for (int i = 0; i < 2; i++) // The end of the other's points is its own.
        for (int k = 2; k < 5; k++) {
            double at = k + 0.5;
            points_given(repeat, 10 + k * 2 + i, &at);
        }
    assert_int_equal(repeat->suggest(repeat, 30, &x), TROUPE_END);
    troupe_searcher_free(&repeat);
}

static void test_reports_are_told_when_all_have_made_them(void **state)
{
    (void)state;
    troupe_problem problem = PROBLEM(line);
    troupe_searcher *repeat = points_begun(troupe_search_repeat(noted(), 2), &problem);
    double x = 0.5, other = 1.5;
    points_given(repeat, 0, &x);
    told[0] = '\0';
    assert_int_equal(repeat->report(repeat, 0, 1, 10), TROUPE_OK);
    assert_int_equal(repeat->report(repeat, 0, 2, 8), TROUPE_OK);
    assert_int_equal(repeat->report(repeat, 0, 2, 100), TROUPE_OK); // It was made.
    expect("");
    points_given(repeat, 1, &x);
    points_given(repeat, 2, &other);
    points_given(repeat, 3, &other);
    told[0] = '\0';
    assert_int_equal(repeat->report(repeat, 2, 1, 1), TROUPE_OK);
    assert_int_equal(repeat->report(repeat, 1, 1, 20), TROUPE_OK);
    expect("report 0 1 15;");
    assert_int_equal(repeat->report(repeat, 0, 3, 6), TROUPE_OK);
    assert_int_equal(repeat->report(repeat, 3, 1, 3), TROUPE_OK);
    expect("report 1 1 2;");
    observe(repeat, 1, 0.5, TROUPE_ENDING_STOPPED, 20, 1, 0); // The other goes on alone.
    expect("report 0 2 8;report 0 3 6;");
    assert_int_equal(repeat->report(repeat, 0, 4, 5), TROUPE_OK);
    assert_int_equal(repeat->report(repeat, 77, 4, 5), TROUPE_OK); // Nobody.
    expect("report 0 4 5;");
    troupe_searcher_free(&repeat);
}

static void test_a_replay_suggests_the_same(void **state)
{
    (void)state;
    enum { TRIALS = 60 };
    troupe_problem problem = PROBLEM(line);
    double known[TRIALS], x;
    for (int replayed = 0; replayed < 2; replayed++) {
        troupe_searcher *repeat =
            points_begun(troupe_search_repeat(troupe_search_tpe(.startup = 5), 3), &problem);
        for (int i = 0; i < TRIALS; i++) {
            if (replayed == 0 || i % 5 == 0)
                assert_int_equal(repeat->suggest(repeat, i, &x), TROUPE_OK);
            if (replayed == 0)
                known[i] = x;
            else if (i % 5 == 0)
                assert_true(x == known[i]);
            points_given(repeat, i, &known[i]);
            points_observe(repeat, i, &known[i], pow(known[i] - 3, 2) + (double)(i % 3));
        }
        troupe_searcher_free(&repeat);
    }
    double late = 0;
    for (int i = 0; i < TRIALS; i++) {
        assert_true(known[i] == known[i / 3 * 3]);
        late += i >= TRIALS / 2 ? fabs(known[i] - 3) * 2 / TRIALS : 0;
    }
    assert_true(late < 2.5); // At random 2.9 at least.
}

static void test_what_is_refused(void **state)
{
    (void)state;
    troupe_searcher *refused = troupe_search_repeat(noted(), 1);
    expect("destroy;");
    assert_int_equal(refused->refusal, TROUPE_INVALID);
    assert_non_null(strstr(refused->name, "1 repeats"));
    troupe_searcher_free(&refused);
    refused = troupe_search_repeat(NULL, 2);
    assert_int_equal(refused->refusal, TROUPE_INVALID);
    troupe_searcher_free(&refused);
    refused = troupe_search_repeat(troupe_search_grid(-4), 2);
    assert_int_equal(refused->refusal, TROUPE_INVALID);
    assert_non_null(strstr(refused->name, "-4 points"));
    troupe_searcher_free(&refused);
    troupe_searcher *foreign = noted();
    foreign->abi = TROUPE_ABI + 1;
    refused = troupe_search_repeat(foreign, 2);
    assert_int_equal(refused->refusal, TROUPE_VERSION);
    troupe_searcher_free(&refused);
}

static void test_memory_may_be_short(void **state)
{
    (void)state;
    troupe_problem problem = PROBLEM(line);
    for (int after = 0;; after++) {
        troupe_searcher *inner = troupe_search_tpe(.startup = 0);
        trp_memory_fail_after(after);
        troupe_searcher *repeat = troupe_search_repeat(inner, 2);
        troupe_status status = repeat->refusal;
        if (status == TROUPE_OK)
            status = repeat->begin(repeat, &problem);
        for (int i = 0; i < 40 && status == TROUPE_OK; i++) {
            int point = i / 2;
            double x = point * 0.1, score = 1;
            troupe_observation seen = {.size = sizeof seen, .number = i, .x = &x, .scores = &score};
            status = repeat->given(repeat, i, &x);
            if (status == TROUPE_OK)
                status = repeat->report(repeat, i, 1, 1);
            if (status == TROUPE_OK)
                status = repeat->observe(repeat, &seen);
        }
        trp_memory_fail_after(-1);
        troupe_searcher_free(&repeat);
        if (status == TROUPE_OK)
            break;
        assert_int_equal(status, TROUPE_NO_MEMORY);
        assert_true(after < 200);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_point_comes_several_times),
        cmocka_unit_test(test_points_of_others_are_repeated_too),
        cmocka_unit_test(test_reports_are_told_when_all_have_made_them),
        cmocka_unit_test(test_a_replay_suggests_the_same),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_memory_may_be_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
