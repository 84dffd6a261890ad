// SPDX-License-Identifier: Apache-2.0
// Concept: each kind of change is a list of plans, smallest change first. A list is walked until a
// plan fits; plans that break a rule are passed over, so nothing is offered that the framework
// would refuse.
#include "core/predict/fit.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "core/predict/fit_candidates.h"

namespace piper {

template <>
std::span<const EnumName<FitChangeKind>> enumNames<FitChangeKind>() {
    static constexpr EnumName<FitChangeKind> kNames[] = {
        {FitChangeKind::RecomputeModules, "recompute_modules"},
        {FitChangeKind::RecomputeFull, "recompute_full"},
        {FitChangeKind::MicroBatch, "micro_batch"},
        {FitChangeKind::ZeroStage, "zero_stage"},
        {FitChangeKind::Offload, "offload"},
        {FitChangeKind::Layout, "layout"},
        {FitChangeKind::MoreDevices, "more_devices"},
    };
    return kNames;
}

namespace {

/// The candidate with its prediction; nothing when a rule refuses it.
std::optional<FitChange> tried(FitCandidate&& candidate) {
    // The verdict is cheap and rules out most; the step time is asked for only after it.
    if (!validatePlan(candidate.plan).empty()) return std::nullopt;
    const Result<Prediction> prediction =
        predict(candidate.plan, PredictMode::ClosedForm, PredictDetail::StepOnly);
    if (!prediction.ok()) return std::nullopt;
    FitChange out;
    out.change = std::move(candidate.change);
    out.settings = std::move(candidate.settings);
    out.peak = prediction->memory.peak;
    out.device_total = prediction->memory.device_total;
    out.verdict = prediction->memory.verdict;
    out.step = prediction->step;
    out.devices = candidate.plan.layout.world();
    out.plan = std::move(candidate.plan);
    return out;
}

/// The first candidate that fits with room, else the first that fits tightly. With `fastest`,
/// candidates of one size compete by step time.
std::optional<FitChange> chosen(std::vector<FitCandidate> candidates, bool fastest,
                                FitVerdict worst) {
    std::optional<FitChange> best;
    int best_size = 0;
    for (FitCandidate& candidate : candidates) {
        const int size = candidate.size;
        const bool settled = best && best->verdict == FitVerdict::Fits;
        if (settled && (!fastest || size > best_size)) break;
        std::optional<FitChange> change = tried(std::move(candidate));
        if (!change || change->verdict > worst) continue;
        const bool better = !best || change->verdict < best->verdict ||
                            (fastest && size == best_size && change->verdict == best->verdict &&
                             change->step < best->step);
        if (!better) continue;
        best = std::move(change);
        best_size = size;
    }
    return best;
}

}  // namespace

std::vector<FitChange> smallestChanges(const Plan& plan) {
    std::vector<FitChange> out;
    if (!validatePlan(plan).empty()) return out;
    const Result<Prediction> now = predict(plan, PredictMode::ClosedForm, PredictDetail::StepOnly);
    if (!now.ok() || now->memory.verdict == FitVerdict::Fits) return out;
    // A plan that is only tight gets changes that make room, no others.
    const FitVerdict worst =
        now->memory.verdict == FitVerdict::Tight ? FitVerdict::Fits : FitVerdict::Tight;
    for (const EnumName<FitChangeKind>& row : enumNames<FitChangeKind>()) {
        const bool fastest =
            row.value == FitChangeKind::Layout || row.value == FitChangeKind::MoreDevices;
        std::optional<FitChange> change = chosen(fitCandidates(plan, row.value), fastest, worst);
        if (!change) continue;
        change->kind = row.value;
        out.push_back(std::move(*change));
    }
    return out;
}

std::string fitSentence(const std::vector<FitChange>& changes) {
    if (changes.empty()) return "no change of recompute, batch, sharding, off-load or layout fits";
    const FitChange& first = changes.front();
    return fmt::format("smallest change that {}: {} ({} of {}, {} a step)",
                       first.verdict == FitVerdict::Fits ? "fits" : "fits tightly", first.change,
                       humanBytes(first.device_total), humanBytes(first.plan.cluster.device.memory),
                       humanSeconds(first.step));
}

}  // namespace piper
