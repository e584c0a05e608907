// test_steps.c: searchers and schedulers that programs make: what they are told and in which order,
// and what becomes of nonsense.
#include "study_tests.h"

#include <runtime/base/memory.h>
#include <tune/study/study.h>

// ---- a searcher and a scheduler that note what they are told

static char heard[1 << 16];
static size_t heard_size;

static void hear(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    heard_size += (size_t)vsnprintf(heard + heard_size, sizeof heard - heard_size, format, list);
    va_end(list);
}

static void hear_nothing(void)
{
    heard_size = 0;
    heard[0] = '\0';
}

typedef struct told_searcher {
    troupe_searcher base;
    double point[4];
    int end_at; // TROUPE_END from that trial on; 0: never.
    troupe_status given_fails;
    int destroyed;
} told_searcher;

static troupe_status told_begin(troupe_searcher *self, const troupe_problem *problem)
{
    (void)self;
    hear("begin %zu dims %zu objectives %d trials\n", problem->dim_count, problem->objectives,
         problem->trials);
    return TROUPE_OK;
}

static troupe_status told_suggest(troupe_searcher *self, int number, double *x)
{
    told_searcher *told = (told_searcher *)self;
    if (told->end_at > 0 && number >= told->end_at)
        return TROUPE_END;
    memcpy(x, told->point, sizeof told->point);
    return TROUPE_OK;
}

static troupe_status told_given(troupe_searcher *self, int number, const double *x)
{
    told_searcher *told = (told_searcher *)self;
    if (told->given_fails != TROUPE_OK)
        return troupe_fail(told->given_fails, "no room for trial %d", number);
    hear("given %d %g\n", number, x[0]);
    return TROUPE_OK;
}

static troupe_status told_report(troupe_searcher *self, int number, int report, double score)
{
    (void)self;
    hear("report %d %d %g\n", number, report, score);
    return TROUPE_OK;
}

static troupe_status told_observe(troupe_searcher *self, const troupe_observation *o)
{
    static const char *const endings[] = {"complete", "stopped", "failed"};
    (void)self;
    hear("observe %d %s %g %d %g\n", o->number, endings[o->ending], o->scores[0], o->reports,
         o->violation);
    return TROUPE_OK;
}

static void told_destroy(troupe_searcher *self)
{
    ((told_searcher *)self)->destroyed++;
}

static const told_searcher a_searcher = {.base = {.abi = TROUPE_ABI,
                                                  .name = "told",
                                                  .begin = told_begin,
                                                  .suggest = told_suggest,
                                                  .given = told_given,
                                                  .report = told_report,
                                                  .observe = told_observe,
                                                  .destroy = told_destroy},
                                         .point = {1, 2, 32, 1}};

// Pauses each trial at its second report; when three wait, the best of them goes on and the others
// are over.
typedef struct halving {
    troupe_scheduler base;
    struct {
        int trial;
        double score;
    } waiting[3];
    int count, over;
    troupe_verdict says; // At each report, if it is not to go on.
    troupe_status next_says;
    int next_trial;
    bool fixed_next;
    troupe_status added_fails, decide_fails;
    int destroyed;
} halving;

static troupe_status halving_added(troupe_scheduler *self, int trial, const double *x)
{
    halving *h = (halving *)self;
    if (h->added_fails != TROUPE_OK)
        return troupe_fail(h->added_fails, "no bracket for trial %d", trial);
    hear("added %d %g\n", trial, x[0]);
    return TROUPE_OK;
}

static troupe_status halving_decide(troupe_scheduler *self, const troupe_progress *progress,
                                    troupe_verdict *verdict)
{
    halving *h = (halving *)self;
    if (h->decide_fails != TROUPE_OK)
        return troupe_fail(h->decide_fails, "no rung");
    hear("decide %d %d %g\n", progress->trial, progress->report, progress->score);
    assert_int_equal(verdict->act, TROUPE_ACT_GO_ON);
    if (h->says.act != TROUPE_ACT_GO_ON) {
        verdict->act = h->says.act;
        verdict->source = h->says.source;
        verdict->ranks = h->says.ranks;
        return TROUPE_OK;
    }
    if (progress->report != 2)
        return TROUPE_OK;
    verdict->act = TROUPE_ACT_PAUSE;
    h->waiting[h->count].trial = progress->trial;
    h->waiting[h->count++].score = progress->score;
    return TROUPE_OK;
}

