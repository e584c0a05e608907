// test_reports_ahead.c: how far a rank is ahead of what the driver has taken of its reports. The
// driver is a process of its own that is stopped meanwhile.
#include "support.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <train/reports.h>
#include <troupe.h>
#include <unistd.h>

enum { REPORTS = 200, FIRST = 5, QUIET_MS = 300 };

typedef struct shared {
    _Atomic int made; // By rank 0.
    _Atomic bool lets_on;
} shared;

TROUPE_STRUCT(settings, (troupe_text, path));

static shared *map(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *memory = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, sizeof(shared)) == 0)
        memory = mmap(NULL, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return memory == MAP_FAILED ? NULL : memory;
}

static troupe_status fit(troupe_rank *me, const settings *config)
{
    shared *all = map(config->path);
    if (all == NULL)
        return troupe_fail(TROUPE_FAILED, "%s cannot be mapped", config->path);
    for (int i = 1; i <= REPORTS; i++) {
        TROUPE_TRY(troupe_report(me, {"loss", i}));
        if (me->rank == 0)
            atomic_store(&all->made, i);
        while (i == FIRST && !atomic_load(&all->lets_on))
            usleep(1000);
    }
    munmap(all, sizeof *all);
    return TROUPE_OK;
}
TROUPE_TRAINER(fit, settings);

static troupe_gate_answer go_on(void *user, troupe_job *job, const troupe_report_event *event,
                                int *ranks)
{
    (void)user, (void)job, (void)event, (void)ranks;
    return TROUPE_GATE_GO_ON;
}

// A rank waits for the answer to the report that there is a gate for: then all was taken before.
static int drive(const char *storage, const char *path, int ranks)
{
    settings config = {path};
    const troupe_gate gate = {.size = sizeof gate,
                              .decide = go_on,
                              .reports = (const int[]){FIRST},
                              .report_count = 1,
                              .timeout_ms = SUPPORT_SOON_MS};
    troupe_result *result;
    troupe_must(troupe_start(0, NULL, .cpus = 2));
    troupe_must(troupe_train(fit, &config, &result, .storage = storage, .name = "run",
                             .ranks = ranks, .gate = &gate));
    bool whole = troupe_result_reports(result) == REPORTS;
    troupe_result_free(&result);
    return troupe_stop() != 0 || !whole;
}

static bool has_first(void *user)
{
    return atomic_load(&((shared *)user)->made) == FIRST;
}

// Until the rank stands still; how many reports it has made then.
static int settled(shared *all)
{
    for (int before = -1, now; (now = atomic_load(&all->made)) != before; before = now)
        usleep(QUIET_MS * 1000);
    return atomic_load(&all->made);
}

// Each number is in the journal once, in order.
static void check_journal(const char *storage)
{
    char *run = support_path(storage, "run"), *path = support_path(run, "journal.jsonl");
    char *text = support_read_file(path);
    int number = 0, next;
    assert_non_null(text);
    for (const char *at = text; (at = strstr(at, "\"event\": \"report\", \"report\": ")) != NULL;
         at++)
        if (sscanf(at, "\"event\": \"report\", \"report\": %d", &next) == 1)
            assert_int_equal(next, ++number);
    assert_int_equal(number, REPORTS);
    free(text);
    free(path);
    free(run);
}

static void check(int ranks, int least, int most)
{
    char *storage = support_directory_make(), *path = support_path(storage, "shared");
    shared *all = map(path);
    int status;
    assert_non_null(all);
    pid_t driver = fork();
    assert_true(driver >= 0);
    if (driver == 0)
        exit(drive(storage, path, ranks));
    assert_true(support_wait_until(has_first, all, SUPPORT_SOON_MS));
    assert_int_equal(kill(driver, SIGSTOP), 0);
    assert_int_equal(waitpid(driver, &status, WUNTRACED), driver); // All of its threads stand.
    assert_true(WIFSTOPPED(status));
    atomic_store(&all->lets_on, true);
    support_await_counter(&all->made, FIRST + least);
    int ahead = settled(all) - FIRST;
    assert_int_equal(kill(driver, SIGCONT), 0);
    assert_int_equal(waitpid(driver, &status, 0), driver);
    assert_int_equal(status, 0);
    assert_in_range(ahead, least, most);
    check_journal(storage);
    munmap(all, sizeof *all);
    free(path);
    support_directory_remove(storage);
}

static void test_a_rank_that_is_alone_is_some_reports_ahead(void **state)
{
    (void)state;
    check(1, TRP_REPORTS_UNANSWERED / 2, TRP_REPORTS_UNANSWERED + 1);
}

static void test_one_of_several_ranks_is_one_ahead(void **state)
{
    (void)state;
    check(2, 1, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rank_that_is_alone_is_some_reports_ahead),
        cmocka_unit_test(test_one_of_several_ranks_is_one_ahead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
