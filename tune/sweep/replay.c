// replay.c: see tune/sweep/replay.h.
#include <tune/sweep/replay.h>

#include <inttypes.h>
#include <math.h>
#include <runtime/base/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tune/sweep/journal.h>
#include <tune/sweep/sweep_facts.h>

TROUPE_STRUCT(first_line, (troupe_text, event), (troupe_text, trainer), (troupe_text, metric),
              (troupe_text, goal), (int, trials), (uint64_t, seed), (troupe_text, scheduler),
              (troupe_text, id), (troupe_text, server));
TROUPE_STRUCT(next_line, (troupe_text, event), (int, number), (double, elapsed_s),
              (troupe_text, state), (int, reports), (double, best), (troupe_text, error),
              (troupe_text, checkpoint), (int, run), (int, failures), (int, ranks), (int, to_ranks),
              (troupe_text, act), (int, source), (double, at_s));
TROUPE_STRUCT(named_line, (troupe_text, trial));

// An older version has put down no server.
static bool has_other_server(const first_line *line, const troupe_sweep *sweep)
{
    return line->server != NULL && sweep->server != NULL &&
           strcmp(line->server, sweep->server) != 0;
}

// Whose the trials are, the program's own or a train server's.
static bool has_others_trials(const first_line *line, const troupe_sweep *sweep)
{
    bool theirs = line->id != NULL && strlen(line->id) < sizeof sweep->id;
    return theirs != (sweep->how.server == TROUPE_SERVER_AUTO);
}

static bool differs(const char *one, const char *other)
{
    return one == NULL || strcmp(one, other) != 0;
}

// In what the line is of another sweep.
typedef struct change {
    const char *what; // NULL: in nothing.
    char was[200], is[200];
} change;

static change changed(const char *what, const char *was, const char *is)
{
    change made = {.what = what};
    snprintf(made.was, sizeof made.was, "%s", was != NULL ? was : "none");
    snprintf(made.is, sizeof made.is, "%s", is);
    return made;
}

static change difference(const first_line *line, const troupe_sweep *sweep)
{
    const char *goal = sweep->objectives[0].goal == TROUPE_MAXIMIZE ? "maximize" : "minimize";
    if (differs(line->trainer, sweep->trainer->name))
        return changed("its trainer", line->trainer, sweep->trainer->name);
    if (differs(line->metric, trp_sweep_metric(sweep)))
        return changed("metric", line->metric, trp_sweep_metric(sweep));
    if (differs(line->goal, goal))
        return changed("goal", line->goal, goal);
    if (differs(line->scheduler, sweep->scheduler))
        return changed("scheduler", line->scheduler, sweep->scheduler);
    change seed = {.what = line->seed != sweep->how.seed ? "seed" : NULL};
    snprintf(seed.was, sizeof seed.was, "%" PRIu64, line->seed);
    snprintf(seed.is, sizeof seed.is, "%" PRIu64, sweep->how.seed);
    return seed;
}

// Whether both have that member, and it is another one. What an older version has not put down is
// in one alone.
static bool has_other(trp_json line, trp_json now, const char *name, change *other)
{
    trp_json before, member;
    trp_buffer was = {0}, is = {0};
    if (!trp_json_member(line, name, &before) || !trp_json_member(now, name, &member))
        return false;
    bool known = trp_json_canonical(before, &was) == TROUPE_OK &&
                 trp_json_canonical(member, &is) == TROUPE_OK && !was.failed && !is.failed;
    bool differ = known && (was.size != is.size || memcmp(was.data, is.data, was.size) != 0);
    trp_buffer_append(&was, "", 1);
    trp_buffer_append(&is, "", 1);
    if (differ && !was.failed && !is.failed)
        *other = changed(name, (const char *)was.data, (const char *)is.data);
    else if (differ)
        *other = changed(name, "another", "another");
    trp_buffer_free(&was);
    trp_buffer_free(&is);
    return differ;
}

// What the trials of the sweep run, where that is not the trainer's own: of which the line has
// another.
static change other_code(trp_json line, const troupe_sweep *sweep)
{
    static const char *const names[] = {"model", "settings", "command"};
    change other = {0};
    trp_buffer text = {0};
    trp_json now;
    trp_journal_what(&text, sweep);
    trp_buffer_append(&text, "}", 1);
    if (!text.failed && trp_json_parse((const char *)text.data, text.size, &now) == TROUPE_OK) {
        for (size_t i = 0; other.what == NULL && i < sizeof names / sizeof *names; i++)
            (void)has_other(line, now, names[i], &other);
    }
    trp_buffer_free(&text);
    return other;
}

// A record whose study is lost would be taken for one that has none yet, and all be done again.
static bool lacks_study(const char *text, size_t size)
{
    trp_json value, event;
    const char *end = memchr(text, '\n', size);
    return end != NULL &&
           (trp_json_parse(text, (size_t)(end - text), &value) != TROUPE_OK ||
            !trp_json_member(value, "event", &event) || !trp_json_equals(event, "study"));
}

