// jobs_recover.c: what the server finds when it starts: rows, folders and locks are brought
// together (docs/internals/server/server.md, "Restart of the server").
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <server/jobs_internal.h>
#include <server/say.h>
#include <stdio.h>
#include <string.h>
#include <train/job_end.h>
#include <train/state_folder.h>
#include <train/tree.h>
#include <unistd.h>

#define LOST_WISHES                                                                                \
    "the server's books were lost, and with them what was wished of the job: it goes on with "     \
    "`troupe modify JOB pause=false`"

// ---- rows

// A row that has ended, but no file that says so, for those who look without the server.
static void complete_ended(trp_entry *job)
{
    trp_path path;
    const trp_row *row = &job->row;
    trp_job_end end = {.version = 1,
                       .attempt = row->attempt,
                       .status = row->status,
                       .error = row->error,
                       .stopped = row->stopped,
                       .reports = row->reports,
                       .restarts = row->counted + row->restarts,
                       .ended_at = row->ended_at};
    trp_jobs_forget_launch(job);
    if (access(job->folder, F_OK) != 0 ||
        trp_path_make(&path, "%s/end", job->folder) != TROUPE_OK || access(path.text, F_OK) == 0)
        return;
    if (trp_fence_end(job->folder, &end) != TROUPE_OK)
        trp_say("job %" PRId64 ": %s", row->id, troupe_last_error()->text);
}

