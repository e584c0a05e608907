// test_null.c: NULL where a pointer is expected, and counts that make no sense, in every public
// function: refused with TROUPE_INVALID and the argument's name, or harmless where something is
// freed, closed or looked at.
#include <null_calls.h>

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

typedef struct plain {
    int unused;
} plain;

static troupe_status plain_echo(plain *self, const int *in, int *out)
{
    (void)self;
    *out = *in;
    return TROUPE_OK;
}

static troupe_status plain_inside(plain *self, const int *in, int *out);
static troupe_status plain_yields(plain *self, const int *in, int *out);

TROUPE_ACTOR(plain, (plain_echo, int, int), (plain_inside, int, int),
             (plain_yields, int, int, .options = TROUPE_METHOD_STREAM));

static troupe_status doubled(const int *in, int *out)
{
    *out = 2 * *in;
    return TROUPE_OK;
}
TROUPE_TASK(doubled, int, int);

static troupe_status fit(troupe_rank *me, const pair *config);
TROUPE_TRAINER(fit, pair);

TROUPE_STRUCT(grid, (int, side));

static troupe_status grid_setup(grid *self, const pair *config, troupe_use *use)
{
    self->side = config->left * use->world;
    return TROUPE_OK;
}

static troupe_status grid_forward(grid *self, const troupe_tensor *x, troupe_tensor *y)
{
    *y = *x;
    return self->side < 0 ? TROUPE_INVALID : TROUPE_OK;
}
TROUPE_MODEL(grid, pair, grid, grid_setup, grid_forward);

// ---- calls that may crash

enum { NAMES_MAX = 500 };
static const char *seen[NAMES_MAX];
static size_t seen_count;
int null_faults;
sigjmp_buf null_way_out;

void null_crashed(int number)
{
    siglongjmp(null_way_out, number);
}

void null_note(const char *name)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // Methods note too.
    size_t i = 0;
    pthread_mutex_lock(&lock);
    while (i < seen_count && strcmp(seen[i], name) != 0)
        i++;
    bool room = i < NAMES_MAX;
    if (room && i == seen_count)
        seen[seen_count++] = name;
    pthread_mutex_unlock(&lock);
    assert_true(room);
}

void null_expect(const char *name, troupe_status status, const char *argument)
{
    char quoted[80];
    snprintf(quoted, sizeof quoted, "'%s'", argument);
    if (status == TROUPE_INVALID && strstr(troupe_last_error()->text, quoted) != NULL)
        return;
    fprintf(stderr, "%s without '%s': %s, \"%s\"\n", name, argument, troupe_status_name(status),
            troupe_last_error()->text);
    null_faults++;
}

static troupe_status outcome(troupe_ref ref)
{
    int value;
    return troupe_get(int, ref, &value);
}

static void *aside[8];
static int five = 5;
static char memory[64];
static size_t size;
static troupe_ref ref;
static troupe_actor address;
static const troupe_type *const type = &troupe_type_int;
static const troupe_class *const class_ = &troupe_class_plain;

// ---- inside a method, and inside a loop

static troupe_status report_faults(int before)
{
    return null_faults == before ? TROUPE_OK : troupe_fail(TROUPE_FAILED, "see above");
}

static troupe_status plain_inside(plain *self, const int *in, int *out)
{
    int before = null_faults;
    (void)self, (void)in;
    troupe_deferred later = troupe_defer();
    REFUSED(troupe_deferred_fulfil_as, (NULL, &later, &five), "type");
    REFUSED(troupe_deferred_fulfil_as, (type, NULL, &five), "later");
    REFUSED(troupe_deferred_fulfil_as, (type, &later, NULL), "value");
    REFUSED(troupe_deferred_refuse, (NULL, TROUPE_FAILED, "because"), "later");
    UNABLE(troupe_monitor_start_as, (troupe_self(), NULL, 0), "class_");
    REFUSED(troupe_actor_trap_ends_as, (NULL, 0), "class_");
    UNABLE(troupe_timer_start_as, (NULL, 0, &five, 1000, false), "class_");
    UNABLE(troupe_timer_start_as, (class_, 0, NULL, 1000, false), "args");
    REFUSED(troupe_then_as, ((troupe_ref){0}, NULL, 0, NULL), "class_");
    HARMLESS(troupe_deferred_refuse, (&(troupe_deferred){0}, TROUPE_FAILED, NULL));
    HARMLESS(troupe_actor_exit_with, (NULL));
    *out = 0;
    troupe_status status = report_faults(before);
    if (status == TROUPE_OK)
        (void)troupe_deferred_fulfil(int, &later, &five);
    return status;
}

static troupe_status plain_yields(plain *self, const int *in, int *out)
{
    int before = null_faults;
    (void)self, (void)in, (void)out;
    REFUSED(troupe_yield_as, (NULL, &five), "type");
    REFUSED(troupe_yield_as, (type, NULL), "value");
    return report_faults(before);
}

static troupe_status fit(troupe_rank *me, const pair *config)
{
    int before = null_faults;
    double number = 1;
    pair state = *config;
    signal(SIGSEGV, null_crashed);
    REFUSED(troupe_allreduce_as, (me, NULL, 1, TROUPE_FLOAT64, TROUPE_SUM), "values");
    REFUSED(troupe_broadcast, (me, NULL, 8, 0), "data");
    REFUSED(troupe_reduce_scatter_as, (me, NULL, 1, &number, TROUPE_FLOAT64, TROUPE_SUM), "values");
    REFUSED(troupe_reduce_scatter_as, (me, &number, 1, NULL, TROUPE_FLOAT64, TROUPE_SUM), "result");
    REFUSED(troupe_all_gather, (me, NULL, 8, &number), "data");
    REFUSED(troupe_all_gather, (me, &number, 8, NULL), "all");
    UNABLE(troupe_allreduce_start_as, (me, NULL, 1, TROUPE_FLOAT64, TROUPE_SUM), "values");
    UNABLE(troupe_broadcast_start, (me, NULL, 8, 0), "data");
    UNABLE(troupe_reduce_scatter_start_as, (me, &number, 1, NULL, TROUPE_FLOAT64, TROUPE_SUM),
           "result");
    UNABLE(troupe_all_gather_start, (me, &number, 8, NULL), "all");
    troupe_gradients *all = troupe_gradients_open(me);
    REFUSED(troupe_gradients_add_as, (all, NULL, &number, &number, 1, TROUPE_FLOAT64), "name");
    REFUSED(troupe_gradients_add_as, (all, "w", NULL, &number, 1, TROUPE_FLOAT64), "values");
    REFUSED(troupe_gradients_add_as, (all, "w", &number, NULL, 1, TROUPE_FLOAT64), "gradient");
    REFUSED(troupe_gradients_ready, (all, NULL), "gradient");
    REFUSED(troupe_report_metrics, (me, NULL, 1), "metrics");
    REFUSED(troupe_report_metrics_tagged, (me, NULL, NULL, 0), "source");
    REFUSED(troupe_report_metrics_tagged, (me, "validate", NULL, 1), "metrics");
    REFUSED(troupe_save_as, (NULL, me, &state), "type");
    REFUSED(troupe_save_as, (&troupe_type_pair, me, NULL), "value");
    REFUSED(troupe_commit_as, (NULL, me, &state), "type");
    REFUSED(troupe_commit_as, (&troupe_type_pair, me, NULL), "value");
    REFUSED(troupe_restore_as, (NULL, me, &state), "type");
    REFUSED(troupe_restore_as, (&troupe_type_pair, me, NULL), "value");
    REFUSED(troupe_checkpoint_folder, (me, NULL), "path");
    REFUSED(troupe_checkpoint_add, (me, NULL, TROUPE_KEEP_SOURCE), "source");
    TROUPE_TRY(troupe_allreduce(me, &number, 1, TROUPE_SUM));
    TROUPE_TRY(report_faults(before));
    return troupe_report(me, {"loss", 1});
}

