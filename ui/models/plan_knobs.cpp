// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/plan_knobs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace piper::ui {
namespace {

using Count = std::int64_t;

constexpr KnobInfo kKnobs[] = {
    {Knob::NumExperts, "num_experts", "Experts", "per layer", "Routed experts of one MoE layer.",
     [](const Plan& p) { return p.model.moe ? p.model.moe->num_experts : Count{0}; },
     [](Plan& p, Count v) {
         if (!p.model.moe) return;
         p.model.moe->num_experts = v;
         p.expert_placement.clear();
         p.routing_load.histogram.clear();
         if (p.routing_load.kind == RoutingLoadKind::Histogram)
             p.routing_load.kind = RoutingLoadKind::Uniform;
     }},
    {Knob::RouterTopk, "router_topk", "Top-k", "per token", "Routed experts each token is sent to.",
     [](const Plan& p) { return p.model.moe ? p.model.moe->router_topk : Count{0}; },
     [](Plan& p, Count v) {
         if (p.model.moe) p.model.moe->router_topk = v;
     }},
    {Knob::Tp, "tp", "TP", "ranks", "Tensor parallel: each matrix is cut over this many ranks.",
     [](const Plan& p) { return p.layout.tp; }, [](Plan& p, Count v) { p.layout.tp = v; }},
    {Knob::Pp, "pp", "PP", "stages", "Pipeline parallel: layers are cut into this many stages.",
     [](const Plan& p) { return p.layout.pp; },
     [](Plan& p, Count v) {
         p.layout.pp = v;
         p.stage_layers.clear();
     }},
    {Knob::Ep, "ep", "EP", "ranks",
     "Expert parallel: the experts of a layer are spread over this many ranks.",
     [](const Plan& p) { return p.layout.ep; }, [](Plan& p, Count v) { p.layout.ep = v; }},
    {Knob::Dp, "dp", "DP", "replicas", "Data parallel: replicas of the dense part of the model.",
     [](const Plan& p) { return p.layout.dp; }, [](Plan& p, Count v) { p.layout.dp = v; }},
    {Knob::MicroBatch, "micro_batch_size", "Micro-batch", "sequences",
     "Sequences one replica runs through the pipeline at a time.",
     [](const Plan& p) { return p.micro_batch_size; },
     [](Plan& p, Count v) { p.micro_batch_size = v; }},
    {Knob::GlobalBatch, "global_batch_size", "Global batch", "sequences",
     "Sequences of one optimizer step, all replicas together.",
     [](const Plan& p) { return p.global_batch_size; },
     [](Plan& p, Count v) { p.global_batch_size = v; }},
    {Knob::SeqLen, "seq_len", "Sequence", "tokens", "Tokens of one sequence.",
     [](const Plan& p) { return p.seq_len; }, [](Plan& p, Count v) { p.seq_len = v; }},
};

bool isDegree(Knob knob) {
    return knob == Knob::Tp || knob == Knob::Pp;
}

/// dp that keeps the world of `before` as far as it can: the largest with which the expert grid
/// still divides.
void followWorld(Plan& plan, Count world) {
    Layout& l = plan.layout;
    const Count rest = l.tp * l.cp * l.pp;
    const Count most = std::max<Count>(1, world / rest);
    for (Count dp = most; dp >= 1; --dp) {
        l.dp = dp;
        const bool expert_grid = (l.tp * l.cp * dp) % (l.ep * l.etp) == 0;
        const bool batch = plan.global_batch_size % (plan.micro_batch_size * dp) == 0;
        if (expert_grid && batch) return;
    }
    l.dp = most;
}

void apply(Plan& plan, const KnobInfo& info, Count value) {
    const Count world = plan.layout.world();
    const bool etp_follows_tp = info.knob == Knob::Tp && plan.framework == Framework::Megatron &&
                                plan.layout.etp == plan.layout.tp;
    info.set(plan, value);
    if (etp_follows_tp) plan.layout.etp = value;
    if (isDegree(info.knob)) followWorld(plan, world);
}

/// Values worth offering: all of a short range; of a long one the powers of two, their thirds and
/// what is there now.
std::vector<Count> candidates(const Plan& plan, Knob knob) {
    Count most = 0;
    switch (knob) {
        case Knob::NumExperts:
            most = plan.model.moe ? 512 : 0;
            break;
        case Knob::RouterTopk:
            most = plan.model.moe ? std::min<Count>(plan.model.moe->num_experts, 32) : 0;
            break;
        case Knob::Tp:
            most = std::min<Count>(plan.cluster.numDevices(), plan.model.attention.num_heads);
            break;
        case Knob::Pp:
            most = std::min<Count>(plan.cluster.numDevices(), plan.model.num_layers);
            break;
        case Knob::Ep:
            most = plan.model.moe
                       ? std::min<Count>(plan.cluster.numDevices(), plan.model.moe->num_experts)
                       : 1;
            break;
        case Knob::Dp:
            most = std::min<Count>(plan.cluster.numDevices(), plan.global_batch_size);
            break;
        case Knob::MicroBatch:
            most = std::min<Count>(plan.global_batch_size, 64);
            break;
        case Knob::GlobalBatch:
            most = std::max<Count>(4096, 2 * plan.global_batch_size);
            break;
        case Knob::SeqLen:
            most = std::max<Count>(131072, plan.seq_len);
            break;
    }
    std::vector<Count> out;
    const bool sparse = knob == Knob::GlobalBatch || knob == Knob::SeqLen;
    const Count first = knob == Knob::SeqLen ? 128 : 1;
    if (!sparse)
        for (Count v = 1; v <= std::min<Count>(most, 64); ++v) out.push_back(v);
    for (Count p = first; p <= most; p *= 2) {
        out.push_back(p);
        if (p % 2 == 0 && p / 2 * 3 <= most) out.push_back(p / 2 * 3);
        if (p % 4 == 0 && !sparse) {
            if (p / 4 * 5 <= most) out.push_back(p / 4 * 5);
            if (p / 4 * 7 <= most) out.push_back(p / 4 * 7);
        }
    }
    out.push_back(knobInfo(knob).get(plan));
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    std::erase_if(out, [](Count v) { return v < 1; });
    return out;
}

/// Only what the rules read: measured curves are long and not looked at.
Plan forRules(const Plan& plan) {
    Plan out = plan;
    out.cluster.curves = {};
    return out;
}

}  // namespace

