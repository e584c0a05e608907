// internal.h: a channel's memory, for channel.c, channel/writer.c and channel/reader.c only.
//
//     header | places, a line each | slots: a line with the size, then the bytes
//
// Accesses that decide which side may touch a slot are sequentially consistent throughout.
#ifndef TRP_CHANNEL_INTERNAL_H
#define TRP_CHANNEL_INTERNAL_H

#include <runtime/channel/channel.h>
#include <runtime/shm/segment.h>

enum {
    TRP_CHANNEL_LINE = 64,
    TRP_CHANNEL_CLOSED_BITS = 1,
    TRP_CHANNEL_SLOT_BITS = 10,
    TRP_CHANNEL_PROCESS_BITS = 11,
};
_Static_assert(1 << TRP_CHANNEL_SLOT_BITS == TRP_CHANNEL_SLOTS_MAX, "a head has room for a slot");
_Static_assert(1 << TRP_CHANNEL_PROCESS_BITS == TRP_PROCESSES_MAX,
               "an owner has room for a process");

// Who sleeps does so on the low half.
typedef union trp_channel_word {
    _Atomic uint64_t all;
    _Atomic uint32_t low; // The systems that this runs on are little-endian.
} trp_channel_word;

// A reader. An owner is incarnation << 11 | process; 0: none. A dead owner's place is free without
// anybody clearing it: who comes next takes it over.
typedef struct trp_channel_place {
    _Alignas(TRP_CHANNEL_LINE) _Atomic uint64_t owner;
    trp_channel_word at;  // Ordered: the first sequence that it has not released; 0: nobody's.
    _Atomic uint32_t pin; // Latest: slot + 1 that it reads; 0: none.
} trp_channel_place;

typedef struct trp_channel_slot {
    _Alignas(TRP_CHANNEL_LINE) _Atomic uint64_t size;
} trp_channel_slot;

struct trp_channel_region {
    // Constant.
    _Alignas(TRP_CHANNEL_LINE) uint64_t magic;
    uint64_t bytes;
    uint32_t slots, readers, latest;
    // sequence << 11 | slot << 1 | closed, of the newest value: the one write that publishes.
    _Alignas(TRP_CHANNEL_LINE) trp_channel_word head;
    // The writer's own.
    _Alignas(TRP_CHANNEL_LINE) _Atomic uint64_t owner;
    _Atomic uint64_t writing; // The sequence that it writes, or is about to.
    // Written seldom, read often.
    _Alignas(TRP_CHANNEL_LINE) _Atomic uint32_t joins; // Rises with each reader that comes.
    _Atomic uint32_t awaited; // trp_channel_mark: readers may sleep on the head. 0: none does.
    _Atomic uint32_t freed;   // The writer sleeps on it,
    _Atomic uint64_t wanted;  // until every reader is at this sequence or later; 0: it does not.
    trp_channel_place places[];
};

static inline uint64_t trp_channel_sequence(uint64_t head)
{
    return head >> (TRP_CHANNEL_SLOT_BITS + TRP_CHANNEL_CLOSED_BITS);
}

// What who waits for a change of the head leaves in `awaited`: not 0, and the same for the end.
static inline uint32_t trp_channel_mark(uint32_t low)
{
    return low | 1;
}

static inline bool trp_channel_closed(uint64_t head)
{
    return (head & 1) != 0;
}

// The slot of a head. Whatever stands there, it is one.
static inline uint32_t trp_channel_index(const trp_channel *channel, uint64_t head)
{
    uint32_t index = head >> TRP_CHANNEL_CLOSED_BITS & (TRP_CHANNEL_SLOTS_MAX - 1);
    return index < channel->shape.slots ? index : 0;
}

// Where a slot begins, from the start of the region; `shape->slots`: where all end.
static inline size_t trp_channel_slot_at(const trp_channel_shape *shape, uint32_t index)
{
    size_t lines = (shape->bytes + TRP_CHANNEL_LINE - 1) / TRP_CHANNEL_LINE;
    return sizeof(trp_channel_region) + shape->readers * sizeof(trp_channel_place) +
           index * (sizeof(trp_channel_slot) + lines * TRP_CHANNEL_LINE);
}

static inline trp_channel_slot *trp_channel_slot_of(const trp_channel *channel, uint32_t index)
{
    return (trp_channel_slot *)(void *)((char *)channel->region +
                                        trp_channel_slot_at(&channel->shape, index));
}

// Whether an owner's process lives.
bool trp_channel_lives(uint64_t owner);
// "process 3 (pid 77)", and how it has ended.
void trp_channel_owner_text(uint64_t owner, char text[TRP_CHANNEL_WHO]);
// Takes a place for this process if nobody who lives has it. *found is who has.
bool trp_channel_take(_Atomic uint64_t *owner, uint64_t self, uint64_t *found);
// Sleeps while *on is `seen`, until `until_ns` (negative: none), and no longer than a slice of
// time: whose wake-up it waits for may be dead.
void trp_channel_sleep(_Atomic uint32_t *on, uint32_t seen, int64_t until_ns);

#endif
