// test_follow.c: what followers are told of: the metrics of every rank, where in the loop they come
// from, and what ranks print.
#include <support.h>

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <train/follow.h>
#include <train/handle.h>
#include <troupe.h>
#include <unistd.h>

enum { RANKS = 3, MANY = 6000 }; // More reports than wait in memory.

static char *storage;

TROUPE_STRUCT(plan, (int, reports), (bool, differs));

// Each rank has a metric more than the one before, and each third report is of another source.
static troupe_status report_all(troupe_rank *me, const plan *config)
{
    for (int i = 1; i <= config->reports; i++) {
        const troupe_metric metrics[] = {
            {"value", i * 10.0 + me->rank}, {"second", me->rank}, {"third", NAN}};
        size_t count = (size_t)me->rank + 1;
        bool tagged = i % 3 == 0 && !(config->differs && me->rank == 1);
        TROUPE_TRY(tagged ? troupe_report_metrics_tagged(me, "validate", metrics, count)
                          : troupe_report_metrics(me, metrics, count));
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(report_all, plan);

typedef struct listener {
    int last, sleeps, ranks;
    bool wrong;
} listener;

static bool are_of_rank(const troupe_metric *metrics, size_t count, int number, int rank)
{
    return count == (size_t)rank + 1 && strcmp(metrics[0].name, "value") == 0 &&
           metrics[0].value == number * 10.0 + rank &&
           (rank < 1 ||
            (strcmp(metrics[1].name, "second") == 0 && metrics[1].value == (double)rank)) &&
           (rank < 2 || (strcmp(metrics[2].name, "third") == 0 && isnan(metrics[2].value)));
}

static void look(void *user, troupe_job *job, const troupe_report_event *event)
{
    (void)job;
    listener *self = (listener *)user;
    if (self->sleeps-- > 0)
        usleep(300 * 1000);
    self->wrong |= event->number != self->last + 1;
    self->wrong |= strcmp(event->source, event->number % 3 == 0 ? "validate" : "") != 0;
    self->wrong |= !are_of_rank(event->metrics, event->count, event->number, 0);
    self->wrong |= event->rank_count != (size_t)self->ranks;
    for (int rank = 0; rank < self->ranks && (size_t)rank < event->rank_count; rank++)
        self->wrong |=
            !are_of_rank(event->ranks[rank].metrics, event->ranks[rank].count, event->number, rank);
    self->last = event->number;
}

static void follow(listener *self, int reports, bool all)
{
    plan config = {.reports = reports};
    troupe_follower follower = {.size = sizeof follower, .report = look, .user = self};
    troupe_job *job;
    troupe_result *result;
    self->ranks = all ? RANKS : 0;
    troupe_must(troupe_submit(report_all, &config, &follower, &job, .ranks = RANKS,
                              .cpus_per_rank = 0.3, .storage = storage, .rank_metrics = all));
    troupe_must(troupe_job_wait(job, -1, &result));
    assert_int_equal(troupe_result_status(result), TROUPE_OK);
    assert_int_equal(troupe_result_reports(result), reports);
    troupe_result_free(&result);
    troupe_job_close(&job);
    assert_int_equal(self->last, reports);
    assert_false(self->wrong);
}

// D04, D05.
static void test_a_follower_gets_the_metrics_of_every_rank(void **state)
{
    (void)state;
    follow(&(listener){0}, 30, true);
    follow(&(listener){0}, 30, false);
}

// D04, D05: it sleeps while thousands of reports are made, and reads them back.
static void test_a_slow_follower_reads_them_back_the_same(void **state)
{
    (void)state;
    follow(&(listener){.sleeps = 3}, MANY, true);
}

static void test_ranks_that_report_from_different_sources_are_told(void **state)
{
    (void)state;
    plan config = {.reports = 6, .differs = true};
    troupe_result *result = NULL;
    troupe_status status = troupe_train(report_all, &config, &result, .ranks = 2,
                                        .cpus_per_rank = 0.5, .storage = storage);
    assert_int_equal(status, TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "made report 3 from '"));
    assert_non_null(strstr(troupe_last_error()->text, "must report from the same source"));
    troupe_result_free(&result);
}

static troupe_status report_badly(troupe_rank *me)
{
    char name[80];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    if (troupe_report_tagged(me, "", {"a", 1}) != TROUPE_INVALID ||
        strstr(troupe_last_error()->text, "the source is '': expected 1 to 63 bytes") == NULL)
        return troupe_fail(TROUPE_FAILED, "an empty source: %s", troupe_last_error()->text);
    if (troupe_report_tagged(me, name, {"a", 1}) != TROUPE_INVALID)
        return troupe_fail(TROUPE_FAILED, "a long source was taken");
    name[63] = '\0';
    return troupe_report_tagged(me, name, {"a", 1});
}
TROUPE_TRAINER(report_badly);

static void test_a_source_has_1_to_63_bytes(void **state)
{
    (void)state;
    troupe_result *result = NULL;
    troupe_must(troupe_train(report_badly, NULL, &result, .storage = storage));
    assert_int_equal(troupe_result_reports(result), 1);
    troupe_result_free(&result);
}

// ---- lines of ranks

TROUPE_STRUCT(chat, (int, lines), (bool, dies));

static troupe_status talk(troupe_rank *me, const chat *config)
{
    for (int i = 0; i < config->lines; i++)
        if (fprintf(i % 2 == 0 ? stdout : stderr, "line %d of rank %d in attempt %d\n", i, me->rank,
                    me->attempt) < 0 ||
            (i % 2 == 0 && fflush(stdout)))
            return troupe_fail(TROUPE_IO, "cannot print");
    TROUPE_TRY(troupe_barrier(me));
    TROUPE_TRY(troupe_report(me, {"pid", (double)getpid()}));
    if (config->dies && me->rank == 1 && me->attempt == 0)
        abort();
    return troupe_barrier(me);
}
TROUPE_TRAINER(talk, chat);

typedef struct reader {
    int seen[2][2][2]; // Lines of a loop: by attempt, rank, and stream.
    int pids[2][2];
    uint64_t lost;
    bool wrong, over;
    atomic_bool held; // It does not return meanwhile.
    _Atomic int calls;
} reader;

static void read_line(void *user, troupe_job *job, const troupe_log_event *event)
{
    (void)job;
    reader *self = (reader *)user;
    int line, rank, attempt;
    atomic_fetch_add(&self->calls, 1);
    while (atomic_load(&self->held))
        usleep(1000);
    self->lost += event->lost;
    self->wrong |= self->over || strlen(event->text) != event->size;
    if (sscanf(event->text, "line %d of rank %d in attempt %d", &line, &rank, &attempt) != 3)
        return; // The library's own.
    self->wrong |= rank != event->rank || attempt != event->attempt || event->pid <= 0;
    if (rank < 0 || rank > 1 || attempt < 0 || attempt > 1) {
        self->wrong = true;
        return;
    }
    int *pid = &self->pids[attempt][rank];
    // Even ones went to one stream, odd ones to the other.
    self->wrong |= line / 2 != self->seen[attempt][rank][line % 2]++;
    self->wrong |= *pid != 0 && *pid != event->pid;
    *pid = event->pid;
}

static void note_end(void *user, troupe_job *job, troupe_job_state state)
{
    (void)job;
    ((reader *)user)->over |= state == TROUPE_JOB_DONE;
}

static troupe_job *submit_talk(reader *self, int lines, bool dies)
{
    chat config = {lines, dies};
    troupe_follower follower = {
        .size = sizeof follower, .log = read_line, .state = note_end, .user = self};
    troupe_job *job;
    troupe_must(troupe_submit(talk, &config, &follower, &job, .ranks = 2, .cpus_per_rank = 0.5,
                              .storage = storage, .restarts = dies, .keep = TROUPE_NONE));
    return job;
}

static void await_run(troupe_job *job)
{
    troupe_result *result;
    troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &result));
    assert_int_equal(troupe_result_status(result), TROUPE_OK);
    troupe_result_free(&result);
}

