// test_folder.c: checkpoints of files of the user's own, made in a loop and read outside of one.
// again: memory train 60 memory
#include "where.h"

#include <errno.h>
#include <pthread.h>
#include <runtime/host/file.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <troupe.h>
#include <unistd.h>

static char *storage;

TROUPE_STRUCT(settings, (int, reports), (int, kill_at), (int, same_name), (double, rate),
              (troupe_text, committed)); // A file that the driver makes before the kill.

static troupe_status put(const char *folder, const char *name, const char *text)
{
    char path[8192 + 64];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    support_write_file(path, text, strlen(text));
    return TROUPE_OK;
}

static troupe_status fill(troupe_rank *me, const settings *config, int report)
{
    const char *folder, *again;
    char name[4096], text[64];
    TROUPE_TRY(troupe_checkpoint_folder(me, &folder));
    TROUPE_TRY(troupe_checkpoint_folder(me, &again));
    if (folder != again)
        return troupe_fail(TROUPE_FAILED, "the folder is another one when it is asked for again");
    snprintf(name, sizeof name, "%s/layers", folder);
    if (mkdir(name, 0700))
        return troupe_fail(TROUPE_FAILED, "the folder is not a new one: %s", strerror(errno));
    snprintf(name, sizeof name, "layers/model-rank=%d.pt", config->same_name ? 0 : me->rank);
    snprintf(text, sizeof text, "report %d of rank %d", report, me->rank);
    return put(folder, name, text);
}

// What the last attempt left must be what rank 0 of it has written.
static troupe_status read_restored(troupe_rank *me, int *report)
{
    char path[4096];
    const char *folder = troupe_restored_folder(me);
    if (!folder)
        return TROUPE_OK;
    snprintf(path, sizeof path, "%s/layers/model-rank=%d.pt", folder, me->rank);
    char *text = support_read_file(path);
    int rank = -1;
    if (!text || sscanf(text, "report %d of rank %d", report, &rank) != 2 || rank != me->rank)
        return troupe_fail(TROUPE_CORRUPT, "%s is not what was written", path);
    free(text);
    return TROUPE_OK;
}

static bool is_there(void *path)
{
    return support_exists((const char *)path);
}

