// holds.c: counts of holds and pins (see store/holds.h).
//
//     a ledger for each process:   [ cell of object 0 | of object 1 | ... ]   32 bits each
//     a cell:                      holds (lower 16 bits) | pins (upper 16)
//
// A ledger is backed by chunks, marked in the header, and read only where it is backed. The header
// also has a bit for each process whose ledger may hold anything, so that a search for holds does
// not read those of processes that are long gone.
#include <runtime/store/holds.h>

#include <runtime/base/fault.h>
#include <runtime/shm/layout.h>
#include <string.h>

enum { HOLD = 1, HOLDS = 0xffff, PIN = 0x10000 };

static _Atomic trp_ledger_cell *cell_of(uint32_t process, uint32_t object)
{
    _Atomic trp_ledger_cell *ledgers =
        (_Atomic trp_ledger_cell *)(void *)(trp_segment.base + trp_segment.header->ledgers_at);
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
    TROUPE_TRY(trp_segment_back(trp_segment.header->ledgers_at + first * sizeof(trp_ledger_cell),
                                TRP_LEDGER_CHUNK * sizeof(trp_ledger_cell)));
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

// The node process must be able to take over any number of holds. At the last one that can be
// counted its cell stays as it is, and so does the object, as long as the node.
static bool is_stuck(uint32_t process, uint32_t cell)
{
    return process == TRP_PROCESS_NODE && (cell & HOLDS) == HOLDS;
}

static troupe_status add(uint32_t process, uint32_t object, uint32_t amount, bool *first)
{
    mark_present(process);
    TRP_FAULT("store");
    _Atomic trp_ledger_cell *cell = cell_of(process, object);
    uint32_t before = atomic_load(cell);
    do
        if ((before & HOLDS) == HOLDS && !is_stuck(process, before)) // Nor are there more pins.
            return troupe_fail(TROUPE_NO_MEMORY,
                               "process %u holds one object %d times, and more is not counted",
                               process, HOLDS);
    while (!is_stuck(process, before) &&
           !atomic_compare_exchange_weak(cell, &before, before + amount));
    TRP_FAULT("store");
    if (first != NULL)
        *first = (before & HOLDS) == 0;
    return TROUPE_OK;
}

// Takes it away if all of it is there. Returns how many holds there were, or 0.
static uint32_t take(uint32_t process, uint32_t object, uint32_t amount)
{
    if (!is_backed(process, object))
        return 0;
    _Atomic trp_ledger_cell *cell = cell_of(process, object);
    uint32_t before = atomic_load(cell);
    bool there;
    do
        there = (before & HOLDS) > 0 && before >= amount;
    while (there && !is_stuck(process, before) &&
           !atomic_compare_exchange_weak(cell, &before, before - amount));
    TRP_FAULT("store");
    return there ? before & HOLDS : 0;
}

troupe_status trp_ledger_add(uint32_t process, uint32_t object, bool *first)
{
    return add(process, object, HOLD, first);
}

uint32_t trp_ledger_take(uint32_t process, uint32_t object)
{
    return take(process, object, HOLD);
}

troupe_status trp_ledger_pin(uint32_t process, uint32_t object)
{
    return add(process, object, PIN + HOLD, NULL);
}

uint32_t trp_ledger_unpin(uint32_t process, uint32_t object)
{
    return take(process, object, PIN + HOLD);
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

static _Atomic uint64_t *closed_bits(uint32_t process)
{
    return &trp_segment.header->ledger_closed[process / 64];
}

bool trp_ledger_closed(uint32_t process)
{
    return (atomic_load(closed_bits(process)) >> process % 64 & 1) != 0;
}

void trp_ledger_close(uint32_t process)
{
    (void)atomic_fetch_or(closed_bits(process), UINT64_C(1) << process % 64);
}

// Whether the process, if its ledger is open, has `least` or more of the object in its cell.
static bool has(uint32_t process, uint32_t object, uint32_t least)
{
    return is_backed(process, object) && atomic_load(cell_of(process, object)) >= least &&
           !trp_ledger_closed(process);
}

static bool any_has(uint32_t object, uint32_t least, uint32_t self)
{
    // Most who look have just made it. Each other ledger is a page that may not be mapped yet.
    if (has(self, object, least))
        return true;
    for (int i = next_present(-1); i >= 0; i = next_present(i)) {
        if (has((uint32_t)i, object, least))
            return true;
        TRP_FAULT("store");
        TRP_FAULT("store column");
    }
    return false;
}

bool trp_ledger_holds(uint32_t process, uint32_t object)
{
    return has(process, object, HOLD);
}

bool trp_ledger_held(uint32_t object, uint32_t self)
{
    return any_has(object, HOLD, self);
}

bool trp_ledger_pinned(uint32_t object, uint32_t self)
{
    return any_has(object, PIN, self);
}

static void zero(uint32_t process, uint32_t object)
{
    if (is_backed(process, object) && atomic_load(cell_of(process, object)) != 0)
        atomic_store(cell_of(process, object), 0);
}

void trp_ledger_clear(uint32_t object)
{
    for (int i = next_present(-1); i >= 0; i = next_present(i))
        if (trp_ledger_closed((uint32_t)i))
            zero((uint32_t)i, object);
}

// Calls `held` for each object below `objects` of which the process holds any. Two cells are looked
// at at a time: most are 0.
static void walk(uint32_t process, uint32_t objects, void (*held)(uint32_t, uint32_t, void *),
                 void *context)
{
    for (uint32_t object = 0; object < objects; object += 2) {
        if (object % TRP_LEDGER_CHUNK == 0 && !is_backed(process, object)) {
            object += TRP_LEDGER_CHUNK - 2;
            continue;
        }
        const _Atomic trp_ledger_cell *cells = cell_of(process, object);
        if (atomic_load((const _Atomic uint64_t *)(const void *)cells) == 0)
            continue;
        for (uint32_t i = 0; i < 2; i++)
            if (atomic_load(cells + i) != 0)
                held(process, object + i, context);
    }
}

static void forget(uint32_t process, uint32_t object, void *unused)
{
    (void)unused;
    atomic_store(cell_of(process, object), 0);
}

void trp_ledger_open(uint32_t process)
{
    // Also where it is not marked: who added may have seen the mark just before the sweep.
    walk(process, atomic_load(&trp_segment.header->objects_backed), forget, NULL);
    (void)atomic_fetch_and(closed_bits(process), ~(UINT64_C(1) << process % 64));
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
        if (!trp_ledger_closed((uint32_t)i))
            walk((uint32_t)i, objects, note, bits);
}

typedef struct sweeping {
    void (*had)(uint32_t object);
} sweeping;

static void take_all(uint32_t process, uint32_t object, void *context)
{
    atomic_store(cell_of(process, object), 0);
    ((sweeping *)context)->had(object);
}

void trp_ledger_sweep(uint32_t process, void (*had)(uint32_t object))
{
    walk(process, atomic_load(&trp_segment.header->objects_backed), take_all, &(sweeping){had});
    // A hold written from now on, for a process that is dead, marks it again or goes unseen.
    (void)atomic_fetch_and(&trp_segment.header->present[process / 64],
                           ~(UINT64_C(1) << process % 64));
}
