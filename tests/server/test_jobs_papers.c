// test_jobs_papers.c: what is kept of a submission in the books of the train server, so that
// neither a failure of the power nor a boot costs a job; and what is gone from there once the job
// has ended.
#include "shop.h"
#include <sqlite3.h>
#include <train/run_job.h>

static int syncs;

static int count_sync(const char *step)
{
    syncs += strncmp(step, "fsync", 5) == 0;
    return 0;
}

static int take_number(void *user, int count, char **values, char **names)
{
    (void)count, (void)names;
    *(int *)user = atoi(values[0]);
    return 0;
}

// Runs it on the closed books, and gives the number that it selects; -1: none.
static int ask_books(const shop *it, const char *sql)
{
    sqlite3 *base;
    int number = -1;
    char *books = support_path(it->folder, "books.db");
    assert_int_equal(sqlite3_open(books, &base), SQLITE_OK);
    assert_int_equal(sqlite3_exec(base, sql, take_number, &number, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(base), SQLITE_OK);
    free(books);
    return number;
}

static char *job_file(const trp_entry *job, const char *name)
{
    char *path = support_path(job->folder, name), *text = support_read_file(path);
    free(path);
    return text;
}

static void empty_file(const char *folder, const char *name)
{
    char *path = support_path(folder, name);
    assert_int_equal(truncate(path, 0), 0);
    free(path);
}

// A folder that cannot be written is no reason not to start: it is mended when it can be.
static void test_what_cannot_be_mended_waits(void **state)
{
    shop it;
    trp_entry *job;
    (void)state;
    shop_open(&it, 1);
    assert_int_equal(shop_submit(&it, &job, .submission = "first"), TROUPE_OK);
    assert_int_equal(shop_submit(&it, &job, .submission = "bad"), TROUPE_OK);
    assert_int_equal(shop_submit(&it, &job, .submission = "last"), TROUPE_OK);
    shop_turn(&it);
    char *spec = support_path(shop_job(&it, "bad")->folder, "spec");
    char *good = job_file(shop_job(&it, "bad"), "spec");
    char *last = strdup(shop_job(&it, "last")->folder);
    for (int i = 0; i < 2; i++) {
        trp_jobs_close(it.jobs);
        (void)ask_books(&it, "UPDATE papers SET boot_id = 'an earlier one'");
        if (i == 0) {
            empty_file(last, "job.json");
            assert_int_equal(unlink(spec), 0);
            assert_int_equal(mkdir(spec, 0700), 0);
        } else {
            assert_int_equal(ask_books(&it, "SELECT count(*) FROM papers"), 1);
            assert_int_equal(rmdir(spec), 0);
        }
        assert_int_equal(shop_try_open(&it), TROUPE_OK);
    }
    char *again = job_file(shop_job(&it, "bad"), "spec");
    assert_string_equal(again, good);
    trp_jobs_close(it.jobs);
    assert_int_equal(ask_books(&it, "SELECT count(*) FROM papers"), 0);
    assert_int_equal(shop_try_open(&it), TROUPE_OK);
    shop_close(&it);
    free(again);
    free(good);
    free(last);
    free(spec);
}

// F14: the commit of a submission is the one sync that it needs: what else a failure of the power
// takes is made again.
static void test_a_failure_of_the_power_takes_no_submission(void **state)
{
    shop it;
    trp_entry *job;
    trp_arena arena = {0};
    trp_run_job claim;
    (void)state;
    shop_open(&it, 1);
    trp_file_probe = count_sync;
    assert_int_equal(shop_submit(&it, &job, .submission = "runs"), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(shop_submit(&it, &job, .submission = "empty", .claims = true), TROUPE_OK);
    assert_int_equal(shop_submit(&it, &job, .submission = "gone", .claims = true), TROUPE_OK);
    assert_int_equal(shop_submit(&it, &job, .submission = "none"), TROUPE_OK);
    shop_turn(&it);
    trp_file_probe = NULL;
    assert_int_equal(syncs, 0);
    shop_end(&it, shop_job(&it, "runs"), TROUPE_OK, 1);
    shop_turn(&it);
    shop_end(&it, shop_job(&it, "empty"), TROUPE_OK, 7); // The turn for it does not come.

    job = shop_job(&it, "empty");
    char *json = job_file(job, "job.json"), *spec = job_file(job, "spec");
    char *gone = support_path(it.storage, "gone");
    char *ended = strdup(shop_job(&it, "runs")->folder);
    char *half = strdup(shop_job(&it, "empty")->folder);
    char *away = strdup(shop_job(&it, "gone")->folder);
    trp_jobs_close(it.jobs);
    assert_int_equal(ask_books(&it, "SELECT count(*) FROM launches"), 3); // Not of what has ended.
    (void)ask_books(&it, "UPDATE papers SET boot_id = 'an earlier one'");
    for (int i = 0; i < 2; i++) {
        empty_file(i > 0 ? half : ended, "spec");
        empty_file(i > 0 ? half : ended, "job.json");
    }
    assert_int_equal(rmdir(gone), 0);
    support_directory_remove(away);
    assert_int_equal(shop_try_open(&it), TROUPE_OK);

    assert_int_equal(shop_job(&it, "runs")->row.state, TRP_JOB_ENDED);
    char *again = job_file(shop_job(&it, "runs"), "spec");
    assert_string_equal(again, spec);
    free(again);
    again = job_file(shop_job(&it, "empty"), "job.json");
    assert_string_equal(again, json);
    free(again);
    assert_true(support_exists(gone));
    assert_int_equal(trp_run_job_read(gone, &arena, &claim), TROUPE_OK);
    assert_string_equal(claim.submission, "gone");
    assert_int_equal(claim.job, shop_job(&it, "gone")->row.id);
    shop_turn(&it);
    assert_int_equal(shop_job(&it, "empty")->row.reports, 7);
    // It is started, and has all that a launcher needs.
    assert_int_equal(shop_job(&it, "gone")->row.state, TRP_JOB_STARTING);
    shop_end(&it, shop_job(&it, "gone"), TROUPE_OK, 2);
    shop_turn(&it);
    assert_int_equal(shop_job(&it, "gone")->row.reports, 2);
    shop_turn(&it);
    shop_end(&it, shop_job(&it, "none"), TROUPE_OK, 1);
    shop_turn(&it);
    trp_jobs_close(it.jobs);
    assert_int_equal(ask_books(&it, "SELECT count(*) FROM papers"), 0); // They last without.
    assert_int_equal(shop_try_open(&it), TROUPE_OK);
    shop_close(&it);
    trp_arena_clear(&arena);
    free(ended);
    free(half);
    free(json);
    free(spec);
    free(gone);
}

static bool books_have(const shop *it, const char *text)
{
    static const char *const names[] = {"books.db", "books.db-wal"};
    enum { MOST = 4 << 20 };
    char *bytes = malloc(MOST);
    bool found = false;
    assert_non_null(bytes);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = support_path(it->folder, names[i]);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t size = read(fd, bytes, MOST);
        assert_in_range(size, 0, MOST - 1);
        found |= memmem(bytes, (size_t)size, text, strlen(text)) != NULL;
        close(fd);
        free(path);
    }
    free(bytes);
    return found;
}

static void test_secrets_leave_the_books(void **state)
{
    static const char secret[] = "TOKEN=a secret of the environment";
    shop it;
    trp_entry *job;
    (void)state;
    shop_open(&it, 4);
    assert_int_equal(shop_submit(&it, &job, .submission = "a", .secret = secret), TROUPE_OK);
    shop_turn(&it);
    assert_true(books_have(&it, secret)); // Should the power fail.
    shop_end(&it, job, TROUPE_OK, 1);
    shop_turn(&it);
    assert_int_equal(job->row.state, TRP_JOB_ENDED);
    shop_pass(&it, 1000);
    assert_false(books_have(&it, secret));
    shop_close(&it);
}

// All that ran is lost, and nobody's fault.
static void test_a_boot_costs_no_attempt(void **state)
{
    shop it;
    trp_entry *job;
    (void)state;
    shop_open(&it, 1);
    assert_int_equal(shop_submit(&it, &job, .submission = "a", .restarts = 1), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(shop_greet(&it, job), TROUPE_OK);
    shop_turn(&it);
    pid_t process = job->process;
    trp_jobs_close(it.jobs);
    assert_int_equal(kill(process, SIGKILL), 0);
    assert_int_equal(waitpid(process, NULL, 0), process);
    (void)ask_books(&it, "UPDATE attempts SET boot_id = 'an earlier one'");
    assert_int_equal(shop_try_open(&it), TROUPE_OK);
    shop_turn(&it);
    shop_turn(&it);
    job = shop_job(&it, "a");
    assert_int_equal(job->row.attempt, 2);
    assert_int_equal(it.launches, 2);
    assert_int_equal(it.order.restarts_left, 1);
    assert_int_equal(it.order.restarts_before, 0);
    shop_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_secrets_leave_the_books),
        cmocka_unit_test(test_what_cannot_be_mended_waits),
        cmocka_unit_test(test_a_failure_of_the_power_takes_no_submission),
        cmocka_unit_test(test_a_boot_costs_no_attempt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
