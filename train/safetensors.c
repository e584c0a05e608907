// safetensors.c: safetensors files of users, read in place and written.
#include <troupe/safetensors.h>

#include <errno.h>
#include <fcntl.h>
#include <runtime/base/arena.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/require.h>
#include <runtime/codec/msgpack.h>
#include <runtime/codec/safetensors.h>
#include <runtime/codec/tensor.h>
#include <runtime/host/file.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- reading

struct troupe_safetensors {
    trp_arena arena; // Of all that is not mapped.
    const char *path;
    unsigned char *bytes;
    size_t size;
    trp_safetensors found;
    const void **data; // Of each tensor.
    troupe_named_text *texts;
    size_t text_count;
};

static troupe_status no_memory(const char *path)
{
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for what is in %s", path);
}

static troupe_status map(troupe_safetensors *file, int fd)
{
    struct stat about;
    if (fstat(fd, &about))
        return trp_fail_errno(TROUPE_IO, "cannot read %s", file->path);
    if (!S_ISREG(about.st_mode))
        return troupe_fail(TROUPE_CORRUPT, "%s is not a file", file->path);
    if (about.st_size == 0)
        return TROUPE_OK; // Nothing can be mapped, and it is no such file.
    void *bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return trp_fail_errno(TROUPE_IO, "cannot map %s", file->path);
    file->bytes = (unsigned char *)bytes;
    file->size = (size_t)about.st_size;
    return TROUPE_OK;
}

// Where the elements of a tensor are: in the file, or in a copy of those that others have written
// where they cannot be read as what they are.
static troupe_status place(troupe_safetensors *file, const trp_safetensor *tensor,
                           const void **data)
{
    size_t align = troupe_dtype_size(tensor->dtype);
    *data = file->bytes + tensor->offset;
    if (align == 0 || (uintptr_t)*data % align == 0)
        return TROUPE_OK;
    void *block = trp_arena_alloc(&file->arena, tensor->size + TRP_TENSOR_SLACK);
    if (block == NULL)
        return no_memory(file->path);
    *data = memcpy(trp_tensor_aligned(block), *data, tensor->size);
    return TROUPE_OK;
}

static troupe_status take_tensors(troupe_safetensors *file)
{
    size_t count = file->found.count;
    file->data = (const void **)trp_arena_alloc(&file->arena, (count + 1) * sizeof(*file->data));
    if (file->data == NULL)
        return no_memory(file->path);
    for (size_t i = 0; i < count; i++)
        TROUPE_TRY(place(file, &file->found.items[i], &file->data[i]));
    return TROUPE_OK;
}

static troupe_status take_texts(troupe_safetensors *file)
{
    trp_json at = {0}, name, text;
    size_t count = 0;
    while (trp_json_next_member(file->found.metadata, &at, &name, &text))
        count++;
    file->texts =
        (troupe_named_text *)trp_arena_alloc(&file->arena, (count + 1) * sizeof(*file->texts));
    if (file->texts == NULL)
        return no_memory(file->path);
    at = (trp_json){0};
    while (trp_json_next_member(file->found.metadata, &at, &name, &text)) {
        troupe_named_text *to = &file->texts[file->text_count++];
        TROUPE_TRY(trp_json_read(&troupe_type_troupe_text, name, &file->arena, &to->name));
        TROUPE_TRY(trp_json_read(&troupe_type_troupe_text, text, &file->arena, &to->text));
    }
    return TROUPE_OK;
}

static troupe_status read_file(troupe_safetensors *file, const char *path)
{
    char *copy = (char *)trp_arena_alloc(&file->arena, strlen(path) + 1);
    if (copy == NULL)
        return no_memory(path);
    file->path = strcpy(copy, path);
    // A pipe is refused, and not waited for.
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return trp_fail_errno(errno == ENOENT || errno == ENOTDIR ? TROUPE_NOT_FOUND : TROUPE_IO,
                              "cannot open %s", path);
    troupe_status status = map(file, fd);
    close(fd);
    if (status == TROUPE_OK)
        status = trp_safetensors_parse(path, file->bytes, file->size, &file->arena, &file->found);
    if (status == TROUPE_OK)
        status = take_tensors(file);
    return status == TROUPE_OK ? take_texts(file) : status;
}

troupe_status troupe_safetensors_open(const char *path, troupe_safetensors **file)
{
    TRP_REQUIRE(path);
    TRP_REQUIRE(file);
    troupe_safetensors *opened = (troupe_safetensors *)trp_alloc(sizeof(*opened));
    if (opened == NULL)
        return no_memory(path);
    troupe_status status = read_file(opened, path);
    if (status == TROUPE_OK)
        *file = opened;
    else
        troupe_safetensors_close(&opened);
    return status;
}

void troupe_safetensors_close(troupe_safetensors **file)
{
    if (file == NULL || *file == NULL)
        return;
    if ((*file)->bytes != NULL)
        (void)munmap((*file)->bytes, (*file)->size);
    trp_arena_clear(&(*file)->arena);
    trp_free(*file);
    *file = NULL;
}

size_t troupe_safetensors_count(const troupe_safetensors *file)
{
    return TRP_IS_NULL(file) ? 0 : file->found.count;
}

const char *troupe_safetensors_name(const troupe_safetensors *file, size_t index)
{
    return TRP_IS_NULL(file) || index >= file->found.count ? NULL : file->found.items[index].name;
}

