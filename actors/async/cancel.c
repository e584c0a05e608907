// cancel.c: calls that are cancelled by their callers.
//
// A request finds its call in one of three places. Running: the method is told, and the caller has
// its answer at once. In the mailbox, which cannot be searched: a tombstone stops it from being
// run, and a marker sent through the mailbox behind it says when the tombstone can go. Ended: its
// answer is on the way before ours, which is therefore ignored.
//
// The thread that runs a message writes actor->running and then reads actor->cancels; the one that
// cancels does the reverse. So one of the two sees the other (fence.h), and what is running stays
// there while it is looked at.
#include <actors/async/cancel.h>

#include <actors/actor/actor.h>
#include <actors/actor/death_record.h>
#include <actors/actor/reply.h>
#include <actors/actor/task_executor.h>
#include <actors/async/async.h>
#include <actors/async/concurrency_group.h>
#include <actors/async/defer.h>
#include <actors/async/stream_reader.h>
#include <actors/async/stream_writer.h>
#include <actors/async/urgent.h>
#include <actors/class/call_error.h>
#include <actors/ref/call_table.h>
#include <actors/ref/timer.h>
#include <runtime/base/attributes.h>
#include <runtime/base/clock.h>
#include <runtime/base/fence.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <runtime/base/thread.h>
#include <runtime/link/peer.h>
#include <runtime/node/node_client.h>
#include <runtime/node/server_stop.h>
#include <runtime/shm/process_table.h>
#include <runtime/shm/segment_guard.h>
#include <signal.h>
#include <troupe/async.h>
#include <unistd.h>

bool (*trp_cancel_joined)(uint64_t call, const troupe_cancel_options *how, troupe_status *status);

// Calls from other nodes that are given up while they wait in one mailbox; more are run all the
// same.
enum { FAR_TOMBSTONES_MAX = 4096 };

// ---- in the actor's process: by who runs its messages

// Of one that was taken out of the list. With the lock held.
static void count_out(trp_actor *actor, trp_async *async, const trp_tombstone *stone)
{
    async->far_tombstones -= stone->caller.remote && trp_process_is_far(stone->caller.process);
    atomic_fetch_sub(&actor->cancels, 1);
}

bool trp_cancel_buried(trp_async *async, const trp_message *message)
{
    trp_tombstone *stone = message->call != 0 ? async->tombstones : NULL;
    while (stone != NULL && !trp_caller_is(&stone->caller, message))
        stone = stone->next;
    return stone != NULL;
}

void trp_cancel_handed(trp_async *async)
{
    async->handed++;
}

// One that was handed is not any more. Then no tombstone whose marker has come is needed. With the
// lock held.
static void unhand(trp_actor *actor, trp_async *async)
{
    if (--async->handed > 0)
        return;
    for (trp_tombstone **at = &async->tombstones; *at != NULL;) {
        trp_tombstone *stone = *at;
        if (!stone->passed) {
            at = &stone->next;
            continue;
        }
        *at = stone->next;
        count_out(actor, async, stone);
        trp_free(stone);
    }
}

void trp_cancel_dropped(trp_actor *actor)
{
    trp_async *async = atomic_load(&actor->async);
    pthread_mutex_lock(&async->lock);
    unhand(actor, async);
    pthread_mutex_unlock(&async->lock);
}

// Of one that was taken before its actor was killed (async/abandon_running.c), and would begin
// after that.
static void refuse(const trp_running *here)
{
    troupe_error failure = trp_actor_obituary(trp_actor_id(here->actor));
    trp_message_fail(here->message, &failure, 0);
}

// Of a method that runs beside the turn, at an actor that has its async.
bool trp_cancel_enter_beside(trp_running *here)
{
    trp_async *async = atomic_load(&here->actor->async);
    pthread_mutex_lock(&async->lock);
    bool buried = trp_cancel_buried(async, here->message), killed = async->killed;
    unhand(here->actor, async);
    if (!buried && !killed) {
        here->next = async->runs;
        here->link = &async->runs;
        if (here->next != NULL)
            here->next->link = &here->next;
        async->runs = here;
    }
    pthread_mutex_unlock(&async->lock);
    if (killed && !buried)
        refuse(here);
    return !buried && !killed;
}

