// stream_reader.c: see async/stream_reader.h: opening a stream, and reading it.
//
// The call behind a stream has an ordinary row, whose result is how the method ended: values come
// before it over the same link, so that a reader which has none left and sees the row done is at
// the end. Values are counted back to the maker when half of the window has been read.
#include <actors/async/stream_reader.h>

#include <actors/actor/actor.h>
#include <actors/async/stream_writer.h>
#include <actors/class/call_error.h>
#include <actors/class/take_once.h>
#include <actors/ref/ref.h>
#include <actors/ref/result.h>
#include <actors/sched/wait_notes.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/require.h>
#include <runtime/link/dispatch.h>
#include <runtime/link/peer.h>
#include <runtime/shm/process_table.h>
#include <troupe/async.h>

typedef struct item {
    struct item *next;
    trp_result result;
} item;

struct trp_stream {
    trp_registered row;     // Under the number of the call.
    _Atomic uint32_t holds; // Of the registry, of the row's callback, of who reads.
    pthread_mutex_t lock;   // Of all that follows.
    pthread_cond_t changed;
    item *first, **last;
    uint32_t window, unreported; // Values that were read and not counted back.
    uint32_t room;               // So many more may come.
    bool flooded;                // More have come, so it has failed: nothing is taken any more.
    bool done;                   // Nothing comes any more: the row has the end.
    troupe_ref call;
};

static trp_registry streams TRP_VAST;

__attribute__((constructor)) static void make_registry(void)
{
    trp_registry_init(&streams);
}

static void release(trp_stream *stream)
{
    if (atomic_fetch_sub(&stream->holds, 1) > 1)
        return;
    while (stream->first != NULL) {
        item *it = stream->first;
        stream->first = it->next;
        trp_result_free(&it->result);
        trp_free(it);
    }
    pthread_cond_destroy(&stream->changed);
    pthread_mutex_destroy(&stream->lock);
    trp_free(stream);
}

// The stream, held; NULL: there is none.
static trp_stream *find(uint64_t call)
{
    trp_stream *stream = (trp_stream *)trp_registry_lock(&streams, call);
    if (stream == NULL)
        return NULL;
    atomic_fetch_add(&stream->holds, 1);
    trp_registry_unlock(&streams, call);
    return stream;
}

// ---- opening

static void see_end(void *user, troupe_ref ref)
{
    trp_stream *stream = user;
    (void)ref;
    pthread_mutex_lock(&stream->lock);
    stream->done = true;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    release(stream);
}

void trp_stream_begin(trp_stream *stream, uint64_t call)
{
    stream->row.id = call;
    trp_registry_add(&streams, &stream->row);
}

trp_stream *trp_stream_make(uint32_t window)
{
    trp_stream *stream = trp_alloc(sizeof *stream);
    if (stream == NULL)
        return NULL;
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->changed, NULL);
    stream->last = &stream->first;
    stream->window = stream->room = window;
    stream->holds = 3; // The registry's, the callback's, and ours until both are known of.
    return stream;
}

troupe_stream trp_stream_called(trp_stream *stream, troupe_ref call)
{
    if (call.id == TRP_REF_NO_MEMORY) {
        atomic_store(&stream->holds, 1); // Nobody else knows of it.
        release(stream);
        (void)troupe_fail(TROUPE_NO_MEMORY, "no memory for the call of a stream");
        return (troupe_stream){0};
    }
    stream->call = call;
    if (stream->row.id == 0) // It has failed before it was begun; the row says why.
        trp_stream_begin(stream, call.id);
    trp_ref_when(call, see_end, stream);
    release(stream);
    return (troupe_stream){call.id};
}

// ---- what comes

typedef enum pushed { PUSHED, NOBODY_READS, NO_MEMORY, NO_ROOM } pushed;

static pushed push(trp_stream *stream, trp_result *result)
{
    item *it = trp_alloc(sizeof *it);
    if (it == NULL)
        return NO_MEMORY;
    it->result = *result;
    pthread_mutex_lock(&stream->lock);
    bool room = stream->room > 0 && !stream->flooded;
    stream->flooded = !room;
    if (room) {
        stream->room--;
        *stream->last = it;
        stream->last = &it->next;
        pthread_cond_signal(&stream->changed);
    }
    pthread_mutex_unlock(&stream->lock);
    if (!room)
        trp_free(it);
    return room ? PUSHED : NO_ROOM;
}

