// test_spill.c: files of objects, and the one that small ones share: what was written comes back,
// and nothing else is taken for it, whatever bit is damaged; and the folder they are in, which is
// the user's alone and does not stay behind.
#include <support.h>

#include <fcntl.h>
#include <runtime/shm/layout.h>
#include <runtime/store/row.h>
#include <runtime/store/spill_file.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CAPACITY = 1 << 20, SIZE = 300 };

static char *base;    // What .spill_dir names.
static bool together; // Small objects share a file.
static char bytes[SIZE], back[SIZE];
static trp_spill_object object;

static void plan(void)
{
    trp_spill_plan(&(troupe_options){.spill_dir = base, .spill_bytes_max = 1 << 30});
    if (!together)
        atomic_store(&trp_segment.header->spill_sharing, TRP_SPILL_APART);
}

static int set_up(bool shared)
{
    base = support_directory_make();
    if (trp_segment_create(CAPACITY) != TROUPE_OK)
        return -1;
    trp_store_open(TRP_PROCESS_DRIVER);
    together = shared;
    plan();
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (char)(i * 7);
    object = (trp_spill_object){
        .id = trp_row_id(12, 34), .size = SIZE, .schema = 99, .encoding = TRP_ENCODING_IMAGE};
    return 0;
}

static int set_up_together(void **state)
{
    (void)state;
    return set_up(true);
}

static int set_up_apart(void **state)
{
    (void)state;
    return set_up(false);
}

static int tear_down(void **state)
{
    (void)state;
    trp_segment_close();
    support_directory_remove(base);
    return 0;
}

static const char *file_name(void)
{
    return together ? "small" : "12.22";
}

static off_t begin(void) // Of what the file has of the object.
{
    return together ? (off_t)12 * TRP_SPILL_PART : 0;
}

// The object's file, open.
static int open_file(int flags)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", trp_spill_folder(), file_name());
    int fd = open(path, flags, 0600);
    assert_true(fd >= 0);
    return fd;
}

static void write_it(void)
{
    assert_int_equal(trp_spill_write(&object, bytes), TROUPE_OK);
}

static void expect_lost(const char *why)
{
    char name[16];
    if (trp_spill_read(&object, back) != TROUPE_CORRUPT)
        fail_msg("taken for good: %s", why);
    snprintf(name, sizeof name, "/%s ", file_name());
    assert_non_null(strstr(troupe_last_error()->text, name));
    if (strstr(troupe_last_error()->text, why) == NULL)
        fail_msg("%s: %s", why, troupe_last_error()->text);
}

static void test_what_is_written_comes_back(void **state)
{
    (void)state;
    enum { SMALL = TRP_SPILL_SMALL };
    static const size_t sizes[] = {
        0, 1, 63, 64, 65, 4096, SMALL, SMALL + 1, (4 << 20) - 1, (4 << 20) + 1, 9 << 20};
    char *out = malloc(9 << 20), *in = malloc(9 << 20);
    assert_true(out != NULL && in != NULL);
    for (size_t i = 0; i < 9 << 20; i++)
        out[i] = (char)(i * 31 >> 7);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        trp_spill_object it = {.id = trp_row_id(7, i), .size = sizes[i], .schema = i};
        assert_int_equal(trp_spill_write(&it, out), TROUPE_OK);
        memset(in, 0, sizes[i]);
        assert_int_equal(trp_spill_read(&it, in), TROUPE_OK);
        assert_memory_equal(in, out, sizes[i]);
        trp_spill_remove(&it);
        assert_int_equal(trp_spill_read(&it, in), TROUPE_CORRUPT);
    }
    assert_int_equal(support_count_files(trp_spill_folder()), 0);
    free(out);
    free(in);
}

static void test_every_bit_is_watched(void **state)
{
    (void)state;
    write_it();
    int fd = open_file(O_RDWR);
    for (off_t at = begin(); at < begin() + TRP_SPILL_HEADER + SIZE; at++)
        for (int bit = 0; bit < 8; bit++) {
            char was, is;
            assert_int_equal(pread(fd, &was, 1, at), 1);
            is = (char)(was ^ 1 << bit);
            assert_int_equal(pwrite(fd, &is, 1, at), 1);
            expect_lost("");
            assert_int_equal(pwrite(fd, &was, 1, at), 1);
        }
    close(fd);
    assert_int_equal(trp_spill_read(&object, back), TROUPE_OK);
    assert_memory_equal(back, bytes, SIZE);
}