// E07: of both streams, with rank, attempt and process, also of one that aborts.
static void test_a_follower_gets_each_line_of_each_rank(void **state)
{
    (void)state;
    reader self = {0};
    troupe_job *job = submit_talk(&self, 50, true);
    await_run(job);
    troupe_job_close(&job);
    assert_true(self.over);
    assert_false(self.wrong);
    assert_int_equal(self.lost, 0);
    for (int rank = 0; rank < 2; rank++) {
        for (int stream = 0; stream < 2; stream++) {
            assert_int_equal(self.seen[0][rank][stream], 25);
            assert_int_equal(self.seen[1][rank][stream], 25);
        }
        assert_int_not_equal(self.pids[0][rank], self.pids[1][rank]);
    }
}

typedef struct wanted {
    const char *run;
    int lines;
} wanted;

// Of both ranks.
static bool has_lines(void *user)
{
    const wanted *it = (const wanted *)user;
    int count = 0;
    for (int rank = 0; rank < 2; rank++) {
        char name[32];
        snprintf(name, sizeof name, "log/rank_%05d.log", rank);
        char *path = support_path(it->run, name), *text = support_read_file(path);
        for (const char *at = text; at != NULL && (at = strstr(at, "\nline ")) != NULL; at++)
            count++;
        free(text);
        free(path);
    }
    return count == 2 * it->lines;
}

