// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "kernels/cuda/check/cases.h"
#include "kernels/cuda/check/isolate.h"

namespace piper::cuda {

constexpr int kAbsentStatus = 77;  ///< of a case whose path the device does not have

struct RunnerOptions {
    std::string program;  ///< piper-cuda-check itself
    std::string plugin, sanitizer;
    std::int32_t device = 0;
    int seconds = 410;  ///< after them no new case is begun
};

/// Starts cases of the program, each in a process of its own, and prints a row for each. After one
/// of the Hopper path hangs the others of it are not begun; what differs or fails is not timed.
class Runner {
public:
    Runner(RunnerOptions options, std::vector<CorrectnessCase> cases,
           std::vector<TimingCase> timings);

    /// All comparisons, four at a time, if wanted under compute-sanitizer (one line where that does
    /// not work). Returns the number of rows that are not right.
    int compareAll(bool sanitized);
    int timeAll();

private:
    [[nodiscard]] bool timeIsOver() const;
    [[nodiscard]] Ending run(const std::vector<std::string>& words, bool sanitized,
                             int seconds) const;
    [[nodiscard]] bool sanitizerWorks() const;
    [[nodiscard]] bool printRow(const std::string& name, const Ending& ending,
                                bool sanitized) const;
    [[nodiscard]] bool mayBeTimed(const TimingCase& timing) const;

    RunnerOptions m_options;
    std::vector<CorrectnessCase> m_cases;
    std::vector<TimingCase> m_timings;
    std::vector<std::string> m_failed;  ///< names of comparisons
    bool m_hopper_failed = false;
    bool m_hopper_hung = false;
    std::chrono::steady_clock::time_point m_begin;
};

}  // namespace piper::cuda
