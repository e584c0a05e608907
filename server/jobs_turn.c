// jobs_turn.c: the end of a turn of the server: which attempts are over and what follows, grants,
// one transaction of all that has changed, and then what it allows: starts, and telling.
#include <inttypes.h>
#include <math.h>
#include <runtime/base/error.h>
#include <runtime/base/fault.h>
#include <runtime/base/memory.h>
#include <runtime/node/limits.h>
#include <server/jobs_internal.h>
#include <server/say.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <train/job_end.h>
#include <train/tree.h>

// ---- when to look

void trp_jobs_look_in(trp_jobs *jobs, trp_entry *job, int64_t ms)
{
    int64_t at = jobs->now_ms + ms;
    if (job->due_ms == 0 || at < job->due_ms)
        job->due_ms = at;
    if (job->due_ms < jobs->next_due_ms)
        jobs->next_due_ms = job->due_ms;
}

// Again, and each time later.
static void look_later(trp_jobs *jobs, trp_entry *job)
{
    int step = job->look_step_ms > 0 ? 2 * job->look_step_ms : TRP_LOOK_FIRST_MS;
    job->look_step_ms = step < TRP_LOOK_LAST_MS ? step : TRP_LOOK_LAST_MS;
    trp_jobs_look_in(jobs, job, job->look_step_ms);
}

int64_t trp_jobs_due(trp_jobs *jobs, double *unix_s)
{
    int64_t clock = trp_jobs_clock(jobs), at = trp_schedule_due(jobs->schedule, clock);
    *unix_s = at != TRP_NEVER ? (double)at / 1000 : 0;
    int64_t due = jobs->next_due_ms;
    if (at != TRP_NEVER && at - clock < INT64_MAX - jobs->now_ms && jobs->now_ms + at - clock < due)
        due = jobs->now_ms + at - clock;
    if (jobs->retry_ms != 0 && jobs->retry_ms < due)
        due = jobs->retry_ms;
    if (jobs->wipe_ms != 0 && jobs->wipe_ms < due)
        due = jobs->wipe_ms;
    return due;
}

// ---- waiting, and ending

void trp_jobs_unqueue(trp_jobs *jobs, trp_entry *job)
{
    if (job->ticket != NULL)
        trp_schedule_remove(jobs->schedule, job->ticket);
    job->ticket = NULL;
}

troupe_status trp_jobs_queue(trp_jobs *jobs, trp_entry *job)
{
    trp_request request;
    TROUPE_TRY(trp_jobs_request(jobs, &job->row, &request));
    request.again = true;
    // The machine may have less than when it was taken on: it waits then, and says so.
    request.beyond = true;
    if (job->row.attempt > 0)
        request.start_ms = 0; // It has had its time.
    return trp_schedule_submit(jobs->schedule, &request, job->order_ms, &job->ticket);
}

// Of all restarts that a runner says, those that were no lost attempts. Whether they are news.
static bool take_restarts(trp_row *row, int all)
{
    bool more = all - row->counted > row->restarts;
    if (more)
        row->restarts = all - row->counted;
    return more;
}

void trp_jobs_take_end(trp_jobs *jobs, trp_entry *job, const trp_job_end *end)
{
    trp_row *row = &job->row;
    if (row->state != TRP_JOB_ENDED) {
        jobs->under_way--;
        jobs->ended++;
    }
    row->state = TRP_JOB_ENDED;
    row->paused = false;
    row->status = end->status;
    row->stopped = end->stopped;
    row->reports = end->reports;
    row->ended_at = end->ended_at > 0 ? end->ended_at : jobs->unix_s;
    take_restarts(row, end->restarts);
    if (trp_row_set(&row->error, end->error) != TROUPE_OK)
        trp_say("no memory for why job %" PRId64 " has failed", row->id);
    trp_jobs_unqueue(jobs, job);
    trp_jobs_drop_run(jobs, job);
    job->launching = job->connected = false;
    job->process = 0;
    job->due_ms = job->kill_ms = 0;
    trp_jobs_soil(jobs, job);
}

bool trp_jobs_take_found_end(trp_jobs *jobs, trp_entry *job)
{
    trp_arena arena = {0};
    trp_job_end end = {0};
    troupe_status status = trp_job_end_read(job->folder, &arena, &end);
    if (status != TROUPE_OK && status != TROUPE_NOT_FOUND)
        end = (trp_job_end){.status = (int)status, .error = troupe_last_error()->text};
    if (status != TROUPE_NOT_FOUND)
        trp_jobs_take_end(jobs, job, &end);
    trp_arena_clear(&arena);
    return status != TROUPE_NOT_FOUND;
}

