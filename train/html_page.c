// html_page.c: the page of a run's report: its head, what it was asked for, and its frame.
#include <train/html_page.h>

#include <runtime/base/memory.h>
#include <runtime/text/html_text.h>
#include <stdio.h>
#include <string.h>
#include <troupe/runtime.h>

enum { SETTING_MAX = 2000 }; // Bytes of a value that are shown.

// ---- tables

// ---- how it stands

typedef struct standing {
    const char *kind, *word;
} standing;

static standing standing_of(const trp_facts *facts)
{
    if (facts->has_end && facts->end.status != NULL && strcmp(facts->end.status, "OK") == 0)
        return facts->end.stopped ? (standing){"warn", "Stopped"} : (standing){"ok", "Finished"};
    if (facts->has_end)
        return (standing){"bad", "Failed"};
    if (facts->driver == 0)
        return (standing){"bad", "Interrupted"};
    if (strcmp(facts->state, "RESTARTING") == 0)
        return (standing){"warn", "Restarting"};
    if (strcmp(facts->state, "RUNNING") == 0)
        return (standing){"go", "Running"};
    if (strcmp(facts->state, "PAUSED") == 0)
        return (standing){"warn", "Paused"};
    return (standing){"go", "Waiting for resources"};
}

static void write_panels(const trp_facts *facts, trp_buffer *out)
{
    if (facts->has_end && facts->end.error != NULL && facts->end.error[0] != '\0') {
        trp_buffer_printf(out, "<div class=\"panel bad\" id=\"error\"><b>It ended with ");
        trp_html_text(out, facts->end.status != NULL ? facts->end.status : "no status");
        trp_buffer_printf(out, "</b><p>");
        trp_html_text(out, facts->end.error);
        trp_buffer_printf(out, "</p></div>\n");
    }
    if (!facts->has_end && facts->driver == 0)
        trp_buffer_printf(out, "<div class=\"panel bad\"><b>Its driver is gone</b><p>No process "
                               "runs it, and it has no end: the driver was killed, or stopped in "
                               "the middle. It goes on where it was with "
                               "<code>.open = TROUPE_OPEN_RESUME</code>.</p></div>\n");
    for (size_t i = 0; i < facts->note_count; i++) {
        trp_buffer_printf(out, "<div class=\"panel warn\"><p>");
        trp_html_text(out, facts->notes[i]);
        trp_buffer_printf(out, "</p></div>\n");
    }
    if (facts->bad_lines > 0)
        trp_buffer_printf(out,
                          "<div class=\"panel warn\" id=\"damage\"><p>%llu of %llu lines of the "
                          "journal cannot be read and are left out.</p></div>\n",
                          (unsigned long long)facts->bad_lines, (unsigned long long)facts->lines);
}

static void write_lead(const trp_facts *facts, trp_buffer *out)
{
    const trp_run_head *head = &facts->run.head;
    trp_buffer_printf(out, "<p class=\"lead\">");
    if (head->created != NULL) {
        trp_buffer_printf(out, "Begun ");
        trp_html_time(out, head->created);
    }
    if (facts->has_end && facts->end.at != NULL) {
        trp_buffer_printf(out, "%s", head->created != NULL ? ", ended " : "Ended ");
        trp_html_time(out, facts->end.at);
    }
    if (head->program != NULL) {
        trp_buffer_printf(out, "%sprogram <code>", head->created != NULL ? "; " : "");
        trp_html_text(out, head->program);
        trp_buffer_printf(out, "</code>");
    }
    if (!facts->has_end && facts->driver > 0)
        trp_buffer_printf(out, "; driver: process %d", facts->driver);
    trp_buffer_printf(out, ".</p>\n");
}

static void write_tile(trp_buffer *out, const char *name, double value, const char *more)
{
    trp_buffer_printf(out, "<li><span>%s</span><b>", name);
    trp_html_number(out, value);
    trp_buffer_printf(out, "</b>");
    if (more != NULL) {
        trp_buffer_printf(out, "<small>");
        trp_html_text(out, more);
        trp_buffer_printf(out, "</small>");
    }
    trp_buffer_printf(out, "</li>\n");
}

