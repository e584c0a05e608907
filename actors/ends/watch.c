// watch.c: the watches of this process: what waits here for the end of which actor, wherever that
// lives. A watch leaves the table once, and the thread that took it out reports the end: so it is
// reported once, whether by the actor's process, by that one's death, or because the watch could
// not be sent.
#include <actors/actor/lifecycle.h>
#include <actors/actor/registrar_client.h>
#include <actors/actor/resolve.h>
#include <actors/actor/restart_in_place.h>

#include <actors/ends/watch.h>
#include <pthread.h>
#include <runtime/base/hash.h>
#include <runtime/base/memory.h>
#include <runtime/link/dispatch.h>
#include <runtime/link/peer.h>
#include <runtime/shm/process_table.h>
#include <runtime/shm/segment_guard.h>
#include <stdio.h>
#include <string.h>

// What there is once at most, if it was asked for by trp_watch_once.
typedef struct pair_key {
    uint64_t owner, incarnation, id;
    trp_watch_told *told;
} pair_key;

typedef struct watch {
    uint64_t number;
    troupe_actor target;
    troupe_actor near; // The same, as it is reached from here.
    uint64_t owner;
    trp_watch_told *told;
    void *user;
    struct watch *next;            // Among those that are being told.
    struct watch *before, *behind; // Of the same owner.
    bool once;
    pair_key pair;           // If `once`.
    UT_hash_handle hh;       // By number.
    UT_hash_handle by_owner; // Of an owner's first one.
    UT_hash_handle by_pair;  // Of those that are there `once`.
} watch;

static struct {
    pthread_mutex_t lock; // Of all that follows.
    watch *table, *owners, *pairs;
    _Atomic uint64_t last;
} watches = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_here(uint32_t process, uint64_t incarnation)
{
    return process == trp_home_here.process && incarnation == trp_home_here.incarnation;
}

// ---- the table: with the lock held

// In its owner's list behind the first one, which is in the table of owners. False: no memory.
static bool add_to_owner(watch *it)
{
    watch *first = NULL;
    if (it->owner == 0)
        return true;
    HASH_FIND(by_owner, watches.owners, &it->owner, sizeof it->owner, first);
    it->before = first;
    it->behind = first != NULL ? first->behind : NULL;
    if (it->behind != NULL)
        it->behind->before = it;
    if (first != NULL) {
        first->behind = it;
        return true;
    }
    TRP_HASH_ADD(by_owner, watches.owners, owner, sizeof it->owner, it);
    return TRP_HASH_HAS(by_owner, it);
}

static bool add(watch *it)
{
    TRP_HASH_ADD(hh, watches.table, number, sizeof it->number, it);
    bool added = TRP_HASH_HAS(hh, it), paired = added && it->once;
    if (paired) {
        TRP_HASH_ADD(by_pair, watches.pairs, pair, sizeof it->pair, it);
        added = paired = TRP_HASH_HAS(by_pair, it);
    }
    if (added && add_to_owner(it))
        return true;
    if (paired)
        HASH_DELETE(by_pair, watches.pairs, it);
    if (TRP_HASH_HAS(hh, it))
        HASH_DEL(watches.table, it);
    return false;
}

static void take(watch *it)
{
    watch *behind = it->behind;
    HASH_DEL(watches.table, it);
    if (it->once)
        HASH_DELETE(by_pair, watches.pairs, it);
    if (it->owner == 0)
        return;
    if (behind != NULL)
        behind->before = it->before;
    if (it->before != NULL) {
        it->before->behind = behind;
        return;
    }
    if (behind !=
        NULL) // Before the other leaves it: into one that is not empty it needs no memory.
        TRP_HASH_ADD(by_owner, watches.owners, owner, sizeof behind->owner, behind);
    if (watches.owners != NULL) // It is in there.
        HASH_DELETE(by_owner, watches.owners, it);
}

// ---- one watch

static bool put_in(watch *it)
{
    pthread_mutex_lock(&watches.lock);
    bool added = add(it);
    pthread_mutex_unlock(&watches.lock);
    return added;
}

