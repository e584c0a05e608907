// test_spaces.c: studies that go on in a larger space, and those that cannot.
#include "study_tests.h"

#include <limits.h>
#include <runtime/base/memory.h>
#include <troupe/schedule.h>
#include <tune/study/study.h>

#define ROWS(...) ((const troupe_param[]){__VA_ARGS__})
#define X(low, high) TROUPE_UNIFORM(study_config, x, low, high)
#define Y(low, high) TROUPE_UNIFORM(study_config, y, low, high)
#define WIDTH(low, high) TROUPE_INTEGER(study_config, width, low, high, .step = 16)
#define KIND(...) TROUPE_CHOICE_TEXT(study_config, kind, __VA_ARGS__)
#define SPACE(base, ...)                                                                           \
    made(ROWS(__VA_ARGS__), sizeof(ROWS(__VA_ARGS__)) / sizeof(troupe_param), (base))

static troupe_space *made(const troupe_param *rows, size_t count, const study_config *base)
{
    troupe_space *it;
    ok(troupe_space_open_as(&troupe_type_study_config, rows, count, base, &it));
    return it;
}

static troupe_space *parsed(const char *json)
{
    troupe_space *it;
    ok(troupe_space_parse(json, &it));
    return it;
}

static troupe_status open_in(const troupe_space *in, troupe_searcher *searcher, int trials,
                             troupe_study **study)
{
    return troupe_study_open(in, study, .file = path, .open = TROUPE_OPEN_RESUME_OR_NEW,
                             .trials = trials, .searcher = searcher);
}

static double number_of(const troupe_asked *asked, int index)
{
    return asked->x[index];
}

// Asks and tells until the study is at its end, or has so many trials.
static void run(troupe_study *study, int count)
{
    troupe_asked asked;
    while ((int)troupe_study_count(study) < count && troupe_study_ask(study, &asked) == TROUPE_OK)
        ok(troupe_study_tell(study, asked.number, fabs(number_of(&asked, 0) - 7)));
}

// A life of the study in that space.
static void live(troupe_space *in, troupe_searcher *searcher, int trials)
{
    troupe_study *study;
    ok(open_in(in, searcher, trials, &study));
    run(study, INT_MAX);
    troupe_study_free(&study);
}

static void live_in(troupe_space *in, int trials)
{
    live(in, troupe_search_random(), trials);
    troupe_space_free(&in);
}

static void begin(void)
{
    unlink(path);
}

static troupe_space *small(void)
{
    return SPACE(NULL, X(0, 1), WIDTH(16, 64), KIND("plain", "tall"));
}

static troupe_space *large(void)
{
    return SPACE(NULL, X(-10, 20), WIDTH(0, 96), KIND("plain", "tall", "wide"));
}

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

// ---- what is less, or something else

