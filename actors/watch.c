// watch.c: the watches of this process: who here waits for the end of which actor, wherever that
// lives. A watch leaves the table once, and whoever took it out tells it: so the news come once,
// whether by the actor's process, by that one's death, or because the watch could not be sent.
#include <actors/life.h>
#include <actors/restart.h>

#include <pthread.h>
#include <runtime/memory.h>
#include <runtime/process.h>
#include <stdio.h>
#include <string.h>
#include <uthash.h>

typedef struct watch {
    uint64_t number;
    troupe_actor target;
    uint64_t owner;
    trp_watch_told *told;
    void *user;
    struct watch *next; // Among those that are being told.
    UT_hash_handle hh;
} watch;

static struct {
    pthread_mutex_t lock; // Of all that follows.
    watch *table;
    _Atomic uint64_t last;
} watches = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_here(uint32_t process, uint64_t incarnation)
{
    return process == trp_home_here.process && incarnation == trp_home_here.incarnation;
}

static void put_in(watch *it)
{
    pthread_mutex_lock(&watches.lock);
    HASH_ADD(hh, watches.table, number, sizeof it->number, it);
    pthread_mutex_unlock(&watches.lock);
}

static watch *take_out(uint64_t number)
{
    watch *found;
    pthread_mutex_lock(&watches.lock);
    HASH_FIND(hh, watches.table, &number, sizeof number, found);
    if (found != NULL)
        HASH_DEL(watches.table, found);
    pthread_mutex_unlock(&watches.lock);
    return found;
}

// The news name the actor as it was named when the watch began.
static void tell(watch *taken, const trp_down *news)
{
    trp_down down = *news;
    down.actor = taken->target;
    taken->told(taken->user, taken->owner, taken->number, &down);
    trp_free(taken);
}

static void tell_number(uint64_t number, const trp_down *down)
{
    watch *found = take_out(number);
    if (found != NULL)
        tell(found, down);
}

// Asks the actor's process to tell us.
static void begin(uint64_t number, troupe_actor target)
{
    trp_watcher here = {trp_home_here.process, trp_home_here.incarnation, number};
    if (target.id == 0) {
        (void)troupe_actor_status(target);
        trp_down down =
            trp_down_of(target, TROUPE_DOWN_NO_ACTOR, "%.255s", troupe_last_error()->text);
        tell_number(number, &down);
        return;
    }
    if (is_here(target.process, target.incarnation)) {
        trp_life_watch(target.id, &here);
        return;
    }
    trp_frame frame = {.kind = TRP_FRAME_WATCH, .target = target.id, .call = number};
    if (trp_process_send(target.process, target.incarnation, &frame, 0) != TROUPE_OK &&
        !trp_registrar_watch(target, number)) { // It may live on elsewhere.
        trp_down down = trp_down_of_process(target);
        tell_number(number, &down);
    }
}

uint64_t trp_watch(troupe_actor actor, uint64_t owner, trp_watch_told *told, void *user)
{
    watch *made = trp_alloc(sizeof *made);
    if (made == NULL) {
        (void)troupe_fail(TROUPE_NO_MEMORY, "no memory to watch an actor");
        return 0;
    }
    *made = (watch){.target = actor, .owner = owner, .told = told, .user = user};
    uint64_t number = made->number = atomic_fetch_add(&watches.last, 1) + 1;
    put_in(made);
    begin(number, actor);
    return number;
}

static void send_unwatch(uint64_t number, troupe_actor target)
{
    trp_watcher here = {trp_home_here.process, trp_home_here.incarnation, number};
    trp_frame frame = {.kind = TRP_FRAME_UNWATCH, .target = target.id, .call = number};
    if (target.id == 0)
        return;
    if (is_here(target.process, target.incarnation))
        trp_life_unwatch(target.id, &here);
    else
        (void)trp_process_send(target.process, target.incarnation, &frame, 0);
}

