// dispatch.c: what other processes ask of this one, and their answers: frames in, deaths, and the
// handlers by which the runtime below calls this layer.
//
// `frame` and `death` run on the I/O thread: they hand work over and never wait.
#include <actors/actor/actor.h>
#include <actors/actor/backpressure.h>
#include <actors/actor/deadlock_probe.h>
#include <actors/actor/death_record.h>
#include <actors/actor/failed_spawn.h>
#include <actors/actor/invoke.h>
#include <actors/actor/lifecycle.h>
#include <actors/actor/local_isolated.h>
#include <actors/actor/main_thread.h>
#include <actors/actor/method_stats.h>
#include <actors/actor/registrar_client.h>
#include <actors/actor/reply.h>
#include <actors/actor/restart_in_place.h>
#include <actors/actor/task_executor.h>
#include <actors/async/abandon_running.h>
#include <actors/async/async.h>
#include <actors/async/cancel.h>
#include <actors/async/concurrency_group.h>
#include <actors/async/side_thread.h>
#include <actors/async/stream_reader.h>
#include <actors/async/stream_writer.h>
#include <actors/call/call.h>
#include <actors/class/call_error.h>
#include <actors/ends/crash_blame.h>
#include <actors/ends/link.h>
#include <actors/ends/retain.h>
#include <actors/ends/watch.h>
#include <actors/lib/group.h>
#include <actors/ref/call_table.h>
#include <actors/ref/leaks.h>
#include <actors/ref/ref.h>
#include <actors/ref/result.h>
#include <actors/ref/timer.h>
#include <actors/restart/registrar.h>
#include <actors/restart/retry.h>
#include <actors/sched/wait_notes.h>
#include <actors/spawn/spawn.h>
#include <actors/spawn/spawn_frame.h>
#include <runtime/base/clock.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/link/dispatch.h>
#include <runtime/link/peer.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <string.h>

// ---- refusals

// Refuses a frame that wants an answer, with the thread's last error or a failure.
static void refuse_frame(const trp_frame *frame, const troupe_error *failure, uint64_t actor)
{
    troupe_error placed = *failure;
    if (actor != 0)
        trp_failure_place(&placed, actor);
    if (frame->call != 0)
        trp_reply_failure(frame->from, frame->from_incarnation, frame->call, &placed);
    if (frame->kind == TRP_FRAME_CALL || frame->kind == TRP_FRAME_TELL)
        trp_process_credit(frame->from, frame->from_incarnation, frame->body_size);
}

// ---- calls

// Reads the method's name at the begin of a body; its holds begin behind it.
static troupe_status read_method_name(trp_body *body, char name[128])
{
    trp_reader in = trp_reader_of(body->data, body->size);
    const char *text;
    size_t size;
    TROUPE_TRY(trp_read_text(&in, &text, &size));
    if (text == NULL || size > 127)
        return troupe_fail(TROUPE_MALFORMED, "the name of a method has %zu bytes, the limit is 127",
                           size);
    memcpy(name, text, size);
    name[size] = '\0';
    body->holds_at = (size_t)(in.at - body->data);
    return TROUPE_OK;
}

// NULL with the last error set: it is another one than the caller means.
static const trp_method *numbered_method(const trp_class *class_, uint64_t id,
                                         const trp_frame *frame)
{
    if (frame->method < class_->row->method_count &&
        class_->methods[frame->method].hash == frame->schema)
        return &class_->methods[frame->method];
    (void)troupe_fail(TROUPE_WRONG_TYPE,
                      "method %u of actor %s in process %u (pid %d) is not the one that the "
                      "caller knows: another class, or compiled from another source",
                      frame->method, trp_actor_label(id).text, trp_home_here.process,
                      trp_home_here.pid);
    return NULL;
}

static troupe_status named_method(trp_message *message, const trp_actor *actor)
{
    char name[128];
    TROUPE_TRY(read_method_name(&message->remote->body, name));
    message->method = trp_class_method(actor->class_, name);
    return message->method != NULL ? TROUPE_OK : troupe_last_error()->status;
}

