// test_again.c: what goes together with restarts: actors that are counted, owned or run several
// methods at a time, urgent methods, streams, calls that are sent again.
#include <places.h>
#include <support.h>

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

static struct {
    _Atomic int left;    // So often does a method fail or crash.
    _Atomic int running; // Of hydra_hold and hydra_pause.
    _Atomic int runs, open;
} * shared; // With the workers.

TROUPE_STRUCT(series, (int, count), (int, then));
TROUPE_STRUCT(view, (int, restarts), (int, process));
enum { THEN_END, THEN_FAIL, THEN_CRASH, THEN_GO_ON };

typedef struct hydra {
    _Atomic int unused;
} hydra;

static troupe_status hydra_view(hydra *self, const troupe_none *nothing, view *out)
{
    (void)self, (void)nothing;
    *out = (view){(int)troupe_actor_restarts(), getpid()};
    return TROUPE_OK;
}

static troupe_status fall(bool crash)
{
    if (!crash)
        return troupe_actor_fail(TROUPE_IO, "a head is off");
    (void)kill(getpid(), SIGKILL);
    (void)pause();
    return TROUPE_OK;
}

static troupe_status hydra_fall(hydra *self, const bool *crash, int *out)
{
    (void)self, (void)out;
    return fall(*crash);
}

// Urgent, and may run twice.
static troupe_status hydra_try(hydra *self, const bool *crash, int *runs)
{
    (void)self;
    *runs = ++shared->runs;
    return atomic_fetch_sub(&shared->left, 1) > 0 ? fall(*crash) : TROUPE_OK;
}

static troupe_status hydra_hold(hydra *self, const int *number, int *out)
{
    (void)self;
    *out = *number;
    shared->running++;
    while (!shared->open)
        usleep(200);
    shared->running--;
    return TROUPE_OK;
}

// Urgent.
static troupe_status hydra_pause(hydra *self, const int *number, int *out)
{
    return hydra_hold(self, number, out);
}

static troupe_status hydra_count(hydra *self, const series *in, int *unused)
{
    (void)self, (void)unused;
    for (int i = 0; i < in->count || in->then == THEN_GO_ON; i++)
        TROUPE_TRY(troupe_yield(int, &i));
    return in->then == THEN_END ? TROUPE_OK : fall(in->then == THEN_CRASH);
}

static troupe_status hydra_leave(hydra *self, const troupe_none *nothing, troupe_none *out)
{
    (void)self, (void)nothing, (void)out;
    return troupe_actor_exit();
}

static troupe_status hydra_retain(hydra *self, const troupe_actor *other, troupe_none *out)
{
    (void)self, (void)out;
    return troupe_actor_retain(*other);
}

static troupe_status hydra_release(hydra *self, const troupe_actor *other, troupe_none *out)
{
    (void)self, (void)out;
    return troupe_actor_release(*other);
}

static troupe_status hydra_spawn(hydra *self, const int *place, troupe_actor *child);

TROUPE_ACTOR(hydra, (hydra_view, troupe_none, view), (hydra_fall, bool, int),
             (hydra_try, bool, int, .options = TROUPE_METHOD_URGENT | TROUPE_METHOD_REPEATABLE),
             (hydra_hold, int, int), (hydra_pause, int, int, .options = TROUPE_METHOD_URGENT),
             (hydra_count, series, int, .options = TROUPE_METHOD_STREAM),
             (hydra_leave, troupe_none, troupe_none), (hydra_spawn, int, troupe_actor),
             (hydra_retain, troupe_actor, troupe_none), (hydra_release, troupe_actor, troupe_none));

static troupe_status hydra_spawn(hydra *self, const int *place, troupe_actor *child)
{
    (void)self;
    hydra_actor made = troupe_spawn(hydra, .place = (troupe_place)*place, .lifetime = TROUPE_OWNED,
                                    .backoff_ms = 1, .restarts = TROUPE_FOREVER);
    *child = made.address;
    return troupe_actor_status(made.address);
}

