// stored_submit.c: submitting a training of a version whose code is another program's.
#include <models/stored.h>

#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/options_take.h>
#include <runtime/base/require.h>
#include <runtime/codec/json.h>
#include <stdio.h>
#include <string.h>
#include <train/detached.h>
#include <train/handle.h>
#include <troupe/stored.h>
#include <unistd.h>

// ---- what is asked

static troupe_status check_json(const char *what, const char *json)
{
    trp_json value;
    if (!json)
        return TROUPE_OK;
    if (trp_json_parse(json, strlen(json), &value) != TROUPE_OK)
        return trp_error_prefix("%s", what);
    if (!trp_json_is_object(value))
        return troupe_fail(TROUPE_WRONG_TYPE, "%s: expected an object", what);
    return TROUPE_OK;
}

troupe_status trp_stored_submit(const trp_stored_version *version,
                                const trp_stored_submission *submission, trp_arena *arena,
                                trp_stored_answer *answer, trp_child_process *process)
{
    trp_buffer text = {0};
    if (!version->record.kept.data)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "%s was pushed without .data: it can be served, and there is nothing to "
                           "train it with",
                           version->of.ref);
    TROUPE_TRY(check_json("the settings", submission->config));
    TROUPE_TRY(check_json("the source of data", submission->data));
    trp_json_value(&text, &troupe_type_trp_stored_submission, submission);
    const trp_stored_request request = {.action = "submit",
                                        .ref = version->of.ref,
                                        .folder = version->version.folder.text,
                                        .arguments = trp_buffer_keep(&text, arena)};
    if (!request.arguments)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a submission");
    TROUPE_TRY(trp_stored_ask(&version->of, &request, arena, answer, process));
    if (!version->of.server || answer->job > 0)
        return TROUPE_OK;
    trp_child_end(process);
    return troupe_fail(TROUPE_UNSUPPORTED,
                       "the program of %s has not submitted its job to the train server of %s: "
                       "expected that its main leaves TROUPE_SERVER as it is",
                       version->of.ref, version->of.server);
}

// A path means the same in the folder of another program.
static troupe_status make_absolute(const char **path, trp_arena *arena)
{
    char here[PATH_MAX];
    const char *given = *path;
    if (!given || given[0] == '/' || given[0] == '~' || !trp_path_is_local(given))
        return TROUPE_OK;
    if (!getcwd(here, sizeof here))
        return trp_fail_errno(TROUPE_IO, "cannot tell which folder this is");
    size_t size = strlen(here) + strlen(given) + 2;
    char *whole = (char *)trp_arena_alloc(arena, size);
    if (!whole)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the path of a run");
    (void)snprintf(whole, size, "%s/%s", here, given);
    *path = whole;
    return TROUPE_OK;
}

static troupe_status take_options(const troupe_train_options *given, bool has_server,
                                  trp_arena *arena, troupe_train_options *options)
{
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_submit_stored", *options, given));
    if (options->gate || options->data)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "option %s is given, and the job is another program's: expected %s",
                           options->gate ? ".gate" : ".data",
                           options->gate ? "none" : "the source as JSON, in .data beside .train");
    if (options->key && !has_server)
        return troupe_fail(
            TROUPE_UNSUPPORTED,
            "option .key is given, and the job is one of a process of its own, where "
            "nobody finds it: expected a train server (troupe server start, and "
            ".server or TROUPE_SERVER)");
    TROUPE_TRY(make_absolute(&options->storage, arena));
    TROUPE_TRY(make_absolute(&options->from, arena));
    options->server = has_server ? TROUPE_SERVER_DEFAULT : TROUPE_SERVER_NONE;
    return trp_options_keep(options, arena);
}

// ---- the handle

static troupe_status submit(troupe_job *handle, const trp_stored_version *version,
                            const trp_stored_submission *submission,
                            const troupe_follower *follower)
{
    trp_stored_answer answer;
    trp_child_process process;
    TROUPE_TRY(trp_stored_submit(version, submission, &handle->arena, &answer, &process));
    if (answer.job > 0) {
        trp_child_end(&process);
        if (trp_detached_attach(handle, version->of.server, answer.job, follower) == TROUPE_OK)
            return TROUPE_OK;
        return trp_error_prefix("job %" PRId64 " of %s was submitted, and cannot be followed now",
                                answer.job, version->of.ref);
    }
    if (!answer.path) {
        trp_child_end(&process);
        return troupe_fail(TROUPE_IO, "the program of %s does not say where its run is",
                           version->of.ref);
    }
    handle->spec = (trp_job_spec){.program = TRP_STORED_PROGRAM,
                                  .trainer = version->manifest.trainer,
                                  .options = submission->options};
    return trp_detached_adopt(handle, &process, answer.path, (off_t)answer.journal, follower);
}

static troupe_status begin(troupe_job *handle, const char *ref, const char *json,
                           const troupe_follower *follower, const troupe_stored_options *how)
{
    troupe_follower follows;
    troupe_train_options options;
    trp_stored_version version;
    trp_desk *desk;
    TROUPE_TRY(TRP_OPTIONS_TAKE("a follower", follows, follower));
    TROUPE_TRY(trp_stored_find(how->repository, ref, &handle->arena, &version));
    TROUPE_TRY(trp_detached_server(how->train ? how->train->server : TROUPE_SERVER_DEFAULT, &desk));
    version.of.server = desk ? trp_desk_folder(desk) : NULL;
    troupe_status status = take_options(how->train, desk != NULL, &handle->arena, &options);
    if (status == TROUPE_OK) {
        const trp_stored_submission submission = {.config = json,
                                                  .data = how->data,
                                                  .from_version = how->from_version,
                                                  .options = trp_options_pack(&options)};
        status = submit(handle, &version, &submission, &follows);
    }
    trp_desk_release(&desk);
    return status;
}

troupe_status troupe_submit_stored_with(const char *ref, const char *json,
                                        const troupe_follower *follower, troupe_job **job,
                                        const troupe_stored_options *how)
{
    TRP_REQUIRE(ref);
    TRP_REQUIRE(job);
    troupe_stored_options full;
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_submit_stored", full, how));
    troupe_job *made = trp_handle_create();
    if (!made)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a job of %s", ref);
    troupe_status status = begin(made, ref, json, follower, &full);
    if (status == TROUPE_OK) {
        *job = made;
        return status;
    }
    trp_followers_abandon(&made->followers);
    trp_followers_end(&made->followers);
    trp_handle_release(made);
    return status;
}
