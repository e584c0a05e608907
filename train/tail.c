// tail.c: see tail.h.
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <runtime/host/file.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <train/checkpoint.h>
#include <train/report_event.h>
#include <train/result.h>
#include <train/retention.h>
#include <train/run_file.h>
#include <train/tail.h>
#include <unistd.h>

// The log file of a rank.
typedef struct rank_tail {
    off_t at;
    int attempt, pid; // Of the lines from there on; attempt -1: none has begun.
} rank_tail;

struct trp_tail {
    char *run;
    trp_port port;
    const char *metric; // That ranks checkpoints; NULL: none.
    troupe_goal goal;
    int expected_reports;
    double time_limit_s;
    int journal; // -1: not there yet.
    off_t at;
    troupe_job_state state;
    int reports, restarts, ranks;
    double elapsed_s;
    trp_retention retention;
    trp_buffer last;   // The line of the last report; empty: none.
    int first_attempt; // Of this job; -1: none has begun.
    rank_tail *logs;
    int log_count;
    trp_log_sink sink; // Held; none: `is` is NULL.
};

trp_tail *trp_tail_open(const char *run, off_t from, const troupe_train_options *options,
                        const trp_port *port)
{
    trp_tail *made = trp_alloc(sizeof *made);
    char *path = made != NULL ? trp_strdup(run) : NULL;
    char *metric = path != NULL && options->keep_metric ? trp_strdup(options->keep_metric) : NULL;
    if (path == NULL || (options->keep_metric != NULL && metric == NULL)) {
        trp_free(path);
        trp_free(made);
        return NULL;
    }
    *made = (trp_tail){.run = path,
                       .port = *port,
                       .metric = metric,
                       .goal = options->keep_goal,
                       .expected_reports = options->expected_reports,
                       .time_limit_s = options->time_limit_s,
                       .journal = -1,
                       .at = from,
                       .ranks = options->ranks > 0 ? options->ranks : 1,
                       .first_attempt = -1};
    made->sink = port->is->logs(port->user);
    if (made->sink.is != NULL) {
        made->sink.is->hold(made->sink.user);
        made->sink.is->begin(made->sink.user);
    }
    return made;
}

static void end_logs(trp_tail *tail)
{
    if (tail->sink.is == NULL)
        return;
    tail->sink.is->end(tail->sink.user);
    tail->sink.is->release(tail->sink.user);
    tail->sink.is = NULL;
}

void trp_tail_close(trp_tail *tail)
{
    if (tail == NULL)
        return;
    end_logs(tail);
    if (tail->journal >= 0)
        close(tail->journal);
    trp_retention_free(&tail->retention);
    trp_buffer_free(&tail->last);
    trp_free(tail->logs);
    trp_free((void *)(uintptr_t)tail->metric);
    trp_free(tail->run);
    trp_free(tail);
}

// ---- what the journal says

TROUPE_STRUCT(tail_line, (troupe_text, event), (troupe_text, state), (int, report), (int, attempt),
              (double, elapsed_s), (troupe_text, checkpoint), (int64_t, revision),
              (troupe_array_int, pids));

troupe_job_state trp_tail_reopened(troupe_job_state last)
{
    if (last == TROUPE_JOB_PAUSED)
        return TROUPE_JOB_QUEUED;
    return last == TROUPE_JOB_RUNNING ? TROUPE_JOB_RESTARTING : last;
}

static void tell_state(trp_tail *tail, troupe_job_state state, trp_lines lines)
{
    if (state == tail->state)
        return;
    tail->state = state;
    tail->restarts += state == TROUPE_JOB_RESTARTING;
    trp_state_change what = {.state = (int)state,
                             .restarts = tail->restarts,
                             .ranks = tail->ranks,
                             .elapsed_s = tail->elapsed_s,
                             .goes_on =
                                 state == TROUPE_JOB_RUNNING || state == TROUPE_JOB_RESTARTING};
    tail->port.is->progress(tail->port.user, &what, lines);
}

static void take_attempt(trp_tail *tail, const tail_line *line)
{
    enum { RANKS_MOST = 4096 };
    trp_console_rank ranks[16] = {0}; // As many as a status has.
    int count = line->pids.count < RANKS_MOST ? (int)line->pids.count : RANKS_MOST;
    if (tail->first_attempt < 0)
        tail->first_attempt = line->attempt;
    tail->elapsed_s = line->elapsed_s;
    if (count == 0)
        return;
    tail->ranks = count;
    int told = count < 16 ? count : 16;
    for (int rank = 0; rank < told; rank++)
        ranks[rank] = (trp_console_rank){.pid = line->pids.items[rank], .local_rank = rank};
    tail->port.is->group(tail->port.user, ranks, told);
}

