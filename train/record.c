// record.c: committing, delivering and remembering a run's reports.
#include <inttypes.h>
#include <math.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <runtime/codec/msgpack.h>
#include <runtime/codec/unpack.h>
#include <stdio.h>
#include <string.h>
#include <train/capability.h>
#include <train/record.h>

void trp_record_close(trp_record *record)
{
    trp_retention_free(&record->retention);
    trp_arena_clear(&record->arena);
    trp_buffer_free(&record->value);
}

void trp_record_return(trp_record *record, troupe_bytes value, uint64_t schema)
{
    trp_buffer_free(&record->value);
    trp_buffer_append(&record->value, value.data, value.size);
    record->value_schema = schema;
}

static void warn_of_missing_metric(const char *name, const trp_manifest *manifest)
{
    trp_buffer text = {0};
    for (size_t i = 0; i < manifest->metrics.count; i++)
        trp_buffer_printf(&text, "%s%s", i ? ", " : "", manifest->metrics.items[i].name);
    bool any = manifest->metrics.count > 0 && !text.failed;
    trp_log(TRP_WARN,
            "report %d has no metric '%s', which .keep_metric names; it has %s: "
            "checkpoint_%06" PRId64
            " counts as the worst, and so does every other of such a report",
            manifest->report, name, any ? (const char *)text.data : "none", manifest->id);
    trp_buffer_free(&text);
}

// What makes this checkpoint good: more is better.
static double score_of(trp_record *record, const trp_manifest *manifest)
{
    const char *name = record->job->options.keep_metric;
    if (!name)
        return (double)manifest->id;
    for (size_t i = 0; i < manifest->metrics.count; i++) {
        const trp_metric *metric = &manifest->metrics.items[i];
        if (strcmp(metric->name, name) == 0)
            return record->job->options.keep_goal == TROUPE_MAXIMIZE ? metric->value
                                                                     : -metric->value;
    }
    if (!record->warned)
        warn_of_missing_metric(name, manifest);
    record->warned = true;
    return NAN;
}

// *usable: whether it is one.
static troupe_status take_up_one(trp_record *record, int64_t id, trp_arena *arena, bool *usable)
{
    trp_manifest manifest;
    trp_path folder;
    record->next_id = id + 1;
    TROUPE_TRY(trp_checkpoint_folder(record->job->path, id, &folder));
    troupe_status status = trp_checkpoint_read(folder.text, arena, &manifest);
    *usable = status == TROUPE_OK;
    if (!*usable)
        return trp_checkpoint_is_useless(folder.text, status) ? TROUPE_OK : status;
    record->newest = manifest.report;
    record->only_world = trp_capability_only_world(record->job->trainer, &manifest);
    return trp_retention_add(&record->retention, id, score_of(record, &manifest));
}

// Warns of those that cannot be used behind the newest one that can: who looks for that one warns
// of those before it (trp_checkpoint_newest).
static void tell_unusable(const trp_record *record, const int64_t *ids, size_t count,
                          trp_arena *arena)
{
    int64_t newest = trp_retention_newest(&record->retention);
    for (size_t i = 0; i < count; i++) {
        trp_manifest manifest;
        trp_path folder;
        if ((newest < 0 || ids[i] < newest) &&
            trp_checkpoint_folder(record->job->path, ids[i], &folder) == TROUPE_OK &&
            trp_checkpoint_read(folder.text, arena, &manifest) != TROUPE_OK)
            trp_log(TRP_WARN, "a checkpoint cannot be used: %s", troupe_last_error()->text);
        trp_arena_clear(arena);
    }
}

// Takes up what earlier openings of the run have left.
static troupe_status take_up(trp_record *record)
{
    const trp_run_history *history = &record->job->opening.history;
    trp_arena arena = {0};
    if (record->job->options.open == TROUPE_OPEN_NEW) // There are none.
        return TROUPE_OK;
    int64_t *ids;
    size_t count;
    troupe_status status = trp_checkpoint_list(record->job->path, &ids, &count);
    if (status == TROUPE_NOT_FOUND) { // Nothing was saved, or the run is not there any more.
        status = trp_alive_check(record->job->opening.alive, record->job->folder);
        ids = NULL;
        count = 0;
    }
    TROUPE_TRY(status);
    size_t unusable = 0;
    for (size_t i = 0; i < count && status == TROUPE_OK; i++) {
        bool usable;
        status = take_up_one(record, ids[i], &arena, &usable);
        if (status == TROUPE_OK && !usable)
            ids[unusable++] = ids[i]; // Before those that come yet.
        trp_arena_clear(&arena);
    }
    if (status == TROUPE_OK)
        tell_unusable(record, ids, unusable, &arena);
    trp_free(ids);
    if (history->next_id > record->next_id)
        record->next_id = history->next_id;
    record->delivered = history->reports;
    for (size_t i = 0; i < history->metric_count && i < TRP_METRICS_MAX; i++)
        record->last[record->last_count++] = history->metrics[i];
    return status;
}

