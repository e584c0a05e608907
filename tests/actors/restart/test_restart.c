// test_restart.c: actors that are started again under the same address: in place and in another
// process, within their budget, and not when they were to end.
#include <actors/class/restart_budget.h>
#include <places.h>
#include <support.h>

#include <actors/actor/restart_in_place.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

TROUPE_STRUCT(start, (int, value), (bool, fails_later), (troupe_text, name));
TROUPE_STRUCT(look, (int, value), (int, restarts), (int, process), (bool, at_init));

typedef struct phoenix {
    int value;
    bool at_init; // What troupe_actor_restarts said in init.
} phoenix;

static struct {
    _Atomic int inits, deinits;
} * shared; // With the workers.

static troupe_status phoenix_init(phoenix *self, const start *from)
{
    shared->inits++;
    self->value = from->value;
    self->at_init = troupe_actor_restarts() > 0;
    if (from->fails_later && self->at_init)
        return troupe_fail(TROUPE_IO, "the second start of %s fails", from->name);
    return from->value >= 0 ? TROUPE_OK : troupe_fail(TROUPE_INVALID, "no value");
}

static void phoenix_deinit(phoenix *self)
{
    (void)self;
    shared->deinits++;
}

static troupe_status phoenix_look(phoenix *self, const troupe_none *nothing, look *out)
{
    (void)nothing;
    *out = (look){self->value, (int)troupe_actor_restarts(), getpid(), self->at_init};
    return TROUPE_OK;
}

static troupe_status phoenix_add(phoenix *self, const int *amount, int *value)
{
    *value = self->value += *amount;
    return TROUPE_OK;
}

static troupe_status phoenix_fail(phoenix *self, const troupe_none *nothing, int *out)
{
    (void)self, (void)nothing;
    *out = 0;
    return troupe_actor_fail(TROUPE_IO, "the disk is gone");
}

static troupe_status phoenix_crash(phoenix *self, const int *number, int *out)
{
    (void)self;
    *out = 0;
    if (*number == SIGABRT) // By itself: cmocka handles the other signals of that kind.
        abort();
    else if (*number > 0)
        *out = kill(getpid(), *number) + pause();
    else
        exit(-*number);
    return TROUPE_OK;
}

static troupe_status phoenix_self(phoenix *self, const troupe_none *nothing, troupe_actor *out)
{
    (void)self, (void)nothing;
    *out = troupe_self();
    return TROUPE_OK;
}

TROUPE_ACTOR_INIT(phoenix, (phoenix_init, start), phoenix_deinit, (phoenix_look, troupe_none, look),
                  (phoenix_add, int, int), (phoenix_fail, troupe_none, int),
                  (phoenix_crash, int, int), (phoenix_self, troupe_none, troupe_actor));

static int set_up(void **state)
{
    (void)state;
    if (shared == NULL)
        shared = support_share(sizeof *shared);
    return troupe_start(0, NULL, .workers = 1, .threads = 2) == TROUPE_OK ? 0 : -1;
}

static look look_at(phoenix_actor actor)
{
    look out = {0};
    troupe_must(troupe_get(look, troupe_call(actor, phoenix_look), &out));
    return out;
}

// ---- the budget

