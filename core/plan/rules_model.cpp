// SPDX-License-Identifier: Apache-2.0
// Layers over stages, experts over ranks, heads and widths over tensor parallelism.
#include <algorithm>
#include <numeric>

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
    for (std::size_t i = 0; i < stages.size(); ++i) {
        // Under Megatron-LM the first chunk may hold only the embedding, the last only the loss.
        const bool end = i == 0 || i + 1 == stages.size();
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

void attentionRules(const Plan& plan, Violations& out) {
    const AttentionSpec& a = plan.model.attention;
    const std::int64_t tp = plan.layout.tp;
    divides(out, "heads_divide_tp", "attention heads", a.num_heads, "tp", tp);
    if (a.kind == AttentionKind::Gqa && a.num_heads % tp == 0)
        divides(out, "kv_heads_divide_tp", "key-value heads", a.num_kv_heads, "tp", tp);
}

}  // namespace

void layerRules(const Plan& plan, const RuleScope& scope, Violations& out) {
    // Without a model the split given is the model's: only its number of chunks can be wrong.
    if (!plan.stage_layers.empty()) return givenStages(plan, scope, out);
    if (!scope.num_layers) return;
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
    divides(out, "experts_divide_ep", "experts", moe.num_experts, "ep", l.ep);
    if (plan.framework == Framework::Megatron && l.tp > 1 && !l.sp)
        out.add("sequence_parallel",
                fmt::format("megatron trains MoE with tp {} only under sequence parallelism", l.tp),
                {"sp=1", "tp=1"});
}

void sizeRules(const Plan& plan, const RuleScope& scope, Violations& out) {
    const Layout& l = plan.layout;
    if (scope.sizes) {
        attentionRules(plan, out);
        if (plan.model.moe)
            divides(out, "expert_width_divides_etp", "(moe_ffn_hidden_size)",
                    plan.model.moe->moe_ffn_hidden_size, "etp", l.etp);
        if (plan.model.ffn_hidden_size > 0)
            divides(out, "width_divides_tp", "(ffn_hidden_size)", plan.model.ffn_hidden_size, "tp",
                    l.tp);
        if (plan.model.moe && plan.model.moe->shared_ffn_hidden_size > 0)
            divides(out, "width_divides_tp", "(shared_ffn_hidden_size)",
                    plan.model.moe->shared_ffn_hidden_size, "tp", l.tp);
    }
    if (!scope.seq_len) return;
    // Context parallelism balances the causal triangle with two slices a rank.
    const std::int64_t slices = l.cp > 1 ? 2 * l.cp : 1;
    if (plan.seq_len % slices != 0)
        out.add("seq_len_divides_cp",
                fmt::format("seq_len {} over 2 x cp {} = {} slices leaves {}", plan.seq_len, l.cp,
                            slices, plan.seq_len % slices),
                settings("seq_len", {plan.seq_len / slices * slices + slices}));
    else if (l.sp && (plan.seq_len / l.cp) % l.tp != 0)
        out.add("seq_len_divides_tp",
                fmt::format("{} tokens of a sequence on a cp rank over tp {} leaves {} under "
                            "sequence parallelism",
                            plan.seq_len / l.cp, l.tp, (plan.seq_len / l.cp) % l.tp),
                {"sp=0"});
}

}  // namespace piper
