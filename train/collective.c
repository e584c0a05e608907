// collective.c: arguments that one rank alone finds wrong, which need nobody else and leave the
// group in step; the engine's functions; and what is done beside the loop in the order of starts,
// by one thread or by who waits for it.
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/require.h>
#include <runtime/device/cuda.h>
#include <train/collective.h>
#include <train/engine_nccl.h>
#include <train/serial.h>

const char *trp_operation_text(unsigned operation)
{
    static const char *const texts[] = {
        [TRP_BARRIER] = "troupe_barrier",
        [TRP_ALLREDUCE] = "troupe_allreduce",
        [TRP_REDUCE_SCATTER] = "troupe_reduce_scatter",
        [TRP_ALL_GATHER] = "troupe_all_gather",
        [TRP_BROADCAST] = "troupe_broadcast",
        [TRP_SHARED_ALLOC] = "troupe_shared_alloc",
        [TRP_GRADIENTS] = "troupe_gradients",
        [TRP_ON_DEVICE + TRP_ALLREDUCE] = "troupe_allreduce on devices",
        [TRP_ON_DEVICE + TRP_REDUCE_SCATTER] = "troupe_reduce_scatter on devices",
        [TRP_ON_DEVICE + TRP_ALL_GATHER] = "troupe_all_gather on devices",
        [TRP_ON_DEVICE + TRP_BROADCAST] = "troupe_broadcast on devices",
        [TRP_ON_DEVICE + TRP_GRADIENTS] = "troupe_gradients on devices",
    };
    return operation < sizeof texts / sizeof *texts && texts[operation] ? texts[operation] : "?";
}

// ---- arguments

static bool reduces(const trp_request *what)
{
    return what->operation == TRP_ALLREDUCE || what->operation == TRP_REDUCE_SCATTER;
}

static troupe_status check_reduction(const trp_request *what, const char *name)
{
    if ((unsigned)what->how > TROUPE_MAX)
        return troupe_fail(TROUPE_INVALID, "%s: no reduction %d", name, (int)what->how);
    if (troupe_dtype_size(what->element) == 0 || what->element == TROUPE_BOOL)
        return troupe_fail(TROUPE_INVALID, "%s: element type %d (%s), expected one of numbers",
                           name, (int)what->element, troupe_dtype_text(what->element));
    return TROUPE_OK;
}

// Not by the member's purpose: that is of an operation which another thread may be at.
static const char *name_of(const trp_request *what)
{
    return trp_operation_text(what->purpose ? what->purpose : what->operation);
}

static troupe_status check(const trp_member *member, const trp_request *what)
{
    const char *name = name_of(what);
    size_t width = 1, parts = 1;
    if (reduces(what)) {
        TROUPE_TRY(check_reduction(what, name));
        width = troupe_dtype_size(what->element);
    }
    if (what->operation == TRP_REDUCE_SCATTER || what->operation == TRP_ALL_GATHER)
        parts = (size_t)member->world;
    const char *unit = reduces(what) ? "values" : "bytes";
    if (TRP_IS_ABSURD(what->count, width * parts))
        return troupe_fail(TROUPE_INVALID, "%s: %zu %s are more than memory can hold", name,
                           what->count, unit);
    bool reads = what->operation == TRP_REDUCE_SCATTER || what->operation == TRP_ALL_GATHER;
    if (what->count && (!what->to || (reads && !what->from)))
        return troupe_fail(TROUPE_INVALID, "%s: %zu %s at NULL", name, what->count, unit);
    if (what->root < 0 || what->root >= member->world)
        return troupe_fail(TROUPE_INVALID, "%s: no rank %d in a group of %d", name, what->root,
                           member->world);
    return TROUPE_OK;
}

static troupe_status missing(const trp_member *member, trp_operation operation)
{
    return troupe_fail(TROUPE_UNSUPPORTED, "%s: the engine '%s' does not have it",
                       trp_operation_text(operation), member->engine->name);
}

