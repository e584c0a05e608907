// message.c: see message.h; the answers are in reply.c.
#include <actors/actor/message.h>

#include <actors/actor/async_hooks.h>
#include <actors/actor/backpressure.h>
#include <actors/ref/call_table.h>
#include <actors/ref/object.h>
#include <actors/ref/ref_visit.h>
#include <runtime/base/attributes.h>
#include <runtime/base/clock.h>
#include <runtime/codec/type.h>
#include <runtime/codec/unpack.h>
#include <runtime/shm/process_table.h>
#include <string.h>

TRP_COLD trp_message *no_memory(size_t size)
{
    (void)troupe_fail(TROUPE_NO_MEMORY, "no memory for a message of %zu bytes", size);
    return NULL;
}

// The content of the bytes behind it is undefined.
TRP_HOT trp_message *take(trp_message_kind kind, size_t size)
{
    size_t cell = sizeof(trp_message) + size;
    trp_message *message = cell <= UINT32_MAX ? trp_pool_take(cell) : NULL;
    if (message == NULL)
        return no_memory(size);
    *message = (trp_message){.kind = (uint16_t)kind, .lane = TRP_LANE_NONE, .cell = (uint32_t)cell};
    return message;
}

trp_message *trp_message_create(trp_message_kind kind, size_t size)
{
    trp_message *message = take(kind, size);
    if (message != NULL && size > 0)
        message->args = message->small;
    return message;
}

// The sizes of one number have no need of a call.
TRP_HOT void copy_flat(void *to, const void *from, size_t size)
{
    if (size == sizeof(uint64_t))
        memcpy(to, from, sizeof(uint64_t));
    else if (size == sizeof(uint32_t))
        memcpy(to, from, sizeof(uint32_t));
    else
        memcpy(to, from, size);
}

trp_message *trp_message_plain(const trp_method *method, const void *args, uint64_t target)
{
    size_t size = method->args.type->size, cell = sizeof(trp_message) + size;
    trp_message *message =
        size <= trp_process_options()->message_bytes_max ? trp_pool_take(cell) : NULL;
    if (message == NULL)
        return NULL;
    *message = (trp_message){.kind = TRP_MESSAGE_CALL,
                             .lane = TRP_LANE_NONE,
                             .cell = (uint32_t)cell,
                             .plain = true,
                             .target = target,
                             .method = method,
                             .weight = size,
                             .args = message->small};
    copy_flat(message->args, args, size);
    return message;
}

static size_t rounded(size_t size)
{
    return (size + 15) & ~(size_t)15;
}

// A flat value with references: the holds that came with it are from now on those of the aliases
// that the references are made into.
static troupe_status take_held(trp_message *message, const trp_frame *frame, const trp_shape *args)
{
    trp_listed listed;
    if (args == NULL || !args->held || !trp_body_listed(frame, args->type->size, &listed)) {
        trp_body_refuse(frame, 0);
        return troupe_fail(TROUPE_MALFORMED, "arguments of %zu bytes came as a value with a list",
                           frame->body_size);
    }
    message->args = message->small;
    memcpy(message->args, frame->body, args->type->size);
    return trp_refs_adopt(args, message->args, &listed, &message->borrowed);
}

static troupe_status take_body(trp_message *message, const trp_frame *frame, const trp_shape *args,
                               void *memory)
{
    size_t args_size = args != NULL ? args->type->size : 0;
    if ((frame->flags & TRP_FRAME_UNHELD) != 0)
        return trp_body_unheld();
    if ((frame->flags & TRP_FRAME_OBJECT) != 0) {
        message->remote->object = true;
        return trp_frame_object(frame, &message->remote->body.object);
    }
    if ((frame->flags & TRP_FRAME_HELD) != 0)
        return take_held(message, frame, args);
    if ((frame->flags & TRP_FRAME_IMAGE) == 0)
        return trp_body_take(&message->remote->body, frame, memory);
    if (args_size == 0 || !args->image || frame->body_size != args_size) // Else it has pointers.
        return troupe_fail(TROUPE_MALFORMED, "arguments of %zu bytes came as an image of %zu",
                           args_size, frame->body_size);
    message->args = message->small;
    memcpy(message->args, frame->body, args_size);
    return TROUPE_OK;
}