static troupe_status halving_ended(troupe_scheduler *self, int trial, troupe_ending ending)
{
    (void)self;
    hear("ended %d %d\n", trial, (int)ending);
    return TROUPE_OK;
}

static troupe_status halving_next(troupe_scheduler *self, bool fresh, int *trial,
                                  troupe_verdict *verdict)
{
    halving *h = (halving *)self;
    assert_int_equal(verdict->act, TROUPE_ACT_GO_ON);
    if (h->fixed_next) {
        *trial = h->next_trial;
        return h->next_says;
    }
    if (h->count == 3 || (!fresh && h->count > 0)) { // All but the best are over first.
        int worst = 0;
        for (int i = 1; i < h->count; i++)
            worst = h->waiting[i].score > h->waiting[worst].score ? i : worst;
        h->over = h->count;
        *trial = h->waiting[worst].trial;
        h->waiting[worst] = h->waiting[--h->count];
        return h->count == 0 ? TROUPE_OK : TROUPE_STOPPED;
    }
    if (h->over > 0 && h->count > 0) {
        int worst = h->count == 2 && h->waiting[1].score > h->waiting[0].score ? 1 : 0;
        *trial = h->waiting[worst].trial;
        h->waiting[worst] = h->waiting[--h->count];
        if (h->count > 0)
            return TROUPE_STOPPED;
        h->over = 0;
        return TROUPE_OK;
    }
    *trial = -1;
    return fresh ? TROUPE_OK : TROUPE_END;
}

static void halving_destroy(troupe_scheduler *self)
{
    ((halving *)self)->destroyed++;
}

static const halving a_scheduler = {.base = {.abi = TROUPE_ABI,
                                             .describe = "halving",
                                             .added = halving_added,
                                             .decide = halving_decide,
                                             .ended = halving_ended,
                                             .next = halving_next,
                                             .destroy = halving_destroy}};

// ---- order

static void test_the_order_of_steps(void **state)
{
    (void)state;
    told_searcher searcher = a_searcher;
    halving scheduler = a_scheduler;
    troupe_study *study;
    troupe_asked asked;
    troupe_act act;
    hear_nothing();
    ok(troupe_study_open(space, &study, .searcher = &searcher.base, .scheduler = &scheduler.base,
                         .trials = 2, .goal = TROUPE_MAXIMIZE));
    ok(troupe_study_ask(study, &asked));
    ok(troupe_study_report(study, 0, 4, &act));
    ok(troupe_study_tell(study, 0, 5));
    ok(troupe_study_ask(study, &asked));
    ok(troupe_study_tell_failed(study, 1, "why"));
    assert_int_equal(troupe_study_ask(study, &asked), TROUPE_END);
    troupe_study_free(&study);
    assert_int_equal(searcher.destroyed, 1);
    assert_int_equal(scheduler.destroyed, 1);
    assert_string_equal(heard, "begin 4 dims 1 objectives 2 trials\n"
                               "given 0 1\nadded 0 1\n"
                               "report 0 1 -4\ndecide 0 1 -4\n"
                               "observe 0 complete -5 1 0\nended 0 0\n"
                               "given 1 1\nadded 1 1\n"
                               "observe 1 failed nan 0 0\nended 1 2\n");
}

// One life of a study with pauses; until there are no more.
static void run(troupe_study *study, int asks)
{
    troupe_asked asked;
    for (int i = 0; i < asks && troupe_study_ask(study, &asked) == TROUPE_OK; i++) {
        troupe_act act = TROUPE_ACT_GO_ON;
        int from = asked.reports;
        assert_int_equal(asked.again, from > 0);
        for (int k = from + 1; k <= 4 && act == TROUPE_ACT_GO_ON; k++)
            ok(troupe_study_report(study, asked.number, (asked.number * 7) % 11 + 1.0 / k, &act));
        assert_true(act == TROUPE_ACT_PAUSE || act == TROUPE_ACT_GO_ON);
        assert_int_equal(act == TROUPE_ACT_PAUSE, from == 0);
        if (act == TROUPE_ACT_GO_ON)
            ok(troupe_study_tell(study, asked.number, (asked.number * 7) % 11));
    }
}

