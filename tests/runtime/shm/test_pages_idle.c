// test_pages_idle.c: memory of the store goes back to the system when it is unused, and comes back
// when it is needed; what is used, or was used lately, stays.
#include "stores.h"

#include <pthread.h>
#include <runtime/shm/layout.h>
#include <runtime/shm/pages_internal.h>
#include <runtime/shm/reclaim.h>
#include <runtime/shm/segment.h>
#include <runtime/store/eviction.h>
#include <runtime/store/reap.h>
#include <runtime/store/store.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ME = TRP_PROCESS_DRIVER, MIB = 1 << 20, CAPACITY = 128 * MIB, KEEP = MIB, OBJECTS = 32768 };

static uint64_t tables; // Bytes.

static void back(uint64_t at, uint64_t size)
{
    assert_int_equal(trp_segment_back(at, size), TROUPE_OK);
}

// All tables that a test here may come to use have memory from the start, so that what the system
// gives and takes later are pages alone.
static int set_up(void **state)
{
    (void)state;
    troupe_store_usage now;
    if (trp_segment_create(CAPACITY) != TROUPE_OK)
        return -1;
    trp_store_open(ME);
    const trp_header *header = trp_segment.header;
    back(header->pages_at, header->pages_max * sizeof(trp_page_row));
    back(header->blocks_at, (uint64_t)header->pages_max * TRP_PAGE_BLOCKS * sizeof(uint32_t));
    back(header->objects_at, OBJECTS * sizeof(trp_object_row));
    back(header->ledgers_at + ME * TRP_OBJECTS_MAX * sizeof(trp_ledger_cell),
         OBJECTS * sizeof(trp_ledger_cell));
    assert_int_equal(trp_store_usage(&now), TROUPE_OK);
    tables = now.bytes_backed;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    trp_segment_close();
    return 0;
}

// Pages that are not holes.
static uint64_t bytes_of_pages(void)
{
    uint64_t bytes = 0;
    for (uint32_t page = 0; page < trp_pages_backed(); page++) {
        uint32_t owner = atomic_load(trp_page_owner(page));
        bytes += owner != TRP_OWNER_HOLE ? TRP_PAGE_SIZE : 0;
        assert_false(trp_owner_is_in_hand(owner));
    }
    return bytes;
}

static void expect_exact(void)
{
    assert_int_equal(usage().bytes_backed, tables + bytes_of_pages());
}

// Looks until nothing more would go.
static void give_all(void)
{
    int looks = 0;
    while (trp_pages_give(ME, TRP_PAGES_KEEP))
        assert_true(++looks < 10);
}

// Objects of many sizes.
typedef struct lot {
    trp_object ids[4000];
    size_t sizes[4000];
    size_t count;
    uint64_t bytes;
} lot;

static void fill(lot *these, uint64_t bytes)
{
    static const size_t sizes[] = {100, 3000, 20000, 70000, MIB - 1000, 3 * MIB, 7 * MIB, 65536};
    these->count = 0;
    these->bytes = 0;
    while (these->bytes < bytes) {
        size_t size = sizes[these->count % (sizeof sizes / sizeof *sizes)];
        these->ids[these->count] = make_object(size, 42, (int)these->count);
        these->sizes[these->count++] = size;
        these->bytes += size;
    }
}

static void drop(lot *these)
{
    for (size_t i = 0; i < these->count; i++) {
        expect_filled(these->ids[i], these->sizes[i], (int)i);
        trp_store_release(these->ids[i], ME);
    }
}

// The first object is made while a process starts: little is zeroed for it, and more each time.
static void test_it_comes_by_little_at_first(void **state)
{
    (void)state;
    enum { FIRST = 256 << 10, STEPS = 4 };
    static const uint64_t backed[STEPS] = {FIRST, 2 * FIRST, 4 * FIRST, 8 * FIRST};
    trp_object ids[STEPS];
    for (int i = 0; i < STEPS; i++) {
        size_t size = (size_t)(i == 0 ? backed[0] : backed[i] - backed[i - 1]);
        ids[i] = make_object(size, 42, i);
        assert_int_equal(bytes_of_pages(), backed[i]);
    }
    for (int i = 0; i < STEPS; i++)
        trp_store_release(ids[i], ME);
}

static void test_it_goes_and_comes_back(void **state)
{
    (void)state;
    static lot these;
    fill(&these, 48 * MIB);
    uint64_t full = usage().bytes_backed;
    for (int round = 0; round < 3; round++) {
        drop(&these);
        assert_int_equal(usage().bytes_used, 0);
        assert_true(trp_pages_give(ME, TRP_PAGES_KEEP)); // The first look only sees what is free.
        assert_int_equal(usage().bytes_backed, full);
        give_all();
        assert_int_equal(bytes_of_pages(), KEEP);
        expect_exact();
        fill(&these, 48 * MIB);
        expect_exact();
        full = usage().bytes_backed;
    }
    drop(&these);
}

