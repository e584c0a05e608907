// test_option_ranges.c: every option of troupe_start at both ends of its range and beyond them, and
// the options of other functions beyond theirs: it works, or is refused with an error text that
// names the option.
#include <support.h>

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>

typedef struct plain {
    int unused;
} plain;

static troupe_status plain_echo(plain *self, const int *in, int *out)
{
    (void)self;
    *out = *in;
    return TROUPE_OK;
}
TROUPE_ACTOR(plain, (plain_echo, int, int, .options = TROUPE_METHOD_REPEATABLE));

static troupe_status doubled(const int *in, int *out)
{
    *out = 2 * *in;
    return TROUPE_OK;
}
TROUPE_TASK(doubled, int, int);

TROUPE_STRUCT(pair, (int, left), (int, right));
static troupe_status fit(troupe_rank *me, const pair *config)
{
    (void)config;
    return troupe_report(me, {"loss", 1});
}
TROUPE_TRAINER(fit, pair, .saves_when_due = true);

TROUPE_STRUCT(line, (double, slope));
static troupe_status line_setup(line *self, const pair *config, troupe_use *use)
{
    self->slope = config->left * use->world;
    return TROUPE_OK;
}

static troupe_status line_forward(line *self, const troupe_tensor *x, troupe_tensor *y)
{
    *y = *x;
    return self->slope < 0 ? TROUPE_INVALID : TROUPE_OK;
}
TROUPE_MODEL(line, pair, line, line_setup, line_forward);

#define TIB ((size_t)1 << 40)
static char long_text[10000];

// MAY: it depends on the machine whether it works.
enum { WORKS, REFUSED, MAY };