static void test_budget(void **state)
{
    (void)state;
    trp_budget budget;
    int64_t delay;
    troupe_spawn_options how = {.restarts = 3};
    assert_int_equal(trp_budget_of(&how, &budget), TROUPE_OK);
    static const int64_t delays[] = {0, 10, 20};
    for (int i = 0; i < 3; i++) {
        assert_true(trp_budget_take(&budget, 1000 + i, &delay));
        assert_int_equal(delay, delays[i]);
    }
    assert_false(trp_budget_take(&budget, 1000000, &delay));
    // In a window, the oldest leaves it.
    how = (troupe_spawn_options){.restarts = 2, .restart_window_ms = 100, .backoff_ms = 7};
    assert_int_equal(trp_budget_of(&how, &budget), TROUPE_OK);
    assert_true(trp_budget_take(&budget, 1000, &delay));
    assert_true(trp_budget_take(&budget, 1050, &delay));
    assert_int_equal(delay, 7);
    assert_false(trp_budget_take(&budget, 1100, &delay));
    assert_true(trp_budget_take(&budget, 1101, &delay));
    assert_int_equal(delay, 14);
    assert_false(trp_budget_take(&budget, 1102, &delay));
    assert_true(trp_budget_take(&budget, 1151, &delay));
    // After a calm time, the first is at once again.
    assert_true(trp_budget_take(&budget, 100000, &delay));
    assert_int_equal(delay, 0);
    // For ever, with a limit to the delay.
    how = (troupe_spawn_options){.restarts = TROUPE_FOREVER, .backoff_ms = 1000};
    assert_int_equal(trp_budget_of(&how, &budget), TROUPE_OK);
    for (int i = 0; i < 1000; i++)
        assert_true(trp_budget_take(&budget, i, &delay));
    assert_int_equal(delay, 30000);
    // Its limit and the calm time are options; the pause itself is no calm time.
    how.backoff_max_ms = 2500;
    how.backoff_reset_ms = 100;
    assert_int_equal(trp_budget_of(&how, &budget), TROUPE_OK);
    static const int64_t hours[] = {0, 100, 1200, 3300, 5900, 8501},
                         pauses[] = {0, 1000, 2000, 2500, 2500, 0};
    for (int i = 0; i < 6; i++) {
        assert_true(trp_budget_take(&budget, hours[i], &delay));
        assert_int_equal(delay, pauses[i]);
    }
    trp_buffer packed = {0};
    trp_budget read;
    trp_budget_write(&budget, &packed);
    trp_reader in = trp_reader_of(packed.data, packed.size);
    assert_int_equal(trp_budget_read(&in, &read), TROUPE_OK);
    assert_memory_equal(&read, &budget, sizeof read);
    trp_buffer_free(&packed);
    how = (troupe_spawn_options){.restarts = -3};
    assert_int_equal(trp_budget_of(&how, &budget), TROUPE_INVALID);
    how = (troupe_spawn_options){.restarts = 65, .restart_window_ms = 1};
    assert_int_equal(trp_budget_of(&how, &budget), TROUPE_INVALID);
}

// ---- in place

static void test_in_place(void **state)
{
    (void)state;
    start from = {.value = 5, .name = "place"};
    for (int p = 0; p < PLACES; p++) {
        int out, inits = shared->inits, deinits = shared->deinits;
        phoenix_actor actor =
            troupe_spawn_from(phoenix, &from, .name = "rise", .place = places[p], .restarts = 2);
        troupe_must(troupe_actor_status(actor.address));
        look first = look_at(actor);
        assert_int_equal(first.restarts, 0);
        assert_false(first.at_init);
        troupe_must(troupe_get(int, troupe_call(actor, phoenix_add, 2), &out));
        assert_int_equal(out, 7);
        for (int i = 1; i <= 2; i++) {
            // What was sent behind the failure waits and is run by the new one.
            troupe_ref fails = troupe_call(actor, phoenix_fail);
            troupe_ref behind = troupe_call(actor, phoenix_add, 1);
            assert_int_equal(troupe_get(int, fails, &out), TROUPE_IO);
            assert_string_equal(troupe_last_error()->text, "the disk is gone");
            troupe_must(troupe_get(int, behind, &out));
            assert_int_equal(out, 6);
            look now = look_at(actor);
            assert_int_equal(now.restarts, i);
            assert_true(now.at_init);
            assert_int_equal(now.process, first.process);
            phoenix_actor found;
            troupe_must(troupe_lookup(phoenix, "rise", &found));
            assert_int_equal(found.address.id, actor.address.id);
        }
        assert_int_equal(shared->inits - inits, 3);
        assert_int_equal(shared->deinits - deinits, 2);
        assert_int_equal(troupe_get(int, troupe_call(actor, phoenix_fail), &out), TROUPE_IO);
        troupe_down down;
        assert_int_equal(troupe_actor_await_end(actor.address, SUPPORT_SOON_MS, &down), TROUPE_OK);
        assert_int_equal(down.reason, TROUPE_DOWN_ERROR);
        assert_non_null(strstr(down.text, "the disk is gone; it was restarted 2 times"));
        assert_int_equal(troupe_get(int, troupe_call(actor, phoenix_add, 1), &out),
                         TROUPE_NOT_EXECUTED);
        assert_non_null(strstr(troupe_last_error()->text, "the disk is gone"));
    }
}

