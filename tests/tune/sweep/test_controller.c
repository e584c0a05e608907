// test_controller.c: the actor that a sweep's controller is, and who gives the controller its turns
// once that actor is gone.
#include <fake_train.h>

#include <stdatomic.h>
#include <troupe/life.h>
#include <troupe/observe.h>
#include <tune/sweep/controller.h>
#include <unistd.h>

// All jobs wait at their third report until they are let on.
static atomic_bool held, waits;

static double curve_held(const fake_settings *config, int report)
{
    for (int i = 0; i < SUPPORT_SOON_MS && report == 3 && atomic_load(&held); i++) {
        atomic_store(&waits, true);
        usleep(1000);
    }
    return fake_quadratic(config, report);
}

static troupe_sweep *begin(int trials)
{
    troupe_sweep *sweep = NULL;
    fake_open(2);
    fake.curve = curve_held;
    atomic_store(&held, true);
    atomic_store(&waits, false);
    ok(trp_sweep_begin(
        &fake_port, &fit, space, ROWS, &sweep,
        &(troupe_tune_options){.size = sizeof(troupe_tune_options),
                               .metric = "loss",
                               .goal = TROUPE_MINIMIZE,
                               .trials = trials,
                               .search = TROUPE_SEARCH_RANDOM,
                               .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage)}));
    while (!atomic_load(&waits))
        usleep(1000);
    return sweep;
}

// It has come to its end, with all that its trials have reported.
static void assert_whole(troupe_sweep *sweep, int trials)
{
    assert_int_equal((int)troupe_sweep_count(sweep), trials);
    for (int i = 0; i < trials; i++) {
        assert_int_equal(troupe_sweep_trial(sweep, (size_t)i)->state, TROUPE_TRIAL_TERMINATED);
        assert_int_equal(troupe_sweep_trial(sweep, (size_t)i)->reports, 9);
    }
}

// The actors of this process that give turns to controllers.
static size_t controllers(troupe_actor *first)
{
    troupe_actor_list list;
    size_t count = 0;
    ok(troupe_actors_list(0, &list));
    for (size_t i = 0; i < list.actors.count; i++) {
        const troupe_actor_info *it = &list.actors.items[i];
        if (strcmp(it->class_name, "trp_controller") != 0 || it->state == TROUPE_ACTOR_ENDING)
            continue;
        assert_int_equal(it->pid, getpid());
        if (count++ == 0)
            *first = it->address;
    }
    return count;
}

static void await_no_controller(void)
{
    troupe_actor actor;
    for (int i = 0; i < SUPPORT_SOON_MS && controllers(&actor) > 0; i++)
        usleep(1000);
    assert_int_equal(controllers(&actor), 0);
}

static void test_a_sweep_that_runs_is_an_actor(void **state)
{
    (void)state;
    troupe_actor actor;
    assert_int_equal(controllers(&actor), 0);
    troupe_sweep *sweep = begin(3);
    assert_int_equal(controllers(&actor), 1);
    atomic_store(&held, false);
    ok(troupe_sweep_wait(sweep, 20000));
    assert_whole(sweep, 3);
    await_no_controller();
    troupe_sweep_free(&sweep);
    fake_shut();
}

// Whatever becomes of the actor, jobs are let go of, ends are put down, and who waits is told.
static void test_a_sweep_outlives_its_actor(void **state)
{
    (void)state;
    enum { ENDED, KILLED, STOPPED, CASES };
    for (int i = 0; i < CASES; i++) {
        troupe_actor actor = {0};
        troupe_sweep *sweep = begin(3);
        assert_int_equal(controllers(&actor), 1);
        if (i == STOPPED)
            troupe_stop();
        else
            ok(i == ENDED ? troupe_actor_end(actor) : troupe_actor_kill(actor));
        atomic_store(&held, false);
        ok(troupe_sweep_wait(sweep, 20000));
        assert_whole(sweep, 3);
        troupe_sweep_free(&sweep);
        fake_shut();
        if (i == STOPPED)
            ok(troupe_start(0, NULL, .workers = TROUPE_NONE, .threads = 2));
        await_no_controller();
    }
}

// Nothing else would give it a turn: its jobs wait.
static void test_a_sweep_without_its_actor_is_stopped_and_freed(void **state)
{
    (void)state;
    for (int frees = 0; frees < 2; frees++) {
        troupe_actor actor = {0};
        troupe_sweep *sweep = begin(3);
        assert_int_equal(controllers(&actor), 1);
        ok(troupe_actor_kill(actor));
        if (!frees)
            troupe_sweep_stop(sweep);
        atomic_store(&held, false);
        if (!frees)
            ok(troupe_sweep_wait(sweep, 20000));
        troupe_sweep_free(&sweep);
        fake_shut();
    }
}

// Kills the actor of a sweep behind a message to it, which nobody runs any more.
typedef struct killer {
    int unused;
} killer;

static troupe_sweep *victim;

