// async.c: see async.h: making and ending it.
#include <actors/async/async.h>

#include <actors/actor/actor.h>
#include <actors/actor/death_record.h>
#include <actors/actor/reply.h>
#include <actors/async/abandon_running.h>
#include <actors/async/actor_timer.h>
#include <actors/async/cancel.h>
#include <actors/async/concurrency_group.h>
#include <actors/async/defer.h>
#include <actors/async/stream_reader.h>
#include <actors/async/stream_writer.h>
#include <actors/async/then.h>
#include <actors/async/urgent.h>
#include <actors/ref/call_table.h>
#include <actors/ref/ref_visit.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <troupe/actor.h>

trp_async *trp_async_of(trp_actor *actor)
{
    trp_async *async = atomic_load(&actor->async);
    if (async != NULL)
        return async;
    trp_async *fresh = trp_alloc(sizeof *fresh);
    if (fresh == NULL) {
        (void)troupe_fail(TROUPE_NO_MEMORY, "no memory for what an actor waits for");
        return NULL;
    }
    pthread_mutex_init(&fresh->lock, NULL);
    if (atomic_compare_exchange_strong(&actor->async, &async, fresh))
        return fresh;
    pthread_mutex_destroy(&fresh->lock); // Another thread was faster.
    trp_free(fresh);
    return async;
}

trp_caller trp_caller_of(const trp_message *message)
{
    trp_caller caller = {.remote = message->remote != NULL, .call = message->call};
    if (caller.remote) {
        caller.named = message->remote->named;
        caller.process = message->remote->process;
        caller.incarnation = message->remote->incarnation;
    }
    return caller;
}

bool trp_caller_is(const trp_caller *caller, const trp_message *message)
{
    return message->call == caller->call && (message->remote != NULL) == caller->remote &&
           (!caller->remote || message->remote->incarnation == caller->incarnation);
}

// Stands for a caller where a message is asked for.
static trp_message stand_in(const trp_caller *caller, trp_remote *remote)
{
    *remote = (trp_remote){
        .process = caller->process, .named = caller->named, .incarnation = caller->incarnation};
    return (trp_message){.remote = caller->remote ? remote : NULL, .call = caller->call};
}

void trp_caller_fail(const trp_caller *caller, const troupe_error *failure, uint64_t actor)
{
    trp_remote remote;
    trp_message message = stand_in(caller, &remote);
    trp_message_fail(&message, failure, actor);
}

void trp_caller_answer(const trp_caller *caller, const trp_shape *shape, void *value,
                       uint64_t actor)
{
    trp_remote remote;
    trp_message message = stand_in(caller, &remote);
    if (caller->call != 0)
        trp_message_answer(&message, shape, value, actor);
    else if (shape->refs)
        trp_refs_drop(shape, value);
}

void trp_async_forget_promises(trp_actor *actor)
{
    trp_async *async = atomic_load(&actor->async);
    if (async == NULL)
        return;
    trp_alarms_end(async);
    trp_deferrals_end(async, trp_actor_id(actor));
}

void trp_async_finish(trp_actor *actor)
{
    trp_async *async = atomic_load(&actor->async);
    if (async == NULL)
        return;
    trp_async_forget_promises(actor);
    pthread_mutex_lock(&async->lock);
    async->far_tombstones = 0;
    while (async->tombstones != NULL) {
        trp_tombstone *stone = async->tombstones;
        async->tombstones = stone->next;
        atomic_fetch_sub(&actor->cancels, 1);
        trp_free(stone);
    }
    if (async->killed)
        atomic_fetch_sub(&actor->cancels, 1);
    async->killed = false;
    pthread_mutex_unlock(&async->lock);
}

troupe_status trp_async_method(const trp_running *here, const troupe_class *class_, size_t index,
                               const trp_method **method)
{
    if (here == NULL)
        return troupe_fail(TROUPE_INVALID,
                           "no actor runs on this thread that the message could be sent to");
    const trp_class *known = trp_class_of(class_);
    if (known == NULL)
        return troupe_last_error()->status;
    if (known != here->actor->class_ && known->hash != here->actor->class_->hash)
        return troupe_fail(TROUPE_INVALID, "actor %s is of another class than '%s'",
                           trp_actor_label(trp_actor_id(here->actor)).text, class_->name);
    if (index >= class_->method_count)
        return troupe_fail(TROUPE_INVALID, "class '%s' has %zu methods, and number %zu was named",
                           class_->name, class_->method_count, index);
    *method = &here->actor->class_->methods[index];
    return TROUPE_OK;
}

void trp_async_run(trp_actor *actor, trp_message *message)
{
    bool runs = false;
    switch (message->kind) {
    case TRP_MESSAGE_MARKER:
        trp_cancel_passed(actor, message->extra->serial);
        break;
    case TRP_MESSAGE_ALARM:
        runs = trp_alarm_taken(message);
        break;
    case TRP_MESSAGE_CONTINUATION:
        runs = trp_continuation_fill(message) == TROUPE_OK;
        if (!runs)
            trp_log(TRP_ERROR, "a continuation of actor %s is lost: %s",
                    trp_actor_label(trp_actor_id(actor)).text, troupe_last_error()->text);
        break;
    default:
        break;
    }
    if (runs && actor->concurrent)
        trp_lanes_dispatch(actor, message);
    else if (runs)
        trp_run_call(actor, message);
    else
        trp_message_free(message);
}

const trp_async_hooks trp_async_table = {.run = trp_async_run,
                                         .extra_free = trp_extra_free,
                                         .forget_promises = trp_async_forget_promises,
                                         .finish = trp_async_finish,
                                         .enter_late = trp_cancel_enter_late,
                                         .enter_beside = trp_cancel_enter_beside,
                                         .leave_late = trp_cancel_leave_late,
                                         .leave_beside = trp_cancel_leave_beside,
                                         .passed = trp_cancel_passed,
                                         .running_name = trp_running_name,
                                         .give_up_running = trp_give_up_running,
                                         .deferral_is = trp_deferral_is,
                                         .deferral_void = trp_deferral_void,
                                         .maker_run = trp_maker_run,
                                         .guest_enter = trp_guest_enter,
                                         .guest_leave = trp_guest_leave,
                                         .guests_gone = trp_guests_gone,
                                         .guests_keep_out = trp_guests_keep_out,
                                         .guests_admit = trp_guests_admit,
                                         .urgent_send = trp_urgent_send,
                                         .urgent_deliver = trp_urgent_deliver,
                                         .lanes_dispatch = trp_lanes_dispatch,
                                         .lanes_resume = trp_lanes_resume,
                                         .lanes_finish = trp_lanes_finish,
                                         .lanes_close = trp_lanes_close,
                                         .lanes_free = trp_lanes_free};
