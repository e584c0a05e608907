// peer.c: sending to the other processes of the node (see peer.h): windows, credit, and the ends of
// peers.
//
// A window in messages and bytes bounds what a peer was sent and has not given back; CALL and TELL
// frames take room in it.
#include <runtime/link/peer.h>
#include <runtime/link/peer_carrier.h>
#include <runtime/shm/process_table.h>

#include <limits.h>
#include <runtime/base/attributes.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/hash.h>
#include <runtime/base/memory.h>
#include <runtime/base/slow.h>
#include <runtime/link/park.h>

enum {
    CREDIT_MESSAGES = TRP_WINDOW_MESSAGES / 4, // Room is given back in pieces of this size.
    CREDIT_BYTES = TRP_WINDOW_BYTES / 4,
    RUN_MESSAGES = 64, // That are counted before it is looked whether there is such a piece.
};

struct trp_pause {
    uint64_t target;
    UT_hash_handle hh;
};

static struct {
    pthread_mutex_t lock; // Guards the making of peers.
    trp_peer *_Atomic all[TRP_PEERS_MAX];
} peers TRP_VAST = {.lock = PTHREAD_MUTEX_INITIALIZER};

trp_peer *trp_peer_find(uint32_t process)
{
    return process < TRP_PEERS_MAX ? atomic_load(&peers.all[process]) : NULL;
}

trp_peer *trp_peer_of(uint32_t process)
{
    trp_peer *peer = atomic_load(&peers.all[process]);
    if (peer != NULL)
        return peer;
    pthread_mutex_lock(&peers.lock);
    peer = atomic_load(&peers.all[process]);
    if (peer == NULL && (peer = trp_alloc(sizeof *peer)) != NULL) {
        pthread_mutex_init(&peer->lock, NULL);
        peer->carrier = trp_carrier_of(process);
        peer->last = &peer->first;
        atomic_store(&peers.all[process], peer);
    }
    pthread_mutex_unlock(&peers.lock);
    if (peer == NULL)
        (void)troupe_fail(TROUPE_NO_MEMORY, "no memory for a link to process %u", process);
    return peer;
}

static void wake_waiting(trp_peer *peer)
{
    atomic_fetch_add(&peer->room, 1);
    if (peer->waiting > 0)
        trp_unpark(&peer->room, INT_MAX);
}

static void forget_pauses(trp_peer *peer)
{
    trp_pause *it, *next;
    HASH_ITER(hh, peer->paused, it, next)
    {
        HASH_DEL(peer->paused, it);
        trp_free(it);
    }
}

void trp_peer_renew(trp_peer *peer, uint64_t incarnation)
{
    if (peer->incarnation == incarnation)
        return;
    peer->carrier->disconnect(peer, 0);
    peer->incarnation = incarnation;
    peer->dead = peer->flushing = peer->met = false;
    peer->sequence_out = peer->sequence_in = 0;
    peer->owed_messages = peer->owed_bytes = 0;
    peer->window_messages = TRP_WINDOW_MESSAGES;
    peer->window_bytes = TRP_WINDOW_BYTES;
    peer->taken_messages = peer->taken_bytes = 0;
    forget_pauses(peer);
    wake_waiting(peer);
}

static troupe_status dead(uint32_t process, const char *cause)
{
    return troupe_fail(TROUPE_NOT_EXECUTED, "%s %s", trp_process_text(process).text, cause);
}

TRP_COLD troupe_status died(const trp_peer *peer, uint32_t process)
{
    char cause[112] = "has ended";
    (void)peer->carrier->alive(process, peer->incarnation, cause);
    return dead(process, cause);
}

bool trp_frame_takes_room(const trp_frame *frame)
{
    return frame->kind == TRP_FRAME_CALL || frame->kind == TRP_FRAME_TELL;
}

static bool is_full(const trp_peer *peer)
{
    return peer->window_messages <= 0 || peer->window_bytes <= 0;
}

static bool is_paused(const trp_peer *peer, uint64_t target)
{
    trp_pause *found = NULL;
    if (peer->paused != NULL)
        HASH_FIND(hh, peer->paused, &target, sizeof target, found);
    return found != NULL;
}

