// deadlock_probe.c: see actor/deadlock_probe.h.
//
// A wait is known by the number of its call, which never comes again in its process: a thread that
// waits for the same call at two moments has waited all the time between. The second probe starts
// after the first has come back, so where both have met the same waits, all of those were on at one
// moment. What could still be under way then is an answer that was sent before the first probe
// came: but on its link it is ahead of the word that the probe was seen.
//
// Of several that probe one ring, the one with the smallest number is to find it, so that one wait
// alone is ended; probes of others are dropped where they meet it.
#include <actors/actor/deadlock_probe.h>

#include <actors/actor/actor.h>
#include <actors/actor/async_hooks.h>
#include <actors/actor/death_record.h>
#include <actors/actor/invoke.h>
#include <actors/actor/task_executor.h>
#include <actors/ref/waiter.h>
#include <actors/sched/wait_notes.h>
#include <runtime/base/buffer.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/codec/msgpack.h>
#include <runtime/link/dispatch.h>
#include <runtime/link/peer.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <string.h>

enum {
    FIRST_MS = 50,
    LAST_MS = 1000,     // Between two probes of one wait: 50, 100, ... so many milliseconds.
    HOPS_MAX = 1 << 16, // A probe that is caught in a ring of others goes no further.
    TEXT_MAX = 320,     // Of its description.
    PLACES = 16384, // Of each table; who finds a place taken takes it over, and tries again later.
    // Of this process that are looked at: TRP_BLOCKED_MAX threads of the scheduler, as many of what
    // runs beside (async/side_thread.c), and three times both for those that one actor has for
    // itself and the user's. Of a wait beyond, a ring may be found by two, who end two waits.
    WAITS_MAX = 2 * TRP_BLOCKED_MAX * 4,
    FIELDS = 6,
};

typedef enum probe_word { SEEN, FIRST, SECOND } probe_word; // The frame's `method`.

typedef struct probe {
    probe_word round;
    uint64_t serial;
    uint64_t origin, call; // The process, by incarnation, that asks, and the call that it asks for.
    uint64_t hash;         // Of the waits that were met.
    uint64_t hops;
    char text[TEXT_MAX];
} probe;

static struct {
    pthread_mutex_t lock; // Of all that follows.
    struct {
        uint64_t call, serial, hash;
        bool back;          // The first probe is, with that hash;
        char *ring;         // the second too.
        trp_waiter *waiter; // Who is to be woken then; NULL: it waits no more.
    } asked[PLACES];
    // The word that a process has seen the first probe, and has not answered the call before that.
    struct {
        uint64_t call, serial, origin;
        bool come;
        probe *held; // The second one, which was faster: it waits for the word. NULL: none.
    } seen[PLACES];
} probes TRP_VAST = {.lock = PTHREAD_MUTEX_INITIALIZER};

// ---- the waits of this process

// The call behind a wait, if only its target's going on can end it; 0: it is none such.
static uint64_t edge_of(uint64_t call, trp_target *target)
{
    trp_entry *entry = trp_entry_lock(call);
    if (entry == NULL)
        return 0;
    bool waits = entry->kind == TRP_ENTRY_CALL && !entry->done && entry->deadline_ns == 0 &&
                 !entry->apart && !entry->streams;
    uint64_t whole = waits ? entry->part_of : 0;
    *target = entry->target;
    trp_entry_unlock(entry);
    if (whole != 0)
        return edge_of(trp_entry_behind((troupe_ref){.id = whole}), target);
    return waits && target->incarnation != 0 && target->actor != 0 ? call : 0;
}

// What the actor that has the caller's call waits for itself; 0: nothing, or others may go on.
static uint64_t wait_of(probe *it, uint64_t target, const trp_caller *caller)
{
    uint64_t id;
    trp_actor *actor = trp_target_of(target, caller, &id);
    if (actor == NULL || actor->concurrent || trp_async_here.deferral_is(actor, caller))
        return 0;
    uint64_t call = atomic_load(&actor->waits_for);
    if (call == 0 || trp_actor_find(id) != actor)
        return 0;
    size_t used = strlen(it->text);
    snprintf(it->text + used, sizeof it->text - used, "%s%.40s (pid %d)", used > 0 ? " -> " : "",
             trp_actor_label(id).text, trp_home_here.pid);
    return call;
}

