// test_trials.c: records of sweeps and studies, of earlier forms too, whole and damaged, are read
// as they were written, and what configs differ in becomes columns.
#include <math.h>
#include <runtime/base/memory.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <troupe/status.h>
#include <tune/space/random.h>
#include <tune/why/trials.h>

static char *folder;
static trp_trials seen;

static int set_up(void **state)
{
    (void)state;
    folder = support_directory_make();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    trp_trials_free(&seen);
    support_directory_remove(folder);
    return 0;
}

static void write_record(const char *text)
{
    char *path = support_path(folder, "trials.jsonl");
    support_write_file(path, text, strlen(text));
    free(path);
}

static troupe_status read_at(const char *path)
{
    trp_trials_free(&seen);
    return trp_trials_read(path, &seen);
}

static void read_record(const char *text)
{
    write_record(text);
    assert_int_equal(read_at(folder), TROUPE_OK);
}

#define FIRST                                                                                      \
    "{\"event\": \"sweep\", \"trainer\": \"fit\", \"metric\": \"loss\", \"goal\": \"minimize\", "  \
    "\"trials\": 9, \"seed\": 18446744073709551615, \"scheduler\": \"ASHA\"}\n"
#define SUBMIT(trial, config)                                                                      \
    "{\"event\": \"submitted\", \"trial\": \"fit_3d3d1_0000" trial "\", \"config\": " config "}\n"
#define REPORT(trial, number, loss)                                                                \
    "{\"event\": \"report\", \"trial\": \"fit_3d3d1_0000" trial "\", \"number\": " number          \
    ", \"elapsed_s\": 0.5, \"metrics\": {\"loss\": " loss ", \"other\": 1}}\n"
#define END(trial, state, best)                                                                    \
    "{\"event\": \"end\", \"trial\": \"fit_3d3d1_0000" trial "\", \"state\": \"" state             \
    "\", \"reports\": 3, \"elapsed_s\": 1.5, \"best\": " best ", \"error\": \"\"}\n"

static void test_a_sweep_is_read(void **state)
{
    (void)state;
    read_record(FIRST SUBMIT("1", "{\"rate\": 0.5, \"epochs\": 3}") REPORT("1", "1", "4.0")
                    SUBMIT("0", "{\"rate\": 0.25, \"epochs\": 3}") REPORT("0", "1", "3")
                        REPORT("1", "2", "2.5") REPORT("1", "3", "\"NaN\"")
                            END("1", "TERMINATED", "2.5") REPORT("0", "2", "9"));
    assert_true(seen.sweep);
    assert_string_equal(seen.trainer, "fit");
    assert_string_equal(seen.scheduler, "ASHA");
    assert_string_equal(seen.seed, "18446744073709551615");
    assert_string_equal(seen.metrics[0], "loss");
    assert_int_equal(seen.wanted, 9);
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.bad_lines, 0);
    const trp_seen_trial *zero = seen.trials[0], *one = seen.trials[1];
    assert_string_equal(zero->name, "fit_3d3d1_00000");
    assert_int_equal(zero->state, TRP_TRIALS_RUNNING);
    assert_int_equal(one->state, TRP_TRIALS_TERMINATED);
    assert_true(zero->values[0] == 3 && one->values[0] == 2.5);
    assert_int_equal(one->reports, 3);
    assert_true(one->elapsed_s == 1.5);
    assert_int_equal(one->used, 3);
    assert_true(one->points[0] == 4 && one->points[1] == 2.5 && isnan(one->points[2]));
    assert_int_equal(seen.column_count, 1);
    assert_string_equal(seen.columns[0].name, "rate");
    assert_true(zero->x[0] == 0.25 && one->x[0] == 0.5);
    assert_ptr_equal(trp_trials_best(&seen), one);
    assert_int_equal(seen.counts[TRP_TRIALS_RUNNING], 1);
}

