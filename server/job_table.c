// job_table.c: see server/job_table.h.
#include <inttypes.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/printable.h>
#include <server/ask.h>
#include <server/fence.h>
#include <server/job_table.h>
#include <server/jobs_internal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { NAME_WIDTH = 24, NAME_WIDTH_MAX = 48, WIDTH_MAX = 1000 };

const char *trp_job_state_name(const trp_wire_job *job)
{
    static const char *const names[] = {"queued", "starting", "running", "paused"};
    if (job->state >= TRP_JOB_QUEUED && job->state <= TRP_JOB_PAUSED)
        return names[job->state];
    if (job->status == TROUPE_CANCELLED)
        return "cancelled";
    return job->stopped ? "stopped" : job->status == TROUPE_OK ? "done" : "failed";
}

static const char *printable(const char *text, char *out, size_t capacity)
{
    (void)trp_printable_copy(text, strlen(text), out, capacity);
    return out;
}

// How long it has waited, run, or took.
static double seconds_of(const trp_wire_job *job)
{
    double from =
        job->granted_at > 0 && job->state != TRP_JOB_QUEUED ? job->granted_at : job->submitted_at;
    return (job->ended_at > 0 ? job->ended_at : trp_clock_unix_s()) - from;
}

static const char *remark_of(const trp_wire_job *job)
{
    if (job->error != NULL)
        return job->error;
    return job->why != NULL ? job->why : "";
}

static int width_of(FILE *out)
{
    struct winsize size;
    if (!isatty(fileno(out)) || ioctl(fileno(out), TIOCGWINSZ, &size) != 0 || size.ws_col < 20)
        return WIDTH_MAX;
    return size.ws_col;
}

// As wide as the longest name: those of a sweep's trials differ in their last digits.
static int name_width_of(const trp_wire_jobs *jobs)
{
    size_t width = NAME_WIDTH;
    for (size_t i = 0; i < jobs->jobs.count; i++) {
        const char *name = jobs->jobs.items[i].name;
        size_t length = name != NULL ? strlen(name) : 0;
        width = length > width ? length : width;
    }
    return width < NAME_WIDTH_MAX ? (int)width : NAME_WIDTH_MAX;
}

static void print_row(const trp_wire_job *job, int name_width, int width, FILE *out)
{
    char name[200], remark[600], time[32], line[1100];
    snprintf(
        line, sizeof line, "%6" PRId64 "  %-*.*s  %-8s %5d %8d  %12s  %s", job->job, name_width,
        name_width, printable(job->name != NULL ? job->name : "", name, sizeof name),
        trp_job_state_name(job), job->ranks > 0 ? job->ranks : job->need.ranks, job->reports,
        trp_show_time(seconds_of(job), time), printable(remark_of(job), remark, sizeof remark));
    size_t length = strnlen(line, (size_t)width);
    while (length > 0 && (line[length] & 0xc0) == 0x80) // Never within a character.
        length--;
    while (length > 0 && line[length - 1] == ' ')
        length--;
    fprintf(out, "%.*s\n", (int)length, line);
}

void trp_job_table_print(const trp_wire_jobs *jobs, bool runs, bool ended, FILE *out)
{
    int width = width_of(out), name_width = name_width_of(jobs);
    if (!runs)
        fprintf(out, "(no train server runs: this is what the folders of its jobs say)\n");
    if (jobs->jobs.count == 0) {
        fprintf(out,
                ended ? "no jobs\n" : "no jobs wait or run (-a lists those that have ended)\n");
        return;
    }
    fprintf(out, "%6s  %-*s  %-8s %5s %8s  %12s  %s\n", "job", name_width, "name", "state", "ranks",
            "reports", "time", "");
    for (size_t i = 0; i < jobs->jobs.count; i++)
        print_row(&jobs->jobs.items[i], name_width, width, out);
}

static void print_text(FILE *out, const char *name, const char *text)
{
    char shown[4200];
    if (text != NULL && text[0] != '\0')
        fprintf(out, "%-10s %s\n", name, printable(text, shown, sizeof shown));
}

static void print_date(FILE *out, const char *name, double at)
{
    char text[32];
    if (at > 0)
        fprintf(out, "%-10s %s\n", name, trp_show_date(at, text));
}