std::span<const KnobInfo> knobTable() {
    return kKnobs;
}

const KnobInfo& knobInfo(Knob knob) {
    return kKnobs[static_cast<std::size_t>(knob)];
}

Plan withKnob(const Plan& plan, Knob knob, Count value) {
    Plan out = plan;
    apply(out, knobInfo(knob), value);
    return out;
}

std::vector<Count> legalValues(const Plan& plan, Knob knob) {
    const Plan base = forRules(plan);
    std::vector<Count> legal;
    for (const Count value : candidates(base, knob)) {
        Plan changed = base;
        apply(changed, knobInfo(knob), value);
        if (validatePlan(changed).empty()) legal.push_back(value);
    }
    return legal;
}

std::string explainIllegal(const Plan& plan, Knob knob, Count value) {
    const KnobInfo& info = knobInfo(knob);
    if (value < 1) return fmt::format("{} {} is below 1", info.key, value);
    Plan changed = forRules(plan);
    apply(changed, info, value);
    const std::vector<Violation> broken = validatePlan(changed);
    if (broken.empty()) return {};
    std::string out = fmt::format("{} {}: {}", info.key, value, broken.front().message);
    if (broken.size() > 1) out += fmt::format(" (and {} more)", broken.size() - 1);
    return out;
}

Count nearestLegal(std::span<const Count> legal, Count value) {
    if (legal.empty()) return value;
    const auto distance = [&](Count v) {
        return std::abs(std::log(static_cast<double>(std::max<Count>(v, 1))) -
                        std::log(static_cast<double>(std::max<Count>(value, 1))));
    };
    return *std::min_element(legal.begin(), legal.end(),
                             [&](Count a, Count b) { return distance(a) < distance(b); });
}

}  // namespace piper::ui