static const struct {
    const char *name;
    int expected;
    troupe_options how;
} starts[] = {
    {"nothing", WORKS, {0}},
    {".workers", WORKS, {.workers = TROUPE_NONE}},
    {".workers", WORKS, {.workers = 1024}},
    {".workers", REFUSED, {.workers = 1025}},
    {".workers", REFUSED, {.workers = -3}},
    {".workers", REFUSED, {.workers = TROUPE_FOREVER}},
    {".workers", REFUSED, {.workers = INT_MIN}},
    {".cpus", WORKS, {.cpus = 0.0001}},
    {".cpus", WORKS, {.cpus = 65536}},
    {".cpus", REFUSED, {.cpus = 65537}},
    {".cpus", REFUSED, {.cpus = 1e-300}},
    {".cpus", REFUSED, {.cpus = -1}},
    {".cpus", REFUSED, {.cpus = INFINITY}},
    {".cpus", REFUSED, {.cpus = NAN}},
    {".threads", WORKS, {.threads = 256}},
    {".threads", REFUSED, {.threads = 257}},
    {".threads", REFUSED, {.threads = -1}},
    {".store_bytes_max", WORKS, {.store_bytes_max = 1 << 20}},
    {".store_bytes_max", MAY, {.store_bytes_max = 16 * TIB}},
    {".store_bytes_max", REFUSED, {.store_bytes_max = 1}},
    {".store_bytes_max", REFUSED, {.store_bytes_max = 16 * TIB + 1}},
    {".store_bytes_max", REFUSED, {.store_bytes_max = SIZE_MAX}},
    {".message_bytes_max", WORKS, {.message_bytes_max = 1 << 16}},
    {".message_bytes_max", REFUSED, {.message_bytes_max = 1}},
    {".message_bytes_max", REFUSED, {.message_bytes_max = (size_t)1 << 63}},
    {".message_bytes_max", REFUSED, {.message_bytes_max = SIZE_MAX}},
    {".node_message_bytes_max", WORKS, {.node_message_bytes_max = 1 << 16}},
    {".node_message_bytes_max", WORKS, {.node_message_bytes_max = (size_t)4095 << 20}},
    {".node_message_bytes_max", REFUSED, {.node_message_bytes_max = ((size_t)4095 << 20) + 1}},
    {".node_message_bytes_max", REFUSED, {.node_message_bytes_max = 1}},
    {".directory", WORKS, {.directory = ""}},
    {"/nonexistent", REFUSED, {.directory = "/nonexistent"}},
    {".directory", REFUSED, {.directory = long_text}},
    {".launch", REFUSED, {.launch = (troupe_launch)-1}},
    {".launch", REFUSED, {.launch = (troupe_launch)3}},
    {".stop_timeout_ms", WORKS, {.stop_timeout_ms = 1}},
    {".stop_timeout_ms", WORKS, {.stop_timeout_ms = INT_MAX}},
    {".stop_timeout_ms", REFUSED, {.stop_timeout_ms = -1}},
    {".worker_output", REFUSED, {.worker_output = (troupe_output)-1}},
    {".worker_output", REFUSED, {.worker_output = (troupe_output)4}},
    {".gpus", WORKS, {.gpus = TROUPE_NONE}},
    {".gpus", WORKS, {.gpus = 64}},
    {".gpus", REFUSED, {.gpus = 65}},
    {".gpus", REFUSED, {.gpus = -3}},
    {".gpus", REFUSED, {.gpus = TROUPE_FOREVER}},
    {".memory_bytes", WORKS, {.memory_bytes = 1}},
    {".memory_bytes", WORKS, {.memory_bytes = 1024 * TIB}},
    {".memory_bytes", REFUSED, {.memory_bytes = 1024 * TIB + 1}},
    {".memory_bytes", REFUSED, {.memory_bytes = (size_t)1 << 63}},
    {".memory_bytes", REFUSED, {.memory_bytes = SIZE_MAX}},
    {"resources", WORKS, {.resources = ""}},
    {"resources", REFUSED, {.resources = "nonsense"}},
    {"license", REFUSED, {.resources = "license=-1"}},
    {"resources", REFUSED, {.resources = long_text}},
    {".worker_env", REFUSED, {.worker_env = "nonsense"}},
    {".worker_library", REFUSED, {.worker_library = "/nonexistent/lib.so"}},
    {".worker_library", REFUSED, {.worker_library = ""}},
    {"working folder", REFUSED, {.worker_folder = "/nonexistent"}},
    {"working folder", REFUSED, {.worker_folder = long_text}},
    {".transport", REFUSED, {.transport = (troupe_transport)-1}},
    {".transport", REFUSED, {.transport = (troupe_transport)4}},
    {"trace", REFUSED, {.trace = "/nonexistent/trace"}},
    {".listen", REFUSED, {.listen = ""}},
    {".listen", REFUSED, {.listen = "nonsense", .keys = "k"}},
    {".listen", REFUSED, {.listen = long_text, .keys = "k"}},
    {".request_timeout_ms", WORKS, {.request_timeout_ms = 50}},
    {".request_timeout_ms", WORKS, {.request_timeout_ms = 3600000}},
    {".request_timeout_ms", REFUSED, {.request_timeout_ms = 49}},
    {".request_timeout_ms", REFUSED, {.request_timeout_ms = 3600001}},
    {".request_timeout_ms", REFUSED, {.request_timeout_ms = -1}},
    {".node_timeout_ms", WORKS, {.node_timeout_ms = 200}},
    {".node_timeout_ms", WORKS, {.node_timeout_ms = 3600000}},
    {".node_timeout_ms", REFUSED, {.node_timeout_ms = 199}},
    {".node_timeout_ms", REFUSED, {.node_timeout_ms = 3600001}},
    {".node_timeout_ms", REFUSED, {.node_timeout_ms = -1}},
    {".spill_dir", WORKS, {.spill_dir = ""}},
    {".spill_dir", REFUSED, {.spill_dir = "nonsense"}},
    {".spill_dir", REFUSED, {.spill_dir = long_text}},
    {".spill_bytes_max", WORKS, {.spill_bytes_max = TROUPE_NONE}},
    {".spill_bytes_max", WORKS, {.spill_bytes_max = INT64_MAX}},
    {".spill_bytes_max", REFUSED, {.spill_bytes_max = -3}},
    {".spill_bytes_max", REFUSED, {.spill_bytes_max = TROUPE_FOREVER}},
    {".spill_bytes_max", REFUSED, {.spill_bytes_max = INT64_MIN}},
    {".store_wait_ms", WORKS, {.store_wait_ms = TROUPE_NONE}},
    {".store_wait_ms", WORKS, {.store_wait_ms = INT_MAX}},
    {".store_wait_ms", REFUSED, {.store_wait_ms = -3}},
    {".store_wait_ms", REFUSED, {.store_wait_ms = TROUPE_FOREVER}},
};

