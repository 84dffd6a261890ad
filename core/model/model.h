// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/enum_text.h"
#include "core/base/index.h"
#include "core/base/json_fwd.h"
#include "core/base/result.h"
#include "core/base/units.h"

namespace piper {

enum class AttentionKind {
    Gqa,
    Mla
};  ///< multi-head attention is Gqa with num_kv_heads == num_heads
enum class MlpKind { SwiGlu, TwoMatrix };  ///< 3 or 2 weight matrices
enum class ScoringFunction { Softmax, Sigmoid };
enum class LayerKind { Dense, Moe };
enum class NormKind { RmsNorm, LayerNorm };   ///< LayerNorm has a bias and a mean
enum class PositionKind { Rotary, Learned };  ///< Learned: a table of max_position_embeddings

/// Attention of every layer. Head sizes in elements; MLA fields are 0 for Gqa.
struct AttentionSpec {
    AttentionKind kind = AttentionKind::Gqa;
    std::int64_t num_heads = 1;
    std::int64_t num_kv_heads = 1;
    std::int64_t head_dim = 0;     ///< Gqa: of query, key and value
    std::int64_t q_lora_rank = 0;  ///< Mla: 0 when the query is not compressed
    std::int64_t kv_lora_rank = 0;
    std::int64_t qk_nope_head_dim = 0;
    std::int64_t qk_rope_head_dim = 0;
    std::int64_t v_head_dim = 0;
    std::int64_t sliding_window = 0;  ///< tokens, 0 for full causal attention
    /// Layers without the window, ascending (GPT-OSS alternates); empty: every layer has it.
    std::vector<std::int64_t> full_attention_layers;
    bool qk_norm = false;       ///< RMSNorm on each query and key head
    bool qk_norm_full = false;  ///< RMSNorm over all query heads, all key heads (OLMoE)
    bool qkv_bias = false;
    bool output_bias = false;

    [[nodiscard]] std::int64_t qkHeadDim() const {
        return kind == AttentionKind::Mla ? qk_nope_head_dim + qk_rope_head_dim : head_dim;
    }
    [[nodiscard]] std::int64_t vHeadDim() const {
        return kind == AttentionKind::Mla ? v_head_dim : head_dim;
    }
    bool operator==(const AttentionSpec&) const = default;
};

/// The MoE block of a MoE layer.
struct MoeSpec {
    std::int64_t num_experts = 1;  ///< routed experts of a layer
    std::int64_t router_topk = 1;
    std::int64_t moe_ffn_hidden_size = 1;     ///< intermediate size of one routed expert
    std::int64_t shared_ffn_hidden_size = 0;  ///< of all shared experts together, 0 without
    MlpKind mlp = MlpKind::SwiGlu;
    ScoringFunction scoring = ScoringFunction::Softmax;
    bool norm_topk_prob = false;
    double routed_scaling_factor = 1.0;
    std::int64_t num_groups = 1;   ///< group-limited routing (n_group)
    std::int64_t topk_groups = 1;  ///< groups a token may reach (topk_group)
    double aux_loss_coefficient = 0.0;
    bool shared_gate = false;          ///< sigmoid gate on the shared experts' output (Qwen2-MoE)
    bool expert_bias_routing = false;  ///< one correction bias per expert (DeepSeek-V3 noaux_tc)
    bool operator==(const MoeSpec&) const = default;
};

/// A dense or MoE causal language model. Holds no device and no parallel degree.
struct ModelSpec {
    std::string name;
    std::string model_type;  ///< of the config.json, or "piper"
    std::int64_t hidden_size = 1;
    std::int64_t num_layers = 1;
    std::int64_t vocab_size = 1;
    std::int64_t ffn_hidden_size = 0;  ///< intermediate size of a dense layer, 0 without
    MlpKind dense_mlp = MlpKind::SwiGlu;
    AttentionSpec attention;
    std::optional<MoeSpec> moe;
    std::vector<LayerKind> layers;  ///< [num_layers]
    bool tie_word_embeddings = false;
    std::int64_t mtp_num_layers = 0;  ///< multi-token prediction layers after the last
    std::int64_t max_position_embeddings = 0;
    double rms_norm_eps = 1e-5;
    double rope_theta = 10000.0;
    NormKind norm = NormKind::RmsNorm;
    PositionKind position = PositionKind::Rotary;
    bool mlp_bias = false;  ///< of dense MLPs and of experts
    double dropout = 0.0;   ///< probability, of hidden states and of attention; 0 keeps no masks

