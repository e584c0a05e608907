// followers.h: those who follow a job: the one that it was submitted with, and those of later
// submissions with its key, which are told all that has happened too.
//
// A part of the job's handle, under its lock. For one that comes later it is kept where the run's
// journal begins and ends for it, and where the lines of ranks lie; both are read back.
#ifndef TRP_FOLLOWERS_H
#define TRP_FOLLOWERS_H

#include <train/follow.h>
#include <train/port.h>

typedef struct trp_followers {
    trp_follow *first; // NULL: none.
    bool may_come;     // The job has a key. Else nothing of the rest is kept.
    int journal;       // A descriptor; 0: none.
    off_t begun, told; // What has been told of this job lies between.
    bool lost;         // Something is not there.
    bool ended;
    trp_log_queue logs; // All that ranks have printed.
    int logs_open;      // What may print still.
} trp_followers;

// With the lock. Each tells all followers.
void trp_followers_accepted(trp_followers *all, const trp_accepted *what);
void trp_followers_state(trp_followers *all, troupe_job_state state, trp_lines lines);
void trp_followers_report(trp_followers *all, const troupe_report_event *event, trp_lines lines);
void trp_followers_checkpoint(trp_followers *all, const troupe_checkpoint_event *event,
                              trp_lines lines);
void trp_followers_modified(trp_followers *all, const troupe_live_event *event, trp_lines lines);
void trp_followers_end(trp_followers *all);

// Without the lock.
// Whom lines of ranks are told.
trp_log_sink trp_followers_sink(troupe_job *job);
// Adds one, which is told everything from the beginning. TROUPE_NO_MEMORY.
troupe_status trp_followers_add(troupe_job *job, const troupe_follower *follower);
// Whether one of them is calling at this moment, on this thread.
bool trp_followers_is_caller(const trp_followers *all);
// Tells them nothing more.
void trp_followers_abandon(trp_followers *all);
// Waits until each was told all, the end included.
void trp_followers_await(const trp_followers *all);
void trp_followers_free(trp_followers *all);

#endif
