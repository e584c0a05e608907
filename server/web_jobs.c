// web_jobs.c: jobs as their folders and the server know them, one and all of them.
#include <server/web_job.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <runtime/base/error.h>
#include <server/fence.h>
#include <server/job_table.h>
#include <server/web_json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

enum { NUMBERS_MAX = 1 << 20, DIGITS_MAX = 18 };

// ---- files

int web_open_file(const char *path, struct stat *about)
{
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (fstat(fd, about) == 0 && S_ISREG(about->st_mode))
        return fd;
    close(fd);
    errno = EINVAL;
    return -1;
}

char *web_read_file(web_call *call, const char *path, size_t *size)
{
    struct stat about;
    int fd = web_open_file(path, &about);
    if (fd < 0) {
        (void)trp_fail_errno(errno == ENOENT ? TROUPE_NOT_FOUND : TROUPE_IO, "%s cannot be read",
                             path);
        return NULL;
    }
    char *text = about.st_size <= WEB_FILE_MAX
                     ? trp_arena_alloc(&call->arena, (size_t)about.st_size + 1)
                     : NULL;
    ssize_t got = text != NULL ? pread(fd, text, (size_t)about.st_size, 0) : -1;
    close(fd);
    if (text == NULL)
        (void)troupe_fail(TROUPE_TOO_LARGE, "%s has %lld bytes: expected at most %d", path,
                          (long long)about.st_size, (int)WEB_FILE_MAX);
    else if (got < 0)
        (void)trp_fail_errno(TROUPE_IO, "%s cannot be read", path);
    if (got < 0)
        return NULL;
    text[got] = '\0';
    if (size != NULL)
        *size = (size_t)got;
    return text;
}

double web_time_of(const char *text)
{
    struct tm parts = {0};
    int second = 0, milliseconds = 0;
    if (text == NULL ||
        sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d.%3d", &parts.tm_year, &parts.tm_mon, &parts.tm_mday,
               &parts.tm_hour, &parts.tm_min, &second, &milliseconds) < 6)
        return 0;
    parts.tm_year -= 1900;
    parts.tm_mon--;
    parts.tm_sec = second;
    return (double)timegm(&parts) + milliseconds * 1e-3;
}

// ---- one job

// Who runs it. This process never has the file open otherwise, so closing it lets go of no lock.
static void look_for_runner(const char *folder, web_job *job)
{
    trp_fence found;
    if (trp_fence_look(folder, &found) != TROUPE_OK)
        return;
    job->holder = found.runner != 0 ? found.runner : found.keeper;
    job->begun = found.set;
}

static const char *kept_error(web_call *call)
{
    const char *text = troupe_last_error()->text;
    char *copy = trp_arena_alloc(&call->arena, strlen(text) + 1);
    return copy != NULL ? strcpy(copy, text) : "it cannot be read";
}

static troupe_status read_asked(web_call *call, const char *folder, web_job *job)
{
    trp_path path;
    size_t size;
    trp_json document;
    TROUPE_TRY(trp_path_make(&path, "%s/job.json", folder));
    char *text = web_read_file(call, path.text, &size);
    if (text == NULL)
        return troupe_last_error()->status;
    if (trp_json_parse(text, size, &document) != TROUPE_OK ||
        trp_json_read(&troupe_type_web_job_file, document, &call->arena, &job->file) != TROUPE_OK)
        return trp_error_prefix("%s", path.text);
    (void)trp_json_member(document, "config", &job->config);
    (void)trp_json_member(document, "metadata", &job->metadata);
    (void)trp_json_member(document, "arguments", &job->arguments);
    return TROUPE_OK;
}

static void name_state(web_call *call, web_job *job)
{
    static const char *const words[] = {"QUEUED", "STARTING", "RUNNING", "PAUSED", "ENDED"};
    web_run *run = NULL;
    job->outcome = NULL;
    if (job->told != NULL && job->told->state >= 0 && job->told->state <= TRP_JOB_ENDED) {
        job->state = words[job->told->state];
        if (job->told->state == TRP_JOB_ENDED)
            job->outcome = trp_job_outcome(job->told->status, job->told->stopped);
        return;
    }
    if (job->ended) {
        job->state = "ENDED";
        job->outcome = trp_job_outcome(job->end.status, job->end.stopped);
    } else if (job->holder != 0) {
        (void)web_job_run(call, job, &run);
        bool paused = run != NULL && strcmp(run->facts.state, "PAUSED") == 0;
        job->state = paused ? "PAUSED" : "RUNNING";
    } else {
        (void)web_job_run(call, job, &run);
        job->begun |= run != NULL && run->facts.attempts > 0;
        job->state = job->begun ? "LOST" : "QUEUED";
    }
}

