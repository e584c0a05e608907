// store.h: objects in the segment: create, seal, hold, view, release, and the sweep after a death.
// Nothing here sends messages.
//
// Holds are in ledgers: a count for each (process, object). An object lives while any count is
// above 0; the process that finds all counts at 0 frees it. A sender writes the receiver's hold
// before it publishes the reference. See docs/internals/runtime/store.md.
#ifndef TRP_STORE_H
#define TRP_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <troupe/object.h>
#include <troupe/status.h>

typedef uint64_t trp_object; // Bit 63 set, generation and slot in the table; 0: none.

typedef enum trp_encoding {
    TRP_ENCODING_BYTES,  // As given by the user.
    TRP_ENCODING_IMAGE,  // A flat type's memory.
    TRP_ENCODING_PACKED, // MessagePack.
    TRP_ENCODING_INNER,  // The runtime's own.
    TRP_ENCODING_TENSOR, // A tensor's head and elements (tensor.h).
    TRP_ENCODING_PARCEL, // A message too large for its ring: stays in memory.
} trp_encoding;

typedef enum trp_object_state {
    TRP_OBJECT_GONE,    // Never was, or was freed: the id is stale.
    TRP_OBJECT_FILLING, // Created or promised, not sealed.
    TRP_OBJECT_SEALED,
    TRP_OBJECT_FAILED, // A promise that ended with a failure: its bytes are a packed error.
    TRP_OBJECT_SHARED, // Writable by all holders for its whole life.
    TRP_OBJECT_ABSENT, // Sealed, and its bytes cannot be had: the last error says why.
} trp_object_state;

// What an object is for: for people alone.
typedef enum trp_object_kind {
    TRP_KIND_NONE, // Of a row that is not described yet.
    TRP_KIND_VALUE,
    TRP_KIND_BUFFER,
    TRP_KIND_RESULT,
    TRP_KIND_ARGUMENT,
    TRP_KIND_REGION,
    TRP_KIND_CHANNEL,
    TRP_KIND_INNER, // The runtime's own.
    TRP_KINDS,
} trp_object_kind;

typedef struct trp_object_info {
    trp_object_state state;
    const void *data; // In the read-only mapping; SHARED: in the writable one. NULL: not pinned.
    size_t size;
    uint64_t schema;
    trp_encoding encoding;
    bool on_disk;
    const trp_object *inside; // What it names, and how many of them.
    uint32_t inside_count;
} trp_object_info;

// Thread sanitizer does not see other processes: memory that this one gave up, and that comes back
// through another, looks unordered to it. Who gives up and who takes say so here.
#if defined(__SANITIZE_THREAD__)
#include <stdatomic.h>
extern _Atomic int trp_store_handed;
#define TRP_STORE_HANDED() ((void)atomic_fetch_add(&trp_store_handed, 1))
#else
#define TRP_STORE_HANDED() ((void)0)
#endif

// Says which process's ledger row this process writes. Once, before any other call.
void trp_store_open(uint32_t process);

// Creates an object of `size` bytes held once by this process; *data is its writable memory
// (64-byte aligned). NO_MEMORY: full, and nothing goes to disk for it: see trp_room_create;
// TOO_LARGE: above the segment's capacity.
troupe_status trp_store_create(size_t size, uint64_t schema, trp_encoding encoding, trp_object *id,
                               void **data);
// The object, which is being filled by this process, will name others: their ids are the first
// `count` * 8 bytes of its memory, and not part of its value. This process has a hold of each (once
// more for each time that it is named), which is the object's from now on.
troupe_status trp_store_contain(trp_object id, uint32_t count);
// The same with the ids in a list: a sealed INNER object that contains them, and is nothing else.
// So the object's own bytes may go to disk. This process has a hold of the list, which is the
// object's from now on. The object may also be promised by this process, before it gets its value:
// TROUPE_INVALID: then it would name itself, near or far; the hold is the caller's still.
troupe_status trp_store_contain_list(trp_object id, trp_object list);
troupe_status trp_store_seal(trp_object id);
void trp_store_discard(trp_object id);

