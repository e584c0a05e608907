// test_spaces.c: studies that go on in a larger space.
#include "spaces.h"

#include <troupe/schedule.h>

static void test_a_larger_space(void **state)
{
    (void)state;
    troupe_study *study, *again;
    double before[10];
    begin();
    troupe_space *first = small(), *second = large();
    live(first, troupe_search_random(), 10);
    ok(open_in(first, troupe_search_random(), 10, &study));
    for (size_t i = 0; i < 10; i++)
        before[i] = troupe_study_trial_at(study, i)->x[0];
    troupe_study_free(&study);
    ok(open_in(second, troupe_search_random(), 60, &study));
    run(study, 60);
    int beyond = 0, wide = 0;
    for (size_t i = 0; i < 60; i++) {
        const study_config *config = troupe_study_trial_at(study, i)->config;
        if (i < 10)
            assert_true(config->x == before[i] && strcmp(config->kind, "wide") != 0);
        beyond += config->x < 0 || config->x >= 1;
        wide += strcmp(config->kind, "wide") == 0;
    }
    assert_in_range(beyond, 40, 50);
    assert_in_range(wide, 5, 30);
    refused(open_in(second, troupe_search_random(), 60, &again), TROUPE_BUSY, "open in");
    troupe_study_free(&study);
    // The space that was is less than that of the record now.
    refused(open_in(first, troupe_search_random(), 60, &study), TROUPE_EXISTS,
            "x was {\"uniform\": [-10, 20]} and is {\"uniform\": [0, 1]}, which has not all of it");
    troupe_space_free(&first);
    troupe_space_free(&second);
}

// Wherever it is killed behind that, it goes on as if nothing had happened.
static void lives_are_alike(troupe_searcher *(*searcher)(void))
{
    troupe_space *first = small(), *second = large();
    begin();
    live(first, searcher(), 12);
    live(second, searcher(), 30);
    char *whole = support_read_file(path);
    char *at = strstr(whole, "{\"event\": \"space\"");
    assert_non_null(at);
    // Auto says what it chose, for either space.
    char *chosen = strstr(whole, "\"chosen\": \"auto: ");
    assert_true((chosen != NULL) == (searcher == troupe_search_auto));
    assert_true(chosen == NULL || (chosen < at && strstr(at, "\"chosen\": \"auto: ") != NULL));
    assert_null(strstr(at + 1, "{\"event\": \"space\""));
    for (at = strchr(at, '\n'); at != NULL; at = strchr(at + 1, '\n')) {
        support_write_file(path, whole, (size_t)(at + 1 - whole));
        live(second, searcher(), 30);
        char *text = support_read_file(path);
        assert_non_null(strstr(text, "{\"event\": \"space\""));
        // The number of trials was put down behind the space, if it was.
        assert_string_equal(strstr(text, "\"trial\": 12"), strstr(whole, "\"trial\": 12"));
        free(text);
    }
    free(whole);
    troupe_space_free(&first);
    troupe_space_free(&second);
}

static troupe_searcher *tpe(void)
{
    return troupe_search_tpe(.startup = 5);
}

static void test_it_goes_on_the_same(void **state)
{
    (void)state;
    lives_are_alike(troupe_search_random);
    lives_are_alike(tpe);
    lives_are_alike(troupe_search_auto);
}

// ---- what the searcher is told

static struct {
    int begun, given, observed;
    size_t dims;
    double sum; // Of the second coordinate.
} seen;

static troupe_status see_begin(troupe_searcher *self, const troupe_problem *problem)
{
    (void)self;
    seen.begun++;
    seen.dims = problem->dim_count;
    return TROUPE_OK;
}

static troupe_status see_suggest(troupe_searcher *self, int number, double *x)
{
    (void)self, (void)number;
    for (size_t i = 0; i < seen.dims; i++)
        x[i] = i == 0 ? 0.5 : 0;
    return TROUPE_OK;
}

static troupe_status see_given(troupe_searcher *self, int number, const double *x)
{
    (void)self, (void)number;
    seen.given++;
    seen.sum += seen.dims > 1 ? x[1] : 0;
    return TROUPE_OK;
}

static troupe_status see_observe(troupe_searcher *self, const troupe_observation *observation)
{
    (void)self;
    seen.observed++;
    assert_true(seen.dims < 2 || observation->x[1] == 4);
    return TROUPE_OK;
}

static void see_destroy(troupe_searcher *self)
{
    (void)self;
}

static troupe_searcher *seeing(void)
{
    static troupe_searcher it;
    it = (troupe_searcher){.abi = TROUPE_ABI,
                           .name = "seeing",
                           .begin = see_begin,
                           .suggest = see_suggest,
                           .given = see_given,
                           .observe = see_observe,
                           .destroy = see_destroy};
    memset(&seen, 0, sizeof seen);
    return &it;
}

