// test_study_face.c: a study as a sweep sees it: in a record that is the sweep's, with trials that
// clone others and change their ranks.
#include "study_tests.h"

#include <tune/study/study.h>

// Clones the trial's neighbour at report 2, with x moved; resizes at 3; pauses at 4, and has it go
// on as a clone with two ranks fewer; ends it at 6.
typedef struct breeder {
    troupe_scheduler base;
    int paused; // -1: none.
} breeder;

static troupe_status breeder_decide(troupe_scheduler *self, const troupe_progress *progress,
                                    troupe_verdict *verdict)
{
    breeder *b = (breeder *)self;
    switch (progress->report) {
    case 2:
        verdict->act = TROUPE_ACT_CLONE;
        verdict->source = progress->trial == 0 ? 1 : 0;
        verdict->x[0] = progress->x[0] / 2;
        break;
    case 3:
        verdict->act = TROUPE_ACT_RESIZE;
        verdict->ranks = progress->ranks + 3;
        break;
    case 4:
        verdict->act = TROUPE_ACT_PAUSE;
        b->paused = progress->trial;
        break;
    case 6:
        verdict->act = TROUPE_ACT_END;
        break;
    default:
        break;
    }
    return TROUPE_OK;
}

static troupe_status breeder_next(troupe_scheduler *self, bool fresh, int *trial,
                                  troupe_verdict *verdict)
{
    breeder *b = (breeder *)self;
    *trial = b->paused;
    b->paused = -1;
    if (*trial < 0)
        return fresh ? TROUPE_OK : TROUPE_END;
    verdict->act = TROUPE_ACT_CLONE;
    verdict->source = *trial == 0 ? 1 : 0;
    memcpy(verdict->x, (double[]){-4, 3, 64, 0}, 4 * sizeof(double));
    return TROUPE_OK;
}

static void breeder_destroy(troupe_scheduler *self)
{
    (void)self;
}

static breeder new_breeder(void)
{
    return (breeder){.base = {.abi = TROUPE_ABI,
                              .describe = "breeder",
                              .decide = breeder_decide,
                              .next = breeder_next,
                              .destroy = breeder_destroy},
                     .paused = -1};
}

typedef struct sweep {
    breeder scheduler;
    trp_buffer lines;
    trp_tune_record *record;
    troupe_study *study;
    char seen[4096]; // The events that were visited, and of which trial.
} sweep;

static troupe_status visit(void *user, const char *line, size_t length, int number)
{
    sweep *s = user;
    const char *event = line + strlen("{\"event\": \"");
    assert_true(length > 20 && line[length - 1] == '}');
    snprintf(s->seen + strlen(s->seen), sizeof s->seen - strlen(s->seen), "%.*s %d\n",
             (int)strcspn(event, "\""), event, number);
    return TROUPE_OK;
}

static void add(sweep *s, const char *text)
{
    trp_buffer line = {0};
    trp_buffer_printf(&line, "%s", text);
    trp_tune_record_add(s->record, &line);
}

static void open_sweep(sweep *s)
{
    *s = (sweep){.scheduler = new_breeder()};
    ok(trp_tune_record_open(path, TROUPE_OPEN_RESUME_OR_NEW, &s->lines, &s->record));
    if (s->lines.size == 0)
        add(s, "{\"event\": \"sweep\", \"id\": 7");
    const trp_study_past past = {
        .lines = (const char *)s->lines.data, .size = s->lines.size, .visit = visit, .user = s};
    const troupe_study_options how = {.size = sizeof how,
                                      .trials = 4,
                                      .searcher = troupe_search_random(),
                                      .scheduler = &s->scheduler.base};
    ok(trp_study_open(space, &how, s->record, &past, &s->study));
    trp_buffer_free(&s->lines);
    assert_ptr_equal(trp_study_record(s->study), s->record);
}

static void close_sweep(sweep *s)
{
    troupe_study_free(&s->study);
    trp_tune_record_close(&s->record);
}

static int fresh_trial(sweep *s)
{
    trp_next next;
    ok(trp_study_next(s->study, true, &next));
    assert_int_equal(next.kind, TRP_NEXT_NEW);
    return next.number;
}

// What the study would have it do, in this life and in the next.
static void assert_decided(sweep *s, int number, int report, troupe_act act, int source, int ranks,
                           double x)
{
    for (int life = 0; life < 2; life++) {
        int at;
        troupe_verdict verdict;
        trp_study_decided(s->study, number, &at, &verdict);
        assert_int_equal(at, report);
        assert_int_equal(verdict.act, act);
        if (act == TROUPE_ACT_CLONE)
            assert_int_equal(verdict.source, source);
        if (act == TROUPE_ACT_RESIZE)
            assert_int_equal(verdict.ranks, ranks);
        assert_true(trp_study_point(s->study, number)[0] == x);
        const study_config *config = troupe_study_trial_at(s->study, (size_t)number)->config;
        assert_true(config->x == x);
        if (life == 0) {
            close_sweep(s);
            open_sweep(s);
        }
    }
}

