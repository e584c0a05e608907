// test_monitor.c: which actors are told of an actor's end, and why it ended: monitors, waits and
// links, over all distances.
#include <places.h>
#include <support.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

typedef struct fragile {
    int told;
} fragile;

static struct {
    _Atomic int begun; // Methods that were to last.
    _Atomic int open;  // fragile_hold returns.
} * shared;            // With the workers.

static troupe_status fragile_process(fragile *self, const troupe_none *nothing, int *process)
{
    (void)self, (void)nothing;
    *process = getpid();
    return TROUPE_OK;
}

static troupe_status fragile_die(fragile *self, const int *number, int *out)
{
    (void)self;
    shared->begun++;
    *out = 0;
    if (*number > 0)
        *out = kill(getpid(), *number) + pause();
    else
        exit(-*number);
    return TROUPE_OK;
}

static troupe_status fragile_leave(fragile *self, const bool *drain, int *out)
{
    (void)self;
    *out = 7;
    return troupe_actor_exit(.drain = *drain, .text = "my work is done");
}

static troupe_status fragile_give_up(fragile *self, const int *number, int *out)
{
    (void)self;
    *out = 0;
    return troupe_actor_fail(TROUPE_INVALID, "number %d is too much", *number);
}

static troupe_status fragile_rest(fragile *self, const int *ms, int *out)
{
    (void)self;
    shared->begun++;
    *out = usleep((unsigned)*ms * 1000);
    return TROUPE_OK;
}

static troupe_status fragile_hold(fragile *self, const troupe_none *nothing, troupe_none *out)
{
    (void)self, (void)nothing, (void)out;
    shared->begun++;
    while (!shared->open)
        (void)usleep(500);
    return TROUPE_OK;
}

static troupe_status fragile_link(fragile *self, const troupe_actor *other, troupe_none *out);
static troupe_status fragile_unlink(fragile *self, const troupe_actor *other, troupe_none *out);

TROUPE_ACTOR(fragile, (fragile_process, troupe_none, int), (fragile_die, int, int),
             (fragile_leave, bool, int), (fragile_give_up, int, int), (fragile_rest, int, int),
             (fragile_hold, troupe_none, troupe_none), (fragile_link, troupe_actor, troupe_none),
             (fragile_unlink, troupe_actor, troupe_none));

static troupe_status fragile_link(fragile *self, const troupe_actor *other, troupe_none *out)
{
    (void)self, (void)out;
    return troupe_actor_link(*other);
}

static troupe_status fragile_unlink(fragile *self, const troupe_actor *other, troupe_none *out)
{
    (void)self, (void)out;
    return troupe_actor_unlink(*other);
}

// What a boss has been told.
TROUPE_STRUCT(news, (int, count), (int, reason), (int, signal), (uint64_t, actor),
              (uint64_t, monitor), (troupe_text, text));

typedef struct boss {
    news last;
    char text[256];
} boss;

static troupe_status boss_watch(boss *self, const troupe_actor *other, uint64_t *monitor);
static troupe_status boss_forget(boss *self, const uint64_t *monitor, bool *known);
static troupe_status boss_follow(boss *self, const troupe_actor *other, troupe_none *out);

static troupe_status boss_told(boss *self, const troupe_down *down, troupe_none *out)
{
    (void)out;
    self->last.count++;
    self->last.reason = down->reason;
    self->last.signal = down->signal;
    self->last.actor = down->actor.id;
    self->last.monitor = down->monitor;
    strncpy(self->text, down->text, sizeof self->text - 1);
    return TROUPE_OK;
}

static troupe_status boss_news(boss *self, const troupe_none *nothing, news *out)
{
    (void)nothing;
    *out = self->last;
    out->text = self->text;
    return TROUPE_OK;
}

TROUPE_ACTOR(boss, (boss_told, troupe_down, troupe_none), (boss_watch, troupe_actor, uint64_t),
             (boss_forget, uint64_t, bool), (boss_follow, troupe_actor, troupe_none),
             (boss_news, troupe_none, news));

