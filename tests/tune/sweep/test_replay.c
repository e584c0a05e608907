// test_replay.c: lines of a sweep that was killed are read back; what is none of them is left out.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <support.h>
#include <tune/sweep/replay.h>

static const char first[] =
    "{\"event\": \"sweep\", \"trainer\": \"fit\", \"metric\": \"loss\", \"goal\": \"minimize\", "
    "\"trials\": 2, \"seed\": 7, \"scheduler\": \"all\", \"id\": \"0123\"}\n";

static char folder[] = "/runs/fit";

static trp_sweep_port port;

static troupe_sweep sweep_of(const troupe_trainer *trainer)
{
    return (troupe_sweep){.port = &port,
                          .trainer = trainer,
                          .how = {.seed = 7, .server = TROUPE_SERVER_AUTO},
                          .objectives = {{"loss", TROUPE_MINIMIZE}},
                          .objective_count = 1,
                          .scheduler = "all",
                          .digits = 0x3d3d1,
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
    assert_non_null(strstr(troupe_last_error()->text,
                           "it differs in its trainer, which was fit and is fat now"));
    sweep = sweep_of(&trainer);
    sweep.objectives[0].goal = TROUPE_MAXIMIZE;
    assert_int_equal(trp_replay_check(first, strlen(first), &sweep), TROUPE_EXISTS);
    assert_non_null(strstr(troupe_last_error()->text,
                           "it differs in goal, which was minimize and is maximize now"));
    sweep = sweep_of(&trainer);
    sweep.how.seed = 8;
    assert_int_equal(trp_replay_check(first, strlen(first), &sweep), TROUPE_EXISTS);
    assert_non_null(
        strstr(troupe_last_error()->text, "it differs in seed, which was 7 and is 8 now"));
    sweep = sweep_of(&trainer);
    strcpy(sweep.scheduler, "some");
    assert_int_equal(trp_replay_check(first, strlen(first), &sweep), TROUPE_EXISTS);
    assert_non_null(strstr(troupe_last_error()->text,
                           "it differs in scheduler, which was all and is some now"));
    // One without an id was a program's own.
    char local[sizeof first];
    strcpy(local, first);
    strcpy(strstr(local, ", \"id\""), "}\n");
    sweep = sweep_of(&trainer);
    assert_int_equal(trp_replay_check(local, strlen(local), &sweep), TROUPE_EXISTS);
    assert_non_null(strstr(troupe_last_error()->text, "its trials are its program's"));
    sweep.how.server = TROUPE_SERVER_NONE;
    assert_int_equal(trp_replay_check(local, strlen(local), &sweep), TROUPE_OK);
    assert_string_equal(sweep.id, "");
    assert_int_equal(trp_replay_check(first, strlen(first), &sweep), TROUPE_EXISTS);
    assert_non_null(strstr(troupe_last_error()->text, "its trials are a train server's"));
    sweep = sweep_of(&trainer);
    assert_int_equal(trp_replay_check("[]\n", 3, &sweep), TROUPE_CORRUPT);
    assert_int_equal(trp_replay_check("{\"event\"", 8, &sweep), TROUPE_CORRUPT);
}

// One whose study's line is lost is not begun anew. A last line that is cut counts for nothing.
static void test_the_second_line_is_the_studys(void **state)
{
    (void)state;
    static const struct {
        const char *rest;
        troupe_status status;
    } rows[] = {
        {"{\"event\": \"study\", \"version\": 1}\n", TROUPE_OK},
        {"{\"event\": \"stu", TROUPE_OK},
        {"{\"event\": \"stu\n", TROUPE_CORRUPT},
        {"{\"event\": \"suggest\", \"trial\": 0}\n", TROUPE_CORRUPT},
        {"\n", TROUPE_CORRUPT},
        {"1\n", TROUPE_CORRUPT},
    };
    const troupe_trainer trainer = {.name = "fit"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[sizeof first + 64];
        troupe_sweep sweep = sweep_of(&trainer);
        snprintf(text, sizeof text, "%s%s", first, rows[i].rest);
        assert_int_equal(trp_replay_check(text, strlen(text), &sweep), rows[i].status);
        if (rows[i].status != TROUPE_OK)
            assert_non_null(strstr(troupe_last_error()->text, "line 2 of "));
    }
}

static void test_only_the_same_code_goes_on(void **state)
{
    (void)state;
    static const char line[] =
        "{\"event\": \"sweep\", \"trainer\": \"fit\", \"metric\": \"loss\", \"goal\": "
        "\"minimize\", \"trials\": 2, \"seed\": 7, \"scheduler\": \"all\", \"model\": "
        "\"digits@3\", \"settings\": {\"a\": 1, \"b\": [2]}, \"id\": \"0123\", \"command\": "
        "[\"train\", \"{rate}\"]}\n";
    static const struct {
        const char *model, *settings, *noted, *other;
    } cases[] = {
        {"digits@3", "{\"b\": [2],\n\"a\": 1}", ", \"command\": [\"train\", \"{rate}\"]", NULL},
        {NULL, NULL, NULL, NULL},
        {"digits@4", "{\"a\": 1, \"b\": [2]}", NULL, "it differs in model"},
        {"digits@3", "{\"a\": 1, \"b\": [3]}", NULL, "it differs in settings"},
        {NULL, NULL, ", \"command\": [\"learn\", \"{rate}\"]",
         "it differs in command, which was [\"train\",\"{rate}\"] and is [\"learn\",\"{rate}\"] "
         "now"},
    };
    const troupe_trainer trainer = {.name = "fit"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        troupe_sweep sweep = sweep_of(&trainer);
        port = (trp_sweep_port){.model = cases[i].model, .settings = cases[i].settings};
        sweep.noted = cases[i].noted;
        troupe_status status = trp_replay_check(line, strlen(line), &sweep);
        assert_int_equal(status, cases[i].other == NULL ? TROUPE_OK : TROUPE_EXISTS);
        if (cases[i].other != NULL)
            assert_non_null(strstr(troupe_last_error()->text, cases[i].other));
        assert_int_equal(trp_replay_check(first, strlen(first), &sweep), TROUPE_OK);
    }
    port = (trp_sweep_port){0};
}

// What a line says; `number`: of the trial, where it is one of the study's.
static const char *read_line(const char *line, int number)
{
    static char text[400];
    const troupe_trainer trainer = {.name = "fit"};
    troupe_sweep sweep = sweep_of(&trainer);
    trp_arena arena = {0};
    trp_replayed read;
    if (!trp_replay_line(line, strlen(line), &sweep, number, &arena, &read)) {
        trp_arena_clear(&arena);
        return "nothing";
    }
    const troupe_report_event *report = &read.report;
    snprintf(text, sizeof text, "%d of %d: %d %s %s=%g %d %d '%s' %g%s %d %d", (int)read.is,
             read.trial, report->number, report->checkpoint != NULL ? report->checkpoint : "-",
             report->count > 0 ? report->metrics[0].name : "",
             report->count > 0 ? report->metrics[0].value : 0, (int)read.state,
             read.config.size > 0, read.error, read.best, read.decided ? " decided" : "", read.run,
             read.failures);
    trp_arena_clear(&arena);
    return text;
}

static void test_lines_say_what_was_done(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        int number;
        const char *read;
    } cases[] = {
        {"{\"event\": \"submitted\", \"trial\": \"fit_3d3d1_00001\", \"config\": {}}", -1,
         "2 of 1: 0 - =0 2 1 '' nan 0 0"},
        {"{\"event\": \"run\", \"trial\": \"fit_3d3d1_00001\", \"run\": 2, \"number\": 5, "
         "\"failures\": 1, \"elapsed_s\": 3, \"checkpoint\": \"/c\"}",
         -1, "3 of 1: 5 /c =0 2 0 '' nan 2 1"},
        {"{\"event\": \"report\", \"trial\": 1, \"number\": 1, \"elapsed_s\": 1, \"name\": "
         "\"fit_3d3d1_00001\", \"metrics\": {\"loss\": 0.5}}",
         1, "4 of 1: 1 - loss=0.5 2 0 '' nan decided 0 0"},
        {"{\"event\": \"reported\", \"trial\": \"fit_3d3d1_00000\", \"number\": 2, "
         "\"elapsed_s\": 1, \"metrics\": {\"loss\": \"Infinity\"}}",
         -1, "4 of 0: 2 - loss=inf 2 0 '' nan 0 0"},
        {"{\"event\": \"checkpoint\", \"trial\": \"fit_3d3d1_00000\", \"number\": 2, "
         "\"checkpoint\": \"/c\"}",
         -1, "5 of 0: 2 /c =0 2 0 '' nan 0 0"},
        {"{\"event\": \"checkpoint\", \"trial\": \"fit_3d3d1_00000\", \"number\": 2, "
         "\"checkpoint\": \"fit_3d3d1_00000/checkpoints/c\"}",
         -1, "5 of 0: 2 /runs/fit/fit_3d3d1_00000/checkpoints/c =0 2 0 '' nan 0 0"},
        {"{\"event\": \"end\", \"trial\": 0, \"state\": \"STOPPED\", \"reports\": 3, "
         "\"elapsed_s\": 1, \"best\": 0.25}",
         0, "6 of 0: 3 - =0 3 0 '' 0.25 decided 0 0"},
        {"{\"event\": \"ended\", \"trial\": \"fit_3d3d1_00001\", \"state\": \"ERROR\", "
         "\"reports\": 1, \"elapsed_s\": 1, \"best\": \"NaN\", \"error\": \"it fell\"}",
         -1, "6 of 1: 1 - =0 4 0 'it fell' nan 0 0"},
        {"{\"event\": \"suggest\", \"trial\": 7}", 7, "0 of 7: 0 - =0 2 0 '' nan decided 0 0"},
        // None of the sweep's, none of its trials, and no line.
        {"{\"event\": \"over\", \"trial\": 7}", 7, "nothing"},
        {"{\"event\": \"again\", \"trial\": 7}", 7, "1 of 7: 0 - =0 2 0 '' nan decided 0 0"},
        {"{\"event\": \"report\", \"trial\": \"fit_3d3d1_00000\", \"number\": 1}", -1, "nothing"},
        {"{\"event\": \"reported\", \"trial\": \"fat_3d3d1_00000\", \"number\": 1}", -1, "nothing"},
        {"{\"event\": \"reported\", \"trial\": \"fit\", \"number\": 1}", -1, "nothing"},
        {"{\"event\": \"rep", -1, "nothing"},
        {"", -1, "nothing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(read_line(cases[i].line, cases[i].number), cases[i].read);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_the_same_sweep_goes_on),
        cmocka_unit_test(test_the_second_line_is_the_studys),
        cmocka_unit_test(test_only_the_same_code_goes_on),
        cmocka_unit_test(test_lines_say_what_was_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
