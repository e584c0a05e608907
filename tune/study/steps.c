// steps.c: the steps of a study: what searcher and scheduler are told, in which order, and what is
// known of a trial after that. Each is taken from the caller, and then written, or from a line.
#include <tune/study/lines.h>

#include <math.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <stdio.h>
#include <string.h>
#include <tune/space/dims.h>

// ---- the end of a study

troupe_status trp_study_is_whole(troupe_study *study)
{
    return study->broken.status == TROUPE_OK ? TROUPE_OK : trp_error_set(&study->broken);
}

troupe_status trp_study_break(troupe_study *study)
{
    study->broken = *troupe_last_error();
    return study->broken.status;
}

// ---- points

double trp_study_score(const troupe_study *study, size_t objective, double value)
{
    return study->goals[objective] == TROUPE_MAXIMIZE ? -value : value;
}

// Whether the dimension can have the value, but for rounding.
static bool can_have(const troupe_dim *dim, double value)
{
    double highest = dim->kind == TROUPE_DIM_CHOICE ? dim->choices - 1 : dim->high;
    if (!isfinite(value) || value < dim->low || value > highest)
        return false;
    if (dim->kind == TROUPE_DIM_REAL && !(dim->step > 0))
        return true;
    double step = dim->kind == TROUPE_DIM_CHOICE || dim->step <= 0 ? 1 : dim->step;
    return fabs(trp_dim_snap(dim, value) - value) <= 1e-6 * step;
}

// As trp_space_settle, or trp_space_complete, but choices that are alike stay apart: a grid has
// given out each of them, and is told so.
static void settle(const troupe_study *study, trp_random *random, double *x)
{
    for (size_t i = 0; i < study->dim_count; i++) {
        bool is = study->dims[i].kind == TROUPE_DIM_CHOICE && can_have(&study->dims[i], x[i]);
        study->kept[i] = is ? round(x[i]) : (double)NAN;
    }
    if (random != NULL)
        trp_space_complete(study->space, random, x);
    trp_space_settle(study->space, x);
    for (size_t i = 0; i < study->dim_count; i++)
        if (!isnan(study->kept[i]) && !isnan(x[i]))
            x[i] = study->kept[i];
}

troupe_status trp_study_check_point(const troupe_study *study, const char *who, bool grids,
                                    double *x)
{
    for (size_t i = 0; i < study->dim_count; i++) {
        const troupe_dim *dim = &study->dims[i];
        if ((dim->grid && !grids) || !trp_dim_counts(study->dims, i, x) || can_have(dim, x[i]))
            continue;
        if (dim->kind == TROUPE_DIM_CHOICE)
            return troupe_fail(TROUPE_INVALID,
                               "%.200s gives %g for %.100s: expected a choice, 0 to %d", who, x[i],
                               dim->name, dim->choices - 1);
        char steps[48] = "";
        if (dim->step > 0)
            snprintf(steps, sizeof steps, " in steps of %g", dim->step);
        return troupe_fail(TROUPE_INVALID, "%.200s gives %g for %.100s: expected %g to %g%s", who,
                           x[i], dim->name, dim->low, dim->high, steps);
    }
    if (grids)
        settle(study, NULL, x);
    return TROUPE_OK;
}

bool trp_study_allows(troupe_study *study, const double *x)
{
    if (study->allowed == NULL)
        return true;
    if (study->space->type != NULL) {
        troupe_space_config(study->space, x, study->config);
        return study->allowed(study->user, study->config);
    }
    study->text.size = 0;
    trp_space_write_point(study->space, x, &study->text);
    trp_buffer_append(&study->text, "", 1);
    if (!study->text.failed)
        return study->allowed(study->user, study->text.data);
    study->short_of_memory = true;
    trp_buffer_free(&study->text);
    return false;
}

static bool sets_grids(const troupe_study *study)
{
    return study->combinations > 1;
}

// Which combination of grids trial `number` has. Where the space has become larger these are others
// than before: one that was had least.
static uint64_t turn_of(const troupe_study *study, int number)
{
    int least = 0;
    if (study->had == NULL)
        return (uint64_t)((number - study->first_count) % study->combinations);
    for (int i = 1; i < study->combinations; i++)
        least = study->had[i] < study->had[least] ? i : least;
    return (uint64_t)least;
}

