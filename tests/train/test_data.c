// test_data.c: the data of a run: their setup, its sets, and each rank's part of them.
#include "await.h"

#include <support.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <train/data.h>
#include <troupe.h>
#include <unistd.h>

// What a setup does.
enum {
    NOTHING,
    NAMES_NONE,
    EMPTY_REFERENCE,
    STALE_REFERENCE,
    NEGATIVE_ROWS,
    NO_KEY,
    TWICE,
    NO_SUCH_WAY,
    FAILS,
};

// Each setup leaves a line in `folder`/log. Where `waits`, it waits for `folder`/go.
TROUPE_STRUCT(number_source, (troupe_text, folder), (int, rows), (int, does), (bool, waits),
              (troupe_text, other), // Key of a set beside "train"; NULL: none.
              (troupe_ref, weights), (troupe_array_double, secret));

// The loop writes `folder`/part_<rank>, and asks for `other`.
TROUPE_STRUCT(number_settings, (troupe_text, folder), (troupe_text, other), (bool, dies),
              (bool, stops));

static char *storage;

static void note(const char *folder, const char *name, const char *text)
{
    char *path = support_path(folder, name);
    FILE *file = fopen(path, "a");
    if (!file)
        abort();
    fputs(text, file);
    fclose(file);
    free(path);
}

static bool exists(void *path)
{
    return support_exists((const char *)path);
}

static troupe_status name_wrongly(troupe_data *data, const number_source *source)
{
    troupe_ref ref = troupe_put(int64_t, &(int64_t){1});
    if (source->does == EMPTY_REFERENCE || source->does == STALE_REFERENCE)
        troupe_ref_drop(ref);
    if (source->does == EMPTY_REFERENCE)
        ref = (troupe_ref){0};
    if (source->does == TWICE)
        TROUPE_TRY(troupe_data_set(data, "valid", troupe_ref_keep(ref), 1, TROUPE_SPLIT));
    return troupe_data_set(data, source->does == NO_KEY ? "" : "valid", ref,
                           source->does == NEGATIVE_ROWS ? -1 : 1,
                           source->does == NO_SUCH_WAY ? (troupe_sharing)7 : TROUPE_SPLIT);
}

static troupe_status setup_numbers(troupe_data *data, const number_source *source)
{
    char line[256];
    snprintf(line, sizeof line, "setup pid %d attempt %d ranks %d %s%s\n", (int)getpid(),
             data->attempt, data->ranks, data->metadata ? data->metadata : "none",
             (pid_t)syscall(SYS_gettid) == getpid() ? " on the main thread" : "");
    note(source->folder, "log", line);
    char *go = support_path(source->folder, "go");
    bool gone = !source->waits || support_wait_until(exists, go, 30000);
    free(go);
    if (!gone || !support_exists(data->path))
        return TROUPE_FAILED;
    if (source->does == NAMES_NONE)
        return TROUPE_OK;
    if (source->does == FAILS)
        return troupe_fail(TROUPE_IO, "the digits are not on this disk");
    if (source->does != NOTHING)
        return name_wrongly(data, source);
    troupe_buffer buffer;
    TROUPE_TRY(troupe_buffer_create((size_t)source->rows * sizeof(int64_t), &buffer));
    for (int i = 0; i < source->rows; i++)
        ((int64_t *)buffer.data)[i] = i;
    troupe_ref ref;
    TROUPE_TRY(troupe_buffer_seal(&buffer, &ref));
    if (source->other) {
        troupe_ref weights = source->weights.id ? troupe_ref_keep(source->weights)
                                                : troupe_put(int64_t, &(int64_t){7});
        TROUPE_TRY(troupe_data_set(data, source->other, weights, 1, TROUPE_SHARE_BY_NAME));
    }
    return troupe_data_set(data, "train", ref, source->rows, TROUPE_SHARE_BY_NAME);
}
TROUPE_DATA(numbers, number_source, setup_numbers);

