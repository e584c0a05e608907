// test_safetensors.c: safetensors files of users: written, opened, viewed in place. Python is asked
// by tests/train/readers.sh.
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <troupe.h>
#include <unistd.h>

static const float weights[6] = {0.5f, -1, 2, 3, 4, 5};
static const int64_t steps[1] = {-7};
static const uint8_t bytes[5] = {1, 2, 3, 4, 5};
static const bool flags[3] = {true, false, true};

static troupe_named_tensor tensors[] = {
    {"flags", {.data = flags, .dtype = TROUPE_BOOL, .ndim = 1, .shape = {3}}},
    {"layers.0.weight", {.data = weights, .dtype = TROUPE_FLOAT32, .ndim = 2, .shape = {2, 3}}},
    {"bytes", {.data = bytes, .dtype = TROUPE_UINT8, .ndim = 1, .shape = {5}}},
    {"step \xc3\xa4 \"x\"", {.data = steps, .dtype = TROUPE_INT64}},
    {"none of it", {.dtype = TROUPE_FLOAT16, .ndim = 2, .shape = {0, 4}}},
};
enum { TENSORS = sizeof tensors / sizeof *tensors };
static const troupe_named_text texts[] = {{"format", "np"}, {"note", "a \"note\"\n\xc3\xa4"}};

static void expect_whole(const char *path)
{
    troupe_safetensors *file = NULL;
    if (troupe_safetensors_open(path, &file) != TROUPE_OK)
        fail_msg("%s", troupe_last_error()->text);
    assert_int_equal(troupe_safetensors_count(file), TENSORS);
    assert_string_equal(troupe_safetensors_name(file, 0), "bytes");
    assert_string_equal(troupe_safetensors_name(file, 4), "step \xc3\xa4 \"x\"");
    assert_null(troupe_safetensors_name(file, TENSORS));
    for (int i = 0; i < TENSORS; i++) {
        troupe_tensor seen, *is = &tensors[i].tensor;
        size_t size = troupe_tensor_count(is) * troupe_dtype_size(is->dtype);
        assert_int_equal(troupe_safetensors_view(file, tensors[i].name, &seen), TROUPE_OK);
        assert_int_equal(seen.dtype, is->dtype);
        assert_int_equal(seen.ndim, is->ndim);
        assert_memory_equal(seen.shape, is->shape, sizeof seen.shape);
        assert_int_equal((uintptr_t)seen.data % troupe_dtype_size(is->dtype), 0);
        if (size > 0)
            assert_memory_equal(seen.data, is->data, size);
        else
            assert_null(seen.data);
    }
    troupe_tensor seen;
    assert_int_equal(troupe_safetensors_view(file, "nowhere", &seen), TROUPE_NOT_FOUND);
    assert_non_null(strstr(troupe_last_error()->text, "has no tensor 'nowhere'"));
    assert_non_null(strstr(troupe_last_error()->text, path));
    assert_string_equal(troupe_safetensors_text(file, "note"), "a \"note\"\n\xc3\xa4");
    assert_string_equal(troupe_safetensors_text(file, "format"), "np");
    assert_null(troupe_safetensors_text(file, "nothing"));
    troupe_safetensors_close(&file);
    assert_null(file);
}

static void test_what_is_written_is_seen_in_place(void **state)
{
    (void)state;
    char *folder = support_directory_make(), *path = support_path(folder, "a.safetensors");
    assert_int_equal(troupe_safetensors_write(path, tensors, TENSORS, texts, 2), TROUPE_OK);
    expect_whole(path);
    // Another one takes its place, while the first is still seen.
    troupe_safetensors *old, *new;
    troupe_tensor seen;
    assert_int_equal(troupe_safetensors_open(path, &old), TROUPE_OK);
    assert_int_equal(troupe_safetensors_view(old, "layers.0.weight", &seen), TROUPE_OK);
    assert_int_equal(troupe_safetensors_write(path, NULL, 0, NULL, 0), TROUPE_OK);
    assert_int_equal(troupe_safetensors_open(path, &new), TROUPE_OK);
    assert_int_equal(troupe_safetensors_count(new), 0);
    assert_memory_equal(seen.data, weights, sizeof weights);
    troupe_safetensors_close(&old);
    troupe_safetensors_close(&new);
    assert_int_equal(support_count_files(folder), 1);
    free(path);
    support_directory_remove(folder);
}

static void expect_refused(const char *path, const troupe_named_tensor *what, size_t count,
                           const char *why)
{
    assert_int_equal(troupe_safetensors_write(path, what, count, NULL, 0), TROUPE_INVALID);
    if (strstr(troupe_last_error()->text, why) == NULL)
        fail_msg("%s is not in: %s", why, troupe_last_error()->text);
    assert_false(support_exists(path));
}