static troupe_status no_room(const trp_peer *peer, uint32_t process, uint64_t target)
{
    if (is_full(peer))
        return troupe_fail(
            TROUPE_BUSY, "the window to %s is full: %d messages or %d MiB wait there",
            trp_process_text(process).text, TRP_WINDOW_MESSAGES, TRP_WINDOW_BYTES >> 20);
    return troupe_fail(TROUPE_BUSY,
                       "actor #%llu of %s takes no more messages for now: its mailbox is more than "
                       "half full",
                       (unsigned long long)target, trp_process_text(process).text);
}

// Without the lock.
static void tell_slow(trp_slow *slow, uint32_t process, uint64_t target, bool full)
{
    trp_process_label_text whom = trp_process_text(process);
    int pid = trp_process_pid(process);
    const char *stopped = pid != 0 && trp_process_is_stopped(pid) ? ", which is stopped" : "";
    if (full)
        trp_slow_tell(slow, "room on the way to %s%s", whom.text, stopped);
    else
        trp_slow_tell(slow, "room in the mailbox of actor #%llu of %s%s",
                      (unsigned long long)target, whom.text, stopped);
}

static bool lacks_room(const trp_peer *peer, uint64_t incarnation, uint64_t target)
{
    return peer->incarnation == incarnation && !peer->dead && !peer->closing &&
           (is_full(peer) || is_paused(peer, target));
}

// Waits for room in the window and in the target's mailbox. With the lock held, which it gives up
// meanwhile.
static troupe_status wait_room(trp_peer *peer, uint32_t process, uint64_t incarnation,
                               uint64_t target, int timeout_ms)
{
    troupe_status status = TROUPE_OK;
    int64_t deadline_ns = trp_clock_deadline(timeout_ms);
    trp_slow slow;
    trp_slow_begin(&slow, TRP_SLOW_WINDOW);
    while (status == TROUPE_OK && lacks_room(peer, incarnation, target)) {
        if (timeout_ms == 0 || (deadline_ns >= 0 && trp_clock_ns() >= deadline_ns)) {
            status = no_room(peer, process, target);
            continue;
        }
        uint32_t seen = atomic_load(&peer->room);
        bool full = is_full(peer);
        peer->waiting++;
        pthread_mutex_unlock(&peer->lock);
        if (trp_slow_is_due(&slow))
            tell_slow(&slow, process, target, full);
        trp_park(&peer->room, seen, trp_slow_until(&slow, deadline_ns));
        pthread_mutex_lock(&peer->lock);
        peer->waiting--;
    }
    trp_slow_end(&slow);
    return status;
}

// With the lock held.
static troupe_status get_room(trp_peer *peer, uint32_t process, uint64_t incarnation,
                              uint64_t target, int timeout_ms)
{
    if (lacks_room(peer, incarnation, target))
        TROUPE_TRY(wait_room(peer, process, incarnation, target, timeout_ms));
    if (peer->closing)
        return troupe_fail(TROUPE_NOT_EXECUTED, "the runtime was stopped before it was sent");
    if (peer->incarnation != incarnation || peer->dead) {
        char cause[112] = "has ended";
        (void)trp_process_alive(process, incarnation, cause);
        return dead(process, cause);
    }
    return TROUPE_OK;
}

static void take_back(const trp_frame *frame, uint32_t process, uint64_t incarnation,
                      uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        trp_store_take_back(frame->held[i], process, incarnation);
}

troupe_status trp_peer_give(const trp_frame *frame, uint32_t process, uint64_t incarnation)
{
    for (uint32_t i = 0; i < frame->held_count; i++) {
        troupe_status status = trp_store_lend(frame->held[i], process, incarnation);
        if (status != TROUPE_OK) {
            take_back(frame, process, incarnation, i);
            return status;
        }
    }
    return TROUPE_OK;
}

void trp_peer_take_back(const trp_frame *frame, uint32_t process, uint64_t incarnation)
{
    take_back(frame, process, incarnation, frame->held_count);
}

troupe_status trp_peer_post(trp_peer *peer, uint32_t process, trp_frame *frame)
{
    if (!peer->met)
        peer->carrier->meet(process); // Before it is looked at.
    peer->met = true;
    if (!peer->carrier->alive(process, peer->incarnation, NULL) || peer->dead)
        return died(peer, process);
    frame->from = trp_self.slot;
    frame->from_incarnation = trp_self.incarnation;
    frame->to_incarnation = peer->incarnation;
    return peer->carrier->send(peer, process, frame);
}

