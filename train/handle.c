// handle.c: the user's side of a job: the port that it is told through, and what is asked of it.
#include <actors/sched/scheduler.h>
#include <fcntl.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/require.h>
#include <runtime/base/thread.h>
#include <runtime/host/file.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <train/derived.h>
#include <train/handle.h>
#include <train/keys.h>
#include <unistd.h>

troupe_job *trp_handle_create(void)
{
    troupe_job *handle = (troupe_job *)trp_alloc(sizeof(*handle));
    if (!handle)
        return NULL;
    atomic_init(&handle->holds, 1);
    handle->handles = 1;
    handle->newest = handle->best = -1;
    handle->path = handle->folder = "";
    handle->incarnation = trp_process_incarnation();
    pthread_mutex_init(&handle->lock, NULL);
    trp_cond_open(&handle->changed);
    return handle;
}

void trp_handle_hold(troupe_job *handle)
{
    atomic_fetch_add(&handle->holds, 1);
}

void trp_handle_release(troupe_job *handle)
{
    if (atomic_fetch_sub(&handle->holds, 1) > 1)
        return;
    trp_memory_commit_release(handle->commit);
    trp_console_close(handle->console);
    troupe_result_free(&handle->result);
    trp_followers_free(&handle->followers);
    trp_gate_free(handle->gate);
    trp_arena_clear(&handle->arena);
    pthread_cond_destroy(&handle->changed);
    pthread_mutex_destroy(&handle->lock);
    trp_free(handle);
}

bool trp_handle_has_runtime(const troupe_job *handle)
{
    return trp_process_running() && trp_process_incarnation() == handle->incarnation;
}

trp_job *trp_handle_line(troupe_job *handle)
{
    pthread_mutex_lock(&handle->lock);
    trp_job *line = handle->line;
    if (line)
        trp_job_hold(line);
    pthread_mutex_unlock(&handle->lock);
    return line;
}

// ---- the port

static void take_accepted(void *user, const trp_accepted *what)
{
    troupe_job *handle = (troupe_job *)user;
    pthread_mutex_lock(&handle->lock);
    if (!handle->detached) { // Its path is known already, and read by others.
        const char *path_text = trp_arena_text(&handle->arena, what->path);
        const char *folder_text = trp_arena_text(&handle->arena, what->folder);
        handle->path = path_text ? path_text : "";
        handle->folder = folder_text ? folder_text : "";
    }
    handle->reports = what->reports;
    handle->restarts = what->restarts;
    handle->ranks = what->ranks;
    handle->elapsed_s = what->elapsed_s;
    trp_handle_show(handle, what);
    trp_followers_accepted(&handle->followers, what);
    pthread_mutex_unlock(&handle->lock);
}

static void take_progress(void *user, const trp_state_change *what, trp_lines lines)
{
    troupe_job *handle = (troupe_job *)user;
    pthread_mutex_lock(&handle->lock);
    if (handle->state != TROUPE_JOB_DONE) {
        handle->state = (troupe_job_state)what->state;
        handle->restarts = what->restarts;
        handle->ranks = what->ranks;
        handle->elapsed_s = what->elapsed_s;
        handle->since_s = what->goes_on ? trp_clock_s() : 0;
        trp_handle_show_state(handle);
        trp_followers_state(&handle->followers, handle->state, lines);
    }
    pthread_mutex_unlock(&handle->lock);
}

static void take_group(void *user, const trp_console_rank *ranks, int count)
{
    enum { PIDS = sizeof(((troupe_job *)0)->pids) / sizeof(int) };
    troupe_job *handle = (troupe_job *)user;
    pthread_mutex_lock(&handle->lock);
    for (int rank = 0; rank < PIDS; rank++)
        handle->pids[rank] = rank < count ? ranks[rank].pid : 0;
    pthread_mutex_unlock(&handle->lock);
    trp_handle_say_group(handle, ranks, count);
}