static void test_what_is_no_extension(void **state)
{
    (void)state;
    static const struct {
        const char *json, *part;
    } wrong[] = {
        {"{\"x\": {\"uniform\": [0, 0.5]}, \"n\": {\"integer\": [2, 8], \"step\": 2}, \"k\": "
         "{\"choice\": [1, 2]}}",
         "x was {\"uniform\": [0, 1]} and is {\"uniform\": [0, 0.5]}, which has not all of it"},
        {"{\"x\": {\"uniform\": [0.1, 2]}, \"n\": {\"integer\": [2, 8], \"step\": 2}, \"k\": "
         "{\"choice\": [1, 2]}}",
         "x was"},
        {"{\"x\": {\"log_uniform\": [0.1, 2]}, \"n\": {\"integer\": [2, 8], \"step\": 2}, \"k\": "
         "{\"choice\": [1, 2]}}",
         "x was"},
        {"{\"x\": {\"uniform\": [0, 2], \"step\": 0.5}, \"n\": {\"integer\": [2, 8], \"step\": 2}, "
         "\"k\": {\"choice\": [1, 2]}}",
         "x was"},
        {"{\"x\": {\"uniform\": [0, 1]}, \"n\": {\"integer\": [1, 9], \"step\": 2}, \"k\": "
         "{\"choice\": [1, 2]}}",
         "n was"},
        {"{\"x\": {\"uniform\": [0, 1]}, \"n\": {\"integer\": [2, 8], \"step\": 3}, \"k\": "
         "{\"choice\": [1, 2]}}",
         "n was"},
        {"{\"x\": {\"uniform\": [0, 1]}, \"n\": 4, \"k\": {\"choice\": [1, 2]}}", "n was"},
        {"{\"x\": {\"uniform\": [0, 1]}, \"n\": {\"integer\": [2, 8], \"step\": 2}, \"k\": "
         "{\"choice\": [2, 1]}}",
         "k was"},
        {"{\"x\": {\"uniform\": [0, 1]}, \"n\": {\"integer\": [2, 8], \"step\": 2}, \"k\": "
         "{\"ordered\": [1, 2]}}",
         "k was"},
        {"{\"x\": {\"uniform\": [0, 1]}, \"n\": {\"integer\": [2, 8], \"step\": 2}}",
         "its row 2 was k and is missing"},
        {"{\"n\": {\"integer\": [2, 8], \"step\": 2}, \"x\": {\"uniform\": [0, 1]}, \"k\": "
         "{\"choice\": [1, 2]}}",
         "its row 0 was x and is at another place"},
        {"{\"x\": {\"uniform\": [0, 1]}, \"n\": {\"integer\": [2, 8], \"step\": 2}, \"k\": "
         "{\"choice\": [1, 2]}, \"y\": {\"uniform\": [0, 1]}, \"z\": {\"uniform\": [0, 1]}}",
         "y counts now in trials"},
    };
    troupe_study *study;
    begin();
    live_in(parsed("{\"x\": {\"uniform\": [0, 1]}, \"n\": {\"integer\": [2, 8], \"step\": 2}, "
                   "\"k\": {\"choice\": [1, 2]}}"),
            3);
    char *before = support_read_file(path);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        troupe_space *it = parsed(wrong[i].json);
        refused(open_in(it, troupe_search_random(), 9, &study), TROUPE_EXISTS, wrong[i].part);
        troupe_space_free(&it);
        char *after = support_read_file(path);
        assert_string_equal(after, before);
        free(after);
    }
    free(before);
}

static void test_what_hangs_on_the_space(void **state)
{
    (void)state;
    troupe_study *study;
    troupe_space *first = small(), *second = large();
    begin();
    live(first, troupe_search_grid(2), 3);
    refused(open_in(second, troupe_search_grid(2), 9, &study), TROUPE_EXISTS, "numbers its points");
    begin();
    ok(open_in(first, troupe_search_random(), 3, &study));
    troupe_asked asked;
    troupe_act act;
    ok(troupe_study_ask(study, &asked));
    ok(troupe_study_report(study, 0, 1, &act));
    troupe_study_free(&study);
    char *text = support_read_file(path), *at = strstr(text, "\"ranks\"");
    char *cloned = malloc(strlen(text) + 200);
    sprintf(cloned, "%.*s\"act\": \"clone\", \"source\": 0, \"point\": [0, 16, 0], %s",
            (int)(at - text), text, at);
    support_write_file(path, cloned, strlen(cloned));
    refused(open_in(second, troupe_search_random(), 3, &study), TROUPE_EXISTS, "were clones in it");
    free(cloned);
    free(text);
    troupe_space_free(&first);
    troupe_space_free(&second);
}