// What was the base's, or fixed, has that value in the trials before.
static void test_new_rows_have_what_was(void **state)
{
    (void)state;
    const study_config base = {.y = 4, .kind = "tall"};
    troupe_study *study;
    begin();
    troupe_space *first = SPACE(&base, X(0, 1), TROUPE_FIXED(study_config, width, 32));
    live(first, seeing(), 3);
    troupe_space *second = SPACE(&base, X(0, 1), Y(0, 8), WIDTH(16, 64), KIND("plain", "tall"));
    ok(open_in(second, seeing(), 3, &study));
    assert_int_equal(seen.begun, 1);
    assert_int_equal(seen.dims, 4);
    assert_int_equal(seen.given, 3);
    assert_int_equal(seen.observed, 3);
    assert_true(seen.sum == 12);
    for (size_t i = 0; i < 3; i++) {
        const troupe_study_trial *trial = troupe_study_trial_at(study, i);
        const double expected[] = {0.5, 4, 32, 1};
        assert_memory_equal(trial->x, expected, sizeof expected);
        assert_int_equal(((const study_config *)trial->config)->width, 32);
    }
    troupe_study_free(&study);
    // It is the record's from then on, whatever the base is by now.
    troupe_space *third = SPACE(NULL, X(0, 1), Y(0, 8), WIDTH(16, 64), KIND("plain", "tall"));
    ok(open_in(third, seeing(), 3, &study));
    assert_true(seen.sum == 12);
    troupe_study_free(&study);
    troupe_space_free(&first);
    troupe_space_free(&second);
    troupe_space_free(&third);
}

static void test_a_row_of_a_new_choice(void **state)
{
    (void)state;
    troupe_study *study;
    begin();
    live_in(SPACE(NULL, X(0, 1), KIND("plain", "tall")), 5);
    // Its base could not be drawn, but it counts in no trial before.
    troupe_space *second = SPACE(NULL, X(0, 1), KIND("plain", "tall", "wide"), Y(5, 8),
                                 TROUPE_ONLY_WHEN_TEXT(study_config, y, kind, "wide"));
    ok(open_in(second, troupe_search_random(), 40, &study));
    run(study, 40);
    int counts = 0;
    for (size_t i = 0; i < 40; i++) {
        const double *x = troupe_study_trial_at(study, i)->x;
        counts += !isnan(x[2]);
        assert_int_equal(!isnan(x[2]), x[1] == 2);
        assert_true(i >= 5 || isnan(x[2]));
    }
    assert_in_range(counts, 3, 30);
    troupe_study_free(&study);
    troupe_space_free(&second);
    second = SPACE(NULL, X(0, 1), KIND("plain", "tall", "wide"), Y(5, 8),
                   TROUPE_ONLY_WHEN_TEXT(study_config, y, kind, "wide"),
                   TROUPE_FIXED(study_config, width, 32),
                   TROUPE_ONLY_WHEN_TEXT(study_config, width, kind, "tall"));
    refused(open_in(second, troupe_search_random(), 40, &study), TROUPE_EXISTS,
            "width is new and has one value, 32");
    troupe_space_free(&second);
    troupe_space *third = SPACE(NULL, X(0, 1), KIND("plain", "tall", "wide"), Y(5, 8));
    refused(open_in(third, troupe_search_random(), 40, &study), TROUPE_EXISTS,
            "y is new, and was 0 before, which it cannot draw");
    troupe_space_free(&third);
}

static void test_grids(void **state)
{
    (void)state;
    troupe_study *study;
    int had[3][3] = {{0}};
    begin();
    troupe_space *first = parsed("{\"a\": {\"grid\": [1, 2]}, \"b\": {\"grid\": [1, 2]}}");
    ok(open_in(first, NULL, 2, &study));
    run(study, 7); // One is left.
    troupe_study_free(&study);
    troupe_space *second =
        parsed("{\"a\": {\"grid\": [1, 2, 3]}, \"b\": {\"grid\": [1, 2, 3]}, \"c\": 5}");
    refused(open_in(second, NULL, 2, &study), TROUPE_EXISTS, "c is new and has one value, 5");
    troupe_space_free(&second);
    second = parsed("{\"a\": {\"grid\": [1, 2, 3]}, \"b\": {\"grid\": [1, 2, 3]}}");
    ok(open_in(second, NULL, 2, &study));
    run(study, 12);
    troupe_study_free(&study);
    ok(open_in(second, NULL, 2, &study));
    run(study, 100);
    assert_int_equal(troupe_study_count(study), 18);
    for (size_t i = 0; i < 18; i++) {
        const double *x = troupe_study_trial_at(study, i)->x;
        had[(int)x[0]][(int)x[1]]++;
    }
    for (int i = 0; i < 9; i++)
        assert_int_equal(had[i / 3][i % 3], 2);
    troupe_study_free(&study);
    troupe_space_free(&first);
    troupe_space_free(&second);
}