static bool was_restarted(void *user)
{
    phoenix_actor *actor = user;
    look now = {0};
    if (troupe_get(look, troupe_call(*actor, phoenix_look), &now) != TROUPE_OK)
        assert_int_equal(troupe_last_error()->status, TROUPE_MAYBE_EXECUTED);
    return now.restarts > 0;
}

static void test_restart_by_request(void **state)
{
    (void)state;
    start from = {.value = 5, .name = "request"};
    for (int p = 0; p < PLACES; p++) {
        int out;
        phoenix_actor actor = troupe_spawn_from(phoenix, &from, .place = places[p], .restarts = 1);
        look first = look_at(actor);
        assert_int_equal(troupe_actor_restart(actor), TROUPE_OK);
        assert_true(support_wait_until(was_restarted, &actor, SUPPORT_SOON_MS));
        look now = look_at(actor);
        assert_int_equal(now.process == first.process, places[p] != TROUPE_PLACE_ISOLATED);
        assert_int_equal(now.restarts, 1);
        assert_int_equal(troupe_actor_restart(actor), TROUPE_OK);
        troupe_down down;
        assert_int_equal(troupe_actor_await_end(actor.address, SUPPORT_SOON_MS, &down), TROUPE_OK);
        assert_int_equal(down.reason, TROUPE_DOWN_KILLED);
        assert_int_equal(troupe_get(int, troupe_call(actor, phoenix_add, 1), &out),
                         TROUPE_NOT_EXECUTED);
    }
}

// ---- in another process

static void test_elsewhere(void **state)
{
    (void)state;
    static const int ends[] = {SIGKILL, SIGTERM, SIGABRT, -3, 0};
    start from = {.value = 5, .name = "elsewhere"};
    for (int p = 1; p < PLACES; p++) {
        int out;
        phoenix_actor actor = troupe_spawn_from(phoenix, &from, .name = "elsewhere",
                                                .place = places[p], .restarts = 5, .backoff_ms = 1);
        troupe_must(troupe_actor_status(actor.address));
        look before = look_at(actor);
        for (int i = 0; i < 5; i++) {
            troupe_ref crash = troupe_call(actor, phoenix_crash, ends[i]);
            assert_int_equal(troupe_get(int, crash, &out), TROUPE_MAYBE_EXECUTED);
            phoenix_actor found; // By name, too, while it is being started.
            troupe_must(troupe_lookup(phoenix, "elsewhere", &found));
            // A sender waits for it.
            look now = look_at(i % 2 == 0 ? actor : found);
            assert_int_equal(now.restarts, i + 1);
            assert_int_equal(now.value, 5);
            assert_int_not_equal(now.process, before.process);
            before = now;
            // It gives others the address that lasts.
            phoenix_actor self;
            troupe_must(troupe_get(troupe_actor, troupe_call(actor, phoenix_self), &self.address));
            assert_int_equal(self.address.id, actor.address.id);
            assert_int_equal(self.address.incarnation, actor.address.incarnation);
            assert_int_equal(troupe_tell(self, phoenix_add, 1), TROUPE_OK);
            assert_int_equal(look_at(self).value, 6);
        }
        assert_int_equal(troupe_get(int, troupe_call(actor, phoenix_crash, SIGKILL), &out),
                         TROUPE_MAYBE_EXECUTED);
        troupe_down down;
        assert_int_equal(troupe_actor_await_end(actor.address, SUPPORT_SOON_MS, &down), TROUPE_OK);
        assert_int_equal(down.reason, TROUPE_DOWN_CRASHED);
        assert_int_equal(down.signal, SIGKILL);
        assert_non_null(strstr(down.text, "signal 9"));
        assert_non_null(strstr(down.text, "restarted 5 times"));
        assert_int_equal(troupe_get(int, troupe_call(actor, phoenix_add, 1), &out),
                         TROUPE_NOT_EXECUTED);
        assert_non_null(strstr(troupe_last_error()->text, "signal 9"));
        phoenix_actor found;
        assert_int_equal(troupe_lookup(phoenix, "elsewhere", &found), TROUPE_NOT_FOUND);
    }
}

