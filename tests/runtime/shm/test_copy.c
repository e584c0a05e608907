// test_copy.c: large copies that a helper thread shares in.
#include <support.h>

#include <pthread.h>
#include <runtime/shm/parallel_copy.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LARGE = 20 << 20, THREADS = 4, ROUNDS = 8 };

static void copy_and_check(size_t size, uint64_t seed)
{
    enum { BEHIND = 64 };
    char *from = malloc(size), *to = malloc(size + BEHIND);
    assert_non_null(from);
    assert_non_null(to);
    support_fill(from, size, seed);
    memset(to, 0xee, size + BEHIND);
    trp_copy(to, from, size);
    support_fill(from, size, ~seed); // It is over: nobody reads this any more.
    assert_true(support_is_filled(to, size, seed));
    for (size_t i = 0; i < BEHIND; i++)
        assert_int_equal((unsigned char)to[size + i], 0xee);
    free(from);
    free(to);
}

static void test_sizes(void **state)
{
    (void)state;
    static const size_t sizes[] = {
        1, 4096, (8 << 20) - 1, 8 << 20, (8 << 20) + 1, (9 << 20) + (256 << 10) - 7, LARGE + 63};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        copy_and_check(sizes[i], i << 32);
    trp_copy_stop();
}

static void test_places(void **state)
{
    (void)state;
    enum { SIZE = (9 << 20) + 5 };
    unsigned char *from = malloc(SIZE + 64), *to = malloc(SIZE + 128);
    assert_non_null(from);
    assert_non_null(to);
    for (size_t i = 0; i < SIZE + 64; i++)
        from[i] = (unsigned char)(i * 31 + i / 251);
    for (int place = 0; place < 64; place += 7) {
        memset(to, 0xee, SIZE + 128);
        trp_copy(to + place, from + place / 2, SIZE);
        assert_memory_equal(to + place, from + place / 2, SIZE);
        for (int i = 0; i < place; i++)
            assert_int_equal(to[i], 0xee);
        assert_int_equal(to[place + SIZE], 0xee);
    }
    free(from);
    free(to);
    trp_copy_stop();
}

static void *copy_often(void *seed)
{
    for (uint64_t i = 0; i < ROUNDS; i++)
        copy_and_check(LARGE / 2 + 7 * i, ((uint64_t)(uintptr_t)seed << 40) + i);
    return NULL;
}

static void test_threads_at_once(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, copy_often, (void *)(uintptr_t)(i + 1)),
                         0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    trp_copy_stop();
}

// A forked child has no helper, though its memory says that there is one: it copies by itself.
static void test_a_forked_child(void **state)
{
    (void)state;
    int status;
    copy_and_check(LARGE, 1);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        copy_and_check(LARGE, 2);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(support_was_killed(status));
    copy_and_check(LARGE, 3);
    trp_copy_stop();
}

// The helper is made when it is needed, and again after a stop; a thread that may use one CPU alone
// makes none.
static void test_helper_comes_and_goes(void **state)
{
    (void)state;
    cpu_set_t all, one;
    int before = support_count_threads();
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    copy_and_check(LARGE, 1);
    assert_int_equal(support_count_threads(), before);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    for (int i = 0; i < 3; i++) {
        copy_and_check(4096, 2);
        assert_int_equal(support_count_threads(), before);
        copy_and_check(LARGE, 3);
        assert_int_equal(support_count_threads(), before + (CPU_COUNT(&all) > 1));
        trp_copy_stop();
        assert_int_equal(support_count_threads(), before);
    }
    trp_copy_stop(); // Harmless where there is none.
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_threads_at_once),
        cmocka_unit_test(test_a_forked_child),
        cmocka_unit_test(test_helper_comes_and_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
