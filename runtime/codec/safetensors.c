// safetensors.c: the header of safetensors files, read and written. Nothing that a header says is
// used before it was checked against the bytes that there are.
#include <runtime/codec/safetensors.h>

#include <endian.h>
#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/codec/tensor.h>
#include <stdlib.h>
#include <string.h>

// What is read in one piece can be used where it lies.
enum { LENGTH_SIZE = 8, DATA_ALIGN = 64 };

// ---- element types

typedef struct element {
    const char *name;
    troupe_dtype dtype;
    unsigned bits;
} element;

static const element elements[] = {
    {"BOOL", TROUPE_BOOL, 8},
    {"U8", TROUPE_UINT8, 8},
    {"I8", TROUPE_INT8, 8},
    {"U16", TROUPE_UINT16, 16},
    {"I16", TROUPE_INT16, 16},
    {"F16", TROUPE_FLOAT16, 16},
    {"BF16", TROUPE_BFLOAT16, 16},
    {"U32", TROUPE_UINT32, 32},
    {"I32", TROUPE_INT32, 32},
    {"F32", TROUPE_FLOAT32, 32},
    {"U64", TROUPE_UINT64, 64},
    {"I64", TROUPE_INT64, 64},
    {"F64", TROUPE_FLOAT64, 64},
    // What a troupe_tensor has no type for can be there all the same.
    {"C64", TROUPE_DTYPE_NONE, 64},
    {"F8_E5M2", TROUPE_DTYPE_NONE, 8},
    {"F8_E4M3", TROUPE_DTYPE_NONE, 8},
    {"F8_E8M0", TROUPE_DTYPE_NONE, 8},
    {"F8_E5M2FNUZ", TROUPE_DTYPE_NONE, 8},
    {"F8_E4M3FNUZ", TROUPE_DTYPE_NONE, 8},
    {"F6_E2M3", TROUPE_DTYPE_NONE, 6},
    {"F6_E3M2", TROUPE_DTYPE_NONE, 6},
    {"F4", TROUPE_DTYPE_NONE, 4},
};
enum { ELEMENTS = sizeof elements / sizeof elements[0] };

static const element *element_named(const char *name)
{
    for (int i = 0; i < ELEMENTS; i++)
        if (strcmp(elements[i].name, name) == 0)
            return &elements[i];
    return NULL;
}

static const char *name_of(troupe_dtype dtype)
{
    for (int i = 0; i < ELEMENTS; i++)
        if (elements[i].dtype == dtype)
            return elements[i].name;
    return "";
}

// ---- reading

// What the header says of a tensor.
TROUPE_STRUCT(description, (troupe_text, dtype), (troupe_array_uint64_t, shape),
              (troupe_array_uint64_t, data_offsets));

typedef struct reading {
    const char *path;
    const unsigned char *data;
    size_t begin, size; // Where what follows the header begins, and how long that is.
    trp_arena *arena;
    trp_safetensor *items;
    size_t count, capacity;
} reading;

static troupe_status no_memory(const reading *r)
{
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for what is in %s", r->path);
}

static troupe_status read_name(const reading *r, trp_json text, const char **name)
{
    troupe_text copy = NULL;
    TROUPE_TRY(trp_json_read(&troupe_type_troupe_text, text, r->arena, &copy));
    *name = copy;
    return TROUPE_OK;
}

// The bytes that a shape takes; false: none that there can be.
static bool measure(const troupe_array_uint64_t *shape, unsigned bits, uint64_t *size)
{
    uint64_t count = 1;
    for (size_t i = 0; i < shape->count; i++)
        if (__builtin_mul_overflow(count, shape->items[i], &count))
            return false;
    if (__builtin_mul_overflow(count, (uint64_t)bits, &count) || count % 8 != 0)
        return false;
    *size = count / 8;
    return true;
}

static bool has_arrays(trp_json text)
{
    trp_json shape, offsets;
    return trp_json_member(text, "shape", &shape) && trp_json_is_array(shape) &&
           trp_json_member(text, "data_offsets", &offsets) && trp_json_is_array(offsets);
}

