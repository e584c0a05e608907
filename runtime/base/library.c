// library.c: functions of shared libraries (see base/library.h).
#include <runtime/base/library.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static bool failed(char *why, size_t capacity)
{
    const char *text = dlerror();
    snprintf(why, capacity, "%s", text != NULL ? text : "it could not be loaded");
    return false;
}

bool trp_library_load(const char *name, const trp_library_function *functions, size_t count,
                      char *why, size_t capacity)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return failed(why, capacity);
    for (size_t i = 0; i < count; i++)
        if (dlsym(library, functions[i].symbol) == NULL)
            return failed(why, capacity);
    for (size_t i = 0; i < count; i++) {
        void *found = dlsym(library, functions[i].symbol);
        memcpy(functions[i].place, &found, sizeof found);
    }
    return true;
}
