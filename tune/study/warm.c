// warm.c: learns from the trials in the files of earlier studies and sweeps.
//
// A trial counts from its end on: its point is read by the names of its params, and has to have a
// value for every dimension that counts. What cannot be read is passed over, since it is another
// program's file; but a file that has no study or sweep at all is refused.
#include <tune/study/lines.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tune/space/dims.h>
#include <unistd.h>

// A trial of the file that is being read.
typedef struct earlier {
    bool has_point; // Which it has lost where it has gone on as a clone.
    int reports;
    double *numbers; // Its point, and behind it its best report; NULL: it has not begun.
} earlier;

typedef struct warming {
    troupe_study *study;
    trp_buffer *lines;
    int *count;
    const char *file;
    bool is_record; // Of a study or sweep;
    bool is_study;  // of a study, or of a sweep that has one.
    bool same;      // Its values mean the same.
    int lines_seen;
    earlier *trials;
    int trial_count;
    double *values; // A room.
} warming;

static troupe_status no_memory(const warming *w)
{
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for the trials of %s", w->file);
}

static troupe_status read_file(const char *path, trp_buffer *text)
{
    struct stat is;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return trp_fail_errno(errno == ENOENT ? TROUPE_NOT_FOUND : TROUPE_IO,
                              "%s cannot be opened to learn from", path);
    troupe_status status = TROUPE_OK;
    if (fstat(fd, &is) != 0 || !S_ISREG(is.st_mode))
        status = troupe_fail(TROUPE_INVALID, "%s, to learn from, is no regular file", path);
    else if (is.st_size > 0 && !trp_buffer_reserve(text, (size_t)is.st_size))
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for %s", path);
    while (status == TROUPE_OK && text->size < (size_t)is.st_size) {
        ssize_t got = read(fd, text->data + text->size, (size_t)is.st_size - text->size);
        if (got < 0 && errno != EINTR)
            status = trp_fail_errno(TROUPE_IO, "%s cannot be read", path);
        if (got == 0)
            break;
        text->size += got > 0 ? (size_t)got : 0;
    }
    close(fd);
    return status;
}

// ---- goals

static bool goal_is(const warming *w, size_t objective, trp_json goal)
{
    return trp_json_equals(goal,
                           w->study->goals[objective] == TROUPE_MAXIMIZE ? "maximize" : "minimize");
}

// Whether its values mean the same: of as many objectives, to be as small or as large. A sweep's
// first line is followed by that of its study, unless it is of an older version.
static void note_goals(warming *w, trp_json line, bool is_study)
{
    trp_json goals, item = {0};
    size_t count = 0;
    bool same = true;
    if (is_study && trp_json_member(line, "goals", &goals)) {
        for (; same && trp_json_next_item(goals, &item); count++)
            same = count < w->study->objectives && goal_is(w, count, item);
    } else if (!is_study && trp_json_member(line, "goal", &goals)) {
        same = goal_is(w, 0, goals);
        count = 1;
    } else {
        return;
    }
    w->is_record = true;
    w->is_study = is_study;
    w->same = same && count == w->study->objectives;
}

static troupe_status check_goals(const warming *w)
{
    return w->same ? TROUPE_OK
                   : troupe_fail(TROUPE_INVALID,
                                 "%s, to learn from, has other goals: expected as many objectives, "
                                 "to be minimized and maximized likewise",
                                 w->file);
}

// ---- trials

// The trial of a line: by its number, or as a sweep's, by its name, which ends in one.
static int trial_of(trp_json line)
{
    trp_json value;
    int number = -1;
    if (!trp_json_member(line, "trial", &value))
        return -1;
    if (trp_line_read_int(value, "trial", &number) == TROUPE_OK)
        return number;
    const char *end = value.at + value.size - 1, *at = end;
    while (at > value.at && at[-1] >= '0' && at[-1] <= '9')
        at--;
    return trp_json_is_text(value) && at < end && end - at < 10 ? (int)strtol(at, NULL, 10) : -1;
}

