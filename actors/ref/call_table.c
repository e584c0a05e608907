// call_table.c: the rows of ref/call_table.h: making, holding, resolving and freeing them.
#include <actors/ref/call_table.h>

#include <actors/class/call_error.h>
#include <actors/ref/promised_object.h>
#include <actors/ref/ref.h>
#include <actors/ref/result.h>
#include <runtime/base/clock.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/link/park.h>
#include <runtime/shm/process_table.h>
#include <runtime/store/read.h>
#include <sched.h>

enum {
    CHUNK = 1024,
    CHUNKS = 4096,
    PLACE_BITS = 22, // CHUNK * CHUNKS places
    WAKES = 16,
    SPINS = 64,
};
static const uint64_t place_mask = (1u << PLACE_BITS) - 1;

static trp_entry *_Atomic chunks[CHUNKS] TRP_VAST; // A release store pairs with readers' acquire.
static struct {
    pthread_mutex_t lock; // Of growing.
    uint32_t made;        // Places that chunks exist for, from 1.
} table = {.lock = PTHREAD_MUTEX_INITIALIZER, .made = 1};
// Free rows, and this thread's.
static trp_depot depot = {.batch = TRP_BATCH, .lock = PTHREAD_MUTEX_INITIALIZER};
static _Thread_local trp_magazine magazine;

// ---- places

static trp_entry *entry_at(uint32_t place)
{
    trp_entry *chunk = atomic_load_explicit(&chunks[place / CHUNK], memory_order_acquire);
    return chunk == NULL ? NULL : &chunk[place % CHUNK];
}

static trp_entry *new_row(void)
{
    trp_entry *entry = NULL;
    pthread_mutex_lock(&table.lock);
    uint32_t place = table.made;
    if (place < (uint32_t)CHUNK * CHUNKS && entry_at(place) == NULL)
        atomic_store_explicit(&chunks[place / CHUNK], trp_alloc(CHUNK * sizeof *entry),
                              memory_order_release);
    if (place < (uint32_t)CHUNK * CHUNKS && (entry = entry_at(place)) != NULL) {
        table.made++;
        entry->next_id = UINT64_C(1) << PLACE_BITS | place;
    }
    pthread_mutex_unlock(&table.lock);
    return entry;
}

// A row that is held once and owned, of which nobody knows yet: it has no id. NULL: there is none
// left. Who still has an old id may take its lock and sees that the id is another.
static trp_entry *take_row(trp_entry_kind kind)
{
    trp_cell *cell = trp_magazine_take(&magazine, &depot);
    trp_entry *entry =
        cell != NULL ? (trp_entry *)((char *)cell - offsetof(trp_entry, cell)) : new_row();
    if (entry == NULL)
        return NULL;
    entry->holds = 1;
    entry->kind = (uint8_t)kind;
    entry->owned = true;
    entry->borrowed = entry->started = entry->expired = entry->sending = false;
    atomic_store_explicit(&entry->done, false, memory_order_relaxed);
    entry->watched = 0;
    entry->waiters = NULL;
    entry->whens = NULL;
    entry->cancelled = entry->force = entry->apart = entry->streams = entry->tried = false;
    entry->promise = 0;
    return entry;
}

// Shows a new row.
static uint64_t publish(trp_entry *entry)
{
    uint64_t id = entry->next_id | (entry->kind == TRP_ENTRY_ALIAS ? TRP_REF_ALIAS : 0);
    entry->next_id += place_mask + 1;
    atomic_store_explicit(&entry->id, id, memory_order_release);
    return id;
}

static void lock_row(trp_entry *entry)
{
    for (int tries = 0; atomic_exchange_explicit(&entry->lock, 1, memory_order_acquire) != 0;)
        if (++tries % SPINS == 0) // Its holder may not be running.
            sched_yield();
}

static void unlock_row(trp_entry *entry)
{
    atomic_store_explicit(&entry->lock, 0, memory_order_release);
}

static void release_object_or_call(uint64_t id)
{
    if ((id & TRP_REF_OBJECT) != 0)
        trp_store_release(id, trp_process_slot());
    else if (id != 0)
        trp_entry_release(id);
}