void trp_cancel_leave_beside(trp_running *here)
{
    trp_async *async = atomic_load(&here->actor->async);
    pthread_mutex_lock(&async->lock);
    *here->link = here->next;
    if (here->next != NULL)
        here->next->link = here->link;
    pthread_mutex_unlock(&async->lock);
}

// Calls in its mailbox may have been cancelled.
// As a turn does when the method is over.
static void leave(trp_running *here)
{
    trp_fence_store(&here->actor->running, NULL);
    if (atomic_load_explicit(&here->actor->cancels, memory_order_acquire) != 0)
        trp_cancel_leave_late(here->actor);
}

bool trp_cancel_enter_late(trp_running *here)
{
    trp_async *async = atomic_load(&here->actor->async); // Made before `cancels` was raised.
    pthread_mutex_lock(&async->lock);
    bool buried = trp_cancel_buried(async, here->message), killed = async->killed;
    pthread_mutex_unlock(&async->lock);
    if (killed && !buried)
        refuse(here);
    if (buried || killed)
        leave(here);
    return !buried && !killed;
}

// Somebody may be looking at what ran.
void trp_cancel_leave_late(trp_actor *actor)
{
    trp_async *async = atomic_load(&actor->async);
    pthread_mutex_lock(&async->lock);
    pthread_mutex_unlock(&async->lock);
}

void trp_cancel_passed(trp_actor *actor, uint64_t serial)
{
    trp_async *async = atomic_load(&actor->async);
    trp_tombstone *passed = NULL;
    if (async == NULL)
        return;
    pthread_mutex_lock(&async->lock);
    for (trp_tombstone **at = &async->tombstones; *at != NULL; at = &(*at)->next) {
        if ((*at)->serial == serial && async->handed > 0) {
            (*at)->passed = true;
            break;
        }
        if ((*at)->serial == serial) {
            passed = *at;
            *at = passed->next;
            count_out(actor, async, passed);
            break;
        }
    }
    pthread_mutex_unlock(&async->lock);
    trp_free(passed);
}

// ---- in the actor's process: by who cancels

// The running method of that call, or NULL. With the lock held, and `cancels` raised.
static trp_running *find_running(trp_actor *actor, const trp_caller *caller)
{
    trp_running *running = atomic_load(&actor->running); // Pairs with trp_fence_store.
    trp_async *async = atomic_load(&actor->async);
    for (trp_running *it = async->runs; it != NULL; it = it->next)
        if (trp_caller_is(caller, it->message))
            return it;
    return running != NULL && trp_caller_is(caller, running->message) ? running : NULL;
}

const char *trp_running_name(trp_actor *actor, uint64_t id)
{
    trp_async *async = trp_async_of(actor);
    const char *name = NULL;
    if (async == NULL)
        return NULL;
    pthread_mutex_lock(&async->lock);
    atomic_fetch_add(&actor->cancels, 1); // What runs stays until the lock is let go.
    trp_fence_heavy();
    const trp_running *running = atomic_load(&actor->running);
    const trp_message *message = running != NULL ? running->message : NULL;
    if (message != NULL && message->method != NULL && message->target == id)
        name = message->method->row->name;
    atomic_fetch_sub(&actor->cancels, 1);
    pthread_mutex_unlock(&async->lock);
    return name;
}

typedef enum found { BURIED, RUNS, LEFT } found;