static troupe_status killer_kill(killer *self, const troupe_none *none, troupe_none *result)
{
    (void)self;
    (void)none;
    (void)result;
    troupe_actor actor = {0};
    assert_int_equal(controllers(&actor), 1);
    troupe_sweep_pause(victim);
    return troupe_actor_kill(actor);
}
TROUPE_ACTOR(killer, (killer_kill, troupe_none, troupe_none));

static void restart(int threads)
{
    troupe_stop();
    ok(troupe_start(0, NULL, .workers = TROUPE_NONE, .threads = threads));
}

static void test_a_sweep_misses_no_message_that_its_actor_did(void **state)
{
    (void)state;
    restart(1); // So that the message waits while the killer runs.
    for (int frees = 0; frees < 2; frees++) {
        victim = begin(3);
        killer_actor actor = troupe_spawn(killer, .place = TROUPE_PLACE_HERE);
        troupe_none none;
        ok(troupe_get(troupe_none, troupe_call(actor, killer_kill), &none));
        atomic_store(&held, false);
        if (!frees) {
            assert_int_equal(troupe_sweep_wait(victim, 3000), TROUPE_TIMED_OUT); // It is paused.
            troupe_sweep_go_on(victim);
            ok(troupe_sweep_wait(victim, 20000));
            assert_whole(victim, 3);
        }
        troupe_sweep_free(&victim);
        fake_shut();
    }
    restart(2);
}

// No thread can be made for a moment: who waits for the sweep tries again.
static void test_a_sweep_waits_for_the_memory_of_a_thread(void **state)
{
    (void)state;
    pthread_attr_t usual, vast;
    troupe_actor actor = {0};
    troupe_sweep *sweep = begin(3);
    assert_int_equal(controllers(&actor), 1);
    assert_int_equal(pthread_getattr_default_np(&usual), 0);
    assert_int_equal(pthread_getattr_default_np(&vast), 0);
    assert_int_equal(pthread_attr_setstacksize(&vast, (size_t)1 << 46), 0);
    ok(troupe_actor_kill(actor));
    assert_int_equal(pthread_setattr_default_np(&vast), 0);
    troupe_sweep_stop(sweep);
    assert_int_equal(troupe_sweep_wait(sweep, 50), TROUPE_TIMED_OUT);
    assert_int_equal(pthread_setattr_default_np(&usual), 0);
    atomic_store(&held, false);
    ok(troupe_sweep_wait(sweep, 20000));
    troupe_sweep_free(&sweep);
    fake_shut();
    pthread_attr_destroy(&usual);
    pthread_attr_destroy(&vast);
}

// It may be told by whoever has its address, and then sees that there is nothing to do.
static void test_strangers_messages_do_no_harm(void **state)
{
    (void)state;
    troupe_actor actor = {0};
    troupe_sweep *sweep = begin(2);
    assert_int_equal(controllers(&actor), 1);
    for (int i = 0; i < 100; i++)
        ok(troupe_tell_named(actor, i % 2 == 0 ? "trp_controller_turn" : "trp_controller_due",
                             (troupe_bytes){"\xc0", 1}));
    atomic_store(&held, false);
    ok(troupe_sweep_wait(sweep, 20000));
    assert_whole(sweep, 2);
    troupe_sweep_free(&sweep);
    fake_shut();
}

// ---- sweeps of an actor's

typedef struct tuner {
    int unused;
} tuner;

static troupe_status tuner_tune(tuner *self, const troupe_none *none, int *trials)
{
    (void)self;
    (void)none;
    troupe_sweep *sweep = begin(2);
    atomic_store(&held, false);
    TROUPE_TRY(troupe_sweep_wait(sweep, -1));
    *trials = (int)troupe_sweep_count(sweep);
    troupe_sweep_free(&sweep);
    return TROUPE_OK;
}
TROUPE_ACTOR(tuner, (tuner_tune, troupe_none, int));

// With one thread for all actors: who waits for a sweep in a method holds it up not.
static void test_an_actor_waits_for_its_sweep(void **state)
{
    (void)state;
    restart(1);
    tuner_actor actor = troupe_spawn(tuner, .place = TROUPE_PLACE_HERE);
    int trials = 0;
    ok(troupe_get(int, troupe_call(actor, tuner_tune), &trials));
    assert_int_equal(trials, 2);
    fake_shut();
    restart(2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_sweep_that_runs_is_an_actor),
        cmocka_unit_test(test_a_sweep_outlives_its_actor),
        cmocka_unit_test(test_a_sweep_without_its_actor_is_stopped_and_freed),
        cmocka_unit_test(test_a_sweep_misses_no_message_that_its_actor_did),
        cmocka_unit_test(test_a_sweep_waits_for_the_memory_of_a_thread),
        cmocka_unit_test(test_strangers_messages_do_no_harm),
        cmocka_unit_test(test_an_actor_waits_for_its_sweep),
    };
    return cmocka_run_group_tests(tests, make_storage, remove_storage);
}
