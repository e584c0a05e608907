// web_importance.c: see web_importance.h.
#include <server/web_importance.h>

#include <math.h>
#include <runtime/base/error.h>
#include <server/web_json.h>
#include <string.h>
#include <tune/why/trials.h>

enum { TRIALS_MIN = 10 }; // Of fewer it would be chance.

static trp_seen_trial *trial_of(trp_trials *trials, const web_trial *it)
{
    trp_seen_trial *made = trp_arena_alloc(&trials->arena, sizeof *made);
    if (made == NULL)
        return NULL;
    *made = (trp_seen_trial){.name = it->name, .state = TRP_TRIALS_TERMINATED};
    made->values[0] = it->has_best ? it->best : (double)NAN;
    if (strcmp(it->state, "ERROR") == 0)
        made->state = TRP_TRIALS_ERROR;
    trp_json config;
    if (it->config != NULL && trp_json_parse(it->config, strlen(it->config), &config) == TROUPE_OK)
        made->config = config;
    return made;
}

// The kept trials, as they would have been read from the record.
static bool gather(const web_sweep *sweep, trp_trials *trials)
{
    bool maximize = sweep->goal != NULL && strcmp(sweep->goal, "maximize") == 0;
    *trials = (trp_trials){.file = sweep->folder, .objectives = 1};
    trials->goals[0] = maximize ? TROUPE_MAXIMIZE : TROUPE_MINIMIZE;
    trp_seen_trial **list = trp_arena_alloc(&trials->arena, (sweep->count + 1) * sizeof *list);
    for (size_t i = 0; list != NULL && i < sweep->count; i++) {
        list[trials->count] = trial_of(trials, sweep->trials[i]);
        if (list[trials->count] == NULL)
            return false;
        trials->count += list[trials->count]->config.size > 0;
    }
    trials->trials = list;
    return list != NULL && trp_trials_columns(trials) == TROUPE_OK;
}

static void write_shares(trp_buffer *out, const trp_trials *trials, double *importance)
{
    double sum = 0;
    for (size_t i = 0; i < trials->column_count; i++)
        sum += importance[i];
    web_begin(out, "importance", '[');
    for (size_t left = trials->column_count; sum > 0 && left > 0; left--) {
        size_t most = 0;
        for (size_t i = 1; i < trials->column_count; i++)
            if (importance[i] > importance[most])
                most = i;
        web_begin(out, NULL, '{');
        web_text(out, "name", trials->columns[most].name);
        web_number(out, "share", importance[most] / sum);
        web_end(out, '}');
        importance[most] = -1;
    }
    web_end(out, ']');
}

void web_importance(trp_buffer *out, const web_sweep *sweep)
{
    trp_trials trials;
    const troupe_importance_options how = {.size = sizeof how};
    double importance[TRP_TRIALS_COLUMNS];
    size_t scored = 0;
    troupe_error kept;
    for (size_t i = 0; i < sweep->count; i++)
        scored += sweep->trials[i]->has_best;
    if (scored < TRIALS_MIN)
        return;
    trp_error_hold(&kept);
    if (gather(sweep, &trials) && trp_trials_importance(&trials, &how, importance) == TROUPE_OK)
        write_shares(out, &trials, importance);
    trials.trials = NULL; // The arena's.
    trp_trials_free(&trials);
    trp_error_restore(&kept);
}
