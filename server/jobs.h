// jobs.h: the jobs of the server: what they are, what happens to them, and when. It knows books,
// schedule and the folders of jobs, but no sockets, no clock and no event loop: these call it, and
// once all that has come is handled, trp_jobs_turn, which decides, stores and starts.
#ifndef TRP_SERVER_JOBS_H
#define TRP_SERVER_JOBS_H

#include <runtime/base/hash.h>
#include <runtime/host/file.h>
#include <server/books.h>
#include <server/schedule.h>

typedef struct trp_entry trp_entry;
typedef struct trp_jobs trp_jobs;

// A job in memory. Others than jobs*.c read it only.
struct trp_entry {
    trp_row row;
    char *folder;
    trp_ticket *ticket; // NULL: it has ended.
    bool dirty;         // Not as the books have it;
    bool fresh;         // they do not have it at all.
    trp_papers *papers; // That go to the books with it; NULL: its folder lasts without.
    // Of the attempt under way.
    bool launching; // Is to be started once its grant is in the books.
    int launch_step_ms;
    char *unlaunched; // A sentence where that has failed; NULL.
    // That the server watches: of the launcher, or who had the lock; 0: none. Below 0: one that a
    // warm runner makes, whose number is not known before it greets.
    pid_t process;
    bool own;        // How it ends is told, as of waitpid.
    int exit_status; // If so.
    bool connected;
    int64_t due_ms; // When to look at it next; 0: when something happens.
    int look_step_ms;
    int again_step_ms;         // Between attempts that could not begin; 0: the last one could.
    int64_t kill_ms;           // When its process is ended; 0: it is not.
    int64_t order_ms;          // Since when it waits.
    int state, ranks, reports; // As the runner says.
    int64_t echo;
    char *refused; // Why it could not follow a wish; NULL.
    // The list of those that have changed in this turn, or are to be done something with.
    trp_entry *next_changed;
    bool changed;
    void *user; // Of the one who uses this.
    UT_hash_handle hh, by_submission, by_key, by_run;
};

// What has to be done for it. Each may be NULL where nothing comes to it.
typedef struct trp_jobs_acts {
    // Starts an attempt, which the fence lets run, as trp_launcher_start. The process is watched
    // from then on, and trp_jobs_exited called.
    troupe_status (*launch)(void *user, trp_entry *job, const trp_wire_launch *launch,
                            const trp_wire_order *order, pid_t *process);
    // Has a process watched that another server has started. false: it cannot be.
    bool (*watch)(void *user, trp_entry *job, pid_t process);
    // Ends the process that has the lock of the job's folder (or, if `keeper`, that of its keeper).
    void (*kill)(void *user, trp_entry *job, bool keeper);
    void (*changed)(void *user, trp_entry *job); // Committed, and to be told.
    void (*removed)(void *user, trp_entry *job); // Its memory goes.
    void *user;
} trp_jobs_acts;

enum { TRP_JOBS_KEPT = 4096 }; // Ended ones that are not removed by themselves.

// Opens the books of the state folder, and finds out what happened since they were closed. What
// the machine has is taken from the ledger. `acts` is copied. The time as of trp_jobs_set_time. As
// trp_books_open; TROUPE_NO_MEMORY.
troupe_status trp_jobs_open(const char *folder, const trp_resources *machine,
                            const trp_jobs_acts *acts, int64_t now_ms, double unix_s,
                            trp_jobs **jobs);
void trp_jobs_close(trp_jobs *jobs);

// What time it is: monotonic, and since 1970.
void trp_jobs_set_time(trp_jobs *jobs, int64_t now_ms, double unix_s);
// When trp_jobs_turn is to be called though nothing has come: at a monotonic time, INT64_MAX: not;
// and at a Unix time (a reservation), or 0.
int64_t trp_jobs_due(trp_jobs *jobs, double *unix_s);

// Takes a job on, or finds it: it is committed with the next turn, after which it has to be looked
// up again by its submission, as a full disk may have refused it. TROUPE_EXISTS: another job has
// the key, *job is it; TROUPE_NOT_FOUND: it was removed; TROUPE_TOO_LARGE, TROUPE_BUSY,
// TROUPE_INVALID, TROUPE_MALFORMED, TROUPE_UNSUPPORTED, TROUPE_NO_SPACE, TROUPE_IO,
// TROUPE_NO_MEMORY.
troupe_status trp_jobs_submit(trp_jobs *jobs, const trp_wire_submit *submit, trp_entry **job);
// Why the last turn refused what was submitted; NULL: it did not.
const char *trp_jobs_refusal(const trp_jobs *jobs);
// TROUPE_NOT_FOUND.
troupe_status trp_jobs_find(trp_jobs *jobs, const trp_wire_job_name *name, trp_entry **job);
trp_entry *trp_jobs_by_submission(trp_jobs *jobs, const char *submission);
// All of them, the oldest first: follow hh.next.
trp_entry *trp_jobs_first(trp_jobs *jobs);
// Changes what is wished. TROUPE_NOT_FOUND; TROUPE_STOPPED: it has ended; TROUPE_INVALID,
// TROUPE_TOO_LARGE, TROUPE_NO_MEMORY.
troupe_status trp_jobs_wish(trp_jobs *jobs, const trp_wire_wish *wish, trp_entry **job);

// A runner says which attempt it is. TROUPE_NOT_FOUND: there is no such job; TROUPE_STOPPED: it is
// to leave. `process` is what its socket says.
troupe_status trp_jobs_greet(trp_jobs *jobs, const trp_wire_runner *runner, pid_t process,
                             trp_entry **job);
void trp_jobs_progress(trp_jobs *jobs, trp_entry *job, const trp_wire_progress *progress);
void trp_jobs_lost_touch(trp_jobs *jobs, trp_entry *job); // The runner's connection has ended.
// The process that is watched has ended, `status` as of waitpid; below 0: that is not known.
void trp_jobs_exited(trp_jobs *jobs, trp_entry *job, int status);

// Decides, stores, tells and starts. TROUPE_NO_SPACE: nothing could be stored, and it will be tried
// again; anything else: the server has to end.
troupe_status trp_jobs_turn(trp_jobs *jobs);

// A job as clients see it, with texts of the entry and of the arena. TROUPE_NO_MEMORY.
troupe_status trp_jobs_show(trp_jobs *jobs, trp_entry *job, trp_arena *arena, trp_wire_job *shown);
// What is wished of it. TROUPE_NO_MEMORY.
troupe_status trp_jobs_wishes(const trp_entry *job, trp_arena *arena, trp_wire_wishes *wishes);
// The counts and amounts of a status.
void trp_jobs_count(trp_jobs *jobs, trp_wire_status *status);
// How many have not ended.
int trp_jobs_under_way(const trp_jobs *jobs);

// Removes folders beside those of known runs that a client has claimed, an hour ago or longer, for
// a job that never came to be; how many.
size_t trp_jobs_sweep_claims(trp_jobs *jobs);
// Removes what is beyond the bounds, and says what in a sentence. TROUPE_NO_SPACE, TROUPE_IO.
troupe_status trp_jobs_gc(trp_jobs *jobs, const trp_wire_gc *bounds, trp_buffer *said);

#endif
