// actor.c: see actor.h: what happens to an actor of this process from its creation to its last
// turn.
#include <actors/actor/actor.h>

#include <actors/actor/actor_name.h>
#include <actors/actor/async_hooks.h>
#include <actors/actor/backpressure.h>
#include <actors/actor/death_record.h>
#include <actors/actor/invoke.h>
#include <actors/actor/lifecycle.h>
#include <actors/actor/main_thread.h>
#include <actors/actor/method_stats.h>
#include <actors/actor/reply.h>
#include <actors/actor/restart_in_place.h>
#include <actors/actor/spawn_resources.h>
#include <actors/actor/task_executor.h>
#include <actors/actor/wait_text.h>
#include <actors/class/call_error.h>
#include <actors/sched/sender_yield.h>
#include <actors/sched/wait_notes.h>
#include <runtime/base/attributes.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/slow.h>
#include <runtime/host/debug_wait.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    TURN = 100, // Messages.
};

trp_home trp_home_here;

static _Thread_local trp_runnable *_Atomic turning; // The actor whose turn this thread runs.

// ---- beginnings

static bool set_name(trp_actor *actor, const char *name)
{
    trp_actor_extra *extra = name != NULL ? trp_actor_extend(actor) : NULL;
    if (extra != NULL)
        extra->name = trp_strdup(name);
    return name == NULL || (extra != NULL && extra->name != NULL);
}

trp_actor_extra *trp_actor_extend(trp_actor *actor)
{
    if (actor->extra == NULL) {
        trp_actor_extra *extra = trp_alloc(sizeof *extra);
        pthread_mutex_lock(trp_slot_lock(actor->index));
        actor->extra = extra;
        pthread_mutex_unlock(trp_slot_lock(actor->index));
    }
    return actor->extra;
}

static void free_parts(trp_actor *actor)
{
    trp_actor_extra *extra = actor->extra;
    if (extra != NULL) {
        trp_free(extra->name);
        trp_async_here.lanes_free(extra->lanes);
        trp_free(extra);
        actor->extra = NULL;
    }
    if (actor->self != actor->small)
        trp_free(actor->self);
    actor->self = NULL;
}

trp_actor *trp_actor_create(const trp_class *class_, const char *name, uint32_t mailbox_max,
                            bool pinned)
{
    trp_actor *actor = trp_slot_take();
    if (actor == NULL)
        goto no_memory;
    size_t size = class_->row->size;
    if (size <= sizeof actor->small)
        actor->self = memset(actor->small, 0, sizeof actor->small);
    else
        actor->self = trp_alloc(size);
    atomic_store_explicit(&actor->class_, class_, memory_order_relaxed);
    if (actor->self == NULL || !set_name(actor, name))
        goto no_memory;
    atomic_store_explicit(&actor->pinned, pinned, memory_order_relaxed);
    if (pinned)
        trp_scheduler_leave(&actor->run);
    atomic_store_explicit(&actor->waits_for, 0, memory_order_relaxed);
    atomic_store_explicit(&actor->calls, 0, memory_order_relaxed);
    atomic_store_explicit(&actor->restarts, 0, memory_order_relaxed);
    atomic_store_explicit(&actor->run.cpu_ns, 0, memory_order_relaxed);
    actor->executor = false;
    actor->saves = false;
    actor->ready = false;
    actor->concurrent = false;
    if (mailbox_max == 0)
        mailbox_max = TRP_MAILBOX_DEFAULT_MAX;
    trp_mailbox_open(&actor->run.mailbox,
                     mailbox_max < TRP_MAILBOX_LIMIT_MAX ? mailbox_max : TRP_MAILBOX_LIMIT_MAX);
    return actor;

no_memory:
    if (actor != NULL)
        trp_actor_discard(actor);
    (void)troupe_fail(TROUPE_NO_MEMORY, "no memory for an actor of class '%s'", class_->row->name);
    return NULL;
}

void trp_actor_refuse(trp_actor *actor, trp_message *message, const troupe_error *failure)
{
    trp_message_left(message);
    if (message->kind == TRP_MESSAGE_MARKER)
        trp_async_here.passed(actor, message->extra->serial);
    trp_message_fail(message, failure, 0);
    trp_message_free(message);
}

