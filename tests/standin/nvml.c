// nvml.c: stands in for NVIDIA's management library, libnvidia-ml. What the GPUs are and do is in
// the file that STANDIN_NVML names, which each call reads anew; a line is a GPU, in the order in
// which the library numbers them:
//
//     GPU-1a2b bus=7 mig=0 busy=87 total=1000 used=self:300,4711:200 name=Standin 1
//
//     used=PID:BYTES,...    processes and their memory; self: the one that asks, none: not known
//     fail=FUNCTION:CODE    that function fails with that code
//     hang=1                how busy it is, is not answered as long as the line says so
//     name=...              comes last
//
// With STANDIN_OLD it lacks what the library of older drivers does.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes" // They are called by their names alone.

enum { SUCCESS, UNINITIALIZED = 1, INVALID = 2, NOT_FOUND = 6, TOO_SMALL = 7 };

typedef struct gpu {
    char line[1024];
} gpu;
typedef struct pci {
    char legacy_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char id[32];
} pci;
typedef struct utilization {
    unsigned gpu, memory;
} utilization;
typedef struct memory {
    unsigned long long total, free, used;
} memory;
typedef struct process {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
} process;

static int begun;

// The line of a GPU, from 1 on; false: there is none.
static int read_gpu(size_t number, gpu *out)
{
    const char *path = getenv("STANDIN_NVML");
    FILE *file = path != NULL ? fopen(path, "re") : NULL;
    size_t at = 0;
    while (file != NULL && at < number && fgets(out->line, sizeof out->line, file) != NULL)
        at++;
    if (file != NULL)
        fclose(file);
    out->line[strcspn(out->line, "\n")] = '\0';
    return at == number && number > 0;
}

// What stands behind " name="; NULL: nothing.
static const char *told(const gpu *it, const char *name)
{
    char key[32];
    snprintf(key, sizeof key, " %s=", name);
    const char *found = strstr(it->line, key);
    return found != NULL ? found + strlen(key) : NULL;
}

static unsigned long long number_of(const gpu *it, const char *name)
{
    const char *text = told(it, name);
    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

// Begins each function of a device: its line, and whether the function is to fail.
static int begin(const char *function, const void *device, gpu *out)
{
    const char *fail;
    size_t size = strlen(function);
    if (!begun)
        return UNINITIALIZED;
    if (!read_gpu((size_t)device, out))
        return INVALID;
    fail = told(out, "fail");
    if (fail != NULL && strncmp(fail, function, size) == 0 && fail[size] == ':')
        return atoi(fail + size + 1);
    return SUCCESS;
}

int nvmlInit_v2(void)
{
    const char *code = getenv("STANDIN_NVML_INIT");
    if (code != NULL)
        return atoi(code);
    begun = 1;
    return SUCCESS;
}

const char *nvmlErrorString(int code)
{
    static _Thread_local char text[32];
    snprintf(text, sizeof text, "stand-in error %d", code);
    return text;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    gpu it;
    *count = 0;
    while (read_gpu(*count + 1, &it))
        (*count)++;
    return begun ? SUCCESS : UNINITIALIZED;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    gpu it;
    *device = (void *)((size_t)index + 1);
    return begin(__func__, *device, &it);
}

static int give(char *text, unsigned capacity, const char *from, size_t size)
{
    if (size >= capacity)
        return TOO_SMALL;
    memcpy(text, from, size);
    text[size] = '\0';
    return SUCCESS;
}

int nvmlDeviceGetName(const void *device, char *name, unsigned capacity)
{
    gpu it;
    int failed = begin(__func__, device, &it);
    const char *text = failed ? NULL : told(&it, "name");
    return failed != 0 ? failed : give(name, capacity, text, text != NULL ? strlen(text) : 0);
}

int nvmlDeviceGetUUID(const void *device, char *uuid, unsigned capacity)
{
    gpu it;
    int failed = begin(__func__, device, &it);
    return failed != 0 ? failed : give(uuid, capacity, it.line, strcspn(it.line, " "));
}

int nvmlDeviceGetPciInfo_v3(const void *device, pci *out)
{
    gpu it;
    int failed = begin(__func__, device, &it);
    *out = (pci){0};
    if (failed == 0)
        out->bus = (unsigned)number_of(&it, "bus");
    return failed;
}

int nvmlDeviceGetUtilizationRates(const void *device, utilization *out)
{
    gpu it;
    int failed = begin(__func__, device, &it);
    while (failed == 0 && number_of(&it, "hang") != 0) {
        usleep(5000);
        failed = begin(__func__, device, &it);
    }
    if (failed == 0)
        *out = (utilization){(unsigned)number_of(&it, "busy"), 1};
    return failed;
}

int nvmlDeviceGetMemoryInfo(const void *device, memory *out)
{
    gpu it;
    int failed = begin(__func__, device, &it);
    if (failed == 0)
        *out = (memory){number_of(&it, "total"), 1, number_of(&it, "total") - 1};
    return failed;
}

static int list(const char *function, const void *device, unsigned *count, process *out)
{
    gpu it;
    int failed = begin(function, device, &it);
    unsigned room = *count, found = 0;
    const char *at = failed == 0 ? told(&it, "used") : NULL;
    for (; at != NULL && *at != '\0' && *at != ' '; found++) {
        char *end = (char *)(at + 4);
        unsigned pid =
            strncmp(at, "self", 4) == 0 ? (unsigned)getpid() : (unsigned)strtoul(at, &end, 10);
        unsigned long long used =
            strncmp(end, ":none", 5) == 0 ? ~0ULL : strtoull(end + 1, &end, 10);
        if (found < room)
            out[found] = (process){.pid = pid, .used = used, .gpu_instance = ~0U};
        at = end + strcspn(end, ", ");
        at += *at == ',';
    }
    *count = found;
    return failed != 0 ? failed : found > room ? TOO_SMALL : SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v2(const void *device, unsigned *count, process *out)
{
    return list(__func__, device, count, out);
}

#ifndef STANDIN_OLD
int nvmlDeviceGetComputeRunningProcesses_v3(const void *device, unsigned *count, process *out)
{
    return list(__func__, device, count, out);
}

int nvmlDeviceGetMigMode(const void *device, unsigned *now, unsigned *after_reset)
{
    gpu it;
    int failed = begin(__func__, device, &it);
    if (failed == 0)
        *now = *after_reset = (unsigned)number_of(&it, "mig");
    return failed;
}
#endif
