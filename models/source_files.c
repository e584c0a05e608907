// source_files.c: columns that come from files, as a setup of data finds them (models/source.h).
#include <models/csv.h>
#include <models/gzip.h>
#include <models/idx.h>
#include <models/source.h>

#include <errno.h>
#include <limits.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/codec/safetensors.h>
#include <stdlib.h>
#include <string.h>

// A whole file, unpacked where gzip has packed it.
typedef struct file {
    trp_mapping mapping;
    trp_buffer unpacked;
    const unsigned char *bytes;
    size_t size;
} file;

static void close_file(file *it)
{
    trp_mapping_close(&it->mapping);
    trp_buffer_free(&it->unpacked);
    *it = (file){0};
}

// The path from the root, in the arena: ranks may be in another folder.
static troupe_status full_path(trp_look *look, const char *path, const char **full)
{
    char found[PATH_MAX];
    if (!path || !*path)
        return troupe_fail(TROUPE_INVALID, "it has no path");
    if (!realpath(path, found))
        return trp_fail_errno(errno == ENOENT || errno == ENOTDIR ? TROUPE_NOT_FOUND : TROUPE_IO,
                              "cannot open %s", path);
    char *copy = (char *)trp_arena_alloc(&look->arena, strlen(found) + 1);
    if (!copy)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the path %s", path);
    *full = strcpy(copy, found);
    return TROUPE_OK;
}

static troupe_status open_file(trp_look *look, const char *path, file *it)
{
    const char *full;
    TROUPE_TRY(full_path(look, path, &full));
    TROUPE_TRY(trp_mapping_open(full, &it->mapping));
    it->bytes = it->mapping.bytes;
    it->size = (size_t)it->mapping.stamp.bytes;
    if (!trp_gzip_is(it->bytes, it->size))
        return TROUPE_OK;
    TROUPE_TRY(trp_gzip_read(full, &it->unpacked));
    it->bytes = it->unpacked.data;
    it->size = it->unpacked.size;
    return TROUPE_OK;
}

// The rows of the shape are in the file from there on, to be mapped by the ranks.
static void name_file(const file *it, const troupe_tensor *shape, size_t offset, size_t stride,
                      trp_source *source)
{
    source->kind = TRP_SOURCE_FILE;
    source->dtype = (int)shape->dtype;
    source->ndim = (int)shape->ndim;
    memcpy(source->shape, shape->shape, sizeof source->shape);
    source->path = it->mapping.path;
    source->bytes = it->mapping.stamp.bytes;
    source->changed_ns = it->mapping.stamp.changed_ns;
    source->offset = offset;
    source->stride = stride;
}

static size_t row_bytes(const troupe_tensor *tensor)
{
    return troupe_tensor_stride(tensor, 0) * troupe_dtype_size(tensor->dtype);
}

// ---- what is written into the store

typedef troupe_status (*writer)(const void *from, void *out);

static troupe_status write_object(const troupe_tensor *shape, writer write, const void *from,
                                  trp_source *source)
{
    troupe_buffer buffer;
    TROUPE_TRY(troupe_tensor_create(shape, &buffer));
    troupe_status status = write(from, buffer.data);
    if (status != TROUPE_OK) {
        troupe_buffer_discard(&buffer);
        return status;
    }
    source->kind = TRP_SOURCE_OBJECT;
    source->dtype = (int)shape->dtype;
    source->ndim = (int)shape->ndim;
    memcpy(source->shape, shape->shape, sizeof source->shape);
    return troupe_buffer_seal(&buffer, &source->object);
}

// ---- IDX

static troupe_status write_idx(const void *from, void *out)
{
    trp_idx_read((const trp_idx *)from, out);
    return TROUPE_OK;
}

static troupe_status take_idx(const file *it, trp_source *source)
{
    trp_idx idx;
    TROUPE_TRY(trp_idx_parse(it->mapping.path, it->bytes, it->size, &idx));
    if (it->unpacked.data || troupe_dtype_size(idx.array.dtype) > 1)
        return write_object(&idx.array, write_idx, &idx, source);
    name_file(it, &idx.array, idx.offset, row_bytes(&idx.array), source);
    return TROUPE_OK;
}

troupe_status trp_look_at_idx(trp_look *look, const troupe_from *from, trp_source *source)
{
    file it = {0};
    troupe_status status = open_file(look, from->path, &it);
    if (status == TROUPE_OK)
        status = take_idx(&it, source);
    close_file(&it);
    return status;
}

// ---- CSV

typedef struct trp_csv_file {
    file file;
    const char *path; // As it was given.
    char separator;
    bool no_header;
    trp_csv csv;
} csv_file;

typedef struct csv_choice {
    const trp_csv *csv;
    const size_t *fields;
    size_t count;
    troupe_dtype dtype;
} csv_choice;

static troupe_status write_csv(const void *from, void *out)
{
    const csv_choice *choice = (const csv_choice *)from;
    return trp_csv_read(choice->csv, choice->fields, choice->count, choice->dtype, out);
}

static void close_csv(trp_look *look)
{
    if (look->csv)
        close_file(&look->csv->file);
    look->csv = NULL;
}

