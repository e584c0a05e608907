// test_digits_data.c: the loader takes the real digits and well-formed files of both formats, and
// refuses every kind of malformed one with a status and an error text that names the file and the
// fault.
#include "support.h"

#include <digits/data.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static char *folder;

static int setup(void **state)
{
    (void)state;
    folder = support_directory_make();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    support_directory_remove(folder);
    return 0;
}

static void write_file(const char *name, const void *data, size_t size)
{
    char *path = support_path(folder, name);
    support_write_file(path, data, size);
    free(path);
}

static void write_gz(const char *name, const void *data, size_t size)
{
    char *path = support_path(folder, name);
    gzFile gz = gzopen(path, "wb");
    assert_non_null(gz);
    assert_int_equal(gzwrite(gz, data, (unsigned)size), (int)size);
    assert_int_equal(gzclose(gz), Z_OK);
    free(path);
}

// Loads `name` (of the test's folder; NULL: the folder itself), expects `status` and a sentence
// that has both parts.
static void expect_refused(const char *name, troupe_status status, const char *part,
                           const char *other)
{
    char *path = name ? support_path(folder, name) : strdup(folder);
    digits data;
    troupe_status got = digits_load(path, 1, &data);
    const char *text = troupe_last_error()->text;
    if (got != status || !strstr(text, part) || !strstr(text, other))
        fail_msg("%s: %s: '%s', expected %s with '%s' and '%s'", path, troupe_status_name(got),
                 text, troupe_status_name(status), part, other);
    assert_null(data.pixels); // Nothing is left to be freed.
    assert_null(data.train.rows);
    free(path);
}

// ---- CSV
// -------------------------------------------------------------------------------------------

// A CSV file of `rows` rows with pixels 0 to 16 and labels 0 to 9 in turn. To be freed.
static char *csv_text(int rows)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    for (int row = 0; row < rows; row++) {
        for (int column = 0; column < 64; column++)
            fprintf(out, "%d,", (row + column) % 17);
        fprintf(out, "%d\n", row % 10);
    }
    fclose(out);
    return text;
}

static void expect_csv_refused(const char *text, troupe_status status, const char *part)
{
    write_file("bad.csv", text, strlen(text));
    expect_refused("bad.csv", status, "bad.csv", part);
}

// Replaces line `number` (from 1) of a good file by `line`.
static void expect_line_refused(int number, const char *line, const char *part)
{
    char *text = csv_text(20), *bad = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&bad, &size);
    const char *at = text;
    for (int i = 1; i <= 20; i++) {
        const char *end = strchr(at, '\n') + 1;
        if (i == number)
            fputs(line, out);
        else
            fwrite(at, 1, (size_t)(end - at), out);
        at = end;
    }
    fclose(out);
    expect_csv_refused(bad, TROUPE_MALFORMED, part);
    free(bad);
    free(text);
}

// 64 zeros with `value` in place of the pixel in `column` (from 1), and the label. Static memory.
static const char *row_with(int column, const char *value, const char *label)
{
    static char line[512];
    size_t used = 0;
    for (int i = 1; i <= 64; i++)
        used += (size_t)snprintf(line + used, sizeof line - used, "%s,", i == column ? value : "0");
    snprintf(line + used, sizeof line - used, "%s\n", label);
    return line;
}

