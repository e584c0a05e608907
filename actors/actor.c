// actor.c: see actor.h: the table of this process's actors, and what happens to one from its
// creation to its last turn.
#include <actors/actor.h>

#include <actors/async.h>
#include <actors/executor.h>
#include <actors/failure.h>
#include <actors/life.h>
#include <actors/ref_table.h>
#include <actors/run.h>
#include <runtime/clock.h>
#include <runtime/error.h>
#include <runtime/fence.h>
#include <runtime/memory.h>
#include <runtime/node.h>
#include <runtime/process.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    BUCKETS = 65536,
    LOCKS = 64,
    TURN = 100,    // Messages.
    GRAVES = 4096, // Of the dead, whose end can still be told.
    KILL_WAIT_MS = 2000,
    KINSHIP_MAX = 64, // Actors that may wait for each other in a row.
};

typedef struct grave {
    uint64_t id;
    char label[64];
    trp_actor_state state;
} grave;

trp_home trp_home_here;

static struct {
    pthread_mutex_t locks[LOCKS]; // Of the buckets, bucket % LOCKS.
    trp_actor *buckets[BUCKETS];
    pthread_mutex_t graves_lock;
    grave *graves;
    _Atomic uint64_t last_id;
    _Atomic bool stopping; // Turns end after the message that runs.
} actors = {.graves_lock = PTHREAD_MUTEX_INITIALIZER};

__attribute__((constructor)) static void make_locks(void)
{
    for (int i = 0; i < LOCKS; i++)
        pthread_mutex_init(&actors.locks[i], NULL);
}

// The main thread of a process with an isolated actor.
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    trp_actor *runnable; // The isolated actor, when it has work.
    bool seen, gone;     // There was one; it has ended.
    bool killed;
} stage = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

// ---- the table

static pthread_mutex_t *lock_of(uint64_t id)
{
    return &actors.locks[id % BUCKETS % LOCKS];
}

trp_actor *trp_actor_create(const trp_class *class_, const char *name, uint32_t mailbox_max,
                            bool pinned)
{
    trp_actor *actor = trp_alloc(sizeof *actor);
    if (actor == NULL)
        goto no_memory;
    actor->self = trp_alloc(class_->row->size);
    if (name != NULL)
        actor->name = trp_strdup(name);
    if (actor->self == NULL || (name != NULL && actor->name == NULL))
        goto no_memory;
    actor->id = atomic_fetch_add(&actors.last_id, 1) + 1;
    actor->class_ = class_;
    actor->pinned = pinned;
    actor->refs = 1; // The table's.
    if (name != NULL)
        snprintf(actor->label, sizeof actor->label, "%.30s '%.29s'", class_->row->name, name);
    else
        snprintf(actor->label, sizeof actor->label, "%.40s#%llu", class_->row->name,
                 (unsigned long long)actor->id);
    if (mailbox_max == 0)
        mailbox_max = TRP_MAILBOX_DEFAULT_MAX;
    trp_mailbox_init(&actor->mailbox,
                     mailbox_max < TRP_MAILBOX_LIMIT_MAX ? mailbox_max : TRP_MAILBOX_LIMIT_MAX);
    actor->mailbox.scheduled = true; // Until trp_actor_wake.
    return actor;

no_memory:
    if (actor != NULL)
        trp_free(actor->self);
    trp_free(actor);
    (void)troupe_fail(TROUPE_NO_MEMORY, "no memory for an actor of class '%s'", class_->row->name);
    return NULL;
}

void trp_actor_enter(trp_actor *actor)
{
    trp_actor **bucket = &actors.buckets[actor->id % BUCKETS];
    pthread_mutex_lock(lock_of(actor->id));
    actor->next = *bucket;
    *bucket = actor;
    pthread_mutex_unlock(lock_of(actor->id));
    if (actor->pinned) {
        pthread_mutex_lock(&stage.lock);
        stage.seen = true;
        pthread_mutex_unlock(&stage.lock);
    }
}

trp_actor *trp_actor_find(uint64_t id)
{
    pthread_mutex_lock(lock_of(id));
    trp_actor *actor = actors.buckets[id % BUCKETS];
    while (actor != NULL && actor->id != id)
        actor = actor->next;
    if (actor != NULL)
        atomic_fetch_add(&actor->refs, 1);
    pthread_mutex_unlock(lock_of(id));
    return actor;
}