// Ends a job for which no process does it. What a full disk refuses is tried again.
static void end(trp_jobs *jobs, trp_entry *job, int status, bool stopped, const char *error)
{
    trp_job_end end = {.version = 1,
                       .attempt = job->row.attempt,
                       .status = status,
                       .error = error,
                       .stopped = stopped,
                       .reports = job->reports,
                       .restarts = job->row.counted + job->row.restarts,
                       .ended_at = jobs->unix_s};
    TRP_FAULT("before end");
    troupe_status done = trp_fence_end(job->folder, &end);
    TRP_FAULT("after end");
    if (done == TROUPE_OK) {
        trp_jobs_take_end(jobs, job, &end);
        return;
    }
    if (done == TROUPE_EXISTS && trp_jobs_take_found_end(jobs, job))
        return;
    trp_say("job %" PRId64 " cannot be ended yet: %s", job->row.id, troupe_last_error()->text);
    trp_jobs_look_in(jobs, job, TRP_RETRY_MS);
}

// ---- attempts

// The GPUs of a grant: their names, and for each rank a mask.
static troupe_status set_gpus(trp_row *row, const trp_ticket *ticket)
{
    size_t size = (size_t)ticket->ranks * sizeof *ticket->gpus;
    uint64_t all = 0;
    trp_buffer ids = {0};
    void *masks = trp_alloc(size);
    if (masks == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a grant");
    memcpy(masks, ticket->gpus, size);
    trp_free((void *)row->devices.data);
    row->devices = (troupe_bytes){masks, size};
    for (int i = 0; i < ticket->ranks; i++)
        all |= ticket->gpus[i];
    for (int i = 0; i < TRP_GPUS_MAX; i++) {
        char id[TRP_GPU_ID_MAX];
        if ((all >> i & 1) == 0)
            continue;
        trp_gpu_id(i, id);
        trp_buffer_printf(&ids, "%s%s", ids.size > 0 ? "," : "", id);
    }
    bool any = ids.size > 0;
    trp_buffer_append(&ids, "", 1);
    troupe_status status = ids.failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a grant")
                                      : trp_row_set(&row->gpu_ids, any ? (char *)ids.data : NULL);
    trp_buffer_free(&ids);
    return status;
}

troupe_status trp_jobs_take_grant(trp_jobs *jobs, trp_entry *job)
{
    trp_row *row = &job->row;
    const trp_ticket *ticket = job->ticket;
    row->granted_ranks = ticket->ranks;
    row->cpus = (double)ticket->amounts.of[TRP_CPUS] / TRP_CPU;
    row->gpus = (double)ticket->amounts.of[TRP_GPUS] / TRP_CPU;
    trp_jobs_note(jobs, job);
    return set_gpus(row, ticket);
}

// The next attempt, with what the ticket has. It is started once that is in the books.
static troupe_status begin_attempt(trp_jobs *jobs, trp_entry *job)
{
    trp_row *row = &job->row;
    TROUPE_TRY(trp_jobs_take_grant(jobs, job));
    row->state = TRP_JOB_STARTING;
    row->attempt++;
    row->granted_at = jobs->unix_s;
    row->greeted = row->grown = false;
    if (row->ranks > 0)
        row->ranks = row->granted_ranks; // What was wished before has been seen to.
    if (row->more <= row->granted_ranks)
        row->more = 0;
    else if (trp_schedule_resize(jobs->schedule, job->ticket, row->more) != TROUPE_OK)
        trp_say("job %" PRId64 " has no more ranks: %s", row->id, troupe_last_error()->text);
    job->state = TRP_JOB_STARTING;
    job->ranks = job->reports = 0;
    job->echo = 0;
    job->own = job->connected = false;
    job->process = 0;
    job->due_ms = job->kill_ms = 0;
    job->look_step_ms = job->launch_step_ms = 0;
    job->launching = true;
    TROUPE_TRY(trp_row_set(&row->boot_id, jobs->boot_id));
    return trp_row_set(&job->refused, NULL);
}

// Has no grant any more.
static void be_queued(trp_jobs *jobs, trp_entry *job)
{
    trp_row *row = &job->row;
    trp_jobs_unqueue(jobs, job);
    row->state = TRP_JOB_QUEUED;
    row->greeted = row->grown = false;
    job->connected = job->launching = false;
    job->process = 0;
    job->due_ms = job->kill_ms = 0;
    job->look_step_ms = job->launch_step_ms = 0;
    job->order_ms = trp_jobs_clock(jobs);
    trp_jobs_soil(jobs, job);
    row->paused = row->pause;
}

static void wait_again(trp_jobs *jobs, trp_entry *job)
{
    trp_row *row = &job->row;
    be_queued(jobs, job);
    if (!row->paused && trp_jobs_queue(jobs, job) != TROUPE_OK) {
        trp_say("job %" PRId64 " cannot be queued again yet: %s", row->id,
                troupe_last_error()->text);
        trp_jobs_look_in(jobs, job, TRP_RETRY_MS);
    }
}

// The attempt has left for one of more ranks, whose grant is there. Where fewer are wished by now,
// the others go back.
static void go_on_grown(trp_jobs *jobs, trp_entry *job)
{
    trp_row *row = &job->row;
    int most = row->more > 0 ? row->more : row->need.ranks;
    troupe_status status = TROUPE_OK;
    if (most < row->granted_ranks)
        status = trp_schedule_resize(jobs->schedule, job->ticket, most);
    if (status == TROUPE_OK)
        status = begin_attempt(jobs, job);
    if (status == TROUPE_OK) {
        trp_jobs_need_ranks(row, row->granted_ranks);
        trp_jobs_soil(jobs, job);
        return;
    }
    trp_say("job %" PRId64 " is queued again: %s", row->id, troupe_last_error()->text);
    wait_again(jobs, job);
}

static void say_cause(const trp_entry *job, char *text, size_t capacity)
{
    int status = job->exit_status;
    if (!job->own)
        snprintf(text, capacity, "its process has died");
    else if (WIFSIGNALED(status))
        snprintf(text, capacity, "its process was ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(text, capacity, "its process ended with status %d%s", WEXITSTATUS(status),
                 job->row.greeted ? "" : " before it came to troupe_start");
}

// An attempt could not begin, and a later one may: its run is busy, a disk is full.
static void try_later(trp_jobs *jobs, trp_entry *job, const char *why)
{
    int step = job->again_step_ms > 0 ? 2 * job->again_step_ms : 1000;
    job->again_step_ms = step < TRP_LAUNCH_LAST_MS ? step : TRP_LAUNCH_LAST_MS;
    trp_say("job %" PRId64 ", attempt %d: %s, as %s/log says; the next one is in %d s", job->row.id,
            job->row.attempt, why, job->folder, job->again_step_ms / 1000);
    be_queued(jobs, job);
    if (!job->row.paused)
        trp_jobs_look_in(jobs, job, job->again_step_ms);
}

// An attempt is lost: another one follows, or not.
static void lose(trp_jobs *jobs, trp_entry *job, bool asked)
{
    trp_row *row = &job->row;
    char cause[160], error[512];
    bool booted = row->boot_id != NULL && strcmp(row->boot_id, jobs->boot_id) != 0;
    bool failed = job->own && !(WIFEXITED(job->exit_status) && WEXITSTATUS(job->exit_status) == 0);
    bool began = row->greeted || failed;
    bool killed = job->own && WIFSIGNALED(job->exit_status);
    asked = asked || (killed && WTERMSIG(job->exit_status) == SIGTERM);
    bool grows = row->grown && !row->pause;
    bool leaves = grows && row->greeted && !killed;
    bool paused = row->pause || asked || leaves || (job->state == TRP_JOB_PAUSED && row->greeted);
    bool left =
        row->need.restarts == TROUPE_FOREVER || row->counted + row->restarts < row->need.restarts;
    if (job->own && !row->greeted && WIFEXITED(job->exit_status) &&
        WEXITSTATUS(job->exit_status) == TRP_JOB_NO_END) {
        try_later(jobs, job, "it cannot begin now");
        return;
    }
    if (asked && !row->pause && !booted && !row->greeted) { // Each time later, if that goes on.
        try_later(jobs, job, "it was asked to end before it began");
        return;
    }
    say_cause(job, cause, sizeof cause);
    if (!paused && !booted && (began ? !left : row->uncounted + 1 >= TRP_UNCOUNTED_MAX)) {
        snprintf(error, sizeof error, "%s, and %s; its output is in %s/log", cause,
                 began ? "no restarts are left" : "so did those of the attempts before",
                 job->folder);
        end(jobs, job, TROUPE_PEER_LOST, false, error);
        return;
    }
    if (!paused && !booted && began)
        row->counted++;
    row->uncounted = began ? 0 : row->uncounted + 1;
    trp_say("job %" PRId64 ", attempt %d: %s", row->id, row->attempt,
            leaves       ? "it goes on with more ranks"
            : row->pause ? "it is paused"
            : paused     ? "it has left its run, which goes on"
                         : cause);
    if (grows)
        go_on_grown(jobs, job);
    else
        wait_again(jobs, job);
}

// Whether the job ends by what is wished, without a process.
static bool ends_by_wish(trp_jobs *jobs, trp_entry *job)
{
    const trp_row *row = &job->row;
    if (row->kill != 0)
        end(jobs, job, row->kill, false, row->why);
    else if (row->stop || row->stop_next)
        end(jobs, job, TROUPE_OK, true, NULL);
    else
        return false;
    return true;
}

// ---- an attempt under way

// A runner ends by itself when its time is over. One that does not is ended: what is planned counts
// with that.
static void end_overdue(trp_jobs *jobs, trp_entry *job)
{
    trp_row *row = &job->row;
    const trp_wire_need *need = &row->need;
    if (need->time_limit_s <= 0 || row->kill != 0)
        return;
    double limit_s = need->time_limit_s - row->elapsed_s;
    double left_s = row->granted_at + (limit_s > 0 ? limit_s : 0) + need->time_limit_grace_s +
                    TRP_OVERDUE_S - jobs->unix_s;
    if (left_s > 0) {
        trp_jobs_look_in(jobs, job, (int64_t)(fmin(left_s, 86400) * 1000) + 1);
        return;
    }
    char why[128];
    snprintf(why, sizeof why, "it has not ended after its time limit of %g s", need->time_limit_s);
    if (trp_row_set(&row->why, why) != TROUPE_OK)
        trp_say("no memory for why job %" PRId64 " is ended", row->id);
    row->kill = TROUPE_DEADLINE_EXCEEDED;
    row->revision++;
    job->kill_ms = jobs->now_ms;
    trp_jobs_soil(jobs, job);
}

// Nobody has the lock. A launcher may still be on its way to it: so nobody is let run first, and if
// that comes too late, it is the run.
static void finish(trp_jobs *jobs, trp_entry *job, bool asked)
{
    if (trp_jobs_take_found_end(jobs, job))
        return;
    TRP_FAULT("before over");
    troupe_status status = trp_fence_set(job->folder, 0);
    if (status == TROUPE_BUSY) {
        trp_jobs_look_in(jobs, job, TRP_LOOK_FIRST_MS);
    } else if (status != TROUPE_OK) {
        trp_say("job %" PRId64 ": %s", job->row.id, troupe_last_error()->text);
        trp_jobs_look_in(jobs, job, TRP_RETRY_MS);
    } else if (!trp_jobs_take_found_end(jobs, job) && !ends_by_wish(jobs, job)) {
        lose(jobs, job, asked);
    }
}

static void look(trp_jobs *jobs, trp_entry *job)
{
    trp_fence found;
    if (trp_fence_look(job->folder, &found) != TROUPE_OK) {
        trp_say("job %" PRId64 ": %s", job->row.id, troupe_last_error()->text);
        trp_jobs_look_in(jobs, job, TRP_RETRY_MS);
        return;
    }
    bool lives = found.runner != 0 || found.keeper != 0 || job->process != 0;
    if (!lives) {
        finish(jobs, job, found.left);
        return;
    }
    end_overdue(jobs, job);
    if (job->kill_ms != 0 && jobs->now_ms >= job->kill_ms) {
        jobs->acts.kill(jobs->acts.user, job, found.runner == 0 && job->process == 0);
        job->kill_ms = jobs->now_ms + TRP_KILL_MS;
    }
    if (job->kill_ms != 0)
        trp_jobs_look_in(jobs, job, job->kill_ms - jobs->now_ms);
    if (job->process == 0 && found.runner > 0 &&
        jobs->acts.watch(jobs->acts.user, job, found.runner)) {
        job->process = found.runner;
        job->own = false;
    }
    if (job->process == 0)
        look_later(jobs, job);
}

static void make_order(trp_jobs *jobs, const trp_entry *job, trp_wire_order *order)
{
    const trp_row *row = &job->row;
    int left = row->need.restarts - row->counted - row->restarts;
    *order = (trp_wire_order){
        .job = row->id,
        .attempt = row->attempt,
        .submission = row->submission,
        .run = row->run,
        .need = row->need,
        .ranks = row->granted_ranks,
        .cpus = row->cpus,
        .gpus = row->gpus,
        .gpu_ids = jobs->machine.total.of[TRP_GPUS] > 0 && row->gpu_ids == NULL ? "" : row->gpu_ids,
        .memory_bytes = (uint64_t)job->ticket->amounts.of[TRP_MEMORY],
        .elapsed_s = row->elapsed_s,
        .restarts_left = row->need.restarts == TROUPE_FOREVER ? TROUPE_FOREVER
                         : left > 0                           ? left
                                                              : 0,
        .restarts_before = row->counted + row->restarts};
}

// What the grant has of resources that have names only, as "license=2".
static const char *named_amounts(trp_jobs *jobs, const trp_entry *job, trp_buffer *text)
{
    for (int i = TRP_CUSTOM; i < jobs->machine.count; i++)
        if (job->ticket->amounts.of[i] > 0)
            trp_buffer_printf(text, "%s%s=%g", text->size > 0 ? "," : "", jobs->machine.names[i],
                              (double)job->ticket->amounts.of[i] / TRP_CPU);
    if (text->size == 0)
        return NULL;
    trp_buffer_append(text, "", 1);
    return (const char *)text->data;
}

// Of each rank in turn: the runner's node would deal them out in its own way.
static troupe_status name_rank_gpus(const trp_row *row, trp_arena *arena, const char **names)
{
    const uint64_t *masks = (const uint64_t *)(const void *)row->devices.data;
    size_t ranks = row->devices.size / sizeof *masks;
    trp_buffer text = {0};
    for (size_t rank = 0; rank < ranks; rank++)
        for (int i = 0; i < TRP_GPUS_MAX; i++) {
            char id[TRP_GPU_ID_MAX];
            if ((masks[rank] >> i & 1) == 0)
                continue;
            trp_gpu_id(i, id);
            trp_buffer_printf(&text, "%s%s", text.size > 0 ? "," : "", id);
        }
    char *copy = text.size > 0 ? trp_arena_alloc(arena, text.size + 1) : NULL;
    if (copy != NULL) {
        memcpy(copy, text.data, text.size);
        copy[text.size] = '\0';
    }
    *names = copy;
    bool failed = text.failed || (text.size > 0 && copy == NULL);
    trp_buffer_free(&text);
    return failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a grant") : TROUPE_OK;
}

static troupe_status launch(trp_jobs *jobs, trp_entry *job, trp_arena *arena, trp_buffer *text)
{
    trp_wire_launch how;
    trp_wire_order order;
    make_order(jobs, job, &order);
    order.resources = named_amounts(jobs, job, text);
    TROUPE_TRY(name_rank_gpus(&job->row, arena, &order.rank_gpus));
    troupe_status status = trp_jobs_read_launch(job, arena, &how);
    if (status == TROUPE_NOT_FOUND || status == TROUPE_CORRUPT)
        return troupe_fail(TROUPE_INVALID, "%s", troupe_last_error()->text);
    TROUPE_TRY(status);
    TROUPE_TRY(trp_jobs_wishes(job, arena, &order.wishes));
    TRP_FAULT("before fence");
    TROUPE_TRY(trp_jobs_write_grant(job));
    TROUPE_TRY(trp_fence_set(job->folder, job->row.attempt));
    TRP_FAULT("before launch");
    pid_t process = 0;
    TROUPE_TRY(jobs->acts.launch(jobs->acts.user, job, &how, &order, &process));
    TRP_FAULT("after launch");
    job->process = process;
    job->own = true;
    job->exit_status = 0;
    job->launching = false;
    return TROUPE_OK;
}

static void start(trp_jobs *jobs, trp_entry *job)
{
    trp_arena arena = {0};
    trp_buffer text = {0};
    troupe_status status = launch(jobs, job, &arena, &text);
    trp_arena_clear(&arena);
    trp_buffer_free(&text);
    if (status == TROUPE_OK) {
        job->launch_step_ms = 0;
        end_overdue(jobs, job);
    } else if (status == TROUPE_INVALID) {
        end(jobs, job, status, false, troupe_last_error()->text);
    } else {
        int step = job->launch_step_ms > 0 ? 2 * job->launch_step_ms : 1000;
        job->launch_step_ms = step < TRP_LAUNCH_LAST_MS ? step : TRP_LAUNCH_LAST_MS;
        char why[700];
        (void)snprintf(why, sizeof why, "it cannot be started now, and will be tried again: %s",
                       troupe_last_error()->text);
        trp_say("job %" PRId64 ": %s", job->row.id, why);
        (void)trp_row_set(&job->unlaunched, why);
        trp_jobs_look_in(jobs, job, job->launch_step_ms);
    }
    trp_jobs_touch(jobs, job);
}

static void attend(trp_jobs *jobs, trp_entry *job)
{
    job->due_ms = 0;
    if (job->row.state == TRP_JOB_ENDED)
        return;
    if (job->row.state == TRP_JOB_QUEUED) {
        if (!ends_by_wish(jobs, job) && !job->row.paused && job->ticket == NULL)
            wait_again(jobs, job);
    } else if (!job->launching) {
        look(jobs, job);
    } else if (job->dirty) {
        trp_jobs_look_in(jobs, job, TRP_RETRY_MS); // Its grant is not in the books.
    } else if (!ends_by_wish(jobs, job)) {
        start(jobs, job);
    }
}

static void attend_due(trp_jobs *jobs)
{
    if (jobs->next_due_ms > jobs->now_ms)
        return;
    jobs->next_due_ms = INT64_MAX;
    for (trp_entry *at = jobs->all, *next; at != NULL; at = next) {
        next = (trp_entry *)at->hh.next;
        if (at->due_ms != 0 && at->due_ms <= jobs->now_ms)
            attend(jobs, at);
        if (at->due_ms != 0 && at->due_ms < jobs->next_due_ms)
            jobs->next_due_ms = at->due_ms;
    }
}

// ---- grants

static troupe_status grant(trp_jobs *jobs, const trp_ticket *ticket, int before)
{
    trp_entry *job;
    trp_wire_job_name name = {.job = (int64_t)ticket->request.id};
    TROUPE_TRY(trp_jobs_find(jobs, &name, &job));
    trp_row *row = &job->row;
    if (before == 0)
        return begin_attempt(jobs, job);
    if (job->launching) { // It has them from its start.
        trp_jobs_need_ranks(row, ticket->ranks);
        if (row->ranks > 0) // It is not to give any back, as was wished before.
            row->ranks = ticket->ranks;
        row->more = 0;
    } else {
        row->grown = true;
    }
    row->revision++;
    return trp_jobs_take_grant(jobs, job);
}

static troupe_status grant_all(trp_jobs *jobs)
{
    trp_ticket *ticket;
    int before;
    while ((ticket = trp_schedule_next(jobs->schedule, trp_jobs_clock(jobs), &before)) != NULL)
        TROUPE_TRY(grant(jobs, ticket, before));
    return TROUPE_OK;
}

// ---- storing

// The folders of new jobs whose papers are not kept last, before the books name them.
static troupe_status sync_folders(trp_jobs *jobs)
{
    trp_path path;
    bool any = false;
    for (trp_entry *at = jobs->changed; at != NULL && !any; at = at->next_changed)
        any = at->fresh && at->papers == NULL;
    if (!any)
        return TROUPE_OK;
    TROUPE_TRY(trp_path_make(&path, "%s/jobs", jobs->folder.text));
    return trp_folder_sync(path.text);
}

static troupe_status put(trp_jobs *jobs, const trp_entry *job)
{
    TROUPE_TRY(trp_books_put(jobs->books, &job->row));
    if (job->papers != NULL)
        TROUPE_TRY(trp_books_keep_papers(jobs->books, job->row.id, job->papers, jobs->boot_id));
    return job->row.state == TRP_JOB_ENDED ? trp_books_drop_launch(jobs->books, job->row.id)
                                           : TROUPE_OK;
}

static troupe_status write_all(trp_jobs *jobs, bool settle)
{
    TROUPE_TRY(sync_folders(jobs));
    TROUPE_TRY(trp_books_begin(jobs->books, jobs->lasts || settle));
    // A key that was given up may be another one's in the same turn.
    for (int fresh = 0; fresh <= 1; fresh++)
        for (trp_entry *at = jobs->changed; at != NULL; at = at->next_changed)
            if (at->dirty && at->fresh == (fresh != 0))
                TROUPE_TRY(put(jobs, at));
    if (settle)
        TROUPE_TRY(trp_books_settle(jobs->books));
    return trp_books_commit(jobs->books);
}

static void set_clean(trp_jobs *jobs)
{
    jobs->any_dirty = jobs->lasts = false;
    jobs->retry_ms = 0;
    for (trp_entry *at = jobs->changed; at != NULL; at = at->next_changed) {
        at->dirty = at->fresh = false;
        trp_free(at->papers);
        at->papers = NULL;
        if (at->launching && at->launch_step_ms == 0)
            trp_jobs_look_in(jobs, at, 0);
        if (at->row.state == TRP_JOB_ENDED && jobs->wipe_ms == 0)
            jobs->wipe_ms = jobs->now_ms + TRP_WIPE_MS;
    }
}

// What was not taken on yet is refused: gives whether there was any.
static bool refuse_fresh(trp_jobs *jobs)
{
    bool any = false;
    (void)trp_row_set(&jobs->refusal, troupe_last_error()->text);
    for (trp_entry *at = jobs->changed, *next; at != NULL; at = next) {
        next = at->next_changed;
        if (!at->fresh)
            continue;
        if (trp_folder_discard(at->folder) != TROUPE_OK)
            trp_say("%s", troupe_last_error()->text);
        trp_jobs_drop(jobs, at);
        any = true;
    }
    return any;
}

troupe_status trp_jobs_store(trp_jobs *jobs, bool settle)
{
    if (!jobs->any_dirty && !settle)
        return TROUPE_OK;
    for (;;) {
        troupe_status status = write_all(jobs, settle);
        if (status == TROUPE_OK) {
            set_clean(jobs);
            return TROUPE_OK;
        }
        trp_books_undo(jobs->books);
        if (status != TROUPE_NO_SPACE || settle)
            return status;
        if (!refuse_fresh(jobs)) {
            jobs->retry_ms = jobs->now_ms + TRP_RETRY_MS;
            return status;
        }
    }
}

// ---- the turn

static void tell(trp_jobs *jobs)
{
    trp_entry *kept = NULL;
    while (jobs->changed != NULL) {
        trp_entry *job = jobs->changed;
        jobs->changed = job->next_changed;
        if (job->dirty) { // It is told once it is stored.
            job->next_changed = kept;
            kept = job;
            continue;
        }
        job->changed = false;
        if (job->row.state == TRP_JOB_ENDED)
            trp_jobs_forget_launch(job);
        if (jobs->acts.changed != NULL)
            jobs->acts.changed(jobs->acts.user, job);
    }
    jobs->changed = kept;
}

static void keep_history_short(trp_jobs *jobs)
{
    trp_buffer said = {0};
    trp_wire_gc bounds = {.keep = TRP_JOBS_KEPT};
    if (jobs->ended > TRP_JOBS_KEPT + TRP_JOBS_KEPT / 16 && jobs->retry_ms == 0 &&
        trp_jobs_gc(jobs, &bounds, &said) != TROUPE_OK)
        trp_say("%s", troupe_last_error()->text);
    trp_buffer_free(&said);
}

// The launch records of what has ended were deleted, and are still in the log of the database.
static troupe_status wipe(trp_jobs *jobs)
{
    if (jobs->wipe_ms == 0 || jobs->now_ms < jobs->wipe_ms)
        return TROUPE_OK;
    troupe_status status = trp_books_wipe(jobs->books);
    jobs->wipe_ms = status == TROUPE_NO_SPACE ? jobs->now_ms + TRP_RETRY_MS : 0;
    return status == TROUPE_NO_SPACE ? TROUPE_OK : status;
}

troupe_status trp_jobs_turn(trp_jobs *jobs)
{
    troupe_status status;
    trp_free(jobs->refusal);
    jobs->refusal = NULL;
    do {
        attend_due(jobs);
        TROUPE_TRY(grant_all(jobs));
        status = trp_jobs_store(jobs, false);
        if (status != TROUPE_OK && status != TROUPE_NO_SPACE)
            return status;
    } while (status == TROUPE_OK && jobs->next_due_ms <= jobs->now_ms);
    tell(jobs);
    keep_history_short(jobs);
    TROUPE_TRY(wipe(jobs));
    return status;
}

// ---- what comes from outside

troupe_status trp_jobs_greet(trp_jobs *jobs, const trp_wire_runner *runner, pid_t process,
                             trp_entry **job)
{
    trp_entry *it;
    trp_fence found;
    TROUPE_TRY(trp_jobs_find(jobs, &(trp_wire_job_name){.job = runner->job}, &it));
    trp_row *row = &it->row;
    if (runner->submission != NULL && strcmp(runner->submission, row->submission) != 0)
        return troupe_fail(TROUPE_NOT_FOUND, "job %" PRId64 " is of another submission", row->id);
    if (row->state != TRP_JOB_STARTING || runner->attempt != row->attempt)
        return troupe_fail(TROUPE_STOPPED, "attempt %d of job %" PRId64 " is not to run any more",
                           runner->attempt, row->id);
    TROUPE_TRY(trp_fence_look(it->folder, &found));
    if (found.runner == 0)
        return troupe_fail(TROUPE_NOT_FOUND, "process %d, which ran job %" PRId64 ", has ended",
                           (int)process, row->id);
    if (found.runner != process)
        return troupe_fail(TROUPE_STOPPED,
                           "process %d says that it runs job %" PRId64
                           ", whose lock process %d has",
                           (int)process, row->id, (int)found.runner);
    it->connected = true;
    it->state = TRP_JOB_RUNNING;
    row->uncounted = 0;
    it->again_step_ms = 0;
    if (it->process != process && jobs->acts.watch(jobs->acts.user, it, process)) {
        it->process = process;
        it->own = false;
    }
    if (row->kill != 0) {
        it->kill_ms = jobs->now_ms + TRP_KILL_MS;
        trp_jobs_look_in(jobs, it, TRP_KILL_MS);
    }
    if (!row->greeted)
        trp_jobs_note(jobs, it);
    row->greeted = true;
    trp_jobs_touch(jobs, it);
    *job = it;
    return TROUPE_OK;
}

// Gives back the ranks from `ranks` on, whose processes are not there.
static bool give_back(trp_jobs *jobs, trp_entry *job, int ranks)
{
    troupe_status status = trp_schedule_resize(jobs->schedule, job->ticket, ranks);
    if (status == TROUPE_OK)
        status = trp_jobs_take_grant(jobs, job);
    if (status == TROUPE_OK)
        status = trp_jobs_write_grant(job);
    if (status != TROUPE_OK)
        trp_say("job %" PRId64 ": %s", job->row.id, troupe_last_error()->text);
    return job->row.granted_ranks == ranks;
}

void trp_jobs_progress(trp_jobs *jobs, trp_entry *job, const trp_wire_progress *progress)
{
    trp_row *row = &job->row;
    if (!job->connected || row->state != TRP_JOB_STARTING || job->ticket == NULL)
        return; // Of an attempt that is over.
    bool known = progress->state >= TRP_JOB_STARTING && progress->state <= TRP_JOB_PAUSED;
    job->state = known ? progress->state : TRP_JOB_RUNNING;
    job->reports = progress->reports;
    job->echo = progress->echo;
    // Fewer ranks than it was granted: the others are gone.
    if (!row->grown && progress->ranks > 0 && progress->ranks < row->granted_ranks &&
        row->ranks > 0 && progress->ranks <= row->ranks && progress->echo >= row->revision)
        give_back(jobs, job, progress->ranks);
    // More than its run can have: it goes on with those that it has.
    if (row->grown && progress->not_more && progress->ranks > 0 &&
        progress->ranks < row->granted_ranks && progress->echo >= row->revision &&
        give_back(jobs, job, progress->ranks)) {
        row->grown = false;
        row->more = 0;
    }
    job->ranks = progress->ranks;
    if (take_restarts(row, progress->restarts))
        trp_jobs_soil(jobs, job);
    if (trp_row_set(&job->refused, progress->refused) != TROUPE_OK)
        trp_say("no memory for what a runner says");
    trp_jobs_touch(jobs, job);
}

void trp_jobs_lost_touch(trp_jobs *jobs, trp_entry *job)
{
    job->connected = false;
    trp_jobs_touch(jobs, job);
    if (job->row.state == TRP_JOB_STARTING)
        trp_jobs_look_in(jobs, job, 0);
}

void trp_jobs_exited(trp_jobs *jobs, trp_entry *job, int status)
{
    // Where neither a number nor a status was known, the runner may go on.
    bool ended = job->process > 0 || (job->process < 0 && status >= 0);
    if (job->row.state == TRP_JOB_STARTING && ended)
        job->row.elapsed_s += fmax(0, jobs->unix_s - job->row.granted_at);
    job->process = 0;
    job->own = status >= 0;
    job->exit_status = status;
    job->look_step_ms = 0;
    if (job->row.state == TRP_JOB_STARTING)
        trp_jobs_look_in(jobs, job, 0);
}