static int compare_rows(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

// Every image is in exactly one set.
static void check_partition(const digits *data)
{
    size_t all = data->train.count + data->validation.count + data->test.count;
    assert_int_equal(all, data->count);
    uint32_t *rows = malloc(all * sizeof *rows);
    assert_non_null(rows);
    const digits_set *sets[] = {&data->train, &data->validation, &data->test};
    size_t used = 0;
    for (size_t i = 0; i < 3; i++) {
        memcpy(rows + used, sets[i]->rows, sets[i]->count * sizeof *rows);
        used += sets[i]->count;
    }
    qsort(rows, all, sizeof *rows, compare_rows);
    for (size_t i = 0; i < all; i++)
        assert_int_equal(rows[i], i);
    free(rows);
}

static void test_the_real_digits_load(void **state)
{
    (void)state;
    digits data;
    const char *path = support_setting("TROUPE_DIGITS_CSV");
    if (digits_load(path, 1, &data) != TROUPE_OK)
        fail_msg("%s (TROUPE_DIGITS_CSV must name the digits; ./dev fetches them)",
                 troupe_last_error()->text);
    assert_int_equal(data.count, 1797);
    assert_int_equal(data.inputs, 64);
    assert_int_equal(data.labels[0], 0); // The file's first row: 0, 0, 5, 13, ... 0
    assert_int_equal(data.pixels[2], 5);
    assert_int_equal(data.pixels[3], 13);
    check_partition(&data);
    assert_in_range(data.train.count, 1070, 1090);
    assert_in_range(data.test.count, 350, 360);

    // Each set has its share of each digit.
    int all[10] = {0}, tested[10] = {0};
    for (size_t i = 0; i < data.count; i++)
        all[data.labels[i]]++;
    for (size_t i = 0; i < data.test.count; i++)
        tested[data.labels[data.test.rows[i]]]++;
    for (int i = 0; i < 10; i++)
        assert_int_equal(tested[i], all[i] / 5);
    digits_free(&data);
}

static bool same_sets(const digits *a, const digits *b)
{
    return memcmp(a->train.rows, b->train.rows, a->train.count * sizeof(uint32_t)) == 0 &&
           memcmp(a->validation.rows, b->validation.rows, a->validation.count * sizeof(uint32_t)) ==
               0 &&
           memcmp(a->test.rows, b->test.rows, a->test.count * sizeof(uint32_t)) == 0;
}

static void test_the_seed_decides_the_division(void **state)
{
    (void)state;
    char *text = csv_text(300), *path = support_path(folder, "good.csv");
    write_file("good.csv", text, strlen(text));
    digits first, again, other;
    assert_int_equal(digits_load(path, 7, &first), TROUPE_OK);
    assert_int_equal(digits_load(path, 7, &again), TROUPE_OK);
    assert_int_equal(digits_load(path, 8, &other), TROUPE_OK);
    check_partition(&first);
    assert_int_equal(first.train.count, 180);
    assert_int_equal(first.validation.count, 60);
    assert_true(same_sets(&first, &again));
    assert_false(same_sets(&first, &other));
    digits_free(&first);
    digits_free(&again);
    digits_free(&other);
    digits_free(&other); // Harmless.
    free(path);
    free(text);
}

static void test_gzip_carriage_returns_and_a_missing_last_newline_do_not_matter(void **state)
{
    (void)state;
    char *text = csv_text(60), *returns = malloc(2 * strlen(text));
    size_t size = 0;
    for (const char *c = text; *c; c++) {
        if (*c == '\n')
            returns[size++] = '\r';
        returns[size++] = *c;
    }
    write_file("plain.csv", text, strlen(text) - 1);
    write_file("returns.csv", returns, size);
    write_gz("packed.csv.gz", text, strlen(text));
    const char *names[] = {"plain.csv", "returns.csv", "packed.csv.gz"};
    digits data[3];
    for (size_t i = 0; i < 3; i++) {
        char *path = support_path(folder, names[i]);
        assert_int_equal(digits_load(path, 1, &data[i]), TROUPE_OK);
        assert_int_equal(data[i].count, 60);
        assert_memory_equal(data[i].pixels, data[0].pixels, 60 * 64);
        assert_memory_equal(data[i].labels, data[0].labels, 60);
        free(path);
    }
    for (size_t i = 0; i < 3; i++)
        digits_free(&data[i]);
    free(returns);
    free(text);
}

static void test_what_is_no_file_is_refused(void **state)
{
    (void)state;
    digits data;
    expect_refused("none.csv", TROUPE_NOT_FOUND, "none.csv", "No such file");
    assert_int_equal(digits_load("", 1, &data), TROUPE_INVALID);
    assert_int_equal(digits_load(NULL, 1, &data), TROUPE_INVALID);
    assert_int_equal(digits_load("/dev/null", 1, &data), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "/dev/null: not a regular file"));
    char *deep = malloc(6000);
    memset(deep, 'a', 5999);
    deep[5999] = '\0';
    assert_int_not_equal(digits_load(deep, 1, &data), TROUPE_OK);
    free(deep);
}