// Buries the call if it does not run; then *marker (0: there is none) is to be sent. If it RUNS,
// `cancels` stays raised until tell_running. LEFT: it waits, and there is no room for a tombstone.
static found bury(trp_actor *actor, bool open, const trp_caller *caller, uint64_t *marker)
{
    static _Atomic uint64_t serials;
    trp_async *async = atomic_load(&actor->async);
    trp_tombstone *stone = trp_alloc(sizeof *stone);
    *marker = 0;
    pthread_mutex_lock(&async->lock);
    atomic_fetch_add(&actor->cancels, 1);
    trp_fence_heavy();
    bool deferred = trp_deferral_cancel(async, caller);
    bool far = caller->remote && trp_process_is_far(caller->process);
    bool room = stone != NULL && (!far || async->far_tombstones < FAR_TOMBSTONES_MAX);
    bool running = find_running(actor, caller) != NULL || deferred;
    trp_message *waits = running || !open ? NULL : trp_lanes_cancel(actor, caller);
    bool left = !running && waits == NULL && !room;
    if (waits != NULL || left) {
        atomic_fetch_sub(&actor->cancels, 1);
    } else if (!running) {
        *marker = atomic_fetch_add(&serials, 1) + 1;
        *stone = (trp_tombstone){.next = async->tombstones, .caller = *caller, .serial = *marker};
        async->tombstones = stone;
        async->far_tombstones += far;
        stone = NULL;
    }
    pthread_mutex_unlock(&async->lock);
    trp_free(stone);
    trp_message_free(waits);
    return left ? LEFT : running ? RUNS : BURIED;
}

// Only after the caller has been answered: a method that hears of it could answer before that.
static void tell_running(trp_actor *actor, trp_async *async, const trp_caller *caller)
{
    pthread_mutex_lock(&async->lock);
    trp_running *running = find_running(actor, caller);
    if (running != NULL)
        atomic_store_explicit(&running->cancelled, true, memory_order_relaxed); // A hint.
    if (running != NULL)
        trp_maker_wake(running);
    atomic_fetch_sub(&actor->cancels, 1);
    pthread_mutex_unlock(&async->lock);
}

static void send_marker(trp_actor *actor, uint64_t id, uint64_t serial)
{
    trp_message *marker = trp_message_create(TRP_MESSAGE_MARKER, 0);
    if (marker != NULL && (marker->extra = trp_alloc(sizeof *marker->extra)) == NULL) {
        trp_message_free(marker);
        marker = NULL;
    }
    if (marker == NULL)
        return; // The tombstone stays as long as the actor.
    marker->extra->serial = serial;
    trp_actor_deliver(actor, id, marker);
}

// The process is killed with a reason that its callers are told; failing that, without one.
static void *end_process(void *unused)
{
    (void)unused;
    (void)trp_node_kill(trp_home_here.process, trp_home_here.incarnation,
                        "was killed: a call that it ran was cancelled by force");
    (void)kill(getpid(), SIGKILL);
    return NULL;
}

void trp_cancel_call(trp_actor *actor, uint64_t id, const trp_caller *caller, bool force)
{
    pthread_t thread;
    uint64_t marker = 0;
    bool guest = trp_guest_enter(actor); // What it has is not freed meanwhile if it is open now.
    static const char *const words[] = {
        [BURIED] = "the call was cancelled before it was run",
        [RUNS] = "the call was cancelled while its method ran",
        [LEFT] = "the call was cancelled while it waited, and may be run: no room to note that",
    };
    found how = guest ? bury(actor, trp_actor_is_open(actor, id), caller, &marker) : RUNS;
    bool running = how == RUNS;
    // Then the death of the process ends the call: whoever has heard that it was given up finds the
    // process dead, and the actor's next start instead, if there is one.
    bool dies = running && force && actor->pinned &&
                trp_thread_start(&thread, "troupe-end", end_process, NULL) == TROUPE_OK;
    if (!dies) {
        troupe_error failure = trp_failure(
            TROUPE_CANCELLED, TROUPE_OUTCOME_CANCELLED,
            how == BURIED ? TROUPE_EXECUTED_NO : TROUPE_EXECUTED_MAYBE, "%s", words[how]);
        trp_caller_fail(caller, &failure, id);
    }
    if (marker != 0)
        send_marker(actor, id, marker);
    else if (dies && guest)
        atomic_fetch_sub(&actor->cancels, 1); // The method, which could answer, is not told.
    else if (running && guest)
        tell_running(actor, atomic_load(&actor->async), caller);
    if (guest)
        trp_guest_leave(actor);
    if (dies)
        pthread_detach(thread);
}

