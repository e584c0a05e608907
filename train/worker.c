// worker.c: one rank: its loop, and what the loop may call.
#include <actors/ref/ref.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/require.h>
#include <runtime/codec/pack.h>
#include <runtime/shm/process_table.h>
#include <runtime/store/read.h>
#include <runtime/store/store.h>
#include <stdio.h>
#include <string.h>
#include <train/alive.h>
#include <train/collective.h>
#include <train/config.h>
#include <train/engine_shm.h>
#include <train/gate.h>
#include <train/live.h>
#include <train/memory_state.h>
#include <train/saver.h>
#include <train/steps.h>
#include <train/trainer.h>
#include <train/worker.h>

// The loop that runs on this thread.
typedef struct loop {
    troupe_rank me; // First: it is what the user's code holds.
    const trp_task *task;
    trp_member member;
    const troupe_trainer *trainer;
    trp_live_members live_members;
    void *live;           // The config with the values of now,
    trp_arena live_arena; // and what belongs to those that came while it ran.
    int reports;          // The last one made.
    troupe_ref answer;    // To it; id 0: it was taken.
    trp_saver saver;
    trp_staged staged;
    bool stopped;
    trp_buffer value; // What it returns, packed; empty: nothing.
    uint64_t value_schema;
} loop;

static _Thread_local loop *current;

static troupe_status loop_of(troupe_rank *me, const char *what, loop **found)
{
    if (!current || me != &current->me)
        return troupe_fail(TROUPE_INVALID,
                           "%s was not called by the thread of a loop with that loop's worker",
                           what);
    *found = current;
    return TROUPE_OK;
}

// ---- running the loop

static troupe_status join_group(const trp_task *task, trp_member *member)
{
    trp_object_info region = trp_store_look(trp_ref_object(task->region));
    if (region.state != TRP_OBJECT_SHARED)
        return troupe_fail(TROUPE_CORRUPT, "the group's shared memory is gone");
    // It is writable to all who hold it; the field is const for the sake of ordinary objects.
    return trp_member_open(member, (void *)(uintptr_t)region.data, region.size, &trp_engine_shm,
                           task->rank, task->world, task->timeout_ms, task->live_revision);
}

// Takes the coordinator's answer to the last report. The loop computes meanwhile: to wait for it
// at once would cost two wake-ups a report.
static troupe_status take_answer(loop *it)
{
    troupe_none none;
    if (it->answer.id == 0)
        return TROUPE_OK;
    troupe_status status = troupe_get(troupe_none, it->answer, &none);
    it->answer = (troupe_ref){0};
    if (status == TROUPE_NOT_EXECUTED || status == TROUPE_MAYBE_EXECUTED)
        return troupe_fail(TROUPE_PEER_LOST, "troupe_report: the run's coordinator is lost");
    return status;
}

// A loop that has ended well has, once its last report was taken.
static troupe_status last_answer(loop *it, troupe_status ended)
{
    troupe_status status = take_answer(it);
    return status == TROUPE_OK ? ended : status;
}

static troupe_status run_trainer(loop *it, const troupe_trainer *trainer, const void *config)
{
    if (trainer->run)
        return trainer->run(&it->me, config);
    trp_steps steps = {.stages = trainer->stages, .me = &it->me, .config = it->live};
    return trp_steps_run(&steps);
}

// The loop between its rank's stages. What went wrong first is what counts.
static troupe_status run_stages(loop *it, const troupe_trainer *trainer, const void *config)
{
    static const troupe_stages none;
    const troupe_stages *stages = trainer->stages ? trainer->stages : &none;
    if (stages->rank_setup)
        TROUPE_TRY(trp_hook_ended(stages->rank_setup(&it->me, config), "rank_setup"));
    troupe_status status = run_trainer(it, trainer, config);
    if (!stages->rank_teardown)
        return status;
    troupe_error said;
    trp_error_hold(&said);
    troupe_status after = trp_hook_ended(stages->rank_teardown(&it->me, config), "rank_teardown");
    if (after != TROUPE_OK && (status == TROUPE_OK || status == TROUPE_STOPPED))
        return after;
    trp_error_restore(&said);
    return status;
}

