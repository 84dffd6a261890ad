// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace piper {

/// The vectorised inner loops, one set per instruction set: the same source (loops_impl.h) compiled
/// for the baseline, for AVX2 with FMA and for AVX-512. Reductions run in a fixed order for a given
/// set, so results repeat bit by bit on a machine. Pointers do not overlap unless said.
struct Loops {
    const char* name;

    void (*add)(std::int64_t n, const float* x, float* y);
    void (*scale)(std::int64_t n, float factor, float* x);
    /// y += a * x
    void (*addScaled)(std::int64_t n, float a, const float* x, float* y);
    /// y = a * x
    void (*copyScaled)(std::int64_t n, float a, const float* x, float* y);
    float (*dot)(std::int64_t n, const float* x, const float* y);
    double (*squaredSum)(std::int64_t n, const float* x);
    /// sums += x, in double
    void (*addToDouble)(std::int64_t n, const float* x, double* sums);

    float (*rowMax)(std::int64_t n, const float* x);
    /// x = exp(x - shift) in place; returns the sum.
    float (*expRow)(std::int64_t n, float shift, float* x);
    /// Sum of exp(x - shift).
    double (*expSum)(std::int64_t n, float shift, const float* x);
    /// x = factor * exp(x - shift) in place.
    void (*expScaledRow)(std::int64_t n, float shift, float factor, float* x);
    /// ds = p * (dp - delta) * scale, into dp.
    void (*softmaxGradRow)(std::int64_t n, const float* p, float delta, float scale, float* dp);

    /// Returns the inverse root mean square.
    float (*rmsNormRow)(std::int64_t n, const float* x, const float* weight, float epsilon,
                        float* y);
    void (*rmsNormInputGradRow)(std::int64_t n, const float* dy, const float* x,
                                const float* weight, float inverse_rms, bool accumulate, float* dx);
    /// dweight += dy * x * inverse_rms
    void (*rmsNormWeightGradRow)(std::int64_t n, const float* dy, const float* x, float inverse_rms,
                                 float* dweight);
    struct Moments {
        float mean, inverse;  ///< inverse standard deviation
    };
    Moments (*layerNormRow)(std::int64_t n, const float* x, const float* weight, const float* bias,
                            float epsilon, float* y);
    void (*layerNormInputGradRow)(std::int64_t n, const float* dy, const float* x,
                                  const float* weight, Moments moments, bool accumulate, float* dx);
    /// dweight += dy * (x - mean) * inverse; dbias += dy
    void (*layerNormWeightGradRow)(std::int64_t n, const float* dy, const float* x, Moments moments,
                                   float* dweight, float* dbias);
    /// One head of 2 * half elements turns by the angles; sign -1 turns back.
    void (*rotaryHead)(std::int64_t half, const float* cosine, const float* sine, float sign,
                       float* x);

    /// y [m, n] = x [m, k] w^T, contiguous; scratch holds kScratch floats, k is at most kScratch
    /// / 8. A GEMM turns w first, which takes it longer than the product up to kDotRows rows where
    /// w does not stay in a second-level cache of 1 MiB beside its copy, and up to kFewRows where
    /// it does.
    static constexpr std::int64_t kDotRows = 96, kFewRows = 5;
    static constexpr std::int64_t kCachedFloats = 128 * 1024, kScratch = 128 * 1024;
    [[nodiscard]] static constexpr bool rowsForwardPays(std::int64_t m, std::int64_t n,
                                                        std::int64_t k) {
        return m <= (n * k > kCachedFloats ? kDotRows : kFewRows) && 8 * k <= kScratch;
    }
    void (*rowsForward)(std::int64_t m, std::int64_t n, std::int64_t k, const float* x,
                        const float* w, float* y, float* scratch);
    /// Products of 1 to kFewRows rows with a large matrix, contiguous: dx [m, k] = dy [m, n] w;
    /// dw [n, k] += dy^T x.
    void (*fewRowsInputGrad)(std::int64_t m, std::int64_t n, std::int64_t k, const float* dy,
                             const float* w, float* dx);
    void (*fewRowsWeightGrad)(std::int64_t m, std::int64_t n, std::int64_t k, const float* dy,
                              const float* x, float* dw);

    void (*swigluRow)(std::int64_t f, const float* gate_up, float* out);
    void (*swigluGradRow)(std::int64_t f, const float* dout, const float* gate_up, float* dgate_up);
    void (*gelu)(std::int64_t n, const float* x, float* out);
    void (*geluGrad)(std::int64_t n, const float* dout, const float* x, float* dx);

    struct Adam {
        float gradient_scale, beta1, beta2, epsilon;
        float step_size;          ///< learning rate over first-moment correction
        float second_correction;  ///< 1 / sqrt(1 - beta2^step)
        float decay;              ///< 1 - learning rate * weight decay
    };
    void (*adam)(std::int64_t n, const Adam* p, const float* gradient, float* weight, float* m,
                 float* v);
};

/// The best set this processor runs.
[[nodiscard]] const Loops& chooseLoops();

extern const Loops kLoopsBaseline;
#ifdef PIPER_LOOPS_X86
extern const Loops kLoopsAvx2;
extern const Loops kLoopsAvx512;
#endif

}  // namespace piper
