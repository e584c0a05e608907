// web_run_view.c: what is written of a run, of a job or not: metrics, curves, attempts, changes,
// checkpoints, log files, and what it uses.
#include <server/web_job.h>

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <runtime/base/memory.h>
#include <server/web_json.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <train/checkpoint.h>
#include <troupe/runtime.h>

enum { SPARK_POINTS = 64, SHOWN_CHECKPOINTS = 20, SHOWN_ATTEMPTS = 50, SHOWN_LOGS = 256 };

// ---- metrics

void web_run_metrics(trp_buffer *out, const trp_facts *facts)
{
    web_begin(out, "metrics", '{');
    for (size_t i = 0; i < facts->metric_count; i++)
        web_number(out, facts->metrics[i]->name, facts->metrics[i]->last);
    web_end(out, '}');
}

static double mean_of(const trp_slot *slots, size_t count)
{
    double sum = 0;
    uint64_t values = 0;
    for (size_t i = 0; i < count; i++) {
        sum += slots[i].sum;
        values += slots[i].count;
    }
    return values > 0 ? sum / (double)values : NAN;
}

static void write_short(trp_buffer *out, double value)
{
    web_name(out, NULL);
    trp_buffer_printf(out, "%.5g", value);
}

void web_run_spark(trp_buffer *out, const trp_facts *facts)
{
    const char *wanted = facts->run.head.options.keep_metric;
    const trp_facts_metric *metric = facts->metric_count > 0 ? facts->metrics[0] : NULL;
    for (size_t i = 0; wanted != NULL && i < facts->metric_count; i++)
        if (strcmp(facts->metrics[i]->name, wanted) == 0)
            metric = facts->metrics[i];
    if (metric == NULL)
        return;
    const trp_series *series = &metric->over_reports;
    size_t step = series->used / SPARK_POINTS + 1;
    web_begin(out, "curve", '{');
    web_text(out, "metric", metric->name);
    web_begin(out, "points", '[');
    for (size_t i = 0; i < series->used; i += step) {
        size_t count = series->used - i < step ? series->used - i : step;
        double mean = mean_of(series->slots + i, count);
        if (isfinite(mean))
            write_short(out, mean);
    }
    web_end(out, ']');
    web_end(out, '}');
}

// Where a series of marks has one.
static void write_marks(trp_buffer *out, const char *name, const trp_series *series)
{
    web_begin(out, name, '[');
    for (size_t i = 0; i < series->used; i++)
        if (series->slots[i].count > 0)
            web_number(out, NULL, series->slots[i].from);
    web_end(out, ']');
}

static void write_metric(trp_buffer *out, const trp_facts_metric *it, bool over_time)
{
    web_begin(out, NULL, '{');
    web_text(out, "name", it->name);
    web_integer(out, "count", (int64_t)it->count);
    web_integer(out, "odd", (int64_t)it->odd);
    web_number(out, "first", it->first);
    web_number(out, "last", it->last);
    if (it->count > 0) {
        web_number(out, "low", it->low);
        web_integer(out, "low_report", it->low_report);
        web_number(out, "high", it->high);
        web_integer(out, "high_report", it->high_report);
    }
    web_name(out, "slots");
    trp_curve_data(over_time ? &it->over_time : &it->over_reports, out);
    web_end(out, '}');
}

static void write_restarts(trp_buffer *out, const trp_facts *facts, bool over_time)
{
    uint64_t kept = facts->attempts < TRP_FACTS_ATTEMPTS ? facts->attempts : TRP_FACTS_ATTEMPTS;
    web_begin(out, "restarts", '[');
    for (uint64_t i = facts->attempts - kept; i < facts->attempts; i++) {
        const trp_facts_attempt *it = &facts->attempt_ring[i % TRP_FACTS_ATTEMPTS];
        if (!it->restart)
            continue;
        web_begin(out, NULL, '{');
        web_number(out, "at", over_time ? it->elapsed_s : it->reached);
        web_text(out, "cause", it->cause);
        web_end(out, '}');
    }
    web_end(out, ']');
}

