// test_digits_network.c: the network's gradient is that of its loss, as differences of a loss
// computed anew in doubles show; halves of a batch add up to the whole; and learning reads the real
// digits.
#include "support.h"

#include <digits/data.h>
#include <digits/network.h>
#include <digits/random.h>
#include <troupe/wire.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 5, AREA = SIDE * SIDE, POOLED = (SIDE / 2) * (SIDE / 2), HIDDEN = 7, ROWS = 6 };

// A filter's answers to an image, and the largest of each 2 x 2 of them if it is positive.
static void plain_map(const double *filter, double offset, const float *pixels, double *out)
{
    double map[AREA];
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            map[y * SIDE + x] = offset;
            for (int i = 0; i < 9; i++) {
                int row = y + i / 3 - 1, column = x + i % 3 - 1;
                if (row >= 0 && row < SIDE && column >= 0 && column < SIDE)
                    map[y * SIDE + x] += filter[i] * (double)pixels[row * SIDE + column];
            }
        }
    for (int y = 0; y + 1 < SIDE; y += 2)
        for (int x = 0; x + 1 < SIDE; x += 2) {
            const double *at = map + y * SIDE + x;
            *out++ = fmax(fmax(fmax(at[0], at[1]), fmax(at[SIDE], at[SIDE + 1])), 0);
        }
}

// The cross-entropy of a network with the given weights, written down without any library.
static double plain_loss(const double *weights, int channels, const float *pixels,
                         const uint8_t *labels, int rows)
{
    int inputs = channels > 0 ? channels * POOLED : AREA;
    const double *filters = weights, *filter_offsets = filters + channels * 9;
    const double *first = filter_offsets + channels, *first_offsets = first + HIDDEN * inputs;
    const double *second = first_offsets + HIDDEN, *second_offsets = second + 10 * HIDDEN;
    double loss = 0;
    for (int row = 0; row < rows; row++) {
        double in[AREA > 8 * POOLED ? AREA : 8 * POOLED], hidden[HIDDEN], scores[10], sum = 0;
        for (int i = 0; channels == 0 && i < AREA; i++)
            in[i] = (double)pixels[row * AREA + i];
        for (int i = 0; i < channels; i++)
            plain_map(filters + 9 * i, filter_offsets[i], pixels + row * AREA, in + i * POOLED);
        for (int i = 0; i < HIDDEN; i++) {
            hidden[i] = first_offsets[i];
            for (int j = 0; j < inputs; j++)
                hidden[i] += first[i * inputs + j] * in[j];
            hidden[i] = fmax(hidden[i], 0);
        }
        for (int i = 0; i < 10; i++) {
            scores[i] = second_offsets[i];
            for (int j = 0; j < HIDDEN; j++)
                scores[i] += second[i * HIDDEN + j] * hidden[j];
            sum += exp(scores[i]);
        }
        loss += log(sum) - scores[labels[row]];
    }
    return loss;
}

typedef struct model {
    int channels;
    network net;
    network_batch batch;
} model;

static void make(model *m, int channels)
{
    const network_shape shape = {SIDE, SIDE, (size_t)channels, HIDDEN};
    uint64_t random = 5;
    m->channels = channels;
    float *weights = troupe_arena_alloc(network_count(&shape) * sizeof *weights);
    assert_non_null(weights);
    network_init(&m->net, &shape, weights, &random);
    assert_int_equal(network_batch_init(&m->batch, &m->net, ROWS), TROUPE_OK);
    for (size_t i = 0; i < m->net.count; i++) // Offsets as well, which start as zeros.
        m->net.weights[i] += random_between(&random, -0.3f, 0.3f);
    for (size_t i = 0; i < ROWS * AREA; i++)
        m->batch.pixels[i] = random_between(&random, 0, 1);
    for (size_t i = 0; i < ROWS; i++)
        m->batch.labels[i] = (uint8_t)(random_next(&random) % 10);
}

static int setup(void **state)
{
    static model m;
    make(&m, 0);
    *state = &m;
    return 0;
}

static int setup_convolution(void **state)
{
    static model m;
    make(&m, 3);
    *state = &m;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    troupe_arena_reset();
    return 0;
}

static void test_the_gradient_is_that_of_the_loss(void **state)
{
    model *m = *state;
    size_t count = m->net.count;
    float *gradient = malloc(count * sizeof *gradient);
    double *weights = calloc(count, sizeof *weights);
    for (size_t i = 0; i < count; i++)
        weights[i] = (double)m->net.weights[i];

    double loss = (double)network_gradient(&m->net, &m->batch, ROWS, gradient);
    double plain = plain_loss(weights, m->channels, m->batch.pixels, m->batch.labels, ROWS);
    if (fabs(loss - plain) > 1e-5 * plain)
        fail_msg("the loss is %.9f, expected %.9f", loss, plain);

    const double step = 1e-6;
    double largest = 0;
    for (size_t i = 0; i < count; i++) {
        double weight = weights[i];
        weights[i] = weight + step;
        double above = plain_loss(weights, m->channels, m->batch.pixels, m->batch.labels, ROWS);
        weights[i] = weight - step;
        double below = plain_loss(weights, m->channels, m->batch.pixels, m->batch.labels, ROWS);
        weights[i] = weight;
        double slope = (above - below) / (2 * step);
        largest = fmax(largest, fabs(slope));
        if (fabs((double)gradient[i] - slope) > 1e-5 * (1 + fabs(slope)))
            fail_msg("weight %zu: the gradient is %.9f, the difference %.9f", i,
                     (double)gradient[i], slope);
    }
    assert_true(largest > 0.1); // Else the comparison would say nothing.
    free(weights);
    free(gradient);
}

