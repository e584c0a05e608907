// run_journal.c: see run_journal.h.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <runtime/host/file.h>
#include <runtime/host/folder.h>
#include <stdlib.h>
#include <string.h>
#include <train/checkpoint.h>
#include <train/report_event.h>
#include <train/run_file.h>
#include <train/run_journal.h>
#include <train/storage.h>
#include <unistd.h>

// Of all kinds of lines together.
TROUPE_STRUCT(journal_line, (troupe_text, event), (int64_t, epoch), (int, attempt), (int, report),
              (double, elapsed_s), (troupe_text, checkpoint), (int64_t, revision),
              (troupe_text, member), (int64_t, wish));

// ---- reading

static char *copy_of(trp_arena *arena, const char *text, size_t size)
{
    char *copy = trp_arena_alloc(arena, size + 1);
    if (copy != NULL) {
        memcpy(copy, text, size);
        copy[size] = '\0';
    }
    return copy;
}

// Of each member the last wish is kept.
static troupe_status keep_wish(trp_json text, const journal_line *line, trp_arena *arena,
                               trp_run_history *history)
{
    trp_json value;
    if (line->member == NULL || line->revision < 1 || line->revision > UINT32_MAX ||
        !trp_json_member(text, "value", &value))
        return troupe_fail(TROUPE_MALFORMED, "a modify without member, revision or value");
    trp_run_wish *wish = history->wishes;
    while (wish != NULL && strcmp(wish->member, line->member) != 0)
        wish = wish->next;
    bool is_new = wish == NULL;
    if (is_new)
        wish = trp_arena_alloc(arena, sizeof *wish);
    const char *member = copy_of(arena, line->member, strlen(line->member));
    const char *copy = copy_of(arena, value.at, value.size);
    if (wish == NULL || member == NULL || copy == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for what a run was modified to");
    *wish = (trp_run_wish){is_new ? history->wishes : wish->next, line->revision, member, copy};
    if (is_new)
        history->wishes = wish;
    if (line->revision > history->revision)
        history->revision = line->revision;
    if (line->wish > history->wish)
        history->wish = line->wish;
    return TROUPE_OK;
}

static int64_t id_of(const char *checkpoint)
{
    return checkpoint != NULL ? trp_checkpoint_number(checkpoint) : -1;
}

// Takes one line into the history, whose memory is of `arena`; `last` keeps the line of the highest
// report.
static troupe_status replay_line(const char *text, size_t size, trp_arena *arena,
                                 trp_arena *scratch, trp_run_history *history, trp_json *last)
{
    trp_json value;
    journal_line line = {.attempt = -1};
    TROUPE_TRY(trp_json_parse(text, size, &value));
    TROUPE_TRY(trp_json_read(&troupe_type_journal_line, value, scratch, &line));
    if (line.event == NULL)
        return troupe_fail(TROUPE_MALFORMED, "it names no event");
    if (line.epoch > history->epoch)
        history->epoch = line.epoch;
    if (line.attempt >= history->attempts)
        history->attempts = line.attempt + 1;
    if (id_of(line.checkpoint) >= history->next_id)
        history->next_id = id_of(line.checkpoint) + 1;
    if (strcmp(line.event, "report") == 0 && line.report >= history->reports) {
        history->reports = line.report;
        history->elapsed_s = line.elapsed_s;
        *last = value;
    }
    return strcmp(line.event, "modify") == 0 ? keep_wish(value, &line, arena, history) : TROUPE_OK;
}

// Reads all whole lines; *whole says where they end.
static troupe_status replay(const char *path, const char *text, size_t size, trp_arena *arena,
                            trp_run_history *history, size_t *whole)
{
    trp_arena scratch = {0};
    trp_json last = {0};
    size_t number = 0, bad = 0;
    troupe_status status = TROUPE_OK;
    *whole = 0;
    for (const char *end; status == TROUPE_OK && *whole < size; *whole = (size_t)(end - text) + 1) {
        const char *at = text + *whole;
        end = memchr(at, '\n', size - *whole);
        if (end == NULL)
            break;
        number++;
        if (end > at)
            status = replay_line(at, (size_t)(end - at), arena, &scratch, history, &last);
        if (status != TROUPE_OK && status != TROUPE_NO_MEMORY) {
            if (bad++ == 0)
                trp_log(TRP_WARN, "line %zu of %s cannot be read and is left out: %s", number, path,
                        troupe_last_error()->text);
            status = TROUPE_OK;
        }
        trp_arena_clear(&scratch);
    }
    troupe_report_event highest;
    if (status == TROUPE_OK && last.size > 0) {
        status = trp_report_event_read(last, arena, &highest);
        history->metrics = highest.metrics;
        history->metric_count = highest.count;
    }
    return status;
}

trp_run_journal trp_run_journal_none(void)
{
    return (trp_run_journal){.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};
}

static troupe_status open_file(const char *path, size_t size, size_t whole,
                               trp_run_journal *journal)
{
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, trp_file_mode());
    if (fd < 0)
        return trp_fail_errno(TROUPE_IO, "cannot open %s", path);
    if (whole < size && ftruncate(fd, (off_t)whole) != 0) {
        troupe_status status = trp_fail_errno(TROUPE_IO, "cannot cut %s", path);
        close(fd);
        return status;
    }
    journal->fd = fd;
    journal->size = (off_t)whole;
    return TROUPE_OK;
}

