// spawn.c: see spawn.h.
//
// An actor of this process is made and initialised on the calling thread. Elsewhere it is asked for
// by a SPAWN frame, whose body is: [class, class hash, name, mailbox_max, isolated, claim,
// concurrency], then the init arguments as in a call; the reply is the address. An address of id 0
// has the number of a ticket in place of the incarnation: the failure is kept under it, in the
// process where it was found.
#include <actors/spawn.h>

#include <actors/actor.h>
#include <actors/beside.h>
#include <actors/count.h>
#include <actors/failure.h>
#include <actors/need.h>
#include <actors/ref_table.h>
#include <actors/restart.h>
#include <actors/run.h>
#include <runtime/error.h>
#include <runtime/memory.h>
#include <runtime/node.h>
#include <runtime/process.h>
#include <string.h>

enum { TICKETS = 1024, STATUS_BITS = 8, FIELDS = 8, POLICY_FIELDS = 5, TEXT_MAX = 128 };

static struct {
    pthread_mutex_t lock;
    uint64_t last;
    troupe_error *failures[TICKETS]; // The last ones, by number % TICKETS.
} tickets = {.lock = PTHREAD_MUTEX_INITIALIZER};

// What is to be made.
typedef struct order {
    const trp_class *class_; // NULL: by name,
    const char *class_name;
    const void *args;           // with typed arguments, NULL: zeros,
    const troupe_bytes *packed; // or packed ones.
    troupe_spawn_options how;
    char lanes[TRP_LANES_TEXT]; // Its concurrency; "": one at a time.
    trp_need need;              // What the node has given for it.
    const trp_budget *budget;   // NULL: it is not restarted. Else `packed` is set.
    troupe_actor origin;        // The address that it is known by; of id 0: its own.
} order;

// ---- tickets

troupe_actor trp_spawn_failed(troupe_status status)
{
    troupe_error failure = *troupe_last_error();
    if (failure.status != status)
        failure = trp_failure(status, TROUPE_OUTCOME_NONE, TROUPE_EXECUTED_NO, "%s",
                              troupe_strerror(status));
    failure.outcome = TROUPE_OUTCOME_NOT_EXECUTED;
    failure.executed = TROUPE_EXECUTED_NO;
    pthread_mutex_lock(&tickets.lock);
    uint64_t ticket = ++tickets.last;
    troupe_error **place = &tickets.failures[ticket % TICKETS];
    if (*place == NULL)
        *place = trp_alloc(sizeof **place);
    if (*place != NULL)
        **place = failure;
    pthread_mutex_unlock(&tickets.lock);
    return (troupe_actor){.incarnation = ticket << STATUS_BITS | (uint64_t)status,
                          .process = trp_home_here.process};
}

troupe_status trp_spawn_failure(troupe_actor actor)
{
    uint64_t ticket = actor.incarnation >> STATUS_BITS;
    uint64_t status = actor.incarnation & ((1u << STATUS_BITS) - 1);
    if (ticket == 0 || status == TROUPE_OK || status >= TROUPE_STATUS_COUNT)
        return troupe_fail(TROUPE_INVALID, "the address is empty: it is of no actor");
    troupe_error failure =
        trp_failure((troupe_status)status, TROUPE_OUTCOME_NOT_EXECUTED, TROUPE_EXECUTED_NO,
                    "the actor could not be started: %s", troupe_strerror((troupe_status)status));
    pthread_mutex_lock(&tickets.lock);
    const troupe_error *kept = tickets.failures[ticket % TICKETS];
    if (actor.process == trp_home_here.process && kept != NULL && ticket <= tickets.last &&
        tickets.last - ticket < TICKETS && kept->status == (troupe_status)status)
        failure = *kept;
    pthread_mutex_unlock(&tickets.lock);
    return trp_error_set(&failure);
}

void trp_spawn_forget(void)
{
    pthread_mutex_lock(&tickets.lock);
    for (int i = 0; i < TICKETS; i++) {
        trp_free(tickets.failures[i]);
        tickets.failures[i] = NULL;
    }
    pthread_mutex_unlock(&tickets.lock);
}

troupe_status troupe_actor_status(troupe_actor actor)
{
    return actor.id != 0 ? TROUPE_OK : trp_spawn_failure(actor);
}

// ---- here

