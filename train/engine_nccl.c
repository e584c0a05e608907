// engine_nccl.c: the operations of a group on memory of its ranks' GPUs (see train/engine_nccl.h).
//
// An operation, in each rank: find out what this rank alone can find wrong; agree with all ranks by
// the group's own engine; have NCCL put it on the engine's stream; look at the stream, at NCCL's
// state and at the group's end until it is done. What fails after the agreement ends the group,
// since others may be waiting inside NCCL, and aborts the communicator, which ends what waits on
// the device.
//
// NCCL and CUDA are called by a thread of the engine's own. The communicator does not block, but a
// call into a library whose other end is gone may do what it likes: a call that does not return
// costs its thread, never the loop's.
#include <inttypes.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <stdio.h>
#include <string.h>
#include <train/control.h>
#include <train/engine_nccl.h>
#include <train/nccl.h>
#include <train/serial.h>

enum {
    SLICE_MS = 50,
    PATIENCE_MS = 1000, // For the end of a group that an error announces, and of a call.
    FINISH_MS = 1000,   // For the other ranks' last operations.
};

// What a rank calls: compared by all ranks, so without padding.
typedef struct call {
    uint32_t operation, element, how;
    int32_t root;
    uint64_t count;
} call;

// What a rank tells the others before an operation.
typedef struct announcement {
    call what;
    uint32_t status; // Not TROUPE_OK: it cannot take part, for the reason in `text`.
    char text[196];
    trp_nccl_id id; // Rank 0's, for the communicator.
} announcement;

typedef struct link {
    trp_member *member;
    announcement *all; // Of all ranks, the last one.
    trp_serial *thread;
    // The thread's, while it has something to do.
    trp_serial_task task;
    trp_counter ended;                     // How much it has done,
    uint32_t begun;                        // and how much it was given.
    troupe_status (*job)(struct link *it); // Now.
    const char *name;                      // Of what the rank has called.
    int64_t until_ms;
    call what;
    const void *from;
    void *to;
    troupe_error error; // How the job ended.
    int device;
    trp_nccl_id id;
    trp_cuda_stream stream;
    trp_nccl_comm comm;
    uint32_t step; // Calls of NCCL's that all ranks make, with the one of now.
    bool stuck;    // A call did not return: the thread is left to itself.
} link;

// ---- the thread's side

// Ends the group since this rank's device, or NCCL, cannot go on.
static troupe_status give_up(link *it, troupe_status status)
{
    const trp_member *member = it->member;
    (void)trp_control_end(member->control, member->engine, TRP_END_DEVICE, member->rank);
    return status;
}

// An error of NCCL's. Where that may be the end of another rank, the group's end says more.
static troupe_status nccl_failed(link *it, trp_nccl_result result, const char *called)
{
    int64_t since_ns = trp_clock_ns(), until_ms = trp_clock_ms() + PATIENCE_MS;
    bool elsewhere = result == TRP_NCCL_REMOTE_ERROR || result == TRP_NCCL_SYSTEM_ERROR;
    while (elsewhere && trp_member_is_whole(it->member) && trp_clock_ms() < until_ms)
        trp_cuda_pause(since_ns);
    if (!trp_member_is_whole(it->member))
        return trp_member_lost(it->member, it->name);
    return give_up(it, trp_nccl_ended(result, it->comm, it->name, called));
}

// This rank has made the call of this step.
static void note_step(link *it)
{
    atomic_store(&it->member->control->lines[it->member->rank].device_steps, it->step);
}

static bool has_made_step(const link *it, int rank)
{
    uint32_t steps = atomic_load(&it->member->control->lines[rank].device_steps);
    return rank == it->member->rank || (int32_t)(steps - it->step) >= 0;
}

// The time is over. A rank that has not made its call is missing.
static troupe_status late(link *it)
{
    const trp_member *member = it->member;
    for (int rank = 0; rank < member->world; rank++)
        if (!has_made_step(it, rank))
            return trp_member_absent(member, rank, it->name);
    (void)give_up(it, TROUPE_OK);
    return trp_member_lost(member, it->name);
}

