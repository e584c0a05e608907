// test_spill_errors.c: a disk that is full or fails, at each system call: no torn file is taken for
// an object, no object is lost that can still be had, and the error text says which file and why.
#include "stores.h"

#include <errno.h>
#include <fcntl.h>
#include <runtime/shm/layout.h>
#include <runtime/store/eviction.h>
#include <runtime/store/read.h>
#include <runtime/store/residency.h>
#include <runtime/store/row.h>
#include <runtime/store/spill_file.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    ME = TRP_PROCESS_DRIVER,
    CAPACITY = 1 << 20,
    PAGE = 1 << 16,
    SIZE = (9 << 20) + 5,
    SMALL = 70001
};

// ---- the system's calls, as they are to end. The library calls these: a program's own come first.

static struct {
    int after;    // So many calls end well before one does not; negative: all do.
    int error;    // What that one ends with; 0: it does nothing, and says so.
    size_t most;  // Bytes that a call moves; 0: all.
    bool signals; // Every other call is interrupted by a signal.
    bool shrinks; // The one that does not end well finds its file shorter than it was.
    bool solid;   // It has no files with holes.
    int calls;
    void (*meanwhile)(void); // While a write is done.
} disk;

static void heal(void)
{
    memset(&disk, 0, sizeof disk);
    disk.after = -1;
}

// Whether the call is to end otherwise, with *ended.
static bool ends(int fd, ssize_t *ended)
{
    if (disk.signals && disk.calls++ % 2 == 0) {
        errno = EINTR;
        *ended = -1;
        return true;
    }
    if (disk.after < 0 || disk.after-- > 0)
        return false;
    if (disk.shrinks) {
        char path[40];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        assert_int_equal(truncate(path, TRP_SPILL_HEADER / 2), 0);
        return false;
    }
    errno = disk.error;
    *ended = disk.error == 0 ? 0 : -1;
    return true;
}

static size_t most_of(size_t size)
{
    return disk.most > 0 && disk.most < size ? disk.most : size;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at)
{
    ssize_t ended;
    if (disk.meanwhile != NULL)
        disk.meanwhile();
    return ends(fd, &ended) ? ended : syscall(SYS_pwrite64, fd, data, most_of(size), at);
}

ssize_t pread(int fd, void *data, size_t size, off_t at)
{
    ssize_t ended;
    return ends(fd, &ended) ? ended : syscall(SYS_pread64, fd, data, most_of(size), at);
}

int fallocate(int fd, int mode, off_t at, off_t size)
{
    errno = EOPNOTSUPP;
    return disk.solid ? -1 : (int)syscall(SYS_fallocate, fd, mode, at, size);
}

// ---- files

static char *base, *out, *in;
static trp_spill_object object;

static int set_up_with(size_t size)
{
    heal();
    base = support_directory_make();
    if (open_spilling(CAPACITY, ME, base) != 0)
        return -1;
    out = malloc(SIZE);
    in = malloc(SIZE);
    assert_true(out != NULL && in != NULL);
    support_fill(out, size, 1);
    object = (trp_spill_object){.id = trp_row_id(12, 34), .size = size, .schema = 99};
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    return set_up_with(SIZE);
}

static int set_up_small(void **state)
{
    (void)state;
    return set_up_with(SMALL);
}

static int tear_down(void **state)
{
    heal();
    free(out);
    free(in);
    (void)close_store(state);
    support_directory_remove(base);
    return 0;
}

static void expect_sentence(const char *why)
{
    const char *text = troupe_last_error()->text;
    if (strstr(text, trp_spill_folder()) == NULL || strstr(text, why) == NULL)
        fail_msg("neither the file nor '%s': %s", why, text);
}

static void expect_read(void)
{
    memset(in, 0, SIZE);
    if (trp_spill_read(&object, in) != TROUPE_OK)
        fail_msg("%s", troupe_last_error()->text);
    assert_true(support_is_filled(in, object.size, 1));
}