// With the default pauses this would take three minutes.
static void test_a_crash_in_a_hundred(void **state)
{
    (void)state;
    enum { CRASHES = 18, BETWEEN = 99, MOST_MS = 90000 };
    int out;
    start from = {.value = 0, .name = "stage"};
    phoenix_actor stage = troupe_spawn_from(phoenix, &from, .place = TROUPE_PLACE_ISOLATED,
                                            .restarts = TROUPE_FOREVER, .backoff_max_ms = 5);
    int64_t begun = support_now_ms();
    for (int i = 0; i < CRASHES; i++) {
        for (int k = 1; k <= BETWEEN; k++) {
            troupe_must(troupe_get(int, troupe_call(stage, phoenix_add, 1), &out));
            assert_int_equal(out, k);
        }
        assert_int_equal(troupe_get(int, troupe_call(stage, phoenix_crash, -1), &out),
                         TROUPE_MAYBE_EXECUTED);
    }
    assert_int_equal(look_at(stage).restarts, CRASHES);
    assert_true(support_now_ms() - begun < MOST_MS);
    assert_int_equal(troupe_actor_kill(stage), TROUPE_OK);
}

// Whoever crashed pays; who only lived there does not.
static void test_neighbours(void **state)
{
    (void)state;
    int out;
    start from = {.value = 5, .name = "neighbour"};
    phoenix_actor culprit = troupe_spawn_from(phoenix, &from, .place = TROUPE_PLACE_WORKER);
    phoenix_actor neighbour =
        troupe_spawn_from(phoenix, &from, .place = TROUPE_PLACE_WORKER, .restarts = 1);
    phoenix_actor mortal = troupe_spawn_from(phoenix, &from, .place = TROUPE_PLACE_WORKER);
    assert_int_equal(look_at(culprit).process, look_at(neighbour).process);
    troupe_down down;
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(
            troupe_get(int, troupe_call(culprit, phoenix_crash, i == 2 ? -1 : SIGABRT), &out),
            TROUPE_MAYBE_EXECUTED);
        assert_int_equal(troupe_actor_await_end(culprit.address, SUPPORT_SOON_MS, &down),
                         TROUPE_OK);
        assert_int_equal(down.reason, TROUPE_DOWN_CRASHED);
        assert_int_equal(look_at(neighbour).restarts, i);
        culprit = troupe_spawn_from(phoenix, &from, .place = TROUPE_PLACE_WORKER);
        assert_int_equal(look_at(culprit).process, look_at(neighbour).process);
    }
    assert_int_equal(troupe_actor_await_end(mortal.address, SUPPORT_SOON_MS, &down), TROUPE_OK);
    assert_int_equal(down.reason, TROUPE_DOWN_NEIGHBOUR);
    assert_non_null(strstr(down.text, "neighbour crashed"));
    // Its budget is untouched: once it may crash itself.
    assert_int_equal(troupe_get(int, troupe_call(neighbour, phoenix_crash, SIGABRT), &out),
                     TROUPE_MAYBE_EXECUTED);
    assert_int_equal(look_at(neighbour).restarts, 4);
    assert_int_equal(troupe_get(int, troupe_call(neighbour, phoenix_crash, SIGABRT), &out),
                     TROUPE_MAYBE_EXECUTED);
    assert_int_equal(troupe_actor_await_end(neighbour.address, SUPPORT_SOON_MS, &down), TROUPE_OK);
    assert_int_equal(down.reason, TROUPE_DOWN_CRASHED);
}

