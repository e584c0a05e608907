// test_batches.c: the batches of a set: which rows they have, in what order, and without copies.
#include <support.h>

#include <dirent.h>
#include <models/batches.h>
#include <models/permutation.h>
#include <models/source.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

// ---- the order of an epoch

// D17: each number once, whatever the count; the same again for the same seed and epoch, with a
// table and without, in pieces and at once.
static void test_a_permutation_has_each_number_once(void **state)
{
    (void)state;
    static const uint64_t counts[] = {1, 2, 3, 10, 255, 256, 257, 1000, 65537};
    static bool seen[65537];
    static int64_t numbers[65537], again[65537];
    static trp_permutation_table table;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        size_t count = counts[i];
        memset(seen, 0, sizeof seen);
        trp_permutation order = trp_permutation_make(count, 7, i);
        trp_permutation_range(&order, 0, count, numbers);
        for (size_t place = 0; place < count; place++) {
            assert_in_range(numbers[place], 0, count - 1);
            assert_false(seen[numbers[place]]);
            seen[numbers[place]] = true;
        }
        assert_true(trp_permutation_tabulate(&order, &table));
        for (size_t place = 0; place < count; place += 7)
            trp_permutation_range(&order, place, count - place < 7 ? count - place : 7,
                                  again + place);
        assert_memory_equal(again, numbers, count * sizeof *numbers);
    }
    trp_permutation vast = trp_permutation_make((uint64_t)1 << 62, 7, 0);
    trp_permutation_range(&vast, 1, 1, numbers);
    assert_true((uint64_t)numbers[0] < (uint64_t)1 << 62);
    assert_false(trp_permutation_tabulate(&vast, &table));
    trp_permutation largest = trp_permutation_make((uint64_t)1 << 24, 7, 0);
    trp_permutation_range(&largest, (1 << 24) - 1000, 1000, numbers);
    assert_true(trp_permutation_tabulate(&largest, &table));
    trp_permutation_range(&largest, (1 << 24) - 1000, 1000, again);
    assert_memory_equal(again, numbers, 1000 * sizeof *numbers);
}

// A run that goes on with a later library has the rows in the order that it had.
static void test_an_order_stays_what_it_is(void **state)
{
    (void)state;
    static const int64_t expected[] = {16125, 34760, 503, 7280, 25058, 9417, 3673, 12181};
    enum { COUNT = sizeof expected / sizeof *expected };
    int64_t numbers[COUNT];
    trp_permutation order = trp_permutation_make(60000, 7, 3);
    trp_permutation_range(&order, 1000, COUNT, numbers);
    assert_memory_equal(numbers, expected, sizeof expected);
}

static int rank_of_order(const trp_permutation *order)
{
    int64_t at[4];
    int rank = 0;
    trp_permutation_range(order, 0, 4, at);
    for (int i = 0; i < 4; i++) {
        int smaller = (int)at[i];
        for (int j = 0; j < i; j++)
            smaller -= at[j] < at[i];
        rank = rank * (4 - i) + smaller;
    }
    return rank;
}

// The 24 orders of four rows are equally frequent, by epochs and by seeds: chi-squared with 23
// degrees of freedom is above 50 once in a thousand times.
static void test_all_orders_are_equally_frequent(void **state)
{
    (void)state;
    enum { ROUNDS = 24000 };
    for (int by_seed = 0; by_seed < 2; by_seed++) {
        int found[24] = {0};
        for (uint64_t i = 0; i < ROUNDS; i++) {
            trp_permutation order = trp_permutation_make(4, by_seed ? i : 5, by_seed ? 5 : i);
            found[rank_of_order(&order)]++;
        }
        double chi = 0;
        for (int i = 0; i < 24; i++)
            chi += (found[i] - ROUNDS / 24.0) * (found[i] - ROUNDS / 24.0) / (ROUNDS / 24.0);
        if (chi > 50)
            fail_msg("chi-squared is %g", chi);
    }
}

// ---- in loops

