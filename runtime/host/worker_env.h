// worker_env.h: the environment and the working folder that a worker process is given before any
// code of the user runs there.
#ifndef TRP_HOST_WORKER_ENV_H
#define TRP_HOST_WORKER_ENV_H

#include <stdbool.h>
#include <troupe/status.h>

enum { TRP_WORKER_ENV_MAX = 32 * 1024, TRP_WORKER_FOLDER_MAX = 4096 };

// Checks lines "KEY=VALUE" (NULL: none) and a folder (NULL: the driver's); `option` is what the
// sentence calls the former. TROUPE_INVALID.
troupe_status trp_worker_env_check(const char *option, const char *env, const char *folder);
// In the new process: sets the variables, then goes to the folder. False with errno: the folder
// cannot be entered. Empty texts change nothing.
bool trp_worker_env_apply(const char *env, const char *folder);

#endif
