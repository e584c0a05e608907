// asked.h: a sweep as a file asks for it, with what a caller says over that.
#ifndef TRP_SWEEP_ASKED_H
#define TRP_SWEEP_ASKED_H

#include <troupe/tune.h>
#include <tune/command/sweep_file.h>

typedef struct trp_sweep_asked {
    trp_sweep_file file;
    troupe_tune_options how; // Whose texts are the arena's and the caller's.
    troupe_train_options train;
    troupe_objective objectives[TRP_FILE_OBJECTIVES_MAX];
} trp_sweep_asked;

// Reads the file, whose texts it copies into the arena, and fills in its options where those of the
// caller (NULL: none) say nothing; of these a searcher and a scheduler are not touched before
// trp_sweep_asked_choose. `own_space`: the file may have none. Fails as trp_sweep_file_read.
// TROUPE_INVALID also: the caller has a metric or a goal.
troupe_status trp_sweep_asked_read(const char *what, const char *json, bool own_space,
                                   const troupe_tune_options *how, trp_arena *arena,
                                   trp_sweep_asked *asked);
// The caller's searcher and scheduler stand for the file's; these are in .how then, and consumed by
// what begins the sweep.
void trp_sweep_asked_choose(trp_sweep_asked *asked);

#endif
