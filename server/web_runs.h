// web_runs.h: what is kept of the runs that were asked for lately, so that the next request reads
// only what was added: the facts of their journals, and who used how much of CPUs, GPUs and memory
// when.
#ifndef TRP_SERVER_WEB_RUNS_H
#define TRP_SERVER_WEB_RUNS_H

#include <train/html_facts.h>

enum {
    WEB_USAGE_SLOTS = 240, // Of equal length, which doubles as the run goes on.
    WEB_USAGE_RANKS = 64,  // More are counted together with the last one.
    WEB_USAGE_GPUS = 64,   // More are left out.
    WEB_RUNS_KEPT = 64,
    WEB_RUNS_BYTES = 48 << 20, // What is kept of all of them, at least one of which is.
};

// Of a rank: seconds of CPU in each slot, and the mean of its memory there.
typedef struct web_usage_rank {
    int rank, pid;
    double last_at, last_cpu_s;
    double cpu_s[WEB_USAGE_SLOTS], memory[WEB_USAGE_SLOTS];
    unsigned samples[WEB_USAGE_SLOTS];
} web_usage_rank;

// Of a GPU that the job has: means of each slot.
typedef struct web_usage_gpu {
    char id[64], name[96];
    double total_bytes;                   // 0: not known.
    double last_at, last_busy, last_used; // Negative: not known.
    double busy[WEB_USAGE_SLOTS];         // From 0 to 1.
    double memory[WEB_USAGE_SLOTS];       // Of the job's processes.
    unsigned busy_samples[WEB_USAGE_SLOTS], memory_samples[WEB_USAGE_SLOTS];
} web_usage_gpu;

typedef struct web_usage {
    uint64_t read; // Bytes of the file.
    double from;   // Unix time of the first sample.
    double width_s, last_at;
    size_t used; // Slots.
    web_usage_rank *ranks[WEB_USAGE_RANKS];
    size_t count;
    web_usage_gpu *gpus[WEB_USAGE_GPUS];
    size_t gpu_count;
    uint64_t bad_lines;
} web_usage;

typedef struct web_run {
    struct web_run *next;
    char *folder;
    uint64_t inode; // Of the journal.
    uint64_t asked; // When it was asked for last, in requests.
    bool whole;     // All of the journal was read.
    trp_facts facts;
    web_usage usage;
} web_run;

typedef struct web_runs {
    web_run *first;
    size_t count;
    uint64_t requests;
} web_runs;

// Reads on in the journal of the run in that folder, and in its usage.jsonl; *budget is how many
// bytes may be read, and what is left of them. What was found lives until the next call.
// TROUPE_NOT_FOUND: it is no run; TROUPE_IO, TROUPE_NO_MEMORY.
troupe_status web_runs_find(web_runs *runs, const char *folder, size_t *budget, web_run **run);
void web_runs_clear(web_runs *runs);

// Takes a line of train/usage.h, or of train/gpu_usage.h. False: no memory.
bool web_usage_take(web_usage *usage, const char *text, size_t size);
void web_usage_clear(web_usage *usage);

#endif
