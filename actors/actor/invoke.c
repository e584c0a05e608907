// invoke.c: see actor/invoke.h. While a method runs, the thread's arena is the message's, and the
// thread's last error is the method's own.
#include <actors/actor/invoke.h>

#include <actors/actor/async_hooks.h>
#include <actors/actor/deadlock_probe.h>
#include <actors/actor/death_record.h>
#include <actors/actor/method_stats.h>
#include <actors/actor/reply.h>
#include <actors/actor/restart_in_place.h>
#include <actors/actor/saved_state.h>
#include <actors/class/call_error.h>
#include <actors/ref/call_table.h>
#include <actors/ref/ref_visit.h>
#include <runtime/base/attributes.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/fence.h>
#include <stdio.h>
#include <string.h>

enum { SMALL_RESULT = 2048 };
int trp_run_patience_ms = 10000;

_Thread_local trp_running *trp_run_innermost;
trp_async_hooks trp_async_here;

trp_actor *trp_run_actor(void)
{
    return trp_run_innermost != NULL ? trp_run_innermost->actor : NULL;
}

troupe_actor troupe_self(void)
{
    return trp_run_innermost != NULL ? trp_policy_address(trp_run_innermost->actor)
                                     : (troupe_actor){0};
}

static void enter(trp_running *here, trp_arena *arena)
{
    here->arena = trp_arena_swap(arena);
    here->outer = trp_run_innermost;
    trp_run_innermost = here;
    trp_failure_forget();
}

static void leave(trp_running *here)
{
    trp_run_innermost = here->outer;
    (void)trp_arena_swap(here->arena);
}

static bool is_beside(const trp_running *it)
{
    return it->message != NULL && it->message->beside;
}

troupe_status trp_run_waits(uint64_t call)
{
    troupe_status status = TROUPE_OK;
    // An init may run inside the method that spawned its actor: that one waits as well.
    // What runs beside its actor's turn keeps nobody from it.
    for (trp_running *it = trp_run_innermost; it != NULL && status == TROUPE_OK; it = it->outer)
        status = is_beside(it) ? TROUPE_OK : trp_actor_waits(it->actor, call);
    for (trp_running *it = trp_run_innermost; it != NULL && status != TROUPE_OK; it = it->outer)
        (void)(is_beside(it) ? TROUPE_OK : trp_actor_waits(it->actor, 0));
    return status;
}

int64_t trp_run_until(int64_t patience)
{
    return patience == TRP_RUN_A_WHILE ? trp_clock_ns() + (int64_t)trp_run_patience_ms * 1000000
                                       : patience;
}

// What a method's status means to its caller. With the method's last error.
static troupe_error method_failure(troupe_status status, const char *name)
{
    if ((unsigned)status >= TROUPE_STATUS_COUNT)
        return trp_failure(TROUPE_FAILED, TROUPE_OUTCOME_FAILED, TROUPE_EXECUTED_YES,
                           "%s returned %s (%d), which is not a valid result status", name,
                           troupe_status_name(status), (int)status);
    troupe_error failure = trp_failure_last(status, TROUPE_OUTCOME_FAILED, TROUPE_EXECUTED_YES);
    if (trp_failure_is_fate(status))
        return trp_failure(TROUPE_FAILED, TROUPE_OUTCOME_FAILED, TROUPE_EXECUTED_YES,
                           "%.100s failed, as what it %s ended as %s: %.350s", name,
                           status == TROUPE_TIMED_OUT ? "waited for" : "called for",
                           troupe_status_name(status), failure.text);
    return failure;
}

// Runs init, and gives the actor what was saved of its state before.
static troupe_status initialise(trp_actor *actor, trp_message *message, troupe_error *failure)
{
    const troupe_class *row = actor->class_->row;
    const char *what = "init";
    trp_running here = {.actor = actor};
    enter(&here, &message->arena);
    if (actor->saves)
        trp_state_begin(actor);
    troupe_status status = row->init != NULL ? row->init(actor->self, message->args) : TROUPE_OK;
    if (status == TROUPE_OK && actor->saves) {
        what = "restore";
        status = trp_state_begun(actor, &message->arena);
        if (status != TROUPE_OK && row->deinit != NULL) {
            troupe_error kept;
            trp_error_hold(&kept);
            row->deinit(actor->self); // What init has made.
            trp_error_restore(&kept);
        }
    }
    if (status != TROUPE_OK)
        *failure = method_failure(status, what);
    leave(&here);
    return status;
}