// That of another object under this one's name, or in its part.
static void write_another(void)
{
    trp_spill_object other = object;
    char from[600], to[600];
    if (together) { // It had the row before.
        other.id = trp_row_id(12, 33);
        assert_int_equal(trp_spill_write(&other, bytes), TROUPE_OK);
        return;
    }
    other.id = trp_row_id(13, 34);
    assert_int_equal(trp_spill_write(&other, bytes), TROUPE_OK);
    snprintf(from, sizeof from, "%s/13.22", trp_spill_folder());
    snprintf(to, sizeof to, "%s/12.22", trp_spill_folder());
    assert_int_equal(rename(from, to), 0);
}

static void test_each_lie_has_its_sentence(void **state)
{
    (void)state;
    const trp_spill_object good = object;
    write_it();
    object.size = SIZE - 1;
    expect_lost(together ? "names another size" : "has another length");
    object = good;
    object.schema++;
    expect_lost("names another type");
    object = good;
    object.encoding = TRP_ENCODING_PACKED;
    expect_lost("names another type");
    object = good;
    write_another();
    expect_lost("is that of another object");

    int fd = open_file(O_WRONLY);
    assert_int_equal(pwrite(fd, "x", 1, begin()), 1);
    expect_lost("does not begin like such a file");
    close(fd);
    write_it();
    fd = open_file(O_WRONLY);
    assert_int_equal(pwrite(fd, "x", 1, begin() + TRP_SPILL_HEADER + 5), 1);
    expect_lost("its bytes are not those");
    close(fd);
}

static void test_torn_files(void **state)
{
    (void)state;
    for (off_t size = 0; size < TRP_SPILL_HEADER + SIZE; size++) {
        write_it();
        int fd = open_file(O_WRONLY);
        assert_int_equal(ftruncate(fd, begin() + size), 0);
        expect_lost(together ? "" : "has another length");
        // As long as it was, but of zeros: what a disk may make of it.
        assert_int_equal(ftruncate(fd, begin() + TRP_SPILL_HEADER + SIZE), 0);
        expect_lost("");
        close(fd);
    }
    trp_spill_remove(&object);
    trp_spill_remove(&object); // Gone already.
    expect_lost(together ? "" : "is gone");
}

static void test_a_file_that_grew(void **state)
{
    (void)state;
    write_it();
    int fd = open_file(O_WRONLY | O_APPEND);
    assert_int_equal(write(fd, "x", 1), 1);
    close(fd);
    expect_lost("has another length");
}

static trp_spill_object neighbour(uint32_t slot)
{
    return (trp_spill_object){.id = trp_row_id(slot, 1), .size = TRP_SPILL_SMALL};
}

static void test_neighbours_in_the_file(void **state)
{
    (void)state;
    enum { ROWS = 3 };
    static const uint32_t slots[ROWS] = {0, 1, TRP_OBJECTS_MAX - 1};
    static char data[TRP_SPILL_SMALL], in[TRP_SPILL_SMALL];
    struct stat full, less;
    for (int i = 0; i < ROWS; i++) {
        trp_spill_object it = neighbour(slots[i]);
        memset(data, i + 1, sizeof data);
        assert_int_equal(trp_spill_write(&it, data), TROUPE_OK);
    }
    int fd = open_file(O_RDONLY);
    assert_int_equal(fstat(fd, &full), 0);
    for (int gone = 0; gone < ROWS; gone++) {
        trp_spill_object it = neighbour(slots[gone]);
        trp_spill_remove(&it);
        assert_int_equal(fstat(fd, &less), 0);
        assert_true(less.st_blocks < full.st_blocks); // Its room is given back.
        full = less;
        for (int i = 0; i < ROWS; i++) {
            it = neighbour(slots[i]);
            troupe_status status = trp_spill_read(&it, in);
            assert_int_equal(status, i <= gone ? TROUPE_CORRUPT : TROUPE_OK);
            memset(data, i + 1, sizeof data);
            if (status == TROUPE_OK)
                assert_memory_equal(in, data, it.size);
        }
    }
    assert_int_equal(full.st_blocks, 0);
    close(fd);
}

