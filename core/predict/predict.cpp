// SPDX-License-Identifier: Apache-2.0
#include "core/predict/predict.h"

#include <algorithm>

#include "core/plan/validated.h"
#include "core/predict/bottlenecks.h"
#include "core/predict/prediction_evidence.h"

namespace piper {
namespace {

constexpr double kTight = 0.9;

Seconds meanSeconds(const StepEstimate& step, const auto& value_of) {
    double sum = 0.0;
    for (const StageEstimate& stage : step.stages) sum += static_cast<double>(value_of(stage));
    return nanoseconds(sum / static_cast<double>(step.stages.size()));
}

void setVerdict(MemoryPrediction& memory) {
    for (const StageMemory& stage : memory.stages)
        if (!memory.peak_stage.valid() || stage.peak > memory.peak) {
            memory.peak = stage.peak;
            memory.device_total = stage.device_total;
            memory.peak_stage = stage.stage;
            memory.peak_operation = stage.peak_moment;
        }
    const Bytes total = memory.device_total;
    memory.verdict = total > memory.capacity            ? FitVerdict::DoesNotFit
                     : total > memory.capacity * kTight ? FitVerdict::Tight
                                                        : FitVerdict::Fits;
}

/// The table's stages with the peaks of the schedule's own order.
MemoryPrediction memoryOf(const Plan& plan, const StepEstimate& step) {
    MemoryPrediction memory;
    memory.stages = stageMemory(plan);
    memory.capacity = plan.cluster.device.memory;
    for (StageMemory& stage : memory.stages) {
        const StageEstimate& estimate = step.stages[stage.stage.index()];
        stage.peak = estimate.peak;
        stage.device_total = deviceReserve(plan).total(stage.peak);
        stage.at_peak = estimate.at_peak;
    }
    setVerdict(memory);
    const Operation& worst = step.stages[memory.peak_stage.index()].peak_operation;
    memory.peak_operation = worst.id >= 0 ? describe(worst) : "what lives from start to end";
    return memory;
}

void setTimes(Prediction& out, const StepEstimate& step) {
    out.step = nanoseconds(static_cast<double>(step.step_ns));
    out.bubble_fraction = step.bubble_fraction;
    out.compute = meanSeconds(step, [](const StageEstimate& s) { return s.busy_compute_ns; });
    for (std::size_t p = 0; p < kNumPhases; ++p) {
        out.phase[p] = meanSeconds(step, [p](const StageEstimate& s) { return s.phase_ns[p]; });
        out.exposed[p] = meanSeconds(step, [p](const StageEstimate& s) { return s.exposed_ns[p]; });
    }
    out.phase[static_cast<std::size_t>(Phase::Idle)] = out.step * step.bubble_fraction;
}

void setRates(Prediction& out, const Plan& plan, const StepEstimate& step, FlopsPerSecond peak) {
    const double devices = static_cast<double>(plan.layout.world());
    const double tokens = static_cast<double>(plan.global_batch_size * plan.seq_len);
    out.model_flops_per_token = modelFlopsPerToken(plan.model, plan.seq_len).total();
    const Flops model = out.model_flops_per_token * tokens;
    Flops again;
    for (const StageEstimate& stage : step.stages)
        again += stage.recompute_flops * (devices / static_cast<double>(step.stages.size()));
    const Seconds device_time = out.step * devices;
    out.tokens_per_second_per_device = tokens / device_time.value;
    out.flops_per_device = model / device_time;
    out.peak_per_device = peak;
    out.mfu = out.flops_per_device / peak;
    out.hfu = ((model + again) / device_time) / peak;
}

/// Devices of the whole plan are paid for, whether they work or wait.
void setPrice(Prediction& out, const Plan& plan) {
    const double hour = plan.cluster.price_per_device_hour;
    if (hour <= 0.0) return;
    const double tokens = static_cast<double>(plan.global_batch_size * plan.seq_len);
    out.price_per_step = hour * static_cast<double>(plan.layout.world()) * out.step.value / 3600.0;
    out.price_per_million_tokens = out.price_per_step / tokens * 1e6;
}

Result<Seconds> exposedPipeline(const StepEstimate& step, const PlayStep& play) {
    PIPER_ASSIGN(const StepEstimate without,
                 play([](const Operation& op, const OperationWork&, const Cost& now) {
                     return op.key.phase == Phase::PpComm ? Seconds() : now.time;
                 }));
    return nanoseconds(
        static_cast<double>(std::max<std::int64_t>(0, step.step_ns - without.step_ns)));
}

}  // namespace

MemoryPrediction predictMemory(const Plan& plan) {
    MemoryPrediction memory;
    memory.stages = stageMemory(plan);
    memory.capacity = plan.cluster.device.memory;
    setVerdict(memory);
    return memory;
}

Result<Prediction> predict(const Plan& plan, PredictMode mode, PredictDetail detail) {
    PIPER_TRY(validated(plan));
    return predictUnchecked(plan, mode, detail);
}

Result<Prediction> predictUnchecked(const Plan& plan, PredictMode mode, PredictDetail detail) {
    PIPER_ASSIGN(const FlopsPerSecond peak, plan.cluster.device.peakFor(plan.precision));
    const CostModel cost(plan);
    PIPER_ASSIGN(const StepModel model, StepModel::make(plan, cost));
    const PlayStep play = [&](const StepModel::Adjust& adjust) -> Result<StepEstimate> {
        if (mode == PredictMode::ClosedForm) return model.closedForm(adjust);
        return model.estimate(adjust);
    };
    PIPER_ASSIGN(const StepEstimate step, play({}));
    if (step.step_ns <= 0)
        return fail(ErrorCode::InvalidInput,
                    "the cost model gives a step of 0 ns: the cluster's rates are not finite");
    Prediction out;
    setTimes(out, step);
    setRates(out, plan, step, peak);
    setPrice(out, plan);
    out.memory = memoryOf(plan, step);
    if (detail == PredictDetail::StepOnly) return out;
    if (detail == PredictDetail::WithEvidence) {
        addEvidence(out, plan, model.phaseCosts());
        return out;
    }
    PIPER_ASSIGN(out.exposed[static_cast<std::size_t>(Phase::PpComm)], exposedPipeline(step, play));
    PIPER_ASSIGN(out.bottlenecks, findBottlenecks(plan, cost, step, play));
    out.bottleneck_sentence = bottleneckSentence(out.bottlenecks);
    addEvidence(out, plan, model.phaseCosts());
    return out;
}

Result<PredictedRun> predictRun(const Plan& plan, bool every_rank, int steps) {
    PIPER_ASSIGN(Prediction prediction, predict(plan));
    PIPER_ASSIGN(const Schedule schedule, buildSchedule(plan));
    const CostModel cost(plan);
    PIPER_ASSIGN(const Simulation simulation, simulate(plan, schedule, cost));
    return PredictedRun{std::move(prediction),
                        simulatedRun(plan, schedule, simulation, every_rank, steps)};
}

}  // namespace piper
