// queue.c: the bounded queue: an actor that keeps packed values, and defers the answers of calls
// that must wait.
//
// A waiting call is a record with a deferred answer, in one of two lists. One of them is empty as
// long as something can be moved: after every message the queue moves values from putters to
// itself, and from itself to getters, until nothing moves. An answer that is not wanted any more
// (its caller was cancelled, or died) leaves the values in the queue, for the next.
#include <actors/actor/failed_spawn.h>
#include <actors/async/ask.h>
#include <actors/call/call.h>
#include <actors/class/class.h>
#include <actors/lib/queue_items.h>
#include <actors/ref/call_table.h>
#include <actors/spawn/spawn.h>
#include <runtime/base/arena.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <runtime/base/require.h>
#include <runtime/codec/msgpack.h>
#include <runtime/codec/pack.h>
#include <runtime/shm/process_table.h>
#include <string.h>
#include <troupe/async.h>
#include <troupe/queue.h>

enum { CAPACITY_DEFAULT = 1024, BYTES_DEFAULT = 64 << 20, MOVED_MAX = 4096 };

// ---- messages. How it went is part of the answer: a full or empty queue is no failure of a call.

TROUPE_STRUCT(trp_queue_how, (uint64_t, schema), (uint64_t, capacity), (uint64_t, bytes_max));
TROUPE_STRUCT(trp_queue_offer, (uint64_t, schema), (int32_t, timeout_ms),
              (troupe_array_troupe_bytes, values));
TROUPE_STRUCT(trp_queue_taken, (uint32_t, status), (uint64_t, count));
TROUPE_STRUCT(trp_queue_request, (uint64_t, schema), (int32_t, timeout_ms), (uint64_t, max));
TROUPE_STRUCT(trp_queue_given, (uint32_t, status), (troupe_array_troupe_bytes, values));
TROUPE_STRUCT(trp_queue_returned, (troupe_array_troupe_bytes, values));
TROUPE_STRUCT(trp_queue_looks, (uint64_t, count), (uint64_t, bytes), (uint64_t, capacity),
              (uint64_t, getters), (uint64_t, putters), (bool, closed));

// ---- state

typedef struct waiter {
    struct waiter *next;
    uint64_t number;
    troupe_deferred answer;
    troupe_timer timer; // id 0: it waits for ever.
    trp_items offered;  // Of who puts: not in the queue yet,
    uint64_t put;       // and in it.
    uint64_t max;       // Of who gets.
} waiter;

typedef struct waiters {
    waiter *first, **last;
    uint64_t count;
} waiters;

typedef struct trp_queue {
    uint64_t schema, capacity, bytes_max;
    trp_items values;
    waiters getters, putters;
    uint64_t last_number;
    bool closed;
} trp_queue;

static troupe_status trp_queue_begin(trp_queue *self, const trp_queue_how *how);
static void trp_queue_end(trp_queue *self);
static troupe_status trp_queue_put(trp_queue *self, const trp_queue_offer *offer,
                                   trp_queue_taken *taken);
static troupe_status trp_queue_get(trp_queue *self, const trp_queue_request *request,
                                   trp_queue_given *given);
static troupe_status trp_queue_return(trp_queue *self, const trp_queue_returned *returned,
                                      troupe_none *none);
static troupe_status trp_queue_expire(trp_queue *self, const uint64_t *number, troupe_none *none);
static troupe_status trp_queue_shut(trp_queue *self, const troupe_none *args, troupe_none *none);
static troupe_status trp_queue_look(trp_queue *self, const troupe_none *args,
                                    trp_queue_looks *looks);

TROUPE_ACTOR_INIT(trp_queue, (trp_queue_begin, trp_queue_how), trp_queue_end,
                  (trp_queue_put, trp_queue_offer, trp_queue_taken),
                  (trp_queue_get, trp_queue_request, trp_queue_given),
                  (trp_queue_expire, uint64_t, troupe_none),
                  (trp_queue_shut, troupe_none, troupe_none),
                  (trp_queue_look, troupe_none, trp_queue_looks),
                  (trp_queue_return, trp_queue_returned, troupe_none));

