// track_job.c: a job that something may be sent of, as its folder says.
#include <server/track_internal.h>

#include <errno.h>
#include <fcntl.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/host/file.h>
#include <server/fence.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static troupe_status read_json(track_job *job, const char *path, trp_json *document)
{
    unsigned char *text;
    size_t size;
    TROUPE_TRY(trp_file_read(path, &text, &size));
    char *copy = (char *)trp_arena_alloc(&job->arena, size + 1);
    if (copy != NULL)
        memcpy(copy, text, size);
    trp_free(text);
    if (copy == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %s", path);
    return trp_json_parse(copy, size, document);
}

static void read_note(track_job *job)
{
    trp_path path;
    trp_json document;
    if (trp_path_make(&path, "%s/tracked", job->folder) == TROUPE_OK &&
        read_json(job, path.text, &document) == TROUPE_OK)
        (void)trp_json_read(&troupe_type_track_note, document, &job->arena, &job->note);
    job->webhook_done = job->note.webhook != NULL;
    job->mlflow_done = job->note.mlflow != NULL;
}

static troupe_status load(track_job *job)
{
    trp_path path;
    trp_json document, metadata, webhook;
    static const char letters[] =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
    TROUPE_TRY(trp_path_make(&path, "%s/job.json", job->folder));
    TROUPE_TRY(read_json(job, path.text, &document));
    TROUPE_TRY(trp_json_read(&troupe_type_track_file, document, &job->arena, &job->file));
    (void)trp_json_member(document, "config", &job->config);
    if (trp_json_member(document, "metadata", &metadata) &&
        trp_json_member(metadata, "webhook", &webhook))
        (void)trp_json_read(&troupe_type_troupe_text, webhook, &job->arena, &job->webhook);
    const char *id = job->file.submission;
    if (id == NULL || id[0] == '\0' || id[strspn(id, letters)] != '\0')
        return troupe_fail(TROUPE_MALFORMED, "%s has no submission", path.text);
    read_note(job);
    job->loaded = true;
    return TROUPE_OK;
}

troupe_status track_job_look(track_job *job)
{
    if (!job->loaded)
        TROUPE_TRY(load(job));
    if (job->ended)
        return TROUPE_OK;
    troupe_status status = trp_job_end_read(job->folder, &job->arena, &job->end);
    job->ended = status == TROUPE_OK;
    return status == TROUPE_NOT_FOUND ? TROUPE_OK : status;
}

bool track_job_runs(const track_job *job)
{
    trp_fence found;
    return !job->ended && trp_fence_look(job->folder, &found) == TROUPE_OK &&
           (found.runner != 0 || found.keeper != 0);
}

void track_job_free(track_job *job)
{
    track_run_free(&job->run);
    trp_arena_clear(&job->arena);
    trp_free(job);
}

void track_job_keep(const track_job *job)
{
    trp_path path, fresh;
    trp_buffer text = {0};
    if (trp_path_make(&path, "%s/tracked", job->folder) != TROUPE_OK ||
        trp_path_make(&fresh, "%s/tracked.new", job->folder) != TROUPE_OK)
        return;
    trp_json_value(&text, &troupe_type_track_note, &job->note);
    int fd = open(fresh.text, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool good = fd >= 0 && !text.failed && write(fd, text.data, text.size) == (ssize_t)text.size;
    // Never empty by a power failure: that says that all was sent.
    good = good && fdatasync(fd) == 0;
    if (fd >= 0)
        good = close(fd) == 0 && good;
    if (good)
        (void)rename(fresh.text, path.text);
    trp_buffer_free(&text);
}

const char *track_state_of(const track_job *job)
{
    if (job->end.status == TROUPE_OK)
        return job->end.stopped ? "STOPPED" : "DONE";
    return job->end.status == TROUPE_CANCELLED ? "CANCELLED" : "FAILED";
}
