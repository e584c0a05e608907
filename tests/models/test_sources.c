// test_sources.c: where the columns of a set come from: what is read, mapped and refused of each.
#include <support.h>

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <models/batches.h>
#include <models/csv.h>
#include <models/gzip.h>
#include <models/idx.h>
#include <models/source.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <troupe.h>
#include <unistd.h>

static char *folder;

static const char *file_of(const char *name, const void *data, size_t size)
{
    static char paths[4][256];
    static int next;
    char *path = support_path(folder, name), *kept = paths[next++ % 4];
    snprintf(kept, sizeof paths[0], "%s", path);
    if (data)
        support_write_file(path, data, size);
    free(path);
    return kept;
}

static const char *pack(const char *path)
{
    static char packed[300];
    char command[700], output[200];
    snprintf(packed, sizeof packed, "%s.gz", path);
    snprintf(command, sizeof command, "gzip -c '%s' >'%s'", path, packed);
    assert_int_equal(support_run(command, output, sizeof output), 0);
    return packed;
}

static void assert_told(troupe_status status, troupe_status expected, const char *text)
{
    if (status != expected || !strstr(troupe_last_error()->text, text))
        fail_msg("%s: %s, where '%s' was expected", troupe_status_name(status),
                 status == TROUPE_OK ? "" : troupe_last_error()->text, text);
}

// ---- CSV

static const char homes[] = "\xef\xbb\xbf"
                            "rooms,\"area, m2\",\"the \"\"price\"\"\",year\r\n"
                            "3,70.5,\"1.25e5\",1990\r\n"
                            "\r\n"
                            " 4 ,-0.1,.5,-7\n"
                            "5,1e400,nan,9223372036854775807";

static void test_fields_of_a_csv_file_become_numbers(void **state)
{
    (void)state;
    trp_arena arena = {0};
    trp_csv csv;
    const size_t *fields;
    size_t count;
    double values[9];
    int64_t years[3];
    troupe_must(trp_csv_open("homes", homes, sizeof homes - 1, ',', false, &arena, &csv));
    assert_int_equal(csv.fields, 4);
    assert_int_equal(csv.rows, 3);
    troupe_must(trp_csv_select(&csv, "\"the \"\"price\"\"\", rooms", &arena, &fields, &count));
    assert_int_equal(count, 2);
    troupe_must(trp_csv_read(&csv, fields, count, TROUPE_FLOAT64, values));
    assert_true(values[0] == 1.25e5 && values[1] == 3 && values[2] == 0.5 && values[3] == 4);
    assert_true(isnan(values[4]) && values[5] == 5);
    troupe_must(trp_csv_select(&csv, "year", &arena, &fields, &count));
    troupe_must(trp_csv_read(&csv, fields, count, TROUPE_INT64, years));
    assert_true(years[0] == 1990 && years[1] == -7 && years[2] == INT64_MAX);
    troupe_must(trp_csv_select(&csv, "rooms..year", &arena, &fields, &count));
    assert_int_equal(count, 4);
    troupe_must(trp_csv_select(&csv, NULL, &arena, &fields, &count));
    assert_int_equal(count, 4);
    assert_told(trp_csv_read(&csv, fields, count, TROUPE_FLOAT64, values), TROUPE_MALFORMED,
                "homes: line 5, field 2 (area, m2): '1e400' where a number (float64) was expected");
    assert_told(trp_csv_select(&csv, "room", &arena, &fields, &count), TROUPE_NOT_FOUND,
                "homes has no field 'room': it has rooms, area, m2, the \"price\", year");
    assert_told(trp_csv_select(&csv, "year..rooms", &arena, &fields, &count), TROUPE_INVALID,
                "the field 'year' is not before 'rooms'");
    troupe_must(trp_csv_open("plain", "1;2;3\n4;5;6\n", 12, ';', true, &arena, &csv));
    troupe_must(trp_csv_select(&csv, "2..3, 1", &arena, &fields, &count));
    float narrow[6];
    troupe_must(trp_csv_read(&csv, fields, count, TROUPE_FLOAT32, narrow));
    static const float expected[] = {2, 3, 1, 5, 6, 4};
    assert_memory_equal(narrow, expected, sizeof narrow);
    assert_told(trp_csv_select(&csv, "0", &arena, &fields, &count), TROUPE_NOT_FOUND,
                "plain has no field '0': it has no names, and fields 1 to 3");
    assert_told(trp_csv_select(&csv, "4", &arena, &fields, &count), TROUPE_NOT_FOUND, "'4'");
    trp_arena_clear(&arena);
}

