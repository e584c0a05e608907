// store.c: objects in the segment (see store.h; the argument for each step is in docs/design.md,
// "The store").
//
// An object row's word holds its state, its generation and a tag: while something is half done, the
// process that does it (so that after its death the sweep knows what to finish); once the object is
// settled, the epoch of its holds. All accesses that decide about life are sequentially consistent.
#include <runtime/store.h>

#include <linux/futex.h>
#include <runtime/clock.h>
#include <runtime/error.h>
#include <runtime/fault.h>
#include <runtime/layout.h>
#include <runtime/memory.h>
#include <runtime/pages.h>
#include <runtime/process.h>
#include <runtime/store_ledger.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef enum row_state {
    FREE,
    FILLING,    // by the process in the tag
    PROMISED,   // by the process in the tag
    FULFILLING, // a promise that the process in the tag is giving its bytes
    SEALED,     // settled, from here: the tag is the epoch
    FAILED,
    SHARED,  // to here
    FREEING, // by the process in the tag
} row_state;

// A tag is wide enough that it does not come round while somebody reads the holds, and a generation
// that a stale id is not met again by chance.
enum {
    STATE_BITS = 3,
    TAG_BITS = 23,
    GENERATION_BITS = 64 - STATE_BITS - TAG_BITS,
    ID_SLOT_BITS = 20,
    RECENT = 16,
    PROBES = 64, // Rows looked at before the table grows.
};
#define TAG_MASK ((1u << TAG_BITS) - 1)
#define ID_BIT (UINT64_C(1) << 63)
#define GENERATION_MASK ((UINT64_C(1) << GENERATION_BITS) - 1)

static uint32_t self;

// Rows that this thread freed last, and where its last search stopped: hints.
static _Thread_local struct {
    uint32_t slots[RECENT], count, rotor;
} recent;

// ---- words and ids

static uint64_t make_word(row_state state, uint32_t tag, uint64_t generation)
{
    return (uint64_t)state | (uint64_t)tag << STATE_BITS | generation << (STATE_BITS + TAG_BITS);
}

static row_state state_of(uint64_t word)
{
    return (row_state)(word & ((1u << STATE_BITS) - 1));
}

static uint32_t tag_of(uint64_t word)
{
    return word >> STATE_BITS & TAG_MASK;
}

static uint64_t generation_of(uint64_t word)
{
    return word >> (STATE_BITS + TAG_BITS);
}

static bool is_unsettled(row_state state)
{
    return state == FILLING || state == PROMISED || state == FULFILLING;
}

static bool is_settled(row_state state)
{
    return state == SEALED || state == FAILED || state == SHARED;
}

static trp_object make_id(uint32_t slot, uint64_t generation)
{
    return ID_BIT | generation << ID_SLOT_BITS | slot;
}

static uint32_t slot_of(trp_object id)
{
    return (uint32_t)id & ((1u << ID_SLOT_BITS) - 1);
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
    return same && (is_unsettled(state_of(*word)) || is_settled(state_of(*word))) ? row : NULL;
}

static troupe_status stale(void)
{
    return troupe_fail(TROUPE_INVALID, "the reference is stale: its object is gone, or never was");
}

// ---- freeing

// Frees a row that is FREEING, by this process or by one that died doing so. Each step does no
// harm twice, and the word comes last: while it is not FREE, what the row names may be the row's.
static void free_row(uint32_t slot)
{
    trp_object_row *row = trp_object_row_at(slot);
    TRP_FAULT("store");
    trp_ledger_clear(slot);
    TRP_FAULT("store");
    trp_pages_free(atomic_load(&row->place), slot);
    atomic_store_explicit(&row->place, 0, memory_order_relaxed);
    TRP_FAULT("store");
    // Pairs with the swap in take_row.
    atomic_store(&row->word, make_word(FREE, 0, generation_of(atomic_load(&row->word))));
    TRP_FAULT("store");
    if (recent.count < RECENT)
        recent.slots[recent.count++] = slot;
}