static void take_report(void *user, int number, double elapsed_s, const troupe_report_event *event,
                        trp_lines lines)
{
    troupe_job *handle = (troupe_job *)user;
    pthread_mutex_lock(&handle->lock);
    handle->reports = number;
    if (handle->state != TROUPE_JOB_DONE) {
        trp_console_report(handle->console, number, elapsed_s, event ? event->metrics : NULL,
                           event ? event->count : 0);
        if (event)
            trp_followers_report(&handle->followers, event, lines);
    }
    pthread_mutex_unlock(&handle->lock);
    if (handle->detached && event)
        trp_gate_tell(handle->gate, event);
}

static void take_checkpoint(void *user, const troupe_checkpoint_event *event, trp_lines lines)
{
    troupe_job *handle = (troupe_job *)user;
    pthread_mutex_lock(&handle->lock);
    if (handle->state != TROUPE_JOB_DONE)
        trp_followers_checkpoint(&handle->followers, event, lines);
    pthread_mutex_unlock(&handle->lock);
}

static void take_modified(void *user, const troupe_live_event *event, trp_lines lines)
{
    troupe_job *handle = (troupe_job *)user;
    pthread_mutex_lock(&handle->lock);
    if (handle->state != TROUPE_JOB_DONE)
        trp_followers_modified(&handle->followers, event, lines);
    pthread_mutex_unlock(&handle->lock);
}

static void take_checkpoints(void *user, int64_t newest, int64_t best)
{
    troupe_job *handle = (troupe_job *)user;
    pthread_mutex_lock(&handle->lock);
    handle->newest = newest;
    handle->best = best;
    pthread_mutex_unlock(&handle->lock);
}

static void take_commit(void *user, trp_memory_commit *commit)
{
    troupe_job *handle = (troupe_job *)user;
    trp_memory_commit *before, *next = trp_memory_commit_hold(commit);
    pthread_mutex_lock(&handle->lock);
    before = handle->commit;
    handle->commit = next;
    pthread_mutex_unlock(&handle->lock);
    trp_memory_commit_release(before);
}

static trp_log_sink give_logs(void *user)
{
    return trp_followers_sink((troupe_job *)user);
}

static void take_sentence(void *user, trp_level level, const char *text)
{
    trp_handle_say((troupe_job *)user, level, text);
}

static void take_question(void *user, const troupe_report_event *event, int timeout_ms)
{
    (void)timeout_ms; // The gate's own.
    trp_gate_ask(((troupe_job *)user)->gate, event);
}

static void give_wishes(void *user, trp_wishes *wishes)
{
    troupe_job *handle = (troupe_job *)user;
    pthread_mutex_lock(&handle->lock);
    *wishes = handle->wishes;
    pthread_mutex_unlock(&handle->lock);
}

static void take_end(void *user, const trp_outcome *outcome)
{
    troupe_job *handle = (troupe_job *)user;
    pthread_mutex_lock(&handle->lock);
    handle->result = outcome ? trp_result_of(outcome) : NULL;
    if (handle->result)
        handle->result->commit = trp_memory_commit_hold(handle->commit);
    handle->state = TROUPE_JOB_DONE;
    handle->since_s = 0;
    trp_handle_show_end(handle, outcome);
    pthread_cond_broadcast(&handle->changed);
    trp_followers_end(&handle->followers);
    trp_gate_end(handle->gate);
    pthread_mutex_unlock(&handle->lock);
}

static void be_let_go(void *user)
{
    trp_handle_release((troupe_job *)user);
}

const trp_port_class trp_handle_port = {
    .accepted = take_accepted,
    .progress = take_progress,
    .group = take_group,
    .report = take_report,
    .checkpoint = take_checkpoint,
    .modified = take_modified,
    .checkpoints = take_checkpoints,
    .committed = take_commit,
    .logs = give_logs,
    .say = take_sentence,
    .ask = take_question,
    .wishes = give_wishes,
    .done = take_end,
    .let_go = be_let_go,
};

// ---- what a user asks of a job