static void test_faults_of_a_csv_file_name_line_and_field(void **state)
{
    (void)state;
    static const struct {
        const char *text, *told;
        troupe_dtype dtype;
    } cases[] = {
        {"", "it: it is empty: expected a line of names, and records", TROUPE_FLOAT64},
        {"\n\r\n", "it: it is empty", TROUPE_FLOAT64},
        {"a,b\n1,2\n1\n", "it: line 3 has 1 field: expected 2", TROUPE_FLOAT64},
        {"a,b\n1,2,3\n", "it: line 2 has 3 fields: expected 2", TROUPE_FLOAT64},
        {"a,b\n1,\"2\n", "it: line 2, field 2: its quote is not closed", TROUPE_FLOAT64},
        {"a,b\n\"1\"x,2\n", "it: line 2, field 1: 'x' follows its closing quote", TROUPE_FLOAT64},
        {"a,b\n\"1\n\",2\n3,x\n", "it: line 2, field 1 (a): '1\\n' where a number", TROUPE_FLOAT64},
        {"a,b\n1,\n", "it: line 2, field 2 (b): '' where a number", TROUPE_FLOAT64},
        {"a,b\n1,2 3\n", "it: line 2, field 2 (b): '2 3' where a number", TROUPE_FLOAT64},
        {"a,b\n1,0x10\n", "'0x10' where", TROUPE_FLOAT64},
        {"a,b\n1,1e\n", "'1e' where", TROUPE_FLOAT64},
        {"a,b\n1,.\n", "'.' where", TROUPE_FLOAT64},
        {"a,b\n1,-\n", "'-' where", TROUPE_FLOAT64},
        {"a,b\n1,1e39\n", "'1e39' where a number (float32)", TROUPE_FLOAT32},
        {"a,b\n1,2.0\n", "'2.0' where a number (int64)", TROUPE_INT64},
        {"a,b\n1,9223372036854775808\n", "'9223372036854775808' where", TROUPE_INT64},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        trp_arena arena = {0};
        trp_csv csv;
        const size_t *fields;
        size_t count;
        double out[16];
        size_t size = strlen(cases[i].text);
        troupe_status status = trp_csv_open("it", cases[i].text, size, ',', false, &arena, &csv);
        if (status == TROUPE_OK) {
            troupe_must(trp_csv_select(&csv, NULL, &arena, &fields, &count));
            status = trp_csv_read(&csv, fields, count, cases[i].dtype, out);
        }
        assert_told(status, TROUPE_MALFORMED, cases[i].told);
        trp_arena_clear(&arena);
    }
}

// Each number that printf writes is read as strtod reads it.
static void test_numbers_are_read_exactly(void **state)
{
    (void)state;
    static const char *const formats[] = {"%.17g", "%g", "%.3f", "%.15e", "%.1f"};
    enum { NUMBERS = 5000 };
    static char text[NUMBERS * 400];
    double *expected = malloc(NUMBERS * sizeof *expected), *read = malloc(sizeof *read * NUMBERS);
    size_t used = 0;
    uint64_t random = 1;
    for (int i = 0; i < NUMBERS; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        double scale = pow(10, (double)(random >> 59) - 16);
        double number = ((double)(int64_t)random) / 0x1p63 * scale;
        used += (size_t)snprintf(text + used, sizeof text - used, formats[i % 5], number);
        size_t from = used;
        while (from > 0 && text[from - 1] != '\n')
            from--;
        expected[i] = strtod(text + from, NULL);
        text[used++] = '\n';
    }
    trp_arena arena = {0};
    trp_csv csv;
    troupe_must(trp_csv_open("numbers", text, used, ',', true, &arena, &csv));
    assert_int_equal(csv.rows, NUMBERS);
    troupe_must(trp_csv_read(&csv, &(size_t){0}, 1, TROUPE_FLOAT64, read));
    assert_memory_equal(read, expected, NUMBERS * sizeof *read);
    trp_arena_clear(&arena);
    free(expected);
    free(read);
}