static void test_starts(void **state)
{
    (void)state;
    int faults = 0;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        troupe_options how = starts[i].how;
        how.size = sizeof how;
        int out = 0, three = 3;
        troupe_status status = troupe_start_with(0, NULL, &how);
        if (status == TROUPE_OK) {
            plain_actor one = troupe_spawn(plain, .place = TROUPE_PLACE_HERE);
            troupe_ref ref = troupe_put(int, &three);
            troupe_must(troupe_get(int, troupe_call(one, plain_echo, 7), &out));
            troupe_must(troupe_get(int, ref, &three));
            assert_int_equal(out, 7);
            assert_int_equal(troupe_stop(), 0);
        }
        const char *text = troupe_last_error()->text;
        bool right = status == TROUPE_OK
                         ? starts[i].expected != REFUSED
                         : starts[i].expected != WORKS && strstr(text, starts[i].name) != NULL;
        if (!right)
            fprintf(stderr, "row %zu, %s: %s, \"%s\"\n", i, starts[i].name,
                    troupe_status_name(status), text);
        faults += !right;
    }
    assert_int_equal(faults, 0);
}

// ---- the others

static int faults;

static void expect(troupe_status status, const char *name)
{
    if (status == TROUPE_INVALID && strstr(troupe_last_error()->text, name) != NULL)
        return;
    fprintf(stderr, "%s: %s, \"%s\"\n", name, troupe_status_name(status),
            troupe_last_error()->text);
    faults++;
}

static troupe_status outcome(troupe_ref ref)
{
    int value;
    return troupe_get(int, ref, &value);
}

#define SPAWN(...) troupe_actor_status(troupe_spawn(plain, __VA_ARGS__).address)

static void test_actors(void **state)
{
    (void)state;
    faults = 0;
    expect(SPAWN(.place = (troupe_place)4), ".place");
    expect(SPAWN(.place = (troupe_place)-1), ".place");
    expect(SPAWN(.cpus = -1), ".cpus");
    expect(SPAWN(.cpus = NAN), ".cpus");
    expect(SPAWN(.gpus = INFINITY), ".gpus");
    expect(SPAWN(.memory_bytes = (size_t)1 << 63), ".memory_bytes");
    expect(SPAWN(.resources = "nonsense"), "resources");
    expect(SPAWN(.restarts = -3), ".restarts");
    expect(SPAWN(.lifetime = (troupe_lifetime)2), ".lifetime");
    expect(SPAWN(.concurrency = UINT32_MAX), ".concurrency");
    expect(SPAWN(.backoff_max_ms = UINT32_MAX), ".backoff_max_ms");
    expect(SPAWN(.backoff_reset_ms = 86400001), ".backoff_reset_ms");
    expect(SPAWN(.deadline_ms = UINT32_MAX), ".deadline_ms");
    troupe_must(SPAWN(.deadline_ms = INT32_MAX));
    troupe_must(SPAWN(.mailbox_max = UINT32_MAX)); // More than can be: as many as can be.
    plain_actor one = troupe_spawn(plain, .restarts = INT_MAX, .backoff_ms = UINT32_MAX);
    troupe_must(outcome(troupe_call(troupe_with(one, .deadline_ms = UINT32_MAX), plain_echo, 1)));
    troupe_must(outcome(troupe_call(troupe_with(one, .retries = UINT32_MAX), plain_echo, 1)));
    assert_int_equal(troupe_actor_kill(one), TROUPE_OK);
    troupe_child child = TROUPE_CHILD(plain, .shutdown_ms = -3);
    expect(troupe_actor_status(troupe_supervisor_start(&child, 1).address), ".shutdown_ms");
    child.shutdown_ms = 0;
    expect(troupe_actor_status(troupe_supervisor_start(&child, 1, .restarts = 65).address),
           ".restarts");
    expect(troupe_actor_status(troupe_supervisor_start(&child, 1, .restarts = -3).address),
           ".restarts");
    expect(troupe_actor_status(
               troupe_supervisor_start(&child, 1, .backoff_max_ms = UINT32_MAX).address),
           ".backoff_max_ms");
    expect(troupe_actor_status(
               troupe_supervisor_start(&child, 1, .backoff_reset_ms = 86400001).address),
           ".backoff_reset_ms");
    expect(troupe_actor_status(
               troupe_supervisor_start(&child, 1, .strategy = (troupe_strategy)3).address),
           ".strategy");
    expect(
        troupe_actor_status(troupe_supervisor_start(&child, 1, .place = (troupe_place)4).address),
        ".place");
    expect(troupe_actor_status(troupe_supervisor_start(&child, SIZE_MAX / 8).address),
           "child_count");
    assert_int_equal(faults, 0);
}

