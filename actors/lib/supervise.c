// supervise.c: the supervisor, an actor of a hidden class. It monitors its children, which in turn
// are tied to it, so that they end when it could not end them. All that it does, it does in one
// method at a time: what ends while it restarts others is told to it afterwards.
#include <actors/actor/death_record.h>
#include <actors/actor/failed_spawn.h>
#include <actors/actor/invoke.h>
#include <actors/actor/restart_in_place.h>
#include <actors/class/call_error.h>
#include <actors/class/restart_budget.h>
#include <actors/ends/link.h>
#include <actors/spawn/spawn.h>
#include <limits.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <runtime/base/range.h>
#include <runtime/base/require.h>
#include <runtime/codec/type.h>
#include <stdio.h>
#include <string.h>
#include <troupe/async.h>
#include <troupe/supervise.h>

enum { SHUTDOWN_DEFAULT_MS = 5000, RESTARTS_DEFAULT = 3, WINDOW_DEFAULT_MS = 5000, DEPTH_MAX = 16 };
enum { CHILDREN_MAX = 1 << 20 };

// troupe_spawn_options, as it travels: without what a child says itself.
TROUPE_STRUCT(trp_child_spawn, (uint32_t, mailbox_max), (bool, get_if_exists), (double, cpus),
              (double, gpus), (uint64_t, memory_bytes), (troupe_text, resources),
              (uint32_t, resources_wait_ms), (troupe_text, env), (troupe_text, folder),
              (int32_t, restarts), (uint32_t, restart_window_ms), (uint32_t, backoff_ms),
              (int32_t, lifetime), (bool, counted), (uint32_t, concurrency), (troupe_text, groups),
              (uint32_t, save_every), (uint32_t, backoff_max_ms), (uint32_t, backoff_reset_ms),
              (uint32_t, deadline_ms));
// `args` are init arguments as ref/stored_value.h has them, `refs` the references in them: those
// bring holds of what they refer to along.
TROUPE_STRUCT(trp_child_spec, (troupe_text, class_name), (troupe_bytes, args),
              (troupe_array_troupe_ref, refs), (troupe_text, name), (int32_t, place),
              (int32_t, restart), (int32_t, shutdown_ms), (trp_child_spawn, spawn));
TROUPE_STRUCT(trp_supervisor_spec, (int32_t, strategy), (int32_t, restarts), (uint32_t, window_ms),
              (uint32_t, backoff_ms), (uint32_t, backoff_max_ms), (uint32_t, backoff_reset_ms),
              (troupe_array_trp_child_spec, children));
TROUPE_STRUCT(trp_child_look, (troupe_actor, address), (uint32_t, starts));

typedef struct trp_child {
    char *class_name, *name;
    trp_kept args; // With holds for each start; given up when there will be none any more.
    troupe_place place;
    troupe_child_restart restart;
    int shutdown_ms;
    trp_child_spawn spawn; // Its texts are in `texts`.
    trp_arena texts;
    uint32_t starts;
    bool gone;          // It is not started again.
    bool waits;         // Its next start comes by a timer.
    troupe_actor actor; // Of id 0: it does not run.
    uint64_t monitor;
} trp_child;

typedef struct trp_supervisor {
    troupe_strategy strategy;
    trp_budget budget;
    trp_child *children;
    size_t count;
    bool ended;
} trp_supervisor;

static troupe_status trp_supervisor_init(trp_supervisor *self, const trp_supervisor_spec *spec);
static void trp_supervisor_deinit(trp_supervisor *self);
static troupe_status trp_supervisor_told(trp_supervisor *self, const troupe_down *down,
                                         troupe_none *nothing);
static troupe_status trp_supervisor_retry(trp_supervisor *self, const uint64_t *index,
                                          troupe_none *nothing);
static troupe_status trp_supervisor_look(trp_supervisor *self, const uint64_t *index,
                                         trp_child_look *out);
static troupe_status trp_supervisor_add(trp_supervisor *self, const trp_child_spec *spec,
                                        troupe_actor *address);

TROUPE_ACTOR_INIT(trp_supervisor, (trp_supervisor_init, trp_supervisor_spec), trp_supervisor_deinit,
                  (trp_supervisor_told, troupe_down, troupe_none),
                  (trp_supervisor_retry, uint64_t, troupe_none),
                  (trp_supervisor_look, uint64_t, trp_child_look),
                  (trp_supervisor_add, trp_child_spec, troupe_actor));