    [[nodiscard]] bool isMoe(LayerId layer) const {
        return layers[layer.index()] == LayerKind::Moe;
    }
    [[nodiscard]] std::int64_t numMoeLayers() const;
    /// Elements of one norm over hidden_size.
    [[nodiscard]] std::int64_t normElements() const {
        return norm == NormKind::LayerNorm ? 2 * hidden_size : hidden_size;
    }
    /// Elements of the table of learned positions, 0 with rotary ones.
    [[nodiscard]] std::int64_t positionElements() const {
        return position == PositionKind::Learned ? max_position_embeddings * hidden_size : 0;
    }
    /// Share of the layers that have the sliding window: 0 without one.
    [[nodiscard]] double windowShare() const;
    bool operator==(const ModelSpec&) const = default;
};

/// Reads a Hugging Face config.json (Mixtral, OLMoE, Qwen2/3-MoE, DeepSeek-V2/V3 and the dense
/// Llama, Mistral and Qwen kinds) or our own JSON of the same meaning (`format_version` present).
/// Errors: InvalidInput names the field, its value and the rule; Unsupported an unknown model_type.
[[nodiscard]] Result<ModelSpec> readModel(const Json& json, std::string_view where);
[[nodiscard]] Result<ModelSpec> readModelText(std::string_view text, std::string_view where);
/// Our own JSON; readModel(writeModel(m)) == m.
[[nodiscard]] Json writeModel(const ModelSpec& model);
/// Every broken rule of the numbers themselves (heads, top-k over experts, sizes); empty when
/// sound.
[[nodiscard]] std::vector<Error> checkModel(const ModelSpec& model);

/// The same rules; `names` turns a field of ModelSpec ("moe.router_topk") to the name its file
/// uses.
using FieldNames = std::function<std::string(std::string_view field)>;
[[nodiscard]] std::vector<Error> checkModelNamed(const ModelSpec& model, const FieldNames& names);
/// model_type values readModel knows, and our own.
[[nodiscard]] std::vector<std::string_view> knownModelTypes();

/// Parameters of one transformer layer by term, in elements.
struct LayerParameters {
    std::int64_t attention = 0;  ///< all projections, with biases and MLA's inner norms
    std::int64_t norms = 0;
    std::int64_t dense_mlp = 0;  ///< dense layers only
    std::int64_t router = 0;
    std::int64_t routed_experts = 0;  ///< all routed experts of the layer
    std::int64_t shared_experts = 0;

    [[nodiscard]] std::int64_t total() const {
        return attention + norms + dense_mlp + router + routed_experts + shared_experts;
    }
};

struct ModelParameters {
    std::int64_t embedding = 0;  ///< with learned positions
    std::int64_t head = 0;       ///< 0 when tied
    std::int64_t final_norm = 0;
    std::int64_t layers = 0;      ///< sum over layers
    std::int64_t mtp = 0;         ///< multi-token prediction layers: block, projection, norms
    std::int64_t mtp_active = 0;  ///< of mtp, per token
    std::int64_t total = 0;       ///< with mtp
    std::int64_t active = 0;      ///< with mtp_active; router_topk of num_experts routed experts
};

/// Weight matrices of one MLP: 3 for SwiGLU (gate, up, down), 2 otherwise.
[[nodiscard]] constexpr std::int64_t mlpMatrices(MlpKind kind) {
    return kind == MlpKind::SwiGlu ? 3 : 2;
}
[[nodiscard]] std::int64_t attentionParameters(const ModelSpec& model);
/// One routed expert.
[[nodiscard]] std::int64_t expertParameters(const ModelSpec& model);
[[nodiscard]] LayerParameters layerParameters(const ModelSpec& model, LayerKind kind);
[[nodiscard]] ModelParameters modelParameters(const ModelSpec& model);

/// FLOPs of the forward pass of one token through one layer or the head, by term; a multiply-add is
/// two; element-wise work, norms and the embedding look-up count nothing. Attention over a context
/// of seq_len: half of it when causal, less under a sliding window (the mean over the layers
/// where only some have it).
/// Source: Megatron-LM's count with the causal half; tests/core/model checks it against published
/// GFLOP per token of Qwen3-30B-A3B, Qwen3-235B-A22B and DeepSeek-V3.
struct TokenFlops {
    Flops attention_projections;
    Flops attention_core;
    Flops dense_mlp;
    Flops router;
    Flops routed_experts;
    Flops shared_experts;
    Flops mtp_projection;  ///< [2 hidden, hidden] of each multi-token prediction layer
    Flops head;            ///< once more for each multi-token prediction layer

    [[nodiscard]] Flops total() const {
        return attention_projections + attention_core + dense_mlp + router + routed_experts +
               shared_experts + mtp_projection + head;
    }
};

enum class AttentionCount { CausalHalf, Full };

[[nodiscard]] TokenFlops layerForwardFlops(const ModelSpec& model, LayerKind kind,
                                           std::int64_t seq_len, AttentionCount count);
[[nodiscard]] Flops headForwardFlops(const ModelSpec& model);
/// Model FLOPs of one token of training, forward and backward (3 x forward), head counted,
/// embedding look-up and recompute not. Sum over layers, with multi-token prediction.
[[nodiscard]] TokenFlops modelFlopsPerToken(const ModelSpec& model, std::int64_t seq_len,
                                            AttentionCount count = AttentionCount::CausalHalf);

}  // namespace piper
