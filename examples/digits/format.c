// format.c: reads CSV and IDX files, plain or gzipped, and believes nothing that they say: every
// length is checked against the bytes that are there, every value against its range.
#include "format.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum {
    CSV_SIDE = 8,
    CSV_INPUTS = CSV_SIDE * CSV_SIDE,
    CSV_PIXEL_MAX = 16,
    IDX_PIXEL_MAX = 255,
    IDX_SIDE_MAX = 1024,
    PATH_BYTES = 4096,
};
// A file that unpacks to more than this is refused: MNIST, the largest expected, has 47 MB.
static const size_t file_bytes_max = (size_t)1 << 30;

typedef struct file {
    char path[PATH_BYTES];
    uint8_t *bytes; // One NUL beyond the end, so that text can be scanned.
    size_t size;
} file;

static void file_free(file *f)
{
    free(f->bytes);
    f->bytes = NULL;
    f->size = 0;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

// Reads what is left of `gz` into f->bytes; zlib passes files that are not gzip through as they
// are.
static troupe_status file_fill(file *f, gzFile gz)
{
    size_t room = (size_t)1 << 16;
    for (;;) {
        uint8_t *grown = realloc(f->bytes, room + 1);
        if (!grown)
            return troupe_fail(TROUPE_NO_MEMORY, "%s: no memory to read it", f->path);
        f->bytes = grown;
        int got = gzread(gz, f->bytes + f->size, (unsigned)(room - f->size));
        if (got < 0)
            break;
        f->size += (size_t)got;
        if (f->size < room)
            break;
        if (room >= file_bytes_max)
            return troupe_fail(TROUPE_TOO_LARGE, "%s: more than %zu bytes", f->path, room);
        room *= 2;
    }
    f->bytes[f->size] = 0;
    int code;
    const char *text = gzerror(gz, &code);
    if (code == Z_BUF_ERROR)
        return troupe_fail(TROUPE_CORRUPT, "%s: the compressed data end too early", f->path);
    if (code == Z_ERRNO)
        return troupe_fail(TROUPE_IO, "%s: %s", f->path, strerror(errno));
    if (code != Z_OK && code != Z_STREAM_END)
        return troupe_fail(TROUPE_CORRUPT, "%s: damaged compressed data: %s", f->path, text);
    if (f->size == 0)
        return troupe_fail(TROUPE_MALFORMED, "%s: the file is empty", f->path);
    if (gzdirect(gz) && ends_with(f->path, ".gz"))
        return troupe_fail(TROUPE_MALFORMED, "%s: not a gzip file, as its name says", f->path);
    return TROUPE_OK;
}

// Reads the whole file at f->path, which the caller has set.
static troupe_status file_read(file *f)
{
    struct stat info;
    if (stat(f->path, &info) != 0)
        return troupe_fail(errno == ENOENT ? TROUPE_NOT_FOUND : TROUPE_IO, "%s: %s", f->path,
                           strerror(errno));
    if (!S_ISREG(info.st_mode))
        return troupe_fail(TROUPE_INVALID, "%s: not a regular file", f->path);
    gzFile gz = gzopen(f->path, "rb");
    if (!gz)
        return troupe_fail(TROUPE_IO, "%s: %s", f->path, strerror(errno));
    troupe_status status = file_fill(f, gz);
    (void)gzclose_r(gz); // What it could tell was asked before.
    if (status != TROUPE_OK)
        file_free(f);
    return status;
}

// Makes room for `count` more images.
static troupe_status grow(digits *data, size_t count, const char *path)
{
    size_t total = data->count + count;
    if (total > UINT32_MAX)
        return troupe_fail(TROUPE_TOO_LARGE, "%s: more than %u images", path, UINT32_MAX);
    uint8_t *pixels = reallocarray(data->pixels, total, data->inputs);
    if (pixels)
        data->pixels = pixels;
    uint8_t *labels = reallocarray(data->labels, total, 1);
    if (labels)
        data->labels = labels;
    if (!pixels || !labels)
        return troupe_fail(TROUPE_NO_MEMORY, "%s: no memory for %zu images", path, total);
    return TROUPE_OK;
}

// ---- CSV

// Reads the digits of a small whole number; moves *at beyond them. Negative: there is none.
static int read_number(const char **at)
{
    const char *first = *at;
    int value = 0;
    while (**at >= '0' && **at <= '9' && *at - first < 6)
        value = value * 10 + (*(*at)++ - '0');
    return *at == first ? -1 : value;
}

// Reads one row, which ends at `end`, as the image number data->count.
static troupe_status csv_row(const char *path, size_t line, const char *at, const char *end,
                             digits *data)
{
    size_t columns = 1;
    for (const char *c = at; c < end; c++)
        columns += *c == ',';
    if (columns != CSV_INPUTS + 1)
        return troupe_fail(TROUPE_MALFORMED, "%s: line %zu has %zu columns instead of %d", path,
                           line, columns, CSV_INPUTS + 1);
    uint8_t *pixels = data->pixels + data->count * data->inputs;
    for (size_t column = 0; column <= CSV_INPUTS; column++) {
        const char *first = at;
        int value = read_number(&at);
        if (value < 0 || (column < CSV_INPUTS ? *at != ',' : at != end)) {
            int length = (int)strcspn(first, ",\r\n");
            return troupe_fail(TROUPE_MALFORMED,
                               "%s: line %zu, column %zu: '%.*s' is not a whole number", path, line,
                               column + 1, length < 40 ? length : 40, first);
        }
        at++;
        if (column == CSV_INPUTS) {
            if (value >= DIGITS_CLASSES)
                return troupe_fail(TROUPE_MALFORMED, "%s: line %zu: the label %d is not 0 to %d",
                                   path, line, value, DIGITS_CLASSES - 1);
            data->labels[data->count] = (uint8_t)value;
        } else {
            if (value > CSV_PIXEL_MAX)
                return troupe_fail(TROUPE_MALFORMED,
                                   "%s: line %zu, column %zu: the pixel %d is not 0 to %d", path,
                                   line, column + 1, value, CSV_PIXEL_MAX);
            pixels[column] = (uint8_t)value;
        }
    }
    data->count++;
    return TROUPE_OK;
}

static troupe_status csv_parse(const file *f, digits *data)
{
    const char *text = (const char *)f->bytes, *end = text + f->size;
    if (memchr(text, 0, f->size))
        return troupe_fail(TROUPE_MALFORMED, "%s: not a text file: it holds a zero byte", f->path);
    size_t lines = 1;
    for (const char *c = text; c < end; c++)
        lines += *c == '\n';
    data->width = data->height = CSV_SIDE;
    data->inputs = CSV_INPUTS;
    data->brightest = CSV_PIXEL_MAX;
    TROUPE_TRY(grow(data, lines, f->path));
    for (size_t line = 1; text < end; line++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        const char *next = stop ? stop + 1 : end;
        stop = stop ? stop : end;
        if (stop > text && stop[-1] == '\r')
            stop--;
        TROUPE_TRY(csv_row(f->path, line, text, stop, data));
        text = next;
    }
    return TROUPE_OK;
}

troupe_status format_read_csv(const char *path, digits *data)
{
    file f = {0};
    if (strlen(path) >= sizeof f.path)
        return troupe_fail(TROUPE_INVALID, "the data's path is longer than %d bytes", PATH_BYTES);
    strcpy(f.path, path);
    TROUPE_TRY(file_read(&f));
    troupe_status status = csv_parse(&f, data);
    file_free(&f);
    return status;
}

// ---- IDX

static size_t big_endian(const uint8_t *at)
{
    return (size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | at[3];
}

// Reads `folder`/`name`, or that name with .gz.
static troupe_status idx_open(const char *folder, const char *name, file *f)
{
    for (int packed = 0; packed <= 1; packed++) {
        struct stat info;
        int length =
            snprintf(f->path, sizeof f->path, "%s/%s%s", folder, name, packed ? ".gz" : "");
        if (length < 0 || (size_t)length >= sizeof f->path)
            return troupe_fail(TROUPE_INVALID, "the data's path is longer than %d bytes",
                               PATH_BYTES);
        if (stat(f->path, &info) == 0)
            return file_read(f);
    }
    return troupe_fail(TROUPE_NOT_FOUND, "%s: the folder has neither %s nor %s.gz", folder, name,
                       name);
}

// Checks magic number and length: a header of `sizes` numbers, the first of them the count of
// items.
static troupe_status idx_check(const file *f, unsigned magic, size_t sizes)
{
    size_t header = 4 + 4 * sizes;
    if (f->size < header)
        return troupe_fail(TROUPE_MALFORMED, "%s: cut: %zu bytes, its header alone has %zu",
                           f->path, f->size, header);
    if (big_endian(f->bytes) != magic)
        return troupe_fail(TROUPE_MALFORMED, "%s: magic number 0x%08zx instead of 0x%08x", f->path,
                           big_endian(f->bytes), magic);
    size_t body = big_endian(f->bytes + 4);
    if (body == 0)
        return troupe_fail(TROUPE_MALFORMED, "%s: it holds no items", f->path);
    for (size_t i = 1; i < sizes; i++) {
        size_t side = big_endian(f->bytes + 4 + 4 * i);
        if (side == 0 || side > IDX_SIDE_MAX)
            return troupe_fail(TROUPE_MALFORMED, "%s: images with a side of %zu, not 1 to %d",
                               f->path, side, IDX_SIDE_MAX);
        body *= side;
    }
    if (f->size != header + body)
        return troupe_fail(TROUPE_MALFORMED, "%s: %s: %zu bytes instead of %zu", f->path,
                           f->size < header + body ? "cut" : "too long", f->size, header + body);
    return TROUPE_OK;
}

// Appends the images and labels of a pair that has been read.
static troupe_status idx_append(const file *images, const file *labels, digits *data)
{
    TROUPE_TRY(idx_check(images, 0x803, 3));
    TROUPE_TRY(idx_check(labels, 0x801, 1));
    size_t count = big_endian(images->bytes + 4), label_count = big_endian(labels->bytes + 4);
    size_t height = big_endian(images->bytes + 8), width = big_endian(images->bytes + 12);
    if (count != label_count)
        return troupe_fail(TROUPE_MALFORMED, "%s has %zu images, %s has %zu labels", images->path,
                           count, labels->path, label_count);
    if (data->count > 0 && (data->width != width || data->height != height))
        return troupe_fail(TROUPE_MALFORMED, "%s: images of %zu x %zu pixels, others of %zu x %zu",
                           images->path, width, height, data->width, data->height);
    for (size_t i = 0; i < count; i++)
        if (labels->bytes[8 + i] >= DIGITS_CLASSES)
            return troupe_fail(TROUPE_MALFORMED, "%s: label %zu is %d, not 0 to %d", labels->path,
                               i, labels->bytes[8 + i], DIGITS_CLASSES - 1);
    size_t inputs = width * height;
    data->width = width;
    data->height = height;
    data->inputs = inputs;
    data->brightest = IDX_PIXEL_MAX;
    TROUPE_TRY(grow(data, count, images->path));
    memcpy(data->pixels + data->count * inputs, images->bytes + 16, count * inputs);
    memcpy(data->labels + data->count, labels->bytes + 8, count);
    data->count += count;
    return TROUPE_OK;
}

static troupe_status idx_read_pair(const char *folder, const char *images_name,
                                   const char *labels_name, digits *data)
{
    file images = {0}, labels = {0};
    troupe_status status = idx_open(folder, images_name, &images);
    if (status == TROUPE_OK)
        status = idx_open(folder, labels_name, &labels);
    if (status == TROUPE_OK)
        status = idx_append(&images, &labels, data);
    file_free(&images);
    file_free(&labels);
    return status;
}

troupe_status format_read_idx(const char *folder, digits *data, size_t *train_count)
{
    TROUPE_TRY(idx_read_pair(folder, "train-images-idx3-ubyte", "train-labels-idx1-ubyte", data));
    *train_count = data->count;
    return idx_read_pair(folder, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", data);
}
