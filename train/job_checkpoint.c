// job_checkpoint.c: the newest and the best checkpoint of a run, asked for at any time.
#include <runtime/base/require.h>
#include <string.h>
#include <train/checkpoint.h>
#include <train/handle.h>

troupe_status troupe_job_checkpoint(troupe_job *job, troupe_checkpoint_choice which, char *folder,
                                    size_t capacity, int64_t *number)
{
    trp_path path;
    TRP_REQUIRE(job);
    TRP_REQUIRE(folder);
    if (which != TROUPE_NEWEST_CHECKPOINT && which != TROUPE_BEST_CHECKPOINT)
        return troupe_fail(TROUPE_INVALID,
                           "troupe_job_checkpoint: the choice is %d: expected "
                           "TROUPE_NEWEST_CHECKPOINT or TROUPE_BEST_CHECKPOINT",
                           (int)which);
    pthread_mutex_lock(&job->lock);
    int64_t found = which == TROUPE_NEWEST_CHECKPOINT ? job->newest : job->best;
    pthread_mutex_unlock(&job->lock);
    if (found < 0)
        return troupe_fail(TROUPE_NOT_FOUND, "%s has no checkpoint yet", job->path);
    TROUPE_TRY(trp_checkpoint_folder(job->path, found, &path));
    size_t size = strlen(path.text) + 1;
    if (size > capacity)
        return troupe_fail(TROUPE_TOO_LARGE,
                           "the folder of a checkpoint takes %zu bytes, and there is room for %zu",
                           size, capacity);
    memcpy(folder, path.text, size);
    if (number != NULL)
        *number = found;
    return TROUPE_OK;
}
