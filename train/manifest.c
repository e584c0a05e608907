// manifest.c: writes and reads manifests; what is read is checked before anything uses it.
#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <train/manifest.h>
#include <train/manifest_old.h>
#include <train/storage.h>

static const char *const kinds[] = {"file", "state", "link", "folder"};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

#define SEAL_BEGIN ",\n\"checksum\": \""
#define SEAL_END "\"\n}\n"
enum { DIGITS = 16, SEAL_SIZE = sizeof(SEAL_BEGIN) - 1 + DIGITS + sizeof(SEAL_END) - 1 };

// ---- writing

void trp_manifest_seal(trp_buffer *out)
{
    uint64_t sum = out->failed ? 0 : trp_digest(out->data, out->size);
    trp_buffer_printf(out, SEAL_BEGIN "%016" PRIx64 SEAL_END, sum);
}

static void write_member(trp_buffer *out, const char *name, const char *text)
{
    if (!text)
        return;
    trp_buffer_printf(out, ",\n\"%s\": ", name);
    trp_json_text(out, text);
}

// A value that is JSON already.
static void write_value(trp_buffer *out, const char *name, const char *json)
{
    if (json)
        trp_buffer_printf(out, ",\n\"%s\": %s", name, json);
}

static void write_file(trp_buffer *out, const trp_manifest_file *file)
{
    trp_buffer_printf(out, "{\"path\": ");
    trp_json_text(out, file->path);
    trp_buffer_printf(out, ", \"rank\": %d, \"kind\": \"%s\"", file->rank,
                      file->kind < KINDS ? kinds[file->kind] : "?");
    if (file->kind == TRP_FILE_PLAIN || file->kind == TRP_FILE_STATE)
        trp_buffer_printf(out, ", \"size\": %" PRIu64 ", \"xxh64\": \"%016" PRIx64 "\"", file->size,
                          file->digest);
    if (file->kind == TRP_FILE_STATE)
        trp_buffer_printf(out, ", \"schema\": \"%016" PRIx64 "\"", file->schema);
    if (file->kind == TRP_FILE_LINK) {
        trp_buffer_printf(out, ", \"target\": ");
        trp_json_text(out, file->target);
    }
    trp_buffer_printf(out, "}");
}

void trp_manifest_write(const trp_manifest *manifest, trp_buffer *out)
{
    trp_buffer_printf(out,
                      "{\n\"version\": %d,\n\"id\": %" PRId64 ",\n\"report\": %d,\n\"world\": %d",
                      TRP_MANIFEST_VERSION, manifest->id, manifest->report, manifest->world);
    write_member(out, "created", manifest->created);
    write_member(out, "trainer", manifest->trainer);
    write_value(out, "config", manifest->config);
    write_value(out, "metadata", manifest->metadata);
    write_value(out, "push", manifest->push);
    trp_buffer_printf(out, ",\n\"metrics\": [");
    for (size_t i = 0; i < manifest->metrics.count; i++) {
        trp_buffer_printf(out, "%s{\"name\": ", i ? ", " : "");
        trp_json_text(out, manifest->metrics.items[i].name);
        trp_buffer_printf(out, ", \"value\": ");
        trp_json_number(out, manifest->metrics.items[i].value);
        trp_buffer_printf(out, "}");
    }
    trp_buffer_printf(out, "],\n\"files\": [");
    for (size_t i = 0; i < manifest->files.count; i++) {
        trp_buffer_printf(out, "%s\n", i ? "," : "");
        write_file(out, &manifest->files.items[i]);
    }
    trp_buffer_printf(out, "]");
    trp_manifest_seal(out);
}

// ---- reading

// A file as its manifest has it.
TROUPE_STRUCT(manifest_row, (troupe_text, path), (int, rank), (troupe_text, kind), (uint64_t, size),
              (troupe_text, xxh64), (troupe_text, schema), (troupe_text, target));
// The members that a table can say; config and metadata are any values.
TROUPE_STRUCT(manifest_head, (int64_t, id), (int, report), (int, world), (troupe_text, created),
              (troupe_text, trainer), (troupe_array_trp_metric, metrics),
              (troupe_array_manifest_row, files));
TROUPE_STRUCT(manifest_version, (int, version));

bool trp_manifest_path_ok(const char *path)
{
    if (!path)
        return false;
    for (const char *part = path;; part++) {
        size_t length = strcspn(part, "/");
        if (length == 0 || (length == 1 && part[0] == '.') ||
            (length == 2 && part[0] == '.' && part[1] == '.'))
            return false;
        part += length;
        if (*part == '\0')
            return true;
    }
}

static bool read_digits(const char *text, uint64_t *number)
{
    if (!text || strlen(text) != DIGITS || strspn(text, "0123456789abcdef") != DIGITS)
        return false;
    *number = strtoull(text, NULL, 16);
    return true;
}

