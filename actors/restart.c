// restart.c: restarts in place: between two messages, deinit, the back-off, zeros and init again,
// while the mailbox keeps what arrives.
#include <actors/restart.h>

#include <actors/async.h>
#include <actors/beside.h>
#include <actors/failure.h>
#include <actors/run.h>
#include <runtime/clock.h>
#include <runtime/error.h>
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

// The policy stays until the actor has gone, and but for the request is its own: no lock is needed
// by who runs in it.
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
    if (policy != NULL && !policy->request.wanted) {
        policy->request.wanted = true;
        policy->request.reason = reason;
        snprintf(policy->request.text, sizeof policy->request.text, "%s", text);
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

// A copy: the next request may be made while this one is carried out.
static bool take_request(trp_actor *actor, trp_policy **policy, trp_request *request)
{
    trp_life *life = trp_life_lock(actor, trp_actor_id(actor), false);
    *policy = life != NULL ? life->policy : NULL;
    bool wanted = *policy != NULL && (*policy)->request.wanted;
    if (wanted) {
        *request = (*policy)->request;
        (*policy)->request.wanted = false;
    }
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

static void restart(trp_actor *actor, trp_policy *policy, trp_request *why)
{
    int64_t delay_ms;
    while (is_open(actor)) {
        if (!trp_budget_take(&policy->budget, trp_clock_ms(), &delay_ms)) {
            size_t size = strlen(why->text);
            snprintf(why->text + size, sizeof why->text - size,
                     "; it was restarted %u times before", policy->budget.count);
            trp_life_say(actor, trp_actor_id(actor), why->reason, 0, why->text);
            (void)trp_actor_close(actor, trp_actor_id(actor), TRP_ACTOR_ENDED, NULL);
            return;
        }
        set_restarts(actor, &policy->budget);
        trp_registrar_counted(policy->origin);
        trp_run_deinit(actor);
        atomic_store(&actor->ready, false); // Until init has succeeded, no deinit is owed.
        forget_promises(actor);
        trp_restart_sleep(delay_ms, actor);
        troupe_error failure;
        memset(actor->self, 0, actor->class_->row->size);
        if (!is_open(actor) || start_again(actor, policy, &failure))
            return;
        why->reason = TROUPE_DOWN_ERROR;
        snprintf(why->text, sizeof why->text, "could not be restarted: %.200s", failure.text);
    }
}

void trp_policy_act(trp_actor *actor)
{
    trp_policy *policy;
    trp_request request;
    if (!trp_life_has(actor) || !take_request(actor, &policy, &request))
        return;
    trp_guests_keep_out(actor);
    restart(actor, policy, &request);
    trp_guests_admit(actor);
}

// ---- for users

uint32_t troupe_was_restarted(void)
{
    trp_actor *self = trp_run_actor();
    trp_policy *policy = self != NULL && trp_life_has(self) ? policy_of(self) : NULL;
    return policy != NULL ? policy->budget.count + policy->budget.unpaid : 0;
}

static troupe_status restart_here(uint64_t id)
{
    trp_actor *actor = trp_actor_find(id);
    if (actor == NULL || !trp_actor_is_open(actor, id)) {
        troupe_error failure = trp_actor_obituary(id);
        return trp_error_set(&failure);
    }
    trp_message *nudge = trp_message_create(TRP_MESSAGE_NUDGE, 0);
    if (nudge == NULL)
        return TROUPE_NO_MEMORY;
    if (trp_policy_ask(actor, id, TROUPE_DOWN_KILLED, "was killed to be restarted")) {
        trp_actor_deliver(actor, id, nudge);
        return TROUPE_OK;
    }
    trp_message_free(nudge);
    return troupe_fail(TROUPE_UNSUPPORTED,
                       "actor %s cannot be restarted: it was spawned without .restarts",
                       trp_actor_label(id).text);
}

void trp_restart_serve(const trp_frame *frame)
{
    trp_shape shape = trp_shape_of(&troupe_type_troupe_none);
    trp_message *message;
    troupe_status status = restart_here(frame->target);
    troupe_error failure =
        trp_failure_last(status, TROUPE_OUTCOME_NOT_EXECUTED, TROUPE_EXECUTED_NO);
    if (trp_message_receive(TRP_MESSAGE_FINISH, frame, NULL, &message) != TROUPE_OK)
        return;
    if (status == TROUPE_OK)
        trp_message_answer(message, &shape, &(troupe_none){0}, 0);
    else
        trp_message_fail(message, &failure, 0);
    trp_message_free(message);
}

// Its process knows best whether it can be restarted, and answers at once.
static troupe_status ask_for_restart(troupe_actor actor)
{
    troupe_none nothing;
    trp_target target = {
        .process = actor.process, .incarnation = actor.incarnation, .actor = actor.id};
    uint64_t call = trp_entry_call(trp_type_note(&troupe_type_troupe_none), &target, 0);
    trp_frame frame = {.kind = TRP_FRAME_RESTART, .target = actor.id, .call = call};
    troupe_ref ref = {.id = call};
    if (call == TRP_REF_NO_MEMORY)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a call");
    trp_entry_apart(call);
    troupe_status status = trp_process_send(actor.process, actor.incarnation, &frame, 0);
    if (status != TROUPE_OK) {
        troupe_drop(ref);
        return status;
    }
    return troupe_get(troupe_none, ref, &nothing);
}

static troupe_status restart_elsewhere(troupe_actor actor)
{
    troupe_actor now = actor;
    bool isolated = false;
    troupe_status status =
        trp_registrar_known() ? trp_registrar_look(actor, &now, &isolated) : TROUPE_NOT_FOUND;
    if ((status != TROUPE_OK && status != TROUPE_NOT_FOUND) || now.id == 0)
        return status;
    bool adopted = status == TROUPE_OK;
    status = isolated ? trp_node_kill(now.process, now.incarnation, "was killed to be restarted")
                      : ask_for_restart(now);
    // Where its process has just died, that is the restart.
    bool lost = status == TROUPE_NOT_EXECUTED || status == TROUPE_MAYBE_EXECUTED;
    return adopted && lost && !trp_process_alive(now.process, now.incarnation, NULL) ? TROUPE_OK
                                                                                     : status;
}

troupe_status troupe_restart_actor(troupe_actor actor)
{
    TROUPE_TRY(trp_process_check());
    TROUPE_TRY(troupe_actor_status(actor));
    if (actor.process == trp_home_here.process && actor.incarnation == trp_home_here.incarnation)
        return restart_here(actor.id);
    return restart_elsewhere(actor);
}
