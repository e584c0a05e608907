// worker.c: `troupe worker --load LIB`: a worker process of a node whose program cannot be executed
// again (a plug-in's host, an interpreter). A node runs it: see .worker_library of troupe_start.
#include "troupe.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>

static void usage(FILE *out)
{
    fprintf(out, "usage: troupe worker --load LIBRARY\n\n"
                 "Becomes a worker process of a node, with the classes and tasks of a shared\n"
                 "library. Run by nodes whose programs were started with .worker_library, and not\n"
                 "by hand.\n\n"
                 "  --load LIBRARY  a path, or a name that the dynamic loader finds\n");
}

int tool_worker(int argc, char **argv)
{
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        usage(stdout);
        return TOOL_DONE;
    }
    if (argc != 3 || strcmp(argv[1], "--load") != 0) {
        usage(stderr);
        return TOOL_MISUSED;
    }
    if (getenv("TROUPE_WORKER") == NULL) {
        fprintf(stderr, "troupe worker: it is run by a node, for a program that was started with "
                        ".worker_library, and not by hand\n");
        return TOOL_MISUSED;
    }
    // Where it contains the runtime, its calls come here all the same: this program was first.
    if (dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL) == NULL) {
        fprintf(stderr, "troupe worker: the library cannot be loaded: %s\n", dlerror());
        return TOOL_FAILED;
    }
    troupe_status status = troupe_start(argc, argv); // In a worker it does not return.
    fprintf(stderr, "troupe worker: this process did not become a worker: %s\n",
            status != TROUPE_OK ? troupe_last_error()->text : "no node runs it");
    return TOOL_FAILED;
}
