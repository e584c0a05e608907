// batch.h: frames as the processes of one machine exchange them: a header of fixed size, little-
// endian as the machine is, and the body. In a ring records stand by themselves (link/spsc_ring.h
// names sender and receiver there); over sockets a message is a batch: one head, then records that
// follow each other on their link. Between machines frames are MessagePack: see frame.h.
//
// A reader believes nothing that it has not checked, and never reads past what it was given.
#ifndef TRP_LINK_BATCH_H
#define TRP_LINK_BATCH_H

#include <runtime/link/frame.h>

enum {
    // The first byte of a batch: it begins no MessagePack item, so that no frame is taken for one.
    TRP_BATCH_MARK = 0xc1,
    TRP_BATCH_VERSION = 1,
};

typedef struct trp_frame_record {
    uint32_t size; // With this header, before any rounding up.
    uint16_t kind;
    uint8_t outcome, executed;
    uint32_t flags, method;
    uint64_t target, schema, call;
    uint32_t deadline_ms, status;
} trp_frame_record;
_Static_assert(sizeof(trp_frame_record) == 48, "what a reader of another build expects");

// What of a frame travels in its record; the body, at most 4 GiB less the header, goes behind it.
static inline trp_frame_record trp_frame_record_of(const trp_frame *frame)
{
    return (trp_frame_record){
        .size = (uint32_t)(sizeof(trp_frame_record) + frame->body_size),
        .kind = (uint16_t)frame->kind,
        .outcome = (uint8_t)frame->outcome,
        .executed = (uint8_t)frame->executed,
        .flags = frame->flags,
        .method = frame->method,
        .target = frame->target,
        .schema = frame->schema,
        .call = frame->call,
        .deadline_ms = frame->deadline_ms,
        .status = frame->status,
    };
}

// The frame of a record, whose size has been checked, with its body at `body`; the sender, both
// incarnations and the sequence are 0. False: no such frame can have been sent.
static inline bool trp_frame_record_read(const trp_frame_record *record, const void *body,
                                         trp_frame *frame)
{
    *frame = (trp_frame){
        .kind = (trp_frame_kind)record->kind,
        .flags = record->flags,
        .target = record->target,
        .method = record->method,
        .schema = record->schema,
        .call = record->call,
        .deadline_ms = record->deadline_ms,
        .status = record->status,
        .outcome = record->outcome,
        .executed = record->executed,
        .body = body,
        .body_size = record->size - sizeof *record,
    };
    return trp_frame_valid(frame);
}

// ---- batches

// One that is being read.
typedef struct trp_batch {
    uint32_t from, count; // Records that are left.
    uint64_t from_incarnation, to_incarnation;
    uint64_t sequence; // Of the next one.
    const unsigned char *start, *at, *end;
} trp_batch;

// Appends the frame, which follows the last one on its link; an empty buffer begins with a head.
// Without memory, or with a body that no record can have, the buffer has `failed`, and what it held
// before is a batch still.
void trp_batch_add(trp_buffer *buffer, const trp_frame *frame);
// How many frames a batch has that trp_batch_add has made.
uint32_t trp_batch_count(const trp_buffer *buffer);
// Reads the head. TROUPE_MALFORMED, or TROUPE_VERSION naming both versions.
troupe_status trp_batch_open(const void *data, size_t size, trp_batch *batch);
// Reads the next record while `count` is above 0; the body points into the data. TROUPE_MALFORMED.
troupe_status trp_batch_next(trp_batch *batch, trp_frame *frame);

#endif
