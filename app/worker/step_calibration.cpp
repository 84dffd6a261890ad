// SPDX-License-Identifier: Apache-2.0
#include "app/worker/step_calibration.h"

#include <cmath>
#include <map>
#include <numeric>

#include "app/worker/small_training.h"
#include "core/base/sample.h"
#include "core/cost/cost.h"
#include "core/resources/work.h"

namespace piper {
namespace {

constexpr std::int64_t kWarmUpSteps = 2, kSteps = 6;

struct OperationName {
    Phase phase;
    OperationKind kind;
    auto operator<=>(const OperationName&) const = default;
};
struct TwoTimes {
    double measured = 0.0, expected = 0.0;
};
/// Ratios of a shape's operations, one for each step they were measured in.
using StepRatios = std::map<OperationName, std::vector<double>>;

bool isLocal(const OperationWork& work) {
    return !work.communication &&
           (!work.gemms.empty() || work.attention || work.memory_traffic.value > 0.0);
}

void addRatios(const Plan& plan, const RankTimeline& rank, StepRatios& out) {
    const CostModel cost(plan);
    std::map<std::pair<OperationName, std::int32_t>, TwoTimes> steps;
    for (const Event& e : rank.events) {
        if (e.step < kWarmUpSteps) continue;
        const OperationWork work =
            operationWork(plan, {e.kind, e.phase, e.pass, LayerKind::Moe, false}, StageId(0));
        if (!isLocal(work)) continue;
        double modelled = cost.operation(work, e.phase).time.value;
        // The experts' rows are those that were routed.
        if (e.flops > 0.0 && work.flops().value > 0.0) modelled *= e.flops / work.flops().value;
        TwoTimes& step = steps[{{e.phase, e.kind}, e.step}];
        const std::int64_t ns = e.cpu_ns >= 0 ? e.cpu_ns : e.duration_ns;
        step.measured += 1e-9 * static_cast<double>(ns);
        step.expected += modelled;
    }
    for (const auto& [name, step] : steps)
        if (step.expected > 0.0 && step.measured > 0.0)
            out[name.first].push_back(step.measured / step.expected);
}

}  // namespace

Status StepCalibration::record(Transport& transport, bool quick) {
    std::vector<SmallShape> shapes{{224, 14, 320, 160}};
    if (!quick) shapes.push_back({384, 6, 384, 128});
    for (const SmallShape& shape : shapes) {
        ClusterSpec cluster;
        cluster.devices_per_node = transport.world().size();
        MemoryRecorder recorder;
        PIPER_TRY(
            trainReplicas(transport, replicas(cluster, shape), recorder, kWarmUpSteps + kSteps));
        m_recorded.push_back({shape, std::move(recorder.timeline())});
    }
    return {};
}

std::vector<OperationPoint> StepCalibration::points(const ClusterSpec& cluster) const {
    std::map<SmallShape, StepRatios> of_shapes;
    for (const Recorded& r : m_recorded)
        addRatios(replicas(cluster, r.shape), r.rank, of_shapes[r.shape]);
    std::map<OperationName, std::vector<double>> logs;
    for (const auto& [shape, ratios] : of_shapes)
        for (const auto& [name, steps] : ratios) logs[name].push_back(std::log(median(steps)));
    std::vector<OperationPoint> out;
    for (const auto& [name, of_shape] : logs) {
        const double sum = std::accumulate(of_shape.begin(), of_shape.end(), 0.0);
        out.push_back({std::string(toText(name.phase)), std::string(toText(name.kind)),
                       std::exp(sum / static_cast<double>(of_shape.size()))});
    }
    return out;
}

}  // namespace piper
