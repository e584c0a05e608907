// record_events.h: a follower that writes down what it is told, but for times and folders: what two
// followers of the same run have to have alike.
#ifndef RECORD_EVENTS_H
#define RECORD_EVENTS_H

#include "support.h"

#include <pthread.h>
#include <runtime/base/buffer.h>
#include <stdatomic.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

enum { EVENTS_RANKS = 4 };

typedef struct events {
    trp_buffer told;               // Reports, states, checkpoints and live values;
    trp_buffer commits;            // checkpoints here instead, with `apart`:
    bool apart;                    // of another run, they come earlier or later.
    trp_buffer logs[EVENTS_RANKS]; // What each rank has printed.
    atomic_int reports, lives, done;
    int sleeps_us; // At each report.
} events;

static const char *events_last_part(const char *path)
{
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    return slash != NULL ? slash + 1 : "none";
}

static void events_metrics(trp_buffer *out, const troupe_metric *metrics, size_t count)
{
    for (size_t i = 0; i < count; i++)
        trp_buffer_printf(out, " %s=%a", metrics[i].name, metrics[i].value);
}

static void events_report(void *user, troupe_job *job, const troupe_report_event *event)
{
    events *is = user;
    (void)job;
    trp_buffer_printf(&is->told, "report %d '%s' %s", event->number, event->source,
                      events_last_part(event->checkpoint));
    events_metrics(&is->told, event->metrics, event->count);
    for (size_t rank = 0; rank < event->rank_count; rank++) {
        trp_buffer_printf(&is->told, " |");
        events_metrics(&is->told, event->ranks[rank].metrics, event->ranks[rank].count);
    }
    trp_buffer_printf(&is->told, "\n");
    atomic_store(&is->reports, event->number);
    if (is->sleeps_us > 0)
        usleep((useconds_t)is->sleeps_us);
}

static void events_state(void *user, troupe_job *job, troupe_job_state state)
{
    events *is = user;
    (void)job;
    trp_buffer_printf(&is->told, "state %d\n", (int)state);
    if (state == TROUPE_JOB_DONE)
        atomic_store(&is->done, 1);
}

static void events_checkpoint(void *user, troupe_job *job, const troupe_checkpoint_event *event)
{
    events *is = user;
    (void)job;
    trp_buffer *out = is->apart ? &is->commits : &is->told;
    trp_buffer_printf(out, "checkpoint %lld of %d at %s", (long long)event->number, event->report,
                      events_last_part(event->folder));
    events_metrics(out, event->metrics, event->count);
    trp_buffer_printf(out, "\n");
}

static void events_modified(void *user, troupe_job *job, const troupe_live_event *event)
{
    events *is = user;
    (void)job;
    trp_buffer_printf(&is->told, "live %lld after %d\n", (long long)event->revision, event->report);
    atomic_fetch_add(&is->lives, 1);
}

static void events_log(void *user, troupe_job *job, const troupe_log_event *event)
{
    events *is = user;
    (void)job;
    if (event->rank < EVENTS_RANKS)
        trp_buffer_printf(&is->logs[event->rank], "%d: %s (%llu)\n", event->attempt, event->text,
                          (unsigned long long)event->lost);
}

static inline troupe_follower events_follower(events *is)
{
    return (troupe_follower){.size = sizeof(troupe_follower),
                             .report = events_report,
                             .state = events_state,
                             .checkpoint = events_checkpoint,
                             .modified = events_modified,
                             .log = events_log,
                             .user = is};
}

static inline void events_free(events *is)
{
    trp_buffer_free(&is->told);
    trp_buffer_free(&is->commits);
    for (int i = 0; i < EVENTS_RANKS; i++)
        trp_buffer_free(&is->logs[i]);
}

static inline const char *events_text(trp_buffer *text)
{
    trp_buffer_append(text, "", 1);
    text->size--;
    return (const char *)text->data;
}

static inline void events_compare_texts(trp_buffer *one, trp_buffer *other)
{
    const char *a = events_text(one), *b = events_text(other), *line = a;
    for (size_t i = 0; a[i] != '\0' && a[i] == b[i]; i++)
        line = a[i] == '\n' ? a + i + 1 : line;
    if (strcmp(a, b) != 0) { // cmocka would cut it.
        print_message("one was told:\n%.600s\nand the other:\n%.600s\n", line, b + (line - a));
        fail_msg("two followers were not told the same");
    }
}

// Fails unless both were told the same.
static inline void events_compare(events *one, events *other)
{
    events_compare_texts(&one->told, &other->told);
    events_compare_texts(&one->commits, &other->commits);
    for (int i = 0; i < EVENTS_RANKS; i++)
        events_compare_texts(&one->logs[i], &other->logs[i]);
}

#endif
