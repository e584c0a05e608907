// test_results.c: what trials have reported: every report, the best by metric and scope, and tables
// of it, which Python's readers take apart; of records, studies, and sweeps that run.
// timeout: 120
#include <math.h>
#include <runtime/base/buffer.h>
#include <runtime/base/memory.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <troupe.h>

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

#define FIRST                                                                                      \
    "{\"event\": \"sweep\", \"trainer\": \"fit\", \"metric\": \"loss\", \"goal\": \"minimize\", "  \
    "\"trials\": 9, \"seed\": 1, \"scheduler\": \"FIFO\"}\n"
#define SUBMIT(trial, config)                                                                      \
    "{\"event\": \"submitted\", \"trial\": \"fit_3d3d1_0000" trial "\", \"config\": " config "}\n"
#define REPORT(trial, number, metrics)                                                             \
    "{\"event\": \"reported\", \"trial\": \"fit_3d3d1_0000" trial "\", \"number\": " number        \
    ", \"elapsed_s\": " number ".5, \"metrics\": {" metrics "}}\n"
#define END(trial, state, error)                                                                   \
    "{\"event\": \"ended\", \"trial\": \"fit_3d3d1_0000" trial "\", \"state\": \"" state           \
    "\", \"reports\": 3, \"elapsed_s\": 9, \"best\": \"NaN\", \"error\": " error "}\n"

static troupe_results *read_record(const char *text)
{
    troupe_results *results;
    support_write_file(record, text, strlen(text));
    troupe_must(troupe_results_open(folder, &results));
    return results;
}

// Trial 0 is best once, trial 1 at its end, trial 2 on the whole; trial 3 fails; trial 4 has none.
static const char mixed[] = FIRST SUBMIT("0", "{\"rate\": 0.5, \"of\": {\"kind\": \"a,\\\"b\"}}")
    SUBMIT("1", "{\"rate\": 0.25, \"of\": {\"kind\": null}}")
        SUBMIT("2", "{\"rate\": 0.125, \"deep\": [1, 2]}") SUBMIT("3", "{\"rate\": 1}")
            SUBMIT("4", "{\"rate\": 2}") REPORT("0", "1", "\"loss\": 0.1, \"acc\": 0.5")
                REPORT("0", "2", "\"loss\": 9") REPORT("0", "3", "\"loss\": 8, \"acc\": 0.75")
                    REPORT("1", "1", "\"loss\": 7") REPORT("1", "2", "\"loss\": 7")
                        REPORT("1", "3", "\"loss\": 0.5, \"acc\": \"NaN\"")
                            REPORT("2", "1", "\"loss\": 1") REPORT("2", "2", "\"loss\": 1.5")
                                REPORT("2", "3", "\"loss\": 1, \"acc\": 0.6875")
                                    REPORT("3", "1", "\"loss\": -5, \"acc\": 1")
                                        END("0", "TERMINATED", "\"\"") END("1", "STOPPED", "\"\"")
                                            END("3", "ERROR", "\"it\\nbroke\"");

static void expect_best(const troupe_results *results, int number, double value,
                        troupe_best_options how)
{
    const troupe_trial_results *best;
    double found;
    how.size = sizeof how;
    troupe_must(troupe_results_best_with(results, &best, &found, &how));
    assert_int_equal(best->number, number);
    if (fabs(found - value) > 1e-12)
        fail_msg("%.17g is not %.17g", found, value);
}