static void test_a_study_is_read(void **state)
{
    (void)state;
    read_record(
        "{\"event\": \"study\", \"goals\": [\"maximize\"], \"searcher\": {\"name\": \"TPE\"}, "
        "\"space\": {\"rate\": {\"log_uniform\": [0.01, 1]}, \"width\": {\"integer\": [2, 64], "
        "\"log\": true}, \"kind\": {\"choice\": [1, 2]}}}\n"
        "{\"event\": \"warm\", \"trial\": -1, \"params\": {\"rate\": 0.9}}\n"
        "{\"event\": \"suggest\", \"trial\": 0, \"x\": [0.1, 8, 0], \"params\": {\"rate\": 0.1, "
        "\"width\": 8, \"kind\": 1}}\n"
        "{\"event\": \"report\", \"trial\": 0, \"number\": 1, \"values\": [5]}\n"
        "{\"event\": \"report\", \"trial\": 0, \"number\": 2, \"values\": [7], \"act\": "
        "\"pause\"}\n"
        "{\"event\": \"suggest\", \"trial\": 1, \"params\": {\"rate\": 0.2, \"width\": 9, "
        "\"kind\": 2}}\n"
        "{\"event\": \"end\", \"trial\": 1, \"ending\": \"complete\", \"values\": [6]}\n"
        "{\"event\": \"again\", \"trial\": 0}\n"
        "{\"event\": \"end\", \"trial\": 0, \"ending\": \"stopped\"}\n"
        "{\"event\": \"suggest\", \"trial\": 2, \"params\": {\"rate\": 0.3, \"width\": 9, "
        "\"kind\": 2}}\n"
        "{\"event\": \"end\", \"trial\": 2, \"ending\": \"failed\", \"values\": [99], \"error\": "
        "\"no\"}\n"
        "{\"event\": \"extend\", \"trials\": 30}\n");
    assert_false(seen.sweep);
    assert_string_equal(seen.searcher, "TPE");
    assert_int_equal(seen.wanted, 30);
    assert_int_equal(seen.count, 3);
    assert_int_equal(seen.other_lines, 1);
    assert_int_equal(seen.bad_lines, 0);
    assert_int_equal(seen.trials[0]->state, TRP_TRIALS_STOPPED);
    assert_true(seen.trials[0]->values[0] == 7); // The best that it reported.
    assert_int_equal(seen.trials[2]->state, TRP_TRIALS_ERROR);
    assert_string_equal(seen.trials[2]->error, "no");
    assert_int_equal(trp_trials_best(&seen)->number, 0); // None that failed.
    assert_int_equal(seen.column_count, 3);
    const troupe_dim *rate = &seen.columns[0].dim, *width = &seen.columns[1].dim;
    assert_true(rate->log && rate->low == 0.01 && rate->high == 1);
    assert_int_equal(width->kind, TROUPE_DIM_INTEGER);
    assert_true(width->log && width->low == 2 && width->high == 64);
    assert_int_equal(seen.columns[2].dim.kind, TROUPE_DIM_CHOICE);
    assert_string_equal(seen.columns[2].texts[1], "2");
    assert_true(seen.trials[1]->x[2] == 1);
}

static void test_what_configs_differ_in(void **state)
{
    (void)state;
    read_record(FIRST SUBMIT("0", "{\"a\": {\"b\": 1, \"name\": \"x\"}, \"on\": true, \"same\": 4}")
                    SUBMIT("1", "{\"a\": {\"b\": 1000, \"name\": \"y\"}, \"on\": false, \"same\": "
                                "4, \"more\": 0.5}")
                        SUBMIT("2", "{\"a\": {\"b\": 10, \"name\": \"x\"}, \"on\": true, \"same\": "
                                    "4, \"list\": [1, 2]}"));
    static const char *const names[] = {"a.b", "a.name", "on", "more", "list"};
    assert_int_equal(seen.column_count, 5);
    for (int i = 0; i < 5; i++)
        assert_string_equal(seen.columns[i].name, names[i]);
    assert_int_equal(seen.columns[0].dim.kind, TROUPE_DIM_INTEGER);
    assert_true(seen.columns[0].dim.log && seen.columns[0].dim.high == 1000);
    assert_int_equal(seen.columns[1].dim.choices, 2);
    assert_string_equal(seen.columns[1].texts[0], "\"x\"");
    assert_string_equal(seen.columns[2].texts[0], "false");
    assert_true(seen.trials[0]->x[2] == 1 && seen.trials[1]->x[2] == 0);
    assert_true(isnan(seen.trials[0]->x[3]) && seen.trials[1]->x[3] == 0.5);
    assert_string_equal(seen.columns[4].texts[0], "[1, 2]");
    // One of many values is a text that nothing is known of.
    trp_buffer text = {0};
    trp_buffer_printf(&text, FIRST);
    for (int i = 0; i < 40; i++)
        trp_buffer_printf(&text,
                          "{\"event\": \"submitted\", \"trial\": \"f_%d\", \"config\": {\"free\": "
                          "\"text %d\", \"rate\": %d}}\n",
                          i, i, i);
    trp_buffer_append(&text, "", 1);
    read_record((const char *)text.data);
    assert_int_equal(seen.column_count, 1);
    assert_int_equal(seen.columns_left_out, 1);
    assert_true(seen.trials[39]->x[0] == 39);
    trp_buffer_free(&text);
}

