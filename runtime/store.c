// store.c: objects in the segment (see store.h; the argument for each step is in docs/design.md,
// "The store").
//
// An object row's word holds its state, the process that has the right to change it (its creator
// while FILLING, whoever frees it while FREEING) and its generation. The ledgers say who holds it.
// All accesses that decide about life are sequentially consistent.
#include <runtime/store.h>

#include <errno.h>
#include <linux/futex.h>
#include <runtime/clock.h>
#include <runtime/fault.h>
#include <runtime/layout.h>
#include <runtime/pages.h>
#include <runtime/process.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef enum row_state { FREE, FILLING, SEALED, FAILED, SHARED, FREEING } row_state;

#define ID_BIT (UINT64_C(1) << 63)

static uint32_t self;
static _Atomic uint32_t row_hint;

// ---- words and ids

// A word with epoch 0.
static uint64_t make_word(row_state state, uint32_t owner, uint32_t generation)
{
    return (uint64_t)state | (uint64_t)owner << 3 | (uint64_t)generation << 32;
}

#define EPOCH_ONE (UINT64_C(1) << 15)
#define EPOCH_ALL (UINT64_C(0x1ffff) << 15)

static row_state state_of(uint64_t word)
{
    return (row_state)(word & 7);
}

static uint32_t word_owner(uint64_t word)
{
    return word >> 3 & 0xfff;
}