static pushed push_to(uint64_t call, trp_result *result)
{
    trp_stream *stream = find(call);
    pushed how = stream != NULL ? push(stream, result) : NOBODY_READS;
    if (how != PUSHED)
        trp_result_free(result);
    if (stream != NULL)
        release(stream);
    return how;
}

bool trp_stream_push(uint64_t call, trp_result *result)
{
    return push_to(call, result) == PUSHED;
}

// Who makes the values is known by the row: an actor that was started again makes them elsewhere
// than its address says. False: there is no such row any more.
static bool find_maker(uint64_t call, trp_target *maker)
{
    trp_entry *entry = trp_entry_lock(call);
    if (entry == NULL)
        return false;
    *maker = entry->target;
    trp_entry_unlock(entry);
    return true;
}

static void too_many(const trp_frame *frame)
{
    trp_process_refused("it has a value of a stream whose reader has no room for it");
    troupe_error failure = trp_failure(TROUPE_MALFORMED, TROUPE_OUTCOME_FAILED, TROUPE_EXECUTED_YES,
                                       "%s sent more values of a stream than there was room for",
                                       trp_process_text(frame->from).text);
    (void)trp_entry_fail(frame->call, &failure);
}

void trp_stream_serve(const trp_frame *frame)
{
    trp_target maker;
    trp_result result;
    pushed how = NO_MEMORY;
    if (find_maker(frame->call, &maker) && maker.incarnation != frame->from_incarnation) {
        trp_process_refused("it has a value of a stream that another process makes");
        trp_body_refuse(frame, 0);
        return;
    }
    if (trp_result_receive(&result, frame) == TROUPE_OK)
        how = push_to(frame->call, &result);
    if (how == PUSHED)
        return;
    if (how == NO_ROOM)
        too_many(frame);
    // A value that is missing would be worse than none.
    trp_frame stop = {.kind = TRP_FRAME_CANCEL, .target = frame->target, .call = frame->call};
    (void)trp_process_send(frame->from, frame->from_incarnation, &stop, 0);
}

// ---- reading

static troupe_status stale(void)
{
    return troupe_fail(TROUPE_INVALID, "the stream is empty or stale: it has ended or was dropped");
}

// Waits until there is a value or the end. With the lock held. `deadline_ns` negative: for ever.
static bool await_change(trp_stream *stream, int64_t deadline_ns)
{
    struct timespec until = {deadline_ns / 1000000000, deadline_ns % 1000000000};
    while (stream->first == NULL && !stream->done) {
        if (deadline_ns < 0)
            pthread_cond_wait(&stream->changed, &stream->lock);
        else if (pthread_cond_clockwait(&stream->changed, &stream->lock, CLOCK_MONOTONIC, &until) !=
                 0)
            return stream->first != NULL || stream->done;
    }
    return true;
}

// Waits likewise, on a thread that may run methods. `deadline_ns` 0: it only looks.
static troupe_status wait_for_change(trp_stream *stream, int64_t deadline_ns)
{
    pthread_mutex_lock(&stream->lock);
    bool ready = stream->first != NULL || stream->done;
    pthread_mutex_unlock(&stream->lock);
    if (ready)
        return TROUPE_OK;
    if (deadline_ns != 0) {
        if (deadline_ns < 0)
            TROUPE_TRY(trp_run_waits(stream->row.id));
        trp_wait_for(TRP_WAIT_STREAM, stream->row.id, 0);
        troupe_status status = trp_scheduler_block();
        if (status == TROUPE_OK) {
            pthread_mutex_lock(&stream->lock);
            ready = await_change(stream, deadline_ns);
            pthread_mutex_unlock(&stream->lock);
            trp_scheduler_unblock();
        }
        if (deadline_ns < 0)
            (void)trp_run_waits(0);
        TROUPE_TRY(status);
    }
    return ready ? TROUPE_OK
                 : troupe_fail(TROUPE_TIMED_OUT, "no value came in time; the stream stays valid");
}