// As trp_cancel_call, of a task that is left alone if it runs: it has deferred no answer.
static void take_back(trp_actor *actor, uint64_t id, const trp_caller *caller)
{
    uint64_t marker = 0;
    if (!trp_guest_enter(actor))
        return;
    found how = bury(actor, trp_actor_is_open(actor, id), caller, &marker);
    if (how == RUNS)
        atomic_fetch_sub(&actor->cancels, 1); // Nobody is told.
    trp_guest_leave(actor);
    if (how != BURIED)
        return;
    troupe_error failure =
        trp_failure(TROUPE_CANCELLED, TROUPE_OUTCOME_CANCELLED, TROUPE_EXECUTED_NO,
                    "the call was withdrawn before it was run");
    trp_caller_fail(caller, &failure, id);
    if (marker != 0)
        send_marker(actor, id, marker);
}

void trp_cancel_serve(const trp_frame *frame)
{
    trp_caller caller = {.remote = true,
                         .process = frame->from,
                         .incarnation = frame->from_incarnation,
                         .call = frame->call};
    uint64_t id;
    trp_actor *actor = trp_target_of(frame->target, &caller, &id);
    if (actor == NULL)
        return; // All calls to it have ended.
    if ((frame->flags & TRP_FRAME_GENTLE) != 0)
        take_back(actor, id, &caller);
    else
        trp_cancel_call(actor, id, &caller, (frame->flags & TRP_FRAME_FORCE) != 0);
}

bool troupe_cancelled(void)
{
    trp_running *here = trp_run_current();
    if (here == NULL || here->message == NULL)
        return false;
    int64_t deadline_ns = here->message->deadline_ns;
    return atomic_load_explicit(&here->cancelled, memory_order_relaxed) ||
           (deadline_ns != 0 && trp_clock_ns() >= deadline_ns);
}

// ---- in the caller's process

bool trp_cancel_may_force(uint32_t process, uint64_t incarnation)
{
    if (!trp_process_running() || process >= TRP_PROCESSES_MAX)
        return false;
    TRP_USE_SEGMENT(false);
    const trp_process_row *row = trp_segment_process(process);
    return incarnation != trp_home_here.incarnation && row->incarnation == incarnation &&
           row->isolated != 0;
}

static troupe_status send_cancel(uint64_t call, const trp_target *target, bool force)
{
    trp_frame frame = {.kind = TRP_FRAME_CANCEL,
                       .target = target->actor,
                       .call = call,
                       .flags = force ? TRP_FRAME_FORCE : 0};
    troupe_status status = trp_process_send(target->process, target->incarnation, &frame, 0);
    return status == TROUPE_NOT_EXECUTED ? TROUPE_OK : status; // Its death ends the call.
}

void trp_cancel_waiting(uint64_t call, troupe_actor at)
{
    trp_frame frame = {
        .kind = TRP_FRAME_CANCEL, .target = at.id, .call = call, .flags = TRP_FRAME_GENTLE};
    (void)trp_process_send(at.process, at.incarnation, &frame, 0); // If not, it stays there.
}

void trp_cancel_overdue(uint64_t call, const trp_target *target)
{
    if (send_cancel(call, target, true) != TROUPE_OK)
        trp_log(TRP_WARN, "a process whose call is overdue could not be told: %s",
                troupe_last_error()->text);
}

static void cancel_here(uint64_t call, const trp_target *target)
{
    trp_caller caller = {.call = call};
    uint64_t id;
    trp_actor *actor = trp_target_of(target->actor, &caller, &id);
    if (actor != NULL) {
        trp_cancel_call(actor, id, &caller, false);
        return;
    }
    bool nobody = trp_target_is_none(target);
    troupe_error failure = trp_failure(TROUPE_CANCELLED, TROUPE_OUTCOME_CANCELLED,
                                       nobody ? TROUPE_EXECUTED_NO : TROUPE_EXECUTED_MAYBE,
                                       nobody ? "the call was cancelled between two attempts"
                                              : "the call was cancelled when its actor had ended");
    trp_failure_target(&failure, target);
    (void)trp_entry_fail(call, &failure);
}

