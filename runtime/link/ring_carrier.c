// ring_carrier.c: the carrier of rings: making and announcing the ring to a peer, moving to a
// larger one, and the queue of what has no room. link/ring_poller.c reads.
#include <runtime/link/ring_carrier.h>

#include <poll.h>
#include <runtime/base/cell_pool.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/fault.h>
#include <runtime/base/futex.h>
#include <runtime/base/thread.h>
#include <runtime/link/park.h>
#include <runtime/link/peer_carrier.h>
#include <runtime/link/ring_poller.h>
#include <runtime/shm/doorbell.h>
#include <runtime/shm/process_table.h>
#include <runtime/store/eviction.h>
#include <runtime/store/inspect.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { OVERFLOWS = 1024 }; // Before a large ring becomes a huge one.

_Atomic bool trp_peers_starved;

static pthread_mutex_t giving = PTHREAD_MUTEX_INITIALIZER; // Of that word of this process's door.

// A ring to the peer, which can be given a hold of it.
static bool make_ring(const trp_peer *peer, uint32_t process, size_t size, trp_object *object,
                      trp_ring **ring)
{
    void *memory;
    if (trp_store_share_inner(size, sizeof(trp_ring), object, &memory) != TROUPE_OK)
        return false;
    TRP_FAULT("ring");
    *ring = memory;
    (*ring)->from = trp_self.slot;
    (*ring)->to = process;
    (*ring)->from_incarnation = trp_self.incarnation;
    (*ring)->to_incarnation = peer->incarnation;
    return true;
}

// Gives the peer a hold of the ring, so that it stays when this process dies. Until `announce` the
// door names it: who dies meanwhile leaves word of it.
static bool give_ring(trp_object object, uint32_t process, uint64_t incarnation)
{
    _Atomic uint64_t *word = &trp_door_of(trp_self.slot)->giving;
    pthread_mutex_lock(&giving);
    atomic_store(word, object);
    TRP_FAULT("ring");
    if (trp_store_lend(object, process, incarnation) == TROUPE_OK) {
        TRP_FAULT("ring");
        return true;
    }
    atomic_store(word, 0);
    pthread_mutex_unlock(&giving);
    trp_store_release(object, trp_self.slot);
    return false;
}

// The ring is to be announced after the first frame is in it.
static bool open_ring(trp_peer *peer, uint32_t process, size_t body_size)
{
    trp_ring *ring;
    trp_ring_writer small = trp_ring_writer_of(NULL, TRP_RING_SMALL);
    uint32_t size = trp_ring_takes(&small, body_size) ? TRP_RING_SMALL : TRP_RING_LARGE;
    if (!make_ring(peer, process, size, &peer->ring, &ring) ||
        !give_ring(peer->ring, process, peer->incarnation)) {
        peer->ring = 0;
        return false;
    }
    peer->out = trp_ring_writer_of(ring, size);
    peer->ring_size = size;
    peer->overflowed = 0;
    return true;
}

// Goes on in a larger ring.
static bool move(trp_peer *peer, uint32_t process, uint32_t size)
{
    trp_ring *ring;
    trp_object object;
    if (!make_ring(peer, process, size, &object, &ring))
        return false;
    // As `giving`, for what the peer is told in the ring before.
    atomic_store(&peer->out.ring->larger, object);
    TRP_FAULT("ring");
    if (trp_store_lend(object, process, peer->incarnation) != TROUPE_OK) {
        trp_store_release(object, trp_self.slot);
        return false;
    }
    TRP_FAULT("ring");
    trp_ring_move(&peer->out, object);
    TRP_FAULT("ring");
    trp_store_release(peer->ring, trp_self.slot);
    peer->ring = object;
    peer->out = trp_ring_writer_of(ring, size);
    peer->ring_size = size;
    peer->overflowed = 0;
    return true;
}

// The ring had no room for a frame. False: it needs a larger one, for which there is no memory.
static bool grow(trp_peer *peer, uint32_t process)
{
    if (peer->ring_size == TRP_RING_SMALL)
        return move(peer, process, TRP_RING_LARGE);
    // A frame that waits is copied twice more, and costs memory besides.
    if (peer->ring_size == TRP_RING_LARGE && peer->overflowed >= OVERFLOWS &&
        !move(peer, process, TRP_RING_HUGE))
        peer->overflowed = 0; // Without: it is tried again after as many.
    return true;
}

