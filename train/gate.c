// gate.c: see gate.h.
#include <actors/sched/scheduler.h>
#include <errno.h>
#include <pthread.h>
#include <runtime/base/clock.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <runtime/base/thread.h>
#include <string.h>
#include <time.h>
#include <train/gate.h>
#include <train/handle.h>
#include <train/report_event.h>

enum { DEFAULT_TIMEOUT_MS = 1000 };

struct trp_gate {
    troupe_job *job;
    troupe_gate how;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool started, deciding, ended, over;
    int asked, answered; // Numbers of reports; 0: none.
    trp_arena arena;     // Of the copy of the report that is asked about.
    troupe_report_event event;
};

troupe_status trp_gate_make(troupe_job *job, const troupe_gate *given, trp_gate **made)
{
    troupe_gate how;
    *made = NULL;
    if (given == NULL)
        return TROUPE_OK;
    TROUPE_TRY(TRP_OPTIONS_TAKE("a gate", how, given));
    if (how.decide == NULL)
        return troupe_fail(TROUPE_INVALID, "option .gate has no .decide");
    if (how.first < 0 || how.every < 0)
        return troupe_fail(TROUPE_INVALID,
                           "option .gate names the reports %d and each %d later: expected numbers "
                           "from 1, or 0",
                           how.first, how.every);
    if (how.timeout_ms < 0)
        return troupe_fail(TROUPE_INVALID,
                           "option .gate has a .timeout_ms of %d: expected a positive number of "
                           "milliseconds",
                           how.timeout_ms);
    how.first = how.first > 0 ? how.first : 1;
    how.every = how.every > 0 ? how.every : 1;
    how.timeout_ms = how.timeout_ms > 0 ? how.timeout_ms : DEFAULT_TIMEOUT_MS;
    trp_gate *gate = trp_alloc(sizeof *gate);
    if (gate == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a gate");
    gate->job = job;
    gate->how = how;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&gate->lock, NULL);
    pthread_cond_init(&gate->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    *made = gate;
    return TROUPE_OK;
}

static void take_answer(trp_gate *gate, troupe_gate_answer answer, int ranks)
{
    if (answer == TROUPE_GATE_STOP)
        trp_handle_stop_next(gate->job);
    else if (answer == TROUPE_GATE_PAUSE)
        troupe_job_pause(gate->job);
    else if (answer == TROUPE_GATE_RESIZE && troupe_job_resize(gate->job, ranks) != TROUPE_OK)
        trp_log(TRP_WARN, "%s keeps its ranks: %s", gate->job->path, troupe_last_error()->text);
}

// With the lock, which is let go while the gate decides.
static void decide(trp_gate *gate)
{
    int number = gate->asked;
    gate->deciding = true;
    pthread_mutex_unlock(&gate->lock);
    troupe_job_status now;
    troupe_job_status_get(gate->job, &now);
    int ranks = now.ranks;
    // What is asked for is set before the coordinator hears of it, and so when the report is
    // answered.
    troupe_gate_answer answer = gate->how.decide(gate->how.user, gate->job, &gate->event, &ranks);
    take_answer(gate, answer, ranks);
    pthread_mutex_lock(&gate->lock);
    gate->deciding = false;
    gate->answered = number;
    pthread_cond_broadcast(&gate->changed);
}

static void *run(void *user)
{
    trp_gate *gate = user;
    troupe_job *job = gate->job;
    pthread_mutex_lock(&gate->lock);
    gate->thread = pthread_self();
    while (!gate->ended) {
        if (gate->answered != gate->asked)
            decide(gate);
        else
            pthread_cond_wait(&gate->changed, &gate->lock);
    }
    gate->over = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
    trp_handle_release(job);
    return NULL;
}

static bool start(trp_gate *gate)
{
    pthread_t thread;
    trp_handle_hold(gate->job);
    gate->started = trp_thread_start(&thread, "gate", run, gate) == TROUPE_OK;
    if (gate->started)
        pthread_detach(thread);
    else
        trp_handle_release(gate->job);
    return gate->started;
}

// The gate may still look at it when the report's own memory has gone.
static bool keep_event(trp_gate *gate, const troupe_report_event *event)
{
    trp_arena_clear(&gate->arena);
    void *room = trp_arena_alloc(&gate->arena, trp_report_event_size(event));
    if (room != NULL)
        gate->event = trp_report_event_copy(event, room);
    return room != NULL;
}

// With the lock.
static void await_answer(trp_gate *gate)
{
    int64_t until_ms = trp_clock_ms() + gate->how.timeout_ms;
    struct timespec until = {until_ms / 1000, until_ms % 1000 * 1000000};
    while (gate->answered != gate->asked)
        if (pthread_cond_timedwait(&gate->changed, &gate->lock, &until) == ETIMEDOUT)
            break;
    if (gate->answered != gate->asked)
        trp_log(TRP_WARN,
                "the gate of %s has not decided on report %d within %d ms: the run goes "
                "on",
                gate->job->path, gate->asked, gate->how.timeout_ms);
}

void trp_gate_reports(const trp_gate *gate, int *first, int *every)
{
    *first = gate != NULL ? gate->how.first : 0;
    *every = gate != NULL ? gate->how.every : 0;
}

bool trp_gate_names(int first, int every, int number)
{
    return first > 0 && number >= first && (number - first) % every == 0;
}

void trp_gate_ask(trp_gate *gate, const troupe_report_event *event)
{
    if (gate == NULL || !trp_gate_names(gate->how.first, gate->how.every, event->number))
        return;
    // Another thread runs the driver's actors meanwhile; where too many wait already, none does.
    bool blocked = trp_scheduler_block() == TROUPE_OK;
    pthread_mutex_lock(&gate->lock);
    // One that still decides on an earlier report, or has let go of its job, is not asked.
    if (!gate->ended && !gate->deciding && (gate->started || start(gate)) &&
        keep_event(gate, event)) {
        gate->asked = event->number;
        pthread_cond_broadcast(&gate->changed);
        await_answer(gate);
    }
    pthread_mutex_unlock(&gate->lock);
    if (blocked)
        trp_scheduler_unblock();
}

bool trp_gate_is_caller(trp_gate *gate)
{
    if (gate == NULL)
        return false;
    pthread_mutex_lock(&gate->lock);
    bool own = gate->deciding && pthread_equal(gate->thread, pthread_self());
    pthread_mutex_unlock(&gate->lock);
    return own;
}

void trp_gate_end(trp_gate *gate)
{
    if (gate == NULL)
        return;
    pthread_mutex_lock(&gate->lock);
    gate->ended = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

void trp_gate_await(trp_gate *gate)
{
    if (gate == NULL)
        return;
    pthread_mutex_lock(&gate->lock);
    while (gate->started && !gate->over)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

void trp_gate_free(trp_gate *gate)
{
    if (gate == NULL)
        return;
    trp_arena_clear(&gate->arena);
    pthread_cond_destroy(&gate->changed);
    pthread_mutex_destroy(&gate->lock);
    trp_free(gate);
}
