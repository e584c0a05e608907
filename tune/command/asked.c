// asked.c: see tune/command/asked.h.
#include <tune/command/asked.h>

#include <runtime/base/options_take.h>
#include <string.h>

static troupe_status take_goals(trp_sweep_asked *asked)
{
    troupe_tune_options *how = &asked->how;
    const trp_sweep_file *file = &asked->file;
    if (how->metric != NULL || how->goal != TROUPE_GOAL_NONE || how->objectives != NULL)
        return troupe_fail(TROUPE_INVALID,
                           "a metric and a goal are given beside those of the file: expected them "
                           "there alone");
    if (file->objective_count < 2) {
        how->metric = file->metric;
        how->goal = file->goal;
        return TROUPE_OK;
    }
    for (size_t i = 0; i < file->objective_count; i++)
        asked->objectives[i] =
            (troupe_objective){.metric = file->metrics[i], .goal = file->goals[i]};
    how->objectives = asked->objectives;
    how->objective_count = file->objective_count;
    return TROUPE_OK;
}

// What the caller has not said, the file says.
static troupe_status fill_options(trp_sweep_asked *asked)
{
    troupe_tune_options *how = &asked->how;
    const trp_sweep_file *file = &asked->file;
    TROUPE_TRY(take_goals(asked));
    how->size = sizeof *how;
    how->trials = how->trials != 0 ? how->trials : file->trials;
    how->concurrent = how->concurrent != 0 ? how->concurrent : file->concurrent;
    how->retries = how->retries != 0 ? how->retries : file->retries;
    how->seed = how->seed != 0 ? how->seed : file->seed;
    how->time_budget_s = how->time_budget_s != 0 ? how->time_budget_s : file->time_budget_s;
    how->trial_timeout_s = how->trial_timeout_s != 0 ? how->trial_timeout_s : file->trial_timeout_s;
    how->name = how->name != NULL ? how->name : file->name;
    how->columns = how->columns != NULL ? how->columns : file->columns;
    how->target = how->target != NULL ? how->target : file->target;
    how->patience = how->patience != 0 ? how->patience : file->patience;
    if (how->first == NULL) {
        how->first = file->first;
        how->first_count = file->first_count;
    }
    if (how->allowed == NULL && file->constraints.count > 0) {
        how->allowed = trp_constraints_allow;
        how->allowed_user = &asked->file.constraints;
    }
    if (how->warm == NULL) {
        how->warm = file->warm;
        how->warm_count = file->warm_count;
    }
    if (file->server && how->server == TROUPE_SERVER_DEFAULT)
        how->server = TROUPE_SERVER_AUTO;
    troupe_train_options *train = &asked->train;
    TROUPE_TRY(TRP_OPTIONS_TAKE("the trials of a sweep", *train, how->train));
    train->size = sizeof *train;
    train->storage = train->storage != NULL ? train->storage : file->storage;
    train->cpus_per_rank = train->cpus_per_rank != 0 ? train->cpus_per_rank : file->cpus;
    train->gpus_per_rank = train->gpus_per_rank != 0 ? train->gpus_per_rank : file->gpus;
    how->train = train;
    return TROUPE_OK;
}

troupe_status trp_sweep_asked_read(const char *what, const char *json, bool own_space,
                                   const troupe_tune_options *how, trp_arena *arena,
                                   trp_sweep_asked *asked)
{
    size_t size = strlen(json) + 1; // Texts of the file may point into it.
    char *copy = trp_arena_alloc(arena, size);
    *asked = (trp_sweep_asked){0};
    if (copy == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a sweep");
    memcpy(copy, json, size);
    TROUPE_TRY(TRP_OPTIONS_TAKE(what, asked->how, how));
    TROUPE_TRY(trp_sweep_file_read(copy, size - 1, own_space, arena, &asked->file));
    return fill_options(asked);
}

void trp_sweep_asked_choose(trp_sweep_asked *asked)
{
    trp_sweep_file *file = &asked->file;
    troupe_tune_options *how = &asked->how;
    if (how->searcher == NULL) {
        how->searcher = file->searcher;
        file->searcher = NULL;
    }
    if (how->scheduler == NULL) {
        how->scheduler = file->scheduler;
        file->scheduler = NULL;
    }
}
