// task.c: the caller's side of tasks: troupe_run, the attempts at a task, and how many may be
// unfinished.
//
// A task is a row of the reference table, like a call, and a record with its arguments that lives
// until the row has ended. An attempt sends the row's call to a worker. The row shows its failures
// to the record first, which may ask for another attempt (resend.c).
//
// All tasks are sent at once, so one worker can run dry while tasks wait in another. A process that
// sees this asks for one of those back: a cancellation that leaves the task alone if it runs
// already. While there are more of them, or some that were sent only just now, a timer looks again.
//
// A task that holds something of its node's is sent when the node has given that, and to an actor
// of its own, which has it: so it is held exactly as long as the function may run, however that
// ends.
#include <actors/task/task.h>

#include <actors/actor/actor.h>
#include <actors/actor/invoke.h>
#include <actors/actor/spawn_resources.h>
#include <actors/actor/task_executor.h>
#include <actors/async/async.h>
#include <actors/async/cancel.h>
#include <actors/class/call_error.h>
#include <actors/ref/leaks.h>
#include <actors/ref/ref.h>
#include <actors/ref/ref_visit.h>
#include <actors/ref/timer.h>
#include <actors/sched/wait_notes.h>
#include <actors/task/resend.h>
#include <actors/task/task_inline.h>
#include <actors/task/worker_load.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <runtime/link/park.h>
#include <runtime/shm/process_table.h>

enum {
    UNFINISHED_MAX = 4096,
    RETRIES_DEFAULT = 3,
    SLICE_MS = 100,       // Of a wait for room, between looks at whether the runtime stops.
    SETTLED_NS = 1000000, // A task that was sent later than this ago is not asked back yet.
};

static struct {
    _Atomic uint32_t unfinished;
    _Atomic uint32_t waiting; // Who waits for room; with `unfinished` as in Dekker's lock.
    _Atomic uint32_t room;    // Changes when they should look again.
} tasks;

// The tasks that have been sent to workers and have not ended.
static struct {
    pthread_mutex_t lock; // Of all that follows.
    trp_task *newest;
    int64_t none_ns; // Until then none is worth being asked back.
    uint64_t looks;  // The start of the runtime whose timer will look; 0: it will not.
} away = {.lock = PTHREAD_MUTEX_INITIALIZER};

// ---- how many

static bool take_room(void)
{
    uint32_t now = atomic_load(&tasks.unfinished);
    while (now < UNFINISHED_MAX)
        if (atomic_compare_exchange_weak(&tasks.unfinished, &now, now + 1))
            return true;
    return false;
}

static void give_room(void)
{
    atomic_fetch_sub(&tasks.unfinished, 1);
    if (atomic_load(&tasks.waiting) == 0)
        return;
    atomic_fetch_add(&tasks.room, 1);
    trp_unpark(&tasks.room, 1);
}

static bool sleep_for_room(int64_t deadline_ns)
{
    bool taken = false;
    atomic_fetch_add(&tasks.waiting, 1);
    for (;;) {
        uint32_t seen = atomic_load(&tasks.room);
        int64_t now = trp_clock_ns(), until_ns = now + SLICE_MS * INT64_C(1000000);
        if ((taken = take_room()) || trp_actors_stopping() ||
            (deadline_ns >= 0 && now >= deadline_ns))
            break;
        trp_park(&tasks.room, seen,
                 deadline_ns >= 0 && deadline_ns < until_ns ? deadline_ns : until_ns);
    }
    atomic_fetch_sub(&tasks.waiting, 1);
    return taken;
}

static troupe_status wait_for_room(uint32_t flags)
{
    int64_t deadline_ns = trp_run_patience(flags);
    bool taken = false;
    if (deadline_ns != 0) {
        trp_wait_for(TRP_WAIT_TASKS, 0, 0);
        TROUPE_TRY(trp_scheduler_block());
        taken = sleep_for_room(trp_run_until(deadline_ns));
        trp_scheduler_unblock();
    }
    return taken ? TROUPE_OK
                 : troupe_fail(TROUPE_BUSY,
                               "%d tasks of this process are unfinished, which is the limit",
                               UNFINISHED_MAX);
}

