// read.c: what is known of an object of the store, its bytes, and waiting for them (see
// store.h).
#include <runtime/store/read.h>

#include <linux/futex.h>
#include <runtime/base/clock.h>
#include <runtime/base/log.h>
#include <runtime/shm/pages.h>
#include <runtime/shm/segment_guard.h>
#include <runtime/store/eviction.h>
#include <runtime/store/holds.h>
#include <runtime/store/residency.h>
#include <runtime/store/row.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// What is known of an object but where its bytes are.
static trp_object_info describe(const trp_object_row *row, uint64_t word)
{
    static const trp_object_state states[] = {
        [TRP_ROW_FREE] = TRP_OBJECT_GONE,        [TRP_ROW_FILLING] = TRP_OBJECT_FILLING,
        [TRP_ROW_PROMISED] = TRP_OBJECT_FILLING, [TRP_ROW_FULFILLING] = TRP_OBJECT_FILLING,
        [TRP_ROW_SEALED] = TRP_OBJECT_SEALED,    [TRP_ROW_FAILED] = TRP_OBJECT_FAILED,
        [TRP_ROW_SHARED] = TRP_OBJECT_SHARED,    [TRP_ROW_FREEING] = TRP_OBJECT_GONE,
    };
    trp_object_info info = {.state = states[trp_row_state_of(word)],
                            .schema = atomic_load_explicit(&row->schema, memory_order_relaxed)};
    if (info.state == TRP_OBJECT_FILLING)
        return info;
    info.size = atomic_load_explicit(&row->size, memory_order_relaxed);
    info.encoding = (trp_encoding)atomic_load_explicit(&row->encoding, memory_order_relaxed);
    info.on_disk = !trp_where_in_memory(row);
    return info;
}

static const void *bytes_of(const trp_object_row *row)
{
    return trp_segment.read_only +
           trp_place_offset(atomic_load_explicit(&row->place, memory_order_relaxed));
}

void trp_row_say_damaged(uint32_t slot)
{
    static atomic_bool said;
    if (!atomic_exchange(&said, true))
        trp_log(TRP_ERROR,
                "the row of object %u in the store is damaged: a process of this node has written "
                "where it should not; the object is lost",
                slot);
}

// It is gone for who looks, since nothing that the row says can be relied on.
static trp_object_info damaged(const trp_object_row *row)
{
    trp_row_say_damaged((uint32_t)(row - trp_object_row_at(0)));
    return (trp_object_info){.state = TRP_OBJECT_GONE};
}

// False: the row is damaged.
static bool show_inside(trp_object_info *info, const trp_object_row *row)
{
    uint32_t inside = atomic_load_explicit(&row->inside, memory_order_relaxed);
    const trp_object_row *list = trp_inside_list(inside);
    if (list != NULL) {
        info->inside_count = atomic_load_explicit(&list->inside, memory_order_relaxed);
        info->inside = bytes_of(list);
        return trp_inside_fits(list, info->inside_count);
    }
    if (inside * sizeof(trp_object) > info->size)
        return false;
    info->inside_count = inside;
    info->inside = info->data;
    info->data = info->inside + inside;
    info->size -= inside * sizeof(trp_object);
    return true;
}

// The same with its bytes, which stay where they are.
static trp_object_info read_row(const trp_object_row *row, uint64_t word)
{
    trp_object_info info = describe(row, word);
    trp_place place = atomic_load_explicit(&row->place, memory_order_relaxed);
    // A failure without bytes is one of whoever was to give them.
    if (info.state == TRP_OBJECT_FILLING || place == 0 ||
        (info.state == TRP_OBJECT_FAILED && info.size == 0))
        return info;
    if (!trp_place_holds(place, info.size))
        return damaged(row);
    info.data = (info.state == TRP_OBJECT_SHARED ? trp_segment.base : trp_segment.read_only) +
                trp_place_offset(place);
    return show_inside(&info, row) ? info : damaged(row);
}