static void test_the_best_by_metric_and_scope(void **state)
{
    (void)state;
    troupe_results *results = read_record(mixed);
    const troupe_trial_results *best;
    double value;
#define HOW(...) (troupe_best_options){__VA_ARGS__, .unused_ = 0}
    expect_best(results, 0, 0.1, HOW(.metric = NULL));
    expect_best(results, 1, 0.5, HOW(.scope = TROUPE_SCOPE_LAST));
    expect_best(results, 2, 3.5 / 3, HOW(.scope = TROUPE_SCOPE_AVG));
    expect_best(results, 0, 9, HOW(.goal = TROUPE_MAXIMIZE));
    expect_best(results, 0, 0.75, HOW(.metric = "acc", .goal = TROUPE_MAXIMIZE));
    expect_best(results, 2, 0.6875,
                HOW(.metric = "acc", .goal = TROUPE_MAXIMIZE, .scope = TROUPE_SCOPE_AVG));
    expect_best(results, 0, 0.5, HOW(.metric = "acc", .goal = TROUPE_MINIMIZE));
    assert_int_equal(troupe_results_best(results, &best, NULL, .metric = "acc"), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "was not about acc"));
    assert_int_equal(
        troupe_results_best(results, &best, &value, .metric = "other", .goal = TROUPE_MINIMIZE),
        TROUPE_NOT_FOUND);
    assert_non_null(strstr(troupe_last_error()->text, "reports have loss, acc"));
    troupe_best_trial trial;
    troupe_must(troupe_best_trial_get_by(folder, &trial, .metric = "acc", .goal = TROUPE_MAXIMIZE,
                                         .scope = TROUPE_SCOPE_AVG));
    assert_int_equal(trial.number, 2);
    assert_true(trial.value == 0.6875);
    assert_non_null(strstr(trial.config, "\"deep\": [1, 2]"));
    troupe_must(troupe_best_trial_get_by(folder, &trial, .scope = TROUPE_SCOPE_ALL));
    assert_true(trial.number == 0 && trial.value == 0.1);
    assert_int_equal(troupe_best_trial_get_by(folder, &trial, .metric = "acc"), TROUPE_INVALID);
    troupe_must(troupe_results_value(results, 3, &value)); // It failed, and has one all the same.
    assert_true(value == -5);
    assert_int_equal(troupe_results_value(results, 4, &value), TROUPE_NOT_FOUND);
    assert_int_equal(troupe_results_value(results, 1, &value, .metric = "acc",
                                          .goal = TROUPE_MAXIMIZE, .scope = TROUPE_SCOPE_LAST),
                     TROUPE_NOT_FOUND); // NaN.
    assert_int_equal(troupe_results_value(results, 5, &value), TROUPE_INVALID);
    troupe_results_free(&results);
}

// Lines say where they are from the sweep's folder, which may have been moved; those of an earlier
// version have the whole path.
static void test_checkpoints_are_found_from_the_folder(void **state)
{
    (void)state;
    static const char text[] = FIRST SUBMIT("0", "{}")
        REPORT("0", "1", "\"loss\": 1}, \"checkpoint\": \"fit/c_1\", \"of\": {")
            REPORT("0", "2", "\"loss\": 1}, \"checkpoint\": \"/else/c_2\", \"of\": {");
    troupe_results *results = read_record(text);
    const troupe_trial_results *trial = troupe_results_trial(results, 0);
    char *whole = realpath(folder, NULL), *expected = support_path(whole, "fit/c_1");
    assert_int_equal(trial->count, 2);
    assert_string_equal(trial->reports[0].checkpoint, expected);
    assert_string_equal(trial->reports[1].checkpoint, "/else/c_2");
    troupe_results_free(&results);
    free(expected);
    free(whole);
}

static void test_the_last_few_of_many(void **state)
{
    (void)state;
    trp_buffer text = {0};
    trp_buffer_printf(&text, "%s%s", FIRST, SUBMIT("0", "{}"));
    for (int i = 1; i <= 20; i++)
        trp_buffer_printf(&text,
                          "{\"event\": \"report\", \"trial\": 0, \"report\": %d, \"elapsed_s\": "
                          "%d, \"values\": [0], \"metrics\": {\"%s\": %d}}\n",
                          i, i, i % 4 == 0 ? "other" : "loss", i);
    // One that was there before counts once.
    trp_buffer_printf(&text, "%s", REPORT("0", "20", "\"loss\": 1000"));
    trp_buffer_append(&text, "", 1);
    troupe_results *results = read_record((const char *)text.data);
    double value;
    troupe_must(troupe_results_value(results, 0, &value, .scope = TROUPE_SCOPE_LAST_5_AVG));
    assert_true(value == (19 + 18 + 17 + 15 + 14) / 5.0);
    troupe_must(troupe_results_value(results, 0, &value, .scope = TROUPE_SCOPE_LAST_10_AVG));
    assert_true(value == (19 + 18 + 17 + 15 + 14 + 13 + 11 + 10 + 9 + 7) / 10.0);
    troupe_must(troupe_results_value(results, 0, &value, .scope = TROUPE_SCOPE_LAST));
    assert_true(value == 19);
    troupe_results_free(&results);
    trp_buffer_free(&text);
}

