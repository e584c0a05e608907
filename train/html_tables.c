// html_tables.c: the tables of a run's report: attempts, checkpoints, other events, log files.
#include <train/html_page.h>

#include <math.h>
#include <runtime/text/html_text.h>
#include <string.h>

static const char *dash = "<span aria-label=\"none\">\xe2\x80\x93</span>";

static void begin_section(trp_buffer *out, const char *id, const char *title)
{
    trp_buffer_printf(out,
                      "<section id=\"%s\" aria-labelledby=\"%s-h\">\n<h2 id=\"%s-h\">%s</h2>\n", id,
                      id, id, title);
}

static void write_link(trp_buffer *out, const char *links, const char *folder, const char *name,
                       const char *after)
{
    trp_buffer_printf(out, "<a href=\"");
    trp_html_path(out, links);
    trp_html_path(out, folder);
    trp_html_path(out, name);
    trp_buffer_printf(out, "%s\">", after);
    trp_html_text(out, name);
    trp_buffer_printf(out, "</a>");
}

// ---- attempts

// Why this attempt began.
static void write_reason(const trp_facts *facts, const trp_facts_attempt *row, trp_buffer *out)
{
    if (row->anew) {
        trp_buffer_printf(out, "Formed anew");
        return;
    }
    if (!row->restart) {
        if (facts->openings > 1)
            trp_buffer_printf(out, "Opening %d", row->opening);
        else
            trp_buffer_printf(out, "The first");
        if (row->driver > 0)
            trp_buffer_printf(out, " <small>by process %d</small>", row->driver);
        return;
    }
    trp_buffer_printf(out, "<span class=\"tag warn\">restart</span>");
    if (row->cause[0] == '\0')
        trp_buffer_printf(out, "The attempt before ended");
    trp_html_text(out, row->cause);
    if (row->cause_status[0] != '\0') {
        trp_buffer_printf(out, " <small>(");
        trp_html_text(out, row->cause_status);
        trp_buffer_printf(out, ")</small>");
    }
}

static bool is_there(const trp_facts *facts, const char *checkpoint)
{
    for (size_t i = 0; i < facts->checkpoint_count; i++)
        if (strcmp(facts->checkpoints[i].name, checkpoint) == 0)
            return true;
    return false;
}

static void write_attempt(const trp_facts *facts, const trp_facts_attempt *row, const char *links,
                          trp_buffer *out)
{
    trp_buffer_printf(out, "<tr%s><th scope=\"row\" class=\"n\">%d</th><td class=\"nw\">",
                      row->restart ? " class=\"again\"" : "", row->attempt);
    trp_html_time(out, row->at);
    trp_buffer_printf(out, "<br/><small>after ");
    trp_html_duration(out, row->elapsed_s);
    trp_buffer_printf(out, "</small></td><td class=\"why\">");
    write_reason(facts, row, out);
    trp_buffer_printf(out, "</td><td class=\"n\">");
    if (row->restart && row->cause_rank >= 0)
        trp_buffer_printf(out, "%d", row->cause_rank);
    else
        trp_buffer_printf(out, "%s", dash);
    trp_buffer_printf(out, "</td><td class=\"nw\">");
    if (row->checkpoint[0] != '\0' && row->attempt > 0 && is_there(facts, row->checkpoint))
        write_link(out, links, "checkpoints/", row->checkpoint, "/");
    else if (row->memory)
        trp_buffer_printf(out, "a commit in memory");
    else if (row->checkpoint[0] != '\0') // It is gone, or another run's.
        trp_html_text(out, row->checkpoint);
    else
        trp_buffer_printf(out, "the beginning");
    trp_buffer_printf(out, "<br/><small>report %d</small></td><td>", row->report);
    if (row->pids[0] != '\0')
        trp_html_text(out, row->pids);
    else
        trp_buffer_printf(out, "%s", dash);
    if (row->restart && row->replaced[0] != '\0') {
        trp_buffer_printf(out, "<br/><small>replaced: rank ");
        trp_html_text(out, row->replaced);
        trp_buffer_printf(out, "</small>");
    }
    trp_buffer_printf(out, "</td></tr>\n");
}

void trp_html_attempts(const trp_facts *facts, const char *links, trp_buffer *out)
{
    uint64_t first =
        facts->attempts > TRP_FACTS_ATTEMPTS ? facts->attempts - TRP_FACTS_ATTEMPTS : 0;
    begin_section(out, "attempts", "Attempts, restarts and changes");
    if (facts->attempts == 0)
        trp_buffer_printf(out, "<p>No group of it has started.</p>\n");
    if (facts->attempts + facts->changes == 0) {
        trp_buffer_printf(out, "</section>\n");
        return;
    }
    if (first > 0)
        trp_buffer_printf(out, "<p class=\"note\">The last %d of %llu.</p>\n", TRP_FACTS_ATTEMPTS,
                          (unsigned long long)facts->attempts);
    if (facts->changes > TRP_FACTS_CHANGES)
        trp_buffer_printf(out, "<p class=\"note\">Of %llu changes the last %d.</p>\n",
                          (unsigned long long)facts->changes, TRP_FACTS_CHANGES);
    trp_html_table(out, "Attempts, restarts and changes",
                   "#Attempt|Began|Why|#Rank lost|Goes on from|Processes by rank");
    trp_html_changes(facts, first, out);
    for (uint64_t i = first; i < facts->attempts; i++) {
        write_attempt(facts, &facts->attempt_ring[i % TRP_FACTS_ATTEMPTS], links, out);
        trp_html_changes(facts, i + 1, out);
    }
    trp_html_table_end(out);
    trp_buffer_printf(out, "</section>\n");
}

