// makers.c: see tune/command/makers.h.
#include <tune/command/makers.h>

#include <runtime/base/error.h>
#include <stdio.h>
#include <string.h>

// What an object of JSON may say of each: fields of the constructors' options, by their names.
TROUPE_STRUCT(tpe_members, (int, startup), (int, candidates), (bool, univariate),
              (bool, multivariate), (bool, no_liar), (bool, budgets));
TROUPE_STRUCT(cmaes_members, (int, population), (double, sigma), (bool, restarts));
TROUPE_STRUCT(gp_members, (int, startup));
TROUPE_STRUCT(nsga2_members, (int, population), (double, crossover), (double, swap),
              (double, mutation));
TROUPE_STRUCT(grid_members, (int, points));
TROUPE_STRUCT(no_members, (bool, unused_));
TROUPE_STRUCT(asha_members, (int, grace), (int, reduction), (int, limit), (bool, promote),
              (int, brackets), (bool, as_ray));
TROUPE_STRUCT(hyperband_members, (int, limit), (int, reduction), (bool, as_ray));
TROUPE_STRUCT(median_members, (int, grace), (int, samples), (int, limit));
TROUPE_STRUCT(pbt_members, (int, interval), (int, burn_in), (double, quantile), (double, resample),
              (double, up), (double, down), (int, limit), (bool, synchronous), (troupe_text, log),
              (troupe_text, mutate));
TROUPE_STRUCT(pbt_replay_members, (troupe_text, log), (int, trial));
TROUPE_STRUCT(stop_members, (int, reports), (double, elapsed_s), (int, patience), (double, margin),
              (int, plateau), (double, deviation), (int, grace));
TROUPE_STRUCT(beside_searcher, (int, repeats));

typedef union members {
    tpe_members tpe;
    cmaes_members cmaes;
    gp_members gp;
    nsga2_members nsga2;
    grid_members grid;
    asha_members asha;
    hyperband_members hyperband;
    median_members median;
    pbt_members pbt;
    pbt_replay_members pbt_replay;
} members;

static troupe_searcher *make_auto(const members *m)
{
    (void)m;
    return troupe_search_auto();
}

static troupe_searcher *make_random(const members *m)
{
    (void)m;
    return troupe_search_random();
}

static troupe_searcher *make_sobol(const members *m)
{
    (void)m;
    return troupe_search_sobol();
}

static troupe_searcher *make_grid(const members *m)
{
    return troupe_search_grid(m->grid.points);
}

static troupe_searcher *make_tpe(const members *m)
{
    return troupe_search_tpe(.startup = m->tpe.startup, .candidates = m->tpe.candidates,
                             .univariate = m->tpe.univariate, .multivariate = m->tpe.multivariate,
                             .no_liar = m->tpe.no_liar, .budgets = m->tpe.budgets);
}

static troupe_searcher *make_cmaes(const members *m)
{
    return troupe_search_cmaes(.population = m->cmaes.population, .sigma = m->cmaes.sigma,
                               .restarts = m->cmaes.restarts);
}

static troupe_searcher *make_gp(const members *m)
{
    return troupe_search_gp(.startup = m->gp.startup);
}

static troupe_searcher *make_nsga2(const members *m)
{
    return troupe_search_nsga2(.population = m->nsga2.population, .crossover = m->nsga2.crossover,
                               .swap = m->nsga2.swap, .mutation = m->nsga2.mutation);
}

static troupe_scheduler *make_asha(const members *m)
{
    return troupe_asha(.grace = m->asha.grace, .reduction = m->asha.reduction,
                       .limit = m->asha.limit, .promote = m->asha.promote,
                       .brackets = m->asha.brackets, .as_ray = m->asha.as_ray);
}

static troupe_scheduler *make_hyperband(const members *m)
{
    return troupe_hyperband(.limit = m->hyperband.limit, .reduction = m->hyperband.reduction,
                            .as_ray = m->hyperband.as_ray);
}

static troupe_scheduler *make_median(const members *m)
{
    return troupe_median(.grace = m->median.grace, .samples = m->median.samples,
                         .limit = m->median.limit);
}

static troupe_scheduler *make_pbt(const members *m)
{
    const pbt_members *p = &m->pbt;
    return troupe_pbt(.interval = p->interval, .burn_in = p->burn_in, .quantile = p->quantile,
                      .resample = p->resample, .up = p->up, .down = p->down, .limit = p->limit,
                      .synchronous = p->synchronous, .log = p->log, .mutate = p->mutate);
}

static troupe_scheduler *make_pbt_replay(const members *m)
{
    return troupe_pbt_replay(m->pbt_replay.log, m->pbt_replay.trial);
}

typedef struct maker {
    const char *name;
    const troupe_type *type;
    troupe_searcher *(*searcher)(const members *);
    troupe_scheduler *(*scheduler)(const members *);
} maker;

static const maker searchers[] = {
    {"auto", &troupe_type_no_members, make_auto, NULL},
    {"random", &troupe_type_no_members, make_random, NULL},
    {"sobol", &troupe_type_no_members, make_sobol, NULL},
    {"grid", &troupe_type_grid_members, make_grid, NULL},
    {"tpe", &troupe_type_tpe_members, make_tpe, NULL},
    {"cmaes", &troupe_type_cmaes_members, make_cmaes, NULL},
    {"gp", &troupe_type_gp_members, make_gp, NULL},
    {"nsga2", &troupe_type_nsga2_members, make_nsga2, NULL},
};
static const maker schedulers[] = {
    {"fifo", &troupe_type_no_members, NULL, NULL},
    {"asha", &troupe_type_asha_members, NULL, make_asha},
    {"hyperband", &troupe_type_hyperband_members, NULL, make_hyperband},
    {"median", &troupe_type_median_members, NULL, make_median},
    {"pbt", &troupe_type_pbt_members, NULL, make_pbt},
    {"pbt_replay", &troupe_type_pbt_replay_members, NULL, make_pbt_replay},
};
enum {
    SEARCHERS = sizeof searchers / sizeof *searchers,
    SCHEDULERS = sizeof schedulers / sizeof *schedulers,
};