static void test_reports_are_there_by_their_numbers(void **state)
{
    (void)state;
    troupe_results *results = read_record(mixed);
    assert_int_equal(troupe_results_count(results), 5);
    assert_null(troupe_results_trial(results, 5));
    const troupe_trial_results *trial = troupe_results_trial(results, 0);
    assert_string_equal(trial->name, "fit_3d3d1_00000");
    assert_int_equal(trial->state, TROUPE_TRIAL_TERMINATED);
    assert_string_equal(trial->config, "{\"rate\": 0.5, \"of\": {\"kind\": \"a,\\\"b\"}}");
    assert_true(trial->elapsed_s == 9);
    assert_string_equal(trial->error, "");
    assert_int_equal(trial->count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(trial->reports[i].number, i + 1);
        assert_true(trial->reports[i].elapsed_s == i + 1.5);
        assert_string_equal(trial->reports[i].metrics[0].name, "loss");
        assert_int_equal(trial->reports[i].count, i == 1 ? 1 : 2);
        assert_null(trial->reports[i].checkpoint);
    }
    assert_true(trial->reports[2].metrics[1].value == 0.75);
    assert_int_equal(troupe_results_trial(results, 1)->state, TROUPE_TRIAL_STOPPED);
    assert_int_equal(troupe_results_trial(results, 2)->state, TROUPE_TRIAL_RUNNING);
    assert_string_equal(troupe_results_trial(results, 3)->error, "it\nbroke");
    assert_int_equal(troupe_results_trial(results, 4)->count, 0);
    troupe_results_free(&results);
    assert_int_equal(troupe_results_open("/no/such", &results), TROUPE_NOT_FOUND);
    assert_null(results);
}

// ---- tables

// Runs a line of Python over a table, which has it as `text`.
static void check_with_python(const char *text, const char *program)
{
    char *table = support_path(folder, "table"), *script = support_path(folder, "check.py");
    char command[4096], output[4096];
    trp_buffer whole = {0};
    support_write_file(table, text, strlen(text));
    trp_buffer_printf(&whole,
                      "import csv, json\ntext = open(%s, newline='').read()\n"
                      "def rows(): return list(csv.DictReader(text.splitlines(True)))\n%s\n",
                      "'table'", program);
    support_write_file(script, whole.data, whole.size);
    snprintf(command, sizeof command, "cd '%s' && python3 check.py", folder);
    int status = support_run(command, output, sizeof output);
    if (status != 0)
        fail_msg("%s\n%s", text, output);
    trp_buffer_free(&whole);
    free(table);
    free(script);
}

static char *table_of(const troupe_results *results, const troupe_export_options *how)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    troupe_must(troupe_results_export_with(results, out, how));
    fclose(out);
    return text;
}

#define TABLE(...)                                                                                 \
    &(troupe_export_options)                                                                       \
    {                                                                                              \
        .size = sizeof(troupe_export_options), __VA_ARGS__                                         \
    }

