// test_submit.c: what is asked of a run and what comes back: defaults, copies, the description, the
// result, whose metrics and whose state.
// timeout: 120
#include "line.h"

#include <stdatomic.h>
#include <sys/stat.h>
#include <train/run_file.h>

enum { CPUS = 4 };

static char *storage;

TROUPE_STRUCT(part, (double, rate), (char, label, 8), (troupe_array_int, sizes));
TROUPE_STRUCT(witness_settings, (troupe_text, folder), (part, nested), (int64_t, large), (int, die),
              (troupe_text, restored));

static line_model made_of(const witness_settings *config, int64_t epoch)
{
    return (line_model){.epoch = epoch, .note = config->restored};
}

// Each rank writes down who it is and what it was given, and reports numbers of its own three times
// with a state for each. Rank `die` - 1 is killed after its second report of the first attempt.
static troupe_status witness(troupe_rank *me, const witness_settings *config)
{
    char name[32], text[2048];
    line_model model = {.epoch = -1, .note = ""};
    TROUPE_TRY(troupe_restore(line_model, me, &model));
    int used = snprintf(text, sizeof text, "%d %d %lld ", (int)getpid(), me->world,
                        (long long)model.epoch);
    (void)troupe_print(witness_settings, config, text + used, sizeof text - (size_t)used);
    snprintf(name, sizeof name, "rank %d.%d", me->rank, me->attempt);
    char *path = support_path(config->folder, name);
    support_write_file(path, text, strlen(text));
    free(path);
    const int64_t first = model.epoch < 0 ? 1 : model.epoch + 1;
    for (int64_t epoch = first; epoch <= 3; epoch++) {
        model = made_of(config, epoch);
        TROUPE_TRY(troupe_save(line_model, me, &model));
        TROUPE_TRY(troupe_report(me, {"epoch", (double)epoch}, {"rank", me->rank}));
        TROUPE_TRY(troupe_barrier(me));
        if (epoch == 2 && me->attempt == 0 && me->rank == config->die - 1) {
            TROUPE_TRY(await_checkpoint(me, (int)(epoch - first)));
            raise(SIGKILL);
        }
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(witness, witness_settings);

static char *make_folder(const char *name)
{
    char *path = support_path(storage, name);
    assert_int_equal(mkdir(path, 0755), 0);
    return path;
}

// What the rank wrote, to be freed.
static char *written(const char *folder, int rank, int attempt)
{
    char name[32];
    snprintf(name, sizeof name, "rank %d.%d", rank, attempt);
    char *path = support_path(folder, name), *text = support_read_file(path);
    assert_non_null(text);
    free(path);
    return text;
}

static int count_checkpoints(const troupe_result *result)
{
    char *path = support_path(troupe_result_path(result), "checkpoints");
    int count = support_count_files(path);
    free(path);
    return count;
}

// A04, C01.
static void test_what_is_left_out_has_its_default(void **state)
{
    (void)state;
    char *home = make_folder("home"), *folder = make_folder("defaults");
    const char *before = getenv("HOME");
    char *kept = before ? strdup(before) : NULL;
    setenv("HOME", home, 1);
    witness_settings config = {.folder = folder, .restored = "x"};
    troupe_train_options zeroed = {.size = sizeof zeroed};
    const troupe_train_options *const ways[] = {NULL, &zeroed};
    static const char *const names[] = {"troupe_results/witness", "troupe_results/witness_1"};
    troupe_result *result;
    for (int i = 0; i < 2; i++) {
        char *expected = support_path(home, names[i]);
        troupe_must(troupe_train_as(&troupe_trainer_witness, &config, &result, ways[i]));
        assert_string_equal(troupe_result_path(result), expected);
        assert_int_equal(count_checkpoints(result), 3); // All.
        assert_string_equal(troupe_result_best_checkpoint(result),
                            troupe_result_checkpoint(result)); // The newest is the best.
        troupe_result_free(&result);
        char *text = written(folder, 0, 0);
        assert_non_null(strstr(text, " 1 -1 {")); // One rank, which starts from nothing.
        free(text);
        free(expected);
    }
    config.die = 1;
    assert_int_equal(troupe_train_as(&troupe_trainer_witness, &config, &result, &zeroed),
                     TROUPE_PEER_LOST);
    assert_int_equal(troupe_result_restarts(result), 0);
    troupe_result_free(&result);

    // A struct of another version.
    struct {
        troupe_train_options options;
        int64_t later;
    } longer = {.options = {.size = sizeof longer}};
    assert_int_equal(troupe_train_as(&troupe_trainer_witness, &config, &result, &longer.options),
                     TROUPE_VERSION);
    assert_non_null(strstr(troupe_last_error()->text, "which is older"));
    assert_null(result);
    zeroed.size = 0;
    assert_int_equal(troupe_train_as(&troupe_trainer_witness, &config, &result, &zeroed),
                     TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "set their .size"));
    if (kept)
        setenv("HOME", kept, 1);
    free(kept);
    free(home);
    free(folder);
}

static bool job_runs(void *context)
{
    troupe_job_status status;
    troupe_job_status_get((troupe_job *)context, &status);
    return status.state == TROUPE_JOB_RUNNING;
}

// A05: the run waits in the queue while its caller writes over all that it was given.
static void test_what_the_caller_changes_later_does_not_count(void **state)
{
    (void)state;
    char *folder = make_folder("copied"), name[16] = "mine", metric[16] = "epoch", where[4096];
    char place[4096], note[16] = "as it was";
    int sizes[] = {1, 2, 3};
    snprintf(where, sizeof where, "%s", storage);
    snprintf(place, sizeof place, "%s", folder);
    line_settings busy = line_plain(LINE_EPOCHS_MAX);
    busy.pause_ms = 1;
    busy.save_every = 0;
    troupe_job *first, *second;
    troupe_must(troupe_submit(line_fit, &busy, NULL, &first, .ranks = CPUS, .storage = storage));
    assert_true(support_wait_until(job_runs, first, SUPPORT_SOON_MS));
    witness_settings config = {.folder = place,
                               .nested = {.rate = 0.5, .label = "before", .sizes = {sizes, 3}},
                               .large = 1,
                               .restored = note};
    troupe_train_options options = {.size = sizeof options,
                                    .ranks = 2,
                                    .storage = where,
                                    .name = name,
                                    .keep = 1,
                                    .keep_metric = metric,
                                    .keep_goal = TROUPE_MINIMIZE};
    troupe_follower follower = {.size = sizeof follower};
    troupe_must(troupe_submit_as(&troupe_trainer_witness, &config, &follower, &second, &options));
    memset(where, 'x', sizeof where - 1);
    memset(place, 'x', sizeof place - 1);
    strcpy(name, "yours");
    strcpy(metric, "rank");
    strcpy(note, "changed");
    sizes[0] = sizes[1] = sizes[2] = 9;
    memset(&config, 0xff, sizeof config);
    memset(&options, 0xff, sizeof options);
    memset(&follower, 0xff, sizeof follower);
    troupe_job_close(&first);

    troupe_result *result;
    troupe_must(troupe_job_wait(second, SUPPORT_SOON_MS, &result));
    assert_string_equal(troupe_result_error(result), "");
    assert_string_equal(strrchr(troupe_result_path(result), '/'), "/mine");
    assert_int_equal(count_checkpoints(result), 2); // The least epoch's, and the newest.
    assert_non_null(strstr(troupe_result_best_checkpoint(result), "checkpoint_000000"));
    char *text = written(folder, 1, 0);
    assert_non_null(strstr(text, " 2 -1 {"));
    assert_non_null(strstr(text, "\"label\": \"before\""));
    assert_non_null(strstr(text, "[1, 2, 3]"));
    assert_non_null(strstr(text, "\"restored\": \"as it was\""));
    free(text);
    troupe_result_free(&result);
    troupe_job_close(&second);
    free(folder);
}

// D01, D02: each rank is a process that runs the same loop, with the same config to the byte.
static void test_all_ranks_run_the_loop_with_the_config(void **state)
{
    (void)state;
    char *folder = make_folder("all ranks"), wanted[2048];
    static const int sizes[] = {INT32_MIN, 0, INT32_MAX};
    witness_settings config = {.folder = folder,
                               .nested = {.rate = 0.1, .label = "sevenup", .sizes = {sizes, 3}},
                               .large = INT64_MIN,
                               .restored = "a \"note\" \xc3\xa4"};
    troupe_result *result;
    troupe_must(troupe_train(witness, &config, &result, .ranks = CPUS, .storage = storage));
    (void)troupe_print(witness_settings, &config, wanted, sizeof wanted);
    int pids[CPUS];
    for (int rank = 0; rank < CPUS; rank++) {
        char *text = written(folder, rank, 0);
        pids[rank] = atoi(text);
        assert_true(pids[rank] > 1 && pids[rank] != (int)getpid());
        for (int other = 0; other < rank; other++)
            assert_int_not_equal(pids[other], pids[rank]);
        assert_string_equal(strchr(text, '{'), wanted);
        free(text);
    }
    troupe_result_free(&result);
    free(folder);
}

// A loop that is told nothing but who it is.
static troupe_status alone(troupe_rank *me)
{
    double sum = me->rank + 1;
    TROUPE_TRY(troupe_allreduce(me, &sum, 1, TROUPE_SUM));
    return troupe_report(me, {"sum", sum});
}
TROUPE_TRAINER(alone);

// D02.
static void test_a_loop_may_have_no_config(void **state)
{
    (void)state;
    troupe_result *result;
    for (int again = 0; again < 2; again++) { // The second opens the ended run.
        troupe_must(troupe_train(alone, NULL, &result, .ranks = 3, .storage = storage,
                                 .open = TROUPE_OPEN_RESUME_OR_NEW));
        assert_true(troupe_result_metric(result, "sum") == 6);
        troupe_result_free(&result);
    }
    troupe_job *job;
    troupe_none none = {0};
    troupe_must(troupe_submit(alone, &none, NULL, &job, .storage = storage));
    troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &result));
    assert_true(troupe_result_metric(result, "sum") == 1);
    troupe_result_free(&result);
    troupe_job_close(&job);
    // One that has a config is not run without.
    assert_int_equal(troupe_train(witness, NULL, &result, .storage = storage), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "'config' is NULL"));
}

