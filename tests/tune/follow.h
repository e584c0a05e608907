// follow.h: a scheduler that follows a list: at which report of which trial it says what, and which
// paused trials go on, in their order, where there is room; and records that sweeps go on from.
#ifndef FOLLOW_H
#define FOLLOW_H

#include "fake_train.h"

typedef struct step {
    int trial, report;
    troupe_act act;
    int source, ranks;
    double rate; // Of a clone.
} step;

typedef struct going_on {
    int trial;
    bool over;          // It is, rather.
    int after_trial;    // Not before that trial has come to that report, or ended (-1: at once),
    int after_report;   // and
    troupe_verdict how; // how it goes on.
} going_on;

typedef struct follower {
    troupe_scheduler base;
    const step *steps;
    size_t step_count;
    const going_on *goings;
    size_t going_count, gone;
    int reports[FAKE_JOBS_MAX];
    bool ended[FAKE_JOBS_MAX];
    int added, running;
} follower;

static int follow_ranks[FAKE_JOBS_MAX]; // Of each trial, at its last report.

static inline troupe_status follower_added(troupe_scheduler *scheduler, int trial, const double *x)
{
    follower *self = (follower *)scheduler;
    (void)x;
    assert_int_equal(trial, self->added++);
    return TROUPE_OK;
}

static inline troupe_status follower_decide(troupe_scheduler *scheduler,
                                            const troupe_progress *progress,
                                            troupe_verdict *verdict)
{
    follower *self = (follower *)scheduler;
    assert_true(progress->report > self->reports[progress->trial]);
    self->reports[progress->trial] = progress->report;
    follow_ranks[progress->trial] = progress->ranks;
    for (size_t i = 0; i < self->step_count; i++) {
        const step *it = &self->steps[i];
        if (it->trial != progress->trial || it->report != progress->report)
            continue;
        verdict->act = it->act;
        verdict->source = it->source;
        verdict->ranks = it->ranks;
        if (it->act == TROUPE_ACT_CLONE)
            verdict->x[0] = it->rate;
    }
    return TROUPE_OK;
}

static inline troupe_status follower_ended(troupe_scheduler *scheduler, int trial,
                                           troupe_ending ending)
{
    follower *self = (follower *)scheduler;
    (void)ending;
    self->ended[trial] = true;
    return TROUPE_OK;
}

static inline troupe_status follower_next(troupe_scheduler *scheduler, bool fresh, int *trial,
                                          troupe_verdict *verdict)
{
    follower *self = (follower *)scheduler;
    if (self->gone < self->going_count) {
        const going_on *it = &self->goings[self->gone];
        if (it->after_trial < 0 || self->ended[it->after_trial] ||
            self->reports[it->after_trial] >= it->after_report) {
            self->gone++;
            *trial = it->trial;
            if (it->how.act == TROUPE_ACT_CLONE)
                verdict->x[0] = 0.75;
            verdict->act = it->how.act;
            verdict->source = it->how.source;
            verdict->ranks = it->how.ranks;
            return it->over ? TROUPE_STOPPED : TROUPE_OK;
        }
    }
    *trial = -1;
    return fresh ? TROUPE_OK : self->gone < self->going_count ? TROUPE_BUSY : TROUPE_END;
}

static inline void follower_destroy(troupe_scheduler *scheduler)
{
    free(scheduler);
}

static inline troupe_scheduler *follow(const step *steps, size_t step_count, const going_on *goings,
                                       size_t going_count)
{
    follower *self = calloc(1, sizeof *self);
    *self = (follower){
        .steps = steps, .step_count = step_count, .goings = goings, .going_count = going_count};
    self->base.abi = TROUPE_ABI;
    self->base.describe = "a list";
    self->base.added = follower_added;
    self->base.decide = follower_decide;
    self->base.ended = follower_ended;
    self->base.next = follower_next;
    self->base.destroy = follower_destroy;
    return &self->base;
}
#define FOLLOW(steps, goings)                                                                      \
    follow((steps), sizeof(steps) / sizeof *(steps), (goings), sizeof(goings) / sizeof *(goings))

// Makes a sweep's folder of that name with this record. The folder that it lies in is the caller's.
static inline char *leave_record(const char *name, const char *text, size_t size)
{
    char *folder = support_directory_make(), *own = support_path(folder, name);
    char *path = support_path(own, "trials.jsonl");
    assert_int_equal(mkdir(own, 0700), 0);
    support_write_file(path, text, size);
    free(path);
    free(own);
    return folder;
}

#endif
