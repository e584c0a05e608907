// call.c: the caller's side: calls and tells, here and in other processes.
//
// Whatever goes wrong with a call comes out of troupe_get: a row of the reference table is made
// first, and a failure to send ends it.
#include <actors/call/call.h>

#include <actors/actor/actor.h>
#include <actors/actor/death_record.h>
#include <actors/actor/failed_spawn.h>
#include <actors/actor/invoke.h>
#include <actors/actor/registrar_client.h>
#include <actors/actor/reply.h>
#include <actors/actor/resolve.h>
#include <actors/actor/restart_in_place.h>
#include <actors/actor/task_executor.h>
#include <actors/async/async.h>
#include <actors/async/cancel.h>
#include <actors/async/stream_reader.h>
#include <actors/call/tell_fast.h>
#include <actors/class/call_error.h>
#include <actors/ref/call_table.h>
#include <actors/ref/leaks.h>
#include <actors/sched/wait_notes.h>
#include <runtime/base/attributes.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/fault.h>
#include <runtime/base/options_take.h>
#include <runtime/base/require.h>
#include <runtime/node/node_client.h>
#include <runtime/shm/process_table.h>
#include <string.h>

troupe_ref (*trp_call_again)(troupe_actor actor, const trp_class *class_, size_t method,
                             const void *args);

// What is to be sent.
typedef struct sending {
    troupe_actor to;
    const trp_class *class_;  // The typed layer's: class,
    const trp_method *method; // method
    const void *args;         // and arguments; or the named layer's:
    const char *name;
    const troupe_bytes *packed;
    uint64_t call; // The row that waits; 0: a tell.
    int64_t deadline_ns;
    uint16_t window;    // Of a stream:
    trp_stream *stream; // the reader's end; else NULL.
} sending;

TRP_HOT troupe_status check_address(troupe_actor *to)
{
    TROUPE_TRY(trp_process_check());
    if (to->id == 0)
        return trp_spawn_failure(*to);
    if (to->node != 0)
        return trp_actor_near(to);
    if (to->process >= TRP_PEERS_MAX)
        return troupe_fail(TROUPE_INVALID, "the address names process %u, which cannot exist",
                           to->process);
    return TROUPE_OK;
}

troupe_status trp_call_check_address(troupe_actor *to)
{
    return check_address(to);
}

bool trp_call_may_have_moved(troupe_actor actor)
{
    return trp_registrar_known() && !trp_process_is_far(actor.process);
}

// Until when the sender may wait for room: its patience, or the call's deadline. Most find room, so
// the hour at which a patience ends is looked up by who does not (trp_run_until).
TRP_HOT int64_t room_deadline(const sending *what)
{
    int64_t patience = trp_run_patience(what->to.flags);
    if (patience == 0 || what->deadline_ns == 0)
        return patience;
    patience = trp_run_until(patience);
    return patience < 0 || what->deadline_ns < patience ? what->deadline_ns : patience;
}

// A sender that waited for room until the call's deadline has a call that timed out.
TRP_COLD troupe_status late(const sending *what, troupe_status status)
{
    if (status != TROUPE_BUSY || what->deadline_ns == 0 || trp_clock_ns() < what->deadline_ns)
        return status;
    troupe_error failure = trp_failure(
        TROUPE_DEADLINE_EXCEEDED, TROUPE_OUTCOME_DEADLINE_EXCEEDED, TROUPE_EXECUTED_NO,
        "the deadline of a call passed before it could be sent: %s", troupe_last_error()->text);
    return trp_error_set(&failure);
}

// ---- here

// The method of another class than the caller's, or one that is only known by its name. NULL with
// the last error set: there is none.
TRP_COLD const trp_method *find_method(const sending *what, const trp_class *class_)
{
    if (what->name != NULL)
        return trp_class_method(class_, what->name);
    if (what->class_->hash == class_->hash)
        return what->method;
    (void)troupe_fail(TROUPE_WRONG_TYPE, "actor %s is of class '%s'; %s is a method of class '%s'",
                      trp_actor_label(what->to.id).text, class_->row->name, what->method->row->name,
                      what->class_->row->name);
    return NULL;
}