static uint32_t generation_of(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

// The same object in another state, at the same epoch.
static uint64_t with_state(uint64_t word, row_state state, uint32_t owner)
{
    return make_word(state, owner, generation_of(word)) | (word & EPOCH_ALL);
}

static trp_object make_id(uint32_t slot, uint32_t generation)
{
    return ID_BIT | (uint64_t)(generation & 0x7fffffff) << 32 | slot;
}

static uint32_t slot_of(trp_object id)
{
    return (uint32_t)id;
}

// The row behind an id, with its word; NULL if the id is stale or was never one.
static trp_object_row *find(trp_object id, uint64_t *word)
{
    uint32_t slot = slot_of(id);
    if ((id & ID_BIT) == 0 || trp_segment.header == NULL ||
        slot >= atomic_load(&trp_segment.header->objects_backed))
        return NULL;
    trp_object_row *row = trp_object_row_at(slot);
    *word = atomic_load(&row->word);
    bool same = make_id(slot, generation_of(*word)) == id;
    return same && state_of(*word) != FREE && state_of(*word) != FREEING ? row : NULL;
}

static troupe_status stale(void)
{
    return troupe_fail(TROUPE_INVALID, "the reference is stale: its object is gone, or never was");
}

static void wake(trp_object_row *row)
{
    (void)syscall(SYS_futex, &row->word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

// ---- ledgers

static _Atomic uint16_t *hold_of(uint32_t process, uint32_t slot)
{
    _Atomic uint16_t *ledgers =
        (_Atomic uint16_t *)(void *)(trp_segment.base + trp_segment.header->ledgers_at);
    return ledgers + (size_t)process * TRP_OBJECTS_MAX + slot;
}

static bool ledger_is_backed(uint32_t process, uint32_t slot)
{
    return (atomic_load(&trp_segment.header->ledger_backed[process]) >> slot / TRP_LEDGER_CHUNK &
            1) != 0;
}

static troupe_status back_ledger(uint32_t process, uint32_t slot)
{
    if (ledger_is_backed(process, slot))
        return TROUPE_OK;
    trp_header *header = trp_segment.header;
    uint64_t at = header->ledgers_at + ((uint64_t)process * TRP_OBJECTS_MAX +
                                        slot / TRP_LEDGER_CHUNK * (uint64_t)TRP_LEDGER_CHUNK) *
                                           sizeof(uint16_t);
    TROUPE_TRY(trp_segment_back(at, TRP_LEDGER_CHUNK * sizeof(uint16_t)));
    // The high mark first: who sees the bit set must look at this process's ledger.
    uint32_t high = atomic_load(&header->processes_high);
    while (high <= process &&
           !atomic_compare_exchange_weak(&header->processes_high, &high, process + 1))
        continue;
    (void)atomic_fetch_or(&header->ledger_backed[process], 1u << slot / TRP_LEDGER_CHUNK);
    return TROUPE_OK;
}

static bool held_by_nobody(uint32_t slot)
{
    uint32_t high = atomic_load(&trp_segment.header->processes_high);
    for (uint32_t process = 0; process < high; process++) {
        // A hold for a process that is dead does not count: its sender may have died between
        // writing it and taking it back.
        if (ledger_is_backed(process, slot) && atomic_load(hold_of(process, slot)) != 0 &&
            trp_segment_process(process)->state != TRP_PROCESS_DEAD)
            return false;
        TRP_FAULT("store column");
    }
    return true;
}

// Of an object that is being freed: what the dead were given is not the next object's.
static void clear_column(uint32_t slot)
{
    uint32_t high = atomic_load(&trp_segment.header->processes_high);
    for (uint32_t process = 0; process < high; process++)
        if (ledger_is_backed(process, slot) && atomic_load(hold_of(process, slot)) != 0)
            atomic_store(hold_of(process, slot), 0);
}

// Takes one away unless there is none: a sweep may have been here before.
static bool unhold(uint32_t process, uint32_t slot)
{
    if (!ledger_is_backed(process, slot))
        return false;
    _Atomic uint16_t *count = hold_of(process, slot);
    uint16_t before = atomic_load(count);
    while (before > 0 && !atomic_compare_exchange_weak(count, &before, (uint16_t)(before - 1)))
        continue;
    return before > 0;
}

// ---- freeing

static bool recorded_space(const trp_object_row *row, trp_space *space)
{
    uint32_t page = row->page;
    if (page == 0)
        return false;
    *space = (trp_space){.page = page - 1,
                         .pages = row->block > 0 ? 0 : row->pages,
                         .block = row->block > 0 ? row->block - 1 : 0};
    return true;
}

// Frees a row that this process has made FREEING. `look`: its space may not be recorded.
static void free_row(uint32_t slot, bool look)
{
    trp_object_row *row = trp_object_row_at(slot);
    trp_space space;
    clear_column(slot);
    if (look)
        trp_pages_free_all(slot);
    else if (recorded_space(row, &space))
        trp_pages_free(&space, slot);
    TRP_FAULT("store");
    uint32_t generation = generation_of(atomic_load(&row->word));
    row->page = 0;
    row->block = 0;
    atomic_store(&row->word, make_word(FREE, 0, generation));
    TRP_FAULT("store");
    atomic_store_explicit(&row_hint, slot, memory_order_relaxed);
}

static bool is_settled(uint64_t word)
{
    row_state state = state_of(word);
    return state == SEALED || state == FAILED || state == SHARED;
}

// Frees the object of that generation if nobody holds it. Whoever sees all ledgers at 0 may try;
// one swap decides. The ledgers are not read at once: a holder could pass its hold to a process
// whose ledger was read already. It raises the epoch in between, so that the swap fails.
static void free_if_unheld(uint32_t slot, uint32_t generation)
{
    trp_object_row *row = trp_object_row_at(slot);
    uint64_t word = atomic_load(&row->word);
    while (is_settled(word) && generation_of(word) == generation && held_by_nobody(slot)) {
        if (!atomic_compare_exchange_strong(&row->word, &word, with_state(word, FREEING, self)))
            continue;
        TRP_FAULT("store");
        free_row(slot, false);
        return;
    }
}

// ---- making

static troupe_status back_rows(uint32_t slot)
{
    trp_header *header = trp_segment.header;
    uint32_t target = slot / TRP_OBJECT_CHUNK * TRP_OBJECT_CHUNK + TRP_OBJECT_CHUNK;
    TROUPE_TRY(trp_segment_back(header->objects_at +
                                    (uint64_t)(target - TRP_OBJECT_CHUNK) * sizeof(trp_object_row),
                                (uint64_t)TRP_OBJECT_CHUNK * sizeof(trp_object_row)));
    uint32_t backed = atomic_load(&header->objects_backed);
    while (backed < target &&
           !atomic_compare_exchange_weak(&header->objects_backed, &backed, target))
        continue;
    return TROUPE_OK;
}

// Takes a free row and holds it once.
static troupe_status take_row(uint32_t *slot)
{
    for (;;) {
        uint32_t backed = atomic_load(&trp_segment.header->objects_backed);
        uint32_t hint = atomic_load_explicit(&row_hint, memory_order_relaxed);
        for (uint32_t i = 0; i < backed; i++) {
            uint32_t candidate = (hint + i) % backed;
            trp_object_row *row = trp_object_row_at(candidate);
            uint64_t word = atomic_load_explicit(&row->word, memory_order_relaxed);
            if (state_of(word) != FREE)
                continue;
            TROUPE_TRY(back_ledger(self, candidate));
            if (!atomic_compare_exchange_strong(
                    &row->word, &word,
                    make_word(FILLING, self, (generation_of(word) + 1) & 0x7fffffff)))
                continue;
            TRP_FAULT("store");
            atomic_store(&trp_object_row_at(candidate)->fulfilling, 0);
            (void)atomic_fetch_add(hold_of(self, candidate), 1);
            TRP_FAULT("store");
            atomic_store_explicit(&row_hint, candidate + 1, memory_order_relaxed);
            *slot = candidate;
            return TROUPE_OK;
        }
        if (backed >= TRP_OBJECTS_MAX)
            return troupe_fail(TROUPE_NO_MEMORY, "all %d places for objects of the store are taken",
                               TRP_OBJECTS_MAX);
        TROUPE_TRY(back_rows(backed));
    }
}

// Gives up a row of this process that is still FILLING.
static void abandon(uint32_t slot)
{
    trp_object_row *row = trp_object_row_at(slot);
    uint32_t generation = generation_of(atomic_load(&row->word));
    (void)unhold(self, slot);
    TRP_FAULT("store");
    atomic_store(&row->word, make_word(FREEING, self, generation));
    TRP_FAULT("store");
    free_row(slot, false);
}

static troupe_status take_space(uint32_t slot, size_t size, void **data)
{
    trp_object_row *row = trp_object_row_at(slot);
    trp_space space;
    if (size > trp_segment.header->capacity)
        return troupe_fail(TROUPE_TOO_LARGE,
                           "an object of %zu bytes can never fit: the store's limit is %llu bytes "
                           "(.store_bytes_max of troupe_start)",
                           size, (unsigned long long)trp_segment.header->capacity);
    TROUPE_TRY(trp_pages_take(size > 0 ? size : 1, slot, &space));
    TRP_FAULT("store");
    row->size = size;
    row->pages = space.pages;
    TRP_FAULT("store");
    row->block = space.pages > 0 ? 0 : space.block + 1;
    row->page = space.page + 1;
    TRP_FAULT("store");
    *data = trp_segment.base + trp_pages_offset(&space);
    return TROUPE_OK;
}

void trp_store_open(uint32_t process)
{
    self = process;
    row_hint = 0;
    trp_pages_open(process);
}

troupe_status trp_store_promise(uint64_t schema, trp_object *id)
{
    uint32_t slot = 0;
    TROUPE_TRY(take_row(&slot));
    trp_object_row *row = trp_object_row_at(slot);
    row->size = 0;
    row->schema = schema;
    row->encoding = TRP_ENCODING_PACKED;
    *id = make_id(slot, generation_of(atomic_load(&row->word)));
    return TROUPE_OK;
}

troupe_status trp_store_create(size_t size, uint64_t schema, trp_encoding encoding, trp_object *id,
                               void **data)
{
    trp_object made;
    TROUPE_TRY(trp_store_promise(schema, &made));
    trp_object_row_at(slot_of(made))->encoding = encoding;
    troupe_status status = take_space(slot_of(made), size, data);
    if (status == TROUPE_OK)
        *id = made;
    else
        abandon(slot_of(made));
    return status;
}

// FILLING, of this process's making, becomes `state`; who waits is woken.
static troupe_status finish(trp_object id, row_state state)
{
    uint64_t word;
    trp_object_row *row = find(id, &word);
    if (row == NULL)
        return stale();
    if (state_of(word) != FILLING || word_owner(word) != self)
        return troupe_fail(TROUPE_INVALID, "the object is sealed already, or another process's");
    while (!atomic_compare_exchange_weak(&row->word, &word, with_state(word, state, self)))
        if (state_of(word) != FILLING) // Not only the epoch has changed.
            return troupe_fail(TROUPE_INVALID,
                               "the object was sealed or discarded by another thread");
    TRP_FAULT("store");
    wake(row);
    // Pairs with trp_store_release: it takes its hold away, then reads the state; we write the
    // state, then read the holds. One of the two sees that nobody is left.
    free_if_unheld(slot_of(id), generation_of(word));
    return TROUPE_OK;
}

troupe_status trp_store_seal(trp_object id)
{
    return finish(id, SEALED);
}

void trp_store_discard(trp_object id)
{
    uint64_t word;
    trp_object_row *row = find(id, &word);
    if (row == NULL || state_of(word) != FILLING || word_owner(word) != self)
        return;
    if (atomic_exchange(&row->fulfilling, 1) != 0)
        return; // Another thread is giving it its bytes, or discards it too.
    // Others may hold a promise and wait for it: to them it has failed, without bytes.
    (void)unhold(self, slot_of(id));
    TRP_FAULT("store");
    if (row->page == 0 && finish(id, FAILED) == TROUPE_OK)
        return;
    while (!atomic_compare_exchange_weak(&row->word, &word, with_state(word, FREEING, self)))
        if (state_of(word) != FILLING)
            return;
    TRP_FAULT("store");
    free_row(slot_of(id), false);
}

troupe_status trp_store_fulfil(trp_object id, trp_encoding encoding, const void *data, size_t size,
                               bool failed)
{
    uint64_t word;
    trp_object_row *row = find(id, &word);
    if (row == NULL)
        return stale();
    if (state_of(word) != FILLING || word_owner(word) != self || row->page != 0)
        return troupe_fail(TROUPE_INVALID, "the object is no promise of this process");
    // Of two threads that got here, one takes space for it.
    if (atomic_exchange(&row->fulfilling, 1) != 0)
        return troupe_fail(TROUPE_INVALID, "the promise is being fulfilled by another thread");
    void *space;
    troupe_status status = take_space(slot_of(id), size, &space);
    if (status == TROUPE_OK && size > 0)
        memcpy(space, data, size);
    row->encoding = encoding;
    // Without room for the value the promise fails, with no bytes: its waiters must not hang.
    TROUPE_TRY(finish(id, failed || status != TROUPE_OK ? FAILED : SEALED));
    return status;
}

troupe_status trp_store_share(size_t size, trp_object *id, void **data)
{
    trp_object made;
    TROUPE_TRY(trp_store_create(size, 0, TRP_ENCODING_BYTES, &made, data));
    memset(*data, 0, size);
    TRP_FAULT("store");
    TROUPE_TRY(finish(made, SHARED));
    *id = made;
    return TROUPE_OK;
}

// ---- holding

troupe_status trp_store_hold(trp_object id, uint32_t process)
{
    uint64_t word;
    trp_object_row *row = find(id, &word);
    if (row == NULL || process >= TRP_PROCESSES_MAX)
        return stale();
    uint32_t slot = slot_of(id);
    TROUPE_TRY(back_ledger(process, slot));
    _Atomic uint16_t *count = hold_of(process, slot);
    uint16_t before = atomic_load(count);
    do
        if (before == UINT16_MAX)
            return troupe_fail(TROUPE_NO_MEMORY, "a process holds one object %u times", UINT16_MAX);
    while (!atomic_compare_exchange_weak(count, &before, (uint16_t)(before + 1)));
    TRP_FAULT("store");
    // Pairs with free_if_unheld. The caller's own hold keeps the object until the epoch is raised.
    while (!atomic_compare_exchange_weak(&row->word, &word,
                                         (word & ~EPOCH_ALL) | ((word + EPOCH_ONE) & EPOCH_ALL)))
        continue;
    TRP_FAULT("store");
    // Pairs with the node process: it marks the row DEAD, then empties the ledger. If it emptied it
    // before our hold, we see DEAD here and take the hold back; if after, it took it itself.
    if (process != self && trp_segment_process(process)->state == TRP_PROCESS_DEAD)
        (void)unhold(process, slot);
    return TROUPE_OK;
}

void trp_store_release(trp_object id, uint32_t process)
{
    uint64_t word;
    trp_object_row *row = find(id, &word);
    if (row == NULL || process >= TRP_PROCESSES_MAX || !unhold(process, slot_of(id)))
        return;
    TRP_FAULT("store");
    free_if_unheld(slot_of(id), generation_of(word));
}

// ---- reading

trp_object_info trp_store_look(trp_object id)
{
    static const trp_object_state states[] = {
        [FREE] = TRP_OBJECT_GONE,     [FILLING] = TRP_OBJECT_FILLING, [SEALED] = TRP_OBJECT_SEALED,
        [FAILED] = TRP_OBJECT_FAILED, [SHARED] = TRP_OBJECT_SHARED,   [FREEING] = TRP_OBJECT_GONE};
    uint64_t word;
    trp_space space;
    trp_object_row *row = find(id, &word);
    if (row == NULL)
        return (trp_object_info){.state = TRP_OBJECT_GONE};
    trp_object_info info = {.state = states[state_of(word)], .schema = row->schema};
    if (info.state == TRP_OBJECT_FILLING || !recorded_space(row, &space))
        return info;
    info.size = row->size;
    info.encoding = (trp_encoding)row->encoding;
    uint64_t offset = trp_pages_offset(&space);
    info.data = info.state == TRP_OBJECT_SHARED ? trp_segment.base + offset
                                                : trp_segment.read_only + offset;
    return info;
}

trp_object_info trp_store_wait(trp_object id, int timeout_ms)
{
    int64_t give_up = trp_clock_ns() + (int64_t)timeout_ms * 1000000;
    for (;;) {
        trp_object_info info = trp_store_look(id);
        uint64_t word;
        trp_object_row *row = find(id, &word);
        int64_t left = give_up - trp_clock_ns();
        if (info.state != TRP_OBJECT_FILLING || row == NULL || state_of(word) != FILLING)
            return trp_store_look(id);
        if (timeout_ms >= 0 && left <= 0)
            return info;
        struct timespec wait = {left / 1000000000, left % 1000000000};
        // The low half of the word: state and owner, which change together with every step.
        (void)syscall(SYS_futex, &row->word, FUTEX_WAIT, (uint32_t)word,
                      timeout_ms >= 0 ? &wait : NULL, NULL, 0);
    }
}

// ---- after a death

// What a dead process was doing with this row.
static void settle_row(uint32_t slot, uint32_t process)
{
    trp_object_row *row = trp_object_row_at(slot);
    uint64_t word = atomic_load(&row->word);
    uint32_t generation = generation_of(word);
    bool its = word_owner(word) == process;
    if (state_of(word) == FREEING && its) {
        free_row(slot, true);
    } else if (state_of(word) == FILLING && its && held_by_nobody(slot)) {
        atomic_store(&row->word, make_word(FREEING, self, generation));
        free_row(slot, true);
    } else if (state_of(word) == FILLING && its) { // Others wait for what it had promised.
        trp_pages_free_all(slot);
        row->page = 0;
        atomic_store(&row->word, make_word(FAILED, self, generation));
        wake(row);
        free_if_unheld(slot, generation);
    } else {
        if (its) // It may have died between settling the object and waking who waits for it.
            wake(row);
        free_if_unheld(slot, generation);
    }
}

void trp_store_sweep(uint32_t process)
{
    trp_header *header = trp_segment.header;
    uint32_t objects = atomic_load(&header->objects_backed);
    for (uint32_t slot = 0; slot < objects; slot++)
        if (ledger_is_backed(process, slot))
            atomic_store(hold_of(process, slot), 0);
    for (uint32_t slot = 0; slot < objects; slot++)
        if (state_of(atomic_load(&trp_object_row_at(slot)->word)) != FREE)
            settle_row(slot, process);
    trp_pages_sweep(process);
}

troupe_status trp_store_usage(troupe_store_usage *usage)
{
    const trp_header *header = trp_segment.header;
    if (header == NULL)
        return troupe_fail(TROUPE_NOT_STARTED, "there is no store: call troupe_start first");
    troupe_store_usage now = {.bytes_max = header->capacity,
                              .bytes_backed = (uint64_t)header->pages_backed * TRP_PAGE_SIZE};
    uint32_t objects = header->objects_backed;
    for (uint32_t slot = 0; slot < objects; slot++) {
        trp_object_row *row = trp_object_row_at(slot);
        row_state state = state_of(atomic_load(&row->word));
        trp_space space;
        if (state == FREE || state == FREEING)
            continue;
        now.objects++;
        if (recorded_space(row, &space))
            now.bytes_used += trp_pages_bytes(&space);
    }
    *usage = now;
    return TROUPE_OK;
}

troupe_status troupe_store_usage_get(troupe_store_usage *usage)
{
    TROUPE_TRY(trp_process_check());
    return trp_store_usage(usage);
}