// What is stored elsewhere is what counts.
static troupe_status open_copy(const char *path, const char *local, const unsigned char *data,
                               size_t size, trp_arena *arena, trp_run_journal *journal)
{
    trp_path copy;
    size_t length = strlen(path) + 1;
    char *stored_at = trp_arena_alloc(arena, length);
    if (stored_at == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the path of a journal");
    TROUPE_TRY(trp_path_join(&copy, local, "journal.jsonl"));
    TROUPE_TRY(trp_file_write(copy.text, &(trp_piece){data, size}, 1));
    TROUPE_TRY(open_file(copy.text, size, size, journal));
    journal->stored_at = memcpy(stored_at, path, length);
    journal->stored = (off_t)size;
    return TROUPE_OK;
}

// Makes the journal of a run in local files that has none. False: it may have one.
static bool make_file(const char *path, trp_run_journal *journal)
{
    journal->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, trp_file_mode());
    return journal->fd >= 0;
}

troupe_status trp_run_journal_open(const char *run, const char *local, trp_arena *arena,
                                   trp_run_history *history, trp_run_journal *journal)
{
    trp_path path;
    unsigned char *data = NULL;
    size_t size = 0, whole = 0;
    *history = (trp_run_history){0};
    *journal = trp_run_journal_none();
    TROUPE_TRY(trp_path_join(&path, run, "journal.jsonl"));
    if (trp_path_is_local(run) && make_file(path.text, journal))
        return TROUPE_OK;
    troupe_status status = trp_storage_read(path.text, &data, &size);
    if (status == TROUPE_OK)
        status = replay(path.text, (const char *)data, size, arena, history, &whole);
    else if (status == TROUPE_NOT_FOUND)
        status = TROUPE_OK;
    if (status == TROUPE_OK)
        status = trp_path_is_local(run) ? open_file(path.text, size, whole, journal)
                                        : open_copy(path.text, local, data, whole, arena, journal);
    trp_free(data);
    return status;
}

// ---- writing

static bool write_whole(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t written = write(fd, data, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return false;
        data += written;
        size -= (size_t)written;
    }
    return true;
}

static void tell(trp_run_journal *journal, const char *why)
{
    if (!journal->told)
        trp_log(TRP_WARN, "a run's journal.jsonl cannot be written: %s", why);
    journal->told = true;
}

