// defer.c: answers that a method has promised to give later.
//
// What is owed is in a registry, by number, and in a list of its actor. The one that takes it out
// of the registry answers: troupe_deferred_fulfil, troupe_deferred_refuse, or the actor's end.
#include <actors/async/defer.h>

#include <actors/actor/actor.h>
#include <actors/actor/death_record.h>
#include <actors/actor/task_executor.h>
#include <actors/async/async.h>
#include <actors/class/call_error.h>
#include <actors/class/take_once.h>
#include <actors/ref/ref_visit.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/printable.h>
#include <runtime/base/require.h>
#include <runtime/codec/type.h>
#include <runtime/shm/process_table.h>
#include <stdarg.h>
#include <troupe/async.h>

struct trp_deferral {
    trp_registered row;
    trp_deferral *next, **link; // In its actor's list, under that lock.
    trp_actor *actor;
    uint64_t owner; // Its id.
    trp_caller caller;
    const trp_method *method;
    int64_t deadline_ns;
    bool cancelled; // Nobody waits any more. Under the actor's lock.
};

static trp_registry owed TRP_VAST;

__attribute__((constructor)) static void make_registry(void)
{
    trp_registry_init(&owed);
}

// ---- making one

static troupe_status check_defer(const trp_running *here)
{
    if (here == NULL || here->message == NULL)
        return troupe_fail(TROUPE_INVALID, "troupe_defer was called outside a method: there is no "
                                           "call to answer");
    if (trp_class_is_task(here->actor->class_))
        return troupe_fail(TROUPE_INVALID, "%s is a task, which cannot defer its answer",
                           here->message->method->row->name);
    if (here->maker != NULL)
        return troupe_fail(TROUPE_INVALID, "%s is a streaming method, which cannot defer its end",
                           here->message->method->row->name);
    if (here->deferral != 0)
        return troupe_fail(TROUPE_INVALID, "%s has deferred its answer already",
                           here->message->method->row->name);
    return TROUPE_OK;
}

static void link_deferral(trp_async *async, trp_deferral *it)
{
    pthread_mutex_lock(&async->lock);
    it->next = async->deferrals;
    it->link = &async->deferrals;
    if (it->next != NULL)
        it->next->link = &it->next;
    async->deferrals = it;
    pthread_mutex_unlock(&async->lock);
}

troupe_deferred troupe_defer(void)
{
    troupe_deferred none = {0};
    trp_running *here = trp_run_current();
    if (check_defer(here) != TROUPE_OK)
        return none;
    trp_async *async = trp_async_of(here->actor);
    trp_deferral *it = async == NULL ? NULL : trp_alloc(sizeof *it);
    if (it == NULL) {
        (void)troupe_fail(TROUPE_NO_MEMORY, "no memory for a deferred answer");
        return none;
    }
    it->row.id = here->deferral = trp_registry_number(&owed);
    it->actor = here->actor;
    it->owner = trp_actor_id(it->actor);
    it->caller = trp_caller_of(here->message);
    it->method = here->message->method;
    it->deadline_ns = here->message->deadline_ns;
    link_deferral(async, it);
    trp_registry_add(&owed, &it->row);
    if (!it->caller.remote)
        trp_entry_apart(it->caller.call);
    return (troupe_deferred){here->deferral};
}

// ---- ending one

// Frees what has been taken out of the registry.
static void end_deferral(trp_deferral *it)
{
    trp_async *async = atomic_load(&it->actor->async);
    pthread_mutex_lock(&async->lock);
    *it->link = it->next;
    if (it->next != NULL)
        it->next->link = it->link;
    pthread_mutex_unlock(&async->lock);
    trp_free(it);
}

static troupe_status used(void)
{
    return troupe_fail(TROUPE_INVALID, "the deferred answer is empty, was given before, or its "
                                       "actor has ended");
}

static troupe_status unwanted(void)
{
    return troupe_fail(
        TROUPE_CANCELLED,
        "the answer is not wanted any more: the call was cancelled, or its deadline has passed");
}

// The caller's process may be known to be dead before anything is sent to it.
static bool is_caller_gone(const trp_caller *caller)
{
    return caller->remote && !trp_process_alive(caller->process, caller->incarnation, NULL);
}

static troupe_status caller_gone(const trp_caller *caller)
{
    return troupe_fail(TROUPE_NOT_EXECUTED, "process %u, which waited for the answer, has ended",
                       caller->process);
}

static bool is_cancelled(const trp_deferral *it)
{
    trp_async *async = atomic_load(&it->actor->async);
    pthread_mutex_lock(&async->lock);
    bool cancelled = it->cancelled;
    pthread_mutex_unlock(&async->lock);
    return cancelled;
}

static bool is_wanted(const trp_deferral *it)
{
    return !is_cancelled(it) && (it->deadline_ns == 0 || trp_clock_ns() < it->deadline_ns);
}

static troupe_status check_type(const troupe_type *type, uint64_t id)
{
    TROUPE_TRY(trp_type_check(type));
    trp_deferral *it = (trp_deferral *)trp_registry_lock(&owed, id);
    if (it == NULL)
        return used();
    const trp_method *method = it->method;
    trp_registry_unlock(&owed, id);
    return troupe_type_hash(type) == troupe_type_hash(method->row->result)
               ? TROUPE_OK
               : troupe_fail(TROUPE_WRONG_TYPE, "%s answers with a value of type '%s', not '%s'",
                             method->row->name, method->row->result->name, type->name);
}