static troupe_status fill_args(const order *what, trp_message *message)
{
    const trp_shape *shape = &what->class_->init;
    if (what->packed != NULL)
        return trp_message_unpack_args(message, shape, what->packed);
    if (what->args != NULL)
        return trp_message_copy_args(message, shape, what->args);
    message->args = trp_arena_alloc(&message->arena, shape->type->size);
    return message->args != NULL ? TROUPE_OK
                                 : troupe_fail(TROUPE_NO_MEMORY, "no memory for arguments");
}

// A new actor, in a state to be entered. NULL with the last error set.
static trp_actor *make_actor(const trp_class *class_, const char *name, uint32_t mailbox_max,
                             bool isolated, const char *lanes_text)
{
    trp_lanes *lanes = NULL;
    if (lanes_text != NULL && (lanes = trp_lanes_make(class_, lanes_text)) == NULL)
        return NULL;
    trp_actor *actor = trp_actor_create(class_, name, mailbox_max, isolated);
    if (actor != NULL && trp_lanes_attach(actor, lanes))
        return actor;
    trp_lanes_free(lanes);
    if (actor != NULL)
        trp_actor_discard(actor);
    (void)troupe_fail(TROUPE_NO_MEMORY, "no memory for an actor of class '%s'", class_->row->name);
    return NULL;
}

static troupe_status start_here(trp_actor *actor, trp_message *message)
{
    troupe_error failure;
    if (trp_actor_name(actor, &failure) && trp_run_init(actor, message, &failure))
        return TROUPE_OK;
    trp_actor_unname(actor);
    (void)trp_actor_close(actor, trp_actor_id(actor), TRP_ACTOR_FAILED, &failure);
    return trp_error_set(&failure);
}

static troupe_status set_policy(trp_actor *actor, const trp_budget *budget, troupe_actor origin,
                                const troupe_bytes *args)
{
    return budget != NULL ? trp_policy_set(actor, budget, origin, args) : TROUPE_OK;
}

static troupe_status spawn_here(const order *what, troupe_actor *address)
{
    trp_message *message = trp_message_create(TRP_MESSAGE_INIT, 0);
    if (message == NULL)
        return TROUPE_NO_MEMORY;
    troupe_status status = fill_args(what, message);
    trp_actor *actor = NULL;
    if (status == TROUPE_OK) {
        // An isolated one comes here only if there is one process for all (TROUPE_LOCAL).
        actor = make_actor(what->class_, what->how.name, what->how.mailbox_max,
                           what->how.place == TROUPE_PLACE_ISOLATED,
                           what->lanes[0] != '\0' ? what->lanes : NULL);
        status = actor == NULL ? troupe_failed_(troupe_last_error()->status) : TROUPE_OK;
    }
    if (actor != NULL) {
        trp_need_hold(actor, what->need.claim);
        *address = trp_actor_address(actor);
        trp_actor_enter(actor);
        status = set_policy(actor, what->budget, what->origin, what->packed);
        if (status == TROUPE_OK)
            status = start_here(actor, message);
        else
            (void)trp_actor_close(actor, trp_actor_id(actor), TRP_ACTOR_FAILED,
                                  troupe_last_error());
        trp_actor_wake(actor); // If it failed, for its last turn.
    }
    trp_message_free(message);
    return status;
}

// ---- elsewhere

static void write_policy(const order *what, trp_buffer *out)
{
    trp_write_array(out, what->budget != NULL ? POLICY_FIELDS : 0);
    if (what->budget == NULL)
        return;
    trp_budget_write(what->budget, out);
    trp_write_uint(out, what->origin.id);
    trp_write_uint(out, what->origin.incarnation);
    trp_write_uint(out, what->origin.process);
    trp_write_bytes(out, what->packed->data, what->packed->size);
}

static troupe_status pack_order(const order *what, bool isolated, trp_parcel *parcel)
{
    trp_buffer *out = &parcel->bytes;
    trp_write_array(out, FIELDS);
    trp_write_text(out, what->class_name);
    trp_write_uint(out, what->class_ != NULL ? what->class_->hash : 0);
    trp_write_text(out, what->how.name);
    trp_write_uint(out, what->how.mailbox_max);
    trp_write_bool(out, isolated);
    trp_write_uint(out, what->need.claim);
    trp_write_text(out, what->lanes[0] != '\0' ? what->lanes : NULL);
    write_policy(what, out);
    if (what->packed != NULL) {
        trp_parcel_append(parcel, what->packed->data, what->packed->size);
        return TROUPE_OK;
    }
    const trp_shape *shape = &what->class_->init;
    trp_arena arena = {0};
    const void *args = what->args != NULL ? what->args : trp_arena_alloc(&arena, shape->type->size);
    troupe_status status = args == NULL ? troupe_fail(TROUPE_NO_MEMORY, "no memory for arguments")
                                        : trp_parcel_pack(parcel, shape, args);
    trp_arena_clear(&arena);
    return status;
}

