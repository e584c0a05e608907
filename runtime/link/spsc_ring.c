// spsc_ring.c: see link/spsc_ring.h.
#include <runtime/link/batch.h>
#include <runtime/link/spsc_ring.h>

#include <string.h>

// Kinds that are the ring's own; no frame has them.
enum { KIND_PAD = 0xfffe, KIND_MOVED = 0xffff };

enum {
    UNIT = 8,
    // Kept free for MOVED: its record, and what may have to be skipped before it.
    RESERVE = 2 * (sizeof(trp_frame_record) + sizeof(uint64_t)),
    STEPS = 8, // The head is published in parts of the ring of this number.
};

static uint32_t round_up(size_t size)
{
    return (uint32_t)((size + UNIT - 1) / UNIT * UNIT);
}

static uint32_t capacity_of(size_t size)
{
    return (uint32_t)((size - sizeof(trp_ring)) / UNIT * UNIT);
}

trp_ring_writer trp_ring_writer_of(trp_ring *ring, size_t size)
{
    return (trp_ring_writer){.ring = ring, .capacity = capacity_of(size)};
}

trp_ring_reader trp_ring_reader_of(trp_ring *ring, size_t size)
{
    return (trp_ring_reader){.ring = ring, .capacity = capacity_of(size)};
}

// ---- writing

bool trp_ring_takes(const trp_ring_writer *writer, size_t body_size)
{
    // It may have to be preceded by a gap of nearly its own size, and the last step of the head is
    // not published.
    size_t most = writer->capacity - writer->capacity / STEPS - RESERVE;
    return body_size < most && 2 * (size_t)round_up(sizeof(trp_frame_record) + body_size) <= most;
}

// Whether a record of that size has room beside `reserve` bytes; else looks how far the reader is.
static bool has_room(trp_ring_writer *writer, uint32_t size, uint32_t reserve)
{
    uint32_t left = writer->capacity - writer->at;
    uint64_t needed = (uint64_t)size + (size > left ? left : 0) + reserve;
    if (needed <= writer->capacity - (writer->tail - writer->head))
        return true;
    // Acquire: the reader is done with the bytes before. Sequentially consistent: pairs with
    // trp_ring_done, see trp_ring_want_room.
    uint64_t head = atomic_load(&writer->ring->head);
    if (head > writer->tail || writer->tail - head > writer->capacity) // The reader is mad.
        return false;
    writer->head = head;
    return needed <= writer->capacity - (writer->tail - writer->head);
}

static void advance(trp_ring_writer *writer, uint32_t size)
{
    writer->tail += size;
    writer->at = writer->at + size == writer->capacity ? 0 : writer->at + size;
}

// Puts one record; the caller knows that there is room.
static void put(trp_ring_writer *writer, const trp_frame_record *head, const void *body,
                size_t body_size)
{
    uint32_t size = round_up(head->size), left = writer->capacity - writer->at;
    if (size > left) {
        trp_frame_record gap = {.size = left, .kind = KIND_PAD};
        memcpy(writer->ring->data + writer->at, &gap, UNIT);
        advance(writer, left);
    }
    memcpy(writer->ring->data + writer->at, head, sizeof *head);
    if (body_size > 0)
        memcpy(writer->ring->data + writer->at + sizeof *head, body, body_size);
    advance(writer, size);
    // A release for the reader, which looks at the tail before the record. Sequentially consistent:
    // the writer looks at its bit of the door next, the reader clears that and then looks here.
    atomic_store(&writer->ring->tail, writer->tail);
}

bool trp_ring_write(trp_ring_writer *writer, const trp_frame *frame)
{
    trp_frame_record head = trp_frame_record_of(frame);
    if (!has_room(writer, round_up(head.size), RESERVE))
        return false;
    put(writer, &head, frame->body, frame->body_size);
    return true;
}

void trp_ring_move(trp_ring_writer *writer, uint64_t object)
{
    trp_frame_record head = {.size = sizeof head + sizeof object, .kind = KIND_MOVED};
    put(writer, &head, &object, sizeof object);
}

void trp_ring_want_room(trp_ring_writer *writer)
{
    // We write this and then read the head, in has_room; the reader writes the head and then reads
    // this. One of the two sees the other. And there is a next time that the reader publishes its
    // head, or there is room: a record takes less than what is free when it has read everything.
    atomic_store(&writer->ring->wants_room, 1);
}

// ---- reading

bool trp_ring_waits(trp_ring_reader *reader)
{
    // Pairs with `put`.
    if (reader->tail == reader->head)
        reader->tail = atomic_load(&reader->ring->tail);
    return reader->tail != reader->head;
}

// The record's header, copied before it is checked: the ring may change while we look.
static trp_ring_got take_header(trp_ring_reader *reader, trp_frame_record *head)
{
    for (;;) {
        if (!trp_ring_waits(reader))
            return TRP_RING_EMPTY;
        uint64_t there = reader->tail - reader->head;
        uint32_t left = reader->capacity - reader->at;
        if (there > reader->capacity || there % UNIT != 0)
            return TRP_RING_BROKEN;
        memcpy(head, reader->ring->data + reader->at, UNIT);
        if (head->kind != KIND_PAD) {
            if (head->size < sizeof *head || head->size > left || round_up(head->size) > there)
                return TRP_RING_BROKEN;
            uint32_t size = head->size;
            memcpy(head, reader->ring->data + reader->at, sizeof *head);
            head->size = size;
            return TRP_RING_FRAME;
        }
        if (head->size != left || left > there)
            return TRP_RING_BROKEN;
        reader->head += left;
        reader->at = 0;
    }
}

trp_ring_got trp_ring_read(trp_ring_reader *reader, trp_frame *frame, uint64_t *object)
{
    trp_frame_record head;
    trp_ring_got got = take_header(reader, &head);
    if (got != TRP_RING_FRAME)
        return got;
    const unsigned char *body = reader->ring->data + reader->at + sizeof head;
    size_t body_size = head.size - sizeof head;
    if (head.kind == KIND_MOVED) {
        if (body_size != sizeof *object)
            return TRP_RING_BROKEN;
        memcpy(object, body, sizeof *object);
        return TRP_RING_MOVED;
    }
    reader->record = round_up(head.size);
    if (!trp_frame_record_read(&head, body, frame))
        return TRP_RING_BROKEN;
    frame->from = reader->ring->from;
    return TRP_RING_FRAME;
}

bool trp_ring_done(trp_ring_reader *reader)
{
    reader->head += reader->record;
    reader->at += reader->record;
    if (reader->at == reader->capacity)
        reader->at = 0;
    if (reader->head - reader->told < reader->capacity / STEPS)
        return false;
    reader->told = reader->head;
    // A release of the bytes before; sequentially consistent with the next line, see
    // trp_ring_want_room.
    atomic_store(&reader->ring->head, reader->head);
    if (atomic_load(&reader->ring->wants_room) == 0)
        return false;
    uint64_t waits = atomic_load(&reader->ring->tail) - reader->head;
    return waits <= reader->capacity / 2 && atomic_exchange(&reader->ring->wants_room, 0) != 0;
}
