// repeat.c: repeats the steps of an earlier life of a study from the lines of its record.
#include <tune/study/lines.h>

#include <math.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <stdio.h>
#include <string.h>

typedef struct repeating {
    troupe_study *study;
    const trp_study_past *past;
    trp_line line;
    int warm;
    size_t spaces; // That the lines before had.
    double *room;  // For a point.
} repeating;

static troupe_status bad(const char *what)
{
    return troupe_fail(TROUPE_CORRUPT, "%s", what);
}

// The same, of what the last error says.
static troupe_status bad_as_said(void)
{
    char said[400];
    snprintf(said, sizeof said, "%.399s", troupe_last_error()->text);
    return bad(said);
}

// The trial of a line, in a state of those.
static troupe_status check_trial(const repeating *r, bool running, bool paused)
{
    const trp_line *line = &r->line;
    if (line->trial < 0 || line->trial >= r->study->count)
        return bad("it is about a trial that has not begun");
    troupe_study_state state = trp_study_at(r->study, line->trial)->view.state;
    if ((state == TROUPE_STUDY_RUNNING && running) || (state == TROUPE_STUDY_PAUSED && paused))
        return TROUPE_OK;
    return bad(running ? "it is about a trial that does not run" : "its trial is not paused");
}

static bool same_point(const troupe_study *study, const double *a, const double *b)
{
    for (size_t i = 0; i < study->dim_count; i++) {
        if (a[i] != b[i] && !(isnan(a[i]) && isnan(b[i])))
            return false;
    }
    return true;
}

// The space of the line, where it is not the study's own; else NULL.
static const trp_extension *space_of(const repeating *r)
{
    return r->spaces < r->study->earlier_count ? &r->study->earlier[r->spaces] : NULL;
}

// Moves the line's points to where they lie in the study's space.
static troupe_status map_points(repeating *r)
{
    trp_line *line = &r->line;
    const trp_extension *was = space_of(r);
    size_t size = r->study->dim_count * sizeof *r->room;
    if (was == NULL)
        return TROUPE_OK;
    if (line->verdict.act == TROUPE_ACT_CLONE)
        return troupe_fail(TROUPE_EXISTS, "the space was another, and trials were clones in it: "
                                          "expected the same space");
    if ((line->has & TRP_HAS_X) == 0)
        return TROUPE_OK;
    TROUPE_TRY(trp_extension_map(r->study->space, was, line->x, r->room));
    if (size > 0)
        memcpy(line->x, r->room, size);
    return TROUPE_OK;
}

static troupe_status check_verdict(const repeating *r, const troupe_verdict *says)
{
    const trp_line *line = &r->line;
    const troupe_verdict *said = &line->verdict;
    bool same = says->act == said->act;
    if (same && says->act == TROUPE_ACT_CLONE)
        same = says->source == said->source && (line->has & TRP_HAS_CLONED) != 0 &&
               same_point(r->study, says->x, said->x);
    if (same && says->act == TROUPE_ACT_RESIZE)
        same = says->ranks == said->ranks;
    return same ? TROUPE_OK : bad("the scheduler has decided something else now");
}

static troupe_status check_next(const repeating *r, troupe_status expected, int trial)
{
    int said;
    bool failed;
    troupe_verdict verdict;
    bool fresh = trial == -1 || r->line.fresh;
    troupe_status status = trp_study_take_next(r->study, fresh, &said, &verdict, &failed);
    if (failed)
        return status;
    if (status != expected || said != trial)
        return bad("the scheduler gives another trial now");
    return trial >= 0 && status == TROUPE_OK ? check_verdict(r, &verdict) : TROUPE_OK;
}

static troupe_status repeat_suggest(repeating *r)
{
    troupe_study *study = r->study;
    if (r->line.trial != study->count)
        return bad("its trial is not the next one");
    if (trp_study_check_point(study, "the line", true, r->line.x) != TROUPE_OK)
        return bad_as_said();
    TROUPE_TRY(check_next(r, TROUPE_OK, -1));
    TROUPE_TRY(trp_study_take_trial(study, r->line.x));
    trp_study_at(study, r->line.trial)->earlier = space_of(r) != NULL;
    return TROUPE_OK;
}

static troupe_status repeat_report(repeating *r)
{
    const trp_line *line = &r->line;
    troupe_verdict verdict;
    TROUPE_TRY(check_trial(r, true, false));
    const trp_study_trial *trial = trp_study_at(r->study, line->trial);
    if (trial->act == TROUPE_ACT_STOP || trial->act == TROUPE_ACT_END)
        return bad("it is a report of a trial that the scheduler had ended");
    if (line->number <= trial->view.reports)
        return bad("its report is not behind the one before");
    const trp_study_report report = {line->trial, line->number, line->values, line->elapsed_s,
                                     line->ranks};
    TROUPE_TRY(trp_study_take_report(r->study, &report, &verdict));
    return check_verdict(r, &verdict);
}

