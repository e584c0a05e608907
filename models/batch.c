// batch.c: finds the columns of a batch.
#include <models/batch.h>

#include <runtime/base/buffer.h>
#include <runtime/base/require.h>
#include <runtime/codec/tensor.h>
#include <stdio.h>
#include <string.h>

static troupe_status not_found(const struct troupe_columns *columns, const char *name)
{
    trp_buffer text = {0};
    trp_buffer_printf(&text, "a batch has no column '%s': it has", name);
    for (size_t i = 0; i < columns->count; i++)
        trp_buffer_printf(&text, "%s%s", i ? ", " : " ", columns->items[i].name);
    trp_buffer_append(&text, columns->count ? "" : " none", columns->count ? 1 : sizeof " none");
    troupe_status status =
        troupe_fail(TROUPE_NOT_FOUND, "%s",
                    text.failed ? "a batch has no such column" : (const char *)text.data);
    trp_buffer_free(&text);
    return status;
}

troupe_status trp_rows_check(const troupe_tensor *rows, const troupe_tensor *like)
{
    TROUPE_TRY(troupe_tensor_check(rows, TROUPE_DTYPE_NONE, TROUPE_DIMS_ANY));
    bool fits = (like->dtype == TROUPE_DTYPE_NONE || rows->dtype == like->dtype) &&
                rows->ndim == like->ndim;
    for (uint32_t i = 1; i < like->ndim && fits; i++)
        fits = like->shape[i] == 0 || rows->shape[i] == like->shape[i];
    if (fits)
        return TROUPE_OK;
    char found[TRP_TENSOR_TEXT], wanted[TRP_TENSOR_TEXT];
    const char *type =
        like->dtype == TROUPE_DTYPE_NONE ? "any type" : troupe_dtype_text(like->dtype);
    size_t used = (size_t)snprintf(wanted, sizeof wanted, "%s[?", type);
    for (uint32_t i = 1; i < like->ndim && used < sizeof wanted; i++)
        used += (size_t)snprintf(wanted + used, sizeof wanted - used,
                                 like->shape[i] ? ",%zu" : ",?", like->shape[i]);
    return troupe_fail(TROUPE_WRONG_TYPE, "%s where %s] was expected", trp_tensor_text(rows, found),
                       wanted);
}

static troupe_status find(const troupe_batch *batch, const char *name, const troupe_tensor **found)
{
    const struct troupe_columns *columns = batch->columns_;
    size_t at = 0;
    while (at < columns->count && strcmp(columns->items[at].name, name) != 0)
        at++;
    if (at == columns->count)
        return not_found(columns, name);
    *found = &columns->items[at].tensor;
    return TROUPE_OK;
}

static troupe_status give(troupe_status checked, const char *name, const troupe_tensor *found,
                          troupe_tensor *column)
{
    if (checked != TROUPE_OK)
        return troupe_fail(checked, "column '%s' of a batch: %s", name, troupe_last_error()->text);
    *column = *found;
    return TROUPE_OK;
}

troupe_status troupe_column(const troupe_batch *batch, const char *name, troupe_dtype dtype,
                            int ndim, troupe_tensor *column)
{
    TRP_REQUIRE(batch);
    TRP_REQUIRE(name);
    TRP_REQUIRE(column);
    const troupe_tensor *found;
    TROUPE_TRY(find(batch, name, &found));
    return give(troupe_tensor_check(found, dtype, ndim), name, found, column);
}

troupe_status troupe_column_like(const troupe_batch *batch, const char *name,
                                 const troupe_tensor *like, troupe_tensor *column)
{
    TRP_REQUIRE(batch);
    TRP_REQUIRE(name);
    TRP_REQUIRE(like);
    TRP_REQUIRE(column);
    if (like->ndim < 1 || like->ndim > TROUPE_DIMS_MAX)
        return troupe_fail(TROUPE_INVALID,
                           "troupe_column_like: %u dimensions for column '%s': expected 1 to %d",
                           like->ndim, name, TROUPE_DIMS_MAX);
    const troupe_tensor *found;
    TROUPE_TRY(find(batch, name, &found));
    return give(trp_rows_check(found, like), name, found, column);
}
