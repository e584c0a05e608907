// source.c: the columns of a set on a rank: see source.h.
#include <models/source.h>

#include <inttypes.h>
#include <runtime/base/error.h>
#include <string.h>

// Rows that are shuffled lie anywhere: to wait for one after the other would take most of the time.
enum { AHEAD = 4, LINE = 64, PREFETCHED = 1024 };

troupe_tensor trp_source_tensor(const trp_source *source, const void *data, size_t rows)
{
    troupe_tensor tensor = {
        .data = data, .dtype = (troupe_dtype)source->dtype, .ndim = (uint32_t)source->ndim};
    for (int i = 0; i < source->ndim; i++)
        tensor.shape[i] = source->shape[i];
    tensor.shape[0] = rows;
    return tensor;
}

static troupe_status open_object(const trp_source *source, trp_feed *feed)
{
    troupe_tensor tensor;
    TROUPE_TRY(troupe_view_tensor(source->object, (troupe_dtype)source->dtype, source->ndim,
                                  &tensor, &feed->view, TROUPE_FOREVER));
    feed->rows = (const unsigned char *)tensor.data;
    feed->stride = feed->row_bytes;
    return TROUPE_OK;
}

static troupe_status open_file(const trp_source *source, trp_feed *feed)
{
    TROUPE_TRY(trp_mapping_open(source->path, &feed->mapping));
    feed->rows = feed->mapping.bytes + source->offset;
    feed->stride = source->stride;
    return trp_feed_check(feed);
}

static troupe_status open_generator(const trp_source *source, trp_feed *feed)
{
    feed->generator = trp_generator_find(source->generator, source->schema);
    if (!feed->generator)
        return troupe_last_error()->status;
    const troupe_type *type = feed->generator->config;
    feed->config = trp_arena_alloc(&feed->arena, type->size);
    if (!feed->config)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the config of the generator '%s'",
                           source->generator);
    trp_arena *before = trp_arena_swap(&feed->arena);
    troupe_status status =
        troupe_unpack_as(type, source->config.data, source->config.size, feed->config);
    trp_arena_swap(before);
    return status;
}

troupe_status trp_feed_open(const trp_source *source, trp_feed *feed)
{
    troupe_tensor row = trp_source_tensor(source, NULL, 1);
    trp_feed made = {.source = source,
                     .row_bytes = troupe_tensor_stride(&row, 0) * troupe_dtype_size(row.dtype)};
    troupe_status status = TROUPE_OK;
    if (source->kind == TRP_SOURCE_OBJECT)
        status = open_object(source, &made);
    else if (source->kind == TRP_SOURCE_FILE)
        status = open_file(source, &made);
    else
        status = open_generator(source, &made);
    if (status != TROUPE_OK) {
        trp_feed_close(&made);
        return status;
    }
    *feed = made;
    return TROUPE_OK;
}

troupe_status trp_feed_check(const trp_feed *feed)
{
    const trp_file_stamp then = {feed->source->bytes, feed->source->changed_ns};
    return feed->mapping.bytes ? trp_mapping_check(&feed->mapping, &then) : TROUPE_OK;
}

static troupe_status generate(const trp_feed *feed, const int64_t *order, size_t rows,
                              unsigned char *out)
{
    for (size_t i = 0; i < rows; i++) {
        troupe_status status =
            feed->generator->fill(feed->config, order[i], out + i * feed->row_bytes);
        if (status != TROUPE_OK) {
            if (troupe_last_error()->status != status)
                (void)troupe_fail(status, "%s", troupe_strerror(status));
            return trp_error_prefix("row %" PRId64 " of the generator '%s'", order[i],
                                    feed->generator->name);
        }
    }
    return TROUPE_OK;
}

// Asks for the beginning of a row that is copied soon: what follows, the CPU sees coming.
static inline void prefetch(const unsigned char *row, size_t size)
{
    size = size < PREFETCHED ? size : PREFETCHED;
    for (size_t at = 0; at < size; at += LINE)
        __builtin_prefetch(row + at);
}

static void gather(const trp_feed *feed, const int64_t *order, size_t rows, unsigned char *to)
{
    size_t size = feed->row_bytes;
    for (size_t i = 0; i < rows; i++) {
        if (i + AHEAD < rows)
            prefetch(feed->rows + (size_t)order[i + AHEAD] * feed->stride, size);
        memcpy(to + i * size, feed->rows + (size_t)order[i] * feed->stride, size);
    }
}

// Rows of a size that the compiler knows: a call of memcpy for each would take most of the time.
static inline void gather_small(const trp_feed *feed, const int64_t *order, size_t rows,
                                size_t size, unsigned char *to)
{
    for (size_t i = 0; i < rows; i++)
        memcpy(to + i * size, feed->rows + (size_t)order[i] * feed->stride, size);
}

troupe_status trp_feed_gather(const trp_feed *feed, const int64_t *order, size_t rows, void *out)
{
    unsigned char *to = (unsigned char *)out;
    if (!feed->rows)
        return generate(feed, order, rows, to);
    if (feed->row_bytes == 1)
        gather_small(feed, order, rows, 1, to);
    else if (feed->row_bytes == 4)
        gather_small(feed, order, rows, 4, to);
    else if (feed->row_bytes == 8)
        gather_small(feed, order, rows, 8, to);
    else
        gather(feed, order, rows, to);
    return TROUPE_OK;
}

void trp_feed_close(trp_feed *feed)
{
    troupe_view_end(&feed->view);
    trp_mapping_close(&feed->mapping);
    trp_arena_clear(&feed->arena);
    *feed = (trp_feed){0};
}