static void test_a_csv_file_is_read_into_the_store(void **state)
{
    (void)state;
    static const char text[] = "a,b,c\n1,2,3\n4,5,6\n";
    const char *path = file_of("it.csv", text, sizeof text - 1);
    const char *const paths[] = {path, pack(path)};
    for (int i = 0; i < 2; i++) {
        trp_look look = {0};
        trp_source two = {.column = "x"}, one = {.column = "y"};
        trp_feed feed;
        troupe_from from = troupe_from_csv("x", paths[i], "c, a", TROUPE_FLOAT32);
        troupe_must(trp_look_at_csv(&look, &from, &two));
        from = troupe_from_csv("y", paths[i], "b", TROUPE_INT64);
        troupe_must(trp_look_at_csv(&look, &from, &one));
        assert_true(two.ndim == 2 && two.shape[0] == 2 && two.shape[1] == 2);
        assert_true(one.ndim == 1 && one.shape[0] == 2 && one.dtype == TROUPE_INT64);
        troupe_must(trp_feed_open(&two, &feed));
        assert_memory_equal(feed.rows, ((const float[]){3, 1, 6, 4}), 16);
        trp_feed_close(&feed);
        from.dtype = TROUPE_UINT8;
        assert_told(trp_look_at_csv(&look, &from, &one), TROUPE_UNSUPPORTED,
                    "numbers of a CSV file as uint8");
        from = troupe_from_csv("y", "/nowhere/it.csv", "b", TROUPE_INT64);
        assert_told(trp_look_at_csv(&look, &from, &(trp_source){0}), TROUPE_NOT_FOUND,
                    "cannot open /nowhere/it.csv");
        from = troupe_from_csv("y", NULL, "b", TROUPE_INT64);
        assert_told(trp_look_at_csv(&look, &from, &(trp_source){0}), TROUPE_INVALID,
                    "it has no path");
        troupe_ref_drop(two.object);
        troupe_ref_drop(one.object);
        trp_look_end(&look);
    }
}

// ---- IDX

static const unsigned char images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0,
                                       1, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6};
static const unsigned char wide[] = {0, 0, 0x0c, 1, 0, 0, 0, 2, 0xff, 0xff, 0xff, 0xfe, 0, 0, 1, 2};

static void look_at_idx(const char *path, trp_source *source)
{
    trp_look look = {0};
    troupe_from from = troupe_from_idx("x", path);
    troupe_must(trp_look_at_idx(&look, &from, source));
    if (source->path)
        source->path = path;
    trp_look_end(&look);
}

