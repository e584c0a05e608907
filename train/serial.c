// serial.c: a queue, a lock, and one thread.
#include <pthread.h>
#include <runtime/base/memory.h>
#include <runtime/base/thread.h>
#include <train/serial.h>

struct trp_serial {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    trp_serial_task *first, **last;
    bool working, ending;
};

// With the lock, which is let go meanwhile.
static void do_first(trp_serial *serial)
{
    trp_serial_task *task = serial->first;
    serial->first = task->next;
    if (!serial->first)
        serial->last = &serial->first;
    serial->working = true;
    pthread_mutex_unlock(&serial->lock);
    task->run(task);
    pthread_mutex_lock(&serial->lock);
    serial->working = false;
    pthread_cond_broadcast(&serial->changed);
}

static void *serve(void *user)
{
    trp_serial *serial = (trp_serial *)user;
    pthread_mutex_lock(&serial->lock);
    while (serial->first || serial->working || !serial->ending)
        if (serial->first && !serial->working)
            do_first(serial);
        else
            (void)pthread_cond_wait(&serial->changed, &serial->lock);
    pthread_mutex_unlock(&serial->lock);
    return NULL;
}

troupe_status trp_serial_start(const char *name, trp_serial **serial)
{
    trp_serial *made = (trp_serial *)trp_alloc(sizeof(*made));
    if (!made)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the thread %s", name);
    made->last = &made->first;
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    troupe_status status = trp_thread_start(&made->thread, name, serve, made);
    if (status == TROUPE_OK) {
        *serial = made;
        return TROUPE_OK;
    }
    pthread_cond_destroy(&made->changed);
    pthread_mutex_destroy(&made->lock);
    trp_free(made);
    return status;
}

static void add(trp_serial *serial, trp_serial_task *task, bool wake)
{
    task->next = NULL;
    pthread_mutex_lock(&serial->lock);
    *serial->last = task;
    serial->last = &task->next;
    if (wake)
        pthread_cond_broadcast(&serial->changed);
    pthread_mutex_unlock(&serial->lock);
}

void trp_serial_add(trp_serial *serial, trp_serial_task *task)
{
    add(serial, task, true);
}

void trp_serial_put(trp_serial *serial, trp_serial_task *task)
{
    add(serial, task, false);
}

bool trp_serial_help(trp_serial *serial)
{
    pthread_mutex_lock(&serial->lock);
    bool can = serial->first && !serial->working;
    if (can)
        do_first(serial);
    pthread_mutex_unlock(&serial->lock);
    return can;
}

bool trp_serial_is_here(const trp_serial *serial)
{
    return pthread_equal(pthread_self(), serial->thread) != 0;
}

void trp_serial_wait(trp_serial *serial)
{
    if (!serial)
        return;
    pthread_mutex_lock(&serial->lock);
    pthread_cond_broadcast(&serial->changed); // For what was put.
    while (serial->first || serial->working)
        (void)pthread_cond_wait(&serial->changed, &serial->lock);
    pthread_mutex_unlock(&serial->lock);
}

void trp_serial_end(trp_serial **held)
{
    trp_serial *serial = *held;
    *held = NULL;
    if (!serial)
        return;
    pthread_mutex_lock(&serial->lock);
    serial->ending = true;
    pthread_cond_broadcast(&serial->changed);
    pthread_mutex_unlock(&serial->lock);
    (void)pthread_join(serial->thread, NULL);
    pthread_cond_destroy(&serial->changed);
    pthread_mutex_destroy(&serial->lock);
    trp_free(serial);
}
