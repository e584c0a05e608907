// run_file.c: reading and replacing run.json and `end`.
#include <errno.h>
#include <fcntl.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/host/file.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <train/run_file.h>
#include <train/storage.h>
#include <unistd.h>

enum { VERSION = 1 };

TROUPE_STRUCT(document_head, (int, version));

const char *trp_status_word(troupe_status status)
{
    return troupe_status_name(status) + strlen("TROUPE_");
}

troupe_status trp_status_of_word(const char *word)
{
    for (int status = 0; word != NULL && status < TROUPE_STATUS_COUNT; status++)
        if (strcmp(trp_status_word((troupe_status)status), word) == 0)
            return (troupe_status)status;
    return TROUPE_FAILED;
}

static troupe_status parse(const char *path, const char *text, size_t size, trp_arena *arena,
                           trp_json *document)
{
    document_head head = {0};
    troupe_status status = trp_json_parse(text, size, document);
    if (status == TROUPE_OK)
        status = trp_json_read(&troupe_type_document_head, *document, arena, &head);
    if (status == TROUPE_NO_MEMORY)
        return status;
    if (status != TROUPE_OK)
        return troupe_fail(TROUPE_CORRUPT, "%s is damaged: %s", path, troupe_last_error()->text);
    if (head.version < 1)
        return troupe_fail(TROUPE_CORRUPT, "%s is damaged: it has no version", path);
    if (head.version > VERSION)
        return troupe_fail(TROUPE_VERSION, "%s is of version %d, this library reads up to %d", path,
                           head.version, VERSION);
    return TROUPE_OK;
}