static void test_tables_are_read_by_others(void **state)
{
    (void)state;
    troupe_results *results = read_record(mixed);
    char *text = table_of(results, NULL);
    check_with_python(
        text, "r = rows()\nassert len(r) == 5, r\n"
              "assert list(r[0]) == ['number', 'name', 'state', 'reports', 'elapsed_s', 'error',"
              " 'config/rate', 'config/of/kind', 'config/deep', 'last/loss', 'last/acc',"
              " 'best/loss'], list(r[0])\n"
              "assert r[0]['config/of/kind'] == 'a,\"b' and r[1]['config/of/kind'] == '', r\n"
              "assert r[2]['config/deep'] == '[1, 2]', r[2]\n"
              "assert [x['state'] for x in r] == ['TERMINATED', 'STOPPED', 'RUNNING', 'ERROR',"
              " 'PENDING'], r\n"
              "assert [x['best/loss'] for x in r] == ['0.1', '0.5', '1', '-5', ''], r\n"
              "assert [x['last/acc'] for x in r] == ['0.75', 'nan', '0.6875', '1', ''], r\n"
              "assert r[3]['error'] == 'it\\nbroke', r[3]\n"
              "assert float(r[0]['elapsed_s']) == 9 and r[0]['reports'] == '3', r[0]\n");
    free(text);
    text = table_of(results, TABLE(.reports = true));
    check_with_python(
        text, "r = rows()\nassert len(r) == 10, r\n"
              "assert list(r[0]) == ['number', 'name', 'report', 'elapsed_s', 'checkpoint',"
              " 'metric/loss', 'metric/acc'], list(r[0])\n"
              "assert [(x['number'], x['report'], x['metric/loss'], x['metric/acc']) for x in"
              " r[:3]] == [('0', '1', '0.1', '0.5'), ('0', '2', '9', ''), ('0', '3', '8',"
              " '0.75')], r\n");
    free(text);
    text = table_of(results, TABLE(.format = TROUPE_EXPORT_JSON));
    check_with_python(
        text, "r = json.loads(text)\nassert r['goals'] == {'loss': 'minimize'}, r\n"
              "t = r['trials']\nassert len(t) == 5 and 'history' not in t[0], r\n"
              "assert t[0]['config'] == {'rate': 0.5, 'of': {'kind': 'a,\"b'}}, t[0]\n"
              "assert t[0]['last'] == {'loss': 8, 'acc': 0.75} and t[0]['best'] == {'loss': 0.1}\n"
              "assert t[1]['last']['acc'] == 'NaN' and t[3]['error'] == 'it\\nbroke'\n"
              "assert t[0]['error'] is None and t[4]['last'] == {} and t[4]['best'] == {}\n");
    free(text);
    text = table_of(results, TABLE(.format = TROUPE_EXPORT_JSON, .reports = true));
    check_with_python(text, "t = json.loads(text)['trials']\n"
                            "assert [len(x['history']) for x in t] == [3, 3, 3, 1, 0], t\n"
                            "assert t[0]['history'][2] == {'report': 3, 'elapsed_s': 3.5,"
                            " 'checkpoint': None, 'metrics': {'loss': 8, 'acc': 0.75}}, t[0]\n");
    free(text);
    troupe_results_free(&results);
    results = read_record("");
    text = table_of(results, NULL);
    assert_string_equal(text, "number,name,state,reports,elapsed_s,error,best/value\n");
    free(text);
    text = table_of(results, TABLE(.format = TROUPE_EXPORT_JSON));
    check_with_python(text, "assert json.loads(text)['trials'] == [], text\n");
    free(text);
    FILE *full = fopen("/dev/full", "w");
    assert_int_equal(troupe_results_export(results, full), TROUPE_NO_SPACE);
    fclose(full);
    troupe_results_free(&results);
}

// Of a sweep over a version what was drawn has names with dots, and settings that all trials have
// are beside it.
static void test_configs_over_a_version_are_whole(void **state)
{
    (void)state;
    troupe_results *results = read_record(
        "{\"event\": \"sweep\", \"trainer\": \"digits\", \"metric\": \"loss\", \"goal\": "
        "\"minimize\", \"model\": \"digits@3\", \"settings\": {\"fitting\": {\"epochs\": "
        "5}}}\n" SUBMIT("0", "{\"fitting.batch\": 32}") REPORT("0", "1", "\"loss\": 1"));
    const troupe_trial_results *best;
    static const char config[] = "{\"fitting\": {\"epochs\": 5, \"batch\": 32}}";
    troupe_must(troupe_results_best(results, &best, NULL));
    assert_string_equal(best->config, config);
    char *text = table_of(results, NULL);
    assert_non_null(strstr(text, ",error,config/fitting/epochs,config/fitting/batch,last/loss,"));
    free(text);
    troupe_results_free(&results);
    troupe_best_trial trial;
    troupe_must(troupe_best_trial_get(folder, &trial));
    assert_string_equal(trial.config, config);
}

