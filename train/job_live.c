// job_live.c: see job_live.h. All that is in job->live is under the job's lock.
//
// A wish is put down in the journal before anyone is told of it, so that it holds after a crash.
// One order is in flight at a time: what is wished meanwhile is ordered once it is whole, and of
// each member only the newest value.
#include <runtime/base/log.h>
#include <string.h>
#include <train/job_live.h>

// ---- the group

// Puts down what is wished now.
static void put_text(const trp_live *live, trp_buffer *text)
{
    trp_buffer_free(text);
    trp_live_write(live, text);
}

// Orders what is wished, where ranks are there to be told. With the lock.
static void order(trp_job *job)
{
    trp_live *live = &job->live;
    if (!live->running || live->from > 0 || live->told == live->revision || !job->control ||
        !trp_job_has_runtime(job))
        return;
    trp_buffer values = {0};
    trp_live_pack(live, &values);
    if (!values.failed)
        live->from = trp_control_live(job->control, live->revision, values.data, values.size);
    if (live->from > 0) {
        live->told = live->revision;
        put_text(live, &live->ordered);
    }
    trp_buffer_free(&values); // Where there was no memory, it is tried again at the next report.
}

// Puts down and tells that a revision counts after that report. With the lock.
static void say_live(trp_job *job, uint32_t revision, int report)
{
    trp_lines lines = trp_run_journal_live(&job->opening.journal, revision, report);
    job->port.is->modified(job->port.user, &(troupe_live_event){revision, report}, lines);
}

troupe_status trp_job_live_begin(trp_job *job, int report, trp_buffer *values, uint32_t *revision)
{
    trp_live *live = &job->live;
    *revision = 0;
    if (live->members.count == 0)
        return TROUPE_OK;
    pthread_mutex_lock(&job->lock);
    trp_live_pack(live, values);
    if (!values->failed) {
        live->running = true;
        live->told = *revision = live->revision;
        live->from = 0;
        put_text(live, &live->holds);
        trp_control_live_begin(job->control, live->revision);
        if (live->revision > 0)
            say_live(job, live->revision, report);
    }
    pthread_mutex_unlock(&job->lock);
    if (values->failed)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the live values of %s", job->path);
    return TROUPE_OK;
}

void trp_job_live_whole(trp_job *job, int report)
{
    trp_live *live = &job->live;
    if (live->members.count == 0)
        return;
    pthread_mutex_lock(&job->lock);
    if (live->from > 0 && report >= live->from) {
        say_live(job, live->told, live->from);
        live->from = 0;
        trp_buffer_free(&live->holds);
        live->holds = live->ordered;
        live->ordered = (trp_buffer){0};
    }
    order(job);
    pthread_mutex_unlock(&job->lock);
}

void trp_job_live_config(trp_job *job, trp_buffer *out)
{
    const trp_live *live = &job->live;
    trp_json config = {job->config_json, strlen(job->config_json)};
    if (live->members.count == 0)
        return;
    pthread_mutex_lock(&job->lock);
    trp_json holds = {(const char *)live->holds.data, live->holds.size};
    if (holds.size > 0 && !live->holds.failed)
        trp_live_merge(config, holds, out);
    pthread_mutex_unlock(&job->lock);
}

troupe_status trp_job_live_read(trp_job *job, void *config)
{
    trp_buffer values = {0};
    if (job->live.members.count == 0)
        return TROUPE_OK;
    pthread_mutex_lock(&job->lock);
    trp_live_pack(&job->live, &values);
    pthread_mutex_unlock(&job->lock);
    troupe_status status =
        values.failed
            ? troupe_fail(TROUPE_NO_MEMORY, "no memory for the live values of %s", job->path)
            : trp_live_apply(&job->live.members, values.data, values.size, trp_arena_current(),
                             config);
    trp_buffer_free(&values);
    return status;
}

// ---- an opening

// Whether the config that is given now says of a member what the one in run.json does.
static bool is_unchanged(trp_json given, trp_json saved, const char *name)
{
    trp_json a, b;
    return trp_json_member(given, name, &a) && trp_json_member(saved, name, &b) &&
           trp_json_is_same(a, b);
}

// Takes up one wish of an earlier opening. What cannot be read any more, since the program has
// changed, is left out.
static troupe_status take_up(trp_job *job, const char *name, trp_json value, uint32_t revision)
{
    trp_live *live = &job->live;
    size_t member;
    trp_wish made;
    troupe_status status = trp_live_find(job->trainer, &live->members, name, &member);
    if (status == TROUPE_OK)
        status = trp_live_make_json(live, member, value, &made);
    if (status == TROUPE_OK)
        trp_live_take(live, member, &made, revision);
    else if (status != TROUPE_NO_MEMORY)
        trp_log(TRP_WARN, "what %s was modified to does not hold any more: %s", job->path,
                troupe_last_error()->text);
    return status == TROUPE_NO_MEMORY ? status : TROUPE_OK;
}

