// served_model.h: for tests of services: a model whose replicas can be told to wait, to fail, to
// crash and to hang by the rows that they are asked, and that say so in shared memory.
#ifndef SERVED_MODEL_H
#define SERVED_MODEL_H

#include "support.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

enum { ROW = 4, OUT = 3, PIDS = 256 };

// The first number of a row, where it is one of these, says what happens.
#define ROW_FAILS 1001
#define ROW_CRASHES 1002
#define ROW_HANGS 1003

typedef struct served_shared {
    _Atomic int asked;   // Batches that have begun,
    _Atomic int rows;    // and their rows.
    _Atomic int gate;    // A batch waits until it is 0.
    _Atomic int at_gate; // Batches that wait there.
    pid_t driver;
    _Atomic int tried;      // Replicas that began to be set up.
    _Atomic int begins;     // Replicas that were set up.
    _Atomic int begins_max; // Those beyond so many fail to begin; 0: none does.
    _Atomic int pids[PIDS]; // Of the replicas, in the order of their beginnings.
} served_shared;
static served_shared *shared; // Made before troupe_start.

TROUPE_STRUCT(served_config, (double, scale), (bool, single), (troupe_fitting, fitting));
TROUPE_STRUCT(served_state, (troupe_tensor, weights));
typedef struct served {
    double scale;
    bool single;
    float *weights;
} served;

static troupe_status served_setup(served *self, const served_config *config, troupe_use *use)
{
    if (getpid() != shared->driver) {
        int begun = atomic_fetch_add(&shared->tried, 1), limit = atomic_load(&shared->begins_max);
        if (limit > 0 && begun >= limit)
            return troupe_fail(TROUPE_UNSUPPORTED, "no more instances");
        if (begun < PIDS)
            atomic_store(&shared->pids[begun], getpid());
        atomic_fetch_add(&shared->begins, 1);
    }
    self->scale = config->scale;
    self->single = config->single;
    self->weights = troupe_use_alloc(use, sizeof(float) * ROW * OUT);
    for (int i = 0; self->weights && i < ROW * OUT; i++)
        self->weights[i] = (float)i / 7;
    return self->weights ? TROUPE_OK : TROUPE_NO_MEMORY;
}

static troupe_status served_forward(served *self, const troupe_tensor *x, troupe_tensor *y)
{
    size_t rows = x->shape[0];
    const float *in = x->data;
    float *out = troupe_arena_alloc(rows * OUT * sizeof *out + 1);
    atomic_fetch_add(&shared->asked, 1);
    atomic_fetch_add(&shared->rows, (int)rows);
    if (atomic_load(&shared->gate) != 0) {
        atomic_fetch_add(&shared->at_gate, 1);
        while (atomic_load(&shared->gate) != 0)
            (void)usleep(200);
        atomic_fetch_sub(&shared->at_gate, 1);
    }
    for (size_t r = 0; r < rows; r++) {
        const float *row = in + r * ROW;
        if (row[0] == ROW_FAILS)
            return troupe_fail(TROUPE_UNSUPPORTED, "a row that fails");
        if (row[0] == ROW_CRASHES)
            (void)raise(SIGKILL);
        while (row[0] == ROW_HANGS)
            (void)usleep(1000);
        for (int o = 0; o < OUT; o++) {
            out[r * OUT + (size_t)o] = 0;
            for (int i = 0; i < ROW; i++)
                out[r * OUT + (size_t)o] +=
                    (float)self->scale * row[i] * self->weights[o * ROW + i];
        }
    }
    *y = troupe_tensor_of(TROUPE_FLOAT32, out, self->single ? 1 : rows, OUT);
    return TROUPE_OK;
}

static troupe_status served_save(served *self, served_state *state)
{
    state->weights = troupe_tensor_of(TROUPE_FLOAT32, self->weights, OUT, ROW);
    return TROUPE_OK;
}

static troupe_status served_load(served *self, const served_state *state)
{
    memcpy(self->weights, state->weights.data, sizeof(float) * ROW * OUT);
    return TROUPE_OK;
}

// What it learns is how many steps it made.
static troupe_status served_train_step(served *self, troupe_rank *me, const troupe_batch *batch)
{
    troupe_note(me, "loss", (double)batch->rows);
    for (int i = 0; i < ROW * OUT; i++)
        self->weights[i] += 0.25f;
    return TROUPE_OK;
}

TROUPE_MODEL(served, served_config, served_state, served_setup, served_forward,
             .defaults = {.scale = 1.5, .fitting = {.epochs = 2, .batch = 4}},
             .train_step = served_train_step, .input = {TROUPE_FLOAT32, 1, {ROW}},
             .save = served_save, .load = served_load);

TROUPE_STRUCT(rows_source, (int, rows));
static troupe_status rows_setup(troupe_data *data, const rows_source *source)
{
    double *rows = troupe_arena_alloc((size_t)source->rows * sizeof *rows);
    if (!rows)
        return TROUPE_NO_MEMORY;
    troupe_tensor table = troupe_tensor_of(TROUPE_FLOAT64, rows, (size_t)source->rows, 1);
    return troupe_data_columns(data, "train", TROUPE_SHARE_BY_NAME,
                               troupe_from_tensor("row", troupe_put(troupe_tensor, &table)));
}
TROUPE_DATA(rows, rows_source, rows_setup);

// The checkpoint of a run of half as many steps as `count` rows, below the folder; to be freed.
static inline char *train_served(const char *storage, const char *name, int count)
{
    troupe_result *result;
    served_config config = troupe_defaults(served);
    const rows_source source = {count};
    troupe_must(troupe_train(served, &config, &result, .ranks = 1, .storage = storage, .name = name,
                             .data = troupe_data_with(rows, &source)));
    char *checkpoint = strdup(troupe_result_checkpoint(result));
    assert_non_null(checkpoint);
    troupe_result_free(&result);
    return checkpoint;
}

// Rows whose numbers follow from `seed`.
static inline void fill_rows(float *rows, size_t count, int seed)
{
    for (size_t i = 0; i < count * ROW; i++)
        rows[i] = (float)(seed % 97) / 3 + (float)i / 11;
}

#endif
