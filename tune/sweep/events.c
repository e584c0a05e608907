// events.c: a list under a mutex; the reader sleeps on a condition that counts monotonic time.
#include <tune/sweep/events.h>

#include <errno.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/thread.h>
#include <string.h>
#include <time.h>

void trp_events_open(trp_events *events)
{
    *events = (trp_events){.last = NULL};
    events->last = &events->first;
    pthread_mutex_init(&events->lock, NULL);
    trp_cond_open(&events->filled);
    pthread_cond_init(&events->dealt, NULL);
}

void trp_events_close(trp_events *events)
{
    while (events->first != NULL) {
        trp_event *event = events->first;
        events->first = event->next;
        trp_free(event);
    }
    pthread_cond_destroy(&events->dealt);
    pthread_cond_destroy(&events->filled);
    pthread_mutex_destroy(&events->lock);
}

// There is something for the reader. With the lock, which is given back.
static void announce(trp_events *events)
{
    void (*call)(void *) = events->rests ? events->call : NULL;
    void *user = events->user;
    events->rests = false;
    pthread_cond_signal(&events->filled);
    pthread_mutex_unlock(&events->lock);
    if (call != NULL)
        call(user);
}

static void push(trp_events *events, trp_event *event)
{
    pthread_mutex_lock(&events->lock);
    if (event == NULL) {
        events->lost = true;
    } else {
        *events->last = event;
        events->last = &event->next;
    }
    announce(events);
}

static const char *copy_text(char **at, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = memcpy(*at, text, size);
    *at += size;
    return copy;
}

trp_event *trp_events_make_report(int trial, int run, const troupe_report_event *report)
{
    size_t texts = report->checkpoint == NULL ? 0 : strlen(report->checkpoint) + 1;
    for (size_t i = 0; i < report->count; i++)
        texts += strlen(report->metrics[i].name) + 1;
    trp_event *event = trp_alloc(sizeof *event + report->count * sizeof(troupe_metric) + texts);
    if (event == NULL)
        return NULL;
    troupe_metric *metrics = (troupe_metric *)(event + 1);
    char *at = (char *)(metrics + report->count);
    event->trial = trial;
    event->run = run;
    event->is_report = true;
    event->report = *report;
    event->report.metrics = metrics;
    for (size_t i = 0; i < report->count; i++) {
        metrics[i].value = report->metrics[i].value;
        metrics[i].name = copy_text(&at, report->metrics[i].name);
    }
    if (report->checkpoint != NULL)
        event->report.checkpoint = copy_text(&at, report->checkpoint);
    return event;
}

void trp_events_push_report(trp_events *events, int trial, int run,
                            const troupe_report_event *report)
{
    push(events, trp_events_make_report(trial, run, report));
}

void trp_events_push_checkpoint(trp_events *events, int trial, int run,
                                const troupe_checkpoint_event *checkpoint)
{
    const troupe_report_event report = {.number = checkpoint->report,
                                        .elapsed_s = checkpoint->elapsed_s,
                                        .checkpoint = checkpoint->folder};
    trp_event *event = trp_events_make_report(trial, run, &report);
    if (event != NULL) {
        event->is_report = false;
        event->is_checkpoint = true;
    }
    push(events, event);
}

void trp_events_push_state(trp_events *events, int trial, int run, troupe_job_state state, int pid)
{
    trp_event *event = trp_alloc(sizeof *event);
    if (event != NULL) {
        event->trial = trial;
        event->run = run;
        event->state = state;
        event->pid = pid;
    }
    push(events, event);
}

void trp_events_wake(trp_events *events)
{
    pthread_mutex_lock(&events->lock);
    events->woken = true;
    announce(events);
}

void trp_events_call(trp_events *events, void (*call)(void *user), void *user)
{
    pthread_mutex_lock(&events->lock);
    events->call = call;
    events->user = user;
    pthread_mutex_unlock(&events->lock);
}

bool trp_events_rest(trp_events *events)
{
    pthread_mutex_lock(&events->lock);
    events->rests = events->first == NULL && !events->lost && !events->woken;
    bool rests = events->rests;
    pthread_mutex_unlock(&events->lock);
    return rests;
}

