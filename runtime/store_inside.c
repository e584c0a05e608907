// store_inside.c: see store_inside.h.
#include <runtime/store_inside.h>

#include <linux/futex.h>
#include <runtime/fault.h>
#include <runtime/pages.h>
#include <runtime/store_ledger.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NO_KEEPER = TRP_PROCESSES_MAX }; // It has died: nothing is to be taken back.

// Rows that this thread is freeing, linked by `next`: to free one may free what was inside, but
// however deep that goes, nothing recurses. After a death the sweep finds them as FREEING.
static _Thread_local struct {
    uint32_t first; // Slot + 1.
    bool busy;
} work;

static const trp_object *ids_of(trp_object_row *row)
{
    return (const trp_object *)(const void *)(trp_segment.base +
                                              trp_place_offset(atomic_load(&row->place)));
}

// Takes the holds of what is inside out of the ledger of `keeper`, and frees the row.
static void end(uint32_t slot, uint32_t keeper)
{
    trp_object_row *row = trp_object_row_at(slot);
    uint32_t count = atomic_load(&row->inside);
    const trp_object *ids = ids_of(row);
    for (uint32_t i = 0; i < count && keeper != NO_KEEPER; i++) {
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

static void end_with_others(uint32_t slot, uint32_t keeper)
{
    atomic_store_explicit(&trp_object_row_at(slot)->next, work.first, memory_order_relaxed);
    work.first = slot + 1;
    if (work.busy)
        return;
    work.busy = true;
    while (work.first != 0) {
        uint32_t now = work.first - 1;
        work.first = atomic_load_explicit(&trp_object_row_at(now)->next, memory_order_relaxed);
        end(now, now == slot ? keeper : trp_store_self);
    }
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
    (void)atomic_fetch_add(&header->orphans_rung, 1);
    (void)syscall(SYS_futex, &header->orphans_rung, FUTEX_WAKE, 1, NULL, NULL, 0);
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

static void adopt(uint32_t slot)
{
    trp_object_row *row = trp_object_row_at(slot);
    uint32_t count = atomic_load(&row->inside);
    const trp_object *ids = ids_of(row);
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
    while (next != 0) {
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
