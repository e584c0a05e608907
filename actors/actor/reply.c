// reply.c: see reply.h.
#include <actors/actor/reply.h>

#include <actors/actor/actor.h>
#include <actors/actor/death_record.h>
#include <actors/class/call_error.h>
#include <actors/ref/body.h>
#include <actors/ref/ref_visit.h>
#include <actors/ref/result.h>
#include <runtime/link/peer.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>

void trp_failure_target(troupe_error *failure, const trp_target *target)
{
    if (trp_target_is_none(target)) { // No actor had the call.
        snprintf(failure->actor, sizeof failure->actor, "%.60s",
                 target->class_name != NULL ? target->class_name : "");
        failure->node[0] = '\0';
        failure->process = 0;
        return;
    }
    snprintf(failure->actor, sizeof failure->actor, "%.40s#%llu",
             target->class_name != NULL ? target->class_name : "actor",
             (unsigned long long)target->actor);
    bool far = trp_process_is_far(target->process);
    snprintf(failure->node, sizeof failure->node, "%.63s",
             far ? trp_process_text(target->process).text : trp_home_here.host);
    failure->process = trp_process_pid(target->process);
}

void trp_reply_failure(uint32_t process, uint64_t incarnation, uint64_t call,
                       const troupe_error *failure)
{
    trp_buffer body = {0};
    trp_failure_write(failure, &body);
    trp_frame frame = {.kind = TRP_FRAME_REPLY,
                       .call = call,
                       .status = failure->status,
                       .outcome = failure->outcome,
                       .executed = failure->executed,
                       .body = body.data,
                       .body_size = body.failed ? 0 : body.size};
    (void)trp_process_send(process, incarnation, &frame, 0); // A dead caller needs none.
    trp_buffer_free(&body);
}

void trp_message_fail(trp_message *message, const troupe_error *failure, uint64_t actor)
{
    troupe_error placed = *failure;
    if (message->call == 0)
        return;
    if (actor != 0)
        trp_failure_place(&placed, actor);
    if (message->remote != NULL)
        trp_reply_failure(message->remote->process, message->remote->incarnation, message->call,
                          &placed);
    else
        (void)trp_entry_fail(message->call, &placed);
}

troupe_status trp_value_send(const trp_remote *remote, trp_frame *frame, const trp_shape *shape,
                             const void *value)
{
    trp_parcel parcel = {
        .process = remote->process, .incarnation = remote->incarnation, .plain = remote->named};
    troupe_status status = trp_parcel_pack(&parcel, shape, value);
    if (status == TROUPE_OK)
        status = trp_parcel_send(&parcel, frame, 0);
    trp_parcel_drop(&parcel);
    return status;
}

static void answer_remote(trp_message *message, const trp_shape *shape, const void *value,
                          uint64_t actor)
{
    trp_frame frame = {.kind = TRP_FRAME_REPLY,
                       .call = message->call,
                       .schema = troupe_type_hash(shape->type),
                       .outcome = TROUPE_OUTCOME_VALUE,
                       .executed = TROUPE_EXECUTED_YES};
    troupe_status status = trp_value_send(message->remote, &frame, shape, value);
    if (status == TROUPE_OK || status == TROUPE_NOT_EXECUTED)
        return;
    troupe_error failure = trp_failure_last(status, TROUPE_OUTCOME_FAILED, TROUPE_EXECUTED_YES);
    trp_message_fail(message, &failure, actor);
}

void trp_message_answer(trp_message *message, const trp_shape *shape, void *value, uint64_t actor)
{
    if (message->remote != NULL) {
        answer_remote(message, shape, value, actor);
        if (shape->refs)
            trp_refs_drop(shape, value);
        return;
    }
    trp_result result;
    // Not looked at without need: a method that was left behind may return after the stop.
    size_t limit = shape->flat ? SIZE_MAX : trp_process_options()->message_bytes_max;
    if (!shape->flat && trp_value_weight(shape->type, value) > limit) {
        troupe_error failure =
            trp_failure(TROUPE_TOO_LARGE, TROUPE_OUTCOME_FAILED, TROUPE_EXECUTED_YES,
                        "a result of %zu bytes is above the limit of %zu (message_bytes_max)",
                        trp_value_weight(shape->type, value), limit);
        if (shape->refs)
            trp_refs_drop(shape, value);
        trp_message_fail(message, &failure, actor);
        return;
    }
    trp_result_copy(&result, shape, value);
    (void)trp_entry_resolve(message->call, &result);
}
