// body.h: a value on its way between two processes, with the references in it.
//
// A body is: a count, the ids of the objects that its receiver was given a hold of when it was
// published (until then its sender holds them), and the packed value behind them. So the receiver
// of a body can give the holds back without knowing the value's type. A body above
// TRP_FRAME_INLINE_MAX travels as an object of the store that the receiver holds
// (TRP_FRAME_STORED). Without references in it a value needs no such body: a flat one travels as
// its memory (TRP_FRAME_IMAGE), a large one is an object of its own (TRP_FRAME_OBJECT), written
// once and read where it is. A flat one with references, as an argument, is its memory with the ids
// behind it (TRP_FRAME_HELD). To another node everything is packed, whatever its size, without
// references: what is in this node's memory means nothing there.
#ifndef TRP_REF_BODY_H
#define TRP_REF_BODY_H

#include <actors/class/class.h>
#include <runtime/codec/msgpack.h>
#include <runtime/link/frame.h>
#include <runtime/store/store.h>

// ---- sending
typedef struct trp_parcel {
    bool plain;  // The receiver knows no types: it gets a packed value in any case.
    bool listed; // The receiver takes a HELD,
    bool lists;  // and that is what this is.
    trp_buffer bytes;
    const void *image; // The value, which must stay until the parcel is sent, of so many bytes.
    size_t image_size;
    trp_object object;    // The value is this object, held by this process.
    uint32_t process;     // The receiver,
    uint64_t incarnation; // which may have ended meanwhile. 0: this process itself.
    trp_object *held;     // What is in it, held by this process: `few`, or allocated.
    uint32_t held_count, held_room;
    trp_object few[4];
} trp_parcel;

// Takes the value as an image or an object, or appends the holds and the packed value. Only what is
// packed may have bytes before it, and if its shape has no references it may be followed by more.
// On failure nothing is held.
troupe_status trp_parcel_pack(trp_parcel *parcel, const trp_shape *shape, const void *value);
// As trp_parcel_pack for a value that is packed already and has no references.
void trp_parcel_append(trp_parcel *parcel, const void *packed, size_t size);
// Sends the frame with the parcel as its body, with holds for its receiver. On failure the parcel
// can be sent again; in the end it must be dropped, sent or not, with this process's own holds.
troupe_status trp_parcel_send(trp_parcel *parcel, trp_frame *frame, int timeout_ms);
void trp_parcel_drop(trp_parcel *parcel);

// ---- receiving
// The object that an OBJECT's or STORED's body names. TROUPE_MALFORMED: there is none.
troupe_status trp_frame_object(const trp_frame *frame, trp_object *object);

typedef struct trp_body {
    unsigned char *bytes; // The body's own copy of itself, or NULL: it is in its user's memory,
    trp_object object;    // or in this object, which this process holds.
    const unsigned char *data;
    size_t size;
    size_t holds_at; // Where the count and the ids begin.
    bool pinned;     // The object is.
    bool kept;       // The holds have gone to the value's reader.
    bool far;        // It came from another node.
} trp_body;

// Takes over a frame's body (no image); the holds begin at 0 until `holds_at` is set. The bytes are
// copied to `memory`, which the body must not outlive, or to its own if that is NULL.
// TROUPE_NO_MEMORY: the holds are given back.
troupe_status trp_body_take(trp_body *body, const trp_frame *frame, void *memory);
// Where the packed value begins. TROUPE_MALFORMED if the body is none.
troupe_status trp_body_open(const trp_body *body, trp_reader *value);
// Calls `each` for each object that the receiver was given a hold of.
void trp_body_each(const trp_body *body, void (*each)(trp_object object, void *user), void *user);
// Unpacks the value, which must fill the rest, and checks that each reference in it came with a
// hold.
troupe_status trp_body_unpack(const trp_body *body, const trp_shape *shape, trp_arena *arena,
                              void *value);
// As trp_body_unpack for a method's arguments, which may point into the object that the body is.
troupe_status trp_body_lend_args(const trp_body *body, const trp_shape *shape, trp_arena *arena,
                                 void *args);
// Gives back what is held (not the value's holds, if they are `kept`). Harmless on a zeroed one.
void trp_body_drop(trp_body *body);
// Whether what a frame of another node has for a body can be one from there: without holds.
bool trp_body_far_good(const trp_frame *frame);
// What a HELD lists behind a value of `size` bytes at least. False: it lists nothing.
typedef struct trp_listed {
    const unsigned char *ids; // Of any alignment.
    size_t count;
} trp_listed;
bool trp_body_listed(const trp_frame *frame, size_t size, trp_listed *listed);
trp_object trp_listed_at(const trp_listed *listed, size_t number);
// Gives the holds back from the one of that number on.
void trp_listed_release(const trp_listed *listed, size_t first);
// Sets the failure of an UNHELD.
troupe_status trp_body_unheld(void);
// Gives back all that came with a frame that nobody wants.
void trp_body_refuse(const trp_frame *frame, size_t holds_at);

#endif