static void write_changes(trp_buffer *out, const trp_facts *facts, bool over_time)
{
    static const char *const kinds[] = {"pause", "ranks", "value"};
    uint64_t kept = facts->changes < TRP_FACTS_CHANGES ? facts->changes : TRP_FACTS_CHANGES;
    web_begin(out, "changes", '[');
    for (uint64_t i = facts->changes - kept; i < facts->changes; i++) {
        const trp_facts_change *it = &facts->change_ring[i % TRP_FACTS_CHANGES];
        web_begin(out, NULL, '{');
        web_text(out, "kind", kinds[it->kind]);
        web_number(out, "at", over_time ? it->elapsed_s : it->report);
        if (it->kind == TRP_CHANGE_RANKS)
            web_integer(out, "ranks", it->ranks);
        if (it->kind == TRP_CHANGE_VALUE) {
            web_text(out, "text", it->text);
            web_flag(out, "in_effect", it->counts);
        }
        web_end(out, '}');
    }
    web_end(out, ']');
}

troupe_status web_run_write_curves(web_call *call, const web_run *run)
{
    trp_buffer *out = call->out;
    const trp_facts *facts = &run->facts;
    const char *over = call->query[0].text;
    bool over_time = over != NULL && strcasecmp(over, "time") == 0;
    if (over != NULL && !over_time && strcasecmp(over, "reports") != 0)
        return troupe_fail(TROUPE_INVALID,
                           "the parameter over is '%.40s': expected reports or time", over);
    snprintf(call->reply->etag, sizeof call->reply->etag, "\"%" PRIx64 "-%" PRIx64 "-%d%d\"",
             run->inode, facts->journal_size, over_time, run->whole);
    web_begin(out, NULL, '{');
    web_text(out, "over", over_time ? "time" : "reports");
    web_flag(out, "whole", run->whole);
    web_integer(out, "reports", facts->reports);
    web_number(out, "elapsed_s", facts->elapsed_s);
    web_begin(out, "metrics", '[');
    for (size_t i = 0; i < facts->metric_count; i++)
        write_metric(out, facts->metrics[i], over_time);
    web_end(out, ']');
    write_marks(out, "checkpoints",
                over_time ? facts->commits_over_time : facts->commits_over_reports);
    write_restarts(out, facts, over_time);
    write_changes(out, facts, over_time);
    web_end(out, '}');
    return TROUPE_OK;
}

// ---- details

static void write_attempts(trp_buffer *out, const trp_facts *facts)
{
    uint64_t kept = facts->attempts < SHOWN_ATTEMPTS ? facts->attempts : SHOWN_ATTEMPTS;
    web_integer(out, "attempt_count", (int64_t)facts->attempts);
    web_begin(out, "attempts", '[');
    for (uint64_t i = facts->attempts - kept; i < facts->attempts; i++) {
        const trp_facts_attempt *it = &facts->attempt_ring[i % TRP_FACTS_ATTEMPTS];
        web_begin(out, NULL, '{');
        web_integer(out, "attempt", it->attempt);
        web_text(out, "at", it->at);
        web_integer(out, "after_report", it->report);
        web_integer(out, "reached", it->reached);
        web_flag(out, "restart", it->restart);
        web_text(out, "pids", it->pids);
        if (it->checkpoint[0] != '\0')
            web_text(out, "checkpoint", it->checkpoint);
        web_flag(out, "memory", it->memory);
        if (it->cause[0] != '\0') {
            web_text(out, "cause", it->cause);
            web_text(out, "cause_status", it->cause_status);
            web_integer(out, "cause_rank", it->cause_rank);
        }
        web_end(out, '}');
    }
    web_end(out, ']');
}

