// test_fold.c: which lines are printed at once, kept back and counted: nothing is lost, whatever
// the order of lines and windows.
#include <support.h>

#include <runtime/host/line_folding.h>
#include <stdio.h>
#include <string.h>

static char printed[1 << 16];
static uint64_t lines_stood_for;

static void print(const trp_fold_line *line, uint64_t repeated)
{
    size_t used = strlen(printed);
    snprintf(printed + used, sizeof printed - used, "%s%s:%.*s*%d\n", line->to_stderr ? "!" : "",
             line->label, (int)line->size, line->text, (int)repeated);
    lines_stood_for += repeated > 0 ? repeated : 1;
}

static void say(trp_fold *fold, uint64_t source, const char *text, int64_t now_ms)
{
    char label[16];
    snprintf(label, sizeof label, "%d", (int)source);
    trp_fold_take(
        fold,
        &(trp_fold_line){.source = source, .label = label, .text = text, .size = strlen(text)},
        now_ms);
}

static trp_fold *begin_with(bool numbers)
{
    printed[0] = '\0';
    lines_stood_for = 0;
    trp_fold *fold = trp_fold_create(print, numbers);
    assert_non_null(fold);
    return fold;
}

static trp_fold *begin(void)
{
    return begin_with(false);
}

static void say_error(trp_fold *fold, uint64_t source, const char *text)
{
    trp_fold_line line = {
        .source = source, .to_stderr = true, .label = "e", .text = text, .size = strlen(text)};
    trp_fold_take(fold, &line, 0);
}

// Numbers are what a program has found out: none of them is swallowed.
static void test_results_are_printed(void **state)
{
    (void)state;
    trp_fold *fold = begin();
    say(fold, 1, "square of 3 is 9", 0);
    say(fold, 2, "square of 4 is 16", 0);
    say(fold, 3, "square of 3 is 9", 0);
    say(fold, 1, "square of 5 is 25", 0);
    (void)trp_fold_end_windows(fold, 0, true);
    assert_string_equal(printed, "1:square of 3 is 9*0\n2:square of 4 is 16*0\n"
                                 "1:square of 5 is 25*0\n3:square of 3 is 9*0\n");
    trp_fold_destroy(fold);
}

// The library's own lines, of standard error, are one cause's where they differ in numbers only.
static void test_the_librarys_lines(void **state)
{
    (void)state;
    trp_fold *fold = begin();
    say_error(fold, 1, "troupe: warn: waits for 2 CPUs (pid=1)");
    say_error(fold, 2, "troupe: warn: waits for 3 CPUs (pid=2)");
    say_error(fold, 3, "troupe: warn: waits for 4 CPUs (pid=3)");
    say_error(fold, 4, "trouper 4");
    say_error(fold, 5, "trouper 5");
    say(fold, 6, "troupe: warn: number 6", 0);
    say(fold, 7, "troupe: warn: number 7", 0);
    (void)trp_fold_end_windows(fold, 0, true);
    assert_string_equal(printed, "!e:troupe: warn: waits for 2 CPUs (pid=1)*0\n!e:trouper 4*0\n"
                                 "!e:trouper 5*0\n6:troupe: warn: number 6*0\n"
                                 "7:troupe: warn: number 7*0\n"
                                 "!e:troupe: warn: waits for 4 CPUs (pid=3)*2\n");
    trp_fold_destroy(fold);
}

static void test_lines_of_several_are_counted(void **state)
{
    (void)state;
    trp_fold *fold = begin_with(true);
    say(fold, 1, "rank 1 of 4 is ready", 0);
    say(fold, 2, "rank 2 of 4 is ready", 1);
    say(fold, 3, "rank 13 of 4 is ready", 2);
    assert_string_equal(printed, "1:rank 1 of 4 is ready*0\n");
    assert_int_equal(trp_fold_end_windows(fold, 100, false), TRP_FOLD_WINDOW_MS);
    assert_int_equal(trp_fold_end_windows(fold, TRP_FOLD_WINDOW_MS, false), 2 * TRP_FOLD_WINDOW_MS);
    assert_string_equal(printed, "1:rank 1 of 4 is ready*0\n3:rank 13 of 4 is ready*2\n");
    // Counting goes on; a window without any ends it.
    say(fold, 1, "rank 9 of 4 is ready", TRP_FOLD_WINDOW_MS + 1);
    assert_int_equal(trp_fold_end_windows(fold, 2 * TRP_FOLD_WINDOW_MS, false),
                     3 * TRP_FOLD_WINDOW_MS);
    assert_int_equal(trp_fold_end_windows(fold, 3 * TRP_FOLD_WINDOW_MS, false), -1);
    assert_string_equal(printed, "1:rank 1 of 4 is ready*0\n3:rank 13 of 4 is ready*2\n"
                                 "1:rank 9 of 4 is ready*0\n");
    trp_fold_destroy(fold);
}