// Makes a row free whose result is not there, or has been taken out. Unlocks it.
static void give_row(trp_entry *entry)
{
    atomic_store_explicit(&entry->id, 0, memory_order_relaxed);
    unlock_row(entry);
    if ((entry->next_id & TRP_REF_ALIAS) == 0) // Else its ids are used up.
        (void)trp_magazine_give(&magazine, &depot, &entry->cell, SIZE_MAX);
}

// Frees a row that nothing holds. Unlocks it.
static void free_row(trp_entry *entry)
{
    trp_assert(entry->waiters == NULL && entry->whens == NULL);
    trp_object promise = entry->promise;
    bool done = atomic_load_explicit(&entry->done, memory_order_relaxed);
    uint64_t of = entry->kind == TRP_ENTRY_ALIAS ? entry->of : 0;
    trp_result result;
    if (done)
        result = entry->result;
    give_row(entry);
    if (done)
        trp_result_free(&result);
    if (promise != 0)
        trp_store_release(promise, trp_process_slot());
    release_object_or_call(of);
}

// The row with that place; NULL: there was none ever.
static trp_entry *entry_of(uint64_t id)
{
    return id == 0 || (id & TRP_REF_OBJECT) != 0 ? NULL : entry_at(id & place_mask);
}

_Static_assert(1 << PLACE_BITS == TRP_ENTRY_PLACES, "all places");

uint32_t trp_entry_place(uint64_t id)
{
    return (uint32_t)(id & place_mask);
}

trp_entry *trp_entry_lock(uint64_t id)
{
    trp_entry *entry = entry_of(id);
    if (entry == NULL)
        return NULL;
    lock_row(entry);
    if (atomic_load_explicit(&entry->id, memory_order_acquire) == id)
        return entry;
    unlock_row(entry);
    return NULL;
}

void trp_entry_unlock(trp_entry *entry)
{
    unlock_row(entry);
}

bool trp_entry_hold(uint64_t id)
{
    trp_entry *entry = trp_entry_lock(id);
    if (entry == NULL)
        return false;
    entry->holds++;
    unlock_row(entry);
    return true;
}

void trp_entry_release(uint64_t id)
{
    trp_entry *entry = trp_entry_lock(id);
    if (entry == NULL)
        return;
    if (--entry->holds == 0)
        free_row(entry);
    else
        unlock_row(entry);
}

// ---- calls

uint64_t trp_entry_call(uint64_t schema, const trp_target *target, int64_t deadline_ns)
{
    trp_entry *entry = take_row(TRP_ENTRY_CALL);
    if (entry == NULL)
        return TRP_REF_NO_MEMORY;
    entry->schema = schema;
    entry->target = *target;
    entry->deadline_ns = deadline_ns;
    entry->retry = NULL;
    entry->part_of = 0;
    return publish(entry);
}

// Of a CALL's id. Ids are used once: a row that has it after `done` was read had it all along.
static inline bool call_ready(uint64_t id)
{
    const trp_entry *entry = entry_of(id);
    return entry == NULL || atomic_load_explicit(&entry->done, memory_order_acquire) ||
           atomic_load_explicit(&entry->id, memory_order_relaxed) != id;
}

bool trp_entry_ready(uint64_t id)
{
    if ((id & TRP_REF_ALIAS) != 0) {
        uint64_t behind = trp_entry_behind((troupe_ref){.id = id});
        if ((behind & TRP_REF_OBJECT) != 0)
            return trp_store_look(behind).state != TRP_OBJECT_FILLING;
        id = behind;
    }
    return call_ready(id);
}

size_t trp_entries_ready(const troupe_ref *refs, size_t count, bool *ready,
                         bool (*other)(troupe_ref ref))
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        bool plain = (refs[i].id & (TRP_REF_OBJECT | TRP_REF_ALIAS)) == 0;
        bool here = plain ? call_ready(refs[i].id) : other(refs[i]);
        found += here;
        if (ready != NULL)
            ready[i] = here;
    }
    return found;
}

