// test_program_line.c: what a program says in a line: what is a report, by every mistake, and
// bytes that make no sense.
#include <support.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <train/program_env.h>
#include <train/program_output.h>
#include <unistd.h>

static trp_arena arena;

static trp_program_said read_report(const char *line)
{
    trp_program_said said;
    troupe_status status = trp_program_line_read(line, strlen(line), &arena, &said);
    if (status != TROUPE_OK)
        fail_msg("%s: %s", line, troupe_last_error()->text);
    return said;
}

static void refuse(const char *line, troupe_status expected, const char *wanted)
{
    trp_program_said said;
    troupe_status status = trp_program_line_read(line, strlen(line), &arena, &said);
    if (status != expected || strstr(troupe_last_error()->text, wanted) == NULL)
        fail_msg("%s: status %d, '%s'; expected %d and '%s'", line, status,
                 troupe_last_error()->text, expected, wanted);
}

static void test_reports(void **state)
{
    (void)state;
    trp_program_said said = read_report(
        "{\"metrics\": {\"loss\": 0.5, \"done\": true}, \"checkpoint\": \"a/\\u00e9\"}");
    assert_int_equal(said.count, 2);
    assert_string_equal(said.metrics[0].name, "loss");
    assert_true(said.metrics[0].value == 0.5 && said.metrics[1].value == 1);
    assert_string_equal(said.checkpoint, "a/\xc3\xa9");
    assert_null(said.ignored);
    said = read_report("{}");
    assert_true(said.count == 0 && said.checkpoint == NULL);
    said = read_report("{\"checkpoint\": null, \"metrix\": {\"loss\": NaN}}");
    assert_null(said.checkpoint);
    assert_string_equal(said.ignored, "metrix");
}

static void test_numbers_in_lines_for_others(void **state)
{
    (void)state;
    static const char line[] = "  {\"a\": -1.5, \"b\": \"2\", \"c\": {\"d\": 1}, \"e\": false, "
                               "\"f\": null, \"g\": -Infinity, \"\": 4}";
    static const char *const none[] = {
        "", "  ", "x", "{", "{}", "[1]", "{\"a\": \"1\"}", "{\"a\": 1} 2"};
    trp_program_said said;
    assert_true(trp_program_line_has_numbers(line, sizeof line - 1, &arena, &said));
    assert_int_equal(said.count, 3);
    assert_string_equal(said.metrics[0].name, "a");
    assert_true(said.metrics[0].value == -1.5);
    assert_string_equal(said.metrics[1].name, "e");
    assert_true(said.metrics[1].value == 0);
    assert_true(said.metrics[2].value == -(double)INFINITY);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_false(trp_program_line_has_numbers(none[i], strlen(none[i]), &arena, &said));
}

// Python's json writes them so at first.
static void test_numbers_that_are_none(void **state)
{
    (void)state;
    trp_program_said said = read_report(
        "{\"metrics\": {\"NaN \\\"NaN\": NaN, \"b\": -Infinity, \"c\": Infinity, \"d\": \"NaN\"}}");
    assert_string_equal(said.metrics[0].name, "NaN \"NaN");
    assert_true(isnan(said.metrics[0].value) && isnan(said.metrics[3].value));
    assert_true(said.metrics[1].value == -INFINITY && said.metrics[2].value == INFINITY);
    // C's printf, and some others.
    said =
        read_report("{\"metrics\": {\"a\": nan, \"b\": -nan, \"c\": inf, \"d\": -inf, \"e\": -NAN, "
                    "\"f\": +Inf, \"nan\": -INFINITY, \"-inf\": 1}}");
    assert_int_equal(said.count, 8);
    assert_true(isnan(said.metrics[0].value) && isnan(said.metrics[1].value));
    assert_true(said.metrics[2].value == INFINITY && said.metrics[3].value == -INFINITY);
    assert_true(isnan(said.metrics[4].value) && said.metrics[5].value == INFINITY);
    assert_true(said.metrics[6].value == -INFINITY && said.metrics[7].value == 1);
    assert_string_equal(said.metrics[7].name, "-inf");
}

