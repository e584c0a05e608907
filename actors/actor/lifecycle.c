// lifecycle.c: why actors end: the reason that was given, which watchers are told at the last turn,
// and what is remembered afterwards. One lock for all: an actor without watchers that ends as usual
// never takes it.
#include <actors/actor/lifecycle.h>

#include <actors/actor/death_record.h>
#include <actors/actor/invoke.h>
#include <actors/actor/registrar_client.h>
#include <actors/actor/restart_in_place.h>
#include <actors/class/call_error.h>
#include <pthread.h>
#include <runtime/base/memory.h>
#include <runtime/base/printable.h>
#include <runtime/link/dispatch.h>
#include <runtime/shm/process_table.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

trp_life_listener trp_life_told;

enum { REMEMBERED = 1024 };

typedef struct ending {
    uint64_t id, incarnation; // 0: none.
    int reason, signal;
    char text[256];
    int next; // In the list of its bucket.
} ending;

static struct {
    pthread_mutex_t lock;
    ending ends[REMEMBERED]; // The newest of those that had something to tell, as a ring.
    size_t oldest;
    int buckets[REMEMBERED]; // Lists by id, as places in `ends` plus 1; 0: the end of a list.
} lives TRP_VAST = {.lock = PTHREAD_MUTEX_INITIALIZER};

// In place of the record of an actor that ended without one.
static trp_life over = {.told = true};

// ---- ends that are remembered, with the lock held

static int *bucket_of(uint64_t id)
{
    return &lives.buckets[(id ^ id >> TRP_SLOT_INDEX_BITS) % REMEMBERED];
}

static const ending *find_ending(uint64_t id, uint64_t incarnation)
{
    for (int at = *bucket_of(id); at != 0; at = lives.ends[at - 1].next)
        if (lives.ends[at - 1].id == id && lives.ends[at - 1].incarnation == incarnation)
            return &lives.ends[at - 1];
    return NULL;
}

static void forget(const ending *old)
{
    int *link = bucket_of(old->id);
    while (*link != 0 && &lives.ends[*link - 1] != old)
        link = &lives.ends[*link - 1].next;
    if (*link != 0)
        *link = old->next;
}

// In place of the oldest.
static void remember(uint64_t id, const trp_down *down, const char *text)
{
    ending *it = &lives.ends[lives.oldest];
    forget(it);
    *it = (ending){.id = id,
                   .incarnation = trp_home_here.incarnation,
                   .reason = down->reason,
                   .signal = down->signal,
                   .next = *bucket_of(id)};
    snprintf(it->text, sizeof it->text, "%s", text);
    *bucket_of(id) = (int)lives.oldest + 1;
    lives.oldest = (lives.oldest + 1) % REMEMBERED;
}

// ---- the news

const char *troupe_down_reason_name(int reason)
{
    static const char *const names[] = {
        [TROUPE_DOWN_NORMAL] = "TROUPE_DOWN_NORMAL",
        [TROUPE_DOWN_ERROR] = "TROUPE_DOWN_ERROR",
        [TROUPE_DOWN_KILLED] = "TROUPE_DOWN_KILLED",
        [TROUPE_DOWN_CRASHED] = "TROUPE_DOWN_CRASHED",
        [TROUPE_DOWN_NO_MEMORY] = "TROUPE_DOWN_NO_MEMORY",
        [TROUPE_DOWN_NEIGHBOUR] = "TROUPE_DOWN_NEIGHBOUR",
        [TROUPE_DOWN_NO_ACTOR] = "TROUPE_DOWN_NO_ACTOR",
        [TROUPE_DOWN_RUNTIME] = "TROUPE_DOWN_RUNTIME",
        [TROUPE_DOWN_NODE] = "TROUPE_DOWN_NODE",
    };
    const char *name =
        reason > 0 && reason < (int)(sizeof names / sizeof names[0]) ? names[reason] : NULL;
    return name != NULL ? name : "an unknown reason";
}

trp_down trp_down_of(troupe_actor actor, int reason, const char *format, ...)
{
    trp_down down = {.actor = actor, .reason = reason};
    va_list rest;
    va_start(rest, format);
    vsnprintf(down.text, sizeof down.text, format, rest);
    va_end(rest);
    trp_printable_clean(down.text, sizeof down.text); // It may come from another process.
    return down;
}

