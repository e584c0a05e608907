// test_checkpoint.c: whole or absent, whatever happens: crashes at every step, cuts, flipped bytes,
// a full disk.
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <train/checkpoint.h>
#include <train/opening.h>
#include <train/state.h>
#include <troupe/train.h>
#include <unistd.h>

TROUPE_STRUCT(model, (troupe_text, note), (troupe_array_double, weights), (int64_t, epoch),
              (float, bias, 3));
TROUPE_STRUCT(other_model, (troupe_text, note), (troupe_array_double, weights), (int64_t, age),
              (float, bias, 3));

enum { WEIGHTS = 50 };

static double weights[WEIGHTS];

static model make(int rank, int64_t epoch)
{
    for (int i = 0; i < WEIGHTS; i++)
        weights[i] = (double)(i + rank) / 3 + (double)epoch;
    return (model){"a note, \"quoted\", \xC3\xA4", {weights, WEIGHTS}, epoch, {1, 2, (float)rank}};
}

static bool is(const model *read, int rank, int64_t epoch)
{
    model expected = make(rank, epoch);
    return strcmp(read->note, expected.note) == 0 && read->weights.count == WEIGHTS &&
           memcmp(read->weights.items, weights, sizeof weights) == 0 && read->epoch == epoch &&
           memcmp(read->bias, expected.bias, sizeof expected.bias) == 0;
}

static troupe_status stage(const char *run, int report, int rank, const model *value,
                           trp_manifest_file *file)
{
    static char names[8][TRP_STATE_NAME];
    trp_staging staging = {run, 1, 0, report};
    trp_buffer packed = {0};
    trp_path shard;
    trp_shard_state_name(rank, names[rank]);
    troupe_status status = trp_state_pack(names[rank], &troupe_type_model, value, &packed);
    if (status == TROUPE_OK)
        status = trp_checkpoint_stage(&staging, rank, names[rank], &packed, &shard);
    *file = (trp_manifest_file){.path = names[rank],
                                .rank = rank,
                                .kind = TRP_FILE_STATE,
                                .size = packed.size,
                                .digest = trp_digest(packed.data, packed.size),
                                .schema = troupe_type_hash(&troupe_type_model)};
    trp_buffer_free(&packed);
    return status;
}

static troupe_status stage_and_commit(const char *run, int64_t id, int world, int64_t epoch,
                                      trp_path *folder)
{
    trp_manifest_file files[8];
    for (int rank = 0; rank < world; rank++) {
        model value = make(rank, epoch);
        TROUPE_TRY(stage(run, (int)epoch, rank, &value, &files[rank]));
    }
    const trp_metric metric = {"loss", 0.5};
    trp_staging staging = {run, 1, 0, (int)epoch};
    trp_manifest manifest = {.id = id,
                             .report = (int)epoch,
                             .world = world,
                             .created = "2026-01-31T12:00:00.000Z",
                             .trainer = "fit \"it\"",
                             .config = "{\"rate\": 0.5}",
                             .metrics = {&metric, 1},
                             .files = {files, (size_t)world}};
    return trp_checkpoint_commit(&staging, run, &manifest, folder);
}

static char *run_make(void)
{
    char *run = support_directory_make();
    assert_int_equal(trp_checkpoint_clean(run), TROUPE_OK); // Of nothing.
    assert_int_equal(trp_checkpoint_place(run), TROUPE_OK);
    return run;
}

static void test_what_is_saved_is_loaded(void **state)
{
    (void)state;
    char *run = run_make();
    trp_path folder;
    assert_int_equal(stage_and_commit(run, 0, 2, 7, &folder), TROUPE_OK);
    assert_non_null(strstr(folder.text, "/checkpoints/checkpoint_000000"));
    trp_arena arena = {0};
    trp_manifest manifest;
    assert_int_equal(trp_checkpoint_verify(folder.text, &arena, &manifest), TROUPE_OK);
    assert_int_equal(manifest.id, 0);
    assert_int_equal(manifest.report, 7);
    assert_int_equal(manifest.world, 2);
    assert_int_equal(manifest.metrics.count, 1);
    assert_string_equal(manifest.metrics.items[0].name, "loss");
    for (int rank = 0; rank < 2; rank++) {
        model read;
        assert_int_equal(troupe_checkpoint_load(model, folder.text, rank, &read), TROUPE_OK);
        assert_true(is(&read, rank, 7));
    }
    trp_arena_clear(&arena);
    troupe_arena_reset();
    support_directory_remove(run);
}