static void test_mistakes_are_named(void **state)
{
    (void)state;
    char line[4096] = "{\"metrics\": {";
    refuse("loss: 0.5", TROUPE_MALFORMED, "column 1");
    refuse("{\"metrics\": {\"loss\": 0.5}", TROUPE_MALFORMED, "column");
    refuse("{\"metrics\": {\"loss\": 0.5}} {}", TROUPE_MALFORMED, "column");
    refuse("[1]", TROUPE_WRONG_TYPE, "no object");
    refuse("{\"metrics\": [1]}", TROUPE_WRONG_TYPE, "\"metrics\" is no object");
    refuse("{\"metrics\": {\"loss\": \"low\"}}", TROUPE_WRONG_TYPE, "'loss' is \"low\"");
    refuse("{\"metrics\": {\"loss\": null}}", TROUPE_WRONG_TYPE, "'loss' is null");
    refuse("{\"metrics\": {\"\": 1}}", TROUPE_INVALID, "expected 1 to 63 bytes");
    refuse("{\"metrics\": {\"loss\": 1, \"loss\": 2}}", TROUPE_MALFORMED, "once");
    refuse("{\"checkpoint\": 7}", TROUPE_WRONG_TYPE, "names a folder");
    refuse("{\"checkpoint\": \"\"}", TROUPE_INVALID, "empty");
    refuse("\xff\xfe", TROUPE_MALFORMED, "");
    for (int i = 0; i < 40; i++)
        snprintf(line + strlen(line), 32, "%s\"m%d\": 1", i > 0 ? ", " : "", i);
    strcat(line, "}}");
    refuse(line, TROUPE_INVALID, "more than 32 metrics");
}

static void test_damaged_lines(void **state)
{
    static const char good[] =
        "{\"metrics\": {\"loss\": -1.5e3, \"b\": NaN}, \"checkpoint\": \"x\"}";
    (void)state;
    srand(7);
    for (int round = 0; round < 20000; round++) {
        char line[sizeof good];
        trp_program_said said;
        size_t size = (size_t)rand() % sizeof good;
        memcpy(line, good, sizeof good);
        for (int i = rand() % 4; i > 0; i--)
            line[(size_t)rand() % (sizeof good - 1)] = (char)rand();
        troupe_status status = trp_program_line_read(line, size, &arena, &said);
        assert_true(status == TROUPE_OK || *troupe_last_error()->text != '\0');
        trp_arena_clear(&arena);
    }
}

// ---- lines, however their bytes come

static char seen[4096];
static int too_long;

static void see(void *user, const char *text, size_t size)
{
    (void)user;
    if (text == NULL)
        too_long++;
    else
        snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "[%.*s]", (int)size, text);
}

static void test_lines_come_in_any_pieces(void **state)
{
    static const char text[] = "one\n\ntwo\nthree";
    (void)state;
    for (size_t piece = 1; piece < sizeof text; piece++) {
        trp_program_lines lines = {.take = see};
        seen[0] = '\0';
        for (size_t at = 0; at < sizeof text - 1; at += piece)
            trp_program_lines_add(&lines, text + at,
                                  at + piece < sizeof text ? piece : sizeof text - 1 - at);
        trp_program_lines_end(&lines);
        assert_string_equal(seen, "[one][][two][three]");
    }
}

static void test_a_line_without_end_takes_no_memory(void **state)
{
    (void)state;
    trp_program_lines lines = {.take = see};
    char data[1024];
    memset(data, 'x', sizeof data);
    seen[0] = '\0';
    too_long = 0;
    for (int i = 0; i < 1000; i++)
        trp_program_lines_add(&lines, data, sizeof data);
    assert_true(lines.room <= TRP_PROGRAM_LINE_MAX && too_long == 0);
    trp_program_lines_add(&lines, "\nnext\n", 6);
    assert_int_equal(too_long, 1);
    assert_string_equal(seen, "[next]");
    trp_program_lines_end(&lines);
}

// ---- output with marked lines

