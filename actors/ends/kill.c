// kill.c: the end of actors, here and in other processes.
#include <actors/ends/kill.h>

#include <actors/actor/actor.h>
#include <actors/actor/registrar_client.h>
#include <actors/actor/restart_in_place.h>
#include <actors/async/abandon_running.h>
#include <actors/async/async.h>
#include <actors/async/cancel.h>
#include <actors/call/call.h>
#include <actors/ref/ref.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/link/peer.h>
#include <runtime/node/node_client.h>
#include <runtime/node/server_stop.h>
#include <runtime/shm/process_table.h>

enum { KILL_ANSWER_MS = 1000 };

// An actor that may have been started again is found, and will not be once more.
static void find_last(troupe_actor *actor)
{
    if (trp_call_may_have_moved(*actor))
        (void)trp_registrar_find(actor, 0, true);
}

static troupe_status send_end(troupe_actor actor, trp_frame_kind kind, uint32_t flags,
                              uint64_t call)
{
    trp_frame frame = {.kind = kind, .flags = flags, .target = actor.id, .call = call};
    return trp_process_send(actor.process, actor.incarnation, &frame, 0);
}

static const char why_ended[] = "was ended: its actor was killed";

// The answer to a kill has come after all.
static void end_late(void *user, troupe_ref ref)
{
    troupe_actor *actor = user;
    bool isolated = false;
    if (troupe_get(bool, ref, &isolated, TROUPE_POLL) == TROUPE_OK && isolated)
        (void)trp_node_end(actor->process, actor->incarnation, why_ended);
    trp_free(actor);
}

// The process has not answered yet. One that was stopped cannot: where it is one actor's own it is
// ended without.
static void leave_kill(troupe_actor actor, troupe_ref ref)
{
    int64_t ran_ms;
    troupe_actor *copy = trp_alloc(sizeof *copy);
    if (!trp_process_is_far(actor.process) &&
        trp_cancel_may_force(actor.process, actor.incarnation) &&
        trp_process_doing(trp_process_pid(actor.process), &ran_ms) == 'T')
        (void)trp_node_end(actor.process, actor.incarnation, why_ended);
    if (copy == NULL) {
        troupe_ref_drop(ref);
        return;
    }
    *copy = actor;
    trp_ref_when(ref, end_late, copy);
}

// Kills an actor of another process; where it has that for itself, the process too.
static troupe_status kill_elsewhere(troupe_actor actor, bool give_up, int limit_ms)
{
    trp_target target = {
        .process = actor.process, .incarnation = actor.incarnation, .actor = actor.id};
    uint64_t call = trp_entry_call(trp_type_note(&troupe_type_bool), &target, 0);
    troupe_ref ref = {.id = call, .schema = trp_type_note(&troupe_type_bool)};
    bool isolated = false;
    if (call == TRP_REF_NO_MEMORY)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a call");
    troupe_status status = send_end(actor, TRP_FRAME_KILL, give_up ? TRP_FRAME_FORCE : 0, call);
    if (status != TROUPE_OK) {
        troupe_ref_drop(ref);
        if (status == TROUPE_NOT_EXECUTED)
            status = TROUPE_OK; // It is dead.
        return trp_error_settled(status);
    }
    // The answer comes behind those of the calls that waited in the mailbox.
    status = troupe_get(bool, ref, &isolated, limit_ms);
    if (status == TROUPE_TIMED_OUT)
        leave_kill(actor, ref);
    if (status == TROUPE_OK && isolated)
        (void)trp_node_end(actor.process, actor.incarnation, why_ended);
    return trp_error_settled(TROUPE_OK);
}

troupe_status trp_kill_actor(troupe_actor actor, bool give_up, int limit_ms)
{
    TROUPE_TRY(trp_call_check_address(&actor));
    if (!trp_is_here(&actor)) {
        find_last(&actor);
        return kill_elsewhere(actor, give_up, limit_ms);
    }
    trp_kill_here(actor.id, give_up);
    return TROUPE_OK;
}

void trp_kill_untold(troupe_actor actor)
{
    if (trp_is_here(&actor))
        trp_kill_here(actor.id, false);
    else
        (void)send_end(actor, TRP_FRAME_KILL, 0, 0);
}

troupe_status(troupe_actor_kill)(troupe_actor actor)
{
    return trp_kill_actor(actor, false, KILL_ANSWER_MS);
}

troupe_status(troupe_actor_end)(troupe_actor actor)
{
    TROUPE_TRY(trp_call_check_address(&actor));
    if (!trp_is_here(&actor)) {
        find_last(&actor);
        troupe_status status = send_end(actor, TRP_FRAME_FINISH, 0, 0);
        return trp_error_settled(status == TROUPE_NOT_EXECUTED ? TROUPE_OK : status);
    }
    trp_actor *found = trp_actor_find(actor.id);
    if (found == NULL)
        return TROUPE_OK;
    trp_message *message = trp_message_create(TRP_MESSAGE_FINISH, 0);
    if (message != NULL)
        trp_actor_deliver(found, actor.id, message);
    return message != NULL ? TROUPE_OK : TROUPE_NO_MEMORY;
}
