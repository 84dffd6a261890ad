// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/cuda/check/device.h"

namespace piper::cuda {

/// Median and the range of the middle 80 % of some values.
struct Spread {
    double median = 0;
    double p10 = 0;
    double p90 = 0;
};
/// Values are not empty.
[[nodiscard]] Spread spreadOf(std::vector<double> values);

/// One way to do a piece of work.
struct Variant {
    std::string name;
    std::function<void()> queue;
    double work;  ///< floating point operations, or bytes read and written, of one call
};

/// Seconds of one call, and of each round the ratio to the first variant's time in that round.
struct Measured {
    std::string name;
    double work = 0;
    Spread seconds;
    Spread ratio;  ///< this variant's time / the first's: above 1 the first is faster
};

struct Comparison {
    std::vector<Measured> variants;
    Spread noise;  ///< the first variant against itself, once more in every round
    int rounds = 0;
    int calls = 0;  ///< of one timed stretch
};

/// Times the variants in turns, so that a change of clock meets all of them: in each round every
/// variant once, the first again at the end. Two untimed calls of each before. Stretches are about
/// 2 ms.
[[nodiscard]] Comparison compareVariants(const Device& device, const std::vector<Variant>& variants,
                                         int rounds = 15);

/// A line for each variant: median us, spread, rate, ratio with its spread; then the noise.
void printComparison(const std::string& name, const Comparison& comparison, bool flops);

}  // namespace piper::cuda