// ---- checkpoints

static void write_metrics(const trp_facts_checkpoint *row, trp_buffer *out)
{
    for (size_t i = 0; i < row->metric_count; i++) {
        trp_buffer_printf(out, "%s<span class=\"nw\"><small>", i > 0 ? ", " : "");
        trp_html_text(out, row->metrics[i].name);
        trp_buffer_printf(out, "</small> ");
        trp_html_number(out, row->metrics[i].value);
        trp_buffer_printf(out, "</span>");
    }
}

static void write_checkpoint(const trp_facts_checkpoint *row, const char *links, trp_buffer *out)
{
    trp_buffer_printf(out, "<tr><th scope=\"row\" class=\"nw\">");
    write_link(out, links, "checkpoints/", row->name, "/");
    trp_buffer_printf(out, "%s%s</th>", row->best ? " <span class=\"tag ok\">best</span>" : "",
                      row->newest ? " <span class=\"tag go\">newest</span>" : "");
    if (row->error != NULL) {
        trp_buffer_printf(out, "<td colspan=\"5\">");
        trp_html_text(out, row->error);
        trp_buffer_printf(out, "</td></tr>\n");
        return;
    }
    trp_buffer_printf(out, "<td class=\"n\">%d</td><td class=\"nw\">", row->report);
    trp_html_time(out, row->created);
    trp_buffer_printf(out, "</td><td class=\"n\">");
    trp_html_size(out, row->size);
    trp_buffer_printf(out, "</td><td class=\"n\">%zu</td><td>", row->files);
    write_metrics(row, out);
    trp_buffer_printf(out, "</td></tr>\n");
}

void trp_html_checkpoints(const trp_facts *facts, const char *links, trp_buffer *out)
{
    begin_section(out, "checkpoints", "Checkpoints");
    if (facts->checkpoint_count == 0) {
        trp_buffer_printf(out, "<p>It has none.</p>\n</section>\n");
        return;
    }
    trp_buffer_printf(out, "<p class=\"note\">%llu committed, %llu kept",
                      (unsigned long long)facts->commits,
                      (unsigned long long)facts->checkpoint_count + facts->checkpoints_left_out);
    if (facts->no_commits > 0)
        trp_buffer_printf(out, ", %llu failed", (unsigned long long)facts->no_commits);
    if (facts->checkpoints_left_out > 0)
        trp_buffer_printf(out, "; the newest %d and the best are listed", TRP_FACTS_CHECKPOINTS);
    trp_buffer_printf(out, ".</p>\n");
    trp_html_table(out, "Checkpoints", "Folder|#Report|Made|#Size|#Files|Metrics");
    for (size_t i = 0; i < facts->checkpoint_count; i++)
        write_checkpoint(&facts->checkpoints[i], links, out);
    trp_html_table_end(out);
    trp_buffer_printf(out, "</section>\n");
}

// ---- other events

void trp_html_others(const trp_facts *facts, trp_buffer *out)
{
    uint64_t first = facts->others > TRP_FACTS_OTHERS ? facts->others - TRP_FACTS_OTHERS : 0;
    if (facts->others == 0)
        return;
    begin_section(out, "events", "Other events");
    if (first > 0)
        trp_buffer_printf(out, "<p class=\"note\">The last %d of %llu.</p>\n", TRP_FACTS_OTHERS,
                          (unsigned long long)facts->others);
    trp_buffer_printf(out, "<pre>");
    for (uint64_t i = first; i < facts->others; i++) {
        trp_html_text(out, facts->other_ring[i % TRP_FACTS_OTHERS].text);
        trp_buffer_printf(out, "\n");
    }
    trp_buffer_printf(out, "</pre>\n</section>\n");
}

// ---- logs

void trp_html_logs(const trp_facts *facts, const char *links, trp_buffer *out)
{
    if (facts->log_count == 0)
        return;
    begin_section(out, "logs", "What its ranks printed");
    trp_buffer_printf(out, "<ul class=\"files\">\n");
    for (size_t i = 0; i < facts->log_count; i++) {
        const trp_facts_log *log = &facts->logs[i];
        trp_buffer_printf(out, "<li>");
        write_link(out, links, "log/", log->name, "");
        trp_buffer_printf(out, " <small>");
        trp_html_size(out, log->size);
        trp_buffer_printf(out, "</small>");
        if (log->tail_size > 0) {
            trp_buffer_printf(out, "<details><summary>Last lines</summary><pre>");
            trp_html_lines(out, log->tail, log->tail_size);
            trp_buffer_printf(out, "</pre></details>");
        }
        trp_buffer_printf(out, "</li>\n");
    }
    trp_buffer_printf(out, "</ul>\n");
    if (facts->logs_left_out > 0)
        trp_buffer_printf(out, "<p class=\"note\">And %llu more in the folder log.</p>\n",
                          (unsigned long long)facts->logs_left_out);
    trp_buffer_printf(out, "</section>\n");
}