static void test_what_cannot_be_written_is_named(void **state)
{
    (void)state;
    char *folder = support_directory_make(), *path = support_path(folder, "a.safetensors");
    const troupe_tensor good = tensors[0].tensor;
    expect_refused(path, (troupe_named_tensor[]){{"a", good}, {"b", good}, {"a", good}}, 3,
                   "'a' is there twice");
    expect_refused(path, (troupe_named_tensor[]){{"__metadata__", good}}, 1, "'__metadata__'");
    expect_refused(path, (troupe_named_tensor[]){{"\xff", good}}, 1, "in UTF-8");
    expect_refused(path, (troupe_named_tensor[]){{NULL, good}}, 1, "the name of a tensor");
    expect_refused(path, (troupe_named_tensor[]){{"a", {.dtype = TROUPE_DTYPE_NONE}}}, 1,
                   "'a' has no element type");
    expect_refused(path, (troupe_named_tensor[]){{"a", {.dtype = TROUPE_INT8}}}, 1,
                   "tensor 'a': expected the 1 bytes");
    const troupe_named_text twice[] = {{"a", "b"}, {"a", "c"}}, none[] = {{"a", NULL}};
    assert_int_equal(troupe_safetensors_write(path, NULL, 0, twice, 2), TROUPE_INVALID);
    assert_int_equal(troupe_safetensors_write(path, NULL, 0, none, 1), TROUPE_INVALID);
    assert_int_equal(troupe_safetensors_write("/nowhere/a", NULL, 0, NULL, 0), TROUPE_IO);
    assert_non_null(strstr(troupe_last_error()->text, "/nowhere/a"));
    free(path);
    support_directory_remove(folder);
}

static void test_what_is_no_such_file_is_told(void **state)
{
    (void)state;
    char *folder = support_directory_make(), *path = support_path(folder, "a.safetensors");
    troupe_safetensors *file = NULL;
    const char *text = troupe_last_error()->text;
    assert_int_equal(troupe_safetensors_open(path, &file), TROUPE_NOT_FOUND);
    assert_int_equal(troupe_safetensors_open(folder, &file), TROUPE_CORRUPT);
    assert_non_null(strstr(text, "is not a file"));
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(troupe_safetensors_open(path, &file), TROUPE_CORRUPT);
    assert_int_equal(unlink(path), 0);
    support_write_file(path, "", 0);
    assert_int_equal(troupe_safetensors_open(path, &file), TROUPE_CORRUPT);
    assert_non_null(strstr(text, path));
    // A copy that was broken off.
    assert_int_equal(troupe_safetensors_write(path, tensors, TENSORS, texts, 2), TROUPE_OK);
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    for (off_t size = about.st_size - 1; size >= 0; size -= 3) {
        assert_int_equal(truncate(path, size), 0);
        assert_int_equal(troupe_safetensors_open(path, &file), TROUPE_CORRUPT);
        assert_non_null(strstr(text, path));
    }
    assert_null(file);
    free(path);
    support_directory_remove(folder);
}

// Others may put a float behind an odd number of bytes.
static void test_elements_that_lie_askew_can_be_read(void **state)
{
    (void)state;
    char *folder = support_directory_make(), *path = support_path(folder, "a.safetensors");
    const char *header = "{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                         "\"w\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[1,25]}}";
    unsigned char file_bytes[256] = {0};
    uint64_t length = strlen(header);
    memcpy(file_bytes, &length, 8);
    memcpy(file_bytes + 8, header, length);
    memcpy(file_bytes + 8 + length + 1, weights, sizeof weights);
    support_write_file(path, file_bytes, 8 + length + 25);
    troupe_safetensors *file;
    troupe_tensor seen;
    assert_int_equal(troupe_safetensors_open(path, &file), TROUPE_OK);
    assert_int_equal(troupe_safetensors_view(file, "w", &seen), TROUPE_OK);
    assert_int_equal((uintptr_t)seen.data % 4, 0);
    assert_memory_equal(seen.data, weights, sizeof weights);
    troupe_safetensors_close(&file);
    free(path);
    support_directory_remove(folder);
}

// ---- beside Python: see readers.sh

TROUPE_STRUCT(part, (troupe_text, name), (int, width), (troupe_tensor, weights));
TROUPE_STRUCT(learned, (int, epoch), (double, loss), (float, odd), (bool, done), (char, tag, 8),
              (troupe_text, note), (troupe_bytes, blob), (float, range, 2),
              (troupe_array_double, history), (troupe_array_part, layers), (troupe_tensor, none));

// Saves what Python expects to find: rank and epoch are in it.
static troupe_status learn(troupe_rank *me)
{
    const double history[3] = {0.1, 0.2, me->rank};
    float matrix[6];
    uint16_t halves[2] = {0x3c00, 0xc000}; // 1 and -2
    for (int i = 0; i < 6; i++)
        matrix[i] = (float)(10 * me->rank + i);
    const part layers[2] = {
        {"first \xc3\xa4", 2, troupe_tensor_of(TROUPE_FLOAT32, matrix, 2, 3)},
        {NULL, 3, troupe_tensor_of(TROUPE_FLOAT16, halves, 2)},
    };
    learned it = {.epoch = 3,
                  .loss = 0.1,
                  .done = true,
                  .tag = "tag",
                  .note = "a \"note\"\n",
                  .blob = {"\0\1\2", 3},
                  .range = {-1, 1},
                  .history = {history, 3},
                  .layers = {layers, 2}};
    memcpy(&it.odd, &(uint32_t){0x7fc12345}, 4); // A NaN with a payload.
    TROUPE_TRY(troupe_save(learned, me, &it));
    return troupe_report(me, {"loss", it.loss}, {"nothing", NAN}, {"much", -INFINITY});
}
TROUPE_TRAINER(learn);

