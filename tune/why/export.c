// export.c: results as tables: CSV and JSON.
#include <errno.h>
#include <math.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <runtime/base/range.h>
#include <runtime/base/require.h>
#include <runtime/codec/csv.h>
#include <runtime/codec/json_leaves.h>
#include <string.h>
#include <tune/why/results.h>
#include <tune/why/seen_reports.h>

enum { PIECE_BYTES = 1 << 16 };

// A table that is being written.
typedef struct sheet {
    const troupe_results *results;
    FILE *out;
    bool reports;
    trp_buffer text;        // That is not written yet.
    trp_arena arena;        // Of the columns.
    trp_seen_names params;  // Columns of configs.
    trp_seen_names metrics; // All that were reported.
    trp_json *cells;        // Of one row: a value for each of `params`.
    double *values;         // Likewise for `metrics`;
    bool *has;              // whether there is one.
} sheet;

static troupe_status no_memory(const sheet *it)
{
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for a table of %s", it->results->seen.name);
}

static troupe_status put_out(sheet *it, size_t least)
{
    if (it->text.failed)
        return no_memory(it);
    if (it->text.size < least)
        return TROUPE_OK;
    errno = 0;
    if (fwrite(it->text.data, 1, it->text.size, it->out) != it->text.size)
        return trp_fail_errno(TROUPE_IO, "the table of %s cannot be written",
                              it->results->seen.name);
    it->text.size = 0;
    return TROUPE_OK;
}

static void put(sheet *it, const char *text)
{
    trp_buffer_append(&it->text, text, strlen(text));
}

// ---- columns

static bool add_param(void *user, const char *name, trp_json value)
{
    sheet *it = user;
    size_t number;
    (void)value;
    return trp_seen_names_add(&it->params, name, &it->arena, &number);
}

static bool parse_config(const troupe_trial_results *trial, trp_json *config)
{
    return trial->config != NULL &&
           trp_json_parse(trial->config, strlen(trial->config), config) == TROUPE_OK;
}

static troupe_status find_columns(sheet *it)
{
    const troupe_results *results = it->results;
    trp_json config;
    for (size_t i = 0; i < results->seen.count; i++)
        if (parse_config(&results->views[i], &config) && !trp_json_leaves(config, add_param, it))
            return no_memory(it);
    it->metrics = results->seen.metric_names;
    it->cells = trp_arena_alloc(&it->arena, (it->params.count + 1) * sizeof *it->cells);
    it->values = trp_arena_alloc(&it->arena, (it->metrics.count + 1) * sizeof *it->values);
    it->has = trp_arena_alloc(&it->arena, it->metrics.count + 1);
    return it->cells != NULL && it->values != NULL && it->has != NULL ? TROUPE_OK : no_memory(it);
}

static bool fill_cell(void *user, const char *name, trp_json value)
{
    sheet *it = user;
    size_t number;
    if (trp_seen_names_find(&it->params, name, &number))
        it->cells[number] = value;
    return true;
}

static void fill_metrics(sheet *it, const troupe_trial_report *report)
{
    size_t number;
    for (size_t i = 0; i < report->count; i++)
        if (trp_seen_names_find(&it->metrics, report->metrics[i].name, &number)) {
            it->values[number] = report->metrics[i].value;
            it->has[number] = true;
        }
}

// The trial's best of an objective; NaN: it has none.
static double best_of(const sheet *it, size_t index, size_t objective)
{
    const trp_trials *seen = &it->results->seen;
    const trp_seen_trial *trial = seen->trials[index];
    return trp_seen_value(trial->reports_kept, trial->report_count,
                          trp_seen_metric(seen, objective), seen->goals[objective],
                          TROUPE_SCOPE_ALL, trial->told[objective]);
}

// ---- CSV

static void put_title(sheet *it, const char *kind, const char *name)
{
    trp_buffer title = {0};
    trp_buffer_printf(&title, "%s/%s", kind, name);
    trp_buffer_append(&title, "", 1);
    put(it, ",");
    if (title.failed)
        it->text.failed = true;
    else
        trp_csv_text(&it->text, (const char *)title.data);
    trp_buffer_free(&title);
}

static void put_titles(sheet *it)
{
    const trp_trials *seen = &it->results->seen;
    put(it, it->reports ? "number,name,report,elapsed_s,checkpoint"
                        : "number,name,state,reports,elapsed_s,error");
    for (size_t i = 0; !it->reports && i < it->params.count; i++)
        put_title(it, "config", it->params.names[i]);
    for (size_t i = 0; i < it->metrics.count; i++)
        put_title(it, it->reports ? "metric" : "last", it->metrics.names[i]);
    for (size_t i = 0; !it->reports && i < seen->objectives; i++)
        put_title(it, "best", trp_seen_metric(seen, i));
    put(it, "\n");
}

