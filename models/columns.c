// columns.c: names a set that consists of columns, in a setup of data (troupe/data.h).
#include <models/source.h>

#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <runtime/base/require.h>
#include <string.h>

enum { NAME_MAX_BYTES = 63 };

// ---- what each source is

// Looks at a tensor, which has its type and shape with it.
static troupe_status look_at_tensor(const troupe_from *from, trp_source *source)
{
    troupe_tensor tensor;
    troupe_view view;
    TROUPE_TRY(troupe_view_tensor(from->object, TROUPE_DTYPE_NONE, TROUPE_DIMS_ANY, &tensor, &view,
                                  TROUPE_FOREVER));
    source->kind = TRP_SOURCE_OBJECT;
    source->dtype = (int)tensor.dtype;
    source->ndim = (int)tensor.ndim;
    memcpy(source->shape, tensor.shape, sizeof source->shape);
    source->object = from->object;
    troupe_view_end(&view);
    return TROUPE_OK;
}

static troupe_status look_at(trp_look *look, const troupe_from *from, trp_source *source)
{
    *source = (trp_source){.column = from->column};
    switch (from->kind_) {
    case TROUPE_FROM_TENSOR_:
        return look_at_tensor(from, source);
    case TROUPE_FROM_IDX_:
        return trp_look_at_idx(look, from, source);
    case TROUPE_FROM_CSV_:
        return trp_look_at_csv(look, from, source);
    case TROUPE_FROM_SAFETENSORS_:
        return trp_look_at_safetensors(look, from, source);
    case TROUPE_FROM_TOKENS_:
        return trp_look_at_tokens(look, from, source);
    case TROUPE_FROM_GENERATOR_:
        return trp_look_at_generator(look, from, source);
    default:
        return troupe_fail(TROUPE_INVALID,
                           "it comes from kind %d: expected troupe_from_tensor, ...", from->kind_);
    }
}

// ---- what they are together

static troupe_status check_name(const trp_sources *sources, const char *name)
{
    size_t length = name ? strlen(name) : 0;
    if (length < 1 || length > NAME_MAX_BYTES)
        return troupe_fail(TROUPE_INVALID, "the name is '%.80s': expected 1 to %d bytes",
                           name ? name : "", NAME_MAX_BYTES);
    for (size_t i = 0; i < sources->columns.count; i++)
        if (strcmp(sources->columns.items[i].column, name) == 0)
            return troupe_fail(TROUPE_INVALID, "there is a column of that name already");
    return TROUPE_OK;
}

static troupe_status check_rows(const trp_sources *sources, const trp_source *next)
{
    if (next->ndim < 1)
        return troupe_fail(TROUPE_INVALID, "it has no dimension: the first one are the rows");
    int64_t rows = next->shape[0] > INT64_MAX ? INT64_MAX : (int64_t)next->shape[0];
    if (rows == 0)
        return troupe_fail(TROUPE_INVALID, "it has no rows: expected one at least");
    if (sources->columns.count > 0 && rows != sources->rows)
        return troupe_fail(TROUPE_INVALID, "it has %" PRId64 " rows where '%s' has %" PRId64, rows,
                           sources->columns.items[0].column, sources->rows);
    return TROUPE_OK;
}

static troupe_status add(trp_look *look, trp_sources *sources, const troupe_from *from,
                         trp_source *next)
{
    TROUPE_TRY(check_name(sources, from->column));
    TROUPE_TRY(look_at(look, from, next));
    TROUPE_TRY(check_rows(sources, next));
    sources->rows = (int64_t)next->shape[0];
    sources->columns.count++;
    return TROUPE_OK;
}

static troupe_status name_set(trp_look *look, troupe_data *data, const char *key,
                              troupe_sharing how, const troupe_from *columns, size_t count,
                              trp_source *items)
{
    trp_sources sources = {.columns = {.items = items}};
    for (size_t i = 0; i < count; i++) {
        troupe_from from;
        const troupe_from *theirs = (const troupe_from *)trp_row_at(columns, i);
        TROUPE_TRY(TRP_OPTIONS_TAKE("a column of troupe_data_columns", from, theirs));
        if (add(look, &sources, &from, &items[i]) != TROUPE_OK)
            return trp_error_prefix("column '%.63s' of the set '%.63s'",
                                    from.column ? from.column : "", key);
    }
    return troupe_data_set(data, key, troupe_put(trp_sources, &sources), sources.rows, how);
}

troupe_status troupe_data_columns_from(troupe_data *data, const char *key, troupe_sharing how,
                                       const troupe_from *columns, size_t count)
{
    TRP_REQUIRE(data);
    TRP_REQUIRE(key);
    TRP_REQUIRE(columns);
    TRP_REQUIRE_COUNT(count, sizeof(trp_source));
    if (count == 0)
        return troupe_fail(TROUPE_INVALID, "the set '%.63s' has no columns: expected one at least",
                           key);
    trp_look look = {0};
    trp_source *items = (trp_source *)trp_alloc(count * sizeof *items);
    troupe_status status =
        items ? name_set(&look, data, key, how, columns, count, items)
              : troupe_fail(TROUPE_NO_MEMORY, "no memory for the columns of the set '%.63s'", key);
    troupe_error said;
    trp_error_hold(&said);
    for (size_t i = 0; i < count; i++) {
        troupe_ref given = ((const troupe_from *)trp_row_at(columns, i))->object;
        if (items && items[i].object.id != given.id)
            troupe_ref_drop(items[i].object); // It was made for the set.
        troupe_ref_drop(given);
    }
    trp_look_end(&look);
    trp_free(items);
    trp_error_restore(&said);
    return status;
}
