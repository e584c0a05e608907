// park.c: see park.h.
#include <runtime/link/park.h>

#include <runtime/shm/carrier.h>
#include <stddef.h>

trp_habit trp_park_spins = {.every = 1}, trp_park_yields = {.every = 1};

// The word that this thread is parked on while it reads.
static _Thread_local _Atomic uint32_t *own;

void trp_spin(_Atomic uint32_t *word, uint32_t seen)
{
    if (!trp_carriers.near->unread())
        (void)trp_spin_on(&trp_park_spins, word, seen);
}

void trp_park_crowded(void)
{
    enum { FIRST_WAITS = 16 };
    trp_park_spins.every = trp_park_yields.every = FIRST_WAITS;
    trp_park_spins.waits = trp_park_yields.waits = 1; // Not the very first either.
}

void trp_park(_Atomic uint32_t *word, uint32_t seen, int64_t deadline_ns)
{
    own = word;
    bool read = trp_carriers.near->read(word, seen, deadline_ns);
    own = NULL;
    if (!read)
        trp_nap(word, seen, deadline_ns);
}

void trp_unpark(_Atomic uint32_t *word, int count)
{
    if (own == word || trp_carriers.near->wake(word)) // Else a system call for one that is awake.
        count--;
    if (count > 0)
        trp_rouse(word, count);
}
