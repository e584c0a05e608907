// test_job_checkpoint.c: the newest and the best checkpoint of a run, asked for while it runs.
#include <support.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

static char *storage;

TROUPE_STRUCT(plan, (troupe_text, folder), (int, reports));
TROUPE_STRUCT(place, (int, report));

// Each report waits until the test wants it. Their losses fall, rise and fall; the third has no
// checkpoint.
static troupe_status fit(troupe_rank *me, const plan *config)
{
    static const double losses[] = {0, 3, 2, 1, 4, 1.5, 9};
    place at = {0};
    TROUPE_TRY(troupe_restore(place, me, &at));
    while (at.report < config->reports) {
        char name[32];
        snprintf(name, sizeof name, "go_%d", ++at.report);
        char *path = support_path(config->folder, name);
        while (!support_exists(path))
            usleep(2000);
        free(path);
        if (at.report != 3)
            TROUPE_TRY(troupe_save(place, me, &at));
        TROUPE_TRY(troupe_report(me, {"loss", losses[at.report]}));
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(fit, plan);

static void let_report(int number)
{
    char name[32];
    snprintf(name, sizeof name, "go_%d", number);
    char *path = support_path(storage, name);
    support_write_file(path, "", 0);
    free(path);
}

typedef struct wanted {
    troupe_job *job;
    int reports;
    int64_t newest;
} wanted;

static int64_t number_of(troupe_job *job, troupe_checkpoint_choice which)
{
    char folder[4096];
    int64_t number = -2;
    troupe_status status = troupe_job_checkpoint(job, which, folder, sizeof folder, &number);
    if (status == TROUPE_NOT_FOUND)
        return -1;
    troupe_must(status);
    return number;
}

static bool is_there(void *user)
{
    const wanted *it = (const wanted *)user;
    troupe_job_status now;
    troupe_job_status_get(it->job, &now);
    return now.state == TROUPE_JOB_RUNNING && now.reports >= it->reports &&
           number_of(it->job, TROUPE_NEWEST_CHECKPOINT) == it->newest;
}

static void expect(troupe_job *job, int reports, int64_t newest, int64_t best)
{
    assert_true(support_wait_until(is_there, &(wanted){job, reports, newest}, SUPPORT_SOON_MS));
    assert_int_equal(number_of(job, TROUPE_BEST_CHECKPOINT), best);
    for (int i = 0; newest >= 0 && i < 2; i++) {
        char folder[4096], name[32];
        troupe_must(
            troupe_job_checkpoint(job, (troupe_checkpoint_choice)i, folder, sizeof folder, NULL));
        snprintf(name, sizeof name, "/checkpoint_%06d", (int)(i == 0 ? newest : best));
        assert_string_equal(strrchr(folder, '/'), name);
        assert_true(support_exists(folder));
    }
}

static troupe_job *submit(int reports, troupe_open open)
{
    plan config = {storage, reports};
    troupe_job *job;
    troupe_must(troupe_submit(fit, &config, NULL, &job, .storage = storage, .name = "asked",
                              .keep = 1, .keep_metric = "loss", .keep_goal = TROUPE_MINIMIZE,
                              .restarts = 1, .open = open));
    return job;
}

// C12: before and after the first, after a report without one, after a worse and a better one.
static void test_newest_and_best_are_known_at_any_time(void **state)
{
    (void)state;
    char small[16], exact[4096];
    int64_t number = 7;
    troupe_job *job = submit(5, TROUPE_OPEN_NEW);
    expect(job, 0, -1, -1);
    assert_int_equal(
        troupe_job_checkpoint(job, TROUPE_BEST_CHECKPOINT, exact, sizeof exact, &number),
        TROUPE_NOT_FOUND);
    assert_non_null(strstr(troupe_last_error()->text, "has no checkpoint yet"));
    let_report(1);
    expect(job, 1, 0, 0);
    let_report(2);
    expect(job, 2, 1, 1);
    let_report(3);
    expect(job, 3, 1, 1);
    let_report(4);
    expect(job, 4, 2, 1);
    assert_int_equal(troupe_job_checkpoint(job, TROUPE_BEST_CHECKPOINT, small, sizeof small, NULL),
                     TROUPE_TOO_LARGE);
    assert_int_equal(
        troupe_job_checkpoint(job, (troupe_checkpoint_choice)2, exact, sizeof exact, NULL),
        TROUPE_INVALID);
    let_report(5);
    troupe_result *result;
    troupe_must(troupe_job_wait(job, -1, &result));
    troupe_must(troupe_job_checkpoint(job, TROUPE_BEST_CHECKPOINT, exact, sizeof exact, &number));
    assert_string_equal(exact, troupe_result_best_checkpoint(result));
    assert_int_equal(number, 3);
    troupe_result_free(&result);
    troupe_job_close(&job);
}

// C12: of the run above, which goes on for one report more, and whose rank is killed before it.
static void test_they_are_known_after_a_restart_and_an_opening(void **state)
{
    (void)state;
    troupe_job_status now;
    // It has ended: nothing is started, and they are known.
    troupe_job *job = submit(6, TROUPE_OPEN_RESUME);
    assert_int_equal(number_of(job, TROUPE_NEWEST_CHECKPOINT), 3);
    assert_int_equal(number_of(job, TROUPE_BEST_CHECKPOINT), 3);
    troupe_job_close(&job);
    char *end = support_path(storage, "asked/end");
    assert_int_equal(unlink(end), 0); // As if its driver had died before.
    free(end);
    job = submit(6, TROUPE_OPEN_RESUME);
    expect(job, 0, 3, 3);
    troupe_job_status_get(job, &now);
    kill(now.pids[0], SIGKILL);
    let_report(6);
    troupe_result *result;
    troupe_must(troupe_job_wait(job, -1, &result));
    assert_int_equal(troupe_result_restarts(result), 1);
    assert_int_equal(number_of(job, TROUPE_NEWEST_CHECKPOINT), 4);
    assert_int_equal(number_of(job, TROUPE_BEST_CHECKPOINT), 3);
    troupe_result_free(&result);
    troupe_job_close(&job);
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .workers = TROUPE_NONE, .cpus = 2));
    storage = support_directory_make();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_newest_and_best_are_known_at_any_time),
        cmocka_unit_test(test_they_are_known_after_a_restart_and_an_opening),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    support_directory_remove(storage);
    return troupe_stop() || failed;
}
