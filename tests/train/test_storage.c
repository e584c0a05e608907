// test_storage.c: what a run has committed lies in local files or in the memory of another process,
// and there it is whole or not at all, whatever fails and whoever is killed.
//
//     test_storage [memory]     Without: local files.
//
// timeout: 120
// cost: 10
// again: memory train 120 memory
#include "line.h"
#include "memory_storage.h"

#include <errno.h>
#include <runtime/base/memory.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <train/checkpoint.h>
#include <train/run_file.h>

enum { EPOCHS = 4 };

static char *folder; // For what is local in any case.
static char *storage;
static bool far;

static trp_path path_of(const char *format, const char *name)
{
    trp_path path;
    char text[256];
    snprintf(text, sizeof text, format, name);
    assert_int_equal(trp_path_make(&path, "%s/%s", storage, text), TROUPE_OK);
    return path;
}

// ---- one change that fails, or is the last of its process

static atomic_int changes, fails_at, dies_at;

static int at_change(const char *step, const char *path)
{
    (void)path;
    if (strcmp(step, "withdraw") == 0 && far) // Its removals are the changes.
        return 0;
    int number = atomic_fetch_add(&changes, 1) + 1;
    if (number == atomic_load(&dies_at))
        kill(getpid(), SIGKILL);
    return number == atomic_load(&fails_at) ? EIO : 0;
}

static void fail_at(int number)
{
    atomic_store(&changes, 0);
    atomic_store(&fails_at, number);
    atomic_store(&trp_storage_probe, number > 0 ? at_change : NULL);
}

// Whether the last fail_at has come to that change.
static bool has_failed(void)
{
    return atomic_load(&changes) >= atomic_load(&fails_at);
}

// ---- the functions

typedef struct names {
    char text[1024];
    int count;
} names;

static void add_name(void *user, const char *child)
{
    names *all = (names *)user;
    size_t length = strlen(all->text);
    snprintf(all->text + length, sizeof all->text - length, "[%s]", child);
    all->count++;
}

static void assert_holds(const char *path, const char *expected)
{
    unsigned char *data;
    size_t size;
    assert_int_equal(trp_storage_read(path, &data, &size), TROUPE_OK);
    assert_int_equal(size, strlen(expected));
    assert_memory_equal(data, expected, size);
    trp_free(data);
}

static void test_objects_are_put_read_listed_and_removed(void **state)
{
    (void)state;
    trp_path one = path_of("%s", "one"), two = path_of("%s", "two"), root = path_of("%s", ".");
    root.text[strlen(root.text) - 2] = '\0';
    unsigned char *data;
    size_t size;
    bool has;
    assert_int_equal(trp_storage_read(one.text, &data, &size), TROUPE_NOT_FOUND);
    assert_int_equal(trp_storage_has(one.text, &has), TROUPE_OK);
    assert_false(has);
    assert_int_equal(trp_storage_remove(one.text), TROUPE_NOT_FOUND);
    assert_int_equal(trp_storage_put(one.text, "a longer text", 13), TROUPE_OK);
    assert_int_equal(trp_storage_put(one.text, "text", 4), TROUPE_OK);
    assert_holds(one.text, "text");
    assert_int_equal(trp_storage_append(two.text, 3, "x", 1), TROUPE_INVALID);
    assert_int_equal(trp_storage_append(two.text, 0, "one two", 7), TROUPE_OK);
    assert_int_equal(trp_storage_append(two.text, 4, "2, 3", 4), TROUPE_OK);
    assert_int_equal(trp_storage_append(two.text, 4, "2, 3", 4), TROUPE_OK); // Once more.
    assert_int_equal(trp_storage_append(two.text, 8, ", 4", 3), TROUPE_OK);
    assert_int_equal(trp_storage_sync(two.text), TROUPE_OK);
    assert_holds(two.text, "one 2, 3, 4");
    names all = {.count = 0};
    assert_int_equal(trp_storage_list(root.text, add_name, &all), TROUPE_OK);
    assert_non_null(strstr(all.text, "[one]"));
    assert_non_null(strstr(all.text, "[two]"));
    // More than one piece of it.
    size = (3 << 20) + 77;
    unsigned char *big = malloc(size);
    support_fill(big, size, 7);
    assert_int_equal(trp_storage_put(one.text, big, size), TROUPE_OK);
    uint64_t digest = 0, length = 0;
    assert_int_equal(trp_storage_digest(one.text, &length, &digest), TROUPE_OK);
    assert_int_equal(length, size);
    assert_true(digest == trp_digest(big, size));
    char *copy = support_path(folder, "copy");
    assert_int_equal(trp_storage_fetch(one.text, copy, size), TROUPE_OK);
    assert_int_equal(trp_file_read(copy, &data, &size), TROUPE_OK);
    assert_true(trp_digest(data, size) == digest);
    trp_free(data);
    free(copy);
    free(big);
    assert_int_equal(trp_storage_remove(one.text), TROUPE_OK);
    assert_int_equal(trp_storage_remove(two.text), TROUPE_OK);
    assert_int_equal(trp_storage_read(one.text, &data, &size), TROUPE_NOT_FOUND);
}

