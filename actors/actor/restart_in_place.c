// restart_in_place.c: restarts in place: between two messages, deinit, the back-off, zeros and init
// again, while the mailbox keeps what arrives.
#include <actors/actor/restart_in_place.h>

#include <actors/actor/async_hooks.h>
#include <actors/actor/death_record.h>
#include <actors/actor/invoke.h>
#include <actors/actor/registrar_client.h>
#include <actors/actor/reply.h>
#include <actors/actor/resolve.h>
#include <actors/actor/saved_state.h>
#include <actors/class/call_error.h>
#include <actors/class/restart_budget.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <runtime/base/slow.h>
#include <runtime/link/park.h>
#include <runtime/link/peer.h>
#include <runtime/node/node_client.h>
#include <runtime/node/server_stop.h>
#include <runtime/shm/process_table.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// For who looks from outside.
static void set_restarts(trp_actor *actor, const trp_budget *budget)
{
    uint32_t count = budget->count + budget->unpaid;
    atomic_store(&actor->restarts, (uint16_t)(count < UINT16_MAX ? count : UINT16_MAX));
}

int64_t trp_restart_left_ms(uint64_t id)
{
    trp_actor *actor = trp_actor_find(id);
    trp_life *life = actor != NULL ? trp_life_lock(actor, id, false) : NULL;
    int64_t due_ms = life != NULL && life->policy != NULL ? atomic_load(&life->policy->due_ms) : 0;
    trp_life_unlock(life);
    int64_t left_ms = due_ms - trp_clock_ms();
    return due_ms == 0 ? -1 : left_ms > 0 ? left_ms : 0;
}

// One that says when its own thread has it: a save hook may ask for a save.
static void make_lock(pthread_mutex_t *lock)
{
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(lock, &kind);
    pthread_mutexattr_destroy(&kind);
}

static trp_policy *make_policy(trp_actor *actor, const trp_policy_order *order)
{
    trp_policy *made = trp_alloc(sizeof *made);
    if (made == NULL)
        return NULL;
    make_lock(&made->saving);
    made->budget = order->budget;
    made->origin = order->origin.id != 0 ? order->origin : trp_actor_address(actor);
    made->args = order->args;
    made->image = order->image;
    made->every = order->every;
    made->state = trp_state_of(actor->class_->row->name);
    return made;
}

