// test_status.c: the statuses' texts and the thread's last error.
#include <errno.h>
#include <pthread.h>
#include <runtime/base/error.h>
#include <runtime/base/printable.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_every_status_has_a_text_and_a_name(void **state)
{
    (void)state;
    for (int i = 0; i < TROUPE_STATUS_COUNT; i++) {
        const char *name = troupe_status_name((troupe_status)i);
        assert_int_equal(strncmp(name, "TROUPE_", 7), 0);
        assert_true(strlen(troupe_strerror((troupe_status)i)) > 2);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(name, troupe_status_name((troupe_status)k));
    }
    assert_string_equal(troupe_status_name(TROUPE_NOT_EXECUTED), "TROUPE_NOT_EXECUTED");
    assert_string_equal(troupe_strerror(TROUPE_NO_MEMORY), "out of memory");
}

static void test_numbers_out_of_range_are_named_too(void **state)
{
    (void)state;
    const int wrong[] = {-1, TROUPE_STATUS_COUNT, 1 << 30};
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(troupe_strerror((troupe_status)wrong[i]), "unknown status");
        assert_string_equal(troupe_status_name((troupe_status)wrong[i]), "unknown status");
    }
}

static void test_failure_sets_the_sentence_and_success_leaves_it(void **state)
{
    (void)state;
    assert_int_equal(troupe_fail(TROUPE_INVALID, "rate is %g, must be positive", -0.5),
                     TROUPE_INVALID);
    assert_int_equal(troupe_last_error()->status, TROUPE_INVALID);
    assert_string_equal(troupe_last_error()->text, "rate is -0.5, must be positive");
    assert_int_equal(troupe_last_error()->outcome, TROUPE_OUTCOME_NONE);
    troupe_must(TROUPE_OK);
    assert_string_equal(troupe_last_error()->text, "rate is -0.5, must be positive");
}

static void test_a_failure_is_never_ok(void **state)
{
    (void)state;
    troupe_status none = TROUPE_OK;
    assert_int_equal(troupe_fail(none, "nothing went wrong"), TROUPE_FAILED);
    assert_int_equal(troupe_last_error()->status, TROUPE_FAILED);
    assert_string_equal(troupe_last_error()->text, "nothing went wrong");
    errno = EACCES;
    assert_int_equal(trp_fail_errno(none, "opening"), TROUPE_FAILED);
    // Also where the function itself is meant, and not the macro.
    assert_int_equal((troupe_fail)(none, "again"), TROUPE_FAILED);
}

static void test_a_sentence_may_quote_the_last_one(void **state)
{
    (void)state;
    (void)troupe_fail(TROUPE_IO, "the disk said no");
    (void)troupe_fail(TROUPE_FAILED, "saving: %s", troupe_last_error()->text);
    assert_string_equal(troupe_last_error()->text, "saving: the disk said no");
}

