// handle.h: a job as its user has it: who waits for it, what is known of it, its follower, gate and
// console, and what the user wishes.
//
// One record for all handles on a job, each of which is ended by troupe_job_close. It is the port
// of the job (train/port.h), which leads to it as long as the job exists; the way to the job,
// `line`, is let go when the last handle is closed, so that neither keeps the other. The follower
// and the gate are called without the lock.
//
// Locks: a job's lock may be held where this one is taken; never the other way round.
#ifndef TRP_HANDLE_H
#define TRP_HANDLE_H

#include <pthread.h>
#include <train/console.h>
#include <train/detached.h>
#include <train/followers.h>
#include <train/gate.h>
#include <train/job.h>

struct troupe_job {
    _Atomic int holds;
    trp_arena arena;
    trp_job_spec spec;         // That was submitted.
    const char *path, *folder; // Of the run, and on the machine that runs it.
    trp_gate *gate;            // NULL: there is none.
    trp_detached *detached;    // Of a train server's job; NULL: it is this process's.
    uint64_t incarnation;      // Of the process when it was submitted.
    int handles;               // Open ones. With the lock of keys.c, as is the next.
    struct troupe_job *keyed;  // The next one with a key.

    pthread_mutex_t lock;
    pthread_cond_t changed; // State.
    trp_followers followers;
    trp_job *line; // Held; NULL: not taken on yet, or no handle is open.
    trp_wishes wishes;
    char why[160];
    troupe_job_state state;
    int reports, restarts, ranks;
    int64_t newest, best;      // Checkpoints that there are, by number; -1: none.
    int pids[16];              // Now or last.
    double elapsed_s, since_s; // At that time; 0: it does not run.
    trp_console *console;      // NULL: the run is not shown.
    trp_memory_commit *commit; // The last one in memory, held; NULL: none yet.
    troupe_result *result;     // Once it is DONE.
};

extern const trp_port_class trp_handle_port;

// With one handle and one hold. NULL: no memory.
troupe_job *trp_handle_create(void);
void trp_handle_hold(troupe_job *handle);
void trp_handle_release(troupe_job *handle);
// Whether the runtime that the job was submitted to still runs.
bool trp_handle_has_runtime(const troupe_job *handle);
// As troupe_job_stop, but with the next report, whether or not a checkpoint is due with the one
// after it.
void trp_handle_stop_next(troupe_job *handle);
// The way to the job, with a hold; NULL: there is none.
trp_job *trp_handle_line(troupe_job *handle);

// Shows the run on its console from now on, if that is wanted; its state, and its end. With the
// lock.
void trp_handle_show(troupe_job *handle, const trp_accepted *what);
void trp_handle_show_state(troupe_job *handle);
void trp_handle_show_end(troupe_job *handle, const trp_outcome *outcome);
// A sentence: on the console, or else in the log at that level.
void trp_handle_say(troupe_job *handle, trp_level level, const char *text);
// Which processes the group has, likewise.
void trp_handle_say_group(troupe_job *handle, const trp_console_rank *ranks, int count);

#endif
