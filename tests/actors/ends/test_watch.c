// test_watch.c: what waits behind a turn that does not end soon is run by another thread, whatever
// the threads that run turns have gone through before: waits, pauses, quiet; and turns on top of
// it do not make it seem short.
// label: local
#include <support.h>

#include <actors/sched/scheduler_internal.h>
#include <troupe.h>
#include <unistd.h>

// What one actor is told of others.
TROUPE_STRUCT(others, (troupe_actor, keeper), (troupe_actor, third));

typedef struct hand {
    char unused;
} hand;

static _Atomic int noted, arrived, asked;
static troupe_deferred owed;

static troupe_status hand_note(hand *self, const int *in, int *out);
static troupe_status hand_owe(hand *self, const int *in, int *out);
static troupe_status hand_outlast_quiet(hand *self, const others *of, bool *ran);
static troupe_status hand_wait_beside(hand *self, const others *of, bool *ran);
static troupe_status hand_go_on_beside(hand *self, const others *of, bool *ran);
static troupe_status hand_ask_often(hand *self, const others *of, bool *was_one);

TROUPE_ACTOR(hand, (hand_note, int, int), (hand_owe, int, int), (hand_outlast_quiet, others, bool),
             (hand_wait_beside, others, bool), (hand_go_on_beside, others, bool),
             (hand_ask_often, others, bool));

static troupe_status hand_note(hand *self, const int *in, int *out)
{
    (void)self;
    noted += *in;
    *out = *in;
    return TROUPE_OK;
}

// Its caller waits until the test answers.
static troupe_status hand_owe(hand *self, const int *in, int *out)
{
    (void)self, (void)in, (void)out;
    owed = troupe_defer();
    asked = 1;
    return TROUPE_OK;
}

static bool is_noted(void *unused)
{
    (void)unused;
    return noted > 0;
}

// Tells another one, and does not return before that has run.
static troupe_status outlast(const troupe_actor *third, bool *ran)
{
    TROUPE_TRY(troupe_tell((hand_actor){*third}, hand_note, 1));
    *ran = support_wait_until(is_noted, NULL, SUPPORT_SOON_MS);
    return TROUPE_OK;
}

static troupe_status await_answer(const troupe_actor *keeper)
{
    int out;
    return troupe_get(int, troupe_call((hand_actor){*keeper}, hand_owe, 1), &out);
}

static troupe_status hand_outlast_quiet(hand *self, const others *of, bool *ran)
{
    (void)self;
    TROUPE_TRY(await_answer(&of->keeper));
    return outlast(&of->third, ran);
}

// ---- what the scheduler's books say

typedef struct books {
    bool watched;
    int active, blocked;
} books;

static books look(void)
{
    trp_scheduler_lock();
    books seen = {.watched = trp_scheduler.watcher != NULL,
                  .active = trp_scheduler.active,
                  .blocked = trp_scheduler.blocked};
    trp_scheduler_unlock();
    return seen;
}

static bool is_quiet(void *unused)
{
    (void)unused;
    books seen = look();
    return asked > 0 && seen.active == 0 && !seen.watched;
}

static bool is_busy(void *unused)
{
    (void)unused;
    return arrived == 2;
}

static bool is_blocked(void *unused)
{
    (void)unused;
    return asked > 0 && look().blocked == 1;
}

// ---- the tests

static hand_actor make(void)
{
    return troupe_spawn(hand, .place = TROUPE_PLACE_HERE);
}

static others begin(int threads)
{
    noted = arrived = asked = 0;
    troupe_must(troupe_start(0, NULL, .threads = threads, .workers = TROUPE_NONE));
    return (others){.keeper = make().address, .third = make().address};
}

static void answer(void)
{
    int value = 1;
    troupe_must(troupe_deferred_fulfil(int, &owed, &value));
}

static void must_run(troupe_ref ref)
{
    bool ran = false;
    troupe_must(troupe_get(bool, ref, &ran));
    assert_true(ran);
}

// A method has waited until all the process was quiet, and then takes long.
static void test_after_quiet(void **state)
{
    (void)state;
    others of = begin(2);
    troupe_ref ref = troupe_call_from(make(), hand_outlast_quiet, &of);
    assert_true(support_wait_until(is_quiet, NULL, SUPPORT_SOON_MS));
    answer();
    must_run(ref);
    assert_int_equal(troupe_stop(), 0);
}

static troupe_status hand_wait_beside(hand *self, const others *of, bool *ran)
{
    (void)self;
    arrived++;
    if (!support_wait_until(is_busy, NULL, SUPPORT_SOON_MS))
        return troupe_fail(TROUPE_FAILED, "there were not two turns");
    *ran = true;
    return await_answer(&of->keeper);
}

static troupe_status hand_go_on_beside(hand *self, const others *of, bool *ran)
{
    (void)self;
    arrived++;
    if (!support_wait_until(is_blocked, NULL, SUPPORT_SOON_MS))
        return troupe_fail(TROUPE_FAILED, "the other turn does not wait");
    return outlast(&of->third, ran);
}

// Of two turns that fill both places one waits, and the other one takes long.
static void test_beside_one_that_waits(void **state)
{
    (void)state;
    others of = begin(2);
    troupe_ref waits = troupe_call_from(make(), hand_wait_beside, &of);
    troupe_ref goes_on = troupe_call_from(make(), hand_go_on_beside, &of);
    must_run(goes_on);
    answer();
    must_run(waits);
    assert_int_equal(troupe_stop(), 0);
}

// Asks another one, which is run on top of it, many times: to who watches that is one turn.
static troupe_status hand_ask_often(hand *self, const others *of, bool *was_one)
{
    enum { OFTEN = 1000 };
    (void)self;
    trp_runqueue *queue = trp_me->queue;
    uint32_t before = queue->turns;
    for (int i = 0; i < OFTEN; i++) {
        int out;
        TROUPE_TRY(troupe_get(int, troupe_call((hand_actor){of->keeper}, hand_note, 1), &out));
    }
    *was_one = trp_me->queue == queue && queue->turns == before;
    return TROUPE_OK;
}

static void test_turns_on_top_of_one(void **state)
{
    (void)state;
    others of = begin(1);
    must_run(troupe_call_from(make(), hand_ask_often, &of));
    assert_int_equal(noted, 1000);
    assert_int_equal(troupe_stop(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_after_quiet),
        cmocka_unit_test(test_beside_one_that_waits),
        cmocka_unit_test(test_turns_on_top_of_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
