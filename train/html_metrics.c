// html_metrics.c: the curves of a run's report, and the table of its metrics.
#include <train/html_page.h>

#include <runtime/base/memory.h>
#include <runtime/text/html_text.h>
#include <stdio.h>
#include <string.h>

enum { MARKED_ATTEMPTS_MAX = TRP_FACTS_ATTEMPTS };

// ---- axes and marks

static trp_axis reports_axis(const trp_facts *facts)
{
    trp_axis axis = {.from = 1, .to = facts->reports > 1 ? facts->reports : 1};
    return axis;
}

static trp_axis time_axis(const trp_facts *facts)
{
    return (trp_axis){.time = true, .from = 0, .to = facts->elapsed_s > 0 ? facts->elapsed_s : 1};
}

static void write_marks(const trp_facts *facts, const trp_axis *axis, trp_buffer *out)
{
    const trp_series *commits = axis->time ? facts->commits_over_time : facts->commits_over_reports;
    for (size_t i = 0; i < commits->used; i++)
        if (commits->slots[i].count > 0 && commits->slots[i].to <= axis->to)
            trp_curve_mark(axis, TRP_MARK_CHECKPOINT, commits->slots[i].to, out);
    uint64_t first =
        facts->attempts > TRP_FACTS_ATTEMPTS ? facts->attempts - TRP_FACTS_ATTEMPTS : 0;
    for (uint64_t i = first; i < facts->attempts; i++) {
        const trp_facts_attempt *row = &facts->attempt_ring[i % TRP_FACTS_ATTEMPTS];
        double at = axis->time ? row->elapsed_s : row->reached;
        if (i > 0 && !row->anew && at >= axis->from && at <= axis->to)
            trp_curve_mark(axis, row->restart ? TRP_MARK_RESTART : TRP_MARK_OPENING, at, out);
    }
    uint64_t kept = facts->changes < TRP_FACTS_CHANGES ? facts->changes : TRP_FACTS_CHANGES;
    for (uint64_t i = facts->changes - kept; i < facts->changes; i++) {
        const trp_facts_change *row = &facts->change_ring[i % TRP_FACTS_CHANGES];
        double at = axis->time ? row->elapsed_s : row->report;
        bool counts = row->kind != TRP_CHANGE_VALUE || row->counts;
        if (counts && at >= axis->from && at <= axis->to)
            trp_curve_mark(axis, TRP_MARK_CHANGE, at, out);
    }
}

// All curves of an axis have the same marks, which are there once.
static void write_marks_of_all(const trp_facts *facts, trp_buffer *out)
{
    trp_axis axes[] = {reports_axis(facts), time_axis(facts)};
    static const char *const ids[] = {"marks-r", "marks-t"};
    trp_buffer_printf(out, "<svg width=\"0\" height=\"0\" style=\"position:absolute\" "
                           "aria-hidden=\"true\"><defs>\n");
    for (int i = 0; i < 2; i++) {
        trp_buffer_printf(out, "<g id=\"%s\">\n", ids[i]);
        write_marks(facts, &axes[i], out);
        trp_buffer_printf(out, "</g>\n");
    }
    trp_buffer_printf(out, "</defs></svg>\n");
}

// ---- controls

static void write_choice(trp_buffer *out, const char *group, const char *id, const char *text,
                         bool chosen)
{
    trp_buffer_printf(out,
                      "<label for=\"%s\"><input type=\"radio\" name=\"%s\" id=\"%s\"%s/>%s</label>",
                      id, group, id, chosen ? " checked=\"checked\"" : "", text);
}

static bool has_log(const trp_facts *facts)
{
    for (size_t i = 0; i < facts->metric_count; i++)
        if (trp_curve_has_log(&facts->metrics[i]->over_reports))
            return true;
    return false;
}

static void write_controls(const trp_facts *facts, trp_buffer *out)
{
    trp_buffer_printf(out, "<div class=\"bar\"><fieldset><legend>Over</legend>");
    write_choice(out, "axis", "by-reports", "reports", true);
    write_choice(out, "axis", "by-time", "training time", false);
    trp_buffer_printf(out, "</fieldset>");
    if (has_log(facts)) {
        trp_buffer_printf(out, "<fieldset><legend>Scale</legend>");
        write_choice(out, "scale", "linear", "linear", true);
        write_choice(out, "scale", "log", "logarithmic", false);
        trp_buffer_printf(out, "</fieldset>");
    }
    trp_buffer_printf(out, "</div>\n");
}