trp_down trp_down_of_process(troupe_actor actor)
{
    char cause[112] = "has ended";
    int number;
    uint64_t culprit;
    char words[112];
    uint32_t last = trp_process_last_words(actor.process, actor.incarnation, words, sizeof words);
    if (last != 0)
        return trp_down_of(actor, (int)last, "%s", words);
    (void)trp_process_alive(actor.process, actor.incarnation, cause);
    if (trp_process_is_far(actor.process))
        return trp_down_of(
            actor, strstr(cause, "its node") != NULL ? TROUPE_DOWN_NODE : TROUPE_DOWN_CRASHED,
            "%s %s", trp_process_text(actor.process).text, cause);
    trp_process_end_kind kind =
        trp_process_end(actor.process, actor.incarnation, &number, &culprit);
    bool other = culprit != 0 && culprit != actor.id;
    int reason = kind == TRP_END_KILLED   ? TROUPE_DOWN_KILLED
                 : kind == TRP_END_MEMORY ? TROUPE_DOWN_NO_MEMORY
                 : kind == TRP_END_UNKNOWN && strstr(cause, "reused") != NULL ? TROUPE_DOWN_NO_ACTOR
                 : other ? TROUPE_DOWN_NEIGHBOUR
                         : TROUPE_DOWN_CRASHED;
    trp_down down =
        other ? trp_down_of(actor, reason,
                            "neighbour crashed: its process %u (pid %d) %s in a method of actor "
                            "#%llu",
                            actor.process, trp_process_pid(actor.process), cause,
                            (unsigned long long)culprit)
              : trp_down_of(actor, reason, "its process %u (pid %d) %s", actor.process,
                            trp_process_pid(actor.process), cause);
    down.signal = kind == TRP_END_SIGNALLED ? number : 0;
    return down;
}

trp_down trp_down_of_grave(troupe_actor actor)
{
    trp_down down = {0};
    pthread_mutex_lock(&lives.lock);
    const ending *it = find_ending(actor.id, actor.incarnation);
    if (it != NULL) {
        down = trp_down_of(actor, it->reason, "%s", it->text);
        down.signal = it->signal;
    }
    pthread_mutex_unlock(&lives.lock);
    if (down.reason != 0 && down.text[0] != '\0')
        return down;
    trp_actor_state state = TRP_ACTOR_OPEN;
    troupe_error failure = trp_actor_obituary_state(actor.id, &state);
    int reason = down.reason != 0             ? down.reason
                 : state == TRP_ACTOR_ENDED   ? TROUPE_DOWN_NORMAL
                 : state == TRP_ACTOR_KILLED  ? TROUPE_DOWN_KILLED
                 : state == TRP_ACTOR_FAILED  ? TROUPE_DOWN_ERROR
                 : state == TRP_ACTOR_STOPPED ? TROUPE_DOWN_RUNTIME
                                              : TROUPE_DOWN_NO_ACTOR;
    return trp_down_of(actor, reason, "%.255s", failure.text);
}

troupe_down trp_down_public(const trp_down *down, uint64_t monitor)
{
    return (troupe_down){.actor = down->actor,
                         .monitor = monitor,
                         .reason = down->reason,
                         .signal = down->signal,
                         .text = troupe_arena_text(down->text)};
}

// ---- the record

trp_life *trp_life_lock(trp_actor *actor, uint64_t id, bool make)
{
    pthread_mutex_lock(&lives.lock);
    trp_life *life = atomic_load(&actor->life), *made = NULL;
    if (life == NULL && make && (made = trp_alloc(sizeof *made)) != NULL) {
        // Its last turn, without this lock, may be faster.
        life = made;
        trp_life *none = NULL;
        if (!atomic_compare_exchange_strong(&actor->life, &none, made)) {
            trp_free(made);
            life = none;
            made = NULL;
        }
    }
    bool there = trp_actor_find(id) == actor; // Else another one may have its place by now.
    if (life != NULL && !life->told && there)
        return life;
    if (made != NULL && !there) {
        atomic_store(&actor->life, NULL);
        trp_free(made);
    }
    pthread_mutex_unlock(&lives.lock);
    return NULL;
}

void trp_life_unlock(trp_life *life)
{
    if (life != NULL)
        pthread_mutex_unlock(&lives.lock);
}

struct trp_policy *trp_life_policy(trp_actor *actor)
{
    pthread_mutex_lock(&lives.lock);
    const trp_life *life = atomic_load(&actor->life);
    struct trp_policy *policy = life != NULL ? life->policy : NULL;
    pthread_mutex_unlock(&lives.lock);
    return policy;
}

void trp_life_say(trp_actor *actor, uint64_t id, int reason, int signal, const char *text)
{
    trp_life *life = trp_life_lock(actor, id, true);
    if (life != NULL && life->reason == 0) {
        life->reason = reason;
        life->signal = signal;
        snprintf(life->text, sizeof life->text, "%s", text != NULL ? text : "");
    }
    trp_life_unlock(life);
}

