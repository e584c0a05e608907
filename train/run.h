// run.h: a run while its coordinator lives: its attempts, its stages, and how it ends.
//
// Private to coordinator.c (the actor and its messages), attempt.c, attempt_end.c, run_stage.c and
// run_end.c, which all run on the coordinator's turns.
//
//     trp_attempt_start -> ranks run -> each rank's end -> (all ended) trp_attempt_over -> start
//                               |                                                     -> finish
//                               +- a failure: the group is ended; the other ranks are killed, or
//                                  leave their loops and are those of the next attempt
//
// A trainer's stages lie between: setup before the first attempt, that of the data before each,
// on_start before the loops of an attempt, on_shutdown before trp_attempt_over goes on. Each runs
// on a thread of its own and ends as a message.
//
// The invariant: while `pending` > 0 ranks of this attempt may run, and nothing of the next one is
// begun. A process is replaced once it has ended. So a job never has more processes than it has
// reserved CPUs for.
#ifndef TRP_RUN_H
#define TRP_RUN_H

#include <runtime/store/store.h>
#include <train/commits.h>
#include <train/committer.h>
#include <train/coordinator.h>
#include <train/memory_commit.h>
#include <train/rank_log.h>
#include <train/record.h>
#include <train/reports.h>
#include <train/stage.h>
#include <train/worker.h>

// What says that a rank has ended; it may outlive the run.
typedef struct trp_rank_watch {
    trp_job *job; // Held.
    trp_coordinator_actor coordinator;
    trp_rank_event event;
} trp_rank_watch;

typedef struct trp_rank_state {
    trp_worker_actor worker;
    trp_place place;
    troupe_ref end;       // id 0: over.
    trp_rank_watch *told; // Who will say that it is over.
    int pid;
    bool killed;              // By this coordinator.
    bool to_kill;             // The word to kill it was lost.
    bool kept;                // Its process is that of the last attempt.
    bool monitored, told_end; // The coordinator will be told of the worker's end, and was.
} trp_rank_state;

// Why an attempt failed. A rank that only lost its peers does not count where one with a reason of
// its own is known.
typedef struct trp_cause {
    bool known, own;
    int rank;
    troupe_status status;
    char text[700];
} trp_cause;

// What goes on once processes that were killed have ended.
typedef enum trp_run_next {
    TRP_NEXT_NONE,
    TRP_NEXT_ATTEMPT,
    TRP_NEXT_REST,
    TRP_NEXT_END
} trp_run_next;

typedef struct trp_run {
    trp_job *job;
    trp_coordinator_actor self;
    trp_record record;
    trp_reports reports;
    trp_commits commits; // Of this attempt, not handed over yet.
    trp_memory_commits memory;
    trp_committer committer;
    trp_object region_object;
    const trp_engine *engine; // Of its groups.
    trp_control *control;     // NULL: no group.
    trp_rank_state *ranks;
    trp_rank_logs *logs;
    int room;       // Of `ranks`.
    int world;      // Ranks of this attempt,
    int last_world; // and of the last one that was formed; 0: there was none.
    int first_attempt, attempt, pending;
    int restarts;     // After failures.
    bool restarted;   // This attempt follows one.
    bool resting;     // There is no group, and none is formed until the job has what it needs.
    bool closing;     // All ranks have ended, and commits have not.
    trp_stage *stage; // That runs; NULL: none.
    trp_stage_kind stage_kind;
    int stage_number;   // Of the last one.
    trp_data_sets data; // Of this attempt.
    int first_report;   // Of this attempt,
    trp_path origin;    // and the checkpoint that it goes on from; "": none.
    bool from_memory;   // It goes on from the last commit in memory instead.
    trp_run_next next;  // What waits for processes to end.
    int64_t waits_ms;   // Since when.
    bool looks;         // It looks for their end at some time, told or not.
    int unstarted;      // Ranks of this attempt whose process could not be started.
    bool ranks_leave;   // The ranks of this attempt are leaving their loops after a failure.
    int lost;           // The last report whose checkpoint was lost with a rank, and that is not
                        // made again; 0: none.
    bool suspect;       // A stage of this attempt failed, and may have left its ranks in any state.
    bool shuts_down;    // on_shutdown of this attempt is to be called.
    bool begun;         // A group has started.
    bool stopped;       // A rank has seen the stop.
    bool given_up;      // The job was, by its user.
    bool finished;
    int64_t reported_ns; // When the last report was whole.
    trp_cause cause;
} trp_run;

