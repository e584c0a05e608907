// test_warm.c: what a study learns from the files of others before it begins.
#include "study_tests.h"

#include <tune/study/study.h>

// A searcher that notes what it is told.
typedef struct listener {
    troupe_searcher base;
    int given, observed;
    double sum, x[64][4], score[64];
    troupe_ending ending[64];
} listener;

static troupe_status listen_suggest(troupe_searcher *self, int number, double *x)
{
    const listener *l = (listener *)self;
    memcpy(x, (double[]){0, (double)(number + l->observed % 3), 32, 0}, 4 * sizeof *x);
    return TROUPE_OK;
}

static troupe_status listen_given(troupe_searcher *self, int number, const double *x)
{
    listener *l = (listener *)self;
    if (number < 0) {
        assert_int_equal(number, -1 - l->given);
        memcpy(l->x[l->given], x, sizeof l->x[0]);
        l->given++;
    }
    return TROUPE_OK;
}

static troupe_status listen_observe(troupe_searcher *self, const troupe_observation *o)
{
    listener *l = (listener *)self;
    if (o->number < 0) {
        assert_int_equal(l->given, l->observed + 1); // One after the other.
        assert_memory_equal(o->x, l->x[l->observed], sizeof l->x[0]);
        l->ending[l->observed] = o->ending;
        l->score[l->observed++] = o->scores[0];
    }
    return TROUPE_OK;
}

static void listen_destroy(troupe_searcher *self)
{
    (void)self;
}

static listener new_listener(void)
{
    return (listener){.base = {.abi = TROUPE_ABI,
                               .name = "listener",
                               .suggest = listen_suggest,
                               .given = listen_given,
                               .observe = listen_observe,
                               .destroy = listen_destroy}};
}

static char *earlier_path;

// Trials: 0 complete, 1 failed, 2 stopped by its scheduler or complete, 3 complete, 4 runs.
static void make_earlier(void)
{
    troupe_study *study;
    troupe_asked asked;
    troupe_act act;
    earlier_path = support_path(folder, "earlier.jsonl");
    unlink(earlier_path);
    ok(troupe_study_open(space, &study, .file = earlier_path, .searcher = troupe_search_random(),
                         .scheduler = troupe_asha(.grace = 1, .reduction = 2, .limit = 9)));
    for (int i = 0; i < 5; i++)
        ok(troupe_study_ask(study, &asked));
    ok(troupe_study_report(study, 0, 7, &act));
    ok(troupe_study_tell(study, 0, 6));
    ok(troupe_study_tell_failed(study, 1, "no luck"));
    ok(troupe_study_report(study, 2, 9, &act));
    assert_int_equal(act, TROUPE_ACT_STOP);
    ok(troupe_study_tell(study, 3, 1));
    troupe_study_free(&study);
}

static void test_trials_that_ended_are_learned_from(void **state)
{
    (void)state;
    troupe_study *study, *before;
    troupe_asked asked;
    make_earlier();
    ok(troupe_study_open(space, &before, .file = earlier_path, .searcher = troupe_search_random(),
                         .scheduler = troupe_asha(.grace = 1, .reduction = 2, .limit = 9),
                         .open = TROUPE_OPEN_RESUME));
    listener l = new_listener();
    const char *const warm[] = {earlier_path};
    unlink(path);
    ok(troupe_study_open(space, &study, .file = path, .searcher = &l.base, .warm = warm,
                         .warm_count = 1));
    static const int number[] = {0, 1, 2, 3};
    static const troupe_ending ending[] = {TROUPE_ENDING_COMPLETE, TROUPE_ENDING_FAILED,
                                           TROUPE_ENDING_STOPPED, TROUPE_ENDING_COMPLETE};
    static const double score[] = {6, NAN, 9, 1};
    assert_int_equal(l.observed, 4);
    for (int i = 0; i < 4; i++) {
        const troupe_study_trial *trial = troupe_study_trial_at(before, (size_t)number[i]);
        assert_memory_equal(l.x[i], trial->x, sizeof l.x[0]);
        assert_int_equal(l.ending[i], ending[i]);
        assert_true(l.score[i] == score[i] || (isnan(score[i]) && isnan(l.score[i])));
    }
    ok(troupe_study_ask(study, &asked)); // They are none of its own.
    assert_int_equal(asked.number, 0);
    assert_int_equal(troupe_study_count(study), 1);
    assert_null(troupe_study_best(study));
    troupe_study_free(&study);
    troupe_study_free(&before);

    // In its next life they are in its own file.
    unlink(earlier_path);
    listener again = new_listener();
    ok(troupe_study_open(space, &study, .file = path, .searcher = &again.base, .warm = warm,
                         .warm_count = 1, .open = TROUPE_OPEN_RESUME));
    assert_int_equal(again.observed, 4);
    assert_memory_equal(again.x, l.x, sizeof l.x);
    troupe_study_free(&study);
    free(earlier_path);
}

