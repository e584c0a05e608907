// test_why.c: importance of trials at hand and of records, the best trial, and the commands.
#include "cases.h"

#include <runtime/base/buffer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <troupe/status.h>
#include <troupe/study.h>
#include <troupe/why.h>

static double points[CASE_TRIALS * CASE_DIMS], scores[CASE_TRIALS], found[CASE_DIMS];

static void test_importance_of_trials_at_hand(void **state)
{
    (void)state;
    const known_case *of = &known_cases[0];
    fill_case(of, points, scores);
    assert_int_equal(troupe_importance(of->dims, 3, points, scores, of->count, found), TROUPE_OK);
    for (int i = 0; i < 3; i++)
        assert_true(fabs(found[i] - of->pedanova[i]) <= 1e-9 * of->pedanova[i]);
    double few[3];
    assert_int_equal(troupe_importance(of->dims, 3, points, scores, of->count, found,
                                       .method = TROUPE_IMPORTANCE_FANOVA),
                     TROUPE_OK);
    assert_true(found[0] > 0.7 && found[0] < 0.85 && found[2] < 0.05);
    assert_int_equal(troupe_importance(of->dims, 3, points, scores, of->count, few,
                                       .method = TROUPE_IMPORTANCE_FANOVA, .trees = 2, .seed = 9),
                     TROUPE_OK);
    assert_true(few[0] != found[0] && fabs(few[0] - found[0]) < 0.2);
    assert_int_equal(troupe_importance(of->dims, 3, points, scores, 0, found), TROUPE_OK);
    assert_true(found[0] == 0);
}

static void refused(const troupe_dim *dim, const troupe_importance_options *how, const char *says)
{
    assert_int_equal(troupe_importance_with(dim, 1, points, scores, 4, found, how), TROUPE_INVALID);
    if (strstr(troupe_last_error()->text, says) == NULL)
        fail_msg("'%s' lacks '%s'", troupe_last_error()->text, says);
}

static void test_what_is_out_of_range_is_refused(void **state)
{
    (void)state;
#define HOW(...)                                                                                   \
    &(troupe_importance_options)                                                                   \
    {                                                                                              \
        .size = sizeof(troupe_importance_options), __VA_ARGS__                                     \
    }
    const troupe_dim good = CASE_REAL("x");
    refused(&good, HOW(.quantile = 2), "quantile is 2");
    refused(&good, HOW(.quantile = 0.5, .region = 0.25), "region 0.25");
    refused(&good, HOW(.method = (troupe_importance_method)7), ".method of troupe_importance is 7");
    refused(&good, HOW(.trees = -1), ".trees of troupe_importance is -1");
    refused(&good, HOW(.depth = 5000), ".depth of troupe_importance is 5000");
    const troupe_dim turned = {.name = "turned", .low = 2, .high = 1, .parent = -1};
    const troupe_dim zero = {.name = "zero", .high = 1, .log = true, .parent = -1};
    const troupe_dim many = CASE_CHOICE("many", 33);
    refused(&turned, NULL, "dimension 0 (turned) has no range");
    refused(&zero, NULL, "(zero) has a logarithm");
    refused(&many, NULL, "(many)");
}

// ---- records

static char *folder, *record;

static int set_up(void **state)
{
    (void)state;
    folder = support_directory_make();
    record = support_path(folder, "trials.jsonl");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(record);
    support_directory_remove(folder);
    return 0;
}

// A sweep over case 0, where the score is maximised: the negative. `more`: of its first line.
static void write_sweep(const char *more)
{
    const known_case *of = &known_cases[0];
    trp_buffer text = {0};
    fill_case(of, points, scores);
    trp_buffer_printf(&text, "{\"event\": \"sweep\", \"goal\": \"maximize\"%s}\n", more);
    for (size_t i = 0; i < of->count; i++)
        trp_buffer_printf(&text,
                          "{\"event\": \"suggest\", \"trial\": %zu, \"params\": {\"c\": %.17g, "
                          "\"b\": %.17g, \"a\": %.17g, \"text\": \"it's\"}}\n"
                          "{\"event\": \"end\", \"trial\": %zu, \"state\": \"TERMINATED\", "
                          "\"values\": [%.17g]}\n",
                          i, points[i * 3 + 2], points[i * 3 + 1], points[i * 3], i, -scores[i]);
    support_write_file(record, text.data, text.size);
    trp_buffer_free(&text);
}

