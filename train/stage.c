// stage.c: running a stage of a trainer in the driver (see train/stage.h), and troupe_execute.
#include <actors/actor/lifecycle.h>
#include <actors/ref/ref_visit.h>
#include <runtime/base/arena.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/require.h>
#include <runtime/base/thread.h>
#include <runtime/codec/pack.h>
#include <stdio.h>
#include <train/config.h>
#include <train/coordinator.h>
#include <train/job_live.h>
#include <train/stage.h>

struct trp_stage {
    troupe_group group; // First: it is what the user's code holds.
    _Atomic int holds;
    trp_stage_plan plan; // The job is held.
    trp_stage_rank *ranks;
    trp_data_sets data; // That DATA names.
    // How it ended: written before `over` is released.
    troupe_status status;
    char text[600];
    _Atomic bool over;
};

// The stage that this thread runs.
static _Thread_local trp_stage *current;

static const troupe_stages none;

static const troupe_stages *stages_of(const troupe_trainer *trainer)
{
    return trainer->stages ? trainer->stages : &none;
}

bool trp_stage_is_there(const trp_job *job, trp_stage_kind kind)
{
    const troupe_stages *stages = stages_of(job->trainer);
    switch (kind) {
    case TRP_STAGE_DATA:
        return job->data_table != NULL && job->data_table->where == TROUPE_IN_DRIVER;
    case TRP_STAGE_SETUP:
        return stages->setup != NULL;
    case TRP_STAGE_START:
        return stages->on_start != NULL;
    case TRP_STAGE_SHUTDOWN:
        return stages->on_shutdown != NULL;
    }
    return false;
}

bool trp_stage_is_early(trp_stage_kind kind)
{
    return kind == TRP_STAGE_SETUP || kind == TRP_STAGE_DATA;
}

void trp_stage_take_data(trp_stage *stage, trp_data_sets *sets)
{
    *sets = stage->data;
    stage->data = (trp_data_sets){0};
}

void trp_stage_leave(trp_stage **held)
{
    trp_stage *stage = *held;
    *held = NULL;
    if (!stage || atomic_fetch_sub(&stage->holds, 1) > 1)
        return;
    trp_data_drop(&stage->data);
    trp_job_release(stage->plan.job);
    trp_free(stage->ranks);
    trp_free(stage);
}

bool trp_stage_over(trp_stage *stage, troupe_status *status)
{
    if (!atomic_load(&stage->over))
        return false;
    *status =
        stage->status == TROUPE_OK ? TROUPE_OK : troupe_fail(stage->status, "%s", stage->text);
    return true;
}

// ---- the stage's thread

static troupe_status call_hook(trp_stage *stage, const void *config)
{
    const trp_job *job = stage->plan.job;
    const troupe_stages *stages = stages_of(job->trainer);
    if (stage->plan.kind == TRP_STAGE_START)
        return stages->on_start(&stage->group, config);
    if (stage->plan.kind == TRP_STAGE_SHUTDOWN)
        return stages->on_shutdown(&stage->group, config);
    troupe_setup at = {
        .path = job->path,
        .metadata = job->options.metadata,
        .ranks = job->world,
        .resumed = job->opening.epoch > 1,
    };
    return stages->setup(&at, config);
}

static troupe_status make_data(trp_stage *stage, const void *source)
{
    const trp_job *job = stage->plan.job;
    troupe_data about = {
        .path = job->path,
        .metadata = job->options.metadata,
        .ranks = job->world,
        .attempt = stage->plan.attempt,
        .rank = -1,
    };
    return trp_data_make(job->data_table, &about, source, job->spec.data_share, &stage->data);
}

// The references in what it is given are the job's: this stage is lent them.
static troupe_status run_stage(trp_stage *stage)
{
    const trp_job *job = stage->plan.job;
    bool of_data = stage->plan.kind == TRP_STAGE_DATA;
    void *given;
    uint64_t lent;
    troupe_status status = of_data ? trp_packed_lend(&job->data, job->data_table->source,
                                                     "the source of data", &given, &lent)
                                   : trp_packed_lend(&job->config, job->trainer->config,
                                                     "the config of a stage", &given, &lent);
    if (status == TROUPE_OK)
        status = of_data ? TROUPE_OK : trp_job_live_read(stage->plan.job, given);
    if (status == TROUPE_OK)
        status = of_data ? make_data(stage, given) : call_hook(stage, given);
    troupe_error said;
    trp_error_hold(&said);
    trp_refs_return(lent);
    trp_error_restore(&said);
    return status;
}

static void *stage_main(void *user)
{
    static const char *const names[] = {"setup of trainer", "setup of data", "on_start of trainer",
                                        "on_shutdown of trainer"};
    trp_stage *stage = (trp_stage *)user;
    const trp_stage_plan *plan = &stage->plan;
    current = stage;
    stage->status = run_stage(stage);
    current = NULL;
    // A hook may return a status without having said why.
    const troupe_error *last = troupe_last_error();
    bool said = last->status == stage->status && last->text[0];
    snprintf(stage->text, sizeof stage->text, "%s '%s' failed: %.400s", names[plan->kind],
             plan->kind == TRP_STAGE_DATA ? plan->job->data_table->name : plan->job->trainer->name,
             said ? last->text : troupe_strerror(stage->status));
    troupe_arena_reset();
    atomic_store(&stage->over, true);
    if (!trp_life_post_to(plan->coordinator.address, &troupe_class_trp_coordinator,
                          troupe_method_trp_coordinator_look.index, &(troupe_none){0}))
        atomic_store(&plan->job->missed, true); // Or it has ended, and nobody waits any more.
    trp_stage_leave(&stage);
    return NULL;
}