static void test_many(void **state)
{
    (void)state;
    int five = 5;
    troupe_ref refs[1] = {{0}};
    troupe_pool *pool = NULL;
    troupe_map *map;
    faults = 0;
    expect(outcome(troupe_run_from(doubled, &five, .retries = -3)), "retries");
    expect(outcome(troupe_run_from(doubled, &five, .place = (troupe_place)9)), ".place");
    expect(outcome(troupe_run_from(doubled, &five, .cpus = NAN)), ".cpus");
    expect(outcome(troupe_run_from(doubled, &five, .memory_bytes = SIZE_MAX)), ".memory_bytes");
    expect(troupe_pool_open(plain, &pool, .count = SIZE_MAX), "count");
    expect(troupe_pool_open(plain, &pool, .actor_count = SIZE_MAX, .actors = &(troupe_actor){0}),
           "actor_count");
    map = troupe_run_map(doubled, &five, 1, .in_flight = SIZE_MAX);
    assert_non_null(map);
    troupe_must(troupe_map_next(int, map, &five, NULL));
    troupe_map_close(map);
    map = troupe_run_map_as(
        &troupe_task_doubled, &five, SIZE_MAX,
        &(troupe_map_options){.size = sizeof(troupe_map_options), .in_flight = SIZE_MAX});
    assert_null(map);
    expect(troupe_last_error()->status, "count");
    expect(troupe_wait(refs, 1, 2, 0, (bool[1]){0}, NULL), "needed");
    expect(troupe_get_all_as(&troupe_type_int, refs, SIZE_MAX, &five, TROUPE_POLL), "count");
    expect(troupe_wait(refs, SIZE_MAX, 1, 0, (bool[1]){0}, NULL), "count");
    expect(outcome(troupe_ref_join_as(&troupe_type_troupe_array_int, refs, SIZE_MAX)), "count");
    troupe_rank rank = {.world = 1};
    troupe_batches *batches;
    expect(troupe_batches_open(&rank, "train", &batches, .batch = -1), "batch");
    expect(troupe_batches_open(&rank, "train", &batches, .batch = (int64_t)INT32_MAX + 1), "batch");
    expect(troupe_batches_open(&rank, "train", &batches, .step_rows = -1), "step_rows");
    expect(troupe_batches_open(&rank, "train", &batches, .step_rows = (int64_t)INT32_MAX + 1),
           "step_rows");
    expect(troupe_batches_open(&rank, "train", &batches, .batch = 8, .step_rows = 8), "step_rows");
    expect(troupe_batches_open(&rank, "train", &batches, .prefetch = 65), "prefetch");
    expect(troupe_batches_open(&rank, "train", &batches, .prefetch = TROUPE_FOREVER), "prefetch");
    troupe_queue queue = troupe_queue_open(int, .place = (troupe_place)7);
    expect(troupe_actor_status(queue.address), ".place");
    queue = troupe_queue_open(int, .capacity = UINT32_MAX, .bytes_max = SIZE_MAX);
    troupe_must(troupe_queue_put(int, queue, &five));
    expect(troupe_queue_put_many(int, queue, &five, SIZE_MAX, NULL), "count");
    troupe_must(troupe_queue_get_many(int, queue, &five, 1, NULL, TROUPE_POLL));
    assert_int_equal(faults, 0);
}

