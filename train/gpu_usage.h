// gpu_usage.h: what a job's GPUs do and what its processes have of their memory, for usage.jsonl:
//
//     {"t": 1764182401.1, "gpu": "0", "name": "NVIDIA H100 80GB HBM3", "busy": 0.87,
//      "used_bytes": 2147483648, "total_bytes": 85520809984}
//
// on one line. `gpu` is its entry in CUDA_VISIBLE_DEVICES, `busy` the part of the last moment in
// which the GPU computed for anyone, `used_bytes` what the job's own processes have of its
// `total_bytes`. A member that the driver does not tell is left out.
//
// The driver may take long to answer, or for ever: a thread of its own asks it, when it is told to,
// so who ticks never waits.
#ifndef TRP_GPU_USAGE_H
#define TRP_GPU_USAGE_H

#include <runtime/base/buffer.h>

typedef struct trp_gpu_usage trp_gpu_usage;

// `ids` is of CUDA_VISIBLE_DEVICES. What cannot be measured is logged, a line once: no library, a
// GPU that is not found, that is divided (MIG) or lost. NULL: no memory or no thread. It lasts for
// the life of the process.
trp_gpu_usage *trp_gpu_usage_begin(const char *ids);
// Adds the lines of what was measured since the last tick, if any, and has the next values
// measured unless the driver still owes the last ones. `pids` are the job's processes, whose
// children count too; 0: there is none.
void trp_gpu_usage_tick(trp_gpu_usage *usage, const int *pids, int count, trp_buffer *out);

#endif
