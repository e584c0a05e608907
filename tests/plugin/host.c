// host.c: a program that cannot be executed again: it has threads, loads a library that uses
// Troupe, and would do wrong were it a worker. Its argument is the library, which workers load.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *rest(void *unused)
{
    (void)unused;
    for (;;)
        pause();
    return NULL;
}

int main(int argc, char **argv)
{
    (void)alarm(60);
    if (getenv("TROUPE_WORKER") != NULL) {
        fprintf(stderr, "the host was executed as a worker\n");
        return 4;
    }
    pthread_t thread;
    if (pthread_create(&thread, NULL, rest, NULL) != 0)
        return 3;
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*run)(const char *) = NULL;
    if (library != NULL)
        *(void **)&run = dlsym(library, "plugin_run_loaded");
    if (run == NULL) {
        fprintf(stderr, "the library could not be loaded: %s\n", argc > 1 ? dlerror() : "no name");
        return 2;
    }
    // Twice: everything of the first start is gone.
    int failures = run(argv[1]) + run(argv[1]);
    printf("%d failures\n", failures);
    return failures == 0 ? 0 : 1;
}