static void count_states(troupe_study *study, int *counts)
{
    memset(counts, 0, 5 * sizeof *counts);
    for (size_t i = 0; i < troupe_study_count(study); i++)
        counts[troupe_study_trial_at(study, i)->state]++;
}

static void test_pauses(void **state)
{
    (void)state;
    troupe_study *whole, *parts;
    halving one = a_scheduler;
    int counts[5];
    ok(troupe_study_open(space, &whole, .scheduler = &one.base, .trials = 10,
                         .searcher = troupe_search_random()));
    run(whole, 1000);
    count_states(whole, counts);
    assert_int_equal(troupe_study_count(whole), 10);
    assert_int_equal(counts[TROUPE_STUDY_COMPLETE], 4); // Of 3, 3, 3 and 1.
    assert_int_equal(counts[TROUPE_STUDY_STOPPED], 6);

    unlink(path);
    for (int life = 0; life < 20; life++) { // Between any two asks.
        halving other = a_scheduler;
        ok(troupe_study_open(space, &parts, .scheduler = &other.base, .trials = 10, .file = path,
                             .searcher = troupe_search_random(),
                             .open = TROUPE_OPEN_RESUME_OR_NEW));
        run(parts, 1);
        if (life == 19)
            assert_same_trials(whole, parts);
        troupe_study_free(&parts);
    }
    troupe_study_free(&whole);
}

static void test_a_searcher_may_end(void **state)
{
    (void)state;
    told_searcher searcher = a_searcher;
    troupe_study *study;
    troupe_asked asked;
    searcher.end_at = 2;
    ok(troupe_study_open(space, &study, .searcher = &searcher.base));
    ok(troupe_study_ask(study, &asked));
    ok(troupe_study_ask(study, &asked));
    for (int i = 0; i < 3; i++)
        assert_int_equal(troupe_study_ask(study, &asked), TROUPE_END);
    assert_int_equal(troupe_study_count(study), 2);
    troupe_study_free(&study);
}

// ---- nonsense

