// retain.c: actors that end when no process retains them any more. Each process counts for itself;
// the actor's own process keeps the list of processes that retain it, and releases what a dead one
// held. For an actor that may be restarted in another process, the driver does so, under the
// address that lasts.
#include <actors/ends/retain.h>

#include <actors/actor/lifecycle.h>
#include <actors/actor/registrar_client.h>
#include <actors/actor/reply.h>
#include <actors/actor/resolve.h>
#include <actors/actor/restart_in_place.h>
#include <actors/async/ask.h>
#include <actors/call/call.h>
#include <actors/class/call_error.h>
#include <actors/ref/call_table.h>
#include <pthread.h>
#include <runtime/base/error.h>
#include <runtime/base/hash.h>
#include <runtime/base/memory.h>
#include <runtime/link/peer.h>
#include <runtime/shm/process_table.h>
#include <runtime/shm/segment_guard.h>

typedef struct count_key {
    uint64_t incarnation, id;
} count_key;

// What this process retains.
typedef struct retained {
    count_key key;
    uint64_t count;
    bool at_driver; // Where it is known that this process holds it.
    UT_hash_handle hh;
} retained;

// A process that holds an actor of this one.
typedef struct holder {
    uint64_t incarnation;
    struct holder *next;
} holder;

// An actor of this process, or in the driver one that is restarted, that is counted.
typedef struct counted {
    count_key key;
    uint32_t process;
    holder *holders;
    struct counted *next; // Of those that are to end.
    UT_hash_handle hh;
} counted;

static struct {
    pthread_mutex_t lock; // Of all that follows.
    retained *retained;
    counted *counted;
} counts = {.lock = PTHREAD_MUTEX_INITIALIZER};

// ---- the actor's side

static void free_counted(counted *it)
{
    for (holder *next; it->holders != NULL; it->holders = next) {
        next = it->holders->next;
        trp_free(it->holders);
    }
    trp_free(it);
}

// Takes one hold of a process out. False: it has none. With the lock held.
static bool take_out(counted *it, uint64_t incarnation)
{
    for (holder **at = &it->holders; *at != NULL; at = &(*at)->next)
        if ((*at)->incarnation == incarnation) {
            holder *gone = *at;
            *at = gone->next;
            trp_free(gone);
            return true;
        }
    return false;
}

static count_key key_of(troupe_actor actor)
{
    return (count_key){.incarnation = actor.incarnation, .id = actor.id};
}

static bool is_here(troupe_actor actor)
{
    return actor.incarnation == trp_home_here.incarnation;
}

static void end_actor(const counted *it)
{
    troupe_actor address = {
        .id = it->key.id, .incarnation = it->key.incarnation, .process = it->process};
    (void)troupe_actor_end(address);
}

// Whether there is such an actor, which this process knows the holders of; in the driver, *actor
// becomes the address that lasts.
static bool is_known(troupe_actor *actor)
{
    if (is_here(*actor))
        return trp_actor_find(actor->id) != NULL;
    if (!trp_process_is_driver())
        return false;
    trp_arena arena = {0}, *before = trp_arena_swap(&arena);
    trp_where where = (trp_where)trp_registrar_here.find(*actor, false).where;
    (void)trp_arena_swap(before);
    trp_arena_clear(&arena);
    *actor = trp_registrar_here.origin(*actor);
    return where == TRP_WHERE_ALIVE || where == TRP_WHERE_RESTARTING;
}

// A process holds the actor from now on; `first`: the actor is counted from now on. False: it has
// ended, or was never counted.
static bool hold(troupe_actor actor, uint64_t incarnation, bool first)
{
    if (!is_known(&actor))
        return false;
    count_key key = key_of(actor);
    holder *made = trp_alloc(sizeof *made);
    counted *it, *fresh = first ? trp_alloc(sizeof *fresh) : NULL;
    pthread_mutex_lock(&counts.lock);
    HASH_FIND(hh, counts.counted, &key, sizeof key, it);
    if (it == NULL && fresh != NULL) {
        fresh->key = key;
        fresh->process = actor.process;
        TRP_HASH_ADD(hh, counts.counted, key, sizeof fresh->key, fresh);
        if (TRP_HASH_HAS(hh, fresh)) {
            it = fresh;
            fresh = NULL;
        }
    }
    bool held = it != NULL && made != NULL;
    if (held) {
        made->incarnation = incarnation;
        made->next = it->holders;
        it->holders = made;
    }
    pthread_mutex_unlock(&counts.lock);
    if (!held)
        trp_free(made);
    trp_free(fresh);
    return held;
}