// Asks the train server for something; what it does not store is warned of.
static troupe_status tell_server(troupe_job *handle, trp_wire_wish_kind kind, int number,
                                 const char *text)
{
    troupe_job_status now;
    trp_wire_wish wish = {.wish = kind, .number = number, .text = text};
    (troupe_job_status_get)(handle, &now, sizeof now);
    return now.state == TROUPE_JOB_DONE ? TROUPE_OK : trp_detached_wish(handle, &wish);
}

// Has what the user wishes now come true.
static void tell_wishes(troupe_job *handle, trp_wire_wish_kind kind)
{
    if (handle->detached) {
        troupe_error kept;
        trp_wishes wishes;
        trp_error_hold(&kept);
        give_wishes(handle, &wishes);
        if (tell_server(handle, kind, wishes.kill, wishes.why) != TROUPE_OK)
            trp_log(TRP_WARN, "what is asked of the run %s is not stored yet: %s", handle->path,
                    troupe_last_error()->text);
        trp_error_restore(&kept);
        return;
    }
    trp_job *line = trp_handle_line(handle);
    if (!line)
        return;
    trp_job_look(line);
    trp_job_release(line);
}

// Waits for a change, at most until `until_ms` (negative: for ever); false: that has passed. With
// the lock.
static bool await_change(troupe_job *handle, int64_t until_ms)
{
    enum { SLICE_MS = 100 }; // After which it looks whether the runtime is still there.
    int64_t now = trp_clock_ms();
    if (until_ms >= 0 && now >= until_ms)
        return false;
    int64_t wake_ms = until_ms >= 0 && until_ms < now + SLICE_MS ? until_ms : now + SLICE_MS;
    struct timespec wake = {wake_ms / 1000, wake_ms % 1000 * 1000000};
    (void)pthread_cond_timedwait(&handle->changed, &handle->lock, &wake);
    if (handle->state == TROUPE_JOB_DONE || !handle->line)
        return true;
    trp_job *line = handle->line;
    trp_job_hold(line);
    pthread_mutex_unlock(&handle->lock);
    trp_job_make_good(line);
    if (!trp_handle_has_runtime(handle))
        trp_job_cancel(line);
    trp_job_release(line);
    pthread_mutex_lock(&handle->lock);
    return true;
}

// Waits until the job is DONE. True: it is.
static bool await_done(troupe_job *handle, int timeout_ms)
{
    int64_t until_ms = timeout_ms < 0 ? -1 : trp_clock_ms() + timeout_ms;
    pthread_mutex_lock(&handle->lock);
    while (handle->state != TROUPE_JOB_DONE && await_change(handle, until_ms))
        ;
    bool done = handle->state == TROUPE_JOB_DONE;
    pthread_mutex_unlock(&handle->lock);
    return done;
}

troupe_status troupe_job_wait(troupe_job *job, int timeout_ms, troupe_result **result)
{
    TRP_REQUIRE(job);
    TRP_REQUIRE(result);
    if (timeout_ms < 0 && trp_gate_is_caller(job->gate))
        return troupe_fail(TROUPE_INVALID, "the gate of %s waits for the run that waits for it",
                           job->path);
    bool done = await_done(job, 0);
    if (!done) { // Where this is a method, another thread runs the process's actors meanwhile.
        TROUPE_TRY(trp_scheduler_block());
        done = await_done(job, timeout_ms);
        trp_scheduler_unblock();
    }
    if (!done)
        return troupe_fail(TROUPE_TIMED_OUT, "the run %s has not ended yet", job->path);
    trp_console_await(job->console);
    if (!job->result) // Set before the state was DONE, and never changed after.
        return troupe_fail(TROUPE_NO_MEMORY, "there was no memory for the result of %s", job->path);
    atomic_fetch_add(&job->result->holds, 1);
    *result = job->result;
    return TROUPE_OK;
}