troupe_status troupe_safetensors_view(const troupe_safetensors *file, const char *name,
                                      troupe_tensor *tensor)
{
    TRP_REQUIRE(file);
    TRP_REQUIRE(name);
    TRP_REQUIRE(tensor);
    const trp_safetensor *found = trp_safetensors_find(&file->found, name);
    if (found == NULL)
        return troupe_fail(TROUPE_NOT_FOUND, "%s has no tensor '%.200s'", file->path, name);
    return trp_safetensor_value(file->path, found, file->data[found - file->found.items], tensor);
}

const char *troupe_safetensors_text(const troupe_safetensors *file, const char *name)
{
    if (TRP_IS_NULL(file) || TRP_IS_NULL(name))
        return NULL;
    for (size_t i = 0; i < file->text_count; i++)
        if (strcmp(file->texts[i].name, name) == 0)
            return file->texts[i].text;
    return NULL;
}

// ---- writing

typedef struct writing {
    trp_safetensor_source *sources;
    const char **names;
    trp_piece *pieces;
    trp_buffer head;
} writing;

static troupe_status check_text(const char *path, const char *what, const char *text)
{
    if (text == NULL)
        return troupe_fail(TROUPE_INVALID, "%s: expected %s, found a null pointer", path, what);
    size_t size = strlen(text), good = trp_text_good(text, size);
    if (good != size)
        return troupe_fail(TROUPE_INVALID,
                           "%s: expected %s in UTF-8, found another byte after %zu bytes of it",
                           path, what, good);
    return TROUPE_OK;
}

static int compare(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static troupe_status check_names(const char *path, const char **names, size_t count)
{
    if (count > 1)
        qsort((void *)names, count, sizeof(*names), compare);
    for (size_t i = 1; i < count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            return troupe_fail(TROUPE_INVALID, "%s: the name '%.200s' is there twice", path,
                               names[i]);
    return TROUPE_OK;
}

static troupe_status take_source(const char *path, const troupe_named_tensor *from,
                                 trp_safetensor_source *to)
{
    const troupe_tensor *tensor = &from->tensor;
    TROUPE_TRY(check_text(path, "the name of a tensor", from->name));
    if (strcmp(from->name, TRP_SAFETENSORS_METADATA) == 0)
        return troupe_fail(TROUPE_INVALID, "%s: no tensor can have the name '%s'", path,
                           from->name);
    if (tensor->dtype == TROUPE_DTYPE_NONE)
        return troupe_fail(TROUPE_INVALID, "%s: tensor '%.200s' has no element type", path,
                           from->name);
    if (trp_tensor_good(tensor, &to->each) != TROUPE_OK)
        return trp_error_prefix("%s: tensor '%.200s'", path, from->name);
    to->name = from->name;
    to->dtype = tensor->dtype;
    to->ndim = tensor->ndim;
    memcpy(to->shape, tensor->shape, sizeof(to->shape));
    to->data = tensor->data;
    to->count = 1;
    return TROUPE_OK;
}

static troupe_status prepare(writing *w, const char *path, const troupe_named_tensor *tensors,
                             size_t count, const troupe_named_text *texts, size_t text_count)
{
    for (size_t i = 0; i < text_count; i++) {
        TROUPE_TRY(check_text(path, "the name of a text", texts[i].name));
        TROUPE_TRY(check_text(path, "a text", texts[i].text));
        w->names[i] = texts[i].name;
    }
    TROUPE_TRY(check_names(path, w->names, text_count));
    for (size_t i = 0; i < count; i++) {
        TROUPE_TRY(take_source(path, &tensors[i], &w->sources[i]));
        w->names[i] = tensors[i].name;
    }
    return check_names(path, w->names, count);
}

static troupe_status write_out(writing *w, const char *path, size_t count,
                               const troupe_named_text *texts, size_t text_count)
{
    size_t size = 0;
    trp_safetensors_head(w->sources, count, texts, text_count, &w->head, &size);
    if (w->head.failed)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for what goes to %s", path);
    w->pieces[0] = (trp_piece){w->head.data, w->head.size};
    for (size_t i = 0; i < count; i++)
        w->pieces[i + 1] = (trp_piece){w->sources[i].data, w->sources[i].each};
    return trp_file_replace_by(path, w->pieces, count + 1);
}

troupe_status troupe_safetensors_write(const char *path, const troupe_named_tensor *tensors,
                                       size_t count, const troupe_named_text *texts,
                                       size_t text_count)
{
    TRP_REQUIRE(path);
    if (count > 0)
        TRP_REQUIRE(tensors);
    if (text_count > 0)
        TRP_REQUIRE(texts);
    TRP_REQUIRE_COUNT(count, sizeof(trp_safetensor_source));
    TRP_REQUIRE_COUNT(text_count, sizeof(*texts));
    size_t most = count > text_count ? count : text_count;
    writing w = {
        .sources = (trp_safetensor_source *)trp_alloc((count + 1) * sizeof(*w.sources)),
        .names = (const char **)trp_alloc((most + 1) * sizeof(*w.names)),
        .pieces = (trp_piece *)trp_alloc((count + 1) * sizeof(*w.pieces)),
    };
    troupe_status status = TROUPE_OK;
    if (w.sources == NULL || w.names == NULL || w.pieces == NULL)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for what goes to %s", path);
    if (status == TROUPE_OK)
        status = prepare(&w, path, tensors, count, texts, text_count);
    if (status == TROUPE_OK)
        status = write_out(&w, path, count, texts, text_count);
    trp_buffer_free(&w.head);
    trp_free(w.sources);
    trp_free((void *)w.names);
    trp_free(w.pieces);
    return status;
}