static bool has_been_called(void *user)
{
    return atomic_load(&((reader *)user)->calls) > 0;
}

// E07: its first call lasts as long as the run: that ends all the same, its log files are whole,
// and then it is told of every line.
static void test_a_follower_that_hangs_delays_no_rank_and_no_log_file(void **state)
{
    (void)state;
    enum { LINES = 3000 };
    reader self = {.held = true};
    troupe_job *job = submit_talk(&self, LINES, false);
    assert_true(support_wait_until(has_been_called, &self, SUPPORT_SOON_MS));
    await_run(job);
    assert_true(
        support_wait_until(has_lines, &(wanted){troupe_job_path(job), LINES}, SUPPORT_SOON_MS));
    assert_int_equal(atomic_load(&self.calls), 1);
    atomic_store(&self.held, false);
    troupe_job_close(&job);
    assert_false(self.wrong);
    assert_int_equal(self.lost, 0);
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal(self.seen[0][rank][0] + self.seen[0][rank][1], LINES);
}

// Lines that are in no file are counted, and what waits is what lies apart.
static void test_where_lines_lie_is_kept_in_pieces(void **state)
{
    (void)state;
    trp_log_queue queue = {0};
    const trp_log_piece pieces[] = {{.rank = 0, .pid = 7, .at = 10, .end = 20},
                                    {.rank = 1, .pid = 8, .at = 0, .end = 5},
                                    {.rank = 0, .pid = 7, .at = 20, .end = 30, .lost = 3},
                                    {.rank = 0, .pid = 7, .at = 90, .end = 95},
                                    {.rank = 0, .pid = 9, .attempt = 1, .at = 95, .end = 99}};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        assert_true(trp_log_queue_add(&queue, &pieces[i]));
    trp_log_piece *next = trp_log_queue_next(&queue);
    assert_true(next->rank == 1 && next->end == 5);
    assert_ptr_not_equal(trp_log_queue_next(&queue), next); // Their turns.
    assert_ptr_equal(trp_log_queue_next(&queue), next);
    trp_log_queue_remove(&queue, next);
    next = trp_log_queue_next(&queue);
    assert_true(next->at == 10 && next->end == 30 && next->lost == 3);
    trp_log_queue_remove(&queue, next);
    next = trp_log_queue_next(&queue);
    assert_true(next->at == 90 && next->pid == 7);
    trp_log_queue_remove(&queue, next);
    assert_int_equal(trp_log_queue_next(&queue)->attempt, 1);
    trp_log_queue_clear(&queue);
    assert_null(trp_log_queue_next(&queue));
}

// ---- lines of megabytes

enum { WIDE = 1024, METRICS = 32, WIDE_REPORTS = 14 };

typedef struct counter {
    _Atomic int seen;
    bool wrong;
} counter;