void trp_actor_release(trp_actor *actor)
{
    if (atomic_fetch_sub(&actor->refs, 1) > 1)
        return;
    trp_life_free(actor);
    trp_free(actor->failure);
    trp_free(actor->name);
    trp_free(actor->self);
    trp_async_free(actor->async);
    trp_free(actor);
}

static void remove_actor(trp_actor *actor)
{
    pthread_mutex_lock(lock_of(actor->id));
    trp_actor **at = &actors.buckets[actor->id % BUCKETS];
    while (*at != NULL && *at != actor)
        at = &(*at)->next;
    if (*at != NULL)
        *at = actor->next;
    pthread_mutex_unlock(lock_of(actor->id));
}

troupe_actor trp_actor_address(const trp_actor *actor)
{
    return (troupe_actor){.id = actor->id,
                          .incarnation = trp_home_here.incarnation,
                          .process = trp_home_here.process};
}

// ---- ends

void trp_failure_place(troupe_error *failure, const char *label)
{
    snprintf(failure->actor, sizeof failure->actor, "%s", label);
    snprintf(failure->node, sizeof failure->node, "%s", trp_home_here.host);
    failure->process = trp_home_here.pid;
}

static troupe_error describe_end(const char *label, trp_actor_state state)
{
    const char *how = state == TRP_ACTOR_KILLED    ? "was killed"
                      : state == TRP_ACTOR_FAILED  ? "could not be started"
                      : state == TRP_ACTOR_STOPPED ? "ended with the runtime"
                                                   : "has ended";
    troupe_error failure = trp_failure(TROUPE_NOT_EXECUTED, TROUPE_OUTCOME_NOT_EXECUTED,
                                       TROUPE_EXECUTED_NO, "actor %s %s", label, how);
    trp_failure_place(&failure, label);
    return failure;
}

troupe_error trp_actor_obituary(uint64_t id)
{
    trp_actor_state state = TRP_ACTOR_OPEN;
    troupe_error failure = trp_actor_obituary_state(id, &state);
    trp_life_explain_grave(id, &failure);
    return failure;
}

troupe_error trp_actor_obituary_state(uint64_t id, trp_actor_state *state)
{
    grave found = {0};
    pthread_mutex_lock(&actors.graves_lock);
    if (actors.graves != NULL && actors.graves[id % GRAVES].id == id)
        found = actors.graves[id % GRAVES];
    pthread_mutex_unlock(&actors.graves_lock);
    if (found.id != 0) {
        *state = found.state;
        return describe_end(found.label, found.state);
    }
    bool was = id <= atomic_load(&actors.last_id);
    troupe_error failure =
        trp_failure(TROUPE_NOT_EXECUTED, TROUPE_OUTCOME_NOT_EXECUTED, TROUPE_EXECUTED_NO,
                    "actor #%llu of process %u (pid %d) %s", (unsigned long long)id,
                    trp_home_here.process, trp_home_here.pid, was ? "has ended" : "never existed");
    trp_failure_place(&failure, "");
    return failure;
}

troupe_error trp_actor_closed_failure(trp_actor *actor)
{
    int state = atomic_load(&actor->state);
    if (state == TRP_ACTOR_FAILED && actor->failure != NULL) {
        troupe_error failure = *actor->failure;
        failure.outcome = TROUPE_OUTCOME_NOT_EXECUTED;
        failure.executed = TROUPE_EXECUTED_NO;
        return failure;
    }
    troupe_error failure = describe_end(actor->label, (trp_actor_state)state);
    trp_life_explain(actor, &failure);
    return failure;
}

static trp_message *take_message(trp_actor *actor)
{
    trp_message *message = (trp_message *)trp_mailbox_take(&actor->mailbox);
    if (message != NULL)
        trp_mailbox_left(&actor->mailbox, message->weight);
    return message;
}

