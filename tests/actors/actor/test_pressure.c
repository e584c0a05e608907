// test_pressure.c: one actor that does not keep up: processes that send to it are paused for that
// actor alone, go on once its mailbox has emptied or it has ended, and lose nothing.
// label: local
#include <support.h>

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <troupe.h>
#include <unistd.h>

enum { MAILBOX = 100, WINDOW = 16384 };

// Shared with the workers, which are forked later.
static struct gate {
    _Atomic int open, entered;
} * gate;

typedef struct sink {
    int64_t taken;
} sink;

static troupe_status sink_wait(sink *self, const int *unused, int *also_unused)
{
    (void)self, (void)unused, (void)also_unused;
    gate->entered = 1;
    while (!gate->open)
        (void)nanosleep(&(struct timespec){0, 1000000}, NULL);
    return TROUPE_OK;
}

static troupe_status sink_take(sink *self, const int64_t *number, int64_t *taken)
{
    self->taken += *number >= 0;
    *taken = self->taken;
    return TROUPE_OK;
}

TROUPE_ACTOR(sink, (sink_wait, int, int), (sink_take, int64_t, int64_t));

static bool has_entered(void *unused)
{
    (void)unused;
    return gate->entered != 0;
}

static int64_t taken_by(sink_actor actor)
{
    int64_t taken = -1;
    assert_int_equal(troupe_get(int64_t, troupe_call(actor, sink_take, -1), &taken), TROUPE_OK);
    return taken;
}

// An actor whose method does not return, and what could be sent to it until it was full.
static int64_t fill(sink_actor slow)
{
    gate->open = gate->entered = 0;
    assert_int_equal(troupe_tell(slow, sink_wait, 0), TROUPE_OK);
    assert_true(support_wait_until(has_entered, NULL, SUPPORT_SOON_MS));
    sink_actor hasty = troupe_with(slow, .flags = TROUPE_CALL_NO_WAIT);
    int64_t sent = 0, give_up = support_now_ms() + SUPPORT_SOON_MS;
    troupe_status status;
    // The pause takes a moment to arrive; the window may be full before, but not for long.
    do {
        status = troupe_tell(hasty, sink_take, sent);
        sent += status == TROUPE_OK;
    } while (support_now_ms() < give_up &&
             (status == TROUPE_OK || strstr(troupe_last_error()->text, "mailbox") == NULL));
    assert_int_equal(status, TROUPE_BUSY);
    assert_in_range(sent, MAILBOX / 2, 2 * WINDOW);
    return sent;
}

static void test_one_full_mailbox_stops_no_other(void **state)
{
    (void)state;
    sink_actor slow = troupe_spawn(sink, .place = TROUPE_PLACE_WORKER, .mailbox_max = MAILBOX);
    sink_actor fast = troupe_spawn(sink, .place = TROUPE_PLACE_WORKER);
    int64_t sent = fill(slow);
    for (int64_t i = 0; i < 3 * WINDOW; i++)
        assert_int_equal(troupe_tell(fast, sink_take, i), TROUPE_OK);
    assert_int_equal(taken_by(fast), 3 * WINDOW);
    gate->open = 1; // Now it keeps up: who sends waits, and goes on.
    for (int64_t i = 0; i < WINDOW; i++)
        assert_int_equal(troupe_tell(slow, sink_take, i), TROUPE_OK);
    assert_int_equal(taken_by(slow), sent + WINDOW);
}

static void test_the_end_of_a_full_actor(void **state)
{
    (void)state;
    sink_actor slow = troupe_spawn(sink, .place = TROUPE_PLACE_WORKER, .mailbox_max = MAILBOX);
    (void)fill(slow);
    assert_int_equal(troupe_actor_kill(slow), TROUPE_OK);
    gate->open = 1;
    int64_t taken; // It would wait for ever for an actor that takes no more.
    assert_int_equal(troupe_get(int64_t, troupe_call(slow, sink_take, 1), &taken),
                     TROUPE_NOT_EXECUTED);
    sink_actor next = troupe_spawn(sink, .place = TROUPE_PLACE_WORKER);
    assert_int_equal(taken_by(next), 0);
}

int main(void)
{
    (void)alarm(50);
    gate = support_share(sizeof *gate);
    if (gate == MAP_FAILED)
        return 1;
    troupe_must(troupe_start(0, NULL, .workers = 1));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_full_mailbox_stops_no_other),
        cmocka_unit_test(test_the_end_of_a_full_actor),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return troupe_stop() + failed;
}
