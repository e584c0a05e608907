// actor_list.c: the list of all actors (troupe/observe.h): a task of the library's own, run in each
// process of the node.
#include <troupe/observe.h>

#include <actors/actor/actor.h>
#include <actors/actor/restart_in_place.h>
#include <actors/actor/task_executor.h>
#include <actors/actor/wait_text.h>
#include <actors/observe/actor_list.h>
#include <actors/restart/registrar.h>
#include <actors/sched/wait_notes.h>
#include <runtime/base/options_take.h>
#include <runtime/base/require.h>
#include <runtime/node/query.h>
#include <runtime/shm/process_table.h>
#include <runtime/shm/segment.h>
#include <runtime/shm/segment_guard.h>
#include <string.h>
#include <troupe/task.h>
#include <unistd.h>

enum { MOST_DEFAULT = 10000, ANSWER_MS = 2000 };

TROUPE_STRUCT(trp_observed, (troupe_array_troupe_actor_info, actors), (uint64_t, total));
// Of a whole node, for programs outside it.
TROUPE_STRUCT(trp_observed_node, (troupe_array_troupe_actor_info, actors), (uint64_t, total),
              (uint64_t, silent));

static troupe_status trp_observe(const uint64_t *most, trp_observed *seen);
TROUPE_TASK(trp_observe, uint64_t, trp_observed);

// What a look goes to.
typedef struct sight {
    troupe_actor_info *items; // NULL: only counted.
    size_t count, most;
} sight;

// The executors that look, here and in observe/method_list.c, are not listed; nor is who waits to
// start an actor again, since that is.
static bool is_mine(const trp_actor_look *look)
{
    const char *name = look->class_->row->name;
    return strncmp(name, "trp_observe", strlen("trp_observe")) == 0 ||
           strcmp(name, "trp_restarter") == 0;
}

static troupe_actor_state state_of(const trp_actor_look *look)
{
    if (look->state != TRP_ACTOR_OPEN)
        return TROUPE_ACTOR_ENDING;
    if (look->blocked)
        return TROUPE_ACTOR_WAITING;
    return look->running ? TROUPE_ACTOR_BUSY : TROUPE_ACTOR_RESTING;
}

// With a lock of the table held: nothing here waits.
static void see(const trp_actor_look *look, void *user)
{
    sight *all = user;
    if (is_mine(look))
        return;
    if (all->items != NULL && all->count < all->most) {
        char *label = troupe_arena_text(look->label.text);
        all->items[all->count] =
            (troupe_actor_info){.address = {.id = look->id,
                                            .incarnation = trp_home_here.incarnation,
                                            .process = trp_home_here.process},
                                .label = label != NULL ? label : "",
                                .class_name = look->class_->row->name,
                                .pid = trp_home_here.pid,
                                .busy = look->running,
                                .waiting = look->waiting,
                                .calls = look->calls,
                                .cpu_s = (double)look->cpu_ns * 1e-9,
                                .state = (int32_t)state_of(look),
                                .restarts = look->restarts};
    }
    all->count++;
}

// Those that are between two processes: the driver knows them. With its table's lock held.
static void see_adopted(const trp_adopted_look *look, void *user)
{
    sight *all = user;
    if (all->items != NULL && all->count < all->most) {
        const char *label = troupe_arena_text(look->label.text);
        const char *class_name = troupe_arena_text(look->class_name);
        all->items[all->count] =
            (troupe_actor_info){.address = look->origin,
                                .label = label != NULL ? label : "",
                                .class_name = class_name != NULL ? class_name : "",
                                .state = TROUPE_ACTOR_RESTARTING,
                                .restarts = look->restarts,
                                .waits_for = "its restart",
                                .restart_in_s = (double)look->left_ms * 1e-3};
    }
    all->count++;
}

static void see_all(sight *all)
{
    trp_actor_each(see, all);
    trp_adopted_each(see_adopted, all);
}

// Those that are started again in place.
static void add_restarts(troupe_actor_info *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t left_ms = items[i].restarts > 0 && items[i].state == TROUPE_ACTOR_BUSY
                              ? trp_restart_left_ms(items[i].address.id)
                              : -1;
        if (left_ms < 0)
            continue;
        items[i].state = TROUPE_ACTOR_RESTARTING;
        items[i].waits_for = "its restart";
        items[i].restart_in_s = (double)left_ms * 1e-3;
    }
}

// Says of those that wait for what. A list that went without this is a list all the same.
static void add_waits(troupe_actor_info *items, size_t count)
{
    enum { WAITS_MAX = 2048 };
    trp_wait_look *waits = troupe_arena_alloc(WAITS_MAX * sizeof *waits);
    size_t waiting = waits != NULL ? trp_waits_copy(waits, WAITS_MAX) : 0;
    for (size_t w = 0; w < waiting && w < WAITS_MAX; w++) {
        char text[TRP_WAIT_TEXT];
        size_t i = 0;
        while (i < count && items[i].address.id != waits[w].actor)
            i++;
        if (i == count || items[i].waits_for != NULL)
            continue;
        trp_wait_describe(&waits[w], text);
        items[i].waits_for = troupe_arena_text(text);
        if (items[i].state != TROUPE_ACTOR_ENDING)
            items[i].state = TROUPE_ACTOR_WAITING;
    }
}