// ---- layer by layer

static void test_values(void **state)
{
    (void)state;
    troupe_tensor tensor = {0};
    HARMLESS(troupe_arena_text, (NULL));
    HARMLESS(troupe_type_hash, (NULL));
    HARMLESS(troupe_print_as, (NULL, &five, memory, sizeof memory));
    HARMLESS(troupe_print_as, (type, NULL, memory, sizeof memory));
    HARMLESS(troupe_print_as, (type, &five, NULL, 9));
    REFUSED(troupe_pack_as, (NULL, &five, memory, sizeof memory, &size), "type");
    REFUSED(troupe_pack_as, (type, NULL, memory, sizeof memory, &size), "value");
    REFUSED(troupe_pack_as, (type, &five, NULL, 9, &size), "out");
    REFUSED(troupe_pack_as, (type, &five, memory, sizeof memory, NULL), "size");
    REFUSED(troupe_unpack_as, (NULL, memory, 1, &five), "type");
    REFUSED(troupe_unpack_as, (type, NULL, 1, &five), "data");
    REFUSED(troupe_unpack_as, (type, memory, 1, NULL), "value");
    HARMLESS(troupe_tensor_count, (NULL));
    HARMLESS(troupe_tensor_stride, (NULL, 0));
    troupe_tensor column;
    const troupe_batch batch = {0};
    REFUSED(troupe_tensor_check, (NULL, TROUPE_DTYPE_NONE, TROUPE_DIMS_ANY), "tensor");
    REFUSED(troupe_column, (NULL, "x", TROUPE_DTYPE_NONE, TROUPE_DIMS_ANY, &column), "batch");
    REFUSED(troupe_column, (&batch, NULL, TROUPE_DTYPE_NONE, TROUPE_DIMS_ANY, &column), "name");
    REFUSED(troupe_column, (&batch, "x", TROUPE_DTYPE_NONE, TROUPE_DIMS_ANY, NULL), "column");
    REFUSED(troupe_column_like, (NULL, "x", &column, &column), "batch");
    REFUSED(troupe_column_like, (&batch, NULL, &column, &column), "name");
    REFUSED(troupe_column_like, (&batch, "x", NULL, &column), "like");
    REFUSED(troupe_column_like, (&batch, "x", &column, NULL), "column");
    troupe_instance *no_instance = NULL;
    troupe_use no_use = {.world = 1};
    REFUSED(troupe_model_register, (NULL), "model");
    HARMLESS(troupe_model_find, (NULL));
    HARMLESS(troupe_use_alloc, (NULL, 1));
    HARMLESS(troupe_use_alloc, (&no_use, SIZE_MAX));
    REFUSED(troupe_model_config_as, (NULL, NULL, memory), "model");
    REFUSED(troupe_model_config_as, (&troupe_model_grid, NULL, NULL), "config");
    REFUSED(troupe_model_open_as, (NULL, NULL, NULL, &no_instance), "model");
    REFUSED(troupe_model_open_as, (&troupe_model_grid, NULL, NULL, NULL), "instance");
    REFUSED(troupe_model_forward_with, (NULL, &column, &column, NULL), "instance");
    HARMLESS(troupe_model_self_as, (NULL, NULL));
    HARMLESS(troupe_model_self_as, (&troupe_model_grid, NULL));
    HARMLESS(troupe_model_config_of_as, (NULL, NULL));
    HARMLESS(troupe_model_config_of_as, (&troupe_model_grid, NULL));
    HARMLESS(troupe_model_close, (NULL));
    HARMLESS(troupe_model_close, (&no_instance));
    HARMLESS(troupe_fit_stages, (NULL));
    REFUSED(troupe_fit_check, (NULL, NULL, NULL), "model");
    REFUSED(troupe_fit_check, (&troupe_model_grid, NULL, NULL), "config");
    REFUSED(troupe_fit_begin, (NULL, NULL, NULL), "model");
    REFUSED(troupe_fit_begin, (&troupe_model_grid, NULL, NULL), "me");
    HARMLESS(troupe_note, (NULL, NULL, 0));
    HARMLESS(troupe_note_over, (NULL, "x", 0, 0));
    double mean = 0;
    REFUSED(troupe_noted, (NULL, "x", &mean), "me");
    HARMLESS(troupe_fail, (TROUPE_INVALID, NULL));
    HARMLESS(troupe_actor_fail, (TROUPE_INVALID, NULL));
    HARMLESS(troupe_log, (TROUPE_LOG_DEBUG, NULL));
    HARMLESS(troupe_must_at, (TROUPE_OK, NULL, NULL, 0));
    REFUSED(troupe_keys_make, (NULL), "path");
    REFUSED(troupe_class_register, (NULL), "class_");
    REFUSED(troupe_state_register, (NULL, NULL), "class_");
    REFUSED(troupe_state_register, (class_, NULL), "state");
    REFUSED(troupe_task_register, (NULL), "task");
    REFUSED(troupe_trainer_register, (NULL), "trainer");
    REFUSED(troupe_storage_register, (NULL), "storage");
    REFUSED(troupe_start_with, (2, NULL, NULL), "argv");
    REFUSED(troupe_tensor_create, (NULL, (troupe_buffer *)aside), "like");
    REFUSED(troupe_tensor_create, (&tensor, NULL), "buffer");
    assert_int_equal(null_faults, 0);
}

