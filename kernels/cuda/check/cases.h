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
    /// Its kernels are those of the Hopper path: after a hang the others of them are not begun, and
    /// after a fault they are not timed.
    bool hopper = false;
};
/// Checks, then prints its rows; a wrong result is a DeviceError.
struct TimingCase {
    std::string name;
    std::function<void(const Device&)> run;
    /// Beginnings of the names of comparisons that must be right before this is timed.
    std::vector<std::string> needs = {};
};

/// Every operation of the plugin against a plain loop on the host, odd sizes among them.
[[nodiscard]] std::vector<CorrectnessCase> correctnessCases();
/// Products by shape (skinny ones too), kernels and copies. Random data: zeros run faster.
[[nodiscard]] std::vector<TimingCase> timingCases(bool without_hopper);

void addGemmCases(std::vector<CorrectnessCase>& cases);
void addGroupedCases(std::vector<CorrectnessCase>& cases, int path);
void addRowCases(std::vector<CorrectnessCase>& cases);
void addRouterCases(std::vector<CorrectnessCase>& cases);

}  // namespace piper::cuda
