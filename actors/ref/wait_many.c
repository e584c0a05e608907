// wait_many.c: waiting for many references at once, and reading many.
//
// A look without a lock tells most of what is ready. A thread that finds too little lets others run
// and looks again; only if it has to sleep is it put in the rows of what is not ready, with a
// count, so that only the last missing one wakes it.
#include <actors/class/class.h>
#include <actors/ref/ref.h>
#include <actors/ref/timer.h>
#include <actors/ref/waiter.h>
#include <actors/sched/scheduler.h>
#include <actors/sched/wait_notes.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/require.h>
#include <runtime/shm/process_table.h>
#include <sched.h>
#include <string.h>

typedef struct watched {
    trp_wait_node node;
    uint64_t behind;
    bool linked, ready;
} watched;

// ---- waiting

// Links what is pending; a reference that is stale or done is ready.
static void watch(watched *it, troupe_ref ref, trp_waiter *waiter)
{
    it->behind = trp_entry_behind(ref);
    trp_entry *entry = trp_entry_lock(it->behind);
    if (entry == NULL) {
        it->ready = (it->behind & TRP_REF_OBJECT) == 0 || !trp_process_running() ||
                    trp_object_ready(it->behind);
        return;
    }
    it->ready = entry->done;
    it->linked = !it->ready;
    if (it->linked)
        trp_wait_link(entry, &it->node, waiter);
    trp_entry_unlock(entry);
}

// Counts what is ready; *objects says whether an object is not.
static size_t count_ready(watched *all, size_t count, bool *objects)
{
    size_t ready = 0;
    *objects = false;
    for (size_t i = 0; i < count; i++) {
        watched *it = &all[i];
        if (!it->ready && it->linked)
            it->ready = atomic_load_explicit(&it->node.ready, memory_order_acquire);
        else if (!it->ready && !(it->ready = trp_object_ready(it->behind)))
            *objects = true;
        ready += it->ready;
    }
    return ready;
}

static size_t sleep_for_many(watched *all, size_t count, size_t needed, int64_t deadline_ns,
                             trp_waiter *waiter)
{
    enum { LOOK_NS = 1000000 }; // Nobody tells when an object is sealed.
    bool objects;
    for (;;) {
        atomic_store(&waiter->missing, TRP_WAIT_UNCOUNTED);
        size_t ready = count_ready(all, count, &objects);
        int64_t now = trp_clock_ns(), until_ns = deadline_ns;
        if (ready >= needed || trp_actors_stopping() || (deadline_ns >= 0 && now >= deadline_ns))
            return ready;
        if (objects && (until_ns < 0 || now + LOOK_NS < until_ns))
            until_ns = now + LOOK_NS;
        // From now on the last one wakes. Some may have ended since the count.
        int32_t excess = TRP_WAIT_UNCOUNTED - (objects ? 1 : (int32_t)(needed - ready));
        if (atomic_fetch_sub(&waiter->missing, excess) > excess)
            (void)trp_waiter_sleep(waiter, until_ns);
    }
}

