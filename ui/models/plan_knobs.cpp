// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/plan_knobs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/plan/pipeline_shape.h"
#include "core/search/model_family.h"

namespace piper::ui {
namespace {

using Count = std::int64_t;

void setLayers(Plan& plan, Count layers) {
    Result<ModelSpec> model = familyMember(plan.model, GrowBy::Layers, layers);
    plan.stage_layers.clear();
    if (!model.ok()) {
        plan.model.num_layers = layers;  // the rules say what is wrong with it
        return;
    }
    model->name = plan.model.name;
    if (plan.routing_load.histogram.size() > 1) plan.routing_load = {};
    plan.model = std::move(model).value();
}

/// Chunks ask for a schedule that has them.
void setChunksPerStage(Plan& plan, Count chunks) {
    plan.layout.vpp = chunks;
    plan.stage_layers.clear();
    if (placementOf(plan.schedule) == ChunkPlacement::V) return;
    if (chunks > 1) plan.schedule = ScheduleKind::InterleavedOneF1B;
    if (chunks == 1 && plan.schedule == ScheduleKind::InterleavedOneF1B)
        plan.schedule = ScheduleKind::OneF1B;
}

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
    {Knob::ExpertWidth, "moe_ffn_hidden_size", "Expert width", "columns",
     "Inner width of one expert's feed-forward.",
     [](const Plan& p) { return p.model.moe ? p.model.moe->moe_ffn_hidden_size : Count{0}; },
     [](Plan& p, Count v) {
         if (p.model.moe) p.model.moe->moe_ffn_hidden_size = v;
     }},
    {Knob::Layers, "num_layers", "Layers", "of the model",
     "Transformer layers; the leading dense ones stay, the pattern after them goes on.",
     [](const Plan& p) { return p.model.num_layers; }, setLayers},
    {Knob::Tp, "tp", "TP", "ranks", "Tensor parallel: each matrix is cut over this many ranks.",
     [](const Plan& p) { return p.layout.tp; }, [](Plan& p, Count v) { p.layout.tp = v; }},
    {Knob::Cp, "cp", "CP", "ranks", "Context parallel: a sequence is cut over this many ranks.",
     [](const Plan& p) { return p.layout.cp; }, [](Plan& p, Count v) { p.layout.cp = v; }},
    {Knob::Pp, "pp", "PP", "stages", "Pipeline parallel: layers are cut into this many stages.",
     [](const Plan& p) { return p.layout.pp; },
     [](Plan& p, Count v) {
         p.layout.pp = v;
         p.stage_layers.clear();
     }},
    {Knob::Vpp, "vpp", "VPP", "chunks", "Model chunks a stage: more make the bubble smaller.",
     [](const Plan& p) { return p.layout.vpp; }, setChunksPerStage},
    {Knob::Ep, "ep", "EP", "ranks",
     "Expert parallel: the experts of a layer are spread over this many ranks.",
     [](const Plan& p) { return p.layout.ep; }, [](Plan& p, Count v) { p.layout.ep = v; }},
    {Knob::Etp, "etp", "ETP", "ranks",
     "Expert tensor parallel: ranks that share one expert's matrices.",
     [](const Plan& p) { return p.layout.etp; }, [](Plan& p, Count v) { p.layout.etp = v; }},
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
    {Knob::Chunks, "chunks", "Overlap", "chunks",
     "Slices of a micro-batch's tokens whose exchange runs beside the experts of another slice.",
     [](const Plan& p) { return p.all_to_all.chunks; },
     [](Plan& p, Count v) { p.all_to_all.chunks = v; }},
};

bool isDegree(Knob knob) {
    return knob == Knob::Tp || knob == Knob::Pp || knob == Knob::Cp;
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
    if (info.knob == Knob::Tp && (value == 1 || plan.layout.tp == 1)) plan.layout.sp = value > 1;
    info.set(plan, value);
    if (etp_follows_tp) plan.layout.etp = value;
    if (isDegree(info.knob)) followWorld(plan, world);
}

/// The largest value worth trying; the rules decide below it.
Count mostOf(const Plan& plan, Knob knob) {
    const Count devices = plan.cluster.numDevices();
    const Count experts = plan.model.moe ? plan.model.moe->num_experts : 0;
    switch (knob) {
        case Knob::NumExperts:
            return plan.model.moe ? 512 : 0;
        case Knob::RouterTopk:
            return std::min<Count>(experts, 32);
        case Knob::ExpertWidth:
            return plan.model.moe ? 32768 : 0;
        case Knob::Layers:
            return std::max<Count>(128, plan.model.num_layers);
        case Knob::Tp:
            return std::min<Count>(devices, plan.model.attention.num_heads);
        case Knob::Cp:
            return std::min<Count>(devices, plan.seq_len);
        case Knob::Pp:
            return std::min<Count>(devices, plan.model.num_layers);
        case Knob::Vpp:
            return std::max<Count>(1, plan.model.num_layers / plan.layout.pp);
        case Knob::Ep:
            return plan.model.moe ? std::min<Count>(devices, experts) : 1;
        case Knob::Etp:
            return plan.model.moe ? std::min<Count>(devices, plan.cluster.devices_per_node) : 1;
        case Knob::Dp:
            return std::min<Count>(devices, plan.global_batch_size);
        case Knob::MicroBatch:
            return std::min<Count>(plan.global_batch_size, 64);
        case Knob::GlobalBatch:
            return std::max<Count>(4096, 2 * plan.global_batch_size);
        case Knob::SeqLen:
            return std::max<Count>(131072, plan.seq_len);
        case Knob::Chunks:
            return plan.layout.ep > 1 ? 16 : 1;
    }
    return 0;
}

/// Values worth offering: all of a short range; of a long one the powers of two, their thirds and
/// what is there now.
std::vector<Count> candidates(const Plan& plan, Knob knob) {
    const Count most = mostOf(plan, knob);
    std::vector<Count> out;
    const bool wide = knob == Knob::SeqLen || knob == Knob::ExpertWidth;
    const bool sparse = wide || knob == Knob::GlobalBatch;
    const Count first = wide ? 128 : 1;
    if (!sparse)
        for (Count v = 1; v <= std::min<Count>(most, knob == Knob::Layers ? most : 64); ++v)
            out.push_back(v);
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