// Whether a thread of this process probes that wait, and is to find the ring sooner.
static bool is_others(const probe *it, uint64_t call)
{
    if (trp_home_here.incarnation > it->origin ||
        (trp_home_here.incarnation == it->origin && call >= it->call))
        return false;
    bool found = false;
    trp_wait_look *waits = trp_alloc(WAITS_MAX * sizeof *waits);
    size_t count = waits != NULL ? trp_waits_copy(waits, WAITS_MAX) : 0;
    for (size_t i = 0; i < count && i < WAITS_MAX && !found; i++)
        found = waits[i].kind == TRP_WAIT_CALL && waits[i].subject == call;
    trp_free(waits);
    return found;
}

// ---- sending

static void send_word(const probe *it, probe_word word, uint32_t process, uint64_t incarnation,
                      uint64_t target, uint64_t call)
{
    trp_buffer body = {0};
    trp_write_array(&body, FIELDS);
    trp_write_uint(&body, it->serial);
    trp_write_uint(&body, it->origin);
    trp_write_uint(&body, it->call);
    trp_write_uint(&body, it->hash);
    trp_write_uint(&body, it->hops);
    trp_write_text(&body, word == SEEN ? "" : it->text);
    trp_frame frame = {.kind = TRP_FRAME_PROBE,
                       .target = target,
                       .method = (uint32_t)word,
                       .call = call,
                       .body = body.data,
                       .body_size = body.size};
    if (!body.failed) // One that is lost is made up for by a later one.
        (void)trp_process_send(process, incarnation, &frame, 0);
    trp_buffer_free(&body);
}

// The place of that word, which is the probe's from now on. With the lock held. All that wait in a
// ring probe it in step, so that many probes are at one wait at the same time: each has a place of
// its own, and another one at its next try.
static size_t place_of(const probe *it, uint64_t call)
{
    uint64_t hash = (call + it->origin + (it->serial << 32)) * UINT64_C(0x9e3779b97f4a7c15);
    size_t place = (hash >> 32) % PLACES;
    if (probes.seen[place].call == call && probes.seen[place].serial == it->serial &&
        probes.seen[place].origin == it->origin)
        return place;
    trp_free(probes.seen[place].held);
    probes.seen[place].call = call;
    probes.seen[place].serial = it->serial;
    probes.seen[place].origin = it->origin;
    probes.seen[place].come = false;
    probes.seen[place].held = NULL;
    return place;
}

// Whether the second probe may go on; otherwise it does when the word comes.
static bool may_pass(const probe *it, uint64_t call)
{
    pthread_mutex_lock(&probes.lock);
    size_t place = place_of(it, call);
    bool come = probes.seen[place].come;
    if (!come && probes.seen[place].held == NULL &&
        (probes.seen[place].held = trp_alloc(sizeof *it)) != NULL)
        *probes.seen[place].held = *it;
    pthread_mutex_unlock(&probes.lock);
    return come;
}

// It is back where it began. True: the second one is to follow.
static bool close_ring(const probe *it)
{
    bool next = false;
    pthread_mutex_lock(&probes.lock);
    size_t place = it->call % PLACES;
    if (probes.asked[place].call == it->call && probes.asked[place].serial == it->serial) {
        next = it->round == FIRST && !probes.asked[place].back;
        if (next) {
            probes.asked[place].back = true;
            probes.asked[place].hash = it->hash;
        } else if (it->round == SECOND && probes.asked[place].hash == it->hash &&
                   probes.asked[place].ring == NULL) {
            probes.asked[place].ring = trp_strdup(it->text);
            if (probes.asked[place].waiter != NULL)
                trp_waiter_wake(probes.asked[place].waiter);
        }
    }
    pthread_mutex_unlock(&probes.lock);
    return next;
}

static void walk(probe *it, uint64_t call);

// Takes a probe on that has come to an actor which waits for that call itself.
static void step(probe *it, uint64_t call)
{
    if (it->origin != trp_home_here.incarnation || it->call != call) {
        walk(it, call);
        return;
    }
    if (!close_ring(it))
        return;
    probe second = {.round = SECOND, .serial = it->serial, .origin = it->origin, .call = it->call};
    walk(&second, call);
}

