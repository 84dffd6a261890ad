// SPDX-License-Identifier: Apache-2.0
// Concept: a step is a sum of priced operations, so its range is the sum of theirs; what follows
// from the step (rates, shares) has the step's relative range; what follows from shapes alone
// (FLOPs, weights) is exact, and activations have the range that published peaks lie in.
#include "core/predict/prediction_evidence.h"

#include <algorithm>

#include "core/resources/traffic.h"

namespace piper {
namespace {

/// Published allocator peaks against the sum of tensors: what a framework keeps longer or frees
/// sooner than the formulas say (docs/formulas.md, "Memory").
constexpr double kActivationLow = 0.85, kActivationHigh = 1.15;

Evidence exact(double value) {
    return {EvidenceKind::Published, value, value, false};
}

class Collector {
public:
    Collector(Prediction& out, const Cost& step) : m_out(out), m_step(step) {
        const double t = step.time.value;
        m_low = t > 0.0 && step.evidence.low > 0.0 ? step.evidence.low / t : 1.0;
        m_high = t > 0.0 && step.evidence.high > 0.0 ? step.evidence.high / t : 1.0;
    }

    void put(const std::string& key, Evidence evidence) { m_out.evidence[key] = evidence; }
    /// Grows with the step time.
    void time(const std::string& key, double value) { step(key, value * m_low, value * m_high); }
    /// Falls with it.
    void rate(const std::string& key, double value) { step(key, value / m_high, value / m_low); }
    /// A share of the step: 0..1.
    void share(const std::string& key, double value) {
        step(key, std::clamp(value * m_low / m_high, 0.0, 1.0),
             std::clamp(value * m_high / m_low, 0.0, 1.0));
    }

private:
    void step(const std::string& key, double low, double high) {
        put(key, {m_step.evidence.kind, low, high, m_step.evidence.extrapolated});
    }

