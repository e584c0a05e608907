// run_left.c: what a run that no driver has open has left in its folder, for who is to open it
// next.
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <runtime/base/require.h>
#include <string.h>
#include <sys/stat.h>
#include <train/checkpoint.h>
#include <train/report_event.h>
#include <train/result.h>
#include <train/retention.h>
#include <train/run_file.h>
#include <train/run_journal.h>
#include <train/storage.h>
#include <unistd.h>

TROUPE_STRUCT(left_line, (troupe_text, event), (int, report), (double, elapsed_s),
              (troupe_text, checkpoint), (troupe_text, state), (bool, saving));

// ---- the journal

typedef struct reading {
    const char *run;
    const troupe_follower *follower; // NULL: none.
    trp_arena *arena;                // Of what is told.
    trp_arena scratch;
    bool paused;
    int reports, saved, saving; // The last: 0: none is.
    double elapsed_s;
    trp_json last; // The line of the highest report.
} reading;

static troupe_status tell(const reading *it, const left_line *line, trp_json value,
                          trp_arena *arena)
{
    const troupe_follower *to = it->follower;
    troupe_report_event event = {.number = line->report, .elapsed_s = line->elapsed_s};
    trp_path folder;
    TROUPE_TRY(trp_report_event_read(value, arena, &event));
    if (line->checkpoint != NULL) {
        TROUPE_TRY(trp_path_make(&folder, "%s/checkpoints/%s", it->run, line->checkpoint));
        event.checkpoint = folder.text;
    }
    if (strcmp(line->event, "report") == 0) {
        if (to->report != NULL)
            to->report(to->user, NULL, &event);
        return TROUPE_OK;
    }
    const troupe_checkpoint_event commit = {.number = trp_checkpoint_number(line->checkpoint),
                                            .report = event.number,
                                            .folder = event.checkpoint,
                                            .metrics = event.metrics,
                                            .count = event.count,
                                            .elapsed_s = event.elapsed_s};
    if (to->checkpoint != NULL)
        to->checkpoint(to->user, NULL, &commit);
    return TROUPE_OK;
}

static troupe_status take_line(reading *it, const char *text, size_t size)
{
    trp_json value;
    left_line line = {0};
    TROUPE_TRY(trp_json_parse(text, size, &value));
    TROUPE_TRY(trp_json_read(&troupe_type_left_line, value, &it->scratch, &line));
    if (line.event != NULL && strcmp(line.event, "open") == 0)
        it->paused = false;
    if (line.event != NULL && strcmp(line.event, "state") == 0 && line.state != NULL)
        it->paused = trp_run_journal_state_of(line.state) == TROUPE_JOB_PAUSED;
    bool reports = line.event != NULL && strcmp(line.event, "report") == 0;
    bool commits =
        line.event != NULL && strcmp(line.event, "commit") == 0 && line.checkpoint != NULL;
    if (reports && line.report >= it->reports) {
        it->reports = line.report;
        it->elapsed_s = line.elapsed_s;
        it->last = value;
    }
    bool fails = line.event != NULL && strcmp(line.event, "no_commit") == 0;
    if (reports && line.saving)
        it->saving = line.report;
    else if ((commits || fails) && line.report >= it->saving)
        it->saving = 0;
    if ((reports || commits) && line.checkpoint != NULL && line.report > it->saved)
        it->saved = line.report;
    return it->follower != NULL && (reports || commits) ? tell(it, &line, value, &it->scratch)
                                                        : TROUPE_OK;
}

// A last line without its end was never written; another that cannot be read is left out, as where
// the run goes on.
static troupe_status take_journal(reading *it, const char *text, size_t size)
{
    const char *end;
    for (size_t at = 0; at < size; at = (size_t)(end - text) + 1) {
        troupe_status status = TROUPE_OK;
        end = memchr(text + at, '\n', size - at);
        if (end == NULL)
            break;
        if (end > text + at)
            status = take_line(it, text + at, (size_t)(end - text) - at);
        trp_arena_clear(&it->scratch);
        if (status == TROUPE_NO_MEMORY)
            return status;
    }
    return TROUPE_OK;
}

