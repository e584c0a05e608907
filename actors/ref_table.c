// ref_table.c: the rows of ref_table.h: making, holding, resolving and freeing them.
#include <actors/ref_table.h>

#include <actors/failure.h>
#include <runtime/clock.h>
#include <runtime/log.h>
#include <runtime/memory.h>
#include <runtime/park.h>
#include <runtime/process.h>
#include <stdbool.h>

enum {
    CHUNK = 1024,
    CHUNKS = 1024,
    PLACE_BITS = 20, // CHUNK * CHUNKS places
    WAKES = 16,
};

static struct {
    pthread_mutex_t lock;              // Of the list of free places and of growing.
    trp_entry *_Atomic chunks[CHUNKS]; // A release store pairs with the readers' acquire.
    uint32_t made;                     // Places that chunks exist for, from 1.
    uint32_t free;                     // The first free place; 0: none.
    _Atomic uint64_t serial;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER, .made = 1};

// ---- waiters

typedef enum trp_waiter_word { IDLE, NOTIFIED, ASLEEP } trp_waiter_word;

void trp_waiter_notify(trp_waiter *waiter)
{
    if (atomic_exchange(&waiter->word, NOTIFIED) == ASLEEP)
        trp_unpark(&waiter->word, 1);
}

bool trp_waiter_sleep(trp_waiter *waiter, int64_t deadline_ns)
{
    trp_spin(&waiter->word, IDLE);
    for (;;) {
        uint32_t seen = IDLE;
        if (!atomic_compare_exchange_strong(&waiter->word, &seen, ASLEEP) && seen == NOTIFIED) {
            atomic_store(&waiter->word, IDLE);
            return true;
        }
        trp_park(&waiter->word, ASLEEP, deadline_ns);
        if (atomic_load(&waiter->word) == ASLEEP && deadline_ns >= 0 &&
            trp_clock_ns() >= deadline_ns)
            return atomic_exchange(&waiter->word, IDLE) == NOTIFIED;
    }
}

// ---- places

static trp_entry *entry_at(uint32_t place)
{
    trp_entry *chunk = atomic_load_explicit(&table.chunks[place / CHUNK], memory_order_acquire);
    return chunk == NULL ? NULL : &chunk[place % CHUNK];
}

// With the table's lock held.
static trp_entry *new_place(void)
{
    uint32_t place = table.made;
    if (place >= CHUNK * CHUNKS)
        return NULL;
    if (entry_at(place) == NULL) {
        trp_entry *chunk = trp_alloc(CHUNK * sizeof *chunk);
        if (chunk == NULL)
            return NULL;
        for (int i = 0; i < CHUNK; i++)
            pthread_mutex_init(&chunk[i].lock, NULL);
        atomic_store_explicit(&table.chunks[place / CHUNK], chunk, memory_order_release);
    }
    table.made++;
    trp_entry *entry = entry_at(place);
    entry->place = place;
    return entry;
}

// A row that is held once and owned, locked; NULL: there is none left.
static trp_entry *take_row(trp_entry_kind kind)
{
    pthread_mutex_lock(&table.lock);
    trp_entry *entry = NULL;
    if (table.free != 0) {
        entry = entry_at(table.free);
        table.free = entry->next_free;
    } else {
        entry = new_place();
    }
    pthread_mutex_unlock(&table.lock);
    if (entry == NULL)
        return NULL;
    pthread_mutex_lock(&entry->lock);
    uint64_t serial = atomic_fetch_add(&table.serial, 1) + 1;
    entry->id = serial << PLACE_BITS | entry->place;
    entry->kind = kind;
    entry->holds = 1;
    entry->owned = true;
    entry->borrowed = entry->done = entry->started = entry->expired = entry->sending = false;
    entry->of = entry->next_borrowed = entry->schema = 0;
    entry->deadline_ns = 0;
    entry->promise = 0;
    return entry;
}

static void release_object_or_call(uint64_t id)
{
    if ((id & TRP_REF_OBJECT) != 0)
        trp_store_release(id, trp_process_slot());
    else if (id != 0)
        trp_entry_release(id);
}

// Frees a row that nothing holds. Unlocks it.
static void free_row(trp_entry *entry)
{
    trp_assert(entry->waiters == NULL && entry->whens == NULL);
    trp_result result = entry->result;
    trp_object promise = entry->promise;
    uint64_t of = entry->of;
    bool done = entry->done;
    uint32_t place = entry->place;
    entry->id = 0;
    entry->result = (trp_result){.kind = TRP_RESULT_FAILURE};
    pthread_mutex_unlock(&entry->lock);

    pthread_mutex_lock(&table.lock);
    entry->next_free = table.free;
    table.free = place;
    pthread_mutex_unlock(&table.lock);

    if (done)
        trp_result_free(&result);
    if (promise != 0)
        trp_store_release(promise, trp_process_slot());
    release_object_or_call(of);
}