// C13.
static void test_what_is_missing_or_of_another_type_is_named(void **state)
{
    (void)state;
    char *run = run_make();
    trp_path folder;
    model read = {.epoch = -1};
    other_model other = {.age = -1};
    const char *text = troupe_last_error()->text;
    assert_int_equal(troupe_checkpoint_load(model, "/nowhere/at/all", 0, &read), TROUPE_NOT_FOUND);
    assert_non_null(strstr(text, "path /nowhere/at/all does not exist")); // C13
    assert_int_equal(troupe_checkpoint_load(model, run, 0, &read), TROUPE_NOT_FOUND);
    assert_non_null(strstr(text, "is not a checkpoint"));
    assert_int_equal(stage_and_commit(run, 3, 1, 1, &folder), TROUPE_OK);
    assert_int_equal(troupe_checkpoint_load(model, folder.text, 1, &read), TROUPE_NOT_FOUND);
    assert_non_null(strstr(text, "no state of rank 1"));
    assert_int_equal(troupe_checkpoint_load(other_model, folder.text, 0, &other),
                     TROUPE_WRONG_TYPE);
    assert_non_null(strstr(text, "'model'"));
    assert_non_null(strstr(text, "'other_model'"));
    assert_non_null(strstr(text, "rank_00000.safetensors"));
    assert_int_equal(read.epoch, -1);
    assert_int_equal(other.age, -1);

    // A rank without a state of its own gets that of rank 0, where that is asked for.
    trp_arena arena = {0};
    assert_int_equal(
        trp_checkpoint_load(folder.text, 5, TRP_STATE_OR_FIRST, &troupe_type_model, &arena, &read),
        TROUPE_OK);
    assert_true(is(&read, 0, 1));
    trp_arena_clear(&arena);
    support_directory_remove(run);
}

// C09.
static void test_names_and_numbers_sort_beyond_six_digits(void **state)
{
    (void)state;
    char *run = run_make();
    trp_path folder;
    trp_arena arena = {0};
    trp_manifest manifest;
    assert_int_equal(trp_checkpoint_newest(run, run, INT64_MAX, &arena, &manifest, &(trp_path){0}),
                     TROUPE_NOT_FOUND);
    assert_int_equal(stage_and_commit(run, 999999, 1, 1, &folder), TROUPE_OK);
    assert_int_equal(stage_and_commit(run, 1000000, 1, 2, &folder), TROUPE_OK);
    assert_non_null(strstr(folder.text, "checkpoint_1000000"));
    assert_int_equal(trp_checkpoint_newest(run, run, INT64_MAX, &arena, &manifest, &(trp_path){0}),
                     TROUPE_OK);
    assert_int_equal(manifest.id, 1000000);
    assert_int_equal(trp_checkpoint_newest(run, run, 1000000, &arena, &manifest, &(trp_path){0}),
                     TROUPE_OK);
    assert_int_equal(manifest.id, 999999);
    trp_arena_clear(&arena);
    support_directory_remove(run);
}

// ---- crashes

static int steps_left;

static int crash_when_due(const char *step)
{
    (void)step;
    if (steps_left-- == 0)
        _exit(77);
    return 0;
}

// Saves, commits and removes as a run does, and dies before step `crash_at` of what changes the
// disk.
static void run_until(const char *run, int crash_at)
{
    trp_path folder;
    steps_left = crash_at;
    trp_file_probe = crash_when_due;
    troupe_status status = stage_and_commit(run, 1, 2, 20, &folder);
    if (status == TROUPE_OK)
        status = trp_checkpoint_remove(run, 0);
    if (status == TROUPE_OK)
        status = stage_and_commit(run, 2, 2, 30, &folder);
    _exit(status == TROUPE_OK ? 0 : 1);
}

static size_t count_leftovers(const char *run)
{
    char *path = support_path(run, "checkpoints");
    DIR *folder = opendir(path);
    assert_non_null(folder);
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(folder));)
        count +=
            entry->d_name[0] == '.' && strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
    closedir(folder);
    free(path);
    return count;
}

