// retry.c: calls that are sent again: troupe_with(actor, .retries = n) for methods that may run
// twice. The call's row shows its failures to a record with the arguments, which may ask for
// another attempt; a helper, a light actor, waits for the back-off and sends it, since the thread
// that learns of a failure must not wait.
#include <actors/restart/retry.h>

#include <actors/actor/invoke.h>
#include <actors/actor/restart_in_place.h>
#include <actors/call/call.h>
#include <actors/class/call_error.h>
#include <actors/ref/ref.h>
#include <actors/ref/ref_visit.h>
#include <runtime/base/clock.h>
#include <runtime/base/memory.h>
#include <runtime/shm/process_table.h>
#include <string.h>

enum { DELAY_FIRST_MS = 5, DELAY_MAX_MS = 1000 };

typedef struct repeat {
    trp_retry retry; // First: the row's view of it.
    const trp_class *class_;
    size_t method;
    uint64_t row;
    _Atomic uint32_t holds;   // Of the row until it ends, and of an attempt.
    uint32_t left;            // By who has the row's lock.
    _Atomic int64_t delay_ms; // Before the next attempt. Two may be under way at once.
    bool errors;
    int64_t deadline_ns;
    troupe_actor to;
    void *args;
    trp_arena arena;
} repeat;

TROUPE_STRUCT(trp_repeat_order, (uint64_t, record));

typedef struct trp_repeater {
    char unused;
} trp_repeater;

static troupe_status trp_repeater_run(trp_repeater *self, const trp_repeat_order *order,
                                      troupe_none *nothing);

TROUPE_ACTOR(trp_repeater, (trp_repeater_run, trp_repeat_order, troupe_none));

static void release(repeat *it)
{
    if (atomic_fetch_sub(&it->holds, 1) > 1)
        return;
    if (it->args != NULL)
        trp_refs_drop(&it->class_->methods[it->method].args, it->args);
    trp_arena_clear(&it->arena);
    trp_free(it);
}

static void finish(void *user, troupe_ref ref)
{
    (void)ref;
    release(user);
}

static bool again(trp_retry *retry, const troupe_error *failure)
{
    repeat *it = (repeat *)retry;
    bool lost = failure->outcome == TROUPE_OUTCOME_NOT_EXECUTED ||
                failure->outcome == TROUPE_OUTCOME_MAYBE_EXECUTED;
    bool failed = it->errors && failure->outcome == TROUPE_OUTCOME_FAILED;
    if (it->left == 0 || !(lost || failed) || trp_actors_stopping() || trp_process_ending() ||
        trp_runtime_is_lost())
        return false;
    it->left--;
    atomic_fetch_add(&it->holds, 1); // The attempt's.
    return true;
}

static void send_again(trp_retry *retry)
{
    trp_repeat_order order = {.record = (uint64_t)(uintptr_t)retry};
    trp_repeater_actor helper = troupe_spawn(trp_repeater, .place = TROUPE_PLACE_HERE);
    troupe_status status = troupe_tell_from(helper, trp_repeater_run, &order);
    if (status == TROUPE_OK)
        return;
    repeat *it = (repeat *)retry;
    troupe_error failure =
        trp_failure_last(status, TROUPE_OUTCOME_NOT_EXECUTED, TROUPE_EXECUTED_NO);
    trp_entry_retry(it->row, NULL); // That is final.
    (void)trp_entry_fail(it->row, &failure);
    release(it);
}

static troupe_status trp_repeater_run(trp_repeater *self, const trp_repeat_order *order,
                                      troupe_none *nothing)
{
    (void)self, (void)nothing;
    repeat *it = (repeat *)(uintptr_t)order->record;
    int64_t delay_ms = atomic_load(&it->delay_ms);
    trp_restart_sleep(delay_ms, NULL, NULL, NULL);
    atomic_store(&it->delay_ms, delay_ms * 2 < DELAY_MAX_MS ? delay_ms * 2 : DELAY_MAX_MS);
    if (!trp_actors_stopping()) // Else the row ends with the runtime.
        trp_call_send_method(it->row, it->to, it->class_, it->method, it->args, it->deadline_ns);
    release(it);
    return troupe_actor_exit();
}

static troupe_status make(troupe_actor actor, const trp_class *class_, size_t method,
                          const void *args, repeat **made)
{
    const troupe_method *row = class_->methods[method].row;
    if ((row->options & TROUPE_METHOD_REPEATABLE) == 0)
        return troupe_fail(TROUPE_INVALID,
                           "%s cannot be called with .retries: its row has no "
                           ".options = TROUPE_METHOD_REPEATABLE, which says that it may run twice",
                           row->name);
    repeat *it = trp_alloc(sizeof *it);
    if (it == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a call");
    it->retry = (trp_retry){.again = again, .send = send_again};
    it->class_ = class_;
    it->method = method;
    it->holds = 1;
    it->left = actor.flags >> TROUPE_CALL_RETRIES_SHIFT & TROUPE_CALL_RETRIES_MAX;
    it->errors = (actor.flags & TROUPE_CALL_RETRY_ERRORS) != 0;
    it->delay_ms = DELAY_FIRST_MS;
    it->to = actor;
    it->to.flags = 0; // What they say of the deadline is in the row since the first attempt.
    it->to.deadline_ms = 0;
    if (actor.deadline_ms != 0)
        it->deadline_ns = trp_clock_ns() + (int64_t)actor.deadline_ms * 1000000;
    *made = it;
    troupe_status status = trp_call_check_force(actor, it->deadline_ns);
    if (status == TROUPE_OK)
        status = trp_args_copy(&class_->methods[method].args, args, &it->arena, &it->args);
    if (status != TROUPE_OK)
        release(it);
    return status;
}

troupe_ref trp_repeat_call(troupe_actor actor, const trp_class *class_, size_t method,
                           const void *args)
{
    repeat *it;
    troupe_status status = make(actor, class_, method, args, &it);
    if (status != TROUPE_OK)
        return trp_call_failed(status);
    uint64_t schema = troupe_type_hash(class_->methods[method].row->result);
    trp_target nowhere = {.class_name = class_->row->name};
    troupe_ref ref = {trp_entry_call(schema, &nowhere, it->deadline_ns), schema};
    it->row = ref.id;
    if (ref.id == TRP_REF_NO_MEMORY) {
        release(it);
        return ref;
    }
    trp_entry_retry(it->row, &it->retry);
    atomic_fetch_add(&it->holds, 1); // This attempt's.
    trp_ref_when(ref, finish, it);
    troupe_actor first = actor;
    first.deadline_ms = 0;
    trp_call_send_method(it->row, first, class_, method, it->args, it->deadline_ns);
    release(it);
    return ref;
}