// Killed while it began: what is not whole is begun anew.
static void test_a_beginning_that_is_not_whole(void **state)
{
    (void)state;
    troupe_study *study;
    make_earlier();
    const char *const warm[] = {earlier_path};
    listener l = new_listener();
    unlink(path);
    ok(troupe_study_open(space, &study, .file = path, .searcher = &l.base, .warm = warm,
                         .warm_count = 1));
    troupe_study_free(&study);
    char *text = support_read_file(path);
    size_t size = strlen(text);
    for (size_t left = 0; left <= size; left++) {
        listener now = new_listener();
        support_write_file(path, text, left);
        ok(troupe_study_open(space, &study, .file = path, .searcher = &now.base, .warm = warm,
                             .warm_count = 1, .open = TROUPE_OPEN_RESUME));
        assert_int_equal(now.observed, 4);
        troupe_study_free(&study);
        char *whole = support_read_file(path);
        assert_string_equal(whole, text);
        free(whole);
    }
    free(text);
    free(earlier_path);
}

static void learn(const char *lines, int expected, listener *l)
{
    troupe_study *study;
    earlier_path = support_path(folder, "earlier.jsonl");
    const char *const warm[] = {earlier_path};
    support_write_file(earlier_path, lines, strlen(lines));
    *l = new_listener();
    ok(troupe_study_open(space, &study, .searcher = &l->base, .warm = warm, .warm_count = 1));
    assert_int_equal(l->observed, expected);
    troupe_study_free(&study);
    free(earlier_path);
}

// Of another space: by the names of its rows.
static void test_trials_of_other_spaces(void **state)
{
    (void)state;
    listener l;
    learn("{\"event\": \"study\", \"version\": 1, \"goals\": [\"minimize\"]}\n"
          "{\"event\": \"suggest\", \"trial\": 0, \"x\": [1], \"params\": {\"kind\": \"tall\", "
          "\"width\": 48, \"y\": 2, \"x\": 1, \"more\": [1]}}\n"
          "{\"event\": \"end\", \"trial\": 0, \"ending\": \"complete\", \"values\": [5]}\n"
          // It lacks a row, it has a value that the row cannot draw, it runs still.
          "{\"event\": \"suggest\", \"trial\": 1, \"params\": {\"kind\": \"tall\", \"y\": 2, "
          "\"x\": 1}}\n"
          "{\"event\": \"end\", \"trial\": 1, \"ending\": \"complete\", \"values\": [5]}\n"
          "{\"event\": \"suggest\", \"trial\": 2, \"params\": {\"kind\": \"tall\", \"width\": 49, "
          "\"y\": 2, \"x\": 1}}\n"
          "{\"event\": \"end\", \"trial\": 2, \"ending\": \"complete\", \"values\": [5]}\n"
          "{\"event\": \"suggest\", \"trial\": 3, \"params\": {\"kind\": \"tall\", \"width\": 48, "
          "\"y\": 2, \"x\": 1}}\n"
          "not JSON\n"
          "{\"event\": \"suggest\", \"trial\": 99999999, \"params\": {\"kind\": \"tall\"}}\n"
          "{\"event\": \"end\", \"trial\": 99, \"ending\": \"complete\", \"values\": [5]}\n"
          "{\"event\": \"report\", \"trial\": 3, \"number\": 1, \"values\": [3]}\n"
          "{\"event\": \"report\", \"trial\": 3, \"number\": 2, \"values\": [4]}\n"
          "{\"event\": \"over\", \"trial\": 3, \"fresh\": true}\n"
          "{\"event\": \"end\", \"trial\": 0, \"ending\": \"comp",
          2, &l);
    assert_true(l.score[0] == 5 && l.score[1] == 3);
    assert_int_equal(l.ending[1], TROUPE_ENDING_STOPPED);
    assert_memory_equal(l.x[0], ((double[]){1, 2, 48, 1}), sizeof l.x[0]);
}

