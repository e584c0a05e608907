// attempt.c: how an attempt begins: its group, its processes, what it goes on from.
#include <actors/actor/lifecycle.h>
#include <actors/ref/ref.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <string.h>
#include <train/capability.h>
#include <train/job_live.h>
#include <train/run.h>
#include <train/run_data.h>
#include <train/start.h>
#include <troupe/async.h>

void trp_rank_watch_drop(trp_rank_watch *told)
{
    if (!told)
        return;
    trp_job_release(told->job);
    trp_free(told);
}

static void rank_ended(void *user, troupe_ref ref)
{
    (void)ref;
    trp_rank_watch *told = (trp_rank_watch *)user;
    if (!trp_life_post_to(told->coordinator.address, &troupe_class_trp_coordinator,
                          troupe_method_trp_coordinator_ended.index, &told->event))
        atomic_store(&told->job->missed, true); // Or it has ended, and nobody waits any more.
    trp_rank_watch_drop(told);
}

static troupe_status make_group(trp_run *run, int first_report)
{
    int world = run->world;
    void *memory;
    size_t size = trp_control_size(run->engine, world);
    TROUPE_TRY(trp_store_share(size, &run->region_object, &memory));
    run->control = trp_control_init(memory, run->engine, world, first_report);
    trp_job_set_control(run->job, run->control);
    return TROUPE_OK;
}

bool trp_rank_is_there(const trp_rank_state *state)
{
    char reason[112];
    troupe_actor worker = state->worker.address;
    return worker.id && !state->killed && !state->to_kill &&
           trp_process_alive(worker.process, worker.incarnation, reason);
}

static void take_worker(trp_run *run, int rank, trp_worker_actor worker, trp_place place)
{
    trp_rank_state *state = &run->ranks[rank];
    troupe_actor address = worker.address;
    state->worker = worker;
    state->place = place;
    state->pid = address.id ? trp_process_pid(address.process) : 0;
    if (rank % run->job->options.ranks_per_process == 0) // What its process prints.
        trp_rank_log_follow(run->logs, rank, run->world, run->attempt, address);
}

// Starts those that were not kept. Who could not be started says so when it is called.
static troupe_status spawn_workers(trp_run *run)
{
    size_t world = (size_t)run->world;
    trp_worker_actor *workers = (trp_worker_actor *)trp_alloc(world * sizeof(*workers));
    trp_place *places = (trp_place *)trp_alloc(world * sizeof(*places));
    bool *there = (bool *)trp_alloc(world * sizeof(*there));
    for (size_t rank = 0; there && rank < world; rank++)
        there[rank] = run->ranks[rank].kept;
    troupe_status status = workers && places && there
                               ? trp_workers_start(run->job, there, places, workers)
                               : troupe_fail(TROUPE_NO_MEMORY, "no memory for a group of workers");
    bool kept = false;
    for (size_t rank = 0; there && rank < world; rank++)
        kept = kept || there[rank];
    if (status == TROUPE_OK && kept)
        trp_rank_logs_go_on();
    for (size_t rank = 0; status == TROUPE_OK && rank < world; rank++) {
        if (!there[rank])
            take_worker(run, (int)rank, workers[rank], places[rank]);
        else if (rank % (size_t)run->job->options.ranks_per_process == 0)
            trp_rank_log_go_on(run->logs, (int)rank, run->attempt);
    }
    trp_free(workers);
    trp_free(places);
    trp_free(there);
    return status;
}

// What ranks make their data of; nothing where the driver does.
static trp_data_plan data_plan_of(const trp_job *job)
{
    const troupe_data_table *table = job->data_table;
    if (table == NULL || table->where == TROUPE_IN_DRIVER)
        return (trp_data_plan){0};
    return (trp_data_plan){.name = table->name,
                           .schema = troupe_type_hash(table->source),
                           .source = {job->data.bytes.data, job->data.bytes.size},
                           .refs = {job->data.refs, job->data.ref_count},
                           .share = job->spec.data_share};
}

