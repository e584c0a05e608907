// stored_tune.h: sweeps over a version of the repository whose code is another program's.
#ifndef TRP_TUNE_STORED_TUNE_H
#define TRP_TUNE_STORED_TUNE_H

#include <runtime/base/arena.h>
#include <troupe/tune.h>

// Begins one. `settings`: of all trials, NULL: none. `space`: from JSON, consumed in any case;
// NULL: the version's own. The searcher and scheduler of `how` are consumed in any case; `texts`,
// an arena with what the sweep needs of these, likewise (NULL: none).
troupe_status trp_stored_tune_begin(const char *ref, const char *settings, troupe_space *space,
                                    troupe_sweep **sweep, const troupe_tune_options *how,
                                    trp_arena *texts);

#endif
