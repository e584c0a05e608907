// residency.c: the machine of `where` (see store/residency.h).
//
// A process that moves an object out of memory must hold it, but had no hold to begin with. It adds
// one in its own ledger and then raises the epoch, which succeeds only on a settled word of that
// generation; else it takes the hold back, and frees whatever object has the row by then if that
// was its last hold.
#include <runtime/store/residency.h>

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/fault.h>
#include <runtime/base/slow.h>
#include <runtime/shm/pages.h>
#include <runtime/shm/process_table.h>
#include <runtime/store/eviction.h>
#include <runtime/store/holds.h>
#include <runtime/store/inspect.h>
#include <runtime/store/spill_file.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LOOK_NS = 50000000 }; // Between looks at who moves an object.

static uint32_t self;
static pthread_mutex_t moving = PTHREAD_MUTEX_INITIALIZER; // Of who chooses what goes.

void trp_where_open(uint32_t process)
{
    self = process;
}

// ---- words

// From `*where`, which becomes what is there, to another state; who waits is woken. False: it was
// another by now.
static bool step(trp_object_row *row, uint32_t *where, trp_where state, bool file)
{
    bool still = state == TRP_WHERE_MEMORY || state == TRP_WHERE_DISK || state == TRP_WHERE_LOST;
    uint32_t next = trp_where_next(*where, state, file, still ? 0 : self);
    if (!atomic_compare_exchange_strong(&row->where, where, next))
        return false;
    *where = next;
    TRP_FAULT("store");
    return true;
}

