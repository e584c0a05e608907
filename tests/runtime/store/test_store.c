// test_store.c: objects in the segment: the contract of each function of store.h, in one process
// and in several.
#include "stores.h"

#include <pthread.h>
#include <runtime/shm/layout.h>
#include <runtime/shm/segment.h>
#include <runtime/store/holds.h>
#include <runtime/store/read.h>
#include <runtime/store/reap.h>
#include <runtime/store/row.h>
#include <runtime/store/store.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ME = TRP_PROCESS_DRIVER, OTHER = 5, CAPACITY = 8 << 20 };

static int set_up(void **state)
{
    (void)state;
    if (trp_segment_create(CAPACITY) != TROUPE_OK)
        return -1;
    trp_segment_process(OTHER)->state = TRP_PROCESS_READY;
    trp_store_open(ME);
    return 0;
}

static trp_object make(size_t size, int fill)
{
    return make_object(size, 42, fill);
}

static void test_put_look_release(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 64, 65, 4096, 16384, 16385, 65536, 65537, 1 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        trp_object id = make(sizes[i], (int)i + 1);
        assert_null(trp_store_look(id).data); // Not pinned: it might be on disk.
        trp_object_info info = trp_store_pin(id);
        assert_int_equal(info.state, TRP_OBJECT_SEALED);
        assert_int_equal(info.size, sizes[i]);
        assert_int_equal(info.schema, 42);
        for (size_t k = 0; k < sizes[i]; k += 997)
            assert_int_equal(((const unsigned char *)info.data)[k], i + 1);
        trp_store_unpin(id);
        assert_int_equal(usage().objects, 1);
        assert_true(usage().bytes_used >= sizes[i]);
        trp_store_release(id, ME);
        assert_int_equal(trp_store_look(id).state, TRP_OBJECT_GONE);
        expect_empty();
    }
}

static void test_a_small_program_stays_small(void **state)
{
    (void)state;
    assert_true(usage().bytes_backed <= 1 << 20); // The tables that are there from the start.
    trp_object id = make(100, 1);
    assert_true(usage().bytes_backed <= 2 << 20); // And 1 MiB of space for objects.
    trp_store_release(id, ME);
}

static void test_misuse_is_refused(void **state)
{
    (void)state;
    trp_object id, filling;
    void *data;
    id = make(100, 1);
    assert_int_equal(trp_store_seal(id), TROUPE_INVALID);
    trp_store_discard(id); // Sealed: nothing happens.
    assert_int_equal(trp_store_look(id).state, TRP_OBJECT_SEALED);
    trp_store_release(id, ME);
    trp_store_release(id, ME); // Stale: nothing happens.
    assert_int_equal(trp_store_seal(id), TROUPE_INVALID);
    assert_int_equal(trp_store_hold(id, OTHER), TROUPE_INVALID);
    assert_int_equal(trp_store_hold(12345, ME), TROUPE_INVALID);
    assert_int_equal(trp_store_look(~UINT64_C(0)).state, TRP_OBJECT_GONE);

    trp_object next = make(100, 2); // May have the same place; the old id stays stale.
    assert_int_not_equal(next, id);
    assert_int_equal(trp_store_look(id).state, TRP_OBJECT_GONE);
    trp_store_release(next, ME);

    assert_int_equal(trp_store_create(CAPACITY + 1, 0, TRP_ENCODING_BYTES, &id, &data),
                     TROUPE_TOO_LARGE);
    assert_int_equal(trp_store_create(100, 0, TRP_ENCODING_BYTES, &filling, &data), TROUPE_OK);
    assert_int_equal(trp_store_look(filling).state, TRP_OBJECT_FILLING);
    assert_null(trp_store_look(filling).data);
    trp_store_discard(filling);
    assert_int_equal(trp_store_look(filling).state, TRP_OBJECT_GONE);
    expect_empty();
}

