// run.c: see run.h. While a method runs, the thread's arena is the message's, and the thread's last
// error is the method's own.
#include <actors/run.h>

#include <actors/async.h>
#include <actors/failure.h>
#include <actors/measure.h>
#include <actors/ref_table.h>
#include <actors/restart.h>
#include <actors/state.h>
#include <actors/stream.h>
#include <runtime/clock.h>
#include <runtime/error.h>
#include <runtime/process.h>
#include <stdio.h>
#include <string.h>

enum { PATIENCE_MS = 10000, SMALL_RESULT = 256 };

static _Thread_local trp_running *current;
static _Thread_local int callbacks;

trp_actor *trp_run_actor(void)
{
    return current != NULL ? current->actor : NULL;
}

troupe_actor troupe_self(void)
{
    return current != NULL ? trp_policy_address(current->actor) : (troupe_actor){0};
}

trp_running *trp_run_current(void)
{
    return current;
}

static void enter(trp_running *here, trp_arena *arena)
{
    here->arena = trp_arena_swap(arena);
    here->outer = current;
    current = here;
    trp_failure_forget();
}

static void leave(trp_running *here)
{
    current = here->outer;
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
    for (trp_running *it = current; it != NULL && status == TROUPE_OK; it = it->outer)
        status = is_beside(it) ? TROUPE_OK : trp_actor_waits(it->actor, call);
    for (trp_running *it = current; it != NULL && status != TROUPE_OK; it = it->outer)
        (void)(is_beside(it) ? TROUPE_OK : trp_actor_waits(it->actor, 0));
    return status;
}

void trp_run_callback_begin(void)
{
    callbacks++;
}

void trp_run_callback_end(void)
{
    callbacks--;
}

int64_t trp_run_patience(uint32_t flags)
{
    if (callbacks > 0 || (flags & TROUPE_CALL_NO_WAIT) != 0)
        return 0;
    return current != NULL ? TRP_RUN_A_WHILE : -1;
}

int64_t trp_run_until(int64_t patience)
{
    return patience == TRP_RUN_A_WHILE ? trp_clock_ns() + (int64_t)PATIENCE_MS * 1000000 : patience;
}

// What a method's status means to its caller. With the method's last error.
static troupe_error method_failure(troupe_status status, const char *name)
{
    if (status == TROUPE_PENDING || (unsigned)status >= TROUPE_STATUS_COUNT)
        return trp_failure(TROUPE_FAILED, TROUPE_OUTCOME_FAILED, TROUPE_EXECUTED_YES,
                           "%s returned %s (%d), which is no end of a call", name,
                           troupe_status_name(status), (int)status);
    return trp_failure_last(status, TROUPE_OUTCOME_FAILED, TROUPE_EXECUTED_YES);
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

// Whether the call may still run; ends it if its deadline has passed.
static bool begin_call(trp_message *message)
{
    if (message->deadline_ns == 0)
        return true;
    if (message->remote == NULL && message->call != 0 && !trp_entry_start(message->call))
        return false; // The caller's timer was faster and has said that it was not run.
    if (trp_clock_ns() < message->deadline_ns)
        return true;
    troupe_error failure = trp_failure(
        TROUPE_TIMED_OUT, TROUPE_OUTCOME_TIMED_OUT, TROUPE_EXECUTED_NO,
        "the deadline of a call of %s passed before it could be run", message->method->row->name);
    trp_message_fail(message, &failure, message->target);
    return false;
}

// A stream must have been opened as one, and nothing else may.
static troupe_status check_stream(const trp_message *message)
{
    const troupe_method *row = message->method->row;
    bool streams = (row->options & TROUPE_METHOD_STREAM) != 0;
    if (streams == (message->window != 0))
        return TROUPE_OK;
    return streams ? troupe_fail(TROUPE_INVALID, "%s makes a stream: open it with troupe_stream",
                                 row->name)
                   : troupe_fail(TROUPE_INVALID, "%s makes no stream: call it", row->name);
}

// With the thread's arena being the message's.
static void run_method(trp_running *here, void *result)
{
    trp_actor *actor = here->actor;
    trp_message *message = here->message;
    const trp_method *method = message->method;
    bool streams = (method->row->options & TROUPE_METHOD_STREAM) != 0;
    troupe_status status = streams ? trp_maker_run(here, result)
                                   : method->row->run(actor->self, message->args, result);
    if (actor->saves && !message->beside)
        trp_state_ran(actor); // Before the answer: what was answered was saved.
    if (here->deferral != 0) {
        if (status == TROUPE_OK)
            return;
        trp_deferral_void(here);
    }
    if (status != TROUPE_OK) {
        if (message->call != 0) {
            troupe_error failure = method_failure(status, method->row->name);
            trp_message_fail(message, &failure, message->target);
        }
        return;
    }
    if (streams) {
        trp_shape end = trp_shape_of(&troupe_type_troupe_none);
        trp_message_answer(message, &end, &(troupe_none){0}, message->target);
        return;
    }
    if (method->result.refs)
        trp_refs_keep_borrowed(&method->result, result);
    if (message->call != 0)
        trp_message_answer(message, &method->result, result, message->target);
    else if (method->result.refs)
        trp_refs_drop(&method->result, result);
}

void trp_run_call(trp_actor *actor, trp_message *message)
{
    const trp_method *method = message->method;
    _Alignas(16) unsigned char small[SMALL_RESULT];
    void *result = small;
    size_t size = method->result.type->size;
    troupe_status status = TROUPE_OK;
    trp_message_left(message);
    trp_running here = {.actor = actor, .message = message};
    if (!trp_cancel_enter(&here)) {
        trp_message_free(message);
        return;
    }
    if (!begin_call(message)) {
        trp_cancel_leave(&here);
        trp_message_free(message);
        return;
    }
    if (message->args == NULL)
        status = trp_message_unpack_args(message, &method->args, NULL);
    if (status == TROUPE_OK)
        status = check_stream(message);
    if (status == TROUPE_OK && size > sizeof small &&
        (result = trp_arena_alloc(&message->arena, size)) == NULL)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for a result of %zu bytes", size);
    if (status == TROUPE_OK) {
        memset(result, 0, size);
        int64_t begun_ns = trp_measuring() ? trp_clock_ns() : 0;
        enter(&here, &message->arena);
        run_method(&here, result);
        leave(&here);
        if (begun_ns != 0)
            trp_measure_ran(actor, message, begun_ns);
    } else if (message->call != 0) {
        troupe_error failure =
            trp_failure_last(status, TROUPE_OUTCOME_NOT_EXECUTED, TROUPE_EXECUTED_NO);
        trp_message_fail(message, &failure, message->target);
    }
    trp_cancel_leave(&here);
    trp_message_free(message);
}
