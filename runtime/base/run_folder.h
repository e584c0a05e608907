// run_folder.h: the folder of a run.
#ifndef TRP_BASE_RUN_FOLDER_H
#define TRP_BASE_RUN_FOLDER_H

#include <stdint.h>

// Removes the run folder with what is in it (one level).
void trp_folder_remove(const char *folder);
// Of the names of folders that are being made, before the user's and the process's number and where
// that number counts, in hexadecimal.
#define TRP_FOLDER_FRESH "troupe-new-"
// Where this process's number counts: the namespace, and the machine since it was booted. 0: that
// cannot be told.
uint32_t trp_folder_space(void);

enum { TRP_BOOT_ID_MAX = 40 };
// What this boot of the machine is called; empty: that cannot be told.
void trp_boot_id(char id[TRP_BOOT_ID_MAX]);

// Removes the folders of killed runs in `base`: those whose process is gone and whose lock nobody
// holds. Those that were being made have no lock: where the process's number counts elsewhere, they
// are removed a minute after that began.
void trp_folder_sweep(const char *base);

#endif
