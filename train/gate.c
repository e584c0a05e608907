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
#include <train/verdicts.h>

enum {
    DEFAULT_TIMEOUT_MS = 1000,
    QUESTIONS_MAX = 256, // That wait for a gate of a train server's job.
};

// A report that is asked about; what it points to lies behind it.
typedef struct question {
    struct question *next;
    troupe_report_event event;
} question;

struct trp_gate {
    troupe_job *job;
    troupe_gate how;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool started, deciding, ended, over;
    bool full;    // It was said that questions are left out.
    int answered; // Number of a report; 0: none.
    question *first, **last;
    int waiting;
    trp_verdicts known; // Of a train server's job; the thread's,
    trp_verdicts heard; // and with the lock.
    trp_gate_plan plan;
    int reports[TRP_GATE_REPORTS_MAX];
};

static troupe_status check_reports(const troupe_gate *how)
{
    if (how->report_count > TRP_GATE_REPORTS_MAX)
        return troupe_fail(TROUPE_INVALID, "option .gate names %zu reports: expected at most %d",
                           how->report_count, TRP_GATE_REPORTS_MAX);
    if (how->report_count > 0 && (how->reports == NULL || (how->every != 0 && how->first == 0)))
        return troupe_fail(TROUPE_INVALID, "option .gate has a .report_count: expected .reports, "
                                           "and .every only with a .first");
    for (size_t i = 0; i < how->report_count; i++)
        if (how->reports[i] <= (i > 0 ? how->reports[i - 1] : 0))
            return troupe_fail(TROUPE_INVALID,
                               "option .gate names report %d at place %zu of .reports: expected "
                               "numbers from 1 that rise",
                               how->reports[i], i);
    return TROUPE_OK;
}

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
    TROUPE_TRY(check_reports(&how));
    bool list = how.report_count > 0;
    how.first = how.first > 0 || list ? how.first : 1;
    how.every = how.every > 0 || how.first == 0 ? how.every : 1;
    how.timeout_ms = how.timeout_ms > 0 ? how.timeout_ms : DEFAULT_TIMEOUT_MS;
    trp_gate *gate = trp_alloc(sizeof *gate);
    if (gate == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a gate");
    gate->job = job;
    gate->how = how;
    gate->last = &gate->first;
    if (list)
        memcpy(gate->reports, how.reports, how.report_count * sizeof *how.reports);
    gate->plan = (trp_gate_plan){.first = how.first,
                                 .every = how.every,
                                 .reports = {gate->reports, how.report_count},
                                 .timeout_ms = how.timeout_ms};
    gate->known = trp_verdicts_begin();
    gate->heard = trp_verdicts_begin();
    pthread_mutex_init(&gate->lock, NULL);
    trp_cond_open(&gate->changed);
    *made = gate;
    return TROUPE_OK;
}

// ---- deciding

// What is asked for is set before the coordinator hears of it, and so when the report is answered.
static void take_answer(trp_gate *gate, troupe_gate_answer answer, int ranks)
{
    if (answer == TROUPE_GATE_STOP)
        trp_handle_stop_next(gate->job);
    else if (answer == TROUPE_GATE_PAUSE)
        troupe_job_pause(gate->job);
    else if (answer == TROUPE_GATE_RESIZE && troupe_job_resize(gate->job, ranks) != TROUPE_OK)
        trp_log(TRP_WARN, "%s keeps its ranks: %s", gate->job->path, troupe_last_error()->text);
}

// What was wished so far comes true before the report is answered; a stop holds by the answer
// alone, whether or not there is a server.
static void send_answer(trp_gate *gate, int report, troupe_gate_answer answer, int ranks)
{
    troupe_job *job = gate->job;
    bool stop = answer == TROUPE_GATE_STOP;
    if (!stop)
        take_answer(gate, answer, ranks);
    trp_verdict verdict = {.report = report,
                           .answer = answer,
                           .ranks = ranks,
                           .revision = stop ? 0 : trp_detached_revision(job)};
    if (trp_verdicts_add(job->detached->folder, &verdict) != TROUPE_OK)
        trp_log(TRP_WARN, "the answer of the gate of %s to report %d cannot be put down: %s",
                job->path, report, troupe_last_error()->text);
    if (stop)
        take_answer(gate, answer, ranks);
}

// Whether another client, or an earlier life of this one, has answered it.
static bool is_answered(trp_gate *gate, int report)
{
    if (gate->job->detached == NULL)
        return false;
    trp_verdicts_read(&gate->known, gate->job->detached->folder);
    return report <= gate->known.answered;
}

// Without the lock.
static void decide(trp_gate *gate, const troupe_report_event *event)
{
    troupe_job *job = gate->job;
    troupe_job_status now;
    if (is_answered(gate, event->number))
        return;
    troupe_job_status_get(job, &now);
    int ranks = now.ranks;
    troupe_gate_answer answer = gate->how.decide(gate->how.user, job, event, &ranks);
    if (answer < TROUPE_GATE_GO_ON || answer > TROUPE_GATE_RESIZE)
        answer = TROUPE_GATE_GO_ON;
    pthread_mutex_lock(&gate->lock);
    bool ended = gate->ended; // It has let go of its job, perhaps.
    pthread_mutex_unlock(&gate->lock);
    if (job->detached == NULL)
        take_answer(gate, answer, ranks);
    else if (!ended)
        send_answer(gate, event->number, answer, ranks);
}