static troupe_status make_trial(warming *w, int number, earlier **made)
{
    size_t dims = w->study->dim_count, objectives = w->study->objectives;
    *made = NULL;
    if (number < 0 || number >= w->lines_seen) // Those before it have a line each.
        return TROUPE_OK;
    if (number >= w->trial_count) {
        size_t count = ((size_t)number + 1) * 3 / 2 + 16;
        earlier *more = trp_realloc(w->trials, count * sizeof *more);
        if (more == NULL)
            return no_memory(w);
        memset(more + w->trial_count, 0, (count - (size_t)w->trial_count) * sizeof *more);
        w->trials = more;
        w->trial_count = (int)count;
    }
    earlier *trial = &w->trials[number];
    if (trial->numbers == NULL)
        trial->numbers = trp_alloc((dims + objectives) * sizeof(double));
    if (trial->numbers == NULL)
        return no_memory(w);
    for (size_t i = 0; i < objectives; i++)
        trial->numbers[dims + i] = (double)NAN;
    *made = trial;
    return TROUPE_OK;
}

static earlier *known(const warming *w, trp_json line)
{
    int number = trial_of(line);
    earlier *trial = number >= 0 && number < w->trial_count ? &w->trials[number] : NULL;
    return trial != NULL && trial->has_point ? trial : NULL;
}

static bool is_whole(const warming *w, const double *x)
{
    for (size_t i = 0; i < w->study->dim_count; i++) {
        if (isnan(x[i]) && trp_dim_counts(w->study->dims, i, x))
            return false;
    }
    return true;
}

static troupe_status take_begin(warming *w, trp_json line, const char *member)
{
    trp_json params;
    earlier *trial;
    if (!w->is_record || !trp_json_member(line, member, &params))
        return TROUPE_OK;
    TROUPE_TRY(check_goals(w));
    TROUPE_TRY(make_trial(w, trial_of(line), &trial));
    if (trial == NULL)
        return TROUPE_OK;
    troupe_status status = trp_space_read_point(w->study->space, params, true, trial->numbers);
    if (status == TROUPE_NO_MEMORY)
        return status;
    trial->has_point = status == TROUPE_OK && is_whole(w, trial->numbers);
    if (trial->has_point)
        trp_space_settle(w->study->space, trial->numbers);
    trial->reports = 0;
    return TROUPE_OK;
}

static bool read_values(const warming *w, trp_json line)
{
    trp_json value;
    return trp_json_member(line, "values", &value) &&
           trp_line_read_numbers(value, "values", w->values, w->study->objectives) == TROUPE_OK;
}

static void take_report(warming *w, trp_json line)
{
    trp_json value;
    earlier *trial = known(w, line);
    if (trial == NULL)
        return;
    double *best = trial->numbers + w->study->dim_count;
    trial->reports++;
    if (read_values(w, line) && trp_study_better(w->study, w->values[0], best[0]))
        memcpy(best, w->values, w->study->objectives * sizeof *best);
    if (trp_json_member(line, "act", &value) && trp_json_equals(value, "clone"))
        trial->has_point = false;
}

static bool text_is(trp_json line, const char *name, const char *text)
{
    trp_json value;
    return trp_json_member(line, name, &value) && trp_json_equals(value, text);
}

// Its values, in w->values: those of its end, or else of its best report.
static void find_values(warming *w, trp_json line, const earlier *trial)
{
    trp_json value;
    if (read_values(w, line))
        return;
    memcpy(w->values, trial->numbers + w->study->dim_count,
           w->study->objectives * sizeof *w->values);
    // A sweep of an older version.
    if (w->study->objectives == 1 && trp_json_member(line, "best", &value))
        (void)trp_json_read(&troupe_type_double, value, NULL, w->values);
}