static void test_it_fails_where_memory_does(void **state)
{
    (void)state;
    troupe_results *results = NULL;
    const troupe_export_options how = {.size = sizeof how, .reports = true};
    bool done = false;
    int failures;
    support_write_file(record, mixed, strlen(mixed));
    for (failures = 0; !done && failures < 10000; failures++) {
        FILE *out = fopen("/dev/null", "w");
        trp_memory_fail_after(failures);
        troupe_status status = troupe_results_open(folder, &results);
        if (status == TROUPE_OK)
            status = troupe_results_export_with(results, out, &how);
        trp_memory_fail_after(-1);
        fclose(out);
        troupe_results_free(&results);
        assert_true(status == TROUPE_OK || status == TROUPE_NO_MEMORY);
        done = status == TROUPE_OK;
    }
    assert_in_range(failures, 3, 9999);
}

// A record that is cut or damaged has the results of its other lines.
static void test_damaged_records_have_results(void **state)
{
    (void)state;
    enum { SIZE = sizeof mixed - 1, STEP = 31 };
    char text[SIZE];
    uint64_t random = 1;
    FILE *out = fopen("/dev/null", "w");
    for (size_t i = 0; i < 2 * SIZE; i += STEP) {
        troupe_results *results;
        size_t size = i < SIZE ? i : SIZE;
        memcpy(text, mixed, SIZE);
        for (int flips = 0; i >= SIZE && flips < 3; flips++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            text[(random >> 33) % SIZE] ^= (char)(1 << (random >> 30 & 7));
        }
        support_write_file(record, text, size);
        troupe_status status = troupe_results_open(folder, &results);
        assert_true(status == TROUPE_OK || status == TROUPE_CORRUPT);
        if (status == TROUPE_OK) {
            troupe_must(troupe_results_export(results, out, .reports = true));
            troupe_must(troupe_results_export(results, out, .format = TROUPE_EXPORT_JSON));
        }
        troupe_results_free(&results);
    }
    fclose(out);
}

// ---- a study, and a sweep that runs

static void test_a_study_has_results(void **state)
{
    (void)state;
    char *file = support_path(folder, "my.study");
    troupe_space *space;
    troupe_study *study;
    troupe_results *results;
    troupe_asked asked;
    troupe_act act;
    double value;
    troupe_must(troupe_space_parse("{\"x\": {\"uniform\": [0, 1]}}", &space));
    troupe_must(troupe_study_open(space, &study, .file = file, .trials = 2));
    troupe_must(troupe_study_ask(study, &asked));
    troupe_must(troupe_study_report(study, asked.number, 3, &act));
    troupe_must(troupe_study_report(study, asked.number, 2, &act));
    troupe_must(troupe_study_ask(study, &asked));
    troupe_must(troupe_study_tell(study, asked.number, 1));
    troupe_must(troupe_results_open(file, &results));
    assert_int_equal(troupe_results_trial(results, 0)->count, 2);
    assert_string_equal(troupe_results_trial(results, 0)->reports[0].metrics[0].name, "value");
    troupe_must(troupe_results_value(results, 0, &value, .scope = TROUPE_SCOPE_AVG));
    assert_true(value == 2.5);
    troupe_must(troupe_results_value(results, 1, &value)); // It was told, and reported nothing.
    assert_true(value == 1);
    troupe_results_free(&results);
    troupe_study_free(&study);
    troupe_space_free(&space);
    free(file);
}

