// test_blocking.c: a method that waits for something of its own lets others run meanwhile, whatever
// it waits for in there.
// label: local
#include <support.h>

#include <actors/sched/scheduler_internal.h>
#include <actors/sched/wait_notes.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <troupe.h>

typedef struct guest {
    char unused;
} guest;

static sem_t door; // All live in this process.
static _Atomic int inside;

static troupe_status guest_echo(guest *self, const int *in, int *out)
{
    (void)self;
    *out = *in;
    return TROUPE_OK;
}

static troupe_status guest_wait(guest *self, const troupe_actor *other, int *out);
TROUPE_ACTOR(guest, (guest_echo, int, int), (guest_wait, troupe_actor, int));

typedef struct errand {
    troupe_actor other;
    int echo;
} errand;

// Asks another actor, asks how another one is, and waits for the door.
static troupe_status stay(void *user)
{
    errand *it = user;
    if (it->other.id != 0) {
        guest_actor other = {it->other};
        TROUPE_TRY(troupe_get(int, troupe_call(other, guest_echo, 7), &it->echo));
    }
    atomic_fetch_add(&inside, 1);
    while (sem_wait(&door) != 0)
        continue;
    atomic_fetch_sub(&inside, 1);
    return troupe_fail(TROUPE_EXISTS, "as it says");
}

static troupe_status guest_wait(guest *self, const troupe_actor *other, int *out)
{
    (void)self;
    errand it = {.other = *other};
    if (troupe_blocking_call(stay, &it) != TROUPE_EXISTS)
        return troupe_fail(TROUPE_FAILED, "what the function returned is lost");
    *out = it.echo;
    return TROUPE_OK;
}

static bool has_come_in(void *count)
{
    return atomic_load(&inside) == *(int *)count;
}

static int blocked(void)
{
    trp_scheduler_lock();
    int count = trp_scheduler.blocked;
    trp_scheduler_unlock();
    return count;
}

// Such waits are waits to the scheduler at once, not when it has seen that nothing comes of them.
static void test_others_run_meanwhile(void **state)
{
    enum { GUESTS = 8 };
    (void)state;
    guest_actor other = troupe_spawn(guest, .place = TROUPE_PLACE_HERE), one[GUESTS];
    troupe_ref waits[GUESTS];
    int echo, count = GUESTS;
    for (int i = 0; i < GUESTS; i++) {
        one[i] = troupe_spawn(guest, .place = TROUPE_PLACE_HERE);
        troupe_actor nobody = {0};
        waits[i] = troupe_call_from(one[i], guest_wait, i % 2 == 0 ? &nobody : &other.address);
    }
    assert_true(support_wait_until(has_come_in, &count, SUPPORT_SOON_MS));
    assert_int_equal(blocked(), GUESTS);
    troupe_must(troupe_get(int, troupe_call(other, guest_echo, 5), &echo));
    assert_int_equal(echo, 5);
    for (int i = 0; i < GUESTS; i++)
        assert_int_equal(sem_post(&door), 0);
    for (int i = 0; i < GUESTS; i++) {
        troupe_must(troupe_get(int, waits[i], &echo));
        assert_int_equal(echo, i % 2 == 0 ? 0 : 7);
    }
    assert_int_equal(blocked(), 0);
    for (int i = 0; i < 1000; i++)
        troupe_must(troupe_get(int, troupe_call(one[i % GUESTS], guest_echo, i), &echo));
}

// Elsewhere it is a call like another.
static void test_outside_of_methods(void **state)
{
    (void)state;
    errand it = {0};
    assert_int_equal(sem_post(&door), 0);
    assert_int_equal(troupe_blocking_call(stay, &it), TROUPE_EXISTS);
    assert_string_equal(troupe_last_error()->text, "as it says");
    assert_int_equal(troupe_blocking_call(NULL, &it), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "wait"));
    assert_int_equal(blocked(), 0);
}

int main(int argc, char **argv)
{
    assert_int_equal(sem_init(&door, 0, 0), 0);
    troupe_must(troupe_start(argc, argv, .cpus = 2));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_others_run_meanwhile),
        cmocka_unit_test(test_outside_of_methods),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return troupe_stop() == TROUPE_OK ? failed : 1;
}