// ---- the engine

// Arrays in memory of devices are for the engine that reaches it, which is opened by the first one.
static troupe_status choose_engine(trp_member *member, const trp_request *what,
                                   const trp_engine **engine, void **link)
{
    *engine = member->engine;
    *link = member->link;
    if (what->count == 0 || member->engine->reaches & TRP_REACHES_DEVICE ||
        !(trp_cuda_holds(what->to) || trp_cuda_holds(what->from)))
        return TROUPE_OK;
    *engine = &trp_engine_nccl;
    if (!member->device)
        TROUPE_TRY(trp_engine_nccl.open(member, NULL, &member->device));
    *link = member->device;
    return TROUPE_OK;
}

static troupe_status perform(trp_member *member, const trp_request *what, int64_t spin_ns)
{
    const trp_engine *engine;
    void *link;
    TROUPE_TRY(choose_engine(member, what, &engine, &link));
    // Before it writes anything: a rank that has not seen the end yet may be at an operation before
    // this one, and would read it there. The other engine looks itself.
    if (engine == member->engine && !trp_member_is_whole(member))
        return trp_member_lost(member, name_of(what));
    member->purpose = what->purpose;
    member->divisor = what->divisor ? (double)*what->divisor : 0;
    member->engine_spin_ns = spin_ns;
    switch (what->operation) {
    case TRP_BARRIER:
        return engine->barrier ? engine->barrier(link) : missing(member, what->operation);
    case TRP_ALLREDUCE:
        return engine->allreduce
                   ? engine->allreduce(link, what->to, what->count, what->element, what->how)
                   : missing(member, what->operation);
    case TRP_REDUCE_SCATTER:
        return engine->reduce_scatter ? engine->reduce_scatter(link, what->from, what->count,
                                                               what->to, what->element, what->how)
                                      : missing(member, what->operation);
    case TRP_ALL_GATHER:
        return engine->all_gather ? engine->all_gather(link, what->from, what->count, what->to)
                                  : missing(member, what->operation);
    case TRP_BROADCAST:
        return engine->broadcast ? engine->broadcast(link, what->to, what->count, what->root)
                                 : missing(member, what->operation);
    default:
        return missing(member, what->operation);
    }
}

// ---- what was started

_Atomic bool trp_collective_beside;

typedef struct operation {
    trp_serial_task task; // First.
    trp_member *member;
    trp_request request;
    uint64_t number;
    troupe_error error; // With how it ended.
    struct operation *next;
} operation;

struct trp_started {
    trp_serial *thread;
    int64_t spin_ns;
    uint64_t count;    // Started so far: the number of the last one.
    trp_counter ended; // They end in their order.
    operation *first;  // Those that were not waited for.
};

static struct trp_started *row_of(trp_member *member)
{
    if (member->row)
        return member->row;
    struct trp_started *row = (struct trp_started *)trp_alloc(sizeof *row);
    if (!row || trp_serial_start("troupe-reduce", &row->thread) != TROUPE_OK) {
        trp_free(row);
        return NULL;
    }
    trp_counter_init(&row->ended, 0);
    row->spin_ns = trp_counter_spin_ns(2 * member->world); // The loops go on meanwhile.
    member->row = row;
    return row;
}

static void run_started(trp_serial_task *task)
{
    operation *it = (operation *)task;
    struct trp_started *row = it->member->row;
    troupe_error before;
    trp_error_hold(&before);
    int64_t spin_ns = trp_serial_is_here(row->thread) ? row->spin_ns : it->member->spin_ns;
    if (perform(it->member, &it->request, spin_ns) != TROUPE_OK)
        it->error = *troupe_last_error();
    trp_error_restore(&before);
    trp_counter_raise(&row->ended);
}

// Who waits does what has not been begun itself: to wake the thread for it, and to be woken by it,
// takes longer than a small sum.
static void await(struct trp_started *row, uint64_t number)
{
    while (!trp_counter_reached(&row->ended, (uint32_t)number) && trp_serial_help(row->thread))
        continue;
    (void)trp_counter_await(&row->ended, (uint32_t)number, row->spin_ns, INT64_MAX);
}

