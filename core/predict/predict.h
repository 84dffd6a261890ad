// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "core/base/evidence.h"
#include "core/base/json_fwd.h"
#include "core/base/result.h"
#include "core/base/units.h"
#include "core/plan/plan.h"
#include "core/resources/memory.h"
#include "core/run/run.h"
#include "core/schedule/simulate.h"

namespace piper {

enum class BottleneckKind {
    A2aLatency,
    A2aBandwidth,
    ExposedComm,
    SkinnyGemm,
    Imbalance,
    Hbm,
    Bubble,
    Placement,
    Compute
};

struct Bottleneck {
    BottleneckKind kind = BottleneckKind::Compute;
    double share_of_step = 0.0;
    Seconds step_without_it;
    std::string sentence;  ///< what it is, its share and the step without it
    std::string remedy;    ///< placement: the setting that ends it, "rank_order=..."
};

enum class FitVerdict { Fits, Tight, DoesNotFit };  ///< Tight: over 90 % of the capacity

struct MemoryPrediction {
    Bytes peak;          ///< of the tensors, on the worst stage
    Bytes device_total;  ///< with what lies outside them: this must fit into the capacity
    StageId peak_stage;
    std::string peak_operation;
    Bytes capacity;
    FitVerdict verdict = FitVerdict::Fits;
    std::vector<StageMemory> stages;
};

/// What the model says of a plan. Ratios 0..1.
struct Prediction {
    Seconds step;
    double tokens_per_second_per_device = 0.0;
    Flops model_flops_per_token;
    FlopsPerSecond flops_per_device;  ///< model FLOPs
    FlopsPerSecond peak_per_device;   ///< the denominator of mfu and hfu
    double mfu = 0.0;
    double hfu = 0.0;
    double bubble_fraction = 0.0;
    Seconds compute;                            ///< mean over stages of a busy compute lane
    std::array<Seconds, kNumPhases> phase{};    ///< mean over stages of one step
    std::array<Seconds, kNumPhases> exposed{};  ///< communication not hidden by compute
    MemoryPrediction memory;
    std::vector<Bottleneck> bottlenecks;       ///< largest share first
    std::map<std::string, Evidence> evidence;  ///< key of the JSON -> evidence
    std::string bottleneck_sentence;
    std::vector<std::string> warnings;      ///< what the numbers do not rest on
    double price_per_million_tokens = 0.0;  ///< in the cluster's currency; 0: price unknown
    double price_per_step = 0.0;
};

/// How exact the step time is: the closed form (microseconds) or the simulated schedule.
enum class PredictMode { ClosedForm, Simulated };

/// The price of a full answer: bottlenecks play the step once for each of their kinds.
enum class PredictDetail { StepOnly, WithEvidence, WithBottlenecks };

/// Errors: RuleBroken lists every violated rule; nothing is predicted for a plan that cannot run.
[[nodiscard]] Result<Prediction> predict(const Plan& plan,
                                         PredictMode mode = PredictMode::Simulated,
                                         PredictDetail detail = PredictDetail::WithBottlenecks);
/// The same of a plan that is known to run, whatever rule of ours it breaks (validate).
[[nodiscard]] Result<Prediction> predictUnchecked(
    const Plan& plan, PredictMode mode = PredictMode::Simulated,
    PredictDetail detail = PredictDetail::WithEvidence);
/// The verdict on memory alone, without any time: what a search prunes with.
[[nodiscard]] MemoryPrediction predictMemory(const Plan& plan);

/// The same plus its timeline.
struct PredictedRun {
    Prediction prediction;
    Run run;
};
[[nodiscard]] Result<PredictedRun> predictRun(const Plan& plan, bool every_rank, int steps = 1);

struct FitChange;  // core/predict/fit.h

/// The document of `piperctl predict --json` (keys of docs/commands.md). `changes`: memory.fix.
[[nodiscard]] Json predictionJson(const Plan& plan, const Prediction& prediction,
                                  const std::vector<FitChange>& changes);
[[nodiscard]] Json predictionJson(const Plan& plan, const Prediction& prediction);

}  // namespace piper