static void write_checkpoint(trp_buffer *out, const trp_facts *facts, int64_t number)
{
    trp_path folder;
    trp_manifest manifest;
    trp_arena arena = {0}; // A manifest may have many files.
    uint64_t bytes = 0;
    web_begin(out, NULL, '{');
    web_integer(out, "number", number);
    troupe_status status = trp_checkpoint_folder(facts->folder, number, &folder);
    if (status == TROUPE_OK)
        status = trp_manifest_read(folder.text, &arena, &manifest);
    if (status == TROUPE_OK) {
        for (size_t i = 0; i < manifest.files.count; i++)
            bytes += manifest.files.items[i].size;
        web_text(out, "name", strrchr(folder.text, '/') + 1);
        web_text(out, "created", manifest.created);
        web_integer(out, "report", manifest.report);
        web_integer(out, "world", manifest.world);
        web_integer(out, "bytes", (int64_t)bytes);
        web_flag(out, "best", number == trp_checkpoint_number(facts->best_checkpoint));
        web_begin(out, "metrics", '{');
        for (size_t i = 0; i < manifest.metrics.count; i++)
            if (manifest.metrics.items[i].name != NULL)
                web_number(out, manifest.metrics.items[i].name, manifest.metrics.items[i].value);
        web_end(out, '}');
    } else {
        web_text(out, "problem", troupe_last_error()->text);
    }
    web_end(out, '}');
    trp_arena_clear(&arena);
}

static void write_checkpoints(trp_buffer *out, const trp_facts *facts)
{
    int64_t *numbers = NULL;
    size_t count = 0;
    if (trp_checkpoint_list(facts->folder, &numbers, &count) != TROUPE_OK)
        count = 0; // There is no such folder.
    web_integer(out, "checkpoint_count", (int64_t)count);
    web_begin(out, "newest_checkpoints", '[');
    for (size_t i = count; i > 0 && count - i < SHOWN_CHECKPOINTS; i--)
        write_checkpoint(out, facts, numbers[i - 1]);
    web_end(out, ']');
    trp_free(numbers);
}

static void write_logs(trp_buffer *out, const trp_facts *facts)
{
    trp_path path;
    size_t shown = 0;
    web_begin(out, "log_ranks", '[');
    DIR *folder =
        trp_path_make(&path, "%s/log", facts->folder) == TROUPE_OK ? opendir(path.text) : NULL;
    for (struct dirent *it; folder != NULL && (it = readdir(folder)) != NULL;) {
        int rank, end = 0;
        if (sscanf(it->d_name, "rank_%5d.log%n", &rank, &end) == 1 && end > 0 &&
            it->d_name[end] == '\0' && shown++ < SHOWN_LOGS)
            web_integer(out, NULL, rank);
    }
    if (folder != NULL)
        closedir(folder);
    web_end(out, ']');
}

static void write_notes(trp_buffer *out, const trp_facts *facts)
{
    web_begin(out, "notes", '[');
    for (size_t i = 0; i < facts->note_count; i++)
        web_text(out, NULL, facts->notes[i]);
    web_end(out, ']');
    web_integer(out, "bad_lines", (int64_t)facts->bad_lines);
}

void web_run_details(web_call *call, const web_run *run)
{
    trp_buffer *out = call->out;
    const trp_facts *facts = &run->facts;
    trp_run_file file;
    // As it is now: what was modified since the run was first asked for is in it.
    if (trp_run_file_read(facts->folder, &call->arena, &file) == TROUPE_OK) {
        web_json(out, "config", file.config);
        web_json(out, "modified", file.modified);
        if (file.data.name != NULL)
            web_text(out, "data", file.data.name);
        web_text(out, "from_checkpoint", file.head.from);
        web_text(out, "created", file.head.created);
    }
    web_json(out, "options", facts->options);
    if (facts->state[0] != '\0')
        web_text(out, "run_state", facts->state);
    write_attempts(out, facts);
    write_changes(out, facts, false);
    write_checkpoints(out, facts);
    write_logs(out, facts);
    write_notes(out, facts);
}

// ---- usage

// How much of a slot there are samples of: the last one is under way.
static double covered_s(const web_usage *usage, size_t slot)
{
    double since = usage->last_at - usage->from - (double)slot * usage->width_s;
    return since < usage->width_s ? since : usage->width_s;
}