// On each rank: 10 numbers that begin with the rank's hundred.
static troupe_status setup_own(troupe_data *data, const number_source *source)
{
    char line[64];
    int64_t seven;
    snprintf(line, sizeof line, "own %d of %d in %d %d\n", data->rank, data->ranks, (int)getpid(),
             data->attempt);
    note(source->folder, "log", line);
    if (!support_exists(data->path))
        return TROUPE_FAILED;
    if (source->does == FAILS && data->rank == 1)
        return troupe_fail(TROUPE_IO, "the digits are not on this disk");
    if (source->does == NAMES_NONE)
        return TROUPE_OK;
    TROUPE_TRY(troupe_get(int64_t, troupe_ref_keep(source->weights), &seven));
    int64_t *numbers = troupe_arena_alloc(10 * sizeof *numbers);
    for (int i = 0; i < 10; i++)
        numbers[i] = 100 * data->rank + i;
    troupe_ref all = troupe_put_bytes(numbers, 10 * sizeof *numbers);
    TROUPE_TRY(troupe_data_set(data, "valid", troupe_put(int64_t, &seven), 1, TROUPE_WHOLE));
    return troupe_data_set(data, "train", all, 10, TROUPE_SHARE_BY_NAME);
}
TROUPE_DATA(own, number_source, setup_own, .where = TROUPE_ON_RANKS);

static troupe_status read_part(troupe_rank *me, const number_settings *config)
{
    char name[32], line[64];
    troupe_shard part;
    troupe_view view;
    TROUPE_TRY(troupe_data_shard(me, "train", &part));
    TROUPE_TRY(troupe_view_bytes(part.data, &view, TROUPE_FOREVER));
    if (view.size != (size_t)part.all * sizeof(int64_t))
        return troupe_fail(TROUPE_FAILED, "%zu bytes", view.size);
    snprintf(name, sizeof name, "part_%d", me->rank);
    for (int64_t i = part.first; i < part.first + part.rows; i++) {
        snprintf(line, sizeof line, "%" PRId64 "\n", ((const int64_t *)view.data)[i]);
        note(config->folder, name, line);
    }
    troupe_view_end(&view);
    return TROUPE_OK;
}

static troupe_status read_other(troupe_rank *me, const number_settings *config)
{
    troupe_shard whole;
    int64_t number;
    TROUPE_TRY(troupe_data_shard(me, config->other, &whole));
    for (int i = 0; i < 2; i++) { // It is lent.
        TROUPE_TRY(troupe_get(int64_t, whole.data, &number));
        if (number != 7 || whole.first != 0 || whole.rows != 1 || whole.all != 1 ||
            whole.sharing != TROUPE_WHOLE)
            return troupe_fail(TROUPE_FAILED, "'%s' is not whole", config->other);
    }
    return TROUPE_OK;
}

