// worker_env.c: the environment and the working folder of a worker process (see worker_env.h).
#include <runtime/host/worker_env.h>

#include <errno.h>
#include <runtime/base/memory.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_MAX = 255 };

troupe_status trp_worker_env_check(const char *option, const char *env, const char *folder)
{
    if (env != NULL && strnlen(env, TRP_WORKER_ENV_MAX) == TRP_WORKER_ENV_MAX)
        return troupe_fail(TROUPE_INVALID, "%s is longer than %d bytes", option,
                           TRP_WORKER_ENV_MAX - 1);
    for (const char *line = env; line != NULL && *line != '\0';) {
        size_t size = strcspn(line, "\n"), key = strcspn(line, "=\n");
        if (size > 0 && (key == 0 || key == size || key > KEY_MAX))
            return troupe_fail(TROUPE_INVALID, "%s, '%.*s': expected lines of the form KEY=VALUE",
                               option, size < 64 ? (int)size : 64, line);
        line += size + (line[size] == '\n');
    }
    if (folder == NULL || folder[0] == '\0')
        return TROUPE_OK;
    struct stat about;
    if (strnlen(folder, TRP_WORKER_FOLDER_MAX) == TRP_WORKER_FOLDER_MAX ||
        stat(folder, &about) != 0 || !S_ISDIR(about.st_mode) || access(folder, X_OK) != 0)
        return troupe_fail(TROUPE_INVALID,
                           "the working folder '%.200s' of a worker cannot be entered", folder);
    return TROUPE_OK;
}

bool trp_worker_env_apply(const char *env, const char *folder)
{
    // Of all workers and its own. No user code runs yet, and no other thread reads the environment.
    static char copy[2 * TRP_WORKER_ENV_MAX + 2] TRP_VAST;
    memcpy(copy, env, strnlen(env, sizeof copy - 1)); // Behind it are zeros, still.
    char *rest = NULL;
    for (char *line = strtok_r(copy, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char *value = strchr(line, '=');
        if (value == NULL)
            continue;
        *value++ = '\0';
        (void)setenv(line, value, 1);
    }
    return folder[0] == '\0' || chdir(folder) == 0;
}