troupe_status trp_message_receive(trp_message_kind kind, const trp_frame *frame,
                                  const trp_shape *args, trp_message **message)
{
    // Behind the message: the arguments (read there when it is run), the remote part, the body.
    size_t args_size = args != NULL ? args->type->size : 0, remote_at = rounded(args_size);
    size_t body_at = remote_at + sizeof(trp_remote);
    bool image = (frame->flags & (TRP_FRAME_IMAGE | TRP_FRAME_HELD)) != 0;
    size_t body_size = image ? 0 : frame->body_size;
    trp_message *made = take(kind, body_at + body_size);
    if (made == NULL) {
        trp_body_refuse(frame, 0);
        return TROUPE_NO_MEMORY;
    }
    made->remote = (trp_remote *)(made->small + remote_at);
    *made->remote = (trp_remote){.process = frame->from,
                                 .incarnation = frame->from_incarnation,
                                 .named = (frame->flags & TRP_FRAME_NAMED) != 0};
    troupe_status status = take_body(made, frame, args, made->small + body_at);
    if (status != TROUPE_OK) {
        trp_message_free(made);
        return status;
    }
    made->call = frame->call;
    made->window = (uint16_t)(frame->flags >> TRP_FRAME_WINDOW_SHIFT & TRP_FRAME_WINDOW_MAX);
    made->remote->room = args_size > 0;
    // What is in the store is bounded there.
    made->weight =
        (frame->flags & (TRP_FRAME_STORED | TRP_FRAME_OBJECT)) != 0 ? 0 : frame->body_size;
    if (frame->deadline_ms != 0)
        made->deadline_ns = trp_clock_ns() + (int64_t)frame->deadline_ms * 1000000;
    *message = made;
    return TROUPE_OK;
}

troupe_status trp_message_asked(const trp_frame *frame, trp_message **message)
{
    trp_frame question = *frame;
    question.flags = 0;
    question.body = NULL;
    question.body_size = 0;
    return trp_message_receive(TRP_MESSAGE_FINISH, &question, NULL, message);
}

TRP_APART troupe_status make_room(trp_message *message, const trp_shape *shape)
{
    if (message->args == NULL && message->remote != NULL && message->remote->room)
        message->args = message->small;
    if (message->args == NULL)
        message->args = trp_arena_alloc(&message->arena, shape->type->size);
    return message->args != NULL ? TROUPE_OK
                                 : troupe_fail(TROUPE_NO_MEMORY, "no memory for arguments");
}

troupe_status trp_message_copy_args(trp_message *message, const trp_shape *shape, const void *args)
{
    if (message->args == NULL)
        TROUPE_TRY(make_room(message, shape));
    if (shape->flat)
        copy_flat(message->args, args, shape->type->size);
    else
        TROUPE_TRY(trp_value_copy(shape->type, args, &message->arena, message->args));
    if (shape->refs)
        return trp_refs_borrow(shape, message->args, &message->borrowed);
    return TROUPE_OK;
}

// Arguments that lie in the store become memory of the message's own where AddressSanitizer is to
// see who uses them after its end: in the store they stay readable.
static troupe_status own_args(trp_message *message, const trp_shape *shape)
{
    if (!trp_memory_watched() || message->remote->body.object == 0)
        return TROUPE_OK;
    void *own = trp_arena_alloc(&message->arena, shape->type->size);
    if (own == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for arguments");
    TROUPE_TRY(trp_value_copy(shape->type, message->args, &message->arena, own));
    message->args = own;
    return TROUPE_OK;
}

// The holds that came with the references in it are from now on those of the aliases.
static troupe_status unpack_body(trp_message *message, const trp_shape *shape)
{
    trp_body *body = &message->remote->body;
    TROUPE_TRY(trp_body_lend_args(body, shape, &message->arena, message->args));
    TROUPE_TRY(own_args(message, shape));
    if (!shape->refs)
        return TROUPE_OK;
    body->kept = true;
    return trp_refs_take_over(shape, message->args, &message->borrowed);
}

troupe_status trp_message_unpack_args(trp_message *message, const trp_shape *shape,
                                      const troupe_bytes *packed)
{
    TROUPE_TRY(make_room(message, shape));
    if (packed == NULL && message->remote->object) {
        TROUPE_TRY(trp_object_lend_args(message->remote->body.object, shape, &message->arena,
                                        message->args, &message->args));
        message->remote->body.pinned = true;
        TROUPE_TRY(own_args(message, shape));
    } else if (packed == NULL) {
        return unpack_body(message, shape);
    } else {
        trp_reader in = trp_reader_of(packed->data, packed->size);
        TROUPE_TRY(trp_unpack(shape->type, &in, &message->arena, message->args));
        TROUPE_TRY(trp_read_end(&in));
    }
    if (shape->refs)
        return trp_refs_borrow(shape, message->args, &message->borrowed);
    return TROUPE_OK;
}

void trp_message_left(trp_message *message)
{
    trp_remote *remote = message->remote;
    if (remote != NULL)
        trp_share_return(&remote->share, remote->process, remote->incarnation);
}

TRP_APART void free_parts(trp_message *message)
{
    if (message->extra != NULL)
        trp_async_here.extra_free(message);
    if (message->remote != NULL) {
        trp_message_left(message);
        trp_body_drop(&message->remote->body);
    }
    if (message->borrowed != 0)
        trp_refs_return(message->borrowed);
    trp_arena_clear(&message->arena);
}

void trp_message_free(trp_message *message)
{
    if (message == NULL)
        return;
    if (message->extra != NULL || message->remote != NULL || message->borrowed != 0 ||
        message->arena.blocks != NULL)
        free_parts(message);
    trp_pool_give(message, message->cell);
}
