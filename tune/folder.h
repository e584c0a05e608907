// folder.h: the folder of a sweep.
#ifndef TRP_TUNE_FOLDER_H
#define TRP_TUNE_FOLDER_H

#include <troupe/status.h>

// Makes the folder `name` in `storage` (NULL: ~/troupe_results), which is made too where it is
// missing. A taken name gets a number appended. The caller frees *path with trp_free. TROUPE_IO or
// TROUPE_NO_SPACE name the folder that could not be made.
troupe_status trp_sweep_folder(const char *storage, const char *name, char **path);

#endif
