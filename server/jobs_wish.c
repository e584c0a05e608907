// jobs_wish.c: what is wished of a job: levels in its row, which count from the next turn on.
#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <server/jobs_internal.h>
#include <string.h>

enum { LIVE_MAX = 64 };

static troupe_status set_live(trp_row *row, const char *member, const char *value)
{
    trp_json json;
    if (member == NULL || member[0] == '\0' || value == NULL ||
        trp_json_parse(value, strlen(value), &json) != TROUPE_OK)
        return troupe_fail(TROUPE_INVALID, "a live value needs a member and a value in JSON");
    trp_row_live *live = NULL;
    for (int i = 0; i < row->live_count; i++)
        if (strcmp(row->live[i].member, member) == 0)
            live = &row->live[i];
    if (live == NULL && row->live_count >= LIVE_MAX)
        return troupe_fail(TROUPE_TOO_LARGE, "more than %d live values of a job", (int)LIVE_MAX);
    if (live == NULL) {
        size_t size = ((size_t)row->live_count + 1) * sizeof *live;
        trp_row_live *more = (trp_row_live *)trp_realloc(row->live, size);
        if (more == NULL)
            return troupe_fail(TROUPE_NO_MEMORY, "no memory for a live value");
        row->live = more;
        live = &more[row->live_count];
        *live = (trp_row_live){0};
        TROUPE_TRY(trp_row_set(&live->member, member));
        row->live_count++;
    }
    TROUPE_TRY(trp_row_set(&live->value, value));
    live->revision = row->revision + 1;
    return TROUPE_OK;
}

static void wish_kill(trp_jobs *jobs, trp_entry *job, int status)
{
    trp_row *row = &job->row;
    if (row->kill == 0) // The first word why it is killed counts.
        row->kill = status > TROUPE_OK && status < TROUPE_STATUS_COUNT ? status : TROUPE_CANCELLED;
    if (row->state == TRP_JOB_STARTING && !job->launching && job->kill_ms == 0) {
        job->kill_ms = jobs->now_ms + (job->connected ? TRP_KILL_MS : 0);
        trp_jobs_look_in(jobs, job, job->kill_ms - jobs->now_ms);
    }
}

static troupe_status wish_pause(trp_jobs *jobs, trp_entry *job)
{
    job->row.pause = true;
    if (job->row.state == TRP_JOB_QUEUED) {
        job->row.paused = true;
        trp_jobs_unqueue(jobs, job);
    }
    return TROUPE_OK;
}

static troupe_status wish_go_on(trp_jobs *jobs, trp_entry *job)
{
    trp_row *row = &job->row;
    if (row->paused) {
        trp_wire_need before = row->need;
        job->order_ms = trp_jobs_clock(jobs); // As one that is submitted now.
        if (row->more > 0)
            trp_jobs_need_ranks(row, row->more);
        troupe_status status = trp_jobs_queue(jobs, job);
        if (status != TROUPE_OK) {
            row->need = before;
            return status;
        }
        row->more = 0;
        if (row->kill == 0)
            TROUPE_TRY(trp_row_set(&row->why, NULL));
    }
    row->pause = row->paused = false;
    return TROUPE_OK;
}

static troupe_status wish_ranks(trp_jobs *jobs, trp_entry *job, int ranks)
{
    trp_row *row = &job->row;
    if (ranks < 1 || ranks > TRP_SCHEDULE_RANKS_MAX)
        return troupe_fail(TROUPE_INVALID, "%d ranks were asked for, expected 1 to %d", ranks,
                           (int)TRP_SCHEDULE_RANKS_MAX);
    bool granted = row->state == TRP_JOB_STARTING;
    bool more = granted && ranks > row->granted_ranks;
    // Fewer are given back once they are gone; more that was wished before is wished no more.
    if (job->ticket != NULL)
        TROUPE_TRY(trp_schedule_resize(jobs->schedule, job->ticket,
                                       granted && !more ? row->granted_ranks : ranks));
    row->more = more ? ranks : 0;
    if (more)
        return TROUPE_OK; // It goes on as it is, until it has a grant of them.
    trp_jobs_need_ranks(row, ranks);
    if (!row->grown) {
        row->ranks = ranks;
        row->resizes++;
    }
    return TROUPE_OK;
}

