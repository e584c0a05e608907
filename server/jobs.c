// jobs.c: see server/jobs.h: the table of jobs, submissions, and what is shown of them.
#include <inttypes.h>
#include <math.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/codec/unpack.h>
#include <runtime/node/limits.h>
#include <server/jobs_internal.h>
#include <server/say.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <train/state_folder.h>

enum { NAME_MAX_BYTES = 200, GRACE_MS = 1000 };

// ---- opening

static troupe_status load_row(void *user, trp_row *row)
{
    trp_entry *job;
    return trp_jobs_add((trp_jobs *)user, row, &job);
}

static troupe_status open_parts(trp_jobs *jobs, const trp_resources *machine)
{
    bool fresh;
    char *moved = NULL;
    trp_path folder;
    TROUPE_TRY(trp_path_make(&folder, "%s/jobs", jobs->folder.text));
    TROUPE_TRY(trp_folder_make(folder.text));
    TROUPE_TRY(trp_schedule_open(&jobs->schedule, machine, GRACE_MS));
    TROUPE_TRY(trp_books_open(jobs->folder.text, &jobs->books, &fresh, &moved));
    if (moved != NULL)
        trp_say("the books were damaged and are now %s: jobs are read from their folders", moved);
    trp_free(moved);
    TROUPE_TRY(trp_books_load(jobs->books, load_row, jobs));
    TROUPE_TRY(trp_books_next(jobs->books, &jobs->next_id));
    return trp_jobs_recover(jobs, fresh);
}

