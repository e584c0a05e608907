// test_options.c: what a study is opened with: points to try first, what is allowed, grids, spaces
// from JSON, and options that cannot be.
#include "study_tests.h"

#include <runtime/base/memory.h>
#include <tune/study/study.h>

// ---- points to try first

static void test_first_points(void **state)
{
    (void)state;
    static const study_config one = {1.5, 2.5, 48, "tall"}, two = {-5, 0, 16, "plain"};
    const void *const first[] = {&one, &two};
    troupe_study *study;
    troupe_asked asked;
    unlink(path);
    ok(troupe_study_open(space, &study, .first = first, .first_count = 2, .trials = 3,
                         .file = path));
    for (int i = 0; i < 2; i++) {
        const study_config *want = first[i];
        ok(troupe_study_ask(study, &asked));
        const study_config *got = asked.config;
        assert_true(got->x == want->x && got->y == want->y && got->width == want->width);
        assert_string_equal(got->kind, want->kind);
        if (i == 0) { // One of them is left to the next life.
            troupe_study_free(&study);
            ok(troupe_study_open(space, &study, .first = first, .first_count = 2, .trials = 3,
                                 .file = path, .open = TROUPE_OPEN_RESUME));
            ok(troupe_study_ask(study, &asked));
            assert_int_equal(asked.number, 0);
        }
        ok(troupe_study_tell(study, asked.number, i));
    }
    ok(troupe_study_ask(study, &asked));
    ok(troupe_study_tell(study, 2, 0));
    assert_int_equal(troupe_study_ask(study, &asked), TROUPE_END); // They count.
    troupe_study_free(&study);
    refused(troupe_study_open(space, &study, .first = first, .first_count = 1, .trials = 3,
                              .file = path, .open = TROUPE_OPEN_RESUME),
            TROUPE_EXISTS, "other points to try first");

    study_config odd = {1.5, 2.5, 47, "tall"};
    const void *const none[] = {&one, &odd};
    refused(troupe_study_open(space, &study, .first = none, .first_count = 2), TROUPE_INVALID,
            "option .first[1]");
}

// ---- what is allowed

static int asked_about;

static bool is_small(void *user, const void *config)
{
    const study_config *c = config;
    asked_about++;
    return c->x + c->y < *(double *)user;
}

static void test_only_what_is_allowed_is_tried(void **state)
{
    (void)state;
    double limit = 0;
    troupe_searcher *(*const searchers[])(void) = {troupe_search_random, troupe_search_sobol};
    for (int i = 0; i < 2; i++) {
        troupe_study *study;
        troupe_asked asked;
        asked_about = 0;
        ok(troupe_study_open(space, &study, .searcher = searchers[i](), .allowed = is_small,
                             .user = &limit));
        for (int k = 0; k < 60; k++) {
            ok(troupe_study_ask(study, &asked));
            const study_config *c = asked.config;
            assert_true(c->x + c->y < 0);
        }
        assert_true(asked_about > 60);
        troupe_study_free(&study);
    }
}

static void test_nothing_is_allowed(void **state)
{
    (void)state;
    double limit = -100;
    troupe_study *study;
    troupe_asked asked;
    static const study_config one = {1.5, 2.5, 48, "tall"};
    const void *const first[] = {&one};
    ok(troupe_study_open(space, &study, .searcher = troupe_search_random(), .allowed = is_small,
                         .user = &limit));
    asked_about = 0;
    refused(troupe_study_ask(study, &asked), TROUPE_INVALID, "1000 that were drawn at random");
    assert_true(asked_about >= 1000 && asked_about < 10000);
    limit = 100;
    ok(troupe_study_ask(study, &asked));
    troupe_study_free(&study);
    limit = 0;
    refused(troupe_study_open(space, &study, .allowed = is_small, .user = &limit, .first = first,
                              .first_count = 1),
            TROUPE_INVALID, "option .first[0] is a config that .allowed does not allow");
}

// ---- grids, and spaces from JSON

static const char json[] =
    "{\"rate\": {\"log_uniform\": [1e-4, 1]}, \"layers\": {\"grid\": [1, 2, 3]},"
    " \"kind\": {\"grid\": [\"plain\", \"tall\"]}, \"depth\": {\"integer\": [1, 9],"
    " \"when\": {\"kind\": [\"tall\"]}}, \"epochs\": 81}";