static void test_damaged_gzip_is_refused(void **state)
{
    (void)state;
    char *text = csv_text(200);
    write_gz("whole.gz", text, strlen(text));
    char *path = support_path(folder, "whole.gz");
    FILE *in = fopen(path, "rb");
    static unsigned char packed[65536];
    size_t size = fread(packed, 1, sizeof packed, in);
    fclose(in);
    assert_in_range(size, 100, sizeof packed - 1);

    const size_t cuts[] = {size - 1, size - 8, size / 2, 11, 5, 3};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        write_file("cut.gz", packed, cuts[i]);
        expect_refused("cut.gz", TROUPE_CORRUPT, "cut.gz", "end too early");
    }
    packed[size - 6] ^= 1; // Of the checksum.
    write_file("sum.gz", packed, size);
    expect_refused("sum.gz", TROUPE_CORRUPT, "sum.gz", "damaged");
    write_file("plain.csv.gz", text, strlen(text));
    expect_refused("plain.csv.gz", TROUPE_MALFORMED, "plain.csv.gz", "not a gzip file");
    write_gz("nothing.gz", "", 0);
    expect_refused("nothing.gz", TROUPE_MALFORMED, "nothing.gz", "empty");
    free(path);
    free(text);
}

static void test_malformed_rows_are_refused_by_line(void **state)
{
    (void)state;
    expect_csv_refused("", TROUPE_MALFORMED, "empty");
    expect_csv_refused("\n", TROUPE_MALFORMED, "line 1 has 1 columns instead of 65");
    expect_line_refused(1, "1,2,3\n", "line 1 has 3 columns instead of 65");
    expect_line_refused(7, "\n", "line 7 has 1 columns");
    expect_line_refused(20, row_with(0, "", "1,1"), "line 20 has 66 columns");
    expect_line_refused(3, row_with(1, "17", "1"), "line 3, column 1: the pixel 17 is not 0 to 16");
    expect_line_refused(3, row_with(64, "99999", "1"), "column 64: the pixel 99999");
    expect_line_refused(4, row_with(9, "-1", "1"), "line 4, column 9: '-1' is not a whole number");
    expect_line_refused(4, row_with(9, "", "1"), "line 4, column 9: '' is not a whole number");
    expect_line_refused(5, row_with(2, "1.5", "1"), "line 5, column 2: '1.5'");
    expect_line_refused(5, row_with(2, "99999999999999999999", "1"), "is not a whole number");
    expect_line_refused(6, row_with(0, "", "10"), "line 6: the label 10 is not 0 to 9");
    expect_line_refused(6, row_with(0, "", "x"), "line 6, column 65: 'x' is not a whole number");
    expect_line_refused(6, row_with(0, "", ""), "line 6, column 65: '' is not a whole number");
    write_file("binary.csv", "1,2\0,3\n", 7);
    expect_refused("binary.csv", TROUPE_MALFORMED, "binary.csv", "zero byte");
    char *few = csv_text(30);
    expect_csv_refused(few, TROUPE_MALFORMED, "30 images are too few");
    free(few);
}

// ---- IDX
// -------------------------------------------------------------------------------------------

typedef struct idx {
    uint8_t bytes[4096];
    size_t size;
} idx;

static void put_number(idx *f, uint32_t number)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        f->bytes[f->size++] = (uint8_t)(number >> shift);
}

