// dispatch.c: this process among the others of its node (see link/dispatch.h): handing out what
// arrives, and opening and closing the ways in and out.
#include <runtime/link/dispatch.h>

#include <pthread.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/link/frame_rules.h>
#include <runtime/link/peer.h>
#include <runtime/link/peer_carrier.h>
#include <runtime/link/request.h>
#include <runtime/shm/carrier.h>
#include <runtime/shm/process_table.h>
#include <runtime/shm/segment_guard.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void (*trp_process_serve)(const trp_frame *frame);

static trp_handlers handlers;
static _Atomic uint64_t refused; // A count that goes with nothing else.
static struct {
    pthread_mutex_t lock; // Held while handlers run, so that trp_process_mute can wait for it.
    bool muted;
    _Atomic uint32_t waiting, turns; // Who waits for the lock; how often it was had.
} delivery = {.lock = PTHREAD_MUTEX_INITIALIZER};

void trp_process_handlers_set(const trp_handlers *wanted)
{
    handlers = *wanted;
}

const trp_handlers *trp_process_handlers(void)
{
    return &handlers;
}

// ---- handing out

static void lock_delivery(void)
{
    if (pthread_mutex_trylock(&delivery.lock) != 0) {
        atomic_fetch_add(&delivery.waiting, 1);
        pthread_mutex_lock(&delivery.lock);
        atomic_fetch_sub(&delivery.waiting, 1);
    }
    atomic_fetch_add_explicit(&delivery.turns, 1, memory_order_relaxed);
}

void trp_process_mute(void)
{
    lock_delivery();
    delivery.muted = true;
    pthread_mutex_unlock(&delivery.lock);
}

void trp_process_refused(const char *why)
{
    // Nobody can ask the node process, which is where other nodes' sessions begin and end.
    _Atomic uint64_t *counter =
        trp_process_serve != NULL ? &trp_segment_nodes()->refused : &refused;
    uint64_t count = atomic_fetch_add_explicit(counter, 1, memory_order_relaxed) + 1;
    if (why != NULL && (count & (count - 1)) == 0) // 1st, 2nd, 4th, ...: no flood.
        trp_log(TRP_WARN, "%llu frames were refused so far; this one: %s",
                (unsigned long long)count, why);
}

uint64_t trp_process_refusals(void)
{
    uint64_t own = atomic_load_explicit(&refused, memory_order_relaxed);
    return own + (trp_process_running() ? trp_segment_nodes()->refused : 0);
}

static _Thread_local bool delivering;

bool trp_process_delivering(void)
{
    return delivering;
}

void trp_process_deliver_begin(void)
{
    lock_delivery();
    delivering = true;
    trp_peer_run_begin();
}

void trp_process_deliver_end(void)
{
    trp_peer_run_end();
    delivering = false;
    pthread_mutex_unlock(&delivery.lock);
}

void trp_process_deliver_pause(void)
{
    enum { TRIES = 1000 }; // A lock that is opened and taken again at once is nobody else's ever.
    if (atomic_load_explicit(&delivery.waiting, memory_order_relaxed) == 0)
        return;
    uint32_t seen = atomic_load_explicit(&delivery.turns, memory_order_relaxed);
    trp_process_deliver_end();
    for (int i = 0; i < TRIES && atomic_load(&delivery.waiting) > 0 &&
                    atomic_load_explicit(&delivery.turns, memory_order_relaxed) == seen;
         i++)
        sched_yield();
    trp_process_deliver_begin();
}

void trp_process_died(uint32_t process, uint64_t incarnation)
{
    char cause[112];
    if (process >= TRP_PEERS_MAX)
        return;
    trp_process_forget(process, incarnation);
    trp_requests_lost_by(process);
    if (trp_process_serve == NULL && !trp_process_alive(process, incarnation, cause) &&
        !delivery.muted && handlers.death != NULL)
        handlers.death(process, incarnation, cause);
}

void trp_process_told_end(void)
{
    if (atomic_exchange(&trp_self.ending, true))
        return;
    if (handlers.ending != NULL)
        handlers.ending();
}

bool trp_process_admits(const trp_frame *frame)
{
    if (trp_frame_allowed(frame, false, trp_process_serve != NULL))
        return true;
    trp_process_refused(
        "processes of this node may not send such a frame, or not with this content");
    return false;
}