TROUPE_STRUCT(returned, (int, rank), (int, attempt), (troupe_text, words),
              (troupe_array_double, numbers));
TROUPE_STRUCT(returns_settings, (int, returning), (int, die), (int, fail));

// Ranks below `returning` return something in the first attempt, and rank 0 twice.
static troupe_status returns(troupe_rank *me, const returns_settings *config)
{
    static double numbers[200000];
    static const troupe_ref refs[] = {{1, 1}};
    troupe_array_troupe_ref with_refs = {refs, 1};
    returned value = {me->rank, me->attempt, "first", {numbers, 200000}};
    if (me->rank < config->returning) {
        if (troupe_return(returned, me, &value) != TROUPE_TOO_LARGE ||
            troupe_return(troupe_array_troupe_ref, me, &with_refs) != TROUPE_INVALID)
            return troupe_fail(TROUPE_FAILED, "it was not refused");
        numbers[2] = 0.5;
        value.numbers.count = 3;
        TROUPE_TRY(troupe_return(returned, me, &value));
        value.words = "second";
        TROUPE_TRY(troupe_return(returned, me, &value));
    }
    TROUPE_TRY(troupe_report(me, {"x", 1}));
    // Rank 0 may have ended well before this.
    if (me->rank == 1 && me->attempt < config->die)
        raise(SIGKILL);
    return config->fail ? troupe_fail(TROUPE_FAILED, "it was to fail") : TROUPE_OK;
}
TROUPE_TRAINER(returns, returns_settings);

