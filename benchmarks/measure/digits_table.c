// digits_table.c: makes the real table that searchers are compared on (benchmarks/tune/digits.csv):
// 500 settings of the network of examples/digits, each trained for 27 epochs.
//
//     digits_table DIGITS.CSV.GZ >benchmarks/tune/digits.csv
//
// A line has rate, width of the hidden layer, batch, momentum, and the mean cross-entropy on the
// validation set after each epoch. Lines stand in the order of tune/functions.c.
#include <digits/data.h>
#include <digits/network.h>
#include <digits/random.h>
#include <harness.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>

enum { EPOCHS = 27, RATES = 10, WIDTHS = 5, BATCHES = 5, MOMENTA = 2, BATCH_MAX = 256, SEED = 1 };

static float validation_loss(const digits *data, network *net, float *gradient)
{
    size_t count = data->validation.count;
    network_batch all;
    troupe_must(network_batch_init(&all, net, count));
    digits_gather(data, data->validation.rows, count, all.pixels, all.labels);
    float loss = network_gradient(net, &all, count, gradient) / (float)count;
    troupe_arena_reset();
    return loss;
}

static void epoch(const digits *data, network *net, size_t rows, network_pace pace,
                  uint64_t *random, float *gradient, float *velocity)
{
    network_batch batch;
    random_shuffle(random, data->train.rows, data->train.count);
    troupe_must(network_batch_init(&batch, net, rows));
    for (size_t first = 0; first + rows <= data->train.count; first += rows) {
        digits_gather(data, data->train.rows + first, rows, batch.pixels, batch.labels);
        network_gradient(net, &batch, rows, gradient);
        for (size_t i = 0; i < net->count; i++)
            gradient[i] /= (float)rows;
        network_step(net, gradient, velocity, pace);
    }
    troupe_arena_reset();
}

// As examples/digits trains, by one process: the rate falls to nothing over the epochs.
static void train(const digits *data, double rate, size_t hidden, size_t rows, double momentum)
{
    const network_shape shape = {.width = data->width, .height = data->height, .hidden = hidden};
    size_t count = network_count(&shape);
    float *weights = calloc(3 * count, sizeof *weights);
    uint64_t random = SEED;
    network net;
    if (weights == NULL)
        bench_die("digits_table: no memory");
    network_init(&net, &shape, weights, &random);
    printf("%.4g,%zu,%zu,%g", rate, hidden, rows, momentum);
    for (int i = 0; i < EPOCHS; i++) {
        network_pace pace = {(float)(rate * (1 - (double)i / EPOCHS)), (float)momentum, 1e-4F};
        epoch(data, &net, rows, pace, &random, weights + count, weights + 2 * count);
        float loss = validation_loss(data, &net, weights + count);
        printf(",%.4g", isfinite(loss) && loss < 1000 ? (double)loss : 1000.0); // It has diverged.
    }
    printf("\n");
    fflush(stdout);
    free(weights);
}

int main(int argc, char **argv)
{
    static const size_t widths[WIDTHS] = {4, 8, 16, 32, 64};
    static const size_t batches[BATCHES] = {16, 32, 64, 128, BATCH_MAX};
    static const double momenta[MOMENTA] = {0, 0.9};
    digits data;
    if (argc != 2)
        bench_die("usage: digits_table DIGITS.CSV.GZ >benchmarks/tune/digits.csv");
    troupe_must(digits_load(argv[1], SEED, &data));
    printf(
        "# rate,hidden,batch,momentum, then the loss on the validation set after each epoch: made "
        "by benchmarks/measure/digits_table.c\n");
    for (int rate = 0; rate < RATES; rate++)
        for (int width = 0; width < WIDTHS; width++)
            for (int batch = 0; batch < BATCHES; batch++)
                for (int momentum = 0; momentum < MOMENTA; momentum++)
                    train(&data, pow(10, -3 + rate / 3.0), widths[width], batches[batch],
                          momenta[momentum]);
    digits_free(&data);
    return 0;
}
