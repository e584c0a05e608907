// memory_report.c: what the store holds, and for which processes (troupe_memory in
// troupe/observe.h).
#include <troupe/observe.h>

#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <runtime/base/require.h>
#include <runtime/shm/process_table.h>
#include <runtime/shm/segment_guard.h>
#include <runtime/store/inspect.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEFAULT = 10000 };

_Static_assert((int)TROUPE_OBJECT_KINDS == (int)TRP_KINDS - 1 &&
                   (int)TROUPE_OBJECT_INNER == (int)TRP_KIND_INNER - 1,
               "kinds of objects are the same inside, from 1");

// What is known of a slot.
typedef struct note {
    uint64_t bytes;
    uint32_t listed; // Its place in the list + 1.
    uint8_t kind;    // trp_object_kind; NONE: no object, or none to speak of.
} note;

// Who holds a listed object.
typedef struct holding {
    troupe_object_holder *items;
    uint32_t room, count;
} holding;

typedef struct report {
    trp_store_view view;
    troupe_memory *memory;
    note *notes; // One a slot.
    uint32_t slots, now_ms;
    trp_object_seen *listed;
    troupe_object_info *items; // Of these, and their holders.
    holding *holdings;
    uint32_t count;
    troupe_memory_process *processes; // One for each, TRP_PROCESSES_MAX.
} report;

const char *troupe_object_state_name(int state)
{
    static const char *const names[] = {"filling", "promised", "sealed", "failed",
                                        "shared",  "on disk",  "lost"};
    return state >= 0 && (size_t)state < sizeof names / sizeof *names ? names[state] : "unknown";
}

const char *troupe_object_kind_name(int kind)
{
    static const char *const names[] = {"value",  "buffer",  "result", "argument",
                                        "region", "channel", "runtime"};
    return kind >= 0 && (size_t)kind < sizeof names / sizeof *names ? names[kind] : "unknown";
}

static troupe_object_state state_of(trp_row_state state, trp_where where)
{
    if (where == TRP_WHERE_LOST)
        return TROUPE_OBJECT_LOST;
    if (where == TRP_WHERE_DISK || where == TRP_WHERE_COMING)
        return TROUPE_OBJECT_ON_DISK;
    static const troupe_object_state states[] = {
        [TRP_ROW_FILLING] = TROUPE_OBJECT_FILLING,    [TRP_ROW_PROMISED] = TROUPE_OBJECT_PROMISED,
        [TRP_ROW_FULFILLING] = TROUPE_OBJECT_FILLING, [TRP_ROW_SEALED] = TROUPE_OBJECT_SEALED,
        [TRP_ROW_FAILED] = TROUPE_OBJECT_FAILED,      [TRP_ROW_SHARED] = TROUPE_OBJECT_SHARED,
    };
    return states[state];
}

// ---- the objects

static int larger_first(const void *one, const void *other)
{
    const trp_object_seen *a = one, *b = other;
    return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1)
                                : (a->id > b->id) - (a->id < b->id);
}

static void add_object(report *all, uint32_t slot, bool inner)
{
    trp_object_seen *seen = &all->listed[all->count];
    if (!trp_view_object(&all->view, slot, seen))
        return;
    troupe_memory *memory = all->memory;
    troupe_memory_kind *kind = &memory->kinds[seen->kind - 1];
    kind->objects++;
    kind->bytes_used += seen->bytes;
    all->notes[slot] = (note){.bytes = seen->bytes, .kind = (uint8_t)seen->kind};
    if (seen->kind == TRP_KIND_INNER) {
        memory->bytes_inner += seen->bytes;
    } else {
        memory->objects++;
        memory->bytes_used += seen->bytes;
    }
    if (state_of(seen->state, seen->where) == TROUPE_OBJECT_ON_DISK) {
        memory->objects_on_disk++;
        memory->bytes_on_disk += seen->size;
    }
    all->count += inner || seen->kind != TRP_KIND_INNER;
}

static double seconds(uint32_t from_ms, uint32_t to_ms)
{
    return trp_row_age(from_ms, to_ms) * 1e-3;
}

