// simulate.h: trials that cost no time: learning curves by a seed, workers that share them, and any
// scheduler through its table.
//
// It keeps to the table's contract and holds the scheduler to it: a trial that is named must be
// paused, no worker is told to wait while nothing runs, and at the end no trial is paused. All
// calls are kept, so that they can be repeated to another scheduler of the same kind.
#ifndef TROUPE_TEST_SIMULATE_H
#define TROUPE_TEST_SIMULATE_H

#include <math.h>
#include <runtime/base/memory.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <troupe/schedule.h>
#include <tune/space/random.h>

enum { SIMULATE_DIMS = 3, SIMULATE_TRIALS = 512, SIMULATE_REPORTS = 256 };

typedef enum simulated_state {
    SIMULATED_NONE,
    SIMULATED_RUNNING,
    SIMULATED_PAUSED,
    SIMULATED_COMPLETE,
    SIMULATED_STOPPED,
    SIMULATED_FAILED,
} simulated_state;

typedef struct simulated_trial {
    simulated_state state;
    int reports, pauses, clones;
    double scores[SIMULATE_REPORTS + 1]; // By report, from 1.
    double x[SIMULATE_DIMS];
    double at; // When it reports next.
    int ranks;
} simulated_trial;

typedef struct simulated_call {
    enum { CALL_ADDED, CALL_DECIDE, CALL_ENDED, CALL_NEXT } kind;
    int trial;
    troupe_progress progress;
    double x[SIMULATE_DIMS]; // Before the call.
    troupe_ending ending;
    bool fresh;
    troupe_status status; // Of a next.
    troupe_verdict verdict;
    double chosen[SIMULATE_DIMS]; // verdict.x
} simulated_call;

typedef struct simulation simulation;
struct simulation {
    // What is simulated.
    troupe_scheduler *scheduler; // The caller's.
    uint64_t seed;
    int workers, trials;
    int epochs;               // A trial ends by itself after so many reports; 0: it does not.
    double fails, nans, ties; // Chances at a report.
    bool unknown;             // The scheduler is not told how many trials there will be.
    bool starved;             // Each call is made without memory first.
    // Called after each call that names a trial, before its trial has changed; may be NULL.
    void (*watch)(simulation *self, const simulated_call *call);
    void *user;
    // What came of it.
    troupe_problem problem;
    simulated_trial all[SIMULATE_TRIALS];
    int count, running, paused;
    double now;
    simulated_call *calls;
    size_t call_count, call_capacity;
    trp_random random;
};

static const troupe_dim simulate_dims[SIMULATE_DIMS] = {
    {.name = "rate", .kind = TROUPE_DIM_REAL, .low = 1e-4, .high = 1, .log = true, .parent = -1},
    {.name = "width", .kind = TROUPE_DIM_INTEGER, .low = 1, .high = 64, .step = 1, .parent = -1},
    {.name = "kind",
     .kind = TROUPE_DIM_CHOICE,
     .high = 4,
     .choices = 5,
     .ordered = true,
     .parent = -1},
};

// A curve that falls towards what its point is worth, with some noise.
static inline double simulate_score(simulation *self, int trial, int report)
{
    const double *x = self->all[trial].x;
    trp_random random;
    trp_random_seed(&random, self->seed, (uint64_t)trial << 20 | (uint32_t)report);
    if (trp_random_unit(&random) < self->nans)
        return (double)NAN;
    double worth = fabs(log10(x[0]) + 2) + 0.1 * x[2] + 1 / x[1];
    double score = worth + 3 * exp(-0.1 * report * x[1]) + 0.2 * trp_random_unit(&random);
    return trp_random_unit(&random) < self->ties ? floor(score) : score;
}

static inline simulated_call *simulate_keep(simulation *self)
{
    if (self->call_count == self->call_capacity) {
        self->call_capacity = self->call_capacity == 0 ? 256 : self->call_capacity * 2;
        self->calls = realloc(self->calls, self->call_capacity * sizeof *self->calls);
        assert_non_null(self->calls);
    }
    simulated_call *call = &self->calls[self->call_count++];
    *call = (simulated_call){0};
    return call;
}

