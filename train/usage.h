// usage.h: usage.jsonl in a run's folder: what the processes of a job of the train server use.
//
//     {"t": 1764182400.123, "rank": -1, "pid": 4711, "cpu_s": 0.31, "rss_bytes": 26214400}
//
// A line for the runner (rank -1) and each rank, once a second; `t` is Unix time, `cpu_s` what the
// process has had since its start, with its threads. A file that has grown large has a line only
// every 10 s. Lines of GPUs, if the job has any: see train/gpu_usage.h.
#ifndef TRP_USAGE_H
#define TRP_USAGE_H

#include <runtime/base/buffer.h>
#include <stdint.h>
#include <train/gpu_usage.h>

typedef struct trp_usage {
    const char *folder;
    const char *gpu_ids; // As of CUDA_VISIBLE_DEVICES; NULL or "": the job has none.
    int64_t next_ms;     // Monotonic; 0: now.
    trp_gpu_usage *gpus; // Begun by the first tick.
} trp_usage;

// Adds lines if it is time. `pids` are those of the ranks; 0: there is none. What cannot be written
// is left out.
void trp_usage_tick(trp_usage *usage, const int *pids, int ranks);
// The line of one process is added; false: it is gone.
bool trp_usage_line(trp_buffer *out, double time_s, int rank, int pid);
// The parent of a process; 0: there is none, or it is gone.
int trp_usage_parent(int pid);

#endif
