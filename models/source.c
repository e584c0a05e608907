// source.c: see source.h.
#include <models/source.h>

troupe_tensor trp_source_tensor(const trp_source *source, const void *data, size_t rows)
{
    troupe_tensor tensor = {
        .data = data, .dtype = (troupe_dtype)source->dtype, .ndim = (uint32_t)source->ndim};
    for (int i = 0; i < source->ndim; i++)
        tensor.shape[i] = source->shape[i];
    tensor.shape[0] = rows;
    return tensor;
}

troupe_status trp_feed_open(const trp_source *source, trp_feed *feed)
{
    troupe_tensor row = trp_source_tensor(source, NULL, 1), tensor;
    size_t row_bytes = troupe_tensor_stride(&row, 0) * troupe_dtype_size(row.dtype);
    troupe_view view;
    TROUPE_TRY(troupe_view_tensor(source->object, row.dtype, source->ndim, &tensor, &view,
                                  TROUPE_FOREVER));
    *feed = (trp_feed){.source = source,
                       .row_bytes = row_bytes,
                       .rows = (const unsigned char *)tensor.data,
                       .stride = row_bytes,
                       .view = view};
    return TROUPE_OK;
}

void trp_feed_close(trp_feed *feed)
{
    troupe_view_end(&feed->view);
    *feed = (trp_feed){0};
}