// Nothing is put down before all is there that it needs.
static void test_no_memory(void **state)
{
    (void)state;
    const study_config base = {.y = 4, .kind = "plain"};
    troupe_study *study = NULL;
    troupe_space *first = parsed("{\"a\": {\"grid\": [1, 2]}, \"x\": {\"uniform\": [0, 1]}}");
    troupe_space *second = parsed("{\"a\": {\"grid\": [1, 2, 3]}, \"x\": {\"uniform\": [0, 2]}, "
                                  "\"y\": {\"uniform\": [0, 1], \"before\": 0.5}}");
    troupe_space *typed[] = {SPACE(&base, X(0, 1), KIND("plain")),
                             SPACE(&base, X(0, 1), Y(0, 8), KIND("plain", "tall"))};
    for (int kind = 0; kind < 2; kind++) {
        begin();
        live(kind == 0 ? first : typed[0], troupe_search_random(), 3);
        char *before = support_read_file(path);
        troupe_status status;
        int failures = 0;
        do {
            troupe_searcher *searcher = troupe_search_random();
            trp_memory_fail_after(failures);
            status = open_in(kind == 0 ? second : typed[1], searcher, 3, &study);
            trp_memory_fail_after(-1);
            char *after = support_read_file(path);
            if (status != TROUPE_OK) {
                refused(status, TROUPE_NO_MEMORY, "");
                assert_string_equal(after, before);
            }
            free(after);
        } while (status != TROUPE_OK && ++failures < 1000);
        assert_in_range(failures, 20, 999);
        run(study, INT_MAX);
        troupe_study_free(&study);
        free(before);
    }
    troupe_space_free(&first), troupe_space_free(&second);
    troupe_space_free(&typed[0]), troupe_space_free(&typed[1]);
}

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

// An opening that is refused for something else has not enlarged the record.
static void test_what_is_refused_enlarges_nothing(void **state)
{
    (void)state;
    troupe_study *study;
    troupe_space *first = small(), *second = large();
    begin();
    live(first, troupe_search_random(), 6);
    char *before = support_read_file(path);
    refused(open_in(second, troupe_search_random(), 3, &study), TROUPE_INVALID,
            "3 trials are fewer than the 6");
    char *after = support_read_file(path);
    assert_string_equal(after, before);
    ok(open_in(first, troupe_search_random(), 6, &study));
    troupe_study_free(&study);
    free(after);
    free(before);
    troupe_space_free(&first);
    troupe_space_free(&second);
}

// Opens a sweep's study in that space; *record is its file.
static troupe_status open_of_sweep(const troupe_space *in, int trials, trp_tune_record **record,
                                   troupe_study **study)
{
    trp_buffer lines = {0};
    const troupe_study_options how = {
        .size = sizeof how, .trials = trials, .searcher = troupe_search_random()};
    ok(trp_tune_record_open(path, TROUPE_OPEN_RESUME_OR_NEW, &lines, record));
    const trp_study_past past = {.lines = (const char *)lines.data, .size = lines.size};
    troupe_status status = trp_study_open(in, &how, *record, lines.size > 0 ? &past : NULL, study);
    trp_buffer_free(&lines);
    if (status != TROUPE_OK)
        trp_tune_record_close(record);
    return status;
}

static void close_of_sweep(trp_tune_record **record, troupe_study **study)
{
    troupe_study_free(study);
    trp_tune_record_close(record);
}

// Before that it may find that it cannot.
static void test_a_sweep_says_that_it_goes_on(void **state)
{
    (void)state;
    trp_tune_record *record;
    troupe_study *study;
    trp_next next;
    troupe_space *first = small(), *second = large();
    begin();
    ok(open_of_sweep(first, 4, &record, &study));
    ok(trp_study_next(study, true, &next));
    close_of_sweep(&record, &study);
    char *before = support_read_file(path);
    ok(open_of_sweep(second, 6, &record, &study));
    trp_study_opened(study);
    trp_study_opened(study);
    close_of_sweep(&record, &study);
    char *opened = support_read_file(path);
    assert_non_null(strstr(opened, "{\"event\": \"space\""));
    assert_non_null(strstr(opened, "}\n{\"event\": \"extend\", \"trials\": 6}\n"));
    support_write_file(path, before, strlen(before));
    ok(open_of_sweep(second, 6, &record, &study));
    close_of_sweep(&record, &study);
    char *after = support_read_file(path);
    assert_string_equal(after, before);
    free(after);
    // What it does is behind that, also before it says so.
    ok(open_of_sweep(second, 6, &record, &study));
    ok(trp_study_end(study, 0, TROUPE_ENDING_FAILED, NULL, 0, "lost", NULL));
    close_of_sweep(&record, &study);
    after = support_read_file(path);
    assert_memory_equal(after, opened, strlen(opened));
    assert_non_null(strstr(after, "\"lost\""));
    free(after);
    free(opened);
    free(before);
    troupe_space_free(&first);
    troupe_space_free(&second);
}

