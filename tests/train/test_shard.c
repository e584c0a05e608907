// test_shard.c: what ranks put into a checkpoint's folder: any files, nested, links that stay in
// it, and nothing else.
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <train/checkpoint.h>
#include <train/tree.h>
#include <troupe/train.h>
#include <unistd.h>

static char *run_make(void)
{
    char *run = support_directory_make();
    assert_int_equal(trp_checkpoint_clean(run), TROUPE_OK);
    return run;
}

static trp_staging staging_of(const char *run)
{
    return (trp_staging){run, 1, 0, 1};
}

static void write_at(const char *folder, const char *name, const char *text)
{
    trp_path path;
    char *parts = strdup(name);
    for (char *slash = strchr(parts, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        assert_int_equal(trp_path_make(&path, "%s/%s", folder, parts), TROUPE_OK);
        (void)mkdir(path.text, 0700);
        *slash = '/';
    }
    free(parts);
    assert_int_equal(trp_path_make(&path, "%s/%s", folder, name), TROUPE_OK);
    support_write_file(path.text, text, strlen(text));
}

static void link_at(const char *folder, const char *name, const char *target)
{
    char *path = support_path(folder, name);
    assert_int_equal(symlink(target, path), 0);
    free(path);
}

static void shard_make(const char *run, int rank, trp_path *folder)
{
    trp_staging staging = staging_of(run);
    assert_int_equal(trp_shard_make(&staging, rank, folder), TROUPE_OK);
}

// Lists and seals the folders of all ranks, and commits them as checkpoint 0.
static troupe_status commit(const char *run, int world, trp_path *folder)
{
    trp_manifest_file files[256];
    size_t count = 0;
    trp_arena arena = {0};
    troupe_status status = TROUPE_OK;
    for (int rank = 0; rank < world && status == TROUPE_OK; rank++) {
        trp_path shard;
        troupe_array_trp_manifest_file listed;
        shard_make(run, rank, &shard);
        status = trp_shard_list(shard.text, rank, NULL, &arena, &listed);
        if (status == TROUPE_OK) {
            memcpy(files + count, listed.items, listed.count * sizeof *files);
            status = trp_shard_seal(shard.text, files + count, listed.count);
            count += listed.count;
        }
    }
    trp_staging staging = staging_of(run);
    trp_manifest manifest = {.report = 1, .world = world, .files = {files, count}};
    if (status == TROUPE_OK)
        status = trp_checkpoint_commit(&staging, run, &manifest, folder);
    trp_arena_clear(&arena);
    return status;
}

// ---- what goes in comes out

static uint64_t seed;
static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

// Fills a folder with files of all sizes, folders in folders, some of them empty, and links.
static void fill_randomly(const char *folder, int depth)
{
    char *bytes = malloc(400000);
    for (int i = 0; i < 6; i++) {
        char name[32];
        snprintf(name, sizeof name, "%c \"%d\" \xC3\xA4", 'a' + i, depth);
        char *path = support_path(folder, name);
        size_t size = next_random() % 3 ? next_random() % 200 : next_random() % 400000;
        switch (next_random() % 4) {
        case 0:
            assert_int_equal(mkdir(path, 0700), 0);
            if (depth < 4)
                fill_randomly(path, depth + 1);
            break;
        case 1:
            assert_int_equal(symlink(depth ? "../b \"0\" \xC3\xA4" : "nowhere/at all", path), 0);
            break;
        default:
            support_fill(bytes, size / 8 * 8, next_random());
            support_write_file(path, bytes, size / 8 * 8);
        }
        free(path);
    }
    free(bytes);
}

static int count_differences(const char *left, const char *right)
{
    char command[9000], output[4096];
    snprintf(command, sizeof command, "diff -r --no-dereference '%s' '%s' 2>&1 | grep -cv %s", left,
             right, "'Only in .*: manifest.json'");
    (void)support_run(command, output, sizeof output);
    return atoi(output);
}

// C16
static void test_any_folder_comes_back_as_it_was(void **state)
{
    (void)state;
    for (uint64_t first = 1; first <= 6; first++) {
        seed = first * 0x9E3779B97F4A7C15u;
        char *run = run_make(), *copy = support_path(run, "copy");
        trp_path shard, folder;
        shard_make(run, 0, &shard);
        fill_randomly(shard.text, 0);
        assert_int_equal(trp_tree_copy(shard.text, copy), TROUPE_OK);
        if (commit(run, 1, &folder) != TROUPE_OK)
            fail_msg("seed %d: %s", (int)first, troupe_last_error()->text);
        trp_arena arena = {0};
        trp_manifest manifest;
        assert_int_equal(trp_checkpoint_verify(folder.text, &arena, &manifest), TROUPE_OK);
        if (count_differences(copy, folder.text) != 0)
            fail_msg("seed %d: %s and %s differ", (int)first, copy, folder.text);
        trp_arena_clear(&arena);
        free(copy);
        support_directory_remove(run);
    }
}

static void test_what_changes_or_goes_is_found(void **state)
{
    (void)state;
    char *run = run_make();
    trp_path shard, folder;
    shard_make(run, 0, &shard);
    write_at(shard.text, "a/b/weights", "0123456789");
    link_at(shard.text, "a/newest", "b/weights");
    write_at(shard.text, "empty/x", "");
    assert_int_equal(commit(run, 1, &folder), TROUPE_OK);
    trp_arena arena = {0};
    trp_manifest manifest;
    char *file = support_path(folder.text, "a/b/weights"),
         *link = support_path(folder.text, "a/newest");
    const char *text = troupe_last_error()->text;

    support_write_file(file, "0123456780", 10);
    assert_int_equal(trp_checkpoint_verify(folder.text, &arena, &manifest), TROUPE_CORRUPT);
    assert_non_null(strstr(text, "a/b/weights is damaged: its checksum is wrong"));
    support_write_file(file, "012345678", 9);
    assert_int_equal(trp_checkpoint_verify(folder.text, &arena, &manifest), TROUPE_CORRUPT);
    assert_non_null(strstr(text, "a/b/weights is damaged: it has 9 bytes, expected 10"));
    assert_int_equal(unlink(file), 0);
    assert_int_equal(trp_checkpoint_verify(folder.text, &arena, &manifest), TROUPE_CORRUPT);
    assert_non_null(strstr(text, "a/b/weights is missing"));
    assert_int_equal(mkdir(file, 0700), 0);
    assert_int_equal(trp_checkpoint_verify(folder.text, &arena, &manifest), TROUPE_CORRUPT);
    assert_non_null(strstr(text, "is not a file"));
    assert_int_equal(rmdir(file), 0);
    // The same bytes, behind a link that leads out.
    char *elsewhere = support_path(run, "elsewhere");
    support_write_file(elsewhere, "0123456789", 10);
    assert_int_equal(symlink(elsewhere, file), 0);
    for (int plain = 0; plain < 2; plain++) {
        trp_file_plain_open = plain != 0;
        assert_int_equal(trp_checkpoint_verify(folder.text, &arena, &manifest), TROUPE_IO);
        assert_non_null(strstr(text, "cannot open"));
    }
    trp_file_plain_open = false;
    assert_int_equal(unlink(file), 0);
    support_write_file(file, "0123456789", 10);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(trp_checkpoint_verify(folder.text, &arena, &manifest), TROUPE_CORRUPT);
    assert_non_null(strstr(text, "a/newest is damaged: it is not the link to 'b/weights'"));
    assert_int_equal(symlink("b/weights", link), 0);
    for (int plain = 0; plain < 2; plain++) {
        trp_file_plain_open = plain != 0;
        assert_int_equal(trp_checkpoint_verify(folder.text, &arena, &manifest), TROUPE_OK);
    }
    trp_file_plain_open = false;
    trp_arena_clear(&arena);
    free(elsewhere);
    free(link);
    free(file);
    support_directory_remove(run);
}

// ---- what is refused

static void refused(const char *folder, const char *name, const char *word)
{
    trp_arena arena = {0};
    troupe_array_trp_manifest_file files;
    assert_int_equal(trp_shard_list(folder, 3, NULL, &arena, &files), TROUPE_INVALID);
    const char *text = troupe_last_error()->text;
    if (!strstr(text, "of rank 3") || !strstr(text, word) || !strstr(text, name))
        fail_msg("'%s' speaks not of '%s' and '%s'", text, name, word);
    char *path = support_path(folder, name);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(trp_shard_list(folder, 3, NULL, &arena, &files), TROUPE_OK);
    free(path);
    trp_arena_clear(&arena);
}

static void test_what_cannot_be_in_a_checkpoint_is_named(void **state)
{
    (void)state;
    char *run = run_make();
    trp_path shard;
    shard_make(run, 3, &shard);
    write_at(shard.text, "a/b/c", "x");
    const char *const targets[] = {"/etc/passwd", "..", "../x", "a/../../x", "a/b/../c", "a/.."};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        link_at(shard.text, "out", targets[i]);
        refused(shard.text, "out", targets[i]);
    }
    link_at(shard.text, "a/b/out", "../../../x");
    refused(shard.text, "a/b/out", "../../../x");
    char *pipe = support_path(shard.text, "pipe");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    refused(shard.text, "pipe", "a pipe, a socket or a device");
    const char *const names[] = {"manifest.json", "manifest", "rank_00007.safetensors"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        write_at(shard.text, names[i], "x");
        refused(shard.text, names[i], "the library itself uses");
        trp_path below;
        assert_int_equal(trp_path_make(&below, "a/%s", names[i]), TROUPE_OK);
        write_at(shard.text, below.text, "x"); // Not at the top: any name will do.
    }
    write_at(shard.text, "bad\xFFname", "x");
    trp_arena arena = {0};
    troupe_array_trp_manifest_file files;
    assert_int_equal(trp_shard_list(shard.text, 3, NULL, &arena, &files), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "expected a name in UTF-8"));
    trp_arena_clear(&arena);
    free(pipe);
    support_directory_remove(run);
}