// ---- not again

static bool has_ended(void *user)
{
    phoenix_actor *actor = user;
    look out;
    return troupe_get(look, troupe_call(*actor, phoenix_look), &out) == TROUPE_NOT_EXECUTED;
}

static void test_ended_for_good(void **state)
{
    (void)state;
    start from = {.value = 5, .name = "good"};
    for (int p = 0; p < PLACES; p++)
        for (int moved = 0; moved < 2; moved++)
            for (int how = 0; how < 3; how++) {
                int out, inits = shared->inits;
                phoenix_actor actor = troupe_spawn_from(phoenix, &from, .place = places[p],
                                                        .restarts = TROUPE_FOREVER);
                if (moved && p > 0)
                    assert_int_equal(
                        troupe_get(int, troupe_call(actor, phoenix_crash, SIGKILL), &out),
                        TROUPE_MAYBE_EXECUTED);
                look last = look_at(actor);
                troupe_down down;
                if (how == 0)
                    assert_int_equal(troupe_actor_kill(actor), TROUPE_OK);
                else if (how == 1)
                    assert_int_equal(troupe_actor_end(actor), TROUPE_OK);
                else
                    assert_int_equal(troupe_actor_stop(actor), TROUPE_OK);
                assert_int_equal(troupe_actor_await_end(actor.address, SUPPORT_SOON_MS, &down),
                                 TROUPE_OK);
                assert_int_equal(down.reason, how == 0 ? TROUPE_DOWN_KILLED : TROUPE_DOWN_NORMAL);
                assert_true(support_wait_until(has_ended, &actor, SUPPORT_SOON_MS));
                assert_int_equal(shared->inits - inits, last.restarts + 1);
            }
}

// A first init that fails fails the spawn; a later one takes from the budget.
static void test_init_fails(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        int out, inits = shared->inits;
        start from = {.value = -1, .name = "init"};
        phoenix_actor actor = troupe_spawn_from(phoenix, &from, .place = places[p], .restarts = 3);
        assert_int_equal(troupe_actor_status(actor.address), TROUPE_INVALID);
        assert_int_equal(shared->inits - inits, 1);
        inits = shared->inits;
        from = (start){.value = 1, .fails_later = true, .name = "later"};
        actor =
            troupe_spawn_from(phoenix, &from, .place = places[p], .restarts = 3, .backoff_ms = 1);
        if (p == 0)
            assert_int_equal(troupe_get(int, troupe_call(actor, phoenix_fail), &out), TROUPE_IO);
        else
            assert_int_equal(troupe_get(int, troupe_call(actor, phoenix_crash, -1), &out),
                             TROUPE_MAYBE_EXECUTED);
        troupe_down down;
        assert_int_equal(troupe_actor_await_end(actor.address, SUPPORT_SOON_MS, &down), TROUPE_OK);
        assert_int_equal(down.reason, TROUPE_DOWN_ERROR);
        assert_non_null(strstr(down.text, "the second start of later fails"));
        assert_int_equal(shared->inits - inits, 4);
    }
}

// ---- who sends meanwhile

// One that pauses so long before its second restart; the first is at once.
static phoenix_actor crashed_twice(const start *from, uint32_t backoff_ms)
{
    int out;
    phoenix_actor actor = troupe_spawn_from(phoenix, from, .place = TROUPE_PLACE_ISOLATED,
                                            .restarts = 4, .backoff_ms = backoff_ms);
    for (int i = 0; i < 2; i++)
        assert_int_equal(troupe_get(int, troupe_call(actor, phoenix_crash, SIGKILL), &out),
                         TROUPE_MAYBE_EXECUTED);
    return actor;
}