static void announce(trp_peer *peer, uint32_t process)
{
    trp_door *door = trp_door_of(process);
    uint64_t before = atomic_load(&door->announced);
    do // The swap is also a release of the ring's header, for who takes the list.
        peer->out.ring->next = before;
    while (!atomic_compare_exchange_weak(&door->announced, &before, peer->ring));
    peer->announced = true;
    TRP_FAULT("ring");
    atomic_store(&trp_door_of(trp_self.slot)->giving, 0);
    pthread_mutex_unlock(&giving);
}

static void starve(trp_peer *peer)
{
    peer->starved = true;
    if (!atomic_exchange(&trp_peers_starved, true))
        trp_reader_nudge(); // Somebody has to try again.
}

static bool write_frame(trp_peer *peer, uint32_t process, const trp_frame *frame)
{
    if (!trp_ring_takes(&peer->out, frame->body_size) || !trp_ring_write(&peer->out, frame)) {
        if (!grow(peer, process)) {
            starve(peer);
            return false;
        }
        if (!trp_ring_write(&peer->out, frame)) {
            // Before the peer can know of it: the thread that hears of the room looks at this, and
            // then waits for our lock.
            atomic_store(&peer->queued, true);
            trp_ring_want_room(&peer->out);
            if (!trp_ring_write(&peer->out, frame))
                return false;
            atomic_store(&peer->queued, peer->first != NULL);
        }
    }
    TRP_FAULT("ring");
    return true;
}

// Puts the body in an object, and its id in place of it. Until the frame is in a ring this process
// holds the object: what waits in the queue when it ends goes with it.
static troupe_status box(const trp_frame *frame, trp_frame *boxed, trp_object *object)
{
    void *data;
    TROUPE_TRY(trp_room_create(frame->body_size, 0, TRP_ENCODING_PARCEL, object, &data));
    trp_store_kind(*object, TRP_KIND_ARGUMENT);
    memcpy(data, frame->body, frame->body_size);
    troupe_status status = trp_store_seal(*object);
    if (status != TROUPE_OK) {
        trp_store_release(*object, trp_self.slot);
        return status;
    }
    *boxed = *frame;
    boxed->flags |= TRP_FRAME_BOXED;
    boxed->body = object;
    boxed->body_size = sizeof *object;
    return TROUPE_OK;
}

// 0: the body is in the frame itself.
static trp_object boxed_object(const trp_frame *frame)
{
    trp_object object = 0;
    if ((frame->flags & TRP_FRAME_BOXED) != 0)
        memcpy(&object, frame->body, sizeof object);
    return object;
}

// Writes a frame and gives the peer its holds on what that names. BUSY: it has to wait, for room or
// for memory. Else the peer cannot be given a hold.
static troupe_status put(trp_peer *peer, uint32_t process, const trp_frame *frame)
{
    bool first = peer->ring == 0;
    if (first && !open_ring(peer, process, frame->body_size)) {
        starve(peer);
        return TROUPE_BUSY;
    }
    trp_object object = boxed_object(frame);
    bool boxed = object != 0 && trp_store_lend(object, process, peer->incarnation) == TROUPE_OK;
    troupe_status status = TROUPE_BUSY;
    if (object == 0 || boxed)
        status = trp_peer_give(frame, process, peer->incarnation);
    else
        starve(peer);
    if (status == TROUPE_OK && !write_frame(peer, process, frame)) {
        trp_peer_take_back(frame, process, peer->incarnation);
        status = TROUPE_BUSY;
    }
    if (boxed && status != TROUPE_OK)
        trp_store_take_back(object, process, peer->incarnation);
    if (first)
        announce(peer, process);
    return status;
}

// What a queued frame takes: itself, its body, and what that names.
static size_t held_at(const trp_frame *frame)
{
    return (frame->body_size + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t);
}

static size_t queued_size(const trp_frame *frame)
{
    return sizeof(trp_queued) + held_at(frame) + frame->held_count * sizeof *frame->held;
}

static troupe_status queue(trp_peer *peer, const trp_frame *frame)
{
    trp_queued *queued = trp_pool_take(queued_size(frame));
    if (queued == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a message of %zu bytes",
                           frame->body_size);
    troupe_status status =
        trp_peer_give(frame, trp_self.slot, 0); // The queue takes holds of its own.
    if (status != TROUPE_OK) {
        trp_pool_give(queued, queued_size(frame));
        return status;
    }
    queued->next = NULL;
    queued->size = queued_size(frame);
    queued->frame = *frame;
    queued->frame.body = queued->body;
    if (frame->body_size > 0)
        memcpy(queued->body, frame->body, frame->body_size);
    if (frame->held_count > 0)
        queued->frame.held = memcpy(queued->body + held_at(frame), frame->held,
                                    frame->held_count * sizeof *frame->held);
    peer->overflowed++;
    *peer->last = queued;
    peer->last = &queued->next;
    atomic_store(&peer->queued, true);
    return TROUPE_OK;
}

