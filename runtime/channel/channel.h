// channel.h: slots in shared memory that one writer rewrites and a fixed number of readers follow:
// which side may write or read which slot, and how they wait for each other. Any process may be
// killed between any two instructions here. See docs/internals/runtime/channels.md.
//
// In an ordered channel each value goes to every reader, and a slot is rewritten when all living
// readers have released it. In one that keeps the latest alone the writer never waits: it takes a
// slot that is not the newest and has no reader.
#ifndef TRP_CHANNEL_H
#define TRP_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <troupe/status.h>

enum {
    TRP_CHANNEL_SLOTS_MAX = 1024,
    TRP_CHANNEL_READERS_MAX = TRP_CHANNEL_SLOTS_MAX - 2,
    TRP_CHANNEL_SPARE = 2, // Slots beside one a reader, where the latest is kept.
    TRP_CHANNEL_WHO = 192,
};

typedef struct trp_channel_region trp_channel_region;

typedef struct trp_channel_shape {
    size_t bytes; // Of a slot.
    uint32_t slots, readers;
    bool latest;
} trp_channel_shape;

// A channel as one process uses it.
typedef struct trp_channel {
    trp_channel_region *region;
    const char *read_only; // The region where it cannot be written.
    trp_channel_shape shape;
    uint64_t self; // The process, with its incarnation.
} trp_channel;

typedef enum trp_channel_turn {
    TRP_CHANNEL_READY,
    TRP_CHANNEL_WAIT,    // For a reader to release, or the writer to publish.
    TRP_CHANNEL_END,     // Closed, and all was read.
    TRP_CHANNEL_LOST,    // The writer has died, and all that it published was read.
    TRP_CHANNEL_STOPPED, // The process leaves the node.
} trp_channel_turn;

// What memory a channel takes. INVALID, TOO_LARGE with a sentence.
troupe_status trp_channel_size(const trp_channel_shape *shape, size_t *size);
// Makes zeroed shared memory of that size a channel.
void trp_channel_init(void *memory, const trp_channel_shape *shape);
// The channel in memory of the segment, for `process`, which is this one. WRONG_TYPE: there is
// none.
troupe_status trp_channel_attach(void *memory, size_t size, uint32_t process, trp_channel *channel);

typedef struct trp_channel_look {
    uint64_t published; // The sequence of the newest value; 0: none yet.
    uint32_t readers;   // Living ones.
    bool written;       // A living process has the writer's place.
    bool closed;
} trp_channel_look;
trp_channel_look trp_channel_see(const trp_channel *channel);
// The writer's process, and if it has ended, how: "process 3 (pid 77), which was killed by ...".
void trp_channel_writer_text(const trp_channel *channel, char text[TRP_CHANNEL_WHO]);

// ---- writing, by one thread at a time

typedef struct trp_channel_writer {
    trp_channel channel;
    uint64_t next;    // The sequence that is being written, or will be.
    uint64_t cleared; // Those below may be written, as far as the readers of `joins` are concerned.
    uint32_t joins;
    uint32_t slot;
    uint32_t blocker; // The place that was found last to keep it waiting.
    bool begun;
    uint64_t spare[TRP_CHANNEL_SLOTS_MAX / 64]; // Latest: a bit a slot that may be written.
} trp_channel_writer;

// ---- reading, by one thread at a time for each reader

typedef struct trp_channel_reader {
    trp_channel channel;
    uint32_t place;
    uint64_t next; // Ordered: the sequence that it reads, or will. Latest: after the last one read.
    uint32_t pin;  // Latest: as in the channel.
    bool begun;
} trp_channel_reader;

typedef struct trp_channel_value {
    const void *data; // In the read-only mapping.
    size_t size;
    uint64_t sequence;
} trp_channel_value;

enum { TRP_CHANNEL_ANY = -1 };

#endif
