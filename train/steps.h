// steps.h: the loop of a trainer without a loop function: which hook comes when.
//
// Pure but for the hooks that it calls: no actors, no memory of the group.
#ifndef TRP_STEPS_H
#define TRP_STEPS_H

#include <runtime/base/arena.h>
#include <troupe/train.h>

// Whether it goes on without a loop function.
bool trp_steps_are_there(const troupe_trainer *trainer);
// That it has either a loop function or all that the stock loop needs. TROUPE_INVALID names the
// hook that is missing or never called.
troupe_status trp_steps_check(const troupe_trainer *trainer);

typedef struct trp_steps {
    const troupe_stages *stages;
    troupe_rank *me;
    const void *config;
    bool stepping;        // The step's hook runs, or what goes on with it.
    bool later;           // Set meanwhile: the step is not over when that returns.
    troupe_status status; // Once it is over: how it ended.
    // Its own.
    troupe_plan plan;
    trp_arena arena; // Of the hook that runs.
    bool planned, in_epoch;
} trp_steps;

typedef enum trp_steps_turn {
    TRP_STEPS_AGAIN,
    TRP_STEPS_PENDING, // A step is to answer: trp_steps_answer or trp_steps_continue goes on.
    TRP_STEPS_OVER,    // With the thread's last error, where `status` is a failure.
} trp_steps_turn;

// Runs the hooks of one batch at most, or plans, or begins or ends an epoch.
trp_steps_turn trp_steps_run(trp_steps *steps);
// The pending step has ended, with the thread's last error where it has failed.
trp_steps_turn trp_steps_answer(trp_steps *steps, troupe_status status);
// Runs what is to go on with the pending step, which may answer later again.
typedef troupe_status (*trp_step_next)(troupe_rank *me, troupe_ref ref);
trp_steps_turn trp_steps_continue(trp_steps *steps, trp_step_next next, troupe_ref ref);

// Puts the hook's name in front of the thread's last error, which is made where the hook has not
// said why it failed; returns `status`. TROUPE_OK and TROUPE_STOPPED are left as they are.
troupe_status trp_hook_ended(troupe_status status, const char *hook);

#endif
