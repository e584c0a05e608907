// saved_state.c: see actor/saved_state.h. What is saved lies packed beside the actor's policy, for
// a restart in place, and with the registrar, which answers before the save is done: so what was
// saved outlives the process from then on.
#include <actors/actor/saved_state.h>

#include <actors/actor/death_record.h>
#include <actors/actor/invoke.h>
#include <actors/actor/registrar_client.h>
#include <actors/actor/restart_in_place.h>
#include <actors/ref/ref_visit.h>
#include <actors/ref/stored_value.h>
#include <errno.h>
#include <pthread.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/require.h>
#include <runtime/codec/unpack.h>
#include <runtime/node/options.h>
#include <runtime/shm/process_table.h>
#include <string.h>

// ---- the hooks, by the names of their classes

typedef struct row {
    const troupe_class *class_;
    const troupe_state *state;
    struct row *next;
} row;

// Rows are pushed on it and stay: a store releases one that is complete, for the readers' acquire.
static row *_Atomic rows;

const troupe_state *trp_state_of(const char *class_name)
{
    row *it = atomic_load_explicit(&rows, memory_order_acquire);
    while (it != NULL && strcmp(it->class_->name, class_name) != 0)
        it = it->next;
    return it != NULL ? it->state : NULL;
}

troupe_status troupe_state_register(const troupe_class *class_, const troupe_state *state)
{
    TRP_REQUIRE(class_);
    TRP_REQUIRE(state);
    if (state->save == NULL || state->restore == NULL)
        return troupe_fail(TROUPE_INVALID, "a hook of the state of class '%s' is NULL",
                           class_->name);
    if (state->abi != TROUPE_ABI)
        return troupe_fail(TROUPE_VERSION,
                           "state hooks of class '%s' were compiled for generation %u of Troupe, "
                           "this library is %u",
                           class_->name, state->abi, TROUPE_ABI);
    TROUPE_TRY(trp_type_check(state->image));
    if (trp_class_of(class_) == NULL)
        return troupe_failed_(troupe_last_error()->status);
    const troupe_state *known = trp_state_of(class_->name);
    if (known != NULL) // By another file of the program that includes the class's header.
        return troupe_type_hash(known->image) == troupe_type_hash(state->image)
                   ? TROUPE_OK
                   : troupe_fail(TROUPE_EXISTS, "class '%s' has other state hooks already",
                                 class_->name);
    row *fresh = trp_alloc(sizeof *fresh);
    if (fresh == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the state hooks of class '%s'",
                           class_->name);
    *fresh = (row){.class_ = class_, .state = state, .next = atomic_load(&rows)};
    while (!atomic_compare_exchange_weak(&rows, &fresh->next, fresh))
        continue;
    return TROUPE_OK;
}

// ---- saving

// Has the registrar keep an image, if the actor's own process can be lost. One that could not be
// sent to the next process with the init arguments would make every restart fail.
static troupe_status publish(const trp_policy *policy, const trp_kept *image)
{
    enum { REST = 8192 }; // What else says how an actor is made: names, lanes, the budget.
    size_t limit = trp_process_options()->message_bytes_max;
    if (trp_process_is_driver())
        return TROUPE_OK;
    if (limit < REST || image->size > limit - REST ||
        policy->args.size > limit - REST - image->size)
        return troupe_fail(TROUPE_TOO_LARGE,
                           "an image of %zu bytes and init arguments of %zu do not fit in one "
                           "message of %zu bytes (message_bytes_max, less %d)",
                           image->size, policy->args.size, limit, REST);
    return trp_registrar_save(policy->origin, image);
}

