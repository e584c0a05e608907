// page.c: the page of a sweep or a study: its head, what can be read without the script, and the
// places that the script fills. Its looks are those of a run's report (runtime/text/html_style.c).
#include <tune/why/page.h>

#include <math.h>
#include <runtime/text/html_text.h>
#include <string.h>
#include <troupe/runtime.h>
#include <tune/why/assets.h>

// ---- parts

static void write_lines(const char *const *lines, trp_buffer *out)
{
    for (; *lines != NULL; lines++)
        trp_buffer_printf(out, "%s\n", *lines);
}

static void write_asset(const char *path, trp_buffer *out)
{
    for (size_t i = 0; i < trp_asset_count; i++)
        if (strcmp(trp_assets[i].path, path) == 0)
            trp_buffer_append(out, trp_assets[i].data, trp_assets[i].size);
}

static void begin_section(trp_buffer *out, const char *id, const char *title)
{
    trp_buffer_printf(out,
                      "<section id=\"%s\" aria-labelledby=\"%s-h\">\n<h2 id=\"%s-h\">%s</h2>\n", id,
                      id, id, title);
}

// A section of one drawing, which the script makes.
static void write_plot(trp_buffer *out, const char *id, const char *title, const char *note)
{
    begin_section(out, id, title);
    trp_buffer_printf(out,
                      "%s<div class=\"plot\" id=\"plot-%s\"></div>\n"
                      "<p class=\"note\" id=\"note-%s\"></p>\n</section>\n",
                      note, id, id);
}

#define RAMP                                                                                       \
    "<span class=\"ramp\" aria-hidden=\"true\"><i></i><i></i><i></i><i></i><i></i><i></i>"         \
    "<i></i><i></i></span>"
static const char ramp[] = "<p class=\"note\">Worst" RAMP "best, by rank; the best of all in "
                           "orange.</p>\n";

static const char *metric_of(const trp_trials *trials, size_t objective)
{
    return trials->metrics[objective] != NULL ? trials->metrics[objective] : "value";
}

// ---- the head

typedef struct standing {
    const char *kind, *word;
} standing;

static standing standing_of(const trp_trials *trials)
{
    size_t going = trials->counts[TRP_TRIALS_PENDING] + trials->counts[TRP_TRIALS_RUNNING] +
                   trials->counts[TRP_TRIALS_PAUSED];
    if (trials->count == 0)
        return (standing){"warn", "No trials yet"};
    if (going > 0 || (trials->wanted > 0 && trials->count < (size_t)trials->wanted))
        return (standing){"go", "Not at its end"};
    return trials->counts[TRP_TRIALS_ERROR] == trials->count ? (standing){"bad", "Failed"}
                                                             : (standing){"ok", "Finished"};
}

static void write_lead(const trp_trials *trials, trp_buffer *out)
{
    trp_buffer_printf(out, "<p class=\"lead\">");
    for (size_t i = 0; i < trials->objectives; i++) {
        bool most = trials->goals[i] == TROUPE_MAXIMIZE;
        trp_buffer_printf(out, "%s <b>",
                          i == 0 ? (most ? "Maximises" : "Minimises")
                                 : (most ? ", maximises" : ", minimises"));
        trp_html_text(out, metric_of(trials, i));
        trp_buffer_printf(out, "</b>");
    }
    if (trials->searcher != NULL) {
        trp_buffer_printf(out, "; searched by ");
        trp_html_text(out, trials->searcher);
    }
    if (trials->scheduler != NULL) {
        trp_buffer_printf(out, "; scheduled by ");
        trp_html_text(out, trials->scheduler);
    }
    if (trials->seed != NULL) {
        trp_buffer_printf(out, "; seed ");
        trp_html_text(out, trials->seed);
    }
    trp_buffer_printf(out, ".</p>\n");
}

static void write_count(trp_buffer *out, const char *name, size_t count, const char *more)
{
    trp_buffer_printf(out, "<li><span>%s</span><b>%zu</b>%s</li>\n", name, count, more);
}

