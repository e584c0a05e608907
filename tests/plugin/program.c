// program.c: a program that knows nothing of the library loads a plugin that uses it, before and
// after it has threads, so that workers are forked and executed. Its argument is the plugin.
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
    void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*run)(int, char **, int) = NULL;
    if (plugin != NULL)
        *(void **)&run = dlsym(plugin, "plugin_run");
    if (run == NULL) {
        fprintf(stderr, "the plugin could not be loaded: %s\n", argc > 1 ? dlerror() : "no name");
        return 2;
    }
    if (getenv("TROUPE_WORKER") != NULL)
        return run(argc, argv, 1); // An executed worker: does not return.
    int failures = run(argc, argv, 0);
    pthread_t thread;
    if (pthread_create(&thread, NULL, rest, NULL) != 0)
        return 3;
    failures += run(argc, argv, 0);
    printf("%d failures\n", failures);
    return failures == 0 ? 0 : 1;
}