static void test_a_crash_at_any_step_leaves_a_whole_checkpoint(void **state)
{
    (void)state;
    int code = 77;
    int64_t newest = 0;
    int steps = 0;
    for (; code == 77; steps++) {
        char *run = run_make();
        trp_path folder;
        assert_int_equal(stage_and_commit(run, 0, 2, 10, &folder), TROUPE_OK);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            run_until(run, steps);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        code = WEXITSTATUS(status);
        assert_true(code == 77 || code == 0);

        // The next start: what is half done goes, and what is committed is whole.
        assert_int_equal(trp_checkpoint_clean(run), TROUPE_OK);
        assert_int_equal(count_leftovers(run), 0);
        trp_arena arena = {0};
        trp_manifest manifest;
        assert_int_equal(
            trp_checkpoint_newest(run, run, INT64_MAX, &arena, &manifest, &(trp_path){0}),
            TROUPE_OK);
        assert_true(manifest.id >= newest); // The later the crash, the newer what is there.
        newest = manifest.id;
        assert_int_equal(trp_checkpoint_folder(run, newest, &folder), TROUPE_OK);
        for (int rank = 0; rank < 2; rank++) {
            model read;
            assert_int_equal(troupe_checkpoint_load(model, folder.text, rank, &read), TROUPE_OK);
            assert_true(is(&read, rank, 10 + 10 * newest));
        }
        // Nothing in the folder is there but in whole: also not what was to be removed.
        for (int64_t id = 0; id <= newest; id++) {
            assert_int_equal(trp_checkpoint_folder(run, id, &folder), TROUPE_OK);
            if (support_exists(folder.text))
                assert_int_equal(trp_checkpoint_verify(folder.text, &arena, &manifest), TROUPE_OK);
        }
        trp_arena_clear(&arena);
        troupe_arena_reset();
        support_directory_remove(run);
    }
    assert_int_equal(newest, 2);
    assert_true(steps > 30);
}

// ---- steps that fail

static int failing_code;
static char failing_step[32];

static int fail_when_due(const char *step)
{
    if (steps_left-- != 0)
        return 0;
    snprintf(failing_step, sizeof failing_step, "%s", step);
    return failing_code;
}

// Fails step `at` of a save and a commit beside a whole checkpoint. False: there was no such step.
static bool fail_step(int at)
{
    char *run = run_make();
    trp_path folder;
    assert_int_equal(stage_and_commit(run, 0, 2, 10, &folder), TROUPE_OK);
    steps_left = at;
    trp_file_probe = fail_when_due;
    troupe_status status = stage_and_commit(run, 1, 2, 20, &folder);
    trp_file_probe = NULL;
    bool met = steps_left < 0;
    // To remove what is of no use any more may fail: the next cleaning does it.
    if (status != TROUPE_OK) {
        assert_true(met);
        assert_int_equal(status, failing_code == ENOSPC ? TROUPE_NO_SPACE : TROUPE_IO);
        assert_non_null(strstr(troupe_last_error()->text, run));
        assert_non_null(strstr(troupe_last_error()->text, strerror(failing_code)));
        (void)trp_checkpoint_discard(&(trp_staging){run, 1, 0, 20});
        assert_int_equal(count_leftovers(run), 0);
    } else if (met) {
        assert_true(strcmp(failing_step, "rmdir") == 0 || strcmp(failing_step, "unlink") == 0);
    }
    assert_int_equal(trp_checkpoint_clean(run), TROUPE_OK);
    assert_int_equal(count_leftovers(run), 0);
    trp_arena arena = {0};
    trp_manifest manifest;
    assert_int_equal(trp_checkpoint_newest(run, run, INT64_MAX, &arena, &manifest, &(trp_path){0}),
                     TROUPE_OK);
    assert_int_equal(manifest.id, status == TROUPE_OK ? 1 : 0);
    assert_int_equal(trp_checkpoint_folder(run, manifest.id, &folder), TROUPE_OK);
    model read;
    assert_int_equal(troupe_checkpoint_load(model, folder.text, 1, &read), TROUPE_OK);
    assert_true(is(&read, 1, manifest.id == 1 ? 20 : 10));
    trp_arena_clear(&arena);
    troupe_arena_reset();
    support_directory_remove(run);
    return met;
}

static void test_a_step_that_fails_leaves_the_old_or_the_new_checkpoint(void **state)
{
    (void)state;
    const int codes[] = {ENOSPC, EIO};
    for (int i = 0; i < 2; i++) {
        failing_code = codes[i];
        int steps = 0;
        while (fail_step(steps))
            steps++;
        assert_true(steps > 20);
    }
}

// ---- damage