static void test_a_scheme_is_known_or_refused(void **state)
{
    (void)state;
    line_settings config = line_plain(1);
    troupe_result *result;
    int value;
    assert_int_equal(troupe_train(line_fit, &config, &result, .storage = "s3:bucket/runs"),
                     TROUPE_INVALID);
    const char *text = troupe_last_error()->text;
    assert_non_null(strstr(text, "'s3' in front of s3:bucket/runs"));
    assert_non_null(strstr(text, "expected one of 'file', 'memory'"));
    assert_int_equal(troupe_checkpoint_load(int, "s3:bucket/runs/x", 0, &value), TROUPE_INVALID);
    assert_int_equal(
        troupe_train(line_fit, &config, &result, .storage = storage, .from = "s3:bucket/x"),
        TROUPE_INVALID);
    assert_false(troupe_can_resume("s3:bucket/runs"));
    troupe_storage other = memory_storage;
    assert_int_equal(troupe_storage_register(&other), TROUPE_INVALID); // There is one.
    other.scheme = "S3";
    assert_int_equal(troupe_storage_register(&other), TROUPE_INVALID);
    other.scheme = "s4";
    other.sync = NULL;
    assert_int_equal(troupe_storage_register(&other), TROUPE_INVALID);
    assert_non_null(strstr(text, "'s4' lacks a function"));
    other.abi = 1;
    assert_int_equal(troupe_storage_register(&other), TROUPE_VERSION);
    assert_int_equal(troupe_storage_register(&memory_storage), TROUPE_OK); // The same once more.
    // A local path may be given with its scheme.
    char *local = support_path(folder, "with_scheme"), named[512];
    snprintf(named, sizeof named, "file:%s", local);
    troupe_must(troupe_train(line_fit, &config, &result, .storage = named, .name = "x"));
    snprintf(named, sizeof named, "%s/x", local);
    assert_string_equal(troupe_result_path(result), named);
    troupe_result_free(&result);
    free(local);
}

// ---- checkpoints

