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
        cmocka_unit_test_setup_teardown(test_the_newest_is_asked_about_whatever_waits, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_what_was_answered_makes_room, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