TRP_COLD troupe_status too_heavy(size_t weight)
{
    return troupe_fail(TROUPE_TOO_LARGE,
                       "a message of %zu bytes is above the limit of %zu (message_bytes_max)",
                       weight, trp_process_options()->message_bytes_max);
}

TRP_HOT troupe_status fill(const sending *what, const trp_method *method, trp_message *message)
{
    const trp_shape *shape = &method->args;
    message->method = method;
    message->call = what->call;
    message->deadline_ns = what->deadline_ns;
    message->window = what->window;
    message->plain = method->plain && what->deadline_ns == 0 && what->packed == NULL;
    message->urgent = (method->row->options & TROUPE_METHOD_URGENT) != 0;
    message->weight = what->packed != NULL ? what->packed->size
                      : shape->flat        ? shape->type->size
                                           : trp_value_weight(shape->type, what->args);
    if (message->weight > trp_process_options()->message_bytes_max)
        return too_heavy(message->weight);
    return what->packed != NULL ? trp_message_unpack_args(message, shape, what->packed)
                                : trp_message_copy_args(message, shape, what->args);
}

// The actor may have been replaced since it was found: what is wrong with it may be another's.
TRP_COLD troupe_status refused_by(uint64_t id, troupe_status status)
{
    if (trp_actor_find(id) != NULL)
        return status;
    troupe_error failure = trp_actor_obituary(id);
    return trp_error_set(&failure);
}

TRP_HOT troupe_status send_to(const sending *what, trp_actor *actor, uint64_t id)
{
    const trp_class *class_ = actor->class_;
    const trp_method *method = class_ == what->class_ ? what->method : find_method(what, class_);
    if (method == NULL)
        return refused_by(id, troupe_last_error()->status);
    trp_message *message = trp_message_create(TRP_MESSAGE_CALL, method->args.type->size);
    if (message == NULL)
        return TROUPE_NO_MEMORY;
    troupe_status status = fill(what, method, message);
    if (status != TROUPE_OK) {
        trp_message_free(message);
        return status;
    }
    return trp_actor_send(actor, id, message, room_deadline(what));
}

TRP_APART troupe_status send_to_task(const sending *what)
{
    troupe_error failure;
    uint64_t id;
    trp_actor *actor =
        trp_target_find(what->to.id, what->call, trp_home_here.incarnation, &id, &failure);
    if (actor == NULL)
        return trp_error_set(&failure);
    troupe_status status = send_to(what, actor, id);
    if (status != TROUPE_OK)
        trp_target_spare(what->to.id, actor, id);
    return status;
}

TRP_HOT troupe_status send_here(const sending *what)
{
    trp_actor *actor = trp_actor_find(what->to.id);
    return actor != NULL ? send_to(what, actor, what->to.id) : send_to_task(what);
}

// ---- to another process

static troupe_status pack(const sending *what, trp_parcel *parcel, trp_frame *frame)
{
    if (what->method != NULL) {
        frame->method = (uint32_t)(what->method - what->class_->methods);
        frame->schema = what->method->hash;
        return trp_parcel_pack(parcel, &what->method->args, what->args);
    }
    frame->flags |= TRP_FRAME_NAMED;
    trp_write_text(&parcel->bytes, what->name);
    trp_parcel_append(parcel, what->packed->data, what->packed->size);
    return TROUPE_OK;
}

static int milliseconds_left(int64_t deadline_ns)
{
    int64_t left = (deadline_ns - trp_clock_ns() + 999999) / 1000000;
    return left < 1 ? 1 : left > INT32_MAX ? INT32_MAX : (int)left;
}

static troupe_status post(const sending *what, trp_parcel *parcel, trp_frame *frame)
{
    if (what->deadline_ns != 0)
        frame->deadline_ms = (uint32_t)milliseconds_left(what->deadline_ns);
    troupe_status status = trp_parcel_send(parcel, frame, 0);
    int64_t patience = status == TROUPE_BUSY ? trp_run_until(room_deadline(what)) : 0;
    if (patience == 0)
        return status;
    trp_wait_for(TRP_WAIT_WINDOW, what->to.id, what->to.process);
    TROUPE_TRY(trp_scheduler_block());
    status = trp_parcel_send(parcel, frame, patience < 0 ? -1 : milliseconds_left(patience));
    trp_scheduler_unblock();
    return trp_error_settled(status);
}

