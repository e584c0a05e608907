// pass.c: the commands of the train server: passed on to the program `troupe-server`, which lies
// beside this one.
#include "troupe.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool tool_server_program(const char *command, char path[PATH_MAX])
{
    static const char name[] = "troupe-server";
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - sizeof name);
    path[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(path, '/');
    if (slash == NULL) {
        fprintf(stderr, "troupe %s: where this program lies cannot be read from /proc/self/exe\n",
                command);
        return false;
    }
    memcpy(slash + 1, name, sizeof name);
    return true;
}

int tool_pass(int argc, char **argv)
{
    char path[PATH_MAX];
    (void)argc;
    if (!tool_server_program(argv[0], path))
        return TOOL_FAILED;
    // argv[-1] is this program's own name.
    execv(path, argv - 1);
    fprintf(stderr,
            "troupe %s: %s cannot be executed (%s): it is installed with troupe where "
            "libsqlite3-dev was there at build time\n",
            argv[0], path, strerror(errno));
    return TOOL_FAILED;
}
