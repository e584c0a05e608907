// body.c: see ref/body.h.
#include <actors/ref/body.h>

#include <actors/ref/call_table.h>
#include <actors/ref/object.h>
#include <actors/ref/promised_object.h>
#include <runtime/base/cell_pool.h>
#include <runtime/base/memory.h>
#include <runtime/codec/pack.h>
#include <runtime/codec/type.h>
#include <runtime/codec/unpack.h>
#include <runtime/link/peer.h>
#include <runtime/remote/cluster.h>
#include <runtime/shm/process_table.h>
#include <runtime/shm/segment_guard.h>
#include <runtime/store/eviction.h>
#include <runtime/store/inspect.h>
#include <runtime/store/read.h>
#include <string.h>

// ---- sending

enum { LISTED_MAX = 4096 }; // Bytes of a value; with its list it is far from INLINE_MAX.

static void let_go(trp_parcel *parcel)
{
    if (parcel->held == NULL)
        return;
    for (uint32_t i = 0; i < parcel->held_count; i++)
        trp_store_release(parcel->held[i], trp_process_slot());
    if (parcel->held != parcel->few)
        trp_free(parcel->held);
    parcel->held = NULL;
    parcel->held_count = parcel->held_room = 0;
}

// Makes room for one more.
static bool reserve_held(trp_parcel *parcel)
{
    if (parcel->held == NULL) {
        parcel->held = parcel->few;
        parcel->held_room = sizeof parcel->few / sizeof parcel->few[0];
    }
    if (parcel->held_count < parcel->held_room)
        return true;
    trp_object *more = trp_alloc(2 * (size_t)parcel->held_room * sizeof *more);
    if (more == NULL)
        return false;
    memcpy(more, parcel->held, parcel->held_count * sizeof *more);
    if (parcel->held != parcel->few)
        trp_free(parcel->held);
    parcel->held = more;
    parcel->held_room *= 2;
    return true;
}

typedef struct exporting {
    trp_parcel *parcel;
    troupe_status status;
} exporting;

static void export_ref(troupe_ref *ref, void *user)
{
    exporting *work = user;
    trp_parcel *parcel = work->parcel;
    if (work->status == TROUPE_OK && trp_process_is_far(parcel->process))
        work->status = troupe_fail(TROUPE_UNSUPPORTED,
                                   "references cannot be sent to another node: get the value and "
                                   "send that");
    if (work->status != TROUPE_OK)
        return;
    if (!reserve_held(parcel)) {
        work->status = troupe_fail(TROUPE_NO_MEMORY, "no memory for references in a message");
        return;
    }
    work->status = trp_ref_export(ref);
    if (work->status == TROUPE_OK)
        parcel->held[parcel->held_count++] = ref->id;
}

static void name_node(troupe_actor *actor, void *user)
{
    if (actor->node == 0 && actor->id != 0)
        actor->node = *(const uint32_t *)user;
}

static void unname_node(troupe_actor *actor, void *user)
{
    if (actor->node == *(const uint32_t *)user)
        actor->node = 0;
}

