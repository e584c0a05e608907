// capability.h: what a trainer has said that it can do, compared with what is asked of it.
#ifndef TRP_CAPABILITY_H
#define TRP_CAPABILITY_H

#include <train/manifest.h>
#include <troupe/train.h>

// That .allowed_options names options. TROUPE_INVALID names what is none.
troupe_status trp_capability_check(const troupe_trainer *trainer);
// That a run of the trainer may be given these options. TROUPE_INVALID names the one that may not,
// TROUPE_UNSUPPORTED the one that it cannot.
troupe_status trp_capability_options(const troupe_trainer *trainer,
                                     const troupe_train_options *given);
// Whether its loop saves when it is asked to.
bool trp_capability_saves_when_due(const troupe_trainer *trainer);
// With which number of ranks alone a checkpoint can be gone on from, since each has something of
// its own in it and the trainer does not reshard; 0: with any.
int trp_capability_only_world(const troupe_trainer *trainer, const trp_manifest *manifest);
// That it is that number. TROUPE_INVALID names the checkpoint.
troupe_status trp_capability_match(int only, const char *folder, int world);
// That a group of `world` ranks can go on from the checkpoint in `folder`: TROUPE_INVALID, where
// others made it, each with something of its own, and the trainer does not reshard.
troupe_status trp_capability_world(const troupe_trainer *trainer, const char *folder, int world);

#endif
