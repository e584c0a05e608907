// test_store_where.c: objects go to disk and come back: which of them do and which never, in what
// order, what a reader sees, what is lost and what is not when a file is, and what is said where
// there is no room.
#include <support.h>

#include <dirent.h>
#include <pthread.h>
#include <runtime/layout.h>
#include <runtime/spill.h>
#include <runtime/store_room.h>
#include <runtime/store_row.h>
#include <runtime/store_where.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { ME = TRP_PROCESS_DRIVER, OTHER = 9, CAPACITY = 4 << 20, PAGE = 1 << 16 };

static char *base;

static void plan(int64_t most)
{
    trp_spill_plan(&(troupe_options){.spill_dir = base, .spill_bytes_max = most}, "");
}

static int set_up(void **state)
{
    (void)state;
    base = support_directory_make();
    if (trp_segment_create(CAPACITY) != TROUPE_OK)
        return -1;
    trp_store_open(ME);
    trp_segment_process(ME)->state = trp_segment_process(OTHER)->state = TRP_PROCESS_READY;
    plan(1 << 30);
    return 0;
}

static int count_files(void)
{
    int count = 0;
    DIR *all = opendir(trp_spill_folder());
    for (struct dirent *it; all != NULL && (it = readdir(all)) != NULL;)
        count += it->d_name[0] != '.';
    if (all != NULL)
        closedir(all);
    return count;
}

static troupe_store_usage usage(void)
{
    troupe_store_usage now;
    assert_int_equal(trp_store_usage(&now), TROUPE_OK);
    return now;
}

static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(usage().objects, 0);
    assert_int_equal(usage().bytes_used, 0);
    assert_int_equal(usage().bytes_on_disk, 0);
    assert_int_equal(count_files(), 0);
    trp_segment_close();
    support_directory_remove(base);
    return 0;
}

static void fill(void *data, size_t size, uint64_t seed)
{
    for (size_t i = 0; i + 8 <= size; i += 8)
        memcpy((char *)data + i, &(uint64_t){seed * 1000003 + i}, 8);
    memset((char *)data + size / 8 * 8, (int)seed, size % 8);
}

static trp_object make(size_t size, uint64_t seed)
{
    trp_object id;
    void *data;
    if (trp_room_create(size, 1, TRP_ENCODING_BYTES, &id, &data) != TROUPE_OK)
        fail_msg("%s", troupe_last_error()->text);
    fill(data, size, seed);
    assert_int_equal(trp_store_seal(id), TROUPE_OK);
    return id;
}

static void expect_pinned(const trp_object_info *info, size_t size, uint64_t seed)
{
    char *wanted = malloc(size + 1);
    assert_non_null(wanted);
    fill(wanted, size, seed);
    assert_int_equal(info->state, TRP_OBJECT_SEALED);
    assert_int_equal(info->size, size);
    assert_memory_equal(info->data, wanted, size);
    free(wanted);
}

static void expect(trp_object id, size_t size, uint64_t seed)
{
    trp_object_info info = trp_store_pin(id);
    if (info.state == TRP_OBJECT_ABSENT)
        fail_msg("%s", troupe_last_error()->text);
    expect_pinned(&info, size, seed);
    trp_store_unpin(id);
}

// Makes it the one that was used longest ago, by so many milliseconds.
static void age(trp_object id, uint32_t ms)
{
    atomic_store(&trp_object_row_at(trp_row_slot(id))->used_ms, trp_row_now() - ms);
}

static bool on_disk(trp_object id)
{
    return trp_store_look(id).on_disk;
}

