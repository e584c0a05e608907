// trials.c: reads a sweep's or a study's record, line by line.
#include <tune/why/trials.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/host/file.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tune/study/study.h>
#include <tune/sweep/settings.h>
#include <tune/why/seen_reports.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 20, LINE_MAX_BYTES = 16 << 20, NAME_MAX_BYTES = 255 };

// ---- members of a line

static const char *keep_text(trp_trials *trials, trp_json value)
{
    const char *text = NULL;
    if (!trp_json_is_text(value))
        return NULL;
    troupe_status status = trp_json_read(&troupe_type_troupe_text, value, &trials->arena, &text);
    trials->failed = trials->failed || status == TROUPE_NO_MEMORY;
    return status == TROUPE_OK ? text : NULL;
}

static const char *text_of(trp_trials *trials, trp_json line, const char *name)
{
    trp_json value;
    return trp_json_member(line, name, &value) ? keep_text(trials, value) : NULL;
}

static bool read_number(trp_json value, double *number)
{
    trp_arena arena = {0};
    bool read = !trp_json_is_null(value) &&
                trp_json_read(&troupe_type_double, value, &arena, number) == TROUPE_OK;
    trp_arena_clear(&arena);
    return read;
}

static bool number_of(trp_json line, const char *name, double *number)
{
    trp_json value;
    return trp_json_member(line, name, &value) && read_number(value, number);
}

// A copy of a value, which outlives the line.
static trp_json keep_json(trp_trials *trials, trp_json value)
{
    char *copy = trp_arena_alloc(&trials->arena, value.size + 1);
    if (copy == NULL) {
        trials->failed = true;
        return (trp_json){0};
    }
    memcpy(copy, value.at, value.size);
    return (trp_json){copy, value.size};
}

// ---- trials

// "fit_3d3d1_00042" is trial 42.
static bool number_in(const char *name, double *number)
{
    const char *digits = name != NULL ? strrchr(name, '_') : NULL;
    char *end;
    if (digits == NULL || digits[1] < '0' || digits[1] > '9')
        return false;
    *number = strtod(digits + 1, &end);
    return *end == '\0';
}

static trp_seen_trial *trial_at(trp_trials *trials, size_t number)
{
    if (number >= trials->room) {
        size_t room = trials->room > 0 ? 2 * trials->room : 64;
        while (room <= number)
            room *= 2;
        trp_seen_trial **larger = trp_realloc(trials->trials, room * sizeof *larger);
        if (larger == NULL)
            return NULL;
        memset(larger + trials->room, 0, (room - trials->room) * sizeof *larger);
        trials->trials = larger;
        trials->room = room;
    }
    trp_seen_trial **it = &trials->trials[number];
    if (*it != NULL || (*it = trp_arena_alloc(&trials->arena, sizeof **it)) == NULL)
        return *it;
    **it = (trp_seen_trial){
        .number = (int)number, .stride = 1, .began = (double)NAN, .ended = (double)NAN};
    for (int i = 0; i < TRP_TRIALS_OBJECTIVES; i++)
        (*it)->values[i] = (*it)->told[i] = (double)NAN;
    if (number >= trials->count)
        trials->count = number + 1;
    return *it;
}

typedef enum taken {
    TAKEN,
    TAKEN_BAD,
    TAKEN_OTHER, // Nothing is known of it.
    TAKEN_SHORT, // Of memory.
} taken;

// The trial that a line speaks of, by its number or its name.
static taken trial_of(trp_trials *trials, trp_json line, trp_seen_trial **trial)
{
    trp_json key;
    double number;
    *trial = NULL;
    if (!trp_json_member(line, "trial", &key))
        return TAKEN_BAD;
    const char *name = trp_json_is_text(key) ? keep_text(trials, key) : NULL;
    if (name != NULL ? !number_in(name, &number) : !read_number(key, &number))
        return TAKEN_BAD;
    if (number < 0) // Of an earlier study.
        return TAKEN_OTHER;
    if (!(number < TRP_TRIALS_NUMBERS))
        return TAKEN_BAD;
    *trial = trial_at(trials, (size_t)number);
    if (*trial == NULL)
        return TAKEN_SHORT;
    if (name == NULL)
        name = text_of(trials, line, "name");
    if (name != NULL && strlen(name) <= NAME_MAX_BYTES && strchr(name, '/') == NULL)
        (*trial)->name = name;
    return TAKEN;
}

