// SPDX-License-Identifier: Apache-2.0
// What a framework does without a word: not forbidden, but worth knowing before the run.
#include <algorithm>

#include "core/plan/rules.h"

namespace piper {
namespace {

constexpr std::int64_t kVocabMultiple = 128;  ///< Megatron-LM make_vocab_size_divisible_by

std::int64_t roundedUp(std::int64_t value, std::int64_t step) {
    return (value + step - 1) / step * step;
}

void expertTensorDefault(const Plan& plan, const RuleScope& scope, Violations& out) {
    const Layout& l = plan.layout;
    if (l.tp == 1 || l.ep == 1 || !scope.etp_origin.starts_with("default")) return;
    out.add("etp_default",
            fmt::format("etp was not given: megatron takes tp {}, so the expert grid is etp {} x "
                        "ep {} x pp {} = {} ranks instead of {}",
                        l.tp, l.etp, l.ep, l.pp, l.etp * l.ep * l.pp, l.ep * l.pp),
            {"etp=1", fmt::format("etp={}", l.tp)});
}

void megatronSizes(const Plan& plan, const RuleScope& scope, Violations& out) {
    const std::int64_t tp = plan.layout.tp;
    if (scope.vocab && plan.model.vocab_size % (kVocabMultiple * tp) != 0)
        out.add(
            "vocab_padding",
            fmt::format("megatron pads the vocabulary {} to {}, a multiple of {} x tp {}",
                        plan.model.vocab_size,
                        roundedUp(plan.model.vocab_size, kVocabMultiple * tp), kVocabMultiple, tp));
    const AttentionSpec& a = plan.model.attention;
    if (scope.kv_heads && a.kind == AttentionKind::Gqa && tp > a.num_kv_heads &&
        tp % std::max<std::int64_t>(1, a.num_kv_heads) == 0)
        out.add("kv_heads_replicated",
                fmt::format("tp {} is more than the {} key-value heads: each is held by {} ranks; "
                            "releases before 0.16 refuse it",
                            tp, a.num_kv_heads, tp / a.num_kv_heads),
                settings("tp", {a.num_kv_heads}));
}

void megatronChoices(const Plan& plan, const RuleScope& scope, Violations& out) {
    const FrameworkOptions& o = scope.options;
    expertTensorDefault(plan, scope, out);
    megatronSizes(plan, scope, out);
    if (plan.layout.sp && plan.layout.tp == 1)
        out.add("sequence_parallel_off", "megatron turns sequence parallelism off at tp 1",
                {"sp=0"});
    if (plan.capacity_factor && o.dispatcher.empty())
        out.add("dispatcher_default",
                "no dispatcher is given: megatron's default, allgather, takes no capacity factor",
                {"dispatcher=alltoall"});
    if (o.mtp_is_zero)
        out.add("mtp_none",
                "mtp_num_layers 0 is not the same as none: some releases reject it when the "
                "expert exchange is overlapped",
                {"mtp_num_layers=none"});
    if (o.overlap_expert_comm && o.device_max_connections.value_or(0) == 1)
        out.add("device_max_connections",
                "CUDA_DEVICE_MAX_CONNECTIONS 1 gives every stream one hardware queue: the overlap "
                "gains half of what it does with 32",
                {"cuda_device_max_connections=32"});
}

}  // namespace

void silentChoices(const Plan& plan, const RuleScope& scope, Violations& out) {
    const std::int64_t pp = plan.layout.pp;
    if (plan.framework == Framework::Megatron) megatronChoices(plan, scope, out);
    if (plan.framework == Framework::Torchtitan && plan.model.mtp_num_layers > 0)
        out.add("mtp_dropped",
                fmt::format("torchtitan builds no multi-token prediction: {} layers are left out",
                            plan.model.mtp_num_layers));
    if (plan.framework == Framework::DeepSpeed && plan.layout.ep > 1 && !plan.capacity_factor)
        out.add("capacity_default",
                "deepspeed's MoE layer drops tokens over a capacity factor of 1.0 unless "
                "drop_tokens is false",
                {"capacity_factor=1.25"});
    const auto& modules = plan.recompute.modules;
    if (plan.fused_attention && plan.recompute.granularity == RecomputeGranularity::Selective &&
        std::find(modules.begin(), modules.end(), "core_attn") != modules.end())
        out.add("core_attn_saves_nothing",
                "fused attention keeps no score matrix: recomputing core_attn costs time and frees "
                "nothing",
                {"recompute_modules=moe_act,layernorm"});
    const std::int64_t step = plan.micro_batch_size * plan.layout.dp;
    if (!scope.global_batch || pp == 1 || plan.global_batch_size % step != 0) return;
    const std::int64_t m = plan.global_batch_size / step;
    if (m < pp)
        out.add(
            "few_micro_batches",
            fmt::format("{} micro-batches over pp {}: about {:.0f} % of the step is bubble", m, pp,
                        100.0 * static_cast<double>(pp - 1) /
                            static_cast<double>(m * plan.layout.vpp + pp - 1)),
            {fmt::format("global_batch_size={}", pp * step)});
}

}  // namespace piper