// Makes one call; without memory first, where that is asked for: it must change nothing then.
static inline troupe_status simulate_call(troupe_scheduler *to, simulated_call *call, bool starved)
{
    troupe_status status = TROUPE_OK;
    for (long left = starved ? 0 : -1;; left = left == 1 ? -1 : left + 1) {
        memcpy(call->chosen, call->x, sizeof call->chosen);
        call->verdict =
            (troupe_verdict){.size = sizeof call->verdict, .x = call->chosen, .source = -1};
        call->progress.x = call->x;
        trp_memory_fail_after(left);
        if (call->kind == CALL_ADDED)
            status = to->added == NULL ? TROUPE_OK : to->added(to, call->trial, call->x);
        else if (call->kind == CALL_DECIDE)
            status = to->decide(to, &call->progress, &call->verdict);
        else if (call->kind == CALL_ENDED)
            status = to->ended == NULL ? TROUPE_OK : to->ended(to, call->trial, call->ending);
        else if (to->next != NULL)
            status = to->next(to, call->fresh, &call->trial, &call->verdict);
        else
            status = call->fresh ? TROUPE_OK : TROUPE_END;
        trp_memory_fail_after(-1);
        if (status != TROUPE_NO_MEMORY || left < 0)
            return status;
    }
}

static inline void simulate_tell(simulation *self, simulated_call call)
{
    memcpy(call.x, self->all[call.trial].x, sizeof call.x);
    assert_int_equal(simulate_call(self->scheduler, &call, self->starved), TROUPE_OK);
    *simulate_keep(self) = call;
    if (self->watch != NULL)
        self->watch(self, &self->calls[self->call_count - 1]);
}

static inline void simulate_over(simulation *self, int trial, troupe_ending ending)
{
    simulated_trial *of = &self->all[trial];
    *(of->state == SIMULATED_PAUSED ? &self->paused : &self->running) -= 1;
    of->state = ending == TROUPE_ENDING_COMPLETE  ? SIMULATED_COMPLETE
                : ending == TROUPE_ENDING_STOPPED ? SIMULATED_STOPPED
                                                  : SIMULATED_FAILED;
    simulate_tell(self, (simulated_call){.kind = CALL_ENDED, .trial = trial, .ending = ending});
}

static inline void simulate_begins(simulation *self, int trial, const simulated_call *call)
{
    simulated_trial *of = &self->all[trial];
    if (of->state == SIMULATED_PAUSED)
        self->paused--;
    self->running++;
    of->state = SIMULATED_RUNNING;
    of->at = self->now + 0.2 + trp_random_unit(&self->random);
    if (call != NULL && call->verdict.act == TROUPE_ACT_CLONE) {
        memcpy(of->x, call->chosen, sizeof of->x);
        of->clones++;
    }
    if (call != NULL && call->verdict.act == TROUPE_ACT_RESIZE)
        of->ranks = call->verdict.ranks;
}

// Gives idle workers something to do, as long as there is something.
static inline void simulate_fill(simulation *self)
{
    while (self->running < self->workers) {
        simulated_call call = {.kind = CALL_NEXT, .trial = -1, .fresh = self->count < self->trials};
        call.status = simulate_call(self->scheduler, &call, self->starved);
        if (call.status == TROUPE_BUSY) {
            assert_true(self->running > 0); // Else nothing would ever happen again.
            return;
        }
        if (call.status == TROUPE_END) {
            assert_false(call.fresh);
            return;
        }
        assert_true(call.status == TROUPE_OK || call.status == TROUPE_STOPPED);
        if (call.trial < 0) {
            assert_true(call.fresh);
            int trial = self->count++;
            simulated_trial *of = &self->all[trial];
            of->x[0] = pow(10, -4 * trp_random_unit(&self->random));
            of->x[1] = 1 + (double)trp_random_below(&self->random, 64);
            of->x[2] = (double)trp_random_below(&self->random, 5);
            of->ranks = 1;
            simulate_tell(self, (simulated_call){.kind = CALL_ADDED, .trial = trial});
            simulate_begins(self, trial, NULL);
            continue;
        }
        assert_true(call.trial < self->count);
        assert_int_equal(self->all[call.trial].state, SIMULATED_PAUSED);
        *simulate_keep(self) = call;
        if (self->watch != NULL)
            self->watch(self, &self->calls[self->call_count - 1]);
        if (call.status == TROUPE_STOPPED)
            simulate_over(self, call.trial, TROUPE_ENDING_STOPPED);
        else
            simulate_begins(self, call.trial, &call);
    }
}

