// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/cuda/check/device.h"

namespace piper::cuda {

/// The largest difference from the host reference and what is allowed.
struct Correctness {
    double worst = 0;
    double allowed = 0;
    [[nodiscard]] bool passed() const { return worst <= allowed; }  // false for NaN
};

/// Seconds of one call and what it moved or computed.
struct Timing {
    double seconds = 0;
    double work = 0;  ///< floating point operations, or bytes read and written
    bool flops = false;
};

struct CorrectnessCase {
    std::string name;
    std::function<Correctness(const Device&)> run;
};
struct TimingCase {
    std::string name;
    std::function<Timing(const Device&)> run;
};

/// Every kernel of the plugin against a plain loop on the host, with odd sizes among them.
[[nodiscard]] std::vector<CorrectnessCase> correctnessCases();
/// Products by shape (skinny ones too), kernels and copies. Random data: zeros run faster.
[[nodiscard]] std::vector<TimingCase> timingCases();

}  // namespace piper::cuda
