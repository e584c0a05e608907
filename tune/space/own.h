// own.h: the spaces that trainers and models bring along.
#ifndef TRP_OWN_H
#define TRP_OWN_H

#include <troupe/tune.h>

// The note of a version that a model's own space is put down in when it is pushed: as
// troupe_space_parse reads it, without options of the run.
#define TRP_OWN_SPACE "space"

// The rows of a trainer's own space that its config or the options of a run have, in memory that
// trp_free frees; NULL and 0: it has none. TROUPE_NO_MEMORY, TROUPE_VERSION.
troupe_status trp_space_own_rows(const troupe_trainer *trainer, troupe_param **rows, size_t *count);
#endif