static void unqueue(trp_peer *peer)
{
    trp_queued *oldest = peer->first;
    peer->first = oldest->next;
    if (peer->first == NULL) {
        peer->last = &peer->first;
        atomic_store(&peer->queued, false);
    }
    trp_object object = boxed_object(&oldest->frame);
    if (object != 0)
        trp_store_release(object, trp_self.slot);
    trp_peer_take_back(&oldest->frame, trp_self.slot, 0);
    trp_pool_give(oldest, oldest->size);
}

static troupe_status send_frame(trp_peer *peer, uint32_t process, trp_frame *frame)
{
    trp_frame boxed;
    trp_object object = 0;
    if (frame->body_size > TRP_RING_BODY_MAX) {
        TROUPE_TRY(box(frame, &boxed, &object));
        frame = &boxed;
    }
    // What came before goes first.
    troupe_status status = peer->first == NULL ? put(peer, process, frame) : TROUPE_BUSY;
    bool waits = status == TROUPE_BUSY && (status = queue(peer, frame)) == TROUPE_OK;
    if (status != TROUPE_OK)
        atomic_store(&peer->queued, peer->first != NULL);
    if (object != 0 && !waits)
        trp_store_release(object, trp_self.slot);
    return status;
}

static void disconnect(trp_peer *peer, int linger_ms)
{
    (void)linger_ms; // What is in the ring is read however this process ends.
    while (peer->first != NULL)
        unqueue(peer);
    if (peer->ring != 0)
        trp_store_release(peer->ring, trp_self.slot);
    peer->ring = 0;
    peer->out = (trp_ring_writer){0};
    peer->announced = peer->starved = false;
    peer->ring_size = peer->overflowed = 0;
}

// The peer cannot be given a hold of what the oldest names. Its caller was told that it was sent:
// the peer refuses it, in its turn.
static void give_none(trp_queued *oldest)
{
    trp_peer_take_back(&oldest->frame, trp_self.slot, 0);
    oldest->frame.held_count = 0;
    oldest->frame.flags |= TRP_FRAME_UNHELD;
}

// With the lock held; whether there is something new in the ring.
static bool refill(trp_peer *peer, uint32_t process)
{
    bool any = false;
    peer->starved = false;
    while (!peer->dead && peer->first != NULL) {
        troupe_status status = put(peer, process, &peer->first->frame);
        if (status == TROUPE_BUSY)
            break;
        if (status == TROUPE_OK)
            unqueue(peer);
        else
            give_none(peer->first);
        any = any || status == TROUPE_OK;
    }
    return any;
}

void trp_peer_refill(uint32_t process)
{
    trp_peer *peer = trp_peer_find(process);
    if (peer == NULL || !atomic_load(&peer->queued))
        return;
    pthread_mutex_lock(&peer->lock);
    bool any = refill(peer, process);
    pthread_mutex_unlock(&peer->lock);
    if (any)
        trp_door_ring(process, trp_self.slot, true);
}

bool trp_peers_refill(void)
{
    bool starved = false;
    atomic_store(&trp_peers_starved, false);
    for (uint32_t process = 0; process < TRP_PROCESSES_MAX; process++) {
        trp_peer *peer = trp_peer_find(process);
        if (peer == NULL)
            continue;
        trp_peer_refill(process);
        pthread_mutex_lock(&peer->lock);
        peer->starved = peer->starved && peer->first != NULL; // Else nothing waits for room.
        starved = starved || peer->starved;
        pthread_mutex_unlock(&peer->lock);
    }
    if (starved)
        atomic_store(&trp_peers_starved, true);
    return starved;
}

// ---- what waits in this process's memory

static bool is_queued(uint32_t process)
{
    uint64_t incarnation;
    trp_peer *peer = trp_peer_find(process);
    return peer != NULL && atomic_load(&peer->queued) && trp_peer_open(process, &incarnation) &&
           trp_process_alive(process, incarnation, NULL);
}

