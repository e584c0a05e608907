// test_store_room.c: what goes to disk when the store is full: the oldest whose pages lie together,
// so that objects of mixed sizes leave little memory unused.
// timeout: 120
// cost: 8
#include "stores.h"

#include <runtime/shm/layout.h>
#include <runtime/shm/pages_internal.h>
#include <runtime/shm/segment.h>
#include <runtime/store/eviction.h>
#include <runtime/store/read.h>
#include <runtime/store/reap.h>
#include <runtime/store/spill_file.h>
#include <runtime/store/store.h>
#include <stdlib.h>
#include <string.h>

enum {
    ME = TRP_PROCESS_DRIVER,
    CAPACITY = 128 << 20,
    PAIRS = CAPACITY / TRP_PAGE_SIZE / 2, // Objects of two pages that fill the store.
    SIZE_MOST = CAPACITY / 128,
    OBJECTS_MAX = 4096,
    READY = 8192,                           // Steps until the store is as it will be, and
    STEPS = READY + 16384 / SUPPORT_SLOWER, // steps in all.
    USED_LEAST = 88,
};

static char *base;

static int set_up(void **state)
{
    (void)state;
    base = support_directory_make();
    return open_spilling(CAPACITY, ME, base);
}

static int tear_down(void **state)
{
    (void)state;
    trp_segment_close();
    support_directory_remove(base);
    return 0;
}

static trp_object put(size_t size)
{
    trp_object id;
    void *data;
    assert_int_equal(trp_room_create(size, 1, TRP_ENCODING_BYTES, &id, &data), TROUPE_OK);
    memset(data, (int)size, size);
    assert_int_equal(trp_store_seal(id), TROUPE_OK);
    return id;
}

static void read_one(trp_object id)
{
    trp_object_info info = trp_store_pin(id);
    assert_int_equal(info.state, TRP_OBJECT_SEALED);
    assert_int_equal(((const unsigned char *)info.data)[info.size - 1], (unsigned char)info.size);
    trp_store_unpin(id);
}

static uint64_t on_disk(void)
{
    troupe_store_usage now;
    assert_int_equal(trp_store_usage(&now), TROUPE_OK);
    return now.objects_on_disk;
}

static void wait_for_clock(void)
{
    int64_t now_ms = support_now_ms();
    while (support_now_ms() < now_ms + 2)
        continue;
}

// ---- which go

static trp_object pairs[PAIRS];

static int by_address(const void *one, const void *other)
{
    const void *at[2];
    const trp_object *ids[2] = {one, other};
    for (int i = 0; i < 2; i++) {
        at[i] = trp_store_pin(*ids[i]).data;
        trp_store_unpin(*ids[i]);
    }
    return (at[0] > at[1]) - (at[0] < at[1]);
}

// Fills the store with objects of two pages, every other one of which was used later.
static void fill_with_pairs(void)
{
    for (int i = 0; i < PAIRS; i++)
        pairs[i] = put((size_t)2 * TRP_PAGE_SIZE);
    qsort(pairs, PAIRS, sizeof pairs[0], by_address);
    wait_for_clock();
    for (int i = 1; i < PAIRS; i += 2)
        read_one(pairs[i]);
    wait_for_clock();
    assert_int_equal(on_disk(), 0);
}

static void drop_pairs(void)
{
    for (int i = 0; i < PAIRS; i++)
        trp_store_release(pairs[i], ME);
}

// No two of the older half are neighbours, so all of them together would make no room.
static void test_neighbours_go(void **state)
{
    (void)state;
    fill_with_pairs();
    trp_object id = put((size_t)8 * TRP_PAGE_SIZE);
    assert_int_equal(on_disk(), 4);
    trp_store_release(id, ME);
    drop_pairs();
}

static void test_what_is_read_is_passed_by(void **state)
{
    (void)state;
    fill_with_pairs();
    for (int i = 1; i < PAIRS - 16; i += 2)
        (void)trp_store_pin(pairs[i]);
    trp_object id = put((size_t)8 * TRP_PAGE_SIZE);
    assert_int_equal(on_disk(), 4);
    for (int i = 1; i < PAIRS - 16; i += 2)
        trp_store_unpin(pairs[i]);
    trp_store_release(id, ME);
    drop_pairs();
}

// Where nothing can lie together the oldest go, as long as there are any: then there is no room.
static void test_no_run_at_all(void **state)
{
    (void)state;
    trp_object id;
    void *data;
    fill_with_pairs();
    for (int i = 1; i < PAIRS; i += 2)
        (void)trp_store_pin(pairs[i]);
    assert_int_equal(trp_room_create((size_t)4 * TRP_PAGE_SIZE, 1, TRP_ENCODING_BYTES, &id, &data),
                     TROUPE_NO_MEMORY);
    assert_int_equal(on_disk(), PAIRS / 2);
    for (int i = 1; i < PAIRS; i += 2)
        trp_store_unpin(pairs[i]);
    drop_pairs();
}

// ---- how much is in use

static uint64_t dice = 20261122;

static uint64_t roll(void) // Steele, Lea, Flood: SplitMix64.
{
    uint64_t z = dice += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

// One of eight has up to the most, three have some pages, and four are cut from one.
static size_t some_size(void)
{
    switch (roll() % 8) {
    case 0:
        return SIZE_MOST / 8 + roll() % (SIZE_MOST / 8 * 7);
    case 1:
    case 2:
    case 3:
        return SIZE_MOST / 64 + roll() % (SIZE_MOST / 8);
    default:
        return 8 + roll() % 8000;
    }
}

static double percent_used(void)
{
    uint32_t backed = trp_pages_backed(), used = 0;
    for (uint32_t page = 0; page < backed; page++)
        used += !trp_owner_is_free(atomic_load(trp_page_owner(page)));
    return 100.0 * used / trp_segment.header->pages_max;
}

static struct {
    trp_object ids[OBJECTS_MAX];
    size_t sizes[OBJECTS_MAX];
    size_t count, bytes;
} held;

static void drop_one(void)
{
    size_t which = roll() % held.count, last = --held.count;
    trp_store_release(held.ids[which], ME);
    held.bytes -= held.sizes[which];
    held.ids[which] = held.ids[last];
    held.sizes[which] = held.sizes[last];
}

// More is held than fits, and read at random.
static void step(void)
{
    if (held.count > 0 && roll() % 2 == 0) {
        read_one(held.ids[roll() % held.count]);
        return;
    }
    size_t size = some_size();
    while (held.count == OBJECTS_MAX || held.bytes + size > (size_t)CAPACITY / 10 * 14)
        drop_one();
    held.ids[held.count] = put(size);
    held.sizes[held.count++] = size;
    held.bytes += size;
}

static void test_most_is_in_use(void **state)
{
    (void)state;
    double sum = 0, least = 100;
    int looks = 0;
    for (int i = 0; i < STEPS; i++) {
        step();
        if (i < READY || i % 16 != 0)
            continue;
        double now = percent_used();
        sum += now;
        least = now < least ? now : least;
        looks++;
    }
    print_message("of the memory of a full store %.1f %% are in use, at the least %.1f %%\n",
                  sum / looks, least);
    assert_true(sum / looks >= USED_LEAST);
    while (held.count > 0)
        drop_one();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_neighbours_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_read_is_passed_by, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_run_at_all, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_most_is_in_use, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