static void test_a_view_cannot_be_written(void **state)
{
    (void)state;
    trp_object id = make(1000, 7);
    volatile char *data = (volatile char *)(uintptr_t)trp_store_pin(id).data;
    pid_t child = fork();
    if (child == 0) {
        (void)signal(SIGSEGV, SIG_DFL);
        data[10] = 1;
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    assert_int_equal(data[10], 7);
    trp_store_unpin(id);
    trp_store_release(id, ME);
}

static void test_exhaustion_and_recovery(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++) {
        trp_object ids[CAPACITY / (1 << 16) + 1];
        size_t count = 0;
        void *data;
        while (trp_store_create(1 << 16, 0, TRP_ENCODING_BYTES, &ids[count], &data) == TROUPE_OK) {
            memset(data, 1, 1 << 16);
            count++;
        }
        assert_int_equal(count, CAPACITY / (1 << 16));
        assert_non_null(strstr(troupe_last_error()->text, ".store_bytes_max"));
        for (size_t i = 0; i < count; i++)
            trp_store_discard(ids[i]);
        expect_empty();
        // The same space serves small objects, and large ones again afterwards.
        enum { SMALL = 20000 };
        static trp_object small[SMALL];
        for (size_t i = 0; i < SMALL; i++)
            small[i] = make(200, (int)i);
        for (size_t i = 0; i < SMALL; i++) {
            assert_int_equal(*(const unsigned char *)trp_store_pin(small[i]).data, i & 0xff);
            trp_store_unpin(small[i]);
        }
        for (size_t i = 0; i < SMALL; i++)
            trp_store_release(small[i], ME);
        expect_empty();
    }
}

// A large object's pages are mapped when its space is taken: who fills it meets no faults.
static void test_large_objects_are_mapped(void **state)
{
    (void)state;
    enum { LARGE = 4 << 20, SYSTEM_PAGE = 4096, POPULATE_READ = 22 };
    if (madvise(trp_segment.base, SYSTEM_PAGE, POPULATE_READ) != 0)
        skip(); // The system cannot.
#if defined(__SANITIZE_THREAD__)
    skip(); // Its own memory for what is written has faults, too.
#endif
    expect_mapped_ahead(LARGE);
}

// Objects of more pages than a search looks at come back to the places of those before them, also
// where these were freed in another order than the last hints remember.
static void test_large_objects_come_back(void **state)
{
    (void)state;
    enum { COUNT = 4, LARGE = 1100 * TRP_PAGE_SIZE, ROUNDS = 5 };
    trp_segment_close();
    assert_int_equal(trp_segment_create((size_t)LARGE * 2 * COUNT), TROUPE_OK);
    trp_store_open(ME);
    trp_object ids[COUNT];
    uint64_t backed = 0;
    for (int round = 0; round < ROUNDS; round++) {
        void *data;
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(trp_store_create(LARGE, 42, TRP_ENCODING_BYTES, &ids[i], &data),
                             TROUPE_OK);
        for (int i = 0; i < COUNT; i++) // What is not sealed is freed where it is discarded.
            trp_store_discard(ids[(i * 3) % COUNT]);
        if (round == 0)
            backed = usage().bytes_backed;
    }
    assert_int_equal(usage().bytes_backed, backed);
}

static void test_holds_of_several_processes(void **state)
{
    (void)state;
    trp_object id = make(100, 1);
    assert_int_equal(trp_store_hold(id, OTHER), TROUPE_OK);
    assert_int_equal(trp_store_hold(id, OTHER), TROUPE_OK);
    trp_store_release(id, ME);
    assert_int_equal(trp_store_look(id).state, TRP_OBJECT_SEALED);
    trp_store_release(id, OTHER);
    assert_int_equal(trp_store_look(id).state, TRP_OBJECT_SEALED);
    trp_segment_process(OTHER)->state = TRP_PROCESS_DEAD;
    trp_store_sweep(OTHER);
    assert_int_equal(trp_store_look(id).state, TRP_OBJECT_GONE);

    // A hold for a process that is dead and swept leaves nothing behind.
    id = make(100, 1);
    assert_int_equal(trp_store_hold(id, OTHER), TROUPE_OK);
    trp_store_release(id, ME);
    expect_empty();
}