troupe_status trp_collective(trp_member *member, const trp_request *request)
{
    TROUPE_TRY(check(member, request));
    if (member->row)
        await(member->row, member->row->count);
    return perform(member, request, member->spin_ns);
}

troupe_status trp_collective_start(trp_member *member, const trp_request *request, uint64_t *number)
{
    TROUPE_TRY(check(member, request));
    struct trp_started *row = row_of(member);
    operation *it = row ? (operation *)trp_alloc(sizeof *it) : NULL;
    if (!it)
        return trp_member_short(member, name_of(request));
    *it = (operation){.task.run = run_started,
                      .member = member,
                      .request = *request,
                      .number = ++row->count,
                      .next = row->first};
    row->first = it;
    *number = it->number;
    if (request->awaited && row->spin_ns == 0 && !atomic_load(&trp_collective_beside))
        trp_serial_put(row->thread, &it->task);
    else
        trp_serial_add(row->thread, &it->task);
    return TROUPE_OK;
}

troupe_status trp_collective_wait(trp_member *member, uint64_t number)
{
    struct trp_started *row = member->row;
    operation **at = row ? &row->first : NULL;
    while (at && *at && (*at)->number != number)
        at = &(*at)->next;
    if (!at || !*at)
        return troupe_fail(TROUPE_INVALID,
                           "troupe_collective_wait: no operation %llu was started "
                           "here, or it was waited for",
                           (unsigned long long)number);
    operation *it = *at;
    await(row, number);
    *at = it->next;
    troupe_error error = it->error;
    trp_free(it);
    return error.status == TROUPE_OK ? TROUPE_OK : trp_error_set(&error);
}

bool trp_collective_ended(const trp_member *member, uint64_t number)
{
    struct trp_started *row = member->row;
    return !row || number > row->count || trp_counter_reached(&row->ended, (uint32_t)number);
}

void trp_collective_end(trp_member *member, troupe_status status)
{
    struct trp_started *row = member->row;
    if (!row)
        return;
    bool failed = status != TROUPE_OK && status != TROUPE_STOPPED;
    if (failed && !trp_collective_ended(member, row->count))
        (void)trp_control_end(member->control, member->engine, TRP_END_LEFT, member->rank);
    await(row, row->count);
    trp_serial_end(&row->thread);
    while (row->first) {
        operation *it = row->first;
        row->first = it->next;
        trp_free(it);
    }
    trp_free(row);
    member->row = NULL;
}

// ---- the public functions

troupe_status trp_allreduce(trp_member *member, void *values, size_t count, troupe_dtype element,
                            troupe_reduction how)
{
    return trp_collective(member, &(trp_request){.operation = TRP_ALLREDUCE,
                                                 .to = values,
                                                 .count = count,
                                                 .element = element,
                                                 .how = how});
}

troupe_status trp_reduce_scatter(trp_member *member, const void *values, size_t count, void *result,
                                 troupe_dtype element, troupe_reduction how)
{
    return trp_collective(member, &(trp_request){.operation = TRP_REDUCE_SCATTER,
                                                 .from = values,
                                                 .to = result,
                                                 .count = count,
                                                 .element = element,
                                                 .how = how});
}

troupe_status trp_all_gather(trp_member *member, const void *data, size_t size, void *all)
{
    return trp_collective(
        member,
        &(trp_request){.operation = TRP_ALL_GATHER, .from = data, .to = all, .count = size});
}

troupe_status trp_broadcast(trp_member *member, void *data, size_t size, int root)
{
    return trp_collective(
        member,
        &(trp_request){.operation = TRP_BROADCAST, .to = data, .count = size, .root = root});
}

troupe_status trp_barrier(trp_member *member)
{
    return trp_collective(member, &(trp_request){.operation = TRP_BARRIER});
}
