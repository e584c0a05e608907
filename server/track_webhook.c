// track_webhook.c: tells a webhook that a job has ended.
#include <server/track_internal.h>

#include <fcntl.h>
#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/host/file.h>
#include <server/say.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TAIL_BYTES = 256 << 10 };

// The last line of a report in the end of a journal.
static bool find_report(char *text, size_t size, trp_json *metrics)
{
    while (size > 0) {
        size_t end = size;
        while (end > 0 && text[end - 1] == '\n')
            end--;
        size_t from = end;
        while (from > 0 && text[from - 1] != '\n')
            from--;
        trp_json line, event;
        if (end > from && trp_json_parse(text + from, end - from, &line) == TROUPE_OK &&
            trp_json_member(line, "event", &event) && trp_json_equals(event, "report") &&
            trp_json_member(line, "metrics", metrics))
            return true;
        size = from;
    }
    return false;
}

void track_last_metrics(const char *run, trp_buffer *out)
{
    trp_path path;
    struct stat about;
    trp_json metrics;
    int fd = trp_path_make(&path, "%s/journal.jsonl", run) == TROUPE_OK
                 ? open(path.text, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
                 : -1;
    char *text = (char *)trp_alloc(TAIL_BYTES);
    bool found = false;
    if (fd >= 0 && text != NULL && fstat(fd, &about) == 0 && S_ISREG(about.st_mode)) {
        off_t from = about.st_size > TAIL_BYTES ? about.st_size - TAIL_BYTES : 0;
        ssize_t got = pread(fd, text, TAIL_BYTES, from);
        found = got > 0 && find_report(text, (size_t)got, &metrics);
    }
    if (found)
        trp_buffer_append(out, metrics.at, metrics.size);
    else
        trp_buffer_append(out, "{}", 2);
    trp_free(text);
    if (fd >= 0)
        (void)close(fd);
}

static void put_text(trp_buffer *out, const char *name, const char *text)
{
    trp_buffer_printf(out, ", \"%s\": ", name);
    trp_json_text(out, text);
}

static void write_body(const track_job *job, const char *id, trp_buffer *out)
{
    trp_buffer_printf(out, "{\"event\": \"job.end\", \"id\": \"%s\", \"job\": %" PRId64, id,
                      job->id);
    put_text(out, "name", job->file.name);
    put_text(out, "trainer", job->file.trainer);
    put_text(out, "state", track_state_of(job));
    put_text(out, "status", troupe_status_name((troupe_status)job->end.status));
    put_text(out, "error", job->end.status == TROUPE_OK ? NULL : job->end.error);
    trp_buffer_printf(out, ", \"reports\": %d, \"restarts\": %d, \"metrics\": ", job->end.reports,
                      job->end.restarts);
    track_last_metrics(job->file.folder != NULL ? job->file.folder : "", out);
    put_text(out, "folder", job->file.folder);
    trp_buffer_printf(out, ", \"submitted_at\": %.3f, \"ended_at\": %.3f}", job->file.submitted_at,
                      job->end.ended_at);
    trp_buffer_append(out, "", 1);
}

bool track_webhook(track_job *job, const char *url)
{
    char id[200], header[250];
    trp_buffer body = {0};
    int code;
    (void)snprintf(id, sizeof id, "%.150s.end", job->file.submission);
    (void)snprintf(header, sizeof header, "X-Troupe-Event: %s", id);
    write_body(job, id, &body);
    track_result how = body.failed
                           ? TRACK_LATER
                           : track_ask(url, NULL, header, (const char *)body.data, &code, NULL);
    trp_buffer_free(&body);
    if (how == TRACK_REFUSED)
        trp_say("job %" PRId64 ": %s", job->id, troupe_last_error()->text);
    if (how != TRACK_LATER)
        track_is_good(url);
    if (how != TRACK_LATER)
        job->note.webhook = how == TRACK_SENT ? "sent" : "refused";
    return how != TRACK_LATER;
}
