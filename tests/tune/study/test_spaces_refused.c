// test_spaces_refused.c: studies that cannot go on in another space, or just so.
#include "spaces.h"

#include <runtime/base/memory.h>
#include <tune/study/study.h>

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
        cmocka_unit_test(test_what_is_no_extension),
        cmocka_unit_test(test_what_hangs_on_the_space),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_what_is_refused_enlarges_nothing),
        cmocka_unit_test(test_a_sweep_says_that_it_goes_on),
        cmocka_unit_test(test_fixed_rows_that_count_elsewhere),
        cmocka_unit_test(test_a_fixed_row_that_others_hang_on),
        cmocka_unit_test(test_more_combinations_than_trials),
    };
    return cmocka_run_group_tests(tests, open_study_tests, close_study_tests);
}
