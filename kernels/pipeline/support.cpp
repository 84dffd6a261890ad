// SPDX-License-Identifier: Apache-2.0
#include "kernels/pipeline/support.h"

#include <algorithm>

namespace piper {
namespace {

using Parts = std::vector<std::string>;

void degree(Parts& parts, const char* name, std::int64_t value) {
    if (value != 1)
        parts.push_back(fmt::format("{} {}: the CPU worker runs {} 1 only", name, value, name));
}

void addLayout(Parts& parts, const Plan& plan) {
    const Layout& layout = plan.layout;
    degree(parts, "tp", layout.tp);
    degree(parts, "cp", layout.cp);
    degree(parts, "etp", layout.etp);
    if (plan.zero_stage != 0)
        parts.push_back(
            fmt::format("zero_stage {}: the CPU worker keeps whole optimizer states; "
                        "set zero_stage 0",
                        plan.zero_stage));
    if (plan.offload != Offload{false, plan.offload.fraction})
        parts.push_back("offload: a CPU worker has no device memory to offload from");
    if (plan.precision != Precision::Fp32)
        parts.push_back(fmt::format("precision {}: the CPU worker computes in fp32; set fp32",
                                    toText(plan.precision)));
    if (plan.recompute.granularity != RecomputeGranularity::None)
        parts.push_back("recompute: the CPU worker keeps every activation; set recompute to none");
    if (plan.optimizer != OptimizerChoice{})
        parts.push_back("optimizer: the CPU worker runs AdamW with fp32 state; leave it out");
    if (!plan.fused_attention)
        parts.push_back("fused_attention false: the CPU worker never keeps the scores");
    if (plan.all_to_all.node_limit > 0)
        parts.push_back(fmt::format("all_to_all.node_limit {}: tokens go to any node; set 0",
                                    plan.all_to_all.node_limit));
}

void addModel(Parts& parts, const ModelSpec& model) {
    const AttentionSpec& attention = model.attention;
    if (attention.kind == AttentionKind::Mla)
        parts.push_back("attention mla: the CPU worker runs grouped-query attention only");
    else if (attention.head_dim % 2 != 0)
        parts.push_back(fmt::format("head_dim {}: rotary embedding turns pairs of elements",
                                    attention.head_dim));
    if (attention.qkv_bias || attention.output_bias)
        parts.push_back("attention bias: the CPU worker's projections have none");
    if (model.tie_word_embeddings)
        parts.push_back("tie_word_embeddings: the CPU worker keeps a head of its own");
    if (attention.sliding_window > 0 && !attention.full_attention_layers.empty())
        parts.push_back("full_attention_layers: the CPU worker gives every layer the same window");
    if (model.norm != NormKind::RmsNorm)
        parts.push_back(fmt::format("norm {}: the CPU worker runs rms_norm", toText(model.norm)));
    if (model.position != PositionKind::Rotary)
        parts.push_back(fmt::format("position {}: the CPU worker turns queries and keys (rotary)",
                                    toText(model.position)));
    if (model.mlp_bias) parts.push_back("mlp_bias: the CPU worker's MLPs have none");
    if (model.dropout > 0.0)
        parts.push_back(fmt::format("dropout {}: the CPU worker drops nothing", model.dropout));
    if (model.mtp_num_layers > 0)
        parts.push_back(fmt::format("mtp_num_layers {}: the CPU worker predicts one token",
                                    model.mtp_num_layers));
}

void addMoe(Parts& parts, const Plan& plan) {
    if (!plan.model.moe) return;
    const MoeSpec& moe = *plan.model.moe;
    if (plan.capacity_factor)
        parts.push_back(
            fmt::format("capacity_factor {}: the CPU worker drops no token; leave it "
                        "out",
                        *plan.capacity_factor));
    if (moe.num_groups > 1)
        parts.push_back(
            fmt::format("num_groups {}: the CPU worker's router chooses among all "
                        "experts",
                        moe.num_groups));
    if (moe.expert_bias_routing)
        parts.push_back("expert_bias_routing: the CPU worker's router has no correction bias");
    if (moe.shared_gate)
        parts.push_back("shared_gate: the CPU worker adds shared experts without a gate");
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
    addModel(parts, plan.model);
    addMoe(parts, plan);
    return parts;
}

Status canRun(const Plan& plan) {
    const Parts parts = unsupportedParts(plan);
    if (parts.empty()) return {};
    std::string all;
    for (const std::string& part : parts) all += (all.empty() ? "" : "; ") + part;
    return fail(ErrorCode::Unsupported, "the CPU worker does not run this plan: {}", all);
}

}  // namespace piper