troupe_status web_job_read(web_call *call, int64_t id, const trp_wire_jobs *told, web_job *job)
{
    trp_path folder;
    struct stat about;
    *job = (web_job){.id = id};
    TROUPE_TRY(trp_path_make(&folder, "%s/jobs/%08" PRId64, call->web->state, id));
    for (size_t i = 0; told != NULL && i < told->jobs.count; i++)
        if (told->jobs.items[i].job == id)
            job->told = &told->jobs.items[i];
    bool there = lstat(folder.text, &about) == 0 && S_ISDIR(about.st_mode);
    if (!there && job->told == NULL)
        return troupe_fail(TROUPE_NOT_FOUND, "there is no job %" PRId64, id);
    if (read_asked(call, folder.text, job) != TROUPE_OK)
        job->problem = kept_error(call);
    job->ended = trp_job_end_read(folder.text, &call->arena, &job->end) == TROUPE_OK;
    if (!job->ended)
        look_for_runner(folder.text, job);
    name_state(call, job);
    return TROUPE_OK;
}

troupe_status web_job_of(web_call *call, web_job *job)
{
    const char *text = call->parts[0];
    size_t size = strlen(text);
    trp_wire_jobs told = {0};
    bool there;
    if (size > DIGITS_MAX || text[strspn(text, "0123456789")] != '\0')
        return troupe_fail(TROUPE_NOT_FOUND, "there is no job '%s': expected its number", text);
    web_ask_jobs(call, &there, &told);
    return web_job_read(call, strtoll(text, NULL, 10), &told, job);
}

static int compare_down(const void *left, const void *right)
{
    int64_t one = *(const int64_t *)left, other = *(const int64_t *)right;
    return one < other ? 1 : one > other ? -1 : 0;
}