static troupe_status sum(troupe_rank *me, const number_settings *config)
{
    int64_t done = 0;
    TROUPE_TRY(troupe_restore(int64_t, me, &done));
    if (done == 0)
        TROUPE_TRY(read_part(me, config));
    if (config->other)
        TROUPE_TRY(read_other(me, config));
    for (; done < 3; done++) {
        if (config->dies && me->rank == 1 && done == 2 && me->attempt == 0) {
            TROUPE_TRY(await_checkpoint(me, 1));
            kill(getpid(), SIGKILL);
        }
        if (config->stops && done == 1)
            return troupe_fail(TROUPE_FAILED, "it has had enough");
        int64_t next = done + 1;
        TROUPE_TRY(troupe_save(int64_t, me, &next));
        TROUPE_TRY(troupe_report(me, {"done", (double)next}));
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(sum, number_settings);

// The same in each batch of a loop of steps, with an object in its config.
TROUPE_STRUCT(step_settings, (troupe_ref, object), (bool, waits));

static troupe_status stepped_plan(troupe_rank *me, const step_settings *config, troupe_plan *plan)
{
    (void)me, (void)config;
    *plan = (troupe_plan){.epochs = 2, .batches = 3};
    return TROUPE_OK;
}

static troupe_status stepped_read(troupe_rank *me, const step_settings *config)
{
    int64_t object, number, sum = 0;
    troupe_shard part, whole;
    troupe_view view;
    TROUPE_TRY(troupe_get(int64_t, config->object, &object));
    TROUPE_TRY(troupe_data_shard(me, "valid", &whole));
    TROUPE_TRY(troupe_get(int64_t, whole.data, &number));
    TROUPE_TRY(troupe_data_shard(me, "train", &part));
    TROUPE_TRY(troupe_view_bytes(part.data, &view, TROUPE_FOREVER));
    for (int64_t i = part.first; i < part.first + part.rows; i++)
        sum += ((const int64_t *)view.data)[i];
    troupe_view_end(&view);
    TROUPE_TRY(troupe_allreduce(me, &sum, 1, TROUPE_SUM));
    return object == 42 && number == 7 && sum == 45
               ? TROUPE_OK
               : troupe_fail(TROUPE_FAILED, "%lld, %lld and %lld", (long long)object,
                             (long long)number, (long long)sum);
}

static troupe_status stepped_go_on(troupe_rank *me, troupe_ref ref)
{
    int64_t number;
    (void)me;
    return troupe_get(int64_t, ref, &number, TROUPE_POLL);
}

static troupe_status stepped_step(troupe_rank *me, const step_settings *config)
{
    TROUPE_TRY(stepped_read(me, config));
    if (!config->waits)
        return TROUPE_OK;
    return troupe_step_then(me, troupe_ref_keep(config->object), stepped_go_on);
}

static troupe_status stepped_end(troupe_rank *me, const step_settings *config)
{
    TROUPE_TRY(stepped_read(me, config));
    return troupe_report(me, {"epoch", (double)me->epoch});
}
TROUPE_STEPS(stepped, step_settings, .plan = stepped_plan, .step = stepped_step,
             .after_epoch = stepped_end);

typedef struct scene {
    number_source source;
    number_settings config;
    char *folder;
    troupe_result *result;
} scene;

static scene open_scene(int rows)
{
    char *folder = support_directory_make();
    return (scene){
        .source = {.folder = folder, .rows = rows}, .config = {.folder = folder}, .folder = folder};
}

static void close_scene(scene *of)
{
    troupe_result_free(&of->result);
    support_directory_remove(of->folder);
    troupe_arena_reset();
}

static troupe_status run(scene *of, int ranks, int restarts)
{
    return troupe_train(sum, &of->config, &of->result, .ranks = ranks, .restarts = restarts,
                        .storage = storage, .data = troupe_data_with(numbers, &of->source));
}

static char *read_file(const char *folder, const char *name)
{
    char *path = support_path(folder, name), *text = support_read_file(path);
    free(path);
    return text;
}

static int lines_of(const char *folder, const char *name, const char *word)
{
    int found = 0;
    char *text = read_file(folder, name);
    for (const char *at = text; at && (at = strstr(at, word)); at++)
        found++;
    free(text);
    return found;
}

static void assert_error(const scene *of, const char *words)
{
    const char *text = of->result ? troupe_result_error(of->result) : troupe_last_error()->text;
    if (!strstr(text, words))
        fail_msg("expected '%s' in: %s", words, text);
}

// ---- the setup

static bool store_is_empty(void *unused)
{
    troupe_store_usage usage;
    (void)unused;
    return troupe_store_usage_get(&usage) == TROUPE_OK && usage.objects == 0;
}

// A08: it runs in the driver, on a thread of its own, once an attempt, and later than the
// submission; what it made is gone after the run.
static void test_a_setup_runs_once_an_attempt(void **state)
{
    (void)state;
    scene of = open_scene(10);
    troupe_job *job;
    of.source.waits = of.config.dies = true;
    of.source.other = of.config.other = "valid";
    of.source.weights = troupe_put(int64_t, &(int64_t){7});
    troupe_must(troupe_submit(sum, &of.config, NULL, &job, .ranks = 2, .restarts = 1,
                              .storage = storage, .metadata = "{\"a\": 1}",
                              .data = troupe_data_with(numbers, &of.source)));
    troupe_ref_drop(of.source.weights); // What is submitted is copied.
    of.source.rows = 4000;
    of.source.does = FAILS;
    troupe_job_status now;
    troupe_job_status_get(job, &now);
    assert_int_equal(now.state, TROUPE_JOB_QUEUED);
    char *go = support_path(of.folder, "go");
    support_write_file(go, "", 0);
    free(go);
    troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &of.result));
    assert_string_equal(troupe_result_error(of.result), "");
    assert_int_equal(troupe_result_restarts(of.result), 1);
    troupe_job_close(&job);
    char expected[256], *text = read_file(of.folder, "log");
    snprintf(expected, sizeof expected,
             "setup pid %d attempt 0 ranks 2 {\"a\":1}\nsetup pid %d attempt 1 ranks 2 {\"a\":1}\n",
             (int)getpid(), (int)getpid());
    assert_string_equal(text, expected);
    free(text);
    assert_true(support_wait_until(store_is_empty, NULL, SUPPORT_SOON_MS));
    close_scene(&of);
}

