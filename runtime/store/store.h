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

// Adds a hold to the ledger of `process`; the caller must hold the object itself while it asks.
troupe_status trp_store_hold(trp_object id, uint32_t process);
// Takes one hold of `process` back.
void trp_store_release(trp_object id, uint32_t process);
// The same for what is on its way to another process, of that incarnation: to one who has died
// nothing is lent, and from who came after it at its place nothing is taken.
troupe_status trp_store_lend(trp_object id, uint32_t process, uint64_t incarnation);
void trp_store_take_back(trp_object id, uint32_t process, uint64_t incarnation);

#endif