static idx idx_images(uint32_t count, uint32_t height, uint32_t width)
{
    idx f = {.size = 0};
    put_number(&f, 0x803);
    put_number(&f, count);
    put_number(&f, height);
    put_number(&f, width);
    for (uint32_t i = 0; i < count * height * width; i++)
        f.bytes[f.size++] = (uint8_t)(i * 7);
    return f;
}

static idx idx_labels(uint32_t count)
{
    idx f = {.size = 0};
    put_number(&f, 0x801);
    put_number(&f, count);
    for (uint32_t i = 0; i < count; i++)
        f.bytes[f.size++] = (uint8_t)(i % 10);
    return f;
}

static const char images_name[] = "train-images-idx3-ubyte",
                  labels_name[] = "train-labels-idx1-ubyte";

// Writes a good data set: 60 images to train on, 20 to test, of 4 x 3 pixels.
static void write_good_idx(void)
{
    idx f = idx_images(60, 4, 3);
    write_file(images_name, f.bytes, f.size);
    f = idx_labels(60);
    write_file(labels_name, f.bytes, f.size);
    f = idx_images(20, 4, 3);
    write_file("t10k-images-idx3-ubyte", f.bytes, f.size);
    f = idx_labels(20);
    write_file("t10k-labels-idx1-ubyte", f.bytes, f.size);
}

static void remove_file(const char *name)
{
    char *path = support_path(folder, name);
    assert_int_equal(remove(path), 0);
    free(path);
}

static void test_idx_folders_load_plain_and_packed(void **state)
{
    (void)state;
    write_good_idx();
    digits plain, packed;
    assert_int_equal(digits_load(folder, 3, &plain), TROUPE_OK);
    assert_int_equal(plain.count, 80);
    assert_int_equal(plain.width, 3);
    assert_int_equal(plain.height, 4);
    assert_int_equal(plain.inputs, 12);
    assert_int_equal(plain.train.count, 50);
    assert_int_equal(plain.validation.count, 10);
    check_partition(&plain);
    for (size_t i = 0; i < 20; i++) // The makers' own test set, and nothing else.
        assert_int_equal(plain.test.rows[i], 60 + i);
    assert_int_equal(plain.pixels[13], 13 * 7);
    assert_int_equal(plain.labels[61], 1);

    idx f = idx_images(60, 4, 3);
    remove_file(images_name);
    write_gz("train-images-idx3-ubyte.gz", f.bytes, f.size);
    assert_int_equal(digits_load(folder, 3, &packed), TROUPE_OK);
    assert_memory_equal(plain.pixels, packed.pixels, 80 * 12);
    assert_true(same_sets(&plain, &packed));
    digits_free(&plain);
    digits_free(&packed);
}

static void test_missing_idx_files_are_named(void **state)
{
    (void)state;
    expect_refused(NULL, TROUPE_NOT_FOUND, images_name, "train-images-idx3-ubyte.gz");
    write_good_idx();
    remove_file("t10k-labels-idx1-ubyte");
    expect_refused(NULL, TROUPE_NOT_FOUND, folder, "t10k-labels-idx1-ubyte.gz");
}