static void test_repositories(void **state)
{
    (void)state;
    troupe_instance *no_instance = NULL;
    troupe_versions versions;
    troupe_version_info version;
    REFUSED(troupe_push_note_register, (NULL, NULL), "name");
    REFUSED(troupe_push_note_register, ("k", NULL), "says");
    REFUSED(troupe_push_as, (NULL, "k", "c", NULL, NULL), "model");
    REFUSED(troupe_push_as, (&troupe_model_grid, NULL, "c", NULL, NULL), "key");
    REFUSED(troupe_push_as, (&troupe_model_grid, "k", NULL, NULL, NULL), "checkpoint");
    REFUSED(troupe_model_open_stored_as, (NULL, NULL, NULL, &no_instance, NULL), "ref");
    REFUSED(troupe_model_open_stored_as, (NULL, "k", NULL, NULL, NULL), "instance");
    REFUSED(troupe_repository_keys_with, (NULL, NULL), "keys");
    REFUSED(troupe_repository_list_with, (NULL, &versions, NULL), "key");
    REFUSED(troupe_repository_list_with, ("k", NULL, NULL), "versions");
    REFUSED(troupe_repository_describe_with, (NULL, &version, sizeof version, NULL), "ref");
    REFUSED(troupe_repository_describe_with, ("k", NULL, 0, NULL), "info");
    REFUSED(troupe_repository_alias_with, (NULL, "a", NULL), "ref");
    REFUSED(troupe_repository_alias_with, ("k", NULL, NULL), "alias");
    REFUSED(troupe_repository_alias_remove_with, (NULL, "a", NULL), "key");
    REFUSED(troupe_repository_alias_remove_with, ("k", NULL, NULL), "alias");
    REFUSED(troupe_repository_delete_with, (NULL, NULL), "ref");
    REFUSED(troupe_repository_delete_key_with, (NULL, NULL), "key");
    REFUSED(troupe_repository_gc_with, (NULL, NULL), "removed");
    REFUSED(troupe_repository_export_with, (NULL, "f", NULL), "ref");
    REFUSED(troupe_repository_export_with, ("k", NULL, NULL), "folder");
    REFUSED(troupe_repository_import_with, (NULL, "k", NULL, NULL), "folder");
    REFUSED(troupe_repository_import_with, ("f", NULL, NULL, NULL), "key");
    assert_int_equal(null_faults, 0);
}

static void test_stored_programs(void **state)
{
    (void)state;
    troupe_job *job;
    troupe_sweep *sweep;
    troupe_stored_service *service = NULL;
    troupe_tensor tensor = {0};
    const troupe_param space[] = {TROUPE_NAMED_UNIFORM("rate", 0, 1)};
    REFUSED(troupe_submit_stored_with, (NULL, NULL, NULL, &job, NULL), "ref");
    REFUSED(troupe_submit_stored_with, ("k", NULL, NULL, NULL, NULL), "job");
    REFUSED(troupe_tune_stored_with, (NULL, NULL, space, 1, &sweep, NULL), "ref");
    REFUSED(troupe_tune_stored_with, ("k", NULL, NULL, 1, &sweep, NULL), "space");
    REFUSED(troupe_tune_stored_with, ("k", NULL, space, 1, NULL, NULL), "sweep");
    REFUSED(troupe_sweep_start_stored_with, (NULL, NULL, space, 1, &sweep, NULL), "ref");
    REFUSED(troupe_sweep_start_stored_with, ("k", NULL, NULL, 1, &sweep, NULL), "space");
    REFUSED(troupe_sweep_start_stored_with, ("k", NULL, space, 1, NULL, NULL), "sweep");
    REFUSED(troupe_serve_stored_with, (NULL, "/k", &service, NULL), "ref");
    REFUSED(troupe_serve_stored_with, ("k", NULL, &service, NULL), "route");
    REFUSED(troupe_serve_stored_with, ("k", "/k", NULL, NULL), "service");
    REFUSED(troupe_stored_predict, (NULL, &tensor, &tensor), "service");
    HARMLESS(troupe_stored_service_stop, (NULL, 0));
    HARMLESS((troupe_stored_service_where_get), (NULL, NULL, 0));
    null_note("troupe_stored_service_where_get");
    assert_int_equal(null_faults, 0);
}

static void test_objects(void **state)
{
    (void)state;
    bool ready[1];
    troupe_buffer buffer;
    troupe_view view;
    troupe_tensor tensor;
    troupe_ref_set *set;
    troupe_ref one = troupe_put(int, &five);
    troupe_must(troupe_buffer_create(8, &buffer));
    troupe_must(troupe_ref_set_open(&set));
    FAILED(troupe_put_as, (NULL, &five), "type");
    FAILED(troupe_put_as, (type, NULL), "value");
    FAILED(troupe_put_bytes, (NULL, 5), "data");
    REFUSED(troupe_buffer_create, (8, NULL), "buffer");
    REFUSED(troupe_buffer_seal, (NULL, &ref), "buffer");
    REFUSED(troupe_buffer_seal, (&buffer, NULL), "ref");
    HARMLESS(troupe_buffer_discard, (NULL));
    REFUSED(troupe_view_bytes, (one, NULL, 0), "view");
    HARMLESS(troupe_view_end, (NULL));
    REFUSED(troupe_view_tensor, (one, TROUPE_DTYPE_NONE, TROUPE_DIMS_ANY, NULL, &view, 0),
            "tensor");
    REFUSED(troupe_view_tensor, (one, TROUPE_DTYPE_NONE, TROUPE_DIMS_ANY, &tensor, NULL, 0),
            "view");
    REFUSED(troupe_get_as, (NULL, one, &five, TROUPE_POLL), "type");
    REFUSED(troupe_get_as, (type, one, NULL, TROUPE_POLL), "value");
    REFUSED(troupe_get_packed, (one, NULL, TROUPE_POLL), "value");
    REFUSED(troupe_get_all_as, (NULL, &one, 1, &five, TROUPE_POLL), "type");
    REFUSED(troupe_get_all_as, (type, NULL, 1, &five, TROUPE_POLL), "refs");
    REFUSED(troupe_get_all_as, (type, &one, 1, NULL, TROUPE_POLL), "values");
    REFUSED(troupe_blocking_call, (NULL, NULL), "wait");
    REFUSED(troupe_wait, (NULL, 1, 1, 0, ready, NULL), "refs");
    SILENT(troupe_wait, (&one, 1, 1, 0, NULL, NULL));
    REFUSED(troupe_ref_set_open, (NULL), "set");
    REFUSED(troupe_ref_set_add, (NULL, one, NULL), "set");
    REFUSED(troupe_ref_set_next, (NULL, 0, &ref, NULL), "set");
    REFUSED(troupe_ref_set_next, (set, 0, NULL, NULL), "ref");
    HARMLESS(troupe_ref_set_close, (NULL));
    FAILED(troupe_ref_join_as, (NULL, &one, 1), "array_type");
    FAILED(troupe_ref_join_as, (&troupe_type_troupe_array_int, NULL, 1), "refs");
    HARMLESS(troupe_ref_split_as, (NULL, (troupe_ref){0}, NULL, 0));
    HARMLESS(troupe_ref_split_as, (&troupe_type_pair, (troupe_ref){0}, NULL, 2));
    REFUSED(troupe_store_usage_get, (NULL, 0), "usage");
    REFUSED(troupe_memory_get_with, (NULL, 0, NULL), "memory");
    troupe_must(troupe_get(int, one, &five)); // None of these has consumed it.
    troupe_must(troupe_buffer_seal(&buffer, &ref));
    troupe_ref_drop(ref);
    troupe_ref_set_close(set);
    assert_int_equal(null_faults, 0);
}