troupe_status trp_policy_set(trp_actor *actor, trp_policy_order *order)
{
    trp_policy *made = make_policy(actor, order);
    trp_life *life = made != NULL ? trp_life_lock(actor, trp_actor_id(actor), true) : NULL;
    if (life != NULL) {
        life->policy = made;
        set_restarts(actor, &order->budget);
        actor->saves = made->state != NULL;
    } else {
        trp_free(made);
        trp_kept_drop(&order->args);
        trp_kept_drop(&order->image);
    }
    trp_life_unlock(life);
    order->args = order->image = (trp_kept){0};
    if (life == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a policy");
    return TROUPE_OK;
}

void trp_policy_free(trp_life *life)
{
    trp_policy *policy = life->policy;
    life->policy = NULL;
    if (policy == NULL)
        return;
    trp_kept_drop(&policy->args);
    trp_kept_drop(&policy->image);
    trp_kept_drop(&policy->first);
    pthread_mutex_destroy(&policy->saving);
    trp_free(policy);
}

// But for what says that it is wanted it is its actor's own: no lock is needed by who runs in that.
// Who kills the actor tells its end while a method of it may still run, and save its state.
trp_policy *trp_policy_of(trp_actor *actor)
{
    return trp_life_policy(actor);
}

bool trp_policy_wanted(trp_actor *actor)
{
    trp_life *life = trp_life_lock(actor, trp_actor_id(actor), false);
    bool wanted = life != NULL && life->policy != NULL && life->policy->request.wanted;
    trp_life_unlock(life);
    return wanted;
}

troupe_actor trp_policy_address(trp_actor *actor)
{
    trp_policy *policy = trp_life_has(actor) ? trp_policy_of(actor) : NULL;
    return policy != NULL ? policy->origin : trp_actor_address(actor);
}

static bool ask(trp_actor *actor, uint64_t id, const trp_request *what)
{
    trp_life *life = trp_life_lock(actor, id, false);
    trp_policy *policy = life != NULL ? life->policy : NULL;
    if (policy != NULL && !policy->request.wanted) {
        policy->request = *what;
        policy->request.wanted = true;
    } else if (policy != NULL && !what->sound) {
        policy->request.sound = false; // It has failed meanwhile.
    }
    trp_life_unlock(life);
    return policy != NULL;
}

// Has the actor look whether it is to be restarted, if it has nothing to do.
static void nudge(trp_actor *actor, uint64_t id)
{
    trp_message *message = trp_message_create(TRP_MESSAGE_NUDGE, 0);
    if (message != NULL)
        trp_actor_deliver(actor, id, message);
}

bool trp_policy_ask(trp_actor *actor, uint64_t id, int reason, const char *text)
{
    trp_request what = {.reason = reason};
    snprintf(what.text, sizeof what.text, "%s", text);
    bool asked = ask(actor, id, &what);
    const trp_running *here = trp_run_current();
    if (asked && here != NULL && here->message != NULL && here->message->beside)
        nudge(actor, id); // No turn of the actor ends with this method.
    return asked;
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

void trp_restart_sleep(int64_t delay_ms, const char *whom, bool (*wanted)(const void *user),
                       const void *user)
{
    enum { LOOK_NS = 20000000 };
    static _Atomic uint32_t never;
    int64_t until_ns = trp_clock_ns() + delay_ms * 1000000;
    if (delay_ms == 0 || trp_scheduler_block() != TROUPE_OK)
        return;
    trp_slow slow;
    trp_slow_begin(&slow, TRP_SLOW_PAUSE);
    slow.who = whom;
    while (trp_clock_ns() < until_ns && (wanted == NULL || wanted(user)) &&
           !trp_actors_stopping() && !trp_process_ending() && !trp_runtime_is_lost()) {
        if (whom != NULL && trp_slow_is_due(&slow))
            trp_slow_tell(&slow, "its restart, which is to come after %.1f s",
                          (double)delay_ms * 1e-3);
        int64_t look_ns = trp_clock_ns() + LOOK_NS;
        trp_park(&never, 0, look_ns < until_ns ? look_ns : until_ns);
    }
    trp_slow_end(&slow);
    trp_scheduler_unblock();
}

static bool start_again(trp_actor *actor, const trp_policy *policy, troupe_error *failure)
{
    const trp_shape *shape = &actor->class_->init;
    troupe_bytes packed = trp_kept_value(&policy->args);
    trp_message *message = trp_message_create(TRP_MESSAGE_INIT, 0);
    bool started = message != NULL && trp_message_unpack_args(message, shape, &packed) == TROUPE_OK;
    if (!started)
        *failure = *troupe_last_error();
    else
        started = trp_run_init(actor, message, failure);
    trp_message_free(message);
    return started;
}

// The process of an isolated actor ends, and the registrar does the rest.
static void leave_process(void)
{
    (void)trp_node_kill(trp_home_here.process, trp_home_here.incarnation,
                        "was killed to be restarted");
    (void)kill(getpid(), SIGKILL);
}

static bool is_still_open(const void *user)
{
    return is_open(user);
}

// The pause before a restart in place, and what is said of it.
static void pause_before(trp_actor *actor, trp_policy *policy, int64_t delay_ms, const char *why)
{
    char when[TRP_BUDGET_TEXT];
    trp_label label = trp_actor_label(trp_actor_id(actor));
    trp_budget_describe(&policy->budget, delay_ms, when);
    trp_log(TRP_WARN, "actor %s is restarted %s: %s", label.text, when, why);
    atomic_store(&policy->due_ms, trp_clock_ms() + delay_ms);
    trp_restart_sleep(delay_ms, label.text, is_still_open, actor);
    atomic_store(&policy->due_ms, 0);
}

static void restart(trp_actor *actor, trp_policy *policy, trp_request *why)
{
    int64_t delay_ms;
    if (why->sound && actor->saves && actor->ready)
        trp_state_leave(actor);
    if (why->leaves && is_open(actor))
        leave_process();
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
        atomic_store(&actor->ready, false);    // Until init has succeeded, no deinit is owed.
        trp_async_here.forget_promises(actor); // What the former life had begun.
        pause_before(actor, policy, delay_ms, why->text);
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
    trp_async_here.guests_keep_out(actor);
    restart(actor, policy, &request);
    trp_async_here.guests_admit(actor);
    if (actor->concurrent)
        trp_async_here.lanes_resume(actor);
}

// ---- for users

uint32_t troupe_actor_restarts(void)
{
    trp_actor *self = trp_run_actor();
    trp_policy *policy = self != NULL && trp_life_has(self) ? trp_policy_of(self) : NULL;
    return policy != NULL ? policy->budget.count + policy->budget.unpaid : 0;
}

troupe_status trp_restart_here(uint64_t id, bool sound, bool leaves)
{
    trp_actor *actor = trp_actor_find(id);
    if (actor == NULL || !trp_actor_is_open(actor, id)) {
        troupe_error failure = trp_actor_obituary(id);
        return trp_error_set(&failure);
    }
    trp_request what = {.reason = TROUPE_DOWN_KILLED,
                        .sound = sound,
                        .leaves = leaves && actor->pinned,
                        .text = "was killed to be restarted"};
    trp_message *message = trp_message_create(TRP_MESSAGE_NUDGE, 0);
    if (message == NULL)
        return TROUPE_NO_MEMORY;
    if (ask(actor, id, &what)) {
        trp_actor_deliver(actor, id, message);
        return TROUPE_OK;
    }
    trp_message_free(message);
    return troupe_fail(TROUPE_UNSUPPORTED,
                       "actor %s cannot be restarted: it was spawned without .restarts",
                       trp_actor_label(id).text);
}

void trp_restart_serve(const trp_frame *frame)
{
    trp_shape shape = trp_shape_of(&troupe_type_troupe_none);
    trp_message *message;
    troupe_status status =
        trp_restart_here(frame->target, (frame->flags & TRP_FRAME_FORCE) == 0, true);
    troupe_error failure =
        trp_failure_last(status, TROUPE_OUTCOME_NOT_EXECUTED, TROUPE_EXECUTED_NO);
    if (trp_message_asked(frame, &message) != TROUPE_OK)
        return;
    if (status == TROUPE_OK)
        trp_message_answer(message, &shape, &(troupe_none){0}, 0);
    else
        trp_message_fail(message, &failure, 0);
    trp_message_free(message);
}
