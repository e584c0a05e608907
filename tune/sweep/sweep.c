// sweep.c: the life of a sweep: it is prepared in the thread that begins it, and run by an actor
// (controller.c) until it has ended.
#include <tune/sweep/sweep.h>

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/require.h>
#include <runtime/base/thread.h>
#include <runtime/host/file.h>
#include <runtime/host/folder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <tune/search/searcher.h>
#include <tune/space/dims.h>
#include <tune/sweep/control.h>
#include <tune/sweep/journal.h>
#include <tune/sweep/replay.h>
#include <tune/sweep/sweep_facts.h>
#include <unistd.h>

enum { TRIALS_DEFAULT = 10, LOOK_NS = 1000000000 };

static const char file_name[] = "trials.jsonl";

// ---- beginning

// Five hex digits of a sweep: FNV-1a over its folder's name and its seed, so that nothing in a
// trial's name is left to chance.
static unsigned sweep_digits(const char *folder, uint64_t seed)
{
    uint64_t hash = 0xcbf29ce484222325u;
    const char *slash = strrchr(folder, '/');
    for (const char *at = slash == NULL ? folder : slash + 1; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
    for (int i = 0; i < 8; i++)
        hash = (hash ^ (seed >> (8 * i) & 0xff)) * 0x100000001b3u;
    return (unsigned)((hash ^ hash >> 20 ^ hash >> 40) & 0xfffff);
}

// Reads the option columns: names between commas, spaces around them left out.
static troupe_status parse_columns(troupe_sweep *sweep)
{
    const char *at = sweep->how.columns;
    sweep->columns = trp_alloc(TRP_COLUMNS_MAX * sizeof *sweep->columns);
    if (sweep->columns == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a table");
    sweep->columns_given = at != NULL;
    while (at != NULL) {
        at += strspn(at, " ");
        size_t length = strcspn(at, ",");
        const char *next = at[length] == ',' ? at + length + 1 : NULL;
        while (length > 0 && at[length - 1] == ' ')
            length--;
        if (length < 1 || length >= TRP_METRIC_NAME || sweep->column_count == TRP_COLUMNS_MAX)
            return troupe_fail(TROUPE_INVALID,
                               "columns is \"%.200s\", must be 1 to %d names of 1 to %d bytes"
                               " separated by commas",
                               sweep->how.columns, TRP_COLUMNS_MAX, TRP_METRIC_NAME - 1);
        memcpy(sweep->columns[sweep->column_count++], at, length); // The rest is zero.
        at = next;
    }
    return TROUPE_OK;
}

// A grid of more than that many combinations is refused where all of them are asked for.
static troupe_status check_grid(const troupe_sweep *sweep, int points, int times)
{
    size_t count;
    const troupe_dim *dims = troupe_space_dims(sweep->space, &count);
    double size = times;
    for (size_t i = 0; i < count; i++) {
        double values = trp_dim_values(&dims[i]);
        if (dims[i].parent < 0) // The others count at some points alone.
            size *= values > 0 ? values : points;
    }
    if (size <= TRP_TRIALS_MAX)
        return TROUPE_OK;
    return troupe_fail(TROUPE_INVALID,
                       "trials is not set and the grid has %.0f combinations, more than %d", size,
                       TRP_TRIALS_MAX);
}

// What has grids by rows has each combination of them as often as is asked for, or once, and points
// to try first besides.
static troupe_status check_combinations(const troupe_sweep *sweep)
{
    const troupe_tune_options *how = &sweep->how;
    uint64_t combinations = trp_space_combinations(sweep->space);
    bool covered =
        how->searcher != NULL ? how->searcher->covers_grids : how->search == TROUPE_SEARCH_GRID;
    uint64_t most = (uint64_t)TRP_TRIALS_MAX - how->first_count;
    if (covered || combinations <= 1 ||
        (how->first_count < TRP_TRIALS_MAX && combinations <= most / (uint64_t)sweep->wanted))
        return TROUPE_OK;
    return troupe_fail(TROUPE_INVALID,
                       "%d trials for each of the %" PRIu64
                       " combinations of the space's grids, and "
                       "%zu points to try first: expected at most %d in all",
                       sweep->wanted, combinations, how->first_count, TRP_TRIALS_MAX);
}

// How many trials there are to be; 0: all of a grid.
static troupe_status settle_trials(troupe_sweep *sweep)
{
    const troupe_tune_options *how = &sweep->how;
    int times = 1, points = 0;
    if (how->searcher != NULL)
        points = trp_repeated_grid_points(how->searcher, &times);
    else if (how->search == TROUPE_SEARCH_GRID)
        points = how->grid_points;
    bool rows = trp_space_combinations(sweep->space) > 1;
    sweep->wanted = how->trials > 0 ? how->trials : points > 0 ? 0 : rows ? 1 : TRIALS_DEFAULT;
    return sweep->wanted == 0 ? check_grid(sweep, points, times) : check_combinations(sweep);
}

// Settles how many jobs there are at once. Train fills in the same defaults; here they tell how
// many fit and what the table shows.
static void settle_counts(troupe_sweep *sweep)
{
    troupe_tune_options *how = &sweep->how;
    troupe_train_options *train = &sweep->train;
    train->ranks = train->ranks == 0 ? 1 : train->ranks;
    train->cpus_per_rank = train->cpus_per_rank == 0 ? 1 : train->cpus_per_rank;
    if (how->concurrent == 0) {
        double fit = floor(sweep->cpus / (train->ranks * train->cpus_per_rank) + 1e-9);
        how->concurrent = fit >= 1 ? (int)fmin(fit, TRP_TRIALS_MAX) + 1 : 1;
    }
}

// Removes what a killed driver left half done in the trials of the sweep that had the name before.
static void clean_earlier(const char *folder, const char *name)
{
    trp_path earlier, trial;
    char suffix[24] = "";
    const char *last = strrchr(folder, '/'), *number = last + 1 + strlen(name);
    if (number[0] != '_') // It is the first.
        return;
    long before = strtol(number + 1, NULL, 10) - 1;
    if (before > 0)
        snprintf(suffix, sizeof suffix, "_%ld", before);
    if (trp_path_make(&earlier, "%.*s/%s%s", (int)(last - folder), folder, name, suffix) !=
        TROUPE_OK)
        return;
    troupe_error kept;
    trp_error_hold(&kept); // Who runs it still cleans it.
    DIR *trials = opendir(earlier.text);
    for (struct dirent *it; trials != NULL && (it = readdir(trials)) != NULL;) {
        if (it->d_name[0] != '.' &&
            trp_path_make(&trial, "%s/%s", earlier.text, it->d_name) == TROUPE_OK &&
            troupe_run_clean(trial.text) == TROUPE_IO)
            trp_log(TRP_INFO, "not everything that a killed trial left could be removed: %s",
                    troupe_last_error()->text);
    }
    if (trials != NULL)
        closedir(trials);
    trp_error_restore(&kept);
}

static troupe_status make_id(troupe_sweep *sweep)
{
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return trp_fail_errno(TROUPE_IO, "no random bytes for a sweep");
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(sweep->id + 2 * i, 3, "%02x", bytes[i]);
    return TROUPE_OK;
}

// The searcher and the scheduler are the study's from then on.
static troupe_status open_study(trp_control *control)
{
    troupe_sweep *sweep = control->sweep;
    troupe_tune_options *how = &sweep->how;
    troupe_goal goals[TRP_OBJECTIVES_MAX];
    for (size_t i = 0; i < sweep->objective_count; i++)
        goals[i] = sweep->objectives[i].goal;
    troupe_searcher *searcher = how->searcher;
    if (searcher == NULL && how->search == TROUPE_SEARCH_GRID)
        searcher = troupe_search_grid(how->grid_points);
    else if (searcher == NULL && how->search == TROUPE_SEARCH_RANDOM)
        searcher = troupe_search_random();
    const troupe_study_options options = {.size = sizeof options,
                                          .goals = goals,
                                          .goal_count = sweep->objective_count,
                                          .searcher = searcher,
                                          .scheduler = how->scheduler,
                                          .trials = sweep->wanted,
                                          .seed = how->seed,
                                          .first = how->first,
                                          .first_count = how->first_count,
                                          .allowed = how->allowed,
                                          .user = how->allowed_user,
                                          .warm = how->warm,
                                          .warm_count = how->warm_count};
    how->searcher = NULL;
    how->scheduler = NULL;
    TROUPE_TRY(trp_control_open_study(control, &options));
    snprintf(sweep->searcher, sizeof sweep->searcher, "%s", trp_study_searcher(control->study));
    return TROUPE_OK;
}

static troupe_status open_record(trp_control *control)
{
    troupe_sweep *sweep = control->sweep;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", sweep->folder, file_name);
    troupe_status status =
        trp_tune_record_open(path, sweep->how.open, &control->past, &control->record);
    if (status == TROUPE_BUSY)
        return troupe_fail(TROUPE_BUSY, "the sweep in %s is being run by another program",
                           sweep->folder);
    return status;
}

static troupe_status open_past(trp_control *control, const char *storage)
{
    troupe_sweep *sweep = control->sweep;
    bool make = sweep->how.open == TROUPE_OPEN_RESUME_OR_NEW;
    TROUPE_TRY(trp_folder_named(storage, sweep->how.name, make, &sweep->folder));
    control->begun = true; // There may be an earlier life's files in it.
    return open_record(control);
}

// The sweep of that name goes on, if there is one.
static troupe_status open_again(trp_control *control, const char *storage)
{
    troupe_sweep *sweep = control->sweep;
    troupe_status status = open_past(control, storage);
    if (status == TROUPE_NOT_FOUND) {
        troupe_error why = *troupe_last_error();
        return troupe_fail(status, "there is no sweep of that name to go on with: %s", why.text);
    }
    TROUPE_TRY(status);
    control->begun = control->past.size > 0;
    return control->past.size > 0
               ? trp_replay_check((const char *)control->past.data, control->past.size, sweep)
               : TROUPE_OK;
}

static troupe_status open_folder(trp_control *control)
{
    troupe_sweep *sweep = control->sweep;
    const char *storage = sweep->train.storage;
    if (storage != NULL && !trp_path_is_local(storage))
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "option .storage of a sweep is '%.200s': expected local files", storage);
    storage = storage != NULL ? trp_path_local(storage) : NULL;
    if (sweep->how.server == TROUPE_SERVER_AUTO) {
        TROUPE_TRY(make_id(sweep));
        TROUPE_TRY(sweep->port->server(&sweep->server));
    }
    if (sweep->how.open != TROUPE_OPEN_NEW)
        return open_again(control, storage);
    TROUPE_TRY(trp_folder_claim(storage, sweep->how.name, &sweep->folder));
    clean_earlier(sweep->folder, sweep->how.name);
    return open_record(control);
}

static troupe_status prepare(trp_control *control, const troupe_param *params, size_t count)
{
    troupe_sweep *sweep = control->sweep;
    troupe_tune_options *how = &sweep->how;
    const void *base = how->base != NULL ? how->base : sweep->trainer->defaults;
    if (sweep->space == NULL)
        TROUPE_TRY(
            troupe_space_open_as(sweep->trainer->config, params, count, base, &sweep->space));
    TROUPE_TRY(sweep->port->cpus(&sweep->cpus));
    sweep->gpus = sweep->port->gpus != NULL ? sweep->port->gpus() : 0;
    TROUPE_TRY(parse_columns(sweep));
    settle_counts(sweep);
    const troupe_scheduler *scheduler = how->scheduler != NULL ? how->scheduler : trp_fifo();
    snprintf(sweep->scheduler, sizeof sweep->scheduler, "%s",
             scheduler->describe == NULL ? "" : scheduler->describe);
    sweep->reports_most = scheduler->limit;
    TROUPE_TRY(settle_trials(sweep));
    TROUPE_TRY(open_folder(control));
    sweep->digits = sweep_digits(sweep->folder, how->seed);
    if (control->past.size == 0)
        trp_journal_first(control->record, sweep);
    TROUPE_TRY(open_study(control));
    int trials = trp_study_trials(control->study);
    sweep->wanted = trials > 0 ? trials : sweep->wanted;
    sweep->started_s -= control->earlier_s;
    if (how->time_budget_s > 0) { // Earlier lives have used some of it, or all.
        double left_s = how->time_budget_s - control->earlier_s;
        control->budget_ns = trp_sweep_now_ns(sweep) + (left_s > 0 ? (int64_t)(left_s * 1e9) : 0);
    }
    control->went_on = control->past.size > 0;
    return control->went_on ? trp_control_go_on(control) : TROUPE_OK;
}

// ---- its life

// Nobody has to do with a sweep that never began: it leaves no record.
static void free_control(trp_control *control, bool never_began)
{
    trp_progress_close(&control->progress);
    troupe_study_free(&control->study);
    if (never_began)
        trp_tune_record_remove(&control->record);
    trp_tune_record_close(&control->record);
    trp_events_close(&control->events);
    trp_buffer_free(&control->past);
    trp_free(control);
}

void trp_sweep_finish(trp_control *control, troupe_status status)
{
    troupe_sweep *sweep = control->sweep;
    sweep->elapsed_s = trp_sweep_now_s(sweep) - sweep->started_s;
    trp_time_of_day(sweep->ended_at);
    if (status != TROUPE_OK) {
        sweep->failure = *troupe_last_error(); // What follows may have failures of its own.
        trp_control_abandon(control);
    }
    trp_control_forget(control);
    bool begun = control->begun || status == TROUPE_OK;
    sweep->control = NULL;
    if (status == TROUPE_OK && control->progress.changed)
        trp_sweep_show(&control->progress, sweep, trp_sweep_now_ns(sweep));
    double before_s = trp_sweep_now_s(sweep);
    trp_control_close_ended(control, 0);
    trp_control_away(control);
    free_control(control, !begun); // Both may wait for a disk.
    if (status == TROUPE_OK)
        trp_sweep_say_end(sweep, trp_sweep_now_s(sweep) - before_s);
    trp_fair_lock_take(&sweep->lock);
    if (!begun && sweep->folder != NULL)
        rmdir(sweep->folder); // One with something in it stays.
    sweep->over = true;
    pthread_mutex_lock(&sweep->end_lock);
    sweep->is_told = true;
    pthread_cond_broadcast(&sweep->ended);
    pthread_mutex_unlock(&sweep->end_lock);
}

void trp_sweep_let_go(troupe_sweep *sweep)
{
    pthread_mutex_lock(&sweep->end_lock);
    sweep->held = false;
    pthread_cond_broadcast(&sweep->ended);
    pthread_mutex_unlock(&sweep->end_lock);
}

static trp_control *open_control(troupe_sweep *sweep)
{
    trp_control *control = trp_alloc(sizeof *control);
    if (control == NULL)
        return NULL;
    *control = (trp_control){.sweep = sweep, .best = (double)NAN};
    control->last_ready = &control->ready;
    control->last_ended = &control->ended;
    trp_events_open(&control->events);
    trp_progress_open(&control->progress, sweep->how.progress);
    sweep->started_s = trp_sweep_now_s(sweep);
    return control;
}

// Prepares it, and has it run.
static troupe_status launch(troupe_sweep *sweep, const troupe_param *params, size_t count)
{
    sweep->control = open_control(sweep);
    if (sweep->control == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a sweep");
    trp_fair_lock_take(&sweep->lock);
    troupe_status status = prepare(sweep->control, params, count);
    sweep->begun_s = trp_sweep_now_s(sweep);
    if (status == TROUPE_OK)
        status = trp_controller_start(sweep->control);
    if (status != TROUPE_OK) {
        trp_sweep_finish(sweep->control, status);
        trp_error_set(&sweep->failure);
    }
    trp_fair_lock_give(&sweep->lock);
    return status;
}

static void open_lock(troupe_sweep *sweep)
{
    trp_fair_lock_open(&sweep->lock);
    pthread_mutex_init(&sweep->end_lock, NULL);
    trp_cond_open(&sweep->ended);
}

static troupe_status begin(const trp_sweep_port *port, const troupe_trainer *trainer,
                           const troupe_param *params, size_t count, troupe_sweep **sweep,
                           troupe_sweep *given)
{
    given->port = port;
    given->trainer = trainer;
    troupe_sweep *made = trp_alloc(sizeof *made);
    if (made == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a sweep");
    *made = *given;
    given->how.scheduler = NULL;
    given->how.searcher = NULL;
    given->space = NULL;
    open_lock(made);
    troupe_status status = launch(made, params, count);
    if (status == TROUPE_OK)
        *sweep = made;
    else
        troupe_sweep_free(&made);
    return status;
}

// `given` has what is said beside the options.
static troupe_status begin_with(const trp_sweep_port *port, const troupe_trainer *trainer,
                                const troupe_param *params, size_t count, troupe_sweep **sweep,
                                const troupe_tune_options *how, troupe_sweep *given)
{
    if (sweep == NULL) {
        trp_sweep_consume(how);
        return troupe_fail(TROUPE_INVALID, "`sweep` must not be NULL");
    }
    *sweep = NULL;
    troupe_status status = trp_sweep_options(trainer, how, given);
    if (status != TROUPE_OK) {
        trp_sweep_consume(how);
        return status;
    }
    status = begin(port, trainer, params, count, sweep, given);
    troupe_scheduler_free(&given->how.scheduler);
    troupe_searcher_free(&given->how.searcher);
    return status;
}

troupe_status trp_sweep_begin(const trp_sweep_port *port, const troupe_trainer *trainer,
                              const troupe_param *params, size_t count, troupe_sweep **sweep,
                              const troupe_tune_options *how)
{
    return begin_with(port, trainer, params, count, sweep, how, &(troupe_sweep){0});
}

troupe_status trp_sweep_begin_json(const trp_sweep_port *port, const troupe_trainer *trainer,
                                   troupe_space *space, const char *noted, troupe_sweep **sweep,
                                   const troupe_tune_options *how)
{
    troupe_sweep given = {.space = space, .of_json = true, .noted = noted};
    troupe_status status = begin_with(port, trainer, NULL, 0, sweep, how, &given);
    troupe_space_free(&given.space);
    return status;
}

troupe_status trp_sweep_await(troupe_sweep **sweep)
{
    troupe_status status = troupe_sweep_wait(*sweep, -1);
    if ((*sweep)->failure.status != TROUPE_OK) {
        troupe_error failure = (*sweep)->failure;
        troupe_sweep_free(sweep);
        trp_error_set(&failure);
    }
    return status;
}

troupe_status trp_sweep_run(const trp_sweep_port *port, const troupe_trainer *trainer,
                            const troupe_param *params, size_t count, troupe_sweep **sweep,
                            const troupe_tune_options *how)
{
    TROUPE_TRY(trp_sweep_begin(port, trainer, params, count, sweep, how));
    return trp_sweep_await(sweep);
}

// ---- from other threads

typedef struct waits {
    troupe_sweep *sweep;
    int timeout_ms;
} waits;

// Waits for a flag of the sweep's, which `ended` tells of, and looks after its controller now and
// then: the actor may have been killed.
static bool await_flag(troupe_sweep *sweep, const bool *flag, bool wanted, int64_t until_ns)
{
    pthread_mutex_lock(&sweep->end_lock);
    for (int64_t now; *flag != wanted && (now = trp_clock_ns()) < until_ns;) {
        int64_t next = until_ns - now > LOOK_NS ? now + LOOK_NS : until_ns;
        const struct timespec deadline = {.tv_sec = next / 1000000000,
                                          .tv_nsec = next % 1000000000};
        int error = pthread_cond_timedwait(&sweep->ended, &sweep->end_lock, &deadline);
        if (error != ETIMEDOUT || *flag == wanted || next == until_ns)
            continue;
        pthread_mutex_unlock(&sweep->end_lock);
        trp_controller_look_after(sweep->seat);
        pthread_mutex_lock(&sweep->end_lock);
    }
    bool is = *flag == wanted;
    pthread_mutex_unlock(&sweep->end_lock);
    return is;
}

static troupe_status await_over(void *user)
{
    troupe_sweep *sweep = ((const waits *)user)->sweep;
    int timeout_ms = ((const waits *)user)->timeout_ms;
    int64_t until_ns = timeout_ms < 0 ? INT64_MAX : trp_clock_ns() + (int64_t)timeout_ms * 1000000;
    if (!await_flag(sweep, &sweep->is_told, true, until_ns))
        return troupe_fail(TROUPE_TIMED_OUT, "the sweep has not ended within %d ms", timeout_ms);
    return TROUPE_OK;
}

static troupe_status verdict(const troupe_sweep *sweep)
{
    const trp_trial *first = NULL;
    int failed = 0;
    for (int i = 0; i < sweep->count; i++) {
        if (sweep->trials[i]->view.state != TROUPE_TRIAL_ERROR)
            continue;
        first = first == NULL ? sweep->trials[i] : first;
        failed++;
    }
    if (failed == 0 || (failed < sweep->count && sweep->best != NULL))
        return TROUPE_OK;
    if (failed == sweep->count)
        return troupe_fail(TROUPE_FAILED, "all trials failed (%d); the first, %s: %s", failed,
                           first->view.name, first->view.error);
    return troupe_fail(TROUPE_FAILED,
                       "no trial has a value of %s, and %d of %d failed; the first of these, %s: "
                       "%s",
                       trp_sweep_metric(sweep), failed, sweep->count, first->view.name,
                       first->view.error);
}

troupe_status troupe_sweep_wait(troupe_sweep *sweep, int timeout_ms)
{
    if (TRP_IS_NULL(sweep))
        return TRP_NULL(sweep);
    TROUPE_TRY(troupe_blocking_call(await_over, &(waits){sweep, timeout_ms}));
    if (sweep->failure.status == TROUPE_OK)
        return verdict(sweep);
    trp_error_set(&sweep->failure);
    return sweep->failure.status;
}

// What is wished of the controller is seen to at its next turn.
static void wish(troupe_sweep *sweep, bool stop, bool pause)
{
    trp_fair_lock_take(&sweep->lock);
    trp_control *control = sweep->control;
    if (control != NULL) {
        control->halts = control->halts || stop;
        control->pauses = pause;
        trp_controller_rouse(control);
    }
    trp_fair_lock_give(&sweep->lock);
}

void troupe_sweep_stop(troupe_sweep *sweep)
{
    if (!TRP_IS_NULL(sweep))
        wish(sweep, true, false);
}

void troupe_sweep_pause(troupe_sweep *sweep)
{
    if (!TRP_IS_NULL(sweep))
        wish(sweep, false, true);
}

void troupe_sweep_go_on(troupe_sweep *sweep)
{
    if (!TRP_IS_NULL(sweep))
        wish(sweep, false, false);
}

static troupe_status add(troupe_sweep *sweep, int trials)
{
    trp_control *control = sweep->control;
    int now = sweep->wanted > sweep->count ? sweep->wanted : sweep->count;
    int each = control != NULL ? trp_study_combinations(control->study) : 1;
    int most = (TRP_TRIALS_MAX - now) / each;
    if ((trials < 1 || trials > most) && each > 1)
        return troupe_fail(TROUPE_INVALID,
                           "%d more trials than %d: expected 1 to %d, of each of %d combinations",
                           trials, now, most, each);
    if (trials < 1 || trials > most)
        return troupe_fail(TROUPE_INVALID, "%d more trials than %d: expected 1 to %d", trials, now,
                           most);
    if (control == NULL || control->halts || control->halted || control->shelves)
        return troupe_fail(TROUPE_STOPPED, "the sweep in %s has ended, or is being stopped",
                           sweep->folder);
    TROUPE_TRY(trp_study_extend_by(control->study, trials));
    int wanted = trp_study_trials(control->study);
    sweep->wanted = wanted > 0 ? wanted : sweep->wanted;
    control->progress.changed = true;
    trp_controller_rouse(control);
    return TROUPE_OK;
}

troupe_status troupe_sweep_add(troupe_sweep *sweep, int trials)
{
    if (TRP_IS_NULL(sweep))
        return TRP_NULL(sweep);
    trp_fair_lock_take(&sweep->lock);
    troupe_status status = add(sweep, trials);
    trp_fair_lock_give(&sweep->lock);
    return status;
}

static void clear_trials(troupe_sweep *sweep)
{
    for (int i = 0; i < sweep->count; i++) {
        trp_trial *trial = sweep->trials[i];
        if (trial->result != NULL)
            sweep->port->result_free(&trial->result);
        trial->result = NULL;
        trp_trial_free(trial);
        trp_free(trial);
    }
    trp_free(sweep->trials);
    while (sweep->kept != NULL) {
        trp_kept *first = sweep->kept;
        sweep->kept = first->next;
        sweep->port->result_free(&first->result);
        trp_free(first);
    }
}

static troupe_status await_let_go(void *user)
{
    troupe_sweep *sweep = user;
    (void)await_flag(sweep, &sweep->held, false, INT64_MAX);
    return TROUPE_OK;
}

// Its controller ends, if it has not.
static void close_control(troupe_sweep *sweep)
{
    trp_fair_lock_take(&sweep->lock);
    if (sweep->control != NULL) {
        sweep->control->closes = true;
        trp_controller_rouse(sweep->control);
    }
    trp_fair_lock_give(&sweep->lock);
    if (troupe_blocking_call(await_let_go, sweep) != TROUPE_OK) // Too many methods wait.
        (void)await_let_go(sweep);
}

void troupe_sweep_free(troupe_sweep **sweep)
{
    if (sweep == NULL || *sweep == NULL)
        return;
    troupe_sweep *self = *sweep;
    close_control(self);
    clear_trials(self);
    troupe_space_free(&self->space);
    trp_arena_clear(&self->arena);
    trp_free(self->columns);
    trp_free(self->folder);
    trp_free(self->server);
    troupe_scheduler_free(&self->how.scheduler); // Where it never came to the study.
    troupe_searcher_free(&self->how.searcher);
    if (self->release != NULL)
        self->release(self->trainer);
    pthread_cond_destroy(&self->ended);
    pthread_mutex_destroy(&self->end_lock);
    trp_fair_lock_close(&self->lock);
    trp_free(self);
    *sweep = NULL;
}