static bool has_room(const trp_queue *self, size_t size)
{
    return self->values.count < self->capacity &&
           (self->values.count == 0 || self->values.bytes + size <= self->bytes_max);
}

static waiter *add_waiter(trp_queue *self, waiters *to)
{
    waiter *it = trp_alloc(sizeof *it);
    if (it == NULL) {
        (void)troupe_fail(TROUPE_NO_MEMORY, "no memory to wait at a queue");
        return NULL;
    }
    it->number = ++self->last_number;
    it->offered.last = &it->offered.first;
    *to->last = it;
    to->last = &it->next;
    to->count++;
    return it;
}

static void drop_waiter(waiters *from, waiter *gone)
{
    waiter **at = &from->first;
    while (*at != gone)
        at = &(*at)->next;
    *at = gone->next;
    if (*at == NULL)
        from->last = at;
    from->count--;
    if (gone->timer.id_ != 0)
        (void)troupe_timer_stop(gone->timer);
    trp_items_drop(&gone->offered, gone->offered.count);
    trp_free(gone);
}

// ---- moving

static void answer_putter(trp_queue *self, waiter *it, troupe_status status)
{
    trp_queue_taken taken = {.status = status, .count = it->put};
    (void)troupe_deferred_fulfil(trp_queue_taken, &it->answer, &taken);
    drop_waiter(&self->putters, it);
}

static bool move_in(trp_queue *self)
{
    bool moved = false;
    for (waiter *it; (it = self->putters.first) != NULL;) {
        while (it->offered.first != NULL && has_room(self, it->offered.first->size)) {
            trp_items_push(&self->values, trp_items_pop(&it->offered));
            it->put++;
            moved = true;
        }
        if (it->offered.first != NULL)
            break;
        answer_putter(self, it, TROUPE_OK);
    }
    return moved;
}

// How many of the first values one answer can carry, `max` at most: at least one where there is
// any, since what could be put alone can be given alone.
static uint64_t fitting(const trp_queue *self, uint64_t max)
{
    size_t weight = sizeof(trp_queue_given), limit = trp_process_options()->message_bytes_max;
    uint64_t count = 0;
    for (trp_item *it = self->values.first; it != NULL && count < max && count < MOVED_MAX;
         it = it->next) {
        weight += sizeof(troupe_bytes) + it->size;
        if (count > 0 && weight > limit)
            break;
        count++;
    }
    return count;
}

// Points `views` at the first values, `max` at most.
static uint64_t view_items(const trp_queue *self, troupe_bytes *views, uint64_t max)
{
    uint64_t count = 0;
    for (trp_item *it = self->values.first; it != NULL && count < max; it = it->next)
        views[count++] = (troupe_bytes){it->data, it->size};
    return count;
}

static bool move_out(trp_queue *self)
{
    bool moved = false;
    for (waiter *it; self->values.count > 0 && (it = self->getters.first) != NULL;) {
        uint64_t max = fitting(self, it->max);
        troupe_bytes one, *views = &one;
        if (max > 1 && (views = trp_alloc(max * sizeof *views)) == NULL)
            views = &one, max = 1;
        trp_queue_given given = {.status = TROUPE_OK,
                                 .values = {views, view_items(self, views, max)}};
        troupe_status status = troupe_deferred_fulfil(trp_queue_given, &it->answer, &given);
        if (status == TROUPE_OK)
            trp_items_drop(&self->values, given.values.count);
        moved = moved || status == TROUPE_OK;
        if (views != &one)
            trp_free(views);
        drop_waiter(&self->getters, it);
    }
    return moved;
}

static void move_all(trp_queue *self)
{
    bool moved = true;
    while (moved) {
        moved = move_in(self);
        moved = move_out(self) || moved;
    }
}