static int set_up(void **state)
{
    (void)state;
    shared = support_share(sizeof *shared);
    return troupe_start(0, NULL, .workers = 2, .threads = 2) == TROUPE_OK ? 0 : -1;
}

static void clear(void)
{
    memset((void *)shared, 0, sizeof *shared);
}

static view view_of(hydra_actor actor)
{
    view out = {0};
    troupe_must(troupe_get(view, troupe_call(actor, hydra_view), &out));
    return out;
}

static void make_fall(hydra_actor actor, bool crash)
{
    int out;
    assert_int_equal(troupe_get(int, troupe_call(actor, hydra_fall, crash), &out),
                     crash ? TROUPE_MAYBE_EXECUTED : TROUPE_IO);
}

static void await_end(hydra_actor actor, int reason)
{
    troupe_down down;
    assert_int_equal(troupe_actor_await_end(actor.address, SUPPORT_SOON_MS, &down), TROUPE_OK);
    assert_string_equal(troupe_down_reason_name(down.reason), troupe_down_reason_name(reason));
}

typedef struct level {
    _Atomic int *counter;
    int value;
} level;

static bool reaches(void *user)
{
    level *it = user;
    return atomic_load(it->counter) == it->value;
}

static void await(_Atomic int *counter, int value)
{
    level it = {counter, value};
    assert_true(support_wait_until(reaches, &it, SUPPORT_SOON_MS));
}

typedef struct age {
    hydra_actor actor;
    int restarts;
} age;

static bool is_so_old(void *user)
{
    age *it = user;
    view out;
    troupe_status status = troupe_get(view, troupe_call(it->actor, hydra_view), &out);
    assert_true(status == TROUPE_OK || status == TROUPE_MAYBE_EXECUTED);
    return status == TROUPE_OK && out.restarts == it->restarts;
}

static void await_restarts(hydra_actor actor, int restarts)
{
    age it = {actor, restarts};
    assert_true(support_wait_until(is_so_old, &it, SUPPORT_SOON_MS));
}

// ---- counted and owned

static void test_counted(void **state)
{
    (void)state;
    troupe_none none;
    for (int p = 0; p < PLACES; p++)
        for (int crash = 0; crash < (p == 0 ? 1 : 2); crash++)
            for (int dies = 0; dies < 2; dies++) {
                hydra_actor actor =
                    troupe_spawn(hydra, .place = places[p], .counted = true, .backoff_ms = 1,
                                 .name = "counted", .restarts = TROUPE_FOREVER);
                troupe_must(troupe_actor_status(actor.address));
                hydra_actor other = troupe_spawn(hydra, .place = TROUPE_PLACE_ISOLATED), found;
                make_fall(actor, crash != 0);
                // By the address that it has now, which may be another one.
                assert_int_equal(view_of(actor).restarts, 1);
                troupe_must(troupe_lookup(hydra, "counted", &found));
                const troupe_actor *address = &found.address;
                troupe_must(
                    troupe_get(troupe_none, troupe_call_from(other, hydra_retain, address), &none));
                make_fall(actor, crash != 0);
                assert_int_equal(troupe_actor_release(actor.address), TROUPE_OK);
                assert_int_equal(troupe_actor_release(actor.address), TROUPE_INVALID);
                assert_int_equal(view_of(actor).restarts, 2);
                if (dies != 0)
                    make_fall(other, true);
                else
                    troupe_must(troupe_get(troupe_none,
                                           troupe_call_from(other, hydra_release, address), &none));
                await_end(actor, TROUPE_DOWN_NORMAL);
                assert_int_equal(troupe_actor_retain(actor.address), TROUPE_NOT_EXECUTED);
                troupe_actor_kill(other);
            }
    hydra_actor plain = troupe_spawn(hydra, .place = TROUPE_PLACE_WORKER, .restarts = 1);
    assert_int_equal(troupe_actor_retain(plain.address), TROUPE_NOT_EXECUTED);
    troupe_actor_kill(plain);
    plain = troupe_spawn(hydra, .place = TROUPE_PLACE_WORKER, .counted = true);
    troupe_must(troupe_actor_retain(plain.address));
    assert_int_equal(troupe_actor_release(plain.address), TROUPE_OK);
    assert_int_equal(troupe_actor_release(plain.address), TROUPE_OK);
    await_end(plain, TROUPE_DOWN_NORMAL);
}

