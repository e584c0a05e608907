// worker.c: one rank: its loop, and what the loop may call.
#include <actors/actor/lifecycle.h>
#include <actors/class/class.h>
#include <actors/ref/ref.h>
#include <actors/ref/ref_visit.h>
#include <runtime/base/buffer.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/require.h>
#include <runtime/codec/pack.h>
#include <runtime/codec/type.h>
#include <runtime/shm/process_table.h>
#include <runtime/store/read.h>
#include <runtime/store/store.h>
#include <stdio.h>
#include <string.h>
#include <train/alive.h>
#include <train/answers.h>
#include <train/config.h>
#include <train/engine_shm.h>
#include <train/gate.h>
#include <train/live.h>
#include <train/memory_state.h>
#include <train/saver.h>
#include <train/steps.h>
#include <train/trainer.h>
#include <train/worker.h>
#include <troupe/async.h>

// The loop that runs on this thread.
typedef struct trp_loop {
    troupe_rank me; // First: it is what the user's code holds.
    const trp_task *task;
    trp_member member;
    trp_shared shared; // That the member has.
    const troupe_trainer *trainer;
    trp_live_members live_members;
    void *live;           // The config with the values of now,
    trp_arena live_arena; // and what belongs to those that came while it ran.
    int reports;          // The last one made.
    trp_answers answers;  // To its reports.
    trp_saver saver;
    trp_staged staged;
    bool stopped;
    trp_data_sets data; // That it has made itself,
    trp_lent_sets sets; // and those that its loop asks for,
    uint64_t sets_lent; // with references to the first.
    trp_guest *guests;  // What it has opened of the layers above.
    trp_buffer value;   // What it returns, packed; empty: nothing.
    uint64_t value_schema;
    trp_alive *alive;
    const void *config;
    // Of one that goes on by messages.
    trp_worker *worker;
    trp_steps steps;
    trp_arena arena;       // Its task, its config, and what rank_setup and plan were given.
    uint64_t lent;         // References in its task.
    troupe_deferred later; // The call that is answered with its end.
    bool is_set_up;
    uint64_t pending;   // The step that answers later; 0: none.
    troupe_ref awaited; // What it goes on with, and how; NULL: it is told.
    trp_step_next next;
    troupe_timer watch; // While steps answer later.
    void *above;        // Of the layer above.
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

// A loop that has ended well has, once its last report was taken.
static troupe_status last_answer(loop *it, troupe_status ended)
{
    troupe_status status = trp_answers_take(&it->answers);
    return status == TROUPE_OK ? ended : status;
}

static const troupe_stages *stages_of(const loop *it)
{
    static const troupe_stages none;
    return it->trainer->stages ? it->trainer->stages : &none;
}

static troupe_status set_up(loop *it)
{
    const troupe_stages *stages = stages_of(it);
    if (stages->rank_setup)
        TROUPE_TRY(trp_hook_ended(stages->rank_setup(&it->me, it->config), "rank_setup"));
    it->is_set_up = true;
    return TROUPE_OK;
}

// What went wrong first is what counts.
static troupe_status tear_down(loop *it, troupe_status status)
{
    const troupe_stages *stages = stages_of(it);
    if (!it->is_set_up || !stages->rank_teardown)
        return status;
    troupe_error said;
    trp_error_hold(&said);
    troupe_status after =
        trp_hook_ended(stages->rank_teardown(&it->me, it->config), "rank_teardown");
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

// A loop may read its sets as often as it likes: reading consumes no reference that is lent.
static troupe_status lend_data(loop *it)
{
    size_t size = it->data.count * sizeof *it->data.items;
    trp_shape shape = trp_shape_of(&troupe_type_trp_lent_sets);
    void *copy = troupe_arena_alloc(size);
    if (!copy)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the data of rank %d", it->task->rank);
    it->sets.sets = (troupe_array_trp_data_set){memcpy(copy, it->data.items, size), it->data.count};
    return trp_refs_borrow(&shape, &it->sets, &it->sets_lent);
}

// The setup of data that runs on ranks.
static troupe_status make_data(loop *it)
{
    void *source;
    const trp_task *task = it->task;
    const trp_data_plan *plan = &task->data_plan;
    if (!plan->name)
        return TROUPE_OK;
    const troupe_data_table *table = trp_data_table_find(plan->name, plan->schema);
    if (!table)
        return troupe_last_error()->status;
    TROUPE_TRY(trp_config_read(table->source, "the source of data", plan->source, plan->refs.items,
                               plan->refs.count, &source));
    troupe_data about = {.path = task->run,
                         .metadata = task->metadata,
                         .ranks = task->world,
                         .attempt = task->attempt,
                         .rank = task->rank};
    troupe_status status = trp_data_make(table, &about, source, plan->share, &it->data);
    if (status == TROUPE_OK)
        return lend_data(it);
    const troupe_error *last = troupe_last_error();
    if (last->status != status)
        (void)troupe_fail(status, "%s", troupe_strerror(status));
    return trp_error_prefix("setup of data '%s' failed", table->name);
}

static troupe_status find_trainer(loop *it)
{
    const trp_task *task = it->task;
    void *config;
    it->trainer = trp_trainer_find(task->trainer, task->schema);
    if (!it->trainer)
        return troupe_last_error()->status;
    TROUPE_TRY(trp_config_read(it->trainer->config, "the config of the loop", task->config,
                               task->refs.items, task->refs.count, &config));
    TROUPE_TRY(begin_live(it, config));
    it->config = config;
    return make_data(it);
}

static troupe_status loop_over(loop *it, troupe_status status)
{
    if (status == TROUPE_OK || status == TROUPE_STOPPED)
        return last_answer(it, status);
    trp_answers_drop(&it->answers);
    return status;
}

// A loop function between its rank's stages.
static troupe_status run_function(loop *it)
{
    TROUPE_TRY(find_trainer(it));
    current = it;
    troupe_status status = set_up(it);
    if (status == TROUPE_OK)
        status = it->trainer->run(&it->me, it->config);
    status = tear_down(it, status);
    current = NULL;
    return loop_over(it, status);
}

// Its lines of output carry its rank from here on.
static void relabel(const trp_task *task)
{
    enum { NAME_MAX_BYTES = 48 };
    static const char between[] = " rank=";
    char name[NAME_MAX_BYTES + 32];
    size_t size = strnlen(task->trainer, NAME_MAX_BYTES);
    memcpy(name, task->trainer, size);
    memcpy(name + size, between, sizeof between - 1);
    char *end = trp_digits(name + size + sizeof between - 1, (uint32_t)task->first);
    if (task->together > 1) {
        *end++ = '-';
        end = trp_digits(end, (uint32_t)(task->first + task->together - 1));
    }
    *end = '\0';
    trp_process_relabel(name);
}

static void announce(const trp_task *task)
{
    if (task->rank == task->first)
        relabel(task);
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

// Joins the run and its group.
static troupe_status open_loop(loop *it, const trp_task *task)
{
    it->me = place_of(&task->place, task->attempt);
    it->task = task;
    it->reports = task->first_report - 1;
    trp_answers_begin(&it->answers, it->reports);
    it->saver = (trp_saver){.run = task->run,
                            .epoch = task->epoch,
                            .attempt = task->attempt,
                            .rank = task->rank,
                            .keeps_none = task->keep == TROUPE_NONE,
                            .coordinator = task->coordinator};
    announce(task);
    TROUPE_TRY(trp_alive_join(task->run, task->epoch, &it->alive));
    troupe_status status = join_group(task, &it->member);
    it->shared = (trp_shared){.source = &trp_shared_store};
    it->member.shared = &it->shared;
    if (status != TROUPE_OK)
        trp_alive_leave(&it->alive);
    return status;
}

// Leaves both, and says how it has ended: with the thread's last error, where it has failed.
static troupe_status close_loop(loop *it, troupe_status status, trp_worker_end *end)
{
    const char *text = reason_of(status);
    trp_member_leave(&it->member, status, text);
    trp_staged_end(&it->staged);
    trp_saver_end(&it->saver); // Before the end is known, what was saved is told of.
    trp_alive_leave(&it->alive);
    *end = (trp_worker_end){
        .status = (int)status, .text = troupe_arena_text(text), .stopped = it->stopped};
    status = status == TROUPE_OK ? hand_over(it, end) : TROUPE_OK;
    trp_buffer_free(&it->value);
    trp_guests_end(&it->guests);
    trp_refs_return(it->sets_lent);
    trp_data_drop(&it->data);
    trp_arena_clear(&it->live_arena);
    return status;
}

// ---- a loop of steps, which goes on by messages

static trp_arena *enter(loop *it, loop **outer)
{
    *outer = current;
    current = it;
    return trp_arena_swap(&it->arena);
}

static void leave(loop *outer, trp_arena *arena)
{
    current = outer;
    (void)trp_arena_swap(arena);
}

// Frees what its end has left.
static void drop_loop(loop *it)
{
    trp_refs_return(it->lent);
    trp_arena_clear(&it->steps.arena);
    trp_arena_clear(&it->arena);
    trp_free(it);
}

// With the thread's last error, where it has failed.
static void end_steps(trp_worker *self, troupe_status status)
{
    loop *it = self->loop, *outer;
    trp_worker_end end;
    troupe_error said;
    trp_error_hold(&said);
    if (it->watch.id_)
        (void)troupe_timer_stop(it->watch);
    troupe_ref_drop(it->awaited);
    trp_error_restore(&said);
    trp_arena *arena = enter(it, &outer);
    status = loop_over(it, tear_down(it, status));
    leave(outer, arena);
    self->loop = NULL;
    status = close_loop(it, status, &end);
    if (status == TROUPE_OK)
        (void)troupe_deferred_fulfil(trp_worker_end, &it->later, &end);
    else
        (void)troupe_deferred_refuse(&it->later, status, "%s", troupe_last_error()->text);
    drop_loop(it);
}

static bool post(size_t method, const void *argument)
{
    return trp_life_post_to(troupe_self(), &troupe_class_trp_worker, method, argument);
}

// Runs the loop until a step is pending or it is over; where others share the process, a batch a
// message.
static void go_on(trp_worker *self, trp_steps_turn turn)
{
    loop *it = self->loop, *outer;
    bool shares = it->task->together > 1;
    trp_arena *arena = enter(it, &outer);
    while (turn == TRP_STEPS_AGAIN &&
           !(shares && post(troupe_method_trp_worker_go.index, &(troupe_none){0})))
        turn = trp_steps_run(&it->steps);
    leave(outer, arena);
    if (turn == TRP_STEPS_OVER)
        end_steps(self, it->steps.status);
}

static troupe_status copy_task(loop *it, const trp_task *task)
{
    trp_shape shape = trp_shape_of(&troupe_type_trp_task);
    trp_task *copy = (trp_task *)trp_arena_alloc(&it->arena, sizeof *copy);
    if (!copy)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the task of rank %d", task->rank);
    TROUPE_TRY(trp_value_copy(&troupe_type_trp_task, task, &it->arena, copy));
    it->task = copy;
    return trp_refs_borrow(&shape, copy, &it->lent);
}

static troupe_status begin_steps(trp_worker *self, const trp_task *task)
{
    loop *it = (loop *)trp_alloc(sizeof *it), *outer;
    if (!it)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the loop of rank %d", task->rank);
    *it = (loop){.worker = self};
    it->later = troupe_defer();
    bool deferred = it->later.id_ != 0;
    troupe_status status = deferred ? copy_task(it, task) : troupe_last_error()->status;
    if (deferred && status == TROUPE_OK)
        status = open_loop(it, it->task);
    if (status != TROUPE_OK) { // Which ends the call, too.
        drop_loop(it);
        return status;
    }
    self->loop = it;
    trp_arena *arena = enter(it, &outer);
    status = find_trainer(it);
    if (status == TROUPE_OK)
        status = set_up(it);
    leave(outer, arena);
    if (status != TROUPE_OK) {
        end_steps(self, status);
        return TROUPE_OK;
    }
    it->steps = (trp_steps){.stages = stages_of(it), .me = &it->me, .config = it->live};
    go_on(self, TRP_STEPS_AGAIN);
    return TROUPE_OK;
}

// The step that was pending, or one of a loop that has ended.
static bool is_pending(const trp_worker *self, uint64_t number)
{
    return self->loop && number != 0 && self->loop->pending == number;
}

static void end_pending(trp_worker *self, troupe_status status)
{
    loop *it = self->loop, *outer;
    it->pending = 0;
    trp_arena *arena = enter(it, &outer);
    trp_steps_turn turn = trp_steps_answer(&it->steps, status);
    leave(outer, arena);
    go_on(self, turn);
}

static void continue_pending(trp_worker *self)
{
    loop *it = self->loop, *outer;
    troupe_ref ref = it->awaited;
    trp_step_next next = it->next;
    it->pending = 0;
    it->awaited = (troupe_ref){0};
    it->next = NULL;
    trp_arena *arena = enter(it, &outer);
    trp_steps_turn turn = trp_steps_continue(&it->steps, next, ref);
    leave(outer, arena);
    go_on(self, turn);
}

troupe_status trp_worker_go(trp_worker *self, const troupe_none *nothing, troupe_none *none)
{
    (void)nothing, (void)none;
    if (self->loop) {
        loop *it = self->loop, *outer;
        trp_arena *arena = enter(it, &outer);
        trp_steps_turn turn = trp_steps_run(&it->steps);
        leave(outer, arena);
        go_on(self, turn);
    }
    return TROUPE_OK;
}

troupe_status trp_worker_stepped(trp_worker *self, const trp_step_end *what, troupe_none *none)
{
    (void)none;
    troupe_status status = (troupe_status)what->status;
    if (!is_pending(self, what->number) || self->loop->next)
        return TROUPE_OK;
    if (status != TROUPE_OK)
        (void)troupe_fail(status, "%s", what->text ? what->text : "");
    end_pending(self, status);
    return TROUPE_OK;
}

troupe_status trp_worker_ready(trp_worker *self, const uint64_t *number, troupe_none *none)
{
    (void)none;
    if (is_pending(self, *number) && self->loop->next)
        continue_pending(self);
    return TROUPE_OK;
}

// Makes good what was lost for lack of memory; and a group that has ended waits for no step.
troupe_status trp_worker_look(trp_worker *self, const troupe_none *nothing, troupe_none *none)
{
    (void)nothing, (void)none;
    loop *it = self->loop;
    bool ready = false;
    if (!it || it->pending == 0)
        return TROUPE_OK;
    if (it->next && troupe_wait(&it->awaited, 1, 1, TROUPE_POLL, &ready, NULL) == TROUPE_OK &&
        ready)
        continue_pending(self);
    else if (!trp_member_is_whole(&it->member))
        end_pending(self, trp_member_lost(&it->member, "a step that answers later"));
    return TROUPE_OK;
}

troupe_status trp_worker_host(trp_worker *self, const int *count, troupe_array_troupe_actor *made)
{
    (void)self;
    troupe_actor *workers =
        (troupe_actor *)troupe_arena_alloc((size_t)(*count + 1) * sizeof *workers);
    if (!workers)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %d ranks of a process", *count);
    for (int i = 0; i < *count; i++) {
        trp_worker_actor worker = troupe_spawn(trp_worker, .place = TROUPE_PLACE_HERE);
        TROUPE_TRY(troupe_actor_status(worker.address));
        workers[i] = worker.address;
    }
    *made = (troupe_array_troupe_actor){workers, (size_t)*count};
    return TROUPE_OK;
}

troupe_status trp_worker_run(trp_worker *self, const trp_task *task, trp_worker_end *end)
{
    const troupe_trainer *trainer = trp_trainer_find(task->trainer, task->schema);
    if (trainer && trp_steps_are_there(trainer))
        return begin_steps(self, task);
    loop it = {.worker = self};
    TROUPE_TRY(open_loop(&it, task));
    return close_loop(&it, run_function(&it), end);
}

// ---- what a loop may call

int trp_worker_reports(troupe_rank *me)
{
    loop *it = NULL;
    trp_assert(loop_of(me, "a trainer", &it) == TROUPE_OK);
    return it->reports;
}

void trp_worker_stop(troupe_rank *me)
{
    loop *it = NULL;
    trp_assert(loop_of(me, "a trainer", &it) == TROUPE_OK && it->task->world == 1);
    it->stopped = true;
}

const trp_task *trp_worker_task(troupe_rank *me)
{
    loop *it = NULL;
    trp_assert(loop_of(me, "a trainer", &it) == TROUPE_OK);
    return it->task;
}

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
    trp_answers_add(&it->answers, call_report(it, &report));
    trp_staged_drop(&it->staged);
    bool decided = trp_gate_names(&it->task->gate, it->reports);
    return decided ? trp_answers_take(&it->answers) : TROUPE_OK;
}

// What a rank says that is alone, no other one can refuse. States and files of its own are not to
// pile up.
static bool may_be_ahead(const loop *it, bool pending)
{
    return it->task->world == 1 && !pending && it->staged.state == 0;
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
        TROUPE_TRY(trp_answers_await(&it->answers, may_be_ahead(it, pending)));
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

void **trp_loop_above(troupe_rank *me)
{
    loop *it;
    return loop_of(me, "a function of models", &it) == TROUPE_OK ? &it->above : NULL;
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
    const troupe_array_trp_data_set *sets =
        it->task->data_plan.name ? &it->sets.sets : &it->task->data;
    TROUPE_TRY(trp_data_find(sets->items, sets->count, key, &set));
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

troupe_status trp_worker_member(troupe_rank *me, const char *what, trp_member **member)
{
    loop *it;
    TROUPE_TRY(loop_of(me, what, &it));
    *member = &it->member;
    return TROUPE_OK;
}

troupe_status trp_worker_guest(troupe_rank *me, const char *what, trp_guest *guest)
{
    loop *it;
    TROUPE_TRY(loop_of(me, what, &it));
    trp_guest_enter(&it->guests, guest);
    return TROUPE_OK;
}

// ---- steps that answer later

// That no word is lost and no group that has ended is waited for.
static troupe_status watch_step(loop *it)
{
    enum { LOOK_MS = 100 };
    if (it->watch.id_ == 0)
        it->watch = troupe_timer_every(trp_worker_look, LOOK_MS);
    return it->watch.id_ ? TROUPE_OK : troupe_last_error()->status;
}

// The step that runs is pending from now on.
static troupe_status put_off(troupe_rank *me, const char *what, loop **found)
{
    loop *it;
    TRP_REQUIRE(me);
    TROUPE_TRY(loop_of(me, what, &it));
    if (!it->steps.stepping)
        return troupe_fail(TROUPE_INVALID, "%s was not called by the hook .step", what);
    if (it->steps.later)
        return troupe_fail(TROUPE_INVALID, "%s: the step answers later already", what);
    TROUPE_TRY(watch_step(it));
    it->steps.later = true;
    it->pending = ++it->worker->steps;
    *found = it;
    return TROUPE_OK;
}

troupe_step troupe_step_later(troupe_rank *me)
{
    loop *it;
    if (put_off(me, "troupe_step_later", &it) != TROUPE_OK)
        return (troupe_step){0};
    return (troupe_step){troupe_self(), it->pending};
}

troupe_status troupe_step_done(troupe_step step, troupe_status status)
{
    if (step.number_ == 0)
        return troupe_fail(TROUPE_INVALID, "troupe_step_done: the step is empty");
    troupe_error last = *troupe_last_error();
    bool said = status != TROUPE_OK && last.status == status;
    trp_step_end end = {step.number_, (int)status, said ? last.text : NULL};
    return troupe_tell_from((trp_worker_actor){step.rank_}, trp_worker_stepped, &end);
}

// Who is told that a reference is ready.
typedef struct awaiting {
    troupe_actor rank;
    uint64_t number;
} awaiting;

// Where there is no memory for the word, the rank looks.
static void step_ready(void *user, troupe_ref ref)
{
    (void)ref;
    awaiting *by = (awaiting *)user;
    (void)trp_life_post_to(by->rank, &troupe_class_trp_worker, troupe_method_trp_worker_ready.index,
                           &by->number);
    trp_free(by);
}

static troupe_status await_ref(troupe_rank *me, troupe_ref ref, trp_step_next next)
{
    loop *it;
    if (ref.id == 0)
        return troupe_fail(TROUPE_INVALID, "troupe_step_then: the reference is empty");
    awaiting *by = (awaiting *)trp_alloc(sizeof *by);
    troupe_status status = by ? put_off(me, "troupe_step_then", &it)
                              : troupe_fail(TROUPE_NO_MEMORY, "no memory to wait for a reference");
    if (status != TROUPE_OK) {
        trp_free(by);
        return status;
    }
    *by = (awaiting){troupe_self(), it->pending};
    it->awaited = ref;
    it->next = next;
    trp_ref_when(ref, step_ready, by);
    return TROUPE_OK;
}

troupe_status troupe_step_then(troupe_rank *me, troupe_ref ref,
                               troupe_status (*next)(troupe_rank *me, troupe_ref ref))
{
    TRP_REQUIRE(me);
    TRP_REQUIRE(next);
    troupe_status status = await_ref(me, ref, next);
    if (status != TROUPE_OK) {
        troupe_error said;
        trp_error_hold(&said);
        troupe_ref_drop(ref);
        trp_error_restore(&said);
    }
    return status;
}