// ---- methods

// Who has to wait gets its answer later; the caller's own result is not used then.
static troupe_status wait_later(waiter *it, waiters *in, int32_t timeout_ms)
{
    it->answer = troupe_defer();
    troupe_status status = TROUPE_OK;
    if (it->answer.id_ == 0)
        status = troupe_failed_(troupe_last_error()->status);
    else if (timeout_ms > 0)
        it->timer = troupe_timer_after(trp_queue_expire, (uint32_t)timeout_ms, it->number);
    if (status == TROUPE_OK && timeout_ms > 0 && it->timer.id_ == 0)
        status = troupe_failed_(troupe_last_error()->status);
    if (status != TROUPE_OK)
        drop_waiter(in, it);
    return status;
}

static troupe_status trp_queue_put(trp_queue *self, const trp_queue_offer *offer,
                                   trp_queue_taken *taken)
{
    const troupe_bytes *values = offer->values.items;
    uint64_t count = offer->values.count, put = 0;
    if (offer->schema != self->schema || self->closed) {
        taken->status = self->closed ? TROUPE_STOPPED : TROUPE_WRONG_TYPE;
        return TROUPE_OK;
    }
    while (put < count && self->putters.first == NULL && has_room(self, values[put].size)) {
        trp_item *it = trp_item_copy(&values[put]);
        if (it == NULL)
            return TROUPE_NO_MEMORY;
        trp_items_push(&self->values, it);
        put++;
        if (self->getters.first != NULL)
            move_all(self);
    }
    *taken = (trp_queue_taken){.status = put == count ? TROUPE_OK : TROUPE_TIMED_OUT, .count = put};
    if (put == count || offer->timeout_ms == 0)
        return TROUPE_OK;
    waiter *it = add_waiter(self, &self->putters);
    if (it == NULL)
        return TROUPE_NO_MEMORY;
    it->put = put;
    for (; put < count; put++) {
        trp_item *fresh = trp_item_copy(&values[put]);
        if (fresh == NULL) {
            drop_waiter(&self->putters, it);
            return TROUPE_NO_MEMORY;
        }
        trp_items_push(&it->offered, fresh);
    }
    return wait_later(it, &self->putters, offer->timeout_ms);
}

static troupe_status give(trp_queue *self, uint64_t max, trp_queue_given *given)
{
    uint64_t count = fitting(self, max), copied = 0;
    troupe_bytes *values = troupe_arena_alloc(count * sizeof *values);
    for (trp_item *it = self->values.first; values != NULL && copied < count; it = it->next) {
        void *copy = troupe_arena_alloc(it->size + 1);
        if (copy == NULL)
            break;
        memcpy(copy, it->data, it->size);
        values[copied++] = (troupe_bytes){copy, it->size};
    }
    if (copied < count) // They all stay in the queue.
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for what is in a queue");
    trp_items_drop(&self->values, count);
    *given = (trp_queue_given){.status = TROUPE_OK, .values = {values, count}};
    move_all(self);
    return TROUPE_OK;
}

static troupe_status trp_queue_get(trp_queue *self, const trp_queue_request *request,
                                   trp_queue_given *given)
{
    if (request->schema != self->schema) {
        given->status = TROUPE_WRONG_TYPE;
        return TROUPE_OK;
    }
    if (self->values.count > 0)
        return give(self, request->max, given);
    given->status = self->closed ? TROUPE_STOPPED : TROUPE_TIMED_OUT;
    if (self->closed || request->timeout_ms == 0)
        return TROUPE_OK;
    waiter *it = add_waiter(self, &self->getters);
    if (it == NULL)
        return TROUPE_NO_MEMORY;
    it->max = request->max;
    return wait_later(it, &self->getters, request->timeout_ms);
}