static void test_actors(void **state)
{
    (void)state;
    troupe_actor one[1], actor = troupe_spawn(plain, .place = TROUPE_PLACE_HERE).address;
    troupe_bytes none = {0};
    int out;
    NOBODY(troupe_spawn_as, (NULL, NULL, NULL), "class_");
    NOBODY(troupe_spawn_named, (NULL, none, NULL), "class_name");
    NOBODY(troupe_spawn_named, ("plain", (troupe_bytes){NULL, 7}, NULL), "init_args");
    REFUSED(troupe_spawn_many_as, (NULL, NULL, 1, one, NULL), "class_");
    REFUSED(troupe_spawn_many_as, (class_, NULL, 1, NULL, NULL), "addresses");
    REFUSED(troupe_spawn_many_as, (class_, NULL, (size_t)-1, one, NULL), "count");
    REFUSED(troupe_lookup_as, (NULL, NULL, &address), "name");
    REFUSED(troupe_lookup_as, (NULL, "nobody", NULL), "actor");
    FAILED(troupe_call_as, (actor, NULL, 0, &five), "class_");
    FAILED(troupe_call_as, (actor, class_, 0, NULL), "args");
    REFUSED(troupe_tell_as, (actor, NULL, 0, &five), "class_");
    REFUSED(troupe_tell_as, (actor, class_, 0, NULL), "args");
    FAILED(troupe_call_named, (actor, NULL, none), "method");
    FAILED(troupe_call_named, (actor, "plain_echo", (troupe_bytes){NULL, 7}), "args");
    REFUSED(troupe_tell_named, (actor, NULL, none), "method");
    REFUSED(troupe_tell_named, (actor, "plain_echo", (troupe_bytes){NULL, 7}), "args");
    HARMLESS(troupe_actor_with, (actor, NULL));
    HARMLESS(troupe_cancel_with, ((troupe_ref){0}, NULL));
    SILENT(troupe_actor_await_end, (actor, 0, NULL));
    HARMLESS(troupe_actor_restart_with, (actor, NULL));
    FAILED(troupe_run_as, (NULL, &five, NULL), "task");
    FAILED(troupe_run_as, (&troupe_task_doubled, NULL, NULL), "args");
    REFUSED(troupe_actors_list, (0, NULL, 0), "list");
    REFUSED(troupe_actors_list_with, (NULL, 0, NULL), "list");
    REFUSED(troupe_methods_list, (NULL, 0), "list");
    REFUSED(troupe_resources_get, (NULL, 0), "all");
    REFUSED(troupe_node_join, (NULL), "address");
    REFUSED(troupe_node_leave, (NULL), "address");
    HARMLESS(troupe_nodes_list, (NULL, 5, 0));
    REFUSED(troupe_stats_get, (NULL, 0), "stats");
    NOBODY(troupe_supervisor_start_with, (NULL, 1, NULL).address, "children");
    REFUSED(troupe_supervisor_child, ((troupe_supervisor_actor){actor}, 0, NULL, 0), "child");
    REFUSED(troupe_supervisor_add, ((troupe_supervisor_actor){actor}, NULL, &address), "child");
    REFUSED(
        troupe_supervisor_add,
        ((troupe_supervisor_actor){actor}, TROUPE_OPTIONS(troupe_child, .class_ = class_), NULL),
        "address");
    troupe_must(troupe_get(int, troupe_call((plain_actor){actor}, plain_inside, 1), &out));
    actor = troupe_spawn(plain, .place = TROUPE_PLACE_HERE).address; // That one has left.
    troupe_stream stream = troupe_stream_open_as(actor, class_, 2, &five);
    REFUSED(troupe_next_as, (NULL, stream, &out, TROUPE_POLL), "type");
    REFUSED(troupe_next_as, (type, stream, NULL, TROUPE_POLL), "value");
    assert_int_equal(troupe_next(int, stream, &out), TROUPE_END);
    UNABLE(troupe_stream_open_as, (actor, NULL, 2, &five), "class_");
    UNABLE(troupe_stream_open_as, (actor, class_, 2, NULL), "args");
    HARMLESS(troupe_actor_stop, (actor, 0));
    assert_int_equal(null_faults, 0);
}

