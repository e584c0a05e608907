// store_wait.h: objects of the store made and read by threads that can wait for room when it is
// full.
#ifndef TRP_REF_STORE_WAIT_H
#define TRP_REF_STORE_WAIT_H

#include <runtime/store/store.h>

// As trp_room_create and trp_store_pin of the runtime, but where there is no room, and nothing can
// go to disk for it, this thread waits for as long as .store_wait_ms of troupe_start says; a method
// gives its turn at the CPU to others meanwhile. Then NO_MEMORY tells who has the room. A thread
// that hands out what has arrived does not wait: room may be what it has yet to hand out. An object
// that a stopped process moves, to disk or back, is waited for as long: TIMED_OUT.
troupe_status trp_object_create(size_t size, uint64_t schema, trp_encoding encoding,
                                trp_object *object, void **data);
trp_object_info trp_object_pin(trp_object object);
// How long somebody is waited for who was stopped while he moves an object.
int trp_object_patience_ms(void);

#endif
