// SPDX-License-Identifier: Apache-2.0
#include "core/plan/own_worker.h"

#include <algorithm>
#include <map>

#include "core/plan/placement.h"
#include "core/plan/rules.h"

namespace piper {
namespace {

using Parts = std::vector<std::string>;

void degree(Parts& parts, const char* name, std::int64_t value) {
    if (value != 1)
        parts.push_back(fmt::format("{} {}: the CPU worker runs {} 1 only", name, value, name));
}

/// A size that a degree must divide.
void divides(Parts& parts, const char* name, std::int64_t size, const char* degree_name,
             std::int64_t by) {
    if (size % by != 0)
        parts.push_back(
            fmt::format("{} {} over {} {}: the CPU worker pads nothing; {} must divide "
                        "it",
                        name, size, degree_name, by, degree_name));
}

void addTensorParallel(Parts& parts, const Plan& plan) {
    const Layout& layout = plan.layout;
    const ModelSpec& model = plan.model;
    const std::int64_t tp = layout.tp;
    if (tp > 1) {
        divides(parts, "num_heads", model.attention.num_heads, "tp", tp);
        if (model.attention.kind == AttentionKind::Gqa)
            divides(parts, "num_kv_heads", model.attention.num_kv_heads, "tp", tp);
        divides(parts, "vocab_size", model.vocab_size, "tp", tp);
        divides(parts, "ffn_hidden_size", model.ffn_hidden_size, "tp", tp);
        if (model.moe)
            divides(parts, "shared_ffn_hidden_size", model.moe->shared_ffn_hidden_size, "tp", tp);
        if (layout.sp)
            divides(parts, "tokens of a micro-batch", plan.tokensPerMicroBatch(), "tp", tp);
        if (model.attention.qk_norm_full)
            parts.push_back(
                fmt::format("tp {}: the norm runs over the queries of all heads "
                            "(qk_norm_full); set tp 1",
                            tp));
    }
    if (tp > 1 && !layout.sp && model.moe)
        parts.push_back(
            fmt::format("tp {} without sp: the CPU worker routes each token on one "
                        "rank; set sp",
                        tp));
    if (layout.etp > 1 && model.moe) {
        divides(parts, "moe_ffn_hidden_size", model.moe->moe_ffn_hidden_size, "etp", layout.etp);
        if (layout.etp != tp)
            parts.push_back(
                fmt::format("etp {} beside tp {}: the CPU worker splits experts over "
                            "the tp ranks or not at all; set etp {} or 1",
                            layout.etp, tp, tp));
        if (model.mlp_bias)
            parts.push_back(fmt::format("mlp_bias with etp {}: set etp 1", layout.etp));
    }
}

void addRecompute(Parts& parts, const Recompute& recompute) {
    if (recompute.granularity == RecomputeGranularity::Full &&
        recompute.method == RecomputeMethod::Uniform && recompute.num_layers > 1)
        parts.push_back(
            fmt::format("recompute uniform of {} layers: the CPU worker keeps the input "
                        "of every layer; set num_layers 1 or method block",
                        recompute.num_layers));
    if (recompute.granularity != RecomputeGranularity::Selective) return;
    for (const std::string& module : recompute.modules)
        if (module == "op")
            parts.push_back(
                "recompute module op: the CPU worker makes whole modules again; name "
                "moe_act, layernorm, core_attn, mla_up_proj, mlp, shared_experts or moe");
}

void addLayout(Parts& parts, const Plan& plan) {
    degree(parts, "cp", plan.layout.cp);
    addTensorParallel(parts, plan);
    if (plan.zero_stage > 1)
        parts.push_back(
            fmt::format("zero_stage {}: the CPU worker shards the optimizer state only; "
                        "set zero_stage 1 or 0",
                        plan.zero_stage));
    if (plan.offload != Offload{false, plan.offload.fraction})
        parts.push_back("offload: a CPU worker has no device memory to offload from");
    if (plan.precision != Precision::Fp32)
        parts.push_back(fmt::format("precision {}: the CPU worker computes in fp32; set fp32",
                                    toText(plan.precision)));
    addRecompute(parts, plan.recompute);
    if (plan.optimizer != OptimizerChoice{})
        parts.push_back("optimizer: the CPU worker runs AdamW with fp32 state; leave it out");
    if (!plan.fused_attention)
        parts.push_back("fused_attention false: the CPU worker never keeps the scores");
}

void addModel(Parts& parts, const Plan& plan) {
    const ModelSpec& model = plan.model;
    const AttentionSpec& attention = model.attention;
    if (model.vocab_size < kByteVocabulary)
        parts.push_back(
            fmt::format("vocab_size {}: the CPU worker trains on bytes, which have {} "
                        "values",
                        model.vocab_size, kByteVocabulary));
    if (model.position == PositionKind::Learned && plan.seq_len > model.max_position_embeddings)
        parts.push_back(
            fmt::format("seq_len {}: the model learns {} positions "
                        "(max_position_embeddings)",
                        plan.seq_len, model.max_position_embeddings));
    const bool latent = attention.kind == AttentionKind::Mla;
    if (latent && (attention.qk_norm || attention.qkv_bias))
        parts.push_back(
            "attention mla with qk_norm or qkv_bias: the CPU worker norms the "
            "compressed states only");
    if (latent && model.position != PositionKind::Rotary)
        parts.push_back("attention mla without rotary positions");
    const std::int64_t turned = latent ? attention.qk_rope_head_dim : attention.head_dim;
    if (model.position == PositionKind::Rotary && turned % 2 != 0)
        parts.push_back(
            fmt::format("head_dim {}: rotary embedding turns pairs of elements", turned));
    if (model.dropout > 0.0)
        parts.push_back(fmt::format("dropout {}: the CPU worker drops nothing", model.dropout));
    if (model.mtp_num_layers > 0)
        parts.push_back(fmt::format("mtp_num_layers {}: the CPU worker predicts one token",
                                    model.mtp_num_layers));
}

/// Experts on each node of one group of ep ranks, fewest first, as the plan's cluster places them;
/// of the group on most nodes. Empty for a plan that breaks other rules.
std::vector<std::int64_t> expertsOfNodes(const Plan& plan,
                                         const std::vector<std::int64_t>& owners) {
    const GroupAxes axes = groupAxes(plan.layout, plan.rank_order, "ep");
    const std::int64_t stride = axes.axes[0].stride, ep = plan.layout.ep;
    const bool sound = std::ranges::all_of(owners, [&](auto o) { return o >= 0 && o < ep; });
    std::vector<std::int64_t> widest;
    if ((ep > 1 && axes.count == 0) || !sound || plan.cluster.devices_per_node < 1) return widest;
    for (std::int64_t first = 0; first < plan.layout.world(); ++first) {
        if (first / stride % ep != 0) continue;
        std::map<std::int64_t, std::int64_t> held;
        for (const std::int64_t owner : owners)
            ++held[(first + owner * stride) / plan.cluster.devices_per_node];
        if (held.size() <= widest.size()) continue;
        widest.clear();
        for (const auto& [node, experts] : held) widest.push_back(experts);
    }
    std::ranges::sort(widest);
    return widest;
}

/// A limit that reaches every node is none (MoeBlock::routerShape).
void addNodeLimit(Parts& parts, const Plan& plan, const std::vector<std::int64_t>& owners) {
    const MoeSpec& moe = *plan.model.moe;
    const std::int64_t limit = plan.all_to_all.node_limit;
    if (limit <= 0) return;
    const std::vector<std::int64_t> nodes = expertsOfNodes(plan, owners);
    if (limit >= std::ssize(nodes)) return;
    if (moe.num_groups > 1 && moe.topk_groups < moe.num_groups)
        parts.push_back(
            fmt::format("all_to_all.node_limit {} with a router limited to {} of {} "
                        "groups: both may leave fewer experts than top-{}; set "
                        "node_limit 0",
                        limit, moe.topk_groups, moe.num_groups, moe.router_topk));
    std::int64_t fewest = 0;
    for (std::int64_t n = 0; n < limit; ++n) fewest += nodes[static_cast<std::size_t>(n)];
    if (fewest < moe.router_topk)
        parts.push_back(
            fmt::format("all_to_all.node_limit {}: {} nodes may hold {} experts only, "
                        "top-{} wants more",
                        limit, limit, fewest, moe.router_topk));
}

void addMoe(Parts& parts, const Plan& plan) {
    if (!plan.model.moe) return;
    const MoeSpec& moe = *plan.model.moe;
    if (moe.shared_gate && plan.model.mlp_bias)
        parts.push_back("mlp_bias with shared_gate: the CPU worker gates a product without bias");
    if (plan.all_to_all.algorithm == AllToAllAlgorithm::NodeDedup &&
        (plan.layout.etp > 1 || plan.capacity_factor))
        parts.push_back(
            "all_to_all.algorithm node_dedup: not with etp above 1 or a capacity_factor; set node");
    const std::vector<std::int64_t> owners = expertOwners(plan);
    for (std::int64_t rank = 0; rank < plan.layout.ep; ++rank) {
        const auto held = std::count(owners.begin(), owners.end(), rank);
        if (held * plan.layout.ep == moe.num_experts) continue;
        parts.push_back(
            fmt::format("expert_placement gives ep rank {} {} of {} experts; the CPU "
                        "worker needs the same number on each of {} ranks",
                        rank, held, moe.num_experts, plan.layout.ep));
        break;
    }
    addNodeLimit(parts, plan, owners);
}

}  // namespace

std::vector<std::int64_t> expertOwners(const Plan& plan) {
    if (!plan.expert_placement.empty() || !plan.model.moe) return plan.expert_placement;
    std::vector<std::int64_t> owners;
    const std::int64_t experts = plan.model.moe->num_experts;
    for (std::int64_t e = 0; e < experts; ++e) owners.push_back(e * plan.layout.ep / experts);
    return owners;
}

std::vector<std::string> unsupportedParts(const Plan& plan) {
    Parts parts;
    addLayout(parts, plan);
    addModel(parts, plan);
    addMoe(parts, plan);
    return parts;
}

void ownWorkerRules(const Plan& plan, const RuleScope& scope, Violations& out) {
    if (plan.framework != Framework::Plain || !scope.cluster || !scope.moe) return;
    if (plan.cluster.device.kind != DeviceKind::Cpu) return;
    for (std::string& part : unsupportedParts(plan)) out.add("own_worker", std::move(part));
}

}  // namespace piper
