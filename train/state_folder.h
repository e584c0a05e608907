// state_folder.h: the folder in which the train server of a user keeps its books, and by which its
// clients find it: see docs/internals/server/server.md.
#ifndef TRP_STATE_FOLDER_H
#define TRP_STATE_FOLDER_H

#include <runtime/host/file.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

// Where it is, as the environment says: TROUPE_STATE, else $XDG_STATE_HOME/troupe, else
// ~/.local/state/troupe. Nothing is made or looked at. TROUPE_INVALID: the path is not absolute, or
// no variable names one; TROUPE_TOO_LARGE: the path of its socket would not fit into an address.
troupe_status trp_state_folder_find(trp_path *folder);
// Checks that it is this user's alone, and of a local file system. TROUPE_NOT_FOUND: there is none
// yet; TROUPE_UNSUPPORTED, TROUPE_IO.
troupe_status trp_state_folder_check(const char *folder);
// Finds it, makes it where it is missing, and checks it.
troupe_status trp_state_folder_open(trp_path *folder);

// The address of its socket. TROUPE_TOO_LARGE.
troupe_status trp_state_folder_socket(const char *folder, struct sockaddr_un *address);
// The folder of a job in it, whether or not there is such a job. TROUPE_TOO_LARGE.
troupe_status trp_state_folder_job(const char *folder, int64_t job, trp_path *path);

// What a file system of that type (statfs) is called where its locks and memory maps cannot be
// relied on, since it is another machine's or a program's; NULL: it is fit.
const char *trp_state_folder_unfit(long type);

#endif