// Adds to what is stored elsewhere all that it lacks.
static void store(trp_run_journal *journal)
{
    enum { PIECE = 64 * 1024 };
    troupe_status status = TROUPE_OK;
    char *piece = journal->stored_at && journal->stored < journal->size ? trp_alloc(PIECE) : NULL;
    while (piece != NULL && status == TROUPE_OK && journal->stored < journal->size) {
        off_t left = journal->size - journal->stored;
        ssize_t got =
            pread(journal->fd, piece, left < PIECE ? (size_t)left : PIECE, journal->stored);
        status = got > 0 ? trp_storage_append(journal->stored_at, (uint64_t)journal->stored, piece,
                                              (size_t)got)
                         : trp_fail_errno(TROUPE_IO, "its local copy cannot be read");
        if (status == TROUPE_OK)
            journal->stored += got;
    }
    trp_free(piece);
    if (status != TROUPE_OK)
        tell(journal, troupe_last_error()->text);
}

// With the lock.
static bool add(trp_run_journal *journal, const trp_buffer *line)
{
    if (journal->fd < 0)
        return false;
    if (line->failed) {
        tell(journal, strerror(ENOMEM));
        return false;
    }
    bool whole = (!journal->torn || write_whole(journal->fd, "\n", 1)) &&
                 write_whole(journal->fd, (const char *)line->data, line->size);
    if (whole) {
        journal->size += (off_t)(line->size + journal->torn);
        journal->torn = false;
        store(journal);
        return true;
    }
    tell(journal, strerror(errno));
    journal->torn = ftruncate(journal->fd, journal->size) != 0;
    return false;
}

trp_lines trp_run_journal_add(trp_run_journal *journal, const trp_buffer *line)
{
    pthread_mutex_lock(&journal->lock);
    trp_lines lines = {journal->size, journal->size};
    if (add(journal, line))
        lines.end = journal->size;
    pthread_mutex_unlock(&journal->lock);
    return lines;
}

off_t trp_run_journal_end_at(trp_run_journal *journal)
{
    pthread_mutex_lock(&journal->lock);
    off_t end = journal->size;
    pthread_mutex_unlock(&journal->lock);
    return end;
}

// The same of a line that counts only if it is stored where the run is.
static bool add_stored(trp_run_journal *journal, const trp_buffer *line)
{
    pthread_mutex_lock(&journal->lock);
    off_t before = journal->size;
    bool added = add(journal, line);
    if (added && journal->stored_at != NULL && journal->stored <= before) {
        journal->size = before;
        journal->torn = ftruncate(journal->fd, before) != 0;
        added = false;
    }
    pthread_mutex_unlock(&journal->lock);
    return added;
}

bool trp_run_journal_is_open(trp_run_journal *journal)
{
    pthread_mutex_lock(&journal->lock);
    bool is_open = journal->fd >= 0;
    pthread_mutex_unlock(&journal->lock);
    return is_open;
}

void trp_run_journal_sync(trp_run_journal *journal)
{
    pthread_mutex_lock(&journal->lock);
    int fd = journal->fd; // Who syncs it is who closes it.
    if (fd >= 0)
        store(journal);
    pthread_mutex_unlock(&journal->lock); // Nobody who adds a line waits for the disk.
    if (fd < 0)
        return;
    bool failed = journal->stored_at != NULL ? trp_storage_sync(journal->stored_at) != TROUPE_OK
                                             : trp_file_refuses("fsync") || fdatasync(fd) != 0;
    const char *why = journal->stored_at != NULL ? troupe_last_error()->text : strerror(errno);
    pthread_mutex_lock(&journal->lock);
    if (failed)
        tell(journal, why);
    pthread_mutex_unlock(&journal->lock);
}

void trp_run_journal_close(trp_run_journal *journal)
{
    pthread_mutex_lock(&journal->lock);
    if (journal->fd >= 0)
        close(journal->fd);
    journal->fd = -1;
    pthread_mutex_unlock(&journal->lock);
}

// ---- the lines