static void test_each_combination_of_a_grid_has_its_turns(void **state)
{
    (void)state;
    troupe_space *of_json;
    troupe_study *study;
    troupe_asked asked;
    int counts[3][2] = {{0}}, number = 0;
    ok(troupe_space_parse(json, &of_json));
    unlink(path);
    ok(troupe_study_open(of_json, &study, .trials = 5, .searcher = troupe_search_random()));
    assert_int_equal(trp_study_trials(study), 30);
    for (; troupe_study_ask(study, &asked) == TROUPE_OK; number++) {
        assert_int_equal((int)asked.x[2], number % 2); // The last varies fastest.
        assert_int_equal((int)asked.x[1], number / 2 % 3);
        assert_true(isnan(asked.x[3]) == (asked.x[2] == 0)); // What hangs on it counts then.
        assert_true(isnan(asked.x[3]) || (asked.x[3] >= 1 && asked.x[3] <= 9));
        counts[(int)asked.x[1]][(int)asked.x[2]]++;
        ok(troupe_study_tell(study, asked.number, 1));
    }
    assert_int_equal(number, 30);
    for (int i = 0; i < 6; i++)
        assert_int_equal(counts[i / 2][i % 2], 5);
    troupe_study_free(&study);

    // A searcher of grids covers them itself.
    ok(troupe_study_open(of_json, &study, .searcher = troupe_search_grid(2)));
    memset(counts, 0, sizeof counts);
    for (number = 0; troupe_study_ask(study, &asked) == TROUPE_OK; number++)
        counts[(int)asked.x[1]][(int)asked.x[2]]++;
    assert_int_equal(number, 3 * 2 * (1 + 9)); // Of two rates; "tall" has nine depths.
    for (int i = 0; i < 6; i++)
        assert_int_equal(counts[i / 2][i % 2], i % 2 == 0 ? 2 : 18);
    troupe_study_free(&study);

    // Points to try first come besides.
    const void *const first[] = {"{\"rate\": 0.5, \"kind\": \"tall\"}"};
    ok(troupe_study_open(of_json, &study, .trials = 2, .first = first, .first_count = 1,
                         .searcher = troupe_search_random()));
    assert_int_equal(trp_study_trials(study), 13);
    ok(troupe_study_ask(study, &asked));
    assert_true(asked.x[0] == 0.5 && asked.x[2] == 1);
    assert_true(asked.x[1] >= 0 && asked.x[1] <= 2 && asked.x[3] >= 1); // These were drawn.
    for (int i = 0; i < 12; i++) {
        ok(troupe_study_ask(study, &asked));
        assert_int_equal((int)asked.x[2], i % 2);
    }
    assert_int_equal(troupe_study_ask(study, &asked), TROUPE_END);
    troupe_study_free(&study);
    troupe_space_free(&of_json);
}

// With the searcher that there is by default, which chooses by the space.
static void test_a_space_of_grids_alone(void **state)
{
    (void)state;
    troupe_space *grids;
    troupe_study *study;
    troupe_asked asked;
    int counts[3][2] = {{0}}, number = 0;
    ok(troupe_space_parse("{\"layers\": {\"grid\": [1, 2, 3]}, \"kind\": {\"grid\": [\"a\", "
                          "\"b\"]}}",
                          &grids));
    ok(troupe_study_open(grids, &study, .trials = 4));
    for (; troupe_study_ask(study, &asked) == TROUPE_OK; number++) {
        counts[(int)asked.x[0]][(int)asked.x[1]]++;
        ok(troupe_study_tell(study, asked.number, number));
    }
    assert_int_equal(number, 24);
    for (int i = 0; i < 6; i++)
        assert_int_equal(counts[i / 2][i % 2], 4);
    troupe_study_free(&study);
    troupe_space_free(&grids);
}

static bool has_no_nine(void *user, const void *config)
{
    (void)user;
    return strstr(config, "\"depth\": 9") == NULL;
}

