// sweep_view.c: reading and printing a sweep.
#include <math.h>
#include <runtime/base/clock.h>
#include <runtime/base/require.h>
#include <runtime/codec/json.h>
#include <runtime/text/progress.h>
#include <string.h>
#include <tune/sweep/journal.h>
#include <tune/sweep/sweep.h>
#include <tune/sweep/sweep_facts.h>

enum { WIDTH_MAX = 132 }; // Up to which the table shows parameters.

// A sweep is read as it stands: the controller lets others in where it waits.
static void enter(const troupe_sweep *sweep)
{
    trp_fair_lock_take(&((troupe_sweep *)(uintptr_t)sweep)->lock);
}

static void leave(const troupe_sweep *sweep)
{
    trp_fair_lock_give(&((troupe_sweep *)(uintptr_t)sweep)->lock);
}

// What is handed out of one that runs is a copy, of how it is now.
static const troupe_trial *hand_out(const troupe_sweep *sweep, const trp_trial *trial)
{
    if (trial == NULL || sweep->over)
        return trial != NULL ? &trial->view : NULL;
    troupe_trial *copy = trp_arena_alloc(trp_arena_current(), sizeof *copy);
    if (copy != NULL)
        *copy = trial->view;
    return copy;
}

size_t troupe_sweep_count(const troupe_sweep *sweep)
{
    if (TRP_IS_NULL(sweep))
        return 0;
    enter(sweep);
    size_t count = (size_t)sweep->count;
    leave(sweep);
    return count;
}

const troupe_trial *troupe_sweep_trial(const troupe_sweep *sweep, size_t number)
{
    if (TRP_IS_NULL(sweep))
        return NULL;
    enter(sweep);
    const trp_trial *trial = number < (size_t)sweep->count ? sweep->trials[number] : NULL;
    const troupe_trial *view = hand_out(sweep, trial);
    leave(sweep);
    return view;
}

size_t troupe_sweep_stopped(const troupe_sweep *sweep)
{
    if (TRP_IS_NULL(sweep))
        return 0;
    size_t stopped = 0;
    enter(sweep);
    for (int i = 0; i < sweep->count; i++)
        stopped += sweep->trials[i]->view.state == TROUPE_TRIAL_STOPPED;
    leave(sweep);
    return stopped;
}

const troupe_trial *troupe_sweep_best(const troupe_sweep *sweep)
{
    if (TRP_IS_NULL(sweep))
        return NULL;
    enter(sweep);
    const troupe_trial *view = hand_out(sweep, sweep->best);
    leave(sweep);
    return view;
}

static bool counts(const trp_trial *trial)
{
    return !isnan(trial->view.best_metric) && !trp_trial_failed(trial);
}

// Whether one is as good in all objectives, and better in one.
static bool dominates(const troupe_sweep *sweep, const trp_trial *one, const trp_trial *other)
{
    bool better = false;
    for (size_t i = 0; i < sweep->objective_count; i++) {
        double sign = sweep->objectives[i].goal == TROUPE_MAXIMIZE ? -1 : 1;
        double x = sign * (one->at_best != NULL ? one->at_best[i] : one->view.best_metric);
        double y = sign * (other->at_best != NULL ? other->at_best[i] : other->view.best_metric);
        if (!(x <= y))
            return false;
        better = better || x < y;
    }
    return better;
}

const troupe_trial *const *troupe_sweep_front(const troupe_sweep *sweep, size_t *count)
{
    if (count != NULL)
        *count = 0;
    if (TRP_IS_NULL(sweep) || TRP_IS_NULL(count))
        return NULL;
    enter(sweep);
    trp_arena *arena = trp_arena_current();
    const troupe_trial **front = trp_arena_alloc(arena, ((size_t)sweep->count + 1) * sizeof *front);
    for (int i = 0; front != NULL && i < sweep->count; i++) {
        const trp_trial *trial = sweep->trials[i];
        bool in = counts(trial);
        for (int j = 0; in && j < sweep->count; j++)
            in = !counts(sweep->trials[j]) || !dominates(sweep, sweep->trials[j], trial);
        if (in)
            front[*count] = hand_out(sweep, trial);
        *count += in && front[*count] != NULL;
    }
    leave(sweep);
    return *count > 0 ? front : NULL;
}

const void *troupe_sweep_best_config(const troupe_sweep *sweep)
{
    if (TRP_IS_NULL(sweep))
        return NULL;
    const troupe_trial *best = troupe_sweep_best(sweep);
    return best == NULL ? NULL : best->config;
}

const char *troupe_sweep_best_json(const troupe_sweep *sweep)
{
    if (TRP_IS_NULL(sweep))
        return NULL;
    const void *config = troupe_sweep_best_config(sweep);
    if (config == NULL)
        return NULL;
    if (sweep->settings != NULL)
        return sweep->settings(sweep->trainer, config, trp_arena_current());
    trp_buffer json = {0};
    trp_journal_config(&json, sweep, config);
    return trp_buffer_keep(&json, trp_arena_current());
}

double troupe_sweep_elapsed_s(const troupe_sweep *sweep)
{
    if (TRP_IS_NULL(sweep))
        return 0;
    enter(sweep);
    double elapsed_s = sweep->over ? sweep->elapsed_s : trp_sweep_now_s(sweep) - sweep->started_s;
    leave(sweep);
    return elapsed_s;
}

void troupe_sweep_print(const troupe_sweep *sweep, FILE *out)
{
    if (TRP_IS_NULL(sweep) || TRP_IS_NULL(out))
        return;
    trp_arena arena = {0};
    trp_buffer text = {0};
    trp_table table;
    char now[32];
    trp_time_of_day(now);
    double elapsed_s = troupe_sweep_elapsed_s(sweep);
    enter(sweep);
    const char *at = sweep->over ? sweep->ended_at : now;
    if (trp_sweep_facts(sweep, elapsed_s, at, &arena, &table)) {
        trp_sweep_add_memory(&table);
        trp_table_format(&table, &(trp_table_look){.width_max = WIDTH_MAX}, &text);
    }
    leave(sweep);
    if (!text.failed && text.size > 0)
        fwrite(text.data, 1, text.size, out);
    trp_buffer_free(&text);
    trp_arena_clear(&arena);
}
