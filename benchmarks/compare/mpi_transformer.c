// mpi_transformer.c: the peer of train.transformer: the same network, steps and text under mpirun,
// its gradient summed by one MPI_Allreduce.
//
//     mpi_transformer TEXT WARM_UP STEPS     prints the steps a second after those of the warm-up
#include "bench_transformer.h"
#include "harness.h"

#include <digits/random.h>
#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <transformer/decoder.h>

typedef struct run {
    decoder_shape shape;
    size_t count, size; // Of the weights; of the text.
    uint16_t *text, *sequences;
    float *weights, *gradient, *first, *second;
    decoder_pass *pass;
    int rank, world;
} run;

static void *zeros(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (!memory)
        bench_die("mpi_transformer: no memory");
    return memory;
}

static void begin(run *r, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        bench_die("mpi_transformer: cannot open %s", path);
    r->text = zeros(BENCH_TEXT_MAX, sizeof *r->text);
    for (int byte; r->size < BENCH_TEXT_MAX && (byte = getc(file)) != EOF;)
        r->text[r->size++] = (uint16_t)byte;
    fclose(file);
    r->shape = (decoder_shape){128, BENCH_CONTEXT, BENCH_WIDTH, BENCH_HEADS, BENCH_LAYERS};
    r->count = decoder_count(r->shape);
    r->weights = zeros(r->count, sizeof(float));
    r->gradient = zeros(r->count + 1, sizeof(float));
    r->first = zeros(r->count, sizeof(float));
    r->second = zeros(r->count, sizeof(float));
    r->sequences = zeros(BENCH_BATCH * (BENCH_CONTEXT + 1), sizeof *r->sequences);
    r->pass = decoder_pass_new(r->shape, BENCH_BATCH);
    if (!r->pass)
        bench_die("mpi_transformer: no memory");
    uint64_t random = 1;
    decoder_draw(r->shape, r->weights, &random);
}

static double learn(run *r, int64_t step)
{
    size_t count = BENCH_BATCH / (size_t)r->world, first = count * (size_t)r->rank;
    for (size_t i = 0; i < count; i++) {
        uint64_t random = 1 + (uint64_t)step * BENCH_BATCH + first + i;
        size_t at = random_next(&random) % (r->size - BENCH_CONTEXT);
        memcpy(r->sequences + i * (BENCH_CONTEXT + 1), r->text + at,
               (BENCH_CONTEXT + 1) * sizeof *r->text);
    }
    decoder_forward(r->pass, r->weights, r->sequences, count);
    r->gradient[r->count] = (float)decoder_loss(r->pass, r->sequences);
    for (size_t part = r->shape.layers + 2; part-- > 0;)
        decoder_back(r->pass, r->weights, r->gradient, r->sequences, part);
    MPI_Allreduce(MPI_IN_PLACE, r->gradient, (int)r->count + 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (size_t i = 0; i <= r->count; i++)
        r->gradient[i] /= BENCH_BATCH * BENCH_CONTEXT;
    const adamw how = {BENCH_RATE, 0.9f, 0.95f, 0.01f};
    adamw_step(r->weights, r->first, r->second, r->gradient, r->count, how, step + 1);
    return (double)r->gradient[r->count];
}

int main(int argc, char **argv)
{
    run r = {0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &r.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &r.world);
    if (argc != 4)
        bench_die("mpi_transformer: expected TEXT WARM_UP STEPS");
    begin(&r, argv[1]);
    int64_t warm_up = atoi(argv[2]), steps = atoi(argv[3]), start = 0;
    double loss = 0;
    for (int64_t step = 0; step < warm_up + steps; step++) {
        if (step == warm_up)
            start = bench_now_ns();
        loss = learn(&r, step);
    }
    double seconds = (double)(bench_now_ns() - start) / 1e9;
    if (!(loss < BENCH_LOSS_MAX)) // Else something was left out.
        bench_die("mpi_transformer: the loss is %g", loss);
    if (r.rank == 0)
        bench_round_print(bench_round_plain((double)steps / seconds));
    MPI_Finalize();
    return EXIT_SUCCESS;
}
