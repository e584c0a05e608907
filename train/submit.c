// submit.c: submitting a job, and submitting one and waiting for it.
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <runtime/base/require.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <train/data.h>
#include <train/keys.h>
#include <train/program_env.h>
#include <troupe/process.h>

typedef struct submission {
    const troupe_trainer *trainer;
    const void *config;
    troupe_follower follower;
    troupe_train_options options;
    trp_packed packed; // The config,
    trp_packed data;   // and the source of the data.
} submission;

static troupe_status take_data(troupe_job *handle, const troupe_data_given *given,
                               submission *asked)
{
    char what[96];
    if (given->table == NULL || given->source == NULL)
        return troupe_fail(TROUPE_INVALID, "option .data has no table or no source: expected "
                                           "troupe_data_with(name, &source)");
    TROUPE_TRY(troupe_data_register(given->table));
    if (given->share)
        TROUPE_TRY(trp_data_share(given->share, NULL));
    snprintf(what, sizeof what, "the source of data '%s'", given->table->name);
    TROUPE_TRY(trp_packed_take(&asked->data, given->table->source, what, given->source));
    return trp_spec_set_data(&handle->spec, given, &asked->data, &handle->arena);
}

// Puts what is asked for into the handle, so that nothing of the caller's is needed after the
// submission.
static troupe_status describe(troupe_job *handle, submission *asked)
{
    char what[96];
    trp_job_spec *spec = &handle->spec;
    snprintf(what, sizeof what, "the config of '%s'", asked->trainer->name);
    TROUPE_TRY(trp_gate_make(handle, asked->options.gate, &handle->gate));
    const troupe_data_given *given = asked->options.data;
    asked->options.gate = NULL; // The caller's, as are the data.
    asked->options.data = NULL;
    TROUPE_TRY(trp_options_keep(&asked->options, &handle->arena));
    TROUPE_TRY(trp_packed_take(&asked->packed, asked->trainer->config, what, asked->config));
    TROUPE_TRY(
        trp_spec_make(asked->trainer, &asked->packed, &asked->options, &handle->arena, spec));
    spec->gate = trp_gate_plan_of(handle->gate);
    return given != NULL ? take_data(handle, given, asked) : TROUPE_OK;
}

// The references of the config and of the data, in one piece of the handle's arena.
static troupe_ref *all_refs(troupe_job *handle, const submission *asked)
{
    const trp_packed *parts[] = {&asked->packed, &asked->data};
    size_t count = asked->packed.ref_count + asked->data.ref_count, next = 0;
    troupe_ref *all = (troupe_ref *)trp_arena_alloc(&handle->arena, (count + 1) * sizeof *all);
    for (int part = 0; all != NULL && part < 2; part++)
        for (size_t i = 0; i < parts[part]->ref_count; i++)
            all[next++] = parts[part]->refs[i];
    return all;
}

// Hands over the spec: all that the other side is given is its bytes, and the references.
static troupe_status hand_over(troupe_job *handle, const submission *asked)
{
    trp_buffer packed = {0};
    trp_job *line;
    const troupe_ref *refs = all_refs(handle, asked);
    if (refs == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the references of a job");
    troupe_status status = trp_spec_pack(&handle->spec, &packed);
    if (status == TROUPE_OK) {
        trp_handle_hold(handle); // The port's, if it is taken on.
        status = trp_job_accept((troupe_bytes){packed.data, packed.size}, refs,
                                &(trp_port){&trp_handle_port, handle}, &line);
        if (status != TROUPE_OK)
            trp_handle_release(handle);
    }
    trp_buffer_free(&packed);
    TROUPE_TRY(status);
    pthread_mutex_lock(&handle->lock);
    handle->line = line;
    pthread_mutex_unlock(&handle->lock);
    trp_job_look(line); // At wishes of the follower, meanwhile.
    return TROUPE_OK;
}

// What was not submitted. Nothing has been told, and nothing will be.
static void drop(troupe_job *handle)
{
    trp_followers_abandon(&handle->followers);
    trp_followers_end(&handle->followers);
    trp_gate_end(handle->gate);
    trp_handle_release(handle);
}

static troupe_status submit_new(troupe_job *handle, submission *asked)
{
    handle->followers.may_come = asked->options.key != NULL;
    TROUPE_TRY(trp_follow_start(handle, &asked->follower, &handle->followers.first));
    TROUPE_TRY(hand_over(handle, asked));
    return TROUPE_OK;
}

// Another submission of a job that is there: with a follower of its own, if it has one.
static troupe_status join(troupe_job *found, const troupe_job *asks, const submission *asked)
{
    if (asks->gate)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "the job with the key '%s' was submitted before: expected no gate, "
                           "which is given with the first submission",
                           asked->options.key);
    return trp_followers_add(found, &asked->follower);
}

// Of one with a key: the job that has it already, or a new one. *made becomes the job.
static troupe_status submit_once(troupe_job **made, submission *asked)
{
    troupe_job *handle = *made, *found, *refused = NULL;
    trp_keys_begin_submission();
    troupe_status status = trp_keys_find(&handle->spec, asked->trainer, &found);
    if (status == TROUPE_NOT_FOUND) {
        status = submit_new(handle, asked);
        if (status == TROUPE_OK)
            trp_keys_add(handle);
    } else if (status == TROUPE_OK) {
        status = join(found, handle, asked);
        if (status == TROUPE_OK) {
            *made = found;
            drop(handle);
        } else {
            refused = found;
        }
    }
    trp_keys_end_submission();
    troupe_job_close(&refused); // It may wait for a follower that submits.
    return status;
}

// Hands it to the one whose it is to be.
static troupe_status submit_anywhere(troupe_job **made, submission *asked)
{
    trp_desk *desk;
    TROUPE_TRY(trp_detached_choose(*made, asked->trainer, &desk));
    if (desk == NULL)
        return asked->options.key ? submit_once(made, asked) : submit_new(*made, asked);
    troupe_status status = TROUPE_OK;
    if (asked->trainer == &troupe_trainer_troupe_process) // Else it is found when its turn comes.
        status = trp_program_check((const troupe_process_config *)asked->config);
    if (status == TROUPE_OK)
        status = trp_detached_submit(*made, asked->trainer, &asked->follower, desk);
    if (status != TROUPE_OK)
        trp_desk_release(&desk);
    return status;
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
    submission asked = {.trainer = trainer, .config = config};
    TROUPE_TRY(TRP_OPTIONS_TAKE("a follower", asked.follower, follower));
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_submit", asked.options, how));
    troupe_job *made = trp_handle_create();
    if (!made)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a job of '%s'", trainer->name);
    troupe_status status = describe(made, &asked);
    if (status == TROUPE_OK)
        status = submit_anywhere(&made, &asked);
    trp_packed_free(&asked.packed);
    trp_packed_free(&asked.data);
    if (status == TROUPE_OK)
        *job = made;
    else
        drop(made);
    return status;
}

troupe_status troupe_train_as(const troupe_trainer *trainer, const void *config,
                              troupe_result **result, const troupe_train_options *how)
{
    TRP_REQUIRE(result);
    troupe_job *job;
    *result = NULL;
    TROUPE_TRY(troupe_submit_as(trainer, config, NULL, &job, how));
    troupe_status status = troupe_job_wait(job, -1, result);
    troupe_job_close(&job);
    TROUPE_TRY(status);
    status = (*result)->status;
    return status == TROUPE_OK ? status : troupe_fail(status, "%s", (*result)->error);
}
