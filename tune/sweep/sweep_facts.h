// sweep_facts.h: a sweep as the facts that a table shows.
#ifndef TRP_SWEEP_FACTS_H
#define TRP_SWEEP_FACTS_H

#include <runtime/base/arena.h>
#include <runtime/text/progress.h>
#include <runtime/text/table.h>
#include <tune/sweep/sweep.h>

trp_table_state trp_trial_table_state(troupe_trial_state state);
// Gathers what a table shows. The arena owns what the facts point to; trials are borrowed. False:
// no memory.
bool trp_sweep_facts(const troupe_sweep *sweep, double running_s, const char *now, trp_arena *arena,
                     trp_table *table);
// And the memory of the machine, as it is now.
void trp_sweep_add_memory(trp_table *table);
// Seconds until the sweep is over, as it looks: by how long trials that have ended took, and by its
// time budget; 0: not known.
double trp_sweep_left_s(const troupe_sweep *sweep, double running_s);
// What is said of one that has ended well: where its files are, in which time the last of them were
// written, and how long it took. Nothing where nothing is shown.
void trp_sweep_say_end(const troupe_sweep *sweep, double written_s);
// Shows the sweep as it stands. By its controller, with the lock, which is let go while the table
// is written: that may take as long as a terminal likes.
void trp_sweep_show(trp_progress *progress, troupe_sweep *sweep, int64_t now_ns);

#endif