static void test_points_that_are_none(void **state)
{
    (void)state;
    static const struct {
        double point[4];
        const char *part;
    } rows[] = {
        {{NAN, 2, 32, 1}, "trial 0: the searcher told gives nan for x: expected -5 to 10"},
        {{INFINITY, 2, 32, 1}, "gives inf for x"},
        {{-5.1, 2, 32, 1}, "gives -5.1 for x"},
        {{1, 15.5, 32, 1}, "gives 15.5 for y: expected 0 to 15"},
        {{1, 2, 33, 1}, "gives 33 for width: expected 16 to 64 in steps of 16"},
        {{1, 2, 80, 1}, "gives 80 for width"},
        {{1, 2, 32, 2}, "gives 2 for kind: expected a choice, 0 to 1"},
        {{1, 2, 32, 0.5}, "gives 0.5 for kind"},
        {{1, 2, 32, -1}, "gives -1 for kind"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        told_searcher searcher = a_searcher;
        troupe_study *study;
        troupe_asked asked;
        memcpy(searcher.point, rows[i].point, sizeof searcher.point);
        ok(troupe_study_open(space, &study, .searcher = &searcher.base));
        refused(troupe_study_ask(study, &asked), TROUPE_INVALID, rows[i].part);
        assert_int_equal(troupe_study_count(study), 0);
        memcpy(searcher.point, a_searcher.point, sizeof searcher.point); // Nothing has happened.
        ok(troupe_study_ask(study, &asked));
        troupe_study_free(&study);
    }
}

static void test_verdicts_that_are_none(void **state)
{
    (void)state;
    static const struct {
        troupe_verdict says;
        troupe_status status;
        const char *part;
    } rows[] = {
        {{.act = (troupe_act)77}, TROUPE_INVALID, "halving says what is no verdict (trial 0)"},
        {{.act = (troupe_act)-1}, TROUPE_INVALID, "says what is no verdict"},
        {{.act = TROUPE_ACT_CLONE, .source = 9},
         TROUPE_INVALID,
         "clones a trial that is not there"},
        {{.act = TROUPE_ACT_CLONE, .source = 0}, TROUPE_UNSUPPORTED, "only a sweep can do"},
        {{.act = TROUPE_ACT_RESIZE, .ranks = 0}, TROUPE_INVALID, "less than one rank"},
        {{.act = TROUPE_ACT_RESIZE, .ranks = 2}, TROUPE_UNSUPPORTED, "resizes trial 0"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        halving scheduler = a_scheduler;
        troupe_study *study;
        troupe_asked asked;
        troupe_act act;
        scheduler.says = rows[i].says;
        ok(troupe_study_open(space, &study, .scheduler = &scheduler.base));
        ok(troupe_study_ask(study, &asked));
        refused(troupe_study_report(study, 0, 1, &act), rows[i].status, rows[i].part);
        // It has decided, and nobody can follow: the study is at its end.
        refused(troupe_study_ask(study, &asked), rows[i].status, rows[i].part);
        refused(troupe_study_tell(study, 0, 1), rows[i].status, rows[i].part);
        assert_int_equal(troupe_study_count(study), 1);
        troupe_study_free(&study);
    }
}

static void test_pauses_without_next(void **state)
{
    (void)state;
    halving scheduler = a_scheduler;
    troupe_study *study;
    troupe_asked asked;
    troupe_act act;
    scheduler.base.next = NULL;
    scheduler.says.act = TROUPE_ACT_PAUSE;
    ok(troupe_study_open(space, &study, .scheduler = &scheduler.base));
    ok(troupe_study_ask(study, &asked));
    refused(troupe_study_report(study, 0, 1, &act), TROUPE_INVALID, "has no `next`");
    troupe_study_free(&study);
}

static void test_nexts_that_are_none(void **state)
{
    (void)state;
    static const struct {
        troupe_status says;
        int trial;
        const char *part;
    } rows[] = {
        {TROUPE_OK, 0, "lets a trial go on that is not paused (trial 0)"},
        {TROUPE_OK, 7, "lets a trial go on that is not paused (trial 7)"},
        {TROUPE_OK, -2, "lets a trial go on that is not paused"},
        {TROUPE_STOPPED, -1, "ends a trial that is not paused"},
        {TROUPE_STOPPED, 0, "ends a trial that is not paused"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        halving scheduler = a_scheduler;
        troupe_study *study;
        troupe_asked asked;
        ok(troupe_study_open(space, &study, .scheduler = &scheduler.base));
        ok(troupe_study_ask(study, &asked));
        scheduler.fixed_next = true;
        scheduler.next_says = rows[i].says;
        scheduler.next_trial = rows[i].trial;
        refused(troupe_study_ask(study, &asked), TROUPE_INVALID, rows[i].part);
        troupe_study_free(&study);
    }
    halving scheduler = a_scheduler;
    troupe_study *study;
    troupe_asked asked;
    scheduler.fixed_next = true;
    scheduler.next_says = TROUPE_BUSY;
    ok(troupe_study_open(space, &study, .scheduler = &scheduler.base));
    refused(troupe_study_ask(study, &asked), TROUPE_INVALID, "waits for trials, and none runs");
    troupe_study_free(&study);

    scheduler = a_scheduler;
    ok(troupe_study_open(space, &study, .scheduler = &scheduler.base));
    ok(troupe_study_ask(study, &asked));
    scheduler.fixed_next = true;
    scheduler.next_says = TROUPE_BUSY;
    refused(troupe_study_ask(study, &asked), TROUPE_BUSY, "one of the 1 that run");
    ok(troupe_study_tell(study, 0, 1));
    troupe_study_free(&study);
}

// ---- failures of the tables

static void test_what_fails_is_not_taken(void **state)
{
    (void)state;
    told_searcher searcher = a_searcher;
    halving scheduler = a_scheduler;
    troupe_study *study;
    troupe_asked asked;
    troupe_act act;
    unlink(path);
    ok(troupe_study_open(space, &study, .searcher = &searcher.base, .scheduler = &scheduler.base,
                         .file = path));
    searcher.given_fails = TROUPE_NO_MEMORY;
    refused(troupe_study_ask(study, &asked), TROUPE_NO_MEMORY, "no room for trial 0");
    searcher.given_fails = TROUPE_OK;
    ok(troupe_study_ask(study, &asked));
    assert_int_equal(asked.number, 0);
    // One has taken what the other has not: only the record knows what is right.
    scheduler.decide_fails = TROUPE_NO_MEMORY;
    refused(troupe_study_report(study, 0, 1, &act), TROUPE_NO_MEMORY, "no rung");
    scheduler.decide_fails = TROUPE_OK;
    refused(troupe_study_report(study, 0, 1, &act), TROUPE_NO_MEMORY, "no rung");
    troupe_study_free(&study);

    searcher = a_searcher;
    scheduler = a_scheduler;
    ok(troupe_study_open(space, &study, .searcher = &searcher.base, .scheduler = &scheduler.base,
                         .file = path, .open = TROUPE_OPEN_RESUME));
    ok(troupe_study_ask(study, &asked));
    assert_int_equal(asked.number, 0);
    ok(troupe_study_report(study, 0, 1, &act));
    assert_int_equal(troupe_study_trial_at(study, 0)->reports, 1);
    scheduler.added_fails = TROUPE_BUSY;
    refused(troupe_study_ask(study, &asked), TROUPE_BUSY, "no bracket for trial 1");
    refused(troupe_study_tell(study, 0, 1), TROUPE_BUSY, "no bracket for trial 1");
    troupe_study_free(&study);
}

// ---- a searcher that has no more points

static void pause_three(troupe_study *study)
{
    troupe_act act;
    for (int trial = 0; trial < 3; trial++)
        for (int report = 1; report <= 2; report++)
            ok(troupe_study_report(study, trial, 10 - trial, &act));
}

// What the scheduler says hangs on whether a new trial may come: it is told the same in each life.
static void test_that_a_searcher_has_no_more_points_is_known_in_the_next_life(void **state)
{
    (void)state;
    char *texts[2];
    unlink(path);
    for (int lives = 1; lives <= 2; lives++) {
        told_searcher searchers[] = {a_searcher, a_searcher};
        halving schedulers[] = {a_scheduler, a_scheduler};
        troupe_study *study;
        troupe_asked asked;
        searchers[0].end_at = searchers[1].end_at = 3;
        hear_nothing();
        ok(troupe_study_open(space, &study, .searcher = &searchers[0].base,
                             .scheduler = &schedulers[0].base, .file = path));
        for (int trial = 0; trial < 3; trial++)
            ok(troupe_study_ask(study, &asked));
        assert_int_equal(troupe_study_ask(study, &asked), TROUPE_END);
        pause_three(study);
        if (lives == 2) {
            troupe_study_free(&study);
            ok(troupe_study_open(space, &study, .searcher = &searchers[1].base,
                                 .scheduler = &schedulers[1].base, .file = path,
                                 .open = TROUPE_OPEN_RESUME));
        }
        ok(troupe_study_ask(study, &asked));
        assert_int_equal(asked.number, 2);
        troupe_study_free(&study);
        char *text = support_read_file(path);
        texts[lives - 1] = strdup(strstr(text, "{\"event\": \"over\""));
        free(text);
        unlink(path);
    }
    assert_string_equal(texts[0], texts[1]);
    free(texts[0]);
    free(texts[1]);
}

// One with more of them, as a longer list, is asked.
static void test_a_searcher_may_have_more_points_in_the_next_life(void **state)
{
    (void)state;
    unlink(path);
    for (int life = 0; life < 2; life++) {
        told_searcher searcher = a_searcher;
        halving scheduler = a_scheduler;
        troupe_study *study;
        troupe_asked asked;
        searcher.end_at = life + 1;
        ok(troupe_study_open(space, &study, .searcher = &searcher.base,
                             .scheduler = &scheduler.base, .file = path,
                             .open = TROUPE_OPEN_RESUME_OR_NEW));
        ok(troupe_study_ask(study, &asked));
        assert_int_equal(asked.number, life);
        ok(troupe_study_tell(study, life, 1));
        assert_int_equal(troupe_study_ask(study, &asked), TROUPE_END);
        troupe_study_free(&study);
    }
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_order_of_steps),
        cmocka_unit_test(test_pauses),
        cmocka_unit_test(test_a_searcher_may_end),
        cmocka_unit_test(test_points_that_are_none),
        cmocka_unit_test(test_verdicts_that_are_none),
        cmocka_unit_test(test_pauses_without_next),
        cmocka_unit_test(test_nexts_that_are_none),
        cmocka_unit_test(test_what_fails_is_not_taken),
        cmocka_unit_test(test_that_a_searcher_has_no_more_points_is_known_in_the_next_life),
        cmocka_unit_test(test_a_searcher_may_have_more_points_in_the_next_life),
    };
    return cmocka_run_group_tests(tests, open_study_tests, close_study_tests);
}