static void test_an_idx_file_is_mapped_where_it_can_be(void **state)
{
    (void)state;
    trp_source source = {.column = "x"};
    trp_feed feed;
    const char *path = file_of("images", images, sizeof images);
    look_at_idx(path, &source);
    assert_int_equal(source.kind, TRP_SOURCE_FILE);
    assert_true(source.dtype == TROUPE_UINT8 && source.ndim == 3);
    assert_true(source.shape[0] == 2 && source.shape[1] == 1 && source.shape[2] == 3);
    troupe_must(trp_feed_open(&source, &feed));
    assert_memory_equal(feed.rows, images + 16, 6);
    trp_feed_close(&feed);
    source = (trp_source){.column = "x"};
    look_at_idx(pack(path), &source);
    assert_int_equal(source.kind, TRP_SOURCE_OBJECT);
    troupe_must(trp_feed_open(&source, &feed));
    assert_memory_equal(feed.rows, images + 16, 6);
    trp_feed_close(&feed);
    troupe_ref_drop(source.object);
    source = (trp_source){.column = "x"};
    look_at_idx(file_of("wide", wide, sizeof wide), &source);
    assert_true(source.kind == TRP_SOURCE_OBJECT && source.dtype == TROUPE_INT32);
    troupe_must(trp_feed_open(&source, &feed));
    assert_memory_equal(feed.rows, ((const int32_t[]){-2, 258}), 8);
    trp_feed_close(&feed);
    troupe_ref_drop(source.object);
}

static void test_faults_of_an_idx_file_are_told(void **state)
{
    (void)state;
    static const struct {
        unsigned char bytes[24];
        size_t size;
        troupe_status status;
        const char *told;
    } cases[] = {
        {{0}, 3, TROUPE_MALFORMED, "it: no IDX file: expected two zero bytes"},
        {{'P', 'K', 8, 1}, 8, TROUPE_MALFORMED, "it: no IDX file"},
        {{0, 0, 10, 1}, 8, TROUPE_MALFORMED, "it: no IDX file"},
        {{0, 0, 8, 0}, 8, TROUPE_UNSUPPORTED, "it: 0 dimensions: expected 1 to 8"},
        {{0, 0, 8, 9}, 24, TROUPE_UNSUPPORTED, "it: 9 dimensions: expected 1 to 8"},
        {{0, 0, 8, 3, 0, 0, 0, 1}, 8, TROUPE_MALFORMED, "it: 8 bytes, where its header alone"},
        {{0, 0, 8, 1, 0, 0, 0, 3, 1, 2},
         10,
         TROUPE_MALFORMED,
         "it: 2 bytes follow its header: expected 3 by its dimensions"},
        {{0, 0, 8, 1, 0, 0, 0, 1, 1, 2}, 10, TROUPE_MALFORMED, "expected 1 by its dimensions"},
        {{0, 0, 14, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255},
         24,
         TROUPE_MALFORMED,
         "its header says more than memory can hold"},
    };
    trp_idx idx;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_told(trp_idx_parse("it", cases[i].bytes, cases[i].size, &idx), cases[i].status,
                    cases[i].told);
}

static void test_packed_data_that_are_damaged_are_told(void **state)
{
    (void)state;
    const char *path = pack(file_of("images", images, sizeof images));
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(truncate(path, about.st_size - 6), 0);
    trp_buffer out = {0};
    assert_told(trp_gzip_read(path, &out), TROUPE_CORRUPT, "its packed data end too early");
    trp_buffer_free(&out);
    static const char broken[] = "\x1f\x8b\x08\0\0\0\0\0\0\3garbage!";
    path = file_of("broken.gz", broken, sizeof broken);
    assert_told(trp_gzip_read(path, &out), TROUPE_CORRUPT, "its packed data are damaged");
    trp_buffer_free(&out);
}

// ---- tokens, safetensors