static void test_one_process_alone_is_printed(void **state)
{
    (void)state;
    trp_fold *fold = begin_with(true);
    say(fold, 1, "epoch 1", 0);
    say(fold, 1, "epoch 2", 1);
    say(fold, 1, "epoch 2", 2);
    assert_string_equal(printed, "1:epoch 1*0\n1:epoch 2*0\n1:epoch 2*0\n");
    assert_int_equal(trp_fold_end_windows(fold, 0, true), -1);
    assert_string_equal(printed, "1:epoch 1*0\n1:epoch 2*0\n1:epoch 2*0\n");
    trp_fold_destroy(fold);
}

// What several have said and one goes on to say alone is kept back until the window ends, and is
// printed from then on.
static void test_one_that_goes_on_alone_is_printed(void **state)
{
    (void)state;
    trp_fold *fold = begin_with(true);
    say(fold, 1, "step 1", 0);
    say(fold, 2, "step 1", 1);
    say(fold, 2, "step 2", 2);
    say(fold, 2, "step 3", 3);
    assert_int_equal(trp_fold_end_windows(fold, TRP_FOLD_WINDOW_MS, false), 2 * TRP_FOLD_WINDOW_MS);
    assert_string_equal(printed, "1:step 1*0\n2:step 3*3\n");
    say(fold, 2, "step 4", TRP_FOLD_WINDOW_MS + 1);
    say(fold, 2, "step 5", TRP_FOLD_WINDOW_MS + 2);
    assert_string_equal(printed, "1:step 1*0\n2:step 3*3\n2:step 4*0\n2:step 5*0\n");
    // Another one joins in: what both say is counted, window after window.
    say(fold, 1, "step 2", TRP_FOLD_WINDOW_MS + 3);
    say(fold, 2, "step 6", TRP_FOLD_WINDOW_MS + 4);
    (void)trp_fold_end_windows(fold, 2 * TRP_FOLD_WINDOW_MS, false);
    say(fold, 2, "step 7", 2 * TRP_FOLD_WINDOW_MS + 1);
    say(fold, 1, "step 3", 2 * TRP_FOLD_WINDOW_MS + 2);
    (void)trp_fold_end_windows(fold, 3 * TRP_FOLD_WINDOW_MS, false);
    assert_string_equal(printed, "1:step 1*0\n2:step 3*3\n2:step 4*0\n2:step 5*0\n"
                                 "2:step 6*2\n1:step 3*2\n");
    trp_fold_destroy(fold);
}

static void test_what_differs_is_printed(void **state)
{
    (void)state;
    trp_fold *fold = begin();
    say(fold, 1, "loss 0.5", 0);
    say(fold, 2, "loss 0.5 nan", 0);
    say(fold, 2, "loss x", 0);
    say(fold, 2, "", 0);
    say(fold, 3, "", 0);
    trp_fold_take(fold,
                  &(trp_fold_line){
                      .source = 2, .to_stderr = true, .label = "2", .text = "loss 0.5", .size = 8},
                  0);
    assert_string_equal(printed,
                        "1:loss 0.5*0\n2:loss 0.5 nan*0\n2:loss x*0\n2:*0\n3:*0\n!2:loss 0.5*0\n");
    trp_fold_destroy(fold);
}

// More kinds of lines than are kept in mind: the oldest gives way, and nothing is lost.
static void test_nothing_is_lost(void **state)
{
    (void)state;
    enum { KINDS = 3 * TRP_FOLD_PATTERNS, TIMES = 5 };
    trp_fold *fold = begin_with(true);
    for (int time = 0; time < TIMES; time++) {
        for (int kind = 0; kind < KINDS; kind++) {
            char text[64], letters[3] = {(char)('a' + kind / 26 % 26), (char)('a' + kind % 26)};
            snprintf(text, sizeof text, "%s %d", letters, time);
            for (uint64_t source = 1; source <= 3; source++)
                say(fold, source, text, time * 1000);
        }
        printed[0] = '\0'; // Only the number matters here.
    }
    assert_int_equal(trp_fold_end_windows(fold, 0, true), -1);
    assert_int_equal(lines_stood_for, KINDS * TIMES * 3);
    trp_fold_destroy(fold);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results_are_printed),
        cmocka_unit_test(test_the_librarys_lines),
        cmocka_unit_test(test_lines_of_several_are_counted),
        cmocka_unit_test(test_one_process_alone_is_printed),
        cmocka_unit_test(test_one_that_goes_on_alone_is_printed),
        cmocka_unit_test(test_what_differs_is_printed),
        cmocka_unit_test(test_nothing_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
