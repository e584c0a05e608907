// spawn.c: see spawn.h.
//
// An actor of this process is made and initialised on the calling thread. Elsewhere it is asked for
// by a SPAWN frame, whose body is: [class, class hash, name, mailbox_max, isolated, claim,
// concurrency, restart policy], then the init arguments as in a call; the reply is the address.
//
// Each step elsewhere has a half that asks and a half that waits, so that many actors can be on
// their way at once: the process is asked for (`ask`) and waited for (`take`), then the actor is
// (`dispatch`, `receive`).
#include <actors/spawn/spawn.h>

#include <actors/actor/actor.h>
#include <actors/actor/actor_name.h>
#include <actors/actor/failed_spawn.h>
#include <actors/actor/invoke.h>
#include <actors/actor/registrar_client.h>
#include <actors/actor/restart_in_place.h>
#include <actors/actor/saved_state.h>
#include <actors/actor/spawn_resources.h>
#include <actors/async/concurrency_group.h>
#include <actors/class/call_error.h>
#include <actors/class/restart_budget.h>
#include <actors/ends/link.h>
#include <actors/ends/retain.h>
#include <actors/ref/call_table.h>
#include <actors/ref/ref.h>
#include <actors/sched/wait_notes.h>
#include <actors/spawn/spawn_frame.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <runtime/base/range.h>
#include <runtime/base/require.h>
#include <runtime/node/node_client.h>
#include <runtime/node/server_stop.h>
#include <runtime/shm/process_table.h>
#include <string.h>

// What is to be made.
typedef struct order {
    const trp_class *class_; // NULL: by name,
    const char *class_name;
    const void *args;           // with typed arguments, NULL: zeros,
    const troupe_bytes *packed; // or packed ones,
    const trp_kept *kept;       // or what is kept of them.
    troupe_spawn_options how;
    char lanes[TRP_LANES_TEXT]; // Its concurrency; "": one at a time.
    trp_need need;              // What the node has given for it.
    const trp_budget *budget;   // NULL: it is not restarted. Else `kept` is set.
    troupe_actor origin;        // The address that it is known by; of id 0: its own.
    troupe_actor owner;         // Of one that is restarted; of id 0: none.
    const trp_kept *image;      // Of one that is made again: its saved state; NULL: none.
    troupe_place place;         // Where it lives, once that is settled,
    trp_worker_ask worker;      // the process that was asked for,
    uint32_t process;           // that process,
    uint64_t incarnation, call; // and the call that makes it there; 0: it was made here.
    int64_t until_ns;           // When it is given up; 0: never.
} order;

// ---- here

static troupe_status fill_args(const order *what, trp_message *message)
{
    const trp_shape *shape = &what->class_->init;
    troupe_bytes kept = what->kept != NULL ? trp_kept_value(what->kept) : (troupe_bytes){0};
    if (what->kept != NULL || what->packed != NULL)
        return trp_message_unpack_args(message, shape, what->kept != NULL ? &kept : what->packed);
    if (what->args != NULL)
        return trp_message_copy_args(message, shape, what->args);
    message->args = trp_arena_alloc(&message->arena, shape->type->size);
    return message->args != NULL ? TROUPE_OK
                                 : troupe_fail(TROUPE_NO_MEMORY, "no memory for arguments");
}

