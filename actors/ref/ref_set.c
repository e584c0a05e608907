// ref_set.c: references that are taken out of a set in the order in which they become ready.
//
// Each reference gets a callback that moves it from `pending` to the list of what is ready, so a
// wait costs the same however many others are in the set. A set that is closed lives until its last
// callback has run.
#include <actors/ref/ref.h>

#include <actors/sched/scheduler.h>
#include <actors/sched/wait_notes.h>
#include <runtime/base/clock.h>
#include <runtime/base/memory.h>
#include <runtime/base/require.h>
#include <runtime/link/park.h>

typedef struct member {
    struct member *next;
    troupe_ref_set *set;
    troupe_ref ref;
    void *tag;
} member;

struct troupe_ref_set {
    pthread_mutex_t lock;  // Of all that follows.
    member *first, **last; // Ready, the oldest first.
    size_t pending;        // Callbacks that have not run.
    size_t sleepers;
    bool closed;
    _Atomic uint32_t changes; // Rises with each that becomes ready; its sleepers park on it.
};

troupe_status troupe_ref_set_open(troupe_ref_set **set)
{
    TRP_REQUIRE(set);
    *set = trp_alloc(sizeof **set);
    if (*set == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a set of references");
    pthread_mutex_init(&(*set)->lock, NULL);
    (*set)->last = &(*set)->first;
    return TROUPE_OK;
}

// Frees a closed set that no callback will use. Unlocks it.
static void leave(troupe_ref_set *set)
{
    bool over = set->closed && set->pending == 0;
    pthread_mutex_unlock(&set->lock);
    if (!over)
        return;
    pthread_mutex_destroy(&set->lock);
    trp_free(set);
}

static void become_ready(void *user, troupe_ref ref)
{
    (void)ref;
    member *mine = user;
    troupe_ref_set *set = mine->set;
    pthread_mutex_lock(&set->lock);
    set->pending--;
    if (set->closed) {
        trp_free(mine);
    } else {
        mine->next = NULL;
        *set->last = mine;
        set->last = &mine->next;
        atomic_fetch_add(&set->changes, 1);
        if (set->sleepers > 0)
            trp_unpark(&set->changes, 1);
    }
    leave(set);
}

troupe_status troupe_ref_set_add(troupe_ref_set *set, troupe_ref ref, void *tag)
{
    TRP_REQUIRE(set);
    member *mine = trp_alloc(sizeof *mine);
    if (mine == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a reference in a set");
    *mine = (member){.set = set, .ref = ref, .tag = tag};
    pthread_mutex_lock(&set->lock);
    set->pending++;
    pthread_mutex_unlock(&set->lock);
    trp_ref_when(ref, become_ready, mine);
    return TROUPE_OK;
}

// Sleeps until something may be ready. With the lock held, which it gives up meanwhile.
static troupe_status sleep_for_any(troupe_ref_set *set, int64_t deadline_ns)
{
    uint32_t seen = atomic_load(&set->changes);
    set->sleepers++;
    pthread_mutex_unlock(&set->lock);
    trp_wait_for(TRP_WAIT_MANY, 0, 0);
    troupe_status status = trp_scheduler_block();
    if (status == TROUPE_OK) {
        trp_spin(&set->changes, seen);
        if (atomic_load(&set->changes) == seen)
            trp_park(&set->changes, seen, deadline_ns);
        trp_scheduler_unblock();
    }
    pthread_mutex_lock(&set->lock);
    set->sleepers--;
    return status;
}

troupe_status troupe_ref_set_next(troupe_ref_set *set, int timeout_ms, troupe_ref *ref, void **tag)
{
    TRP_REQUIRE(set);
    TRP_REQUIRE(ref);
    int64_t deadline_ns = trp_clock_deadline(timeout_ms);
    troupe_status status = TROUPE_OK;
    pthread_mutex_lock(&set->lock);
    while (set->first == NULL && set->pending > 0 && status == TROUPE_OK) {
        if (deadline_ns >= 0 && trp_clock_ns() >= deadline_ns)
            status = troupe_fail(TROUPE_TIMED_OUT, "none of %zu references was ready in time",
                                 set->pending);
        else
            status = sleep_for_any(set, deadline_ns);
    }
    member *found = set->first;
    if (found != NULL && (set->first = found->next) == NULL)
        set->last = &set->first;
    pthread_mutex_unlock(&set->lock);
    if (found == NULL)
        return status != TROUPE_OK
                   ? status
                   : troupe_fail(TROUPE_NOT_FOUND, "the set has no references any more");
    *ref = found->ref;
    if (tag != NULL)
        *tag = found->tag;
    trp_free(found);
    return TROUPE_OK;
}

void troupe_ref_set_close(troupe_ref_set *set)
{
    if (set == NULL)
        return;
    pthread_mutex_lock(&set->lock);
    set->closed = true;
    while (set->first != NULL) {
        member *left = set->first;
        set->first = left->next;
        trp_free(left);
    }
    leave(set);
}