static void test_owned(void **state)
{
    (void)state;
    troupe_none none;
    for (int o = 0; o < PLACES; o++)
        for (int p = 0; p < PLACES; p++)
            for (int dies = 0; dies < (o == 0 ? 1 : 2); dies++) {
                hydra_actor owner = troupe_spawn(hydra, .place = places[o]), child;
                int place = places[p];
                troupe_must(troupe_get(troupe_actor, troupe_call(owner, hydra_spawn, place),
                                       &child.address));
                // One that shares its owner's process would take that along.
                bool crash = view_of(child).process != view_of(owner).process;
                make_fall(child, false);
                assert_int_equal(view_of(child).restarts, 1);
                if (crash)
                    make_fall(child, true);
                assert_int_equal(view_of(child).restarts, crash ? 2 : 1);
                if (dies != 0)
                    make_fall(owner, true);
                else
                    troupe_must(troupe_get(troupe_none, troupe_call(owner, hydra_leave), &none));
                await_end(child, TROUPE_DOWN_KILLED);
            }
    // Outside methods nothing owns it.
    hydra_actor mine = troupe_spawn(hydra, .place = TROUPE_PLACE_ISOLATED, .lifetime = TROUPE_OWNED,
                                    .restarts = 1);
    make_fall(mine, true);
    assert_int_equal(view_of(mine).restarts, 1);
    troupe_actor_kill(mine);
}

// ---- several methods at a time

static void test_concurrent(void **state)
{
    (void)state;
    enum { CALLS = 5 };
    for (int p = 0; p < PLACES; p++) {
        clear();
        hydra_actor actor = troupe_spawn(hydra, .place = places[p], .concurrency = 2,
                                         .restarts = TROUPE_FOREVER, .backoff_ms = 1);
        troupe_must(troupe_actor_status(actor.address));
        troupe_ref calls[CALLS];
        int out;
        calls[0] = troupe_call(actor, hydra_hold, 0);
        await(&shared->running, 1);
        make_fall(actor, false);
        // The restart waits for what runs; what was sent behind the failure waits for the restart.
        for (int i = 1; i < CALLS; i++)
            calls[i] = troupe_call(actor, hydra_hold, i);
        shared->open = 1;
        for (int i = 0; i < CALLS; i++) {
            troupe_must(troupe_get(int, calls[i], &out));
            assert_int_equal(out, i);
        }
        await_restarts(actor, 1);
        shared->open = 0;
        for (int i = 0; i < CALLS; i++)
            calls[i] = troupe_call(actor, hydra_hold, i);
        await(&shared->running, 2);
        assert_int_equal(troupe_actor_restart(actor, .at_once = true), TROUPE_OK);
        shared->open = 1;
        for (int i = 0; i < CALLS; i++) {
            troupe_status status = troupe_get(int, calls[i], &out);
            assert_true(status == TROUPE_OK || (p == 2 && (status == TROUPE_MAYBE_EXECUTED)));
        }
        await_restarts(actor, 2);
        if (p > 0) {
            make_fall(actor, true);
            assert_int_equal(view_of(actor).restarts, 3);
            clear();
            for (int i = 0; i < CALLS; i++) // It is as concurrent as before.
                calls[i] = troupe_call(actor, hydra_hold, i);
            await(&shared->running, 2);
            shared->open = 1;
            for (int i = 0; i < CALLS; i++)
                troupe_must(troupe_get(int, calls[i], &out));
        }
        troupe_actor_kill(actor);
    }
}

