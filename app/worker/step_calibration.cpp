// SPDX-License-Identifier: Apache-2.0
#include "app/worker/step_calibration.h"

#include <cmath>
#include <map>

#include "app/worker/small_training.h"
#include "core/base/sample.h"
#include "core/cost/cost.h"
#include "core/resources/work.h"

namespace piper {
namespace {

constexpr std::int64_t kWarmUpSteps = 2;

struct OperationName {
    Phase phase;
    OperationKind kind;
    auto operator<=>(const OperationName&) const = default;
};
struct TwoTimes {
    double measured = 0.0, expected = 0.0;
};
/// One shape's operations in each measured step: seconds they took, and seconds by the curves.
using StepSeconds = std::map<OperationName, std::vector<TwoTimes>>;

bool isLocal(const OperationWork& work) {
    return !work.communication &&
           (!work.gemms.empty() || work.attention || work.memory_traffic.value > 0.0);
}

StepSeconds secondsByStep(const Plan& plan, const RankTimeline& rank, std::int64_t steps) {
    const CostModel cost(plan);
    StepSeconds out;
    for (const Event& e : rank.events) {
        if (e.step < kWarmUpSteps) continue;
        const OperationWork work =
            operationWork(plan, {e.kind, e.phase, e.pass, LayerKind::Moe, false}, StageId(0));
        if (!isLocal(work)) continue;
        double modelled = cost.operation(work, e.phase).time.value;
        // The experts' rows are those that were routed.
        if (e.flops > 0.0 && work.flops().value > 0.0) modelled *= e.flops / work.flops().value;
        std::vector<TwoTimes>& of_steps = out[{e.phase, e.kind}];
        of_steps.resize(static_cast<std::size_t>(steps));
        TwoTimes& step = of_steps[static_cast<std::size_t>(e.step - kWarmUpSteps)];
        const std::int64_t ns = e.cpu_ns >= 0 ? e.cpu_ns : e.duration_ns;
        step.measured += 1e-9 * static_cast<double>(ns);
        step.expected += modelled;
    }
    return out;
}

double medianRatio(const std::vector<TwoTimes>& steps) {
    std::vector<double> ratios;
    for (const TwoTimes& step : steps)
        if (step.expected > 0.0 && step.measured > 0.0)
            ratios.push_back(step.measured / step.expected);
    return ratios.empty() ? 1.0 : median(std::move(ratios));
}

Result<StepSeconds> trainShape(Transport& transport, const ClusterSpec& cluster,
                               const SmallShape& shape, std::int64_t steps) {
    const Plan plan = replicas(cluster, shape);
    MemoryRecorder recorder;
    PIPER_TRY(trainReplicas(transport, plan, recorder, kWarmUpSteps + steps));
    return secondsByStep(plan, recorder.timeline(), steps);
}

}  // namespace

Result<std::vector<OperationPoint>> calibrateSteps(Transport& transport, const ClusterSpec& cluster,
                                                   bool quick) {
    std::vector<SmallShape> shapes{{224, 14, 320, 160}};
    if (!quick) shapes.push_back({384, 6, 384, 128});
    std::map<OperationName, std::vector<double>> ratios;
    for (const SmallShape& shape : shapes) {
        PIPER_ASSIGN(const StepSeconds seconds,
                     trainShape(transport, cluster, shape, quick ? 4 : 8));
        for (const auto& [name, times] : seconds) ratios[name].push_back(medianRatio(times));
    }
    std::vector<OperationPoint> out;
    for (const auto& [name, of_shapes] : ratios) {
        double logs = 0.0;
        for (const double r : of_shapes) logs += std::log(r);
        out.push_back({std::string(toText(name.phase)), std::string(toText(name.kind)),
                       std::exp(logs / static_cast<double>(of_shapes.size()))});
    }
    return out;
}

}  // namespace piper