// Whether there is anything left to wait for.
static troupe_status look(link *it)
{
    const trp_member *member = it->member;
    troupe_status status;
    const char *text;
    if (!trp_member_is_whole(member))
        return trp_member_lost(member, it->name);
    for (int rank = 0; rank < member->world; rank++)
        // In this order: one that has left has made all its calls before.
        if (trp_control_left(member->control, rank, &status, &text) && !has_made_step(it, rank))
            return trp_member_absent(member, rank, it->name);
    return trp_clock_ms() < it->until_ms ? TROUPE_OK : late(it);
}

// After a call that was let in: waits until NCCL has done its part of it.
static troupe_status nccl_called(link *it, trp_nccl_result result, const char *called)
{
    int64_t since_ns = trp_clock_ns();
    while (result == TRP_NCCL_IN_PROGRESS) {
        trp_nccl_result state = 0;
        result = trp_nccl.comm_state(it->comm, &state);
        if (result == 0)
            result = state;
        if (result == TRP_NCCL_IN_PROGRESS) {
            TROUPE_TRY(look(it));
            trp_cuda_pause(since_ns);
        }
    }
    return result == 0 ? TROUPE_OK : nccl_failed(it, result, called);
}

// Waits until the device has done what is on the stream.
static troupe_status await_device(link *it)
{
    int64_t since_ns = trp_clock_ns();
    trp_cuda_result result;
    while ((result = trp_cuda.stream_query(it->stream)) == TRP_CUDA_NOT_READY) {
        trp_nccl_result state = 0, asked = trp_nccl.comm_state(it->comm, &state);
        if (asked != 0 || (state != 0 && state != TRP_NCCL_IN_PROGRESS))
            return nccl_failed(it, asked != 0 ? asked : state, "ncclCommGetAsyncError");
        TROUPE_TRY(look(it));
        trp_cuda_pause(since_ns);
    }
    if (result == 0)
        return TROUPE_OK;
    return give_up(it, trp_cuda_ended(result, "%s: the stream", it->name));
}

static void drop_comm(link *it)
{
    if (it->comm != NULL)
        (void)trp_nccl.comm_abort(it->comm);
    it->comm = NULL;
}

// Whatever fails here ends the group.
static troupe_status or_abort(link *it, troupe_status status)
{
    troupe_error said;
    if (status == TROUPE_OK)
        return status;
    trp_error_hold(&said);
    drop_comm(it);
    trp_error_restore(&said);
    return status;
}

// Jobs: what is done before the first agreement,
static troupe_status job_begin(link *it)
{
    TROUPE_TRY(trp_nccl_load(it->name));
    TROUPE_TRY(trp_cuda_bind_to(it->name, it->device));
    if (it->stream == NULL)
        TROUPE_TRY(trp_cuda_ended(trp_cuda.stream_create(&it->stream, TRP_CUDA_STREAM_DEFAULT),
                                  "%s: cuStreamCreate", it->name));
    if (it->member->rank != 0)
        return TROUPE_OK;
    return trp_nccl_ended(trp_nccl.id_make(&it->id), NULL, it->name, "ncclGetUniqueId");
}

// after it,
static troupe_status job_open(link *it)
{
    trp_nccl_config config = {.size = sizeof config,
                              .magic = (unsigned)TRP_NCCL_CONFIG_MAGIC,
                              .version = TRP_NCCL_CONFIG_VERSION,
                              .blocking = 0};
    const trp_member *member = it->member;
    trp_nccl_result result =
        trp_nccl.comm_open(&it->comm, member->world, it->all[0].id, member->rank, &config);
    note_step(it);
    return or_abort(it, nccl_called(it, result, "ncclCommInitRankConfig"));
}