static void test_objects(void **state)
{
    (void)state;
    troupe_channel channel;
    troupe_buffer buffer;
    faults = 0;
    assert_int_equal(troupe_channel_open(SIZE_MAX, 2, 1, &channel), TROUPE_TOO_LARGE);
    expect(troupe_channel_open(8, 0, 1, &channel), "slots");
    expect(troupe_channel_open(8, 1025, 1, &channel), "slots");
    expect(troupe_channel_open(8, UINT32_MAX, 1, &channel), "slots");
    expect(troupe_channel_open(8, 2, 0, &channel), "readers");
    expect(troupe_channel_open(8, 2, UINT32_MAX, &channel), "readers");
    assert_int_equal(troupe_buffer_create(SIZE_MAX, &buffer), TROUPE_TOO_LARGE);
    assert_int_equal(outcome(troupe_put_bytes(&buffer, SIZE_MAX)), TROUPE_TOO_LARGE);
    assert_null(troupe_arena_alloc(SIZE_MAX));
    assert_int_equal(faults, 0);
}

#define TRAIN(...) troupe_train(fit, &config, &result, .storage = storage, __VA_ARGS__)
#define TUNE(...)                                                                                  \
    troupe_tune(fit, space, &sweep, .metric = "loss", .goal = TROUPE_MINIMIZE, __VA_ARGS__)

static void test_training(void **state)
{
    (void)state;
    pair config = {0};
    troupe_result *result;
    troupe_sweep *sweep;
    const troupe_param space[] = {TROUPE_INTEGER(pair, left, 1, 2)};
    char *storage = support_directory_make();
    faults = 0;
    expect(TRAIN(.ranks = -1), ".ranks");
    expect(TRAIN(.ranks = INT_MAX), ".ranks");
    expect(TRAIN(.cpus_per_rank = -1), ".cpus_per_rank");
    expect(TRAIN(.cpus_per_rank = NAN), ".cpus_per_rank");
    expect(TRAIN(.coordinator_cpus = -1), ".coordinator_cpus");
    expect(TRAIN(.coordinator_cpus = NAN), ".coordinator_cpus");
    expect(TRAIN(.coordinator_cpus = 1e7), ".coordinator_cpus");
    expect(TRAIN(.gpus_per_rank = -1), ".gpus_per_rank");
    expect(TRAIN(.gpus_per_rank = NAN), ".gpus_per_rank");
    expect(TRAIN(.gpus_per_rank = 1e7), ".gpus_per_rank");
    assert_int_equal(TRAIN(.memory_per_rank_bytes = SIZE_MAX), TROUPE_TOO_LARGE);
    expect(TRAIN(.resources_per_rank = "license"), ".resources_per_rank");
    expect(TRAIN(.env = "no line"), ".env");
    expect(TRAIN(.time_limit_s = -1), ".time_limit_s");
    expect(TRAIN(.time_limit_s = NAN), ".time_limit_s");
    expect(TRAIN(.time_limit_s = 1e-4), ".time_limit_s");
    expect(TRAIN(.time_limit_s = 1e10), ".time_limit_s");
    expect(TRAIN(.time_limit_grace_s = -1), ".time_limit_grace_s");
    expect(TRAIN(.time_limit_grace_s = INFINITY), ".time_limit_grace_s");
    expect(TRAIN(.keep = -1), ".keep");
    expect(TRAIN(.keep_goal = (troupe_goal)3), ".keep_goal");
    expect(TRAIN(.keep_metric = "loss"), ".keep_goal");
    expect(TRAIN(.keep_metric = ""), ".keep_metric");
    expect(TRAIN(.collective_timeout_ms = -1), ".collective_timeout_ms");
    expect(TRAIN(.checkpoint_every = -1), ".checkpoint_every");
    expect(TRAIN(.expected_reports = -1), ".expected_reports");
    expect(TRAIN(.min_ranks = -1), ".min_ranks");
    expect(TRAIN(.min_ranks = 2), ".min_ranks");
    expect(TRAIN(.server = (troupe_server_choice)3), ".server");
    assert_int_equal(TRAIN(.priority = 1), TROUPE_UNSUPPORTED); // Without a server.
    assert_int_equal(TRAIN(.start_at = 1e9), TROUPE_UNSUPPORTED);
    expect(TRAIN(.ranks_per_process = -1), ".ranks_per_process");
    expect(TRAIN(.open = (troupe_open)3), ".open");
    expect(TRAIN(.metadata = "[1]"), ".metadata");
    expect(TRAIN(.params = "[1]"), ".params");
    expect(TRAIN(.console = (troupe_console)3), ".console");
    expect(TRAIN(.sync = (troupe_sync)3), ".sync");
    expect(TRAIN(.name = long_text), ".name");
    expect(troupe_train(fit, &config, &result, .storage = ""), ".storage");
    expect(troupe_tune(fit, space, &sweep, .metric = "loss"), "goal");
    expect(troupe_tune(fit, space, &sweep, .metric = "loss", .goal = (troupe_goal)3), "goal");
    expect(TUNE(.trials = -1), "trials");
    expect(TUNE(.trials = INT_MAX), "trials");
    expect(TUNE(.concurrent = -1), "concurrent");
    expect(TUNE(.search = (troupe_search)3), "search");
    expect(TUNE(.grid_points = -1), "grid_points");
    expect(TUNE(.grid_points = INT_MAX), "grid_points");
    expect(TUNE(.scheduler = troupe_asha(.grace = -1)), "grace");
    expect(TUNE(.scheduler = troupe_asha(.reduction = 1)), "reduction");
    expect(TUNE(.scheduler = troupe_asha(.reduction = -1)), "reduction");
    expect(TUNE(.scheduler = troupe_asha(.limit = -1)), "limit");
    expect(troupe_tune_as(&troupe_trainer_fit, space, SIZE_MAX, &sweep,
                          &(troupe_tune_options){.size = sizeof(troupe_tune_options),
                                                 .metric = "loss",
                                                 .goal = TROUPE_MINIMIZE}),
           "count");
    support_directory_remove(storage);
    assert_int_equal(faults, 0);
}

