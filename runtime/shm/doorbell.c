// doorbell.c: see shm/doorbell.h.
#include <runtime/shm/doorbell.h>

#include <runtime/base/fault.h>
#include <runtime/base/futex.h>
#include <runtime/shm/layout.h>
#include <runtime/shm/process_table.h>

trp_door *trp_door_of(uint32_t process)
{
    return (trp_door *)(void *)(trp_segment.base + trp_segment.header->doors_at) + process;
}

troupe_status trp_door_reset(uint32_t process)
{
    trp_door *door = trp_door_of(process);
    TROUPE_TRY(trp_segment_back((uint64_t)((char *)door - trp_segment.base), sizeof *door));
    atomic_store(&door->bell, TRP_BELL_AWAKE);
    atomic_store(&door->told_end, 0);
    atomic_store(&door->announced, 0);
    atomic_store(&door->giving, 0);
    atomic_store(&door->born, trp_deaths_count());
    for (int i = 0; i < TRP_DOOR_WORDS; i++) {
        atomic_store(&door->pending[i], 0);
        atomic_store(&door->met[i], 0);
    }
    atomic_store(&door->summary, 0);
    return TROUPE_OK;
}

void trp_door_call(trp_door *door)
{
    uint32_t state = atomic_load(&door->bell);
    // Of all who see that nobody is awake, the one whose swap succeeds wakes.
    while (state != TRP_BELL_AWAKE) {
        if (!atomic_compare_exchange_weak(&door->bell, &state, TRP_BELL_AWAKE))
            continue;
        TRP_FAULT("ring");
        if (state == TRP_BELL_NOBODY)
            atomic_fetch_add(&door->fallback, 1);
        trp_wake(state == TRP_BELL_NOBODY ? &door->fallback : &door->bell);
        return;
    }
}

void trp_door_ring(uint32_t process, uint32_t from, bool always)
{
    trp_door *door = trp_door_of(process);
    uint64_t bit = UINT64_C(1) << from % 64;
    uint32_t word = from / 64;
    // Pairs with the reader, which clears the bit and then reads what we have published before. Who
    // finds it set need not go on: this process has set it, and has said so or is about to.
    if (!always && (atomic_load(&door->pending[word]) & bit) != 0)
        return;
    (void)atomic_fetch_or(&door->pending[word], bit);
    TRP_FAULT("ring");
    (void)atomic_fetch_or(&door->summary, 1u << word);
    TRP_FAULT("ring");
    trp_door_call(door);
}

void trp_door_meet(uint32_t process)
{
    // Pairs with the node process, which says DEAD in the process's row and then reads the bits:
    // either it sees this bit, or who looks at the row after this sees the death.
    (void)atomic_fetch_or(&trp_door_of(process)->met[trp_self.slot / 64],
                          UINT64_C(1) << trp_self.slot % 64);
    (void)atomic_fetch_or(&trp_door_of(trp_self.slot)->met[process / 64], UINT64_C(1)
                                                                              << process % 64);
}

void trp_door_alarm(uint32_t process)
{
    trp_door *door = trp_door_of(process);
    trp_door_ring(process, TRP_PROCESS_NODE, true);
    atomic_fetch_add(&door->fallback, 1);
    trp_wake(&door->fallback);
    trp_wake(&door->bell);
}

// ---- deaths

void trp_deaths_add(uint32_t process, uint64_t incarnation)
{
    trp_header *header = trp_segment.header;
    uint64_t number = atomic_load(&header->deaths);
    // The place of one that is 256 older: who reads that one finds out by the count.
    atomic_store(&header->died[number % TRP_DEATHS].incarnation, incarnation);
    atomic_store(&header->died[number % TRP_DEATHS].process, process);
    atomic_store(&header->deaths, number + 1); // Pairs with trp_deaths_count.
}

uint64_t trp_deaths_count(void)
{
    return atomic_load(&trp_segment.header->deaths);
}

bool trp_deaths_read(uint64_t number, uint32_t *process, uint64_t *incarnation)
{
    trp_header *header = trp_segment.header;
    *incarnation = atomic_load(&header->died[number % TRP_DEATHS].incarnation);
    *process = (uint32_t)atomic_load(&header->died[number % TRP_DEATHS].process);
    // The place of the next one is being overwritten before it counts.
    return atomic_load(&header->deaths) - number < TRP_DEATHS;
}