bool trp_entry_take(uint64_t id, bool pinned, trp_result *result)
{
    trp_entry *entry = trp_entry_lock(id);
    if (entry == NULL)
        return false;
    bool mine = entry->kind == TRP_ENTRY_CALL && entry->owned &&
                atomic_load_explicit(&entry->done, memory_order_relaxed) &&
                entry->holds == (pinned ? 2 : 1) &&
                entry->result.kind != TRP_RESULT_OBJECT; // Who takes it cannot give up any more.
    if (!mine) {
        unlock_row(entry);
        return false;
    }
    *result = entry->result;
    trp_object promise = entry->promise;
    give_row(entry);
    if (promise != 0)
        trp_store_release(promise, trp_process_slot());
    return true;
}

trp_object trp_entry_object(uint64_t id)
{
    trp_entry *entry = trp_entry_lock(id);
    if (entry == NULL)
        return 0;
    bool whole =
        entry->kind == TRP_ENTRY_CALL && entry->done && entry->result.kind == TRP_RESULT_OBJECT;
    trp_object object = whole ? entry->result.object : 0;
    unlock_row(entry);
    return object;
}

// Marks who waits as ready; the words of sleepers to be woken outside the lock go to `asleep`.
static int notify_all(trp_entry *entry, _Atomic uint32_t *asleep[WAKES])
{
    int count = 0;
    trp_wait_node *next;
    for (trp_wait_node *node = entry->waiters; node != NULL; node = next) {
        next = node->next;
        node->link = NULL;
        _Atomic uint32_t *word = &node->waiter->word;
        // In this order: who counts what is ready, and sets `missing` before, misses none.
        atomic_store_explicit(&node->ready, true, memory_order_release);
        bool last = atomic_fetch_sub(&node->waiter->missing, 1) == 1;
        if (!last || atomic_exchange(word, TRP_WAITER_NOTIFIED) != TRP_WAITER_ASLEEP)
            continue;
        if (count < WAKES)
            asleep[count++] = word;
        else
            trp_unpark(word, 1);
    }
    entry->waiters = NULL;
    return count;
}

// What is left to do for a call that has ended, while it is held.
static void tell_others(uint64_t id, trp_object promise, const trp_result *result, trp_when *whens)
{
    if (promise != 0) {
        trp_promise_fulfil(promise, result);
        trp_entry_release(id); // The promise's hold.
    }
    while (whens != NULL) {
        trp_when *when = whens;
        whens = when->next;
        trp_when_call(when);
        trp_entry_release(id);
    }
    trp_entry_release(id);
}

bool trp_target_is_none(const trp_target *target)
{
    return target->actor == 0 && target->incarnation == trp_process_incarnation();
}

// With the lock held.
static void leave(trp_entry *entry)
{
    entry->target.process = trp_process_slot();
    entry->target.incarnation = trp_process_incarnation();
    entry->target.actor = 0;
    entry->started = entry->sending = false;
}

// What trp_entry_resolve and trp_entry_answer do; `by`: only if the call went to that incarnation.
static trp_answered end_call(uint64_t id, const uint64_t *by, trp_result *result)
{
    trp_entry *entry = trp_entry_lock(id);
    bool pending = entry != NULL && entry->kind == TRP_ENTRY_CALL && !entry->done;
    bool asked = !pending || by == NULL || entry->target.incarnation == *by;
    if (!pending || !asked) {
        // Between two attempts whoever was asked before may still answer.
        asked = asked || trp_target_is_none(&entry->target);
        if (entry != NULL)
            unlock_row(entry);
        trp_result_free(result);
        return asked ? TRP_ANSWERED_BEFORE : TRP_ANSWERED_UNASKED;
    }
    trp_retry *retry = entry->retry;
    if (retry != NULL && !entry->cancelled && result->kind == TRP_RESULT_FAILURE &&
        result->failure != NULL && retry->again(retry, result->failure)) {
        entry->tried = entry->tried || result->failure->executed != TROUPE_EXECUTED_NO;
        leave(entry); // Until the next attempt.
        unlock_row(entry);
        trp_result_free(result);
        retry->send(retry);
        return TRP_ANSWERED;
    }
    if (entry->tried && result->kind == TRP_RESULT_FAILURE && result->failure != NULL)
        trp_failure_tried(result->failure);
    _Atomic uint32_t *asleep[WAKES];
    entry->result = *result;
    atomic_store_explicit(&entry->done, true, memory_order_release);
    int sleepers = entry->waiters != NULL ? notify_all(entry, asleep) : 0;
    trp_when *whens = entry->whens;
    trp_object promise = entry->promise;
    bool more = whens != NULL || promise != 0;
    entry->whens = NULL;
    entry->holds += more; // Ours, until all are told.
    unlock_row(entry);

    for (int i = 0; i < sleepers; i++)
        trp_unpark(asleep[i], 1);
    if (more)
        tell_others(id, promise, &entry->result, whens); // The result does not change any more.
    return TRP_ANSWERED;
}

