// SPDX-License-Identifier: Apache-2.0
// Layers over stages, experts over ranks, heads and widths over tensor parallelism.
#include <algorithm>
#include <numeric>

#include "core/plan/layout.h"
#include "core/plan/rules.h"

namespace piper {
namespace {

bool splitsUnevenly(Framework framework) {
    // DeepSpeed's partition_method and torchtitan's generated module names take any split.
    return framework == Framework::DeepSpeed || framework == Framework::Torchtitan;
}

void unevenStages(const Plan& plan, Violations& out) {
    const std::int64_t layers = plan.model.num_layers;
    const std::int64_t pp = plan.layout.pp;
    const std::int64_t vpp = plan.layout.vpp;
    const std::int64_t chunks = pp * vpp;
    std::vector<std::string> fix;
    std::string message;
    if (layers % pp == 0) {
        const std::int64_t each = layers / pp;
        const auto legal = legalNear(
            vpp, each, [&](std::int64_t v) { return each % v == 0; }, 4);
        message = fmt::format(
            "{} layers over pp {} is {} a rank, not divisible by vpp {}; legal "
            "vpp: {}",
            layers, pp, each, vpp, listed(legal));
        fix = settings("vpp", legal);
    } else {
        const auto legal = legalNear(pp, std::max<std::int64_t>(1, layers / vpp),
                                     [&](std::int64_t v) { return layers % (v * vpp) == 0; });
        const std::string over =
            vpp == 1 ? fmt::format("pp {}", pp) : fmt::format("pp {} x vpp {}", pp, vpp);
        message = fmt::format("{} layers over {} leaves {}; legal pp near it: {}", layers, over,
                              layers % chunks, listed(legal));
        fix = settings("pp", legal);
    }
    if (layers >= chunks)
        fix.insert(fix.begin(), "stage_layers=" + slashed(balancedStageLayers(layers, chunks)));
    if (plan.framework == Framework::Megatron && (layers + 2) % chunks == 0)
        fix.push_back(
            fmt::format("account_for_embedding_in_pipeline_split and "
                        "account_for_loss_in_pipeline_split: ({} + 2) / {} = {}",
                        layers, chunks, (layers + 2) / chunks));
    if (plan.framework == Framework::Megatron && layers >= chunks)
        message += fmt::format("; a release that does not check builds {} x {} = {} layers", chunks,
                               layers / pp / vpp, chunks * (layers / pp / vpp));
    out.add("layers_divide_stages", std::move(message), std::move(fix));
}

void givenStages(const Plan& plan, const RuleScope& scope, Violations& out) {
    const std::vector<std::int64_t>& stages = plan.stage_layers;
    const std::int64_t chunks = plan.layout.pp * plan.layout.vpp;
    const std::int64_t given = std::accumulate(stages.begin(), stages.end(), std::int64_t{0});
    const std::int64_t layers = scope.num_layers ? plan.model.num_layers : given;
    const auto size = static_cast<std::int64_t>(stages.size());
    const std::string balanced =
        layers >= chunks && chunks <= 4096
            ? "stage_layers=" + slashed(balancedStageLayers(layers, chunks))
            : "";
    std::vector<std::string> fix;
    if (!balanced.empty()) fix.push_back(balanced);
    if (size != chunks)
        out.add("stage_layers_count",
                fmt::format("stage_layers has {} entries, pp {} x vpp {} = {} stage chunks", size,
                            plan.layout.pp, plan.layout.vpp, chunks),
                fix);
    const bool predicts = plan.model.mtp_num_layers > 0 && predictionHasOwnChunk(stages);
    for (std::size_t i = 0; i < stages.size(); ++i) {
        // Under Megatron-LM the first chunk may hold only the embedding, the last only the loss,
        // the one before it only multi-token prediction layers.
        const bool end = i == 0 || i + 1 == stages.size() || (predicts && i + 2 == stages.size());
        if (stages[i] >= (end && plan.framework == Framework::Megatron ? 0 : 1)) continue;
        out.add("empty_stage",
                fmt::format("stage_layers[{}] is {}: a stage chunk without a layer", i, stages[i]),
                fix);
    }
    if (given == layers) return;
    out.add("stage_layers_sum",
            given < layers
                ? fmt::format("stage_layers add up to {}, the model has {}: {} layers are lost",
                              given, layers, layers - given)
                : fmt::format("stage_layers add up to {}, the model has only {}", given, layers),
            fix);
}

void divides(Violations& out, std::string rule, std::string_view what, std::int64_t number,
             std::string_view key, std::int64_t degree) {
    if (number % degree == 0) return;
    const auto legal = legalNear(degree, number, [&](std::int64_t v) { return number % v == 0; });
    out.add(std::move(rule),
            fmt::format("{} {} over {} {} leaves {}; legal {} near it: {}", number, what, key,
                        degree, number % degree, key, listed(legal)),
            settings(key, legal));
}

void attentionRules(const Plan& plan, const RuleScope& scope, Violations& out) {
    const AttentionSpec& a = plan.model.attention;
    const std::int64_t tp = plan.layout.tp;
    if (scope.heads) divides(out, "heads_divide_tp", "attention heads", a.num_heads, "tp", tp);
    if (!scope.kv_heads || a.kind != AttentionKind::Gqa) return;
    if (scope.heads && a.num_heads % a.num_kv_heads != 0)
        out.add(
            "heads_divide_kv_heads",
            fmt::format("{} attention heads over {} key-value heads leaves {}: every group "
                        "needs as many heads",
                        a.num_heads, a.num_kv_heads, a.num_heads % a.num_kv_heads),
            settings("num_kv_heads", legalNear(a.num_kv_heads, a.num_heads, [&](std::int64_t v) {
                         return a.num_heads % v == 0;
                     })));
    if (scope.heads && a.num_heads % tp != 0) return;
    // Megatron-LM from 0.16 lets several ranks hold the same key-value head.
    if (plan.framework == Framework::Megatron && tp % a.num_kv_heads == 0) return;
    divides(out, "kv_heads_divide_tp", "key-value heads", a.num_kv_heads, "tp", tp);
}

void routerRules(const Plan& plan, const RuleScope& scope, Violations& out) {
    const MoeSpec& moe = *plan.model.moe;
    if (scope.top_k && moe.router_topk > moe.num_experts)
        out.add("topk_within_experts",
                fmt::format("router_topk {} of {} experts", moe.router_topk, moe.num_experts),
                {fmt::format("router_topk={}", moe.num_experts)});
    if (!scope.groups || moe.num_groups == 1) return;
    divides(out, "experts_divide_groups", "experts", moe.num_experts, "num_groups", moe.num_groups);
    if (moe.topk_groups > moe.num_groups)
        out.add("topk_groups_within_groups",
                fmt::format("topk_groups {} of {} groups", moe.topk_groups, moe.num_groups),
                {fmt::format("topk_groups={}", moe.num_groups)});
    else if (scope.top_k && moe.router_topk > moe.topk_groups * (moe.num_experts / moe.num_groups))
        out.add("topk_within_groups",
                fmt::format("router_topk {} from {} groups of {} experts", moe.router_topk,
                            moe.topk_groups, moe.num_experts / moe.num_groups),
                {"topk_groups=" + std::to_string(moe.num_groups)});
}

/// What a framework asks of the sequence: torchtitan's seq_len_divisor is tp x 2 cp at any cp.
void sequenceRules(const Plan& plan, Violations& out) {
    const Layout& l = plan.layout;
    const auto next = [&](std::int64_t step) {
        return settings("seq_len", {plan.seq_len / step * step + step});
    };
    if (plan.framework == Framework::Torchtitan) {
        const std::int64_t step = l.tp * 2 * l.cp;
        if (plan.seq_len % step != 0)
            out.add(l.cp > 1 ? "seq_len_divides_cp" : "seq_len_divides_tp",
                    fmt::format("seq_len {} over tp {} x 2 x cp {} = {} leaves {}", plan.seq_len,
                                l.tp, l.cp, step, plan.seq_len % step),
                    next(step));
        return;
    }
    // Context parallelism balances the causal triangle with two slices a rank.
    const std::int64_t slices = l.cp > 1 ? 2 * l.cp : 1;
    if (plan.seq_len % slices != 0) {
        out.add("seq_len_divides_cp",
                fmt::format("seq_len {} over 2 x cp {} = {} slices leaves {}", plan.seq_len, l.cp,
                            slices, plan.seq_len % slices),
                next(slices));
    } else if (l.sp && (plan.seq_len / l.cp) % l.tp != 0) {
        std::vector<std::string> fix = next(std::lcm(slices, l.cp * l.tp));
        fix.emplace_back("sp=0");
        out.add("seq_len_divides_tp",
                fmt::format("{} tokens of a sequence on a cp rank over tp {} leaves {} under "
                            "sequence parallelism",
                            plan.seq_len / l.cp, l.tp, (plan.seq_len / l.cp) % l.tp),
                std::move(fix));
    }
}

}  // namespace

void layerRules(const Plan& plan, const RuleScope& scope, Violations& out) {
    // Without a model the split given is the model's: only its number of chunks can be wrong.
    if (!plan.stage_layers.empty()) return givenStages(plan, scope, out);
    if (!scope.num_layers || scope.split_judged) return;
    const std::int64_t chunks = plan.layout.pp * plan.layout.vpp;
    const std::int64_t layers = plan.model.num_layers;
    if (layers % chunks == 0) return;
    if (splitsUnevenly(plan.framework) && layers >= chunks) return;
    unevenStages(plan, out);
}

void expertRules(const Plan& plan, const RuleScope& scope, Violations& out) {
    const Layout& l = plan.layout;
    if (!scope.moe) return;
    if (!plan.model.moe) {
        if (l.ep > 1)
            out.add("ep_needs_experts",
                    fmt::format("ep {} for a dense model: there are no experts to spread", l.ep),
                    {"ep=1"});
        return;
    }
    const MoeSpec& moe = *plan.model.moe;
    if (l.ep > moe.num_experts)
        out.add("experts_divide_ep",
                fmt::format("{} experts over ep {}: {} ranks are left without an expert; ep is at "
                            "most num_experts",
                            moe.num_experts, l.ep, l.ep - moe.num_experts),
                settings("ep", legalNear(l.ep, moe.num_experts, [&](std::int64_t v) {
                             return moe.num_experts % v == 0;
                         })));
    else
        divides(out, "experts_divide_ep", "experts", moe.num_experts, "ep", l.ep);
    routerRules(plan, scope, out);
    if (plan.framework == Framework::Megatron && l.tp > 1 && !l.sp)
        out.add("sequence_parallel",
                fmt::format("megatron trains MoE with tp {} only under sequence parallelism", l.tp),
                {"sp=1", "tp=1"});
}

void sizeRules(const Plan& plan, const RuleScope& scope, Violations& out) {
    const Layout& l = plan.layout;
    attentionRules(plan, scope, out);
    if (scope.expert_width && plan.model.moe)
        divides(out, "expert_width_divides_etp", "(moe_ffn_hidden_size)",
                plan.model.moe->moe_ffn_hidden_size, "etp", l.etp);
    if (scope.dense_width && plan.model.ffn_hidden_size > 0)
        divides(out, "width_divides_tp", "(ffn_hidden_size)", plan.model.ffn_hidden_size, "tp",
                l.tp);
    if (scope.shared_width && plan.model.moe && plan.model.moe->shared_ffn_hidden_size > 0)
        divides(out, "width_divides_tp", "(shared_ffn_hidden_size)",
                plan.model.moe->shared_ffn_hidden_size, "tp", l.tp);
    if (scope.seq_len) sequenceRules(plan, out);
}

}  // namespace piper
