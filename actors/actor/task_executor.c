// task_executor.c: see actor/task_executor.h. An executor is in one of two lists of its task, of
// those that rest or of those that have a call, until its last turn: it can be killed like any
// other actor.
#include <actors/actor/task_executor.h>

#include <actors/actor/death_record.h>
#include <actors/actor/invoke.h>
#include <actors/class/call_error.h>
#include <runtime/base/memory.h>
#include <troupe/task.h>

enum {
    BUCKETS = 64,
    RESTING_MAX = 256, // Of a task; more are ended.
};

typedef struct task {
    const trp_class *class_;
    struct task *next;    // In its bucket.
    pthread_mutex_t lock; // Of the following.
    troupe_executor_ *rest, *busy;
    uint32_t resting;
} task;

// The registry only grows: a task is complete before the release store that adds it, which pairs
// with the readers' acquire.
static struct {
    pthread_mutex_t lock; // Of additions.
    task *_Atomic buckets[BUCKETS];
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const uint64_t hash_mask = TRP_TASK_TARGET - 1;

uint64_t trp_task_target(const trp_class *class_)
{
    return TRP_TASK_TARGET | (class_->hash & hash_mask);
}

static task *find_task(uint64_t target)
{
    task *it = atomic_load_explicit(&known.buckets[target % BUCKETS], memory_order_acquire);
    while (it != NULL && trp_task_target(it->class_) != target)
        it = it->next;
    return it;
}

bool trp_class_is_task(const trp_class *class_)
{
    return find_task(trp_task_target(class_)) != NULL;
}

troupe_status troupe_task_register(const troupe_class *row)
{
    const trp_class *class_ = trp_class_of(row);
    if (class_ == NULL)
        return troupe_failed_(troupe_last_error()->status);
    if (row->method_count != 1 || row->size != sizeof(troupe_executor_))
        return troupe_fail(TROUPE_INVALID, "class '%s' was not made by TROUPE_TASK", row->name);
    uint64_t target = trp_task_target(class_);
    troupe_status status = TROUPE_OK;
    pthread_mutex_lock(&known.lock);
    if (find_task(target) == NULL) {
        task *fresh = trp_alloc(sizeof *fresh);
        if (fresh != NULL) {
            task *_Atomic *bucket = &known.buckets[target % BUCKETS];
            fresh->class_ = class_;
            pthread_mutex_init(&fresh->lock, NULL);
            fresh->next = atomic_load_explicit(bucket, memory_order_relaxed); // Under the lock.
            atomic_store_explicit(bucket, fresh, memory_order_release);
        } else {
            status = troupe_fail(TROUPE_NO_MEMORY, "no memory for task '%s'", row->name);
        }
    }
    pthread_mutex_unlock(&known.lock);
    return status;
}

// ---- executors

// With the lock held.
static void link_first(troupe_executor_ **list, troupe_executor_ *it)
{
    it->before = NULL;
    it->next = *list;
    if (*list != NULL)
        (*list)->before = it;
    *list = it;
}

// Of whichever list it is in; harmless if it is in none. With the lock held.
static void unlink_it(task *of, troupe_executor_ *it)
{
    troupe_executor_ *before = it->before, *next = it->next;
    if (before != NULL)
        before->next = next;
    else if (of->busy == it)
        of->busy = next;
    else if (of->rest == it)
        of->rest = next;
    if (next != NULL)
        next->before = before;
    it->before = it->next = NULL;
    of->resting -= it->rests;
    it->rests = 0;
}

// With the lock held.
static void link_busy(task *of, troupe_executor_ *it, uint64_t call, uint64_t incarnation)
{
    it->call = call;
    it->incarnation = incarnation;
    link_first(&of->busy, it);
}

// One that rests, and its id, or NULL. The id is that of the actor that was in the list: it may be
// killed as soon as the lock is open, and another one be where it was.
static trp_actor *take_resting(task *of, uint64_t call, uint64_t incarnation, uint64_t *id)
{
    pthread_mutex_lock(&of->lock);
    troupe_executor_ *top = of->rest;
    trp_actor *actor = NULL;
    if (top != NULL) {
        unlink_it(of, top);
        link_busy(of, top, call, incarnation);
        actor = top->actor;
        *id = trp_actor_id(actor);
    }
    pthread_mutex_unlock(&of->lock);
    return actor;
}

static trp_actor *make_executor(task *of, uint64_t call, uint64_t incarnation, uint64_t *id)
{
    trp_actor *actor = trp_actor_create(of->class_, NULL, 0, false);
    if (actor == NULL)
        return NULL;
    *id = trp_actor_id(actor);
    ((troupe_executor_ *)actor->self)->actor = actor;
    actor->executor = true;
    pthread_mutex_lock(&of->lock);
    link_busy(of, actor->self, call, incarnation);
    pthread_mutex_unlock(&of->lock);
    trp_actor_enter(actor);
    trp_actor_wake(actor);
    return actor;
}

// By who has it: from the list to a message, and from there back. One that is not open any more is
// left to its last turn, which waits for the lock before it frees what the lists are made of.
static void put_back(task *of, trp_actor *actor, uint64_t id)
{
    pthread_mutex_lock(&of->lock);
    bool open = trp_actor_is_open(actor, id);
    bool rests = open && of->resting < RESTING_MAX;
    if (rests) {
        troupe_executor_ *executor = actor->self;
        unlink_it(of, executor);
        executor->call = 0;
        executor->rests = 1;
        of->resting++;
        link_first(&of->rest, executor);
    }
    pthread_mutex_unlock(&of->lock);
    if (open && !rests)
        (void)trp_actor_close(actor, id, TRP_ACTOR_ENDED, NULL);
}

void trp_executor_end(trp_actor *actor)
{
    task *of = find_task(trp_task_target(actor->class_));
    pthread_mutex_lock(&of->lock);
    unlink_it(of, actor->self);
    pthread_mutex_unlock(&of->lock);
}

// Takes all out of a list: one whose method still runs has its last turn when that is over.
static void empty(troupe_executor_ **list)
{
    while (*list != NULL) {
        troupe_executor_ *it = *list;
        *list = it->next;
        it->before = it->next = NULL;
        it->rests = 0;
    }
}

void trp_executors_forget(void)
{
    for (int i = 0; i < BUCKETS; i++) {
        task *it = atomic_load_explicit(&known.buckets[i], memory_order_acquire);
        for (; it != NULL; it = it->next) {
            pthread_mutex_lock(&it->lock);
            empty(&it->rest);
            empty(&it->busy);
            it->resting = 0;
            pthread_mutex_unlock(&it->lock);
        }
    }
}

trp_actor *trp_target_find(uint64_t target, uint64_t call, uint64_t incarnation, uint64_t *id,
                           troupe_error *failure)
{
    if ((target & TRP_TASK_TARGET) == 0) {
        trp_actor *actor = trp_actor_find(target);
        if (actor == NULL)
            *failure = trp_actor_obituary(target);
        *id = target;
        return actor;
    }
    task *of = find_task(target);
    trp_actor *actor = of == NULL ? NULL : take_resting(of, call, incarnation, id);
    if (of != NULL && actor == NULL)
        actor = make_executor(of, call, incarnation, id);
    if (actor != NULL)
        return actor;
    *failure = of != NULL
                   ? trp_failure(TROUPE_NO_MEMORY, TROUPE_OUTCOME_NOT_EXECUTED, TROUPE_EXECUTED_NO,
                                 "no memory for a task")
                   : trp_failure(TROUPE_NOT_FOUND, TROUPE_OUTCOME_NOT_EXECUTED, TROUPE_EXECUTED_NO,
                                 "the task is not known in process %u (pid %d), or was compiled "
                                 "from another source there",
                                 trp_home_here.process, trp_home_here.pid);
    return NULL;
}

trp_actor *trp_target_of(uint64_t target, const trp_caller *caller, uint64_t *id)
{
    *id = target;
    if ((target & TRP_TASK_TARGET) == 0)
        return trp_actor_find(target);
    uint64_t incarnation = caller->remote ? caller->incarnation : trp_home_here.incarnation;
    task *of = find_task(target);
    trp_actor *found = NULL;
    if (of == NULL)
        return NULL;
    pthread_mutex_lock(&of->lock);
    for (troupe_executor_ *it = of->busy; it != NULL && found == NULL; it = it->next)
        if (it->call == caller->call && it->incarnation == incarnation)
            found = it->actor;
    if (found != NULL)
        *id = trp_actor_id(found);
    pthread_mutex_unlock(&of->lock);
    return found;
}

void trp_target_spare(uint64_t target, trp_actor *actor, uint64_t id)
{
    task *of = (target & TRP_TASK_TARGET) != 0 ? find_task(target) : NULL;
    if (of != NULL)
        put_back(of, actor, id);
}

void trp_executor_rest(trp_actor *actor)
{
    put_back(find_task(trp_task_target(actor->class_)), actor, trp_actor_id(actor));
}

bool trp_executor_runs(void)
{
    trp_actor *actor = trp_run_actor();
    return actor != NULL && actor->executor;
}