static void assert_refused(int does, troupe_status expected, const char *words)
{
    scene of = open_scene(10);
    of.source.does = does;
    assert_int_equal(run(&of, 2, 3), expected);
    assert_error(&of, "setup of data 'numbers' failed: ");
    assert_error(&of, words);
    assert_int_equal(lines_of(of.folder, "log", "setup"), 1);
    close_scene(&of);
}

// A07.
static void test_a_set_that_is_none_is_named(void **state)
{
    (void)state;
    assert_refused(EMPTY_REFERENCE, TROUPE_INVALID, "the set 'valid' is an empty reference");
    assert_refused(STALE_REFERENCE, TROUPE_INVALID, "the set 'valid' is a stale reference");
    assert_refused(NEGATIVE_ROWS, TROUPE_INVALID,
                   "the set 'valid' has -1 rows: expected 0 or more");
    assert_refused(NO_SUCH_WAY, TROUPE_INVALID, "the set 'valid' is shared in way 7: expected");
    assert_refused(TWICE, TROUPE_INVALID, "there is a set 'valid' already");
    assert_refused(NO_KEY, TROUPE_INVALID, "the key is '': expected 1 to 63 bytes");
    assert_refused(NAMES_NONE, TROUPE_INVALID, "it named no set");
    assert_refused(FAILS, TROUPE_IO, "the digits are not on this disk");
    troupe_data data = {.ranks = 1};
    troupe_ref ref = troupe_put(int64_t, &(int64_t){1});
    assert_int_equal(troupe_data_set(&data, "train", ref, 1, TROUPE_SPLIT), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "was not called by the setup of data"));
    assert_true(support_wait_until(store_is_empty, NULL, SUPPORT_SOON_MS));
    number_settings config = {0};
    troupe_result *result = NULL;
    assert_int_equal(
        troupe_train(sum, &config, &result, .storage = storage,
                     .data = &(troupe_data_given){.table = &troupe_data_table_numbers}),
        TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "option .data has no table or no source"));
    troupe_data_table table = troupe_data_table_numbers;
    table.setup = NULL;
    assert_int_equal(troupe_data_register(&table), TROUPE_INVALID);
    table.setup = (troupe_status(*)(troupe_data *, const void *))1;
    assert_int_equal(troupe_data_register(&table), TROUPE_EXISTS);
}

// A run is not held up by a setup that hangs when it is ended; what that names later is dropped.
static void test_a_run_is_ended_during_the_setup_of_its_data(void **state)
{
    (void)state;
    scene of = open_scene(10);
    troupe_job *job;
    of.source.waits = true;
    int threads = support_count_threads();
    troupe_must(troupe_submit(sum, &of.config, NULL, &job, .storage = storage,
                              .data = troupe_data_with(numbers, &of.source)));
    char *go = support_path(of.folder, "go"), *log = support_path(of.folder, "log");
    assert_true(support_wait_until(exists, log, SUPPORT_SOON_MS));
    troupe_job_kill(job, TROUPE_CANCELLED, "nobody wants it");
    troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &of.result));
    assert_int_equal(troupe_result_status(of.result), TROUPE_CANCELLED);
    troupe_job_close(&job);
    support_write_file(go, "", 0);
    int64_t until = support_now_ms() + SUPPORT_SOON_MS;
    while (support_count_threads() > threads && support_now_ms() < until)
        usleep(1000);
    assert_true(support_wait_until(store_is_empty, NULL, SUPPORT_SOON_MS));
    free(go);
    free(log);
    close_scene(&of);
}

