// test_arena.c: arenas, and the arena of each thread.
#include <pthread.h>
#include <runtime/base/arena.h>
#include <runtime/base/memory.h>
#include <string.h>
#include <support.h>
#include <troupe/wire.h>

static void test_memory_is_aligned_zeroed_and_disjoint(void **state)
{
    (void)state;
    trp_arena arena = {0};
    enum { COUNT = 2000 };
    static unsigned char *blocks[COUNT];
    static size_t sizes[COUNT];
    for (int round = 0; round < 2; round++) { // The second after clear.
        for (size_t i = 0; i < COUNT; i++) {
            sizes[i] = i % 97 == 0 ? i * 131 : i % 61;
            blocks[i] = (unsigned char *)trp_arena_alloc(&arena, sizes[i]);
            assert_non_null(blocks[i]);
            assert_int_equal((uintptr_t)blocks[i] % 16, 0);
            for (size_t k = 0; k < sizes[i]; k++)
                assert_true(blocks[i][k] == 0);
            memset(blocks[i], (int)(i % 251 + 1), sizes[i]);
        }
        for (size_t i = 0; i < COUNT; i++) {
            for (size_t k = 0; k < sizes[i]; k++)
                assert_true(blocks[i][k] == i % 251 + 1);
        }
        trp_arena_clear(&arena);
        assert_null(arena.blocks);
    }
    trp_arena_clear(&arena);
}

static void test_too_much_is_refused(void **state)
{
    (void)state;
    trp_arena arena = {0};
    assert_null(trp_arena_alloc(&arena, SIZE_MAX));
    assert_null(trp_arena_alloc(&arena, SIZE_MAX / 4));
    trp_memory_fail_after(0);
    assert_null(trp_arena_alloc(&arena, 10));
    trp_memory_fail_after(-1);
    void *block = trp_arena_alloc(&arena, 10);
    assert_non_null(block);
    trp_arena_clear(&arena);
}

// It is freed with the rest, as a sanitizer sees, and the arena goes on as before.
static void test_what_is_adopted_is_freed_with_the_rest(void **state)
{
    (void)state;
    enum { SIZE = 3000000 };
    trp_arena arena = {0};
    for (int i = 0; i < 3; i++) {
        size_t before = trp_arena_size(&arena);
        void *block = trp_alloc(SIZE);
        assert_non_null(block);
        assert_true(trp_arena_adopt(&arena, block, SIZE));
        assert_int_equal(trp_arena_size(&arena) - before, SIZE);
        char *one = (char *)trp_arena_alloc(&arena, 10), *two = (char *)trp_arena_alloc(&arena, 10);
        assert_true(one != NULL && two != NULL && one != two);
        memset(one, 1, 10);
        memset(block, 2, SIZE);
        assert_int_equal(one[9], 1);
    }
    trp_arena_clear(&arena);
    assert_int_equal(trp_arena_size(&arena), 0);
    assert_non_null(trp_arena_alloc(&arena, 10));
    trp_arena_clear(&arena);
}

static void test_the_public_functions_use_the_threads_arena(void **state)
{
    (void)state;
    char *text = troupe_arena_text("hello");
    assert_string_equal(text, "hello");
    assert_null(troupe_arena_text(NULL));
    assert_non_null(troupe_arena_alloc(100000));
    assert_non_null(trp_arena_current()->blocks);
    troupe_arena_reset();
    assert_null(trp_arena_current()->blocks);
    trp_memory_fail_after(0);
    char *none = troupe_arena_text("hello");
    trp_memory_fail_after(-1);
    assert_null(none);
}

static void test_the_arena_of_a_method_replaces_it(void **state)
{
    (void)state;
    trp_arena *own = trp_arena_current();
    assert_non_null(troupe_arena_alloc(1));
    trp_arena first = {0}, second = {0};
    assert_null(trp_arena_swap(&first));
    assert_ptr_equal(trp_arena_current(), &first);
    char *text = troupe_arena_text("inside");
    assert_non_null(first.blocks);
    troupe_arena_reset(); // Does nothing here.
    assert_string_equal(text, "inside");
    assert_non_null(own->blocks);
    assert_ptr_equal(trp_arena_swap(&second), &first);
    assert_ptr_equal(trp_arena_swap(&first), &second);
    assert_ptr_equal(trp_arena_swap(own), &first); // The same as NULL.
    assert_null(trp_arena_swap(NULL));
    assert_ptr_equal(trp_arena_current(), own);
    trp_arena_clear(&first);
    troupe_arena_reset();
    assert_null(own->blocks);
}

// Where a sanitizer looks for leaks, it finds this thread's memory if the arena is not freed.
static void *use_and_end(void *out)
{
    for (int i = 0; i < 100; i++)
        *(char **)out = troupe_arena_text("a thread's own text");
    return trp_arena_current();
}

static void test_each_thread_has_its_own_and_frees_it(void **state)
{
    (void)state;
    char *mine = troupe_arena_text("mine");
    for (int i = 0; i < 8; i++) {
        pthread_t thread;
        char *theirs = NULL;
        void *arena = NULL;
        assert_int_equal(pthread_create(&thread, NULL, use_and_end, &theirs), 0);
        assert_int_equal(pthread_join(thread, &arena), 0);
        assert_ptr_not_equal(arena, trp_arena_current());
        assert_ptr_not_equal(theirs, mine);
    }
    assert_string_equal(mine, "mine"); // Freed when the process ends.
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_is_aligned_zeroed_and_disjoint),
        cmocka_unit_test(test_too_much_is_refused),
        cmocka_unit_test(test_what_is_adopted_is_freed_with_the_rest),
        cmocka_unit_test(test_the_public_functions_use_the_threads_arena),
        cmocka_unit_test(test_the_arena_of_a_method_replaces_it),
        cmocka_unit_test(test_each_thread_has_its_own_and_frees_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