trp_entry *trp_entry_lock(uint64_t id)
{
    uint32_t place = id & ((1u << PLACE_BITS) - 1);
    trp_entry *entry = (id & TRP_REF_OBJECT) != 0 ? NULL : entry_at(place);
    if (entry == NULL || id == 0)
        return NULL;
    pthread_mutex_lock(&entry->lock);
    if (entry->id == id)
        return entry;
    pthread_mutex_unlock(&entry->lock);
    return NULL;
}

void trp_entry_unlock(trp_entry *entry)
{
    pthread_mutex_unlock(&entry->lock);
}

bool trp_entry_hold(uint64_t id)
{
    trp_entry *entry = trp_entry_lock(id);
    if (entry == NULL)
        return false;
    entry->holds++;
    pthread_mutex_unlock(&entry->lock);
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
        pthread_mutex_unlock(&entry->lock);
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
    uint64_t id = entry->id;
    pthread_mutex_unlock(&entry->lock);
    return id;
}

// Gives a promised object the value that a call ended with.
static troupe_status fulfil_value(trp_object promise, const trp_result *result)
{
    trp_buffer packed = {0};
    trp_reader in;
    const troupe_type *type = result->shape.type;
    const void *data = NULL;
    size_t size = 0;
    bool bytes = result->schema == troupe_type_hash(&troupe_type_troupe_bytes);
    troupe_status status = TROUPE_OK;
    if (result->kind == TRP_RESULT_BODY) {
        status = trp_body_open(&result->body, &in);
        if (status == TROUPE_OK && bytes)
            status = trp_read_bytes(&in, &data, &size);
        else if (status == TROUPE_OK)
            data = in.at, size = (size_t)(in.end - in.at);
    } else if (bytes) {
        data = ((const troupe_bytes *)trp_result_value(result))->data;
        size = ((const troupe_bytes *)trp_result_value(result))->size;
    } else {
        status = trp_pack(type, trp_result_value(result), &packed);
        if (status == TROUPE_OK && packed.failed)
            status = troupe_fail(TROUPE_NO_MEMORY, "no memory for a call's result");
        data = packed.data;
        size = packed.size;
    }
    // Without room in the store the promise fails, which those who wait for it are told.
    if (status == TROUPE_OK)
        (void)trp_store_fulfil(promise, bytes ? TRP_ENCODING_BYTES : TRP_ENCODING_PACKED, data,
                               size, false);
    trp_buffer_free(&packed);
    return status;
}

static bool result_has_refs(const trp_result *result)
{
    if (result->kind == TRP_RESULT_VALUE)
        return result->shape.refs;
    trp_reader in = trp_reader_of(result->body.data, result->body.size);
    uint64_t count = 0;
    return trp_read_uint(&in, &count) == TROUPE_OK && count > 0;
}

static void fulfil(trp_object promise, const trp_result *result)
{
    troupe_error failure;
    if (result->kind != TRP_RESULT_FAILURE) {
        troupe_status status = TROUPE_UNSUPPORTED;
        if (result_has_refs(result))
            (void)troupe_fail(status, "a call whose result holds references was passed to another "
                                      "process as a reference: get it, and pass those on");
        else
            status = fulfil_value(promise, result);
        if (status == TROUPE_OK)
            return;
        failure = trp_failure_last(status, TROUPE_OUTCOME_FAILED, TROUPE_EXECUTED_YES);
    } else if (result->failure != NULL) {
        failure = *result->failure;
    } else {
        failure = trp_failure(TROUPE_NO_MEMORY, TROUPE_OUTCOME_FAILED, TROUPE_EXECUTED_MAYBE,
                              "no memory for a call's result");
    }
    trp_buffer packed = {0};
    trp_failure_write(&failure, &packed);
    if (packed.failed ||
        trp_store_fulfil(promise, TRP_ENCODING_PACKED, packed.data, packed.size, true) != TROUPE_OK)
        trp_log(TRP_ERROR, "a promised result could not be delivered: %s",
                troupe_last_error()->text);
    trp_buffer_free(&packed);
}

// Marks who waits as ready; the words of sleepers to be woken outside the lock go to `asleep`.
static int notify_all(trp_entry *entry, _Atomic uint32_t *asleep[WAKES])
{
    int count = 0;
    trp_wait_node *next;
    for (trp_wait_node *node = entry->waiters; node != NULL; node = next) {
        next = node->next;
        node->link = NULL;
        atomic_store(&node->ready, true);
        _Atomic uint32_t *word = &node->waiter->word;
        if (atomic_exchange(word, NOTIFIED) != ASLEEP)
            continue;
        if (count < WAKES)
            asleep[count++] = word;
        else
            trp_unpark(word, 1);
    }
    entry->waiters = NULL;
    return count;
}

