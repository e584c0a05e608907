// test_observe.c: the list of all actors of all processes.
#include <places.h>
#include <support.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe/life.h>
#include <troupe/observe.h>
#include <unistd.h>

typedef struct worker {
    int unused;
} worker;

static troupe_status pid_of(worker *self, const troupe_none *none, int *pid)
{
    (void)self;
    (void)none;
    *pid = getpid();
    return TROUPE_OK;
}

// Holds its thread until the file is there.
static troupe_status hold(worker *self, const troupe_text *path, int *pid)
{
    (void)self;
    while (!support_exists(*path))
        usleep(1000);
    *pid = getpid();
    return TROUPE_OK;
}

static troupe_status ask(worker *self, const troupe_actor *other, int *pid);

static troupe_status fail_at_once(worker *self, const troupe_none *none, int *out)
{
    (void)self, (void)none, (void)out;
    return troupe_actor_fail(TROUPE_IO, "the disk is gone");
}

static troupe_status leave(worker *self, const troupe_none *none, int *out)
{
    (void)self, (void)none, (void)out;
    exit(3);
}

TROUPE_ACTOR(worker, (pid_of, troupe_none, int), (hold, troupe_text, int), (ask, troupe_actor, int),
             (fail_at_once, troupe_none, int), (leave, troupe_none, int));

static troupe_status ask(worker *self, const troupe_actor *other, int *pid)
{
    (void)self;
    worker_actor it = {*other};
    return troupe_get(int, troupe_call(it, pid_of), pid);
}

static int set_up(void **state)
{
    (void)state;
    return troupe_start(0, NULL, .workers = 2) == TROUPE_OK ? 0 : -1;
}

static const troupe_actor_info *find(const troupe_actor_list *list, troupe_actor address)
{
    for (size_t i = 0; i < list->actors.count; i++) {
        const troupe_actor_info *it = &list->actors.items[i];
        if (it->address.id == address.id && it->address.incarnation == address.incarnation)
            return it;
    }
    return NULL;
}

static void test_actors_of_all_processes(void **state)
{
    (void)state;
    static const troupe_place wanted_places[] = {TROUPE_PLACE_HERE, TROUPE_PLACE_WORKER,
                                                 TROUPE_PLACE_WORKER, TROUPE_PLACE_ISOLATED};
    enum { COUNT = sizeof wanted_places / sizeof wanted_places[0], CALLS = 3 };
    worker_actor actors[COUNT];
    int pids[COUNT];
    troupe_actor_list list;
    for (int i = 0; i < COUNT; i++) {
        actors[i] =
            troupe_spawn(worker, .place = wanted_places[i], .name = i == 3 ? "alone" : NULL);
        for (int k = 0; k < CALLS; k++)
            assert_int_equal(troupe_get(int, troupe_call(actors[i], pid_of), &pids[i]), TROUPE_OK);
    }
    assert_int_equal(troupe_actors_list(0, &list), TROUPE_OK);
    assert_int_equal(list.total, COUNT);
    assert_int_equal(list.actors.count, COUNT);
    assert_int_equal(list.silent, 0);
    for (int i = 0; i < COUNT; i++) {
        const troupe_actor_info *it = find(&list, actors[i].address);
        assert_non_null(it);
        assert_string_equal(it->class_name, "worker");
        assert_int_equal(it->pid, pids[i]);
        assert_int_equal(it->waiting, 0);
        if (i == 3)
            assert_string_equal(it->label, "worker 'alone'");
    }
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(troupe_actor_kill(actors[i]), TROUPE_OK);
    troupe_arena_reset();
}

static bool none_is_left(void *context)
{
    (void)context;
    troupe_actor_list list;
    bool none = troupe_actors_list(0, &list) == TROUPE_OK && list.total == 0;
    troupe_arena_reset();
    return none;
}

static void test_many_are_cut_and_counted(void **state)
{
    (void)state;
    enum { COUNT = 500, MOST = 100 };
    worker_actor actors[COUNT];
    troupe_actor_list list;
    assert_true(support_wait_until(none_is_left, NULL, SUPPORT_SOON_MS));
    for (int i = 0; i < COUNT; i++)
        actors[i] = troupe_spawn(worker, .place = TROUPE_PLACE_HERE);
    assert_int_equal(troupe_actors_list(MOST, &list), TROUPE_OK);
    assert_int_equal(list.total, COUNT);
    assert_int_equal(list.actors.count, MOST);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(troupe_actor_kill(actors[i]), TROUPE_OK);
    troupe_arena_reset();
}

// ---- what they do

typedef struct wanted {
    troupe_actor actor;
    int state;
    uint32_t restarts;
} wanted;

static bool is_seen(void *context)
{
    const wanted *it = context;
    troupe_actor_list list;
    assert_int_equal(troupe_actors_list(0, &list), TROUPE_OK);
    const troupe_actor_info *found = find(&list, it->actor);
    bool seen = found != NULL && found->state == it->state && found->restarts == it->restarts;
    troupe_arena_reset();
    return seen;
}

