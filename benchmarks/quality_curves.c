// quality_curves.c: see quality_curves.h.
#include "quality_curves.h"

#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <troupe.h>

typedef struct trial {
    bool runs;
    int epoch;
    double at, last; // When it reports next, and what it reported last.
} trial;

typedef struct sweep {
    const tune_curves *of;
    troupe_scheduler *scheduler;
    trial *trials;
    int count, running, left;
    double now;
} sweep;

static void begin_epoch(sweep *s, int number)
{
    s->trials[number].runs = true;
    s->trials[number].at = s->now + tune_curves_pace(s->of, number);
}

static void end(sweep *s, int number, troupe_ending ending)
{
    if (s->scheduler->ended != NULL)
        troupe_must(s->scheduler->ended(s->scheduler, number, ending));
}

// Gives free workers something to do, as long as there is something.
static void fill(sweep *s)
{
    double x[1] = {0};
    while (s->running < TUNE_CURVE_WORKERS) {
        int number = -1;
        bool fresh = s->count < tune_curves_trials(s->of);
        troupe_verdict verdict = {.size = sizeof verdict, .x = x, .source = -1};
        troupe_status status = fresh ? TROUPE_OK : TROUPE_END;
        if (s->scheduler->next != NULL)
            status = s->scheduler->next(s->scheduler, fresh, &number, &verdict);
        if (status == TROUPE_BUSY || status == TROUPE_END)
            return;
        if (status == TROUPE_STOPPED) {
            end(s, number, TROUPE_ENDING_STOPPED);
            continue;
        }
        troupe_must(status);
        if (number < 0) {
            number = s->count++;
            s->trials[number] = (trial){.last = (double)INFINITY};
            if (s->scheduler->added != NULL)
                troupe_must(s->scheduler->added(s->scheduler, number, x));
        }
        s->running++;
        begin_epoch(s, number);
    }
}

static void report(sweep *s, int number)
{
    trial *of = &s->trials[number];
    double x[1] = {0};
    s->now = of->at;
    s->left--;
    of->last = tune_curves_score(s->of, number, ++of->epoch);
    troupe_progress progress = {.size = sizeof progress,
                                .trial = number,
                                .report = of->epoch,
                                .score = of->last,
                                .elapsed_s = s->now,
                                .x = x,
                                .ranks = 1};
    troupe_verdict verdict = {.size = sizeof verdict, .x = x, .source = -1};
    troupe_must(s->scheduler->decide(s->scheduler, &progress, &verdict));
    if (verdict.act == TROUPE_ACT_GO_ON && of->epoch < tune_curves_epochs(s->of)) {
        begin_epoch(s, number);
        return;
    }
    of->runs = false;
    s->running--;
    if (verdict.act != TROUPE_ACT_PAUSE)
        end(s, number,
            verdict.act == TROUPE_ACT_STOP ? TROUPE_ENDING_STOPPED : TROUPE_ENDING_COMPLETE);
}

double quality_sweep(const tune_curves *of, troupe_scheduler *scheduler, uint64_t seed)
{
    static const troupe_dim dim = {.name = "x", .high = 1, .parent = -1};
    const troupe_problem problem = {
        .size = sizeof problem, .dims = &dim, .dim_count = 1, .objectives = 1, .seed = seed};
    sweep s = {.of = of,
               .scheduler = scheduler,
               .trials = calloc((size_t)tune_curves_trials(of), sizeof *s.trials),
               .left = TUNE_CURVE_BUDGET * tune_curves_epochs(of)};
    if (s.trials == NULL)
        bench_die("bench_quality: no memory");
    troupe_must(scheduler->refusal);
    if (scheduler->begin != NULL)
        troupe_must(scheduler->begin(scheduler, &problem));
    for (fill(&s); s.left > 0 && s.running > 0; fill(&s)) {
        int first = -1;
        for (int i = 0; i < s.count; i++) {
            if (s.trials[i].runs && (first < 0 || s.trials[i].at < s.trials[first].at))
                first = i;
        }
        report(&s, first);
    }
    int best = 0;
    for (int i = 1; i < s.count; i++)
        best = s.trials[i].last < s.trials[best].last ? i : best;
    double regret = tune_curves_regret(of, best);
    free(s.trials);
    troupe_scheduler_free(&scheduler);
    return regret;
}