// Ends everything that waits in the mailbox of a closed actor.
static void empty_mailbox(trp_actor *actor)
{
    troupe_error failure = trp_actor_closed_failure(actor);
    trp_message *message;
    while ((message = take_message(actor)) != NULL) {
        trp_message_left(message);
        trp_message_fail(message, &failure, NULL);
        trp_message_free(message);
    }
    trp_mailbox_wake(&actor->mailbox);
}

// Who kills an isolated actor has its process killed next, which tells all why. If that does not
// come (the killer may have died), the process ends by itself, whatever its actor's method does.
static void *end_process(void *unused)
{
    (void)unused;
    struct timespec wait = {KILL_WAIT_MS / 1000, KILL_WAIT_MS % 1000 * 1000000L};
    while (nanosleep(&wait, &wait) != 0)
        continue;
    (void)kill(getpid(), SIGKILL);
    return NULL;
}

static void note_kill(trp_actor *actor)
{
    pthread_t thread;
    if (!actor->pinned ||
        trp_run_actor() == actor) // Its own method will end, and the process in order.
        return;
    pthread_mutex_lock(&stage.lock);
    stage.killed = true;
    pthread_mutex_unlock(&stage.lock);
    if (trp_thread_create(&thread, "troupe-end", end_process, NULL))
        pthread_detach(thread);
}

static void run_somewhere(trp_actor *actor)
{
    if (!actor->pinned) {
        trp_scheduler_push(actor);
        return;
    }
    pthread_mutex_lock(&stage.lock);
    stage.runnable = actor;
    pthread_cond_signal(&stage.changed);
    pthread_mutex_unlock(&stage.lock);
}

bool trp_actor_close(trp_actor *actor, trp_actor_state state, const troupe_error *failure)
{
    troupe_error *kept = NULL;
    if (failure != NULL && (kept = trp_alloc(sizeof *kept)) != NULL)
        *kept = *failure;
    int open = TRP_ACTOR_OPEN;
    if (failure != NULL) // Only init fails an actor, and it runs once.
        actor->failure = kept;
    if (!atomic_compare_exchange_strong(&actor->state, &open, state))
        return false;
    if (state == TRP_ACTOR_KILLED)
        note_kill(actor);
    empty_mailbox(actor);
    if (!atomic_exchange(&actor->mailbox.scheduled, true))
        run_somewhere(actor); // For its last turn.
    return true;
}

static void bury(trp_actor *actor, trp_actor_state state)
{
    pthread_mutex_lock(&actors.graves_lock);
    if (actors.graves != NULL) {
        grave *mine = &actors.graves[actor->id % GRAVES];
        mine->id = actor->id;
        mine->state = state;
        memcpy(mine->label, actor->label, sizeof mine->label);
    }
    pthread_mutex_unlock(&actors.graves_lock);
}

// The last turn: nothing runs in the actor any more, and nothing will.
static void finish(trp_actor *actor)
{
    trp_actor_state state = (trp_actor_state)atomic_load(&actor->state);
    if (state == TRP_ACTOR_ENDED || state == TRP_ACTOR_STOPPED)
        trp_run_deinit(actor);
    trp_actor_unname(actor);
    trp_async_finish(actor);
    bury(actor, state);
    trp_life_finish(actor); // Whoever does not find it in the table can learn why.
    remove_actor(actor);
    empty_mailbox(actor);
    if (actor->pinned) {
        pthread_mutex_lock(&stage.lock);
        stage.gone = true;
        pthread_cond_signal(&stage.changed);
        pthread_mutex_unlock(&stage.lock);
    }
    trp_actor_release(actor);
}

// ---- messages

void trp_actor_wake(trp_actor *actor)
{
    atomic_fetch_add(&actor->refs, 1); // See trp_actor_turn.
    if (trp_mailbox_rest(&actor->mailbox) || (atomic_load(&actor->state) != TRP_ACTOR_OPEN &&
                                              !atomic_exchange(&actor->mailbox.scheduled, true)))
        run_somewhere(actor);
    trp_actor_release(actor);
}

static void push(trp_actor *actor, trp_message *message)
{
    // Once pushed, the message may be run and freed at any time.
    if (trp_mailbox_push(&actor->mailbox, &message->link))
        run_somewhere(actor);
    if (atomic_load(&actor->state) != TRP_ACTOR_OPEN)
        empty_mailbox(actor);
}