static void expect(worker_actor actor, troupe_actor_state state, uint32_t restarts)
{
    wanted it = {actor.address, (int)state, restarts};
    assert_true(support_wait_until(is_seen, &it, SUPPORT_SOON_MS));
}

typedef struct pair {
    worker_actor one, other;
} pair;

// The list says in words what the other one's method waits for, and nothing of the first.
static bool waits_for_one(void *user)
{
    const pair *both = user;
    troupe_actor_list list;
    char expected[64];
    snprintf(expected, sizeof expected, "pid_of of worker#%llu in process %u (pid ",
             (unsigned long long)both->one.address.id, both->one.address.process);
    assert_int_equal(troupe_actors_list(0, &list), TROUPE_OK);
    const troupe_actor_info *waits = find(&list, both->other.address),
                            *works = find(&list, both->one.address);
    bool so = waits != NULL && waits->waits_for != NULL &&
              strncmp(waits->waits_for, expected, strlen(expected)) == 0 && works != NULL &&
              works->waits_for == NULL;
    troupe_arena_reset();
    return so;
}

static void test_states(void **state)
{
    (void)state;
    int pid;
    char *folder = support_directory_make(), *path = support_path(folder, "go");
    worker_actor one = troupe_spawn(worker, .place = TROUPE_PLACE_WORKER),
                 other = troupe_spawn(worker, .place = TROUPE_PLACE_HERE);
    expect(one, TROUPE_ACTOR_RESTING, 0);
    troupe_ref held = troupe_call(one, hold, path);
    expect(one, TROUPE_ACTOR_BUSY, 0);
    troupe_ref asked =
        troupe_call(other, ask, .id = one.address.id, .incarnation = one.address.incarnation,
                    .process = one.address.process);
    expect(other, TROUPE_ACTOR_WAITING, 0);
    assert_true(support_wait_until(waits_for_one, &(pair){one, other}, SUPPORT_SOON_MS));
    assert_int_equal(troupe_actor_kill(one), TROUPE_OK);
    expect(one, TROUPE_ACTOR_ENDING, 0); // Its method still runs.
    support_write_file(path, "", 0);
    troupe_ref_drop(held);
    assert_int_not_equal(troupe_get(int, asked, &pid), TROUPE_OK);
    expect(other, TROUPE_ACTOR_RESTING, 0);
    assert_int_equal(troupe_actor_kill(other), TROUPE_OK);
    free(path);
    support_directory_remove(folder);
}

static void test_restarts(void **state)
{
    (void)state;
    int pid;
    worker_actor one = troupe_spawn(worker, .place = TROUPE_PLACE_WORKER, .restarts = 3);
    for (uint32_t i = 1; i <= 2; i++) {
        assert_int_equal(troupe_actor_restart(one), TROUPE_OK);
        expect(one, TROUPE_ACTOR_RESTING, i);
        assert_int_equal(troupe_get(int, troupe_call(one, pid_of), &pid), TROUPE_OK);
    }
    assert_int_equal(troupe_actor_kill(one), TROUPE_OK);
}

// Those that wait for their restart, in place and without any process, and for how long.
static bool is_paused(void *user)
{
    const wanted *it = user;
    troupe_actor_list list;
    assert_int_equal(troupe_actors_list(0, &list), TROUPE_OK);
    const troupe_actor_info *found = find(&list, it->actor);
    bool so = found != NULL && found->state == TROUPE_ACTOR_RESTARTING &&
              found->restarts == it->restarts && found->restart_in_s > 500 &&
              found->restart_in_s <= 600 && found->waits_for != NULL &&
              strcmp(found->waits_for, "its restart") == 0 &&
              strcmp(found->class_name, "worker") == 0 && list.actors.count == list.total;
    troupe_arena_reset();
    return so;
}

static void test_paused_restarts(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        worker_actor one = troupe_spawn(worker, .place = places[p], .name = "paused", .restarts = 3,
                                        .backoff_ms = 700000, .backoff_max_ms = 600000);
        for (int i = 0; i < 2; i++) {
            int out;
            assert_int_not_equal(
                troupe_get(int, p == 0 ? troupe_call(one, fail_at_once) : troupe_call(one, leave),
                           &out),
                TROUPE_OK);
        }
        wanted it = {.actor = one.address, .restarts = 2};
        assert_true(support_wait_until(is_paused, &it, SUPPORT_SOON_MS));
        // Its end does not wait for that.
        troupe_down down;
        assert_int_equal(troupe_actor_kill(one), TROUPE_OK);
        assert_int_equal(troupe_actor_await_end(one.address, SUPPORT_SOON_MS, &down), TROUPE_OK);
        assert_int_equal(down.reason, TROUPE_DOWN_KILLED);
        assert_true(support_wait_until(none_is_left, NULL, SUPPORT_SOON_MS));
    }
}

static void test_without_a_runtime(void **state)
{
    (void)state;
    troupe_actor_list list;
    assert_int_equal(troupe_actors_list(0, &list), TROUPE_NOT_STARTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_actors_of_all_processes, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_many_are_cut_and_counted, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_states, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_restarts, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_paused_restarts, set_up, stop_runtime),
        cmocka_unit_test(test_without_a_runtime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
