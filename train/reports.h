// reports.h: putting together the reports of all ranks, number by number. Pure.
//
// A report is whole once every rank has made it. Ranks make theirs in order, so reports become
// whole in order too; some may be open at once, since a rank may be ahead of others.
#ifndef TRP_REPORTS_H
#define TRP_REPORTS_H

#include <stdbool.h>
#include <train/checkpoint.h>
#include <train/control.h>
#include <troupe/train.h>

enum {
    TRP_METRICS_MAX = 32,
    TRP_METRIC_NAME_MAX = 63,
    // How many a rank that is alone sends before the first of them was answered.
    TRP_REPORTS_UNANSWERED = 16,
    // Of several, a rank enters a report before the one before it was taken, and sends it after.
    TRP_REPORTS_OPEN = TRP_REPORTS_AHEAD + 4,
};

// One rank's report, as it travels to the coordinator.
TROUPE_STRUCT(trp_report, (int, attempt), (int, rank), (int, number),
              (troupe_array_trp_metric, metrics),
              (bool, pending),       // Files for its checkpoint are written: word of them follows.
              (troupe_text, source), // NULL: none.
              (bool, torn));         // There was a state for memory, and it could not be kept.

typedef struct trp_open_report {
    trp_arena arena;           // Of what follows.
    int number;                // 0: not begun.
    int ranks;                 // That have made it.
    int pending;               // Those of them that write files for its checkpoint.
    const trp_metric *metrics; // Of rank 0.
    size_t metric_count;
    troupe_array_trp_metric *by_rank; // NULL: only rank 0's are kept.
    const char *source;               // NULL: none.
} trp_open_report;

typedef struct trp_reports {
    int world;
    int whole;      // The last report that all ranks have made.
    bool keeps_all; // Metrics of all ranks, not only of rank 0.
    int *last;      // Of each rank.
    trp_open_report open[TRP_REPORTS_OPEN];
} trp_reports;

// Starts anew with `whole` as the last one; `keeps_all`: the metrics of all ranks.
// TROUPE_NO_MEMORY.
troupe_status trp_reports_start(trp_reports *reports, int world, int whole, bool keeps_all);
// Takes a rank's report; *whole becomes the report that it made whole, or NULL. That is to be dealt
// with before the next one is taken. TROUPE_INVALID: not this rank's next one, or of
// another source than other ranks gave.
troupe_status trp_reports_take(trp_reports *reports, const trp_report *report,
                               const trp_open_report **whole);
// Two ranks that have made different numbers of reports; false if all have made the same.
bool trp_reports_uneven(const trp_reports *reports, int *rank, int *other);
void trp_reports_free(trp_reports *reports);

#endif
