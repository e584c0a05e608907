// html_facts.c: reads run.json, `end` and the journal of a run (see html_facts.h).
#include <train/html_facts.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/host/file.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <train/alive.h>
#include <train/checkpoint.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 20 }; // A longer line is not read.

static const double elapsed_max = 1e12;

TROUPE_STRUCT(cause_fields, (int, rank), (troupe_text, status), (troupe_text, text));
// Of all kinds of lines together.
TROUPE_STRUCT(line_fields, (troupe_text, event), (int, attempt), (int, report), (double, elapsed_s),
              (troupe_text, checkpoint), (troupe_text, at), (int, process), (troupe_text, state),
              (troupe_text, source), (bool, memory), (cause_fields, cause), (int64_t, revision),
              (troupe_text, member));

const char *trp_facts_copy(trp_facts *facts, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = trp_arena_alloc(&facts->arena, size);
    return copy != NULL ? memcpy(copy, text, size) : NULL;
}

void trp_facts_note(trp_facts *facts, const char *format, ...)
{
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    const char *copy = facts->note_count < TRP_FACTS_NOTES ? trp_facts_copy(facts, text) : NULL;
    if (copy != NULL)
        facts->notes[facts->note_count++] = copy;
}

// ---- metrics

// NULL: it is not known.
static trp_facts_metric *find_metric(const trp_facts *facts, const char *name)
{
    for (size_t i = 0; i < facts->metric_count; i++)
        if (strcmp(facts->metrics[i]->name, name) == 0)
            return facts->metrics[i];
    return NULL;
}

// NULL: it is one too many, or there is no memory.
static trp_facts_metric *metric_of(trp_facts *facts, const char *name)
{
    trp_facts_metric *known = find_metric(facts, name);
    if (known != NULL || facts->metric_count == TRP_FACTS_METRICS)
        return known;
    trp_facts_metric *made = trp_arena_alloc(&facts->arena, sizeof *made);
    const char *copy = made != NULL ? trp_facts_copy(facts, name) : NULL;
    if (copy == NULL)
        return NULL;
    made->name = copy;
    trp_series_begin(&made->over_reports, 1);
    trp_series_begin(&made->over_time, 1.0 / 1024);
    facts->metrics[facts->metric_count++] = made;
    return made;
}

static void take_value(trp_facts *facts, const char *name, double value)
{
    trp_facts_metric *metric = metric_of(facts, name);
    int report = facts->reports;
    if (metric == NULL) {
        facts->metrics_left_out++;
        return;
    }
    trp_series_add(&metric->over_reports, report, value);
    trp_series_add(&metric->over_time, facts->elapsed_s, value);
    metric->last = value;
    metric->last_report = report;
    if (metric->count + metric->odd == 0) {
        metric->first = value;
        metric->first_report = report;
    }
    if (!isfinite(value)) {
        metric->odd++;
        return;
    }
    if (metric->count == 0 || value < metric->low) {
        metric->low = value;
        metric->low_report = report;
    }
    if (metric->count == 0 || value > metric->high) {
        metric->high = value;
        metric->high_report = report;
    }
    metric->count++;
}

// ---- lines

// The next member as a metric; false: there is none, or it is damaged, which *whole says.
static bool next_metric(trp_json metrics, trp_json *at, trp_arena *arena, troupe_metric *metric,
                        bool *whole)
{
    trp_json name, value;
    *metric = (troupe_metric){0};
    if (!trp_json_next_member(metrics, at, &name, &value))
        return false;
    *whole = trp_json_read(&troupe_type_troupe_text, name, arena, &metric->name) == TROUPE_OK &&
             metric->name != NULL &&
             trp_json_read(&troupe_type_double, value, arena, &metric->value) == TROUPE_OK;
    return *whole;
}

// The name under which a metric is shown: its source in front.
static const char *full_name(const char *source, const char *name, trp_arena *arena)
{
    if (source == NULL || source[0] == '\0')
        return name;
    size_t size = strlen(source) + strlen(name) + 2;
    char *full = trp_arena_alloc(arena, size);
    if (full != NULL)
        snprintf(full, size, "%s/%s", source, name);
    return full != NULL ? full : name;
}

// What the other ranks have reported widens the bands.
static bool take_ranks(trp_facts *facts, trp_json ranks, const char *source, trp_arena *arena)
{
    trp_json rank = {0};
    bool whole = true;
    while (whole && trp_json_next_item(ranks, &rank)) {
        trp_json at = {0};
        troupe_metric it;
        while (next_metric(rank, &at, arena, &it, &whole)) {
            trp_facts_metric *metric = find_metric(facts, full_name(source, it.name, arena));
            if (metric == NULL)
                continue;
            trp_series_widen(&metric->over_reports, facts->reports, it.value);
            trp_series_widen(&metric->over_time, facts->elapsed_s, it.value);
            facts->has_ranks = true;
        }
    }
    return whole;
}