// Has the schedule count what a job was granted.
static troupe_status adopt_grant(trp_jobs *jobs, trp_entry *job)
{
    trp_row *row = &job->row;
    trp_request request;
    int ranks = row->granted_ranks > 0 ? row->granted_ranks : row->need.ranks;
    size_t size = (size_t)ranks * sizeof(uint64_t);
    uint64_t *masks = (uint64_t *)trp_alloc(size);
    if (masks == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a grant");
    if (row->devices.size == size)
        memcpy(masks, row->devices.data, size);
    else // Nobody knows which they are: none of them is another one's.
        memset(masks, 0xff, size);
    troupe_status status = trp_jobs_request(jobs, row, &request);
    if (status == TROUPE_TOO_LARGE) { // A resource that this server has not is not counted.
        trp_row known = *row;
        known.need.resources_per_rank = NULL;
        status = trp_jobs_request(jobs, &known, &request);
    }
    request.again = request.beyond = true;
    if (status == TROUPE_OK)
        status = trp_schedule_adopt(jobs->schedule, &request, ranks, masks,
                                    (int64_t)(row->granted_at * 1000), &job->ticket);
    trp_free(masks);
    if (status == TROUPE_OK && row->more > ranks &&
        trp_schedule_resize(jobs->schedule, job->ticket, row->more) != TROUPE_OK)
        trp_say("job %" PRId64 " has no more ranks: %s", row->id, troupe_last_error()->text);
    return status;
}

// A job that has a grant.
static troupe_status resume(trp_jobs *jobs, trp_entry *job)
{
    trp_fence found = {0};
    TROUPE_TRY(adopt_grant(jobs, job));
    if (trp_fence_look(job->folder, &found) == TROUPE_OK && found.runner > 0 &&
        jobs->acts.watch(jobs->acts.user, job, found.runner))
        job->process = found.runner;
    job->state = TRP_JOB_STARTING;
    trp_jobs_look_in(jobs, job, 0);
    return TROUPE_OK;
}

static troupe_status recover_row(trp_jobs *jobs, trp_entry *job)
{
    trp_row *row = &job->row;
    job->order_ms = (int64_t)(row->submitted_at * 1000);
    if (row->state == TRP_JOB_ENDED) {
        complete_ended(job);
        return TROUPE_OK;
    }
    if (row->state == TRP_JOB_STARTING)
        return resume(jobs, job);
    if (trp_jobs_take_found_end(jobs, job) || row->paused)
        return TROUPE_OK;
    trp_jobs_look_in(jobs, job, 0); // It may be to end.
    troupe_status status = trp_jobs_queue(jobs, job);
    if (status == TROUPE_OK || status == TROUPE_NO_MEMORY)
        return status;
    // One job is no reason not to start: it waits until it can be counted.
    trp_say("job %" PRId64 " is paused: %s", row->id, troupe_last_error()->text);
    row->pause = row->paused = true;
    row->revision++;
    trp_jobs_soil(jobs, job);
    return trp_row_set(&row->why, troupe_last_error()->text);
}

// ---- folders

static trp_entry *by_number(trp_jobs *jobs, int64_t id)
{
    trp_entry *job;
    trp_wire_job_name name = {.job = id};
    return trp_jobs_find(jobs, &name, &job) == TROUPE_OK ? job : NULL;
}

static void set_aside(const char *folder)
{
    trp_path aside;
    if (trp_path_make(&aside, "%s/launch", folder) == TROUPE_OK)
        (void)unlink(aside.text); // It has the environment of who submitted it.
    if (trp_path_make(&aside, "%s.lost", folder) == TROUPE_OK &&
        trp_folder_rename(folder, aside.text) == TROUPE_OK)
        trp_say("%s is of no job that the server knows: it is now %s", folder, aside.text);
    else
        trp_say("%s", troupe_last_error()->text);
}

// Of a folder that the books do not have: a submission that was not committed, or one of other
// books.
static troupe_status clear_folder(void *user, int64_t id, const char *folder)
{
    trp_jobs *jobs = (trp_jobs *)user;
    trp_row row = {0};
    trp_fence found = {0};
    char *books = NULL;
    if (id >= jobs->next_id)
        jobs->next_id = id + 1;
    if (by_number(jobs, id) != NULL)
        return TROUPE_OK;
    troupe_status status = trp_jobs_read_folder(folder, &row, &books);
    bool ours = status == TROUPE_NOT_FOUND || (status == TROUPE_OK && books != NULL &&
                                               strcmp(books, trp_books_name(jobs->books)) == 0);
    bool looked = trp_fence_look(folder, &found) == TROUPE_OK;
    trp_free(books);
    trp_row_clear(&row);
    if (status == TROUPE_NO_MEMORY)
        return status;
    if (!looked || found.runner != 0 || found.keeper != 0)
        trp_say("%s is of no job that the server knows, and a process has it", folder);
    else if (!ours || found.set)
        set_aside(folder);
    else if (trp_folder_discard(folder) != TROUPE_OK)
        trp_say("%s", troupe_last_error()->text);
    return TROUPE_OK;
}

// Of a job whose process is there.
static troupe_status rebuild_attempt(trp_jobs *jobs, trp_entry *job)
{
    trp_row *row = &job->row;
    troupe_status status = trp_jobs_read_grant(job);
    if (status == TROUPE_NO_MEMORY)
        return status;
    if (status != TROUPE_OK) {
        trp_say("what job %" PRId64
                " is granted is taken to be what it asked for, and each GPU: %s",
                row->id, troupe_last_error()->text);
        row->granted_ranks = row->need.ranks;
        row->granted_at = jobs->unix_s;
    }
    row->state = TRP_JOB_STARTING;
    row->greeted = true;
    return trp_row_set(&row->boot_id, jobs->boot_id);
}

// For books that are made anew: each folder that is whole is a job.
static troupe_status rebuild_job(void *user, int64_t id, const char *folder)
{
    trp_jobs *jobs = (trp_jobs *)user;
    trp_row row = {0};
    trp_fence found = {0};
    trp_entry *job;
    char *books = NULL;
    if (id >= jobs->next_id)
        jobs->next_id = id + 1;
    troupe_status status = trp_jobs_read_folder(folder, &row, &books);
    trp_free(books);
    if (status == TROUPE_NO_MEMORY)
        return status;
    if (status != TROUPE_OK || row.id != id ||
        trp_jobs_by_submission(jobs, row.submission) != NULL) {
        trp_row_clear(&row);
        return clear_folder(jobs, id, folder);
    }
    trp_wire_job_name name = {.key = row.key};
    if (row.key != NULL && trp_jobs_find(jobs, &name, &job) == TROUPE_OK) {
        trp_jobs_drop_key(jobs, job); // The newer one has it.
        TROUPE_TRY(trp_row_set(&job->row.key, NULL));
    }
    TROUPE_TRY(trp_jobs_add(jobs, &row, &job));
    trp_jobs_soil(jobs, job);
    TROUPE_TRY(trp_fence_look(folder, &found));
    job->row.attempt = found.attempt;
    // A runner passes over wishes that it has been told: those to come have higher numbers.
    job->row.revision = (int64_t)jobs->unix_s;
    if (found.runner != 0 || found.keeper != 0)
        return rebuild_attempt(jobs, job);
    if (trp_jobs_take_found_end(jobs, job))
        return TROUPE_OK;
    job->row.pause = job->row.paused = true;
    return trp_row_set(&job->row.why, LOST_WISHES);
}

// ---- papers

typedef struct mending {
    trp_jobs *jobs;
    trp_buffer ids;
} mending;

static troupe_status mend_job(void *user, int64_t id, const trp_papers *papers)
{
    mending *it = (mending *)user;
    const trp_entry *job = by_number(it->jobs, id);
    troupe_status status = job != NULL ? trp_jobs_mend_folder(it->jobs, job, papers) : TROUPE_OK;
    if (status == TROUPE_OK)
        trp_buffer_append(&it->ids, &id, sizeof id);
    else // One job is no reason not to start: its papers are kept.
        trp_say("job %" PRId64 " cannot be mended: %s", id, troupe_last_error()->text);
    return TROUPE_OK;
}

// All that was made again, at once. True: it lasts.
static bool sync_state(const trp_jobs *jobs)
{
    int fd = open(jobs->folder.text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool lasts = fd >= 0 && syncfs(fd) == 0;
    if (!lasts)
        trp_say("%s cannot be synced: errno %d", jobs->folder.text, errno);
    if (fd >= 0)
        close(fd);
    return lasts;
}

static troupe_status drop_papers(trp_jobs *jobs, const trp_buffer *ids)
{
    const int64_t *all = (const int64_t *)(const void *)ids->data;
    TROUPE_TRY(trp_books_begin(jobs->books, true));
    for (size_t i = 0; i < ids->size / sizeof *all; i++)
        TROUPE_TRY(trp_books_drop_papers(jobs->books, all[i]));
    return trp_books_commit(jobs->books);
}

// The machine was booted, perhaps since its power failed: what was written before and not synced is
// made again of the papers, and then lasts without them.
static troupe_status mend_folders(trp_jobs *jobs)
{
    mending it = {.jobs = jobs};
    troupe_status status = trp_books_each_papers(jobs->books, jobs->boot_id, mend_job, &it);
    if (status == TROUPE_OK && it.ids.failed)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for the jobs of the server");
    if (status == TROUPE_OK && it.ids.size > 0 && sync_state(jobs))
        status = drop_papers(jobs, &it.ids);
    if (status == TROUPE_NO_SPACE) { // After the next boot, then.
        trp_books_undo(jobs->books);
        status = TROUPE_OK;
    }
    trp_buffer_free(&it.ids);
    return status;
}

troupe_status trp_jobs_recover(trp_jobs *jobs, bool fresh)
{
    TROUPE_TRY(mend_folders(jobs));
    TROUPE_TRY(trp_jobs_each_folder(jobs->folder.text, fresh ? rebuild_job : clear_folder, jobs));
    if (fresh)
        TROUPE_TRY(trp_jobs_store(jobs, true));
    for (trp_entry *at = jobs->all, *next; at != NULL; at = next) {
        next = (trp_entry *)at->hh.next;
        TROUPE_TRY(recover_row(jobs, at));
    }
    return TROUPE_OK;
}
