// nested.c: see store/nested.h.
#include <runtime/store/nested.h>

#include <runtime/base/fault.h>
#include <runtime/shm/pages.h>
#include <runtime/shm/segment_guard.h>
#include <runtime/store/cycle_check.h>
#include <runtime/store/holds.h>

enum { NO_KEEPER = TRP_PROCESSES_MAX }; // It has died: nothing is to be taken back.

// Rows that this thread is freeing, linked by `next`: to free one may free what was inside, but
// however deep that goes, nothing recurses. After a death the sweep finds them as FREEING.
static _Thread_local struct {
    uint32_t first; // Slot + 1.
    bool busy;
} work;

uint32_t trp_inside_names(trp_object_row *row, trp_object *one, const trp_object **ids)
{
    uint32_t inside = atomic_load(&row->inside);
    const trp_object_row *list = trp_inside_list(inside);
    if (list != NULL) {
        *one = trp_row_id(inside & ~TRP_INSIDE_LIST, trp_row_generation(atomic_load(&list->word)));
        *ids = one;
        return 1;
    }
    *ids = (const trp_object *)(const void *)(trp_segment.read_only +
                                              trp_place_offset(atomic_load(&row->place)));
    return trp_inside_fits(row, inside) ? inside : 0;
}

// ---- making

bool trp_inside_is_open(trp_object id)
{
    uint64_t word;
    const trp_object_row *row = trp_row_find(id, &word);
    if (row == NULL)
        return false;
    return trp_row_unsettled(word) ||
           (atomic_load(&row->inside) != 0 && atomic_load(&row->open) != 0);
}

// NULL with the last error set: it is not `state` by this process.
static trp_object_row *find_own(trp_object id, bool promised, uint64_t *word)
{
    trp_object_row *row = trp_row_find(id, word);
    if (row == NULL) {
        (void)troupe_fail(TROUPE_INVALID, "the object is gone or never existed");
        return NULL;
    }
    trp_row_state state = trp_row_state_of(*word);
    if (trp_row_tag(*word) == trp_store_self &&
        (state == TRP_ROW_FILLING || (promised && state == TRP_ROW_PROMISED)))
        return row;
    (void)troupe_fail(TROUPE_INVALID, "the object is sealed already, or another process's");
    return NULL;
}

// Before `inside`, which others read first.
static void note_keeper(trp_object_row *row, bool open)
{
    atomic_store_explicit(&row->keeper, (uint16_t)trp_store_self, memory_order_relaxed);
    atomic_store_explicit(&row->open, open, memory_order_relaxed);
}

troupe_status trp_store_contain(trp_object id, uint32_t count)
{
    TRP_USE_SEGMENT(trp_use_refused());
    uint64_t word;
    trp_object one;
    const trp_object *ids;
    bool open = false;
    trp_object_row *row = find_own(id, false, &word);
    if (row == NULL)
        return TROUPE_INVALID;
    (void)trp_inside_names(row, &one, &ids);
    for (uint32_t i = 0; i < count; i++) { // So that the node process can take them over.
        TROUPE_TRY(trp_ledger_reserve(TRP_PROCESS_NODE, trp_row_slot(ids[i])));
        open = open || trp_inside_is_open(ids[i]);
    }
    note_keeper(row, open);
    atomic_store(&row->inside, count);
    return TROUPE_OK;
}

troupe_status trp_store_contain_list(trp_object id, trp_object list)
{
    TRP_USE_SEGMENT(trp_use_refused());
    uint64_t word;
    trp_object_row *row = find_own(id, true, &word);
    if (row == NULL)
        return TROUPE_INVALID;
    uint32_t slot = trp_row_slot(list);
    TROUPE_TRY(trp_ledger_reserve(TRP_PROCESS_NODE, slot));
    bool open = trp_inside_is_open(list);
    note_keeper(row, open);
    TRP_FAULT("store");
    atomic_store(&row->inside, TRP_INSIDE_LIST | slot); // Pairs with trp_ring_check of others.
    TRP_FAULT("store");
    // What is settled throughout cannot lead to a promise, nor can anything to what nobody knows.
    if (!open || trp_row_state_of(word) == TRP_ROW_FILLING)
        return TROUPE_OK;
    troupe_status status = trp_ring_check(id, list);
    if (status != TROUPE_OK)
        atomic_store(&row->inside, 0);
    TRP_FAULT("store");
    return status;
}

// ---- freeing