static troupe_status closed(trp_actor *actor)
{
    troupe_error failure = trp_actor_closed_failure(actor);
    return trp_error_set(&failure);
}

static troupe_status full(trp_actor *actor, const char *why)
{
    return troupe_fail(TROUPE_BUSY, "the mailbox of actor %s is full: %u messages wait there%s",
                       actor->label, trp_mailbox_count(&actor->mailbox), why);
}

// Waits for room in a mailbox that is full.
static troupe_status wait_for_room(trp_actor *actor, size_t weight, int64_t deadline_ns)
{
    if (trp_run_actor() == actor)
        return full(actor, ", and only the sender itself could take them out");
    if (deadline_ns == 0)
        return full(actor, "");
    deadline_ns = trp_run_until(deadline_ns);
    TROUPE_TRY(trp_scheduler_block());
    bool room = false, in_time = true;
    while (!room && in_time && atomic_load(&actor->state) == TRP_ACTOR_OPEN &&
           !(deadline_ns < 0 && atomic_load(&actors.stopping))) {
        in_time = trp_mailbox_wait(&actor->mailbox, weight, deadline_ns);
        room = trp_mailbox_reserve(&actor->mailbox, weight);
    }
    trp_scheduler_unblock();
    if (room)
        return TROUPE_OK;
    return atomic_load(&actor->state) != TRP_ACTOR_OPEN
               ? closed(actor)
               : full(actor, " and none was taken in time");
}

troupe_status trp_actor_send(trp_actor *actor, trp_message *message, int64_t deadline_ns)
{
    troupe_status status = TROUPE_OK;
    if (atomic_load(&actor->state) != TRP_ACTOR_OPEN)
        status = closed(actor);
    else if (!trp_mailbox_reserve(&actor->mailbox, message->weight))
        status = wait_for_room(actor, message->weight, deadline_ns);
    if (status == TROUPE_OK)
        push(actor, message);
    else
        trp_message_free(message);
    return status;
}

void trp_actor_deliver(trp_actor *actor, trp_message *message)
{
    trp_mailbox_reserve_always(&actor->mailbox, message->weight);
    push(actor, message);
}

static void start_actor(trp_actor *actor, trp_message *message)
{
    troupe_error failure;
    troupe_actor address = trp_actor_address(actor);
    trp_shape shape = trp_shape_of(&troupe_type_troupe_actor);
    bool started = trp_actor_name(actor, &failure) && trp_run_init(actor, message, &failure);
    if (started) {
        trp_message_answer(message, &shape, &address, actor->label);
    } else {
        trp_actor_unname(actor); // Before the answer: then the name can be used again.
        trp_message_fail(message, &failure, NULL);
        (void)trp_actor_close(actor, TRP_ACTOR_FAILED, &failure);
    }
    trp_message_free(message);
}

static bool turn(trp_actor *actor)
{
    for (int i = 0; i < TURN; i++) {
        if (atomic_load(&actor->state) != TRP_ACTOR_OPEN) {
            finish(actor);
            return false;
        }
        if (atomic_load_explicit(&actors.stopping, memory_order_relaxed))
            return false; // It stays "scheduled": trp_actors_finish takes it.
        trp_message *message = take_message(actor);
        if (message == NULL) {
            if (!trp_mailbox_rest(&actor->mailbox))
                return false;
            continue;
        }
        if (message->kind == TRP_MESSAGE_CALL) {
            trp_run_call(actor, message);
            if (actor->executor)
                trp_executor_rest(actor);
        } else if (message->kind == TRP_MESSAGE_INIT) {
            start_actor(actor, message);
        } else if (message->kind >= TRP_MESSAGE_MARKER) {
            trp_async_run(actor, message);
        } else {
            (void)trp_actor_close(actor, TRP_ACTOR_ENDED, NULL);
            trp_message_free(message);
        }
    }
    return true;
}

// Once a mailbox rests, another thread may take the actor's last turn and free it, while this one
// still looks at the mailbox: the turn holds it.
bool trp_actor_turn(trp_actor *actor)
{
    atomic_fetch_add(&actor->refs, 1);
    bool again = turn(actor);
    trp_actor_release(actor);
    return again;
}