troupe_status web_job_numbers(web_call *call, int64_t **numbers, size_t *count)
{
    trp_path path;
    size_t room = 64, used = 0;
    TROUPE_TRY(trp_path_make(&path, "%s/jobs", call->web->state));
    int64_t *found = trp_arena_alloc(&call->arena, room * sizeof *found);
    DIR *folder = opendir(path.text);
    for (struct dirent *it; found != NULL && folder != NULL && (it = readdir(folder)) != NULL;) {
        size_t size = strlen(it->d_name);
        if (size > DIGITS_MAX || it->d_name[strspn(it->d_name, "0123456789")] != '\0' ||
            used == NUMBERS_MAX)
            continue;
        if (used == room) {
            int64_t *larger = trp_arena_alloc(&call->arena, 2 * room * sizeof *larger);
            if (larger != NULL)
                memcpy(larger, found, used * sizeof *found);
            found = larger;
            room *= 2;
        }
        if (found != NULL)
            found[used++] = strtoll(it->d_name, NULL, 10);
    }
    if (folder != NULL)
        closedir(folder);
    if (found == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a list of jobs");
    qsort(found, used, sizeof *found, compare_down);
    *numbers = found;
    *count = used;
    return TROUPE_OK;
}

troupe_status web_job_run(web_call *call, const web_job *job, web_run **run)
{
    const char *folder = job->told != NULL ? job->told->run : job->file.folder;
    if (folder == NULL || folder[0] != '/')
        return troupe_fail(TROUPE_NOT_FOUND, "job %" PRId64 " has no folder of a run here",
                           job->id);
    return web_runs_find(&call->web->runs, folder, &call->budget, run);
}

double web_job_started(const web_job *job, const web_run *run)
{
    if (job->told != NULL && job->told->granted_at > 0)
        return job->told->granted_at;
    if (run == NULL || run->facts.attempts == 0)
        return 0;
    uint64_t kept =
        run->facts.attempts < TRP_FACTS_ATTEMPTS ? run->facts.attempts : TRP_FACTS_ATTEMPTS;
    return web_time_of(
        run->facts.attempt_ring[(run->facts.attempts - kept) % TRP_FACTS_ATTEMPTS].at);
}

double web_job_ended(const web_job *job)
{
    if (job->told != NULL && job->told->ended_at > 0)
        return job->told->ended_at;
    return job->ended ? job->end.ended_at : 0;
}

// ---- writing

static void write_told(trp_buffer *out, const trp_wire_job *told)
{
    web_text(out, "why", told->why);
    web_integer(out, "attempt", told->attempt);
    if (told->runner > 0)
        web_integer(out, "runner", told->runner);
    if (told->cpus > 0)
        web_number(out, "cpus", told->cpus);
    if (told->gpus > 0)
        web_number(out, "gpus", told->gpus);
    web_text(out, "gpu_ids", told->gpu_ids);
    web_time(out, "expected_at", told->expected_at);
    web_integer(out, "revision", told->revision);
    web_integer(out, "echo", told->echo);
    web_integer(out, "priority", told->need.priority);
}

static void write_progress(web_call *call, const web_job *job, const web_run *run)
{
    trp_buffer *out = call->out;
    int reports = run != NULL ? run->facts.reports : job->told != NULL ? job->told->reports : 0;
    if (job->ended && job->end.reports > reports)
        reports = job->end.reports;
    web_integer(out, "reports", reports);
    if (run == NULL)
        return;
    int expected = run->facts.run.head.options.expected_reports;
    if (expected > 0)
        web_integer(out, "expected_reports", expected);
    web_number(out, "elapsed_s", run->facts.elapsed_s);
    web_integer(out, "restarts", (int64_t)run->facts.restarts);
    web_integer(out, "checkpoints", (int64_t)run->facts.commits);
    web_run_metrics(out, &run->facts);
}

void web_job_write(web_call *call, const web_job *job, const web_run *run)
{
    trp_buffer *out = call->out;
    const web_job_file *file = &job->file;
    const trp_wire_job *told = job->told;
    web_integer(out, "id", job->id);
    web_text(out, "problem", job->problem);
    web_text(out, "name", file->name != NULL ? file->name : told != NULL ? told->name : NULL);
    web_text(out, "key", file->key);
    web_text(out, "trainer", file->trainer);
    web_text(out, "program", file->program);
    web_text(out, "folder", file->folder);
    web_text(out, "state", job->state);
    web_text(out, "outcome", job->outcome);
    if (job->outcome != NULL) {
        int status = told != NULL ? told->status : job->end.status;
        web_text(out, "status", troupe_status_name((troupe_status)status));
        web_text(out, "error", told != NULL ? told->error : job->end.error);
    }
    if (told != NULL)
        write_told(out, told);
    else if (job->holder > 0)
        web_integer(out, "runner", job->holder);
    web_integer(out, "ranks",
                told != NULL && told->ranks > 0 ? told->ranks
                : file->ranks > 0               ? file->ranks
                                                : 1);
    if (told == NULL && file->cpus_per_rank > 0)
        web_number(out, "cpus", file->cpus_per_rank * (file->ranks > 0 ? file->ranks : 1));
    if (told == NULL && file->gpus_per_rank > 0)
        web_number(out, "gpus", file->gpus_per_rank * (file->ranks > 0 ? file->ranks : 1));
    if (file->memory_per_rank_bytes > 0)
        web_number(out, "memory_per_rank_bytes", file->memory_per_rank_bytes);
    if (file->time_limit_s > 0)
        web_number(out, "time_limit_s", file->time_limit_s);
    web_time(out, "start_at", file->start_at);
    web_time(out, "submitted_at",
             told != NULL && told->submitted_at > 0 ? told->submitted_at : file->submitted_at);
    web_time(out, "started_at", web_job_started(job, run));
    web_time(out, "ended_at", web_job_ended(job));
    write_progress(call, job, run);
}

// ---- routes

static bool is_wanted(const web_job *job, const char *state)
{
    if (state == NULL || state[0] == '\0')
        return true;
    if (strcasecmp(state, "active") == 0)
        return job->outcome == NULL && strcmp(job->state, "LOST") != 0;
    return strcasecmp(state, job->state) == 0 ||
           (job->outcome != NULL && strcasecmp(state, job->outcome) == 0);
}

static troupe_status check_state(const char *state)
{
    static const char *const known[] = {"",        "active",  "queued", "starting",
                                        "running", "paused",  "ended",  "lost",
                                        "done",    "stopped", "failed", "cancelled"};
    for (size_t i = 0; state != NULL && i < sizeof known / sizeof *known; i++)
        if (strcasecmp(known[i], state) == 0)
            return TROUPE_OK;
    if (state == NULL)
        return TROUPE_OK;
    return troupe_fail(TROUPE_INVALID,
                       "the parameter state is '%.40s': expected queued, starting, "
                       "running, paused, ended, lost, done, stopped, failed, "
                       "cancelled or active",
                       state);
}

troupe_status web_list_jobs(web_call *call)
{
    trp_buffer *out = call->out;
    const char *state = call->query[0].text;
    int64_t most = call->query[1].number, below = call->query[2].number, *numbers;
    bool curves = call->query[3].number != 0, there;
    size_t count, shown = 0, looked = 0;
    trp_wire_jobs told = {0};
    TROUPE_TRY(check_state(state));
    TROUPE_TRY(web_job_numbers(call, &numbers, &count));
    web_ask_jobs(call, &there, &told);
    web_begin(out, NULL, '{');
    web_flag(out, "server", there);
    web_number(out, "now", (double)time(NULL));
    web_begin(out, "jobs", '[');
    size_t i = 0;
    for (; i < count && (int64_t)shown < most && looked < WEB_LIST_MAX; i++) {
        web_job job;
        web_run *run = NULL;
        if (numbers[i] >= below || web_job_read(call, numbers[i], &told, &job) != TROUPE_OK)
            continue;
        looked++;
        if (!is_wanted(&job, state))
            continue;
        if (web_job_run(call, &job, &run) != TROUPE_OK)
            run = NULL;
        web_begin(out, NULL, '{');
        web_job_write(call, &job, run);
        if (curves && run != NULL)
            web_run_spark(out, &run->facts);
        web_end(out, '}');
        shown++;
    }
    web_end(out, ']');
    if (i < count)
        web_integer(out, "next", numbers[i - 1]);
    web_end(out, '}');
    return TROUPE_OK;
}

troupe_status web_show_job(web_call *call)
{
    trp_buffer *out = call->out;
    web_job job;
    web_run *run = NULL;
    TROUPE_TRY(web_job_of(call, &job));
    if (web_job_run(call, &job, &run) != TROUPE_OK)
        run = NULL;
    web_begin(out, NULL, '{');
    web_job_write(call, &job, run);
    web_json(out, "asked", job.config);
    web_json(out, "metadata", job.metadata);
    web_json(out, "arguments", job.arguments);
    if (run != NULL)
        web_run_details(call, run);
    web_end(out, '}');
    return TROUPE_OK;
}

static bool is_within(const web_job *job, const web_run *run, double since)
{
    double ended = web_job_ended(job);
    if (job->outcome == NULL && strcmp(job->state, "LOST") != 0)
        return true;
    if (ended == 0 && run != NULL)
        ended = run->usage.last_at;
    return ended == 0 ? job->file.submitted_at >= since : ended >= since;
}

troupe_status web_show_timeline(web_call *call)
{
    trp_buffer *out = call->out;
    double now = (double)time(NULL), since = now - 3600.0 * (double)call->query[0].number;
    int64_t *numbers, most = call->query[1].number;
    size_t count, shown = 0;
    bool there;
    trp_wire_jobs told = {0};
    TROUPE_TRY(web_job_numbers(call, &numbers, &count));
    web_ask_jobs(call, &there, &told);
    web_begin(out, NULL, '{');
    web_number(out, "now", now);
    web_number(out, "since", since);
    web_integer(out, "cpus", sysconf(_SC_NPROCESSORS_ONLN));
    web_number(out, "memory_bytes",
               (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE));
    double gpus = there ? web_ask_gpus(call) : 0;
    if (gpus > 0)
        web_number(out, "gpus", gpus);
    web_begin(out, "jobs", '[');
    for (size_t i = 0; i < count && i < WEB_LIST_MAX && (int64_t)shown < most; i++) {
        web_job job;
        web_run *run = NULL;
        if (web_job_read(call, numbers[i], &told, &job) != TROUPE_OK)
            continue;
        if (web_job_run(call, &job, &run) != TROUPE_OK)
            run = NULL;
        if (!is_within(&job, run, since))
            continue;
        web_begin(out, NULL, '{');
        web_job_write(call, &job, run);
        if (run != NULL)
            web_run_usage_sum(out, &run->usage);
        web_end(out, '}');
        shown++;
    }
    web_end(out, ']');
    web_end(out, '}');
    return TROUPE_OK;
}

troupe_status web_job_reports(web_call *call)
{
    web_job job;
    TROUPE_TRY(web_job_of(call, &job));
    return web_events(call, job.told != NULL ? job.told->run : job.file.folder);
}

troupe_status web_job_curves(web_call *call)
{
    web_job job;
    web_run *run;
    TROUPE_TRY(web_job_of(call, &job));
    TROUPE_TRY(web_job_run(call, &job, &run));
    return web_run_write_curves(call, run);
}

troupe_status web_job_logs(web_call *call)
{
    web_job job;
    trp_path path;
    int64_t rank = call->query[0].number;
    TROUPE_TRY(web_job_of(call, &job));
    if (rank >= 0)
        return web_rank_log(call, job.told != NULL ? job.told->run : job.file.folder, rank);
    TROUPE_TRY(trp_path_make(&path, "%s/jobs/%08" PRId64 "/log", call->web->state, job.id));
    return web_log(call, path.text);
}

troupe_status web_job_usage(web_call *call)
{
    web_job job;
    web_run *run;
    TROUPE_TRY(web_job_of(call, &job));
    TROUPE_TRY(web_job_run(call, &job, &run));
    web_begin(call->out, NULL, '{');
    web_run_usage(call->out, &run->usage);
    web_end(call->out, '}');
    return TROUPE_OK;
}
