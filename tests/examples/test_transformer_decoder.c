// test_transformer_decoder.c: the network's loss and gradient are those of a transformer written
// down plainly in doubles; shares of a batch add up to the whole; places do not see those after
// them; and a few sequences are learnt by heart.
#include "support.h"

#include <digits/random.h>
#include <transformer/decoder.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VOCABULARY = 11, CONTEXT = 5, WIDTH = 8, HEADS = 2, LAYERS = 2, SEQUENCES = 3 };
enum { PARTS = LAYERS + 2, ROOM = CONTEXT * 4 * WIDTH };

static const decoder_shape shape = {VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS};

// ---- The plain one

static const double *plain_affine(double *out, const double *in, const double *weights, int ins,
                                  int outs)
{
    const double *offsets = weights + ins * outs;
    for (int t = 0; t < CONTEXT; t++)
        for (int i = 0; i < outs; i++) {
            out[t * outs + i] = offsets[i];
            for (int j = 0; j < ins; j++)
                out[t * outs + i] += weights[i * ins + j] * in[t * ins + j];
        }
    return offsets + outs;
}

static const double *plain_normalise(double *out, const double *in, const double *weights)
{
    for (int t = 0; t < CONTEXT; t++) {
        double mean = 0, variance = 1e-5;
        for (int i = 0; i < WIDTH; i++)
            mean += in[t * WIDTH + i] / WIDTH;
        for (int i = 0; i < WIDTH; i++)
            variance += pow(in[t * WIDTH + i] - mean, 2) / WIDTH;
        for (int i = 0; i < WIDTH; i++)
            out[t * WIDTH + i] =
                (in[t * WIDTH + i] - mean) / sqrt(variance) * weights[i] + weights[WIDTH + i];
    }
    return weights + 2 * WIDTH;
}

// The value of one place and head: that of each place up to it, by its share.
static void plain_look(double *out, const double *qkv, int place, int head)
{
    enum { SIZE = WIDTH / HEADS };
    const double *q = qkv + place * 3 * WIDTH + head * SIZE;
    double shares[CONTEXT], sum = 0;
    for (int t = 0; t <= place; t++) {
        const double *k = qkv + t * 3 * WIDTH + WIDTH + head * SIZE;
        shares[t] = 0;
        for (int i = 0; i < SIZE; i++)
            shares[t] += q[i] * k[i] / sqrt(SIZE);
        sum += shares[t] = exp(shares[t]);
    }
    for (int i = 0; i < SIZE; i++) {
        out[place * WIDTH + head * SIZE + i] = 0;
        for (int t = 0; t <= place; t++)
            out[place * WIDTH + head * SIZE + i] +=
                shares[t] / sum * qkv[t * 3 * WIDTH + 2 * WIDTH + head * SIZE + i];
    }
}

