// ref.h: references, for the layers above.
//
// A reference is an object of the store (bit 63 of its id is set: the id is the trp_object) or a
// row of this process's table: a call's future, or an alias of either. The references in a method's
// arguments are aliases that end when the method returns; troupe_ref_keep makes one that lasts.
#ifndef TRP_REF_H
#define TRP_REF_H

#include <actors/ref/call_table.h>
#include <runtime/store/store.h>
#include <troupe/object.h>

struct trp_waiter;
// What a wait for a call asks of the room of actors (actor/deadlock_probe.c). Set before main.
typedef struct trp_wait_hooks {
    // Whether a method runs on this thread; whether others may be kept from going on by what it
    // waits for.
    bool (*inside)(void);
    bool (*in_turn)(void);
    // Inside a method: lets the actor that the call is to be run on this very thread, if it is
    // next.
    troupe_status (*help)(uint64_t call, uint64_t target);
    // Notes that what runs here waits for a call (0: no more). TROUPE_DEADLOCK: only it could end
    // that wait itself; then nothing is noted.
    troupe_status (*note)(uint64_t call);
    // Sleeps without a deadline until the call has ended. TROUPE_DEADLOCK: it never will by itself.
    troupe_status (*sleep)(uint64_t call, struct trp_waiter *waiter);
} trp_wait_hooks;
extern trp_wait_hooks trp_ref_waits;

// Calls `done` exactly once when the reference is ready (its troupe_get will not wait): at once on
// the calling thread, or later on the thread that finds out. It must not block; it may call
// troupe_tell (which then never waits). The reference is not consumed, and may be dropped
// meanwhile.
void trp_ref_when(troupe_ref ref, void (*done)(void *user, troupe_ref ref), void *user);

// troupe_ref_keep, for what the library keeps and gives up itself. TROUPE_INVALID: it is empty or
// stale; then, as on every failure, *kept is empty.
troupe_status trp_ref_keep(troupe_ref ref, troupe_ref *kept);

// The object behind a reference, through an alias too; 0 if it is a call's future or stale. The
// reference keeps its hold.
trp_object trp_ref_object(troupe_ref ref);

// Reads a result that nobody else has into the thread's arena, and frees it: its references are the
// reader's.
troupe_status trp_result_take(trp_result *result, const trp_shape *shape, void *value);

// Tells it, on a thread that must not wait meanwhile, and frees it.
void trp_when_call(trp_when *when);

// Has the waiter told when the row's call ends. With the row's lock held. The row stays held and
// watched until it is unpinned.
void trp_wait_link(trp_entry *entry, trp_wait_node *node, trp_waiter *waiter);
void trp_wait_unlink(uint64_t call, trp_wait_node *node);

// Between waits: holds the row of a call and keeps it from being cleared when the runtime stops, as
// a wait does, until it is unpinned. The call is there.
void trp_wait_pin(uint64_t call);
void trp_wait_unpin(uint64_t call);

// Waits until a reference is ready. TROUPE_TIMED_OUT: not in `timeout_ms` (negative: for ever);
// TROUPE_INVALID: it is stale; TROUPE_DEADLOCK, TROUPE_BUSY as troupe_get.
troupe_status trp_ref_await(troupe_ref ref, int timeout_ms);

// Reads the value of a reference that is ready into the thread's arena, without consuming it.
troupe_status trp_ref_read(troupe_ref ref, const trp_shape *shape, void *value);

#endif
