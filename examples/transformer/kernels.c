// kernels.c: see kernels.h.
#include "kernels.h"

#include <cblas.h>
#include <math.h>
#include <string.h>

// c (m x n) = alpha * a (m x k) b (k x n) + beta * c, where a, b or both may be given transposed;
// a row of each lies `la`, `lb`, `lc` numbers behind the one before.
static void multiply(CBLAS_TRANSPOSE turn_a, CBLAS_TRANSPOSE turn_b, size_t m, size_t n, size_t k,
                     float alpha, const float *a, size_t la, const float *b, size_t lb, float beta,
                     float *c, size_t lc)
{
    cblas_sgemm(CblasRowMajor, turn_a, turn_b, (int)m, (int)n, (int)k, alpha, a, (int)la, b,
                (int)lb, beta, c, (int)lc);
}

void affine(float *out, const float *in, const float *weights, const float *offsets, size_t rows,
            size_t ins, size_t outs)
{
    for (size_t row = 0; offsets && row < rows; row++)
        memcpy(out + row * outs, offsets, outs * sizeof *out);
    multiply(CblasNoTrans, CblasTrans, rows, outs, ins, 1, in, ins, weights, ins, offsets ? 1 : 0,
             out, outs);
}

void affine_back(float *din, float *dweights, float *doffsets, const float *dout, const float *in,
                 const float *weights, size_t rows, size_t ins, size_t outs)
{
    multiply(CblasTrans, CblasNoTrans, outs, ins, rows, 1, dout, outs, in, ins, 1, dweights, ins);
    multiply(CblasNoTrans, CblasNoTrans, rows, ins, outs, 1, dout, outs, weights, ins, 0, din, ins);
    for (size_t row = 0; doffsets && row < rows; row++)
        for (size_t i = 0; i < outs; i++)
            doffsets[i] += dout[row * outs + i];
}

void normalise(float *out, float *stats, const float *in, const float *gain, const float *offsets,
               size_t rows, size_t width)
{
    for (size_t row = 0; row < rows; row++, in += width, out += width, stats += 2) {
        float mean = 0, variance = 0;
        for (size_t i = 0; i < width; i++)
            mean += in[i];
        mean /= (float)width;
        for (size_t i = 0; i < width; i++)
            variance += (in[i] - mean) * (in[i] - mean);
        float scale = 1 / sqrtf(variance / (float)width + 1e-5f);
        for (size_t i = 0; i < width; i++)
            out[i] = (in[i] - mean) * scale * gain[i] + offsets[i];
        stats[0] = mean;
        stats[1] = scale;
    }
}

void normalise_back(float *din, float *dgain, float *doffsets, const float *dout, const float *in,
                    const float *stats, const float *gain, size_t rows, size_t width)
{
    for (size_t row = 0; row < rows; row++, in += width, din += width, dout += width, stats += 2) {
        float mean = stats[0], scale = stats[1], sum = 0, along = 0;
        for (size_t i = 0; i < width; i++) {
            float normal = (in[i] - mean) * scale;
            dgain[i] += dout[i] * normal;
            doffsets[i] += dout[i];
            sum += dout[i] * gain[i];
            along += dout[i] * gain[i] * normal;
        }
        sum /= (float)width;
        along /= (float)width;
        for (size_t i = 0; i < width; i++)
            din[i] += (dout[i] * gain[i] - sum - (in[i] - mean) * scale * along) * scale;
    }
}

// (1 + tanh u) / 2 is the logistic function of 2 u, and x times that the unit.
static const float gelu_slope = 1.5957691216f, gelu_cubic = 0.044715f; // 2 sqrt(2 / pi)

static float gelu_share(float x)
{
    return 1 / (1 + expf(-gelu_slope * (x + gelu_cubic * x * x * x)));
}

void gelu(float *out, const float *in, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = in[i] * gelu_share(in[i]);
}

void gelu_back(float *dout_to_din, const float *in, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float x = in[i], share = gelu_share(x);
        dout_to_din[i] *=
            share + x * share * (1 - share) * gelu_slope * (1 + 3 * gelu_cubic * x * x);
    }
}