// ---- rows with one value

// A study of three trials, with "opt" 1 and 2 among them.
static void begin_fixed(const char *json)
{
    troupe_study *study;
    troupe_space *in = parsed(json);
    int had[2] = {0};
    begin();
    ok(open_in(in, troupe_search_random(), 8, &study));
    run(study, 8);
    for (size_t i = 0; i < 8; i++)
        had[(int)troupe_study_trial_at(study, i)->x[0]]++;
    assert_true(had[0] > 0 && had[1] > 0);
    troupe_study_free(&study);
    troupe_space_free(&in);
}

// What the configs of trials before have of such a row stays what it was.
static void test_fixed_rows_that_count_elsewhere(void **state)
{
    (void)state;
    static const struct {
        const char *was, *is;
        const char *part; // NULL: it is taken.
    } all[] = {
        {"", "\"k\": {\"fixed\": 7, \"when\": {\"opt\": 1}}", "k is new and has one value, 7"},
        {"", "\"k\": {\"fixed\": 7, \"when\": {\"opt\": 3}}", NULL},
        {"", "\"k\": {\"fixed\": 7, \"when\": {\"opt\": 1}, \"before\": 7}", NULL},
        {"\"k\": {\"fixed\": 7, \"when\": {\"opt\": 1}}", "\"k\": 7", "k counts now in trials"},
        {"\"k\": {\"fixed\": 7, \"when\": {\"opt\": 1}}",
         "\"k\": {\"fixed\": 7, \"when\": {\"opt\": [1, 2]}}", "k counts now in trials"},
        {"\"k\": {\"fixed\": 7, \"when\": {\"opt\": 1}}",
         "\"k\": {\"fixed\": 7, \"when\": {\"opt\": [1, 3]}}", NULL},
        {"\"k\": {\"fixed\": 7, \"when\": {\"opt\": 1}}", "\"k\": {\"integer\": [1, 9]}",
         "k counts now in trials"},
        {"\"k\": {\"fixed\": 7, \"when\": {\"opt\": 1}}",
         "\"k\": {\"integer\": [1, 9], \"when\": {\"opt\": 1}}", NULL},
        {"\"k\": 7", "\"k\": {\"fixed\": 7, \"when\": {\"opt\": 1}}", "k counts no more"},
        {"\"k\": 7", "\"k\": {\"integer\": [1, 9], \"when\": {\"opt\": 1}}", "k counts no more"},
        {"\"k\": 7", "\"k\": {\"fixed\": 7, \"when\": {\"opt\": [1, 2]}}", NULL},
    };
    char was[200], is[200];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        troupe_study *study = NULL;
        snprintf(was, sizeof was, "{\"opt\": {\"choice\": [1, 2]}%s%s}",
                 all[i].was[0] != '\0' ? ", " : "", all[i].was);
        snprintf(is, sizeof is, "{\"opt\": {\"choice\": [1, 2, 3]}, %s}", all[i].is);
        begin_fixed(was);
        troupe_space *second = parsed(is);
        troupe_status status = open_in(second, troupe_search_random(), 8, &study);
        if (all[i].part != NULL)
            refused(status, TROUPE_EXISTS, all[i].part);
        else if (status != TROUPE_OK)
            fail_msg("%s, %s: %s", was, is, troupe_last_error()->text);
        troupe_study_free(&study);
        troupe_space_free(&second);
    }
}