// Which of them is meant; *options: what is said of it. Where there is only what may stand `beside`
// one, it is the first of them.
static troupe_status find(trp_json how, const char *what, const maker *makers, size_t count,
                          const char *beside, const maker **found, trp_json *options)
{
    char names[160] = "";
    size_t used = 0, named = 0;
    *found = NULL;
    for (size_t i = 0; i < count; i++) {
        trp_json has;
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "",
                                 makers[i].name);
        bool is = trp_json_is_object(how) ? trp_json_member(how, makers[i].name, &has)
                                          : trp_json_equals(how, makers[i].name);
        if (!is)
            continue;
        named++;
        *found = &makers[i];
        *options = trp_json_is_object(how) ? has : (trp_json){"{}", 2};
    }
    if (named == 0 && trp_json_is_object(how) && trp_json_member(how, beside, options)) {
        *found = &makers[0];
        *options = (trp_json){"{}", 2};
        named = 1;
    }
    if (named != 1)
        return troupe_fail(TROUPE_INVALID,
                           "\"%s\" is %.*s: expected %s of %s, as a name or as {\"name\": "
                           "{options}}",
                           what, how.size < 80 ? (int)how.size : 80, how.at,
                           named > 1 ? "no more than one" : "one", names);
    if (!trp_json_is_object(*options))
        return troupe_fail(TROUPE_WRONG_TYPE, "the options of %s are %.*s: expected an object",
                           (*found)->name, options->size < 80 ? (int)options->size : 80,
                           options->at);
    const char *const known[] = {(*found)->name, beside, NULL};
    if (trp_json_is_object(how))
        TROUPE_TRY(trp_sweep_members_known(how, NULL, known, what));
    bool none = (*found)->type == &troupe_type_no_members;
    return trp_sweep_members_known(*options, none ? NULL : (*found)->type, NULL, (*found)->name);
}

troupe_status trp_make_searcher(trp_json how, trp_arena *arena, troupe_searcher **searcher)
{
    const maker *found;
    trp_json options;
    members given = {0};
    beside_searcher beside = {0};
    TROUPE_TRY(find(how, "searcher", searchers, SEARCHERS, "repeats", &found, &options));
    TROUPE_TRY(trp_json_read(found->type, options, arena, &given));
    bool repeats = trp_json_is_object(how) && trp_json_member(how, "repeats", &options);
    if (repeats)
        TROUPE_TRY(trp_json_read(&troupe_type_beside_searcher, how, arena, &beside));
    *searcher = found->searcher(&given);
    if (repeats)
        *searcher = troupe_search_repeat(*searcher, beside.repeats);
    if ((*searcher)->refusal == TROUPE_OK)
        return TROUPE_OK;
    troupe_status status = troupe_fail((*searcher)->refusal, "%s", (*searcher)->name);
    troupe_error failure = *troupe_last_error();
    troupe_searcher_free(searcher);
    trp_error_set(&failure);
    return status;
}

// Puts what stops trials around a scheduler, which may be NULL.
static troupe_status add_stop(trp_json stop, trp_arena *arena, troupe_scheduler **scheduler)
{
    stop_members m = {0};
    TROUPE_TRY(trp_sweep_members_known(stop, &troupe_type_stop_members, NULL, "\"stop\""));
    TROUPE_TRY(trp_json_read(&troupe_type_stop_members, stop, arena, &m));
    troupe_stop_when when = {.size = sizeof when,
                             .reports = m.reports,
                             .elapsed_s = m.elapsed_s,
                             .patience = m.patience,
                             .margin = m.margin,
                             .plateau = m.plateau,
                             .deviation = m.deviation,
                             .grace = m.grace};
    *scheduler = troupe_stopping(*scheduler, &when);
    return TROUPE_OK;
}

troupe_status trp_make_scheduler(trp_json how, trp_arena *arena, troupe_scheduler **scheduler)
{
    const maker *found;
    trp_json options, stop;
    members given = {0};
    troupe_scheduler *made = NULL;
    TROUPE_TRY(find(how, "scheduler", schedulers, SCHEDULERS, "stop", &found, &options));
    TROUPE_TRY(trp_json_read(found->type, options, arena, &given));
    if (found->scheduler != NULL)
        made = found->scheduler(&given);
    troupe_status status = TROUPE_OK;
    if ((made == NULL || made->refusal == TROUPE_OK) && trp_json_member(how, "stop", &stop))
        status = add_stop(stop, arena, &made);
    if (status == TROUPE_OK && made != NULL && made->refusal != TROUPE_OK)
        status = troupe_fail(made->refusal, "%s", made->describe);
    if (status != TROUPE_OK) {
        troupe_error failure = *troupe_last_error();
        troupe_scheduler_free(&made);
        trp_error_set(&failure);
        return status;
    }
    *scheduler = made; // NULL: first in, first out.
    return TROUPE_OK;
}