static void test_three_times_what_there_is(void **state)
{
    (void)state;
    enum { COUNT = 3 * CAPACITY / 100000 };
    static const size_t sizes[] = {100000, 70000, 200000, 30000, 500, 150000};
    trp_object ids[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        ids[i] = make(sizes[i % 6], i);
    troupe_store_usage now = usage();
    assert_int_equal(now.objects, COUNT);
    assert_true(now.objects_on_disk > COUNT / 2);
    assert_true(now.bytes_on_disk > CAPACITY);
    assert_true(count_files() >= (int)now.objects_on_disk);
    for (size_t round = 0; round < 2; round++)
        for (size_t i = 0; i < COUNT; i++)
            expect(ids[i * 7 % COUNT], sizes[i * 7 % COUNT % 6], i * 7 % COUNT);
    for (size_t i = 0; i < COUNT; i++)
        trp_store_release(ids[i], ME);
}

static void test_what_is_read_stays(void **state)
{
    (void)state;
    trp_object read[8], others[200];
    trp_object_info views[8];
    for (size_t i = 0; i < 8; i++) {
        read[i] = make(PAGE, i);
        views[i] = trp_store_pin(read[i]);
        age(read[i], 10000);
    }
    for (size_t i = 0; i < 200; i++)
        others[i] = make(PAGE, 100 + i);
    for (size_t i = 0; i < 8; i++) {
        assert_false(on_disk(read[i]));
        expect_pinned(&views[i], PAGE, i);
        trp_store_unpin(read[i]);
        age(read[i], 10000);
    }
    trp_object last = make(8 * PAGE, 7);
    for (size_t i = 0; i < 8; i++) {
        assert_true(on_disk(read[i]));
        trp_store_release(read[i], ME); // As it is, on disk.
    }
    for (size_t i = 0; i < 200; i++)
        trp_store_release(others[i], ME);
    trp_store_release(last, ME);
}

static void test_those_used_longest_ago_go_first(void **state)
{
    (void)state;
    enum { COUNT = CAPACITY / PAGE };
    trp_object ids[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        ids[i] = make(PAGE, i);
    for (size_t i = 0; i < COUNT; i++)
        age(ids[i], (uint32_t)(1000 + (i * 5 % COUNT) * 100));
    assert_true(trp_room_make(PAGE));
    // What was asked for and a 32nd of all: three pages, the oldest.
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(on_disk(ids[i]), i * 5 % COUNT >= COUNT - 3);
    for (size_t i = 0; i < COUNT; i++)
        trp_store_release(ids[i], ME);
}

static void test_large_ones_before_small_ones(void **state)
{
    (void)state;
    trp_object small = make(1000, 1), large = make(4 * PAGE, 2), next;
    age(small, 100000);
    assert_true(trp_room_make(1000));
    assert_true(on_disk(large));
    assert_false(on_disk(small));
    assert_true(trp_room_make(1000));
    assert_true(on_disk(small));
    assert_false(trp_room_make(1000)); // There is nothing left.
    next = make(1000, 3);
    expect(small, 1000, 1);
    trp_store_release(small, ME);
    trp_store_release(large, ME);
    trp_store_release(next, ME);
}

static void test_what_never_goes(void **state)
{
    (void)state;
    trp_object ids[6];
    void *data;
    assert_int_equal(trp_store_create(PAGE, 1, TRP_ENCODING_PARCEL, &ids[0], &data), TROUPE_OK);
    assert_int_equal(trp_store_seal(ids[0]), TROUPE_OK);
    assert_int_equal(trp_store_share(PAGE, &ids[1], &data), TROUPE_OK);
    assert_int_equal(trp_store_share_inner(PAGE, PAGE, &ids[2], &data), TROUPE_OK);
    assert_int_equal(trp_store_promise(1, &ids[3]), TROUPE_OK);
    assert_int_equal(trp_store_create(PAGE, 1, TRP_ENCODING_BYTES, &ids[4], &data), TROUPE_OK);
    assert_int_equal(trp_store_promise(1, &ids[5]), TROUPE_OK);
    assert_int_equal(trp_store_fulfil(ids[5], TRP_ENCODING_PACKED, "failure", 7, true), TROUPE_OK);
    // What names others is read when it is freed.
    trp_object list, *named;
    assert_int_equal(trp_store_create(PAGE, 1, TRP_ENCODING_PACKED, &list, (void **)&named),
                     TROUPE_OK);
    named[0] = ids[0];
    assert_int_equal(trp_store_hold(ids[0], ME), TROUPE_OK);
    assert_int_equal(trp_store_contain(list, 1), TROUPE_OK);
    assert_int_equal(trp_store_seal(list), TROUPE_OK);
    assert_false(trp_room_make(1));
    trp_store_release(list, ME);
    assert_non_null(trp_store_look(ids[0]).data); // It need not be pinned.
    assert_int_equal(trp_store_fulfil(ids[3], TRP_ENCODING_PACKED, "value", 5, false), TROUPE_OK);
    assert_true(trp_room_make(1)); // The value of a promise does.
    assert_true(on_disk(ids[3]));
    for (size_t i = 0; i < 6; i++)
        if (i == 4)
            trp_store_discard(ids[i]);
        else
            trp_store_release(ids[i], ME);
}

static void flip(trp_object id, off_t at)
{
    char path[600], byte;
    uint64_t generation = (id & ~TRP_ID_BIT) >> TRP_ID_SLOT_BITS;
    snprintf(path, sizeof path, "%s/%u.%llx", trp_spill_folder(), trp_row_slot(id),
             (unsigned long long)generation);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_int_equal(fread(&byte, 1, 1, file), 1);
    byte = (char)(byte ^ 4);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_int_equal(fwrite(&byte, 1, 1, file), 1);
    assert_int_equal(fclose(file), 0);
}

static void expect_lost(trp_object id)
{
    assert_int_equal(trp_store_pin(id).state, TRP_OBJECT_ABSENT);
    assert_int_equal(troupe_last_error()->status, TROUPE_CORRUPT);
    assert_non_null(strstr(troupe_last_error()->text, trp_spill_folder()));
}

static void test_a_damaged_file_is_one_lost_object(void **state)
{
    (void)state;
    trp_object good = make(PAGE, 1), bad = make(PAGE, 2), gone = make(PAGE, 3);
    assert_true(trp_room_make(3 * PAGE));
    flip(bad, TRP_SPILL_HEADER + 5000);
    trp_spill_remove(gone);
    uint64_t before = usage().bytes_used;
    for (int i = 0; i < 3; i++) { // As often as one likes, and nothing is left of it.
        expect_lost(bad);
        assert_non_null(strstr(troupe_last_error()->text, "damaged"));
        expect_lost(gone);
        assert_non_null(strstr(troupe_last_error()->text, "is gone"));
    }
    assert_int_equal(usage().bytes_used, before);
    assert_int_equal(trp_where_state(atomic_load(&trp_object_row_at(trp_row_slot(bad))->where)),
                     TRP_WHERE_LOST);
    expect(good, PAGE, 1);
    trp_store_release(good, ME);
    trp_store_release(bad, ME);
    trp_store_release(gone, ME);
}

static void test_the_quota(void **state)
{
    (void)state;
    enum { COUNT = CAPACITY / PAGE };
    trp_object ids[COUNT + 10];
    size_t count = 0;
    void *data;
    plan(5 * (PAGE + TRP_SPILL_HEADER));
    while (count < COUNT + 10 &&
           trp_room_create(PAGE, 1, TRP_ENCODING_BYTES, &ids[count], &data) == TROUPE_OK)
        assert_int_equal(trp_store_seal(ids[count++]), TROUPE_OK);
    assert_int_equal(count, COUNT + 5);
    assert_int_equal(trp_room_explain(1234), TROUPE_NO_MEMORY);
    assert_non_null(strstr(troupe_last_error()->text, ".spill_bytes_max"));
    assert_non_null(strstr(troupe_last_error()->text, "after 1234 ms"));
    assert_non_null(strstr(troupe_last_error()->text, "held by driver "));
    while (count > 0)
        trp_store_release(ids[--count], ME);
}

// As a full disk, but for the limit being this process's own.
static void test_a_disk_that_takes_no_more(void **state)
{
    (void)state;
    enum { COUNT = CAPACITY / PAGE };
    trp_object ids[COUNT];
    struct rlimit before, small = {.rlim_cur = 1000};
    for (size_t i = 0; i < COUNT; i++)
        ids[i] = make(PAGE, i);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    trp_object id;
    void *data;
    troupe_status status = trp_room_create(PAGE, 1, TRP_ENCODING_BYTES, &id, &data);
    (void)trp_room_explain(0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, TROUPE_NO_MEMORY);
    assert_non_null(strstr(troupe_last_error()->text, "the disk takes no more"));
    assert_int_equal(usage().objects_on_disk, 0);
    for (size_t i = 0; i < COUNT; i++)
        expect(ids[i], PAGE, i);
    // It is tried again after a second.
    assert_false(trp_room_make(PAGE));
    atomic_fetch_sub(&trp_segment.header->spill_failed_ms, 1000);
    assert_true(trp_room_make(PAGE));
    for (size_t i = 0; i < COUNT; i++)
        trp_store_release(ids[i], ME);
}

static void test_no_room_to_come_back(void **state)
{
    (void)state;
    trp_object away = make(PAGE, 5), wall;
    void *data;
    assert_true(trp_room_make(1));
    // All of the store, by something that cannot go.
    assert_int_equal(trp_store_create(CAPACITY, 1, TRP_ENCODING_PARCEL, &wall, &data), TROUPE_OK);
    assert_int_equal(trp_store_pin(away).state, TRP_OBJECT_ABSENT);
    assert_int_equal(troupe_last_error()->status, TROUPE_NO_MEMORY);
    uint32_t seen = trp_room_expect();
    trp_store_discard(wall);
    trp_room_wait(seen, SUPPORT_SOON_MS); // There is room again: who waits hears of it.
    assert_int_not_equal(trp_room_expect(), seen);
    expect(away, PAGE, 5);
    trp_store_release(away, ME);
}

static void test_nothing_goes_where_none_may(void **state)
{
    (void)state;
    plan(TROUPE_SPILL_NONE);
    trp_object id = make(PAGE, 1);
    assert_false(trp_room_make(1));
    assert_string_equal(trp_spill_folder(), "");
    trp_store_release(id, ME);
}

// ---- threads

enum { THREADS = 4, EACH = 60 };
static trp_object shared[THREADS * EACH];

// Makes some, and reads those of all the others, while the store holds a third of them.
static void *churn(void *from)
{
    size_t at = (size_t)(uintptr_t)from;
    unsigned seed = (unsigned)at + 1;
    for (int i = 0; i < 400; i++) {
        size_t k = (size_t)rand_r(&seed) % (THREADS * EACH);
        trp_object_info info = trp_store_pin(shared[k]);
        if (info.state == TRP_OBJECT_ABSENT && troupe_last_error()->status == TROUPE_NO_MEMORY)
            continue; // The others have all pinned, or were faster.
        if (info.state != TRP_OBJECT_SEALED ||
            *(const uint64_t *)info.data != (uint64_t)k * 1000003 ||
            ((const uint64_t *)info.data)[PAGE / 8 - 1] != (uint64_t)k * 1000003 + PAGE - 8)
            return (void *)1;
        trp_store_unpin(shared[k]);
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS * EACH; i++)
        shared[i] = make(PAGE, i);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, (void *)(uintptr_t)i), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    for (size_t i = 0; i < THREADS * EACH; i++)
        trp_store_release(shared[i], ME);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_three_times_what_there_is),
        TEST(test_what_is_read_stays),
        TEST(test_those_used_longest_ago_go_first),
        TEST(test_large_ones_before_small_ones),
        TEST(test_what_never_goes),
        TEST(test_a_damaged_file_is_one_lost_object),
        TEST(test_the_quota),
        TEST(test_a_disk_that_takes_no_more),
        TEST(test_no_room_to_come_back),
        TEST(test_nothing_goes_where_none_may),
        TEST(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
