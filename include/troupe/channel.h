// channel.h: a buffer in the node's shared memory that one writer rewrites and a fixed number of
// readers follow, from any processes of the node: values pass without a new object, a message or a
// copy.
//
//     troupe_channel frames;
//     troupe_must(troupe_channel_open(bytes, 4, 2, &frames)); // 4 slots, for 2 readers
//
//     troupe_channel_writer out;                              // In the writing process:
//     troupe_must(troupe_channel_write_open(frames, &out));
//     void *slot;
//     troupe_must(troupe_channel_write_begin(&out, &slot, -1));
//     ... fill it ...
//     troupe_must(troupe_channel_publish(&out, size));
//
//     troupe_channel_reader in;                               // In each reading one:
//     troupe_must(troupe_channel_read_open(frames, TROUPE_CHANNEL_ANY, &in));
//     troupe_channel_view view;
//     while (troupe_channel_read_begin(&in, &view, -1) == TROUPE_OK) {
//         ... use it where it lies ...
//         troupe_channel_read_end(&in);
//     }
//
// Values have sequence numbers, from 1. Each value goes to every reader; a slot is rewritten when
// all living readers have released it, and the writer waits for that. It does not wait for readers
// that have not opened yet: a reader that must miss nothing opens before the first value is written
// (troupe_channel_state_get says how many have). With .latest = true the writer never waits, and
// readers get only the newest value, always whole: for parameters that change. A dead process
// blocks nothing: its reader's place becomes free, and another process can take its writer's place
// and continue with the next sequence.
//
// A writer or reader belongs to the process that opened it and is used by one thread at a time. Its
// place is released when it is closed or its process ends, but not when an actor in a shared
// process is killed: isolate such an actor, or close in deinit.
#ifndef TROUPE_CHANNEL_H
#define TROUPE_CHANNEL_H

#include <troupe/wire.h>

TROUPE_BEGIN_C

// A channel: a value that holds a reference, and a type for TROUPE_STRUCT. It can be sent in
// messages like any reference: in a method's arguments it is borrowed until the method returns.
TROUPE_STRUCT(troupe_channel, (troupe_ref, memory));

typedef struct troupe_channel_options {
    size_t size;
    bool latest; // Readers get the newest value only; needs at least readers + 2 slots.
    int unused_;
} troupe_channel_options;

// Makes a channel of `slots` (1 to 1024) slots of `bytes` each, for up to `readers` (1 to 1022)
// readers. The caller owns it. Its memory lives as long as a reference to it, a writer or a reader
// does. INVALID, TOO_LARGE, NO_MEMORY: the error text says which value is wrong.
TROUPE_API TROUPE_MUST_USE troupe_status
troupe_channel_open_with(size_t bytes, uint32_t slots, uint32_t readers, troupe_channel *channel,
                         const troupe_channel_options *how);
#define troupe_channel_open(...) TROUPE_CHANNEL_OPEN_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_CHANNEL_OPEN_(bytes, slots, readers, channel, ...)                                  \
    troupe_channel_open_with(                                                                      \
        (bytes), (slots), (readers), (channel),                                                    \
        &(troupe_channel_options){.size = sizeof(troupe_channel_options), __VA_ARGS__})

// Makes a channel reference that the caller owns from a borrowed one; empty where troupe_ref_keep
// would be.
TROUPE_API TROUPE_MUST_USE troupe_channel troupe_channel_keep(troupe_channel channel);
// Drops the channel's reference; its writers and readers stay. As troupe_ref_drop.
TROUPE_API void troupe_channel_drop(troupe_channel channel);

typedef struct troupe_channel_state {
    size_t bytes; // As it was made.
    uint32_t slots, readers_max;
    uint64_t published;           // The sequence of the newest value; 0: none yet.
    uint32_t readers;             // Readers' places that living processes hold.
    bool latest, written, closed; // `written`: a living process holds the writer's place.
} troupe_channel_state;
TROUPE_API troupe_status troupe_channel_state_get(troupe_channel channel,
                                                  troupe_channel_state *state, size_t size);
