// test_digits_network.c: the network's gradient is that of its loss, as differences of a loss
// computed anew in doubles show; halves of a batch add up to the whole; and learning reads the real
// digits.
#include "support.h"

#include <digits/data.h>
#include <digits/network.h>
#include <digits/random.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUTS = 9, HIDDEN = 7, ROWS = 6 };

// The mean cross-entropy of a network with the given weights, written down without any library.
static double plain_loss(const double *weights, const float *pixels, const uint8_t *labels,
                         int rows)
{
    const double *first = weights, *first_offsets = first + HIDDEN * INPUTS;
    const double *second = first_offsets + HIDDEN, *second_offsets = second + 10 * HIDDEN;
    double loss = 0;
    for (int row = 0; row < rows; row++) {
        double hidden[HIDDEN], scores[10], sum = 0;
        for (int i = 0; i < HIDDEN; i++) {
            hidden[i] = first_offsets[i];
            for (int j = 0; j < INPUTS; j++)
                hidden[i] += first[i * INPUTS + j] * (double)pixels[row * INPUTS + j];
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
    network net;
    network_batch batch;
} model;

static int setup(void **state)
{
    static model m;
    uint64_t random = 5;
    assert_int_equal(network_init(&m.net, INPUTS, HIDDEN, &random), TROUPE_OK);
    assert_int_equal(network_batch_init(&m.batch, &m.net, ROWS), TROUPE_OK);
    for (size_t i = 0; i < m.net.count; i++) // Offsets as well, which start as zeros.
        m.net.weights[i] += random_between(&random, -0.3f, 0.3f);
    for (size_t i = 0; i < ROWS * INPUTS; i++)
        m.batch.pixels[i] = random_between(&random, 0, 1);
    for (size_t i = 0; i < ROWS; i++)
        m.batch.labels[i] = (uint8_t)(random_next(&random) % 10);
    *state = &m;
    return 0;
}

static int teardown(void **state)
{
    model *m = *state;
    network_deinit(&m->net);
    network_batch_deinit(&m->batch);
    return 0;
}

static void test_the_gradient_is_that_of_the_loss(void **state)
{
    model *m = *state;
    size_t count = m->net.count;
    assert_int_equal(count, network_count(INPUTS, HIDDEN));
    float *gradient = malloc(count * sizeof *gradient);
    double *weights = calloc(count, sizeof *weights);
    for (size_t i = 0; i < count; i++)
        weights[i] = (double)m->net.weights[i];

    double loss = (double)network_gradient(&m->net, &m->batch, ROWS, gradient);
    double plain = plain_loss(weights, m->batch.pixels, m->batch.labels, ROWS);
    if (fabs(loss - plain) > 1e-5 * plain)
        fail_msg("the loss is %.9f, expected %.9f", loss, plain);

    const double step = 1e-6;
    double largest = 0;
    for (size_t i = 0; i < count; i++) {
        double weight = weights[i];
        weights[i] = weight + step;
        double above = plain_loss(weights, m->batch.pixels, m->batch.labels, ROWS);
        weights[i] = weight - step;
        double below = plain_loss(weights, m->batch.pixels, m->batch.labels, ROWS);
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
    memmove(m->batch.pixels, m->batch.pixels + half * INPUTS,
            (ROWS - half) * INPUTS * sizeof(float));
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

// One process, no runtime: the settings of the example's search must suit the data.
static void test_learning_reads_the_real_digits(void **state)
{
    (void)state;
    digits data;
    if (digits_load(support_setting("TROUPE_DIGITS_CSV"), 1, &data) != TROUPE_OK)
        fail_msg("%s", troupe_last_error()->text);
    enum { EPOCHS = 20, BATCH = 32 };
    network net;
    network_batch batch;
    uint64_t random = 1;
    assert_int_equal(network_init(&net, data.inputs, 64, &random), TROUPE_OK);
    assert_int_equal(network_batch_init(&batch, &net, data.test.count), TROUPE_OK);
    float *gradient = malloc(net.count * sizeof *gradient);
    float *velocity = calloc(net.count, sizeof *velocity);

    double first_loss = 0, loss = 0;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        network_pace pace = {0.15f * (1 - (float)epoch / EPOCHS), 0.9f, 1e-4f};
        loss = 0;
        random_shuffle(&random, data.train.rows, data.train.count);
        for (size_t at = 0; at + BATCH <= data.train.count; at += BATCH) {
            digits_gather(&data, data.train.rows + at, BATCH, batch.pixels, batch.labels);
            loss += (double)network_gradient(&net, &batch, BATCH, gradient);
            for (size_t i = 0; i < net.count; i++)
                gradient[i] /= BATCH;
            network_step(&net, gradient, velocity, pace);
        }
        if (epoch == 0)
            first_loss = loss;
    }
    assert_true(loss < first_loss / 10);

    uint8_t *answers = malloc(data.test.count);
    size_t right = 0;
    digits_gather(&data, data.test.rows, data.test.count, batch.pixels, batch.labels);
    network_classify(&net, &batch, data.test.count, answers);
    for (size_t i = 0; i < data.test.count; i++)
        right += answers[i] == batch.labels[i];
    double accuracy = (double)right / (double)data.test.count;
    if (accuracy < 0.95)
        fail_msg("the accuracy on the test images is %.4f, expected at least 0.95", accuracy);
    free(answers);
    free(gradient);
    free(velocity);
    network_batch_deinit(&batch);
    network_deinit(&net);
    digits_free(&data);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_the_gradient_is_that_of_the_loss),
        TEST(test_shares_of_a_batch_add_up),
        TEST(test_a_step_follows_the_rule),
        TEST(test_large_scores_stay_finite),
        cmocka_unit_test(test_learning_reads_the_real_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
