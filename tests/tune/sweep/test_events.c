// test_events.c: events of many threads reach the one reader, each thread's in order, each with its
// own copy of what it points to.
#include <pthread.h>
#include <runtime/base/clock.h>
#include <runtime/base/memory.h>
#include <stdio.h>
#include <string.h>
#include <support.h>
#include <tune/sweep/events.h>

enum { THREADS = 4, REPORTS = 500 };

typedef struct pusher {
    trp_events *events;
    int trial;
} pusher;

static void *push_all(void *user)
{
    const pusher *self = user;
    for (int i = 1; i <= REPORTS; i++) {
        char name[32], checkpoint[32];
        snprintf(name, sizeof name, "loss_%d", self->trial);
        snprintf(checkpoint, sizeof checkpoint, "folder/%d", i);
        troupe_metric metrics[] = {{"epoch", i}, {name, i * 0.5}};
        troupe_report_event event = {.number = i,
                                     .metrics = metrics,
                                     .count = i == 7 ? 0 : 2,
                                     .checkpoint = i % 2 == 0 ? checkpoint : NULL};
        trp_events_push_report(self->events, self->trial, i, &event);
        memset(name, 'x', sizeof name - 1);
        memset(checkpoint, 'x', sizeof checkpoint - 1);
        memset(metrics, 0xee, sizeof metrics);
    }
    trp_events_push_state(self->events, self->trial, REPORTS + 1, TROUPE_JOB_DONE, 0);
    return NULL;
}

static void check_report(const trp_event *event, int expected)
{
    const troupe_report_event *report = &event->report;
    char name[32], checkpoint[32];
    assert_int_equal(report->number, expected);
    snprintf(name, sizeof name, "loss_%d", event->trial);
    snprintf(checkpoint, sizeof checkpoint, "folder/%d", expected);
    assert_int_equal(report->count, expected == 7 ? 0 : 2);
    if (report->count == 2) {
        assert_string_equal(report->metrics[0].name, "epoch");
        assert_string_equal(report->metrics[1].name, name);
        assert_true(report->metrics[1].value == expected * 0.5);
    }
    if (expected % 2 == 0)
        assert_string_equal(report->checkpoint, checkpoint);
    else
        assert_null(report->checkpoint);
}

static void test_more_are_taken_without_waiting(void **state)
{
    (void)state;
    trp_events events;
    trp_event *event;
    trp_events_open(&events);
    assert_null(trp_events_next(&events));
    for (int i = 0; i < 3; i++)
        trp_events_push_state(&events, i, 0, TROUPE_JOB_RUNNING, 0);
    assert_int_equal(trp_events_pop(&events, -1, &event), TROUPE_OK);
    assert_int_equal(event->trial, 0);
    trp_free(event);
    event = trp_events_next(&events);
    assert_int_equal(event->trial, 1);
    trp_free(event);
    trp_events_wake(&events); // The reader is to look at something else.
    assert_null(trp_events_next(&events));
    assert_int_equal(trp_events_pop(&events, -1, &event), TROUPE_OK);
    assert_int_equal(event->trial, 2);
    trp_free(event);
    trp_events_close(&events);
}

