// opening.h: opening a run: as a new one, or to go on with what is in its folder. See
// docs/internals/train/run-state.md.
#ifndef TRP_OPENING_H
#define TRP_OPENING_H

#include <runtime/host/file.h>
#include <train/alive.h>
#include <train/run_file.h>
#include <train/run_journal.h>

struct trp_job;

// What a job has of its run while it is queued or runs.
typedef struct trp_opening {
    trp_alive *alive; // NULL: not opened, or closed.
    trp_run_journal journal;
    trp_run_history history; // What earlier openings left.
    int64_t epoch;
    bool taken;       // From a storage elsewhere.
    bool lasts;       // All that is put down is synced; else checkpoints are, with what they need.
    bool ended;       // The run has ended well: `end` says how, and nothing is started.
    trp_end_file end; // Texts are in the job's arena.
    troupe_array_troupe_text data_keys; // That run.json has, in the job's arena; none: not known.
} trp_opening;

// Finds or makes a run's folder in local files, as the options say, which have a name. *made: it
// was made for this. TROUPE_NOT_FOUND, TROUPE_EXISTS, TROUPE_IO, TROUPE_NO_SPACE, TROUPE_INVALID.
troupe_status trp_run_claim(const troupe_train_options *options, trp_path *run, bool *made);
// TROUPE_WRONG_TYPE: the run was made by another trainer, and that is not forced.
troupe_status trp_run_check_trainer(const char *run, const trp_run_head *head,
                                    const troupe_trainer *trainer, bool force);
// Finds or makes the job's folder and takes it for this driver. The job's options are those that
// were given; of a run that goes on, those left out become the ones it was made with. Sets
// job->path and job->opening.
troupe_status trp_run_open(struct trp_job *job);
// What an opening has put down and not synced lasts from now on, in local files.
troupe_status trp_run_sync(const char *run);
// Lets the run go. May be called twice.
void trp_run_close(struct trp_job *job);
// The result of a run that had ended before it was opened. NULL: no memory.
struct troupe_result *trp_run_stored_result(struct trp_job *job);

// Removes what the job's run has left half done.
troupe_status trp_run_clean(const struct trp_job *job);
// Removes what a run left half done that no process runs any more; of a living one nothing. The
// second: of the run that has the checkpoint, where its path looks like one's.
void trp_run_clean_left(const char *run);
void trp_run_clean_beside(const char *checkpoint);

#endif