troupe_status trp_value_give(const trp_shape *shape, const void *value, trp_arena *arena,
                             void **copy)
{
    *copy = trp_arena_alloc(arena, shape->type->size);
    if (*copy == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a value");
    TROUPE_TRY(trp_value_copy(shape->type, value, arena, *copy));
    return shape->refs ? trp_refs_keep_borrowed(shape, *copy) : TROUPE_OK;
}

troupe_status troupe_deferred_fulfil_as(const troupe_type *type, troupe_deferred *later,
                                        const void *value)
{
    TRP_REQUIRE(type);
    TRP_REQUIRE(later);
    TRP_REQUIRE(value);
    TROUPE_TRY(check_type(type, later->id_));
    trp_deferral *it = (trp_deferral *)trp_registry_take(&owed, later->id_);
    later->id_ = 0;
    if (it == NULL)
        return used();
    trp_shape shape = it->method->result;
    trp_arena arena = {0};
    void *copy;
    troupe_status status = trp_value_give(&shape, value, &arena, &copy);
    if (status != TROUPE_OK) {
        troupe_error failure = trp_failure_last(status, TROUPE_OUTCOME_FAILED, TROUPE_EXECUTED_YES);
        trp_caller_fail(&it->caller, &failure, it->owner);
    } else if (!is_caller_gone(&it->caller) && is_wanted(it)) {
        trp_caller_answer(&it->caller, &shape, copy, it->owner);
    } else {
        if (shape.refs)
            trp_refs_drop(&shape, copy);
        status = is_caller_gone(&it->caller) ? caller_gone(&it->caller) : unwanted();
    }
    trp_arena_clear(&arena);
    end_deferral(it);
    return status;
}

troupe_status troupe_deferred_refuse(troupe_deferred *later, troupe_status status,
                                     const char *format, ...)
{
    TRP_REQUIRE(later);
    char text[sizeof((troupe_error *)0)->text];
    va_list arguments;
    va_start(arguments, format);
    (void)trp_printable_format(text, sizeof text, format, arguments);
    va_end(arguments);
    trp_deferral *it = (trp_deferral *)trp_registry_take(&owed, later->id_);
    later->id_ = 0;
    if (it == NULL)
        return used();
    if (status == TROUPE_OK || (unsigned)status >= TROUPE_STATUS_COUNT)
        status = TROUPE_FAILED;
    bool fate = trp_failure_is_fate(status);
    troupe_error failure =
        trp_failure(fate ? TROUPE_FAILED : status, TROUPE_OUTCOME_FAILED, TROUPE_EXECUTED_YES,
                    "%s%s%s", fate ? troupe_status_name(status) : "", fate ? ": " : "", text);
    bool gone = is_caller_gone(&it->caller), wanted = !gone && is_wanted(it);
    if (wanted)
        trp_caller_fail(&it->caller, &failure, it->owner);
    status = wanted ? TROUPE_OK : gone ? caller_gone(&it->caller) : unwanted();
    end_deferral(it);
    return status;
}

void trp_deferral_void(trp_running *here)
{
    trp_deferral *it = (trp_deferral *)trp_registry_take(&owed, here->deferral);
    if (it == NULL)
        return; // It was answered meanwhile; the method's own answer comes too late.
    end_deferral(it);
}

// With the lock held. NULL: none.
static trp_deferral *find_deferral(const trp_async *async, const trp_caller *caller)
{
    trp_deferral *it = async->deferrals;
    while (it != NULL && (it->caller.call != caller->call || it->caller.remote != caller->remote ||
                          it->caller.incarnation != caller->incarnation))
        it = it->next;
    return it;
}

bool trp_deferral_cancel(trp_async *async, const trp_caller *caller)
{
    trp_deferral *it = find_deferral(async, caller);
    if (it != NULL)
        it->cancelled = true;
    return it != NULL;
}

bool trp_deferral_is(trp_actor *actor, const trp_caller *caller)
{
    trp_async *async = atomic_load(&actor->async);
    if (async == NULL)
        return false;
    pthread_mutex_lock(&async->lock);
    bool is = find_deferral(async, caller) != NULL;
    pthread_mutex_unlock(&async->lock);
    return is;
}

void trp_deferrals_end(trp_async *async, uint64_t id)
{
    trp_deferral *mine = NULL, *next;
    pthread_mutex_lock(&async->lock);
    for (trp_deferral *it = async->deferrals; it != NULL; it = next) {
        next = it->next;
        if (it->owner != id || trp_registry_take(&owed, it->row.id) == NULL)
            continue; // It is being answered.
        it->row.next = (trp_registered *)mine;
        mine = it;
    }
    pthread_mutex_unlock(&async->lock);
    troupe_error failure = trp_actor_obituary(id);
    failure =
        trp_failure(TROUPE_MAYBE_EXECUTED, TROUPE_OUTCOME_MAYBE_EXECUTED, TROUPE_EXECUTED_MAYBE,
                    "%.400s; it had deferred its answer to this call", failure.text);
    for (; mine != NULL; mine = (trp_deferral *)next) {
        next = (trp_deferral *)mine->row.next;
        if (!is_cancelled(mine))
            trp_caller_fail(&mine->caller, &failure, id);
        end_deferral(mine);
    }
}
