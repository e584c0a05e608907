// reap.h: what the store takes back after a death, and what it holds now (see store.h).
#ifndef TRP_STORE_REAP_H
#define TRP_STORE_REAP_H

#include <runtime/store/store.h>

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

#endif
