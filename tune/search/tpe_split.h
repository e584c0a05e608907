// tpe_split.h: what TPE has been told of, and which of it is good.
#ifndef TRP_TPE_SPLIT_H
#define TRP_TPE_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <troupe/status.h>

typedef enum trp_tpe_state {
    TRP_TPE_RUNS,
    TRP_TPE_COMPLETE,
    TRP_TPE_STOPPED,
    TRP_TPE_NOTHING, // It failed, or has another point now.
} trp_tpe_state;

typedef struct trp_tpe_report {
    int report;
    double score;
} trp_tpe_report;

typedef struct trp_tpe_trial {
    int number;
    trp_tpe_state state;
    int reports; // That it had made when it was stopped.
    double violation;
    trp_tpe_report *told; // Its reports, rising.
    size_t told_count, told_room;
} trp_tpe_trial;

// In the order in which they were given out.
typedef struct trp_tpe_trials {
    trp_tpe_trial *rows;
    double *scores; // As many as there are objectives of each.
    int *by_number; // Rows by rising numbers.
    size_t count, room, numbers, objectives;
} trp_tpe_trials;

// The row of a trial; -1: there is none.
int trp_tpe_find(const trp_tpe_trials *trials, int number);
troupe_status trp_tpe_reserve(trp_tpe_trials *trials); // Room for one more.
// Adds a running one, for which there must be room. One of the same number counts no more.
void trp_tpe_add(trp_tpe_trials *trials, int number);
troupe_status trp_tpe_report_add(trp_tpe_trial *trial, int report, double score);
void trp_tpe_close(trp_tpe_trials *trials);

// The largest report that so many trials have made or passed; 0: there is none.
int trp_tpe_budget(const trp_tpe_trials *trials, size_t enough);

typedef enum trp_tpe_role {
    TRP_TPE_LEFT_OUT,
    TRP_TPE_GOOD,
    TRP_TPE_BAD,
} trp_tpe_role;

// How many of so many are good.
size_t trp_tpe_good(size_t ended, size_t objectives);
// Fills in a role for each trial. `budget`: by the scores at that report, of those that have come
// to it; 0: by ends. `liar`: those that run are bad ones.
troupe_status trp_tpe_split(const trp_tpe_trials *trials, int budget, bool liar, uint8_t *roles);

#endif
