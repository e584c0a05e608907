// accept.c: taking on a job: from the bytes of its spec to a place in the queue.
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <string.h>
#include <train/capability.h>
#include <train/data.h>
#include <train/job_live.h>
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

static const char *keep(trp_job *job, const char *text, size_t length)
{
    char *copy = trp_arena_alloc(&job->arena, length + 1);
    if (copy != NULL) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    return copy;
}

// Options that the train server has a say in.
static troupe_status take_terms(trp_job *job, const trp_job_terms *terms)
{
    troupe_train_options *options = &job->options;
    const char *name = strrchr(terms->run, '/');
    if (name == NULL || name[1] == '\0')
        return troupe_fail(TROUPE_INVALID, "the folder of a run is '%s': expected its whole path",
                           terms->run);
    options->storage = keep(job, terms->run, name > terms->run ? (size_t)(name - terms->run) : 1);
    options->name = keep(job, name + 1, strlen(name + 1));
    job->submission = keep(job, terms->submission, strlen(terms->submission));
    if (terms->rank_gpus != NULL)
        job->rank_gpus = keep(job, terms->rank_gpus, strlen(terms->rank_gpus));
    if (options->storage == NULL || options->name == NULL || job->submission == NULL ||
        (terms->rank_gpus != NULL && job->rank_gpus == NULL))
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the folder of a run");
    if (options->open == TROUPE_OPEN_NEW)
        options->open = TROUPE_OPEN_RESUME_OR_NEW; // Its client has made the folder.
    options->console = TROUPE_CONSOLE_OFF;
    options->restarts = terms->restarts < 0    ? TROUPE_FOREVER
                        : terms->restarts == 0 ? TROUPE_NONE
                                               : terms->restarts;
    if (terms->ranks > 0)
        options->ranks = terms->ranks;
    job->resizes = terms->resizes;
    if (options->time_limit_s > 0) {
        static const double least_s = 0.001; // 0 is none.
        double left_s = options->time_limit_s - terms->spent_s;
        options->time_limit_s = left_s > least_s ? left_s : least_s;
    }
    return TROUPE_OK;
}

// A value that cannot be set is not the end of the job: it was wished while there was nobody to
// refuse it.
static void take_live(trp_job *job, const trp_job_terms *terms)
{
    for (size_t i = 0; i < terms->live.count; i++) {
        const trp_wire_live *live = &terms->live.items[i];
        if (trp_job_modify_json(job, live->member, live->value, live->revision) != TROUPE_OK)
            trp_log(TRP_WARN, "%s", troupe_last_error()->text);
    }
}

static troupe_status open_run(trp_job *job, troupe_bytes packed, const troupe_ref *refs,
                              const trp_job_terms *terms)
{
    job->incarnation = trp_process_incarnation();
    TROUPE_TRY(trp_spec_read(packed, &job->arena, &job->spec, &job->trainer));
    job->options = trp_options_unpack(&job->spec.options);
    if (terms != NULL)
        TROUPE_TRY(take_terms(job, terms));
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
    const char *params = job->options.params;
    job->derived = trp_derived_open(job->folder, params != NULL ? params : job->config_json);
    tell_accepted(job);
    return trp_server_submit(job);
}

static troupe_status accept_job(troupe_bytes spec, const troupe_ref *refs, const trp_port *port,
                                const trp_job_terms *terms, trp_job **accepted)
{
    trp_job *job = trp_job_create();
    if (job == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a job");
    job->port = *port;
    troupe_status status = open_run(job, spec, refs, terms);
    if (status == TROUPE_OK && terms != NULL && !job->opening.ended)
        take_live(job, terms);
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

troupe_status trp_job_accept(troupe_bytes spec, const troupe_ref *refs, const trp_port *port,
                             trp_job **job)
{
    return accept_job(spec, refs, port, NULL, job);
}

troupe_status trp_job_accept_on(const trp_job_terms *terms, troupe_bytes spec, const trp_port *port,
                                trp_job **job)
{
    return accept_job(spec, NULL, port, terms, job);
}
