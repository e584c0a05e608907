// coordinator.h: the actor that runs one job: forms the group, takes reports, decides on failures.
#ifndef TRP_COORDINATOR_H
#define TRP_COORDINATOR_H

#include <train/commits.h>
#include <train/job.h>
#include <train/reports.h>
#include <troupe/life.h>

// That a rank's loop has ended, one way or the other.
TROUPE_STRUCT(trp_rank_event, (int, attempt), (int, rank));

// That the time of something is over: of the stage with that number; with 0, of the ranks of that
// attempt to leave their loops; or to look which processes have ended that it is to replace.
enum { TRP_ENDED_PROCESSES = -1 };
TROUPE_STRUCT(trp_overdue, (int, attempt), (int, stage));

// A report with the rank's state in memory.
TROUPE_STRUCT(trp_stated_report, (trp_report, report), (troupe_ref, state));

typedef struct trp_coordinator {
    struct trp_run *run;
} trp_coordinator;

troupe_status trp_coordinator_init(trp_coordinator *self, const uint64_t *job);
void trp_coordinator_deinit(trp_coordinator *self);
troupe_status trp_coordinator_begin(trp_coordinator *self, const troupe_none *none,
                                    troupe_none *result);
// From a rank: answered once it is recorded.
troupe_status trp_coordinator_report(trp_coordinator *self, const trp_report *report,
                                     troupe_none *result);
troupe_status trp_coordinator_report_state(trp_coordinator *self, const trp_stated_report *report,
                                           troupe_none *result);
// From a rank's writer: the files that it announced with a report are written, or torn. 0: this was
// not taken note of, since earlier ones are still being committed, and is to be said again.
troupe_status trp_coordinator_written(trp_coordinator *self, const trp_written *written,
                                      int *taken);
// From the committer: something is over.
troupe_status trp_coordinator_committed(trp_coordinator *self, const troupe_none *none,
                                        troupe_none *result);
troupe_status trp_coordinator_ended(trp_coordinator *self, const trp_rank_event *event,
                                    troupe_none *result);
// To look whether a stage or a commit is over, and which ranks have ended, because word of one was
// lost for lack of memory.
troupe_status trp_coordinator_look(trp_coordinator *self, const troupe_none *none,
                                   troupe_none *result);
troupe_status trp_coordinator_kill(trp_coordinator *self, const troupe_none *none,
                                   troupe_none *result);
troupe_status trp_coordinator_overdue(trp_coordinator *self, const trp_overdue *what,
                                      troupe_none *result);
// That the process of a rank has ended for which it waits.
troupe_status trp_coordinator_gone(trp_coordinator *self, const troupe_down *down,
                                   troupe_none *result);
TROUPE_ACTOR_INIT(trp_coordinator, (trp_coordinator_init, uint64_t), trp_coordinator_deinit,
                  (trp_coordinator_begin, troupe_none, troupe_none),
                  (trp_coordinator_report, trp_report, troupe_none),
                  (trp_coordinator_report_state, trp_stated_report, troupe_none),
                  (trp_coordinator_written, trp_written, int),
                  (trp_coordinator_committed, troupe_none, troupe_none),
                  (trp_coordinator_ended, trp_rank_event, troupe_none),
                  (trp_coordinator_look, troupe_none, troupe_none),
                  (trp_coordinator_kill, troupe_none, troupe_none),
                  (trp_coordinator_overdue, trp_overdue, troupe_none),
                  (trp_coordinator_gone, troupe_down, troupe_none));

// Starts a coordinator for an admitted job; false: the job has ended because it could not be made.
// It tells the server when the job has ended.
bool trp_coordinator_start(trp_job *job);
// Sees to it that a lost word is made good.
void trp_coordinator_remind(trp_job *job);
// Ends the workers of a job that was given up now, if it has any. May be asked again.
void trp_coordinator_kill_group(trp_job *job);

#endif