// The largest, at most `most`, without their holders.
static troupe_status list_objects(report *all, size_t most)
{
    qsort(all->listed, all->count, sizeof *all->listed, larger_first);
    if (all->count > most)
        all->count = (uint32_t)most;
    troupe_object_info *items =
        troupe_arena_alloc((all->count > 0 ? all->count : 1) * sizeof *items);
    if (items == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to list %u objects", all->count);
    for (uint32_t i = 0; i < all->count; i++) {
        const trp_object_seen *seen = &all->listed[i];
        char type[TRP_TYPE_NAME];
        bool typed = trp_view_type(&all->view, seen->schema, type);
        trp_process_seen maker = trp_view_process(&all->view, seen->maker);
        const char *label = troupe_arena_text(maker.label);
        items[i] = (troupe_object_info){.id = seen->id,
                                        .bytes = seen->size,
                                        .bytes_used = seen->bytes,
                                        .age_s = seconds(seen->made_ms, all->now_ms),
                                        .idle_s = seconds(seen->used_ms, all->now_ms),
                                        .state = (int32_t)state_of(seen->state, seen->where),
                                        .kind = (int32_t)seen->kind - 1,
                                        .type_name = typed ? troupe_arena_text(type) : NULL,
                                        .maker = seen->maker,
                                        .maker_pid = maker.pid,
                                        .maker_label = label != NULL ? label : ""};
        all->notes[trp_row_slot(seen->id)].listed = i + 1;
    }
    all->items = items;
    all->memory->items.items = items;
    all->memory->items.count = all->count;
    return TROUPE_OK;
}

// ---- who holds them

static void add_hold(const trp_hold_seen *hold, void *user)
{
    report *all = user;
    note *about = hold->object < all->slots ? &all->notes[hold->object] : NULL;
    if (about == NULL || about->kind == TRP_KIND_NONE)
        return;
    if (about->listed != 0)
        all->holdings[about->listed - 1].room++;
    if (about->kind == TRP_KIND_INNER)
        return;
    troupe_memory_process *process = &all->processes[hold->process];
    process->objects++;
    process->bytes_used += about->bytes;
    if (hold->pins > 0) {
        process->pinned++;
        process->bytes_pinned += about->bytes;
    }
}

static void note_holder(const trp_hold_seen *hold, void *user)
{
    report *all = user;
    uint32_t listed = hold->object < all->slots ? all->notes[hold->object].listed : 0;
    if (listed == 0)
        return;
    // Of a slot that is another object's by now the holds are another's too.
    trp_object_seen now;
    holding *them = &all->holdings[listed - 1];
    if (them->count == them->room || !trp_view_object(&all->view, hold->object, &now) ||
        now.id != all->items[listed - 1].id)
        return;
    const troupe_memory_process *process = &all->processes[hold->process];
    them->items[them->count++] = (troupe_object_holder){.process = hold->process,
                                                        .pid = process->pid,
                                                        .label = process->label,
                                                        .holds = hold->holds,
                                                        .pins = hold->pins};
}

static int heavier_first(const void *one, const void *other)
{
    const troupe_memory_process *a = one, *b = other;
    if (a->bytes_used != b->bytes_used)
        return a->bytes_used < b->bytes_used ? 1 : -1;
    if (a->objects != b->objects)
        return a->objects < b->objects ? 1 : -1;
    return (a->process > b->process) - (a->process < b->process);
}

static void name_processes(report *all)
{
    for (uint32_t process = 0; process < TRP_PROCESSES_MAX; process++) {
        trp_process_seen seen = trp_view_process(&all->view, process);
        const char *label = seen.pid != 0 ? troupe_arena_text(seen.label) : NULL;
        all->processes[process].process = process;
        all->processes[process].pid = seen.pid;
        all->processes[process].label = label != NULL ? label : "";
    }
}

static troupe_status list_holders(report *all)
{
    all->holdings = trp_alloc((all->count + 1) * sizeof *all->holdings);
    if (all->holdings == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to list the holders of objects");
    trp_view_holds(&all->view, add_hold, all);
    name_processes(all);
    for (uint32_t i = 0; i < all->count; i++) {
        holding *them = &all->holdings[i];
        if (them->room > 0 &&
            (them->items = troupe_arena_alloc(them->room * sizeof *them->items)) == NULL)
            return troupe_fail(TROUPE_NO_MEMORY, "no memory to list the holders of objects");
    }
    trp_view_holds(&all->view, note_holder, all);
    for (uint32_t i = 0; i < all->count; i++)
        all->items[i].holders =
            (troupe_array_troupe_object_holder){all->holdings[i].items, all->holdings[i].count};
    qsort(all->processes, TRP_PROCESSES_MAX, sizeof *all->processes, heavier_first);
    size_t count = 0;
    while (count < TRP_PROCESSES_MAX && all->processes[count].objects > 0)
        count++;
    all->memory->processes.items = all->processes;
    all->memory->processes.count = count;
    return TROUPE_OK;
}

// ---- the whole

static troupe_status look(report *all, const troupe_memory_options *how)
{
    troupe_memory *memory = all->memory;
    memory->bytes_max = all->view.plan.capacity;
    memory->driver_pid = trp_view_process(&all->view, TRP_PROCESS_DRIVER).pid;
    TROUPE_TRY(trp_view_backed(&all->view, &memory->bytes_backed));
    trp_view_room(&all->view, &memory->bytes_free, &memory->bytes_free_longest);
    all->slots = trp_view_objects(&all->view);
    all->now_ms = trp_row_now();
    all->notes = trp_alloc((all->slots + 1) * sizeof *all->notes);
    all->listed = trp_alloc((all->slots + 1) * sizeof *all->listed);
    all->processes = troupe_arena_alloc(TRP_PROCESSES_MAX * sizeof *all->processes);
    if (all->notes == NULL || all->listed == NULL || all->processes == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to look at %u objects", all->slots);
    memset(all->processes, 0, TRP_PROCESSES_MAX * sizeof *all->processes);
    for (uint32_t slot = 0; slot < all->slots; slot++)
        add_object(all, slot, how->inner);
    TROUPE_TRY(list_objects(all, how->most > 0 ? how->most : MOST_DEFAULT));
    return list_holders(all);
}

static troupe_status report_on(troupe_memory *memory, const troupe_memory_options *how)
{
    troupe_memory_options given;
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_memory_get", given, how));
    memset(memory, 0, sizeof *memory);
    report all = {.memory = memory};
    if (given.pid == 0)
        TROUPE_TRY(trp_process_check());
    TRP_USE_SEGMENT_IF_OPEN(used);
    if (given.pid == 0 && !used)
        return trp_use_refused();
    TROUPE_TRY(trp_view_open(given.pid, &all.view));
    troupe_status status = look(&all, &given);
    trp_view_close(&all.view);
    trp_free(all.notes);
    trp_free(all.listed);
    trp_free(all.holdings);
    return status;
}

troupe_status troupe_memory_get_with(troupe_memory *memory, size_t size,
                                     const troupe_memory_options *how)
{
    TRP_REQUIRE(memory);
    troupe_memory found;
    TROUPE_TRY(report_on(&found, how));
    trp_output_give(memory, size, &found, sizeof found);
    return TROUPE_OK;
}