// Answers what was in the mailbox of the actor with that id. Who sent late meant its predecessor.
static void refuse_all(trp_actor *actor, uint64_t id, trp_link *first)
{
    if (first == NULL)
        return;
    troupe_error failure = trp_actor_obituary(id);
    for (trp_link *link = first, *next; link != NULL; link = next) {
        trp_message *message = (trp_message *)link;
        next = trp_link_next(link);
        trp_mailbox_return(&actor->run.mailbox, message->weight);
        if (message->target == id) {
            trp_actor_refuse(actor, message, &failure);
        } else {
            troupe_error other = trp_actor_obituary(message->target);
            trp_actor_refuse(actor, message, &other);
        }
    }
}

void trp_actor_discard(trp_actor *actor)
{
    bool idle;
    uint64_t id = trp_actor_id(actor);
    pthread_mutex_lock(trp_slot_lock(id));
    trp_link *left = trp_mailbox_close(&actor->run.mailbox, true, &idle);
    pthread_mutex_unlock(trp_slot_lock(id));
    refuse_all(actor, id, left);
    trp_mailbox_wake(&actor->run.mailbox);
    free_parts(actor);
    trp_slot_give(actor);
}

void trp_actor_enter(trp_actor *actor)
{
    // Pairs with the look of whoever got the id.
    atomic_store_explicit(&actor->phase, trp_phase_of(trp_actor_id(actor), TRP_ACTOR_OPEN),
                          memory_order_release);
}

trp_actor *trp_actor_find(uint64_t id)
{
    trp_actor *actor = trp_slot_of(id);
    if (actor == NULL)
        return NULL;
    uint64_t phase = atomic_load_explicit(&actor->phase, memory_order_acquire);
    trp_actor_state state = trp_phase_state(phase);
    bool there =
        phase == trp_phase_of(id, state) && state != TRP_ACTOR_NONE && state != TRP_ACTOR_GONE;
    return there ? actor : NULL;
}

troupe_actor trp_actor_address(const trp_actor *actor)
{
    return (troupe_actor){.id = trp_actor_id(actor),
                          .incarnation = trp_home_here.incarnation,
                          .process = trp_home_here.process};
}

bool trp_actor_is_open(trp_actor *actor, uint64_t id)
{
    return atomic_load_explicit(&actor->phase, memory_order_acquire) ==
           trp_phase_of(id, TRP_ACTOR_OPEN);
}

// ---- ends

void trp_actor_schedule(trp_actor *actor)
{
    if (!atomic_load_explicit(&actor->pinned, memory_order_relaxed))
        trp_scheduler_push(&actor->run);
    else if (trp_scheduler_over())
        trp_actor_abandon(actor);
    else
        trp_stage_push(actor);
}

// Of an isolated one that was killed where no process ends with it: what that end would do at once,
// its method runs on. By a guest.
static void end_at_once(trp_actor *actor, uint64_t id)
{
    trp_async_here.give_up_running(actor, id, true);
    if (atomic_load(&actor->ready)) { // Else its init may be giving them back.
        trp_actor_unname(actor);
        trp_need_release(actor);
    }
    trp_life_finish(actor);
}

bool trp_actor_close(trp_actor *actor, uint64_t id, trp_actor_state state,
                     const troupe_error *failure)
{
    bool pinned = atomic_load(&actor->pinned),
         own = atomic_load_explicit(&turning, memory_order_relaxed) == &actor->run, idle = false;
    trp_actor_extra *extra = failure != NULL ? trp_actor_extend(actor) : NULL;
    if (extra != NULL) { // Only init fails an actor, and it runs once.
        extra->failure = *failure;
        extra->failed = true;
    }
    // If its own method did, that ends, and the process in order.
    bool by_force = state == TRP_ACTOR_KILLED && pinned && trp_run_actor() != actor;
    bool guest = by_force && trp_process_is_local() && trp_async_here.guest_enter(actor);
    uint64_t open = trp_phase_of(id, TRP_ACTOR_OPEN);
    if (!atomic_compare_exchange_strong(&actor->phase, &open, trp_phase_of(id, state))) {
        if (guest)
            trp_async_here.guest_leave(actor);
        return false;
    }
    if (by_force)
        trp_stage_killed();
    if (state == TRP_ACTOR_KILLED && trp_life_has(actor))
        trp_policy_end(actor, id);
    trp_link *left = NULL, *in_lanes = NULL;
    pthread_mutex_lock(trp_slot_lock(id));
    if (trp_actor_find(id) != NULL) { // Its last turn may have been faster.
        left = trp_mailbox_close(&actor->run.mailbox, own, &idle);
        in_lanes = trp_async_here.lanes_close(actor);
    }
    pthread_mutex_unlock(trp_slot_lock(id));
    refuse_all(actor, id, in_lanes);
    refuse_all(actor, id, left);
    trp_mailbox_wake(&actor->run.mailbox);
    if (guest) {
        end_at_once(actor, id);
        trp_async_here.guest_leave(actor);
    }
    if (idle)
        trp_actor_schedule(actor); // For its last turn.
    return true;
}