// ---- one task

void trp_task_release(trp_task *it)
{
    if (atomic_fetch_sub(&it->holds, 1) > 1)
        return;
    const trp_shape *shape = &it->class_->methods[0].args;
    if (it->args != NULL)
        trp_refs_drop(shape, it->args);
    trp_arena_clear(&it->arena);
    trp_allot_free(&it->allot);
    trp_free(it);
}

// ---- where it is

// With the lock held.
static void unlink_away(trp_task *it)
{
    if (it->sent_ns == 0)
        return;
    if (it->newer != NULL)
        it->newer->older = it->older;
    else
        away.newest = it->older;
    if (it->older != NULL)
        it->older->newer = it->newer;
    it->sent_ns = 0;
}

static void note_sent(trp_task *it, troupe_actor to)
{
    pthread_mutex_lock(&away.lock);
    unlink_away(it);
    if (!atomic_load(&it->ended)) { // Else nobody would take it out again.
        it->sent_to = to;
        it->sent_ns = trp_clock_ns();
        it->newer = NULL;
        it->older = away.newest;
        if (it->older != NULL)
            it->older->newer = it;
        away.newest = it;
    }
    pthread_mutex_unlock(&away.lock);
}

// The youngest task of a worker, which has most before it, held; NULL: none is worth it. *look: the
// timer is to look again.
static trp_task *find_waiting(uint64_t worker, troupe_actor *at, bool *look)
{
    int64_t now_ns = trp_clock_ns(), oldest_ns = now_ns;
    pthread_mutex_lock(&away.lock);
    bool may = now_ns >= away.none_ns, more = !may;
    trp_task *it = may ? away.newest : NULL;
    for (; it != NULL; it = it->older) {
        bool its = it->sent_to.incarnation == worker && !it->asked_back;
        oldest_ns = it->asked_back ? oldest_ns : it->sent_ns;
        more = more || its;
        if (its && now_ns - it->sent_ns >= SETTLED_NS)
            break;
    }
    if (it != NULL) {
        it->asked_back = true;
        *at = it->sent_to;
        atomic_fetch_add(&it->holds, 1);
    }
    if (it == NULL && may)
        away.none_ns = oldest_ns + SETTLED_NS;
    *look = more && away.looks != trp_home_here.incarnation;
    if (*look)
        away.looks = trp_home_here.incarnation;
    pthread_mutex_unlock(&away.lock);
    return it;
}

static void send_again(trp_retry *retry);

static void forget_look(void)
{
    pthread_mutex_lock(&away.lock);
    away.looks = 0;
    pthread_mutex_unlock(&away.lock);
}

// If a worker is idle and this one, which is the busiest (0: none), is not, its latest task is
// asked back.
static void ask_back(uint64_t busy)
{
    troupe_actor at;
    bool look = false;
    if (busy == 0 || trp_actors_stopping())
        return;
    trp_task *other = find_waiting(busy, &at, &look);
    if (look && !trp_tasks_look_at(trp_clock_ns() + SETTLED_NS))
        forget_look();
    if (other != NULL) {
        trp_cancel_waiting(other->row, at);
        trp_task_release(other);
    }
}

static void look_again(uint64_t id)
{
    (void)id;
    forget_look();
    ask_back(trp_crew_give(0));
    trp_resend_look(); // Should its actor not have been told.
}

bool trp_tasks_look_at(int64_t at_ns)
{
    static const trp_timer_kind kind = {.ring = look_again};
    return trp_timer_at(at_ns, &kind, 0);
}

// The task's worker has one less to do.
static void leave_worker(trp_task *it)
{
    uint64_t worker = atomic_exchange(&it->worker, 0);
    if (worker != 0)
        ask_back(trp_crew_give(worker));
}