static void test_each_write_that_fails(void **state)
{
    (void)state;
    static const struct {
        int error;
        troupe_status status;
        const char *why;
    } ways[] = {
        {EIO, TROUPE_IO, "Input/output error"},
        {ENOSPC, TROUPE_NO_SPACE, "No space left"},
        {EDQUOT, TROUPE_NO_SPACE, "quota exceeded"},
        {0, TROUPE_NO_SPACE, "No space left"},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        int calls = 0;
        for (;; calls++) {
            disk.after = calls;
            disk.error = ways[i].error;
            errno = 0;
            troupe_status status = trp_spill_write(&object, out);
            int error = errno;
            if (disk.after >= 0)
                break; // It was done before.
            assert_int_equal(status, ways[i].status);
            expect_sentence(ways[i].why);
            assert_int_equal(error, ways[i].error != 0 ? ways[i].error : ENOSPC);
            assert_int_equal(support_count_files(trp_spill_folder()), 0);
        }
        assert_true(calls >= 2); // The bytes' and the header's, at least.
        heal();
        expect_read();
        trp_spill_remove(&object);
    }
}

static void test_short_and_interrupted_calls(void **state)
{
    (void)state;
    disk.most = 100001;
    disk.signals = true;
    assert_int_equal(trp_spill_write(&object, out), TROUPE_OK);
    expect_read();
}

// What fails may be had later; what is gone is gone.
static void test_each_read_that_fails(void **state)
{
    (void)state;
    int calls = 0;
    assert_int_equal(trp_spill_write(&object, out), TROUPE_OK);
    for (;; calls++) {
        disk.after = calls;
        disk.error = EIO;
        troupe_status status = trp_spill_read(&object, in);
        if (disk.after >= 0)
            break;
        assert_int_equal(status, TROUPE_IO);
        expect_sentence("Input/output error");
    }
    assert_true(calls >= 2);
    heal();
    expect_read();
    for (int i = 0; i < calls; i++) {
        assert_int_equal(trp_spill_write(&object, out), TROUPE_OK);
        disk.after = i;
        disk.shrinks = true;
        assert_int_equal(trp_spill_read(&object, in), TROUPE_CORRUPT);
        expect_sentence("has become shorter");
        heal();
    }
}

static void test_no_descriptor_is_left(void **state)
{
    (void)state;
    struct rlimit before, none;
    assert_int_equal(trp_spill_write(&object, out), TROUPE_OK);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    troupe_status read = trp_spill_read(&object, in);
    char text[sizeof troupe_last_error()->text];
    strcpy(text, troupe_last_error()->text);
    troupe_status written = trp_spill_write(&object, out);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(read, TROUPE_IO);
    assert_non_null(strstr(text, "Too many open files"));
    assert_int_equal(written, TROUPE_IO);
    expect_sentence("Too many open files");
}

// Where files have no holes, small objects have their own, as large ones do.
static void test_a_disk_without_holes(void **state)
{
    (void)state;
    disk.solid = true;
    assert_int_equal(trp_spill_write(&object, out), TROUPE_OK);
    disk.solid = false;
    assert_int_equal(trp_segment.header->spill_sharing, TRP_SPILL_APART);
    expect_read();
    assert_int_equal(support_count_files(trp_spill_folder()), 1);
    trp_spill_remove(&object);
    assert_int_equal(support_count_files(trp_spill_folder()), 0);
}

// ---- objects

static trp_object put(uint64_t seed)
{
    trp_object id;
    void *data;
    if (trp_room_create(PAGE, 1, TRP_ENCODING_BYTES, &id, &data) != TROUPE_OK)
        return 0;
    support_fill(data, PAGE, seed);
    assert_int_equal(trp_store_seal(id), TROUPE_OK);
    return id;
}

static void expect_object(trp_object id, uint64_t seed)
{
    trp_object_info info = trp_store_pin(id);
    if (info.state != TRP_OBJECT_SEALED)
        fail_msg("object %d: %s", (int)seed, troupe_last_error()->text);
    assert_true(support_is_filled(info.data, PAGE, seed));
    trp_store_unpin(id);
}

