// test_pool.c: cells that go round within a thread, between threads, and back when a thread ends.
#include <support.h>

#include <pthread.h>
#include <runtime/base/cell_pool.h>
#include <runtime/base/memory.h>
#include <string.h>

typedef struct item {
    trp_cell cell;
    int number;
} item;

enum { BATCHES = 5, COUNT = BATCHES * TRP_BATCH };
static item items[COUNT];
static trp_depot depot;
static _Thread_local trp_magazine magazine;

static void forget_all(size_t batch)
{
    depot = (trp_depot){.batch = batch, .lock = PTHREAD_MUTEX_INITIALIZER};
    magazine.cells = magazine.spare = NULL;
    magazine.room = magazine.depot != NULL ? batch : 0;
}

static void forget(void)
{
    forget_all(TRP_BATCH);
}

static void give(int number, size_t batches_max, int *spilled)
{
    items[number].number = number;
    trp_cell *rest = trp_magazine_give(&magazine, &depot, &items[number].cell, batches_max);
    for (; rest != NULL; rest = rest->next)
        ++*spilled;
}

// Takes all that there is; each must come once.
static int take_all(void)
{
    bool seen[COUNT] = {false};
    int count = 0;
    for (trp_cell *cell; (cell = trp_magazine_take(&magazine, &depot)) != NULL; count++) {
        int number = ((item *)cell)->number;
        assert_false(seen[number]);
        seen[number] = true;
    }
    return count;
}

static void test_each_cell_comes_back_once(void **state)
{
    (void)state;
    int spilled = 0;
    forget();
    assert_null(trp_magazine_take(&magazine, &depot));
    for (int i = 0; i < COUNT; i++)
        give(i, SIZE_MAX, &spilled);
    assert_int_equal(spilled, 0);
    assert_int_equal(take_all(), COUNT);
    assert_null(trp_magazine_take(&magazine, &depot));
}

static void test_what_is_too_much_comes_out(void **state)
{
    (void)state;
    int spilled = 0;
    forget();
    for (int i = 0; i < COUNT; i++)
        give(i, 1, &spilled);
    // A batch in the depot, one to spare and one in use are kept.
    assert_int_equal(spilled, COUNT - 3 * TRP_BATCH);
    assert_int_equal(take_all(), 3 * TRP_BATCH);
}

// Some depots take fewer cells at a time.
static void test_small_batches(void **state)
{
    (void)state;
    enum { FEW = TRP_BATCH / 4 };
    int spilled = 0;
    forget_all(FEW);
    for (int i = 0; i < COUNT; i++)
        give(i, SIZE_MAX, &spilled);
    assert_int_equal(spilled, 0);
    assert_int_equal(take_all(), COUNT);
    for (int i = 0; i < COUNT; i++)
        give(i, 1, &spilled);
    assert_int_equal(spilled, COUNT - 3 * FEW);
    assert_int_equal(take_all(), 3 * FEW);
}

static void *give_half(void *unused)
{
    int spilled = 0;
    for (int i = 0; i < COUNT / 2; i++)
        give(i, SIZE_MAX, &spilled);
    return unused;
}

static void test_an_ended_thread_keeps_nothing(void **state)
{
    (void)state;
    pthread_t thread;
    forget();
    assert_int_equal(pthread_create(&thread, NULL, give_half, NULL), 0);
    pthread_join(thread, NULL);
    assert_int_equal(take_all(), COUNT / 2);
}

static void test_sizes(void **state)
{
    (void)state;
    static const size_t sizes[] = {1,
                                   127,
                                   128,
                                   129,
                                   256,
                                   257,
                                   512,
                                   513,
                                   1024,
                                   1280,
                                   1281,
                                   TRP_POOL_LARGEST,
                                   TRP_POOL_LARGEST + 1,
                                   100000};
    enum { SIZES = sizeof sizes / sizeof sizes[0], ROUNDS = 3 * TRP_BATCH };
    unsigned char *memory[ROUNDS];
    for (int s = 0; s < SIZES; s++) {
        for (int i = 0; i < ROUNDS; i++) {
            memory[i] = trp_pool_take(sizes[s]);
            assert_non_null(memory[i]);
            assert_int_equal((uintptr_t)memory[i] % 16, 0);
            memset(memory[i], i, sizes[s]);
        }
        for (int i = 0; i < ROUNDS; i++) {
            assert_int_equal(memory[i][0], (unsigned char)i);
            assert_int_equal(memory[i][sizes[s] - 1], (unsigned char)i);
            trp_pool_give(memory[i], sizes[s]);
        }
    }
    trp_pool_give(NULL, 10);
    trp_memory_fail_after(0);
    assert_null(trp_pool_take(100000));
    trp_memory_fail_after(-1);
}

// One thread only takes, the other only gives.
static unsigned char *_Atomic handed;

static void *give_handed(void *count)
{
    for (int i = 0; i < *(int *)count; i++) {
        unsigned char *memory;
        while ((memory = atomic_exchange(&handed, NULL)) == NULL)
            sched_yield();
        assert_int_equal(memory[99], 7);
        trp_pool_give(memory, 100);
    }
    return NULL;
}

static void test_one_takes_and_one_gives(void **state)
{
    (void)state;
    int count = 20 * TRP_BATCH;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, give_handed, &count), 0);
    for (int i = 0; i < count; i++) {
        unsigned char *memory = trp_pool_take(100);
        assert_non_null(memory);
        memory[99] = 7;
        while (atomic_load(&handed) != NULL)
            sched_yield();
        atomic_store(&handed, memory);
    }
    pthread_join(thread, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_cell_comes_back_once),
        cmocka_unit_test(test_what_is_too_much_comes_out),
        cmocka_unit_test(test_small_batches),
        cmocka_unit_test(test_an_ended_thread_keeps_nothing),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_one_takes_and_one_gives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