static troupe_status spawn_elsewhere(const order *what, uint32_t process, uint64_t incarnation,
                                     bool isolated, troupe_actor *address)
{
    trp_parcel parcel = {.process = process};
    trp_target target = {
        .process = process, .incarnation = incarnation, .class_name = what->class_name};
    uint64_t call = trp_entry_call(trp_type_note(&troupe_type_troupe_actor), &target, 0);
    trp_frame frame = {.kind = TRP_FRAME_SPAWN, .call = call};
    troupe_ref ref = {.id = call};
    if (call == TRP_REF_NO_MEMORY)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a call");
    troupe_status status = pack_order(what, isolated, &parcel);
    if (status == TROUPE_OK)
        status = trp_parcel_send(&parcel, incarnation, &frame, 0);
    trp_parcel_drop(&parcel);
    if (status != TROUPE_OK) {
        troupe_drop(ref);
        return status;
    }
    status = troupe_get(troupe_actor, ref, address);
    if (status != TROUPE_OK && isolated) {
        troupe_error failure = *troupe_last_error(); // The process was made for this actor alone.
        (void)trp_node_kill(process, incarnation, "was ended: its actor could not be started");
        (void)trp_error_set(&failure);
    }
    return status;
}

// ---- the choice

static troupe_status spawn_in_worker(order *what, bool isolated, bool *here, troupe_actor *address)
{
    uint32_t process;
    uint64_t incarnation;
    TROUPE_TRY(trp_scheduler_block());
    troupe_status status =
        isolated ? trp_node_worker_with(what->need.env, what->how.folder, &process, &incarnation)
                 : trp_node_worker(false, &process, &incarnation);
    if (status == TROUPE_OK && what->need.claim != 0)
        status = trp_node_claim_give(what->need.claim, process, incarnation);
    trp_scheduler_unblock();
    TROUPE_TRY(status);
    *here = incarnation == trp_home_here.incarnation;
    return *here ? TROUPE_OK : spawn_elsewhere(what, process, incarnation, isolated, address);
}

static troupe_status spawn_at(order *what, troupe_place place, troupe_actor *address)
{
    bool here = true;
    if (place != TROUPE_PLACE_HERE)
        TROUPE_TRY(spawn_in_worker(what, place == TROUPE_PLACE_ISOLATED, &here, address));
    if (!here)
        return TROUPE_OK;
    if (what->class_ == NULL && (what->class_ = trp_class_named(what->class_name, 0)) == NULL)
        return troupe_last_error()->status;
    return spawn_here(what, address);
}

static troupe_status choose(order *what, troupe_actor *address)
{
    troupe_place place = what->how.place;
    if ((unsigned)place > TROUPE_PLACE_ISOLATED)
        return troupe_fail(TROUPE_INVALID, "%d is no place for an actor", (int)place);
    TROUPE_TRY(trp_need_place(&what->how, &place));
    if (place == TROUPE_PLACE_ANY && trp_process_options()->workers < 0)
        place = TROUPE_PLACE_HERE;
    TROUPE_TRY(trp_need_get(&what->how, what->class_name, &what->need));
    troupe_status status = spawn_at(what, place, address);
    trp_need_done(&what->need, status);
    return status;
}

// What the new actor's life depends on. It ends again if that fails.
static troupe_status bind(const order *what, troupe_actor address)
{
    troupe_status status = TROUPE_OK;
    if (what->how.lifetime == TROUPE_OWNED)
        status = trp_link_owned(address);
    if (status == TROUPE_OK && what->how.counted)
        status = trp_count_begin(address);
    if (status == TROUPE_OK)
        return TROUPE_OK;
    troupe_error failure = *troupe_last_error();
    (void)troupe_kill_actor(address);
    return trp_error_set(&failure);
}