// What is used stays, as it is, and an eighth of that beside it.
static void test_what_is_used_stays(void **state)
{
    (void)state;
    enum { COUNT = 32 };
    trp_object ids[2 * COUNT];
    for (int i = 0; i < 2 * COUNT; i++)
        ids[i] = make_object(MIB, 42, i);
    for (int i = 0; i < 2 * COUNT; i += 2)
        trp_store_release(ids[i], ME);
    give_all();
    assert_int_equal(bytes_of_pages(), (uint64_t)(COUNT + COUNT / 8) * MIB);
    expect_exact();
    for (int i = 1; i < 2 * COUNT; i += 2) {
        expect_filled(ids[i], MIB, i);
        trp_store_release(ids[i], ME);
    }
}

// A store that is busy keeps what it was busy with between two looks.
static void test_what_was_used_lately_stays(void **state)
{
    (void)state;
    trp_store_release(make_object(32 * MIB, 42, 1), ME);
    uint64_t before = usage().bytes_backed;
    for (int look = 0; look < 5; look++) {
        assert_true(trp_pages_give(ME, TRP_PAGES_KEEP));
        assert_int_equal(usage().bytes_backed, before);
        trp_store_release(make_object(32 * MIB, 42, look), ME);
        assert_int_equal(usage().bytes_backed, before);
    }
    give_all();
    assert_int_equal(usage().bytes_backed, before - 32 * MIB + KEEP);
}

static void test_a_small_program_gives_nothing(void **state)
{
    (void)state;
    trp_store_release(make_object(MIB, 42, 1), ME);
    trp_store_release(make_object(100, 42, 1), ME);
    uint64_t before = usage().bytes_backed;
    assert_false(trp_pages_give(ME, TRP_PAGES_KEEP));
    assert_int_equal(usage().bytes_backed, before);
    assert_int_not_equal(trp_page_row_at(0)->owner, TRP_OWNER_COLD); // It was not even looked at.
}

static void test_pages_cut_up_for_small_ones(void **state)
{
    (void)state;
    enum { SMALL = 20000, SIZE = 2000 };
    trp_object *ids = calloc(SMALL, sizeof *ids);
    for (int i = 0; i < SMALL; i++)
        ids[i] = make_object(SIZE, 42, i);
    assert_true(bytes_of_pages() >= (uint64_t)SMALL * SIZE);
    for (int i = 1; i < SMALL; i++)
        trp_store_release(ids[i], ME);
    give_all();
    assert_int_equal(bytes_of_pages(), KEEP + TRP_PAGE_SIZE); // One page has an object still.
    expect_exact();
    expect_filled(ids[0], SIZE, 0);
    trp_store_release(ids[0], ME);
    free(ids);
}

// The system has no memory for what was given back: there is no room, and nothing else happens.
static void test_no_memory_to_come_back(void **state)
{
    (void)state;
    trp_object small = make_object(100, 42, 7);
    trp_store_release(make_object(32 * MIB, 42, 1), ME);
    give_all();
    uint64_t before = usage().bytes_backed, used = usage().bytes_used;
    int fd = trp_segment.fd;
    trp_object id;
    void *data;
    trp_segment.fd = -1; // Nothing can be reserved.
    assert_int_equal(trp_store_create(8 * MIB, 42, TRP_ENCODING_BYTES, &id, &data),
                     TROUPE_NO_MEMORY);
    assert_non_null(strstr(troupe_last_error()->text, "the system has no memory"));
    // What has memory can be had all the same.
    assert_int_equal(trp_store_create(TRP_PAGE_SIZE, 42, TRP_ENCODING_BYTES, &id, &data),
                     TROUPE_OK);
    memset(data, 1, TRP_PAGE_SIZE);
    trp_store_discard(id);
    trp_segment.fd = fd;
    assert_int_equal(usage().bytes_backed, before);
    assert_int_equal(usage().bytes_used, used);
    id = make_object(32 * MIB, 42, 3);
    expect_filled(id, 32 * MIB, 3);
    expect_filled(small, 100, 7);
    trp_store_release(id, ME);
    trp_store_release(small, ME);
}

// Nor is anything lost where the system takes nothing back.
static void test_nothing_is_taken_back(void **state)
{
    (void)state;
    trp_store_release(make_object(32 * MIB, 42, 1), ME);
    uint64_t before = usage().bytes_backed;
    int fd = trp_segment.fd;
    trp_segment.fd = -1;
    give_all();
    trp_segment.fd = fd;
    assert_int_equal(usage().bytes_backed, before);
    trp_object id = make_object(CAPACITY, 42, 3);
    trp_store_release(id, ME);
}

