// restart_budget.h: how often an actor may be started again, and how long to wait before.
#ifndef TRP_CLASS_RESTART_BUDGET_H
#define TRP_CLASS_RESTART_BUDGET_H

#include <runtime/codec/msgpack.h>
#include <troupe/actor.h>

enum { TRP_RESTARTS_KEPT = 64 }; // Hours that a budget with a window remembers.

// How often an actor may be restarted, and how often it was.
typedef struct trp_budget {
    int64_t limit;                    // TROUPE_FOREVER: any number.
    uint32_t window_ms;               // 0: in its whole life.
    uint32_t backoff_ms;              // The pause before the second in a row, doubling
    uint32_t cap_ms;                  // to this.
    uint32_t calm_ms;                 // Who has lived for longer begins a new row.
    uint32_t count;                   // Restarts so far that it paid for,
    uint32_t unpaid;                  // and others.
    uint32_t streak;                  // Of them, in quick succession.
    uint32_t pause_ms;                // Before the last one.
    int64_t hours[TRP_RESTARTS_KEPT]; // The last ones, by count.
} trp_budget;

// How long it is to wait; 0: the defaults.
void trp_budget_pauses(trp_budget *budget, uint32_t backoff_ms, uint32_t cap_ms, uint32_t calm_ms);
// Takes one restart out of the budget. False: there is none left. *delay_ms: how long to wait.
bool trp_budget_take(trp_budget *budget, int64_t now_ms, int64_t *delay_ms);
// Counts one that was made elsewhere.
void trp_budget_count(trp_budget *budget, int64_t now_ms);
// "in 40 ms (restart 4 of 10)", of the last one.
enum { TRP_BUDGET_TEXT = 128 };
void trp_budget_describe(const trp_budget *budget, int64_t delay_ms, char text[TRP_BUDGET_TEXT]);
void trp_budget_write(const trp_budget *budget, trp_buffer *out);
troupe_status trp_budget_read(trp_reader *in, trp_budget *budget);
// From a spawn's options. TROUPE_INVALID: out of range.
troupe_status trp_budget_of(const troupe_spawn_options *how, trp_budget *budget);

#endif