bool trp_run_init(trp_actor *actor, trp_message *message, troupe_error *failure)
{
    const trp_class *class_ = actor->class_;
    troupe_status status = TROUPE_OK;
    if (message->args == NULL)
        status = trp_message_unpack_args(message, &class_->init, NULL);
    if (status != TROUPE_OK) {
        *failure = trp_failure_last(status, TROUPE_OUTCOME_NOT_EXECUTED, TROUPE_EXECUTED_NO);
        return false;
    }
    if (class_->row->init != NULL || actor->saves)
        status = initialise(actor, message, failure);
    if (status != TROUPE_OK)
        trp_failure_place(failure, trp_actor_id(actor));
    actor->ready = status == TROUPE_OK;
    if (trp_measuring() && status == TROUPE_OK)
        trp_measure_life(actor, atomic_load(&actor->restarts) > 0 ? "restart" : "spawn");
    return actor->ready;
}

void trp_run_deinit(trp_actor *actor)
{
    if (!actor->ready || actor->class_->row->deinit == NULL)
        return;
    trp_arena arena = {0};
    trp_running here = {.actor = actor};
    enter(&here, &arena);
    actor->class_->row->deinit(actor->self);
    leave(&here);
    trp_arena_clear(&arena);
}

// Whether a call with a deadline may still run; ends it if that has passed.
TRP_COLD bool is_in_time(trp_message *message)
{
    if (message->remote == NULL && message->call != 0 && !trp_entry_start(message->call))
        return false; // The caller's timer was faster and has said that it was not run.
    if (trp_clock_ns() < message->deadline_ns)
        return true;
    troupe_error failure = trp_failure(
        TROUPE_DEADLINE_EXCEEDED, TROUPE_OUTCOME_DEADLINE_EXCEEDED, TROUPE_EXECUTED_NO,
        "the deadline of a call of %s passed before it could be run", message->method->row->name);
    trp_message_fail(message, &failure, message->target);
    return false;
}

static inline bool streams(const trp_message *message)
{
    return (message->method->row->options & TROUPE_METHOD_STREAM) != 0;
}

// A stream must have been opened as one, and nothing else may.
static troupe_status check_stream(const trp_message *message)
{
    const troupe_method *row = message->method->row;
    if (streams(message) == (message->window != 0))
        return TROUPE_OK;
    return streams(message)
               ? troupe_fail(TROUPE_INVALID,
                             "%s is a streaming method: open it with troupe_stream_open", row->name)
               : troupe_fail(TROUPE_INVALID,
                             "%s is not a streaming method: call it with troupe_call", row->name);
}

TRP_COLD void answer_failed(trp_message *message, troupe_status status)
{
    if (message->call == 0)
        return;
    troupe_error failure = method_failure(status, message->method->row->name);
    trp_message_fail(message, &failure, message->target);
}

TRP_APART void answer_end(trp_message *message)
{
    trp_shape end = trp_shape_of(&troupe_type_troupe_none);
    trp_message_answer(message, &end, &(troupe_none){0}, message->target);
}

// With the thread's arena being the message's. Here and below, `plain` is the message's, and known
// where this is compiled.
TRP_HOT void run_method(trp_running *here, void *result, bool plain)
{
    trp_actor *actor = here->actor;
    trp_message *message = here->message;
    const trp_method *method = message->method;
    bool makes = !plain && streams(message), refs = !plain && method->result.refs;
    troupe_status status = makes ? trp_async_here.maker_run(here, result)
                                 : method->row->run(actor->self, message->args, result);
    if (actor->saves && (plain || !message->beside))
        trp_state_ran(actor); // Before the answer: what was answered was saved.
    if (here->deferral != 0) {
        if (status == TROUPE_OK)
            return;
        trp_async_here.deferral_void(here);
    }
    if (status != TROUPE_OK) {
        answer_failed(message, status);
        return;
    }
    if (makes) {
        answer_end(message);
        return;
    }
    if (refs && (status = trp_refs_keep_borrowed(&method->result, result)) != TROUPE_OK) {
        answer_failed(message, status);
        return;
    }
    if (message->call != 0)
        trp_message_answer(message, &method->result, result, message->target);
    else if (refs)
        trp_refs_drop(&method->result, result);
}

