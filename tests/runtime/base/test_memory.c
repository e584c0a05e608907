// test_memory.c: private memory and its failure switch, buffers, the clock, and the log's lines.
#include <errno.h>
#include <runtime/base/buffer.h>
#include <runtime/base/clock.h>
#include <runtime/base/hash.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_memory_is_zeroed(void **state)
{
    (void)state;
    for (size_t size = 0; size < 300; size += 7) {
        unsigned char *block = (unsigned char *)trp_alloc(size);
        assert_non_null(block);
        for (size_t i = 0; i < size; i++)
            assert_int_equal(block[i], 0);
        memset(block, 0xff, size);
        trp_free(block);
    }
    trp_free(NULL);
    assert_null(trp_alloc(SIZE_MAX));
    assert_null(trp_strdup(NULL));
}

// Whether the mapping of that address asks for large pages; -1: the system does not say.
static int asks_for_large_pages(const void *at)
{
    FILE *maps = fopen("/proc/self/smaps", "re");
    unsigned long long from, to, is = (unsigned long long)(uintptr_t)at;
    char line[512];
    bool within = false;
    int asks = -1;
    while (maps != NULL && asks < 0 && fgets(line, sizeof line, maps) != NULL) {
        if (sscanf(line, "%llx-%llx ", &from, &to) == 2)
            within = from <= is && is < to;
        else if (within && strncmp(line, "VmFlags:", 8) == 0)
            asks = strstr(line, " hg") != NULL;
    }
    if (maps != NULL)
        (void)fclose(maps);
    return asks;
}

// A fault for each 4 KiB takes longer than what is read into them.
static void test_a_large_block_asks_for_large_pages(void **state)
{
    (void)state;
    enum { LARGE = 64 << 20 };
    if (!support_exists("/sys/kernel/mm/transparent_hugepage/enabled"))
        skip();
    unsigned char *block = (unsigned char *)trp_alloc(LARGE),
                  *small = (unsigned char *)trp_alloc(64);
    assert_true(block != NULL && small != NULL);
    assert_int_not_equal(asks_for_large_pages(block + LARGE / 2), 0);
    assert_int_not_equal(asks_for_large_pages(small), 1);
    trp_free(block);
    trp_free(small);
}

static void test_the_nth_allocation_fails(void **state)
{
    (void)state;
    trp_memory_fail_after(2);
    void *one = trp_alloc(8);
    char *two = trp_strdup("two");
    void *three = trp_alloc(8);
    void *grown = trp_realloc(one, 16);
    trp_memory_fail_after(-1);
    assert_non_null(one);
    assert_string_equal(two, "two");
    assert_null(three);
    assert_null(grown); // And `one` is untouched: freed below.
    trp_free(one);
    trp_free(two);
    void *again = trp_alloc(8);
    assert_non_null(again);
    trp_free(again);
}

static void test_buffers_grow(void **state)
{
    (void)state;
    trp_buffer buffer = {0};
    trp_buffer_append(&buffer, NULL, 0);
    assert_int_equal(buffer.size, 0);
    for (int i = 0; i < 3000; i++) {
        unsigned char byte = (unsigned char)(i * 7);
        trp_buffer_append(&buffer, &byte, 1);
    }
    assert_int_equal(buffer.size, 3000);
    for (int i = 0; i < 3000; i++)
        assert_int_equal(buffer.data[i], (unsigned char)(i * 7));
    buffer.size = 0;
    for (int i = 0; i < 1000; i++)
        trp_buffer_printf(&buffer, "%d,", i);
    assert_false(buffer.failed);
    assert_int_equal(buffer.size, 10 * 2 + 90 * 3 + 900 * 4);
    assert_memory_equal(buffer.data + buffer.size - 8, "998,999,", 8);
    trp_buffer_free(&buffer);
    assert_null(buffer.data);
    assert_int_equal(buffer.capacity, 0);
}

static void test_a_buffer_remembers_its_failure(void **state)
{
    (void)state;
    trp_buffer buffer = {0};
    trp_buffer_append(&buffer, "abc", 3);
    trp_memory_fail_after(0);
    char large[1000] = {0};
    trp_buffer_append(&buffer, large, sizeof(large));
    trp_memory_fail_after(-1);
    assert_true(buffer.failed);
    trp_buffer_append(&buffer, "d", 1);
    trp_buffer_printf(&buffer, "%d", 5);
    assert_int_equal(buffer.size, 3);
    assert_memory_equal(buffer.data, "abc", 3);
    trp_buffer_free(&buffer);
    trp_buffer_append(&buffer, large, SIZE_MAX / 2 + 1); // Refused before it is read.
    assert_true(buffer.failed);
    trp_buffer_free(&buffer);
}

