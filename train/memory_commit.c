// memory_commit.c: see memory_commit.h.
#include <runtime/base/arena.h>
#include <runtime/base/memory.h>
#include <runtime/shm/process_table.h>
#include <runtime/shm/segment_guard.h>
#include <runtime/store/read.h>
#include <stdio.h>
#include <string.h>
#include <train/memory_commit.h>
#include <train/memory_state.h>

// ---- one

bool trp_memory_commit_is_there(const trp_memory_commit *commit)
{
    return trp_process_running() && trp_process_incarnation() == commit->incarnation;
}

static trp_memory_commit *make(int report, int world)
{
    size_t size = sizeof(trp_memory_commit) + (size_t)world * sizeof(trp_object);
    trp_memory_commit *made = (trp_memory_commit *)trp_alloc(size);
    if (!made)
        return NULL;
    atomic_init(&made->holds, 1);
    made->incarnation = trp_process_incarnation();
    made->report = report;
    made->world = world;
    return made;
}

trp_memory_commit *trp_memory_commit_hold(trp_memory_commit *commit)
{
    if (commit) // Whoever has it holds it.
        atomic_fetch_add(&commit->holds, 1);
    return commit;
}

static void release_states(const trp_memory_commit *commit)
{
    TRP_USE_SEGMENT(); // Else they went with it.
    for (int rank = 0; rank < commit->world && trp_memory_commit_is_there(commit); rank++)
        if (commit->states[rank] != 0)
            trp_store_release(commit->states[rank], trp_process_slot());
}

void trp_memory_commit_release(trp_memory_commit *commit)
{
    // Releases this holder's reads, and acquires those of all others before the memory goes.
    if (!commit || atomic_fetch_sub(&commit->holds, 1) > 1)
        return;
    release_states(commit);
    trp_free(commit);
}

trp_object trp_memory_commit_state(const trp_memory_commit *commit, int rank)
{
    trp_object own = rank < commit->world ? commit->states[rank] : 0;
    return own != 0 ? own : commit->states[0];
}

troupe_status trp_memory_commit_read(const trp_memory_commit *commit, const char *run, int rank,
                                     const troupe_type *type, void *value)
{
    char whose[64];
    if (!commit)
        return troupe_fail(TROUPE_NOT_FOUND, "the run at %s has no commit in memory", run);
    if (rank < 0 || rank >= commit->world)
        return troupe_fail(TROUPE_NOT_FOUND, "there is no rank %d in the run at %s: it has %d",
                           rank, run, commit->world);
    if (!trp_memory_commit_is_there(commit))
        return troupe_fail(TROUPE_NOT_STARTED,
                           "the commit of the run at %s went with its runtime, which was stopped",
                           run);
    snprintf(whose, sizeof(whose), "the state of rank %d in memory, of report %d", rank,
             commit->report);
    return trp_memory_state_read(trp_memory_commit_state(commit, rank), whose, type,
                                 trp_arena_current(), value);
}

// ---- with another number of ranks

static bool are_alike(trp_object one, trp_object other)
{
    trp_object_info a = trp_store_pin(one), b = trp_store_pin(other);
    bool pinned_a = a.state == TRP_OBJECT_SEALED, pinned_b = b.state == TRP_OBJECT_SEALED;
    bool alike = pinned_a && pinned_b && a.schema == b.schema && a.size == b.size &&
                 memcmp(a.data, b.data, a.size) == 0;
    if (pinned_a)
        trp_store_unpin(one);
    if (pinned_b)
        trp_store_unpin(other);
    return alike;
}

troupe_status trp_memory_commit_world(const trp_memory_commit *commit,
                                      const troupe_trainer *trainer, int world)
{
    if (world == commit->world || commit->given == 1)
        return TROUPE_OK;
    TRP_USE_SEGMENT(trp_use_refused());
    if (!trp_memory_commit_is_there(commit))
        return troupe_fail(TROUPE_NOT_STARTED,
                           "the commit of report %d went with its runtime, which was stopped",
                           commit->report);
    for (int rank = 1; rank < commit->world; rank++)
        if (!are_alike(commit->states[0], commit->states[rank]))
            return troupe_fail(TROUPE_INVALID,
                               "%d ranks of '%s' cannot go on from report %d: each of its %d ranks "
                               "committed a part of its own, in memory, which only that rank is "
                               "given again",
                               world, trainer->name, commit->report, commit->world);
    return TROUPE_OK;
}

// ---- open ones

static void clear(trp_memory_open *open)
{
    trp_memory_commit_release(open->states);
    *open = (trp_memory_open){0};
}

static bool take(trp_memory_open *open, int world, int rank, trp_object state)
{
    if (!open->states)
        open->states = make(open->number, world);
    if (!open->states || trp_store_hold(state, trp_process_slot()) != TROUPE_OK)
        return false;
    open->states->states[rank] = state;
    open->states->given++;
    return true;
}

void trp_memory_commits_take(trp_memory_commits *all, int world, int rank, int number,
                             trp_object state)
{
    trp_memory_open *open = &all->open[number % TRP_REPORTS_OPEN];
    if (open->number != number)
        clear(open);
    open->number = number;
    // What is missing for that reason is not to look as if the rank had given nothing.
    if (state == 0 || !take(open, world, rank, state))
        open->torn = true;
}

bool trp_memory_commits_whole(trp_memory_commits *all, int number)
{
    trp_memory_open *open = &all->open[number % TRP_REPORTS_OPEN];
    const trp_memory_commit *states = open->number == number ? open->states : NULL;
    bool whole = states && !open->torn &&
                 (states->given == states->world || (states->given == 1 && states->states[0] != 0));
    if (whole) {
        trp_memory_commit_release(all->last);
        all->last = open->states;
        open->states = NULL;
    }
    clear(open);
    return whole;
}

void trp_memory_commits_drop_open(trp_memory_commits *all)
{
    for (int i = 0; i < TRP_REPORTS_OPEN; i++)
        clear(&all->open[i]);
}

void trp_memory_commits_clear(trp_memory_commits *all)
{
    trp_memory_commits_drop_open(all);
    trp_memory_commit_release(all->last);
    all->last = NULL;
}
