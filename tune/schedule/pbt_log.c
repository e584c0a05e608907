// pbt_log.c: see tune/schedule/pbt_log.h.
#include <tune/schedule/pbt_log.h>

#include <errno.h>
#include <fcntl.h>
#include <runtime/base/buffer.h>
#include <runtime/base/log.h>
#include <runtime/codec/json.h>
#include <string.h>
#include <unistd.h>

troupe_status trp_pbt_log_open(trp_pbt_log *log, const char *path)
{
    log->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    if (log->fd < 0)
        return troupe_fail(errno == ENOENT ? TROUPE_NOT_FOUND : TROUPE_IO,
                           "pbt: cannot make the log \"%s\": %s", path, strerror(errno));
    return TROUPE_OK;
}

static void warn(trp_pbt_log *log, const char *why)
{
    if (!log->warned)
        trp_log(TRP_WARN, "the log of a population is not complete: %s", why);
    log->warned = true;
}

void trp_pbt_log_add(trp_pbt_log *log, const troupe_problem *problem, const trp_pbt_line *line,
                     const double *x)
{
    trp_buffer text = {0};
    if (log->fd < 0)
        return;
    trp_buffer_printf(&text, "{\"trial\": %d, \"report\": %d, ", line->trial, line->report);
    if (line->source >= 0)
        trp_buffer_printf(&text, "\"source\": %d, \"source_report\": %d, ", line->source,
                          line->source_report);
    trp_buffer_printf(&text, "\"x\": {");
    for (size_t i = 0; i < problem->dim_count; i++) {
        if (i > 0)
            trp_buffer_append(&text, ", ", 2);
        trp_json_text(&text, problem->dims[i].name);
        trp_buffer_append(&text, ": ", 2);
        trp_json_number(&text, x[i]);
    }
    trp_buffer_append(&text, "}}\n", 3);
    if (text.failed) {
        warn(log, "there is no memory for a line");
    } else {
        ssize_t written = write(log->fd, text.data, text.size);
        if (written != (ssize_t)text.size)
            warn(log, written < 0 ? strerror(errno) : "a line was written in part");
    }
    trp_buffer_free(&text);
}

void trp_pbt_log_close(trp_pbt_log *log)
{
    if (log->fd >= 0)
        close(log->fd);
    log->fd = -1;
}
