// capability.h: what a trainer has said that it can do, compared with what is asked of it.
#ifndef TRP_CAPABILITY_H
#define TRP_CAPABILITY_H

#include <troupe/train.h>

// That .allowed_options names options. TROUPE_INVALID names what is none.
troupe_status trp_capability_check(const troupe_trainer *trainer);
// That a run of the trainer may be given these options. TROUPE_INVALID names the one that may not,
// TROUPE_UNSUPPORTED the one that it cannot.
troupe_status trp_capability_options(const troupe_trainer *trainer,
                                     const troupe_train_options *given);
// Whether its loop saves when it is asked to.
bool trp_capability_saves_when_due(const troupe_trainer *trainer);
// That a group of `world` ranks can go on from the checkpoint in `folder`: TROUPE_INVALID, where
// others made it, each with something of its own, and the trainer does not reshard.
troupe_status trp_capability_world(const troupe_trainer *trainer, const char *folder, int world);

#endif