static bool add_point(trp_trials *trials, trp_seen_trial *trial, int report, double value)
{
    size_t at = report > 0 ? (size_t)report - 1 : 0;
    if (trial->points == NULL)
        trial->points = trp_arena_alloc(&trials->arena, TRP_TRIALS_POINTS * sizeof *trial->points);
    if (trial->points == NULL)
        return false;
    while (at / (size_t)trial->stride >= TRP_TRIALS_POINTS) {
        for (size_t i = 0; i < TRP_TRIALS_POINTS / 2; i++)
            trial->points[i] = trial->points[2 * i];
        trial->used = (trial->used + 1) / 2;
        trial->stride *= 2;
    }
    if (at % (size_t)trial->stride != 0)
        return true;
    size_t slot = at / (size_t)trial->stride;
    while (trial->used < slot)
        trial->points[trial->used++] = (double)NAN;
    trial->points[slot] = value;
    if (slot >= trial->used)
        trial->used = slot + 1;
    return true;
}

bool trp_trials_better(const trp_trials *trials, size_t objective, double one, double other)
{
    if (isnan(one) || isnan(other))
        return !isnan(one);
    return trials->goals[objective] == TROUPE_MAXIMIZE ? one > other : one < other;
}

// ---- lines

static troupe_goal goal_of(trp_json value)
{
    return trp_json_equals(value, "maximize") ? TROUPE_MAXIMIZE : TROUPE_MINIMIZE;
}

static void take_goals(trp_trials *trials, trp_json line)
{
    trp_json value, at = {0}, name, goal;
    if (trp_json_member(line, "metric", &value))
        trials->metrics[0] = keep_text(trials, value);
    if (trp_json_member(line, "goal", &value)) {
        trials->goals[0] = goal_of(value);
        trials->objectives = 1;
    }
    if (trp_json_member(line, "goals", &value) && trp_json_is_array(value)) {
        trp_json item = {0};
        for (trials->objectives = 0;
             trials->objectives < TRP_TRIALS_OBJECTIVES && trp_json_next_item(value, &item);)
            trials->goals[trials->objectives++] = goal_of(item);
    }
    if (!trp_json_member(line, "objectives", &value) || !trp_json_is_object(value))
        return;
    for (trials->objectives = 0; trials->objectives < TRP_TRIALS_OBJECTIVES &&
                                 trp_json_next_member(value, &at, &name, &goal);) {
        trials->metrics[trials->objectives] = keep_text(trials, name);
        trials->goals[trials->objectives++] = goal_of(goal);
    }
}

// A name, or an object with a name and options.
static const char *name_of(trp_trials *trials, trp_json line, const char *member)
{
    trp_json value;
    if (!trp_json_member(line, member, &value))
        return NULL;
    return trp_json_is_object(value) ? text_of(trials, value, "name") : keep_text(trials, value);
}

// The name of the searcher, with what it has chosen where it says so.
static void take_searcher(trp_trials *trials, trp_json line)
{
    const char *text = text_of(trials, line, "chosen");
    if (text == NULL)
        text = name_of(trials, line, "searcher");
    if (text != NULL)
        trials->searcher = text;
}

static void take_first(trp_trials *trials, trp_json line, bool sweep)
{
    trp_json value;
    double number;
    const char *text;
    trials->sweep = trials->sweep || sweep;
    take_goals(trials, line);
    if ((text = name_of(trials, line, "scheduler")) != NULL)
        trials->scheduler = text;
    take_searcher(trials, line);
    if ((text = text_of(trials, line, "trainer")) != NULL)
        trials->trainer = text;
    if ((text = text_of(trials, line, "model")) != NULL)
        trials->model = text;
    if (trp_json_member(line, "command", &value) && trp_json_is_array(value))
        trials->command = keep_json(trials, value);
    if (trials->command.size > 0 && (text = text_of(trials, line, "folder")) != NULL)
        trials->began_in = text;
    if (trp_json_member(line, "program", &value) && trp_json_is_object(value))
        trials->program = keep_json(trials, value);
    if (trp_json_member(line, "settings", &value) && trp_json_is_object(value))
        trials->settings = keep_json(trials, value);
    if (trp_json_member(line, "seed", &value)) {
        value = keep_json(trials, value);
        trials->seed = value.at;
    }
    if (number_of(line, "trials", &number) && number >= 0 && number < TRP_TRIALS_NUMBERS)
        trials->wanted = (int)number;
    if (trp_json_member(line, "space", &value))
        trials->space = keep_json(trials, value);
    if (number_of(line, "version", &number) && number > 0 && number < INT_MAX)
        trials->version = (int)number;
}