static troupe_status boss_watch(boss *self, const troupe_actor *other, uint64_t *monitor)
{
    (void)self;
    fragile_actor target = {*other};
    *monitor = troupe_monitor_start(target, boss_told);
    return *monitor != 0 ? TROUPE_OK : troupe_last_error()->status;
}

static troupe_status boss_forget(boss *self, const uint64_t *monitor, bool *known)
{
    (void)self;
    *known = troupe_monitor_stop(*monitor);
    return TROUPE_OK;
}

static troupe_status boss_follow(boss *self, const troupe_actor *other, troupe_none *out)
{
    (void)self, (void)out;
    TROUPE_TRY(troupe_actor_trap_ends(boss_told));
    return troupe_actor_link(*other);
}

static int set_up(void **state)
{
    (void)state;
    shared = support_share(sizeof *shared);
    return troupe_start(0, NULL, .workers = 2, .threads = 2) == TROUPE_OK ? 0 : -1;
}

typedef struct expected {
    boss_actor boss;
    int count;
    news last;
} expected;

static bool has_news(void *user)
{
    expected *wanted = user;
    return troupe_get(news, troupe_call(wanted->boss, boss_news), &wanted->last) == TROUPE_OK &&
           wanted->last.count >= wanted->count;
}

static news await_news(boss_actor who, int count)
{
    expected wanted = {.boss = who, .count = count};
    assert_true(support_wait_until(has_news, &wanted, SUPPORT_SOON_MS));
    assert_int_equal(wanted.last.count, count);
    return wanted.last;
}

// Does to an actor what should end it, with the reason that follows.
typedef enum deed { EXIT, DRAIN, FAIL, KILL, FINISH, CRASH, QUIT, DEEDS } deed;

static int do_deed(deed what, fragile_actor actor, troupe_place place)
{
    int out;
    switch (what) {
    case EXIT:
    case DRAIN:
        troupe_must(troupe_get(int, troupe_call(actor, fragile_leave, what == DRAIN), &out));
        assert_int_equal(out, 7);
        return TROUPE_DOWN_NORMAL;
    case FAIL:
        assert_int_equal(troupe_get(int, troupe_call(actor, fragile_give_up, 12), &out),
                         TROUPE_INVALID);
        assert_string_equal(troupe_last_error()->text, "number 12 is too much");
        return TROUPE_DOWN_ERROR;
    case KILL:
        assert_int_equal(troupe_actor_kill(actor), TROUPE_OK);
        return TROUPE_DOWN_KILLED;
    case FINISH:
        assert_int_equal(troupe_actor_end(actor), TROUPE_OK);
        return TROUPE_DOWN_NORMAL;
    case CRASH:
    case QUIT:
        if (place == TROUPE_PLACE_HERE)
            return 0;
        assert_int_equal(
            troupe_get(int, troupe_call(actor, fragile_die, what == CRASH ? SIGKILL : -3), &out),
            TROUPE_MAYBE_EXECUTED);
        return TROUPE_DOWN_CRASHED;
    default:
        return 0;
    }
}

static const char *const words[DEEDS] = {
    [EXIT] = "my work is done",       [DRAIN] = "my work is done",
    [FAIL] = "number 12 is too much", [KILL] = "killed",
    [FINISH] = "has ended",           [CRASH] = "signal 9",
    [QUIT] = "exited with status 3",
};