static void test_folders_too_deep_are_refused(void **state)
{
    (void)state;
    char *run = run_make();
    trp_path shard, path;
    trp_arena arena = {0};
    troupe_array_trp_manifest_file files;
    shard_make(run, 3, &shard);
    path = shard;
    for (int i = 0; i < TRP_TREE_DEPTH; i++) {
        strcat(path.text, "/d");
        assert_int_equal(mkdir(path.text, 0700), 0);
    }
    assert_int_equal(trp_shard_list(shard.text, 3, NULL, &arena, &files), TROUPE_OK);
    assert_int_equal(files.count, 1);
    assert_int_equal(files.items[0].kind, TRP_FILE_FOLDER);
    strcat(path.text, "/d");
    assert_int_equal(mkdir(path.text, 0700), 0);
    assert_int_equal(trp_shard_list(shard.text, 3, NULL, &arena, &files), TROUPE_TOO_LARGE);
    assert_non_null(strstr(troupe_last_error()->text, "deeper than 64 folders"));
    trp_arena_clear(&arena);
    support_directory_remove(run);
}

// ---- several ranks

// C18
static void test_shards_become_one_folder(void **state)
{
    (void)state;
    enum { WORLD = 4 };
    char *run = run_make();
    trp_path shard, folder;
    for (int rank = 0; rank < WORLD; rank++) {
        char name[64];
        shard_make(run, rank, &shard);
        snprintf(name, sizeof name, "layers/%d/model-rank=%d.pt", rank % 2, rank);
        write_at(shard.text, name, name);
        write_at(shard.text, "config/model.txt", "the same on all");
        link_at(shard.text, "first", "layers/0/model-rank=0.pt");
    }
    assert_int_equal(commit(run, WORLD, &folder), TROUPE_OK);
    trp_arena arena = {0};
    trp_manifest manifest;
    assert_int_equal(trp_checkpoint_verify(folder.text, &arena, &manifest), TROUPE_OK);
    const char *const expected[] = {"config/model.txt",         "first",
                                    "layers/0/model-rank=0.pt", "layers/0/model-rank=2.pt",
                                    "layers/1/model-rank=1.pt", "layers/1/model-rank=3.pt"};
    const int ranks[] = {0, 0, 0, 2, 1, 3};
    assert_int_equal(manifest.files.count, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_string_equal(manifest.files.items[i].path, expected[i]);
        assert_int_equal(manifest.files.items[i].rank, ranks[i]);
    }
    char *third = support_path(folder.text, expected[5]), *text = support_read_file(third);
    assert_string_equal(text, expected[5]);
    free(text);
    free(third);
    trp_arena_clear(&arena);
    support_directory_remove(run);
}

