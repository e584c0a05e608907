// memory_commit.h: the states that ranks have given to open reports, and the last commit in memory.
//
// A commit has the states of one report, of all ranks or of rank 0 alone. It never changes, and is
// shared by count. See docs/internals/train/commits.md.
#ifndef TRP_MEMORY_COMMIT_H
#define TRP_MEMORY_COMMIT_H

#include <runtime/store/store.h>
#include <stdatomic.h>
#include <train/reports.h>
#include <troupe/train.h>

typedef struct trp_memory_commit {
    _Atomic int holds;
    uint64_t incarnation; // Of the process while its runtime has the states.
    int report, world;
    int given;           // States that there are.
    trp_object states[]; // By rank, held by this process; 0: none.
} trp_memory_commit;

// What one report has so far.
typedef struct trp_memory_open {
    int number;                // Of the report; 0: none.
    bool torn;                 // A state of it could not be kept.
    trp_memory_commit *states; // NULL: none yet.
} trp_memory_open;

typedef struct trp_memory_commits {
    trp_memory_open open[TRP_REPORTS_OPEN]; // By number.
    trp_memory_commit *last;                // NULL: none.
} trp_memory_commits;

// Takes what a rank gave with its report `number`, which was taken: a state, of which this process
// gets a hold of its own, or 0 for one that could not be kept.
void trp_memory_commits_take(trp_memory_commits *all, int world, int rank, int number,
                             trp_object state);
// A report is whole: true if its states are the last commit now.
bool trp_memory_commits_whole(trp_memory_commits *all, int number);
// Lets the states of open reports go.
void trp_memory_commits_drop_open(trp_memory_commits *all);
void trp_memory_commits_clear(trp_memory_commits *all);

// Both are harmless on NULL.
trp_memory_commit *trp_memory_commit_hold(trp_memory_commit *commit);
void trp_memory_commit_release(trp_memory_commit *commit);
// The state that a rank goes on from: its own, or rank 0's where there is none.
trp_object trp_memory_commit_state(const trp_memory_commit *commit, int rank);
// Whether the runtime that has its states still runs.
bool trp_memory_commit_is_there(const trp_memory_commit *commit);
// That a group of `world` ranks can go on from it: not if its ranks committed parts of their own,
// which others cannot read, as they can read the folder of a checkpoint. TROUPE_INVALID.
troupe_status trp_memory_commit_world(const trp_memory_commit *commit,
                                      const troupe_trainer *trainer, int world);
// Reads the state of a rank of the run at `run` into the thread's arena. TROUPE_NOT_FOUND: there is
// no commit (NULL), or it has no such rank; TROUPE_NOT_STARTED: its runtime was stopped.
troupe_status trp_memory_commit_read(const trp_memory_commit *commit, const char *run, int rank,
                                     const troupe_type *type, void *value);

#endif