// Has the class write an image of the state. The image's memory is the arena's.
static troupe_status write_image(trp_actor *actor, const troupe_state *state, trp_kept *kept)
{
    trp_shape shape = trp_shape_of(state->image);
    void *image = troupe_arena_alloc(shape.type->size);
    if (image == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for an image of the state");
    troupe_status status = state->save(actor->self, image);
    if (status == TROUPE_OK)
        return trp_kept_pack(&shape, image, kept);
    return troupe_last_error()->status == status
               ? status
               : troupe_fail(status, "save of class '%s' failed", actor->class_->row->name);
}

// With the policy's lock of saving held.
static troupe_status save(trp_actor *actor, trp_policy *policy)
{
    trp_kept fresh = {0};
    TROUPE_TRY(write_image(actor, policy->state, &fresh));
    troupe_status status = actor->ready ? publish(policy, &fresh) : TROUPE_OK;
    trp_kept *place = actor->ready ? &policy->image : &policy->first;
    trp_kept *useless = status == TROUPE_OK ? place : &fresh, old = *useless;
    if (status == TROUPE_OK)
        *place = fresh;
    policy->since = 0;
    trp_kept_drop(&old);
    return status;
}

// By a thread that waits for an answer meanwhile, and for others who save the same actor.
static troupe_status save_alone(trp_actor *actor, trp_policy *policy)
{
    if (pthread_mutex_lock(&policy->saving) == EDEADLK)
        return troupe_fail(TROUPE_INVALID, "troupe_actor_save was called inside save");
    troupe_status status = save(actor, policy);
    pthread_mutex_unlock(&policy->saving);
    return status;
}

// The same where nobody is told of a failure: then the image before it is the last one.
static void save_quietly(trp_actor *actor, trp_policy *policy)
{
    troupe_error before;
    trp_error_hold(&before);
    if (save_alone(actor, policy) != TROUPE_OK)
        trp_log(TRP_WARN, "the state of actor %s could not be saved: %s",
                trp_actor_label(trp_actor_id(actor)).text, troupe_last_error()->text);
    trp_error_restore(&before);
}

void trp_state_ran(trp_actor *actor)
{
    trp_policy *policy = trp_policy_of(actor);
    // One that is to be restarted may have a state that nobody wants back.
    if (policy->every == 0 || ++policy->since < policy->every || trp_policy_wanted(actor))
        return;
    save_quietly(actor, policy);
}

void trp_state_leave(trp_actor *actor)
{
    trp_arena arena = {0}, *before = trp_arena_swap(&arena);
    save_quietly(actor, trp_policy_of(actor));
    (void)trp_arena_swap(before);
    trp_arena_clear(&arena);
}

troupe_status troupe_actor_save(void)
{
    trp_actor *self = trp_run_actor();
    if (self == NULL)
        return troupe_fail(TROUPE_INVALID, "troupe_actor_save was called outside methods");
    if (!self->saves)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "actor %s cannot save its state: it was spawned without .restarts, or "
                           "its class has no TROUPE_STATE",
                           trp_actor_label(trp_actor_id(self)).text);
    return save_alone(self, trp_policy_of(self));
}

// ---- restoring

static troupe_status restore(trp_actor *actor, const trp_policy *policy, trp_arena *arena)
{
    trp_shape shape = trp_shape_of(policy->state->image);
    void *image = trp_arena_alloc(arena, shape.type->size);
    if (image == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for an image of the state");
    troupe_bytes packed = trp_kept_value(&policy->image);
    uint64_t borrowed = 0;
    TROUPE_TRY(trp_unpack_whole(shape.type, packed.data, packed.size, arena, image));
    troupe_status status = shape.refs ? trp_refs_borrow(&shape, image, &borrowed) : TROUPE_OK;
    if (status == TROUPE_OK)
        status = policy->state->restore(actor->self, image);
    if (borrowed != 0)
        trp_refs_return(borrowed);
    return status;
}

void trp_state_begin(trp_actor *actor)
{
    trp_kept_drop(&trp_policy_of(actor)->first); // Of an init that failed.
}

troupe_status trp_state_begun(trp_actor *actor, trp_arena *arena)
{
    trp_policy *policy = trp_policy_of(actor);
    if (policy->image.data != NULL) {
        trp_kept_drop(&policy->first);
        return restore(actor, policy, arena);
    }
    if (policy->first.data == NULL)
        return TROUPE_OK; // Init alone.
    TROUPE_TRY(publish(policy, &policy->first));
    policy->image = policy->first;
    policy->first = (trp_kept){0};
    return TROUPE_OK;
}