static void call_loops(trp_run *run, const trp_buffer *live, uint32_t live_revision)
{
    trp_job *job = run->job;
    const char *origin = run->origin.text;
    trp_task task = {
        .world = run->world,
        .attempt = run->attempt,
        .first_report = run->first_report,
        .timeout_ms = job->options.collective_timeout_ms,
        .keep = job->options.keep,
        .checkpoint_every = job->options.checkpoint_every,
        .restarts = job->options.restarts,
        .cpus = job->options.cpus_per_rank,
        .trainer = job->trainer->name,
        .schema = troupe_type_hash(job->trainer->config),
        .config = {job->config.bytes.data, job->config.bytes.size},
        .refs = {job->config.refs, job->config.ref_count},
        .live = {live->data, live->size},
        .live_revision = live_revision,
        .region = {.id = run->region_object},
        .coordinator = run->self,
        .origin = origin[0] ? origin : NULL,
        .run = job->folder,
        .epoch = job->opening.epoch,
        .metadata = job->options.metadata,
        .data = {run->data.items, run->data.count},
        .data_plan = data_plan_of(job),
        .rank_metrics = job->options.rank_metrics,
        .gate = job->spec.gate,
    };
    int together = job->options.ranks_per_process;
    run->pending = task.world;
    for (int rank = 0; rank < task.world; rank++) {
        troupe_ref state = {0};
        task.rank = rank;
        task.first = rank / together * together;
        task.together = task.world - task.first < together ? task.world - task.first : together;
        task.place = run->ranks[rank].place;
        if (run->from_memory) {
            state.id = trp_memory_commit_state(run->memory.last, rank);
            task.state = (troupe_array_troupe_ref){&state, 1};
        }
        run->ranks[rank].end = troupe_call_from(run->ranks[rank].worker, trp_worker_run, &task);
    }
    for (int rank = 0; rank < task.world; rank++) {
        trp_rank_watch *told = run->ranks[rank].told;
        run->ranks[rank].told = NULL;
        trp_ref_when(run->ranks[rank].end, rank_ended, told);
    }
}

void trp_attempt_run_ranks(trp_run *run)
{
    trp_buffer live = {0};
    uint32_t revision;
    troupe_status status = trp_job_live_begin(run->job, run->first_report - 1, &live, &revision);
    if (status == TROUPE_OK) {
        call_loops(run, &live, revision);
    } else {
        trp_run_note_cause(run, -1, status, true, troupe_last_error()->text);
        trp_attempt_over(run);
    }
    trp_buffer_free(&live);
}

// Makes what will be needed for sure before anything is started. From here on it is known who is
// kept.
static troupe_status make_watches(trp_run *run)
{
    for (int rank = 0; rank < run->world; rank++) {
        trp_rank_watch *told = (trp_rank_watch *)trp_alloc(sizeof(*told));
        if (!told)
            return troupe_fail(TROUPE_NO_MEMORY, "no memory to watch rank %d", rank);
        trp_job_hold(run->job);
        *told = (trp_rank_watch){run->job, run->self, {run->attempt, rank}};
        trp_rank_watch_drop(run->ranks[rank].told);
        trp_rank_state *state = &run->ranks[rank];
        int first = rank - rank % run->job->options.ranks_per_process; // All of a process, or none.
        bool kept = rank == first ? trp_rank_is_there(state) : run->ranks[first].kept;
        *state = kept ? (trp_rank_state){.worker = state->worker,
                                         .place = state->place,
                                         .pid = state->pid,
                                         .kept = true}
                      : (trp_rank_state){.kept = false};
        state->told = told;
    }
    return TROUPE_OK;
}