static void put_text(sheet *it, const char *text)
{
    put(it, ",");
    if (text != NULL && text[0] != '\0')
        trp_csv_text(&it->text, text);
}

static void put_number(sheet *it, double value)
{
    put(it, ",");
    trp_csv_number(&it->text, value);
}

static void put_params(sheet *it, const troupe_trial_results *trial)
{
    trp_json config;
    memset(it->cells, 0, (it->params.count + 1) * sizeof *it->cells);
    if (parse_config(trial, &config) && !trp_json_leaves(config, fill_cell, it))
        it->text.failed = true;
    for (size_t i = 0; i < it->params.count; i++) {
        trp_buffer plain = {0};
        put(it, ",");
        if (it->cells[i].size == 0 || trp_json_is_null(it->cells[i]))
            continue;
        trp_json_plain(it->cells[i], &plain);
        trp_buffer_append(&plain, "", 1);
        if (plain.failed)
            it->text.failed = true;
        else
            trp_csv_text(&it->text, (const char *)plain.data);
        trp_buffer_free(&plain);
    }
}

static void put_values(sheet *it)
{
    for (size_t i = 0; i < it->metrics.count; i++) {
        put(it, ",");
        if (it->has[i])
            trp_csv_number(&it->text, it->values[i]);
    }
}

static void put_trial_row(sheet *it, size_t index)
{
    const troupe_trial_results *trial = &it->results->views[index];
    const trp_seen_trial *seen = it->results->seen.trials[index];
    trp_buffer_printf(&it->text, "%d", trial->number);
    put_text(it, trial->name);
    put_text(it, trp_trials_state_name(seen->state));
    trp_buffer_printf(&it->text, ",%d", seen->reports);
    put_number(it, trial->elapsed_s);
    put_text(it, trial->error);
    put_params(it, trial);
    memset(it->has, 0, it->metrics.count + 1);
    for (size_t i = 0; i < trial->count; i++) // The last one of each metric stays.
        fill_metrics(it, &trial->reports[i]);
    put_values(it);
    for (size_t i = 0; i < it->results->seen.objectives; i++) {
        double best = best_of(it, index, i);
        put(it, ",");
        if (!isnan(best))
            trp_csv_number(&it->text, best);
    }
    put(it, "\n");
}

static troupe_status put_report_rows(sheet *it, const troupe_trial_results *trial)
{
    for (size_t i = 0; i < trial->count; i++) {
        const troupe_trial_report *report = &trial->reports[i];
        trp_buffer_printf(&it->text, "%d", trial->number);
        put_text(it, trial->name);
        trp_buffer_printf(&it->text, ",%d", report->number);
        put_number(it, report->elapsed_s);
        put_text(it, report->checkpoint);
        memset(it->has, 0, it->metrics.count + 1);
        fill_metrics(it, report);
        put_values(it);
        put(it, "\n");
        TROUPE_TRY(put_out(it, PIECE_BYTES));
    }
    return TROUPE_OK;
}

static troupe_status write_csv(sheet *it)
{
    put_titles(it);
    for (size_t i = 0; i < it->results->seen.count; i++) {
        if (it->reports)
            TROUPE_TRY(put_report_rows(it, &it->results->views[i]));
        else
            put_trial_row(it, i);
        TROUPE_TRY(put_out(it, PIECE_BYTES));
    }
    return TROUPE_OK;
}

// ---- JSON

static void put_member(sheet *it, const char *name, const char *text)
{
    trp_buffer_printf(&it->text, ", \"%s\": ", name);
    trp_json_text(&it->text, text);
}

static void put_head(sheet *it)
{
    const trp_trials *seen = &it->results->seen;
    put(it, "{\"name\": ");
    trp_json_text(&it->text, seen->name);
    if (seen->trainer != NULL)
        put_member(it, "trainer", seen->trainer);
    put(it, ", \"goals\": {");
    for (size_t i = 0; i < seen->objectives; i++) {
        put(it, i == 0 ? "" : ", ");
        trp_json_text(&it->text, trp_seen_metric(seen, i));
        put(it, seen->goals[i] == TROUPE_MAXIMIZE ? ": \"maximize\"" : ": \"minimize\"");
    }
    put(it, "}, \"trials\": [");
}

