// test_spawn_many.c: many actors started at once: each is its own, and one that fails, or whose
// process is killed while they start, fails alone.
#include <places.h>
#include <support.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

enum { MANY = 100 };

TROUPE_STRUCT(orders, (int, number), (int, fail), (int, die));

typedef struct soldier {
    int number;
} soldier;

static troupe_status soldier_enlist(soldier *self, const orders *in)
{
    self->number = in->number;
    if (in->die != 0)
        (void)raise(SIGKILL);
    return in->fail == 0 ? TROUPE_OK : troupe_fail(TROUPE_INVALID, "soldier %d is ill", in->number);
}

static void soldier_leave(soldier *self)
{
    (void)self;
}

static troupe_status soldier_number(soldier *self, const troupe_none *none, int *number)
{
    (void)none;
    *number = self->number;
    return TROUPE_OK;
}

static troupe_status soldier_pid(soldier *self, const troupe_none *none, int *pid)
{
    (void)self, (void)none;
    *pid = (int)getpid();
    return TROUPE_OK;
}

TROUPE_ACTOR_INIT(soldier, (soldier_enlist, orders), soldier_leave,
                  (soldier_number, troupe_none, int), (soldier_pid, troupe_none, int));

// Spawns many from a method, whose thread runs other actors meanwhile.
typedef struct captain {
    int unused;
} captain;

static troupe_status captain_muster(captain *self, const int *count, int *answered)
{
    (void)self;
    soldier_actor all[MANY];
    *answered = 0;
    TROUPE_TRY(troupe_spawn_many(soldier, (size_t)*count, all, .place = TROUPE_PLACE_ISOLATED));
    for (int i = 0; i < *count; i++) {
        int pid;
        TROUPE_TRY(troupe_get(int, troupe_call(all[i], soldier_pid, 0), &pid));
        *answered += pid != (int)getpid();
        troupe_actor_kill(all[i]);
    }
    return TROUPE_OK;
}

TROUPE_ACTOR(captain, (captain_muster, int, int));

static soldier_actor all[MANY];
static orders in[MANY];
static int pids[MANY];

static int set_up_with(troupe_transport transport, troupe_launch launch)
{
    memset(in, 0, sizeof in);
    for (int i = 0; i < MANY; i++)
        in[i].number = i;
    return troupe_start(0, NULL, .workers = 2, .threads = 2, .transport = transport,
                        .launch = launch) == TROUPE_OK
               ? 0
               : -1;
}

static int set_up(void **state)
{
    (void)state;
    return set_up_with(TROUPE_TRANSPORT_DEFAULT, TROUPE_LAUNCH_AUTO);
}

static int set_up_ipc(void **state)
{
    (void)state;
    return set_up_with(TROUPE_TRANSPORT_IPC, TROUPE_LAUNCH_AUTO);
}

static int set_up_executed(void **state)
{
    (void)state;
    return set_up_with(TROUPE_TRANSPORT_DEFAULT, TROUPE_LAUNCH_EXEC);
}

// Calls those that should live, and has the others say why they do not.
static void call_all(int count)
{
    troupe_ref numbers[MANY], processes[MANY];
    for (int i = 0; i < count; i++) {
        numbers[i] = troupe_call(all[i], soldier_number, 0);
        processes[i] = troupe_call(all[i], soldier_pid, 0);
    }
    for (int i = 0; i < count; i++) {
        int number = -1;
        troupe_status status = troupe_get(int, numbers[i], &number);
        troupe_status other = troupe_get(int, processes[i], &pids[i]);
        bool lives = in[i].fail == 0 && in[i].die == 0;
        assert_int_equal(status == TROUPE_OK, lives);
        assert_int_equal(other == TROUPE_OK, lives);
        if (lives)
            assert_int_equal(number, i);
        else
            pids[i] = 0;
    }
}

static void assert_apart(int count)
{
    for (int i = 0; i < count; i++)
        for (int j = 0; j <= i && pids[i] != 0; j++)
            assert_true(pids[i] != (int)getpid() && (i == j || pids[i] != pids[j]));
}

static void test_each_has_a_process(void **state)
{
    (void)state;
    troupe_must(troupe_spawn_many_from(soldier, in, MANY, all, .place = TROUPE_PLACE_ISOLATED));
    call_all(MANY);
    assert_apart(MANY);
    for (int i = 0; i < MANY; i++)
        troupe_actor_kill(all[i]);
    pid_t processes[MANY];
    for (int i = 0; i < MANY; i++)
        processes[i] = pids[i];
    assert_true(support_processes_end(processes, MANY, SUPPORT_SOON_MS));
}