// Of a killed actor no deinit runs, since its state may be in the middle of anything.
static void discard(trp_actor *actor)
{
    const trp_class *class_ = actor->class_;
    if (class_->discard != NULL && actor->ready)
        class_->discard(actor->self);
}

// The last turn: nothing runs in the actor any more, and nothing will. By who has it.
static void finish(trp_actor *actor)
{
    uint64_t id = trp_actor_id(actor);
    trp_actor_state state = trp_phase_state(atomic_load(&actor->phase));
    bool pinned = atomic_load(&actor->pinned), idle;
    refuse_all(actor, id, trp_async_here.lanes_close(actor));
    if (!trp_async_here.guests_gone(actor))
        return; // The last of them has it take this turn again.
    if (state == TRP_ACTOR_ENDED || state == TRP_ACTOR_STOPPED)
        trp_run_deinit(actor);
    else
        discard(actor);
    trp_actor_unname(actor);
    trp_need_release(actor);
    trp_async_here.finish(actor);
    trp_actor_bury(actor, id, state);
    if (trp_measuring())
        trp_measure_life(actor, "end");
    trp_life_finish(actor); // Whoever finds it gone can learn why.
    if (actor->executor)
        trp_executor_end(actor);
    pthread_mutex_lock(trp_slot_lock(id));
    trp_link *left = trp_mailbox_close(&actor->run.mailbox, true, &idle);
    free_parts(actor);
    atomic_store(&actor->phase, trp_phase_of(id, TRP_ACTOR_GONE));
    pthread_mutex_unlock(trp_slot_lock(id));
    trp_life_free(actor);
    refuse_all(actor, id, left);
    trp_mailbox_wake(&actor->run.mailbox);
    trp_pressure_end(actor, id);
    trp_slot_give(actor);
    if (pinned)
        trp_stage_gone();
}

void trp_actor_abandon(trp_actor *actor)
{
    uint64_t open = trp_phase_of(trp_actor_id(actor), TRP_ACTOR_OPEN);
    (void)atomic_compare_exchange_strong(&actor->phase, &open,
                                         trp_phase_of(trp_actor_id(actor), TRP_ACTOR_STOPPED));
    finish(actor);
}

// ---- messages

void trp_actor_wake(trp_actor *actor)
{
    if (trp_mailbox_rest(&actor->run.mailbox) != TRP_RESTS)
        trp_actor_schedule(actor);
}

TRP_COLD troupe_status closed(uint64_t id)
{
    troupe_error failure = trp_actor_obituary(id);
    return trp_error_set(&failure);
}

TRP_COLD troupe_status full(trp_actor *actor, uint64_t id, const char *why)
{
    return troupe_fail(TROUPE_BUSY, "the mailbox of actor %s is full: %u messages wait there%s",
                       trp_actor_label(id).text, trp_mailbox_count(&actor->run.mailbox), why);
}