static troupe_status send_locked(trp_peer *peer, uint32_t process, uint64_t incarnation,
                                 trp_frame *frame, int timeout_ms)
{
    char cause[112];
    // A peer is one incarnation: an old address must not renew it back.
    if (peer->incarnation != incarnation && !trp_process_alive(process, incarnation, cause))
        return dead(process, cause);
    trp_peer_renew(peer, incarnation);
    bool room = trp_frame_takes_room(frame);
    if (room && (is_full(peer) || peer->closing || is_paused(peer, frame->target)))
        TROUPE_TRY(get_room(peer, process, incarnation, frame->target, timeout_ms));
    TROUPE_TRY(trp_peer_post(peer, process, frame));
    if (room) {
        peer->window_messages--;
        peer->window_bytes -= (int64_t)frame->body_size;
    }
    return TROUPE_OK;
}

static troupe_status send_frame(uint32_t process, uint64_t incarnation, trp_frame *frame,
                                int timeout_ms)
{
    trp_peer *peer = trp_peer_of(process);
    if (peer == NULL)
        return TROUPE_NO_MEMORY;
    pthread_mutex_lock(&peer->lock);
    bool first = !peer->announced || peer->incarnation != incarnation;
    troupe_status status = send_locked(peer, process, incarnation, frame, timeout_ms);
    bool announced = peer->announced;
    pthread_mutex_unlock(&peer->lock);
    if (announced) // Outside the lock: it may be a system call.
        peer->carrier->notify(process, first);
    return status;
}

troupe_status trp_process_fits(uint32_t process, size_t size)
{
    const trp_carrier *carrier = trp_carrier_of(process);
    if (size <= *carrier->message_bytes_max)
        return TROUPE_OK;
    return troupe_fail(TROUPE_TOO_LARGE, "a message of %zu bytes is above the limit of %zu (%s)",
                       size, *carrier->message_bytes_max, carrier->limit);
}

troupe_status trp_process_send(uint32_t process, uint64_t incarnation, trp_frame *frame,
                               int timeout_ms)
{
    if (process >= TRP_PEERS_MAX)
        return troupe_fail(TROUPE_NOT_EXECUTED, "process %u never existed", process);
    TROUPE_TRY(trp_process_fits(process, frame->body_size));
    TROUPE_TRY(trp_process_enter());
    troupe_status status = send_frame(process, incarnation, frame, timeout_ms);
    trp_process_leave();
    return status;
}