// With the lock. There is one.
static question *take_first(trp_gate *gate)
{
    question *first = gate->first;
    trp_assert(first != NULL);
    gate->first = first->next;
    if (gate->first == NULL)
        gate->last = &gate->first;
    gate->waiting--;
    return first;
}

// With the lock, which is let go while the gate decides.
static void decide_first(trp_gate *gate)
{
    question *asked = take_first(gate);
    gate->deciding = true;
    pthread_mutex_unlock(&gate->lock);
    decide(gate, &asked->event);
    pthread_mutex_lock(&gate->lock);
    gate->deciding = false;
    gate->answered = asked->event.number;
    trp_free(asked);
    pthread_cond_broadcast(&gate->changed);
}

static void *run(void *user)
{
    trp_gate *gate = user;
    troupe_job *job = gate->job;
    pthread_mutex_lock(&gate->lock);
    gate->thread = pthread_self();
    while (!gate->ended) {
        if (gate->first != NULL)
            decide_first(gate);
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

// ---- asking

// With the lock. The gate may still look at the report when that's own memory has gone.
static bool put(trp_gate *gate, const troupe_report_event *event)
{
    if (gate->ended || !(gate->started || start(gate)))
        return false;
    question *made = trp_alloc(sizeof *made + trp_report_event_size(event));
    if (made == NULL)
        return false;
    *made = (question){.event = trp_report_event_copy(event, made + 1)};
    *gate->last = made;
    gate->last = &made->next;
    gate->waiting++;
    pthread_cond_broadcast(&gate->changed);
    return true;
}

// With the lock.
static void await_answer(trp_gate *gate, int number)
{
    int64_t until_ms = trp_clock_ms() + gate->how.timeout_ms;
    struct timespec until = {until_ms / 1000, until_ms % 1000 * 1000000};
    while (gate->answered != number)
        if (pthread_cond_timedwait(&gate->changed, &gate->lock, &until) == ETIMEDOUT)
            break;
    if (gate->answered != number)
        trp_log(TRP_WARN,
                "the gate of %s has not decided on report %d within %d ms: the run goes "
                "on",
                gate->job->path, number, gate->how.timeout_ms);
}

trp_gate_plan trp_gate_plan_of(const trp_gate *gate)
{
    return gate != NULL ? gate->plan : (trp_gate_plan){0};
}

bool trp_gate_names(const trp_gate_plan *plan, int number)
{
    for (size_t i = 0; i < plan->reports.count; i++)
        if (plan->reports.items[i] == number)
            return true;
    return plan->first > 0 && plan->every > 0 && number >= plan->first &&
           (number - plan->first) % plan->every == 0;
}

static bool names(const trp_gate *gate, int number)
{
    return gate != NULL && trp_gate_names(&gate->plan, number);
}

void trp_gate_ask(trp_gate *gate, const troupe_report_event *event)
{
    if (!names(gate, event->number))
        return;
    // Another thread runs the driver's actors meanwhile; where too many wait already, none does.
    bool blocked = trp_scheduler_block() == TROUPE_OK;
    pthread_mutex_lock(&gate->lock);
    // One that still decides on an earlier report, or has let go of its job, is not asked.
    if (!gate->deciding && gate->first == NULL && put(gate, event))
        await_answer(gate, event->number);
    pthread_mutex_unlock(&gate->lock);
    if (blocked)
        trp_scheduler_unblock();
}

// With the lock: it is not asked about that report.
static void leave_out(trp_gate *gate, int number)
{
    if (!gate->full)
        trp_log(TRP_WARN, "the gate of %s is behind, and not asked about report %d: it has %d more",
                gate->job->path, number, gate->waiting);
    gate->full = true;
}

// With the lock. Who comes to a job that has run is told of all its reports at once. Most are
// answered; of the others the run waits for the newest alone, so that the oldest gives way.
static void make_room(trp_gate *gate)
{
    trp_verdicts_read(&gate->heard, gate->job->detached->folder);
    while (gate->first != NULL && gate->first->event.number <= gate->heard.answered)
        trp_free(take_first(gate));
    if (gate->waiting < QUESTIONS_MAX)
        return;
    question *oldest = take_first(gate);
    leave_out(gate, oldest->event.number);
    trp_free(oldest);
}

void trp_gate_tell(trp_gate *gate, const troupe_report_event *event)
{
    if (!names(gate, event->number))
        return;
    pthread_mutex_lock(&gate->lock);
    if (gate->waiting >= QUESTIONS_MAX)
        make_room(gate);
    else if (gate->waiting == 0)
        gate->full = false;
    if (!put(gate, event) && !gate->ended)
        leave_out(gate, event->number);
    pthread_mutex_unlock(&gate->lock);
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
    for (question *at = gate->first, *next; at != NULL; at = next) {
        next = at->next;
        trp_free(at);
    }
    trp_verdicts_close(&gate->known);
    trp_verdicts_close(&gate->heard);
    pthread_cond_destroy(&gate->changed);
    pthread_mutex_destroy(&gate->lock);
    trp_free(gate);
}