// Waits for room in a mailbox that is full.
TRP_COLD troupe_status wait_for_room(trp_actor *actor, uint64_t id, size_t weight,
                                     int64_t deadline_ns)
{
    if (trp_run_actor() == actor)
        return full(actor, id, ", and only the sender itself could take them out");
    if (deadline_ns == 0)
        return full(actor, id, "");
    deadline_ns = trp_run_until(deadline_ns);
    trp_wait_for(TRP_WAIT_MAILBOX, id, trp_home_here.process);
    TROUPE_TRY(trp_scheduler_block());
    bool room = false, in_time = true;
    trp_slow slow;
    trp_slow_begin(&slow, TRP_SLOW_MAILBOX);
    while (!room && in_time && trp_actor_is_open(actor, id) &&
           !(deadline_ns < 0 && trp_actors_stopping())) {
        if (trp_slow_is_due(&slow))
            trp_slow_tell(&slow, "room in the mailbox of actor %s", trp_actor_label(id).text);
        int64_t until_ns = trp_slow_until(&slow, deadline_ns);
        in_time =
            trp_mailbox_wait(&actor->run.mailbox, weight, until_ns) || until_ns != deadline_ns;
        room = trp_mailbox_reserve(&actor->run.mailbox, weight);
    }
    trp_slow_end(&slow);
    trp_scheduler_unblock();
    if (room)
        return TROUPE_OK;
    return trp_actor_is_open(actor, id) ? full(actor, id, " and none was taken in time")
                                        : closed(id);
}

// False: the actor has ended, and the message is the caller's.
TRP_HOT bool push(trp_actor *actor, uint64_t id, trp_message *message)
{
    size_t weight = message->weight;
    message->target = id;
    trp_measure_pushed(message);
    trp_pushed pushed = trp_mailbox_push(&actor->run.mailbox, &message->link, false);
    // Once pushed, the message may be run and freed at any time.
    if (pushed == TRP_PUSHED_FIRST)
        trp_actor_schedule(actor);
    else if (pushed == TRP_PUSH_REFUSED)
        trp_mailbox_return(&actor->run.mailbox, weight);
    return pushed != TRP_PUSH_REFUSED;
}

troupe_status trp_actor_send(trp_actor *actor, uint64_t id, trp_message *message,
                             int64_t deadline_ns)
{
    troupe_status status = TROUPE_OK;
    if (message->urgent && trp_async_here.urgent_send(actor, id, message, &status))
        return status;
    if (!trp_actor_is_open(actor, id))
        status = closed(id);
    else if (!trp_mailbox_reserve(&actor->run.mailbox, message->weight))
        status = wait_for_room(actor, id, message->weight, deadline_ns);
    if (status == TROUPE_OK && !push(actor, id, message))
        status = closed(id);
    else if (status == TROUPE_OK) {
        if (deadline_ns != 0)
            trp_pause_sent(&actor->run);
        return TROUPE_OK;
    }
    trp_message_free(message);
    return status;
}

bool trp_actor_deliver(trp_actor *actor, uint64_t id, trp_message *message)
{
    troupe_status status;
    if (message->urgent && trp_async_here.urgent_deliver(actor, id, message, &status))
        return status == TROUPE_OK;
    trp_mailbox_reserve_always(&actor->run.mailbox, message->weight);
    if (push(actor, id, message))
        return true;
    troupe_error failure = trp_actor_obituary(id);
    trp_actor_refuse(actor, message, &failure);
    return false;
}

// ---- turns

static bool may_start(troupe_error *failure)
{
    if (trp_starts_refused == NULL)
        return true;
    *failure = *trp_starts_refused;
    return false;
}

TRP_APART void start_actor(trp_actor *actor, trp_message *message)
{
    troupe_error failure;
    uint64_t id = trp_actor_id(actor);
    troupe_actor address = trp_actor_address(actor);
    trp_shape shape = trp_shape_of(&troupe_type_troupe_actor);
    trp_actor_extra *extra = actor->extra;
    if (atomic_load_explicit(&actor->pinned, memory_order_relaxed))
        trp_debug_wait_actor(atomic_load(&actor->class_)->row->name,
                             extra != NULL ? extra->name : NULL);
    bool started = may_start(&failure) && trp_actor_name(actor, &failure) &&
                   trp_run_init(actor, message, &failure);
    if (started) {
        trp_message_answer(message, &shape, &address, id);
    } else {
        trp_actor_unname(actor); // Before the answer: then the name can be used again.
        trp_message_fail(message, &failure, 0);
        (void)trp_actor_close(actor, id, TRP_ACTOR_FAILED, &failure);
    }
    trp_message_free(message);
}

