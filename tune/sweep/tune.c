// tune.c: troupe_tune over the real Train.
#include <limits.h>
#include <runtime/base/arena.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/require.h>
#include <runtime/shm/process_table.h>
#include <string.h>
#include <troupe/run.h>
#include <troupe/server.h>
#include <tune/space/own.h>
#include <tune/sweep/best_mode.h>
#include <tune/sweep/sweep.h>

static troupe_status cpus_of_process(double *cpus)
{
    TROUPE_TRY(trp_process_check());
    *cpus = trp_process_options()->cpus;
    return TROUPE_OK;
}

static double gpus_of_process(void)
{
    return trp_process_options()->gpus;
}

static void job_status(troupe_job *job, troupe_job_status *status)
{
    troupe_job_status_get(job, status);
}

static troupe_status server_of_process(char **folder)
{
    char path[PATH_MAX];
    TROUPE_TRY(troupe_server_folder(path, sizeof path));
    *folder = trp_strdup(path);
    return *folder != NULL ? TROUPE_OK : troupe_fail(TROUPE_NO_MEMORY, "no memory for a path");
}

// Of that server, whatever jobs with the key this program has.
static troupe_status find_there(const char *key, const troupe_follower *follower,
                                const troupe_gate *gate, troupe_job **job)
{
    const troupe_find_options how = {
        .size = sizeof how, .follower = follower, .gate = gate, .server = TROUPE_SERVER_AUTO};
    return troupe_job_find_with(key, job, &how);
}

static troupe_status look(const char *run, const troupe_follower *follower, trp_left *left)
{
    troupe_run_left found;
    *left = (trp_left){0};
    trp_arena *before = trp_arena_swap(&left->arena);
    troupe_status status = troupe_run_left_get(run, follower, &found);
    (void)trp_arena_swap(before);
    if (status == TROUPE_OK)
        *left = (trp_left){.is_there = true,
                           .ended = found.ended,
                           .paused = found.paused,
                           .saving = found.saving,
                           .reports = found.reports,
                           .saved = found.saved,
                           .checkpoint = found.checkpoint,
                           .from = found.from,
                           .config = {found.config, strlen(found.config)},
                           .result = found.result,
                           .arena = left->arena};
    else
        trp_arena_clear(&left->arena);
    return status == TROUPE_NOT_FOUND ? trp_error_settled(TROUPE_OK) : status;
}

static int pid_of(troupe_job *job)
{
    troupe_job_status now;
    troupe_job_status_get(job, &now);
    return now.pid;
}

static void leave(troupe_job **job)
{
    trp_assert(troupe_job_leave(job) == TROUPE_OK);
}

const trp_sweep_port trp_sweep_train = {
    .now_ns = trp_clock_ns,
    .cpus = cpus_of_process,
    .gpus = gpus_of_process,
    .submit = troupe_submit_as,
    .server = server_of_process,
    .look = look,
    .find = find_there,
    .stop = troupe_job_stop,
    .pause = troupe_job_pause,
    .go_on = troupe_job_go_on,
    .resize = troupe_job_resize,
    .kill = troupe_job_kill,
    .wait = troupe_job_wait,
    .status = job_status,
    .pid = pid_of,
    .path = troupe_job_path,
    .close = troupe_job_close,
    .leave = leave,
    .result_status = troupe_result_status,
    .result_cause = troupe_result_cause,
    .result_stopped = troupe_result_stopped,
    .result_elapsed_s = troupe_result_elapsed_s,
    .result_free = troupe_result_free,
    .has_gates = true,
    .program = trp_best_program_note,
};

static troupe_status check(const troupe_trainer *trainer, const troupe_param *space, size_t count,
                           troupe_sweep **sweep, const troupe_tune_options *how)
{
    troupe_status status = TRP_IS_NULL(trainer)                  ? TRP_NULL(trainer)
                           : TRP_IS_NULL(sweep)                  ? TRP_NULL(sweep)
                           : count > 0 && TRP_IS_NULL(space)     ? TRP_NULL(space)
                           : TRP_IS_ABSURD(count, sizeof *space) ? TRP_ABSURD(count)
                                                                 : TROUPE_OK;
    if (sweep != NULL)
        *sweep = NULL;
    if (status == TROUPE_OK && how != NULL &&
        how->size >= offsetof(troupe_tune_options, stored) + sizeof how->stored &&
        how->stored != NULL)
        status = troupe_fail(TROUPE_INVALID, "option .stored is set: it is troupe_tune_stored's");
    if (status != TROUPE_OK)
        trp_sweep_consume(how);
    return status;
}

// Begins, or runs, a sweep over the space, or the trainer's own where there is none.
static troupe_status
over_space(troupe_status (*act)(const trp_sweep_port *port, const troupe_trainer *trainer,
                                const troupe_param *params, size_t count, troupe_sweep **sweep,
                                const troupe_tune_options *how),
           const troupe_trainer *trainer, const troupe_param *space, size_t count,
           troupe_sweep **sweep, const troupe_tune_options *how)
{
    troupe_param *own = NULL;
    TROUPE_TRY(check(trainer, space, count, sweep, how));
    troupe_status status = count == 0 ? trp_space_own_rows(trainer, &own, &count) : TROUPE_OK;
    if (status == TROUPE_OK)
        trp_best_mode_take(trainer, own != NULL ? own : space, count, how);
    if (status == TROUPE_OK)
        status = act(&trp_sweep_train, trainer, own != NULL ? own : space, count, sweep, how);
    else
        trp_sweep_consume(how);
    trp_free(own);
    return status;
}

troupe_status troupe_tune_as(const troupe_trainer *trainer, const troupe_param *space, size_t count,
                             troupe_sweep **sweep, const troupe_tune_options *how)
{
    return over_space(trp_sweep_run, trainer, space, count, sweep, how);
}

troupe_status troupe_sweep_start_as(const troupe_trainer *trainer, const troupe_param *space,
                                    size_t count, troupe_sweep **sweep,
                                    const troupe_tune_options *how)
{
    return over_space(trp_sweep_begin, trainer, space, count, sweep, how);
}