static void test_malformed_idx_files_are_refused(void **state)
{
    (void)state;
    write_good_idx();
    idx good = idx_images(60, 4, 3), f = good;
    f.bytes[3] = 1; // The labels' magic number.
    write_file(images_name, f.bytes, f.size);
    expect_refused(NULL, TROUPE_MALFORMED, images_name, "magic number 0x00000801 instead");
    write_file(images_name, good.bytes, good.size - 1);
    expect_refused(NULL, TROUPE_MALFORMED, images_name, "cut: 735 bytes instead of 736");
    write_file(images_name, good.bytes, good.size + 1);
    expect_refused(NULL, TROUPE_MALFORMED, images_name, "too long: 737 bytes instead of 736");
    write_file(images_name, good.bytes, 15);
    expect_refused(NULL, TROUPE_MALFORMED, images_name, "its header alone has 16");
    write_file(images_name, good.bytes, 0);
    expect_refused(NULL, TROUPE_MALFORMED, images_name, "empty");
    f = idx_images(0, 4, 3);
    write_file(images_name, f.bytes, f.size);
    expect_refused(NULL, TROUPE_MALFORMED, images_name, "no items");
    f = idx_images(60, 4, 0);
    write_file(images_name, f.bytes, f.size);
    expect_refused(NULL, TROUPE_MALFORMED, images_name, "a side of 0");
    f = good;
    memset(f.bytes + 4, 0xff, 12); // Sizes whose product is beyond any number.
    write_file(images_name, f.bytes, f.size);
    expect_refused(NULL, TROUPE_MALFORMED, images_name, "a side of 4294967295");
    f = idx_images(59, 4, 3);
    write_file(images_name, f.bytes, f.size);
    expect_refused(NULL, TROUPE_MALFORMED, "59 images", "60 labels");
    write_file(images_name, good.bytes, good.size);

    f = idx_labels(60);
    f.bytes[8 + 17] = 10;
    write_file(labels_name, f.bytes, f.size);
    expect_refused(NULL, TROUPE_MALFORMED, labels_name, "label 17 is 10, not 0 to 9");
    f = idx_labels(60);
    f.bytes[2] = 7;
    write_file(labels_name, f.bytes, f.size);
    expect_refused(NULL, TROUPE_MALFORMED, labels_name, "magic number 0x00000701");
    write_good_idx();
    f = idx_images(20, 3, 4);
    write_file("t10k-images-idx3-ubyte", f.bytes, f.size);
    expect_refused(NULL, TROUPE_MALFORMED, "t10k-images", "4 x 3 pixels, others of 3 x 4");
}

// ---- Images
// ----------------------------------------------------------------------------------------

static void test_images_are_gathered_and_nudged(void **state)
{
    (void)state;
    write_good_idx();
    digits data;
    assert_int_equal(digits_load(folder, 3, &data), TROUPE_OK);
    uint32_t rows[] = {61, 2};
    const digits_set set = {rows, 2};
    uint8_t pixels[24], labels[2];
    float scaled[24];
    digits_copy(&data, &set, pixels, NULL);
    digits_gather(&data, rows, 2, scaled, labels);
    assert_int_equal(labels[0], 1);
    labels[0] = 0;
    digits_copy(&data, &set, NULL, labels);
    assert_int_equal(data.brightest, 255);
    assert_int_equal(labels[0], 1);
    assert_int_equal(labels[1], 2);
    for (size_t i = 0; i < 24; i++) {
        size_t source = rows[i / 12] * 12 + i % 12;
        assert_int_equal(pixels[i], data.pixels[source]);
        assert_true(fabsf(scaled[i] - (float)pixels[i] / 255) < 1e-6f);
    }

    static const float image[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}; // 4 rows of 3.
    static const float moved[5][12] = {
        {0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9},    {4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 0, 0},
        {0, 1, 2, 0, 4, 5, 0, 7, 8, 0, 10, 11},  {2, 3, 0, 5, 6, 0, 8, 9, 0, 11, 12, 0},
        {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
    };
    for (uint64_t dice = 0; dice < 16; dice++) {
        float copy[12];
        memcpy(copy, image, sizeof copy);
        digits_nudge(&data, copy, dice);
        uint64_t way = dice % 8 < 4 ? dice % 8 : 4;
        assert_memory_equal(copy, moved[way], sizeof copy);
    }
    digits_free(&data);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_the_real_digits_load),
        TEST(test_the_seed_decides_the_division),
        TEST(test_gzip_carriage_returns_and_a_missing_last_newline_do_not_matter),
        TEST(test_what_is_no_file_is_refused),
        TEST(test_damaged_gzip_is_refused),
        TEST(test_malformed_rows_are_refused_by_line),
        TEST(test_idx_folders_load_plain_and_packed),
        TEST(test_missing_idx_files_are_named),
        TEST(test_malformed_idx_files_are_refused),
        TEST(test_images_are_gathered_and_nudged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
