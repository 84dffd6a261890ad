// SPDX-License-Identifier: Apache-2.0
// Included once by each loops_*.cpp, which defines PIPER_LOOPS_TABLE and PIPER_LOOPS_NAME and is
// compiled for its instruction set. Nothing of the standard library may be instantiated here: the
// linker could keep such a copy for the whole program, and a lesser processor would trap in it.

#include "kernels/cpu/few_rows.h"
#include "kernels/cpu/loops.h"

namespace piper {

namespace {

/// e^x with a relative error below 2e-7; 0 below -87.3, about 1.7e38 above 88. NaN stays NaN.
/// Source: the polynomial of Cephes' expf. No branches, so that loops around it vectorise.
inline float expFast(float x) {
    const float clamped = x > 88.0F ? 88.0F : x;
    constexpr float kMagic = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
    const float shifted = clamped * 1.44269504F + kMagic;
    const float n = shifted - kMagic;
    const float r = (clamped - n * 0.693359375F) + n * 2.12194440e-4F;
    float p = 1.9875691500e-4F;
    p = p * r + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    p = p * r * r + r + 1.0F;
    const unsigned bits =
        (__builtin_bit_cast(unsigned, shifted) - __builtin_bit_cast(unsigned, kMagic) + 127U)
        << 23U;
    const float result = p * __builtin_bit_cast(float, bits);
    return x < -87.3F ? 0.0F : result;
}

inline float sigmoidFast(float x) {
    return 1.0F / (1.0F + expFast(-x));
}

/// tanh-form GELU written with the logistic function: x * sigmoid(2 u).
inline float geluArgument(float x) {
    return 1.5957691216F * (x + 0.044715F * x * x * x);
}

void add(std::int64_t n, const float* __restrict x, float* __restrict y) {
    for (std::int64_t i = 0; i < n; ++i) y[i] += x[i];
}

void scale(std::int64_t n, float factor, float* x) {
    for (std::int64_t i = 0; i < n; ++i) x[i] *= factor;
}

void addScaled(std::int64_t n, float a, const float* __restrict x, float* __restrict y) {
    for (std::int64_t i = 0; i < n; ++i) y[i] += a * x[i];
}

void copyScaled(std::int64_t n, float a, const float* __restrict x, float* __restrict y) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = a * x[i];
}

float dot(std::int64_t n, const float* __restrict x, const float* __restrict y) {
    float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
    return sum;
}

double squaredSum(std::int64_t n, const float* x) {
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i)
        sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    return sum;
}

void addToDouble(std::int64_t n, const float* __restrict x, double* __restrict sums) {
    for (std::int64_t i = 0; i < n; ++i) sums[i] += static_cast<double>(x[i]);
}

float rowMax(std::int64_t n, const float* x) {
    float best = x[0];
#pragma omp simd reduction(max : best)
    for (std::int64_t i = 0; i < n; ++i) best = x[i] > best ? x[i] : best;
    return best;
}

float expRow(std::int64_t n, float shift, float* x) {
    float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i) {
        const float e = expFast(x[i] - shift);
        x[i] = e;
        sum += e;
    }
    return sum;
}

double expSum(std::int64_t n, float shift, const float* x) {
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(expFast(x[i] - shift));
    return sum;
}

void expScaledRow(std::int64_t n, float shift, float factor, float* x) {
    for (std::int64_t i = 0; i < n; ++i) x[i] = factor * expFast(x[i] - shift);
}

void softmaxGradRow(std::int64_t n, const float* __restrict p, float delta, float factor,
                    float* __restrict dp) {
    for (std::int64_t i = 0; i < n; ++i) dp[i] = p[i] * (dp[i] - delta) * factor;
}

float rmsNormRow(std::int64_t n, const float* __restrict x, const float* __restrict weight,
                 float epsilon, float* __restrict y) {
    const float mean = dot(n, x, x) / static_cast<float>(n);
    const float inverse = 1.0F / __builtin_sqrtf(mean + epsilon);
    for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * inverse * weight[i];
    return inverse;
}

/// dx = inv (dy w) - x inv^3 mean(dy w x)
void rmsNormInputGradRow(std::int64_t n, const float* __restrict dy, const float* __restrict x,
                         const float* __restrict weight, float inverse_rms, bool accumulate,
                         float* __restrict dx) {
    float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i) sum += dy[i] * weight[i] * x[i];
    const float pull = sum * inverse_rms * inverse_rms * inverse_rms / static_cast<float>(n);
    if (accumulate)
        for (std::int64_t i = 0; i < n; ++i) dx[i] += dy[i] * weight[i] * inverse_rms - x[i] * pull;
    else
        for (std::int64_t i = 0; i < n; ++i) dx[i] = dy[i] * weight[i] * inverse_rms - x[i] * pull;
}

void rmsNormWeightGradRow(std::int64_t n, const float* __restrict dy, const float* __restrict x,
                          float inverse_rms, float* __restrict dweight) {
    for (std::int64_t i = 0; i < n; ++i) dweight[i] += dy[i] * x[i] * inverse_rms;
}

Loops::Moments layerNormRow(std::int64_t n, const float* __restrict x,
                            const float* __restrict weight, const float* __restrict bias,
                            float epsilon, float* __restrict y) {
    float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i) sum += x[i];
    const float mean = sum / static_cast<float>(n);
    float squares = 0.0F;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const float inverse = 1.0F / __builtin_sqrtf(squares / static_cast<float>(n) + epsilon);
    for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * inverse * weight[i] + bias[i];
    return {mean, inverse};
}