static void test_spaces_from_json(void **state)
{
    (void)state;
    troupe_space *of_json;
    troupe_study *study;
    troupe_asked asked;
    unlink(path);
    ok(troupe_space_parse(json, &of_json));
    for (int life = 0; life < 2; life++) {
        ok(troupe_study_open(of_json, &study, .file = path, .open = TROUPE_OPEN_RESUME_OR_NEW,
                             .searcher = troupe_search_random(), .allowed = has_no_nine));
        for (int i = 0; i < 20; i++) {
            ok(troupe_study_ask(study, &asked));
            assert_string_equal(asked.config, troupe_space_json(of_json, asked.x));
            assert_true(has_no_nine(NULL, asked.config));
            ok(troupe_study_tell(study, asked.number, asked.x[0]));
        }
        const troupe_study_trial *best = troupe_study_best(study);
        assert_non_null(strstr(best->config, "\"rate\": "));
        assert_non_null(strstr(best->config, "\"epochs\": 81"));
        troupe_study_free(&study);
    }
    refused(troupe_study_open(space, &study, .file = path, .open = TROUPE_OPEN_RESUME,
                              .searcher = troupe_search_random()),
            TROUPE_EXISTS, "has another study");
    const void *const bad[] = {"{\"rat\": 0.5}"}, *const torn[] = {"{\"rate\": "};
    refused(troupe_study_open(of_json, &study, .first = bad, .first_count = 1), TROUPE_INVALID,
            "option .first[0]");
    refused(troupe_study_open(of_json, &study, .first = torn, .first_count = 1), TROUPE_MALFORMED,
            "option .first[0]");
    troupe_space_free(&of_json);
}

// ---- options that cannot be

static int destroyed;

static void count_destroyed(troupe_searcher *self)
{
    (void)self;
    destroyed++;
}

static void count_ended(troupe_scheduler *self)
{
    (void)self;
    destroyed++;
}

static troupe_status suggest_nothing(troupe_searcher *self, int number, double *x)
{
    (void)self;
    (void)number;
    (void)x;
    return TROUPE_END;
}

static troupe_status decide_nothing(troupe_scheduler *self, const troupe_progress *progress,
                                    troupe_verdict *verdict)
{
    (void)self;
    (void)progress;
    (void)verdict;
    return TROUPE_OK;
}

static troupe_status refuse_all(troupe_searcher *self, const troupe_problem *problem)
{
    (void)self;
    return troupe_fail(TROUPE_UNSUPPORTED, "no search in %zu dimensions", problem->dim_count);
}

static const troupe_searcher plain_searcher = {
    .abi = TROUPE_ABI, .name = "plain", .suggest = suggest_nothing, .destroy = count_destroyed};
static const troupe_scheduler plain_scheduler = {
    .abi = TROUPE_ABI, .describe = "plain", .decide = decide_nothing, .destroy = count_ended};

// Refused, and both objects are freed.
#define NONE(expected, part, ...)                                                                  \
    do {                                                                                           \
        troupe_searcher searcher = plain_searcher;                                                 \
        troupe_scheduler scheduler = plain_scheduler;                                              \
        troupe_study *study = (troupe_study *)&searcher;                                           \
        destroyed = 0;                                                                             \
        refused(troupe_study_open(space, &study, .searcher = &searcher, .scheduler = &scheduler,   \
                                  __VA_ARGS__),                                                    \
                expected, part);                                                                   \
        assert_null(study);                                                                        \
        assert_int_equal(destroyed, 2);                                                            \
    } while (0)

static void test_options_that_cannot_be(void **state)
{
    (void)state;
    static const troupe_goal goals[9] = {TROUPE_MINIMIZE, TROUPE_MAXIMIZE, (troupe_goal)7};
    const void *const first[] = {NULL};
    const char *const warm[] = {NULL}, *const missing[] = {"/nowhere/study.jsonl"};
    unlink(path);
    NONE(TROUPE_INVALID, ".goal and .goals are both set", .goal = TROUPE_MINIMIZE, .goals = goals,
         .goal_count = 2);
    NONE(TROUPE_INVALID, ".goal is 9", .goal = (troupe_goal)9);
    NONE(TROUPE_INVALID, ".goals[2] is 7", .goals = goals, .goal_count = 3);
    NONE(TROUPE_INVALID, ".goal_count is 9: expected at most 8", .goals = goals, .goal_count = 9);
    NONE(TROUPE_INVALID, ".goals is NULL", .goal_count = 2);
    NONE(TROUPE_INVALID, ".goal_count is 0", .goals = goals);
    NONE(TROUPE_INVALID, ".trials is -1", .trials = -1);
    NONE(TROUPE_INVALID, ".first is NULL", .first_count = 1);
    NONE(TROUPE_INVALID, ".first[0] is NULL", .first = first, .first_count = 1);
    NONE(TROUPE_INVALID, ".warm is NULL", .warm_count = 1);
    NONE(TROUPE_INVALID, ".warm[0] is NULL", .warm = warm, .warm_count = 1);
    NONE(TROUPE_NOT_FOUND, "/nowhere/study.jsonl", .warm = missing, .warm_count = 1);
    NONE(TROUPE_INVALID, ".open is set, and .file is not", .open = TROUPE_OPEN_RESUME);
    NONE(TROUPE_INVALID, ".sync is set, and .file is not", .sync = true);
    NONE(TROUPE_INVALID, ".open is 9", .open = (troupe_open)9, .file = path);
    NONE(TROUPE_INVALID, ".goal is 9", .goal = (troupe_goal)9, .file = path);
    NONE(TROUPE_NOT_FOUND, "/nowhere/study.jsonl", .warm = missing, .warm_count = 1, .file = path);
    NONE(TROUPE_NOT_FOUND, "its folder must be", .file = "/nowhere/study.jsonl");
    assert_false(support_exists(path));

    troupe_study *study;
    troupe_study_options newer = {.size = sizeof newer + 8};
    refused(troupe_study_open_with(space, &study, &newer), TROUPE_VERSION, "headers");
}

