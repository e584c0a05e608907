// test_restart.c: runs that lose a worker, or are told by a loop that it cannot go on.
// timeout: 120
// again: memory train 120 memory
#include "line.h"
#include "where.h"

enum { EPOCHS = 8, WORLD = 2 };

static char *storage;
static line_model undisturbed[WORLD];
static double undisturbed_loss;

static void train_undisturbed(void)
{
    line_settings config = line_plain(EPOCHS);
    troupe_result *result;
    troupe_must(troupe_train(line_fit, &config, &result, .ranks = WORLD, .storage = storage));
    for (int rank = 0; rank < WORLD; rank++)
        undisturbed[rank] =
            line_load(result, rank); // Until the end: troupe_arena_reset is not called.
    undisturbed_loss = troupe_result_metric(result, "loss");
    troupe_result_free(&result);
}

// Counts what a follower is told, and checks that it comes in order.
typedef struct told {
    int last, reports, states[4];
    bool wrong;
} told;

static void follow_report(void *user, troupe_job *job, const troupe_report_event *event)
{
    (void)job;
    told *all = (told *)user;
    all->wrong |= event->number != all->last + 1 || event->count != 3 ||
                  strcmp(event->metrics[2].name, "epoch") != 0 ||
                  event->metrics[2].value != event->number || event->elapsed_s < 0;
    all->last = event->number;
    all->reports++;
}

static void follow_state(void *user, troupe_job *job, troupe_job_state now)
{
    (void)job;
    ((told *)user)->states[now]++;
}

static troupe_result *run_to_end(const line_settings *config, told *all, int restarts)
{
    troupe_follower follower = {
        .size = sizeof follower, .report = follow_report, .state = follow_state, .user = all};
    troupe_job *job;
    troupe_result *result;
    troupe_must(troupe_submit(line_fit, config, &follower, &job, .ranks = WORLD, .storage = storage,
                              .restarts = restarts, .keep = 3));
    troupe_must(troupe_job_wait(job, -1, &result));
    troupe_job_close(&job);
    return result;
}

static void check_lines(const troupe_result *result, int victim)
{
    char cause[64];
    char *text = where_text(troupe_result_path(result), "journal.jsonl");
    assert_non_null(text);
    char *line = text;
    for (int number = 1; number <= EPOCHS; number++) {
        char start[64];
        snprintf(start, sizeof start, "\"report\": %d,", number);
        line = strstr(line, "{\"event\": \"report\", ");
        assert_non_null(line);
        line += strlen("{\"event\": \"report\", ");
        assert_int_equal(strncmp(line, start, strlen(start)), 0);
    }
    assert_null(strstr(line, "{\"event\": \"report\"")); // And none twice.
    // The second attempt says which rank ended the first one.
    line = strstr(text, "{\"event\": \"attempt\", \"attempt\": 1,");
    assert_non_null(line);
    snprintf(cause, sizeof cause, "\"cause\": {\"rank\": %d, \"status\": \"PEER_LOST\"", victim);
    assert_non_null(strstr(line, cause));
    free(text);
}

// D04.
// kill -9 of either rank at several places: the numbers are those of the undisturbed run, to the
// bit.
static void test_a_killed_worker_changes_no_number(void **state)
{
    (void)state;
    const int at[] = {1, 4, EPOCHS};
    for (int victim = 0; victim < WORLD; victim++) {
        for (int where = BEFORE_REDUCE; where <= AFTER_REPORT; where++) {
            line_settings config = line_plain(EPOCHS);
            config.trouble = KILLED;
            config.victim = victim;
            config.where = where;
            config.at = at[(victim + where) % 3];
            told all = {0};
            troupe_result *result = run_to_end(&config, &all, 1);
            assert_string_equal(troupe_result_error(result), "");
            assert_int_equal(troupe_result_restarts(result), 1);
            assert_int_equal(troupe_result_reports(result), EPOCHS);
            for (int rank = 0; rank < WORLD; rank++) {
                line_model model = line_load(result, rank);
                line_assert_same(&model, &undisturbed[rank]);
            }
            assert_true(troupe_result_metric(result, "loss") == undisturbed_loss);
            assert_false(all.wrong); // Each report once, in order, also after the restart.
            assert_int_equal(all.reports, EPOCHS);
            assert_int_equal(all.states[TROUPE_JOB_RUNNING], 2);
            assert_int_equal(all.states[TROUPE_JOB_RESTARTING], 1);
            assert_int_equal(all.states[TROUPE_JOB_DONE], 1);
            check_lines(result, victim);
            troupe_result_free(&result);
        }
    }
}