void(troupe_job_status_get)(troupe_job *job, troupe_job_status *status, size_t size)
{
    if (TRP_IS_NULL(status))
        return;
    memset(status, 0, size);
    if (TRP_IS_NULL(job))
        return;
    pthread_mutex_lock(&job->lock);
    troupe_job_status now = {
        .state = job->state,
        .reports = job->reports,
        .restarts = job->restarts,
        .ranks = job->ranks,
        .elapsed_s = job->elapsed_s,
        .pid = job->pids[0],
    };
    if (job->result)
        now.elapsed_s = job->result->elapsed_s;
    else if (job->since_s > 0)
        now.elapsed_s += trp_clock_s() - job->since_s;
    if (job->state != TROUPE_JOB_DONE)
        memcpy(now.pids, job->pids, sizeof(now.pids));
    pthread_mutex_unlock(&job->lock);
    trp_output_give(status, size, &now, sizeof now);
}

troupe_status troupe_job_committed_as(const troupe_type *type, troupe_job *job, int rank,
                                      void *value)
{
    TRP_REQUIRE(type);
    TRP_REQUIRE(job);
    TRP_REQUIRE(value);
    pthread_mutex_lock(&job->lock);
    trp_memory_commit *commit = trp_memory_commit_hold(job->commit);
    pthread_mutex_unlock(&job->lock);
    troupe_status status = trp_memory_commit_read(commit, job->path, rank, type, value);
    trp_memory_commit_release(commit);
    return status;
}

const char *troupe_job_path(const troupe_job *job)
{
    if (TRP_IS_NULL(job))
        return "";
    return job->path;
}

void troupe_job_stop(troupe_job *job)
{
    if (TRP_IS_NULL(job))
        return;
    pthread_mutex_lock(&job->lock);
    job->wishes.stop = true;
    pthread_mutex_unlock(&job->lock);
    tell_wishes(job, TRP_WISH_STOP);
}

void trp_handle_stop_next(troupe_job *handle)
{
    pthread_mutex_lock(&handle->lock);
    handle->wishes.stop = handle->wishes.stop_next = true;
    pthread_mutex_unlock(&handle->lock);
    tell_wishes(handle, TRP_WISH_STOP_NEXT);
}

void troupe_job_kill(troupe_job *job, troupe_status status, const char *why)
{
    if (TRP_IS_NULL(job))
        return;
    pthread_mutex_lock(&job->lock);
    if (job->wishes.kill == TROUPE_OK) {
        snprintf(job->why, sizeof job->why, "%s", why == NULL ? "" : why);
        job->wishes.kill = (int)(status == TROUPE_OK ? TROUPE_CANCELLED : status);
        job->wishes.why = job->why;
    }
    job->wishes.stop = true;
    pthread_mutex_unlock(&job->lock);
    tell_wishes(job, TRP_WISH_KILL);
}

static void set_pause(troupe_job *job, bool pause)
{
    if (TRP_IS_NULL(job))
        return;
    pthread_mutex_lock(&job->lock);
    job->wishes.pause = pause;
    pthread_mutex_unlock(&job->lock);
    tell_wishes(job, pause ? TRP_WISH_PAUSE : TRP_WISH_GO_ON);
}

void troupe_job_pause(troupe_job *job)
{
    set_pause(job, true);
}

void troupe_job_go_on(troupe_job *job)
{
    set_pause(job, false);
}

// Also by what was committed in memory.
static troupe_status check_ranks(troupe_job *job, trp_job *line, int ranks)
{
    TROUPE_TRY(trp_job_check_ranks(line, ranks));
    pthread_mutex_lock(&job->lock);
    trp_memory_commit *commit = trp_memory_commit_hold(job->commit);
    pthread_mutex_unlock(&job->lock);
    troupe_status status =
        commit ? trp_memory_commit_world(commit, line->trainer, ranks) : TROUPE_OK;
    trp_memory_commit_release(commit);
    return status;
}

troupe_status troupe_job_resize(troupe_job *job, int ranks)
{
    TRP_REQUIRE(job);
    if (job->detached)
        return tell_server(job, TRP_WISH_RANKS, ranks, NULL);
    trp_job *line = trp_handle_line(job);
    troupe_status status = line ? check_ranks(job, line, ranks) : TROUPE_OK;
    if (line)
        trp_job_release(line);
    TROUPE_TRY(status);
    pthread_mutex_lock(&job->lock);
    job->wishes.ranks = ranks;
    job->wishes.resizes++;
    pthread_mutex_unlock(&job->lock);
    tell_wishes(job, TRP_WISH_RANKS);
    return TROUPE_OK;
}

