// test_bad_folders.c: damage from outside a run: folders that cannot be written or are full, before
// and while it runs, copies that lack files, and metrics that are no numbers.
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <runtime/codec/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <troupe.h>
#include <unistd.h>

static char *storage;

// What befalls the storage at epoch `at`, by the hand of the loop.
typedef enum trouble { NO_TROUBLE, READ_ONLY, FILLED } trouble;
TROUPE_ENUM(trouble);
TROUPE_STRUCT(settings, (int, epochs), (bool, fails), (trouble, trouble), (int, at),
              (troupe_text, storage), (troupe_array_double, losses));
TROUPE_STRUCT(model, (int, epoch));

static troupe_status fill(const char *folder)
{
    static const char page[4096] = "filler";
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/filler", folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    while (fd >= 0 && write(fd, page, sizeof page) > 0)
        continue;
    bool full = fd >= 0 && errno == ENOSPC;
    if (fd >= 0)
        close(fd);
    return full ? TROUPE_OK : troupe_fail(TROUPE_FAILED, "cannot fill %s", folder);
}

// What others have open stays writable, as on a disk that the system gives up on.
static troupe_status make_read_only(const char *folder)
{
    int64_t begun = support_now_ms();
    int failed = mount(folder, folder, NULL, MS_BIND, NULL);
    while (failed == 0) {
        failed = mount(NULL, folder, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL);
        if (failed == 0)
            return TROUPE_OK;
        // Something is just being written there.
        if (errno == EBUSY && support_now_ms() - begun < SUPPORT_SOON_MS)
            failed = usleep(1000);
    }
    return troupe_fail(TROUPE_FAILED, "cannot remount: %s", strerror(errno));
}

static troupe_status fit(troupe_rank *me, const settings *config)
{
    model now = {0};
    TROUPE_TRY(troupe_restore(model, me, &now));
    while (now.epoch < config->epochs) {
        double loss = 1.0 / (now.epoch + 1);
        if (config->losses.count > 0)
            loss = config->losses.items[(size_t)now.epoch % config->losses.count];
        now.epoch++;
        if (config->trouble == READ_ONLY && now.epoch == config->at)
            TROUPE_TRY(make_read_only(config->storage));
        if (config->trouble == FILLED && now.epoch >= config->at)
            TROUPE_TRY(fill(config->storage)); // And whatever has become free.
        TROUPE_TRY(troupe_save(model, me, &now));
        TROUPE_TRY(troupe_report(me, {"loss", loss}, {"epoch", now.epoch}));
    }
    return config->fails ? troupe_fail(TROUPE_FAILED, "as it was asked to") : TROUPE_OK;
}
TROUPE_TRAINER(fit, settings);

static int epoch_of(const char *folder)
{
    model saved = {0};
    assert_non_null(folder);
    assert_int_equal(troupe_checkpoint_load(model, folder, 0, &saved), TROUPE_OK);
    return saved.epoch;
}

static char *in_run(const char *run, const char *name)
{
    char *folder = support_path(storage, run), *path = support_path(folder, name);
    free(folder);
    return path;
}

// ---- metrics that are no numbers

// Each line of the file is JSON.
static void expect_json_lines(const char *run, const char *name, int least)
{
    char *path = in_run(run, name), *text = support_read_file(path);
    int lines = 0;
    assert_non_null(text);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        trp_json value;
        if (trp_json_parse(line, strlen(line), &value) != TROUPE_OK)
            fail_msg("%s: %s", line, troupe_last_error()->text);
    }
    assert_true(lines >= least);
    free(text);
    free(path);
}

static void expect_in_file(const char *path, const char *what)
{
    char *text = support_read_file(path);
    assert_non_null(text);
    if (strstr(text, what) == NULL)
        fail_msg("'%s' is not in %s:\n%s", what, path, text);
    free(text);
}