// ---- the main thread

void trp_actor_work(bool isolated)
{
    pthread_mutex_lock(&stage.lock);
    while (!trp_process_ending() && !(isolated && stage.gone)) {
        trp_actor *actor = stage.runnable;
        if (actor == NULL) {
            pthread_cond_wait(&stage.changed, &stage.lock);
            continue;
        }
        stage.runnable = NULL;
        pthread_mutex_unlock(&stage.lock);
        bool again = trp_actor_turn(actor);
        pthread_mutex_lock(&stage.lock);
        if (again)
            stage.runnable = actor;
    }
    while (stage.killed && !trp_process_ending()) // See end_process.
        pthread_cond_wait(&stage.changed, &stage.lock);
    pthread_mutex_unlock(&stage.lock);
}

void trp_actor_work_wake(void)
{
    pthread_mutex_lock(&stage.lock);
    pthread_cond_broadcast(&stage.changed);
    pthread_mutex_unlock(&stage.lock);
}

// ---- start and stop

void trp_actors_start(void)
{
    trp_home_here.process = trp_process_slot();
    trp_home_here.incarnation = trp_process_incarnation();
    trp_home_here.pid = getpid();
    if (gethostname(trp_home_here.host, sizeof trp_home_here.host - 1) != 0)
        trp_home_here.host[0] = '\0';
    pthread_mutex_lock(&actors.graves_lock);
    if (actors.graves == NULL)
        actors.graves = trp_alloc(GRAVES * sizeof *actors.graves);
    pthread_mutex_unlock(&actors.graves_lock);
    atomic_store(&actors.stopping, false);
    trp_fence_start();
}

void trp_actors_stop_turns(void)
{
    atomic_store(&actors.stopping, true);
}

bool trp_actors_stopping(void)
{
    return atomic_load(&actors.stopping);
}

void trp_actors_finish(bool quiet)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        trp_actor *actor, *next;
        pthread_mutex_lock(lock_of(i));
        actor = actors.buckets[i];
        actors.buckets[i] = NULL;
        pthread_mutex_unlock(lock_of(i));
        for (; actor != NULL; actor = next) {
            next = actor->next;
            int open = TRP_ACTOR_OPEN;
            (void)atomic_compare_exchange_strong(&actor->state, &open, TRP_ACTOR_STOPPED);
            empty_mailbox(actor);
            if (quiet) // Else a method may be in it still.
                finish(actor);
        }
    }
    pthread_mutex_lock(&actors.graves_lock);
    trp_free(actors.graves);
    actors.graves = NULL;
    pthread_mutex_unlock(&actors.graves_lock);
}

// ---- who waits for whom

// The actor of this process that a pending call without a deadline is to; 0: there is none.
static uint64_t target_of(uint64_t call)
{
    trp_entry *entry = trp_entry_lock(call);
    if (entry == NULL)
        return 0;
    bool waits = entry->kind == TRP_ENTRY_CALL && !entry->done && entry->deadline_ns == 0 &&
                 !entry->apart && entry->target.incarnation == trp_home_here.incarnation;
    uint64_t actor = waits ? entry->target.actor : 0;
    trp_entry_unlock(entry);
    return actor;
}

troupe_status trp_actor_waits(trp_actor *actor, uint64_t call)
{
    static pthread_mutex_t graph = PTHREAD_MUTEX_INITIALIZER;
    bool deadlock = false;
    pthread_mutex_lock(&graph);
    actor->waits_for = call;
    for (int i = 0; call != 0 && i < KINSHIP_MAX; i++) {
        uint64_t id = target_of(call);
        deadlock = id == actor->id;
        trp_actor *next = id == 0 || deadlock ? NULL : trp_actor_find(id);
        if (next == NULL)
            break;
        call = next->waits_for;
        trp_actor_release(next);
    }
    if (deadlock)
        actor->waits_for = 0;
    pthread_mutex_unlock(&graph);
    return deadlock ? troupe_fail(TROUPE_DEADLOCK,
                                  "actor %s waits for a call that can only be run after the method "
                                  "that waits",
                                  actor->label)
                    : TROUPE_OK;
}