static const char *checkpoint_path(const trp_tail *tail, const char *name, trp_path *path)
{
    if (name == NULL || trp_path_make(path, "%s/checkpoints/%s", tail->run, name) != TROUPE_OK)
        return NULL;
    return path->text;
}

// With NaN for one that lacks the metric.
static double score_of(const trp_tail *tail, int64_t number, const troupe_report_event *event)
{
    if (tail->metric == NULL)
        return (double)number;
    for (size_t i = 0; i < event->count; i++)
        if (strcmp(event->metrics[i].name, tail->metric) == 0)
            return tail->goal == TROUPE_MAXIMIZE ? event->metrics[i].value
                                                 : -event->metrics[i].value;
    return NAN;
}

static void take_commit(trp_tail *tail, const char *name, const troupe_report_event *event,
                        trp_lines lines)
{
    int64_t number = trp_checkpoint_number(name);
    if (number <= trp_retention_newest(&tail->retention))
        return;
    (void)trp_retention_add(&tail->retention, number, score_of(tail, number, event));
    tail->port.is->checkpoints(tail->port.user, number, trp_retention_best(&tail->retention));
    troupe_checkpoint_event checkpoint = {.number = number,
                                          .report = event->number,
                                          .folder = event->checkpoint,
                                          .metrics = event->metrics,
                                          .count = event->count,
                                          .elapsed_s = event->elapsed_s};
    tail->port.is->checkpoint(tail->port.user, &checkpoint, lines);
}

static troupe_status take_report(trp_tail *tail, trp_json value, const tail_line *line,
                                 trp_arena *arena, trp_lines lines)
{
    trp_path folder;
    troupe_report_event event = {.number = line->report, .elapsed_s = line->elapsed_s};
    TROUPE_TRY(trp_report_event_read(value, arena, &event));
    event.checkpoint = checkpoint_path(tail, line->checkpoint, &folder);
    if (strcmp(line->event, "commit") == 0) {
        if (event.checkpoint != NULL)
            take_commit(tail, line->checkpoint, &event, lines);
        return TROUPE_OK;
    }
    tail->reports = line->report;
    tail->elapsed_s = line->elapsed_s;
    tail->last.size = 0;
    trp_buffer_append(&tail->last, value.at, value.size);
    tail->port.is->report(tail->port.user, line->report, line->elapsed_s, &event, lines);
    return TROUPE_OK;
}

static troupe_status take_line(trp_tail *tail, const char *text, size_t size, trp_arena *arena,
                               trp_lines lines)
{
    trp_json value;
    tail_line line = {0};
    TROUPE_TRY(trp_json_parse(text, size, &value));
    TROUPE_TRY(trp_json_read(&troupe_type_tail_line, value, arena, &line));
    if (line.event == NULL)
        return TROUPE_OK;
    if (strcmp(line.event, "report") == 0 || strcmp(line.event, "commit") == 0)
        return take_report(tail, value, &line, arena, lines);
    if (strcmp(line.event, "state") == 0 && line.state != NULL) {
        tell_state(tail, trp_run_journal_state_of(line.state), lines);
    } else if (strcmp(line.event, "open") == 0) {
        tell_state(tail, trp_tail_reopened(tail->state), lines);
    } else if (strcmp(line.event, "attempt") == 0) {
        take_attempt(tail, &line);
    } else if (strcmp(line.event, "live") == 0) {
        troupe_live_event event = {line.revision, line.report};
        tail->port.is->modified(tail->port.user, &event, lines);
    }
    return TROUPE_OK;
}

static void tell_accepted(trp_tail *tail)
{
    trp_accepted what = {.path = tail->run,
                         .folder = tail->run,
                         .expected_reports = tail->expected_reports,
                         .time_limit_s = tail->time_limit_s,
                         .ranks = tail->ranks,
                         .journal = tail->at};
    tail->port.is->accepted(tail->port.user, &what);
}