trp_object_info trp_store_look(trp_object id)
{
    TRP_USE_SEGMENT((trp_object_info){.state = TRP_OBJECT_GONE});
    uint64_t word;
    trp_object_row *row = trp_row_find(id, &word);
    if (row == NULL)
        return (trp_object_info){.state = TRP_OBJECT_GONE};
    return trp_where_movable(word, row) ? describe(row, word) : read_row(row, word);
}

static void note_use(trp_object_row *row)
{
    uint32_t now_ms = trp_row_now();
    if (atomic_load_explicit(&row->used_ms, memory_order_relaxed) != now_ms)
        atomic_store_explicit(&row->used_ms, now_ms, memory_order_relaxed);
}

trp_object_info trp_store_pin_within(trp_object id, int patience_ms)
{
    TRP_USE_SEGMENT(((void)trp_use_refused(), (trp_object_info){.state = TRP_OBJECT_ABSENT}));
    uint64_t word;
    trp_object_row *row = trp_row_find(id, &word);
    if (row == NULL)
        return (trp_object_info){.state = TRP_OBJECT_GONE};
    if (!trp_row_settled(word)) // By this look: it may be sealed by now, and is not pinned.
        return describe(row, word);
    uint32_t slot = trp_row_slot(id);
    trp_object_info absent = describe(row, word);
    absent.state = TRP_OBJECT_ABSENT;
    if (trp_ledger_pin(trp_store_self, slot) != TROUPE_OK)
        return absent;
    if (trp_where_fetch(slot, trp_row_generation(word), patience_ms) != TROUPE_OK) {
        (void)trp_ledger_unpin(trp_store_self, slot);
        return absent;
    }
    note_use(row);
    trp_object_info info = read_row(row, word);
    if (info.state == TRP_OBJECT_GONE)
        (void)trp_ledger_unpin(trp_store_self, slot);
    return info;
}

trp_object_info trp_store_pin(trp_object id)
{
    return trp_store_pin_within(id, -1);
}

bool trp_store_is_moved(trp_object id)
{
    TRP_USE_SEGMENT(false);
    uint64_t word;
    const trp_object_row *row = trp_row_find(id, &word);
    return row != NULL && trp_where_is_moved(atomic_load(&row->where));
}

troupe_status trp_store_await_move(trp_object id, int64_t deadline_ns)
{
    TRP_USE_SEGMENT(trp_use_refused());
    uint64_t word;
    return trp_row_find(id, &word) != NULL
               ? trp_where_await(trp_row_slot(id), trp_row_generation(word), deadline_ns)
               : TROUPE_OK;
}

void trp_store_unpin(trp_object id)
{
    TRP_USE_SEGMENT();
    uint64_t word;
    TRP_STORE_HANDED();
    trp_object_row *row = trp_row_find(id, &word);
    uint32_t held = row != NULL ? trp_ledger_unpin(trp_store_self, trp_row_slot(id)) : 0;
    if (held == 0)
        return;
    note_use(row);
    trp_room_rise();
    if (held == 1) // What this process holds still, whoever takes that away looks after.
        trp_row_free_if_unheld(trp_row_slot(id));
}

trp_object_info trp_store_wait(trp_object id, int timeout_ms)
{
    TRP_USE_SEGMENT((trp_object_info){.state = TRP_OBJECT_GONE});
    int64_t give_up = trp_clock_ns() + (int64_t)timeout_ms * 1000000;
    struct timespec until = {give_up / 1000000000, give_up % 1000000000};
    for (;;) {
        uint64_t word;
        trp_object_row *row = trp_row_find(id, &word);
        if (row == NULL || !trp_row_unsettled(word) ||
            (timeout_ms >= 0 && trp_clock_ns() >= give_up))
            return trp_store_look(id);
        // Pairs with `settle`: it changes the word, then reads this; we write this, and the system
        // reads the word before it lets us sleep.
        atomic_store(&row->awaited, trp_row_mark(word));
        // The low half of the word: the state and the tag, which change with every step.
        (void)syscall(SYS_futex, &row->word, FUTEX_WAIT_BITSET, (uint32_t)word,
                      timeout_ms >= 0 ? &until : NULL, NULL, FUTEX_BITSET_MATCH_ANY);
    }
}
