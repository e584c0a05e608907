// test_gate.c: which questions a gate of a train server's job is asked where many come at once, as
// to who comes again to a job that has run. The gates of whole jobs: server/test_gate.
#include <stdlib.h>
#include <support.h>
#include <train/detached.h>
#include <train/gate.h>
#include <train/handle.h>
#include <train/verdicts.h>

enum { REPORTS = 1000, FIRST = 3 };

static char *folder;

typedef struct keeper {
    _Atomic int begun, let_go, last;
    int asked, second; // How often, and about what behind the first.
} keeper;

// Holds the first question until all have been told.
static troupe_gate_answer keep(void *user, troupe_job *job, const troupe_report_event *event,
                               int *ranks)
{
    keeper *self = user;
    (void)job;
    (void)ranks;
    atomic_store(&self->begun, 1);
    support_await_counter(&self->let_go, 1);
    if (++self->asked == 2)
        self->second = event->number;
    atomic_store(&self->last, event->number);
    return TROUPE_GATE_GO_ON;
}

static void tell_all(keeper *self, int answered)
{
    const troupe_gate how = {.size = sizeof how, .decide = keep, .user = self};
    trp_detached server = {.folder = folder};
    troupe_job *job = trp_handle_create();
    assert_non_null(job);
    job->detached = &server;
    assert_int_equal(trp_gate_make(job, &how, &job->gate), TROUPE_OK);
    for (int i = FIRST; i <= REPORTS; i++) {
        const troupe_report_event event = {.number = i, .source = ""};
        trp_gate_tell(job->gate, &event);
        if (i == FIRST)
            support_await_counter(&self->begun, 1);
        if (i == FIRST && answered > 0) {
            const trp_verdict verdict = {.report = answered, .answer = TROUPE_GATE_GO_ON};
            assert_int_equal(trp_verdicts_add(folder, &verdict), TROUPE_OK);
        }
    }
    atomic_store(&self->let_go, 1);
    support_await_counter(&self->last, REPORTS);
    trp_gate_end(job->gate);
    trp_gate_await(job->gate);
    trp_handle_release(job);
}

static void test_the_newest_is_asked_about_whatever_waits(void **state)
{
    (void)state;
    keeper self = {.asked = 0};
    tell_all(&self, 0);
    assert_int_equal(self.asked, 1 + 256);
    assert_int_equal(self.second, REPORTS - 255);
}

static void test_what_was_answered_makes_room(void **state)
{
    (void)state;
    keeper self = {.asked = 0};
    tell_all(&self, 900);
    assert_int_equal(self.asked, 1 + REPORTS - 900);
    assert_int_equal(self.second, 901);
}

// Reports from 1 to 12, one bit each from the lowest on.
static int named(troupe_gate how)
{
    trp_gate *gate;
    int found = 0;
    how.size = sizeof how;
    how.decide = keep;
    assert_int_equal(trp_gate_make(NULL, &how, &gate), TROUPE_OK);
    const trp_gate_plan plan = trp_gate_plan_of(gate);
    for (int number = 1; number <= 12; number++)
        found |= trp_gate_names(&plan, number) << (number - 1);
    trp_gate_free(gate);
    return found;
}

static void test_which_reports_a_gate_names(void **state)
{
    (void)state;
    static const int some[] = {2, 3, 7};
    assert_int_equal(named((troupe_gate){0}), 0xfff);
    assert_int_equal(named((troupe_gate){.first = 3, .every = 4}), 0x444);
    assert_int_equal(named((troupe_gate){.reports = some, .report_count = 3}), 0x046);
    assert_int_equal(named((troupe_gate){.reports = some, .report_count = 3, .first = 9}), 0xf46);
    assert_int_equal(
        named((troupe_gate){.reports = some, .report_count = 3, .first = 8, .every = 3}), 0x4c6);
    trp_gate *gate;
    troupe_gate how = {
        .size = sizeof how, .decide = keep, .reports = some, .report_count = 3, .every = 2};
    assert_int_equal(trp_gate_make(NULL, &how, &gate), TROUPE_INVALID);
}

static int make_folder(void **state)
{
    (void)state;
    folder = support_directory_make();
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    support_directory_remove(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which_reports_a_gate_names),
        cmocka_unit_test_setup_teardown(test_the_newest_is_asked_about_whatever_waits, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_what_was_answered_makes_room, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
