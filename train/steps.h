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
    troupe_plan plan;
    trp_arena arena; // Of the hook that runs.
} trp_steps;

// Plans and runs all hooks. TROUPE_STOPPED: one has returned it.
troupe_status trp_steps_run(trp_steps *steps);

// Puts the hook's name in front of the thread's last error, which is made where the hook has not
// said why it failed; returns `status`. TROUPE_OK and TROUPE_STOPPED are left as they are.
troupe_status trp_hook_ended(troupe_status status, const char *hook);

#endif