// The newest values at the start of a group are in the config that its loops are given, too.
static troupe_status begin_live(loop *it, void *config)
{
    const trp_task *task = it->task;
    TROUPE_TRY(trp_live_members_of(it->trainer, &it->live_members));
    TROUPE_TRY(trp_live_apply(&it->live_members, task->live.data, task->live.size,
                              trp_arena_current(), config));
    size_t size = it->trainer->config->size;
    it->live = troupe_arena_alloc(size);
    if (!it->live)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the config of '%s'", task->trainer);
    memcpy(it->live, config, size);
    return TROUPE_OK;
}

// Takes the values that take effect with the report that was just entered.
static troupe_status take_live(loop *it)
{
    const void *data;
    size_t size;
    if (!trp_member_live(&it->member, &data, &size))
        return TROUPE_OK;
    trp_arena last = it->live_arena;
    it->live_arena = (trp_arena){0};
    troupe_status status = trp_live_apply(&it->live_members, data, size, &it->live_arena, it->live);
    trp_arena_clear(&last);
    return status;
}

static troupe_status run_loop(loop *it)
{
    const trp_task *task = it->task;
    const troupe_trainer *trainer = trp_trainer_find(task->trainer, task->schema);
    void *config;
    if (!trainer)
        return troupe_last_error()->status;
    TROUPE_TRY(trp_config_read(trainer->config, "the config of the loop", task->config,
                               task->refs.items, task->refs.count, &config));
    it->trainer = trainer;
    TROUPE_TRY(begin_live(it, config));
    current = it;
    troupe_status status = run_stages(it, trainer, config);
    current = NULL;
    if (status == TROUPE_OK || status == TROUPE_STOPPED)
        return last_answer(it, status);
    troupe_ref_drop(it->answer);
    return status;
}

// Its lines of output carry its rank from here on.
static void announce(const trp_task *task)
{
    char name[64];
    snprintf(name, sizeof name, "%.48s rank=%d", task->trainer, task->rank);
    trp_process_relabel(name);
    trp_log(TRP_INFO, "Setting up process group for: env:// [rank=%d, world_size=%d]", task->rank,
            task->world);
}

// What the loop returned goes to where it lives until it is sent.
static troupe_status hand_over(const loop *it, trp_worker_end *end)
{
    if (it->value.size == 0 || it->task->rank != 0)
        return TROUPE_OK;
    void *copy = troupe_arena_alloc(it->value.size);
    if (!copy)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for what the loop of '%s' returned",
                           it->task->trainer);
    end->value = (troupe_bytes){memcpy(copy, it->value.data, it->value.size), it->value.size};
    end->value_schema = it->value_schema;
    return TROUPE_OK;
}

// The text of a failure of the user's code, which may return a status without having said why.
static const char *reason_of(troupe_status status)
{
    const troupe_error *last = troupe_last_error();
    if (status == TROUPE_OK || status == TROUPE_STOPPED)
        return "";
    return last->status == status && last->text[0] ? last->text : troupe_strerror(status);
}

static troupe_rank place_of(const trp_place *place, int attempt)
{
    return (troupe_rank){.rank = place->rank,
                         .world = place->world,
                         .attempt = attempt,
                         .local_rank = place->local_rank,
                         .local_world = place->local_world,
                         .node_rank = place->node_rank,
                         .nodes = place->nodes};
}

troupe_status trp_worker_execute(trp_worker *self, const trp_rank_function *what,
                                 trp_worker_end *end)
{
    (void)self;
    troupe_rank me = place_of(&what->place, what->attempt);
    const troupe_trainer *function = trp_trainer_find(what->name, what->schema);
    void *argument;
    if (!function)
        return troupe_last_error()->status;
    if (!function->run)
        return troupe_fail(TROUPE_WRONG_TYPE, "'%s' is a trainer and no function of ranks",
                           what->name);
    TROUPE_TRY(trp_config_read(function->config, "the argument of a function of ranks",
                               what->argument, NULL, 0, &argument));
    troupe_status status = function->run(&me, argument);
    *end = (trp_worker_end){.status = (int)status, .text = troupe_arena_text(reason_of(status))};
    return TROUPE_OK;
}