static void test_tables_that_cannot_be(void **state)
{
    (void)state;
    troupe_study *study;
    for (int i = 0; i < 7; i++) {
        troupe_searcher searcher = plain_searcher;
        troupe_scheduler scheduler = plain_scheduler;
        static const char *const parts[] = {"searcher has .abi 99",
                                            "searcher's table lacks its name",
                                            "searcher's table lacks its suggest",
                                            "scheduler has .abi 98",
                                            "scheduler's table lacks its describe",
                                            "scheduler's table lacks its decide",
                                            "no search in 4 dimensions"};
        static const troupe_status statuses[] = {TROUPE_VERSION,    TROUPE_INVALID, TROUPE_INVALID,
                                                 TROUPE_VERSION,    TROUPE_INVALID, TROUPE_INVALID,
                                                 TROUPE_UNSUPPORTED};
        searcher.abi = i == 0 ? 99 : TROUPE_ABI;
        searcher.name = i == 1 ? NULL : "plain";
        searcher.suggest = i == 2 ? NULL : suggest_nothing;
        scheduler.abi = i == 3 ? 98 : TROUPE_ABI;
        scheduler.describe = i == 4 ? NULL : "plain";
        scheduler.decide = i == 5 ? NULL : decide_nothing;
        searcher.begin = i == 6 ? refuse_all : NULL;
        destroyed = 0;
        refused(troupe_study_open(space, &study, .searcher = &searcher, .scheduler = &scheduler),
                statuses[i], parts[i]);
        assert_int_equal(destroyed, 2);
    }
    refused(troupe_study_open(space, &study, .scheduler = troupe_asha(.grace = -1)), TROUPE_INVALID,
            "grace is -1");
}

static void test_trials_that_are_not_there(void **state)
{
    (void)state;
    troupe_study *study;
    troupe_asked asked;
    troupe_act act;
    ok(troupe_study_open(space, &study, .trials = 2));
    refused(troupe_study_tell(study, 0, 1), TROUPE_INVALID, "none has been asked for yet");
    ok(troupe_study_ask(study, &asked));
    refused(troupe_study_tell(study, 1, 1), TROUPE_INVALID, "trial 1: expected one of 0 to 0");
    refused(troupe_study_tell(study, -1, 1), TROUPE_INVALID, "trial -1");
    refused(troupe_study_report(study, 1, 1, &act), TROUPE_INVALID, "trial 1: expected");
    refused(troupe_study_tell_values(study, 0, (double[]){1}, -1), TROUPE_INVALID,
            "violation of trial 0 is -1");
    refused(troupe_study_tell_values(study, 0, (double[]){1}, NAN), TROUPE_INVALID, "violation");
    ok(troupe_study_tell(study, 0, 1));
    refused(troupe_study_tell(study, 0, 1), TROUPE_INVALID, "which is complete");
    refused(troupe_study_tell_failed(study, 0, "late"), TROUPE_INVALID, "which is complete");
    ok(troupe_study_ask(study, &asked));
    ok(troupe_study_tell_failed(study, 1, NULL));
    refused(troupe_study_report(study, 1, 1, &act), TROUPE_INVALID, "which has failed");
    ok(troupe_study_sync(study)); // There is no file.
    troupe_study_free(&study);
}

// ---- no memory

