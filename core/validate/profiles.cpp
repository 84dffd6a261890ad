// SPDX-License-Identifier: Apache-2.0
#include "core/validate/profiles.h"

#include "core/validate/free_text.h"

namespace piper {

namespace {

constexpr Overlap kNone{false, true, false, true, false, false};
/// NVIDIA's recipes: userbuffers, asynchronous messages, bucketed gradients and parameters.
constexpr Overlap kRecipe{true, true, false, true, true, true};
/// The same with dispatch and combine behind another micro-batch (moe_a2a_overlap).
constexpr Overlap kRecipeEp{true, true, true, true, true, true};
/// Distributed optimizer with bucketed gradients and parameters, no userbuffers.
constexpr Overlap kBuckets{false, true, false, true, true, true};
constexpr Overlap kFsdp{false, false, false, true, true, true};
/// Megatron-LM of its time without options: 1F1B waits for its messages.
constexpr Overlap kBlocking{false, true, false, false, false, false};

constexpr SourceProfile kProfiles[] = {
    {.name = "bridge-skill-overlap",
     .match = "skills/nemo-mbridge-perf-expert-parallel-overlap",
     .overlap = kBuckets,
     .trains_mtp = true,
     .fused_cross_entropy = true,
     .bf16_gradients = true,
     .fp8_parameters = true,
     .cuda_graphs = true,
     .why = "one recipe with and without the overlap: router and preprocessing as graphs"},
    {.name = "bridge-skill",
     .match = "skills/nemo-mbridge-perf",
     .overlap = kBuckets,
     .trains_mtp = true,
     .fused_cross_entropy = true,
     .bf16_gradients = true,
     .fp8_parameters = true,
     .why = "MoE recipes of Megatron-Bridge: distributed optimizer, all-to-all unless named"},
    {.name = "megatron-bridge-26.06",
     .match = "megatron-bridge",
     .release = "26.06 nemo|26.06.01 nemo|26.08 nemo",
     .overlap = kRecipeEp,
     .trains_mtp = true,
     .fused_cross_entropy = true,
     .bf16_gradients = true,
     .fp8_parameters = true,
     .all_to_all = AllToAllLibrary::HybridEp,
     .cuda_graphs = true,
     .why = "performance recipes of the releases from 26.06: as before, exchanges behind another "
            "micro-batch (moe_a2a_overlap), graphs"},
    {.name = "megatron-bridge",
     .match = "megatron-bridge",
     .flops_other_gate = "bridge_two_matrix_experts",
     .overlap = kRecipe,
     .trains_mtp = true,
     .fused_cross_entropy = true,
     .bf16_gradients = true,
     .fp8_parameters = true,
     .all_to_all = AllToAllLibrary::HybridEp,
     .all_to_all_other_gate = AllToAllLibrary::Nccl,
     .why = "performance recipes (scripts/performance/configs): userbuffers with tp, dropless, "
            "HybridEP dispatch; GPT-OSS's name no flex dispatcher"},
    {.name = "nemo",
     .match = "nvidia/nemo/",
     .flops = "full_attention",
     .overlap = kRecipe,
     .fused_cross_entropy = true,
     .bf16_gradients = true,
     .why = "NeMo performance recipes: userbuffers with tp, distributed optimizer"},
    {.name = "dgxc-maxtext",
     .match = "dgxc-benchmarking/blob/v24.11.1/maxtext",
     .framework = Framework::Torchtitan,
     .hopper_peak = 989,
     .hopper_fp8_peak = 1979,
     .overlap = kFsdp,
     .zero_stage = 3,
     .recompute = "mlp",
     .why = "MaxText: fsdp mesh axis, remat policy that saves projections, not the MLP"},
    {.name = "dgxc",
     .match = "dgxc-benchmarking",
     .flops = "full_attention",
     .hopper_peak = 989,
     .hopper_fp8_peak = 1979,
     .blackwell_peak = 2450,
     .blackwell_fp8_peak = 4900,
     .overlap = kRecipe,
     .fused_cross_entropy = true,
     .why =
         "README tables; whole attention square; peaks H100 989/1979, GB200 and GB300 2450/4900"},
    {.name = "dgxc-oci",
     .match = "oci gb300 guide",
     .blackwell_peak = 2450,
     .blackwell_fp8_peak = 4900,
     .overlap = kRecipe,
     .fused_cross_entropy = true,
     .all_to_all = AllToAllLibrary::HybridEp,
     .why = "dgxc-benchmarking recipes on another cloud"},
    {.name = "parallel-folding",
     .match = "2504.14960",
     .flops = "parallel_folding",
     .hopper_peak = 989.5,
     .overlap = kBuckets,
     .most_chunks = true,
     .micro_batch_size = 1,
     .why = "Megatron-Core of the paper: 3 x forward, whole attention square, peak 989.5; "
            "micro-batch size 1 assumed"},
    {.name = "megatron-lm",
     .match = "nvidia/megatron-lm",
     .overlap = kBuckets,
     .why = "Megatron-Core MoE README: distributed optimizer with overlap"},
    {.name = "calculon",
     .match = "calculon",
     .flops = "full_attention",
     .overlap = {false, true, false, true, false, false},
     .zero_stage = 0,
     .fused_attention = false,
     .gpt_layers = true,
     .why = "Megatron-LM of 2022 (arXiv 2205.05198): no overlap, unfused attention"},
    {.name = "sequence-parallel",
     .match = "2205.05198",
     .flops = "full_attention",
     .overlap = {false, true, false, true, false, false},
     .zero_stage = 0,
     .fused_attention = false,
     .gpt_layers = true,
     .why = "as calculon's rows"},
    {.name = "sc21",
     .match = "2104.04473",
     .flops = "sc21_model",
     .flops_recompute = "sc21",
     .overlap = kBlocking,
     .zero_stage = 0,
     .recompute = "full",
     .fused_attention = false,
     .gpt_layers = true,
     .why = "Megatron-LM of 2021: equation 3 counts the forward twice"},
    {.name = "zero-bubble",
     .match = "2401.10241",
     .flops = "full_attention",
     .overlap = {false, true, false, true, false, false},
     .zero_stage = 0,
     .fused_attention = false,
     .gpt_layers = true,
     .vocab_size = 32000,
     .post_validation = true,
     .why = "sail-sg/zero-bubble: batched messages beside compute, no data parallelism; optimizer "
            "post-validation; the printed sizes of its models leave room for a vocabulary of "
            "27,000 to 35,000: SentencePiece's usual 32,000"},
    {.name = "megascale",
     .match = "2402.15627",
     .flops = "full_attention",
     .overlap = kBlocking,
     .recompute = "core_attn",
     .why = "arXiv 2402.15627: its base is Megatron-LM, each row names what it adds"},
    {.name = "megascale-moe",
     .match = "2505.11432",
     .overlap = kBuckets,
     .why = "arXiv 2505.11432"},
    {.name = "llama3",
     .match = "2407.21783",
     .framework = Framework::Torchtitan,
     .overlap = kFsdp,
     .why = "arXiv 2407.21783: FSDP without resharding, asynchronous point to point"},
    {.name = "x-moe",
     .match = "2508.13337",
     .framework = Framework::DeepSpeed,
     .overlap = {false, false, false, false, false, false},
     .why = "DeepSpeed without overlap_comm"},
    {.name = "simumax",
     .match = "simumax",
     .overlap = kNone,
     .fused_cross_entropy = true,
     .kernels = "te",
     .why = "every overlap off, fused cross-entropy; as the rows say"},
    {.name = "torchtitan",
     .match = "torchtitan",
     .framework = Framework::Torchtitan,
     .flops = "palm",
     .overlap = kFsdp,
     .zero_stage = 3,
     .why = "torchtitan: fully_shard with prefetch"},
    {.name = "llm-foundry",
     .match = "llm-foundry",
     .framework = Framework::Torchtitan,
     .flops = "llm_foundry",
     .overlap = kFsdp,
     .zero_stage = 3,
     .why = "llm-foundry: FSDP; 6 N and the whole attention square"},
    {.name = "internevo",
     .match = "internevo",
     .framework = Framework::Plain,
     .flops = "intern_evo",
     .flops_recompute = "intern_evo_recompute",
     .overlap = {false, false, false, true, true, false},
     .why = "InternEvo: ZeRO-1, gradients overlapped (overlap_sync_grad), parameters not; SC21's "
            "formula"},
    {.name = "other",
     .match = "",
     .overlap = kBuckets,
     .why = "Megatron-LM with the distributed optimizer and bucketed overlap"},
};

/// Any of the words between bars; no word is every release.
bool releaseIs(std::string_view notes, std::string_view words) {
    if (words.empty()) return true;
    while (!words.empty()) {
        const std::size_t bar = words.find('|');
        if (mentions(notes, words.substr(0, bar))) return true;
        words = bar == std::string_view::npos ? std::string_view() : words.substr(bar + 1);
    }
    return false;
}

}  // namespace

std::span<const SourceProfile> sourceProfiles() {
    return kProfiles;
}

const SourceProfile& profileOf(std::string_view source, std::string_view notes) {
    for (const SourceProfile& profile : kProfiles)
        if (mentions(source, profile.match) && releaseIs(notes, profile.release)) return profile;
    return kProfiles[std::size(kProfiles) - 1];
}

}  // namespace piper