static troupe_status take_call(trp_actor *actor, uint64_t id, const trp_frame *frame)
{
    bool named = (frame->flags & TRP_FRAME_NAMED) != 0;
    const trp_method *method = NULL;
    trp_message *message;
    if (trp_process_is_far(frame->from) &&
        trp_pressure_beyond(actor, id, frame->from_incarnation, frame->body_size)) {
        trp_process_refused("its actor's mailbox is full, and its sender was told so");
        return troupe_fail(TROUPE_BUSY, "actor %s takes no more messages for now",
                           trp_actor_label(id).text);
    }
    if (!named && (method = numbered_method(actor->class_, id, frame)) == NULL) {
        trp_body_refuse(frame, 0);
        return TROUPE_WRONG_TYPE;
    }
    TROUPE_TRY(
        trp_message_receive(TRP_MESSAGE_CALL, frame, named ? NULL : &method->args, &message));
    message->method = method;
    troupe_status status = named ? named_method(message, actor) : TROUPE_OK;
    if (status != TROUPE_OK) {
        trp_message_free(message);
        return status;
    }
    message->urgent = (message->method->row->options & TROUPE_METHOD_URGENT) != 0;
    trp_share_take(&message->remote->share, frame->from, frame->from_incarnation, frame->body_size);
    trp_actor_deliver(actor, id, message);
    trp_pressure_note(actor, id, frame->from, frame->from_incarnation);
    return TROUPE_OK;
}

static void serve_call(const trp_frame *frame)
{
    troupe_error failure;
    uint64_t id;
    trp_actor *actor =
        trp_target_find(frame->target, frame->call, frame->from_incarnation, &id, &failure);
    if (actor == NULL) {
        trp_body_refuse(frame, 0);
        refuse_frame(frame, &failure, 0);
        return;
    }
    troupe_status status = take_call(actor, id, frame);
    if (status != TROUPE_OK) {
        failure = trp_failure_last(status, TROUPE_OUTCOME_NOT_EXECUTED, TROUPE_EXECUTED_NO);
        refuse_frame(frame, &failure, id);
        trp_target_spare(frame->target, actor, id);
    }
}

static void serve_reply(const trp_frame *frame)
{
    trp_result result;
    troupe_error failure;
    bool failed = frame->status != TROUPE_OK;
    if (failed) {
        trp_failure_read(frame->body, frame->body_size, &failure);
    } else if (trp_result_receive(&result, frame) != TROUPE_OK) {
        failed = true;
        failure = trp_failure_last(troupe_last_error()->status, TROUPE_OUTCOME_FAILED,
                                   TROUPE_EXECUTED_YES);
    }
    if (failed)
        trp_result_fail(&result, &failure);
    if (trp_entry_answer(frame->call, frame->from_incarnation, &result) == TRP_ANSWERED_UNASKED)
        trp_process_refused("it answers a call that another process was asked");
}

static void serve_spawn(const trp_frame *frame)
{
    trp_message *message = NULL;
    troupe_status status = trp_message_receive(TRP_MESSAGE_INIT, frame, NULL, &message);
    if (status == TROUPE_OK)
        status = trp_spawn_serve(message);
    if (status == TROUPE_OK)
        return;
    troupe_error failure =
        trp_failure_last(status, TROUPE_OUTCOME_NOT_EXECUTED, TROUPE_EXECUTED_NO);
    trp_message_free(message);
    trp_failure_place(&failure, 0);
    refuse_frame(frame, &failure, 0);
}

// Answers, if the killer waits for one, whether the actor has this process for itself.
static void serve_kill(const trp_frame *frame)
{
    trp_actor *actor = trp_actor_find(frame->target);
    bool isolated = actor != NULL && actor->pinned;
    trp_kill_here(frame->target, (frame->flags & TRP_FRAME_FORCE) != 0);
    if (frame->call == 0)
        return;
    trp_shape shape = trp_shape_of(&troupe_type_bool);
    trp_message *message;
    if (trp_message_asked(frame, &message) != TROUPE_OK)
        return;
    trp_message_answer(message, &shape, &isolated, 0);
    trp_message_free(message);
}

static void serve_finish(const trp_frame *frame)
{
    trp_actor *actor = trp_actor_find(frame->target);
    if (actor == NULL)
        return;
    trp_message *message = trp_message_create(TRP_MESSAGE_FINISH, 0);
    if (message != NULL)
        trp_actor_deliver(actor, frame->target, message);
    else
        trp_log(TRP_ERROR, "actor %s could not be ended: no memory",
                trp_actor_label(frame->target).text);
}

// ---- the handlers

