// table.h: how a sweep looks as text. Pure: everything that is shown comes from a struct of facts,
// the time of day included.
#ifndef TRP_TABLE_H
#define TRP_TABLE_H

#include <runtime/base/buffer.h>
#include <troupe/tune.h>

typedef struct trp_table_cell {
    double value;
    bool known; // False: the cell is empty.
} trp_table_cell;

typedef struct trp_table_row {
    const char *name;
    troupe_trial_state state;
    int pid; // Of rank 0's worker, now or last; 0: not known.
    int iteration;
    double elapsed_s;
    double best;                   // NaN: none.
    const trp_table_cell *params;  // One for each of the table's; NULL: none.
    const trp_table_cell *metrics; // One for each of the table's; NULL: none.
    const char *error;             // NULL or empty: none.
} trp_table_row;

typedef struct trp_table {
    const char *now; // "2024-04-10 09:41:32"
    double running_s;
    const char *scheduler;
    double cpus_used, cpus_total;
    const char *metric; // The sweep's.
    troupe_goal goal;
    const char *const *params;
    size_t param_count;
    const char *const *metrics;
    size_t metric_count;
    const trp_table_row *rows;
    size_t count;
} trp_table;

typedef struct trp_table_look {
    size_t rows_max; // Above it: the running trials first, then the best; 0: all, by their numbers.
    size_t width_max; // Parameters are columns as far as they fit; 0: none of them is.
    size_t cut; // Lines are cut at this width, so that a terminal does not wrap; 0: they are not.
} trp_table_look;

// Appends the status and the table of trials.
void trp_table_format(const trp_table *table, const trp_table_look *look, trp_buffer *out);
// Appends one line that sums the trials up:
// "[12.3 s] 5 terminated, 2 running, 6 pending; best accuracy 0.9712 (digits_3d3d1_00004)".
void trp_table_line(const trp_table *table, trp_buffer *out);
// Writes a number with up to six significant digits; whole ones in full.
void trp_table_number(double value, char *text, size_t size);
// The state as the table shows it: "RUNNING".
const char *trp_table_state(troupe_trial_state state);

#endif
