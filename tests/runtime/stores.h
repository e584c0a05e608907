// stores.h: what tests of the store share: an object, and what the store has in the end.
#ifndef TROUPE_TEST_STORES_H
#define TROUPE_TEST_STORES_H

#include <support.h>

#include <runtime/shm/segment.h>
#include <runtime/store/read.h>
#include <runtime/store/reap.h>
#include <runtime/store/spill_file.h>
#include <runtime/store/store.h>
#include <string.h>
#include <sys/resource.h>

// A segment whose objects this process, of that number, makes, and may bring to files in `folder`.
// Returns 0, or -1 if there is no memory.
TROUPE_UNUSED static int open_spilling(size_t capacity, uint32_t process, const char *folder)
{
    if (trp_segment_create(capacity) != TROUPE_OK)
        return -1;
    trp_segment_process(process)->state = TRP_PROCESS_READY;
    trp_store_open(process);
    trp_spill_plan(&(troupe_options){.spill_dir = folder, .spill_bytes_max = 1 << 30});
    return 0;
}

// Sealed, held once by this process, with all its bytes the same.
TROUPE_UNUSED static trp_object make_object(size_t size, uint64_t schema, int fill)
{
    trp_object id;
    void *data;
    assert_int_equal(trp_store_create(size, schema, TRP_ENCODING_BYTES, &id, &data), TROUPE_OK);
    assert_int_equal((uintptr_t)data % 64, 0);
    memset(data, fill, size);
    assert_int_equal(trp_store_seal(id), TROUPE_OK);
    return id;
}

// Looks at all bytes of one that make_object has made.
TROUPE_UNUSED static void expect_filled(trp_object id, size_t size, int fill)
{
    trp_object_info info = trp_store_pin(id);
    assert_int_equal(info.state, TRP_OBJECT_SEALED);
    const unsigned char *data = info.data;
    assert_int_equal(data[0], (unsigned char)fill);
    assert_memory_equal(data, data + 1, size - 1);
    trp_store_unpin(id);
}

// Fills a large object that was mapped in one go before: with next to no faults.
TROUPE_UNUSED static void expect_mapped_ahead(size_t size)
{
    enum { SMALL_PAGE = 4096, SHARE = 16 };
    trp_object id;
    void *data;
    struct rusage before, after;
    assert_int_equal(trp_store_create(size, 42, TRP_ENCODING_BYTES, &id, &data), TROUPE_OK);
    assert_int_equal(getrusage(RUSAGE_THREAD, &before), 0);
    memset(data, 1, size);
    assert_int_equal(getrusage(RUSAGE_THREAD, &after), 0);
    assert_in_range(after.ru_minflt - before.ru_minflt, 0, size / SMALL_PAGE / SHARE);
    trp_store_discard(id);
}

TROUPE_UNUSED static troupe_store_usage usage(void)
{
    troupe_store_usage now;
    assert_int_equal(trp_store_usage(&now), TROUPE_OK);
    return now;
}

TROUPE_UNUSED static void expect_empty_after(const char *what, long point)
{
    troupe_store_usage now = usage();
    if (now.objects != 0 || now.bytes_used != 0 || now.bytes_on_disk != 0)
        fail_msg("after %s, point %ld: %llu objects, %llu bytes, and %llu on disk are left", what,
                 point, (unsigned long long)now.objects, (unsigned long long)now.bytes_used,
                 (unsigned long long)now.bytes_on_disk);
}

TROUPE_UNUSED static void expect_empty(void)
{
    expect_empty_after("all of it", 0);
}

// For cmocka: after a test.
TROUPE_UNUSED static int close_store(void **state)
{
    (void)state;
    trp_segment_close();
    return 0;
}

#endif