void trp_events_resume(trp_events *events)
{
    pthread_mutex_lock(&events->lock);
    events->rests = false;
    pthread_mutex_unlock(&events->lock);
}

// With the lock.
static trp_event *take_first(trp_events *events)
{
    trp_event *first = events->first;
    if (first == NULL)
        return NULL;
    events->first = first->next;
    if (events->first == NULL)
        events->last = &events->first;
    first->next = NULL;
    return first;
}

trp_event *trp_events_next(trp_events *events)
{
    pthread_mutex_lock(&events->lock);
    trp_event *next = events->lost || events->woken ? NULL : take_first(events);
    pthread_mutex_unlock(&events->lock);
    return next;
}

troupe_status trp_events_pop(trp_events *events, int64_t deadline_ns, trp_event **event)
{
    struct timespec deadline = {.tv_sec = deadline_ns / 1000000000,
                                .tv_nsec = deadline_ns % 1000000000};
    troupe_status status = TROUPE_OK;

    pthread_mutex_lock(&events->lock);
    while (events->first == NULL && !events->lost && !events->woken && status == TROUPE_OK) {
        int error = deadline_ns < 0
                        ? pthread_cond_wait(&events->filled, &events->lock)
                        : pthread_cond_timedwait(&events->filled, &events->lock, &deadline);
        if (error == ETIMEDOUT)
            status = TROUPE_TIMED_OUT;
    }
    if (events->lost) {
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for a report of a trial");
    } else if (events->first != NULL) {
        *event = take_first(events);
        status = TROUPE_OK;
    } else if (events->woken) {
        events->woken = false;
        status = TROUPE_BUSY;
    }
    pthread_mutex_unlock(&events->lock);
    return status;
}

void trp_events_deal(trp_events *events, trp_dealt *dealt, int report, troupe_act act, int ranks)
{
    pthread_mutex_lock(&events->lock);
    if (report >= dealt->report) {
        dealt->report = report;
        dealt->act = act;
        if (act == TROUPE_ACT_PAUSE || act == TROUPE_ACT_RESIZE) {
            dealt->asked = report;
            dealt->asks = act;
            dealt->ranks = ranks;
        }
    }
    pthread_cond_broadcast(&events->dealt);
    pthread_mutex_unlock(&events->lock);
}

void trp_events_end_from(trp_events *events, trp_dealt *dealt, int report)
{
    pthread_mutex_lock(&events->lock);
    dealt->ends_from = report;
    pthread_mutex_unlock(&events->lock);
}

void trp_events_let_go(trp_events *events, trp_dealt *dealt)
{
    pthread_mutex_lock(&events->lock);
    dealt->over = true;
    pthread_cond_broadcast(&events->dealt);
    pthread_mutex_unlock(&events->lock);
}

troupe_act trp_events_await_dealt(trp_events *events, trp_dealt *dealt, int report, int *ranks)
{
    pthread_mutex_lock(&events->lock);
    while (dealt->report < report && !dealt->over)
        pthread_cond_wait(&events->dealt, &events->lock);
    bool ends = report >= dealt->ends_from &&
                (dealt->act == TROUPE_ACT_STOP || dealt->act == TROUPE_ACT_END ||
                 dealt->act == TROUPE_ACT_CLONE);
    troupe_act act = ends ? dealt->act : dealt->asked == report ? dealt->asks : TROUPE_ACT_GO_ON;
    *ranks = act == TROUPE_ACT_RESIZE ? dealt->ranks : *ranks;
    dealt->told = dealt->asked == report ? report : dealt->told;
    pthread_mutex_unlock(&events->lock);
    return act;
}

bool trp_events_take_over(trp_events *events, trp_dealt *dealt, int report)
{
    pthread_mutex_lock(&events->lock);
    bool takes = dealt->asked == report && dealt->told != report;
    if (takes)
        dealt->asked = 0;
    pthread_mutex_unlock(&events->lock);
    return takes;
}
