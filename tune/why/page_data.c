// page_data.c: the trials of a page as JSON, for its script.
#include <tune/why/page.h>

#include <math.h>
#include <runtime/base/memory.h>
#include <string.h>

static void number(trp_buffer *out, double value)
{
    if (isfinite(value))
        trp_buffer_printf(out, "%.9g", value);
    else
        trp_buffer_append(out, "null", 4);
}

static void time_of(trp_buffer *out, double value)
{
    if (isfinite(value))
        trp_buffer_printf(out, "%.3f", value);
    else
        trp_buffer_append(out, "null", 4);
}

static void text(trp_buffer *out, const char *value)
{
    trp_json_text(out, value);
}

// Items of an array are separated by commas.
static void next(trp_buffer *out, size_t index)
{
    trp_buffer_append(out, ",", index > 0);
}

static void write_dims(const trp_trials *trials, trp_buffer *out)
{
    trp_buffer_printf(out, "\"dims\":[");
    for (size_t i = 0; i < trials->column_count; i++) {
        const trp_column *column = &trials->columns[i];
        next(out, i);
        trp_buffer_printf(out, "{\"name\":");
        text(out, column->name);
        if (column->texts != NULL) {
            trp_buffer_printf(out, ",\"kind\":\"choice\",\"texts\":[");
            for (int k = 0; k < column->dim.choices; k++) {
                next(out, (size_t)k);
                text(out, column->texts[k]);
            }
            trp_buffer_printf(out, "]}");
            continue;
        }
        trp_buffer_printf(out, ",\"kind\":\"%s\",\"log\":%s,\"low\":",
                          column->dim.kind == TROUPE_DIM_INTEGER ? "integer" : "real",
                          column->dim.log ? "true" : "false");
        number(out, column->dim.low);
        trp_buffer_printf(out, ",\"high\":");
        number(out, column->dim.high);
        trp_buffer_printf(out, "}");
    }
    trp_buffer_printf(out, "],\n");
}

static void write_objectives(const trp_trials *trials, trp_buffer *out)
{
    trp_buffer_printf(out, "\"goals\":[");
    for (size_t i = 0; i < trials->objectives; i++)
        trp_buffer_printf(out, "%s\"%s\"", i > 0 ? "," : "",
                          trials->goals[i] == TROUPE_MAXIMIZE ? "maximize" : "minimize");
    trp_buffer_printf(out, "],\"metrics\":[");
    for (size_t i = 0; i < trials->objectives; i++) {
        next(out, i);
        text(out, trials->metrics[i]);
    }
    trp_buffer_printf(out, "],\"states\":[");
    for (int i = 0; i < TRP_TRIALS_STATES; i++)
        trp_buffer_printf(out, "%s\"%s\"", i > 0 ? "," : "",
                          trp_trials_state_name((trp_trials_state)i));
    trp_buffer_printf(out, "],\n");
}

static void write_trial(const trp_trials *trials, const trp_seen_trial *it, trp_buffer *out)
{
    trp_buffer_printf(out, "[%d,%d,[", it->number, (int)it->state);
    for (size_t i = 0; i < trials->objectives; i++) {
        next(out, i);
        number(out, it->values[i]);
    }
    trp_buffer_printf(out, "],%d,", it->reports);
    number(out, it->elapsed_s);
    trp_buffer_append(out, ",", 1);
    time_of(out, it->began);
    trp_buffer_append(out, ",", 1);
    time_of(out, it->ended);
    trp_buffer_printf(out, ",[");
    for (size_t i = 0; i < trials->column_count; i++) {
        next(out, i);
        number(out, it->x[i]);
    }
    trp_buffer_append(out, "]", 1);
    if (it->name != NULL || it->error != NULL) {
        trp_buffer_append(out, ",", 1);
        text(out, it->name);
    }
    if (it->error != NULL) {
        trp_buffer_append(out, ",", 1);
        text(out, it->error);
    }
    trp_buffer_append(out, "]", 1);
}

// ---- curves

// Which curves are drawn: those of the best trials, and others evenly.
static bool is_drawn(size_t number, size_t of)
{
    return of <= TRP_PAGE_CURVES ||
           number * TRP_PAGE_CURVES / of != (number + 1) * TRP_PAGE_CURVES / of;
}

static void write_curves(const trp_page_facts *facts, trp_buffer *out)
{
    const trp_trials *trials = facts->trials;
    size_t index = 0, number_of = 0, written = 0;
    trp_buffer_printf(out, "\"curves\":[");
    for (size_t i = 0; i < trials->count; i++) {
        const trp_seen_trial *it = trials->trials[i];
        if (!facts->kept[i])
            continue;
        size_t at = index++;
        if (it->used < 2 || (!is_drawn(number_of++, facts->reporting) && it != facts->best))
            continue;
        next(out, written++);
        trp_buffer_printf(out, "[%zu,%d,[", at, it->stride);
        for (size_t k = 0; k < it->used; k++) {
            next(out, k);
            if (isfinite(it->points[k]))
                trp_buffer_printf(out, "%.6g", it->points[k]);
            else
                trp_buffer_append(out, "null", 4);
        }
        trp_buffer_printf(out, "]]\n");
    }
    trp_buffer_printf(out, "]");
}

// Which of the page's trials do, by their places.
static void write_violating(const trp_page_facts *facts, trp_buffer *out)
{
    size_t written = 0, index = 0;
    trp_buffer_printf(out, "\"violating\":[");
    for (size_t i = 0; i < facts->trials->count; i++) {
        if (facts->kept[i] && facts->trials->trials[i]->violation > 0)
            trp_buffer_printf(out, "%s%zu", written++ > 0 ? "," : "", index);
        index += facts->kept[i];
    }
    trp_buffer_printf(out, "],\n");
}

void trp_page_data(const trp_page_facts *facts, trp_buffer *out)
{
    const trp_trials *trials = facts->trials;
    size_t written = 0, index = 0;
    trp_buffer_printf(out, "{");
    write_objectives(trials, out);
    write_dims(trials, out);
    trp_buffer_printf(out, "\"importance\":[");
    for (size_t i = 0; i < trials->column_count; i++) {
        next(out, i);
        number(out, facts->pedanova[i]);
    }
    trp_buffer_printf(out, "],\"reporting\":%zu,\n\"trials\":[", facts->reporting);
    for (size_t i = 0; i < trials->count; i++)
        if (facts->kept[i]) {
            next(out, written++);
            write_trial(trials, trials->trials[i], out);
            trp_buffer_append(out, "\n", 1);
        }
    trp_buffer_printf(out, "],\n\"front\":[");
    written = 0;
    for (size_t i = 0; i < trials->count; i++) {
        if (facts->front != NULL && facts->front[i] && facts->kept[i])
            trp_buffer_printf(out, "%s%zu", written++ > 0 ? "," : "", index);
        index += facts->kept[i];
    }
    trp_buffer_printf(out, "],\n");
    write_violating(facts, out);
    write_curves(facts, out);
    trp_buffer_printf(out, "}\n");
}