static troupe_status wish_priority(trp_jobs *jobs, trp_entry *job, int priority)
{
    if (job->row.state == TRP_JOB_STARTING)
        return troupe_fail(TROUPE_STOPPED, "job %" PRId64 " runs: priority is of jobs that wait",
                           job->row.id);
    if (priority < -TRP_SCHEDULE_PRIORITY_MAX || priority > TRP_SCHEDULE_PRIORITY_MAX)
        return troupe_fail(TROUPE_INVALID, "priority %d: expected %d to %d", priority,
                           -TRP_SCHEDULE_PRIORITY_MAX, (int)TRP_SCHEDULE_PRIORITY_MAX);
    job->row.need.priority = priority;
    if (job->ticket != NULL)
        trp_schedule_set_priority(jobs->schedule, job->ticket, priority);
    return TROUPE_OK;
}

static troupe_status follow(trp_jobs *jobs, trp_entry *job, const trp_wire_wish *wish)
{
    trp_row *row = &job->row;
    switch ((trp_wire_wish_kind)wish->wish) {
    case TRP_WISH_STOP:
        row->stop = true;
        return TROUPE_OK;
    case TRP_WISH_STOP_NEXT:
        row->stop_next = true;
        return TROUPE_OK;
    case TRP_WISH_PAUSE:
        return wish_pause(jobs, job);
    case TRP_WISH_GO_ON:
        return wish_go_on(jobs, job);
    case TRP_WISH_RANKS:
        return wish_ranks(jobs, job, wish->number);
    case TRP_WISH_KILL:
        if (row->kill == 0 && wish->text != NULL)
            TROUPE_TRY(trp_row_set(&row->why, wish->text));
        wish_kill(jobs, job, wish->number);
        return TROUPE_OK;
    case TRP_WISH_LIVE:
        return set_live(row, wish->member, wish->value);
    case TRP_WISH_PRIORITY:
        return wish_priority(jobs, job, wish->number);
    case TRP_WISH_FORGET:
        return troupe_fail(TROUPE_BUSY, "job %" PRId64 " has not ended, and keeps its key",
                           row->id);
    }
    return troupe_fail(TROUPE_INVALID, "a wish of kind %d: expected %d to %d", wish->wish,
                       TRP_WISH_STOP, TRP_WISH_FORGET);
}

static troupe_status of_ended(trp_jobs *jobs, trp_entry *job, const trp_wire_wish *wish)
{
    switch ((trp_wire_wish_kind)wish->wish) {
    case TRP_WISH_STOP:
    case TRP_WISH_STOP_NEXT:
    case TRP_WISH_KILL:
        return TROUPE_OK;
    case TRP_WISH_FORGET:
        trp_jobs_drop_key(jobs, job);
        TROUPE_TRY(trp_row_set(&job->row.key, NULL));
        trp_jobs_soil(jobs, job);
        return TROUPE_OK;
    default:
        return troupe_fail(TROUPE_STOPPED, "job %" PRId64 " has ended", job->row.id);
    }
}

troupe_status trp_jobs_wish(trp_jobs *jobs, const trp_wire_wish *wish, trp_entry **job)
{
    trp_entry *it;
    TROUPE_TRY(trp_jobs_find(jobs, &wish->of, &it));
    *job = it;
    if (it->row.state == TRP_JOB_ENDED)
        return of_ended(jobs, it, wish);
    TROUPE_TRY(follow(jobs, it, wish));
    it->row.revision++;
    trp_jobs_soil(jobs, it);
    if (it->row.state == TRP_JOB_QUEUED || it->launching)
        trp_jobs_look_in(jobs, it, 0); // It may end by that.
    return TROUPE_OK;
}
