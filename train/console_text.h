// console_text.h: what a run's console says. Pure: text out of facts, times included.
#ifndef TRP_CONSOLE_TEXT_H
#define TRP_CONSOLE_TEXT_H

#include <runtime/text/table.h>
#include <troupe/train.h>

// What is known of a run at a moment.
typedef struct trp_console_run {
    const char *name;
    trp_table_state state;
    int pid; // Of rank 0; 0: none.
    int reports;
    double elapsed_s;    // Of the run, until the last report or the end.
    double open_s;       // Since it was submitted.
    double rate;         // Reports a second; 0: not known.
    int expected;        // Reports in all; 0: not known.
    double limit_left_s; // Until its time limit; 0: it has none.
    double cpus, gpus;
    const troupe_metric *metrics; // Of the last report.
    size_t metric_count;
    const char *error; // NULL or empty: none.
} trp_console_run;

typedef struct trp_console_machine {
    const char *now; // "2024-04-10 09:41:32"
    double memory_used, memory_total;
    double cpus_total, gpus_total;
} trp_console_machine;

// One rank of a group that was started.
typedef struct trp_console_rank {
    int pid, local_rank, node_rank;
} trp_console_rank;

// "Started distributed worker processes:", and a line for each rank.
void trp_console_group_text(const trp_console_rank *ranks, int count, trp_buffer *out);
// The status, a table of the runs, and a line for each that is under way.
void trp_console_block_text(const trp_console_run *runs, size_t count,
                            const trp_console_machine *machine, const trp_table_look *look,
                            trp_buffer *out);
// One line: "[12.3 s] fit: RUNNING, 120 of 500 reports, 34.1/s, 11 s left; loss 0.125, epoch 7".
void trp_console_line_text(const trp_console_run *run, trp_buffer *out);
// What is said when a run has ended: its folder, how long writing the last files took, and the
// seconds since it was submitted and since its first group started.
void trp_console_end_text(const char *path, double written_s, double open_s, double loop_s,
                          trp_buffer *out);

#endif