static void check_returned(const troupe_result *result, int attempt)
{
    returned value = {.rank = -1};
    troupe_must(troupe_result_value(returned, result, &value));
    assert_int_equal(value.rank, 0);
    assert_int_equal(value.attempt, attempt);
    assert_string_equal(value.words, "second");
    assert_int_equal(value.numbers.count, 3);
    assert_true(value.numbers.items[2] == 0.5);
    line_model other = {0};
    assert_int_equal(troupe_result_value(line_model, result, &other), TROUPE_WRONG_TYPE);
    troupe_arena_reset();
}

// D03.
static void test_what_rank_0_returns_is_in_the_result(void **state)
{
    (void)state;
    returns_settings config = {.returning = 2};
    troupe_result *result;
    returned value;
    for (int again = 0; again < 2; again++) { // The second opens the ended run.
        troupe_must(troupe_train(returns, &config, &result, .ranks = 2, .storage = storage,
                                 .name = "returned", .open = TROUPE_OPEN_RESUME_OR_NEW));
        check_returned(result, 0);
        troupe_result_free(&result);
    }
    config.die = 1;
    troupe_must(
        troupe_train(returns, &config, &result, .ranks = 2, .storage = storage, .restarts = 1));
    check_returned(result, 1);
    troupe_result_free(&result);

    config = (returns_settings){.returning = 2, .fail = true};
    assert_int_equal(troupe_train(returns, &config, &result, .ranks = 2, .storage = storage),
                     TROUPE_FAILED);
    assert_int_equal(troupe_result_value(returned, result, &value), TROUPE_NOT_FOUND);
    troupe_result_free(&result);

    config = (returns_settings){.returning = 0};
    troupe_must(troupe_train(returns, &config, &result, .ranks = 2, .storage = storage));
    assert_int_equal(troupe_result_value(returned, result, &value), TROUPE_NOT_FOUND);
    assert_non_null(strstr(troupe_last_error()->text, "returned no value"));
    troupe_result_free(&result);
}