static void write_tiles(const trp_page_facts *facts, trp_buffer *out)
{
    const trp_trials *trials = facts->trials;
    double seconds = 0;
    trp_buffer_printf(out, "<ul class=\"tiles\">\n");
    if (facts->best != NULL) {
        trp_buffer_printf(out, "<li><span>Best ");
        trp_html_text(out, metric_of(trials, 0));
        trp_buffer_printf(out, "</span><b>");
        trp_html_number(out, facts->best->values[0]);
        trp_buffer_printf(out, "</b><small>trial %d</small></li>\n", facts->best->number);
    }
    trp_buffer_printf(out, "<li><span>Trials</span><b>%zu</b>", trials->count);
    if (trials->wanted > 0)
        trp_buffer_printf(out, "<small>of %d</small>", trials->wanted);
    trp_buffer_printf(out, "</li>\n");
    write_count(out, "Ran to their end", trials->counts[TRP_TRIALS_TERMINATED], "");
    if (trials->counts[TRP_TRIALS_STOPPED] > 0)
        write_count(out, "Stopped early", trials->counts[TRP_TRIALS_STOPPED], "");
    if (trials->counts[TRP_TRIALS_ERROR] > 0)
        write_count(out, "Failed", trials->counts[TRP_TRIALS_ERROR], "");
    size_t going = trials->counts[TRP_TRIALS_PENDING] + trials->counts[TRP_TRIALS_RUNNING] +
                   trials->counts[TRP_TRIALS_PAUSED];
    if (going > 0)
        write_count(out, "Have no end yet", going, "");
    for (size_t i = 0; i < trials->count; i++)
        seconds += trials->trials[i]->elapsed_s;
    if (seconds > 0) {
        trp_buffer_printf(out, "<li><span>Time of all trials</span><b>");
        trp_html_duration(out, seconds);
        trp_buffer_printf(out, "</b></li>\n");
    }
    trp_buffer_printf(out, "</ul>\n");
}

// A JSON object with a line for each of its members.
static void write_object(trp_json object, trp_buffer *out)
{
    trp_json at = {0}, name, value;
    size_t members = 0;
    if (!trp_json_is_object(object)) {
        trp_html_lines(out, object.at, object.size);
        return;
    }
    trp_buffer_printf(out, "{");
    while (trp_json_next_member(object, &at, &name, &value)) {
        trp_buffer_printf(out, "%s\n  ", members++ > 0 ? "," : "");
        trp_html_lines(out, name.at, name.size);
        trp_buffer_printf(out, ": ");
        trp_html_lines(out, value.at, value.size);
    }
    trp_buffer_printf(out, "%s}", members > 0 ? "\n" : "");
}

static void write_best(const trp_page_facts *facts, trp_buffer *out)
{
    if (facts->best == NULL || facts->best->config.size == 0)
        return;
    trp_buffer_printf(out,
                      "<div class=\"best-config\"><div><b>Best config</b>"
                      "<button type=\"button\" id=\"copy\">Copy</button></div>\n"
                      "<pre id=\"best-json\" tabindex=\"0\" aria-label=\"Config of trial %d\">",
                      facts->best->number);
    write_object(facts->best->config, out);
    trp_buffer_printf(out, "</pre></div>\n");
}

static void write_panels(const trp_page_facts *facts, trp_buffer *out)
{
    const trp_trials *trials = facts->trials;
    if (trials->bad_lines > 0)
        trp_buffer_printf(out,
                          "<div class=\"panel warn\" id=\"damage\"><p>%llu of %llu lines of the "
                          "record cannot be read and are left out.</p></div>\n",
                          (unsigned long long)trials->bad_lines, (unsigned long long)trials->lines);
    if (facts->kept_count < trials->count)
        trp_buffer_printf(out,
                          "<div class=\"panel warn\"><p>The page has %zu of %zu trials: the best, "
                          "and others evenly.</p></div>\n",
                          facts->kept_count, trials->count);
    if (trials->columns_left_out > 0)
        trp_buffer_printf(out,
                          "<div class=\"panel warn\"><p>%zu parameters are left out: they have "
                          "more values than a choice can have, or there are too many of "
                          "them.</p></div>\n",
                          trials->columns_left_out);
    trp_buffer_printf(out, "<noscript><div class=\"panel warn\"><p>Drawings need the page's "
                           "script, which is off.</p></div></noscript>\n");
}

static void write_header(const trp_page_facts *facts, trp_buffer *out)
{
    const trp_trials *trials = facts->trials;
    standing now = standing_of(trials);
    trp_buffer_printf(out, "<header>\n<p class=\"kicker\">%s", trials->sweep ? "Sweep" : "Study");
    if (trials->trainer != NULL) {
        trp_buffer_printf(out, " of <b>");
        trp_html_text(out, trials->trainer);
        trp_buffer_printf(out, "</b>");
    }
    trp_buffer_printf(out, "</p>\n<div class=\"title\"><h1>");
    trp_html_text(out, trials->name);
    trp_buffer_printf(out, "</h1><span class=\"status %s\">%s</span></div>\n", now.kind, now.word);
    write_lead(trials, out);
    write_panels(facts, out);
    write_tiles(facts, out);
    write_best(facts, out);
    trp_buffer_printf(out, "</header>\n");
}