static void test_without_checkpoints_it_starts_from_the_beginning(void **state)
{
    (void)state;
    line_settings config = line_plain(EPOCHS);
    config.save_every = 0;
    config.trouble = KILLED;
    config.victim = 1;
    config.at = 5;
    config.where = BEFORE_REPORT;
    told all = {0};
    troupe_result *result = run_to_end(&config, &all, 1);
    assert_int_equal(troupe_result_restarts(result), 1);
    assert_int_equal(troupe_result_reports(result), EPOCHS);
    assert_true(troupe_result_metric(result, "loss") == undisturbed_loss);
    assert_null(troupe_result_checkpoint(result));
    assert_false(all.wrong);
    assert_int_equal(all.reports, EPOCHS);
    check_lines(result, config.victim);
    troupe_result_free(&result);
}

// B03.
static void test_the_reason_of_the_end_is_told(void **state)
{
    (void)state;
    struct {
        int trouble;
        troupe_status status;
        const char *word;
    } cases[] = {
        {KILLED, TROUPE_PEER_LOST, "was killed by signal 9"},
        {EXITS, TROUPE_PEER_LOST, "exited with status 3"},
        {RETURNS, TROUPE_FAILED, "failed: the loss of rank 1 is not what it was"},
        {RETURNS_QUIETLY, TROUPE_IO, "failed: reading or writing failed"},
        {LEAVES, TROUPE_PEER_LOST, "rank 1 has left its loop"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        line_settings config = line_plain(EPOCHS);
        config.trouble = cases[i].trouble;
        config.victim = 1;
        config.at = 5;
        config.where = BEFORE_REDUCE;
        troupe_result *result;
        assert_int_equal(
            troupe_train(line_fit, &config, &result, .ranks = WORLD, .storage = storage),
            cases[i].status);
        const char *text = troupe_result_error(result);
        assert_non_null(strstr(troupe_last_error()->text, cases[i].word));
        assert_non_null(strstr(text, cases[i].word));
        assert_non_null(strstr(text, "rank 1"));
        assert_non_null(strstr(text, "pid "));
        assert_non_null(strstr(text, troupe_result_path(result)));
        assert_non_null(strstr(text, ".restarts = n"));
        assert_int_equal(troupe_result_status(result), cases[i].status);
        // Rank 0 may have been ended before it made report 4, and what ranks saved with the last
        // ones before it was written. An earlier committed state is there.
        int reports = troupe_result_reports(result);
        assert_true(reports == 3 || reports == 4);
        line_model model = line_load(result, 0);
        assert_in_range(model.epoch, 1, reports);
        troupe_result_free(&result);
    }
}

// B03.
static void test_restarts_are_used_up(void **state)
{
    (void)state;
    line_settings config = line_plain(EPOCHS);
    config.trouble = KILLED;
    config.victim = 0;
    config.at = 3;
    config.where = AFTER_REPORT;
    config.attempts = 10;
    config.save_every = 0; // So that it meets epoch 3 each time.
    told all = {0};
    troupe_result *result = run_to_end(&config, &all, 2);
    assert_int_equal(troupe_result_status(result), TROUPE_PEER_LOST);
    assert_int_equal(troupe_result_restarts(result), 2);
    assert_non_null(strstr(troupe_result_error(result), "its 2 restarts are used up"));
    assert_non_null(strstr(troupe_result_error(result), "rank 0"));
    assert_int_equal(all.states[TROUPE_JOB_RUNNING], 3);
    assert_int_equal(all.states[TROUPE_JOB_RESTARTING], 2);
    assert_false(all.wrong);
    assert_true(all.reports == 2 || all.reports == 3); // Rank 1 may have come too late each time.
    troupe_result_free(&result);

    config.attempts = 4; // A negative number: until it works.
    all = (told){0};
    result = run_to_end(&config, &all, -1);
    assert_int_equal(troupe_result_status(result), TROUPE_OK);
    assert_int_equal(troupe_result_restarts(result), 4);
    troupe_result_free(&result);
}

static void test_a_rank_that_hangs_is_named_and_replaced(void **state)
{
    (void)state;
    // More than the other rank needs on a machine with much to do.
    enum { PATIENCE_MS = 1000 * SUPPORT_SLOWER };
    const int ways[] = {HANGS, FREEZES};
    char cause[64];
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        line_settings config = line_plain(EPOCHS);
        config.trouble = ways[i];
        config.victim = 1;
        config.at = 3;
        config.where = BEFORE_REDUCE;
        troupe_result *result;
        troupe_must(troupe_train(line_fit, &config, &result, .ranks = WORLD, .storage = storage,
                                 .collective_timeout_ms = PATIENCE_MS, .restarts = 1));
        char *journal = where_text(troupe_result_path(result), "journal.jsonl");
        assert_non_null(journal); // The cause of the restart.
        snprintf(cause, sizeof cause, "rank 1 did not come within %d ms", PATIENCE_MS);
        assert_non_null(strstr(journal, cause));
        free(journal);
        line_model model = line_load(result, 1);
        line_assert_same(&model, &undisturbed[1]);
        troupe_result_free(&result);
    }
}

