// nvml.c: NVIDIA's management library, loaded when it is needed (see train/nvml.h).
#include <train/nvml.h>

#include <pthread.h>
#include <runtime/base/library.h>
#include <stdio.h>
#include <stdlib.h>

struct trp_nvml trp_nvml;

static bool load(char *why, size_t capacity)
{
#define X(field, symbol, parameters) {#symbol, (char *)&trp_nvml.field},
    static const trp_library_function functions[] = {TRP_NVML_FUNCTIONS(X) TRP_NVML_TEXTS(X)};
    static const trp_library_function optional[] = {TRP_NVML_OPTIONAL(X)};
#undef X
    char missing[256];
    const char *named = getenv("TROUPE_NVML");
    if (named == NULL)
        named = "libnvidia-ml.so.1";
    if (!trp_library_load(named, functions, sizeof functions / sizeof *functions, why, capacity))
        return false;
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++)
        (void)trp_library_load(named, &optional[i], 1, missing, sizeof missing);
    if (trp_nvml.processes == NULL)
        trp_nvml.processes = trp_nvml.processes_2;
    trp_nvml_result result = trp_nvml.init();
    if (result == 0)
        return true;
    snprintf(why, capacity, "nvmlInit: %s (%d)", trp_nvml.error_text(result), (int)result);
    return false;
}

bool trp_nvml_load(char *why, size_t capacity)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool loaded;
    pthread_mutex_lock(&lock);
    if (!loaded)
        loaded = load(why, capacity);
    bool there = loaded;
    pthread_mutex_unlock(&lock);
    return there;
}