// What a message needs that came packed, is of a stream, or has a large result.
TRP_APART troupe_status prepare(trp_message *message, size_t size, void **result)
{
    const trp_method *method = message->method;
    if (message->args == NULL)
        TROUPE_TRY(trp_message_unpack_args(message, &method->args, NULL));
    TROUPE_TRY(check_stream(message));
    if (*result == NULL && (*result = trp_arena_alloc(&message->arena, size)) == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a result of %zu bytes", size);
    return TROUPE_OK;
}

TRP_COLD void answer_not_run(trp_message *message, troupe_status status)
{
    if (message->call == 0)
        return;
    troupe_error failure =
        trp_failure_last(status, TROUPE_OUTCOME_NOT_EXECUTED, TROUPE_EXECUTED_NO);
    trp_message_fail(message, &failure, message->target);
}

TRP_HOT void run_prepared(trp_running *here, void *result, size_t size, bool plain)
{
    trp_message *message = here->message;
    if (size <= TRP_PLAIN_RESULT) // Of a size that the compiler knows; no room is smaller.
        memset(result, 0, TRP_PLAIN_RESULT);
    else
        memset(result, 0, size);
    int64_t begun_ns = trp_measuring() ? trp_clock_ns() : 0;
    enter(here, &message->arena);
    run_method(here, result, plain);
    leave(here);
    if (begun_ns != 0)
        trp_measure_ran(here->actor, message, begun_ns);
}

// Publishes that the message is about to be run. False: it was cancelled, and answered; then it is
// not run. `beside`: as in the message.
TRP_HOT bool publish(trp_running *here, bool beside)
{
    trp_actor *actor = here->actor;
    if (beside)
        return trp_async_here.enter_beside(here);
    trp_fence_store(&actor->running, here);
    return atomic_load_explicit(&actor->cancels, memory_order_acquire) == 0 ||
           trp_async_here.enter_late(here);
}
// The method is over: nobody looks at *here after this.
TRP_HOT void withdraw(trp_running *here, bool beside)
{
    trp_actor *actor = here->actor;
    if (beside) {
        trp_async_here.leave_beside(here);
        return;
    }
    trp_fence_store(&actor->running, NULL);
    if (atomic_load_explicit(&actor->cancels, memory_order_acquire) != 0)
        trp_async_here.leave_late(actor);
}

// Of a plain message nothing is to be prepared or looked at: this is what most of them cost.
TRP_HOT void run_plain(trp_actor *actor, trp_message *message)
{
    _Alignas(16) unsigned char result[TRP_PLAIN_RESULT];
    trp_running here = {.actor = actor, .message = message};
    if (!publish(&here, false))
        return;
    run_prepared(&here, result, sizeof result, true);
    withdraw(&here, false);
}

TRP_APART void run_any(trp_actor *actor, trp_message *message)
{
    _Alignas(16) unsigned char small[SMALL_RESULT];
    size_t size = message->method->result.type->size;
    void *result = size <= sizeof small ? small : NULL;
    if (message->remote != NULL)
        trp_message_left(message);
    trp_running here = {.actor = actor, .message = message};
    if (!publish(&here, message->beside))
        return;
    if (message->deadline_ns == 0 || is_in_time(message)) {
        troupe_status status = TROUPE_OK;
        if (message->args == NULL || result == NULL || message->window != 0 || streams(message))
            status = prepare(message, size, &result);
        if (status == TROUPE_OK)
            run_prepared(&here, result, size, false);
        else
            answer_not_run(message, status);
    }
    withdraw(&here, message->beside);
}

void trp_run_call(trp_actor *actor, trp_message *message)
{
    if (message->plain && !message->beside)
        run_plain(actor, message);
    else
        run_any(actor, message);
    trp_message_free(message);
}