// C18
static void test_different_files_of_one_name_are_refused(void **state)
{
    (void)state;
    char *run = run_make();
    trp_path shard, folder;
    for (int rank = 0; rank < 3; rank++) {
        shard_make(run, rank, &shard);
        write_at(shard.text, "deep/weights.bin", rank == 2 ? "other" : "bytes");
    }
    assert_int_equal(commit(run, 3, &folder), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "deep/weights.bin"));
    assert_non_null(strstr(troupe_last_error()->text, "ranks 0 and 2"));
    trp_arena arena = {0};
    trp_manifest manifest;
    assert_int_equal(trp_checkpoint_newest(run, run, INT64_MAX, &arena, &manifest, &(trp_path){0}),
                     TROUPE_NOT_FOUND);
    // A file and a folder of one name.
    assert_int_equal(unlink(strcat(shard.text, "/deep/weights.bin")), 0);
    assert_int_equal(mkdir(shard.text, 0700), 0);
    assert_int_equal(commit(run, 3, &folder), TROUPE_INVALID);
    write_at(shard.text, "x", "y");
    assert_int_equal(commit(run, 3, &folder), TROUPE_IO);
    assert_non_null(strstr(troupe_last_error()->text, "deep/weights.bin"));
    assert_int_equal(trp_checkpoint_newest(run, run, INT64_MAX, &arena, &manifest, &(trp_path){0}),
                     TROUPE_NOT_FOUND);
    assert_int_equal(trp_checkpoint_clean(run), TROUPE_OK);
    char *checkpoints = support_path(run, "checkpoints");
    assert_int_equal(rmdir(checkpoints), 0); // Nothing is left in it.
    trp_arena_clear(&arena);
    free(checkpoints);
    support_directory_remove(run);
}