static troupe_status take_up_all(trp_job *job, const trp_run_file *file)
{
    const trp_run_history *history = &job->opening.history;
    trp_json at = {0}, name, value;
    while (trp_json_next_member(file->modified, &at, &name, &value)) {
        const char *text;
        TROUPE_TRY(trp_json_read(&troupe_type_troupe_text, name, &job->arena, &text));
        TROUPE_TRY(take_up(job, text, value, (uint32_t)file->head.revision));
    }
    for (const trp_run_wish *wish = history->wishes; wish; wish = wish->next)
        if (wish->revision > file->head.revision)
            TROUPE_TRY(take_up(job, wish->member, (trp_json){wish->value, strlen(wish->value)},
                               (uint32_t)wish->revision));
    return TROUPE_OK;
}

troupe_status trp_job_live_open(trp_job *job, trp_run_file *file, trp_buffer *text)
{
    trp_live *live = &job->live;
    trp_json given;
    TROUPE_TRY(take_up_all(job, file));
    int64_t newest = job->opening.history.revision;
    if (file->head.revision > newest)
        newest = file->head.revision;
    live->revision = (uint32_t)newest; // Numbers are not used twice.
    TROUPE_TRY(trp_json_parse(job->config_json, strlen(job->config_json), &given));
    for (size_t i = 0; i < live->members.count; i++)
        if (live->wishes[i].value &&
            !is_unchanged(given, file->config, live->members.fields[i]->name))
            trp_wish_drop(&live->wishes[i]);
    trp_live_write(live, text);
    if (text->failed)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for run.json");
    file->modified = (trp_json){(const char *)text->data, text->size};
    file->head.revision = newest;
    return TROUPE_OK;
}

// ---- a wish

static troupe_status has_ended(const trp_job *job)
{
    return troupe_fail(TROUPE_STOPPED, "troupe_job_modify: the run %s has ended", job->path);
}

// What is wished: a packed value, or one in JSON.
typedef struct wished {
    const char *member;
    troupe_bytes packed;
    trp_json json;
    int64_t number; // At the train server; 0: it was not wished there.
} wished;

static troupe_status make(trp_job *job, const wished *what, size_t *which, trp_wish *made)
{
    trp_live *live = &job->live;
    TROUPE_TRY(trp_live_find(job->trainer, &live->members, what->member, which));
    return what->json.at != NULL ? trp_live_make_json(live, *which, what->json, made)
                                 : trp_live_make(live, *which, what->packed, made);
}

// With the lock.
static troupe_status wish(trp_job *job, const wished *what)
{
    trp_live *live = &job->live;
    trp_run_journal *journal = &job->opening.journal;
    size_t which;
    if (job->state == TROUPE_JOB_DONE || !trp_run_journal_is_open(journal) ||
        !trp_job_has_runtime(job))
        return has_ended(job);
    trp_wish made;
    trp_buffer text = {0};
    TROUPE_TRY(make(job, what, &which, &made));
    trp_live_write_value(live, which, made.value, &text);
    uint32_t revision = live->revision + 1;
    bool put_down = trp_run_journal_modify(journal, revision, what->member, &text, what->number);
    trp_buffer_free(&text);
    if (!put_down) {
        trp_wish_drop(&made);
        if (!trp_run_journal_is_open(journal))
            return has_ended(job);
        return troupe_fail(TROUPE_IO,
                           "troupe_job_modify: the journal of %s cannot be written, and the run "
                           "is as it was",
                           job->path);
    }
    trp_live_take(live, which, &made, revision);
    if (what->number > 0)
        job->opening.history.wish = what->number;
    order(job);
    return TROUPE_OK;
}

troupe_status trp_job_modify(trp_job *job, const char *member, troupe_bytes value)
{
    wished what = {.member = member, .packed = value};
    pthread_mutex_lock(&job->lock);
    troupe_status status = wish(job, &what);
    pthread_mutex_unlock(&job->lock);
    return status;
}

troupe_status trp_job_modify_json(trp_job *job, const char *member, const char *value,
                                  int64_t number)
{
    wished what = {.member = member, .number = number};
    TROUPE_TRY(trp_json_parse(value, strlen(value), &what.json));
    pthread_mutex_lock(&job->lock);
    troupe_status status = number <= job->opening.history.wish ? TROUPE_OK : wish(job, &what);
    pthread_mutex_unlock(&job->lock);
    return status;
}
