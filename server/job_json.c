// job_json.c: jobs of the train server as JSON: as the server says them, with words for states.
#include <runtime/codec/json.h>
#include <server/job_table.h>

// `outcome` of one that has ended, and `status`, as TROUPE_OK; else NULL.
TROUPE_STRUCT(shown_job, (int64_t, job), (troupe_text, submission), (troupe_text, key),
              (troupe_text, name), (troupe_text, trainer), (troupe_text, program),
              (troupe_text, run), (troupe_text, folder), (troupe_text, state),
              (troupe_text, outcome), (troupe_text, status), (troupe_text, error),
              (troupe_text, why), (int, attempt), (int, runner), (trp_wire_need, need),
              (int, ranks), (double, cpus), (double, gpus), (troupe_text, gpu_ids), (int, reports),
              (int, restarts), (double, submitted_at), (double, granted_at), (double, ended_at),
              (double, expected_at), (int64_t, revision), (int64_t, echo));

const char *trp_job_outcome(int status, bool stopped)
{
    if (status == TROUPE_OK)
        return stopped ? "STOPPED" : "DONE";
    return status == TROUPE_CANCELLED ? "CANCELLED" : "FAILED";
}

static void add_job(trp_buffer *out, const trp_wire_job *job)
{
    static const char *const states[] = {"QUEUED", "STARTING", "RUNNING", "PAUSED", "ENDED"};
    bool ended = job->state == TRP_JOB_ENDED;
    const shown_job it = {
        .job = job->job,
        .submission = job->submission,
        .key = job->key,
        .name = job->name,
        .trainer = job->trainer,
        .program = job->program,
        .run = job->run,
        .folder = job->folder,
        .state = job->state >= 0 && job->state <= TRP_JOB_ENDED ? states[job->state] : NULL,
        .outcome = ended ? trp_job_outcome(job->status, job->stopped) : NULL,
        .status = ended ? troupe_status_name((troupe_status)job->status) : NULL,
        .error = job->error,
        .why = job->why,
        .attempt = job->attempt,
        .runner = job->runner,
        .need = job->need,
        .ranks = job->ranks,
        .cpus = job->cpus,
        .gpus = job->gpus,
        .gpu_ids = job->gpu_ids,
        .reports = job->reports,
        .restarts = job->restarts,
        .submitted_at = job->submitted_at,
        .granted_at = job->granted_at,
        .ended_at = job->ended_at,
        .expected_at = job->expected_at,
        .revision = job->revision,
        .echo = job->echo,
    };
    trp_json_value(out, &troupe_type_shown_job, &it);
}

static void print(trp_buffer *json, FILE *out)
{
    fprintf(out, "%.*s\n", (int)json->size, (const char *)json->data);
    trp_buffer_free(json);
}

void trp_job_print_json(const trp_wire_job *job, FILE *out)
{
    trp_buffer json = {0};
    add_job(&json, job);
    print(&json, out);
}

void trp_jobs_print_json(const trp_wire_jobs *jobs, FILE *out)
{
    trp_buffer json = {0};
    trp_buffer_append(&json, "[", 1);
    for (size_t i = 0; i < jobs->jobs.count; i++) {
        trp_buffer_printf(&json, i > 0 ? ",\n " : "");
        add_job(&json, &jobs->jobs.items[i]);
    }
    trp_buffer_append(&json, "]", 1);
    print(&json, out);
}
