// SPDX-License-Identifier: Apache-2.0
#include "app/worker/step_calibration.h"

#include <chrono>
#include <cmath>
#include <map>

#include "core/base/sample.h"
#include "core/cost/cost.h"
#include "core/resources/work.h"
#include "core/schedule/schedule.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/ops/counter_random.h"
#include "kernels/pipeline/training.h"

namespace piper {
namespace {

constexpr std::int64_t kWarmUpSteps = 2;

struct Shape {
    std::int64_t hidden = 0, heads = 0, ffn = 0, seq_len = 0;
};

Plan referencePlan(const ClusterSpec& cluster, const Shape& shape) {
    Plan plan;
    ModelSpec& model = plan.model;
    model.name = "calibration";
    model.model_type = "piper";
    model.hidden_size = shape.hidden;
    model.num_layers = 3;
    model.layers.assign(3, LayerKind::Moe);
    model.vocab_size = ByteDataset::kVocabSize;
    model.max_position_embeddings = shape.seq_len;
    model.attention.num_heads = shape.heads;
    model.attention.num_kv_heads = shape.heads / 2;
    model.attention.head_dim = shape.hidden / shape.heads;
    model.moe.emplace();
    model.moe->num_experts = 8;
    model.moe->router_topk = 2;
    model.moe->moe_ffn_hidden_size = shape.ffn;
    plan.cluster = cluster;
    plan.layout.dp = cluster.devices_per_node;
    plan.precision = Precision::Fp32;
    plan.micro_batch_size = 2;
    plan.global_batch_size = 4 * plan.layout.dp;
    plan.seq_len = shape.seq_len;
    return plan;
}

/// Text of an alphabet in which some letters are rare, so that routing is neither even nor fixed.
Result<ByteDataset> someText(std::int64_t seq_len) {
    std::vector<std::uint8_t> bytes(1 << 16);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        const std::uint64_t dice = mixBits(i);
        bytes[i] = static_cast<std::uint8_t>('a' + (dice & 31 & (dice >> 8)));
    }
    return ByteDataset::fromBytes(std::move(bytes), seq_len, 1);
}

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

Result<StepSeconds> trainShape(Transport& transport, const ClusterSpec& cluster, const Shape& shape,
                               std::int64_t steps) {
    const Plan plan = referencePlan(cluster, shape);
    PIPER_ASSIGN(const Schedule schedule, buildSchedule(plan));
    PIPER_ASSIGN(const ByteDataset data, someText(plan.seq_len));
    TaggedAllocator allocator(hostMemory(), std::nullopt);
    PIPER_ASSIGN(const std::unique_ptr<Backend> backend, makeCpuBackend(allocator));
    MemoryRecorder recorder;
    ProgramRunner::Hooks hooks;
    hooks.clock = [] {
        return std::chrono::duration_cast<std::chrono::nanoseconds>(
                   std::chrono::steady_clock::now().time_since_epoch())
            .count();
    };
    TrainingOptions options;
    options.steps = kWarmUpSteps + steps;
    PIPER_TRY(train({plan, schedule, transport, *backend, recorder, data, hooks, {}}, options));
    return secondsByStep(plan, recorder.timeline(), steps);
}

}  // namespace

Result<std::vector<OperationPoint>> calibrateSteps(Transport& transport, const ClusterSpec& cluster,
                                                   bool quick) {
    std::vector<Shape> shapes{{224, 14, 320, 160}};
    if (!quick) shapes.push_back({384, 6, 384, 128});
    std::map<OperationName, std::vector<double>> ratios;
    for (const Shape& shape : shapes) {
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