// Gives grids their turn's coordinates, and what hangs on them some, and moves all to where a
// config can be.
static void finish_point(const troupe_study *study, int number, trp_random *random, double *x)
{
    if (sets_grids(study))
        trp_space_combination(study->space, turn_of(study, number), x);
    settle(study, random, x);
}

static troupe_status draw_allowed(troupe_study *study, int number, trp_random *random, double *x)
{
    enum { TRIES = 1000 };
    for (int i = 0; i < TRIES; i++) {
        trp_dims_draw(study->dims, study->dim_count, random, x);
        finish_point(study, number, random, x);
        if (trp_study_allows(study, x))
            return TROUPE_OK;
        if (study->short_of_memory)
            break;
    }
    if (study->short_of_memory)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a config of trial %d", number);
    return troupe_fail(TROUPE_INVALID,
                       "no point for trial %d: .allowed, or a constraint, has refused the one that "
                       "%.200s suggests and "
                       "%d that were drawn at random",
                       number, study->searcher->name, TRIES);
}

// The point of a new trial. TROUPE_END: there are no more.
static troupe_status choose_point(troupe_study *study, int number, double *x)
{
    char who[256];
    if (number < study->first_count) {
        memcpy(x, study->first + (size_t)number * study->dim_count, study->dim_count * sizeof *x);
        return TROUPE_OK;
    }
    study->short_of_memory = false;
    for (size_t i = 0; i < study->dim_count; i++)
        x[i] = (double)NAN;
    if (!study->only_grids || study->total == 0) // A searcher may have each combination but once.
        TROUPE_TRY(study->searcher->suggest(study->searcher, number, x));
    snprintf(who, sizeof who, "trial %d: the searcher %.200s", number, study->searcher->name);
    TROUPE_TRY(trp_study_check_point(study, who, !sets_grids(study), x));
    trp_random random; // Not that of a searcher which draws by (seed, number) as well.
    trp_random_seed(&random, study->problem.seed, ~(uint64_t)number);
    finish_point(study, number, &random, x);
    return trp_study_allows(study, x) ? TROUPE_OK : draw_allowed(study, number, &random, x);
}

// ---- what searcher and scheduler are told

troupe_status trp_study_take_trial(troupe_study *study, const double *x)
{
    troupe_searcher *searcher = study->searcher;
    troupe_scheduler *scheduler = study->scheduler;
    TROUPE_TRY(trp_study_make_room(study));
    if (searcher->given != NULL)
        TROUPE_TRY(searcher->given(searcher, study->count, x));
    if (scheduler->added != NULL) {
        troupe_status status = scheduler->added(scheduler, study->count, x);
        if (status != TROUPE_OK)
            return searcher->given != NULL ? trp_study_break(study) : status;
    }
    trp_study_push(study, x);
    return TROUPE_OK;
}

static troupe_status nonsense(troupe_study *study, const char *what, int trial)
{
    (void)troupe_fail(TROUPE_INVALID, "the scheduler %.200s %s (trial %d)",
                      study->scheduler->describe, what, trial);
    return trp_study_break(study);
}

// A verdict on a trial that is not paused by it, or is so no more.
static troupe_status check_change(troupe_study *study, int trial, const troupe_verdict *verdict)
{
    char who[256];
    if (verdict->act == TROUPE_ACT_RESIZE && verdict->ranks < 1)
        return nonsense(study, "wants less than one rank", trial);
    if (verdict->act == TROUPE_ACT_CLONE) {
        if (verdict->source < 0 || verdict->source >= study->count || verdict->x == NULL)
            return nonsense(study, "clones a trial that is not there", trial);
        snprintf(who, sizeof who, "trial %d: the scheduler %.200s", trial,
                 study->scheduler->describe);
        if (trp_study_check_point(study, who, true, verdict->x) != TROUPE_OK)
            return trp_study_break(study);
    }
    if (study->own && (verdict->act == TROUPE_ACT_RESIZE || verdict->act == TROUPE_ACT_CLONE)) {
        (void)troupe_fail(TROUPE_UNSUPPORTED,
                          "the scheduler %.200s %s trial %d, which only a sweep can do: "
                          "expected one that lets trials go on, stop or pause",
                          study->scheduler->describe,
                          verdict->act == TROUPE_ACT_CLONE ? "clones another for" : "resizes",
                          trial);
        return trp_study_break(study);
    }
    return TROUPE_OK;
}

