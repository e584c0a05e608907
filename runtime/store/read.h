// read.h: what is known of an object of the store, its bytes, and waiting for them (see store.h).
#ifndef TRP_STORE_READ_H
#define TRP_STORE_READ_H

#include <runtime/store/store.h>

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

#endif