static void test_choices_are_those_of_the_space(void **state)
{
    (void)state;
    trp_buffer text = {0};
    trp_buffer_printf(&text,
                      "{\"event\": \"study\", \"space\": {\"size\": {\"ordered\": [\"small\", "
                      "\"large\", \"huge\"]}, \"many\": {\"choice\": [");
    for (int i = 0; i < 40; i++)
        trp_buffer_printf(&text, "%s%d", i > 0 ? ", " : "", i);
    trp_buffer_printf(&text, "]}}}\n");
    for (int i = 0; i < 40; i++)
        trp_buffer_printf(&text,
                          "{\"event\": \"suggest\", \"trial\": %d, \"params\": {\"size\": \"%s\", "
                          "\"many\": %d}}\n",
                          i, i % 2 == 0 ? "huge" : "small", i);
    trp_buffer_append(&text, "", 1);
    read_record((const char *)text.data);
    trp_buffer_free(&text);
    assert_int_equal(seen.column_count, 2);
    assert_true(seen.columns[0].dim.ordered);
    assert_int_equal(seen.columns[0].dim.choices, 3);
    assert_true(seen.trials[0]->x[0] == 2 && seen.trials[1]->x[0] == 0);
    assert_int_equal(seen.columns[1].dim.kind, TROUPE_DIM_INTEGER); // More than choices can be.
    assert_true(seen.trials[39]->x[1] == 39);
}

// As auto says it: by the first space, and by one that is larger.
static void test_what_a_searcher_has_chosen_is_said(void **state)
{
    (void)state;
    static const char first[] = "{\"event\": \"study\", \"goals\": [\"minimize\"], \"searcher\": "
                                "\"auto\", \"chosen\": \"auto: Gaussian process\"}\n";
    static const char larger[] = "{\"event\": \"space\", \"space\": {\"rate\": {\"choice\": [1]}}, "
                                 "\"before\": {}, \"chosen\": \"auto: TPE\"}\n";
    char text[400];
    read_record(first);
    assert_string_equal(seen.searcher, "auto: Gaussian process");
    snprintf(text, sizeof text, "%s%s", first, larger);
    read_record(text);
    assert_string_equal(seen.searcher, "auto: TPE");
    read_record("{\"event\": \"study\", \"searcher\": \"auto\"}\n"); // An earlier version's.
    assert_string_equal(seen.searcher, "auto");
}

static void test_damage_is_counted(void **state)
{
    (void)state;
    read_record(FIRST
                "{\"event\": \"report\", \"tri\n"
                "no JSON\n"
                "{\"event\": \"report\", \"trial\": \"unnumbered\", \"number\": 1}\n"
                "{\"event\": \"report\", \"trial\": 1e300, \"number\": 1}\n"
                "{\"event\": \"report\", \"trial\": 3, \"number\": -1}\n"
                "{\"trial\": 3}\n"
                "{\"event\": \"cloned\", \"trial\": 3, \"from\": 2}\n" SUBMIT("0", "{\"rate\": 1}")
                    REPORT("0", "1", "3") "{\"event\": \"end\", \"tri");
    assert_int_equal(seen.bad_lines, 6);
    assert_int_equal(seen.other_lines, 1);
    assert_int_equal(seen.trials[0]->number, 0);
    assert_int_equal(seen.trials[0]->state, TRP_TRIALS_RUNNING); // Its end is being written.
    assert_true(seen.trials[0]->values[0] == 3);
}

static void test_cut_and_flipped_records_are_read_somehow(void **state)
{
    (void)state;
    static const char whole[] = FIRST SUBMIT("0", "{\"rate\": 1, \"kind\": \"a\"}")
        REPORT("0", "1", "3") SUBMIT("1", "{\"rate\": 2, \"kind\": \"b\"}") REPORT("1", "1", "2")
            END("0", "TERMINATED", "3") END("1", "STOPPED", "2");
    trp_random random;
    trp_random_seed(&random, 5, 0);
    for (int i = 0; i < 300; i++) {
        char text[sizeof whole];
        memcpy(text, whole, sizeof whole);
        size_t cut = (size_t)trp_random_below(&random, sizeof whole);
        for (int k = 0; k < 3; k++)
            text[trp_random_below(&random, sizeof whole - 1)] =
                (char)(1 + trp_random_below(&random, 255));
        text[i % 2 == 0 ? cut : sizeof whole - 1] = '\0';
        write_record(text);
        troupe_status status = read_at(folder);
        assert_true(status == TROUPE_OK || status == TROUPE_CORRUPT || status == TROUPE_VERSION);
        assert_true(seen.count <= 7);
    }
}

