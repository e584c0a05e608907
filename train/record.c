// record.c: committing, delivering and remembering a run's reports.
#include <inttypes.h>
#include <math.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <string.h>
#include <train/record.h>
#include <unistd.h>

void trp_record_open(trp_record *record, troupe_job *job)
{
    *record = (trp_record){.job = job, .hold = trp_checkpoint_hold(job->path)};
    record->retention.keep = job->options.keep > 0 ? job->options.keep : 0;
}

void trp_record_close(trp_record *record)
{
    trp_retention_free(&record->retention);
    trp_arena_clear(&record->arena);
    if (record->hold >= 0)
        close(record->hold);
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
        trp_log(TRP_WARN,
                "report %d has no metric '%s', which .keep_metric names: checkpoint_%06" PRId64
                " counts as the worst, and so does every other of such a report",
                manifest->report, name, manifest->id);
    record->warned = true;
    return NAN;
}

static void evict(trp_record *record)
{
    for (int64_t id; (id = trp_retention_evict(&record->retention)) >= 0;) {
        if (trp_checkpoint_remove(record->job->path, id) != TROUPE_OK)
            trp_log(TRP_WARN, "a checkpoint that is not kept stays on disk: %s",
                    troupe_last_error()->text);
        else
            trp_log(TRP_DEBUG, "Removed worst checkpoint checkpoint_%06" PRId64 " from %s", id,
                    record->job->path);
    }
}

static troupe_status try_commit(trp_record *record, int attempt, const trp_open_report *report,
                                trp_path *folder)
{
    if (report->torn)
        return troupe_fail(TROUPE_IO, "a rank could not save its state");
    trp_manifest manifest = {
        .id = record->next_id,
        .report = report->number,
        .world = record->job->options.ranks,
        .metrics = {report->metrics, report->metric_count},
        .files = {report->files, report->file_count},
    };
    record->next_id++; // Used up, whatever happens.
    TROUPE_TRY(trp_checkpoint_commit(record->job->path, attempt, &manifest, folder));
    return trp_retention_add(&record->retention, manifest.id, score_of(record, &manifest));
}

// False: nothing was staged, or it could not be committed, which does not end the run.
static bool commit(trp_record *record, int attempt, const trp_open_report *report, trp_path *folder)
{
    const char *run = record->job->path;
    if (report->file_count == 0 && !report->torn)
        return false;
    if (try_commit(record, attempt, report, folder) != TROUPE_OK) {
        trp_log(TRP_WARN, "report %d of %s has no checkpoint: %s", report->number, run,
                troupe_last_error()->text);
        // So that it does not take the room that the next one needs. There may be nothing to
        // remove.
        (void)trp_checkpoint_discard(run, report->number, attempt);
        return false;
    }
    trp_log(TRP_INFO, "Checkpoint successfully created at: Checkpoint(filesystem=local, path=%s)",
            folder->text);
    evict(record);
    return true;
}

static void write_text(const char *text, trp_buffer *out)
{
    trp_buffer_append(out, "\"", 1);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            trp_buffer_printf(out, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            trp_buffer_printf(out, "\\u%04x", (unsigned)*text);
        else
            trp_buffer_append(out, text, 1);
    }
    trp_buffer_append(out, "\"", 1);
}

// JSON has no words for these three, so they are texts.
static void write_number(double value, trp_buffer *out)
{
    if (isnan(value))
        trp_buffer_printf(out, "\"NaN\"");
    else if (isinf(value))
        trp_buffer_printf(out, value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    else
        trp_buffer_printf(out, "%.17g", value);
}

void trp_record_line(const troupe_report_event *event, int attempt, trp_buffer *out)
{
    trp_buffer_printf(out, "{\"report\": %d, \"attempt\": %d, \"elapsed_s\": %.6f, \"metrics\": {",
                      event->number, attempt, event->elapsed_s);
    for (size_t i = 0; i < event->count; i++) {
        if (i > 0)
            trp_buffer_append(out, ", ", 2);
        write_text(event->metrics[i].name, out);
        trp_buffer_append(out, ": ", 2);
        write_number(event->metrics[i].value, out);
    }
    trp_buffer_printf(out, "}, \"checkpoint\": ");
    if (event->checkpoint)
        write_text(strrchr(event->checkpoint, '/') + 1, out);
    else
        trp_buffer_printf(out, "null");
    trp_buffer_printf(out, "}\n");
}

static void append_line(const trp_record *record, int attempt, const troupe_report_event *event)
{
    trp_buffer line = {0};
    trp_path path;
    trp_record_line(event, attempt, &line);
    troupe_status status =
        line.failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a line of reports.jsonl")
                    : trp_path_make(&path, "%s/reports.jsonl", record->job->path);
    if (status == TROUPE_OK)
        status = trp_file_append(path.text, line.data, line.size);
    if (status != TROUPE_OK)
        trp_log(TRP_WARN, "report %d is not in reports.jsonl: %s", event->number,
                troupe_last_error()->text);
    trp_buffer_free(&line);
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

void trp_record_add(trp_record *record, int attempt, const trp_open_report *report)
{
    trp_path folder;
    bool committed = commit(record, attempt, report, &folder);
    remember(record, report);
    bool again = report->number <= record->delivered;
    troupe_report_event event = {
        .number = report->number,
        .metrics = record->last,
        .count = record->last_count,
        .elapsed_s = trp_job_elapsed_s(record->job),
        .checkpoint = committed ? folder.text : NULL,
    };
    if (!again) {
        append_line(record, attempt, &event);
        record->delivered = report->number;
    }
    trp_job_report(record->job, report->number, again ? NULL : &event);
}

static troupe_status origin_of(trp_record *record, trp_arena *arena, trp_path *folder, int *report)
{
    const char *run = record->job->path, *from = record->job->options.from;
    trp_manifest manifest;
    folder->text[0] = '\0';
    *report = 0;
    if (trp_retention_newest(&record->retention) >= 0) {
        troupe_status status = trp_checkpoint_newest(run, record->next_id, arena, &manifest);
        trp_retention_rewind(&record->retention, status == TROUPE_OK ? manifest.id : -1);
        if (status == TROUPE_OK) {
            *report = manifest.report;
            return trp_checkpoint_folder(run, manifest.id, folder);
        }
        if (status != TROUPE_NOT_FOUND)
            return status;
    }
    if (!from)
        return TROUPE_OK;
    // The reports of a new run begin at 1, wherever its state comes from.
    trp_checkpoint_clean_beside(from);
    TROUPE_TRY(trp_checkpoint_verify(from, arena, &manifest));
    return trp_path_make(folder, "%s", from);
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
    TROUPE_TRY(
        folder_text(record, trp_retention_newest(&record->retention), result, &result->checkpoint));
    return folder_text(record, trp_retention_best(&record->retention), result, &result->best);
}