static uint64_t less(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

// Gives room for so many messages of so many bytes in all back.
static void give_back(uint32_t process, uint64_t incarnation, uint64_t messages, uint64_t bytes)
{
    trp_peer *peer = trp_peer_find(process);
    if (peer == NULL)
        return;
    trp_frame credit = {.kind = TRP_FRAME_CREDIT};
    pthread_mutex_lock(&peer->lock);
    if (peer->incarnation == incarnation && !peer->dead) {
        peer->owed_messages += messages;
        peer->owed_bytes += bytes;
        if (peer->owed_messages >= CREDIT_MESSAGES || peer->owed_bytes >= CREDIT_BYTES) {
            credit.call = peer->owed_messages;
            credit.schema = peer->owed_bytes;
            peer->owed_messages = peer->owed_bytes = 0;
            peer->taken_messages -= less(credit.call, peer->taken_messages);
            peer->taken_bytes -= less(credit.schema, peer->taken_bytes);
        }
    }
    pthread_mutex_unlock(&peer->lock);
    if (credit.call != 0)
        (void)trp_process_send(process, incarnation, &credit, 0);
}

// What the thread that delivers has been given back in a row for one peer, so that its lock is
// taken once for many frames.
static _Thread_local struct {
    bool delivers;
    uint32_t process, messages;
    uint64_t incarnation, bytes;
} run;

static void end_run(void)
{
    if (run.messages > 0)
        give_back(run.process, run.incarnation, run.messages, run.bytes);
    run.messages = 0;
    run.bytes = 0;
}

void trp_peer_run_begin(void)
{
    run.delivers = true;
}

void trp_peer_run_end(void)
{
    end_run();
    run.delivers = false;
}

void trp_process_credit(uint32_t process, uint64_t incarnation, size_t body_size)
{
    if (!run.delivers) {
        give_back(process, incarnation, 1, body_size);
        return;
    }
    if (run.process != process || run.incarnation != incarnation)
        end_run();
    run.process = process;
    run.incarnation = incarnation;
    run.bytes += body_size;
    if (++run.messages == RUN_MESSAGES || run.bytes >= CREDIT_BYTES)
        end_run();
}

// Never more than `most`, whatever the peer says.
static void give_room(int64_t *room, uint64_t back, int64_t most)
{
    if (back > INT64_MAX || __builtin_add_overflow(*room, (int64_t)back, room) || *room > most)
        *room = most;
}

void trp_peer_credit(const trp_frame *frame)
{
    trp_peer *peer = trp_peer_find(frame->from);
    if (peer == NULL)
        return;
    pthread_mutex_lock(&peer->lock);
    if (peer->incarnation == frame->from_incarnation) {
        give_room(&peer->window_messages, frame->call, TRP_WINDOW_MESSAGES);
        give_room(&peer->window_bytes, frame->schema, TRP_WINDOW_BYTES);
        wake_waiting(peer);
    }
    pthread_mutex_unlock(&peer->lock);
}

// ---- pauses

void trp_process_pause(uint32_t process, uint64_t incarnation, uint64_t target, bool paused)
{
    trp_frame frame = {.kind = TRP_FRAME_PAUSE, .target = target, .method = paused ? 0 : 1};
    (void)trp_process_send(process, incarnation, &frame, 0);
}

// Without memory it is not paused: the window bounds what it is sent. False: there are too many.
static bool add_paused(trp_peer *peer, uint64_t target)
{
    trp_pause *it = NULL;
    HASH_FIND(hh, peer->paused, &target, sizeof target, it);
    if (it != NULL)
        return true;
    if (HASH_COUNT(peer->paused) >= peer->carrier->pauses_max)
        return false;
    if ((it = trp_alloc(sizeof *it)) == NULL)
        return true;
    it->target = target;
    TRP_HASH_ADD(hh, peer->paused, target, sizeof it->target, it);
    if (!TRP_HASH_HAS(hh, it))
        trp_free(it);
    return true;
}

static void end_pause(trp_peer *peer, uint64_t target)
{
    trp_pause *it = NULL;
    HASH_FIND(hh, peer->paused, &target, sizeof target, it);
    if (it != NULL)
        HASH_DEL(peer->paused, it);
    trp_free(it);
    wake_waiting(peer);
}

bool trp_peer_pause(const trp_frame *frame)
{
    trp_peer *peer = trp_peer_of(frame->from);
    bool known = true;
    if (peer == NULL)
        return true;
    pthread_mutex_lock(&peer->lock);
    if (peer->incarnation == frame->from_incarnation && !peer->dead) {
        if (frame->method == 0)
            known = add_paused(peer, frame->target);
        else
            end_pause(peer, frame->target);
    }
    pthread_mutex_unlock(&peer->lock);
    return known;
}

// ---- ends

void trp_process_forget(uint32_t process, uint64_t incarnation)
{
    trp_peer *peer = trp_peer_find(process);
    if (peer == NULL)
        return;
    pthread_mutex_lock(&peer->lock);
    if (peer->incarnation == incarnation) {
        peer->dead = true;
        peer->carrier->disconnect(peer, 0); // It might try to reconnect for ever.
        wake_waiting(peer);
    }
    pthread_mutex_unlock(&peer->lock);
}

bool trp_peer_open(uint32_t process, uint64_t *incarnation)
{
    trp_peer *peer = trp_peer_find(process);
    if (peer == NULL)
        return false;
    pthread_mutex_lock(&peer->lock);
    *incarnation = peer->incarnation;
    bool open = *incarnation != 0 && !peer->dead;
    pthread_mutex_unlock(&peer->lock);
    return open;
}

void trp_peers_empty(void)
{
    for (uint32_t slot = 0; slot < TRP_PEERS_MAX; slot++) {
        trp_peer *peer = trp_peer_find(slot);
        if (peer == NULL)
            continue;
        pthread_mutex_lock(&peer->lock);
        peer->closing = true;
        wake_waiting(peer);
        pthread_mutex_unlock(&peer->lock);
    }
}

void trp_peers_free(int linger_ms)
{
    for (uint32_t slot = 0; slot < TRP_PEERS_MAX; slot++) {
        trp_peer *peer = atomic_exchange(&peers.all[slot], NULL);
        if (peer == NULL)
            continue;
        bool gone = peer->dead || !trp_process_alive(slot, peer->incarnation, NULL);
        peer->carrier->disconnect(peer, gone ? 0 : linger_ms);
        trp_buffer_free(&peer->frame);
        forget_pauses(peer);
        pthread_mutex_destroy(&peer->lock);
        trp_free(peer);
    }
}
