// link.c: actors that end together. Each of the two watches the other; what comes of the news is
// decided where the watcher lives.
#include <actors/actor/lifecycle.h>

#include <actors/actor/invoke.h>
#include <actors/actor/resolve.h>
#include <actors/ends/link.h>
#include <actors/ends/watch.h>
#include <runtime/link/peer.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>

// The linked actor has ended: so does this one, or its trap is told.
static void told(void *user, uint64_t owner, uint64_t number, const trp_down *down)
{
    (void)user, (void)number;
    trp_actor *actor = trp_actor_find(owner);
    if (actor == NULL)
        return;
    trp_life *life = trp_life_lock(actor, owner, false);
    const trp_method *trap = life != NULL ? life->trap : NULL;
    trp_life_unlock(life);
    if (trap != NULL) {
        troupe_down news = {.actor = down->actor,
                            .reason = down->reason,
                            .signal = down->signal,
                            .text = down->text};
        (void)trp_life_post(owner, trap, &news);
    } else if (down->reason != TROUPE_DOWN_NORMAL && down->reason != TROUPE_DOWN_RUNTIME) {
        char text[256];
        snprintf(text, sizeof text, "its linked actor #%llu of process %u ended: %.180s",
                 (unsigned long long)down->actor.id, down->actor.process, down->text);
        trp_life_say(actor, owner, down->reason, down->signal, text);
        (void)trp_actor_close(actor, owner, TRP_ACTOR_ENDED, NULL);
    }
}

// The owner has ended, however: so does this one.
static void told_owned(void *user, uint64_t owner, uint64_t number, const trp_down *down)
{
    (void)user, (void)number;
    trp_actor *actor = trp_actor_find(owner);
    char text[256];
    if (actor == NULL || down->reason == TROUPE_DOWN_RUNTIME)
        return;
    snprintf(text, sizeof text, "its owner #%llu of process %u ended: %.180s",
             (unsigned long long)down->actor.id, down->actor.process, down->text);
    trp_life_say(actor, owner, TROUPE_DOWN_KILLED, 0, text);
    (void)trp_actor_close(actor, owner, TRP_ACTOR_ENDED, NULL);
}

// One side: `owner` of this process watches `other`.
static troupe_status tie(uint64_t owner, troupe_actor other, trp_watch_told *what)
{
    trp_actor *actor = trp_actor_find(owner);
    trp_life *life = actor != NULL ? trp_life_lock(actor, owner, true) : NULL;
    if (life != NULL)
        life->watches = true;
    trp_life_unlock(life);
    if (life == NULL)
        return troupe_fail(TROUPE_NOT_EXECUTED, "actor #%llu has ended and cannot be linked",
                           (unsigned long long)owner);
    return trp_watch_once(other, owner, what);
}

static void untie(uint64_t owner, troupe_actor other)
{
    (void)trp_watch_drop(trp_watch_find(owner, other, told), owner, NULL);
}

// The other side, here or elsewhere. A dead one needs none.
static void tell_other(uint64_t self, troupe_actor other, bool linked)
{
    troupe_actor here = {
        .id = self, .incarnation = trp_home_here.incarnation, .process = trp_home_here.process};
    trp_frame frame = {.kind = TRP_FRAME_LINK,
                       .flags = linked ? 0 : TRP_FRAME_UNLINK,
                       .target = other.id,
                       .call = self};
    if (other.id == 0)
        return;
    if (other.incarnation != trp_home_here.incarnation)
        (void)trp_process_send(other.process, other.incarnation, &frame, 0);
    else if (linked)
        (void)tie(other.id, here, told);
    else
        untie(other.id, here);
}

void trp_link_serve(const trp_frame *frame)
{
    troupe_actor other = {
        .id = frame->call, .incarnation = frame->from_incarnation, .process = frame->from};
    if ((frame->flags & TRP_FRAME_UNLINK) != 0)
        untie(frame->target, other);
    else
        (void)tie(frame->target, other, (frame->flags & TRP_FRAME_OWNED) != 0 ? told_owned : told);
}

void trp_link_child(troupe_actor child)
{
    tell_other(trp_actor_id(trp_run_actor()), child, true);
}

troupe_status trp_link_owned(troupe_actor child)
{
    trp_actor *self = trp_run_actor();
    if (self == NULL) // Then the driver is its owner, and everything ends with that.
        return TROUPE_OK;
    if (child.incarnation == trp_home_here.incarnation)
        return tie(child.id, trp_actor_address(self), told_owned);
    trp_frame frame = {.kind = TRP_FRAME_LINK,
                       .flags = TRP_FRAME_OWNED,
                       .target = child.id,
                       .call = trp_actor_id(self)};
    return trp_process_send(child.process, child.incarnation, &frame, 0);
}

troupe_status trp_link_owner(uint64_t child, troupe_actor owner)
{
    return tie(child, owner, told_owned);
}

static troupe_status check(const trp_actor *self, troupe_actor other, const char *what)
{
    TROUPE_TRY(trp_process_check());
    if (self == NULL)
        return troupe_fail(TROUPE_INVALID, "%s was called outside methods", what);
    TROUPE_TRY(trp_actor_at_home(other, "linked"));
    if (trp_life_is_self(other))
        return troupe_fail(TROUPE_INVALID, "an actor cannot be linked with itself");
    return TROUPE_OK;
}

troupe_status(troupe_actor_link)(troupe_actor other)
{
    trp_actor *self = trp_run_actor();
    TROUPE_TRY(check(self, other, "troupe_actor_link"));
    tell_other(trp_actor_id(self), other, true); // First: its end is told to us in any case.
    return tie(trp_actor_id(self), other, told);
}

troupe_status(troupe_actor_unlink)(troupe_actor other)
{
    trp_actor *self = trp_run_actor();
    TROUPE_TRY(check(self, other, "troupe_actor_unlink"));
    untie(trp_actor_id(self), other);
    tell_other(trp_actor_id(self), other, false);
    return TROUPE_OK;
}