static trp_nccl_result put_on_stream(link *it, const char **called)
{
    static const trp_nccl_reduction reductions[] = {[TROUPE_SUM] = TRP_NCCL_SUM,
                                                    [TROUPE_MEAN] = TRP_NCCL_MEAN,
                                                    [TROUPE_MIN] = TRP_NCCL_MIN,
                                                    [TROUPE_MAX] = TRP_NCCL_MAX};
    const call *what = &it->what;
    trp_nccl_type type = trp_nccl_type_of((troupe_dtype)what->element);
    switch (what->operation) {
    case TRP_ALLREDUCE:
        *called = "ncclAllReduce";
        return trp_nccl.allreduce(it->to, it->to, what->count, type, reductions[what->how],
                                  it->comm, it->stream);
    case TRP_REDUCE_SCATTER:
        *called = "ncclReduceScatter";
        return trp_nccl.reduce_scatter(it->from, it->to, what->count, type, reductions[what->how],
                                       it->comm, it->stream);
    case TRP_ALL_GATHER:
        *called = "ncclAllGather";
        return trp_nccl.all_gather(it->from, it->to, what->count, TRP_NCCL_BYTE, it->comm,
                                   it->stream);
    default:
        *called = "ncclBroadcast";
        return trp_nccl.broadcast(it->to, it->to, what->count, TRP_NCCL_BYTE, what->root, it->comm,
                                  it->stream);
    }
}

// each operation,
static troupe_status job_operate(link *it)
{
    const char *called;
    trp_nccl_result result = put_on_stream(it, &called);
    TROUPE_TRY(or_abort(it, nccl_called(it, result, called)));
    note_step(it);
    return or_abort(it, await_device(it));
}

// and the end. The other ranks may still be at their last operation, and read from this one.
static troupe_status job_finish(link *it)
{
    trp_nccl_result result = TRP_NCCL_IN_PROGRESS, state = TRP_NCCL_IN_PROGRESS;
    int64_t since_ns = trp_clock_ns(), until_ms = trp_clock_ms() + FINISH_MS;
    if (it->comm != NULL && trp_member_is_whole(it->member))
        result = trp_nccl.comm_finalize(it->comm);
    while (it->comm != NULL && result == TRP_NCCL_IN_PROGRESS && trp_clock_ms() < until_ms &&
           trp_member_is_whole(it->member)) {
        result = trp_nccl.comm_state(it->comm, &state);
        if (result == 0)
            result = state;
        trp_cuda_pause(since_ns);
    }
    if (it->comm != NULL && result == 0) {
        (void)trp_nccl.comm_destroy(it->comm);
        it->comm = NULL;
    }
    drop_comm(it);
    if (it->stream != NULL)
        (void)trp_cuda.stream_destroy(it->stream);
    return TROUPE_OK;
}

static void run_job(trp_serial_task *task)
{
    link *it = (link *)(void *)((char *)task - offsetof(link, task));
    it->error = (troupe_error){0};
    if (it->job(it) != TROUPE_OK)
        it->error = *troupe_last_error();
    trp_counter_raise(&it->ended);
}

// ---- the rank's side

// Has the thread do it. A call that does not return is given up a while after the time of the
// operation, or the end of the group.
static troupe_status have_done(link *it, troupe_status (*job)(link *it), int64_t until_ms)
{
    const trp_member *member = it->member;
    int64_t spin_ns = member->engine_spin_ns, lost_ms = INT64_MAX;
    it->job = job;
    it->until_ms = until_ms;
    it->begun++;
    trp_serial_add(it->thread, &it->task);
    for (;;) {
        int64_t now_ms = trp_clock_ms();
        if (trp_counter_await(&it->ended, it->begun, spin_ns, now_ms + SLICE_MS))
            return it->error.status == TROUPE_OK ? TROUPE_OK : trp_error_set(&it->error);
        spin_ns = 0;
        if (!trp_member_is_whole(member) && lost_ms == INT64_MAX)
            lost_ms = now_ms;
        if (now_ms - until_ms > PATIENCE_MS ||
            (lost_ms != INT64_MAX && now_ms - lost_ms > PATIENCE_MS))
            break;
    }
    it->stuck = true;
    if (job != job_finish)
        (void)trp_control_end(member->control, member->engine, TRP_END_LATE, member->rank);
    return trp_member_lost(member, it->name);
}

