// port.h: how the coordinator's side of a job reaches the one who submitted it.
//
// The server and the coordinator know of their user this table alone: what happens is told through
// it, and what the user wishes is read through it, as levels: the newest counts, and who has
// changed one has trp_job_look called. In this version the table leads to the handle in the same
// process (handle.c).
//
// The functions are called by one thread at a time and in the order of what happened; some with the
// job's lock, so they may not wait, but for `ask`, and may call nothing of job.h. What they are
// given is borrowed.
#ifndef TRP_PORT_H
#define TRP_PORT_H

#include <runtime/base/log.h>
#include <train/console_text.h>
#include <train/log_queue.h>
#include <train/memory_commit.h>
#include <train/reports.h>
#include <train/run_journal.h>
#include <troupe/train.h>

// A job that was taken on.
TROUPE_STRUCT(trp_accepted, (troupe_text, path),
              (troupe_text, folder),          // Of the run, and on its machine.
              (double, cpus), (double, gpus), // That it has once it runs.
              (int, expected_reports), (double, time_limit_s), (int, ranks), (int, reports),
              (int, restarts), (double, elapsed_s), // From before.
              (int64_t, journal));                  // Where what happens from now on lies.

// A change of its state.
TROUPE_STRUCT(trp_state_change, (int, state), (int, restarts), (int, ranks),
              (double, elapsed_s), // That the run has taken until now,
              (bool, goes_on));    // and whether that time runs.

// How it ended.
TROUPE_STRUCT(trp_outcome, (int, status), (troupe_text, error),
              (troupe_text, cause), // What the error begins with; NULL: it is no more than that.
              (bool, stopped), (int, reports), (int, restarts), (troupe_array_trp_metric, metrics),
              (troupe_text, checkpoint), // NULL: there is none; so for the next.
              (troupe_text, best), (troupe_text, path), (double, elapsed_s),
              (troupe_bytes, value), // That rank 0 returned, packed.
              (uint64_t, value_schema),
              (double, loop_s),     // Since the first group started; 0: none has.
              (double, written_s)); // That writing the last files took.

// What the user wishes.
TROUPE_STRUCT(trp_wishes, (bool, stop), // At the next report that no rank has passed,
              (bool, stop_next),        // also where a checkpoint would be due with the one after.
              (bool, pause),            // As a stop, to go on when it is wished no more.
              (int, ranks),
              (int, resizes),      // Of its groups; and how often that was wished: 0: never.
              (int, kill),         // Not TROUPE_OK: at once, and that is how the run ends,
              (troupe_text, why)); // for this reason, which lives as long as the port.

// Who is told of the lines that ranks print: from a thread of its own, also after the end of the
// job, by those that have a hold.
typedef struct trp_log_sink_class {
    void (*hold)(void *user);
    void (*release)(void *user);
    void (*begin)(void *user); // Something prints to a log of the run;
    void (*lines)(void *user, const trp_log_piece *piece);
    void (*end)(void *user); // and does not any more.
} trp_log_sink_class;

typedef struct trp_log_sink {
    const trp_log_sink_class *is; // NULL: nobody.
    void *user;
} trp_log_sink;

// `lines` is where what is told lies in the run's journal.
typedef struct trp_port_class {
    // Before all else.
    void (*accepted)(void *user, const trp_accepted *what);
    void (*progress)(void *user, const trp_state_change *what, trp_lines lines);
    // The processes of a group.
    void (*group)(void *user, const trp_console_rank *ranks, int count);
    // `event` is NULL for one that was delivered before a restart.
    void (*report)(void *user, int number, double elapsed_s, const troupe_report_event *event,
                   trp_lines lines);
    void (*checkpoint)(void *user, const troupe_checkpoint_event *event, trp_lines lines);
    // Live values have taken effect.
    void (*modified)(void *user, const troupe_live_event *event, trp_lines lines);
    // Which are the newest and the best from now on, by number; -1: there is none.
    void (*checkpoints)(void *user, int64_t newest, int64_t best);
    // The last states that were committed in memory: references, of which the user keeps its own.
    void (*committed)(void *user, trp_memory_commit *commit);
    trp_log_sink (*logs)(void *user);
    // A sentence for people, or for the log at that level.
    void (*say)(void *user, trp_level level, const char *text);
    // Has the gate decide on a report that it named, and waits at most so long. The answer is a
    // wish, set when this returns.
    void (*ask)(void *user, const troupe_report_event *event, int timeout_ms);
    void (*wishes)(void *user, trp_wishes *wishes);
    // The last one. NULL: there is no memory for how it ended.
    void (*done)(void *user, const trp_outcome *outcome);
    // The port is not used any more.
    void (*let_go)(void *user);
} trp_port_class;

typedef struct trp_port {
    const trp_port_class *is;
    void *user;
} trp_port;

#endif
