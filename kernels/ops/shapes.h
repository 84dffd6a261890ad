// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "core/model/model.h"
#include "kernels/ops/tensor.h"

namespace piper {

/// Causal attention of `batch` sequences packed in rows: row = sequence * seq_len + position.
/// q [batch * seq_len, num_heads * qk_head_dim], k [.., num_kv_heads * qk_head_dim],
/// v [.., num_kv_heads * v_head_dim], o [.., num_heads * v_head_dim],
/// lse [batch * num_heads * seq_len]. Query head h reads key head h / (num_heads / num_kv_heads).
struct AttentionShape {
    std::int64_t batch = 1;
    std::int64_t seq_len = 1;
    std::int64_t num_heads = 1;
    std::int64_t num_kv_heads = 1;
    std::int64_t qk_head_dim = 1;
    std::int64_t v_head_dim = 1;
    std::int64_t sliding_window = 0;  ///< keys a query sees, itself included; 0 for all before it

    [[nodiscard]] std::int64_t rows() const { return batch * seq_len; }
    [[nodiscard]] std::int64_t lseSize() const { return batch * num_heads * seq_len; }
    [[nodiscard]] float scale() const { return 1.0F / std::sqrt(static_cast<float>(qk_head_dim)); }
};

/// Rotary embedding over heads, halves rotated against each other (the Hugging Face layout):
/// element i of a head turns with element i + head_dim / 2. Position of a row is row % seq_len.
struct RotaryShape {
    std::int64_t seq_len = 1;
    std::int64_t num_heads = 1;
    std::int64_t head_dim = 2;  ///< even
    double theta = 10000.0;
    /// Only head_dim elements of each head turn, from `first` on; heads lie `stride` apart
    /// (0: head_dim).
    std::int64_t stride = 0;
    std::int64_t first = 0;

    [[nodiscard]] std::int64_t headStride() const { return stride > 0 ? stride : head_dim; }
};

/// Scoring and selection of a router. Ties go to the lower expert number.
/// With a bias, experts are chosen by score plus bias and weighed by their score alone
/// (DeepSeek-V3). Group limit: only the topk_groups groups (equal, in expert order) of highest
/// score count, that of a group being its best expert's, with a bias the sum of its best two
/// (DeepSeek-V2, V3). Node limit: the same of the nodes that hold the experts, by the sum of a
/// node's best router_topk / node_limit.
struct RouterShape {
    std::int64_t num_experts = 1;
    std::int64_t router_topk = 1;
    ScoringFunction scoring = ScoringFunction::Softmax;
    bool norm_topk_prob = false;  ///< the chosen weights are divided by their sum
    double routed_scaling_factor = 1.0;
    std::int64_t num_groups = 1;
    std::int64_t topk_groups = 1;
    ConstVector bias = {};             ///< [E]; empty for none
    ConstIndices node_of_expert = {};  ///< [E]; empty without node limit
    std::int64_t node_limit = 0;
};

/// Choose: the router picks the top-k. Replay: the experts are given, their weights still follow
/// from the logits.
enum class RouterMode { Choose, Replay };

struct AdamWParameters {
    double learning_rate = 1e-3;
    double beta1 = 0.9;
    double beta2 = 0.95;
    double epsilon = 1e-8;
    double weight_decay = 0.1;
    std::int64_t step = 1;        ///< 1 at the first update
    double gradient_scale = 1.0;  ///< gradients are multiplied by it first (clipping, averaging)
};

}  // namespace piper