// ---- the result

// What makes the checkpoint good: more is better.
static double score_of(const trp_manifest *manifest, const trp_saved_options *options)
{
    if (options->keep_metric == NULL)
        return (double)manifest->id;
    for (size_t i = 0; i < manifest->metrics.count; i++) {
        const trp_metric *metric = &manifest->metrics.items[i];
        if (strcmp(metric->name, options->keep_metric) == 0)
            return options->keep_goal == TROUPE_MAXIMIZE ? metric->value : -metric->value;
    }
    return (double)NAN;
}

static troupe_status name_checkpoint(const char *run, int64_t id, troupe_result *result,
                                     const char **to)
{
    trp_path folder;
    if (id < 0)
        return TROUPE_OK;
    TROUPE_TRY(trp_checkpoint_folder(run, id, &folder));
    *to = trp_job_result_text(result, folder.text);
    return *to != NULL ? TROUPE_OK : troupe_fail(TROUPE_NO_MEMORY, "no memory for a result");
}

static troupe_status find_checkpoints(const char *run, const trp_saved_options *options,
                                      troupe_run_left *left)
{
    troupe_result *result = left->result;
    trp_retention found = {0};
    int64_t *ids = NULL;
    size_t count = 0;
    troupe_status status = trp_checkpoint_list(run, &ids, &count);
    for (size_t i = 0; i < count && status == TROUPE_OK; i++) {
        trp_arena arena = {0};
        trp_manifest manifest;
        trp_path folder;
        status = trp_checkpoint_folder(run, ids[i], &folder);
        if (status == TROUPE_OK &&
            trp_checkpoint_read(folder.text, &arena, &manifest) == TROUPE_OK) {
            status = trp_retention_add(&found, ids[i], score_of(&manifest, options));
            left->saved = manifest.report;
        }
        trp_arena_clear(&arena);
    }
    status = status == TROUPE_NOT_FOUND ? TROUPE_OK : status;
    if (status == TROUPE_OK)
        status = name_checkpoint(run, trp_retention_newest(&found), result, &result->checkpoint);
    if (status == TROUPE_OK)
        status = name_checkpoint(run, trp_retention_best(&found), result, &result->best);
    trp_retention_free(&found);
    trp_free(ids);
    return status;
}

static troupe_status take_name(const char *run, const char *name, troupe_result *result,
                               const char **to)
{
    return name != NULL ? name_checkpoint(run, trp_checkpoint_number(name), result, to) : TROUPE_OK;
}

static troupe_status take_end(const char *run, const trp_end_file *end, troupe_result *result)
{
    result->status = trp_status_of_word(end->status);
    result->stopped = end->stopped;
    result->reports = end->reports;
    result->restarts = end->restarts;
    result->elapsed_s = end->elapsed_s;
    if (end->error != NULL)
        result->error = trp_job_result_text(result, end->error);
    if (end->cause != NULL)
        result->cause = trp_job_result_text(result, end->cause);
    if (result->error == NULL || (result->cause == NULL && end->cause != NULL))
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a result");
    TROUPE_TRY(trp_job_result_value(result, end->value.data, end->value.size, end->value_schema));
    TROUPE_TRY(take_name(run, end->checkpoint, result, &result->checkpoint));
    return take_name(run, end->best, result, &result->best);
}

// ---- the folder

