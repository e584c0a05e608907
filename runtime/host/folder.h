// folder.h: folders for results: of runs and of sweeps.
#ifndef TRP_HOST_FOLDER_H
#define TRP_HOST_FOLDER_H

#include <stdbool.h>
#include <sys/types.h>
#include <troupe/status.h>

// How files and folders are made that are left for later: for their user alone, or as the umask
// says (.shared_files of troupe_start).
mode_t trp_file_mode(void);
mode_t trp_folder_mode(void);

// Makes the folder `name` in `storage`, which is made too where it is missing (NULL or empty:
// $TROUPE_RESULTS, else ~/troupe_results, or ./troupe_results without a home). A taken name gets a
// number appended: name_1, name_2, ... *path is absolute, so that it means the same in every
// process; the caller frees it with trp_free. TROUPE_IO or TROUPE_NO_SPACE name what could not be
// made; TROUPE_INVALID: the path is too long.
troupe_status trp_folder_claim(const char *storage, const char *name, char **path);
// Finds the folder of exactly that name, and makes it where it is missing if `make`. *path as
// above. TROUPE_NOT_FOUND: there is none.
troupe_status trp_folder_named(const char *storage, const char *name, bool make, char **path);

#endif
