// peer_carrier.h: the way from this process to each other one, as its carrier (shm/carrier.h) and
// link/peer.c see it.
#ifndef TRP_LINK_PEER_CARRIER_H
#define TRP_LINK_PEER_CARRIER_H

#include <pthread.h>
#include <runtime/link/frame.h>
#include <runtime/link/peer.h>
#include <runtime/link/spsc_ring.h>
#include <runtime/link/zmq.h>
#include <runtime/shm/carrier.h>
#include <runtime/shm/segment.h>
#include <runtime/store/store.h>
#include <stdatomic.h>

enum {
    // Of targets that a peer of this node may pause: the window bounds what they are sent.
    TRP_PAUSES_MAX = 65536,
};

// A target that is to be sent nothing now: see trp_process_pause.
typedef struct trp_pause trp_pause;

// A frame that waits for room in a ring.
typedef struct trp_queued {
    struct trp_queued *next;
    size_t size; // Of it all.
    trp_frame frame;
    _Alignas(8) unsigned char body[]; // And, behind it, what it names.
} trp_queued;

// One incarnation of one process. Never freed while this process runs: when the place has another
// process, the peer is renewed under its lock.
typedef struct trp_peer {
    pthread_mutex_t lock;
    const trp_carrier *carrier;
    uint64_t incarnation; // 0: nothing was sent or received yet.
    bool dead, closing;
    bool met;                              // Each will be told of the other's death.
    int64_t window_messages, window_bytes; // Room left for CALL and TELL.
    uint64_t owed_messages, owed_bytes;    // Room that the peer has not been given back yet.
    _Atomic uint32_t room;                 // Changes when who waits for room should look.
    uint32_t waiting;
    trp_pause *paused; // Those there.
    // Of one of another node: CALL and TELL that came and whose room was not given back.
    uint64_t taken_messages, taken_bytes;
    bool announced; // It knows where to look, and is to be notified of each frame.
    // Over rings.
    trp_ring_writer out;
    trp_object ring;     // Held by this process; 0: none yet.
    uint32_t ring_size;  // With everything.
    uint32_t overflowed; // Frames that found no room since it was made, or could not be larger.
    trp_queued *first, **last; // What the ring had no room for.
    _Atomic bool queued;       // There is any.
    bool starved;              // The store had no room for the ring.
    // Over sockets.
    trp_outbound *outbound;
    trp_buffer frame; // Frames that have not been sent yet.
    int64_t sent_ns;  // When some were sent last.
    uint64_t sequence_out, sequence_in;
    bool bursts;   // Those were several.
    bool flushing; // It has not said yet that everything sent has arrived.
} trp_peer;

// NULL: no memory, with the last error set.
trp_peer *trp_peer_of(uint32_t process);
trp_peer *trp_peer_find(uint32_t process); // NULL: there is none yet.
// Makes it a peer of this incarnation. With its lock held.
void trp_peer_renew(trp_peer *peer, uint64_t incarnation);
// Sends a frame, for which the caller has room. With the lock held.
troupe_status trp_peer_post(trp_peer *peer, uint32_t process, trp_frame *frame);
// Lends the process, of that incarnation, holds of what the frame names; all or none. And takes
// them back.
troupe_status trp_peer_give(const trp_frame *frame, uint32_t process, uint64_t incarnation);
void trp_peer_take_back(const trp_frame *frame, uint32_t process, uint64_t incarnation);
// Whether a frame takes room in the window.
bool trp_frame_takes_room(const trp_frame *frame);
// Takes the room that a CREDIT frame gives.
void trp_peer_credit(const trp_frame *frame);
// Room that the calling thread gives back between these is gathered.
void trp_peer_run_begin(void);
void trp_peer_run_end(void);
// Notes which target there is paused, or not any more. False: more are than it is believed.
bool trp_peer_pause(const trp_frame *frame);
// Whether something was sent there or received whose process's death was not heard of.
bool trp_peer_open(uint32_t process, uint64_t *incarnation);
// Makes all who wait for room give up; frees all peers.
void trp_peers_empty(void);
void trp_peers_free(int linger_ms);

#endif