// The deadline passed while the call was being sent, and was left to the sender: it ends now, sent
// or not, and is not tried elsewhere.
static troupe_status expired(uint64_t call, troupe_status sent)
{
    bool maybe = sent == TROUPE_OK;
    troupe_error failure =
        trp_failure(TROUPE_DEADLINE_EXCEEDED, TROUPE_OUTCOME_DEADLINE_EXCEEDED,
                    maybe ? TROUPE_EXECUTED_MAYBE : TROUPE_EXECUTED_NO,
                    maybe ? "the deadline of a call passed while it was sent; it may have been "
                            "executed"
                          : "the deadline of a call passed before it could be sent");
    if (!maybe)
        return trp_error_set(&failure);
    trp_entry *entry = trp_entry_lock(call);
    if (entry == NULL)
        return TROUPE_OK;
    bool force = entry->force;
    trp_target target = entry->target;
    trp_entry_unlock(entry);
    trp_failure_target(&failure, &target);
    (void)trp_entry_fail(call, &failure);
    if (force && !trp_target_is_none(&target)) // As by the timer, which has left it to us.
        trp_cancel_overdue(call, &target);
    return TROUPE_OK;
}

TRP_APART troupe_status send_elsewhere(const sending *what)
{
    trp_parcel parcel = {
        .process = what->to.process, .incarnation = what->to.incarnation, .listed = true};
    trp_frame frame = {.kind = what->call != 0 ? TRP_FRAME_CALL : TRP_FRAME_TELL,
                       .target = what->to.id,
                       .call = what->call};
    frame.flags = (uint32_t)what->window << TRP_FRAME_WINDOW_SHIFT;
    troupe_status status = pack(what, &parcel, &frame);
    bool timed = what->deadline_ns != 0; // Else no timer looks at the row.
    // A call that has timed out before it was sent was told not to have been run.
    if (status == TROUPE_OK && (!timed || trp_entry_sending(what->call))) {
        status = post(what, &parcel, &frame);
        TRP_FAULT("call sent");
        if (timed && trp_entry_sent(what->call, status == TROUPE_OK))
            status = expired(what->call, status);
    }
    trp_parcel_drop(&parcel);
    return status;
}

// ---- calls and tells

// Ends a call that was cancelled between two attempts, unless it has ended.
static void end_cancelled(uint64_t call)
{
    troupe_error failure =
        trp_failure(TROUPE_CANCELLED, TROUPE_OUTCOME_CANCELLED, TROUPE_EXECUTED_NO,
                    "the call was cancelled between two attempts");
    (void)trp_entry_fail(call, &failure);
}

// Gives a call a new target (NULL: none for now). False: it has ended.
static bool aim(uint64_t call, const trp_target *target)
{
    bool pending = target != NULL ? trp_entry_aim(call, target) : trp_entry_leave(call);
    if (!pending)
        end_cancelled(call);
    return pending;
}

// Sends to where an actor has been started again, if it has, waiting for that. The failure to send
// before is the thread's last error.
TRP_COLD troupe_status send_to_moved(sending *what)
{
    enum { MOVES = 16 }; // So often may it die between the question and the sending.
    troupe_status status = TROUPE_NOT_EXECUTED;
    for (int i = 0; i < MOVES && status == TROUPE_NOT_EXECUTED; i++) {
        troupe_error failure = *troupe_last_error();
        if (what->call != 0 && !aim(what->call, NULL))
            return TROUPE_OK;
        status = trp_registrar_find(&what->to, trp_run_until(room_deadline(what)), false);
        if (status == TROUPE_NOT_FOUND)
            return trp_error_set(&failure);
        if (status != TROUPE_OK)
            return status;
        trp_target target = {.process = what->to.process,
                             .incarnation = what->to.incarnation,
                             .actor = what->to.id,
                             .class_name = what->class_ != NULL ? what->class_->row->name : NULL,
                             .method = what->method != NULL ? what->method->row->name : NULL};
        if (what->call != 0 && !aim(what->call, &target))
            return TROUPE_OK;
        status = trp_is_here(&what->to) ? send_here(what) : send_elsewhere(what);
    }
    return status;
}