static void test_each_threads_events_arrive_in_order(void **state)
{
    (void)state;
    trp_events events;
    pthread_t threads[THREADS];
    pusher pushers[THREADS];
    int seen[THREADS] = {0}, done = 0;
    trp_events_open(&events);
    for (int i = 0; i < THREADS; i++) {
        pushers[i] = (pusher){&events, i};
        assert_int_equal(pthread_create(&threads[i], NULL, push_all, &pushers[i]), 0);
    }
    while (done < THREADS) {
        trp_event *event;
        assert_int_equal(trp_events_pop(&events, -1, &event), TROUPE_OK);
        if (event->is_report) {
            check_report(event, ++seen[event->trial]);
            assert_int_equal(event->run, seen[event->trial]);
        } else {
            assert_int_equal(event->state, TROUPE_JOB_DONE);
            assert_int_equal(seen[event->trial], REPORTS);
            done++;
        }
        trp_free(event);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    trp_events_close(&events);
}

static void test_waiting_ends_at_the_deadline(void **state)
{
    (void)state;
    trp_events events;
    trp_event *event;
    trp_events_open(&events);
    int64_t deadline = trp_clock_ns() + 20 * 1000000;
    assert_int_equal(trp_events_pop(&events, deadline, &event), TROUPE_TIMED_OUT);
    assert_true(trp_clock_ns() >= deadline);
    assert_int_equal(trp_events_pop(&events, 0, &event), TROUPE_TIMED_OUT);
    // What is there is given whatever the deadline.
    trp_events_push_state(&events, 3, 0, TROUPE_JOB_RUNNING, 44);
    assert_int_equal(trp_events_pop(&events, 0, &event), TROUPE_OK);
    assert_int_equal(event->trial, 3);
    assert_int_equal(event->pid, 44);
    trp_free(event);
    trp_events_wake(&events);
    assert_int_equal(trp_events_pop(&events, -1, &event), TROUPE_BUSY);
    assert_int_equal(trp_events_pop(&events, 0, &event), TROUPE_TIMED_OUT);
    trp_events_push_state(&events, 4, 0, TROUPE_JOB_RUNNING, 45); // Left for close to free.
    trp_events_close(&events);
}

static void test_a_lost_event_is_told(void **state)
{
    (void)state;
    trp_events events;
    trp_event *event;
    trp_events_open(&events);
    trp_memory_fail_after(0);
    trp_events_push_report(&events, 0, 0, &(troupe_report_event){.number = 1});
    trp_memory_fail_after(-1);
    assert_int_equal(trp_events_pop(&events, -1, &event), TROUPE_NO_MEMORY);
    trp_events_close(&events);
}

static troupe_act told(trp_events *events, trp_dealt *dealt, int report, int *ranks)
{
    *ranks = 1;
    return trp_events_await_dealt(events, dealt, report, ranks);
}

static void test_a_pause_is_told_late_and_for_its_report_alone(void **state)
{
    (void)state;
    trp_events events;
    trp_dealt dealt = {0};
    int ranks;
    trp_events_open(&events);
    trp_events_deal(&events, &dealt, 3, TROUPE_ACT_PAUSE, 1);
    trp_events_deal(&events, &dealt, 4, TROUPE_ACT_GO_ON, 1);
    assert_int_equal(told(&events, &dealt, 2, &ranks), TROUPE_ACT_GO_ON);
    assert_int_equal(told(&events, &dealt, 3, &ranks), TROUPE_ACT_PAUSE);
    assert_int_equal(told(&events, &dealt, 4, &ranks), TROUPE_ACT_GO_ON);
    trp_events_deal(&events, &dealt, 5, TROUPE_ACT_RESIZE, 4);
    trp_events_deal(&events, &dealt, 1, TROUPE_ACT_GO_ON, 4); // Told of once more.
    trp_events_deal(&events, &dealt, 6, TROUPE_ACT_GO_ON, 4);
    assert_int_equal(told(&events, &dealt, 6, &ranks), TROUPE_ACT_GO_ON);
    assert_int_equal(ranks, 1);
    assert_int_equal(told(&events, &dealt, 5, &ranks), TROUPE_ACT_RESIZE);
    assert_int_equal(ranks, 4);
    trp_events_deal(&events, &dealt, 7, TROUPE_ACT_STOP, 4);
    trp_events_deal(&events, &dealt, 2, TROUPE_ACT_GO_ON, 4);
    assert_int_equal(told(&events, &dealt, 5, &ranks), TROUPE_ACT_STOP);
    assert_int_equal(told(&events, &dealt, 7, &ranks), TROUPE_ACT_STOP);
    trp_events_close(&events);
}

static void test_what_nobody_is_told_is_the_controllers(void **state)
{
    (void)state;
    trp_events events;
    trp_dealt dealt = {0};
    int ranks;
    trp_events_open(&events);
    trp_events_deal(&events, &dealt, 3, TROUPE_ACT_RESIZE, 2);
    assert_int_equal(told(&events, &dealt, 3, &ranks), TROUPE_ACT_RESIZE);
    assert_false(trp_events_take_over(&events, &dealt, 3));
    trp_events_deal(&events, &dealt, 5, TROUPE_ACT_RESIZE, 4);
    trp_events_deal(&events, &dealt, 6, TROUPE_ACT_GO_ON, 4);
    assert_int_equal(told(&events, &dealt, 6, &ranks), TROUPE_ACT_GO_ON);
    assert_true(trp_events_take_over(&events, &dealt, 5));
    assert_int_equal(told(&events, &dealt, 5, &ranks), TROUPE_ACT_GO_ON); // Late.
    assert_int_equal(ranks, 1);
    trp_events_close(&events);
}

// A run that was opened again comes to its end where that was decided, and not before.
static void test_an_end_may_hold_from_a_report_on(void **state)
{
    (void)state;
    trp_events events;
    trp_dealt dealt = {0};
    int ranks;
    trp_events_open(&events);
    trp_events_end_from(&events, &dealt, 4);
    trp_events_deal(&events, &dealt, 4, TROUPE_ACT_STOP, 1);
    assert_int_equal(told(&events, &dealt, 1, &ranks), TROUPE_ACT_GO_ON);
    assert_int_equal(told(&events, &dealt, 3, &ranks), TROUPE_ACT_GO_ON);
    assert_int_equal(told(&events, &dealt, 4, &ranks), TROUPE_ACT_STOP);
    trp_events_deal(&events, &dealt, 5, TROUPE_ACT_STOP, 1);
    assert_int_equal(told(&events, &dealt, 5, &ranks), TROUPE_ACT_STOP);
    trp_events_close(&events);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_threads_events_arrive_in_order),
        cmocka_unit_test(test_more_are_taken_without_waiting),
        cmocka_unit_test(test_waiting_ends_at_the_deadline),
        cmocka_unit_test(test_a_lost_event_is_told),
        cmocka_unit_test(test_a_pause_is_told_late_and_for_its_report_alone),
        cmocka_unit_test(test_what_nobody_is_told_is_the_controllers),
        cmocka_unit_test(test_an_end_may_hold_from_a_report_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
