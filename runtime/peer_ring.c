// peer_ring.c: what is sent to a peer over rings: making and announcing the ring, moving to a
// larger one, and the queue of what has no room (see peer.h).
#include <runtime/peer.h>

#include <runtime/door.h>
#include <runtime/fault.h>
#include <runtime/identity.h>
#include <runtime/pool.h>
#include <runtime/reader.h>
#include <runtime/store_room.h>
#include <string.h>

enum { OVERFLOWS = 1024 }; // Before a large ring becomes a huge one.

_Atomic bool trp_peers_starved;

// A ring to the peer that it holds too, so that it stays when this process dies.
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
    if (peer->out.ring != NULL) // Before the hold: who dies in between leaves word of it.
        atomic_store(&peer->out.ring->larger, *object);
    if (trp_store_hold(*object, process) != TROUPE_OK) {
        trp_store_release(*object, trp_self.slot);
        return false;
    }
    TRP_FAULT("ring");
    return true;
}

static bool open_ring(trp_peer *peer, uint32_t process, size_t body_size)
{
    trp_ring *ring;
    trp_ring_writer small = trp_ring_writer_of(NULL, TRP_RING_SMALL);
    uint32_t size = trp_ring_takes(&small, body_size) ? TRP_RING_SMALL : TRP_RING_LARGE;
    if (!make_ring(peer, process, size, &peer->ring, &ring)) {
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
}

static void starve(trp_peer *peer)
{
    peer->starved = true;
    if (!atomic_exchange(&trp_peers_starved, true))
        trp_reader_nudge(); // Somebody has to try again.
}

static bool write(trp_peer *peer, uint32_t process, const trp_frame *frame)
{
    if (peer->ring == 0 && !open_ring(peer, process, frame->body_size)) {
        starve(peer);
        return false;
    }
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
    if (!peer->announced)
        announce(peer, process);
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

// Writes a frame and gives the peer its hold on what that names.
static bool put(trp_peer *peer, uint32_t process, const trp_frame *frame)
{
    trp_object object = boxed_object(frame);
    if (object != 0 && trp_store_hold(object, process) != TROUPE_OK) {
        starve(peer);
        return false;
    }
    bool written = write(peer, process, frame);
    if (object != 0 && !written)
        trp_store_release(object, process);
    return written;
}

static troupe_status queue(trp_peer *peer, const trp_frame *frame)
{
    trp_queued *queued = trp_pool_take(sizeof *queued + frame->body_size);
    if (queued == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a message of %zu bytes",
                           frame->body_size);
    queued->next = NULL;
    queued->frame = *frame;
    queued->frame.body = queued->body;
    if (frame->body_size > 0)
        memcpy(queued->body, frame->body, frame->body_size);
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
    trp_pool_give(oldest, sizeof *oldest + oldest->frame.body_size);
}

troupe_status trp_peer_put(trp_peer *peer, uint32_t process, const trp_frame *frame)
{
    trp_frame boxed;
    trp_object object = 0;
    if (frame->body_size > TRP_RING_BODY_MAX) {
        TROUPE_TRY(box(frame, &boxed, &object));
        frame = &boxed;
    }
    // What came before goes first.
    if (peer->first == NULL && put(peer, process, frame)) {
        if (object != 0)
            trp_store_release(object, trp_self.slot);
        return TROUPE_OK;
    }
    troupe_status status = queue(peer, frame);
    if (status != TROUPE_OK)
        atomic_store(&peer->queued, peer->first != NULL);
    if (status != TROUPE_OK && object != 0)
        trp_store_release(object, trp_self.slot);
    return status;
}

void trp_peer_ring_close(trp_peer *peer)
{
    while (peer->first != NULL)
        unqueue(peer);
    if (peer->ring != 0)
        trp_store_release(peer->ring, trp_self.slot);
    peer->ring = 0;
    peer->out = (trp_ring_writer){0};
    peer->announced = peer->starved = false;
    peer->ring_size = peer->overflowed = 0;
}

// With the lock held; whether there is something new in the ring.
static bool refill(trp_peer *peer, uint32_t process)
{
    bool any = false;
    peer->starved = false;
    while (!peer->dead && peer->first != NULL && put(peer, process, &peer->first->frame)) {
        unqueue(peer);
        any = true;
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