TRP_HOT troupe_status send(sending *what)
{
    TROUPE_TRY(check_address(&what->to));
    if (what->call != 0 && what->deadline_ns != 0 &&
        !trp_call_expire_at(what->deadline_ns, what->call))
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a deadline");
    troupe_status status = trp_is_here(&what->to) ? send_here(what) : send_elsewhere(what);
    if (status == TROUPE_NOT_EXECUTED && trp_call_may_have_moved(what->to))
        status = trp_error_settled(send_to_moved(what));
    return status == TROUPE_OK ? status : late(what, status);
}

TRP_HOT void set_deadline(sending *what)
{
    if (what->to.deadline_ms != 0)
        what->deadline_ns = trp_clock_ns() + (int64_t)what->to.deadline_ms * 1000000;
}

// The thread's last error, as the end of a call that was not sent.
TRP_COLD troupe_error unsent(const sending *what, troupe_status status, const trp_target *target)
{
    troupe_error failure = *troupe_last_error();
    if (failure.status != status || status == TROUPE_TIMED_OUT)
        failure = trp_failure_last(status, TROUPE_OUTCOME_NOT_EXECUTED, TROUPE_EXECUTED_NO);
    if (failure.outcome != TROUPE_OUTCOME_DEADLINE_EXCEEDED)
        failure.outcome = TROUPE_OUTCOME_NOT_EXECUTED;
    failure.executed = TROUPE_EXECUTED_NO;
    if (failure.actor[0] == '\0' && what->to.id != 0 && trp_process_running())
        trp_failure_target(&failure, target);
    return failure;
}

troupe_status trp_call_check_force(troupe_actor to, int64_t deadline_ns)
{
    if ((to.flags & TROUPE_CALL_FORCE_AT_DEADLINE) == 0 || to.id == 0)
        return TROUPE_OK;
    if (deadline_ns == 0)
        return troupe_fail(TROUPE_INVALID, "force_at_deadline was asked for without a deadline");
    if (!trp_cancel_may_force(to.process, to.incarnation))
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "only an actor with a process of its own can be ended by force at a "
                           "deadline");
    return TROUPE_OK;
}

// Says in the row how the call may end.
static void mark(const sending *what)
{
    if (what->method != NULL && (what->method->row->options & TROUPE_METHOD_URGENT) != 0)
        trp_entry_apart(what->call);
    if ((what->to.flags & TROUPE_CALL_FORCE_AT_DEADLINE) != 0)
        trp_entry_force(what->call);
}

// Whether the process of a call's target is known to be dead, though that may not have been told
// here yet.
TRP_HOT bool has_died(const troupe_actor *to)
{
    return !trp_is_here(to) && !trp_process_is_far(to->process) && trp_process_running() &&
           !trp_process_alive(to->process, to->incarnation, NULL);
}

TRP_HOT troupe_ref call_plainly(sending *what, uint64_t schema, const char *class_name)
{
    troupe_status status = what->to.node != 0 ? check_address(&what->to) : TROUPE_OK;
    trp_target target = {.process = what->to.process,
                         .incarnation = what->to.incarnation,
                         .actor = what->to.id,
                         .class_name = class_name,
                         .method = what->method != NULL ? what->method->row->name : NULL};
    set_deadline(what);
    if (status == TROUPE_OK)
        status = trp_call_check_force(what->to, what->deadline_ns);
    // The news of a death that was must not end a call that goes nowhere, or elsewhere: it has not
    // been sent there.
    if (status != TROUPE_OK || has_died(&what->to))
        target.incarnation = 0;
    what->call = trp_entry_call(schema, &target, what->deadline_ns);
    target.incarnation = what->to.incarnation;
    if (what->call == TRP_REF_NO_MEMORY)
        return (troupe_ref){TRP_REF_NO_MEMORY, schema};
    mark(what);
    if (what->stream != NULL) {
        trp_entry_streams(what->call);
        trp_stream_begin(what->stream, what->call);
    }
    if (status == TROUPE_OK)
        status = send(what);
    if (status != TROUPE_OK) {
        troupe_error failure = unsent(what, status, &target);
        (void)trp_entry_fail(what->call, &failure);
    }
    return (troupe_ref){what->call, schema};
}

