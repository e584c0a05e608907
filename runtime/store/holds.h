// holds.h: which process holds which object, and which has it pinned (holds it and reads its bytes
// where they lie): two counts for each process and object, in the segment.
//
// Every step is sequentially consistent: docs/internals/runtime/store.md orders them with those on
// the objects' words and on the processes' states.
#ifndef TRP_STORE_HOLDS_H
#define TRP_STORE_HOLDS_H

#include <stdbool.h>
#include <stdint.h>
#include <troupe/status.h>

// Makes sure that holds of the process on objects like this one can be counted. NO_MEMORY.
troupe_status trp_ledger_reserve(uint32_t process, uint32_t object);
// Adds a hold; reserved before. *first (may be NULL): it is the only one. NO_MEMORY: the process
// holds it too often.
troupe_status trp_ledger_add(uint32_t process, uint32_t object, bool *first);
// Takes one away. Returns how many holds there were; 0: a sweep may have been here before.
uint32_t trp_ledger_take(uint32_t process, uint32_t object);
// The same for a pin, which counts as a hold too.
troupe_status trp_ledger_pin(uint32_t process, uint32_t object);
uint32_t trp_ledger_unpin(uint32_t process, uint32_t object);
// Whether this process holds the object, and its ledger is open.
bool trp_ledger_holds(uint32_t process, uint32_t object);
// Whether a process whose ledger is open holds the object; `self` is looked at first. The counts
// are not read at one instant: see trp_row_free_if_unheld.
bool trp_ledger_held(uint32_t object, uint32_t self);
// The same for pins.
bool trp_ledger_pinned(uint32_t object, uint32_t self);
// Sets the bit of each object below `objects` that a process whose ledger is open holds, and clears
// the others'. The counts are read one after the other.
void trp_ledger_note_held(uint64_t *bits, uint32_t objects);
// Sets the counts of an object that is being freed to 0 in closed ledgers. One that is not 0 in an
// open ledger is about to be taken back by whoever added it.
void trp_ledger_clear(uint32_t object);
// Closes the ledger of a dead process: from now on its counts do not count, nor what is added to
// it. Opens it, with nothing in it, for the next process of that number.
void trp_ledger_close(uint32_t process);
void trp_ledger_open(uint32_t process);
bool trp_ledger_closed(uint32_t process);
// Sets the counts of a closed ledger to 0, and then tells which objects it had held.
void trp_ledger_sweep(uint32_t process, void (*had)(uint32_t object));

#endif
