// test_stall.c: methods that block outside the library: each costs a thread, and no other actor's
// work.
#include <support.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <troupe.h>
#include <unistd.h>

enum { SLEEPERS = 64, MOST = 256, THREADS = 2, SOON_MS = 100, WORST_MS = 2000, CPUS = 2 };

static struct {
    _Atomic int asleep;
    _Atomic bool wake;
} * room;

typedef struct sleeper {
    int unused;
} sleeper;

static troupe_status sleeper_nap(sleeper *self, const troupe_none *in, troupe_none *out)
{
    (void)self, (void)in, (void)out;
    room->asleep++;
    while (!room->wake)
        usleep(20000);
    room->asleep--;
    return TROUPE_OK;
}

static troupe_status sleeper_echo(sleeper *self, const int *in, int *out)
{
    (void)self;
    *out = *in;
    return TROUPE_OK;
}

// What a nested call ended as, handed on as it is.
static troupe_status sleeper_hand_on(sleeper *self, const int *in, int *out)
{
    (void)self, (void)out;
    return troupe_fail((troupe_status)*in, "the other one is gone");
}

static troupe_status sleeper_compute(sleeper *self, const troupe_none *in, troupe_none *out)
{
    (void)self, (void)in, (void)out;
    room->asleep++;
    while (!room->wake)
        continue;
    room->asleep--;
    return TROUPE_OK;
}

TROUPE_ACTOR(sleeper, (sleeper_nap, troupe_none, troupe_none), (sleeper_echo, int, int),
             (sleeper_hand_on, int, int), (sleeper_compute, troupe_none, troupe_none));

// Sanitizers take several times as long, and other programs their share.
static int64_t slower(int64_t ms)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return ms * 10;
#else
    return ms;
#endif
}

static int64_t soon_ms(void)
{
    return slower(SOON_MS);
}