// A13, D06: a new run begins from nothing or from the checkpoint that it was given, an attempt
// after that from the run's own last commit; reports of the new run begin at 1.
static void test_the_runs_own_checkpoint_comes_first(void **state)
{
    (void)state;
    char *folder = make_folder("own first");
    witness_settings config = {.folder = folder, .restored = "x"};
    troupe_result *first, *result;
    troupe_must(troupe_train(witness, &config, &first, .ranks = 2, .storage = storage));
    char *text = written(folder, 1, 0);
    assert_non_null(strstr(text, " 2 -1 {")); // Nothing was restored.
    free(text);
    char *from = support_path(troupe_result_path(first), "checkpoints/checkpoint_000000");
    for (int die = 0; die <= 2; die += 2) {
        config.die = die;
        troupe_must(troupe_train(witness, &config, &result, .ranks = 2, .storage = storage,
                                 .from = from, .restarts = 1));
        text = written(folder, 1, 0);
        assert_non_null(strstr(text, " 2 1 {")); // The one that was given.
        free(text);
        assert_int_equal(troupe_result_reports(result), 2);
        assert_int_equal(troupe_result_restarts(result), die > 0);
        if (die > 0) {
            for (int rank = 0; rank < 2; rank++) {
                text = written(folder, rank, 1);
                assert_non_null(strstr(text, " 2 2 {")); // Its own, of epoch 2.
                free(text);
            }
        }
        assert_non_null(strstr(troupe_result_checkpoint(result), "checkpoint_000001"));
        troupe_result_free(&result);
    }
    troupe_result_free(&first);
    free(from);
    free(folder);
}

// Each rank's first act is to read what runs.
static troupe_status reads_record(troupe_rank *me, const witness_settings *config)
{
    trp_arena arena = {0};
    trp_run_file file;
    witness_settings its = {0};
    TROUPE_TRY(trp_run_file_read(config->folder, &arena, &file));
    TROUPE_TRY(trp_json_read(&troupe_type_witness_settings, file.config, &arena, &its));
    bool same = strcmp(file.head.trainer, "reads_record") == 0 &&
                file.head.options.ranks == me->world && its.large == config->large &&
                strcmp(its.folder, config->folder) == 0;
    trp_arena_clear(&arena);
    return same ? troupe_report(me, {"read", 1})
                : troupe_fail(TROUPE_FAILED, "run.json says something else");
}
TROUPE_TRAINER(reads_record, witness_settings);