// The row has ended. Runs where that was found out, and must not wait.
static void finish(void *user, troupe_ref ref)
{
    trp_task *it = user;
    (void)ref;
    pthread_mutex_lock(&away.lock);
    atomic_store(&it->ended, true); // Under the lock: note_sent and own come before, or see it.
    unlink_away(it);
    troupe_actor last = it->own;
    pthread_mutex_unlock(&away.lock);
    leave_worker(it);
    if (last.id != 0)
        (void)troupe_actor_end(last);
    if (it->needy && trp_allot_give_up(&it->allot))
        trp_task_release(it); // What the answer would have had.
    give_room();
    trp_task_release(it);
}

// ---- attempts

// Gives the task another actor of its own, and ends the one before, if there was one, or the new
// one, if the task has ended while that was made.
static void own(trp_task *it, troupe_actor fresh)
{
    pthread_mutex_lock(&away.lock);
    troupe_actor needless = it->own;
    if (atomic_load(&it->ended))
        needless = fresh;
    else
        it->own = fresh;
    pthread_mutex_unlock(&away.lock);
    if (needless.id != 0)
        (void)troupe_actor_end(needless);
}

// Ends the actor of the attempt that failed. The call is not in its process any more, whose end
// would be taken for the death of another attempt.
static void leave_own(trp_task *it)
{
    (void)trp_entry_leave(it->row); // One that was cancelled ends when it is to be aimed.
    own(it, (troupe_actor){0});
}

// Makes the actor that runs this one task, with what has been given for it.
static troupe_status spawn_own(trp_task *it, troupe_place place, troupe_actor *to)
{
    troupe_spawn_options how = {.size = sizeof how, .place = place};
    leave_own(it);
    if (it->needy) {
        TROUPE_TRY(trp_allot_take(&it->allot));
        how.gpus = it->gpus;
        how.lifetime = TROUPE_OWNED; // With this process it gives back what it has.
    }
    *to = troupe_spawn_as(it->class_->row, NULL, &how);
    if (it->needy)
        trp_need_bring(0, NULL); // In case the spawn has failed before it looked.
    TROUPE_TRY(troupe_actor_status(*to));
    own(it, *to);
    return TROUPE_OK;
}

static troupe_status choose_worker(trp_task *it, bool may_wait, troupe_actor *to)
{
    troupe_place place = it->place;
    trp_crew_member member;
    if (place == TROUPE_PLACE_ANY)
        place = trp_process_options()->workers < 0 ? TROUPE_PLACE_HERE : TROUPE_PLACE_WORKER;
    if (place == TROUPE_PLACE_ISOLATED || it->needy)
        return spawn_own(it, place, to);
    *to = (troupe_actor){.id = trp_task_target(it->class_),
                         .incarnation = trp_home_here.incarnation,
                         .process = trp_home_here.process};
    if (place == TROUPE_PLACE_HERE)
        return TROUPE_OK;
    TROUPE_TRY(trp_crew_take(may_wait, it->avoid, &member));
    it->avoid = member.incarnation;
    atomic_store(&it->worker, member.incarnation);
    if (atomic_load(&it->ended)) // Its deadline has passed meanwhile.
        leave_worker(it);
    to->incarnation = member.incarnation;
    to->process = member.process;
    if (member.incarnation != trp_home_here.incarnation)
        note_sent(it, *to);
    return TROUPE_OK;
}

// Ends a task that was not sent, with the thread's last error.
static void fail(const trp_task *it, troupe_status status)
{
    troupe_error failure =
        trp_failure_last(status, TROUPE_OUTCOME_NOT_EXECUTED, TROUPE_EXECUTED_NO);
    (void)trp_entry_fail(it->row, &failure);
}

// The node has answered: the task is sent, or fails, where that may wait. The ask's hold goes
// along.
static void note_decided(trp_allot *allot)
{
    trp_task *it = (trp_task *)(void *)((char *)allot - offsetof(trp_task, allot));
    send_again(&it->retry);
}

