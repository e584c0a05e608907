// test_sync.c: what a run syncs in its driver, and what it leaves to something else (.sync). A loss
// of power cannot be had here: the syncs are counted, and fail.
#include "support.h"

#include <errno.h>
#include <runtime/host/file.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

TROUPE_STRUCT(settings, (int, saves)); // Before that many of its reports.
TROUPE_STRUCT(model, (double, weight));
TROUPE_STRUCT(returned, (troupe_text, text));

enum { REPORTS = 3, MANY = 5000 }; // MANY: bytes, more than a page.

static troupe_status fit(troupe_rank *me, const settings *config)
{
    model made = {.weight = 1};
    const char *fails = getenv("FIT_FAILS"); // Before the report of that number.
    for (int i = 1; i <= REPORTS; i++) {
        if (fails != NULL && atoi(fails) == i)
            return troupe_fail(TROUPE_FAILED, "before report %d", i);
        if (i <= config->saves)
            TROUPE_TRY(troupe_save(model, me, &made));
        TROUPE_TRY(troupe_report(me, {"loss", 1.0 / i}));
    }
    if (getenv("FIT_RETURNS") != NULL) {
        static char text[MANY + 1];
        memset(text, 'x', MANY);
        return troupe_return(returned, me, &(returned){text});
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(fit, settings);

typedef struct syncs {
    int files, folders;
} syncs;

static _Atomic int files, folders;
static _Atomic bool refuses_first; // The first sync of a file fails.

static int count_sync(const char *step)
{
    if (strcmp(step, "fsync folder") == 0)
        atomic_fetch_add(&folders, 1);
    else if (strcmp(step, "fsync") == 0)
        return atomic_fetch_add(&files, 1) == 0 && atomic_load(&refuses_first) ? EIO : 0;
    return 0;
}

// Runs it, and counts what this process has synced meanwhile.
static syncs run_as(const char *storage, troupe_sync how, int saves, troupe_result **result,
                    troupe_open open)
{
    settings config = {saves};
    const char *fails = getenv("FIT_FAILS");
    troupe_must(troupe_start(0, NULL, .cpus = 1));
    atomic_store(&files, 0);
    atomic_store(&folders, 0);
    atomic_store(&trp_file_probe, count_sync);
    troupe_status status = troupe_train(fit, &config, result, .storage = storage, .name = "run",
                                        .sync = how, .open = open);
    atomic_store(&trp_file_probe, NULL);
    assert_int_equal(status, fails != NULL ? TROUPE_FAILED : TROUPE_OK);
    assert_int_equal(troupe_result_reports(*result), fails != NULL ? atoi(fails) - 1 : REPORTS);
    assert_int_equal(troupe_stop(), 0);
    return (syncs){atomic_load(&files), atomic_load(&folders)};
}

static syncs run(const char *storage, troupe_sync how, int saves, troupe_result **result)
{
    return run_as(storage, how, saves, result, TROUPE_OPEN_NEW);
}

// A run that has failed before that report, without a sync of its own.
static void leave_unsynced(const char *storage, int saves, const char *before)
{
    troupe_result *result;
    setenv("FIT_FAILS", before, 1);
    syncs none = run_as(storage, TROUPE_SYNC_CHECKPOINTS, saves, &result, TROUPE_OPEN_NEW);
    unsetenv("FIT_FAILS");
    assert_int_equal(none.files + none.folders, 0);
    troupe_result_free(&result);
}

static void test_a_run_that_saves_nothing_syncs_nothing_of_its_own(void **state)
{
    (void)state;
    char *storage = support_directory_make();
    troupe_result *result;
    syncs all = run(storage, TROUPE_SYNC_ALL, 0, &result);
    troupe_result_free(&result);
    assert_int_equal(all.files, 3);   // run.json, the journal and `end`,
    assert_int_equal(all.folders, 3); // the run's folder with each of the two, and its own name.
    syncs usual = run(storage, TROUPE_SYNC_AUTO, 0, &result);
    troupe_result_free(&result);
    assert_int_equal(usual.files, all.files);
    assert_int_equal(usual.folders, all.folders);
    syncs few = run(storage, TROUPE_SYNC_CHECKPOINTS, 0, &result);
    assert_int_equal(few.files, 0);
    assert_int_equal(few.folders, 0);
    char *run_of_all = support_path(storage, "run"),
         *saved = support_path(run_of_all, "checkpoints"),
         *none = support_path(troupe_result_path(result), "checkpoints");
    assert_true(support_exists(saved)); // Its name is to last, whatever comes.
    assert_false(support_exists(none));
    free(none);
    free(saved);
    free(run_of_all);
    // It is all there for who comes later, and none has to have lost its power for that.
    assert_true(troupe_can_resume(troupe_result_path(result)));
    troupe_result_free(&result);
    support_directory_remove(storage);
}

static void test_a_checkpoint_lasts_with_what_its_run_is(void **state)
{
    (void)state;
    char *storage = support_directory_make();
    troupe_result *result;
    syncs all = run(storage, TROUPE_SYNC_ALL, REPORTS, &result);
    troupe_result_free(&result);
    syncs few = run(storage, TROUPE_SYNC_CHECKPOINTS, REPORTS, &result);
    assert_non_null(troupe_result_checkpoint(result));
    troupe_result_free(&result);
    assert_int_equal(all.files - few.files, 2); // The journal's end and `end`.
    assert_int_equal(all.folders - few.folders, 1);
    support_directory_remove(storage);
}

static void test_no_checkpoint_is_there_before_what_its_run_is_lasts(void **state)
{
    (void)state;
    char *storage = support_directory_make();
    troupe_result *result;
    atomic_store(&refuses_first, true); // That of run.json.
    (void)run(storage, TROUPE_SYNC_CHECKPOINTS, 1, &result);
    assert_null(troupe_result_checkpoint(result));
    troupe_result_free(&result);
    (void)run(storage, TROUPE_SYNC_CHECKPOINTS, 2, &result);
    const char *folder = troupe_result_checkpoint(result);
    assert_non_null(folder);
    assert_string_equal(strrchr(folder, '/'), "/checkpoint_000001");
    troupe_result_free(&result);
    atomic_store(&refuses_first, false);
    support_directory_remove(storage);
}

static void test_a_run_that_goes_on_may_not_have_lasted(void **state)
{
    (void)state;
    troupe_result *result;
    for (troupe_sync how = TROUPE_SYNC_ALL; how <= TROUPE_SYNC_CHECKPOINTS; how++) {
        char *storage = support_directory_make();
        syncs of_new = run(storage, how, REPORTS, &result);
        troupe_result_free(&result);
        support_directory_remove(storage);
        storage = support_directory_make();
        leave_unsynced(storage, REPORTS, "1");
        syncs again = run_as(storage, how, REPORTS, &result, TROUPE_OPEN_RESUME);
        troupe_result_free(&result);
        support_directory_remove(storage);
        assert_int_equal(again.files, of_new.files);
        assert_true(again.folders >= of_new.folders);
    }
}

static void test_what_a_loss_of_power_has_emptied_begins_anew(void **state)
{
    (void)state;
    char *storage = support_directory_make(), path[4096];
    troupe_result *result;
    leave_unsynced(storage, 0, "3");
    snprintf(path, sizeof path, "%s/run/run.json", storage);
    assert_int_equal(truncate(path, 0), 0);
    snprintf(path, sizeof path, "%s/run", storage);
    assert_false(troupe_can_resume(path));
    (void)run_as(storage, TROUPE_SYNC_CHECKPOINTS, 1, &result, TROUPE_OPEN_RESUME_OR_NEW);
    assert_string_equal(troupe_result_path(result) + strlen(storage), "/run");
    troupe_result_free(&result);
    assert_true(troupe_can_resume(path));
    char file[4200];
    snprintf(file, sizeof file, "%s/journal.jsonl", path);
    char *journal = support_read_file(file);
    const char *open = strstr(journal, "\"event\": \"open\"");
    assert_non_null(open);
    assert_null(
        strstr(open + 1, "\"event\": \"open\"")); // Reports of the emptied one do not count.
    free(journal);
    // With a checkpoint that it belongs to it is damaged.
    snprintf(file, sizeof file, "%s/run.json", path);
    assert_int_equal(truncate(file, 0), 0);
    settings config = {1};
    troupe_must(troupe_start(0, NULL, .cpus = 1));
    assert_int_equal(troupe_train(fit, &config, &result, .storage = storage, .name = "run",
                                  .open = TROUPE_OPEN_RESUME_OR_NEW),
                     TROUPE_CORRUPT);
    assert_int_equal(troupe_stop(), 0);
    support_directory_remove(storage);
}

// What the run's folder says of its end.
static troupe_run_info info_of(const char *storage)
{
    char *path = support_path(storage, "run");
    troupe_run_info info;
    troupe_must(troupe_run_info_get(path, &info));
    free(path);
    return info;
}

static void test_a_run_that_need_not_last_ends_with_a_line(void **state)
{
    (void)state;
    char *storage = support_directory_make(), *end = support_path(storage, "run/end"),
         *journal = support_path(storage, "run/journal.jsonl");
    troupe_result *result;
    leave_unsynced(storage, 0, "2");
    assert_false(support_exists(end));
    troupe_run_info info = info_of(storage);
    assert_true(info.ended);
    assert_int_equal(info.status, TROUPE_FAILED);
    assert_int_equal(info.reports, 1);
    assert_non_null(strstr(info.error, "before report 2"));
    // It goes on, and has come to another end then.
    (void)run_as(storage, TROUPE_SYNC_CHECKPOINTS, 0, &result, TROUPE_OPEN_RESUME);
    troupe_result_free(&result);
    assert_false(support_exists(end));
    info = info_of(storage);
    assert_true(info.ended);
    assert_int_equal(info.status, TROUPE_OK);
    assert_int_equal(info.reports, REPORTS);
    // Having ended well it is not run again.
    char *before = support_read_file(journal);
    (void)run_as(storage, TROUPE_SYNC_CHECKPOINTS, 0, &result, TROUPE_OPEN_RESUME);
    troupe_result_free(&result);
    char *after = support_read_file(journal);
    assert_string_equal(after, before);
    // A line that was cut says nothing.
    assert_int_equal(truncate(journal, (off_t)strlen(after) - 1), 0);
    assert_false(info_of(storage).ended);
    free(after);
    free(before);
    free(journal);
    free(end);
    support_directory_remove(storage);
}

static void test_an_end_of_more_than_a_page_has_a_file(void **state)
{
    (void)state;
    char *storage = support_directory_make(), *end = support_path(storage, "run/end");
    troupe_result *result;
    setenv("FIT_RETURNS", "1", 1);
    for (int i = 0; i < 2; i++) { // The second time it is there already.
        returned value = {0};
        (void)run_as(storage, TROUPE_SYNC_CHECKPOINTS, 0, &result,
                     i == 0 ? TROUPE_OPEN_NEW : TROUPE_OPEN_RESUME);
        troupe_must(troupe_result_value(returned, result, &value));
        assert_int_equal(strlen(value.text), MANY);
        troupe_result_free(&result);
        assert_true(support_exists(end));
        assert_true(info_of(storage).ended);
    }
    unsetenv("FIT_RETURNS");
    free(end);
    support_directory_remove(storage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_run_that_saves_nothing_syncs_nothing_of_its_own),
        cmocka_unit_test(test_a_checkpoint_lasts_with_what_its_run_is),
        cmocka_unit_test(test_no_checkpoint_is_there_before_what_its_run_is_lasts),
        cmocka_unit_test(test_a_run_that_goes_on_may_not_have_lasted),
        cmocka_unit_test(test_what_a_loss_of_power_has_emptied_begins_anew),
        cmocka_unit_test(test_a_run_that_need_not_last_ends_with_a_line),
        cmocka_unit_test(test_an_end_of_more_than_a_page_has_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