// Values that were given to somebody who had not waited for them come back, before the others.
static troupe_status trp_queue_return(trp_queue *self, const trp_queue_returned *returned,
                                      troupe_none *none)
{
    trp_items back = {.last = &back.first};
    troupe_status status = TROUPE_OK;
    (void)none;
    for (size_t i = 0; i < returned->values.count; i++) {
        trp_item *it = trp_item_copy(&returned->values.items[i]);
        if (it != NULL)
            trp_items_push(&back, it);
        else
            status = TROUPE_NO_MEMORY;
    }
    trp_items_push_back(&self->values, &back);
    move_all(self);
    return status;
}

static void answer_getter(trp_queue *self, waiter *it, troupe_status status)
{
    trp_queue_given given = {.status = status};
    (void)troupe_deferred_fulfil(trp_queue_given, &it->answer, &given);
    drop_waiter(&self->getters, it);
}

static waiter *find_waiter(const waiters *in, uint64_t number)
{
    waiter *it = in->first;
    while (it != NULL && it->number != number)
        it = it->next;
    return it;
}

static troupe_status trp_queue_expire(trp_queue *self, const uint64_t *number, troupe_none *none)
{
    waiter *it = find_waiter(&self->getters, *number);
    (void)none;
    if (it != NULL)
        answer_getter(self, it, TROUPE_TIMED_OUT);
    it = find_waiter(&self->putters, *number);
    if (it != NULL)
        answer_putter(self, it, TROUPE_TIMED_OUT);
    move_all(self); // Another one who puts is the first now, perhaps with less.
    return TROUPE_OK;
}

static troupe_status trp_queue_shut(trp_queue *self, const troupe_none *args, troupe_none *none)
{
    (void)args, (void)none;
    self->closed = true;
    while (self->putters.first != NULL)
        answer_putter(self, self->putters.first, TROUPE_STOPPED);
    while (self->getters.first != NULL)
        answer_getter(self, self->getters.first, TROUPE_STOPPED);
    return TROUPE_OK;
}

static troupe_status trp_queue_look(trp_queue *self, const troupe_none *args,
                                    trp_queue_looks *looks)
{
    (void)args;
    *looks = (trp_queue_looks){.count = self->values.count,
                               .bytes = self->values.bytes,
                               .capacity = self->capacity,
                               .getters = self->getters.count,
                               .putters = self->putters.count,
                               .closed = self->closed};
    return TROUPE_OK;
}

static troupe_status trp_queue_begin(trp_queue *self, const trp_queue_how *how)
{
    *self =
        (trp_queue){.schema = how->schema, .capacity = how->capacity, .bytes_max = how->bytes_max};
    self->values.last = &self->values.first;
    self->getters.last = &self->getters.first;
    self->putters.last = &self->putters.first;
    return TROUPE_OK;
}

static void trp_queue_end(trp_queue *self)
{
    trp_items_drop(&self->values, self->values.count);
    while (self->getters.first != NULL)
        drop_waiter(&self->getters, self->getters.first);
    while (self->putters.first != NULL)
        drop_waiter(&self->putters, self->putters.first);
}

// Who kills a queue does so between two of its messages, or while one runs, which is let finish:
// its lists are whole.
static void discard(void *self)
{
    trp_queue_end(self);
}

__attribute__((constructor)) static void register_discard(void)
{
    trp_class_discards(&troupe_class_trp_queue, discard);
}

// ---- the users' side

troupe_queue troupe_queue_open_as(const troupe_type *type, const troupe_queue_options *how)
{
    if (TRP_IS_NULL(type))
        return (troupe_queue){trp_spawn_failed(TRP_NULL(type))};
    troupe_queue_options taken;
    troupe_status status = TRP_OPTIONS_TAKE("troupe_queue_open", taken, how);
    if (status != TROUPE_OK)
        return (troupe_queue){trp_spawn_failed(status)};
    trp_queue_how init = {.capacity = taken.capacity != 0 ? taken.capacity : CAPACITY_DEFAULT,
                          .bytes_max = taken.bytes_max != 0 ? taken.bytes_max : BYTES_DEFAULT};
    if (trp_type_check(type) == TROUPE_OK)
        init.schema = trp_type_note(type);
    troupe_spawn_options spawn = {.size = sizeof spawn, .name = taken.name, .place = taken.place};
    return (troupe_queue){troupe_spawn_as(&troupe_class_trp_queue, &init, &spawn)};
}

