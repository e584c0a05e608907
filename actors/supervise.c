// supervise.c: the supervisor, an actor of a hidden class. It monitors its children, which in turn
// are tied to it, so that they end when it could not end them. All that it does, it does in one
// method at a time: what ends while it restarts others is told to it afterwards.
#include <troupe/supervise.h>

#include <actors/failure.h>
#include <actors/restart.h>
#include <actors/run.h>
#include <actors/spawn.h>
#include <pthread.h>
#include <runtime/clock.h>
#include <runtime/error.h>
#include <runtime/memory.h>
#include <runtime/options.h>
#include <stdio.h>
#include <string.h>
#include <troupe/async.h>

enum { SHUTDOWN_DEFAULT_MS = 5000, RESTARTS_DEFAULT = 3, WINDOW_DEFAULT_MS = 5000, DEPTH_MAX = 16 };
enum { BACKOFF_MS = 10 }; // Of a budget without end.

TROUPE_STRUCT(trp_child_spec, (troupe_text, class_name), (troupe_bytes, args), (troupe_text, name),
              (int32_t, place), (int32_t, restart), (int32_t, shutdown_ms));
TROUPE_STRUCT(trp_supervisor_spec, (int32_t, strategy), (int32_t, restarts), (uint32_t, window_ms),
              (troupe_array_trp_child_spec, children));
TROUPE_STRUCT(trp_child_look, (troupe_actor, address), (uint32_t, starts));

typedef struct trp_child {
    char *class_name, *name;
    void *args;
    size_t args_size;
    troupe_place place;
    troupe_child_restart restart;
    int shutdown_ms;
    uint32_t starts;
    bool gone;          // It is not started again.
    bool waits;         // Its next start comes by a timer.
    troupe_actor actor; // Of id 0: it does not run.
    uint64_t monitor;
} trp_child;

// A supervisor's memory, in a list of this process: one that was killed has no deinit to free it.
typedef struct trp_family {
    struct trp_family *next;
    uint64_t owner;
    trp_child *children;
    size_t count;
} trp_family;

static struct {
    pthread_mutex_t lock;
    trp_family *first;
} families = {.lock = PTHREAD_MUTEX_INITIALIZER};

