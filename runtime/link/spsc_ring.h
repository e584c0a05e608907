// spsc_ring.h: a queue of frames in shared memory from one process to one other: one writes, one
// reads.
//
//     [ who | tail | head, wants_room | records ... ]
//
// A record is a fixed header and the body (batch.h), at a multiple of 8 bytes, and never wraps:
// what is left of the end is skipped by a record of its own. Head and tail count bytes for ever.
// Reader and writer keep their place in memory of their own and believe nothing in the ring that
// they have not checked: a ring with invalid contents is given up, whichever process wrote it. See
// docs/internals/runtime/rings.md.
#ifndef TRP_LINK_SPSC_RING_H
#define TRP_LINK_SPSC_RING_H

#include <runtime/link/frame.h>
#include <stdatomic.h>

enum {
    TRP_RING_SMALL = 16 * 1024, // Bytes of a ring with everything; the first one of each pair.
    TRP_RING_LARGE = 256 * 1024,
    TRP_RING_HUGE = 1024 * 1024,   // Where many frames found no room in a large one.
    TRP_RING_BODY_MAX = 72 * 1024, // So that a record always fits in a large one that is drained.
};

typedef struct trp_ring {
    // Who sends to whom; written before the ring is announced.
    uint32_t from, to;
    uint64_t from_incarnation, to_incarnation;
    uint64_t next; // The ring that was announced before it; 0: none.
    // The larger one that the sender is about to go on in: what the receiver may hold already.
    _Atomic uint64_t larger;
    _Alignas(128) _Atomic uint64_t tail;
    _Alignas(128) _Atomic uint64_t head;
    _Alignas(128) _Atomic uint32_t wants_room; // The writer waits until half of it is free.
    _Alignas(128) unsigned char data[];
} trp_ring;

typedef struct trp_ring_writer {
    trp_ring *ring;
    uint32_t capacity, at; // Bytes of data; where the next record begins.
    uint64_t tail, head;   // What the reader has published: as last seen.
} trp_ring_writer;

typedef struct trp_ring_reader {
    trp_ring *ring;
    uint32_t capacity, at;
    uint32_t record;           // Bytes of the record that was read last.
    uint64_t head, tail, told; // `told`: the head that the writer knows.
} trp_ring_reader;

typedef enum trp_ring_got {
    TRP_RING_EMPTY,
    TRP_RING_FRAME,
    TRP_RING_MOVED, // The writer goes on in another ring; nothing comes here any more.
    TRP_RING_BROKEN,
} trp_ring_got;

// Both begin at the start of a ring of `size` bytes in all whose head, the trp_ring, was zero.
trp_ring_writer trp_ring_writer_of(trp_ring *ring, size_t size);
trp_ring_reader trp_ring_reader_of(trp_ring *ring, size_t size);

// Whether a frame with a body of that size could be in the ring at all.
bool trp_ring_takes(const trp_ring_writer *writer, size_t body_size);
// Appends the frame, of which kind, flags, target, method, schema, call, deadline, status, outcome,
// executed and body travel. False: there is no room now.
bool trp_ring_write(trp_ring_writer *writer, const trp_frame *frame);
// As the last record: it goes on in the ring of that object. There is always room for it.
void trp_ring_move(trp_ring_writer *writer, uint64_t object);
// Asks the reader to say when half of the ring is free. Then the caller tries once more.
void trp_ring_want_room(trp_ring_writer *writer);

// The next record: *frame, whose body lies in the ring until trp_ring_done; or *object.
trp_ring_got trp_ring_read(trp_ring_reader *reader, trp_frame *frame, uint64_t *object);
// Done with the record that was read last. True: the writer waits for room, and must be told.
bool trp_ring_done(trp_ring_reader *reader);
// Whether there is anything to read.
bool trp_ring_waits(trp_ring_reader *reader);

#endif
