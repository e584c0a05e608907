// options.c: checks the options of a sweep and fills in their defaults.
#include <math.h>
#include <runtime/base/options_take.h>
#include <string.h>
#include <tune/sweep/sweep.h>

enum { GRID_POINTS_MAX = 100000, NAME_BYTES = 128 };

static troupe_status check_name(const char *name)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                  "._-";
    size_t length = strlen(name);
    if (length < 1 || length > NAME_BYTES || strspn(name, allowed) != length || name[0] == '.')
        return troupe_fail(TROUPE_INVALID,
                           "name is \"%.140s\", must be 1 to %d letters, digits, '.', '_' or '-', "
                           "not beginning with a dot",
                           name, NAME_BYTES);
    return TROUPE_OK;
}

static troupe_status check_goal(troupe_goal goal)
{
    if (goal == TROUPE_MINIMIZE || goal == TROUPE_MAXIMIZE)
        return TROUPE_OK;
    return troupe_fail(TROUPE_INVALID, "goal is %d, must be TROUPE_MINIMIZE or TROUPE_MAXIMIZE",
                       (int)goal);
}

static troupe_status check_metric(const char *metric)
{
    if (metric == NULL || metric[0] == '\0')
        return troupe_fail(TROUPE_INVALID,
                           "metric is missing; it must name a metric that every report has");
    if (strlen(metric) >= TRP_METRIC_NAME)
        return troupe_fail(TROUPE_INVALID, "metric is \"%.80s\", longer than %d bytes", metric,
                           TRP_METRIC_NAME - 1);
    return TROUPE_OK;
}

static troupe_status check_numbers(const troupe_tune_options *how)
{
    if (how->trials < 0 || how->trials > TRP_TRIALS_MAX)
        return troupe_fail(TROUPE_INVALID, "trials is %d, must be 1 to %d", how->trials,
                           TRP_TRIALS_MAX);
    if (how->concurrent < 0)
        return troupe_fail(TROUPE_INVALID, "concurrent is %d, must be at least 1", how->concurrent);
    if (how->search < TROUPE_SEARCH_AUTO || how->search > TROUPE_SEARCH_RANDOM)
        return troupe_fail(TROUPE_INVALID, "search is %d, must be one of TROUPE_SEARCH_...",
                           (int)how->search);
    if (how->search != TROUPE_SEARCH_AUTO && how->searcher != NULL)
        return troupe_fail(TROUPE_INVALID, "both search and searcher are given: expected one");
    if (how->retries < 0)
        return troupe_fail(TROUPE_INVALID, "retries is %d, must be at least 0", how->retries);
    if (how->patience < 0)
        return troupe_fail(TROUPE_INVALID, "patience is %d, must be at least 0", how->patience);
    if (!(how->time_budget_s >= 0 && how->time_budget_s <= TRP_TRIAL_TIMEOUT_MAX_S))
        return troupe_fail(TROUPE_INVALID,
                           "time_budget_s is %g, must be 0 (any time) to %d seconds",
                           how->time_budget_s, TRP_TRIAL_TIMEOUT_MAX_S);
    if (how->target != NULL && isnan(*how->target))
        return troupe_fail(TROUPE_INVALID, "target is NaN: expected a value of the metric");
    if (!(how->trial_timeout_s >= 0 && how->trial_timeout_s <= TRP_TRIAL_TIMEOUT_MAX_S))
        return troupe_fail(TROUPE_INVALID,
                           "trial_timeout_s is %g, must be 0 (no limit) to %d seconds",
                           how->trial_timeout_s, TRP_TRIAL_TIMEOUT_MAX_S);
    if (how->grid_points < 0 || how->grid_points > GRID_POINTS_MAX)
        return troupe_fail(TROUPE_INVALID, "grid_points is %d, must be 1 to %d", how->grid_points,
                           GRID_POINTS_MAX);
    if (how->grid_points > 0 && how->search != TROUPE_SEARCH_GRID)
        return troupe_fail(TROUPE_INVALID,
                           "grid_points is %d, and search is not TROUPE_SEARCH_GRID, which it is "
                           "for",
                           how->grid_points);
    return TROUPE_OK;
}

// Whose the trials are, in both.
static troupe_status choose_server(troupe_tune_options *how, troupe_train_options *train)
{
    if (how->server < TROUPE_SERVER_DEFAULT || how->server > TROUPE_SERVER_NONE)
        return troupe_fail(TROUPE_INVALID, "server is %d, must be one of TROUPE_SERVER_...",
                           (int)how->server);
    if (how->open < TROUPE_OPEN_NEW || how->open > TROUPE_OPEN_RESUME_OR_NEW)
        return troupe_fail(TROUPE_INVALID, "open is %d, must be one of TROUPE_OPEN_...",
                           (int)how->open);
    if (how->server == TROUPE_SERVER_DEFAULT)
        how->server = train->server;
    if (how->server !=
        TROUPE_SERVER_AUTO) // Trials end with this program, and go on with the next one.
        how->server = TROUPE_SERVER_NONE;
    train->server = how->server;
    if (train->key != NULL) // All trials would be the first one's job.
        return troupe_fail(TROUPE_INVALID,
                           "train.key is \"%.140s\": expected none, as each trial is a job of its "
                           "own",
                           train->key);
    return TROUPE_OK;
}