static int kind_of(const char *name)
{
    for (int kind = 0; name && kind < KINDS; kind++)
        if (strcmp(name, kinds[kind]) == 0)
            return kind;
    return name ? TRP_FILE_UNKNOWN : TRP_FILE_PLAIN;
}

static bool read_file(const manifest_row *row, trp_manifest_file *file)
{
    *file = (trp_manifest_file){.path = row->path,
                                .rank = row->rank,
                                .kind = kind_of(row->kind),
                                .size = row->size,
                                .target = row->target};
    bool bytes = file->kind == TRP_FILE_PLAIN || file->kind == TRP_FILE_STATE;
    return trp_manifest_path_ok(row->path) && (!bytes || read_digits(row->xxh64, &file->digest)) &&
           (file->kind != TRP_FILE_STATE || read_digits(row->schema, &file->schema)) &&
           (file->kind != TRP_FILE_LINK || row->target);
}

// Whether the line with the checksum is there, and right for all that is before it.
static bool is_sealed(const unsigned char *data, size_t size)
{
    char expected[SEAL_SIZE + 1];
    if (size < SEAL_SIZE)
        return false;
    size -= SEAL_SIZE;
    snprintf(expected, sizeof(expected), SEAL_BEGIN "%016" PRIx64 SEAL_END, trp_digest(data, size));
    return memcmp(data + size, expected, SEAL_SIZE) == 0;
}

static const char *copy_value(trp_json object, const char *name, trp_arena *arena)
{
    trp_json value;
    if (!trp_json_member(object, name, &value) || trp_json_is_null(value))
        return NULL;
    char *copy = (char *)trp_arena_alloc(arena, value.size + 1);
    return copy ? (const char *)memcpy(copy, value.at, value.size) : NULL;
}

static troupe_status take_files(const char *path, const manifest_head *head, trp_arena *arena,
                                trp_manifest *manifest)
{
    size_t count = head->files.count;
    trp_manifest_file *files =
        (trp_manifest_file *)trp_arena_alloc(arena, (count + 1) * sizeof(*files));
    if (!files)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for what is in %s", path);
    for (size_t i = 0; i < count; i++) {
        const char *name = head->files.items[i].path;
        if (!read_file(&head->files.items[i], &files[i]))
            return troupe_fail(TROUPE_CORRUPT,
                               "%s is damaged: of file %zu, '%.200s', it does not say where it is "
                               "and what it holds",
                               path, i, name ? name : "");
    }
    manifest->files = (troupe_array_trp_manifest_file){files, count};
    return TROUPE_OK;
}

static troupe_status parse(const char *path, const unsigned char *data, size_t size,
                           trp_arena *arena, trp_manifest *manifest)
{
    trp_json object;
    manifest_version is = {0};
    manifest_head head = {0};
    if (!is_sealed(data, size))
        return troupe_fail(TROUPE_CORRUPT, "%s is damaged: its checksum is wrong", path);
    TROUPE_TRY(trp_json_parse((const char *)data, size, &object));
    TROUPE_TRY(trp_json_read(&troupe_type_manifest_version, object, arena, &is));
    if (is.version > TRP_MANIFEST_VERSION)
        return troupe_fail(TROUPE_VERSION, "%s has format version %d, this library reads up to %d",
                           path, is.version, TRP_MANIFEST_VERSION);
    TROUPE_TRY(trp_json_read(&troupe_type_manifest_head, object, arena, &head));
    trp_manifest read = {
        .id = head.id,
        .report = head.report,
        .world = head.world,
        .created = head.created ? head.created : "",
        .trainer = head.trainer ? head.trainer : "",
        .config = copy_value(object, "config", arena),
        .metadata = copy_value(object, "metadata", arena),
        .push = copy_value(object, "push", arena),
        .metrics = head.metrics,
    };
    TROUPE_TRY(take_files(path, &head, arena, &read));
    *manifest = read;
    return TROUPE_OK;
}

troupe_status trp_manifest_parse(const char *path, const unsigned char *data, size_t size,
                                 trp_arena *arena, trp_manifest *manifest)
{
    troupe_status status = parse(path, data, size, arena, manifest);
    if (status == TROUPE_MALFORMED || status == TROUPE_WRONG_TYPE)
        return troupe_fail(TROUPE_CORRUPT, "%s is no manifest: %s", path,
                           troupe_last_error()->text);
    return status;
}

troupe_status trp_manifest_read(const char *folder, trp_arena *arena, trp_manifest *manifest)
{
    trp_path path;
    unsigned char *data;
    size_t size;
    TROUPE_TRY(trp_path_make(&path, "%s/" TRP_MANIFEST_NAME, folder));
    troupe_status status = trp_storage_read(path.text, &data, &size);
    if (status == TROUPE_NOT_FOUND)
        return trp_manifest_old_read(folder, arena, manifest);
    TROUPE_TRY(status);
    status = trp_manifest_parse(path.text, data, size, arena, manifest);
    trp_free(data);
    return status;
}