// Asks the node for what the task holds, after the attempt before has given back what it had.
static void ask_node(trp_task *it)
{
    leave_own(it);
    atomic_fetch_add(&it->holds, 1); // The answer's.
    if (!trp_allot_ask(&it->allot))
        trp_task_release(it);
}

// Sends the task. The caller has a hold.
static void attempt(trp_task *it, bool may_wait)
{
    troupe_actor to;
    if (it->needy && !trp_allot_decided(&it->allot)) {
        ask_node(it);
        return;
    }
    troupe_status status = choose_worker(it, may_wait, &to);
    to.flags = it->flags;
    if (status == TROUPE_OK) {
        trp_call_send(it->row, to, it->class_, it->args, it->deadline_ns);
        return;
    }
    fail(it, status);
}

bool trp_task_worth_another(const trp_task *it, const troupe_error *failure)
{
    if (it->retries == 0 || trp_actors_stopping() || trp_process_ending() || trp_runtime_is_lost())
        return false;
    bool lost = failure->status == TROUPE_NOT_EXECUTED || failure->status == TROUPE_MAYBE_EXECUTED;
    if (failure->outcome == TROUPE_OUTCOME_FAILED)
        return it->retry_errors;
    return lost && (failure->outcome == TROUPE_OUTCOME_NOT_EXECUTED ||
                    failure->outcome == TROUPE_OUTCOME_MAYBE_EXECUTED);
}

// ---- attempts after the first

void trp_task_again(trp_task *it)
{
    leave_worker(it);
    it->flags = 0;
    attempt(it, true);
}

static bool again(trp_retry *retry, const troupe_error *failure)
{
    trp_task *it = (trp_task *)retry;
    bool back = failure->outcome == TROUPE_OUTCOME_CANCELLED &&
                failure->executed == TROUPE_EXECUTED_NO && !trp_actors_stopping() &&
                !trp_runtime_is_lost();
    if (!back && !trp_task_worth_another(it, failure))
        return false;
    if (!back && it->retries > 0)
        it->retries--;
    pthread_mutex_lock(&away.lock);
    unlink_away(it); // Nobody asks for it until it has been sent again.
    it->asked_back = false;
    pthread_mutex_unlock(&away.lock);
    atomic_fetch_add(&it->holds, 1); // The list's.
    return true;
}

// Of one that still waits for what it is to hold.
static bool give_up(trp_retry *retry)
{
    trp_task *it = (trp_task *)retry;
    return it->needy && trp_allot_waits(&it->allot);
}

static void send_again(trp_retry *retry)
{
    trp_resend((trp_task *)retry);
}

// ---- troupe_run

static troupe_status check(const trp_class *class_, const void *args, const troupe_run_options *how)
{
    TROUPE_TRY(trp_process_check());
    if (args == NULL)
        return troupe_fail(TROUPE_INVALID, "task '%s' was run with no arguments: 'args' is NULL",
                           class_->row->name);
    if ((unsigned)how->place > TROUPE_PLACE_ISOLATED)
        return troupe_fail(TROUPE_INVALID, ".place of a task is %d, which is not valid",
                           (int)how->place);
    if (how->gpus != 0 && how->place != TROUPE_PLACE_ANY && how->place != TROUPE_PLACE_ISOLATED)
        return troupe_fail(
            TROUPE_INVALID,
            "a task with .gpus needs a process of its own, since CUDA_VISIBLE_DEVICES is set for a "
            "whole process: expected .place = TROUPE_PLACE_ISOLATED or none");
    return how->retries >= TROUPE_NONE
               ? TROUPE_OK
               : troupe_fail(TROUPE_INVALID,
                             "a task cannot have %d retries: expected 1 or more, 0 (default), "
                             "TROUPE_FOREVER or TROUPE_NONE",
                             how->retries);
}