static void test_importance_of_a_record(void **state)
{
    (void)state;
    const troupe_param_importance *params;
    size_t count;
    write_sweep(", \"space\": {\"a\": {\"uniform\": [0, 1]}, \"b\": {\"uniform\": [0, 1]}, \"c\": "
                "{\"uniform\": [0, 1]}}");
    assert_int_equal(troupe_importance_of(folder, &params, &count), TROUPE_OK);
    assert_int_equal(count, 3);
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        assert_true(fabs(params[i].value - known_cases[0].pedanova[i]) <= 1e-9 * params[i].value);
        assert_int_equal(params[i].name[0], "abc"[i]);
        sum += params[i].share;
    }
    assert_true(fabs(sum - 1) < 1e-12);
    assert_int_equal(
        troupe_importance_of(record, &params, &count, .method = TROUPE_IMPORTANCE_FANOVA),
        TROUPE_OK);
    assert_int_equal(params[0].name[0], 'a');
    assert_int_equal(troupe_importance_of(folder, &params, &count, .objective = 1), TROUPE_INVALID);
    assert_int_equal(troupe_importance_of("/no/such/folder", &params, &count), TROUPE_NOT_FOUND);
}

// They may be better than all that count.
static void test_importance_is_of_trials_that_count(void **state)
{
    (void)state;
    const troupe_param_importance *params;
    size_t count;
    write_sweep(", \"space\": {\"a\": {\"uniform\": [0, 1]}, \"b\": {\"uniform\": [0, 1]}, \"c\": "
                "{\"uniform\": [0, 1]}}");
    trp_buffer text = {0};
    for (int i = 0; i < 20; i++)
        trp_buffer_printf(
            &text,
            "{\"event\": \"suggest\", \"trial\": %d, \"params\": {\"c\": 0.9, \"b\": 0.1, "
            "\"a\": 0.5, \"text\": \"it's\"}}\n"
            "{\"event\": \"end\", \"trial\": %d, \"state\": \"%s\", \"values\": [1e6]%s}\n",
            5000 + i, 5000 + i, i % 2 == 0 ? "TERMINATED" : "ERROR",
            i % 2 == 0 ? ", \"violation\": 0.5" : "");
    assert_false(text.failed);
    FILE *file = fopen(record, "ae");
    assert_non_null(file);
    assert_int_equal(fwrite(text.data, 1, text.size, file), text.size);
    assert_int_equal(fclose(file), 0);
    trp_buffer_free(&text);
    assert_int_equal(troupe_importance_of(folder, &params, &count), TROUPE_OK);
    assert_int_equal(count, 3);
    for (size_t i = 0; i < count; i++)
        assert_true(fabs(params[i].value - known_cases[0].pedanova[i]) <= 1e-9 * params[i].value);
}

static int best_of_case(void)
{
    int best = 0;
    for (size_t i = 0; i < known_cases[0].count; i++)
        if (scores[i] < scores[best])
            best = (int)i;
    return best;
}

static void test_the_best_trial(void **state)
{
    (void)state;
    troupe_best_trial best;
    write_sweep("");
    assert_int_equal(troupe_best_trial_get(folder, &best), TROUPE_OK);
    assert_int_equal(best.number, best_of_case());
    assert_true(best.value == -scores[best.number]);
    assert_non_null(strstr(best.config, "\"text\": \"it's\""));
    assert_null(best.model);
    assert_null(best.command);
    write_sweep(", \"model\": \"digits@3\", \"command\": [\"./fit\", \"--a={a}\", \"{text}\", "
                "\"{none}\", \"{\"]");
    assert_int_equal(troupe_best_trial_get(folder, &best), TROUPE_OK);
    assert_string_equal(best.model, "digits@3");
    char filled[64];
    snprintf(filled, sizeof filled, "--a=%.17g", points[3 * best.number]);
    const char *const expected[] = {"./fit", filled, "it's", "", "{"};
    for (int i = 0; i < 5; i++)
        assert_string_equal(best.command[i], expected[i]);
    assert_null(best.command[5]);
    write_sweep(", \"model\": \"digits@3\", \"settings\": {\"a\": 7, \"fitting\": {\"batch\": 4}}");
    assert_int_equal(troupe_best_trial_get(folder, &best), TROUPE_OK);
    assert_non_null(strstr(best.config, "\"fitting\": {\"batch\": 4}"));
    assert_non_null(strstr(best.config, filled + strlen("--a=")));
    assert_null(strstr(best.config, "\"a\": 7,"));
    support_write_file(record, "", 0);
    assert_int_equal(troupe_best_trial_get(folder, &best), TROUPE_NOT_FOUND);
}

