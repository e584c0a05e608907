// test_identity.c: what is read of a dead process's row is that process's, though another gets the
// row at that moment.
// label: faults
#include <support.h>

#include <runtime/base/fault.h>
#include <runtime/shm/process_table.h>
#include <string.h>

enum { OTHER = 5, CAPACITY = 8 << 20, CULPRIT = 7, REASON = 3 };

static uint64_t dead; // Its incarnation.

static int set_up(void **state)
{
    (void)state;
    return trp_segment_create(CAPACITY) == TROUPE_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    trp_fault_call_at(NULL, 0, NULL);
    trp_segment_close();
    return 0;
}

// The life of one process at that place, which ends in its own way.
static void live_and_die(const char *cause, const char *words, int number, bool final)
{
    trp_process_row_begin(OTHER, true);
    trp_process_row *row = trp_segment_process(OTHER);
    dead = row->incarnation;
    strcpy(row->last_words, words);
    row->last_final = final;
    row->last_reason = REASON;
    strcpy(row->cause, cause);
    row->end_number = number;
    row->culprit = CULPRIT;
    row->end = TRP_END_SIGNALLED;
    trp_process_row_set(OTHER, TRP_PROCESS_DEAD);
}

static void another_begins(void)
{
    trp_process_row_begin(OTHER, true);
}

// Another one lives there, and dies too.
static void another_ends(void)
{
    uint64_t first = dead;
    live_and_die("was another one", "other words", 9, true);
    dead = first;
}

static void expect_no_other(void (*meanwhile)(void))
{
    char words[112], cause[112];
    int number;
    uint64_t culprit;
    for (int final = 0; final < 2; final++) {
        live_and_die("was killed", "its words", 11, final != 0);
        assert_int_equal(trp_process_said_final(OTHER, dead), final != 0);
        trp_fault_call_at("process row", 1, meanwhile);
        assert_false(trp_process_said_final(OTHER, dead));

        live_and_die("was killed", "its words", 11, final != 0);
        assert_int_equal(trp_process_last_words(OTHER, dead, words, sizeof words), REASON);
        assert_string_equal(words, "its words");
        trp_fault_call_at("process row", 1, meanwhile);
        assert_int_equal(trp_process_last_words(OTHER, dead, words, sizeof words), 0);
        assert_string_equal(words, "");
    }
    live_and_die("was killed", "its words", 11, false);
    assert_int_equal(trp_process_end(OTHER, dead, &number, &culprit), TRP_END_SIGNALLED);
    assert_int_equal(number, 11);
    assert_int_equal(culprit, CULPRIT);
    trp_fault_call_at("process row", 1, meanwhile);
    assert_int_equal(trp_process_end(OTHER, dead, &number, &culprit), TRP_END_UNKNOWN);
    assert_int_equal(number, 0);
    assert_int_equal(culprit, 0);

    live_and_die("was killed", "its words", 11, false);
    assert_false(trp_process_alive(OTHER, dead, cause));
    assert_string_equal(cause, "was killed");
    trp_fault_call_at("process row", 1, meanwhile);
    assert_false(trp_process_alive(OTHER, dead, cause));
    assert_string_equal(cause, "has ended and its place is reused");
}

static void test_another_begins(void **state)
{
    (void)state;
    expect_no_other(another_begins);
}

static void test_another_ends(void **state)
{
    (void)state;
    expect_no_other(another_ends);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_begins),
        cmocka_unit_test(test_another_ends),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