// What the job says of its checkpoints.
static void publish(const trp_record *record)
{
    trp_job_set_newest(record->job, trp_retention_newest(&record->retention), record->only_world);
    trp_job_set_checkpoints(record->job, trp_retention_newest(&record->retention),
                            trp_retention_best(&record->retention));
}

troupe_status trp_record_open(trp_record *record, trp_job *job)
{
    *record = (trp_record){.job = job};
    record->retention.keep = job->options.keep > 0 ? job->options.keep : 0;
    TROUPE_TRY(take_up(record));
    publish(record);
    return TROUPE_OK;
}

// As the loop reported it.
static double shown(const trp_record *record, double score)
{
    const troupe_train_options *options = &record->job->options;
    return options->keep_metric && options->keep_goal == TROUPE_MINIMIZE ? -score : score;
}

// Leaves the numbers of those to be removed in the commit that made them so.
static void evict(trp_record *record, trp_commit *commit)
{
    size_t most = record->retention.count;
    commit->evicted =
        (trp_evicted *)trp_arena_alloc(&commit->arena, (most + 1) * sizeof(*commit->evicted));
    if (!commit->evicted) {
        trp_log(TRP_WARN, "checkpoints that are not kept stay on disk for now: no memory");
        return;
    }
    double score;
    for (int64_t id; (id = trp_retention_evict(&record->retention, &score)) >= 0;)
        commit->evicted[commit->evicted_count++] = (trp_evicted){id, shown(record, score)};
}

void trp_record_commit(trp_record *record, trp_committer *committer, int attempt,
                       trp_commit *commit)
{
    const trp_job *job = record->job;
    memcpy(commit->created, trp_time_now().text, sizeof(commit->created));
    commit->staging = (trp_staging){job->folder, job->opening.epoch, attempt, commit->number};
    commit->manifest = (trp_manifest){
        .id = record->next_id,
        .report = commit->number,
        .world = job->world,
        .created = commit->created,
        .trainer = job->trainer->name,
        .config = commit->config ? commit->config : job->config_json,
        .metadata = job->options.metadata,
        .metrics = commit->metrics,
        .files = {commit->files, commit->file_count},
    };
    if (!commit->torn)
        record->next_id++; // Used up, whatever happens.
    trp_committer_hand(committer, commit);
}

static void tell_checkpoint(trp_record *record, const trp_commit *commit)
{
    troupe_metric metrics[TRP_METRICS_MAX];
    for (size_t i = 0; i < commit->metrics.count; i++)
        metrics[i] = (troupe_metric){commit->metrics.items[i].name, commit->metrics.items[i].value};
    troupe_checkpoint_event event = {
        .number = commit->manifest.id,
        .report = commit->number,
        .folder = commit->folder.text,
        .metrics = metrics,
        .count = commit->metrics.count,
        .elapsed_s = trp_job_elapsed_s(record->job),
    };
    trp_job_say(record->job, TRP_INFO,
                "Checkpoint successfully created at: Checkpoint(filesystem=local, path=%s)",
                commit->folder.text);
    trp_lines lines = trp_run_journal_commit(&record->job->opening.journal, &event);
    trp_job_checkpoint(record->job, &event, lines);
}

static troupe_status retain(trp_record *record, const trp_commit *commit)
{
    const char *folder = commit->folder.text;
    double score = score_of(record, &commit->manifest);
    TROUPE_TRY(trp_retention_add(&record->retention, commit->manifest.id, score));
    trp_log(TRP_DEBUG, "Checkpoint successfully written to: %s (score %g)", folder,
            shown(record, score));
    if (trp_retention_is_passing(&record->retention))
        trp_log(TRP_DEBUG,
                "Skipping checkpoint due to low score: %s (score %g) is kept until the next one",
                folder, shown(record, score));
    return TROUPE_OK;
}

// How many more reports had no checkpoint for the reason that was told. Then it is told anew.
static void tell_missing_again(trp_record *record)
{
    if (record->missing > 1)
        trp_log(TRP_WARN, "%d more reports of %s had no checkpoint for that reason",
                record->missing - 1, record->job->path);
    record->missing = 0;
}

// The end of a sentence says what the system found, without numbers and paths.
static const char *reason_of(const char *text)
{
    const char *last = strrchr(text, ':');
    return last ? last : text;
}

