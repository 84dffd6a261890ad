// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "core/base/json.h"
#include "core/model/flop_conventions.h"
#include "core/predict/fit.h"
#include "core/predict/predict.h"
#include "core/resources/traffic.h"

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

std::string_view lifetimeText(Lifetime lifetime) {
    switch (lifetime) {
        case Lifetime::Persistent:
            return "persistent";
        case Lifetime::PerMicroBatch:
            return "micro_batch";
        case Lifetime::PerOperation:
            return "operation";
    }
    return "persistent";
}

/// The table of terms: each line's bytes are of one copy.
Json entriesJson(const StageMemory& stage) {
    Json out = Json::array();
    for (const MemoryEntry& e : stage.entries)
        out.push_back({{"name", std::string(e.name)},
                       {"term", toText(e.term)},
                       {"bytes", number(std::round(e.bytes.value))},
                       {"lifetime", lifetimeText(e.lifetime)},
                       {"formula", e.formula()}});
    return out;
}

Json flopsJson(const Plan& plan) {
    const FlopConvention& convention = flopConventions().front();
    Json out = {{"convention", std::string(convention.name)}, {"terms", Json::array()}};
    for (const FlopTerm& term : flopTable(plan.model, plan.seq_len, convention).terms)
        out["terms"].push_back({{"name", std::string(term.name)},
                                {"forward_flops_per_token", number(term.forward.value)},
                                {"passes", term.passes},
                                {"formula", term.formula}});
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
        if (stage.stage != memory.peak_stage) continue;
        out["terms"] = bytesByTerm(stage.at_peak);
        out["entries"] = entriesJson(stage);
    }
    return out;
}

Json fixJson(const FitChange& change) {
    return {{"kind", toText(change.kind)},       {"change", change.change},
            {"settings", Json(change.settings)}, {"peak_bytes", number(change.peak.value)},
            {"verdict", toText(change.verdict)}, {"step_seconds", number(change.step.value)},
            {"devices", change.devices}};
}

/// What one token makes a rank send in a step's forward pass, summed over the model's layers.
Json trafficJson(const Plan& plan) {
    const TokenTraffic t = tokenTraffic(plan);
    return {{"dispatch", number(t.dispatch.value)},
            {"combine", number(t.combine.value)},
            {"between_nodes", number(t.between_nodes.value)},
            {"stage_boundary", number(t.stage_boundary.value)}};
}

Json evidenceJson(const Evidence& evidence) {
    Json out;
    out["kind"] = toText(evidence.kind);
    out["low"] = number(evidence.low);
    out["high"] = number(evidence.high);
    out["extrapolated"] = evidence.extrapolated;
    return out;
}

/// Ranges of a changed plan are those of the plan itself, scaled.
void fixEvidence(const Prediction& p, const FitChange& change, Json& out) {
    const auto scaled = [&](const std::string& key, const char* like, double value, double was) {
        const auto found = p.evidence.find(like);
        if (found == p.evidence.end() || was <= 0.0) return;
        Evidence evidence = found->second;
        evidence.low *= value / was;
        evidence.high *= value / was;
        out[fmt::format("memory.fix.{}.{}", toText(change.kind), key)] = evidenceJson(evidence);
    };
    scaled("step_seconds", "step_seconds", change.step.value, p.step.value);
    scaled("peak_bytes", "memory.peak_bytes", change.peak.value, p.memory.peak.value);
    scaled("device_bytes", "memory.device_bytes", change.device_total.value,
           p.memory.device_total.value);
}

}  // namespace

Json predictionJson(const Plan& plan, const Prediction& p) {
    return predictionJson(plan, p, {});
}

Json predictionJson(const Plan& plan, const Prediction& p, const std::vector<FitChange>& changes) {
    Json out;
    out["format_version"] = 1;
    out["step_seconds"] = number(p.step.value);
    out["tokens_per_second_per_device"] = number(p.tokens_per_second_per_device);
    out["model_flops_per_token"] = number(p.model_flops_per_token.value);
    out["flops"] = flopsJson(plan);
    out["tflops_per_device"] = number(inTflops(p.flops_per_device));
    out["peak_tflops_per_device"] = number(inTflops(p.peak_per_device));
    out["devices"] = plan.layout.world();
    out["mfu"] = number(p.mfu);
    out["hfu"] = number(p.hfu);
    out["bubble_fraction"] = number(p.bubble_fraction);
    out["phase_seconds"] = secondsByPhase(p.phase);
    out["exposed_seconds"] = secondsByPhase(p.exposed);
    out["memory"] = memoryJson(p.memory);
    out["memory"]["fix"] = Json::array();
    for (const FitChange& change : changes) out["memory"]["fix"].push_back(fixJson(change));
    out["traffic_bytes_per_token"] = trafficJson(plan);
    if (p.price_per_step > 0.0) {
        out["price_per_step"] = number(p.price_per_step);
        out["price_per_million_tokens"] = number(p.price_per_million_tokens);
    }
    out["bottlenecks"] = Json::array();
    for (const Bottleneck& b : p.bottlenecks)
        out["bottlenecks"].push_back({{"kind", toText(b.kind)},
                                      {"share_of_step", number(b.share_of_step)},
                                      {"step_seconds_without_it", number(b.step_without_it.value)},
                                      {"sentence", b.sentence},
                                      {"remedy", b.remedy}});
    out["bottleneck_sentence"] = p.bottleneck_sentence;
    out["warnings"] = Json(p.warnings);
    out["evidence"] = Json::object();
    for (const auto& [key, evidence] : p.evidence) out["evidence"][key] = evidenceJson(evidence);
    for (const FitChange& change : changes) fixEvidence(p, change, out["evidence"]);
    return out;
}

}  // namespace piper