static void damaged(const char *folder, const char *name)
{
    trp_arena arena = {0};
    trp_manifest manifest;
    assert_int_equal(trp_checkpoint_verify(folder, &arena, &manifest), TROUPE_CORRUPT);
    assert_non_null(strstr(troupe_last_error()->text, name));
    trp_arena_clear(&arena);
    if (strcmp(name, "manifest.json") == 0)
        return;
    model read = {.epoch = -1};
    assert_int_equal(troupe_checkpoint_load(model, folder, 0, &read), TROUPE_CORRUPT);
    assert_non_null(strstr(troupe_last_error()->text, name));
    assert_int_equal(read.epoch, -1);
    troupe_arena_reset();
}

static void test_every_cut_and_every_flipped_byte_is_found(void **state)
{
    (void)state;
    char *run = run_make();
    trp_path folder;
    assert_int_equal(stage_and_commit(run, 0, 1, 5, &folder), TROUPE_OK);
    const char *const names[] = {"rank_00000.safetensors", "manifest.json"};
    for (int n = 0; n < 2; n++) {
        char *path = support_path(folder.text, names[n]);
        struct stat about;
        assert_int_equal(stat(path, &about), 0);
        size_t size = (size_t)about.st_size;
        unsigned char *whole = malloc(size + 1);
        int fd = open(path, O_RDONLY);
        assert_true(fd >= 0);
        assert_int_equal(read(fd, whole, size), size);
        close(fd);
        for (size_t cut = 0; cut < size; cut += cut < 128 ? 1 : 64) {
            support_write_file(path, whole, cut);
            damaged(folder.text, names[n]);
        }
        support_write_file(path, whole, size - 1);
        damaged(folder.text, names[n]);
        whole[size] = 0;
        support_write_file(path, whole, size + 1);
        damaged(folder.text, names[n]);
        for (size_t at = 0; at < size; at++) {
            whole[at] ^= (unsigned char)(1u << at % 8);
            support_write_file(path, whole, size);
            damaged(folder.text, names[n]);
            whole[at] ^= (unsigned char)(1u << at % 8);
        }
        support_write_file(path, whole, size);
        trp_arena arena = {0};
        trp_manifest manifest;
        assert_int_equal(trp_checkpoint_verify(folder.text, &arena, &manifest), TROUPE_OK);
        trp_arena_clear(&arena);
        free(whole);
        free(path);
    }
    support_directory_remove(run);
}

static void test_a_whole_file_of_another_checkpoint_is_refused(void **state)
{
    (void)state;
    char *run = run_make();
    trp_path first, second;
    assert_int_equal(stage_and_commit(run, 0, 1, 5, &first), TROUPE_OK);
    assert_int_equal(stage_and_commit(run, 1, 1, 6, &second), TROUPE_OK);
    char *mine = support_path(second.text, "rank_00000.safetensors");
    char *theirs = support_path(first.text, "rank_00000.safetensors");
    assert_int_equal(rename(theirs, mine), 0);
    damaged(second.text, "rank_00000.safetensors");
    trp_arena arena = {0};
    trp_manifest manifest;
    assert_int_equal(trp_checkpoint_verify(first.text, &arena, &manifest), TROUPE_CORRUPT);
    assert_non_null(strstr(troupe_last_error()->text, "the state of rank 0 is missing"));
    assert_int_equal(trp_checkpoint_newest(run, run, INT64_MAX, &arena, &manifest, &(trp_path){0}),
                     TROUPE_NOT_FOUND);
    trp_arena_clear(&arena);
    free(mine);
    free(theirs);
    support_directory_remove(run);
}

static char *read_manifest(const char *folder)
{
    char *path = support_path(folder, "manifest.json"), *text = support_read_file(path);
    assert_non_null(text);
    free(path);
    return text;
}

// Puts another manifest in place, with the checksum that belongs to it.
static void replace_manifest(const char *folder, const char *text)
{
    char *path = support_path(folder, "manifest.json");
    const char *end = strstr(text, ",\n\"checksum\"");
    trp_buffer out = {0};
    trp_buffer_append(&out, text, end ? (size_t)(end - text) : strlen(text));
    trp_manifest_seal(&out);
    assert_false(out.failed);
    support_write_file(path, out.data, out.size);
    trp_buffer_free(&out);
    free(path);
}

