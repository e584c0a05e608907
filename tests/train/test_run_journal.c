// test_run_journal.c: what a run's journal says, whole, cut anywhere, and damaged.
#include "support.h"

#include <math.h>
#include <pthread.h>
#include <runtime/codec/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <train/report_event.h>
#include <train/run_journal.h>
#include <unistd.h>

static void test_a_line_is_valid_json(void **state)
{
    (void)state;
    const troupe_metric metrics[] = {{"plain", 0.1},
                                     {"with \"quotes\" \\ and \n", -1e300},
                                     {"nan", NAN},
                                     {"up", INFINITY},
                                     {"down", -INFINITY}};
    troupe_report_event event = {
        .number = 7,
        .metrics = metrics,
        .count = 5,
        .elapsed_s = 1.5,
        .checkpoint = "/a/b/checkpoints/checkpoint_000003",
    };
    trp_buffer out = {0};
    trp_run_journal_report_line(&event, 2, false, &out);
    trp_buffer_append(&out, "", 1);
    assert_false(out.failed);
    assert_string_equal(
        (const char *)out.data,
        "{\"event\": \"report\", \"report\": 7, \"attempt\": 2, \"elapsed_s\": 1.500000, "
        "\"metrics\": {\"plain\": 0.1, \"with \\\"quotes\\\" \\\\ and \\u000a\": -1e+300, "
        "\"nan\": \"NaN\", \"up\": \"Infinity\", \"down\": \"-Infinity\"}, "
        "\"checkpoint\": \"checkpoint_000003\"}\n");
    trp_buffer_free(&out);
}

// Reads the last line of the journal at `path` into text that is to be freed.
static char *last_line(const char *path)
{
    char *text = support_read_file(path);
    size_t size = strlen(text);
    assert_true(size > 0 && text[size - 1] == '\n');
    text[size - 1] = '\0';
    char *line = strrchr(text, '\n'), *copy = strdup(line != NULL ? line + 1 : text);
    free(text);
    return copy;
}

TROUPE_STRUCT(cause_of_line, (int, rank), (troupe_text, status), (troupe_text, text));
TROUPE_STRUCT(attempt_line, (troupe_text, event), (int, attempt), (int, report), (troupe_text, at),
              (double, elapsed_s), (cause_of_line, cause), (troupe_text, checkpoint),
              (bool, memory), (troupe_array_int, replaced));

static void test_an_attempt_says_its_processes_and_why_the_last_one_ended(void **state)
{
    (void)state;
    char *run = support_directory_make(), *path = support_path(run, "journal.jsonl");
    trp_arena arena = {0};
    trp_run_history history;
    trp_run_journal journal;
    trp_json value, pids, pid = {0};
    attempt_line line = {0};
    const int given[] = {4711, 4712};
    const bool kept[] = {true, false};
    assert_int_equal(trp_run_journal_open(run, run, &arena, &history, &journal), TROUPE_OK);
    trp_run_journal_attempt(&journal, &(trp_attempt_event){
                                          .attempt = 2,
                                          .report = 40,
                                          .checkpoint = "/x/checkpoint_000007",
                                          .elapsed_s = 1.5,
                                          .memory = true,
                                          .pids = given,
                                          .kept = kept,
                                          .ranks = 2,
                                          .cause = "rank 1 (pid 4) was \"killed\"",
                                          .cause_rank = 1,
                                          .cause_status = TROUPE_PEER_LOST,
                                      });
    trp_run_journal_close(&journal);
    char *text = last_line(path);
    assert_int_equal(trp_json_parse(text, strlen(text), &value), TROUPE_OK);
    assert_int_equal(trp_json_read(&troupe_type_attempt_line, value, &arena, &line), TROUPE_OK);
    assert_string_equal(line.event, "attempt");
    assert_int_equal(line.attempt, 2);
    assert_int_equal(line.report, 40);
    assert_int_equal(strlen(line.at), strlen("2026-11-24T12:00:00.123Z"));
    assert_true(line.elapsed_s == 1.5);
    assert_true(line.memory);
    assert_int_equal(line.replaced.count, 1);
    assert_int_equal(line.replaced.items[0], 1);
    assert_int_equal(line.cause.rank, 1);
    assert_string_equal(line.cause.status, "PEER_LOST");
    assert_string_equal(line.cause.text, "rank 1 (pid 4) was \"killed\"");
    assert_string_equal(line.checkpoint, "checkpoint_000007");
    assert_true(trp_json_member(value, "pids", &pids));
    for (int rank = 0; rank < 2; rank++) {
        int read = 0;
        assert_true(trp_json_next_item(pids, &pid));
        assert_int_equal(trp_json_read(&troupe_type_int, pid, &arena, &read), TROUPE_OK);
        assert_int_equal(read, given[rank]);
    }
    assert_false(trp_json_next_item(pids, &pid));
    free(text);
    free(path);
    trp_arena_clear(&arena);
    support_directory_remove(run);
}