// What hung on a row that was fixed counted wherever that did.
static void test_a_fixed_row_that_others_hang_on(void **state)
{
    (void)state;
    troupe_study *study;
    begin();
    live_in(parsed("{\"opt\": {\"choice\": [1]}, \"x\": {\"uniform\": [0, 1]}, "
                   "\"k\": {\"fixed\": 7, \"when\": {\"opt\": 1}}}"),
            3);
    troupe_space *second = parsed("{\"opt\": {\"choice\": [1, 2]}, \"x\": {\"uniform\": [0, 1]}, "
                                  "\"k\": {\"fixed\": 7, \"when\": {\"opt\": 1}}, "
                                  "\"new\": {\"fixed\": 1, \"when\": {\"opt\": 2}}}");
    ok(open_in(second, troupe_search_random(), 3, &study));
    for (size_t i = 0; i < 3; i++) {
        const char *config = troupe_study_trial_at(study, i)->config;
        assert_non_null(strstr(config, "\"k\": 7}"));
    }
    troupe_study_free(&study);
    troupe_space_free(&second);
}

// ---- grids that become larger than the numbers of trials allow

static void write_grid(char *text, size_t room, int first, int second)
{
    size_t at = 0;
    for (int row = 0; row < 2; row++) {
        at += (size_t)snprintf(text + at, room - at,
                               row == 0 ? "{\"a\": {\"grid\": [" : "]}, \"b\": {\"grid\": [");
        for (int i = 0; i < (row == 0 ? first : second); i++)
            at += (size_t)snprintf(text + at, room - at, "%s%d", i > 0 ? ", " : "", i);
    }
    snprintf(text + at, room - at, "]}}");
}

// 40,000 trials of each of 4 combinations are as many as 10,000 of 65,536 are too many of.
static void test_more_combinations_than_trials(void **state)
{
    (void)state;
    static char text[8192];
    troupe_study *study;
    write_grid(text, sizeof text, 2, 2);
    troupe_space *first = parsed(text);
    write_grid(text, sizeof text, 256, 256);
    troupe_space *second = parsed(text);
    refused(open_in(second, NULL, 40000, &study), TROUPE_INVALID,
            "40000 trials for each of the 65536 combinations");
    // What was added to a sweep is more than what it begins with.
    trp_tune_record *record;
    begin();
    ok(open_of_sweep(first, 1, &record, &study));
    ok(trp_study_extend_by(study, 49999));
    close_of_sweep(&record, &study);
    refused(open_of_sweep(second, 1, &record, &study), TROUPE_EXISTS,
            "has 50000 trials for each combination of grids, of which there are 65536 now: "
            "expected at most 32767");
    begin();
    ok(open_in(first, NULL, 40000, &study));
    run(study, 5);
    troupe_study_free(&study);
    ok(open_in(first, NULL, 50000, &study));
    troupe_study_free(&study);
    for (int life = 0; life < 3; life++) {
        ok(open_in(second, NULL, 2, &study));
        run(study, 10 + life);
        assert_int_equal(troupe_study_count(study), 10 + life);
        troupe_study_free(&study);
    }
    troupe_space_free(&first);
    troupe_space_free(&second);
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
        cmocka_unit_test(test_what_is_no_extension),
        cmocka_unit_test(test_what_hangs_on_the_space),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_points_to_try_first),
        cmocka_unit_test(test_points_that_leave_something_out),
        cmocka_unit_test(test_an_allowed_point_to_try_first),
        cmocka_unit_test(test_what_is_refused_enlarges_nothing),
        cmocka_unit_test(test_a_sweep_says_that_it_goes_on),
        cmocka_unit_test(test_fixed_rows_that_count_elsewhere),
        cmocka_unit_test(test_a_fixed_row_that_others_hang_on),
        cmocka_unit_test(test_more_combinations_than_trials),
    };
    return cmocka_run_group_tests(tests, open_study_tests, close_study_tests);
}
