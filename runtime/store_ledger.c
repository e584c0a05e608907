// store_ledger.c: counts of holds (see store_ledger.h).
//
//     a ledger for each process:   [ count of object 0 | of object 1 | ... ]   16 bits each
//
// A ledger is backed by chunks, marked in the header, and read only where it is backed. The header
// also has a bit for each process whose ledger may hold anything, so that who looks for holds does
// not read those of processes that are long gone.
#include <runtime/store_ledger.h>

#include <runtime/fault.h>
#include <runtime/layout.h>
#include <string.h>

static _Atomic uint16_t *count_of(uint32_t process, uint32_t object)
{
    _Atomic uint16_t *ledgers =
        (_Atomic uint16_t *)(void *)(trp_segment.base + trp_segment.header->ledgers_at);
    return ledgers + (size_t)process * TRP_OBJECTS_MAX + object;
}

static bool is_backed(uint32_t process, uint32_t object)
{
    uint64_t bits = atomic_load(&trp_segment.header->ledger_backed[process]);
    return (bits >> object / TRP_LEDGER_CHUNK & 1) != 0;
}

troupe_status trp_ledger_reserve(uint32_t process, uint32_t object)
{
    if (is_backed(process, object))
        return TROUPE_OK;
    uint32_t chunk = object / TRP_LEDGER_CHUNK;
    uint64_t first = (uint64_t)process * TRP_OBJECTS_MAX + (uint64_t)chunk * TRP_LEDGER_CHUNK;
    TROUPE_TRY(trp_segment_back(trp_segment.header->ledgers_at + first * sizeof(uint16_t),
                                TRP_LEDGER_CHUNK * sizeof(uint16_t)));
    TRP_FAULT("store");
    (void)atomic_fetch_or(&trp_segment.header->ledger_backed[process], UINT64_C(1) << chunk);
    return TROUPE_OK;
}

// Before the count: who looks for holds and misses the bit misses the count as well, and is told so
// by the epoch that is raised after it.
static void mark_present(uint32_t process)
{
    _Atomic uint64_t *bits = &trp_segment.header->present[process / 64];
    uint64_t bit = UINT64_C(1) << process % 64;
    if ((atomic_load(bits) & bit) == 0)
        (void)atomic_fetch_or(bits, bit);
}

troupe_status trp_ledger_add(uint32_t process, uint32_t object)
{
    mark_present(process);
    TRP_FAULT("store");
    _Atomic uint16_t *count = count_of(process, object);
    uint16_t before = atomic_load(count);
    do
        if (before == UINT16_MAX)
            return troupe_fail(TROUPE_NO_MEMORY, "a process holds one object %u times", UINT16_MAX);
    while (!atomic_compare_exchange_weak(count, &before, (uint16_t)(before + 1)));
    TRP_FAULT("store");
    return TROUPE_OK;
}

bool trp_ledger_take(uint32_t process, uint32_t object)
{
    if (!is_backed(process, object))
        return false;
    _Atomic uint16_t *count = count_of(process, object);
    uint16_t before = atomic_load(count);
    while (before > 0 && !atomic_compare_exchange_weak(count, &before, (uint16_t)(before - 1)))
        continue;
    TRP_FAULT("store");
    return before > 0;
}

// Counts through the processes of which something may be held; -1 after the last.
static int next_present(int process)
{
    for (process++; process < TRP_PROCESSES_MAX; process = (process / 64 + 1) * 64) {
        uint64_t left = atomic_load(&trp_segment.header->present[process / 64]) >> process % 64;
        if (left != 0)
            return process + __builtin_ctzll(left);
    }
    return -1;
}

static bool holds(uint32_t process, uint32_t object)
{
    return is_backed(process, object) && atomic_load(count_of(process, object)) != 0 &&
           atomic_load(&trp_segment_process(process)->state) != TRP_PROCESS_DEAD;
}

bool trp_ledger_held(uint32_t object, uint32_t self)
{
    // Most who look have just made it. Each other ledger is a page that may not be mapped yet.
    if (holds(self, object))
        return true;
    for (int i = next_present(-1); i >= 0; i = next_present(i)) {
        if (holds((uint32_t)i, object))
            return true;
        TRP_FAULT("store");
        TRP_FAULT("store column");
    }
    return false;
}

static void zero(uint32_t process, uint32_t object)
{
    if (is_backed(process, object) && atomic_load(count_of(process, object)) != 0)
        atomic_store(count_of(process, object), 0);
}

void trp_ledger_clear(uint32_t object)
{
    for (int i = next_present(-1); i >= 0; i = next_present(i))
        zero((uint32_t)i, object);
}

// Calls `held` for each object below `objects` of which the process holds any. Four counts are
// looked at at a time: most are 0.
static void walk(uint32_t process, uint32_t objects, void (*held)(uint32_t, uint32_t, void *),
                 void *context)
{
    for (uint32_t object = 0; object < objects; object += 4) {
        if (object % TRP_LEDGER_CHUNK == 0 && !is_backed(process, object)) {
            object += TRP_LEDGER_CHUNK - 4;
            continue;
        }
        const _Atomic uint16_t *counts = count_of(process, object);
        if (atomic_load((const _Atomic uint64_t *)(const void *)counts) == 0)
            continue;
        for (uint32_t i = 0; i < 4; i++)
            if (atomic_load(counts + i) != 0)
                held(process, object + i, context);
    }
}

static void note(uint32_t process, uint32_t object, void *bits)
{
    (void)process;
    ((uint64_t *)bits)[object / 64] |= UINT64_C(1) << object % 64;
}

void trp_ledger_note_held(uint64_t *bits, uint32_t objects)
{
    memset(bits, 0, (objects + 63) / 64 * sizeof *bits);
    for (int i = next_present(-1); i >= 0; i = next_present(i))
        if (atomic_load(&trp_segment_process((uint32_t)i)->state) != TRP_PROCESS_DEAD)
            walk((uint32_t)i, objects, note, bits);
}

typedef struct sweeping {
    void (*had)(uint32_t object);
} sweeping;

static void take_all(uint32_t process, uint32_t object, void *context)
{
    atomic_store(count_of(process, object), 0);
    ((sweeping *)context)->had(object);
}

void trp_ledger_sweep(uint32_t process, void (*had)(uint32_t object))
{
    walk(process, atomic_load(&trp_segment.header->objects_backed), take_all, &(sweeping){had});
    // A hold written from now on, for a process that is dead, marks it again or goes unseen.
    (void)atomic_fetch_and(&trp_segment.header->present[process / 64],
                           ~(UINT64_C(1) << process % 64));
}