// B05.
static void test_what_runs_is_written_down_before_the_first_rank_starts(void **state)
{
    (void)state;
    char *folder = support_path(storage, "before");
    witness_settings config = {.folder = folder, .large = 77, .restored = ""};
    troupe_result *result;
    troupe_must(troupe_train(reads_record, &config, &result, .ranks = CPUS, .storage = storage,
                             .name = "before"));
    assert_int_equal(troupe_result_reports(result), 1);
    troupe_result_free(&result);
    free(folder);
}

// A17: what the run's folder says it was asked for is all that it was asked for: config, options,
// metadata.
static void test_the_record_of_a_run_gives_back_what_it_was_asked(void **state)
{
    (void)state;
    char *folder = make_folder("recorded");
    static const int sizes[] = {1, -2, 3};
    witness_settings config = {.folder = folder,
                               .nested = {.rate = 1.0 / 3, .label = "nested", .sizes = {sizes, 3}},
                               .large = INT64_MIN,
                               .restored = "a \"note\" \xc3\xa4"};
    troupe_result *result;
    troupe_must(troupe_train(
        witness, &config, &result, .ranks = 2, .storage = storage, .cpus_per_rank = 0.5, .keep = 2,
        .keep_metric = "epoch", .keep_goal = TROUPE_MAXIMIZE, .restarts = TROUPE_FOREVER,
        .collective_timeout_ms = 12345, .coordinator_cpus = 0.25, .time_limit_s = 100,
        .time_limit_grace_s = 3, .metadata = "{\"b\": 1, \"a\": [true]}"));
    trp_arena arena = {0};
    trp_run_file file;
    troupe_must(trp_run_file_read(troupe_result_path(result), &arena, &file));
    assert_string_equal(file.head.trainer, "witness");
    const trp_saved_options *o = &file.head.options;
    assert_int_equal(o->ranks, 2);
    assert_true(o->cpus_per_rank == 0.5 && o->coordinator_cpus == 0.25);
    assert_int_equal(o->keep, 2);
    assert_string_equal(o->keep_metric, "epoch");
    assert_int_equal(o->keep_goal, TROUPE_MAXIMIZE);
    assert_int_equal(o->restarts, TROUPE_FOREVER);
    assert_int_equal(o->collective_timeout_ms, 12345);
    assert_true(o->time_limit_s == 100 && o->time_limit_grace_s == 3);
    assert_int_equal(file.metadata.size, strlen("{\"a\":[true],\"b\":1}"));
    assert_memory_equal(file.metadata.at, "{\"a\":[true],\"b\":1}", file.metadata.size);
    witness_settings back = {0};
    troupe_must(trp_json_read(&troupe_type_witness_settings, file.config, &arena, &back));
    char was[2048], is[2048];
    (void)troupe_print(witness_settings, &config, was, sizeof was);
    (void)troupe_print(witness_settings, &back, is, sizeof is);
    assert_string_equal(is, was);
    assert_true(back.nested.rate == config.nested.rate);
    trp_arena_clear(&arena);
    troupe_result_free(&result);
    free(folder);
}

#define DESCRIBED(wanted, ...)                                                                     \
    do {                                                                                           \
        char line_[512];                                                                           \
        troupe_must(troupe_train_describe(line_fit, line_, sizeof line_, __VA_ARGS__));            \
        assert_string_equal(line_, wanted);                                                        \
    } while (0)