static void test_tokens_are_windows_of_a_file(void **state)
{
    (void)state;
    static const uint16_t tokens[] = {7777, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    static const struct {
        size_t length, stride, rows;
    } cases[] = {{4, 0, 2}, {4, 3, 3}, {4, 1, 7}, {10, 0, 1}, {3, SIZE_MAX, 1}, {1, 0, 10}};
    const char *path = file_of("tokens", tokens, sizeof tokens);
    trp_look look = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        trp_source source = {.column = "t"};
        trp_feed feed;
        troupe_from from = troupe_from_tokens("t", path, TROUPE_UINT16, cases[i].length,
                                              .stride = cases[i].stride, .skip_bytes = 2);
        troupe_must(trp_look_at_tokens(&look, &from, &source));
        assert_int_equal(source.shape[0], cases[i].rows);
        assert_int_equal(source.shape[1], cases[i].length);
        troupe_must(trp_feed_open(&source, &feed));
        uint16_t row[10];
        int64_t last = (int64_t)cases[i].rows - 1;
        troupe_must(trp_feed_gather(&feed, &last, 1, row));
        size_t stride = cases[i].stride ? cases[i].stride : cases[i].length;
        assert_int_equal(row[0], (size_t)last * stride);
        assert_int_equal(row[cases[i].length - 1], (size_t)last * stride + cases[i].length - 1);
        trp_feed_close(&feed);
    }
    trp_source source = {.column = "t"};
    troupe_from from = troupe_from_tokens("t", path, TROUPE_UINT32, 2);
    assert_told(trp_look_at_tokens(&look, &from, &source), TROUPE_MALFORMED,
                "has 22 bytes: expected 0 to be skipped, and tokens of 4");
    from = troupe_from_tokens("t", path, TROUPE_UINT16, 12);
    assert_told(trp_look_at_tokens(&look, &from, &source), TROUPE_INVALID,
                "has 11 tokens, and a row has 12");
    from = troupe_from_tokens("t", path, TROUPE_UINT16, 0);
    assert_told(trp_look_at_tokens(&look, &from, &source), TROUPE_INVALID, "a row has no tokens");
    from = troupe_from_tokens("t", path, TROUPE_INT8, 2);
    assert_told(trp_look_at_tokens(&look, &from, &source), TROUPE_UNSUPPORTED, "tokens as int8");
    from = troupe_from_tokens("t", file_of("empty", "", 0), TROUPE_UINT16, 2);
    assert_told(trp_look_at_tokens(&look, &from, &source), TROUPE_INVALID, "is empty");
    from = troupe_from_tokens("t", folder, TROUPE_UINT16, 2);
    assert_told(trp_look_at_tokens(&look, &from, &source), TROUPE_INVALID, "is not a file");
    trp_look_end(&look);
}

static void test_a_tensor_of_a_safetensors_file_is_mapped(void **state)
{
    (void)state;
    static const float numbers[] = {1, 2, 3, 4, 5, 6};
    const char *path = file_of("it.safetensors", NULL, 0);
    troupe_named_tensor tensors[] = {{"x", troupe_tensor_of(TROUPE_FLOAT32, numbers, 3, 2)},
                                     {"flag", {.data = numbers, .dtype = TROUPE_UINT8}}};
    troupe_must(troupe_safetensors_write(path, tensors, 2, NULL, 0));
    trp_look look = {0};
    trp_source source = {.column = "x"};
    trp_feed feed;
    troupe_from from = troupe_from_safetensors("x", path, "x");
    troupe_must(trp_look_at_safetensors(&look, &from, &source));
    assert_int_equal(source.shape[0], 3);
    troupe_must(trp_feed_open(&source, &feed));
    assert_memory_equal(feed.rows, numbers, sizeof numbers);
    trp_feed_close(&feed);
    from = troupe_from_safetensors("x", path, "y");
    assert_told(trp_look_at_safetensors(&look, &from, &source), TROUPE_NOT_FOUND,
                "has no tensor 'y': it has 2, such as 'flag'");
    from = troupe_from_safetensors("x", file_of("images", images, sizeof images), "x");
    assert_told(trp_look_at_safetensors(&look, &from, &source), TROUPE_CORRUPT, "images");
    from = troupe_from_safetensors("x", pack(path), "x");
    assert_told(trp_look_at_safetensors(&look, &from, &source), TROUPE_UNSUPPORTED,
                "is packed by gzip");
    trp_look_end(&look);
}

// ---- gathering

enum { SOME = 40, WIDEST = 2048 };