bool trp_entry_resolve(uint64_t id, trp_result *result)
{
    trp_entry *entry = trp_entry_lock(id);
    if (entry == NULL || entry->kind != TRP_ENTRY_CALL || entry->done) {
        if (entry != NULL)
            pthread_mutex_unlock(&entry->lock);
        trp_result_free(result);
        return false;
    }
    _Atomic uint32_t *asleep[WAKES];
    entry->done = true;
    entry->result = *result;
    entry->holds++; // Ours, until all are told.
    int sleepers = notify_all(entry, asleep);
    trp_when *whens = entry->whens;
    entry->whens = NULL;
    trp_object promise = entry->promise;
    pthread_mutex_unlock(&entry->lock);

    for (int i = 0; i < sleepers; i++)
        trp_unpark(asleep[i], 1);
    if (promise != 0) {
        fulfil(promise, &entry->result); // It does not change any more, and is held.
        trp_entry_release(id);           // The promise's hold.
    }
    while (whens != NULL) {
        trp_when *when = whens;
        whens = when->next;
        trp_when_call(when);
        trp_entry_release(id);
    }
    trp_entry_release(id);
    return true;
}

bool trp_entry_fail(uint64_t id, const troupe_error *failure)
{
    trp_result result;
    trp_result_fail(&result, failure);
    return trp_entry_resolve(id, &result);
}

bool trp_entry_start(uint64_t id)
{
    trp_entry *entry = trp_entry_lock(id);
    if (entry == NULL)
        return true; // Nobody wants the result; the method runs all the same.
    bool runs = !entry->done && !entry->expired;
    entry->started = entry->started || runs;
    pthread_mutex_unlock(&entry->lock);
    return runs;
}

void trp_entry_sending(uint64_t id)
{
    trp_entry *entry = trp_entry_lock(id);
    if (entry == NULL)
        return;
    entry->sending = true;
    pthread_mutex_unlock(&entry->lock);
}

bool trp_entry_sent(uint64_t id, bool success)
{
    trp_entry *entry = trp_entry_lock(id);
    if (entry == NULL)
        return false;
    bool expired = entry->expired;
    entry->sending = false;
    entry->started = success; // From now on nobody here knows whether it runs.
    pthread_mutex_unlock(&entry->lock);
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
    pthread_mutex_unlock(&entry->lock);
    return behind;
}

uint64_t trp_entry_alias(troupe_ref ref, bool borrowed)
{
    uint64_t behind = trp_entry_behind(ref);
    bool object = (behind & TRP_REF_OBJECT) != 0;
    if (object ? trp_store_hold(behind, trp_process_slot()) != TROUPE_OK : !trp_entry_hold(behind))
        return 0;
    trp_entry *entry = take_row(TRP_ENTRY_ALIAS);
    if (entry == NULL) {
        release_object_or_call(behind);
        return 0;
    }
    entry->of = behind;
    entry->borrowed = borrowed;
    entry->schema = ref.schema;
    uint64_t id = entry->id;
    pthread_mutex_unlock(&entry->lock);
    return id;
}

bool trp_entry_disown(uint64_t id)
{
    trp_entry *entry = trp_entry_lock(id);
    if (entry == NULL)
        return false;
    bool mine = entry->owned && !entry->borrowed;
    if (mine)
        entry->owned = false;
    pthread_mutex_unlock(&entry->lock);
    return mine;
}

// The promised object of a CALL, made if there is none. `process` gets a hold of it.
static troupe_status promise_for(uint64_t call, uint32_t process, trp_object *object)
{
    trp_entry *entry = trp_entry_lock(call);
    if (entry == NULL)
        return troupe_fail(TROUPE_INVALID, "a reference in a message was consumed before");
    troupe_status status = TROUPE_OK;
    bool late = false;
    if (entry->promise == 0) {
        status = trp_store_promise(entry->schema, &entry->promise);
        if (status == TROUPE_OK)
            entry->holds++; // Until it is fulfilled.
        late = status == TROUPE_OK && entry->done;
    }
    if (status == TROUPE_OK)
        status = trp_store_hold(entry->promise, process);
    *object = entry->promise;
    pthread_mutex_unlock(&entry->lock);
    if (late) {
        fulfil(*object, &entry->result);
        trp_entry_release(call);
    }
    return status;
}

troupe_status trp_ref_export(troupe_ref *ref, uint32_t process)
{
    uint64_t behind = trp_entry_behind(*ref);
    if (behind == 0)
        return troupe_fail(TROUPE_INVALID, "a reference in a message is stale: it was consumed or "
                                           "dropped before");
    if ((behind & TRP_REF_OBJECT) == 0)
        return promise_for(behind, process, &ref->id);
    TROUPE_TRY(trp_store_hold(behind, process));
    ref->id = behind;
    return TROUPE_OK;
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
        pthread_mutex_lock(&entry->lock);
        uint64_t id = entry->id;
        bool hit = id != 0 && entry->kind == TRP_ENTRY_CALL && !entry->done &&
                   (incarnation == NULL || entry->target.incarnation == *incarnation);
        if (hit)
            describe(entry, user, &failure);
        pthread_mutex_unlock(&entry->lock);
        if (hit)
            (void)trp_entry_fail(id, &failure);
    }
}

void trp_entries_clear(void)
{
    uint32_t made = places_made();
    for (uint32_t place = 1; place < made; place++) {
        trp_entry *entry = entry_at(place);
        pthread_mutex_lock(&entry->lock);
        if (entry->id != 0 && entry->watched == 0 && entry->whens == NULL)
            free_row(entry);
        else
            pthread_mutex_unlock(&entry->lock);
    }
}
