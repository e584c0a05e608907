// gateway_pool.c: threads that answer what reads files, so that the routes of services need not
// wait.
#ifdef TROUPE_HTTP
#include <server/gateway_internal.h>

#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/thread.h>
#include <time.h>

typedef struct worker {
    gateway_pool *pool;
    trp_web *web; // Of one thread at a time.
    pthread_t thread;
    bool started;
} worker;

struct gateway_pool {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    gateway_work *first, **last;
    size_t waiting, idle, running; // Threads that idle, and all.
    bool ends;
    size_t count;
    worker workers[GATEWAY_WORKERS];
};

static void *work(void *user)
{
    worker *self = (worker *)user;
    gateway_pool *pool = self->pool;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        gateway_work *it = pool->first;
        if (it) {
            pool->first = it->next;
            if (!pool->first)
                pool->last = &pool->first;
            pool->waiting--;
            pthread_mutex_unlock(&pool->lock);
            trp_web_answer(self->web, &it->request, &it->reply);
            it->done(it);
            pthread_mutex_lock(&pool->lock);
        } else if (pool->ends) {
            break;
        } else {
            pool->idle++;
            (void)pthread_cond_wait(&pool->changed, &pool->lock);
            pool->idle--;
        }
    }
    pool->running--;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

troupe_status gateway_pool_open(const trp_web_options *how, size_t threads, gateway_pool **pool)
{
    gateway_pool *made = (gateway_pool *)trp_alloc(sizeof *made);
    if (!made)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the threads of the gateway");
    made->last = &made->first;
    (void)pthread_mutex_init(&made->lock, NULL);
    trp_cond_open(&made->changed);
    *pool = made;
    made->count = threads;
    for (size_t i = 0; i < threads; i++) {
        made->workers[i].pool = made;
        troupe_status status = trp_web_open(how, &made->workers[i].web);
        if (status != TROUPE_OK) {
            troupe_error said;
            trp_error_hold(&said);
            (void)gateway_pool_close(pool, 0);
            trp_error_restore(&said);
            return status;
        }
    }
    return TROUPE_OK;
}

// Whether all threads have ended by then.
static bool end_threads(gateway_pool *pool, int wait_ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += wait_ms / 1000;
    until.tv_nsec += wait_ms % 1000 * 1000000L;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&pool->lock);
    pool->ends = true;
    pthread_cond_broadcast(&pool->changed);
    int error = 0;
    while (pool->running > 0 && error == 0)
        error = pthread_cond_timedwait(&pool->changed, &pool->lock, &until);
    bool ended = pool->running == 0;
    pthread_mutex_unlock(&pool->lock);
    return ended;
}

bool gateway_pool_close(gateway_pool **pool, int wait_ms)
{
    gateway_pool *it = *pool;
    if (!it)
        return true;
    *pool = NULL;
    if (!end_threads(it, wait_ms))
        return false;
    for (size_t i = 0; i < it->count; i++) {
        if (it->workers[i].started)
            (void)pthread_join(it->workers[i].thread, NULL);
        trp_web_close(it->workers[i].web);
    }
    (void)pthread_cond_destroy(&it->changed);
    (void)pthread_mutex_destroy(&it->lock);
    trp_free(it);
    return true;
}

// They are started when they are first needed. Under the lock.
static troupe_status start_one(gateway_pool *pool)
{
    for (size_t i = 0; i < pool->count; i++) {
        worker *it = &pool->workers[i];
        if (it->started)
            continue;
        troupe_status status = trp_thread_start(&it->thread, "trp-web", work, it);
        it->started = status == TROUPE_OK;
        pool->running += it->started;
        return i == 0 ? status : TROUPE_OK; // The first can do it alone.
    }
    return TROUPE_OK;
}

troupe_status gateway_pool_give(gateway_pool *pool, gateway_work *work)
{
    troupe_status status = TROUPE_OK;
    pthread_mutex_lock(&pool->lock);
    if (pool->waiting >= GATEWAY_WAITING_MAX)
        status = troupe_fail(TROUPE_BUSY, "too many requests wait for their answers");
    else if (pool->idle <= pool->waiting)
        status = start_one(pool);
    if (status == TROUPE_OK) {
        work->next = NULL;
        *pool->last = work;
        pool->last = &work->next;
        pool->waiting++;
        pthread_cond_signal(&pool->changed);
    }
    pthread_mutex_unlock(&pool->lock);
    return status;
}
#else
extern int gateway_pool_is_left_out; // A file must not be empty.
#endif