static troupe_status check_verdict(troupe_study *study, int trial, const troupe_verdict *verdict)
{
    if ((int)verdict->act < 0 || verdict->act > TROUPE_ACT_RESIZE)
        return nonsense(study, "says what is no verdict", trial);
    if (verdict->act == TROUPE_ACT_PAUSE && study->scheduler->next == NULL)
        return nonsense(study, "pauses trials, but has no `next` to let them go on", trial);
    return check_change(study, trial, verdict);
}

// The verdict's room is the study's: `cloned`.
static void begin_verdict(troupe_study *study, const trp_study_trial *trial, int ranks,
                          troupe_verdict *verdict)
{
    *verdict = (troupe_verdict){.size = sizeof *verdict,
                                .act = TROUPE_ACT_GO_ON,
                                .source = -1,
                                .x = study->cloned,
                                .ranks = ranks};
    memcpy(study->cloned, trial->view.x, study->dim_count * sizeof *study->cloned);
}

static void note_verdict(troupe_study *study, trp_study_trial *trial, const troupe_verdict *verdict)
{
    trial->act = verdict->act;
    trial->source = verdict->source;
    trial->ranks = verdict->ranks;
    if (verdict->act == TROUPE_ACT_PAUSE) {
        trial->view.state = TROUPE_STUDY_PAUSED;
        study->running--;
        study->paused++;
    }
    if (verdict->act != TROUPE_ACT_CLONE)
        return;
    memcpy((double *)trial->view.x, verdict->x, study->dim_count * sizeof *verdict->x);
    if (trial->view.config != NULL && study->space->type != NULL) {
        troupe_space_config(study->space, verdict->x, (void *)trial->view.config);
    } else {
        trp_free((void *)trial->view.config); // It is made again.
        trial->view.config = NULL;
    }
}

troupe_status trp_study_take_report(troupe_study *study, const trp_study_report *report,
                                    troupe_verdict *verdict)
{
    troupe_searcher *searcher = study->searcher;
    trp_study_trial *trial = trp_study_at(study, report->trial);
    double score = trp_study_score(study, 0, report->values[0]);
    const troupe_progress progress = {.size = sizeof progress,
                                      .trial = report->trial,
                                      .report = report->number,
                                      .score = score,
                                      .elapsed_s = report->elapsed_s,
                                      .x = trial->view.x,
                                      .ranks = report->ranks};
    begin_verdict(study, trial, report->ranks, verdict);
    if (searcher->report != NULL)
        TROUPE_TRY(searcher->report(searcher, report->trial, report->number, score));
    troupe_status status = study->scheduler->decide(study->scheduler, &progress, verdict);
    if (status != TROUPE_OK)
        return searcher->report != NULL ? trp_study_break(study) : status;
    TROUPE_TRY(check_verdict(study, report->trial, verdict));
    trial->view.reports = report->number;
    trial->elapsed_s = report->elapsed_s;
    trp_study_note(study, trial, report->values);
    note_verdict(study, trial, verdict);
    return TROUPE_OK;
}

static bool is_paused(const troupe_study *study, int number)
{
    return number >= 0 && number < study->count &&
           trp_study_at(study, number)->view.state == TROUPE_STUDY_PAUSED;
}