    Prediction& m_out;
    const Cost& m_step;
    double m_low = 1.0, m_high = 1.0;
};

Evidence memoryEvidence(double persistent, double rest) {
    return {EvidenceKind::Published, persistent + rest * kActivationLow,
            persistent + rest * kActivationHigh, false};
}

Evidence stageEvidence(const StageMemory& stage, double value) {
    double persistent = 0.0;
    for (std::size_t t = 0; t < kNumMemoryTerms; ++t)
        if (isPersistent(static_cast<MemoryTerm>(t))) persistent += stage.at_peak[t].value;
    persistent = std::min(persistent, value);
    return memoryEvidence(persistent, value - persistent);
}

void addMemory(Collector& out, const Prediction& p, const Plan& plan) {
    const MemoryPrediction& memory = p.memory;
    Evidence capacity = plan.cluster.device.evidence;
    if (capacity.low == 0.0 && capacity.high == 0.0)
        capacity.low = capacity.high = memory.capacity.value;
    out.put("memory.capacity_bytes", capacity);
    for (const StageMemory& stage : memory.stages) {
        const std::string key = fmt::format("memory.stages.{}.", stage.stage.value);
        out.put(key + "peak_bytes", stageEvidence(stage, stage.peak.value));
        out.put(key + "device_bytes", stageEvidence(stage, stage.device_total.value));
        out.put(key + "persistent_bytes", exact(stage.persistent.value));
        out.put(key + "per_micro_batch_bytes", memoryEvidence(0.0, stage.per_micro_batch.value));
        out.put(key + "transient_bytes", memoryEvidence(0.0, stage.transient.value));
        if (stage.stage != memory.peak_stage) continue;
        out.put("memory.peak_bytes", stageEvidence(stage, stage.peak.value));
        out.put("memory.device_bytes", stageEvidence(stage, memory.device_total.value));
        for (std::size_t t = 0; t < kNumMemoryTerms; ++t) {
            const auto term = static_cast<MemoryTerm>(t);
            const double bytes = stage.at_peak[t].value;
            if (bytes == 0.0) continue;
            const bool lives = isPersistent(term);
            out.put(fmt::format("memory.terms.{}", toText(term)),
                    memoryEvidence(lives ? bytes : 0.0, lives ? 0.0 : bytes));
        }
    }
}

void addPhases(Collector& out, const Prediction& p, const std::array<Cost, kNumPhases>& phases) {
    for (std::size_t i = 0; i < kNumPhases; ++i) {
        const auto phase = static_cast<Phase>(i);
        const std::string name(toText(phase));
        const double t = phases[i].time.value;
        if (t <= 0.0 || phase == Phase::Idle) {
            // Nothing of the kind runs; what a stage waits follows from the step.
            out.time("phase_seconds." + name, p.phase[i].value);
            out.time("exposed_seconds." + name, p.exposed[i].value);
            continue;
        }
        // A run takes longer than its operations by themselves (host, clock): the range too.
        const auto scaled = [&](double value) {
            Evidence evidence = phases[i].evidence;
            evidence.low *= value / t;
            evidence.high *= value / t;
            return evidence;
        };
        out.put("phase_seconds." + name, scaled(p.phase[i].value));
        out.put("exposed_seconds." + name, scaled(p.exposed[i].value));
    }
}

void addWarnings(Prediction& out, const Plan& plan, const std::array<Cost, kNumPhases>& phases) {
    std::string outside, assumed;
    for (std::size_t i = 0; i < kNumPhases; ++i) {
        if (phases[i].time.value <= 0.0) continue;
        const std::string_view name = toText(static_cast<Phase>(i));
        const auto append = [&](std::string& list) {
            list += fmt::format("{}{} ({:.0f} % of the step)", list.empty() ? "" : ", ", name,
                                100.0 * phases[i].time.value / out.step.value);
        };
        if (phases[i].evidence.extrapolated) append(outside);
        if (phases[i].evidence.kind == EvidenceKind::Assumed) append(assumed);
    }
    if (!outside.empty())
        out.warnings.push_back(
            "extrapolated: shapes or messages outside the measured or published range in " +
            outside);
    if (!assumed.empty())
        out.warnings.push_back(fmt::format(
            "assumed: nothing is measured or published for {} in {}; calibrate the cluster",
            plan.cluster.device.name, assumed));
}

/// Nothing for a plan whose expert grid does not fill its world: it has no groups to follow.
void addTraffic(Collector& to, const Plan& plan) {
    const Layout& l = plan.layout;
    if (l.world() != l.edp() * l.pp * l.ep * l.etp) return;
    const TokenTraffic traffic = tokenTraffic(plan);
    for (const auto& [key, bytes] :
         {std::pair("dispatch", traffic.dispatch), std::pair("combine", traffic.combine),
          std::pair("between_nodes", traffic.between_nodes),
          std::pair("stage_boundary", traffic.stage_boundary)})
        to.put(fmt::format("traffic_bytes_per_token.{}", key), exact(bytes.value));
}

}  // namespace

void addEvidence(Prediction& out, const Plan& plan, const std::array<Cost, kNumPhases>& phases) {
    Cost sum;
    for (const Cost& phase : phases) sum = sum + phase;
    Collector to(out, sum);
    to.time("step_seconds", out.step.value);
    for (const auto& [key, value] :
         {std::pair("mfu", out.mfu), std::pair("hfu", out.hfu),
          std::pair("tokens_per_second_per_device", out.tokens_per_second_per_device),
          std::pair("tflops_per_device", inTflops(out.flops_per_device))})
        to.rate(key, value);
    to.share("bubble_fraction", out.bubble_fraction);
    to.put("model_flops_per_token", exact(out.model_flops_per_token.value));
    Evidence peak = plan.cluster.device.evidence;
    if (peak.low == 0.0 && peak.high == 0.0) peak.low = peak.high = inTflops(out.peak_per_device);
    to.put("peak_tflops_per_device", peak);
    if (out.price_per_step > 0.0) {
        to.time("price_per_step", out.price_per_step);
        to.time("price_per_million_tokens", out.price_per_million_tokens);
    }
    addTraffic(to, plan);
    addPhases(to, out, phases);
    addMemory(to, out, plan);
    for (const Bottleneck& b : out.bottlenecks) {
        const std::string key = fmt::format("bottlenecks.{}.", toText(b.kind));
        to.share(key + "share_of_step", b.share_of_step);
        to.time(key + "step_seconds_without_it", b.step_without_it.value);
    }
    addWarnings(out, plan, phases);
}

}  // namespace piper