void trp_process_take_near(const trp_frame *frame)
{
    if (trp_process_admits(frame))
        trp_process_take(frame);
}

void trp_process_take(const trp_frame *frame)
{
    if (trp_process_serve != NULL && frame->kind != TRP_FRAME_CREDIT &&
        frame->kind != TRP_FRAME_PAUSE && frame->kind != TRP_FRAME_GONE) {
        trp_process_serve(frame);
        return;
    }
    switch (frame->kind) {
    case TRP_FRAME_CREDIT:
        trp_peer_credit(frame);
        break;
    case TRP_FRAME_PAUSE:
        if (!trp_peer_pause(frame))
            trp_process_refused("it pauses more actors than are believed to be full");
        break;
    case TRP_FRAME_GONE:
        trp_carriers.far->take(frame); // Of its processes; this node listens.
        break;
    case TRP_FRAME_ANSWER:
        trp_request_answered(frame);
        break;
    case TRP_FRAME_END:
        trp_process_told_end();
        break;
    default:
        if (frame->kind >= TRP_FRAME_CALL && !delivery.muted && handlers.frame != NULL)
            handlers.frame(frame);
        break;
    }
}

void trp_process_lost(void)
{
    trp_self.runtime_lost = true;
    trp_requests_lost();
    for (uint32_t slot = TRP_PROCESS_DRIVER + 1; slot < TRP_PROCESSES_MAX; slot++) {
        uint64_t incarnation;
        trp_process_row *row = trp_segment_process(slot);
        if (row->state == TRP_PROCESS_STARTING || row->state == TRP_PROCESS_READY) {
            snprintf(row->cause, sizeof row->cause, "ended with its node's keeper");
            trp_process_row_set(slot, TRP_PROCESS_DEAD);
        } else if (!trp_peer_open(slot, &incarnation) || incarnation != row->incarnation) {
            continue; // Else the node process died before it could tell of this death.
        }
        trp_process_died(slot, row->incarnation);
    }
    if (trp_carriers.far->lose != NULL)
        trp_carriers.far->lose(); // Nobody is left who would hear of their ends.
    if (!delivery.muted && handlers.lost != NULL)
        handlers.lost();
}

// ---- opening and closing

enum { CARRIERS = 2 };

static const trp_carrier *carrier_at(int place)
{
    return place == 0 ? trp_carriers.far : &trp_carriers.near->carrier;
}

troupe_status trp_process_open(void)
{
    atomic_store_explicit(&refused, 0, memory_order_relaxed);
    for (int i = CARRIERS; i-- > 0;) // That to other nodes last: it may speak of this process.
        if (carrier_at(i)->open != NULL)
            TROUPE_TRY(carrier_at(i)->open());
    trp_process_gate_open();
    trp_segment_process(trp_self.slot)->pid = getpid();
    trp_process_row_set(trp_self.slot, TRP_PROCESS_READY);
    return TROUPE_OK;
}

troupe_status trp_process_io_start(int keeper_fd)
{
    delivery.muted = false;
    for (int i = 0; i < CARRIERS; i++)
        if (carrier_at(i)->start != NULL)
            TROUPE_TRY(carrier_at(i)->start(keeper_fd));
    return TROUPE_OK;
}

void trp_process_io_stop(void)
{
    for (int i = 0; i < CARRIERS; i++)
        if (carrier_at(i)->stop != NULL)
            carrier_at(i)->stop();
}

void trp_process_flush(int timeout_ms)
{
    for (int i = 0; i < CARRIERS; i++)
        if (carrier_at(i)->flush != NULL)
            carrier_at(i)->flush(trp_clock_ms() + timeout_ms);
}

void trp_process_close(int linger_ms)
{
    TRP_USE_SEGMENT_IF_OPEN(used); // Which nobody else may any more.
    trp_process_gate_close();
    trp_requests_lost();
    trp_peers_empty();
    for (int i = 0; i < CARRIERS; i++)
        if (carrier_at(i)->leave != NULL)
            carrier_at(i)->leave();
    trp_process_gate_await(1000); // After the reader: what waits inside as that sleeps on the bell.
    trp_peers_free(linger_ms);
    for (int i = 0; i < CARRIERS; i++)
        if (carrier_at(i)->close != NULL)
            carrier_at(i)->close();
}
