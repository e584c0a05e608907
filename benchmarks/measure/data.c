// data.c: how fast batches are made of each source.
//
//     data <folder> <seconds> [source...]
//
// Prints for each source, in GB/s, "<source> <rate>": a run's only rank goes through epochs of
// batches, without a thread, which are shuffled, but for those of "windows", which overlap in their
// file, and "unaligned", whose elements lie at odd addresses: they come in the order of the set,
// and cannot be lent. In turns with that it copies as many bytes in the order of the set with one
// memcpy a batch ("<source>.inorder <rate>") and, if it is shuffled, gathers the same rows in an
// order that it knows before, by memcpy alone and with its own prefetches, of which the faster
// counts ("<source>.gather <rate>"). Then, if its batches can be lent, "<source>.view <us>": the
// time of a batch in the order of the set. What the sources are made of goes to the folder, and
// what CSV takes to be read to stderr.
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
    SOURCES_MAX = 8,
    AHEAD = 4, // Rows that are asked for before they are copied, so many bytes of each.
    ASKED = 1024,
    LINE = 64,
};

static const struct {
    const char *name;
    bool shuffled, lent;
} sources[SOURCES_MAX] = {
    {"tensor", true, true},      {"idx", true, true},         {"csv", true, true},
    {"safetensors", true, true}, {"tokens", true, true},      {"generator", true, false},
    {"windows", false, false},   {"unaligned", false, false},
};

TROUPE_STRUCT(places, (troupe_text, folder));
TROUPE_STRUCT(pattern, (int, first));
TROUPE_STRUCT(rates, (double, ours, 8), (double, gathers, 8), (double, inorder, 8),
              (double, view_us, 8));
TROUPE_STRUCT(settings, (double, seconds), (bool, wanted, 8));

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

// `skipped` bytes, and then the tokens.
static void make_tokens(const char *folder, const char *name, size_t skipped)
{
    static uint16_t window[TOKENS];
    char path[512];
    FILE *file = make_file(folder, name, path, sizeof path);
    write_file(file, "?", skipped);
    for (int i = 0; i < WINDOWS; i++) {
        window[i % TOKENS] = (uint16_t)i;
        write_file(file, window, sizeof window);
    }
    fclose(file);
}