// A16.
static void test_a_description_has_what_is_not_the_default(void **state)
{
    (void)state;
    // train/test_option_table says that all options have a row.
    DESCRIBED("<line_fit>", .ranks = 0);
    DESCRIBED("<line_fit>", .ranks = 1, .cpus_per_rank = 1, .collective_timeout_ms = 60000,
              .time_limit_grace_s = 10);
    DESCRIBED("<line_fit ranks=4>", .ranks = 4);
    DESCRIBED("<line_fit cpus_per_rank=0.5 storage=\"a \\\"b\\\"\" name=\"n\" keep=TROUPE_NONE "
              "restarts=TROUPE_FOREVER>",
              .cpus_per_rank = 0.5, .storage = "a \"b\"", .name = "n", .keep = TROUPE_NONE,
              .restarts = TROUPE_FOREVER);
    DESCRIBED("<line_fit keep=3 keep_metric=\"loss\" keep_goal=TROUPE_MINIMIZE restarts=2 "
              "from=\"/c\" collective_timeout_ms=5>",
              .keep = 3, .keep_metric = "loss", .keep_goal = TROUPE_MINIMIZE, .restarts = 2,
              .from = "/c", .collective_timeout_ms = 5);
    DESCRIBED("<line_fit gpus_per_rank=0.25 memory_per_rank_bytes=1048576 "
              "resources_per_rank=\"a=1\" env=... coordinator_cpus=1 open=TROUPE_OPEN_RESUME "
              "force=true metadata=\"{}\" gate=... time_limit_s=1.5 time_limit_grace_s=2 "
              "console=TROUPE_CONSOLE_OFF checkpoint_every=3 rank_metrics=true data=... "
              "key=\"k\" expected_reports=500 "
              "ranks_per_process=2 min_ranks=3 server=TROUPE_SERVER_AUTO priority=-2 "
              "start_at=1.5 params=\"{}\" sync=TROUPE_SYNC_CHECKPOINTS>",
              .gpus_per_rank = 0.25, .memory_per_rank_bytes = 1 << 20, .resources_per_rank = "a=1",
              .env = "TOKEN=secret", .coordinator_cpus = 1, .open = TROUPE_OPEN_RESUME,
              .force = true, .metadata = "{}", .time_limit_s = 1.5, .time_limit_grace_s = 2,
              .gate = TROUPE_OPTIONS(troupe_gate, .first = 2), .console = TROUPE_CONSOLE_OFF,
              .data = &(troupe_data_given){0}, .checkpoint_every = 3, .rank_metrics = true,
              .key = "k", .expected_reports = 500, .ranks_per_process = 2, .min_ranks = 3,
              .server = TROUPE_SERVER_AUTO, .priority = -2, .start_at = 1.5, .params = "{}",
              .sync = TROUPE_SYNC_CHECKPOINTS);
    char small[10];
    assert_int_equal(troupe_train_describe(line_fit, small, sizeof small, .ranks = 1),
                     TROUPE_TOO_LARGE);
    assert_non_null(strstr(troupe_last_error()->text, "takes 11 bytes"));
    char exact[11];
    troupe_must(troupe_train_describe_as(&troupe_trainer_line_fit, exact, sizeof exact, NULL));
    assert_string_equal(exact, "<line_fit>");
}

static void see_report(void *user, troupe_job *job, const troupe_report_event *event)
{
    (void)job;
    if (event->count != 2 || event->metrics[1].value != 0)
        atomic_store((_Atomic bool *)user, true);
}

// B01, D05.
static void test_a_result_has_the_metrics_of_rank_0_and_where_all_is(void **state)
{
    (void)state;
    char *folder = make_folder("result");
    witness_settings config = {.folder = folder, .restored = "x"};
    _Atomic bool others = false;
    troupe_follower follower = {
        .size = sizeof follower, .report = see_report, .user = (void *)&others};
    troupe_job *job;
    troupe_result *result;
    troupe_must(troupe_submit(witness, &config, &follower, &job, .ranks = 3, .storage = storage,
                              .name = "whole-result"));
    troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &result));
    size_t count;
    const troupe_metric *metrics = troupe_result_metrics(result, &count);
    assert_int_equal(count, 2);
    assert_string_equal(metrics[0].name, "epoch");
    assert_true(metrics[0].value == 3);
    assert_string_equal(metrics[1].name, "rank");
    assert_true(metrics[1].value == 0);
    assert_false(atomic_load(&others));
    assert_int_equal(troupe_result_status(result), TROUPE_OK);
    assert_string_equal(troupe_result_error(result), "");
    char *path = support_path(storage, "whole-result"), *real = realpath(path, NULL);
    assert_string_equal(troupe_result_path(result), real);
    char *newest = support_path(real, "checkpoints/checkpoint_000002");
    assert_string_equal(troupe_result_checkpoint(result), newest);
    line_model model = {0};
    troupe_must(troupe_checkpoint_load(line_model, newest, 2, &model));
    assert_int_equal(model.epoch, 3);
    troupe_arena_reset();
    troupe_result_free(&result);
    troupe_job_close(&job);
    free(newest);
    free(path);
    free(real);
    free(folder);
}