static void let_go(troupe_actor actor, uint64_t incarnation)
{
    counted *it;
    if (!is_here(actor) && trp_process_is_driver())
        actor = trp_registrar_here.origin(actor);
    count_key key = key_of(actor);
    pthread_mutex_lock(&counts.lock);
    HASH_FIND(hh, counts.counted, &key, sizeof key, it);
    bool last = it != NULL && take_out(it, incarnation) && it->holders == NULL;
    if (last)
        HASH_DEL(counts.counted, it);
    pthread_mutex_unlock(&counts.lock);
    if (!last)
        return;
    end_actor(it);
    free_counted(it);
}

void trp_count_death(uint64_t incarnation)
{
    counted *it, *next, *due = NULL;
    pthread_mutex_lock(&counts.lock);
    HASH_ITER(hh, counts.counted, it, next)
    {
        bool held = false; // Several times, where its threads retained at once.
        while (take_out(it, incarnation))
            held = true;
        if (held && it->holders == NULL) {
            HASH_DEL(counts.counted, it);
            it->next = due;
            due = it;
        }
    }
    pthread_mutex_unlock(&counts.lock);
    for (; (it = due) != NULL;) {
        due = it->next;
        end_actor(it);
        free_counted(it);
    }
}

void trp_count_serve(const trp_frame *frame)
{
    troupe_actor actor = {.id = frame->target,
                          .incarnation = frame->schema,
                          .process = (frame->method >> TRP_COUNT_BITS) % TRP_PROCESSES_MAX};
    uint32_t what = frame->method & ((1u << TRP_COUNT_BITS) - 1);
    if (what == TRP_COUNT_RELEASE) {
        let_go(actor, frame->from_incarnation);
        return;
    }
    bool held = hold(actor, frame->from_incarnation, what == TRP_COUNT_BEGIN);
    trp_shape shape = trp_shape_of(&troupe_type_bool);
    trp_message *message;
    if (trp_message_asked(frame, &message) != TROUPE_OK)
        return;
    trp_message_answer(message, &shape, &held, 0);
    trp_message_free(message);
}

// ---- the holder's side

static troupe_status refused(troupe_actor actor)
{
    return troupe_fail(TROUPE_NOT_EXECUTED,
                       "actor #%llu of process %u cannot be retained: it has ended, or was not "
                       "spawned with .counted",
                       (unsigned long long)actor.id, actor.process);
}

// Who knows the actor's holders: a process.
static trp_target place_of(troupe_actor actor, bool at_driver)
{
    if (!at_driver)
        return (trp_target){
            .process = actor.process, .incarnation = actor.incarnation, .actor = actor.id};
    TRP_USE_SEGMENT((trp_target){.process = TRP_PROCESS_DRIVER});
    return (trp_target){.process = TRP_PROCESS_DRIVER,
                        .incarnation = trp_segment_process(TRP_PROCESS_DRIVER)->incarnation,
                        .actor = actor.id};
}

static troupe_status send(troupe_actor actor, const trp_target *to, uint32_t what, uint64_t call)
{
    trp_frame frame = {.kind = TRP_FRAME_COUNT,
                       .method = what | actor.process << TRP_COUNT_BITS,
                       .schema = actor.incarnation,
                       .target = actor.id,
                       .call = call};
    return trp_process_send(to->process, to->incarnation, &frame, 0);
}

static void send_release(troupe_actor actor, bool at_driver)
{
    trp_target target = place_of(actor, at_driver);
    if (target.incarnation == trp_home_here.incarnation)
        let_go(actor, trp_home_here.incarnation);
    else
        (void)send(actor, &target, TRP_COUNT_RELEASE, 0);
}

static troupe_status ask_place(troupe_actor actor, bool first, bool at_driver)
{
    bool held = false;
    trp_target target = place_of(actor, at_driver);
    if (target.incarnation == trp_home_here.incarnation)
        return hold(actor, trp_home_here.incarnation, first) ? TROUPE_OK : refused(actor);
    uint64_t call = trp_entry_call(trp_type_note(&troupe_type_bool), &target, 0);
    if (call == TRP_REF_NO_MEMORY)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a call");
    troupe_ref ref = {.id = call};
    troupe_status status = send(actor, &target, first ? TRP_COUNT_BEGIN : TRP_COUNT_RETAIN, call);
    if (status != TROUPE_OK) {
        troupe_ref_drop(ref);
        return status;
    }
    status = trp_ask_within(ref, "an actor that is to be retained",
                            trp_process_options()->request_timeout_ms, NULL, NULL);
    if (status == TROUPE_OK)
        status = troupe_get(bool, ref, &held);
    if (status != TROUPE_OK) { // The hold may be granted all the same, and nobody would have it.
        troupe_error failure = *troupe_last_error();
        send_release(actor, at_driver);
        return trp_error_set(&failure);
    }
    return held ? TROUPE_OK : refused(actor);
}

