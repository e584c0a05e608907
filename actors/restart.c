// restart.c: restarts in place: between two messages, deinit, the back-off, zeros and init again,
// while the mailbox keeps what arrives.
#include <actors/restart.h>

#include <actors/async.h>
#include <actors/beside.h>
#include <actors/failure.h>
#include <actors/run.h>
#include <runtime/clock.h>
#include <runtime/memory.h>
#include <runtime/node.h>
#include <runtime/park.h>
#include <runtime/process.h>
#include <stdio.h>
#include <string.h>

// For who looks from outside.
static void set_restarts(trp_actor *actor, const trp_budget *budget)
{
    uint32_t count = budget->count + budget->unpaid;
    atomic_store(&actor->restarts, (uint16_t)(count < UINT16_MAX ? count : UINT16_MAX));
}

troupe_status trp_policy_set(trp_actor *actor, const trp_budget *budget, troupe_actor origin,
                             const troupe_bytes *args)
{
    trp_policy *made = trp_alloc(sizeof *made);
    void *copy = trp_alloc(args->size + 1);
    trp_life *life =
        made != NULL && copy != NULL ? trp_life_lock(actor, trp_actor_id(actor), true) : NULL;
    if (life != NULL) {
        made->budget = *budget;
        made->origin = origin.id != 0 ? origin : trp_actor_address(actor);
        made->args = copy;
        made->args_size = args->size;
        if (args->size > 0)
            memcpy(copy, args->data, args->size);
        life->policy = made;
        set_restarts(actor, budget);
    } else {
        trp_free(made);
        trp_free(copy);
    }
    trp_life_unlock(life);
    return life != NULL ? TROUPE_OK : troupe_fail(TROUPE_NO_MEMORY, "no memory for a policy");
}

void trp_policy_free(trp_life *life)
{
    if (life->policy != NULL)
        trp_free(life->policy->args);
    trp_free(life->policy);
    life->policy = NULL;
}

// The policy stays until the actor has gone, and but for `wanted` is its own: no lock is needed by
// who runs in it.
static trp_policy *policy_of(trp_actor *actor)
{
    trp_life *life = trp_life_lock(actor, trp_actor_id(actor), false);
    trp_policy *policy = life != NULL ? life->policy : NULL;
    trp_life_unlock(life);
    return policy;
}

troupe_actor trp_policy_address(trp_actor *actor)
{
    trp_policy *policy = trp_life_has(actor) ? policy_of(actor) : NULL;
    return policy != NULL ? policy->origin : trp_actor_address(actor);
}

bool trp_policy_ask(trp_actor *actor, uint64_t id, int reason, const char *text)
{
    trp_life *life = trp_life_lock(actor, id, false);
    trp_policy *policy = life != NULL ? life->policy : NULL;
    if (policy != NULL && !policy->wanted) {
        policy->wanted = true;
        policy->reason = reason;
        snprintf(policy->text, sizeof policy->text, "%s", text);
    }
    trp_life_unlock(life);
    return policy != NULL;
}

static bool is_open(const trp_actor *actor)
{
    return atomic_load(&actor->phase) == trp_phase_of(trp_actor_id(actor), TRP_ACTOR_OPEN);
}

void trp_policy_end(trp_actor *actor, uint64_t id)
{
    trp_life *life = trp_life_lock(actor, id, false);
    bool known = life != NULL && life->policy != NULL;
    troupe_actor origin = known ? life->policy->origin : (troupe_actor){0};
    trp_life_unlock(life);
    trp_down down = trp_down_of(origin, TROUPE_DOWN_KILLED, "was killed");
    if (known)
        trp_registrar_ended(origin, &down);
}

static bool take_request(trp_actor *actor, trp_policy **policy)
{
    trp_life *life = trp_life_lock(actor, trp_actor_id(actor), false);
    *policy = life != NULL ? life->policy : NULL;
    bool wanted = *policy != NULL && (*policy)->wanted;
    if (wanted)
        (*policy)->wanted = false;
    trp_life_unlock(life);
    return wanted;
}

void trp_restart_sleep(int64_t delay_ms, const trp_actor *actor)
{
    enum { LOOK_NS = 20000000 };
    static _Atomic uint32_t never;
    int64_t until_ns = trp_clock_ns() + delay_ms * 1000000;
    if (delay_ms == 0 || trp_scheduler_block() != TROUPE_OK)
        return;
    while (trp_clock_ns() < until_ns && (actor == NULL || is_open(actor)) &&
           !trp_actors_stopping() && !trp_process_ending()) {
        int64_t look_ns = trp_clock_ns() + LOOK_NS;
        trp_park(&never, 0, look_ns < until_ns ? look_ns : until_ns);
    }
    trp_scheduler_unblock();
}