// The rows of `order`, and nothing behind them.
static void check_gather(size_t size, size_t stride, const int64_t *order, size_t rows)
{
    static unsigned char bytes[SOME * (WIDEST + 3)], out[SOME * WIDEST + 1];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 2654435761u >> 13);
    memset(out, 0xa5, sizeof out);
    const trp_feed feed = {.row_bytes = size, .rows = bytes, .stride = stride};
    troupe_must(trp_feed_gather(&feed, order, rows, out));
    for (size_t i = 0; i < rows; i++)
        if (memcmp(out + i * size, bytes + (size_t)order[i] * stride, size))
            fail_msg("row %zu of %zu bytes each %zu is another", i, size, stride);
    assert_int_equal(out[rows * size], 0xa5);
}

static void test_rows_are_gathered_whatever_their_size_and_order(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 2, 3, 4, 8, 12, 64, 784, WIDEST};
    int64_t run[SOME - 5], broken[SOME - 5], back[SOME], mixed[SOME];
    for (int i = 0; i < SOME - 5; i++)
        broken[i] = run[i] = 5 + i;
    broken[SOME - 6] = 0;
    for (int i = 0; i < SOME; i++) {
        back[i] = SOME - 1 - i;
        mixed[i] = i * 7 % SOME;
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t stride = sizes[i] > 3 ? sizes[i] - 3 : 1; stride <= sizes[i] + 3; stride++) {
            check_gather(sizes[i], stride, run, SOME - 5);
            check_gather(sizes[i], stride, broken, SOME - 5);
            check_gather(sizes[i], stride, back, SOME);
            check_gather(sizes[i], stride, mixed, SOME);
            check_gather(sizes[i], stride, mixed, 1);
            check_gather(sizes[i], stride, mixed, 0);
        }
}

// ---- files that change

static troupe_batches *open_batches(const char *path, troupe_ref *set, bool shuffle, int prefetch)
{
    trp_look look = {0};
    trp_source source = {.column = "x"};
    troupe_from from = troupe_from_tokens("x", path, TROUPE_UINT16, 4);
    troupe_must(trp_look_at_tokens(&look, &from, &source));
    int64_t rows = (int64_t)source.shape[0];
    trp_sources sources = {rows, {&source, 1}};
    troupe_batches *batches;
    troupe_batches_options how = {sizeof how, .batch = 2, .shuffle = shuffle, .prefetch = prefetch};
    *set = troupe_put(trp_sources, &sources);
    troupe_must(trp_batches_open("train", *set, rows, (trp_division){0, 1}, &how, &batches));
    trp_look_end(&look);
    return batches;
}

static void change(const char *path, bool cut)
{
    if (cut)
        assert_int_equal(truncate(path, 4096), 0);
    else
        assert_int_equal(utimensat(AT_FDCWD, path, (const struct timespec[2]){{0}}, 0), 0);
}

// A file that was cut, or written to, is told before a batch is made of it, be it by the user or by
// the thread that is ahead. The file must not be cut while a batch is made (mapping.h): that thread
// rests for sure where an epoch has no more.
static void check_told(bool shuffle, bool cut, int prefetch)
{
    static uint16_t tokens[1 << 16];
    troupe_ref set;
    troupe_batch batch;
    const char *path = file_of("changing", tokens, sizeof tokens);
    troupe_batches *batches = open_batches(path, &set, shuffle, prefetch);
    troupe_must(troupe_batches_begin(batches, 0, troupe_batches_count(batches) - 1));
    troupe_must(troupe_batches_next(batches, &batch));
    assert_int_equal(troupe_batches_next(batches, &batch), TROUPE_END);
    change(path, cut);
    troupe_must(troupe_batches_begin(batches, 1, 0));
    assert_told(troupe_batches_next(batches, &batch), TROUPE_CORRUPT,
                cut ? "changing has changed since it was named: it has 4096 bytes, where it had "
                      "131072"
                    : "changing has changed since it was named: it was written to");
    troupe_batches_close(&batches);
    troupe_ref_drop(set);
}

static void test_a_file_that_changes_is_told(void **state)
{
    (void)state;
    for (int shuffle = 0; shuffle < 2; shuffle++)
        for (int cut = 0; cut < 2; cut++) {
            check_told(shuffle, cut, TROUPE_NONE);
            check_told(shuffle, cut, 2);
        }
}

