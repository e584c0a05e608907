// journal.c: see tune/sweep/journal.h.
#include <tune/sweep/journal.h>

#include <inttypes.h>
#include <runtime/codec/json.h>
#include <stdio.h>
#include <string.h>
#include <tune/sweep/sweep_facts.h>

static const char *goal_name(troupe_goal goal)
{
    return goal == TROUPE_MAXIMIZE ? "maximize" : "minimize";
}

static void begin(trp_buffer *line, const char *event, const trp_trial *trial)
{
    trp_buffer_printf(line, "{\"event\": \"%s\", \"trial\": ", event);
    trp_json_text(line, trial->view.name);
}

// The sweep's time, of which a later life begins with what was used.
static void put_time(trp_buffer *line, const troupe_sweep *sweep)
{
    double at_s = trp_sweep_now_s(sweep) - sweep->started_s;
    trp_buffer_printf(line, ", \"at_s\": %.3f", at_s > 0 ? at_s : 0);
}

// Of a checkpoint in the sweep's folder, the path from there: the folder may be moved.
static void put_checkpoint(trp_buffer *line, const troupe_sweep *sweep, const char *folder)
{
    size_t length = strlen(sweep->folder);
    bool within = strncmp(folder, sweep->folder, length) == 0 && folder[length] == '/';
    trp_buffer_printf(line, ", \"checkpoint\": ");
    trp_json_text(line, folder + (within ? length + 1 : 0));
}

const char *trp_journal_path(const char *folder, const char *path, trp_arena *arena)
{
    size_t size = strlen(folder) + strlen(path) + 2;
    char *whole = path[0] == '/' ? NULL : trp_arena_alloc(arena, size);
    if (whole != NULL)
        snprintf(whole, size, "%s/%s", folder, path);
    return path[0] == '/' ? path : whole;
}

static void write_model(trp_buffer *line, const trp_sweep_port *port)
{
    trp_json settings;
    if (port->model == NULL)
        return;
    trp_buffer_printf(line, ", \"model\": ");
    trp_json_text(line, port->model);
    if (port->settings == NULL ||
        trp_json_parse(port->settings, strlen(port->settings), &settings) != TROUPE_OK)
        return;
    trp_buffer_printf(line, ", \"settings\": ");
    if (trp_json_canonical(settings, line) != TROUPE_OK) // In one line, as they may not be.
        line->failed = true;
}

void trp_journal_what(trp_buffer *line, const troupe_sweep *sweep)
{
    trp_buffer_printf(line, "{\"event\": \"sweep\", \"trainer\": ");
    trp_json_text(line, sweep->trainer->name);
    trp_buffer_printf(line, ", \"metric\": ");
    trp_json_text(line, trp_sweep_metric(sweep));
    trp_buffer_printf(line, ", \"goal\": \"%s\", \"trials\": %d, \"seed\": %" PRIu64,
                      goal_name(sweep->objectives[0].goal), sweep->wanted, sweep->how.seed);
    trp_buffer_printf(line, ", \"scheduler\": ");
    trp_json_text(line, sweep->scheduler);
    if (sweep->objective_count > 1) {
        trp_buffer_printf(line, ", \"objectives\": {");
        for (size_t i = 0; i < sweep->objective_count; i++) {
            trp_buffer_append(line, ", ", i == 0 ? 0 : 2);
            trp_json_text(line, sweep->objectives[i].metric);
            trp_buffer_printf(line, ": \"%s\"", goal_name(sweep->objectives[i].goal));
        }
        trp_buffer_append(line, "}", 1);
    }
    write_model(line, sweep->port);
    if (sweep->id[0] != '\0')
        trp_buffer_printf(line, ", \"id\": \"%s\"", sweep->id);
    if (sweep->server != NULL) {
        trp_buffer_printf(line, ", \"server\": ");
        trp_json_text(line, sweep->server);
    }
    if (sweep->noted != NULL)
        trp_buffer_append(line, sweep->noted, strlen(sweep->noted));
}

void trp_journal_first(trp_tune_record *record, const troupe_sweep *sweep)
{
    trp_buffer line = {0};
    trp_journal_what(&line, sweep);
    if (sweep->port->program != NULL)
        sweep->port->program(&line, sweep);
    trp_tune_record_add(record, &line);
}

void trp_journal_config(trp_buffer *out, const troupe_sweep *sweep, const void *config)
{
    const trp_text_config *text = config;
    if (sweep->of_json)
        trp_buffer_append(out, text->params, strlen(text->params));
    else
        trp_json_value(out, sweep->trainer->config, config);
}

