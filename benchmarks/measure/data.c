// data.c: how fast batches are made of each source.
//
//     data <folder> <seconds> [source...]
//
// Prints for each source, in GB/s, "<source> <rate>": a run's only rank goes through epochs of
// shuffled batches, without a thread, and in turns with that it copies the same rows by memcpy, in
// an order that it knows before ("<source>.memcpy <rate>") and in that of the set with one call a
// batch ("<source>.inorder <rate>"). Then, but for the generator, "<source>.view <us>": the time of
// a batch in the order of the set, which is lent. What the sources are made of goes to the folder,
// and what CSV takes to be read to stderr.
#include <harness.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <troupe.h>

enum {
    BATCH = 256,
    IMAGES = 60000, // As MNIST has them.
    PIXELS = 784,
    WIDE = 20000, // Rows of as many float32.
    TOKENS = 1024,
    WINDOWS = 20000,
    LINES = 100000,
    FIELDS = 16,
    SOURCES_MAX = 6,
};

static const char *const sources[SOURCES_MAX] = {"tensor",      "idx",    "csv",
                                                 "safetensors", "tokens", "generator"};

TROUPE_STRUCT(places, (troupe_text, folder));
TROUPE_STRUCT(pattern, (int, first));
TROUPE_STRUCT(rates, (double, ours, 6), (double, copies, 6), (double, inorder, 6),
              (double, view_us, 6));
TROUPE_STRUCT(settings, (double, seconds), (bool, wanted, 6));

static float pixels[PIXELS];

static troupe_status fill_pattern(const pattern *config, int64_t row, void *out)
{
    pixels[row % PIXELS] = (float)config->first;
    memcpy(out, pixels, sizeof pixels);
    return TROUPE_OK;
}
TROUPE_GENERATOR(pattern, pattern, fill_pattern);

// ---- Making the sources

static FILE *make_file(const char *folder, const char *name, char *path, size_t size)
{
    snprintf(path, size, "%s/%s", folder, name);
    FILE *file = fopen(path, "wbe");
    if (!file)
        bench_die("data: cannot make %s", path);
    return file;
}

static void write_file(FILE *file, const void *data, size_t size)
{
    if (fwrite(data, 1, size, file) != size)
        bench_die("data: cannot write a file");
}

static void make_files(const char *folder)
{
    static const unsigned char head[] = {0, 0, 8, 3,  0, 0, IMAGES >> 8, IMAGES & 255,
                                         0, 0, 0, 28, 0, 0, 0,           28};
    static unsigned char image[PIXELS];
    static uint16_t window[TOKENS];
    char path[512];
    FILE *file = make_file(folder, "it.idx", path, sizeof path);
    write_file(file, head, sizeof head);
    for (int i = 0; i < IMAGES; i++) {
        memset(image, i, sizeof image);
        write_file(file, image, sizeof image);
    }
    fclose(file);
    file = make_file(folder, "it.tokens", path, sizeof path);
    for (int i = 0; i < WINDOWS; i++) {
        window[i % TOKENS] = (uint16_t)i;
        write_file(file, window, sizeof window);
    }
    fclose(file);
    file = make_file(folder, "it.csv", path, sizeof path);
    for (int i = 0; i < LINES; i++)
        for (int j = 0; j < FIELDS; j++)
            fprintf(file, "%.6g%c", (double)i / (j + 1), j + 1 < FIELDS ? ',' : '\n');
    fclose(file);
    float *wide = calloc((size_t)WIDE * PIXELS, sizeof *wide);
    if (!wide)
        bench_die("data: no memory");
    for (int i = 0; i < WIDE; i++)
        wide[(size_t)i * PIXELS] = (float)i;
    snprintf(path, sizeof path, "%s/it.safetensors", folder);
    troupe_named_tensor tensor = {"x", troupe_tensor_of(TROUPE_FLOAT32, wide, WIDE, PIXELS)};
    troupe_must(troupe_safetensors_write(path, &tensor, 1, NULL, 0));
    free(wide);
}

static troupe_status name_tensor(troupe_data *data)
{
    troupe_buffer buffer;
    troupe_ref ref;
    troupe_tensor like = troupe_tensor_of(TROUPE_FLOAT32, NULL, WIDE, PIXELS);
    TROUPE_TRY(troupe_tensor_create(&like, &buffer));
    memset(buffer.data, 0, buffer.size);
    TROUPE_TRY(troupe_buffer_seal(&buffer, &ref));
    return troupe_data_columns(data, "tensor", TROUPE_WHOLE, troupe_from_tensor("x", ref));
}