troupe_status trp_study_take_next(troupe_study *study, bool fresh, int *trial,
                                  troupe_verdict *verdict, bool *failed)
{
    troupe_scheduler *scheduler = study->scheduler;
    *failed = false;
    *trial = -1;
    *verdict = (troupe_verdict){.size = sizeof *verdict, .source = -1, .x = study->cloned};
    if (scheduler->next == NULL)
        return fresh ? TROUPE_OK : TROUPE_END;
    troupe_status status = scheduler->next(scheduler, fresh, trial, verdict);
    if (status == TROUPE_END || (status == TROUPE_BUSY && study->running > 0))
        return status;
    if (status == TROUPE_BUSY && !fresh) // Nothing is left that it could wait for.
        return TROUPE_END;
    *failed = true;
    if (status == TROUPE_BUSY)
        return nonsense(study, "waits for trials, and none runs", -1);
    if (status != TROUPE_OK && status != TROUPE_STOPPED)
        return status;
    if (status == TROUPE_STOPPED && !is_paused(study, *trial))
        return nonsense(study, "ends a trial that is not paused", *trial);
    if (status == TROUPE_OK && *trial == -1 && !fresh)
        return nonsense(study, "wants a new trial where none comes any more", -1);
    if (status == TROUPE_OK && *trial != -1) {
        if (!is_paused(study, *trial))
            return nonsense(study, "lets a trial go on that is not paused", *trial);
        if (verdict->act != TROUPE_ACT_GO_ON && verdict->act != TROUPE_ACT_CLONE &&
            verdict->act != TROUPE_ACT_RESIZE)
            return nonsense(study, "lets a trial go on, and says that it is not to", *trial);
        TROUPE_TRY(check_change(study, *trial, verdict));
    }
    *failed = false;
    return status;
}

void trp_study_take_again(troupe_study *study, int number, const troupe_verdict *verdict)
{
    trp_study_trial *trial = trp_study_at(study, number);
    trial->view.state = TROUPE_STUDY_RUNNING;
    trial->from = trial->view.reports;
    trial->repeats = 0;
    study->paused--;
    study->running++;
    note_verdict(study, trial, verdict);
}

// What came of a trial, as searchers are told.
static troupe_observation observed(troupe_study *study, const trp_study_ended *end, int reports,
                                   const double *x)
{
    for (size_t i = 0; i < study->objectives; i++) {
        double value = end->values[i];
        bool has = end->ending != TROUPE_ENDING_FAILED && isfinite(value);
        study->scores[i] = has ? trp_study_score(study, i, value) : (double)NAN;
    }
    return (troupe_observation){.size = sizeof(troupe_observation),
                                .number = end->trial,
                                .ending = end->ending,
                                .x = x,
                                .scores = study->scores,
                                .reports = reports,
                                .violation = end->violation};
}

static void note_end(troupe_study *study, trp_study_trial *trial, const trp_study_ended *end)
{
    static const troupe_study_state states[] = {TROUPE_STUDY_COMPLETE, TROUPE_STUDY_STOPPED,
                                                TROUPE_STUDY_FAILED};
    *(trial->view.state == TROUPE_STUDY_PAUSED ? &study->paused : &study->running) -= 1;
    study->left -= trial->left;
    trial->left = false;
    trial->view.state = states[end->ending];
    trial->view.violation = end->violation;
    if (end->ending != TROUPE_ENDING_FAILED)
        memcpy((double *)trial->view.values, end->values, study->objectives * sizeof *end->values);
    bool counts = end->ending != TROUPE_ENDING_FAILED && !(end->violation > 0);
    if (counts)
        trp_study_note(study, trial, end->values);
    else if (study->best == trial->view.number) // By what it had reported.
        trp_study_find_best(study);
}

