// test_page.c: pages are whole, hold what a record has as text and never as markup, name nothing
// that lies elsewhere, and are of bounded size.
#include <page.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <sys/stat.h>
#include <troupe/status.h>
#include <troupe/why.h>

static char *folder, *record, *made;

static int set_up(void **state)
{
    (void)state;
    folder = support_directory_make();
    record = support_path(folder, "trials.jsonl");
    made = support_path(folder, "report.html");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(record);
    free(made);
    support_directory_remove(folder);
    return 0;
}

static void put(trp_buffer *text)
{
    support_write_file(record, text->data, text->size);
    trp_buffer_free(text);
}

// Trials with a rate that matters and a kind that does not.
static void add_trials(trp_buffer *text, int count, int reports)
{
    for (int i = 0; i < count; i++) {
        double rate = 0.001 * (1 + i * 37 % count), loss = (rate - 0.02) * (rate - 0.02) + 1;
        trp_buffer_printf(text,
                          "{\"event\": \"suggest\", \"trial\": %d, \"params\": {\"rate\": %g, "
                          "\"kind\": \"%s\", \"epochs\": 9}}\n",
                          i, rate, i % 3 == 0 ? "<b>" : "plain");
        for (int k = 1; k <= reports; k++)
            trp_buffer_printf(text,
                              "{\"event\": \"report\", \"trial\": %d, \"number\": %d, \"values\": "
                              "[%g]}\n",
                              i, k, loss + 1.0 / k);
        trp_buffer_printf(text,
                          "{\"event\": \"end\", \"trial\": %d, \"state\": \"TERMINATED\", "
                          "\"values\": [%.17g]}\n",
                          i, loss);
    }
}

static void first_line(trp_buffer *text, const char *trainer)
{
    trp_buffer_printf(text, "{\"event\": \"sweep\", \"trainer\": ");
    trp_json_text(text, trainer);
    trp_buffer_printf(text, ", \"metric\": \"loss\", \"goal\": \"minimize\", \"seed\": 3}\n");
}

// The data that the script draws.
static trp_json data_of(const char *text)
{
    static const char begin[] = "<script type=\"application/json\" id=\"data\">";
    const char *at = strstr(text, begin);
    trp_json data;
    assert_non_null(at);
    at += strlen(begin);
    size_t size = (size_t)(strstr(at, "</script>") - at);
    assert_int_equal(trp_json_parse(at, size, &data), TROUPE_OK);
    return data;
}

static size_t items_of(trp_json object, const char *name)
{
    trp_json array, item = {0};
    size_t count = 0;
    assert_true(trp_json_member(object, name, &array));
    while (trp_json_next_item(array, &item))
        count++;
    return count;
}

static void test_a_page_has_all_of_a_sweep(void **state)
{
    (void)state;
    trp_buffer text = {0};
    first_line(&text, "fit");
    add_trials(&text, 40, 3);
    put(&text);
    assert_int_equal(troupe_sweep_report(folder, NULL), TROUPE_OK);
    page it = page_read(made);
    assert_false(it.outside);
    assert_int_equal(it.link_count, 0);
    assert_int_equal(it.scripts, 1);
    assert_int_equal(it.data, 1);
    static const char *const says[] = {"Sweep of fit", "Finished",   "Minimises loss",
                                       "Best config",  "\"kind\": ", "Best tenth",
                                       "History",      "Trials",     "rate",
                                       "\"epochs\": 9"};
    for (size_t i = 0; i < sizeof says / sizeof *says; i++)
        if (!page_says(&it, says[i]))
            fail_msg("the page lacks '%s'", says[i]);
    page_free(&it);
    char *whole = support_read_file(made);
    static const char *const places[] = {"history", "parallel", "slices", "landscape", "curves"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char id[64];
        snprintf(id, sizeof id, "id=\"plot-%s\"", places[i]);
        assert_non_null(strstr(whole, id));
    }
    assert_null(strstr(whole, "plot-front"));    // One objective.
    assert_null(strstr(whole, "plot-timeline")); // No times.
    trp_json data = data_of(whole);
    assert_int_equal(items_of(data, "trials"), 40);
    assert_int_equal(items_of(data, "curves"), 40);
    assert_int_equal(items_of(data, "dims"), 2);
    assert_int_equal(items_of(data, "front"), 0);
    free(whole);
}