static double plain_gelu(double x)
{
    return x / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

static double plain_sequence_loss(const double *weights, const uint16_t *text)
{
    double x[ROOM], normal[ROOM], wide[ROOM], part[ROOM], scores[CONTEXT * VOCABULARY];
    const double *characters = weights, *places = weights + VOCABULARY * WIDTH;
    for (int i = 0; i < CONTEXT * WIDTH; i++)
        x[i] = characters[text[i / WIDTH] * WIDTH + i % WIDTH] + places[i];
    weights = places + CONTEXT * WIDTH;
    for (int layer = 0; layer < LAYERS; layer++) {
        weights = plain_normalise(normal, x, weights);
        weights = plain_affine(wide, normal, weights, WIDTH, 3 * WIDTH);
        for (int i = 0; i < CONTEXT * HEADS; i++)
            plain_look(part, wide, i / HEADS, i % HEADS);
        weights = plain_affine(normal, part, weights, WIDTH, WIDTH);
        for (int i = 0; i < CONTEXT * WIDTH; i++)
            x[i] += normal[i];
        weights = plain_normalise(normal, x, weights);
        weights = plain_affine(wide, normal, weights, WIDTH, 4 * WIDTH);
        for (int i = 0; i < CONTEXT * 4 * WIDTH; i++)
            wide[i] = plain_gelu(wide[i]);
        weights = plain_affine(normal, wide, weights, 4 * WIDTH, WIDTH);
        for (int i = 0; i < CONTEXT * WIDTH; i++)
            x[i] += normal[i];
    }
    plain_normalise(normal, x, weights);
    double loss = 0;
    for (int t = 0; t < CONTEXT; t++) {
        double sum = 0;
        for (int c = 0; c < VOCABULARY; c++) {
            double *score = &scores[t * VOCABULARY + c];
            *score = 0;
            for (int i = 0; i < WIDTH; i++)
                *score += normal[t * WIDTH + i] * characters[c * WIDTH + i];
            sum += exp(*score);
        }
        loss += log(sum) - scores[t * VOCABULARY + text[t + 1]];
    }
    return loss;
}

static double plain_loss(const double *weights, const uint16_t *text)
{
    double loss = 0;
    for (int i = 0; i < SEQUENCES; i++)
        loss += plain_sequence_loss(weights, text + i * (CONTEXT + 1));
    return loss;
}

// ---- The tests

typedef struct fixture {
    size_t count;
    float *weights, *gradient;
    decoder_pass *pass;
    uint16_t text[SEQUENCES * (CONTEXT + 1)];
} fixture;

static int setup(void **state)
{
    static fixture f;
    uint64_t random = 3;
    f.count = decoder_count(shape);
    f.weights = calloc(f.count, sizeof *f.weights);
    f.gradient = calloc(f.count, sizeof *f.gradient);
    f.pass = decoder_pass_new(shape, SEQUENCES);
    assert_true(f.weights && f.gradient && f.pass);
    decoder_draw(shape, f.weights, &random);
    for (size_t i = 0; i < f.count; i++) // Gains and offsets too, which begin as ones and zeros.
        f.weights[i] += random_between(&random, -0.4f, 0.4f);
    for (size_t i = 0; i < sizeof f.text / sizeof *f.text; i++)
        f.text[i] = (uint16_t)(random_next(&random) % VOCABULARY);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    free(f->weights);
    free(f->gradient);
    decoder_pass_free(f->pass);
    return 0;
}

static double learn(fixture *f, const uint16_t *text, size_t sequences)
{
    decoder_forward(f->pass, f->weights, text, sequences);
    double loss = decoder_loss(f->pass, text);
    for (size_t part = PARTS; part-- > 0;)
        decoder_back(f->pass, f->weights, f->gradient, text, part);
    return loss;
}

static void test_the_parts_are_the_whole(void **state)
{
    fixture *f = *state;
    size_t end = 0;
    for (size_t part = 0; part < PARTS; part++) {
        decoder_part p = decoder_part_of(shape, part);
        assert_int_equal(p.first, end);
        assert_true(p.count > 0);
        end += p.count;
    }
    assert_int_equal(end, f->count);
}

static void test_the_gradient_is_that_of_the_loss(void **state)
{
    fixture *f = *state;
    double *weights = calloc(f->count, sizeof *weights);
    assert_non_null(weights);
    for (size_t i = 0; i < f->count; i++)
        weights[i] = (double)f->weights[i];
    double loss = learn(f, f->text, SEQUENCES), plain = plain_loss(weights, f->text);
    if (fabs(loss - plain) > 1e-5 * plain)
        fail_msg("the loss is %.9f, expected %.9f", loss, plain);

    const double step = 1e-5;
    for (size_t part = 0; part < PARTS; part++) {
        decoder_part p = decoder_part_of(shape, part);
        double largest = 0;
        for (size_t i = p.first; i < p.first + p.count; i++) {
            double weight = weights[i];
            weights[i] = weight + step;
            double above = plain_loss(weights, f->text);
            weights[i] = weight - step;
            double below = plain_loss(weights, f->text);
            weights[i] = weight;
            double slope = (above - below) / (2 * step);
            largest = fmax(largest, fabs(slope));
            if (fabs((double)f->gradient[i] - slope) > 2e-5 * (1 + fabs(slope)))
                fail_msg("part %zu, weight %zu: the gradient is %.9f, the difference %.9f", part,
                         i - p.first, (double)f->gradient[i], slope);
        }
        assert_true(largest > 0.1); // Else the comparison would say nothing.
    }
    free(weights);
}

static void test_a_part_is_complete_when_its_turn_is_over(void **state)
{
    fixture *f = *state;
    learn(f, f->text, SEQUENCES);
    float *whole = calloc(f->count, sizeof *whole);
    assert_non_null(whole);
    memcpy(whole, f->gradient, f->count * sizeof *whole);
    decoder_forward(f->pass, f->weights, f->text, SEQUENCES);
    decoder_loss(f->pass, f->text);
    for (size_t part = PARTS; part-- > 0;) {
        decoder_part p = decoder_part_of(shape, part);
        decoder_back(f->pass, f->weights, f->gradient, f->text, part);
        assert_memory_equal(f->gradient + p.first, whole + p.first, p.count * sizeof *whole);
    }
    free(whole);
}

static void test_shares_of_a_batch_add_up(void **state)
{
    fixture *f = *state;
    float *sum = calloc(f->count, sizeof *sum);
    assert_non_null(sum);
    double losses = 0;
    for (size_t first = 0; first < SEQUENCES; first += 2) { // Two, then one.
        size_t sequences = SEQUENCES - first < 2 ? SEQUENCES - first : 2;
        losses += learn(f, f->text + first * (CONTEXT + 1), sequences);
        for (size_t i = 0; i < f->count; i++)
            sum[i] += f->gradient[i];
    }
    assert_true(fabs(learn(f, f->text, SEQUENCES) - losses) < 1e-5 * losses);
    for (size_t i = 0; i < f->count; i++)
        assert_true(fabsf(sum[i] - f->gradient[i]) <= 1e-5f * (1 + fabsf(sum[i])));
    assert_true(learn(f, f->text, 0) == 0); // A rank without a share adds nothing.
    for (size_t i = 0; i < f->count; i++)
        assert_true(f->gradient[i] == 0);
    free(sum);
}

static void test_a_place_does_not_see_those_after_it(void **state)
{
    fixture *f = *state;
    enum { SEEN = 3, SIZE = SEEN * VOCABULARY };
    float before[SIZE];
    memcpy(before, decoder_forward(f->pass, f->weights, f->text, 1), sizeof before);
    f->text[SEEN] = (uint16_t)((f->text[SEEN] + 1) % VOCABULARY);
    const float *after = decoder_forward(f->pass, f->weights, f->text, 1);
    assert_memory_equal(after, before, sizeof before);
    assert_memory_not_equal(after + SIZE, before, VOCABULARY * sizeof(float));
}

static void test_large_scores_stay_finite(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < f->count; i++)
        f->weights[i] *= 1e3f;
    assert_true(isfinite(learn(f, f->text, SEQUENCES)));
    for (size_t i = 0; i < f->count; i++)
        assert_true(isfinite(f->gradient[i]));
}