static bool has_bands(const trp_facts *facts)
{
    return facts->reports > TRP_SLOTS || facts->has_ranks;
}

static void write_key(const trp_facts *facts, trp_buffer *out)
{
    bool odd = false;
    for (size_t i = 0; i < facts->metric_count; i++)
        odd = odd || facts->metrics[i]->odd > 0;
    trp_buffer_printf(out, "<ul class=\"key\">\n");
    if (has_bands(facts))
        trp_buffer_printf(out,
                          "<li><svg viewBox=\"0 0 22 14\" aria-hidden=\"true\"><path "
                          "class=\"band\" d=\"M0,2H22V12H0Z\"/><path class=\"curve\" "
                          "d=\"M0,7H22\"/></svg>mean, lowest to highest%s</li>\n",
                          facts->has_ranks ? " of all ranks" : "");
    if (facts->commits > 0)
        trp_buffer_printf(out, "<li><svg viewBox=\"0 0 22 14\" aria-hidden=\"true\"><path "
                               "class=\"checkpoint\" d=\"M11,3l4,8h-8z\"/></svg>checkpoint</li>\n");
    if (facts->restarts > 0)
        trp_buffer_printf(out, "<li><svg viewBox=\"0 0 22 14\" aria-hidden=\"true\"><line "
                               "class=\"restart\" x1=\"0\" y1=\"7\" x2=\"22\" y2=\"7\"/></svg>"
                               "restart</li>\n");
    if (facts->openings > 1)
        trp_buffer_printf(out, "<li><svg viewBox=\"0 0 22 14\" aria-hidden=\"true\"><line "
                               "class=\"opening\" x1=\"0\" y1=\"7\" x2=\"22\" y2=\"7\"/></svg>"
                               "opened again</li>\n");
    if (facts->changes > 0)
        trp_buffer_printf(out, "<li><svg viewBox=\"0 0 22 14\" aria-hidden=\"true\"><line "
                               "class=\"change\" x1=\"0\" y1=\"7\" x2=\"22\" y2=\"7\"/></svg>"
                               "paused, resized or modified</li>\n");
    if (odd)
        trp_buffer_printf(out,
                          "<li><svg viewBox=\"0 0 22 14\" aria-hidden=\"true\"><path "
                          "class=\"odd\" d=\"M7,3v8M11,3v8M15,3v8\"/></svg>not a number</li>\n");
    trp_buffer_printf(out, "</ul>\n");
}

// ---- curves

// "120 values from 1.2 to 0.1; lowest 0.09 at report 101, highest 1.2 at report 1."
static void describe(const trp_facts_metric *it, trp_buffer *out)
{
    trp_buffer_printf(out, "%llu values", (unsigned long long)it->count);
    if (it->count > 0) {
        trp_buffer_printf(out, ", the first ");
        trp_html_number(out, it->first);
        trp_buffer_printf(out, ", the last ");
        trp_html_number(out, it->last);
        trp_buffer_printf(out, "; lowest ");
        trp_html_number(out, it->low);
        trp_buffer_printf(out, " at report %d, highest ", it->low_report);
        trp_html_number(out, it->high);
        trp_buffer_printf(out, " at report %d", it->high_report);
    }
    if (it->odd > 0)
        trp_buffer_printf(out, "; %llu reports have no number", (unsigned long long)it->odd);
    trp_buffer_printf(out, ".");
}

static void draw(const trp_facts *facts, size_t number, bool time, bool log, const char *about,
                 trp_buffer *out)
{
    const trp_facts_metric *it = facts->metrics[number];
    char id[32], title[300], kind[32];
    snprintf(id, sizeof id, "c%zu-%c%s", number, time ? 't' : 'r', log ? "-log" : "");
    snprintf(kind, sizeof kind, "%s %s", time ? "by-time" : "by-reports", log ? "log" : "linear");
    snprintf(title, sizeof title, "%.200s over %s%s", it->name, time ? "training time" : "reports",
             log ? ", logarithmic" : "");
    trp_curve_draw(&(trp_curve){.series = time ? &it->over_time : &it->over_reports,
                                .axis = time ? time_axis(facts) : reports_axis(facts),
                                .log = log,
                                .kind = kind,
                                .id = id,
                                .marks = time ? "marks-t" : "marks-r",
                                .title = title,
                                .about = about},
                   out);
}