typedef struct trp_supervisor {
    troupe_strategy strategy;
    trp_budget budget;
    trp_family *of;
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

TROUPE_ACTOR_WITH(trp_supervisor, (trp_supervisor_init, trp_supervisor_spec), trp_supervisor_deinit,
                  (trp_supervisor_told, troupe_down, troupe_none),
                  (trp_supervisor_retry, uint64_t, troupe_none),
                  (trp_supervisor_look, uint64_t, trp_child_look),
                  (trp_supervisor_add, trp_child_spec, troupe_actor));

// ---- one child

static void free_child(trp_child *child)
{
    trp_free(child->class_name);
    trp_free(child->name);
    trp_free(child->args);
}

static troupe_status copy_child(const trp_child_spec *spec, trp_child *child)
{
    *child = (trp_child){.class_name = trp_strdup(spec->class_name),
                         .name = spec->name != NULL ? trp_strdup(spec->name) : NULL,
                         .args = trp_alloc(spec->args.size + 1),
                         .args_size = spec->args.size,
                         .place = (troupe_place)spec->place,
                         .restart = (troupe_child_restart)spec->restart,
                         .shutdown_ms = spec->shutdown_ms};
    if (child->class_name == NULL || child->args == NULL ||
        (spec->name != NULL && child->name == NULL)) {
        free_child(child);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a child");
    }
    if (spec->args.size > 0)
        memcpy(child->args, spec->args.data, spec->args.size);
    return TROUPE_OK;
}

static troupe_status start_child(trp_child *child)
{
    troupe_spawn_options how = {.size = sizeof how, .name = child->name, .place = child->place};
    troupe_actor actor =
        troupe_spawn_named(child->class_name, (troupe_bytes){child->args, child->args_size}, &how);
    TROUPE_TRY(troupe_actor_status(actor));
    child->monitor = troupe_monitor_method(actor, &troupe_class_trp_supervisor,
                                           troupe_index_trp_supervisor_told);
    if (child->monitor == 0) {
        (void)troupe_kill_actor(actor);
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
    (void)troupe_demonitor(child->monitor); // Else its news wait, and will name no child's monitor.
    troupe_stop_actor_options how = {.size = sizeof how, .deadline_ms = child->shutdown_ms};
    (void)troupe_stop_actor_with(child->actor, &how);
    child->actor = (troupe_actor){0};
    child->monitor = 0;
    child->gone = child->restart == TROUPE_TEMPORARY;
}

// ---- all of them

static void stop_from(trp_supervisor *self, size_t first)
{
    for (size_t i = self->of->count; i > first; i--)
        stop_child(&self->of->children[i - 1]);
}

// Starts what does not run of `count` children from `first` on. *failed: the one that could not be.
static troupe_status start_from(trp_supervisor *self, size_t first, size_t count, size_t *failed)
{
    for (size_t i = first; i < first + count; i++) {
        trp_child *child = &self->of->children[i];
        if (child->gone || child->actor.id != 0)
            continue;
        *failed = i;
        TROUPE_TRY(start_child(child));
    }
    return TROUPE_OK;
}

// Frees the family of an owner (0: of those that have gone).
static void free_families(uint64_t owner)
{
    pthread_mutex_lock(&families.lock);
    for (trp_family **at = &families.first; *at != NULL;) {
        trp_family *it = *at;
        if (owner != 0 ? it->owner != owner : trp_actor_find(it->owner) != NULL) {
            at = &it->next;
            continue;
        }
        *at = it->next;
        for (size_t i = 0; i < it->count; i++)
            free_child(&it->children[i]);
        trp_free(it->children);
        trp_free(it);
    }
    pthread_mutex_unlock(&families.lock);
}

static trp_family *make_family(size_t count)
{
    trp_family *made = trp_alloc(sizeof *made);
    free_families(0);
    if (made != NULL &&
        (made->children = trp_alloc((count + 1) * sizeof *made->children)) == NULL) {
        trp_free(made);
        made = NULL;
    }
    if (made == NULL)
        return NULL;
    made->owner = trp_actor_id(trp_run_actor());
    pthread_mutex_lock(&families.lock);
    made->next = families.first;
    families.first = made;
    pthread_mutex_unlock(&families.lock);
    return made;
}

static void free_all(trp_supervisor *self)
{
    free_families(self->of->owner);
    self->of = NULL;
}

static troupe_status trp_supervisor_init(trp_supervisor *self, const trp_supervisor_spec *spec)
{
    size_t failed = 0;
    self->strategy = (troupe_strategy)spec->strategy;
    self->budget = (trp_budget){.limit = spec->restarts, .window_ms = spec->window_ms};
    if (spec->restarts == TROUPE_RESTARTS_FOREVER)
        self->budget.backoff_ms = BACKOFF_MS;
    if ((self->of = make_family(spec->children.count)) == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for children");
    troupe_status status = TROUPE_OK;
    while (self->of->count < spec->children.count && status == TROUPE_OK)
        if ((status = copy_child(&spec->children.items[self->of->count],
                                 &self->of->children[self->of->count])) == TROUPE_OK)
            self->of->count++;
    if (status == TROUPE_OK)
        status = start_from(self, 0, self->of->count, &failed);
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
    return troupe_fail_actor(TROUPE_FAILED, "gave up after %u restarts: %.180s", self->budget.count,
                             why);
}

// Starts what the end of child *which asks for, once. *which: the one that could not be.
static troupe_status start_again(trp_supervisor *self, size_t *which)
{
    size_t first = self->strategy == TROUPE_ONE_FOR_ALL ? 0 : *which;
    size_t count = self->strategy == TROUPE_ONE_FOR_ONE ? 1 : self->of->count - first;
    if (count > 1)
        stop_from(self, first);
    return start_from(self, first, count, which);
}

// Meanwhile it answers, and can be ended.
static troupe_status start_later(trp_supervisor *self, size_t which, int64_t delay_ms)
{
    trp_child *child = &self->of->children[which];
    if (!child->waits && troupe_after(trp_supervisor_retry, (uint32_t)delay_ms, which).id_ == 0)
        return give_up(self, troupe_last_error()->text);
    child->waits = true;
    return TROUPE_OK;
}

static bool is_over(void)
{
    trp_actor *me = trp_run_actor();
    return trp_actors_stopping() || !trp_actor_is_open(me, trp_actor_id(me));
}

// Restarts what the end of child `which` asks for; again if that fails, while the budget lasts.
static troupe_status restart(trp_supervisor *self, size_t which, const char *text)
{
    char why[256];
    int64_t delay_ms;
    snprintf(why, sizeof why, "child %zu (%.60s): %.140s", which,
             self->of->children[which].class_name, text);
    while (!is_over()) {
        if (!trp_budget_take(&self->budget, trp_clock_ms(), &delay_ms))
            return give_up(self, why);
        if (delay_ms > 0)
            return start_later(self, which, delay_ms);
        if (start_again(self, &which) == TROUPE_OK)
            return TROUPE_OK;
        snprintf(why, sizeof why, "child %zu (%.60s) could not be started again: %.120s", which,
                 self->of->children[which].class_name, troupe_last_error()->text);
    }
    return TROUPE_OK;
}

static troupe_status no_child(const trp_supervisor *self, uint64_t index)
{
    return troupe_fail(TROUPE_NOT_FOUND, "the supervisor has %zu children, and no number %llu",
                       self->of->count, (unsigned long long)index);
}

// The hour of a child's next start. It may have been started with others meanwhile.
static troupe_status trp_supervisor_retry(trp_supervisor *self, const uint64_t *index,
                                          troupe_none *nothing)
{
    (void)nothing;
    size_t which = *index;
    if (which >= self->of->count)
        return no_child(self, *index);
    trp_child *child = &self->of->children[which];
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
    while (which < self->of->count && self->of->children[which].monitor != down->monitor)
        which++;
    if (self->ended || which == self->of->count) // One that was stopped meanwhile.
        return TROUPE_OK;
    trp_child *child = &self->of->children[which];
    child->actor = (troupe_actor){0};
    child->monitor = 0;
    bool normal = down->reason == TROUPE_DOWN_NORMAL;
    if (child->restart == TROUPE_TEMPORARY || (child->restart == TROUPE_TRANSIENT && normal)) {
        child->gone = true;
        return TROUPE_OK;
    }
    return down->reason == TROUPE_DOWN_RUNTIME ? TROUPE_OK : restart(self, which, down->text);
}

static troupe_status trp_supervisor_look(trp_supervisor *self, const uint64_t *index,
                                         trp_child_look *out)
{
    if (*index >= self->of->count)
        return no_child(self, *index);
    const trp_child *child = &self->of->children[*index];
    *out = (trp_child_look){.address = child->actor, .starts = child->starts};
    return TROUPE_OK;
}

static troupe_status trp_supervisor_add(trp_supervisor *self, const trp_child_spec *spec,
                                        troupe_actor *address)
{
    trp_child *grown = trp_realloc(self->of->children, (self->of->count + 2) * sizeof *grown);
    if (grown == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a child");
    self->of->children = grown;
    trp_child *child = &grown[self->of->count];
    TROUPE_TRY(copy_child(spec, child));
    troupe_status status = start_child(child);
    if (status != TROUPE_OK) {
        free_child(child);
        return status;
    }
    self->of->count++;
    *address = child->actor;
    return TROUPE_OK;
}

// ---- specifications: in the caller's arena

static troupe_status describe_supervisor(const troupe_child *children, size_t count,
                                         const troupe_supervisor_options *how, int depth,
                                         trp_supervisor_spec *spec);

// Packs a value into the thread's arena.
static troupe_status pack(const troupe_type *type, const void *value, troupe_bytes *out)
{
    trp_buffer packed = {0};
    troupe_status status = trp_pack(type, value, &packed);
    void *copy = status == TROUPE_OK ? troupe_alloc(packed.size + 1) : NULL;
    if (copy != NULL && packed.size > 0)
        memcpy(copy, packed.data, packed.size);
    *out = (troupe_bytes){copy, packed.size};
    trp_buffer_free(&packed);
    if (status != TROUPE_OK)
        return status;
    return copy != NULL ? TROUPE_OK : troupe_fail(TROUPE_NO_MEMORY, "no memory for a child");
}

static troupe_status pack_args(const troupe_child *child, troupe_bytes *out)
{
    const trp_class *known = trp_class_of(child->class_);
    if (known == NULL)
        return troupe_failed_(troupe_last_error()->status);
    if (known->init.refs)
        return troupe_fail(
            TROUPE_UNSUPPORTED,
            "a child of class '%s' cannot be supervised: its init arguments can hold "
            "references, which cannot be kept",
            child->class_->name);
    const void *args =
        child->init_args != NULL ? child->init_args : troupe_alloc(known->init.type->size);
    if (args == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for arguments");
    return pack(known->init.type, args, out);
}

static troupe_status describe_child(const troupe_child *child, int depth, trp_child_spec *spec)
{
    bool supervisor = child->class_ == NULL;
    if ((unsigned)child->restart > TROUPE_TEMPORARY ||
        (unsigned)child->place > TROUPE_PLACE_ISOLATED)
        return troupe_fail(TROUPE_INVALID, "a child's .restart or .place is none (%d, %d)",
                           (int)child->restart, (int)child->place);
    *spec = (trp_child_spec){
        .class_name = supervisor ? troupe_class_trp_supervisor.name : child->class_->name,
        .name = child->name,
        .place = (int32_t)child->place,
        .restart = (int32_t)child->restart,
        .shutdown_ms = child->shutdown_ms != 0 ? child->shutdown_ms : SHUTDOWN_DEFAULT_MS};
    if (!supervisor)
        return pack_args(child, &spec->args);
    trp_supervisor_spec inner;
    TROUPE_TRY(describe_supervisor(child->children, child->child_count, child->supervisor,
                                   depth + 1, &inner));
    if (spec->place == TROUPE_PLACE_ANY)
        spec->place = TROUPE_PLACE_HERE;
    return pack(&troupe_type_trp_supervisor_spec, &inner, &spec->args);
}

static troupe_status take_options(const troupe_supervisor_options *how, trp_supervisor_spec *spec)
{
    troupe_supervisor_options taken;
    trp_options_take(&taken, sizeof taken, how, how != NULL ? how->size : 0);
    if ((unsigned)taken.strategy > TROUPE_REST_FOR_ONE)
        return troupe_fail(TROUPE_INVALID, "%d is no strategy", (int)taken.strategy);
    if (taken.restarts < TROUPE_RESTARTS_NONE || taken.restarts > TRP_RESTARTS_KEPT)
        return troupe_fail(TROUPE_INVALID, ".restarts is %d, expected at most %d", taken.restarts,
                           TRP_RESTARTS_KEPT);
    spec->strategy = (int32_t)taken.strategy;
    spec->restarts = taken.restarts == 0                      ? RESTARTS_DEFAULT
                     : taken.restarts == TROUPE_RESTARTS_NONE ? 0
                                                              : taken.restarts;
    spec->window_ms = taken.window_ms != 0 ? taken.window_ms : WINDOW_DEFAULT_MS;
    return TROUPE_OK;
}

static troupe_status describe_supervisor(const troupe_child *children, size_t count,
                                         const troupe_supervisor_options *how, int depth,
                                         trp_supervisor_spec *spec)
{
    *spec = (trp_supervisor_spec){0};
    if (depth > DEPTH_MAX)
        return troupe_fail(TROUPE_INVALID, "a tree of supervisors is deeper than %d", DEPTH_MAX);
    if (children == NULL && count > 0)
        return troupe_fail(TROUPE_INVALID, "%zu children were given as NULL", count);
    TROUPE_TRY(take_options(how, spec));
    trp_child_spec *items = troupe_alloc((count + 1) * sizeof *items);
    if (items == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu children", count);
    for (size_t i = 0; i < count; i++)
        TROUPE_TRY(describe_child(&children[i], depth, &items[i]));
    spec->children = (troupe_array_trp_child_spec){items, count};
    return TROUPE_OK;
}

// ---- for users

troupe_supervisor_actor troupe_supervise_with(const troupe_child *children, size_t child_count,
                                              const troupe_supervisor_options *how)
{
    trp_arena arena = {0}, *before = trp_arena_swap(&arena);
    trp_supervisor_spec spec;
    troupe_supervisor_options taken;
    troupe_supervisor_actor made;
    trp_options_take(&taken, sizeof taken, how, how != NULL ? how->size : 0);
    troupe_status status = describe_supervisor(children, child_count, how, 0, &spec);
    if (status == TROUPE_OK) {
        troupe_place place = taken.place != TROUPE_PLACE_ANY ? taken.place : TROUPE_PLACE_HERE;
        made.address = troupe_spawn_class(
            &troupe_class_trp_supervisor, &spec,
            &(troupe_spawn_options){
                .size = sizeof(troupe_spawn_options), .name = taken.name, .place = place});
    } else {
        made.address = trp_spawn_failed(status);
    }
    (void)trp_arena_swap(before);
    trp_arena_clear(&arena);
    return made;
}

troupe_status troupe_supervisor_child(troupe_supervisor_actor supervisor, size_t index,
                                      troupe_child_state *child)
{
    trp_child_look found;
    trp_supervisor_actor target = {supervisor.address};
    TROUPE_TRY(troupe_get(trp_child_look, troupe_call(target, trp_supervisor_look, index), &found));
    *child = (troupe_child_state){.address = found.address, .starts = found.starts};
    return TROUPE_OK;
}

troupe_status troupe_supervisor_add(troupe_supervisor_actor supervisor, const troupe_child *child,
                                    troupe_actor *address)
{
    trp_arena arena = {0}, *before = trp_arena_swap(&arena);
    trp_child_spec spec;
    trp_supervisor_actor target = {supervisor.address};
    troupe_status status = describe_child(child, 0, &spec);
    if (status == TROUPE_OK)
        status =
            troupe_get(troupe_actor, troupe_call_from(target, trp_supervisor_add, &spec), address);
    (void)trp_arena_swap(before);
    trp_arena_clear(&arena);
    return status;
}
