// options.c: checks the options of a sweep and fills in their defaults.
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
    if (how->goal != TROUPE_MINIMIZE && how->goal != TROUPE_MAXIMIZE)
        return troupe_fail(TROUPE_INVALID, "goal is %d, must be TROUPE_MINIMIZE or TROUPE_MAXIMIZE",
                           (int)how->goal);
    if (how->trials < 0 || how->trials > TRP_TRIALS_MAX)
        return troupe_fail(TROUPE_INVALID, "trials is %d, must be 1 to %d", how->trials,
                           TRP_TRIALS_MAX);
    if (how->concurrent < 0)
        return troupe_fail(TROUPE_INVALID, "concurrent is %d, must be at least 1", how->concurrent);
    if (how->search != TROUPE_SEARCH_RANDOM && how->search != TROUPE_SEARCH_GRID)
        return troupe_fail(TROUPE_INVALID,
                           "search is %d, must be TROUPE_SEARCH_RANDOM or TROUPE_SEARCH_GRID",
                           (int)how->search);
    if (!(how->trial_timeout_s >= 0 && how->trial_timeout_s <= TRP_TRIAL_TIMEOUT_MAX_S))
        return troupe_fail(TROUPE_INVALID,
                           "trial_timeout_s is %g, must be 0 (no limit) to %d seconds",
                           how->trial_timeout_s, TRP_TRIAL_TIMEOUT_MAX_S);
    if (how->grid_points < 0 || how->grid_points > GRID_POINTS_MAX)
        return troupe_fail(TROUPE_INVALID, "grid_points is %d, must be 1 to %d", how->grid_points,
                           GRID_POINTS_MAX);
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
    if (how->server != TROUPE_SERVER_AUTO) // The sweep decides here, and ends with this program.
        how->server = TROUPE_SERVER_NONE;
    train->server = how->server;
    if (how->server == TROUPE_SERVER_NONE && how->open != TROUPE_OPEN_NEW)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "open is given, and the trials end with this program: expected server "
                           "to be TROUPE_SERVER_AUTO");
    if (how->server == TROUPE_SERVER_AUTO && train->key != NULL)
        return troupe_fail(TROUPE_INVALID,
                           "train.key is \"%.140s\", but trials of a train server have keys of the "
                           "sweep",
                           train->key);
    return TROUPE_OK;
}

troupe_status trp_sweep_options(const troupe_trainer *trainer, const troupe_tune_options *how,
                                troupe_tune_options *filled, troupe_train_options *train)
{
    troupe_tune_options options;
    if (trainer == NULL)
        return troupe_fail(TROUPE_INVALID, "the trainer is NULL");
    if (trainer->abi != TROUPE_ABI)
        return troupe_fail(TROUPE_VERSION,
                           "the trainer was compiled for generation %u of the library, this is %u",
                           trainer->abi, TROUPE_ABI);
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_tune", options, how));
    TROUPE_TRY(TRP_OPTIONS_TAKE(".train of troupe_tune", *train, options.train));
    TROUPE_TRY(check_metric(options.metric));
    TROUPE_TRY(choose_server(&options, train));
    TROUPE_TRY(check_numbers(&options));
    if (options.scheduler != NULL && options.scheduler->refusal != TROUPE_OK)
        return troupe_fail(options.scheduler->refusal, "%s", options.scheduler->describe);
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
    *filled = options;
    return TROUPE_OK;
}
