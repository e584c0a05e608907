// test_replay.c: lines of a sweep that was killed are read back; what is none of them is left out.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <support.h>
#include <tune/sweep/replay.h>

static const char first[] =
    "{\"event\": \"sweep\", \"trainer\": \"fit\", \"metric\": \"loss\", \"goal\": \"minimize\", "
    "\"trials\": 2, \"seed\": 7, \"scheduler\": \"all\", \"id\": \"0123\"}\n";

static trp_trial trials[] = {{.view = {.name = "fit_3d3d1_00000"}},
                             {.view = {.name = "fit_3d3d1_00001"}}};

static char folder[] = "/runs/fit";

static troupe_sweep sweep_of(const troupe_trainer *trainer)
{
    return (troupe_sweep){.trainer = trainer,
                          .how = {.goal = TROUPE_MINIMIZE, .seed = 7},
                          .metric = "loss",
                          .scheduler = "all",
                          .trials = trials,
                          .count = 2,
                          .folder = folder};
}

static void test_only_the_same_sweep_goes_on(void **state)
{
    (void)state;
    const troupe_trainer trainer = {.name = "fit"}, other = {.name = "fat"};
    troupe_sweep sweep = sweep_of(&trainer);
    assert_int_equal(trp_replay_check(first, strlen(first), &sweep), TROUPE_OK);
    assert_string_equal(sweep.id, "0123");
    sweep.trainer = &other;
    assert_int_equal(trp_replay_check(first, strlen(first), &sweep), TROUPE_EXISTS);
    assert_non_null(strstr(troupe_last_error()->text, "it differs in its trainer"));
    sweep = sweep_of(&trainer);
    sweep.how.goal = TROUPE_MAXIMIZE;
    assert_int_equal(trp_replay_check(first, strlen(first), &sweep), TROUPE_EXISTS);
    assert_non_null(strstr(troupe_last_error()->text, "it differs in goal"));
    sweep = sweep_of(&trainer);
    sweep.count = 3;
    assert_int_equal(trp_replay_check(first, strlen(first), &sweep), TROUPE_EXISTS);
    assert_non_null(strstr(troupe_last_error()->text, "it differs in trials"));
    sweep = sweep_of(&trainer);
    strcpy(sweep.scheduler, "some");
    assert_int_equal(trp_replay_check(first, strlen(first), &sweep), TROUPE_EXISTS);
    assert_non_null(strstr(troupe_last_error()->text, "it differs in scheduler"));
    // One without an id was a program's own.
    char local[sizeof first];
    strcpy(local, first);
    strcpy(strstr(local, ", \"id\""), "}\n");
    sweep = sweep_of(&trainer);
    assert_int_equal(trp_replay_check(local, strlen(local), &sweep), TROUPE_EXISTS);
    assert_non_null(strstr(troupe_last_error()->text, "ended with its program"));
    assert_int_equal(trp_replay_check("[]\n", 3, &sweep), TROUPE_CORRUPT);
    assert_int_equal(trp_replay_check("{\"event\"", 8, &sweep), TROUPE_CORRUPT);
}

typedef struct seen {
    int count, fails_at;
    char text[800];
} seen;

static troupe_status see(void *user, const trp_replayed *line)
{
    seen *it = user;
    size_t used = strlen(it->text);
    const troupe_report_event *report = &line->report;
    if (++it->count == it->fails_at)
        return troupe_fail(TROUPE_NO_MEMORY, "enough");
    snprintf(it->text + used, sizeof it->text - used, "%d of %d: %d %s %s=%g %d '%s' %g\n",
             (int)line->is, line->trial, report->number,
             report->checkpoint != NULL ? report->checkpoint : "-",
             report->count > 0 ? report->metrics[0].name : "",
             report->count > 0 ? report->metrics[0].value : 0, (int)line->state, line->error,
             line->best);
    return TROUPE_OK;
}

static void test_lines_come_in_their_order(void **state)
{
    (void)state;
    static const char next[] =
        "{\"event\": \"submitted\", \"trial\": \"fit_3d3d1_00001\", \"config\": {}}\n"
        "{\"event\": \"report\", \"trial\": \"fit_3d3d1_00001\", \"number\": 1, \"elapsed_s\": 1, "
        "\"metrics\": {\"loss\": 0.5}}\n"
        "{\"event\": \"rep\n"
        "{\"event\": \"report\", \"trial\": \"fit_3d3d1_00009\", \"number\": 1}\n"
        "{\"event\": \"report\", \"trial\": \"fat_3d3d1_00000\", \"number\": 1}\n"
        "{\"event\": \"later\", \"trial\": \"fit_3d3d1_00000\"}\n"
        "\n"
        "{\"event\": \"report\", \"trial\": \"fit_3d3d1_00000\", \"number\": 2, \"elapsed_s\": 1, "
        "\"metrics\": {\"loss\": \"Infinity\"}}\n"
        "{\"event\": \"checkpoint\", \"trial\": \"fit_3d3d1_00000\", \"number\": 2, "
        "\"checkpoint\": \"/c\"}\n"
        "{\"event\": \"end\", \"trial\": \"fit_3d3d1_00000\", \"state\": \"STOPPED\", "
        "\"reports\": 3, \"elapsed_s\": 1, \"best\": 0.25, \"error\": \"\"}\n"
        "{\"event\": \"end\", \"trial\": \"fit_3d3d1_00001\", \"state\": \"ERROR\", "
        "\"reports\": 1, \"elapsed_s\": 1, \"best\": \"NaN\", \"error\": \"it fell\"}\n"
        "{\"event\": \"report\", \"trial\": \"fit_3d3d1_00000\", \"number\": 3"; // It was killed.
    const troupe_trainer trainer = {.name = "fit"};
    troupe_sweep sweep = sweep_of(&trainer);
    char text[sizeof first + sizeof next];
    seen all = {0};
    snprintf(text, sizeof text, "%s%s", first, next);
    assert_int_equal(trp_replay(text, strlen(text), &sweep, see, &all), TROUPE_OK);
    assert_string_equal(all.text, "0 of 1: 0 - =0 2 '' nan\n"
                                  "1 of 1: 1 - loss=0.5 2 '' nan\n"
                                  "1 of 0: 2 - loss=inf 2 '' nan\n"
                                  "2 of 0: 2 /c =0 2 '' nan\n"
                                  "3 of 0: 3 - =0 3 '' 0.25\n"
                                  "3 of 1: 1 - =0 4 'it fell' nan\n");
    all = (seen){.fails_at = 2};
    assert_int_equal(trp_replay(text, strlen(text), &sweep, see, &all), TROUPE_NO_MEMORY);
    assert_int_equal(all.count, 2);
    assert_int_equal(trp_replay(text, 0, &sweep, see, &all), TROUPE_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_the_same_sweep_goes_on),
        cmocka_unit_test(test_lines_come_in_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