static bool open_journal(trp_tail *tail)
{
    trp_path path;
    if (tail->journal >= 0)
        return true;
    if (trp_path_make(&path, "%s/journal.jsonl", tail->run) != TROUPE_OK)
        return false;
    tail->journal = open(path.text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (tail->journal < 0)
        return false;
    tell_accepted(tail);
    return true;
}

// Reads up to `*size` bytes, twice as many where no line ends in them. *end: that of the last whole
// line. NULL: there is none yet.
static char *read_lines(int fd, off_t at, char **end)
{
    enum { PIECE = 64 * 1024, MOST = 64 << 20 };
    for (size_t size = PIECE; size <= MOST; size *= 2) {
        char *text = trp_alloc(size);
        ssize_t got = text != NULL ? pread(fd, text, size, at) : -1;
        *end = got > 0 ? memrchr(text, '\n', (size_t)got) : NULL;
        if (*end != NULL)
            return text;
        trp_free(text);
        if (got < (ssize_t)size)
            break;
    }
    return NULL;
}

static void read_journal(trp_tail *tail)
{
    trp_arena arena = {0};
    char *end, *text;
    if (!open_journal(tail))
        return;
    while ((text = read_lines(tail->journal, tail->at, &end)) != NULL) {
        for (char *at = text, *next; at <= end; at = next + 1) {
            next = memchr(at, '\n', (size_t)(end - at) + 1);
            off_t start = tail->at + (at - text);
            trp_lines lines = {start, start + (next - at) + 1};
            if (next > at) // What cannot be read is left out, as by who opens the run.
                (void)take_line(tail, at, (size_t)(next - at), &arena, lines);
            trp_arena_clear(&arena);
        }
        tail->at += (end - text) + 1;
        trp_free(text);
    }
}

// ---- what ranks print

// A line of the library's own. True: what follows is of that attempt, or *lost lines are not there.
static bool is_own_line(const char *line, size_t size, rank_tail *next, unsigned long long *lost)
{
    int rank, world, whole = 0; // How far a pattern came that fits to its end.
    char text[128];
    *lost = 0;
    if (size < 5 || memcmp(line, "---- ", 5) != 0)
        return false;
    snprintf(text, sizeof text, "%.*s", (int)(size < sizeof text ? size : sizeof text - 1), line);
    rank_tail found;
    if (sscanf(text, "---- attempt %d, rank %d of %d, pid %d, %n", &found.attempt, &rank, &world,
               &found.pid, &whole) == 4 &&
        whole > 0) {
        next->attempt = found.attempt;
        next->pid = found.pid;
        return true;
    }
    unsigned long long count;
    if (sscanf(text, "---- %llu lines are not here: %n", &count, &whole) != 1 || whole == 0)
        return false;
    *lost = count;
    return true;
}

static void tell_piece(trp_tail *tail, int rank, off_t end, uint64_t lost)
{
    const rank_tail *log = &tail->logs[rank];
    trp_log_piece piece = {.rank = rank,
                           .attempt = log->attempt,
                           .pid = log->pid,
                           .at = log->at,
                           .end = end,
                           .lost = lost};
    // Earlier attempts are of an earlier job.
    if ((end > log->at || lost > 0) && log->attempt >= tail->first_attempt)
        tail->sink.is->lines(tail->sink.user, &piece);
}

// Whole lines, which lie where the rank's log was read up to.
static void take_log_lines(trp_tail *tail, int rank, const char *text, size_t size)
{
    rank_tail *log = &tail->logs[rank];
    off_t begin = log->at;
    for (size_t at = 0, next; at < size; at = next) {
        unsigned long long lost;
        rank_tail heads = *log;
        next = (size_t)((const char *)memchr(text + at, '\n', size - at) - text) + 1;
        if (!is_own_line(text + at, next - at, &heads, &lost))
            continue;
        tell_piece(tail, rank, begin + (off_t)at, lost);
        log->attempt = heads.attempt;
        log->pid = heads.pid;
        log->at = begin + (off_t)next;
    }
    tell_piece(tail, rank, begin + (off_t)size, 0);
    log->at = begin + (off_t)size;
}

static void read_log(trp_tail *tail, int rank, int fd)
{
    char *end, *text;
    while ((text = read_lines(fd, tail->logs[rank].at, &end)) != NULL) {
        take_log_lines(tail, rank, text, (size_t)(end - text) + 1);
        trp_free(text);
    }
}

// The ranks that there have been are those with a file.
static void read_logs(trp_tail *tail)
{
    trp_path path;
    if (tail->sink.is == NULL || tail->first_attempt < 0)
        return;
    for (int rank = 0;; rank++) {
        if (trp_path_make(&path, "%s/log/rank_%05d.log", tail->run, rank) != TROUPE_OK)
            return;
        int fd = open(path.text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0 && rank >= tail->ranks)
            return;
        if (rank >= tail->log_count) {
            rank_tail *more = trp_realloc(tail->logs, (size_t)(rank + 1) * sizeof *more);
            if (more == NULL && fd >= 0)
                close(fd);
            if (more == NULL)
                return;
            tail->logs = more;
            tail->logs[rank] = (rank_tail){.attempt = -1};
            tail->log_count = rank + 1;
        }
        if (fd >= 0) {
            read_log(tail, rank, fd);
            close(fd);
        }
    }
}

void trp_tail_read(trp_tail *tail)
{
    read_journal(tail);
    read_logs(tail);
}

// ---- the end

// The line of the run's last report, where this job has made none.
static void find_last(trp_tail *tail)
{
    static const char begins[] = "{\"event\": \"report\"";
    char *end, *text;
    off_t at = 0;
    if (tail->last.size > 0 || tail->journal < 0)
        return;
    while (at < tail->at && (text = read_lines(tail->journal, at, &end)) != NULL) {
        for (char *line = text, *next; line <= end; line = next + 1) {
            next = memchr(line, '\n', (size_t)(end - line) + 1);
            if (strncmp(line, begins, sizeof begins - 1) == 0) {
                tail->last.size = 0;
                trp_buffer_append(&tail->last, line, (size_t)(next - line));
            }
        }
        at += (end - text) + 1;
        trp_free(text);
    }
}

static void take_metrics(trp_tail *tail, trp_arena *arena, trp_outcome *outcome)
{
    trp_json value;
    troupe_report_event event = {0};
    find_last(tail);
    trp_metric *metrics = trp_arena_alloc(arena, TRP_METRICS_MAX * sizeof *metrics);
    if (metrics == NULL || tail->last.size == 0 || tail->last.failed ||
        trp_json_parse((const char *)tail->last.data, tail->last.size, &value) != TROUPE_OK ||
        trp_report_event_read(value, arena, &event) != TROUPE_OK)
        return;
    size_t count = event.count < TRP_METRICS_MAX ? event.count : TRP_METRICS_MAX;
    for (size_t i = 0; i < count; i++)
        metrics[i] = (trp_metric){event.metrics[i].name, event.metrics[i].value};
    outcome->metrics.items = metrics;
    outcome->metrics.count = count;
}

static const char *checkpoint_of(const trp_tail *tail, const char *name, int64_t number,
                                 trp_path *path)
{
    if (name != NULL)
        return checkpoint_path(tail, name, path);
    if (number < 0 || trp_checkpoint_folder(tail->run, number, path) != TROUPE_OK)
        return NULL;
    return path->text;
}

void trp_tail_end(trp_tail *tail, const trp_job_end *end)
{
    trp_arena arena = {0};
    trp_path newest, best;
    trp_end_file file;
    trp_tail_read(tail);
    end_logs(tail);
    // What a job that was killed by the server did is known from the journal alone.
    if (trp_end_file_read(tail->run, &arena, &file) != TROUPE_OK ||
        (file.status != NULL &&
         strcmp(file.status, trp_status_word((troupe_status)end->status)) != 0))
        file = (trp_end_file){.elapsed_s = tail->elapsed_s};
    trp_outcome outcome = {
        .status = end->status,
        .error = end->error != NULL ? end->error : "",
        .cause = file.cause,
        .stopped = end->stopped,
        .reports = end->reports > 0 ? end->reports : tail->reports,
        .restarts = end->restarts > tail->restarts ? end->restarts : tail->restarts,
        .checkpoint =
            checkpoint_of(tail, file.checkpoint, trp_retention_newest(&tail->retention), &newest),
        .best = checkpoint_of(tail, file.best, trp_retention_best(&tail->retention), &best),
        .path = tail->run,
        .elapsed_s = file.elapsed_s,
        .value = file.value,
        .value_schema = file.value_schema,
        .loop_s = file.elapsed_s,
    };
    take_metrics(tail, &arena, &outcome);
    tail->port.is->done(tail->port.user, &outcome);
    trp_arena_clear(&arena);
    trp_error_forget();
}