// Frees the object if it is settled and nobody holds it. The holds are not read at one instant: a
// process may give another a hold behind our back and then drop its own, so that we find neither.
// But it raises the epoch in between (trp_store_hold), and we read the word before the holds: then
// our swap fails, and we read them again. Of several who find none, one swap decides.
static void free_if_unheld(uint32_t slot)
{
    trp_object_row *row = trp_object_row_at(slot);
    uint64_t word = atomic_load(&row->word);
    while (is_settled(state_of(word)) && !trp_ledger_held(slot, self)) {
        TRP_FAULT("store");
        if (atomic_compare_exchange_strong(&row->word, &word,
                                           make_word(FREEING, self, generation_of(word)))) {
            free_row(slot);
            return;
        }
    }
}

// ---- settling

static void wake(trp_object_row *row)
{
    if (atomic_load(&row->awaited) != 0 && atomic_exchange(&row->awaited, 0) != 0)
        (void)syscall(SYS_futex, &row->word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

// From the unsettled `word` to a settled state; who waits is woken. False if it was another by now.
static bool settle(uint32_t slot, uint64_t word, row_state state)
{
    trp_object_row *row = trp_object_row_at(slot);
    // Also a release: pairs with `find` of who reads the other fields, and the bytes, then.
    if (!atomic_compare_exchange_strong(&row->word, &word,
                                        make_word(state, 0, generation_of(word))))
        return false;
    TRP_FAULT("store");
    wake(row);
    TRP_FAULT("store");
    // An unsettled object is not freed, whoever drops it. Pairs with trp_store_release: it takes
    // its hold away, then reads the state; we wrote the state and now read the holds. One of the
    // two sees that nobody is left.
    free_if_unheld(slot);
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
static bool try_row(uint32_t slot, row_state state, uint64_t *word)
{
    trp_object_row *row = trp_object_row_at(slot);
    uint64_t was = atomic_load_explicit(&row->word, memory_order_relaxed);
    if (state_of(was) != FREE)
        return false;
    *word = make_word(state, self, (generation_of(was) + 1) & GENERATION_MASK);
    if (!atomic_compare_exchange_strong(&row->word, &was, *word))
        return false;
    TRP_FAULT("store");
    // Its place is empty since it was freed; the rest may be anything. Nobody knows the id yet.
    atomic_store_explicit(&row->awaited, 0, memory_order_relaxed);
    atomic_store_explicit(&row->size, 0, memory_order_relaxed);
    recent.rotor = slot + 1;
    return true;
}

static bool try_rows(uint32_t from, uint32_t to, row_state state, uint32_t *slot, uint64_t *word)
{
    for (*slot = from; *slot < to; ++*slot)
        if (try_row(*slot, state, word))
            return true;
    return false;
}

// Takes a free row: one that this thread freed, one not far from where it last took one, a fresh
// one, or, where there are none, any.
static troupe_status find_row(row_state state, uint32_t *slot, uint64_t *word)
{
    uint32_t backed = atomic_load(&trp_segment.header->objects_backed);
    while (recent.count > 0) {
        uint32_t candidate = recent.slots[--recent.count];
        if (candidate < backed && try_rows(candidate, candidate + 1, state, slot, word))
            return TROUPE_OK;
    }
    uint32_t from = recent.rotor < backed ? recent.rotor : 0;
    uint32_t to = backed - from < PROBES ? backed : from + PROBES;
    if (try_rows(from, to, state, slot, word) ||
        try_rows(0, from < PROBES ? from : PROBES, state, slot, word))
        return TROUPE_OK;
    do {
        TROUPE_TRY(back_rows(&from));
        to = atomic_load(&trp_segment.header->objects_backed);
        if (try_rows(from, to, state, slot, word))
            return TROUPE_OK;
    } while (from < TRP_OBJECTS_MAX);
    if (try_rows(0, TRP_OBJECTS_MAX, state, slot, word))
        return TROUPE_OK;
    return troupe_fail(TROUPE_NO_MEMORY, "all %d places for objects of the store are taken",
                       TRP_OBJECTS_MAX);
}

// Makes a row this process's: in that state, and held once.
static troupe_status take_row(row_state state, uint64_t schema, trp_encoding encoding,
                              uint32_t *slot, uint64_t *word)
{
    TROUPE_TRY(find_row(state, slot, word));
    trp_object_row *row = trp_object_row_at(*slot);
    atomic_store_explicit(&row->schema, schema, memory_order_relaxed);
    atomic_store_explicit(&row->encoding, (uint32_t)encoding, memory_order_relaxed);
    troupe_status status = trp_ledger_reserve(self, *slot);
    if (status == TROUPE_OK)
        status = trp_ledger_add(self, *slot);
    if (status != TROUPE_OK) {
        atomic_store(&row->word, make_word(FREEING, self, generation_of(*word)));
        free_row(*slot);
    }
    return status;
}

static troupe_status take_space(uint32_t slot, size_t size)
{
    trp_object_row *row = trp_object_row_at(slot);
    if (size > trp_segment.header->capacity)
        return troupe_fail(TROUPE_TOO_LARGE,
                           "an object of %zu bytes can never fit: the store's limit is %llu bytes "
                           "(.store_bytes_max of troupe_start)",
                           size, (unsigned long long)trp_segment.header->capacity);
    TROUPE_TRY(trp_pages_take(size > 0 ? size : 1, slot, &row->place));
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
    self = process;
    trp_pages_open(process);
}

troupe_status trp_store_promise(uint64_t schema, trp_object *id)
{
    uint32_t slot;
    uint64_t word;
    TROUPE_TRY(take_row(PROMISED, schema, TRP_ENCODING_PACKED, &slot, &word));
    *id = make_id(slot, generation_of(word));
    return TROUPE_OK;
}

troupe_status trp_store_create(size_t size, uint64_t schema, trp_encoding encoding, trp_object *id,
                               void **data)
{
    uint32_t slot;
    uint64_t word;
    TROUPE_TRY(take_row(FILLING, schema, encoding, &slot, &word));
    troupe_status status = take_space(slot, size);
    if (status != TROUPE_OK) {
        atomic_store(&trp_object_row_at(slot)->word, make_word(FREEING, self, generation_of(word)));
        free_row(slot);
        return status;
    }
    *id = make_id(slot, generation_of(word));
    *data = writable(slot);
    return TROUPE_OK;
}

// FILLING, by this process, becomes `state`.
static troupe_status finish(trp_object id, row_state state)
{
    uint64_t word;
    if (find(id, &word) == NULL)
        return stale();
    if (state_of(word) != FILLING || tag_of(word) != self)
        return troupe_fail(TROUPE_INVALID, "the object is sealed already, or another process's");
    if (!settle(slot_of(id), word, state))
        return troupe_fail(TROUPE_INVALID, "the object was sealed or discarded by another thread");
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
    if (row == NULL || (state_of(word) != FILLING && state_of(word) != PROMISED) ||
        tag_of(word) != self)
        return;
    // Others may hold a promise, and wait for it: to them it has failed, without bytes. Only one
    // thread gets through here, so the hold that was made with the object is taken once.
    uint64_t mine = make_word(FULFILLING, self, generation_of(word));
    if (!atomic_compare_exchange_strong(&row->word, &word, mine))
        return;
    TRP_FAULT("store");
    atomic_store_explicit(&row->size, 0, memory_order_relaxed);
    (void)trp_ledger_take(self, slot_of(id));
    (void)settle(slot_of(id), mine, FAILED);
}

troupe_status trp_store_fulfil(trp_object id, trp_encoding encoding, const void *data, size_t size,
                               bool failed)
{
    uint64_t word;
    trp_object_row *row = find(id, &word);
    if (row == NULL)
        return stale();
    uint64_t mine = make_word(FULFILLING, self, generation_of(word));
    // From here on it is this thread's alone.
    if (state_of(word) != PROMISED || tag_of(word) != self ||
        !atomic_compare_exchange_strong(&row->word, &word, mine))
        return troupe_fail(TROUPE_INVALID, "the object is no promise of this process");
    TRP_FAULT("store");
    troupe_status status = take_space(slot_of(id), size);
    if (status == TROUPE_OK && size > 0)
        memcpy(writable(slot_of(id)), data, size);
    atomic_store_explicit(&row->encoding, (uint32_t)encoding, memory_order_relaxed);
    // Without room for the value the promise fails, with no bytes: its waiters must not hang.
    (void)settle(slot_of(id), mine, failed || status != TROUPE_OK ? FAILED : SEALED);
    return status;
}

static troupe_status share(size_t size, size_t zeroed, trp_encoding encoding, trp_object *id,
                           void **data)
{
    trp_object made;
    TROUPE_TRY(trp_store_create(size, 0, encoding, &made, data));
    memset(*data, 0, zeroed);
    TRP_FAULT("store");
    TROUPE_TRY(finish(made, SHARED));
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
// -----------------------------------------------------------------------------------------

// Says that a hold was written for another process: see free_if_unheld.
static void raise_epoch(trp_object_row *row)
{
    uint64_t word = atomic_load(&row->word);
    while (is_settled(state_of(word)) &&
           !atomic_compare_exchange_weak(
               &row->word, &word,
               make_word(state_of(word), (tag_of(word) + 1) & TAG_MASK, generation_of(word))))
        continue;
}

troupe_status trp_store_hold(trp_object id, uint32_t process)
{
    uint64_t word;
    trp_object_row *row = find(id, &word);
    if (row == NULL || process >= TRP_PROCESSES_MAX)
        return stale();
    uint32_t slot = slot_of(id);
    TROUPE_TRY(trp_ledger_reserve(process, slot));
    TROUPE_TRY(trp_ledger_add(process, slot));
    if (process == self) // Held before and after, so nobody can have found none.
        return TROUPE_OK;
    raise_epoch(row);
    TRP_FAULT("store");
    // Pairs with the node process: it marks the row DEAD, then empties the ledger. If it emptied it
    // before our hold, we see DEAD here and take the hold back; if after, it took it itself. What
    // we leave if we die right here does not count, and ends with the object.
    if (atomic_load(&trp_segment_process(process)->state) == TRP_PROCESS_DEAD)
        (void)trp_ledger_take(process, slot);
    return TROUPE_OK;
}

#if defined(__SANITIZE_THREAD__)
_Atomic int trp_store_handed;
#endif

void trp_store_release(trp_object id, uint32_t process)
{
    uint64_t word;
    TRP_STORE_HANDED();
    if (find(id, &word) == NULL || process >= TRP_PROCESSES_MAX ||
        !trp_ledger_take(process, slot_of(id)))
        return;
    free_if_unheld(slot_of(id));
}

// ---- reading

trp_object_info trp_store_look(trp_object id)
{
    static const trp_object_state states[] = {
        [FREE] = TRP_OBJECT_GONE,        [FILLING] = TRP_OBJECT_FILLING,
        [PROMISED] = TRP_OBJECT_FILLING, [FULFILLING] = TRP_OBJECT_FILLING,
        [SEALED] = TRP_OBJECT_SEALED,    [FAILED] = TRP_OBJECT_FAILED,
        [SHARED] = TRP_OBJECT_SHARED,    [FREEING] = TRP_OBJECT_GONE,
    };
    uint64_t word;
    trp_object_row *row = find(id, &word);
    if (row == NULL)
        return (trp_object_info){.state = TRP_OBJECT_GONE};
    trp_object_info info = {.state = states[state_of(word)],
                            .schema = atomic_load_explicit(&row->schema, memory_order_relaxed)};
    if (info.state == TRP_OBJECT_FILLING)
        return info;
    info.size = atomic_load_explicit(&row->size, memory_order_relaxed);
    info.encoding = (trp_encoding)atomic_load_explicit(&row->encoding, memory_order_relaxed);
    trp_place place = atomic_load_explicit(&row->place, memory_order_relaxed);
    // A failure without bytes is one of whoever was to give them.
    if (place == 0 || (info.state == TRP_OBJECT_FAILED && info.size == 0))
        return info;
    info.data = (info.state == TRP_OBJECT_SHARED ? trp_segment.base : trp_segment.read_only) +
                trp_place_offset(place);
    return info;
}

trp_object_info trp_store_wait(trp_object id, int timeout_ms)
{
    int64_t give_up = trp_clock_ns() + (int64_t)timeout_ms * 1000000;
    struct timespec until = {give_up / 1000000000, give_up % 1000000000};
    for (;;) {
        uint64_t word;
        trp_object_row *row = find(id, &word);
        if (row == NULL || !is_unsettled(state_of(word)) ||
            (timeout_ms >= 0 && trp_clock_ns() >= give_up))
            return trp_store_look(id);
        // Pairs with `settle`: it changes the word, then reads this; we write this, and the system
        // reads the word before it lets us sleep.
        atomic_store(&row->awaited, 1);
        // The low half of the word: the state and the tag, which change with every step.
        (void)syscall(SYS_futex, &row->word, FUTEX_WAIT_BITSET, (uint32_t)word,
                      timeout_ms >= 0 ? &until : NULL, NULL, FUTEX_BITSET_MATCH_ANY);
    }
}

// ---- after a death

// Some processes: a bit each.
typedef struct process_set {
    uint64_t bits[TRP_PROCESSES_MAX / 64];
} process_set;

static process_set set_of(const uint32_t *processes, uint32_t count)
{
    process_set set = {{0}};
    for (uint32_t i = 0; i < count; i++)
        set.bits[processes[i] / 64] |= UINT64_C(1) << processes[i] % 64;
    return set;
}

static bool is_in(const process_set *set, uint32_t process)
{
    return process < TRP_PROCESSES_MAX && (set->bits[process / 64] >> process % 64 & 1) != 0;
}

// What dead processes were doing with the rows.
static void sweep_rows(const uint32_t *processes, uint32_t count, bool all)
{
    process_set dead = set_of(processes, count);
    uint32_t objects = atomic_load(&trp_segment.header->objects_backed);
    for (uint32_t slot = 0; slot < objects; slot++) {
        trp_object_row *row = trp_object_row_at(slot);
        uint64_t word = atomic_load(&row->word);
        row_state state = state_of(word);
        if (state == FREEING && all && is_in(&dead, tag_of(word))) {
            free_row(slot);
        } else if (is_unsettled(state) && is_in(&dead, tag_of(word))) {
            // Nobody else works on it. Who waits for what was promised sees a failure, without
            // bytes.
            atomic_store_explicit(&row->size, 0, memory_order_relaxed);
            (void)settle(slot, word, FAILED);
        } else if (is_settled(state)) {
            wake(row); // One of them may have settled it, and died before it woke anyone.
        }
    }
}

void trp_store_sweep_soon(const uint32_t *processes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        trp_ledger_sweep(processes[i], free_if_unheld);
        trp_pages_sweep(processes[i]);
    }
    sweep_rows(processes, count, true);
}

void trp_store_sweep_rest(void)
{
    static uint64_t held[TRP_OBJECTS_MAX / 64] TRP_VAST;
    uint32_t objects = atomic_load(&trp_segment.header->objects_backed);
    // Whoever holds an object now looks after it when it lets go, or is swept when it dies.
    trp_ledger_note_held(held, objects);
    for (uint32_t slot = 0; slot < objects; slot++)
        if ((held[slot / 64] >> slot % 64 & 1) == 0)
            free_if_unheld(slot);
}

void trp_store_sweep(uint32_t process)
{
    trp_store_sweep_soon(&process, 1);
    trp_store_sweep_rest();
}

void trp_store_sweep_last(const uint32_t *processes, uint32_t count)
{
    sweep_rows(processes, count, false);
}

troupe_status trp_store_usage(troupe_store_usage *usage)
{
    const trp_header *header = trp_segment.header;
    struct stat file;
    if (header == NULL)
        return troupe_fail(TROUPE_NOT_STARTED, "there is no store: call troupe_start first");
    if (fstat(trp_segment.fd, &file) != 0)
        return trp_fail_errno(TROUPE_IO, "the store's file cannot be asked for its size");
    troupe_store_usage now = {.bytes_max = header->capacity,
                              .bytes_backed = (uint64_t)file.st_blocks * 512};
    uint32_t objects = atomic_load(&header->objects_backed);
    for (uint32_t slot = 0; slot < objects; slot++) {
        trp_object_row *row = trp_object_row_at(slot);
        row_state state = state_of(atomic_load(&row->word));
        if ((!is_unsettled(state) && !is_settled(state)) ||
            atomic_load_explicit(&row->encoding, memory_order_relaxed) == TRP_ENCODING_INNER)
            continue;
        now.objects++;
        now.bytes_used += trp_place_bytes(atomic_load(&row->place));
    }
    *usage = now;
    return TROUPE_OK;
}

troupe_status troupe_store_usage_get(troupe_store_usage *usage)
{
    TROUPE_TRY(trp_process_check());
    return trp_store_usage(usage);
}