// A study's own file.
static void test_a_study_that_runs(void **state)
{
    (void)state;
    enum { TRIALS = 60 };
    char *file = support_path(folder, "my.study");
    troupe_space *space;
    troupe_study *study;
    const troupe_param_importance *params;
    size_t count;
    assert_int_equal(
        troupe_space_parse(
            "{\"rate\": {\"log_uniform\": [1e-4, 1]}, \"kind\": {\"choice\": [\"a\", "
            "\"b\"]}, \"slope\": {\"uniform\": [0, 1], \"when\": {\"kind\": [\"b\"]}}, "
            "\"epochs\": 9}",
            &space),
        TROUPE_OK);
    assert_int_equal(troupe_study_open(space, &study, .file = file, .trials = TRIALS,
                                       .searcher = troupe_search_random()),
                     TROUPE_OK);
    for (troupe_asked asked; troupe_study_ask(study, &asked) == TROUPE_OK;) {
        double value = pow(log10(asked.x[0]) + 2, 2) + (asked.x[1] == 1 ? 0.1 * asked.x[2] : 0);
        if (asked.number % 7 == 3)
            assert_int_equal(troupe_study_tell_failed(study, asked.number, "no"), TROUPE_OK);
        else
            assert_int_equal(troupe_study_tell(study, asked.number, value), TROUPE_OK);
    }
    assert_int_equal(
        troupe_importance_of(file, &params, &count, .method = TROUPE_IMPORTANCE_FANOVA),
        TROUPE_OK); // While it is open.
    assert_int_equal(count, 3);
    assert_string_equal(params[0].name, "rate");
    assert_true(params[0].value > 0.7);
    troupe_best_trial best;
    assert_int_equal(troupe_best_trial_get(file, &best), TROUPE_OK);
    assert_int_equal(best.number, troupe_study_best(study)->number);
    assert_true(best.value == troupe_study_best(study)->values[0]);
    assert_non_null(strstr(best.config, "\"epochs\": 9"));
    assert_int_equal(troupe_sweep_report(file, NULL), TROUPE_OK);
    troupe_study_free(&study);
    troupe_space_free(&space);
    free(file);
}

// ---- the commands

static int tool(const char *arguments, char *output, size_t size)
{
    char command[4096];
    snprintf(command, sizeof command, "cd '%s' && '%s' tune %s", folder,
             support_setting("TROUPE_TOOL"), arguments);
    return support_run(command, output, size);
}

static void test_the_commands(void **state)
{
    (void)state;
    char output[8192], expected[512];
    write_sweep(", \"command\": [\"echo\", \"trained with {a}\"]");
    assert_int_equal(tool("report .", output, sizeof output), 0);
    assert_string_equal(output, "./report.html\n");
    assert_int_equal(tool("report -o there.html trials.jsonl", output, sizeof output), 0);
    assert_string_equal(output, "there.html\n");
    assert_int_equal(tool("best .", output, sizeof output), 0);
    assert_int_equal(output[0], '{');
    assert_int_equal(tool("train-best .", output, sizeof output), 0);
    snprintf(expected, sizeof expected, "trained with %.17g\n", points[3 * best_of_case()]);
    assert_non_null(strstr(output, expected));
    // A version that is not there is what troupe train says.
    assert_int_equal(
        tool("train-best . --model none@1 -- --repository empty", output, sizeof output), 1);
    assert_non_null(strstr(output, "troupe train: "));
    write_sweep("");
    assert_int_equal(tool("train-best .", output, sizeof output), 1);
    assert_non_null(strstr(output, "which put down no program"));
    assert_int_equal(tool("report missing", output, sizeof output), 1);
    assert_non_null(strstr(output, "there is no sweep or study at missing"));
    static const char *const wrong[] = {"",           "frobnicate",     "report",
                                        "report a b", "best",           "best -x",
                                        "train-best", "train-best a b", "report -x ."};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(tool(wrong[i], output, sizeof output), 2);
        assert_non_null(strstr(output, "usage: troupe tune"));
    }
    assert_int_equal(tool("--help", output, sizeof output), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_importance_of_trials_at_hand),
        cmocka_unit_test(test_what_is_out_of_range_is_refused),
        TEST(test_importance_of_a_record),
        TEST(test_importance_is_of_trials_that_count),
        TEST(test_the_best_trial),
        TEST(test_a_study_that_runs),
        TEST(test_the_commands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
