// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace piper::cuda {

/// How a program of its own ended.
struct Ending {
    std::string output;  ///< standard output and error together
    int status = -1;     ///< exit status, or 128 + signal
    bool timed_out = false;

    [[nodiscard]] bool clean() const { return status == 0 && !timed_out; }
    /// "exit status 3", "signal 11 (Segmentation fault)", "no answer in 60 s"; empty when clean.
    [[nodiscard]] std::string fault(int seconds) const;
};

/// Runs a program in a process group of its own with its output collected, and ends it with its
/// children after `seconds`. A fault of one case (a trap on the device, a hang) stays in its
/// process.
[[nodiscard]] Ending runIsolated(const std::vector<std::string>& command, int seconds);

}  // namespace piper::cuda
