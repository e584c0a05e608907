// server_choice.h: whose a job is: this process's, or a train server's, and which one's.
#ifndef TRP_SERVER_CHOICE_H
#define TRP_SERVER_CHOICE_H

#include <runtime/host/file.h>
#include <troupe/server.h>

typedef enum trp_server_use {
    TRP_SERVER_NOT, // The job is this process's.
    TRP_SERVER_IF,  // The server's, if one runs and the job is fit for it.
    TRP_SERVER_NEED,
    TRP_SERVER_START, // The server's, which is started if none runs.
} trp_server_use;

// What was asked for in .server, else in the environment. *folder is the server's state folder, but
// for TRP_SERVER_NOT. TROUPE_INVALID: TROUPE_SERVER or what names the folder is wrong;
// TROUPE_TOO_LARGE.
troupe_status trp_server_choose(troupe_server_choice given, trp_server_use *use, trp_path *folder);
// Whether a server seems to run there: it may be wrong.
bool trp_server_seems_there(const char *folder);
// Runs `troupe-server server start`, and waits until that has ended. TROUPE_NOT_FOUND: there is no
// such program; TROUPE_IO: it could not be run, or has failed: the text has its words.
troupe_status trp_server_start(const char *folder);

#endif
