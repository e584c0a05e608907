// control.c: reports, the stop and the end of a group of ranks over shared memory.
//
// Why an order takes effect at the same report on all ranks: what is ordered and the highest report
// that any rank has entered are one word. An order is for "highest + 1", and is put there only if
// the highest is still the same. A rank that entered a number up to the highest did so before the
// order. Each rank enters the next number after it, since it raises the highest or finds it raised,
// and so finds the order. Ranks enter numbers one by one: each of them meets exactly that number,
// and no two of them need to meet for it.
#include <runtime/base/clock.h>
#include <runtime/base/log.h>
#include <stdio.h>
#include <string.h>
#include <train/collective.h>
#include <train/control.h>
#include <train/engine_nccl.h>
#include <train/gradients.h>

enum { MAGIC = 0x54525043 }; // "TRPC"

#define LACKS_MEMORY "%s: rank %d has no memory for its part"

static const uint64_t STOP = 1u << 31, HIGHEST = STOP - 1;

static uint32_t highest_of(uint64_t word)
{
    return (uint32_t)(word & HIGHEST);
}

static uint32_t revision_of(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

// ---- the coordinator's side

size_t trp_control_size(const trp_engine *engine, int world)
{
    return sizeof(trp_control) + (size_t)world * sizeof(trp_control_line) + engine->size(world);
}

static void *engine_memory(trp_control *control)
{
    return &control->lines[control->world];
}

trp_control *trp_control_init(void *memory, const trp_engine *engine, int world, int first_report)
{
    trp_assert(world >= 1 && world <= TRP_WORLD_MAX && first_report >= 1);
    trp_control *control = (trp_control *)memory;
    control->magic = MAGIC;
    control->world = world;
    atomic_init(&control->orders, (uint64_t)(first_report - 1));
    for (int i = 0; i < world; i++)
        trp_counter_init(&control->lines[i].reports, (uint32_t)(first_report - 1));
    if (engine->init)
        engine->init(engine_memory(control), world);
    return control;
}

bool trp_control_end(trp_control *control, const trp_engine *engine, trp_end_reason reason,
                     int rank)
{
    uint64_t none = 0;
    // Pairs with the loads in trp_control_ended; the reason is there before any sleeper is woken.
    bool first = atomic_compare_exchange_strong(&control->end, &none,
                                                (uint64_t)reason << 32 | (uint32_t)rank);
    for (int i = 0; i < control->world; i++)
        trp_counter_close(&control->lines[i].reports);
    if (engine->interrupt)
        engine->interrupt(engine_memory(control), control->world);
    return first;
}

trp_end_reason trp_control_ended(const trp_control *control, int *rank)
{
    uint64_t end = atomic_load(&control->end);
    *rank = (int)(uint32_t)end;
    return (trp_end_reason)(end >> 32);
}

int trp_control_stop(trp_control *control, int later)
{
    uint64_t word = atomic_load(&control->orders);
    do {
        if (word & STOP)
            return (int)control->stop_at;
        // Nobody reads it before the flag is there.
        control->stop_from = highest_of(word) + 1;
        control->stop_at = control->stop_from + (uint32_t)later;
    } while (!atomic_compare_exchange_weak(&control->orders, &word, word | STOP));
    return (int)control->stop_at;
}

void trp_control_live_begin(trp_control *control, uint32_t revision)
{
    uint64_t word = atomic_load(&control->orders);
    while (!atomic_compare_exchange_weak(&control->orders, &word,
                                         (uint64_t)revision << 32 | (uint32_t)word))
        ;
}

int trp_control_live(trp_control *control, uint32_t revision, const void *data, size_t size)
{
    trp_assert(size <= TRP_LIVE_MAX);
    uint64_t word = atomic_load(&control->orders);
    if (word & STOP)
        return 0;
    // All ranks have the revision that is in the word, so none reads these.
    memcpy(control->live, data, size);
    control->live_size = (uint32_t)size;
    do {
        control->live_from = highest_of(word) + 1;
    } while (!atomic_compare_exchange_weak(&control->orders, &word,
                                           (uint64_t)revision << 32 | (uint32_t)word));
    return (int)control->live_from;
}

bool trp_control_left(const trp_control *control, int rank, troupe_status *status,
                      const char **text)
{
    const trp_control_line *line = &control->lines[rank];
    uint32_t left = atomic_load_explicit(&line->left, memory_order_acquire);
    if (!left)
        return false;
    *status = (troupe_status)(left - 1);
    *text = line->text;
    return true;
}

// ---- a rank's side

troupe_status trp_member_open(trp_member *member, void *memory, size_t size,
                              const trp_engine *engine, int rank, int world, int timeout_ms,
                              uint32_t live)
{
    trp_control *control = (trp_control *)memory;
    if (world < 1 || world > TRP_WORLD_MAX || rank < 0 || rank >= world ||
        size < trp_control_size(engine, world) || control->magic != MAGIC ||
        control->world != world)
        return troupe_fail(TROUPE_CORRUPT, "%zu bytes of shared memory are not a group of %d ranks",
                           size, world);
    *member = (trp_member){
        .control = control,
        .engine = engine,
        .rank = rank,
        .world = world,
        .timeout_ms = timeout_ms,
        .spin_ns = trp_counter_spin_ns(world),
        .live = live,
    };
    return engine->open(member, engine_memory(control), &member->link);
}

void trp_member_leave(trp_member *member, troupe_status status, const char *text)
{
    trp_control_line *line = &member->control->lines[member->rank];
    snprintf(line->text, sizeof(line->text), "%s", text);
    atomic_store_explicit(&line->left, 1 + (uint32_t)status, memory_order_release);
    trp_counter_close(&line->reports);
    trp_collective_end(member, status);
    trp_gradients_end(member);
    member->engine->close(member->link);
    // After the engine by which the others learn that this rank has left: it may take a while.
    if (member->device)
        trp_engine_nccl.close(member->device);
    member->device = NULL;
    if (member->shared)
        trp_shared_end(member->shared);
    member->link = NULL;
}

bool trp_member_is_whole(const trp_member *member)
{
    int rank;
    return trp_control_ended(member->control, &rank) == TRP_END_NONE;
}

troupe_status trp_member_lost(const trp_member *member, const char *what)
{
    int rank;
    troupe_status status = TROUPE_PEER_LOST;
    const char *text;
    switch (trp_control_ended(member->control, &rank)) {
    case TRP_END_DIED:
        return troupe_fail(TROUPE_PEER_LOST, "%s: rank %d is lost", what, rank);
    case TRP_END_LATE:
        return troupe_fail(TROUPE_PEER_LOST, "%s: rank %d did not come within %d ms", what, rank,
                           member->timeout_ms);
    case TRP_END_LEFT:
        (void)trp_control_left(member->control, rank, &status, &text);
        return troupe_fail(TROUPE_PEER_LOST, "%s: rank %d has left its loop%s", what, rank,
                           status == TROUPE_OK || status == TROUPE_STOPPED
                               ? ", which had ended well: all ranks must end with the same epoch "
                                 "or report"
                               : "");
    case TRP_END_DEVICE:
        return troupe_fail(TROUPE_PEER_LOST,
                           "%s: rank %d says that it failed on the devices, or did not end within "
                           "%d ms",
                           what, rank, member->timeout_ms);
    case TRP_END_SHORT:
        return troupe_fail(TROUPE_PEER_LOST, LACKS_MEMORY, what, rank);
    default:
        return troupe_fail(TROUPE_PEER_LOST, "%s: the group is being torn down", what);
    }
}

troupe_status trp_member_absent(const trp_member *member, int rank, const char *what)
{
    // The end that was set first says why, also to the others.
    troupe_status status;
    const char *text;
    bool left = trp_control_left(member->control, rank, &status, &text);
    trp_control_end(member->control, member->engine, left ? TRP_END_LEFT : TRP_END_LATE, rank);
    return trp_member_lost(member, what);
}

troupe_status trp_member_short(const trp_member *member, const char *what)
{
    trp_control_end(member->control, member->engine, TRP_END_SHORT, member->rank);
    return troupe_fail(TROUPE_NO_MEMORY, LACKS_MEMORY, what, member->rank);
}

// Waits until no rank is more than TRP_REPORTS_AHEAD reports behind this one.
static troupe_status await_slowest(const trp_member *member, int number)
{
    trp_control *control = member->control;
    int64_t until_ms = trp_clock_ms() + member->timeout_ms;
    for (int rank = 0; rank < member->world && number > TRP_REPORTS_AHEAD; rank++) {
        trp_counter *reports = &control->lines[rank].reports;
        if (rank == member->rank ||
            trp_counter_await(reports, (uint32_t)(number - TRP_REPORTS_AHEAD), member->spin_ns,
                              until_ms))
            continue;
        // A rank whose loop has ended holds nobody back: the coordinator will see what is missing.
        if (trp_member_is_whole(member) && !trp_counter_is_closed(reports))
            return trp_member_absent(member, rank, "troupe_report");
        if (!trp_member_is_whole(member))
            return trp_member_lost(member, "troupe_report");
    }
    return TROUPE_OK;
}

troupe_status trp_member_report(trp_member *member, int number, trp_report_turn *turn)
{
    trp_assert(number >= 1);
    trp_control *control = member->control;
    uint64_t word = atomic_load(&control->orders);
    uint64_t raised;
    do {
        if (!trp_member_is_whole(member))
            return trp_member_lost(member, "troupe_report");
        raised = word;
        if (!(word & STOP) && (uint32_t)number > highest_of(word))
            raised = (word & ~HIGHEST) | (uint32_t)number;
    } while (!atomic_compare_exchange_weak(&control->orders, &word, raised));
    int stop_at = word & STOP ? (int)control->stop_at : 0;
    *turn = TRP_REPORT_OPEN;
    if (stop_at && number >= stop_at)
        *turn = number == stop_at ? TRP_REPORT_LAST : TRP_REPORT_PAST;
    if (*turn == TRP_REPORT_PAST)
        return TROUPE_OK;
    member->entered = number;
    member->orders = word;
    trp_counter_raise(&control->lines[member->rank].reports);
    return await_slowest(member, number);
}

int trp_member_stop_at(const trp_member *member)
{
    const trp_control *control = member->control;
    // Of the ranks that enter one before it, some see the stop and others do not.
    bool known = member->orders & STOP && (uint32_t)member->entered >= control->stop_from;
    return known ? (int)control->stop_at : 0;
}

bool trp_member_has_entered(const trp_member *member, int rank, int number)
{
    return trp_counter_reached(&member->control->lines[rank].reports, (uint32_t)number);
}

bool trp_member_has_left(const trp_member *member, int rank)
{
    return trp_counter_is_closed(&member->control->lines[rank].reports);
}

bool trp_member_stops_unreported(const trp_member *member, int first_report)
{
    uint64_t word = atomic_load(&member->control->orders); // The highest stays as it was then.
    return word & STOP && highest_of(word) < (uint32_t)first_report;
}

bool trp_member_is_to_stop(const trp_member *member)
{
    return atomic_load(&member->control->orders) & STOP;
}

bool trp_member_live(trp_member *member, const void **data, size_t *size)
{
    const trp_control *control = member->control;
    uint32_t revision = revision_of(member->orders);
    if (member->entered == 0 || revision == member->live ||
        (uint32_t)member->entered < control->live_from)
        return false;
    member->live = revision;
    *data = control->live;
    *size = control->live_size;
    return true;
}