static void test_what_a_record_has_is_text(void **state)
{
    (void)state;
    static const char hostile[] = "</script><script>alert(1)</script>\"'&<!--\x01\xff";
    trp_buffer text = {0};
    first_line(&text, hostile);
    for (int i = 0; i < 30; i++) {
        trp_buffer_printf(&text, "{\"event\": \"suggest\", \"trial\": %d, \"params\": {", i);
        trp_json_text(&text, hostile);
        trp_buffer_printf(&text, ": %d, \"kind\": ", i);
        trp_json_text(&text, i % 2 == 0 ? hostile : "</title>");
        trp_buffer_printf(&text,
                          "}}\n{\"event\": \"end\", \"trial\": %d, \"state\": \"%s\", "
                          "\"values\": [%d], \"error\": ",
                          i, i == 3 ? "ERROR" : "TERMINATED", i);
        trp_json_text(&text, i == 3 ? hostile : "");
        trp_buffer_printf(&text, "}\n");
    }
    put(&text);
    assert_int_equal(troupe_sweep_report(folder, NULL), TROUPE_OK);
    page it = page_read(made);
    assert_int_equal(it.scripts, 1);
    assert_int_equal(it.data, 1);
    assert_false(it.outside);
    assert_true(page_says(&it, "</script><script>alert(1)</script>"));
    page_free(&it);
    char *whole = support_read_file(made);
    assert_int_equal(items_of(data_of(whole), "trials"), 30);
    free(whole);
}

static void test_a_large_sweep_is_cut(void **state)
{
    (void)state;
    enum { TRIALS = 25000 };
    trp_buffer text = {0};
    first_line(&text, "fit");
    add_trials(&text, TRIALS, 0);
    put(&text);
    assert_int_equal(troupe_sweep_report(folder, NULL), TROUPE_OK);
    char *whole = support_read_file(made);
    trp_json data = data_of(whole), trials, trial = {0}, number;
    size_t count = items_of(data, "trials");
    assert_true(count > 5000 && count <= 10000);
    char says[64];
    snprintf(says, sizeof says, "The page has %zu of %d trials", count, TRIALS);
    assert_non_null(strstr(whole, says));
    assert_true(strlen(whole) < 2000000);
    // The best is there.
    troupe_best_trial best;
    bool found = false;
    assert_int_equal(troupe_best_trial_get(folder, &best), TROUPE_OK);
    assert_true(trp_json_member(data, "trials", &trials));
    while (trp_json_next_item(trials, &trial)) {
        number = (trp_json){0};
        assert_true(trp_json_next_item(trial, &number));
        found = found || atoi(number.at) == best.number;
    }
    assert_true(found);
    free(whole);
}

// Folders of trials are those of runs.
static void test_when_trials_ran_is_in_their_folders(void **state)
{
    (void)state;
    static const char run[] = "{\"version\": 1, \"trainer\": \"fit\", \"created\": "
                              "\"2026-11-24T12:00:00.250Z\", \"options\": {}}";
    static const char end[] = "{\"version\": 1, \"status\": \"OK\", \"at\": "
                              "\"2026-11-24T12:01:00.500Z\"}";
    trp_buffer text = {0};
    first_line(&text, "fit");
    add_trials(&text, 12, 2);
    trp_buffer_printf(&text, "{\"event\": \"submitted\", \"trial\": \"fit_00000_00004\"}\n"
                             "{\"event\": \"submitted\", \"trial\": \"fit_00000_00005\"}\n"
                             "{\"event\": \"submitted\", \"trial\": \"../x_00006\"}\n");
    put(&text);
    char *trial = support_path(folder, "fit_00000_00004"),
         *broken = support_path(folder, "fit_00000_00005");
    assert_int_equal(mkdir(trial, 0700) | mkdir(broken, 0700), 0);
    char *file = support_path(trial, "run.json"), *at = support_path(trial, "end"),
         *bad = support_path(broken, "run.json");
    support_write_file(file, run, sizeof run - 1);
    support_write_file(at, end, sizeof end - 1);
    support_write_file(bad, "no", 2);
    (void)troupe_fail(TROUPE_STOPPED, "kept");
    assert_int_equal(troupe_sweep_report(folder, NULL), TROUPE_OK);
    assert_string_equal(troupe_last_error()->text, "kept");
    char *whole = support_read_file(made);
    assert_non_null(strstr(whole, "plot-timeline"));
    assert_non_null(strstr(whole, ",1795521600.250,1795521660.500,["));
    assert_non_null(strstr(whole, ",null,null,["));
    free(whole);
    free(trial);
    free(broken);
    free(file);
    free(at);
    free(bad);
}