TRP_HOT void run_message(trp_actor *actor, uint64_t id, trp_message *message)
{
    if (message->target != id) {
        troupe_error failure = trp_actor_obituary(message->target);
        trp_actor_refuse(actor, message, &failure);
    } else if (message->kind == TRP_MESSAGE_CALL && actor->concurrent) {
        trp_async_here.lanes_dispatch(actor, message);
    } else if (message->kind == TRP_MESSAGE_CALL) {
        trp_run_call(actor, message);
        if (actor->executor)
            trp_executor_rest(actor);
    } else if (message->kind == TRP_MESSAGE_INIT) {
        start_actor(actor, message);
    } else if (message->kind >= TRP_MESSAGE_MARKER) {
        trp_async_here.run(actor, message);
    } else { // Of a FINISH, the turn goes on with the actor's end.
        uint64_t open = trp_phase_of(id, TRP_ACTOR_OPEN);
        bool ends = message->kind == TRP_MESSAGE_FINISH;
        if (ends && (!actor->concurrent || trp_async_here.lanes_finish(actor)))
            (void)atomic_compare_exchange_strong(&actor->phase, &open,
                                                 trp_phase_of(id, TRP_ACTOR_ENDED));
        trp_message_free(message);
    }
    if (trp_life_has(actor))
        trp_policy_act(actor);
}

static void count_calls(trp_actor *actor, uint32_t count)
{
    uint64_t calls = atomic_load_explicit(&actor->calls, memory_order_relaxed);
    atomic_store_explicit(&actor->calls, calls + count, memory_order_relaxed);
}

static void ease(trp_actor *actor, uint64_t id)
{
    if (atomic_load_explicit(&actor->pressed, memory_order_relaxed))
        trp_pressure_ease(actor, id);
}

static uint32_t turn(trp_actor *actor, uint64_t until, bool *again)
{
    uint64_t id = trp_actor_id(actor), open = trp_phase_of(id, TRP_ACTOR_OPEN);
    uint32_t done = 0, counted = 0;
    // Who waits for `until` can go on, or what ran has put its answer off: a further message is
    // another turn's. Run on top of who waits, it could not wait for that actor itself.
    bool over = until != 0 && trp_entry_ready(until);
    *again = false;
    while (done < TURN) {
        if (atomic_load_explicit(&actor->phase, memory_order_acquire) != open) {
            finish(actor);
            return done;
        }
        if (atomic_load_explicit(&trp_stopping, memory_order_relaxed))
            break; // It stays runnable: trp_actors_finish takes it.
        if (over && trp_mailbox_more(&actor->run.mailbox))
            break;
        trp_message *message = over ? NULL : (trp_message *)trp_mailbox_take(&actor->run.mailbox);
        if (message != NULL) {
            uint64_t call = message->call;
            trp_mailbox_left(&actor->run.mailbox, message->weight);
            ease(actor, id);
            run_message(actor, id, message);
            done++;
            over = until != 0 && (call == until || trp_entry_ready(until));
            continue;
        }
        count_calls(actor, done - counted);
        counted = done;
        if (trp_mailbox_rest(&actor->run.mailbox) == TRP_RESTS) {
            ease(actor,
                 id); // Now it sees that it is pressed, or who says so sees that it is empty.
            return done;
        }
        if (over)
            break;
    }
    count_calls(actor, done - counted);
    *again = true;
    return done;
}

uint32_t trp_actor_turn(trp_actor *actor, uint64_t until, bool *again)
{
    // There is one where this runs on top of a method: see trp_scheduler_help.
    trp_runnable *outer = atomic_load_explicit(&turning, memory_order_relaxed);
    atomic_store_explicit(&turning, &actor->run, memory_order_release);
    uint32_t done = turn(actor, until, again);
    atomic_store_explicit(&turning, outer, memory_order_release);
    return done;
}

// ---- for the scheduler

static uint32_t turn_of(trp_runnable *one, uint64_t until, bool *again)
{
    return trp_actor_turn(trp_actor_of(one), until, again);
}

static void abandon(trp_runnable *one)
{
    trp_actor_abandon(trp_actor_of(one));
}

static trp_runnable *_Atomic *turning_here(void)
{
    return &turning;
}

static trp_runnable *running_here(void)
{
    trp_actor *actor = trp_run_actor();
    return actor != NULL ? &actor->run : NULL;
}

static bool is_fresh(trp_runnable *one)
{
    const trp_actor *actor = trp_actor_of(one);
    return !actor->ready && !actor->executor;
}