static void make_files(const char *folder)
{
    static const unsigned char head[] = {0, 0, 8, 3,  0, 0, IMAGES >> 8, IMAGES & 255,
                                         0, 0, 0, 28, 0, 0, 0,           28};
    static unsigned char image[PIXELS];
    char path[512];
    FILE *file = make_file(folder, "it.idx", path, sizeof path);
    write_file(file, head, sizeof head);
    for (int i = 0; i < IMAGES; i++) {
        memset(image, i, sizeof image);
        write_file(file, image, sizeof image);
    }
    fclose(file);
    make_tokens(folder, "it.tokens", 0);
    make_tokens(folder, "odd.tokens", 1);
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
    char idx[512], csv[512], weights[512], tokens[512], odd[512];
    snprintf(idx, sizeof idx, "%s/it.idx", source->folder);
    snprintf(csv, sizeof csv, "%s/it.csv", source->folder);
    snprintf(weights, sizeof weights, "%s/it.safetensors", source->folder);
    snprintf(tokens, sizeof tokens, "%s/it.tokens", source->folder);
    snprintf(odd, sizeof odd, "%s/odd.tokens", source->folder);
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
    TROUPE_TRY(troupe_data_columns(
        data, "windows", TROUPE_WHOLE,
        troupe_from_tokens("x", tokens, TROUPE_UINT16, TOKENS + 1, .stride = TOKENS)));
    TROUPE_TRY(
        troupe_data_columns(data, "unaligned", TROUPE_WHOLE,
                            troupe_from_tokens("x", odd, TROUPE_UINT16, TOKENS, .skip_bytes = 1)));
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

// A copy in order, a batch a call.
static void copy(const unsigned char *from, size_t bytes, size_t each, unsigned char *to)
{
    for (size_t at = 0; at < bytes; at += each) {
        memcpy(to, from + at, bytes - at < each ? bytes - at : each);
        __asm__ volatile("" : : "r"(to) : "memory");
    }
}

// The rows in another order, a row a call; with prefetches or without.
static inline void gather(const unsigned char *from, const uint32_t *order, size_t rows,
                          size_t each, unsigned char *to, bool ask)
{
    size_t asked = each < ASKED ? each : ASKED;
    for (size_t i = 0; i < rows; i++) {
        for (size_t at = 0; at < asked && ask && i + AHEAD < rows; at += LINE)
            __builtin_prefetch(from + order[i + AHEAD] * each + at);
        memcpy(to + i % BATCH * each, from + order[i] * each, each);
        __asm__ volatile("" : : "r"(to) : "memory");
    }
}

static uint32_t *order_of(size_t rows)
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

// What a source's batches are compared with: its rows, in their order.
typedef struct peer {
    const unsigned char *from;
    size_t rows, row, size;
    uint32_t *order;
    unsigned char *to;
    int64_t plain_ns, asking_ns, inorder_ns;
} peer;

static void turn_of_peers(peer *it, bool shuffled)
{
    int64_t began = cpu_ns();
    copy(it->from, it->size, it->row * BATCH, it->to);
    int64_t copied = cpu_ns();
    it->inorder_ns += copied - began;
    if (!shuffled)
        return;
    gather(it->from, it->order, it->rows, it->row, it->to, false);
    int64_t gathered = cpu_ns();
    it->plain_ns += gathered - copied;
    gather(it->from, it->order, it->rows, it->row, it->to, true);
    it->asking_ns += cpu_ns() - gathered;
}

static troupe_status measure(troupe_rank *me, int source, double seconds, rates *found)
{
    troupe_batches *whole, *batches;
    troupe_batch all;
    troupe_tensor column;
    peer peers = {0};
    size_t bytes = 0;
    unsigned sum = 0;
    int64_t took = 0, turns = 0, end = bench_now_ns() + (int64_t)(seconds * 1e9);
    const char *name = sources[source].name;
    bool shuffled = sources[source].shuffled;
    TROUPE_TRY(
        troupe_batches_open(me, name, &whole, .batch = IMAGES + LINES, .prefetch = TROUPE_NONE));
    TROUPE_TRY(troupe_batches_next(whole, &all));
    TROUPE_TRY(column_of(&all, &column, &peers.size));
    peers.from = column.data;
    peers.rows = all.rows;
    peers.row = peers.size / all.rows;
    peers.to = bench_written(peers.row * BATCH);
    peers.order = order_of(all.rows);
    TROUPE_TRY(troupe_batches_open(me, name, &batches, .batch = BATCH, .shuffle = shuffled,
                                   .prefetch = TROUPE_NONE));
    TROUPE_TRY(walk(batches, 0, &bytes, &sum)); // Pages and caches are as they will be.
    copy(peers.from, peers.size, peers.row * BATCH, peers.to);
    for (bytes = 0; turns < 2 || bench_now_ns() < end; turns++) {
        int64_t began = cpu_ns();
        TROUPE_TRY(walk(batches, 1 + turns, &bytes, &sum));
        took += cpu_ns() - began;
        turn_of_peers(&peers, shuffled);
    }
    double copied = (double)peers.size * (double)turns;
    int64_t faster = peers.plain_ns < peers.asking_ns ? peers.plain_ns : peers.asking_ns;
    found->ours[source] = (double)bytes / (double)took;
    found->gathers[source] = shuffled ? copied / (double)faster : 0;
    found->inorder[source] = copied / (double)peers.inorder_ns;
    free(peers.order);
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
        TROUPE_TRY(measure(me, i, config->seconds, &found));
        if (sources[i].lent)
            TROUPE_TRY(measure_view(me, sources[i].name, &found.view_us[i]));
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
            config.wanted[i] = config.wanted[i] || strcmp(argv[j], sources[i].name) == 0;
    }
    const places source = {argv[1]};
    troupe_result *result;
    rates found;
    make_files(argv[1]);
    troupe_must(troupe_train(loop, &config, &result, .storage = argv[1],
                             .console = TROUPE_CONSOLE_OFF,
                             .data = troupe_data_with(everything, &source)));
    troupe_must(troupe_result_value(rates, result, &found));
    for (int i = 0; i < SOURCES_MAX; i++) {
        const char *name = sources[i].name;
        if (!config.wanted[i])
            continue;
        printf("%s %.4g\n%s.inorder %.4g\n", name, found.ours[i], name, found.inorder[i]);
        if (sources[i].shuffled)
            printf("%s.gather %.4g\n", name, found.gathers[i]);
        if (sources[i].lent)
            printf("%s.view %.4g\n", name, found.view_us[i]);
    }
    troupe_result_free(&result);
    return troupe_stop();
}