static void test_the_clock_goes_forward(void **state)
{
    (void)state;
    int64_t before = trp_clock_ns();
    assert_true(before > 0);
    for (int i = 0; i < 1000; i++) {
        int64_t now = trp_clock_ns();
        assert_true(now >= before);
        before = now;
    }
    assert_true(trp_clock_ms() >= before / 1000000);
    assert_true(trp_clock_s() >= (double)before * 1e-9);
}

// Logs a line of each level in a child; what it writes goes to `said`, its wait status is returned.
static int log_in_child(const char *wanted, bool broken, char *said, size_t capacity)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        if (wanted)
            setenv("TROUPE_LOG", wanted, 1);
        else
            unsetenv("TROUPE_LOG");
        if (broken) {
            signal(SIGABRT, SIG_DFL); // The test runner catches it.
            trp_assert(1 + 1 == 3);
        }
        errno = ERANGE;
        trp_log(TRP_ERROR, "first %d", 1);
        trp_log(TRP_WARN, "second");
        trp_log(TRP_INFO, "third");
        trp_log(TRP_DEBUG, "fourth");
        trp_log(TRP_ERROR, "%05000d", 1);
        _exit(errno == ERANGE ? 0 : 1);
    }
    close(ends[1]);
    size_t used = 0;
    ssize_t more;
    while ((more = read(ends[0], said + used, capacity - 1 - used)) > 0)
        used += (size_t)more;
    said[used] = 0;
    close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static int count_lines(const char *text)
{
    int count = 0;
    for (; *text; text++)
        count += *text == '\n';
    return count;
}

static void test_lines_have_a_level_and_a_process(void **state)
{
    (void)state;
    static char said[20000];
    assert_int_equal(log_in_child(NULL, false, said, sizeof(said)), 0);
    assert_int_equal(count_lines(said), 3);
    assert_int_equal(strncmp(said, "troupe: error: first 1 (pid=", 28), 0);
    assert_non_null(strstr(said, "troupe: warn: second (pid="));
    assert_null(strstr(said, "third"));
    assert_non_null(strstr(said, "000 [cut] (pid="));
    assert_int_equal(log_in_child("debug", false, said, sizeof(said)), 0);
    assert_int_equal(count_lines(said), 5);
    assert_non_null(strstr(said, "troupe: debug: fourth (pid="));
    assert_int_equal(log_in_child("error", false, said, sizeof(said)), 0);
    assert_int_equal(count_lines(said), 2);
    assert_int_equal(log_in_child("nonsense", false, said, sizeof(said)), 0);
    assert_int_equal(count_lines(said), 3);
}

static void test_a_broken_invariant_aborts(void **state)
{
    (void)state;
    char said[2000];
    int status = log_in_child(NULL, true, said, sizeof(said));
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_non_null(strstr(said, "broken invariant: 1 + 1 == 3, at "));
}

// Without memory the first is not added, and the process lives on; a table that cannot grow is used
// as it is.
static void test_a_table_without_memory(void **state)
{
    (void)state;
    enum { COUNT = 2000 }; // It would have grown several times.
    static struct numbered {
        int number;
        UT_hash_handle hh;
    } all[COUNT], *table, *found;
    for (long allowed = 0; allowed < 2; allowed++) { // It takes two pieces.
        trp_memory_fail_after(allowed);
        TRP_HASH_ADD(hh, table, number, sizeof all[0].number, &all[0]);
        assert_false(TRP_HASH_HAS(hh, &all[0]));
        assert_null(table);
    }
    trp_memory_fail_after(2);
    for (int i = 0; i < COUNT; i++) {
        all[i].number = i;
        TRP_HASH_ADD(hh, table, number, sizeof all[i].number, &all[i]);
        assert_true(TRP_HASH_HAS(hh, &all[i]));
    }
    trp_memory_fail_after(-1);
    assert_int_equal(HASH_COUNT(table), COUNT);
    for (int i = 0; i < COUNT; i++) {
        HASH_FIND(hh, table, &i, sizeof i, found);
        assert_ptr_equal(found, &all[i]);
        HASH_DEL(table, found);
    }
    assert_null(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_is_zeroed),
        cmocka_unit_test(test_a_large_block_asks_for_large_pages),
        cmocka_unit_test(test_the_nth_allocation_fails),
        cmocka_unit_test(test_buffers_grow),
        cmocka_unit_test(test_a_buffer_remembers_its_failure),
        cmocka_unit_test(test_the_clock_goes_forward),
        cmocka_unit_test(test_lines_have_a_level_and_a_process),
        cmocka_unit_test(test_a_broken_invariant_aborts),
        cmocka_unit_test(test_a_table_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