troupe_status trp_jobs_open(const char *folder, const trp_resources *machine,
                            const trp_jobs_acts *acts, int64_t now_ms, double unix_s,
                            trp_jobs **jobs)
{
    trp_jobs *it = (trp_jobs *)trp_alloc(sizeof *it);
    if (it == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the jobs of the server");
    it->machine = *machine;
    it->acts = *acts;
    it->begun_ms = it->now_ms = now_ms;
    it->wipe_ms = now_ms + TRP_WIPE_MS; // What a server before may have left.
    it->next_due_ms = INT64_MAX;
    it->begun_unix_s = it->unix_s = unix_s;
    trp_boot_id(it->boot_id);
    troupe_status status = trp_path_make(&it->folder, "%s", folder);
    if (status == TROUPE_OK)
        status = open_parts(it, machine);
    if (status == TROUPE_OK)
        *jobs = it;
    else
        trp_jobs_close(it);
    return status;
}

void trp_jobs_close(trp_jobs *jobs)
{
    if (jobs == NULL)
        return;
    while (jobs->all != NULL)
        trp_jobs_drop(jobs, jobs->all);
    trp_books_close(jobs->books);
    trp_schedule_close(jobs->schedule);
    trp_free(jobs->refusal);
    trp_free(jobs);
}

void trp_jobs_set_time(trp_jobs *jobs, int64_t now_ms, double unix_s)
{
    jobs->now_ms = now_ms;
    jobs->unix_s = unix_s;
}

int64_t trp_jobs_clock(const trp_jobs *jobs)
{
    return (int64_t)(jobs->begun_unix_s * 1000) + jobs->now_ms - jobs->begun_ms;
}

// ---- the table

void trp_jobs_touch(trp_jobs *jobs, trp_entry *job)
{
    if (job->changed)
        return;
    job->changed = true;
    job->next_changed = jobs->changed;
    jobs->changed = job;
}

void trp_jobs_note(trp_jobs *jobs, trp_entry *job)
{
    job->dirty = true;
    jobs->any_dirty = true;
    trp_jobs_touch(jobs, job);
}

void trp_jobs_soil(trp_jobs *jobs, trp_entry *job)
{
    jobs->lasts = true;
    trp_jobs_note(jobs, job);
}

static void free_entry(trp_entry *job)
{
    trp_row_clear(&job->row);
    trp_free(job->folder);
    trp_free(job->refused);
    trp_free(job->unlaunched);
    trp_free(job->papers);
    trp_free(job);
}

static bool is_linked(trp_jobs *jobs, trp_entry *job)
{
    TRP_HASH_ADD(hh, jobs->all, row.id, sizeof job->row.id, job);
    if (!TRP_HASH_HAS(hh, job))
        return false;
    HASH_ADD_KEYPTR(by_submission, jobs->submissions, job->row.submission,
                    strlen(job->row.submission), job);
    if (job->row.key != NULL)
        HASH_ADD_KEYPTR(by_key, jobs->keys, job->row.key, strlen(job->row.key), job);
    if (job->row.state != TRP_JOB_ENDED && job->row.run != NULL)
        HASH_ADD_KEYPTR(by_run, jobs->runs, job->row.run, strlen(job->row.run), job);
    return job->by_submission.tbl != NULL && (job->row.key == NULL || job->by_key.tbl != NULL);
}

troupe_status trp_jobs_add(trp_jobs *jobs, trp_row *row, trp_entry **job)
{
    trp_path folder;
    trp_entry *it = (trp_entry *)trp_alloc(sizeof *it);
    if (it == NULL) {
        trp_row_clear(row);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a job");
    }
    it->row = *row;
    *row = (trp_row){0};
    troupe_status status = trp_state_folder_job(jobs->folder.text, it->row.id, &folder);
    if (status == TROUPE_OK)
        status = trp_row_set(&it->folder, folder.text);
    if (status != TROUPE_OK) {
        free_entry(it);
        return status;
    }
    bool ended = it->row.state == TRP_JOB_ENDED;
    jobs->under_way += !ended;
    jobs->ended += ended;
    if (!is_linked(jobs, it)) {
        trp_jobs_drop(jobs, it);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a job");
    }
    *job = it;
    return TROUPE_OK;
}

void trp_jobs_drop_key(trp_jobs *jobs, trp_entry *job)
{
    if (job->by_key.tbl != NULL)
        HASH_DELETE(by_key, jobs->keys, job);
    job->by_key.tbl = NULL;
}

void trp_jobs_drop_run(trp_jobs *jobs, trp_entry *job)
{
    if (job->by_run.tbl != NULL)
        HASH_DELETE(by_run, jobs->runs, job);
    job->by_run.tbl = NULL;
}

void trp_jobs_drop(trp_jobs *jobs, trp_entry *job)
{
    if (jobs->acts.removed != NULL)
        jobs->acts.removed(jobs->acts.user, job);
    if (job->ticket != NULL)
        trp_schedule_remove(jobs->schedule, job->ticket);
    trp_jobs_drop_key(jobs, job);
    trp_jobs_drop_run(jobs, job);
    if (job->by_submission.tbl != NULL)
        HASH_DELETE(by_submission, jobs->submissions, job);
    if (job->hh.tbl != NULL)
        HASH_DELETE(hh, jobs->all, job);
    for (trp_entry **at = &jobs->changed; *at != NULL; at = &(*at)->next_changed)
        if (*at == job) {
            *at = job->next_changed;
            break;
        }
    bool ended = job->row.state == TRP_JOB_ENDED;
    jobs->under_way -= !ended;
    jobs->ended -= ended;
    free_entry(job);
}

trp_entry *trp_jobs_first(trp_jobs *jobs)
{
    return jobs->all;
}

int trp_jobs_under_way(const trp_jobs *jobs)
{
    return jobs->under_way;
}

trp_entry *trp_jobs_by_submission(trp_jobs *jobs, const char *submission)
{
    trp_entry *job;
    HASH_FIND(by_submission, jobs->submissions, submission, strlen(submission), job);
    return job;
}

static trp_entry *by_key(trp_jobs *jobs, const char *key)
{
    trp_entry *job = NULL;
    if (key != NULL)
        HASH_FIND(by_key, jobs->keys, key, strlen(key), job);
    return job;
}

troupe_status trp_jobs_find(trp_jobs *jobs, const trp_wire_job_name *name, trp_entry **job)
{
    trp_entry *it = NULL;
    if (name->job != 0)
        HASH_FIND(hh, jobs->all, &name->job, sizeof name->job, it);
    if (it == NULL && name->key != NULL)
        it = by_key(jobs, name->key);
    if (it == NULL && name->job != 0)
        return troupe_fail(TROUPE_NOT_FOUND, "there is no job %" PRId64, name->job);
    if (it == NULL)
        return troupe_fail(TROUPE_NOT_FOUND, "there is no job with the key \"%s\"",
                           name->key != NULL ? name->key : "");
    *job = it;
    return TROUPE_OK;
}

// ---- submissions

void trp_jobs_need_ranks(trp_row *row, int ranks)
{
    row->need.ranks = ranks;
    if (row->need.min_ranks > ranks)
        row->need.min_ranks = ranks;
}

troupe_status trp_jobs_request(const trp_jobs *jobs, const trp_row *row, trp_request *request)
{
    const trp_wire_need *need = &row->need;
    *request = (trp_request){.id = (uint64_t)row->id,
                             .priority = need->priority,
                             .need = {.ranks = need->ranks, .min_ranks = need->min_ranks},
                             .beyond = row->beyond};
    int64_t *each = request->need.each.of;
    TROUPE_TRY(trp_amount_count("cpus_per_rank", need->cpus_per_rank, &each[TRP_CPUS]));
    TROUPE_TRY(trp_amount_count("gpus_per_rank", need->gpus_per_rank, &each[TRP_GPUS]));
    TROUPE_TRY(trp_amount_count("coordinator_cpus", need->coordinator_cpus,
                                &request->need.coordinator_cpus));
    if (need->memory_per_rank_bytes > (uint64_t)INT64_MAX)
        return troupe_fail(TROUPE_INVALID, "memory_per_rank_bytes is out of range");
    each[TRP_MEMORY] = (int64_t)need->memory_per_rank_bytes;
    if (need->resources_per_rank != NULL)
        TROUPE_TRY(
            trp_resources_read(&jobs->machine, need->resources_per_rank, &request->need.each));
    double limit_s = need->time_limit_s + need->time_limit_grace_s;
    if (!(need->time_limit_s >= 0) || !(need->time_limit_grace_s >= 0) || limit_s > 1e9 ||
        !(need->start_at >= 0) || need->start_at > 1e11 || need->restarts < TROUPE_FOREVER)
        return troupe_fail(TROUPE_INVALID, "a time, or the number of restarts, is out of range");
    request->limit_ms = need->time_limit_s > 0 ? (int64_t)(limit_s * 1000) : 0;
    request->start_ms = (int64_t)(need->start_at * 1000);
    return TROUPE_OK;
}

static bool is_name(const char *text)
{
    return text != NULL && text[0] != '\0' && strlen(text) <= NAME_MAX_BYTES;
}

static troupe_status check_submit(const trp_wire_submit *submit)
{
    if (!is_name(submit->submission) || (submit->key != NULL && !is_name(submit->key)) ||
        submit->trainer == NULL || submit->run == NULL || submit->run[0] != '/' ||
        submit->spec.size == 0 || submit->launch.size == 0)
        return troupe_fail(TROUPE_INVALID,
                           "a job needs a submission, and may have a key, of 1 to %d bytes, and "
                           "needs a trainer, a spec, a launch record and the absolute path of its "
                           "run's folder",
                           (int)NAME_MAX_BYTES);
    return TROUPE_OK;
}

// That client and server see the same files: a container may have others at these paths.
static troupe_status check_files(const trp_wire_submit *submit, const trp_wire_launch *launch)
{
    struct stat about;
    if (stat(submit->run, &about) != 0 || !S_ISDIR(about.st_mode) ||
        (submit->run_inode != 0 &&
         (about.st_ino != submit->run_inode || about.st_dev != submit->run_device)))
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "the train server does not see the folder %s as this program does",
                           submit->run);
    for (size_t i = 0; i < launch->objects.count; i++) {
        const trp_wire_object *object = &launch->objects.items[i];
        if (object->path == NULL || stat(object->path, &about) != 0 ||
            about.st_ino != object->inode || (uint64_t)about.st_size != object->bytes)
            return troupe_fail(TROUPE_UNSUPPORTED,
                               "the train server does not see the file %s as this program does",
                               object->path != NULL ? object->path : "");
    }
    return TROUPE_OK;
}