static void test_many(void **state)
{
    (void)state;
    troupe_actor actor = troupe_spawn(plain, .place = TROUPE_PLACE_HERE).address;
    troupe_queue queue = troupe_queue_open(int);
    troupe_pool *pool;
    troupe_ref refs[1];
    troupe_must(troupe_pool_open(plain, &pool, .count = 1));
    troupe_map *map = troupe_run_map(doubled, &five, 1);
    REFUSED(troupe_pool_open_as, (NULL, NULL, NULL, &pool), "class_");
    REFUSED(troupe_pool_open_as, (class_, NULL, NULL, NULL), "pool");
    HARMLESS(troupe_pool_close, (NULL));
    HARMLESS(troupe_pool_count, (NULL));
    FAILED(troupe_pool_call_as, (NULL, class_, 0, &five), "pool");
    FAILED(troupe_pool_call_as, (pool, NULL, 0, &five), "class_");
    FAILED(troupe_pool_call_as, (pool, class_, 0, NULL), "args");
    UNABLE(troupe_pool_map_as, (NULL, class_, 0, &five, 1, NULL), "pool");
    UNABLE(troupe_pool_map_as, (pool, NULL, 0, &five, 1, NULL), "class_");
    UNABLE(troupe_pool_map_as, (pool, class_, 0, NULL, 1, NULL), "args");
    UNABLE(troupe_run_map_as, (NULL, &five, 1, NULL), "task");
    UNABLE(troupe_run_map_as, (&troupe_task_doubled, NULL, 1, NULL), "args");
    REFUSED(troupe_map_next_as, (NULL, map, &five, NULL, TROUPE_POLL), "type");
    REFUSED(troupe_map_next_as, (type, NULL, &five, NULL, TROUPE_POLL), "map");
    REFUSED(troupe_map_next_as, (type, map, NULL, NULL, TROUPE_POLL), "value");
    HARMLESS(troupe_map_close, (NULL));
    REFUSED(troupe_group_tell_as, (NULL, 1, class_, 0, &five), "actors");
    REFUSED(troupe_group_tell_as, (&actor, 1, NULL, 0, &five), "class_");
    REFUSED(troupe_group_tell_as, (&actor, 1, class_, 0, NULL), "args");
    HARMLESS(troupe_group_call_as, (&actor, 1, class_, 0, &five, 0, NULL));
    HARMLESS(troupe_group_call_as, (NULL, 1, class_, 0, &five, 0, refs));
    null_expect("troupe_group_call_as", outcome(refs[0]), "actors");
    HARMLESS(troupe_group_call_as, (&actor, 1, NULL, 0, &five, 0, refs));
    null_expect("troupe_group_call_as", outcome(refs[0]), "class_");
    HARMLESS(troupe_group_call_as, (&actor, 1, class_, 0, NULL, 0, refs));
    null_expect("troupe_group_call_as", outcome(refs[0]), "args");
    NOBODY(troupe_queue_open_as, (NULL, NULL).address, "type");
    REFUSED(troupe_queue_lookup, (NULL, &queue), "name");
    REFUSED(troupe_queue_lookup, ("nobody", NULL), "queue");
    REFUSED(troupe_queue_put_as, (NULL, queue, &five, 1, NULL, TROUPE_POLL), "type");
    REFUSED(troupe_queue_put_as, (type, queue, NULL, 1, NULL, TROUPE_POLL), "values");
    REFUSED(troupe_queue_get_as, (NULL, queue, &five, 1, &size, TROUPE_POLL), "type");
    REFUSED(troupe_queue_get_as, (type, queue, NULL, 1, &size, TROUPE_POLL), "values");
    REFUSED(troupe_queue_state_get, (queue, NULL, 0), "state");
    troupe_service service = {0};
    troupe_serve_options *plain_service = TROUPE_OPTIONS(troupe_serve_options, .replicas = 1);
    const troupe_model *model = &troupe_model_grid;
    REFUSED(troupe_serve_as, (NULL, NULL, "/x", &service, plain_service), "model");
    REFUSED(troupe_serve_as, (model, NULL, NULL, &service, plain_service), "route");
    REFUSED(troupe_serve_as, (model, NULL, "/x", NULL, plain_service), "service");
    REFUSED(troupe_serve_as, (model, NULL, "/x", &service, NULL), "how");
    REFUSED(troupe_service_roll_with, (service, NULL, NULL), "how");
    REFUSED(troupe_service_canary_with, (service, NULL, 0.5, NULL), "how");
    FAILED(troupe_predict, (service, NULL), "x");
    REFUSED(troupe_service_info_get, (service, NULL, 0), "info");
    troupe_map_close(map);
    troupe_pool_close(pool);
    assert_int_equal(null_faults, 0);
}

static void test_channels(void **state)
{
    (void)state;
    void *data;
    troupe_channel channel;
    troupe_channel_writer writer;
    troupe_channel_reader reader;
    troupe_channel_view view;
    troupe_must(troupe_channel_open(8, 2, 1, &channel));
    troupe_must(troupe_channel_write_open(channel, &writer));
    troupe_must(troupe_channel_read_open(channel, 0, &reader));
    REFUSED(troupe_channel_open_with, (8, 2, 1, NULL, NULL), "channel");
    REFUSED(troupe_channel_state_get, (channel, NULL, 0), "state");
    REFUSED(troupe_channel_write_open, (channel, NULL), "writer");
    REFUSED(troupe_channel_write_begin, (NULL, &data, 0), "writer");
    REFUSED(troupe_channel_write_begin, (&writer, NULL, 0), "data");
    REFUSED(troupe_channel_publish, (NULL, 1), "writer");
    HARMLESS(troupe_channel_write_leave, (NULL));
    HARMLESS(troupe_channel_close, (NULL));
    REFUSED(troupe_channel_read_open_with, (channel, 0, NULL, NULL), "reader");
    REFUSED(troupe_channel_read_begin, (NULL, &view, 0), "reader");
    REFUSED(troupe_channel_read_begin, (&reader, NULL, 0), "view");
    HARMLESS(troupe_channel_read_end, (NULL));
    HARMLESS(troupe_channel_read_close, (NULL));
    troupe_channel_close(&writer);
    troupe_channel_read_close(&reader);
    troupe_channel_drop(channel);
    assert_int_equal(null_faults, 0);
}

static troupe_status go_on(troupe_rank *me, troupe_ref ready)
{
    (void)me, (void)ready;
    return TROUPE_OK;
}

static void devices(void)
{
    // Where CUDA is not, nothing else could be refused.
    REFUSED(troupe_device_count, (NULL), "count");
    REFUSED(troupe_device_info_get, (NULL, 1), "info");
    REFUSED(troupe_device_alloc, (1, NULL), "memory");
    REFUSED(troupe_device_host_alloc, (1, NULL), "memory");
    REFUSED(troupe_device_tensor_create, (NULL, &(troupe_tensor){0}), "like");
    REFUSED(troupe_device_tensor_create, (&(troupe_tensor){0}, NULL), "tensor");
    REFUSED(troupe_device_stream_open, (NULL), "stream");
    REFUSED(troupe_device_stream_wait, (NULL, 0), "stream");
    REFUSED(troupe_device_copy, (NULL, &(troupe_tensor){0}, NULL), "to");
    REFUSED(troupe_device_copy, (&(troupe_tensor){0}, NULL, NULL), "from");
    REFUSED(troupe_device_copy_bytes, (NULL, memory, 1, NULL), "to");
    REFUSED(troupe_device_copy_bytes, (memory, NULL, 1, NULL), "from");
    HARMLESS(troupe_device_has, (NULL));
    HARMLESS(troupe_device_stream_handle, (NULL));
    HARMLESS(troupe_device_free, (NULL));
    HARMLESS(troupe_device_host_free, (NULL));
    HARMLESS(troupe_device_tensor_free, (NULL));
    HARMLESS(troupe_device_stream_close, (NULL));
}

