// track_how.c: what is configured to be told of jobs: trackers.json, and the file that says that
// jobs have webhooks of their own.
#include <server/track.h>

#include <errno.h>
#include <fcntl.h>
#include <runtime/base/buffer.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <runtime/host/file.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static bool is_url(const char *text)
{
    bool good = text == NULL || ((strncasecmp(text, "http://", 7) == 0 && text[7] != '\0') ||
                                 (strncasecmp(text, "https://", 8) == 0 && text[8] != '\0'));
    for (const char *at = text; at != NULL && *at != '\0'; at++)
        good = good && *at > ' ' && *at < 0x7f;
    return good;
}

static troupe_status check(const char *what, const char *url)
{
    return is_url(url) ? TROUPE_OK
                       : troupe_fail(TROUPE_INVALID,
                                     "the address of %s is \"%.200s\": expected http:// or "
                                     "https:// and a host",
                                     what, url);
}

static troupe_status path_of(const char *state, trp_path *path)
{
    return trp_path_make(path, "%s/trackers.json", state);
}

static troupe_status check_all(const trp_track_how *how)
{
    TROUPE_TRY(check("the webhook", how->webhook.url));
    return check("MLflow", how->mlflow.url);
}

static troupe_status read_file(const char *state, trp_arena *arena, trp_track_how *how)
{
    trp_path path;
    trp_json document;
    unsigned char *text;
    size_t size;
    *how = (trp_track_how){0};
    TROUPE_TRY(path_of(state, &path));
    troupe_status status = trp_file_read(path.text, &text, &size);
    if (status == TROUPE_NOT_FOUND)
        return TROUPE_OK;
    TROUPE_TRY(status);
    status = trp_json_parse((const char *)text, size, &document);
    if (status == TROUPE_OK)
        status = trp_json_read(&troupe_type_trp_track_how, document, arena, how);
    trp_free(text);
    return status == TROUPE_OK ? TROUPE_OK : trp_error_prefix("%s", path.text);
}

troupe_status trp_track_read(const char *state, trp_arena *arena, trp_track_how *how)
{
    TROUPE_TRY(read_file(state, arena, how));
    return check_all(how);
}

static double now(void)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_REALTIME, &at);
    return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

// Jobs that have ended before the address was given are not sent there.
static void change_url(const char *given, const char **url, double *since)
{
    if (given == NULL || (*url != NULL && strcmp(*url, given) == 0))
        return;
    bool none = strcmp(given, "none") == 0;
    *url = none ? NULL : given;
    *since = none ? 0 : now();
}

troupe_status trp_track_change(const char *state, const char *webhook, const char *mlflow,
                               const char *experiment)
{
    trp_path path;
    trp_track_how how;
    trp_arena arena = {0};
    trp_buffer text = {0};
    if (webhook == NULL && mlflow == NULL && experiment == NULL)
        return TROUPE_OK;
    troupe_status status = read_file(state, &arena, &how); // What is wrong there may be replaced.
    change_url(webhook, &how.webhook.url, &how.webhook.since);
    change_url(mlflow, &how.mlflow.url, &how.mlflow.since);
    if (experiment != NULL)
        how.mlflow.experiment = strcmp(experiment, "none") == 0 ? NULL : experiment;
    if (status == TROUPE_OK)
        status = check_all(&how);
    if (status == TROUPE_OK)
        status = path_of(state, &path);
    if (status == TROUPE_OK) {
        mode_t mask = umask(0177); // It may have a token.
        trp_json_value(&text, &troupe_type_trp_track_how, &how);
        trp_buffer_append(&text, "\n", 1);
        status = text.failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for %s", path.text)
                             : trp_file_replace(path.text, text.data, text.size);
        (void)umask(mask);
    }
    trp_buffer_free(&text);
    trp_arena_clear(&arena);
    return status;
}

static bool is_there(const char *state, const char *name)
{
    trp_path path;
    return trp_path_make(&path, "%s/%s", state, name) == TROUPE_OK && access(path.text, F_OK) == 0;
}

void trp_track_note_own(const char *state)
{
    trp_path path;
    if (trp_path_make(&path, "%s/track.jobs", state) != TROUPE_OK)
        return;
    int fd = open(path.text, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
}

bool trp_track_is_wanted(const char *state, bool *runs)
{
    trp_arena arena = {0};
    trp_track_how how;
    *runs = false;
    bool own = is_there(state, "track.jobs");
    if (!is_there(state, "trackers.json"))
        return own;
    // One that cannot be read is for who sends to complain of.
    bool bad = trp_track_read(state, &arena, &how) != TROUPE_OK;
    *runs = !bad && how.mlflow.url != NULL;
    bool any = bad || *runs || how.webhook.url != NULL;
    trp_arena_clear(&arena);
    return own || any;
}
