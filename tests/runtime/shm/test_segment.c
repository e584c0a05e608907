// test_segment.c: making and joining the segment, and every way in which a file is not one.
#include <support.h>

#include <fcntl.h>
#include <runtime/shm/layout.h>
#include <runtime/shm/segment.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CAPACITY = 1 << 20 };

static void test_made_and_closed(void **state)
{
    (void)state;
    trp_segment_close(); // Harmless without one.
    assert_int_equal(trp_segment_fd(), -1);
    int before = support_count_descriptors();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(trp_segment_create(CAPACITY), TROUPE_OK);
        assert_int_equal(trp_segment_create(CAPACITY), TROUPE_EXISTS);
        assert_true((fcntl(trp_segment_fd(), F_GETFD) & FD_CLOEXEC) != 0);
        assert_int_equal(trp_segment_process(TRP_PROCESSES_MAX - 1)->state, TRP_PROCESS_FREE);
        trp_segment_process(TRP_PROCESSES_MAX - 1)->pid = 7;
        trp_segment_close();
    }
    assert_int_equal(support_count_descriptors(), before);
}

static void test_sizes_that_are_refused(void **state)
{
    (void)state;
    assert_int_equal(trp_segment_create(0), TROUPE_INVALID);
    assert_int_equal(trp_segment_create(TRP_PAGE_SIZE - 1), TROUPE_INVALID);
    assert_int_equal(trp_segment_create(SIZE_MAX), TROUPE_INVALID);
    assert_int_equal(trp_segment_fd(), -1);
    assert_int_equal(trp_segment_create(TRP_PAGE_SIZE), TROUPE_OK);
    trp_segment_close();
}

// A file longer than the limit kills who makes it; the limit is asked first.
static void test_a_limit_of_file_sizes(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit limit = {1 << 20, 1 << 20};
        (void)setrlimit(RLIMIT_FSIZE, &limit);
        _exit(trp_segment_create(CAPACITY) == TROUPE_NO_MEMORY ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_its_length_is_fixed(void **state)
{
    (void)state;
    assert_int_equal(trp_segment_create(CAPACITY), TROUPE_OK);
    assert_int_equal(ftruncate(trp_segment_fd(), 4096), -1);
    assert_int_equal(ftruncate(trp_segment_fd(), (off_t)1 << 45), -1);
    trp_segment_close();
}

// A file with that header, as long as it should be, sealed or not.
static int file_with(const trp_header *header, bool sealed)
{
    int fd = memfd_create("test", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)header->end_at), 0);
    assert_int_equal(pwrite(fd, header, sizeof *header, 0), sizeof *header);
    if (sealed)
        assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    return fd;
}

static void expect_refused(const trp_header *header, bool sealed, troupe_status status)
{
    int fd = file_with(header, sealed);
    assert_int_equal(trp_segment_attach(fd), status);
    assert_int_equal(trp_segment_fd(), -1);
    close(fd);
}

static void test_headers_that_are_refused(void **state)
{
    (void)state;
    assert_int_equal(trp_segment_create(CAPACITY), TROUPE_OK);
    trp_header good = *trp_segment.header;
    trp_segment_close();
    expect_refused(&good, false, TROUPE_CORRUPT); // Somebody could shorten it.
    static const size_t offsets[] = {
        offsetof(trp_header, magic),
        offsetof(trp_header, capacity),
        offsetof(trp_header, ledgers_at),
        offsetof(trp_header, objects_at),
        offsetof(trp_header, pages_at),
        offsetof(trp_header, blocks_at),
        offsetof(trp_header, data_at),
        offsetof(trp_header, pages_max),
        offsetof(trp_header, pages_backed) + 2,
        offsetof(trp_header, objects_backed) + 3,
    };
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        trp_header bad = good;
        ((unsigned char *)&bad)[offsets[i]] ^= 1;
        expect_refused(&bad, true, TROUPE_CORRUPT);
    }
    trp_header bad = good;
    bad.version++;
    expect_refused(&bad, true, TROUPE_VERSION);
    bad = good;
    bad.header_size += 8;
    expect_refused(&bad, true, TROUPE_VERSION);
    bad = good;
    bad.end_at += 4096; // The file has that length too.
    expect_refused(&bad, true, TROUPE_CORRUPT);
    assert_int_equal(trp_segment_attach(-1), TROUPE_CORRUPT);
    // A file that cannot be sealed at all, so that anybody may shorten it.
    char *folder = support_directory_make(), *path = support_path(folder, "file");
    support_write_file(path, &good, sizeof good);
    assert_int_equal(truncate(path, (off_t)good.end_at), 0);
    int plain = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(trp_segment_attach(plain), TROUPE_CORRUPT);
    close(plain);
    free(path);
    support_directory_remove(folder);

    int fd = file_with(&good, true);
    assert_int_equal(trp_segment_attach(fd), TROUPE_OK);
    assert_int_equal(trp_segment_fd(), fd);
    trp_segment_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_made_and_closed),
        cmocka_unit_test(test_sizes_that_are_refused),
        cmocka_unit_test(test_a_limit_of_file_sizes),
        cmocka_unit_test(test_its_length_is_fixed),
        cmocka_unit_test(test_headers_that_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