static void test_long_sentences_are_cut(void **state)
{
    (void)state;
    char text[2000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    (void)troupe_fail(TROUPE_FAILED, "%s", text);
    assert_int_equal(strlen(troupe_last_error()->text), 511);
    (void)trp_error_prefix("%.700s", text);
    assert_int_equal(strlen(troupe_last_error()->text), 511);
    (void)trp_error_prefix("front");
    assert_int_equal(strlen(troupe_last_error()->text), 511);
    assert_int_equal(strncmp(troupe_last_error()->text, "front: xxx", 10), 0);
}

static void test_prefix_keeps_the_rest_of_the_record(void **state)
{
    (void)state;
    troupe_error error = {.status = TROUPE_FAILED,
                          .outcome = TROUPE_OUTCOME_FAILED,
                          .text = "no such row",
                          .actor = "table#3",
                          .process = 42};
    assert_int_equal(trp_error_set(&error), TROUPE_FAILED);
    assert_int_equal(trp_error_prefix("reading %d", 7), TROUPE_FAILED);
    assert_string_equal(troupe_last_error()->text, "reading 7: no such row");
    assert_string_equal(troupe_last_error()->actor, "table#3");
    assert_int_equal(troupe_last_error()->process, 42);
    assert_int_equal(troupe_last_error()->outcome, TROUPE_OUTCOME_FAILED);
    // A new failure is a new record.
    (void)troupe_fail(TROUPE_INVALID, "else");
    assert_string_equal(troupe_last_error()->actor, "");
}

static void test_a_record_without_terminators_is_harmless(void **state)
{
    (void)state;
    troupe_error error;
    memset(&error, 'y', sizeof(error));
    error.status = TROUPE_FAILED;
    (void)trp_error_set(&error);
    assert_int_equal(strlen(troupe_last_error()->text), 511);
    assert_int_equal(strlen(troupe_last_error()->node), 63);
}

// What another wrote must not move the cursor of whom it is shown to, nor look like a line of its
// own; letters of other languages stay what they are.
static void test_what_others_wrote_can_be_printed(void **state)
{
    (void)state;
    static const char wild[] = "a\n\x1b]0;owned\a\x9b\xc2\x9b\x7f\xe2\x80\xae\xd8\x9c\xc3(";
    static const char tame[] =
        "a\\n\\x1b]0;owned\\x07\\x9b\\xc2\\x9b\\x7f\\xe2\\x80\\xae\\xd8\\x9c\\xc3(";
    static const char good[] = "\tgr\xc3\xbc\xc3\x9f \xe6\xb1\x89 \xf0\x9f\x90\xb4";
    troupe_error error = {.status = TROUPE_FAILED, .node = "n\r", .actor = "b\n#3"};
    (void)troupe_fail(TROUPE_FAILED, "%s", wild);
    assert_string_equal(troupe_last_error()->text, tame);
    (void)troupe_fail(TROUPE_FAILED, "%s", good);
    assert_string_equal(troupe_last_error()->text, good);
    assert_true(trp_printable_is(good, strlen(good)));
    snprintf(error.text, sizeof error.text, "%s", wild);
    (void)trp_error_set(&error);
    assert_string_equal(troupe_last_error()->text, tame);
    assert_string_equal(troupe_last_error()->actor, "b\\n#3");
    assert_string_equal(troupe_last_error()->node, "n\\r");
    (void)trp_error_prefix("%s", "p\n");
    assert_memory_equal(troupe_last_error()->text, "p\\n: a", 6);
    // Cut where it no longer fits, and never within an escape or a character.
    char out[9];
    assert_false(trp_printable_copy("abc\x01z", 5, out, 7));
    assert_string_equal(out, "abc");
    assert_false(trp_printable_copy("abc\x01z", 5, out, 8));
    assert_string_equal(out, "abc\\x01");
    assert_false(trp_printable_copy(good, strlen(good), out, 5));
    assert_true(trp_printable_copy("x", 0, out, 1));
    assert_string_equal(out, "");
    assert_true(trp_printable_copy("abc\x01z", 5, out, 9));
    memset(error.text, 1, sizeof error.text);
    (void)trp_error_set(&error);
    assert_int_equal(strlen(troupe_last_error()->text), 508);
}

static void test_errno_becomes_words(void **state)
{
    (void)state;
    errno = ENOENT;
    assert_int_equal(trp_fail_errno(TROUPE_IO, "opening %s", "notes"), TROUPE_IO);
    assert_string_equal(troupe_last_error()->text, "opening notes: No such file or directory");
    errno = ENOSPC;
    assert_int_equal(trp_fail_errno(TROUPE_IO, "writing"), TROUPE_NO_SPACE);
    errno = EDQUOT;
    assert_int_equal(trp_fail_errno(TROUPE_IO, "writing"), TROUPE_NO_SPACE);
    assert_int_equal(errno, EDQUOT);
    assert_int_equal(troupe_last_error()->status, TROUPE_NO_SPACE);
}

static void *fail_elsewhere(void *seen)
{
    *(bool *)seen = troupe_last_error()->status == TROUPE_OK && !troupe_last_error()->text[0];
    (void)troupe_fail(TROUPE_BUSY, "theirs");
    return NULL;
}

static void test_each_thread_has_its_own(void **state)
{
    (void)state;
    (void)troupe_fail(TROUPE_INVALID, "mine");
    bool clean = false;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &clean), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(clean);
    assert_string_equal(troupe_last_error()->text, "mine");
}

static void leave_with_seven(int status)
{
    _exit(status == EXIT_FAILURE ? 7 : 8);
}

// Runs must in a child with stderr into `said`; returns the exit status.
static int must_in_child(bool own_leave, const char *expression, char *said, size_t capacity)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        if (own_leave)
            trp_leave_set(leave_with_seven);
        else
            trp_leave_set(_exit); // The test runner's own atexit functions are not this test's.
        troupe_must_at(troupe_fail(TROUPE_NOT_FOUND, "no line %d", 9), expression, "book.c", 12);
        _exit(0);
    }
    close(ends[1]);
    size_t used = 0;
    ssize_t more;
    while ((more = read(ends[0], said + used, capacity - 1 - used)) > 0)
        used += (size_t)more;
    said[used] = 0;
    close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_must_says_where_and_ends_the_process(void **state)
{
    (void)state;
    char said[1024];
    assert_int_equal(must_in_child(false, "find(9)", said, sizeof(said)), EXIT_FAILURE);
    assert_string_equal(said, "book.c:12: find(9): TROUPE_NOT_FOUND: no line 9\n");
    assert_int_equal(must_in_child(true, "find(9)", said, sizeof(said)), 7);
    (void)must_in_child(false,
                        "find(in the first book of the second shelf, on the third page from the "
                        "left, or where it fell)",
                        said, sizeof(said));
    assert_string_equal(said, "book.c:12: find(in the first book of the second shelf, on the third "
                              "page fr...: TROUPE_NOT_FOUND: no line 9\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_status_has_a_text_and_a_name),
        cmocka_unit_test(test_numbers_out_of_range_are_named_too),
        cmocka_unit_test(test_failure_sets_the_sentence_and_success_leaves_it),
        cmocka_unit_test(test_a_failure_is_never_ok),
        cmocka_unit_test(test_a_sentence_may_quote_the_last_one),
        cmocka_unit_test(test_long_sentences_are_cut),
        cmocka_unit_test(test_prefix_keeps_the_rest_of_the_record),
        cmocka_unit_test(test_a_record_without_terminators_is_harmless),
        cmocka_unit_test(test_what_others_wrote_can_be_printed),
        cmocka_unit_test(test_errno_becomes_words),
        cmocka_unit_test(test_each_thread_has_its_own),
        cmocka_unit_test(test_must_says_where_and_ends_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