static char *pass(const char *text, size_t piece, trp_program_output *output)
{
    static char got[8192];
    int in[2], out[2];
    assert_true(pipe(in) == 0 && pipe(out) == 0);
    *output = (trp_program_output){.from = in[0], .to = out[1], .reports = {.take = see}};
    seen[0] = '\0';
    for (size_t at = 0, size = strlen(text); at < size; at += piece) {
        size_t part = size - at < piece ? size - at : piece;
        assert_int_equal(write(in[1], text + at, part), part);
        trp_program_output_move(output);
    }
    close(in[1]);
    while (!trp_program_output_is_over(output))
        trp_program_output_move(output);
    close(out[1]);
    ssize_t size = read(out[0], got, sizeof got - 1);
    got[size > 0 ? size : 0] = '\0';
    close(out[0]);
    return got;
}

static void test_marked_lines_are_told_from_others(void **state)
{
    static const char text[] =
        "TROUPE\nTROUPE_REPORT {}\nx TROUPE_REPORT 1\nTROUPE_REPORT {\"a\"}\n"
        "TROUPE_REPORTS\n\nend TROUPE_";
    (void)state;
    trp_program_output output;
    for (size_t piece = 1; piece < sizeof text; piece++) {
        char *got = pass(text, piece, &output);
        assert_string_equal(got, "TROUPE\nx TROUPE_REPORT 1\nTROUPE_REPORTS\n\nend TROUPE_");
        assert_string_equal(seen, "[{}][{\"a\"}]");
    }
    assert_string_equal(pass("TROUPE_REP", 3, &output), "TROUPE_REP");
    assert_string_equal(pass("TROUPE_REPORT {}", 3, &output), "");
    assert_string_equal(seen, "[{}]");
}

static void test_last_words(void **state)
{
    char text[6000], last[64];
    (void)state;
    trp_program_output output;
    (void)pass("Traceback\n  at line 3\nValueError: \x1b[1mno\xff\n\n", 7, &output);
    trp_program_output_last(&output, last, sizeof last);
    assert_non_null(strstr(last, "ValueError: \\x1b[1mno\\xff"));
    for (size_t i = 0; i < sizeof text - 1; i++)
        text[i] = i % 10 == 9 ? '\n' : 'a';
    text[sizeof text - 1] = '\0';
    (void)pass(text, 4096, &output);
    trp_program_output_last(&output, last, sizeof last);
    assert_true(strlen(last) < sizeof last);
    assert_memory_equal(last, "aaaaaaaaa | aaaaaaaaa", 21);
    (void)pass("", 1, &output);
    trp_program_output_last(&output, last, sizeof last);
    assert_string_equal(last, "");
}

// ---- GPUs

static void test_gpus_of_all_ranks_are_listed_where_each_has_one(void **state)
{
    static const char own[][8] = {"0", "2", "GPU-a"}, shared[][8] = {"0", "0"},
                      more[][8] = {"0,1", "2,3"}, none[][8] = {"0", ""};
    char all[16];
    (void)state;
    assert_true(trp_program_gpus(own[0], 3, 8, all, sizeof all));
    assert_string_equal(all, "0,2,GPU-a");
    assert_false(trp_program_gpus(own[0], 3, 8, all, 5));
    assert_false(trp_program_gpus(shared[0], 2, 8, all, sizeof all));
    assert_false(trp_program_gpus(more[0], 2, 8, all, sizeof all));
    assert_false(trp_program_gpus(none[0], 2, 8, all, sizeof all));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reports),
        cmocka_unit_test(test_numbers_in_lines_for_others),
        cmocka_unit_test(test_numbers_that_are_none),
        cmocka_unit_test(test_mistakes_are_named),
        cmocka_unit_test(test_damaged_lines),
        cmocka_unit_test(test_lines_come_in_any_pieces),
        cmocka_unit_test(test_a_line_without_end_takes_no_memory),
        cmocka_unit_test(test_marked_lines_are_told_from_others),
        cmocka_unit_test(test_last_words),
        cmocka_unit_test(test_gpus_of_all_ranks_are_listed_where_each_has_one),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    trp_arena_clear(&arena);
    return failed;
}