// The text with `old`, which is in it, replaced; freed with free().
static char *exchange(const char *text, const char *old, const char *new)
{
    const char *at = strstr(text, old);
    assert_non_null(at);
    size_t size = strlen(text) + strlen(new) + 1;
    char *made = malloc(size);
    snprintf(made, size, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    return made;
}

static void test_members_come_and_go_and_versions_are_refused(void **state)
{
    (void)state;
    char *run = run_make();
    trp_path folder;
    trp_arena arena = {0};
    trp_manifest manifest;
    model read;
    assert_int_equal(stage_and_commit(run, 4, 1, 5, &folder), TROUPE_OK);
    char *text = read_manifest(folder.text);
    const struct {
        const char *old, *new;
    } changes[] = {
        {"\"report\": 5,", "\"report\": 5, \"novel\": {\"a\": [1, null]},"},
        {"\"trainer\": \"fit \\\"it\\\"\",", ""},
        {"\"config\": {\"rate\": 0.5},", ""},
        {"\"created\": \"2026-01-31T12:00:00.000Z\",", ""},
        {"\"kind\": \"state\"", "\"kind\": \"state\", \"owner\": 7"},
        {"\"metrics\": [{\"name\": \"loss\", \"value\": 0.5}],", ""},
        {"\"files\": [", "\"files\": [{\"path\": \"later\", \"kind\": \"hologram\"},"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char *changed = exchange(text, changes[i].old, changes[i].new);
        replace_manifest(folder.text, changed);
        assert_int_equal(trp_checkpoint_verify(folder.text, &arena, &manifest), TROUPE_OK);
        assert_int_equal(manifest.id, 4);
        assert_int_equal(troupe_checkpoint_load(model, folder.text, 0, &read), TROUPE_OK);
        assert_true(is(&read, 0, 5));
        free(changed);
    }
    char *later = exchange(text, "\"version\": 1", "\"version\": 7");
    replace_manifest(folder.text, later);
    assert_int_equal(trp_checkpoint_verify(folder.text, &arena, &manifest), TROUPE_VERSION);
    assert_non_null(strstr(troupe_last_error()->text, "manifest.json has format version 7"));
    assert_non_null(strstr(troupe_last_error()->text, "reads up to 1"));
    free(later);
    // Paths that lead elsewhere are damage.
    const char *const paths[] = {"/etc/passwd", "../rank_00000.safetensors", "a//b", "a/./b", ""};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char *changed = exchange(text, "rank_00000.safetensors", paths[i]);
        replace_manifest(folder.text, changed);
        assert_int_equal(trp_checkpoint_verify(folder.text, &arena, &manifest), TROUPE_CORRUPT);
        free(changed);
    }
    char *typed = exchange(text, "\"id\": 4", "\"id\": \"four\"");
    replace_manifest(folder.text, typed);
    assert_int_equal(trp_checkpoint_verify(folder.text, &arena, &manifest), TROUPE_CORRUPT);
    assert_non_null(strstr(troupe_last_error()->text, "manifest.json is no manifest"));
    free(typed);
    free(text);
    trp_arena_clear(&arena);
    troupe_arena_reset();
    support_directory_remove(run);
}

// ---- a checkpoint of the time when manifests were sealed files

TROUPE_STRUCT(old_state, (int64_t, epoch), (double, weight));

static void write_base64(const char *folder, const char *name, const char *text)
{
    const char *digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned char bytes[512];
    size_t size = 0;
    unsigned bits = 0, held = 0;
    for (; *text && *text != '='; text++) {
        bits = bits << 6 | (unsigned)(strchr(digits, *text) - digits);
        held += 6;
        if (held >= 8)
            bytes[size++] = (unsigned char)(bits >> (held -= 8));
    }
    char *path = support_path(folder, name);
    support_write_file(path, bytes, size);
    free(path);
}

// Written by the library when it still wrote them: report 7 of two ranks.
static void make_old_checkpoint(const char *folder)
{
    write_base64(folder, "manifest",
                 "VFJQU0VBTAoBAAAAAAAAAIqNDuelbfdDPwAAAAAAAAC22d/ygV6Ko3RycF9tYW5pZmVzdAAAAAAAAAAA"
                 "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAN+4cofIkRyf"
                 "lQMHApGSpGxvc3PLP+AAAAAAAACSlADPiS5EIKjsYB8Lz9Fdp1JUdfZxlAHPiS5EIKjsYB8LzxEGLQtn"
                 "XIZd");
    write_base64(folder, "rank_00000.state",
                 "VFJQU0VBTAoBAAAAAAAAAB9g7KggRC6JCwAAAAAAAABx9nVUUqdd0W9sZF9zdGF0ZQAAAAAAAAAAAAAA"
                 "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAPbFEHDo8jK4"
                 "kgfLP/gAAAAAAAA=");
    write_base64(folder, "rank_00001.state",
                 "VFJQU0VBTAoBAAAAAAAAAB9g7KggRC6JCwAAAAAAAABdhlxnCy0GEW9sZF9zdGF0ZQAAAAAAAAAAAAAA"
                 "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAJcRJX+rSuGn"
                 "kgfLQAQAAAAAAAA=");
}

static void test_a_checkpoint_with_the_old_manifest_is_read(void **state)
{
    (void)state;
    char *run = run_make(), *folder = support_path(run, "checkpoints/checkpoint_000003");
    assert_int_equal(trp_folder_make_new(folder), TROUPE_OK);
    make_old_checkpoint(folder);
    trp_arena arena = {0};
    trp_manifest manifest;
    assert_int_equal(trp_checkpoint_newest(run, run, INT64_MAX, &arena, &manifest, &(trp_path){0}),
                     TROUPE_OK);
    assert_int_equal(manifest.id, 3);
    assert_int_equal(manifest.report, 7);
    assert_int_equal(manifest.world, 2);
    assert_string_equal(manifest.metrics.items[0].name, "loss");
    assert_true(manifest.metrics.items[0].value == 0.5);
    assert_int_equal(manifest.files.count, 2);
    assert_string_equal(manifest.files.items[1].path, "rank_00001.state");
    for (int rank = 0; rank < 2; rank++) {
        old_state read;
        assert_int_equal(troupe_checkpoint_load(old_state, folder, rank, &read), TROUPE_OK);
        assert_int_equal(read.epoch, 7);
        assert_true(read.weight == 1.5 + rank);
    }
    // One state in the place of the other is whole in itself, but not what the manifest names.
    char *first = support_path(folder, "rank_00000.state");
    char *second = support_path(folder, "rank_00001.state");
    assert_int_equal(rename(second, first), 0);
    assert_int_equal(trp_checkpoint_verify(folder, &arena, &manifest), TROUPE_CORRUPT);
    assert_non_null(strstr(troupe_last_error()->text, "is not the file that"));
    old_state read;
    assert_int_equal(troupe_checkpoint_load(old_state, folder, 0, &read), TROUPE_CORRUPT);
    assert_int_equal(troupe_checkpoint_load(old_state, folder, 1, &read), TROUPE_NOT_FOUND);
    trp_arena_clear(&arena);
    free(first);
    free(second);
    free(folder);
    support_directory_remove(run);
}

// Written by the library when it had the manifest of today and sealed states.
static void test_a_checkpoint_with_a_sealed_state_is_read(void **state)
{
    (void)state;
    char *run = run_make(), *folder = support_path(run, "checkpoints/checkpoint_000004");
    char *text = support_path(folder, "manifest.json");
    const char *manifest_then =
        "{\n\"version\": 1,\n\"id\": 4,\n\"report\": 8,\n\"world\": 1,\n"
        "\"created\": \"2026-01-31T12:00:00.000Z\",\n\"trainer\": \"fit\",\n"
        "\"metrics\": [],\n\"files\": [\n"
        "{\"path\": \"rank_00000.state\", \"rank\": 0, \"kind\": \"state\", \"size\": 131, "
        "\"xxh64\": \"b479fbe3400a7dd8\", \"schema\": \"892e4420a8ec601f\"}],\n"
        "\"checksum\": \"de9de638af7b425c\"\n}\n";
    assert_int_equal(trp_folder_make_new(folder), TROUPE_OK);
    support_write_file(text, manifest_then, strlen(manifest_then));
    write_base64(folder, "rank_00000.state",
                 "VFJQU0VBTAoBAAAAAAAAAB9g7KggRC6JCwAAAAAAAAC41qeBgOAEWG9sZF9zdGF0ZQAAAAAAAAAAAAAA"
                 "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAC9ZMRthsc+p"
                 "kgjLQAQAAAAAAAA=");
    trp_arena arena = {0};
    trp_manifest manifest;
    old_state read;
    model other;
    assert_int_equal(trp_checkpoint_newest(run, run, INT64_MAX, &arena, &manifest, &(trp_path){0}),
                     TROUPE_OK);
    assert_int_equal(manifest.id, 4);
    assert_int_equal(troupe_checkpoint_load(old_state, folder, 0, &read), TROUPE_OK);
    assert_int_equal(read.epoch, 8);
    assert_true(read.weight == 2.5);
    assert_int_equal(troupe_checkpoint_load(model, folder, 0, &other), TROUPE_WRONG_TYPE);
    trp_arena_clear(&arena);
    free(text);
    free(folder);
    support_directory_remove(run);
}

static void test_the_newest_that_is_whole_is_found(void **state)
{
    (void)state;
    char *run = run_make();
    trp_path folder;
    for (int id = 0; id < 3; id++)
        assert_int_equal(stage_and_commit(run, id, 1, id + 1, &folder), TROUPE_OK);
    char *path = support_path(folder.text, "rank_00000.safetensors");
    assert_int_equal(truncate(path, 130), 0);
    trp_arena arena = {0};
    trp_manifest manifest;
    assert_int_equal(trp_checkpoint_newest(run, run, INT64_MAX, &arena, &manifest, &(trp_path){0}),
                     TROUPE_OK);
    assert_int_equal(manifest.id, 1);
    trp_arena_clear(&arena);
    free(path);
    support_directory_remove(run);
}

static void test_a_second_save_replaces_the_first(void **state)
{
    (void)state;
    char *run = run_make();
    trp_path folder;
    trp_manifest_file file;
    model value = make(0, 1);
    value.weights.count = 3;
    assert_int_equal(stage(run, 9, 0, &value, &file), TROUPE_OK);
    assert_int_equal(stage_and_commit(run, 0, 1, 9, &folder), TROUPE_OK);
    model read;
    assert_int_equal(troupe_checkpoint_load(model, folder.text, 0, &read), TROUPE_OK);
    assert_true(is(&read, 0, 9));
    troupe_arena_reset();
    support_directory_remove(run);
}

// ---- a full disk

static void test_a_full_disk_leaves_the_last_checkpoint(void **state)
{
    (void)state;
    char *run = support_directory_make();
    if (mount("tmpfs", run, "tmpfs", 0, "size=128k")) {
        print_message("skipped: no file system can be mounted here (%s)\n", strerror(errno));
        support_directory_remove(run);
        skip();
    }
    assert_int_equal(trp_checkpoint_clean(run), TROUPE_OK);
    trp_path folder;
    assert_int_equal(stage_and_commit(run, 0, 1, 1, &folder), TROUPE_OK);
    double *many = calloc(100000, sizeof *many);
    model large = {"large", {many, 100000}, 2, {0}};
    trp_manifest_file file;
    assert_int_equal(stage(run, 2, 0, &large, &file), TROUPE_NO_SPACE);
    assert_non_null(strstr(troupe_last_error()->text, "rank_00000.safetensors"));
    trp_path staged;
    assert_int_equal(
        trp_path_make(&staged, "%s/checkpoints/.staging_1_0_2/rank_00000/rank_00000.safetensors",
                      run),
        TROUPE_OK);
    assert_false(support_exists(staged.text)); // And its room is free again:
    assert_int_equal(stage_and_commit(run, 1, 1, 2, &folder), TROUPE_OK);
    trp_arena arena = {0};
    trp_manifest manifest;
    assert_int_equal(trp_checkpoint_newest(run, run, INT64_MAX, &arena, &manifest, &(trp_path){0}),
                     TROUPE_OK);
    assert_int_equal(manifest.id, 1);
    assert_int_equal(trp_checkpoint_newest(run, run, 1, &arena, &manifest, &(trp_path){0}),
                     TROUPE_OK);
    assert_int_equal(manifest.id, 0);
    trp_arena_clear(&arena);
    free(many);
    assert_int_equal(umount(run), 0);
    support_directory_remove(run);
}

static void expect_mode(const char *run, const char *name, mode_t mode)
{
    struct stat about;
    char *path = support_path(run, name);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 07777, mode);
    free(path);
}

