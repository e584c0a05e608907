// progress.h: shows a sweep while it runs: on a terminal as a table that is drawn over itself,
// elsewhere as a line now and then.
#ifndef TRP_PROGRESS_H
#define TRP_PROGRESS_H

#include <runtime/base/arena.h>
#include <stdio.h>
#include <tune/sweep.h>
#include <tune/table.h>

typedef struct trp_progress {
    FILE *out; // NULL: nothing is shown.
    bool terminal;
    bool changed;     // Since it was last shown.
    int lines;        // That the last drawing took on the terminal.
    int64_t shown_ns; // When; 0: never.
} trp_progress;

void trp_progress_open(trp_progress *progress, FILE *out);
// When the next drawing is due, in trp_clock_ns: negative if there is nothing new to show.
int64_t trp_progress_due_ns(const trp_progress *progress);
// Shows the sweep as it stands.
void trp_progress_show(trp_progress *progress, const troupe_sweep *sweep, int64_t now_ns);

// Gathers what a table shows. The arena owns what the facts point to; trials are borrowed. False:
// no memory.
bool trp_sweep_facts(const troupe_sweep *sweep, double running_s, const char *now, trp_arena *arena,
                     trp_table *table);
// The time of day: "2024-04-10 09:41:32".
void trp_time_of_day(char text[32]);

#endif
