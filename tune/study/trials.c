// trials.c: the trials that a study has had: where they lie, which is the best, what users see.
#include <tune/study/study_parts.h>

#include <math.h>
#include <runtime/base/arena.h>
#include <runtime/base/memory.h>
#include <stdlib.h>
#include <string.h>
#include <tune/search/fronts.h>

trp_study_trial *trp_study_at(const troupe_study *study, int number)
{
    return &study->chunks[number / TRP_CHUNK][number % TRP_CHUNK];
}

static troupe_status no_memory(const troupe_study *study)
{
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for trial %d", study->count);
}

// Trials of a chunk lie together, and so do their numbers behind them.
static trp_study_trial *make_chunk(const troupe_study *study)
{
    size_t each = study->dim_count + 2 * study->objectives;
    trp_study_trial *chunk = trp_alloc(TRP_CHUNK * (sizeof *chunk + each * sizeof(double)));
    if (chunk == NULL)
        return NULL;
    double *numbers = (double *)(chunk + TRP_CHUNK);
    for (size_t i = 0; i < TRP_CHUNK; i++, numbers += each) {
        chunk[i].view.x = numbers;
        chunk[i].view.values = numbers + study->dim_count;
        chunk[i].best_values = numbers + study->dim_count + study->objectives;
    }
    return chunk;
}

troupe_status trp_study_make_room(troupe_study *study)
{
    enum { STEP = 64 };
    size_t chunks = (size_t)study->count / TRP_CHUNK + 1;
    if (chunks <= study->chunk_count)
        return TROUPE_OK;
    if (study->chunk_count % STEP == 0) {
        void *more =
            trp_realloc(study->chunks, (study->chunk_count + STEP) * sizeof *study->chunks);
        if (more == NULL)
            return no_memory(study);
        study->chunks = more;
    }
    trp_study_trial *chunk = make_chunk(study);
    if (chunk == NULL)
        return no_memory(study);
    study->chunks[study->chunk_count++] = chunk;
    return TROUPE_OK;
}

void trp_study_push(troupe_study *study, const double *x)
{
    int number = study->count++;
    trp_study_trial *trial = trp_study_at(study, number);
    trial->view.size = sizeof trial->view;
    trial->view.number = number;
    trial->view.state = TROUPE_STUDY_RUNNING;
    trial->view.best = (double)NAN;
    trial->view.error = "";
    trial->source = -1;
    memcpy((double *)trial->view.x, x, study->dim_count * sizeof *x);
    for (size_t i = 0; i < study->objectives; i++)
        ((double *)trial->view.values)[i] = trial->best_values[i] = (double)NAN;
    study->running++;
    if (study->had != NULL && number >= study->first_count)
        study->had[trp_space_combination_of(study->space, x)]++;
}

bool trp_study_better(const troupe_study *study, double a, double b)
{
    if (isnan(a) || isnan(b))
        return !isnan(a);
    return study->goals[0] == TROUPE_MAXIMIZE ? a > b : a < b;
}

void trp_study_note(troupe_study *study, trp_study_trial *trial, const double *values)
{
    if (!isfinite(values[0]) || !trp_study_better(study, values[0], trial->view.best))
        return;
    trial->view.best = values[0];
    memcpy(trial->best_values, values, study->objectives * sizeof *values);
    if (study->best < 0 ||
        trp_study_better(study, values[0], trp_study_at(study, study->best)->view.best))
        study->best = trial->view.number;
}

void trp_study_find_best(troupe_study *study)
{
    study->best = -1;
    for (int i = 0; i < study->count; i++) {
        const troupe_study_trial *trial = &trp_study_at(study, i)->view;
        if (!(trial->violation > 0) && trial->state != TROUPE_STUDY_FAILED && !isnan(trial->best) &&
            (study->best < 0 ||
             trp_study_better(study, trial->best, trp_study_at(study, study->best)->view.best)))
            study->best = i;
    }
}

// ---- what users see