static void test_what_is_none_is_said(void **state)
{
    (void)state;
    char *missing = support_path(folder, "missing");
    assert_int_equal(read_at(missing), TROUPE_NOT_FOUND);
    assert_int_equal(read_at(folder), TROUPE_NOT_FOUND);
    write_record(FIRST "{\"event\": \"study\", \"version\": 2}\n");
    assert_int_equal(read_at(folder), TROUPE_VERSION);
    assert_non_null(strstr(troupe_last_error()->text, "of version 2 of studies"));
    write_record("PK\x03\x04\n\x01\x02\n");
    assert_int_equal(read_at(folder), TROUPE_CORRUPT);
    read_record("");
    assert_int_equal(seen.count, 0);
    assert_null(trp_trials_best(&seen));
    char *file = support_path(folder, "my.study");
    const char text[] = "{\"event\": \"study\", \"goals\": [\"minimize\"]}\n";
    support_write_file(file, text, sizeof text - 1);
    assert_int_equal(read_at(file), TROUPE_OK);
    assert_string_equal(seen.name, "my.study");
    free(file);
    free(missing);
}

static void test_curves_are_of_bounded_size(void **state)
{
    (void)state;
    enum { REPORTS = 1000 };
    trp_buffer text = {0};
    trp_buffer_printf(&text, FIRST);
    for (int i = 1; i <= REPORTS; i++)
        trp_buffer_printf(&text,
                          "{\"event\": \"report\", \"trial\": \"f_7\", \"number\": %d, "
                          "\"metrics\": {\"loss\": %d}}\n",
                          i, i);
    trp_buffer_append(&text, "", 1);
    read_record((const char *)text.data);
    trp_buffer_free(&text);
    const trp_seen_trial *it = seen.trials[0];
    assert_int_equal(it->number, 7);
    assert_int_equal(it->reports, REPORTS);
    assert_int_equal(it->stride, 16);
    assert_int_equal(it->used, 63);
    for (size_t i = 0; i < it->used; i++)
        assert_true(it->points[i] == 1 + (double)i * it->stride);
    assert_true(it->values[0] == 1);
}

// Beside all pairs.
static void test_the_front_is_of_those_that_none_beats(void **state)
{
    (void)state;
    enum { TRIALS = 200 };
    trp_random random;
    trp_random_seed(&random, 6, 0);
    trp_buffer text = {0};
    trp_buffer_printf(&text, "{\"event\": \"sweep\", \"objectives\": {\"a\": \"minimize\", \"b\": "
                             "\"maximize\"}}\n");
    for (int i = 0; i < TRIALS; i++)
        trp_buffer_printf(
            &text,
            "{\"event\": \"suggest\", \"trial\": %d, \"params\": {\"k\": %d}}\n"
            "{\"event\": \"end\", \"trial\": %d, \"state\": \"%s\", \"values\": [%d, "
            "%d]%s}\n",
            i, i, i, i % 9 == 0 ? "ERROR" : "TERMINATED", (int)trp_random_below(&random, 1000),
            (int)trp_random_below(&random, 1000), i % 7 == 0 ? ", \"violation\": 0.5" : "");
    trp_buffer_append(&text, "", 1);
    read_record((const char *)text.data);
    trp_buffer_free(&text);
    bool front[TRIALS];
    int found = 0;
    assert_int_equal(trp_trials_front(&seen, front), TROUPE_OK);
    for (int i = 0; i < TRIALS; i++) {
        const double *one = seen.trials[i]->values;
        bool expected = i % 9 != 0 && i % 7 != 0; // It has not failed, and violates nothing.
        for (int k = 0; k < TRIALS; k++) {
            const double *other = seen.trials[k]->values;
            expected =
                expected && !(k % 9 != 0 && k % 7 != 0 && other[0] <= one[0] &&
                              other[1] >= one[1] && (other[0] < one[0] || other[1] > one[1]));
        }
        assert_int_equal(front[i], expected);
        found += expected;
    }
    assert_true(found > 2);
}

static void test_short_memory_is_said(void **state)
{
    (void)state;
    write_record(FIRST SUBMIT("0", "{\"rate\": 1, \"kind\": \"a\"}") REPORT("0", "1", "3")
                     SUBMIT("1", "{\"rate\": 2, \"kind\": \"b\"}") END("0", "TERMINATED", "3"));
    troupe_status status = TROUPE_NO_MEMORY;
    for (long allowed = 0; status != TROUPE_OK; allowed++) {
        trp_memory_fail_after(allowed);
        status = read_at(folder);
        trp_memory_fail_after(-1);
        assert_true(status == TROUPE_NO_MEMORY || (status == TROUPE_OK && seen.count == 2));
        assert_true(status != TROUPE_OK || seen.column_count == 2);
        trp_trials_free(&seen);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_sweep_is_read),
        TEST(test_a_study_is_read),
        TEST(test_what_configs_differ_in),
        TEST(test_choices_are_those_of_the_space),
        TEST(test_what_a_searcher_has_chosen_is_said),
        TEST(test_damage_is_counted),
        TEST(test_cut_and_flipped_records_are_read_somehow),
        TEST(test_what_is_none_is_said),
        TEST(test_curves_are_of_bounded_size),
        TEST(test_the_front_is_of_those_that_none_beats),
        TEST(test_short_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
