// store.c: objects in the segment (see store.h; the argument for each step is in
// docs/internals/runtime/store.md).
#include <linux/futex.h>
#include <pthread.h>
#include <runtime/base/error.h>
#include <runtime/base/fault.h>
#include <runtime/base/memory.h>
#include <runtime/shm/layout.h>
#include <runtime/shm/pages.h>
#include <runtime/shm/parallel_copy.h>
#include <runtime/shm/segment_guard.h>
#include <runtime/store/eviction.h>
#include <runtime/store/holds.h>
#include <runtime/store/inspect.h>
#include <runtime/store/nested.h>
#include <runtime/store/residency.h>
#include <runtime/store/row.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    RECENT = 16,
    PROBES = 64, // Rows looked at before others are.
    PROCESS_STRIDE = 96,
    THREAD_STRIDE = 32,
};

uint32_t trp_store_self;

// Rows that this thread freed last, where its next search begins (at the lowest that it freed, so
// that it stays among its own) and how far it has come: hints.
static _Thread_local struct {
    uint32_t slots[RECENT], count, rotor, ahead;
    bool placed;
} recent;

// So long the table may become before all of it is searched again. Of this process.
static _Atomic uint32_t granted;

// Threads begin to search at places of their own, apart by the lines of several processes' ledgers:
// who drops an object reads all of them, and would wait for what its neighbour has just written.
static uint32_t first_place(uint32_t backed)
{
    static _Atomic uint32_t threads; // Of this process that have asked.
    uint32_t mine = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed);
    recent.placed = true;
    return (trp_store_self * PROCESS_STRIDE + mine * THREAD_STRIDE) % backed;
}

// ---- rows

trp_object_row *trp_row_find(trp_object id, uint64_t *word)
{
    uint32_t slot = trp_row_slot(id);
    if ((id & TRP_ID_BIT) == 0 || trp_segment.header == NULL ||
        slot >= atomic_load(&trp_segment.header->objects_backed))
        return NULL;
    trp_object_row *row = trp_object_row_at(slot);
    *word = atomic_load(&row->word);
    bool same = trp_row_id(slot, trp_row_generation(*word)) == id;
    return same && (trp_row_unsettled(*word) || trp_row_settled(*word)) ? row : NULL;
}

static troupe_status stale(void)
{
    return troupe_fail(TROUPE_INVALID,
                       "the reference is stale: its object is gone or never existed");
}

// ---- freeing

// Whether this process made the object and no other one ever had a hold. Said of an object that was
// just seen without a hold of this process's, it means that nobody holds it, nor will: the first
// hold of another is written while this process holds the object (itself, or what keeps it), and
// `lent` before that hold. So what nobody else knows of is freed without a look at the others'
// ledgers, however many there are.
static bool is_private(const trp_object_row *row)
{
    return atomic_load_explicit(&row->maker, memory_order_relaxed) == trp_store_self &&
           atomic_load(&row->lent) == 0;
}

static bool is_held(uint32_t slot)
{
    if (trp_ledger_holds(trp_store_self, slot))
        return true;
    TRP_FAULT("store");
    return !is_private(trp_object_row_at(slot)) && trp_ledger_held(slot, trp_store_self);
}

// The word comes last: while it is not TRP_ROW_FREE, what the row names may be the row's.
static void free_row(uint32_t slot)
{
    trp_object_row *row = trp_object_row_at(slot);
    TRP_FAULT("store");
    if (!is_private(row)) // Else no other ledger has it.
        trp_ledger_clear(slot);
    TRP_FAULT("store");
    trp_pages_free(atomic_load(&row->place), slot);
    atomic_store_explicit(&row->place, 0, memory_order_relaxed);
    atomic_store_explicit(&row->kind, TRP_KIND_NONE, memory_order_relaxed);
    TRP_FAULT("store");
    uint64_t generation = trp_row_generation(atomic_load(&row->word));
    trp_where_forget(slot, generation);
    // Pairs with the swap in take_row.
    atomic_store(&row->word, trp_row_word(TRP_ROW_FREE, 0, generation));
    TRP_FAULT("store");
    if (recent.count < RECENT)
        recent.slots[recent.count++] = slot;
    else if (slot < recent.rotor)
        recent.rotor = slot;
}