// ---- a damaged checkpoint on the way

TROUPE_STRUCT(damage_settings, (troupe_text, run), (int, epochs));

// Rank 0 cuts the newest checkpoint's file before it dies.
static troupe_status damages(troupe_rank *me, const damage_settings *config)
{
    line_model model = {.note = "x"};
    TROUPE_TRY(troupe_restore(line_model, me, &model));
    if (me->attempt == 1 && model.epoch != 4)
        return troupe_fail(TROUPE_FAILED, "restored epoch %lld", (long long)model.epoch);
    while (model.epoch < config->epochs) {
        model.epoch++;
        TROUPE_TRY(troupe_save(line_model, me, &model));
        TROUPE_TRY(troupe_report(me, {"epoch", (double)model.epoch}));
        if (me->attempt == 0 && model.epoch == 5) {
            char path[4096];
            TROUPE_TRY(await_checkpoint(me, 4));
            snprintf(path, sizeof path, "%s/checkpoints/checkpoint_000004/rank_00000.safetensors",
                     config->run);
            if (truncate(path, 150))
                return troupe_fail(TROUPE_FAILED, "there is no %s", path);
            raise(SIGKILL);
        }
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(damages, damage_settings);

// C11.
static void test_a_damaged_newest_checkpoint_is_passed_over(void **state)
{
    (void)state;
    if (where_far)
        skip(); // Only its driver may change it.
    char *run = support_path(storage, "damaged");
    damage_settings config = {run, 6};
    troupe_result *result;
    troupe_must(troupe_train(damages, &config, &result, .storage = storage, .name = "damaged",
                             .restarts = 1));
    assert_int_equal(troupe_result_reports(result), 6);
    // Numbers are never used again: those after the damaged one are new.
    assert_non_null(strstr(troupe_result_checkpoint(result), "checkpoint_000006"));
    troupe_result_free(&result);
    free(run);
}

TROUPE_STRUCT(uneven_settings, (int, unused));

static troupe_status reports_unevenly(troupe_rank *me, const uneven_settings *config)
{
    (void)config;
    for (int i = 0; i < 3 + me->rank; i++)
        TROUPE_TRY(troupe_report(me, {"x", i}));
    return TROUPE_OK;
}
TROUPE_TRAINER(reports_unevenly, uneven_settings);

static void test_ranks_must_report_equally_often(void **state)
{
    (void)state;
    uneven_settings config = {0};
    troupe_result *result;
    assert_int_equal(
        troupe_train(reports_unevenly, &config, &result, .ranks = 2, .storage = storage),
        TROUPE_INVALID);
    assert_non_null(strstr(troupe_result_error(result), "rank 1 made 4 reports and rank 0 3"));
    assert_int_equal(troupe_result_reports(result), 3);
    troupe_result_free(&result);
}

int main(int argc, char **argv)
{
    where_begin(argc, argv);
    troupe_must(troupe_start(argc, argv, .cpus = 4));
    storage = where_storage;
    train_undisturbed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_killed_worker_changes_no_number),
        cmocka_unit_test(test_without_checkpoints_it_starts_from_the_beginning),
        cmocka_unit_test(test_the_reason_of_the_end_is_told),
        cmocka_unit_test(test_restarts_are_used_up),
        cmocka_unit_test(test_a_rank_that_hangs_is_named_and_replaced),
        cmocka_unit_test(test_a_damaged_newest_checkpoint_is_passed_over),
        cmocka_unit_test(test_ranks_must_report_equally_often),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    failed |= troupe_stop();
    where_end();
    return failed;
}
