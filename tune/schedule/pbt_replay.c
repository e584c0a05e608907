// pbt_replay.c: one trial goes through what a population's trial has gone through, by its log.
//
// The weights of a trial are those of the trials it has cloned, one after the other: before its
// last clone those of the source, up to the source's report then, and so on back to a first point.
// So the trial's points change where its own count of reports is what the ones before have made.
#include <limits.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <runtime/host/file.h>
#include <stdio.h>
#include <string.h>
#include <tune/schedule/pbt_log.h>
#include <tune/schedule/scheduler.h>
#include <tune/space/dims.h>

TROUPE_STRUCT(pbt_line, (int, trial), (int, report), (int, source), (int, source_report));

typedef struct line {
    pbt_line is;
    trp_json x; // Within the text.
} line;

typedef struct change {
    int report;
    trp_json x;
    const double *point; // Once the dimensions are known.
} change;

typedef struct replay {
    troupe_scheduler base;
    const troupe_problem *problem;
    unsigned char *text; // The log.
    change *changes;
    size_t count;
    double *points;
    char description[96];
} replay;

// ---- the log

static troupe_status parse_line(const char *text, size_t size, int number, line *into)
{
    trp_json value;
    trp_arena none = {0};
    into->is = (pbt_line){.trial = -1, .report = -1, .source = -1, .source_report = -1};
    troupe_status status = trp_json_parse(text, size, &value);
    if (status == TROUPE_OK)
        status = trp_json_read(&troupe_type_pbt_line, value, &none, &into->is);
    trp_arena_clear(&none);
    if (status == TROUPE_NO_MEMORY)
        return status;
    const pbt_line *is = &into->is;
    if (status == TROUPE_OK && is->trial >= 0 && is->report >= 0 &&
        trp_json_member(value, "x", &into->x) && trp_json_is_object(into->x) &&
        (is->source < 0 || is->source_report >= 0))
        return TROUPE_OK;
    return troupe_fail(TROUPE_MALFORMED,
                       "pbt replay: line %d of the log is none of a population's log, which have "
                       "\"trial\", \"report\" and \"x\"",
                       number);
}

static troupe_status parse(const char *text, size_t size, line **lines, size_t *count)
{
    size_t capacity = 0;
    *lines = NULL;
    *count = 0;
    for (const char *at = text, *end = text + size; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (newline == NULL) // Its writer was killed, or is at it.
            break;
        if (*count == capacity) {
            capacity = capacity == 0 ? 64 : capacity * 2;
            line *more = trp_realloc(*lines, capacity * sizeof *more);
            if (more == NULL)
                return troupe_fail(TROUPE_NO_MEMORY, "no memory for the log of a population");
            *lines = more;
        }
        TROUPE_TRY(parse_line(at, (size_t)(newline - at), (int)*count + 1, &(*lines)[*count]));
        (*count)++;
        at = newline + 1;
    }
    return TROUPE_OK;
}

// Which lines the trial's weights have gone through, the newest first, to the first point of the
// trial that they began as.
static troupe_status follow(const line *lines, size_t count, int trial, size_t *path, size_t *steps)
{
    int of = trial, upto = INT_MAX;
    *steps = 0;
    for (size_t i = count; i > 0; i--) {
        const pbt_line *is = &lines[i - 1].is;
        if (is->trial != of || is->report > upto)
            continue;
        path[(*steps)++] = i - 1;
        if (is->source < 0)
            return TROUPE_OK;
        of = is->source;
        upto = is->source_report;
    }
    return troupe_fail(TROUPE_NOT_FOUND, "pbt replay: the log has no first point of trial %d%s", of,
                       of == trial ? "" : ", which was cloned");
}

static void count_reports(replay *self, const line *lines, const size_t *path, size_t steps)
{
    int reports = 0, since = 0;
    for (size_t i = steps; i > 0; i--) {
        const line *at = &lines[path[i - 1]];
        if (at->is.source >= 0) {
            reports += at->is.source_report - since;
            since = at->is.report;
        }
        self->changes[self->count++] = (change){.report = reports, .x = at->x};
    }
}