// The best value of the metric that ranks checkpoints.
static void write_best(const trp_facts *facts, trp_buffer *out)
{
    const trp_saved_options *options = &facts->run.head.options;
    if (options->keep_metric == NULL)
        return;
    for (size_t i = 0; i < facts->metric_count; i++) {
        const trp_facts_metric *it = facts->metrics[i];
        bool maximize = options->keep_goal == TROUPE_MAXIMIZE;
        if (strcmp(it->name, options->keep_metric) != 0 || it->count == 0)
            continue;
        trp_buffer_printf(out, "<li><span>%s ", maximize ? "Highest" : "Lowest");
        trp_html_text(out, it->name);
        trp_buffer_printf(out, "</span><b>");
        trp_html_number(out, maximize ? it->high : it->low);
        trp_buffer_printf(out, "</b><small>at report %d</small></li>\n",
                          maximize ? it->high_report : it->low_report);
    }
}

static void write_tiles(const trp_facts *facts, trp_buffer *out)
{
    char more[64];
    double seconds = facts->elapsed_s, rate = 0;
    if (facts->has_end && facts->end.elapsed_s > seconds)
        seconds = facts->end.elapsed_s;
    if (facts->elapsed_s > 0)
        rate = facts->reports / facts->elapsed_s;
    trp_buffer_printf(out, "<ul class=\"tiles\">\n");
    snprintf(more, sizeof more, rate < 100 ? "%.2g a second" : "%.0f a second", rate);
    write_tile(out, "Reports", facts->reports, rate > 0 ? more : NULL);
    trp_buffer_printf(out, "<li><span>Training time</span><b>");
    trp_html_duration(out, seconds);
    trp_buffer_printf(out, "</b>");
    if (facts->openings > 1)
        trp_buffer_printf(out, "<small>in %llu openings</small>",
                          (unsigned long long)facts->openings);
    trp_buffer_printf(out, "</li>\n");
    if (facts->has_run)
        write_tile(out, "Ranks",
                   facts->run.head.options.ranks > 0 ? facts->run.head.options.ranks : 1, NULL);
    write_tile(out, "Restarts", (double)facts->restarts, NULL);
    snprintf(more, sizeof more, "%zu kept", facts->checkpoint_count + facts->checkpoints_left_out);
    write_tile(out, "Checkpoints", (double)facts->commits, more);
    write_best(facts, out);
    trp_buffer_printf(out, "</ul>\n");
}

static void write_header(const trp_facts *facts, trp_buffer *out)
{
    standing now = standing_of(facts);
    trp_buffer_printf(out, "<header>\n<p class=\"kicker\">Training run");
    if (facts->has_run) {
        trp_buffer_printf(out, " of <b>");
        trp_html_text(out, facts->run.head.trainer);
        trp_buffer_printf(out, "</b>");
    }
    trp_buffer_printf(out, "</p>\n<div class=\"title\"><h1>");
    trp_html_text(out, facts->name);
    trp_buffer_printf(out, "</h1><span class=\"status %s\">%s</span></div>\n", now.kind, now.word);
    write_lead(facts, out);
    write_panels(facts, out);
    write_tiles(facts, out);
    trp_buffer_printf(out, "</header>\n");
}

// ---- settings

// A value as people read it: a text without its quotes, what is long cut.
static void write_value(trp_json value, trp_buffer *out)
{
    trp_arena arena = {0};
    const char *text = NULL;
    bool cut = false;
    if (trp_json_is_text(value) &&
        trp_json_read(&troupe_type_troupe_text, value, &arena, &text) == TROUPE_OK &&
        text != NULL) {
        cut = strlen(text) > SETTING_MAX;
        trp_html_lines(out, text, cut ? SETTING_MAX : strlen(text));
    } else {
        cut = value.size > SETTING_MAX;
        trp_html_lines(out, value.at, cut ? SETTING_MAX : value.size);
    }
    if (cut)
        trp_buffer_printf(out, "\xe2\x80\xa6 (%zu bytes)", value.size);
    trp_arena_clear(&arena);
}

static bool is_default(trp_json value)
{
    return trp_json_is_null(value) || (value.size == 1 && value.at[0] == '0') ||
           (value.size == 5 && memcmp(value.at, "false", 5) == 0) || trp_json_equals(value, "");
}

// An option of a run as a program writes it.
static void write_option(trp_json name, trp_json value, trp_buffer *out)
{
    static const char *const goals[] = {"TROUPE_MINIMIZE", "TROUPE_MAXIMIZE"};
    char first = value.at[0], second = value.size > 1 ? value.at[1] : '\0';
    if (trp_json_equals(name, "keep_goal") && value.size == 1 && (first == '1' || first == '2'))
        trp_buffer_printf(out, "%s", goals[first - '1']);
    else if (value.size == 2 && first == '-' && (second == '1' || second == '2'))
        trp_buffer_printf(out, "%s", second == '1' ? "TROUPE_FOREVER" : "TROUPE_NONE");
    else
        write_value(value, out);
}

