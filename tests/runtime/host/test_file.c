// test_file.c: paths, and files and folders that last; what fails is named.
#include <support.h>

#include <errno.h>
#include <runtime/base/memory.h>
#include <runtime/host/file.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void test_paths(void **state)
{
    static const struct {
        const char *path;
        size_t scheme;
        const char *local; // NULL: it is not.
    } rows[] = {
        {"runs/a", 0, "runs/a"}, {"/runs:a", 0, "/runs:a"}, {"file:/runs", 4, "/runs"},
        {"file:", 4, ""},        {"s3:bucket", 2, NULL},    {"files:a", 5, NULL},
        {"./s3:a", 0, "./s3:a"}, {"S3:a", 0, "S3:a"},       {"", 0, ""},
        {"a+b-c.9:x", 7, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(trp_path_scheme(rows[i].path), rows[i].scheme);
        assert_int_equal(trp_path_is_local(rows[i].path), rows[i].local != NULL);
        assert_string_equal(trp_path_local(rows[i].path),
                            rows[i].local != NULL ? rows[i].local : rows[i].path);
    }
    trp_path path;
    assert_int_equal(trp_path_make(&path, "%s//", "/a/b"), TROUPE_OK);
    trp_path_trim(&path);
    assert_string_equal(path.text, "/a/b");
    assert_int_equal(trp_path_make(&path, "///"), TROUPE_OK);
    trp_path_trim(&path);
    assert_string_equal(path.text, "/");
}

static void test_folders_are_made_with_those_above(void **state)
{
    (void)state;
    char *base = support_directory_make();
    trp_path path;
    assert_int_equal(trp_path_make(&path, "%s/a/b//c", base), TROUPE_OK);
    assert_int_equal(trp_folder_make(path.text), TROUPE_OK);
    assert_int_equal(trp_folder_make(path.text), TROUPE_OK);
    assert_int_equal(trp_folder_make_new(path.text), TROUPE_EXISTS);
    assert_int_equal(trp_path_make(&path, "%s/file", base), TROUPE_OK);
    support_write_file(path.text, "x", 1);
    assert_int_equal(trp_folder_make(path.text), TROUPE_IO);
    assert_int_equal(trp_path_make(&path, "%s/file/below", base), TROUPE_OK);
    assert_int_equal(trp_folder_make(path.text), TROUPE_IO);
    assert_int_equal(trp_path_make(&path, "%5000d", 1), TROUPE_TOO_LARGE);
    support_directory_remove(base);
}

static void expect_bytes(const char *path, const char *expected)
{
    unsigned char *data;
    size_t size;
    assert_int_equal(trp_file_read(path, &data, &size), TROUPE_OK);
    assert_int_equal(size, strlen(expected));
    assert_memory_equal(data, expected, size);
    assert_true(trp_digest(data, size) == trp_digest(expected, size));
    trp_free(data);
}

static void test_files_are_made_replaced_and_added_to(void **state)
{
    (void)state;
    char *folder = support_directory_make(), *file = support_path(folder, "file");
    const trp_piece pieces[] = {{"one ", 4}, {"", 0}, {"two", 3}};
    unsigned char *data;
    size_t size;
    assert_int_equal(trp_file_read(file, &data, &size), TROUPE_NOT_FOUND);
    assert_non_null(strstr(troupe_last_error()->text, file));
    assert_int_equal(trp_file_write(file, pieces, 3), TROUPE_OK);
    expect_bytes(file, "one two");
    assert_int_equal(trp_file_append(file, "!", 1), TROUPE_OK);
    expect_bytes(file, "one two!");
    assert_int_equal(trp_file_replace(file, "three", 5), TROUPE_OK);
    expect_bytes(file, "three");
    assert_int_equal(trp_file_make(file, "four", 4), TROUPE_EXISTS);
    expect_bytes(file, "three");
    assert_int_equal(support_count_files(folder), 1);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(trp_file_make(file, "four", 4), TROUPE_OK);
    expect_bytes(file, "four");
    free(file);
    support_directory_remove(folder);
}

static void test_paths_are_joined(void **state)
{
    (void)state;
    static trp_path path;
    static char folder[PATH_MAX];
    assert_int_equal(trp_path_join(&path, "/a/b", "c"), TROUPE_OK);
    assert_string_equal(path.text, "/a/b/c");
    memset(folder, 'x', PATH_MAX - 3); // With "/c" and the end behind it that is all there is.
    assert_int_equal(trp_path_join(&path, folder, "c"), TROUPE_OK);
    assert_int_equal(strlen(path.text), PATH_MAX - 1);
    assert_int_equal(trp_path_join(&path, folder, "cd"), TROUPE_TOO_LARGE);
}

static const char *step_that_fails;

static int fail_at(const char *step)
{
    return strcmp(step, step_that_fails) == 0 ? ENOSPC : 0;
}

// Whichever step fails, the old file is there whole, and nothing beside it.
static void test_a_replacement_that_fails_leaves_what_was(void **state)
{
    static const char *const steps[] = {"open", "write", "fsync", "rename"};
    (void)state;
    char *folder = support_directory_make(), *file = support_path(folder, "file");
    assert_int_equal(trp_file_replace(file, "old", 3), TROUPE_OK);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        step_that_fails = steps[i];
        trp_file_probe = fail_at;
        assert_int_equal(trp_file_replace(file, "newer", 5), TROUPE_NO_SPACE);
        trp_file_probe = NULL;
        expect_bytes(file, "old");
        assert_int_equal(support_count_files(folder), 1);
    }
    free(file);
    support_directory_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_folders_are_made_with_those_above),
        cmocka_unit_test(test_files_are_made_replaced_and_added_to),
        cmocka_unit_test(test_paths_are_joined),
        cmocka_unit_test(test_a_replacement_that_fails_leaves_what_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