static void test_the_folder_is_the_users(void **state)
{
    (void)state;
    struct stat about;
    assert_false(support_exists(trp_spill_folder())); // Made when it is needed.
    write_it();
    assert_int_equal(stat(trp_spill_folder(), &about), 0);
    assert_int_equal(about.st_mode & 07777, 0700);
    int fd = open_file(O_RDONLY);
    assert_int_equal(fstat(fd, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0600);
    close(fd);

    // Somebody else was there first.
    plan();
    assert_int_equal(mkdir(trp_spill_folder(), 0777), 0);
    assert_int_equal(chmod(trp_spill_folder(), 0777), 0);
    assert_int_equal(trp_spill_write(&object, bytes), TROUPE_IO);
    assert_non_null(strstr(troupe_last_error()->text, "only this user"));
    plan();
    assert_int_equal(symlink(base, trp_spill_folder()), 0);
    assert_int_equal(trp_spill_write(&object, bytes), TROUPE_IO);
    assert_int_equal(unlink(trp_spill_folder()), 0);

    // It was removed under us: what is there is lost, and it is made again.
    plan();
    write_it();
    char command[700];
    snprintf(command, sizeof command, "rm -r '%s'", trp_spill_folder());
    assert_int_equal(system(command), 0);
    expect_lost("is gone");
    write_it();
    assert_int_equal(trp_spill_read(&object, back), TROUPE_OK);
}

static troupe_status write_limited(rlim_t most)
{
    struct rlimit before, small = {.rlim_cur = most};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    troupe_status status = trp_spill_write(&object, bytes);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    return status;
}

static void test_a_limit_of_files_does_not_kill(void **state)
{
    (void)state;
    assert_int_equal(write_limited(200), TROUPE_NO_SPACE);
    assert_non_null(strstr(troupe_last_error()->text, "ulimit -f"));
    write_it();
    assert_int_equal(write_limited(SIZE + TRP_SPILL_HEADER),
                     together ? TROUPE_NO_SPACE : TROUPE_OK);
    assert_int_equal(trp_spill_read(&object, back), TROUPE_OK);
}

// Where no file can be so large that all have a part of it.
static void test_a_limit_below_the_shared_file(void **state)
{
    (void)state;
    char path[600];
    assert_int_equal(write_limited(SIZE + TRP_SPILL_HEADER), TROUPE_OK);
    assert_int_equal(trp_segment.header->spill_sharing, TRP_SPILL_APART);
    snprintf(path, sizeof path, "%s/small", trp_spill_folder());
    assert_false(support_exists(path));
    assert_int_equal(trp_spill_read(&object, back), TROUPE_OK);
    assert_memory_equal(back, bytes, SIZE);
}

static void make_folder(char path[600], const char *name, long pid)
{
    char file[700];
    snprintf(path, 600, "%s/troupe-objects-%u-%ld-%s", base, (unsigned)getuid(), pid, name);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(file, sizeof file, "%s/1.1", path);
    support_write_file(file, "x", 1);
}

static void test_what_a_killed_node_left(void **state)
{
    (void)state;
    char dead[600], used[600], living[600];
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    make_folder(dead, "a", child);
    make_folder(used, "b", child);
    make_folder(living, "c", getpid());
    int fd = open(used, O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(fd, LOCK_SH), 0);
    plan();
    assert_false(support_exists(dead));
    assert_true(support_exists(used));
    assert_true(support_exists(living));
    close(fd);
    plan();
    assert_false(support_exists(used));
}

#define TEST(function, begin) cmocka_unit_test_setup_teardown(function, begin, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_written_comes_back, set_up_together),
        TEST(test_what_is_written_comes_back, set_up_apart),
        TEST(test_every_bit_is_watched, set_up_together),
        TEST(test_every_bit_is_watched, set_up_apart),
        TEST(test_each_lie_has_its_sentence, set_up_together),
        TEST(test_each_lie_has_its_sentence, set_up_apart),
        TEST(test_torn_files, set_up_together),
        TEST(test_torn_files, set_up_apart),
        TEST(test_a_file_that_grew, set_up_apart),
        TEST(test_neighbours_in_the_file, set_up_together),
        TEST(test_the_folder_is_the_users, set_up_together),
        TEST(test_the_folder_is_the_users, set_up_apart),
        TEST(test_a_limit_of_files_does_not_kill, set_up_together),
        TEST(test_a_limit_of_files_does_not_kill, set_up_apart),
        TEST(test_a_limit_below_the_shared_file, set_up_together),
        TEST(test_what_a_killed_node_left, set_up_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
