// fit.h: the loop that trains a model: what a rank has of it, and what its hooks have noted.
#ifndef TRP_MODELS_FIT_H
#define TRP_MODELS_FIT_H

#include <models/model.h>
#include <troupe/data.h>

// ---- fit_notes.c

#define TRP_NOTE_VALID "val_" // In front of what validate_step notes.

enum {
    TRP_NOTES_MAX = 28,      // With what the loop adds, no more than a report may have.
    TRP_NOTE_NAME_MAX = 63,  // Of a metric;
    TRP_NOTE_PREFIX_MAX = 4, // so much of it is the library's.
};

typedef struct trp_note {
    char name[TRP_NOTE_NAME_MAX + 1];
    double sum, count;
} trp_note;

// What was noted since the last report. Zeroed: nothing.
typedef struct trp_notes {
    size_t count;
    trp_note items[TRP_NOTES_MAX];
    troupe_status wrong; // With the first one that is not as it should be, until it is told.
    char why[200];
} trp_notes;

void trp_notes_add(trp_notes *notes, const char *prefix, const char *name, double sum,
                   double count);
// What is wrong with those that were added, once.
troupe_status trp_notes_check(trp_notes *notes);
// The means over all ranks, which all call it: *count metrics, whose names live until the notes are
// cleared. What nothing was counted for is left out. TROUPE_INVALID: a rank has a name that rank 0
// lacks; what collectives return.
troupe_status trp_notes_mean(trp_notes *notes, troupe_rank *me, troupe_metric *metrics,
                             size_t *count);
void trp_notes_clear(trp_notes *notes);
// The mean of one of them over all ranks, which all call it. TROUPE_NOT_FOUND.
troupe_status trp_notes_mean_of(const trp_notes *notes, troupe_rank *me, const char *name,
                                double *mean);

#endif
