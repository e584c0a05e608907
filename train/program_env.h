// program_env.h: which program a rank runs, and what it finds in its environment.
#ifndef TRP_PROGRAM_ENV_H
#define TRP_PROGRAM_ENV_H

#include <runtime/host/file.h>
#include <troupe/process.h>

// Checks a config before anything runs. TROUPE_INVALID, TROUPE_NOT_FOUND.
troupe_status trp_program_check(const troupe_process_config *config);
// The path of its program, as it is after its folder was entered.
troupe_status trp_program_find(const troupe_process_config *config, trp_path *path);

// What is said beside the rank's place.
typedef struct trp_program_facts {
    int restarts;           // Of the run's options, as is
    double cpus;            // what a rank has reserved.
    const char *run;        // Its folder.
    const char *checkpoint; // The folder for the next one.
    const char *restored;   // NULL: there is none; so for the next.
    bool save_due;
} trp_program_facts;

// The environment of the rank's program, in the thread's arena. All ranks call it together: they
// agree on a port and tell each other their GPUs. TROUPE_NO_MEMORY, and errors of collectives.
troupe_status trp_program_env(troupe_rank *me, const troupe_process_config *config,
                              const trp_program_facts *facts, char ***environment);

// The ids of all ranks' GPUs, if each of `count` has one of its own: "0,1". Else false. Each row
// has `width` bytes.
bool trp_program_gpus(const char *rows, int count, size_t width, char *all, size_t capacity);

#endif