void softmax(float *scores, size_t count)
{
    float top = scores[0], sum = 0;
    for (size_t i = 1; i < count; i++)
        top = scores[i] > top ? scores[i] : top;
    for (size_t i = 0; i < count; i++)
        sum += scores[i] = expf(scores[i] - top);
    for (size_t i = 0; i < count; i++)
        scores[i] /= sum;
}

void attend(float *out, float *shares, const float *qkv, attention a)
{
    size_t size = a.width / a.heads, wide = 3 * a.width, places = a.context;
    for (size_t i = 0; i < a.sequences * a.heads; i++, shares += places * places) {
        const float *q = qkv + i / a.heads * places * wide + i % a.heads * size;
        const float *k = q + a.width, *v = k + a.width;
        multiply(CblasNoTrans, CblasTrans, places, places, size, 1 / sqrtf((float)size), q, wide, k,
                 wide, 0, shares, places);
        for (size_t row = 0; row < places; row++) {
            softmax(shares + row * places, row + 1);
            memset(shares + row * places + row + 1, 0, (places - row - 1) * sizeof *shares);
        }
        multiply(CblasNoTrans, CblasNoTrans, places, size, places, 1, shares, places, v, wide, 0,
                 out + i / a.heads * places * a.width + i % a.heads * size, a.width);
    }
}

void attend_back(float *dqkv, const float *dout, const float *shares, const float *qkv,
                 float *scratch, attention a)
{
    size_t size = a.width / a.heads, wide = 3 * a.width, places = a.context;
    float scale = 1 / sqrtf((float)size);
    for (size_t i = 0; i < a.sequences * a.heads; i++, shares += places * places) {
        size_t at = i / a.heads * places * wide + i % a.heads * size;
        const float *q = qkv + at, *k = q + a.width, *v = k + a.width;
        float *dq = dqkv + at, *dk = dq + a.width, *dv = dk + a.width;
        const float *d = dout + i / a.heads * places * a.width + i % a.heads * size;
        multiply(CblasTrans, CblasNoTrans, places, size, places, 1, shares, places, d, a.width, 0,
                 dv, wide);
        multiply(CblasNoTrans, CblasTrans, places, places, size, 1, d, a.width, v, wide, 0, scratch,
                 places);
        for (size_t row = 0; row < places; row++) { // Through the softmax.
            const float *share = shares + row * places;
            float *dshare = scratch + row * places, along = 0;
            for (size_t j = 0; j <= row; j++)
                along += share[j] * dshare[j];
            for (size_t j = 0; j < places; j++)
                dshare[j] = share[j] * (dshare[j] - along);
        }
        multiply(CblasNoTrans, CblasNoTrans, places, size, places, scale, scratch, places, k, wide,
                 0, dq, wide);
        multiply(CblasTrans, CblasNoTrans, places, size, places, scale, scratch, places, q, wide, 0,
                 dk, wide);
    }
}

double cross_entropy(float *scores, const uint16_t *targets, size_t rows, size_t classes)
{
    double loss = 0;
    for (size_t row = 0; row < rows; row++, scores += classes) {
        softmax(scores, classes);
        loss -= log(fmax((double)scores[targets[row]], 1e-30));
        scores[targets[row]] -= 1;
    }
    return loss;
}

void adamw_step(float *weights, float *first, float *second, const float *gradient, size_t count,
                adamw how, int64_t step)
{
    // The means begin at zero: these make up for it.
    float unbias1 = (float)(1 / (1 - pow((double)how.beta1, (double)step)));
    float unbias2 = (float)(1 / (1 - pow((double)how.beta2, (double)step)));
    for (size_t i = 0; i < count; i++) {
        float g = gradient[i];
        first[i] = how.beta1 * first[i] + (1 - how.beta1) * g;
        second[i] = how.beta2 * second[i] + (1 - how.beta2) * g * g;
        float pull = first[i] * unbias1 / (sqrtf(second[i] * unbias2) + 1e-8f);
        weights[i] -= how.rate * (pull + how.decay * weights[i]);
    }
}