static bool leave(const char *folder)
{
    troupe_result *result = NULL;
    char *path = support_path(folder, "ours.safetensors");
    bool done = troupe_train(learn, NULL, &result, .ranks = 2, .storage = folder,
                             .name = "learned") == TROUPE_OK &&
                troupe_safetensors_write(path, tensors, TENSORS, texts, 2) == TROUPE_OK;
    if (!done)
        fprintf(stderr, "%s\n", troupe_last_error()->text);
    troupe_result_free(&result);
    free(path);
    return done;
}

// The k-th of 6 elements that Python made of the numbers 0, 1, ... 5; bools of whether they are
// odd.
static bool is_element(const troupe_tensor *of, int k)
{
    static const uint16_t halves[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500};
    const unsigned char *at = (const unsigned char *)of->data;
    uint64_t bits = 0;
    float narrow = (float)k;
    double wide = k;
    uint32_t narrow_bits;
    size_t size = troupe_dtype_size(of->dtype);
    memcpy(&bits, at + (size_t)k * size, size);
    memcpy(&narrow_bits, &narrow, sizeof narrow);
    switch (of->dtype) {
    case TROUPE_BOOL:
        return bits == (uint64_t)k % 2;
    case TROUPE_FLOAT16:
        return bits == halves[k];
    case TROUPE_BFLOAT16:
        return bits == narrow_bits >> 16;
    case TROUPE_FLOAT32:
        return bits == narrow_bits;
    case TROUPE_FLOAT64:
        return memcmp(&bits, &wide, sizeof wide) == 0;
    default:
        return bits == (uint64_t)k;
    }
}

static int complain(const char *name)
{
    fprintf(stderr, "%s is not what Python wrote: %s\n", name, troupe_last_error()->text);
    return 1;
}

// A file of Python with a tensor [2, 3] for each type, named as by troupe_dtype_text.
static int read_theirs(const char *path)
{
    troupe_safetensors *file;
    troupe_tensor seen;
    int failed = 0;
    if (troupe_safetensors_open(path, &file) != TROUPE_OK)
        return complain(path);
    for (int dtype = TROUPE_BOOL; dtype <= TROUPE_FLOAT64; dtype++) {
        const char *name = troupe_dtype_text((troupe_dtype)dtype);
        if (troupe_safetensors_view(file, name, &seen) != TROUPE_OK ||
            troupe_tensor_check(&seen, (troupe_dtype)dtype, 2) != TROUPE_OK || seen.shape[0] != 2 ||
            seen.shape[1] != 3) {
            failed |= complain(name);
            continue;
        }
        for (int k = 0; k < 6; k++)
            failed |= is_element(&seen, k) ? 0 : complain(name);
    }
    if (troupe_safetensors_view(file, "float8_e4m3fn", &seen) != TROUPE_UNSUPPORTED ||
        troupe_safetensors_view(file, "complex64", &seen) != TROUPE_UNSUPPORTED)
        failed |= complain("what C has no type for");
    if (troupe_safetensors_view(file, "scalar", &seen) != TROUPE_OK || seen.ndim != 0 ||
        *(const int64_t *)seen.data != -7)
        failed |= complain("scalar");
    if (troupe_safetensors_view(file, "empty", &seen) != TROUPE_OK || seen.ndim != 2 ||
        seen.shape[0] != 0 || seen.shape[1] != 5 || seen.data != NULL)
        failed |= complain("empty");
    const char *text = troupe_safetensors_text(file, "made by");
    if (text == NULL || strcmp(text, "Python \xc3\xa4") != 0)
        failed |= complain("the metadata");
    printf("%zu tensors of Python\n", troupe_safetensors_count(file));
    troupe_safetensors_close(&file);
    return failed;
}

// With "--leave FOLDER": a run and a file are made there and left, for Python to read; with
// "--read FILE": one that Python made is read.
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_is_seen_in_place),
        cmocka_unit_test(test_what_cannot_be_written_is_named),
        cmocka_unit_test(test_what_is_no_such_file_is_told),
        cmocka_unit_test(test_elements_that_lie_askew_can_be_read),
    };
    if (argc == 3 && strcmp(argv[1], "--read") == 0)
        return read_theirs(argv[2]);
    if (argc != 3 || strcmp(argv[1], "--leave") != 0)
        return cmocka_run_group_tests(tests, NULL, NULL);
    troupe_must(troupe_start(0, NULL, .cpus = 4));
    bool left = leave(argv[2]);
    troupe_must(troupe_stop());
    return left ? 0 : 1;
}
