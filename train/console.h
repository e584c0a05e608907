// console.h: shows runs while they run, on standard output: their processes, checkpoints and
// restarts as lines, their status as a block that stays at the foot of a terminal, or as a line
// every 5 s where there is none; and at the end what came of each.
//
// What happens to a run is put down in memory; one thread for all runs of the process draws, so
// that a terminal that takes nothing delays no run. All of it does nothing with a console that is
// NULL.
#ifndef TRP_CONSOLE_H
#define TRP_CONSOLE_H

#include <stdint.h>
#include <train/console_text.h>

typedef struct trp_console trp_console;

// Between lines where there is no terminal. Tests make it shorter.
extern int trp_console_line_ms;

typedef struct trp_console_about {
    const char *path; // Of the run's folder, whose name is the run's.
    double cpus, gpus;
    double cpus_total, gpus_total;
    int expected;        // Reports in all; 0: not known.
    double time_limit_s; // From when it begins; 0: none.
} trp_console_about;

// NULL: nothing is to be shown, or there is no memory for it. TROUPE_CONSOLE_AUTO: shown where
// standard output is a terminal.
trp_console *trp_console_open(troupe_console wanted, const trp_console_about *about);

void trp_console_state(trp_console *console, trp_table_state state);
void trp_console_group(trp_console *console, const trp_console_rank *ranks, int count);
// `metrics` may be NULL: those of before stay.
void trp_console_report(trp_console *console, int number, double elapsed_s,
                        const troupe_metric *metrics, size_t count);
// A line of its own. False: there is no console.
bool trp_console_say(trp_console *console, const char *text);

typedef struct trp_console_end {
    trp_table_state state;
    const char *error; // NULL: none.
    double elapsed_s;  // Of the run.
    double loop_s;     // Since its first group started.
    double written_s;  // That writing its last files took.
} trp_console_end;
void trp_console_ended(trp_console *console, const trp_console_end *end);
// Waits until the end has been shown, but not for long: a terminal may take nothing.
void trp_console_await(trp_console *console);
void trp_console_close(trp_console *console);

#endif