static void test_reasons(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++)
        for (deed what = 0; what < DEEDS; what++)
            for (int b = 0; b < 2; b++) {
                uint64_t monitor;
                troupe_down down;
                boss_actor watcher = troupe_spawn(boss, .place = places[2 * b]);
                fragile_actor actor = troupe_spawn(fragile, .place = places[p]);
                troupe_must(troupe_get(
                    uint64_t, troupe_call_from(watcher, boss_watch, &actor.address), &monitor));
                int reason = do_deed(what, actor, places[p]);
                if (reason == 0)
                    continue;
                assert_int_equal(troupe_actor_await_end(actor.address, SUPPORT_SOON_MS, &down),
                                 TROUPE_OK);
                assert_string_equal(troupe_down_reason_name(down.reason),
                                    troupe_down_reason_name(reason));
                assert_int_equal(down.signal, what == CRASH ? SIGKILL : 0);
                if (strstr(down.text, words[what]) == NULL)
                    fail_msg("deed %d in place %d: %s", (int)what, p, down.text);
                news last = await_news(watcher, 1);
                assert_int_equal(last.reason, reason);
                assert_int_equal(last.signal, down.signal);
                assert_int_equal(last.actor, actor.address.id);
                assert_int_equal(last.monitor, monitor);
                assert_non_null(strstr(last.text, words[what]));
                // What was said is what later callers hear, too.
                int out;
                assert_int_equal(troupe_get(int, troupe_call(actor, fragile_process), &out),
                                 TROUPE_NOT_EXECUTED);
                if (what != KILL && what != FINISH)
                    assert_non_null(strstr(troupe_last_error()->text, words[what]));
                // Whoever watches the dead is told at once.
                troupe_must(troupe_get(
                    uint64_t, troupe_call_from(watcher, boss_watch, &actor.address), &monitor));
                assert_int_equal(await_news(watcher, 2).reason, reason);
                troupe_actor_kill(watcher);
            }
}

static void test_no_actor(void **state)
{
    (void)state;
    troupe_down down;
    fragile_actor actor = troupe_spawn(fragile, .place = TROUPE_PLACE_WORKER);
    assert_int_equal(troupe_actor_await_end(actor.address, 0, &down), TROUPE_TIMED_OUT);
    assert_int_equal(troupe_actor_await_end(actor.address, 20, &down), TROUPE_TIMED_OUT);
    fragile_actor never = actor;
    never.address.id += 1000000;
    assert_int_equal(troupe_actor_await_end(never.address, SUPPORT_SOON_MS, &down), TROUPE_OK);
    assert_int_equal(down.reason, TROUPE_DOWN_NO_ACTOR);
    never.address.incarnation++;
    assert_int_equal(troupe_actor_await_end(never.address, SUPPORT_SOON_MS, &down), TROUPE_OK);
    assert_int_equal(down.reason, TROUPE_DOWN_NO_ACTOR);
    fragile_actor failed = troupe_spawn(fragile, .name = "not a name");
    assert_int_equal(troupe_actor_await_end(failed.address, SUPPORT_SOON_MS, &down), TROUPE_OK);
    assert_int_equal(down.reason, TROUPE_DOWN_NO_ACTOR);
    assert_non_null(strstr(down.text, "not a name"));
    assert_int_equal(troupe_monitor_start(actor, boss_told), 0);
    assert_int_equal(troupe_last_error()->status, TROUPE_INVALID);
    assert_int_equal(troupe_actor_exit(), TROUPE_INVALID);
    assert_int_equal(troupe_actor_link(actor), TROUPE_INVALID);
    troupe_actor_kill(actor);
}

static void test_demonitor(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        uint64_t one, two;
        bool known;
        boss_actor watcher = troupe_spawn(boss);
        fragile_actor actor = troupe_spawn(fragile, .place = places[p]);
        const troupe_actor *address = &actor.address;
        troupe_must(troupe_get(uint64_t, troupe_call_from(watcher, boss_watch, address), &one));
        troupe_must(troupe_get(uint64_t, troupe_call_from(watcher, boss_watch, address), &two));
        assert_int_not_equal(one, two);
        troupe_must(troupe_get(bool, troupe_call(watcher, boss_forget, one), &known));
        assert_true(known);
        troupe_must(troupe_get(bool, troupe_call(watcher, boss_forget, one), &known));
        assert_false(known);
        troupe_actor_kill(actor);
        assert_int_equal(await_news(watcher, 1).monitor, two);
        troupe_actor_kill(watcher);
    }
}