// One that lacks for the same reason as the one before is counted.
static void tell_missing(trp_record *record, const trp_commit *commit)
{
    const char *reason = reason_of(commit->error.text);
    if (record->missing == 0 ||
        strncmp(reason, record->missing_why, sizeof record->missing_why - 1) != 0) {
        tell_missing_again(record);
        trp_log(TRP_WARN, "report %d of %s has no checkpoint: %s", commit->number,
                record->job->path, commit->error.text);
        snprintf(record->missing_why, sizeof record->missing_why, "%.*s",
                 (int)sizeof record->missing_why - 1, reason);
    }
    record->missing++;
}

void trp_record_committed(trp_record *record, trp_committer *committer, trp_commit *commit)
{
    trp_run_journal *journal = &record->job->opening.journal;
    if (commit->follows) {
        trp_commit_free(commit);
        return;
    }
    if (commit->status == TROUPE_OK && retain(record, commit) != TROUPE_OK) {
        commit->status = TROUPE_NO_MEMORY;
        commit->error = *troupe_last_error();
    }
    if (commit->status != TROUPE_OK) { // Which does not end the run.
        tell_missing(record, commit);
        trp_run_journal_no_commit(journal, commit->number);
        trp_commit_free(commit);
        return;
    }
    tell_missing_again(record);
    record->newest = commit->number;
    record->only_world = trp_capability_only_world(record->job->trainer, &commit->manifest);
    evict(record, commit);
    publish(record);
    tell_checkpoint(record, commit);
    commit->journal = journal->fd;
    commit->follows = true;
    trp_committer_hand(committer, commit);
}

static void remember(trp_record *record, const trp_open_report *report)
{
    trp_arena_clear(&record->arena);
    record->last_count = 0;
    for (size_t i = 0; i < report->metric_count; i++) {
        const trp_metric *metric = &report->metrics[i];
        char *name = (char *)trp_arena_alloc(&record->arena, strlen(metric->name) + 1);
        if (name)
            record->last[record->last_count++] =
                (troupe_metric){strcpy(name, metric->name), metric->value};
    }
}

// What each rank has reported, without copies of its names. NULL: no memory.
static const troupe_rank_metrics *all_ranks(trp_record *record, const trp_open_report *report)
{
    size_t world = (size_t)report->ranks; // All have made it.
    troupe_rank_metrics *ranks =
        (troupe_rank_metrics *)trp_arena_alloc(&record->arena, world * sizeof(*ranks));
    for (size_t rank = 0; ranks && rank < world; rank++) {
        const troupe_array_trp_metric *from = &report->by_rank[rank];
        troupe_metric *metrics =
            (troupe_metric *)trp_arena_alloc(&record->arena, (from->count + 1) * sizeof(*metrics));
        if (!metrics)
            return NULL;
        for (size_t i = 0; i < from->count; i++)
            metrics[i] = (troupe_metric){from->items[i].name, from->items[i].value};
        ranks[rank] = (troupe_rank_metrics){metrics, from->count};
    }
    return ranks;
}

// Whether the gate has not been asked about a report that is made once more: an earlier opening of
// the run may have died before its gate had answered. That of a train server's job has left what it
// answered (verdicts.h).
static bool is_to_ask_again(const trp_record *record, int number)
{
    const trp_job *job = record->job;
    return job->submission == NULL && number > record->asked &&
           number <= job->opening.history.reports;
}

void trp_record_add(trp_record *record, int attempt, const trp_open_report *report)
{
    remember(record, report);
    bool again = report->number <= record->delivered;
    troupe_report_event event = {
        .number = report->number,
        .metrics = record->last,
        .count = record->last_count,
        .elapsed_s = trp_job_elapsed_s(record->job),
        .source = report->source ? report->source : "",
    };
    bool asks_again = again && is_to_ask_again(record, report->number);
    if ((!again || asks_again) && report->by_rank)
        event.ranks = all_ranks(record, report);
    if (event.ranks)
        event.rank_count = (size_t)report->ranks;
    trp_lines lines = {0};
    if (!again) {
        lines = trp_run_journal_report(&record->job->opening.journal, &event, attempt,
                                       report->pending > 0);
        record->delivered = report->number;
    }
    trp_job_report(record->job, report->number, again ? NULL : &event, lines);
    if (asks_again)
        record->asked = report->number;
    if (!again || asks_again)
        trp_job_ask(record->job, &event);
}