// The scheduler decides what it decided, and goes on.
static void test_a_scheduler(void **state)
{
    (void)state;
    troupe_study *study;
    troupe_asked asked;
    troupe_act act;
    int stopped = 0;
    begin();
    troupe_space *spaces[] = {small(), large()};
    for (int life = 0; life < 3; life++) {
        ok(troupe_study_open(spaces[life > 0], &study, .file = path,
                             .open = TROUPE_OPEN_RESUME_OR_NEW, .trials = 20 * (life + 1),
                             .scheduler = troupe_asha(.reduction = 2, .limit = 8)));
        while (troupe_study_ask(study, &asked) == TROUPE_OK) {
            act = TROUPE_ACT_GO_ON;
            for (int i = 1; act == TROUPE_ACT_GO_ON && i <= 8; i++)
                ok(troupe_study_report(study, asked.number, fabs(asked.x[0]) / i, &act));
            stopped += act == TROUPE_ACT_STOP;
        }
        troupe_study_free(&study);
    }
    assert_in_range(stopped, 20, 55);
    troupe_space_free(&spaces[0]);
    troupe_space_free(&spaces[1]);
}

// ---- JSON

static void test_json_says_what_was(void **state)
{
    (void)state;
    troupe_study *study;
    begin();
    live_in(parsed("{\"x\": {\"uniform\": [0, 1]}, \"n\": 3}"), 4);
    troupe_space *bare = parsed("{\"x\": {\"uniform\": [0, 1]}, \"n\": {\"integer\": [1, 9]}, "
                                "\"decay\": {\"uniform\": [0, 1]}}");
    refused(open_in(bare, troupe_search_random(), 8, &study), TROUPE_EXISTS,
            "decay counts now in trials that were begun before, and it is not known");
    troupe_space_free(&bare);
    troupe_space *second = parsed("{\"x\": {\"uniform\": [0, 1]}, \"n\": {\"integer\": [1, 9]}, "
                                  "\"decay\": {\"uniform\": [0, 1], \"before\": 0.25}}");
    ok(open_in(second, troupe_search_random(), 8, &study));
    run(study, 8);
    for (size_t i = 0; i < 4; i++) {
        const troupe_study_trial *trial = troupe_study_trial_at(study, i);
        assert_non_null(strstr(trial->config, "\"n\": 3, \"decay\": 0.25}"));
    }
    troupe_study_free(&study);
    // The file may lose the word again: the record has it.
    bare = parsed("{\"x\": {\"uniform\": [0, 1]}, \"n\": {\"integer\": [1, 9]}, "
                  "\"decay\": {\"uniform\": [0, 1]}}");
    ok(open_in(bare, troupe_search_random(), 8, &study));
    assert_true(troupe_study_trial_at(study, 0)->x[2] == 0.25);
    troupe_study_free(&study);
    troupe_space_free(&bare);
    troupe_space_free(&second);
    refused(troupe_space_parse("{\"x\": {\"uniform\": [0, 1], \"before\": 2}}", &bare),
            TROUPE_INVALID, "before: x is 2");
}

// ---- points to try first

// Points to try first are the record's, with what new rows were.
static void test_points_to_try_first(void **state)
{
    (void)state;
    const study_config base = {.y = 4}, one = {.x = 0.5, .y = 4}, other = {.x = 0.75, .y = 4};
    const void *const first[] = {&one, &other}, *const wrong[] = {&one, &one};
    troupe_study *study;
    troupe_asked asked;
    troupe_space *spaces[] = {SPACE(&base, X(0, 1)), SPACE(&base, X(0, 2), Y(0, 8))};
    begin();
    ok(troupe_study_open(spaces[0], &study, .file = path, .trials = 4, .first = first,
                         .first_count = 2));
    ok(troupe_study_ask(study, &asked));
    troupe_study_free(&study);
    refused(troupe_study_open(spaces[1], &study, .file = path, .open = TROUPE_OPEN_RESUME,
                              .trials = 4, .first = wrong, .first_count = 2),
            TROUPE_EXISTS, "other points to try first");
    ok(troupe_study_open(spaces[1], &study, .file = path, .open = TROUPE_OPEN_RESUME, .trials = 4,
                         .first = first, .first_count = 2));
    for (int i = 0; i < 2; i++) {
        ok(troupe_study_ask(study, &asked));
        assert_true(asked.x[0] == (i == 0 ? 0.5 : 0.75) && asked.x[1] == 4);
    }
    troupe_study_free(&study);
    troupe_space_free(&spaces[0]);
    troupe_space_free(&spaces[1]);
}