static uint64_t id_of(trp_runnable *one)
{
    return trp_actor_id_of(trp_actor_of(one));
}

// "box#3 in box_open", "box#4 in init", "box#5": that one is between two of them.
static void describe(trp_runnable *one, uint64_t id, char *text, size_t capacity)
{
    trp_actor *actor = trp_actor_of(one);
    const char *method = trp_async_here.running_name(actor, id);
    bool open = trp_actor_is_open(actor, id);
    if (method == NULL && !(open && actor->ready))
        method = open ? "init" : "deinit";
    snprintf(text, capacity, "%s%s%.48s", trp_actor_label(id).text, method != NULL ? " in " : "",
             method != NULL ? method : "");
}

static bool waiter_here(uint64_t *id, const char **method)
{
    const trp_running *here = trp_run_current();
    if (here == NULL)
        return false;
    const trp_method *called = here->message != NULL ? here->message->method : NULL;
    *id = trp_actor_id(here->actor);
    *method = called != NULL ? called->row->name : "init";
    return true;
}

const trp_turns trp_actor_turns = {.turn = turn_of,
                                   .abandon = abandon,
                                   .turning = turning_here,
                                   .running = running_here,
                                   .fresh = is_fresh,
                                   .id = id_of,
                                   .describe = describe,
                                   .waiter = waiter_here,
                                   .full = trp_waits_full};

// ---- all of them

void trp_actor_each(void (*see)(const trp_actor_look *look, void *user), void *user)
{
    uint32_t count = trp_slot_count();
    for (uint32_t i = 1; i <= count; i++) {
        trp_actor *actor = trp_slot_of(i);
        pthread_mutex_lock(trp_slot_lock(i));
        uint64_t phase = atomic_load(&actor->phase);
        uint64_t id = phase >> TRP_PHASE_BITS << TRP_SLOT_INDEX_BITS | i;
        if (trp_actor_find(id) != NULL) {
            trp_actor_look look = {.id = id,
                                   .calls = atomic_load(&actor->calls),
                                   .cpu_ns = atomic_load(&actor->run.cpu_ns),
                                   .class_ = actor->class_,
                                   .label = trp_actor_label_locked(actor, id),
                                   .state = trp_phase_state(phase),
                                   .waiting = trp_mailbox_count(&actor->run.mailbox),
                                   .restarts = atomic_load(&actor->restarts),
                                   .blocked = atomic_load(&actor->waits_for) != 0,
                                   .running = !trp_mailbox_idle(&actor->run.mailbox)};
            see(&look, user);
        }
        pthread_mutex_unlock(trp_slot_lock(i));
    }
}

void trp_actors_start(void)
{
    trp_home_here.process = trp_process_slot();
    trp_home_here.incarnation = trp_process_incarnation();
    trp_home_here.pid = getpid();
    if (gethostname(trp_home_here.host, sizeof trp_home_here.host - 1) != 0)
        trp_home_here.host[0] = '\0';
    atomic_store(&trp_stopping, false);
}

void trp_actors_stop_turns(void)
{
    atomic_store(&trp_stopping, true);
}

void trp_actors_close(void)
{
    uint32_t count = trp_slot_used(); // The others' pages have not been touched.
    for (uint32_t i = 1; i <= count; i++) {
        trp_actor *actor = trp_slot_of(i);
        uint64_t phase = atomic_load(&actor->phase);
        if (trp_phase_state(phase) == TRP_ACTOR_OPEN)
            (void)trp_actor_close(actor, phase >> TRP_PHASE_BITS << TRP_SLOT_INDEX_BITS | i,
                                  TRP_ACTOR_STOPPED, NULL);
    }
}

// Those that wait for a turn are ended here, and those that rest. One whose method still runs, or
// that is being made, is ended by that thread as soon as it looks.
void trp_actors_finish(void)
{
    trp_actor *actor;
    for (trp_runnable *one = trp_scheduler_clear(), *next; one != NULL; one = next) {
        next = one->next;
        trp_actor_abandon(trp_actor_of(one));
    }
    while ((actor = trp_stage_clear()) != NULL)
        trp_actor_abandon(actor);
    trp_actors_close();
}

// Never read: see the header.
extern const char *const trp_layer_handlers_linked;
const char *const trp_layer_handlers_linked = &trp_layer_handlers;