#define troupe_channel_state_get(channel, state)                                                   \
    troupe_channel_state_get((channel), (state), sizeof(troupe_channel_state))

// ---- writing

typedef struct troupe_channel_writer {
    struct troupe_channel_writing *inner_;
} troupe_channel_writer;

// Takes the writer's place: of a new channel, of one whose writer has left, or whose writer's
// process has ended. EXISTS: a living writer has it; STOPPED: the channel was closed; INVALID,
// WRONG_TYPE: the reference is not to a channel.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_channel_write_open(troupe_channel channel,
                                                                   troupe_channel_writer *writer);
// Lends the next slot: *data is its writable memory (64-byte aligned, with an older value in it).
// Until it is published, the same slot is lent again. Waits up to `timeout_ms` for readers to
// release it. TIMED_OUT: not all did; the error text names those that have not; NOT_STARTED: the
// runtime was stopped meanwhile.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_channel_write_begin(troupe_channel_writer *writer,
                                                                    void **data, int timeout_ms);
// Publishes the first `size` bytes of the slot: readers see all of it, or nothing yet. `size` may
// be 0. TOO_LARGE: more than a slot has; INVALID: no slot is lent.
TROUPE_API troupe_status troupe_channel_publish(troupe_channel_writer *writer, size_t size);
// Releases the place to another writer, and clears *writer. Harmless on a cleared one.
TROUPE_API void troupe_channel_write_leave(troupe_channel_writer *writer);
// Closes the channel for good: readers get what was published, and then TROUPE_END. Releases the
// place, and clears *writer. Harmless on a cleared one.
TROUPE_API void troupe_channel_close(troupe_channel_writer *writer);

// ---- reading

typedef struct troupe_channel_reader {
    struct troupe_channel_reading *inner_;
} troupe_channel_reader;

typedef struct troupe_channel_read_options {
    size_t size;
    // Begins with the newest value instead of the oldest. (With .latest: always.)
    bool newest;
    // With .latest: a value that was read before is lent again while there is no newer one, so that
    // only the first value is waited for. Its sequence tells.
    bool again;
    int unused_;
} troupe_channel_read_options;

enum { TROUPE_CHANNEL_ANY = -1 };

// Takes a reader's place, 0 to readers - 1, or any with TROUPE_CHANNEL_ANY; also that of a dead
// process. From then on the writer waits for this reader. EXISTS: that place, or every place, is
// taken; INVALID: no such place; else as troupe_channel_write_open.
TROUPE_API TROUPE_MUST_USE troupe_status
troupe_channel_read_open_with(troupe_channel channel, int place, troupe_channel_reader *reader,
                              const troupe_channel_read_options *how);
#define troupe_channel_read_open(...) TROUPE_CHANNEL_READ_OPEN_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_CHANNEL_READ_OPEN_(channel, place, reader, ...)                                     \
    troupe_channel_read_open_with(                                                                 \
        (channel), (place), (reader),                                                              \
        &(troupe_channel_read_options){.size = sizeof(troupe_channel_read_options), __VA_ARGS__})

// A value, lent read-only: a write through `data` ends in a segmentation fault.
typedef struct troupe_channel_view {
    const void *data; // 64-byte aligned.
    size_t size;
    uint64_t sequence;
} troupe_channel_view;

// Lends the next value until troupe_channel_read_end; one at a time. Waits up to `timeout_ms` for
// it. TIMED_OUT: none was published in time; END: the channel was closed and everything was read;
// PEER_LOST: the writer's process has died and all that it published was read (a later call gets
// what a successor publishes); INVALID: a value is lent already; NOT_STARTED: the runtime was
// stopped meanwhile.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_channel_read_begin(troupe_channel_reader *reader,
                                                                   troupe_channel_view *view,
                                                                   int timeout_ms);
// Releases the value that is lent; its bytes must not be read any more. Harmless without one.
TROUPE_API void troupe_channel_read_end(troupe_channel_reader *reader);
// Releases the place and the lent value, and clears *reader. Harmless on a cleared one.
TROUPE_API void troupe_channel_read_close(troupe_channel_reader *reader);

TROUPE_END_C

#endif