static troupe_status check_place(const reading *r, const char *name, const description *is,
                                 const element *kind)
{
    uint64_t begin = is->data_offsets.items[0], end = is->data_offsets.items[1], needs = 0;
    if (begin > end || end > r->size)
        return troupe_fail(TROUPE_CORRUPT,
                           "%s is damaged: tensor '%.200s' is at bytes %" PRIu64 " to %" PRIu64
                           " of its data, which has %zu",
                           r->path, name, begin, end, r->size);
    if (!measure(&is->shape, kind->bits, &needs) || needs != end - begin)
        return troupe_fail(TROUPE_CORRUPT,
                           "%s is damaged: tensor '%.200s' has %" PRIu64
                           " bytes, which are not those of its type %s and its shape",
                           r->path, name, end - begin, kind->name);
    return TROUPE_OK;
}

static troupe_status add(reading *r, const trp_safetensor *tensor)
{
    if (r->count == r->capacity) {
        size_t capacity = r->capacity > 0 ? 2 * r->capacity : 16;
        trp_safetensor *grown =
            (trp_safetensor *)trp_realloc(r->items, capacity * sizeof(*r->items));
        if (grown == NULL)
            return no_memory(r);
        r->items = grown;
        r->capacity = capacity;
    }
    r->items[r->count++] = *tensor;
    return TROUPE_OK;
}

static troupe_status read_tensor(reading *r, const char *name, trp_json text)
{
    description is = {0};
    const element *kind = NULL;
    troupe_status status = trp_json_read(&troupe_type_description, text, r->arena, &is);
    if (status == TROUPE_NO_MEMORY)
        return status;
    if (status != TROUPE_OK || !has_arrays(text) || is.dtype == NULL || is.data_offsets.count != 2)
        return troupe_fail(TROUPE_CORRUPT,
                           "%s is damaged: of tensor '%.200s' it does not say \"dtype\", \"shape\" "
                           "and the two \"data_offsets\"",
                           r->path, name);
    kind = element_named(is.dtype);
    if (kind == NULL)
        return troupe_fail(TROUPE_CORRUPT,
                           "%s is damaged: tensor '%.200s' has the unknown element type '%.32s'",
                           r->path, name, is.dtype);
    TROUPE_TRY(check_place(r, name, &is, kind));
    return add(r, &(trp_safetensor){
                      .name = name,
                      .type = kind->name,
                      .dtype = kind->dtype,
                      .ndim = is.shape.count,
                      .shape = is.shape.items,
                      .offset = r->begin + is.data_offsets.items[0],
                      .size = is.data_offsets.items[1] - is.data_offsets.items[0],
                  });
}

static troupe_status check_metadata(const reading *r, trp_json texts)
{
    trp_json at = {0}, name, value;
    bool good = trp_json_is_object(texts);
    while (good && trp_json_next_member(texts, &at, &name, &value))
        good = trp_json_is_text(value);
    if (!good)
        return troupe_fail(TROUPE_CORRUPT,
                           "%s is damaged: its \"" TRP_SAFETENSORS_METADATA
                           "\" is not an object of texts",
                           r->path);
    return TROUPE_OK;
}

// Any other byte in a bool is undefined behaviour for its reader.
static troupe_status check_bools(const reading *r, const trp_safetensor *tensor)
{
    const unsigned char *bytes = r->data + tensor->offset;
    for (size_t i = 0; tensor->dtype == TROUPE_BOOL && i < tensor->size; i++)
        if (bytes[i] > 1)
            return troupe_fail(TROUPE_CORRUPT,
                               "%s is damaged: tensor '%.200s' of bools has %u as element %zu",
                               r->path, tensor->name, bytes[i], i);
    return TROUPE_OK;
}

static int compare_places(const void *left, const void *right)
{
    const trp_safetensor *a = (const trp_safetensor *)left, *b = (const trp_safetensor *)right;
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    return (a->size > b->size) - (a->size < b->size); // Those without a byte first.
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(((const trp_safetensor *)left)->name, ((const trp_safetensor *)right)->name);
}

