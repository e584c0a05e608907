// replay.c: see tune/sweep/replay.h.
#include <tune/sweep/replay.h>

#include <math.h>
#include <runtime/base/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tune/sweep/sweep_facts.h>

TROUPE_STRUCT(first_line, (troupe_text, event), (troupe_text, trainer), (troupe_text, metric),
              (troupe_text, goal), (int, trials), (uint64_t, seed), (troupe_text, scheduler),
              (troupe_text, id), (troupe_text, server));
TROUPE_STRUCT(next_line, (troupe_text, event), (troupe_text, trial), (int, number),
              (double, elapsed_s), (troupe_text, state), (int, reports), (double, best),
              (troupe_text, error), (troupe_text, checkpoint));

// An older version has put down no server.
static bool has_other_server(const first_line *line, const troupe_sweep *sweep)
{
    return line->server != NULL && sweep->server != NULL &&
           strcmp(line->server, sweep->server) != 0;
}

static bool differs(const char *one, const char *other)
{
    return one == NULL || strcmp(one, other) != 0;
}

// The first thing in which the line is of another sweep; NULL: nothing.
static const char *difference(const first_line *line, const troupe_sweep *sweep)
{
    bool maximize = sweep->how.goal == TROUPE_MAXIMIZE;
    return differs(line->trainer, sweep->trainer->name)              ? "its trainer"
           : differs(line->metric, sweep->metric)                    ? "metric"
           : differs(line->goal, maximize ? "maximize" : "minimize") ? "goal"
           : line->trials != sweep->count                            ? "trials"
           : line->seed != sweep->how.seed                           ? "seed"
           : differs(line->scheduler, sweep->scheduler)              ? "scheduler"
                                                                     : NULL;
}

troupe_status trp_replay_check(const char *text, size_t size, troupe_sweep *sweep)
{
    trp_json value;
    trp_arena arena = {0};
    first_line line = {0};
    const char *end = memchr(text, '\n', size), *other = NULL;
    size_t length = end != NULL ? (size_t)(end - text) : size;
    troupe_status status = trp_json_parse(text, length, &value);
    if (status == TROUPE_OK)
        status = trp_json_read(&troupe_type_first_line, value, &arena, &line);
    if (status != TROUPE_OK || differs(line.event, "sweep"))
        status = troupe_fail(TROUPE_CORRUPT, "%s/trials.jsonl does not begin as a sweep's does",
                             sweep->folder);
    else if ((other = difference(&line, sweep)) != NULL)
        status = troupe_fail(TROUPE_EXISTS, "the sweep in %s is another one: it differs in %s",
                             sweep->folder, other);
    else if (line.id == NULL || strlen(line.id) >= sizeof sweep->id)
        status = troupe_fail(TROUPE_EXISTS,
                             "the sweep in %s is not one of a train server: it has ended with its "
                             "program",
                             sweep->folder);
    else if (has_other_server(&line, sweep))
        status = troupe_fail(TROUPE_EXISTS,
                             "the sweep in %s has its trials at the train server of %.300s: "
                             "expected that one, and not the one of %.300s",
                             sweep->folder, line.server, sweep->server);
    else
        strcpy(sweep->id, line.id);
    trp_arena_clear(&arena);
    return status;
}

// ---- lines

// Which trial has that name; -1: none.
static int trial_named(const troupe_sweep *sweep, const char *name)
{
    const char *digits = name != NULL ? strrchr(name, '_') : NULL;
    long number = digits != NULL ? strtol(digits + 1, NULL, 10) : -1;
    bool is =
        number >= 0 && number < sweep->count && strcmp(sweep->trials[number].view.name, name) == 0;
    return is ? (int)number : -1;
}

static troupe_status read_metrics(trp_json line, trp_arena *arena, troupe_report_event *event)
{
    enum { MOST = 64 };
    trp_json metrics, at = {0}, name, value;
    if (!trp_json_member(line, "metrics", &metrics))
        return TROUPE_OK;
    troupe_metric *made = trp_arena_alloc(arena, MOST * sizeof *made);
    if (made == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the metrics of a report");
    event->metrics = made;
    while (event->count < MOST && trp_json_next_member(metrics, &at, &name, &value)) {
        troupe_metric *metric = &made[event->count++];
        TROUPE_TRY(trp_json_read(&troupe_type_troupe_text, name, arena, &metric->name));
        TROUPE_TRY(trp_json_read(&troupe_type_double, value, arena, &metric->value));
    }
    return TROUPE_OK;
}

static troupe_trial_state state_named(const char *name)
{
    static const troupe_trial_state states[] = {TROUPE_TRIAL_STOPPED, TROUPE_TRIAL_ERROR};
    for (size_t i = 0; name != NULL && i < sizeof states / sizeof *states; i++)
        if (strcmp(name, trp_table_state_name(trp_trial_table_state(states[i]))) == 0)
            return states[i];
    return TROUPE_TRIAL_TERMINATED;
}

// False: it is none that is known.
static bool read_line(trp_json value, const troupe_sweep *sweep, trp_arena *arena,
                      trp_replayed *read)
{
    static const char *const kinds[] = {"submitted", "report", "checkpoint", "end"};
    next_line line = {.best = (double)NAN};
    size_t kind = 0;
    if (trp_json_read(&troupe_type_next_line, value, arena, &line) != TROUPE_OK ||
        line.event == NULL)
        return false;
    while (kind < 4 && strcmp(line.event, kinds[kind]) != 0)
        kind++;
    *read = (trp_replayed){.trial = trial_named(sweep, line.trial),
                           .state = state_named(line.state),
                           .error = line.error != NULL ? line.error : "",
                           .best = line.best,
                           .elapsed_s = line.elapsed_s};
    if (kind == 4 || read->trial < 0)
        return false;
    read->is = (int)kind;
    read->report = (troupe_report_event){.number = kind == 3 ? line.reports : line.number,
                                         .elapsed_s = line.elapsed_s,
                                         .source = "",
                                         .checkpoint = line.checkpoint};
    if (!trp_json_member(value, "config", &read->config))
        read->config = (trp_json){0};
    return read_metrics(value, arena, &read->report) == TROUPE_OK;
}

troupe_status trp_replay(const char *text, size_t size, const troupe_sweep *sweep,
                         troupe_status (*visit)(void *user, const trp_replayed *line), void *user)
{
    trp_arena arena = {0};
    troupe_status status = TROUPE_OK;
    const char *at = text, *end;
    for (; status == TROUPE_OK && at < text + size; at = end + 1) {
        trp_json value;
        trp_replayed line;
        end = memchr(at, '\n', (size_t)(text + size - at));
        if (end == NULL)
            break;
        if (at > text && trp_json_parse(at, (size_t)(end - at), &value) == TROUPE_OK &&
            read_line(value, sweep, &arena, &line))
            status = visit(user, &line);
        trp_arena_clear(&arena);
    }
    return trp_error_settled(status);
}