static watch *take_out(uint64_t number)
{
    watch *found;
    pthread_mutex_lock(&watches.lock);
    HASH_FIND(hh, watches.table, &number, sizeof number, found);
    if (found != NULL)
        take(found);
    pthread_mutex_unlock(&watches.lock);
    return found;
}

// Whether a process may say how the watched actor has ended: the actor's own, or the driver, which
// looks after those that are started again.
static bool may_tell(const watch *it, const trp_frame *frame)
{
    TRP_USE_SEGMENT(false);
    const trp_process_row *driver = trp_segment_process(TRP_PROCESS_DRIVER);
    bool by_driver = frame->from == TRP_PROCESS_DRIVER &&
                     frame->from_incarnation == driver->incarnation &&
                     !trp_process_is_far(it->near.process);
    return by_driver || it->near.incarnation == frame->from_incarnation;
}

// The watch that a DOWN is about; NULL: there is none any more, or it is not the sender's to tell.
static watch *take_told(const trp_frame *frame)
{
    watch *found;
    pthread_mutex_lock(&watches.lock);
    HASH_FIND(hh, watches.table, &frame->call, sizeof frame->call, found);
    bool refused = found != NULL && !may_tell(found, frame);
    if (refused)
        found = NULL;
    if (found != NULL)
        take(found);
    pthread_mutex_unlock(&watches.lock);
    if (refused)
        trp_process_refused("it reports the end of an actor of another process");
    return found;
}

static bool is_in(uint64_t number)
{
    watch *found;
    pthread_mutex_lock(&watches.lock);
    HASH_FIND(hh, watches.table, &number, sizeof number, found);
    pthread_mutex_unlock(&watches.lock);
    return found != NULL;
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

// Asks the actor's process to tell us. An actor that cannot be reached has ended for us.
static void begin(uint64_t number, troupe_actor target)
{
    if (target.node != 0) { // The thread's last error says why.
        trp_down down = trp_down_of(target, TROUPE_DOWN_NODE, "%.255s", troupe_last_error()->text);
        tell_number(number, &down);
        return;
    }
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
        (trp_process_is_far(target.process) ||
         !trp_registrar_watch(target, number))) { // It may live on elsewhere.
        trp_down down = trp_down_of_process(target);
        tell_number(number, &down);
    }
}

static troupe_status no_memory(void)
{
    return troupe_fail(TROUPE_NO_MEMORY, "no memory to watch an actor");
}

static watch *make(troupe_actor actor, uint64_t owner, trp_watch_told *told, void *user)
{
    watch *made = trp_alloc(sizeof *made);
    if (made == NULL) {
        (void)no_memory();
        return NULL;
    }
    made->number = atomic_fetch_add(&watches.last, 1) + 1;
    made->target = made->near = actor;
    (void)trp_actor_near(&made->near); // If it fails, `node` says so: see begin.
    made->owner = owner;
    made->told = told;
    made->user = user;
    return made;
}

uint64_t trp_watch(troupe_actor actor, uint64_t owner, trp_watch_told *told, void *user)
{
    watch *made = make(actor, owner, told, user);
    if (made == NULL)
        return 0;
    uint64_t number = made->number;
    troupe_actor near = made->near;
    if (!put_in(made)) {
        trp_free(made);
        (void)no_memory();
        return 0;
    }
    begin(number, near);
    return number;
}

static watch *find_pair(const pair_key *key)
{
    watch *found;
    HASH_FIND(by_pair, watches.pairs, key, sizeof *key, found);
    return found;
}

static pair_key pair_of(uint64_t owner, troupe_actor target, trp_watch_told *told)
{
    return (pair_key){
        .owner = owner, .incarnation = target.incarnation, .id = target.id, .told = told};
}

troupe_status trp_watch_once(troupe_actor actor, uint64_t owner, trp_watch_told *told)
{
    watch *made = make(actor, owner, told, NULL);
    if (made == NULL)
        return TROUPE_NO_MEMORY;
    uint64_t number = made->number;
    troupe_actor near = made->near;
    made->once = true;
    made->pair = pair_of(owner, actor, told);
    pthread_mutex_lock(&watches.lock);
    bool known = find_pair(&made->pair) != NULL;
    bool added = !known && add(made);
    pthread_mutex_unlock(&watches.lock);
    if (added)
        begin(number, near);
    else
        trp_free(made);
    return known || added ? TROUPE_OK : no_memory();
}

