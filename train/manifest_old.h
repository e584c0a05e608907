// manifest_old.h: reads the manifests of checkpoints that were made before manifests were JSON: a
// sealed file named "manifest", with the states of ranks alone.
#ifndef TRP_MANIFEST_OLD_H
#define TRP_MANIFEST_OLD_H

#include <train/manifest.h>

// TROUPE_NOT_FOUND: the folder has none.
troupe_status trp_manifest_old_read(const char *folder, trp_arena *arena, trp_manifest *manifest);

#endif
