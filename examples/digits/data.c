// data.c: loads the digits and divides them into the three sets. The division depends on the file
// and the seed alone, so that every worker process and the final test agree on it without a word.
#include "data.h"

#include "format.h"
#include "random.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static troupe_status make_sets(const char *path, digits *data)
{
    digits_set *sets[] = {&data->train, &data->validation, &data->test};
    for (size_t i = 0; i < 3; i++) {
        sets[i]->count = 0;
        sets[i]->rows = malloc(data->count * sizeof(uint32_t));
        if (!sets[i]->rows)
            return troupe_fail(TROUPE_NO_MEMORY, "%s: no memory for %zu images", path, data->count);
    }
    return TROUPE_OK;
}

static void set_add(digits_set *set, const uint32_t *rows, size_t count)
{
    memcpy(set->rows + set->count, rows, count * sizeof *rows);
    set->count += count;
}

// Divides every class alike, so that each set has the same share of each digit.
static void divide_by_class(digits *data, uint64_t random, uint32_t *rows)
{
    for (int class = 0; class < DIGITS_CLASSES; class ++) {
        size_t count = 0;
        for (size_t row = 0; row < data->count; row++)
            if (data->labels[row] == class)
                rows[count++] = (uint32_t)row;
        random_shuffle(&random, rows, count);
        size_t held_out = count / 5;
        size_t learnt = count - 2 * held_out;
        set_add(&data->train, rows, learnt);
        set_add(&data->validation, rows + learnt, held_out);
        set_add(&data->test, rows + learnt + held_out, held_out);
    }
}

// Keeps the makers' own test images apart and validates on a sixth of the others.
static void divide_by_pair(digits *data, size_t train_count, uint64_t random, uint32_t *rows)
{
    for (size_t row = 0; row < data->count; row++)
        rows[row] = (uint32_t)row;
    random_shuffle(&random, rows, train_count);
    size_t held_out = train_count / 6;
    set_add(&data->train, rows, train_count - held_out);
    set_add(&data->validation, rows + train_count - held_out, held_out);
    set_add(&data->test, rows + train_count, data->count - train_count);
}

static troupe_status load(const char *path, uint64_t seed, digits *data)
{
    struct stat info;
    bool folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    size_t train_count = 0;
    if (folder)
        TROUPE_TRY(format_read_idx(path, data, &train_count));
    else
        TROUPE_TRY(format_read_csv(path, data));

    TROUPE_TRY(make_sets(path, data));
    uint32_t *rows = malloc(data->count * sizeof *rows);
    if (!rows)
        return troupe_fail(TROUPE_NO_MEMORY, "%s: no memory for %zu images", path, data->count);
    if (folder)
        divide_by_pair(data, train_count, seed, rows);
    else
        divide_by_class(data, seed, rows);
    free(rows);
    if (data->validation.count == 0 || data->test.count == 0)
        return troupe_fail(TROUPE_MALFORMED,
                           "%s: %zu images are too few to hold some out for validation and test",
                           path, data->count);
    return TROUPE_OK;
}

troupe_status digits_load(const char *path, uint64_t seed, digits *data)
{
    memset(data, 0, sizeof *data);
    if (!path || !*path)
        return troupe_fail(TROUPE_INVALID, "no data was named: expected a file or a folder");
    troupe_status status = load(path, seed, data);
    if (status != TROUPE_OK)
        digits_free(data);
    return status;
}

void digits_free(digits *data)
{
    free(data->pixels);
    free(data->labels);
    free(data->train.rows);
    free(data->validation.rows);
    free(data->test.rows);
    memset(data, 0, sizeof *data);
}

void digits_gather(const digits *data, const uint32_t *rows, size_t count, float *pixels,
                   uint8_t *labels)
{
    for (size_t i = 0; i < count; i++) {
        const uint8_t *image = data->pixels + rows[i] * data->inputs;
        for (size_t j = 0; j < data->inputs; j++)
            *pixels++ = (float)image[j] / (float)data->brightest;
        labels[i] = data->labels[rows[i]];
    }
}

void digits_copy(const digits *data, const digits_set *set, uint8_t *pixels, uint8_t *labels)
{
    for (size_t i = 0; i < set->count; i++) {
        size_t row = set->rows[i];
        if (pixels)
            memcpy(pixels + i * data->inputs, data->pixels + row * data->inputs, data->inputs);
        if (labels)
            labels[i] = data->labels[row];
    }
}

void digits_nudge(const digits *data, float *image, uint64_t dice)
{
    size_t wide = data->width, all = data->inputs;
    switch (dice % 8) {
    case 0: // Down.
        memmove(image + wide, image, (all - wide) * sizeof *image);
        memset(image, 0, wide * sizeof *image);
        break;
    case 1: // Up.
        memmove(image, image + wide, (all - wide) * sizeof *image);
        memset(image + all - wide, 0, wide * sizeof *image);
        break;
    case 2: // Right: the pixel that falls out of a row on one side comes in on the other, as zero.
        memmove(image + 1, image, (all - 1) * sizeof *image);
        for (size_t i = 0; i < all; i += wide)
            image[i] = 0;
        break;
    case 3: // Left.
        memmove(image, image + 1, (all - 1) * sizeof *image);
        for (size_t i = wide - 1; i < all; i += wide)
            image[i] = 0;
        break;
    default:
        break;
    }
}