void trp_journal_submitted(trp_tune_record *record, const troupe_sweep *sweep,
                           const trp_trial *trial)
{
    trp_buffer line = {0};
    begin(&line, "submitted", trial);
    if (trial->run > 0) { // What was drawn is a clone's own, unlike what the study's line has.
        trp_buffer_printf(&line, ", \"run\": %d, \"params\": ", trial->run);
        trp_space_write_point(sweep->space, trial->x, &line);
    }
    put_time(&line, sweep);
    trp_buffer_printf(&line, ", \"config\": ");
    trp_journal_config(&line, sweep, trial->view.config);
    trp_tune_record_add(record, &line);
}

void trp_journal_run(trp_tune_record *record, const troupe_sweep *sweep, const trp_trial *trial)
{
    trp_buffer line = {0};
    begin(&line, "run", trial);
    trp_buffer_printf(&line, ", \"run\": %d, \"number\": %d, \"failures\": %d, \"elapsed_s\": ",
                      trial->run, trial->base, trial->failures);
    trp_json_number(&line, trial->base_s);
    if (trial->from != NULL)
        put_checkpoint(&line, sweep, trial->from);
    trp_tune_record_add(record, &line);
}

void trp_journal_checkpoint(trp_tune_record *record, const troupe_sweep *sweep,
                            const trp_trial *trial, int number, const char *folder)
{
    trp_buffer line = {0};
    begin(&line, "checkpoint", trial);
    trp_buffer_printf(&line, ", \"number\": %d", number);
    put_checkpoint(&line, sweep, folder);
    trp_tune_record_add(record, &line);
}

static void put_metrics(trp_buffer *line, const troupe_sweep *sweep,
                        const troupe_report_event *report)
{
    trp_buffer_printf(line, ", \"metrics\": {");
    for (size_t i = 0; i < report->count; i++) {
        trp_buffer_append(line, ", ", i == 0 ? 0 : 2);
        trp_json_text(line, report->metrics[i].name);
        trp_buffer_append(line, ": ", 2);
        trp_json_number(line, report->metrics[i].value);
    }
    trp_buffer_append(line, "}", 1);
    if (report->checkpoint != NULL)
        put_checkpoint(line, sweep, report->checkpoint);
}

void trp_journal_reported(trp_tune_record *record, const troupe_sweep *sweep,
                          const trp_trial *trial, const troupe_report_event *report)
{
    trp_buffer line = {0};
    begin(&line, "reported", trial);
    trp_buffer_printf(&line, ", \"number\": %d, \"elapsed_s\": ", report->number);
    trp_json_number(&line, report->elapsed_s);
    put_time(&line, sweep);
    put_metrics(&line, sweep, report);
    trp_tune_record_add(record, &line);
}

static const char *as_text(trp_buffer *out)
{
    trp_buffer_append(out, "", 1);
    return out->failed ? NULL : (const char *)out->data;
}

const char *trp_journal_of_report(trp_buffer *out, const troupe_sweep *sweep,
                                  const trp_trial *trial, const troupe_report_event *report)
{
    trp_buffer_printf(out, ", \"name\": ");
    trp_json_text(out, trial->view.name);
    put_time(out, sweep);
    put_metrics(out, sweep, report);
    return as_text(out);
}

static void put_end(trp_buffer *line, const trp_trial *trial)
{
    trp_buffer_printf(line, ", \"state\": \"%s\", \"reports\": %d, \"elapsed_s\": ",
                      trp_table_state_name(trp_trial_table_state(trial->view.state)),
                      trial->view.reports);
    trp_json_number(line, trial->view.elapsed_s);
    trp_buffer_printf(line, ", \"best\": ");
    trp_json_number(line, trial->view.best_metric);
}

const char *trp_journal_of_end(trp_buffer *out, const troupe_sweep *sweep, const trp_trial *trial)
{
    trp_buffer_printf(out, ", \"name\": ");
    trp_json_text(out, trial->view.name);
    put_time(out, sweep);
    put_end(out, trial);
    return as_text(out);
}

void trp_journal_ended(trp_tune_record *record, const trp_trial *trial)
{
    trp_buffer line = {0};
    begin(&line, "ended", trial);
    put_end(&line, trial);
    trp_buffer_printf(&line, ", \"error\": ");
    trp_json_text(&line, trial->view.error);
    trp_tune_record_add(record, &line);
}
