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
    void *library = dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL) {
        fprintf(stderr, "troupe worker: the library cannot be loaded: %s\n", dlerror());
        return TOOL_FAILED;
    }
    // Where it brings a copy of the runtime, its classes are known to that one.
    troupe_status (*start)(int, char **, const troupe_options *) = troupe_start_with;
    void *its = dlsym(library, "troupe_start_with");
    if (its != NULL)
        *(void **)&start = its;
    (void)start(argc, argv, &(troupe_options){.size = sizeof(troupe_options)});
    fprintf(stderr, "troupe worker: this process did not become a worker: %s\n",
            troupe_last_error()->text);
    return TOOL_FAILED; // Else it does not return.
}
