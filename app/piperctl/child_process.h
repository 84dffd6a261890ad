// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace piper::app {

/// What a process took from its start to its end.
struct ProcessCost {
    double cpu_seconds = 0.0;  ///< user and system, all threads
    double wall_seconds = 0.0;
    std::int64_t peak_bytes = 0;  ///< resident
    int exit_status = 0;
};

/// Runs `work` in a process of its own, forked from this one. Errors: External when it died.
[[nodiscard]] Result<ProcessCost> costOf(const std::function<int()>& work);
/// The same of a program found in PATH, whose output goes nowhere. Errors: NotFound when it cannot
/// be started.
[[nodiscard]] Result<ProcessCost> costOf(const std::vector<std::string>& command);

/// CPU time of this process so far, user and system.
[[nodiscard]] double ownCpuSeconds();

}  // namespace piper::app