troupe_status trp_stage_begin(const trp_stage_plan *plan, trp_stage **begun)
{
    pthread_t thread;
    size_t world = (size_t)plan->job->world;
    trp_stage *stage = (trp_stage *)trp_alloc(sizeof *stage);
    trp_stage_rank *ranks = (trp_stage_rank *)trp_alloc(world * sizeof *ranks);
    if (!stage || !ranks) {
        trp_free(stage);
        trp_free(ranks);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a stage of '%s'",
                           plan->job->trainer->name);
    }
    trp_job_hold(plan->job);
    *stage = (trp_stage){
        .group = {.world = (int)world, .attempt = plan->attempt, .ended = plan->ended},
        .holds = 2,
        .plan = *plan,
        .ranks = ranks,
    };
    for (size_t rank = 0; plan->ranks && rank < world; rank++) {
        ranks[rank] = plan->ranks[rank];
        stage->group.left += ranks[rank].worker.address.id != 0;
    }
    stage->plan.ranks = NULL;
    troupe_status status = trp_thread_start(&thread, "troupe-stage", stage_main, stage);
    if (status != TROUPE_OK) {
        stage->holds = 1;
        trp_stage_leave(&stage);
        return status;
    }
    pthread_detach(thread);
    *begun = stage;
    return TROUPE_OK;
}

// ---- functions of ranks

static int time_left(const trp_stage *stage)
{
    int64_t until_ms = stage->plan.until_ms, now_ms = trp_clock_ms();
    if (until_ms == 0)
        return TROUPE_FOREVER;
    return until_ms > now_ms ? (int)(until_ms - now_ms) : TROUPE_POLL;
}

// Waits for the function in one rank. A rank that is lost is not asked again.
static troupe_status take_end(trp_stage *stage, int rank, troupe_ref answer)
{
    trp_worker_end end;
    troupe_status status = troupe_get(trp_worker_end, answer, &end, time_left(stage));
    if (status == TROUPE_TIMED_OUT) {
        troupe_ref_drop(answer);
        return troupe_fail(TROUPE_DEADLINE_EXCEEDED, "rank %d has not ended in time", rank);
    }
    if (status == TROUPE_NOT_EXECUTED || status == TROUPE_MAYBE_EXECUTED) {
        stage->ranks[rank].worker = (trp_worker_actor){0};
        stage->group.left--;
        return troupe_fail(TROUPE_PEER_LOST, "rank %d was lost: %.400s", rank,
                           troupe_last_error()->text);
    }
    if (status != TROUPE_OK)
        return troupe_fail(status, "rank %d: %.400s", rank, troupe_last_error()->text);
    if (end.status != TROUPE_OK)
        return troupe_fail((troupe_status)end.status, "rank %d: %s", rank, end.text);
    return TROUPE_OK;
}

static troupe_status execute_all(trp_stage *stage, trp_rank_function *what, troupe_ref *answers)
{
    troupe_status first = TROUPE_OK;
    troupe_error why = {0};
    for (int rank = 0; rank < stage->group.world; rank++) {
        const trp_stage_rank *to = &stage->ranks[rank];
        what->place = to->place;
        if (to->worker.address.id)
            answers[rank] = troupe_call_from(to->worker, trp_worker_execute, what);
    }
    for (int rank = 0; rank < stage->group.world; rank++) {
        if (!stage->ranks[rank].worker.address.id)
            continue;
        troupe_status status = take_end(stage, rank, answers[rank]);
        if (status != TROUPE_OK && first == TROUPE_OK) {
            first = status;
            trp_error_hold(&why);
        }
    }
    if (first != TROUPE_OK)
        trp_error_restore(&why);
    return first;
}

troupe_status troupe_execute_as(const troupe_trainer *function, troupe_group *group,
                                const void *argument)
{
    TRP_REQUIRE(function);
    TRP_REQUIRE(group);
    TRP_REQUIRE(argument);
    trp_stage *stage = current;
    if (!stage || group != &stage->group)
        return troupe_fail(TROUPE_INVALID, "troupe_execute was not called by on_start or "
                                           "on_shutdown with that call's group");
    if (!function->run)
        return troupe_fail(TROUPE_INVALID,
                           "troupe_execute: '%s' is a trainer: expected a function "
                           "made by TROUPE_RANK_FUNCTION",
                           function->name);
    if (trp_config_refs(function->config, argument) > 0)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "troupe_execute: the argument of '%s' has references: expected none",
                           function->name);
    trp_buffer packed = {0};
    troupe_ref *answers = (troupe_ref *)trp_alloc((size_t)group->world * sizeof *answers);
    troupe_status status = trp_pack(function->config, argument, &packed);
    if (status == TROUPE_OK && (packed.failed || !answers))
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory to execute '%s'", function->name);
    trp_rank_function what = {
        .attempt = group->attempt,
        .name = function->name,
        .schema = troupe_type_hash(function->config),
        .argument = {packed.data, packed.size},
    };
    if (status == TROUPE_OK)
        status = execute_all(stage, &what, answers);
    trp_buffer_free(&packed);
    trp_free(answers);
    return status;
}
