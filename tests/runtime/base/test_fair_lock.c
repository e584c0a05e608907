// test_fair_lock.c: who waits for the lock gets it though another one takes it again at once.
#include <support.h>

#include <runtime/base/fair_lock.h>
#include <stdbool.h>
#include <stdint.h>

enum { THREADS = 4, TIMES = 10000 };

static trp_fair_lock lock;
static int order[THREADS], got;

static void *wait_once(void *user)
{
    trp_fair_lock_take(&lock);
    order[got++] = *(const int *)user;
    trp_fair_lock_give(&lock);
    return NULL;
}

static bool have_asked(void *user)
{
    pthread_mutex_lock(&lock.lock);
    bool have = lock.next == (uint64_t) * (const int *)user;
    pthread_mutex_unlock(&lock.lock);
    return have;
}

// Who has it and wants it again at once comes after all that have asked meanwhile.
static void test_who_waits_gets_it(void **state)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    (void)state;
    trp_fair_lock_open(&lock);
    trp_fair_lock_take(&lock);
    for (int i = 0; i < THREADS; i++) {
        int asked = i + 2; // With the one that is here.
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, wait_once, &numbers[i]), 0);
        assert_true(support_wait_until(have_asked, &asked, SUPPORT_SOON_MS));
    }
    trp_fair_lock_take(&lock); // Once more by the same thread.
    trp_fair_lock_give(&lock);
    assert_int_equal(got, 0);
    trp_fair_lock_give(&lock);
    trp_fair_lock_take(&lock);
    assert_int_equal(got, THREADS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(order[i], i);
    trp_fair_lock_give(&lock);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    trp_fair_lock_close(&lock);
}

static long sum;

static void *add(void *user)
{
    (void)user;
    for (int i = 0; i < TIMES; i++) {
        trp_fair_lock_take(&lock);
        sum++;
        trp_fair_lock_give(&lock);
    }
    return NULL;
}

static void test_one_has_it_at_a_time(void **state)
{
    pthread_t threads[THREADS];
    (void)state;
    trp_fair_lock_open(&lock);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(sum, THREADS * TIMES);
    trp_fair_lock_close(&lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_waits_gets_it),
        cmocka_unit_test(test_one_has_it_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
