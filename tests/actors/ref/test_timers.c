// test_timers.c: messages that an actor sends itself after a time, once and again.
// label: local
#include <places.h>
#include <support.h>

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <troupe/actor.h>
#include <troupe/async.h>
#include <unistd.h>

TROUPE_STRUCT(start, (uint32_t, ms), (bool, repeats), (troupe_text, text));

typedef struct board {
    _Atomic int beats;
    _Atomic int open;
    _Atomic int busy;
    _Atomic int64_t last_ms;
    char text[32];
} board;
static board *shared;

typedef struct clock_ {
    troupe_timer timer;
    bool last; // The next beat stops the timer.
} clock_;

static troupe_status clock_beat(clock_ *self, const troupe_text *text, troupe_none *nothing)
{
    (void)nothing;
    if (self->last)
        troupe_timer_stop(self->timer);
    snprintf(shared->text, sizeof shared->text, "%s", *text);
    atomic_store(&shared->last_ms, support_now_ms());
    atomic_fetch_add(&shared->beats, 1);
    return TROUPE_OK;
}

static troupe_status clock_start(clock_ *self, const start *how, troupe_none *nothing);
static troupe_status clock_stop(clock_ *self, const troupe_none *nothing, int *status);
static troupe_status clock_block(clock_ *self, const troupe_none *nothing, troupe_none *out);
static troupe_status clock_sync(clock_ *self, const troupe_none *nothing, int *beats);
static troupe_status clock_wrong(clock_ *self, const troupe_none *nothing, int *status);

TROUPE_ACTOR(clock_, (clock_beat, troupe_text, troupe_none), (clock_start, start, troupe_none),
             (clock_stop, troupe_none, int), (clock_block, troupe_none, troupe_none),
             (clock_sync, troupe_none, int), (clock_wrong, troupe_none, int));

static troupe_status clock_start(clock_ *self, const start *how, troupe_none *nothing)
{
    (void)nothing;
    self->timer = how->repeats ? troupe_timer_every(clock_beat, how->ms, how->text)
                               : troupe_timer_after(clock_beat, how->ms, how->text);
    return self->timer.id_ != 0 ? TROUPE_OK : troupe_failed_(troupe_last_error()->status);
}

static troupe_status clock_stop(clock_ *self, const troupe_none *nothing, int *status)
{
    (void)nothing;
    *status = troupe_timer_stop(self->timer);
    return TROUPE_OK;
}

static troupe_status clock_block(clock_ *self, const troupe_none *nothing, troupe_none *out)
{
    (void)nothing, (void)out;
    atomic_store(&shared->busy, 1);
    while (!atomic_load(&shared->open))
        usleep(200);
    self->last = true;
    return TROUPE_OK;
}

static troupe_status clock_sync(clock_ *self, const troupe_none *nothing, int *beats)
{
    (void)self, (void)nothing;
    *beats = atomic_load(&shared->beats);
    return TROUPE_OK;
}

typedef struct stranger {
    int nothing;
} stranger;
static troupe_status stranger_meet(stranger *self, const int *in, int *out)
{
    (void)self;
    *out = *in;
    return TROUPE_OK;
}
TROUPE_ACTOR(stranger, (stranger_meet, int, int));

static troupe_status clock_wrong(clock_ *self, const troupe_none *nothing, int *status)
{
    (void)self, (void)nothing;
    if (troupe_timer_every(clock_beat, 0, "never").id_ != 0)
        return troupe_fail(TROUPE_FAILED, "a period of 0 was taken");
    if (troupe_last_error()->status != TROUPE_INVALID)
        return troupe_fail(TROUPE_FAILED, "a period of 0 was not refused as invalid");
    *status =
        troupe_timer_after(stranger_meet, 1, 1).id_ == 0 ? troupe_last_error()->status : TROUPE_OK;
    return TROUPE_OK;
}

static bool has_beaten(void *user)
{
    return atomic_load(&shared->beats) >= *(int *)user;
}

static void await_beats(int count)
{
    assert_true(support_wait_until(has_beaten, &count, SUPPORT_SOON_MS));
}

static clock__actor make(troupe_place place)
{
    memset(shared, 0, sizeof *shared);
    clock__actor actor = troupe_spawn(clock_, .place = place);
    assert_int_equal(troupe_actor_status(actor.address), TROUPE_OK);
    return actor;
}

static void begin(clock__actor actor, uint32_t ms, bool repeats)
{
    troupe_none nothing;
    start how = {.ms = ms, .repeats = repeats, .text = "tick"};
    troupe_must(troupe_get(troupe_none, troupe_call_from(actor, clock_start, &how), &nothing));
}

static int stop_timer(clock__actor actor)
{
    int status = -1;
    troupe_must(troupe_get(int, troupe_call(actor, clock_stop), &status));
    return status;
}

