// control.c: reports, the stop and the end of a group of ranks over shared memory.
//
// Why all ranks stop at the same report: the number at which the run stops and the highest number
// that any rank has entered are one word. A stop sets "stop at highest + 1"; from then on the
// highest does not move. A rank that entered a number up to the highest did so while no stop was
// set, so for it that report was an ordinary one; a rank that enters the next number does so after
// the stop, and finds the word. Ranks enter numbers one by one, so each of them meets exactly that
// number, and no two of them need to meet for it.
#include <runtime/base/clock.h>
#include <runtime/base/log.h>
#include <stdio.h>
#include <train/control.h>

enum { MAGIC = 0x54525043 }; // "TRPC"

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
    atomic_init(&control->stop, (uint64_t)(first_report - 1));
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

int trp_control_stop(trp_control *control)
{
    uint64_t word = atomic_load(&control->stop);
    uint64_t stopped;
    do {
        if (word >> 32)
            return (int)(word >> 32);
        stopped = (word + 1) << 32 | word;
    } while (!atomic_compare_exchange_weak(&control->stop, &word, stopped));
    return (int)(stopped >> 32);
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
                              const trp_engine *engine, int rank, int world, int timeout_ms)
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
    };
    return engine->open(member, engine_memory(control), &member->link);
}

void trp_member_leave(trp_member *member, troupe_status status, const char *text)
{
    trp_control_line *line = &member->control->lines[member->rank];
    snprintf(line->text, sizeof(line->text), "%s", text);
    atomic_store_explicit(&line->left, 1 + (uint32_t)status, memory_order_release);
    trp_counter_close(&line->reports);
    member->engine->close(member->link);
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
    switch (trp_control_ended(member->control, &rank)) {
    case TRP_END_DIED:
        return troupe_fail(TROUPE_PEER_LOST, "%s: rank %d is lost", what, rank);
    case TRP_END_LATE:
        return troupe_fail(TROUPE_PEER_LOST, "%s: rank %d did not come within %d ms", what, rank,
                           member->timeout_ms);
    case TRP_END_LEFT:
        return troupe_fail(TROUPE_PEER_LOST, "%s: rank %d has left its loop", what, rank);
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
    uint64_t word = atomic_load(&control->stop);
    uint64_t raised;
    do {
        if (!trp_member_is_whole(member))
            return trp_member_lost(member, "troupe_report");
        raised = word;
        if (!(word >> 32) && (uint32_t)number > (uint32_t)word)
            raised = (uint64_t)number;
    } while (!atomic_compare_exchange_weak(&control->stop, &word, raised));
    uint32_t stop_at = (uint32_t)(word >> 32);
    *turn = TRP_REPORT_OPEN;
    if (stop_at && (uint32_t)number >= stop_at)
        *turn = (uint32_t)number == stop_at ? TRP_REPORT_LAST : TRP_REPORT_PAST;
    if (*turn == TRP_REPORT_PAST)
        return TROUPE_OK;
    trp_counter_raise(&control->lines[member->rank].reports);
    return await_slowest(member, number);
}
