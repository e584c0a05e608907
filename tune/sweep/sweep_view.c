// sweep_view.c: reading, printing and freeing a sweep that has ended.
#include <math.h>
#include <runtime/base/memory.h>
#include <runtime/base/require.h>
#include <runtime/codec/json.h>
#include <train/spec.h>
#include <tune/sweep/sweep.h>
#include <tune/sweep/sweep_facts.h>

enum { WIDTH_MAX = 132 }; // Up to which the table shows parameters.

void troupe_sweep_free(troupe_sweep **sweep)
{
    if (sweep == NULL || *sweep == NULL)
        return;
    troupe_sweep *self = *sweep;
    for (int i = 0; i < self->count; i++) {
        if (self->trials[i].result != NULL)
            self->port->result_free(&self->trials[i].result);
        self->trials[i].result = NULL;
        trp_trial_free(&self->trials[i]);
    }
    trp_space_close(&self->space);
    trp_free(self->trials);
    trp_free(self->columns);
    trp_free(self->folder);
    trp_free(self->server);
    if (self->release != NULL)
        self->release(self->trainer);
    trp_free(self);
    *sweep = NULL;
}

size_t troupe_sweep_count(const troupe_sweep *sweep)
{
    if (TRP_IS_NULL(sweep))
        return 0;
    return (size_t)sweep->count;
}

const troupe_trial *troupe_sweep_trial(const troupe_sweep *sweep, size_t number)
{
    if (TRP_IS_NULL(sweep))
        return NULL;
    return number < (size_t)sweep->count ? &sweep->trials[number].view : NULL;
}

size_t troupe_sweep_stopped(const troupe_sweep *sweep)
{
    if (TRP_IS_NULL(sweep))
        return 0;
    size_t stopped = 0;
    for (int i = 0; i < sweep->count; i++)
        stopped += sweep->trials[i].view.state == TROUPE_TRIAL_STOPPED;
    return stopped;
}

const troupe_trial *troupe_sweep_best(const troupe_sweep *sweep)
{
    if (TRP_IS_NULL(sweep))
        return NULL;
    const troupe_trial *best = NULL;
    for (int i = 0; i < sweep->count; i++) {
        const troupe_trial *trial = &sweep->trials[i].view;
        double value = trial->best_metric;
        if (isnan(value))
            continue;
        if (best == NULL || (sweep->how.goal == TROUPE_MAXIMIZE ? value > best->best_metric
                                                                : value < best->best_metric))
            best = trial;
    }
    return best;
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
    trp_json_value(&json, sweep->trainer->config, config);
    return trp_spec_keep(trp_arena_current(), &json);
}

double troupe_sweep_elapsed_s(const troupe_sweep *sweep)
{
    if (TRP_IS_NULL(sweep))
        return 0;
    return sweep->elapsed_s;
}

void troupe_sweep_print(const troupe_sweep *sweep, FILE *out)
{
    if (TRP_IS_NULL(sweep) || TRP_IS_NULL(out))
        return;
    trp_arena arena = {0};
    trp_buffer text = {0};
    trp_table table;
    if (trp_sweep_facts(sweep, sweep->elapsed_s, sweep->ended_at, &arena, &table)) {
        trp_table_format(&table, &(trp_table_look){.width_max = WIDTH_MAX}, &text);
        if (!text.failed)
            fwrite(text.data, 1, text.size, out);
    }
    trp_buffer_free(&text);
    trp_arena_clear(&arena);
}
