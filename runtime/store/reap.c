// reap.c: what the store takes back after a death, and what it holds now (see store.h).
#include <runtime/store/reap.h>

#include <linux/futex.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/require.h>
#include <runtime/shm/pages.h>
#include <runtime/shm/process_table.h>
#include <runtime/shm/reclaim.h>
#include <runtime/shm/segment_guard.h>
#include <runtime/store/eviction.h>
#include <runtime/store/holds.h>
#include <runtime/store/nested.h>
#include <runtime/store/residency.h>
#include <runtime/store/row.h>
#include <runtime/store/spill_file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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

static bool is_dead(uint32_t process, const void *dead)
{
    return is_in(dead, process);
}

// What dead processes were doing with the rows.
static void sweep_rows(const uint32_t *processes, uint32_t count, bool all)
{
    process_set dead = set_of(processes, count);
    uint32_t objects = atomic_load(&trp_segment.header->objects_backed);
    for (uint32_t slot = 0; slot < objects; slot++) {
        trp_object_row *row = trp_object_row_at(slot);
        uint64_t word = atomic_load(&row->word);
        trp_row_state state = trp_row_state_of(word);
        if (state == TRP_ROW_FREEING && all && is_in(&dead, trp_row_tag(word))) {
            trp_inside_free_left(slot);
        } else if (trp_row_unsettled(word) && is_in(&dead, trp_row_tag(word))) {
            // Nobody else works on it. Who waits for what was promised sees a failure, without
            // bytes.
            atomic_store_explicit(&row->size, 0, memory_order_relaxed);
            atomic_store(&row->inside, 0);
            (void)trp_row_settle(slot, word, TRP_ROW_FAILED);
        } else if (trp_row_settled(word)) {
            // One of them may have settled it, and died before it woke anyone.
            trp_row_wake(row, word);
            trp_where_repair(slot, is_dead, &dead);
        }
    }
}

void trp_store_sweep_soon(const uint32_t *processes, uint32_t count)
{
    // In this order: what a dead keeper held for objects that live has another keeper before it
    // ceases to count, for all of them; and what was left to us by one of them is ours before we
    // look for what was not.
    process_set dead = set_of(processes, count);
    trp_inside_adopt(is_dead, &dead);
    for (uint32_t i = 0; i < count; i++)
        trp_ledger_close(processes[i]);
    trp_inside_drain();
    for (uint32_t i = 0; i < count; i++) {
        atomic_store(&trp_segment.header->taking[processes[i]], 0);
        trp_ledger_sweep(processes[i], trp_row_free_if_unheld);
        trp_pages_sweep(processes[i]);
    }
    sweep_rows(processes, count, true);
    trp_spill_keep();
    trp_room_rise_for_all();
}

bool trp_store_is_taken_from(uint32_t process)
{
    for (uint32_t i = 0; i < TRP_PROCESSES_MAX; i++)
        if (atomic_load(&trp_segment.header->taking[i]) == process + 1)
            return true;
    return false;
}

void trp_store_admit(uint32_t process)
{
    trp_ledger_open(process);
}

void trp_store_drain(void)
{
    while (atomic_load(&trp_segment.header->orphans) != 0)
        trp_inside_drain();
}

void trp_store_ring_node(void)
{
    _Atomic uint32_t *rung = &trp_segment.header->work_rung;
    (void)atomic_fetch_add(rung, 1);
    (void)syscall(SYS_futex, rung, FUTEX_WAKE, 1, NULL, NULL, 0);
}

uint32_t trp_store_await_work(uint32_t seen)
{
    _Atomic uint32_t *rung = &trp_segment.header->work_rung;
    int left_ms = trp_pages_tend();
    while (atomic_load(rung) == seen) {
        const struct timespec left = {left_ms / 1000, left_ms % 1000 * 1000000L};
        (void)syscall(SYS_futex, rung, FUTEX_WAIT, seen, left_ms < 0 ? NULL : &left, NULL, 0);
        left_ms = trp_pages_tend();
    }
    return atomic_load(rung);
}

void trp_store_sweep_rest(void)
{
    static uint64_t held[TRP_OBJECTS_MAX / 64] TRP_VAST;
    uint32_t objects = atomic_load(&trp_segment.header->objects_backed);
    // Whoever holds an object now looks after it when it lets go, or is swept when it dies.
    trp_ledger_note_held(held, objects);
    for (uint32_t slot = 0; slot < objects; slot++)
        if ((held[slot / 64] >> slot % 64 & 1) == 0)
            trp_row_free_if_unheld(slot);
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
    TRP_USE_SEGMENT(trp_use_refused());
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
        uint64_t word = atomic_load(&row->word);
        if ((!trp_row_unsettled(word) && !trp_row_settled(word)) ||
            atomic_load_explicit(&row->encoding, memory_order_relaxed) == TRP_ENCODING_INNER)
            continue;
        now.objects++;
        now.bytes_used += trp_place_bytes(atomic_load(&row->place));
        if (!trp_where_has_file(atomic_load(&row->where)))
            continue;
        now.objects_on_disk += trp_where_in_memory(row) ? 0 : 1;
        now.bytes_on_disk +=
            atomic_load_explicit(&row->size, memory_order_relaxed) + TRP_SPILL_HEADER;
    }
    *usage = now;
    return TROUPE_OK;
}

troupe_status(troupe_store_usage_get)(troupe_store_usage *usage, size_t size)
{
    TRP_REQUIRE(usage);
    troupe_store_usage now;
    TROUPE_TRY(trp_process_check());
    TROUPE_TRY(trp_store_usage(&now));
    trp_output_give(usage, size, &now, sizeof now);
    return TROUPE_OK;
}