// From a wait of this process on: to the process of its target, or as far as it gets here.
static void walk(probe *it, uint64_t call)
{
    while (it->hops++ < HOPS_MAX) {
        trp_target target = {0}, same;
        uint64_t edge = edge_of(call, &target);
        if (edge == 0 || is_others(it, call))
            return;
        it->hash = (it->hash ^ call ^ trp_home_here.incarnation) * UINT64_C(0x100000001b3);
        if (target.incarnation != trp_home_here.incarnation) {
            if (it->round == FIRST || may_pass(it, edge))
                send_word(it, it->round, target.process, target.incarnation, target.actor, edge);
            return;
        }
        uint64_t next = wait_of(it, target.actor, &(trp_caller){.call = edge});
        if (next == 0 || edge_of(call, &same) != edge) // Answered meanwhile.
            return;
        if (it->origin == trp_home_here.incarnation && it->call == next) {
            step(it, next);
            return;
        }
        call = next;
    }
}

// ---- who asks

static void begin(uint64_t call, trp_waiter *waiter)
{
    probe first = {.round = FIRST, .origin = trp_home_here.incarnation, .call = call};
    pthread_mutex_lock(&probes.lock);
    size_t place = call % PLACES;
    first.serial = trp_random_incarnation(); // Who is not asked cannot say that it came round.
    trp_free(probes.asked[place].ring);
    probes.asked[place].call = call;
    probes.asked[place].serial = first.serial;
    probes.asked[place].back = false;
    probes.asked[place].ring = NULL;
    probes.asked[place].waiter = waiter;
    pthread_mutex_unlock(&probes.lock);
    walk(&first, call);
}

// The ring that this wait is part of, to be freed; NULL: none has been found. Nobody wakes its
// waiter from now on.
static char *take_ring(uint64_t call)
{
    char *ring = NULL;
    pthread_mutex_lock(&probes.lock);
    size_t place = call % PLACES;
    if (probes.asked[place].call == call) {
        ring = probes.asked[place].ring;
        probes.asked[place].ring = NULL;
        probes.asked[place].waiter = NULL;
    }
    pthread_mutex_unlock(&probes.lock);
    return ring;
}

troupe_status trp_probe_sleep(uint64_t call, trp_waiter *waiter)
{
    for (int64_t ms = FIRST_MS;; ms = ms * 2 < LAST_MS ? ms * 2 : LAST_MS) {
        (void)trp_waiter_doze(waiter, ms * 1000000);
        char *ring = ms > FIRST_MS ? take_ring(call) : NULL; // Before, it has not asked.
        if (trp_entry_ready(call)) {
            trp_free(ring);
            return TROUPE_OK;
        }
        if (ring != NULL) {
            troupe_status status = troupe_fail(
                TROUPE_DEADLOCK,
                "actor %s waits for a call that can only be run after the method that waits: %s",
                trp_actor_label(trp_actor_id(trp_run_actor())).text, ring);
            trp_free(ring);
            return status;
        }
        begin(call, waiter);
    }
}

// ---- what comes from others

static troupe_status read_probe(const trp_frame *frame, probe *it)
{
    trp_reader in = trp_reader_of(frame->body, frame->body_size);
    const char *text;
    size_t size;
    uint32_t count;
    *it = (probe){.round = (probe_word)frame->method};
    TROUPE_TRY(trp_read_array(&in, &count));
    TROUPE_TRY(trp_read_uint(&in, &it->serial));
    TROUPE_TRY(trp_read_uint(&in, &it->origin));
    TROUPE_TRY(trp_read_uint(&in, &it->call));
    TROUPE_TRY(trp_read_uint(&in, &it->hash));
    TROUPE_TRY(trp_read_uint(&in, &it->hops));
    TROUPE_TRY(trp_read_text(&in, &text, &size));
    TROUPE_TRY(trp_read_end(&in));
    if (count != FIELDS || frame->method > SECOND || size >= sizeof it->text)
        return troupe_fail(TROUPE_MALFORMED, "a probe is malformed");
    if (size > 0)
        memcpy(it->text, text, size);
    return TROUPE_OK;
}

static void note_seen(const probe *it, uint64_t call)
{
    trp_target target = {0};
    if (edge_of(call, &target) != call) // Its answer was ahead of this.
        return;
    pthread_mutex_lock(&probes.lock);
    size_t place = place_of(it, call);
    probes.seen[place].come = true;
    probe *held = probes.seen[place].held;
    probes.seen[place].held = NULL;
    pthread_mutex_unlock(&probes.lock);
    if (held != NULL)
        send_word(held, SECOND, target.process, target.incarnation, target.actor, call);
    trp_free(held);
}

