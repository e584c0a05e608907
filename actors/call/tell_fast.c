// tell_fast.c: the way of most messages, in one piece: what it needs, it finds in a few loads, and
// whatever is unusual is left to call.c.
#include <actors/call/tell_fast.h>

#include <actors/actor/actor.h>
#include <actors/actor/invoke.h>
#include <actors/actor/method_stats.h>
#include <actors/call/call.h>
#include <actors/sched/sender_yield.h>
#include <runtime/base/attributes.h>
#include <runtime/shm/process_table.h>

// The actor behind an address that asks for nothing besides; NULL: it is not here, or not open.
TRP_HOT trp_actor *find_here(const troupe_actor *to)
{
    if (!trp_is_here(to) || (to->node | to->deadline_ms | to->flags) != 0)
        return NULL;
    trp_actor *actor = trp_slot_of(to->id);
    return actor != NULL && trp_actor_is_open(actor, to->id) ? actor : NULL;
}

bool trp_tell_at_once(const troupe_actor *to, const troupe_class *row, size_t method,
                      const void *args)
{
    trp_actor *actor = find_here(to);
    if (actor == NULL || args == NULL || trp_run_callbacks > 0 || trp_process_check() != TROUPE_OK)
        return false;
    const trp_class *class_ = actor->class_;
    if (class_->row != row || method >= row->method_count || !class_->methods[method].plain)
        return false;
    trp_message *message = trp_message_plain(&class_->methods[method], args, to->id);
    if (message == NULL)
        return false;
    trp_measure_pushed(message);
    trp_pushed pushed = trp_mailbox_put(&actor->run.mailbox, &message->link, message->weight);
    if (pushed == TRP_PUSH_REFUSED) {
        trp_message_free(message);
        return false;
    }
    // The message may be run and freed by now.
    if (pushed == TRP_PUSHED_FIRST)
        trp_actor_schedule(actor);
    trp_pause_sent(&actor->run);
    return true;
}