static troupe_status name_sources(troupe_data *data, const places *source)
{
    char idx[512], csv[512], weights[512], tokens[512];
    snprintf(idx, sizeof idx, "%s/it.idx", source->folder);
    snprintf(csv, sizeof csv, "%s/it.csv", source->folder);
    snprintf(weights, sizeof weights, "%s/it.safetensors", source->folder);
    snprintf(tokens, sizeof tokens, "%s/it.tokens", source->folder);
    TROUPE_TRY(name_tensor(data));
    TROUPE_TRY(troupe_data_columns(data, "idx", TROUPE_WHOLE, troupe_from_idx("x", idx)));
    int64_t began = bench_now_ns();
    TROUPE_TRY(
        troupe_data_columns(data, "csv", TROUPE_WHOLE,
                            troupe_from_csv("x", csv, NULL, TROUPE_FLOAT32, .no_header = true)));
    fprintf(stderr, "csv: %d lines of %d numbers read in %.0f ms\n", LINES, FIELDS,
            (double)(bench_now_ns() - began) * 1e-6);
    TROUPE_TRY(troupe_data_columns(data, "safetensors", TROUPE_WHOLE,
                                   troupe_from_safetensors("x", weights, "x")));
    TROUPE_TRY(troupe_data_columns(data, "tokens", TROUPE_WHOLE,
                                   troupe_from_tokens("x", tokens, TROUPE_UINT16, TOKENS)));
    return troupe_data_columns(
        data, "generator", TROUPE_WHOLE,
        troupe_from_generator("x", pattern, &(pattern){1}, TROUPE_FLOAT32, WIDE, PIXELS));
}
TROUPE_DATA(everything, places, name_sources);

// ---- Measuring

// Time of this thread's on a CPU: whatever else the machine does, it is the work's own.
static int64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000 + now.tv_nsec;
}

static troupe_status column_of(const troupe_batch *batch, troupe_tensor *column, size_t *size)
{
    TROUPE_TRY(troupe_column(batch, "x", TROUPE_DTYPE_NONE, TROUPE_DIMS_ANY, column));
    *size = troupe_tensor_count(column) * troupe_dtype_size(column->dtype);
    return TROUPE_OK;
}

// Goes through an epoch; *sum keeps compilers from leaving the reads out.
static troupe_status walk(troupe_batches *batches, int64_t epoch, size_t *bytes, unsigned *sum)
{
    troupe_status status;
    troupe_batch batch;
    TROUPE_TRY(troupe_batches_begin(batches, epoch, 0));
    while ((status = troupe_batches_next(batches, &batch)) == TROUPE_OK) {
        troupe_tensor column;
        size_t size;
        TROUPE_TRY(column_of(&batch, &column, &size));
        *sum += *(const unsigned char *)column.data;
        *bytes += size;
    }
    return status == TROUPE_END ? TROUPE_OK : status;
}

// A copy in order, a batch a call; and one of the rows in another order, a row a call.
static void copy(const unsigned char *from, size_t bytes, size_t each, unsigned char *to)
{
    for (size_t at = 0; at < bytes; at += each) {
        memcpy(to, from + at, bytes - at < each ? bytes - at : each);
        __asm__ volatile("" : : "r"(to) : "memory");
    }
}

static void copy_rows(const unsigned char *from, const uint32_t *order, size_t rows, size_t each,
                      unsigned char *to)
{
    for (size_t i = 0; i < rows; i++) {
        memcpy(to + i % BATCH * each, from + order[i] * each, each);
        __asm__ volatile("" : : "r"(to) : "memory");
    }
}

static uint32_t *shuffled(size_t rows)
{
    uint32_t *order = malloc(rows * sizeof *order);
    uint64_t random = 1;
    for (size_t i = 0; order && i < rows; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        size_t with = (size_t)((random >> 33) % (i + 1));
        order[i] = order[with];
        order[with] = (uint32_t)i;
    }
    return order;
}