// ---- the parts

// A09: parts follow each other, differ by at most one row, and are together each row once.
static void test_parts_are_together_the_whole(void **state)
{
    (void)state;
    static const int64_t rows[] = {0, 1, 2, 3, 7, 64, 1000, INT64_MAX};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int world = 1; world <= 65; world++) {
            trp_data_set set = {.rows = rows[i], .split = true};
            int64_t next = 0, least = INT64_MAX, most = 0;
            for (int rank = 0; rank < world; rank++) {
                troupe_shard part = trp_data_part(&set, rank, world);
                assert_true(part.first == next && part.all == rows[i] && part.rows >= 0);
                next += part.rows;
                least = part.rows < least ? part.rows : least;
                most = part.rows > most ? part.rows : most;
            }
            assert_true(next == rows[i]);
            assert_true(most - least <= 1);
        }
}

// A09: "train" is split, others are whole, and a key that is not there lists those that are.
static void test_ranks_have_their_parts(void **state)
{
    (void)state;
    scene of = open_scene(10);
    of.source.other = of.config.other = "valid";
    assert_int_equal(run(&of, 3, 0), TROUPE_OK);
    static const char *const parts[] = {"0\n1\n2\n3\n", "4\n5\n6\n", "7\n8\n9\n"};
    for (int rank = 0; rank < 3; rank++) {
        char name[32];
        snprintf(name, sizeof name, "part_%d", rank);
        char *text = read_file(of.folder, name);
        assert_string_equal(text, parts[rank]);
        free(text);
    }
    close_scene(&of);
    of = open_scene(10);
    of.source.other = "valid";
    of.config.other = "test";
    assert_int_equal(run(&of, 1, 0), TROUPE_NOT_FOUND);
    assert_error(&of, "there is no data set 'test': the run has train, valid");
    close_scene(&of);
    of = open_scene(10);
    assert_int_equal(troupe_train(sum, &of.config, &of.result, .storage = storage),
                     TROUPE_NOT_FOUND);
    assert_error(&of, "there is no data set 'train': the run has no .data");
    close_scene(&of);
}

static troupe_status run_own(scene *of, int ranks, int restarts, const char *share)
{
    troupe_result_free(&of->result);
    return troupe_train(sum, &of->config, &of->result, .ranks = ranks, .restarts = restarts,
                        .storage = storage,
                        .data = troupe_data_with(own, &of->source, .share = share));
}

static void assert_parts(const scene *of, int ranks, const char *const *parts)
{
    for (int rank = 0; rank < ranks; rank++) {
        char name[32];
        snprintf(name, sizeof name, "part_%d", rank);
        char *text = read_file(of->folder, name);
        assert_string_equal(text, parts[rank]);
        free(text);
    }
}