// `label` is the row's number, `image` has two numbers of it.
TROUPE_STRUCT(number_source, (int, rows), (int, label_rows), (bool, bytes), (bool, scalar),
              (troupe_text, name));
static troupe_status name_numbers(troupe_data *data, const number_source *source)
{
    float images[300];
    int64_t labels[150];
    for (int i = 0; i < source->rows; i++) {
        images[2 * i] = (float)i;
        images[2 * i + 1] = (float)-i;
        labels[i] = i;
    }
    troupe_tensor image = troupe_tensor_of(TROUPE_FLOAT32, images, (size_t)source->rows, 2);
    troupe_tensor label = troupe_tensor_of(
        TROUPE_INT64, labels, (size_t)(source->label_rows ? source->label_rows : source->rows));
    if (source->scalar)
        label.ndim = 0;
    troupe_ref second =
        source->bytes ? troupe_put_bytes("abc", 3) : troupe_put(troupe_tensor, &label);
    return troupe_data_columns(data, "train", TROUPE_SHARE_BY_NAME,
                               troupe_from_tensor("image", troupe_put(troupe_tensor, &image)),
                               troupe_from_tensor(source->name ? source->name : "label", second));
}
TROUPE_DATA(numbers, number_source, name_numbers);

// Each rank checks its batches; together they have seen each row once an epoch.
TROUPE_STRUCT(walk_settings, (int, batch), (int, step_rows), (bool, shuffle), (int, prefetch),
              (int, rows), (troupe_text, key), (int, epochs), (bool, whole));

static troupe_status check_batch(const troupe_batch *batch, const walk_settings *config,
                                 unsigned char *seen)
{
    troupe_tensor image, label;
    TROUPE_TRY(troupe_column(batch, "image", TROUPE_FLOAT32, 2, &image));
    TROUPE_TRY(troupe_column(batch, "label", TROUPE_INT64, 1, &label));
    if (image.shape[0] != batch->rows || image.shape[1] != 2 || label.shape[0] != batch->rows)
        return troupe_fail(TROUPE_FAILED, "a batch has another shape");
    if (config->shuffle && (uintptr_t)image.data % 64 + (uintptr_t)label.data % 64)
        return troupe_fail(TROUPE_FAILED, "gathered rows are not aligned");
    for (size_t i = 0; i < batch->rows; i++) {
        int64_t row = ((const int64_t *)label.data)[i];
        const float *two = (const float *)image.data + 2 * i;
        if (row < 0 || row >= config->rows || two[0] != (float)row || two[1] != (float)-row)
            return troupe_fail(TROUPE_FAILED, "row %lld is another", (long long)row);
        seen[row]++;
    }
    return TROUPE_OK;
}

// Ranks of a split set have equally many rows, within one.
static troupe_status compare_rows(troupe_rank *me, const troupe_batch *batch)
{
    int64_t fewest = (int64_t)batch->rows, most = fewest;
    TROUPE_TRY(troupe_allreduce(me, &fewest, 1, TROUPE_MIN));
    TROUPE_TRY(troupe_allreduce(me, &most, 1, TROUPE_MAX));
    return most - fewest <= 1
               ? TROUPE_OK
               : troupe_fail(TROUPE_FAILED, "batch %lld has %lld to %lld rows",
                             (long long)batch->number, (long long)fewest, (long long)most);
}

