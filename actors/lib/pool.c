// pool.c: pools of actors: which member gets the next call, which are dead, and what replaces them.
//
// A pool counts the calls that each member has not answered. It learns of an answer where the call
// ends; if that is a loss, the member is dead to it. New members are made by the next call, since
// the thread that learns of a loss must not wait.
#include <actors/actor/actor.h>
#include <actors/call/call.h>
#include <actors/class/call_error.h>
#include <actors/class/class.h>
#include <actors/ref/call_table.h>
#include <actors/ref/leaks.h>
#include <actors/ref/ref.h>
#include <actors/ref/ref_visit.h>
#include <actors/spawn/spawn.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <runtime/base/require.h>
#include <runtime/shm/process_table.h>
#include <string.h>
#include <troupe/pool.h>

typedef struct member {
    troupe_actor actor;
    uint32_t load; // Calls that have not ended.
    uint32_t life; // Counts those who had this place.
    bool dead;
    bool replacing; // Somebody makes another one.
} member;

struct troupe_pool {
    pthread_mutex_t lock;   // Of the members.
    _Atomic uint32_t holds; // Of the user, and of each call that has not ended.
    const trp_class *class_;
    bool makes; // The members are its own.
    troupe_spawn_options spawn;
    void *init_args; // NULL: zeros.
    trp_arena arena;
    size_t count;
    member members[];
};

// A call that has not ended.
typedef struct pending {
    troupe_pool *pool;
    uint32_t place, life;
} pending;

static void release(troupe_pool *pool)
{
    if (atomic_fetch_sub(&pool->holds, 1) > 1)
        return;
    if (pool->init_args != NULL)
        trp_refs_drop(&pool->class_->init, pool->init_args);
    trp_arena_clear(&pool->arena);
    pthread_mutex_destroy(&pool->lock);
    trp_free(pool);
}

// ---- opening and closing

static troupe_status check(const trp_class *class_, const troupe_pool_options *how)
{
    TROUPE_TRY(trp_process_check());
    if (how->actor_count > 0 && (how->count > 0 || how->spawn != NULL))
        return troupe_fail(TROUPE_INVALID,
                           "a pool of '%s' was given .actors together with .count or .spawn",
                           class_->row->name);
    if (how->actor_count > 0 && how->actors == NULL)
        return troupe_fail(TROUPE_INVALID, "a pool of '%s' was given %zu actors at NULL",
                           class_->row->name, how->actor_count);
    if (how->spawn != NULL && how->spawn->name != NULL)
        return troupe_fail(TROUPE_INVALID, "the actors of a pool cannot all be named '%.64s'",
                           how->spawn->name);
    return how->count <= UINT32_MAX && how->actor_count <= UINT32_MAX
               ? TROUPE_OK
               : troupe_fail(TROUPE_INVALID,
                             ".%s of a pool, %zu, is too large: expected at most %u",
                             how->actor_count > 0 ? "actor_count" : "count",
                             how->actor_count > 0 ? how->actor_count : how->count, UINT32_MAX);
}

static troupe_status copy_init(troupe_pool *pool, const void *args)
{
    const trp_shape *shape = &pool->class_->init;
    if (args == NULL)
        return TROUPE_OK;
    return trp_args_copy(shape, args, &pool->arena, &pool->init_args);
}

static troupe_pool *make_pool(const trp_class *class_, const troupe_pool_options *how)
{
    int workers = trp_process_options()->workers;
    size_t count = how->actor_count > 0 ? how->actor_count
                   : how->count > 0     ? how->count
                   : workers > 0        ? (size_t)workers
                                        : 1;
    troupe_pool *pool = trp_alloc(sizeof *pool + count * sizeof pool->members[0]);
    if (pool == NULL) {
        (void)troupe_fail(TROUPE_NO_MEMORY, "no memory for a pool of %zu actors", count);
        return NULL;
    }
    pthread_mutex_init(&pool->lock, NULL);
    pool->holds = 1;
    pool->class_ = class_;
    pool->count = count;
    pool->makes = how->actor_count == 0;
    return pool;
}