static void test_results(void **state)
{
    (void)state;
    static const char record[] = "{\"event\": \"sweep\"}\n";
    troupe_results *results;
    const troupe_trial_results *trial;
    double value;
    char *folder = support_directory_make(), *path = support_path(folder, "trials.jsonl");
    support_write_file(path, record, sizeof record - 1);
    troupe_must(troupe_results_open(folder, &results));
    faults = 0;
#define BEST(...) troupe_results_best(results, &trial, &value, __VA_ARGS__)
    expect(BEST(.scope = (troupe_scope)5), ".scope");
    expect(BEST(.scope = (troupe_scope)-1), ".scope");
    expect(BEST(.goal = (troupe_goal)3), ".goal");
    expect(BEST(.metric = "other"), ".goal");
    expect(troupe_results_export(results, stdout, .format = (troupe_export_format)2), ".format");
    expect(troupe_results_value(results, 0, &value), "0");
    troupe_results_free(&results);
    free(path);
    support_directory_remove(folder);
    assert_int_equal(faults, 0);
}

#define SERVE(...) troupe_serve(line, NULL, "/line", &service, __VA_ARGS__)

static void test_serving(void **state)
{
    (void)state;
    troupe_service service;
    faults = 0;
    expect(SERVE(.replicas = 257), ".replicas");
    expect(SERVE(.replicas = UINT32_MAX), ".replicas");
    expect(SERVE(.batch = UINT32_MAX), ".batch");
    expect(SERVE(.queue = UINT32_MAX), ".queue");
    expect(SERVE(.deadline_ms = UINT32_MAX), ".deadline_ms");
    expect(SERVE(.http = (troupe_http)2), ".http");
    expect(SERVE(.http = (troupe_http)-1), ".http");
    expect(SERVE(.port = -1), ".port");
    expect(SERVE(.port = 65536), ".port");
    expect(troupe_serve(line, NULL, long_text, &service), "route");
    assert_int_equal(faults, 0);
}

