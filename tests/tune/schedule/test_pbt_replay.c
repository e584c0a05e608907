// test_pbt_replay.c: one trial goes through what a population's trial has, by its log.
#include "simulate.h"

#include <stdio.h>

static troupe_act decide(troupe_scheduler *replay, int report, double *x, int *source)
{
    troupe_progress progress = {.size = sizeof progress, .trial = 4, .report = report};
    troupe_verdict verdict = {.size = sizeof verdict, .x = x};
    assert_int_equal(replay->decide(replay, &progress, &verdict), TROUPE_OK);
    *source = verdict.source;
    return verdict.act;
}

static const troupe_problem problem = {
    .size = sizeof problem, .dims = simulate_dims, .dim_count = SIMULATE_DIMS, .objectives = 1};

#define FIRST(trial, rate)                                                                         \
    "{\"trial\": " #trial ", \"report\": 0, \"x\": {\"kind\": 1, \"rate\": " #rate                 \
    ", \"width\": 7}}\n"
#define CLONE(trial, report, source, source_report, rate)                                          \
    "{\"trial\": " #trial ", \"report\": " #report ", \"source\": " #source                        \
    ", \"source_report\": " #source_report ", \"x\": {\"kind\": 1, \"rate\": " #rate               \
    ", \"width\": 7}}\n"

// Trial 0 cloned 1 after 4 reports, which had made 6; 1 had cloned 2 after 3, which had made 2.
static const char by_hand[] = FIRST(0, 0.1) FIRST(1, 0.2) FIRST(2, 0.3) //
    CLONE(1, 3, 2, 2, 0.4)                                              //
    CLONE(0, 4, 1, 6, 0.5)                                              //
    CLONE(1, 6, 0, 4, 0.6)                                              //
    CLONE(2, 9, 0, 7, 0.7)                                              //
    "{\"trial\": 2, \"repo";                                            // Killed here.

static void test_by_hand(void **state)
{
    (void)state;
    char *folder = support_directory_make(), *path = support_path(folder, "pbt.jsonl");
    support_write_file(path, by_hand, sizeof by_hand - 1);
    // Reports in its own count at which the point changes: 2 of trial 2, 3 more of trial 1, ..
    static const struct {
        int trial;
        struct {
            int report;
            double rate;
        } changes[4];
    } expected[] = {
        {0, {{2, 0.4}, {5, 0.5}}},
        {1, {{2, 0.4}, {5, 0.5}, {5, 0.6}}},
        {2, {{2, 0.4}, {5, 0.5}, {8, 0.7}}},
    };
    for (size_t i = 0; i < 3; i++) {
        troupe_scheduler *replay = troupe_pbt_replay(path, expected[i].trial);
        assert_int_equal(replay->refusal, TROUPE_OK);
        assert_int_equal(replay->begin(replay, &problem), TROUPE_OK);
        int after = 0;
        for (int report = 1; report < 20; report++) {
            double x[SIMULATE_DIMS] = {0}, rate = 0;
            int source;
            for (int k = 0; k < 4; k++) // The last at that report holds.
                rate = expected[i].changes[k].report == report ? expected[i].changes[k].rate : rate;
            troupe_act act = decide(replay, report, x, &source);
            assert_int_equal(act, rate > 0 ? TROUPE_ACT_CLONE : TROUPE_ACT_GO_ON);
            if (rate == 0)
                continue;
            assert_int_equal(source, 4); // From its own checkpoint.
            assert_true(x[0] == rate && x[1] == 7 && x[2] == 1);
            assert_int_equal(replay->decides_at(replay, 4, after), report);
            after = report;
        }
        assert_int_equal(replay->decides_at(replay, 4, after), 0);
        troupe_scheduler_free(&replay);
    }
    free(path);
    support_directory_remove(folder);
}

// What each trial's weights have had, as pairs of reports and points, kept beside a population.
typedef struct history {
    int count, reports; // Changes; reports since the last one.
    struct {
        int reports;
        double x[SIMULATE_DIMS];
    } changes[SIMULATE_REPORTS];
} history;

static void remember(simulation *self, const simulated_call *call)
{
    history *all = self->user, *of = &all[call->trial];
    if (call->kind == CALL_ADDED) {
        *of = (history){.count = 1};
        memcpy(of->changes[0].x, call->x, sizeof call->x);
    }
    if (call->kind == CALL_DECIDE)
        of->reports++;
    if (call->verdict.act != TROUPE_ACT_CLONE)
        return;
    *of = all[call->verdict.source];
    of->changes[of->count].reports = of->reports;
    memcpy(of->changes[of->count++].x, call->chosen, sizeof call->chosen);
}