// F19: a setup runs on each rank where it says so, once an attempt, and names sets of that rank.
static void test_a_setup_may_run_on_each_rank(void **state)
{
    (void)state;
    scene of = open_scene(10);
    of.config.other = "valid";
    of.config.dies = true;
    of.source.weights = troupe_put(int64_t, &(int64_t){7});
    assert_int_equal(run_own(&of, 3, 1, NULL), TROUPE_OK);
    assert_int_equal(troupe_result_restarts(of.result), 1);
    static const char *const parts[] = {"0\n1\n2\n3\n", "104\n105\n106\n", "207\n208\n209\n"};
    assert_parts(&of, 3, parts);
    assert_int_equal(lines_of(of.folder, "log", "own"), 6);
    char driver[32], *text = read_file(troupe_result_path(of.result), "run.json");
    snprintf(driver, sizeof driver, "in %d ", (int)getpid());
    assert_int_equal(lines_of(of.folder, "log", driver), 0);
    assert_int_equal(lines_of(of.folder, "log", "own 1 of 3"), 2);
    assert_non_null(strstr(text, "\"name\": \"own\""));
    free(text);
    of.config.dies = false;
    of.source.does = FAILS;
    assert_int_equal(run_own(&of, 2, 0, NULL), TROUPE_IO);
    assert_error(&of, "setup of data 'own' failed: the digits are not on this disk");
    of.source.does = NAMES_NONE;
    assert_int_equal(run_own(&of, 1, 0, NULL), TROUPE_INVALID);
    assert_error(&of, "setup of data 'own' failed: it named no set");
    of.source.does = NOTHING;
    of.config.other = "test";
    assert_int_equal(run_own(&of, 1, 0, NULL), TROUPE_NOT_FOUND);
    assert_error(&of, "there is no data set 'test': the run has train, valid");
    troupe_ref_drop(of.source.weights);
    close_scene(&of);
    assert_true(support_wait_until(store_is_empty, NULL, SUPPORT_SOON_MS));
    troupe_data_table table = troupe_data_table_own;
    table.where = (troupe_where)2;
    assert_int_equal(troupe_data_register(&table), TROUPE_INVALID);
    table.where = TROUPE_IN_DRIVER;
    assert_int_equal(troupe_data_register(&table), TROUPE_EXISTS);
}

// D09: a run says how its sets are shared, whatever their setup says; a rank is told.
static void test_a_run_says_how_its_sets_are_shared(void **state)
{
    (void)state;
    static const struct {
        const char *share, *told;
    } wrong[] = {
        {"train", "option .share has 'train': expected key=split or key=whole"},
        {"train=all", "option .share has 'train=all': expected"},
        {"=split", "option .share has '=split': expected"},
        {"train=whole,", NULL},
        {"valid=whole, test=split", "option .share has 'test', which is none of its sets"},
    };
    static const char *const all[] = {"0\n1\n2\n", "0\n1\n2\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        scene of = open_scene(3);
        of.source.other = of.config.other = "valid";
        troupe_status status =
            troupe_train(sum, &of.config, &of.result, .ranks = 2, .storage = storage,
                         .data = troupe_data_with(numbers, &of.source, .share = wrong[i].share));
        assert_int_equal(status, wrong[i].told ? TROUPE_INVALID : TROUPE_OK);
        if (wrong[i].told)
            assert_error(&of, wrong[i].told);
        else
            assert_parts(&of, 2, all);
        close_scene(&of);
    }
    scene of = open_scene(0);
    of.source.weights = troupe_put(int64_t, &(int64_t){7});
    assert_int_equal(run_own(&of, 1, 0, "test=split"), TROUPE_INVALID);
    assert_error(&of, "which is none of its sets");
    troupe_ref_drop(of.source.weights);
    close_scene(&of);
}

// References last from batch to batch, also where ranks share a process, and go when the loop ends.
static void test_steps_read_data_and_objects_in_each_batch(void **state)
{
    (void)state;
    static const int shares[] = {1, 2, 4};
    for (size_t i = 0; i < 2 * sizeof shares / sizeof *shares; i++) {
        scene of = open_scene(10);
        of.source.other = "valid";
        troupe_job *job;
        step_settings config = {troupe_put(int64_t, &(int64_t){42}), i % 2 == 1};
        troupe_must(troupe_submit(stepped, &config, NULL, &job, .ranks = 4, .storage = storage,
                                  .cpus_per_rank = 0.5, .ranks_per_process = shares[i / 2],
                                  .data = troupe_data_with(numbers, &of.source)));
        troupe_ref_drop(config.object);
        troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &of.result));
        assert_string_equal(troupe_result_error(of.result), "");
        assert_int_equal(troupe_result_reports(of.result), 2);
        troupe_job_close(&job);
        close_scene(&of);
        assert_true(support_wait_until(store_is_empty, NULL, SUPPORT_SOON_MS));
    }
}

// ---- going on