static troupe_status walk_epoch(troupe_rank *me, const walk_settings *config,
                                troupe_batches *batches, int64_t epoch)
{
    int64_t seen[150] = {0}, count = 0, fewest, most;
    unsigned char mine[150] = {0};
    troupe_batch batch;
    troupe_status status;
    TROUPE_TRY(troupe_batches_begin(batches, epoch, 0));
    while ((status = troupe_batches_next(batches, &batch)) == TROUPE_OK) {
        if (batch.epoch != epoch || batch.number != count++)
            return troupe_fail(TROUPE_FAILED, "a batch has another number");
        TROUPE_TRY(check_batch(&batch, config, mine));
        TROUPE_TRY(compare_rows(me, &batch));
    }
    if (status != TROUPE_END || count != troupe_batches_count(batches))
        return troupe_fail(TROUPE_FAILED, "it ended with %d after %lld batches", (int)status,
                           (long long)count);
    for (int i = 0; i < 150; i++)
        seen[i] = mine[i];
    fewest = most = count;
    TROUPE_TRY(troupe_allreduce(me, seen, 150, TROUPE_SUM));
    TROUPE_TRY(troupe_allreduce(me, &fewest, 1, TROUPE_MIN));
    TROUPE_TRY(troupe_allreduce(me, &most, 1, TROUPE_MAX));
    if (fewest != most)
        return troupe_fail(TROUPE_FAILED, "ranks have different numbers of batches");
    for (int i = 0; i < config->rows; i++)
        if (seen[i] != (config->whole ? me->world : 1))
            return troupe_fail(TROUPE_FAILED, "row %d was seen %lld times", i, (long long)seen[i]);
    return TROUPE_OK;
}

static troupe_status walk(troupe_rank *me, const walk_settings *config)
{
    troupe_batches *batches;
    TROUPE_TRY(troupe_batches_open(me, config->key ? config->key : "train", &batches,
                                   .batch = config->batch, .step_rows = config->step_rows,
                                   .seed = 3, .shuffle = config->shuffle,
                                   .prefetch = config->prefetch));
    troupe_status status = TROUPE_OK;
    for (int epoch = 0; epoch < config->epochs && status == TROUPE_OK; epoch++)
        status = walk_epoch(me, config, batches, epoch);
    troupe_batches_close(&batches);
    return status;
}
TROUPE_TRAINER(walk, walk_settings);

static char *storage;

static troupe_status run(int ranks, const number_source *source, const walk_settings *config,
                         char text[512])
{
    troupe_result *result = NULL;
    troupe_status status = troupe_train(
        walk, config, &result, .ranks = ranks, .storage = storage,
        .data = troupe_data_with(numbers, source, .share = config->whole ? "train=whole" : NULL));
    strcpy(text, result ? troupe_result_error(result) : troupe_last_error()->text);
    troupe_result_free(&result);
    return status;
}

// D08, D10, D17: the ranks' batches are together each row once, also shuffled, with fewer rows than
// ranks or than a batch; all ranks have as many batches, and as many rows in each. Of a whole set
// each has all rows.
static void test_batches_cover_each_row_once(void **state)
{
    (void)state;
    static const walk_settings configs[] = {
        {.batch = 4, .rows = 10, .epochs = 2},
        {.batch = 4, .rows = 10, .epochs = 2, .shuffle = true},
        {.batch = 100, .rows = 2, .epochs = 1, .shuffle = true},
        {.batch = 7, .rows = 150, .epochs = 3, .shuffle = true, .prefetch = TROUPE_NONE},
        {.step_rows = 8, .rows = 45, .epochs = 1},
        {.step_rows = 8, .rows = 45, .epochs = 1, .shuffle = true, .whole = true},
    };
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        char text[512];
        number_source source = {.rows = configs[i].rows};
        if (run(3, &source, &configs[i], text) != TROUPE_OK)
            fail_msg("%zu: %s", i, text);
    }
}