// *at_driver: for the first hold, where the actor's holders are known from now on; otherwise it
// becomes where they are, which is the driver only if there are actors that are restarted.
static troupe_status ask_hold(troupe_actor actor, bool first, bool *at_driver)
{
    bool maybe = actor.process != TRP_PROCESS_DRIVER && trp_registrar_known();
    if (!first)
        *at_driver = maybe && ask_place(actor, false, true) == TROUPE_OK;
    return !first && *at_driver ? TROUPE_OK : ask_place(actor, first, *at_driver);
}

// Counts one more, or the first, in `fresh` (NULL: none). False: this process does not hold the
// actor, or there was no memory.
static bool count_up(troupe_actor actor, retained *fresh, bool *added)
{
    count_key key = key_of(actor);
    retained *it;
    *added = false;
    pthread_mutex_lock(&counts.lock);
    HASH_FIND(hh, counts.retained, &key, sizeof key, it);
    if (it == NULL && fresh != NULL) {
        fresh->key = key;
        TRP_HASH_ADD(hh, counts.retained, key, sizeof fresh->key, fresh);
        *added = TRP_HASH_HAS(hh, fresh);
        it = *added ? fresh : NULL;
    }
    if (it != NULL)
        it->count++;
    pthread_mutex_unlock(&counts.lock);
    return it != NULL;
}

static troupe_status no_memory(void)
{
    return troupe_fail(TROUPE_NO_MEMORY, "no memory to retain an actor");
}

static troupe_status retain(troupe_actor actor, bool first, bool at_driver)
{
    bool added;
    TROUPE_TRY(trp_process_check());
    if (count_up(actor, NULL, &added))
        return TROUPE_OK;
    retained *fresh = trp_alloc(sizeof *fresh);
    if (fresh == NULL)
        return no_memory();
    troupe_status status = ask_hold(actor, first, &at_driver);
    if (status != TROUPE_OK) {
        trp_free(fresh);
        return status;
    }
    fresh->at_driver = at_driver;
    bool held = count_up(actor, fresh, &added);
    if (!added) { // Another thread was faster: this process needs one hold only.
        trp_free(fresh);
        send_release(actor, at_driver);
    }
    return held ? TROUPE_OK : no_memory();
}

troupe_status trp_count_begin(troupe_actor actor, bool restarted)
{
    return retain(actor, true, restarted && actor.process != TRP_PROCESS_DRIVER);
}

troupe_status(troupe_actor_retain)(troupe_actor actor)
{
    TROUPE_TRY(trp_actor_at_home(actor, "retained"));
    return actor.id != 0 ? retain(actor, false, false) : refused(actor);
}

troupe_status(troupe_actor_release)(troupe_actor actor)
{
    count_key key = key_of(actor);
    retained *it;
    TROUPE_TRY(trp_process_check());
    pthread_mutex_lock(&counts.lock);
    HASH_FIND(hh, counts.retained, &key, sizeof key, it);
    bool known = it != NULL, last = known && --it->count == 0;
    if (last)
        HASH_DEL(counts.retained, it);
    pthread_mutex_unlock(&counts.lock);
    if (!known)
        return troupe_fail(TROUPE_INVALID, "actor #%llu of process %u is not retained here",
                           (unsigned long long)actor.id, actor.process);
    if (last) {
        send_release(actor, it->at_driver);
        trp_free(it);
    }
    return TROUPE_OK;
}

void trp_count_clear(void)
{
    retained *it, *next;
    counted *one, *other;
    pthread_mutex_lock(&counts.lock);
    HASH_ITER(hh, counts.retained, it, next)
    {
        HASH_DEL(counts.retained, it);
        trp_free(it);
    }
    HASH_ITER(hh, counts.counted, one, other)
    {
        HASH_DEL(counts.counted, one);
        free_counted(one);
    }
    pthread_mutex_unlock(&counts.lock);
}