// CPUs in use or bytes of memory in a slot, of one rank or of all (NULL); null: not known.
static void write_slots(trp_buffer *out, const char *name, const web_usage *usage,
                        const web_usage_rank *one, bool memory)
{
    web_begin(out, name, '[');
    for (size_t i = 0; i < usage->used; i++) {
        double sum = 0, span = covered_s(usage, i);
        unsigned samples = 0;
        for (size_t r = 0; r < usage->count; r++) {
            const web_usage_rank *it = usage->ranks[r];
            if ((one != NULL && it != one) || it->samples[i] == 0)
                continue;
            sum += memory ? it->memory[i] : it->cpu_s[i];
            samples += it->samples[i];
        }
        web_name(out, NULL);
        if (samples == 0 || (!memory && span < usage->width_s / 4))
            trp_buffer_printf(out, one != NULL || samples > 0 ? "null" : "0");
        else if (memory)
            trp_buffer_printf(out, "%.0f", sum);
        else
            trp_buffer_printf(out, "%.3g", sum / span);
    }
    web_end(out, ']');
}

// How many GPUs were busy, or bytes of their memory in use, in a slot, of one GPU or of all (NULL).
static void write_gpu_slots(trp_buffer *out, const char *name, const web_usage *usage,
                            const web_usage_gpu *one, bool memory)
{
    web_begin(out, name, '[');
    for (size_t i = 0; i < usage->used; i++) {
        double sum = 0;
        unsigned samples = 0;
        for (size_t g = 0; g < usage->gpu_count; g++) {
            const web_usage_gpu *it = usage->gpus[g];
            unsigned own = memory ? it->memory_samples[i] : it->busy_samples[i];
            if ((one != NULL && it != one) || own == 0)
                continue;
            sum += memory ? it->memory[i] : it->busy[i];
            samples += own;
        }
        web_name(out, NULL);
        if (samples == 0)
            trp_buffer_printf(out, "null");
        else
            trp_buffer_printf(out, memory ? "%.0f" : "%.3g", sum);
    }
    web_end(out, ']');
}

static void write_gpus(trp_buffer *out, const web_usage *usage)
{
    web_begin(out, "gpus", '[');
    for (size_t i = 0; i < usage->gpu_count; i++) {
        const web_usage_gpu *it = usage->gpus[i];
        web_begin(out, NULL, '{');
        web_text(out, "gpu", it->id);
        web_text(out, "name", it->name);
        if (it->total_bytes > 0)
            web_number(out, "total_bytes", it->total_bytes);
        write_gpu_slots(out, "busy", usage, it, false);
        write_gpu_slots(out, "memory_bytes", usage, it, true);
        web_end(out, '}');
    }
    web_end(out, ']');
}

void web_run_usage(trp_buffer *out, const web_usage *usage)
{
    web_number(out, "from", usage->from);
    web_number(out, "width_s", usage->width_s);
    web_begin(out, "ranks", '[');
    for (size_t i = 0; i < usage->count; i++) {
        const web_usage_rank *it = usage->ranks[i];
        web_begin(out, NULL, '{');
        web_integer(out, "rank", it->rank);
        web_integer(out, "pid", it->pid);
        write_slots(out, "cpus", usage, it, false);
        write_slots(out, "memory_bytes", usage, it, true);
        web_end(out, '}');
    }
    web_end(out, ']');
    if (usage->gpu_count > 0)
        write_gpus(out, usage);
}

void web_run_usage_sum(trp_buffer *out, const web_usage *usage)
{
    if (usage->count + usage->gpu_count == 0)
        return;
    web_begin(out, "usage", '{');
    web_number(out, "from", usage->from);
    web_number(out, "width_s", usage->width_s);
    write_slots(out, "cpus", usage, NULL, false);
    write_slots(out, "memory_bytes", usage, NULL, true);
    if (usage->gpu_count > 0) {
        write_gpu_slots(out, "gpus", usage, NULL, false);
        write_gpu_slots(out, "gpu_memory_bytes", usage, NULL, true);
    }
    web_end(out, '}');
}