static void send_taken(const trp_stream *stream, uint32_t count)
{
    trp_target maker;
    if (!find_maker(stream->row.id, &maker))
        return;
    if (maker.incarnation == trp_home_here.incarnation) {
        trp_maker_credit(&(trp_caller){.call = stream->row.id}, count);
        return;
    }
    trp_frame frame = {.kind = TRP_FRAME_TAKEN, .call = stream->row.id, .method = count};
    (void)trp_process_send(maker.process, maker.incarnation, &frame, 0);
}

// The oldest value, or NULL; *over says whether there will be none any more.
static item *take_item(trp_stream *stream, bool *over)
{
    uint32_t count = 0;
    pthread_mutex_lock(&stream->lock);
    item *it = stream->first;
    *over = it == NULL && stream->done;
    if (it != NULL) {
        stream->first = it->next;
        if (stream->first == NULL)
            stream->last = &stream->first;
        if (++stream->unreported >= (stream->window + 1) / 2) {
            count = stream->unreported;
            stream->unreported = 0;
            stream->room += count; // Before the maker hears of it.
        }
    }
    pthread_mutex_unlock(&stream->lock);
    if (count > 0)
        send_taken(stream, count);
    return it;
}

// How the method has ended; the stream is gone then.
static troupe_status end_stream(trp_stream *stream)
{
    troupe_none nothing;
    if (trp_registry_take(&streams, stream->row.id) == NULL)
        return stale();              // Another thread was faster.
    trp_maker_leave(stream->row.id); // It has ended, unless the row was ended by somebody else.
    release(stream);
    TROUPE_TRY(troupe_get(troupe_none, stream->call, &nothing));
    return troupe_fail(TROUPE_END, "the stream has ended");
}

// A value that could not be read yet is the next one again.
static void return_item(trp_stream *stream, item *it)
{
    pthread_mutex_lock(&stream->lock);
    it->next = stream->first;
    stream->first = it;
    if (it->next == NULL)
        stream->last = &it->next;
    pthread_mutex_unlock(&stream->lock);
}

troupe_status troupe_next_as(const troupe_type *type, troupe_stream stream, void *value,
                             int timeout_ms)
{
    TRP_REQUIRE(value);
    TROUPE_TRY(trp_type_check(type));
    trp_stream *found = find(stream.id_);
    if (found == NULL)
        return stale();
    trp_shape shape = trp_shape_of(type);
    // 0: only a look.
    int64_t deadline_ns = timeout_ms == 0 ? 0 : trp_clock_deadline(timeout_ms);
    item *it = NULL;
    bool over = false;
    troupe_status status;
    do { // Another reader may have taken the value that this one was woken for.
        status = wait_for_change(found, deadline_ns);
    } while (status == TROUPE_OK && (it = take_item(found, &over)) == NULL && !over);
    if (status == TROUPE_OK && it != NULL) {
        status = trp_result_take(&it->result, &shape, value);
        if (status == TROUPE_TIMED_OUT)
            return_item(found, it);
        else
            trp_free(it);
    } else if (status == TROUPE_OK) {
        status = end_stream(found);
    }
    release(found);
    return status;
}

// However the row has ended, who makes the values is told that nobody wants them.
static void stop_maker(const trp_stream *stream)
{
    trp_target maker;
    if (!find_maker(stream->row.id, &maker))
        return;
    if (maker.incarnation == trp_home_here.incarnation) {
        trp_maker_leave(stream->row.id);
        return;
    }
    trp_frame stop = {.kind = TRP_FRAME_CANCEL, .target = maker.actor, .call = stream->row.id};
    if (maker.incarnation != 0)
        (void)trp_process_send(maker.process, maker.incarnation, &stop, 0);
}

void troupe_stream_drop(troupe_stream stream)
{
    trp_stream *found = (trp_stream *)trp_registry_take(&streams, stream.id_);
    if (found == NULL)
        return;
    if (troupe_cancel(found->call) != TROUPE_OK)
        stop_maker(found);
    troupe_ref_drop(found->call);
    release(found);
}
