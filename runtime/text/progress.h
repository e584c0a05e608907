// progress.h: shows runs while they run: on a terminal as a table that is drawn over itself,
// elsewhere as a line now and then.
#ifndef TRP_TEXT_PROGRESS_H
#define TRP_TEXT_PROGRESS_H

#include <runtime/text/table.h>
#include <stdint.h>
#include <stdio.h>

typedef struct trp_progress {
    FILE *out; // NULL: nothing is shown.
    bool terminal;
    bool changed;     // Since it was last shown.
    bool at_foot;     // That terminal is standard output: others print above the table.
    int lines;        // That the last drawing took on the terminal.
    int64_t shown_ns; // When; 0: never.
} trp_progress;

void trp_progress_open(trp_progress *progress, FILE *out);
// When the next drawing is due, by the clock of `now_ns` below: negative if there is nothing new to
// show.
int64_t trp_progress_due_ns(const trp_progress *progress);
// Shows the facts as they stand.
void trp_progress_show(trp_progress *progress, const trp_table *table, int64_t now_ns);
// What was shown last stays.
void trp_progress_close(trp_progress *progress);

#endif