static troupe_status origin_of(trp_record *record, trp_arena *arena, trp_path *folder, int *report)
{
    const char *run = record->job->path, *from = record->job->options.from;
    const char *local = record->job->folder;
    trp_manifest manifest;
    trp_path origin; // Set on success alone: the attempt continues from it.
    folder->text[0] = '\0';
    *report = 0;
    if (trp_retention_newest(&record->retention) >= 0) {
        troupe_status status =
            trp_checkpoint_newest(run, local, record->next_id, arena, &manifest, &origin);
        trp_retention_rewind(&record->retention, status == TROUPE_OK ? manifest.id : -1);
        record->only_world =
            status == TROUPE_OK ? trp_capability_only_world(record->job->trainer, &manifest) : 0;
        publish(record);
        record->newest = status == TROUPE_OK ? manifest.report : 0;
        if (status == TROUPE_OK) {
            *report = manifest.report;
            *folder = origin;
            return TROUPE_OK;
        }
        if (status != TROUPE_NOT_FOUND)
            return status;
    }
    if (!from)
        return TROUPE_OK;
    // The reports of a new run begin at 1, wherever its state comes from.
    trp_path found;
    TROUPE_TRY(trp_checkpoint_find(from, &found));
    trp_run_clean_beside(found.text);
    TROUPE_TRY(trp_checkpoint_bring(found.text, local, arena, &manifest, &origin));
    *folder = origin;
    return TROUPE_OK;
}

troupe_status trp_record_origin(trp_record *record, trp_path *folder, int *report)
{
    trp_arena arena = {0};
    troupe_status status = origin_of(record, &arena, folder, report);
    trp_arena_clear(&arena);
    return status;
}

static troupe_status folder_text(const trp_record *record, int64_t id, troupe_result *result,
                                 const char **text)
{
    if (id < 0)
        return TROUPE_OK;
    trp_path folder;
    TROUPE_TRY(trp_checkpoint_folder(record->job->path, id, &folder));
    *text = trp_job_result_text(result, folder.text);
    return *text ? TROUPE_OK : troupe_fail(TROUPE_NO_MEMORY, "no memory for a result");
}

troupe_status trp_record_fill(const trp_record *record, troupe_result *result)
{
    TROUPE_TRY(trp_job_result_metrics(result, record->last, record->last_count));
    if (record->value.failed)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for what a loop returned");
    TROUPE_TRY(
        trp_job_result_value(result, record->value.data, record->value.size, record->value_schema));
    TROUPE_TRY(
        folder_text(record, trp_retention_newest(&record->retention), result, &result->checkpoint));
    return folder_text(record, trp_retention_best(&record->retention), result, &result->best);
}

static const char *name_of(const char *folder)
{
    return folder != NULL ? strrchr(folder, '/') + 1 : NULL;
}

// A driver that was killed may have left more than are kept. They stay as long as those that are
// kept could turn out to be damaged.
static void evict_left(trp_record *record)
{
    double score;
    for (int64_t id; (id = trp_retention_evict(&record->retention, &score)) >= 0;)
        if (trp_checkpoint_remove(record->job->path, id) != TROUPE_OK)
            trp_log(TRP_WARN, "a checkpoint that is not kept stays: %s", troupe_last_error()->text);
}

// In one line of the journal, where it need not last; else in a line and a file of its own.
static void put_end(trp_job *job, troupe_status status, const trp_end_file *end)
{
    trp_run_journal *journal = &job->opening.journal;
    if (!job->opening.lasts && trp_run_journal_end_whole(journal, end))
        return;
    trp_run_journal_end(journal, status, end->stopped);
    if (job->opening.lasts)
        trp_run_journal_sync(journal);
    if (trp_end_file_write(job->path, end, job->opening.lasts) != TROUPE_OK)
        trp_log(TRP_WARN, "how the run ended is not in its folder: %s", troupe_last_error()->text);
}

void trp_record_end(trp_record *record, troupe_status status, const troupe_result *result)
{
    trp_job *job = record->job;
    tell_missing_again(record);
    evict_left(record);
    trp_end_file end = {
        .status = trp_status_word(status),
        .stopped = result != NULL && result->stopped,
        .error = result != NULL ? result->error : "",
        .cause = result != NULL ? result->cause : NULL,
        .reports = job->reports,
        .restarts = job->restarts,
        .elapsed_s = trp_job_elapsed_s(job),
        .checkpoint = result != NULL ? name_of(result->checkpoint) : NULL,
        .best = result != NULL ? name_of(result->best) : NULL,
        .job = job->submission,
    };
    if (status == TROUPE_OK && result != NULL) {
        end.value = result->value;
        end.value_schema = result->value_schema;
    }
    put_end(job, status, &end);
}