static void wake(trp_object_row *row)
{
    (void)syscall(SYS_futex, &row->where, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    TRP_FAULT("store");
}

// ---- waiting for who moves it

// Waits for a step of another. It may die between that and its wake: nobody sleeps for long.
static void await_step(trp_object_row *row, uint32_t where, int64_t most_ns)
{
    const struct timespec soon = {.tv_nsec = most_ns < LOOK_NS ? (long)most_ns : LOOK_NS};
    (void)syscall(SYS_futex, &row->where, FUTEX_WAIT, where, &soon, NULL, 0);
}

static troupe_status still_moved(uint32_t where, const char *but)
{
    trp_store_view view;
    TROUPE_TRY(trp_view_open(0, &view));
    trp_process_seen mover = trp_view_process(&view, trp_where_process(where));
    return troupe_fail(TROUPE_TIMED_OUT, "the value is being %s disk by %s (pid %d), %s",
                       trp_where_state(where) == TRP_WHERE_GOING ? "brought to" : "read back from",
                       mover.label, mover.pid, but);
}

// Whether its process was stopped by a signal or a debugger: it may never go on.
static bool is_stopped(uint32_t where)
{
    int64_t ran_ms;
    char doing = trp_process_doing(
        (int)atomic_load(&trp_segment_process(trp_where_process(where))->pid), &ran_ms);
    return doing == 'T' || doing == 't';
}

// Until it is not `where` any more. What others do in time is waited for, however long that takes:
// it is what this process would have to do itself.
static troupe_status await_mover(trp_object_row *row, uint32_t where, int patience_ms)
{
    int64_t began_ns = trp_clock_ns();
    troupe_status status = TROUPE_OK;
    trp_slow slow;
    trp_slow_begin(&slow, TRP_SLOW_MOVE);
    while (status == TROUPE_OK && atomic_load(&row->where) == where) {
        if (trp_slow_is_due(&slow))
            trp_slow_tell(&slow, "an object that %s moves to disk or back%s",
                          trp_process_text(trp_where_process(where)).text,
                          is_stopped(where) ? "; it is stopped" : "");
        await_step(row, where, LOOK_NS);
        bool patient = patience_ms < 0 || (trp_clock_ns() - began_ns) / 1000000 < patience_ms;
        if ((!patient || trp_process_ending()) && is_stopped(where) &&
            atomic_load(&row->where) == where)
            status = still_moved(where, "which is stopped; the reference stays valid");
    }
    trp_slow_end(&slow);
    return status;
}

troupe_status trp_where_await(uint32_t slot, uint64_t generation, int64_t deadline_ns)
{
    trp_object_row *row = trp_object_row_at(slot);
    for (;;) {
        uint32_t where = atomic_load(&row->where);
        if (!trp_where_is_moved(where) || trp_row_generation(atomic_load(&row->word)) != generation)
            return TROUPE_OK;
        int64_t left_ns = deadline_ns - trp_clock_ns();
        if (left_ns <= 0)
            return still_moved(where, "which was not done in time; the reference stays valid");
        await_step(row, where, left_ns);
    }
}

static trp_spill_object what_is(uint32_t slot, uint64_t generation)
{
    trp_object_row *row = trp_object_row_at(slot);
    return (trp_spill_object){
        .id = trp_row_id(slot, generation),
        .size = atomic_load_explicit(&row->size, memory_order_relaxed),
        .schema = atomic_load_explicit(&row->schema, memory_order_relaxed),
        .encoding = (trp_encoding)atomic_load_explicit(&row->encoding, memory_order_relaxed)};
}

static void free_place(uint32_t slot)
{
    trp_object_row *row = trp_object_row_at(slot);
    TRP_STORE_HANDED();
    trp_pages_free(atomic_load(&row->place), slot);
    TRP_FAULT("store");
    atomic_store(&row->place, 0);
    TRP_FAULT("store");
}

// ---- holding what is moved

static void let_go(uint32_t slot)
{
    (void)trp_ledger_take(self, slot);
    trp_row_free_if_unheld(slot); // Whoever would have freed it may have seen our hold.
}

// Holds the object from nothing; false: it is another by now, or is being freed.
static bool hold(uint32_t slot, uint64_t generation)
{
    trp_object_row *row = trp_object_row_at(slot);
    uint64_t word = atomic_load(&row->word);
    if (!trp_row_settled(word) || trp_row_generation(word) != generation)
        return false;
    if (self != atomic_load_explicit(&row->maker, memory_order_relaxed) &&
        atomic_load(&row->lent) == 0)
        atomic_store(&row->lent, 1); // Of another object by now, this costs it a longer look.
    TRP_FAULT("store");
    if (trp_ledger_reserve(self, slot) != TROUPE_OK ||
        trp_ledger_add(self, slot, NULL) != TROUPE_OK)
        return false;
    // Who reads the counts after this sees ours; who read them before has an older word, and fails
    // to free it.
    while (trp_row_settled(word) && trp_row_generation(word) == generation)
        if (atomic_compare_exchange_weak(&row->word, &word,
                                         trp_row_word(trp_row_state_of(word),
                                                      (trp_row_tag(word) + 1) & TRP_TAG_MASK,
                                                      generation))) {
            TRP_FAULT("store");
            return true;
        }
    let_go(slot);
    return false;
}

bool trp_where_begin(void)
{
    if (pthread_mutex_trylock(&moving) == 0)
        return true;
    pthread_mutex_lock(&moving);
    pthread_mutex_unlock(&moving);
    return false;
}

void trp_where_end(void)
{
    pthread_mutex_unlock(&moving);
}

// ---- out of memory

// Of one that is in memory and SAVING by us.
static void drop_file(trp_object_row *row, uint32_t *where, const trp_spill_object *object)
{
    trp_spill_remove(object);
    (void)step(row, where, TRP_WHERE_MEMORY, false);
}

// Of one that is in memory without a file.
static troupe_status write_file(trp_object_row *row, uint32_t *where, uint32_t slot,
                                uint64_t generation)
{
    trp_spill_object object = what_is(slot, generation);
    if (!step(row, where, TRP_WHERE_SAVING, true))
        return TRP_WHERE_BUSY;
    const char *data = trp_segment.read_only + trp_place_offset(atomic_load(&row->place));
    troupe_status status = trp_spill_write(&object, data);
    if (status != TROUPE_OK) {
        int error = errno;
        drop_file(row, where, &object);
        errno = error;
    }
    return status;
}

static troupe_status save_held(uint32_t slot, uint64_t generation)
{
    trp_object_row *row = trp_object_row_at(slot);
    uint32_t where = atomic_load(&row->where);
    if (trp_where_state(where) != TRP_WHERE_MEMORY || trp_ledger_pinned(slot, self))
        return TRP_WHERE_BUSY;
    if (!trp_where_has_file(where))
        TROUPE_TRY(write_file(row, &where, slot, generation));
    if (!step(row, &where, TRP_WHERE_LEAVING, true))
        return TRP_WHERE_BUSY;
    // Pairs with trp_where_fetch: it pins and then reads `where`, we wrote `where` and now read the
    // pins. Who sees us there may undo that step. Either way the file is whole, and stays.
    if (trp_ledger_pinned(slot, self)) {
        (void)step(row, &where, TRP_WHERE_MEMORY, true);
        return TRP_WHERE_BUSY;
    }
    if (!step(row, &where, TRP_WHERE_GOING, true))
        return TRP_WHERE_BUSY;
    free_place(slot);
    (void)step(row, &where, TRP_WHERE_DISK, true);
    wake(row);
    return TROUPE_OK;
}

troupe_status trp_where_save(uint32_t slot, uint64_t word)
{
    uint64_t generation = trp_row_generation(word);
    if (!hold(slot, generation))
        return TRP_WHERE_BUSY;
    troupe_status status = save_held(slot, generation);
    int error = errno;
    let_go(slot);
    errno = error; // Of what failed, if anything did.
    return status;
}

bool trp_where_bare(uint32_t slot, uint64_t word)
{
    trp_object_row *row = trp_object_row_at(slot);
    uint64_t generation = trp_row_generation(word);
    if (!hold(slot, generation))
        return false;
    uint32_t where = atomic_load(&row->where);
    trp_spill_object object = what_is(slot, generation);
    bool bare = trp_where_state(where) == TRP_WHERE_MEMORY && trp_where_has_file(where) &&
                step(row, &where, TRP_WHERE_SAVING, true);
    if (bare)
        drop_file(row, &where, &object);
    let_go(slot);
    return bare;
}

// ---- back

// With the object COMING by us.
static troupe_status read_back(uint32_t slot, uint64_t generation, uint32_t *where)
{
    trp_object_row *row = trp_object_row_at(slot);
    trp_spill_object object = what_is(slot, generation);
    size_t size = object.size > 0 ? object.size : 1;
    troupe_status status;
    do
        status = trp_pages_take(size, slot, &row->place);
    while (status == TROUPE_NO_MEMORY && trp_room_make(size));
    TRP_FAULT("store");
    if (status == TROUPE_OK) {
        TRP_STORE_HANDED();
        char *data = trp_segment.base + trp_place_offset(atomic_load(&row->place));
        status = trp_spill_read(&object, data);
    }
    if (status != TROUPE_OK) {
        free_place(slot);
        (void)step(row, where, status == TROUPE_CORRUPT ? TRP_WHERE_LOST : TRP_WHERE_DISK, true);
        wake(row);
        return status;
    }
    (void)step(row, where, TRP_WHERE_MEMORY, true); // Its file stays: to go again costs nothing.
    wake(row);
    return TROUPE_OK;
}

troupe_status trp_where_fetch(uint32_t slot, uint64_t generation, int patience_ms)
{
    trp_object_row *row = trp_object_row_at(slot);
    uint32_t where = atomic_load(&row->where);
    for (;;) {
        switch (trp_where_state(where)) {
        case TRP_WHERE_MEMORY:
        case TRP_WHERE_SAVING:
            return TROUPE_OK;
        case TRP_WHERE_LEAVING: // It must not go any more: our pin is written.
            (void)step(row, &where, TRP_WHERE_MEMORY, true);
            break;
        case TRP_WHERE_GOING:
        case TRP_WHERE_COMING:
            TROUPE_TRY(await_mover(row, where, patience_ms));
            where = atomic_load(&row->where);
            break;
        default:
            if (step(row, &where, TRP_WHERE_COMING, true))
                return read_back(slot, generation, &where);
            break;
        }
    }
}

// ---- ends

void trp_where_forget(uint32_t slot, uint64_t generation)
{
    trp_object_row *row = trp_object_row_at(slot);
    uint32_t where = atomic_load(&row->where);
    if (trp_where_has_file(where)) {
        trp_spill_object object = what_is(slot, generation);
        trp_spill_remove(&object);
    }
    if (trp_where_state(where) != TRP_WHERE_MEMORY || trp_where_has_file(where))
        atomic_store(&row->where, trp_where_next(where, TRP_WHERE_MEMORY, false, 0));
}

static bool is_left(uint32_t where, bool (*is_dead)(uint32_t process, const void *set),
                    const void *set)
{
    trp_where state = trp_where_state(where);
    return state != TRP_WHERE_MEMORY && state != TRP_WHERE_DISK && state != TRP_WHERE_LOST &&
           is_dead(trp_where_process(where), set);
}

static void repair_held(uint32_t slot, uint64_t generation, uint32_t where)
{
    trp_object_row *row = trp_object_row_at(slot);
    trp_where state = trp_where_state(where);
    if (state == TRP_WHERE_SAVING) { // The file may be torn.
        trp_spill_object object = what_is(slot, generation);
        if (step(row, &where, TRP_WHERE_SAVING, true))
            drop_file(row, &where, &object);
        return;
    }
    if (state == TRP_WHERE_LEAVING) { // A reader may be faster.
        (void)step(row, &where, TRP_WHERE_MEMORY, true);
        return;
    }
    free_place(slot); // Its bytes are, or still are, in the file alone.
    (void)step(row, &where, TRP_WHERE_DISK, true);
    wake(row);
}

void trp_where_repair(uint32_t slot, bool (*is_dead)(uint32_t process, const void *set),
                      const void *set)
{
    trp_object_row *row = trp_object_row_at(slot);
    uint64_t word = atomic_load(&row->word);
    if (!is_left(atomic_load(&row->where), is_dead, set) || !trp_row_settled(word))
        return; // Who frees it frees all that it has.
    if (hold(slot, trp_row_generation(word))) {
        uint32_t where = atomic_load(&row->where);
        if (is_left(where, is_dead, set))
            repair_held(slot, trp_row_generation(word), where);
        let_go(slot);
    }
}