// Whether the frame asks for what cannot be asked from another node; answers it then. Tasks run
// where they were made alone.
static bool is_odd(const trp_frame *frame)
{
    bool call = frame->kind == TRP_FRAME_CALL || frame->kind == TRP_FRAME_TELL;
    if (!trp_process_is_far(frame->from))
        return false;
    bool task = (call || frame->kind == TRP_FRAME_CANCEL) && (frame->target & TRP_TASK_TARGET) != 0;
    if (!task && (!call || trp_body_far_good(frame)))
        return false;
    trp_process_refused(task ? "it asks for a task from another node"
                             : "its arguments name objects, or cannot be read");
    troupe_error failure =
        trp_failure(task ? TROUPE_UNSUPPORTED : TROUPE_MALFORMED, TROUPE_OUTCOME_NOT_EXECUTED,
                    TROUPE_EXECUTED_NO,
                    task ? "a task came from %s" : "a value came from %s that cannot be read",
                    trp_process_text(frame->from).text);
    if (call)
        refuse_frame(frame, &failure, 0);
    return true;
}

static void serve_frame(const trp_frame *frame)
{
    switch (frame->kind) {
    case TRP_FRAME_CALL:
    case TRP_FRAME_TELL:
        serve_call(frame);
        break;
    case TRP_FRAME_REPLY:
        serve_reply(frame);
        break;
    case TRP_FRAME_SPAWN:
        serve_spawn(frame);
        break;
    case TRP_FRAME_KILL:
        serve_kill(frame);
        break;
    case TRP_FRAME_FINISH:
        serve_finish(frame);
        break;
    case TRP_FRAME_WATCH:
    case TRP_FRAME_UNWATCH:
    case TRP_FRAME_DOWN:
        trp_watch_serve(frame);
        break;
    case TRP_FRAME_LINK:
        trp_link_serve(frame);
        break;
    case TRP_FRAME_CANCEL:
        trp_cancel_serve(frame);
        break;
    case TRP_FRAME_ITEM:
        trp_stream_serve(frame);
        break;
    case TRP_FRAME_TAKEN:
        trp_maker_serve(frame);
        break;
    case TRP_FRAME_COUNT:
        trp_count_serve(frame);
        break;
    case TRP_FRAME_RESTART:
        trp_restart_serve(frame);
        break;
    case TRP_FRAME_REGISTRAR:
        trp_registrar_serve(frame);
        break;
    case TRP_FRAME_PROBE:
        trp_probe_serve(frame);
        break;
    default:
        trp_log(TRP_WARN, "a frame of the unknown kind %d came from process %u", (int)frame->kind,
                frame->from);
        break;
    }
}

static void take_frame(const trp_frame *frame)
{
    trp_run_callback_begin();
    if (!is_odd(frame))
        serve_frame(frame);
    trp_run_callback_end();
}

static void describe_death(const trp_entry *entry, const void *user, troupe_error *failure)
{
    const trp_target *target = &entry->target;
    if (entry->cancelled) {
        *failure = trp_failure(TROUPE_CANCELLED, TROUPE_OUTCOME_CANCELLED, TROUPE_EXECUTED_MAYBE,
                               "the call was cancelled; %s %s",
                               trp_process_text(target->process).text, (const char *)user);
        trp_failure_target(failure, target);
        return;
    }
    const char *cause = user;
    int what = (int)strcspn(cause, ";"); // What follows is about the core file.
    *failure =
        trp_failure(TROUPE_MAYBE_EXECUTED, TROUPE_OUTCOME_MAYBE_EXECUTED, TROUPE_EXECUTED_MAYBE,
                    "%s %.*s before it answered; the call may have been executed%s",
                    trp_process_text(target->process).text, what, cause, cause + what);
    trp_failure_target(failure, target);
}

static void take_death(uint32_t process, uint64_t incarnation, const char *cause)
{
    (void)process;
    trp_run_callback_begin();
    trp_entries_fail(&incarnation, describe_death, cause);
    trp_makers_lost(&incarnation);
    if (trp_process_is_driver())
        trp_registrar_death(incarnation);
    trp_watch_death(&incarnation);
    trp_count_death(incarnation);
    trp_run_callback_end();
}

// What waited in a mailbox has been refused before: the calls that are left have been sent, or run.
static void describe_stop(const trp_entry *entry, const void *user, troupe_error *failure)
{
    (void)user;
    *failure =
        trp_failure(TROUPE_MAYBE_EXECUTED, TROUPE_OUTCOME_MAYBE_EXECUTED, TROUPE_EXECUTED_MAYBE,
                    "the runtime was stopped before the call was answered");
    trp_failure_target(failure, &entry->target);
}