// For those whose way need not be short: it is not written out for each of them.
static troupe_ref call(sending *what, uint64_t schema, const char *class_name)
{
    return call_plainly(what, schema, class_name);
}

static troupe_status tell(sending *what)
{
    set_deadline(what);
    return send(what);
}

// A reference that fails with the thread's last error.
troupe_ref trp_call_failed(troupe_status status)
{
    sending nothing = {0};
    trp_target target = {0};
    uint64_t id = trp_entry_call(0, &target, 0);
    troupe_error failure = unsent(&nothing, status, &target);
    (void)trp_entry_fail(id, &failure);
    return (troupe_ref){.id = id};
}

void trp_call_send(uint64_t row, troupe_actor to, const trp_class *class_, const void *args,
                   int64_t deadline_ns)
{
    trp_call_send_method(row, to, class_, 0, args, deadline_ns);
}

void trp_call_send_method(uint64_t row, troupe_actor to, const trp_class *class_, size_t method,
                          const void *args, int64_t deadline_ns)
{
    sending what = {.to = to,
                    .class_ = class_,
                    .method = &class_->methods[method],
                    .args = args,
                    .call = row,
                    .deadline_ns = deadline_ns};
    troupe_status status = what.to.node != 0 ? check_address(&what.to) : TROUPE_OK;
    trp_target target = {.process = what.to.process,
                         .incarnation = to.incarnation,
                         .actor = to.id,
                         .class_name = class_->row->name,
                         .method = class_->row->methods[method].name};
    // As in call_plainly.
    if (!aim(row, status != TROUPE_OK || has_died(&what.to) ? NULL : &target))
        return;
    mark(&what);
    if (status == TROUPE_OK) // Else the thread's last error says why it cannot be reached.
        status = send(&what);
    if (status != TROUPE_OK) {
        troupe_error failure = unsent(&what, status, &target);
        (void)trp_entry_fail(row, &failure);
    }
}

TRP_HOT troupe_status describe(sending *what, const troupe_class *class_, size_t method)
{
    what->class_ = trp_class_of(class_);
    if (what->class_ == NULL)
        return troupe_failed_(troupe_last_error()->status);
    if (method >= class_->method_count)
        return troupe_fail(TROUPE_INVALID, "class '%s' has %zu methods, and number %zu was called",
                           class_->name, class_->method_count, method);
    what->method = &what->class_->methods[method];
    return what->args != NULL
               ? TROUPE_OK
               : troupe_fail(TROUPE_INVALID, "%s was called with no arguments: 'args' is NULL",
                             what->method->row->name);
}

static inline troupe_ref call_method(troupe_actor actor, const troupe_class *class_, size_t method,
                                     const void *args)
{
    sending what = {.to = actor, .args = args};
    troupe_status status = describe(&what, class_, method);
    if (status != TROUPE_OK)
        return trp_call_failed(status);
    if (trp_repeat_wanted(actor))
        return trp_call_again(actor, what.class_, method, args);
    return call_plainly(&what, troupe_type_hash(what.method->row->result), class_->name);
}

troupe_ref troupe_call_as(troupe_actor actor, const troupe_class *class_, size_t method,
                          const void *args)
{
    troupe_ref ref = call_method(actor, class_, method, args);
    TRP_LEAKS_MADE(ref, "troupe_call");
    return ref;
}

