// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "core/base/json.h"
#include "core/predict/predict.h"

namespace piper {
namespace {

/// JSON has no NaN and no infinity: what is not a number is null.
Json number(double value) {
    return std::isfinite(value) ? Json(value) : Json(nullptr);
}

Json secondsByPhase(const std::array<Seconds, kNumPhases>& phases) {
    Json out = Json::object();
    for (std::size_t p = 0; p < kNumPhases; ++p)
        out[std::string(toText(static_cast<Phase>(p)))] = number(phases[p].value);
    return out;
}

Json bytesByTerm(const std::array<Bytes, kNumMemoryTerms>& terms) {
    Json out = Json::object();
    for (std::size_t t = 0; t < kNumMemoryTerms; ++t)
        if (terms[t].value != 0.0)
            out[std::string(toText(static_cast<MemoryTerm>(t)))] =
                number(std::round(terms[t].value));
    return out;
}

Json stageJson(const StageMemory& stage) {
    Json out;
    out["stage"] = stage.stage.value;
    out["peak_bytes"] = number(stage.peak.value);
    out["device_bytes"] = number(stage.device_total.value);
    out["peak_moment"] = std::string(stage.peak_moment);
    out["persistent_bytes"] = number(stage.persistent.value);
    out["per_micro_batch_bytes"] = number(stage.per_micro_batch.value);
    out["transient_bytes"] = number(stage.transient.value);
    out["in_flight"] = stage.in_flight;
    out["terms"] = bytesByTerm(stage.at_peak);
    return out;
}

Json memoryJson(const MemoryPrediction& memory) {
    Json out;
    out["peak_bytes"] = number(memory.peak.value);
    out["device_bytes"] = number(memory.device_total.value);
    out["peak_stage"] = memory.peak_stage.value;
    out["peak_operation"] = memory.peak_operation;
    out["capacity_bytes"] = number(memory.capacity.value);
    out["verdict"] = toText(memory.verdict);
    out["terms"] = Json::object();
    out["stages"] = Json::array();
    for (const StageMemory& stage : memory.stages) {
        out["stages"].push_back(stageJson(stage));
        if (stage.stage == memory.peak_stage) out["terms"] = bytesByTerm(stage.at_peak);
    }
    return out;
}

Json evidenceJson(const Evidence& evidence) {
    Json out;
    out["kind"] = toText(evidence.kind);
    out["low"] = number(evidence.low);
    out["high"] = number(evidence.high);
    out["extrapolated"] = evidence.extrapolated;
    return out;
}

}  // namespace

Json predictionJson(const Plan& plan, const Prediction& p) {
    Json out;
    out["format_version"] = 1;
    out["step_seconds"] = number(p.step.value);
    out["tokens_per_second_per_device"] = number(p.tokens_per_second_per_device);
    out["model_flops_per_token"] = number(p.model_flops_per_token.value);
    out["tflops_per_device"] = number(inTflops(p.flops_per_device));
    out["peak_tflops_per_device"] = number(inTflops(p.peak_per_device));
    out["devices"] = plan.layout.world();
    out["mfu"] = number(p.mfu);
    out["hfu"] = number(p.hfu);
    out["bubble_fraction"] = number(p.bubble_fraction);
    out["phase_seconds"] = secondsByPhase(p.phase);
    out["exposed_seconds"] = secondsByPhase(p.exposed);
    out["memory"] = memoryJson(p.memory);
    out["bottlenecks"] = Json::array();
    for (const Bottleneck& b : p.bottlenecks)
        out["bottlenecks"].push_back(
            {{"kind", toText(b.kind)},
             {"share_of_step", number(b.share_of_step)},
             {"step_seconds_without_it", number(b.step_without_it.value)}});
    out["bottleneck_sentence"] = p.bottleneck_sentence;
    out["evidence"] = Json::object();
    for (const auto& [key, evidence] : p.evidence) out["evidence"][key] = evidenceJson(evidence);
    return out;
}

}  // namespace piper