// That the tensors fill the data, one behind the other.
static troupe_status check_places(reading *r)
{
    size_t end = r->begin;
    if (r->count > 1)
        qsort(r->items, r->count, sizeof(*r->items), compare_places);
    for (size_t i = 0; i < r->count; i++) {
        const trp_safetensor *tensor = &r->items[i];
        if (tensor->offset != end)
            return troupe_fail(TROUPE_CORRUPT,
                               "%s is damaged: tensor '%.200s' begins at byte %zu of the file, the "
                               "one before it ends at byte %zu",
                               r->path, tensor->name, tensor->offset, end);
        TROUPE_TRY(check_bools(r, tensor));
        end += tensor->size;
    }
    if (end != r->begin + r->size)
        return troupe_fail(TROUPE_CORRUPT,
                           "%s is damaged: its tensors end at byte %zu of %zu, expected none behind"
                           " them",
                           r->path, end, r->begin + r->size);
    return TROUPE_OK;
}

static troupe_status read_header(reading *r, trp_json header, trp_json *metadata)
{
    trp_json at = {0}, quoted, value;
    while (trp_json_next_member(header, &at, &quoted, &value)) {
        const char *name = NULL;
        if (trp_json_equals(quoted, TRP_SAFETENSORS_METADATA)) {
            TROUPE_TRY(check_metadata(r, value));
            *metadata = value;
            continue;
        }
        TROUPE_TRY(read_name(r, quoted, &name));
        TROUPE_TRY(read_tensor(r, name, value));
    }
    return check_places(r);
}

static troupe_status keep(reading *r, trp_safetensors *file)
{
    size_t size = r->count * sizeof(*r->items);
    if (r->count == 0)
        return TROUPE_OK;
    trp_safetensor *kept = (trp_safetensor *)trp_arena_alloc(r->arena, size);
    if (kept == NULL)
        return no_memory(r);
    qsort(r->items, r->count, sizeof(*r->items), compare_names);
    file->items = (const trp_safetensor *)memcpy(kept, r->items, size);
    file->count = r->count;
    return TROUPE_OK;
}

troupe_status trp_safetensors_parse(const char *path, const void *data, size_t size,
                                    trp_arena *arena, trp_safetensors *file)
{
    uint64_t length = 0;
    trp_json header;
    if (size < LENGTH_SIZE)
        return troupe_fail(TROUPE_CORRUPT,
                           "%s is damaged: it has %zu bytes, the length of its header alone %d",
                           path, size, LENGTH_SIZE);
    memcpy(&length, data, LENGTH_SIZE);
    length = le64toh(length);
    if (length > size - LENGTH_SIZE)
        return troupe_fail(TROUPE_CORRUPT,
                           "%s is damaged: it has %zu bytes, its header would have %" PRIu64, path,
                           size, length);
    const char *text = (const char *)data + LENGTH_SIZE;
    troupe_status status = trp_json_parse(text, length, &header);
    if (status == TROUPE_NO_MEMORY)
        return status;
    if (status != TROUPE_OK || text[0] != '{')
        return troupe_fail(TROUPE_CORRUPT, "%s is damaged: its header is no JSON object%s%s", path,
                           status != TROUPE_OK ? ": " : "",
                           status != TROUPE_OK ? troupe_last_error()->text : "");
    trp_safetensors found = {0};
    reading r = {.path = path,
                 .data = (const unsigned char *)data,
                 .begin = LENGTH_SIZE + length,
                 .size = size - LENGTH_SIZE - length,
                 .arena = arena};
    status = read_header(&r, header, &found.metadata);
    if (status == TROUPE_OK)
        status = keep(&r, &found);
    trp_free(r.items);
    if (status == TROUPE_OK)
        *file = found;
    return status;
}

const trp_safetensor *trp_safetensors_find(const trp_safetensors *file, const char *name)
{
    trp_safetensor key = {.name = name};
    return file->count == 0 ? NULL
                            : (const trp_safetensor *)bsearch(&key, file->items, file->count,
                                                              sizeof(key), compare_names);
}