// Takes the holds of what is inside out of the ledger of `keeper`, and frees the row.
static void end(uint32_t slot, uint32_t keeper)
{
    trp_object_row *row = trp_object_row_at(slot);
    trp_object one;
    const trp_object *ids;
    uint32_t count = keeper != NO_KEEPER ? trp_inside_names(row, &one, &ids) : 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t inner = trp_row_slot(ids[i]);
        TRP_FAULT("store");
        uint32_t held = trp_ledger_take(keeper, inner);
        if (held == 1 ||
            keeper != trp_store_self) // Else what is left is looked after when it goes.
            trp_row_free_if_unheld(inner);
    }
    TRP_FAULT("store");
    atomic_store(&row->inside, 0);
    trp_row_free(slot);
}

// Whether a link leads to a row that is to be freed. Otherwise it was damaged, or the row freed
// before its turn, and nothing can be known of what follows: so no list goes round for ever.
static bool is_freeing(uint32_t slot)
{
    if (slot < atomic_load(&trp_segment.header->objects_backed) &&
        trp_row_state_of(atomic_load(&trp_object_row_at(slot)->word)) == TRP_ROW_FREEING)
        return true;
    trp_row_say_damaged(slot);
    return false;
}

static void end_with_others(uint32_t slot, uint32_t keeper)
{
    atomic_store_explicit(&trp_object_row_at(slot)->next, work.first, memory_order_relaxed);
    work.first = slot + 1;
    if (work.busy)
        return;
    work.busy = true;
    while (work.first != 0 && is_freeing(work.first - 1)) {
        uint32_t now = work.first - 1;
        work.first = atomic_load_explicit(&trp_object_row_at(now)->next, memory_order_relaxed);
        end(now, now == slot ? keeper : trp_store_self);
    }
    work.first = 0;
    work.busy = false;
}

static void leave_to_node(uint32_t slot)
{
    trp_header *header = trp_segment.header;
    trp_object_row *row = trp_object_row_at(slot);
    uint32_t first = atomic_load(&header->orphans);
    do
        atomic_store(&row->next, first);
    while (!atomic_compare_exchange_weak(&header->orphans, &first, slot + 1));
    TRP_FAULT("store");
    // Always: who was to say so before may have died before it did.
    trp_store_ring_node();
}

void trp_inside_free(uint32_t slot)
{
    uint32_t keeper = atomic_load(&trp_object_row_at(slot)->keeper);
    TRP_FAULT("store");
    if (keeper == trp_store_self)
        end_with_others(slot, keeper);
    else
        leave_to_node(slot);
}

// ---- the node process

static void adopt(uint32_t slot)
{
    trp_object_row *row = trp_object_row_at(slot);
    trp_object one;
    const trp_object *ids;
    uint32_t count = trp_inside_names(row, &one, &ids);
    for (uint32_t i = 0; i < count; i++)
        (void)trp_store_hold(ids[i], TRP_PROCESS_NODE); // Room for it was reserved by the maker.
    atomic_store(&row->keeper, TRP_PROCESS_NODE);
}

void trp_inside_adopt(bool (*is_dead)(uint32_t process, const void *user), const void *user)
{
    uint32_t objects = atomic_load(&trp_segment.header->objects_backed);
    for (uint32_t slot = 0; slot < objects; slot++) {
        trp_object_row *row = trp_object_row_at(slot);
        if (atomic_load(&row->inside) == 0 || !is_dead(atomic_load(&row->keeper), user))
            continue;
        trp_row_state state = trp_row_state_of(atomic_load(&row->word));
        // Only we free it, whoever has made it FREEING: its keeper is dead. So the bytes stay.
        if (state == TRP_ROW_SEALED)
            adopt(slot);
        else if (state == TRP_ROW_FREEING)
            atomic_store(&row->keeper, NO_KEEPER);
    }
}

void trp_inside_drain(void)
{
    uint32_t next = atomic_exchange(&trp_segment.header->orphans, 0);
    while (next != 0 && is_freeing(next - 1)) {
        uint32_t slot = next - 1;
        next = atomic_load(&trp_object_row_at(slot)->next); // It may be another's once it is freed.
        trp_inside_free_left(slot);
    }
}

void trp_inside_free_left(uint32_t slot)
{
    trp_object_row *row = trp_object_row_at(slot);
    if (atomic_load(&row->inside) > 0)
        end_with_others(slot, atomic_load(&row->keeper));
    else
        trp_row_free(slot);
}