troupe_status troupe_queue_lookup(const char *name, troupe_queue *queue)
{
    TRP_REQUIRE(name);
    TRP_REQUIRE(queue);
    return troupe_lookup_as(&troupe_class_trp_queue, name, &queue->address);
}

static troupe_status check_type(const troupe_type *type)
{
    TROUPE_TRY(trp_type_check(type));
    return trp_shape_of(type).refs ? troupe_fail(TROUPE_UNSUPPORTED,
                                                 "values of type '%s' hold references, which a "
                                                 "queue cannot keep",
                                                 type->name)
                                   : TROUPE_OK;
}

// What an answer's status means to the user.
static troupe_status explain(uint32_t status, const troupe_type *type, const char *pending)
{
    switch (status) {
    case TROUPE_OK:
        return TROUPE_OK;
    case TROUPE_STOPPED:
        return troupe_fail(TROUPE_STOPPED, "the queue was closed");
    case TROUPE_WRONG_TYPE:
        return troupe_fail(TROUPE_WRONG_TYPE,
                           "the values of the queue are of another type than "
                           "'%s'",
                           type->name);
    default:
        return troupe_fail((troupe_status)status, "%s", pending);
    }
}

// Packs values one behind the other; ends[i] is where the i-th ends.
static troupe_status pack_all(const troupe_type *type, const void *values, size_t count,
                              trp_buffer *out, troupe_bytes *parts)
{
    for (size_t i = 0; i < count; i++) {
        size_t before = out->size;
        TROUPE_TRY(trp_pack(type, (const unsigned char *)values + i * type->size, out));
        parts[i].size = out->size - before;
    }
    if (out->failed)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu values of a queue", count);
    size_t at = 0;
    for (size_t i = 0; i < count; i++) { // Only now: the buffer has moved as it grew.
        parts[i].data = out->data + at;
        at += parts[i].size;
    }
    return TROUPE_OK;
}

// Values that came when nobody waited for them any more go back to their queue. `user` is its
// address, of this alone; NULL: there was no memory for it.
static void return_late(void *user, troupe_ref ref)
{
    trp_queue_given given = {0};
    trp_arena arena = {0}, *before = trp_arena_swap(&arena);
    troupe_status status = troupe_get(trp_queue_given, ref, &given, TROUPE_POLL);
    if (status == TROUPE_OK && given.values.count > 0) {
        trp_queue_returned back = {.values = given.values};
        status = user == NULL ? TROUPE_NO_MEMORY
                              : troupe_tell_from((trp_queue_actor){*(troupe_actor *)user},
                                                 trp_queue_return, &back);
        if (status != TROUPE_OK)
            trp_log(TRP_ERROR, "%zu values that a queue gave too late are lost",
                    given.values.count);
    }
    (void)trp_arena_swap(before);
    trp_arena_clear(&arena);
    trp_free(user);
}

static troupe_status await_given(troupe_ref ref, troupe_queue queue, int timeout_ms)
{
    troupe_actor *copy = timeout_ms >= 0 ? trp_alloc(sizeof *copy) : NULL;
    if (copy != NULL)
        *copy = queue.address;
    troupe_status status = trp_ask_await(ref, "a queue", timeout_ms, return_late, copy);
    if (status == TROUPE_OK)
        trp_free(copy);
    if (status != TROUPE_DEADLINE_EXCEEDED)
        return status;
    troupe_error failure = *troupe_last_error(); // Nothing is lost: it was a wait.
    failure.status = TROUPE_TIMED_OUT;
    return trp_error_set(&failure);
}

