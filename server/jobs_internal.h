// jobs_internal.h: what the parts of server/jobs.h share.
#ifndef TRP_SERVER_JOBS_INTERNAL_H
#define TRP_SERVER_JOBS_INTERNAL_H

#include <runtime/base/run_folder.h>
#include <server/fence.h>
#include <server/jobs.h>

enum {
    TRP_KILL_MS = 2000,  // Between what a runner is told and the end of its process.
    TRP_RETRY_MS = 1000, // What a full disk has refused.
    TRP_WIPE_MS = 1000,  // Behind an end: several are wiped at once.
    TRP_LOOK_FIRST_MS = 5,
    TRP_LOOK_LAST_MS = 1000,
    TRP_LAUNCH_LAST_MS = 60000,
    TRP_UNCOUNTED_MAX = 3,
    TRP_OVERDUE_S = 30, // Beyond limit and grace, which the runner sees to.
};

struct trp_jobs {
    trp_path folder;
    trp_books *books;
    trp_schedule *schedule;
    trp_resources machine;
    trp_jobs_acts acts;
    trp_entry *all, *submissions, *keys; // Tables.
    trp_entry *runs;                     // Of those that have not ended.
    trp_entry *changed;                  // The list.
    int64_t now_ms, begun_ms;
    double unix_s, begun_unix_s;
    int64_t next_id;
    int64_t next_due_ms; // The soonest of all jobs; INT64_MAX: none.
    int64_t retry_ms;    // When to store again; 0: nothing waits for that.
    int64_t wipe_ms;     // When what was deleted is overwritten everywhere; 0: nothing was.
    int under_way, ended;
    bool any_dirty;
    bool lasts; // Something of it has to outlast a failure of the power.
    char boot_id[TRP_BOOT_ID_MAX];
    char *refusal;
};

// ---- jobs.c

// A time of the schedule: milliseconds since 1970, but never back while the server lives.
int64_t trp_jobs_clock(const trp_jobs *jobs);
void trp_jobs_touch(trp_jobs *jobs, trp_entry *job); // It has changed, and is to be told.
void trp_jobs_soil(trp_jobs *jobs, trp_entry *job);  // It is to be stored, too.
// The same, of what a failure of the power may undo, since it makes it untrue: a grant, a hello.
void trp_jobs_note(trp_jobs *jobs, trp_entry *job);
// Makes an entry of a row, which it owns then, also on failure. TROUPE_NO_MEMORY.
troupe_status trp_jobs_add(trp_jobs *jobs, trp_row *row, trp_entry **job);
void trp_jobs_drop(trp_jobs *jobs, trp_entry *job);
void trp_jobs_drop_key(trp_jobs *jobs, trp_entry *job);
void trp_jobs_drop_run(trp_jobs *jobs, trp_entry *job); // Another one may have that folder.
// So many ranks are what the job needs from now on.
void trp_jobs_need_ranks(trp_row *row, int ranks);
// What the schedule is asked for. TROUPE_INVALID, TROUPE_TOO_LARGE.
troupe_status trp_jobs_request(const trp_jobs *jobs, const trp_row *row, trp_request *request);

// ---- jobs_folder.c

// Writes all that a job is, the file job.json last. On failure nothing is left. It is not synced,
// and kept as papers for the books; or, where that is much, synced, but for the folder of all jobs.
troupe_status trp_jobs_write_folder(const trp_jobs *jobs, trp_entry *job,
                                    const trp_wire_submit *submit, const trp_wire_launch *launch);
// Writes again what differs from the papers: in the folder of a job, which is not synced, and in
// that of its run. As trp_file_write.
troupe_status trp_jobs_mend_folder(const trp_jobs *jobs, const trp_entry *job,
                                   const trp_papers *papers);
// Reads a job from its folder. TROUPE_NOT_FOUND: it is not whole; TROUPE_CORRUPT,
// TROUPE_NO_MEMORY. *books (trp_free) is the name of the books it was made for.
troupe_status trp_jobs_read_folder(const char *folder, trp_row *row, char **books);
// Calls `visit` for each folder of a job, by number. TROUPE_IO, TROUPE_NO_MEMORY; or what `visit`
// returned.
troupe_status trp_jobs_each_folder(const char *state_folder,
                                   troupe_status (*visit)(void *user, int64_t id,
                                                          const char *folder),
                                   void *user);
// The launch record. TROUPE_NOT_FOUND, TROUPE_CORRUPT, TROUPE_IO, TROUPE_NO_MEMORY.
troupe_status trp_jobs_read_launch(const trp_entry *job, trp_arena *arena, trp_wire_launch *launch);
// Says in the job's folder what its attempt is granted, for a server whose books are lost: as long
// as the attempt runs, so it need not last over a boot. TROUPE_NO_SPACE, TROUPE_IO,
// TROUPE_NO_MEMORY.
troupe_status trp_jobs_write_grant(const trp_entry *job);
// Reads it into the row, whose attempt is known. TROUPE_NOT_FOUND: there is none of that attempt;
// TROUPE_CORRUPT, TROUPE_IO, TROUPE_NO_MEMORY.
troupe_status trp_jobs_read_grant(trp_entry *job);
// Removes what only a job that has not ended needs.
void trp_jobs_forget_launch(const trp_entry *job);
// The first member in which what is submitted differs from the job, in the arena.
const char *trp_jobs_differ(const trp_entry *job, const trp_wire_submit *submit, trp_arena *arena);

// ---- jobs_recover.c

// Brings memory, books, folders and locks together when the server starts.
troupe_status trp_jobs_recover(trp_jobs *jobs, bool fresh);

// ---- jobs_turn.c

// Looks at the job at that time, in milliseconds from now, or sooner.
void trp_jobs_look_in(trp_jobs *jobs, trp_entry *job, int64_t ms);
// Has a job without a grant wait for one, or waits no more.
troupe_status trp_jobs_queue(trp_jobs *jobs, trp_entry *job);
void trp_jobs_unqueue(trp_jobs *jobs, trp_entry *job);
// Whether there is a file `end`, which then counts.
bool trp_jobs_take_found_end(trp_jobs *jobs, trp_entry *job);
// Puts into the row what its ticket has. TROUPE_NO_MEMORY.
troupe_status trp_jobs_take_grant(trp_jobs *jobs, trp_entry *job);
void trp_jobs_take_end(trp_jobs *jobs, trp_entry *job, const trp_job_end *end);
// Stores all that has changed; `settle`: the books are whole then.
troupe_status trp_jobs_store(trp_jobs *jobs, bool settle);

#endif