static void add_words(troupe_error *failure, const char *words)
{
    size_t size = strlen(failure->text);
    if (words[0] != '\0')
        snprintf(failure->text + size, sizeof failure->text - size, ": %s", words);
}

static void explain_grave(uint64_t id, troupe_error *failure)
{
    pthread_mutex_lock(&lives.lock);
    const ending *it = find_ending(id, trp_home_here.incarnation);
    if (it != NULL)
        add_words(failure, it->text);
    pthread_mutex_unlock(&lives.lock);
}

void trp_life_explain(uint64_t id, troupe_error *failure)
{
    trp_actor *actor = trp_actor_find(id);
    trp_life *life = actor != NULL ? trp_life_lock(actor, id, false) : NULL;
    if (life != NULL)
        add_words(failure, life->text);
    trp_life_unlock(life);
    if (life == NULL)
        explain_grave(id, failure);
}

// ---- who watches

static trp_watchers *watchers_of(trp_life *life, const trp_watcher *watcher)
{
    return trp_process_is_far(watcher->process) ? &life->far : &life->near;
}

// Drops watchers whose processes have gone, and makes room for one more, of at most `most`. With
// the lock held.
static bool make_room(trp_watchers *in, size_t most)
{
    if (in->count < in->capacity)
        return true;
    size_t kept = 0;
    for (size_t i = 0; i < in->count; i++)
        if (trp_process_alive(in->all[i].process, in->all[i].incarnation, NULL))
            in->all[kept++] = in->all[i];
    in->count = kept;
    if (kept <= in->capacity / 2 && kept < in->capacity)
        return true;
    size_t capacity = in->capacity == 0 ? 4 : in->capacity * 2;
    if (capacity > most)
        return kept < in->capacity;
    trp_watcher *grown = trp_realloc(in->all, capacity * sizeof *grown);
    if (grown == NULL)
        return false;
    in->all = grown;
    in->capacity = capacity;
    return true;
}

static bool add_watcher(trp_life *life, const trp_watcher *watcher)
{
    trp_watchers *in = watchers_of(life, watcher);
    if (!make_room(in, in == &life->far ? (size_t)TRP_WATCHERS_FAR_MAX : SIZE_MAX))
        return false;
    in->all[in->count++] = *watcher;
    return true;
}

void trp_life_watch(uint64_t id, const trp_watcher *watcher)
{
    troupe_actor address = {
        .id = id, .incarnation = trp_home_here.incarnation, .process = trp_home_here.process};
    trp_actor *actor = trp_actor_find(id);
    trp_life *life = actor != NULL ? trp_life_lock(actor, id, true) : NULL;
    bool added = life != NULL && add_watcher(life, watcher);
    trp_life_unlock(life);
    // The process of an isolated actor that has ended dies, and that tells the others.
    char words[112];
    bool dying = watcher->incarnation != trp_home_here.incarnation &&
                 trp_process_last_words(trp_home_here.process, trp_home_here.incarnation, words,
                                        sizeof words) != 0;
    if (life != NULL && !added && trp_process_is_far(watcher->process))
        trp_process_refused("it watches an actor that has too many watchers of other nodes");
    if (added || dying)
        return;
    trp_down down = life != NULL ? trp_down_of(address, TROUPE_DOWN_NO_ACTOR,
                                               "the actor cannot be watched: it has too many "
                                               "watchers, or there is no memory")
                                 : trp_down_of_grave(address);
    trp_life_told.tell(watcher, &down);
}

static bool leave_at(trp_watchers *in, size_t at, const trp_watcher *watcher)
{
    if (at >= in->count || in->all[at].number != watcher->number ||
        in->all[at].incarnation != watcher->incarnation)
        return false;
    in->all[at] = in->all[--in->count];
    in->left = at;
    return true;
}

// Actors that were linked in a row end in a row, forwards or backwards: the search goes both ways
// from where the last one was.
void trp_life_unwatch(uint64_t id, const trp_watcher *watcher)
{
    trp_actor *actor = trp_actor_find(id);
    trp_life *life = actor != NULL ? trp_life_lock(actor, id, false) : NULL;
    trp_watchers none = {0}, *in = life != NULL ? watchers_of(life, watcher) : &none;
    size_t count = in->count;
    if (in->left > count)
        in->left = count;
    for (size_t i = 0; i <= count; i++)
        if (leave_at(in, in->left + i, watcher) ||
            (i <= in->left && leave_at(in, in->left - i, watcher)))
            break;
    trp_life_unlock(life);
}

// ---- the end