// ---- all of them in a run

TROUPE_STRUCT(slope, (double, by), (int64_t, fails_at));
static troupe_status fill_slope(const slope *config, int64_t row, void *out)
{
    double *two = out;
    if (row == config->fails_at)
        return troupe_fail(TROUPE_IO, "there is no such slope");
    two[0] = config->by * (double)row;
    two[1] = -two[0];
    return troupe_arena_alloc(1000) ? TROUPE_OK : TROUPE_NO_MEMORY;
}
TROUPE_GENERATOR(slope, slope, fill_slope);

TROUPE_STRUCT(file_source, (troupe_text, folder), (int64_t, fails_at));
static troupe_status name_files(troupe_data *data, const file_source *source)
{
    char idx[300], csv[300], tokens[300];
    snprintf(idx, sizeof idx, "%s/rows.idx", source->folder);
    snprintf(csv, sizeof csv, "%s/rows.csv", source->folder);
    snprintf(tokens, sizeof tokens, "%s/rows.tokens", source->folder);
    const slope config = {0.5, source->fails_at};
    return troupe_data_columns(
        data, "train", TROUPE_SHARE_BY_NAME, troupe_from_idx("idx", idx),
        troupe_from_csv("csv", csv, "number", TROUPE_FLOAT32),
        troupe_from_tokens("tokens", tokens, TROUPE_UINT32, 2, .stride = 1),
        troupe_from_generator("slope", slope, &config, TROUPE_FLOAT64, 100, 2));
}
TROUPE_DATA(files, file_source, name_files);

TROUPE_STRUCT(compare_settings, (bool, shuffle));
static troupe_status compare_batch(const troupe_batch *batch, int64_t *sum)
{
    troupe_tensor idx, csv, tokens, slopes;
    TROUPE_TRY(troupe_column(batch, "idx", TROUPE_UINT8, 1, &idx));
    TROUPE_TRY(troupe_column(batch, "csv", TROUPE_FLOAT32, 1, &csv));
    TROUPE_TRY(troupe_column(batch, "tokens", TROUPE_UINT32, 2, &tokens));
    TROUPE_TRY(troupe_column(batch, "slope", TROUPE_FLOAT64, 2, &slopes));
    for (size_t i = 0; i < batch->rows; i++) {
        unsigned row = ((const unsigned char *)idx.data)[i];
        const uint32_t *token = (const uint32_t *)tokens.data + 2 * i;
        const double *slope_of = (const double *)slopes.data + 2 * i;
        if (((const float *)csv.data)[i] != (float)row || token[0] != row || token[1] != row + 1 ||
            slope_of[0] != 0.5 * row || slope_of[1] != -0.5 * row)
            return troupe_fail(TROUPE_FAILED, "row %u is another", row);
        *sum += row;
    }
    return TROUPE_OK;
}

static troupe_status compare(troupe_rank *me, const compare_settings *config)
{
    int64_t sum = 0;
    troupe_batch batch;
    troupe_batches *batches;
    TROUPE_TRY(troupe_batches_open(me, "train", &batches, .batch = 7, .shuffle = config->shuffle));
    troupe_status status;
    while ((status = troupe_batches_next(batches, &batch)) == TROUPE_OK)
        if ((status = compare_batch(&batch, &sum)) != TROUPE_OK)
            break;
    troupe_batches_close(&batches);
    if (status != TROUPE_END)
        return status;
    TROUPE_TRY(troupe_allreduce(me, &sum, 1, TROUPE_SUM));
    return sum == 99 * 100 / 2 ? TROUPE_OK
                               : troupe_fail(TROUPE_FAILED, "the sum is %lld", (long long)sum);
}
TROUPE_TRAINER(compare, compare_settings);

