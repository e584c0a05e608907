// derived.h: files of a run for other programs, made from its journal: params.json (what it was
// configured with), result.json (a JSON object for each report), progress.csv and TensorBoard's
// events, with what its HParams page shows.
//
// One thread for all runs of the process reads the journals, from their beginnings and as they
// grow. So no report waits for it and none is missing, and where a run goes on the files are made
// anew, whatever they were. The row of a report that has a checkpoint names it: so it, and those
// behind it, wait until that is committed or will not be, but not for longer than a minute, nor
// more than TRP_DERIVED_HELD of them. TensorBoard's events wait for nothing. The library never
// reads the files. What cannot be written is warned of once a run, and left out. All of it does
// nothing with NULL.
#ifndef TRP_DERIVED_H
#define TRP_DERIVED_H

#include <runtime/base/arena.h>
#include <runtime/codec/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct trp_derived trp_derived;

// Begins to make them. `params`: a JSON object, which is copied; NULL: none. NULL: no memory, or no
// thread.
trp_derived *trp_derived_open(const char *run, const char *params);
// The journal has its last line.
void trp_derived_end(trp_derived *derived);
// Waits until the files have all of an ended run, but not for long: a disk may hang.
void trp_derived_await(trp_derived *derived);
// The same for all runs that have ended or were closed, when the runtime stops.
void trp_derived_settle(void);
// They are brought up to date once more; nobody waits for it.
void trp_derived_close(trp_derived *derived);

// The pure part: text of a journal in, pieces of the files out.
enum {
    TRP_DERIVED_JSON,
    TRP_DERIVED_CSV,
    TRP_DERIVED_EVENTS,
    TRP_DERIVED_PARAMS,
    TRP_DERIVED_FILES,
};
enum { TRP_DERIVED_HELD = 4096 };
// Params of more bytes are in params.json alone, and in no line.
enum { TRP_DERIVED_PARAMS_MAX = 16384 };

// What is the same in all lines of a run.
typedef struct trp_derived_run {
    const char *name; // Of its folder.
    const char *host;
    trp_json params;  // An object; empty: none.
    trp_buffer heads; // ",config/rate,config/batch": columns of progress.csv,
    trp_buffer cells; // ",0.1,32": and what stands in them.
    bool has_session; // TensorBoard was told that it has begun, with params.
} trp_derived_run;

typedef struct trp_derived_row trp_derived_row;

typedef struct trp_derived_state {
    trp_derived_run run;
    int pid;                  // Of rank 0; 0: not known.
    char end[32];             // How the run has ended; "": it has not.
    int64_t dated_s;          // Of the date that was written last,
    char date[32];            // and its text.
    double opened_s;          // When the run was opened last, since 1970.
    double begun_s;           // And first; 0: not yet.
    double base_s, elapsed_s; // The run's seconds at that opening, and at the last report.
    char **columns;           // Of progress.csv: the metrics of the first report.
    size_t column_count;
    bool has_head;
    trp_derived_row *first, *last; // Those that wait, in order.
    size_t held;
} trp_derived_state;

// Begins one for a run. The texts stay the caller's; params that are too long, or no object, are
// left out of lines.
void trp_derived_begin(trp_derived_state *state, const char *name, const char *host,
                       const char *params);
// Takes one line of the journal; one that it cannot read is left out.
void trp_derived_take(trp_derived_state *state, const char *line, size_t size,
                      trp_buffer out[TRP_DERIVED_FILES]);
// The number of the report whose row has to be written next; 0: none waits.
int trp_derived_waits(const trp_derived_state *state);
// Writes that row, and all behind it that wait for it alone, or with `all` each, as they are.
void trp_derived_give_up(trp_derived_state *state, bool all, trp_buffer out[TRP_DERIVED_FILES]);
// The journal has ended: what TensorBoard is told of that.
void trp_derived_finish(trp_derived_state *state, trp_buffer out[TRP_DERIVED_FILES]);
void trp_derived_state_free(trp_derived_state *state);

#endif
