// submit.c: submitting a job, and submitting one and waiting for it.
#include <actors/class/call_error.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <runtime/base/require.h>
#include <runtime/codec/json.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <string.h>
#include <train/capability.h>
#include <train/config.h>
#include <train/server.h>

// Makes the metadata canonical.
static troupe_status take_metadata(troupe_job *job)
{
    const char *given = job->options.metadata;
    trp_json value;
    trp_buffer text = {0};
    if (given == NULL)
        return TROUPE_OK;
    if (trp_json_parse(given, strlen(given), &value) != TROUPE_OK)
        return trp_error_prefix("option .metadata is not JSON");
    if (!trp_json_is_object(value))
        return troupe_fail(TROUPE_INVALID, "option .metadata is '%.60s': expected a JSON object",
                           given);
    troupe_status status = trp_json_canonical(value, &text);
    trp_buffer_append(&text, "", 1);
    char *copy = text.failed ? NULL : trp_arena_alloc(&job->arena, text.size);
    if (status == TROUPE_OK && copy == NULL)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for the metadata of a run");
    if (status == TROUPE_OK)
        job->options.metadata = memcpy(copy, text.data, text.size);
    trp_buffer_free(&text);
    return status;
}

// Packs the config, and keeps the references in it for as long as the job is known.
static troupe_status take_config(troupe_job *job, const void *config)
{
    char what[96];
    snprintf(what, sizeof what, "the config of '%s'", job->trainer->name);
    return trp_packed_take(&job->config, job->trainer->config, what, config);
}

// The same of the data's source.
static troupe_status take_data(troupe_job *job)
{
    char what[96];
    const troupe_data_given *given = job->options.data;
    job->options.data = NULL; // The caller's.
    if (given == NULL)
        return TROUPE_OK;
    if (given->table == NULL || given->source == NULL)
        return troupe_fail(TROUPE_INVALID, "option .data has no table or no source: expected "
                                           "troupe_data_with(name, &source)");
    TROUPE_TRY(troupe_data_register(given->table));
    snprintf(what, sizeof what, "the source of data '%s'", given->table->name);
    TROUPE_TRY(trp_packed_take(&job->data, given->table->source, what, given->source));
    job->data_table = given->table;
    return TROUPE_OK;
}

static troupe_status fill(troupe_job *job, const troupe_trainer *trainer, const void *config,
                          const troupe_follower *follower, troupe_follower *told,
                          const troupe_train_options *how)
{
    job->trainer = trainer;
    job->incarnation = trp_process_incarnation();
    TROUPE_TRY(TRP_OPTIONS_TAKE("a follower", *told, follower));
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_submit", job->options, how));
    // Those that were given are checked before anything is made, and then, with those that a run
    // was made with, the whole.
    TROUPE_TRY(trp_capability_options(trainer, &job->options));
    troupe_train_options given = job->options;
    TROUPE_TRY(trp_train_options_complete(&given, trainer, &job->gang));
    if (!job->options.name)
        job->options.name = trainer->name;
    TROUPE_TRY(trp_gate_make(job, job->options.gate, &job->gate));
    job->options.gate = NULL; // The caller's.
    TROUPE_TRY(trp_options_keep(&job->options, &job->arena));
    TROUPE_TRY(take_metadata(job));
    TROUPE_TRY(take_config(job, config));
    TROUPE_TRY(take_data(job));
    TROUPE_TRY(trp_run_open(job, config));
    return trp_train_options_complete(&job->options, trainer, &job->gang);
}

// Nothing is started of a run that has ended well.
static troupe_status finish_stored(troupe_job *job)
{
    troupe_result *result = trp_run_stored_result(job);
    trp_run_close(job);
    if (result == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the result of %s", job->path);
    (void)trp_job_finish(job, result);
    return TROUPE_OK;
}

troupe_status troupe_submit_as(const troupe_trainer *trainer, const void *config,
                               const troupe_follower *follower, troupe_job **job,
                               const troupe_train_options *how)
{
    static const troupe_none nothing; // The config of a loop that takes none.
    TRP_REQUIRE(trainer);
    if (config == NULL && trainer->config != NULL && trainer->config->kind == TROUPE_KIND_NONE)
        config = &nothing;
    TRP_REQUIRE(config);
    TRP_REQUIRE(job);
    TROUPE_TRY(trp_process_check());
    if (!trp_process_is_driver())
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "jobs are submitted in the driver; this is a worker process of it");
    TROUPE_TRY(troupe_trainer_register(trainer));
    troupe_job *made = trp_job_create();
    if (!made)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a job of '%s'", trainer->name);
    troupe_follower told;
    troupe_status status = fill(made, trainer, config, follower, &told, how);
    if (status == TROUPE_OK)
        status = trp_follow_start(made, &told, &made->follow);
    if (status == TROUPE_OK)
        trp_follow_journal(made->follow, made->opening.journal.fd);
    if (status == TROUPE_OK && made->opening.ended) {
        status = finish_stored(made);
    } else if (status == TROUPE_OK) {
        made->derived = trp_derived_open(made->folder);
        trp_job_show(made);
        status = trp_server_submit(made);
    }
    if (status != TROUPE_OK) {
        if (made->follow != NULL) { // Nothing has been told, and nothing will be.
            trp_follow_abandon(made->follow);
            trp_follow_end(made->follow);
        }
        trp_gate_end(made->gate);
        trp_run_close(made);
        trp_job_release(made);
        return status;
    }
    *job = made;
    return TROUPE_OK;
}

troupe_status troupe_train_as(const troupe_trainer *trainer, const void *config,
                              troupe_result **result, const troupe_train_options *how)
{
    TRP_REQUIRE(result);
    troupe_job *job;
    *result = NULL;
    TROUPE_TRY(troupe_submit_as(trainer, config, NULL, &job, how));
    troupe_status status = troupe_job_wait(job, -1, result);
    trp_derived_await(job->derived);
    troupe_job_close(&job);
    TROUPE_TRY(status);
    status = (*result)->status;
    return status == TROUPE_OK ? status : troupe_fail(status, "%s", (*result)->error);
}
