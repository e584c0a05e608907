// spawn_frame.c: what a SPAWN frame says: writing what concerns restarts, reading all of it, and
// making the actor that it asks for.
#include <actors/spawn/spawn_frame.h>

#include <actors/actor/actor.h>
#include <actors/actor/spawn_resources.h>
#include <actors/class/restart_budget.h>
#include <actors/spawn/spawn.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/shm/process_table.h>
#include <string.h>

static void write_address(troupe_actor address, trp_buffer *out)
{
    trp_write_array(out, TRP_SPAWN_ADDRESS_FIELDS);
    trp_write_uint(out, address.id);
    trp_write_uint(out, address.incarnation);
    trp_write_uint(out, address.process);
}

void trp_spawn_write_policy(const trp_spawn_policy *policy, trp_buffer *out)
{
    trp_write_array(out, policy->given ? TRP_SPAWN_POLICY_FIELDS : 0);
    if (!policy->given)
        return;
    trp_budget_write(&policy->budget, out);
    write_address(policy->origin, out);
    write_address(policy->owner, out);
    trp_write_uint(out, policy->save_every);
    trp_write_bytes(out, policy->image.data, policy->image.size);
}

static troupe_status read_text(trp_reader *in, char text[TRP_SPAWN_TEXT + 1], bool *present)
{
    const char *found;
    size_t size;
    TROUPE_TRY(trp_read_text(in, &found, &size));
    if (size > TRP_SPAWN_TEXT)
        return troupe_fail(TROUPE_MALFORMED, "a text in a request for an actor is too long");
    if (found != NULL)
        memcpy(text, found, size);
    text[size] = '\0';
    *present = found != NULL;
    return TROUPE_OK;
}

static troupe_status bad_policy(void)
{
    return troupe_fail(TROUPE_MALFORMED, "a restart policy is malformed");
}

static troupe_status read_address(trp_reader *in, troupe_actor *address)
{
    uint32_t count;
    uint64_t process;
    *address = (troupe_actor){0};
    TROUPE_TRY(trp_read_array(in, &count));
    TROUPE_TRY(trp_read_uint(in, &address->id));
    TROUPE_TRY(trp_read_uint(in, &address->incarnation));
    TROUPE_TRY(trp_read_uint(in, &process));
    if (count != TRP_SPAWN_ADDRESS_FIELDS || process >= TRP_PROCESSES_MAX)
        return bad_policy();
    address->process = (uint32_t)process;
    return TROUPE_OK;
}

static troupe_status read_policy(trp_reader *in, trp_spawn_policy *policy)
{
    uint32_t count;
    uint64_t every;
    TROUPE_TRY(trp_read_array(in, &count));
    policy->given = count != 0;
    if (count == 0)
        return TROUPE_OK;
    TROUPE_TRY(trp_budget_read(in, &policy->budget));
    TROUPE_TRY(read_address(in, &policy->origin));
    TROUPE_TRY(read_address(in, &policy->owner));
    TROUPE_TRY(trp_read_uint(in, &every));
    TROUPE_TRY(trp_read_bytes(in, &policy->image.data, &policy->image.size));
    policy->save_every = (uint32_t)every;
    return count == TRP_SPAWN_POLICY_FIELDS && every <= UINT32_MAX ? TROUPE_OK : bad_policy();
}

troupe_status trp_spawn_read(trp_reader *in, trp_spawn_request *wanted)
{
    uint32_t count;
    uint64_t mailbox_max;
    TROUPE_TRY(trp_read_array(in, &count));
    TROUPE_TRY(read_text(in, wanted->class_name, &wanted->classed));
    TROUPE_TRY(trp_read_uint(in, &wanted->hash));
    TROUPE_TRY(read_text(in, wanted->name, &wanted->named));
    TROUPE_TRY(trp_read_uint(in, &mailbox_max));
    TROUPE_TRY(trp_read_bool(in, &wanted->isolated));
    TROUPE_TRY(trp_read_uint(in, &wanted->claim));
    TROUPE_TRY(read_text(in, wanted->lanes, &wanted->has_lanes));
    TROUPE_TRY(read_policy(in, &wanted->policy));
    if (count != TRP_SPAWN_FIELDS || !wanted->classed || mailbox_max > UINT32_MAX)
        return troupe_fail(TROUPE_MALFORMED, "a request for an actor is malformed");
    wanted->mailbox_max = (uint32_t)mailbox_max;
    return TROUPE_OK;
}

// ---- what is kept

bool trp_spawn_options_copy(troupe_spawn_options *how)
{
    const char **texts[] = {&how->name, &how->resources, &how->env, &how->folder, &how->groups};
    bool copied = true;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (*texts[i] != NULL)
            copied = (*texts[i] = trp_strdup(*texts[i])) != NULL && copied;
    return copied;
}

void trp_spawn_options_free(troupe_spawn_options *how)
{
    const char *texts[] = {how->name, how->resources, how->env, how->folder, how->groups};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        trp_free((void *)texts[i]);
}

// ---- serving

// The policy of a new actor; what it keeps of the arguments lies at the request's end.
static troupe_status serve_policy(trp_actor *actor, const trp_spawn_policy *policy,
                                  const trp_body *body)
{
    trp_policy_order made = {.budget = policy->budget,
                             .origin = policy->origin,
                             .owner = policy->owner,
                             .every = policy->save_every};
    troupe_status status =
        trp_kept_take(body->data + body->holds_at, body->size - body->holds_at, false, &made.args);
    if (status != TROUPE_OK) {
        trp_kept_refuse(policy->image.data, policy->image.size);
        return status;
    }
    if (policy->image.size > 0)
        status = trp_kept_take(policy->image.data, policy->image.size, true, &made.image);
    if (status == TROUPE_OK)
        return trp_spawn_policy_set(actor, &made);
    trp_kept_drop(&made.args);
    return status;
}

// The actor that is asked for. NULL with the last error set.
static trp_actor *serve_actor(const trp_spawn_request *wanted)
{
    const char *name = wanted->named ? wanted->name : NULL;
    const trp_class *class_ = trp_class_named(wanted->class_name, wanted->hash);
    if (class_ == NULL)
        return NULL;
    if (wanted->isolated)
        trp_process_label(name != NULL ? name : wanted->class_name);
    return trp_spawn_make(class_, name, wanted->mailbox_max, wanted->isolated,
                          wanted->has_lanes ? wanted->lanes : NULL);
}

troupe_status trp_spawn_serve(trp_message *message)
{
    trp_body *body = &message->remote->body;
    trp_reader in = trp_reader_of(body->data, body->size);
    trp_spawn_request wanted;
    trp_spawn_policy *policy = &wanted.policy;
    body->holds_at = body->size; // Until it is known where they are.
    TROUPE_TRY(trp_spawn_read(&in, &wanted));
    body->holds_at = (size_t)(in.at - body->data);
    trp_actor *actor = serve_actor(&wanted);
    if (actor == NULL) {
        troupe_error failure = *troupe_last_error();
        if (policy->given)
            trp_kept_refuse(policy->image.data, policy->image.size);
        return trp_error_set(&failure);
    }
    trp_need_hold(actor, wanted.claim);
    trp_actor_enter(actor);
    if (policy->given && serve_policy(actor, policy, body) != TROUPE_OK)
        (void)trp_actor_close(actor, trp_actor_id(actor), TRP_ACTOR_FAILED, troupe_last_error());
    trp_actor_deliver(actor, trp_actor_id(actor), message);
    trp_actor_wake(actor);
    return TROUPE_OK;
}