bool trp_entry_resolve(uint64_t id, trp_result *result)
{
    return end_call(id, NULL, result) == TRP_ANSWERED;
}

trp_answered trp_entry_answer(uint64_t id, uint64_t incarnation, trp_result *result)
{
    return end_call(id, &incarnation, result);
}

bool trp_entry_fail(uint64_t id, const troupe_error *failure)
{
    trp_result result;
    trp_result_fail(&result, failure);
    return trp_entry_resolve(id, &result);
}

void trp_entry_retry(uint64_t id, trp_retry *retry)
{
    trp_entry *entry = trp_entry_lock(id);
    if (entry == NULL)
        return;
    if (!entry->done)
        entry->retry = retry;
    unlock_row(entry);
}

void trp_entry_part(uint64_t id, uint64_t of)
{
    trp_entry *entry = trp_entry_lock(id);
    if (entry == NULL) // The runtime was stopped meanwhile.
        return;
    if (!entry->done)
        entry->part_of = of;
    unlock_row(entry);
}

bool trp_entry_aim(uint64_t id, const trp_target *target)
{
    trp_entry *entry = trp_entry_lock(id);
    if (entry == NULL)
        return false;
    bool pending = !entry->done && !entry->cancelled;
    if (pending) {
        entry->target = *target;
        entry->started = entry->sending = false;
    }
    unlock_row(entry);
    return pending;
}

bool trp_entry_leave(uint64_t id)
{
    trp_entry *entry = trp_entry_lock(id);
    if (entry == NULL)
        return false;
    bool pending = !entry->done && !entry->cancelled;
    if (!entry->done)
        leave(entry);
    unlock_row(entry);
    return pending;
}

bool trp_entry_start(uint64_t id)
{
    trp_entry *entry = trp_entry_lock(id);
    if (entry == NULL)
        return true; // Nobody wants the result; the method runs all the same.
    bool runs = !entry->done && !entry->expired;
    entry->started = entry->started || runs;
    unlock_row(entry);
    return runs;
}

void trp_entry_apart(uint64_t id)
{
    trp_entry *entry = trp_entry_lock(id);
    if (entry == NULL)
        return;
    entry->apart = true;
    unlock_row(entry);
}

void trp_entry_force(uint64_t id)
{
    trp_entry *entry = trp_entry_lock(id);
    if (entry == NULL)
        return;
    entry->force = true;
    unlock_row(entry);
}

void trp_entry_streams(uint64_t id)
{
    trp_entry *entry = trp_entry_lock(id);
    if (entry == NULL)
        return;
    entry->streams = true;
    unlock_row(entry);
}

bool trp_entry_sending(uint64_t id)
{
    trp_entry *entry = trp_entry_lock(id);
    if (entry == NULL) // A tell.
        return true;
    // Who finds it expired is about to say that it was not run.
    bool pending = !entry->done && !entry->expired;
    entry->sending = pending;
    unlock_row(entry);
    return pending;
}

bool trp_entry_sent(uint64_t id, bool success)
{
    trp_entry *entry = trp_entry_lock(id);
    if (entry == NULL)
        return false;
    bool expired = entry->expired;
    entry->sending = false;
    entry->started = success; // From now on nobody here knows whether it runs.
    unlock_row(entry);
    return expired;
}