// A copy of a value whose references and addresses mean something to the receiver.
static troupe_status export_value(trp_parcel *parcel, const trp_shape *shape, const void *value,
                                  trp_arena *arena, const void **exported)
{
    void *copy = trp_arena_alloc(arena, shape->type->size);
    if (copy == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a message");
    TROUPE_TRY(trp_value_copy(shape->type, value, arena, copy));
    exporting work = {.parcel = parcel};
    trp_value_refs(shape->type, copy, export_ref, &work);
    uint32_t own = trp_process_node_id();
    if (trp_process_is_far(parcel->process))
        trp_value_actors(shape->type, copy, name_node, &own);
    *exported = copy;
    return work.status;
}

// A flat value with references as its memory, and the list of what they name behind it.
static troupe_status list(trp_parcel *parcel, const trp_shape *shape, const void *value)
{
    static const unsigned char zeros[sizeof(trp_object)] = {0};
    size_t size = shape->type->size;
    exporting work = {.parcel = parcel};
    trp_buffer *bytes = &parcel->bytes;
    trp_buffer_append(bytes, value, size);
    if (!bytes->failed)
        trp_value_refs(shape->type, bytes->data, export_ref, &work);
    uint64_t count = parcel->held_count;
    trp_buffer_append(bytes, zeros, (sizeof zeros - size % sizeof zeros) % sizeof zeros);
    trp_buffer_append(bytes, parcel->held, count * sizeof *parcel->held);
    trp_buffer_append(bytes, &count, sizeof count);
    parcel->lists = true;
    return work.status == TROUPE_OK && bytes->failed
               ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a message")
               : work.status;
}

// A value that would not fit in a frame, as an object.
static troupe_status make_object(trp_parcel *parcel, const trp_shape *shape, const void *value,
                                 size_t weight)
{
    size_t limit = trp_process_options()->message_bytes_max;
    if (weight > limit)
        return troupe_fail(TROUPE_TOO_LARGE,
                           "a message of %zu bytes is above the limit of %zu (message_bytes_max)",
                           weight, limit);
    return trp_object_put(shape, value, &parcel->object);
}

troupe_status trp_parcel_pack(trp_parcel *parcel, const trp_shape *shape, const void *value)
{
    bool far = trp_process_is_far(parcel->process);
    bool alone = parcel->bytes.size == 0 && !parcel->plain && !shape->refs && !far;
    if (alone && shape->image && shape->type->size <= TRP_FRAME_INLINE_MAX) {
        parcel->image = value;
        parcel->image_size = shape->type->size;
        return TROUPE_OK;
    }
    if (parcel->listed && shape->held && parcel->bytes.size == 0 && !far &&
        shape->type->size <= LISTED_MAX) {
        troupe_status listed = list(parcel, shape, value);
        if (listed != TROUPE_OK)
            let_go(parcel);
        return listed;
    }
    size_t weight = alone ? trp_value_weight(shape->type, value) : 0;
    if (weight > TRP_FRAME_INLINE_MAX)
        return make_object(parcel, shape, value, weight);
    trp_arena arena = {0};
    const void *packed = value;
    troupe_status status = shape->refs || (far && !shape->image)
                               ? export_value(parcel, shape, value, &arena, &packed)
                               : TROUPE_OK;
    trp_write_uint(&parcel->bytes, parcel->held_count);
    for (uint32_t i = 0; i < parcel->held_count; i++)
        trp_write_uint(&parcel->bytes, parcel->held[i]);
    if (status == TROUPE_OK)
        status = trp_pack(shape->type, packed, &parcel->bytes);
    if (status == TROUPE_OK && parcel->bytes.failed)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for a message");
    trp_arena_clear(&arena);
    if (status != TROUPE_OK)
        let_go(parcel);
    return status;
}

void trp_parcel_append(trp_parcel *parcel, const void *packed, size_t size)
{
    trp_write_uint(&parcel->bytes, 0);
    trp_buffer_append(&parcel->bytes, packed, size);
}

// Puts the bytes in an object.
static troupe_status store(const trp_parcel *parcel, trp_object *object)
{
    void *data;
    TRP_USE_SEGMENT(trp_use_refused());
    TROUPE_TRY(trp_room_create(parcel->bytes.size, 0, TRP_ENCODING_PARCEL, object, &data));
    memcpy(data, parcel->bytes.data, parcel->bytes.size);
    troupe_status status = trp_store_seal(*object);
    if (status != TROUPE_OK)
        trp_store_release(*object, trp_process_slot());
    return status;
}

// Sends a frame whose body is the id of an object that the receiver holds from then on.
static troupe_status send_object(trp_parcel *parcel, trp_frame *frame, trp_object object,
                                 int timeout_ms)
{
    if (!reserve_held(parcel))
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a message");
    parcel->held[parcel->held_count] = object; // Beside those, for the receiver alone.
    frame->held = parcel->held;
    frame->held_count = parcel->held_count + 1;
    bool answer = frame->kind == TRP_FRAME_REPLY || frame->kind == TRP_FRAME_ITEM;
    trp_store_kind(object, answer ? TRP_KIND_RESULT : TRP_KIND_ARGUMENT);
    trp_buffer body = {0};
    trp_write_uint(&body, object);
    frame->body = body.data;
    frame->body_size = body.size;
    troupe_status status =
        body.failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a message")
                    : trp_process_send(parcel->process, parcel->incarnation, frame, timeout_ms);
    trp_buffer_free(&body);
    return status;
}

static troupe_status send_stored(trp_parcel *parcel, trp_frame *frame, int timeout_ms)
{
    trp_object object = 0;
    TROUPE_TRY(store(parcel, &object));
    frame->flags |= TRP_FRAME_STORED;
    troupe_status status = send_object(parcel, frame, object, timeout_ms);
    trp_store_release(object, trp_process_slot());
    return status;
}

static troupe_status send_image(const trp_parcel *parcel, trp_frame *frame, int timeout_ms)
{
    frame->flags |= TRP_FRAME_IMAGE;
    frame->body = parcel->image;
    frame->body_size = parcel->image_size;
    return trp_process_send(parcel->process, parcel->incarnation, frame, timeout_ms);
}

troupe_status trp_parcel_send(trp_parcel *parcel, trp_frame *frame, int timeout_ms)
{
    frame->held = parcel->held;
    frame->held_count = parcel->held_count;
    if (parcel->image != NULL)
        return send_image(parcel, frame, timeout_ms);
    if (parcel->object != 0) {
        frame->flags |= TRP_FRAME_OBJECT;
        return send_object(parcel, frame, parcel->object, timeout_ms);
    }
    if (parcel->bytes.failed)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a message");
    TROUPE_TRY(trp_process_fits(parcel->process, parcel->bytes.size));
    if (parcel->bytes.size > TRP_FRAME_INLINE_MAX && !trp_process_is_far(parcel->process))
        return send_stored(parcel, frame, timeout_ms);
    if (parcel->lists)
        frame->flags |= TRP_FRAME_HELD;
    frame->body = parcel->bytes.data;
    frame->body_size = parcel->bytes.size;
    return trp_process_send(parcel->process, parcel->incarnation, frame, timeout_ms);
}

void trp_parcel_drop(trp_parcel *parcel)
{
    if (parcel->held == NULL && parcel->object == 0 && parcel->bytes.data == NULL)
        return; // An image, as most are.
    let_go(parcel);
    if (parcel->object != 0)
        trp_store_release(parcel->object, trp_process_slot());
    parcel->object = 0;
    trp_buffer_free(&parcel->bytes);
}

// ---- receiving

troupe_status trp_frame_object(const trp_frame *frame, trp_object *object)
{
    trp_reader in = trp_reader_of(frame->body, frame->body_size);
    uint64_t named;
    *object = 0;
    TROUPE_TRY(trp_read_uint(&in, &named));
    if (trp_process_is_far(frame->from) || trp_store_look(named).state != TRP_OBJECT_SEALED)
        return troupe_fail(TROUPE_MALFORMED, "a message names an object that is not there");
    *object = named;
    return TROUPE_OK;
}

static troupe_status find_object(const trp_frame *frame, trp_body *body)
{
    TROUPE_TRY(trp_frame_object(frame, &body->object));
    trp_object_info info = trp_store_pin(body->object);
    body->pinned = info.state == TRP_OBJECT_SEALED;
    body->data = info.data;
    body->size = info.size;
    return body->pinned ? TROUPE_OK : trp_object_failure(&info);
}

troupe_status trp_body_take(trp_body *body, const trp_frame *frame, void *memory)
{
    *body = (trp_body){.far = trp_process_is_far(frame->from)};
    if ((frame->flags & TRP_FRAME_STORED) != 0)
        return find_object(frame, body);
    if (memory == NULL)
        memory = body->bytes = trp_pool_take(frame->body_size + 1);
    if (memory == NULL) {
        trp_body_refuse(frame, 0);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a message of %zu bytes",
                           frame->body_size);
    }
    if (frame->body_size > 0)
        memcpy(memory, frame->body, frame->body_size);
    body->data = memory;
    body->size = frame->body_size;
    return TROUPE_OK;
}