// Commits a checkpoint with a file in a folder, a link to it, and an empty folder.
static troupe_status commit(const char *run, int id, trp_path *where)
{
    const char *paths[] = {"a/file", "empty", "link"};
    trp_staging staging = {folder, 1, 0, id + 1};
    trp_path shard, path;
    trp_arena arena = {0};
    char text[32];
    troupe_array_trp_manifest_file files = {NULL, 0};
    assert_int_equal(trp_shard_make(&staging, 0, &shard), TROUPE_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(trp_path_make(&path, "%s/%s", shard.text, paths[i]), TROUPE_OK);
        snprintf(text, sizeof text, "of checkpoint %d", id);
        if (i == 0) {
            *strrchr(path.text, '/') = '\0';
            assert_int_equal(trp_folder_make(path.text), TROUPE_OK);
            path.text[strlen(path.text)] = '/';
            support_write_file(path.text, text, strlen(text));
        } else if (i == 1) {
            assert_int_equal(trp_folder_make(path.text), TROUPE_OK);
        } else {
            assert_int_equal(symlink("a/file", path.text), 0);
        }
    }
    assert_int_equal(trp_shard_list(shard.text, 0, NULL, &arena, &files), TROUPE_OK);
    trp_manifest_file *own = (trp_manifest_file *)(uintptr_t)files.items;
    assert_int_equal(trp_shard_seal(shard.text, own, files.count), TROUPE_OK);
    trp_manifest manifest = {.id = id, .report = id + 1, .world = 1, .files = files};
    troupe_status status = trp_checkpoint_commit(&staging, run, &manifest, where);
    if (status != TROUPE_OK)
        assert_int_equal(trp_checkpoint_discard(&staging), TROUPE_OK);
    trp_arena_clear(&arena);
    return status;
}

// The number of the newest, whose files are looked at; -1: there is none.
static int newest(const char *run)
{
    trp_arena arena = {0};
    trp_manifest manifest;
    trp_path found;
    char expected[32];
    troupe_status status = trp_checkpoint_newest(run, folder, INT64_MAX, &arena, &manifest, &found);
    int id = status == TROUPE_OK ? (int)manifest.id : -1;
    assert_true(status == TROUPE_OK || status == TROUPE_NOT_FOUND);
    trp_arena_clear(&arena);
    if (id < 0)
        return id;
    char *link = support_path(found.text, "link"), *text = support_read_file(link);
    char *empty = support_path(found.text, "empty");
    snprintf(expected, sizeof expected, "of checkpoint %d", id);
    assert_string_equal(text, expected);
    assert_true(support_exists(empty));
    free(empty);
    free(text);
    free(link);
    return id;
}

static size_t count_checkpoints(const char *run)
{
    int64_t *ids;
    size_t count;
    assert_int_equal(trp_checkpoint_list(run, &ids, &count), TROUPE_OK);
    trp_free(ids);
    return count;
}

// What a driver does when it opens the run.
static void clean(const char *run)
{
    assert_int_equal(trp_checkpoint_clean(run), TROUPE_OK);
    assert_int_equal(trp_checkpoint_clean(folder), TROUPE_OK);
}

static trp_path begin_run(const char *name)
{
    trp_path run = path_of("%s", name);
    if (!far) {
        assert_int_equal(trp_folder_make(run.text), TROUPE_OK);
        assert_int_equal(trp_checkpoint_place(run.text), TROUPE_OK);
    }
    assert_int_equal(trp_checkpoint_place(folder), TROUPE_OK);
    clean(run.text);
    return run;
}

// B15: each change that is made on account of a commit fails once.
static void test_a_commit_that_fails_leaves_the_old_checkpoint(void **state)
{
    (void)state;
    trp_path run = begin_run("committed"), where;
    assert_int_equal(commit(run.text, 0, &where), TROUPE_OK);
    int failures = 0;
    for (bool failed = true; failed; failures += failed) {
        fail_at(failures + 1);
        troupe_status status = commit(run.text, 1, &where);
        failed = has_failed();
        fail_at(0);
        assert_int_equal(status, failed ? TROUPE_IO : TROUPE_OK);
        assert_int_equal(newest(run.text), failed ? 0 : 1);
        clean(run.text);
        assert_int_equal(count_checkpoints(run.text), failed ? 1 : 2);
        names left = {.count = 0};
        trp_path staged;
        assert_int_equal(trp_path_make(&staged, "%s/checkpoints", folder), TROUPE_OK);
        assert_int_equal(trp_storage_list(staged.text, add_name, &left), TROUPE_OK);
        assert_int_equal(left.count, 0);
    }
    assert_int_equal(failures, far ? 3 : 1); // Its beginning, a file and the manifest, or a rename.
}

