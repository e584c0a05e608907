// message.c: see message.h; the answers are in serve.c.
#include <actors/message.h>

#include <actors/ref_table.h>
#include <runtime/memory.h>
#include <runtime/process.h>
#include <string.h>

trp_message *trp_message_create(trp_message_kind kind, size_t size)
{
    trp_message *message = trp_alloc(sizeof *message + size);
    if (message == NULL) {
        (void)troupe_fail(TROUPE_NO_MEMORY, "no memory for a message");
        return NULL;
    }
    message->kind = kind;
    message->args = size > 0 ? message->small : NULL;
    return message;
}

static troupe_status make_room(trp_message *message, const trp_shape *shape)
{
    if (message->args == NULL)
        message->args = trp_arena_alloc(&message->arena, shape->type->size);
    return message->args != NULL ? TROUPE_OK
                                 : troupe_fail(TROUPE_NO_MEMORY, "no memory for arguments");
}

troupe_status trp_message_copy_args(trp_message *message, const trp_shape *shape, const void *args)
{
    TROUPE_TRY(make_room(message, shape));
    if (shape->flat)
        memcpy(message->args, args, shape->type->size);
    else
        TROUPE_TRY(trp_value_copy(shape->type, args, &message->arena, message->args));
    if (shape->refs)
        return trp_refs_borrow(shape, message->args, &message->borrowed);
    return TROUPE_OK;
}

troupe_status trp_message_unpack_args(trp_message *message, const trp_shape *shape,
                                      const troupe_bytes *packed)
{
    TROUPE_TRY(make_room(message, shape));
    if (packed == NULL) {
        TROUPE_TRY(trp_body_unpack(&message->body, shape, &message->arena, message->args));
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
    if (message->windowed)
        trp_process_credit(message->process, message->incarnation, message->credit);
    message->windowed = false;
}

void trp_message_free(trp_message *message)
{
    if (message == NULL)
        return;
    trp_message_left(message);
    trp_refs_return(message->borrowed);
    trp_body_drop(&message->body);
    trp_arena_clear(&message->arena);
    trp_free(message);
}