static void test_shares_of_a_batch_add_up(void **state)
{
    model *m = *state;
    size_t count = m->net.count, half = ROWS / 3;
    float *whole = malloc(count * sizeof *whole), *part = malloc(count * sizeof *part);
    float *rest = malloc(count * sizeof *rest), *none = malloc(count * sizeof *none);
    double loss = (double)network_gradient(&m->net, &m->batch, ROWS, whole);
    double sum = (double)network_gradient(&m->net, &m->batch, half, part);
    memmove(m->batch.pixels, m->batch.pixels + half * AREA, (ROWS - half) * AREA * sizeof(float));
    memmove(m->batch.labels, m->batch.labels + half, ROWS - half);
    sum += (double)network_gradient(&m->net, &m->batch, ROWS - half, rest);
    assert_true(fabs(sum - loss) < 1e-5 * loss);
    for (size_t i = 0; i < count; i++)
        assert_true(fabsf(part[i] + rest[i] - whole[i]) <= 1e-5f * (1 + fabsf(whole[i])));

    // A rank without a share adds nothing.
    memset(none, 1, count * sizeof *none);
    assert_true(network_gradient(&m->net, &m->batch, 0, none) == 0);
    for (size_t i = 0; i < count; i++)
        assert_true(none[i] == 0);
    free(whole);
    free(part);
    free(rest);
    free(none);
}

static void test_a_step_follows_the_rule(void **state)
{
    model *m = *state;
    float before = m->net.weights[3];
    float *gradient = calloc(m->net.count, sizeof *gradient);
    float *velocity = calloc(m->net.count, sizeof *velocity);
    gradient[3] = 2;
    velocity[3] = 0.5f;
    network_step(&m->net, gradient, velocity, (network_pace){0.1f, 0.9f, 0.01f});
    float expected = 0.9f * 0.5f - 0.1f * (2 + 0.01f * before);
    assert_true(fabsf(velocity[3] - expected) < 1e-6f);
    assert_true(fabsf(m->net.weights[3] - (before + expected)) < 1e-6f);
    free(gradient);
    free(velocity);
}

static void test_large_scores_stay_finite(void **state)
{
    model *m = *state;
    float *gradient = malloc(m->net.count * sizeof *gradient);
    for (size_t i = 0; i < m->net.count; i++)
        m->net.weights[i] *= 1e4f;
    assert_true(isfinite(network_gradient(&m->net, &m->batch, ROWS, gradient)));
    for (size_t i = 0; i < m->net.count; i++)
        assert_true(isfinite(gradient[i]));
    free(gradient);
}

// Brings `rows` images of a set to a batch, from number `at` on.
static void fetch(const digits *data, digits_set set, size_t at, size_t rows, network_batch *batch)
{
    digits_gather(data, set.rows + at, rows, batch->pixels, batch->labels);
}

static double accuracy_of(const network *net, const digits *data)
{
    network_batch batch;
    size_t count = data->test.count, right = 0;
    assert_int_equal(network_batch_init(&batch, net, count), TROUPE_OK);
    fetch(data, data->test, 0, count, &batch);
    network_forward(net, &batch, count);
    for (size_t i = 0; i < count; i++)
        right += network_class(batch.scores + i * NETWORK_OUTPUTS) == batch.labels[i];
    return (double)right / (double)count;
}

static void learn(digits *data, size_t channels)
{
    enum { EPOCHS = 20, BATCH = 32 };
    const network_shape shape = {data->width, data->height, channels, 64};
    network net;
    network_batch batch;
    uint64_t random = 1;
    size_t count = network_count(&shape);
    network_init(&net, &shape, troupe_arena_alloc(count * sizeof(float)), &random);
    assert_int_equal(network_batch_init(&batch, &net, BATCH), TROUPE_OK);
    float *gradient = troupe_arena_alloc(count * sizeof *gradient);
    float *velocity = troupe_arena_alloc(count * sizeof *velocity);
    double first_loss = 0, loss = 0;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        network_pace pace = {0.15f * (1 - (float)epoch / EPOCHS), 0.9f, 1e-4f};
        loss = 0;
        random_shuffle(&random, data->train.rows, data->train.count);
        for (size_t at = 0; at + BATCH <= data->train.count; at += BATCH) {
            fetch(data, data->train, at, BATCH, &batch);
            loss += (double)network_gradient(&net, &batch, BATCH, gradient);
            for (size_t i = 0; i < count; i++)
                gradient[i] /= BATCH;
            network_step(&net, gradient, velocity, pace);
        }
        if (epoch == 0)
            first_loss = loss;
    }
    assert_true(loss < first_loss / 10);
    double accuracy = accuracy_of(&net, data);
    if (accuracy < 0.95)
        fail_msg("with %zu channels the accuracy on the test images is %.4f, expected at least "
                 "0.95",
                 channels, accuracy);
    troupe_arena_reset();
}

// One process, no runtime: the settings of the example's search must suit the data.
static void test_learning_reads_the_real_digits(void **state)
{
    (void)state;
    digits data;
    if (digits_load(support_setting("TROUPE_DIGITS_CSV"), 1, &data) != TROUPE_OK)
        fail_msg("%s", troupe_last_error()->text);
    learn(&data, 0);
    learn(&data, 8);
    digits_free(&data);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define CONVOLUTION(name) cmocka_unit_test_setup_teardown(name, setup_convolution, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_the_gradient_is_that_of_the_loss),
        TEST(test_shares_of_a_batch_add_up),
        TEST(test_a_step_follows_the_rule),
        TEST(test_large_scores_stay_finite),
        CONVOLUTION(test_the_gradient_is_that_of_the_loss),
        CONVOLUTION(test_shares_of_a_batch_add_up),
        CONVOLUTION(test_large_scores_stay_finite),
        cmocka_unit_test(test_learning_reads_the_real_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