static troupe_status read_log(replay *self, const char *path, int trial)
{
    size_t size, count = 0, steps;
    line *lines = NULL;
    TROUPE_TRY(trp_file_read(path, &self->text, &size));
    troupe_status status = parse((const char *)self->text, size, &lines, &count);
    size_t *way = status == TROUPE_OK ? trp_alloc((count + 1) * sizeof *way) : NULL;
    self->changes = way == NULL ? NULL : trp_alloc((count + 1) * sizeof *self->changes);
    if (status == TROUPE_OK && self->changes == NULL)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for the log of a population");
    if (status == TROUPE_OK)
        status = follow(lines, count, trial, way, &steps);
    if (status == TROUPE_OK)
        count_reports(self, lines, way, steps);
    trp_free(way);
    trp_free(lines);
    return status;
}

// ---- the table

static troupe_status replay_begin(troupe_scheduler *scheduler, const troupe_problem *problem)
{
    replay *self = (replay *)scheduler;
    size_t dims = problem->dim_count;
    self->points = trp_alloc((self->count * dims + 1) * sizeof *self->points);
    if (self->points == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu points", self->count);
    for (size_t i = 0; i < self->count; i++) {
        double *point = self->points + i * dims;
        for (size_t d = 0; d < dims; d++) {
            trp_json value;
            trp_arena none = {0};
            if (!trp_json_member(self->changes[i].x, problem->dims[d].name, &value))
                return troupe_fail(TROUPE_INVALID,
                                   "pbt replay: a point of the log lacks \"%s\", which the space "
                                   "has",
                                   problem->dims[d].name);
            troupe_status status = trp_json_read(&troupe_type_double, value, &none, &point[d]);
            trp_arena_clear(&none);
            if (status != TROUPE_OK)
                return troupe_fail(status, "pbt replay: \"%s\" of a point of the log is no number",
                                   problem->dims[d].name);
        }
        trp_dims_snap(problem->dims, dims, point);
        self->changes[i].point = point;
    }
    self->problem = problem;
    return TROUPE_OK;
}

static int replay_decides_at(troupe_scheduler *scheduler, int trial, int after)
{
    const replay *self = (replay *)scheduler;
    (void)trial;
    for (size_t i = 0; i < self->count; i++) {
        if (self->changes[i].report > after)
            return self->changes[i].report;
    }
    return 0;
}

static troupe_status replay_decide(troupe_scheduler *scheduler, const troupe_progress *progress,
                                   troupe_verdict *verdict)
{
    const replay *self = (replay *)scheduler;
    const change *last = NULL;
    if (self->problem == NULL)
        return troupe_fail(TROUPE_INVALID, "pbt replay: it was not told what is searched (begin)");
    for (size_t i = 0; i < self->count; i++) {
        if (self->changes[i].report == progress->report)
            last = &self->changes[i];
    }
    if (last == NULL)
        return TROUPE_OK;
    if (verdict->x != NULL)
        memcpy(verdict->x, last->point, self->problem->dim_count * sizeof *last->point);
    verdict->act = TROUPE_ACT_CLONE;
    verdict->source = progress->trial; // From its own checkpoint.
    return TROUPE_OK;
}

static void replay_destroy(troupe_scheduler *scheduler)
{
    replay *self = (replay *)scheduler;
    trp_free(self->text);
    trp_free(self->changes);
    trp_free(self->points);
    trp_free(self);
}

troupe_scheduler *troupe_pbt_replay(const char *log, int trial)
{
    if (log == NULL || trial < 0) {
        if (log == NULL)
            troupe_fail(TROUPE_INVALID, "pbt replay: log is NULL");
        else
            troupe_fail(TROUPE_INVALID, "pbt replay: trial is %d, must be at least 0", trial);
        return trp_scheduler_refused();
    }
    replay *self = trp_alloc(sizeof *self);
    if (self == NULL) {
        troupe_fail(TROUPE_NO_MEMORY, "no memory for a scheduler");
        return trp_scheduler_refused();
    }
    snprintf(self->description, sizeof self->description, "PBT replay (trial %d)", trial);
    self->base = (troupe_scheduler){.abi = TROUPE_ABI,
                                    .describe = self->description,
                                    .begin = replay_begin,
                                    .decides_at = replay_decides_at,
                                    .decide = replay_decide,
                                    .destroy = replay_destroy};
    if (read_log(self, log, trial) == TROUPE_OK)
        return &self->base;
    replay_destroy(&self->base);
    return trp_scheduler_refused();
}