// B15
static void test_a_removal_that_fails_leaves_a_whole_checkpoint_or_none(void **state)
{
    (void)state;
    trp_path run = begin_run("removed"), where;
    int failures = 0;
    for (bool failed = true; failed; failures += failed) {
        assert_int_equal(commit(run.text, 0, &where), TROUPE_OK);
        fail_at(failures + 1);
        troupe_status status = trp_checkpoint_remove(run.text, 0);
        failed = has_failed();
        fail_at(0);
        assert_int_equal(status, failed ? TROUPE_IO : TROUPE_OK);
        int left = newest(run.text);
        assert_int_equal(left, failed && failures == 0 ? 0 : -1); // The manifest goes first.
        clean(run.text);
        assert_int_equal(count_checkpoints(run.text), left + 1);
        if (left == 0)
            assert_int_equal(trp_checkpoint_remove(run.text, 0), TROUPE_OK);
    }
    assert_int_equal(failures, far ? 2 : 1);
}

static void damage(const char *where, const char *file, const char *text)
{
    trp_path path;
    assert_int_equal(trp_path_make(&path, "%s/%s", where, file), TROUPE_OK);
    if (text != NULL)
        assert_int_equal(trp_storage_put(path.text, text, strlen(text)), TROUPE_OK);
    else
        assert_int_equal(trp_storage_remove(path.text), TROUPE_OK);
}

// B15: and what cannot be asked is no reason to go on from an older one.
static void test_what_is_damaged_gives_way_to_an_older_checkpoint(void **state)
{
    (void)state;
    trp_path run = begin_run("damaged"), where[4];
    troupe_checkpoint *opened;
    troupe_checkpoint_info info;
    for (int i = 0; i < 4; i++)
        assert_int_equal(commit(run.text, i, &where[i]), TROUPE_OK);
    assert_int_equal(newest(run.text), 3);
    troupe_must(troupe_checkpoint_open(where[3].text, &opened));
    troupe_checkpoint_info_get(opened, &info);
    assert_int_equal(info.number, 3);
    assert_int_equal(info.file_count, 3);
    assert_int_equal(troupe_checkpoint_verify(opened), TROUPE_OK);
    damage(where[3].text, "a/file", "of checkpoint 4");
    assert_int_equal(troupe_checkpoint_verify(opened), TROUPE_CORRUPT);
    assert_non_null(strstr(troupe_last_error()->text, "a/file"));
    damage(where[3].text, "a/file", "longer than it was");
    assert_int_equal(troupe_checkpoint_verify(opened), TROUPE_CORRUPT);
    damage(where[3].text, "a/file", NULL);
    assert_int_equal(troupe_checkpoint_verify(opened), TROUPE_CORRUPT);
    assert_non_null(strstr(troupe_last_error()->text, "a/file is missing"));
    troupe_checkpoint_close(&opened);
    assert_int_equal(trp_checkpoint_forget(folder), TROUPE_OK); // Else there is a copy.
    assert_int_equal(newest(run.text), 2);
    damage(where[2].text, TRP_MANIFEST_NAME, "{}");
    assert_int_equal(newest(run.text), 1);
    damage(where[1].text, TRP_MANIFEST_NAME, NULL);
    assert_int_equal(newest(run.text), 0);
    assert_int_equal(troupe_checkpoint_open(where[1].text, &opened), TROUPE_NOT_FOUND);
    assert_non_null(strstr(troupe_last_error()->text, "is not a checkpoint"));
    if (!far)
        return;
    trp_arena arena = {0};
    trp_manifest manifest;
    trp_path found;
    char *nowhere = support_path(folder, "none.socket");
    assert_int_equal(trp_path_make(&run, "memory:%s/x", nowhere), TROUPE_OK);
    pid_t child = fork(); // Its connection is another one.
    if (child == 0)
        _exit((int)trp_checkpoint_newest(run.text, folder, INT64_MAX, &arena, &manifest, &found));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), TROUPE_IO);
    free(nowhere);
}