void trp_row_free(uint32_t slot)
{
    free_row(slot);
    trp_room_rise();
}

// A row that this process has taken in vain: there is no more room than before, and who tries again
// when there is must not wake itself by that.
static void give_up_row(uint32_t slot, uint64_t word)
{
    atomic_store(&trp_object_row_at(slot)->word,
                 trp_row_word(TRP_ROW_FREEING, trp_store_self, trp_row_generation(word)));
    free_row(slot);
}

// The holds are not read at one instant: a process may give another a hold behind our back and then
// drop its own, so that we find neither. But it raises the epoch in between (trp_store_hold), and
// we read the word before the holds: then our swap fails, and we read them again. Of several who
// find none, one swap decides.
void trp_row_free_if_unheld(uint32_t slot)
{
    trp_object_row *row = trp_object_row_at(slot);
    uint64_t word = atomic_load(&row->word);
    while (trp_row_settled(word) && !is_held(slot)) {
        TRP_FAULT("store");
        if (atomic_compare_exchange_strong(
                &row->word, &word,
                trp_row_word(TRP_ROW_FREEING, trp_store_self, trp_row_generation(word)))) {
            if (atomic_load_explicit(&row->inside, memory_order_relaxed) > 0)
                trp_inside_free(slot);
            else
                trp_row_free(slot);
            return;
        }
    }
}

// ---- settling