// ---- aliases and owners

uint64_t trp_entry_behind(troupe_ref ref)
{
    if ((ref.id & TRP_REF_OBJECT) != 0)
        return ref.id;
    trp_entry *entry = trp_entry_lock(ref.id);
    if (entry == NULL)
        return 0;
    uint64_t behind = !entry->owned ? 0 : entry->kind == TRP_ENTRY_ALIAS ? entry->of : entry->id;
    unlock_row(entry);
    return behind;
}

// 0: no memory.
static uint64_t make_alias(uint64_t behind, uint64_t schema, bool borrowed, uint64_t next)
{
    trp_entry *entry = take_row(TRP_ENTRY_ALIAS);
    if (entry == NULL)
        return 0;
    entry->of = behind;
    entry->next_borrowed = next;
    entry->borrowed = borrowed;
    entry->schema = schema;
    return publish(entry);
}

troupe_status trp_entry_alias(troupe_ref ref, bool borrowed, uint64_t next, uint64_t *alias)
{
    uint64_t behind = trp_entry_behind(ref);
    if ((behind & TRP_REF_OBJECT) != 0)
        TROUPE_TRY(trp_store_hold(behind, trp_process_slot()));
    else if (!trp_entry_hold(behind))
        return troupe_fail(TROUPE_INVALID, "a reference is stale: it was consumed or dropped "
                                           "before");
    uint64_t made = make_alias(behind, ref.schema, borrowed, next);
    if (made == 0) {
        release_object_or_call(behind);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a reference");
    }
    *alias = made;
    return TROUPE_OK;
}

uint64_t trp_entry_adopt(troupe_ref ref, uint64_t next)
{
    return make_alias(ref.id, ref.schema, true, next);
}

uint64_t trp_entry_return(uint64_t id)
{
    trp_entry *entry = trp_entry_lock(id);
    if (entry == NULL)
        return 0;
    uint64_t next = entry->next_borrowed;
    if (--entry->holds == 0)
        free_row(entry);
    else
        unlock_row(entry);
    return next;
}

bool trp_entry_disown(uint64_t id)
{
    trp_entry *entry = trp_entry_lock(id);
    if (entry == NULL)
        return false;
    bool mine = entry->owned && !entry->borrowed;
    if (mine)
        entry->owned = false;
    unlock_row(entry);
    return mine;
}

void trp_entry_own(uint64_t id)
{
    trp_entry *entry = trp_entry_lock(id);
    if (entry == NULL)
        return;
    entry->owned = true;
    unlock_row(entry);
}

// ---- all of them

static uint32_t places_made(void)
{
    pthread_mutex_lock(&table.lock);
    uint32_t made = table.made;
    pthread_mutex_unlock(&table.lock);
    return made;
}

void trp_entries_fail(const uint64_t *incarnation, trp_entry_describe *describe, const void *user)
{
    uint32_t made = places_made();
    for (uint32_t place = 1; place < made; place++) {
        trp_entry *entry = entry_at(place);
        troupe_error failure;
        lock_row(entry);
        uint64_t id = atomic_load_explicit(&entry->id, memory_order_acquire);
        bool hit = id != 0 && entry->kind == TRP_ENTRY_CALL && !entry->done &&
                   (incarnation == NULL || entry->target.incarnation == *incarnation);
        if (hit)
            describe(entry, user, &failure);
        unlock_row(entry);
        if (!hit)
            continue;
        trp_result result;
        trp_result_fail(&result, &failure);
        (void)end_call(id, incarnation, &result); // Unless it has been sent elsewhere meanwhile.
    }
}

void trp_entries_clear(void)
{
    uint32_t made = places_made();
    for (uint32_t place = 1; place < made; place++) {
        trp_entry *entry = entry_at(place);
        lock_row(entry);
        if (atomic_load_explicit(&entry->id, memory_order_acquire) != 0 && entry->watched == 0 &&
            entry->whens == NULL)
            free_row(entry);
        else
            unlock_row(entry);
    }
}