// ---- one child

static void free_child(trp_child *child)
{
    trp_free(child->class_name);
    trp_free(child->name);
    trp_arena_clear(&child->texts);
    trp_kept_drop(&child->args);
}

static void leave_child(trp_child *child)
{
    child->gone = true;
    trp_kept_drop(&child->args);
}

static troupe_status copy_child(const trp_child_spec *spec, trp_child *child)
{
    *child = (trp_child){.class_name = trp_strdup(spec->class_name),
                         .name = spec->name != NULL ? trp_strdup(spec->name) : NULL,
                         .place = (troupe_place)spec->place,
                         .restart = (troupe_child_restart)spec->restart,
                         .shutdown_ms = spec->shutdown_ms};
    troupe_status status =
        child->class_name == NULL || (spec->name != NULL && child->name == NULL)
            ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a child")
            : trp_kept_take_with(spec->args.data, spec->args.size, spec->refs.items,
                                 spec->refs.count, &child->args);
    if (status == TROUPE_OK)
        status = trp_value_copy(&troupe_type_trp_child_spawn, &spec->spawn, &child->texts,
                                &child->spawn);
    if (status != TROUPE_OK)
        free_child(child);
    return status;
}

static troupe_spawn_options options_of(const trp_child *child)
{
    const trp_child_spawn *spawn = &child->spawn;
    return (troupe_spawn_options){.size = sizeof(troupe_spawn_options),
                                  .name = child->name,
                                  .place = child->place,
                                  .mailbox_max = spawn->mailbox_max,
                                  .get_if_exists = spawn->get_if_exists,
                                  .cpus = spawn->cpus,
                                  .gpus = spawn->gpus,
                                  .memory_bytes = spawn->memory_bytes,
                                  .resources = spawn->resources,
                                  .resources_wait_ms = spawn->resources_wait_ms,
                                  .env = spawn->env,
                                  .folder = spawn->folder,
                                  .restarts = spawn->restarts,
                                  .restart_window_ms = spawn->restart_window_ms,
                                  .backoff_ms = spawn->backoff_ms,
                                  .lifetime = (troupe_lifetime)spawn->lifetime,
                                  .counted = spawn->counted,
                                  .concurrency = spawn->concurrency,
                                  .groups = spawn->groups,
                                  .save_every = spawn->save_every,
                                  .backoff_max_ms = spawn->backoff_max_ms,
                                  .backoff_reset_ms = spawn->backoff_reset_ms,
                                  .deadline_ms = spawn->deadline_ms};
}

static trp_child_spawn describe_spawn(const troupe_spawn_options *given)
{
    return (trp_child_spawn){.mailbox_max = given->mailbox_max,
                             .get_if_exists = given->get_if_exists,
                             .cpus = given->cpus,
                             .gpus = given->gpus,
                             .memory_bytes = given->memory_bytes,
                             .resources = given->resources,
                             .resources_wait_ms = given->resources_wait_ms,
                             .env = given->env,
                             .folder = given->folder,
                             .restarts = given->restarts,
                             .restart_window_ms = given->restart_window_ms,
                             .backoff_ms = given->backoff_ms,
                             .lifetime = (int32_t)given->lifetime,
                             .counted = given->counted,
                             .concurrency = given->concurrency,
                             .groups = given->groups,
                             .save_every = given->save_every,
                             .backoff_max_ms = given->backoff_max_ms,
                             .backoff_reset_ms = given->backoff_reset_ms,
                             .deadline_ms = given->deadline_ms};
}

static troupe_status start_child(trp_child *child)
{
    troupe_spawn_options how = options_of(child);
    troupe_actor actor = trp_spawn_kept(child->class_name, &child->args, &how);
    TROUPE_TRY(troupe_actor_status(actor));
    child->monitor = troupe_monitor_start_as(actor, &troupe_class_trp_supervisor,
                                             troupe_method_trp_supervisor_told.index);
    if (child->monitor == 0) {
        (void)troupe_actor_kill(actor);
        return TROUPE_NO_MEMORY;
    }
    trp_link_child(actor);
    child->actor = actor;
    child->starts++;
    return TROUPE_OK;
}

static void stop_child(trp_child *child)
{
    if (child->actor.id == 0)
        return;
    (void)troupe_monitor_stop(
        child->monitor); // Else its news wait, and will name no child's monitor.
    (void)troupe_actor_stop(child->actor,
                            child->shutdown_ms == TROUPE_NONE ? 0 : child->shutdown_ms);
    child->actor = (troupe_actor){0};
    child->monitor = 0;
    if (child->restart == TROUPE_TEMPORARY)
        leave_child(child);
}