static troupe_status measure_view(troupe_rank *me, const char *source, double *view_us)
{
    enum { EPOCHS = 20 };
    troupe_batches *views;
    size_t bytes = 0;
    unsigned sum = 0;
    TROUPE_TRY(troupe_batches_open(me, source, &views, .batch = BATCH));
    TROUPE_TRY(walk(views, 0, &bytes, &sum));
    int64_t began = cpu_ns();
    for (int i = 0; i < EPOCHS; i++)
        TROUPE_TRY(walk(views, i, &bytes, &sum));
    *view_us = (double)(cpu_ns() - began) * 1e-3 / EPOCHS / (double)troupe_batches_count(views);
    troupe_batches_close(&views);
    return TROUPE_OK;
}

static troupe_status measure(troupe_rank *me, const char *source, double seconds, double *ours,
                             double *copies, double *inorder)
{
    troupe_batches *whole, *batches;
    troupe_batch all;
    troupe_tensor column;
    size_t size, bytes = 0, copied = 0;
    unsigned sum = 0;
    int64_t took = 0, took_copies = 0, took_inorder = 0;
    int64_t end = bench_now_ns() + (int64_t)(seconds * 1e9);
    TROUPE_TRY(troupe_batches_open(me, source, &whole, .batch = IMAGES + LINES));
    TROUPE_TRY(troupe_batches_next(whole, &all));
    TROUPE_TRY(column_of(&all, &column, &size));
    size_t row = size / all.rows, each = row * BATCH;
    unsigned char *to = bench_written(each);
    uint32_t *order = shuffled(all.rows);
    TROUPE_TRY(troupe_batches_open(me, source, &batches, .batch = BATCH, .shuffle = true,
                                   .prefetch = TROUPE_NONE));
    TROUPE_TRY(walk(batches, 0, &bytes, &sum)); // Pages and caches are as they will be.
    copy(column.data, size, each, to);
    bytes = 0;
    for (int64_t epoch = 1; epoch < 3 || bench_now_ns() < end; epoch++) {
        int64_t began = cpu_ns();
        TROUPE_TRY(walk(batches, epoch, &bytes, &sum));
        int64_t between = cpu_ns();
        copy_rows(column.data, order, all.rows, row, to);
        int64_t then = cpu_ns();
        copy(column.data, size, each, to);
        copied += size;
        took += between - began;
        took_copies += then - between;
        took_inorder += cpu_ns() - then;
    }
    *ours = (double)bytes / (double)took;
    *copies = (double)copied / (double)took_copies;
    *inorder = (double)copied / (double)took_inorder;
    free(order);
    troupe_batches_close(&batches);
    troupe_batches_close(&whole);
    return TROUPE_OK;
}

static troupe_status loop(troupe_rank *me, const settings *config)
{
    rates found = {0};
    for (int i = 0; i < SOURCES_MAX; i++) {
        if (!config->wanted[i])
            continue;
        TROUPE_TRY(measure(me, sources[i], config->seconds, &found.ours[i], &found.copies[i],
                           &found.inorder[i]));
        if (strcmp(sources[i], "generator") != 0)
            TROUPE_TRY(measure_view(me, sources[i], &found.view_us[i]));
    }
    return troupe_return(rates, me, &found);
}
TROUPE_TRAINER(loop, settings);

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .workers = TROUPE_NONE, .cpus = 2));
    if (argc < 3)
        bench_die("usage: data <folder> <seconds> [source...]");
    settings config = {.seconds = strtod(argv[2], NULL)};
    for (int i = 0; i < SOURCES_MAX; i++) {
        config.wanted[i] = argc == 3;
        for (int j = 3; j < argc; j++)
            config.wanted[i] = config.wanted[i] || strcmp(argv[j], sources[i]) == 0;
    }
    const places source = {argv[1]};
    troupe_result *result;
    rates found;
    make_files(argv[1]);
    troupe_must(troupe_train(loop, &config, &result, .storage = argv[1],
                             .console = TROUPE_CONSOLE_OFF,
                             .data = troupe_data_with(everything, &source)));
    troupe_must(troupe_result_value(rates, result, &found));
    for (int i = 0; i < SOURCES_MAX; i++)
        if (config.wanted[i]) {
            printf("%s %.4g\n%s.memcpy %.4g\n%s.inorder %.4g\n", sources[i], found.ours[i],
                   sources[i], found.copies[i], sources[i], found.inorder[i]);
            if (found.view_us[i] > 0)
                printf("%s.view %.4g\n", sources[i], found.view_us[i]);
        }
    troupe_result_free(&result);
    return troupe_stop();
}