// Reads a document into memory of the arena and checks its version. An empty one is none: what was
// not synced may be that after a loss of power.
static troupe_status read_document(const char *path, trp_arena *arena, trp_json *document)
{
    unsigned char *data;
    size_t size;
    TROUPE_TRY(trp_storage_read(path, &data, &size));
    if (size == 0) {
        trp_free(data);
        return troupe_fail(TROUPE_NOT_FOUND, "%s is empty", path);
    }
    char *copy = trp_arena_alloc(arena, size + 1);
    if (copy != NULL)
        memcpy(copy, data, size);
    trp_free(data);
    if (copy == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the %zu bytes of %s", size, path);
    return parse(path, copy, size, arena, document);
}

static troupe_status damaged(const char *path, troupe_status status)
{
    if (status == TROUPE_OK || status == TROUPE_NO_MEMORY)
        return status;
    return troupe_fail(TROUPE_CORRUPT, "%s is damaged: %s", path, troupe_last_error()->text);
}

troupe_status trp_run_file_read(const char *run, trp_arena *arena, trp_run_file *file)
{
    trp_path path;
    trp_json document;
    *file = (trp_run_file){0};
    TROUPE_TRY(trp_path_join(&path, run, "run.json"));
    TROUPE_TRY(read_document(path.text, arena, &document));
    TROUPE_TRY(
        damaged(path.text, trp_json_read(&troupe_type_trp_run_head, document, arena, &file->head)));
    if (file->head.trainer == NULL)
        return troupe_fail(TROUPE_CORRUPT, "%s is damaged: it names no trainer", path.text);
    trp_json data;
    if (trp_json_member(document, "data", &data))
        TROUPE_TRY(
            damaged(path.text, trp_json_read(&troupe_type_trp_run_data, data, arena, &file->data)));
    (void)trp_json_member(document, "config", &file->config);
    (void)trp_json_member(document, "metadata", &file->metadata);
    (void)trp_json_member(document, "modified", &file->modified);
    return TROUPE_OK;
}

bool trp_run_file_exists(const char *run)
{
    trp_arena arena = {0};
    trp_run_file file;
    troupe_error kept;
    trp_error_hold(&kept);
    bool there = trp_run_file_read(run, &arena, &file) == TROUPE_OK;
    trp_error_restore(&kept);
    trp_arena_clear(&arena);
    return there;
}

// Adds a member to an object that has others.
static void add_member(trp_buffer *out, const char *name, trp_json value)
{
    if (value.size == 0)
        return;
    out->size--; // The object's end.
    trp_buffer_printf(out, ", \"%s\": ", name);
    trp_buffer_append(out, value.at, value.size);
    trp_buffer_append(out, "}", 1);
}

static bool says_already(const char *path, const trp_buffer *text)
{
    unsigned char *data;
    size_t size;
    troupe_error kept;
    trp_error_hold(&kept);
    bool same = false;
    if (trp_storage_read(path, &data, &size) == TROUPE_OK) {
        same = size == text->size && memcmp(data, text->data, size) == 0;
        trp_free(data);
    }
    trp_error_restore(&kept);
    return same;
}

// Ends the line and puts the document in place. One that does not last is written anew, not looked
// for: what says the same already is one that may not last either.
static troupe_status write_document(const char *path, trp_buffer *text, bool lasts)
{
    trp_buffer_append(text, "\n", 1);
    if (text->failed)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for what goes to %s", path);
    if (!lasts && trp_path_is_local(path)) {
        troupe_status status = TROUPE_EXISTS;
        if (text->size <= TRP_FILE_PAGE)
            status = trp_file_make(path, text->data, text->size);
        return status == TROUPE_EXISTS ? trp_file_replace_unsynced(path, text->data, text->size)
                                       : status;
    }
    if (says_already(path, text))
        return TROUPE_OK;
    return trp_storage_put(path, text->data, text->size);
}

troupe_status trp_run_file_write(const char *run, const trp_run_file *file, bool lasts)
{
    trp_path path;
    trp_buffer text = {0}, data = {0};
    trp_run_head head = file->head;
    head.version = VERSION;
    TROUPE_TRY(trp_path_join(&path, run, "run.json"));
    trp_json_value(&text, &troupe_type_trp_run_head, &head);
    if (file->data.name)
        trp_json_value(&data, &troupe_type_trp_run_data, &file->data);
    if (!text.failed && !data.failed) {
        add_member(&text, "data", (trp_json){(const char *)data.data, data.size});
        add_member(&text, "config", file->config);
        add_member(&text, "metadata", file->metadata);
        add_member(&text, "modified", file->modified);
    }
    text.failed |= data.failed;
    troupe_status status = write_document(path.text, &text, lasts);
    trp_buffer_free(&text);
    trp_buffer_free(&data);
    return status;
}

troupe_status trp_run_file_sync(const char *run)
{
    trp_path path;
    TROUPE_TRY(trp_path_join(&path, run, "run.json"));
    int fd = open(path.text, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return trp_fail_errno(TROUPE_IO, "cannot open %s", path.text);
    troupe_status status = trp_file_sync(fd, path.text);
    close(fd);
    return status;
}

// The last bytes of a file, in the arena. NULL: there are none, or no memory. A pipe in its place
// is opened without waiting.
static char *read_tail(const char *path, size_t most, trp_arena *arena, size_t *size)
{
    struct stat about;
    ssize_t got = 0;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    char *tail = trp_arena_alloc(arena, most + 1);
    if (tail != NULL && fstat(fd, &about) == 0 && S_ISREG(about.st_mode))
        got = pread(fd, tail, most, about.st_size > (off_t)most ? about.st_size - (off_t)most : 0);
    close(fd);
    *size = got > 0 ? (size_t)got : 0;
    return got > 0 ? tail : NULL;
}

// The last line of the journal, where that is the end of the run and has all that there is to say.
static troupe_status read_end_line(const char *run, trp_arena *arena, trp_json *document)
{
    trp_path path;
    trp_json member;
    size_t size;
    TROUPE_TRY(trp_path_join(&path, run, "journal.jsonl"));
    char *tail = read_tail(path.text, TRP_END_LINE_MAX, arena, &size);
    if (tail != NULL && tail[size - 1] == '\n') {
        const char *before = memrchr(tail, '\n', size - 1), *line = before ? before + 1 : tail;
        size_t length = (size_t)(tail + size - 1 - line);
        if (trp_json_parse(line, length, document) == TROUPE_OK &&
            trp_json_member(*document, "event", &member) && trp_json_equals(member, "end") &&
            trp_json_member(*document, "version", &member))
            return parse(path.text, line, length, arena, document);
    }
    return troupe_fail(TROUPE_NOT_FOUND, "%s does not end with the end of the run", path.text);
}

troupe_status trp_end_file_read(const char *run, trp_arena *arena, trp_end_file *end)
{
    trp_path path;
    trp_json document;
    *end = (trp_end_file){0};
    TROUPE_TRY(trp_path_join(&path, run, "end"));
    troupe_status status = read_document(path.text, arena, &document);
    if (status == TROUPE_NOT_FOUND && trp_path_is_local(run))
        status = read_end_line(trp_path_local(run), arena, &document);
    TROUPE_TRY(status);
    return damaged(path.text, trp_json_read(&troupe_type_trp_end_file, document, arena, end));
}

void trp_end_file_text(const trp_end_file *end, trp_buffer *text)
{
    trp_end_file whole = *end;
    trp_time_text now = trp_time_now();
    whole.version = VERSION;
    whole.at = now.text;
    trp_json_value(text, &troupe_type_trp_end_file, &whole);
}

troupe_status trp_end_file_write(const char *run, const trp_end_file *end, bool lasts)
{
    trp_path path;
    trp_buffer text = {0};
    TROUPE_TRY(trp_path_join(&path, run, "end"));
    trp_end_file_text(end, &text);
    troupe_status status = write_document(path.text, &text, lasts);
    trp_buffer_free(&text);
    return status;
}

troupe_status trp_end_file_remove(const char *run)
{
    trp_path path;
    TROUPE_TRY(trp_path_join(&path, run, "end"));
    troupe_status status = trp_storage_remove(path.text);
    return trp_error_settled(status == TROUPE_NOT_FOUND ? TROUPE_OK : status);
}