static void write_figure(const trp_facts *facts, size_t number, trp_buffer *out)
{
    const trp_facts_metric *it = facts->metrics[number];
    bool log = trp_curve_has_log(&it->over_reports);
    trp_buffer about = {0};
    describe(it, &about);
    trp_buffer_append(&about, "", 1);
    const char *text = about.failed ? "" : (const char *)about.data;
    trp_buffer_printf(out, "<figure%s>\n<figcaption><b>", log ? " class=\"has-log\"" : "");
    trp_html_text(out, it->name);
    trp_buffer_printf(out, "</b><span>");
    trp_html_number(out, it->last);
    trp_buffer_printf(out, "</span></figcaption>\n");
    for (int kind = 0; kind < 4; kind++)
        if (kind < 2 || log)
            draw(facts, number, kind % 2 == 1, kind >= 2, text, out);
    trp_buffer_printf(out, "<div class=\"tip\" aria-live=\"polite\" hidden=\"hidden\"></div>\n"
                           "<script type=\"application/json\">{\"reports\":");
    trp_curve_data(&it->over_reports, out);
    trp_buffer_printf(out, ",\"time\":");
    trp_curve_data(&it->over_time, out);
    trp_buffer_printf(out, "}</script>\n</figure>\n");
    trp_buffer_free(&about);
}

// ---- the table

static void write_at(trp_buffer *out, const trp_facts_metric *it, double value, int report)
{
    trp_buffer_printf(out, "<td class=\"n\">");
    if (it->count > 0) {
        trp_html_number(out, value);
        trp_buffer_printf(out, "<br/><small>report %d</small>", report);
    }
    trp_buffer_printf(out, "</td>");
}

static void write_table(const trp_facts *facts, trp_buffer *out)
{
    trp_buffer_printf(out, "<h3>In figures</h3>\n");
    trp_html_table(out, "Metrics in figures",
                   "Metric|#First|#Last|#Lowest|#Highest|#Values|#Not a number");
    for (size_t i = 0; i < facts->metric_count; i++) {
        const trp_facts_metric *it = facts->metrics[i];
        trp_buffer_printf(out, "<tr><th scope=\"row\">");
        trp_html_text(out, it->name);
        trp_buffer_printf(out, "</th>");
        trp_buffer_printf(out, "<td class=\"n\">");
        trp_html_number(out, it->first);
        trp_buffer_printf(out, "<br/><small>report %d</small></td><td class=\"n\">",
                          it->first_report);
        trp_html_number(out, it->last);
        trp_buffer_printf(out, "<br/><small>report %d</small></td>", it->last_report);
        write_at(out, it, it->low, it->low_report);
        write_at(out, it, it->high, it->high_report);
        trp_buffer_printf(out, "<td class=\"n\">%llu</td><td class=\"n\">%llu</td></tr>\n",
                          (unsigned long long)it->count, (unsigned long long)it->odd);
    }
    trp_html_table_end(out);
    if (facts->metrics_left_out > 0)
        trp_buffer_printf(out,
                          "<p class=\"note\">The first %d metrics are shown; %llu values of others "
                          "are not.</p>\n",
                          TRP_FACTS_METRICS, (unsigned long long)facts->metrics_left_out);
}

void trp_html_curves(const trp_facts *facts, trp_buffer *out)
{
    trp_buffer_printf(out, "<section id=\"curves\" aria-labelledby=\"curves-h\">\n"
                           "<h2 id=\"curves-h\">Metrics</h2>\n");
    if (facts->metric_count == 0) {
        trp_buffer_printf(out, "<p>No report with a metric has been made.</p>\n</section>\n");
        return;
    }
    write_controls(facts, out);
    write_key(facts, out);
    write_marks_of_all(facts, out);
    trp_buffer_printf(out, "<div class=\"charts\">\n");
    for (size_t i = 0; i < facts->metric_count; i++)
        write_figure(facts, i, out);
    trp_buffer_printf(out, "</div>\n");
    write_table(facts, out);
    trp_buffer_printf(out, "</section>\n");
}