static inline void simulate_report(simulation *self, int trial)
{
    simulated_trial *of = &self->all[trial];
    self->now = of->at;
    if (trp_random_unit(&self->random) < self->fails) {
        simulate_over(self, trial, TROUPE_ENDING_FAILED);
        return;
    }
    if (self->epochs > 0 && of->reports >= self->epochs) { // It had paused at its last report.
        simulate_over(self, trial, TROUPE_ENDING_COMPLETE);
        return;
    }
    int report = ++of->reports;
    assert_true(report <= SIMULATE_REPORTS);
    of->scores[report] = simulate_score(self, trial, report);
    int at = self->scheduler->decides_at == NULL
                 ? report
                 : self->scheduler->decides_at(self->scheduler, trial, report - 1);
    simulate_tell(self, (simulated_call){.kind = CALL_DECIDE,
                                         .trial = trial,
                                         .progress = {.size = sizeof(troupe_progress),
                                                      .trial = trial,
                                                      .report = report,
                                                      .score = of->scores[report],
                                                      .elapsed_s = self->now,
                                                      .ranks = of->ranks}});
    const simulated_call *call = &self->calls[self->call_count - 1];
    troupe_act act = call->verdict.act;
    assert_true(act == TROUPE_ACT_GO_ON || at == report); // It was said to decide here.
    assert_true(at == 0 || at >= report);
    if (act == TROUPE_ACT_STOP || act == TROUPE_ACT_END) {
        simulate_over(self, trial,
                      act == TROUPE_ACT_STOP ? TROUPE_ENDING_STOPPED : TROUPE_ENDING_COMPLETE);
    } else if (act == TROUPE_ACT_PAUSE) {
        of->state = SIMULATED_PAUSED;
        of->pauses++;
        self->running--;
        self->paused++;
    } else if (self->epochs > 0 && report >= self->epochs) {
        simulate_over(self, trial, TROUPE_ENDING_COMPLETE);
    } else {
        self->running--;
        simulate_begins(self, trial, call);
    }
}

// Runs it to its end. What it has is freed by simulate_free.
static inline void simulate(simulation *self)
{
    assert_true(self->trials <= SIMULATE_TRIALS);
    trp_random_seed(&self->random, self->seed, 1);
    self->problem = (troupe_problem){.size = sizeof self->problem,
                                     .dims = simulate_dims,
                                     .dim_count = SIMULATE_DIMS,
                                     .objectives = 1,
                                     .seed = self->seed,
                                     .trials = self->unknown ? 0 : self->trials};
    assert_int_equal(self->scheduler->refusal, TROUPE_OK);
    if (self->scheduler->begin != NULL)
        assert_int_equal(self->scheduler->begin(self->scheduler, &self->problem), TROUPE_OK);
    for (simulate_fill(self); self->running > 0; simulate_fill(self)) {
        int first = -1;
        for (int i = 0; i < self->count; i++) {
            if (self->all[i].state == SIMULATED_RUNNING &&
                (first < 0 || self->all[i].at < self->all[first].at))
                first = i;
        }
        simulate_report(self, first);
    }
    assert_int_equal(self->paused, 0); // None is forgotten.
    assert_int_equal(self->count, self->trials);
}

// Another scheduler of the same kind decides the same on the same calls. Those of `next` that
// named no trial are left out, as they are where a sweep goes on.
static inline void simulate_again(simulation *self, troupe_scheduler *other)
{
    if (other->begin != NULL)
        assert_int_equal(other->begin(other, &self->problem), TROUPE_OK);
    for (size_t i = 0; i < self->call_count; i++) {
        const simulated_call *was = &self->calls[i];
        simulated_call call = *was;
        call.trial = call.kind == CALL_NEXT ? -1 : call.trial;
        troupe_status status = simulate_call(other, &call, false);
        assert_int_equal(status, was->status);
        assert_int_equal(call.trial, was->trial);
        assert_int_equal(call.verdict.act, was->verdict.act);
        assert_int_equal(call.verdict.source, was->verdict.source);
        assert_int_equal(call.verdict.ranks, was->verdict.ranks);
        assert_memory_equal(call.chosen, was->chosen, sizeof call.chosen);
    }
}

static inline void simulate_free(simulation *self)
{
    free(self->calls);
    free(self);
}

// One that is filled in before it is run; too large for a stack.
static inline simulation *simulation_new(uint64_t seed)
{
    simulation *self = calloc(1, sizeof *self);
    assert_non_null(self);
    self->seed = seed;
    return self;
}

// A scheduler that could not be made says so at once, and keeps it for who is given it.
static inline void assert_refused(troupe_scheduler *scheduler, troupe_status status,
                                  const char *sentence)
{
    assert_non_null(scheduler);
    assert_string_equal(troupe_last_error()->text, sentence);
    assert_int_equal(troupe_last_error()->status, status);
    assert_int_equal(scheduler->refusal, status);
    assert_string_equal(scheduler->describe, sentence);
    troupe_scheduler_free(&scheduler);
}

#endif