static troupe_status open_first(const troupe_space *in, const char *first, troupe_study **study)
{
    const void *const all[] = {first};
    return troupe_study_open(in, study, .file = path, .open = TROUPE_OPEN_RESUME_OR_NEW,
                             .trials = 4, .searcher = troupe_search_random(), .first = all,
                             .first_count = 1);
}

// What a point leaves out was drawn, from what was the space then.
static void test_points_that_leave_something_out(void **state)
{
    (void)state;
    troupe_study *study;
    double drawn[2];
    troupe_space *spaces[] = {
        parsed("{\"rate\": {\"uniform\": [0, 1]}, \"depth\": {\"uniform\": [1, 4]}, "
               "\"kind\": {\"choice\": [1, 2, 3, 4, 5]}}"),
        parsed("{\"new\": {\"uniform\": [0, 1], \"before\": 0.5}, "
               "\"rate\": {\"uniform\": [0, 1]}, \"depth\": {\"uniform\": [1, 8]}, "
               "\"kind\": {\"choice\": [1, 2, 3, 4, 5, 6, 7, 8, 9]}}")};
    begin();
    ok(open_first(spaces[0], "{\"rate\": 0.25}", &study));
    run(study, 2);
    memcpy(drawn, troupe_study_trial_at(study, 0)->x + 1, sizeof drawn);
    troupe_study_free(&study);
    for (int life = 0; life < 2; life++) {
        ok(open_first(spaces[1], "{\"rate\": 0.25}", &study));
        const double *x = troupe_study_trial_at(study, 0)->x;
        assert_true(x[0] == 0.5 && x[1] == 0.25);
        assert_memory_equal(x + 2, drawn, sizeof drawn);
        troupe_study_free(&study);
    }
    refused(open_first(spaces[1], "{\"rate\": 0.5}", &study), TROUPE_EXISTS,
            "other points to try first");
    refused(open_first(spaces[1], "{\"rate\": 0.25, \"depth\": 1}", &study), TROUPE_EXISTS,
            "other points to try first");
    // It was 0.5, whatever it is to be now.
    refused(open_first(spaces[1], "{\"rate\": 0.25, \"new\": 0.75}", &study), TROUPE_EXISTS,
            "other points to try first");
    ok(open_first(spaces[1], "{\"rate\": 0.25, \"new\": 0.5}", &study));
    troupe_study_free(&study);
    troupe_space_free(&spaces[0]);
    troupe_space_free(&spaces[1]);
}

static double widest;

static bool is_narrow(void *user, const void *config)
{
    (void)user;
    return strtod(strstr(config, "\"depth\": ") + 9, NULL) <= widest;
}

// It is the record's point that is to be allowed, not one that the larger space would draw.
static void test_an_allowed_point_to_try_first(void **state)
{
    (void)state;
    troupe_study *study;
    const void *const first[] = {"{\"rate\": 0.25}"};
    troupe_study_options how = {.size = sizeof how,
                                .file = path,
                                .trials = 1,
                                .first = first,
                                .first_count = 1,
                                .open = TROUPE_OPEN_RESUME_OR_NEW,
                                .allowed = is_narrow};
    troupe_space *spaces[] = {
        parsed("{\"rate\": {\"uniform\": [0, 1]}, \"depth\": {\"uniform\": [1, 4]}}"),
        parsed("{\"rate\": {\"uniform\": [0, 1]}, \"depth\": {\"uniform\": [1, 400]}}")};
    begin();
    widest = 4;
    ok(troupe_study_open_with(spaces[0], &study, &how));
    run(study, 1);
    troupe_study_free(&study);
    how.trials = 1;
    ok(troupe_study_open_with(spaces[1], &study, &how));
    troupe_study_free(&study);
    widest = 0;
    refused(troupe_study_open_with(spaces[1], &study, &how), TROUPE_INVALID,
            ".first[0] is a config that .allowed does not allow");
    troupe_space_free(&spaces[0]);
    troupe_space_free(&spaces[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_larger_space),
        cmocka_unit_test(test_it_goes_on_the_same),
        cmocka_unit_test(test_new_rows_have_what_was),
        cmocka_unit_test(test_a_row_of_a_new_choice),
        cmocka_unit_test(test_grids),
        cmocka_unit_test(test_a_scheduler),
        cmocka_unit_test(test_json_says_what_was),
        cmocka_unit_test(test_points_to_try_first),
        cmocka_unit_test(test_points_that_leave_something_out),
        cmocka_unit_test(test_an_allowed_point_to_try_first),
    };
    return cmocka_run_group_tests(tests, open_study_tests, close_study_tests);
}