static troupe_status write_config(const troupe_study *study, const double *x, void **config)
{
    const troupe_type *type = study->space->type;
    if (type != NULL) {
        if (*config == NULL)
            *config = trp_alloc(type->size);
        if (*config == NULL)
            return troupe_fail(TROUPE_NO_MEMORY, "no memory for a config");
        troupe_space_config(study->space, x, *config);
        return TROUPE_OK;
    }
    trp_buffer text = {0};
    trp_space_write_point(study->space, x, &text);
    trp_buffer_append(&text, "", 1);
    char *copy = text.failed ? NULL : trp_strdup((const char *)text.data);
    trp_buffer_free(&text);
    if (copy == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a config");
    trp_free(*config);
    *config = copy;
    return TROUPE_OK;
}

troupe_status trp_study_configure(const troupe_study *study, trp_study_trial *trial)
{
    if (trial->view.config != NULL)
        return TROUPE_OK;
    void *config = NULL;
    TROUPE_TRY(write_config(study, trial->view.x, &config));
    trial->view.config = config;
    return TROUPE_OK;
}

void trp_study_free_trials(troupe_study *study)
{
    for (int i = 0; i < study->count; i++) {
        const troupe_study_trial *view = &trp_study_at(study, i)->view;
        trp_free((void *)view->config);
        if (view->error[0] != '\0')
            trp_free((void *)view->error);
    }
    for (size_t i = 0; i < study->chunk_count; i++)
        trp_free(study->chunks[i]);
    trp_free(study->chunks);
}

size_t troupe_study_count(const troupe_study *study)
{
    return study != NULL ? (size_t)study->count : 0;
}

const troupe_study_trial *troupe_study_trial_at(troupe_study *study, size_t number)
{
    if (study == NULL || number >= (size_t)study->count)
        return NULL;
    trp_study_trial *trial = trp_study_at(study, (int)number);
    return trp_study_configure(study, trial) == TROUPE_OK ? &trial->view : NULL;
}

const troupe_study_trial *troupe_study_best(troupe_study *study)
{
    return study == NULL || study->best < 0 ? NULL
                                            : troupe_study_trial_at(study, (size_t)study->best);
}

// ---- Pareto's front

typedef struct candidate {
    const double *scores;
    int number;
    size_t objectives;
} candidate;

// A point that dominates another comes before it.
static int compare(const void *a, const void *b)
{
    const candidate *one = a, *other = b;
    for (size_t i = 0; i < one->objectives; i++) {
        if (one->scores[i] != other->scores[i])
            return one->scores[i] < other->scores[i] ? -1 : 1;
    }
    return one->number - other->number;
}

static int compare_numbers(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

// Who has a place; scores are lower where better.
static size_t find_candidates(const troupe_study *study, double *scores, candidate *found)
{
    size_t count = 0;
    for (int i = 0; i < study->count; i++) {
        const troupe_study_trial *trial = &trp_study_at(study, i)->view;
        if (trial->state != TROUPE_STUDY_COMPLETE || trial->violation > 0)
            continue;
        bool whole = true;
        for (size_t k = 0; k < study->objectives; k++) {
            scores[k] = trp_study_score(study, k, trial->values[k]);
            whole = whole && !isnan(scores[k]);
        }
        if (!whole)
            continue;
        found[count++] = (candidate){scores, i, study->objectives};
        scores += study->objectives;
    }
    return count;
}

const int *troupe_study_front(troupe_study *study, size_t *count)
{
    if (count != NULL)
        *count = 0;
    if (study == NULL || count == NULL || study->count == 0)
        return NULL;
    size_t trials = (size_t)study->count, members = 0;
    double *scores = trp_alloc(trials * study->objectives * sizeof *scores);
    candidate *found = trp_alloc(trials * sizeof *found);
    int *front = NULL;
    if (scores != NULL && found != NULL) {
        size_t candidates = find_candidates(study, scores, found);
        qsort(found, candidates, sizeof *found, compare);
        for (size_t i = 0; i < candidates; i++) {
            bool best = true;
            for (size_t k = 0; k < members && best; k++)
                best = !trp_dominates(found[k].scores, found[i].scores, study->objectives);
            if (best)
                found[members++] = found[i];
        }
        front = members > 0 ? trp_arena_alloc(trp_arena_current(), members * sizeof *front) : NULL;
    }
    if (front != NULL) {
        for (size_t i = 0; i < members; i++)
            front[i] = found[i].number;
        qsort(front, members, sizeof *front, compare_numbers);
        *count = members;
    }
    trp_free(scores);
    trp_free(found);
    return front;
}