// What is said where there is no room, as if the disk had failed just now.
static void expect_told(const char *why)
{
    atomic_store(&trp_segment.header->spill_failed_ms, trp_row_now() | 1);
    (void)troupe_fail(TROUPE_NO_MEMORY, "no room");
    assert_int_equal(trp_room_explain(0), TROUPE_NO_MEMORY);
    if (strstr(troupe_last_error()->text, why) == NULL)
        fail_msg("not '%s': %s", why, troupe_last_error()->text);
}

static void test_an_object_outlives_a_failing_disk(void **state)
{
    (void)state;
    trp_object id = put(1);
    for (int i = 0; i < 2; i++) { // It does not go: the first write fails, or the second.
        disk.after = i;
        disk.error = EIO;
        assert_false(trp_room_make(1));
        heal();
        assert_false(trp_store_look(id).on_disk);
        expect_object(id, 1);
        expect_told("takes no more: Input/output error");
        atomic_store(&trp_segment.header->spill_failed_ms, 0);
    }
    assert_true(trp_room_make(1));
    assert_true(trp_store_look(id).on_disk);
    for (int i = 0; i < 2; i++) { // It does not come back, but is not lost.
        disk.after = i;
        disk.error = EIO;
        assert_int_equal(trp_store_pin(id).state, TRP_OBJECT_ABSENT);
        assert_int_equal(troupe_last_error()->status, TROUPE_IO);
        expect_sentence("Input/output error");
        assert_true(trp_store_look(id).on_disk);
    }
    heal();
    expect_object(id, 1);
    trp_store_release(id, ME);
    expect_empty();
}

static struct {
    trp_object id;
    bool pinned;
} some[6];

static void pin_what_is_saved(void)
{
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        uint32_t where = atomic_load(&trp_object_row_at(trp_row_slot(some[i].id))->where);
        if (!some[i].pinned && trp_where_state(where) == TRP_WHERE_SAVING)
            some[i].pinned = trp_store_pin(some[i].id).state == TRP_OBJECT_SEALED;
    }
}

// What is read while its file is written stays in memory, and the file counts.
static void test_files_of_what_stays_are_counted(void **state)
{
    (void)state;
    enum { COUNT = sizeof some / sizeof *some, FILES = 2 };
    const uint64_t most = FILES * (PAGE + TRP_SPILL_HEADER);
    trp_spill_plan(&(troupe_options){.spill_dir = base, .spill_bytes_max = (int64_t)most});
    for (size_t i = 0; i < COUNT; i++) {
        some[i].id = put(i);
        some[i].pinned = false;
    }
    disk.meanwhile = pin_what_is_saved;
    assert_false(trp_room_make(CAPACITY));
    disk.meanwhile = NULL;
    assert_int_equal(usage().objects_on_disk, 0);
    assert_int_equal(usage().bytes_on_disk, most);
    for (size_t i = 0; i < COUNT; i++) {
        if (some[i].pinned)
            trp_store_unpin(some[i].id);
        trp_store_release(some[i].id, ME);
    }
    expect_empty();
}

#define TEST(function, begin) cmocka_unit_test_setup_teardown(function, begin, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_each_write_that_fails, set_up),
        TEST(test_each_write_that_fails, set_up_small),
        TEST(test_short_and_interrupted_calls, set_up),
        TEST(test_short_and_interrupted_calls, set_up_small),
        TEST(test_each_read_that_fails, set_up),
        TEST(test_each_read_that_fails, set_up_small),
        TEST(test_no_descriptor_is_left, set_up),
        TEST(test_no_descriptor_is_left, set_up_small),
        TEST(test_a_disk_without_holes, set_up_small),
        TEST(test_an_object_outlives_a_failing_disk, set_up),
        TEST(test_files_of_what_stays_are_counted, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