/// With u = (x - mean) inv and g = dy w: dx = inv (g - mean(g) - u mean(g u))
void layerNormInputGradRow(std::int64_t n, const float* __restrict dy, const float* __restrict x,
                           const float* __restrict weight, Loops::Moments m, bool accumulate,
                           float* __restrict dx) {
    float sum = 0.0F, dot = 0.0F;
#pragma omp simd reduction(+ : sum, dot)
    for (std::int64_t i = 0; i < n; ++i) {
        const float g = dy[i] * weight[i];
        sum += g;
        dot += g * (x[i] - m.mean);
    }
    const float mean = sum / static_cast<float>(n);
    const float pull = dot * m.inverse * m.inverse / static_cast<float>(n);
    if (accumulate)
        for (std::int64_t i = 0; i < n; ++i)
            dx[i] += m.inverse * (dy[i] * weight[i] - mean - (x[i] - m.mean) * pull);
    else
        for (std::int64_t i = 0; i < n; ++i)
            dx[i] = m.inverse * (dy[i] * weight[i] - mean - (x[i] - m.mean) * pull);
}

void layerNormWeightGradRow(std::int64_t n, const float* __restrict dy, const float* __restrict x,
                            Loops::Moments m, float* __restrict dweight, float* __restrict dbias) {
    for (std::int64_t i = 0; i < n; ++i) dweight[i] += dy[i] * (x[i] - m.mean) * m.inverse;
    for (std::int64_t i = 0; i < n; ++i) dbias[i] += dy[i];
}

void rotaryHead(std::int64_t half, const float* __restrict cosine, const float* __restrict sine,
                float sign, float* __restrict x) {
#pragma omp simd
    for (std::int64_t i = 0; i < half; ++i) {
        const float a = x[i];
        const float b = x[i + half];
        x[i] = a * cosine[i] - sign * b * sine[i];
        x[i + half] = b * cosine[i] + sign * a * sine[i];
    }
}

void swigluRow(std::int64_t f, const float* __restrict gate_up, float* __restrict out) {
    for (std::int64_t i = 0; i < f; ++i)
        out[i] = gate_up[i] * sigmoidFast(gate_up[i]) * gate_up[f + i];
}

void swigluGradRow(std::int64_t f, const float* __restrict dout, const float* __restrict gate_up,
                   float* __restrict dgate_up) {
#pragma omp simd
    for (std::int64_t i = 0; i < f; ++i) {
        const float gate = gate_up[i];
        const float s = sigmoidFast(gate);
        dgate_up[i] = dout[i] * gate_up[f + i] * s * (1.0F + gate * (1.0F - s));
        dgate_up[f + i] = dout[i] * gate * s;
    }
}

void gelu(std::int64_t n, const float* __restrict x, float* __restrict out) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = x[i] * sigmoidFast(geluArgument(x[i]));
}

void geluGrad(std::int64_t n, const float* __restrict dout, const float* __restrict x,
              float* __restrict dx) {
    for (std::int64_t i = 0; i < n; ++i) {
        const float s = sigmoidFast(geluArgument(x[i]));
        const float slope = 1.5957691216F * (1.0F + 0.134145F * x[i] * x[i]);
        dx[i] = dout[i] * (s + x[i] * s * (1.0F - s) * slope);
    }
}

void adam(std::int64_t n, const Loops::Adam* p, const float* __restrict gradient,
          float* __restrict weight, float* __restrict m, float* __restrict v) {
    const Loops::Adam a = *p;
    for (std::int64_t i = 0; i < n; ++i) {
        const float g = gradient[i] * a.gradient_scale;
        m[i] = a.beta1 * m[i] + (1.0F - a.beta1) * g;
        v[i] = a.beta2 * v[i] + (1.0F - a.beta2) * g * g;
        const float root = __builtin_sqrtf(v[i]) * a.second_correction + a.epsilon;
        weight[i] = weight[i] * a.decay - a.step_size * m[i] / root;
    }
}

}  // namespace

extern const Loops PIPER_LOOPS_TABLE = {
    .name = PIPER_LOOPS_NAME,
    .add = add,
    .scale = scale,
    .addScaled = addScaled,
    .copyScaled = copyScaled,
    .dot = dot,
    .squaredSum = squaredSum,
    .addToDouble = addToDouble,
    .rowMax = rowMax,
    .expRow = expRow,
    .expSum = expSum,
    .expScaledRow = expScaledRow,
    .softmaxGradRow = softmaxGradRow,
    .rmsNormRow = rmsNormRow,
    .rmsNormInputGradRow = rmsNormInputGradRow,
    .rmsNormWeightGradRow = rmsNormWeightGradRow,
    .layerNormRow = layerNormRow,
    .layerNormInputGradRow = layerNormInputGradRow,
    .layerNormWeightGradRow = layerNormWeightGradRow,
    .rotaryHead = rotaryHead,
    .rowsForward = rowsForward,
    .fewRowsInputGrad = fewRowsInputGrad,
    .fewRowsWeightGrad = fewRowsWeightGrad,
    .swigluRow = swigluRow,
    .swigluGradRow = swigluGradRow,
    .gelu = gelu,
    .geluGrad = geluGrad,
    .adam = adam,
};

}  // namespace piper
