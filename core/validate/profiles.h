// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "core/plan/plan.h"

namespace piper {

/// How the rows of one source are read where they are blank: one choice for all its rows, never
/// for one. Order of the table: the first whose `match` is in the source's text.
struct SourceProfile {
    std::string_view name;
    std::string_view match;
    std::string_view release = {};  ///< in the notes as well: releases of one framework differ
    Framework framework = Framework::Megatron;
    /// What its TFLOP/s and MFU count (core/model/flop_conventions.h), and where layers are
    /// recomputed in full, when that differs.
    std::string_view flops = "model_flops", flops_recompute = {};
    /// Where the experts' gate is not SiLU, when that differs.
    std::string_view flops_other_gate = {};
    /// Denominators of its MFU in TFLOP/s a device, 0: the catalogue's.
    double hopper_peak = 0.0, hopper_fp8_peak = 0.0, blackwell_peak = 0.0, blackwell_fp8_peak = 0.0;
    Overlap overlap;                      ///< overlap blank; tp holds only with tp above 1
    int zero_stage = 1;                   ///< zero blank
    std::string_view recompute = "none";  ///< recompute blank, as a row would say it
    bool most_chunks = false;  ///< vpp blank with pp: one layer a chunk, as far as layers divide
    std::int64_t micro_batch_size = 0;  ///< mbs blank: assumed and said so; 0: the row is skipped
    bool trains_mtp = false;            ///< multi-token prediction layers of models that have them
    bool fused_attention = true;
    bool fused_cross_entropy = false;
    bool bf16_gradients = false;  ///< the buffer that micro-batches add to; else the framework's
    bool fp8_parameters = false;  ///< with fp8 precisions: weights live in fp8 alone
    /// Dense two-matrix models are GPT-3's: LayerNorm, learned positions, biases, dropout 0.1, tied
    /// embeddings.
    bool gpt_layers = false;
    /// Where the table of models has none; 0: 51,200, GPT-2's padded as Megatron-LM does.
    std::int64_t vocab_size = 0;
    /// Under the schedules that put weight gradients off (OptimizerChoice::post_validation).
    bool post_validation = false;
    AllToAllLibrary all_to_all = AllToAllLibrary::Nccl;
    /// Where the experts' gate is not SiLU (GPT-OSS), when its recipes name another library.
    std::optional<AllToAllLibrary> all_to_all_other_gate = {};
    bool cuda_graphs = false;
    std::string_view kernels = {};  ///< whose published kernel times (DeviceSpec::kernels)
    std::string_view why = {};      ///< where the defaults come from
};

[[nodiscard]] std::span<const SourceProfile> sourceProfiles();
/// The profile of a source and a row's notes; the last of the table takes what no other does.
[[nodiscard]] const SourceProfile& profileOf(std::string_view source, std::string_view notes = {});

}  // namespace piper