static void test_columns_that_do_not_fit_are_told(void **state)
{
    (void)state;
    static const struct {
        number_source source;
        walk_settings config;
        troupe_status status;
        const char *text;
    } cases[] = {
        {{.rows = 9, .label_rows = 8},
         {0},
         TROUPE_INVALID,
         "column 'label' of the set 'train': it has 8 rows where 'image' has 9"},
        {{.rows = 0},
         {0},
         TROUPE_INVALID,
         "column 'image' of the set 'train': it has no rows: expected one at least"},
        {{.rows = 9, .scalar = true},
         {0},
         TROUPE_INVALID,
         "column 'label' of the set 'train': it has no dimension"},
        {{.rows = 9, .bytes = true}, {0}, TROUPE_WRONG_TYPE, "column 'label' of the set 'train': "},
        {{.rows = 9, .name = "image"},
         {0},
         TROUPE_INVALID,
         "column 'image' of the set 'train': there is a column of that name already"},
        {{.rows = 9, .name = ""}, {0}, TROUPE_INVALID, "the name is '': expected 1 to 63 bytes"},
        {{.rows = 9},
         {.key = "valid"},
         TROUPE_NOT_FOUND,
         "there is no data set 'valid': the run has train"},
        {{.rows = 9}, {.batch = -1}, TROUPE_INVALID, "batch"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        troupe_status status = run(1, &cases[i].source, &cases[i].config, text);
        if (status != cases[i].status || !strstr(text, cases[i].text))
            fail_msg("%zu: %d, %s", i, (int)status, text);
    }
}

// ---- batches of a set, in this process

static const trp_division alone = {0, 1};

// What the setup of a set leaves.
static troupe_ref set_of(const float *images, int64_t *labels, size_t rows)
{
    troupe_tensor tensors[] = {troupe_tensor_of(TROUPE_FLOAT32, images, rows, 2),
                               troupe_tensor_of(TROUPE_INT64, labels, rows)};
    trp_source columns[] = {
        {.column = "image", .kind = TRP_SOURCE_OBJECT, .dtype = TROUPE_FLOAT32, .ndim = 2},
        {.column = "label", .kind = TRP_SOURCE_OBJECT, .dtype = TROUPE_INT64, .ndim = 1}};
    for (int i = 0; i < 2; i++) {
        memcpy(columns[i].shape, tensors[i].shape, sizeof columns[i].shape);
        columns[i].object = troupe_put(troupe_tensor, &tensors[i]);
    }
    trp_sources sources = {(int64_t)rows, {columns, 2}};
    troupe_ref set = troupe_put(trp_sources, &sources);
    for (int i = 0; i < 2; i++)
        troupe_ref_drop(columns[i].object);
    return set;
}

enum { ROWS = 103 };

static troupe_ref numbers_of_rows(void)
{
    static float images[2 * ROWS];
    static int64_t labels[ROWS];
    for (int i = 0; i < ROWS; i++)
        labels[i] = i;
    return set_of(images, labels, ROWS);
}

static const int64_t *labels_of(const troupe_batch *batch)
{
    troupe_tensor label;
    troupe_must(troupe_column(batch, "label", TROUPE_INT64, 1, &label));
    return (const int64_t *)label.data;
}

// D17: what comes at batch b of epoch e depends on seed and epoch alone, wherever it was begun.
static void test_an_epoch_goes_on_anywhere(void **state)
{
    (void)state;
    troupe_ref set = numbers_of_rows();
    int64_t order[2][ROWS];
    troupe_batch batch;
    troupe_batches *batches, *other;
    troupe_batches_options how = {sizeof how, .batch = 10, .seed = 9, .shuffle = true};
    troupe_must(trp_batches_open("train", set, ROWS, alone, &how, &batches));
    troupe_must(trp_batches_open("train", set, ROWS, alone, &how, &other));
    assert_int_equal(troupe_batches_count(batches), 11);
    for (int epoch = 0; epoch < 2; epoch++) {
        troupe_must(troupe_batches_begin(batches, epoch, 0));
        for (int b = 0; b < 11; b++) {
            troupe_must(troupe_batches_next(batches, &batch));
            assert_int_equal(batch.rows, b < 10 ? 10 : 3);
            memcpy(&order[epoch][10 * b], labels_of(&batch), batch.rows * sizeof(int64_t));
        }
        assert_int_equal(troupe_batches_next(batches, &batch), TROUPE_END);
    }
    assert_memory_not_equal(order[0], order[1], sizeof order[0]);
    static const int jumps[][2] = {{1, 3}, {0, 10}, {1, 0}, {0, 7}};
    for (size_t i = 0; i < sizeof jumps / sizeof *jumps; i++) {
        troupe_must(troupe_batches_begin(other, jumps[i][0], jumps[i][1]));
        troupe_must(troupe_batches_next(other, &batch));
        assert_int_equal(batch.number, jumps[i][1]);
        assert_memory_equal(labels_of(&batch), &order[jumps[i][0]][10 * jumps[i][1]],
                            batch.rows * sizeof(int64_t));
    }
    assert_int_equal(troupe_batches_begin(other, 0, 12), TROUPE_INVALID);
    assert_int_equal(troupe_batches_begin(other, -1, 0), TROUPE_INVALID);
    troupe_must(troupe_batches_begin(other, 0, 11));
    assert_int_equal(troupe_batches_next(other, &batch), TROUPE_END);
    troupe_batches_close(&batches);
    troupe_batches_close(&other);
    troupe_ref_drop(set);
}

// D08: whatever the steps are, each is divided into slices that follow each other and are equal
// within one, and so are the sums over an epoch; a rank has none only of a step with fewer rows
// than ranks.
static void test_ranks_have_equally_many_rows(void **state)
{
    (void)state;
    for (int64_t rows = 1; rows <= 40; rows++)
        for (int64_t size = 1; size <= 17; size++)
            for (int world = 1; world <= 7; world++) {
                int64_t sums[7] = {0};
                for (int64_t from = 0; from < rows; from += size) {
                    int64_t end = from + size < rows ? from + size : rows, at = from;
                    for (int rank = 0; rank < world; rank++) {
                        assert_int_equal(trp_division_at(rank, world, from, end), at);
                        int64_t next = trp_division_at(rank + 1, world, from, end);
                        assert_in_range(next - at, (end - from) / world,
                                        (end - from + world - 1) / world);
                        sums[rank] += next - at;
                        at = next;
                    }
                    assert_int_equal(at, end);
                }
                for (int rank = 0; rank < world; rank++)
                    assert_in_range(sums[rank], rows / world, (rows + world - 1) / world);
            }
}

// What all ranks have of steps [first, end) of an epoch, in their order, from `labels` on.
static int64_t *walk_steps(troupe_ref set, int world, int first, int end, bool shuffle,
                           int64_t *labels)
{
    troupe_batch batch;
    troupe_batches *ranks[4];
    troupe_batches_options how = {sizeof how, .step_rows = 10, .seed = 9, .shuffle = shuffle};
    int64_t rows = 0;
    for (int rank = 0; rank < world; rank++) {
        trp_division among = {rank, world};
        troupe_must(trp_batches_open("train", set, ROWS, among, &how, &ranks[rank]));
        troupe_must(troupe_batches_begin(ranks[rank], 1, first));
        assert_int_equal(troupe_batches_count(ranks[rank]), 11);
        rows += troupe_batches_rows(ranks[rank]);
    }
    assert_int_equal(rows, ROWS);
    for (int step = first; step < end; step++) {
        size_t all = 0;
        for (int rank = 0; rank < world; rank++) {
            troupe_must(troupe_batches_next(ranks[rank], &batch));
            memcpy(labels, labels_of(&batch), batch.rows * sizeof *labels);
            labels += batch.rows;
            all += batch.rows;
            assert_true(batch.rows > 0 || (step == 10 && world > 3));
        }
        assert_int_equal(all, step < 10 ? 10 : 3);
    }
    for (int rank = 0; rank < world; rank++)
        troupe_batches_close(&ranks[rank]);
    return labels;
}

// D17: a step has the same rows whatever the number of ranks is; so where that changes within
// an epoch no row is repeated, and none is missed.
static void test_steps_do_not_depend_on_the_number_of_ranks(void **state)
{
    (void)state;
    troupe_ref set = numbers_of_rows();
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        int64_t one[ROWS], many[ROWS];
        bool seen[ROWS] = {0};
        assert_ptr_equal(walk_steps(set, 1, 0, 11, shuffle, one), one + ROWS);
        for (int i = 0; i < ROWS; i++) {
            assert_in_range(one[i], 0, ROWS - 1);
            assert_false(seen[one[i]]);
            seen[one[i]] = true;
        }
        for (int world = 2; world <= 4; world++) {
            assert_ptr_equal(walk_steps(set, world, 0, 11, shuffle, many), many + ROWS);
            assert_memory_equal(many, one, sizeof one);
        }
        int64_t *end = walk_steps(set, 3, 0, 4, shuffle, many);
        end = walk_steps(set, 2, 4, 9, shuffle, end);
        end = walk_steps(set, 4, 9, 11, shuffle, end);
        assert_ptr_equal(end, many + ROWS);
        assert_memory_equal(many, one, sizeof one);
    }
    troupe_ref_drop(set);
}