troupe_status trp_safetensor_value(const char *path, const trp_safetensor *tensor, const void *data,
                                   troupe_tensor *value)
{
    size_t size = 0;
    troupe_tensor is = {.data = tensor->size > 0 ? data : NULL,
                        .dtype = tensor->dtype,
                        .ndim = (uint32_t)tensor->ndim};
    for (size_t i = 0; i < tensor->ndim && i < TROUPE_DIMS_MAX; i++)
        is.shape[i] = tensor->shape[i];
    // A shape with a 0 in it takes no bytes, whatever its other extents are.
    if (is.dtype == TROUPE_DTYPE_NONE || tensor->ndim > TROUPE_DIMS_MAX ||
        trp_tensor_size(&is, &size) != TROUPE_OK)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "%s: tensor '%.200s' has elements of type %s and %zu dimensions, which a"
                           " troupe_tensor cannot have",
                           path, tensor->name, tensor->type, tensor->ndim);
    *value = is;
    return TROUPE_OK;
}

// ---- writing

static bool keeps_alignment(const trp_safetensor_source *tensor)
{
    enum { ALIGNED = 16 };
    return tensor->each * tensor->count % ALIGNED == 0;
}

// So that each is aligned to its width, and those behind which all is aligned to 16 bytes are so.
static int compare_sources(const void *left, const void *right)
{
    const trp_safetensor_source *a = (const trp_safetensor_source *)left;
    const trp_safetensor_source *b = (const trp_safetensor_source *)right;
    if (keeps_alignment(a) != keeps_alignment(b))
        return keeps_alignment(a) ? -1 : 1;
    size_t wide = troupe_dtype_size(a->dtype), narrow = troupe_dtype_size(b->dtype);
    if (wide != narrow)
        return wide > narrow ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

static void write_metadata(trp_buffer *out, const troupe_named_text *metadata, size_t texts)
{
    trp_buffer_printf(out, "\"" TRP_SAFETENSORS_METADATA "\":{");
    for (size_t i = 0; i < texts; i++) {
        if (i > 0)
            trp_buffer_append(out, ",", 1);
        trp_json_text(out, metadata[i].name);
        trp_buffer_append(out, ":", 1);
        trp_json_text(out, metadata[i].text);
    }
    trp_buffer_append(out, "}", 1);
}

static void write_tensor(trp_buffer *out, const trp_safetensor_source *tensor)
{
    trp_json_text(out, tensor->name);
    trp_buffer_printf(out, ":{\"dtype\":\"%s\",\"shape\":[", name_of(tensor->dtype));
    for (uint32_t i = 0; i < tensor->ndim; i++)
        trp_buffer_printf(out, "%s%zu", i > 0 ? "," : "", tensor->shape[i]);
    trp_buffer_printf(out, "],\"data_offsets\":[%zu,%zu]}", tensor->offset,
                      tensor->offset + tensor->each * tensor->count);
}

void trp_safetensors_head(trp_safetensor_source *tensors, size_t count,
                          const troupe_named_text *metadata, size_t texts, trp_buffer *out,
                          size_t *size)
{
    static const char none[LENGTH_SIZE] = {0};
    size_t at = 0;
    for (size_t i = 0; i < count; i++)
        tensors[i].order = i;
    if (count > 1)
        qsort(tensors, count, sizeof(*tensors), compare_sources);
    trp_buffer_append(out, none, LENGTH_SIZE);
    trp_buffer_append(out, "{", 1);
    if (texts > 0)
        write_metadata(out, metadata, texts);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 || texts > 0)
            trp_buffer_append(out, ",", 1);
        tensors[i].offset = at;
        at += tensors[i].each * tensors[i].count;
        write_tensor(out, &tensors[i]);
    }
    trp_buffer_append(out, "}", 1);
    while (out->size % DATA_ALIGN != 0 && !out->failed)
        trp_buffer_append(out, " ", 1);
    if (out->failed)
        return;
    uint64_t length = htole64(out->size - LENGTH_SIZE);
    memcpy(out->data, &length, LENGTH_SIZE);
    for (size_t i = 0; i < count; i++)
        tensors[i].offset += out->size;
    *size = out->size + at;
}
