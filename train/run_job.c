// run_job.c: see run_job.h.
#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <runtime/host/file.h>
#include <string.h>
#include <train/run_job.h>
#include <train/state_folder.h>
#include <unistd.h>

enum { VERSION = 1 };

static troupe_status parse(const char *path, const unsigned char *data, size_t size,
                           trp_arena *arena, trp_run_job *job)
{
    trp_json value;
    *job = (trp_run_job){0};
    if (trp_json_parse((const char *)data, size, &value) != TROUPE_OK ||
        trp_json_read(&troupe_type_trp_run_job, value, arena, job) != TROUPE_OK ||
        job->version < 1 || job->submission == NULL || job->server == NULL)
        return troupe_fail(TROUPE_CORRUPT, "%s does not say of which job the run is: %.300s", path,
                           troupe_last_error()->text);
    if (job->version > VERSION)
        return troupe_fail(TROUPE_VERSION, "%s is of version %d, this library reads up to %d", path,
                           job->version, VERSION);
    return TROUPE_OK;
}

troupe_status trp_run_job_read(const char *run, trp_arena *arena, trp_run_job *job)
{
    trp_path path;
    unsigned char *data;
    size_t size;
    TROUPE_TRY(trp_path_join(&path, run, "job"));
    TROUPE_TRY(trp_file_read(path.text, &data, &size));
    troupe_status status = parse(path.text, data, size, arena, job);
    trp_free(data);
    return status;
}

troupe_status trp_run_job_write(const char *run, const trp_run_job *job, bool lasts)
{
    trp_path path;
    trp_buffer text = {0};
    trp_run_job now = *job;
    now.version = VERSION;
    TROUPE_TRY(trp_path_join(&path, run, "job"));
    trp_json_value(&text, &troupe_type_trp_run_job, &now);
    trp_buffer_append(&text, "\n", 1);
    troupe_status status = text.failed
                               ? troupe_fail(TROUPE_NO_MEMORY, "no memory for %s", path.text)
                           : lasts ? trp_file_replace(path.text, text.data, text.size)
                                   : trp_file_replace_unsynced(path.text, text.data, text.size);
    trp_buffer_free(&text);
    return status;
}

void trp_run_job_withdraw(const char *run, const char *submission)
{
    trp_arena arena = {0};
    trp_run_job job;
    trp_path path;
    troupe_error kept;
    trp_error_hold(&kept);
    if (trp_run_job_read(run, &arena, &job) == TROUPE_OK &&
        strcmp(job.submission, submission) == 0 && trp_path_join(&path, run, "job") == TROUPE_OK &&
        unlink(path.text) == 0)
        (void)rmdir(run);
    trp_arena_clear(&arena);
    trp_error_restore(&kept);
}

// One whose number is not known may be taken on still.
static bool has_ended(const trp_run_job *job)
{
    trp_path folder, end;
    return job->job > 0 && trp_state_folder_job(job->server, job->job, &folder) == TROUPE_OK &&
           trp_path_join(&end, folder.text, "end") == TROUPE_OK &&
           (access(end.text, F_OK) == 0 || access(folder.text, F_OK) != 0);
}

troupe_status trp_run_job_check(const char *run, const char *submission)
{
    trp_arena arena = {0};
    trp_run_job job;
    troupe_status status = trp_run_job_read(run, &arena, &job);
    if (status == TROUPE_NOT_FOUND)
        status = TROUPE_OK;
    else if (status == TROUPE_OK &&
             (submission == NULL || strcmp(submission, job.submission) != 0) && !has_ended(&job))
        status = troupe_fail(TROUPE_BUSY,
                             "the run %s is of job %" PRId64 " of the train server of %s, which "
                             "has not ended: stop that, or remove the file 'job' there",
                             run, job.job, job.server);
    trp_arena_clear(&arena);
    return trp_error_settled(status);
}
