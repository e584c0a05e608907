// ref.c: waiting for references, reading what they stand for, and giving them up.
#include <actors/ref/ref.h>

#include <actors/class/call_error.h>
#include <actors/ref/call_table.h>
#include <actors/ref/leaks.h>
#include <actors/ref/object.h>
#include <actors/ref/ref_visit.h>
#include <actors/ref/result.h>
#include <actors/ref/store_wait.h>
#include <actors/ref/timer.h>
#include <actors/ref/waiter.h>
#include <actors/sched/scheduler.h>
#include <actors/sched/wait_notes.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/require.h>
#include <runtime/codec/pack.h>
#include <runtime/codec/type.h>
#include <runtime/shm/process_table.h>
#include <runtime/shm/segment_guard.h>
#include <runtime/store/read.h>
#include <runtime/store/store.h>
#include <string.h>

enum {
    SLICE_MS = 100, // Of a wait for an object, between looks at whether the runtime stops.
    MOVE_MS = 1000, // What is being moved is waited for so long by who does not wait.
};

trp_wait_hooks trp_ref_waits;

static troupe_status stale(void)
{
    return troupe_fail(TROUPE_INVALID,
                       "the reference is empty or stale: it was consumed or dropped before");
}

static troupe_status pending(void)
{
    return troupe_fail(TROUPE_TIMED_OUT,
                       "the value was not ready in time; the reference stays valid");
}

// ---- waiting for one

void trp_wait_link(trp_entry *entry, trp_wait_node *node, trp_waiter *waiter)
{
    node->waiter = waiter;
    node->next = entry->waiters;
    node->link = &entry->waiters;
    if (node->next != NULL)
        node->next->link = &node->next;
    entry->waiters = node;
    entry->holds++;
    entry->watched++;
}

void trp_wait_unlink(uint64_t call, trp_wait_node *node)
{
    trp_entry *entry = trp_entry_lock(call); // Held by the node, so it is there.
    if (node->link != NULL) {
        *node->link = node->next;
        if (node->next != NULL)
            node->next->link = node->link;
    }
    trp_entry_unlock(entry);
}

void trp_wait_pin(uint64_t call)
{
    trp_entry *entry = trp_entry_lock(call);
    entry->holds++;
    entry->watched++;
    trp_entry_unlock(entry);
}

void trp_wait_unpin(uint64_t call)
{
    if (call == 0)
        return;
    trp_entry *entry = trp_entry_lock(call);
    entry->watched--;
    trp_entry_unlock(entry);
    trp_entry_release(call);
}

static troupe_status sleep_for_call(uint64_t call, trp_waiter *waiter, int64_t deadline_ns)
{
    if (deadline_ns < 0)
        TROUPE_TRY(trp_ref_waits.note(call));
    trp_wait_for(TRP_WAIT_CALL, call, 0);
    troupe_status status = trp_scheduler_block();
    if (status == TROUPE_OK) {
        if (deadline_ns < 0 && trp_ref_waits.in_turn())
            status = trp_ref_waits.sleep(call, waiter);
        else
            status = trp_waiter_sleep(waiter, deadline_ns) ? TROUPE_OK : pending();
        if (deadline_ns < 0) // Before the note that probes look for: they walk along this.
            (void)trp_ref_waits.note(0);
        trp_scheduler_unblock();
    } else if (deadline_ns < 0) {
        (void)trp_ref_waits.note(0);
    }
    return status;
}

// A wait for a call keeps its row from being cleared when the runtime stops, until the caller says
// otherwise: who is woken by the stop still learns why. *pinned is the row's id, or stays.
static troupe_status await_call(uint64_t call, int timeout_ms, bool helped, uint64_t *pinned)
{
    trp_entry *entry = trp_entry_lock(call);
    if (entry == NULL)
        return stale();
    bool done = entry->done;
    trp_waiter waiter = {.missing = 1};
    trp_wait_node node = {0};
    if (!done && timeout_ms < 0 && !helped && trp_ref_waits.inside() &&
        entry->target.incarnation == trp_process_incarnation()) {
        uint64_t target = entry->target.actor;
        trp_entry_unlock(entry);
        TROUPE_TRY(trp_ref_waits.help(call, target));
        return await_call(call, timeout_ms, true, pinned);
    }
    if (!done && timeout_ms != 0)
        trp_wait_link(entry, &node, &waiter);
    trp_entry_unlock(entry);
    if (done || timeout_ms == 0)
        return done ? TROUPE_OK : pending();
    troupe_status status = sleep_for_call(call, &waiter, trp_clock_deadline(timeout_ms));
    trp_wait_unlink(call, &node);
    *pinned = call;
    return status;
}