void trp_job_print(const trp_wire_job *job, bool runs, FILE *out)
{
    char time[32];
    fprintf(out, "%-10s %" PRId64 "\n", "job", job->job);
    print_text(out, "name", job->name);
    print_text(out, "key", job->key);
    fprintf(out, "%-10s %s %s %s%s\n", "state", trp_job_state_name(job),
            job->ended_at > 0 ? "after" : "for", trp_show_time(seconds_of(job), time),
            runs ? "" : " (no train server runs)");
    print_text(out, "why", job->why);
    if (job->state == TRP_JOB_ENDED && job->status != TROUPE_OK)
        print_text(out, "status", troupe_status_name((troupe_status)job->status));
    print_text(out, "error", job->error);
    print_text(out, "trainer", job->trainer);
    print_text(out, "program", job->program);
    print_text(out, "run", job->run);
    print_text(out, "folder", job->folder);
    fprintf(out, "%-10s %d\n", "ranks", job->ranks > 0 ? job->ranks : job->need.ranks);
    if (job->ranks > 0)
        fprintf(out, "%-10s %g CPUs, %g GPUs%s%s\n", "has", job->cpus, job->gpus,
                job->gpu_ids != NULL ? ": " : "", job->gpu_ids != NULL ? job->gpu_ids : "");
    if (job->runner > 0)
        fprintf(out, "%-10s %d, attempt %d\n", "process", job->runner, job->attempt);
    fprintf(out, "%-10s %d\n", "reports", job->reports);
    if (job->restarts > 0)
        fprintf(out, "%-10s %d\n", "restarts", job->restarts);
    if (job->need.priority != 0)
        fprintf(out, "%-10s %d\n", "priority", job->need.priority);
    print_date(out, "submitted", job->submitted_at);
    print_date(out, "expected", job->expected_at);
    print_date(out, "started", job->granted_at);
    print_date(out, "ended", job->ended_at);
}

// ---- folders

typedef struct reading {
    const trp_wire_list *which;
    trp_arena *arena;
    trp_wire_job *items;
    size_t count, room;
    troupe_status status;
} reading;

static const char *kept(reading *it, const char *text)
{
    if (text == NULL)
        return NULL;
    char *copy = (char *)trp_arena_alloc(it->arena, strlen(text) + 1);
    if (copy == NULL)
        it->status = troupe_fail(TROUPE_NO_MEMORY, "no memory for a job");
    return copy != NULL ? strcpy(copy, text) : NULL;
}

static void set_state(reading *it, const char *folder, trp_wire_job *job)
{
    trp_job_end end;
    trp_fence found = {0};
    if (trp_job_end_read(folder, it->arena, &end) == TROUPE_OK) {
        job->state = TRP_JOB_ENDED;
        job->status = end.status;
        job->error = end.error;
        job->stopped = end.stopped;
        job->reports = end.reports;
        job->restarts = end.restarts;
        job->ended_at = end.ended_at;
    } else if (trp_fence_look(folder, &found) == TROUPE_OK && found.runner != 0) {
        job->state = TRP_JOB_RUNNING;
        job->runner = found.runner > 0 ? found.runner : 0;
    } else {
        job->state = TRP_JOB_QUEUED;
        job->why = found.set ? "it is lost, until a train server runs again"
                             : "it waits until a train server runs again";
    }
    job->attempt = found.attempt;
}

static void add_row(reading *it, const trp_row *row, const char *folder)
{
    trp_wire_job job = {.job = row->id,
                        .submission = kept(it, row->submission),
                        .key = kept(it, row->key),
                        .name = kept(it, row->name),
                        .trainer = kept(it, row->trainer),
                        .program = kept(it, row->program),
                        .run = kept(it, row->run),
                        .folder = kept(it, folder),
                        .need = row->need,
                        .submitted_at = row->submitted_at};
    job.need.resources_per_rank = kept(it, row->need.resources_per_rank);
    set_state(it, folder, &job);
    if (it->status != TROUPE_OK || (job.state == TRP_JOB_ENDED && !it->which->ended))
        return;
    if (it->count == it->room) {
        size_t room = it->room > 0 ? 2 * it->room : 64;
        trp_wire_job *more = (trp_wire_job *)trp_realloc(it->items, room * sizeof *more);
        if (more == NULL) {
            it->status = troupe_fail(TROUPE_NO_MEMORY, "no memory for the jobs");
            return;
        }
        it->items = more;
        it->room = room;
    }
    it->items[it->count++] = job;
}

static troupe_status read_one(void *user, int64_t id, const char *folder)
{
    reading *it = (reading *)user;
    trp_row row = {0};
    char *books = NULL;
    (void)id;
    troupe_status status = trp_jobs_read_folder(folder, &row, &books);
    if (status == TROUPE_OK)
        add_row(it, &row, folder);
    trp_row_clear(&row);
    trp_free(books);
    return it->status != TROUPE_OK ? it->status : status == TROUPE_NO_MEMORY ? status : TROUPE_OK;
}

troupe_status trp_job_folders_read(const char *state_folder, const trp_wire_list *which,
                                   trp_arena *arena, trp_wire_jobs *jobs)
{
    reading it = {.which = which, .arena = arena};
    troupe_status status = trp_jobs_each_folder(state_folder, read_one, &it);
    size_t most = which->most > 0 ? (size_t)which->most : it.count;
    size_t count = it.count < most ? it.count : most;
    trp_wire_job *items = (trp_wire_job *)trp_arena_alloc(arena, (count + 1) * sizeof *items);
    if (status == TROUPE_OK && items == NULL)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for the jobs");
    for (size_t i = 0; status == TROUPE_OK && i < count; i++)
        items[i] = it.items[it.count - 1 - i];
    trp_free(it.items);
    *jobs = (trp_wire_jobs){.jobs = {items, count}};
    return status;
}