// A large object's pages are mapped in one go also where they were given back meanwhile.
static void test_what_comes_back_is_mapped(void **state)
{
    (void)state;
    enum { LARGE = 16 * MIB, SYSTEM_PAGE = 4096, POPULATE_READ = 22 };
    if (madvise(trp_segment.base, SYSTEM_PAGE, POPULATE_READ) != 0)
        skip(); // The system cannot.
#if defined(__SANITIZE_THREAD__)
    skip(); // Its own memory for what is written has faults, too.
#endif
    trp_store_release(make_object(LARGE, 42, 1), ME);
    give_all();
    expect_mapped_ahead(LARGE);
}

// All that there is can be had at once, and those pages are the object's alone.
static void test_all_of_it(void **state)
{
    (void)state;
    static lot these;
    fill(&these, 48 * MIB);
    drop(&these);
    give_all();
    trp_object id = make_object(CAPACITY, 42, 5);
    expect_filled(id, CAPACITY, 5);
    expect_exact();
    trp_object none;
    void *data;
    assert_int_equal(trp_store_create(1, 42, TRP_ENCODING_BYTES, &none, &data), TROUPE_NO_MEMORY);
    trp_store_release(id, ME);
}

// ---- when it is looked

// Who frees rings the one that gives, if that one sleeps.
static void test_a_free_rings(void **state)
{
    (void)state;
    trp_object id = make_object(100, 42, 1);
    uint32_t before = atomic_load(&trp_segment.header->work_rung);
    trp_store_release(id, ME);
    assert_int_equal(atomic_load(&trp_segment.header->work_rung), before); // It is awake.
    id = make_object(100, 42, 1);
    (void)atomic_fetch_or(&trp_segment.header->awaited, TRP_AWAITED_IDLE);
    trp_store_release(id, ME);
    assert_int_equal(atomic_load(&trp_segment.header->work_rung), before + 1);
    assert_int_equal(atomic_load(&trp_segment.header->awaited), 0);
    trp_store_release(make_object(100, 42, 1), ME); // Once is enough.
    assert_int_equal(atomic_load(&trp_segment.header->work_rung), before + 1);
    // A death rings in any case: the dead may have been about to.
    trp_store_sweep(5);
    assert_int_equal(atomic_load(&trp_segment.header->work_rung), before + 2);
}

static bool asks_no_more(void *slept)
{
    int left_ms = trp_pages_tend();
    if (left_ms >= 0)
        return false;
    *(bool *)slept = true;
    return (atomic_load(&trp_segment.header->awaited) & TRP_AWAITED_IDLE) != 0;
}

// It looks again and again while there is something to be had, then it sleeps.
static void test_it_sleeps_in_the_end(void **state)
{
    (void)state;
    bool slept = false;
    trp_store_release(make_object(32 * MIB, 42, 1), ME);
    assert_true(support_wait_until(asks_no_more, &slept, SUPPORT_SOON_MS));
    assert_true(slept);
    assert_int_equal(bytes_of_pages(), KEEP);
}

// ---- many threads, while memory goes

static _Atomic bool over;
static _Atomic uint64_t made;

static void *churn(void *arg)
{
    unsigned random = (unsigned)(uintptr_t)arg;
    while (!over) {
        static const size_t sizes[] = {64, 5000, 65536, 300000, 3 * MIB};
        size_t size = sizes[(size_t)rand_r(&random) % 5];
        int value = rand_r(&random);
        trp_object id = make_object(size, 42, value);
        expect_filled(id, size, value);
        trp_store_release(id, ME);
        made++;
    }
    return NULL;
}

static void test_threads_beside_it(void **state)
{
    (void)state;
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    uint32_t given = atomic_load(&trp_segment.header->given);
    over = false;
    made = 0;
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)), 0);
    int64_t until = support_now_ms() + 1000;
    while (support_now_ms() < until || made < 100 ||
           atomic_load(&trp_segment.header->given) == given)
        (void)trp_pages_give(ME, TRP_PAGES_KEEP);
    over = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    print_message("%llu objects, given %u times\n", (unsigned long long)made,
                  atomic_load(&trp_segment.header->given) - given);
    assert_int_equal(usage().objects, 0);
    give_all();
    expect_exact();
    assert_int_equal(bytes_of_pages(), KEEP);
}

int main(void)
{
#define ROW(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        ROW(test_it_comes_by_little_at_first),
        ROW(test_it_goes_and_comes_back),
        ROW(test_what_is_used_stays),
        ROW(test_what_was_used_lately_stays),
        ROW(test_a_small_program_gives_nothing),
        ROW(test_pages_cut_up_for_small_ones),
        ROW(test_no_memory_to_come_back),
        ROW(test_nothing_is_taken_back),
        ROW(test_what_comes_back_is_mapped),
        ROW(test_all_of_it),
        ROW(test_a_free_rings),
        ROW(test_it_sleeps_in_the_end),
        ROW(test_threads_beside_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