static bool copy_text(troupe_pool *pool, const char **text)
{
    if (*text == NULL)
        return true;
    size_t size = strlen(*text) + 1;
    char *copy = trp_arena_alloc(&pool->arena, size);
    if (copy != NULL)
        memcpy(copy, *text, size);
    *text = copy;
    return copy != NULL;
}

// What members are made with, now and later, is the pool's own.
static troupe_status copy_spawn(troupe_pool *pool)
{
    troupe_spawn_options *how = &pool->spawn;
    return copy_text(pool, &how->resources) && copy_text(pool, &how->env) &&
                   copy_text(pool, &how->folder)
               ? TROUPE_OK
               : troupe_fail(TROUPE_NO_MEMORY, "no memory for the options of a pool");
}

static troupe_status fill(troupe_pool *pool, const troupe_pool_options *how)
{
    troupe_actor *made = pool->makes ? trp_alloc(pool->count * sizeof *made) : NULL;
    if (pool->makes && made == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a pool of %zu actors", pool->count);
    troupe_status status = TROUPE_OK;
    if (pool->makes)
        status =
            trp_spawn_many(pool->class_->row, pool->init_args, 0, pool->count, made, &pool->spawn);
    const troupe_actor *actors = made != NULL ? made : how->actors;
    for (size_t i = 0; i < pool->count && actors != NULL; i++) {
        pool->members[i].actor = actors[i];
        if (!pool->makes && status == TROUPE_OK)
            status = troupe_actor_status(pool->members[i].actor);
    }
    trp_free(made);
    return status;
}

troupe_status troupe_pool_open_as(const troupe_class *row, const void *init_args,
                                  const troupe_pool_options *how, troupe_pool **pool)
{
    TRP_REQUIRE(pool);
    troupe_pool_options taken;
    const trp_class *class_ = trp_class_of(row);
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_pool_open", taken, how));
    if (class_ == NULL)
        return troupe_failed_(troupe_last_error()->status);
    troupe_spawn_options spawn;
    TROUPE_TRY(TRP_OPTIONS_TAKE(".spawn of troupe_pool_open", spawn, taken.spawn));
    TROUPE_TRY(check(class_, &taken));
    troupe_pool *made = make_pool(class_, &taken);
    if (made == NULL)
        return TROUPE_NO_MEMORY;
    made->spawn = spawn;
    made->spawn.size = sizeof spawn;
    troupe_status status = copy_init(made, init_args);
    if (status == TROUPE_OK)
        status = copy_spawn(made);
    if (status == TROUPE_OK)
        status = fill(made, &taken);
    if (status == TROUPE_OK) {
        *pool = made;
        return TROUPE_OK;
    }
    troupe_error failure = *troupe_last_error();
    troupe_pool_close(made);
    return trp_error_set(&failure);
}

void troupe_pool_close(troupe_pool *pool)
{
    if (pool == NULL)
        return;
    for (size_t i = 0; pool->makes && i < pool->count; i++)
        if (pool->members[i].actor.id != 0 && trp_process_running())
            (void)troupe_actor_end(pool->members[i].actor);
    release(pool);
}

size_t troupe_pool_count(troupe_pool *pool)
{
    if (TRP_IS_NULL(pool))
        return 0;
    size_t living = 0;
    pthread_mutex_lock(&pool->lock);
    for (size_t i = 0; i < pool->count; i++)
        living += !pool->members[i].dead;
    pthread_mutex_unlock(&pool->lock);
    return living;
}

// ---- calls

// Whether a call that has ended says that its target has. One that may have been executed says so
// of members that nobody starts again; who can be, has ended when a call is refused.
static bool was_lost(const troupe_pool *pool, troupe_ref ref)
{
    trp_entry *entry = trp_entry_lock(ref.id); // Held until its callbacks have run.
    if (entry == NULL)
        return false;
    const trp_result *result = &entry->result;
    troupe_status status = result->kind == TRP_RESULT_FAILURE && result->failure != NULL &&
                                   result->failure->outcome != TROUPE_OUTCOME_FAILED
                               ? result->failure->status
                               : TROUPE_OK;
    trp_entry_unlock(entry);
    return status == TROUPE_NOT_EXECUTED ||
           (status == TROUPE_MAYBE_EXECUTED && pool->makes && pool->spawn.restarts == 0);
}

static void note_end(void *user, troupe_ref ref)
{
    pending *call = user;
    troupe_pool *pool = call->pool;
    bool lost = was_lost(pool, ref);
    pthread_mutex_lock(&pool->lock);
    member *it = &pool->members[call->place];
    if (it->life == call->life) {
        it->load--;
        it->dead = it->dead || lost;
    }
    pthread_mutex_unlock(&pool->lock);
    trp_free(call);
    release(pool);
}

// With the lock held: a dead member's place that nobody fills yet.
static member *find_vacancy(troupe_pool *pool)
{
    for (size_t i = 0; pool->makes && i < pool->count; i++)
        if (pool->members[i].dead && !pool->members[i].replacing)
            return &pool->members[i];
    return NULL;
}

// Makes new members in the place of dead ones. A failure leaves the place for the next call.
static troupe_status fill_vacancies(troupe_pool *pool)
{
    troupe_status status = TROUPE_OK;
    pthread_mutex_lock(&pool->lock);
    for (member *it; status == TROUPE_OK && (it = find_vacancy(pool)) != NULL;) {
        it->replacing = true;
        pthread_mutex_unlock(&pool->lock);
        troupe_actor fresh = troupe_spawn_as(pool->class_->row, pool->init_args, &pool->spawn);
        status = troupe_actor_status(fresh);
        pthread_mutex_lock(&pool->lock);
        it->replacing = false;
        if (status == TROUPE_OK) {
            it->actor = fresh;
            it->dead = false;
            it->load = 0;
            it->life++;
        }
    }
    pthread_mutex_unlock(&pool->lock);
    return status;
}

// The living member with the least to do gets one more. False: all are dead.
static bool choose(troupe_pool *pool, pending *call, troupe_actor *to)
{
    member *best = NULL;
    pthread_mutex_lock(&pool->lock);
    for (size_t i = 0; i < pool->count; i++) {
        member *it = &pool->members[i];
        if (!it->dead && (best == NULL || it->load < best->load))
            best = it;
    }
    if (best != NULL) {
        best->load++;
        call->place = (uint32_t)(best - pool->members);
        call->life = best->life;
        *to = best->actor;
    }
    pthread_mutex_unlock(&pool->lock);
    return best != NULL;
}

troupe_ref troupe_pool_call_as(troupe_pool *pool, const troupe_class *class_, size_t method,
                               const void *args)
{
    if (TRP_IS_NULL(pool))
        return trp_call_failed(TRP_NULL(pool));
    troupe_actor to;
    pending *call = trp_alloc(sizeof *call);
    if (call == NULL)
        return trp_call_failed(troupe_fail(TROUPE_NO_MEMORY, "no memory for a call to a pool"));
    troupe_status status = fill_vacancies(pool);
    if (!choose(pool, call, &to)) {
        trp_free(call);
        return trp_call_failed(status != TROUPE_OK ? status
                                                   : troupe_fail(TROUPE_NOT_EXECUTED,
                                                                 "all %zu actors of the pool are "
                                                                 "dead",
                                                                 pool->count));
    }
    call->pool = pool;
    atomic_fetch_add(&pool->holds, 1);
    troupe_ref ref = troupe_call_as(to, class_, method, args);
    TRP_LEAKS_MADE(ref, "troupe_pool_call");
    trp_ref_when(ref, note_end, call);
    return ref;
}
