// restart.c: restarts that a program asks for, here and in other processes.
#include <actors/actor/actor.h>
#include <actors/actor/registrar_client.h>
#include <actors/actor/resolve.h>
#include <actors/actor/restart_in_place.h>
#include <actors/async/ask.h>
#include <actors/ref/call_table.h>
#include <runtime/base/options_take.h>
#include <runtime/link/peer.h>
#include <runtime/node/node_client.h>
#include <runtime/node/server_stop.h>
#include <runtime/shm/process_table.h>
#include <troupe/life.h>

// Its process knows best whether it can be restarted, and answers at once.
static troupe_status ask_for_restart(troupe_actor actor, bool sound)
{
    troupe_none nothing;
    trp_target target = {
        .process = actor.process, .incarnation = actor.incarnation, .actor = actor.id};
    uint64_t call = trp_entry_call(trp_type_note(&troupe_type_troupe_none), &target, 0);
    trp_frame frame = {.kind = TRP_FRAME_RESTART,
                       .flags = sound ? 0 : TRP_FRAME_FORCE,
                       .target = actor.id,
                       .call = call};
    troupe_ref ref = {.id = call};
    if (call == TRP_REF_NO_MEMORY)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a call");
    trp_entry_apart(call);
    troupe_status status = trp_process_send(actor.process, actor.incarnation, &frame, 0);
    if (status != TROUPE_OK) {
        troupe_ref_drop(ref);
        return status;
    }
    TROUPE_TRY(trp_ask_within(ref, "an actor that is to be restarted",
                              trp_process_options()->request_timeout_ms, NULL, NULL));
    return troupe_get(troupe_none, ref, &nothing);
}

static troupe_status restart_elsewhere(troupe_actor actor, bool sound)
{
    troupe_actor now = actor;
    bool isolated = false, saves = false;
    troupe_status status = trp_registrar_known()
                               ? trp_registrar_look(actor, &now, &isolated, &saves)
                               : TROUPE_NOT_FOUND;
    if ((status != TROUPE_OK && status != TROUPE_NOT_FOUND) || now.id == 0)
        return status;
    bool adopted = status == TROUPE_OK;
    // One that saves its state does so first, and then ends its process itself.
    status = isolated && !(sound && saves)
                 ? trp_node_kill(now.process, now.incarnation, "was killed to be restarted")
                 : ask_for_restart(now, sound);
    // Where its process has just died, that is the restart.
    bool lost = status == TROUPE_NOT_EXECUTED || status == TROUPE_MAYBE_EXECUTED;
    return adopted && lost && !trp_process_alive(now.process, now.incarnation, NULL) ? TROUPE_OK
                                                                                     : status;
}

troupe_status troupe_actor_restart_with(troupe_actor actor, const troupe_actor_restart_options *how)
{
    troupe_actor_restart_options taken;
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_actor_restart", taken, how));
    TROUPE_TRY(trp_process_check());
    TROUPE_TRY(troupe_actor_status(actor));
    TROUPE_TRY(trp_actor_at_home(actor, "restarted"));
    if (actor.process == trp_home_here.process && actor.incarnation == trp_home_here.incarnation)
        return trp_restart_here(actor.id, !taken.at_once, false);
    return restart_elsewhere(actor, !taken.at_once);
}