static void test_links(void **state)
{
    (void)state;
    troupe_none none;
    troupe_down down;
    for (int p = 0; p < PLACES; p++)
        for (int q = 0; q < PLACES; q++)
            for (int first = 0; first < 2; first++) {
                fragile_actor pair[2] = {troupe_spawn(fragile, .place = places[p]),
                                         troupe_spawn(fragile, .place = places[q])};
                troupe_must(troupe_get(
                    troupe_none, troupe_call_from(pair[0], fragile_link, &pair[1].address), &none));
                troupe_must(troupe_get(
                    troupe_none, troupe_call_from(pair[0], fragile_link, &pair[1].address), &none));
                int out; // Behind the other side's LINK.
                troupe_must(troupe_get(int, troupe_call(pair[1], fragile_process), &out));
                (void)do_deed(FAIL, pair[first], places[p]);
                for (int i = 0; i < 2; i++) {
                    assert_int_equal(
                        troupe_actor_await_end(pair[i].address, SUPPORT_SOON_MS, &down), TROUPE_OK);
                    assert_int_equal(down.reason, TROUPE_DOWN_ERROR);
                    assert_non_null(strstr(down.text, "number 12 is too much"));
                }
            }
}

static void test_links_that_hold(void **state)
{
    (void)state;
    troupe_none none;
    troupe_down down;
    int out;
    // A normal end leaves the other alone, and so does an untied one.
    for (int untie = 0; untie < 2; untie++)
        for (int p = 0; p < PLACES; p++) {
            fragile_actor here = troupe_spawn(fragile, .place = TROUPE_PLACE_HERE);
            fragile_actor there = troupe_spawn(fragile, .place = places[p]);
            const troupe_actor *address = &there.address;
            troupe_must(
                troupe_get(troupe_none, troupe_call_from(here, fragile_link, address), &none));
            if (untie)
                troupe_must(troupe_get(troupe_none, troupe_call_from(here, fragile_unlink, address),
                                       &none));
            (void)do_deed(untie ? FAIL : EXIT, there, places[p]);
            assert_int_equal(troupe_actor_await_end(*address, SUPPORT_SOON_MS, &down), TROUPE_OK);
            troupe_must(troupe_get(int, troupe_call(here, fragile_process), &out));
            troupe_actor_kill(here);
        }
    // A trap is told in place of the end.
    for (int p = 0; p < PLACES; p++) {
        boss_actor trapper = troupe_spawn(boss);
        fragile_actor actor = troupe_spawn(fragile, .place = places[p]);
        troupe_must(
            troupe_get(troupe_none, troupe_call_from(trapper, boss_follow, &actor.address), &none));
        (void)do_deed(p == 0 ? KILL : CRASH, actor, places[p]);
        assert_int_equal(await_news(trapper, 1).reason,
                         p == 0 ? TROUPE_DOWN_KILLED : TROUPE_DOWN_CRASHED);
        troupe_actor_kill(trapper);
    }
}

// The newest thousand ends are remembered, whatever the ids of those that have ended.
static void test_ends_are_remembered(void **state)
{
    (void)state;
    enum { PAIRS = 400 };
    fragile_actor all[PAIRS][2];
    troupe_down down;
    for (int i = 0; i < PAIRS; i++) {
        for (int j = 0; j < 2; j++)
            all[i][j] = troupe_spawn(fragile, .place = TROUPE_PLACE_HERE);
        for (int j = 0; j < 2; j++) {
            (void)do_deed(FAIL, all[i][j], TROUPE_PLACE_HERE);
            troupe_must(troupe_actor_await_end(all[i][j].address, SUPPORT_SOON_MS, NULL));
        }
    }
    for (int i = 0; i < 2 * PAIRS; i++) {
        troupe_must(troupe_actor_await_end(all[i / 2][i % 2].address, SUPPORT_SOON_MS, &down));
        assert_int_equal(down.reason, TROUPE_DOWN_ERROR);
        assert_non_null(strstr(down.text, "number 12 is too much"));
    }
}