static bool take_report(trp_facts *facts, trp_json line, const line_fields *fields,
                        trp_arena *arena)
{
    trp_json metrics, ranks, at = {0};
    troupe_metric it;
    bool whole = true;
    if (fields->report <= facts->reports || !(fields->elapsed_s <= elapsed_max))
        return false;
    facts->reports = fields->report;
    if (fields->elapsed_s > facts->elapsed_s)
        facts->elapsed_s = fields->elapsed_s;
    if (!trp_json_member(line, "metrics", &metrics))
        return true;
    while (next_metric(metrics, &at, arena, &it, &whole))
        take_value(facts, full_name(fields->source, it.name, arena), it.value);
    if (whole && trp_json_member(line, "ranks", &ranks))
        whole = take_ranks(facts, ranks, fields->source, arena);
    return whole;
}

// Writes the numbers of an array of the line, as many as there is room for.
static void write_numbers(trp_json line, const char *name, trp_arena *arena, char *out,
                          size_t capacity)
{
    trp_json numbers, item = {0};
    size_t used = 0;
    out[0] = '\0';
    if (!trp_json_member(line, name, &numbers))
        return;
    while (trp_json_next_item(numbers, &item)) {
        int number = 0;
        if (trp_json_read(&troupe_type_int, item, arena, &number) != TROUPE_OK)
            return;
        if (used + 20 > capacity) {
            snprintf(out + used, capacity - used, ", ...");
            return;
        }
        used += (size_t)snprintf(out + used, capacity - used, "%s%d", used > 0 ? ", " : "", number);
    }
}

static void copy_field(char *out, size_t capacity, const char *text)
{
    snprintf(out, capacity, "%s", text != NULL ? text : "");
}

static void take_attempt(trp_facts *facts, trp_json line, const line_fields *fields,
                         trp_arena *arena)
{
    trp_facts_attempt *last =
        &facts->attempt_ring[(facts->attempts + TRP_FACTS_ATTEMPTS - 1) % TRP_FACTS_ATTEMPTS];
    bool again = facts->attempts > 0 && last->opening == (int)facts->openings;
    bool restart = again && (!facts->rests || fields->cause.text != NULL);
    trp_facts_attempt *row = &facts->attempt_ring[facts->attempts++ % TRP_FACTS_ATTEMPTS];
    *row = (trp_facts_attempt){.attempt = fields->attempt,
                               .report = fields->report,
                               .reached = facts->reports,
                               .opening = (int)facts->openings,
                               .driver = facts->last_driver,
                               .restart = restart,
                               .anew = again && !restart,
                               .elapsed_s = facts->elapsed_s,
                               .memory = fields->memory,
                               .cause_rank = fields->cause.rank};
    facts->restarts += restart;
    facts->rests = false;
    if (fields->elapsed_s > facts->elapsed_s && fields->elapsed_s <= elapsed_max)
        row->elapsed_s = fields->elapsed_s;
    copy_field(row->at, sizeof row->at, fields->at);
    copy_field(row->checkpoint, sizeof row->checkpoint, fields->checkpoint);
    copy_field(row->cause_status, sizeof row->cause_status, fields->cause.status);
    copy_field(row->cause, sizeof row->cause, fields->cause.text);
    write_numbers(line, "pids", arena, row->pids, sizeof row->pids);
    write_numbers(line, "replaced", arena, row->replaced, sizeof row->replaced);
}

static void take_commit(trp_facts *facts, trp_json line, const line_fields *fields,
                        trp_arena *arena)
{
    const char *metric = facts->run.head.options.keep_metric;
    bool maximize = facts->run.head.options.keep_goal == TROUPE_MAXIMIZE;
    trp_json metrics, value;
    double score = NAN;
    facts->commits++;
    trp_series_add(facts->commits_over_reports, fields->report, 0);
    trp_series_add(facts->commits_over_time, fields->elapsed_s, 0);
    if (metric == NULL || fields->checkpoint == NULL)
        return;
    if (!trp_json_member(line, "metrics", &metrics) || !trp_json_member(metrics, metric, &value) ||
        trp_json_read(&troupe_type_double, value, arena, &score) != TROUPE_OK || isnan(score))
        return;
    double best = facts->best_value;
    if (facts->best_checkpoint[0] != '\0' && (maximize ? score <= best : score >= best))
        return;
    facts->best_value = score;
    copy_field(facts->best_checkpoint, sizeof facts->best_checkpoint, fields->checkpoint);
}