static trp_task *make_task(const trp_class *class_, const void *args, const troupe_run_options *how)
{
    trp_task *it = trp_alloc(sizeof *it);
    if (it == NULL) {
        (void)troupe_fail(TROUPE_NO_MEMORY, "no memory for a task");
        return NULL;
    }
    it->retry = (trp_retry){.again = again, .send = send_again, .give_up = give_up};
    it->class_ = class_;
    it->holds = 1;
    it->retries = how->retries == 0             ? RETRIES_DEFAULT
                  : how->retries == TROUPE_NONE ? 0
                                                : how->retries; // TROUPE_FOREVER: -1.
    it->retry_errors = how->retry_errors;
    it->place = how->gpus != 0 ? TROUPE_PLACE_ISOLATED : how->place;
    it->gpus = how->gpus;
    it->needy = trp_allot_wanted(how);
    it->flags = how->flags;
    if (how->deadline_ms != 0)
        it->deadline_ns = trp_clock_ns() + (int64_t)how->deadline_ms * 1000000;
    if (trp_args_copy(&class_->methods[0].args, args, &it->arena, &it->args) == TROUPE_OK &&
        (!it->needy ||
         trp_allot_make(how, class_->row->name, note_decided, &it->allot) == TROUPE_OK))
        return it;
    trp_task_release(it);
    return NULL;
}

static void finish_here(void *user, troupe_ref ref)
{
    (void)ref;
    trp_task_release(user);
}

// Makes the row of a task, which has room, and sends it.
static troupe_ref start(trp_task *it, bool at_once, bool may_wait)
{
    uint64_t schema = troupe_type_hash(it->class_->row->methods[0].result);
    trp_target nowhere = {.class_name = it->class_->row->name};
    troupe_ref ref = {trp_entry_call(schema, &nowhere, it->deadline_ns), schema};
    it->row = ref.id;
    if (ref.id == TRP_REF_NO_MEMORY) {
        if (!at_once)
            give_room();
        trp_task_release(it);
        return ref;
    }
    if (!at_once)
        trp_entry_retry(it->row, &it->retry);
    atomic_fetch_add(&it->holds, 1); // This attempt's.
    trp_ref_when(ref, at_once ? finish_here : finish, it);
    if (at_once)
        trp_task_run_here(it);
    else if (it->needy && it->deadline_ns != 0 && !trp_call_expire_at(it->deadline_ns, it->row))
        fail(it, troupe_fail(TROUPE_NO_MEMORY, "no memory for a deadline"));
    else
        attempt(it, may_wait);
    trp_task_release(it);
    return ref;
}

troupe_ref troupe_run_as(const troupe_class *row, const void *args, const troupe_run_options *how)
{
    troupe_run_options taken;
    const trp_class *class_ = trp_class_of(row);
    if (class_ == NULL)
        return trp_call_failed(troupe_last_error()->status);
    troupe_status status = TRP_OPTIONS_TAKE("troupe_run", taken, how);
    if (status == TROUPE_OK)
        status = check(class_, args, &taken);
    bool may = status == TROUPE_OK && taken.place != TROUPE_PLACE_ISOLATED &&
               !trp_allot_wanted(&taken) && trp_executor_runs();
    bool at_once = may && trp_scheduler_crowded();
    bool room = status == TROUPE_OK && !at_once && take_room();
    at_once = at_once || (may && !room);
    if (status == TROUPE_OK && !room && !at_once)
        status = wait_for_room(taken.flags);
    if (status != TROUPE_OK)
        return trp_call_failed(status);
    // What runs here and now has one attempt.
    trp_task *it =
        at_once || trp_resend_start() == TROUPE_OK ? make_task(class_, args, &taken) : NULL;
    if (it != NULL) {
        troupe_ref ref = start(it, at_once, trp_run_patience(taken.flags) != 0);
        TRP_LEAKS_MADE(ref, "troupe_run");
        return ref;
    }
    if (!at_once)
        give_room();
    return trp_call_failed(troupe_last_error()->status);
}