static void test_a_step_follows_the_rule(void **state)
{
    (void)state;
    float weight = 2, first = 0.5f, second = 0.25f;
    const float gradient = 3;
    const adamw how = {.rate = 0.1f, .beta1 = 0.9f, .beta2 = 0.99f, .decay = 0.01f};
    adamw_step(&weight, &first, &second, &gradient, 1, how, 2);
    double m = 0.9 * 0.5 + 0.1 * 3, v = 0.99 * 0.25 + 0.01 * 9;
    double pull = m / (1 - 0.9 * 0.9) / (sqrt(v / (1 - 0.99 * 0.99)) + 1e-8);
    assert_true(fabs((double)first - m) < 1e-6 && fabs((double)second - v) < 1e-6);
    assert_true(fabs((double)weight - (2 - 0.1 * (pull + 0.01 * 2))) < 1e-6);
}

static void test_a_few_sequences_are_learnt_by_heart(void **state)
{
    fixture *f = *state;
    const adamw how = {.rate = 0.01f, .beta1 = 0.9f, .beta2 = 0.99f, .decay = 0.01f};
    float *moments = calloc(2 * f->count, sizeof *moments);
    assert_non_null(moments);
    uint64_t random = 1;
    decoder_draw(shape, f->weights, &random);
    // No two of them begin alike: only what comes first has to be guessed of none.
    for (size_t i = 0; i < SEQUENCES; i++)
        f->text[i * (CONTEXT + 1)] = (uint16_t)i;
    double before = learn(f, f->text, SEQUENCES), after = before;
    for (int step = 1; step <= 300; step++) {
        adamw_step(f->weights, moments, moments + f->count, f->gradient, f->count, how, step);
        after = learn(f, f->text, SEQUENCES);
    }
    double guessing = log(VOCABULARY) * SEQUENCES * CONTEXT;
    assert_true(fabs(before - guessing) < 0.1 * guessing);
    if (after > 0.02 * before)
        fail_msg("the loss fell from %.3f to %.3f only", before, after);
    free(moments);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_the_parts_are_the_whole),
        TEST(test_the_gradient_is_that_of_the_loss),
        TEST(test_a_part_is_complete_when_its_turn_is_over),
        TEST(test_shares_of_a_batch_add_up),
        TEST(test_a_place_does_not_see_those_after_it),
        TEST(test_large_scores_stay_finite),
        TEST(test_a_step_follows_the_rule),
        TEST(test_a_few_sequences_are_learnt_by_heart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