trp_actor *trp_spawn_make(const trp_class *class_, const char *name, uint32_t mailbox_max,
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

troupe_status trp_spawn_policy_set(trp_actor *actor, trp_policy_order *policy)
{
    TROUPE_TRY(trp_policy_set(actor, policy));
    return policy->owner.id != 0 ? trp_link_owner(trp_actor_id(actor), policy->owner) : TROUPE_OK;
}

// Gives a new actor its policy, with what it keeps of its own.
static troupe_status set_policy(trp_actor *actor, const order *what)
{
    if (what->budget == NULL)
        return TROUPE_OK;
    trp_policy_order policy = {.budget = *what->budget,
                               .origin = what->origin,
                               .owner = what->owner,
                               .every = what->how.save_every};
    TROUPE_TRY(trp_kept_take(what->kept->data, what->kept->size, false, &policy.args));
    if (what->image != NULL && what->image->data != NULL) {
        troupe_status status =
            trp_kept_take(what->image->data, what->image->size, false, &policy.image);
        if (status != TROUPE_OK) {
            trp_kept_drop(&policy.args);
            return status;
        }
    }
    return trp_spawn_policy_set(actor, &policy);
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
        actor = trp_spawn_make(what->class_, what->how.name, what->how.mailbox_max,
                               what->how.place == TROUPE_PLACE_ISOLATED,
                               what->lanes[0] != '\0' ? what->lanes : NULL);
        status = actor == NULL ? troupe_failed_(troupe_last_error()->status) : TROUPE_OK;
    }
    if (actor != NULL) {
        trp_need_hold(actor, what->need.claim);
        *address = trp_actor_address(actor);
        trp_actor_enter(actor);
        status = set_policy(actor, what);
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
    trp_spawn_policy policy = {.given = what->budget != NULL,
                               .origin = what->origin,
                               .owner = what->owner,
                               .save_every = what->how.save_every};
    if (policy.given)
        policy.budget = *what->budget;
    if (what->image != NULL)
        policy.image = (troupe_bytes){what->image->data, what->image->size};
    trp_spawn_write_policy(&policy, out);
}

// Arguments that are kept, and the state, with holds of what they refer to for the receiver.
static troupe_status append_kept(const order *what, trp_parcel *parcel)
{
    trp_buffer_append(&parcel->bytes, what->kept->data, what->kept->size);
    TROUPE_TRY(trp_kept_lend(what->kept, parcel));
    return what->image != NULL ? trp_kept_lend(what->image, parcel) : TROUPE_OK;
}

static troupe_status pack_order(const order *what, bool isolated, trp_parcel *parcel)
{
    trp_buffer *out = &parcel->bytes;
    trp_write_array(out, TRP_SPAWN_FIELDS);
    trp_write_text(out, what->class_name);
    trp_write_uint(out, what->class_ != NULL ? what->class_->hash : 0);
    trp_write_text(out, what->how.name);
    trp_write_uint(out, what->how.mailbox_max);
    trp_write_bool(out, isolated);
    trp_write_uint(out, what->need.claim);
    trp_write_text(out, what->lanes[0] != '\0' ? what->lanes : NULL);
    write_policy(what, out);
    if (what->kept != NULL)
        return append_kept(what, parcel);
    if (what->packed != NULL) {
        trp_parcel_append(parcel, what->packed->data, what->packed->size);
        return TROUPE_OK;
    }
    trp_assert(what->class_ != NULL); // Only who packs names a class without having it.
    const trp_shape *shape = &what->class_->init;
    trp_arena arena = {0};
    const void *args = what->args != NULL ? what->args : trp_arena_alloc(&arena, shape->type->size);
    troupe_status status = args == NULL ? troupe_fail(TROUPE_NO_MEMORY, "no memory for arguments")
                                        : trp_parcel_pack(parcel, shape, args);
    trp_arena_clear(&arena);
    return status;
}

static void end_process(const order *what)
{
    troupe_error failure = *troupe_last_error(); // The process was made for this actor alone.
    if (what->place == TROUPE_PLACE_ISOLATED)
        (void)trp_node_end(what->process, what->incarnation,
                           "was ended: its actor could not be started");
    (void)trp_error_set(&failure);
}

static troupe_status send_order(order *what)
{
    bool isolated = what->place == TROUPE_PLACE_ISOLATED;
    trp_parcel parcel = {.process = what->process, .incarnation = what->incarnation};
    trp_target target = {
        .process = what->process, .incarnation = what->incarnation, .class_name = what->class_name};
    uint64_t call = trp_entry_call(trp_type_note(&troupe_type_troupe_actor), &target, 0);
    trp_frame frame = {.kind = TRP_FRAME_SPAWN, .call = call};
    if (call == TRP_REF_NO_MEMORY)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a call");
    trp_wait_pin(call); // Also between the looks of its wait: whoever waits learns of a stop.
    troupe_status status = pack_order(what, isolated, &parcel);
    if (status == TROUPE_OK)
        status = trp_parcel_send(&parcel, &frame, 0);
    trp_parcel_drop(&parcel);
    if (status == TROUPE_OK) {
        what->call = call;
    } else {
        troupe_ref_drop((troupe_ref){.id = call});
        trp_wait_unpin(call);
    }
    return status;
}

// ---- the choice, and the halves of a spawn

// Where it is to live, and what it needs there.
static troupe_status settle(order *what)
{
    troupe_place place = what->how.place;
    TROUPE_TRY(trp_need_place(&what->how, &place));
    if (place == TROUPE_PLACE_ANY && trp_process_options()->workers < 0)
        place = TROUPE_PLACE_HERE;
    what->place = place;
    what->call = 0; // That of an earlier choice has been answered.
    return trp_need_get(&what->how, what->class_name, what->until_ns, &what->need);
}

// Asks for its process, if it gets a new one.
static troupe_status ask(order *what)
{
    return what->place == TROUPE_PLACE_ISOLATED
               ? trp_node_worker_begin(what->need.env, what->how.folder, &what->worker)
               : TROUPE_OK;
}

// Waits for its process, until then (0: as usual); the one that was asked for in any case.
static troupe_status take(order *what, int64_t until_ns)
{
    if (what->place == TROUPE_PLACE_HERE)
        return TROUPE_OK;
    // If too many methods wait already, this one keeps its thread, for as long as a process starts.
    trp_request_limit(until_ns);
    trp_wait_for(TRP_WAIT_NODE, 0, 0);
    bool blocked = trp_scheduler_block() == TROUPE_OK;
    troupe_status status =
        what->place == TROUPE_PLACE_ISOLATED
            ? trp_node_worker_end(&what->worker, &what->process, &what->incarnation)
            : trp_node_worker(false, &what->process, &what->incarnation);
    if (status == TROUPE_OK && what->need.claim != 0 &&
        (status = trp_node_claim_give(what->need.claim, what->process, what->incarnation)) !=
            TROUPE_OK)
        end_process(what);
    trp_request_limit(0);
    if (blocked)
        trp_scheduler_unblock();
    return status;
}

// Makes it, or has its process make it.
static troupe_status dispatch(order *what, troupe_actor *address)
{
    if (what->place != TROUPE_PLACE_HERE && what->incarnation != trp_home_here.incarnation) {
        troupe_status status = send_order(what);
        if (status != TROUPE_OK)
            end_process(what);
        return status;
    }
    if (what->class_ == NULL && (what->class_ = trp_class_named(what->class_name, 0)) == NULL)
        return troupe_last_error()->status;
    return spawn_here(what, address);
}

// Waits for its address, if it is made elsewhere.
static troupe_status receive(order *what, troupe_actor *address)
{
    if (what->call == 0)
        return TROUPE_OK;
    trp_spawn_wait wait = {.call = what->call,
                           .class_name = what->class_name,
                           .process = what->process,
                           .until_ns = what->until_ns};
    troupe_status status = trp_spawn_await(&wait, &what->need.claim);
    if (status == TROUPE_OK)
        status = troupe_get(troupe_actor, (troupe_ref){.id = what->call}, address);
    trp_wait_unpin(what->call);
    if (status != TROUPE_OK)
        end_process(what);
    return status;
}

static troupe_status choose(order *what, troupe_actor *address)
{
    TROUPE_TRY(settle(what));
    troupe_status status = ask(what);
    if (status == TROUPE_OK)
        status = take(what, what->until_ns);
    if (status == TROUPE_OK)
        status = dispatch(what, address);
    if (status == TROUPE_OK)
        status = receive(what, address);
    trp_need_done(&what->need, status);
    return status;
}

// Ends what was made in vain, and returns the last error.
static troupe_status take_back(troupe_actor address)
{
    troupe_error failure = *troupe_last_error();
    (void)troupe_actor_kill(address);
    return trp_error_set(&failure);
}

// What the new actor's life depends on. It ends again if that fails. One that is restarted has its
// owner with its policy.
static troupe_status bind(const order *what, troupe_actor address)
{
    troupe_status status = TROUPE_OK;
    if (what->how.lifetime == TROUPE_OWNED && what->budget == NULL)
        status = trp_link_owned(address);
    if (status == TROUPE_OK && what->how.counted)
        status = trp_count_begin(address, what->budget != NULL);
    return status == TROUPE_OK ? TROUPE_OK : take_back(address);
}

// Has the registrar know an actor that a worker has now.
static troupe_status adopt(const order *what, troupe_actor address)
{
    if (what->budget == NULL || address.process == TRP_PROCESS_DRIVER)
        return TROUPE_OK;
    trp_adoption adoption = {.address = address,
                             .owner = what->owner,
                             .class_name = what->class_name,
                             .how = what->how,
                             .budget = *what->budget};
    TROUPE_TRY(trp_kept_take(what->kept->data, what->kept->size, false, &adoption.args));
    return trp_registrar_adopt(&adoption);
}

// Spawns, and sees to its life.
static troupe_status make(order *what, troupe_actor *address)
{
    TROUPE_TRY(choose(what, address));
    if (adopt(what, *address) != TROUPE_OK)
        return take_back(*address);
    return bind(what, *address);
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
        trp_request_limit(what->until_ns);
        status = troupe_lookup_as(row, what->how.name, address);
        trp_request_limit(0);
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

static troupe_status keep_args(const order *what, trp_kept *kept)
{
    if (what->packed != NULL)
        return trp_kept_packed(what->packed, kept);
    trp_arena arena = {0};
    const trp_shape *shape = &what->class_->init;
    const void *args = what->args != NULL ? what->args : trp_arena_alloc(&arena, shape->type->size);
    troupe_status status = args == NULL ? troupe_fail(TROUPE_NO_MEMORY, "no memory for arguments")
                                        : trp_kept_pack(shape, args, kept);
    trp_arena_clear(&arena);
    return status;
}

// With a restart policy, the init arguments are packed, so that they can be kept.
static troupe_status place_restarted(order *what, troupe_actor *address)
{
    trp_budget budget;
    const trp_kept *given = what->kept;
    trp_kept kept = {0};
    TROUPE_TRY(trp_budget_of(&what->how, &budget));
    if (given == NULL)
        TROUPE_TRY(keep_args(what, &kept));
    const trp_actor *self = trp_run_actor();
    if (what->how.lifetime == TROUPE_OWNED && self != NULL)
        what->owner = trp_actor_address(self);
    what->kept = given != NULL ? given : &kept;
    what->budget = &budget;
    troupe_status status = place(what, address);
    what->kept = given;
    what->budget = NULL;
    trp_kept_drop(&kept);
    return status;
}

troupe_status trp_spawn_again(const trp_adoption *what, troupe_actor origin, troupe_actor *address)
{
    order again = {.class_name = what->class_name,
                   .kept = &what->args,
                   .image = &what->image,
                   .how = what->how,
                   .budget = &what->budget,
                   .origin = origin,
                   .owner = what->owner};
    if (again.how.place == TROUPE_PLACE_HERE) // That was in the worker.
        again.how.place = TROUPE_PLACE_WORKER;
    TROUPE_TRY(trp_lanes_text(&again.how, again.lanes));
    return choose(&again, address);
}

static troupe_status check_saving(const order *what)
{
    if (what->how.restarts == 0 || trp_state_of(what->class_name) == NULL)
        return troupe_fail(
            TROUPE_INVALID,
            ".save_every of an actor of class '%s' needs .restarts, and a class with "
            "TROUPE_STATE",
            what->class_name);
    return what->lanes[0] == '\0'
               ? TROUPE_OK
               : troupe_fail(
                     TROUPE_INVALID,
                     ".save_every of an actor of class '%s' cannot be combined with .concurrency "
                     "or .groups: only its methods know when nothing changes the state",
                     what->class_name);
}

static const trp_range ranges[] = {
    TRP_RANGE(troupe_spawn_options, place, TROUPE_PLACE_ANY, TROUPE_PLACE_ISOLATED),
    TRP_RANGE(troupe_spawn_options, lifetime, TROUPE_DETACHED, TROUPE_OWNED),
    TRP_RANGE(troupe_spawn_options, concurrency, 1, TRP_LANES_MAX),
    TRP_RANGE(troupe_spawn_options, backoff_max_ms, 1, TRP_PAUSE_MAX_MS),
    TRP_RANGE(troupe_spawn_options, backoff_reset_ms, 1, TRP_PAUSE_MAX_MS),
    TRP_RANGE(troupe_spawn_options, deadline_ms, 1, INT32_MAX),
};

static troupe_status prepare(order *what, const troupe_spawn_options *how)
{
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_spawn", what->how, how));
    TROUPE_TRY(trp_ranges_check("an actor", ranges, sizeof ranges / sizeof *ranges, &what->how));
    TROUPE_TRY(trp_process_check());
    TROUPE_TRY(trp_lanes_text(&what->how, what->lanes));
    if (what->how.deadline_ms != 0)
        what->until_ns = trp_clock_ns() + (int64_t)what->how.deadline_ms * 1000000;
    return what->how.save_every != 0 ? check_saving(what) : TROUPE_OK;
}

static troupe_actor spawn(order *what, const troupe_spawn_options *how)
{
    troupe_actor address = {0};
    troupe_status status = prepare(what, how);
    if (status == TROUPE_OK)
        status = what->how.restarts != 0 ? place_restarted(what, &address) : place(what, &address);
    return trp_error_settled(status) == TROUPE_OK ? address : trp_spawn_failed(status);
}

troupe_actor troupe_spawn_as(const troupe_class *class_, const void *init_args,
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
    if (TRP_IS_NULL(class_name))
        return trp_spawn_failed(TRP_NULL(class_name));
    if (init_args.size > 0 && TRP_IS_NULL(init_args.data))
        return trp_spawn_failed(trp_require_null(__func__, "init_args"));
    order what = {.class_name = class_name, .packed = &init_args};
    if (strnlen(class_name, TRP_SPAWN_TEXT) == TRP_SPAWN_TEXT)
        return trp_spawn_failed(troupe_fail(TROUPE_INVALID, "the name of a class is too long"));
    return spawn(&what, how);
}

troupe_actor trp_spawn_kept(const char *class_name, const trp_kept *args,
                            const troupe_spawn_options *how)
{
    order what = {.class_name = class_name, .kept = args};
    return spawn(&what, how);
}

// ---- many

// One of many, and how far it is: a failure ends its way.
typedef struct one {
    order order;
    troupe_status status;
} one;

// What a step has come to. A failure is kept under the address that stands for it.
static void note(one *it, troupe_actor *address, troupe_status status)
{
    it->status = status;
    if (status != TROUPE_OK)
        *address = trp_spawn_failed(status);
}

// All of them at once: each step is taken for all before the next one.
static void spawn_all(one *all, size_t count, troupe_actor *addresses)
{
    for (size_t i = 0; i < count; i++)
        note(&all[i], &addresses[i], settle(&all[i].order));
    for (size_t i = 0; i < count; i++)
        if (all[i].status == TROUPE_OK)
            note(&all[i], &addresses[i], ask(&all[i].order));
    int64_t late_ns = 0; // Who was asked has not answered until then: the others have waited, too.
    for (size_t i = 0; i < count; i++) {
        if (all[i].status == TROUPE_OK)
            note(&all[i], &addresses[i],
                 take(&all[i].order, late_ns != 0 ? late_ns : all[i].order.until_ns));
        if (late_ns == 0 && all[i].status == TROUPE_DEADLINE_EXCEEDED)
            late_ns = trp_clock_ns();
        if (all[i].status == TROUPE_OK)
            note(&all[i], &addresses[i], dispatch(&all[i].order, &addresses[i]));
    }
    for (size_t i = 0; i < count; i++) {
        if (all[i].status == TROUPE_OK)
            note(&all[i], &addresses[i], receive(&all[i].order, &addresses[i]));
        trp_need_done(&all[i].order.need, all[i].status);
        if (all[i].status == TROUPE_OK)
            note(&all[i], &addresses[i], bind(&all[i].order, addresses[i]));
    }
}

troupe_status trp_spawn_many(const troupe_class *row, const void *args, size_t stride, size_t count,
                             troupe_actor *addresses, const troupe_spawn_options *how)
{
    order what = {.class_ = trp_class_of(row), .class_name = row->name};
    troupe_status status =
        what.class_ != NULL ? prepare(&what, how) : troupe_failed_(troupe_last_error()->status);
    bool together = status == TROUPE_OK && what.how.restarts == 0 && !what.how.get_if_exists;
    one *all = together && count > 0 ? trp_alloc(count * sizeof *all) : NULL;
    if (together && count > 0 && all == NULL)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory to start %zu actors", count);
    for (size_t i = 0; i < count; i++) {
        const void *own = args != NULL ? (const char *)args + i * stride : NULL;
        addresses[i] = (troupe_actor){0};
        if (status != TROUPE_OK)
            addresses[i] = trp_spawn_failed(status);
        else if (!together)
            addresses[i] = troupe_spawn_as(row, own, how);
        else
            all[i].order = what, all[i].order.args = own;
    }
    if (all != NULL)
        spawn_all(all, count, addresses);
    trp_free(all);
    for (size_t i = 0; i < count && status == TROUPE_OK; i++)
        status = troupe_actor_status(addresses[i]);
    return trp_error_settled(status);
}

troupe_status trp_spawn_each(const troupe_class *row, const char *const *envs, size_t count,
                             troupe_actor *addresses, const troupe_spawn_options *how)
{
    order what = {.class_ = trp_class_of(row), .class_name = row->name};
    troupe_status status =
        what.class_ != NULL ? prepare(&what, how) : troupe_failed_(troupe_last_error()->status);
    one *all = status == TROUPE_OK && count > 0 ? trp_alloc(count * sizeof *all) : NULL;
    if (status == TROUPE_OK && count > 0 && all == NULL)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory to start %zu actors", count);
    for (size_t i = 0; i < count; i++) {
        addresses[i] = status == TROUPE_OK ? (troupe_actor){0} : trp_spawn_failed(status);
        if (all != NULL)
            all[i].order = what, all[i].order.how.env = envs[i];
    }
    if (all != NULL)
        spawn_all(all, count, addresses);
    trp_free(all);
    for (size_t i = 0; i < count && status == TROUPE_OK; i++)
        status = troupe_actor_status(addresses[i]);
    return trp_error_settled(status);
}

troupe_status troupe_spawn_many_as(const troupe_class *class_, const void *init_args, size_t count,
                                   troupe_actor *addresses, const troupe_spawn_options *how)
{
    TRP_REQUIRE(class_);
    TRP_REQUIRE(addresses);
    TRP_REQUIRE_COUNT(count, sizeof(one));
    const trp_class *known = trp_class_of(class_);
    size_t stride = known != NULL ? known->init.type->size : 0;
    return trp_spawn_many(class_, init_args, stride, count, addresses, how);
}