static troupe_status read_launch(const trp_wire_submit *submit, trp_arena *arena,
                                 trp_wire_launch *launch)
{
    troupe_status status = trp_unpack_whole(&troupe_type_trp_wire_launch, submit->launch.data,
                                            submit->launch.size, arena, launch);
    if (status != TROUPE_OK)
        return trp_error_prefix("the launch record of a job cannot be read");
    if (launch->program == NULL || launch->program[0] != '/' || launch->folder == NULL)
        return troupe_fail(TROUPE_INVALID,
                           "the launch record of a job names no program or no folder");
    return TROUPE_OK;
}

// What is known already. *job stays where it is not.
static troupe_status find_known(trp_jobs *jobs, const trp_wire_submit *submit, trp_arena *arena,
                                trp_entry **job)
{
    trp_entry *known = trp_jobs_by_submission(jobs, submit->submission);
    int64_t gone = 0;
    if (known == NULL)
        known = by_key(jobs, submit->key);
    if (known != NULL) {
        *job = known;
        const char *member = trp_jobs_differ(known, submit, arena);
        return member == NULL
                   ? TROUPE_OK
                   : troupe_fail(TROUPE_EXISTS, "job %" PRId64 "%s%s%s differs in %s",
                                 known->row.id, submit->key != NULL ? ", of the key \"" : "",
                                 submit->key != NULL ? submit->key : "",
                                 submit->key != NULL ? "\"," : "", member);
    }
    TROUPE_TRY(trp_books_gone(jobs->books, submit->submission, submit->key, &gone));
    if (gone != 0)
        return troupe_fail(TROUPE_NOT_FOUND,
                           "job %" PRId64 " with this %s has ended and was removed; `troupe server "
                           "gc --keys` frees the keys of such jobs",
                           gone, submit->key != NULL ? "key" : "submission");
    return TROUPE_OK;
}