troupe_status trp_worker_run(trp_worker *self, const trp_task *task, trp_worker_end *end)
{
    (void)self;
    loop it = {
        .me = place_of(&task->place, task->attempt),
        .task = task,
        .reports = task->first_report - 1,
        .saver = {.run = task->run,
                  .epoch = task->epoch,
                  .attempt = task->attempt,
                  .rank = task->rank,
                  .keeps_none = task->keep == TROUPE_NONE,
                  .coordinator = task->coordinator},
    };
    trp_alive *alive;
    announce(task);
    TROUPE_TRY(trp_alive_join(task->run, task->epoch, &alive));
    troupe_status status = join_group(task, &it.member);
    if (status != TROUPE_OK) {
        trp_alive_leave(&alive);
        return status;
    }
    status = run_loop(&it);
    const char *text = reason_of(status);
    trp_member_leave(&it.member, status, text);
    trp_staged_end(&it.staged);
    trp_saver_end(&it.saver); // Before the end is known, what was saved is told of.
    trp_alive_leave(&alive);
    *end = (trp_worker_end){
        .status = (int)status, .text = troupe_arena_text(text), .stopped = it.stopped};
    status = status == TROUPE_OK ? hand_over(&it, end) : TROUPE_OK;
    trp_buffer_free(&it.value);
    trp_arena_clear(&it.live_arena);
    return status;
}

// ---- what a loop may call

static troupe_status check_metrics(const troupe_metric *metrics, size_t count)
{
    if (count > TRP_METRICS_MAX || (count && !metrics))
        return troupe_fail(TROUPE_INVALID, "troupe_report: %zu metrics: expected at most %d", count,
                           TRP_METRICS_MAX);
    for (size_t i = 0; i < count; i++) {
        const char *name = metrics[i].name;
        if (!name || !*name || strlen(name) > TRP_METRIC_NAME_MAX)
            return troupe_fail(TROUPE_INVALID,
                               "troupe_report: metric %zu has the name '%.80s': expected 1 to %d "
                               "bytes",
                               i, name ? name : "NULL", TRP_METRIC_NAME_MAX);
        for (size_t k = 0; k < i; k++)
            if (strcmp(metrics[k].name, name) == 0)
                return troupe_fail(TROUPE_INVALID, "troupe_report: metric '%s' is given twice",
                                   name);
    }
    return TROUPE_OK;
}

static troupe_ref call_report(loop *it, const trp_report *report)
{
    trp_coordinator_actor coordinator = it->task->coordinator;
    if (it->staged.state == 0)
        return troupe_call_from(coordinator, trp_coordinator_report, report);
    trp_stated_report stated = {*report, {.id = it->staged.state}};
    return troupe_call_from(coordinator, trp_coordinator_report_state, &stated);
}

static troupe_status check_source(const char *source)
{
    if (!*source || strlen(source) > TRP_METRIC_NAME_MAX)
        return troupe_fail(TROUPE_INVALID,
                           "troupe_report_tagged: the source is '%.80s': expected 1 to %d bytes",
                           source, TRP_METRIC_NAME_MAX);
    return TROUPE_OK;
}

static troupe_status send_report(loop *it, const char *source, const troupe_metric *metrics,
                                 size_t count, bool pending)
{
    // Those of other ranks go nowhere.
    if (it->task->rank != 0 && !it->task->rank_metrics)
        count = 0;
    trp_metric rows[TRP_METRICS_MAX];
    for (size_t i = 0; i < count; i++)
        rows[i] = (trp_metric){metrics[i].name, metrics[i].value};
    trp_report report = {
        .attempt = it->me.attempt,
        .rank = it->task->rank,
        .number = it->reports,
        .metrics = {rows, count},
        .pending = pending,
        .source = source,
        .torn = it->staged.torn,
    };
    it->answer = call_report(it, &report);
    trp_staged_drop(&it->staged);
    bool decided = trp_gate_names(it->task->gate_first, it->task->gate_every, it->reports);
    return decided ? take_answer(it) : TROUPE_OK;
}

// `source` may be NULL.
static troupe_status report(troupe_rank *me, const char *source, const troupe_metric *metrics,
                            size_t count)
{
    loop *it;
    TROUPE_TRY(loop_of(me, "troupe_report", &it));
    TROUPE_TRY(check_metrics(metrics, count));
    trp_report_turn turn = TRP_REPORT_PAST;
    bool pending = false;
    if (!it->stopped)
        TROUPE_TRY(trp_saver_check(&it->saver, &pending));
    if (!it->stopped)
        TROUPE_TRY(trp_member_report(&it->member, it->reports + 1, &turn));
    if (turn != TRP_REPORT_PAST) {
        it->reports++;
        TROUPE_TRY(take_live(it));
        TROUPE_TRY(take_answer(it));
        TROUPE_TRY(send_report(it, source, metrics, count, pending));
        trp_saver_close(&it->saver);
    }
    if (turn == TRP_REPORT_OPEN)
        return TROUPE_OK;
    it->stopped = true;
    return troupe_fail(TROUPE_STOPPED, "the run was asked to stop, at report %d", it->reports);
}