// Rows in the order of the set are lent from the store: no thread, no copy, and they stay. A rank
// of two has its slice of each step.
static void test_batches_in_order_are_lent(void **state)
{
    (void)state;
    troupe_ref set = numbers_of_rows();
    const trp_division second_of_two = {1, 2};
    int threads = support_count_threads();
    troupe_batch first, second;
    troupe_batches *batches;
    troupe_batches_options how = {sizeof how, .batch = 20};
    troupe_must(trp_batches_open("train", set, ROWS, second_of_two, &how, &batches));
    assert_int_equal(troupe_batches_rows(batches), 51);
    assert_int_equal(troupe_batches_all_rows(batches), ROWS);
    troupe_must(troupe_batches_next(batches, &first));
    const int64_t *labels = labels_of(&first);
    assert_int_equal(labels[0], 20);
    troupe_must(troupe_batches_next(batches, &second));
    assert_ptr_equal(labels_of(&second), labels + 40);
    assert_int_equal(support_count_threads(), threads);
    troupe_batches_close(&batches);
    assert_null(batches);
    how.shuffle = true;
    how.prefetch = 64;
    troupe_must(trp_batches_open("train", set, ROWS, second_of_two, &how, &batches));
    assert_int_equal(support_count_threads(), threads + 1);
    troupe_must(troupe_batches_next(batches, &first));
    assert_true(troupe_batches_waited_s(batches) >= 0);
    troupe_batches_close(&batches);
    assert_int_equal(support_count_threads(), threads);
    troupe_ref_drop(set);
    set = troupe_put(int64_t, &(int64_t){1});
    assert_int_equal(trp_batches_open("train", set, 53, alone, &how, &batches), TROUPE_WRONG_TYPE);
    assert_non_null(strstr(troupe_last_error()->text, "named by troupe_data_set"));
    troupe_ref_drop(set);
}