static troupe_status fills_folders(troupe_rank *me, const settings *config)
{
    int report = 0;
    TROUPE_TRY(read_restored(me, &report));
    if (me->attempt > 0 && report != config->kill_at - 1)
        return troupe_fail(TROUPE_FAILED, "attempt %d began after report %d", me->attempt, report);
    while (report < config->reports) {
        report++;
        TROUPE_TRY(fill(me, config, report));
        if (report == config->kill_at && me->attempt == 0 && me->rank == 1) {
            char *path = strdup(config->committed);
            if (!support_wait_until(is_there, path, SUPPORT_SOON_MS))
                return troupe_fail(TROUPE_FAILED, "the checkpoint before is not committed");
            raise(SIGKILL);
        }
        TROUPE_TRY(troupe_report(me, {"loss", 1.0 / report}, {"report", report}));
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(fills_folders, settings);

// C18, A11
static void test_each_rank_puts_files_into_one_folder(void **state)
{
    (void)state;
    enum { WORLD = 4 };
    settings config = {.reports = 3, .rate = 0.25};
    troupe_result *result;
    troupe_checkpoint *checkpoint;
    troupe_checkpoint_info info;
    troupe_must(troupe_train(fills_folders, &config, &result, .storage = storage, .ranks = WORLD,
                             .cpus_per_rank = 0.5, .metadata = "{\"team\": \"blue\"}"));
    assert_string_equal(troupe_result_error(result), "");
    assert_non_null(troupe_result_checkpoint(result));
    troupe_must(troupe_checkpoint_open(troupe_result_checkpoint(result), &checkpoint));
    troupe_checkpoint_info_get(checkpoint, &info);
    assert_string_equal(info.path, troupe_result_checkpoint(result));
    assert_int_equal(info.number, 2);
    assert_int_equal(info.report, 3);
    assert_int_equal(info.world, WORLD);
    assert_string_equal(info.trainer, "fills_folders");
    assert_int_equal(strlen(info.created), strlen("2026-01-31T12:00:00.000Z"));
    assert_non_null(strstr(info.config, "\"rate\""));
    assert_non_null(strstr(info.config, "0.25"));
    assert_string_equal(info.metadata, "{\"team\":\"blue\"}");
    assert_int_equal(info.metric_count, 2);
    assert_string_equal(info.metrics[1].name, "report");
    assert_true(info.metrics[1].value == 3);
    assert_int_equal(info.file_count, WORLD);
    for (int rank = 0; rank < WORLD; rank++) {
        char name[64], text[64];
        snprintf(name, sizeof name, "layers/model-rank=%d.pt", rank);
        snprintf(text, sizeof text, "report 3 of rank %d", rank);
        assert_string_equal(info.files[rank].path, name);
        assert_int_equal(info.files[rank].rank, rank);
        assert_int_equal(info.files[rank].size, strlen(text));
        assert_int_equal(info.files[rank].kind, TROUPE_CHECKPOINT_FILE);
        char *read = where_text(info.path, name);
        assert_string_equal(read, text);
        free(read);
    }
    assert_int_equal(troupe_checkpoint_verify(checkpoint), TROUPE_OK);
    where_write(info.path, info.files[2].path, "x");
    assert_int_equal(troupe_checkpoint_verify(checkpoint), TROUPE_CORRUPT);
    assert_non_null(strstr(troupe_last_error()->text, "model-rank=2.pt"));
    troupe_checkpoint_close(&checkpoint);
    assert_null(checkpoint);
    troupe_result_free(&result);
}

static void say_committed(void *user, troupe_job *job, const troupe_checkpoint_event *event)
{
    const settings *config = (const settings *)user;
    (void)job;
    if (event->report == config->kill_at - 1)
        support_write_file(config->committed, "", 0);
}

// A report is answered before its files are committed: the kill waits for those before it.
static void test_a_restart_goes_on_from_the_folder(void **state)
{
    (void)state;
    char *committed = support_path(where_folder, "committed");
    settings config = {.reports = 6, .kill_at = 4, .committed = committed};
    troupe_follower follower = {
        .size = sizeof follower, .checkpoint = say_committed, .user = &config};
    troupe_job *job;
    troupe_result *result;
    troupe_must(troupe_submit(fills_folders, &config, &follower, &job, .storage = storage,
                              .ranks = 2, .restarts = 1, .keep = 1));
    troupe_must(troupe_job_wait(job, TROUPE_FOREVER, &result));
    assert_string_equal(troupe_result_error(result), "");
    assert_int_equal(troupe_result_restarts(result), 1);
    assert_int_equal(troupe_result_reports(result), 6);
    assert_int_equal(where_count_checkpoints(troupe_result_path(result)), 1);
    troupe_result_free(&result);
    troupe_job_close(&job);
    free(committed);
}

// C18
static void test_ranks_that_differ_in_a_file_get_no_checkpoint(void **state)
{
    (void)state;
    settings config = {.reports = 2, .same_name = 1};
    troupe_result *result;
    troupe_must(
        troupe_train(fills_folders, &config, &result, .storage = storage, .ranks = 2, .name = "x"));
    assert_int_equal(troupe_result_reports(result), 2);
    assert_null(troupe_result_checkpoint(result));
    assert_int_equal(where_count_checkpoints(troupe_result_path(result)), 0); // Nor staged files.
    troupe_result_free(&result);
}

static void test_with_none_kept_a_folder_is_of_no_consequence(void **state)
{
    (void)state;
    settings config = {.reports = 2};
    troupe_result *result;
    troupe_must(troupe_train(fills_folders, &config, &result, .storage = storage, .ranks = 2,
                             .keep = TROUPE_NONE));
    assert_null(troupe_result_checkpoint(result));
    assert_int_equal(where_count_checkpoints(troupe_result_path(result)), 0);
    troupe_result_free(&result);
}

// ---- adding what lies elsewhere, beside a state

TROUPE_STRUCT(adding, (troupe_text, source), (troupe_text, missing));

static troupe_status adds(troupe_rank *me, const adding *config)
{
    int64_t state = 7;
    char file[4096];
    const char *folder;
    snprintf(file, sizeof file, "%s/sub/file", config->source);
    if (troupe_checkpoint_add(me, config->missing, TROUPE_KEEP_SOURCE) != TROUPE_NOT_FOUND ||
        !strstr(troupe_last_error()->text, config->missing))
        return troupe_fail(TROUPE_FAILED, "a missing source was taken");
    if (troupe_checkpoint_add(me, file, (troupe_source)7) != TROUPE_INVALID)
        return troupe_fail(TROUPE_FAILED, "an odd word was taken");
    TROUPE_TRY(troupe_checkpoint_add(me, file, TROUPE_KEEP_SOURCE));
    if (!support_exists(file))
        return troupe_fail(TROUPE_FAILED, "a source to be kept is gone");
    TROUPE_TRY(troupe_save(int64_t, me, &state));
    TROUPE_TRY(troupe_checkpoint_add(me, config->source, TROUPE_REMOVE_SOURCE));
    if (support_exists(config->source))
        return troupe_fail(TROUPE_FAILED, "a source to be removed is there");
    // What is refused is refused before the report, and can be put right.
    TROUPE_TRY(troupe_checkpoint_folder(me, &folder));
    snprintf(file, sizeof file, "%s/out", folder);
    if (symlink("/etc/passwd", file) || troupe_report(me, {"x", 1}) != TROUPE_INVALID ||
        !strstr(troupe_last_error()->text, "'out'") || unlink(file))
        return troupe_fail(TROUPE_FAILED, "a link that leads out was taken");
    return troupe_report(me, {"x", 1});
}
TROUPE_TRAINER(adds, adding);

// C17
static void test_files_and_folders_are_added(void **state)
{
    (void)state;
    char *source = support_path(where_folder, "source"), *sub = support_path(source, "sub");
    char *file = support_path(sub, "file"), *link = support_path(source, "link");
    assert_int_equal(mkdir(source, 0700), 0);
    assert_int_equal(mkdir(sub, 0700), 0);
    support_write_file(file, "bytes", 5);
    assert_int_equal(symlink("sub/file", link), 0);
    adding config = {source, "/nowhere/at/all"};
    troupe_result *result;
    troupe_checkpoint *checkpoint;
    troupe_checkpoint_info info;
    troupe_must(troupe_train(adds, &config, &result, .storage = storage));
    assert_int_equal(troupe_result_reports(result), 1);
    troupe_must(troupe_checkpoint_open(troupe_result_checkpoint(result), &checkpoint));
    troupe_checkpoint_info_get(checkpoint, &info);
    const char *const paths[] = {"file", "link", "rank_00000.safetensors", "sub/file"};
    const troupe_checkpoint_kind kinds[] = {TROUPE_CHECKPOINT_FILE, TROUPE_CHECKPOINT_LINK,
                                            TROUPE_CHECKPOINT_STATE, TROUPE_CHECKPOINT_FILE};
    assert_int_equal(info.file_count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(info.files[i].path, paths[i]);
        assert_int_equal(info.files[i].kind, kinds[i]);
    }
    assert_string_equal(info.files[1].target, "sub/file");
    assert_int_equal(info.files[0].xxh64, info.files[3].xxh64);
    assert_int_equal(troupe_checkpoint_verify(checkpoint), TROUPE_OK);
    int64_t read = 0;
    troupe_must(troupe_checkpoint_load(int64_t, info.path, 0, &read));
    assert_int_equal(read, 7);
    troupe_checkpoint_close(&checkpoint);
    troupe_result_free(&result);
    free(link);
    free(file);
    free(sub);
    free(source);
}

// ---- who waits for a commit

enum { HELD_UNTIL = 2 };

static pthread_t submitter;
static atomic_int reports_told, checkpoints_told, told_before_the_end;
static atomic_bool held_too_long, out_of_order;

static bool enough_are_told(void *context)
{
    (void)context;
    return atomic_load(&reports_told) >= HELD_UNTIL;
}

// The commit's rename is held until later reports were told; run.json is renamed by the submitter.
static int hold_renames(const char *step)
{
    if (strcmp(step, "rename") == 0 && !pthread_equal(pthread_self(), submitter) &&
        !support_wait_until(enough_are_told, NULL, SUPPORT_SOON_MS))
        atomic_store(&held_too_long, true);
    return 0;
}

static void count_report(void *user, troupe_job *job, const troupe_report_event *event)
{
    (void)user, (void)job, (void)event;
    atomic_fetch_add(&reports_told, 1);
}

static void count_checkpoint(void *user, troupe_job *job, const troupe_checkpoint_event *event)
{
    (void)user, (void)job;
    int before = atomic_fetch_add(&checkpoints_told, 1);
    if (event->number != before || event->report != before + 1 || event->count != 2 ||
        event->metrics[1].value != event->report || !strstr(event->folder, "/checkpoint_"))
        atomic_store(&out_of_order, true);
}

static void note_end(void *user, troupe_job *job, troupe_job_state now)
{
    (void)user, (void)job;
    if (now == TROUPE_JOB_DONE)
        atomic_store(&told_before_the_end, atomic_load(&checkpoints_told));
}

// C20: a loop does not wait for the sync.
static void test_a_commit_that_takes_long_delays_no_report(void **state)
{
    (void)state;
    settings config = {.reports = 8};
    troupe_follower follower = {.size = sizeof follower,
                                .report = count_report,
                                .state = note_end,
                                .checkpoint = count_checkpoint};
    troupe_job *job;
    troupe_result *result;
    submitter = pthread_self();
    trp_file_probe = hold_renames;
    troupe_must(troupe_submit(fills_folders, &config, &follower, &job, .storage = storage,
                              .ranks = 2, .name = "held"));
    troupe_must(troupe_job_wait(job, -1, &result));
    trp_file_probe = NULL;
    assert_false(atomic_load(&held_too_long));
    assert_non_null(strstr(troupe_result_checkpoint(result), "checkpoint_000007"));
    troupe_result_free(&result);
    troupe_job_close(&job); // Which waits for the follower.
    assert_false(atomic_load(&out_of_order));
    assert_int_equal(atomic_load(&told_before_the_end), 8);
}

// ---- paths

// C13
static void test_a_path_is_expanded_or_does_not_exist(void **state)
{
    (void)state;
    troupe_checkpoint *checkpoint;
    troupe_result *result;
    settings config = {.reports = 1};
    if (where_far)
        skip();
    troupe_must(troupe_train(fills_folders, &config, &result, .storage = storage, .name = "home"));
    assert_int_equal(setenv("HOME", storage, 1), 0);
    const char *path = "~/home/checkpoints/checkpoint_000000";
    troupe_must(troupe_checkpoint_open(path, &checkpoint));
    troupe_checkpoint_close(&checkpoint);
    int value;
    assert_int_equal(troupe_checkpoint_load(int, path, 0, &value), TROUPE_NOT_FOUND);
    assert_non_null(strstr(troupe_last_error()->text, "has no state of rank 0"));
    assert_int_equal(troupe_checkpoint_open("~/none", &checkpoint), TROUPE_NOT_FOUND);
    const char *text = troupe_last_error()->text;
    assert_non_null(strstr(text, storage));
    assert_non_null(strstr(text, "/none does not exist"));
    assert_int_equal(troupe_checkpoint_load(int, "/nowhere", 0, &value), TROUPE_NOT_FOUND);
    assert_non_null(strstr(text, "/nowhere does not exist"));
    assert_int_equal(troupe_checkpoint_open(storage, &checkpoint), TROUPE_NOT_FOUND);
    assert_non_null(strstr(text, "is not a checkpoint: it has no manifest.json"));
    // A run starts from it, too.
    troupe_result *next;
    troupe_must(troupe_train(fills_folders, &config, &next, .storage = storage, .from = path));
    assert_int_equal(troupe_result_reports(next), 0); // Its one report was made by the first.
    troupe_result_free(&next);
    assert_int_equal(
        troupe_train(fills_folders, &config, &next, .storage = storage, .from = "~/no"),
        TROUPE_NOT_FOUND);
    assert_non_null(strstr(text, "/no does not exist"));
    troupe_result_free(&next);
    troupe_result_free(&result);
}

int main(int argc, char **argv)
{
    where_begin(argc, argv);
    troupe_must(troupe_start(argc, argv, .cpus = 4));
    storage = where_storage;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_rank_puts_files_into_one_folder),
        cmocka_unit_test(test_a_restart_goes_on_from_the_folder),
        cmocka_unit_test(test_ranks_that_differ_in_a_file_get_no_checkpoint),
        cmocka_unit_test(test_with_none_kept_a_folder_is_of_no_consequence),
        cmocka_unit_test(test_files_and_folders_are_added),
        cmocka_unit_test(test_a_commit_that_takes_long_delays_no_report),
        cmocka_unit_test(test_a_path_is_expanded_or_does_not_exist),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    failed |= troupe_stop();
    where_end();
    return failed;
}