static void test_several_objectives_have_a_front(void **state)
{
    (void)state;
    trp_buffer text = {0};
    trp_buffer_printf(&text, "{\"event\": \"sweep\", \"objectives\": {\"loss\": \"minimize\", "
                             "\"speed\": \"maximize\"}}\n");
    for (int i = 0; i < 20; i++)
        trp_buffer_printf(&text,
                          "{\"event\": \"suggest\", \"trial\": %d, \"params\": {\"k\": %d}}\n"
                          "{\"event\": \"end\", \"trial\": %d, \"state\": \"TERMINATED\", "
                          "\"values\": [%d, %d]%s}\n",
                          i, i, i, i, i < 5 ? i : 0, i == 4 ? ", \"violation\": 2" : "");
    put(&text);
    assert_int_equal(troupe_sweep_report(folder, NULL), TROUPE_OK);
    char *whole = support_read_file(made);
    assert_non_null(strstr(whole, "plot-front"));
    assert_int_equal(items_of(data_of(whole), "front"), 4); // Trial 4 violates what must hold.
    assert_int_equal(items_of(data_of(whole), "violating"), 1);
    free(whole);
    page it = page_read(made);
    assert_true(page_says(&it, ", maximises speed"));
    page_free(&it);
}

static void test_where_nothing_has_a_value_it_is_a_page_still(void **state)
{
    (void)state;
    static const char *const records[] = {
        "", "{\"event\": \"sweep\", \"trainer\": \"fit\"}\n",
        "{\"event\": \"suggest\", \"trial\": 0, \"params\": {\"k\": 1}}\nbad\n",
        "{\"event\": \"suggest\", \"trial\": 0, \"params\": 7}\n"
        "{\"event\": \"end\", \"trial\": 0, \"state\": \"ERROR\", \"error\": \"no\"}\n"};
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        support_write_file(record, records[i], strlen(records[i]));
        assert_int_equal(troupe_sweep_report(folder, NULL), TROUPE_OK);
        page it = page_read(made);
        assert_true(page_says(&it, "Trials"));
        assert_int_equal(page_says(&it, "1 of 2 lines of the record cannot be read"), i == 2);
        page_free(&it);
    }
}

static void test_a_page_is_put_where_it_is_asked_for(void **state)
{
    (void)state;
    static const char text[] = "{\"event\": \"study\", \"goals\": [\"minimize\"]}\n";
    char *there = support_path(folder, "there.html"), *study = support_path(folder, "my.study");
    char *beside = support_path(folder, "my.study.html"), *no = support_path(folder, "no/a.html");
    support_write_file(study, text, sizeof text - 1);
    assert_int_equal(troupe_sweep_report(study, there), TROUPE_OK);
    assert_int_equal(troupe_sweep_report(study, NULL), TROUPE_OK);
    assert_int_equal(troupe_sweep_report(study, no), TROUPE_IO);
    assert_true(support_exists(there) && support_exists(beside));
    page it = page_read(there);
    assert_true(page_says(&it, "my.study") && page_says(&it, "Study"));
    page_free(&it);
    free(there);
    free(study);
    free(beside);
    free(no);
}

static void test_short_memory_is_said(void **state)
{
    (void)state;
    trp_buffer text = {0};
    first_line(&text, "fit");
    add_trials(&text, 3, 1);
    put(&text);
    troupe_status status = TROUPE_NO_MEMORY;
    for (long allowed = 0; status != TROUPE_OK; allowed += 1 + allowed / 50) {
        trp_memory_fail_after(allowed);
        status = troupe_sweep_report(folder, NULL);
        trp_memory_fail_after(-1);
        assert_true(status == TROUPE_OK || status == TROUPE_NO_MEMORY);
        assert_int_equal(support_exists(made), status == TROUPE_OK);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_page_has_all_of_a_sweep),
        TEST(test_what_a_record_has_is_text),
        TEST(test_a_large_sweep_is_cut),
        TEST(test_when_trials_ran_is_in_their_folders),
        TEST(test_several_objectives_have_a_front),
        TEST(test_where_nothing_has_a_value_it_is_a_page_still),
        TEST(test_a_page_is_put_where_it_is_asked_for),
        TEST(test_short_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