// ---- urgent methods

static void prepare(int failures)
{
    clear();
    shared->left = failures;
}

static void test_urgent_retries(void **state)
{
    (void)state;
    int runs;
    for (int p = 1; p < PLACES; p++) {
        hydra_actor actor =
            troupe_spawn(hydra, .place = places[p], .backoff_ms = 1, .restarts = TROUPE_FOREVER);
        prepare(3);
        troupe_must(
            troupe_get(int, troupe_call(troupe_with(actor, .retries = 3), hydra_try, true), &runs));
        assert_int_equal(runs, 4);
        prepare(2);
        assert_int_equal(
            troupe_get(int, troupe_call(troupe_with(actor, .retries = 1), hydra_try, true), &runs),
            TROUPE_MAYBE_EXECUTED);
        assert_int_equal(shared->runs, 2);
        troupe_actor_kill(actor);
    }
}

// A call whose next attempt waits until its actor has been started again ends at once when it is
// cancelled.
static void test_cancelled_between_attempts(void **state)
{
    (void)state;
    enum { ATTEMPT_MS = 200 }; // In that time the call is sent again.
    int runs;
    for (int p = 1; p < PLACES; p++) {
        hydra_actor actor = troupe_spawn(hydra, .place = places[p], .backoff_ms = 60000,
                                         .restarts = TROUPE_FOREVER);
        make_fall(actor, true); // The first restart is at once.
        assert_int_equal(view_of(actor).restarts, 1);
        prepare(1);
        troupe_ref call = troupe_call(troupe_with(actor, .retries = 3), hydra_try, true);
        support_await_counter(&shared->runs, 1);
        assert_int_equal(troupe_get(int, call, &runs, ATTEMPT_MS), TROUPE_TIMED_OUT);
        assert_int_equal(shared->runs, 1);
        assert_int_equal(troupe_cancel(call, .force = places[p] == TROUPE_PLACE_ISOLATED),
                         TROUPE_OK);
        assert_int_equal(troupe_get(int, call, &runs, SUPPORT_SOON_MS), TROUPE_CANCELLED);
        assert_int_equal(troupe_last_error()->executed, TROUPE_EXECUTED_MAYBE);
        troupe_actor_kill(actor);
    }
}

// An urgent method may fail its actor, which does nothing else.
static void test_urgent_failure(void **state)
{
    (void)state;
    int runs;
    for (int p = 0; p < PLACES; p++) {
        hydra_actor actor = troupe_spawn(hydra, .place = places[p], .backoff_ms = 1, .restarts = 4);
        prepare(2);
        troupe_must(troupe_get(
            int,
            troupe_call(troupe_with(actor, .retries = 2, .retry_errors = true), hydra_try, false),
            &runs));
        assert_int_equal(runs, 3);
        assert_true(view_of(actor).restarts >= 1); // Two may be one, if they are soon enough.
        prepare(1);
        int restarts = view_of(actor).restarts;
        assert_int_equal(troupe_get(int, troupe_call(actor, hydra_try, false), &runs), TROUPE_IO);
        await_restarts(actor, restarts + 1);
        troupe_actor_kill(actor);
    }
    // Without a policy it ends.
    prepare(1);
    hydra_actor mortal = troupe_spawn(hydra, .place = TROUPE_PLACE_WORKER);
    assert_int_equal(troupe_get(int, troupe_call(mortal, hydra_try, false), &runs), TROUPE_IO);
    await_end(mortal, TROUPE_DOWN_ERROR);
}