// Reads the ids of what is held; `each` (may be NULL) is called for every one.
static troupe_status read_holds(trp_reader *in, void (*each)(trp_object object, void *user),
                                void *user)
{
    uint64_t count, object;
    TROUPE_TRY(trp_read_uint(in, &count));
    if (count > (size_t)(in->end - in->at))
        return troupe_fail(TROUPE_MALFORMED, "a message lists more references than it can have");
    for (uint64_t i = 0; i < count; i++) {
        TROUPE_TRY(trp_read_uint(in, &object));
        if (each != NULL)
            each(object, user);
    }
    return TROUPE_OK;
}

static trp_reader reader_at(const trp_body *body)
{
    size_t at = body->holds_at < body->size ? body->holds_at : body->size;
    return trp_reader_of(body->data + at, body->size - at);
}

troupe_status trp_body_open(const trp_body *body, trp_reader *value)
{
    *value = reader_at(body);
    TROUPE_TRY(read_holds(value, NULL, NULL));
    // Begun anew, so that a refusal counts bytes from where the value's sender did.
    *value = trp_reader_of(value->at, (size_t)(value->end - value->at));
    return TROUPE_OK;
}

void trp_body_each(const trp_body *body, void (*each)(trp_object object, void *user), void *user)
{
    trp_reader in = reader_at(body);
    (void)read_holds(&in, each, user);
}

typedef struct covering {
    trp_reader holds;
    uint64_t left;
    bool all;
} covering;

// The holds were listed by the same walk over the value, so they are in the same order.
static void check_ref(troupe_ref *ref, void *user)
{
    covering *work = user;
    uint64_t object;
    if (work->left == 0 || trp_read_uint(&work->holds, &object) != TROUPE_OK || object != ref->id)
        work->all = false;
    else
        work->left--;
}