static void collectives(void)
{
    REFUSED(troupe_allreduce_as, (NULL, &five, 1, TROUPE_FLOAT32, TROUPE_SUM), "me");
    REFUSED(troupe_broadcast, (NULL, &five, 4, 0), "me");
    REFUSED(troupe_barrier, (NULL), "me");
    REFUSED(troupe_reduce_scatter_as, (NULL, &five, 1, &five, TROUPE_FLOAT32, TROUPE_SUM), "me");
    REFUSED(troupe_all_gather, (NULL, &five, 4, memory), "me");
    UNABLE(troupe_shared_alloc, (NULL, 8), "me");
    UNABLE(troupe_allreduce_start_as, (NULL, &five, 1, TROUPE_FLOAT32, TROUPE_SUM), "me");
    UNABLE(troupe_reduce_scatter_start_as, (NULL, &five, 1, &five, TROUPE_FLOAT32, TROUPE_SUM),
           "me");
    UNABLE(troupe_all_gather_start, (NULL, &five, 4, memory), "me");
    UNABLE(troupe_broadcast_start, (NULL, &five, 4, 0), "me");
    UNABLE(troupe_barrier_start, (NULL), "me");
    REFUSED(troupe_collective_wait, (NULL, (troupe_collective){0}), "me");
    HARMLESS(troupe_collective_ended, (NULL, (troupe_collective){0}));
    UNABLE(troupe_gradients_open, (NULL), "me");
    REFUSED(troupe_gradients_add_as, (NULL, "w", &five, &five, 1, TROUPE_FLOAT32), "all");
    REFUSED(troupe_gradients_begin, (NULL, 1), "all");
    REFUSED(troupe_gradients_ready, (NULL, &five), "all");
    REFUSED(troupe_gradients_average, (NULL), "all");
    REFUSED(troupe_gradients_wait, (NULL), "all");
}

static void checkpoints_and_loops(void)
{
    troupe_checkpoint *checkpoint = NULL;
    troupe_checkpoint_info info;
    const char *path;
    REFUSED(troupe_checkpoint_folder, (NULL, &path), "me");
    REFUSED(troupe_checkpoint_add, (NULL, "/", TROUPE_KEEP_SOURCE), "me");
    HARMLESS(troupe_restored_folder, (NULL));
    REFUSED(troupe_checkpoint_open, (NULL, &checkpoint), "path");
    REFUSED(troupe_checkpoint_open, ("/", NULL), "checkpoint");
    REFUSED(troupe_checkpoint_verify, (NULL), "checkpoint");
    HARMLESS(troupe_checkpoint_close, (NULL));
    troupe_safetensors *file = NULL;
    REFUSED(troupe_safetensors_open, (NULL, &file), "path");
    REFUSED(troupe_safetensors_open, ("/", NULL), "file");
    HARMLESS(troupe_safetensors_close, (NULL));
    HARMLESS(troupe_safetensors_count, (NULL));
    HARMLESS(troupe_safetensors_name, (NULL, 0));
    REFUSED(troupe_safetensors_view, (NULL, "a", &(troupe_tensor){0}), "file");
    HARMLESS(troupe_safetensors_text, (NULL, "a"));
    REFUSED(troupe_safetensors_write, (NULL, NULL, 0, NULL, 0), "path");
    REFUSED(troupe_safetensors_write, ("/nowhere/a", NULL, 1, NULL, 0), "tensors");
    REFUSED(troupe_safetensors_write, ("/nowhere/a", NULL, 0, NULL, 1), "texts");
    REFUSED(troupe_safetensors_write, ("/nowhere/a", &(troupe_named_tensor){0}, SIZE_MAX, NULL, 0),
            "count");
    HARMLESS(troupe_checkpoint_info_get, (NULL, &info, sizeof info));
    HARMLESS(troupe_checkpoint_info_get, (NULL, NULL, 0));
    REFUSED(troupe_checkpoint_load_as, (NULL, "/", 0, &five), "type");
    REFUSED(troupe_checkpoint_load_as, (type, NULL, 0, &five), "folder");
    REFUSED(troupe_checkpoint_load_as, (type, "/", 0, NULL), "value");
    collectives();
    troupe_group group = {0};
    REFUSED(troupe_execute_as, (NULL, &group, &group), "function");
    REFUSED(troupe_execute_as, (&troupe_trainer_fit, NULL, &group), "group");
    REFUSED(troupe_execute_as, (&troupe_trainer_fit, &group, NULL), "argument");
    troupe_data data = {0};
    troupe_shard part;
    troupe_rank rank = {0};
    REFUSED(troupe_step_then, (NULL, (troupe_ref){0}, go_on), "me");
    REFUSED(troupe_step_then, (&rank, (troupe_ref){0}, NULL), "next");
    UNABLE(troupe_step_later, (NULL), "me");
    HARMLESS(troupe_step_done, ((troupe_step){0}, TROUPE_OK));
    REFUSED(troupe_data_register, (NULL), "table");
    REFUSED(troupe_data_set, (NULL, "train", (troupe_ref){0}, 0, TROUPE_SPLIT), "data");
    REFUSED(troupe_data_set, (&data, NULL, (troupe_ref){0}, 0, TROUPE_SPLIT), "key");
    REFUSED(troupe_data_shard, (NULL, "train", &part), "me");
    REFUSED(troupe_data_shard, (&rank, NULL, &part), "key");
    REFUSED(troupe_data_shard, (&rank, "train", NULL), "shard");
    REFUSED(troupe_report_metrics, (NULL, NULL, 0), "me");
    REFUSED(troupe_report_metrics_tagged, (NULL, "validate", NULL, 0), "me");
    REFUSED(troupe_save_as, (type, NULL, &five), "me");
    REFUSED(troupe_commit_as, (type, NULL, &five), "me");
    REFUSED(troupe_restore_as, (type, NULL, &five), "me");
    REFUSED(troupe_return_as, (NULL, NULL, &five), "type");
    REFUSED(troupe_return_as, (type, NULL, &five), "me");
}

static void test_batches(void **state)
{
    (void)state;
    null_faults = 0;
    troupe_data data = {0};
    troupe_rank rank = {0};
    const troupe_from from = {.size = sizeof from};
    troupe_batches *batches = NULL;
    troupe_batch batch;
    REFUSED(troupe_data_columns_from, (NULL, "train", TROUPE_SPLIT, &from, 1), "data");
    REFUSED(troupe_data_columns_from, (&data, NULL, TROUPE_SPLIT, &from, 1), "key");
    REFUSED(troupe_data_columns_from, (&data, "train", TROUPE_SPLIT, NULL, 1), "columns");
    REFUSED(troupe_generator_register, (NULL), "generator");
    REFUSED(troupe_batches_open_with, (NULL, "train", &batches, NULL), "me");
    REFUSED(troupe_batches_open_with, (&rank, NULL, &batches, NULL), "key");
    REFUSED(troupe_batches_open_with, (&rank, "train", NULL, NULL), "batches");
    REFUSED(troupe_batches_begin, (NULL, 0, 0), "batches");
    REFUSED(troupe_batches_next, (NULL, &batch), "batches");
    HARMLESS(troupe_batches_count, (NULL));
    HARMLESS(troupe_batches_rows, (NULL));
    HARMLESS(troupe_batches_all_rows, (NULL));
    HARMLESS(troupe_batches_waited_s, (NULL));
    HARMLESS(troupe_batches_close, (NULL));
    HARMLESS(troupe_batches_close, (&batches));
    assert_int_equal(null_faults, 0);
}