static void take_other(trp_facts *facts, trp_json line)
{
    trp_facts_other *row = &facts->other_ring[facts->others++ % TRP_FACTS_OTHERS];
    bool cut = line.size >= sizeof row->text;
    snprintf(row->text, sizeof row->text, "%.*s%s", (int)(cut ? sizeof row->text - 4 : line.size),
             line.at, cut ? "..." : "");
}

// A state between two groups of an opening is that of one that waits for another group.
static void take_state(trp_facts *facts, const line_fields *fields)
{
    copy_field(facts->state, sizeof facts->state, fields->state);
    bool paused = strcmp(facts->state, "PAUSED") == 0;
    facts->rests |= paused || strcmp(facts->state, "QUEUED") == 0;
    if (paused)
        trp_facts_take_pause(facts);
}

// The member has that name in reports too, where it is an array.
static void take_ranks_wished(trp_facts *facts, trp_json line, trp_arena *arena)
{
    trp_json value;
    int ranks;
    if (trp_json_member(line, "ranks", &value) &&
        trp_json_read(&troupe_type_int, value, arena, &ranks) == TROUPE_OK)
        trp_facts_take_ranks(facts, ranks);
    else
        take_other(facts, line);
}

static void take_wish(trp_facts *facts, trp_json line, const line_fields *fields)
{
    trp_json value;
    if (fields->member != NULL && trp_json_member(line, "value", &value))
        trp_facts_take_wish(facts, fields->revision, fields->member, value);
    else
        take_other(facts, line);
}

static bool take_value_line(trp_facts *facts, trp_json line, trp_arena *arena)
{
    line_fields fields = {.cause = {.rank = -1}};
    if (trp_json_read(&troupe_type_line_fields, line, arena, &fields) != TROUPE_OK ||
        fields.event == NULL)
        return false;
    if (strcmp(fields.event, "report") == 0)
        return take_report(facts, line, &fields, arena);
    if (strcmp(fields.event, "open") == 0) {
        facts->openings++;
        facts->last_driver = fields.process;
        facts->rests = false;
        copy_field(facts->opened_at, sizeof facts->opened_at, fields.at);
    } else if (strcmp(fields.event, "attempt") == 0) {
        take_attempt(facts, line, &fields, arena);
    } else if (strcmp(fields.event, "commit") == 0) {
        take_commit(facts, line, &fields, arena);
    } else if (strcmp(fields.event, "state") == 0) {
        take_state(facts, &fields);
    } else if (strcmp(fields.event, "no_commit") == 0) {
        facts->no_commits++;
    } else if (strcmp(fields.event, "resize") == 0) {
        take_ranks_wished(facts, line, arena);
    } else if (strcmp(fields.event, "modify") == 0) {
        take_wish(facts, line, &fields);
    } else if (strcmp(fields.event, "live") == 0) {
        trp_facts_take_live(facts, fields.revision, fields.report);
    } else if (strcmp(fields.event, "end") != 0) {
        take_other(facts, line);
    }
    return true;
}

void trp_facts_take(trp_facts *facts, const char *line, size_t size)
{
    trp_arena arena = {0};
    trp_json value;
    facts->lines++;
    if (trp_json_parse(line, size, &value) != TROUPE_OK || !take_value_line(facts, value, &arena))
        facts->bad_lines++;
    trp_arena_clear(&arena);
}

// Takes the lines of a piece that are whole; returns how many bytes they have. `skipping`: the
// piece begins within a line that is too long.
static size_t take_lines(trp_facts *facts, const char *text, size_t size, bool *skipping)
{
    size_t at = 0;
    for (const char *end; at < size; at = (size_t)(end - text) + 1) {
        end = memchr(text + at, '\n', size - at);
        if (end == NULL)
            break;
        if (!*skipping && end > text + at)
            trp_facts_take(facts, text + at, (size_t)(end - text) - at);
        *skipping = false;
    }
    if (at == 0 && size == PIECE_BYTES) {
        facts->lines += !*skipping;
        facts->bad_lines += !*skipping;
        *skipping = true;
        return size;
    }
    return at;
}