// Values of the objectives, as the line has them; how many.
static size_t values_in(const trp_trials *trials, trp_json line, double *values)
{
    trp_json value, item = {0};
    size_t count = 0;
    if (trp_json_member(line, "values", &value) && trp_json_is_array(value)) {
        while (count < TRP_TRIALS_OBJECTIVES && trp_json_next_item(value, &item)) {
            values[count] = (double)NAN;
            (void)read_number(item, &values[count++]);
        }
        return count;
    }
    if (number_of(line, "value", &values[0]))
        return 1;
    if (!trp_json_member(line, "metrics", &value))
        return 0;
    for (size_t i = 0; i < trials->objectives; i++) {
        values[i] = (double)NAN;
        if (trials->metrics[i] != NULL)
            (void)number_of(value, trials->metrics[i], &values[i]);
    }
    return trials->objectives;
}

static taken take_report(trp_trials *trials, trp_json line, trp_seen_trial *trial)
{
    double values[TRP_TRIALS_OBJECTIVES], number = 0, elapsed;
    size_t count = values_in(trials, line, values);
    if ((!number_of(line, "number", &number) && !number_of(line, "report", &number)) ||
        !(number >= 0 && number < INT_MAX))
        return TAKEN_BAD;
    if (number > trial->reports)
        trial->reports = (int)number;
    if (trial->state == TRP_TRIALS_PENDING || trial->state == TRP_TRIALS_PAUSED)
        trial->state = TRP_TRIALS_RUNNING;
    if (number_of(line, "elapsed_s", &elapsed))
        trial->elapsed_s = elapsed;
    if (trials->whole && !trp_seen_report_take(trials, trial, line, (int)number, trial->elapsed_s))
        return TAKEN_SHORT;
    if (count == 0)
        return TAKEN;
    if (!add_point(trials, trial, (int)number, values[0]))
        return TAKEN_SHORT;
    if (isnan(trial->told[0]) && trp_trials_better(trials, 0, values[0], trial->values[0]))
        memcpy(trial->values, values, count * sizeof *values);
    return TAKEN;
}

