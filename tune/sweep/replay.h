// replay.h: reads back what a sweep that was killed has left in its trials.jsonl, a line at a time.
#ifndef TRP_TUNE_REPLAY_H
#define TRP_TUNE_REPLAY_H

#include <runtime/base/arena.h>
#include <runtime/codec/json.h>
#include <tune/sweep/sweep.h>

// What a trial is known to have done before.
typedef struct trp_replayed {
    int trial;
    enum {
        TRP_REPLAYED_BEGUN, // It has a point.
        TRP_REPLAYED_AGAIN, // It was paused, and goes on.
        TRP_REPLAYED_SUBMITTED,
        TRP_REPLAYED_RUN,
        TRP_REPLAYED_REPORT,
        TRP_REPLAYED_CHECKPOINT,
        TRP_REPLAYED_END
    } is;
    bool decided;               // Of a report: the study was asked about it.
    trp_json config;            // Of a submission; empty: the line has none.
    int run, failures;          // Of a submission and of another run.
    bool clones;                // Of a report and of one that goes on: it is to.
    bool halts;                 // Of a report: it is to stop, to end or to pause.
    int ranks, given;           // Of these, too: that it had, and is to have; 0: says nothing.
    troupe_report_event report; // Of a report; of a checkpoint, a run and an end, its number.
    troupe_trial_state state;   // Of an end,
    const char *error;
    double best, elapsed_s, at_s; // The last: of the sweep; 0: it says nothing.
    int source;                   // Of one that clones.
} trp_replayed;

// That the first line is of such a sweep, whose id it gives. TROUPE_EXISTS: it is of another one,
// and differs in what the text names; TROUPE_CORRUPT; TROUPE_NO_MEMORY.
troupe_status trp_replay_check(const char *text, size_t size, troupe_sweep *sweep);
// Reads a line. `number`: of its trial, where it is the study's; else -1: the trial is found by its
// name. What *read points to is the arena's. False: it says nothing of a trial, or cannot be read.
bool trp_replay_line(const char *text, size_t size, const troupe_sweep *sweep, int number,
                     trp_arena *arena, trp_replayed *read);

#endif