// A manifest is what anybody may have written who may write there.
static void test_no_link_of_a_checkpoint_leads_a_file_out_of_it(void **state)
{
    (void)state;
    trp_path run = path_of("%s", "hostile"), where, brought;
    trp_manifest_file files[] = {
        {.path = "out", .kind = TRP_FILE_LINK, .target = folder},
        {.path = "out/file", .size = 1, .digest = trp_digest("x", 1)},
    };
    if (!far)
        skip(); // Nothing is fetched.
    for (int i = 0; i < 3; i++) {
        trp_manifest manifest = {.files = {files, i == 0 ? 1 : 2}};
        trp_buffer text = {0};
        trp_manifest found;
        trp_arena arena = {0};
        if (i == 2) // It would be replaced by the folder of the file, or that by it.
            files[0].target = "within";
        trp_manifest_write(&manifest, &text);
        assert_int_equal(trp_checkpoint_folder(run.text, 0, &where), TROUPE_OK);
        damage(where.text, "out/file", "x");
        trp_buffer_append(&text, "", 1);
        damage(where.text, TRP_MANIFEST_NAME, (const char *)text.data);
        trp_buffer_free(&text);
        assert_int_equal(trp_checkpoint_bring(where.text, folder, &arena, &found, &brought),
                         TROUPE_CORRUPT);
        trp_arena_clear(&arena);
        char *out = support_path(folder, "file");
        assert_false(support_exists(out));
        free(out);
    }
}

// ---- whole runs

static line_model undisturbed;

// The program itself as a driver, which dies before the change of that number (0: it does not).
static int drive(int argc, char **argv)
{
    line_settings config = line_plain(EPOCHS);
    troupe_result *result = NULL;
    storage = argv[2];
    far = !trp_path_is_local(storage);
    atomic_store(&dies_at, atoi(argv[4]));
    atomic_store(&trp_storage_probe, at_change);
    troupe_status status = troupe_start(argc, argv, .workers = TROUPE_NONE, .cpus = 2);
    if (status == TROUPE_OK)
        status = troupe_train(line_fit, &config, &result, .storage = storage, .name = argv[3],
                              .open = TROUPE_OPEN_RESUME_OR_NEW, .keep = 1, .restarts = 1);
    if (status != TROUPE_OK)
        fprintf(stderr, "a driver: %s\n", troupe_last_error()->text);
    troupe_result_free(&result);
    (void)troupe_stop();
    return (int)status;
}

// Its status; -1: it was killed.
static int run_driver(const char *name, int kill_at)
{
    char at[16];
    int status;
    snprintf(at, sizeof at, "%d", kill_at);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)setenv("TMPDIR", folder, 1); // For its working folder.
        execl("/proc/self/exe", "test_storage", "drive", storage, name, at, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return support_was_killed(status) ? -1 : 0;
}

static void assert_done(const char *name)
{
    line_settings config = line_plain(EPOCHS);
    troupe_result *result;
    trp_path run = path_of("%s", name);
    troupe_must(troupe_train(line_fit, &config, &result, .storage = storage, .name = name,
                             .open = TROUPE_OPEN_RESUME)); // It has ended: nothing is started.
    assert_int_equal(troupe_result_reports(result), EPOCHS);
    assert_string_equal(troupe_result_path(result), run.text);
    line_model model = line_load(result, 0);
    line_assert_same(&model, &undisturbed);
    troupe_result_free(&result);
    assert_int_equal(count_checkpoints(run.text), 1);
    unsigned char *journal;
    size_t size;
    trp_path path = path_of("%s/journal.jsonl", name);
    assert_int_equal(trp_storage_read(path.text, &journal, &size), TROUPE_OK);
    char *text = strndup((const char *)journal, size);
    for (int number = 1; number <= EPOCHS; number++) { // Each once.
        char line[64];
        snprintf(line, sizeof line, "{\"event\": \"report\", \"report\": %d,", number);
        char *at = strstr(text, line);
        assert_non_null(at);
        assert_null(strstr(at + 1, line));
    }
    free(text);
    trp_free(journal);
}

