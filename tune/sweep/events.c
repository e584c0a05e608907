// events.c: a list under a mutex; the reader sleeps on a condition that counts monotonic time.
#include <tune/sweep/events.h>

#include <actors/sched/scheduler.h>
#include <errno.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <string.h>
#include <time.h>

void trp_events_open(trp_events *events)
{
    pthread_condattr_t attributes;
    *events = (trp_events){.last = NULL};
    events->last = &events->first;
    pthread_mutex_init(&events->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&events->filled, &attributes);
    pthread_cond_init(&events->dealt, NULL);
    pthread_condattr_destroy(&attributes);
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

static void push(trp_events *events, trp_event *event)
{
    pthread_mutex_lock(&events->lock);
    if (event == NULL) {
        events->lost = true;
    } else {
        *events->last = event;
        events->last = &event->next;
    }
    pthread_cond_signal(&events->filled);
    pthread_mutex_unlock(&events->lock);
}

static const char *copy_text(char **at, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = memcpy(*at, text, size);
    *at += size;
    return copy;
}

static trp_event *make_report(int trial, const troupe_report_event *report)
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

void trp_events_push_report(trp_events *events, int trial, const troupe_report_event *report)
{
    push(events, make_report(trial, report));
}

void trp_events_push_checkpoint(trp_events *events, int trial,
                                const troupe_checkpoint_event *checkpoint)
{
    const troupe_report_event report = {.number = checkpoint->report,
                                        .elapsed_s = checkpoint->elapsed_s,
                                        .checkpoint = checkpoint->folder};
    trp_event *event = make_report(trial, &report);
    if (event != NULL) {
        event->is_report = false;
        event->is_checkpoint = true;
    }
    push(events, event);
}

void trp_events_push_state(trp_events *events, int trial, troupe_job_state state, int pid)
{
    trp_event *event = trp_alloc(sizeof *event);
    if (event != NULL) {
        event->trial = trial;
        event->state = state;
        event->pid = pid;
    }
    push(events, event);
}

troupe_status trp_events_pop(trp_events *events, int64_t deadline_ns, trp_event **event)
{
    struct timespec deadline = {.tv_sec = deadline_ns / 1000000000,
                                .tv_nsec = deadline_ns % 1000000000};
    troupe_status status = TROUPE_OK;

    // Where this is a method, another thread runs the process's actors meanwhile.
    TROUPE_TRY(trp_scheduler_block());
    pthread_mutex_lock(&events->lock);
    while (events->first == NULL && !events->lost && status == TROUPE_OK) {
        int error = deadline_ns < 0
                        ? pthread_cond_wait(&events->filled, &events->lock)
                        : pthread_cond_timedwait(&events->filled, &events->lock, &deadline);
        if (error == ETIMEDOUT)
            status = TROUPE_TIMED_OUT;
    }
    trp_scheduler_unblock();
    if (events->lost) {
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for a report of a trial");
    } else if (events->first != NULL) {
        trp_event *first = events->first;
        events->first = first->next;
        if (events->first == NULL)
            events->last = &events->first;
        first->next = NULL;
        *event = first;
        status = TROUPE_OK;
    }
    pthread_mutex_unlock(&events->lock);
    return status;
}

void trp_events_deal(trp_events *events, trp_dealt *dealt, int report, bool stop)
{
    pthread_mutex_lock(&events->lock);
    dealt->report = report;
    dealt->stop = stop;
    pthread_cond_broadcast(&events->dealt);
    pthread_mutex_unlock(&events->lock);
}

void trp_events_let_go(trp_events *events, trp_dealt *dealt)
{
    pthread_mutex_lock(&events->lock);
    dealt->over = true;
    pthread_cond_broadcast(&events->dealt);
    pthread_mutex_unlock(&events->lock);
}

bool trp_events_await_dealt(trp_events *events, const trp_dealt *dealt, int report)
{
    pthread_mutex_lock(&events->lock);
    while (dealt->report < report && !dealt->over)
        pthread_cond_wait(&events->dealt, &events->lock);
    bool stop = dealt->stop;
    pthread_mutex_unlock(&events->lock);
    return stop;
}