// An object of those that there are.
static void put_object(sheet *it, const char *const *names, const double *values, const bool *has,
                       size_t count)
{
    bool first = true;
    put(it, "{");
    for (size_t i = 0; i < count; i++) {
        if (has != NULL ? !has[i] : isnan(values[i]))
            continue;
        put(it, first ? "" : ", ");
        first = false;
        trp_json_text(&it->text, names[i]);
        put(it, ": ");
        trp_json_number(&it->text, values[i]);
    }
    put(it, "}");
}

static void put_json_report(sheet *it, const troupe_trial_report *report)
{
    trp_buffer_printf(&it->text, "{\"report\": %d, \"elapsed_s\": ", report->number);
    trp_json_number(&it->text, report->elapsed_s);
    put_member(it, "checkpoint", report->checkpoint);
    put(it, ", \"metrics\": {");
    for (size_t i = 0; i < report->count; i++) {
        put(it, i == 0 ? "" : ", ");
        trp_json_text(&it->text, report->metrics[i].name);
        put(it, ": ");
        trp_json_number(&it->text, report->metrics[i].value);
    }
    put(it, "}}");
}

static troupe_status put_json_trial(sheet *it, size_t index)
{
    const troupe_trial_results *trial = &it->results->views[index];
    const trp_seen_trial *seen = it->results->seen.trials[index];
    const char *names[TRP_TRIALS_OBJECTIVES];
    double best[TRP_TRIALS_OBJECTIVES];
    size_t objectives = it->results->seen.objectives;
    trp_buffer_printf(&it->text, "%s\n{\"number\": %d", index == 0 ? "" : ",", trial->number);
    put_member(it, "name", trial->name);
    put_member(it, "state", trp_trials_state_name(seen->state));
    trp_buffer_printf(&it->text, ", \"reports\": %d, \"elapsed_s\": ", seen->reports);
    trp_json_number(&it->text, trial->elapsed_s);
    put_member(it, "error", trial->error[0] != '\0' ? trial->error : NULL);
    put(it, ", \"config\": ");
    put(it, trial->config != NULL ? trial->config : "null");
    memset(it->has, 0, it->metrics.count + 1);
    for (size_t i = 0; i < trial->count; i++)
        fill_metrics(it, &trial->reports[i]);
    put(it, ", \"last\": ");
    put_object(it, it->metrics.names, it->values, it->has, it->metrics.count);
    for (size_t i = 0; i < objectives; i++) {
        names[i] = trp_seen_metric(&it->results->seen, i);
        best[i] = best_of(it, index, i);
    }
    put(it, ", \"best\": ");
    put_object(it, names, best, NULL, objectives);
    put(it, it->reports ? ", \"history\": [" : "");
    for (size_t i = 0; it->reports && i < trial->count; i++) {
        put(it, i == 0 ? "" : ", ");
        put_json_report(it, &trial->reports[i]);
        TROUPE_TRY(put_out(it, PIECE_BYTES));
    }
    put(it, it->reports ? "]}" : "}");
    return put_out(it, PIECE_BYTES);
}

static troupe_status write_json(sheet *it)
{
    put_head(it);
    for (size_t i = 0; i < it->results->seen.count; i++)
        TROUPE_TRY(put_json_trial(it, i));
    put(it, it->results->seen.count > 0 ? "\n]}\n" : "]}\n");
    return TROUPE_OK;
}

// ---- all of it

static const trp_range ranges[] = {
    TRP_RANGE(troupe_export_options, format, TROUPE_EXPORT_CSV, TROUPE_EXPORT_JSON),
};

troupe_status troupe_results_export_with(const troupe_results *results, FILE *out,
                                         const troupe_export_options *how)
{
    troupe_export_options taken;
    TRP_REQUIRE(results);
    TRP_REQUIRE(out);
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_results_export", taken, how));
    TROUPE_TRY(
        trp_ranges_check("troupe_results_export", ranges, sizeof ranges / sizeof *ranges, &taken));
    sheet it = {.results = results, .out = out, .reports = taken.reports};
    troupe_status status = find_columns(&it);
    if (status == TROUPE_OK)
        status = taken.format == TROUPE_EXPORT_JSON ? write_json(&it) : write_csv(&it);
    if (status == TROUPE_OK)
        status = put_out(&it, 0);
    if (status == TROUPE_OK && fflush(out) != 0)
        status = trp_fail_errno(TROUPE_IO, "the table of %s cannot be written", results->seen.name);
    trp_buffer_free(&it.text);
    trp_arena_clear(&it.arena);
    return status;
}
