// test_executor.c: what tasks run in: executors that are killed, by their own task or by others,
// answers that a task cannot defer, and the process of an isolated task.
// timeout: 60
#include <places.h>
#include <support.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

static troupe_status square(const int64_t *x, int64_t *result)
{
    *result = *x * *x;
    return TROUPE_OK;
}
TROUPE_TASK(square, int64_t, int64_t);

static troupe_status defers(const troupe_none *nothing, int *status)
{
    (void)nothing;
    *status = troupe_defer().id_ == 0 ? (int)troupe_last_error()->status : TROUPE_OK;
    return TROUPE_OK;
}
TROUPE_TASK(defers, troupe_none, int);

static troupe_status die(const troupe_none *in, troupe_none *out)
{
    (void)in, (void)out;
    return raise(SIGKILL) == 0 ? TROUPE_OK : TROUPE_FAILED;
}
TROUPE_TASK(die, troupe_none, troupe_none);

typedef struct bystander {
    char state[40];
} bystander;

static troupe_status bystander_look(bystander *self, const troupe_none *nothing, int *changed)
{
    (void)nothing;
    for (size_t i = 0; i < sizeof self->state; i++)
        *changed += self->state[i] != 0;
    return TROUPE_OK;
}

TROUPE_ACTOR(bystander, (bystander_look, troupe_none, int));

// Keeps the only thread until all are sent.
static _Atomic bool held;

static troupe_status hold(const troupe_none *in, troupe_none *out)
{
    (void)in, (void)out;
    while (atomic_load(&held))
        usleep(500);
    return TROUPE_OK;
}
TROUPE_TASK(hold, troupe_none, troupe_none);

// Every other one kills itself (a light actor's method is let finish), and the next one has another
// actor made where that was.
static troupe_status end_or_spawn(const int *number, troupe_actor *made)
{
    if (*number % 2 == 0)
        return troupe_actor_kill(troupe_self());
    *made = troupe_spawn(bystander, .place = TROUPE_PLACE_HERE).address;
    return troupe_actor_status(*made);
}
TROUPE_TASK(end_or_spawn, int, troupe_actor);

static int set_up_with(int workers, int threads)
{
    return troupe_start(0, NULL, .workers = workers, .threads = threads) == TROUPE_OK ? 0 : -1;
}

static int set_up(void **state)
{
    (void)state;
    return set_up_with(2, 2);
}

static int set_up_alone(void **state)
{
    (void)state;
    return set_up_with(TROUPE_NONE, 2);
}

static int set_up_narrow(void **state)
{
    (void)state;
    return set_up_with(TROUPE_NONE, 1);
}

// An executor that is killed leaves the lists that it is in: the others of its task, which go on
// with them, leave alone whoever lives in its place.
static void test_tasks_that_kill_themselves(void **state)
{
    (void)state;
    enum { MANY = 1000 };
    static troupe_ref refs[MANY];
    troupe_none none = {0};
    atomic_store(&held, true);
    troupe_ref first = troupe_run_from(hold, &none, .place = TROUPE_PLACE_HERE);
    for (int i = 0; i < MANY; i++)
        refs[i] = troupe_run_from(end_or_spawn, &i, .place = TROUPE_PLACE_HERE);
    atomic_store(&held, false);
    troupe_must(troupe_get(troupe_none, first, &none));
    for (int i = 0; i < MANY; i++) {
        troupe_actor made;
        int changed;
        troupe_must(troupe_get(troupe_actor, refs[i], &made));
        assert_int_equal(made.id != 0, i % 2 != 0);
        if (made.id == 0)
            continue;
        bystander_actor one = {made};
        troupe_must(troupe_get(int, troupe_call(one, bystander_look), &changed));
        assert_int_equal(changed, 0);
        troupe_actor_end(one);
    }
}

// Kills executors of `square` that others use.
static void *kill_executors(void *stop)
{
    while (!atomic_load((_Atomic bool *)stop)) {
        troupe_actor_list list;
        troupe_must(troupe_actors_list(0, &list));
        for (size_t i = 0; i < list.actors.count; i++)
            if (strcmp(list.actors.items[i].class_name, "square") == 0)
                (void)troupe_actor_kill(list.actors.items[i].address);
        troupe_arena_reset();
    }
    return NULL;
}

static void test_executors_that_others_kill(void **state)
{
    (void)state;
    enum { ROUNDS = 300, EACH = 20 };
    _Atomic bool stop = false;
    pthread_t killer;
    int64_t value;
    assert_int_equal(pthread_create(&killer, NULL, kill_executors, &stop), 0);
    for (int i = 0; i < ROUNDS; i++) {
        troupe_ref refs[EACH];
        for (int64_t k = 0; k < EACH; k++)
            refs[k] = troupe_run_from(square, &k, .retries = TROUPE_FOREVER);
        for (int64_t k = 0; k < EACH; k++) {
            troupe_must(troupe_get(int64_t, refs[k], &value));
            assert_int_equal(value, k * k);
        }
    }
    atomic_store(&stop, true);
    pthread_join(killer, NULL);
}

static void test_a_task_cannot_defer(void **state)
{
    (void)state;
    int status = -1;
    troupe_none none = {0};
    troupe_must(troupe_get(int, troupe_run(defers), &status));
    assert_int_equal(status, TROUPE_INVALID);
    troupe_must(
        troupe_get(int, troupe_run_from(defers, &none, .place = TROUPE_PLACE_ISOLATED), &status));
    assert_int_equal(status, TROUPE_INVALID);
}

static bool no_die(void *unused)
{
    troupe_actor_list list;
    bool found = false;
    (void)unused;
    troupe_must(troupe_actors_list(0, &list));
    for (size_t i = 0; i < list.actors.count; i++)
        found = found || strcmp(list.actors.items[i].class_name, "die") == 0;
    troupe_arena_reset();
    return !found;
}

// The deadline passes while a process is made for the next attempt: that one ends as well.
static void test_deadline_of_an_isolated_task(void **state)
{
    (void)state;
    troupe_none none = {0};
    for (uint32_t ms = 20; ms <= 200; ms += 20) {
        troupe_ref late = troupe_run_from(die, &none, .place = TROUPE_PLACE_ISOLATED,
                                          .deadline_ms = ms, .retries = TROUPE_FOREVER);
        assert_int_equal(troupe_get(troupe_none, late, &none), TROUPE_DEADLINE_EXCEEDED);
    }
    assert_true(support_wait_until(no_die, NULL, SUPPORT_SOON_MS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tasks_that_kill_themselves, set_up_narrow,
                                        stop_runtime),
        cmocka_unit_test_setup_teardown(test_executors_that_others_kill, set_up_alone,
                                        stop_runtime),
        cmocka_unit_test_setup_teardown(test_a_task_cannot_defer, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_deadline_of_an_isolated_task, set_up, stop_runtime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