// What the attempt goes on from: of the commit in memory and the newest checkpoint that can be used
// the newer one.
static troupe_status find_origin(trp_run *run, trp_path *origin, int *last_report)
{
    const trp_memory_commit *commit = run->memory.last;
    origin->text[0] = '\0';
    *last_report = -1;
    if (!commit || commit->report < run->record.newest)
        TROUPE_TRY(trp_record_origin(&run->record, origin, last_report));
    run->from_memory = commit && commit->report >= *last_report;
    if (run->from_memory) {
        origin->text[0] = '\0';
        *last_report = commit->report;
        return trp_memory_commit_world(commit, run->job->trainer, run->world);
    }
    return origin->text[0] && run->last_world != run->world
               ? trp_capability_world(run->job->trainer, origin->text, run->world)
               : TROUPE_OK;
}

static troupe_status prepare(trp_run *run, trp_path *origin, int *first_report)
{
    int last_report;
    TROUPE_TRY(trp_alive_check(run->job->opening.alive, run->job->folder));
    if (run->attempt > run->first_attempt) // Else the opening has done so.
        TROUPE_TRY(trp_run_clean(run->job));
    TROUPE_TRY(find_origin(run, origin, &last_report));
    trp_memory_commits_drop_open(&run->memory);
    if (last_report < run->lost) // It is made again.
        run->lost = 0;
    TROUPE_TRY(
        trp_reports_start(&run->reports, run->world, last_report, run->job->options.rank_metrics));
    TROUPE_TRY(make_watches(run));
    *first_report = last_report + 1;
    return make_group(run, *first_report);
}

static void tell_group(const trp_run *run)
{
    trp_job *job = run->job;
    int count = run->world;
    trp_console_rank *ranks = (trp_console_rank *)trp_alloc((size_t)count * sizeof(*ranks));
    for (int rank = 0; ranks && rank < count; rank++) {
        const trp_rank_state *state = &run->ranks[rank];
        ranks[rank] =
            (trp_console_rank){state->pid, state->place.local_rank, state->place.node_rank};
    }
    if (ranks)
        trp_job_say_group(job, ranks, count);
    trp_free(ranks);
}

// In the journal.
static void put_down_attempt(const trp_run *run)
{
    int world = run->world;
    bool again = run->restarted; // The cause of the last end is known still.
    int *pids = (int *)trp_alloc((size_t)world * sizeof(*pids));
    bool *kept = (bool *)trp_alloc((size_t)world * sizeof(*kept));
    for (int rank = 0; pids && rank < world; rank++)
        pids[rank] = run->ranks[rank].pid;
    for (int rank = 0; kept && rank < world; rank++)
        kept[rank] = run->ranks[rank].kept;
    trp_run_journal_attempt(&run->job->opening.journal,
                            &(trp_attempt_event){
                                .attempt = run->attempt,
                                .report = run->first_report - 1,
                                .checkpoint = run->origin.text[0] ? run->origin.text : NULL,
                                .elapsed_s = trp_job_elapsed_s(run->job),
                                .memory = run->from_memory,
                                .pids = pids,
                                .kept = again ? kept : NULL,
                                .ranks = world,
                                .cause = again ? run->cause.text : NULL,
                                .cause_rank = run->cause.rank,
                                .cause_status = run->cause.status,
                            });
    trp_free(pids);
    trp_free(kept);
}

// "; rank 1 is replaced, 3 ranks keep their processes", where some do.
static void add_kept(const trp_run *run, trp_buffer *text)
{
    int world = run->world, kept = 0, told = 0;
    for (int rank = 0; rank < world; rank++)
        kept += run->ranks[rank].kept;
    if (kept == 0)
        return;
    if (kept < world)
        trp_buffer_printf(text, "; rank%s", world - kept == 1 ? "" : "s");
    for (int rank = 0; rank < world; rank++)
        if (!run->ranks[rank].kept)
            trp_buffer_printf(text, "%s %d", told++ == 0 ? "" : ",", rank);
    if (kept < world)
        trp_buffer_printf(text, " %s replaced,", world - kept == 1 ? "is" : "are");
    trp_buffer_printf(text, "%s %d rank%s", kept < world ? "" : ";", kept,
                      kept == 1 ? " keeps its process" : "s keep their processes");
}

