// gpu_usage.c: see train/gpu_usage.h.
#include <ctype.h>
#include <pthread.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <train/gpu_usage.h>
#include <train/nvml.h>
#include <train/usage.h>

enum { GPUS_MAX = 64, PIDS_MAX = 257, PROCESSES_MAX = 1024, ID_BYTES = 64, ANCESTORS_MAX = 64 };

// A GPU that the driver knows.
typedef struct device {
    trp_nvml_device handle;
    trp_nvml_pci pci;
    char name[TRP_NVML_NAME_BYTES], uuid[TRP_NVML_NAME_BYTES];
} device;

// One that the job has.
typedef struct gpu {
    char id[ID_BYTES]; // As it was given.
    device of;
    bool over;     // Nothing more is asked of it.
    bool has_said; // That something could not be told.
} gpu;

struct trp_gpu_usage {
    char *ids;
    device devices[GPUS_MAX]; // The thread's alone, to `processes`: all that there are,
    gpu gpus[GPUS_MAX];       // and those of the job.
    int count;
    trp_nvml_process processes[PROCESSES_MAX];

    pthread_mutex_t lock;
    pthread_cond_t asked_now;
    bool asked;
    int pids[PIDS_MAX], pid_count;
    trp_buffer measured; // Lines.
};

// ---- which GPUs

static int compare_places(const void *left, const void *right)
{
    const trp_nvml_pci *a = &((const device *)left)->pci, *b = &((const device *)right)->pci;
    if (a->domain != b->domain)
        return a->domain < b->domain ? -1 : 1;
    if (a->bus != b->bus)
        return a->bus < b->bus ? -1 : 1;
    return a->device < b->device ? -1 : a->device > b->device;
}

// All that can be asked, by their places on the bus: so CUDA numbers them too, where they are of
// one kind or it was told to.
static int list_devices(device *devices)
{
    unsigned count = 0;
    int found = 0;
    if (trp_nvml.count(&count) != 0)
        return 0;
    for (unsigned i = 0; i < count && found < GPUS_MAX; i++) {
        device *it = &devices[found];
        *it = (device){0};
        found += trp_nvml.device(i, &it->handle) == 0 &&
                 trp_nvml.uuid(it->handle, it->uuid, sizeof it->uuid) == 0 &&
                 trp_nvml.pci(it->handle, &it->pci) == 0;
        (void)trp_nvml.name(it->handle, it->name, sizeof it->name);
    }
    qsort(devices, (size_t)found, sizeof *devices, compare_places);
    return found;
}

static bool are_numbers_clear(const device *devices, int count)
{
    const char *order = getenv("CUDA_DEVICE_ORDER");
    if (order != NULL && strcmp(order, "PCI_BUS_ID") == 0)
        return true;
    for (int i = 1; i < count; i++)
        if (strcmp(devices[i].name, devices[0].name) != 0)
            return false;
    return true;
}

// The GPU that an entry names, as CUDA reads it: a number, or how an UUID begins, if that is of one
// alone. NULL: `why` says what is wrong.
static const device *find_device(const device *devices, int count, const char *id, const char **why)
{
    const device *found = NULL;
    if (isdigit((unsigned char)id[0])) {
        long number = strtol(id, NULL, 10);
        *why = number >= count ? "there is no such GPU"
               : are_numbers_clear(devices, count)
                   ? NULL
                   : "GPUs of several kinds are numbered as CUDA sees fit: name them by their "
                     "UUIDs, or set CUDA_DEVICE_ORDER=PCI_BUS_ID";
        return *why == NULL ? &devices[number] : NULL;
    }
    *why = strncmp(id, "MIG-", 4) == 0 ? "it is a part of a GPU (MIG), which is not measured"
                                       : "there is no such GPU";
    for (int i = 0; i < count; i++) {
        if (strncmp(devices[i].uuid, id, strlen(id)) != 0)
            continue;
        if (found != NULL) {
            *why = "there are several whose UUIDs begin so";
            return NULL;
        }
        found = &devices[i];
    }
    return found;
}

static bool is_divided(const device *it)
{
    unsigned now = 0, after_reset = 0;
    return trp_nvml.mig_mode != NULL && trp_nvml.mig_mode(it->handle, &now, &after_reset) == 0 &&
           now != 0;
}

static void take_gpu(trp_gpu_usage *usage, const char *id, const device *of)
{
    gpu *made = &usage->gpus[usage->count];
    *made = (gpu){.of = *of};
    snprintf(made->id, sizeof made->id, "%s", id);
    if (is_divided(of))
        trp_log(TRP_WARN, "what GPU %s does is not measured: it is divided into parts (MIG)", id);
    else
        usage->count++;
}

// As CUDA, it stops at the first entry that names none.
static void find_gpus(trp_gpu_usage *usage)
{
    int count = list_devices(usage->devices);
    for (const char *at = usage->ids; *at != '\0' && usage->count < GPUS_MAX;) {
        char id[ID_BYTES];
        size_t size = strcspn(at, ",");
        const char *why = "expected a number or an UUID";
        const device *found = NULL;
        snprintf(id, sizeof id, "%.*s", (int)size, at);
        at += size + (at[size] == ',');
        if (size > 0 && size < sizeof id && id[0] != '-')
            found = find_device(usage->devices, count, id, &why);
        if (found == NULL) {
            trp_log(TRP_WARN, "what GPU %s does is not measured: %s", id, why);
            return;
        }
        take_gpu(usage, id, found);
    }
}

// ---- what they do