static troupe_status take_objectives(const troupe_tune_options *how, troupe_sweep *sweep)
{
    const troupe_objective one = {how->metric, how->goal};
    const troupe_objective *of = how->objective_count > 0 ? how->objectives : &one;
    const size_t count = of == &one ? 1 : how->objective_count;
    if (how->objective_count > TRP_OBJECTIVES_MAX)
        return troupe_fail(TROUPE_INVALID, "objective_count is %zu, must be at most %d",
                           how->objective_count, TRP_OBJECTIVES_MAX);
    if (how->objectives != NULL && how->objective_count == 0)
        return troupe_fail(TROUPE_INVALID,
                           "objectives is set, and objective_count is 0: expected how many there "
                           "are");
    if (how->objective_count > 0 && (how->objectives == NULL || how->metric != NULL))
        return troupe_fail(TROUPE_INVALID,
                           how->metric != NULL
                               ? "both metric and objectives are given: expected one"
                               : "objectives is NULL, and objective_count is not 0");
    for (size_t i = 0; i < count; i++) {
        TROUPE_TRY(check_metric(of[i].metric));
        TROUPE_TRY(check_goal(of[i].goal));
        for (size_t j = 0; j < i; j++)
            if (strcmp(of[i].metric, of[j].metric) == 0)
                return troupe_fail(TROUPE_INVALID, "objectives has the metric %s twice",
                                   of[i].metric);
        sweep->objectives[i].goal = of[i].goal;
        strcpy(sweep->objectives[i].metric, of[i].metric);
    }
    sweep->objective_count = count;
    return TROUPE_OK;
}

static troupe_status check_parts(const troupe_tune_options *how)
{
    if (how->scheduler != NULL && how->scheduler->refusal != TROUPE_OK)
        return troupe_fail(how->scheduler->refusal, "%s", how->scheduler->describe);
    if (how->searcher != NULL && how->searcher->refusal != TROUPE_OK)
        return troupe_fail(how->searcher->refusal, "%s", how->searcher->name);
    if ((how->first_count > 0 && how->first == NULL) || (how->warm_count > 0 && how->warm == NULL))
        return troupe_fail(TROUPE_INVALID, "%s is NULL, and its count is not 0",
                           how->warm_count > 0 && how->warm == NULL ? "warm" : "first");
    return TROUPE_OK;
}

troupe_status trp_sweep_options(const troupe_trainer *trainer, const troupe_tune_options *how,
                                troupe_sweep *sweep)
{
    troupe_tune_options options;
    troupe_train_options *train = &sweep->train;
    if (trainer == NULL)
        return troupe_fail(TROUPE_INVALID, "the trainer is NULL");
    if (trainer->abi != TROUPE_ABI)
        return troupe_fail(TROUPE_VERSION,
                           "the trainer was compiled for generation %u of the library, this is %u",
                           trainer->abi, TROUPE_ABI);
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_tune", options, how));
    TROUPE_TRY(TRP_OPTIONS_TAKE(".train of troupe_tune", *train, options.train));
    TROUPE_TRY(take_objectives(&options, sweep));
    TROUPE_TRY(choose_server(&options, train));
    TROUPE_TRY(check_numbers(&options));
    TROUPE_TRY(check_parts(&options));
    if (train->name != NULL)
        return troupe_fail(TROUPE_INVALID,
                           "train.name is \"%.140s\", but trials are named by the sweep; its own"
                           " folder is the option name",
                           train->name);
    options.name = options.name == NULL ? trainer->name : options.name;
    TROUPE_TRY(check_name(options.name));
    options.seed = options.seed == 0 ? 1 : options.seed;
    options.grid_points = options.grid_points == 0 ? 3 : options.grid_points;
    train->size = sizeof *train;
    options.train = NULL; // Its copy is used.
    sweep->how = options;
    return TROUPE_OK;
}

void trp_sweep_consume(const troupe_tune_options *how)
{
    troupe_tune_options options = {0};
    if (how == NULL)
        return;
    size_t size = how->size < sizeof options ? how->size : sizeof options;
    memcpy(&options, how, size);
    troupe_scheduler_free(&options.scheduler);
    troupe_searcher_free(&options.searcher);
}