static troupe_status resume(scene *of, const char *name, bool with, bool force)
{
    troupe_result_free(&of->result);
    return troupe_train(sum, &of->config, &of->result, .storage = storage, .name = name,
                        .open = TROUPE_OPEN_RESUME, .force = force,
                        .data = with ? troupe_data_with(numbers, &of->source) : NULL);
}

static void stop_after_one(scene *of, const char *name, bool with)
{
    of->config.stops = true;
    assert_int_equal(troupe_train(sum, &of->config, &of->result, .storage = storage, .name = name,
                                  .data = with ? troupe_data_with(numbers, &of->source) : NULL),
                     TROUPE_FAILED);
    of->config.stops = false;
}

// B08: a run that had data needs them again, with the same keys; run.json has these and the name.
static void test_a_run_that_goes_on_needs_its_data(void **state)
{
    (void)state;
    scene of = open_scene(10);
    double secret[] = {4242.5};
    of.source.secret = (troupe_array_double){secret, 1};
    of.source.other = of.config.other = "valid";
    stop_after_one(&of, "needy", true);
    char *text = read_file(troupe_result_path(of.result), "run.json");
    assert_non_null(strstr(text, "\"keys\": [\"train\", \"valid\"]"));
    assert_non_null(strstr(text, "\"name\": \"numbers\""));
    assert_null(strstr(text, "4242"));
    free(text);
    assert_int_equal(resume(&of, "needy", false, false), TROUPE_INVALID);
    assert_error(&of, "has data 'numbers', which have to be given again: train, valid");
    of.source.other = "test";
    assert_int_equal(resume(&of, "needy", true, false), TROUPE_INVALID);
    assert_error(&of, "expected the sets train, valid, and 'numbers' has test, train");
    of.source.other = "valid";
    assert_int_equal(resume(&of, "needy", true, false), TROUPE_OK);
    assert_int_equal(troupe_result_reports(of.result), 3);
    assert_int_equal(lines_of(of.folder, "log", "setup"), 3);
    // It has ended well: its result needs none.
    assert_int_equal(resume(&of, "needy", false, false), TROUPE_OK);
    assert_int_equal(lines_of(of.folder, "log", "setup"), 3);
    close_scene(&of);
}

static void test_other_data_need_force(void **state)
{
    (void)state;
    scene of = open_scene(10);
    stop_after_one(&of, "forced", true);
    of.source.other = of.config.other = "valid";
    assert_int_equal(resume(&of, "forced", true, false), TROUPE_INVALID);
    of.config.stops = true;
    assert_int_equal(resume(&of, "forced", true, true), TROUPE_FAILED);
    of.config.stops = false;
    assert_error(&of, "it has had enough");
    assert_int_equal(resume(&of, "forced", true, false), TROUPE_OK); // They are those of the run.
    close_scene(&of);
    of = open_scene(10);
    assert_int_equal(troupe_train(sum, &of.config, &of.result, .storage = storage, .name = "bare"),
                     TROUPE_NOT_FOUND);
    assert_int_equal(resume(&of, "bare", true, false), TROUPE_INVALID);
    assert_error(&of, "has no data, and is given 'numbers'");
    assert_int_equal(resume(&of, "bare", true, true), TROUPE_OK);
    close_scene(&of);
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .cpus = 4));
    storage = support_directory_make();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_setup_runs_once_an_attempt),
        cmocka_unit_test(test_a_set_that_is_none_is_named),
        cmocka_unit_test(test_a_run_is_ended_during_the_setup_of_its_data),
        cmocka_unit_test(test_parts_are_together_the_whole),
        cmocka_unit_test(test_ranks_have_their_parts),
        cmocka_unit_test(test_a_setup_may_run_on_each_rank),
        cmocka_unit_test(test_a_run_says_how_its_sets_are_shared),
        cmocka_unit_test(test_steps_read_data_and_objects_in_each_batch),
        cmocka_unit_test(test_a_run_that_goes_on_needs_its_data),
        cmocka_unit_test(test_other_data_need_force),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    support_directory_remove(storage);
    return troupe_stop() || failed;
}