// No handle is open any more: neither side keeps the other.
static void let_go(troupe_job *handle)
{
    if (handle->detached) {
        trp_detached_drop(handle);
        trp_handle_release(handle);
        return;
    }
    pthread_mutex_lock(&handle->lock);
    trp_job *line = handle->line;
    handle->line = NULL;
    pthread_mutex_unlock(&handle->lock);
    if (line)
        trp_job_release(line);
    trp_handle_release(handle);
}

// Ends the follower and the gate of a handle whose job goes on. Neither of them waits for the
// other.
static void end_followers(troupe_job *handle)
{
    bool follows = trp_followers_is_caller(&handle->followers);
    bool decides = trp_gate_is_caller(handle->gate);
    trp_followers_abandon(&handle->followers);
    pthread_mutex_lock(&handle->lock);
    trp_followers_end(&handle->followers);
    pthread_mutex_unlock(&handle->lock);
    trp_gate_end(handle->gate);
    if (follows || decides)
        return;
    trp_followers_await(&handle->followers);
    trp_gate_await(handle->gate);
}

troupe_status troupe_job_leave(troupe_job **job)
{
    TRP_REQUIRE(job);
    TRP_REQUIRE(*job);
    troupe_job *left = *job;
    if (!left->detached || left->detached->child)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "troupe_job_leave: the run %s is one of this program, and ends with it: "
                           "expected a job of a train server (.server)",
                           left->path);
    *job = NULL;
    end_followers(left);
    let_go(left);
    return TROUPE_OK;
}

int64_t troupe_job_number(const troupe_job *job)
{
    if (TRP_IS_NULL(job) || !job->detached)
        return 0;
    return job->detached->job;
}

// Gives the job up from inside its own follower, which is not called again.
static bool close_in_own_call(troupe_job *handle)
{
    bool own = trp_followers_is_caller(&handle->followers) || trp_gate_is_caller(handle->gate);
    if (own) {
        trp_followers_abandon(&handle->followers);
        trp_gate_end(handle->gate);
        if (handle->detached && handle->detached->child) {
            end_followers(handle);
            trp_child_leave(handle->detached->child);
            trp_handle_release(handle);
            return true;
        }
        troupe_job_stop(handle);
        if (handle->detached)
            end_followers(handle);
        let_go(handle);
    }
    return own;
}

// The files that are made of the run's journal are waited for, but not for long: who has closed the
// job may remove the run's folder.
static void await_files(troupe_job *job)
{
    trp_job *line = trp_handle_line(job);
    if (line == NULL)
        return;
    trp_derived_await(line->derived);
    trp_job_release(line);
}

void troupe_job_close(troupe_job **held)
{
    enum { GRACE_MS = 2000, ANSWER_MS = 30000 };
    if (!held || !*held)
        return;
    troupe_job *job = *held;
    *held = NULL;
    if (!trp_keys_close(job)) // Others have it still.
        return;
    if (job->detached && !trp_detached_give_up(job)) {
        end_followers(job);
        let_go(job);
        return;
    }
    if (close_in_own_call(job))
        return;
    // Another thread runs the process's actors meanwhile. Where too many wait already, this one
    // waits all the same, since a job cannot be left half closed.
    bool blocked = trp_scheduler_block() == TROUPE_OK;
    troupe_job_stop(job);
    if (!await_done(job, GRACE_MS)) {
        troupe_job_kill(job, TROUPE_CANCELLED, "the job was closed while it ran");
        if (!await_done(job, job->detached ? ANSWER_MS : -1)) {
            trp_log(TRP_WARN, "the run %s may go on: the train server does not end it", job->path);
            end_followers(job);
        }
    }
    trp_followers_await(&job->followers);
    trp_gate_await(job->gate);
    trp_console_await(job->console);
    await_files(job);
    if (blocked)
        trp_scheduler_unblock();
    let_go(job);
}