// Spawns, and tells the registrar if a worker has the actor now.
static troupe_status make(order *what, troupe_actor *address)
{
    TROUPE_TRY(choose(what, address));
    TROUPE_TRY(bind(what, *address));
    if (what->budget == NULL || address->process == TRP_PROCESS_DRIVER)
        return TROUPE_OK;
    trp_adoption adoption = {.address = *address,
                             .class_name = what->class_name,
                             .how = what->how,
                             .budget = *what->budget,
                             .args = *what->packed};
    return trp_registrar_adopt(&adoption);
}

// The directory decides who has a name: whoever comes second there finds the first.
static troupe_status get_or_choose(order *what, troupe_actor *address)
{
    enum { ATTEMPTS = 100 }; // So often may the one that was found end meanwhile.
    troupe_status status = TROUPE_EXISTS;
    if (what->how.name == NULL)
        return troupe_fail(TROUPE_INVALID, ".get_if_exists was asked for without a .name");
    const troupe_class *row = what->class_ != NULL ? what->class_->row : NULL;
    for (int i = 0; i < ATTEMPTS && status == TROUPE_EXISTS; i++) {
        status = troupe_lookup_class(row, what->how.name, address);
        if (status != TROUPE_NOT_FOUND)
            return status;
        *address = (troupe_actor){0};
        status = make(what, address);
    }
    return status;
}

static troupe_status place(order *what, troupe_actor *address)
{
    return what->how.get_if_exists ? get_or_choose(what, address) : make(what, address);
}

// With a restart policy, the init arguments are packed, so that they can be kept.
static troupe_status place_restarted(order *what, troupe_actor *address)
{
    trp_budget budget;
    trp_buffer packed = {0};
    trp_arena arena = {0};
    TROUPE_TRY(trp_budget_of(&what->how, &budget));
    if (what->how.lifetime != TROUPE_DETACHED || what->how.counted)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "an actor with .restarts can have neither .lifetime nor .counted");
    troupe_bytes bytes = what->packed != NULL ? *what->packed : (troupe_bytes){0};
    troupe_status status = TROUPE_OK;
    if (what->packed == NULL) {
        const trp_shape *shape = &what->class_->init;
        const void *args =
            what->args != NULL ? what->args : trp_arena_alloc(&arena, shape->type->size);
        status = shape->refs    ? troupe_fail(TROUPE_UNSUPPORTED,
                                              "an actor with .restarts cannot have init arguments "
                                                 "that hold references, as those of class '%s' can",
                                              what->class_name)
                 : args == NULL ? troupe_fail(TROUPE_NO_MEMORY, "no memory for arguments")
                                : trp_pack(shape->type, args, &packed);
        bytes = (troupe_bytes){packed.data, packed.size};
    }
    what->packed = &bytes;
    what->budget = &budget;
    if (status == TROUPE_OK)
        status = place(what, address);
    trp_buffer_free(&packed);
    trp_arena_clear(&arena);
    return status;
}

troupe_status trp_spawn_again(const trp_adoption *what, troupe_actor origin, troupe_actor *address)
{
    order again = {.class_name = what->class_name,
                   .packed = &what->args,
                   .how = what->how,
                   .budget = &what->budget,
                   .origin = origin};
    if (again.how.place == TROUPE_PLACE_HERE) // That was in the worker.
        again.how.place = TROUPE_PLACE_WORKER;
    return choose(&again, address);
}

static troupe_actor spawn(order *what, const troupe_spawn_options *how)
{
    troupe_actor address = {0};
    trp_options_take(&what->how, sizeof what->how, how, how != NULL ? how->size : 0);
    troupe_status status = trp_process_check();
    if (status == TROUPE_OK)
        status = trp_lanes_text(&what->how, what->lanes);
    if (status == TROUPE_OK && what->lanes[0] != '\0' && what->how.restarts != 0)
        status =
            troupe_fail(TROUPE_UNSUPPORTED, "an actor with .concurrency or .groups cannot have "
                                            ".restarts: what runs in it would lose its state");
    if (status == TROUPE_OK)
        status = what->how.restarts != 0 ? place_restarted(what, &address) : place(what, &address);
    return status == TROUPE_OK ? address : trp_spawn_failed(status);
}

troupe_actor troupe_spawn_class(const troupe_class *class_, const void *init_args,
                                const troupe_spawn_options *how)
{
    order what = {.class_ = trp_class_of(class_), .args = init_args};
    if (what.class_ == NULL)
        return trp_spawn_failed(troupe_last_error()->status);
    what.class_name = class_->name;
    return spawn(&what, how);
}

