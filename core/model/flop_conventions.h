// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/model/model.h"

namespace piper {

/// What a source counts when it prints TFLOP/s or MFU. docs/formulas.md, "Conventions of FLOPs".
struct FlopConvention {
    std::string_view name;
    std::string_view source;
    AttentionCount attention = AttentionCount::CausalHalf;
    bool sliding_window = true;  ///< false: windows are passed over
    bool gated_experts = true;   ///< false: an expert counts two matrices even when it has three
    bool mtp = true;             ///< multi-token prediction layers
    /// 6 x parameters (embedding, positions, norms and biases with them) instead of the GEMMs.
    bool six_n = false;
    double layer_passes = 3.0;  ///< forward and backward; 4 counts a recomputed forward
    double head_passes = 3.0;
    bool attention_core = true;  ///< false: scores and values are not counted
};

/// The named conventions: model_flops (ours; Megatron-LM, Megatron-Bridge), full_attention (NeMo),
/// bridge_two_matrix_experts, parallel_folding, sc21, sc21_model, intern_evo, intern_evo_recompute,
/// llm_foundry, palm, adapters.
[[nodiscard]] const std::vector<FlopConvention>& flopConventions();
/// Errors: NotFound names the nearest known one.
[[nodiscard]] Result<FlopConvention> findFlopConvention(std::string_view name);

/// One line: FLOPs of one token of one forward pass, times `passes`, is its training share.
struct FlopTerm {
    std::string_view name;  ///< "attention core"
    std::string formula;    ///< with its numbers: "2 (qk + v) heads x mean context x layers"
    Flops forward;          ///< of all layers
    double passes = 3.0;
    [[nodiscard]] Flops training() const { return forward * passes; }
};
struct FlopTable {
    std::vector<FlopTerm> terms;
    [[nodiscard]] Flops total() const;
};

/// FLOPs of one token under a convention, term by term; lines of 0 are left out.
[[nodiscard]] FlopTable flopTable(const ModelSpec& model, std::int64_t seq_len,
                                  const FlopConvention& convention);

/// Hardware FLOPs: the model's, with the forward of what is computed again. `recomputed_layers` of
/// the model's layers run their forward twice (full recompute); the head once.
[[nodiscard]] Flops hardwareFlopsPerToken(const ModelSpec& model, std::int64_t seq_len,
                                          std::int64_t recomputed_layers,
                                          AttentionCount count = AttentionCount::CausalHalf);

}  // namespace piper