static void send_unwatch(uint64_t number, troupe_actor target)
{
    trp_watcher here = {trp_home_here.process, trp_home_here.incarnation, number};
    trp_frame frame = {.kind = TRP_FRAME_UNWATCH, .target = target.id, .call = number};
    if (target.id == 0)
        return;
    if (is_here(target.process, target.incarnation))
        trp_life_unwatch(target.id, &here);
    else if (trp_process_send(target.process, target.incarnation, &frame, 0) != TROUPE_OK)
        trp_registrar_unwatch(target, number); // The watch may have been handed over.
}

bool trp_watch_drop(uint64_t number, uint64_t owner, void **user)
{
    watch *found;
    pthread_mutex_lock(&watches.lock);
    HASH_FIND(hh, watches.table, &number, sizeof number, found);
    if (found != NULL && owner != 0 && found->owner != owner)
        found = NULL;
    if (found != NULL)
        take(found);
    pthread_mutex_unlock(&watches.lock);
    if (found == NULL)
        return false;
    if (user != NULL)
        *user = found->user;
    send_unwatch(number, found->near);
    trp_free(found);
    return true;
}

uint64_t trp_watch_find(uint64_t owner, troupe_actor target, trp_watch_told *told)
{
    pair_key key = pair_of(owner, target, told);
    pthread_mutex_lock(&watches.lock);
    const watch *found = find_pair(&key);
    uint64_t number = found != NULL ? found->number : 0;
    pthread_mutex_unlock(&watches.lock);
    return number;
}

// Takes out those that watch actors of a dead process, or all.
static watch *take_lost(const uint64_t *incarnation)
{
    watch *taken = NULL, *it, *after;
    pthread_mutex_lock(&watches.lock);
    HASH_ITER(hh, watches.table, it, after)
    {
        if (incarnation != NULL && it->target.incarnation != *incarnation)
            continue;
        take(it);
        it->next = taken;
        taken = it;
    }
    pthread_mutex_unlock(&watches.lock);
    return taken;
}

static watch *take_owned(uint64_t owner)
{
    watch *taken = NULL, *first;
    pthread_mutex_lock(&watches.lock);
    HASH_FIND(by_owner, watches.owners, &owner, sizeof owner, first);
    while (first != NULL) { // From behind, so that the first stays the first.
        watch *it = first->behind != NULL ? first->behind : first;
        take(it);
        if (it == first)
            first = NULL;
        it->next = taken;
        taken = it;
    }
    pthread_mutex_unlock(&watches.lock);
    return taken;
}

void trp_watch_drop_all(uint64_t owner)
{
    watch *next;
    for (watch *it = take_owned(owner); it != NULL; it = next) {
        next = it->next;
        send_unwatch(it->number, it->near);
        trp_free(it->user);
        trp_free(it);
    }
}

void trp_watch_death(const uint64_t *incarnation)
{
    watch *next;
    bool known = incarnation != NULL && trp_registrar_known();
    for (watch *it = take_lost(incarnation); it != NULL; it = next) {
        next = it->next;
        uint64_t number = it->number;
        troupe_actor target = it->target;
        // It may be started again: the registrar tells when it has ended.
        if (known && !trp_process_is_far(it->near.process) && put_in(it)) {
            if (trp_registrar_watch(target, number)) {
                if (!is_in(number)) // Dropped or told meanwhile, before the registrar had it.
                    trp_registrar_unwatch(target, number);
                continue;
            }
            if ((it = take_out(number)) == NULL)
                continue;
        }
        trp_down down = incarnation != NULL
                            ? trp_down_of_process(it->near)
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
        if (down.reason < TROUPE_DOWN_NORMAL || down.reason > TROUPE_DOWN_NODE)
            down.reason = TROUPE_DOWN_NO_ACTOR;
        watch *told = take_told(frame);
        if (told != NULL)
            tell(told, &down);
    }
}