static trp_trials_state state_of(trp_json value, trp_trials_state otherwise)
{
    static const struct {
        const char *word;
        trp_trials_state state;
    } words[] = {
        {"PENDING", TRP_TRIALS_PENDING},       {"RUNNING", TRP_TRIALS_RUNNING},
        {"RESTARTING", TRP_TRIALS_RUNNING},    {"PAUSED", TRP_TRIALS_PAUSED},
        {"paused", TRP_TRIALS_PAUSED},         {"pause", TRP_TRIALS_PAUSED},
        {"TERMINATED", TRP_TRIALS_TERMINATED}, {"complete", TRP_TRIALS_TERMINATED},
        {"end", TRP_TRIALS_TERMINATED},        {"STOPPED", TRP_TRIALS_STOPPED},
        {"stopped", TRP_TRIALS_STOPPED},       {"stop", TRP_TRIALS_STOPPED},
        {"ERROR", TRP_TRIALS_ERROR},           {"failed", TRP_TRIALS_ERROR},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (trp_json_equals(value, words[i].word))
            return words[i].state;
    return otherwise;
}

static void take_end(trp_trials *trials, trp_json line, trp_seen_trial *trial)
{
    trp_json value;
    double values[TRP_TRIALS_OBJECTIVES], number;
    size_t count = values_in(trials, line, values);
    trial->state = TRP_TRIALS_TERMINATED;
    if (trp_json_member(line, "ending", &value))
        trial->state = state_of(value, trial->state);
    if (trp_json_member(line, "state", &value))
        trial->state = state_of(value, trial->state);
    if (count == 0 && isnan(trial->values[0]) && number_of(line, "best", &values[0]))
        count = 1;
    if (count > 0 && !isnan(values[0])) {
        memcpy(trial->told, values, count * sizeof *values);
        if (trials->objectives > 1 || trp_trials_better(trials, 0, values[0], trial->values[0]))
            memcpy(trial->values, values, count * sizeof *values);
    }
    if (number_of(line, "violation", &number))
        trial->violation = number;
    if (number_of(line, "elapsed_s", &number))
        trial->elapsed_s = number;
    if (number_of(line, "reports", &number) && number > trial->reports && number < INT_MAX)
        trial->reports = (int)number;
    const char *error = text_of(trials, line, "error");
    if (error != NULL && error[0] != '\0')
        trial->error = error;
}

// A trial begins, or has another config from now on.
static void take_config(trp_trials *trials, trp_json line, trp_seen_trial *trial)
{
    trp_json value;
    if (trp_json_member(line, "params", &value))
        trial->params = trial->config = keep_json(trials, value);
    if (trp_json_member(line, "config", &value))
        trial->config = keep_json(trials, value);
}

static taken take_event(trp_trials *trials, trp_json line, trp_json event)
{
    trp_seen_trial *trial;
    trp_json act;
    bool report = trp_json_equals(event, "report") || trp_json_equals(event, "reported");
    bool ended = trp_json_equals(event, "end") || trp_json_equals(event, "ended");
    if (trp_json_equals(event, "sweep") || trp_json_equals(event, "study")) {
        take_first(trials, line, trp_json_equals(event, "sweep"));
        return TAKEN;
    }
    if (trp_json_equals(event, "extend")) {
        double wanted;
        if (number_of(line, "trials", &wanted) && wanted >= 0 && wanted < TRP_TRIALS_NUMBERS)
            trials->wanted = (int)wanted;
        return TAKEN;
    }
    if (trp_json_equals(event, "space")) { // It has become larger.
        trp_json space;
        if (trp_json_member(line, "space", &space))
            trials->space = keep_json(trials, space);
        take_searcher(trials, line);
        return TAKEN;
    }
    if (!report && !ended && !trp_json_equals(event, "suggest") &&
        !trp_json_equals(event, "submitted") && !trp_json_equals(event, "over") &&
        !trp_json_equals(event, "again"))
        return TAKEN_OTHER;
    taken found = trial_of(trials, line, &trial);
    if (found != TAKEN)
        return found;
    take_config(trials, line, trial);
    if (trp_json_equals(event, "over"))
        trial->state = TRP_TRIALS_STOPPED;
    if (trp_json_equals(event, "again"))
        trial->state = TRP_TRIALS_RUNNING;
    if (ended)
        take_end(trials, line, trial);
    if (!report)
        return TAKEN;
    found = take_report(trials, line, trial);
    if (trp_json_member(line, "act", &act))
        trial->state = state_of(act, trial->state);
    return found;
}

static bool take_line(trp_trials *trials, const char *text, size_t size)
{
    trp_json line, event;
    trials->lines++;
    taken how = TAKEN_BAD;
    troupe_status status = trp_json_parse(text, size, &line);
    if (status == TROUPE_OK && trp_json_member(line, "event", &event))
        how = take_event(trials, line, event);
    trials->bad_lines += how == TAKEN_BAD;
    trials->other_lines += how == TAKEN_OTHER;
    return how != TAKEN_SHORT && status != TROUPE_NO_MEMORY && !trials->failed;
}

// Takes the whole lines of the buffer, and leaves the rest in it.
static bool take_lines(trp_trials *trials, trp_buffer *text)
{
    size_t at = 0;
    for (unsigned char *end;
         at < text->size && (end = memchr(text->data + at, '\n', text->size - at)) != NULL;) {
        size_t length = (size_t)(end - text->data) - at;
        if (length > 0 && !take_line(trials, (const char *)text->data + at, length))
            return false;
        at += length + 1;
    }
    if (at == 0 && text->size > LINE_MAX_BYTES) { // The rest of it is a bad line, too.
        trials->bad_lines++;
        at = text->size;
    }
    text->size -= at;
    memmove(text->data, text->data + at, text->size);
    return true;
}

static troupe_status read_all(trp_trials *trials, int fd, trp_buffer *text)
{
    for (;;) {
        if (!trp_buffer_reserve(text, PIECE_BYTES))
            break;
        ssize_t got = read(fd, text->data + text->size, PIECE_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return trp_fail_errno(TROUPE_IO, "%s cannot be read", trials->file);
        if (got == 0) // What has no end yet is being written.
            return TROUPE_OK;
        text->size += (size_t)got;
        if (!take_lines(trials, text))
            break;
    }
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for the trials of %s", trials->file);
}

// ---- where it is

static const char *copy_of(trp_trials *trials, const char *text, size_t size)
{
    char *copy = trp_arena_alloc(&trials->arena, size + 1);
    if (copy != NULL)
        memcpy(copy, text, size);
    return copy;
}

static troupe_status find_file(const char *path, trp_trials *trials)
{
    struct stat is;
    trp_path whole, file;
    if (realpath(path, whole.text) == NULL || stat(whole.text, &is) != 0)
        return trp_fail_errno(TROUPE_NOT_FOUND, "there is no sweep or study at %s", path);
    TROUPE_TRY(
        trp_path_make(&file, "%s%s", whole.text, S_ISDIR(is.st_mode) ? "/trials.jsonl" : ""));
    if (stat(file.text, &is) != 0)
        return troupe_fail(TROUPE_NOT_FOUND,
                           "%s is no folder of a sweep: expected one with trials.jsonl", path);
    if (!S_ISREG(is.st_mode))
        return troupe_fail(TROUPE_CORRUPT, "%s is no record of a sweep or a study", path);
    const char *last = strrchr(file.text, '/');
    size_t length = last > file.text ? (size_t)(last - file.text) : 1;
    trials->file = copy_of(trials, file.text, strlen(file.text));
    trials->folder = copy_of(trials, file.text, length);
    bool usual = strcmp(last, "/trials.jsonl") == 0;
    trials->name = usual ? trials->folder : trials->file;
    if (trials->name == NULL || trials->folder == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the trials of %s", path);
    trials->name = strrchr(trials->name, '/') + 1;
    return TROUPE_OK;
}

static void close_gaps(trp_trials *trials)
{
    size_t used = 0;
    for (size_t i = 0; i < trials->count; i++)
        if (trials->trials[i] != NULL) {
            trials->counts[trials->trials[i]->state]++;
            trials->trials[used++] = trials->trials[i];
        }
    trials->count = used;
}

static troupe_status read_record(const char *path, bool whole, trp_trials *trials)
{
    trp_buffer text = {0};
    *trials = (trp_trials){.objectives = 1, .goals = {TROUPE_MINIMIZE}, .whole = whole};
    TROUPE_TRY(find_file(path, trials));
    int fd = open(trials->file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return trp_fail_errno(TROUPE_IO, "%s cannot be opened", trials->file);
    troupe_status status = read_all(trials, fd, &text);
    trp_buffer_free(&text);
    close(fd);
    close_gaps(trials);
    TROUPE_TRY(status);
    if (trials->version > TRP_STUDY_VERSION)
        return troupe_fail(TROUPE_VERSION,
                           "%s is of version %d of studies, and this library knows up to %d: it "
                           "needs a newer library",
                           trials->file, trials->version, (int)TRP_STUDY_VERSION);
    if (trials->lines > 0 && trials->bad_lines == trials->lines)
        return troupe_fail(TROUPE_CORRUPT, "%s is no record of a sweep or a study", trials->file);
    return trp_trials_columns(trials);
}

troupe_status trp_trials_read(const char *path, trp_trials *trials)
{
    return read_record(path, false, trials);
}

troupe_status trp_trials_read_whole(const char *path, trp_trials *trials)
{
    return read_record(path, true, trials);
}

void trp_trials_free(trp_trials *trials)
{
    trp_free(trials->trials);
    trp_arena_clear(&trials->arena);
    *trials = (trp_trials){0};
}

const char *trp_trials_config(const trp_trials *trials, const trp_seen_trial *trial,
                              trp_arena *arena)
{
    trp_buffer whole = {0};
    const trp_json none = {"{}", 2};
    if (trials->model != NULL)
        return trp_settings_lay(trials->settings.size > 0 ? trials->settings : none, trial->config,
                                arena);
    trp_buffer_append(&whole, trial->config.at, trial->config.size);
    return trp_buffer_keep(&whole, arena);
}

const char *trp_trials_state_name(trp_trials_state state)
{
    static const char *const names[] = {"PENDING",    "RUNNING", "PAUSED",
                                        "TERMINATED", "STOPPED", "ERROR"};
    return names[state];
}