static void test_waiting_senders(void **state)
{
    (void)state;
    int out;
    start from = {.value = 5, .name = "waiting"};
    phoenix_actor actor = crashed_twice(&from, 60000);
    assert_int_equal(
        troupe_get(int, troupe_call(troupe_with(actor, .deadline_ms = 20), phoenix_add, 1), &out),
        TROUPE_DEADLINE_EXCEEDED);
    assert_int_equal(troupe_last_error()->executed, TROUPE_EXECUTED_NO);
    assert_int_equal(troupe_tell(troupe_with(actor, .flags = TROUPE_CALL_NO_WAIT), phoenix_add, 1),
                     TROUPE_BUSY);
    troupe_actor_kill(actor);
    actor = crashed_twice(&from, 400);
    assert_int_equal(look_at(actor).restarts, 2);
    troupe_actor_kill(actor);
}

// From another worker, and through a monitor there.
typedef struct client {
    int told;
} client;

static troupe_status client_ask(client *self, const troupe_actor *other, int *value)
{
    (void)self;
    phoenix_actor target = {*other};
    return troupe_get(int, troupe_call(target, phoenix_add, 1), value);
}

static troupe_status client_watch(client *self, const troupe_actor *other, troupe_none *out);

static troupe_status client_told(client *self, const troupe_down *down, troupe_none *out)
{
    (void)out;
    self->told += down->reason == TROUPE_DOWN_CRASHED ? 1 : 100;
    return TROUPE_OK;
}

static troupe_status client_count(client *self, const troupe_none *nothing, int *out)
{
    (void)nothing;
    *out = self->told;
    return TROUPE_OK;
}

TROUPE_ACTOR(client, (client_ask, troupe_actor, int), (client_watch, troupe_actor, troupe_none),
             (client_told, troupe_down, troupe_none), (client_count, troupe_none, int));

static troupe_status client_watch(client *self, const troupe_actor *other, troupe_none *out)
{
    (void)self, (void)out;
    phoenix_actor target = {*other};
    return troupe_monitor_start(target, client_told) != 0 ? TROUPE_OK : TROUPE_FAILED;
}

static bool client_heard(void *user)
{
    client_actor *who = user;
    int told = 0;
    troupe_must(troupe_get(int, troupe_call(*who, client_count), &told));
    return told != 0;
}

static void test_others(void **state)
{
    (void)state;
    for (int c = 0; c < PLACES; c++)
        for (int p = 1; p < PLACES; p++) {
            int out;
            troupe_none none;
            start from = {.value = 5, .name = "others"};
            if (c == 1 && p == 1) // They would share the one worker.
                continue;
            phoenix_actor actor =
                troupe_spawn_from(phoenix, &from, .place = places[p], .restarts = 1);
            client_actor who = troupe_spawn(client, .place = places[c]);
            const troupe_actor *address = &actor.address;
            troupe_must(
                troupe_get(troupe_none, troupe_call_from(who, client_watch, address), &none));
            for (int i = 0; i < 2; i++) {
                troupe_must(troupe_get(int, troupe_call_from(who, client_ask, address), &out));
                assert_int_equal(out, 6);
                troupe_must(troupe_get(int, troupe_call(who, client_count), &out));
                assert_int_equal(out, 0); // It has not ended.
                assert_int_equal(troupe_get(int, troupe_call(actor, phoenix_crash, SIGABRT), &out),
                                 TROUPE_MAYBE_EXECUTED);
            }
            assert_true(support_wait_until(client_heard, &who, SUPPORT_SOON_MS));
            troupe_must(troupe_get(int, troupe_call(who, client_count), &out));
            assert_int_equal(out, 1);
            troupe_actor_kill(who);
        }
}

static void test_refused(void **state)
{
    (void)state;
    start from = {.value = 5, .name = "refused"};
    phoenix_actor actor = troupe_spawn_from(phoenix, &from, .restarts = -7);
    assert_int_equal(troupe_actor_status(actor.address), TROUPE_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_restart_by_request),
        cmocka_unit_test(test_elsewhere),
        cmocka_unit_test(test_a_crash_in_a_hundred),
        cmocka_unit_test(test_neighbours),
        cmocka_unit_test(test_ended_for_good),
        cmocka_unit_test(test_init_fails),
        cmocka_unit_test(test_waiting_senders),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, set_up, stop_runtime);
}
