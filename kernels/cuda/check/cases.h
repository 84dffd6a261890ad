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
    bool absent = false;  ///< this device has no such path
    [[nodiscard]] bool passed() const { return worst <= allowed; }  // false for NaN
};

struct CorrectnessCase {
    std::string name;
    std::function<Correctness(const Device&)> run;
};
/// Checks, then prints its rows; a wrong result is a DeviceError.
struct TimingCase {
    std::string name;
    std::function<void(const Device&)> run;
};

/// Every operation of the plugin against a plain loop on the host, odd sizes among them.
[[nodiscard]] std::vector<CorrectnessCase> correctnessCases();
/// Products by shape (skinny ones too), kernels and copies. Random data: zeros run faster.
[[nodiscard]] std::vector<TimingCase> timingCases();

void addGemmCases(std::vector<CorrectnessCase>& cases);
void addGroupedCases(std::vector<CorrectnessCase>& cases);
void addRowCases(std::vector<CorrectnessCase>& cases);
void addRouterCases(std::vector<CorrectnessCase>& cases);

}  // namespace piper::cuda
