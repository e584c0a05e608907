// limits.h: what this process may use of its machine: CPUs, memory, GPUs. Its affinity, the quotas
// and limits of its cgroup (version 1 or 2) and of all above that, and the devices that it sees.
#ifndef TRP_NODE_LIMITS_H
#define TRP_NODE_LIMITS_H

#include <stddef.h>

typedef struct trp_limits {
    double cpus; // A quota may be a fraction; never above the affinity's whole CPUs.
    double memory_bytes;
    int gpus;
} trp_limits;

enum { TRP_GPU_ID_MAX = 64 };

// Reads the files of this system, or of a folder that looks like one ("" otherwise; for tests).
trp_limits trp_limits_read(const char *root);
// Calls `visit` for the folder of this process's cgroup, and of each above it.
void trp_limits_each_group(const char *root, void (*visit)(const char *folder, void *user),
                           void *user);
// The name that CUDA gives to the GPU of that index (from 0): its entry in CUDA_VISIBLE_DEVICES
// where that is set, else its number.
void trp_gpu_id(int index, char id[TRP_GPU_ID_MAX]);

#endif