// With the source, and the metrics of all ranks.
static void test_a_report_is_read_back_with_its_ranks(void **state)
{
    (void)state;
    const troupe_metric mine[] = {{"loss", 0.5}}, theirs[] = {{"loss", NAN}, {"x", 2}};
    const troupe_rank_metrics ranks[] = {{mine, 1}, {theirs, 2}, {NULL, 0}};
    troupe_report_event event = {.number = 1,
                                 .metrics = mine,
                                 .count = 1,
                                 .source = "validate \"2\"",
                                 .ranks = ranks,
                                 .rank_count = 3};
    trp_buffer out = {0};
    trp_arena arena = {0};
    trp_json line;
    trp_run_journal_report_line(&event, 0, true, &out);
    trp_buffer_append(&out, "", 1);
    assert_string_equal(
        (const char *)out.data,
        "{\"event\": \"report\", \"report\": 1, \"attempt\": 0, "
        "\"elapsed_s\": 0.000000, \"source\": \"validate \\\"2\\\"\", "
        "\"metrics\": {\"loss\": 0.5}, \"ranks\": [{\"loss\": 0.5}, "
        "{\"loss\": \"NaN\", \"x\": 2}, {}], \"saving\": true, \"checkpoint\": null}\n");
    troupe_report_event read = {0};
    assert_int_equal(trp_json_parse((const char *)out.data, out.size - 2, &line), TROUPE_OK);
    assert_int_equal(trp_report_event_read(line, &arena, &read), TROUPE_OK);
    void *room = malloc(trp_report_event_size(&read));
    troupe_report_event copy = trp_report_event_copy(&read, room);
    trp_arena_clear(&arena);
    trp_buffer_free(&out);
    assert_string_equal(copy.source, "validate \"2\"");
    assert_true(copy.count == 1 && copy.metrics[0].value == 0.5);
    assert_int_equal(copy.rank_count, 3);
    assert_int_equal(copy.ranks[1].count, 2);
    assert_true(isnan(copy.ranks[1].metrics[0].value));
    assert_string_equal(copy.ranks[1].metrics[1].name, "x");
    assert_int_equal(copy.ranks[2].count, 0);
    free(room);
}

static void report(trp_run_journal *journal, int number, const char *checkpoint)
{
    const troupe_metric metrics[] = {{"loss", 1.0 / number}, {"odd", number % 2 ? NAN : 0}};
    troupe_report_event event = {
        .number = number,
        .metrics = metrics,
        .count = 2,
        .elapsed_s = number * 0.5,
        .checkpoint = checkpoint,
    };
    trp_run_journal_report(journal, &event, 3, false);
}

// A journal of one opening with five reports; *history is what reading it gives.
static void fill(const char *run)
{
    trp_arena arena = {0};
    trp_run_history history;
    trp_run_journal journal;
    assert_int_equal(trp_run_journal_open(run, run, &arena, &history, &journal), TROUPE_OK);
    assert_int_equal(history.epoch, 0);
    assert_int_equal(history.attempts, 0);
    trp_run_journal_opened(&journal, 4);
    trp_run_journal_attempt(&journal, &(trp_attempt_event){.attempt = 3});
    for (int i = 1; i <= 5; i++) {
        report(&journal, i, i == 4 ? "/x/checkpoint_000011" : NULL);
        if (i == 4)
            trp_run_journal_commit(&journal, &(troupe_checkpoint_event){
                                                 .report = i, .folder = "/x/checkpoint_000011"});
    }
    trp_run_journal_sync(&journal);
    trp_run_journal_close(&journal);
    trp_arena_clear(&arena);
}

static void test_what_was_written_is_read_back(void **state)
{
    (void)state;
    char *run = support_directory_make();
    trp_arena arena = {0};
    trp_run_history history;
    trp_run_journal journal;
    fill(run);
    assert_int_equal(trp_run_journal_open(run, run, &arena, &history, &journal), TROUPE_OK);
    assert_int_equal(history.epoch, 4);
    assert_int_equal(history.attempts, 4);
    assert_int_equal(history.reports, 5);
    assert_int_equal(history.next_id, 12);
    assert_true(history.elapsed_s == 2.5);
    assert_int_equal(history.metric_count, 2);
    assert_string_equal(history.metrics[0].name, "loss");
    assert_true(history.metrics[0].value == 1.0 / 5);
    assert_true(isnan(history.metrics[1].value));
    trp_run_journal_close(&journal);
    trp_arena_clear(&arena);
    support_directory_remove(run);
}