static void test_what_is_written_is_for_its_user_alone(void **state)
{
    (void)state;
    char *run = support_directory_make();
    trp_path folder;
    mode_t before = umask(0);
    assert_int_equal(trp_checkpoint_clean(run), TROUPE_OK);
    assert_int_equal(stage_and_commit(run, 0, 1, 1, &folder), TROUPE_OK);
    umask(before);
    expect_mode(run, "checkpoints", 0700);
    expect_mode(run, "checkpoints/checkpoint_000000", 0700);
    expect_mode(run, "checkpoints/checkpoint_000000/manifest.json", 0600);
    expect_mode(run, "checkpoints/checkpoint_000000/rank_00000.safetensors", 0600);
    support_directory_remove(run);
}

// A checkpoint of others may have any link in it: what lies elsewhere is not read.
static void test_links_that_lead_out_are_refused(void **state)
{
    (void)state;
    char *run = support_directory_make();
    trp_path folder, file, moved;
    model read;
    assert_int_equal(trp_checkpoint_clean(run), TROUPE_OK);
    assert_int_equal(stage_and_commit(run, 0, 1, 9, &folder), TROUPE_OK);
    assert_int_equal(trp_path_make(&file, "%s/rank_00000.safetensors", folder.text), TROUPE_OK);
    assert_int_equal(trp_path_make(&moved, "%s/elsewhere", run), TROUPE_OK);
    for (int plain = 0; plain < 2; plain++) {
        trp_file_plain_open = plain != 0;
        assert_int_equal(troupe_checkpoint_load(model, folder.text, 0, &read), TROUPE_OK);
        assert_int_equal(rename(file.text, moved.text), 0);
        assert_int_equal(symlink(moved.text, file.text), 0);
        assert_int_equal(troupe_checkpoint_load(model, folder.text, 0, &read), TROUPE_IO);
        assert_non_null(strstr(troupe_last_error()->text, "rank_00000.safetensors"));
        assert_int_equal(rename(moved.text, file.text), 0);
    }
    trp_file_plain_open = false;
    troupe_arena_reset();
    support_directory_remove(run);
}

