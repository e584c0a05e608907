// test_keys.c: files with keys: which users may have written and may read them, what is never
// replaced, and where else the secret is.
#include <runtime/link/keys.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <troupe/node.h>
#include <unistd.h>

static char *home, *path;

static int make(void **state)
{
    (void)state;
    home = support_directory_make();
    path = support_path(home, "cluster.keys");
    return 0;
}

static int clean(void **state)
{
    (void)state;
    free(path);
    support_directory_remove(home);
    return 0;
}

static void expect_refused(const char *file, const char *why)
{
    trp_key_pair keys;
    assert_int_equal(trp_keys_read(file, &keys), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, file));
    assert_non_null(strstr(troupe_last_error()->text, why));
}

// What is opened is what is checked: no link, no pipe (which would be waited for), not another
// user's, readable by nobody else.
static void test_only_a_file_of_our_own_is_read(void **state)
{
    (void)state;
    trp_key_pair keys;
    char *other = support_path(home, "link"), *pipe = support_path(home, "pipe");
    troupe_must(troupe_keys_make(path));
    troupe_must(trp_keys_read(path, &keys));
    assert_int_equal(symlink(path, other), 0);
    expect_refused(other, "link");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    expect_refused(pipe, "not a regular file");
    expect_refused(home, "not a regular file");
    static const mode_t shared[] = {0640, 0604, 0620, 0602, 0610};
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        assert_int_equal(chmod(path, shared[i]), 0);
        expect_refused(path, "expected 600");
    }
    assert_int_equal(chmod(path, 0600), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 65534, (gid_t)-1), 0);
        expect_refused(path, "belong to user 65534");
    }
    free(other), free(pipe);
}

// Who was killed while it wrote leaves a draft; keys are made all the same. What has the name is
// not replaced, whenever it came.
static void test_drafts_block_nothing_and_replace_nothing(void **state)
{
    (void)state;
    char *draft = support_path(home, "cluster.keys.new");
    support_write_file(draft, "half", 4);
    troupe_must(troupe_keys_make(path));
    char *before = support_read_file(path);
    assert_int_equal(troupe_keys_make(path), TROUPE_EXISTS);
    // As if it had come after somebody has looked.
    assert_int_equal(trp_text_write(path, "other"), TROUPE_EXISTS);
    char *after = support_read_file(path);
    assert_string_equal(before, after);
    assert_int_equal(support_count_files(home), 2); // No draft of the failed ones.
    free(before), free(after), free(draft);
}

// How often a text is in this process's writable memory, its stack included.
static int count_in_memory(const char *text, size_t size)
{
    char line[512];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    assert_true(memory >= 0);
    while (fgets(line, sizeof line, maps) != NULL) {
        unsigned long from, to;
        char mode[8];
        if (sscanf(line, "%lx-%lx %7s", &from, &to, mode) != 3 || mode[1] != 'w' ||
            strstr(line, "[v") != NULL || to - from > (256ul << 20))
            continue;
        char *bytes = malloc(to - from), *at = bytes;
        ssize_t got = pread(memory, bytes, to - from, (off_t)from);
        // Not in this copy of another copy: the block is not mapped when the line is read.
        while (got > 0 && (at = memmem(at, (size_t)(bytes + got - at), text, size)) != NULL) {
            count++;
            at++;
        }
        if (got > 0)
            memset(bytes, 0, (size_t)got);
        free(bytes);
    }
    close(memory);
    fclose(maps);
    return count;
}

// Keys that were made are in no memory of whoever made them: forked processes would have them.
static void test_made_keys_are_in_the_file_alone(void **state)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); // Their stacks are elsewhere, and huge.
#endif
    (void)state;
    pid_t maker = fork();
    if (maker == 0) { // So that what reads the file is not what made it.
        troupe_must(troupe_keys_make(path));
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        char secret[41], masked[20];
        // Its second line, from which a part is looked for, written otherwise.
        if (pread(fd, secret, 40, 41) != 40)
            _exit(2);
        for (int i = 0; i < 20; i++)
            masked[i] = (char)(secret[i + 10] ^ 0x55);
        explicit_bzero(secret, sizeof secret);
        close(fd);
        char wanted[20];
        for (int i = 0; i < 20; i++)
            wanted[i] = (char)(masked[i] ^ 0x55);
        _exit(count_in_memory(wanted, sizeof wanted) <= 1 ? 0 : 1); // `wanted` itself.
    }
    int status;
    assert_int_equal(waitpid(maker, &status, 0), maker);
    assert_int_equal(status, 0);
}

// The pair that a process keeps: not in core files, and zeros in what is forked from it.
static void test_kept_keys_stay_here(void **state)
{
    (void)state;
    trp_key_pair *keys = trp_keys_hold();
    assert_non_null(keys);
    troupe_must(troupe_keys_make(path));
    troupe_must(trp_keys_read(path, keys));
    assert_int_not_equal(keys->secret_key[0], 0);
    char line[512];
    bool mine = false, undumped = false, wiped = false;
    FILE *smaps = fopen("/proc/self/smaps", "r");
    assert_non_null(smaps);
    while (fgets(line, sizeof line, smaps) != NULL) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            mine = from <= (unsigned long)keys && (unsigned long)keys < to;
        if (mine && strncmp(line, "VmFlags:", 8) == 0) {
            undumped = strstr(line, " dd") != NULL;
            wiped = strstr(line, " wf") != NULL;
        }
    }
    fclose(smaps);
    assert_true(undumped && wiped);
    pid_t child = fork();
    if (child == 0)
        _exit(keys->secret_key[0] == 0 ? 0 : 1);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    trp_keys_release(keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_only_a_file_of_our_own_is_read, make, clean),
        cmocka_unit_test_setup_teardown(test_drafts_block_nothing_and_replace_nothing, make, clean),
        cmocka_unit_test_setup_teardown(test_made_keys_are_in_the_file_alone, make, clean),
        cmocka_unit_test_setup_teardown(test_kept_keys_stay_here, make, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