static troupe_status await_object(trp_object object, int timeout_ms)
{
    if (trp_object_ready(object))
        return TROUPE_OK;
    if (timeout_ms == 0)
        return pending();
    int64_t deadline_ns = trp_clock_deadline(timeout_ms);
    trp_wait_for(TRP_WAIT_OBJECT, object, 0);
    TROUPE_TRY(trp_scheduler_block());
    bool ready = false, stopped = false, lost = false;
    int64_t left_ms = SLICE_MS;
    while (!ready && !stopped && !lost && left_ms > 0) {
        ready = trp_store_wait(object, left_ms < SLICE_MS ? (int)left_ms : SLICE_MS).state !=
                TRP_OBJECT_FILLING;
        stopped = trp_actors_stopping();
        lost = trp_runtime_is_lost(); // And with it whoever was to fill the object.
        if (deadline_ns >= 0)
            left_ms = (deadline_ns - trp_clock_ns() + 999999) / 1000000;
    }
    trp_scheduler_unblock();
    if (!ready && lost)
        return trp_process_check();
    if (!ready && stopped)
        return troupe_fail(TROUPE_NOT_STARTED,
                           "the runtime was stopped before the value was ready");
    return ready ? TROUPE_OK : pending();
}

// The value is there. Where its bytes go to disk, or come back, by another process, the wait for
// that counts.
static troupe_status await_move(uint64_t behind, int64_t deadline_ns)
{
    trp_object object = (behind & TRP_REF_OBJECT) != 0 ? behind : trp_entry_object(behind);
    if (object == 0 || !trp_store_is_moved(object))
        return TROUPE_OK;
    return trp_store_await_move(object,
                                deadline_ns >= 0 ? deadline_ns : trp_clock_deadline(MOVE_MS));
}

// The same for who has no deadline: it waits as long as the other process is at work.
static troupe_status await_mover(uint64_t behind)
{
    trp_object object = (behind & TRP_REF_OBJECT) != 0 ? behind : trp_entry_object(behind);
    if (object == 0 || !trp_store_is_moved(object))
        return TROUPE_OK;
    TRP_USE_SEGMENT(trp_use_refused());
    trp_object_info info = trp_object_pin(object);
    if (info.state == TRP_OBJECT_ABSENT)
        return troupe_last_error()->status == TROUPE_TIMED_OUT ? TROUPE_TIMED_OUT : TROUPE_OK;
    if (info.state != TRP_OBJECT_FILLING && info.state != TRP_OBJECT_GONE)
        trp_store_unpin(object);
    return TROUPE_OK; // What else there is to say, reading it says.
}

static troupe_status await_ref(troupe_ref ref, int timeout_ms, uint64_t *pinned)
{
    *pinned = 0;
    if (ref.id == TRP_REF_NO_MEMORY)
        return troupe_fail(TROUPE_NO_MEMORY, "there was no memory for the call, or too many calls "
                                             "wait to be fetched");
    uint64_t behind = trp_entry_behind(ref);
    if (behind == 0)
        return stale();
    int64_t deadline_ns = timeout_ms > 0 ? trp_clock_deadline(timeout_ms) : -1;
    if ((behind & TRP_REF_OBJECT) == 0) {
        TROUPE_TRY(await_call(behind, timeout_ms, false, pinned));
    } else {
        TROUPE_TRY(trp_process_check());
        TROUPE_TRY(await_object(behind, timeout_ms));
    }
    return timeout_ms < 0 ? await_mover(behind) : await_move(behind, deadline_ns);
}

troupe_status trp_ref_await(troupe_ref ref, int timeout_ms)
{
    uint64_t pinned;
    troupe_status status = await_ref(ref, timeout_ms, &pinned);
    trp_wait_unpin(pinned);
    return status;
}

// ---- reading

// A reader's claim on what a reference names.
typedef struct claim {
    uint64_t own; // To be released in the end; 0: the reference is borrowed and stays.
    uint64_t behind;
    uint64_t pinned; // The row that was waited for; 0: none.
    bool last;       // Nobody else can read it: what it holds goes to the reader.
    bool taken;      // The result is out of its row, and the reference gone.
} claim;