static troupe_status unpack(const trp_body *body, const trp_shape *shape, trp_arena *arena,
                            void *value, bool lent)
{
    trp_reader in;
    TRP_USE_SEGMENT_IF_OPEN(used);
    if (body->pinned && !used)
        return trp_use_refused();
    TROUPE_TRY(trp_body_open(body, &in));
    TROUPE_TRY(lent ? trp_unpack_lent(shape->type, &in, arena, value)
                    : trp_unpack(shape->type, &in, arena, value));
    TROUPE_TRY(trp_read_end(&in));
    if (body->far && !shape->image) { // An address that has come home is as it was here.
        uint32_t own = trp_process_node_id();
        trp_value_actors(shape->type, value, unname_node, &own);
    }
    if (!shape->refs)
        return TROUPE_OK;
    covering work = {.holds = reader_at(body), .all = true};
    TROUPE_TRY(trp_read_uint(&work.holds, &work.left));
    trp_value_refs(shape->type, value, check_ref, &work);
    if (!work.all)
        return troupe_fail(TROUPE_MALFORMED, "a reference came without a hold of its object");
    return work.left == 0
               ? TROUPE_OK
               : troupe_fail(TROUPE_MALFORMED, "a hold came without a reference to its object");
}

troupe_status trp_body_unpack(const trp_body *body, const trp_shape *shape, trp_arena *arena,
                              void *value)
{
    return unpack(body, shape, arena, value, false);
}

troupe_status trp_body_lend_args(const trp_body *body, const trp_shape *shape, trp_arena *arena,
                                 void *args)
{
    return unpack(body, shape, arena, args, body->object != 0);
}

static void release(trp_object object, void *user)
{
    (void)user;
    trp_store_release(object, trp_process_slot());
}

void trp_body_drop(trp_body *body)
{
    if (body->data == NULL && body->object == 0 && body->bytes == NULL)
        return; // It came as an image, as most do.
    TRP_USE_SEGMENT_IF_OPEN(used);
    bool readable = body->data != NULL && (used || !body->pinned);
    if (readable && !body->kept && !body->far) { // No hold comes from another node.
        trp_reader in = reader_at(body);
        (void)read_holds(&in, release, NULL);
    }
    if (body->pinned)
        trp_store_unpin(body->object);
    if (body->object != 0)
        trp_store_release(body->object, trp_process_slot());
    if (body->bytes != NULL)
        trp_pool_give(body->bytes, body->size + 1);
    *body = (trp_body){0};
}

bool trp_body_far_good(const trp_frame *frame)
{
    trp_reader in = trp_reader_of(frame->body, frame->body_size);
    const char *name;
    size_t size;
    uint64_t holds = 1;
    if ((frame->flags & TRP_FRAME_NAMED) != 0 && trp_read_text(&in, &name, &size) != TROUPE_OK)
        return false;
    return trp_read_uint(&in, &holds) == TROUPE_OK && holds == 0;
}

bool trp_body_listed(const trp_frame *frame, size_t size, trp_listed *listed)
{
    uint64_t count;
    if (frame->body_size < sizeof count)
        return false;
    size_t room = frame->body_size - sizeof count;
    const unsigned char *end = (const unsigned char *)frame->body + room;
    memcpy(&count, end, sizeof count);
    if (count > room / sizeof(trp_object) || room - count * sizeof(trp_object) < size)
        return false;
    *listed = (trp_listed){.ids = end - count * sizeof(trp_object), .count = count};
    return true;
}

trp_object trp_listed_at(const trp_listed *listed, size_t number)
{
    trp_object object;
    memcpy(&object, listed->ids + number * sizeof object, sizeof object);
    return object;
}

void trp_listed_release(const trp_listed *listed, size_t first)
{
    for (size_t i = first; i < listed->count; i++)
        trp_store_release(trp_listed_at(listed, i), trp_process_slot());
}

static void refuse_listed(const trp_frame *frame)
{
    trp_listed listed;
    if (trp_body_listed(frame, 0, &listed))
        trp_listed_release(&listed, 0);
}

troupe_status trp_body_unheld(void)
{
    return troupe_fail(TROUPE_NO_MEMORY, "a process cannot count the references that it was sent: "
                                         "it holds one object too often, or has no memory");
}

void trp_body_refuse(const trp_frame *frame, size_t holds_at)
{
    trp_body body = {.data = frame->body, .size = frame->body_size, .holds_at = holds_at};
    trp_object object;
    if (frame->body_size == 0 || (frame->flags & (TRP_FRAME_IMAGE | TRP_FRAME_UNHELD)) != 0 ||
        trp_process_is_far(frame->from))
        return;
    if ((frame->flags & TRP_FRAME_HELD) != 0) {
        refuse_listed(frame);
        return;
    }
    if ((frame->flags & TRP_FRAME_OBJECT) != 0) {
        if (trp_frame_object(frame, &object) == TROUPE_OK)
            trp_store_release(object, trp_process_slot());
        return;
    }
    if ((frame->flags & TRP_FRAME_STORED) != 0 && find_object(frame, &body) != TROUPE_OK)
        return;
    trp_body_drop(&body);
}