static void test_what_a_killed_driver_left_is_removed(void **state)
{
    (void)state;
    char *run = support_directory_make();
    trp_path folder, staged;
    model value = {"m", {NULL, 0}, 1, {0}};
    trp_manifest_file file;
    assert_int_equal(trp_checkpoint_clean(run), TROUPE_OK);
    assert_int_equal(stage_and_commit(run, 0, 1, 1, &folder), TROUPE_OK);
    assert_int_equal(stage(run, 2, 0, &value, &file), TROUPE_OK);
    assert_int_equal(trp_path_make(&staged, "%s/checkpoints/.staging_1_0_2", run), TROUPE_OK);
    trp_alive *alive;
    assert_int_equal(trp_alive_take(run, &alive), TROUPE_OK);
    trp_run_clean_beside(folder.text); // It lives.
    assert_true(support_exists(staged.text));
    trp_alive_leave(&alive);
    trp_run_clean_beside(run); // This is no checkpoint.
    assert_true(support_exists(staged.text));
    trp_run_clean_beside(folder.text);
    assert_false(support_exists(staged.text));
    assert_true(support_exists(folder.text));
    // A link in the place of what is left half done is removed, not what it leads to.
    char *other = support_directory_make(), *kept = support_path(other, "kept");
    support_write_file(kept, "x", 1);
    assert_int_equal(symlink(other, staged.text), 0);
    trp_run_clean_beside(folder.text);
    assert_false(support_exists(staged.text));
    assert_true(support_exists(kept));
    free(kept);
    support_directory_remove(other);
    support_directory_remove(run);
}