static void give_nothing_for_a_job(void)
{
    troupe_job *job;
    REFUSED(troupe_job_find, (NULL, &job), "key");
    REFUSED(troupe_job_find, ("", NULL), "job");
    REFUSED(troupe_job_follow, (NULL, NULL, &job), "key");
    REFUSED(troupe_job_follow, ("", NULL, NULL), "job");
    REFUSED(troupe_job_find_with, (NULL, &job, NULL), "key");
    REFUSED(troupe_job_find_with, ("", NULL, NULL), "job");
    REFUSED(troupe_server_folder, (NULL, 9), "folder");
    job = NULL;
    REFUSED(troupe_job_leave, (NULL), "job");
    REFUSED(troupe_job_leave, (&job), "*job");
    HARMLESS(troupe_job_number, (NULL));
    HARMLESS(troupe_job_pause, (NULL));
    HARMLESS(troupe_job_go_on, (NULL));
    REFUSED(troupe_job_resize, (NULL, 1), "job");
}

static void give_nothing_for_a_run(void)
{
    troupe_run_info info;
    troupe_run_left left;
    HARMLESS(troupe_can_resume, (NULL));
    REFUSED(troupe_run_report, (NULL, NULL), "folder");
    REFUSED(troupe_run_info_get, (NULL, &info, sizeof info), "folder");
    REFUSED(troupe_run_info_get, ("", NULL, 0), "info");
    REFUSED(troupe_run_clean, (NULL), "folder");
    REFUSED(troupe_run_left_get, (NULL, NULL, &left, sizeof left), "folder");
    REFUSED(troupe_run_left_get, ("", NULL, NULL, 0), "left");
}

static void test_training(void **state)
{
    (void)state;
    pair config = {0};
    troupe_job *job = NULL;
    troupe_result *result = NULL, *none = NULL;
    troupe_job_status now;
    char *storage = support_directory_make();
    const troupe_trainer *trainer = &troupe_trainer_fit;
    troupe_must(troupe_train(fit, &config, &result, .storage = storage));
    troupe_must(troupe_submit(fit, &config, NULL, &job, .storage = storage));
    REFUSED(troupe_train_as, (NULL, &config, &none, NULL), "trainer");
    REFUSED(troupe_train_as, (trainer, NULL, &none, NULL), "config");
    REFUSED(troupe_train_as, (trainer, &config, NULL, NULL), "result");
    char line[8];
    REFUSED(troupe_train_describe_as, (NULL, line, sizeof line, NULL), "trainer");
    REFUSED(troupe_train_describe_as, (trainer, NULL, sizeof line, NULL), "out");
    REFUSED(troupe_result_value_as, (NULL, result, &config), "type");
    REFUSED(troupe_result_value_as, (trainer->config, NULL, &config), "result");
    REFUSED(troupe_result_value_as, (trainer->config, result, NULL), "value");
    REFUSED(troupe_result_committed_as, (NULL, result, 0, &config), "type");
    REFUSED(troupe_result_committed_as, (trainer->config, NULL, 0, &config), "result");
    REFUSED(troupe_result_committed_as, (trainer->config, result, 0, NULL), "value");
    REFUSED(troupe_job_committed_as, (NULL, job, 0, &config), "type");
    REFUSED(troupe_job_committed_as, (trainer->config, NULL, 0, &config), "job");
    REFUSED(troupe_job_committed_as, (trainer->config, job, 0, NULL), "value");
    REFUSED(troupe_submit_as, (NULL, &config, NULL, &job, NULL), "trainer");
    REFUSED(troupe_submit_as, (trainer, NULL, NULL, &job, NULL), "config");
    REFUSED(troupe_submit_as, (trainer, &config, NULL, NULL, NULL), "job");
    REFUSED(troupe_job_wait, (NULL, 0, &result), "job");
    REFUSED(troupe_job_wait, (job, 0, NULL), "result");
    HARMLESS(troupe_job_stop, (NULL));
    give_nothing_for_a_job();
    HARMLESS(troupe_job_kill, (NULL, TROUPE_OK, NULL));
    HARMLESS(troupe_job_status_get, (NULL, &now, sizeof now));
    HARMLESS(troupe_job_status_get, (job, NULL, 0));
    give_nothing_for_a_run();
    HARMLESS(troupe_metadata, (NULL));
    HARMLESS(troupe_live_as, (NULL, NULL));
    HARMLESS(troupe_live_as, (trainer->config, NULL));
    REFUSED(troupe_job_modify_as, (NULL, job, "rate", &config), "trainer");
    REFUSED(troupe_job_modify_as, (trainer, NULL, "rate", &config), "job");
    REFUSED(troupe_job_modify_as, (trainer, job, NULL, &config), "member");
    REFUSED(troupe_job_modify_as, (trainer, job, "rate", NULL), "value");
    HARMLESS(troupe_checkpoint_due, (NULL));
    HARMLESS(troupe_job_path, (NULL));
    REFUSED(troupe_job_checkpoint, (NULL, TROUPE_BEST_CHECKPOINT, line, sizeof line, NULL), "job");
    REFUSED(troupe_job_checkpoint, (job, TROUPE_BEST_CHECKPOINT, NULL, 9, NULL), "folder");
    HARMLESS(troupe_job_close, (NULL));
    HARMLESS(troupe_result_status, (NULL));
    HARMLESS(troupe_result_error, (NULL));
    HARMLESS(troupe_result_cause, (NULL));
    HARMLESS(troupe_result_stopped, (NULL));
    HARMLESS(troupe_result_metric, (NULL, "loss"));
    HARMLESS(troupe_result_metric, (result, NULL));
    HARMLESS(troupe_result_metrics, (NULL, &size));
    HARMLESS(troupe_result_metrics, (result, NULL));
    HARMLESS(troupe_result_reports, (NULL));
    HARMLESS(troupe_result_restarts, (NULL));
    HARMLESS(troupe_result_checkpoint, (NULL));
    HARMLESS(troupe_result_best_checkpoint, (NULL));
    HARMLESS(troupe_result_path, (NULL));
    HARMLESS(troupe_result_elapsed_s, (NULL));
    HARMLESS(troupe_result_free, (NULL));
    checkpoints_and_loops();
    devices();
    troupe_job_close(&job);
    troupe_result_free(&result);
    support_directory_remove(storage);
    assert_int_equal(null_faults, 0);
}