static void test_pins(void **state)
{
    (void)state;
    trp_object id = make(100, 7);
    uint32_t slot = trp_row_slot(id);
    assert_false(trp_ledger_pinned(slot, ME));
    trp_object_info info = trp_store_pin(id);
    assert_int_equal(info.state, TRP_OBJECT_SEALED);
    assert_int_equal(trp_store_pin(id).state, TRP_OBJECT_SEALED);
    assert_true(trp_ledger_pinned(slot, OTHER)); // Whoever asks.

    // A pin is a hold.
    trp_store_release(id, ME);
    assert_int_equal(*(const unsigned char *)info.data, 7);
    trp_store_unpin(id);
    assert_true(trp_ledger_pinned(slot, ME));
    trp_store_unpin(id);
    assert_int_equal(trp_store_look(id).state, TRP_OBJECT_GONE);
    trp_store_unpin(id); // Once too often: nothing.
    assert_int_equal(trp_store_pin(id).state, TRP_OBJECT_GONE);

    // Without a pin there is nothing to unpin: the hold stays.
    id = make(100, 7);
    trp_store_unpin(id);
    assert_int_equal(trp_store_look(id).state, TRP_OBJECT_SEALED);
    trp_store_release(id, ME);

    // What is not settled is not pinned.
    trp_object promised;
    assert_int_equal(trp_store_promise(1, &promised), TROUPE_OK);
    assert_int_equal(trp_store_pin(promised).state, TRP_OBJECT_FILLING);
    assert_false(trp_ledger_pinned(trp_row_slot(promised), ME));
    trp_store_discard(promised);
    expect_empty();
}

// The node process takes over what dead ones held, however often: at the last number that can be
// counted it goes on holding. Others are told.
static void test_counts_at_their_end(void **state)
{
    (void)state;
    enum { MOST = 65535 };
    trp_object id = make(100, 1);
    uint32_t slot = trp_row_slot(id);
    bool first = true;
    assert_int_equal(trp_store_hold(id, OTHER), TROUPE_OK); // Others know of it.
    assert_int_equal(trp_ledger_take(OTHER, slot), 1);
    assert_int_equal(trp_ledger_reserve(TRP_PROCESS_NODE, slot), TROUPE_OK);
    for (int i = 0; i < MOST; i++) {
        assert_int_equal(trp_ledger_add(OTHER, slot, &first), TROUPE_OK);
        assert_int_equal(first, i == 0);
        assert_int_equal(trp_ledger_add(TRP_PROCESS_NODE, slot, &first), TROUPE_OK);
        assert_int_equal(first, i == 0);
    }
    assert_int_equal(trp_ledger_add(OTHER, slot, &first), TROUPE_NO_MEMORY);
    assert_non_null(strstr(troupe_last_error()->text, "process 5 holds one object 65535 times"));
    first = true;
    assert_int_equal(trp_ledger_add(TRP_PROCESS_NODE, slot, &first), TROUPE_OK);
    assert_false(first);
    for (int i = 0; i < MOST; i++)
        assert_int_equal(trp_ledger_take(OTHER, slot), MOST - i);
    assert_int_equal(trp_ledger_take(OTHER, slot), 0);
    for (int i = 0; i < MOST + 10; i++)
        assert_int_equal(trp_ledger_take(TRP_PROCESS_NODE, slot), MOST);
    trp_store_release(id, ME);
    assert_int_equal(trp_store_look(id).state, TRP_OBJECT_SEALED); // As long as the node.
}

static void *fulfil_later(void *id)
{
    usleep(20000);
    assert_int_equal(trp_store_fulfil(*(trp_object *)id, TRP_ENCODING_PACKED, "value", 6, false),
                     TROUPE_OK);
    return NULL;
}

static void test_promises(void **state)
{
    (void)state;
    trp_object id;
    pthread_t thread;
    assert_int_equal(trp_store_promise(7, &id), TROUPE_OK);
    assert_int_equal(trp_store_wait(id, 10).state, TRP_OBJECT_FILLING);
    assert_int_equal(pthread_create(&thread, NULL, fulfil_later, &id), 0);
    trp_object_info info = trp_store_wait(id, SUPPORT_SOON_MS);
    assert_int_equal(info.state, TRP_OBJECT_SEALED);
    assert_string_equal(trp_store_pin(id).data, "value");
    trp_store_unpin(id);
    assert_int_equal(info.encoding, TRP_ENCODING_PACKED);
    pthread_join(thread, NULL);
    assert_int_equal(trp_store_fulfil(id, TRP_ENCODING_PACKED, "", 0, false), TROUPE_INVALID);
    trp_store_release(id, ME);

    // Dropped by all before it was fulfilled: gone once it is.
    assert_int_equal(trp_store_promise(7, &id), TROUPE_OK);
    trp_store_release(id, ME);
    assert_int_equal(trp_store_fulfil(id, TRP_ENCODING_PACKED, "x", 1, true), TROUPE_OK);
    expect_empty();
}

