// executor.c: see executor.h. An executor is in one of two lists of its task: of those that rest,
// or of those that have a call.
#include <actors/executor.h>

#include <actors/failure.h>
#include <actors/run.h>
#include <runtime/memory.h>
#include <runtime/process.h>
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

troupe_status troupe_task_register(const troupe_class *row)
{
    const trp_class *class_ = trp_class_of(row);
    if (class_ == NULL)
        return troupe_failed_(troupe_last_error()->status);
    if (row->method_count != 1 || row->size != sizeof(troupe_executor_))
        return troupe_fail(TROUPE_INVALID, "class '%s' is none that TROUPE_TASK has made",
                           row->name);
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
static void link_busy(task *of, troupe_executor_ *it, uint64_t call, uint64_t incarnation)
{
    it->call = call;
    it->incarnation = incarnation;
    it->before = NULL;
    it->next = of->busy;
    if (of->busy != NULL)
        of->busy->before = it;
    of->busy = it;
}

static void unlink_busy(task *of, troupe_executor_ *it)
{
    troupe_executor_ *before = it->before, *next = it->next;
    if (before != NULL)
        before->next = next;
    else
        of->busy = next;
    if (next != NULL)
        next->before = before;
}

// One that rests, or NULL.
static trp_actor *take_resting(task *of, uint64_t call, uint64_t incarnation)
{
    pthread_mutex_lock(&of->lock);
    troupe_executor_ *top = of->rest;
    if (top != NULL) {
        of->rest = top->next;
        of->resting--;
        link_busy(of, top, call, incarnation);
    }
    pthread_mutex_unlock(&of->lock);
    return top != NULL ? top->actor : NULL;
}

static trp_actor *make_executor(task *of, uint64_t call, uint64_t incarnation)
{
    trp_actor *actor = trp_actor_create(of->class_, NULL, 0, false);
    if (actor == NULL)
        return NULL;
    ((troupe_executor_ *)actor->self)->actor = actor;
    actor->executor = true;
    pthread_mutex_lock(&of->lock);
    link_busy(of, actor->self, call, incarnation);
    pthread_mutex_unlock(&of->lock);
    trp_actor_enter(actor);
    trp_actor_wake(actor);
    return actor;
}

// By who has it: from the list to a message, and from there back.
static void put_back(task *of, troupe_executor_ *executor)
{
    trp_actor *actor = executor->actor;
    uint64_t id = trp_actor_id(actor);
    pthread_mutex_lock(&of->lock);
    // Once the runtime has stopped it is none of the next one's; see trp_executors_forget.
    bool open = atomic_load(&actor->phase) == trp_phase_of(id, TRP_ACTOR_OPEN);
    bool rests = open && of->resting < RESTING_MAX;
    if (open)
        unlink_busy(of, executor);
    if (rests) {
        executor->next = of->rest;
        of->rest = executor;
        of->resting++;
    }
    pthread_mutex_unlock(&of->lock);
    if (open && !rests)
        (void)trp_actor_close(actor, id, TRP_ACTOR_ENDED, NULL);
}

void trp_executors_forget(void)
{
    for (int i = 0; i < BUCKETS; i++) {
        task *it = atomic_load_explicit(&known.buckets[i], memory_order_acquire);
        for (; it != NULL; it = it->next) {
            pthread_mutex_lock(&it->lock);
            it->rest = it->busy = NULL;
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
    trp_actor *actor = of == NULL ? NULL : take_resting(of, call, incarnation);
    if (of != NULL && actor == NULL)
        actor = make_executor(of, call, incarnation);
    if (actor != NULL) {
        *id = trp_actor_id(actor);
        return actor;
    }
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

void trp_target_spare(uint64_t target, trp_actor *actor)
{
    task *of = (target & TRP_TASK_TARGET) != 0 ? find_task(target) : NULL;
    if (of != NULL)
        put_back(of, actor->self);
}

void trp_executor_rest(trp_actor *actor)
{
    put_back(find_task(trp_task_target(actor->class_)), actor->self);
}

bool trp_executor_runs(void)
{
    trp_actor *actor = trp_run_actor();
    return actor != NULL && actor->executor;
}