// ---- importance

static double sum_of(const double *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return sum;
}

static void write_share(double share, trp_buffer *out)
{
    trp_buffer_printf(out,
                      "<td><div class=\"share\"><i><b style=\"width:%.1f%%\"></b></i>"
                      "<span>%.3f</span></div></td>",
                      100 * share, share);
}

static void write_importance_of(const trp_page_facts *facts, size_t objective, trp_buffer *out)
{
    const trp_trials *trials = facts->trials;
    size_t columns = trials->column_count;
    const double *pedanova = facts->pedanova + objective * columns;
    const double *fanova = facts->fanova + objective * columns;
    double all = sum_of(pedanova, columns), alone = sum_of(fanova, columns);
    bool done[TRP_TRIALS_COLUMNS] = {0};
    if (trials->objectives > 1) {
        trp_buffer_printf(out, "<h3>");
        trp_html_text(out, metric_of(trials, objective));
        trp_buffer_printf(out, "</h3>\n");
    }
    trp_html_table(out, "Importance", "Parameter|Best tenth|Variance");
    for (size_t row = 0; row < columns; row++) {
        size_t most = columns;
        for (size_t i = 0; i < columns; i++)
            if (!done[i] && (most == columns || pedanova[i] > pedanova[most]))
                most = i;
        done[most] = true;
        trp_buffer_printf(out, "<tr><th scope=\"row\">");
        trp_html_text(out, trials->columns[most].name);
        trp_buffer_printf(out, "</th>");
        write_share(all > 0 ? pedanova[most] / all : 0, out);
        write_share(fanova[most], out);
        trp_buffer_printf(out, "</tr>\n");
    }
    trp_html_table_end(out);
    if (alone > 0 && alone < 0.995)
        trp_buffer_printf(out,
                          "<p class=\"note\">%.3f of the variance is of parameters together.</p>\n",
                          1 - alone);
}

static void write_importance(const trp_page_facts *facts, trp_buffer *out)
{
    enum { FEW = 20 };
    if (facts->trials->column_count == 0 || facts->best == NULL)
        return;
    begin_section(out, "importance", "Which parameters mattered");
    trp_buffer_printf(out,
                      "<p class=\"note\">Best tenth: what made trials be among it (PED-ANOVA), as "
                      "shares of 1. Variance: what a parameter explains of it by itself, over "
                      "the whole space (fANOVA).%s</p>\n",
                      facts->trials->count < FEW ? " Few trials say little of either." : "");
    for (size_t i = 0; i < facts->trials->objectives; i++)
        write_importance_of(facts, i, out);
    trp_buffer_printf(out, "</section>\n");
}

// ---- drawings and the table

static bool has_times(const trp_trials *trials)
{
    for (size_t i = 0; i < trials->count; i++)
        if (isfinite(trials->trials[i]->began) && isfinite(trials->trials[i]->ended))
            return true;
    return false;
}

static void write_plots(const trp_page_facts *facts, trp_buffer *out)
{
    const trp_trials *trials = facts->trials;
    if (facts->best != NULL) {
        write_plot(out, "history", "History",
                   "<div class=\"bar\"><fieldset><legend>Values</legend><label><input "
                   "type=\"radio\" name=\"scale\" checked=\"checked\"/>linear</label><label><input "
                   "type=\"radio\" name=\"scale\" id=\"scale-log\"/>logarithmic</label></fieldset>"
                   "</div>\n");
        write_importance(facts, out);
        if (facts->front != NULL)
            write_plot(out, "front", "Trials that no other beats", "");
        if (trials->column_count > 0) {
            write_plot(out, "parallel", "Across parameters", ramp);
            begin_section(out, "slices", "Each parameter by itself");
            trp_buffer_printf(out,
                              "%s<div class=\"slices\" id=\"plot-slices\"></div>\n"
                              "<p class=\"note\" id=\"note-slices\"></p>\n</section>\n",
                              ramp);
        }
        if (trials->column_count > 1)
            write_plot(out, "landscape", "The two that mattered most, together", ramp);
    }
    if (facts->reporting > 0)
        write_plot(out, "curves", "Learning curves",
                   "<p class=\"note\">The best in orange; those that were stopped or failed are "
                   "grey.</p>\n");
    if (has_times(trials))
        write_plot(out, "timeline", "When they ran",
                   "<p class=\"note\">Blue: to their end; grey: stopped; red: failed; orange: they "
                   "have no end.</p>\n");
}

