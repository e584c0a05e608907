// trainer.h: the trainers that this program knows, for worker processes to find theirs.
#ifndef TRP_TRAINER_H
#define TRP_TRAINER_H

#include <troupe/train.h>

// The trainer of that name whose config has that schema hash. NULL with the last error set.
const troupe_trainer *trp_trainer_find(const char *name, uint64_t schema);

#endif
