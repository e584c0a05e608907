// resolve.c: see actor/resolve.h.
#include <actors/actor/resolve.h>

#include <actors/actor/invoke.h>
#include <actors/sched/scheduler.h>
#include <actors/sched/wait_notes.h>
#include <runtime/remote/cluster.h>
#include <runtime/shm/segment.h>

troupe_status trp_actor_near(troupe_actor *actor)
{
    uint32_t process = actor->process;
    if (actor->node == 0)
        return TROUPE_OK;
    if (actor->process >= TRP_PROCESSES_MAX)
        return troupe_fail(TROUPE_INVALID, "the address names process %u, which no node has",
                           actor->process);
    if (!trp_process_find_waits(actor->node, actor->process, actor->incarnation)) {
        TROUPE_TRY(trp_process_find(actor->node, actor->process, actor->incarnation, &process));
    } else {
        if (trp_run_patience(0) == 0)
            return troupe_fail(TROUPE_BUSY, "the first message to a process of another node asks "
                                            "for the way there, and this thread must not wait");
        trp_wait_for(TRP_WAIT_NODE, 0, 0);
        TROUPE_TRY(trp_scheduler_block());
        troupe_status status =
            trp_process_find(actor->node, actor->process, actor->incarnation, &process);
        trp_scheduler_unblock();
        TROUPE_TRY(status);
    }
    actor->node = 0;
    actor->process = process;
    return TROUPE_OK;
}

troupe_status trp_actor_at_home(troupe_actor actor, const char *what)
{
    if (actor.node == 0 || actor.node == trp_process_node_id())
        return TROUPE_OK;
    return troupe_fail(TROUPE_UNSUPPORTED,
                       "actor #%llu lives on another node and cannot be %s here",
                       (unsigned long long)actor.id, what);
}
