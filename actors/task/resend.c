// resend.c: attempts at tasks after the first. One actor of this process sends them, since the
// thread that learns of a failure (the poller) must not wait.
//
// The actor is told by a message that needs no runtime: when that is lost, what waits to be sent
// again ends as what is sent then does.
#include <actors/task/resend.h>

#include <actors/actor/actor.h>
#include <actors/actor/invoke.h>
#include <actors/actor/lifecycle.h>
#include <actors/task/task.h>
#include <runtime/base/clock.h>

enum { AGAIN_NS = 10000000 };

static void resend_all(void);

typedef struct trp_resender {
    char unused;
} trp_resender;

static troupe_status trp_resender_send(trp_resender *self, const troupe_none *args,
                                       troupe_none *result)
{
    (void)self, (void)args, (void)result;
    resend_all();
    return TROUPE_OK;
}

TROUPE_ACTOR(trp_resender, (trp_resender_send, troupe_none, troupe_none));

static struct {
    pthread_mutex_t lock; // Of all that follows.
    trp_task *first, **last;
    bool told; // The actor will look at the list.
    trp_resender_actor actor;
} resends = {.lock = PTHREAD_MUTEX_INITIALIZER, .last = &resends.first};

static trp_task *take_listed(void)
{
    pthread_mutex_lock(&resends.lock);
    trp_task *it = resends.first;
    if (it != NULL) {
        resends.first = it->next;
        if (resends.first == NULL)
            resends.last = &resends.first;
        it->listed = false;
    } else {
        resends.told = false;
    }
    pthread_mutex_unlock(&resends.lock);
    return it;
}

static void resend_all(void)
{
    for (trp_task *it; (it = take_listed()) != NULL;) {
        if (!trp_actors_stopping()) // Else its row ends with the runtime.
            trp_task_again(it);
        trp_task_release(it);
    }
}

troupe_status trp_resend_start(void)
{
    pthread_mutex_lock(&resends.lock);
    bool here = resends.actor.address.incarnation == trp_home_here.incarnation;
    pthread_mutex_unlock(&resends.lock);
    if (here)
        return TROUPE_OK;
    trp_resender_actor fresh = troupe_spawn(trp_resender, .place = TROUPE_PLACE_HERE);
    TROUPE_TRY(troupe_actor_status(fresh.address));
    pthread_mutex_lock(&resends.lock);
    if (resends.actor.address.incarnation != trp_home_here.incarnation) {
        resends.actor = fresh;
        resends.told = false;
        fresh = (trp_resender_actor){{0}};
    }
    pthread_mutex_unlock(&resends.lock);
    if (fresh.address.id != 0)
        troupe_actor_kill(fresh);
    return TROUPE_OK;
}

void trp_resend_look(void)
{
    pthread_mutex_lock(&resends.lock);
    bool tell = resends.first != NULL && !resends.told;
    resends.told = resends.told || tell;
    trp_resender_actor to = resends.actor;
    pthread_mutex_unlock(&resends.lock);
    if (!tell || trp_actors_stopping() ||
        trp_life_post_to(to.address, &troupe_class_trp_resender, 0, &(troupe_none){0}))
        return;
    pthread_mutex_lock(&resends.lock);
    resends.told = false;
    pthread_mutex_unlock(&resends.lock);
    (void)trp_tasks_look_at(trp_clock_ns() + AGAIN_NS); // There may be memory for it then.
}

void trp_resend(trp_task *it)
{
    pthread_mutex_lock(&resends.lock);
    bool twice = it->listed;
    if (!twice) {
        it->listed = true;
        it->next = NULL;
        *resends.last = it;
        resends.last = &it->next;
    }
    pthread_mutex_unlock(&resends.lock);
    if (twice)
        trp_task_release(it);
    else
        trp_resend_look();
}
