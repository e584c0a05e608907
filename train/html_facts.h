// html_facts.h: what a run's folder says of it, in memory that does not grow with the run.
//
// The folder may be that of a run that goes on, of one that was killed, or damaged: what cannot be
// read is counted, or becomes a note. Nothing is written, and no lock is taken.
#ifndef TRP_HTML_FACTS_H
#define TRP_HTML_FACTS_H

#include <runtime/base/arena.h>
#include <train/html_curve.h>
#include <train/run_file.h>

enum {
    TRP_FACTS_METRICS = 64,   // More are counted.
    TRP_FACTS_ATTEMPTS = 200, // The last ones.
    TRP_FACTS_CHANGES = 200,
    TRP_FACTS_OTHERS = 50,
    TRP_FACTS_CHECKPOINTS = 200,
    TRP_FACTS_LOGS = 256,
    TRP_FACTS_NOTES = 8,
};

typedef struct trp_facts_metric {
    const char *name;    // Of rank 0; with its source in front: "validate/loss".
    uint64_t count, odd; // Reports that have it as a number, and as none.
    double first, last, low, high;
    int first_report, last_report, low_report, high_report;
    trp_series over_reports, over_time;
} trp_facts_metric;

typedef struct trp_facts_attempt {
    int attempt;
    int report;   // The last one that it need not make.
    int reached;  // The highest one before it began.
    int opening;  // From 1.
    int driver;   // Its process; 0: not known.
    bool restart; // After the one before in the same opening, which had failed.
    bool anew;    // Likewise, but that one had left for a pause or another number of ranks.
    char at[32];
    double elapsed_s;
    char checkpoint[64];
    int cause_rank;
    char cause_status[32], cause[700];
    bool memory;        // It goes on from a commit in memory.
    char pids[400];     // "4711, 4712"
    char replaced[200]; // Ranks that got another process.
} trp_facts_attempt;

// What was asked of the run while it was there.
typedef enum trp_change_kind {
    TRP_CHANGE_PAUSE,
    TRP_CHANGE_RANKS,
    TRP_CHANGE_VALUE
} trp_change_kind;

typedef struct trp_facts_change {
    trp_change_kind kind;
    uint64_t before;  // As many attempts had begun.
    int report;       // The highest one then; of a value that counts, the one after which it does.
    double elapsed_s; // At that report.
    int ranks;
    int64_t revision; // Of a value,
    bool counts;      // which is in effect.
    char text[300];   // "rate = 0.05"
} trp_facts_change;

// A line of an event that the page knows nothing of.
typedef struct trp_facts_other {
    char text[400];
} trp_facts_other;

typedef struct trp_facts_checkpoint {
    int64_t number;
    const char *name, *created, *error; // `error`: why it cannot be read; else NULL.
    int report, world;
    uint64_t size;
    size_t files;
    bool newest, best;
    const troupe_metric *metrics;
    size_t metric_count;
} trp_facts_checkpoint;

typedef struct trp_facts_log {
    const char *name; // In the folder `log`.
    uint64_t size;
    const char *tail; // Its last lines.
    size_t tail_size;
} trp_facts_log;

typedef struct trp_facts {
    trp_arena arena;
    const char *folder; // Absolute.
    const char *name;   // The last part of it.
    bool has_run, has_end;
    trp_run_file run;
    trp_json options; // Of run.json; empty: none.
    trp_end_file end;
    int driver; // That has the run now; 0: none, -1: one that cannot be named.
    const char *notes[TRP_FACTS_NOTES];
    size_t note_count;
    // Of the journal.
    uint64_t lines, bad_lines, journal_size;
    bool skipping; // What follows is the rest of a line that is too long.
    int reports, last_driver;
    bool rests;     // Its group has left, and waits to be formed anew.
    bool has_ranks; // Reports have the metrics of all ranks.
    double elapsed_s;
    char state[16]; // The last one: "RUNNING".
    char opened_at[32];
    uint64_t openings, attempts, restarts, commits, changes, others;
    uint64_t no_commits; // Reports whose checkpoint failed.
    trp_facts_metric *metrics[TRP_FACTS_METRICS];
    size_t metric_count;
    uint64_t metrics_left_out; // Values of others.
    // The last ones; number i is at i % its size.
    trp_facts_attempt *attempt_ring;
    trp_facts_change *change_ring;
    trp_facts_other *other_ring;
    trp_series *commits_over_reports, *commits_over_time;
    char best_checkpoint[64]; // By .keep_metric, of those that were committed.
    double best_value;
    // Of the folders.
    trp_facts_checkpoint *checkpoints; // Newest first.
    size_t checkpoint_count;
    uint64_t checkpoints_left_out;
    trp_facts_log *logs; // In the order of names.
    size_t log_count;
    uint64_t logs_left_out;
} trp_facts;

// Reads the run at `folder`, in which "~/" is the home. TROUPE_NOT_FOUND: it is none of a run;
// TROUPE_IO, TROUPE_NO_MEMORY. What was read is freed by trp_facts_free in any case.
troupe_status trp_facts_read(const char *folder, trp_facts *facts);
void trp_facts_free(trp_facts *facts);
// The same in parts, for a run that is looked at again and again: its documents, then of its
// journal what follows, whole lines and about `most` bytes a time. *size is that of the file: all
// is read where facts->journal_size has come to it, but for a last line that is being written.
troupe_status trp_facts_begin(const char *folder, trp_facts *facts);
troupe_status trp_facts_more(trp_facts *facts, size_t most, uint64_t *size);

// One line of the journal.
void trp_facts_take(trp_facts *facts, const char *line, size_t size);
// Lines of changes (html_changes.c).
void trp_facts_take_pause(trp_facts *facts);
void trp_facts_take_ranks(trp_facts *facts, int ranks);
void trp_facts_take_wish(trp_facts *facts, int64_t revision, const char *member, trp_json value);
// What was wished up to that revision counts after that report.
void trp_facts_take_live(trp_facts *facts, int64_t revision, int report);
// Checkpoints and logs (html_folders.c).
troupe_status trp_facts_folders(trp_facts *facts);

// A copy in the arena. NULL: no memory.
const char *trp_facts_copy(trp_facts *facts, const char *text);
// Adds a sentence to the notes.
void trp_facts_note(trp_facts *facts, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