static void end_all_calls(void)
{
    trp_entries_fail(NULL, describe_stop, NULL);
    trp_makers_lost(NULL);
    trp_watch_death(NULL);
}

// A call that has no target yet, or between two, waits here to be sent.
static void describe_loss(const trp_entry *entry, const void *user, troupe_error *failure)
{
    const char *what = user;
    if (entry->target.actor == 0)
        *failure = trp_failure(TROUPE_RUNTIME_LOST, TROUPE_OUTCOME_NOT_EXECUTED, TROUPE_EXECUTED_NO,
                               "%s before the call was sent", what);
    else
        *failure =
            trp_failure(TROUPE_MAYBE_EXECUTED, TROUPE_OUTCOME_MAYBE_EXECUTED, TROUPE_EXECUTED_MAYBE,
                        "%s before the call was answered; it may have been executed", what);
    trp_failure_target(failure, &entry->target);
}

// The node has gone. Calls to actors of this process end too: what their methods wait for, or were
// to be told, may never come.
static void lost(void)
{
    trp_run_callback_begin();
    trp_entries_fail(NULL, describe_loss, "the node's keeper or node process has died");
    trp_makers_lost(NULL);
    trp_watch_death(NULL);
    trp_run_callback_end();
}

static bool some_waited; // When the time was over.

// Ends what running methods may wait for.
static void hurry(void)
{
    some_waited = trp_waits_copy(NULL, 0) > 0;
    trp_actors_close();
    end_all_calls();
}

static void start(void)
{
    trp_crash_start();
    trp_actors_start();
    trp_leaks_start();
    trp_measure_start();
    trp_helpers_start();
    trp_scheduler_start(trp_process_options()->threads);
}

// All methods share one time. What they waited for is ended after that: then who waited gets a
// second more, and a method that does not return is left behind soon.
static void stop(void)
{
    enum { WAITED_MS = 1000, OVERDUE_MS = 5 };
    int64_t until_ns = trp_process_stop_until();
    trp_actors_stop_turns();
    if (trp_process_is_local())
        (void)trp_solo_stop(until_ns);
    (void)trp_scheduler_stop(until_ns, hurry);
    int64_t last_ns = trp_clock_ns() + (some_waited ? WAITED_MS : OVERDUE_MS) * INT64_C(1000000);
    if (last_ns < until_ns)
        last_ns = until_ns;
    if (trp_process_is_local())
        (void)trp_solo_stop(last_ns);
    trp_helpers_stop(last_ns);
    trp_process_mute();
    trp_timer_stop();
    trp_actors_finish();
    trp_timer_stop(); // A deinit may have made calls with deadlines.
    trp_executors_forget();
    trp_leaks_report();
    end_all_calls();
    if (!trp_process_is_driver()) // What a worker has in its memory ends with it.
        return;
    trp_spawn_forget();
    trp_registrar_clear();
    trp_count_clear();
    trp_registrar_forget();
    trp_pressure_forget();
    trp_entries_clear();
}

static void closed(void)
{
    end_all_calls();
    trp_entries_clear();
}

static void describe_caller(char *text, size_t capacity)
{
    const trp_actor *actor = trp_run_actor();
    text[0] = '\0';
    if (actor != NULL)
        snprintf(text, capacity, "%s", trp_actor_label(trp_actor_id(actor)).text);
}

// Gives lower rooms what they call of higher ones.
static void join_rooms(void)
{
    trp_scheduler_turns = trp_actor_turns;
    trp_ref_waits = trp_actor_wait_hooks;
    trp_async_here = trp_async_table;
    trp_life_told = (trp_life_listener){.tell = trp_watch_tell, .ended = trp_watch_drop_all};
    trp_cancel_joined = trp_join_cancel;
    trp_registrar_here = trp_adopted_table;
    trp_call_again = trp_repeat_call;
}

__attribute__((constructor)) static void register_handlers(void)
{
    trp_log_describe_set(describe_caller);
    join_rooms();
    trp_process_handlers_set(&(trp_handlers){.start = start,
                                             .frame = take_frame,
                                             .death = take_death,
                                             .work = trp_actor_work,
                                             .ending = trp_actor_work_wake,
                                             .stop = stop,
                                             .lost = lost,
                                             .closed = closed});
}

const char trp_layer_handlers = 1;