// Calls a streaming method: the stream is told of the row before the call is sent.
static troupe_ref call_stream(troupe_actor actor, const troupe_class *class_, size_t method,
                              const void *args, uint32_t window, trp_stream *stream)
{
    sending what = {.to = actor, .args = args, .window = (uint16_t)window, .stream = stream};
    troupe_status status = describe(&what, class_, method);
    if (status == TROUPE_OK && (what.method->row->options & TROUPE_METHOD_STREAM) == 0)
        status = troupe_fail(
            TROUPE_INVALID,
            "%s is not a streaming method: its row has no .options = TROUPE_METHOD_STREAM",
            what.method->row->name);
    if (status == TROUPE_OK && trp_repeat_wanted(actor))
        status = troupe_fail(TROUPE_INVALID,
                             "a stream of %s cannot have .retries: what was read would come again",
                             what.method->row->name);
    if (status != TROUPE_OK)
        return trp_call_failed(status);
    return call(&what, trp_type_note(&troupe_type_troupe_none), class_->name);
}

troupe_stream troupe_stream_open_as(troupe_actor actor, const troupe_class *class_, size_t method,
                                    const void *args)
{
    uint32_t window = actor.flags >> TROUPE_CALL_WINDOW_SHIFT;
    if (window == 0)
        window = TRP_STREAM_WINDOW;
    trp_stream *stream = trp_stream_make(window);
    if (stream == NULL) {
        (void)troupe_fail(TROUPE_NO_MEMORY, "no memory for a stream");
        return (troupe_stream){0};
    }
    return trp_stream_called(stream, call_stream(actor, class_, method, args, window, stream));
}

TRP_APART troupe_status tell_method(troupe_actor actor, const troupe_class *class_, size_t method,
                                    const void *args)
{
    sending what = {.to = actor, .args = args};
    TROUPE_TRY(describe(&what, class_, method));
    return tell(&what);
}

troupe_status troupe_tell_as(troupe_actor actor, const troupe_class *class_, size_t method,
                             const void *args)
{
    return trp_tell_at_once(&actor, class_, method, args)
               ? TROUPE_OK
               : tell_method(actor, class_, method, args);
}

static troupe_status check_named(const char *method, troupe_bytes args)
{
    if (strnlen(method, 128) == 128)
        return troupe_fail(TROUPE_INVALID, "the name of a method is too long");
    return args.data != NULL || args.size == 0
               ? TROUPE_OK
               : troupe_fail(TROUPE_INVALID, "'args' are %zu bytes at NULL", args.size);
}

troupe_ref troupe_call_named(troupe_actor actor, const char *method, troupe_bytes args)
{
    if (TRP_IS_NULL(method))
        return trp_call_failed(TRP_NULL(method));
    sending what = {.to = actor, .name = method, .packed = &args};
    troupe_status status = check_named(method, args);
    troupe_ref ref = status == TROUPE_OK ? call(&what, 0, NULL) : trp_call_failed(status);
    TRP_LEAKS_MADE(ref, "troupe_call_named");
    return ref;
}

troupe_status troupe_tell_named(troupe_actor actor, const char *method, troupe_bytes args)
{
    TRP_REQUIRE(method);
    sending what = {.to = actor, .name = method, .packed = &args};
    TROUPE_TRY(check_named(method, args));
    return tell(&what);
}

troupe_actor troupe_actor_with(troupe_actor actor, const troupe_call_options *how)
{
    troupe_call_options taken;
    troupe_status status = TRP_OPTIONS_TAKE("troupe_with", taken, how);
    if (status != TROUPE_OK)
        return trp_spawn_failed(status); // The calls say why.
    actor.deadline_ms = taken.deadline_ms;
    actor.flags = taken.flags & TROUPE_CALL_NO_WAIT;
    actor.flags |= (taken.window > TRP_STREAM_WINDOW_MAX ? TRP_STREAM_WINDOW_MAX : taken.window)
                   << TROUPE_CALL_WINDOW_SHIFT;
    actor.flags |= (taken.retries < TROUPE_CALL_RETRIES_MAX ? taken.retries
                                                            : (uint32_t)TROUPE_CALL_RETRIES_MAX)
                   << TROUPE_CALL_RETRIES_SHIFT;
    if (taken.retry_errors)
        actor.flags |= TROUPE_CALL_RETRY_ERRORS;
    if (taken.force_at_deadline)
        actor.flags |= TROUPE_CALL_FORCE_AT_DEADLINE;
    return actor;
}
