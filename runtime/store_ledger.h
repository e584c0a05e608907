// store_ledger.h: who holds which object, and who has it pinned, which is to hold it and to read
// its bytes where they lie: two counts for each process and object, in the segment.
//
// Every step is sequentially consistent: "The store" in docs/design.md orders them with those on
// the objects' words and on the processes' states.
#ifndef TRP_STORE_LEDGER_H
#define TRP_STORE_LEDGER_H

#include <stdbool.h>
#include <stdint.h>
#include <troupe/status.h>

// Makes sure that holds of the process on objects like this one can be counted. NO_MEMORY.
troupe_status trp_ledger_reserve(uint32_t process, uint32_t object);
// Adds a hold; reserved before. NO_MEMORY: the process holds it too often.
troupe_status trp_ledger_add(uint32_t process, uint32_t object);
// Takes one away. Returns how many holds there were; 0: a sweep may have been here before.
uint32_t trp_ledger_take(uint32_t process, uint32_t object);
// The same for a pin, which counts as a hold too.
troupe_status trp_ledger_pin(uint32_t process, uint32_t object);
uint32_t trp_ledger_unpin(uint32_t process, uint32_t object);
// Whether a process that is not dead holds the object; `self` is looked at first. The counts are
// not read at one instant: see free_if_unheld in store.c.
bool trp_ledger_held(uint32_t object, uint32_t self);
// The same for pins.
bool trp_ledger_pinned(uint32_t object, uint32_t self);
// Sets the bit of each object below `objects` that a process that is not dead holds, and clears the
// others'. The counts are read one after the other.
void trp_ledger_note_held(uint64_t *bits, uint32_t objects);
// Sets all counts of an object that is being freed to 0: those of dead processes may not be.
void trp_ledger_clear(uint32_t object);
// Sets the counts of a dead process to 0, and then tells which objects it had held.
void trp_ledger_sweep(uint32_t process, void (*had)(uint32_t object));

#endif