static troupe_status open_csv(trp_look *look, const troupe_from *from, char separator)
{
    csv_file *open = look->csv;
    if (open && from->path && strcmp(open->path, from->path) == 0 && open->separator == separator &&
        open->no_header == from->no_header)
        return TROUPE_OK;
    close_csv(look);
    open = (csv_file *)trp_arena_alloc(&look->arena, sizeof *open);
    if (!open)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to read %s", from->path);
    troupe_status status = open_file(look, from->path, &open->file);
    if (status == TROUPE_OK)
        status = trp_csv_open(open->file.mapping.path, open->file.bytes, open->file.size, separator,
                              from->no_header, &look->arena, &open->csv);
    if (status != TROUPE_OK) {
        close_file(&open->file);
        return status;
    }
    open->path = from->path;
    open->separator = separator;
    open->no_header = from->no_header;
    look->csv = open;
    return TROUPE_OK;
}

troupe_status trp_look_at_csv(trp_look *look, const troupe_from *from, trp_source *source)
{
    char separator = from->separator ? from->separator : ',';
    csv_choice choice = {.dtype = from->dtype};
    if (from->dtype != TROUPE_FLOAT32 && from->dtype != TROUPE_FLOAT64 &&
        from->dtype != TROUPE_INT64)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "numbers of a CSV file as %s: expected float32, float64 or int64",
                           troupe_dtype_text(from->dtype));
    if (strchr("\"\r\n", separator))
        return troupe_fail(TROUPE_INVALID, ".separator is a quote or the end of a line");
    TROUPE_TRY(open_csv(look, from, separator));
    choice.csv = &look->csv->csv;
    TROUPE_TRY(trp_csv_select(choice.csv, from->name, &look->arena, &choice.fields, &choice.count));
    troupe_tensor shape = {.dtype = from->dtype,
                           .ndim = choice.count > 1 ? 2 : 1,
                           .shape = {choice.csv->rows, choice.count}};
    if (shape.ndim == 1)
        shape.shape[1] = 0;
    return write_object(&shape, write_csv, &choice, source);
}

void trp_look_end(trp_look *look)
{
    close_csv(look);
    trp_arena_clear(&look->arena);
}

// ---- safetensors

static troupe_status take_safetensor(trp_look *look, const file *it, const char *name,
                                     trp_source *source)
{
    trp_safetensors found;
    troupe_tensor tensor;
    const char *path = it->mapping.path;
    TROUPE_TRY(trp_safetensors_parse(path, it->bytes, it->size, &look->arena, &found));
    const trp_safetensor *item = trp_safetensors_find(&found, name);
    if (!item)
        return troupe_fail(TROUPE_NOT_FOUND, "%s has no tensor '%.80s': it has %zu%s%.80s%s", path,
                           name, found.count, found.count ? ", such as '" : "",
                           found.count ? found.items[0].name : "", found.count ? "'" : "");
    TROUPE_TRY(trp_safetensor_value(path, item, it->bytes + item->offset, &tensor));
    name_file(it, &tensor, item->offset, tensor.ndim > 0 ? row_bytes(&tensor) : 0, source);
    return TROUPE_OK;
}

troupe_status trp_look_at_safetensors(trp_look *look, const troupe_from *from, trp_source *source)
{
    file it = {0};
    if (!from->name)
        return troupe_fail(TROUPE_INVALID, "it has no name of a tensor");
    troupe_status status = open_file(look, from->path, &it);
    if (status == TROUPE_OK && it.unpacked.data)
        status = troupe_fail(TROUPE_UNSUPPORTED, "%s is packed by gzip: unpack it first",
                             it.mapping.path);
    if (status == TROUPE_OK)
        status = take_safetensor(look, &it, from->name, source);
    close_file(&it);
    return status;
}

// ---- tokens

static troupe_status take_tokens(const file *it, const troupe_from *from, trp_source *source)
{
    size_t each = troupe_dtype_size(from->dtype), stride = from->stride;
    size_t size = (size_t)it->mapping.stamp.bytes;
    const char *path = it->mapping.path;
    if (from->skip_bytes > size || (size - from->skip_bytes) % each != 0)
        return troupe_fail(TROUPE_MALFORMED,
                           "%s has %zu bytes: expected %zu to be skipped, and tokens of %zu", path,
                           size, from->skip_bytes, each);
    size_t tokens = (size - from->skip_bytes) / each;
    if (from->length > tokens)
        return troupe_fail(TROUPE_INVALID, "%s has %zu tokens, and a row has %zu", path, tokens,
                           from->length);
    stride = stride ? stride : from->length;
    size_t rows = (tokens - from->length) / stride + 1;
    troupe_tensor shape = {.dtype = from->dtype, .ndim = 2, .shape = {rows, from->length}};
    // A stride of more than the file is that of a single row.
    name_file(it, &shape, from->skip_bytes, rows > 1 ? stride * each : row_bytes(&shape), source);
    return TROUPE_OK;
}

troupe_status trp_look_at_tokens(trp_look *look, const troupe_from *from, trp_source *source)
{
    file it = {0};
    const char *full;
    if (from->dtype != TROUPE_UINT16 && from->dtype != TROUPE_UINT32)
        return troupe_fail(TROUPE_UNSUPPORTED, "tokens as %s: expected uint16 or uint32",
                           troupe_dtype_text(from->dtype));
    if (from->length == 0)
        return troupe_fail(TROUPE_INVALID, "a row has no tokens: expected one at least");
    TROUPE_TRY(full_path(look, from->path, &full));
    TROUPE_TRY(trp_mapping_open(full, &it.mapping));
    troupe_status status = take_tokens(&it, from, source);
    close_file(&it);
    return status;
}
