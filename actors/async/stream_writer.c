// stream_writer.c: see async/stream_reader.h: the method that makes the values of a stream.
//
// Makers are found by their reader and call, for counts of what was read; they lie on the stack of
// the thread that runs the method.
#include <actors/async/stream_writer.h>

#include <actors/actor/actor.h>
#include <actors/actor/reply.h>
#include <actors/async/defer.h>
#include <actors/async/stream_reader.h>
#include <actors/class/call_error.h>
#include <actors/ref/ref_visit.h>
#include <actors/ref/result.h>
#include <actors/sched/wait_notes.h>
#include <runtime/base/clock.h>
#include <runtime/base/require.h>
#include <troupe/async.h>

enum { BUCKETS = 64 };

typedef struct trp_maker trp_maker;

typedef struct bucket {
    pthread_mutex_t lock; // Of its makers, too.
    trp_maker *first;
} bucket;

struct trp_maker {
    trp_maker *next, **link;
    bucket *bucket;
    trp_caller reader;
    trp_running *here;
    uint32_t room; // Values that the reader has room for.
    bool gone;     // It is not there any more.
    pthread_cond_t changed;
};

static bucket buckets[BUCKETS];

__attribute__((constructor)) static void make_locks(void)
{
    for (int i = 0; i < BUCKETS; i++)
        pthread_mutex_init(&buckets[i].lock, NULL);
}

static bucket *bucket_of(uint64_t call)
{
    return &buckets[(call ^ call >> 20) % BUCKETS]; // Rows have their place in the lower bits.
}

// With the bucket's lock held.
static trp_maker *find_maker(bucket *in, const trp_caller *reader)
{
    trp_maker *it = in->first;
    while (it != NULL && !(it->reader.call == reader->call && it->reader.remote == reader->remote &&
                           it->reader.incarnation == reader->incarnation))
        it = it->next;
    return it;
}

static void link_maker(trp_maker *maker)
{
    bucket *in = maker->bucket;
    pthread_mutex_lock(&in->lock);
    maker->next = in->first;
    maker->link = &in->first;
    if (maker->next != NULL)
        maker->next->link = &maker->next;
    in->first = maker;
    maker->here->maker = maker;
    pthread_mutex_unlock(&in->lock);
}

static void unlink_maker(trp_maker *maker)
{
    pthread_mutex_lock(&maker->bucket->lock);
    *maker->link = maker->next;
    if (maker->next != NULL)
        maker->next->link = maker->link;
    maker->here->maker = NULL;
    pthread_mutex_unlock(&maker->bucket->lock);
}

troupe_status trp_maker_run(trp_running *here, void *result)
{
    trp_message *message = here->message;
    trp_maker maker = {.bucket = bucket_of(message->call),
                       .reader = trp_caller_of(message),
                       .here = here,
                       .room = message->window};
    pthread_cond_init(&maker.changed, NULL);
    link_maker(&maker);
    troupe_status status = message->method->row->run(here->actor->self, message->args, result);
    unlink_maker(&maker);
    pthread_cond_destroy(&maker.changed);
    return status;
}

// ---- what the reader says

void trp_maker_credit(const trp_caller *reader, uint32_t count)
{
    bucket *in = bucket_of(reader->call);
    pthread_mutex_lock(&in->lock);
    trp_maker *maker = find_maker(in, reader);
    if (maker != NULL) {
        uint32_t most = maker->here->message->window; // Whatever the reader says.
        maker->room = count < most - maker->room ? maker->room + count : most;
        pthread_cond_signal(&maker->changed);
    }
    pthread_mutex_unlock(&in->lock);
}

void trp_maker_serve(const trp_frame *frame)
{
    trp_caller reader = {.remote = true,
                         .process = frame->from,
                         .incarnation = frame->from_incarnation,
                         .call = frame->call};
    trp_maker_credit(&reader, frame->method);
}

// With the bucket's lock held.
static void lose_reader(trp_maker *maker)
{
    maker->gone = true;
    pthread_cond_signal(&maker->changed);
}

void trp_maker_leave(uint64_t call)
{
    bucket *in = bucket_of(call);
    pthread_mutex_lock(&in->lock);
    trp_maker *maker = find_maker(in, &(trp_caller){.call = call});
    if (maker != NULL)
        lose_reader(maker);
    pthread_mutex_unlock(&in->lock);
}