static bool any_queued(void)
{
    for (uint32_t process = 0; process < TRP_PROCESSES_MAX; process++)
        if (is_queued(process))
            return true;
    return false;
}

// What is in a ring will be read.
static void flush(int64_t give_up_ms)
{
    enum { LOOK_NS = 1000000 };
    _Atomic uint32_t never = 0;
    while (any_queued() && trp_clock_ms() < give_up_ms)
        trp_wait(&never, 0, LOOK_NS);
}

// ---- start and end

// The driver's thread that sees the keeper's end: no thread polls descriptors otherwise.
static struct {
    pthread_t thread;
    bool started;
    int keeper_fd, stop_fd;
} watch = {.keeper_fd = -1, .stop_fd = -1};

static void *watch_main(void *unused)
{
    (void)unused;
    struct pollfd events[] = {{.fd = watch.keeper_fd, .events = POLLIN},
                              {.fd = watch.stop_fd, .events = POLLIN}};
    while (poll(events, 2, -1) <= 0)
        continue;
    if (events[0].revents != 0)
        trp_reader_lost();
    return NULL;
}

static troupe_status watch_start(int keeper_fd)
{
    watch.keeper_fd = keeper_fd;
    watch.stop_fd = eventfd(0, EFD_CLOEXEC);
    if (watch.stop_fd < 0)
        return trp_fail_errno(TROUPE_IO, "the descriptor of a thread could not be made");
    troupe_status status = trp_thread_start(&watch.thread, "troupe-watch", watch_main, NULL);
    watch.started = status == TROUPE_OK;
    if (!watch.started)
        close(watch.stop_fd);
    return status;
}

static void watch_stop(void)
{
    if (!watch.started)
        return;
    (void)eventfd_write(watch.stop_fd, 1);
    pthread_join(watch.thread, NULL);
    close(watch.stop_fd);
    watch.started = false;
}

static troupe_status open_door(void)
{
    trp_reader_open();
    return TROUPE_OK;
}

static troupe_status start(int keeper_fd)
{
    TROUPE_TRY(trp_reader_start());
    return keeper_fd >= 0 ? watch_start(keeper_fd) : TROUPE_OK;
}

static void stop(void)
{
    watch_stop();
    trp_reader_stop();
}

static void prepare(void)
{
    (void)trp_reader_prepare(); // If there is no memory for it, the worker's start will say so.
}

// ---- what others are told

static void notify(uint32_t process, bool first)
{
    trp_door_ring(process, trp_self.slot, first);
}

static void note_death(uint32_t process, uint64_t incarnation)
{
    trp_deaths_add(process, incarnation);
    trp_door_alarm(TRP_PROCESS_NODE); // What it left here is given back.
}

// Whoever reads there finds it among the deaths.
static void tell_death(uint32_t to, bool ready, uint32_t process, uint64_t incarnation)
{
    (void)ready, (void)process, (void)incarnation;
    trp_door_alarm(to);
}

static void tell_end(uint32_t to)
{
    trp_door_of(to)->told_end = 1;
    trp_door_ring(to, TRP_PROCESS_NODE, true);
}

static bool serve(int keeper_fd, _Atomic uint32_t *word, uint32_t seen, int64_t wait_ms)
{
    enum { RETRY_MS = 10 };
    (void)keeper_fd;
    if (trp_peers_starved && trp_peers_refill() && (wait_ms < 0 || wait_ms > RETRY_MS))
        wait_ms = RETRY_MS;
    trp_park(word, seen, wait_ms < 0 ? -1 : trp_clock_ns() + wait_ms * 1000000);
    return false;
}

const trp_near_carrier trp_ring_carrier = {
    .carrier = {.name = "ring",
                .message_bytes_max = &trp_self.options.message_bytes_max,
                .limit = "message_bytes_max",
                .pauses_max = TRP_PAUSES_MAX,
                .open = open_door,
                .start = start,
                .flush = flush,
                .stop = stop,
                .leave = trp_reader_close,
                .alive = trp_row_alive,
                .describe = trp_row_describe,
                .meet = trp_door_meet,
                .send = send_frame,
                .notify = notify,
                .disconnect = disconnect},
    .outlives = true,
    .prepare = prepare,
    .unread = trp_reader_free,
    .read = trp_reader_read,
    .wake = trp_reader_wake,
    .serve = serve,
    .note_death = note_death,
    .tell_death = tell_death,
    .tell_end = tell_end,
};