static trp_down describe(trp_actor *actor, const trp_life *life)
{
    troupe_actor address = trp_actor_address(actor);
    if (life->reason != 0) {
        trp_down said = trp_down_of(address, life->reason, "%s",
                                    life->text[0] != '\0' ? life->text : "has ended");
        said.signal = life->signal;
        return said;
    }
    const trp_actor_extra *extra = actor->extra;
    switch (trp_phase_state(atomic_load(&actor->phase))) {
    case TRP_ACTOR_KILLED:
        return trp_down_of(address, TROUPE_DOWN_KILLED, "was killed");
    case TRP_ACTOR_FAILED:
        return trp_down_of(address, TROUPE_DOWN_ERROR, "could not be started: %.200s",
                           extra != NULL && extra->failed ? extra->failure.text : "no memory");
    case TRP_ACTOR_STOPPED:
        return trp_down_of(address, TROUPE_DOWN_RUNTIME, "ended with the runtime");
    default:
        return trp_down_of(address, TROUPE_DOWN_NORMAL, "has ended");
    }
}

// And frees them. An isolated actor has gone when its process has: that death tells the other
// processes.
static void tell_watchers(const trp_actor *actor, trp_watchers *watchers, const trp_down *down)
{
    for (size_t i = 0; i < watchers->count; i++)
        if (!actor->pinned || watchers->all[i].incarnation == trp_home_here.incarnation)
            trp_life_told.tell(&watchers->all[i], down);
    trp_free(watchers->all);
}

void trp_life_finish(trp_actor *actor)
{
    uint64_t id = trp_actor_id(actor);
    trp_life *none, *life;
    do { // Again if somebody took a record back that was meant for another actor.
        none = NULL;
        if (!actor->pinned && atomic_compare_exchange_strong(&actor->life, &none, &over))
            return;
        life = trp_life_lock(actor, id, actor->pinned);
    } while (life == NULL && !actor->pinned && atomic_load(&actor->life) == NULL);
    if (life == NULL)
        return;
    trp_down down = describe(actor, life);
    // One that could not be started again may be tried once more.
    trp_actor_state state = trp_phase_state(atomic_load(&actor->phase));
    bool final = state != TRP_ACTOR_FAILED && state != TRP_ACTOR_STOPPED;
    if (actor->pinned)
        trp_process_say_last((uint32_t)down.reason, down.text, final);
    life->told = true;
    trp_watchers near = life->near, far = life->far;
    bool watches = life->watches, restarted = life->policy != NULL;
    troupe_actor origin = restarted ? life->policy->origin : (troupe_actor){0};
    life->near = life->far = (trp_watchers){0};
    remember(id, &down, life->text[0] == '\0' ? "" : down.text);
    trp_life_unlock(life);
    if (restarted && final)
        trp_registrar_ended(origin, &down);
    tell_watchers(actor, &near, &down);
    tell_watchers(actor, &far, &down);
    if (watches)
        trp_life_told.ended(id);
}

void trp_life_free(trp_actor *actor)
{
    trp_life *life = atomic_load(&actor->life);
    if (life != NULL && life != &over) {
        pthread_mutex_lock(&lives.lock); // Late ones may look at it.
        trp_policy_free(life);
        trp_free(life->near.all);
        trp_free(life->far.all);
        trp_free(life);
        atomic_store(&actor->life, NULL);
        pthread_mutex_unlock(&lives.lock);
    } else {
        (void)atomic_compare_exchange_strong(&actor->life, &life, NULL);
    }
}

static bool is_same(troupe_actor one, troupe_actor other)
{
    return one.id == other.id && one.incarnation == other.incarnation;
}

bool trp_life_is_self(troupe_actor actor)
{
    trp_actor *self = trp_run_actor();
    return self != NULL &&
           (is_same(actor, trp_actor_address(self)) || is_same(actor, trp_policy_address(self)));
}

bool trp_life_post(uint64_t id, const trp_method *method, const void *args)
{
    trp_actor *actor = trp_actor_find(id);
    if (actor == NULL)
        return false;
    trp_message *message = trp_message_create(TRP_MESSAGE_CALL, method->args.type->size);
    bool posted = message != NULL;
    if (posted) {
        message->method = method;
        message->weight = method->args.type->size;
        posted = trp_message_copy_args(message, &method->args, args) == TROUPE_OK;
    }
    if (posted)
        return trp_actor_deliver(actor, id, message);
    trp_message_free(message);
    return false;
}

bool trp_life_post_to(troupe_actor to, const troupe_class *row, size_t method, const void *args)
{
    const trp_class *class_ = trp_class_of(row);
    return class_ != NULL && to.id != 0 && trp_is_here(&to) &&
           trp_life_post(to.id, &class_->methods[method], args);
}