static troupe_status check_run(trp_jobs *jobs, const char *run)
{
    trp_entry *other;
    HASH_FIND(by_run, jobs->runs, run, strlen(run), other);
    if (other == NULL)
        return TROUPE_OK;
    return troupe_fail(TROUPE_BUSY, "job %" PRId64 " has the folder %s for its run", other->row.id,
                       run);
}

static troupe_status make_row(trp_jobs *jobs, const trp_wire_submit *submit,
                              const trp_wire_launch *launch, trp_row *row)
{
    row->id = jobs->next_id;
    row->need = submit->need;
    row->need.resources_per_rank = NULL;
    row->beyond = submit->wait_if_impossible;
    row->submitted_at = jobs->unix_s;
    TROUPE_TRY(
        trp_row_set((char **)&row->need.resources_per_rank, submit->need.resources_per_rank));
    TROUPE_TRY(trp_row_set(&row->submission, submit->submission));
    TROUPE_TRY(trp_row_set(&row->key, submit->key));
    TROUPE_TRY(trp_row_set(&row->spec_hash, submit->spec_hash));
    TROUPE_TRY(trp_row_set(&row->name, submit->name));
    TROUPE_TRY(trp_row_set(&row->trainer, submit->trainer));
    TROUPE_TRY(trp_row_set(&row->program, launch->program));
    return trp_row_set(&row->run, submit->run);
}

// Takes on a job that is not known.
static troupe_status take_on(trp_jobs *jobs, const trp_wire_submit *submit,
                             const trp_wire_launch *launch, trp_entry **job)
{
    trp_row row = {0};
    trp_request request;
    trp_entry *it = NULL;
    troupe_status status = make_row(jobs, submit, launch, &row);
    if (status == TROUPE_OK)
        status = trp_jobs_request(jobs, &row, &request);
    if (status == TROUPE_OK)
        status = trp_jobs_add(jobs, &row, &it);
    if (status != TROUPE_OK) {
        trp_row_clear(&row);
        return status;
    }
    it->order_ms = trp_jobs_clock(jobs);
    status = trp_schedule_submit(jobs->schedule, &request, it->order_ms, &it->ticket);
    if (status == TROUPE_OK)
        status = trp_jobs_write_folder(jobs, it, submit, launch);
    if (status == TROUPE_OK) {
        it->fresh = true;
        trp_jobs_soil(jobs, it);
        *job = it;
    } else {
        trp_jobs_drop(jobs, it);
    }
    jobs->next_id++; // A folder that was left has that number.
    return status;
}

troupe_status trp_jobs_submit(trp_jobs *jobs, const trp_wire_submit *submit, trp_entry **job)
{
    trp_arena arena = {0};
    trp_wire_launch launch;
    *job = NULL;
    TROUPE_TRY(check_submit(submit));
    troupe_status status = find_known(jobs, submit, &arena, job);
    if (status == TROUPE_OK && *job == NULL) {
        status = read_launch(submit, &arena, &launch);
        if (status == TROUPE_OK)
            status = check_files(submit, &launch);
        if (status == TROUPE_OK)
            status = check_run(jobs, submit->run);
        if (status == TROUPE_OK)
            status = take_on(jobs, submit, &launch, job);
    }
    trp_arena_clear(&arena);
    return status;
}

const char *trp_jobs_refusal(const trp_jobs *jobs)
{
    return jobs->refusal;
}

// ---- what is shown

static int shown_state(const trp_entry *job)
{
    if (job->row.state == TRP_JOB_ENDED)
        return TRP_JOB_ENDED;
    if (job->row.paused)
        return TRP_JOB_PAUSED;
    if (job->row.state == TRP_JOB_QUEUED)
        return TRP_JOB_QUEUED;
    return job->connected ? job->state : TRP_JOB_STARTING;
}

static const char *copied(trp_arena *arena, const char *text)
{
    char *copy = (char *)trp_arena_alloc(arena, strlen(text) + 1);
    return copy != NULL ? strcpy(copy, text) : NULL;
}