troupe_status troupe_report_metrics(troupe_rank *me, const troupe_metric *metrics, size_t count)
{
    TRP_REQUIRE(me);
    if (count > 0)
        TRP_REQUIRE(metrics);
    return report(me, NULL, metrics, count);
}

troupe_status troupe_report_metrics_tagged(troupe_rank *me, const char *source,
                                           const troupe_metric *metrics, size_t count)
{
    TRP_REQUIRE(me);
    TRP_REQUIRE(source);
    if (count > 0)
        TRP_REQUIRE(metrics);
    TROUPE_TRY(check_source(source));
    return report(me, source, metrics, count);
}

// Where nothing is kept on disk. Without room it is as with a full disk: training goes on.
static troupe_status save_in_memory(loop *it, const troupe_type *type, const void *value)
{
    troupe_status status = trp_staged_put(&it->staged, type, value);
    if (status != TROUPE_NO_MEMORY && status != TROUPE_TOO_LARGE)
        return status;
    if (!it->staged.warned)
        trp_log(TRP_WARN, "report %d of %s has no commit in memory: rank %d: %s", it->reports + 1,
                it->task->run, it->task->rank, troupe_last_error()->text);
    it->staged.warned = true;
    trp_error_forget();
    return TROUPE_OK;
}

troupe_status troupe_save_as(const troupe_type *type, troupe_rank *me, const void *value)
{
    TRP_REQUIRE(type);
    TRP_REQUIRE(me);
    TRP_REQUIRE(value);
    loop *it;
    TROUPE_TRY(loop_of(me, "troupe_save", &it));
    if (it->stopped)
        return TROUPE_OK;
    return it->task->keep == TROUPE_NONE ? save_in_memory(it, type, value)
                                         : trp_saver_save(&it->saver, it->reports + 1, type, value);
}

troupe_status troupe_commit_as(const troupe_type *type, troupe_rank *me, const void *value)
{
    TRP_REQUIRE(type);
    TRP_REQUIRE(me);
    TRP_REQUIRE(value);
    loop *it;
    TROUPE_TRY(loop_of(me, "troupe_commit", &it));
    return it->stopped ? TROUPE_OK : trp_staged_put(&it->staged, type, value);
}

bool troupe_checkpoint_due(troupe_rank *me)
{
    loop *it;
    if (TRP_IS_NULL(me) || loop_of(me, "troupe_checkpoint_due", &it) != TROUPE_OK || it->stopped)
        return false;
    int next = it->reports + 1;
    return next % it->task->checkpoint_every == 0 || next == trp_member_stop_at(&it->member);
}

troupe_status troupe_checkpoint_folder(troupe_rank *me, const char **path)
{
    TRP_REQUIRE(me);
    TRP_REQUIRE(path);
    loop *it;
    TROUPE_TRY(loop_of(me, "troupe_checkpoint_folder", &it));
    return trp_saver_folder(&it->saver, it->reports + 1, path);
}

troupe_status troupe_checkpoint_add(troupe_rank *me, const char *source, troupe_source then)
{
    TRP_REQUIRE(me);
    TRP_REQUIRE(source);
    loop *it;
    TROUPE_TRY(loop_of(me, "troupe_checkpoint_add", &it));
    if (then != TROUPE_KEEP_SOURCE && then != TROUPE_REMOVE_SOURCE)
        return troupe_fail(TROUPE_INVALID,
                           "troupe_checkpoint_add: what becomes of the source is %d: expected "
                           "TROUPE_KEEP_SOURCE or TROUPE_REMOVE_SOURCE",
                           (int)then);
    return trp_saver_add(&it->saver, it->reports + 1, source, then == TROUPE_REMOVE_SOURCE);
}

const char *troupe_restored_folder(troupe_rank *me)
{
    loop *it;
    if (TRP_IS_NULL(me) || loop_of(me, "troupe_restored_folder", &it) != TROUPE_OK)
        return NULL;
    return it->task->origin;
}

static troupe_status restore_from_memory(const trp_task *task, const troupe_type *type, void *value)
{
    char whose[80];
    snprintf(whose, sizeof(whose), "the state that rank %d goes on from, in memory", task->rank);
    return trp_memory_state_read(trp_ref_object(task->state.items[0]), whose, type,
                                 trp_arena_current(), value);
}