static troupe_status ended(void)
{
    return troupe_fail(TROUPE_NOT_FOUND, "the call had ended already, there is nothing to cancel");
}

troupe_status troupe_cancel_with(troupe_ref ref, const troupe_cancel_options *how)
{
    troupe_cancel_options taken;
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_cancel", taken, how));
    uint64_t call = trp_entry_behind(ref);
    if ((call & TRP_REF_OBJECT) != 0)
        return troupe_fail(TROUPE_INVALID, "the reference is to an object: only calls can be "
                                           "cancelled, by the process that made them");
    troupe_status parts;
    if (trp_cancel_joined(call, &taken, &parts))
        return parts;
    trp_entry *entry = trp_entry_lock(call);
    if (entry == NULL) // 0 among them.
        return troupe_fail(TROUPE_INVALID, "the reference is empty or stale");
    bool done = entry->done;
    uint64_t whole = done ? 0 : entry->part_of;
    trp_target target = entry->target;
    bool here = target.incarnation == trp_home_here.incarnation;
    trp_retry *retry = done ? NULL : entry->retry;
    bool kept = retry != NULL && retry->give_up != NULL && retry->give_up(retry);
    bool refused = !done && whole == 0 && !kept && taken.force && target.actor != 0 &&
                   !trp_cancel_may_force(target.process, target.incarnation);
    if (!done && !refused && whole == 0)
        entry->cancelled = true;
    trp_entry_unlock(entry);
    if (done || (whole != 0 && trp_entry_behind((troupe_ref){.id = whole}) == 0))
        return ended();
    if (whole != 0)
        return troupe_cancel_with((troupe_ref){.id = whole}, how);
    if (refused)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "only an actor with a process of its own can be cancelled by force; "
                           "actor %.40s#%llu shares the process %d with others",
                           target.class_name != NULL ? target.class_name : "",
                           (unsigned long long)target.actor, trp_process_pid(target.process));
    if (kept) {
        troupe_error failure =
            trp_failure(TROUPE_CANCELLED, TROUPE_OUTCOME_CANCELLED, TROUPE_EXECUTED_NO,
                        "the task was cancelled while it waited for resources");
        (void)trp_entry_fail(call, &failure);
        return TROUPE_OK;
    }
    if (!here)
        return send_cancel(call, &target, taken.force);
    cancel_here(call, &target);
    return TROUPE_OK;
}

// ---- deadlines

static bool is_open(uint64_t call)
{
    trp_entry *entry = trp_entry_lock(call);
    bool pending = entry != NULL && !entry->done;
    if (entry != NULL)
        trp_entry_unlock(entry);
    return pending;
}

static void time_out(uint64_t call)
{
    trp_entry *entry = trp_entry_lock(call);
    if (entry == NULL)
        return;
    bool pending = !entry->done && !entry->sending, started = entry->started;
    bool force = entry->force;
    trp_target target = entry->target;
    entry->expired = true; // If it has not started, it will not.
    trp_entry_unlock(entry);
    if (!pending)
        return;
    troupe_error failure = trp_failure(
        TROUPE_DEADLINE_EXCEEDED, TROUPE_OUTCOME_DEADLINE_EXCEEDED,
        started ? TROUPE_EXECUTED_MAYBE : TROUPE_EXECUTED_NO,
        started ? "the deadline of a call passed before it was answered; it may have been executed"
                : "the deadline of a call passed before it could be run");
    trp_failure_target(&failure, &target);
    (void)trp_entry_fail(call, &failure);
    if (force && !trp_target_is_none(&target))
        trp_cancel_overdue(call, &target);
}

bool trp_call_expire_at(int64_t deadline_ns, uint64_t call)
{
    static const trp_timer_kind kind = {.ring = time_out, .pending = is_open};
    return trp_timer_at(deadline_ns, &kind, call);
}
