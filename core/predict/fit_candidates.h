// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/predict/fit.h"

// Plans that hold less memory than a given one; private to this room.
namespace piper {

struct FitCandidate {
    std::string change;
    std::vector<std::string> settings;
    Plan plan;
    int size = 0;  ///< of the change; candidates come smallest first
};

/// Candidates of one kind, smallest change first. They may break rules: the caller asks.
[[nodiscard]] std::vector<FitCandidate> fitCandidates(const Plan& plan, FitChangeKind kind);

}  // namespace piper