static void make_files(void)
{
    unsigned char idx[108] = {0, 0, 8, 1, 0, 0, 0, 100};
    uint32_t tokens[101];
    char csv[1000] = "number\n";
    size_t used = strlen(csv);
    for (unsigned i = 0; i < 100; i++) {
        idx[8 + i] = (unsigned char)i;
        used += (size_t)snprintf(csv + used, sizeof csv - used, "%u\n", i);
    }
    for (unsigned i = 0; i < 101; i++)
        tokens[i] = i;
    file_of("rows.idx", idx, sizeof idx);
    file_of("rows.csv", csv, used);
    file_of("rows.tokens", tokens, sizeof tokens);
}

// Rows of all sources are the same ones, in order and shuffled; a generator's failure has its row.
static void test_columns_of_all_sources_go_together(void **state)
{
    (void)state;
    make_files();
    char *storage = support_path(folder, "runs");
    for (int i = 0; i < 3; i++) {
        troupe_result *result = NULL;
        file_source source = {folder, i == 2 ? 60 : -1};
        compare_settings config = {i == 1};
        troupe_status status =
            troupe_train(compare, &config, &result, .ranks = 2, .storage = storage,
                         .data = troupe_data_with(files, &source));
        const char *text = result ? troupe_result_error(result) : troupe_last_error()->text;
        const char *told =
            "column 'slope': row 60 of the generator 'slope': there is no such slope";
        if (i == 2 ? status != TROUPE_IO || !strstr(text, told) : status != TROUPE_OK)
            fail_msg("%d: %s", i, text);
        troupe_result_free(&result);
    }
    free(storage);
}

static void test_generators_that_are_none_are_refused(void **state)
{
    (void)state;
    trp_look look = {0};
    trp_source source = {.column = "x"};
    troupe_generator other = troupe_generator_slope;
    other.fill = (troupe_status(*)(const void *, int64_t, void *))1;
    assert_told(troupe_generator_register(&other), TROUPE_EXISTS,
                "another generator has the name 'slope'");
    other.fill = NULL;
    assert_told(troupe_generator_register(&other), TROUPE_INVALID, "has no function");
    troupe_from from = {.size = sizeof from, .generator = &troupe_generator_slope};
    assert_told(trp_look_at_generator(&look, &from, &source), TROUPE_INVALID,
                "it has no generator, or no config of that");
    from = troupe_from_generator("x", slope, &((slope){0}), TROUPE_DTYPE_NONE, 3);
    assert_told(trp_look_at_generator(&look, &from, &source), TROUPE_INVALID, "have no type");
    assert_null(trp_generator_find("curve", 1));
    assert_told(troupe_last_error()->status, TROUPE_NOT_FOUND,
                "the generator 'curve' is not registered in this process");
    assert_null(trp_generator_find("slope", 1));
    assert_int_equal(troupe_last_error()->status, TROUPE_WRONG_TYPE);
    trp_look_end(&look);
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .cpus = 4));
    folder = support_directory_make();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields_of_a_csv_file_become_numbers),
        cmocka_unit_test(test_faults_of_a_csv_file_name_line_and_field),
        cmocka_unit_test(test_numbers_are_read_exactly),
        cmocka_unit_test(test_a_csv_file_is_read_into_the_store),
        cmocka_unit_test(test_an_idx_file_is_mapped_where_it_can_be),
        cmocka_unit_test(test_faults_of_an_idx_file_are_told),
        cmocka_unit_test(test_packed_data_that_are_damaged_are_told),
        cmocka_unit_test(test_tokens_are_windows_of_a_file),
        cmocka_unit_test(test_a_tensor_of_a_safetensors_file_is_mapped),
        cmocka_unit_test(test_rows_are_gathered_whatever_their_size_and_order),
        cmocka_unit_test(test_a_file_that_changes_is_told),
        cmocka_unit_test(test_columns_of_all_sources_go_together),
        cmocka_unit_test(test_generators_that_are_none_are_refused),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    support_directory_remove(folder);
    return troupe_stop() || failed;
}