// Those that leave take their own tie along, in whatever order, and nobody else's.
static void test_links_of_many(void **state)
{
    (void)state;
    enum { MANY = 64, STEPS = 4 };
    static const int steps[STEPS] = {1, MANY - 1, 5, 27}; // Odd: each comes to all.
    for (int s = 0; s < STEPS; s++) {
        int out;
        troupe_none none;
        fragile_actor hub = troupe_spawn(fragile, .place = TROUPE_PLACE_HERE), all[MANY];
        for (int i = 0; i < MANY; i++) {
            all[i] = troupe_spawn(fragile, .place = TROUPE_PLACE_HERE);
            const troupe_actor *address = &all[i].address;
            troupe_must(
                troupe_get(troupe_none, troupe_call_from(hub, fragile_link, address), &none));
        }
        for (int i = 0; i < MANY / 2; i++) {
            fragile_actor *one = &all[i * steps[s] % MANY];
            (void)do_deed(EXIT, *one, TROUPE_PLACE_HERE);
            assert_int_equal(troupe_actor_await_end(one->address, SUPPORT_SOON_MS, NULL),
                             TROUPE_OK);
        }
        troupe_must(troupe_get(int, troupe_call(hub, fragile_process), &out));
        (void)do_deed(FAIL, hub, TROUPE_PLACE_HERE);
        for (int i = MANY / 2; i < MANY; i++) {
            troupe_down down;
            const troupe_actor *address = &all[i * steps[s] % MANY].address;
            assert_int_equal(troupe_actor_await_end(*address, SUPPORT_SOON_MS, &down), TROUPE_OK);
            assert_int_equal(down.reason, TROUPE_DOWN_ERROR);
        }
    }
}

static bool has_begun(void *user)
{
    return shared->begun >= *(int *)user;
}

static void await_begun(int wanted)
{
    assert_true(support_wait_until(has_begun, &wanted, SUPPORT_SOON_MS));
}

// Two messages wait in its mailbox.
static bool has_two(void *user)
{
    const fragile_actor *actor = user;
    troupe_actor_list all;
    troupe_must(troupe_actors_list(0, &all));
    for (size_t i = 0; i < all.actors.count; i++) {
        const troupe_actor_info *it = &all.actors.items[i];
        if (it->address.id == actor->address.id &&
            it->address.incarnation == actor->address.incarnation)
            return it->waiting == 2;
    }
    return false;
}

static void test_exit(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++)
        for (int drain = 0; drain < 2; drain++) {
            int out, wanted = shared->begun + 1;
            troupe_none none;
            fragile_actor actor = troupe_spawn(fragile, .place = places[p]);
            shared->open = 0;
            troupe_ref holds = troupe_call(actor, fragile_hold);
            await_begun(wanted);
            troupe_ref leaves = troupe_call(actor, fragile_leave, drain != 0);
            troupe_ref behind = troupe_call(actor, fragile_process);
            assert_true(support_wait_until(has_two, &actor, SUPPORT_SOON_MS));
            shared->open = 1;
            troupe_must(troupe_get(troupe_none, holds, &none));
            troupe_must(troupe_get(int, leaves, &out));
            assert_int_equal(out, 7);
            assert_int_equal(troupe_get(int, behind, &out),
                             drain ? TROUPE_OK : TROUPE_NOT_EXECUTED);
        }
}

