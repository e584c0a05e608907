// test_store_where.c: objects go to disk and come back: which of them do and which never, in what
// order, what a reader sees, what is lost and what is not when a file is, and what is said where
// there is no room.
#include "stores.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <runtime/shm/layout.h>
#include <runtime/store/eviction.h>
#include <runtime/store/nested.h>
#include <runtime/store/read.h>
#include <runtime/store/residency.h>
#include <runtime/store/row.h>
#include <runtime/store/spill_file.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

enum { ME = TRP_PROCESS_DRIVER, OTHER = 9, CAPACITY = 4 << 20, PAGE = 1 << 16 };

static char *base;

static void plan(int64_t most)
{
    trp_spill_plan(&(troupe_options){.spill_dir = base, .spill_bytes_max = most});
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

static int tear_down(void **state)
{
    (void)state;
    expect_empty();
    assert_int_equal(support_count_files(trp_spill_folder()), 0);
    trp_segment_close();
    support_directory_remove(base);
    return 0;
}

static trp_object make(size_t size, uint64_t seed)
{
    trp_object id;
    void *data;
    if (trp_room_create(size, 1, TRP_ENCODING_BYTES, &id, &data) != TROUPE_OK)
        fail_msg("%s", troupe_last_error()->text);
    support_fill(data, size, seed);
    assert_int_equal(trp_store_seal(id), TROUPE_OK);
    return id;
}

static void expect_pinned(const trp_object_info *info, size_t size, uint64_t seed)
{
    assert_int_equal(info->state, TRP_OBJECT_SEALED);
    assert_int_equal(info->size, size);
    assert_true(support_is_filled(info->data, size, seed));
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
    assert_true(support_count_files(trp_spill_folder()) > 0);
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

// Others read while one looks for what is to go: they have noted a later hour than the look's.
static void test_what_is_used_meanwhile_is_not_the_oldest(void **state)
{
    (void)state;
    trp_object old = make(4 * PAGE, 1), used = make(PAGE, 2);
    age(old, 100);
    age(used, (uint32_t)-500);
    assert_true(trp_room_make(1));
    assert_true(on_disk(old) && !on_disk(used));
    trp_store_release(old, ME);
    trp_store_release(used, ME);
    assert_int_equal(trp_row_age(7, 5), 0);
    assert_int_equal(trp_row_age(UINT32_MAX - 1, 5), 7); // The hour has wrapped round.
    assert_int_equal(trp_row_age(5, 40u * 86400000 + 5), 40u * 86400000);
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
    snprintf(path, sizeof path, "%s/small", trp_spill_folder());
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    at += (off_t)trp_row_slot(id) * TRP_SPILL_PART;
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte = (char)(byte ^ 4);
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
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
    while (!on_disk(good) || !on_disk(bad) || !on_disk(gone))
        assert_true(trp_room_make(1));
    flip(bad, TRP_SPILL_HEADER + 5000);
    trp_spill_remove(&(trp_spill_object){.id = gone, .size = PAGE});
    uint64_t before = usage().bytes_used;
    for (int i = 0; i < 3; i++) { // As often as one likes, and nothing is left of it.
        expect_lost(bad);
        assert_non_null(strstr(troupe_last_error()->text, "damaged"));
        expect_lost(gone);
        assert_non_null(strstr(troupe_last_error()->text, "it is incomplete"));
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

// No file can be written from here to limit_end.
static void limit_begin(struct rlimit *before)
{
    assert_int_equal(getrlimit(RLIMIT_FSIZE, before), 0);
    struct rlimit small = {.rlim_cur = 1000, .rlim_max = before->rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
}

static void limit_end(const struct rlimit *before)
{
    assert_int_equal(setrlimit(RLIMIT_FSIZE, before), 0);
}

static void test_what_came_back_goes_again_without_a_write(void **state)
{
    (void)state;
    struct rlimit before;
    trp_object id = make(PAGE, 1);
    assert_true(trp_room_make(1));
    assert_true(on_disk(id));
    limit_begin(&before);
    for (int i = 0; i < 3; i++) {
        expect(id, PAGE, 1);
        assert_false(on_disk(id));
        assert_int_equal(usage().bytes_on_disk, PAGE + TRP_SPILL_HEADER);
        assert_true(trp_room_make(1));
        assert_true(on_disk(id));
    }
    limit_end(&before);
    expect(id, PAGE, 1);
    trp_store_release(id, ME); // In memory, with a file.
}

// Files of what has come back give way to those of what is to go.
static void test_the_quota_is_for_what_is_not_in_memory(void **state)
{
    (void)state;
    enum { COUNT = CAPACITY / PAGE, FILES = 5, ALL = COUNT + FILES };
    trp_object ids[ALL], too_many;
    void *data;
    plan(FILES * (PAGE + TRP_SPILL_HEADER));
    for (size_t i = 0; i < ALL - 1; i++)
        ids[i] = make(PAGE, i);
    for (size_t i = 0; i < 3 * ALL; i++) { // Whatever is read, another goes.
        size_t k = i * 7 % (ALL - 1);
        expect(ids[k], PAGE, k);
        assert_true(usage().bytes_on_disk <= FILES * (PAGE + TRP_SPILL_HEADER));
    }
    assert_int_equal(usage().objects_on_disk, FILES - 1);
    ids[ALL - 1] = make(PAGE, ALL - 1);
    assert_int_equal(usage().objects_on_disk, FILES);
    assert_int_equal(trp_room_create(PAGE, 1, TRP_ENCODING_BYTES, &too_many, &data),
                     TROUPE_NO_MEMORY);
    for (size_t i = 0; i < ALL; i++)
        trp_store_release(ids[i], ME);
}

// A disk that is full before the limit is reached.
static void test_a_full_disk(void **state)
{
    (void)state;
    enum { COUNT = CAPACITY / PAGE, MOST = COUNT + 64 };
    static trp_object ids[MOST];
    size_t count = 0;
    void *data;
    if (mount("tmpfs", base, "tmpfs", 0, "size=1m")) {
        print_message("skipped: no file system can be mounted here (%s)\n", strerror(errno));
        skip();
    }
    while (count < MOST &&
           trp_room_create(PAGE, 1, TRP_ENCODING_BYTES, &ids[count], &data) == TROUPE_OK) {
        support_fill(data, PAGE, count);
        assert_int_equal(trp_store_seal(ids[count++]), TROUPE_OK);
    }
    assert_true(count > COUNT + 8 && count < COUNT + 16); // As many as the disk takes.
    (void)trp_room_explain(0);
    assert_non_null(strstr(troupe_last_error()->text, "the disk takes no more: No space left"));
    // None is lost. With room for one, files of what has come back give way to those of others.
    trp_store_release(ids[--count], ME);
    for (size_t i = 0; i < 2 * count; i++) {
        atomic_store(&trp_segment.header->spill_failed_ms, 0);
        expect(ids[i % count], PAGE, i % count);
    }
    while (count > 0)
        trp_store_release(ids[--count], ME);
    assert_int_equal(support_count_files(trp_spill_folder()), 0);
    assert_int_equal(umount2(base, MNT_DETACH), 0);
}

// As a full disk, but for the limit being this process's own.
static void test_a_disk_that_takes_no_more(void **state)
{
    (void)state;
    enum { COUNT = CAPACITY / PAGE };
    trp_object ids[COUNT];
    struct rlimit before;
    for (size_t i = 0; i < COUNT; i++)
        ids[i] = make(PAGE, i);
    trp_object id;
    void *data;
    limit_begin(&before);
    troupe_status status = trp_room_create(PAGE, 1, TRP_ENCODING_BYTES, &id, &data);
    (void)trp_room_explain(0);
    limit_end(&before);
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

// Each object has a place in the table, wherever its bytes are: what goes to disk frees none.
static void test_nothing_goes_for_want_of_places(void **state)
{
    (void)state;
    enum { VALUES = 8 };
    static trp_object ids[TRP_OBJECTS_MAX];
    trp_object more;
    void *data;
    size_t count = 0;
    for (; count < VALUES; count++)
        ids[count] = make(PAGE, count);
    while (count < TRP_OBJECTS_MAX && trp_store_promise(1, &ids[count]) == TROUPE_OK)
        count++;
    assert_int_equal(count, TRP_OBJECTS_MAX);
    assert_int_equal(trp_room_create(PAGE, 1, TRP_ENCODING_BYTES, &more, &data), TROUPE_NO_MEMORY);
    assert_int_equal(usage().objects_on_disk, 0);
    assert_int_equal(trp_room_explain(0), TROUPE_NO_MEMORY);
    assert_non_null(strstr(troupe_last_error()->text, "places for objects of the store are taken"));
    assert_non_null(strstr(troupe_last_error()->text, "keeps its place on disk"));
    while (count > VALUES)
        trp_store_discard(ids[--count]);
    while (count > 0)
        trp_store_release(ids[--count], ME);
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
    plan(TROUPE_NONE);
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
        if (info.state != TRP_OBJECT_SEALED || !support_is_filled(info.data, PAGE, k))
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
    support_allow_mounts();
    (void)signal(SIGXFSZ, SIG_IGN); // What is printed under a limit may go to a file.
    const struct CMUnitTest tests[] = {
        TEST(test_three_times_what_there_is),
        TEST(test_what_is_read_stays),
        TEST(test_those_used_longest_ago_go_first),
        TEST(test_what_is_used_meanwhile_is_not_the_oldest),
        TEST(test_large_ones_before_small_ones),
        TEST(test_what_never_goes),
        TEST(test_a_damaged_file_is_one_lost_object),
        TEST(test_the_quota),
        TEST(test_what_came_back_goes_again_without_a_write),
        TEST(test_the_quota_is_for_what_is_not_in_memory),
        TEST(test_a_full_disk),
        TEST(test_a_disk_that_takes_no_more),
        TEST(test_nothing_goes_for_want_of_places),
        TEST(test_no_room_to_come_back),
        TEST(test_nothing_goes_where_none_may),
        TEST(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
