// test_bursts.c: over sockets frames that follow each other are gathered. They leave without their
// sender's doing anything further in the library, and in order, however the bursts come.
#include <support.h>

#include <stdatomic.h>
#include <sys/mman.h>
#include <troupe/actor.h>
#include <unistd.h>

// In memory that all processes share, since asking the actor would send what waits.
static struct seen {
    _Atomic int last, disorder;
} * seen;

typedef struct clerk {
    int unused;
} clerk;

static troupe_status clerk_note(clerk *self, const int *number, troupe_none *none)
{
    (void)self, (void)none;
    if (*number != atomic_load(&seen->last) + 1)
        atomic_fetch_add(&seen->disorder, 1);
    atomic_store(&seen->last, *number);
    return TROUPE_OK;
}

TROUPE_ACTOR(clerk, (clerk_note, int, troupe_none));

static bool has_seen(void *number)
{
    return atomic_load(&seen->last) == *(int *)number;
}

// Tells `count` numbers and waits, without the library, until the last has come.
static void burst(clerk_actor actor, int count)
{
    int last = atomic_load(&seen->last);
    for (int i = 0; i < count; i++)
        assert_int_equal(troupe_tell(actor, clerk_note, last + 1 + i), TROUPE_OK);
    last += count;
    assert_true(support_wait_until(has_seen, &last, SUPPORT_SOON_MS));
}

static void exchange(troupe_transport transport)
{
    atomic_store(&seen->last, 0);
    assert_int_equal(troupe_start(0, NULL, .workers = 1, .threads = 1, .transport = transport),
                     TROUPE_OK);
    clerk_actor actor = troupe_spawn(clerk, .place = TROUPE_PLACE_ISOLATED);
    burst(actor, 1);
    burst(actor, 1); // At once behind it, alone.
    for (int i = 0; i < 20; i++)
        burst(actor, 2 + i * i);
    burst(actor, 20000);           // More than one message, and more than the link's window.
    for (int i = 0; i < 10; i++) { // The thread that sends for others has gone to sleep.
        usleep(3000);
        burst(actor, i % 3 + 1);
    }
    assert_int_equal(atomic_load(&seen->disorder), 0);
    assert_int_equal(troupe_stop(), 0);
}

static void test_bursts_leave_over_unix_sockets(void **state)
{
    (void)state;
    exchange(TROUPE_TRANSPORT_IPC);
}

static void test_bursts_leave_over_tcp(void **state)
{
    (void)state;
    exchange(TROUPE_TRANSPORT_TCP);
}

static int share(void **state)
{
    (void)state;
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return seen != MAP_FAILED ? 0 : -1;
}

static int unshare_memory(void **state)
{
    (void)state;
    return munmap(seen, sizeof *seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bursts_leave_over_unix_sockets),
        cmocka_unit_test(test_bursts_leave_over_tcp),
    };
    return cmocka_run_group_tests(tests, share, unshare_memory);
}