// As sweeps of older versions wrote them.
static void test_trials_of_sweeps(void **state)
{
    (void)state;
    listener l;
    learn("{\"event\": \"sweep\", \"trainer\": \"fit\", \"metric\": \"loss\", \"goal\": "
          "\"minimize\", \"trials\": 2}\n"
          "{\"event\": \"submitted\", \"trial\": \"fit_3d3d1_00000\", \"config\": {\"x\": 1, "
          "\"y\": 2, \"width\": 16, \"kind\": \"plain\", \"epochs\": 9}}\n"
          "{\"event\": \"report\", \"trial\": \"fit_3d3d1_00000\", \"number\": 1, \"elapsed_s\": "
          "0.5, \"metrics\": {\"loss\": 4}}\n"
          "{\"event\": \"submitted\", \"trial\": \"fit_3d3d1_00001\", \"config\": {\"x\": 2, "
          "\"y\": 2, \"width\": 16, \"kind\": \"plain\", \"epochs\": 9}}\n"
          "{\"event\": \"end\", \"trial\": \"fit_3d3d1_00001\", \"state\": \"STOPPED\", "
          "\"reports\": 1, \"best\": 7.5, \"error\": \"\"}\n"
          "{\"event\": \"end\", \"trial\": \"fit_3d3d1_00000\", \"state\": \"ERROR\", "
          "\"reports\": 1, \"best\": 4, \"error\": \"it fell\"}\n",
          2, &l);
    assert_true(l.score[0] == 7.5 && isnan(l.score[1]));
    assert_int_equal(l.ending[0], TROUPE_ENDING_STOPPED);
    assert_int_equal(l.ending[1], TROUPE_ENDING_FAILED);
    assert_memory_equal(l.x[0], ((double[]){2, 2, 16, 0}), sizeof l.x[0]);
}

// As sweeps write them: their own lines stand among those of their study.
static void test_trials_of_sweeps_with_a_study(void **state)
{
    (void)state;
    listener l;
    learn("{\"event\": \"sweep\", \"trainer\": \"fit\", \"metric\": \"loss\", \"goal\": "
          "\"maximize\", \"trials\": 2}\n"
          "{\"event\": \"study\", \"version\": 1, \"goals\": [\"minimize\"]}\n"
          "{\"event\": \"suggest\", \"trial\": 0, \"params\": {\"kind\": \"tall\", \"width\": 48, "
          "\"y\": 2, \"x\": 1}}\n"
          "{\"event\": \"submitted\", \"trial\": \"fit_3d3d1_00000\", \"config\": {\"x\": 9}}\n"
          "{\"event\": \"report\", \"trial\": 0, \"number\": 1, \"values\": [3], \"metrics\": "
          "{\"loss\": 3}}\n"
          "{\"event\": \"submitted\", \"trial\": \"fit_3d3d1_00000\", \"run\": 1, \"config\": "
          "{\"x\": 9}}\n"
          "{\"event\": \"end\", \"trial\": 0, \"ending\": \"complete\"}\n",
          1, &l);
    assert_true(l.score[0] == 3);
    assert_memory_equal(l.x[0], ((double[]){1, 2, 48, 1}), sizeof l.x[0]);
}

static void test_files_that_teach_nothing(void **state)
{
    (void)state;
    troupe_study *study;
    static const troupe_goal goals[2] = {TROUPE_MINIMIZE, TROUPE_MAXIMIZE};
    make_earlier();
    const char *const warm[] = {earlier_path}, *const directory[] = {folder};
    refused(
        troupe_study_open(space, &study, .goal = TROUPE_MAXIMIZE, .warm = warm, .warm_count = 1),
        TROUPE_INVALID, "other goals");
    refused(troupe_study_open(space, &study, .goals = goals, .goal_count = 2, .warm = warm,
                              .warm_count = 1),
            TROUPE_INVALID, "other goals");
    support_write_file(earlier_path, "a,b\n1,2\n", 8);
    refused(troupe_study_open(space, &study, .warm = warm, .warm_count = 1), TROUPE_INVALID,
            "has no study and no sweep");
    support_write_file(earlier_path, "", 0);
    refused(troupe_study_open(space, &study, .warm = warm, .warm_count = 1), TROUPE_INVALID,
            "has no study and no sweep");
    refused(troupe_study_open(space, &study, .warm = directory, .warm_count = 1), TROUPE_INVALID,
            "is no regular file");
    free(earlier_path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trials_that_ended_are_learned_from),
        cmocka_unit_test(test_a_beginning_that_is_not_whole),
        cmocka_unit_test(test_trials_of_other_spaces),
        cmocka_unit_test(test_trials_of_sweeps),
        cmocka_unit_test(test_trials_of_sweeps_with_a_study),
        cmocka_unit_test(test_files_that_teach_nothing),
    };
    return cmocka_run_group_tests(tests, open_study_tests, close_study_tests);
}