// Sleeps in the rows of what is not ready until `needed` are; *found is how many.
static troupe_status wait_linked(const troupe_ref *refs, size_t count, size_t needed,
                                 int64_t deadline_ns, bool *ready, size_t *found)
{
    trp_waiter waiter = {.missing = TRP_WAIT_UNCOUNTED};
    watched *all = trp_alloc(count * sizeof *all);
    if (all == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to wait for %zu references", count);
    for (size_t i = 0; i < count; i++)
        watch(&all[i], refs[i], &waiter);
    *found = sleep_for_many(all, count, needed, deadline_ns, &waiter);
    for (size_t i = 0; i < count; i++) {
        if (all[i].linked) {
            trp_wait_unlink(all[i].behind, &all[i].node);
            trp_wait_unpin(all[i].behind);
        }
        if (ready != NULL)
            ready[i] = all[i].ready;
    }
    trp_free(all);
    return TROUPE_OK;
}

static bool is_ready(troupe_ref ref)
{
    if ((ref.id & TRP_REF_OBJECT) == 0)
        return trp_entry_ready(ref.id);
    return !trp_process_running() || trp_object_ready(ref.id);
}

// Waits until `needed` are ready and says which are; *found is how many.
static troupe_status wait_for_more(const troupe_ref *refs, size_t count, size_t needed,
                                   int timeout_ms, bool *ready, size_t *found)
{
    // To be put in many rows costs more than to look at them some more times, and who is to bring
    // the next result may need this CPU.
    enum { YIELDS = 4 };
    int64_t deadline_ns = trp_clock_deadline(timeout_ms);
    trp_wait_for(TRP_WAIT_MANY, count, 0);
    TROUPE_TRY(trp_scheduler_block());
    troupe_status status = TROUPE_OK;
    for (int i = 0; i < YIELDS && *found < needed; i++) {
        sched_yield();
        *found = trp_entries_ready(refs, count, ready, is_ready);
    }
    if (*found < needed)
        status = wait_linked(refs, count, needed, deadline_ns, ready, found);
    trp_scheduler_unblock();
    return status;
}

troupe_status troupe_wait(const troupe_ref *refs, size_t count, size_t needed, int timeout_ms,
                          bool *ready, size_t *ready_count)
{
    if (count > 0)
        TRP_REQUIRE(refs);
    if (needed > count || count > TRP_WAIT_UNCOUNTED)
        return troupe_fail(TROUPE_INVALID,
                           "%zu of %zu references cannot become ready ('needed' of 'count')",
                           needed, count);
    size_t found = trp_entries_ready(refs, count, ready, is_ready);
    troupe_status status = TROUPE_OK;
    if (found < needed && timeout_ms != 0)
        status = wait_for_more(refs, count, needed, timeout_ms, ready, &found);
    if (ready_count != NULL)
        *ready_count = found;
    if (status != TROUPE_OK)
        return status;
    return found >= needed ? TROUPE_OK
                           : troupe_fail(TROUPE_TIMED_OUT,
                                         "%zu of %zu references were ready in time, "
                                         "%zu were asked for",
                                         found, count, needed);
}

// ---- reading

static troupe_status give_up(troupe_ref ref)
{
    troupe_error failure = *troupe_last_error();
    failure.status = TROUPE_DEADLINE_EXCEEDED;
    troupe_ref_drop(ref);
    return trp_error_set(&failure);
}

// Waits until all are ready, from the last one on: mostly that is answered last, and who waits for
// it sleeps once.
static troupe_status await_all(const troupe_ref *refs, size_t count, int64_t deadline_ns)
{
    for (size_t i = count; i-- > 0;) {
        int64_t left_ms = -1;
        if (is_ready(refs[i]))
            continue;
        if (deadline_ns >= 0) {
            left_ms = (deadline_ns - trp_clock_ns() + 999999) / 1000000;
            left_ms = left_ms < 0 ? 0 : left_ms > INT32_MAX ? INT32_MAX : left_ms;
        }
        if (trp_ref_await(refs[i], (int)left_ms) == TROUPE_TIMED_OUT)
            return TROUPE_TIMED_OUT;
        // Any other failure is what reading it will say.
    }
    return TROUPE_OK;
}

troupe_status troupe_get_all_as(const troupe_type *type, const troupe_ref *refs, size_t count,
                                void *values, int timeout_ms)
{
    TRP_REQUIRE(type);
    if (count > 0)
        TRP_REQUIRE(refs);
    if (count > 0)
        TRP_REQUIRE(values);
    TRP_REQUIRE_COUNT(count, sizeof *refs);
    TROUPE_TRY(trp_type_check(type));
    TROUPE_TRY(await_all(refs, count, trp_clock_deadline(timeout_ms)));
    troupe_error first = {.status = TROUPE_OK};
    for (size_t i = 0; i < count; i++) {
        void *value = (unsigned char *)values + i * type->size;
        troupe_status status = troupe_get_as(type, refs[i], value, TROUPE_FOREVER);
        if (status == TROUPE_OK)
            continue;
        if (status == TROUPE_TIMED_OUT) // Others are consumed already, so this one is lost.
            (void)give_up(refs[i]);
        memset(value, 0, type->size);
        if (first.status == TROUPE_OK)
            first = *troupe_last_error();
    }
    return first.status == TROUPE_OK ? TROUPE_OK : trp_error_set(&first);
}