static trp_lines add_and_free(trp_run_journal *journal, trp_buffer *line)
{
    trp_buffer_append(line, "}\n", 2);
    trp_lines lines = trp_run_journal_add(journal, line);
    trp_buffer_free(line);
    return lines;
}

static void write_name(trp_buffer *out, const char *checkpoint)
{
    const char *name = checkpoint != NULL ? strrchr(checkpoint, '/') : NULL;
    trp_buffer_printf(out, ", \"checkpoint\": ");
    trp_json_text(out, name != NULL ? name + 1 : checkpoint);
}

void trp_run_journal_opened(trp_run_journal *journal, int64_t epoch)
{
    trp_buffer line = {0};
    trp_buffer_printf(&line,
                      "{\"event\": \"open\", \"epoch\": %" PRId64 ", \"at\": \"%s\", "
                      "\"process\": %d",
                      epoch, trp_time_now().text, (int)getpid());
    (void)add_and_free(journal, &line);
}

static const char *const state_names[] = {"QUEUED", "RUNNING", "RESTARTING", "DONE", "PAUSED"};

troupe_job_state trp_run_journal_state_of(const char *name)
{
    for (size_t i = 0; i < sizeof state_names / sizeof *state_names; i++)
        if (strcmp(name, state_names[i]) == 0)
            return (troupe_job_state)i;
    return TROUPE_JOB_RUNNING;
}

trp_lines trp_run_journal_state(trp_run_journal *journal, troupe_job_state state)
{
    trp_buffer line = {0};
    trp_buffer_printf(&line, "{\"event\": \"state\", \"state\": \"%s\"", state_names[state]);
    return add_and_free(journal, &line);
}

void trp_run_journal_resize(trp_run_journal *journal, int ranks)
{
    trp_buffer line = {0};
    trp_buffer_printf(&line, "{\"event\": \"resize\", \"ranks\": %d", ranks);
    (void)add_and_free(journal, &line);
}

static void write_replaced(trp_buffer *out, const trp_attempt_event *event)
{
    const char *comma = "";
    trp_buffer_printf(out, ", \"memory\": %s", event->memory ? "true" : "false");
    if (event->kept == NULL)
        return;
    trp_buffer_printf(out, ", \"replaced\": [");
    for (int rank = 0; rank < event->ranks; rank++) {
        if (event->kept[rank])
            continue;
        trp_buffer_printf(out, "%s%d", comma, rank);
        comma = ", ";
    }
    trp_buffer_append(out, "]", 1);
}

void trp_run_journal_attempt(trp_run_journal *journal, const trp_attempt_event *event)
{
    trp_buffer line = {0};
    trp_buffer_printf(&line,
                      "{\"event\": \"attempt\", \"attempt\": %d, \"report\": %d, "
                      "\"at\": \"%s\", \"elapsed_s\": %.6f",
                      event->attempt, event->report, trp_time_now().text, event->elapsed_s);
    for (int rank = 0; event->pids != NULL && rank < event->ranks; rank++)
        trp_buffer_printf(&line, rank == 0 ? ", \"pids\": [%d" : ", %d", event->pids[rank]);
    trp_buffer_append(&line, "]", event->pids != NULL && event->ranks > 0);
    write_replaced(&line, event);
    if (event->cause != NULL) {
        trp_buffer_printf(&line, ", \"cause\": {\"rank\": %d, \"status\": \"%s\", \"text\": ",
                          event->cause_rank, trp_status_word(event->cause_status));
        trp_json_text(&line, event->cause);
        trp_buffer_append(&line, "}", 1);
    }
    write_name(&line, event->checkpoint);
    (void)add_and_free(journal, &line);
}