troupe_status troupe_queue_put_as(const troupe_type *type, troupe_queue queue, const void *values,
                                  size_t count, size_t *put, int timeout_ms)
{
    TRP_REQUIRE(type);
    if (count > 0)
        TRP_REQUIRE(values);
    TRP_REQUIRE_COUNT(count, type->size);
    trp_queue_taken answer = {0};
    trp_buffer packed = {0};
    troupe_bytes one, *parts = &one;
    TROUPE_TRY(check_type(type));
    if (count > 1 && (parts = trp_alloc(count * sizeof *parts)) == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu values of a queue", count);
    troupe_status status = pack_all(type, values, count, &packed, parts);
    if (status == TROUPE_OK) {
        trp_queue_offer offer = {
            .schema = trp_type_note(type), .timeout_ms = timeout_ms, .values = {parts, count}};
        troupe_ref ref = troupe_call_from((trp_queue_actor){queue.address}, trp_queue_put, &offer);
        status = trp_ask_await(ref, "a queue", timeout_ms, NULL, NULL);
        if (status == TROUPE_OK)
            status = troupe_get(trp_queue_taken, ref, &answer);
    }
    if (status == TROUPE_OK)
        status = explain(answer.status, type, "the queue had no room in time");
    if (put != NULL)
        *put = answer.count;
    if (parts != &one)
        trp_free(parts);
    trp_buffer_free(&packed);
    return status;
}

troupe_status troupe_queue_get_as(const troupe_type *type, troupe_queue queue, void *values,
                                  size_t max, size_t *count, int timeout_ms)
{
    TRP_REQUIRE(type);
    TRP_REQUIRE(values);
    trp_queue_given given = {0};
    trp_arena arena = {0};
    TROUPE_TRY(check_type(type));
    if (max == 0)
        return troupe_fail(TROUPE_INVALID, "0 values were asked of a queue: expected 1 or more");
    trp_queue_request request = {
        .schema = trp_type_note(type), .timeout_ms = timeout_ms, .max = max};
    troupe_ref ref = troupe_call_from((trp_queue_actor){queue.address}, trp_queue_get, &request);
    troupe_status status = await_given(ref, queue, timeout_ms);
    trp_arena *before = trp_arena_swap(&arena); // The packed values are ours alone.
    if (status == TROUPE_OK)
        do // It is out of the queue already, so it must not be left.
            status = troupe_get(trp_queue_given, ref, &given);
        while (status == TROUPE_TIMED_OUT);
    (void)trp_arena_swap(before);
    if (status == TROUPE_OK)
        status = explain(given.status, type, "the queue had no value in time");
    for (size_t i = 0; status == TROUPE_OK && i < given.values.count; i++)
        status = troupe_unpack_as(type, given.values.items[i].data, given.values.items[i].size,
                                  (unsigned char *)values + i * type->size);
    if (count != NULL)
        *count = status == TROUPE_OK ? given.values.count : 0;
    trp_arena_clear(&arena);
    return status;
}

troupe_status troupe_queue_close(troupe_queue queue)
{
    troupe_none none;
    return troupe_get(troupe_none, troupe_call((trp_queue_actor){queue.address}, trp_queue_shut),
                      &none);
}

troupe_status(troupe_queue_state_get)(troupe_queue queue, troupe_queue_state *state, size_t size)
{
    TRP_REQUIRE(state);
    trp_queue_looks looks;
    TROUPE_TRY(troupe_get(trp_queue_looks,
                          troupe_call((trp_queue_actor){queue.address}, trp_queue_look), &looks));
    troupe_queue_state now = {.count = looks.count,
                              .bytes = looks.bytes,
                              .capacity = looks.capacity,
                              .getters = looks.getters,
                              .putters = looks.putters,
                              .closed = looks.closed};
    trp_output_give(state, size, &now, sizeof now);
    return TROUPE_OK;
}