// What this rank alone can find wrong.
static troupe_status check(const link *it)
{
    const call *what = &it->what;
    int device = -1;
    if (!trp_member_is_whole(it->member))
        return trp_member_lost(it->member, it->name);
    if (what->element != TROUPE_DTYPE_NONE && trp_nccl_type_of((troupe_dtype)what->element) < 0)
        return troupe_fail(TROUPE_UNSUPPORTED, "%s: NCCL does not have %s", it->name,
                           troupe_dtype_text((troupe_dtype)what->element));
    bool whole = what->element != TROUPE_FLOAT16 && what->element != TROUPE_BFLOAT16 &&
                 what->element != TROUPE_FLOAT32 && what->element != TROUPE_FLOAT64;
    if (what->element != TROUPE_DTYPE_NONE && whole && what->how == TROUPE_MEAN)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "%s: NCCL does not say how it rounds means of integers (%s)", it->name,
                           troupe_dtype_text((troupe_dtype)what->element));
    const void *const places[] = {it->to, it->from};
    for (int i = 0; i < 2; i++) {
        if (places[i] == NULL)
            continue;
        TROUPE_TRY(trp_cuda_device_of(it->name, places[i], &device));
        if (it->stream != NULL && device != it->device)
            return troupe_fail(TROUPE_INVALID,
                               "%s: memory of device %d, and the first operation of this rank was "
                               "on device %d: all must be on the same",
                               it->name, device, it->device);
    }
    return TROUPE_OK;
}

// Brings this rank as far as it comes alone.
static troupe_status begin(link *it)
{
    TROUPE_TRY(check(it));
    if (it->comm != NULL)
        return TROUPE_OK;
    TROUPE_TRY(trp_cuda_device_of(it->name, it->to, &it->device));
    if (it->thread == NULL)
        TROUPE_TRY(trp_serial_start("troupe-nccl", &it->thread));
    return have_done(it, job_begin, trp_clock_ms() + it->member->timeout_ms);
}

static troupe_status differ(const link *it, int other, const call *mine, const call *theirs)
{
    if (mine->operation != theirs->operation)
        return troupe_fail(TROUPE_INVALID,
                           "rank %d called %s while rank %d called %s: all ranks must call the "
                           "same",
                           it->member->rank, trp_operation_text(mine->operation), other,
                           trp_operation_text(theirs->operation));
    return troupe_fail(
        TROUPE_INVALID,
        "%s: rank %d passed %" PRIu64 " of type %s, reduction %u and root %d, and rank %d %" PRIu64
        " of type %s, reduction %u and root %d: all ranks must pass the same",
        it->name, it->member->rank, mine->count, troupe_dtype_text((troupe_dtype)mine->element),
        mine->how, mine->root, other, theirs->count,
        troupe_dtype_text((troupe_dtype)theirs->element), theirs->how, theirs->root);
}

// All ranks come here with what they call and how far they came: they go on together, or fail
// together and stay in step.
static troupe_status agree(link *it, troupe_status status)
{
    const trp_member *member = it->member;
    troupe_error said = *troupe_last_error();
    announcement mine = {.what = it->what, .status = status, .id = it->id};
    if (status != TROUPE_OK)
        snprintf(mine.text, sizeof mine.text, "%.*s", (int)sizeof mine.text - 1, said.text);
    TROUPE_TRY(member->engine->all_gather(member->link, &mine, sizeof mine, it->all));
    if (status != TROUPE_OK)
        return trp_error_set(&said);
    for (int rank = 0; rank < member->world; rank++) {
        const announcement *theirs = &it->all[rank];
        if (memcmp(&theirs->what, &mine.what, sizeof mine.what) != 0)
            return differ(it, rank, &mine.what, &theirs->what);
        if (theirs->status != TROUPE_OK)
            return troupe_fail((troupe_status)theirs->status, "rank %d: %.*s", rank,
                               (int)sizeof theirs->text - 1, theirs->text);
    }
    return TROUPE_OK;
}