// Options of a newer header, longer than this library knows; or such as forgot their size.
static bool forgotten;
#define ODD(S)                                                                                     \
    (&((struct {                                                                                   \
          S how;                                                                                   \
          char more[16];                                                                           \
      }){.how = {.size = forgotten ? 0 : sizeof(S) + 16}})                                         \
          .how)

static void expect_odd(const char *of, troupe_status status)
{
    const char *text = troupe_last_error()->text;
    if (forgotten ? status == TROUPE_INVALID && strstr(text, "set their .size") != NULL
                  : status == TROUPE_VERSION && strstr(text, "which is older") != NULL)
        return;
    print_error("%s options of %s: %s: %s\n", forgotten ? "sizeless" : "longer", of,
                troupe_status_name(status), text);
    faults++;
}

// Of what returns no status: why it has made nothing.
static troupe_status why(const void *made)
{
    return made != NULL ? TROUPE_OK : troupe_last_error()->status;
}

static troupe_status tune(const troupe_param *row, const troupe_train_options *train)
{
    troupe_sweep *sweep;
    return troupe_tune_as(&troupe_trainer_fit, row, 1, &sweep,
                          TROUPE_OPTIONS(troupe_tune_options, .metric = "loss",
                                         .goal = TROUPE_MINIMIZE, .train = train));
}

static void give_odd_options(void)
{
    faults = 0;
    plain_actor one = troupe_spawn(plain);
    troupe_actor address, *all = &address;
    troupe_ref call = troupe_call(one, plain_echo, 1);
    troupe_channel channel;
    troupe_channel_reader reader;
    troupe_pool *pool;
    troupe_memory memory;
    troupe_actor_list list;
    troupe_job *job;
    troupe_result *result;
    troupe_sweep *sweep;
    int five = 5;
    pair config = {0};
    const troupe_param space[] = {TROUPE_INTEGER(pair, left, 1, 2)};
    troupe_must(troupe_channel_open(8, 2, 1, &channel));
    address = troupe_spawn_as(&troupe_class_plain, NULL, ODD(troupe_spawn_options));
    expect_odd("spawn", troupe_actor_status(address));
    expect_odd("spawn_many",
               troupe_spawn_many_as(&troupe_class_plain, NULL, 1, all, ODD(troupe_spawn_options)));
    address = troupe_actor_with(one.address, ODD(troupe_call_options));
    expect_odd("with", outcome(troupe_call((plain_actor){address}, plain_echo, 1)));
    expect_odd("cancel", troupe_cancel_with(call, ODD(troupe_cancel_options)));
    expect_odd("then", troupe_then_as(call, &troupe_class_plain, 0, ODD(troupe_then_options)));
    expect_odd("exit", troupe_actor_exit_with(ODD(troupe_actor_exit_options)));
    expect_odd("restart",
               troupe_actor_restart_with(one.address, ODD(troupe_actor_restart_options)));
    expect_odd("channel", troupe_channel_open_with(8, 2, 1, &channel, ODD(troupe_channel_options)));
    expect_odd("reader", troupe_channel_read_open_with(channel, 0, &reader,
                                                       ODD(troupe_channel_read_options)));
    expect_odd("pool",
               troupe_pool_open_as(&troupe_class_plain, NULL, ODD(troupe_pool_options), &pool));
    expect_odd("pool's .spawn", troupe_pool_open(plain, &pool, .spawn = ODD(troupe_spawn_options)));
    expect_odd("map",
               why(troupe_run_map_as(&troupe_task_doubled, &five, 1, ODD(troupe_map_options))));
    address = troupe_queue_open_as(&troupe_type_int, ODD(troupe_queue_options)).address;
    expect_odd("queue", troupe_actor_status(address));
    troupe_child child =
        TROUPE_CHILD_SUPERVISOR(NULL, 0, .supervisor = ODD(troupe_supervisor_options));
    expect_odd("supervisor", troupe_actor_status(troupe_supervisor_start_with(
                                 NULL, 0, ODD(troupe_supervisor_options))));
    expect_odd("child", troupe_actor_status(troupe_supervisor_start(&child, 1)));
    child = (troupe_child)TROUPE_CHILD(plain, .spawn = ODD(troupe_spawn_options));
    expect_odd("child's .spawn", troupe_actor_status(troupe_supervisor_start(&child, 1)));
    expect_odd("run", outcome(troupe_run_as(&troupe_task_doubled, &five, ODD(troupe_run_options))));
    expect_odd("memory",
               troupe_memory_get_with(&memory, sizeof memory, ODD(troupe_memory_options)));
    expect_odd("actors",
               troupe_actors_list_with(&list, sizeof list, ODD(troupe_actors_list_options)));
    expect_odd("submit", troupe_submit_as(&troupe_trainer_fit, &config, NULL, &job,
                                          ODD(troupe_train_options)));
    expect_odd("follower",
               troupe_submit_as(&troupe_trainer_fit, &config, ODD(troupe_follower), &job, NULL));
    expect_odd("child's row", troupe_actor_status(troupe_supervisor_start(ODD(troupe_child), 1)));
    expect_odd("supervisor_add", troupe_supervisor_add(troupe_supervisor_start(NULL, 0),
                                                       ODD(troupe_child), &address));
    expect_odd("space", tune(ODD(troupe_param), TROUPE_OPTIONS(troupe_train_options, .ranks = 1)));
    expect_odd("tune's .train", tune(space, ODD(troupe_train_options)));
    expect_odd("train",
               troupe_train_as(&troupe_trainer_fit, &config, &result, ODD(troupe_train_options)));
    expect_odd("tune",
               troupe_tune_as(&troupe_trainer_fit, space, 1, &sweep, ODD(troupe_tune_options)));
    troupe_scheduler *asha = troupe_asha_with(ODD(troupe_asha_options));
    expect_odd("asha", troupe_last_error()->status);
    troupe_scheduler_free(&asha);
    troupe_must(outcome(call));
    troupe_channel_drop(channel);
    assert_int_equal(faults, 0);
}