// Each allocation fails once: what was asked for fails and can be done again, or the study says
// that it is at its end.
static void test_no_memory(void **state)
{
    (void)state;
    static const study_config one = {1.5, 2.5, 48, "tall"};
    const void *const first[] = {&one};
    for (long n = 0;; n++) {
        troupe_study *study = NULL;
        troupe_asked asked;
        troupe_act act;
        int failures = 0;
        unlink(path);
        trp_memory_fail_after(n);
        troupe_status status = troupe_study_open(space, &study, .searcher = troupe_search_random(),
                                                 .file = path, .first = first, .first_count = 1,
                                                 .scheduler = troupe_asha(.grace = 1, .limit = 3));
        for (int i = 0; status == TROUPE_OK && i < 2; i++) {
            act = TROUPE_ACT_GO_ON;
            status = troupe_study_ask(study, &asked);
            for (int k = 0; status == TROUPE_OK && k < 3; k++) {
                status = troupe_study_report(study, i, k + i, &act);
                if (act != TROUPE_ACT_GO_ON)
                    break;
            }
            if (status == TROUPE_OK && act == TROUPE_ACT_GO_ON)
                status = troupe_study_tell_failed(study, i, "for a reason");
        }
        failures += status != TROUPE_OK;
        trp_memory_fail_after(-1);
        if (status != TROUPE_OK && status != TROUPE_NO_MEMORY)
            fail_msg("%s: %s", troupe_status_name(status), troupe_last_error()->text);
        size_t count = troupe_study_count(study);
        troupe_study_free(&study);
        if (failures == 0)
            break;
        // What it had taken is there.
        ok(troupe_study_open(space, &study, .searcher = troupe_search_random(), .file = path,
                             .first = first, .first_count = 1,
                             .scheduler = troupe_asha(.grace = 1, .limit = 3),
                             .open = TROUPE_OPEN_RESUME_OR_NEW));
        assert_int_equal(troupe_study_count(study), count);
        troupe_study_free(&study);
        assert_true(n < 1000);
    }
}

// The same as it goes on: what fails changes nothing.
static void test_no_memory_to_go_on(void **state)
{
    (void)state;
    troupe_space *of_json;
    troupe_study *study;
    troupe_asked asked;
    ok(troupe_space_parse(json, &of_json));
    char *earlier = support_path(folder, "earlier.jsonl");
    const char *const warm[] = {earlier};
    unlink(path);
    unlink(earlier);
    ok(troupe_study_open(of_json, &study, .file = earlier, .searcher = troupe_search_random()));
    for (int i = 0; i < 4; i++) {
        ok(troupe_study_ask(study, &asked));
        ok(troupe_study_tell(study, i, i));
    }
    troupe_study_free(&study);
    for (int life = 0; life < 2; life++) { // The first learns, and the second reads what it did.
        for (long n = 0;; n++) {
            char *before = support_read_file(path);
            trp_memory_fail_after(n);
            troupe_status status =
                troupe_study_open(of_json, &study, .file = path, .warm = warm, .warm_count = 1,
                                  .searcher = troupe_search_random(), .allowed = has_no_nine,
                                  .open = TROUPE_OPEN_RESUME_OR_NEW);
            trp_memory_fail_after(-1);
            if (status != TROUPE_OK)
                refused(status, TROUPE_NO_MEMORY, "");
            char *after = support_read_file(path);
            if (status != TROUPE_OK && before != NULL)
                assert_string_equal(before, after);
            if (status != TROUPE_OK && before == NULL)
                assert_null(after);
            free(before);
            free(after);
            if (status == TROUPE_OK)
                break;
            assert_true(n < 1000);
        }
        ok(troupe_study_ask(study, &asked));
        ok(troupe_study_tell_failed(study, asked.number, "for a reason"));
        troupe_study_free(&study);
    }
    troupe_space_free(&of_json);
    free(earlier);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_points),
        cmocka_unit_test(test_only_what_is_allowed_is_tried),
        cmocka_unit_test(test_nothing_is_allowed),
        cmocka_unit_test(test_each_combination_of_a_grid_has_its_turns),
        cmocka_unit_test(test_a_space_of_grids_alone),
        cmocka_unit_test(test_spaces_from_json),
        cmocka_unit_test(test_options_that_cannot_be),
        cmocka_unit_test(test_tables_that_cannot_be),
        cmocka_unit_test(test_trials_that_are_not_there),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_no_memory_to_go_on),
    };
    return cmocka_run_group_tests(tests, open_study_tests, close_study_tests);
}