static void count(void *user, troupe_job *job, const troupe_report_event *event)
{
    (void)job;
    counter *self = (counter *)user;
    if (atomic_load(&self->seen) == 0)
        usleep(1000 * 1000);
    self->wrong |= event->rank_count != WIDE;
    for (size_t i = 0; i < event->rank_count; i++)
        self->wrong |= event->ranks[i].count != METRICS ||
                       event->ranks[i].metrics[METRICS - 1].value != event->number;
    atomic_fetch_add(&self->seen, 1);
}

// More than waits in memory, and a line that is longer than a piece that is read back.
static void test_long_lines_are_read_back(void **state)
{
    (void)state;
    static char names[METRICS][64];
    static troupe_metric metrics[METRICS];
    static troupe_rank_metrics ranks[WIDE];
    trp_arena arena = {0};
    trp_run_history history;
    trp_run_journal journal;
    counter self = {0};
    troupe_follower follower = {.size = sizeof follower, .report = count, .user = &self};
    char *run = support_directory_make();
    troupe_job *job = trp_handle_create();
    job->path = job->folder = run;
    troupe_must(trp_run_journal_open(run, run, &arena, &history, &journal));
    troupe_must(trp_follow_start(job, &follower, &job->followers.first));
    trp_follow_journal(job->followers.first, journal.fd);
    for (int i = 0; i < METRICS; i++) {
        memset(names[i], 'm', sizeof names[i] - 1);
        names[i][61] = (char)('0' + i / 10);
        names[i][62] = (char)('0' + i % 10);
        metrics[i].name = names[i];
    }
    for (int i = 0; i < WIDE; i++)
        ranks[i] = (troupe_rank_metrics){metrics, METRICS};
    for (int i = 1; i <= WIDE_REPORTS; i++) {
        metrics[METRICS - 1].value = i;
        troupe_report_event event = {.number = i,
                                     .metrics = metrics,
                                     .count = METRICS,
                                     .source = "",
                                     .ranks = ranks,
                                     .rank_count = WIDE};
        trp_lines lines = trp_run_journal_report(&journal, &event, 0, false);
        trp_follow_report(job->followers.first, &event, lines.start, lines.end);
    }
    trp_follow_end(job->followers.first);
    trp_follow_await(job->followers.first);
    trp_run_journal_close(&journal);
    assert_int_equal(atomic_load(&self.seen), WIDE_REPORTS);
    assert_false(self.wrong);
    trp_handle_release(job);
    trp_arena_clear(&arena);
    support_directory_remove(run);
}

// ---- when it looks

enum { US = 1000, MS = 1000 * US };

// One each millisecond, of which two once came close to each other, is woken for again.
static void test_only_many_events_gather(void **state)
{
    (void)state;
    assert_int_equal(trp_follow_pause_ns(0, MS, 1), 0);
    int64_t close = trp_follow_pause_ns(0, 50 * US, 1);
    assert_int_equal(close, 200 * US);
    assert_int_equal(trp_follow_pause_ns(close, close, 0), 0);
    int64_t longer = trp_follow_pause_ns(close, close, 1);
    assert_int_equal(longer, MS);
    for (size_t events = 0; events < 5; events++)
        assert_int_equal(trp_follow_pause_ns(longer, longer, events), 0);
    assert_int_equal(trp_follow_pause_ns(longer, longer, 5), MS);
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .workers = TROUPE_NONE, .cpus = 2));
    storage = support_directory_make();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_follower_gets_the_metrics_of_every_rank),
        cmocka_unit_test(test_a_slow_follower_reads_them_back_the_same),
        cmocka_unit_test(test_ranks_that_report_from_different_sources_are_told),
        cmocka_unit_test(test_a_source_has_1_to_63_bytes),
        cmocka_unit_test(test_a_follower_gets_each_line_of_each_rank),
        cmocka_unit_test(test_a_follower_that_hangs_delays_no_rank_and_no_log_file),
        cmocka_unit_test(test_where_lines_lie_is_kept_in_pieces),
        cmocka_unit_test(test_long_lines_are_read_back),
        cmocka_unit_test(test_only_many_events_gather),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    support_directory_remove(storage);
    return troupe_stop() || failed;
}