// C01, C03.
static void test_a_metric_needs_one_of_the_two_goals(void **state)
{
    (void)state;
    static const struct {
        int goal;
        const char *error;
    } cases[] = {
        {0,
         "option .keep_goal is 0: expected TROUPE_MINIMIZE or TROUPE_MAXIMIZE with .keep_metric"},
        {3,
         "option .keep_goal is 3: expected TROUPE_MINIMIZE or TROUPE_MAXIMIZE with .keep_metric"},
        {-1,
         "option .keep_goal is -1: expected TROUPE_MINIMIZE or TROUPE_MAXIMIZE with .keep_metric"},
    };
    line_settings config = line_plain(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        troupe_job *job = NULL;
        assert_int_equal(troupe_submit(line_fit, &config, NULL, &job, .storage = storage,
                                       .keep_metric = "loss",
                                       .keep_goal = (troupe_goal)cases[i].goal),
                         TROUPE_INVALID);
        assert_null(job);
        assert_string_equal(troupe_last_error()->text, cases[i].error);
    }
}

typedef struct best {
    char path[4096];
    double least;
    int seen;
    _Atomic int missing;
} best;

// The first has the least epoch, so it stays the best while all others but the newest go.
static void see_best(void *user, troupe_job *job, const troupe_checkpoint_event *event)
{
    best *of = (best *)user;
    (void)job;
    if (of->seen++ == 0 || event->metrics[2].value < of->least) {
        of->least = event->metrics[2].value;
        snprintf(of->path, sizeof of->path, "%s", event->folder);
    }
    if (!support_exists(of->path)) // The newest may have gone already: a follower reads behind.
        atomic_fetch_add(&of->missing, 1);
}

// C07.
static void test_the_best_is_on_disk_at_each_step(void **state)
{
    (void)state;
    for (int keep = 1; keep <= 2; keep++) {
        best seen = {.seen = 0};
        line_settings config = line_plain(20);
        troupe_follower follower = {.size = sizeof follower, .user = &seen, .checkpoint = see_best};
        troupe_job *job;
        troupe_result *result;
        troupe_must(troupe_submit(line_fit, &config, &follower, &job, .ranks = 2,
                                  .storage = storage, .keep = keep, .keep_metric = "epoch",
                                  .keep_goal = TROUPE_MINIMIZE));
        troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &result));
        troupe_job_close(&job);
        assert_int_equal(seen.seen, 20);
        assert_int_equal(atomic_load(&seen.missing), 0);
        assert_string_equal(troupe_result_best_checkpoint(result), seen.path);
        assert_int_equal(count_checkpoints(result), keep + 1);
        troupe_result_free(&result);
    }
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .cpus = CPUS));
    storage = support_directory_make();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_left_out_has_its_default),
        cmocka_unit_test(test_what_the_caller_changes_later_does_not_count),
        cmocka_unit_test(test_all_ranks_run_the_loop_with_the_config),
        cmocka_unit_test(test_a_loop_may_have_no_config),
        cmocka_unit_test(test_what_rank_0_returns_is_in_the_result),
        cmocka_unit_test(test_the_runs_own_checkpoint_comes_first),
        cmocka_unit_test(test_what_runs_is_written_down_before_the_first_rank_starts),
        cmocka_unit_test(test_the_record_of_a_run_gives_back_what_it_was_asked),
        cmocka_unit_test(test_a_description_has_what_is_not_the_default),
        cmocka_unit_test(test_a_result_has_the_metrics_of_rank_0_and_where_all_is),
        cmocka_unit_test(test_a_metric_needs_one_of_the_two_goals),
        cmocka_unit_test(test_the_best_is_on_disk_at_each_step),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    support_directory_remove(storage);
    return troupe_stop() || failed;
}
