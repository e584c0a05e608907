// journal.c: appends the events of a sweep to its file.
#include <tune/sweep/journal.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/codec/json.h>
#include <runtime/host/folder.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <tune/sweep/sweep_facts.h>
#include <unistd.h>

static const char file_name[] = "trials.jsonl";

// How much of it was written.
static size_t write_all(int fd, const trp_buffer *text)
{
    size_t done = 0;
    while (done < text->size) {
        ssize_t wrote = write(fd, text->data + done, text->size - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            break;
        done += (size_t)wrote;
    }
    return done;
}

// A line of which the disk took a part stays alone: the next one begins on a line of its own.
static bool write_line(trp_journal *journal, const trp_buffer *line)
{
    const trp_buffer ends = {.data = (unsigned char[]){'\n'}, .size = 1};
    if (journal->torn && write_all(journal->fd, &ends) == 0)
        return false;
    size_t wrote = write_all(journal->fd, line);
    journal->torn = wrote > 0 && wrote < line->size;
    return wrote == line->size;
}

// Writes the line and frees it.
static void append(trp_journal *journal, trp_buffer *line)
{
    trp_buffer_append(line, "}\n", 2);
    if (line->failed)
        errno = ENOMEM;
    if ((line->failed || !write_line(journal, line)) && !journal->warned) {
        trp_log(TRP_WARN, "%s of a sweep is not complete: %s", file_name, strerror(errno));
        journal->warned = true;
    }
    trp_buffer_free(line);
}

static void begin(trp_buffer *line, const char *event, const trp_trial *trial)
{
    trp_buffer_printf(line, "{\"event\": \"%s\", \"trial\": ", event);
    trp_json_text(line, trial->view.name);
}

// Opens it for this process alone.
static troupe_status open_alone(trp_journal *journal, const troupe_sweep *sweep, int how)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", sweep->folder, file_name);
    int fd =
        open(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | how, trp_file_mode());
    if (fd < 0)
        return trp_fail_errno(TROUPE_IO, "%s cannot be made", path);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        close(fd);
        return troupe_fail(TROUPE_BUSY, "the sweep in %s is being run by another program",
                           sweep->folder);
    }
    *journal = (trp_journal){.fd = fd};
    return TROUPE_OK;
}

static void write_first(trp_journal *journal, const troupe_sweep *sweep)
{
    trp_buffer line = {0};
    trp_buffer_printf(&line, "{\"event\": \"sweep\", \"trainer\": ");
    trp_json_text(&line, sweep->trainer->name);
    trp_buffer_printf(&line, ", \"metric\": ");
    trp_json_text(&line, sweep->metric);
    trp_buffer_printf(&line, ", \"goal\": \"%s\", \"trials\": %d, \"seed\": %" PRIu64,
                      sweep->how.goal == TROUPE_MAXIMIZE ? "maximize" : "minimize", sweep->count,
                      sweep->how.seed);
    trp_buffer_printf(&line, ", \"scheduler\": ");
    trp_json_text(&line, sweep->scheduler);
    if (sweep->id[0] != '\0')
        trp_buffer_printf(&line, ", \"id\": \"%s\"", sweep->id);
    if (sweep->server != NULL) {
        trp_buffer_printf(&line, ", \"server\": ");
        trp_json_text(&line, sweep->server);
    }
    append(journal, &line);
}

troupe_status trp_journal_open(trp_journal *journal, const troupe_sweep *sweep)
{
    TROUPE_TRY(open_alone(journal, sweep, O_EXCL));
    write_first(journal, sweep);
    return TROUPE_OK;
}

static troupe_status read_whole_lines(int fd, const char *folder, trp_buffer *text)
{
    enum { PIECE = 1 << 16 };
    for (ssize_t got = 1; got > 0;) {
        if (!trp_buffer_reserve(text, PIECE))
            return troupe_fail(TROUPE_NO_MEMORY, "no memory for the trials of %s", folder);
        got = pread(fd, text->data + text->size, PIECE, (off_t)text->size);
        if (got < 0)
            return trp_fail_errno(TROUPE_IO, "%s/%s cannot be read", folder, file_name);
        text->size += (size_t)got;
    }
    while (text->size > 0 && text->data[text->size - 1] != '\n')
        text->size--;
    return ftruncate(fd, (off_t)text->size) == 0
               ? TROUPE_OK
               : trp_fail_errno(TROUPE_IO, "%s/%s cannot be cut", folder, file_name);
}