troupe_actor troupe_spawn_named(const char *class_name, troupe_bytes init_args,
                                const troupe_spawn_options *how)
{
    order what = {.class_name = class_name, .packed = &init_args};
    if (class_name == NULL || strnlen(class_name, TEXT_MAX) == TEXT_MAX)
        return trp_spawn_failed(troupe_fail(TROUPE_INVALID, "the name of a class is missing or too "
                                                            "long"));
    return spawn(&what, how);
}

// ---- for others

static troupe_status read_text(trp_reader *in, char text[TEXT_MAX + 1], bool *present)
{
    const char *found;
    size_t size;
    TROUPE_TRY(trp_read_text(in, &found, &size));
    if (size > TEXT_MAX)
        return troupe_fail(TROUPE_MALFORMED, "a text in a request for an actor is too long");
    if (found != NULL)
        memcpy(text, found, size);
    text[size] = '\0';
    *present = found != NULL;
    return TROUPE_OK;
}

// What a request says about restarts.
typedef struct policy {
    bool given;
    trp_budget budget;
    troupe_actor origin;
    troupe_bytes args;
} policy_order;

static troupe_status read_policy(trp_reader *in, policy_order *policy)
{
    uint32_t count;
    uint64_t process;
    TROUPE_TRY(trp_read_array(in, &count));
    policy->given = count != 0;
    if (count == 0)
        return TROUPE_OK;
    policy->origin = (troupe_actor){0};
    TROUPE_TRY(trp_budget_read(in, &policy->budget));
    TROUPE_TRY(trp_read_uint(in, &policy->origin.id));
    TROUPE_TRY(trp_read_uint(in, &policy->origin.incarnation));
    TROUPE_TRY(trp_read_uint(in, &process));
    TROUPE_TRY(trp_read_bytes(in, &policy->args.data, &policy->args.size));
    policy->origin.process = (uint32_t)process;
    return count == POLICY_FIELDS && process < TRP_PROCESSES_MAX
               ? TROUPE_OK
               : troupe_fail(TROUPE_MALFORMED, "a restart policy is malformed");
}

troupe_status trp_spawn_serve(trp_message *message)
{
    trp_body *body = &message->remote->body;
    trp_reader in = trp_reader_of(body->data, body->size);
    char class_name[TEXT_MAX + 1], name[TEXT_MAX + 1], lanes[TEXT_MAX + 1];
    bool classed, named, isolated, has_lanes;
    uint32_t count;
    uint64_t hash, mailbox_max, claim;
    policy_order policy;
    body->holds_at = body->size; // Until it is known where they are.
    TROUPE_TRY(trp_read_array(&in, &count));
    TROUPE_TRY(read_text(&in, class_name, &classed));
    TROUPE_TRY(trp_read_uint(&in, &hash));
    TROUPE_TRY(read_text(&in, name, &named));
    TROUPE_TRY(trp_read_uint(&in, &mailbox_max));
    TROUPE_TRY(trp_read_bool(&in, &isolated));
    TROUPE_TRY(trp_read_uint(&in, &claim));
    TROUPE_TRY(read_text(&in, lanes, &has_lanes));
    TROUPE_TRY(read_policy(&in, &policy));
    if (count != FIELDS || !classed || mailbox_max > UINT32_MAX)
        return troupe_fail(TROUPE_MALFORMED, "a request for an actor is malformed");
    body->holds_at = (size_t)(in.at - body->data);
    const trp_class *class_ = trp_class_named(class_name, hash);
    if (class_ == NULL)
        return troupe_last_error()->status;
    if (isolated)
        trp_process_label(named ? name : class_name);
    trp_actor *actor = make_actor(class_, named ? name : NULL, (uint32_t)mailbox_max, isolated,
                                  has_lanes ? lanes : NULL);
    if (actor == NULL)
        return troupe_failed_(troupe_last_error()->status);
    trp_need_hold(actor, claim);
    trp_actor_enter(actor);
    if (set_policy(actor, policy.given ? &policy.budget : NULL, policy.origin, &policy.args) !=
        TROUPE_OK)
        (void)trp_actor_close(actor, trp_actor_id(actor), TRP_ACTOR_FAILED, troupe_last_error());
    trp_actor_deliver(actor, trp_actor_id(actor), message);
    trp_actor_wake(actor);
    return TROUPE_OK;
}