// ---- all of them

static void stop_from(trp_supervisor *self, size_t first)
{
    for (size_t i = self->count; i > first; i--)
        stop_child(&self->children[i - 1]);
}

// Starts what does not run of `count` children from `first` on. *failed: the one that could not be.
static troupe_status start_from(trp_supervisor *self, size_t first, size_t count, size_t *failed)
{
    for (size_t i = first; i < first + count; i++) {
        trp_child *child = &self->children[i];
        if (child->gone || child->actor.id != 0)
            continue;
        *failed = i;
        TROUPE_TRY(start_child(child));
    }
    return TROUPE_OK;
}

static void free_all(trp_supervisor *self)
{
    for (size_t i = 0; i < self->count; i++)
        free_child(&self->children[i]);
    trp_free(self->children);
}

// Of one that was killed, whose children end by their link.
static void discard(void *self)
{
    free_all(self);
}

__attribute__((constructor)) static void register_discard(void)
{
    trp_class_discards(&troupe_class_trp_supervisor, discard);
}

static troupe_status trp_supervisor_init(trp_supervisor *self, const trp_supervisor_spec *spec)
{
    size_t failed = 0;
    self->strategy = (troupe_strategy)spec->strategy;
    self->budget = (trp_budget){.limit = spec->restarts, .window_ms = spec->window_ms};
    if (spec->restarts == TROUPE_FOREVER || spec->backoff_ms != 0)
        trp_budget_pauses(&self->budget, spec->backoff_ms, spec->backoff_max_ms,
                          spec->backoff_reset_ms);
    self->children = trp_alloc((spec->children.count + 1) * sizeof *self->children);
    if (self->children == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for children");
    troupe_status status = TROUPE_OK;
    while (self->count < spec->children.count && status == TROUPE_OK)
        if ((status = copy_child(&spec->children.items[self->count],
                                 &self->children[self->count])) == TROUPE_OK)
            self->count++;
    if (status == TROUPE_OK)
        status = start_from(self, 0, self->count, &failed);
    if (status == TROUPE_OK)
        return TROUPE_OK;
    troupe_error failure = *troupe_last_error();
    stop_from(self, 0);
    free_all(self);
    return trp_error_set(&failure);
}

static void trp_supervisor_deinit(trp_supervisor *self)
{
    stop_from(self, 0);
    free_all(self);
}

// Its own supervisor's turn. Its deinit stops the children.
static troupe_status give_up(trp_supervisor *self, const char *why)
{
    self->ended = true;
    return troupe_actor_fail(TROUPE_FAILED, "gave up after %u restarts: %.180s", self->budget.count,
                             why);
}

// Starts what the end of child *which asks for, once. *which: the one that could not be.
static troupe_status start_again(trp_supervisor *self, size_t *which)
{
    size_t first = self->strategy == TROUPE_ONE_FOR_ALL ? 0 : *which;
    size_t count = self->strategy == TROUPE_ONE_FOR_ONE ? 1 : self->count - first;
    if (count > 1)
        stop_from(self, first);
    return start_from(self, first, count, which);
}

// Meanwhile it answers, and can be ended.
static troupe_status start_later(trp_supervisor *self, size_t which, int64_t delay_ms)
{
    trp_child *child = &self->children[which];
    if (!child->waits &&
        troupe_timer_after(trp_supervisor_retry, (uint32_t)delay_ms, which).id_ == 0)
        return give_up(self, troupe_last_error()->text);
    child->waits = true;
    return TROUPE_OK;
}

static bool is_over(void)
{
    trp_actor *me = trp_run_actor();
    return trp_actors_stopping() || !trp_actor_is_open(me, trp_actor_id(me));
}

static void say_restart(const trp_supervisor *self, int64_t delay_ms, const char *why)
{
    char when[TRP_BUDGET_TEXT];
    trp_budget_describe(&self->budget, delay_ms, when);
    trp_log(TRP_WARN, "supervisor %s restarts children %s: %s",
            trp_actor_label(trp_actor_id(trp_run_actor())).text, when, why);
}

// Restarts what the end of child `which` asks for; again if that fails, while the budget lasts.
static troupe_status restart(trp_supervisor *self, size_t which, const char *text)
{
    char why[256];
    int64_t delay_ms;
    snprintf(why, sizeof why, "child %zu (%.60s): %.140s", which, self->children[which].class_name,
             text);
    while (!is_over()) {
        if (!trp_budget_take(&self->budget, trp_clock_ms(), &delay_ms))
            return give_up(self, why);
        say_restart(self, delay_ms, why);
        if (delay_ms > 0)
            return start_later(self, which, delay_ms);
        if (start_again(self, &which) == TROUPE_OK)
            return TROUPE_OK;
        snprintf(why, sizeof why, "child %zu (%.60s) could not be restarted: %.120s", which,
                 self->children[which].class_name, troupe_last_error()->text);
    }
    return TROUPE_OK;
}

static troupe_status no_child(const trp_supervisor *self, uint64_t index)
{
    return troupe_fail(TROUPE_NOT_FOUND, "the supervisor has %zu children, and no number %llu",
                       self->count, (unsigned long long)index);
}

// The hour of a child's next start. It may have been started with others meanwhile.
static troupe_status trp_supervisor_retry(trp_supervisor *self, const uint64_t *index,
                                          troupe_none *nothing)
{
    (void)nothing;
    size_t which = *index;
    if (which >= self->count)
        return no_child(self, *index);
    trp_child *child = &self->children[which];
    if (!child->waits) // No timer of ours.
        return TROUPE_OK;
    child->waits = false;
    if (self->ended || child->gone || child->actor.id != 0 ||
        start_again(self, &which) == TROUPE_OK)
        return TROUPE_OK;
    return restart(self, which, troupe_last_error()->text);
}

static troupe_status trp_supervisor_told(trp_supervisor *self, const troupe_down *down,
                                         troupe_none *nothing)
{
    (void)nothing;
    size_t which = 0;
    while (which < self->count && self->children[which].monitor != down->monitor)
        which++;
    if (self->ended || which == self->count) // One that was stopped meanwhile.
        return TROUPE_OK;
    trp_child *child = &self->children[which];
    child->actor = (troupe_actor){0};
    child->monitor = 0;
    bool normal = down->reason == TROUPE_DOWN_NORMAL;
    if (child->restart == TROUPE_TEMPORARY || (child->restart == TROUPE_TRANSIENT && normal)) {
        leave_child(child);
        return TROUPE_OK;
    }
    return down->reason == TROUPE_DOWN_RUNTIME ? TROUPE_OK : restart(self, which, down->text);
}

static troupe_status trp_supervisor_look(trp_supervisor *self, const uint64_t *index,
                                         trp_child_look *out)
{
    if (*index >= self->count)
        return no_child(self, *index);
    const trp_child *child = &self->children[*index];
    *out = (trp_child_look){.address = child->actor, .starts = child->starts};
    return TROUPE_OK;
}

static troupe_status trp_supervisor_add(trp_supervisor *self, const trp_child_spec *spec,
                                        troupe_actor *address)
{
    trp_child *grown = trp_realloc(self->children, (self->count + 2) * sizeof *grown);
    if (grown == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a child");
    self->children = grown;
    trp_child *child = &grown[self->count];
    TROUPE_TRY(copy_child(spec, child));
    troupe_status status = start_child(child);
    if (status != TROUPE_OK) {
        free_child(child);
        return status;
    }
    self->count++;
    *address = child->actor;
    return TROUPE_OK;
}

// ---- specifications: in the caller's arena

// What is kept of arguments, until the specification has been sent.
typedef struct draft {
    struct draft *next;
    trp_kept kept;
} draft;

static troupe_status describe_supervisor(const troupe_child *children, size_t count,
                                         const troupe_supervisor_options *how, int depth,
                                         draft **drafts, trp_supervisor_spec *spec);

static troupe_status no_memory(void)
{
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for a child");
}

typedef struct listing {
    troupe_ref *items; // NULL: they are counted only.
    size_t count;
} listing;

static void list_ref(troupe_ref *ref, void *user)
{
    listing *refs = user;
    if (refs->items != NULL)
        refs->items[refs->count] = *ref;
    refs->count++;
}

// They are the caller's still.
static troupe_status list_refs(const trp_shape *shape, void *args, troupe_array_troupe_ref *out)
{
    listing refs = {0};
    trp_value_refs(shape->type, args, list_ref, &refs);
    refs.items = troupe_arena_alloc((refs.count + 1) * sizeof *refs.items);
    if (refs.items == NULL)
        return no_memory();
    refs.count = 0;
    trp_value_refs(shape->type, args, list_ref, &refs);
    *out = (troupe_array_troupe_ref){refs.items, refs.count};
    return TROUPE_OK;
}

static troupe_status keep_args(const trp_shape *shape, const void *args, draft **drafts,
                               trp_child_spec *spec)
{
    draft *one = troupe_arena_alloc(sizeof *one);
    if (one == NULL)
        return no_memory();
    TROUPE_TRY(trp_kept_pack(shape, args, &one->kept));
    one->next = *drafts;
    *drafts = one;
    spec->args = (troupe_bytes){one->kept.data, one->kept.size};
    return shape->refs ? list_refs(shape, (void *)args, &spec->refs) : TROUPE_OK;
}

static void drop_drafts(draft *drafts)
{
    for (; drafts != NULL; drafts = drafts->next)
        trp_kept_drop(&drafts->kept);
}

static troupe_status describe_actor(const troupe_child *child, draft **drafts, trp_child_spec *spec)
{
    const trp_class *known = trp_class_of(child->class_);
    if (known == NULL)
        return troupe_failed_(troupe_last_error()->status);
    const void *args =
        child->init_args != NULL ? child->init_args : troupe_arena_alloc(known->init.type->size);
    return args != NULL ? keep_args(&known->init, args, drafts, spec) : no_memory();
}

static troupe_status describe_child(const troupe_child *given, int depth, draft **drafts,
                                    trp_child_spec *spec)
{
    troupe_child taken, *child = &taken;
    TROUPE_TRY(TRP_OPTIONS_TAKE("a supervisor's child", taken, given));
    bool supervisor = child->class_ == NULL;
    static const trp_range ranges[] = {
        TRP_RANGE(troupe_child, place, TROUPE_PLACE_ANY, TROUPE_PLACE_ISOLATED),
        TRP_RANGE(troupe_child, restart, TROUPE_PERMANENT, TROUPE_TEMPORARY),
        TRP_RANGE(troupe_child, shutdown_ms, TROUPE_NONE, INT_MAX),
    };
    TROUPE_TRY(trp_ranges_check("a child", ranges, sizeof ranges / sizeof *ranges, child));
    troupe_spawn_options spawn;
    TROUPE_TRY(TRP_OPTIONS_TAKE(".spawn of a child", spawn, child->spawn));
    if (supervisor && child->spawn != NULL)
        return troupe_fail(TROUPE_INVALID, ".spawn of a child that is a supervisor: expected NULL");
    *spec = (trp_child_spec){
        .class_name = supervisor ? troupe_class_trp_supervisor.name : child->class_->name,
        .name = child->name != NULL ? child->name : spawn.name,
        .place = (int32_t)(child->place != TROUPE_PLACE_ANY ? child->place : spawn.place),
        .spawn = describe_spawn(&spawn),
        .restart = (int32_t)child->restart,
        .shutdown_ms = child->shutdown_ms != 0 ? child->shutdown_ms : SHUTDOWN_DEFAULT_MS};
    if (!supervisor)
        return describe_actor(child, drafts, spec);
    trp_supervisor_spec inner;
    TROUPE_TRY(describe_supervisor(child->children, child->child_count, child->supervisor,
                                   depth + 1, drafts, &inner));
    if (spec->place == TROUPE_PLACE_ANY)
        spec->place = TROUPE_PLACE_HERE;
    trp_shape shape = trp_shape_of(&troupe_type_trp_supervisor_spec);
    return keep_args(&shape, &inner, drafts, spec);
}

static troupe_status take_options(const troupe_supervisor_options *how, trp_supervisor_spec *spec)
{
    troupe_supervisor_options taken;
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_supervisor_start", taken, how));
    static const trp_range ranges[] = {
        TRP_RANGE(troupe_supervisor_options, place, TROUPE_PLACE_ANY, TROUPE_PLACE_ISOLATED),
        TRP_RANGE(troupe_supervisor_options, strategy, TROUPE_ONE_FOR_ONE, TROUPE_REST_FOR_ONE),
        TRP_RANGE(troupe_supervisor_options, restarts, TROUPE_NONE, TRP_RESTARTS_KEPT),
        TRP_RANGE(troupe_supervisor_options, backoff_max_ms, 1, TRP_PAUSE_MAX_MS),
        TRP_RANGE(troupe_supervisor_options, backoff_reset_ms, 1, TRP_PAUSE_MAX_MS),
    };
    TROUPE_TRY(trp_ranges_check("a supervisor", ranges, sizeof ranges / sizeof *ranges, &taken));
    spec->strategy = (int32_t)taken.strategy;
    spec->restarts = taken.restarts == 0             ? RESTARTS_DEFAULT
                     : taken.restarts == TROUPE_NONE ? 0
                                                     : taken.restarts;
    spec->window_ms = taken.window_ms != 0 ? taken.window_ms : WINDOW_DEFAULT_MS;
    spec->backoff_ms = taken.backoff_ms;
    spec->backoff_max_ms = taken.backoff_max_ms;
    spec->backoff_reset_ms = taken.backoff_reset_ms;
    return TROUPE_OK;
}

static troupe_status describe_supervisor(const troupe_child *children, size_t count,
                                         const troupe_supervisor_options *how, int depth,
                                         draft **drafts, trp_supervisor_spec *spec)
{
    *spec = (trp_supervisor_spec){0};
    if (depth > DEPTH_MAX)
        return troupe_fail(TROUPE_INVALID, "a tree of supervisors is deeper than %d", DEPTH_MAX);
    if (children == NULL && count > 0)
        return troupe_fail(TROUPE_INVALID, "%zu 'children' were given as NULL", count);
    if (count > CHILDREN_MAX)
        return troupe_fail(TROUPE_INVALID, "child_count is %zu, expected at most %d", count,
                           CHILDREN_MAX);
    TROUPE_TRY(take_options(how, spec));
    trp_child_spec *items = troupe_arena_alloc((count + 1) * sizeof *items);
    if (items == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu children", count);
    for (size_t i = 0; i < count; i++)
        TROUPE_TRY(describe_child(trp_row_at(children, i), depth, drafts, &items[i]));
    spec->children = (troupe_array_trp_child_spec){items, count};
    return TROUPE_OK;
}

// ---- for users

troupe_supervisor_actor troupe_supervisor_start_with(const troupe_child *children,
                                                     size_t child_count,
                                                     const troupe_supervisor_options *how)
{
    trp_arena arena = {0}, *before = trp_arena_swap(&arena);
    draft *drafts = NULL;
    trp_supervisor_spec spec;
    troupe_supervisor_options taken;
    troupe_supervisor_actor made;
    troupe_status status = TRP_OPTIONS_TAKE("troupe_supervisor_start", taken, how);
    if (status == TROUPE_OK)
        status = describe_supervisor(children, child_count, how, 0, &drafts, &spec);
    if (status == TROUPE_OK) {
        troupe_place place = taken.place != TROUPE_PLACE_ANY ? taken.place : TROUPE_PLACE_HERE;
        made.address = troupe_spawn_as(&troupe_class_trp_supervisor, &spec,
                                       &(troupe_spawn_options){.size = sizeof(troupe_spawn_options),
                                                               .name = taken.name,
                                                               .place = place});
    } else {
        made.address = trp_spawn_failed(status);
    }
    (void)trp_arena_swap(before);
    drop_drafts(drafts);
    trp_arena_clear(&arena);
    return made;
}

troupe_status(troupe_supervisor_child)(troupe_supervisor_actor supervisor, size_t index,
                                       troupe_child_state *child, size_t size)
{
    TRP_REQUIRE(child);
    trp_child_look found;
    trp_supervisor_actor target = {supervisor.address};
    TROUPE_TRY(troupe_get(trp_child_look, troupe_call(target, trp_supervisor_look, index), &found));
    troupe_child_state now = {.address = found.address, .starts = found.starts};
    trp_output_give(child, size, &now, sizeof now);
    return TROUPE_OK;
}

troupe_status troupe_supervisor_add(troupe_supervisor_actor supervisor, const troupe_child *child,
                                    troupe_actor *address)
{
    TRP_REQUIRE(child);
    TRP_REQUIRE(address);
    trp_arena arena = {0}, *before = trp_arena_swap(&arena);
    draft *drafts = NULL;
    trp_child_spec spec;
    trp_supervisor_actor target = {supervisor.address};
    troupe_status status = describe_child(child, 0, &drafts, &spec);
    if (status == TROUPE_OK)
        status =
            troupe_get(troupe_actor, troupe_call_from(target, trp_supervisor_add, &spec), address);
    (void)trp_arena_swap(before);
    drop_drafts(drafts);
    trp_arena_clear(&arena);
    return status;
}