static void test_sweeps(void **state)
{
    (void)state;
    troupe_sweep *sweep = NULL;
    const troupe_param space[] = {TROUPE_INTEGER(pair, left, 1, 2)};
    const troupe_trainer *trainer = &troupe_trainer_fit;
    troupe_tune_options how = {.size = sizeof how, .metric = "loss", .goal = TROUPE_MINIMIZE};
    REFUSED(troupe_sweep_start_as, (NULL, space, 1, &sweep, &how), "trainer");
    REFUSED(troupe_sweep_start_as, (trainer, NULL, 1, &sweep, &how), "space");
    REFUSED(troupe_sweep_start_as, (trainer, space, 1, NULL, &how), "sweep");
    REFUSED(troupe_tune_as, (NULL, space, 1, &sweep, &how), "trainer");
    REFUSED(troupe_tune_as, (trainer, NULL, 1, &sweep, &how), "space");
    how.scheduler = troupe_asha(.grace = 1); // Consumed all the same.
    REFUSED(troupe_tune_as, (trainer, space, 1, NULL, &how), "sweep");
    SILENT(troupe_tune_as, (trainer, space, 1, &sweep, NULL)); // No metric.
    static const char *const words[] = {"true"};
    REFUSED(troupe_tune_program_with, (NULL, words, 1, &sweep, NULL), "json");
    REFUSED(troupe_tune_program_with, ("{}", NULL, 1, &sweep, NULL), "arguments");
    REFUSED(troupe_tune_program_with, ("{}", words, 1, NULL, NULL), "sweep");
    SILENT(troupe_tune_program_with, ("{}", words, 1, &sweep, NULL)); // It has no metric.
    REFUSED(troupe_tune_model_with, (NULL, "k", &sweep, NULL), "json");
    REFUSED(troupe_tune_model_with, ("{}", NULL, &sweep, NULL), "ref");
    REFUSED(troupe_tune_model_with, ("{}", "k", NULL, NULL), "sweep");
    REFUSED(troupe_sweep_wait, (NULL, 0), "sweep");
    REFUSED(troupe_sweep_add, (NULL, 1), "sweep");
    HARMLESS(troupe_sweep_stop, (NULL));
    HARMLESS(troupe_sweep_pause, (NULL));
    HARMLESS(troupe_sweep_go_on, (NULL));
    HARMLESS(troupe_sweep_front, (NULL, NULL));
    HARMLESS(troupe_sweep_free, (NULL));
    HARMLESS(troupe_sweep_count, (NULL));
    HARMLESS(troupe_sweep_trial, (NULL, 0));
    HARMLESS(troupe_sweep_stopped, (NULL));
    HARMLESS(troupe_sweep_best, (NULL));
    HARMLESS(troupe_sweep_best_config, (NULL));
    HARMLESS(troupe_sweep_best_json, (NULL));
    HARMLESS(troupe_sweep_elapsed_s, (NULL));
    HARMLESS(troupe_sweep_print, (NULL, stderr));
    HARMLESS(troupe_scheduler_free, (NULL));
    HARMLESS(troupe_searcher_free, (NULL));
    troupe_searcher *searchers[] = {troupe_search_nsga2_with(NULL), troupe_search_cmaes_with(NULL),
                                    troupe_search_tpe_with(NULL), troupe_search_gp_with(NULL)};
    null_note("troupe_search_nsga2_with");
    null_note("troupe_search_cmaes_with");
    null_note("troupe_search_tpe_with");
    null_note("troupe_search_gp_with");
    for (size_t i = 0; i < sizeof searchers / sizeof *searchers; i++)
        troupe_searcher_free(&searchers[i]);
    troupe_searcher *repeat = troupe_search_repeat(NULL, 2);
    null_note("troupe_search_repeat");
    null_expect("troupe_search_repeat", repeat->refusal, "inner");
    troupe_searcher_free(&repeat);
    assert_int_equal(null_faults, 0);
}

// ---- that no function is missing

// Those that take no pointer.
static const char *const plain_ones[] = {
    "troupe_actor_release",    "troupe_actor_retain",
    "troupe_actor_status",     "troupe_arena_alloc",
    "troupe_cancelled",        "troupe_channel_drop",
    "troupe_channel_keep",     "troupe_continuation_status",
    "troupe_continuation_tag", "troupe_defer",
    "troupe_monitor_stop",     "troupe_down_reason_name",
    "troupe_ref_drop",         "troupe_device_use",
    "troupe_dtype_size",       "troupe_dtype_text",
    "troupe_actor_end",        "troupe_ref_keep",
    "troupe_actor_kill",       "troupe_last_error",
    "troupe_actor_link",       "troupe_node_address",
    "troupe_object_kind_name", "troupe_object_state_name",
    "troupe_queue_close",      "troupe_arena_reset",
    "troupe_actor_save",       "troupe_self",
    "troupe_status_name",      "troupe_stop",
    "troupe_stream_drop",      "troupe_strerror",
    "troupe_timer_stop",       "troupe_actor_unlink",
    "troupe_version",          "troupe_actor_restarts",
    "troupe_service_stop",     "troupe_stored_serves_",
    "troupe_search_grid",      "troupe_search_random",
    "troupe_search_sobol",     "troupe_search_auto",
};

// Each function of the library's list has been called above, or takes no pointer. (Those of the
// loop were called in another process, and without a worker here.)
static void test_none_is_missing(void **state)
{
    (void)state;
    char *path = support_path(support_setting("TROUPE_SOURCE"), "tools/symbols.txt");
    char *list = support_read_file(path), *rest = NULL;
    int missing = 0;
    assert_non_null(list);
    for (size_t i = 0; i < sizeof plain_ones / sizeof *plain_ones; i++)
        null_note(plain_ones[i]);
    for (char *name = strtok_r(list, "\n", &rest); name != NULL;
         name = strtok_r(NULL, "\n", &rest)) {
        bool known =
            name[0] == '#' || strncmp(name, "troupe_trainer_troupe_", 22) == 0 ||
            (strncmp(name, "troupe_type_", 12) == 0 && strcmp(name, "troupe_type_hash") != 0);
        for (size_t i = 0; i < seen_count && !known; i++)
            known = strcmp(seen[i], name) == 0;
        if (!known)
            fprintf(stderr, "%s is not called with NULL here\n", name);
        missing += !known;
    }
    free(list);
    free(path);
    assert_int_equal(missing, 0);
}

static int set_up(void **state)
{
    (void)state;
    if (troupe_start(0, NULL, .workers = 1, .threads = 1) != TROUPE_OK)
        return -1;
    return signal(SIGSEGV, null_crashed) == SIG_ERR ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    return troupe_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),          cmocka_unit_test(test_repositories),
        cmocka_unit_test(test_stored_programs), cmocka_unit_test(test_objects),
        cmocka_unit_test(test_actors),          cmocka_unit_test(test_many),
        cmocka_unit_test(test_channels),        cmocka_unit_test(test_training),
        cmocka_unit_test(test_batches),         cmocka_unit_test(null_schedulers),
        cmocka_unit_test(test_sweeps),          cmocka_unit_test(null_spaces),
        cmocka_unit_test(null_studies),         cmocka_unit_test(null_why),
        cmocka_unit_test(null_results),         cmocka_unit_test(test_none_is_missing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