troupe_status troupe_restore_as(const troupe_type *type, troupe_rank *me, void *value)
{
    TRP_REQUIRE(type);
    TRP_REQUIRE(me);
    TRP_REQUIRE(value);
    loop *it;
    TROUPE_TRY(loop_of(me, "troupe_restore", &it));
    if (it->task->state.count > 0)
        return restore_from_memory(it->task, type, value);
    if (!it->task->origin)
        return TROUPE_OK;
    return trp_checkpoint_load(it->task->origin, it->task->rank, TRP_STATE_OR_FIRST, type,
                               trp_arena_current(), value);
}

const void *troupe_live_as(const troupe_type *type, troupe_rank *me)
{
    loop *it;
    if (TRP_IS_NULL(type) || TRP_IS_NULL(me) || loop_of(me, "troupe_live", &it) != TROUPE_OK)
        return NULL;
    const troupe_type *config = it->trainer->config;
    if (troupe_type_hash(type) == troupe_type_hash(config))
        return it->live;
    (void)troupe_fail(TROUPE_WRONG_TYPE, "troupe_live: the config of '%s' is a %s, not a %s",
                      it->trainer->name, config->name, type->name);
    return NULL;
}

const char *troupe_metadata(troupe_rank *me)
{
    loop *it;
    if (TRP_IS_NULL(me) || loop_of(me, "troupe_metadata", &it) != TROUPE_OK)
        return NULL;
    return it->task->metadata;
}

troupe_status troupe_data_shard(troupe_rank *me, const char *key, troupe_shard *shard)
{
    TRP_REQUIRE(me);
    TRP_REQUIRE(key);
    TRP_REQUIRE(shard);
    loop *it;
    const trp_data_set *set;
    TROUPE_TRY(loop_of(me, "troupe_data_shard", &it));
    TROUPE_TRY(trp_data_find(it->task->data.items, it->task->data.count, key, &set));
    *shard = trp_data_part(set, it->task->rank, it->task->world);
    return TROUPE_OK;
}

troupe_status troupe_return_as(const troupe_type *type, troupe_rank *me, const void *value)
{
    enum { RETURN_MAX = 1 << 20 };
    TRP_REQUIRE(type);
    TRP_REQUIRE(me);
    TRP_REQUIRE(value);
    loop *it;
    TROUPE_TRY(loop_of(me, "troupe_return", &it));
    size_t refs = trp_config_refs(type, value);
    if (refs > 0)
        return troupe_fail(TROUPE_INVALID,
                           "troupe_return: the %s has %zu references, which end with the loop",
                           type->name, refs);
    trp_buffer packed = {0};
    troupe_status status = trp_pack(type, value, &packed);
    if (status == TROUPE_OK && packed.failed)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory to return a %s", type->name);
    if (status == TROUPE_OK && packed.size > RETURN_MAX)
        status = troupe_fail(TROUPE_TOO_LARGE,
                             "troupe_return: the %s takes %zu bytes: expected at most %d; "
                             "checkpoints hold more",
                             type->name, packed.size, RETURN_MAX);
    if (status != TROUPE_OK) {
        trp_buffer_free(&packed);
        return status;
    }
    trp_buffer_free(&it->value);
    it->value = packed;
    it->value_schema = troupe_type_hash(type);
    return TROUPE_OK;
}

troupe_status troupe_allreduce_as(troupe_rank *me, void *values, size_t count, troupe_dtype element,
                                  troupe_reduction how)
{
    TRP_REQUIRE(me);
    if (count > 0)
        TRP_REQUIRE(values);
    loop *it;
    TROUPE_TRY(loop_of(me, "troupe_allreduce", &it));
    return trp_allreduce(&it->member, values, count, element, how);
}

troupe_status troupe_broadcast(troupe_rank *me, void *data, size_t size, int root)
{
    TRP_REQUIRE(me);
    if (size > 0)
        TRP_REQUIRE(data);
    loop *it;
    TROUPE_TRY(loop_of(me, "troupe_broadcast", &it));
    return trp_broadcast(&it->member, data, size, root);
}

troupe_status troupe_barrier(troupe_rank *me)
{
    TRP_REQUIRE(me);
    loop *it;
    TROUPE_TRY(loop_of(me, "troupe_barrier", &it));
    return trp_barrier(&it->member);
}