// ---- coordinator.c

// Has this coordinator told, after that time. False: it will not be.
bool trp_run_remind_after(uint32_t ms, int attempt, int stage);
// Has this coordinator told of the end of a worker. False: it will not be.
bool trp_run_monitor(trp_worker_actor worker);

// ---- attempt.c

// Begins the attempt run->attempt; or ends the run, if that was asked for meanwhile.
void trp_attempt_start(trp_run *run);
// Its data were made, if the run has some; with the thread's last error, if that failed.
void trp_attempt_data_made(trp_run *run, troupe_status status);
// Calls the loops of all ranks, whose on_start is over.
void trp_attempt_run_ranks(trp_run *run);
// Whether the rank has a process that is to stay.
bool trp_rank_is_there(const trp_rank_state *state);
// NULL does nothing.
void trp_rank_watch_drop(trp_rank_watch *told);

// ---- attempt_end.c

// The loop of a rank is over, one way or the other.
void trp_attempt_take_end(trp_run *run, int rank);
// Hands over what can be committed, in the order of reports; takes what has been.
void trp_attempt_hand_commits(trp_run *run);
void trp_attempt_take_commits(trp_run *run);
// No rank runs any more: decides what comes next.
void trp_attempt_over(trp_run *run);
void trp_attempt_kill_ranks(trp_run *run);
// Those that have left their loops stay, for on_shutdown and the next attempt.
void trp_attempt_kill_loops(trp_run *run);
// Those of which the word was lost.
void trp_attempt_kill_again(trp_run *run);
void trp_attempt_leave_group(trp_run *run);
// The worker has ended, which most often means its process has.
void trp_attempt_note_end(trp_run *run, troupe_actor worker);
// Whether what comes next may: the processes that were killed have ended, for the next attempt
// those that are to be replaced, else all. False: the coordinator goes on with it when they have.
bool trp_attempt_are_gone(trp_run *run, trp_run_next next);

// ---- run_stage.c

// The time of on_shutdown, and of on_start once the run is ended by force. Tests make it shorter.
extern int trp_run_stage_end_ms;

// Begins a stage, if the trainer has it: then run->stage is it.
troupe_status trp_run_begin_stage(trp_run *run, trp_stage_kind kind);
// Begins on_shutdown of this attempt, once. False: there is nothing to wait for.
bool trp_run_shut_down(trp_run *run);
// The ranks are there, and on_start is over; with the thread's last error, if it failed.
void trp_run_group_started(trp_run *run, troupe_status status);
void trp_run_setup_over(trp_run *run, troupe_status status);
// Goes on if the stage is over.
void trp_run_take_stage(trp_run *run);
// Goes on without a stage, which is left to itself.
void trp_run_give_up_stage(trp_run *run);
// The run is ended by force while a stage runs.
void trp_run_kill_stage(trp_run *run);

// ---- run_rest.c

// The group has left for a pause or to be formed anew: gives back what the job holds, and waits
// until it has what the next group needs, or is to end. That has `most` ranks at most; 0: as many
// as are wished.
void trp_run_rest(trp_run *run, int most);
// Goes on with that, when the processes of the group have ended.
void trp_run_rest_on(trp_run *run);
// A group of another size cannot be formed, for the thread's last error: goes back to the size
// before. False: that is not why it failed.
bool trp_run_rest_as_before(trp_run *run, troupe_status status);
// While it rests: whether it is to end now, or what it needs is there.
void trp_run_look(trp_run *run);

// ---- run_end.c

void trp_run_finish(trp_run *run, troupe_status status);
// Gives back what the job holds, when its processes have ended, or at once where they have no more
// need of it: the last that a coordinator does.
void trp_run_let_go(trp_run *run);
// Ends the run for a reason that lies outside its ranks, with the thread's last error.
void trp_run_fail(trp_run *run, troupe_status status);
// Whether the job was given up; then that is how it ends, whatever its ranks did meanwhile.
bool trp_run_finish_given_up(trp_run *run);
// Why the attempt fails: `own` is a reason of the rank's own (-1: of none).
void trp_run_note_cause(trp_run *run, int rank, troupe_status status, bool own, const char *text);

#endif