// An object whose value comes later, perhaps from this process's failure to get it. Held once.
troupe_status trp_store_promise(uint64_t schema, trp_object *id);
// Gives a promised object its bytes (copied) and wakes who waits. `failed`: state FAILED, not
// SEALED. Where it fails, or its value does (NO_MEMORY), it has no list any more: that is the
// caller's again.
troupe_status trp_store_fulfil(trp_object id, trp_encoding encoding, const void *data, size_t size,
                               bool failed);

// Writable, zeroed memory shared by all holders until the last one releases it.
troupe_status trp_store_share(size_t size, trp_object *id, void **data);
// The same for what the runtime itself needs: trp_store_usage does not count it, and only the first
// `zeroed` bytes are zero.
troupe_status trp_store_share_inner(size_t size, size_t zeroed, trp_object *id, void **data);

// Says what an object that this process has just made is for, where that is not a put value, a
// promised result, a shared region, or what the runtime needs.
void trp_store_kind(trp_object id, trp_object_kind kind);
// Shows all the name of the type that goes with a schema.
void trp_store_name_type(uint64_t schema, const char *name);

// Adds a hold to the ledger of `process`; the caller must hold the object itself while it asks.
troupe_status trp_store_hold(trp_object id, uint32_t process);
// Takes one hold of `process` back.
void trp_store_release(trp_object id, uint32_t process);
// The same for what is on its way to another process, of that incarnation: to one who has died
// nothing is lent, and from who came after it at its place nothing is taken.
troupe_status trp_store_lend(trp_object id, uint32_t process, uint64_t incarnation);
void trp_store_take_back(trp_object id, uint32_t process, uint64_t incarnation);

// What is known of an object now. Its bytes may be read only while it is pinned, and are not told
// else, but for what never goes to disk (SHARED, INNER, PARCEL): that it is enough to hold.
trp_object_info trp_store_look(trp_object id);
// Looks, and holds and pins the object for this process, which must hold it already: until
// trp_store_unpin its bytes stay where they are. They are brought back from disk, and who is at
// that is waited for, but not for room. What is FILLING, GONE or ABSENT is not pinned; ABSENT with
// TROUPE_NO_MEMORY: there is no room, or it is pinned too often.
trp_object_info trp_store_pin(trp_object id);
// The same, but who moves it is waited for at most so long where that process was stopped: ABSENT
// with TROUPE_TIMED_OUT and a sentence that names it.
trp_object_info trp_store_pin_within(trp_object id, int patience_ms);
// Whether a process moves the object's bytes, to disk or back, so that who reads it would wait. And
// waits until none does, or that hour (trp_clock_ns) has come: TROUPE_TIMED_OUT, with a sentence
// that names it.
bool trp_store_is_moved(trp_object id);
troupe_status trp_store_await_move(trp_object id, int64_t deadline_ns);
void trp_store_unpin(trp_object id);
// Waits until it is neither FILLING nor PENDING, `timeout_ms` at most (negative: for ever).
trp_object_info trp_store_wait(trp_object id, int timeout_ms);

// Whether a process that lives may be about to take something back from that ledger, and another
// one must not get the number yet. The node process only, as all that follows, one thread at a
// time.
bool trp_store_is_taken_from(uint32_t process);
// A new process, whose incarnation the process table has, gets that number.
void trp_store_admit(uint32_t process);
// Frees what others have left to the node process. trp_store_await_work waits until there may be
// some, and gives idle memory back meanwhile: `seen` is what it returned last, at first 0.
void trp_store_drain(void);
uint32_t trp_store_await_work(uint32_t seen);
// Takes back exactly what a dead process held, and what it was creating.
void trp_store_sweep(uint32_t process);
// The same in two parts: for several dead processes at once all but what one of them had just let
// go of when it died; and that, which looks at the holds of all that live.
void trp_store_sweep_soon(const uint32_t *processes, uint32_t count);
void trp_store_sweep_rest(void);
// The same where the store ends soon: nothing is freed, but who waits for what they were creating
// is told.
void trp_store_sweep_last(const uint32_t *processes, uint32_t count);

troupe_status trp_store_usage(troupe_store_usage *usage);
// Who holds most of the store, at most three processes, as a part of a sentence: "held by driver
// (pid 7) 6.0 MiB, worker 2 (pid 9) 1.5 MiB". Empty: nobody holds anything.
void trp_store_holders(char *text, size_t size);

#endif