// ---- loops that do not close what they have opened

static int count_batch_threads(void)
{
    int found = 0;
    char name[32];
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        char path[300];
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = fopen(path, "re");
        found += file && fgets(name, sizeof name, file) && strcmp(name, "trp-batches\n") == 0;
        if (file)
            fclose(file);
    }
    closedir(tasks);
    return found;
}

TROUPE_STRUCT(forget_settings, (troupe_text, folder));
static troupe_status forget(troupe_rank *me, const forget_settings *config)
{
    troupe_batches *batches;
    troupe_batch batch;
    char name[32], text[64];
    snprintf(name, sizeof name, "%d-%d", me->rank, me->attempt);
    snprintf(text, sizeof text, "%d %d", (int)getpid(), count_batch_threads());
    char *path = support_path(config->folder, name);
    support_write_file(path, text, strlen(text));
    free(path);
    TROUPE_TRY(troupe_batches_open(me, "train", &batches, .shuffle = true));
    TROUPE_TRY(troupe_batches_next(batches, &batch));
    if (count_batch_threads() != 1)
        return troupe_fail(TROUPE_FAILED, "%d threads make batches", count_batch_threads());
    for (int64_t i = 0; i < 2 && me->attempt == 0; i++) {
        TROUPE_TRY(troupe_commit(int64_t, me, &i));
        TROUPE_TRY(troupe_report(me, {"i", (double)i}));
    }
    TROUPE_TRY(troupe_barrier(me));
    if (me->rank == 1 && me->attempt == 0)
        kill(getpid(), SIGKILL);
    return troupe_barrier(me);
}
TROUPE_TRAINER(forget, forget_settings);

