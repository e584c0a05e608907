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

// Puts the line in place of the one with its key, or behind the others, and gives how many there
// are.
static size_t put_line(char **all, size_t count, char *line)
{
    size_t key = (size_t)(strchr(line, '=') - line) + 1;
    for (size_t i = 0; i < count; i++)
        if (strncmp(all[i], line, key) == 0) {
            all[i] = line;
            return count;
        }
    all[count] = line;
    return count + 1;
}

static size_t count_lines(const char *env)
{
    size_t count = *env != '\0';
    for (; *env != '\0'; env++)
        count += *env == '\n';
    return count;
}

// Without setenv: for each variable it looks through all of them and allocates, and the pages of
// its code and data are some that each worker has to map anew.
static bool set_all(char *lines)
{
    size_t count = 0;
    while (environ != NULL && environ[count] != NULL)
        count++;
    char **all = trp_alloc((count + count_lines(lines) + 1) * sizeof *all);
    if (all == NULL) {
        errno = ENOMEM;
        return false;
    }
    if (count > 0)
        memcpy(all, environ, count * sizeof *all);
    for (char *end; *lines != '\0'; lines = end) {
        end = strchrnul(lines, '\n');
        if (*end != '\0')
            *end++ = '\0';
        if (strchr(lines, '=') != NULL)
            count = put_line(all, count, lines);
    }
    environ = all; // The system's own was not allocated, and setenv knows that this is not its.
    return true;
}

bool trp_worker_env_apply(const char *env, const char *folder)
{
    // Of all workers and its own. No user code runs yet, and no other thread reads the environment.
    static char copy[2 * TRP_WORKER_ENV_MAX + 2] TRP_VAST;
    memcpy(copy, env, strnlen(env, sizeof copy - 1)); // Behind it are zeros, still.
    return set_all(copy) && (folder[0] == '\0' || chdir(folder) == 0);
}
