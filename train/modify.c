// modify.c: troupe_job_modify on the user's side: what is wished, packed for the one who runs the
// job.
#include <runtime/base/require.h>
#include <string.h>
#include <train/handle.h>
#include <train/job_live.h>

static troupe_status check_trainer(const troupe_trainer *trainer, const troupe_job *job)
{
    const trp_job_spec *spec = &job->spec;
    if (strcmp(trainer->name, spec->trainer) == 0 &&
        troupe_type_hash(trainer->config) == spec->schema)
        return TROUPE_OK;
    return troupe_fail(TROUPE_WRONG_TYPE,
                       "troupe_job_modify: the run %s is of trainer '%s', not of '%s'", job->path,
                       spec->trainer, trainer->name);
}

static troupe_status pack(const troupe_trainer *trainer, const char *member, const void *value,
                          trp_buffer *packed)
{
    trp_live_members members;
    size_t which;
    TROUPE_TRY(trp_live_members_of(trainer, &members));
    TROUPE_TRY(trp_live_find(trainer, &members, member, &which));
    return trp_live_pack_value(&members, which, value, packed);
}

// A train server takes it as JSON, as people give it.
static troupe_status wish_of_server(const troupe_trainer *trainer, troupe_job *job,
                                    const char *member, const void *value)
{
    trp_live live;
    size_t which;
    trp_buffer text = {0};
    troupe_job_status now;
    troupe_job_status_get(job, &now);
    if (now.state == TROUPE_JOB_DONE)
        return troupe_fail(TROUPE_STOPPED, "troupe_job_modify: the run %s has ended", job->path);
    TROUPE_TRY(trp_live_open(&live, trainer));
    troupe_status status = trp_live_find(trainer, &live.members, member, &which);
    if (status == TROUPE_OK) {
        trp_live_write_value(&live, which, value, &text);
        trp_buffer_append(&text, "", 1);
        trp_wire_wish wish = {
            .wish = TRP_WISH_LIVE, .member = member, .value = (const char *)text.data};
        status = text.failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a value of .%s", member)
                             : trp_detached_wish(job, &wish);
    }
    trp_buffer_free(&text);
    trp_live_close(&live);
    return status;
}

static troupe_status wish(troupe_job *job, const char *member, troupe_bytes value)
{
    trp_job *line = trp_handle_line(job);
    if (!line)
        return troupe_fail(TROUPE_BUSY, "troupe_job_modify: the job is being submitted");
    troupe_status status = trp_job_modify(line, member, value);
    trp_job_release(line);
    return status;
}

troupe_status troupe_job_modify_as(const troupe_trainer *trainer, troupe_job *job,
                                   const char *member, const void *value)
{
    TRP_REQUIRE(trainer);
    TRP_REQUIRE(job);
    TRP_REQUIRE(member);
    TRP_REQUIRE(value);
    trp_buffer packed = {0};
    TROUPE_TRY(check_trainer(trainer, job));
    if (job->detached)
        return wish_of_server(trainer, job, member, value);
    troupe_status status = pack(trainer, member, value, &packed);
    if (status == TROUPE_OK)
        status = wish(job, member, (troupe_bytes){packed.data, packed.size});
    trp_buffer_free(&packed);
    return status;
}