static int beats_now(clock__actor actor)
{
    int beats = -1;
    troupe_must(troupe_get(int, troupe_call(actor, clock_sync), &beats));
    return beats;
}

static void test_once_after_its_time(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        clock__actor actor = make(places[i]);
        int64_t begin_ms = support_now_ms();
        begin(actor, 20, false);
        await_beats(1);
        assert_true(atomic_load(&shared->last_ms) >= begin_ms + 19); // Rounded down.
        assert_string_equal(shared->text, "tick");
        assert_int_equal(stop_timer(actor), TROUPE_NOT_FOUND); // It has ended.
        assert_int_equal(beats_now(actor), 1);
        begin(actor, 0, false); // At once, but not within the method.
        await_beats(2);
        troupe_actor_kill(actor);
    }
}

static void test_again_and_again_until_stopped(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        clock__actor actor = make(places[i]);
        begin(actor, 2, true);
        await_beats(5);
        assert_int_equal(stop_timer(actor), TROUPE_OK);
        int beats = beats_now(actor);
        assert_int_equal(stop_timer(actor), TROUPE_NOT_FOUND);
        begin(actor, 30, false); // When this one comes, a beat of the other would have come too.
        await_beats(beats + 1);
        assert_int_equal(beats_now(actor), beats + 1);
        troupe_actor_kill(actor);
    }
}

static void test_a_busy_actor_misses_beats(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        clock__actor actor = make(places[i]);
        begin(actor, 1, true);
        await_beats(1);
        troupe_ref block = troupe_call(actor, clock_block);
        while (!atomic_load(&shared->busy))
            usleep(200);
        int before = atomic_load(&shared->beats);
        int64_t until_ms = support_now_ms() + 40; // Some 40 beats are missed.
        while (support_now_ms() < until_ms)
            usleep(1000);
        atomic_store(&shared->open, 1);
        await_beats(before + 1); // The one that waited.
        assert_int_equal(stop_timer(actor), TROUPE_NOT_FOUND);
        assert_int_equal(beats_now(actor), before + 1);
        troupe_ref_drop(block);
        troupe_actor_kill(actor);
    }
}

// A message that waits in the mailbox when its timer is stopped is not run.
static void test_a_stopped_timer_takes_its_message_back(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        clock__actor actor = make(places[i]);
        troupe_ref block = troupe_call(actor, clock_block);
        start how = {.ms = 0, .repeats = false, .text = "tick"};
        troupe_ref begun = troupe_call_from(actor, clock_start, &how);
        troupe_ref stopped = troupe_call(actor, clock_stop);
        atomic_store(&shared->open, 1);
        int status = -1;
        troupe_must(troupe_get(int, stopped, &status));
        assert_int_equal(beats_now(actor), status == TROUPE_OK ? 0 : 1);
        troupe_ref_drop(block);
        troupe_ref_drop(begun);
        troupe_actor_kill(actor);
    }
}

static void test_timers_end_with_their_actor(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        clock__actor actor = make(places[i]);
        begin(actor, 1, true);
        await_beats(2);
        assert_int_equal(troupe_actor_kill(actor), TROUPE_OK);
        clock__actor other = troupe_spawn(clock_, .place = places[i]);
        begin(other, 1000000, false); // Never rings; ends with the runtime.
        int beats = atomic_load(&shared->beats), after;
        begin(other, 30, false);
        await_beats(beats + 1);
        after = atomic_load(&shared->beats);
        assert_in_range(after, beats + 1, beats + 3); // One that ran as it was killed.
        troupe_actor_kill(other);
    }
}

static void test_what_is_no_timer(void **state)
{
    (void)state;
    clock__actor actor = make(TROUPE_PLACE_HERE);
    int status;
    troupe_must(troupe_get(int, troupe_call(actor, clock_wrong), &status));
    assert_int_equal(status, TROUPE_INVALID);
    assert_int_equal(troupe_timer_after(clock_beat, 1, "x").id_, 0); // In no actor.
    assert_int_equal(troupe_last_error()->status, TROUPE_INVALID);
    assert_int_equal(troupe_timer_stop((troupe_timer){0}), TROUPE_NOT_FOUND);
    troupe_actor_kill(actor);
}

int main(int argc, char **argv)
{
    shared = support_share(sizeof *shared);
    troupe_must(troupe_start(argc, argv, .workers = 2, .threads = 2));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_once_after_its_time),
        cmocka_unit_test(test_again_and_again_until_stopped),
        cmocka_unit_test(test_a_busy_actor_misses_beats),
        cmocka_unit_test(test_a_stopped_timer_takes_its_message_back),
        cmocka_unit_test(test_timers_end_with_their_actor),
        cmocka_unit_test(test_what_is_no_timer),
    };
    return cmocka_run_group_tests(tests, NULL, stop_runtime);
}