int main(void)
{
    support_allow_mounts();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_saved_is_loaded),
        cmocka_unit_test(test_what_is_missing_or_of_another_type_is_named),
        cmocka_unit_test(test_names_and_numbers_sort_beyond_six_digits),
        cmocka_unit_test(test_a_crash_at_any_step_leaves_a_whole_checkpoint),
        cmocka_unit_test(test_every_cut_and_every_flipped_byte_is_found),
        cmocka_unit_test(test_a_whole_file_of_another_checkpoint_is_refused),
        cmocka_unit_test(test_members_come_and_go_and_versions_are_refused),
        cmocka_unit_test(test_a_checkpoint_with_the_old_manifest_is_read),
        cmocka_unit_test(test_a_checkpoint_with_a_sealed_state_is_read),
        cmocka_unit_test(test_a_step_that_fails_leaves_the_old_or_the_new_checkpoint),
        cmocka_unit_test(test_the_newest_that_is_whole_is_found),
        cmocka_unit_test(test_a_second_save_replaces_the_first),
        cmocka_unit_test(test_a_full_disk_leaves_the_last_checkpoint),
        cmocka_unit_test(test_what_is_written_is_for_its_user_alone),
        cmocka_unit_test(test_links_that_lead_out_are_refused),
        cmocka_unit_test(test_what_a_killed_driver_left_is_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
