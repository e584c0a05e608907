// pass.c: the commands of the train server: passed on to the program `troupe-server`, which lies
// beside this one.
#include "troupe.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int tool_pass(int argc, char **argv)
{
    static const char name[] = "troupe-server";
    char path[PATH_MAX];
    (void)argc;
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - sizeof name);
    path[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(path, '/');
    if (slash == NULL) {
        fprintf(stderr, "troupe %s: where this program lies cannot be read from /proc/self/exe\n",
                argv[0]);
        return TOOL_FAILED;
    }
    memcpy(slash + 1, name, sizeof name);
    // argv[-1] is this program's own name.
    execv(path, argv - 1);
    fprintf(stderr,
            "troupe %s: %s cannot be executed (%s): it is installed with troupe where "
            "libsqlite3-dev was there at build time\n",
            argv[0], path, strerror(errno));
    return TOOL_FAILED;
}
