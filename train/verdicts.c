// verdicts.c: see train/verdicts.h.
#include <fcntl.h>
#include <poll.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <runtime/host/file.h>
#include <string.h>
#include <sys/inotify.h>
#include <train/verdicts.h>
#include <unistd.h>

TROUPE_STRUCT(verdict_line, (int, report), (troupe_text, answer), (int, ranks),
              (int64_t, revision));

static const char *const names[] = {"GO_ON", "STOP", "PAUSE", "RESIZE"}; // Of answers.

static troupe_status find(const char *folder, trp_path *path)
{
    return trp_path_make(path, "%s/gate", folder);
}

// ---- adding

// Whether who wrote the last line could not do so whole.
static bool is_torn(const char *path)
{
    char last = '\n';
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
    if (size > 0 && pread(fd, &last, 1, size - 1) != 1)
        last = '\n';
    if (fd >= 0)
        close(fd);
    return last != '\n';
}

troupe_status trp_verdicts_add(const char *folder, const trp_verdict *verdict)
{
    trp_path path;
    trp_buffer text = {0};
    verdict_line line = {.report = verdict->report,
                         .answer = names[verdict->answer],
                         .ranks = verdict->ranks,
                         .revision = verdict->revision};
    TROUPE_TRY(find(folder, &path));
    trp_buffer_append(&text, "\n", is_torn(path.text));
    trp_json_value(&text, &troupe_type_verdict_line, &line);
    trp_buffer_append(&text, "\n", 1);
    troupe_status status = text.failed
                               ? troupe_fail(TROUPE_NO_MEMORY, "no memory for %s", path.text)
                               : trp_file_append(path.text, text.data, text.size);
    trp_buffer_free(&text);
    return status;
}

// ---- reading

trp_verdicts trp_verdicts_begin(void)
{
    return (trp_verdicts){.fd = -1, .changes = -1};
}

static void take_line(trp_verdicts *verdicts, const char *text, size_t size, trp_arena *arena)
{
    trp_json value;
    verdict_line line = {0};
    if (trp_json_parse(text, size, &value) != TROUPE_OK ||
        trp_json_read(&troupe_type_verdict_line, value, arena, &line) != TROUPE_OK ||
        line.answer == NULL)
        return;
    if (line.report > verdicts->answered)
        verdicts->answered = line.report;
    if (line.revision > verdicts->revision)
        verdicts->revision = line.revision;
    verdicts->stop |= strcmp(line.answer, names[TROUPE_GATE_STOP]) == 0;
}

// Takes the whole lines of a piece; what they have together.
static size_t take_lines(trp_verdicts *verdicts, const char *text, size_t size)
{
    trp_arena arena = {0};
    size_t at = 0;
    for (const char *end; at < size; at = (size_t)(end - text) + 1) {
        end = memchr(text + at, '\n', size - at);
        if (end == NULL)
            break;
        if (end > text + at)
            take_line(verdicts, text + at, (size_t)(end - text) - at, &arena);
        trp_arena_clear(&arena);
    }
    return at;
}

void trp_verdicts_read(trp_verdicts *verdicts, const char *folder)
{
    enum { PIECE = 4096 }; // Longer than any line.
    trp_path path;
    char piece[PIECE];
    if (verdicts->fd < 0 && find(folder, &path) == TROUPE_OK)
        verdicts->fd = open(path.text, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    while (verdicts->fd >= 0) {
        ssize_t got = pread(verdicts->fd, piece, sizeof piece, verdicts->at);
        size_t taken = got > 0 ? take_lines(verdicts, piece, (size_t)got) : 0;
        if (taken == 0 && got == (ssize_t)sizeof piece)
            taken = sizeof piece; // It is none of ours.
        verdicts->at += (off_t)taken;
        if (taken == 0)
            break;
    }
    trp_error_forget();
}

// ---- waiting

// Where changes cannot be told of (there are few inotify instances a user), it looks again soon.
static void watch(trp_verdicts *verdicts, const char *folder)
{
    trp_path path;
    if (find(folder, &path) != TROUPE_OK)
        return;
    if (verdicts->fd < 0)
        verdicts->fd = open(path.text, O_RDONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    verdicts->changes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (verdicts->changes >= 0 && inotify_add_watch(verdicts->changes, path.text, IN_MODIFY) < 0) {
        close(verdicts->changes);
        verdicts->changes = -1;
    }
}

void trp_verdicts_await(trp_verdicts *verdicts, const char *folder, int timeout_ms)
{
    enum { LOOK_MS = 5 };
    _Alignas(struct inotify_event) char events[1024];
    if (verdicts->changes < 0) {
        watch(verdicts, folder);
        if (verdicts->changes >= 0)
            return; // Something may have been added before it was watched.
    }
    bool told = verdicts->changes >= 0;
    struct pollfd change = {.fd = verdicts->changes, .events = POLLIN};
    (void)poll(&change, told ? 1 : 0, told || timeout_ms < LOOK_MS ? timeout_ms : LOOK_MS);
    while (told && read(verdicts->changes, events, sizeof events) > 0)
        continue;
}

void trp_verdicts_close(trp_verdicts *verdicts)
{
    if (verdicts->fd >= 0)
        close(verdicts->fd);
    if (verdicts->changes >= 0)
        close(verdicts->changes);
    verdicts->fd = verdicts->changes = -1;
}