// Its maker dies: who holds it sees a failure, without bytes; also while the node stops.
static void test_a_maker_dies(void **state)
{
    (void)state;
    for (int last = 0; last < 2; last++) {
        trp_object id;
        trp_segment_process(OTHER)->state = TRP_PROCESS_READY;
        trp_store_admit(OTHER);
        trp_store_open(OTHER);
        assert_int_equal(trp_store_promise(7, &id), TROUPE_OK);
        trp_store_open(ME);
        assert_int_equal(trp_store_hold(id, ME), TROUPE_OK);
        trp_segment_process(OTHER)->state = TRP_PROCESS_DEAD;
        if (last != 0)
            trp_store_sweep_last((uint32_t[]){OTHER}, 1);
        else
            trp_store_sweep(OTHER);
        trp_object_info info = trp_store_wait(id, 0);
        assert_int_equal(info.state, TRP_OBJECT_FAILED);
        assert_null(info.data);
        trp_store_sweep(OTHER);
        trp_store_release(id, ME);
        expect_empty();
    }
}

// Given up while another process holds it and waits: to that one it has failed.
static void test_a_promise_given_up(void **state)
{
    (void)state;
    trp_object id;
    assert_int_equal(trp_store_promise(7, &id), TROUPE_OK);
    assert_int_equal(trp_store_hold(id, OTHER), TROUPE_OK);
    trp_store_discard(id);
    trp_store_discard(id); // Nothing happens.
    trp_object_info info = trp_store_wait(id, 0);
    assert_int_equal(info.state, TRP_OBJECT_FAILED);
    assert_null(info.data);
    trp_store_release(id, OTHER);
    expect_empty();

    assert_int_equal(trp_store_promise(7, &id), TROUPE_OK);
    trp_store_discard(id);
    expect_empty();
}