static void test_stop_actor(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        int out;
        fragile_actor actor = troupe_spawn(fragile, .name = "stopped", .place = places[p]);
        troupe_ref rests = troupe_call(actor, fragile_rest, 30);
        troupe_ref queued = troupe_call(actor, fragile_process);
        assert_int_equal(troupe_actor_stop(actor, SUPPORT_SOON_MS), TROUPE_OK);
        assert_int_equal(troupe_get(int, rests, &out, TROUPE_POLL), TROUPE_OK);
        assert_int_equal(troupe_get(int, queued, &out, TROUPE_POLL), TROUPE_OK);
        assert_int_equal(troupe_actor_stop(actor), TROUPE_OK); // Again.
        // By force. Its name can be used again when it is gone.
        actor = troupe_spawn(fragile, .name = "stopped", .place = places[p]);
        troupe_must(troupe_actor_status(actor.address));
        int wanted = shared->begun + 1;
        troupe_none none;
        shared->open = 0;
        troupe_ref holds = troupe_call(actor, fragile_hold);
        queued = troupe_call(actor, fragile_process);
        await_begun(wanted);
        assert_int_equal(troupe_actor_stop(actor, 20), TROUPE_DEADLINE_EXCEEDED);
        assert_int_equal(troupe_get(int, queued, &out), TROUPE_NOT_EXECUTED);
        assert_int_equal(troupe_get(troupe_none, holds, &none), TROUPE_MAYBE_EXECUTED);
        shared->open = places[p] != TROUPE_PLACE_ISOLATED; // That one's process has been ended.
        assert_int_equal(troupe_actor_await_end(actor.address, SUPPORT_SOON_MS, NULL), TROUPE_OK);
        actor = troupe_spawn(fragile, .name = "stopped", .place = places[p]);
        troupe_must(troupe_actor_status(actor.address));
        assert_int_equal(troupe_actor_stop(actor), TROUPE_OK);
    }
}

typedef struct race {
    pthread_t thread;
    fragile_actor found;
    troupe_place place;
} race;

static void *get_in_thread(void *user)
{
    race *mine = user;
    mine->found =
        troupe_spawn(fragile, .name = "only", .get_if_exists = true, .place = mine->place);
    return NULL;
}

static void test_get_if_exists(void **state)
{
    (void)state;
    enum { RACERS = 8 };
    for (int p = 0; p < PLACES; p++) {
        race racers[RACERS];
        for (int i = 0; i < RACERS; i++) {
            racers[i].place = places[p];
            assert_int_equal(pthread_create(&racers[i].thread, NULL, get_in_thread, &racers[i]), 0);
        }
        for (int i = 0; i < RACERS; i++)
            pthread_join(racers[i].thread, NULL);
        for (int i = 0; i < RACERS; i++) {
            troupe_must(troupe_actor_status(racers[i].found.address));
            assert_int_equal(racers[i].found.address.id, racers[0].found.address.id);
            assert_int_equal(racers[i].found.address.incarnation,
                             racers[0].found.address.incarnation);
        }
        boss_actor other = troupe_spawn(boss, .name = "only", .get_if_exists = true);
        assert_int_equal(troupe_actor_status(other.address), TROUPE_WRONG_TYPE);
        other = troupe_spawn(boss, .get_if_exists = true);
        assert_int_equal(troupe_actor_status(other.address), TROUPE_INVALID);
        assert_int_equal(troupe_actor_stop(racers[0].found), TROUPE_OK);
        fragile_actor next =
            troupe_spawn(fragile, .name = "only", .get_if_exists = true, .place = places[p]);
        troupe_must(troupe_actor_status(next.address));
        assert_int_equal(troupe_actor_stop(next), TROUPE_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reasons),         cmocka_unit_test(test_no_actor),
        cmocka_unit_test(test_demonitor),       cmocka_unit_test(test_links),
        cmocka_unit_test(test_links_that_hold), cmocka_unit_test(test_ends_are_remembered),
        cmocka_unit_test(test_links_of_many),   cmocka_unit_test(test_exit),
        cmocka_unit_test(test_stop_actor),      cmocka_unit_test(test_get_if_exists),
    };
    return cmocka_run_group_tests(tests, set_up, stop_runtime);
}