static bool claim_ref(troupe_ref ref, claim *mine)
{
    mine->behind = trp_entry_behind(ref);
    if (mine->behind == 0)
        return false;
    if ((ref.id & TRP_REF_OBJECT) != 0 || trp_entry_disown(ref.id))
        mine->own = ref.id;
    else if (trp_entry_behind(ref) == 0)
        return false; // Another thread was faster.
    if ((mine->behind & TRP_REF_OBJECT) != 0)
        return true;
    trp_entry *entry = trp_entry_lock(mine->behind);
    if (entry == NULL)
        return false;
    mine->last = mine->own != 0 && entry->holds == (mine->pinned != 0 ? 2 : 1);
    trp_entry_unlock(entry);
    return true;
}

// troupe_stop may have waited for the reading of the object alone: then all is given up.
static void give_up_object(trp_object object)
{
    if (!trp_process_running())
        return;
    trp_leaks_gone(object);
    trp_store_release(object, trp_process_slot());
}

// A wait inside the reading has timed out: the reference is valid again.
static void return_claim(const claim *mine)
{
    if (mine->own != 0 && (mine->own & TRP_REF_OBJECT) == 0)
        trp_entry_own(mine->own);
    trp_wait_unpin(mine->pinned);
}

static void release_claim(const claim *mine, troupe_status status)
{
    if (status == TROUPE_TIMED_OUT) {
        return_claim(mine);
        return;
    }
    if ((mine->own & TRP_REF_OBJECT) != 0)
        give_up_object(mine->own);
    else if (mine->own != 0)
        trp_entry_release(mine->own);
    trp_wait_unpin(mine->pinned);
}

// The result of a call that is done: it does not change while the claim holds the row.
static trp_result *result_of(uint64_t call)
{
    trp_entry *entry = trp_entry_lock(call);
    if (entry == NULL)
        return NULL;
    trp_entry_unlock(entry);
    return &entry->result;
}

static troupe_status set_failure(const trp_result *result)
{
    return result->failure != NULL ? trp_error_set(result->failure)
                                   : troupe_fail(TROUPE_NO_MEMORY, "no memory for a call's result");
}

static troupe_status read_result(const trp_result *result, const trp_shape *shape, void *value)
{
    if (result->kind == TRP_RESULT_FAILURE)
        return set_failure(result);
    if (troupe_type_hash(shape->type) != result->schema)
        return trp_schema_check(trp_type_note(shape->type), result->schema);
    if (result->kind == TRP_RESULT_OBJECT)
        return trp_object_read(result->object, shape, value);
    if (result->kind == TRP_RESULT_BODY)
        return trp_body_unpack(&result->body, shape, trp_arena_current(), value);
    // What came as an image can be read as one alone, whatever its sender says that it is.
    if (result->kind == TRP_RESULT_SMALL || result->value->shape.image || shape->flat) {
        if (trp_result_size(result) != shape->type->size || !shape->flat)
            return troupe_fail(TROUPE_MALFORMED, "a result of %zu bytes is not a '%s'",
                               trp_result_size(result), shape->type->name);
        memcpy(value, trp_result_value(result), shape->type->size);
        return TROUPE_OK;
    }
    return trp_value_copy(shape->type, trp_result_value(result), trp_arena_current(), value);
}

troupe_status trp_result_take(trp_result *result, const trp_shape *shape, void *value)
{
    TRP_USE_SEGMENT_IF_OPEN(used);
    troupe_status status = read_result(result, shape, value);
    if (status == TROUPE_TIMED_OUT)
        return status;
    result->moved = status == TROUPE_OK;
    trp_result_free(result);
    return status;
}

static troupe_status read_taken(trp_result *result, const troupe_type *type, void *value)
{
    trp_shape shape = trp_shape_of(type);
    return trp_result_take(result, &shape, value);
}

// Reads what is behind a claim: typed, or packed if `shape` is NULL.
static troupe_status read_typed(const claim *mine, const trp_shape *shape, void *value)
{
    if ((mine->behind & TRP_REF_OBJECT) != 0)
        return trp_object_read(mine->behind, shape, value);
    trp_result *result = result_of(mine->behind);
    if (result == NULL)
        return stale();
    TROUPE_TRY(read_result(result, shape, value));
    if (mine->last)
        result->moved = true;
    else if (shape->refs)
        return trp_refs_share(shape, value);
    return TROUPE_OK;
}