void trp_probe_serve(const trp_frame *frame)
{
    probe it;
    trp_caller caller = {.remote = true,
                         .process = frame->from,
                         .incarnation = frame->from_incarnation,
                         .call = frame->call};
    if (read_probe(frame, &it) != TROUPE_OK) {
        trp_process_refused(troupe_last_error()->text);
        return;
    }
    if (it.round == SEEN) {
        note_seen(&it, frame->call);
        return;
    }
    uint64_t call = wait_of(&it, frame->target, &caller);
    if (call == 0)
        return;
    if (it.round == FIRST) // Behind all answers that were sent before that look.
        send_word(&it, SEEN, frame->from, frame->from_incarnation, 0, frame->call);
    step(&it, call);
}

// ---- within this process

enum { KINSHIP_MAX = 1 << 16 }; // Waits that are followed: more than methods can wait in a process.

// The actor of this process that a pending call without a deadline is to; 0: there is none.
static uint64_t target_of(uint64_t call)
{
    trp_entry *entry = trp_entry_lock(call);
    if (entry == NULL)
        return 0;
    uint64_t whole = entry->kind == TRP_ENTRY_CALL && !entry->done ? entry->part_of : 0;
    if (whole != 0) { // Then its own target is nobody.
        trp_entry_unlock(entry);
        return target_of(trp_entry_behind((troupe_ref){.id = whole}));
    }
    bool waits = entry->kind == TRP_ENTRY_CALL && !entry->done && entry->deadline_ns == 0 &&
                 !entry->apart && entry->target.incarnation == trp_home_here.incarnation;
    uint64_t actor = waits ? entry->target.actor : 0;
    trp_entry_unlock(entry);
    return actor;
}

troupe_status trp_actor_waits(trp_actor *actor, uint64_t call)
{
    static pthread_mutex_t graph = PTHREAD_MUTEX_INITIALIZER;
    bool deadlock = false;
    uint64_t own = trp_actor_id(actor);
    if (call == 0) { // Who finds the old one finds that it is done.
        atomic_store(&actor->waits_for, 0);
        return TROUPE_OK;
    }
    pthread_mutex_lock(&graph);
    atomic_store(&actor->waits_for, call);
    for (int i = 0; call != 0 && i < KINSHIP_MAX; i++) {
        uint64_t id = target_of(call);
        deadlock = id == own;
        trp_actor *next = id == 0 || deadlock ? NULL : trp_actor_find(id);
        if (next == NULL || next->concurrent) // Others may end its wait.
            break;
        call = atomic_load(&next->waits_for);
    }
    if (deadlock)
        atomic_store(&actor->waits_for, 0);
    pthread_mutex_unlock(&graph);
    return deadlock ? troupe_fail(TROUPE_DEADLOCK,
                                  "actor %s waits for a call that can only be run after the method "
                                  "that waits",
                                  trp_actor_label(own).text)
                    : TROUPE_OK;
}

// ---- for waits

static bool inside_method(void)
{
    return trp_run_current() != NULL;
}

// Whether others may be kept from going on by what this thread waits for.
static bool waits_in_turn(void)
{
    const trp_running *here = trp_run_current();
    return here != NULL && (here->message == NULL || !here->message->beside);
}

// Inside a method: lets the actor that the call is to be run on this very thread, if it is next. It
// would run here once this method waits; so nothing is handed to another thread.
static troupe_status help(uint64_t call, uint64_t target)
{
    trp_actor *actor = trp_actor_find(target);
    if (actor == NULL)
        return TROUPE_OK;
    TROUPE_TRY(trp_run_waits(call));
    const troupe_error *last = troupe_last_error();
    troupe_error before; // The method's own; what runs on top of it sets others.
    bool kept = last->status != TROUPE_OK;
    if (kept)
        before = *last;
    trp_scheduler_help(&actor->run, call);
    if (kept)
        (void)trp_error_set(&before);
    else
        trp_error_forget();
    return trp_run_waits(0);
}

const trp_wait_hooks trp_actor_wait_hooks = {.inside = inside_method,
                                             .in_turn = waits_in_turn,
                                             .help = help,
                                             .note = trp_run_waits,
                                             .sleep = trp_probe_sleep};