troupe_status trp_journal_open_again(trp_journal *journal, const troupe_sweep *sweep,
                                     trp_buffer *text)
{
    TROUPE_TRY(open_alone(journal, sweep, 0));
    troupe_status status = read_whole_lines(journal->fd, sweep->folder, text);
    if (status != TROUPE_OK)
        trp_journal_close(journal);
    else if (text->size == 0)
        write_first(journal, sweep);
    return status;
}

void trp_journal_close(trp_journal *journal)
{
    if (journal->fd >= 0)
        close(journal->fd);
    journal->fd = -1;
}

void trp_journal_remove(const char *folder)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, file_name);
    unlink(path);
}

static void write_params(trp_journal *journal, const trp_buffer *config, const char *folder)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/params.json", folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, trp_file_mode());
    bool written = fd >= 0 && write_all(fd, config) == config->size;
    if (fd >= 0 && close(fd) != 0)
        written = false;
    if (!written && !journal->warned) {
        trp_log(TRP_WARN, "%s cannot be written: %s", path, strerror(errno));
        journal->warned = true;
    }
}

void trp_journal_submitted(trp_journal *journal, const troupe_sweep *sweep, const trp_trial *trial)
{
    trp_buffer line = {0};
    begin(&line, "submitted", trial);
    trp_buffer_printf(&line, ", \"config\": ");
    trp_json_value(&line, sweep->trainer->config, trial->view.config);
    append(journal, &line);
}

void trp_journal_params(trp_journal *journal, const troupe_sweep *sweep, const trp_trial *trial,
                        const char *path)
{
    trp_buffer config = {0};
    trp_json_value(&config, sweep->trainer->config, trial->view.config);
    trp_buffer_append(&config, "\n", 1);
    if (!config.failed)
        write_params(journal, &config, path);
    trp_buffer_free(&config);
}

void trp_journal_checkpoint(trp_journal *journal, const trp_trial *trial, int number,
                            const char *folder)
{
    trp_buffer line = {0};
    begin(&line, "checkpoint", trial);
    trp_buffer_printf(&line, ", \"number\": %d, \"checkpoint\": ", number);
    trp_json_text(&line, folder);
    append(journal, &line);
}

void trp_journal_report(trp_journal *journal, const trp_trial *trial,
                        const troupe_report_event *report)
{
    trp_buffer line = {0};
    begin(&line, "report", trial);
    trp_buffer_printf(&line, ", \"number\": %d, \"elapsed_s\": ", report->number);
    trp_json_number(&line, report->elapsed_s);
    trp_buffer_printf(&line, ", \"metrics\": {");
    for (size_t i = 0; i < report->count; i++) {
        trp_buffer_append(&line, ", ", i == 0 ? 0 : 2);
        trp_json_text(&line, report->metrics[i].name);
        trp_buffer_append(&line, ": ", 2);
        trp_json_number(&line, report->metrics[i].value);
    }
    trp_buffer_append(&line, "}", 1);
    if (report->checkpoint != NULL) {
        trp_buffer_printf(&line, ", \"checkpoint\": ");
        trp_json_text(&line, report->checkpoint);
    }
    append(journal, &line);
}

void trp_journal_end(trp_journal *journal, const trp_trial *trial)
{
    trp_buffer line = {0};
    begin(&line, "end", trial);
    trp_buffer_printf(&line, ", \"state\": \"%s\", \"reports\": %d, \"elapsed_s\": ",
                      trp_table_state_name(trp_trial_table_state(trial->view.state)),
                      trial->view.reports);
    trp_json_number(&line, trial->view.elapsed_s);
    trp_buffer_printf(&line, ", \"best\": ");
    trp_json_number(&line, trial->view.best_metric);
    trp_buffer_printf(&line, ", \"error\": ");
    trp_json_text(&line, trial->view.error);
    append(journal, &line);
}