// Why it waits, or does not go on.
static const char *why(trp_jobs *jobs, trp_entry *job, trp_arena *arena, double *expected_at)
{
    char text[TRP_SCHEDULE_WHY];
    if (job->row.state == TRP_JOB_ENDED)
        return NULL;
    if (job->row.paused)
        return job->row.why != NULL ? job->row.why : "it is paused";
    if (job->row.state == TRP_JOB_QUEUED && job->ticket != NULL) {
        int64_t at = trp_schedule_why(jobs->schedule, job->ticket, trp_jobs_clock(jobs), text);
        if (at != TRP_NEVER)
            *expected_at = (double)at / 1000;
        return copied(arena, text);
    }
    if (job->refused != NULL)
        return job->refused;
    if (job->launching && job->launch_step_ms > 0)
        return job->unlaunched;
    if (job->row.grown)
        return "it ends at its next report, and goes on with more ranks";
    if (job->row.more > 0) {
        snprintf(text, sizeof text, "it goes on with %d ranks once these are free", job->row.more);
        return copied(arena, text);
    }
    if (job->connected)
        return NULL;
    if (!job->row.greeted)
        return "its program is being started, and has not come to troupe_start yet";
    snprintf(text, sizeof text,
             "process %d, which runs it, has not been heard since the server "
             "was started",
             (int)job->process);
    return copied(arena, text);
}

troupe_status trp_jobs_show(trp_jobs *jobs, trp_entry *job, trp_arena *arena, trp_wire_job *shown)
{
    const trp_row *row = &job->row;
    bool granted = row->state == TRP_JOB_STARTING;
    *shown = (trp_wire_job){.job = row->id,
                            .submission = row->submission,
                            .key = row->key,
                            .name = row->name,
                            .trainer = row->trainer,
                            .program = row->program,
                            .run = row->run,
                            .folder = job->folder,
                            .state = shown_state(job),
                            .attempt = row->attempt,
                            .runner = granted && job->process > 0 ? (int)job->process : 0,
                            .need = row->need,
                            .ranks = granted ? row->granted_ranks : 0,
                            .cpus = granted ? row->cpus : 0,
                            .gpus = granted ? row->gpus : 0,
                            .gpu_ids = granted ? row->gpu_ids : NULL,
                            .reports = granted ? job->reports : row->reports,
                            .restarts = row->counted + row->restarts,
                            .submitted_at = row->submitted_at,
                            .granted_at = row->granted_at,
                            .ended_at = row->ended_at,
                            .status = row->status,
                            .error = row->error,
                            .stopped = row->stopped,
                            .revision = row->revision,
                            .echo = job->echo};
    shown->why = why(jobs, job, arena, &shown->expected_at);
    return TROUPE_OK;
}

troupe_status trp_jobs_wishes(const trp_entry *job, trp_arena *arena, trp_wire_wishes *wishes)
{
    const trp_row *row = &job->row;
    trp_wire_live *live =
        (trp_wire_live *)trp_arena_alloc(arena, ((size_t)row->live_count + 1) * sizeof *live);
    if (live == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for what is wished of a job");
    for (int i = 0; i < row->live_count; i++)
        live[i] = (trp_wire_live){row->live[i].revision, row->live[i].member, row->live[i].value};
    *wishes = (trp_wire_wishes){.revision = row->revision,
                                .stop = row->stop,
                                .stop_next = row->stop_next,
                                .pause = row->pause,
                                .ranks = row->grown ? row->granted_ranks : row->ranks,
                                .grown = row->grown,
                                .resizes = row->resizes,
                                .kill = row->kill,
                                .why = row->why,
                                .live = {live, (size_t)row->live_count},
                                .leave = row->paused || row->state != TRP_JOB_STARTING};
    return TROUPE_OK;
}

static double amount(int64_t counted)
{
    return (double)counted / TRP_CPU;
}

void trp_jobs_count(trp_jobs *jobs, trp_wire_status *status)
{
    const trp_amounts *total = &jobs->machine.total;
    status->folder = jobs->folder.text;
    status->ended = jobs->ended;
    status->waiting = status->running = 0;
    for (trp_entry *at = jobs->all; at != NULL; at = (trp_entry *)at->hh.next) {
        status->waiting += at->row.state == TRP_JOB_QUEUED;
        status->running += at->row.state == TRP_JOB_STARTING;
    }
    status->cpus = amount(total->of[TRP_CPUS]);
    status->gpus = amount(total->of[TRP_GPUS]);
    status->memory_bytes = (uint64_t)total->of[TRP_MEMORY];
    status->cpus_free = amount(trp_schedule_free(jobs->schedule, TRP_CPUS));
    status->gpus_free = amount(trp_schedule_free(jobs->schedule, TRP_GPUS));
    status->memory_free_bytes =
        (uint64_t)fmax(0, (double)trp_schedule_free(jobs->schedule, TRP_MEMORY));
}
