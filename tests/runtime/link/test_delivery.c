// test_delivery.c: handing out what has come: a thread that has much to hand out lets others have
// their turn.
#include <support.h>

#include <pthread.h>
#include <runtime/link/dispatch.h>
#include <stdatomic.h>

static _Atomic bool other_had_it;

static void *other(void *unused)
{
    (void)unused;
    trp_process_deliver_begin();
    atomic_store(&other_had_it, true);
    trp_process_deliver_end();
    return NULL;
}

// The first never leaves by itself: without the pauses the second would wait for ever.
static void test_a_flood_lets_others_in(void **state)
{
    (void)state;
    pthread_t thread;
    trp_process_deliver_begin();
    assert_int_equal(pthread_create(&thread, NULL, other, NULL), 0);
    for (int64_t give_up = support_now_ms() + SUPPORT_SOON_MS;
         !atomic_load(&other_had_it) && support_now_ms() < give_up;)
        trp_process_deliver_pause();
    assert_true(trp_process_delivering()); // And goes on.
    assert_true(atomic_load(&other_had_it));
    trp_process_deliver_end();
    assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_flood_lets_others_in)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
