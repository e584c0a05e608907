// then.c: values of references that an actor has sent to its own methods.
//
// Once the reference is ready a message that holds it goes to the actor, and is given its arguments
// on the way out of the mailbox: into the memory of the call, on the thread that runs it.
#include <actors/async/then.h>

#include <actors/actor/actor.h>
#include <actors/async/async.h>
#include <actors/class/call_error.h>
#include <actors/ref/ref.h>
#include <actors/ref/ref_visit.h>
#include <runtime/base/arena.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <string.h>
#include <troupe/async.h>

typedef struct continuation {
    uint64_t actor;
    trp_message *message; // Waits to be sent.
} continuation;

// Sends the message to its actor, if that is still there.
static void proceed(void *user, troupe_ref ref)
{
    continuation *it = user;
    (void)ref; // The message has it.
    trp_actor *actor = trp_actor_find(it->actor);
    if (actor != NULL) {
        trp_actor_deliver(actor, it->actor, it->message);
    } else {
        trp_message_free(it->message);
    }
    trp_free(it);
}

static troupe_status check_type(troupe_ref ref, const trp_method *method)
{
    char label[64];
    uint64_t expected = troupe_type_hash(method->row->args);
    if (ref.schema == 0 || ref.schema == expected)
        return TROUPE_OK;
    return troupe_fail(TROUPE_WRONG_TYPE, "%s takes a value of type '%s', the reference is to %s",
                       method->row->name, method->row->args->name,
                       trp_type_label(ref.schema, label));
}

troupe_status troupe_then_as(troupe_ref ref, const troupe_class *class_, size_t method,
                             const troupe_then_options *how)
{
    const trp_method *found;
    troupe_then_options taken;
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_then", taken, how));
    TROUPE_TRY(trp_async_method(trp_run_current(), class_, method, &found));
    TROUPE_TRY(check_type(ref, found));
    troupe_ref kept;
    TROUPE_TRY(trp_ref_keep(ref, &kept));
    continuation *it = trp_alloc(sizeof *it);
    trp_message *message = trp_message_create(TRP_MESSAGE_CONTINUATION, 0);
    if (message != NULL)
        message->extra = trp_alloc(sizeof *message->extra);
    if (it == NULL || message == NULL || message->extra == NULL) {
        troupe_ref_drop(kept);
        trp_message_free(message);
        trp_free(it);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a continuation");
    }
    troupe_ref_drop(ref);
    message->method = found;
    *message->extra = (trp_extra){.serial = taken.tag, .ref = kept};
    *it = (continuation){.actor = trp_actor_id(trp_run_actor()), .message = message};
    trp_ref_when(kept, proceed, it);
    return TROUPE_OK;
}

troupe_status trp_continuation_fill(trp_message *message)
{
    const trp_shape *shape = &message->method->args;
    trp_extra *extra = message->extra;
    message->args = trp_arena_alloc(&message->arena, shape->type->size);
    if (message->args == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for arguments");
    trp_arena *before = trp_arena_swap(&message->arena);
    troupe_status status = troupe_get_as(shape->type, extra->ref, message->args, TROUPE_POLL);
    (void)trp_arena_swap(before);
    if (status == TROUPE_TIMED_OUT) // A stopped process moves it; the method is told.
        troupe_ref_drop(extra->ref);
    extra->ref = (troupe_ref){0};
    extra->filled = status == TROUPE_OK && shape->refs;
    if (status == TROUPE_OK)
        return TROUPE_OK;
    memset(message->args, 0, shape->type->size);
    extra->failure = trp_arena_alloc(&message->arena, sizeof *extra->failure);
    if (extra->failure == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a failure");
    *extra->failure = *troupe_last_error();
    if (status == TROUPE_TIMED_OUT)
        extra->failure->status = TROUPE_DEADLINE_EXCEEDED;
    return TROUPE_OK;
}

void trp_extra_free(trp_message *message)
{
    trp_extra *extra = message->extra;
    if (extra->filled) // What the method has kept it holds itself.
        trp_refs_drop(&message->method->args, message->args);
    if (extra->ref.id != 0)
        troupe_ref_drop(extra->ref);
    trp_free(extra);
}

static const trp_extra *current_extra(void)
{
    const trp_running *here = trp_run_current();
    return here != NULL && here->message != NULL && here->message->kind == TRP_MESSAGE_CONTINUATION
               ? here->message->extra
               : NULL;
}

troupe_status troupe_continuation_status(void)
{
    const trp_extra *extra = current_extra();
    return extra != NULL && extra->failure != NULL ? trp_error_set(extra->failure) : TROUPE_OK;
}

uint64_t troupe_continuation_tag(void)
{
    const trp_extra *extra = current_extra();
    return extra != NULL ? extra->serial : 0;
}
