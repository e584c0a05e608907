// run_folder.h: the folder of a run.
#ifndef TRP_BASE_RUN_FOLDER_H
#define TRP_BASE_RUN_FOLDER_H

// Removes the run folder with what is in it (one level).
void trp_folder_remove(const char *folder);
// Of the names of folders that are being made, before the user's and the process's number.
#define TRP_FOLDER_FRESH "troupe-new-"

// Removes the folders of killed runs in `base`: those whose process is gone and whose lock nobody
// holds, and those whose making began a minute ago.
void trp_folder_sweep(const char *base);

#endif