// What the former life had begun: its timers, and the answers that it owed.
static void forget_promises(trp_actor *actor)
{
    trp_async *async = atomic_load(&actor->async);
    if (async == NULL)
        return;
    trp_alarms_end(async);
    trp_deferrals_end(actor, async);
}

static bool start_again(trp_actor *actor, const trp_policy *policy, troupe_error *failure)
{
    const trp_shape *shape = &actor->class_->init;
    troupe_bytes packed = {policy->args, policy->args_size};
    trp_message *message = trp_message_create(TRP_MESSAGE_INIT, 0);
    bool started = message != NULL && trp_message_unpack_args(message, shape, &packed) == TROUPE_OK;
    if (!started)
        *failure = *troupe_last_error();
    else
        started = trp_run_init(actor, message, failure);
    trp_message_free(message);
    return started;
}

static void restart(trp_actor *actor, trp_policy *policy)
{
    int64_t delay_ms;
    while (is_open(actor)) {
        if (!trp_budget_take(&policy->budget, trp_clock_ms(), &delay_ms)) {
            size_t size = strlen(policy->text);
            snprintf(policy->text + size, sizeof policy->text - size,
                     "; it was restarted %u times before", policy->budget.count);
            trp_life_say(actor, trp_actor_id(actor), policy->reason, 0, policy->text);
            (void)trp_actor_close(actor, trp_actor_id(actor), TRP_ACTOR_ENDED, NULL);
            return;
        }
        set_restarts(actor, &policy->budget);
        trp_registrar_counted(policy->origin);
        trp_run_deinit(actor);
        forget_promises(actor);
        trp_restart_sleep(delay_ms, actor);
        troupe_error failure;
        memset(actor->self, 0, actor->class_->row->size);
        if (!is_open(actor) || start_again(actor, policy, &failure))
            return;
        policy->reason = TROUPE_DOWN_ERROR;
        snprintf(policy->text, sizeof policy->text, "could not be restarted: %.200s", failure.text);
    }
}

void trp_policy_act(trp_actor *actor)
{
    trp_policy *policy;
    if (!trp_life_has(actor) || !take_request(actor, &policy))
        return;
    trp_guests_keep_out(actor);
    restart(actor, policy);
    trp_guests_admit(actor);
}

// ---- for users

uint32_t troupe_was_restarted(void)
{
    trp_actor *self = trp_run_actor();
    trp_policy *policy = self != NULL && trp_life_has(self) ? policy_of(self) : NULL;
    return policy != NULL ? policy->budget.count + policy->budget.unpaid : 0;
}

static troupe_status no_policy(troupe_actor actor)
{
    return troupe_fail(TROUPE_UNSUPPORTED,
                       "actor #%llu of process %u cannot be restarted: it was spawned without "
                       ".restarts, or has ended",
                       (unsigned long long)actor.id, actor.process);
}

troupe_status trp_restart_here(uint64_t id)
{
    trp_actor *actor = trp_actor_find(id);
    bool asked = actor != NULL &&
                 trp_policy_ask(actor, id, TROUPE_DOWN_KILLED, "was killed to be restarted");
    trp_message *nudge = asked ? trp_message_create(TRP_MESSAGE_NUDGE, 0) : NULL;
    if (nudge != NULL)
        trp_actor_deliver(actor, id, nudge);
    return asked ? TROUPE_OK
                 : no_policy((troupe_actor){.id = id, .process = trp_home_here.process});
}

static troupe_status restart_elsewhere(troupe_actor actor)
{
    troupe_actor now = actor;
    bool isolated = false;
    troupe_status status =
        trp_registrar_known() ? trp_registrar_look(actor, &now, &isolated) : TROUPE_NOT_FOUND;
    if ((status != TROUPE_OK && status != TROUPE_NOT_FOUND) || now.id == 0)
        return status;
    if (isolated)
        return trp_node_kill(now.process, now.incarnation, "was killed to be restarted");
    trp_frame frame = {.kind = TRP_FRAME_RESTART, .target = now.id};
    return trp_process_send(now.process, now.incarnation, &frame, 0);
}

troupe_status troupe_restart_actor(troupe_actor actor)
{
    TROUPE_TRY(trp_process_check());
    if (actor.id == 0)
        return no_policy(actor);
    if (actor.process == trp_home_here.process && actor.incarnation == trp_home_here.incarnation)
        return trp_restart_here(actor.id);
    return restart_elsewhere(actor);
}