// What a trial is told counts beside its reports, and who violates what must hold is no best one.
static void test_a_study_and_its_results_have_the_same_best(void **state)
{
    (void)state;
    char *file = support_path(folder, "my.study");
    troupe_space *space;
    troupe_study *study;
    troupe_results *results;
    troupe_act act;
    static const double reports[][2] = {{0.5, 0.4}, {0.35, 0.35}, {0.2, 0.6}, {0.1, 0.1}};
    static const double told[] = {0.3, 0.35, 0.7, 0.05};
    double value;
    troupe_must(troupe_space_parse("{\"x\": {\"uniform\": [0, 1]}}", &space));
    troupe_must(troupe_study_open(space, &study, .file = file, .trials = 4));
    for (int i = 0; i < 4; i++) {
        troupe_asked asked;
        troupe_must(troupe_study_ask(study, &asked));
        for (int k = 0; k < 2; k++)
            troupe_must(troupe_study_report(study, asked.number, reports[i][k], &act));
        troupe_must(troupe_study_tell_values(study, asked.number, &told[i], i == 3 ? 1 : 0));
        troupe_best_trial best;
        const troupe_study_trial *is = troupe_study_best(study);
        troupe_must(troupe_results_open(file, &results));
        expect_best(results, is->number, is->best, HOW(.metric = NULL));
        troupe_results_free(&results);
        troupe_must(troupe_best_trial_get(file, &best));
        assert_int_equal(best.number, is->number);
        assert_true(best.value == is->best);
    }
    troupe_must(troupe_results_open(file, &results));
    expect_best(results, 2, 0.2, HOW(.metric = NULL));
    expect_best(results, 0, 0.3, HOW(.scope = TROUPE_SCOPE_LAST));
    expect_best(results, 1, 0.35, HOW(.scope = TROUPE_SCOPE_AVG)); // Of reports.
    expect_best(results, 2, 0.7, HOW(.goal = TROUPE_MAXIMIZE));
    troupe_must(troupe_results_value(results, 3, &value));
    assert_true(value == 0.05); // It has one all the same.
    char *text = table_of(results, NULL);
    check_with_python(text, "assert [r['best/value'] for r in rows()] == ['0.3', '0.35', '0.2',"
                            " '0.05'], text\n");
    free(text);
    troupe_results_free(&results);
    troupe_study_free(&study);
    troupe_space_free(&space);
    free(file);
}

TROUPE_STRUCT(settings, (double, rate), (troupe_text, meeting));

static troupe_status linger(troupe_rank *me, const settings *config)
{
    for (int i = 1; i <= 4; i++)
        TROUPE_TRY(troupe_report(me, {"loss", i == 2 ? config->rate : 2},
                                 {"acc", i < 4 ? 0 : 1 - config->rate}));
    int64_t until = support_now_ms() + SUPPORT_SLOWER * SUPPORT_SOON_MS;
    while (!support_exists(config->meeting) && support_now_ms() < until)
        TROUPE_TRY(troupe_barrier(me));
    return TROUPE_OK;
}
TROUPE_TRAINER(linger, settings);

static size_t count_reports(const troupe_sweep *sweep)
{
    troupe_results *results;
    size_t count = 0;
    troupe_must(troupe_sweep_results(sweep, &results));
    for (size_t i = 0; i < troupe_results_count(results); i++)
        count += troupe_results_trial(results, i)->count;
    troupe_results_free(&results);
    return count;
}