troupe_status trp_ref_read(troupe_ref ref, const trp_shape *shape, void *value)
{
    claim look = {.behind = trp_entry_behind(ref)};
    return look.behind != 0 ? read_typed(&look, shape, value) : stale();
}

// Waits, and claims the reference, which is gone if that fails for good.
// Takes the result out of its row if nobody else can want it and `taken` is not NULL.
static troupe_status await_claim(troupe_ref ref, int timeout_ms, claim *mine, trp_result *taken)
{
    *mine = (claim){0};
    troupe_status status = await_ref(ref, timeout_ms, &mine->pinned);
    bool direct = mine->pinned == ref.id || mine->pinned == 0; // Else its wait pins another row.
    if (status == TROUPE_OK && taken != NULL && direct &&
        trp_entry_take(ref.id, mine->pinned != 0, taken)) {
        mine->taken = true;
        return TROUPE_OK;
    }
    if (status == TROUPE_OK && claim_ref(ref, mine))
        return TROUPE_OK;
    if (status != TROUPE_OK && status != TROUPE_TIMED_OUT)
        troupe_ref_drop(ref);
    trp_wait_unpin(mine->pinned);
    return status == TROUPE_OK ? stale() : status;
}

troupe_status troupe_get_as(const troupe_type *type, troupe_ref ref, void *value, int timeout_ms)
{
    TRP_REQUIRE(value);
    claim mine;
    trp_result taken;
    TROUPE_TRY(trp_type_check(type));
    if (trp_entry_take(ref.id, false, &taken))
        return read_taken(&taken, type, value);
    troupe_status waited = await_claim(ref, timeout_ms, &mine, &taken);
    if (waited != TROUPE_OK || mine.taken)
        return waited != TROUPE_OK ? waited : read_taken(&taken, type, value);
    trp_shape shape = trp_shape_of(type);
    TRP_USE_SEGMENT_IF_OPEN(used);
    troupe_status status = read_typed(&mine, &shape, value);
    release_claim(&mine, status);
    return status;
}

static troupe_status pack_as(const troupe_type *type, const void *unpacked, troupe_bytes *value)
{
    trp_buffer packed = {0};
    troupe_status status = trp_pack(type, unpacked, &packed);
    if (status == TROUPE_OK)
        status = trp_packed_give(&packed, value);
    trp_buffer_free(&packed);
    return status;
}

static troupe_status pack_value(const trp_result *result, bool last, troupe_bytes *value)
{
    const troupe_type *type = trp_result_type(result);
    if (type == NULL)
        return troupe_fail(TROUPE_UNSUPPORTED, "the result's type is not known in this process, so "
                                               "it cannot be packed");
    trp_shape shape = trp_shape_of(type);
    if (last || !shape.refs)
        return pack_as(type, trp_result_value(result), value);
    trp_arena arena = {0};
    void *copy = trp_arena_alloc(&arena, type->size);
    troupe_status status = copy != NULL
                               ? trp_value_copy(type, trp_result_value(result), &arena, copy)
                               : troupe_fail(TROUPE_NO_MEMORY, "no memory for a value");
    if (status == TROUPE_OK)
        status = trp_refs_share(&shape, copy);
    if (status == TROUPE_OK) {
        status = pack_as(type, copy, value);
        if (status != TROUPE_OK)
            trp_refs_drop(&shape, copy);
    }
    trp_arena_clear(&arena);
    return status;
}

typedef struct holding {
    size_t held;
    troupe_status status;
} holding;

static void hold(trp_object object, void *user)
{
    holding *work = user;
    if (work->status == TROUPE_OK)
        work->status = trp_store_hold(object, trp_process_slot());
    if (work->status == TROUPE_OK)
        work->held++;
}

static void release_held(trp_object object, void *user)
{
    holding *work = user;
    if (work->held > 0) {
        work->held--;
        trp_store_release(object, trp_process_slot());
    }
}

