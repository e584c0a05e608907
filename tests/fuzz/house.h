// house.h: what the fuzz target of the actors' handlers and the program that records frames for it
// share: a class with one method of each kind, and how a frame is written in a corpus file.
#ifndef TROUPE_TEST_HOUSE_H
#define TROUPE_TEST_HOUSE_H

#include <actors/actor/restart_in_place.h>
#include <pthread.h>
#include <runtime/link/frame.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>

static inline void require(bool condition)
{
    if (!condition)
        abort();
}

// ---- the class

TROUPE_STRUCT(note, (int, number), (troupe_text, text), (troupe_array_double, numbers),
              (troupe_ref, ref));
TROUPE_STRUCT(plot, (float, x), (float, y));
TROUPE_STRUCT(guest_image, (int, value), (troupe_text, text), (troupe_ref, ref));

typedef struct guest {
    _Atomic int value; // guest_peek runs beside the others.
    troupe_deferred owed;
} guest;

// Those that have been made in this process, so that whoever cleans up finds them.
static struct {
    pthread_mutex_t lock;
    troupe_actor made[64];
    size_t count;
} house = {.lock = PTHREAD_MUTEX_INITIALIZER};

static troupe_status guest_init(guest *self, const note *first)
{
    pthread_mutex_lock(&house.lock);
    bool room = house.count < sizeof house.made / sizeof house.made[0];
    if (room)
        house.made[house.count++] = troupe_self();
    pthread_mutex_unlock(&house.lock);
    self->value = first->number;
    return room ? TROUPE_OK : troupe_fail(TROUPE_NO_SPACE, "the house is full");
}

static void guest_deinit(guest *self)
{
    if (self->owed.id_ != 0)
        (void)troupe_deferred_refuse(&self->owed, TROUPE_STOPPED, "the guest leaves");
}

static troupe_status guest_take(guest *self, const note *in, note *out)
{
    self->value += in->number % 1000;
    *out = *in;
    out->ref = in->ref.id != 0 ? troupe_ref_keep(in->ref) : (troupe_ref){0};
    return TROUPE_OK;
}

static troupe_status guest_walk(guest *self, const plot *by, plot *at)
{
    *at = (plot){by->x + (float)self->value, by->y};
    return TROUPE_OK;
}

// Answers with the next one.
static troupe_status guest_owe(guest *self, const int *number, int *out)
{
    (void)out;
    if (self->owed.id_ != 0)
        (void)troupe_deferred_fulfil(int, &self->owed, number);
    self->owed = troupe_defer();
    return self->owed.id_ != 0 ? TROUPE_OK : troupe_last_error()->status;
}

static troupe_status guest_list(guest *self, const int *count, note *out)
{
    (void)out;
    note next = {.text = "one of many"};
    for (int i = 0; i < *count; i++) {
        next.number = self->value + i;
        TROUPE_TRY(troupe_yield(note, &next));
    }
    return TROUPE_OK;
}

static troupe_status guest_peek(guest *self, const troupe_none *nothing, int *out)
{
    (void)nothing;
    *out = self->value;
    return TROUPE_OK;
}

static troupe_status guest_keep(guest *self, const troupe_none *nothing, int *out)
{
    (void)nothing;
    *out = self->value;
    return troupe_actor_save();
}

static troupe_status guest_watch(guest *self, const troupe_actor *other, int *out);
static troupe_status guest_raise(guest *self, const int *place, int *out);
static troupe_status guest_told(guest *self, const troupe_down *down, troupe_none *out)
{
    (void)out;
    self->value += down->reason;
    return TROUPE_OK;
}

TROUPE_ACTOR_INIT(guest, (guest_init, note), guest_deinit, (guest_take, note, note),
                  (guest_walk, plot, plot), (guest_owe, int, int),
                  (guest_list, int, note, .options = TROUPE_METHOD_STREAM),
                  (guest_peek, troupe_none, int, .options = TROUPE_METHOD_URGENT),
                  (guest_keep, troupe_none, int), (guest_watch, troupe_actor, int),
                  (guest_told, troupe_down, troupe_none), (guest_raise, int, int));

static troupe_status guest_watch(guest *self, const troupe_actor *other, int *out)
{
    guest_actor typed = {*other};
    *out = self->value;
    if (troupe_monitor_start(typed, guest_told) == 0)
        return troupe_last_error()->status;
    return troupe_actor_link(*other);
}