// The rows that are there without the script.
static void write_rows(const trp_page_facts *facts, trp_buffer *out)
{
    enum { ROWS = 50 };
    const trp_trials *trials = facts->trials;
    for (size_t i = 0, rows = 0; i < trials->count && rows < ROWS; i++) {
        const trp_seen_trial *it = trials->trials[i];
        if (!facts->kept[i])
            continue;
        rows++;
        trp_buffer_printf(out, "<tr><th scope=\"row\">%d</th><td>%s</td><td class=\"n\">",
                          it->number, trp_trials_state_name(it->state));
        trp_html_number(out, it->values[0]);
        trp_buffer_printf(out, "</td><td>");
        trp_html_lines(out, it->config.at, it->config.size);
        trp_buffer_printf(out, "</td></tr>\n");
    }
}

static void write_table(const trp_page_facts *facts, trp_buffer *out)
{
    begin_section(out, "trials", "Trials");
    trp_buffer_printf(out,
                      "<div class=\"bar\"><label>Find <input type=\"search\" id=\"find\" "
                      "placeholder=\"rate=0.1 sgd\"/></label><label>State <select id=\"state\">"
                      "<option value=\"\">all</option>");
    for (int i = 0; i < TRP_TRIALS_STATES; i++)
        if (facts->trials->counts[i] > 0)
            trp_buffer_printf(out, "<option>%s</option>",
                              trp_trials_state_name((trp_trials_state)i));
    trp_buffer_printf(out, "</select></label><span id=\"table-count\" role=\"status\"></span>"
                           "</div>\n");
    trp_html_table(out, "Trials", "Trial|State|#Value|Config");
    write_rows(facts, out);
    trp_html_table_end(out);
    trp_buffer_printf(out, "<p class=\"more\"><button type=\"button\" id=\"more\" "
                           "hidden=\"hidden\">Show 200 more</button></p>\n</section>\n");
}

// ---- the frame

static void write_footer(const trp_trials *trials, const char *made, trp_buffer *out)
{
    int version = troupe_version();
    trp_buffer_printf(out, "<footer>\n<p>Made ");
    trp_html_time(out, made);
    trp_buffer_printf(out, " by Troupe %d.%d.%d from %llu lines of <code>", version / 10000,
                      version / 100 % 100, version % 100, (unsigned long long)trials->lines);
    trp_html_text(out, trials->file);
    trp_buffer_printf(out, "</code></p>\n</footer>\n");
}

// Data within a script: it has no "<" that could end it.
static void write_data(const trp_page_facts *facts, trp_buffer *out)
{
    trp_buffer data = {0};
    trp_page_data(facts, &data);
    out->failed = out->failed || data.failed;
    trp_buffer_printf(out, "<script type=\"application/json\" id=\"data\">");
    for (size_t at = 0; at < data.size && !data.failed;) {
        const unsigned char *sign = memchr(data.data + at, '<', data.size - at);
        size_t plain = sign != NULL ? (size_t)(sign - data.data) - at : data.size - at;
        trp_buffer_append(out, data.data + at, plain);
        trp_buffer_append(out, "\\u003c", sign != NULL ? 6 : 0);
        at += plain + (sign != NULL);
    }
    trp_buffer_printf(out, "</script>\n");
    trp_buffer_free(&data);
}

void trp_page(const trp_page_facts *facts, const char *made, trp_buffer *out)
{
    trp_buffer_printf(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
                           "<meta charset=\"utf-8\"/>\n"
                           "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
                           "'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\"/>\n"
                           "<meta name=\"viewport\" content=\"width=device-width, "
                           "initial-scale=1\"/>\n<title>");
    trp_html_text(out, facts->trials->name);
    trp_buffer_printf(out, " \xc2\xb7 %s</title>\n<style>\n", standing_of(facts->trials).word);
    write_lines(trp_html_style, out);
    write_asset("/report.css", out);
    trp_buffer_printf(out, "</style>\n</head>\n<body>\n<main>\n");
    write_header(facts, out);
    write_plots(facts, out);
    write_table(facts, out);
    write_footer(facts->trials, made, out);
    trp_buffer_printf(out, "</main>\n");
    write_data(facts, out);
    trp_buffer_printf(out, "<script>\n");
    write_asset("/report.js", out);
    trp_buffer_printf(out, "</script>\n</body>\n</html>\n");
}
