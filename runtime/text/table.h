// table.h: how runs look as text: the one of a job, or the trials of a sweep. Pure: everything that
// is shown comes from a struct of facts, the time of day included.
#ifndef TRP_TEXT_TABLE_H
#define TRP_TEXT_TABLE_H

#include <runtime/base/buffer.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum trp_table_state {
    TRP_TABLE_PENDING,
    TRP_TABLE_RUNNING,
    TRP_TABLE_RESTARTING,
    TRP_TABLE_TERMINATED,
    TRP_TABLE_STOPPED,
    TRP_TABLE_ERROR,
    TRP_TABLE_PAUSED,
} trp_table_state;

typedef struct trp_table_cell {
    double value;
    bool known;       // False: the cell is empty.
    const char *text; // Not NULL: instead of the value.
} trp_table_cell;

typedef struct trp_table_row {
    const char *name;
    trp_table_state state;
    int pid; // Of rank 0's worker, now or last; 0: not known.
    int iteration;
    double elapsed_s;
    double best;                   // NaN: none.
    const trp_table_cell *params;  // One for each of the table's; NULL: none.
    const trp_table_cell *metrics; // One for each of the table's; NULL: none.
    const char *error;             // NULL or empty: none.
} trp_table_row;

typedef struct trp_table {
    const char *title; // "Tune": of the block and what it counts.
    const char *row;   // "Trial": what a row is,
    const char *one;   // "trial": and in the middle of a sentence.
    const char *now;   // "2024-04-10 09:41:32"
    double running_s;
    double left_s;                    // As it looks; 0: not known.
    double memory_used, memory_total; // Of the machine, in bytes; a total of 0: not shown.
    const char *searcher, *scheduler; // NULL: none.
    double cpus_used, cpus_total;
    double gpus_used, gpus_total; // A total of 0: not shown.
    const char *metric;           // The sweep's; NULL: no row is better than another.
    bool maximize;                // Whether more of it is better.
    const char *const *params;
    size_t param_count;
    const char *const *metrics;
    size_t metric_count;
    const trp_table_row *rows;
    size_t count;
} trp_table;

typedef struct trp_table_look {
    size_t rows_max;  // Above it: the running ones first, then the best; 0: all, by their numbers.
    size_t width_max; // Parameters are columns as far as they fit; 0: none of them is.
    size_t cut;   // Lines are cut at this width, so that a terminal does not wrap; 0: they are not.
    bool colours; // States are coloured.
} trp_table_look;

// Appends the status and the table of rows.
void trp_table_format(const trp_table *table, const trp_table_look *look, trp_buffer *out);
// Appends one line that sums the rows up:
// "[12.3 s] 5 terminated, 2 running, 6 pending; best accuracy 0.9712 (digits_3d3d1_00004)".
void trp_table_line(const trp_table *table, trp_buffer *out);
// Appends a time that is left, in the largest units that say enough: "11 s", "4 min", "2 h 10 min",
// "3 days".
void trp_table_left(double left_s, trp_buffer *out);
// Appends what is said at the end: the folder, how long writing the last of it took, and the
// seconds since the beginning, of which so many were "the tuning loop".
void trp_table_end(const char *what, const char *path, double written_s, double open_s,
                   double loop_s, const char *loop, trp_buffer *out);
// Writes a number with up to six significant digits; whole ones in full.
void trp_table_number(double value, char *text, size_t size);
// Writes a size as "1.5 MiB", and returns the text.
const char *trp_table_bytes(uint64_t bytes, char text[32]);
// The state as the table shows it: "RUNNING".
const char *trp_table_state_name(trp_table_state state);

#endif