static troupe_status operate(link *it, call what, const void *from, void *to)
{
    trp_member *member = it->member;
    if (it->stuck) // The thread may still read what belongs to its last job.
        return trp_member_lost(member, it->name);
    it->what = what;
    it->from = from;
    it->to = to;
    // By this name the host's engine, too, knows what the ranks are at.
    member->purpose = TRP_ON_DEVICE + trp_member_operation(member, (trp_operation)what.operation);
    it->what.operation = member->purpose;
    it->name = trp_operation_text(member->purpose);
    troupe_status status = begin(it);
    if (status == TROUPE_PEER_LOST)
        return status;
    TROUPE_TRY(agree(it, status));
    it->what.operation = what.operation;
    if (it->comm == NULL) {
        it->step++;
        TROUPE_TRY(have_done(it, job_open, trp_clock_ms() + member->timeout_ms));
    }
    it->step++;
    return have_done(it, job_operate, trp_clock_ms() + member->timeout_ms);
}

static troupe_status nccl_allreduce(void *own, void *values, size_t count, troupe_dtype element,
                                    troupe_reduction how)
{
    return operate((link *)own, (call){TRP_ALLREDUCE, element, how, 0, count}, NULL, values);
}

static troupe_status nccl_reduce_scatter(void *own, const void *values, size_t count, void *result,
                                         troupe_dtype element, troupe_reduction how)
{
    return operate((link *)own, (call){TRP_REDUCE_SCATTER, element, how, 0, count}, values, result);
}

static troupe_status nccl_all_gather(void *own, const void *data, size_t size, void *all)
{
    return operate((link *)own, (call){TRP_ALL_GATHER, 0, 0, 0, size}, data, all);
}

static troupe_status nccl_broadcast(void *own, void *data, size_t size, int root)
{
    return operate((link *)own, (call){TRP_BROADCAST, 0, 0, root, size}, NULL, data);
}

// ---- the table

static size_t nccl_size(int world)
{
    (void)world;
    return 0;
}

static troupe_status nccl_open(trp_member *member, void *memory, void **own)
{
    (void)memory;
    if (!member->engine->all_gather)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "memory of devices: the group's engine '%s' has no all_gather, by which "
                           "ranks agree",
                           member->engine->name);
    link *it = (link *)trp_alloc(sizeof *it);
    announcement *all = (announcement *)trp_alloc((size_t)member->world * sizeof *all);
    if (it == NULL || all == NULL) {
        trp_free(it);
        trp_free(all);
        return trp_member_short(member, "a collective on devices");
    }
    *it = (link){.member = member, .all = all, .task.run = run_job};
    trp_counter_init(&it->ended, 0);
    *own = it;
    return TROUPE_OK;
}

static void nccl_close(void *own)
{
    link *it = (link *)own;
    if (it->thread != NULL && !it->stuck)
        (void)have_done(it, job_finish, trp_clock_ms() + FINISH_MS);
    if (it->stuck)
        return; // The thread may still come back, and use it.
    trp_serial_end(&it->thread);
    trp_free(it->all);
    trp_free(it);
}

const trp_engine trp_engine_nccl = {
    .name = "nccl",
    .reaches = TRP_REACHES_DEVICE,
    .size = nccl_size,
    .open = nccl_open,
    .allreduce = nccl_allreduce,
    .reduce_scatter = nccl_reduce_scatter,
    .all_gather = nccl_all_gather,
    .broadcast = nccl_broadcast,
    .close = nccl_close,
};