static int by_size(const void *one, const void *other)
{
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

static bool are_asleep(void *count)
{
    return room->asleep == *(int *)count;
}

static void wake_all(void)
{
    int none = 0;
    room->wake = true;
    assert_true(support_wait_until(are_asleep, &none, 10000));
    room->wake = false;
}

// In one worker of two threads: each spawn, and a call to it, beside ever more sleepers.
static void test_spawns_beside_sleepers(void **state)
{
    (void)state;
    int64_t times[SLEEPERS];
    sleeper_actor first = troupe_spawn(sleeper, .place = TROUPE_PLACE_ANY); // It starts the worker.
    troupe_must(troupe_actor_status(first.address));
    for (int i = 1; i <= SLEEPERS; i++) {
        int echo;
        int64_t begin = support_now_ms();
        sleeper_actor fresh = troupe_spawn(sleeper, .place = TROUPE_PLACE_ANY);
        troupe_must(troupe_get(int, troupe_call(fresh, sleeper_echo, i), &echo));
        times[i - 1] = support_now_ms() - begin;
        troupe_tell(fresh, sleeper_nap);
        assert_true(support_wait_until(are_asleep, &i, 10000));
    }
    wake_all();
    qsort(times, SLEEPERS, sizeof times[0], by_size);
    print_message("beside sleepers a spawn took %d ms, the longest of %d took %d ms\n",
                  (int)times[SLEEPERS / 2], SLEEPERS, (int)times[SLEEPERS - 1]);
    assert_true(times[SLEEPERS / 2] < soon_ms());
    assert_true(times[SLEEPERS - 1] < slower(WORST_MS));
}

// All sent at once, ahead of the spawn.
static void test_a_crowd_of_sleepers(void **state)
{
    (void)state;
    sleeper_actor all[SLEEPERS];
    int count = SLEEPERS, echo;
    for (int i = 0; i < SLEEPERS; i++)
        all[i] = troupe_spawn(sleeper, .place = TROUPE_PLACE_ANY);
    for (int i = 0; i < SLEEPERS; i++)
        troupe_tell(all[i], sleeper_nap);
    sleeper_actor fresh = troupe_spawn(sleeper, .place = TROUPE_PLACE_ANY);
    troupe_must(troupe_get(int, troupe_call(fresh, sleeper_echo, 7), &echo));
    assert_true(support_wait_until(are_asleep, &count, 10000));
    wake_all();
}

// Some that compute for ever do not hold up the others either.
static void test_some_that_compute(void **state)
{
    (void)state;
    int count = THREADS, echo;
    for (int i = 0; i < THREADS; i++) {
        sleeper_actor busy = troupe_spawn(sleeper, .place = TROUPE_PLACE_ANY);
        troupe_tell(busy, sleeper_compute);
    }
    assert_true(support_wait_until(are_asleep, &count, 10000));
    sleeper_actor fresh = troupe_spawn(sleeper, .place = TROUPE_PLACE_ANY);
    troupe_must(troupe_get(int, troupe_call(fresh, sleeper_echo, 7), &echo));
    wake_all();
}

// All threads, or all but those that are just between two methods.
static void expect_holders(const char *text)
{
    const char *at = strstr(text, " methods hold one each");
    assert_non_null(at);
    while (at > text && at[-1] >= '0' && at[-1] <= '9')
        at--;
    int count = atoi(at), listed = 6;
    char more[32];
    assert_in_range(count, MOST, MOST + THREADS);
    snprintf(more, sizeof more, "; and %d more", count - listed);
    assert_non_null(strstr(text, more));
}

static void test_the_limit(void **state)
{
    (void)state;
    troupe_status status = TROUPE_OK;
    int sent = 0;
    for (; sent < 2 * MOST && status == TROUPE_OK; sent++) {
        sleeper_actor fresh = troupe_spawn(sleeper, .place = TROUPE_PLACE_ANY);
        status = troupe_actor_status(fresh.address);
        if (status == TROUPE_OK)
            troupe_tell(fresh, sleeper_nap);
    }
    assert_int_equal(status, TROUPE_BUSY);
    assert_true(sent > MOST);
    assert_non_null(strstr(troupe_last_error()->text, " in sleeper_nap; "));
    assert_non_null(strstr(troupe_last_error()->text, " (pid "));
    expect_holders(troupe_last_error()->text);
    wake_all();
    int echo;
    sleeper_actor fresh = troupe_spawn(sleeper, .place = TROUPE_PLACE_ANY);
    troupe_must(troupe_get(int, troupe_call(fresh, sleeper_echo, 7), &echo));
}

static void test_what_a_method_returns(void **state)
{
    (void)state;
    sleeper_actor one = troupe_spawn(sleeper, .place = TROUPE_PLACE_ANY);
    int out;
    for (int status = TROUPE_OK + 1; status < TROUPE_STATUS_COUNT; status++) {
        // What says of a call whether it was executed would be taken for this one's fate; a method
        // may say all else of its work.
        bool fate = status == TROUPE_NOT_EXECUTED || status == TROUPE_MAYBE_EXECUTED;
        int seen = fate || status == TROUPE_TIMED_OUT ? TROUPE_FAILED : status;
        troupe_ref ref = troupe_call(one, sleeper_hand_on, status);
        assert_int_equal(troupe_get(int, ref, &out), seen);
        assert_int_equal(troupe_last_error()->outcome, TROUPE_OUTCOME_FAILED);
        assert_int_equal(troupe_last_error()->executed, TROUPE_EXECUTED_YES);
        if (seen != status)
            assert_non_null(
                strstr(troupe_last_error()->text, troupe_status_name((troupe_status)status)));
        if (fate || seen == status)
            assert_non_null(strstr(troupe_last_error()->text, "the other one is gone"));
    }
}

// Its init takes as long as it is told to.
typedef struct dawdler {
    int unused;
} dawdler;

static troupe_status dawdler_init(dawdler *self, const troupe_none *in)
{
    troupe_none out;
    return sleeper_nap((sleeper *)self, in, &out);
}
static void dawdler_deinit(dawdler *self)
{
    (void)self;
}
static troupe_status dawdler_echo(dawdler *self, const int *in, int *out)
{
    return sleeper_echo((sleeper *)self, in, out);
}
TROUPE_ACTOR_INIT(dawdler, (dawdler_init, troupe_none), dawdler_deinit, (dawdler_echo, int, int));

static double free_cpus(void)
{
    troupe_resources all;
    troupe_must(troupe_resources_get(&all));
    return all.cpus.free;
}

static bool has_gone(void *unused)
{
    (void)unused;
    dawdler_actor late;
    return troupe_lookup(dawdler, "late", &late) == TROUPE_NOT_FOUND && free_cpus() == CPUS;
}

// Whether the time passed in its init: on a busy machine that may not have begun.
static bool spawn_late_in_init(troupe_place place)
{
    int64_t begin = support_now_ms();
    dawdler_actor late =
        troupe_spawn(dawdler, .name = "late", .cpus = 1, .place = place, .deadline_ms = 50);
    int64_t took = support_now_ms() - begin;
    assert_int_equal(troupe_actor_status(late.address), TROUPE_DEADLINE_EXCEEDED);
    assert_true(took >= 50);
    assert_true(took < 50 + 10 * soon_ms());
    const char *text = strstr(troupe_last_error()->text, "the init of an actor of class 'dawdler'");
    return text != NULL && strstr(text, "(pid ") != NULL;
}

static void spawn_late(troupe_place place)
{
    int tries = 0;
    while (!spawn_late_in_init(place))
        assert_true(++tries < 20);
}

// Inits hold threads as methods do, and are named.
static void test_the_limit_by_inits(void **state)
{
    (void)state;
    int all = MOST + THREADS;
    int64_t until_ms = support_now_ms() + 4 * SUPPORT_SOON_MS;
    while (room->asleep < all && support_now_ms() < until_ms) // Not each is asked for in its time.
        (void)troupe_spawn(dawdler, .place = TROUPE_PLACE_WORKER, .deadline_ms = 2);
    assert_int_equal(room->asleep, all);
    dawdler_actor late =
        troupe_spawn(dawdler, .place = TROUPE_PLACE_WORKER, .deadline_ms = SUPPORT_SOON_MS);
    assert_int_equal(troupe_actor_status(late.address), TROUPE_BUSY);
    assert_non_null(strstr(troupe_last_error()->text, "258 methods hold one each"));
    assert_non_null(strstr(troupe_last_error()->text, " in init; "));
    wake_all();
}

// Whose init answers too late ends then, and has its name and what it holds until then.
static void test_a_spawn_with_a_deadline(void **state)
{
    (void)state;
    int one = 1, echo;
    spawn_late(TROUPE_PLACE_WORKER);
    assert_true(support_wait_until(are_asleep, &one, 10000));
    assert_false(has_gone(NULL));
    assert_true(free_cpus() == CPUS - 1);
    wake_all();
    assert_true(support_wait_until(has_gone, NULL, 10000));

    spawn_late(TROUPE_PLACE_ISOLATED); // Its process is ended.
    assert_true(support_wait_until(has_gone, NULL, 10000));
    room->asleep = 0;

    room->wake = true;
    dawdler_actor fresh =
        troupe_spawn(dawdler, .name = "late", .place = TROUPE_PLACE_WORKER, .deadline_ms = 10000);
    troupe_must(troupe_get(int, troupe_call(fresh, dawdler_echo, 7), &echo));
    room->wake = false;
    assert_int_equal(troupe_actor_kill(fresh), TROUPE_OK);
}

// What it waits for before counts too.
static void test_a_deadline_while_resources_are_waited_for(void **state)
{
    (void)state;
    int64_t begin = support_now_ms();
    sleeper_actor all = troupe_spawn(sleeper, .place = TROUPE_PLACE_HERE, .cpus = CPUS);
    sleeper_actor late =
        troupe_spawn(sleeper, .place = TROUPE_PLACE_HERE, .cpus = 1, .deadline_ms = 50);
    assert_int_equal(troupe_actor_status(late.address), TROUPE_DEADLINE_EXCEEDED);
    assert_true(support_now_ms() - begin < 50 + 10 * soon_ms());
    assert_int_equal(troupe_actor_kill(all), TROUPE_OK);
}

static int set_up(void **state)
{
    (void)state;
    room = mmap(NULL, sizeof *room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return room == MAP_FAILED || troupe_start(0, NULL, .workers = 1, .threads = THREADS,
                                              .cpus = CPUS, .stop_timeout_ms = 2000) != TROUPE_OK;
}

static int tear_down(void **state)
{
    (void)state;
    return troupe_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spawns_beside_sleepers),
        cmocka_unit_test(test_a_crowd_of_sleepers),
        cmocka_unit_test(test_some_that_compute),
        cmocka_unit_test(test_the_limit),
        cmocka_unit_test(test_the_limit_by_inits),
        cmocka_unit_test(test_what_a_method_returns),
        cmocka_unit_test(test_a_spawn_with_a_deadline),
        cmocka_unit_test(test_a_deadline_while_resources_are_waited_for),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
