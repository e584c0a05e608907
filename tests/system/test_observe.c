// test_observe.c: the list of all actors of all processes.
#include <support.h>

#include <string.h>
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

TROUPE_ACTOR(worker, (pid_of, troupe_none, int));

static int set_up(void **state)
{
    (void)state;
    return troupe_start(0, NULL, .workers = 2) == TROUPE_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return troupe_stop();
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
    static const troupe_place places[] = {TROUPE_PLACE_HERE, TROUPE_PLACE_WORKER,
                                          TROUPE_PLACE_WORKER, TROUPE_PLACE_ISOLATED};
    enum { COUNT = sizeof places / sizeof places[0], CALLS = 3 };
    worker_actor actors[COUNT];
    int pids[COUNT];
    troupe_actor_list list;
    for (int i = 0; i < COUNT; i++) {
        actors[i] = troupe_spawn(worker, .place = places[i], .name = i == 3 ? "alone" : NULL);
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
        assert_int_equal(troupe_kill(actors[i]), TROUPE_OK);
    troupe_reset();
}

static bool none_is_left(void *context)
{
    (void)context;
    troupe_actor_list list;
    bool none = troupe_actors_list(0, &list) == TROUPE_OK && list.total == 0;
    troupe_reset();
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
        assert_int_equal(troupe_kill(actors[i]), TROUPE_OK);
    troupe_reset();
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
        cmocka_unit_test_setup_teardown(test_actors_of_all_processes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_are_cut_and_counted, set_up, tear_down),
        cmocka_unit_test(test_without_a_runtime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