void trp_run_journal_report_line(const troupe_report_event *event, int attempt, bool saving,
                                 trp_buffer *out)
{
    enum { SECOND_US = 1000000 };
    // Integers are printed in a fraction of the time; it is never negative.
    int64_t us = (int64_t)(event->elapsed_s * SECOND_US + 0.5);
    trp_buffer_printf(out,
                      "{\"event\": \"report\", \"report\": %d, \"attempt\": %d, "
                      "\"elapsed_s\": %" PRId64 ".%06" PRId64 ", ",
                      event->number, attempt, us / SECOND_US, us % SECOND_US);
    trp_report_event_write(event, out);
    trp_buffer_printf(out, "%s", saving ? ", \"saving\": true" : "");
    write_name(out, event->checkpoint);
    trp_buffer_append(out, "}\n", 2);
}

trp_lines trp_run_journal_report(trp_run_journal *journal, const troupe_report_event *event,
                                 int attempt, bool saving)
{
    trp_buffer line = {0};
    trp_run_journal_report_line(event, attempt, saving, &line);
    trp_lines lines = trp_run_journal_add(journal, &line);
    trp_buffer_free(&line);
    return lines;
}

void trp_run_journal_no_commit(trp_run_journal *journal, int report)
{
    trp_buffer line = {0};
    trp_buffer_printf(&line, "{\"event\": \"no_commit\", \"report\": %d", report);
    (void)add_and_free(journal, &line);
}

trp_lines trp_run_journal_commit(trp_run_journal *journal, const troupe_checkpoint_event *event)
{
    trp_buffer line = {0};
    const troupe_report_event report = {.metrics = event->metrics, .count = event->count};
    trp_buffer_printf(&line, "{\"event\": \"commit\", \"report\": %d, \"elapsed_s\": %.6f, ",
                      event->report, event->elapsed_s);
    trp_report_event_write(&report, &line);
    write_name(&line, event->folder);
    return add_and_free(journal, &line);
}

bool trp_run_journal_modify(trp_run_journal *journal, uint32_t revision, const char *member,
                            const trp_buffer *value, int64_t wish)
{
    trp_buffer line = {0};
    trp_buffer_printf(&line,
                      "{\"event\": \"modify\", \"revision\": %" PRIu32 ", \"member\": ", revision);
    trp_json_text(&line, member);
    trp_buffer_printf(&line, ", \"value\": ");
    trp_buffer_append(&line, value->data, value->size);
    line.failed |= value->failed;
    if (wish > 0)
        trp_buffer_printf(&line, ", \"wish\": %" PRId64, wish);
    trp_buffer_append(&line, "}\n", 2);
    bool added = add_stored(journal, &line);
    trp_buffer_free(&line);
    return added;
}

trp_lines trp_run_journal_live(trp_run_journal *journal, uint32_t revision, int report)
{
    trp_buffer line = {0};
    trp_buffer_printf(&line, "{\"event\": \"live\", \"revision\": %" PRIu32 ", \"report\": %d",
                      revision, report);
    return add_and_free(journal, &line);
}

bool trp_run_journal_end_whole(trp_run_journal *journal, const trp_end_file *end)
{
    trp_buffer text = {0}, line = {0};
    trp_end_file_text(end, &text);
    trp_buffer_printf(&line, "{\"event\": \"end\", ");
    if (!text.failed)
        trp_buffer_append(&line, text.data + 1, text.size - 1); // Behind the object's beginning.
    trp_buffer_append(&line, "\n", 1);
    bool fits = !text.failed && !line.failed && line.size <= TRP_END_LINE_MAX;
    trp_lines lines = {0};
    if (fits)
        lines = trp_run_journal_add(journal, &line);
    trp_buffer_free(&text);
    trp_buffer_free(&line);
    return lines.end > lines.start;
}

void trp_run_journal_end(trp_run_journal *journal, troupe_status status, bool stopped)
{
    trp_buffer line = {0};
    trp_buffer_printf(&line, "{\"event\": \"end\", \"status\": \"%s\", \"stopped\": %s",
                      trp_status_word(status), stopped ? "true" : "false");
    (void)add_and_free(journal, &line);
}