static void test_few(void **state)
{
    enum { FEW = 12 };
    (void)state;
    troupe_must(troupe_spawn_many_from(soldier, in, FEW, all, .place = TROUPE_PLACE_ISOLATED));
    call_all(FEW);
    assert_apart(FEW);
}

static void test_failures_stay_with_their_thread(void **state)
{
    enum { COUNT = 30 };
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        in[i].fail = i % 7 == 3;
        in[i].die = i % 7 == 5;
    }
    troupe_status status =
        troupe_spawn_many_from(soldier, in, COUNT, all, .place = TROUPE_PLACE_ISOLATED);
    assert_int_equal(status, TROUPE_INVALID); // The first that failed is number 3.
    assert_non_null(strstr(troupe_last_error()->text, "soldier 3 is ill"));
    for (int i = 0; i < COUNT; i++) {
        status = troupe_actor_status(all[i].address);
        if (in[i].fail != 0)
            assert_int_equal(status, TROUPE_INVALID);
        else if (in[i].die != 0)
            assert_non_null(strstr(troupe_last_error()->text, "signal 9"));
        else
            assert_int_equal(status, TROUPE_OK);
        assert_int_equal(status == TROUPE_OK, in[i].fail == 0 && in[i].die == 0);
    }
    call_all(COUNT);
    assert_apart(COUNT);
}

static void test_one_name(void **state)
{
    (void)state;
    soldier_actor found;
    troupe_status status = troupe_spawn_many_from(soldier, in, 3, all, .name = "general",
                                                  .place = TROUPE_PLACE_ISOLATED);
    assert_int_equal(status, TROUPE_EXISTS);
    int living = 0;
    for (int i = 0; i < 3; i++)
        living += troupe_actor_status(all[i].address) == TROUPE_OK;
    assert_int_equal(living, 1);
    troupe_must(troupe_lookup(soldier, "general", &found));
    // Who asks for one that exists gets the same again and again.
    troupe_must(troupe_spawn_many_from(soldier, in, 3, all, .name = "general",
                                       .place = TROUPE_PLACE_ISOLATED, .get_if_exists = true));
    for (int i = 0; i < 3; i++)
        assert_int_equal(all[i].address.incarnation, found.address.incarnation);
}

static void test_other_places(void **state)
{
    static const troupe_place wanted_places[] = {TROUPE_PLACE_ANY, TROUPE_PLACE_HERE,
                                                 TROUPE_PLACE_WORKER};
    (void)state;
    for (size_t i = 0; i < sizeof wanted_places / sizeof wanted_places[0]; i++) {
        in[4].fail = 1;
        assert_int_equal(troupe_spawn_many_from(soldier, in, 10, all, .place = wanted_places[i]),
                         TROUPE_INVALID);
        call_all(10);
        assert_true(wanted_places[i] != TROUPE_PLACE_HERE || pids[0] == (int)getpid());
    }
    troupe_must(troupe_spawn_many(soldier, 0, all, .place = TROUPE_PLACE_ISOLATED));
    in[4].fail = 0;
    troupe_must(
        troupe_spawn_many_from(soldier, in, 3, all, .place = TROUPE_PLACE_ISOLATED, .restarts = 1));
    call_all(3);
    assert_apart(3);
}

static void test_from_a_method(void **state)
{
    (void)state;
    int answered, count = 6;
    captain_actor captains[2];
    troupe_ref refs[2];
    troupe_must(troupe_spawn_many(captain, 2, captains, .place = TROUPE_PLACE_HERE));
    for (int i = 0; i < 2; i++)
        refs[i] = troupe_call(captains[i], captain_muster, count);
    for (int i = 0; i < 2; i++) {
        troupe_must(troupe_get(int, refs[i], &answered));
        assert_int_equal(answered, count);
    }
}

static void test_before_the_start(void **state)
{
    (void)state;
    assert_int_equal(troupe_spawn_many(soldier, 3, all, .place = TROUPE_PLACE_ISOLATED),
                     TROUPE_NOT_STARTED);
    for (int i = 0; i < 3; i++)
        assert_int_equal(troupe_actor_status(all[i].address), TROUPE_NOT_STARTED);
}

int main(int argc, char **argv)
{
    if (getenv("TROUPE_WORKER") != NULL)
        return troupe_start(argc, argv) == TROUPE_OK ? 0 : 1; // Does not return.
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_before_the_start),
        cmocka_unit_test_setup_teardown(test_each_has_a_process, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_failures_stay_with_their_thread, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_one_name, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_other_places, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_from_a_method, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_few, set_up_ipc, stop_runtime),
        cmocka_unit_test_setup_teardown(test_few, set_up_executed, stop_runtime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