static void test_shared_memory(void **state)
{
    (void)state;
    trp_object id;
    void *data;
    make(200000, 9); // Dirty pages that the shared ones may reuse.
    trp_store_release(make(200000, 9), ME);
    assert_int_equal(trp_store_share(200000, &id, &data), TROUPE_OK);
    for (size_t i = 0; i < 200000; i++)
        assert_int_equal(((char *)data)[i], 0);
    pid_t child = fork();
    if (child == 0) {
        trp_object_info info = trp_store_look(id);
        if (info.state != TRP_OBJECT_SHARED)
            _exit(1);
        strcpy((char *)(uintptr_t)info.data, "from the child");
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_string_equal(data, "from the child");
    trp_store_release(id, ME);
}

static void test_attach(void **state)
{
    (void)state;
    char junk[4096] = "junk";
    int fd = memfd_create("junk", 0);
    assert_int_equal(trp_segment_attach(fd), TROUPE_CORRUPT);
    assert_int_equal(write(fd, junk, sizeof junk), sizeof junk);
    assert_int_equal(write(fd, junk, sizeof junk), sizeof junk);
    assert_int_equal(write(fd, junk, sizeof junk), sizeof junk);
    assert_int_equal(write(fd, junk, sizeof junk), sizeof junk);
    assert_int_equal(trp_segment_attach(fd), TROUPE_CORRUPT);
    trp_header header = *trp_segment.header;
    header.version++;
    assert_int_equal(pwrite(fd, &header, sizeof header, 0), sizeof header);
    assert_int_equal(trp_segment_attach(fd), TROUPE_VERSION);
    header.version--;
    header.capacity *= 2;
    assert_int_equal(pwrite(fd, &header, sizeof header, 0), sizeof header);
    assert_int_equal(trp_segment_attach(fd), TROUPE_CORRUPT);
    close(fd);

    trp_object id = make(10, 3);
    fd = dup(trp_segment_fd());
    trp_segment_close();
    assert_int_equal(trp_segment_attach(fd), TROUPE_OK);
    assert_int_equal(*(const char *)trp_store_pin(id).data, 3);
}

// ---- many threads

static void *churn(void *seed)
{
    unsigned random = *(unsigned *)seed;
    trp_object mine[32] = {0};
    for (int i = 0; i < 4000; i++) {
        size_t at = (size_t)rand_r(&random) % 32;
        if (mine[at] != 0) {
            trp_object_info info = trp_store_pin(mine[at]);
            if (info.state != TRP_OBJECT_SEALED ||
                *(const trp_object *)info.data != mine[at]) // Someone else's bytes.
                return (void *)1;
            trp_store_unpin(mine[at]);
            trp_store_release(mine[at], ME);
            mine[at] = 0;
            continue;
        }
        void *data;
        size_t size = 8 + (size_t)rand_r(&random) % (i % 10 == 0 ? 200000 : 3000);
        if (trp_store_create(size, 1, TRP_ENCODING_BYTES, &mine[at], &data) != TROUPE_OK) {
            mine[at] = 0;
            continue;
        }
        memcpy(data, &mine[at], sizeof mine[at]);
        if (trp_store_seal(mine[at]) != TROUPE_OK)
            return (void *)2;
    }
    for (size_t at = 0; at < 32; at++)
        if (mine[at] != 0)
            trp_store_release(mine[at], ME);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[4];
    unsigned seeds[4] = {1, 2, 3, 4};
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, &seeds[i]), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    expect_empty();
}

static void *release_all(void *ids)
{
    for (trp_object *id = ids; *id != 0; id++)
        trp_store_release(*id, ME);
    return NULL;
}

// One thread makes what another one frees, beside what stays where a search begins.
static void test_the_table_is_no_longer_than_it_must_be(void **state)
{
    (void)state;
    enum { STAY = 600, COME = 300, ROUNDS = 60 };
    static trp_object stay[STAY + 1], come[COME + 1];
    for (int i = 0; i < STAY; i++)
        stay[i] = make(16, 1);
    for (int k = 0; k < ROUNDS; k++) {
        pthread_t thread;
        for (int i = 0; i < COME; i++)
            come[i] = make(16, 2);
        assert_int_equal(pthread_create(&thread, NULL, release_all, come), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    assert_int_equal(atomic_load(&trp_segment.header->objects_backed), TRP_OBJECT_CHUNK);
    (void)release_all(stay);
    expect_empty();
}

// Where all of them are in use it gets longer.
static void test_many_objects(void **state)
{
    (void)state;
    enum { MANY = 50000 };
    trp_object *all = calloc(MANY + 1, sizeof *all);
    assert_non_null(all);
    for (int i = 0; i < MANY; i++)
        all[i] = make(16, 3);
    assert_int_equal(usage().objects, MANY);
    assert_in_range(atomic_load(&trp_segment.header->objects_backed), MANY,
                    MANY + TRP_OBJECT_CHUNK);
    (void)release_all(all);
    free(all);
    expect_empty();
}

int main(void)
{
#define ROW(name) cmocka_unit_test_setup_teardown(name, set_up, close_store)
    const struct CMUnitTest tests[] = {
        ROW(test_put_look_release),
        ROW(test_a_small_program_stays_small),
        ROW(test_misuse_is_refused),
        ROW(test_a_view_cannot_be_written),
        ROW(test_exhaustion_and_recovery),
        ROW(test_large_objects_are_mapped),
        ROW(test_large_objects_come_back),
        ROW(test_holds_of_several_processes),
        ROW(test_pins),
        ROW(test_counts_at_their_end),
        ROW(test_promises),
        ROW(test_a_maker_dies),
        ROW(test_a_promise_given_up),
        ROW(test_shared_memory),
        ROW(test_attach),
        ROW(test_threads),
        ROW(test_the_table_is_no_longer_than_it_must_be),
        ROW(test_many_objects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