troupe_status trp_replay_check(const char *text, size_t size, troupe_sweep *sweep)
{
    trp_json value;
    trp_arena arena = {0};
    first_line line = {0};
    change other = {0};
    const char *end = memchr(text, '\n', size);
    size_t length = end != NULL ? (size_t)(end - text) : size;
    troupe_status status = trp_json_parse(text, length, &value);
    if (status == TROUPE_OK)
        status = trp_json_read(&troupe_type_first_line, value, &arena, &line);
    if (status == TROUPE_OK && !differs(line.event, "sweep")) {
        other = difference(&line, sweep);
        other = other.what == NULL ? other_code(value, sweep) : other;
    }
    if (status != TROUPE_OK || differs(line.event, "sweep"))
        status = troupe_fail(TROUPE_CORRUPT,
                             "%s/trials.jsonl is no record of a sweep, or is damaged: expected its "
                             "first line to be {\"event\": \"sweep\", ..}",
                             sweep->folder);
    else if (other.what != NULL)
        status = troupe_fail(TROUPE_EXISTS,
                             "the sweep in %s is another one: it differs in %s, which was %s and "
                             "is %s now",
                             sweep->folder, other.what, other.was, other.is);
    else if (end != NULL && lacks_study(end + 1, size - length - 1))
        status =
            troupe_fail(TROUPE_CORRUPT,
                        "line 2 of %s/trials.jsonl is damaged or missing: expected {\"event\": "
                        "\"study\", ..}",
                        sweep->folder);
    else if (has_others_trials(&line, sweep))
        status = troupe_fail(TROUPE_EXISTS,
                             "the sweep in %s is another one: its trials are %s, and .server, or "
                             "--server, says that they are %s",
                             sweep->folder, line.id != NULL ? "a train server's" : "its program's",
                             line.id != NULL ? "this program's" : "a train server's");
    else if (has_other_server(&line, sweep))
        status = troupe_fail(TROUPE_EXISTS,
                             "the sweep in %s has its trials at the train server of %.300s: "
                             "expected that one, and not the one of %.300s",
                             sweep->folder, line.server, sweep->server);
    else if (line.id != NULL)
        strcpy(sweep->id, line.id);
    trp_arena_clear(&arena);
    return status;
}

// ---- lines

// Which trial has that name; -1: none.
static int trial_named(const troupe_sweep *sweep, const char *name)
{
    char expected[256];
    const char *digits = name != NULL ? strrchr(name, '_') : NULL;
    long number = digits != NULL ? strtol(digits + 1, NULL, 10) : -1;
    if (number < 0 || number >= TRP_TRIALS_MAX)
        return -1;
    trp_sweep_trial_name(sweep, (int)number, expected, sizeof expected);
    return strcmp(expected, name) == 0 ? (int)number : -1;
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

// What a line says, by its event; a line of the study is one with a number.
static bool kind_of(const char *event, bool of_study, trp_replayed *read)
{
    static const struct {
        const char *event;
        bool of_study;
        int is;
    } kinds[] = {
        {"suggest", true, TRP_REPLAYED_BEGUN},
        {"again", true, TRP_REPLAYED_AGAIN},
        {"report", true, TRP_REPLAYED_REPORT},
        {"end", true, TRP_REPLAYED_END},
        {"submitted", false, TRP_REPLAYED_SUBMITTED},
        {"run", false, TRP_REPLAYED_RUN},
        {"reported", false, TRP_REPLAYED_REPORT},
        {"checkpoint", false, TRP_REPLAYED_CHECKPOINT},
        {"ended", false, TRP_REPLAYED_END},
    };
    for (size_t i = 0; event != NULL && i < sizeof kinds / sizeof *kinds; i++) {
        if (kinds[i].of_study != of_study || strcmp(event, kinds[i].event) != 0)
            continue;
        read->is = kinds[i].is;
        read->decided = of_study;
        return true;
    }
    return false;
}

bool trp_replay_line(const char *text, size_t size, const troupe_sweep *sweep, int number,
                     trp_arena *arena, trp_replayed *read)
{
    trp_json value;
    next_line line = {.best = (double)NAN, .source = -1};
    named_line named = {0};
    *read = (trp_replayed){.trial = number};
    if (trp_json_parse(text, size, &value) != TROUPE_OK ||
        trp_json_read(&troupe_type_next_line, value, arena, &line) != TROUPE_OK ||
        !kind_of(line.event, number >= 0, read))
        return false;
    if (number < 0 && trp_json_read(&troupe_type_named_line, value, arena, &named) == TROUPE_OK)
        read->trial = trial_named(sweep, named.trial);
    if (read->trial < 0)
        return false;
    if (line.checkpoint != NULL &&
        (line.checkpoint = trp_journal_path(sweep->folder, line.checkpoint, arena)) == NULL)
        return false;
    read->state = state_named(line.state);
    read->error = line.error != NULL ? line.error : "";
    read->best = line.best;
    read->elapsed_s = line.elapsed_s;
    read->at_s = line.at_s;
    read->source = line.source;
    read->run = line.run;
    read->failures = line.failures;
    read->clones = !differs(line.act, "clone");
    read->halts =
        !differs(line.act, "stop") || !differs(line.act, "end") || !differs(line.act, "pause");
    read->ranks = line.ranks;
    read->given = line.to_ranks;
    read->report =
        (troupe_report_event){.number = read->is == TRP_REPLAYED_END ? line.reports : line.number,
                              .elapsed_s = line.elapsed_s,
                              .source = "",
                              .checkpoint = line.checkpoint};
    if (!trp_json_member(value, "config", &read->config))
        read->config = (trp_json){0};
    return read_metrics(value, arena, &read->report) == TROUPE_OK;
}