static void test_it_repeats_a_population(void **state)
{
    (void)state;
    char *folder = support_directory_make(), *path = support_path(folder, "pbt.jsonl");
    static history all[SIMULATE_TRIALS];
    int changes = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        simulation *self = simulation_new(seed);
        self->trials = 2 + (int)(seed % 9);
        self->workers = seed % 2 == 0 ? self->trials : 2;
        self->watch = remember;
        self->user = all;
        self->scheduler = troupe_pbt(.interval = 1 + (int)(seed % 3), .limit = 20, .log = path,
                                     .synchronous = seed % 5 == 0);
        simulate(self);
        troupe_scheduler_free(&self->scheduler);
        char *text = support_read_file(path);
        // A population that goes on writes the same once more.
        troupe_scheduler *other = troupe_pbt(.interval = 1 + (int)(seed % 3), .limit = 20,
                                             .log = path, .synchronous = seed % 5 == 0);
        simulate_again(self, other);
        troupe_scheduler_free(&other);
        support_assert_file(folder, "pbt.jsonl", text);
        free(text);
        for (int trial = 0; trial < self->count; trial++) {
            troupe_scheduler *replay = troupe_pbt_replay(path, trial);
            assert_int_equal(replay->begin(replay, &self->problem), TROUPE_OK);
            int at = 1;
            for (int report = 1; report <= 25; report++) {
                double x[SIMULATE_DIMS];
                int source, last = 0;
                for (; at < all[trial].count && all[trial].changes[at].reports == report; at++)
                    last = at;
                assert_int_equal(decide(replay, report, x, &source),
                                 last > 0 ? TROUPE_ACT_CLONE : TROUPE_ACT_GO_ON);
                if (last > 0)
                    assert_memory_equal(x, all[trial].changes[last].x, sizeof x);
                changes += last > 0;
            }
            troupe_scheduler_free(&replay);
        }
        simulate_free(self);
    }
    assert_true(changes > 300);
    free(path);
    support_directory_remove(folder);
}

static void refuse_text(const char *path, const char *text, troupe_status status,
                        const char *sentence)
{
    support_write_file(path, text, strlen(text));
    assert_refused(troupe_pbt_replay(path, 1), status, sentence);
}

static void test_what_is_wrong_is_refused(void **state)
{
    (void)state;
    char *folder = support_directory_make(), *path = support_path(folder, "pbt.jsonl");
    assert_refused(troupe_pbt_replay(NULL, 0), TROUPE_INVALID, "pbt replay: log is NULL");
    assert_refused(troupe_pbt_replay(path, -1), TROUPE_INVALID,
                   "pbt replay: trial is -1, must be at least 0");
    troupe_scheduler *none = troupe_pbt_replay(path, 0);
    assert_int_equal(none->refusal, TROUPE_NOT_FOUND);
    troupe_scheduler_free(&none);
    refuse_text(path, "", TROUPE_NOT_FOUND, "pbt replay: the log has no first point of trial 1");
    refuse_text(path, CLONE(1, 3, 2, 3, 1), TROUPE_NOT_FOUND,
                "pbt replay: the log has no first point of trial 2, which was cloned");
    const char *const damaged[] = {"\n",
                                   "[]\n",
                                   "{\"trial\": 1}\n",
                                   "{\"report\": 0, \"x\": {}}\n",
                                   FIRST(-1, 1),
                                   "{\"trial\": 1, \"report\": 0, \"x\": 3}\n",
                                   "{\"trial\": 1, \"report\": 1, \"source\": 2, \"x\": {}}\n",
                                   "{\"trial\": 1, \"report\": 0, \"x\": {\"rate\"\n"};
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++)
        refuse_text(path, damaged[i], TROUPE_MALFORMED,
                    "pbt replay: line 1 of the log is none of a population's log, which have "
                    "\"trial\", \"report\" and \"x\"");

    const char *lacks = "{\"trial\": 1, \"report\": 0, \"x\": {\"rate\": 1, \"width\": 2}}\n";
    support_write_file(path, lacks, strlen(lacks));
    troupe_scheduler *replay = troupe_pbt_replay(path, 1);
    troupe_progress progress = {.size = sizeof progress, .report = 1};
    troupe_verdict verdict = {.size = sizeof verdict};
    assert_int_equal(replay->decide(replay, &progress, &verdict), TROUPE_INVALID);
    assert_int_equal(replay->begin(replay, &problem), TROUPE_INVALID);
    assert_string_equal(troupe_last_error()->text,
                        "pbt replay: a point of the log lacks \"kind\", which the space has");
    troupe_scheduler_free(&replay);
    const char *text = "{\"trial\": 1, \"report\": 0, \"x\": {\"rate\": \"much\"}}\n";
    support_write_file(path, text, strlen(text));
    replay = troupe_pbt_replay(path, 1);
    assert_int_equal(replay->begin(replay, &problem), TROUPE_WRONG_TYPE);
    assert_string_equal(troupe_last_error()->text,
                        "pbt replay: \"rate\" of a point of the log is no number");
    troupe_scheduler_free(&replay);

    support_write_file(path, by_hand, sizeof by_hand - 1);
    for (long left = 0; left < 100; left++) { // Each allocation fails once.
        trp_memory_fail_after(left);
        replay = troupe_pbt_replay(path, 2);
        troupe_status status = replay->refusal;
        if (status == TROUPE_OK)
            status = replay->begin(replay, &problem);
        trp_memory_fail_after(-1);
        troupe_scheduler_free(&replay);
        if (status == TROUPE_OK)
            break;
        assert_int_equal(status, TROUPE_NO_MEMORY);
        assert_true(left < 90);
    }
    free(path);
    support_directory_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_it_repeats_a_population),
        cmocka_unit_test(test_what_is_wrong_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