// B15, B12: a driver is killed before each of its changes, and another one goes on.
static void test_a_driver_may_die_before_each_change(void **state)
{
    (void)state;
    int kills = 0;
    char name[32];
    for (bool killed = true; killed; kills += killed) {
        snprintf(name, sizeof name, "killed_%d", kills);
        killed = run_driver(name, kills + 1) < 0;
        if (killed)
            assert_int_equal(run_driver(name, 0), 0);
        assert_done(name);
    }
    print_message("%d kills\n", kills);
    assert_true(kills >= (far ? 4 * EPOCHS : EPOCHS));
}

// B15: each change fails once; where a run can be opened, it comes to its end.
static void test_a_run_survives_each_change_that_fails(void **state)
{
    (void)state;
    line_settings config = line_plain(EPOCHS);
    troupe_result *result;
    char name[32];
    int failures = 0;
    for (bool failed = true; failed; failures += failed) {
        snprintf(name, sizeof name, "failed_%d", failures);
        fail_at(failures + 1);
        troupe_status status =
            troupe_train(line_fit, &config, &result, .storage = storage, .name = name, .keep = 1);
        failed = has_failed();
        fail_at(0);
        if (status == TROUPE_OK)
            assert_int_equal(troupe_result_reports(result), EPOCHS);
        else
            assert_int_equal(status, TROUPE_IO);
        troupe_result_free(&result);
        if (status == TROUPE_OK && count_checkpoints(path_of("%s", name).text) == 1)
            continue;
        // Or what was to go, or the last one, was the one that failed.
        troupe_must(troupe_train(line_fit, &config, &result, .storage = storage, .name = name,
                                 .open = TROUPE_OPEN_RESUME_OR_NEW));
        assert_int_equal(troupe_result_reports(result), EPOCHS);
        troupe_result_free(&result);
    }
    print_message("%d failures\n", failures);
    assert_true(failures >= (far ? 4 * EPOCHS : EPOCHS));
}

// B15: a rank dies, and the group restores what was committed.
static void test_a_restart_restores_from_the_storage(void **state)
{
    (void)state;
    line_settings config = line_plain(EPOCHS);
    config.trouble = KILLED;
    config.at = 4;
    config.where = BEFORE_REPORT;
    config.attempts = 1;
    troupe_result *result;
    troupe_must(troupe_train(line_fit, &config, &result, .storage = storage, .name = "restarted",
                             .restarts = 1, .keep = 2));
    assert_int_equal(troupe_result_restarts(result), 1);
    line_model model = line_load(result, 0);
    line_assert_same(&model, &undisturbed);
    assert_int_equal(count_checkpoints(troupe_result_path(result)), 2);
    // Another run begins with its checkpoint, and has local files.
    troupe_result *next;
    config = line_plain(EPOCHS + 1);
    troupe_must(troupe_train(line_fit, &config, &next, .storage = folder, .name = "from",
                             .from = troupe_result_checkpoint(result)));
    assert_int_equal(troupe_result_reports(next), 1);
    troupe_result_free(&next);
    troupe_result_free(&result);
}

// B15, C10
static void test_a_run_has_one_driver(void **state)
{
    (void)state;
    line_settings config = line_plain(LINE_EPOCHS_MAX);
    config.pause_ms = 2;
    troupe_job *job, *second;
    troupe_result *result;
    troupe_must(troupe_submit(line_fit, &config, NULL, &job, .storage = storage, .name = "one"));
    assert_int_equal(troupe_submit(line_fit, &config, NULL, &second, .storage = storage,
                                   .name = "one", .open = TROUPE_OPEN_RESUME),
                     TROUPE_BUSY);
    assert_non_null(strstr(troupe_last_error()->text, "/one is being run by"));
    // A new one gets another name.
    line_settings other = line_plain(1);
    troupe_must(troupe_train(line_fit, &other, &result, .storage = storage, .name = "one"));
    assert_non_null(strstr(troupe_result_path(result), "/one_1"));
    troupe_result_free(&result);
    troupe_job_stop(job);
    troupe_must(troupe_job_wait(job, -1, &result));
    int reports = troupe_result_reports(result);
    troupe_result_free(&result);
    troupe_job_close(&job);
    config = line_plain(reports + 2);
    troupe_must(troupe_train(line_fit, &config, &result, .storage = storage, .name = "one",
                             .open = TROUPE_OPEN_RESUME));
    assert_int_equal(troupe_result_reports(result), reports + 2);
    troupe_result_free(&result);
    char *run = support_path(storage, "one");
    assert_true(troupe_can_resume(run));
    free(run);
}