// Makes actors elsewhere, does with them what can be done, and leaves the rest to its own end.
static troupe_status guest_raise(guest *self, const int *place, int *out)
{
    note first = {.number = *place, .text = "a child"};
    guest_actor child =
        troupe_spawn_from(guest, &first, .place = (troupe_place)*place, .name = "child",
                          .restarts = 3, .counted = true, .lifetime = TROUPE_OWNED, .groups = NULL);
    guest_actor found;
    *out = self->value;
    TROUPE_TRY(troupe_actor_status(child.address));
    TROUPE_TRY(troupe_lookup(guest, "child", &found));
    TROUPE_TRY(troupe_actor_retain(found.address));
    TROUPE_TRY(troupe_actor_release(found.address));
    TROUPE_TRY(troupe_actor_link(child.address));
    TROUPE_TRY(troupe_actor_unlink(child.address));
    TROUPE_TRY(troupe_actor_restart(child));
    TROUPE_TRY(troupe_actor_await_end(child.address, 1, NULL) == TROUPE_TIMED_OUT ? TROUPE_OK
                                                                                  : TROUPE_BUSY);
    return troupe_actor_kill(child);
}

static troupe_status guest_save(guest *self, guest_image *image)
{
    *image = (guest_image){.value = self->value, .text = "a guest"};
    return TROUPE_OK;
}

static troupe_status guest_restore(guest *self, const guest_image *image)
{
    self->value = image->value;
    return TROUPE_OK;
}
TROUPE_STATE(guest, guest_image, guest_save, guest_restore);

// ---- frames in a file

enum { HOUSE_HEADER = 23, HOUSE_BODY_MAX = 512 };

// Addresses and numbers of calls mean something in one run only: the file says which one is meant.
enum { TARGET_GUEST, TARGET_LISTER, TARGET_NONE, TARGET_UNKNOWN, TARGETS };
enum { CALL_NONE, CALL_PENDING, CALL_STREAM, CALL_WATCH, CALL_OTHERS, CALLS };
enum { SCHEMA_AS_WRITTEN, SCHEMA_HERE, SCHEMA_THERE, SCHEMAS };
// A process of this node; one of another node; the one that the lister lives in.
enum { SENDER_NEAR, SENDER_FAR, SENDER_MAKER, SENDERS };

typedef struct house_frame {
    uint8_t kind, target, call, status, outcome, executed, schema_is, encoding, sender;
    uint32_t flags, method;
    uint64_t schema;
    uint16_t size;
    const uint8_t *body;
} house_frame;

static inline void house_write(const house_frame *from, uint8_t to[HOUSE_HEADER])
{
    to[0] = from->kind;
    to[1] = (uint8_t)(from->target | from->call << 4);
    memcpy(to + 2, &from->flags, 4);
    memcpy(to + 6, &from->method, 4);
    memcpy(to + 10, &from->schema, 8);
    to[18] = from->status;
    to[19] = (uint8_t)(from->outcome | from->executed << 4);
    to[20] = (uint8_t)(from->schema_is | from->encoding << 4 | from->sender << 6);
    memcpy(to + 21, &from->size, 2);
}

// Reads one of at least HOUSE_HEADER bytes; its body is what there is. Returns how many were used.
static inline size_t house_read(const uint8_t *data, size_t size, house_frame *to)
{
    *to = (house_frame){.kind = data[0],
                        .target = data[1] % 16 % TARGETS,
                        .call = data[1] / 16 % CALLS,
                        .status = data[18] % TROUPE_STATUS_COUNT,
                        .outcome = data[19] % 16 % (TROUPE_OUTCOME_CANCELLED + 1),
                        .executed = data[19] / 16 % (TROUPE_EXECUTED_YES + 1),
                        .schema_is = data[20] % 16 % SCHEMAS,
                        .encoding = data[20] / 16 % 4,
                        .sender = data[20] / 64 % SENDERS,
                        .body = data + HOUSE_HEADER};
    memcpy(&to->flags, data + 2, 4);
    memcpy(&to->method, data + 6, 4);
    memcpy(&to->schema, data + 10, 8);
    memcpy(&to->size, data + 21, 2);
    if (to->size > size - HOUSE_HEADER)
        to->size = (uint16_t)(size - HOUSE_HEADER);
    return HOUSE_HEADER + to->size;
}

#endif