// Why the group was restarted (what ended the last one is known still), its processes, and what
// they go on from.
static void tell_start(const trp_run *run, const char *origin)
{
    const char *name = strrchr(origin, '/');
    trp_buffer text = {0};
    trp_buffer_printf(&text, "the group is restarted (restart %d", run->restarts);
    if (run->world != run->last_world)
        trp_buffer_printf(&text, ", with %d rank%s", run->world, run->world == 1 ? "" : "s");
    trp_buffer_printf(&text, ") from ");
    if (run->from_memory)
        trp_buffer_printf(&text, "report %d, in memory", run->memory.last->report);
    else
        trp_buffer_printf(&text, "%s", name ? name + 1 : "the beginning");
    add_kept(run, &text);
    if (run->restarted)
        trp_job_say(run->job, TRP_WARN, "%s: %.*s", run->cause.text, (int)text.size,
                    text.failed ? "" : (const char *)text.data);
    trp_buffer_free(&text);
    tell_group(run);
    if (origin[0])
        trp_job_say(run->job, TRP_INFO, "%s continues from %s", run->job->path, origin);
}

// Whether the run was to end while it waited, between two attempts, or while its data were made.
static bool is_wanted(trp_run *run)
{
    if (trp_run_finish_given_up(run))
        return false;
    if (trp_job_stopping(run->job)) {
        run->stopped = true;
        trp_run_finish(run, TROUPE_OK);
        return false;
    }
    if (trp_job_leaves(run->job)) {
        trp_run_rest(run, 0);
        return false;
    }
    return true;
}

// How many ranks the attempt has, and room for their states. None runs.
static troupe_status set_world(trp_run *run, int world)
{
    if (world > run->room) {
        trp_rank_state *more = (trp_rank_state *)trp_alloc((size_t)world * sizeof(*more));
        if (!more)
            return troupe_fail(TROUPE_NO_MEMORY, "no memory for %d ranks", world);
        if (run->room > 0)
            memcpy(more, run->ranks, (size_t)run->room * sizeof(*more));
        trp_free(run->ranks);
        run->ranks = more;
        run->room = world;
    }
    run->world = world;
    return TROUPE_OK;
}

void trp_attempt_start(trp_run *run)
{
    trp_data_drop(&run->data); // Of the attempt before.
    if (!is_wanted(run) || !trp_attempt_are_gone(run, TRP_NEXT_ATTEMPT))
        return;
    troupe_status status = set_world(run, run->job->world);
    run->cause.known = false;
    run->stopped = false;
    run->ranks_leave = false;
    run->suspect = false;
    run->unstarted = 0;
    if (status == TROUPE_OK)
        status = trp_run_begin_stage(run, TRP_STAGE_DATA);
    if (!run->stage)
        trp_attempt_data_made(run, status);
}

void trp_attempt_data_made(trp_run *run, troupe_status status)
{
    if (!is_wanted(run))
        return;
    if (status == TROUPE_OK && run->data.count > 0)
        status = trp_run_put_data(run->job, &run->data);
    if (status == TROUPE_OK)
        status = prepare(run, &run->origin, &run->first_report);
    if (status == TROUPE_OK)
        status = spawn_workers(run);
    if (status != TROUPE_OK) {
        trp_attempt_leave_group(run);
        if (!trp_run_rest_as_before(run, status))
            trp_run_fail(run, status);
        return;
    }
    const char *origin = run->origin.text;
    put_down_attempt(run);
    run->begun = true;
    run->shuts_down = trp_stage_is_there(run->job, TRP_STAGE_SHUTDOWN);
    tell_start(run, origin);
    run->last_world = run->world;
    trp_job_set_state(run->job, TROUPE_JOB_RUNNING);
    run->restarted = false;
    status = trp_run_begin_stage(run, TRP_STAGE_START);
    if (!run->stage)
        trp_run_group_started(run, status);
}