// Runs with standard output in a file.
static troupe_result *train_shown(const settings *config, const char *shown)
{
    troupe_result *result = NULL;
    fflush(stdout);
    int before = dup(STDOUT_FILENO), file = open(shown, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(before >= 0 && file >= 0 && dup2(file, STDOUT_FILENO) >= 0);
    troupe_status status = troupe_train(fit, config, &result, .storage = storage, .name = "odd",
                                        .keep = 2, .keep_metric = "loss",
                                        .keep_goal = TROUPE_MINIMIZE, .console = TROUPE_CONSOLE_ON);
    fflush(stdout);
    assert_true(dup2(before, STDOUT_FILENO) >= 0);
    close(before);
    close(file);
    assert_int_equal(status, TROUPE_OK);
    return result;
}

static void test_metrics_that_are_no_numbers_are_shown_and_kept(void **state)
{
    (void)state;
    static const double losses[] = {0.5, NAN, INFINITY, 0.25, NAN, NAN};
    settings config = {.epochs = 6, .losses = {losses, 6}};
    char *shown = support_path(storage, "shown"), *csv = in_run("odd", "progress.csv");
    troupe_result *result = train_shown(&config, shown);
    assert_true(isnan(troupe_result_metric(result, "loss")));
    // A NaN is worse than each number, and the newest stays all the same.
    assert_int_equal(epoch_of(troupe_result_best_checkpoint(result)), 4);
    assert_int_equal(epoch_of(troupe_result_checkpoint(result)), 6);
    char *checkpoints = in_run("odd", "checkpoints");
    assert_int_equal(support_count_files(checkpoints), 3);
    expect_in_file(shown, " nan ");
    expect_json_lines("odd", "journal.jsonl", 14);
    expect_json_lines("odd", "result.json", 6);
    expect_in_file(csv, ",0.5,1,");
    expect_in_file(csv, ",nan,2,");
    expect_in_file(csv, ",inf,3,");
    troupe_result_free(&result);
    // What was put down is read back.
    troupe_must(troupe_train(fit, &config, &result, .storage = storage, .name = "odd",
                             .open = TROUPE_OPEN_RESUME));
    assert_int_equal(troupe_result_reports(result), 6);
    assert_true(isnan(troupe_result_metric(result, "loss")));
    assert_int_equal(epoch_of(troupe_result_best_checkpoint(result)), 4);
    troupe_result_free(&result);
    free(checkpoints);
    free(shown);
    free(csv);
}

static void test_a_metric_that_never_comes_keeps_the_newest(void **state)
{
    (void)state;
    settings config = {.epochs = 5};
    troupe_result *result;
    troupe_must(troupe_train(fit, &config, &result, .storage = storage, .name = "unknown",
                             .keep = 1, .keep_metric = "accuracy", .keep_goal = TROUPE_MAXIMIZE));
    assert_int_equal(epoch_of(troupe_result_checkpoint(result)), 5);
    assert_int_equal(epoch_of(troupe_result_best_checkpoint(result)), 5); // All alike: the newest.
    assert_int_equal(troupe_last_error()->status, TROUPE_OK); // A success leaves no failure behind.
    troupe_result_free(&result);
}

// ---- copies that lack something

static void test_a_copy_that_lacks_files_goes_on_from_what_is_whole(void **state)
{
    (void)state;
    settings config = {.epochs = 4, .fails = true};
    troupe_result *result;
    assert_int_equal(troupe_train(fit, &config, &result, .storage = storage, .name = "copied"),
                     TROUPE_FAILED);
    assert_int_equal(epoch_of(troupe_result_checkpoint(result)), 4);
    troupe_result_free(&result);
    // The copy was broken off in the newest checkpoint, the one before lacks its manifest, and
    // somebody keeps notes where checkpoints are.
    char *lost = in_run("copied", "checkpoints/checkpoint_000003/rank_00000.safetensors");
    char *lost_too = in_run("copied", "checkpoints/checkpoint_000002/manifest.json");
    char *notes = in_run("copied", "checkpoints/checkpoint_notes");
    char *foreign = in_run("copied", "checkpoints/checkpoint_000099");
    char *diary = support_path(foreign, "diary.txt");
    assert_int_equal(unlink(lost), 0);
    assert_int_equal(unlink(lost_too), 0);
    support_write_file(notes, "notes", 5);
    assert_int_equal(mkdir(foreign, 0700), 0);
    support_write_file(diary, "dear diary", 10);
    config = (settings){.epochs = 6};
    troupe_must(troupe_train(fit, &config, &result, .storage = storage, .name = "copied",
                             .open = TROUPE_OPEN_RESUME));
    assert_int_equal(epoch_of(troupe_result_checkpoint(result)), 6);
    assert_int_equal(troupe_result_reports(result), 6);
    assert_true(support_exists(notes));
    assert_true(support_exists(diary));
    troupe_result_free(&result);
    free(lost);
    free(lost_too);
    free(notes);
    free(foreign);
    free(diary);
}

// ---- file systems that refuse

// A file system of its own at a new folder; NULL: none can be mounted here, which is said.
static char *mount_small(void)
{
    char *folder = support_directory_make();
    if (mount("tmpfs", folder, "tmpfs", 0, "size=256k") == 0)
        return folder;
    print_message("SKIPPED: no file system can be mounted here (%s)\n", strerror(errno));
    support_directory_remove(folder);
    return NULL;
}

static void unmount(char *folder)
{
    while (umount2(folder, MNT_DETACH) == 0) // There may be two, one on the other.
        continue;
    support_directory_remove(folder);
}

static void test_a_folder_that_cannot_be_written_is_named(void **state)
{
    (void)state;
    settings config = {.epochs = 2};
    troupe_result *result = NULL;
    char *folder = support_directory_make();
    const char *text = troupe_last_error()->text;
    bool mounted = mount(folder, folder, NULL, MS_BIND, NULL) == 0 &&
                   mount(NULL, folder, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) == 0;
    if (!mounted && geteuid() == 0) {
        print_message("SKIPPED: nothing can be mounted here, and root writes everywhere\n");
        support_directory_remove(folder);
        skip();
    }
    assert_int_equal(chmod(folder, 0500) == 0 || mounted, true);
    assert_int_equal(troupe_train(fit, &config, &result, .storage = folder), TROUPE_IO);
    assert_null(result);
    assert_non_null(strstr(text, folder));
    assert_non_null(strstr(text, mounted ? strerror(EROFS) : strerror(EACCES)));
    unmount(folder);
}

static void test_a_folder_that_can_no_longer_be_written_ends_no_run(void **state)
{
    (void)state;
    char *folder = mount_small();
    if (!folder)
        skip();
    settings config = {.epochs = 8, .trouble = READ_ONLY, .at = 4, .storage = folder};
    troupe_result *result;
    troupe_must(troupe_train(fit, &config, &result, .storage = folder));
    assert_int_equal(troupe_result_reports(result), 8);
    const char *newest = troupe_result_checkpoint(result);
    if (newest) // Those that were committed before are whole.
        assert_true(epoch_of(newest) < 4);
    troupe_result_free(&result);
    unmount(folder);
}

static void test_a_full_disk_ends_no_run_and_it_goes_on_when_there_is_room(void **state)
{
    (void)state;
    char *folder = mount_small();
    if (!folder)
        skip();
    // So many reports that the journal needs more room than it has already.
    settings config = {.epochs = 60, .fails = true, .trouble = FILLED, .at = 4, .storage = folder};
    troupe_result *result;
    char *filler = support_path(folder, "filler");
    assert_int_equal(
        troupe_train(fit, &config, &result, .storage = folder, .name = "fit", .keep = 2),
        TROUPE_FAILED);
    assert_non_null(strstr(troupe_result_error(result), "as it was asked to"));
    assert_int_equal(troupe_result_reports(result), 60);
    troupe_result_free(&result);
    assert_int_equal(unlink(filler), 0);
    config = (settings){.epochs = 62};
    troupe_must(troupe_train(fit, &config, &result, .storage = folder, .name = "fit",
                             .open = TROUPE_OPEN_RESUME));
    assert_int_equal(epoch_of(troupe_result_checkpoint(result)), 62);
    troupe_result_free(&result);
    free(filler);
    unmount(folder);
}

int main(int argc, char **argv)
{
    support_allow_mounts();
    troupe_must(troupe_start(argc, argv, .cpus = 4));
    storage = support_directory_make();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metrics_that_are_no_numbers_are_shown_and_kept),
        cmocka_unit_test(test_a_metric_that_never_comes_keeps_the_newest),
        cmocka_unit_test(test_a_copy_that_lacks_files_goes_on_from_what_is_whole),
        cmocka_unit_test(test_a_folder_that_cannot_be_written_is_named),
        cmocka_unit_test(test_a_folder_that_can_no_longer_be_written_ends_no_run),
        cmocka_unit_test(test_a_full_disk_ends_no_run_and_it_goes_on_when_there_is_room),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    support_directory_remove(storage);
    return troupe_stop() || failed;
}
