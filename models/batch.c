// batch.c: finds the columns of a batch.
#include <models/batch.h>

#include <runtime/base/buffer.h>
#include <runtime/base/require.h>
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

troupe_status troupe_column(const troupe_batch *batch, const char *name, troupe_dtype dtype,
                            int ndim, troupe_tensor *column)
{
    TRP_REQUIRE(batch);
    TRP_REQUIRE(name);
    TRP_REQUIRE(column);
    const struct troupe_columns *columns = batch->columns_;
    size_t at = 0;
    while (at < columns->count && strcmp(columns->items[at].name, name) != 0)
        at++;
    if (at == columns->count)
        return not_found(columns, name);
    const troupe_tensor *found = &columns->items[at].tensor;
    troupe_status status = troupe_tensor_check(found, dtype, ndim);
    if (status != TROUPE_OK)
        return troupe_fail(status, "column '%s' of a batch: %s", name, troupe_last_error()->text);
    *column = *found;
    return TROUPE_OK;
}
