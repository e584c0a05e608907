// committer.c: what runs on a job's committing thread.
#include <errno.h>
#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <string.h>
#include <train/committer.h>
#include <train/job.h>
#include <unistd.h>

void trp_committer_init(trp_committer *committer, trp_job *job)
{
    *committer = (trp_committer){.job = job};
    pthread_mutex_init(&committer->lock, NULL);
}

// A checkpoint without its run.json is of no use.
static troupe_status have_run_last(trp_committer *committer)
{
    const trp_job *job = committer->job;
    if (!committer->run_lasts && !job->opening.lasts)
        TROUPE_TRY(trp_run_sync(job->path));
    committer->run_lasts = true;
    return TROUPE_OK;
}

static void make(trp_commit *commit)
{
    commit->status =
        commit->torn ? troupe_fail(TROUPE_IO, "%s",
                                   commit->why[0] ? commit->why : "a rank could not save its state")
                     : have_run_last(commit->committer);
    if (commit->status == TROUPE_OK)
        commit->status = trp_checkpoint_commit(&commit->staging, commit->committer->job->path,
                                               &commit->manifest, &commit->folder);
    if (commit->status == TROUPE_OK)
        return;
    commit->error = *troupe_last_error();
    // So that it does not take the room that the next one needs. There may be nothing to remove.
    (void)trp_checkpoint_discard(&commit->staging);
}

static void sync_journal(const trp_commit *commit, const char *run)
{
    trp_path path;
    if (trp_path_is_local(run)) {
        if (commit->journal >= 0 && fdatasync(commit->journal) != 0)
            trp_log(TRP_WARN, "the journal of %s may not last: %s", run, strerror(errno));
        return;
    }
    if (trp_path_make(&path, "%s/journal.jsonl", run) != TROUPE_OK ||
        trp_storage_sync(path.text) != TROUPE_OK)
        trp_log(TRP_WARN, "the journal of %s may not last: %s", run, troupe_last_error()->text);
}

static void follow_up(const trp_commit *commit)
{
    const char *run = commit->committer->job->path;
    sync_journal(commit, run);
    for (size_t i = 0; i < commit->evicted_count; i++) {
        if (trp_checkpoint_remove(run, commit->evicted[i].id) != TROUPE_OK)
            trp_log(TRP_WARN, "a checkpoint that is not kept stays on disk: %s",
                    troupe_last_error()->text);
        else
            trp_log(TRP_DEBUG,
                    "Removed worst checkpoint from: %s/checkpoints/checkpoint_%06" PRId64
                    " (score %g)",
                    run, commit->evicted[i].id, commit->evicted[i].score);
    }
}

static void run_task(trp_serial_task *task)
{
    trp_commit *commit = (trp_commit *)((char *)task - offsetof(trp_commit, task));
    trp_committer *committer = commit->committer;
    if (commit->follows)
        follow_up(commit);
    else
        make(commit);
    trp_error_forget();
    pthread_mutex_lock(&committer->lock);
    commit->next = committer->finished;
    committer->finished = commit;
    pthread_mutex_unlock(&committer->lock);
    committer->tell(committer);
}

void trp_committer_hand(trp_committer *committer, trp_commit *commit)
{
    commit->committer = committer;
    commit->task.run = run_task;
    committer->busy++;
    if (!committer->thread && trp_serial_start("troupe-commit", &committer->thread) != TROUPE_OK)
        run_task(&commit->task); // Late rather than not.
    else
        trp_serial_add(committer->thread, &commit->task);
}

trp_commit *trp_committer_take(trp_committer *committer)
{
    pthread_mutex_lock(&committer->lock);
    trp_commit **at = &committer->finished;
    while (*at && (*at)->next)
        at = &(*at)->next;
    trp_commit *oldest = *at;
    *at = NULL;
    pthread_mutex_unlock(&committer->lock);
    if (oldest)
        committer->busy--;
    return oldest;
}

void trp_committer_end(trp_committer *committer)
{
    trp_serial_end(&committer->thread);
    for (trp_commit *commit; (commit = trp_committer_take(committer));)
        trp_commit_free(commit);
    pthread_mutex_destroy(&committer->lock);
}
