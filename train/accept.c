// accept.c: taking on a job: from the bytes of its spec to a place in the queue.
#include <runtime/base/error.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <train/capability.h>
#include <train/data.h>
#include <train/live.h>
#include <train/server.h>

// The references come after those of the config.
static troupe_status take_data(trp_job *job, const troupe_ref *refs)
{
    char what[96];
    const trp_job_spec *spec = &job->spec;
    if (spec->data_name == NULL)
        return TROUPE_OK;
    job->data_table = trp_data_table_find(spec->data_name, spec->data_schema);
    if (job->data_table == NULL)
        return troupe_last_error()->status;
    snprintf(what, sizeof what, "the source of data '%s'", spec->data_name);
    return trp_packed_copy(&job->data, what, spec->data, refs + spec->ref_count,
                           spec->data_ref_count);
}

static troupe_status open_run(trp_job *job, troupe_bytes packed, const troupe_ref *refs)
{
    job->incarnation = trp_process_incarnation();
    TROUPE_TRY(trp_spec_read(packed, &job->arena, &job->spec, &job->trainer));
    job->options = trp_options_unpack(&job->spec.options);
    // Those that were given are checked before anything is made, and then, with those that a run
    // was made with, the whole.
    TROUPE_TRY(trp_capability_options(job->trainer, &job->options));
    troupe_train_options given = job->options;
    TROUPE_TRY(trp_train_options_complete(&given, job->trainer, &job->gang));
    if (job->options.name == NULL)
        job->options.name = job->trainer->name;
    char what[96];
    snprintf(what, sizeof what, "the config of '%s'", job->trainer->name);
    TROUPE_TRY(trp_packed_copy(&job->config, what, job->spec.config, refs, job->spec.ref_count));
    TROUPE_TRY(take_data(job, refs));
    TROUPE_TRY(trp_spec_config(&job->spec, job->trainer, &job->arena, &job->config_json));
    TROUPE_TRY(trp_live_open(&job->live, job->trainer));
    TROUPE_TRY(trp_run_open(job));
    TROUPE_TRY(trp_train_options_complete(&job->options, job->trainer, &job->gang));
    job->ranks = job->asked = job->world = job->options.ranks;
    return TROUPE_OK;
}

static void tell_accepted(trp_job *job)
{
    static const double unit = 10000; // As the ledger counts.
    trp_accepted what = {
        .path = job->path,
        .folder = job->folder,
        .cpus = (double)job->gang.cpus / unit,
        .gpus = (double)job->gang.gpus / unit,
        .expected_reports = job->options.expected_reports,
        .time_limit_s = job->options.time_limit_s,
        .ranks = job->world,
        .reports = job->reports,
        .restarts = job->restarts,
        .elapsed_s = job->earlier_s,
        .journal = trp_run_journal_end_at(&job->opening.journal),
    };
    job->port.is->accepted(job->port.user, &what);
}

// Nothing is started of a run that has ended well.
static troupe_status finish_stored(trp_job *job)
{
    tell_accepted(job);
    troupe_result *result = trp_run_stored_result(job);
    trp_run_close(job);
    if (result == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the result of %s", job->path);
    (void)trp_job_finish(job, result);
    return TROUPE_OK;
}

static troupe_status queue(trp_job *job)
{
    job->derived = trp_derived_open(job->folder);
    tell_accepted(job);
    return trp_server_submit(job);
}

troupe_status trp_job_accept(troupe_bytes spec, const troupe_ref *refs, const trp_port *port,
                             trp_job **accepted)
{
    trp_job *job = trp_job_create();
    if (job == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a job");
    job->port = *port;
    troupe_status status = open_run(job, spec, refs);
    if (status == TROUPE_OK)
        status = job->opening.ended ? finish_stored(job) : queue(job);
    if (status != TROUPE_OK) {
        job->port = (trp_port){0}; // The caller's still.
        trp_run_close(job);
        trp_job_release(job);
        return status;
    }
    *accepted = job;
    return TROUPE_OK;
}
