// test_segment_huge.c: pages of 2 MiB under the data of a large store: where the system has them
// for shared memory, and on a file system that has them whatever the system says; and a store is
// the same without.
#include "stores.h"

#include <errno.h>
#include <fcntl.h>
#include <runtime/shm/pages_internal.h>
#include <runtime/shm/reclaim.h>
#include <runtime/shm/segment.h>
#include <runtime/store/reap.h>
#include <runtime/store/store.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

enum { ME = TRP_PROCESS_DRIVER, MIB = 1 << 20, HUGE = 2 * MIB, LARGE = 64 * MIB };

static const size_t capacity = (size_t)512 << 20;

static uint64_t bytes_backed(void)
{
    troupe_store_usage now;
    assert_int_equal(trp_store_usage(&now), TROUPE_OK);
    return now.bytes_backed;
}

// Of the pages that this process has mapped of its store, in huge ones.
static uint64_t bytes_mapped_huge(void)
{
    char *text = support_read_file("/proc/self/smaps"), *line = text, *rest;
    assert_non_null(text);
    bool ours = false;
    uint64_t sum = 0;
    for (; (line = strtok_r(line, "\n", &rest)) != NULL; line = NULL) {
        uintptr_t from, to, base = (uintptr_t)trp_segment.base;
        unsigned long long kib;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            ours = from >= base && to <= base + trp_segment.size;
        else if (ours && sscanf(line, "ShmemPmdMapped: %llu kB", &kib) == 1)
            sum += kib * 1024;
    }
    free(text);
    return sum;
}

// A small program, then large objects, then idleness, twice. `huge`: they must be seen to be.
static void use(bool huge)
{
    uint64_t tables = bytes_backed();
    trp_object small = make_object(100, 42, 1);
    assert_true(bytes_backed() - tables <= HUGE + MIB); // It stays small.
    for (int round = 0; round < 2; round++) {
        trp_object ids[3];
        for (int i = 0; i < 3; i++)
            ids[i] = make_object(LARGE + (size_t)i * 100000, 42, i + 1);
        if (huge)
            assert_true(bytes_mapped_huge() >= LARGE);
        for (int i = 0; i < 3; i++) {
            expect_filled(ids[i], LARGE + (size_t)i * 100000, i + 1);
            trp_store_release(ids[i], ME);
        }
        for (int looks = 0; trp_pages_give(ME, TRP_PAGES_KEEP); looks++)
            assert_true(looks < 10);
        assert_true(bytes_backed() - tables <= 3 * HUGE);
        expect_filled(small, 100, 1);
    }
    trp_store_release(small, ME);
}

static void test_as_the_system_has_it(void **state)
{
    (void)state;
    assert_int_equal(trp_segment_create(capacity), TROUPE_OK);
    trp_store_open(ME);
    assert_int_equal(trp_segment.header->huge, trp_segment_huge_allowed());
    assert_int_equal((uintptr_t)trp_segment.base % HUGE, 0);
    print_message("the system %s huge pages for shared memory\n",
                  trp_segment_huge_allowed() ? "has" : "has no");
    use(trp_segment_huge_allowed());
    trp_segment_close();
}

static void test_a_small_store_has_none(void **state)
{
    (void)state;
    assert_int_equal(trp_segment_create(64 * MIB), TROUPE_OK);
    assert_int_equal(trp_segment.header->huge, 0);
    trp_segment_close();
}

// Asked for where there are none, they are not given, and nothing else is different.
static void test_asked_for_in_vain(void **state)
{
    (void)state;
    assert_int_equal(trp_segment_create(capacity), TROUPE_OK);
    trp_store_open(ME);
    trp_segment.header->huge = 1;
    trp_segment_huge_ask();
    use(trp_segment_huge_allowed());
    trp_segment_close();
}

// The segment becomes a file there.
static void move_to(const char *path)
{
    const trp_header *header = trp_segment.header;
    size_t size = trp_segment.size, tables = header->doors_at + 4096;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    assert_int_equal(pwrite(fd, trp_segment.base, tables, 0), tables);
    void *read_only = (void *)(uintptr_t)trp_segment.read_only;
    assert_ptr_not_equal(mmap(trp_segment.base, size, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0),
                         MAP_FAILED);
    assert_ptr_not_equal(
        mmap(read_only, size, PROT_READ, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0),
        MAP_FAILED);
    assert_int_equal(dup2(fd, trp_segment.fd), trp_segment.fd);
    close(fd);
}

static void on_a_file_system(const char *options)
{
    char *folder = support_directory_make(), *path = support_path(folder, "segment");
    if (mount("tmpfs", folder, "tmpfs", 0, options) != 0) {
        print_message("no file system with %s can be had: %s\n", options, strerror(errno));
        free(path);
        support_directory_remove(folder);
        skip();
    }
    assert_int_equal(trp_segment_create(capacity), TROUPE_OK);
    move_to(path);
    trp_store_open(ME);
    trp_segment.header->huge = 1;
    trp_segment_huge_ask();
    use(true);
    trp_segment_close();
    assert_int_equal(unlink(path), 0);
    assert_int_equal(umount(folder), 0);
    free(path);
    support_directory_remove(folder);
}

static void test_where_they_are_given_when_asked_for(void **state)
{
    (void)state;
    on_a_file_system("huge=advise");
}

static void test_where_they_are_given_unless_refused(void **state)
{
    (void)state;
    on_a_file_system("huge=always");
}

int main(void)
{
    support_allow_mounts();
    if (geteuid() == 0 && unshare(CLONE_NEWNS) == 0)
        (void)mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_the_system_has_it),
        cmocka_unit_test(test_a_small_store_has_none),
        cmocka_unit_test(test_asked_for_in_vain),
        cmocka_unit_test(test_where_they_are_given_when_asked_for),
        cmocka_unit_test(test_where_they_are_given_unless_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
