// doorbell.h: each process's door in the segment: how the others tell it that there is something to
// read, and wake it if none of its threads looks.
//
// A bit a peer says "look at what is between us": its ring to this process, or room in this
// process's ring to it. Deaths are written down in the segment's header and told by the node
// process's bit. Everything is sequentially consistent: a publisher writes what it has to say, then
// the bit, then reads the bell; a reader takes the bits, then looks, and before it sleeps sets the
// bell and looks at the bits once more. See docs/internals/runtime/rings.md.
#ifndef TRP_SHM_DOORBELL_H
#define TRP_SHM_DOORBELL_H

#include <runtime/shm/segment.h>
#include <stdbool.h>

enum { TRP_DOOR_WORDS = TRP_PROCESSES_MAX / 64 };

typedef enum trp_bell {
    TRP_BELL_AWAKE,  // Somebody will look before anybody sleeps.
    TRP_BELL_ASLEEP, // The reader sleeps on `bell`.
    TRP_BELL_NOBODY, // Nobody reads; the fallback thread sleeps on `fallback`.
} trp_bell;

typedef struct trp_door {
    // All that a publisher touches for the first 256 processes is in one line.
    _Alignas(64) _Atomic uint32_t bell;       // trp_bell; a futex.
    _Atomic uint32_t fallback;                // Rises when the fallback thread is called; a futex.
    _Atomic uint32_t told_end;                // The node process wants the process to end.
    _Atomic uint32_t summary;                 // A bit a word of `pending` that may have bits.
    _Atomic uint64_t announced;               // The newest ring that the process has not taken yet.
    _Atomic uint64_t pending[TRP_DOOR_WORDS]; // A bit a peer.
    _Atomic uint64_t born;                    // How many had died when the process was made.
    // The ring that this process gives to another one just now, which gives it back if it is not
    // announced.
    _Atomic uint64_t giving;
    // A bit a process that has sent something here, or was sent something from here: who is to be
    // told of this one's death. It may be of an earlier process of the same place.
    _Atomic uint64_t met[TRP_DOOR_WORDS];
} trp_door;

trp_door *trp_door_of(uint32_t process);
// Reserves memory for the door and makes it that of a process that is yet to start. Node process.
troupe_status trp_door_reset(uint32_t process);

// There is something between `from` and the door's process. `always`: also if the bit is set, which
// may be a dead predecessor's.
void trp_door_ring(uint32_t process, uint32_t from, bool always);
// Wakes whoever reads for the process, if nobody is awake.
void trp_door_call(trp_door *door);

// This process is about to send the other one something, and has not yet: each will be told of the
// other's death. Who finds the other one alive after this call is told.
void trp_door_meet(uint32_t process);

// As trp_door_ring, and wakes whoever sleeps there, whatever the bell says: who died may have taken
// it upon itself to wake them. Node process.
void trp_door_alarm(uint32_t process);

// Writes a death down. Those who have met the dead one are to be alarmed then. Node process.
void trp_deaths_add(uint32_t process, uint64_t incarnation);
uint64_t trp_deaths_count(void);
// The death of that number; false: it has been overwritten.
bool trp_deaths_read(uint64_t number, uint32_t *process, uint64_t *incarnation);

#endif