bool trp_watch_drop(uint64_t number, uint64_t owner, void **user)
{
    watch *found;
    pthread_mutex_lock(&watches.lock);
    HASH_FIND(hh, watches.table, &number, sizeof number, found);
    if (found != NULL && owner != 0 && found->owner != owner)
        found = NULL;
    if (found != NULL)
        HASH_DEL(watches.table, found);
    pthread_mutex_unlock(&watches.lock);
    if (found == NULL)
        return false;
    if (user != NULL)
        *user = found->user;
    send_unwatch(number, found->target);
    trp_free(found);
    return true;
}

uint64_t trp_watch_find(uint64_t owner, troupe_actor target, trp_watch_told *told)
{
    uint64_t number = 0;
    pthread_mutex_lock(&watches.lock);
    for (watch *it = watches.table; it != NULL && number == 0; it = it->hh.next)
        if (it->owner == owner && it->told == told && it->target.id == target.id &&
            it->target.incarnation == target.incarnation)
            number = it->number;
    pthread_mutex_unlock(&watches.lock);
    return number;
}

// Takes out all of an owner, of those that watch actors of a dead process, or all.
static watch *take_matching(uint64_t owner, const uint64_t *incarnation)
{
    watch *taken = NULL, *it, *after;
    pthread_mutex_lock(&watches.lock);
    HASH_ITER(hh, watches.table, it, after)
    {
        if ((owner != 0 && it->owner != owner) ||
            (incarnation != NULL && it->target.incarnation != *incarnation))
            continue;
        HASH_DEL(watches.table, it);
        it->next = taken;
        taken = it;
    }
    pthread_mutex_unlock(&watches.lock);
    return taken;
}

void trp_watch_drop_all(uint64_t owner)
{
    watch *next;
    for (watch *it = take_matching(owner, NULL); it != NULL; it = next) {
        next = it->next;
        send_unwatch(it->number, it->target);
        trp_free(it->user);
        trp_free(it);
    }
}

void trp_watch_death(const uint64_t *incarnation)
{
    watch *next;
    bool known = incarnation != NULL && trp_registrar_known();
    for (watch *it = take_matching(0, incarnation); it != NULL; it = next) {
        next = it->next;
        if (known) { // It may be started again: the registrar tells when it has ended.
            uint64_t number = it->number;
            troupe_actor target = it->target;
            put_in(it);
            if (trp_registrar_watch(target, number))
                continue;
            if ((it = take_out(number)) == NULL)
                continue;
        }
        trp_down down = incarnation != NULL
                            ? trp_down_of_process(it->target)
                            : trp_down_of(it->target, TROUPE_DOWN_RUNTIME,
                                          "the runtime was stopped before the actor ended");
        tell(it, &down);
    }
}

void trp_watch_tell(const trp_watcher *watcher, const trp_down *down)
{
    if (is_here(watcher->process, watcher->incarnation)) {
        tell_number(watcher->number, down);
        return;
    }
    trp_frame frame = {.kind = TRP_FRAME_DOWN,
                       .call = watcher->number,
                       .method = (uint32_t)down->reason,
                       .schema = (uint64_t)down->signal,
                       .body = down->text,
                       .body_size = strlen(down->text)};
    (void)trp_process_send(watcher->process, watcher->incarnation, &frame, 0);
}

void trp_watch_serve(const trp_frame *frame)
{
    trp_watcher asker = {frame->from, frame->from_incarnation, frame->call};
    if (frame->kind == TRP_FRAME_WATCH) {
        trp_life_watch(frame->target, &asker);
    } else if (frame->kind == TRP_FRAME_UNWATCH) {
        trp_life_unwatch(frame->target, &asker);
    } else {
        trp_down down = trp_down_of((troupe_actor){0}, (int)frame->method, "%.*s",
                                    frame->body_size < 256 ? (int)frame->body_size : 255,
                                    frame->body_size > 0 ? (const char *)frame->body : "");
        down.signal = (int)frame->schema;
        if (down.reason < TROUPE_DOWN_NORMAL || down.reason > TROUPE_DOWN_RUNTIME)
            down.reason = TROUPE_DOWN_NO_ACTOR;
        tell_number(frame->call, &down);
    }
}
