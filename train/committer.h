// committer.h: the thread of a job on which checkpoints are committed and removed, so that no sync
// of the disk keeps an actor of the driver waiting.
//
// The coordinator hands it a commit, and is told when one is over (trp_coordinator_committed); it
// then decides what follows (a line in the journal that is to last, checkpoints that are not kept
// any more) and hands that back, and is told again. All functions are the coordinator's, but for
// what runs on the thread.
#ifndef TRP_COMMITTER_H
#define TRP_COMMITTER_H

#include <pthread.h>
#include <train/commits.h>
#include <troupe/actor.h>

struct trp_job;

typedef struct trp_committer {
    struct trp_job *job;                           // Held by the coordinator.
    void (*tell)(struct trp_committer *committer); // That something is over; on the thread.
    troupe_actor coordinator;
    trp_serial *thread; // Made with the first commit; NULL: without one.
    int busy;           // Handed over, and not taken back yet.
    bool run_lasts;     // What else a run needs to go on from a commit does. Of the thread.
    pthread_mutex_t lock;
    trp_commit *finished; // Newest first.
} trp_committer;

void trp_committer_init(trp_committer *committer, struct trp_job *job);
// Hands over a commit: to be made, or what follows from it.
void trp_committer_hand(trp_committer *committer, trp_commit *commit);
// Takes back the oldest that is over; NULL: none is.
trp_commit *trp_committer_take(trp_committer *committer);
// Waits for what was handed over, and frees it.
void trp_committer_end(trp_committer *committer);

#endif