static void give_odd_options_of_a_search(void)
{
    troupe_job *job;
    faults = 0;
    expect(troupe_job_find_with(
               "key", &job, TROUPE_OPTIONS(troupe_find_options, .server = (troupe_server_choice)3)),
           "server");
    expect_odd("find", troupe_job_find_with("key", &job, ODD(troupe_find_options)));
    assert_int_equal(faults, 0);
}

static void give_odd_options_of_batches(void)
{
    faults = 0;
    troupe_rank rank = {.world = 1};
    troupe_batches *batches;
    expect_odd("batches",
               troupe_batches_open_with(&rank, "train", &batches, ODD(troupe_batches_options)));
    assert_int_equal(faults, 0);
}

static void give_odd_options_of_a_service(void)
{
    troupe_service service = {0};
    faults = 0;
    expect_odd("service_roll",
               troupe_service_roll_with(service, NULL, ODD(troupe_version_options)));
    expect_odd("service_canary",
               troupe_service_canary_with(service, "x", 1, ODD(troupe_version_options)));
    expect_odd("serve", troupe_serve_as(&troupe_model_line, NULL, "/line", &service,
                                        ODD(troupe_serve_options)));
    assert_int_equal(faults, 0);
}

static void test_options_of_another_size(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        forgotten = i == 1;
        give_odd_options();
        give_odd_options_of_batches();
        give_odd_options_of_a_search();
        give_odd_options_of_a_service();
    }
}

static int set_up(void **state)
{
    (void)state;
    return troupe_start(0, NULL, .workers = 1, .threads = 1) == TROUPE_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return troupe_stop();
}

int main(void)
{
    memset(long_text, 'x', sizeof long_text - 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_starts),
        cmocka_unit_test_setup_teardown(test_actors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_objects, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_training, set_up, tear_down),
        cmocka_unit_test(test_results),
        cmocka_unit_test_setup_teardown(test_serving, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_options_of_another_size, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
