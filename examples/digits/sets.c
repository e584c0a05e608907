// sets.c: see sets.h.
#include "sets.h"

static troupe_status put_images(const digits *data, const digits_set *set, troupe_ref *ref)
{
    const troupe_tensor like = {
        .dtype = TROUPE_UINT8, .ndim = 3, .shape = {set->count, data->height, data->width}};
    troupe_buffer buffer;
    TROUPE_TRY(troupe_tensor_create(&like, &buffer));
    digits_copy(data, set, buffer.data, NULL);
    return troupe_buffer_seal(&buffer, ref);
}

static troupe_status put_digits(const digits *data, const digits_set *set, troupe_ref *ref)
{
    const troupe_tensor like = {.dtype = TROUPE_UINT8, .ndim = 1, .shape = {set->count}};
    troupe_buffer buffer;
    TROUPE_TRY(troupe_tensor_create(&like, &buffer));
    digits_copy(data, set, NULL, buffer.data);
    return troupe_buffer_seal(&buffer, ref);
}

troupe_status digits_sets_put(const digits *data, digits_sets *sets)
{
    *sets = (digits_sets){.train_rows = (int64_t)data->train.count};
    troupe_status status = put_images(data, &data->train, &sets->train_images);
    if (status == TROUPE_OK)
        status = put_digits(data, &data->train, &sets->train_digits);
    if (status == TROUPE_OK)
        status = put_images(data, &data->validation, &sets->valid_images);
    if (status == TROUPE_OK)
        status = put_digits(data, &data->validation, &sets->valid_digits);
    if (status != TROUPE_OK)
        digits_sets_drop(sets);
    return status;
}

void digits_sets_drop(digits_sets *sets)
{
    troupe_ref_drop(sets->train_images);
    troupe_ref_drop(sets->train_digits);
    troupe_ref_drop(sets->valid_images);
    troupe_ref_drop(sets->valid_digits);
    *sets = (digits_sets){0};
}

TROUPE_STRUCT(row_from, (int64_t, first));
static troupe_status fill_row(const row_from *from, int64_t row, void *out)
{
    *(int64_t *)out = from->first + row;
    return TROUPE_OK;
}
TROUPE_GENERATOR(row_number, row_from, fill_row);

troupe_status digits_setup(troupe_data *data, const digits_sets *sets)
{
    TROUPE_TRY(troupe_data_columns(data, "train", TROUPE_SPLIT,
                                   troupe_from_tensor("image", troupe_ref_keep(sets->train_images)),
                                   troupe_from_tensor("digit", troupe_ref_keep(sets->train_digits)),
                                   troupe_from_generator("row", row_number, &(row_from){0},
                                                         TROUPE_INT64, (size_t)sets->train_rows)));
    return troupe_data_columns(data, "valid", TROUPE_SPLIT,
                               troupe_from_tensor("image", troupe_ref_keep(sets->valid_images)),
                               troupe_from_tensor("digit", troupe_ref_keep(sets->valid_digits)));
}