static troupe_status repeat_again(repeating *r)
{
    TROUPE_TRY(check_trial(r, false, true));
    TROUPE_TRY(check_next(r, TROUPE_OK, r->line.trial));
    trp_study_take_again(r->study, r->line.trial, &r->line.verdict);
    return TROUPE_OK;
}

static troupe_status repeat_over(repeating *r)
{
    const trp_study_ended end = {.trial = r->line.trial, .ending = TROUPE_ENDING_STOPPED};
    TROUPE_TRY(check_trial(r, false, true));
    TROUPE_TRY(check_next(r, TROUPE_STOPPED, r->line.trial));
    return trp_study_take_end(r->study, &end);
}

static troupe_status repeat_end(repeating *r)
{
    const trp_line *line = &r->line;
    const char *error = NULL;
    trp_arena arena = {0};
    TROUPE_TRY(check_trial(r, true, true));
    troupe_status status = TROUPE_OK;
    if (line->error.size > 0)
        status = trp_json_read(&troupe_type_troupe_text, line->error, &arena, &error);
    if (status != TROUPE_OK && status != TROUPE_NO_MEMORY)
        status = bad_as_said();
    const trp_study_ended end = {.trial = line->trial,
                                 .ending = line->ending,
                                 .values = line->has & TRP_HAS_VALUES ? line->values : NULL,
                                 .violation = line->violation,
                                 .error = error};
    if (status == TROUPE_OK)
        status = trp_study_take_end(r->study, &end);
    trp_arena_clear(&arena);
    return status;
}

static troupe_status repeat_warm(repeating *r)
{
    const trp_line *line = &r->line;
    if (line->trial != -1 - r->warm || r->study->count > 0)
        return bad("it is an earlier study's trial in a wrong place");
    r->warm++;
    const trp_study_ended end = {.trial = line->trial,
                                 .ending = line->ending,
                                 .values = line->values,
                                 .violation = line->violation};
    return trp_study_take_warm(r->study, line->trial, &end, line->reports, line->x);
}

static troupe_status repeat_extend(repeating *r)
{
    troupe_study *study = r->study;
    int trials = r->line.trials;
    if (trials < 0 || trials > trp_study_most(study, space_of(r)))
        return bad("its number of trials is none");
    trp_study_take_total(study, trials);
    return TROUPE_OK;
}

static troupe_status repeat_line(repeating *r)
{
    switch (r->line.kind) {
    case TRP_LINE_STUDY:
        return bad("it begins a study once more");
    case TRP_LINE_WARM:
        return repeat_warm(r);
    case TRP_LINE_SUGGEST:
        return repeat_suggest(r);
    case TRP_LINE_AGAIN:
        return repeat_again(r);
    case TRP_LINE_OVER:
        return repeat_over(r);
    case TRP_LINE_REPORT:
        return repeat_report(r);
    case TRP_LINE_END:
        return repeat_end(r);
    case TRP_LINE_EXTEND:
        return repeat_extend(r);
    case TRP_LINE_SPACE:
        r->spaces++;
        return TROUPE_OK;
    case TRP_LINE_EXHAUSTED:
        r->study->exhausted = true;
        return TROUPE_OK;
    case TRP_LINE_OTHER:
        break;
    }
    return r->study->own ? bad("it is none of a study") : TROUPE_OK;
}

static troupe_status take_line(repeating *r, const char *text, size_t size)
{
    troupe_study *study = r->study;
    const trp_extension *was = space_of(r);
    size_t dims = was != NULL ? was->dims : study->dim_count;
    troupe_status status = trp_line_read(text, size, dims, study->objectives, &r->line);
    if (status == TROUPE_MALFORMED || status == TROUPE_WRONG_TYPE)
        return bad_as_said();
    TROUPE_TRY(status);
    TROUPE_TRY(map_points(r));
    TROUPE_TRY(repeat_line(r));
    int number =
        r->line.kind == TRP_LINE_OTHER || !(r->line.has & TRP_HAS_TRIAL) ? -1 : r->line.trial;
    return r->past->visit == NULL ? TROUPE_OK : r->past->visit(r->past->user, text, size, number);
}

troupe_status trp_study_repeat(troupe_study *study, const trp_study_past *past, size_t from,
                               size_t line_number)
{
    repeating r = {.study = study, .past = past};
    TROUPE_TRY(trp_line_open(&r.line, study->dim_count, study->objectives));
    r.room = trp_alloc((study->dim_count + 1) * sizeof *r.room);
    troupe_status status =
        r.room != NULL ? TROUPE_OK : troupe_fail(TROUPE_NO_MEMORY, "no memory for a point");
    const char *at = past->lines + from, *end = past->lines + past->size;
    while (status == TROUPE_OK && at < end) {
        const char *next = memchr(at, '\n', (size_t)(end - at));
        next = next != NULL ? next : end;
        line_number++;
        status = take_line(&r, at, (size_t)(next - at));
        at = next + 1;
    }
    if (status != TROUPE_OK)
        status = trp_error_prefix("line %zu of %s", line_number, trp_study_name(study));
    trp_line_close(&r.line);
    trp_free(r.room);
    return status;
}
