// web_reports.c: pieces of a run's journal and of log files, by the byte that they begin at: what
// was read once is never read again, and nothing is kept for who reads slowly.
#include <server/web_job.h>

#include <errno.h>
#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <server/web_json.h>
#include <string.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 20, LOG_BYTES = 1 << 18 };

static troupe_status open_piece(const char *path, int64_t from, struct stat *about, int *fd)
{
    *fd = web_open_file(path, about);
    if (*fd < 0)
        return trp_fail_errno(errno == ENOENT ? TROUPE_NOT_FOUND : TROUPE_IO, "%s cannot be read",
                              path);
    if (from <= about->st_size)
        return TROUPE_OK;
    close(*fd);
    return troupe_fail(TROUPE_INVALID, "%s has %lld bytes: `from` is %" PRId64 ", behind its end",
                       path, (long long)about->st_size, from);
}

// ---- events

// Writes whole lines of the piece, and gives how many bytes they have. `most` of them at most.
static size_t write_events(trp_buffer *out, const char *text, size_t size, int64_t most)
{
    size_t at = 0;
    for (const char *end; most > 0 && at < size; at = (size_t)(end - text) + 1) {
        trp_json line;
        end = memchr(text + at, '\n', size - at);
        if (end == NULL)
            break;
        if (trp_json_parse(text + at, (size_t)(end - text) - at, &line) != TROUPE_OK ||
            !trp_json_is_object(line))
            continue;
        web_json(out, NULL, line);
        most--;
    }
    return at == 0 && size == PIECE_BYTES ? size : at; // A longer line is left out.
}

troupe_status web_events(web_call *call, const char *folder)
{
    trp_buffer *out = call->out;
    int64_t from = call->query[0].number, most = call->query[1].number;
    trp_path path;
    struct stat about;
    int fd;
    if (folder == NULL)
        return troupe_fail(TROUPE_NOT_FOUND, "the job has no folder of a run");
    TROUPE_TRY(trp_path_make(&path, "%s/journal.jsonl", folder));
    TROUPE_TRY(open_piece(path.text, from, &about, &fd));
    char *piece = trp_alloc(PIECE_BYTES);
    ssize_t got = piece != NULL ? pread(fd, piece, PIECE_BYTES, from) : -1;
    close(fd);
    if (got < 0) {
        trp_free(piece);
        return piece == NULL
                   ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a piece of %s", path.text)
                   : trp_fail_errno(TROUPE_IO, "%s cannot be read", path.text);
    }
    web_begin(out, NULL, '{');
    web_begin(out, "events", '[');
    size_t used = write_events(out, piece, (size_t)got, most);
    web_end(out, ']');
    trp_free(piece);
    web_integer(out, "next", from + (int64_t)used);
    web_flag(out, "whole", used == 0 || from + (int64_t)used >= about.st_size);
    web_end(out, '}');
    return TROUPE_OK;
}

// ---- logs

// Whether the byte is within a character of UTF-8.
static bool continues(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

// How much of the piece is to be shown: not half of a character, and where more follows, whole
// lines, if there is one.
static size_t whole_of(const char *text, size_t size, bool more)
{
    if (more)
        for (size_t at = size; at > 0; at--)
            if (text[at - 1] == '\n')
                return at;
    size_t at = size;
    while (at > 0 && size - at < 3 && continues(text[at - 1]))
        at--;
    if (at == 0 || (unsigned char)text[at - 1] < 0xc0)
        return size;
    unsigned char lead = (unsigned char)text[at - 1];
    size_t wanted = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    return size - at + 1 >= wanted || at == 1 ? size : at - 1;
}

troupe_status web_log(web_call *call, const char *path)
{
    trp_buffer *out = call->out;
    int64_t from = call->query[1].number, tail = call->query[2].number;
    struct stat about;
    int fd;
    TROUPE_TRY(open_piece(path, from, &about, &fd));
    bool cut = from < 0 && about.st_size > tail;
    if (from < 0)
        from = cut ? about.st_size - tail : 0;
    char *text = trp_arena_alloc(&call->arena, LOG_BYTES + 1);
    ssize_t got = text != NULL ? pread(fd, text, LOG_BYTES, from) : -1;
    close(fd);
    if (got < 0)
        return text == NULL ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a piece of %s", path)
                            : trp_fail_errno(TROUPE_IO, "%s cannot be read", path);
    size_t begin = 0, size = whole_of(text, (size_t)got, from + got < about.st_size);
    const char *line = cut ? memchr(text, '\n', size) : NULL;
    if (line != NULL) // The tail begins with a whole line.
        begin = (size_t)(line - text) + 1;
    for (size_t i = begin; i < size; i++)
        if (text[i] == '\0')
            text[i] = ' ';
    text[size] = '\0';
    web_begin(out, NULL, '{');
    web_text(out, "text", text + begin);
    web_integer(out, "from", from + (int64_t)begin);
    web_integer(out, "next", from + (int64_t)size);
    web_integer(out, "size", about.st_size);
    web_end(out, '}');
    return TROUPE_OK;
}

troupe_status web_rank_log(web_call *call, const char *folder, int64_t rank)
{
    trp_path path;
    if (folder == NULL)
        return troupe_fail(TROUPE_NOT_FOUND, "the job has no folder of a run");
    TROUPE_TRY(trp_path_make(&path, "%s/log/rank_%05" PRId64 ".log", folder, rank));
    return web_log(call, path.text);
}