static troupe_status take_end(warming *w, trp_json line, bool over)
{
    trp_json value;
    earlier *trial = known(w, line);
    if (trial == NULL)
        return TROUPE_OK;
    trial->has_point = false; // It ends once.
    trp_study_ended end = {.trial = -1 - *w->count, .values = w->values};
    if (text_is(line, "ending", "failed") || text_is(line, "state", "ERROR"))
        end.ending = TROUPE_ENDING_FAILED;
    else if (over || text_is(line, "ending", "stopped") || text_is(line, "state", "STOPPED"))
        end.ending = TROUPE_ENDING_STOPPED;
    if (trp_json_member(line, "violation", &value))
        (void)trp_json_read(&troupe_type_double, value, NULL, &end.violation);
    find_values(w, line, trial);
    if (end.ending == TROUPE_ENDING_COMPLETE && isnan(w->values[0]))
        end.ending = TROUPE_ENDING_FAILED;
    TROUPE_TRY(trp_study_take_warm(w->study, end.trial, &end, trial->reports, trial->numbers));
    *w->count += 1;
    trp_line_warm(w->study, &end, trial->reports, trial->numbers, w->lines);
    trp_buffer_append(w->lines, "}\n", 2);
    return w->lines->failed ? no_memory(w) : TROUPE_OK;
}

// ---- lines

static troupe_status take_line(warming *w, const char *text, size_t size)
{
    trp_json line, event;
    troupe_status status = trp_json_parse(text, size, &line);
    if (status != TROUPE_OK || !trp_json_member(line, "event", &event))
        return status == TROUPE_NO_MEMORY ? status : TROUPE_OK;
    bool is_study = trp_json_equals(event, "study");
    if (is_study || trp_json_equals(event, "sweep"))
        note_goals(w, line, is_study);
    if (trp_json_equals(event, "suggest"))
        return take_begin(w, line, "params");
    if (trp_json_equals(event, "submitted") && !w->is_study) // A sweep of an older version.
        return take_begin(w, line, "config");
    if (trp_json_equals(event, "again") && text_is(line, "act", "clone")) {
        earlier *trial = known(w, line);
        if (trial != NULL)
            trial->has_point = false;
    }
    if (trp_json_equals(event, "report"))
        take_report(w, line);
    bool over = trp_json_equals(event, "over");
    return over || trp_json_equals(event, "end") ? take_end(w, line, over) : TROUPE_OK;
}

static troupe_status take_file(warming *w)
{
    trp_buffer text = {0};
    troupe_status status = read_file(w->file, &text);
    const char *at = (const char *)text.data;
    size_t left = text.size;
    const int before = *w->count;
    w->is_record = w->is_study = w->same = false;
    w->lines_seen = 0;
    while (status == TROUPE_OK && left > 0) {
        const char *end = memchr(at, '\n', left);
        if (end == NULL) // Of one that is written to now.
            break;
        w->lines_seen++;
        status = take_line(w, at, (size_t)(end - at));
        left -= (size_t)(end + 1 - at);
        at = end + 1;
    }
    if (status == TROUPE_OK && !w->is_record)
        status =
            troupe_fail(TROUPE_INVALID,
                        "%s, to learn from, has no study and no sweep: expected a study's file "
                        "or a sweep's trials.jsonl",
                        w->file);
    if (status == TROUPE_OK)
        status = check_goals(w);
    if (status == TROUPE_OK && *w->count == before)
        trp_log(TRP_WARN,
                "nothing is learned from %s: no trial of it has ended that has a value within the "
                "space for every parameter",
                w->file);
    trp_buffer_free(&text);
    for (int i = 0; i < w->trial_count; i++)
        trp_free(w->trials[i].numbers);
    trp_free(w->trials);
    w->trials = NULL;
    w->trial_count = 0;
    return status;
}

troupe_status trp_study_warm(troupe_study *study, const char *const *files, size_t file_count,
                             trp_buffer *lines, int *count)
{
    double values[TRP_OBJECTIVES_MAX];
    warming w = {.study = study, .lines = lines, .count = count, .values = values};
    *count = 0;
    for (size_t i = 0; i < file_count; i++) {
        w.file = files[i];
        TROUPE_TRY(take_file(&w));
    }
    return TROUPE_OK;
}