static troupe_gate_answer end_storage(void *user, troupe_job *job, const troupe_report_event *event,
                                      int *ranks)
{
    (void)ranks;
    (void)user, (void)job;
    if (event->number == 3) {
        (void)kill(memory_server, SIGKILL);
        (void)waitpid(memory_server, NULL, 0);
        memory_server = 0;
    }
    return TROUPE_GATE_GO_ON;
}

// B15: nothing can be put any more, which ends no run. The last test: there is no storage then.
static void test_a_run_goes_on_without_its_storage(void **state)
{
    (void)state;
    line_settings config = line_plain(EPOCHS);
    troupe_gate gate = {.size = sizeof gate, .decide = end_storage, .timeout_ms = SUPPORT_SOON_MS};
    troupe_result *result;
    if (!far)
        skip();
    troupe_must(troupe_train(line_fit, &config, &result, .storage = storage, .name = "lost",
                             .gate = &gate));
    assert_int_equal(troupe_result_reports(result), EPOCHS);
    // At least the one before the last that was to be committed while there was a storage.
    assert_non_null(troupe_result_checkpoint(result));
    assert_null(strstr(troupe_result_checkpoint(result), "checkpoint_000003"));
    troupe_result_free(&result);
    assert_int_equal(troupe_train(line_fit, &config, &result, .storage = storage, .name = "lost",
                                  .open = TROUPE_OPEN_RESUME),
                     TROUPE_IO);
    assert_non_null(strstr(troupe_last_error()->text, "does not answer"));
}

static int set_up(void **state)
{
    (void)state;
    line_settings config = line_plain(EPOCHS);
    troupe_result *result;
    troupe_must(troupe_train(line_fit, &config, &result, .storage = folder, .name = "plain"));
    undisturbed = line_load(result, 0);
    troupe_result_free(&result);
    return 0;
}

int main(int argc, char **argv)
{
    troupe_must(troupe_storage_register(&memory_storage));
    if (argc > 1 && strcmp(argv[1], "drive") == 0)
        return drive(argc, argv);
    far = argc > 1 && strcmp(argv[1], "memory") == 0;
    folder = support_directory_make();
    storage = far ? memory_storage_start(folder) : support_path(folder, "runs");
    if (!far)
        assert_int_equal(trp_folder_make(storage), TROUPE_OK);
    (void)setenv("TMPDIR", folder, 1);
    troupe_must(troupe_start(argc, argv, .cpus = 4));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_objects_are_put_read_listed_and_removed),
        cmocka_unit_test(test_a_scheme_is_known_or_refused),
        cmocka_unit_test(test_a_commit_that_fails_leaves_the_old_checkpoint),
        cmocka_unit_test(test_a_removal_that_fails_leaves_a_whole_checkpoint_or_none),
        cmocka_unit_test(test_what_is_damaged_gives_way_to_an_older_checkpoint),
        cmocka_unit_test(test_no_link_of_a_checkpoint_leads_a_file_out_of_it),
        cmocka_unit_test(test_a_driver_may_die_before_each_change),
        cmocka_unit_test(test_a_run_survives_each_change_that_fails),
        cmocka_unit_test(test_a_restart_restores_from_the_storage),
        cmocka_unit_test(test_a_run_has_one_driver),
        cmocka_unit_test(test_a_run_goes_on_without_its_storage),
    };
    int failed = cmocka_run_group_tests(tests, set_up, NULL);
    memory_storage_end();
    failed |= troupe_stop();
    free(storage);
    support_directory_remove(folder);
    return failed;
}