// An object as a table of its members; `options`: as those that were given.
static void write_members(trp_json object, const char *title, bool options, trp_buffer *out)
{
    trp_json at = {0}, name, value;
    size_t rows = 0;
    trp_buffer_printf(out, "<div><h3>%s</h3>\n", title);
    while (trp_json_next_member(object, &at, &name, &value)) {
        if (options && is_default(value))
            continue;
        if (rows++ == 0)
            trp_html_table(out, title, "Name|Value");
        trp_buffer_printf(out, "<tr><th scope=\"row\">%s", options ? "." : "");
        write_value(name, out);
        trp_buffer_printf(out, "</th><td><code>");
        if (options)
            write_option(name, value, out);
        else
            write_value(value, out);
        trp_buffer_printf(out, "</code></td></tr>\n");
    }
    if (rows > 0)
        trp_html_table_end(out);
    else
        trp_buffer_printf(out, "<p class=\"note\">%s</p>\n",
                          options ? "All are the defaults." : "It has none.");
    trp_buffer_printf(out, "</div>\n");
}

void trp_html_settings(const trp_facts *facts, const char *links, trp_buffer *out)
{
    trp_buffer_printf(out, "<section id=\"settings\" aria-labelledby=\"settings-h\">\n"
                           "<h2 id=\"settings-h\">Settings</h2>\n<div class=\"settings\">\n");
    if (trp_json_is_object(facts->run.config))
        write_members(facts->run.config, "Config", false, out);
    if (trp_json_is_object(facts->run.metadata))
        write_members(facts->run.metadata, "Metadata", false, out);
    write_members(facts->options, "Options of the run", true, out);
    trp_buffer_printf(out, "</div>\n");
    if (facts->has_run && facts->run.head.from != NULL) {
        trp_buffer_printf(out, "<p>It began from the checkpoint <code>");
        trp_html_text(out, facts->run.head.from);
        trp_buffer_printf(out, "</code>.</p>\n");
    }
    trp_buffer_printf(out, "<p class=\"note\">All of it: <a href=\"");
    trp_html_path(out, links);
    trp_buffer_printf(out, "run.json\">run.json</a></p>\n</section>\n");
}

// ---- the frame

static void write_all(const char *const *lines, trp_buffer *out)
{
    for (; *lines != NULL; lines++)
        trp_buffer_printf(out, "%s\n", *lines);
}

static void write_footer(const trp_facts *facts, const char *links, const char *made,
                         trp_buffer *out)
{
    int version = troupe_version();
    trp_buffer_printf(out, "<footer>\n<p>Made ");
    trp_html_time(out, made);
    trp_buffer_printf(out, " by Troupe %d.%d.%d from %llu lines of <a href=\"", version / 10000,
                      version / 100 % 100, version % 100, (unsigned long long)facts->lines);
    trp_html_path(out, links);
    trp_buffer_printf(out, "journal.jsonl\">journal.jsonl</a>%s</p>\n</footer>\n",
                      !facts->has_end && facts->driver != 0 ? "; the run goes on since" : "");
}

void trp_html_page(const trp_facts *facts, const char *links, const char *made, trp_buffer *out)
{
    trp_buffer_printf(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
                           "<meta charset=\"utf-8\"/>\n"
                           "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
                           "'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\"/>\n"
                           "<meta name=\"viewport\" content=\"width=device-width, "
                           "initial-scale=1\"/>\n<title>");
    trp_html_text(out, facts->name);
    trp_buffer_printf(out, " \xc2\xb7 %s</title>\n<style>\n", standing_of(facts).word);
    write_all(trp_html_style, out);
    trp_buffer_printf(out, "</style>\n</head>\n<body>\n<main>\n");
    write_header(facts, out);
    trp_html_curves(facts, out);
    trp_html_attempts(facts, links, out);
    trp_html_checkpoints(facts, links, out);
    trp_html_others(facts, out);
    trp_html_logs(facts, links, out);
    trp_html_settings(facts, links, out);
    write_footer(facts, links, made, out);
    trp_buffer_printf(out, "</main>\n<script>\n");
    write_all(trp_html_script, out);
    trp_buffer_printf(out, "</script>\n</body>\n</html>\n");
}
