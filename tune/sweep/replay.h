// replay.h: reads back what a sweep that was killed has left in its trials.jsonl.
#ifndef TRP_TUNE_REPLAY_H
#define TRP_TUNE_REPLAY_H

#include <runtime/base/arena.h>
#include <runtime/codec/json.h>
#include <tune/sweep/sweep.h>

// What a trial is known to have done before.
typedef struct trp_replayed {
    int trial;
    enum {
        TRP_REPLAYED_SUBMITTED,
        TRP_REPLAYED_REPORT,
        TRP_REPLAYED_CHECKPOINT,
        TRP_REPLAYED_END
    } is;
    trp_json config;            // Of a submission; empty: the line has none.
    troupe_report_event report; // Of a report; of a checkpoint and an end, its number.
    troupe_trial_state state;   // Of an end,
    const char *error;
    double best, elapsed_s;
} trp_replayed;

// That the first line is of such a sweep, whose id it gives. TROUPE_EXISTS: it is of another one,
// and differs in what the text names; TROUPE_CORRUPT; TROUPE_NO_MEMORY.
troupe_status trp_replay_check(const char *text, size_t size, troupe_sweep *sweep);
// Calls `visit` for the lines behind it, in their order. What cannot be read is left out. Stops at
// a failure of `visit`, which it returns.
troupe_status trp_replay(const char *text, size_t size, const troupe_sweep *sweep,
                         troupe_status (*visit)(void *user, const trp_replayed *line), void *user);

#endif