static troupe_status begin_journal(trp_facts *facts)
{
    trp_arena *arena = &facts->arena;
    facts->attempt_ring = trp_arena_alloc(arena, TRP_FACTS_ATTEMPTS * sizeof *facts->attempt_ring);
    facts->change_ring = trp_arena_alloc(arena, TRP_FACTS_CHANGES * sizeof *facts->change_ring);
    facts->other_ring = trp_arena_alloc(arena, TRP_FACTS_OTHERS * sizeof *facts->other_ring);
    facts->commits_over_reports = trp_arena_alloc(arena, sizeof *facts->commits_over_reports);
    facts->commits_over_time = trp_arena_alloc(arena, sizeof *facts->commits_over_time);
    if (facts->attempt_ring == NULL || facts->change_ring == NULL || facts->other_ring == NULL ||
        facts->commits_over_reports == NULL || facts->commits_over_time == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for what the journal says");
    trp_series_begin(facts->commits_over_reports, 1);
    trp_series_begin(facts->commits_over_time, 1.0 / 1024);
    return TROUPE_OK;
}

// Reads on where the facts end, until `most` bytes more were taken or no more are whole.
static troupe_status read_lines(int fd, size_t most, trp_facts *facts)
{
    char *piece = trp_alloc(PIECE_BYTES);
    size_t done = 0;
    if (piece == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to read the journal of %s", facts->folder);
    while (done < most) {
        ssize_t got = pread(fd, piece, PIECE_BYTES, (off_t)facts->journal_size);
        if (got < 0)
            trp_facts_note(facts, "journal.jsonl cannot be read further: %s", strerror(errno));
        size_t taken = got > 0 ? take_lines(facts, piece, (size_t)got, &facts->skipping) : 0;
        if (taken == 0)
            break;
        facts->journal_size += taken;
        done += taken;
    }
    trp_free(piece);
    return TROUPE_OK;
}

troupe_status trp_facts_more(trp_facts *facts, size_t most, uint64_t *size)
{
    trp_path path;
    struct stat about;
    *size = 0;
    TROUPE_TRY(trp_path_make(&path, "%s/journal.jsonl", facts->folder));
    int fd = open(path.text, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    troupe_status status = TROUPE_OK;
    if (fd < 0) {
        trp_facts_note(facts, "journal.jsonl cannot be read: %s", strerror(errno));
    } else if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        trp_facts_note(facts, "journal.jsonl is no file");
    } else {
        *size = (uint64_t)about.st_size;
        status = read_lines(fd, most, facts);
    }
    if (fd >= 0)
        close(fd);
    return status;
}

// ---- the folder

static void read_options(trp_facts *facts)
{
    // Those that a later library has saved are shown too, so they are read as they are.
    trp_path path;
    unsigned char *data;
    size_t size;
    trp_json document;
    if (trp_path_make(&path, "%s/run.json", facts->folder) != TROUPE_OK ||
        trp_file_read(path.text, &data, &size) != TROUPE_OK)
        return;
    char *copy = trp_arena_alloc(&facts->arena, size + 1);
    if (copy != NULL)
        memcpy(copy, data, size);
    trp_free(data);
    if (copy != NULL && trp_json_parse(copy, size, &document) == TROUPE_OK)
        (void)trp_json_member(document, "options", &facts->options);
}

static troupe_status read_documents(trp_facts *facts)
{
    troupe_status status = trp_run_file_read(facts->folder, &facts->arena, &facts->run);
    if (status == TROUPE_NOT_FOUND)
        return troupe_fail(TROUPE_NOT_FOUND, "%s is not a run's folder: it has no run.json",
                           facts->folder);
    if (status == TROUPE_NO_MEMORY)
        return status;
    facts->has_run = status == TROUPE_OK;
    if (facts->has_run)
        read_options(facts);
    else
        trp_facts_note(facts, "%s", troupe_last_error()->text);
    status = trp_end_file_read(facts->folder, &facts->arena, &facts->end);
    facts->has_end = status == TROUPE_OK;
    if (status != TROUPE_OK && status != TROUPE_NOT_FOUND)
        trp_facts_note(facts, "%s", troupe_last_error()->text);
    return status == TROUPE_NO_MEMORY ? status : TROUPE_OK;
}

static troupe_status find_folder(const char *folder, trp_facts *facts)
{
    trp_path expanded, whole;
    TROUPE_TRY(trp_folder_find(folder, "run's folder", &expanded));
    if (realpath(expanded.text, whole.text) == NULL)
        return trp_fail_errno(TROUPE_IO, "cannot find the run's folder %s", expanded.text);
    facts->folder = trp_facts_copy(facts, whole.text);
    if (facts->folder == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a path");
    facts->name = strrchr(facts->folder, '/') + 1;
    return TROUPE_OK;
}

troupe_status trp_facts_begin(const char *folder, trp_facts *facts)
{
    *facts = (trp_facts){0};
    TROUPE_TRY(find_folder(folder, facts));
    TROUPE_TRY(read_documents(facts));
    facts->driver = trp_alive_driver(facts->folder);
    return begin_journal(facts);
}

troupe_status trp_facts_read(const char *folder, trp_facts *facts)
{
    uint64_t size;
    TROUPE_TRY(trp_facts_begin(folder, facts));
    TROUPE_TRY(trp_facts_more(facts, SIZE_MAX, &size));
    return trp_facts_folders(facts);
}

void trp_facts_free(trp_facts *facts)
{
    trp_arena_clear(&facts->arena);
}