static troupe_status pack_body(const trp_body *body, bool last, troupe_bytes *value)
{
    trp_reader in;
    TROUPE_TRY(trp_body_open(body, &in));
    size_t size = (size_t)(in.end - in.at);
    void *copy = troupe_arena_alloc(size);
    if (copy == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a packed value");
    memcpy(copy, in.at, size);
    holding work = {0};
    if (!last)
        trp_body_each(body, hold, &work);
    if (work.status != TROUPE_OK) {
        trp_body_each(body, release_held, &work);
        return work.status;
    }
    *value = (troupe_bytes){copy, size};
    return TROUPE_OK;
}

// Packed, as typed: the references in it are the reader's own.
static troupe_status read_packed(const claim *mine, troupe_bytes *value)
{
    if ((mine->behind & TRP_REF_OBJECT) != 0)
        return trp_object_pack(mine->behind, value);
    trp_result *result = result_of(mine->behind);
    if (result == NULL)
        return stale();
    if (result->kind == TRP_RESULT_FAILURE)
        return set_failure(result);
    if (result->kind == TRP_RESULT_OBJECT)
        return trp_object_pack(result->object, value);
    TROUPE_TRY(result->kind == TRP_RESULT_BODY ? pack_body(&result->body, mine->last, value)
                                               : pack_value(result, mine->last, value));
    result->moved = mine->last;
    return TROUPE_OK;
}

// In parentheses: a macro of that name lets the time-out be left out.
troupe_status(troupe_get_packed)(troupe_ref ref, troupe_bytes *value, int timeout_ms)
{
    TRP_REQUIRE(value);
    claim mine;
    TROUPE_TRY(await_claim(ref, timeout_ms, &mine, NULL));
    TRP_USE_SEGMENT_IF_OPEN(used);
    troupe_status status = read_packed(&mine, value);
    release_claim(&mine, status);
    return status;
}

// ---- keeping and giving up

void troupe_ref_drop(troupe_ref ref)
{
    if ((ref.id & TRP_REF_OBJECT) != 0)
        give_up_object(ref.id);
    else if (trp_entry_disown(ref.id))
        trp_entry_release(ref.id);
}

static troupe_status keep(troupe_ref ref, troupe_ref *kept)
{
    uint64_t behind = trp_entry_behind(ref);
    *kept = (troupe_ref){0};
    if (behind == 0)
        return stale();
    if ((behind & TRP_REF_OBJECT) == 0) {
        TROUPE_TRY(trp_entry_alias(ref, false, 0, &behind));
    } else {
        TROUPE_TRY(trp_process_check());
        TROUPE_TRY(trp_store_hold(behind, trp_process_slot()));
    }
    *kept = (troupe_ref){behind, ref.schema};
    return TROUPE_OK;
}

troupe_status trp_ref_keep(troupe_ref ref, troupe_ref *kept)
{
    TROUPE_TRY(keep(ref, kept));
    if (trp_leaks_on())
        trp_leaks_made(*kept, NULL, NULL);
    return TROUPE_OK;
}

troupe_ref troupe_ref_keep(troupe_ref ref)
{
    troupe_ref kept;
    if (keep(ref, &kept) == TROUPE_OK)
        TRP_LEAKS_MADE(kept, "troupe_ref_keep");
    return kept;
}

trp_object trp_ref_object(troupe_ref ref)
{
    uint64_t behind = trp_entry_behind(ref);
    return (behind & TRP_REF_OBJECT) != 0 ? behind : 0;
}

// ---- callbacks

void trp_when_call(trp_when *when)
{
    trp_run_callback_begin();
    when->done(when->user, when->ref);
    trp_run_callback_end();
    if (when->object != 0)
        trp_store_release(when->object, trp_process_slot());
    trp_free(when);
}

// False: it is ready.
static bool when_call_done(uint64_t call, trp_when *when)
{
    trp_entry *entry = trp_entry_lock(call);
    bool waits = entry != NULL && !entry->done;
    if (waits) {
        when->next = entry->whens;
        entry->whens = when;
        entry->holds++;
    }
    if (entry != NULL)
        trp_entry_unlock(entry);
    return waits;
}

static bool when_object_ready(trp_object object, trp_when *when)
{
    if (trp_object_ready(object) || trp_store_hold(object, trp_process_slot()) != TROUPE_OK)
        return false;
    when->object = object;
    return trp_timer_watch(when);
}

void trp_ref_when(troupe_ref ref, void (*done)(void *user, troupe_ref ref), void *user)
{
    uint64_t behind = trp_entry_behind(ref);
    trp_when *when = trp_alloc(sizeof *when);
    trp_when at_once = {.ref = ref, .done = done, .user = user};
    if (when == NULL) { // Late is better than never.
        (void)trp_ref_await(ref, -1);
        trp_run_callback_begin();
        done(user, ref);
        trp_run_callback_end();
        return;
    }
    *when = at_once;
    bool later = (behind & TRP_REF_OBJECT) != 0 ? when_object_ready(behind, when)
                                                : when_call_done(behind, when);
    if (!later)
        trp_when_call(when);
}