static void report(sweep *s, int number, int report, int ranks, troupe_act expected)
{
    troupe_verdict verdict;
    ok(trp_study_decide(s->study, number, report, &(double){report}, report / 2.0, ranks,
                        ", \"metrics\": {\"loss\": 1}", &verdict));
    assert_int_equal(verdict.act, expected);
}

static void test_what_was_decided_is_known_in_the_next_life(void **state)
{
    (void)state;
    sweep s;
    trp_next next;
    unlink(path);
    open_sweep(&s);
    assert_int_equal(fresh_trial(&s), 0);
    assert_int_equal(fresh_trial(&s), 1);
    add(&s, "{\"event\": \"submitted\", \"trial\": \"fit_00001\"");
    double x = trp_study_point(s.study, 1)[0];
    report(&s, 1, 1, 2, TROUPE_ACT_GO_ON);
    assert_decided(&s, 1, 1, TROUPE_ACT_GO_ON, -1, 2, x);
    report(&s, 1, 2, 2, TROUPE_ACT_CLONE);
    assert_decided(&s, 1, 2, TROUPE_ACT_CLONE, 0, 2, x / 2);
    report(&s, 1, 3, 2, TROUPE_ACT_RESIZE);
    assert_decided(&s, 1, 3, TROUPE_ACT_RESIZE, -1, 5, x / 2);
    report(&s, 1, 4, 5, TROUPE_ACT_PAUSE);
    assert_decided(&s, 1, 4, TROUPE_ACT_PAUSE, -1, 5, x / 2);
    assert_int_equal(trp_study_state(s.study, 1), TROUPE_STUDY_PAUSED);
    ok(trp_study_next(s.study, true, &next));
    assert_int_equal(next.kind, TRP_NEXT_AGAIN);
    assert_int_equal(next.number, 1);
    assert_decided(&s, 1, 4, TROUPE_ACT_CLONE, 0, 0, -4);
    assert_int_equal(trp_study_state(s.study, 1), TROUPE_STUDY_RUNNING);
    report(&s, 1, 5, 3, TROUPE_ACT_GO_ON);
    report(&s, 1, 6, 3, TROUPE_ACT_END);
    assert_decided(&s, 1, 6, TROUPE_ACT_END, -1, 3, -4);
    // It runs until its job has ended, and reports no more.
    assert_int_equal(trp_study_state(s.study, 1), TROUPE_STUDY_RUNNING);
    troupe_verdict verdict;
    refused(trp_study_decide(s.study, 1, 7, &(double){0}, 9, 3, NULL, &verdict), TROUPE_INVALID,
            "which the scheduler has ended");
    ok(trp_study_end(s.study, 1, TROUPE_ENDING_COMPLETE, NULL, 0, NULL, ", \"state\": \"DONE\""));
    assert_true(troupe_study_trial_at(s.study, 1)->values[0] == 1); // Of its best report.
    assert_int_equal(fresh_trial(&s), 2);
    ok(trp_study_end(s.study, 2, TROUPE_ENDING_FAILED, NULL, 0, "not submitted", NULL));
    close_sweep(&s);

    open_sweep(&s);
    assert_string_equal(s.seen, "sweep -1\nstudy -1\nsuggest 0\nsuggest 1\nsubmitted -1\n"
                                "report 1\nreport 1\nreport 1\nreport 1\nagain 1\nreport 1\n"
                                "report 1\nend 1\nsuggest 2\nend 2\n");
    close_sweep(&s);
    char *text = support_read_file(path);
    assert_non_null(
        strstr(text, ", \"metrics\": {\"loss\": 1}, \"act\": \"clone\", \"source\": 0"));
    assert_non_null(strstr(text, ", \"error\": \"not submitted\"}\n"));
    assert_non_null(strstr(text, ", \"state\": \"DONE\"}\n"));
    free(text);
}

// A record that has the sweep's first line alone: its study begins.
static void test_a_study_that_has_not_begun(void **state)
{
    (void)state;
    sweep s;
    static const char line[] = "{\"event\": \"sweep\", \"id\": 7}\n";
    support_write_file(path, line, strlen(line));
    open_sweep(&s);
    assert_string_equal(s.seen, "sweep -1\n");
    assert_int_equal(fresh_trial(&s), 0);
    close_sweep(&s);
    open_sweep(&s);
    assert_string_equal(s.seen, "sweep -1\nstudy -1\nsuggest 0\n");
    ok(trp_study_end(s.study, 0, TROUPE_ENDING_STOPPED, NULL, 0, NULL, NULL));
    close_sweep(&s);
}

static void test_decides_at(void **state)
{
    (void)state;
    sweep s;
    unlink(path);
    open_sweep(&s);
    int number = fresh_trial(&s);
    assert_int_equal(trp_study_decides_at(s.study, number, 0), 1); // It does not say: at all.
    assert_int_equal(trp_study_decides_at(s.study, number, 7), 8);
    assert_int_equal(trp_study_trials(s.study), 4);
    close_sweep(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_decided_is_known_in_the_next_life),
        cmocka_unit_test(test_a_study_that_has_not_begun),
        cmocka_unit_test(test_decides_at),
    };
    return cmocka_run_group_tests(tests, open_study_tests, close_study_tests);
}
