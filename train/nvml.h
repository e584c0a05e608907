// nvml.h: the functions of NVIDIA's management library that this one calls, loaded when they are
// first needed. It comes with the driver, and asks it without using a GPU: no context is made, and
// no memory of a GPU is taken.
//
// The declarations are ours, so that no header is needed to build. A test compares them with
// nvml.h where that is installed: it defines TRP_NVML_TYPES and the types.
#ifndef TRP_NVML_H
#define TRP_NVML_H

#include <stdbool.h>
#include <stddef.h>

#ifndef TRP_NVML_TYPES
typedef int trp_nvml_result;
typedef struct trp_nvml_device_ *trp_nvml_device;
typedef struct trp_nvml_pci {
    char legacy_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char id[32];
} trp_nvml_pci;
typedef struct trp_nvml_utilization {
    unsigned gpu, memory; // Percent.
} trp_nvml_utilization;
typedef struct trp_nvml_memory {
    unsigned long long total, free, used; // Bytes.
} trp_nvml_memory;
// As of the second and the third version of what lists them.
typedef struct trp_nvml_process {
    unsigned pid;
    unsigned long long used; // Bytes; all ones: not known.
    unsigned gpu_instance, compute_instance;
} trp_nvml_process;
#endif

enum {
    TRP_NVML_NOT_SUPPORTED = 3,     // NVML_ERROR_NOT_SUPPORTED
    TRP_NVML_INSUFFICIENT_SIZE = 7, // NVML_ERROR_INSUFFICIENT_SIZE
    TRP_NVML_GPU_IS_LOST = 15,      // NVML_ERROR_GPU_IS_LOST
    TRP_NVML_NAME_BYTES = 96,       // NVML_DEVICE_NAME_V2_BUFFER_SIZE, NVML_DEVICE_UUID_V2_...
};

// X(our name, its name, its parameters)
#define TRP_NVML_FUNCTIONS(X)                                                                      \
    X(init, nvmlInit_v2, (void))                                                                   \
    X(count, nvmlDeviceGetCount_v2, (unsigned *))                                                  \
    X(device, nvmlDeviceGetHandleByIndex_v2, (unsigned, trp_nvml_device *))                        \
    X(name, nvmlDeviceGetName, (trp_nvml_device, char *, unsigned))                                \
    X(uuid, nvmlDeviceGetUUID, (trp_nvml_device, char *, unsigned))                                \
    X(pci, nvmlDeviceGetPciInfo_v3, (trp_nvml_device, trp_nvml_pci *))                             \
    X(utilization, nvmlDeviceGetUtilizationRates, (trp_nvml_device, trp_nvml_utilization *))       \
    X(memory, nvmlDeviceGetMemoryInfo, (trp_nvml_device, trp_nvml_memory *))

// X(our name, its name, its parameters): NULL where the library lacks them. The last two take the
// same arguments.
#define TRP_NVML_OPTIONAL(X)                                                                       \
    X(mig_mode, nvmlDeviceGetMigMode, (trp_nvml_device, unsigned *, unsigned *))                   \
    X(processes, nvmlDeviceGetComputeRunningProcesses_v3,                                          \
      (trp_nvml_device, unsigned *, trp_nvml_process *))                                           \
    X(processes_2, nvmlDeviceGetComputeRunningProcesses_v2,                                        \
      (trp_nvml_device, unsigned *, trp_nvml_process *))

// X(our name, its name, its parameters): those that return a text.
#define TRP_NVML_TEXTS(X) X(error_text, nvmlErrorString, (trp_nvml_result))

struct trp_nvml {
#define X(field, symbol, parameters) trp_nvml_result(*field) parameters;
    TRP_NVML_FUNCTIONS(X)
    TRP_NVML_OPTIONAL(X)
#undef X
#define X(field, symbol, parameters) const char *(*field)parameters;
    TRP_NVML_TEXTS(X)
#undef X
};
// Filled by trp_nvml_load; `processes` is of the version that there is.
extern struct trp_nvml trp_nvml;

// Loads the library and begins to use it, once. False: `why` says what is missing.
bool trp_nvml_load(char *why, size_t capacity);

#endif