static troupe_status trp_observe(const uint64_t *most, trp_observed *seen)
{
    sight counted = {0}, all = {.most = (size_t)*most};
    see_all(&counted);
    if (all.most > counted.count)
        all.most = counted.count; // Who comes meanwhile is counted, and not listed.
    all.items = troupe_arena_alloc((all.most > 0 ? all.most : 1) * sizeof *all.items);
    if (all.items == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to list %zu actors", all.most);
    see_all(&all);
    seen->total = all.count;
    seen->actors.items = all.items;
    seen->actors.count = all.count < all.most ? all.count : all.most;
    add_restarts(all.items, seen->actors.count);
    add_waits(all.items, seen->actors.count);
    return TROUPE_OK;
}

// Whether a process of that row takes messages; then what names its present one.
static bool is_ready(uint32_t slot, uint64_t *incarnation)
{
    TRP_USE_SEGMENT(false);
    const trp_process_row *row = trp_segment_process(slot);
    *incarnation = row->incarnation;
    return row->state == TRP_PROCESS_READY;
}

size_t trp_observe_ask(const troupe_class *task, const void *args, troupe_ref *refs)
{
    size_t asked = 0;
    for (uint32_t slot = TRP_PROCESS_DRIVER; slot < TRP_PROCESSES_MAX; slot++) {
        uint64_t incarnation;
        if (!is_ready(slot, &incarnation))
            continue;
        troupe_actor there = {
            .id = trp_task_target(trp_class_of(task)), .incarnation = incarnation, .process = slot};
        there = troupe_actor_with(there, &(troupe_call_options){.size = sizeof(troupe_call_options),
                                                                .deadline_ms = ANSWER_MS});
        refs[asked++] = troupe_call_as(there, task, 0, args);
    }
    return asked;
}

// Puts the answers one behind the other.
static troupe_status join(const trp_observed *answers, size_t answered, troupe_actor_list *list)
{
    size_t count = 0;
    for (size_t i = 0; i < answered; i++) {
        count += answers[i].actors.count;
        list->total += (size_t)answers[i].total;
    }
    if (count == 0)
        return TROUPE_OK;
    troupe_actor_info *items = troupe_arena_alloc(count * sizeof *items);
    if (items == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to list %zu actors", count);
    for (size_t i = 0; i < answered; i++) {
        const troupe_array_troupe_actor_info *more = &answers[i].actors;
        if (more->count > 0)
            memcpy(items + list->actors.count, more->items, more->count * sizeof *items);
        list->actors.count += more->count;
    }
    list->actors.items = items;
    return TROUPE_OK;
}

static troupe_status list_here(size_t most, troupe_actor_list *list)
{
    size_t answered = 0;
    TROUPE_TRY(trp_process_check());
    troupe_ref *refs = troupe_arena_alloc(TRP_PROCESSES_MAX * sizeof *refs);
    trp_observed *answers = troupe_arena_alloc(TRP_PROCESSES_MAX * sizeof *answers);
    if (refs == NULL || answers == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to list actors");
    uint64_t each = most > 0 ? most : MOST_DEFAULT;
    size_t asked = trp_observe_ask(&troupe_task_trp_observe, &each, refs);
    for (size_t i = 0; i < asked; i++)
        if (troupe_get(trp_observed, refs[i], &answers[answered]) == TROUPE_OK)
            answered++;
        else
            list->silent++;
    return join(answers, answered, list);
}

troupe_status(troupe_actors_list)(size_t most, troupe_actor_list *list, size_t size)
{
    TRP_REQUIRE(list);
    troupe_actor_list found = {0};
    troupe_status status = list_here(most, &found);
    trp_output_give(list, size, &found, sizeof found);
    return status;
}

// ---- of another node

static troupe_status answer(uint64_t most, const troupe_type **type, const void **value)
{
    trp_observed_node *seen = troupe_arena_alloc(sizeof *seen);
    troupe_actor_list list = {0};
    if (seen == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to list actors");
    TROUPE_TRY(list_here((size_t)most, &list));
    *seen = (trp_observed_node){.actors = list.actors, .total = list.total, .silent = list.silent};
    *type = &troupe_type_trp_observed_node;
    *value = seen;
    return TROUPE_OK;
}

__attribute__((constructor)) static void register_answer(void)
{
    trp_query_answer_set(answer);
}

troupe_status troupe_actors_list_with(troupe_actor_list *list, size_t size,
                                      const troupe_actors_list_options *how)
{
    TRP_REQUIRE(list);
    troupe_actors_list_options given;
    trp_observed_node seen;
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_actors_list", given, how));
    troupe_actor_list found = {0};
    troupe_status status = given.pid == 0 ? list_here(given.most, &found)
                                          : trp_query_ask(given.pid, given.most,
                                                          &troupe_type_trp_observed_node, &seen);
    if (status == TROUPE_OK && given.pid != 0)
        found =
            (troupe_actor_list){.actors = seen.actors, .total = seen.total, .silent = seen.silent};
    trp_output_give(list, size, &found, sizeof found);
    return status;
}