// ---- trees

static void test_no_link_is_followed(void **state)
{
    (void)state;
    char *base = support_directory_make();
    trp_path path;
    write_at(base, "kept/file", "x");
    write_at(base, "tree/sub/file", "y");
    link_at(base, "tree/sub/link", "../../kept");
    link_at(base, "tree/file", "../kept/file");
    char *tree = support_path(base, "tree"), *copy = support_path(base, "copy");
    assert_int_equal(trp_tree_copy(tree, copy), TROUPE_OK);
    assert_int_equal(count_differences(tree, copy), 0);
    // Over a link that is there: it is replaced.
    assert_int_equal(trp_path_make(&path, "%s/sub/file", copy), TROUPE_OK);
    assert_int_equal(unlink(path.text), 0);
    link_at(copy, "sub/file", "../../kept/file");
    assert_int_equal(trp_tree_copy(tree, copy), TROUPE_OK);
    assert_int_equal(count_differences(tree, copy), 0);
    assert_int_equal(trp_folder_discard(tree), TROUPE_OK);
    assert_int_equal(trp_folder_discard(copy), TROUPE_OK);
    assert_false(support_exists(tree));
    assert_false(support_exists(copy));
    char *kept = support_path(base, "kept/file"), *text = support_read_file(kept);
    assert_string_equal(text, "x");
    assert_int_equal(trp_folder_discard(tree), TROUPE_NOT_FOUND);
    assert_int_equal(trp_tree_copy(tree, copy), TROUPE_NOT_FOUND);
    free(text);
    free(kept);
    free(copy);
    free(tree);
    support_directory_remove(base);
}

static int no_sharing_between(const char *step)
{
    return strcmp(step, "write") == 0 ? EXDEV : 0;
}

static void test_a_copy_where_blocks_cannot_be_shared(void **state)
{
    (void)state;
    char *base = support_directory_make();
    char *from = support_path(base, "from"), *to = support_path(base, "to");
    enum { SIZE = 1 << 20 };
    char *bytes = malloc(SIZE);
    support_fill(bytes, SIZE, 7);
    support_write_file(from, bytes, SIZE);
    trp_file_probe = no_sharing_between;
    assert_int_equal(trp_tree_copy(from, to), TROUPE_OK);
    trp_file_probe = NULL;
    int fd = open(to, O_RDONLY);
    assert_true(fd >= 0);
    memset(bytes, 0, SIZE);
    assert_int_equal(read(fd, bytes, SIZE), SIZE);
    close(fd);
    assert_true(support_is_filled(bytes, SIZE, 7));
    free(bytes);
    free(to);
    free(from);
    support_directory_remove(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_folder_comes_back_as_it_was),
        cmocka_unit_test(test_what_changes_or_goes_is_found),
        cmocka_unit_test(test_what_cannot_be_in_a_checkpoint_is_named),
        cmocka_unit_test(test_folders_too_deep_are_refused),
        cmocka_unit_test(test_shards_become_one_folder),
        cmocka_unit_test(test_different_files_of_one_name_are_refused),
        cmocka_unit_test(test_no_link_is_followed),
        cmocka_unit_test(test_a_copy_where_blocks_cannot_be_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