// A process that is kept for the next attempt has nothing of the last one.
static void test_batches_go_with_their_loop(void **state)
{
    (void)state;
    char *folder = support_directory_make(), *texts[2];
    forget_settings config = {folder};
    number_source source = {.rows = 10};
    troupe_result *result = NULL;
    troupe_status status =
        troupe_train(forget, &config, &result, .ranks = 2, .restarts = 1, .storage = storage,
                     .data = troupe_data_with(numbers, &source));
    if (status != TROUPE_OK || troupe_result_restarts(result) != 1)
        fail_msg("%s", result ? troupe_result_error(result) : troupe_last_error()->text);
    for (int attempt = 0; attempt < 2; attempt++) {
        char *path = support_path(folder, attempt ? "0-1" : "0-0");
        texts[attempt] = support_read_file(path);
        free(path);
    }
    assert_string_equal(texts[1], texts[0]); // The same process, and no thread of batches in it.
    free(texts[0]);
    free(texts[1]);
    troupe_result_free(&result);
    support_directory_remove(folder);
}

// ---- without a CPU for the thread

static troupe_status walk_on_one_cpu(troupe_rank *me, const walk_settings *config)
{
    cpu_set_t all, one;
    troupe_batches *batches;
    int cpu = 0;
    (void)sched_getaffinity(0, sizeof all, &all);
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    (void)sched_setaffinity(0, sizeof one, &one);
    TROUPE_TRY(troupe_batches_open(me, "train", &batches, .batch = config->batch, .seed = 3,
                                   .shuffle = config->shuffle));
    troupe_status status = TROUPE_OK;
    for (int epoch = 0; epoch < config->epochs && status == TROUPE_OK; epoch++)
        status = walk_epoch(me, config, batches, epoch);
    int64_t made = trp_batches_made_by_user(batches);
    (void)sched_setaffinity(0, sizeof all, &all);
    troupe_batches_close(&batches);
    if (status == TROUPE_OK && made == 0)
        status = troupe_fail(TROUPE_FAILED, "the thread has made all");
    return status;
}
TROUPE_TRAINER(walk_on_one_cpu, walk_settings);

static void test_without_a_cpu_for_it_the_thread_is_not_woken(void **state)
{
    (void)state;
    number_source source = {.rows = 150};
    walk_settings config = {.batch = 2, .rows = 150, .epochs = 4, .shuffle = true};
    troupe_result *result = NULL;
    if (troupe_train(walk_on_one_cpu, &config, &result, .storage = storage,
                     .data = troupe_data_with(numbers, &source)) != TROUPE_OK)
        fail_msg("%s", result ? troupe_result_error(result) : troupe_last_error()->text);
    troupe_result_free(&result);
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .cpus = 4));
    storage = support_directory_make();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_permutation_has_each_number_once),
        cmocka_unit_test(test_an_order_stays_what_it_is),
        cmocka_unit_test(test_all_orders_are_equally_frequent),
        cmocka_unit_test(test_an_epoch_goes_on_anywhere),
        cmocka_unit_test(test_ranks_have_equally_many_rows),
        cmocka_unit_test(test_steps_do_not_depend_on_the_number_of_ranks),
        cmocka_unit_test(test_batches_in_order_are_lent),
        cmocka_unit_test(test_batches_cover_each_row_once),
        cmocka_unit_test(test_columns_that_do_not_fit_are_told),
        cmocka_unit_test(test_batches_go_with_their_loop),
        cmocka_unit_test(test_without_a_cpu_for_it_the_thread_is_not_woken),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    support_directory_remove(storage);
    return troupe_stop() || failed;
}