static void test_restart_beside_urgent(void **state)
{
    (void)state;
    int out;
    for (int p = 0; p < 2; p++) {
        prepare(0);
        hydra_actor actor = troupe_spawn(hydra, .place = places[p], .restarts = 1);
        troupe_ref runs = troupe_call(actor, hydra_pause, 1);
        await(&shared->running, 1);
        assert_int_equal(troupe_actor_restart(actor), TROUPE_OK);
        // It waits for what runs beside it; later ones may overtake the restart or wait for it.
        troupe_ref later = troupe_call(actor, hydra_pause, 2);
        shared->open = 1;
        troupe_must(troupe_get(int, runs, &out));
        assert_int_equal(out, 1);
        troupe_must(troupe_get(int, later, &out));
        assert_int_equal(out, 2);
        await_restarts(actor, 1);
        troupe_actor_kill(actor);
    }
}

// ---- streams

static void test_streams(void **state)
{
    (void)state;
    int value;
    for (int p = 0; p < PLACES; p++) {
        hydra_actor actor =
            troupe_spawn(hydra, .place = places[p], .backoff_ms = 1, .restarts = TROUPE_FOREVER);
        for (int then = THEN_FAIL; then <= (p == 0 ? THEN_FAIL : THEN_CRASH); then++) {
            troupe_stream stream = troupe_stream_open(actor, hydra_count, 5, then);
            troupe_status status;
            int count = 0;
            while ((status = troupe_next(int, stream, &value, SUPPORT_SOON_MS)) == TROUPE_OK)
                assert_int_equal(value, count++);
            // One error, and nothing of the next start.
            assert_int_equal(status, then == THEN_FAIL ? TROUPE_IO : TROUPE_MAYBE_EXECUTED);
            assert_true(then == THEN_FAIL ? count == 5 : count <= 5);
            assert_int_equal(troupe_next(int, stream, &value), TROUPE_INVALID);
            // The next start makes another.
            stream = troupe_stream_open(actor, hydra_count, 40, THEN_END);
            for (int i = 0; i < 40; i++) {
                troupe_must(troupe_next(int, stream, &value));
                assert_int_equal(value, i);
            }
            assert_int_equal(troupe_next(int, stream, &value), TROUPE_END);
            assert_int_equal(view_of(actor).restarts, then);
        }
        // A maker that waits for its reader is in its method: the restart comes with its end, and
        // one whose process is killed ends for the reader at once.
        int restarts = view_of(actor).restarts;
        troupe_stream endless = troupe_stream_open(actor, hydra_count, 0, THEN_GO_ON);
        troupe_must(troupe_next(int, endless, &value));
        assert_int_equal(troupe_actor_restart(actor), TROUPE_OK);
        if (places[p] == TROUPE_PLACE_ISOLATED) {
            troupe_status status = TROUPE_OK;
            while (status == TROUPE_OK)
                status = troupe_next(int, endless, &value, SUPPORT_SOON_MS);
            assert_int_equal(status, TROUPE_MAYBE_EXECUTED);
        } else {
            troupe_stream_drop(endless);
        }
        await_restarts(actor, restarts + 1);
        troupe_actor_kill(actor);
    }
}

// A stream cannot begin again in the middle.
static void test_streams_are_not_repeated(void **state)
{
    (void)state;
    int value;
    hydra_actor actor = troupe_spawn(hydra, .place = TROUPE_PLACE_WORKER);
    troupe_stream stream = troupe_stream_open(troupe_with(actor, .retries = 2), hydra_count, 1, 0);
    assert_int_equal(troupe_next(int, stream, &value), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, ".retries"));
    troupe_actor_kill(actor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counted),
        cmocka_unit_test(test_owned),
        cmocka_unit_test(test_concurrent),
        cmocka_unit_test(test_urgent_retries),
        cmocka_unit_test(test_cancelled_between_attempts),
        cmocka_unit_test(test_urgent_failure),
        cmocka_unit_test(test_restart_beside_urgent),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_streams_are_not_repeated),
    };
    return cmocka_run_group_tests(tests, set_up, stop_runtime);
}