// The mark goes last: who dies before that leaves it to the sweep, which wakes again. The row may
// be another object's by then, whose mark differs.
void trp_row_wake(trp_object_row *row, uint64_t word)
{
    uint16_t mark = trp_row_mark(word);
    if (atomic_load(&row->awaited) != mark)
        return;
    (void)syscall(SYS_futex, &row->word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    TRP_FAULT("store");
    (void)atomic_compare_exchange_strong(&row->awaited, &mark, 0);
}

bool trp_row_settle(uint32_t slot, uint64_t word, trp_row_state state)
{
    trp_object_row *row = trp_object_row_at(slot);
    TRP_STORE_HANDED();
    // Also a release: pairs with `find` of who reads the other fields, and the bytes, then.
    if (!atomic_compare_exchange_strong(&row->word, &word,
                                        trp_row_word(state, 0, trp_row_generation(word))))
        return false;
    TRP_FAULT("store");
    trp_row_wake(row, word);
    trp_room_rise(); // It may go to disk from now on.
    TRP_FAULT("store");
    // An unsettled object is not freed, whoever drops it. Pairs with trp_store_release: it takes
    // its hold away, then reads the state; we wrote the state and now read the holds. One of the
    // two sees that nobody is left.
    trp_row_free_if_unheld(slot);
    return true;
}

// ---- making

// Backs the rows from *from on, if there are any more.
static troupe_status back_rows(uint32_t *from)
{
    trp_header *header = trp_segment.header;
    uint32_t backed = atomic_load(&header->objects_backed);
    *from = backed;
    if (backed == TRP_OBJECTS_MAX)
        return TROUPE_OK;
    TROUPE_TRY(trp_segment_back(header->objects_at + (uint64_t)backed * sizeof(trp_object_row),
                                (uint64_t)TRP_OBJECT_CHUNK * sizeof(trp_object_row)));
    TRP_FAULT("store");
    (void)atomic_compare_exchange_strong(&header->objects_backed, &backed,
                                         backed + TRP_OBJECT_CHUNK);
    return TROUPE_OK;
}

// Takes the row if it is free.
static bool try_row(uint32_t slot, trp_row_state state, uint64_t *word)
{
    trp_object_row *row = trp_object_row_at(slot);
    uint64_t was = atomic_load_explicit(&row->word, memory_order_relaxed);
    if (trp_row_state_of(was) != TRP_ROW_FREE)
        return false;
    *word =
        trp_row_word(state, trp_store_self, (trp_row_generation(was) + 1) & TRP_GENERATION_MASK);
    if (!atomic_compare_exchange_strong(&row->word, &was, *word))
        return false;
    TRP_FAULT("store");
    // Its place is empty since it was freed; the rest may be anything. Nobody knows the id yet.
    atomic_store_explicit(&row->awaited, 0, memory_order_relaxed);
    atomic_store_explicit(&row->size, 0, memory_order_relaxed);
    atomic_store_explicit(&row->inside, 0, memory_order_relaxed);
    recent.rotor = slot + 1;
    recent.ahead = recent.rotor > recent.ahead ? recent.rotor : recent.ahead;
    return true;
}

static bool try_rows(uint32_t from, uint32_t to, trp_row_state state, uint32_t *slot,
                     uint64_t *word)
{
    for (*slot = from; *slot < to; ++*slot)
        if (try_row(*slot, state, word))
            return true;
    return false;
}

static bool try_some(uint32_t from, uint32_t backed, trp_row_state state, uint32_t *slot,
                     uint64_t *word)
{
    return try_rows(from, backed - from < PROBES ? backed : from + PROBES, state, slot, word);
}

// Takes a free row: one that this thread freed, one not far from where it last took one, any other
// or a fresh one. The table never gets shorter, so it grows only where a search through all of it
// was in vain, and then by an eighth before the next: many new rows cost few searches.
static troupe_status find_row(trp_row_state state, uint32_t *slot, uint64_t *word)
{
    uint32_t backed = atomic_load(&trp_segment.header->objects_backed);
    while (recent.count > 0) {
        uint32_t candidate = recent.slots[--recent.count];
        if (candidate < backed && try_rows(candidate, candidate + 1, state, slot, word))
            return TROUPE_OK;
    }
    if (!recent.placed && backed > 0)
        recent.rotor = first_place(backed);
    uint32_t from = recent.rotor < backed ? recent.rotor : 0;
    if (try_some(from, backed, state, slot, word))
        return TROUPE_OK;
    from = recent.ahead < backed ? recent.ahead : 0;
    if (try_some(from, backed, state, slot, word) ||
        try_some(0, from < PROBES ? from : PROBES, state, slot, word))
        return TROUPE_OK;
    if (backed >= atomic_load_explicit(&granted, memory_order_relaxed)) {
        if (try_rows(0, backed, state, slot, word))
            return TROUPE_OK;
        atomic_store_explicit(&granted, backed + backed / 8, memory_order_relaxed);
    }
    recent.ahead = 0; // Where this search was in vain, the next one goes round.
    do {
        TROUPE_TRY(back_rows(&from));
        uint32_t to = atomic_load(&trp_segment.header->objects_backed);
        if (try_rows(from, to, state, slot, word))
            return TROUPE_OK;
    } while (from < TRP_OBJECTS_MAX);
    if (try_rows(0, TRP_OBJECTS_MAX, state, slot, word))
        return TROUPE_OK;
    return troupe_fail(TROUPE_NO_MEMORY, "all %d places for objects of the store are taken",
                       TRP_OBJECTS_MAX);
}

// Makes a row this process's: in that state, and held once.
static troupe_status take_row(trp_row_state state, uint64_t schema, trp_encoding encoding,
                              uint32_t *slot, uint64_t *word)
{
    TROUPE_TRY(find_row(state, slot, word));
    trp_object_row *row = trp_object_row_at(*slot);
    atomic_store_explicit(&row->schema, schema, memory_order_relaxed);
    atomic_store_explicit(&row->encoding, (uint8_t)encoding, memory_order_relaxed);
    atomic_store_explicit(&row->maker, (uint16_t)trp_store_self, memory_order_relaxed);
    atomic_store_explicit(&row->lent, 0, memory_order_relaxed);
    uint32_t now_ms = trp_row_now();
    atomic_store_explicit(&row->made_ms, now_ms, memory_order_relaxed);
    atomic_store_explicit(&row->used_ms, now_ms, memory_order_relaxed);
    // Release: who sees it sees the rest (store/inspect.c).
    atomic_store_explicit(&row->kind, trp_row_kind(state, encoding), memory_order_release);
    troupe_status status = trp_ledger_reserve(trp_store_self, *slot);
    if (status == TROUPE_OK)
        status = trp_ledger_add(trp_store_self, *slot, NULL);
    if (status != TROUPE_OK)
        give_up_row(*slot, *word);
    return status;
}

// Takes space for the bytes; `make_room`: brings others to disk until there is some. That is done
// here, and not by who asks again and again: it helps where bytes are short, and not where rows
// are.
static troupe_status take_space(uint32_t slot, size_t size, bool make_room)
{
    trp_object_row *row = trp_object_row_at(slot);
    if (size > trp_segment.header->capacity)
        return troupe_fail(TROUPE_TOO_LARGE,
                           "an object of %zu bytes can never fit: the store's limit is %llu bytes "
                           "(.store_bytes_max of troupe_start)",
                           size, (unsigned long long)trp_segment.header->capacity);
    troupe_status status;
    do
        status = trp_pages_take(size > 0 ? size : 1, slot, &row->place);
    while (status == TROUPE_NO_MEMORY && make_room && trp_room_make(size));
    TROUPE_TRY(status);
    TRP_STORE_HANDED();
    TRP_FAULT("store");
    atomic_store_explicit(&row->size, size, memory_order_relaxed);
    return TROUPE_OK;
}

static void *writable(uint32_t slot)
{
    return trp_segment.base + trp_place_offset(atomic_load(&trp_object_row_at(slot)->place));
}

void trp_store_open(uint32_t process)
{
    trp_store_self = process;
    atomic_store_explicit(&granted, 0, memory_order_relaxed);
    trp_pages_open(process);
    trp_where_open(process);
}

troupe_status trp_store_promise(uint64_t schema, trp_object *id)
{
    TRP_USE_SEGMENT(trp_use_refused());
    uint32_t slot;
    uint64_t word;
    TROUPE_TRY(take_row(TRP_ROW_PROMISED, schema, TRP_ENCODING_PACKED, &slot, &word));
    *id = trp_row_id(slot, trp_row_generation(word));
    return TROUPE_OK;
}

troupe_status trp_store_try(size_t size, uint64_t schema, trp_encoding encoding, bool make_room,
                            trp_object *id, void **data)
{
    TRP_USE_SEGMENT(trp_use_refused());
    uint32_t slot;
    uint64_t word;
    TROUPE_TRY(take_row(TRP_ROW_FILLING, schema, encoding, &slot, &word));
    troupe_status status = take_space(slot, size, make_room);
    if (status != TROUPE_OK) {
        (void)trp_ledger_take(trp_store_self, slot);
        give_up_row(slot, word);
        return status;
    }
    *id = trp_row_id(slot, trp_row_generation(word));
    *data = writable(slot);
    return TROUPE_OK;
}

troupe_status trp_store_create(size_t size, uint64_t schema, trp_encoding encoding, trp_object *id,
                               void **data)
{
    troupe_status status = trp_store_try(size, schema, encoding, false, id, data);
    if (status == TROUPE_NO_MEMORY)
        (void)trp_store_blame();
    return status;
}

// FILLING, by this process, becomes `state`.
static troupe_status finish(trp_object id, trp_row_state state)
{
    uint64_t word;
    if (trp_row_find(id, &word) == NULL)
        return stale();
    if (trp_row_state_of(word) != TRP_ROW_FILLING || trp_row_tag(word) != trp_store_self)
        return troupe_fail(TROUPE_INVALID, "the object is sealed already, or another process's");
    if (!trp_row_settle(trp_row_slot(id), word, state))
        return troupe_fail(TROUPE_INVALID, "the object was sealed or discarded by another thread");
    return TROUPE_OK;
}

troupe_status trp_store_seal(trp_object id)
{
    TRP_USE_SEGMENT(trp_use_refused());
    return finish(id, TRP_ROW_SEALED);
}

void trp_store_discard(trp_object id)
{
    TRP_USE_SEGMENT();
    uint64_t word;
    trp_object_row *row = trp_row_find(id, &word);
    if (row == NULL ||
        (trp_row_state_of(word) != TRP_ROW_FILLING && trp_row_state_of(word) != TRP_ROW_PROMISED) ||
        trp_row_tag(word) != trp_store_self)
        return;
    // Others may hold a promise, and wait for it: to them it has failed, without bytes. Only one
    // thread gets through here, so the hold that was made with the object is taken once.
    uint64_t mine = trp_row_word(TRP_ROW_FULFILLING, trp_store_self, trp_row_generation(word));
    if (!atomic_compare_exchange_strong(&row->word, &word, mine))
        return;
    TRP_FAULT("store");
    atomic_store_explicit(&row->size, 0, memory_order_relaxed);
    atomic_store(&row->inside, 0);
    (void)trp_ledger_take(trp_store_self, trp_row_slot(id));
    (void)trp_row_settle(trp_row_slot(id), mine, TRP_ROW_FAILED);
}

troupe_status trp_store_fulfil(trp_object id, trp_encoding encoding, const void *data, size_t size,
                               bool failed)
{
    TRP_USE_SEGMENT(trp_use_refused());
    uint64_t word;
    trp_object_row *row = trp_row_find(id, &word);
    if (row == NULL)
        return stale();
    uint64_t mine = trp_row_word(TRP_ROW_FULFILLING, trp_store_self, trp_row_generation(word));
    // From here on it is this thread's alone.
    if (trp_row_state_of(word) != TRP_ROW_PROMISED || trp_row_tag(word) != trp_store_self ||
        !atomic_compare_exchange_strong(&row->word, &word, mine))
        return troupe_fail(TROUPE_INVALID, "the object is not a promise of this process");
    TRP_FAULT("store");
    troupe_status status = take_space(trp_row_slot(id), size, true);
    if (status == TROUPE_OK && size > 0)
        trp_copy(writable(trp_row_slot(id)), data, size);
    atomic_store_explicit(&row->encoding, (uint8_t)encoding, memory_order_relaxed);
    if (status == TROUPE_NO_MEMORY)
        (void)trp_store_blame();
    // Without room for the value the promise fails, with no bytes: its waiters must not hang.
    failed = failed || status != TROUPE_OK;
    if (failed)
        atomic_store(&row->inside, 0);
    (void)trp_row_settle(trp_row_slot(id), mine, failed ? TRP_ROW_FAILED : TRP_ROW_SEALED);
    return status;
}

static troupe_status share(size_t size, size_t zeroed, trp_encoding encoding, trp_object *id,
                           void **data)
{
    TRP_USE_SEGMENT(trp_use_refused());
    trp_object made;
    TROUPE_TRY(trp_room_create(size, 0, encoding, &made, data));
    memset(*data, 0, zeroed);
    TRP_FAULT("store");
    if (encoding != TRP_ENCODING_INNER)
        trp_store_kind(made, TRP_KIND_REGION);
    TROUPE_TRY(finish(made, TRP_ROW_SHARED));
    *id = made;
    return TROUPE_OK;
}

troupe_status trp_store_share(size_t size, trp_object *id, void **data)
{
    return share(size, size, TRP_ENCODING_BYTES, id, data);
}

troupe_status trp_store_share_inner(size_t size, size_t zeroed, trp_object *id, void **data)
{
    return share(size, zeroed, TRP_ENCODING_INNER, id, data);
}

// ---- holding

// Says that a hold was written for another process: see trp_row_free_if_unheld.
static void raise_epoch(trp_object_row *row)
{
    uint64_t word = atomic_load(&row->word);
    while (trp_row_settled(word) &&
           !atomic_compare_exchange_weak(&row->word, &word,
                                         trp_row_word(trp_row_state_of(word),
                                                      (trp_row_tag(word) + 1) & TRP_TAG_MASK,
                                                      trp_row_generation(word))))
        continue;
}

troupe_status trp_store_hold(trp_object id, uint32_t process)
{
    TRP_USE_SEGMENT(trp_use_refused());
    uint64_t word;
    trp_object_row *row = trp_row_find(id, &word);
    if (row == NULL || process >= TRP_PROCESSES_MAX)
        return stale();
    uint32_t slot = trp_row_slot(id);
    if (process != atomic_load_explicit(&row->maker, memory_order_relaxed) &&
        atomic_load(&row->lent) == 0)
        atomic_store(&row->lent, 1); // Before the hold: see is_private.
    TRP_FAULT("store");
    TROUPE_TRY(trp_ledger_reserve(process, slot));
    bool first;
    TROUPE_TRY(trp_ledger_add(process, slot, &first));
    if (process == trp_store_self && !first) // Held before and after: nobody can have found none.
        return TROUPE_OK;
    // What is written into the ledger of one who has died meanwhile is swept with it; or comes
    // after that, does not count, and ends with the object, or when the ledger is opened again.
    raise_epoch(row);
    TRP_FAULT("store");
    return TROUPE_OK;
}

#if defined(__SANITIZE_THREAD__)
_Atomic int trp_store_handed;
#endif

// After one of `held` holds of the process was taken away: frees the object if it was the last one
// of all. What this process, which lives, holds still, whoever takes that away looks after.
static void look_after(trp_object id, uint32_t process, uint32_t held)
{
    if (held == 1 || (held > 1 && process != trp_store_self))
        trp_row_free_if_unheld(trp_row_slot(id));
}

void trp_store_release(trp_object id, uint32_t process)
{
    TRP_USE_SEGMENT();
    uint64_t word;
    TRP_STORE_HANDED();
    if (trp_row_find(id, &word) == NULL || process >= TRP_PROCESSES_MAX)
        return;
    look_after(id, process, trp_ledger_take(process, trp_row_slot(id)));
}

// ---- other processes

// Whether it is still that process whose ledger this is.
static bool is_there(uint32_t process, uint64_t incarnation)
{
    return process < TRP_PROCESSES_MAX && !trp_ledger_closed(process) &&
           trp_segment_process(process)->incarnation == incarnation;
}

troupe_status trp_store_lend(trp_object id, uint32_t process, uint64_t incarnation)
{
    TRP_USE_SEGMENT(trp_use_refused());
    if (process != trp_store_self && !is_there(process, incarnation))
        return TROUPE_OK;
    return trp_store_hold(id, process);
}

void trp_store_take_back(trp_object id, uint32_t process, uint64_t incarnation)
{
    TRP_USE_SEGMENT();
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (process == trp_store_self) {
        trp_store_release(id, process);
        return;
    }
    // The node process closes the ledger of the dead, then reads this before it gives their place
    // to another. We write this, then read whether that is closed. So if it was not, nobody else's
    // hold is in that cell before we are through.
    pthread_mutex_lock(&lock);
    _Atomic uint32_t *taking = &trp_segment.header->taking[trp_store_self];
    atomic_store(taking, process + 1);
    TRP_FAULT("store");
    if (is_there(process, incarnation)) {
        TRP_FAULT("store");
        trp_store_release(id, process);
    }
    TRP_FAULT("store");
    atomic_store(taking, 0);
    pthread_mutex_unlock(&lock);
}