// A driver may die, and a disk be full, in the middle of a line.
static void test_every_cut_leaves_the_whole_lines(void **state)
{
    (void)state;
    char *run = support_directory_make(), *path = support_path(run, "journal.jsonl");
    fill(run);
    char *text = support_read_file(path);
    size_t size = strlen(text);
    for (size_t cut = 0; cut <= size; cut++) {
        trp_arena arena = {0};
        trp_run_history history;
        trp_run_journal journal;
        int reports = 0;
        size_t whole = 0;
        for (size_t i = 0; i < cut; i++)
            if (text[i] == '\n')
                whole = i + 1;
        for (const char *at = text;
             (at = strstr(at, "\"event\": \"report\"")) != NULL && (size_t)(at - text) < whole;
             at++)
            reports++;
        support_write_file(path, text, cut);
        assert_int_equal(trp_run_journal_open(run, run, &arena, &history, &journal), TROUPE_OK);
        assert_int_equal(history.reports, reports);
        report(&journal, 9, NULL);
        trp_run_journal_close(&journal);
        trp_arena_clear(&arena);
        char *now = support_read_file(path);
        assert_memory_equal(now, text, whole);
        assert_int_equal(strncmp(now + whole, "{\"event\": \"report\", \"report\": 9,", 31), 0);
        free(now);
    }
    free(text);
    free(path);
    support_directory_remove(run);
}

static void test_lines_that_cannot_be_read_are_left_out(void **state)
{
    (void)state;
    char *run = support_directory_make(), *path = support_path(run, "journal.jsonl");
    static const char text[] = "{\"event\": \"report\", \"report\": 1, \"new member\": [1, {}]}\n"
                               "what is this\n"
                               "\n"
                               "{\"no\": \"event\"}\n"
                               "{\"event\": \"report\", \"report\": \"many\"}\n"
                               "{\"event\": \"of a newer library\", \"report\": 99}\n"
                               "{\"event\": \"report\", \"report\": 2, \"metrics\": {\"a\": 7}}\n";
    trp_arena arena = {0};
    trp_run_history history;
    trp_run_journal journal;
    support_write_file(path, text, sizeof text - 1);
    assert_int_equal(trp_run_journal_open(run, run, &arena, &history, &journal), TROUPE_OK);
    assert_int_equal(history.reports, 2);
    assert_int_equal(history.metric_count, 1);
    assert_true(history.metrics[0].value == 7);
    trp_run_journal_close(&journal);
    trp_arena_clear(&arena);
    free(path);
    support_directory_remove(run);
}

// ---- lines of several threads

enum { WRITERS = 4, EACH = 300 };

typedef struct lines_of {
    trp_run_journal *journal;
    uint32_t writer;
    trp_lines lines[EACH];
} lines_of;

static void *write_lines(void *user)
{
    lines_of *self = user;
    for (int i = 0; i < EACH; i++)
        self->lines[i] = trp_run_journal_live(self->journal, self->writer, i);
    return NULL;
}

static void test_each_writer_is_told_where_its_own_line_lies(void **state)
{
    (void)state;
    static lines_of writers[WRITERS];
    char *run = support_directory_make(), *path = support_path(run, "journal.jsonl");
    trp_arena arena = {0};
    trp_run_history history;
    trp_run_journal journal;
    pthread_t threads[WRITERS];
    assert_int_equal(trp_run_journal_open(run, run, &arena, &history, &journal), TROUPE_OK);
    for (uint32_t i = 0; i < WRITERS; i++) {
        writers[i] = (lines_of){.journal = &journal, .writer = i};
        assert_int_equal(pthread_create(&threads[i], NULL, write_lines, &writers[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    off_t end = trp_run_journal_end_at(&journal);
    trp_run_journal_close(&journal);
    trp_lines none = trp_run_journal_live(&journal, 1, 1); // It is closed.
    assert_int_equal(none.start, none.end);
    char *text = support_read_file(path), wanted[80];
    assert_int_equal(strlen(text), end);
    for (uint32_t i = 0; i < WRITERS; i++)
        for (int k = 0; k < EACH; k++) {
            trp_lines at = writers[i].lines[k];
            snprintf(wanted, sizeof wanted,
                     "{\"event\": \"live\", \"revision\": %u, \"report\": %d}\n", (unsigned)i, k);
            assert_int_equal(at.end - at.start, strlen(wanted));
            assert_memory_equal(text + at.start, wanted, strlen(wanted));
        }
    free(text);
    free(path);
    trp_arena_clear(&arena);
    support_directory_remove(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_line_is_valid_json),
        cmocka_unit_test(test_an_attempt_says_its_processes_and_why_the_last_one_ended),
        cmocka_unit_test(test_a_report_is_read_back_with_its_ranks),
        cmocka_unit_test(test_what_was_written_is_read_back),
        cmocka_unit_test(test_every_cut_leaves_the_whole_lines),
        cmocka_unit_test(test_lines_that_cannot_be_read_are_left_out),
        cmocka_unit_test(test_each_writer_is_told_where_its_own_line_lies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