// The last whole lines of a file, of about so many bytes.
static troupe_status read_tail(const char *path, unsigned char **text, size_t *size)
{
    enum { TAIL = 64 * 1024 };
    struct stat is;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? troupe_fail(TROUPE_NOT_FOUND, "%s is not there", path)
                               : trp_fail_errno(TROUPE_IO, "%s cannot be opened", path);
    unsigned char *tail = trp_alloc(TAIL);
    off_t from = fstat(fd, &is) == 0 && is.st_size > TAIL ? is.st_size - TAIL : 0;
    ssize_t got = tail != NULL ? pread(fd, tail, TAIL, from) : 0;
    close(fd);
    if (tail == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the end of %s", path);
    if (got < 0)
        got = 0; // It says nothing, then.
    unsigned char *whole = from > 0 ? memchr(tail, '\n', (size_t)got) : NULL;
    size_t skipped = whole != NULL ? (size_t)(whole + 1 - tail) : 0;
    memmove(tail, tail + skipped, (size_t)got - skipped);
    *text = tail;
    *size = (size_t)got - skipped;
    return TROUPE_OK;
}

static troupe_status read_journal(reading *it, bool whole, troupe_run_left *left)
{
    trp_path path;
    unsigned char *text = NULL;
    size_t size = 0;
    TROUPE_TRY(trp_path_make(&path, "%s/journal.jsonl", it->run));
    troupe_status status =
        whole ? trp_storage_read(path.text, &text, &size) : read_tail(path.text, &text, &size);
    if (status == TROUPE_OK)
        status = take_journal(it, (const char *)text, size);
    troupe_report_event highest = {0};
    if (status == TROUPE_OK && it->last.size > 0)
        status = trp_report_event_read(it->last, it->arena, &highest);
    if (status == TROUPE_OK)
        status = trp_job_result_metrics(left->result, highest.metrics, highest.count);
    trp_free(text);
    return status == TROUPE_NOT_FOUND ? TROUPE_OK : status;
}

static const char *text_of(trp_json value, trp_arena *arena)
{
    char *copy = trp_arena_alloc(arena, value.size + 1);
    return copy != NULL ? memcpy(copy, value.at, value.size) : NULL; // Its end is zero.
}

static troupe_status read_run(reading *it, troupe_run_left *left)
{
    trp_run_file file = {0};
    trp_end_file end = {0};
    TROUPE_TRY(trp_run_file_read(it->run, it->arena, &file));
    troupe_status status = trp_end_file_read(it->run, it->arena, &end);
    left->ended = status == TROUPE_OK;
    // One that is damaged is as none to who opens the run.
    if (!left->ended && status != TROUPE_NOT_FOUND && status != TROUPE_CORRUPT)
        return status;
    left->config = text_of(file.config, it->arena);
    left->result = trp_result_make(it->run);
    if (left->result == NULL || left->config == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a result");
    TROUPE_TRY(read_journal(it, !left->ended || it->follower != NULL, left));
    left->from = file.head.from;
    left->reports = it->reports;
    left->saved = it->saved;
    left->paused = it->paused;
    left->result->status = TROUPE_OK;
    left->result->reports = it->reports;
    left->result->elapsed_s = it->elapsed_s;
    TROUPE_TRY(left->ended ? take_end(it->run, &end, left->result)
                           : find_checkpoints(it->run, &file.head.options, left));
    left->checkpoint = left->result->checkpoint;
    left->saving = !left->ended && it->saving > left->saved; // Its line may be missing.
    return TROUPE_OK;
}

troupe_status(troupe_run_left_get)(const char *folder, const troupe_follower *follower,
                                   troupe_run_left *left, size_t size)
{
    troupe_follower follows;
    troupe_run_left found = {0};
    TRP_REQUIRE(folder);
    TRP_REQUIRE(left);
    TROUPE_TRY(TRP_OPTIONS_TAKE("a follower", follows, follower));
    reading it = {.run = folder,
                  .follower = follower != NULL ? &follows : NULL,
                  .arena = trp_arena_current()};
    troupe_status status = read_run(&it, &found);
    trp_arena_clear(&it.scratch);
    if (status != TROUPE_OK)
        troupe_result_free(&found.result);
    trp_output_give(left, size, &found, status == TROUPE_OK ? sizeof found : 0);
    return trp_error_settled(status);
}