static void test_a_sweep_that_runs_has_results(void **state)
{
    (void)state;
    char *meeting = support_path(folder, "go");
    const troupe_param space[] = {TROUPE_UNIFORM(settings, rate, 0, 1),
                                  TROUPE_FIXED_TEXT(settings, meeting, meeting)};
    const troupe_train_options train = {
        .size = sizeof train, .storage = folder, .cpus_per_rank = 0.25, .keep = TROUPE_NONE};
    troupe_sweep *sweep;
    const troupe_trial *best, *last;
    double value;
    troupe_must(troupe_sweep_start(linger, space, &sweep, .metric = "loss", .goal = TROUPE_MINIMIZE,
                                   .trials = 2, .concurrent = 2, .train = &train));
    int64_t until = support_now_ms() + SUPPORT_SLOWER * SUPPORT_SOON_MS;
    while (count_reports(sweep) < 8 && support_now_ms() < until)
        assert_int_equal(troupe_sweep_wait(sweep, 10), TROUPE_TIMED_OUT);
    troupe_must(troupe_sweep_best_by(sweep, &best, &value));
    assert_string_equal(best->name, troupe_sweep_best(sweep)->name);
    assert_true(value == ((const settings *)best->config)->rate);
    troupe_must(troupe_sweep_best_by(sweep, &last, &value, .metric = "acc", .goal = TROUPE_MAXIMIZE,
                                     .scope = TROUPE_SCOPE_LAST));
    assert_string_equal(last->name, best->name);
    assert_true(value == 1 - ((const settings *)best->config)->rate);
    support_write_file(meeting, "", 0);
    troupe_must(troupe_sweep_wait(sweep, TROUPE_FOREVER));
    assert_int_equal(count_reports(sweep), 8);
    troupe_must(troupe_sweep_best_by(sweep, &last, NULL, .scope = TROUPE_SCOPE_LAST_5_AVG));
    assert_ptr_equal(last, troupe_sweep_best(sweep));
    troupe_sweep_free(&sweep);
    free(meeting);
}

// ---- the commands

static int tool(const char *arguments, char *output, size_t size)
{
    char command[4096];
    snprintf(command, sizeof command, "cd '%s' && '%s' tune %s", folder,
             support_setting("TROUPE_TOOL"), arguments);
    return support_run(command, output, size);
}

static void expect_tool(int status, const char *arguments, const char *says)
{
    char output[8192];
    int ended = tool(arguments, output, sizeof output);
    if (ended != status || strstr(output, says) == NULL)
        fail_msg("tune %s: %d, %s", arguments, ended, output);
}

static void test_the_commands(void **state)
{
    (void)state;
    support_write_file(record, mixed, strlen(mixed));
    expect_tool(0, "best .", "{\"rate\": 0.5,");
    expect_tool(0, "best --scope last .", "{\"rate\": 0.25,");
    expect_tool(0, "best --scope last-5-avg .", "{\"rate\": 0.125,");
    expect_tool(0, "best --metric acc --goal max --scope last trials.jsonl", "trial 0, value 0.75");
    expect_tool(1, "best --metric acc .", ".goal is missing, or --goal: the sweep ");
    expect_tool(1, "best --metric none --goal min .", "reports have loss, acc");
    expect_tool(2, "best --scope some .", "expected all, last, avg, last-5-avg or last-10-avg");
    expect_tool(2, "best --goal up .", "expected min or max");
    expect_tool(0, "export .", "number,name,state,reports,");
    expect_tool(0, "export --json --reports .", "\"history\": [{\"report\": 1");
    expect_tool(0, "export -o t.csv --reports .", "");
    expect_tool(0, "export -o t.csv --reports . && cat t.csv", "0,fit_3d3d1_00000,2,2.5,,9,\n");
    expect_tool(1, "export -o none/t.csv .", "none/t.csv cannot be written");
    expect_tool(1, "export missing", "there is no sweep or study at missing");
    expect_tool(2, "export", "usage: troupe tune export");
    expect_tool(2, "export --xml .", "usage: troupe tune export");
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .cpus = 2));
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_the_best_by_metric_and_scope),
        TEST(test_the_last_few_of_many),
        TEST(test_checkpoints_are_found_from_the_folder),
        TEST(test_reports_are_there_by_their_numbers),
        TEST(test_tables_are_read_by_others),
        TEST(test_configs_over_a_version_are_whole),
        TEST(test_it_fails_where_memory_does),
        TEST(test_damaged_records_have_results),
        TEST(test_a_study_has_results),
        TEST(test_a_study_and_its_results_have_the_same_best),
        TEST(test_a_sweep_that_runs_has_results),
        TEST(test_the_commands),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    troupe_status status = troupe_stop();
    return failed != 0 ? failed : (int)status;
}