static bool is_of_job(const int *pids, int count, int pid)
{
    for (int i = 0; i < ANCESTORS_MAX && pid > 1; i++) {
        for (int k = 0; k < count; k++)
            if (pids[k] == pid)
                return true;
        pid = trp_usage_parent(pid);
    }
    return false;
}

static trp_nvml_result sum_memory(trp_gpu_usage *usage, const gpu *it, const int *pids, int count,
                                  unsigned long long *sum)
{
    unsigned found = PROCESSES_MAX;
    *sum = 0;
    if (trp_nvml.processes == NULL)
        return TRP_NVML_NOT_SUPPORTED;
    trp_nvml_result result = trp_nvml.processes(it->of.handle, &found, usage->processes);
    for (unsigned i = 0; result == 0 && i < found && i < PROCESSES_MAX; i++) {
        const trp_nvml_process *process = &usage->processes[i];
        if (!is_of_job(pids, count, (int)process->pid))
            continue;
        if (process->used == ~0ULL)
            return TRP_NVML_NOT_SUPPORTED;
        *sum += process->used;
    }
    return result;
}

// Whether it was told. What cannot be is said once a GPU; a lost one is not asked again.
static bool is_told(gpu *it, trp_nvml_result result, const char *what)
{
    if (result == 0)
        return true;
    it->over |= result == TRP_NVML_GPU_IS_LOST;
    if (!it->has_said || it->over)
        trp_log(TRP_WARN, "%s of GPU %s is not measured%s: %s (%d)", what, it->id,
                it->over ? " any more" : "", trp_nvml.error_text(result), (int)result);
    it->has_said = true;
    return false;
}

static void measure_one(trp_gpu_usage *usage, gpu *it, const int *pids, int count, trp_buffer *out)
{
    trp_nvml_utilization busy = {0};
    trp_nvml_memory memory = {0};
    unsigned long long used = 0;
    struct timespec now;
    bool has_busy = is_told(it, trp_nvml.utilization(it->of.handle, &busy), "the use");
    bool has_total =
        !it->over && is_told(it, trp_nvml.memory(it->of.handle, &memory), "the memory");
    bool has_used =
        !it->over && is_told(it, sum_memory(usage, it, pids, count, &used), "the job's memory");
    if (it->over || !(has_busy || has_total || has_used))
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    trp_buffer_printf(out,
                      "{\"t\": %.3f, \"gpu\": ", (double)now.tv_sec + (double)now.tv_nsec * 1e-9);
    trp_json_text(out, it->id);
    trp_buffer_printf(out, ", \"name\": ");
    trp_json_text(out, it->of.name);
    if (has_busy)
        trp_buffer_printf(out, ", \"busy\": %.2f", busy.gpu < 100 ? (double)busy.gpu / 100 : 1);
    if (has_used)
        trp_buffer_printf(out, ", \"used_bytes\": %llu", used);
    if (has_total)
        trp_buffer_printf(out, ", \"total_bytes\": %llu", memory.total);
    trp_buffer_printf(out, "}\n");
}

static void measure(trp_gpu_usage *usage, const int *pids, int count)
{
    trp_buffer lines = {0};
    for (int i = 0; i < usage->count; i++)
        if (!usage->gpus[i].over)
            measure_one(usage, &usage->gpus[i], pids, count, &lines);
    pthread_mutex_lock(&usage->lock);
    trp_buffer_free(&usage->measured);
    usage->measured = lines;
    usage->asked = false;
    pthread_mutex_unlock(&usage->lock);
}

static void *watch(void *user)
{
    trp_gpu_usage *usage = user;
    int pids[PIDS_MAX], count;
    char why[256];
    if (!trp_nvml_load(why, sizeof why)) {
        trp_log(TRP_WARN, "what GPUs do is not measured: %s", why);
        return NULL; // It stays asked: nothing is told any more.
    }
    find_gpus(usage);
    while (usage->count > 0) {
        pthread_mutex_lock(&usage->lock);
        while (!usage->asked)
            pthread_cond_wait(&usage->asked_now, &usage->lock);
        count = usage->pid_count;
        memcpy(pids, usage->pids, (size_t)count * sizeof *pids);
        pthread_mutex_unlock(&usage->lock);
        measure(usage, pids, count);
    }
    return NULL;
}

trp_gpu_usage *trp_gpu_usage_begin(const char *ids)
{
    pthread_t thread;
    trp_gpu_usage *made = trp_alloc(sizeof *made);
    char *copy = trp_strdup(ids);
    if (made == NULL || copy == NULL) {
        trp_free(made);
        trp_free(copy);
        return NULL;
    }
    *made = (trp_gpu_usage){.ids = copy};
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->asked_now, NULL);
    if (pthread_create(&thread, NULL, watch, made) != 0) {
        trp_free(copy);
        trp_free(made);
        return NULL;
    }
    (void)pthread_detach(thread);
    return made;
}

void trp_gpu_usage_tick(trp_gpu_usage *usage, const int *pids, int count, trp_buffer *out)
{
    pthread_mutex_lock(&usage->lock);
    if (!usage->asked) {
        if (usage->measured.size > 0)
            trp_buffer_append(out, usage->measured.data, usage->measured.size);
        trp_buffer_free(&usage->measured);
        usage->pid_count = 0;
        for (int i = 0; i < count && usage->pid_count < PIDS_MAX; i++)
            if (pids[i] > 0)
                usage->pids[usage->pid_count++] = pids[i];
        usage->asked = true;
        pthread_cond_signal(&usage->asked_now);
    }
    pthread_mutex_unlock(&usage->lock);
}