void trp_maker_wake(const trp_running *here)
{
    bucket *in = bucket_of(here->message->call);
    pthread_mutex_lock(&in->lock);
    if (here->maker != NULL)
        lose_reader(here->maker);
    pthread_mutex_unlock(&in->lock);
}

void trp_makers_lost(const uint64_t *incarnation)
{
    for (int i = 0; i < BUCKETS; i++) {
        pthread_mutex_lock(&buckets[i].lock);
        for (trp_maker *it = buckets[i].first; it != NULL; it = it->next)
            if (incarnation == NULL ||
                (it->reader.remote && it->reader.incarnation == *incarnation))
                lose_reader(it);
        pthread_mutex_unlock(&buckets[i].lock);
    }
}

// ---- making values

static troupe_status nobody_reads(void)
{
    return troupe_fail(TROUPE_CANCELLED, "the stream is not read any more: it was dropped, its "
                                         "deadline has passed, or its reader has ended");
}

// With the bucket's lock held. False: nobody reads.
static bool await_room(trp_maker *maker, int64_t deadline_ns)
{
    struct timespec until = {deadline_ns / 1000000000, deadline_ns % 1000000000};
    pthread_mutex_t *lock = &maker->bucket->lock;
    while (maker->room == 0 && !maker->gone) {
        if (deadline_ns == 0)
            pthread_cond_wait(&maker->changed, lock);
        else if (pthread_cond_clockwait(&maker->changed, lock, CLOCK_MONOTONIC, &until) != 0)
            return false;
    }
    return !maker->gone;
}

static troupe_status take_room(trp_maker *maker)
{
    pthread_mutex_t *lock = &maker->bucket->lock;
    bool reads = true;
    pthread_mutex_lock(lock);
    bool waits = maker->room == 0 && !maker->gone;
    if (!waits && (reads = !maker->gone))
        maker->room--;
    pthread_mutex_unlock(lock);
    if (waits) {
        trp_wait_for(TRP_WAIT_READER, 0, 0);
        TROUPE_TRY(trp_scheduler_block());
        pthread_mutex_lock(lock);
        reads = await_room(maker, maker->here->message->deadline_ns);
        if (reads)
            maker->room--; // Nobody else takes it.
        pthread_mutex_unlock(lock);
        trp_scheduler_unblock();
    }
    return reads ? TROUPE_OK : nobody_reads();
}

static troupe_status send_item(trp_maker *maker, const trp_shape *shape, void *value)
{
    const trp_message *message = maker->here->message;
    if (message->remote != NULL) {
        trp_frame frame = {.kind = TRP_FRAME_ITEM,
                           .target = message->target,
                           .call = message->call,
                           .schema = troupe_type_hash(shape->type)};
        troupe_status status = trp_value_send(message->remote, &frame, shape, value);
        if (shape->refs)
            trp_refs_drop(shape, value);
        return status == TROUPE_NOT_EXECUTED ? nobody_reads() : status;
    }
    trp_result result;
    trp_result_copy(&result, shape, value);
    if (result.kind == TRP_RESULT_FAILURE) {
        trp_result_free(&result);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a value of a stream");
    }
    return trp_stream_push(message->call, &result) ? TROUPE_OK : nobody_reads();
}

troupe_status troupe_yield_as(const troupe_type *type, const void *value)
{
    TRP_REQUIRE(type);
    TRP_REQUIRE(value);
    trp_running *here = trp_run_current();
    trp_arena arena = {0};
    void *copy = NULL;
    TROUPE_TRY(trp_type_check(type));
    if (here == NULL || here->maker == NULL)
        return troupe_fail(TROUPE_INVALID, "troupe_yield was called outside a streaming method");
    const trp_method *method = here->message->method;
    if (troupe_type_hash(type) != troupe_type_hash(method->row->result))
        return troupe_fail(TROUPE_WRONG_TYPE, "%s yields values of type '%s', not '%s'",
                           method->row->name, method->row->result->name, type->name);
    if (troupe_cancelled())
        return nobody_reads();
    TROUPE_TRY(take_room(here->maker));
    troupe_status status = trp_value_give(&method->result, value, &arena, &copy);
    if (status == TROUPE_OK)
        status = send_item(here->maker, &method->result, copy);
    trp_arena_clear(&arena);
    return status;
}
