// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/predict/predict.h"

namespace piper {

/// What a change gives up, cheapest kind first.
enum class FitChangeKind {
    RecomputeModules,
    RecomputeFull,
    MicroBatch,
    ZeroStage,
    Offload,
    Layout,  ///< other degrees on the same devices
    MoreDevices
};

/// A change of a plan after which its memory fits.
struct FitChange {
    FitChangeKind kind = FitChangeKind::RecomputeModules;
    std::string change;                 ///< "recompute layernorm and moe_act"
    std::vector<std::string> settings;  ///< keys of the plan file: "recompute.modules=[...]"
    Plan plan;                          ///< the changed plan, valid under its framework
    Bytes peak;                         ///< of the tensors
    Bytes device_total;                 ///< with what lies outside them: the verdict's
    FitVerdict verdict = FitVerdict::Fits;
    Seconds step;
    std::int64_t devices = 0;
};

/// For a plan that does not fit, or fits tightly: for each kind of change the smallest one after
/// which it fits with room (fits tightly where none does), in the order of FitChangeKind, so the
/// first is the smallest change. Every plan given passed its framework's rules; among layouts and
/// among device counts of equal size the fastest is named. Empty for a plan that fits, or when
/// nothing helps. Costs a prediction in closed form for each plan tried (at most some hundreds).
[[nodiscard]] std::vector<FitChange> smallestChanges(const Plan& plan);

/// "smallest change that fits: recompute full (61.2 GiB of 80.0 GiB, 1.31 s a step)".
[[nodiscard]] std::string fitSentence(const std::vector<FitChange>& changes);

}  // namespace piper