troupe_status trp_study_take_end(troupe_study *study, const trp_study_ended *given)
{
    troupe_searcher *searcher = study->searcher;
    troupe_scheduler *scheduler = study->scheduler;
    trp_study_trial *trial = trp_study_at(study, given->trial);
    trp_study_ended end = *given;
    if (end.values == NULL)
        end.values = trial->best_values;
    char *error = NULL;
    if (end.error != NULL && end.error[0] != '\0' && (error = trp_strdup(end.error)) == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the end of trial %d", end.trial);
    troupe_status status = TROUPE_OK;
    if (searcher->observe != NULL) {
        const troupe_observation observation =
            observed(study, &end, trial->view.reports, trial->view.x);
        status = searcher->observe(searcher, &observation);
    }
    if (status == TROUPE_OK && scheduler->ended != NULL) {
        status = scheduler->ended(scheduler, end.trial, end.ending);
        if (status != TROUPE_OK && searcher->observe != NULL)
            status = trp_study_break(study);
    }
    if (status != TROUPE_OK) {
        trp_free(error);
        return status;
    }
    if (error != NULL)
        trial->view.error = error;
    note_end(study, trial, &end);
    return TROUPE_OK;
}

troupe_status trp_study_take_warm(troupe_study *study, int number, const trp_study_ended *end,
                                  int reports, const double *x)
{
    troupe_searcher *searcher = study->searcher;
    if (searcher->given != NULL)
        TROUPE_TRY(searcher->given(searcher, number, x));
    if (searcher->observe == NULL)
        return TROUPE_OK;
    const troupe_observation observation = observed(study, end, reports, x);
    return searcher->observe(searcher, &observation);
}

int trp_study_most(const troupe_study *study, const trp_extension *was)
{
    uint64_t combinations = was != NULL ? was->combinations : (uint64_t)study->combinations;
    return (int)((uint64_t)(INT32_MAX - study->first_count) / combinations);
}

int trp_study_total_of(const troupe_study *study, int trials, uint64_t combinations)
{
    uint64_t besides = trials > 0 && combinations > 1 ? (uint64_t)study->first_count : 0;
    // Above it, while an earlier space's number of trials is taken in.
    bool most = trials > 0 && combinations > (INT32_MAX - besides) / (uint64_t)trials;
    return most ? INT32_MAX : (int)((uint64_t)trials * combinations + besides);
}

void trp_study_take_total(troupe_study *study, int trials)
{
    study->trials = trials;
    study->total = trp_study_total_of(study, trials, (uint64_t)study->combinations);
}

// ---- steps from the caller

static troupe_status no_memory_for_line(trp_buffer *line, int trial)
{
    trp_buffer_free(line);
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for a line of trial %d", trial);
}

void trp_study_opened(troupe_study *study)
{
    study->opens = false;
    if (study->held.size > 0)
        trp_tune_record_add(study->record, &study->held);
}

// Puts the line down, if there is a record.
static void put_down(troupe_study *study, trp_buffer *line)
{
    if (study->opens)
        trp_study_opened(study);
    if (study->record != NULL)
        trp_tune_record_add(study->record, line);
    else
        trp_buffer_free(line);
}

// The same of one that belongs to an opening: it waits for the end of that, and is in one write
// with what waits already. The record adds the last one's end.
static bool hold(troupe_study *study, trp_buffer *line)
{
    if (study->held.size > 0)
        trp_buffer_append(&study->held, "}\n", 2);
    trp_buffer_append(&study->held, line->data, line->size);
    trp_buffer_free(line);
    return trp_line_reserve(study, &study->held);
}

static troupe_status begin_trial(troupe_study *study, int *number)
{
    trp_buffer line = {0};
    TROUPE_TRY(choose_point(study, study->count, study->point));
    if (study->record != NULL) {
        trp_line_suggest(study, study->count, study->point, &line);
        if (!trp_line_reserve(study, &line))
            return no_memory_for_line(&line, study->count);
    }
    troupe_status status = trp_study_take_trial(study, study->point);
    if (status != TROUPE_OK) {
        trp_buffer_free(&line);
        return status;
    }
    put_down(study, &line);
    *number = study->count - 1;
    return TROUPE_OK;
}

static troupe_status end_paused(troupe_study *study, int number)
{
    const trp_study_ended end = {.trial = number, .ending = TROUPE_ENDING_STOPPED};
    troupe_status status = trp_study_take_end(study, &end);
    return status == TROUPE_OK ? status : trp_study_break(study); // The scheduler has decided it.
}

// Whether a new trial may come: the searcher may have none.
static bool has_room(const troupe_study *study)
{
    return !study->exhausted && (study->total == 0 || study->count < study->total);
}

// What a scheduler says may hang on it, in a later life too.
static troupe_status note_exhausted(troupe_study *study)
{
    trp_buffer line = {0};
    if (study->record != NULL && study->scheduler->next != NULL) {
        trp_line_exhausted(&line);
        if (!trp_line_reserve(study, &line))
            return no_memory_for_line(&line, study->count);
        put_down(study, &line);
    }
    study->exhausted = true;
    return TROUPE_OK;
}

void trp_study_settle_exhausted(troupe_study *study)
{
    if (!study->exhausted)
        return;
    study->exhausted = choose_point(study, study->count, study->point) == TROUPE_END;
    trp_error_forget();
}

static troupe_status say(trp_next *next, trp_next_kind kind, int number)
{
    *next = (trp_next){.kind = kind, .number = number};
    return TROUPE_OK;
}

// `line` has room for one.
static troupe_status take_next(troupe_study *study, bool fresh, trp_buffer *line, trp_next *next)
{
    int trial;
    bool failed;
    troupe_verdict verdict;
    troupe_status status = trp_study_take_next(study, fresh, &trial, &verdict, &failed);
    if (failed)
        return status;
    if (status == TROUPE_BUSY)
        return say(next, TRP_NEXT_LATER, -1);
    if (status == TROUPE_END)
        return say(next, TRP_NEXT_NONE, -1);
    if (status == TROUPE_STOPPED) {
        TROUPE_TRY(end_paused(study, trial));
        trp_line_next("over", trial, fresh, line);
        put_down(study, line);
        return say(next, TRP_NEXT_OVER, trial);
    }
    if (trial >= 0) {
        trp_study_take_again(study, trial, &verdict);
        trp_line_next("again", trial, fresh, line);
        trp_line_verdict(study, &verdict, line);
        put_down(study, line);
        return say(next, TRP_NEXT_AGAIN, trial);
    }
    status = begin_trial(study, &trial);
    if (status == TROUPE_OK)
        return say(next, TRP_NEXT_NEW, trial);
    if (status != TROUPE_END || study->broken.status != TROUPE_OK)
        return status;
    trp_error_forget();
    TROUPE_TRY(note_exhausted(study));
    return take_next(study, false, line, next);
}

troupe_status trp_study_next(troupe_study *study, bool fresh, trp_next *next)
{
    trp_buffer line = {0};
    TROUPE_TRY(trp_study_is_whole(study));
    if (!trp_line_reserve(study, &line))
        return no_memory_for_line(&line, study->count);
    troupe_status status = take_next(study, fresh && has_room(study), &line, next);
    trp_buffer_free(&line);
    return status;
}

int trp_study_decides_at(troupe_study *study, int number, int after)
{
    troupe_scheduler *scheduler = study->scheduler;
    return scheduler->decides_at == NULL ? after + 1
                                         : scheduler->decides_at(scheduler, number, after);
}

static bool is_ending(const trp_study_trial *trial)
{
    return trial->act == TROUPE_ACT_STOP || trial->act == TROUPE_ACT_END;
}

// A trial of that number, for `what`.
static troupe_status check_trial(const troupe_study *study, int number, const char *what)
{
    static const char *const states[] = {"runs", "is complete", "was stopped", "has failed",
                                         "is paused"};
    if (study->count == 0)
        return troupe_fail(TROUPE_INVALID, "%s of trial %d: none has been asked for yet", what,
                           number);
    if (number < 0 || number >= study->count)
        return troupe_fail(TROUPE_INVALID,
                           "%s of trial %d: expected one of 0 to %d, which there are", what, number,
                           study->count - 1);
    const trp_study_trial *trial = trp_study_at(study, number);
    if (trial->view.state != TROUPE_STUDY_RUNNING)
        return troupe_fail(TROUPE_INVALID, "%s of trial %d, which %s: expected one that runs", what,
                           number, states[trial->view.state]);
    return TROUPE_OK;
}

troupe_status trp_study_decide(troupe_study *study, int number, int report, const double *values,
                               double elapsed_s, int ranks, const char *more,
                               troupe_verdict *verdict)
{
    TROUPE_TRY(trp_study_is_whole(study));
    TROUPE_TRY(check_trial(study, number, "a report"));
    const trp_study_trial *trial = trp_study_at(study, number);
    if (is_ending(trial))
        return troupe_fail(TROUPE_INVALID, "a report of trial %d, which the scheduler has ended",
                           number);
    if (report <= trial->view.reports)
        return troupe_fail(TROUPE_INVALID, "report %d of trial %d: expected one above %d", report,
                           number, trial->view.reports);
    const trp_study_report taken = {number, report, values, elapsed_s, ranks};
    trp_buffer line = {0};
    if (study->record != NULL) {
        trp_line_report(study, &taken, more, &line);
        if (!trp_line_reserve(study, &line))
            return no_memory_for_line(&line, number);
    }
    troupe_status status = trp_study_take_report(study, &taken, verdict);
    if (status != TROUPE_OK) {
        trp_buffer_free(&line);
        return status;
    }
    if (study->record != NULL)
        trp_line_verdict(study, verdict, &line);
    if (study->record != NULL && verdict->act == TROUPE_ACT_GO_ON) // Nothing follows from it.
        trp_tune_record_add_soon(study->record, &line);
    else
        put_down(study, &line);
    return TROUPE_OK;
}

troupe_status trp_study_end(troupe_study *study, int number, troupe_ending ending,
                            const double *values, double violation, const char *error,
                            const char *more)
{
    TROUPE_TRY(trp_study_is_whole(study));
    if (number < 0 || number >= study->count ||
        trp_study_at(study, number)->view.state != TROUPE_STUDY_PAUSED)
        TROUPE_TRY(check_trial(study, number, "the end"));
    const trp_study_ended end = {number, ending, values, violation, error};
    trp_buffer line = {0};
    if (study->record != NULL) {
        trp_line_end(study, &end, more, &line);
        if (!trp_line_reserve(study, &line))
            return no_memory_for_line(&line, number);
    }
    troupe_status status = trp_study_take_end(study, &end);
    if (status != TROUPE_OK) {
        trp_buffer_free(&line);
        return status;
    }
    put_down(study, &line);
    return TROUPE_OK;
}

troupe_status trp_study_settle(troupe_study *study, int number)
{
    const trp_study_trial *trial = trp_study_at(study, number);
    if (trial->view.state != TROUPE_STUDY_RUNNING || !is_ending(trial))
        return TROUPE_OK;
    bool stopped = trial->act == TROUPE_ACT_STOP;
    return trp_study_end(study, number, stopped ? TROUPE_ENDING_STOPPED : TROUPE_ENDING_COMPLETE,
                         NULL, 0, NULL, NULL);
}

troupe_status trp_study_extend(troupe_study *study, int trials)
{
    TROUPE_TRY(trp_study_is_whole(study));
    int most = trp_study_most(study, NULL);
    if (trials < 0 || trials > most)
        return troupe_fail(TROUPE_INVALID, "%d trials: expected 0, for no limit, to %d", trials,
                           most);
    int before = study->trials;
    trp_study_take_total(study, trials);
    if (study->total != 0 && study->total < study->count) {
        int total = study->total;
        trp_study_take_total(study, before);
        return troupe_fail(TROUPE_INVALID, "%d trials are fewer than the %d that %s has already",
                           total, study->count, trp_study_name(study));
    }
    trp_buffer line = {0};
    if (trials == before || study->record == NULL)
        return TROUPE_OK;
    trp_line_extend(trials, &line);
    if (!trp_line_reserve(study, &line) || (study->opens && !hold(study, &line))) {
        trp_study_take_total(study, before);
        return no_memory_for_line(&line, study->count);
    }
    if (!study->opens)
        put_down(study, &line);
    return TROUPE_OK;
}

troupe_status trp_study_extend_by(troupe_study *study, int trials)
{
    if (study->trials == 0)
        return TROUPE_OK;
    if (trials > INT32_MAX - study->trials)
        return troupe_fail(TROUPE_INVALID, "%d more trials than %d: expected at most %d", trials,
                           study->trials, INT32_MAX - study->trials);
    return trp_study_extend(study, study->trials + trials);
}

// ---- what is known

int trp_study_trials(const troupe_study *study)
{
    return study->total;
}

int trp_study_combinations(const troupe_study *study)
{
    return study->combinations;
}

void trp_study_decided(const troupe_study *study, int number, int *report, troupe_verdict *verdict)
{
    const trp_study_trial *trial = trp_study_at(study, number);
    *report = trial->view.reports;
    *verdict = (troupe_verdict){.size = sizeof *verdict,
                                .act = trial->act,
                                .source = trial->source,
                                .x = (double *)trial->view.x,
                                .ranks = trial->ranks};
}

bool trp_study_is_earlier(const troupe_study *study, int number)
{
    return trp_study_at(study, number)->earlier;
}

const char *trp_study_searcher(const troupe_study *study)
{
    return study->searcher->name;
}

const double *trp_study_point(const troupe_study *study, int number)
{
    return trp_study_at(study, number)->view.x;
}

troupe_study_state trp_study_state(const troupe_study *study, int number)
{
    return trp_study_at(study, number)->view.state;
}
